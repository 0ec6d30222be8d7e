/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes the command lines and the environment of mpirun: for the daemons, for COMMAND with --np,
 * and for fs-launch clean. docs/internals/staging.md, "How the daemons are started", gives the reason for
 * each flag.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

extern char **environ;

static void out_of_memory(void) {
  fs_say("out of memory");
  _exit(FS_EXIT_FAILED);
}

void fs_words_add(struct fs_words *w, const char *format, ...) {
  va_list ap;
  if (w->n + 2 > w->room) {
    w->room = w->room * 2 + 32;
    char **grown = realloc(w->word, w->room * sizeof(*grown));
    if (!grown) out_of_memory();
    w->word = grown;
  }
  va_start(ap, format);
  if (vasprintf(&w->word[w->n], format, ap) < 0) out_of_memory();
  va_end(ap);
  w->word[++w->n] = NULL;
}

void fs_words_free(struct fs_words *w) {
  for (size_t i = 0; i < w->n; i++) free(w->word[i]);
  free(w->word);
  *w = (struct fs_words){0};
}

void fs_words_all(struct fs_words *w, const char *text) {
  for (size_t n; *text != '\0'; text += n) {
    text += strspn(text, " \t\n");
    n = strcspn(text, " \t\n");
    if (n > 0) fs_words_add(w, "%.*s", (int)n, text);
  }
}

/* Adds the user's own words after ours: mpirun takes the last of a repeated parameter. */
static void add_user(struct fs_words *w) {
  const char *mine = getenv("FANSTORE_MPIRUN_ARGS");
  if (mine) fs_words_all(w, mine);
}

/* Adds a parameter of mpirun's that has one name in all versions. Its value follows. */
static void add_parameter(const struct fs_launch *l, const char *name, struct fs_words *w) {
  fs_words_add(w, "%s", l->mpi->mca);
  fs_words_add(w, "%s", name);
}

/* Makes ssh neither ask nor wait without limit, unless the user chose another agent or other
   arguments. What the user chose by a variable is given as an option: Open MPI 5 does not know the
   names of Open MPI 4. The daemons' shells, by any agent, may fail once all daemons serve (rsh.c). */
static void add_shell(const struct fs_launch *l, struct fs_words *w, bool daemons) {
  const char *mine = getenv("FANSTORE_MPIRUN_ARGS");
  const char *agent = fs_mpi_set(l->mpi->agent_set), *args = fs_mpi_set(l->mpi->agent_args_set);
  if (mine && (strstr(mine, "rsh_a") || strstr(mine, "ssh_a"))) return;
  if (!agent && !args) args = "-x -o BatchMode=yes -o ConnectTimeout=15";
  if (!agent) agent = "ssh";
  if (!daemons || !fs_rsh_agent(l, agent, w)) {
    fs_words_all(w, l->mpi->agent);
    fs_words_add(w, "%s", agent);
  }
  if (!args) return;
  fs_words_all(w, l->mpi->agent_args);
  fs_words_add(w, "%s", args);
}

/* Puts mpirun's own files on this host in the run directory. On other hosts they stay in their usual
   place. */
static void add_session(const struct fs_launch *l, struct fs_words *w) {
  bool here = l->where == FS_WHERE_HERE || !l->mpi->session_all;
  if (l->run[0] == '\0' || !here || fs_mpi_set(l->mpi->session_set)) return;
  fs_words_all(w, l->mpi->session);
  fs_words_add(w, "%s", l->run);
}

/* Sets the step's memory. Otherwise the step of mpirun's srun requests the job's memory, which
   another step may have. */
static void add_step(const struct fs_launch *l, struct fs_words *w) {
  const char *mine = getenv(l->mpi->step_set);
  add_parameter(l, "plm_slurm_args", w);
  fs_words_add(w, "%s%s--mem=0", mine ? mine : "", mine ? " " : "");
}

