/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch: what its files share. One process, one thread, one poll loop (events.c); a forked guard (guard.c) cleans
 * up if this process is killed. The order of things is in main.c; each file is one job of it. Functions that fail
 * have told the user in one line (fs_say) and return the exit status, or a negative errno where noted.
 */
#ifndef FS_LAUNCH_LAUNCH_H
#define FS_LAUNCH_LAUNCH_H

#include <limits.h>
#include <signal.h>

#include "format/manifest.h"
#include "index/index.h"
#include "ipc/control.h"
#include "ipc/layout.h"
#include "ipc/node.h"
#include "ipc/processes.h"
#include "ipc/rundir.h"
#include "placement.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_EXIT_USAGE 2
#define FS_EXIT_FAILED 125         /* FanStore itself could not start */
#define FS_EXIT_NOT_EXECUTABLE 126 /* COMMAND, as env(1) has it */
#define FS_EXIT_NOT_FOUND 127
/* What PATH and LD_LIBRARY_PATH are to be for COMMAND, past an mpirun. */
#define FS_ENV_PATH "FANSTORE_PATH"
#define FS_ENV_LIBRARY_PATH "FANSTORE_LIBRARY_PATH"
#define FS_LAUNCH_STATS 64
#define FS_LAUNCH_WARNINGS 32

struct fs_launch_options {
  struct {
    const char *path, *mount;
  } dataset[FS_MAX_DATASETS];
  unsigned datasets;
  const char *local_dir, *hosts, *hostfile, *report, *to, *stage_out, *stage_in, *verify, *local_io;
  uint64_t emulate, np, replicas, cache, output_limit, output_replicas, start_timeout, deadline_ms; /* 0: not given */
  const char *node_local[FS_NODE_LOCALS];
  unsigned node_locals;
  bool node_local_given; /* else the default ones */
  bool read_only, verbose, purge, keep, discard, outputs, staged, doctor, supervised, env_as_is, no_io_uring;
  uint64_t given; /* options that take one value, by their bits */
  char **command; /* NULL-terminated */
};

struct fs_launch_dataset {
  char path[PATH_MAX];  /* absolute */
  char mount[PATH_MAX]; /* absolute, normalised */
  struct fs_manifest manifest;
  struct fs_index index;
  uint64_t first; /* number of its first partition in the job's list */
  unsigned lost;  /* partitions that could not be staged where they were placed */
};

struct fs_launch_node {
  char host[256];
  pid_t pid;
  uint64_t free, have;                       /* have: bit d is set when dataset d was reported */
  bool begun, hello, ready, bye, dead, told; /* told: the user knows that it died */
  bool left;                                 /* something in its run directory, after its bye */
  bool failed;                               /* it has said why it cannot start */
  int killed;                                /* the signal by which it ended, as mpirun has it */
  uint64_t heard_ns;                         /* its last line */
  uint64_t stage_done, stage_total, staged, reused;
  uint64_t local, memory, cached; /* bytes of partitions, of memory; percent of them read through the page cache */
  uint64_t dead_ns;               /* when that was seen */
  bool inherited;                 /* its outputs are another node's */
  bool finished;                  /* it has told of its outputs: */
  bool gone_known;                /* and of all those of nodes that are gone */
  uint64_t outputs_gone;
  uint64_t outputs, output_bytes, outputs_failed, outputs_lost, outputs_staged;
  uint64_t output_dirs, output_links;
  uint64_t out_done, out_total; /* bytes, of --stage-out */
  bool staged_in;               /* it has told of --stage-in: */
  uint64_t in_files, in_bytes, in_dataset, in_odd;
  struct {
    char key[32];
    uint64_t value;
  } stat[FS_LAUNCH_STATS];
  unsigned stats;
};

/* A program's output, cut into lines. */
struct fs_launch_lines {
  int fd;
  size_t len;
  char text[2 * FS_CONTROL_LINE];
  bool skip; /* in a line that is too long */
};

/* What COMMAND wrote below the mounts. */
struct fs_launch_outputs {
  uint64_t files, bytes, failed, lost, staged, dirs, links;
  uint64_t gone;       /* with their nodes */
  bool missing;        /* some that should have been kept or copied were on a node that is gone, or may have been */
  bool any;            /* a daemon has reported one, or they were staged in */
  bool unsaved;        /* some may be neither saved nor dropped: they stay in the backing directories */
  char kept[PATH_MAX]; /* where */
  struct fs_launch_output {
    uint32_t rank;
    uint64_t size;
    char *name, *why; /* why it was not copied, or NULL */
  } * output;         /* those that were named */
  size_t named, room;
  struct fs_launch_output *gone_output; /* those of the gone that were named */
  size_t gone_named, gone_room;
  struct fs_launch_failure { /* of ipc/control.h's `failed` */
    uint32_t rank;
    uint64_t failed, unkept, lost, others; /* of the failed: directories and symlinks */
    char why[128];
  } * failure;
  size_t failures;
};

