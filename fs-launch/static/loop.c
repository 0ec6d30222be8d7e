/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The threads that take calls from the listener and answer them. Each waits in the kernel for the
 * next call, so a thread that waits for another node does not delay the others. No locks.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "static.h"

#ifndef SECCOMP_ADDFD_FLAG_SEND
#define SECCOMP_ADDFD_FLAG_SEND (1UL << 1)
#endif
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

static long request(int listener, unsigned long what, void *arg) {
  return FS_SYS3(SYS_ioctl, listener, what, arg);
}

bool fs_call_valid(const struct fs_call *c) {
  uint64_t id = c->id;
  return request(c->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

/* Sends an answer. ENOENT is no failure: the caller was killed, or a signal came first. */
fs_err fs_answer(const struct fs_call *c, int64_t result) {
  struct seccomp_notif_resp r = {.id = c->id};
  if (result == FS_PASS)
    r.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  else if (result < 0)
    r.error = (int32_t)result;
  else
    r.val = result;
  return (fs_err)request(c->listener, SECCOMP_IOCTL_NOTIF_SEND, &r);
}

/* Adds the descriptor and answers in one step if the kernel can (5.14). Otherwise a caller that is
   interrupted in between keeps a stray descriptor. */
int64_t fs_give(struct fs_call *c, fs_fd fd, bool cloexec) {
  if (fd < 0) return fd;
  struct seccomp_notif_addfd add = {
      .id = c->id, .flags = SECCOMP_ADDFD_FLAG_SEND, .srcfd = (uint32_t)fd, .newfd_flags = cloexec ? O_CLOEXEC : 0};
  long r = request(c->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
  bool sent = r >= 0;
  if (r == -EINVAL) {
    add.flags = 0;
    r = request(c->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
  }
  fs_sys_close(fd);
  return sent || r == -ENOENT ? FS_ANSWERED : r;
}

void fs_tell_once(_Atomic bool *once, const char *format, ...) {
  va_list args;
  if (atomic_exchange(once, true)) return;
  va_start(args, format);
  vdprintf(STDERR_FILENO, format, args);
  va_end(args);
  dprintf(STDERR_FILENO, "\n");
}

static void handle(struct fs_call *c, const struct seccomp_notif *n) {
  const struct fs_trap *t = fs_trap_of(n->data.nr);
  c->id = n->id;
  c->tid = (pid_t)n->pid;
  c->nr = n->data.nr;
  c->seen = false;
  memcpy(c->arg, n->data.args, sizeof(c->arg));
  /* Without a pid the caller is in a pid namespace that we cannot see. */
  int64_t result = t != NULL && c->tid > 0 ? t->fn(c, t) : FS_PASS;
  if (result != FS_ANSWERED) fs_answer(c, result);
}

static struct seccomp_notif *notification_new(size_t *size) {
  struct seccomp_notif_sizes sizes = {.seccomp_notif = sizeof(struct seccomp_notif)};
  FS_SYS3(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes);
  *size = FS_MAX(sizes.seccomp_notif, sizeof(struct seccomp_notif));
  return calloc(1, *size);
}

static _Atomic int threads, idle;

static void *serve(void *arg);

static int add_thread(int listener) {
  pthread_attr_t attr;
  pthread_t thread;
  if (atomic_fetch_add(&threads, 1) >= FS_STATIC_THREADS_MAX) {
    atomic_fetch_sub(&threads, 1);
    return EAGAIN;
  }
  atomic_fetch_add(&idle, 1);
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attr, 1u << 20);
  int err = pthread_create(&thread, &attr, serve, (void *)(intptr_t)listener);
  pthread_attr_destroy(&attr);
  if (err == 0) return 0;
  atomic_fetch_sub(&threads, 1);
  atomic_fetch_sub(&idle, 1);
  return err;
}

/* Handles one call. The last waiting thread first starts another, because it may be busy for any
   time. Returns false if there are enough waiting threads: then this one ends. */
static bool work(struct fs_call *c, const struct seccomp_notif *n) {
  if (atomic_fetch_sub(&idle, 1) == 1) add_thread(c->listener);
  handle(c, n);
  if (atomic_fetch_add(&idle, 1) < FS_STATIC_THREADS) return true;
  atomic_fetch_sub(&idle, 1);
  atomic_fetch_sub(&threads, 1);
  return false;
}

static void *serve(void *arg) {
  size_t size;
  struct seccomp_notif *n = notification_new(&size);
  struct fs_call *c = calloc(1, sizeof(*c));
  if (n == NULL || c == NULL) abort(); /* only at the start; the main process reports the death */
  c->listener = (int)(intptr_t)arg;
  for (;;) {
    memset(n, 0, size); /* the kernel requires this */
    long r = request(c->listener, SECCOMP_IOCTL_NOTIF_RECV, n);
    if (r == 0 && !work(c, n)) break;
    if (r != 0 && r != -EINTR)
      /* Another thread got the call, the caller died, or no caller is left, which the main thread
         notices. A call wakes all waiting threads, so a short sleep also saves wake-ups. */
      usleep(1000);
  }
  free(n);
  free(c);
  return NULL;
}

fs_err fs_loop_start(int listener) {
  int err = 0;
  /* Caller and supervisor take turns. Staying on one processor saves a wake-up of another (Linux
     6.6). */
  FS_SYS3(SYS_ioctl, listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
  for (int i = 0; i < FS_STATIC_THREADS && err == 0; i++) err = add_thread(listener);
  return -err;
}
