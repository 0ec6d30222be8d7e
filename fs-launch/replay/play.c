/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch replay: makes the calls of a trace again. Each process of the trace is a child, which
 * makes its calls one after the other, also those of several threads. The children share memory for
 * their results. They begin together, and each waits before a call as its program did. Calls that
 * write are left out.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../launch.h"
#include "ipc/latency.h"
#include "names.h"
#include "replay.h"

#define FS_HANDLES (1u << 20)
#define FS_MOST_PROCESSES 4096u
#define FS_BUFFER (1u << 20)
#define FS_START_NS (FS_NS_PER_S / 5) /* until all children wait for the start */

struct played {
  _Atomic uint64_t calls[FS_TRACE_CALLS], bytes[FS_TRACE_CALLS];
  _Atomic uint64_t then[FS_TRACE_CALLS][FS_LATENCY_BUCKETS], now[FS_TRACE_CALLS][FS_LATENCY_BUCKETS];
  _Atomic uint64_t failed, writes, unknown, first_errno;
  char first_failed[256];
};

struct player {
  const struct fs_trace_set *set;
  const struct fs_trace_segment *segment;
  struct played *played;
  const char *dir;
  double speed;
  uint64_t begin_ns; /* CLOCK_MONOTONIC of the start */
  int *fd;           /* by handle: a descriptor + 1, or 0 */
  char *buffer;
};

static void wait_until(uint64_t ns) {
  struct timespec t = {.tv_sec = (time_t)(ns / FS_NS_PER_S), .tv_nsec = (long)(ns % FS_NS_PER_S)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) continue;
}

static bool path_of(const struct player *p, const struct fs_trace_item *i, char *out) {
  size_t skip = p->dir ? i->r.mount_len : 0;
  int n = snprintf(out, PATH_MAX, "%s%.*s", p->dir ? p->dir : "", (int)(i->r.path_len - skip), i->path + skip);
  return i->r.path_len > 0 && n > 0 && n < PATH_MAX;
}

/* Finds the last open of a handle before a time, in any process of the host: this process has
   inherited it. */
static bool find_open(const struct player *p, uint32_t handle, uint64_t when, struct fs_trace_item *found) {
  uint64_t best = 0;
  for (size_t k = 0; k < p->set->segments; k++) {
    const struct fs_trace_segment *s = &p->set->segment[k];
    struct fs_trace_item i;
    if (strcmp(s->head.host, p->segment->head.host) != 0) continue;
    for (const uint8_t *at = s->at; fs_trace_next(s, &at, &i);) {
      if (i.r.call != FS_TRACE_OPEN || i.r.handle != handle || i.when > when || i.when < best) continue;
      best = i.when;
      *found = i;
    }
  }
  return best > 0;
}

static int open_read(const char *path) {
  return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static void keep(const struct player *p, uint32_t handle, int fd) {
  if (handle >= FS_HANDLES) {
    if (fd >= 0) close(fd);
    return;
  }
  if (p->fd[handle] > 0) close(p->fd[handle] - 1);
  p->fd[handle] = fd + 1;
}

/* Returns the descriptor of a handle, or -1. */
static int descriptor(const struct player *p, const struct fs_trace_item *i) {
  char path[PATH_MAX];
  struct fs_trace_item opened;
  if (i->r.handle >= FS_HANDLES) return -1;
  if (p->fd[i->r.handle] == 0 && find_open(p, i->r.handle, i->when, &opened) && path_of(p, &opened, path))
    keep(p, i->r.handle, open_read(path));
  return p->fd[i->r.handle] - 1;
}

static int64_t play_open(const struct player *p, const struct fs_trace_item *i) {
  char path[PATH_MAX];
  if (!path_of(p, i, path)) return -ENOENT;
  if (i->r.off & O_DIRECTORY) {
    DIR *d = opendir(path);
    if (!d) return -errno;
    while (readdir(d) != NULL) continue;
    closedir(d);
    return 0;
  }
  int fd = open_read(path), err = errno;
  if (fd < 0) return -err;
  if (i->r.handle == FS_TRACE_NO_HANDLE || i->r.result < 0)
    close(fd);
  else
    keep(p, i->r.handle, fd);
  return 0;
}

static int64_t play_read(const struct player *p, int fd, const struct fs_trace_item *i) {
  int64_t total = 0;
  while ((uint64_t)total < i->r.n) { /* a larger buffer than ours is read in parts */
    size_t n = (size_t)FS_MIN(i->r.n - (uint64_t)total, FS_BUFFER);
    ssize_t got = pread(fd, p->buffer, n, (off_t)(i->r.off + (uint64_t)total));
    if (got < 0) return -errno;
    total += got;
    if ((size_t)got < n) break;
  }
  return total;
}

/* Maps a range and reads a byte of each page: when the program did that, the trace does not tell. */
static int64_t play_map(int fd, const struct fs_trace_item *i) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  struct stat st;
  if (fstat(fd, &st) < 0) return -errno;
  if (i->r.n == 0 || i->r.off % page != 0 || i->r.off >= (uint64_t)st.st_size) return -EINVAL;
  size_t n = (size_t)FS_MIN(i->r.n, (uint64_t)st.st_size - i->r.off);
  volatile const char *map = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, (off_t)i->r.off);
  if ((const void *)map == MAP_FAILED) return -errno;
  for (size_t k = 0; k < n; k += page) (void)map[k];
  munmap((void *)(uintptr_t)map, n);
  return 0;
}

