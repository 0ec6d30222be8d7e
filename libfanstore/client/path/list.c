/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions about names that need no look-up. */
#include "client/path/path.h"

#include "client/names/names.h"
#include "client/path/vdir.h"
#include "util/util.h"

static fs_ssize vdir_path_of(uint32_t mount, uint32_t entry, char *buf, size_t size) {
  const char *path;
  size_t len;
  if (!fs_vdir_path(mount, entry, &path, &len)) return -EUCLEAN;
  if (len + 1 > size) return -ENAMETOOLONG;
  memcpy(buf, path, len);
  buf[len] = '\0';
  return (fs_ssize)len;
}

static fs_ssize output_path_of(uint32_t mount, uint32_t entry, char *buf, size_t size) {
  char above[PATH_MAX];
  fs_ssize below = fs_output_path_below(mount, &entry, buf, size);
  fs_ssize len = below < 0 ? below : fs_path_of(mount, entry, above, sizeof(above));
  if (len < 0) return len;
  if ((size_t)(len + below) + 1 > size) return -ENAMETOOLONG;
  memmove(buf + len, buf + size - below, (size_t)below);
  memcpy(buf, above, (size_t)len);
  buf[len + below] = '\0';
  return len + below;
}

fs_ssize fs_path_of(uint32_t mount, uint32_t entry, char *buf, size_t size) {
  fs_err err;
  if (fs_is_vdir(entry)) return vdir_path_of(mount, entry, buf, size);
  if (fs_is_output(entry)) return output_path_of(mount, entry, buf, size);
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