static void add_basics(const struct fs_launch *l, struct fs_words *w, bool daemons) {
  if (geteuid() == 0) fs_words_add(w, "--allow-run-as-root");
  add_session(l, w);
  if (l->where == FS_WHERE_HERE) fs_words_all(w, l->mpi->here);
  if (l->where == FS_WHERE_HOSTS) add_shell(l, w, daemons);
  if (l->where == FS_WHERE_SLURM) add_step(l, w);
  fs_network_mpirun(l, w);
}

static void add_count(const struct fs_launch *l, uint32_t n, struct fs_words *w) {
  if (l->by_srun) fs_words_add(w, "%s", l->self);
  if (l->by_srun) fs_words_add(w, "--by-srun");
  fs_words_add(w, "%s", l->mpirun);
  fs_words_all(w, l->mpi->place);
  fs_words_add(w, "-np");
  fs_words_add(w, "%u", n);
}

static void add_signals(const struct fs_launch *l, const char *signals, struct fs_words *w) {
  fs_words_all(w, l->mpi->signals);
  fs_words_add(w, "%s", signals);
}

/* Of the ranks whose lines fs-launch reads. */
static void add_tags(const struct fs_launch *l, struct fs_words *w) {
  if (l->mpi->tags && !l->by_srun) fs_words_all(w, l->mpi->tags);
}

static void add_where(const struct fs_launch *l, struct fs_words *w, bool daemons) {
  add_basics(l, w, daemons);
  if (l->where != FS_WHERE_HOSTS) return;
  fs_words_add(w, l->opt.hosts ? "--host" : "--hostfile");
  fs_words_add(w, "%s", l->opt.hosts ? l->opt.hosts : l->opt.hostfile);
}

/* Adds UCX's parameters. On one host UCX uses only TCP over loopback. Across hosts UCX chooses, or
   follows the UCX_ variables. */
static void add_ucx(const struct fs_launch *l, struct fs_words *w) {
  fs_words_all(
      w, "--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any --mca btl self"); /* no segments in /dev/shm */
  if (l->where == FS_WHERE_HERE) {
    fs_words_all(w, "-x UCX_TLS=tcp,self -x UCX_NET_DEVICES=lo");
    return;
  }
  for (char **e = environ; *e; e++)
    if (strncmp(*e, "UCX_", 4) == 0) {
      fs_words_add(w, "-x");
      fs_words_add(w, "%.*s", (int)strcspn(*e, "="), *e);
    }
}

static void add_transport(const struct fs_launch *l, struct fs_words *w) {
  if (l->ucx) {
    add_ucx(l, w);
    return;
  }
  fs_words_all(w, "--mca pml ob1 --mca btl self,tcp --mca mpi_event_tick_rate 1");
  if (l->where == FS_WHERE_HERE) fs_words_all(w, "--mca btl_tcp_if_include lo");
}

static void add_datasets(const struct fs_launch *l, struct fs_words *w) {
  for (unsigned i = 0; i < l->opt.datasets; i++) {
    fs_words_add(w, "--dataset");
    fs_words_add(w, "%s", l->dataset[i].path);
    fs_words_add(w, "--mount");
    fs_words_add(w, "%s", l->dataset[i].mount);
  }
}

static void add_node_local(const struct fs_launch *l, struct fs_words *w) {
  if (!l->opt.node_local_given) fs_words_all(w, "--node-local lock.mdb --node-local *.mdb-lock");
  for (unsigned i = 0; i < l->opt.node_locals; i++) {
    fs_words_add(w, "--node-local");
    fs_words_add(w, "%s", l->opt.node_local[i]);
  }
}

