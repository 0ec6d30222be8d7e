/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a call to a daemon costs: limit_call COUNT CLIENTS [DIRECTORY]. Each client posts a number in memory that it
 * shares with the daemon, and waits for the answer: it yields its processor for up to 50 microseconds, then sleeps.
 * The daemon looks for posts, yields its processor for 250 microseconds after the last one, and then sleeps; a client
 * that finds it asleep rings an eventfd. Nothing else is done. With DIRECTORY, each client then makes COUNT files of 4
 * KiB there, with one call for each between write and close, and removes them, with one call before each unlink: what
 * making and removing files cannot go below if another process is asked for each. Prints a JSON object of thousands a
 * second, of all clients together: calls, and with DIRECTORY also made, removed, and made_alone and removed_alone,
 * which make no call.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

enum { CLIENTS = 64, BYTES = 4096, MOST_SECONDS = 120, LOOK_NS = 50000, YIELD_NS = 250000, NAP_NS = 1000000 };
enum { CALLS, MADE_ALONE, REMOVED_ALONE, MADE, REMOVED, PHASES };

static struct shared {
  _Alignas(64) atomic_uint asleep; /* the daemon waits for the doorbell */
  _Alignas(64) atomic_uint ready[PHASES + 1];
  struct client {
    _Alignas(64) atomic_uint posted; /* by the client: how many calls */
    _Alignas(64) atomic_uint done;   /* by the daemon: how many were answered */
    atomic_uint asleep;              /* the client is to be woken */
    uint64_t begin[PHASES], end[PHASES];
  } client[CLIENTS];
} * shared;

static unsigned count, clients;
static const char *directory;
static int doorbell;

static void call(struct client *c) {
  unsigned number = atomic_fetch_add(&c->posted, 1) + 1;
  uint64_t one = 1;
  if (atomic_load(&shared->asleep) && write(doorbell, &one, sizeof(one)) < 0) die("doorbell");
  uint64_t until = now() + LOOK_NS;
  while (atomic_load(&c->done) != number && now() < until) sched_yield();
  for (;;) {
    unsigned done = atomic_load(&c->done);
    if (done == number) return;
    atomic_store(&c->asleep, 1);
    syscall(SYS_futex, &c->done, FUTEX_WAIT, done, NULL, NULL, 0);
  }
}

static void make(struct client *c, const char *path, bool calls) {
  static const char bytes[BYTES];
  struct stat st;
  int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0644);
  if (fd < 0 || fstat(fd, &st) != 0) die(path); /* a name's record has mode and time */
  if (calls) call(c);
  if (write(fd, bytes, sizeof(bytes)) != sizeof(bytes) || close(fd) != 0) die(path);
}

static void step(struct client *c, int phase, unsigned i) {
  char path[4096];
  snprintf(path, sizeof(path), "%s/%d.%u", directory, (int)(c - shared->client), i);
  if (phase == CALLS || phase == REMOVED) call(c);
  if (phase == MADE || phase == MADE_ALONE) make(c, path, phase == MADE);
  if ((phase == REMOVED || phase == REMOVED_ALONE) && unlink(path) != 0) die(path);
}

/* All clients begin each phase together. */
static void client(struct client *c) {
  for (int phase = 0; phase < (directory ? PHASES : CALLS + 1); phase++) {
    atomic_fetch_add(&shared->ready[phase], 1);
    while (atomic_load(&shared->ready[phase]) < clients) sched_yield();
    c->begin[phase] = now();
    for (unsigned i = 0; i < count; i++) step(c, phase, i);
    c->end[phase] = now();
  }
}

static bool answer_all(void) {
  bool any = false;
  for (unsigned i = 0; i < clients; i++) {
    struct client *c = &shared->client[i];
    unsigned posted = atomic_load(&c->posted);
    if (posted == atomic_load(&c->done)) continue;
    atomic_store(&c->done, posted);
    if (atomic_exchange(&c->asleep, 0)) syscall(SYS_futex, &c->done, FUTEX_WAKE, 1, NULL, NULL, 0);
    any = true;
  }
  return any;
}

static void nap(void) {
  struct pollfd p = {.fd = doorbell, .events = POLLIN};
  const struct timespec most = {.tv_nsec = NAP_NS};
  uint64_t sink;
  atomic_store(&shared->asleep, 1);
  if (!answer_all() && ppoll(&p, 1, &most, NULL) > 0 && read(doorbell, &sink, sizeof(sink)) < 0) die("doorbell");
  atomic_store(&shared->asleep, 0);
}

static void daemon_main(void) {
  uint64_t last = now();
  for (;;) {
    if (answer_all())
      last = now();
    else if (now() - last < YIELD_NS)
      sched_yield();
    else
      nap();
  }
}

static pid_t start(int number) {
  pid_t parent = getpid(), child = fork();
  if (child != 0) return child;
  alarm(MOST_SECONDS);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  if (number < 0)
    daemon_main();
  else
    client(&shared->client[number]);
  _exit(0);
}

static double thousands(int phase) {
  uint64_t begin = UINT64_MAX, end = 0;
  for (unsigned i = 0; i < clients; i++) {
    const struct client *c = &shared->client[i];
    begin = c->begin[phase] < begin ? c->begin[phase] : begin;
    end = c->end[phase] > end ? c->end[phase] : end;
  }
  return (double)count * clients * 1e6 / (double)(end - begin);
}

int main(int argc, char **argv) {
  int status, failed = 0;
  if (argc == 3 || argc == 4) count = (unsigned)atoi(argv[1]), clients = (unsigned)atoi(argv[2]);
  directory = argc == 4 ? argv[3] : NULL;
  if (count < 1 || count > 1 << 20 || clients < 1 || clients > CLIENTS) {
    fprintf(stderr, "usage: limit_call COUNT CLIENTS [DIRECTORY]\n");
    return 2;
  }
  shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (shared == MAP_FAILED || doorbell < 0) die("memory");
  pid_t daemon = start(-1);
  for (unsigned i = 0; i < clients; i++) failed |= start((int)i) < 0;
  for (unsigned i = 0; i < clients && !failed; i++) failed |= wait(&status) < 0 || status != 0;
  kill(daemon, SIGKILL);
  if (failed) return 1;
  printf("{\"calls\": %.1f", thousands(CALLS));
  if (directory)
    printf(", \"made\": %.1f, \"removed\": %.1f, \"made_alone\": %.1f, \"removed_alone\": %.1f", thousands(MADE),
           thousands(REMOVED), thousands(MADE_ALONE), thousands(REMOVED_ALONE));
  printf("}\n");
  return 0;
}
