/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch stop: asks the background process of a job to end, shows its messages until it has
 * ended, and returns its status (docs/internals/attach.md). One thread.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launch.h"

#define FS_STOP_POLL_MS 50
#define FS_STOP_SILENT_NS (300 * FS_NS_PER_S) /* fs-launch tells of its progress once a minute */

struct stopping {
  const struct fs_job *job;
  int process, log, lock; /* the background process, its log, launch.lock */
  uint64_t heard_ns;
};

static int open_in(const struct fs_job *job, const char *name, int flags) {
  char path[PATH_MAX + 16];
  snprintf(path, sizeof(path), "%s/%s", job->run, name);
  return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | flags);
}

/* Returns true if the job is one of --daemon. The file that its launch.log leads to may be gone. */
static bool has_log(const struct fs_job *job) {
  char path[PATH_MAX + 16];
  struct stat st;
  snprintf(path, sizeof(path), "%s/launch.log", job->run);
  return lstat(path, &st) == 0 || errno != ENOENT;
}

static int refuse(const struct fs_job *job, bool foreground) {
  if (foreground)
    fs_say("%s runs a COMMAND: end that, or send a signal to its fs-launch, process %d", job->name, (int)job->launcher);
  else
    fs_say("%s: its fs-launch is not on this host: stop it on the host where it was started", job->name);
  return FS_EXIT_USAGE;
}

/* Programs of the job are ended, and this process is one if it inherited the job's environment. */
static bool is_inside(const struct fs_job *job) {
  const char *run = getenv(FS_ENV_RUN);
  struct stat mine, its;
  return run && stat(run, &mine) == 0 && stat(job->run, &its) == 0 && mine.st_dev == its.st_dev &&
         mine.st_ino == its.st_ino;
}

/* Copies what is new in the log to stderr. */
static void show(struct stopping *s) {
  char text[4096];
  for (ssize_t n; (n = read(s->log, text, sizeof(text))) > 0;) {
    (void)fs_write_full(STDERR_FILENO, text, (size_t)n);
    s->heard_ns = fs_now_ns();
  }
}

/* Waits for the end of the background process. Returns the status that it left, or 125. */
static int follow(struct stopping *s) {
  struct pollfd p = {.fd = s->process, .events = POLLIN};
  char text[32] = "", *lost = NULL;
  uint64_t status, lines;
  s->heard_ns = fs_now_ns();
  while (poll(&p, 1, FS_STOP_POLL_MS) <= 0) {
    show(s);
    if (fs_now_ns() - s->heard_ns < FS_STOP_SILENT_NS) continue;
    fs_say("%s: no word from its fs-launch, process %d, for %d s: it ends later, or is stopped", s->job->name,
           (int)s->job->launcher, (int)(FS_STOP_SILENT_NS / FS_NS_PER_S));
    return FS_EXIT_FAILED;
  }
  show(s);
  if (pread(s->lock, text, sizeof(text) - 1, 0) > 0) lost = strchr(text, '\n');
  if (lost) {
    *lost++ = '\0';
    lost[strcspn(lost, "\n")] = '\0';
  }
  if (lost && fs_parse_u64(lost, 1, UINT32_MAX, &lines) == 0)
    fs_say("%s: %llu of its messages are missing, because its log could not be written", s->job->name,
           (unsigned long long)lines);
  if (fs_parse_u64(text, 0, 255, &status) == 0) return (int)status;
  fs_say("%s: its fs-launch was killed while the job ended: fs-launch clean tells if outputs are left", s->job->name);
  return FS_EXIT_FAILED;
}

/* Signals the process only if it still holds the lock of the job: so its pid is not another's. */
static int ask(struct stopping *s) {
  struct fs_job now;
  int status = fs_jobs_find(s->job->run, &now);
  if (status != 0) return status;
  if (now.launcher == s->job->launcher && syscall(SYS_pidfd_send_signal, s->process, FS_SIGNAL_FINISH, NULL, 0) == 0)
    return follow(s);
  fs_say("%s: it has just ended", s->job->name);
  return FS_EXIT_FAILED;
}

int fs_stop(int argc, char **argv) {
  struct fs_join j = {.node = -1};
  int status = fs_options_parse_stop(&j, argc, argv);
  if (status >= 0) return status;
  if ((status = fs_jobs_find(j.word, &j.job)) != 0) return status;
  if (j.job.launcher <= 0) return refuse(&j.job, false);
  FS_AUTO_CLOSE int process = (int)syscall(SYS_pidfd_open, j.job.launcher, 0);
  FS_AUTO_CLOSE int log = open_in(&j.job, "launch.log", 0), lock = open_in(&j.job, "launch.lock", O_NOFOLLOW);
  if (process >= 0 && lock >= 0 && !has_log(&j.job)) return refuse(&j.job, true);
  if (is_inside(&j.job)) {
    fs_say("%s: stop it from a shell that has not joined it", j.job.name);
    return FS_EXIT_USAGE;
  }
  if (process < 0 || lock < 0) {
    fs_say("%s: it has just ended", j.job.name);
    return FS_EXIT_FAILED;
  }
  if (log < 0) fs_say("%s: its log is gone, and so are the messages of its end", j.job.name);
  if (log >= 0) (void)lseek(log, 0, SEEK_END);
  return ask(&(struct stopping){.job = &j.job, .process = process, .log = log, .lock = lock});
}
