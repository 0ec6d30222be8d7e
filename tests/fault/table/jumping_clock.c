/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For clocks.sh, by LD_PRELOAD: the time of day jumps by a day every 300 ms, forwards and back again. The clocks that
 * cannot jump are left alone.
 */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define DAY 86400

static long jump(void) {
  struct timespec t;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
  return (t.tv_sec * 1000 + t.tv_nsec / 1000000) / 300 % 3 * DAY - DAY;
}

int clock_gettime(clockid_t id, struct timespec *t) {
  int rc = (int)syscall(SYS_clock_gettime, id, t);
  if (rc == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) t->tv_sec += jump();
  return rc;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
  struct timespec t;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &t);
  tv->tv_sec = t.tv_sec;
  tv->tv_usec = t.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *to) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  if (to) *to = t.tv_sec;
  return t.tv_sec;
}
