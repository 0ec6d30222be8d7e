/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of what walks directories inside libc. glob is told to use this library's directory
 * functions, because its pattern may name the mount by wildcards. fts, ftw and nftw cannot be told:
 * libc's walks see real directories only. So a walk that begins below a mount is refused.
 */
#include <ftw.h>
#include <stdlib.h>

#include "preload/preload.h"

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

/* Returns why libc must not walk from this path, or 0. */
static fs_err refused(const char *path, unsigned walk) {
  struct fs_found f;
  int route = fs_path_route(AT_FDCWD, path, walk, &f);
  if (route == FS_OUTSIDE) return 0;
  return route < 0 ? route : route == FS_NEW ? -ENOENT : -EOPNOTSUPP;
}

/* Returns why libc must not walk from this path and change the current directory on the way, or 0.
   It does so without the wrappers. So relative paths would be the dataset's still, or below a mount
   the real files'. */
static fs_err refused_cwd(const char *path) {
  struct fs_found f;
  int route = fs_path_route(AT_FDCWD, ".", 0, &f);
  return route != FS_OUTSIDE || fs_path_maybe_above(AT_FDCWD, path) ? -EOPNOTSUPP : 0;
}

FS_EXPORT int ftw(const char *path, int (*fn)(const char *, const struct stat *, int), int fds) {
  fs_err err = refused(path, 0);
  return err == 0 ? FS_REAL(ftw)(path, fn, fds) : fs_ret_int(err);
}
FS_ALIAS(ftw64, ftw);

FS_EXPORT int nftw(const char *path, int (*fn)(const char *, const struct stat *, int, struct FTW *), int fds,
                   int flags) {
  fs_err err = refused(path, flags & FTW_PHYS ? FS_NOFOLLOW : 0);
  if (err == 0 && (flags & FTW_CHDIR) && fs_mount_count() > 0) err = refused_cwd(path);
  return err == 0 ? FS_REAL(nftw)(path, fn, fds, flags) : fs_ret_int(err);
}
FS_ALIAS(nftw64, nftw);

/* With FTS_NOCHDIR libc leaves the current directory alone; fts_accpath of each file tells the program
   the path to use. */
FS_EXPORT FTS *fts_open(char *const *paths, int options, int (*compare)(const FTSENT **, const FTSENT **)) {
  unsigned walk = options & (FTS_LOGICAL | FTS_COMFOLLOW) ? 0 : FS_NOFOLLOW;
  fs_err err = 0;
  for (size_t i = 0; err == 0 && paths[i] != NULL; i++) err = refused(paths[i], walk);
  if (fs_mount_count() > 0) options |= FTS_NOCHDIR;
  return err == 0 ? FS_REAL(fts_open)(paths, options, compare) : (fs_ret(err), NULL);
}
FS_ALIAS(fts64_open, fts_open);
