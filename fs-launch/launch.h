/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch: what its files share. main.c has the order of the steps; each file is one step. There
 * is one process with one thread and one poll loop (events.c). A forked guard (guard.c) cleans up
 * if this process is killed. Unless noted, a function returns 0, or the exit status after it told
 * the user the reason in one line (fs_say).
 */
#ifndef FS_LAUNCH_LAUNCH_H
#define FS_LAUNCH_LAUNCH_H

#include <limits.h>
#include <signal.h>

#include "figures.h"
#include "format/manifest.h"
#include "index/index.h"
#include "ipc/control.h"
#include "ipc/layout.h"
#include "ipc/node.h"
#include "ipc/processes.h"
#include "ipc/rundir.h"
#include "live.h"
#include "mpi.h"
#include "placement.h"
#include "sample.h"
#include "util/network.h"
#include "util/say.h"
#include "util/sys.h"
#include "util/util.h"
#include "waits.h"

#define FS_EXIT_USAGE 2
#define FS_EXIT_FAILED 125         /* FanStore itself could not start */
#define FS_EXIT_NOT_EXECUTABLE 126 /* COMMAND is not executable (as in env(1)) */
#define FS_EXIT_NOT_FOUND 127
#define FS_PLACE_NOT_ALL 3 /* fs-prepare place: some partitions stay on shared storage */
/* Carry PATH and LD_LIBRARY_PATH past an mpirun to COMMAND. */
#define FS_ENV_PATH "FANSTORE_PATH"
#define FS_ENV_LIBRARY_PATH "FANSTORE_LIBRARY_PATH"
#define FS_LAUNCH_WARNINGS 32

struct fs_launch_options {
  struct {
    const char *path, *mount;
  } dataset[FS_MAX_DATASETS];
  unsigned datasets;
  const char *local_dir, *hosts, *hostfile, *report, *to, *stage_out, *stage_in, *verify, *local_io, *cache_disk, *log,
      *network;
  uint64_t emulate, np, replicas, cache, output_limit, output_replicas, start_timeout, deadline_ms,
      stats; /* 0: not given */
  const char *node_local[FS_NODE_LOCALS];
  unsigned node_locals;
  bool node_local_given; /* else the default patterns apply */
  bool read_only, overlay, verbose, purge, keep, discard, outputs, staged, doctor, supervised, env_as_is, no_io_uring,
      prefetch_torch, prefetch_idle, daemon, place; /* place: by fs-prepare place, without COMMAND */
  uint64_t given;                                   /* bits of the options with one value that were given */
  char **command;                                   /* NULL-terminated; NULL with --daemon */
  char **words;                                     /* the words before COMMAND, without fs-launch's name, */
  int nwords;                                       /* of so many */
};

struct fs_launch_dataset {
  char path[PATH_MAX];  /* absolute */
  char mount[PATH_MAX]; /* absolute, normalised */
  struct fs_manifest manifest;
  struct fs_index index;
  uint64_t first;  /* number of its first partition among all of the job */
  unsigned lost;   /* partitions that could not be staged as placed */
  bool only_nodes; /* as fs_part_only_nodes */
};

struct fs_launch_node {
  char host[256], network[FS_NETWORK_LIST]; /* the interface and address that it uses */
  pid_t pid;
  uint64_t free, have;                       /* have: bit d is set when dataset d was reported */
  bool begun, hello, ready, bye, dead, told; /* told: the user was told that it died */
  bool placed;                               /* it has the placement */
  bool left;                                 /* its run directory is not empty after its bye */
  bool failed;                               /* it has reported why it cannot start */
  int killed;                                /* the signal that ended it, from mpirun */
  uint64_t stage_done, stage_total, staged, reused, passed;
  uint64_t local, memory, cached; /* bytes of partitions and of memory; percentage read through the
                                     page cache */
  uint64_t dead_ns;               /* when `dead` was set */
  bool inherited;                 /* another node has taken over its outputs */
  bool finished;                  /* it has reported its outputs: */
  bool gone_known;                /* and all outputs of nodes that are gone */
  uint64_t outputs_gone, gone_nodes;
  uint64_t outputs, output_bytes, outputs_failed, outputs_lost, outputs_staged;
  uint64_t output_dirs, output_links;
  uint64_t out_done, out_total; /* bytes of --stage-out */
  bool staged_in;               /* it has reported --stage-in: */
  uint64_t in_files, in_bytes, in_dataset, in_odd;
  struct fs_sample_values stats; /* the line `stats`; none: n is 0 */
  struct fs_sample_history history;
  struct fs_waits waits;
  struct fs_served served; /* what the others had from it */
};

