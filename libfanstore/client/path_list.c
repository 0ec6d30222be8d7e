/* SPDX-License-Identifier: BSD-3-Clause */
/* The flat list of mount prefixes (mounts.h), and questions about names that need no look-up. */
#include "client/path.h"

#include <unistd.h>

#include "util/util.h"

struct fs_mount_prefix fs_mount_list[FS_MAX_DATASETS];
_Atomic int32_t fs_mount_listed = -1;

uint32_t fs_mount_list_fill(void) {
  uint32_t n = FS_MIN(fs_mounts(), FS_MAX_DATASETS);
  for (uint32_t i = 0; i < n; i++) {
    struct fs_mount_prefix *m = &fs_mount_list[i];
    m->path = fs_mount_path(i, &m->len);
    if (m->path == NULL) m->path = "", m->len = 0;
    m->key = fs_xxh3(m->path, m->len);
  }
  /* Called before libc has set the environment (by an allocator, say), it is not known yet. */
  if (environ != NULL) atomic_store_explicit(&fs_mount_listed, (int32_t)n, memory_order_release);
  return n;
}

const struct fs_index *_Atomic fs_mount_known[FS_MAX_DATASETS];

const struct fs_index *fs_mount_ix_slow(uint32_t i, fs_err *err) {
  *err = -EIO;
  if (i >= fs_mount_count()) return NULL;
  const struct fs_index *ix = fs_mount_index(i, err);
  if (ix != NULL) atomic_store_explicit(&fs_mount_known[i], ix, memory_order_release);
  return ix;
}

fs_ssize fs_path_of(uint32_t mount, uint32_t entry, char *buf, size_t size) {
  fs_err err;
  const struct fs_index *ix = fs_mount_ix(mount, &err);
  if (ix == NULL) return err;
  size_t len = fs_mount_list[mount].len;
  if (len + 2 > size) return -ENAMETOOLONG;
  memcpy(buf, fs_mount_list[mount].path, len + 1);
  if (entry == FS_ROOT) return (fs_ssize)len;
  buf[len] = '/';
  fs_ssize n = fs_index_path(ix, entry, buf + len + 1, size - len - 1);
  return n < 0 ? n : (fs_ssize)len + 1 + n;
}

bool fs_path_is_ancestor(const char *path) {
  char norm[PATH_MAX];
  fs_ssize n = fs_path_normalize(path, norm, sizeof(norm));
  if (n <= 0) return false;
  for (uint32_t i = 0; i < fs_mount_count(); i++)
    if (fs_mount_list[i].len > (size_t)n &&
        fs_path_below(fs_mount_list[i].path, fs_mount_list[i].len, norm, (size_t)n) >= 0)
      return true;
  return false;
}
