/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual directories above mounts (vdir.h). Most answers are string comparisons with the mounts'
   paths. */
#include "client/path/vdir.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "util/dirents.h"
#include "util/util.h"

#define FS_VDIR_DEV ((dev_t)0xfa5 << 8) /* the mounts' major number, and a minor of their own */

/* Returns the part of mount i's path that is strictly below the directory, or NULL if it is not
   below. The root is "". */
static const char *rest_below(uint32_t i, const char *path, size_t len) {
  const struct fs_mount_prefix *m = &fs_mount_list[i];
  return m->len > len && memcmp(m->path, path, len) == 0 && m->path[len] == '/' ? m->path + len + 1 : NULL;
}

bool fs_vdir_find(const char *path, size_t len, uint32_t *mount, uint32_t *entry) {
  for (uint32_t i = 0; i < fs_mount_count(); i++) {
    if (rest_below(i, path, len) == NULL) continue;
    *mount = i;
    *entry = FS_VDIR | (uint32_t)len;
    return true;
  }
  return false;
}

bool fs_vdir_missing(const char *path, size_t len, uint32_t *mount, uint32_t *entry) {
  char text[PATH_MAX];
  if (len == 0 || len >= sizeof(text) || !fs_vdir_find(path, len, mount, entry)) return false;
  memcpy(text, path, len);
  text[len] = '\0';
  return FS_SYS3(SYS_faccessat, AT_FDCWD, text, F_OK) == -ENOENT;
}

bool fs_vdir_path(uint32_t mount, uint32_t entry, const char **path, size_t *len) {
  if (mount >= fs_mount_count() || !fs_is_vdir(entry)) return false;
  *path = fs_mount_list[mount].path;
  *len = entry & ~FS_VDIR;
  return *len > 0 && *len < fs_mount_list[mount].len && (*path)[*len] == '/';
}

size_t fs_vdir_child(const char *path, size_t len, uint32_t i, const char **name) {
  uint32_t seen = 0;
  for (uint32_t m = 0; m < fs_mount_count(); m++) {
    const char *rest = rest_below(m, path, len);
    if (rest == NULL) continue;
    size_t n = strcspn(rest, "/");
    bool again = false;
    for (uint32_t k = 0; k < m && !again; k++) {
      const char *other = rest_below(k, path, len);
      again = other != NULL && strcspn(other, "/") == n && memcmp(other, rest, n) == 0;
    }
    if (again || seen++ != i) continue;
    *name = rest;
    return n;
  }
  return 0;
}

int fs_vdir_mount_at(const char *path, size_t len, const char *name, size_t name_len) {
  for (uint32_t i = 0; i < fs_mount_count(); i++) {
    const char *rest = rest_below(i, path, len);
    if (rest != NULL && strlen(rest) == name_len && memcmp(rest, name, name_len) == 0) return (int)i;
  }
  return -1;
}

bool fs_vdir_component(const char *name, size_t len) {
  uint32_t bit = fs_mount_component_bit(name, len);
  if (fs_mount_count() == 0 || !(fs_mount_filter.component[bit / 64] >> bit % 64 & 1)) return false;
  for (uint32_t i = 0; i < fs_mount_count(); i++) {
    for (const char *at = fs_mount_list[i].path; *at == '/'; at += strcspn(at, "/")) {
      at++;
      if (strcspn(at, "/") == len && memcmp(at, name, len) == 0) return true;
    }
  }
  return false;
}

struct edge {
  dev_t dev;
  ino_t ino;
  uint64_t dot; /* "." in its listing, which another directory's may have too; 0: not known */
  uint32_t mount;
  uint32_t len;
};
struct edges {
  uint32_t n;
  bool undotted; /* the listing of one has no ".", or cannot be read */
  size_t least;  /* the least length of a path up to its first missing directory */
  struct edge at[FS_MOUNT_NAMES];
};

/* Returns the inode number of "." in a directory's listing, or 0 if it is not among the first
   names. */
static uint64_t ino_of_dot(const char *path) {
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  struct fs_dirents names = {.fd = fd};
  const struct dirent64 *d = fs_dirents_next(&names);
  while (d != NULL && strcmp(d->d_name, ".") != 0) d = names.at < names.have ? fs_dirents_next(&names) : NULL;
  return d == NULL ? 0 : d->d_ino;
}