void fs_mpirun_daemons(const struct fs_launch *l, struct fs_words *w) {
  char signals[32];
  snprintf(signals, sizeof(signals), "%d,%d", FS_SIGNAL_FINISH, FS_SIGNAL_STOP);
  add_count(l, l->nodes, w);
  fs_words_add(w, "--enable-recovery"); /* one daemon's death does not end the others */
  add_signals(l, signals, w);
  add_tags(l, w);
  /* Without this mpirun waits two seconds after the last daemon's end. */
  add_parameter(l, "odls_base_sigkill_timeout", w);
  fs_words_add(w, "0");
  add_where(l, w, true);
  if (l->where == FS_WHERE_SLURM) fs_words_all(w, l->mpi->attached); /* else srun has no stderr */
  add_transport(l, w);
  add_user(w);
  fs_words_add(w, "%s", l->fanstored);
  fs_words_add(w, "--job");
  fs_words_add(w, "%s", l->job);
  fs_words_add(w, "--local-dir");
  fs_words_add(w, "%s", l->local_dir);
  if (!l->opt.local_dir) fs_words_add(w, "--local-default"); /* fs_check_local_dir */
  add_datasets(l, w);
  if (l->opt.emulate > 0) {
    fs_words_add(w, "--emulate");
    fs_words_add(w, "%u", l->nodes);
  }
  if (l->opt.cache > 0) {
    fs_words_add(w, "--cache");
    fs_words_add(w, "%llu", (unsigned long long)l->opt.cache);
  }
  if (l->opt.prefetch_idle) fs_words_add(w, "--fill");
  if (l->opt.cache_disk) {
    fs_words_add(w, "--cache-disk");
    fs_words_add(w, "%s", l->opt.cache_disk);
  }
  if (l->opt.deadline_ms > 0) {
    fs_words_add(w, "--deadline");
    fs_words_add(w, "%llu", (unsigned long long)l->opt.deadline_ms);
  }
  if (l->opt.verify) {
    fs_words_add(w, "--verify");
    fs_words_add(w, "%s", l->opt.verify);
  }
  if (l->opt.read_only) fs_words_add(w, "--read-only");
  if (l->opt.overlay) fs_words_add(w, "--overlay");
  if (l->opt.keep || l->in_place) fs_words_add(w, "--keep");
  if (l->in_place) {
    fs_words_add(w, "--in-place");
    fs_words_add(w, "%llu", (unsigned long long)l->source_inode);
  }
  if (l->stage_out[0] != '\0') {
    fs_words_add(w, "--stage-out");
    fs_words_add(w, "%s", l->stage_out);
  }
  if (l->opt.output_limit > 0) {
    fs_words_add(w, "--output-limit");
    fs_words_add(w, "%llu", (unsigned long long)l->opt.output_limit);
  }
  if (l->stage_in[0] != '\0') {
    fs_words_add(w, "--stage-in");
    fs_words_add(w, "%s", l->stage_in);
  }
  if (l->opt.local_io) {
    fs_words_add(w, "--local-io");
    fs_words_add(w, "%s", l->opt.local_io);
  }
  add_node_local(l, w);
  fs_env_words(&l->env, "--env", w);
  fs_network_daemons(l, w);
  if (l->opt.output_replicas > 0) fs_words_all(w, "--output-replicas 1");
  if (l->opt.verbose) fs_words_add(w, "--verbose");
}

void fs_mpirun_ranks(const struct fs_launch *l, struct fs_words *w) {
  char signals[16];
  snprintf(signals, sizeof(signals), "%d", FS_SIGNAL_STOP);
  add_count(l, l->nodes, w);
  add_signals(l, signals, w);
  add_tags(l, w);
  add_where(l, w, false);
  if (l->where == FS_WHERE_SLURM) fs_words_all(w, l->mpi->attached); /* else srun has no stderr */
  add_transport(l, w);
  add_user(w);
}

void fs_mpirun_command(const struct fs_launch *l, struct fs_words *w) {
  char carriers[64];
  fs_carriers_text(carriers, sizeof(carriers));
  add_count(l, (uint32_t)(l->opt.np > 0 ? l->opt.np : 1), w);
  add_signals(l, carriers, w);
  add_where(l, w, false);
  add_user(w);
}

void fs_mpirun_plain(const struct fs_launch *l, struct fs_words *w) {
  add_count(l, l->nodes, w);
  add_where(l, w, false);
  add_user(w);
}

