/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that have libc or the kernel itself work on a path: of a dataset's they are refused, by libc's function and by
 * number, or mean the real file system. What is really at the mount is not touched. libc_calls.sh runs this on a mount.
 * Usage: DIR [covers], if the mount covers a directory with the same names.
 */
#include <aio.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <limits.h>
#include <linux/openat2.h>
#include <mntent.h>
#include <nl_types.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>
#include <wchar.h>
#include <wordexp.h>

#include "calls.h"

static int covers;

/* Calls that this libc has no functions for. */
static void by_number(void) {
  char buf[64];
  struct stat before, after;
  ERR(EROFS, syscall(452, AT_FDCWD, P("a.txt"), 0600, 0));               /* fchmodat2 */
  ERR(ENOSYS, syscall(464, AT_FDCWD, P("a.txt"), 0, "user.x", buf, 16)); /* getxattrat */
  ERR(ENOSYS, syscall(468, AT_FDCWD, P("a.txt"), buf, 24, 0));           /* file_getattr */
  ERR(EROFS, syscall(SYS_fchmodat, AT_FDCWD, P("a.txt"), 0600));
  ERR(EROFS, syscall(SYS_fchownat, AT_FDCWD, P("a.txt"), 1, 1, 0));
  ERR(EROFS, syscall(SYS_utimensat, AT_FDCWD, P("a.txt"), NULL, 0));
  ERR(EROFS, syscall(SYS_unlinkat, AT_FDCWD, P("a.txt"), 0));
  ERR(EROFS, syscall(SYS_mkdirat, AT_FDCWD, P("new"), 0700));
  ERR(EROFS, syscall(SYS_mknodat, AT_FDCWD, P("new"), S_IFREG | 0600, 0));
  ERR(EROFS, syscall(SYS_symlinkat, "x", AT_FDCWD, P("new")));
  ERR(EROFS, syscall(SYS_renameat2, AT_FDCWD, P("a.txt"), AT_FDCWD, P("new"), 0));
  ERR(EXDEV, syscall(SYS_linkat, AT_FDCWD, P("a.txt"), AT_FDCWD, "/tmp/libc-refused", 0));
  ERR(EROFS, syscall(SYS_truncate, P("a.txt"), 0L));
  ERR(EROFS, syscall(SYS_setxattr, P("a.txt"), "user.x", "y", 1L, 0));
  int fd = open(P("a.txt"), O_RDONLY);
  fstat(fd, &before);
  ERR(EROFS, syscall(SYS_fchmod, fd, 0600));
  ERR(EROFS, syscall(SYS_fchown, fd, 1, 1));
  ERR(EROFS, syscall(SYS_utimensat, fd, NULL, NULL, 0));
  ERR(EROFS, syscall(SYS_fsetxattr, fd, "user.x", "y", 1L, 0));
  fstat(fd, &after);
  if (memcmp(&before, &after, sizeof(before)) != 0) failures++, puts("the file has changed");
#if defined(__x86_64__)
  ERR(EROFS, syscall(SYS_chmod, P("a.txt"), 0600));
  ERR(EROFS, syscall(SYS_unlink, P("a.txt")));
  ERR(EROFS, syscall(SYS_rename, P("a.txt"), P("new")));
  ERR(EROFS, syscall(SYS_creat, P("new"), 0600));
  ERR(EROFS, syscall(SYS_utime, P("a.txt"), NULL));
#endif
  close(fd);
}

static int step(const char *path, const struct stat *st, int type) {
  (void)path, (void)st, (void)type;
  return 0;
}
static int step_new(const char *path, const struct stat *st, int type, struct FTW *at) {
  (void)path, (void)st, (void)type, (void)at;
  return 0;
}
static int stop(const char *path, const struct stat *st, int type, struct FTW *at) {
  (void)path, (void)st, (void)type, (void)at;
  return 1;
}
/* A walk from above the mount goes into some directories, and the current one stays. */
static int cwd_stays(void) {
  char *const paths[] = {"/", NULL};
  char before[4096], now[4096];
  FTS *walk = fts_open(paths, FTS_PHYSICAL, NULL);
  FTSENT *e;
  int same = walk != NULL && getcwd(before, sizeof(before)) != NULL;
  for (int deep = 0; same && deep < 20 && (e = fts_read(walk)) != NULL; deep += e->fts_level > 1)
    same = e->fts_accpath[0] == '/' && syscall(SYS_getcwd, now, sizeof(now)) > 0 && strcmp(now, before) == 0;
  return walk != NULL && fts_close(walk) == 0 && same;
}
static long fts(const char *path, const char *other, int options) {
  char *const paths[] = {(char *)path, (char *)other, NULL};
  FTS *walk = fts_open(paths, options, NULL);
  return walk == NULL ? -1 : fts_close(walk);
}

