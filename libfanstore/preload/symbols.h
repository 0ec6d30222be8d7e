/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of every libc function that a wrapper calls under its real name: X(return type, name,
 * parameters, arguments). real.c makes the pointers and resolves them in this order, so functions
 * that the dynamic linker and malloc may call come first. An alias, like a 64-bit form, stands
 * beside its wrapper, by FS_ALIAS.
 */
#ifndef FS_PRELOAD_SYMBOLS_H
#define FS_PRELOAD_SYMBOLS_H

struct mount_attr; /* linux/mount.h's, which older libcs do not include */

#define FS_SYMBOLS_MEMORY(X)                                                                                           \
  X(void *, mmap, (void *a, size_t n, int p, int f, int fd, off_t o), (a, n, p, f, fd, o))                             \
  X(int, open, (const char *p, int f, ...), (p, f))                                                                    \
  X(int, munmap, (void *a, size_t n), (a, n))                                                                          \
  X(ssize_t, read, (int fd, void *b, size_t n), (fd, b, n))                                                            \
  X(int, close, (int fd), (fd))

#define FS_SYMBOLS_OPEN(X) X(int, openat, (int d, const char *p, int f, ...), (d, p, f))

#define FS_SYMBOLS_READ(X)                                                                                             \
  X(ssize_t, pread, (int fd, void *b, size_t n, off_t o), (fd, b, n, o))                                               \
  X(ssize_t, readv, (int fd, const struct iovec *v, int c), (fd, v, c))                                                \
  X(ssize_t, preadv, (int fd, const struct iovec *v, int c, off_t o), (fd, v, c, o))                                   \
  X(ssize_t, preadv2, (int fd, const struct iovec *v, int c, off_t o, int f), (fd, v, c, o, f))                        \
  X(off_t, lseek, (int fd, off_t o, int w), (fd, o, w))                                                                \
  X(ssize_t, write, (int fd, const void *b, size_t n), (fd, b, n))                                                     \
  X(ssize_t, pwrite, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o))                                        \
  X(ssize_t, writev, (int fd, const struct iovec *v, int c), (fd, v, c))                                               \
  X(ssize_t, pwritev, (int fd, const struct iovec *v, int c, off_t o), (fd, v, c, o))                                  \
  X(ssize_t, pwritev2, (int fd, const struct iovec *v, int c, off_t o, int f), (fd, v, c, o, f))                       \
  X(ssize_t, sendfile, (int o, int i, off_t *p, size_t n), (o, i, p, n))                                               \
  X(ssize_t, copy_file_range, (int i, off64_t *pi, int o, off64_t *po, size_t n, unsigned f), (i, pi, o, po, n, f))    \
  X(ssize_t, sendmsg, (int fd, const struct msghdr *m, int f), (fd, m, f))                                             \
  X(int, sendmmsg, (int fd, struct mmsghdr *m, unsigned n, int f), (fd, m, n, f))                                      \
  X(int, accept, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n))                                               \
  X(int, accept4, (int fd, struct sockaddr *a, socklen_t *n, int f), (fd, a, n, f))                                    \
  X(ssize_t, recvmsg, (int fd, struct msghdr *m, int f), (fd, m, f))                                                   \
  X(int, recvmmsg, (int fd, struct mmsghdr *m, unsigned n, int f, struct timespec *t), (fd, m, n, f, t))               \
  X(ssize_t, splice, (int i, off64_t *pi, int o, off64_t *po, size_t n, unsigned f), (i, pi, o, po, n, f))

#define FS_SYMBOLS_EXIT(X)                                                                                             \
  X(void, _exit, (int s), (s))                                                                                         \
  X(void, quick_exit, (int s), (s))