/* Makes one call. Returns its result, or INT64_MIN if there is none to make. */
static int64_t play_call(const struct player *p, const struct fs_trace_item *i) {
  char path[PATH_MAX];
  struct stat st;
  if (i->r.call == FS_TRACE_STAT) return !path_of(p, i, path) ? -ENOENT : stat(path, &st) < 0 ? -errno : 0;
  if (i->r.call == FS_TRACE_OPEN) return play_open(p, i);
  if (i->r.call == FS_TRACE_CLOSE) {
    if (i->r.handle < FS_HANDLES) keep(p, i->r.handle, -1);
    return 0;
  }
  int fd = descriptor(p, i);
  if (fd < 0) return INT64_MIN;
  if (i->r.call == FS_TRACE_FSTAT) return fstat(fd, &st) < 0 ? -errno : 0;
  return i->r.call == FS_TRACE_READ ? play_read(p, fd, i) : i->r.call == FS_TRACE_MAP ? play_map(fd, i) : INT64_MIN;
}

static void note_failed(const struct player *p, const struct fs_trace_item *i, int64_t result) {
  if (atomic_fetch_add(&p->played->failed, 1) > 0) return;
  atomic_store(&p->played->first_errno, result < 0 ? (uint64_t)-result : 0);
  snprintf(p->played->first_failed, sizeof(p->played->first_failed), "%.*s", (int)i->r.path_len, i->path);
}

static void play_one(const struct player *p, const struct fs_trace_item *i) {
  struct played *d = p->played;
  if (i->r.call == FS_TRACE_WRITE || (i->r.call == FS_TRACE_OPEN && (i->r.off & (O_WRONLY | O_RDWR | O_CREAT)))) {
    atomic_fetch_add(&d->writes, 1);
    return;
  }
  if (p->speed > 0) wait_until(p->begin_ns + (uint64_t)((double)(i->when - p->set->start) / p->speed));
  uint64_t begin = fs_now_ns();
  int64_t result = play_call(p, i);
  uint64_t ns = fs_now_ns() - begin;
  if (result == INT64_MIN) {
    atomic_fetch_add(&d->unknown, 1);
    return;
  }
  if (result < 0 && i->r.result >= 0) note_failed(p, i, result);
  if (i->r.call == FS_TRACE_READ && result >= 0 && result != i->r.result) note_failed(p, i, result);
  atomic_fetch_add(&d->calls[i->r.call], 1);
  if (result > 0) atomic_fetch_add(&d->bytes[i->r.call], (uint64_t)result);
  atomic_fetch_add(&d->then[i->r.call][fs_latency_bucket(i->r.ns)], 1);
  atomic_fetch_add(&d->now[i->r.call][fs_latency_bucket(ns)], 1);
}