/* A program's output, cut into lines. */
struct fs_launch_lines {
  int fd;
  size_t len;
  char text[2 * FS_CONTROL_LINE];
  bool skip; /* skipping a line that is too long */
  /* of each rank, the line that is not whole yet; and that of the last piece's rank, or NULL */
  struct fs_launch_held *held, *piece_of;
};

struct fs_launch;
typedef void fs_line_fn(struct fs_launch *l, const char *line, size_t n);

struct fs_launch_noise {
  char text[256];
  unsigned block; /* odd: it is in a block between two lines of dashes */
};

/* What COMMAND wrote below the mounts. */
struct fs_launch_outputs {
  uint64_t files, bytes, failed, lost, staged, dirs, links;
  uint64_t gone;       /* files lost with their nodes */
  bool missing;        /* files to keep or copy are, or may be, on a node that is gone */
  bool any;            /* a daemon has reported an output, or files were staged in */
  bool unsaved;        /* some may be neither saved nor dropped: they stay in the backing
                          directories */
  char kept[PATH_MAX]; /* directory of the kept outputs */
  struct fs_launch_output {
    uint32_t rank;
    uint64_t size;
    char *name, *why; /* why it was not copied, or NULL */
  } * output;         /* named files */
  size_t named, room;
  struct fs_launch_output *gone_output; /* named files of nodes that are gone */
  size_t gone_named, gone_room;
  struct fs_launch_failure { /* a `failed` line of ipc/control.h */
    uint32_t rank;
    uint64_t failed, unkept, lost, others; /* others: directories and symlinks among the failed */
    char why[128];
  } * failure;
  size_t failures;
};

/* The environment of a job's programs: words NAME=VALUE (environment.c). */
enum {
  FS_WORD_DATASET,
  FS_WORD_MOUNT,
  FS_WORD_EMULATE,
  FS_WORD_READ_ONLY,
  FS_WORD_VERIFY,
  FS_WORD_AS_IS,
  FS_WORD_IO_URING,
  FS_WORD_AHEAD,
  FS_WORD_LIBRARY,    /* libfanstore.so */
  FS_WORD_SUPERVISOR, /* program that runs COMMAND; empty: none */
  FS_WORD_PYTHON,     /* directory for PYTHONPATH; empty: none */
  FS_WORD_STAGE_IN,   /* for containers: programs open its files */
  FS_WORD_LOCAL_DIR,  /* this and the next: only in node-K.env */
  FS_WORD_RUN,        /* the run directory, as the daemon spells it */
  FS_WORDS
};
struct fs_launch_env {
  const char *value[FS_WORDS]; /* empty: not set */
};

struct fs_launch {
  struct fs_launch_options opt;
  struct fs_launch_dataset *dataset; /* opt.datasets of them */
  struct fs_launch_node *node;
  uint32_t nodes;
  struct fs_place_part *part; /* partitions of all datasets, in order */
  struct fs_owners *place;
  uint64_t parts;
  uint64_t lacking; /* partitions that got fewer copies than the nodes could have */
  bool *staged;     /* [node * parts + partition] */

  enum { FS_WHERE_HERE, FS_WHERE_HOSTS, FS_WHERE_SLURM } where;
  char first_host[256];
  char peers[520];           /* names of up to two hosts, for choosing the interface */
  bool network_named;        /* --network names an interface of this host */
  struct fs_network network; /* this host's, for the channel between mpirun and its daemons */
  bool first_here;           /* the first node is this host, so COMMAND is our child */
  char local_dir[PATH_MAX], stage_out[PATH_MAX], stage_in[PATH_MAX], to[PATH_MAX];
  char self[PATH_MAX], mpirun[PATH_MAX], fanstored[PATH_MAX], library[PATH_MAX];
  char supervisor[PATH_MAX]; /* fanstore-static; empty without --static */
  char python[PATH_MAX];     /* modules for PYTHONPATH; empty without --prefetch torch */
  bool ucx;
  bool by_srun;             /* there is no mpirun: `mpirun` is srun (srun.c) */
  bool mpirun_named;        /* named by FANSTORE_MPIRUN */
  const struct fs_mpi *mpi; /* how this mpirun spells its options */

