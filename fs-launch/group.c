/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds out if a signal was sent to the whole process group. Then COMMAND, which is in the group of
 * fs-launch, has received the signal, and fs-launch must not pass it on. The kernel does not tell.
 * So a child in the same group listens and only records which signals it gets. The child holds no
 * descriptors and dies with fs-launch. It has another name, so that `pkill fs-launch` does not look
 * like a signal for the group. Without the listener every signal is passed on.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

#define FS_GROUP_SIGNALS 32
/* The members of a group get a signal one after another. */
#define FS_GROUP_WAIT_NS (FS_NS_PER_S / 20)
#define FS_GROUP_SAME_NS                                                                                               \
  (FS_NS_PER_S / 5) /* timeout(1), for example, sends a signal to fs-launch first, then to the group */

struct group_heard {
  _Atomic uint64_t ns[FS_GROUP_SIGNALS]; /* time of the last signal */
};

static struct group_heard *heard;
static pid_t listener;

static void listen_on(pid_t parent) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "group-listener");
  /* Other programs see this name. */
  memset(program_invocation_name, 'x', strlen(program_invocation_name));
  fs_sys_close_range(0, ~0u);
  while (getppid() == parent) {
    int sig = sigwaitinfo(&all, NULL);
    if (sig > 0 && sig < FS_GROUP_SIGNALS) atomic_store(&heard->ns[sig], fs_now_ns());
  }
  _exit(0);
}

void fs_group_begin(void) {
  pid_t self = getpid();
  if (!heard) {
    void *p = mmap(NULL, sizeof(*heard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return;
    heard = p;
  }
  listener = fork();
  if (listener == 0) listen_on(self);
}

void fs_group_end(void) {
  /* If the listener has ended, its pid may be another process's. */
  if (listener > 0 && waitpid(listener, NULL, WNOHANG) == 0) {
    kill(listener, SIGKILL);
    waitpid(listener, NULL, 0);
  }
  listener = 0;
}

/* Returns true if the listener has a signal that it has not recorded yet. */
static bool is_pending(int sig) {
  char path[64], line[128];
  unsigned long long pending = 0, found;
  snprintf(path, sizeof(path), "/proc/%d/status", (int)listener);
  FILE *f = fopen(path, "re");
  while (f && fgets(line, sizeof(line), f))
    if (sscanf(line, "SigPnd: %llx", &found) == 1 || sscanf(line, "ShdPnd: %llx", &found) == 1) pending |= found;
  if (f) fclose(f);
  return (pending >> (sig - 1) & 1) != 0;
}

bool fs_group_has(pid_t member, int sig) {
  uint64_t start = fs_now_ns();
  if (listener <= 0 || sig < 1 || sig >= FS_GROUP_SIGNALS || getpgid(member) != getpgrp()) return false;
  for (;;) {
    uint64_t ns = atomic_load(&heard->ns[sig]), now = fs_now_ns();
    if ((ns != 0 && (ns > start || start - ns < FS_GROUP_SAME_NS)) || is_pending(sig)) return true;
    if (now - start > FS_GROUP_WAIT_NS) return false;
    usleep(2000);
  }
}
