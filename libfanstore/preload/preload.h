/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all wrappers share. A wrapper holds no policy: it asks client/ whether its argument is a
 * dataset's, calls client/ or the real function, and sets errno. symbols.h is the one table of
 * wrapped functions. The pointers to the real functions, their resolution, and the declarations
 * with default visibility come from it.
 */
#ifndef FS_PRELOAD_PRELOAD_H
#define FS_PRELOAD_PRELOAD_H

#undef _FORTIFY_SOURCE

#include <aio.h>
#include <alloca.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>
#include <utime.h>
#include <wchar.h>

#include "client/fd/fdreal.h"
#include "client/files/files.h"
#include "client/files/trace.h"
#include "client/names/nodelocal.h"
#include "client/outputs/outputs.h"
#include "client/timing.h"
#include "preload/symbols.h"

/* The headers of an older libc do not declare these. */
int close_range(unsigned first, unsigned last, int flags);
int execveat(int dirfd, const char *path, char *const argv[], char *const envp[], int flags);
void closefrom(int low);
/* The version that programs pass to __xmknod, glibc's mknod before 2.33. */
#if defined(__powerpc64__)
#define FS_MKNOD_VERSION 1
#else
#define FS_MKNOD_VERSION 0
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

struct fs_real {
#define X(ret, name, params, args) ret(*name) params;
  FS_SYMBOLS(X)
#undef X
};
extern FS_INTERNAL struct fs_real fs_real;
void fs_real_resolve(void);
/* Returns the real function, or what does its work on a libc that lacks it. Never NULL: what cannot
   be done fails with ENOSYS (older.c). */
void *fs_real_find(const char *name);
/* Returns what does the work of a function on a libc that lacks it. */
void *fs_stand_in(const char *name);
/* Sets a variable by libc's own setenv (real.c). */
void fs_env_set(const char *name, const char *value);
void fs_env_drop(const char *name);
extern FS_INTERNAL void *fs_real_dlopen;

/* The real function. It is resolved on first use, because wrappers may run before the library's
   constructor. */
#define FS_REAL(name)                                                                                                  \
  (*({                                                                                                                 \
    if (FS_UNLIKELY(__atomic_load_n(&fs_real.name, __ATOMIC_RELAXED) == NULL)) fs_real_resolve();                      \
    fs_real.name;                                                                                                      \
  }))

/* A second name for a wrapper, such as the 64-bit form, which is the same function on 64-bit
   machines. */
#define FS_ALIAS(alias, name)                                                                                          \
  __asm__(".globl " #alias "\n\t.type " #alias ", %function\n\t.set " #alias ", " #name "\n\t")

/* A wrapper that is another one with other arguments. */
#define FS_VIA(ret, name, params, call)                                                                                \
  FS_EXPORT ret name params;                                                                                           \
  FS_EXPORT ret name params {                                                                                          \
    return call;                                                                                                       \
  }

/* The form of a wrapper that programs call if they were compiled with _FORTIFY_SOURCE. `fits` tells
   whether the result fits into the caller's buffer. */
#define FS_CHECKED(ret, name, params, fits, call) FS_VIA(ret, name, params, (fits) ? call : (__chk_fail(), call))
extern void __chk_fail(void) __attribute__((noreturn));

/* Lets p be NULL: libc's headers promise the compiler that some arguments are not NULL, but
   programs pass it. */
#define FS_MAY_BE_NULL(p) __asm__("" : "+r"(p))

/* Returns a result of client/ as libc would: -1 with errno set for a negative errno. */
static inline int64_t fs_ret(int64_t r) {
  if (FS_LIKELY(r >= 0)) return r;
  errno = (int)-r;
  return -1;
}
static inline int fs_ret_int(int64_t r) {
  return (int)fs_ret(r);
}

/* What the wrapper does, for syscall(2). UCX, Open MPI and allocators put functions of their own in
   the place of libc's, and these call syscall(2). So these four go to the kernel, and never to a
   name that may lead back. They return -1 and set errno as syscall(2) does. */
long fs_kernel_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off);
long fs_kernel_msync(void *addr, size_t len, int flags);
long fs_kernel_munmap(void *addr, size_t len);
long fs_kernel_mremap(void *addr, size_t len, size_t to, int flags, void *target);