  struct fs_launch_env env; /* from fs_env_make on */
  char job[128], run[PATH_MAX];
  char log[PATH_MAX]; /* with --daemon: where messages go once the job is ready */
  int run_lock, signal_fd, guard_fd, log_fd, ready_fd;
  sigset_t old_mask;
  uint32_t ignored; /* bit N: signal N was ignored when we were started */
  pid_t guard, daemons, command;
  int to_daemons; /* mpirun's standard input */
  struct fs_launch_lines out, err;
  bool daemons_ended, command_ended, command_running, stopping;
  bool packs;                  /* its ranks are those of a pack (pack.c) */
  bool begun;                  /* COMMAND has begun, the job of --daemon is ready, or the pack has begun */
  bool stop_asked;             /* fs-launch stop has asked the job of --daemon to end */
  bool starting;               /* the daemons start; COMMAND has not begun */
  int daemons_killed;          /* the signal that ended the daemons' mpirun */
  int daemons_status;          /* its exit status */
  fs_line_fn *on_out, *on_err; /* take a line of the daemons' or of mpirun's; NULL: control.c, noise.c */
  uint64_t alone_ns;           /* when the daemons' mpirun was found dead before the daemons */
  int command_status;          /* from waitpid */
  int signal;                  /* first signal that asks us to stop (SIGINT, SIGTERM ...); 0: none */
  int interrupt;               /* SIGINT or SIGQUIT that COMMAND got; COMMAND decides what it means */
  uint64_t passed_on_ns;       /* with --np: when the first signal was passed on */
  unsigned passed_on;
  unsigned signals_late; /* signals that came after COMMAND's end */
  struct fs_launch_outputs outputs;
  bool by_default;                                /* outdefault.c chose where outputs go: */
  bool in_place;                                  /* --stage-out to the directory that the dataset
                                                     was packed from, */
  uint64_t source_inode;                          /* which has this inode */
  char in_dataset[256], in_odd[256], in_why[128]; /* examples of names that --stage-in left out */
  uint64_t placed_ns;                             /* when a daemon last said that it has the placement */
  uint64_t progress_ns, started_ns, command_ns, bar_ns;
  uint64_t began_ms;                /* when COMMAND began: ms since 1970 */
  uint64_t *pair_bytes;             /* [from * nodes + to]: bytes that one node had from another; NULL: none,
                                       or more than FS_MATRIX_NODES nodes */
  struct fs_figures *figures;       /* at the end; NULL: no memory */
  char fail[800];                   /* the reason that the first failing daemon gave */
  char shell[400];                  /* what remote shells said about hosts that they cannot reach */
  struct fs_launch_noise noise[24]; /* the last lines of mpirun's stderr (noise.c), */
  unsigned noises, noise_block;     /* of so many; lines of dashes so far */
  char *warning[FS_LAUNCH_WARNINGS];
  unsigned warnings;
  struct fs_live live;
};

/* say.c. Returns true if progress should be shown now: ten times a second on a terminal, else once a
   minute. A true result counts as shown. */
bool fs_progress_due(struct fs_launch *l);
/* Prints a warning with --verbose, and keeps it for the summary. */
void fs_warn(struct fs_launch *l, const char *format, ...) FS_PRINTF(2, 3);

/* options.c. The parsers return -1 if work remains, 0 after --help or --version, or the exit status
   after a usage error. */
int fs_options_parse(struct fs_launch_options *o, int argc, char **argv);
int fs_options_parse_clean(struct fs_launch_options *o, int argc, char **argv);
/* Returns the index of doctor's first FILE, or a negative number. */
int fs_options_parse_doctor(int argc, char **argv);
/* Tells which value this option needs. Returns -EINVAL. */
fs_err fs_option_bad(const char *option, const char *value, const char *want);
/* Shows the help, or the version if help is NULL, and ends the process. */
void fs_option_answer(void (*help)(void));

/* check.c, programs.c, hosts.c: checks before the start. They return 0 or the exit status. */
int fs_check_datasets(struct fs_launch *l);
int fs_check_report(const struct fs_launch *l); /* report.c */
int fs_local_dir(struct fs_launch *l);          /* finds its name only */
int fs_check_local_dir(struct fs_launch *l);    /* makes it, or by default one of our own beside it */
/* Warns that another user owns `name`, so that `used` replaces it. */
void fs_warn_taken(struct fs_launch *l, const char *name, const char *used);
int fs_check_stage_dirs(struct fs_launch *l);
/* Warns of each mount whose real directory has names that programs will not see. */
void fs_warn_hidden(const struct fs_launch *l);
int fs_check_to(struct fs_launch *l); /* for clean */
int fs_find_programs(struct fs_launch *l);
/* Finds COMMAND in the same way as execvp. Returns 0, -ENOENT, -EACCES ... */
fs_err fs_find_command(const char *name, char *out, size_t size);
int fs_check_command(const struct fs_launch *l);
int fs_hosts_find(struct fs_launch *l);
bool fs_host_is_here(const char *name);

