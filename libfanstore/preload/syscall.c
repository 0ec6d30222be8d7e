/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * syscall(2) for the numbers that may name a dataset's file: each goes to its wrapper. One table
 * gives the numbers, which syscall_entry.S looks up in a mask, and the calls. Some kernels' calls
 * differ from libc's and are adapted here: getcwd returns a length, and faccessat has no flags.
 */
#include <sched.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/time.h>
#include <sys/xattr.h>

#include "ipc/node.h"
#include "preload/preload.h"

/* If the kernel does not know the directory, it is one of a dataset, or was removed. */
static long sys_getcwd(char *buf, size_t n) {
  char path[PATH_MAX];
  long r = FS_SYS2(SYS_getcwd, buf, n);
  if (r != -ENOENT) return fs_ret(r);
  if (getcwd(path, sizeof(path)) == NULL) return -1;
  size_t size = strlen(path) + 1;
  if (size > n || fs_bad_address(buf)) return fs_ret(size > n ? -ERANGE : -EFAULT);
  memcpy(buf, path, size);
  return (long)size;
}

/* Numbers that are the same on all machines and that this libc's headers may lack. */
#define FS_SYS_SETXATTRAT 463
#define FS_SYS_GETXATTRAT 464
#define FS_SYS_LISTXATTRAT 465
#define FS_SYS_REMOVEXATTRAT 466
#define FS_SYS_OPEN_TREE_ATTR 467
#define FS_SYS_FILE_GETATTR 468
#define FS_SYS_FILE_SETATTR 469

/* libc's function returns the error. */
static long sys_fadvise(int fd, off_t off, off_t n, int advice) {
  return fs_ret(-posix_fadvise(fd, off, n, advice));
}

/* libc's function refuses a path of NULL. */
static long sys_utimensat(int dirfd, const char *path, const struct timespec *t, int flags) {
  if (path == NULL && fs_fd_slot(dirfd) == NULL && (flags != 0 || dirfd < 0))
    return fs_ret(FS_SYS4(SYS_utimensat, dirfd, path, t, flags));
  if (path == NULL) return flags == 0 ? futimens(dirfd, t) : fs_ret(-EINVAL);
  return utimensat(dirfd, path, t, flags);
}

/* The kernel's mask comes with its size. */
struct sized_mask {
  const sigset_t *mask;
  size_t size;
};

/* The kernel's two calls tell how much time was left; libc's do not. */
static long sys_pselect6(int n, fd_set *r, fd_set *w, fd_set *e, struct timespec *t, const struct sized_mask *m) {
  if (!fs_select_meets_ours(n, r, w, e)) return fs_ret(FS_SYS6(SYS_pselect6, n, r, w, e, t, m));
  return pselect(n, r, w, e, t, m == NULL ? NULL : m->mask);
}

static long sys_ppoll(struct pollfd *p, nfds_t n, struct timespec *t, const sigset_t *mask, size_t size) {
  if (!fs_poll_meets_ours(p, n)) return fs_ret(FS_SYS5(SYS_ppoll, p, n, t, mask, size));
  return ppoll(p, n, t, mask);
}

static long sys_fchmodat2(int dirfd, const char *path, mode_t mode, int flags) {
  if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) return fs_ret(-EINVAL);
  if ((flags & AT_EMPTY_PATH) && !fs_bad_address(path) && path[0] == '\0' && dirfd != AT_FDCWD)
    return fs_chmod_empty(dirfd, mode, flags);
  if (fs_path_outside(dirfd, path)) return fs_ret(FS_SYS4(FS_SYS_FCHMODAT2, dirfd, path, mode, flags));
  return fchmodat(dirfd, path, mode, flags & AT_SYMLINK_NOFOLLOW);
}

/* Calls newer than the libc that this is built with. A program that uses them can do without. */
static long sys_newer(long n, long a, long b, long c, long d, long e, long f) {
  bool itself = (const char *)b != NULL && *(const char *)b == '\0' && fs_fd_slot((int)a) != NULL;
  if (itself || !fs_path_outside((int)a, (const char *)b)) return fs_ret(-ENOSYS);
  return fs_ret(fs_syscall6(n, a, b, c, d, e, f));
}