/* Finds the deepest directory above mount i that exists, if the mount itself does not. */
static bool find_edge(uint32_t i, struct edge *e) {
  char text[PATH_MAX];
  struct stat st;
  size_t rest, len = fs_mount_list[i].len;
  memcpy(text, fs_mount_list[i].path, len + 1);
  if (fs_sys_fstatat(AT_FDCWD, text, &st, AT_SYMLINK_NOFOLLOW) == 0) return false;
  for (;;) {
    while (len > 0 && text[--len] != '/') {
    }
    text[len] = '\0';
    if (fs_mount_above(text, len, &rest) >= 0) return false;
    if (fs_sys_fstatat(AT_FDCWD, len == 0 ? "/" : text, &st, 0) == 0) break;
    if (len == 0) return false;
  }
  *e = (struct edge){.dev = st.st_dev, .ino = st.st_ino, .mount = i, .len = (uint32_t)len};
  e->dot = ino_of_dot(len == 0 ? "/" : text);
  return S_ISDIR(st.st_mode);
}

/* Returns the edges. The first thread publishes what it has found; others use their own until
   then. */
static const struct edges *the_edges(struct edges *mine) {
  static struct edges found;
  static _Atomic uint32_t state; /* 0: none, 1: being written, 2: there */
  if (atomic_load_explicit(&state, memory_order_acquire) == 2) return &found;
  mine->n = 0;
  mine->undotted = false;
  mine->least = SIZE_MAX;
  for (uint32_t i = 0; i < fs_mount_count(); i++) {
    const struct edge *e = &mine->at[mine->n];
    if (!find_edge(i, &mine->at[mine->n])) continue;
    mine->undotted = mine->undotted || e->dot == 0;
    mine->least = FS_MIN(mine->least, e->len + 1 + strcspn(fs_mount_list[i].path + e->len + 1, "/"));
    mine->n++;
  }
  uint32_t none = 0;
  if (!atomic_compare_exchange_strong(&state, &none, 1)) return mine;
  found = *mine;
  atomic_store_explicit(&state, 2, memory_order_release);
  return &found;
}

bool fs_vdir_edge(int fd, const char **path, size_t *len) {
  struct edges mine;
  struct stat st;
  const struct edges *all = the_edges(&mine);
  if (all->n == 0 || fs_sys_fstat(fd, &st) != 0) return false;
  for (uint32_t i = 0; i < all->n; i++) {
    if (all->at[i].ino != st.st_ino || all->at[i].dev != st.st_dev) continue;
    *path = fs_mount_list[all->at[i].mount].path;
    *len = all->at[i].len;
    return true;
  }
  return false;
}

bool fs_vdir_edge_dot(uint64_t ino) {
  struct edges mine;
  const struct edges *all = the_edges(&mine);
  if (all->undotted || ino == 0) return all->undotted;
  for (uint32_t i = 0; i < all->n; i++)
    if (all->at[i].dot == ino) return true;
  return false;
}

bool fs_vdir_on_way(const char *path) {
  struct edges mine;
  const struct edges *all = the_edges(&mine);
  const struct fs_mount_filter *f = &fs_mount_filter;
  if (all->n == 0 || strncmp(path, f->path, FS_MIN(f->common, all->least)) != 0) return false;
  for (uint32_t i = 0; i < all->n; i++) {
    const char *mount = fs_mount_list[all->at[i].mount].path;
    size_t n = all->at[i].len + 1;
    if (strncmp(path, mount, n) != 0) continue;
    n += strcspn(mount + n, "/");
    if (strncmp(path, mount, n) == 0 && (path[n] == '/' || path[n] == '\0')) return true;
  }
  return false;
}

uint64_t fs_vdir_ino(const char *path, size_t len) {
  return fs_xxh3(path, len) >> 1 | 1;
}

fs_err fs_vdir_stat(uint32_t mount, uint32_t entry, struct stat *st) {
  const char *path, *name;
  size_t len;
  uint32_t children = 0;
  if (!fs_vdir_path(mount, entry, &path, &len)) return -EUCLEAN;
  while (fs_vdir_child(path, len, children, &name) > 0) children++;
  *st = (struct stat){.st_mode = S_IFDIR | 0755,
                      .st_nlink = 2 + children,
                      .st_ino = fs_vdir_ino(path, len),
                      .st_dev = FS_VDIR_DEV,
                      .st_size = 4096,
                      .st_blksize = 4096,
                      .st_blocks = 8};
  return 0;
}

int fs_mount_above(const char *path, size_t len, size_t *rest) {
  int best = -1;
  for (uint32_t i = 0; i < fs_mount_count(); i++) {
    const struct fs_mount_prefix *m = &fs_mount_list[i];
    if (m->len > len || memcmp(m->path, path, m->len) != 0 || (path[m->len] != '/' && m->len != len)) continue;
    if (best >= 0 && fs_mount_list[best].len >= m->len) continue;
    best = (int)i;
    *rest = m->len + (m->len < len);
  }
  return best;
}
