/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists directories of a dataset. Record 0 is ".", record 1 is "..", and the rest are the children,
 * a sorted run of the index. Outputs and names of this node follow (outputs/list.c). The position
 * is the number of the next record. It lies in the open file's slot, or, with fanstore-static, in
 * the kernel. Lock-free.
 */
#include <dirent.h>

#include "client/files/files.h"
#include "client/names/overlay.h"
#include "client/outputs/outputs.h"
#include "client/path/vdir.h"

/* Gets name i of those that mounts put into a directory whose path is known, without the dataset's
   own names. */
static fs_err mount_record(const char *path, size_t len, const struct fs_index *ix, uint32_t dir, uint64_t i,
                           struct fs_dirent_view *out) {
  const char *name;
  size_t n;
  for (uint32_t k = 0; (n = fs_vdir_child(path, len, k, &name)) > 0; k++) {
    if (ix != NULL && fs_index_child(ix, dir, name, n) >= 0) continue;
    if (i-- > 0) continue;
    *out = (struct fs_dirent_view){
        .ino = fs_vdir_ino(name - len - 1, len + 1 + n), .name = name, .name_len = (uint32_t)n, .type = DT_DIR};
    return 0;
  }
  return -ENOENT;
}

static struct fs_dirent_view dots(uint64_t i, uint64_t self, uint64_t parent) {
  return (struct fs_dirent_view){
      .ino = i == 0 ? self : parent, .name = "..", .name_len = (uint32_t)i + 1, .type = DT_DIR};
}

static fs_err vdir_record(uint32_t mount, uint32_t dir, uint64_t i, struct fs_dirent_view *out) {
  const char *path;
  size_t len;
  if (!fs_vdir_path(mount, dir, &path, &len)) return -EUCLEAN;
  if (i >= 2) return mount_record(path, len, NULL, 0, i - 2, out);
  size_t up = len;
  while (up > 0 && path[--up] != '/') {
  }
  *out = dots(i, fs_vdir_ino(path, len), fs_vdir_ino(path, up));
  return 0;
}

static fs_err nested_record(const struct fs_index *ix, uint32_t mount, uint32_t dir, uint64_t i,
                            struct fs_dirent_view *out) {
  char path[PATH_MAX];
  fs_ssize n = fs_mount_list[mount].outer ? fs_path_of(mount, dir, path, sizeof(path)) : -ENOENT;
  return n < 0 ? -ENOENT : mount_record(path, (size_t)n, ix, dir, i, out);
}

/* Gets record i of an output directory. */
static fs_err out_record(uint32_t mount, uint32_t dir, uint64_t i, struct fs_dirent_view *out) {
  struct stat up;
  const struct fs_output_node *n = fs_output_node(dir), *above;
  if (n == NULL || i >= 2) return n == NULL ? -EUCLEAN : -ENOENT;
  uint32_t parent = fs_output_up(mount, dir);
  if (fs_is_output(parent)) {
    above = fs_output_node(parent);
    up.st_ino = above == NULL ? 0 : atomic_load_explicit(&above->id, memory_order_relaxed);
  } else {
    fs_err err = fs_file_stat(mount, parent, &up);
    if (err != 0) return err;
  }
  *out = dots(i, atomic_load_explicit(&n->id, memory_order_relaxed), up.st_ino);
  return 0;
}

/* Sets what has the dataset's name in *out by now. Returns 1 if the name was removed. */
static __attribute__((noinline)) int taken_record(uint32_t mount, uint32_t dir, struct fs_dirent_view *out) {
  struct fs_answer a;
  const struct fs_record *r;
  if (!fs_overlay_maybe(mount, dir, out->name, out->name_len)) return 0;
  fs_err err = fs_output_find(fs_output_dir_id(mount, dir), out->name, out->name_len, &a, &r);
  if (err != 0) return err == -ENOENT ? 0 : err;
  out->ino = r->id;
  out->type = (uint8_t)IFTODT(r->mode);
  return fs_is_whiteout(r);
}

int fs_dir_record(uint32_t mount, uint32_t dir, uint64_t i, struct fs_dirent_view *out) {
  uint32_t first;
  uint64_t count;
  fs_err err;
  if (fs_is_vdir(dir)) return vdir_record(mount, dir, i, out);
  if (fs_is_output(dir)) return out_record(mount, dir, i, out);
  const struct fs_index *ix = fs_mount_ix(mount, &err);
  if (ix == NULL) return err < 0 ? err : -EIO;
  const struct fs_entry *d = fs_index_entry(ix, dir);
  if (d == NULL) return -EUCLEAN;
  if (i < 2) {
    *out = dots(i, fs_index_ino(ix, dir), fs_index_ino(ix, d->parent));
    return 0;
  }
  err = fs_index_children(ix, dir, &first, &count);
  if (err < 0) return err;
  if (i - 2 >= count) return nested_record(ix, mount, dir, i - 2 - count, out);
  const struct fs_entry *e = fs_index_entry(ix, first + (i - 2));
  if (e == NULL) return -EUCLEAN;
  out->ino = fs_index_ino(ix, (uint32_t)(first + (i - 2)));
  out->type = (uint8_t)IFTODT(e->mode);
  err = fs_index_name(ix, e, &out->name, &out->name_len);
  return err != 0 || S_ISDIR(e->mode) || FS_LIKELY(!fs_overlay_any()) ? err : taken_record(mount, dir, out);
}

fs_ssize fs_dir_list(uint32_t mount, uint32_t dir, uint64_t *at, void *buf, size_t n) {
  struct fs_dirent_view v;
  size_t used = 0;
  for (;; ++*at) {
    int err = *at >= FS_OUTPUT_AT ? -ENOENT : fs_dir_record(mount, dir, *at, &v);
    if (err == -ENOENT) break;
    if (err > 0) continue;
    size_t len = err != 0 ? 0 : fs_dirent_put((char *)buf + used, n - used, &v, *at + 1);
    if (len == 0) return used > 0 ? (fs_ssize)used : err != 0 ? err : -EINVAL;
    used += len;
  }
  fs_ssize more = fs_output_list(mount, dir, at, (char *)buf + used, n - used);
  return more > 0 ? (fs_ssize)used + more : used > 0 ? (fs_ssize)used : more;
}

fs_ssize fs_file_getdents(struct fs_slot *s, void *buf, size_t n) {
  uint8_t kind = atomic_load(&s->kind);
  if (kind != FS_SLOT_DIR) return kind == FS_SLOT_FILE ? -ENOTDIR : -EBADF;
  uint64_t at = atomic_load(&s->offset);
  fs_ssize r = fs_dir_list(s->mount, s->entry, &at, buf, n);
  atomic_store(&s->offset, at);
  return r;
}