/* X(number, call with the arguments a to f) */
#define FS_SYSCALLS(X)                                                                                                 \
  X(SYS_openat, fs_open_common((int)a, (const char *)b, (int)c, (mode_t)d))                                            \
  X(SYS_openat2, fs_openat2((int)a, (const char *)b, (const struct open_how *)c, (size_t)d))                           \
  X(SYS_read, read((int)a, (void *)b, (size_t)c))                                                                      \
  X(SYS_pread64, pread((int)a, (void *)b, (size_t)c, (off_t)d))                                                        \
  X(SYS_readv, readv((int)a, (const struct iovec *)b, (int)c))                                                         \
  X(SYS_preadv, preadv((int)a, (const struct iovec *)b, (int)c, (off_t)d))                                             \
  X(SYS_lseek, lseek((int)a, (off_t)b, (int)c))                                                                        \
  X(SYS_close, close((int)a))                                                                                          \
  X(SYS_close_range, close_range((unsigned)a, (unsigned)b, (int)c))                                                    \
  X(SYS_fstat, fstat((int)a, (struct stat *)b))                                                                        \
  X(SYS_newfstatat, fstatat((int)a, (const char *)b, (struct stat *)c, (int)d))                                        \
  X(SYS_statx, statx((int)a, (const char *)b, (int)c, (unsigned)d, (struct statx *)e))                                 \
  X(SYS_faccessat, faccessat((int)a, (const char *)b, (int)c, 0))                                                      \
  X(SYS_faccessat2, faccessat((int)a, (const char *)b, (int)c, (int)d))                                                \
  X(SYS_readlinkat, readlinkat((int)a, (const char *)b, (char *)c, (size_t)d))                                         \
  X(SYS_getdents64, getdents64((int)a, (void *)b, (size_t)c))                                                          \
  X(SYS_dup, dup((int)a))                                                                                              \
  X(SYS_dup3, dup3((int)a, (int)b, (int)c))                                                                            \
  X(SYS_fcntl, fcntl((int)a, (int)b, c))                                                                               \
  X(SYS_mmap, fs_kernel_mmap((void *)a, (size_t)b, (int)c, (int)d, (int)e, (off_t)f))                                  \
  X(SYS_munmap, fs_kernel_munmap((void *)a, (size_t)b))                                                                \
  X(SYS_msync, fs_kernel_msync((void *)a, (size_t)b, (int)c))                                                          \
  X(SYS_mremap, fs_kernel_mremap((void *)a, (size_t)b, (size_t)c, (int)d, (void *)e))                                  \
  X(SYS_remap_file_pages, remap_file_pages((void *)a, (size_t)b, (int)c, (size_t)d, (int)e))                           \
  X(SYS_chdir, chdir((const char *)a))                                                                                 \
  X(SYS_fchdir, fchdir((int)a))                                                                                        \
  X(SYS_getcwd, sys_getcwd((char *)a, (size_t)b))                                                                      \
  X(SYS_copy_file_range, copy_file_range((int)a, (off64_t *)b, (int)c, (off64_t *)d, (size_t)e, (unsigned)f))          \
  X(SYS_sendfile, sendfile((int)a, (int)b, (off_t *)c, (size_t)d))                                                     \
  X(SYS_exit_group, (_exit((int)a), 0))                                                                                \
  X(SYS_execve, execve((const char *)a, (char *const *)b, (char *const *)c))                                           \
  X(SYS_execveat, execveat((int)a, (const char *)b, (char *const *)c, (char *const *)d, (int)e))