static int play_segment(struct player *p) {
  struct fs_trace_item i;
  p->fd =
      mmap(NULL, FS_HANDLES * sizeof(int), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  p->buffer = malloc(FS_BUFFER);
  if (p->fd == MAP_FAILED || !p->buffer) return FS_EXIT_FAILED;
  wait_until(p->begin_ns);
  for (const uint8_t *at = p->segment->at; fs_trace_next(p->segment, &at, &i);) play_one(p, &i);
  return 0;
}

static void show_call(const struct played *d, unsigned call) {
  static const char *const names[] = FS_TRACE_CALL_NAMES;
  struct fs_latency then, now;
  char bytes[32];
  if (atomic_load(&d->calls[call]) == 0) return;
  for (unsigned b = 0; b < FS_LATENCY_BUCKETS; b++) {
    then.count[b] = atomic_load(&d->then[call][b]);
    now.count[b] = atomic_load(&d->now[call][b]);
  }
  printf("%-6s %10llu %10s %11.1f %11.1f %11.1f %11.1f\n", names[call],
         (unsigned long long)atomic_load(&d->calls[call]),
         fs_format_size(atomic_load(&d->bytes[call]), bytes, sizeof(bytes)),
         (double)fs_latency_percentile(&then, 500) / 1e3, (double)fs_latency_percentile(&now, 500) / 1e3,
         (double)fs_latency_percentile(&then, 990) / 1e3, (double)fs_latency_percentile(&now, 990) / 1e3);
}

/* Returns how long the traced programs took, from the first call to the end of the last, in ns. */
static uint64_t traced_ns(const struct fs_trace_set *set) {
  uint64_t end = set->start;
  for (size_t k = 0; k < set->segments; k++) {
    struct fs_trace_item i;
    for (const uint8_t *at = set->segment[k].at; fs_trace_next(&set->segment[k], &at, &i);)
      end = FS_MAX(end, i.when + i.r.ns);
  }
  return end - set->start;
}

static int show(const struct player *p, uint64_t ns, bool died) {
  const struct played *d = p->played;
  char first[4 * sizeof(d->first_failed)];
  uint64_t failed = atomic_load(&d->failed), missing = atomic_load(&d->unknown), writes = atomic_load(&d->writes);
  puts("call        calls      bytes  p50 traced  p50 replay  p99 traced  p99 replay  (us)");
  for (unsigned call = 1; call < FS_TRACE_CALLS; call++) show_call(d, call);
  printf("%zu process%s: %.3f s traced, %.3f s replayed\n", p->set->segments, p->set->segments == 1 ? "" : "es",
         (double)traced_ns(p->set) / 1e9, (double)ns / 1e9);
  if (writes > 0) printf("%llu call%s for writing left out\n", (unsigned long long)writes, fs_plural(writes));
  if (missing > 0)
    printf("%llu call%s on files whose open is not in the trace left out\n", (unsigned long long)missing,
           fs_plural(missing));
  if (failed > 0)
    printf("%llu call%s failed or gave other sizes than in the trace, first: %s%s%s\n", (unsigned long long)failed,
           fs_plural(failed),
           d->first_failed[0] ? fs_printable(d->first_failed, strlen(d->first_failed), first, sizeof(first))
                              : "(a file)",
           atomic_load(&d->first_errno) ? ": " : "",
           atomic_load(&d->first_errno) ? strerror((int)atomic_load(&d->first_errno)) : "");
  bool good = fflush(stdout) == 0 && failed == 0 && !died;
  if (died) fs_say("a process of the replay died");
  return good ? 0 : 1;
}

int fs_replay_play(const struct fs_trace_set *set, double speed, const char *dir) {
  struct player p = {.set = set, .speed = speed, .dir = dir};
  bool died = false;
  if (set->segments > FS_MOST_PROCESSES) {
    fs_say("the trace has %zu processes; at most %u can be replayed on a host", set->segments, FS_MOST_PROCESSES);
    return FS_EXIT_FAILED;
  }
  p.played = mmap(NULL, sizeof(*p.played), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p.played == MAP_FAILED) return FS_EXIT_FAILED;
  p.begin_ns = fs_now_ns() + FS_START_NS;
  pid_t parent = getpid();
  for (size_t k = 0; k < set->segments; k++) {
    pid_t pid = fork();
    if (pid < 0) {
      fs_say("fork: %s", strerror(errno)); /* the children end with this process */
      return FS_EXIT_FAILED;
    }
    if (pid > 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    p.segment = &set->segment[k];
    _exit(getppid() == parent ? play_segment(&p) : FS_EXIT_FAILED);
  }
  for (int status; wait(&status) > 0;) died = died || status != 0;
  return show(&p, fs_now_ns() - p.begin_ns, died);
}
