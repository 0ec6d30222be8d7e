/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of glob, ftw and nftw, which walk directories inside libc. glob is told to use our directory functions (its
 * pattern may name the mount by wildcards); for the tree walks that may come below a mount there is a walk of our own,
 * which shows what libc's shows: the order of calls, the current directory with FTW_CHDIR, which errors end it.
 */
#include <search.h>
#include <stdlib.h>

#include "client/cwd.h"
#include "preload/preload.h"

bool fs_walk_meets_mount(const char *path) {
  if (!fs_path_out(AT_FDCWD, path)) return true;
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

struct tree {
  ftw_fn *old; /* ftw */
  nftw_fn *fn; /* nftw */
  int flags;
  dev_t dev;
  void *seen;  /* the directories, where symlinks are followed: a tree of struct directory */
  bool stay;   /* the directory above the root cannot be entered: it is there only as part of a mount's path */
  int streams; /* no more directories than this are kept open */
  struct FTW at;
  size_t len;
  char path[PATH_MAX];
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

/* 1: new; 0: seen before; -1 with errno. */
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

/* ftw knows fewer kinds. */
static int visit(struct tree *t, const struct stat *st, int type) {
  static const int plain[] = {[FTW_F] = FTW_F,  [FTW_D] = FTW_D,  [FTW_DNR] = FTW_DNR, [FTW_NS] = FTW_NS,
                              [FTW_SL] = FTW_F, [FTW_DP] = FTW_D, [FTW_SLN] = FTW_NS};
  return t->old != NULL ? t->old(t->path, st, plain[type]) : t->fn(t->path, st, type, &t->at);
}

/* What calls are to be made with: with FTW_CHDIR, in the directory that holds the name. */
static const char *name_of(const struct tree *t) {
  bool by_name = (t->flags & FTW_CHDIR) && !(t->stay && t->at.level == 0);
  return by_name ? t->path + t->at.base : t->path;
}

/* An FTW_ value, or -1 for an error that ends the walk. */
static int kind_of(const struct tree *t, struct stat *st) {
  const char *name = name_of(t);
  if (((t->flags & FTW_PHYS) ? lstat(name, st) : stat(name, st)) == 0)
    return S_ISDIR(st->st_mode) ? FTW_D : S_ISLNK(st->st_mode) ? FTW_SL : FTW_F;
  if (errno != ENOENT && errno != EACCES) return -1;
  if (t->flags & FTW_PHYS) return FTW_NS;
  return lstat(name, st) == 0 && S_ISLNK(st->st_mode) ? FTW_SLN : FTW_NS;
}

static int walk_directory(struct tree *t, const struct stat *st, DIR *above);

/* One name in the directory that t->path names, t->at.base after it. */
static int walk_child(struct tree *t, DIR *dir, const char *name) {
  struct stat st = {0};
  size_t n = strlen(name), base = (size_t)t->at.base;
  if (base + n >= sizeof(t->path)) return fs_ret_int(-ENAMETOOLONG);
  memcpy(t->path + base, name, n + 1);
  t->len = base + n;
  int type = kind_of(t, &st), r = 0;
  if (type < 0) return -1;
  if (type != FTW_NS && (t->flags & FTW_MOUNT) && st.st_dev != t->dev) return 0;
  if (type != FTW_D) {
    r = visit(t, &st, type);
  } else {
    int fresh = note_directory(t, &st);
    r = fresh <= 0 ? fresh : walk_directory(t, &st, dir);
  }
  return (t->flags & FTW_ACTIONRETVAL) && r == FTW_SKIP_SUBTREE ? 0 : r;
}

/* The names of a directory: one by one, or all at once, where one more may not be kept open. */
struct names {
  DIR *dir;
  char *all; /* each ends in a zero, the last one in two */
  const char *next;
};

static bool is_dot(const char *name) {
  return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

static const char *next_name(struct names *n) {
  const struct dirent *e;
  const char *name = n->next;
  if (n->all != NULL) return n->next += strlen(name) + 1, name[0] == '\0' ? NULL : name;
  while ((e = readdir(n->dir)) != NULL && is_dot(e->d_name)) {
  }
  return e == NULL ? NULL : e->d_name;
}

static bool read_all(struct names *n) {
  size_t used = 0, room = 0;
  const char *name;
  char *all = NULL;
  do {
    name = next_name(n);
    size_t len = name == NULL ? 0 : strlen(name);
    if (room - used < len + 2) {
      char *more = realloc(all, room = 2 * room + len + 1024);
      if (more == NULL) return free(all), false;
      all = more;
    }
    if (name != NULL) memcpy(all + used, name, len);
    all[used + len] = '\0';
    used += len + 1;
  } while (name != NULL);
  n->next = n->all = all;
  return true;
}

static int walk_children(struct tree *t, struct names *names) {
  struct FTW at = t->at;
  size_t len = t->len;
  const char *name;
  int r = 0;
  if (t->path[len - 1] != '/') t->path[t->len++] = '/';
  t->at = (struct FTW){.base = (int)t->len, .level = at.level + 1};
  while (r == 0 && (name = next_name(names)) != NULL) r = walk_child(t, names->dir, name);
  t->path[t->len = len] = '\0';
  t->at = at;
  return (t->flags & FTW_ACTIONRETVAL) && r == FTW_SKIP_SIBLINGS ? 0 : r;
}

/* Back to the directory above, where the walk goes on there. */
static int leave(const struct tree *t, DIR *above, int r) {
  bool on = r == 0 || ((t->flags & FTW_ACTIONRETVAL) && r != -1 && r != FTW_STOP);
  if (t->at.level == 0 || !(t->flags & FTW_CHDIR) || !on) return r;
  return (above != NULL ? fchdir(dirfd(above)) : chdir("..")) == 0 ? r : -1;
}

/* The children of an open directory, which is closed. */
static int walk_open(struct tree *t, DIR *dir) {
  struct names names = {.dir = dir};
  int r = 0;
  if (t->at.level >= t->streams) {
    if (!read_all(&names)) r = -1;
    closedir(dir);
    names.dir = NULL;
  }
  if (r == 0) r = walk_children(t, &names);
  int saved = errno;
  if (names.dir != NULL) closedir(names.dir);
  free(names.all);
  errno = saved;
  return r;
}

static int walk_directory(struct tree *t, const struct stat *st, DIR *above) {
  DIR *dir = opendir(name_of(t));
  if (dir == NULL) return errno == EACCES ? visit(t, st, FTW_DNR) : -1;
  int r = t->flags & FTW_DEPTH ? 0 : visit(t, st, FTW_D);
  if (r == 0 && (t->flags & FTW_CHDIR)) r = fchdir(dirfd(dir));
  if (r != 0 || t->len + 1 >= sizeof(t->path)) {
    closedir(dir);
    return r;
  }
  r = walk_open(t, dir);
  if (r == 0 && (t->flags & FTW_DEPTH)) r = visit(t, st, FTW_DP);
  return leave(t, above, r);
}

static int walk_root(struct tree *t) {
  struct stat st = {0};
  int type = kind_of(t, &st);
  if (type < 0 || type == FTW_NS) return -1;
  if (type != FTW_D) return visit(t, &st, type);
  t->dev = st.st_dev;
  if (note_directory(t, &st) < 0) return -1;
  return walk_directory(t, &st, NULL);
}

/* With FTW_CHDIR the walk begins in the directory that holds its root, and ends where the program was. */
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

static int walk_from(const char *path, ftw_fn *old, nftw_fn *fn, int flags, int streams) {
  struct tree t = {.old = old, .fn = fn, .flags = flags, .streams = FS_MAX(streams, 1)};
  t.len = strlen(path);
  if (t.len == 0 || t.len >= sizeof(t.path)) return fs_ret_int(t.len == 0 ? -ENOENT : -ENAMETOOLONG);
  memcpy(t.path, path, t.len + 1);
  while (t.len > 1 && t.path[t.len - 1] == '/') t.path[--t.len] = '\0';
  const char *slash = strrchr(t.path, '/');
  t.at.base = slash == NULL ? 0 : (int)(slash - t.path) + 1;
  int r = flags & FTW_CHDIR ? walk_with_chdir(&t) : walk_root(&t);
  int saved = errno;
  tdestroy(t.seen, free);
  errno = saved;
  return (flags & FTW_ACTIONRETVAL) && (r == FTW_SKIP_SUBTREE || r == FTW_SKIP_SIBLINGS) ? 0 : r;
}

/* A walk that follows symlinks may come below a mount from anywhere. */
static bool is_ours(const char *path, int flags) {
  return fs_mount_count() > 0 && path != NULL && (!(flags & FTW_PHYS) || fs_walk_meets_mount(path));
}

FS_EXPORT int ftw(const char *path, ftw_fn *fn, int fds) {
  FS_MAY_BE_NULL(path);
  return is_ours(path, 0) ? walk_from(path, fn, NULL, 0, fds) : FS_REAL(ftw)(path, fn, fds);
}
FS_ALIAS(ftw64, ftw);

FS_EXPORT int nftw(const char *path, nftw_fn *fn, int fds, int flags) {
  const int known = FTW_PHYS | FTW_MOUNT | FTW_CHDIR | FTW_DEPTH | FTW_ACTIONRETVAL;
  FS_MAY_BE_NULL(path);
  bool ours = (flags & ~known) == 0 && is_ours(path, flags);
  return ours ? walk_from(path, NULL, fn, flags, fds) : FS_REAL(nftw)(path, fn, fds, flags);
}
FS_ALIAS(nftw64, nftw);