#if defined(__powerpc64__) /* numbers of its own, and flags as the second argument */
#undef SYS_select
#define SYS_select SYS__newselect
#define FS_SYS_RANGE SYS_sync_file_range2
#define FS_SYSCALL_RANGE(X) X(FS_SYS_RANGE, sync_file_range((int)a, (off64_t)c, (off64_t)d, (unsigned)b))
#else
#define FS_SYSCALL_RANGE(X) X(SYS_sync_file_range, sync_file_range((int)a, (off64_t)b, (off64_t)c, (unsigned)d))
#endif
/* Less usual ways to read, and calls that only look at a descriptor. */
#define FS_SYSCALLS_FD(X)                                                                                              \
  X(SYS_preadv2, preadv2((int)a, (const struct iovec *)b, (int)c, (off_t)d, (int)f))                                   \
  X(SYS_splice, splice((int)a, (off64_t *)b, (int)c, (off64_t *)d, (size_t)e, (unsigned)f))                            \
  X(SYS_ioctl, ioctl((int)a, (unsigned long)b, c))                                                                     \
  X(SYS_flock, flock((int)a, (int)b))                                                                                  \
  X(SYS_fsync, fsync((int)a))                                                                                          \
  X(SYS_fdatasync, fdatasync((int)a))                                                                                  \
  X(SYS_syncfs, syncfs((int)a))                                                                                        \
  FS_SYSCALL_RANGE(X)                                                                                                  \
  X(SYS_fadvise64, sys_fadvise((int)a, (off_t)b, (off_t)c, (int)d))                                                    \
  X(SYS_readahead, readahead((int)a, (off64_t)b, (size_t)c))                                                           \
  X(SYS_ftruncate, ftruncate((int)a, (off_t)b))                                                                        \
  X(SYS_fstatfs, fstatfs((int)a, (struct statfs *)b))                                                                  \
  X(SYS_ppoll, sys_ppoll((struct pollfd *)a, (nfds_t)b, (struct timespec *)c, (const sigset_t *)d, (size_t)e))         \
  X(SYS_pselect6,                                                                                                      \
    sys_pselect6((int)a, (fd_set *)b, (fd_set *)c, (fd_set *)d, (struct timespec *)e, (const struct sized_mask *)f))   \
  X(SYS_epoll_ctl, epoll_ctl((int)a, (int)b, (int)c, (struct epoll_event *)d))                                         \
  X(SYS_sendmsg, sendmsg((int)a, (const struct msghdr *)b, (int)c))                                                    \
  X(SYS_sendmmsg, sendmmsg((int)a, (struct mmsghdr *)b, (unsigned)c, (int)d))                                          \
  X(SYS_recvmsg, recvmsg((int)a, (struct msghdr *)b, (int)c))                                                          \
  X(SYS_recvmmsg, recvmmsg((int)a, (struct mmsghdr *)b, (unsigned)c, (int)d, (struct timespec *)e))                    \
  X(SYS_fgetxattr, fgetxattr((int)a, (const char *)b, (void *)c, (size_t)d))                                           \
  X(SYS_flistxattr, flistxattr((int)a, (char *)b, (size_t)c))                                                          \
  X(SYS_fsetxattr, fsetxattr((int)a, (const char *)b, (const void *)c, (size_t)d, (int)e))                             \
  X(SYS_fremovexattr, fremovexattr((int)a, (const char *)b))                                                           \
  X(SYS_fchmod, fchmod((int)a, (mode_t)b))                                                                             \
  X(SYS_fchown, fchown((int)a, (uid_t)b, (gid_t)c))

/* Calls with addresses of sockets. */
#define FS_SYSCALLS_ADDRESS(X)                                                                                         \
  X(SYS_bind, bind((int)a, (const struct sockaddr *)b, (socklen_t)c))                                                  \
  X(SYS_connect, connect((int)a, (const struct sockaddr *)b, (socklen_t)c))                                            \
  X(SYS_accept, accept((int)a, (struct sockaddr *)b, (socklen_t *)c))                                                  \
  X(SYS_accept4, accept4((int)a, (struct sockaddr *)b, (socklen_t *)c, (int)d))                                        \
  X(SYS_getsockname, getsockname((int)a, (struct sockaddr *)b, (socklen_t *)c))                                        \
  X(SYS_getpeername, getpeername((int)a, (struct sockaddr *)b, (socklen_t *)c))                                        \
  X(SYS_sendto, sendto((int)a, (const void *)b, (size_t)c, (int)d, (const struct sockaddr *)e, (socklen_t)f))          \
  X(SYS_recvfrom, recvfrom((int)a, (void *)b, (size_t)c, (int)d, (struct sockaddr *)e, (socklen_t *)f))