/* Records an open that has returned fd, or -1 with errno set. */
void fs_trace_opened(int fd, int route, const struct fs_found *f, int flags, uint64_t begin);

/* Returns whether an output file was replaced or removed after it was found, so that the name must
   be looked up again. If the name is found again and again, its bytes are gone: errno is then EIO,
   since ENOENT would say that there is no name. */
static inline bool fs_output_is_lost(const struct fs_found *f, int route, int err, unsigned *tries) {
  return FS_UNLIKELY(err == ENOENT) && f->out.id != 0 &&
         fs_output_gone(route == FS_REDIRECT ? f->real : NULL, (*tries)++);
}

/* Ends an open or stat (client/timing.h): of an output, or one that had to ask the daemon for names of outputs, or else
   of what the index alone answers. */
static inline void fs_timing_end_found(enum fs_latency_op op, int route, const struct fs_found *f) {
  if (FS_LIKELY(!fs_timing_chosen())) return;
  bool output = route == FS_REDIRECT || (route == FS_IN && f->out.id != 0);
  fs_timing_count(op, output || fs_timing.slow ? FS_LATENCY_OUTPUT : FS_LATENCY_LOCAL);
}

/*
 * The frame of a wrapper that takes a path. `ours` is the answer of client/, with `route` >= FS_IN
 * or an error, and `f`. `native` is the real call. If a symlink leads out of the mount, `path` is
 * replaced in it and dirfd is ignored. After ENOENT and its like from the kernel, the path is
 * looked at once more. `f` is large, so only a path that may lead below a mount takes its room:
 * signal handlers and threads with small stacks make such calls.
 */
#define FS_PATH_CALL(dirfd, path, flags, ours, native)                                                                 \
  do {                                                                                                                 \
    struct fs_found *f = NULL;                                                                                         \
    int route = FS_OUTSIDE;                                                                                            \
    if (FS_UNLIKELY(!fs_path_outside(dirfd, path))) {                                                                  \
      f = alloca(sizeof(*f));                                                                                          \
      fs_timing_begin();                                                                                               \
      route = fs_path_route_slow(dirfd, path, flags, f);                                                               \
    }                                                                                                                  \
    if (route == FS_OUTSIDE) {                                                                                         \
      __typeof__(native) fs_r = native;                                                                                \
      if (FS_LIKELY(fs_r != (__typeof__(native))(-1) || !fs_worth_retry(errno))) return fs_r;                          \
      int fs_errno = errno;                                                                                            \
      if (FS_LIKELY(fs_path_surely_missing(dirfd, path, flags, -fs_errno))) return fs_r;                               \
      f = alloca(sizeof(*f));                                                                                          \
      route = fs_path_retry_walk(dirfd, path, flags, -fs_errno, f);                                                    \
      if (route == FS_OUTSIDE) return fs_r;                                                                            \
    }                                                                                                                  \
    __typeof__(path) fs_asked = path;                                                                                  \
    for (unsigned fs_tries = 0; route == FS_REDIRECT;) {                                                               \
      path = (__typeof__(path))f->real;                                                                                \
      __typeof__(native) fs_r = native;                                                                                \
      if (FS_LIKELY(fs_r != (__typeof__(native))(-1)) || !fs_output_is_lost(f, route, errno, &fs_tries)) return fs_r;  \
      path = fs_asked;                                                                                                 \
      route = fs_path_route_slow(dirfd, path, flags, f);                                                               \
    }                                                                                                                  \
    return (__typeof__(native))fs_ret(ours);                                                                           \
  } while (0)

/* Like FS_PATH_CALL, for calls that change a file. A changed output of this node is published
   afterwards. */
#define FS_PATH_SET(dirfd, path, flags, ours, native)                                                                  \
  if (!((flags)&FS_NOFOLLOW) && FS_UNLIKELY(fs_output_staged_in_name(path))) return fs_ret_int(-EROFS);                \
  if (!((flags)&FS_NOFOLLOW) && FS_UNLIKELY(fs_path_may_name_fd(path))) {                                              \
    struct fs_found *f = alloca(sizeof(*f));                                                                           \
    int route = fs_output_route_named(path, f);                                                                        \
    if (route != FS_OUTSIDE) return fs_ret_int(ours);                                                                  \
    return fs_output_set_named(path, f, native);                                                                       \
  }                                                                                                                    \
  FS_PATH_CALL(dirfd, path, (flags) | FS_CHANGES, ours, fs_output_set_done(f, path, native))