/* rundir.c: the run directory of this job on this host. */
int fs_run_create(struct fs_launch *l);
void fs_run_remove(const char *run);
bool fs_run_held(const char *run); /* true if a process holds one of its locks */
/* Removes what a killed mpirun of this host left in TMPDIR. */
void fs_session_remove(pid_t mpirun);
/* Removes the run directories of dead jobs on this host. Returns their number. */
unsigned fs_run_sweep(bool tell);

/* jobs.c: the live jobs of this user on this host. */
struct fs_job {
  char name[NAME_MAX + 1], run[PATH_MAX]; /* run: the run directory */
  pid_t launcher;                         /* its fs-launch; 0: not on this host */
};
/* Stores the jobs, sorted by name, in *list, which the caller frees. Returns their number. */
size_t fs_jobs_list(struct fs_job **list);
/* Finds the job that `word` names: its name, or the path of its run directory. NULL: the job
   that this process is a program of, or the only one. Returns 0 or the exit status. */
int fs_jobs_find(const char *word, struct fs_job *job);

/* guard.c: a child that survives kill -9 of this process, then ends the job's processes and removes
   the run directory. */
int fs_guard_start(struct fs_launch *l);
/* Tells the guard a pid: first call for the daemons' mpirun, then for COMMAND; 0: forget both. */
void fs_guard_watch(struct fs_launch *l, pid_t pid);
void fs_guard_dismiss(struct fs_launch *l);

/* events.c */
int fs_events_open(struct fs_launch *l);
bool fs_is_user_signal(int sig);                   /* SIGUSR1, SIGUSR2: for COMMAND only */
void fs_signals_leave(void);                       /* blocks them in a child that is not
                                                      COMMAND */
void fs_events_restore(const struct fs_launch *l); /* restores the signals in a child */
/* Handles events until one was handled or the time (fs_now_ns) is reached. */
void fs_events_step(struct fs_launch *l, uint64_t until_ns);

/* lines.c */
/* Reads what has come, and hands each whole line on. Closes the descriptor at the end. */
void fs_lines_read(struct fs_launch *l, struct fs_launch_lines *in, fs_line_fn *fn);
void fs_lines_file(struct fs_launch *l, const char *path); /* handles daemons' lines from a file */

/* daemons.c */
int fs_daemons_start(struct fs_launch *l);
/* Places the partitions and waits until all daemons are ready. Returns 0 or the exit status. */
int fs_daemons_place(struct fs_launch *l);
/* Waits until this flag of struct fs_launch_node is set for all nodes. Returns 0, or the exit
   status after it told the reason. */
int fs_daemons_wait(struct fs_launch *l, size_t flag, void (*show)(struct fs_launch *l));
/* Starts these words, mpirun's, with pipes. Returns 0 or the exit status. */
int fs_daemons_exec(struct fs_launch *l, const struct fs_words *w);
void fs_daemons_look(struct fs_launch *l); /* records which daemons of this host died */
/* Sends a command to all ranks as a signal, once, if rank 0 is gone or silent and cannot pass it
   on. */
void fs_daemons_signal(const struct fs_launch *l, int sig, bool *told);
void fs_daemons_stop(struct fs_launch *l);
/* Stops the daemons of a place that is interrupted. Returns false if they have not ended in 0.7 s. */
bool fs_daemons_hurry(struct fs_launch *l);
/* After mpirun's death: waits until the daemons of this host have ended, and reads the lines that
   they left. deaf: mpirun no longer receives commands. */
void fs_daemons_last_words(struct fs_launch *l, bool deaf);
void fs_daemons_reason(const struct fs_launch *l, char *why, size_t size);
/* start.c. Starts the daemons in two phases and runs --stage-in. Returns 0 or the exit status. */
int fs_daemons_begin(struct fs_launch *l);
int fs_start_failed(struct fs_launch *l); /* tells the reason; returns the exit status */
void fs_start_noise(struct fs_launch *l, const char *line);
/* control.c. fs_control_line_in handles one line of a daemon. */
void fs_control_line_in(struct fs_launch *l, const char *line, size_t n);
int fs_control_send(struct fs_launch *l, const struct fs_control_line *line);
int fs_control_send_placement(struct fs_launch *l);
/* noise.c. fs_noise_line keeps a line of mpirun's stderr. fs_noise_telling returns the one that tells
   most, which may be in `out`, or NULL. */
