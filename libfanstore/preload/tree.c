/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of glob, ftw and nftw, which walk directories inside libc. glob is told to use this
 * library's directory functions, because its pattern may name the mount by wildcards. A tree walk
 * that may come below a mount is done here and shows what libc's shows: the order of calls, the
 * current directory with FTW_CHDIR, and which errors end it.
 */
#include <search.h>
#include <stdlib.h>

#include "client/path/cwd.h"
#include "preload/preload.h"
#include "util/util.h"

bool fs_walk_meets_mount(const char *path) {
  if (!fs_path_outside(AT_FDCWD, path)) return true;
  if (path == NULL || fs_mount_count() == 0) return false;
  return path[0] == '/' ? fs_path_is_ancestor(path) : !fs_cwd_far();
}

static void glob_closedir(void *dir) {
  closedir(dir);
}

FS_EXPORT int glob(const char *restrict pattern, int flags, int (*on_error)(const char *, int), glob_t *restrict g) {
  if (fs_mount_count() == 0 || (flags & GLOB_ALTDIRFUNC)) return FS_REAL(glob)(pattern, flags, on_error, g);
  g->gl_opendir = (void *(*)(const char *))opendir;
  g->gl_readdir = (struct dirent * (*)(void *)) readdir;
  g->gl_closedir = glob_closedir;
  g->gl_stat = stat;
  g->gl_lstat = lstat;
  int r = FS_REAL(glob)(pattern, flags | GLOB_ALTDIRFUNC, on_error, g);
  g->gl_flags &= ~GLOB_ALTDIRFUNC;
  return r;
}
FS_ALIAS(glob64, glob);

typedef int ftw_fn(const char *, const struct stat *, int);
typedef int nftw_fn(const char *, const struct stat *, int, struct FTW *);

/* A directory that is being walked. It is an open stream or, once the stream was closed for want of
   descriptors, the names that were still to be read, one behind the other, with an empty one
   last. */
struct level {
  DIR *stream;
  char *names;
};

struct tree {
  ftw_fn *old; /* ftw */
  nftw_fn *fn; /* nftw */
  int flags;
  dev_t dev;
  void *seen; /* the directories, where symlinks are followed: a tree of struct directory */
  bool stay;  /* the directory above the root is only part of a mount's path */
  struct FTW at;
  struct level **open; /* the streams, at most as many as the program allows: a ring */
  size_t most, next;
  size_t len, size;
  char *path; /* grows */
};

struct directory {
  dev_t dev;
  ino_t ino;
};

static int compare_directories(const void *a, const void *b) {
  const struct directory *x = a, *y = b;
  if (x->dev != y->dev) return x->dev < y->dev ? -1 : 1;
  return x->ino < y->ino ? -1 : x->ino > y->ino;
}

/* Notes a directory. Returns 1 if it is new, 0 if it was seen before, or -1 with errno. */
static int note_directory(struct tree *t, const struct stat *st) {
  if (t->flags & FTW_PHYS) return 1;
  struct directory *d = malloc(sizeof(*d));
  if (d == NULL) return -1;
  *d = (struct directory){st->st_dev, st->st_ino};
  struct directory **found = tsearch(d, &t->seen, compare_directories);
  bool known = found != NULL && *found != d;
  if (known || found == NULL) free(d);
  return found == NULL ? fs_ret_int(-ENOMEM) : !known;
}

/* Calls the program's function. ftw knows fewer kinds. */
static int visit(struct tree *t, const struct stat *st, int type) {
  static const int plain[] = {[FTW_F] = FTW_F,  [FTW_D] = FTW_D,  [FTW_DNR] = FTW_DNR, [FTW_NS] = FTW_NS,
                              [FTW_SL] = FTW_F, [FTW_DP] = FTW_D, [FTW_SLN] = FTW_NS};
  return t->old != NULL ? t->old(t->path, st, plain[type]) : t->fn(t->path, st, type, &t->at);
}

/* Returns the name for calls and what it is relative to: the open directory that holds the name or,
   with FTW_CHDIR, the current one. Paths may become longer than the kernel takes. */
static const char *name_of(const struct tree *t, const struct level *above, int *dirfd_) {
  bool open_above = above != NULL && above->stream != NULL;
  bool by_name = open_above || ((t->flags & FTW_CHDIR) && !(t->stay && t->at.level == 0));
  *dirfd_ = open_above ? dirfd(above->stream) : AT_FDCWD;
  const char *name = by_name ? t->path + t->at.base : t->path;
  return name[0] != '\0' ? name : "."; /* "/" */
}

