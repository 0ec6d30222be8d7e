/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cleans up on other hosts after daemons that died there. `fs-launch --end-job JOB LOCAL-DIR
 * [keep]` removes what they could not remove themselves (with `keep`, outputs in their backing
 * files stay). It runs by one more mpirun for each host, because an mpirun with a dead host starts
 * nothing. Best effort, with a time limit.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

#define FS_REMOTE_NS (15 * FS_NS_PER_S) /* in total */
#define FS_REMOTE_AT_ONCE 16u

static void exec_end(const struct fs_launch *l, const struct fs_words *w) {
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  fs_events_restore(l);
  setsid();
  for (int i = 0; i < 3 && !(i == 2 && l->opt.verbose); i++) dup2(null, i);
  fs_mpirun_environment(l, true);
  unsetenv(FS_ENV_JOB); /* must not end itself */
  execv(w->word[0], w->word);
  _exit(127);
}

static pid_t start_end(const struct fs_launch *l, const char *host) {
  struct fs_words w = {0};
  fs_mpirun_on(l, host, 1, &w);
  fs_words_add(&w, "%s", l->self);
  fs_words_add(&w, "--end-job");
  fs_words_add(&w, "%s", l->job);
  fs_words_add(&w, "%s", l->local_dir);
  if (l->outputs.unsaved) fs_words_add(&w, "keep");
  pid_t pid = fork();
  if (pid == 0) exec_end(l, &w);
  fs_words_free(&w);
  return pid;
}

/* Waits until at most this many run. After the time limit they are killed. */
static void wait_ends(pid_t *pid, uint32_t *running, uint32_t most, uint64_t until) {
  while (*running > most) {
    bool late = fs_now_ns() > until;
    for (uint32_t i = 0; i < *running;) {
      /* The child may not have its own session yet. */
      if (late && kill(-pid[i], SIGKILL) < 0) kill(pid[i], SIGKILL);
      if (waitpid(pid[i], NULL, late ? 0 : WNOHANG) == 0)
        i++;
      else
        pid[i] = pid[--*running];
    }
    if (*running > most) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  }
}

void fs_remote_end(struct fs_launch *l) {
  pid_t pid[FS_REMOTE_AT_ONCE];
  uint32_t running = 0;
  uint64_t until = fs_now_ns() + FS_REMOTE_NS;
  for (uint32_t i = 0; l->where != FS_WHERE_HERE && i < l->nodes && fs_now_ns() < until; i++) {
    const struct fs_launch_node *node = &l->node[i];
    if (!node->begun || (node->bye && !node->left) || fs_host_is_here(node->host)) continue;
    pid_t started = start_end(l, node->host);
    if (started > 0) pid[running++] = started;
    wait_ends(pid, &running, FS_REMOTE_AT_ONCE - 1, until);
  }
  wait_ends(pid, &running, 0, until);
}

int fs_end_job(int argc, char **argv) {
  char run[PATH_MAX];
  if (argc >= 4) fs_run_prefer(argv[3]);
  if (argc < 4 || argc > 5 || strncmp(argv[2], "job-", 4) != 0 || strchr(argv[2], '/') ||
      fs_run_find(argv[2], run, sizeof(run)) < 0) {
    fs_say("--end-job is for fs-launch's own use");
    return FS_EXIT_USAGE;
  }
  fs_job_end(argv[2], run, true);
  fs_backing_files_remove(argv[3], true, argv[2], argc == 4);
  fs_fragments_remove(argv[3], true, true, false, false);
  fs_run_remove(run);
  return 0;
}
