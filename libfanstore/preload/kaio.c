/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernel AIO (io_submit, by libaio or syscall(2)) and io_uring (by liburing or syscall(2)). The
 * kernel does not know a mount's descriptors. A request of kernel AIO on one is carried out here,
 * before io_submit returns. In its place the kernel gets a write of as many bytes to /dev/null.
 * That write ends at once with the same count, so that the event comes out of the context like any
 * other, with its data, its eventfd and its turn. A request that fails is refused by io_submit, as
 * the kernel refuses one on a bad descriptor. io_uring has no call for a request, so it is refused
 * as a whole or not at all: docs/compatibility.md.
 */
#include <dlfcn.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "ipc/node.h"
#include "preload/preload.h"

static bool is_ours(const struct iocb *cb) {
  if (fs_bad_address(cb)) return false;
  const struct fs_slot *s = fs_fd_slot((int)cb->aio_fildes);
  return s != NULL && s != &fs_slot_closed;
}

/* Writes at the request's offset. An appended write is refused: if the context has no room for the
   event, the caller submits it again. */
static ssize_t write_at(int fd, const struct iovec *v, int n, const struct iocb *cb) {
  if (cb->aio_offset < 0 || (fcntl(fd, F_GETFL) & O_APPEND)) return fs_ret(-EINVAL);
  return pwritev2(fd, v, n, cb->aio_offset, (int)cb->aio_rw_flags);
}

static ssize_t read_at(int fd, const struct iovec *v, int n, const struct iocb *cb) {
  return cb->aio_offset < 0 ? fs_ret(-EINVAL) : preadv2(fd, v, n, cb->aio_offset, (int)cb->aio_rw_flags);
}

/* Returns the count, or -1 with errno. */
static ssize_t transfer(const struct iocb *cb) {
  int fd = (int)cb->aio_fildes;
  struct iovec one = {(void *)(uintptr_t)cb->aio_buf, cb->aio_nbytes};
  const struct iovec *many = (const struct iovec *)(uintptr_t)cb->aio_buf;
  switch (cb->aio_lio_opcode) {
  case IOCB_CMD_PREAD:
    return read_at(fd, &one, 1, cb);
  case IOCB_CMD_PREADV:
    return read_at(fd, many, (int)cb->aio_nbytes, cb);
  case IOCB_CMD_PWRITE:
    return write_at(fd, &one, 1, cb);
  case IOCB_CMD_PWRITEV:
    return write_at(fd, many, (int)cb->aio_nbytes, cb);
  case IOCB_CMD_FSYNC:
    return fsync(fd);
  case IOCB_CMD_FDSYNC:
    return fdatasync(fd);
  default:
    return fs_ret(-EINVAL);
  }
}

/* Submits a write to /dev/null in place of a finished request. The kernel copies a control block
   when it is submitted, and the caller's is restored afterwards. */
static int64_t submit_done(aio_context_t context, struct iocb *cb, ssize_t count, int null) {
  const struct iocb as_given = *cb;
  cb->aio_lio_opcode = IOCB_CMD_PWRITE;
  cb->aio_fildes = (uint32_t)null;
  cb->aio_nbytes = (uint64_t)count;
  cb->aio_offset = 0;
  cb->aio_rw_flags = 0;
  int64_t r = FS_SYS3(SYS_io_submit, context, 1, &cb);
  *cb = as_given;
  return r;
}

static int64_t submit_mixed(aio_context_t context, long n, struct iocb **list, int null) {
  for (long i = 0, end; i < n; i = end) {
    int64_t r;
    end = i;
    while (end < n && !is_ours(list[end])) end++;
    if (end > i) {
      r = FS_SYS3(SYS_io_submit, context, end - i, list + i);
      if (r != end - i) return r > 0 ? i + r : i > 0 ? i : r;
      continue;
    }
    end = i + 1;
    ssize_t count = transfer(list[i]);
    r = count < 0 ? -errno : submit_done(context, list[i], count, null);
    if (r != 1) return i > 0 ? i : r;
  }
  return n;
}

