/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads, signals and limits for the commands. fs_prep_parallel gives out indices from one atomic
 * counter. Its threads block signals, so that the main thread always gets them.
 */
#include <linux/openat2.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "prepare.h"

volatile sig_atomic_t fs_prep_signal;

static void on_signal(int sig) {
  if (fs_prep_signal == 0) fs_prep_signal = sig;
}

/* A page of a mapped file has no place on the disk, or cannot be read. Any thread. */
static void on_bus_error(int sig, siginfo_t *info, void *context) {
  static const char text[] =
      "fs-prepare: a mapped file cannot be read or written: the file system of DATASET or SOURCE is full or fails\n";
  (void)context;
  if (info->si_code != BUS_ADRERR) { /* of the hardware, or sent: it ends the process at the return */
    signal(sig, SIG_DFL);
    raise(sig);
    return;
  }
  if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(FS_EXIT_FAILED);
  _exit(FS_EXIT_FAILED);
}

void fs_prep_catch_signals(void) {
  struct sigaction bus = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
  sigemptyset(&bus.sa_mask);
  sigaction(SIGBUS, &bus, NULL);
  struct sigaction sa = {.sa_handler = on_signal};
  sigemptyset(&sa.sa_mask);
  sigaction(SIGINT, &sa, NULL);
  sigaction(SIGTERM, &sa, NULL);
  struct sigaction old;
  /* Under nohup SIGHUP stays ignored. */
  if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(SIGHUP, &sa, NULL);
  sa.sa_handler = SIG_IGN; /* a closed stderr must not leave the temporary directory behind */
  sigaction(SIGPIPE, &sa, NULL);
  sigaction(SIGXFSZ, &sa, NULL); /* the write reports it (ulimit -f) */
}

uint64_t fs_prep_open_files(uint64_t n) {
  struct rlimit lim;
  if (getrlimit(RLIMIT_NOFILE, &lim) < 0) return 256;
  if (lim.rlim_cur >= n) return lim.rlim_cur;
  rlim_t had = lim.rlim_cur;
  lim.rlim_cur = lim.rlim_max == RLIM_INFINITY ? n : FS_MIN(n, lim.rlim_max);
  /* If the limit stays too low, a later open fails and reports it. */
  return setrlimit(RLIMIT_NOFILE, &lim) == 0 ? lim.rlim_cur : had;
}

struct parallel {
  fs_prep_fn *fn;
  void *ctx;
  uint64_t n;
  _Atomic uint64_t next;
};

static void *parallel_thread(void *arg) {
  struct parallel *p = arg;
  for (uint64_t i; (i = atomic_fetch_add(&p->next, 1)) < p->n;) p->fn(p->ctx, i);
  return NULL;
}

bool fs_prep_thread(pthread_t *thread, void *(*fn)(void *), void *ctx) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  const bool made = pthread_create(thread, NULL, fn, ctx) == 0;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return made;
}

void fs_prep_parallel(unsigned jobs, uint64_t n, fs_prep_fn *fn, void *ctx) {
  struct parallel p = {.fn = fn, .ctx = ctx, .n = n};
  unsigned extra = (unsigned)FS_MIN(n, (uint64_t)jobs);
  extra = extra > 1 ? extra - 1 : 0;
  FS_AUTO_FREE pthread_t *threads = extra != 0 ? calloc(extra, sizeof *threads) : NULL;
  unsigned started = 0;
  while (threads != NULL && started < extra && fs_prep_thread(&threads[started], parallel_thread, &p)) started++;
  parallel_thread(&p);
  for (unsigned i = 0; i < started; i++) pthread_join(threads[i], NULL);
}

fs_err fs_prep_hash(int fd, uint64_t from, uint64_t end, uint64_t *xxh3) {
  const size_t piece = 1 << 20;
  FS_AUTO_FREE char *buf = malloc(piece);
  struct fs_xxh3_stream *hash = buf != NULL ? fs_xxh3_new() : NULL;
  fs_err err = hash != NULL ? 0 : -ENOMEM;
  for (uint64_t at = from; at < end && err == 0; at += piece) {
    const size_t k = (size_t)FS_MIN(end - at, (uint64_t)piece);
    err = fs_prep_signal != 0 ? -EINTR : fs_pread_full(fd, buf, k, at);
    if (err == 0) fs_xxh3_update(hash, buf, k);
  }
  if (err == 0) *xxh3 = fs_xxh3_digest(hash);
  fs_xxh3_free(hash);
  return err;
}

fs_fd fs_prep_open_beneath(int dirfd, const char *path, int flags, mode_t mode) {
  static _Atomic bool no_openat2;
  if (!atomic_load(&no_openat2)) {
    struct open_how how = {.flags = (uint64_t)flags | O_CLOEXEC | O_NOFOLLOW,
                           .mode = flags & O_CREAT ? mode & 07777u : 0,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    long fd = FS_SYS4(SYS_openat2, dirfd, path, &how, sizeof how);
    for (int tries = 0; fd == -EAGAIN && tries < 100; tries++) /* a rename raced with the check */
      fd = FS_SYS4(SYS_openat2, dirfd, path, &how, sizeof how);
    if (fd != -ENOSYS && fd != -EPERM && fd != -EAGAIN) return (fs_fd)fd;
    if (fd == -ENOSYS) atomic_store(&no_openat2, true);
  }
  return fs_sys_openat(dirfd, path, flags | O_CLOEXEC | O_NOFOLLOW, mode);
}