void fs_noise_line(struct fs_launch *l, const char *line, size_t n);
const char *fs_noise_with(const struct fs_launch *l, const char *word); /* the first line, or NULL */
const char *fs_noise_telling(const struct fs_launch *l, char *out, size_t size);

/* command.c */
void fs_command_begins(struct fs_launch *l);            /* notes the time */
int fs_command_run(struct fs_launch *l);                /* returns COMMAND's exit status, or that of
                                                           a failure */
bool fs_command_interrupted(const struct fs_launch *l); /* true if COMMAND ended by a signal or
                                                           because of one */
/* Passes a signal on to COMMAND. With --np a second signal ends COMMAND. terminal: our process
   group has already received the signal. */
void fs_command_signal(struct fs_launch *l, int sig, bool terminal);

/* group.c: signals that the whole process group receives while COMMAND is our child. */
void fs_group_begin(void);
void fs_group_end(void);
/* Returns true if this member of our process group also received the signal that fs-launch has just
   got. */
bool fs_group_has(pid_t member, int sig);

/* environment.c: the environment of the job's programs (docs/internals/attach.md). */
/* Computes l->env. Call when the programs, the datasets and the nodes are known. */
int fs_env_make(struct fs_launch *l);
/* Adds the words that are set, each with `option` before it unless that is NULL. */
void fs_env_words(const struct fs_launch_env *e, const char *option, struct fs_words *w);
void fs_env_none(struct fs_launch_env *e); /* no word is set */
/* Takes one word NAME=VALUE. `word` must stay valid. Unknown names are ignored. */
void fs_env_take(struct fs_launch_env *e, const char *word);
/* Reads node-K.env. Returns 0, -ENOENT (nobody can join the job on this node), or another error. */
fs_err fs_env_read(const char *run, unsigned node, struct fs_launch_env *e);
/* Removes the files of this host: nobody joins the job any more. */
void fs_env_close(const char *run);
/* Marks the nodes of this host, by their files in the run directory: with `open` those that
   programs can join, else those that have or had a daemon. Returns their number. */
unsigned fs_env_nodes(const char *run, bool open, bool here[FS_MAX_NODES]);
/* Sets the variables of this process. node: -1 if it is to be chosen. Returns 0 or the exit
   status. */
int fs_env_set(const struct fs_launch_env *e, const char *run, int node);
/* Becomes COMMAND. Returns only if that fails, with the exit status. */
int fs_env_become(const struct fs_launch_env *e, char **command);

/* background.c: --daemon */
/* Forks the background process, in which it returns -1. In the caller it waits until the job is
   ready, and returns the exit status. */
int fs_background_begin(struct fs_launch *l);
int fs_background_log(struct fs_launch *l); /* makes launch.log in the run directory */
/* Tells the caller that the job is ready, and serves until the job is to end. */
int fs_background_serve(struct fs_launch *l);
void fs_background_end(const struct fs_launch *l, int status); /* leaves the status to stop */

/* attach.c, container.c, stop.c: commands for a running job. They return the exit status. */
struct fs_join {
  const char *word, *container; /* JOB, the value of --container; or NULL */
  int node;                     /* --node; -1: not given */
  struct fs_job job;
  struct fs_launch_env env;
};
int fs_attach(int argc, char **argv);
int fs_env(int argc, char **argv);
int fs_stop(int argc, char **argv);
const char *fs_env_shown(size_t i); /* name of the i-th variable that programs of a job have, or NULL */
struct fs_container;
const struct fs_container *fs_container_find(const char *name); /* NULL: not known */
int fs_container_print(const struct fs_container *kind, const struct fs_join *j);

/* join_options.c */
/* Returns the index of COMMAND, argc if there is none, or a negative number. */
int fs_options_parse_attach(struct fs_join *j, int argc, char **argv);
/* Return -1 if work remains, or the exit status. */
int fs_options_parse_env(struct fs_join *j, int argc, char **argv);
int fs_options_parse_stop(struct fs_join *j, int argc, char **argv);