/* libc walks on real directories, where it would not see a dataset. */
static void walks(void) {
  char *const paths[] = {P("d"), NULL};
  ERR(EOPNOTSUPP, ftw(P("d"), step, 8));
  ERR(EOPNOTSUPP, ftw64(base, (void *)step, 8));
  ERR(EOPNOTSUPP, nftw(base, step_new, 8, FTW_PHYS));
  ERR(EOPNOTSUPP, nftw64(P("a.txt"), (void *)step_new, 8, 0));
  ERR(ENOENT, nftw(P("none"), step_new, 8, 0));
  ERR(EOPNOTSUPP, fts(base, NULL, FTS_PHYSICAL));
  ERR(EOPNOTSUPP, fts("/proc/self/task", P("d"), FTS_LOGICAL));
  OK(fts64_open(paths, FTS_PHYSICAL, NULL) == NULL && errno == EOPNOTSUPP);
  OK(chdir(P("d")) == 0);
  ERR(EOPNOTSUPP, ftw(".", step, 8));
  ERR(EOPNOTSUPP, fts(".", NULL, FTS_PHYSICAL | FTS_NOCHDIR));
  OK(nftw("/proc/self/task", step_new, 8, FTW_PHYS) == 0);
  OK(fts("/proc/self/task", NULL, FTS_PHYSICAL | FTS_NOCHDIR) == 0);
  /* This would change the current directory; fts does not. */
  ERR(EOPNOTSUPP, nftw("/proc/self/task", step_new, 8, FTW_PHYS | FTW_CHDIR));
  OK(fts("/proc/self/task", NULL, FTS_PHYSICAL) == 0);
  OK(chdir("/proc") == 0);
  OK(nftw("/proc/self/task", step_new, 8, FTW_PHYS | FTW_CHDIR) == 0);
  OK(nftw("/", stop, 8, FTW_PHYS) == 1);
  ERR(EOPNOTSUPP, nftw("/", stop, 8, FTW_PHYS | FTW_CHDIR));
  OK(cwd_stays());
  OK(chdir("/") == 0);
}

/* libc's own glob matches real files. */
static void words(void) {
  wordexp_t w;
  OK(wordexp(P("a*.txt"), &w, 0) == 0 && w.we_wordc == 1 && strcmp(w.we_wordv[0], P(covers ? "a.txt" : "a*.txt")) == 0);
  OK(wordexp("/proc/self/stat[u]s", &w, 0) == 0 && w.we_wordc == 1 && strcmp(w.we_wordv[0], "/proc/self/status") == 0);
}

/* A list of requests of which one is a dataset's: none is carried out. */
static void lists(void) {
  char text[8] = "", pipes_text[8] = "";
  int ends[2];
  OK(pipe(ends) == 0 && write(ends[1], "pipe", 4) == 4);
  struct aiocb ours = {.aio_fildes = open(P("a.txt"), O_RDONLY), .aio_buf = text, .aio_nbytes = 4};
  struct aiocb other = {.aio_fildes = ends[0], .aio_buf = pipes_text, .aio_nbytes = 4};
  ours.aio_sigevent.sigev_notify = other.aio_sigevent.sigev_notify = SIGEV_NONE;
  struct aiocb *list[] = {&other, &ours};
  ERR(ENOSYS, lio_listio(LIO_WAIT, list, 2, NULL));
  ERR(ENOSYS, lio_listio64(LIO_NOWAIT, (void *)list, 2, NULL));
  ours.aio_lio_opcode = LIO_NOP;
  OK(text[0] == '\0' && pipes_text[0] == '\0' && lio_listio(LIO_WAIT, list, 2, NULL) == 0);
  OK(memcmp(pipes_text, "pipe", 4) == 0 && aio_read(&ours) == 0 && memcmp(text, "line", 4) == 0);
  close(ours.aio_fildes);
  close(ends[0]);
  close(ends[1]);
}

static long restricted(int dir, const char *path, uint64_t resolve) {
  struct open_how how = {.flags = O_RDONLY, .resolve = resolve};
  long fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
  return fd >= 0 ? close((int)fd) : -1;
}

/* Walks that the kernel restricts: as by a kernel that cannot, so that programs use openat. */
static void restrictions(void) {
  int top = open(base, O_RDONLY | O_DIRECTORY), proc = open("/proc", O_RDONLY | O_DIRECTORY);
  for (uint64_t resolve = RESOLVE_NO_XDEV; resolve <= RESOLVE_CACHED; resolve *= 2) {
    ERR(ENOSYS, restricted(top, "a.txt", resolve));
    ERR(ENOSYS, restricted(top, "d/../../../x", resolve));
    ERR(ENOSYS, restricted(AT_FDCWD, P("d"), resolve));
    ERR(ENOSYS, restricted(AT_FDCWD, P("none"), resolve));
  }
  ERR(EINVAL, restricted(top, "a.txt", RESOLVE_BENEATH | RESOLVE_IN_ROOT));
  ERR(ENOSYS, restricted(top, "/proc/version", RESOLVE_IN_ROOT));
  OK(chdir(P("d")) == 0);
  ERR(ENOSYS, restricted(AT_FDCWD, "t.txt", RESOLVE_BENEATH));
  OK(restricted(top, "a.txt", 0) == 0 && restricted(AT_FDCWD, "t.txt", 0) == 0);
  OK(restricted(top, "/proc/version", RESOLVE_NO_SYMLINKS) == 0 && restricted(proc, "version", RESOLVE_BENEATH) == 0);
  ERR(EXDEV, restricted(proc, "/proc/version", RESOLVE_BENEATH));
  OK(restricted(proc, "/version", RESOLVE_IN_ROOT) == 0);
  OK(chdir("/") == 0);
  int root = open("/", O_RDONLY | O_DIRECTORY);
  ERR(ENOSYS, restricted(root, P("a.txt"), RESOLVE_IN_ROOT));
  ERR(ENOSYS, restricted(root, P("a.txt") + 1, RESOLVE_IN_ROOT));
  close(root);
  close(top);
  close(proc);
}

