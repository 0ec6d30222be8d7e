/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The supervisor. It is COMMAND's parent, so it may look into COMMAND and its descendants, even if
 * the kernel allows that only to ancestors. Descendants that lose their parent become its children.
 * It answers until the last process under the filter has ended, also after COMMAND's end. It has
 * left the terminal's process group, because an interrupt is for COMMAND. If it dies, COMMAND is
 * killed.
 */
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/real/program.h"
#include "ipc/node.h"
#include "supervise.h"

static void say(const char *format, const char *what, const char *why) {
  dprintf(STDERR_FILENO, "fanstore-static: ");
  dprintf(STDERR_FILENO, format, what, why);
  dprintf(STDERR_FILENO, "\n");
}

/* ---- COMMAND ---- */

/* Sends the listener, or the error if there is none. */
static void send_listener(int to, fs_fd fd) {
  char room[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = {0};
  struct iovec v = {&fd, sizeof(fd)};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
  if (fd >= 0) {
    m.msg_control = room;
    m.msg_controllen = sizeof(room);
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    *h = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(h), &fd, sizeof(fd));
  }
  if (sendmsg(to, &m, MSG_NOSIGNAL) < 0) _exit(FS_STATIC_FAILED);
}

static fs_fd receive_listener(int from) {
  char room[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = {0};
  fs_fd fd = -EPIPE;
  struct iovec v = {&fd, sizeof(fd)};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
  if (recvmsg(from, &m, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof(fd)) return -EPIPE;
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  if (fd >= 0 && (h == NULL || h->cmsg_type != SCM_RIGHTS)) return -EPIPE;
  if (fd >= 0) memcpy(&fd, CMSG_DATA(h), sizeof(fd));
  return fd;
}

/* musl's dynamic linker ends a program at a library of glibc's. */
static bool is_musl(const char *command) {
  char path[PATH_MAX];
  return fs_program_loads(AT_FDCWD, fs_program_find(command, path), NULL) == FS_LOADS_ENDS;
}

/* Becomes COMMAND in a child process. */
static void become(const struct fs_static *s, int to) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGCHLD, s->old_child);
  sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
  fs_fd fd = fs_filter_install();
  send_listener(to, fd);
  if (fd < 0) _exit(FS_STATIC_FAILED);
  const char *as_is = getenv(FS_ENV_AS_IS);
  if (as_is != NULL && strcmp(as_is, FS_STATIC_AS_IS) == 0) unsetenv(FS_ENV_AS_IS);
  if (s->preload != NULL && !is_musl(s->command[0]) && setenv("LD_PRELOAD", s->preload, 1) != 0)
    _exit(FS_STATIC_FAILED);
  execvp(s->command[0], s->command);
  bool missing = errno == ENOENT || errno == ENOTDIR;
  say("%s: %s", s->command[0], missing ? "command not found" : strerror(errno));
  _exit(missing ? FS_STATIC_NOT_FOUND : FS_STATIC_NOT_EXECUTABLE);
}

static void tell_unavailable(fs_err err) {
  const char *why = err == -EBUSY    ? "a supervisor is at work already; one cannot run below another"
                    : err == -EACCES ? "not allowed here"
                                     : strerror(-err);
  say("seccomp user notification is not to be had: %s%s", why,
      err == -ENOSYS || err == -EINVAL ? " (it needs Linux 5.9)" : "");
}

/* ---- the supervisor ---- */

/* Our own descriptors are closed on exec. The inherited ones are not, which distinguishes them. */
void fs_static_let_go(void) {
  FS_AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  DIR *dir = opendir("/proc/self/fd");
  for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;) {
    int fd = atoi(d->d_name);
    if (fd > STDERR_FILENO && fcntl(fd, F_GETFD) == 0) close(fd);
  }
  if (dir != NULL) closedir(dir);
  if (null < 0) return;
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
}

/* Leaves the terminal's process group: its signals are for COMMAND. */
static void leave_terminal(void) {
  struct rlimit limit;
  fs_static_let_go();
  setsid();
  umask(0);
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

static bool all_gone(int listener) {
  struct pollfd p = {.fd = listener};
  return poll(&p, 1, 0) > 0 && (p.revents & POLLHUP);
}

static void report(int to, enum fs_static_news what, int value) {
  struct fs_static_message m = {what, value};
  (void)send(to, &m, sizeof(m), MSG_NOSIGNAL);
}

/* Waits for children that have ended. Returns false if a thread traces one and must not be
   disturbed. */
static bool reap(struct fs_static *s, pid_t command, int listener) {
  int status;
  if (pthread_mutex_trylock(&fs_tracing) != 0) return false;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG | __WNOTHREAD)) > 0;) {
    if (pid != command || s->ended) continue;
    s->ended = true;
    report(s->front, all_gone(listener) ? FS_STATIC_ENDED : FS_STATIC_ENDED_ALONE, status);
    FS_AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) dup2(null, STDERR_FILENO);
  }
  pthread_mutex_unlock(&fs_tracing);
  return true;
}

/* Kills COMMAND if the process in front has ended: a user who kills that process means COMMAND. */
static void on_front(struct fs_static *s, pid_t command) {
  char byte;
  if (recv(s->front, &byte, 1, MSG_DONTWAIT) != 0) return;
  if (!s->ended) kill(command, SIGKILL);
  close(s->front);
  s->front = -1;
}

static void supervise(struct fs_static *s, pid_t command, int listener) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  int signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  for (bool reaped = true;;) {
    struct signalfd_siginfo info;
    struct pollfd p[3] = {{.fd = listener}, {.fd = signals, .events = POLLIN}, {.fd = s->front, .events = POLLIN}};
    if (poll(p, 3, reaped ? 1000 : 2) < 0 && errno != EINTR) return;
    while (read(signals, &info, sizeof(info)) == sizeof(info)) {
    }
    reaped = reap(s, command, listener);
    if (p[2].revents) on_front(s, command);
    if (s->ended && all_gone(listener)) return;
  }
}

int fs_supervise(struct fs_static *s) {
  int pair[2];
  sigset_t all;
  sigfillset(&all);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return FS_STATIC_FAILED;
  pid_t command = fork();
  if (command == 0) become(s, pair[1]);
  sigprocmask(SIG_SETMASK, &all, NULL);
  close(pair[1]);
  fs_fd listener = command < 0 ? -errno : receive_listener(pair[0]);
  close(pair[0]);
  if (listener < 0) {
    tell_unavailable(listener);
    if (command > 0) waitpid(command, NULL, 0);
    return FS_STATIC_FAILED;
  }
  leave_terminal();
  listener = fs_data_adopt_fd(listener);
  report(s->front, FS_STATIC_STARTED, command);
  fs_err err = listener < 0 ? listener : fs_loop_start(listener);
  if (err != 0) {
    say("cannot start: %s%s", strerror(-err), "");
    kill(command, SIGKILL);
    return FS_STATIC_FAILED;
  }
  supervise(s, command, listener);
  return 0;
}