struct fs_launch {
  struct fs_launch_options opt;
  struct fs_launch_dataset *dataset; /* opt.datasets of them */
  struct fs_launch_node *node;
  uint32_t nodes;
  struct fs_place_part *part; /* of all datasets, one after another */
  struct fs_owners *place;
  uint64_t parts;
  bool *staged; /* [node * parts + partition] */

  enum { FS_WHERE_HERE, FS_WHERE_HOSTS, FS_WHERE_SLURM } where;
  char first_host[256];
  bool first_here; /* the first node is this host: COMMAND is our child */
  char local_dir[PATH_MAX], stage_out[PATH_MAX], stage_in[PATH_MAX], to[PATH_MAX];
  char self[PATH_MAX], mpirun[PATH_MAX], fanstored[PATH_MAX], library[PATH_MAX];
  char supervisor[PATH_MAX]; /* fanstore-static; empty without --static */
  bool ucx;
  bool mpirun_named; /* by FANSTORE_MPIRUN */

  char job[128], run[PATH_MAX];
  int run_lock, signal_fd, guard_fd;
  sigset_t old_mask;
  uint32_t ignored; /* bit N: signal N was ignored when we were started */
  pid_t guard, daemons, command;
  int to_daemons; /* mpirun's standard input */
  struct fs_launch_lines out, err;
  bool daemons_ended, command_ended, command_running, stopping;
  bool starting;         /* the daemons: COMMAND has not begun */
  int daemons_killed;    /* the signal by which their mpirun ended */
  bool lost, again;      /* one was lost while they started; they have been started again */
  uint64_t looked_ns;    /* for one that is silent */
  uint64_t begun_ns;     /* when the last one began */
  uint64_t alone_ns;     /* when the daemons' mpirun was seen to have died before them */
  int command_status;    /* of waitpid */
  int signal;            /* first SIGINT, SIGTERM ... that asks us to stop; 0 none */
  int interrupt;         /* SIGINT or SIGQUIT that COMMAND has had, which decides what it means */
  uint64_t passed_on_ns; /* with --np: when the first signal was passed on */
  unsigned passed_on;
  unsigned signals_late; /* those that came after COMMAND */
  struct fs_launch_outputs outputs;
  bool by_default;                                /* the user did not say where outputs go: outdefault.c has chosen, */
  bool in_place;                                  /* --stage-out to the directory that the dataset was packed from, */
  uint64_t source_inode;                          /* which is this */
  char in_dataset[256], in_odd[256], in_why[128]; /* --stage-in: examples of what was left out */
  uint64_t progress_ns, started_ns, command_ns, bar_ns;
  char fail[800];      /* the first daemon's own reason */
  char shell[400];     /* what remote shells said of hosts that they do not reach */
  char noise[24][256]; /* the last lines of mpirun's stderr */
  unsigned noises;
  char *warning[FS_LAUNCH_WARNINGS];
  unsigned warnings;
};

/* say.c: one line to stderr, after wiping the progress bar. */
void fs_say(const char *format, ...) FS_PRINTF(1, 2);
void fs_bar(const char *text); /* NULL wipes; only on a terminal */
bool fs_bar_shown(void);       /* is stderr a terminal? */
/* True if progress should be shown now: ten times a second on a terminal, else once a minute. Counts as shown then. */
bool fs_progress_due(struct fs_launch *l);
void fs_progress(const char *format, ...) FS_PRINTF(1, 2);                  /* the bar on a terminal, else a line */
void fs_warn(struct fs_launch *l, const char *format, ...) FS_PRINTF(2, 3); /* kept for the summary */
char *fs_shown(const char *name, char *out, size_t size);                   /* fs_printable of a string */

/* options.c: 0, or the exit status (help and usage errors are done with); -1 when all is well and work remains. */
int fs_options_parse(struct fs_launch_options *o, int argc, char **argv);
int fs_options_parse_clean(struct fs_launch_options *o, int argc, char **argv);
/* Index of the first FILE, or negative. */
int fs_options_parse_doctor(int argc, char **argv);

/* check.c, programs.c, hosts.c: 0 or the exit status. */
int fs_check_datasets(struct fs_launch *l);
int fs_check_report(const struct fs_launch *l);
int fs_local_dir(struct fs_launch *l);       /* which one it is, by name */
int fs_check_local_dir(struct fs_launch *l); /* and it is made, or by default one of its own beside it */
/* Its name was somebody else's: says so. */
void fs_warn_taken(struct fs_launch *l, const char *name, const char *used);
int fs_check_stage_dirs(struct fs_launch *l);
int fs_check_to(struct fs_launch *l); /* of clean */
int fs_find_programs(struct fs_launch *l);
/* COMMAND as execvp finds it. 0, -ENOENT, -EACCES ... */
fs_err fs_find_command(const char *name, char *out, size_t size);
int fs_check_command(const struct fs_launch *l);
int fs_hosts_find(struct fs_launch *l);
bool fs_host_is_here(const char *name);

