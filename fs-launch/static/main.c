/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fanstore-static [--preload LIST] [--] COMMAND [ARG...]: runs COMMAND with the mounts of
 * FANSTORE_DATASET and FANSTORE_MOUNT, even if LD_PRELOAD does not reach it (docs/static.md). There
 * are three processes. This one, which the user waits for, passes signals on and ends like COMMAND.
 * Its child is the supervisor. The supervisor's child is COMMAND. One thread.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/node.h"
#include "supervise.h"
#include "util/util.h"

enum { O_PRELOAD = 1, O_HELP, O_VERSION };

static const struct fs_opt options[] = {
    {"preload", 0, "LIST", "LD_PRELOAD of COMMAND (default: that of this process)", O_PRELOAD},
    {"help", 'h', NULL, "show this help", O_HELP},
    {"version", 0, NULL, "show the version", O_VERSION},
};

static fs_err on_option(void *ctx, int id, const char *value) {
  struct fs_static *s = ctx;
  if (id == O_PRELOAD) s->preload = value;
  if (id == O_PRELOAD) return 0;
  if (id == O_VERSION) printf("fanstore-static (FanStore) %s\n", FS_VERSION);
  if (id == O_HELP) {
    printf(
        "usage: fanstore-static [options] [--] COMMAND [ARG...]\n\n"
        "Runs COMMAND with the datasets of FANSTORE_DATASET at the paths of FANSTORE_MOUNT, also if it is a static or\n"
        "a Go program: its system calls on paths below a mount are answered by a supervisor. fs-launch --static\n"
        "uses it. Not served: 32-bit programs, io_uring (refused), file handles; set-user-ID bits have no effect.\n\n"
        "Options:\n");
    fs_opt_help(stdout, options, FS_ARRAY_LEN(options));
    printf(
        "\nThe exit status is COMMAND's own; 125 when the supervisor could not start, 126 and 127 when COMMAND is not\n"
        "executable or not found, 2 for a wrong command line.\n");
  }
  exit(fflush(stdout) == 0 ? 0 : FS_STATIC_FAILED);
}

/* Removes the library from this process's own environment: it is for COMMAND only. */
static void drop_preload(int argc, char **argv) {
  const char *list = getenv("LD_PRELOAD");
  if (list == NULL || list[0] == '\0') return;
  char **words = calloc((size_t)argc + 3, sizeof(*words));
  char *copy = strdup(list);
  if (words == NULL || copy == NULL) return;
  words[0] = argv[0];
  words[1] = "--preload";
  words[2] = copy;
  memcpy(words + 3, argv + 1, (size_t)argc * sizeof(*words));
  unsetenv("LD_PRELOAD");
  if (getenv(FS_ENV_AS_IS) == NULL) setenv(FS_ENV_AS_IS, FS_STATIC_AS_IS, 1); /* else this program gets it back */
  execv("/proc/self/exe", words);
  free(words);
  free(copy);
}

/* Opens /dev/null on closed standard descriptors, so that ours do not get their numbers. COMMAND
   has them closed again. */
static void hold_standard(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", O_RDWR | O_CLOEXEC);
}

/* Kills all that a dead supervisor leaves: their calls would fail with ENOSYS from now on. */
static void end_children(void) {
  char path[64], text[4096];
  snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
  for (int i = 0; i < 100 && waitpid(-1, NULL, WNOHANG) >= 0; i++) {
    FS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    text[FS_MAX(n, 0)] = '\0';
    char *p = text;
    for (long pid; (pid = strtol(p, &p, 10)) > 0;) kill((pid_t)pid, SIGKILL);
    usleep(10000);
  }
}

/* Passes on signals that were sent to us. The terminal's signals reach COMMAND without us. */
static void pass_on(int signals, pid_t command) {
  struct signalfd_siginfo info;
  while (read(signals, &info, sizeof(info)) == sizeof(info))
    if (command > 0 && info.ssi_signo != SIGCHLD && info.ssi_code != SI_KERNEL) kill(command, (int)info.ssi_signo);
}

static int as_command(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  sigset_t set;
  int sig = WTERMSIG(status);
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}); /* a core dump is COMMAND's */
  signal(sig, SIG_DFL);
  sigemptyset(&set);
  sigaddset(&set, sig);
  sigprocmask(SIG_UNBLOCK, &set, NULL);
  raise(sig);
  return 128 + sig;
}

static int supervisor_ended(pid_t supervisor, pid_t command) {
  int status = 0;
  waitpid(supervisor, &status, 0);
  if (command == 0) return WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : FS_STATIC_FAILED;
  dprintf(STDERR_FILENO, "fanstore-static: the supervisor died; COMMAND is ended\n");
  kill(command, SIGKILL);
  end_children();
  return FS_STATIC_FAILED;
}

static int front(int from, int signals, pid_t supervisor) {
  pid_t command = 0;
  for (;;) {
    struct fs_static_message m;
    struct pollfd p[2] = {{.fd = from, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    if (poll(p, 2, -1) < 0) continue;
    if (p[1].revents) pass_on(signals, command);
    if (!p[0].revents) continue;
    if (recv(from, &m, sizeof(m), 0) != (ssize_t)sizeof(m)) return supervisor_ended(supervisor, command);
    if (m.what == FS_STATIC_STARTED) {
      command = m.value;
      continue;
    }
    if (m.what == FS_STATIC_ENDED) waitpid(supervisor, NULL, 0);
    return as_command(m.value);
  }
}

static int run(struct fs_static *s) {
  static const int passed[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD};
  sigset_t set;
  int pair[2];
  sigemptyset(&set);
  for (size_t i = 0; i < FS_ARRAY_LEN(passed); i++) sigaddset(&set, passed[i]);
  sigprocmask(SIG_BLOCK, &set, &s->old_mask);
  s->old_child = signal(SIGCHLD, SIG_DFL); /* a process that ignores it cannot wait */
  int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    perror("fanstore-static");
    return FS_STATIC_FAILED;
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  pid_t supervisor = fork();
  if (supervisor == 0) {
    close(pair[0]);
    close(signals);
    s->front = pair[1];
    int status = fs_supervise(s);
    fs_data_leave();
    _exit(status);
  }
  close(pair[1]);
  if (supervisor < 0) {
    perror("fanstore-static: fork");
    return FS_STATIC_FAILED;
  }
  fs_static_let_go();
  return front(pair[0], signals, supervisor);
}

int main(int argc, char **argv) {
  static struct fs_static s;
  drop_preload(argc, argv);
  hold_standard();
  int next = fs_opt_parse("fanstore-static", options, FS_ARRAY_LEN(options), argc, argv, 1, true, on_option, &s);
  if (next < 0) return 2;
  if (next >= argc) {
    fprintf(stderr, "fanstore-static: COMMAND is missing (see fanstore-static --help)\n");
    return 2;
  }
  s.command = argv + next;
  if (fs_mount_count() == 0)
    fprintf(stderr, "fanstore-static: FANSTORE_DATASET names no dataset: nothing is mounted\n");
  return run(&s);
}