void fs_mpirun_on(const struct fs_launch *l, const char *hosts, uint32_t n, struct fs_words *w) {
  add_count(l, n, w);
  add_basics(l, w, false);
  fs_words_add(w, "--host");
  fs_words_add(w, "%s", hosts);
  add_user(w);
}

static bool starts(const char *name, const char *prefix) {
  return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Returns true for a variable by which an MPI job around this one would capture ours. */
static bool of_outer_job(const char *e, bool inside) {
  static const char *const set_by_mpirun[] = {"OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix", "OMPI_MCA_initial_",
                                              "OMPI_MCA_mpi_oversubscribe"};
  if (starts(e, "OMPI_ALLOW_RUN_AS_ROOT")) return false;
  if (starts(e, "PRTE_MCA_")) return false;
  if (starts(e, "OMPI_MCA_")) {
    for (size_t i = 0; inside && i < FS_ARRAY_LEN(set_by_mpirun); i++)
      if (starts(e, set_by_mpirun[i])) return true;
    return false;
  }
  return starts(e, "OMPI_") || starts(e, "PRTE_") || starts(e, "PMIX_") || starts(e, "ORTE_") || starts(e, "OPAL_") ||
         starts(e, "PMI_");
}

static bool unwanted(const struct fs_launch *l, const char *e, bool daemons, bool inside) {
  if (of_outer_job(e, inside)) return true;
  if (daemons && (starts(e, "LD_PRELOAD=") || starts(e, "FANSTORE_NODE="))) return true;
  if (starts(e, "FANSTORE_RUN=") || starts(e, "FANSTORE_STATE=")) return true;
  return l->where != FS_WHERE_SLURM && starts(e, "SLURM_"); /* the allocation must not be used */
}

void fs_slurm_export(void) {
  const char *which = getenv("SLURM_EXPORT_ENV");
  if (which && strncmp(which, "ALL", 3) != 0) setenv("SLURM_EXPORT_ENV", "ALL", 1);
}

void fs_mpirun_environment(const struct fs_launch *l, bool daemons) {
  bool inside = getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK");
  char **to = environ;
  for (char **from = environ; *from; from++)
    if (!unwanted(l, *from, daemons, inside)) *to++ = *from;
  *to = NULL;
  /* A job around this one must not restore its library. */
  setenv(FS_ENV_AS_IS, "1", 1);
  if (l->network_named) unsetenv("OMPI_MCA_oob_tcp_if_exclude"); /* Open MPI refuses both */
  if (l->job[0] != '\0') setenv(FS_ENV_JOB, l->job, 1);          /* marks its remote shells */
  if (l->where != FS_WHERE_SLURM) return;
  setenv("SLURM_OVERLAP", "1", 1); /* else a second mpirun waits for the first */
  fs_slurm_export();               /* for the srun in mpirun */
}

/*
 * PATH and LD_LIBRARY_PATH of COMMAND. An mpirun that is started by an absolute path puts its own
 * directories first in both: for example /usr/bin, with another python3, before a virtual
 * environment. On this host and in an allocation, where the environment reaches COMMAND, both are
 * restored. An mpirun that the user has named in this way behaves as it does without us.
 */
static const char *const paths[][2] = {{FS_ENV_PATH, "PATH"}, {FS_ENV_LIBRARY_PATH, "LD_LIBRARY_PATH"}};

void fs_mpirun_paths(const struct fs_launch *l) {
  for (size_t i = 0; i < FS_ARRAY_LEN(paths); i++) {
    const char *mine = getenv(paths[i][1]);
    unsetenv(paths[i][0]);
    if (!l->mpirun_named) setenv(paths[i][0], mine ? mine : "", 1);
  }
}

void fs_mpirun_paths_back(void) {
  for (size_t i = 0; i < FS_ARRAY_LEN(paths); i++) {
    const char *mine = getenv(paths[i][0]);
    if (mine && mine[0] != '\0') setenv(paths[i][1], mine, 1);
    if (mine && mine[0] == '\0') unsetenv(paths[i][1]);
    unsetenv(paths[i][0]);
  }
}