#define FS_SYMBOLS_FD(X)                                                                                               \
  X(int, dup, (int fd), (fd))                                                                                          \
  X(int, dup2, (int a, int b), (a, b))                                                                                 \
  X(int, dup3, (int a, int b, int f), (a, b, f))                                                                       \
  X(int, fcntl, (int fd, int c, ...), (fd, c))                                                                         \
  X(int, ioctl, (int fd, unsigned long r, ...), (fd, r))                                                               \
  X(int, isatty, (int fd), (fd))                                                                                       \
  X(int, close_range, (unsigned a, unsigned b, int f), (a, b, f))                                                      \
  X(int, msync, (void *a, size_t n, int f), (a, n, f))                                                                 \
  X(int, fsync, (int fd), (fd))                                                                                        \
  X(int, fdatasync, (int fd), (fd))                                                                                    \
  X(int, syncfs, (int fd), (fd))                                                                                       \
  X(int, sync_file_range, (int fd, off64_t o, off64_t n, unsigned f), (fd, o, n, f))                                   \
  X(int, flock, (int fd, int op), (fd, op))                                                                            \
  X(int, lockf, (int fd, int c, off_t n), (fd, c, n))                                                                  \
  X(int, ftruncate, (int fd, off_t n), (fd, n))                                                                        \
  X(int, fallocate, (int fd, int m, off_t o, off_t n), (fd, m, o, n))                                                  \
  X(int, posix_fallocate, (int fd, off_t o, off_t n), (fd, o, n))                                                      \
  X(int, posix_fadvise, (int fd, off_t o, off_t n, int a), (fd, o, n, a))                                              \
  X(ssize_t, readahead, (int fd, off64_t o, size_t n), (fd, o, n))                                                     \
  X(int, epoll_ctl, (int e, int op, int fd, struct epoll_event *ev), (e, op, fd, ev))                                  \
  X(int, poll, (struct pollfd * p, nfds_t n, int t), (p, n, t))                                                        \
  X(int, ppoll, (struct pollfd * p, nfds_t n, const struct timespec *t, const sigset_t *m), (p, n, t, m))              \
  X(int, select, (int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t), (n, r, w, e, t))                         \
  X(int, pselect, (int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *t, const sigset_t *m),               \
    (n, r, w, e, t, m))

/* Like the rows of FS_SYMBOLS_FRESH. In librt before glibc 2.34. */
#define FS_SYMBOLS_SHM(X) X(int, shm_open, (const char *n, int f, mode_t m), (n, f, m))

/* Each of these returns one new descriptor and takes no virtual one. */
#define FS_SYMBOLS_FRESH(X)                                                                                            \
  X(int, socket, (int d, int t, int p), (d, t, p))                                                                     \
  X(int, epoll_create, (int n), (n))                                                                                   \
  X(int, epoll_create1, (int f), (f))                                                                                  \
  X(int, eventfd, (unsigned n, int f), (n, f))                                                                         \
  X(int, inotify_init, (void), ())                                                                                     \
  X(int, inotify_init1, (int f), (f))                                                                                  \
  X(int, memfd_create, (const char *n, unsigned f), (n, f))                                                            \
  X(int, timerfd_create, (clockid_t c, int f), (c, f))                                                                 \
  X(int, signalfd, (int fd, const sigset_t *m, int f), (fd, m, f))                                                     \
  X(int, pidfd_open, (pid_t p, unsigned f), (p, f))                                                                    \
  X(int, posix_openpt, (int f), (f))                                                                                   \
  X(int, getpt, (void), ())                                                                                            \
  X(int, pidfd_getfd, (int fd, int t, unsigned f), (fd, t, f))                                                         \
  X(int, fanotify_init, (unsigned f, unsigned e), (f, e))                                                              \
  X(int, open_by_handle_at, (int fd, struct file_handle *h, int f), (fd, h, f))                                        \
  X(int, fsopen, (const char *n, unsigned f), (n, f))                                                                  \
  X(int, fsmount, (int fd, unsigned f, unsigned a), (fd, f, a))

/* Each of these makes a file of its template and returns its descriptor. */
#define FS_SYMBOLS_TEMP(X)                                                                                             \
  X(int, mkstemp, (char *t), (t))                                                                                      \
  X(int, mkostemp, (char *t, int f), (t, f))                                                                           \
  X(int, mkstemps, (char *t, int n), (t, n))                                                                           \
  X(int, mkostemps, (char *t, int n, int f), (t, n, f))

#define FS_SYMBOLS_PAIR(X)                                                                                             \
  X(int, pipe, (int fds[2]), (fds))                                                                                    \
  X(int, pipe2, (int fds[2], int f), (fds, f))                                                                         \
  X(int, socketpair, (int d, int t, int p, int fds[2]), (d, t, p, fds))

