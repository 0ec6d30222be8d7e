/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all wrappers share. A wrapper holds no policy: it asks client/ whether its argument is a dataset's, calls
 * client/ or the real function, and sets errno. symbols.h is the one table of wrapped functions: the pointers to the
 * real ones, their resolution, and the declarations with default visibility come from it.
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
#include <nl_types.h>
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
#include <utmp.h>
#include <wchar.h>
#include <wordexp.h>

#include "client/fd/fdreal.h"
#include "client/files/files.h"
#include "client/outputs/nodelocal.h"
#include "client/outputs/outputs.h"
#include "preload/symbols.h"

struct fs_real {
#define X(ret, name, params, args) ret(*name) params;
  FS_SYMBOLS(X)
#undef X
};
extern FS_INTERNAL struct fs_real fs_real;
void fs_real_resolve(void);
/* libc's setenv; see real.c. */
void fs_env_set(const char *name, const char *value);
void fs_env_drop(const char *name);
extern FS_INTERNAL void *fs_real_dlopen;

/* The real function. Resolves on first use: wrappers may run before our constructor. */
#define FS_REAL(name)                                                                                                  \
  (*({                                                                                                                 \
    if (FS_UNLIKELY(__atomic_load_n(&fs_real.name, __ATOMIC_RELAXED) == NULL)) fs_real_resolve();                      \
    fs_real.name;                                                                                                      \
  }))

