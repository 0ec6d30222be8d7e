/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of the calls by which programs find out whether a descriptor is a socket or a terminal.
 * The kernel knows a dataset's file as a placeholder and says EBADF, but these programs go on as
 * with a file after ENOTSOCK or ENOTTY only. The real call comes first, so a call that works costs
 * nothing more. The tables in symbols.h make all of them. Calls that want a terminal, a timer and
 * the like without asking are not wrapped: EBADF ends them as well as another error.
 */
#include <pty.h>
#include <utmp.h>

#include "preload/preload.h"

/* Returns whether fd, which a real call has refused, is an open virtual descriptor. */
static bool is_file(int fd) {
  struct fs_slot *s = fs_fd_slot(fd);
  if (s == NULL) s = fs_fd_adopt(fd);
  if (s == NULL) return false;
  uint8_t kind = atomic_load(&s->kind);
  return kind == FS_SLOT_FILE || kind == FS_SLOT_DIR;
}

#define FS_WRONG_KIND(ret, name, params, args, err)                                                                    \
  FS_EXPORT ret name params;                                                                                           \
  FS_EXPORT ret name params {                                                                                          \
    ret r = FS_REAL(name) args;                                                                                        \
    if (FS_UNLIKELY(r == (ret)-1 && errno == EBADF)) errno = is_file(fd) ? err : EBADF;                                \
    return r;                                                                                                          \
  }

#define X(ret, name, params, args) FS_WRONG_KIND(ret, name, params, args, ENOTSOCK)
FS_SYMBOLS_NOT_SOCKET(X)
#undef X
FS_ALIAS(__send, send);

#define X(ret, name, params, args) FS_WRONG_KIND(ret, name, params, args, ENOTTY)
FS_SYMBOLS_NOT_TTY(X)
#undef X

/* libc would look at the placeholder, which is a socket. */
FS_EXPORT int isfdtype(int fd, int type) {
  struct stat st;
  return fstat(fd, &st) != 0 ? -1 : (st.st_mode & S_IFMT) == (mode_t)type;
}

/* ---- terminals that libc opens, or puts at 0-2, by itself ---- */

FS_EXPORT int login_tty(int fd) {
  int r = FS_REAL(login_tty)(fd);
  if (r != 0) return r;
  for (int i = 0; i < 3; i++) fs_fd_forget(i);
  if (fd > 2) fs_fd_forget(fd);
  return 0;
}

FS_EXPORT int openpty(int *master, int *slave, char *name, const struct termios *termp, const struct winsize *winp) {
  int r = FS_REAL(openpty)(master, slave, name, termp, winp);
  if (r < 0 && errno == EMFILE && fs_fd_pool_drop()) r = FS_REAL(openpty)(master, slave, name, termp, winp);
  if (r == 0) fs_fd_forget(*master);
  if (r == 0) fs_fd_forget(*slave);
  return r;
}

/* libc's forkpty would fork without the wrapper. */
FS_EXPORT int forkpty(int *master, char *name, const struct termios *termp, const struct winsize *winp) {
  int m, slave;
  if (openpty(&m, &slave, name, termp, winp) != 0) return -1;
  pid_t pid = fork();
  if (pid != 0) {
    int saved = errno;
    close(slave);
    if (pid < 0) close(m);
    errno = saved;
    if (pid > 0) *master = m;
    return pid;
  }
  close(m);
  /* As forkpty(3) says, a child without a terminal ends. */
  if (login_tty(slave) != 0) FS_SYS1(SYS_exit_group, 1);
  return 0;
}