#define FS_SYMBOLS_STAT(X)                                                                                             \
  X(int, fstat, (int fd, struct stat *st), (fd, st))                                                                   \
  X(int, fstatat, (int d, const char *p, struct stat *st, int f), (d, p, st, f))                                       \
  X(int, statx, (int d, const char *p, int f, unsigned m, struct statx *st), (d, p, f, m, st))                         \
  X(int, access, (const char *p, int m), (p, m))                                                                       \
  X(int, eaccess, (const char *p, int m), (p, m))                                                                      \
  X(int, faccessat, (int d, const char *p, int m, int f), (d, p, m, f))                                                \
  X(ssize_t, readlinkat, (int d, const char *p, char *b, size_t n), (d, p, b, n))                                      \
  X(int, statfs, (const char *p, struct statfs *st), (p, st))                                                          \
  X(int, fstatfs, (int fd, struct statfs *st), (fd, st))                                                               \
  X(int, statvfs, (const char *p, struct statvfs *st), (p, st))                                                        \
  X(int, fstatvfs, (int fd, struct statvfs *st), (fd, st))                                                             \
  X(long, pathconf, (const char *p, int n), (p, n))                                                                    \
  X(long, fpathconf, (int fd, int n), (fd, n))

/* These want something other than a dataset's file. Each gives the error of a file's descriptor,
   where the kernel says EBADF. */
#define FS_SYMBOLS_NOT_SOCKET(X)                                                                                       \
  X(int, getsockopt, (int fd, int l, int o, void *v, socklen_t *n), (fd, l, o, v, n))                                  \
  X(int, setsockopt, (int fd, int l, int o, const void *v, socklen_t n), (fd, l, o, v, n))                             \
  X(int, listen, (int fd, int n), (fd, n))                                                                             \
  X(int, shutdown, (int fd, int h), (fd, h))                                                                           \
  X(ssize_t, recv, (int fd, void *b, size_t n, int f), (fd, b, n, f))                                                  \
  X(ssize_t, __recv_chk, (int fd, void *b, size_t n, size_t z, int f), (fd, b, n, z, f))                               \
  X(ssize_t, send, (int fd, const void *b, size_t n, int f), (fd, b, n, f))

/* These give the same error, and have an address, which may be a path below a mount. */
#define FS_SYMBOLS_ADDRESS(X)                                                                                          \
  X(int, bind, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n))                                            \
  X(int, connect, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n))                                         \
  X(int, getpeername, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n))                                          \
  X(int, getsockname, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n))                                          \
  X(ssize_t, recvfrom, (int fd, void *b, size_t n, int f, struct sockaddr *a, socklen_t *l), (fd, b, n, f, a, l))      \
  X(ssize_t, __recvfrom_chk, (int fd, void *b, size_t n, size_t z, int f, struct sockaddr *a, socklen_t *l),           \
    (fd, b, n, z, f, a, l))                                                                                            \
  X(ssize_t, sendto, (int fd, const void *b, size_t n, int f, const struct sockaddr *a, socklen_t l),                  \
    (fd, b, n, f, a, l))

#define FS_SYMBOLS_NOT_TTY(X) X(int, tcgetattr, (int fd, struct termios *t), (fd, t))

#define FS_SYMBOLS_NOTIFY(X) X(int, inotify_add_watch, (int fd, const char *p, uint32_t m), (fd, p, m))

/* libc uses the path or descriptor of these inside itself. */
#define FS_SYMBOLS_NAMES(X)                                                                                            \
  X(char *, mktemp, (char *t), (t))                                                                                    \
  X(FILE *, tmpfile, (void), ())                                                                                       \
  X(int, fclose, (FILE * f), (f))                                                                                      \
  X(mode_t, umask, (mode_t m), (m))

/* In libutil before glibc 2.34. */
#define FS_SYMBOLS_PTY(X)                                                                                              \
  X(int, login_tty, (int fd), (fd))                                                                                    \
  X(int, openpty, (int *m, int *s, char *n, const struct termios *t, const struct winsize *w), (m, s, n, t, w))

/* In librt before glibc 2.34. */
#define FS_SYMBOLS_AIO(X)                                                                                              \
  X(int, aio_read, (struct aiocb * c), (c))                                                                            \
  X(int, aio_write, (struct aiocb * c), (c))                                                                           \
  X(int, aio_fsync, (int o, struct aiocb *c), (o, c))                                                                  \
  X(int, aio_cancel, (int fd, struct aiocb *c), (fd, c))                                                               \
  X(int, lio_listio, (int m, struct aiocb *const *l, int n, struct sigevent *s), (m, l, n, s))

