/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The processes of a job on this host, found in /proc by what only they have: FANSTORE_RUN in their environment, or the
 * job's name after --job (mpirun and the daemons) or --exec-node (the mpirun of COMMAND), or in FANSTORE_JOB (remote
 * shells of either mpirun). So also those are found that have left their parent's session or lost their parent. Only
 * this user's processes are looked at.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ipc/node.h"
#include "ipc/processes.h"
#include "util/util.h"

#define FS_PF_KTHREAD 0x200000u   /* in the flags of /proc/PID/stat: linux/sched.h */
#define FS_PROC_TEXT (256u << 10) /* of a command line or an environment; more is not looked at */

/* A file of /proc, whole, NUL-terminated. Its length, 0 on any error. */
static size_t proc_read(const char *pid, const char *what, char *buf) {
  char path[300];
  size_t n = 0;
  snprintf(path, sizeof(path), "/proc/%s/%s", pid, what);
  FS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
  while (fd >= 0 && n < FS_PROC_TEXT - 1) {
    ssize_t got = read(fd, buf + n, FS_PROC_TEXT - 1 - n);
    if (got <= 0) break;
    n += (size_t)got;
  }
  buf[n] = '\0';
  return n;
}

bool fs_process_alive(pid_t pid) {
  char path[64], byte;
  snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
  FS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
  return fd >= 0 && read(fd, &byte, 1) == 1;
}

/* Is `item` one of the NUL-terminated strings in buf, right after `before` (NULL: anywhere)? */
static bool proc_has(const char *buf, size_t n, const char *before, const char *item) {
  bool armed = !before;
  for (const char *p = buf; p < buf + n; p += strlen(p) + 1) {
    if (armed && strcmp(p, item) == 0) return true;
    if (before) armed = strcmp(p, before) == 0;
  }
  return false;
}

struct proc_wanted {
  const char *job;
  bool daemons;
  char run_item[PATH_MAX + 32], job_item[192]; /* of the environment */
};

/* In the middle of exec a process has no command line yet, nor an environment. */
static bool proc_is_between(const char *pid, char *buf) {
  char state;
  unsigned flags;
  const char *at = proc_read(pid, "stat", buf) > 0 ? strrchr(buf, ')') : NULL;
  if (!at || sscanf(at, ") %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2) return false;
  return state != 'Z' && state != 'X' && !(flags & FS_PF_KTHREAD);
}

static size_t proc_command(const char *pid, char *buf) {
  for (int i = 0;; i++) {
    size_t n = proc_read(pid, "cmdline", buf);
    if (n > 0 || i == 50 || !proc_is_between(pid, buf)) return n;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
}

static bool proc_is_ours(const char *pid, const struct proc_wanted *w, char *buf) {
  char path[300];
  struct stat st;
  snprintf(path, sizeof(path), "/proc/%s", pid);
  if (stat(path, &st) < 0 || st.st_uid != geteuid()) return false;
  size_t n = proc_command(pid, buf);
  if (n == 0) return false; /* a kernel thread or a zombie */
  if (proc_has(buf, n, "--exec-node", w->job)) return true;
  if (proc_has(buf, n, "--job", w->job)) return w->daemons;
  n = proc_read(pid, "environ", buf);
  return proc_has(buf, n, NULL, w->run_item) || (w->daemons && proc_has(buf, n, NULL, w->job_item));
}

unsigned fs_job_signal(const char *job, const char *run, bool daemons, int sig) {
  FS_AUTO_FREE char *buf = malloc(FS_PROC_TEXT);
  struct proc_wanted w = {.job = job, .daemons = daemons};
  unsigned n = 0;
  DIR *proc = opendir("/proc");
  snprintf(w.run_item, sizeof(w.run_item), FS_ENV_RUN "=%s", run);
  snprintf(w.job_item, sizeof(w.job_item), FS_ENV_JOB "=%s", job);
  for (const struct dirent *d; proc && buf && (d = readdir(proc)) != NULL;) {
    uint64_t pid;
    if (fs_parse_u64(d->d_name, 2, INT_MAX, &pid) < 0 || (pid_t)pid == getpid()) continue;
    if (!proc_is_ours(d->d_name, &w, buf)) continue;
    if (kill((pid_t)pid, sig) == 0) n++;
  }
  if (proc) closedir(proc);
  return n;
}

unsigned fs_job_end(const char *job, const char *run, bool daemons) {
  unsigned first = fs_job_signal(job, run, daemons, SIGTERM), left = first;
  for (int i = 0; left > 0 && i < 200; i++) {
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    left = fs_job_signal(job, run, daemons, i >= 50 ? SIGKILL : 0);
  }
  return first;
}
