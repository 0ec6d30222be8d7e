/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch --rsh READY AGENT ARG...: runs between the daemons' mpirun and one of its remote
 * shells. If a shell fails, mpirun thinks that the host could not be started, and ends all others.
 * That is right until the daemons serve, which the file READY shows. Later the host died or the
 * connection broke, which is no reason to end the others.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

#define FS_READY "ready"

static bool ready_path(const struct fs_launch *l, char *out, size_t size) {
  int n = snprintf(out, size, "%s/" FS_READY, l->run);
  return l->run[0] != '\0' && n > 0 && (size_t)n < size;
}

void fs_rsh_ready(const struct fs_launch *l) {
  char path[PATH_MAX];
  if (!ready_path(l, path, sizeof(path))) return;
  int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd >= 0) close(fd);
}

/* Returns true for one word: mpirun splits the agent at blanks, and at colons into alternatives. */
static bool one_word(const char *text) {
  return text[0] != '\0' && strpbrk(text, " \t\n:") == NULL;
}

bool fs_rsh_agent(const struct fs_launch *l, const char *agent, struct fs_words *w) {
  char ready[PATH_MAX];
  if (!ready_path(l, ready, sizeof(ready)) || !one_word(ready) || !one_word(l->self) || strchr(agent, ':'))
    return false;
  fs_words_all(w, l->mpi->agent);
  fs_words_add(w, "%s --rsh %s %s", l->self, ready, agent);
  return true;
}

int fs_rsh(int argc, char **argv) {
  int status = 0;
  if (argc < 4) return FS_EXIT_USAGE;
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    execvp(argv[3], argv + 3);
    fprintf(stderr, "%s: %s\n", argv[3], strerror(errno));
    _exit(127);
  }
  if (pid < 0) return FS_EXIT_FAILED;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (access(argv[2], F_OK) == 0) return 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