/* rundir.c: the run directory of this job on this host. */
int fs_run_create(struct fs_launch *l);
void fs_run_remove(const char *run);
bool fs_run_held(const char *run); /* is one of its locks? */
/* What an mpirun of this host that was killed left in TMPDIR. */
void fs_session_remove(pid_t mpirun);
/* Removes the run directories of dead jobs on this host; their number. */
unsigned fs_run_sweep(bool tell);

/* guard.c: a child that outlives kill -9 of this process, ends the job's processes and removes the run directory. */
int fs_guard_start(struct fs_launch *l);
void fs_guard_watch(struct fs_launch *l, pid_t pid); /* first the daemons' mpirun, then COMMAND; 0: forget them */
void fs_guard_dismiss(struct fs_launch *l);

/* mpirun.c: command lines of mpirun, as a NULL-terminated array to free with fs_words_free. */
struct fs_words {
  char **word;
  size_t n, room;
};
void fs_words_add(struct fs_words *w, const char *format, ...) FS_PRINTF(2, 3);
void fs_words_free(struct fs_words *w);
void fs_mpirun_daemons(const struct fs_launch *l, struct fs_words *w);
void fs_mpirun_command(const struct fs_launch *l, struct fs_words *w);
void fs_mpirun_plain(const struct fs_launch *l, struct fs_words *w); /* one process a host, words to follow */
void fs_mpirun_on(const struct fs_launch *l, const char *hosts, uint32_t n, struct fs_words *w); /* on these */
/* In the child, before mpirun is executed. */
void fs_mpirun_environment(const struct fs_launch *l, bool daemons);
void fs_slurm_export(void); /* srun is to pass this environment on, also after sbatch --export=NONE */
void fs_mpirun_paths(const struct fs_launch *l); /* for COMMAND; fs_mpirun_paths_back, past mpirun */
void fs_mpirun_paths_back(void);

/* events.c */
int fs_events_open(struct fs_launch *l);
bool fs_is_user_signal(int sig);                            /* SIGUSR1, SIGUSR2: COMMAND's alone */
void fs_signals_leave(void);                                /* in a child that is not COMMAND: blocks them */
void fs_events_restore(const struct fs_launch *l);          /* in a child: the signals as they were */
void fs_events_file(struct fs_launch *l, const char *path); /* lines of the daemons' in a file */
/* Handles what happens until something did or the time (fs_now_ns) is up. */
void fs_events_step(struct fs_launch *l, uint64_t until_ns);

/* daemons.c */
int fs_daemons_start(struct fs_launch *l);
/* Waits until all say ready: 0, or the exit status. */
int fs_daemons_place(struct fs_launch *l);
/* Until this flag of struct fs_launch_node is set in all: 0, or the exit status with the reason told. */
int fs_daemons_wait(struct fs_launch *l, size_t flag, void (*show)(struct fs_launch *l));
void fs_daemons_look(struct fs_launch *l); /* notes those of this host that died */
/* What rank 0 would pass on, by a signal to all: where it is gone or silent, and once. */
void fs_daemons_signal(const struct fs_launch *l, int sig, bool *told);
void fs_daemons_stop(struct fs_launch *l);
/* When mpirun has died: waits until the daemons of this host have ended, and reads what they have left to be told. */
void fs_daemons_last_words(struct fs_launch *l, bool deaf); /* it cannot be told any more */
void fs_daemons_reason(const struct fs_launch *l, char *why, size_t size);
/* start.c: both phases and --stage-in, and once more when a daemon is lost meanwhile: 0, or the exit status. */
int fs_daemons_begin(struct fs_launch *l);
/* Has one that had begun died or fallen silent, having said nothing of why? */
bool fs_start_lost(struct fs_launch *l);
int fs_start_failed(struct fs_launch *l); /* tells the reason; the exit status */
void fs_start_noise(struct fs_launch *l, const char *line);
/* control.c: one line of a daemon's. */
void fs_control_line_in(struct fs_launch *l, const char *line, size_t n);
int fs_control_send(struct fs_launch *l, const struct fs_control_line *line);
int fs_control_send_placement(struct fs_launch *l);
void fs_noise_line(struct fs_launch *l, const char *line, size_t n);