#define FS_SYMBOLS_XATTR(X)                                                                                            \
  X(ssize_t, getxattr, (const char *p, const char *a, void *v, size_t n), (p, a, v, n))                                \
  X(ssize_t, lgetxattr, (const char *p, const char *a, void *v, size_t n), (p, a, v, n))                               \
  X(ssize_t, fgetxattr, (int fd, const char *a, void *v, size_t n), (fd, a, v, n))                                     \
  X(ssize_t, listxattr, (const char *p, char *l, size_t n), (p, l, n))                                                 \
  X(ssize_t, llistxattr, (const char *p, char *l, size_t n), (p, l, n))                                                \
  X(ssize_t, flistxattr, (int fd, char *l, size_t n), (fd, l, n))                                                      \
  X(int, setxattr, (const char *p, const char *a, const void *v, size_t n, int f), (p, a, v, n, f))                    \
  X(int, lsetxattr, (const char *p, const char *a, const void *v, size_t n, int f), (p, a, v, n, f))                   \
  X(int, fsetxattr, (int fd, const char *a, const void *v, size_t n, int f), (fd, a, v, n, f))                         \
  X(int, removexattr, (const char *p, const char *a), (p, a))                                                          \
  X(int, lremovexattr, (const char *p, const char *a), (p, a))                                                         \
  X(int, fremovexattr, (int fd, const char *a), (fd, a))

#define FS_SYMBOLS_DIR(X)                                                                                              \
  X(DIR *, opendir, (const char *p), (p))                                                                              \
  X(DIR *, fdopendir, (int fd), (fd))                                                                                  \
  X(struct dirent *, readdir, (DIR * d), (d))                                                                          \
  X(int, readdir_r, (DIR * d, struct dirent * e, struct dirent * *r), (d, e, r))                                       \
  X(int, closedir, (DIR * d), (d))                                                                                     \
  X(void, rewinddir, (DIR * d), (d))                                                                                   \
  X(void, seekdir, (DIR * d, long p), (d, p))                                                                          \
  X(long, telldir, (DIR * d), (d))                                                                                     \
  X(int, dirfd, (DIR * d), (d))                                                                                        \
  X(ssize_t, getdents64, (int fd, void *b, size_t n), (fd, b, n))                                                      \
  X(int, scandirat,                                                                                                    \
    (int d, const char *p, struct dirent ***l, int (*s)(const struct dirent *),                                        \
     int (*c)(const struct dirent **, const struct dirent **)),                                                        \
    (d, p, l, s, c))

#define FS_SYMBOLS_TREE(X)                                                                                             \
  X(int, glob, (const char *p, int f, int (*e)(const char *, int), glob_t *g), (p, f, e, g))                           \
  X(int, ftw, (const char *p, int (*fn)(const char *, const struct stat *, int), int n), (p, fn, n))                   \
  X(int, nftw, (const char *p, int (*fn)(const char *, const struct stat *, int, struct FTW *), int n, int f),         \
    (p, fn, n, f))                                                                                                     \
  X(FTS *, fts_open, (char *const *p, int o, int (*c)(const FTSENT **, const FTSENT **)), (p, o, c))

#define FS_SYMBOLS_CWD(X)                                                                                              \
  X(int, chdir, (const char *p), (p))                                                                                  \
  X(int, fchdir, (int fd), (fd))                                                                                       \
  X(char *, getcwd, (char *b, size_t n), (b, n))                                                                       \
  X(char *, get_current_dir_name, (void), ())                                                                          \
  X(char *, realpath, (const char *p, char *b), (p, b))

#define FS_SYMBOLS_CHANGE(X)                                                                                           \
  X(int, fchmod, (int fd, mode_t m), (fd, m))                                                                          \
  X(int, fchmodat, (int d, const char *p, mode_t m, int f), (d, p, m, f))                                              \
  X(int, fchown, (int fd, uid_t u, gid_t g), (fd, u, g))                                                               \
  X(int, fchownat, (int d, const char *p, uid_t u, gid_t g, int f), (d, p, u, g, f))                                   \
  X(int, futimens, (int fd, const struct timespec t[2]), (fd, t))                                                      \
  X(int, utimensat, (int d, const char *p, const struct timespec t[2], int f), (d, p, t, f))                           \
  X(int, truncate, (const char *p, off_t n), (p, n))                                                                   \
  X(int, unlink, (const char *p), (p))                                                                                 \
  X(int, unlinkat, (int d, const char *p, int f), (d, p, f))                                                           \
  X(int, rmdir, (const char *p), (p))                                                                                  \
  X(int, remove, (const char *p), (p))                                                                                 \
  X(int, mkdir, (const char *p, mode_t m), (p, m))                                                                     \
  X(int, mkdirat, (int d, const char *p, mode_t m), (d, p, m))                                                         \
  X(int, mkfifo, (const char *p, mode_t m), (p, m))                                                                    \
  X(int, mkfifoat, (int d, const char *p, mode_t m), (d, p, m))                                                        \
  X(int, mknod, (const char *p, mode_t m, dev_t v), (p, m, v))                                                         \
  X(int, mknodat, (int d, const char *p, mode_t m, dev_t v), (d, p, m, v))                                             \
  X(char *, mkdtemp, (char *t), (t))                                                                                   \
  X(int, renameat, (int d, const char *a, int e, const char *b), (d, a, e, b))                                         \
  X(int, renameat2, (int d, const char *a, int e, const char *b, unsigned f), (d, a, e, b, f))                         \
  X(int, linkat, (int d, const char *a, int e, const char *b, int f), (d, a, e, b, f))                                 \
  X(int, symlink, (const char *t, const char *p), (t, p))                                                              \
  X(int, symlinkat, (const char *t, int d, const char *p), (t, d, p))

