/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The guard: a child in its own session that waits for the end of fs-launch. After a normal end it
 * is dismissed. If fs-launch was killed, its end of the pipe closes. Then the guard ends COMMAND's
 * processes and lets the daemons end by themselves, because their input ends too. After some
 * seconds it kills them, and removes the run directory.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

#define FS_GUARD_WAIT_MS 6000

/* Closes everything except the pipe: what fs-launch held must close with it, above all its
   locks. */
static void guard_let_go(int fd) {
  int null = open("/dev/null", O_RDWR);
  for (int i = 0; i < 3; i++) dup2(null, i);
  if (fd != 3) dup3(fd, 3, O_CLOEXEC);
  fs_sys_close_range(4, ~0u);
}

static void guard_wait(pid_t pid, int ms) {
  if (pid <= 0) return;
  FS_AUTO_CLOSE int fd = (int)syscall(SYS_pidfd_open, pid, 0);
  struct pollfd p = {.fd = fd, .events = POLLIN};
  if (fd >= 0) poll(&p, 1, ms);
}

/* Ignores signals: Slurm sends a job's signals to each of its processes, and the guard acts only at
   the end. */
static void guard_signals(void) {
  static const int passed_over[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
  for (size_t i = 0; i < FS_ARRAY_LEN(passed_over); i++)
    sigaction(passed_over[i], &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
}

static void guard_main(const struct fs_launch *l, int fd) {
  pid_t pid[2] = {0, 0}, word;
  setsid();
  prctl(PR_SET_NAME, "fs-launch-guard");
  guard_let_go(fd);
  for (ssize_t n; (n = read(3, &word, sizeof(word))) != 0;) {
    if (n < 0 && errno != EINTR) break;
    if (n != sizeof(word)) continue;
    if (word < 0) _exit(0);
    pid[pid[0] ? 1 : 0] = word;
  }
  fs_job_end(l->job, l->run, false);
  guard_wait(pid[0], FS_GUARD_WAIT_MS);
  fs_job_end(l->job, l->run, true);
  fs_backing_files_remove(l->local_dir, !l->opt.local_dir, l->job, false);
  fs_fragments_remove(l->local_dir, !l->opt.local_dir, true, false, false);
  for (int i = 0; i < 2; i++) fs_session_remove(pid[i]);
  fs_run_remove(l->run);
  _exit(0);
}

int fs_guard_start(struct fs_launch *l) {
  int pipe_fd[2];
  if (pipe2(pipe_fd, O_CLOEXEC) < 0) {
    fs_say("pipe: %s", strerror(errno));
    return FS_EXIT_FAILED;
  }
  l->guard = fork();
  if (l->guard == 0) {
    fs_events_restore(l);
    guard_signals();
    close(pipe_fd[1]);
    if (chdir("/") < 0) _exit(1);
    guard_main(l, pipe_fd[0]);
  }
  close(pipe_fd[0]);
  l->guard_fd = pipe_fd[1];
  if (l->guard > 0) return 0;
  fs_say("fork: %s", strerror(errno));
  return FS_EXIT_FAILED;
}

void fs_guard_watch(struct fs_launch *l, pid_t pid) {
  if (l->guard_fd >= 0) fs_write_full(l->guard_fd, &pid, sizeof(pid));
}

void fs_guard_dismiss(struct fs_launch *l) {
  if (l->guard_fd < 0) return;
  fs_guard_watch(l, -1);
  close(l->guard_fd);
  l->guard_fd = -1;
  if (l->guard > 0) kill(l->guard, SIGKILL); /* it may be stopped, and has nothing left to do */
  if (l->guard > 0) waitpid(l->guard, NULL, 0);
  l->guard = 0;
}
