/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs COMMAND. If the first node is this host and --np is not given, COMMAND is a child of
 * fs-launch. Else a second mpirun starts `fs-launch --exec-node` on each host, which sets the
 * environment, because mpirun does not carry it over, and becomes COMMAND. The terminal and
 * standard input are COMMAND's. COMMAND dies with fs-launch. One thread.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

#define FS_REST_NS (FS_NS_PER_S / 2) /* time for what COMMAND left running to end by itself */
#define FS_WINDOW (64ull << 20)      /* of --prefetch torch: some hundred files, 50 ms of a fast link */
#define FS_LISTS (FS_MAX_DATASETS * PATH_MAX)

struct fs_launch_env {
  const char *job, *datasets, *mounts, *library, *emulate, *read_only, *verify;
  const char *supervisor; /* program that runs COMMAND; empty: none */
  const char *as_is;      /* "1": FANSTORE_ENV_AS_IS is set */
  const char *io_uring;   /* FANSTORE_IO_URING; empty: unchanged */
  const char *python;     /* directory for PYTHONPATH; empty: none */
  const char *ahead;      /* FANSTORE_PREFETCH_BYTES, if there is such a directory */
};

/* Puts a path first in the list of an environment variable and keeps the others. */
static int put_first(const char *variable, const char *path) {
  const char *old = getenv(variable);
  FS_AUTO_FREE char *text = NULL;
  if (!old || old[0] == '\0') return setenv(variable, path, 1);
  if (strstr(old, path)) return 0;
  if (asprintf(&text, "%s:%s", path, old) < 0) return -1;
  return setenv(variable, text, 1);
}

/* Marks the nodes with a daemon on this host, by their files in the run directory: the socket, or
   what the daemon left. Returns their number. */
static unsigned nodes_here(const char *run, bool here[FS_MAX_NODES]) {
  unsigned found = 0;
  DIR *d = opendir(run);
  for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
    char number[16], kind[6];
    uint64_t node;
    if (sscanf(e->d_name, "node-%15[0-9].%5[a-z]", number, kind) != 2) continue;
    if (strcmp(kind, "sock") != 0 && strcmp(kind, "ctl") != 0) continue;
    if (fs_parse_u64(number, 0, FS_MAX_NODES - 1, &node) < 0 || here[node]) continue;
    here[node] = true;
    found++;
  }
  if (d) closedir(d);
  return found;
}

/*
 * Sets the node of this process. With emulated nodes the process's rank decides. Else a host has
 * one daemon and so one socket. A test bed may have several (slurmd can); then the processes are
 * spread over them by rank.
 */
static int set_node(const char *run) {
  bool here[FS_MAX_NODES] = {false};
  unsigned found = nodes_here(run, here), node = 0;
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  uint64_t skip = 0;
  char text[32];
  if (found == 0) {
    fs_say("%s: no daemon of this job is on this host, or this process sees other files than its daemon does", run);
    return FS_EXIT_FAILED;
  }
  if (rank && fs_parse_u64(rank, 0, UINT32_MAX, &skip) == 0) skip %= found;
  while (!here[node] || skip > 0) skip -= here[node++];
  snprintf(text, sizeof(text), "%u", node);
  return setenv(FS_ENV_NODE, text, 1);
}

/* Sets the environment that the preloaded library reads. Returns 0 or the exit status. */
static int environment(const struct fs_launch_env *e) {
  char run[PATH_MAX];
  bool emulated = e->emulate[0] != '\0';
  if (fs_run_find(e->job, run, sizeof(run)) < 0) {
    fs_say(FS_ENV_RUN_BASE " is too long");
    return FS_EXIT_FAILED;
  }
  fs_slurm_export(); /* for an srun in COMMAND */
  unsetenv(FS_ENV_STATE);
  unsetenv(FS_ENV_JOB);
  if (!emulated || getenv(FS_ENV_RUN)) unsetenv(FS_ENV_NODE); /* from a job around this one */
  int err = setenv(FS_ENV_DATASET, e->datasets, 1) | setenv(FS_ENV_MOUNT, e->mounts, 1) | setenv(FS_ENV_RUN, run, 1);
  err |= emulated ? setenv(FS_ENV_EMULATE, e->emulate, 1) : unsetenv(FS_ENV_EMULATE);
  err |= e->read_only[0] == '1' ? setenv(FS_ENV_READ_ONLY, "1", 1) : unsetenv(FS_ENV_READ_ONLY);
  /* HDF5 locks what it has open, and other nodes must be able to read it. */
  if (e->read_only[0] != '1') err |= setenv("HDF5_USE_FILE_LOCKING", "FALSE", 0);
  err |= e->as_is[0] == '1' ? setenv(FS_ENV_AS_IS, "1", 1) : unsetenv(FS_ENV_AS_IS);
  if (e->io_uring[0] != '\0') err |= setenv(FS_ENV_IO_URING, e->io_uring, 1);
  err |= setenv(FS_ENV_VERIFY, e->verify, 1);
  err |= put_first("LD_PRELOAD", e->library);
  if (e->python[0] != '\0') err |= put_first("PYTHONPATH", e->python) | setenv(FS_ENV_PREFETCH_BYTES, e->ahead, 1);
  if (err != 0) {
    fs_say("environment: %s", strerror(errno));
    return FS_EXIT_FAILED;
  }
  return emulated ? 0 : set_node(run);
}

/* Becomes the supervisor, which runs COMMAND. */
static void become_supervised(const char *supervisor, char **command) {
  size_t n = 0;
  while (command[n]) n++;
  char **words = calloc(n + 3, sizeof(*words));
  if (!words) return;
  words[0] = (char *)supervisor;
  words[1] = (char *)"--";
  memcpy(words + 2, command, n * sizeof(*words));
  execv(supervisor, words);
  free(words);
}

