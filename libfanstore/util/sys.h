/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * System calls without libc's wrappers, which the preload library replaces. They do not set errno
 * and are no cancellation points. They return the kernel's value: a result or a negative errno.
 * They are safe in signal handlers, in a vfork child and before the library is initialised.
 */
#ifndef FS_UTIL_SYS_H
#define FS_UTIL_SYS_H

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include "util/base.h"
#include "util/numbers.h"

#if defined(__clang_analyzer__)
long fs_syscall6(long n, long a, long b, long c, long d, long e, long f); /* the analyzer does not look into asm */
#elif defined(__x86_64__)
static inline long fs_syscall6(long n, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long ret;
  __asm__ volatile("syscall"
                   : "=a"(ret)
                   : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return ret;
}
#elif defined(__aarch64__)
static inline long fs_syscall6(long n, long a, long b, long c, long d, long e, long f) {
  register long x8 __asm__("x8") = n;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}
#elif defined(__powerpc64__)
static inline long fs_syscall6(long n, long a, long b, long c, long d, long e, long f) {
  register long r0 __asm__("r0") = n;
  register long r3 __asm__("r3") = a;
  register long r4 __asm__("r4") = b;
  register long r5 __asm__("r5") = c;
  register long r6 __asm__("r6") = d;
  register long r7 __asm__("r7") = e;
  register long r8 __asm__("r8") = f;
  /* The kernel tells an error by the summary overflow bit; r3 is then the positive errno. */
  __asm__ volatile("sc\n\tbns+ 1f\n\tneg %1, %1\n1:"
                   : "+r"(r0), "+r"(r3), "+r"(r4), "+r"(r5), "+r"(r6), "+r"(r7), "+r"(r8)
                   :
                   : "r9", "r10", "r11", "r12", "cr0", "ctr", "xer", "memory");
  return r3;
}
#else
#error "FanStore knows the system call convention of x86-64, aarch64 and ppc64le only"
#endif

#define FS_SYS0(n) fs_syscall6(n, 0, 0, 0, 0, 0, 0)
#define FS_SYS1(n, a) fs_syscall6(n, (long)(a), 0, 0, 0, 0, 0)
#define FS_SYS2(n, a, b) fs_syscall6(n, (long)(a), (long)(b), 0, 0, 0, 0)
#define FS_SYS3(n, a, b, c) fs_syscall6(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define FS_SYS4(n, a, b, c, d) fs_syscall6(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define FS_SYS5(n, a, b, c, d, e) fs_syscall6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define FS_SYS6(n, a, b, c, d, e, f) fs_syscall6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

static inline fs_fd fs_sys_openat(int dirfd, const char *path, int flags, mode_t mode) {
  return (fs_fd)FS_SYS4(SYS_openat, dirfd, path, flags, mode);
}
static inline fs_err fs_sys_close(int fd) {
  return (fs_err)FS_SYS1(SYS_close, fd);
}
/* Closes all descriptors from `first` to `last`. */
static inline fs_err fs_sys_close_range(unsigned first, unsigned last) {
  return (fs_err)FS_SYS3(SYS_close_range, first, last, 0);
}
static inline fs_ssize fs_sys_read(int fd, void *buf, size_t n) {
  return FS_SYS3(SYS_read, fd, buf, n);
}
static inline fs_ssize fs_sys_write(int fd, const void *buf, size_t n) {
  return FS_SYS3(SYS_write, fd, buf, n);
}
static inline fs_ssize fs_sys_pread(int fd, void *buf, size_t n, uint64_t off) {
  return FS_SYS4(SYS_pread64, fd, buf, n, off);
}
static inline fs_ssize fs_sys_pwrite(int fd, const void *buf, size_t n, uint64_t off) {
  return FS_SYS4(SYS_pwrite64, fd, buf, n, off);
}
/* The kernel's newfstatat fills glibc's struct stat on all three processors. */
static inline fs_err fs_sys_fstatat(int dirfd, const char *path, struct stat *st, int flags) {
  return (fs_err)FS_SYS4(SYS_newfstatat, dirfd, path, st, flags);
}
static inline fs_err fs_sys_fstat(int fd, struct stat *st) {
  return (fs_err)FS_SYS2(SYS_fstat, fd, st);
}
static inline int64_t fs_sys_fcntl(int fd, int cmd, long arg) {
  return FS_SYS3(SYS_fcntl, fd, cmd, arg);
}
static inline void *fs_sys_mmap(void *addr, size_t n, int prot, int flags, int fd, uint64_t off) {
  return (void *)FS_SYS6(SYS_mmap, addr, n, prot, flags, fd, off); /* (unsigned long)ret > -4096ul: an error */
}
static inline bool fs_sys_mmap_failed(const void *p) {
  return (unsigned long)p > -4096ul;
}
static inline fs_err fs_sys_munmap(void *addr, size_t n) {
  return (fs_err)FS_SYS2(SYS_munmap, addr, n);
}
/* Returns true if all pages under these bytes of a mapping are in memory, as far as the kernel
   tells. */
bool fs_pages_resident(const void *bytes, size_t n);
/* Returns an address for a mapping of n bytes at which huge pages of a file fit into the page
   tables, or NULL for any address. */
void *fs_map_hint(size_t n);
#define FS_HUGE_PAGE (2ull << 20)
/* Sets what a page fault in a file's mapping reads: a whole huge page if `whole`, else the kernel's
   choice. */
void fs_map_advise(const void *map, size_t n, bool whole);
/* Returns the bytes of usable memory, including the page cache, from an open FS_MEMINFO. Returns 0
   if unknown, and for a negative descriptor. */
uint64_t fs_mem_available(int meminfo);
#define FS_MEMINFO "/proc/meminfo"
/* Returns how large a file of this process may become. A file that is made larger ends the process by
   SIGXFSZ, also one in memory. */
static inline uint64_t fs_sys_file_limit(void) {
  struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
  (void)FS_SYS4(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit);
  return (uint64_t)limit.rlim_cur;
}
static inline pid_t fs_sys_getpid(void) {
  return (pid_t)FS_SYS1(SYS_getpid, 0);
}
/* Sets this thread's signal mask (~0 blocks all), also for the signals that libc reserves. *old may
   be NULL. */
static inline void fs_sys_sigmask(uint64_t mask, uint64_t *old) {
  FS_SYS4(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, &mask, old, sizeof(mask));
}
static inline pid_t fs_sys_gettid(void) {
  return (pid_t)FS_SYS1(SYS_gettid, 0);
}

/* Sets an eventfd to 0. Never waits, whatever the eventfd's flags are. */
void fs_eventfd_take(int fd);
/* Wait on and wake a futex in memory that processes share. fs_futex_wait returns 0, -EAGAIN (the
   value differs), -ETIMEDOUT or -EINTR. */
fs_err fs_futex_wait(const _Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns);
void fs_futex_wake(_Atomic uint32_t *word, int count);

static inline int64_t fs_mtime_ns(const struct stat *st) {
  return (int64_t)((uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec);
}

static inline bool fs_same_time(struct timespec a, struct timespec b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}
/* Returns true if a file's contents are the same by size, mtime and ctime. */
static inline bool fs_same_contents(const struct stat *a, const struct stat *b) {
  return a->st_size == b->st_size && fs_same_time(a->st_mtim, b->st_mtim) && fs_same_time(a->st_ctim, b->st_ctim);
}

#define FS_NS_PER_S 1000000000ull
/* Returns a kernel clock in nanoseconds through the vDSO (clock.c). No preloaded library can change
   it. */
uint64_t fs_clock_ns(clockid_t id);
/* Returns fs_clock_ns(CLOCK_MONOTONIC). */
uint64_t fs_now_ns(void);
/* A loop that waits by yielding ends after this many turns, many seconds, even if no clock
   advances. */
#define FS_YIELDS_MOST (1u << 26)
/* Returns the seconds since a file's time as fs_sys_fstat gives it. */
static inline int64_t fs_age_s(time_t since) {
  return (int64_t)(fs_clock_ns(CLOCK_REALTIME) / FS_NS_PER_S) - since;
}

/* Read or write all n bytes, and continue after EINTR and short counts. Return 0 or a negative
   errno; fs_pread_full returns -EIO at an early end of file. */
fs_err fs_pread_full(int fd, void *buf, size_t n, uint64_t off);
fs_err fs_pwrite_full(int fd, const void *buf, size_t n, uint64_t off);
fs_err fs_write_full(int fd, const void *buf, size_t n);

/* Returns the number of processors that this process may use; 1 if it cannot be told. */
unsigned fs_sys_cpus(void);

#endif
