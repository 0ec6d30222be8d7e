/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts the daemon's threads. They are detached, since the process ends by _exit and joins
   none. */
#include <pthread.h>

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