/* Becomes COMMAND. Returns only if that fails, with the exit status. */
static int become(const struct fs_launch_env *e, char **command) {
  if (e->supervisor[0] != '\0') {
    become_supervised(e->supervisor, command);
    fs_say("%s: %s", e->supervisor, strerror(errno));
    return FS_EXIT_FAILED;
  }
  execvp(command[0], command);
  int err = errno;
  if (err == ENOENT || err == ENOTDIR) {
    fs_say("%s: command not found", command[0]);
    return FS_EXIT_NOT_FOUND;
  }
  fs_say("%s: %s", command[0], strerror(err));
  return FS_EXIT_NOT_EXECUTABLE;
}

struct becoming {
  struct fs_launch_env env;
  char **command;
};

static int become_ctx(void *ctx) {
  const struct becoming *b = ctx;
  return become(&b->env, b->command);
}

int fs_exec_node(int argc, char **argv) {
  if (argc < 17 || strcmp(argv[15], "--") != 0) {
    fs_say("--exec-node is for fs-launch's own use");
    return FS_EXIT_USAGE;
  }
  struct fs_launch_env e = {.job = argv[2],
                            .datasets = argv[3],
                            .mounts = argv[4],
                            .library = argv[5],
                            .emulate = argv[6],
                            .read_only = argv[7],
                            .verify = argv[8],
                            .supervisor = argv[9],
                            .as_is = argv[10],
                            .io_uring = argv[11],
                            .python = argv[12],
                            .ahead = argv[13]};
  fs_run_prefer(argv[14]);
  fs_mpirun_paths_back();
  int status = environment(&e);
  struct becoming b = {.env = e, .command = argv + 16};
  return status != 0 ? status : fs_rank_run(become_ctx, &b);
}

static bool by_mpirun(const struct fs_launch *l) {
  return l->opt.np > 0 || !l->first_here;
}

static void wrap(const struct fs_launch *l, const struct fs_launch_env *e, struct fs_words *w) {
  fs_mpirun_command(l, w);
  if (l->opt.np == 0 && l->where == FS_WHERE_HOSTS) {
    fs_words_add(w, "--host"); /* only the first host */
    fs_words_add(w, "%s", l->first_host);
  }
  const char *local = l->opt.local_dir ? l->local_dir : "";
  const char *const words[] = {l->self,    "--exec-node", e->job,    e->datasets,   e->mounts, e->library,
                               e->emulate, e->read_only,  e->verify, e->supervisor, e->as_is,  e->io_uring,
                               e->python,  e->ahead,      local,     "--"};
  for (size_t i = 0; i < FS_ARRAY_LEN(words); i++) fs_words_add(w, "%s", words[i]);
  for (char **c = l->opt.command; *c; c++) fs_words_add(w, "%s", *c);
}

static void command_child(const struct fs_launch *l, const struct fs_launch_env *e, pid_t parent) {
  struct fs_words w = {0};
  int status = FS_EXIT_FAILED;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(status);
  if (by_mpirun(l)) {
    wrap(l, e, &w);
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
    status = environment(e);
    if (status == 0) status = become(e, l->opt.command);
  }
  _exit(status);
}

static fs_err lists(const struct fs_launch *l, char *datasets, char *mounts) {
  for (unsigned i = 0; i < l->opt.datasets; i++) {
    fs_err err = fs_list_append(datasets, FS_LISTS, l->dataset[i].path);
    if (err == 0) err = fs_list_append(mounts, FS_LISTS, l->dataset[i].mount);
    if (err < 0) return err;
  }
  return 0;
}

/* Returns how many bytes the programs of a node may have fetched ahead: blocks that nobody has read
   yet must not push each other out of the cache. */
static uint64_t window(const struct fs_launch *l) {
  return l->opt.cache > 0 ? FS_MIN(l->opt.cache / 4, FS_WINDOW) : FS_WINDOW;
}

static int start_command(struct fs_launch *l) {
  FS_AUTO_FREE char *datasets = calloc(1, FS_LISTS);
  FS_AUTO_FREE char *mounts = calloc(1, FS_LISTS);
  char emulate[24] = "", ahead[24] = "";
  const char *ring = getenv(FS_ENV_IO_URING);
  if (!datasets || !mounts || lists(l, datasets, mounts) < 0) {
    fs_say("the datasets' names are too long");
    return FS_EXIT_FAILED;
  }
  if (l->opt.emulate > 1) snprintf(emulate, sizeof(emulate), "%u", l->nodes);
  snprintf(ahead, sizeof(ahead), "%llu", (unsigned long long)window(l));
  struct fs_launch_env e = {.job = l->job,
                            .datasets = datasets,
                            .mounts = mounts,
                            .library = l->library,
                            .emulate = emulate,
                            .read_only = l->opt.read_only ? "1" : "0",
                            .verify = l->opt.verify,
                            .supervisor = l->supervisor,
                            .as_is = l->opt.env_as_is ? "1" : "0",
                            .io_uring = l->opt.no_io_uring ? "0"
                                        : ring             ? ring
                                                           : "",
                            .python = l->python,
                            .ahead = ahead};
  pid_t self = getpid();
  fflush(NULL);
  l->command_ns = fs_now_ns();
  if (!by_mpirun(l)) fs_group_begin();
  l->command = fork();
  if (l->command == 0) command_child(l, &e, self);
  if (l->command > 0) {
    fs_guard_watch(l, l->command);
    return 0;
  }
  fs_say("fork: %s", strerror(errno));
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
  end_rest(l);
  return exit_status(l);
}