/* Returns whether the first request is on an inherited descriptor that was not used yet. This is
   asked only after the kernel has refused it, so that requests on real files cost no more. */
static bool is_inherited(int64_t r, struct iocb *const *list) {
  /* The kernel has read the first request. */
  return r == -EBADF && fs_fd_adopt((int)list[0]->aio_fildes) != NULL;
}

/* Returns how many requests were submitted, or a negative errno. */
static int64_t submit(aio_context_t context, long n, struct iocb **list) {
  bool any = false;
  for (long i = 0; i < n && !any && !fs_bad_address(list); i++) any = is_ours(list[i]);
  int64_t real = any ? 0 : FS_SYS3(SYS_io_submit, context, n, list);
  if (!any && !is_inherited(real, list)) return real;
  int null = (int)FS_SYS4(SYS_openat, AT_FDCWD, "/dev/null", O_WRONLY | O_CLOEXEC, 0), state, saved = errno;
  if (null < 0) return null;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
  int64_t r = submit_mixed(context, n, list, null);
  pthread_setcancelstate(state, NULL);
  FS_SYS1(SYS_close, null);
  errno = saved;
  return r;
}

long fs_io_submit(unsigned long context, long n, struct iocb **list) {
  return fs_ret(submit(context, n, list));
}

/* The function of libaio. */
FS_EXPORT int io_submit(aio_context_t context, long n, struct iocb **list);
FS_EXPORT int io_submit(aio_context_t context, long n, struct iocb **list) {
  return (int)submit(context, n, list);
}

/*
 * Returns whether io_uring is refused. A ring takes real files as ever, but a descriptor of a mount
 * in it gives EBADF. Programs without io_uring fall back to plain calls. libuv falls back to
 * threads, which it uses by default, so it is refused there, unless FANSTORE_IO_URING=1 says
 * otherwise. FANSTORE_IO_URING=0 refuses it to every program.
 */
static bool refuses_rings(void) {
  const char *wish = getenv(FS_ENV_IO_URING);
  bool refuse = wish != NULL && wish[0] != '\0' ? wish[0] == '0' : dlsym(RTLD_DEFAULT, "uv_version") != NULL;
  return refuse && fs_mount_count() > 0;
}

long fs_io_uring_setup(unsigned entries, void *params) {
  return refuses_rings() ? fs_ret(-ENOSYS) : fs_ret(FS_SYS2(SYS_io_uring_setup, entries, params));
}

/* Finds a function in liburing, which is not in the global scope if only a module that dlopen
   loaded needs it. */
static void *next_of(const char *name) {
  static const char *const libraries[] = {"liburing.so.2", "liburing-ffi.so.2", "liburing.so.1"};
  if (refuses_rings()) return NULL;
  void *found = dlsym(RTLD_NEXT, name);
  for (size_t i = 0; i < FS_ARRAY_LEN(libraries) && found == NULL; i++) {
    void *library = FS_REAL(dlopen)(libraries[i], RTLD_NOLOAD | RTLD_LAZY);
    if (library != NULL) found = dlsym(library, name);
    if (library != NULL) dlclose(library);
  }
  return found;
}

/* A function of liburing that makes the system call itself. */
#define FS_RING(name, params, args)                                                                                    \
  FS_EXPORT int name params;                                                                                           \
  FS_EXPORT int name params {                                                                                          \
    int(*next) params;                                                                                                 \
    *(void **)&next = next_of(#name);                                                                                  \
    return next == NULL ? -ENOSYS : next args;                                                                         \
  }
FS_RING(io_uring_queue_init, (unsigned entries, void *ring, unsigned flags), (entries, ring, flags))
FS_RING(io_uring_queue_init_params, (unsigned entries, void *ring, void *params), (entries, ring, params))
FS_RING(io_uring_queue_init_mem, (unsigned entries, void *ring, void *params, void *buf, size_t size),
        (entries, ring, params, buf, size))
FS_RING(io_uring_setup, (unsigned entries, void *params), (entries, params))
