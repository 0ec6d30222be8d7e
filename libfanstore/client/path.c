/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Resolving a path that may lead below a mount. The common case, a plain absolute path, is one hash look-up; all
 * else is walked component by component: dots, symlinks inside the dataset, into it and out of it, and paths that
 * the kernel has refused, with the real file system's symlinks read too. No allocation, no locks.
 */
#include "client/path.h"

#include <unistd.h>

#include "client/cwd.h"
#include "util/util.h"

#define FS_MAX_LINKS 40u

struct walk {
  unsigned flags;
  unsigned links;
  bool below;   /* at mount:entry, else at the real path `real` */
  bool entered; /* was below a mount at some point */
  uint32_t mount, entry;
  const struct fs_index *ix;
  size_t real_len; /* "" stands for "/" */
  char *real;
  char *todo;             /* what is still to be walked, inside `buf` */
  char buf[2 * PATH_MAX]; /* a current directory and a path, or a target and a rest */
};

static bool at_end(const char *p) {
  return p[strspn(p, "/")] == '\0';
}

static fs_err enter_mount(struct walk *w, uint32_t mount, uint32_t entry) {
  fs_err err = 0;
  w->ix = fs_mount_ix(mount, &err);
  if (w->ix == NULL) return err;
  w->below = w->entered = true;
  w->mount = mount;
  w->entry = entry;
  return 0;
}

static fs_err enter_if_mount(struct walk *w) {
  for (uint32_t i = 0; i < fs_mount_count(); i++)
    if (fs_mount_list[i].len == w->real_len && memcmp(fs_mount_list[i].path, w->real, w->real_len) == 0)
      return enter_mount(w, i, FS_ROOT);
  return 0;
}

static fs_err leave_mount(struct walk *w) {
  const struct fs_mount_prefix *m = &fs_mount_list[w->mount];
  w->below = false;
  w->real_len = m->len;
  memcpy(w->real, m->path, m->len + 1);
  while (w->real_len > 0 && w->real[--w->real_len] != '/') {
  }
  w->real[w->real_len] = '\0';
  return enter_if_mount(w);
}

/* Puts a symlink's target in front of what is left. */
static fs_err expand(struct walk *w, const char *target, size_t len) {
  size_t rest = strlen(w->todo);
  if (++w->links > FS_MAX_LINKS) return -ELOOP;
  if (len == 0) return -ENOENT;
  if (len + 1 + rest + 1 > sizeof(w->buf)) return -ENAMETOOLONG;
  memmove(w->buf + len + 1, w->todo, rest + 1);
  w->buf[len] = rest > 0 ? '/' : '\0';
  memcpy(w->buf, target, len);
  w->todo = w->buf;
  if (target[0] == '/') {
    w->below = false;
    w->real_len = 0;
    w->real[0] = '\0';
  }
  return 0;
}

static bool follow(const struct walk *w) {
  return !(w->flags & FS_NOFOLLOW) || w->todo[0] != '\0';
}

/* One step in the real file system. By name only, unless FS_REAL_LINKS. */
static fs_err step_real(struct walk *w, const char *name, size_t len) {
  if (len == 2 && memcmp(name, "..", 2) == 0) {
    while (w->real_len > 0 && w->real[--w->real_len] != '/') {
    }
    w->real[w->real_len] = '\0';
    return enter_if_mount(w);
  }
  if (w->real_len + len + 2 > PATH_MAX) return -ENAMETOOLONG;
  size_t before = w->real_len;
  w->real[w->real_len++] = '/';
  memcpy(w->real + w->real_len, name, len);
  w->real_len += len;
  w->real[w->real_len] = '\0';
  fs_err err = enter_if_mount(w);
  if (err != 0 || w->below || !(w->flags & FS_REAL_LINKS) || !follow(w)) return err;
  char target[PATH_MAX];
  long n = FS_SYS4(SYS_readlinkat, AT_FDCWD, w->real, target, sizeof(target) - 1);
  if (n <= 0) return 0;
  w->real_len = before;
  w->real[before] = '\0';
  return expand(w, target, (size_t)n);
}

