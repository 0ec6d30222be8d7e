/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch --daemon: a job without COMMAND, in a process of its own session
 * (docs/internals/attach.md). The process that the user started waits until the job is ready, and
 * prints its name. The background process goes on in main.c, and serves here until it is asked to
 * end. One thread in each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

#define FS_PROGRAMS_NS (10 * FS_NS_PER_S) /* for programs that still run when the job ends */

static const int passed_on[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
static volatile pid_t background;

/* ---- the process that the user started ---- */

/* The background process ignores SIGHUP. */
static void pass_on(int sig) {
  kill(background, sig == SIGHUP ? SIGTERM : sig);
}

static void catch_signals(void) {
  for (size_t i = 0; i < FS_ARRAY_LEN(passed_on); i++) {
    struct sigaction old;
    if (sigaction(passed_on[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
      sigaction(passed_on[i], &(struct sigaction){.sa_handler = pass_on}, NULL);
  }
}

/* Reads until the other end closes. Returns true if the job's name came, with its newline. */
static bool read_name(int fd, char *name, size_t size) {
  size_t n = 0;
  for (ssize_t got; n < size - 1;) {
    got = read(fd, name + n, size - 1 - n);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    n += (size_t)got;
  }
  name[n] = '\0';
  return n > 0 && name[n - 1] == '\n';
}

/* Waits until the job is ready or has failed. The background process bounds this wait. */
static int wait_ready(int fd) {
  char name[sizeof(((struct fs_launch *)0)->job) + 2];
  int status;
  if (read_name(fd, name, sizeof(name))) {
    fputs(name, stdout);
    if (fflush(stdout) == 0) return 0;
    fs_say("stdout: %s; the job runs, and its name is %s", strerror(errno), name);
    return FS_EXIT_FAILED;
  }
  while (waitpid(background, &status, 0) < 0)
    if (errno != EINTR) return FS_EXIT_FAILED;
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  fs_say("fs-launch's background process died of signal %d while the job started", WTERMSIG(status));
  return FS_EXIT_FAILED;
}

/* ---- the background process ---- */

/* The caller may have joined another job, whose end ends the programs with its name in their
   environment. The kernel shows the bytes there, also of a variable that was removed. */
static void leave_other_job(void) {
  static const char *const marks[] = {FS_ENV_RUN, FS_ENV_JOB};
  for (size_t i = 0; i < FS_ARRAY_LEN(marks); i++) {
    char *value = getenv(marks[i]);
    if (value) memset(value, 'x', strlen(value));
    unsetenv(marks[i]);
  }
}

static void become_background(struct fs_launch *l, int ready) {
  FS_AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  setsid();
  leave_other_job();
  sigaction(SIGHUP, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  l->ready_fd = ready;
}

/* A pipe or a terminal is refused: writing to it could wait without end, and stop could not read it. */
static int open_log(struct fs_launch *l) {
  if (!l->opt.log) return 0;
  struct stat st;
  l->log_fd = open(l->opt.log, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
  bool other = l->log_fd >= 0 ? fstat(l->log_fd, &st) == 0 && !S_ISREG(st.st_mode) : errno == ENXIO;
  if (l->log_fd >= 0 && !other && realpath(l->opt.log, l->log)) return 0;
  if (other)
    fs_say("--log %s: not a file", l->opt.log);
  else
    fs_say("--log %s: %s", l->opt.log, strerror(errno));
  return FS_EXIT_FAILED;
}

int fs_background_begin(struct fs_launch *l) {
  int ready[2], status = open_log(l);
  sigset_t set, old;
  if (status != 0) return status;
  sigemptyset(&set);
  for (size_t i = 0; i < FS_ARRAY_LEN(passed_on); i++) sigaddset(&set, passed_on[i]);
  sigprocmask(SIG_BLOCK, &set, &old);
  background = pipe2(ready, O_CLOEXEC) < 0 ? -1 : fork();
  if (background < 0) {
    fs_say("--daemon: %s", strerror(errno));
    return FS_EXIT_FAILED;
  }
  if (background > 0) catch_signals();
  if (background == 0) become_background(l, ready[1]);
  sigprocmask(SIG_SETMASK, &old, NULL);
  close(ready[background > 0 ? 1 : 0]);
  return background == 0 ? -1 : wait_ready(ready[0]);
}

int fs_background_log(struct fs_launch *l) {
  char path[PATH_MAX + 16];
  snprintf(path, sizeof(path), "%s/launch.log", l->run);
  if (l->log_fd >= 0 && symlink(l->log, path) == 0) return 0;
  if (l->log_fd < 0) {
    l->log_fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    snprintf(l->log, sizeof(l->log), "%.*s", (int)sizeof(l->log) - 1, path);
    if (l->log_fd >= 0) return 0;
  }
  fs_say("%s: %s", path, strerror(errno));
  return FS_EXIT_FAILED;
}

/* Begins the log with the job's name. If even that fails, as the disk is full, the user hears of it now: nothing else
   reaches the terminal later. */
static void begin_log(const struct fs_launch *l) {
  char line[sizeof(l->job) + 64];
  int n = snprintf(line, sizeof(line), "fs-launch: %s is ready\n", l->job);
  fs_err err = fs_write_full(l->log_fd, line, (size_t)n);
  if (err < 0) fs_say("%s: %s: messages are lost until there is room", l->log, strerror(-err));
}

/* Tells the user that the job is ready. Returns false if nobody listens any more. */
static bool tell_ready(struct fs_launch *l) {
  char name[sizeof(l->job) + 2];
  int n = snprintf(name, sizeof(name), "%s\n", l->job);
  fs_say("the job is ready on %u node%s; end it by fs-launch stop %s; messages from now on: %s", l->nodes,
         l->nodes == 1 ? "" : "s", l->job, l->log);
  begin_log(l);
  signal(SIGXFSZ, SIG_IGN); /* a log that may not grow loses messages, and does not end the job */
  fs_say_to(l->log_fd);
  bool heard = fs_write_full(l->ready_fd, name, (size_t)n) == 0;
  close(l->ready_fd);
  l->ready_fd = -1;
  return heard;
}

/* Ends the programs of this host that are left, because their mount disappears. */
static void end_programs(struct fs_launch *l) {
  uint64_t until = fs_now_ns() + FS_PROGRAMS_NS;
  unsigned n = fs_job_signal(l->job, l->run, false, SIGTERM);
  if (n == 0) return;
  fs_say("%u program%s of the job still run%s on this host: %d s for %s to end", n, n == 1 ? "" : "s",
         n == 1 ? "s" : "", (int)(FS_PROGRAMS_NS / FS_NS_PER_S), n == 1 ? "it" : "them");
  while (fs_now_ns() < until && l->signals_late == 0 && fs_job_signal(l->job, l->run, false, 0) > 0)
    fs_events_step(l, FS_MIN(until, fs_now_ns() + FS_NS_PER_S / 10));
  (void)fs_job_end(l->job, l->run, false);
  fs_warn(l, "%u program%s of the job still ran at its end and %s ended", n, n == 1 ? "" : "s",
          n == 1 ? "was" : "were");
}

int fs_background_serve(struct fs_launch *l) {
  if (!tell_ready(l)) return FS_EXIT_FAILED;
  fs_command_begins(l);
  while (!l->signal && !l->stop_asked) {
    fs_daemons_look(l);
    fs_events_step(l, fs_now_ns() + FS_NS_PER_S);
  }
  l->command_ended = true; /* a signal from now on asks to hurry */
  l->signal = 0;
  l->command_ns = fs_now_ns() - l->command_ns;
  fs_env_close(l->run);
  end_programs(l);
  return 0;
}

void fs_background_end(const struct fs_launch *l, int status) {
  char text[32];
  int n = snprintf(text, sizeof(text), "%d\n%u\n", status, fs_say_lost());
  if (l->opt.daemon && l->run_lock >= 0) (void)fs_pwrite_full(l->run_lock, text, (size_t)n, 0);
}