/* Questions about paths, and changes, which are refused. */
#define FS_SYSCALLS_PATH(X)                                                                                            \
  X(SYS_statfs, statfs((const char *)a, (struct statfs *)b))                                                           \
  X(SYS_getxattr, getxattr((const char *)a, (const char *)b, (void *)c, (size_t)d))                                    \
  X(SYS_lgetxattr, lgetxattr((const char *)a, (const char *)b, (void *)c, (size_t)d))                                  \
  X(SYS_listxattr, listxattr((const char *)a, (char *)b, (size_t)c))                                                   \
  X(SYS_llistxattr, llistxattr((const char *)a, (char *)b, (size_t)c))                                                 \
  X(SYS_setxattr, setxattr((const char *)a, (const char *)b, (const void *)c, (size_t)d, (int)e))                      \
  X(SYS_lsetxattr, lsetxattr((const char *)a, (const char *)b, (const void *)c, (size_t)d, (int)e))                    \
  X(SYS_removexattr, removexattr((const char *)a, (const char *)b))                                                    \
  X(SYS_lremovexattr, lremovexattr((const char *)a, (const char *)b))                                                  \
  X(SYS_truncate, truncate((const char *)a, (off_t)b))                                                                 \
  X(SYS_fchmodat, fchmodat((int)a, (const char *)b, (mode_t)c, 0))                                                     \
  X(FS_SYS_FCHMODAT2, sys_fchmodat2((int)a, (const char *)b, (mode_t)c, (int)d))                                       \
  X(SYS_fchownat, fchownat((int)a, (const char *)b, (uid_t)c, (gid_t)d, (int)e))                                       \
  X(SYS_utimensat, sys_utimensat((int)a, (const char *)b, (const struct timespec *)c, (int)d))                         \
  X(SYS_unlinkat, unlinkat((int)a, (const char *)b, (int)c))                                                           \
  X(SYS_mkdirat, mkdirat((int)a, (const char *)b, (mode_t)c))                                                          \
  X(SYS_mknodat, mknodat((int)a, (const char *)b, (mode_t)c, (dev_t)d))                                                \
  X(SYS_renameat, renameat((int)a, (const char *)b, (int)c, (const char *)d))                                          \
  X(SYS_renameat2, renameat2((int)a, (const char *)b, (int)c, (const char *)d, (unsigned)e))                           \
  X(SYS_linkat, linkat((int)a, (const char *)b, (int)c, (const char *)d, (int)e))                                      \
  X(SYS_symlinkat, symlinkat((const char *)a, (int)b, (const char *)c))                                                \
  X(SYS_inotify_add_watch, inotify_add_watch((int)a, (const char *)b, (uint32_t)c))                                    \
  X(SYS_io_submit, fs_io_submit((unsigned long)a, b, (struct iocb **)c))                                               \
  X(SYS_io_uring_setup, fs_io_uring_setup((unsigned)a, (void *)b))                                                     \
  X(FS_SYS_SETXATTRAT, sys_newer(FS_SYS_SETXATTRAT, a, b, c, d, e, f))                                                 \
  X(FS_SYS_GETXATTRAT, sys_newer(FS_SYS_GETXATTRAT, a, b, c, d, e, f))                                                 \
  X(FS_SYS_LISTXATTRAT, sys_newer(FS_SYS_LISTXATTRAT, a, b, c, d, e, f))                                               \
  X(FS_SYS_REMOVEXATTRAT, sys_newer(FS_SYS_REMOVEXATTRAT, a, b, c, d, e, f))                                           \
  X(FS_SYS_OPEN_TREE_ATTR, sys_newer(FS_SYS_OPEN_TREE_ATTR, a, b, c, d, e, f))                                         \
  X(FS_SYS_FILE_GETATTR, sys_newer(FS_SYS_FILE_GETATTR, a, b, c, d, e, f))                                             \
  X(FS_SYS_FILE_SETATTR, sys_newer(FS_SYS_FILE_SETATTR, a, b, c, d, e, f))

