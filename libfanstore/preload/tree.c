/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of glob, ftw and nftw, which walk directories inside libc. glob is told to use our directory functions; for
 * the tree walks below a mount there is a walk of our own.
 */
#include "preload/preload.h"

static void glob_closedir(void *dir) {
  closedir(dir);
}

FS_EXPORT int glob(const char *restrict pattern, int flags, int (*on_error)(const char *, int), glob_t *restrict g) {
  if (fs_mount_count() == 0 || (flags & GLOB_ALTDIRFUNC) || fs_path_out(AT_FDCWD, pattern))
    return FS_REAL(glob)(pattern, flags, on_error, g);
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
  struct FTW at;
  size_t len;
  char path[PATH_MAX];
};

static int visit(struct tree *t, const struct stat *st, int type) {
  return t->old != NULL ? t->old(t->path, st, type) : t->fn(t->path, st, type, &t->at);
}

static int kind_of(struct tree *t, struct stat *st) {
  if (t->flags & FTW_PHYS) {
    if (lstat(t->path, st) != 0) return FTW_NS;
    return S_ISDIR(st->st_mode) ? FTW_D : S_ISLNK(st->st_mode) ? FTW_SL : FTW_F;
  }
  if (stat(t->path, st) == 0) return S_ISDIR(st->st_mode) ? FTW_D : FTW_F;
  return lstat(t->path, st) == 0 && S_ISLNK(st->st_mode) ? (t->old != NULL ? FTW_SL : FTW_SLN) : FTW_NS;
}

static int walk(struct tree *t);

/* One name in the directory that t->path names. */
static int walk_child(struct tree *t, const char *name) {
  size_t len = t->len, n = strlen(name);
  struct FTW at = t->at;
  if (len + 1 + n >= sizeof(t->path)) return fs_ret_int(-ENAMETOOLONG);
  t->path[len] = '/';
  memcpy(t->path + len + 1, name, n + 1);
  t->len = len + 1 + n;
  t->at = (struct FTW){.base = (int)len + 1, .level = at.level + 1};
  int r = walk(t);
  t->path[t->len = len] = '\0';
  t->at = at;
  return r;
}

static int walk_children(struct tree *t, DIR *dir) {
  const struct dirent *e;
  int r = 0;
  while (r == 0 && (e = readdir(dir)) != NULL) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    r = walk_child(t, e->d_name);
    if ((t->flags & FTW_ACTIONRETVAL) && r == FTW_SKIP_SIBLINGS) return 0;
  }
  return r;
}

static int walk_directory(struct tree *t, struct stat *st) {
  DIR *dir = opendir(t->path);
  if (dir == NULL) return visit(t, st, FTW_DNR);
  int r = t->flags & FTW_DEPTH ? 0 : visit(t, st, FTW_D);
  bool skip = (t->flags & FTW_ACTIONRETVAL) && r == FTW_SKIP_SUBTREE;
  if (r == 0 && (t->flags & FTW_CHDIR) && chdir(t->path) != 0) r = -1;
  if (r == 0) r = walk_children(t, dir);
  closedir(dir);
  if (r == 0 && (t->flags & FTW_DEPTH)) r = visit(t, st, FTW_DP);
  return skip ? 0 : r;
}

static int walk(struct tree *t) {
  struct stat st;
  int type = kind_of(t, &st);
  if (t->at.level == 0) t->dev = st.st_dev;
  if (type == FTW_NS && t->at.level == 0) return -1;
  if ((t->flags & FTW_MOUNT) && type != FTW_NS && st.st_dev != t->dev) return 0;
  int r = type == FTW_D ? walk_directory(t, &st) : visit(t, &st, type);
  return (t->flags & FTW_ACTIONRETVAL) && r == FTW_SKIP_SUBTREE ? 0 : r;
}

static int walk_from(const char *path, ftw_fn *old, nftw_fn *fn, int flags) {
  struct tree t = {.old = old, .fn = fn, .flags = flags};
  t.len = strlen(path);
  if (t.len >= sizeof(t.path)) return fs_ret_int(-ENAMETOOLONG);
  memcpy(t.path, path, t.len + 1);
  while (t.len > 1 && t.path[t.len - 1] == '/') t.path[--t.len] = '\0';
  const char *slash = strrchr(t.path, '/');
  t.at.base = slash == NULL ? 0 : (int)(slash - t.path) + 1;
  return walk(&t);
}

FS_EXPORT int ftw(const char *path, ftw_fn *fn, int fds) {
  return fs_path_out(AT_FDCWD, path) ? FS_REAL(ftw)(path, fn, fds) : walk_from(path, fn, NULL, 0);
}
FS_ALIAS(ftw64, ftw);

FS_EXPORT int nftw(const char *path, nftw_fn *fn, int fds, int flags) {
  return fs_path_out(AT_FDCWD, path) ? FS_REAL(nftw)(path, fn, fds, flags) : walk_from(path, NULL, fn, flags);
}
FS_ALIAS(nftw64, nftw);
