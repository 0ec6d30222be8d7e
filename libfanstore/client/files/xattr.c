/* SPDX-License-Identifier: BSD-3-Clause */
/* The extended attributes of a dataset's files, user.fanstore.*, which are made up when they are
   asked for; see info.h. Datasets have no others. */
#include <string.h>

#include "client/data_priv.h"
#include "client/files/info.h"
#include "client/path/vdir.h"

#define FS_XATTR_PREFIX "user.fanstore."
#define FS_XATTR_VALUE PATH_MAX
#define FS_XATTR_ITEMS 64u /* of a list; "..." stands for more */

struct fs_text {
  size_t len;
  char at[FS_XATTR_VALUE];
};

static void text_add(struct fs_text *t, const char *s) {
  size_t n = FS_MIN(strlen(s), sizeof(t->at) - t->len);
  memcpy(t->at + t->len, s, n);
  t->len += n;
}
static void text_number(struct fs_text *t, uint64_t v) {
  char number[FS_U64_TEXT];
  text_add(t, fs_u64_text(v, number));
}

enum fs_list { FS_LIST_NODE, FS_LIST_PLACE, FS_LIST_PARTITION };

static uint32_t list_value(const struct fs_dataset *ds, enum fs_list what, uint32_t partition) {
  bool local = fs_is_local(ds, partition), remote = fs_is_remote(ds, partition);
  if (what == FS_LIST_PARTITION) return partition;
  if (what == FS_LIST_PLACE) return local ? FANSTORE_LOCAL : remote ? FANSTORE_REMOTE : FANSTORE_SHARED;
  return local || remote ? ds->placement[partition].owner[0] : UINT32_MAX;
}

static void list_item(struct fs_text *t, enum fs_list what, uint32_t value) {
  if (what == FS_LIST_PLACE)
    text_add(t, value == FANSTORE_LOCAL ? "local" : value == FANSTORE_REMOTE ? "remote" : "shared");
  else if (value == UINT32_MAX)
    text_add(t, "shared");
  else
    text_number(t, value);
}

/* Lists a property of the file's blocks, each value once, in the order of the blocks. */
static fs_err list_blocks(const struct fs_dataset *ds, uint32_t entry, enum fs_list what, struct fs_text *t) {
  uint32_t seen[FS_XATTR_ITEMS];
  unsigned n = 0, k;
  uint64_t blocks = fs_index_block_count(&ds->ix, fs_index_entry(&ds->ix, entry));
  for (uint64_t i = 0; i < blocks; i++) {
    struct fs_block b;
    fs_err err = fs_index_block(&ds->ix, entry, i, &b);
    if (err < 0) return err;
    uint32_t value = list_value(ds, what, b.partition);
    for (k = 0; k < n && seen[k] != value; k++) continue;
    if (k < n) continue;
    if (n > 0) text_add(t, ",");
    if (n == FS_XATTR_ITEMS) {
      text_add(t, "...");
      return 0;
    }
    seen[n++] = value;
    list_item(t, what, value);
  }
  return n > 0 ? 0 : -ENODATA; /* an empty file is nobody's */
}

static fs_err value_of_file(const struct fs_dataset *ds, uint32_t entry, const char *key, struct fs_text *t) {
  struct fanstore_info info;
  if (strcmp(key, "node") == 0) return list_blocks(ds, entry, FS_LIST_NODE, t);
  if (strcmp(key, "place") == 0) return list_blocks(ds, entry, FS_LIST_PLACE, t);
  if (strcmp(key, "partition") == 0) return list_blocks(ds, entry, FS_LIST_PARTITION, t);
  bool codec = strcmp(key, "codec") == 0;
  if (!codec && strcmp(key, "stored_size") != 0) return -ENODATA;
  fs_err err = fs_info_entry(ds->mount, entry, &info);
  if (err < 0) return err;
  if (codec)
    text_add(t, info.codec);
  else
    text_number(t, info.stored_bytes);
  return 0;
}

/* Symlinks have no attributes of users, as on any file system. Directories have those of the whole
   dataset. */
static fs_err value_of(const struct fs_dataset *ds, uint32_t entry, const char *key, struct fs_text *t) {
  const struct fs_entry *e = fs_index_entry(&ds->ix, entry);
  size_t len;
  if (!e) return -EUCLEAN;
  if (S_ISLNK(e->mode)) return -ENODATA;
  if (strcmp(key, "dataset") == 0) return text_add(t, ds->shared), 0;
  if (strcmp(key, "mount") == 0) return text_add(t, fs_mount_path(ds->mount, &len)), 0;
  return S_ISREG(e->mode) ? value_of_file(ds, entry, key, t) : -ENODATA;
}

fs_ssize fs_file_getxattr(uint32_t mount, uint32_t entry, const char *name, void *value, size_t n) {
  struct fs_text t;
  fs_err err = 0;
  t.len = 0;
  if (!name) return -EFAULT;
  size_t len = strlen(name);
  if (len == 0 || len > 255) return -ERANGE;
  if (strncmp(name, FS_XATTR_PREFIX, strlen(FS_XATTR_PREFIX)) != 0) return -ENODATA;
  if (fs_is_vdir(entry) || fs_is_output(entry)) return -ENODATA;
  const struct fs_dataset *ds = fs_dataset(mount, &err);
  if (!ds) return err;
  err = value_of(ds, entry, name + strlen(FS_XATTR_PREFIX), &t);
  if (err < 0) return err;
  if (n == 0) return (fs_ssize)t.len;
  if (n < t.len) return -ERANGE;
  if (!value) return -EFAULT;
  memcpy(value, t.at, t.len);
  return (fs_ssize)t.len;
}