#define FS_SYMBOLS_STDIO(X)                                                                                            \
  X(FILE *, fopen, (const char *p, const char *m), (p, m))                                                             \
  X(FILE *, freopen, (const char *p, const char *m, FILE *f), (p, m, f))                                               \
  X(FILE *, fdopen, (int fd, const char *m), (fd, m))                                                                  \
  X(int, system, (const char *c), (c))                                                                                 \
  X(FILE *, popen, (const char *c, const char *m), (c, m))

#define FS_SYMBOLS_WIDE(X)                                                                                             \
  X(int, fwide, (FILE * f, int m), (f, m))                                                                             \
  X(wint_t, fgetwc, (FILE * f), (f))                                                                                   \
  X(wint_t, fgetwc_unlocked, (FILE * f), (f))                                                                          \
  X(wint_t, ungetwc, (wint_t c, FILE * f), (c, f))                                                                     \
  X(wchar_t *, fgetws, (wchar_t * s, int n, FILE *f), (s, n, f))                                                       \
  X(wchar_t *, fgetws_unlocked, (wchar_t * s, int n, FILE *f), (s, n, f))                                              \
  X(wchar_t *, __fgetws_chk, (wchar_t * s, size_t z, int n, FILE *f), (s, z, n, f))                                    \
  X(wchar_t *, __fgetws_unlocked_chk, (wchar_t * s, size_t z, int n, FILE *f), (s, z, n, f))                           \
  X(wint_t, __wunderflow, (FILE * f), (f))                                                                             \
  X(wint_t, __wuflow, (FILE * f), (f))                                                                                 \
  X(wint_t, __woverflow, (FILE * f, wint_t c), (f, c))                                                                 \
  X(wint_t, fputwc, (wchar_t c, FILE * f), (c, f))                                                                     \
  X(wint_t, fputwc_unlocked, (wchar_t c, FILE * f), (c, f))                                                            \
  X(int, fputws, (const wchar_t *s, FILE *f), (s, f))                                                                  \
  X(int, fputws_unlocked, (const wchar_t *s, FILE *f), (s, f))                                                         \
  X(int, vfwprintf, (FILE * f, const wchar_t *t, va_list ap), (f, t, ap))                                              \
  X(int, __vfwprintf_chk, (FILE * f, int o, const wchar_t *t, va_list ap), (f, o, t, ap))                              \
  X(int, __isoc99_vfwscanf, (FILE * f, const wchar_t *t, va_list ap), (f, t, ap))

