/* SPDX-License-Identifier: BSD-3-Clause */
/* The flat list of mount prefixes (mounts.h), and questions about names that need no look-up. */
#include "client/path/path.h"

#include <unistd.h>

#include "client/outputs/outputs.h"
#include "client/path/vdir.h"
#include "util/util.h"

struct fs_mount_prefix fs_mount_list[FS_MOUNT_NAMES];
_Atomic int32_t fs_mount_listed = -1;

static bool is_below(uint32_t k, uint32_t i) {
  return fs_path_below(fs_mount_list[k].path, fs_mount_list[k].len, fs_mount_list[i].path, fs_mount_list[i].len) > 0;
}

uint32_t fs_mount_list_fill(void) {
  uint32_t n = FS_MIN(fs_mount_names(), FS_MOUNT_NAMES);
  for (uint32_t i = 0; i < n; i++) {
    struct fs_mount_prefix *m = &fs_mount_list[i];
    m->path = fs_mount_path(i, &m->len);
    if (m->path == NULL) m->path = "", m->len = 0;
    m->key = fs_xxh3(m->path, m->len);
    m->canonical = fs_mount_canonical(i);
  }
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < n; k++)
      if (fs_mount_list[k].len > fs_mount_list[i].len && is_below(k, i)) fs_mount_list[i].outer = true;
  if (n > 0) fs_mount_filter_fill(n);
  /* An allocator, for example, may call this before libc has set the environment, which is then not
     known yet. */
  if (environ != NULL) atomic_store_explicit(&fs_mount_listed, (int32_t)n, memory_order_release);
  return n;
}

const struct fs_index *_Atomic fs_mount_known[FS_MOUNT_NAMES];

const struct fs_index *fs_mount_ix_slow(uint32_t i, fs_err *err) {
  *err = -EIO;
  if (i >= fs_mount_count()) return NULL;
  const struct fs_index *ix = fs_mount_index(i, err);
  if (ix != NULL) atomic_store_explicit(&fs_mount_known[i], ix, memory_order_release);
  return ix;
}

static fs_ssize vdir_path_of(uint32_t mount, uint32_t entry, char *buf, size_t size) {
  const char *path;
  size_t len;
  if (!fs_vdir_path(mount, entry, &path, &len)) return -EUCLEAN;
  if (len + 1 > size) return -ENAMETOOLONG;
  memcpy(buf, path, len);
  buf[len] = '\0';
  return (fs_ssize)len;
}

fs_ssize fs_path_of(uint32_t mount, uint32_t entry, char *buf, size_t size) {
  fs_err err;
  if (fs_is_vdir(entry)) return vdir_path_of(mount, entry, buf, size);
  if (fs_is_output(entry)) return fs_output_path_of(mount, entry, buf, size);
  const struct fs_index *ix = fs_mount_ix(mount, &err);
  if (ix == NULL) return err;
  const struct fs_mount_prefix *m = &fs_mount_list[fs_mount_list[mount].canonical];
  if (m->len + 2 > size) return -ENAMETOOLONG;
  memcpy(buf, m->path, m->len + 1);
  if (entry == FS_ROOT) return (fs_ssize)m->len;
  buf[m->len] = '/';
  fs_ssize n = fs_index_path(ix, entry, buf + m->len + 1, size - m->len - 1);
  return n < 0 ? n : (fs_ssize)m->len + 1 + n;
}

bool fs_path_is_ancestor(const char *path) {
  char norm[PATH_MAX];
  uint32_t mount, entry;
  fs_ssize n = fs_path_normalize(path, norm, sizeof(norm));
  return n > 0 && fs_vdir_find(norm, n == 1 ? 0 : (size_t)n, &mount, &entry);
}