/* One step in a dataset. 1: the name is missing. */
static int step_below(struct walk *w, const char *name, size_t len) {
  const struct fs_entry *e = fs_index_entry(w->ix, w->entry);
  if (e == NULL) return -EUCLEAN;
  if (!S_ISDIR(e->mode)) return -ENOTDIR;
  if (len > FS_NAME_MAX) return -ENAMETOOLONG;
  if (len == 2 && memcmp(name, "..", 2) == 0) {
    if (w->entry == FS_ROOT) return leave_mount(w);
    w->entry = e->parent;
    return 0;
  }
  int64_t child = fs_index_child(w->ix, w->entry, name, len);
  if (child == -ENOENT) return 1;
  if (child < 0) return (int)child;
  e = fs_index_entry(w->ix, (uint64_t)child);
  if (e == NULL) return -EUCLEAN;
  if (S_ISLNK(e->mode) && follow(w)) {
    const char *target;
    uint64_t n;
    fs_err err = fs_index_target(w->ix, e, &target, &n);
    return err != 0 ? err : expand(w, target, n);
  }
  w->entry = (uint32_t)child;
  return 0;
}

static int finish(struct walk *w, bool slash, struct fs_found *f) {
  if (!w->below) {
    if (!w->entered) return FS_OUT;
    if (w->real_len == 0 || slash) {
      if (w->real_len + 2 > PATH_MAX) return -ENAMETOOLONG;
      memcpy(w->real + w->real_len, "/", 2);
    }
    bool above = fs_path_is_ancestor(w->real) && FS_SYS3(SYS_faccessat, AT_FDCWD, w->real, F_OK) != 0;
    return above ? FS_ABOVE : FS_REDIRECT;
  }
  const struct fs_entry *e = fs_index_entry(w->ix, w->entry);
  if (e == NULL) return -EUCLEAN;
  if (slash && !S_ISDIR(e->mode)) return -ENOTDIR;
  f->mount = w->mount;
  f->entry = w->entry;
  return FS_IN;
}

static int run(struct walk *w, struct fs_found *f) {
  bool slash = false;
  fs_err err = w->below ? 0 : enter_if_mount(w);
  while (err == 0) {
    size_t skip = strspn(w->todo, "/");
    slash = slash || skip > 0;
    char *name = w->todo + skip;
    size_t len = strcspn(name, "/");
    if (len == 0) return finish(w, slash, f);
    w->todo = name + len;
    slash = false;
    if (len == 1 && name[0] == '.') {
      slash = true; /* "x/." is a directory or an error, as "x/" is */
      continue;
    }
    bool last = at_end(w->todo);
    if (!w->below) {
      err = step_real(w, name, len);
      continue;
    }
    int r = step_below(w, name, len);
    if (r == 1) {
      f->mount = w->mount;
      f->entry = w->entry;
      return last ? FS_NEW : -ENOENT;
    }
    err = r;
  }
  return err;
}

static void start(struct walk *w, unsigned flags, struct fs_found *f) {
  w->flags = flags;
  w->links = 0;
  w->below = w->entered = false;
  w->real = f->real;
  w->real_len = 0;
  w->real[0] = '\0';
  w->todo = w->buf;
}

/* base + "/" + path into the work buffer. */
static fs_err set_todo(struct walk *w, const char *base, const char *path) {
  size_t base_len = base == NULL ? 0 : strlen(base), len = strlen(path);
  if (len >= PATH_MAX || base_len + 1 + len >= sizeof(w->buf)) return -ENAMETOOLONG;
  if (base_len > 0) memcpy(w->buf, base, base_len), w->buf[base_len++] = '/';
  memcpy(w->buf + base_len, path, len + 1);
  return 0;
}