/* command.c */
int fs_command_run(struct fs_launch *l);                /* COMMAND's exit status, or the reason's */
bool fs_command_interrupted(const struct fs_launch *l); /* did it end by a signal, or by what it did about one? */
/* Passes a signal on, which with --np a second one ends; `terminal`: our process group has it. */
void fs_command_signal(struct fs_launch *l, int sig, bool terminal);

/* group.c: signals that the whole process group gets, while COMMAND is fs-launch's child. */
void fs_group_begin(void);
void fs_group_end(void);
/* Has this process had the signal that fs-launch has just got, as a member of its group? */
bool fs_group_has(pid_t member, int sig);

int fs_exec_node(int argc, char **argv); /* hidden: sets the node's environment and becomes COMMAND */
struct fs_launch_env {
  const char *job, *datasets, *mounts, *library, *emulate, *read_only, *verify;
  const char *supervisor; /* what COMMAND is run by; empty: nothing */
  const char *as_is;      /* "1": FANSTORE_ENV_AS_IS is set */
  const char *io_uring;   /* FANSTORE_IO_URING; empty: as it is there */
};
/* Sets what the preloaded library looks at. 0 or the exit status. */
int fs_command_environment(const struct fs_launch_env *e);

/* rank.c: with --np, signals for COMMAND, which mpirun has forwarded to all hosts. */
#define FS_COMMAND_GRACE_NS (10 * FS_NS_PER_S)        /* after a signal that asks to stop; with --np after any */
int fs_carrier(int sig);                              /* the signal that stands for this one; 0: none does */
void fs_carriers_text(char *out, size_t size);        /* all of them, for mpirun */
void fs_carriers_block(void);                         /* what they stand for, before mpirun is executed */
int fs_rank_run(int (*become)(void *ctx), void *ctx); /* COMMAND's end as an exit status */

/* stagein.c */
/* Before COMMAND: 0, or the exit status. */
int fs_stage_in(struct fs_launch *l);
void fs_stage_in_line(struct fs_launch *l, uint64_t rank, const struct fs_control *c);

/* outdefault.c */
/* Chooses where outputs go if no option says so. After the checks of datasets and directories. */
void fs_outputs_default(struct fs_launch *l);
/* A daemon reports the first output: tells the user where outputs go, once. */
void fs_outputs_first(struct fs_launch *l);

/* outputs.c */
/* After COMMAND: what it wrote is counted; with --stage-out copied, with --keep kept. Returns the exit status. */
int fs_outputs_finish(struct fs_launch *l, int status);
void fs_outputs_line_in(struct fs_launch *l, uint64_t rank, const struct fs_control *c);
void fs_outputs_tell(const struct fs_launch *l, FILE *out);
/* All nodes' failures for the reason of number `at`, unless an earlier one has the same. */
bool fs_outputs_reason(const struct fs_launch_outputs *o, size_t at, struct fs_launch_failure *sum);

/* backing.c: of a job that has ended; all: with outputs, which are saved or dropped. by_default: also in local.XXXXXX
   (util/own.h) */
void fs_backing_files_remove(const char *local, bool by_default, const char *job, bool all);
/* Of copies that nobody makes any more; wait: their maker may have been killed this moment. Also removes what jobs that
   are over have left in memory. */
void fs_fragments_remove(const char *local, bool by_default, bool wait, bool tell);
/* Takes the lock: it is ours alone, and still the one by that name. */
bool fs_lock_alone(int dir, const char *name, int lock);
bool fs_local_top(const char *name); /* "fanstore", "fanstore-node0", ...: where datasets are staged */

/* remote.c: cleans up on other hosts after daemons that died. */
void fs_remote_end(struct fs_launch *l);

/* ---- rsh.c: remote shells that end late ---- */
void fs_rsh_ready(const struct fs_launch *l); /* the daemons serve: from now on */
void fs_rsh_not_ready(const struct fs_launch *l);
/* The parameter by which mpirun uses AGENT so; false: it cannot be said. */
bool fs_rsh_agent(const struct fs_launch *l, const char *agent, struct fs_words *w);
int fs_rsh(int argc, char **argv);
int fs_end_job(int argc, char **argv); /* hidden: does it there */

/* summary.c, report.c */
uint64_t fs_stat_of(const struct fs_launch_node *n, const char *key);
uint64_t fs_stat_sum(const struct fs_launch *l, const char *key);
void fs_summary(const struct fs_launch *l, FILE *out);
void fs_report(const struct fs_launch *l, int status);

/* doctor.c: exit statuses; and one line when COMMAND surely cannot be preloaded. */
int fs_doctor_run(char **command, bool as_is);
int fs_doctor_files(int argc, char **argv);
void fs_doctor_warn(const struct fs_launch *l);

/* clean.c */
int fs_clean(int argc, char **argv);

#endif
