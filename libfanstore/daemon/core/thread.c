/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts the daemon's threads, and says how the scheduler treats them. They are detached, since the
   process ends by _exit and joins none. */
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/daemon.h"

fs_err fs_thread_start(void *(*main)(void *), void *arg) {
  pthread_attr_t attr;
  pthread_t t;
  if (pthread_attr_init(&attr) != 0) return -ENOMEM;
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  int err = pthread_create(&t, &attr, main, arg);
  pthread_attr_destroy(&attr);
  return -err;
}

/* The first version of the kernel's struct sched_attr, which not every libc declares. */
struct fs_sched_attr {
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};

#define FS_SLICE_NS 100000ull

void fs_thread_prompt(void) {
  struct fs_sched_attr a = {.size = sizeof(a)};
  if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0) < 0 || a.policy != SCHED_OTHER) return;
  a.flags = 0;
  a.runtime = FS_SLICE_NS;
  (void)syscall(SYS_sched_setattr, 0, &a, 0);
}
