/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The only place where fs-launch waits: for signals (by a signalfd, so no handler runs), for its
 * children's ends, and for lines from the daemons and mpirun. Each wait in another file is a loop
 * over fs_events_step with a time limit.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

bool fs_is_user_signal(int sig) {
  return sig == SIGUSR1 || sig == SIGUSR2;
}

void fs_signals_leave(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGUSR2);
  sigprocmask(SIG_BLOCK, &set, NULL);
}

/*
 * Sets up signals. Under nohup SIGHUP stays ignored. An ignored SIGINT (a shell's background job)
 * is still received, because it may be meant for us alone. If it comes from the terminal it is
 * ignored, and COMMAND inherits it ignored.
 */
int fs_events_open(struct fs_launch *l) {
  static const int wanted[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD};
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < FS_ARRAY_LEN(wanted); i++) {
    struct sigaction sa = {.sa_handler = SIG_DFL};
    sigaction(wanted[i], NULL, &sa);
    bool ignored = sa.sa_handler == SIG_IGN && wanted[i] != SIGCHLD;
    if (ignored) l->ignored |= 1u << wanted[i];
    if (ignored && (wanted[i] == SIGHUP || fs_is_user_signal(wanted[i]))) continue;
    sigaddset(&set, wanted[i]);
    sigaction(wanted[i], &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
  }
  if (l->opt.daemon) sigaddset(&set, FS_SIGNAL_FINISH);
  sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
  sigprocmask(SIG_BLOCK, &set, &l->old_mask);
  l->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (l->signal_fd >= 0) return 0;
  fs_say("signalfd: %s", strerror(errno));
  return FS_EXIT_FAILED;
}

void fs_events_restore(const struct fs_launch *l) {
  sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
  for (int sig = 1; sig < 32; sig++)
    if (l->ignored & 1u << sig) sigaction(sig, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
  sigprocmask(SIG_SETMASK, &l->old_mask, NULL);
}

static void reap(struct fs_launch *l) {
  int status;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (pid == l->daemons) {
      l->daemons_ended = true;
      l->daemons_killed = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      l->daemons_status = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    }
    if (pid == l->guard) l->guard = 0;
    if (pid == l->command) {
      l->command_ended = true;
      l->command_status = status;
    }
  }
}

/*
 * Handles a signal. While COMMAND runs, COMMAND decides what a signal means. The terminal's signals
 * reach it without us, because it is in the same process group. A signal that was sent to us is
 * passed on.
 */
static void on_signal_of(struct fs_launch *l, const struct signalfd_siginfo *info) {
  int sig = (int)info->ssi_signo;
  bool ignored = (l->ignored & 1u << sig) != 0;
  bool from_terminal = info->ssi_code == SI_KERNEL && (sig == SIGINT || sig == SIGQUIT);
  if (sig == SIGCHLD) {
    reap(l);
  } else if (fs_is_user_signal(sig)) {
    if (l->command_running && !l->command_ended) fs_command_signal(l, sig, false);
    if (l->packs && l->begun && !l->daemons_ended) kill(l->daemons, sig); /* mpirun passes it on to the lead */
  } else if (from_terminal && (ignored || l->command_running)) {
    if (ignored || l->command_ended) return;
    l->interrupt = sig;
    fs_command_signal(l, sig, true);
  } else if (l->command_running && !l->command_ended) {
    fs_command_signal(l, ignored ? SIGTERM : sig, false);
    if (!l->signal && (sig == SIGTERM || sig == SIGHUP || ignored)) l->signal = sig;
    if (sig == SIGINT || sig == SIGQUIT) l->interrupt = sig;
  } else if (!l->stopping || l->starting) {
    if (l->command_ended) l->signals_late++;
    if (!l->signal) l->signal = sig;
  }
}

/* A signal of fs-launch stop; again and again if that is run again. */
static void on_stop(struct fs_launch *l) {
  l->stop_asked = true;
  if (l->starting && !l->signal) l->signal = SIGTERM;
}

static void on_signal(struct fs_launch *l, const struct signalfd_siginfo *info) {
  if ((int)info->ssi_signo == FS_SIGNAL_FINISH)
    on_stop(l);
  else
    on_signal_of(l, info);
}

static void read_signals(struct fs_launch *l) {
  struct signalfd_siginfo info;
  while (read(l->signal_fd, &info, sizeof(info)) == sizeof(info)) on_signal(l, &info);
}

void fs_events_step(struct fs_launch *l, uint64_t until_ns) {
  struct pollfd p[3] = {
      {.fd = l->signal_fd, .events = POLLIN}, {.fd = l->out.fd, .events = POLLIN}, {.fd = l->err.fd, .events = POLLIN}};
  fs_live_step(l);
  uint64_t now = fs_now_ns();
  uint64_t ms = until_ns > now ? (until_ns - now + 999999) / 1000000 : 0;
  if (poll(p, 3, (int)FS_MIN(ms, 1000u)) <= 0) return;
  if (p[0].revents) read_signals(l);
  if (p[2].revents && l->err.fd >= 0) fs_lines_read(l, &l->err, l->on_err ? l->on_err : fs_noise_line);
  if (p[1].revents && l->out.fd >= 0) fs_lines_read(l, &l->out, l->on_out ? l->on_out : fs_control_line_in);
}