int fs_exec_node(int argc, char **argv); /* hidden command: sets the node's environment and becomes
                                            COMMAND */

/* rank.c: with --np, signals for COMMAND, which mpirun forwards to all hosts. */
#define FS_COMMAND_GRACE_NS (10 * FS_NS_PER_S)        /* after a stop signal; with --np any */
int fs_carrier(int sig);                              /* the signal that carries this one; 0: none
                                                         does */
void fs_carriers_text(char *out, size_t size);        /* list of all carriers, for mpirun */
void fs_carriers_block(void);                         /* blocks the carried signals, before mpirun
                                                         is executed */
int fs_rank_run(int (*become)(void *ctx), void *ctx); /* returns COMMAND's end as an exit status */

/* stagein.c */
/* Runs --stage-in before COMMAND. Returns 0 or the exit status. */
int fs_stage_in(struct fs_launch *l);
void fs_stage_in_line(struct fs_launch *l, uint64_t rank, const struct fs_control *c);

/* outdefault.c */
/* Chooses where outputs go if no option says so. Call after the checks of datasets and
   directories. */
void fs_outputs_default(struct fs_launch *l);
/* Tells the user once, at the first output that a daemon reports, where outputs go. */
void fs_outputs_first(struct fs_launch *l);

/* outputs.c */
/* Counts COMMAND's outputs after its end; copies them with --stage-out, keeps them with --keep.
   Returns the exit status. */
int fs_outputs_finish(struct fs_launch *l, int status);
void fs_outputs_line_in(struct fs_launch *l, uint64_t rank, const struct fs_control *c);
void fs_outputs_tell(const struct fs_launch *l);
/* Sums all nodes' failures with the reason of failure number `at`. Returns false if an earlier
   failure has the same reason. */
bool fs_outputs_reason(const struct fs_launch_outputs *o, size_t at, struct fs_launch_failure *sum);

/* backing.c. fs_backing_files_remove removes the backing directories of a job that has ended.
   all: also those with outputs that are saved or dropped. by_default: also in local.XXXXXX
   (util/own.h). */
void fs_backing_files_remove(const char *local, bool by_default, const char *job, bool all);
/* Removes incomplete copies that no process makes any more, and what dead jobs left in memory.
   wait: a maker may have been killed at this moment. packs: also interrupted packs that can go on. */
void fs_fragments_remove(const char *local, bool by_default, bool wait, bool tell, bool packs);
/* Locks the open file `lock`. Returns true if the lock is exclusively ours and the file still has
   that name. */
bool fs_lock_alone(int dir, const char *name, int lock);
bool fs_local_top(const char *name); /* true for "fanstore", "fanstore-node0", ...: directories of
                                        staged data */

/* remote.c: cleans up on other hosts after daemons that died. */
void fs_remote_end(struct fs_launch *l);

/* rsh.c: remote shells of the daemons' mpirun, which may end late without ending the job. */
void fs_rsh_ready(const struct fs_launch *l); /* the daemons serve from now on */
/* Adds the parameter by which mpirun runs AGENT through fs-launch --rsh. Returns false if no
   parameter can express this. */
bool fs_rsh_agent(const struct fs_launch *l, const char *agent, struct fs_words *w);
int fs_rsh(int argc, char **argv);
int fs_pack(struct fs_launch *l, int argc, char **argv); /* hidden command: pack.c */
int fs_end_job(int argc, char **argv);                   /* hidden command: cleans up on the other host */

/* summary.c, report.c */
/* Returns the exit status of fs-prepare place, after what it has placed is told. */
int fs_place_status(const struct fs_launch *l, int status);
uint64_t fs_stat_sum(const struct fs_launch *l, const char *key);
void fs_summary(const struct fs_launch *l);
void fs_report(const struct fs_launch *l, int status);

/* doctor.c. fs_doctor_run and fs_doctor_files return the exit status; fs_doctor_warn prints one
   line if COMMAND surely cannot be preloaded. */
int fs_doctor_run(char **command, bool as_is);
int fs_doctor_files(int argc, char **argv);
void fs_doctor_warn(const struct fs_launch *l);

/* clean.c, replay/command.c */
int fs_clean(int argc, char **argv);
int fs_replay(int argc, char **argv);

/* watch/: fs-launch jobs, stats and top look at running jobs. They return the exit status. */
int fs_watch_jobs(int argc, char **argv);
int fs_watch_stats(int argc, char **argv);
int fs_watch_top(int argc, char **argv);

#endif
