/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process between mpirun and a process of COMMAND. mpirun itself turns each signal into
 * SIGTERM, and kills a second later. So mpirun is started with these signals blocked, and fs-launch
 * makes it forward other signals in their place, the carriers (FS_CARRIER). This process, which is
 * COMMAND's parent and in its process group, turns them back. mpirun ends all processes when one
 * has failed. So after such a signal this process delays its own end until the others have ended;
 * if others are on other hosts, until their time is over.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

#define FS_RANK_POLL_NS (FS_NS_PER_S / 50)

static const int carried[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGKILL, SIGUSR1, SIGUSR2};

int fs_carrier(int sig) {
  for (size_t i = 0; i < FS_ARRAY_LEN(carried); i++)
    if (carried[i] == sig) return SIGRTMAX - 1 - (int)i;
  return 0;
}

static int carried_by(int carrier) {
  for (size_t i = 0; i < FS_ARRAY_LEN(carried); i++)
    if (fs_carrier(carried[i]) == carrier) return carried[i];
  return 0;
}

void fs_carriers_text(char *out, size_t size) {
  size_t n = 0;
  for (size_t i = 0; i < FS_ARRAY_LEN(carried) && n < size; i++)
    n += (size_t)snprintf(out + n, size - n, "%s%d", i > 0 ? "," : "", fs_carrier(carried[i]));
}

void fs_carriers_block(void) {
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < FS_ARRAY_LEN(carried); i++)
    if (carried[i] != SIGKILL) sigaddset(&set, carried[i]);
  sigprocmask(SIG_BLOCK, &set, NULL);
}

struct rank {
  pid_t child;
  int lock; /* the run directory, locked shared while the child runs; -1: none */
  int status;
  uint64_t told_ns; /* when the last signal was passed on */
  sigset_t set;
};

/* Blocks signals for the group, which are the child's. This process receives only the carriers. */
static void rank_signals(struct rank *r) {
  sigemptyset(&r->set);
  sigaddset(&r->set, SIGCHLD);
  for (size_t i = 0; i < FS_ARRAY_LEN(carried); i++) sigaddset(&r->set, fs_carrier(carried[i]));
  sigprocmask(SIG_BLOCK, &r->set, NULL);
}

/* Restores the signals in the child, except that the carriers, which the whole group gets, do
   nothing. */
static void child_signals(const struct rank *r) {
  for (size_t i = 0; i < FS_ARRAY_LEN(carried); i++)
    sigaction(fs_carrier(carried[i]), &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
  sigprocmask(SIG_UNBLOCK, &r->set, NULL);
}

static void own_signals(void) {
  for (int sig = 1; sig < SIGRTMIN; sig++)
    if (sig != SIGCHLD && sig != SIGKILL && sig != SIGSTOP)
      sigaction(sig, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
}

/* Passes a signal on. A COMMAND like timeout or setsid has its own group. */
static void rank_pass(const struct rank *r, int sig) {
  pid_t group = getpgid(r->child);
  if (group > 0 && group != getpgrp()) kill(-group, sig);
  kill(0, sig);
}

static bool rank_step(struct rank *r) {
  struct timespec wait = {.tv_nsec = (long)FS_RANK_POLL_NS * 10};
  int sig = sigtimedwait(&r->set, NULL, &wait), real = carried_by(sig);
  if (real != 0) {
    if (r->told_ns == 0 && !fs_is_user_signal(real)) r->told_ns = fs_now_ns();
    rank_pass(r, real);
  }
  return waitpid(r->child, &r->status, WNOHANG) == r->child;
}

/* Returns true if other processes of this host still run. */
static bool others_run(const struct rank *r) {
  bool alone = r->lock < 0 || flock(r->lock, LOCK_EX | LOCK_NB) == 0;
  if (r->lock >= 0) flock(r->lock, LOCK_UN);
  return !alone;
}

static bool on_one_host(void) {
  const char *all = getenv("OMPI_COMM_WORLD_SIZE"), *here = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  return all && here && strcmp(all, here) == 0;
}

/* Waits for the others after a failure. mpirun leaves them alone as long as none has failed. */
static void rank_hold(struct rank *r) {
  bool well = WIFEXITED(r->status) && WEXITSTATUS(r->status) == 0, here = on_one_host();
  uint64_t until = r->told_ns + FS_COMMAND_GRACE_NS;
  if (r->lock >= 0) flock(r->lock, LOCK_UN);
  while (r->told_ns != 0 && fs_now_ns() < until && (here ? others_run(r) : !well)) {
    struct timespec wait = {.tv_nsec = (long)FS_RANK_POLL_NS};
    if (carried_by(sigtimedwait(&r->set, NULL, &wait)) == SIGKILL) return;
  }
}

/* Ends in the same way as the child. */
static int rank_end(const struct rank *r) {
  int sig = WIFSIGNALED(r->status) ? WTERMSIG(r->status) : 0;
  if (sig == 0) return WEXITSTATUS(r->status);
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  sigaction(sig, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
  raise(sig);
  return 128 + sig;
}

int fs_rank_run(int (*become)(void *ctx), void *ctx) {
  struct rank r = {.lock = -1};
  const char *run = getenv(FS_ENV_RUN);
  pid_t self = getpid();
  if (run) r.lock = open(run, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (r.lock >= 0) flock(r.lock, LOCK_SH | LOCK_NB);
  rank_signals(&r);
  r.child = fork();
  if (r.child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != self) _exit(FS_EXIT_FAILED);
    child_signals(&r);
    _exit(become(ctx));
  }
  if (r.child < 0) {
    fs_say("fork: %s", strerror(errno));
    return FS_EXIT_FAILED;
  }
  own_signals();
  for (int i = 0; i < 2; i++) close(i); /* their readers must see the child's end */
  while (!rank_step(&r)) continue;
  rank_hold(&r);
  return rank_end(&r);
}
