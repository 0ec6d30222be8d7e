/* SPDX-License-Identifier: BSD-3-Clause */
/* A library that stops all clocks in 2001, as libfaketime does with an absolute time. Preloaded by clocks.sh. */
#include <stddef.h>
#include <sys/time.h>
#include <time.h>

#define STOPPED 1000000000

int clock_gettime(clockid_t id, struct timespec *t) {
  (void)id;
  *t = (struct timespec){.tv_sec = STOPPED};
  return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
  (void)zone;
  *tv = (struct timeval){.tv_sec = STOPPED};
  return 0;
}

time_t time(time_t *to) {
  if (to != NULL) *to = STOPPED;
  return STOPPED;
}