#define FS_SYMBOLS_PROCESS(X)                                                                                          \
  X(pid_t, fork, (void), ())                                                                                           \
  X(pid_t, _Fork, (void), ())                                                                                          \
  X(int, clone, (int (*fn)(void *), void *t, int f, void *a, ...), (fn, t, f, a))                                      \
  X(int, unshare, (int f), (f))                                                                                        \
  X(int, daemon, (int c, int n), (c, n))                                                                               \
  X(int, execve, (const char *p, char *const a[], char *const e[]), (p, a, e))                                         \
  X(int, execvpe, (const char *p, char *const a[], char *const e[]), (p, a, e))                                        \
  X(int, fexecve, (int fd, char *const a[], char *const e[]), (fd, a, e))                                              \
  X(int, execveat, (int d, const char *p, char *const a[], char *const e[], int f), (d, p, a, e, f))                   \
  X(int, posix_spawn,                                                                                                  \
    (pid_t * pid, const char *p, const posix_spawn_file_actions_t *fa, const posix_spawnattr_t *at, char *const a[],   \
     char *const e[]),                                                                                                 \
    (pid, p, fa, at, a, e))                                                                                            \
  X(int, posix_spawnp,                                                                                                 \
    (pid_t * pid, const char *p, const posix_spawn_file_actions_t *fa, const posix_spawnattr_t *at, char *const a[],   \
     char *const e[]),                                                                                                 \
    (pid, p, fa, at, a, e))                                                                                            \
  X(int, posix_spawn_file_actions_addopen, (posix_spawn_file_actions_t * fa, int fd, const char *p, int f, mode_t m),  \
    (fa, fd, p, f, m))                                                                                                 \
  X(int, posix_spawn_file_actions_adddup2, (posix_spawn_file_actions_t * fa, int fd, int newfd), (fa, fd, newfd))      \
  X(int, posix_spawn_file_actions_addchdir_np, (posix_spawn_file_actions_t * fa, const char *p), (fa, p))              \
  X(int, posix_spawn_file_actions_addfchdir_np, (posix_spawn_file_actions_t * fa, int fd), (fa, fd))                   \
  X(int, posix_spawn_file_actions_destroy, (posix_spawn_file_actions_t * fa), (fa))                                    \
  X(void *, dlopen, (const char *p, int f), (p, f))                                                                    \
  X(void *, dlmopen, (Lmid_t n, const char *p, int f), (n, p, f))

/* This has no wrapper. In libpthread before glibc 2.34. */
#define FS_SYMBOLS_THREAD(X)                                                                                           \
  X(int, pthread_create, (pthread_t * t, const pthread_attr_t *a, void *(*fn)(void *), void *p), (t, a, fn, p))

/* Each of these changes who the caller is. */
#define FS_SYMBOLS_IDS(X)                                                                                              \
  X(int, setuid, (uid_t u), (u))                                                                                       \
  X(int, setgid, (gid_t g), (g))                                                                                       \
  X(int, seteuid, (uid_t u), (u))                                                                                      \
  X(int, setegid, (gid_t g), (g))                                                                                      \
  X(int, setreuid, (uid_t r, uid_t e), (r, e))                                                                         \
  X(int, setregid, (gid_t r, gid_t e), (r, e))                                                                         \
  X(int, setresuid, (uid_t r, uid_t e, uid_t s), (r, e, s))                                                            \
  X(int, setresgid, (gid_t r, gid_t e, gid_t s), (r, e, s))

#define FS_SYMBOLS(X)                                                                                                  \
  FS_SYMBOLS_MEMORY(X)                                                                                                 \
  FS_SYMBOLS_OPEN(X)                                                                                                   \
  FS_SYMBOLS_READ(X)                                                                                                   \
  FS_SYMBOLS_EXIT(X)                                                                                                   \
  FS_SYMBOLS_FD(X)                                                                                                     \
  FS_SYMBOLS_FRESH(X)                                                                                                  \
  FS_SYMBOLS_SHM(X)                                                                                                    \
  FS_SYMBOLS_TEMP(X)                                                                                                   \
  FS_SYMBOLS_PAIR(X)                                                                                                   \
  FS_SYMBOLS_STAT(X)                                                                                                   \
  FS_SYMBOLS_NOT_SOCKET(X)                                                                                             \
  FS_SYMBOLS_ADDRESS(X)                                                                                                \
  FS_SYMBOLS_NOT_TTY(X)                                                                                                \
  FS_SYMBOLS_NOTIFY(X)                                                                                                 \
  FS_SYMBOLS_NAMES(X)                                                                                                  \
  FS_SYMBOLS_PTY(X)                                                                                                    \
  FS_SYMBOLS_AIO(X)                                                                                                    \
  FS_SYMBOLS_XATTR(X)                                                                                                  \
  FS_SYMBOLS_DIR(X)                                                                                                    \
  FS_SYMBOLS_TREE(X)                                                                                                   \
  FS_SYMBOLS_CWD(X)                                                                                                    \
  FS_SYMBOLS_CHANGE(X)                                                                                                 \
  FS_SYMBOLS_STDIO(X)                                                                                                  \
  FS_SYMBOLS_WIDE(X)                                                                                                   \
  FS_SYMBOLS_PROCESS(X)                                                                                                \
  FS_SYMBOLS_THREAD(X)                                                                                                 \
  FS_SYMBOLS_IDS(X)

#endif
