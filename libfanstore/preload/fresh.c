/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of the calls that only make new descriptors. They do two things. If the numbers have run
 * out, they give up idle placeholders and make the call again. They forget what the table knew of
 * the new number. The tables in symbols.h make all of them.
 */
#include <mqueue.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>

#include "preload/preload.h"

/* The headers of an older libc do not declare all of them. */
#define X(ret, name, params, args)                                                                                     \
  FS_EXPORT ret name params;                                                                                           \
  FS_EXPORT ret name params {                                                                                          \
    return FS_FRESH(FS_REAL(name) args);                                                                               \
  }
FS_SYMBOLS_FRESH(X)
FS_SYMBOLS_SHM(X)
#undef X

/*
 * libc opens a temporary file without the wrappers, so one below a mount would be a file of the
 * real file system. If a symlink or ".." leads out of the mount, libc makes the name there, and the
 * caller's template gets its letters.
 */
static char *template_end(char *t, int suffix) {
  return t + strlen(t) - suffix - 6;
}

/* Makes an output file (flags) or directory (-1) with a name that nobody has. */
static int temporary(char *t, int suffix, int flags) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  char *at = template_end(t, suffix);
  for (int tries = 0; tries < 1000; tries++) {
    uint8_t random[6];
    if (fs_ret(FS_SYS3(SYS_getrandom, random, sizeof(random), 0)) != (int64_t)sizeof(random)) return -1;
    for (int i = 0; i < 6; i++) at[i] = letters[random[i] % (sizeof(letters) - 1)];
    int r = flags < 0 ? mkdir(t, 0700) : fs_open_common(AT_FDCWD, t, flags | O_CREAT | O_EXCL, 0600);
    if (r >= 0 || errno != EEXIST) return r;
  }
  return -1;
}

#define FS_TEMP(name, params, args, suffix, more)                                                                      \
  FS_EXPORT int name params {                                                                                          \
    struct fs_found to;                                                                                                \
    int route = fs_path_outside(AT_FDCWD, t) ? FS_OUTSIDE : fs_file_refuse_template(t, suffix, &to);                   \
    if (route == FS_OUTSIDE) return FS_FRESH(FS_REAL(name) args);                                                      \
    if (route == FS_NEW) return temporary(t, suffix, O_RDWR | (more));                                                 \
    if (route != FS_REDIRECT) return fs_ret_int(route);                                                                \
    char *given = template_end(t, suffix);                                                                             \
    t = to.real;                                                                                                       \
    int fd = FS_FRESH(FS_REAL(name) args);                                                                             \
    if (fd >= 0) memcpy(given, template_end(t, suffix), 6);                                                            \
    return fd;                                                                                                         \
  }
FS_TEMP(mkstemp, (char *t), (t), 0, 0)
FS_TEMP(mkostemp, (char *t, int f), (t, f), 0, f)
FS_TEMP(mkstemps, (char *t, int n), (t, n), n, 0)
FS_TEMP(mkostemps, (char *t, int n, int f), (t, n, f), n, f)
FS_ALIAS(mkstemp64, mkstemp);
FS_ALIAS(mkostemp64, mkostemp);
FS_ALIAS(mkstemps64, mkstemps);
FS_ALIAS(mkostemps64, mkostemps);

FS_EXPORT char *mkdtemp(char *t) {
  struct fs_found to;
  int route = fs_path_outside(AT_FDCWD, t) ? FS_OUTSIDE : fs_file_refuse_template(t, 0, &to);
  if (route == FS_OUTSIDE) return FS_REAL(mkdtemp)(t);
  if (route == FS_NEW) return temporary(t, 0, -1) == 0 ? t : NULL;
  if (route != FS_REDIRECT) return fs_ret(route), NULL;
  if (FS_REAL(mkdtemp)(to.real) == NULL) return NULL;
  memcpy(template_end(t, 0), template_end(to.real, 0), 6);
  return t;
}

static int after_pair(int r, const int fds[2]) {
  if (r == 0) fs_fd_forget(fds[0]);
  if (r == 0) fs_fd_forget(fds[1]);
  return r;
}

#define X(ret, name, params, args)                                                                                     \
  FS_EXPORT ret name params {                                                                                          \
    fs_lowest(2);                                                                                                      \
    int r = FS_REAL(name) args;                                                                                        \
    if (FS_UNLIKELY(r < 0 && errno == EMFILE && fs_fd_pool_drop())) r = FS_REAL(name) args;                            \
    return after_pair(r, fds);                                                                                         \
  }
FS_SYMBOLS_PAIR(X)
#undef X
FS_ALIAS(__pipe, pipe);