static int walk_text(const char *base, const char *path, unsigned flags, struct fs_found *f) {
  struct walk w;
  start(&w, flags, f);
  fs_err err = set_todo(&w, base, path);
  return err != 0 ? err : run(&w, f);
}

static int walk_below(uint32_t mount, uint32_t entry, const char *path, unsigned flags, struct fs_found *f) {
  struct walk w;
  start(&w, flags, f);
  fs_err err = set_todo(&w, NULL, path);
  if (err == 0) err = enter_mount(&w, mount, entry);
  return err != 0 ? err : run(&w, f);
}

/* The whole rest of an absolute path at once. False: it has to be walked. */
static bool look_up(const char *path, unsigned flags, struct fs_found *f, int *result) {
  for (uint32_t i = 0; i < fs_mount_count(); i++) {
    const struct fs_mount_prefix *m = &fs_mount_list[i];
    if (strncmp(path, m->path, m->len) != 0 || (path[m->len] != '/' && path[m->len] != '\0')) continue;
    const char *rest = path + m->len + (path[m->len] == '/');
    size_t len = strlen(rest);
    const struct fs_index *ix = fs_mount_ix(i, result);
    if (ix == NULL) return true;
    int64_t e = m->len + len + 1 < PATH_MAX ? fs_index_lookup(ix, rest, len) : -ENAMETOOLONG;
    if (e < 0) return false;
    const struct fs_entry *entry = fs_index_entry(ix, (uint64_t)e);
    if (entry == NULL || (S_ISLNK(entry->mode) && !(flags & FS_NOFOLLOW))) return false;
    f->mount = i;
    f->entry = (uint32_t)e;
    *result = FS_IN;
    return true;
  }
  return false;
}

/* One plain name in a directory of a dataset: what find and ls do. */
static bool look_up_child(uint32_t mount, uint32_t dir, const char *name, unsigned flags, struct fs_found *f) {
  size_t len = strcspn(name, "/");
  fs_err err;
  if (name[len] == '/' || len == 0 || name[0] == '.') return false;
  const struct fs_index *ix = fs_mount_ix(mount, &err);
  int64_t e = ix == NULL ? -1 : fs_index_child(ix, dir, name, len);
  if (e < 0) return false;
  const struct fs_entry *entry = fs_index_entry(ix, (uint64_t)e);
  if (entry == NULL || (S_ISLNK(entry->mode) && !(flags & FS_NOFOLLOW))) return false;
  f->mount = mount;
  f->entry = (uint32_t)e;
  return true;
}

static int route_below(uint32_t mount, uint32_t dir, const char *path, unsigned flags, struct fs_found *f) {
  if (look_up_child(mount, dir, path, flags, f)) return FS_IN;
  return walk_below(mount, dir, path, flags, f);
}

/* Where the kernel says that a directory descriptor is. */
static fs_err fd_path(int dirfd, char *out) {
  char link[32] = "/proc/self/fd/";
  char digits[12];
  size_t at = strlen(link), n = 0;
  for (unsigned v = (unsigned)dirfd; n == 0 || v > 0; v /= 10) digits[n++] = (char)('0' + v % 10);
  while (n > 0) link[at++] = digits[--n];
  link[at] = '\0';
  long len = FS_SYS4(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX - 1);
  if (len <= 0 || out[0] != '/') return -EBADF;
  out[len] = '\0';
  return 0;
}

static int route_relative(int dirfd, const char *path, unsigned flags, struct fs_found *f) {
  if (dirfd == AT_FDCWD) {
    struct fs_cwd cwd;
    if (fs_cwd_get(&cwd) != 0) return FS_OUT;
    if (cwd.below) return route_below(cwd.mount, cwd.entry, path, flags, f);
    return walk_text(cwd.path, path, flags, f);
  }
  struct fs_slot *s = fs_fd_slot(dirfd);
  if (s == NULL) {
    char base[PATH_MAX];
    return fd_path(dirfd, base) == 0 ? walk_text(base, path, flags, f) : FS_OUT;
  }
  uint8_t kind = atomic_load_explicit(&s->kind, memory_order_relaxed);
  if (kind == FS_SLOT_CLOSED) return -EBADF;
  if (kind == FS_SLOT_FILE) return -ENOTDIR;
  return route_below(s->mount, s->entry, path, flags, f);
}