/* Returns an FTW_ value, or -1 for an error that ends the walk. */
static int kind_of(const struct tree *t, const struct level *above, struct stat *st) {
  int dir;
  const char *name = name_of(t, above, &dir);
  if (fstatat(dir, name, st, t->flags & FTW_PHYS ? AT_SYMLINK_NOFOLLOW : 0) == 0)
    return S_ISDIR(st->st_mode) ? FTW_D : S_ISLNK(st->st_mode) ? FTW_SL : FTW_F;
  if (errno != ENOENT && errno != EACCES) return -1;
  if (t->flags & FTW_PHYS) return FTW_NS;
  return fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st->st_mode) ? FTW_SLN : FTW_NS;
}

static void close_stream(struct level *level) {
  int saved = errno;
  closedir(level->stream);
  level->stream = NULL;
  errno = saved;
}

/* Reads the rest of a directory and closes its stream. */
static int keep_names(struct level *level) {
  size_t len = 0, size = 0;
  const struct dirent *e;
  while ((e = readdir(level->stream)) != NULL) {
    size_t n = strlen(e->d_name) + 1;
    if (fs_is_dot(e->d_name)) continue;
    if (len + n + 1 > size) {
      char *more = realloc(level->names, size = 2 * (len + n) + 1024);
      if (more == NULL) return -1;
      level->names = more;
    }
    memcpy(level->names + len, e->d_name, n);
    len += n;
  }
  if (level->names == NULL && (level->names = malloc(1)) == NULL) return -1;
  level->names[len] = '\0';
  close_stream(level);
  return 0;
}

/* Opens the directory of t->path. If the walk has all its streams open, one is closed first. */
static int open_level(struct tree *t, struct level *level, const struct level *above) {
  struct level *oldest = t->open[t->next];
  if (oldest != NULL && keep_names(oldest) != 0) return -1;
  t->open[t->next] = NULL;
  int dir;
  const char *name = name_of(t, above, &dir);
  int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return -1;
  level->stream = fdopendir(fd);
  if (level->stream == NULL) {
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
  }
  t->open[t->next] = level;
  t->next = (t->next + 1) % t->most;
  return 0;
}

/* Closes the innermost directory. */
static void close_level(struct tree *t, struct level *level) {
  if (level->stream != NULL) {
    close_stream(level);
    t->next = (t->next + t->most - 1) % t->most;
    t->open[t->next] = NULL;
  }
  free(level->names);
}

static int walk_directory(struct tree *t, const struct stat *st, struct level *above);

/* Puts a name at the end of the path. */
static int append(struct tree *t, const char *name) {
  size_t n = strlen(name), base = (size_t)t->at.base;
  if (base + n + 2 > t->size) {
    char *more = realloc(t->path, 2 * (base + n + 2));
    if (more == NULL) return -1;
    t->path = more;
    t->size = 2 * (base + n + 2);
  }
  memcpy(t->path + base, name, n + 1);
  t->len = base + n;
  return 0;
}

static int walk_child(struct tree *t, struct level *level, const char *name) {
  struct stat st = {0};
  if (append(t, name) != 0) return -1;
  int type = kind_of(t, level, &st), r = 0;
  if (type < 0) return -1;
  if (type != FTW_NS && (t->flags & FTW_MOUNT) && st.st_dev != t->dev) return 0;
  if (type != FTW_D) {
    r = visit(t, &st, type);
  } else {
    int fresh = note_directory(t, &st);
    r = fresh <= 0 ? fresh : walk_directory(t, &st, level);
  }
  return (t->flags & FTW_ACTIONRETVAL) && r == FTW_SKIP_SUBTREE ? 0 : r;
}

static int walk_names(struct tree *t, struct level *level) {
  const struct dirent *e;
  int r = 0;
  while (r == 0 && level->stream != NULL && (e = readdir(level->stream)) != NULL)
    if (!fs_is_dot(e->d_name)) r = walk_child(t, level, e->d_name);
  for (const char *name = level->names; r == 0 && name != NULL && *name != '\0'; name += strlen(name) + 1)
    r = walk_child(t, level, name);
  return r;
}

static int walk_children(struct tree *t, struct level *level) {
  struct FTW at = t->at;
  size_t len = t->len;
  if (t->path[len - 1] != '/') t->path[t->len++] = '/'; /* there is room for it */
  t->at = (struct FTW){.base = (int)t->len, .level = at.level + 1};
  int r = walk_names(t, level);
  t->path[t->len = len] = '\0';
  t->at = at;
  return (t->flags & FTW_ACTIONRETVAL) && r == FTW_SKIP_SIBLINGS ? 0 : r;
}

