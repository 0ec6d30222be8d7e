/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decides whether a path is surely below no mount: the question that every call with a path begins
 * with. The answer comes from the path's text alone, in one pass for any number of mounts
 * (client/node/mountlist.h, fs_mount_filter). Lock-free, no system calls.
 */
#include <assert.h>
#include <string.h>

#include "client/path/cwd.h"
#include "client/path/path.h"

static_assert(('.' | 1) == '/', "see odd");

static inline __attribute__((no_sanitize("address", "thread"))) uint64_t aligned_word(const char *p) {
  typedef uint64_t __attribute__((may_alias)) word;
  return *(const word *)__builtin_assume_aligned(p, 8);
}

static inline uint64_t any_word(const char *p) {
  uint64_t word;
  memcpy(&word, p, sizeof(word));
  return word;
}

/*
 * Returns how many first bytes of a are the same in b, at most `limit`, which is not beyond b's
 * end. The path a may end before. It is read by aligned words, each of which lies in one page, and
 * what is behind its end in the last word is not used.
 */
static inline __attribute__((no_sanitize("address", "thread"))) size_t common_bytes(const char *a, const char *b,
                                                                                    size_t limit) {
  uint32_t skip = (uintptr_t)a & 7;
  size_t at = 8 - skip;
  if (limit < 8) {
    for (at = 0; at < limit && a[at] == b[at]; at++) {
    }
    return at;
  }
  uint64_t differ = (aligned_word(a - skip) >> 8 * skip ^ any_word(b)) << 8 * skip;
  if (differ != 0) return (size_t)__builtin_ctzll(differ) / 8 - skip;
  for (; at + 8 <= limit; at += 8) {
    differ = aligned_word(a + at) ^ any_word(b + at);
    if (differ != 0) return at + (size_t)__builtin_ctzll(differ) / 8;
  }
  while (at < limit && a[at] == b[at]) at++;
  return at;
}

/* Returns whether an absolute path that differs from a mount's at byte `at` must be normalised to
   tell whether it is below the mount. */
static __attribute__((noinline)) bool odd_at(const char *path, size_t at) {
  char c = path[at], before = at > 0 ? path[at - 1] : '\0';
  if (c == '/') return before == '/' || (before == '.' && at > 1 && (path[at - 2] == '/' || path[at - 2] == '.'));
  return c == '.' && before == '/' && (path[at + 1] == '/' || path[at + 1] == '.' || path[at + 1] == '\0');
}

static inline bool odd(const char *path, size_t at) {
  return FS_UNLIKELY((path[at] | 1) == '/') && odd_at(path, at); /* '.' is the byte before '/' */
}

/* Returns whether there is a component "..", or one that begins so. `from` is not inside a
   component. */
static bool climbs(const char *path, const char *from) {
  for (const char *p = from; (p = strchr(p, '.')) != NULL; p++)
    if (p[1] == '.' && (p == path || p[-1] == '/')) return true;
  return false;
}

/* Compares with the mounts of `mask` one by one. The first `same` bytes are the same. */
static __attribute__((noinline)) bool out_of_each(const char *path, uint32_t mask, size_t same) {
  for (; mask != 0; mask &= mask - 1) {
    const struct fs_mount_prefix *m = &fs_mount_list[__builtin_ctz(mask)];
    size_t at = same;
    while (path[at] == m->path[at] && m->path[at] != '\0') at++;
    if (m->path[at] == '\0' && (path[at] == '\0' || path[at] == '/')) return false;
    if (odd(path, at)) return false;
  }
  return true;
}

static inline enum fs_side absolute_side(const char *path) {
  if (FS_UNLIKELY(fs_mount_count() == 0)) return FS_SIDE_OUTSIDE;
  const struct fs_mount_filter *f = &fs_mount_filter;
  size_t at = common_bytes(path, f->path, f->common);
  bool above = path[at] == '\0';
  if (at < f->common) {
    if (FS_UNLIKELY(odd(path, at))) return FS_SIDE_UNSURE;
  } else if (FS_UNLIKELY(f->next[(uint8_t)path[at]] != 0)) {
    if (!out_of_each(path, f->next[(uint8_t)path[at]], at)) return FS_SIDE_UNSURE;
    above = true;
  }
  /* No mount's path has such a component. */
  if (climbs(path, path + at - (at > 0))) return FS_SIDE_UNSURE;
  return FS_UNLIKELY(above) ? FS_SIDE_ABOVE : FS_SIDE_OUTSIDE;
}

