/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listing directories of a dataset: record 0 is ".", 1 is "..", the rest are the children, a sorted run of the index.
 * The position is the number of the next record and lies in the open file's slot. Lock-free.
 */
#include <dirent.h>

#include "client/files.h"

fs_err fs_dir_record(uint32_t mount, uint32_t dir, uint64_t i, struct fs_dirent_view *out) {
  uint32_t first;
  uint64_t count;
  fs_err err;
  const struct fs_index *ix = fs_mount_ix(mount, &err);
  if (ix == NULL) return err < 0 ? err : -EIO;
  const struct fs_entry *d = fs_index_entry(ix, dir);
  if (d == NULL) return -EUCLEAN;
  if (i < 2) {
    *out = (struct fs_dirent_view){
        .ino = fs_index_ino(ix, i == 0 ? dir : d->parent), .name = "..", .name_len = (uint32_t)i + 1, .type = DT_DIR};
    return 0;
  }
  err = fs_index_children(ix, dir, &first, &count);
  if (err < 0) return err;
  if (i - 2 >= count) return -ENOENT;
  const struct fs_entry *e = fs_index_entry(ix, first + (i - 2));
  if (e == NULL) return -EUCLEAN;
  out->ino = fs_index_ino(ix, (uint32_t)(first + (i - 2)));
  out->type = (uint8_t)IFTODT(e->mode);
  return fs_index_name(ix, e, &out->name, &out->name_len);
}

/* The kernel's record is glibc's struct dirent64 on 64-bit machines. */
fs_ssize fs_file_getdents(struct fs_slot *s, void *buf, size_t n) {
  struct fs_dirent_view v;
  uint8_t kind = atomic_load(&s->kind);
  if (kind != FS_SLOT_DIR) return kind == FS_SLOT_FILE ? -ENOTDIR : -EBADF;
  uint64_t at = atomic_load(&s->offset);
  size_t used = 0;
  for (;; at++) {
    fs_err err = fs_dir_record(s->mount, s->entry, at, &v);
    if (err == -ENOENT) break;
    if (err != 0) return used > 0 ? (fs_ssize)used : err;
    size_t len = fs_round_up(offsetof(struct dirent64, d_name) + v.name_len + 1, 8);
    if (used + len > n) {
      if (used == 0) return -EINVAL;
      break;
    }
    struct dirent64 *d = (struct dirent64 *)((char *)buf + used);
    d->d_ino = v.ino;
    d->d_off = (off64_t)at + 1;
    d->d_reclen = (unsigned short)len;
    d->d_type = v.type;
    memcpy(d->d_name, v.name, v.name_len);
    d->d_name[v.name_len] = '\0';
    used += len;
  }
  atomic_store(&s->offset, at);
  return (fs_ssize)used;
}