/* Goes back to the directory above, if the walk goes on there. */
static int leave(const struct tree *t, const struct level *above, int r) {
  bool on = r == 0 || ((t->flags & FTW_ACTIONRETVAL) && r != -1 && r != FTW_STOP);
  if (above == NULL || !(t->flags & FTW_CHDIR) || !on) return r;
  if (above->stream != NULL && fchdir(dirfd(above->stream)) == 0) return r;
  return chdir(t->at.base == 1 ? "/" : "..") == 0 ? r : -1;
}

static int walk_directory(struct tree *t, const struct stat *st, struct level *above) {
  struct level level = {0};
  if (open_level(t, &level, above) != 0) return errno == EACCES ? visit(t, st, FTW_DNR) : -1;
  int r = t->flags & FTW_DEPTH ? 0 : visit(t, st, FTW_D);
  if (r == 0 && (t->flags & FTW_CHDIR)) r = fchdir(dirfd(level.stream));
  if (r != 0) {
    close_level(t, &level);
    return r;
  }
  r = walk_children(t, &level);
  close_level(t, &level);
  if (r == 0 && (t->flags & FTW_DEPTH)) r = visit(t, st, FTW_DP);
  return leave(t, above, r);
}

static int walk_root(struct tree *t) {
  struct stat st = {0};
  int type = kind_of(t, NULL, &st);
  if (type < 0 || type == FTW_NS) return -1;
  if (type != FTW_D) return visit(t, &st, type);
  t->dev = st.st_dev;
  if (note_directory(t, &st) < 0) return -1;
  return walk_directory(t, &st, NULL);
}

/* Walks with FTW_CHDIR. The walk begins in the directory that holds its root, and ends where the
   program was. */
static int walk_with_chdir(struct tree *t) {
  int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (here < 0) return -1;
  size_t base = (size_t)t->at.base;
  char first = t->path[base];
  t->path[base] = '\0';
  t->stay = base > 0 && chdir(t->path) != 0;
  t->path[base] = first;
  int r = walk_root(t);
  int saved = errno;
  if (fchdir(here) != 0 && r == 0) r = -1, saved = errno;
  close(here);
  errno = saved;
  return r;
}

static int walk_from(const char *path, ftw_fn *old, nftw_fn *fn, int fds, int flags) {
  struct tree t = {.old = old, .fn = fn, .flags = flags, .len = strlen(path), .most = (size_t)FS_MAX(fds, 1)};
  if (t.len == 0) return fs_ret_int(-ENOENT);
  t.size = FS_MAX(2 * t.len, (size_t)PATH_MAX) + 2;
  t.path = malloc(t.size);
  t.open = calloc(t.most, sizeof(struct level *));
  int r = -1;
  if (t.path != NULL && t.open != NULL) {
    memcpy(t.path, path, t.len + 1);
    while (t.len > 1 && t.path[t.len - 1] == '/') t.path[--t.len] = '\0';
    const char *slash = strrchr(t.path, '/');
    t.at.base = slash == NULL ? 0 : (int)(slash - t.path) + 1;
    r = flags & FTW_CHDIR ? walk_with_chdir(&t) : walk_root(&t);
  }
  int saved = errno;
  tdestroy(t.seen, free);
  free(t.open);
  free(t.path);
  errno = saved;
  return (flags & FTW_ACTIONRETVAL) && (r == FTW_SKIP_SUBTREE || r == FTW_SKIP_SIBLINGS) ? 0 : r;
}

/* Returns whether the walk is done here. One that follows symlinks may come below a mount from
   anywhere. */
static bool is_ours(const char *path, int flags) {
  return fs_mount_count() > 0 && path != NULL && (!(flags & FTW_PHYS) || fs_walk_meets_mount(path));
}

FS_EXPORT int ftw(const char *path, ftw_fn *fn, int fds) {
  FS_MAY_BE_NULL(path);
  return is_ours(path, 0) ? walk_from(path, fn, NULL, fds, 0) : FS_REAL(ftw)(path, fn, fds);
}
FS_ALIAS(ftw64, ftw);

FS_EXPORT int nftw(const char *path, nftw_fn *fn, int fds, int flags) {
  const int known = FTW_PHYS | FTW_MOUNT | FTW_CHDIR | FTW_DEPTH | FTW_ACTIONRETVAL;
  FS_MAY_BE_NULL(path);
  bool ours = (flags & ~known) == 0 && is_ours(path, flags);
  return ours ? walk_from(path, NULL, fn, fds, flags) : FS_REAL(nftw)(path, fn, fds, flags);
}
FS_ALIAS(nftw64, nftw);