/* A second name for a wrapper: the 64-bit form, which is the same function on 64-bit machines, and the like. */
#define FS_ALIAS(alias, name)                                                                                          \
  __asm__(".globl " #alias "\n\t.type " #alias ", %function\n\t.set " #alias ", " #name "\n\t")

/* libc's headers promise the compiler that some arguments are not NULL; programs do not keep that. */
#define FS_MAY_BE_NULL(p) __asm__("" : "+r"(p))

/* A client result as libc returns it. */
static inline int64_t fs_ret(int64_t r) {
  if (FS_LIKELY(r >= 0)) return r;
  errno = (int)-r;
  return -1;
}
static inline int fs_ret_int(int64_t r) {
  return (int)fs_ret(r);
}

/* Was an output file replaced or removed after it was found? Then the name is to be looked up once more. If it is found
   again and again, its bytes are what is gone: that is EIO, since ENOENT is what no name at all is. */
static inline bool fs_output_is_lost(const struct fs_found *f, int route, int err, unsigned *tries) {
  return FS_UNLIKELY(err == ENOENT) && f->out.id != 0 &&
         fs_output_gone(route == FS_REDIRECT ? f->real : NULL, (*tries)++);
}

/*
 * The frame of a wrapper that takes a path: `ours` is what client/ answers, with `route` >= FS_IN or an error, and
 * `f`; `native` the real call, with `path` replaced where a symlink leads out of the mount (dirfd is then ignored).
 * After ENOENT and its like from the kernel, the path is looked at once more. `f` is large: only a path that may be
 * ours takes its room, since signal handlers and threads with small stacks make such calls.
 */
#define FS_PATH_CALL(dirfd, path, flags, ours, native)                                                                 \
  do {                                                                                                                 \
    struct fs_found *f = NULL;                                                                                         \
    int route = FS_OUTSIDE;                                                                                            \
    if (FS_UNLIKELY(!fs_path_outside(dirfd, path))) {                                                                  \
      f = alloca(sizeof(*f));                                                                                          \
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

/* The same for what changes a file: one of this node's outputs is published afterwards. */
#define FS_PATH_SET(dirfd, path, flags, ours, native)                                                                  \
  if (!((flags)&FS_NOFOLLOW) && FS_UNLIKELY(fs_output_staged_in_name(path))) return fs_ret_int(-EROFS);                \
  if (!((flags)&FS_NOFOLLOW) && FS_UNLIKELY(fs_path_may_name_fd(path))) {                                              \
    struct fs_found *f = alloca(sizeof(*f));                                                                           \
    int route = fs_output_route_named(path, f);                                                                        \
    if (route != FS_OUTSIDE) return fs_ret_int(ours);                                                                  \
    return fs_output_set_named(path, f, native);                                                                       \
  }                                                                                                                    \
  FS_PATH_CALL(dirfd, path, (flags) | FS_CHANGES, ours, fs_output_set_done(f, path, native))
/* By the name of a descriptor: of one that is real, and a forwarder, the file that it stands for. */
static inline int fs_output_route_named(const char *path, struct fs_found *f) {
  const char *rest = "";
  int route = fs_path_route_fd(path, f), fd = route == FS_OUTSIDE ? fs_fd_of_name(path, &rest) : -1;
  fs_err err = fd >= 0 && rest[0] == '\0' ? fs_output_real_set(fd, f) : 0;
  return err == 0 ? route : err < 0 ? err : FS_IN;
}
/* It may be one of an output of this node. */
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

/* For what does nothing but that, and is called by one wrapper. */
#define FS_PATH_INLINE static inline __attribute__((always_inline))

static inline bool fs_worth_retry(int err) {
  return err == ENOENT || err == ENOTDIR || err == EBADF || err == ENXIO;
}

/* A call on a dataset's file that libc makes a cancellation point: as in libc, before anything is done. */
#define FS_CANCELLABLE(call) (pthread_testcancel(), call)

/* The frame of a wrapper that takes a descriptor: `ours` uses s, the open file, and goes on with it whatever becomes of
   the number; where its offset has moved to a real one (fdreal.h), fd becomes that, if it is not another file's by now.
 */
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

/* What sets attributes by a descriptor that is real: `ours`, with f, where that stands for another node's file. */
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

/* It was written to a real descriptor. */
static inline int64_t fs_written(int fd, int64_t r) {
  if (r <= 0 || !fs_output_awaits()) return r;
  fs_err err = fs_output_await(fd);
  return err == 0 ? r : fs_ret(err);
}

/* A call that writes to a real descriptor: not to one of an output while the node's take more than they may. */
#define FS_WITH_ROOM(fd, native)                                                                                       \
  (FS_LIKELY(fs_fd_entry(fd) == 0)       ? (native)                                                                    \
   : fs_output_room(fd, UINT64_MAX) != 0 ? (__typeof__(native))fs_ret(-EDQUOT)                                         \
                                         : (__typeof__(native))fs_written(fd, native))

/* Before the kernel gives n new descriptors: see fs_fd_make_lowest. */
static inline void fs_lowest(int n) {
  if (n > 1) atomic_store_explicit(&fs_fd_hint, UINT32_MAX, memory_order_relaxed); /* it speaks of one number */
  if (FS_UNLIKELY(atomic_load_explicit(&fs_pool_maybe, memory_order_relaxed))) fs_fd_make_lowest(n);
}

/* A real call that returns a new descriptor: retried without our idle placeholders when the numbers have run out, and
   whatever the table thought of the number is forgotten. */
#define FS_FRESH(native)                                                                                               \
  ({                                                                                                                   \
    fs_lowest(1);                                                                                                      \
    int fs_new = (native);                                                                                             \
    if (FS_UNLIKELY(fs_new < 0 && errno == EMFILE && fs_fd_pool_drop())) fs_new = (native);                            \
    if (fs_new >= 0) fs_fd_is_real(fs_new);                                                                            \
    fs_new;                                                                                                            \
  })

/* A route as an error, for calls that have nothing to say of FS_NEW but that it is not there. */
static inline fs_err fs_must_exist(int route) {
  return route < 0 ? route : route == FS_IN ? 0 : -ENOENT;
}
/* What a file's descriptor gets where a socket is wanted (address.c). */
ssize_t fs_not_a_socket(int fd, ssize_t r);
/* May an address be that of a UNIX socket below a mount? */
bool fs_address_below(const struct sockaddr *a, socklen_t n);
/* sendmsg(2) to any address. */
ssize_t fs_send_message(int fd, const struct msghdr *m, int flags);
/* The library's own descriptors are not the program's to close or replace. */
static inline bool fs_shielded(int fd) {
  if (FS_LIKELY(fd < atomic_load_explicit(&fs_own_lowest, memory_order_relaxed))) return false;
  return fd > 2 && fs_data_owns_fd(fd);
}

/* May a walk of the tree at `path` come below a mount? Symlinks aside. */
bool fs_walk_meets_mount(const char *path);
/* Is one of the descriptors ours? */
bool fs_poll_meets_ours(const struct pollfd *p, nfds_t n);
bool fs_select_meets_ours(int n, const fd_set *r, const fd_set *w, const fd_set *e);
/* close(2), but no cancellation point. */
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
/* After a real open of a directory: notes it when a mount lies below. */
void fs_note_directory(int fd, int dirfd, const char *path);
/* A FILE on a virtual descriptor; takes the descriptor over. */
FILE *fs_stdio_wrap(int fd, const char *mode);
/* A FILE of a dataset that nothing was read from yet? */
bool fs_stdio_unread(const FILE *f);
/* Before wide characters are read from f: makes such a stream one of a real file. */
void fs_stdio_widen(FILE *f);

#endif