#if defined(__x86_64__) || defined(__powerpc64__) /* calls that newer machines never had */
#define FS_SYSCALLS_OLD(X)                                                                                             \
  X(SYS_open, fs_open_common(AT_FDCWD, (const char *)a, (int)b, (mode_t)c))                                            \
  X(SYS_stat, stat((const char *)a, (struct stat *)b))                                                                 \
  X(SYS_lstat, lstat((const char *)a, (struct stat *)b))                                                               \
  X(SYS_access, access((const char *)a, (int)b))                                                                       \
  X(SYS_readlink, readlink((const char *)a, (char *)b, (size_t)c))                                                     \
  X(SYS_dup2, dup2((int)a, (int)b))                                                                                    \
  X(SYS_creat, creat((const char *)a, (mode_t)b))                                                                      \
  X(SYS_poll, poll((struct pollfd *)a, (nfds_t)b, (int)c))                                                             \
  X(SYS_select, select((int)a, (fd_set *)b, (fd_set *)c, (fd_set *)d, (struct timeval *)e))                            \
  X(SYS_chmod, chmod((const char *)a, (mode_t)b))                                                                      \
  X(SYS_chown, chown((const char *)a, (uid_t)b, (gid_t)c))                                                             \
  X(SYS_lchown, lchown((const char *)a, (uid_t)b, (gid_t)c))                                                           \
  X(SYS_utime, utime((const char *)a, (const struct utimbuf *)b))                                                      \
  X(SYS_utimes, utimes((const char *)a, (const struct timeval *)b))                                                    \
  X(SYS_futimesat, futimesat((int)a, (const char *)b, (const struct timeval *)c))                                      \
  X(SYS_unlink, unlink((const char *)a))                                                                               \
  X(SYS_rmdir, rmdir((const char *)a))                                                                                 \
  X(SYS_mkdir, mkdir((const char *)a, (mode_t)b))                                                                      \
  X(SYS_mknod, mknod((const char *)a, (mode_t)b, (dev_t)c))                                                            \
  X(SYS_rename, rename((const char *)a, (const char *)b))                                                              \
  X(SYS_link, link((const char *)a, (const char *)b))                                                                  \
  X(SYS_symlink, symlink((const char *)a, (const char *)b))
#else
#define FS_SYSCALLS_OLD(X)
#endif

#define BIT(word, n) ((n) / 64 == (word) ? 1ull << (n) % 64 : 0)
#define X0(n, call) | BIT(0, n)
#define X1(n, call) | BIT(1, n)
#define X2(n, call) | BIT(2, n)
#define X3(n, call) | BIT(3, n)
#define X4(n, call) | BIT(4, n)
#define X5(n, call) | BIT(5, n)
#define X6(n, call) | BIT(6, n)
#define X7(n, call) | BIT(7, n)
#define WORD(x) 0ull FS_SYSCALLS(x) FS_SYSCALLS_FD(x) FS_SYSCALLS_ADDRESS(x) FS_SYSCALLS_PATH(x) FS_SYSCALLS_OLD(x)

extern const uint64_t fs_syscall_mask[8];
const uint64_t fs_syscall_mask[8] = {WORD(X0), WORD(X1), WORD(X2), WORD(X3), WORD(X4), WORD(X5), WORD(X6), WORD(X7)};

static long dispatch(long n, long a, long b, long c, long d, long e, long f) {
  switch (n) {
#define X(number, call)                                                                                                \
  case number:                                                                                                         \
    return call;
    FS_SYSCALLS(X)
    FS_SYSCALLS_FD(X)
    FS_SYSCALLS_ADDRESS(X)
    FS_SYSCALLS_PATH(X)
    FS_SYSCALLS_OLD(X)
#undef X
  default:
    return fs_ret(-ENOSYS);
  }
}

/* Makes the call with cancellation disabled: syscall(2) is no cancellation point, and programs use
   it for that. execve and the calls of a vfork child go without, because the disabled state would
   stay with the parent. */
long fs_syscall(long n, long a, long b, long c, long d, long e, long f);
long fs_syscall(long n, long a, long b, long c, long d, long e, long f) {
  int state;
  if (n == SYS_execve || n == SYS_execveat || fs_vfork_depth > 0) return dispatch(n, a, b, c, d, e, f);
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
  long r = dispatch(n, a, b, c, d, e, f);
  pthread_setcancelstate(state, NULL);
  return r;
}

long fs_syscall_failed(int err);
long fs_syscall_failed(int err) {
  return fs_ret(err);
}
