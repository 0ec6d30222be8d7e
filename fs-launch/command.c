/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs COMMAND. If the first node is this host and --np is not given, COMMAND is a child of
 * fs-launch. Else a second mpirun starts `fs-launch --exec-node` on each host, which sets the
 * environment, because mpirun does not carry it over, and becomes COMMAND. The terminal and
 * standard input are COMMAND's. COMMAND dies with fs-launch. One thread.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

#define FS_REST_NS (FS_NS_PER_S / 2) /* time for what COMMAND left running to end by itself */

struct becoming {
  struct fs_launch_env env;
  char **command;
};

static int become_ctx(void *ctx) {
  const struct becoming *b = ctx;
  return fs_env_become(&b->env, b->command);
}

/* fs-launch --exec-node JOB LOCAL-DIR PEERS NETWORK WORD... -- COMMAND... */
int fs_exec_node(int argc, char **argv) {
  struct becoming b;
  char run[PATH_MAX];
  int i = 6;
  fs_env_none(&b.env);
  for (; i < argc && strcmp(argv[i], "--") != 0; i++) fs_env_take(&b.env, argv[i]);
  if (argc < 6 || i + 1 >= argc) {
    fs_say("--exec-node is for fs-launch's own use");
    return FS_EXIT_USAGE;
  }
  b.command = argv + i + 1;
  fs_run_prefer(argv[3]);
  fs_network_rank(argv[4], argv[5]);
  fs_mpirun_paths_back();
  if (fs_run_find(argv[2], run, sizeof(run)) < 0) {
    fs_say(FS_ENV_RUN_BASE " is too long");
    return FS_EXIT_FAILED;
  }
  int status = fs_env_set(&b.env, run, -1);
  return status != 0 ? status : fs_rank_run(become_ctx, &b);
}

static bool by_mpirun(const struct fs_launch *l) {
  return l->opt.np > 0 || !l->first_here;
}

static void wrap(const struct fs_launch *l, struct fs_words *w) {
  fs_mpirun_command(l, w);
  if (l->opt.np == 0 && l->where == FS_WHERE_HOSTS) {
    fs_words_add(w, "--host"); /* only the first host */
    fs_words_add(w, "%s", l->first_host);
  }
  fs_words_add(w, "%s", l->self);
  fs_words_add(w, "--exec-node");
  fs_words_add(w, "%s", l->job);
  fs_words_add(w, "%s", l->opt.local_dir ? l->local_dir : "");
  fs_words_add(w, "%s", l->opt.np > 0 && l->where != FS_WHERE_HERE && l->nodes > 1 ? l->peers : "");
  fs_words_add(w, "%s", l->opt.network ? l->opt.network : "");
  fs_env_words(&l->env, NULL, w);
  fs_words_add(w, "--");
  for (char **c = l->opt.command; *c; c++) fs_words_add(w, "%s", *c);
}

static void command_child(const struct fs_launch *l, pid_t parent) {
  struct fs_words w = {0};
  int status = FS_EXIT_FAILED;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(status);
  if (by_mpirun(l)) {
    wrap(l, &w);
    fs_events_restore(l);
    fs_mpirun_environment(l, false);
    fs_mpirun_paths(l);
    /* Closed descriptors are /dev/null here: mpirun would hang without them. */
    for (int fd = 0; fd < 3; fd++) fcntl(fd, F_SETFD, 0);
    fs_carriers_block();
    execv(w.word[0], w.word);
    fs_say("%s: %s", w.word[0], strerror(errno));
  } else {
    fs_events_restore(l);
    status = fs_env_set(&l->env, l->run, -1);
    if (status == 0) status = fs_env_become(&l->env, l->opt.command);
  }
  _exit(status);
}

void fs_command_begins(struct fs_launch *l) {
  l->begun = true;
  l->command_ns = fs_now_ns();
  l->began_ms = fs_clock_ns(CLOCK_REALTIME) / 1000000;
}