int fs_path_route_slow(int dirfd, const char *path, unsigned flags, struct fs_found *f) {
  int result;
  if (path[0] == '\0') return -ENOENT;
  if (path[0] != '/') return route_relative(dirfd, path, flags, f);
  if (look_up(path, flags, f, &result)) return result;
  return walk_text(NULL, path, flags, f);
}

bool fs_path_relative_out(int dirfd, const char *path) {
  if (path[0] == '\0' || fs_mount_count() == 0) return fs_fd_entry(dirfd) == 0;
  if (dirfd != AT_FDCWD) return fs_fd_entry(dirfd) == 0;
  if (!fs_cwd_far()) return false;
  return !fs_path_climbs(path);
}

static bool exists(int dirfd, const char *path) {
  return FS_SYS3(SYS_faccessat, dirfd, path, F_OK) == 0;
}

static bool is_link(int dirfd, const char *path) {
  char target[8];
  return FS_SYS4(SYS_readlinkat, dirfd, path, target, sizeof(target)) > 0;
}

/*
 * Most names that the kernel does not find are just missing, and are no symlink into a mount: the deepest directory
 * of the path that exists has no dangling link of the next name. Mostly one or two system calls.
 */
static bool plainly_missing(int dirfd, const char *path, unsigned flags) {
  char prefix[PATH_MAX];
  size_t len = strlen(path);
  if (len >= sizeof(prefix)) return true;
  memcpy(prefix, path, len + 1);
  for (bool last = true;; last = false) {
    char *slash = strrchr(prefix, '/');
    bool top = slash == NULL || slash == prefix;
    if (!top) *slash = '\0';
    if (!top && !exists(dirfd, prefix)) continue;
    if (!top) *slash = '/';
    return (last && (flags & FS_NOFOLLOW)) || !is_link(dirfd, prefix);
  }
}

/* "/dev/fd/5" of a placeholder, which the kernel cannot open anew (ENXIO): the file that it stands for. */
static int route_fd_name(const char *path, struct fs_found *f) {
  uint64_t fd;
  const char *number = strncmp(path, "/dev/fd/", 8) == 0 ? path + 8 : path + 14;
  if (number != path + 8 && strncmp(path, "/proc/self/fd/", 14) != 0) return FS_OUT;
  if (fs_parse_u64(number, 0, FS_FD_MAX - 1, &fd) != 0) return FS_OUT;
  const struct fs_slot *s = fs_fd_slot((int)fd);
  if (s == NULL) s = fs_fd_adopt((int)fd);
  if (s == NULL || s == &fs_slot_closed) return FS_OUT;
  f->mount = s->mount;
  f->entry = s->entry;
  return FS_IN;
}

int fs_path_retry(int dirfd, const char *path, unsigned flags, fs_err err, struct fs_found *f) {
  if (fs_mount_count() == 0 || path == NULL || path[0] == '\0') return FS_OUT;
  if (err == -ENXIO) return route_fd_name(path, f);
  if (path[0] != '/' && dirfd != AT_FDCWD && (err == -ENOTDIR || err == -EBADF)) {
    if (fs_fd_adopt(dirfd) == NULL) return FS_OUT;
    return route_relative(dirfd, path, flags, f);
  }
  if (err == -ENOENT && path[0] == '/' && fs_path_is_ancestor(path)) return FS_ABOVE;
  if (err != -ENOENT || plainly_missing(dirfd, path, flags)) return FS_OUT;
  flags |= FS_REAL_LINKS;
  if (path[0] == '/') return walk_text(NULL, path, flags, f);
  return route_relative(dirfd, path, flags, f);
}