bool fs_path_absolute_out(const char *path) {
  return absolute_side(path) != FS_SIDE_UNSURE;
}

/* Returns whether the path consists of ".." only. Such a path from outside leads outside, because
   the parents of what is in a mount are in it, or above its root. */
static bool climbs_only(const char *path) {
  while (path[0] == '.' && path[1] == '.' && (path[2] == '/' || path[2] == '\0')) {
    path += 2;
    while (*path == '/') path++;
  }
  return *path == '\0';
}

/* Answers for a path from a directory above mounts, which is the first `len` bytes of a mount's
   path. */
static enum fs_side side_from(const char *path, uint32_t mount, uint32_t len) {
  enum fs_side side = FS_SIDE_OUTSIDE;
  const char *base = fs_mount_list[mount].path;
  for (; path[0] == '.' && path[1] == '/'; path += 2 + strspn(path + 2, "/")) {
  }
  if (path[0] == '\0' || (path[0] == '.' && path[1] == '\0') || climbs(path, path)) return FS_SIDE_UNSURE;
  for (uint32_t i = 0; i < fs_mount_count(); i++) {
    const struct fs_mount_prefix *m = &fs_mount_list[i];
    if (m->len <= len || memcmp(m->path, base, len) != 0 || m->path[len] != '/') continue;
    const char *rest = m->path + len + 1;
    size_t at = 0;
    while (path[at] == rest[at] && rest[at] != '\0') at++;
    if (rest[at] == '\0' && (path[at] == '\0' || path[at] == '/')) return FS_SIDE_UNSURE;
    if (at > 0 && odd(path, at)) return FS_SIDE_UNSURE;
    if (path[at] == '\0') side = FS_SIDE_ABOVE;
  }
  return side;
}

/* Answers for a path from the current directory. */
static enum fs_side side_from_cwd(const char *path) {
  uint32_t mount, len;
  if (path[0] == '\0' || fs_mount_count() == 0) return FS_SIDE_OUTSIDE;
  if (FS_LIKELY(fs_cwd_surely_far())) return climbs(path, path) ? FS_SIDE_UNSURE : FS_SIDE_OUTSIDE;
  if (!fs_cwd_is_above(&mount, &len)) {
    if (fs_cwd_far()) return climbs(path, path) ? FS_SIDE_UNSURE : FS_SIDE_OUTSIDE;
    if (!fs_cwd_is_above(&mount, &len)) return FS_SIDE_UNSURE; /* below one, or not known */
  }
  return side_from(path, mount, len);
}

bool fs_path_relative_out(int dirfd, const char *path) {
  if (dirfd == AT_FDCWD) return side_from_cwd(path) != FS_SIDE_UNSURE;
  return fs_fd_entry(dirfd) == 0 && (fs_mount_count() == 0 || !climbs(path, path) || climbs_only(path));
}

enum fs_side fs_path_side(int dirfd, const char *path) {
  if (FS_UNLIKELY(fs_bad_address(path))) return FS_SIDE_OUTSIDE;
  if (FS_LIKELY(path[0] == '/')) return absolute_side(path);
  if (dirfd == AT_FDCWD) return side_from_cwd(path);
  return fs_path_relative_out(dirfd, path) ? FS_SIDE_OUTSIDE : FS_SIDE_UNSURE;
}

bool fs_path_maybe_above(int dirfd, const char *path) {
  const struct fs_mount_filter *f = &fs_mount_filter;
  if (fs_mount_count() == 0 || fs_bad_address(path)) return false;
  if (path[0] != '/') {
    if (dirfd != AT_FDCWD) return (fs_fd_entry(dirfd) & FS_FDE_ANCESTOR) != 0;
    return !fs_cwd_surely_far() && side_from_cwd(path) != FS_SIDE_OUTSIDE;
  }
  size_t at = common_bytes(path, f->path, f->common);
  if (at == f->common && f->next[(uint8_t)path[at]] != 0) return true;
  return path[at] == '\0' || odd(path, at);
}