static int start_command(struct fs_launch *l) {
  pid_t self = getpid();
  fflush(NULL);
  fs_command_begins(l);
  if (!by_mpirun(l)) fs_group_begin();
  l->command = fork();
  if (l->command == 0) command_child(l, self);
  if (l->command > 0) {
    fs_guard_watch(l, l->command);
    return 0;
  }
  fs_say("fork: %s", strerror(errno));
  l->begun = false;
  return FS_EXIT_FAILED;
}

/* Ends what COMMAND left running, because its mount disappears. Helpers of a runtime
   (multiprocessing's resource tracker, for example) end by themselves a moment after their
   parent. */
static void end_rest(struct fs_launch *l) {
  uint64_t until = fs_now_ns() + FS_REST_NS;
  while (fs_now_ns() < until && l->signals_late == 0 && fs_job_signal(l->job, l->run, false, 0) > 0)
    fs_events_step(l, FS_MIN(until, fs_now_ns() + FS_NS_PER_S / 50));
  unsigned n = fs_job_end(l->job, l->run, false);
  if (n > 0)
    fs_warn(l, "%u process%s of COMMAND's still ran at its end and %s ended", n, n == 1 ? "" : "es",
            n == 1 ? "was" : "were");
}

void fs_command_signal(struct fs_launch *l, int sig, bool terminal) {
  int carrier = by_mpirun(l) ? fs_carrier(sig) : 0;
  if (carrier == 0) {
    /* If the terminal or the group sent the signal, COMMAND already has it. */
    if (!terminal && !fs_group_has(l->command, sig)) kill(l->command, sig);
    return;
  }
  if (fs_is_user_signal(sig)) {
    kill(l->command, carrier);
    return;
  }
  if (l->passed_on++ == 0) {
    l->passed_on_ns = fs_now_ns();
    fs_say("COMMAND's processes have %d s to end; a second interrupt ends them now",
           (int)(FS_COMMAND_GRACE_NS / FS_NS_PER_S));
  }
  kill(l->command, l->passed_on > 1 ? fs_carrier(SIGKILL) : carrier);
}

bool fs_command_interrupted(const struct fs_launch *l) {
  bool well = WIFEXITED(l->command_status) && WEXITSTATUS(l->command_status) == 0;
  return l->signal != 0 || WIFSIGNALED(l->command_status) || (l->interrupt != 0 && !well);
}

/* Returns COMMAND's exit status. If a signal ended it, mpirun's own status is only 1. */
static int exit_status(const struct fs_launch *l) {
  if (by_mpirun(l) && fs_command_interrupted(l) && (l->signal || l->interrupt))
    return 128 + (l->signal ? l->signal : l->interrupt);
  return WIFSIGNALED(l->command_status) ? 128 + WTERMSIG(l->command_status) : WEXITSTATUS(l->command_status);
}

/* Kills COMMAND when its time is over. mpirun is killed last, because it reaches the other hosts'
   processes. */
static void end_command(const struct fs_launch *l, bool first) {
  kill(l->command, by_mpirun(l) && first ? fs_carrier(SIGKILL) : SIGKILL);
}

int fs_command_run(struct fs_launch *l) {
  uint64_t signalled = 0, killed = 0;
  int status = start_command(l);
  if (status != 0) return status;
  l->command_running = true;
  while (!l->command_ended) {
    uint64_t now = fs_now_ns();
    if (signalled == 0) signalled = l->passed_on_ns ? l->passed_on_ns : l->signal ? now : 0;
    if (signalled != 0 && now - signalled > FS_COMMAND_GRACE_NS + killed * FS_NS_PER_S) end_command(l, killed++ == 0);
    fs_daemons_look(l);
    fs_events_step(l, now + FS_NS_PER_S);
  }
  l->command_running = false;
  fs_group_end();
  l->command_ns = fs_now_ns() - l->command_ns;
  fs_env_close(l->run);
  end_rest(l);
  return exit_status(l);
}
