/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of POSIX AIO. libc does it by threads of its own, on the kernel's descriptors. A request
 * on a dataset's file is carried out at once. When aio_read returns, its status and count stand in
 * the control block, where libc's aio_error, aio_return and aio_suspend find them, and the
 * notification has been sent.
 */
#include <aio.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "preload/preload.h"

struct call {
  void (*function)(union sigval);
  union sigval value;
};

static void *run_call(void *arg) {
  struct call c = *(struct call *)arg;
  free(arg);
  c.function(c.value);
  return NULL;
}

static int64_t call_in_thread(const struct sigevent *event) {
  pthread_t thread;
  pthread_attr_t own, *attr = event->sigev_notify_attributes;
  struct call *c = malloc(sizeof(*c));
  if (c == NULL) return -EAGAIN;
  *c = (struct call){event->sigev_notify_function, event->sigev_value};
  if (attr == NULL) {
    pthread_attr_init(&own);
    pthread_attr_setdetachstate(&own, PTHREAD_CREATE_DETACHED);
    attr = &own;
  }
  int err = FS_REAL(pthread_create)(&thread, attr, run_call, c);
  if (attr == &own) pthread_attr_destroy(&own);
  if (err != 0) free(c);
  return -err;
}

static int64_t raise_signal(const struct sigevent *event) {
  siginfo_t info = {0};
  info.si_signo = event->sigev_signo;
  info.si_code = SI_ASYNCIO;
  info.si_pid = fs_sys_getpid();
  info.si_uid = getuid();
  info.si_value = event->sigev_value;
  return FS_SYS3(SYS_rt_sigqueueinfo, info.si_pid, event->sigev_signo, &info);
}

static int64_t notify(const struct sigevent *event) {
  switch (event->sigev_notify) {
  case SIGEV_SIGNAL:
    return raise_signal(event);
  case SIGEV_THREAD:
    return call_in_thread(event);
  default:
    return 0;
  }
}

/* Ends a request. r is its count or a negative errno. */
static int finish(struct aiocb *cb, int64_t r) {
  cb->__return_value = r < 0 ? -1 : (ssize_t)r;
  __atomic_store_n(&cb->__error_code, r < 0 ? (int)-r : 0, __ATOMIC_RELEASE);
  return fs_ret_int(FS_MIN(notify(&cb->aio_sigevent), 0));
}

static int64_t transfer(struct fs_slot *s, const struct aiocb *cb, int op) {
  if (op == LIO_WRITE) return fs_file_pwrite(s, (const void *)cb->aio_buf, cb->aio_nbytes, cb->aio_offset);
  return cb->aio_offset < 0 ? -EINVAL : fs_file_pread(s, (void *)cb->aio_buf, cb->aio_nbytes, cb->aio_offset);
}

/* Returns the open file of a request. An inherited one counts too, since libc's thread would only
   find EBADF. */
static struct fs_slot *slot_of(const struct aiocb *cb, struct fs_use *u) {
  struct fs_slot *s = fs_fd_use(cb->aio_fildes, u);
  return s != NULL || fs_state_fd() < 0 ? s : fs_fd_adopt_use(cb->aio_fildes, u);
}

FS_EXPORT int aio_read(struct aiocb *cb) {
  FS_USE(u);
  struct fs_slot *s = slot_of(cb, &u);
  return s == NULL ? FS_REAL(aio_read)(cb) : finish(cb, transfer(s, cb, LIO_READ));
}
FS_ALIAS(aio_read64, aio_read);

FS_EXPORT int aio_write(struct aiocb *cb) {
  FS_USE(u);
  struct fs_slot *s = slot_of(cb, &u);
  int64_t put = s == NULL ? FS_E_REAL : fs_fd_real_if(cb->aio_fildes, s, transfer(s, cb, LIO_WRITE));
  return put == FS_E_REAL ? FS_REAL(aio_write)(cb) : finish(cb, put);
}
FS_ALIAS(aio_write64, aio_write);

FS_EXPORT int aio_fsync(int op, struct aiocb *cb) {
  FS_USE(u);
  struct fs_slot *s = slot_of(cb, &u);
  if (s == NULL) return FS_REAL(aio_fsync)(op, cb);
  if (op != O_SYNC && op != O_DSYNC) return fs_ret_int(-EINVAL);
  return finish(cb, fs_slot_writable(s) == 0 ? fs_output_flush(s->entry, true) : 0);
}
FS_ALIAS(aio_fsync64, aio_fsync);

FS_EXPORT int aio_cancel(int fd, struct aiocb *cb) {
  const struct fs_slot *s = fs_fd_slot(fd);
  if (s == NULL) return FS_REAL(aio_cancel)(fd, cb);
  if (s == &fs_slot_closed) return fs_ret_int(-EBADF);
  return cb != NULL && cb->aio_fildes != fd ? fs_ret_int(-EINVAL) : AIO_ALLDONE;
}
FS_ALIAS(aio_cancel64, aio_cancel);

static bool is_request(const struct aiocb *cb) {
  return cb != NULL && cb->aio_lio_opcode != LIO_NOP;
}

/* Nothing is carried out if a request of the list is on a virtual descriptor. */
FS_EXPORT int lio_listio(int mode, struct aiocb *const list[], int n, struct sigevent *event) {
  for (int i = 0; i < n; i++) {
    FS_USE(u);
    if (is_request(list[i]) && slot_of(list[i], &u) != NULL) return fs_ret_int(-ENOSYS);
  }
  return FS_REAL(lio_listio)(mode, list, n, event);
}
FS_ALIAS(lio_listio64, lio_listio);