/* Names that libc uses inside itself mean the real file system. */
static void real_names(void) {
  struct utmp entry = {.ut_type = USER_PROCESS};
  char text[8192];
  off64_t at = 0;
  int dir = open(P("d"), O_RDONLY);
  unsetenv("TMPDIR");
  char *name = tempnam(P("d"), "pre");
  OK(name != NULL && strncmp(name, covers ? P("d/pre") : P_tmpdir, covers ? strlen(base) + 6 : strlen(P_tmpdir)) == 0);
  FILE *mounts = NULL;
  OK((mounts = setmntent(P("mtab"), "r")) == NULL ? !covers && errno == ENOENT : covers && endmntent(mounts) == 1);
  OK(utmpname(P("wtmp")) == 0 && (covers || getutent() == NULL));
  endutent();
  utmpname(_PATH_UTMP);
  if (covers)
    OK(ftok(P("a.txt"), 1) != -1);
  else
    ERR(ENOENT, ftok(P("a.txt"), 1));
  if (!covers) ERR(ENOENT, (long)catopen(P("a.txt"), 0));
  if (!covers) OK((updwtmp(P("wtmp"), &entry), errno == ENOENT));
  ERR(EBADF, getdirentries(dir, text, sizeof(text), &at));
  ERR(EBADF, getdirentries64(dir, text, sizeof(text), &at));
  close(dir);
  free(name);
}

/* Calls that want another kind of descriptor. */
static void kinds(const char *name) {
  int fd = open(P(name), O_RDONLY), ends[2];
  char text[256];
  eventfd_t count;
  struct termios t = {0};
  struct itimerspec timer = {0};
  struct epoll_event event = {0};
  OK(fd >= 0 && pipe(ends) == 0);
  ERR(ENOTTY, tcgetattr(fd, &t));
  ERR(ENOTSOCK, recv(fd, text, 1, 0));
  ERR(EBADF, tcsetattr(fd, TCSANOW, &t));
  ERR(EBADF, tcgetpgrp(fd));
  ERR(EBADF, tcsetpgrp(fd, getpgrp()));
  ERR(EBADF, tcgetsid(fd));
  ERR(EBADF, tcsendbreak(fd, 0));
  ERR(EBADF, tcdrain(fd));
  ERR(EBADF, tcflush(fd, TCIFLUSH));
  ERR(EBADF, tcflow(fd, TCOON));
  ERR(EBADF, sockatmark(fd));
  OK(ttyname(fd) == NULL && errno == EBADF);
  OK(ttyname_r(fd, text, sizeof(text)) == EBADF);
  OK(ptsname(fd) == NULL && errno == EBADF);
  OK(ptsname_r(fd, text, sizeof(text)) == EBADF);
  ERR(EBADF, grantpt(fd));
  ERR(EBADF, unlockpt(fd));
  ERR(EBADF, login_tty(fd));
  ERR(EBADF, timerfd_settime(fd, 0, &timer, NULL));
  ERR(EBADF, timerfd_gettime(fd, &timer));
  ERR(EBADF, inotify_rm_watch(fd, 1));
  ERR(EBADF, epoll_wait(fd, &event, 1, 0));
  ERR(EBADF, epoll_pwait(fd, &event, 1, 0, NULL));
  ERR(EBADF, setns(fd, 0));
  ERR(EBADF, tee(fd, ends[1], 1, 0));
  ERR(EBADF, syscall(SYS_tee, fd, ends[1], 1, 0));
  ERR(EBADF, eventfd_read(fd, &count));
  OK(isfdtype(fd, S_IFSOCK) == 0);
  close(fd);
  close(ends[0]);
  close(ends[1]);
}

static void temporary(void) {
  char template[PATH_MAX];
  snprintf(template, sizeof(template), "%s/xXXXXXX", base);
  ERR(EROFS, mkstemp(template));
  if (mkdtemp(template) != NULL || errno != EROFS) failures++, puts("mkdtemp is not refused");
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  base = argv[1];
  covers = argc > 2;
  by_number();
  walks();
  words();
  lists();
  restrictions();
  real_names();
  kinds("a.txt");
  kinds("d");
  temporary();
  return failures != 0;
}