/* Routes a path that names a descriptor. If the descriptor is a forwarder, the route is to the file
   that it stands for. */
static inline int fs_output_route_named(const char *path, struct fs_found *f) {
  const char *rest = "";
  int route = fs_path_route_fd(path, f), fd = route == FS_OUTSIDE ? fs_fd_of_name(path, &rest) : -1;
  fs_err err = fd >= 0 && rest[0] == '\0' ? fs_output_real_set(fd, f) : 0;
  return err == 0 ? route : err < 0 ? err : FS_IN;
}
/* Publishes an output of this node that was changed by the name of a descriptor. */
static inline int fs_output_set_named(const char *path, const struct fs_found *f, int r) {
  const char *rest = "";
  int fd = r == 0 ? fs_fd_of_name(path, &rest) : -1;
  if (fd < 0 || rest[0] != '\0') return r;
  return fs_ret_int(fs_output_tracked(fs_fd_entry(fd)) ? fs_output_publish(fd) : fs_output_real_was_set(fd, f));
}
static inline int fs_output_set_done(const struct fs_found *f, const char *path, int r) {
  if (FS_LIKELY(f == NULL || path != f->real) || r != 0 || f->out.id == 0) return r;
  fs_err err = fs_output_publish_path(&f->out, path);
  return err == 0 ? 0 : fs_ret_int(err);
}

/* For a function that only consists of such a frame and that one wrapper calls. */
#define FS_PATH_INLINE static inline __attribute__((always_inline))

static inline bool fs_worth_retry(int err) {
  return err == ENOENT || err == ENOTDIR || err == EBADF || err == ENXIO;
}

/* A call on a dataset's file that libc makes a cancellation point. Cancellation comes before
   anything is done, as in libc. Before glibc 2.34 there is no such function without libpthread, and
   no thread to cancel. */
#pragma weak pthread_testcancel
static inline void fs_testcancel(void) {
  if (FS_LIKELY(pthread_testcancel != NULL)) pthread_testcancel();
}
#define FS_CANCELLABLE(call) (fs_testcancel(), call)

/* The frame of a wrapper that takes a descriptor. `ours` uses s, the open file, and goes on with it
   whatever becomes of the number. If the file's offset has moved to a real descriptor (fdreal.h),
   fd becomes that one, unless it is another file's by now. */
#define FS_FD_CALL(fd, ours, native)                                                                                   \
  for (unsigned fs_round = 0;; fs_round++) {                                                                           \
    FS_USE(fs_u);                                                                                                      \
    struct fs_slot *s = fs_fd_use(fd, &fs_u);                                                                          \
    if (FS_LIKELY(s == NULL)) {                                                                                        \
      __typeof__(native) fs_r = native;                                                                                \
      if (FS_LIKELY(fs_r != (__typeof__(native))-1) || FS_LIKELY(errno != EBADF)) return fs_r;                         \
      s = fs_fd_adopt_use(fd, &fs_u);                                                                                  \
      if (s == NULL) return fs_r;                                                                                      \
    }                                                                                                                  \
    int64_t fs_v = ours;                                                                                               \
    if (FS_LIKELY(fs_v >= 0)) return (__typeof__(native))fs_v;                                                         \
    if (fs_v == FS_E_REAL && (fs_v = fs_fd_take_over(fd, s)) == 0) {                                                   \
      fs_use_end(&fs_u);                                                                                               \
      fs_use_reap();                                                                                                   \
      if (!(fs_fd_entry(fd) & FS_FDE_VIRTUAL) || fs_vfork_depth > 0 || fs_round == 100) return native;                 \
      continue;                                                                                                        \
    }                                                                                                                  \
    return (__typeof__(native))fs_ret(fs_v);                                                                           \
  }

/* A call that sets attributes by a real descriptor. If that stands for another node's file, `ours`
   runs, with f. */
