/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Included by every file: error types, scope cleanups and small macros. No state, no locks.
 *
 * Errors: functions return 0 (or a count) or a negative errno, as fs_err, fs_ssize or fs_fd. Only
 * libfanstore/preload sets errno.
 */
#ifndef FS_UTIL_BASE_H
#define FS_UTIL_BASE_H

#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef int fs_err;       /* 0, or a negative errno */
typedef int64_t fs_ssize; /* a count, or a negative errno */
typedef int fs_fd;        /* a file descriptor, or a negative errno */

/* Returns true for an address that no program can have: in the kernel's half or in the first page.
   Other bad addresses fault at their use. */
static inline bool fs_bad_address(const void *p) {
  __asm__("" : "+r"(p)); /* libc's headers declare some pointers nonnull, but programs pass NULL */
  return (intptr_t)p < 4096;
}
/* Returns true for memory that the kernel never writes to, whatever is mapped. */
static inline bool fs_bad_memory(const void *p, size_t n) {
  return (intptr_t)((uintptr_t)p | n | ((uintptr_t)p + n)) < 0;
}

#define FS_LIKELY(x) __builtin_expect(!!(x), 1)
#define FS_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define FS_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define FS_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define FS_EXPORT __attribute__((visibility("default")))
/* For variables that hot paths read: hidden in the library, so access needs no indirection through
   the linker's table. */
#define FS_INTERNAL __attribute__((visibility("hidden")))
#define FS_TLS _Thread_local __attribute__((tls_model("initial-exec")))

#define FS_MIN(a, b) ((a) < (b) ? (a) : (b))
#define FS_MAX(a, b) ((a) > (b) ? (a) : (b))

static inline uint64_t fs_round_up(uint64_t n, uint64_t pow2) {
  return (n + pow2 - 1) & ~(pow2 - 1);
}
/* Returns a hash of x in which each bit depends on all bits of x (the end of splitmix64). */
static inline uint64_t fs_mix64(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}
static inline bool fs_is_pow2(uint64_t n) {
  return n != 0 && (n & (n - 1)) == 0;
}

/* Scope cleanups: FS_AUTO_CLOSE int fd = ...; FS_AUTO_FREE char *p = ...; FS_MOVE_FD takes
   the value out of the variable. */
void fs_cleanup_close(int *fd);
void fs_cleanup_free(void *p);
#define FS_AUTO_CLOSE __attribute__((cleanup(fs_cleanup_close)))
#define FS_AUTO_FREE __attribute__((cleanup(fs_cleanup_free)))
#define FS_MOVE_FD(fd)                                                                                                 \
  ({                                                                                                                   \
    int fs_fd_ = (fd);                                                                                                 \
    (fd) = -1;                                                                                                         \
    fs_fd_;                                                                                                            \
  })

#endif
