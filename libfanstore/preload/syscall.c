/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * syscall(2) for the numbers that may name a dataset's file: each goes to its wrapper. One table gives the numbers,
 * which syscall_entry.S looks up in a mask, and the calls. Some kernels' calls differ from libc's (getcwd returns a
 * length, faccessat has no flags): they are adapted here.
 */
#include <linux/openat2.h>

#include "preload/preload.h"

static long sys_getcwd(char *buf, size_t n) {
  return getcwd(buf, n) == NULL ? -1 : (long)strlen(buf) + 1;
}

/* Without special resolution it is openat; with, it concerns nothing of ours. */
static long sys_openat2(int dirfd, const char *path, const struct open_how *how, size_t size) {
  if (fs_path_out(dirfd, path) || size < sizeof(*how) || how->resolve != 0)
    return fs_ret(FS_SYS4(SYS_openat2, dirfd, path, how, size));
  return fs_open_common(dirfd, path, (int)how->flags, (mode_t)how->mode);
}

/* An allocator's own mmap (tcmalloc's) may be what comes here: what is not ours goes to the kernel, not to it again. */
static long sys_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off) {
  bool file = !(flags & MAP_ANONYMOUS);
  struct fs_slot *s = file ? fs_fd_slot(fd) : NULL;
  void *p =
      s != NULL ? fs_file_mmap(s, addr, len, prot, flags, off) : fs_sys_mmap(addr, len, prot, flags, fd, (uint64_t)off);
  if (s == NULL && file && (intptr_t)p == -EBADF && (s = fs_fd_adopt(fd)) != NULL)
    p = fs_file_mmap(s, addr, len, prot, flags, off);
  return fs_sys_mmap_failed(p) ? fs_ret((intptr_t)p) : (intptr_t)p;
}

/* X(number, call with the arguments a to f) */
#define FS_SYSCALLS(X)                                                                                                 \
  X(SYS_openat, fs_open_common((int)a, (const char *)b, (int)c, (mode_t)d))                                            \
  X(SYS_openat2, sys_openat2((int)a, (const char *)b, (const struct open_how *)c, (size_t)d))                          \
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
  X(SYS_mmap, sys_mmap((void *)a, (size_t)b, (int)c, (int)d, (int)e, (off_t)f))                                        \
  X(SYS_chdir, chdir((const char *)a))                                                                                 \
  X(SYS_fchdir, fchdir((int)a))                                                                                        \
  X(SYS_getcwd, sys_getcwd((char *)a, (size_t)b))                                                                      \
  X(SYS_copy_file_range, copy_file_range((int)a, (off64_t *)b, (int)c, (off64_t *)d, (size_t)e, (unsigned)f))          \
  X(SYS_sendfile, sendfile((int)a, (int)b, (off_t *)c, (size_t)d))                                                     \
  X(SYS_execve, execve((const char *)a, (char *const *)b, (char *const *)c))

#if defined(__x86_64__) /* calls that newer machines never had */
#define FS_SYSCALLS_OLD(X)                                                                                             \
  X(SYS_open, fs_open_common(AT_FDCWD, (const char *)a, (int)b, (mode_t)c))                                            \
  X(SYS_stat, stat((const char *)a, (struct stat *)b))                                                                 \
  X(SYS_lstat, lstat((const char *)a, (struct stat *)b))                                                               \
  X(SYS_access, access((const char *)a, (int)b))                                                                       \
  X(SYS_readlink, readlink((const char *)a, (char *)b, (size_t)c))                                                     \
  X(SYS_dup2, dup2((int)a, (int)b))
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
#define WORD(x) 0ull FS_SYSCALLS(x) FS_SYSCALLS_OLD(x)

extern const uint64_t fs_syscall_mask[8];
const uint64_t fs_syscall_mask[8] = {WORD(X0), WORD(X1), WORD(X2), WORD(X3), WORD(X4), WORD(X5), WORD(X6), WORD(X7)};

long fs_syscall(long n, long a, long b, long c, long d, long e, long f);
long fs_syscall(long n, long a, long b, long c, long d, long e, long f) {
  switch (n) {
#define X(number, call)                                                                                                \
  case number:                                                                                                         \
    return call;
    FS_SYSCALLS(X)
    FS_SYSCALLS_OLD(X)
#undef X
  default:
    return fs_ret(-ENOSYS);
  }
}

long fs_syscall_failed(int err);
long fs_syscall_failed(int err) {
  return fs_ret(err);
}