#define FS_REAL_SET(fd, ours, native)                                                                                  \
  ({                                                                                                                   \
    struct fs_found fs_named, *f = &fs_named;                                                                          \
    fs_err fs_forwarder = fs_output_real_set(fd, f);                                                                   \
    fs_forwarder != 0 ? fs_ret_int(fs_forwarder < 0 ? fs_forwarder : ours) : fs_real_was_set(fd, f, native);           \
  })
static inline int fs_real_was_set(int fd, const struct fs_found *f, int r) {
  fs_err err = r == 0 ? fs_output_real_was_set(fd, f) : 0;
  return err == 0 ? r : fs_ret_int(err);
}

/* A call that writes to a real descriptor. If the descriptor is an output's and the node's outputs
   take more than they may, it returns -EDQUOT. */
#define FS_WITH_ROOM(fd, native)                                                                                       \
  (FS_UNLIKELY(fs_fd_entry(fd) != 0) && fs_output_room(fd, UINT64_MAX) != 0 ? (__typeof__(native))fs_ret(-EDQUOT)      \
                                                                            : (native))

/* Makes room before the kernel gives out n new descriptors (fs_fd_make_lowest). */
static inline void fs_lowest(int n) {
  /* The hint is of one number. */
  if (n > 1) atomic_store_explicit(&fs_fd_hint, UINT32_MAX, memory_order_relaxed);
  if (FS_UNLIKELY(atomic_load_explicit(&fs_pool_maybe, memory_order_relaxed))) fs_fd_make_lowest(n);
}

/* A real call that returns a new descriptor. If the numbers have run out, it is retried without the
   idle placeholders. The table forgets what it knew of the number. */
#define FS_FRESH(native)                                                                                               \
  ({                                                                                                                   \
    fs_lowest(1);                                                                                                      \
    int fs_new = (native);                                                                                             \
    if (FS_UNLIKELY(fs_new < 0 && errno == EMFILE && fs_fd_pool_drop())) fs_new = (native);                            \
    if (fs_new >= 0) fs_fd_is_real(fs_new);                                                                            \
    fs_new;                                                                                                            \
  })

/* Returns a route as an error, for calls to which FS_NEW only means that the name is not there. */
static inline fs_err fs_must_exist(int route) {
  return route < 0 ? route : route == FS_IN ? 0 : -ENOENT;
}
/* Returns what a file's descriptor gets if a socket is wanted (address.c). */
ssize_t fs_not_a_socket(int fd, ssize_t r);
/* Returns whether an address may be that of a UNIX socket below a mount. */
bool fs_address_below(const struct sockaddr *a, socklen_t n);
/* sendmsg(2) to any address. */
ssize_t fs_send_message(int fd, const struct msghdr *m, int flags);
/* Returns whether fd is the library's own, which the program must not close or replace. */
static inline bool fs_shielded(int fd) {
  if (FS_LIKELY(fd < atomic_load_explicit(&fs_own_lowest, memory_order_relaxed))) return false;
  return fd > 2 && fs_data_owns_fd(fd);
}

/* Returns whether one of the descriptors is virtual. */
bool fs_poll_meets_ours(const struct pollfd *p, nfds_t n);
bool fs_select_meets_ours(int n, const fd_set *r, const fd_set *w, const fd_set *e);
/* close(2) without a cancellation point. */
int fs_close(int fd);
/* fchmodat2(2) with AT_EMPTY_PATH, which this libc may lack. */
#define FS_SYS_FCHMODAT2 452
int fs_chmod_empty(int fd, mode_t m, int flags);
int fs_open_common(int dirfd, const char *path, int flags, mode_t mode);
/* openat2(2). */
struct open_how;
struct iocb;
long fs_io_submit(unsigned long context, long n, struct iocb **list);
long fs_io_uring_setup(unsigned entries, void *params);
long fs_openat2(int dirfd, const char *path, const struct open_how *how, size_t size);
/* Notes a directory that was really opened, if a mount lies below it. */
void fs_note_directory(int fd, int dirfd, const char *path);
/* Returns whether f is a FILE of a dataset from which nothing was read yet. */
bool fs_stdio_unread(const FILE *f);
/* Makes a stream of a dataset one of a real file, before wide characters are read from it. */
void fs_stdio_widen(FILE *f);

#endif
