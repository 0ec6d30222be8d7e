/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cleaning up on other hosts after daemons that died there: what they could not remove themselves is removed by
 * `fs-launch --end-job JOB`, run there by one more mpirun. Best effort, within a time limit: the host may be gone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

#define FS_REMOTE_NS (15 * FS_NS_PER_S)

/* "h2,h5": the hosts of the nodes that did not say goodbye. Their number. */
static uint32_t lost_hosts(const struct fs_launch *l, char *out, size_t size) {
  uint32_t lost = 0;
  size_t n = 0;
  for (uint32_t i = 0; i < l->nodes; i++) {
    const struct fs_launch_node *node = &l->node[i];
    if (!node->hello || node->bye || fs_host_is_here(node->host)) continue;
    if (n + strlen(node->host) + 2 > size) break;
    n += (size_t)snprintf(out + n, size - n, "%s%s", n > 0 ? "," : "", node->host);
    lost++;
  }
  return lost;
}

static void exec_end(const struct fs_launch *l, const struct fs_words *w) {
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  fs_events_restore(l);
  setsid();
  for (int i = 0; i < 3 && !(i == 2 && l->opt.verbose); i++) dup2(null, i);
  fs_mpirun_environment(l, true);
  unsetenv(FS_ENV_JOB); /* it is not to end itself */
  execv(w->word[0], w->word);
  _exit(127);
}

void fs_remote_end(struct fs_launch *l) {
  char hosts[8192];
  struct fs_words w = {0};
  uint32_t lost = l->where == FS_WHERE_HERE ? 0 : lost_hosts(l, hosts, sizeof(hosts));
  if (lost == 0) return;
  fs_mpirun_on(l, hosts, lost, &w);
  fs_words_add(&w, "%s", l->self);
  fs_words_add(&w, "--end-job");
  fs_words_add(&w, "%s", l->job);
  pid_t pid = fork();
  if (pid == 0) exec_end(l, &w);
  fs_words_free(&w);
  for (uint64_t until = fs_now_ns() + FS_REMOTE_NS; pid > 0 && waitpid(pid, NULL, WNOHANG) == 0;) {
    if (fs_now_ns() > until) {
      kill(-pid, SIGKILL);
      until = UINT64_MAX;
    }
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  }
}

int fs_end_job(int argc, char **argv) {
  char run[PATH_MAX];
  if (argc != 3 || strncmp(argv[2], "job-", 4) != 0 || strchr(argv[2], '/') ||
      fs_run_dir(argv[2], run, sizeof(run)) < 0) {
    fs_say("--end-job is for fs-launch's own use");
    return FS_EXIT_USAGE;
  }
  fs_job_end(argv[2], run, true);
  fs_run_remove(run);
  return 0;
}
