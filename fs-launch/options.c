/* SPDX-License-Identifier: BSD-3-Clause */
/* The command lines of fs-launch, fs-launch clean and fs-launch doctor. One table serves the parser
   and the help. One thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"

enum {
  O_DATASET = 1,
  O_MOUNT,
  O_LOCAL_DIR,
  O_EMULATE,
  O_HOSTS,
  O_HOSTFILE,
  O_NP,
  O_REPLICAS,
  O_CACHE,
  O_READ_ONLY,
  O_STATIC,
  O_ENV_AS_IS,
  O_NO_IO_URING,
  O_REPORT,
  O_STATS,
  O_PURGE,
  O_KEEP,
  O_DISCARD,
  O_STAGE_OUT,
  O_OUTPUT_LIMIT,
  O_STAGE_IN,
  O_OUTPUT_REPLICAS,
  O_LOCAL_IO,
  O_START_TIMEOUT,
  O_DEADLINE,
  O_VERIFY,
  O_STAGED,
  O_OUTPUTS,
  O_TO,
  O_DOCTOR,
  O_NODE_LOCAL,
  O_PREFETCH,
  O_OVERLAY,
  O_CACHE_DISK,
  O_DAEMON,
  O_LOG,
  O_NETWORK,
  O_VERBOSE,
  O_HELP,
  O_VERSION
};

#define HELP_LOCAL_DIR "node-local storage (default: fanstore-local-UID in TMPDIR, else in /tmp)"
#define HELP_COMMON                                                                                                    \
  {"help", 'h', NULL, "show this help", O_HELP}, {                                                                     \
    "version", 0, NULL, "show the version", O_VERSION                                                                  \
  }

static const struct fs_opt launch_opts[] = {
    {"dataset", 'd', "DATASET", "a dataset made by fs-prepare; repeatable", O_DATASET},
    {"mount", 'm', "PATH",
     "the path at which the dataset named just before appears (default: the one it was packed for)", O_MOUNT},
    {"local-dir", 'l', "DIR", HELP_LOCAL_DIR, O_LOCAL_DIR},
    {"emulate", 0, "N", "N nodes (1 to 64) on this host", O_EMULATE},
    {"hosts", 0, "A,B,...", "one node on each of these hosts", O_HOSTS},
    {"hostfile", 0, "FILE", "one node on each host named there, one a line", O_HOSTFILE},
    {"network", 0, "IFACE|CIDR",
     "between hosts: use this network interface, or the one in this network (default: the\n"
     "interface that routes to the other hosts)",
     O_NETWORK},
    {"np", 'n', "P", "run COMMAND as P MPI processes over the nodes (default: once, on the first node)", O_NP},
    {"replicas", 'r', "R", "copies of each partition, on distinct nodes (default: 1)", O_REPLICAS},
    {"cache", 0, "SIZE", "memory for remote data on each node, as 512M or 4G", O_CACHE},
    {"cache-disk", 0, "SIZE",
     "room in the local directory for remote data that memory has no room for: a size, or auto (default: none)",
     O_CACHE_DISK},
    {"local-io", 0, "HOW", "cached: read local partitions by the page cache; direct: past it; auto (default)",
     O_LOCAL_IO},
    {"prefetch", 0, "WHAT",
     "torch: fetch ahead what PyTorch's DataLoaders will read; idle: fill the cache while nobody\n"
     "reads from other nodes; or torch,idle",
     O_PREFETCH},
    {"read-only", 0, NULL, "refuse every write below a mount", O_READ_ONLY},
    {"static", 0, NULL, "serve static and Go programs too, by a seccomp supervisor", O_STATIC},
    {"env-as-is", 0, NULL, "if a program is started with an environment without LD_PRELOAD, do not give it back",
     O_ENV_AS_IS},
    {"no-io-uring", 0, NULL, "refuse io_uring to COMMAND's programs, so that they use plain calls", O_NO_IO_URING},
    {"report", 0, "FILE",
     "write what happened: .html as a page to look at, .json as JSON, .txt as text; - for text\n"
     "on stdout",
     O_REPORT},
    {"stats", 0, "S", "each S seconds, a line with what was read since the last one", O_STATS},
    {"purge", 0, NULL, "remove the staged partitions at the end", O_PURGE},
    {"keep", 0, NULL, "keep what COMMAND wrote below the mounts in fanstore-outputs in each node's local directory",
     O_KEEP},
    {"discard", 0, NULL,
     "drop what COMMAND wrote below the mounts (default: copy it to the mount's own directory\n"
     "if the dataset was packed from there, else keep it)",
     O_DISCARD},
    {"stage-out", 0, "DIR", "copy what COMMAND writes below the mounts to DIR, while it runs", O_STAGE_OUT},
    {"output-limit", 0, "SIZE", "room for what COMMAND writes on each node, as 512M or 4G (default: all there is)",
     O_OUTPUT_LIMIT},
    {"stage-in", 0, "DIR", "what is in DIR, an earlier job's outputs, is below the mounts from the start", O_STAGE_IN},
    {"output-replicas", 0, "N", "1: what COMMAND writes is on one more node when close and fsync return (default: 0)",
     O_OUTPUT_REPLICAS},
    {"overlay", 0, NULL, "COMMAND may replace, change and remove the datasets' files, for this job alone", O_OVERLAY},
    {"node-local", 0, "GLOB",
     "files of such names are each node's own; repeatable; '' for none (default: lock.mdb\n"
     "and *.mdb-lock)",
     O_NODE_LOCAL},
    {"start-timeout", 0, "SECONDS", "give up after so long without progress at the start (default: 60)",
     O_START_TIMEOUT},
    {"deadline", 0, "MS", "a read goes to another copy after so long (default: the daemon's)", O_DEADLINE},
    {"verify", 0, "WHICH",
     "compare what is read with its checksums: always, never, or what is remote (default:\n"
     "FANSTORE_VERIFY, else remote)",
     O_VERIFY},
    {"daemon", 0, NULL, "run no COMMAND: print the job's name when it is ready; programs join it by fs-launch attach",
     O_DAEMON},
    {"log", 0, "FILE", "with --daemon: where messages go once the job is ready (default: the run directory)", O_LOG},
    {"doctor", 0, NULL, "do not run COMMAND: tell what in it and its libraries would bypass the mounts", O_DOCTOR},
    {"verbose", 'v', NULL, "tell what happens; show what the daemons and mpirun print", O_VERBOSE},
    HELP_COMMON,
};

static const struct fs_opt clean_opts[] = {
    {"staged", 0, NULL, "remove staged partitions that no job uses", O_STAGED},
    {"except", 0, "DATASET", "with --staged: but not those of DATASET (repeatable)", O_DATASET},
    {"outputs", 0, NULL, "remove outputs that jobs have kept or left in the local directory", O_OUTPUTS},
    {"to", 0, "DIR", "with --outputs: copy them to DIR/JOB first, under their names", O_TO},
    {"local-dir", 'l', "DIR", HELP_LOCAL_DIR, O_LOCAL_DIR},
    {"hosts", 0, "A,B,...", "clean these hosts, not this one", O_HOSTS},
    {"hostfile", 0, "FILE", "clean the hosts named there, not this one", O_HOSTFILE},
    {"network", 0, "IFACE|CIDR", "reach them by this network interface, or the one in this network", O_NETWORK},
    {"verbose", 'v', NULL, "tell what happens", O_VERBOSE},
    HELP_COMMON,
};

static const struct fs_opt doctor_opts[] = {HELP_COMMON};

static void help_launch(void) {
  printf("usage: fs-launch [options] [--] COMMAND [ARG...]\n"
         "       fs-launch --daemon [options]\n"
         "       fs-launch attach [JOB] [options] [--] [COMMAND [ARG...]]\n"
         "       fs-launch env [JOB] [options]\n"
         "       fs-launch stop [JOB]\n"
         "       fs-launch clean [options]\n"
         "       fs-launch doctor FILE...\n"
         "       fs-launch replay [options] TRACE...\n"
         "       fs-launch jobs | stats [options] [JOB] | top [JOB]\n\n"
         "Stages datasets to the nodes, starts the daemons, runs COMMAND with the datasets under their mounts,\n"
         "reports where the data came from, and cleans up. Without --emulate, --hosts or --hostfile the nodes are\n"
         "those of the Slurm allocation, else this host alone.\n\nOptions:\n");
  fs_opt_help(stdout, launch_opts, FS_ARRAY_LEN(launch_opts));
  printf("\nThe exit status is COMMAND's own, or 128+N if signal N ended it. Other statuses: 2, wrong command line;\n"
         "125, FanStore could not start, or COMMAND succeeded but outputs that were to be saved are not saved;\n"
         "126, COMMAND is not executable; 127, COMMAND was not found.\n");
}

static void help_clean(void) {
  printf(
      "usage: fs-launch clean [options]\n\n"
      "Removes what killed jobs have left in run directories and in the local directory. Says where outputs of jobs\n"
      "that are over still are; with --outputs it removes them. With --staged it also removes staged partitions.\n"
      "It touches nothing of a running job.\n\nOptions:\n");
  fs_opt_help(stdout, clean_opts, FS_ARRAY_LEN(clean_opts));
}

static void help_doctor(void) {
  printf("usage: fs-launch doctor [options] FILE...\n\n"
         "Tells what in these programs and libraries would bypass the mounts, and what to do, one line each. Of a\n"
         "directory, every program and library below it is looked at; of a file, also the libraries that it needs.\n"
         "Nothing is run. The exit status is 0 when nothing was found, 1 when something was, 2 when a file is\n"
         "missing. For a command with its words: fs-launch --doctor COMMAND [ARG...]\n\nOptions:\n");
  fs_opt_help(stdout, doctor_opts, FS_ARRAY_LEN(doctor_opts));
}

fs_err fs_option_bad(const char *option, const char *value, const char *want) {
  fs_say("--%s %s: give %s", option, value[0] == '\0' ? "''" : value, want);
  return -EINVAL;
}

static fs_err number(const char *option, const char *value, uint64_t min, uint64_t max, uint64_t *out) {
  char want[64];
  if (fs_parse_u64(value, min, max, out) == 0) return 0;
  snprintf(want, sizeof(want), "a number from %llu to %llu", (unsigned long long)min, (unsigned long long)max);
  return fs_option_bad(option, value, want);
}

static fs_err set_dataset(struct fs_launch_options *o, const char *path) {
  if (path[0] == '\0') return fs_option_bad("dataset", path, "a directory");
  if (o->datasets == FS_MAX_DATASETS) {
    fs_say("%s: at most %u datasets", path, FS_MAX_DATASETS);
    return -EINVAL;
  }
  o->dataset[o->datasets++].path = path;
  return 0;
}

static fs_err set_mount(struct fs_launch_options *o, const char *path) {
  if (path[0] != '/') return fs_option_bad("mount", path, "an absolute path");
  if (o->datasets == 0) {
    fs_say("--mount %s: put it after the --dataset that it belongs to", path);
    return -EINVAL;
  }
  if (o->dataset[o->datasets - 1].mount) {
    fs_say("--mount %s: the --dataset before it has a mount already", path);
    return -EINVAL;
  }
  o->dataset[o->datasets - 1].mount = path;
  return 0;
}

static fs_err set_text(const char *option, const char *value, const char *want, const char **out) {
  if (value[0] == '\0') return fs_option_bad(option, value, want);
  *out = value;
  return 0;
}

static fs_err set_verify(const char *value, const char **out) {
  if (fs_verify_parse(value) < 0) return fs_option_bad("verify", value, "always, remote or never");
  *out = value;
  return 0;
}

static fs_err set_local_io(const char *value, const char **out) {
  if (fs_local_io_parse(value) < 0) return fs_option_bad("local-io", value, "cached, direct or auto");
  *out = value;
  return 0;
}

/* Adds a pattern of --node-local. '' adds none, and so alone removes the default ones. */
static fs_err set_node_local(struct fs_launch_options *o, const char *value) {
  o->node_local_given = true;
  if (value[0] == '\0') return 0;
  size_t bytes = 1 + strlen(value) + 1;
  for (unsigned i = 0; i < o->node_locals; i++) bytes += strlen(o->node_local[i]) + 1;
  if (strchr(value, '/')) return fs_option_bad("node-local", value, "a pattern of a name, without slashes");
  if (o->node_locals == FS_NODE_LOCALS || bytes > FS_NL_GLOBS)
    return fs_option_bad("node-local", value, "fewer or shorter patterns");
  o->node_local[o->node_locals++] = value;
  return 0;
}

static fs_err set_cache_disk(const char *value, const char **to) {
  uint64_t bytes;
  if (strcmp(value, "auto") != 0 && (fs_parse_size(value, &bytes) < 0 || bytes == 0))
    return fs_option_bad("cache-disk", value, "a size as 100G, or auto");
  *to = value;
  return 0;
}

/* The suffix chooses the format. A name without one is text, so that a pipe can be named. */
static fs_err set_report(const char *value, const char **out) {
  const char *name = strrchr(value, '/'), *suffix = strrchr(name ? name : value, '.');
  bool known = !suffix || strcmp(suffix, ".json") == 0 || strcmp(suffix, ".html") == 0 || strcmp(suffix, ".txt") == 0;
  if (!known || value[0] == '\0')
    return fs_option_bad("report", value, "a name that ends in .html, .json or .txt, or -");
  *out = value;
  return 0;
}

static fs_err set_value(struct fs_launch_options *o, int id, const char *value) {
  switch (id) {
  case O_DATASET:
    return set_dataset(o, value);
  case O_MOUNT:
    return set_mount(o, value);
  case O_LOCAL_DIR:
    return set_text("local-dir", value, "a directory", &o->local_dir);
  case O_EMULATE:
    return number("emulate", value, 1, 64, &o->emulate);
  case O_HOSTS:
    return set_text("hosts", value, "hosts as A,B,...", &o->hosts);
  case O_HOSTFILE:
    return set_text("hostfile", value, "a file", &o->hostfile);
  case O_NP:
    return number("np", value, 1, 1u << 20, &o->np);
  case O_REPLICAS:
    return number("replicas", value, 1, FS_MAX_NODES, &o->replicas);
  case O_CACHE:
    if (fs_parse_size(value, &o->cache) < 0 || o->cache == 0)
      return fs_option_bad("cache", value, "a size as 512M or 4G");
    return 0;
  case O_OUTPUT_LIMIT:
    if (fs_parse_size(value, &o->output_limit) < 0 || o->output_limit == 0)
      return fs_option_bad("output-limit", value, "a size as 512M or 4G");
    return 0;
  case O_STAGE_OUT:
    return set_text("stage-out", value, "a directory", &o->stage_out);
  case O_TO:
    return set_text("to", value, "a directory", &o->to);
  case O_STAGE_IN:
    return set_text("stage-in", value, "a directory", &o->stage_in);
  case O_CACHE_DISK:
    return set_cache_disk(value, &o->cache_disk);
  case O_PREFETCH:
    o->prefetch_torch = strstr(value, "torch") != NULL;
    o->prefetch_idle = strstr(value, "idle") != NULL;
    if (strcmp(value, "torch") == 0 || strcmp(value, "idle") == 0 || strcmp(value, "torch,idle") == 0) return 0;
    return fs_option_bad("prefetch", value, "torch, idle or torch,idle");
  case O_NETWORK:
    o->network = value;
    return fs_network_ok(value) ? 0
                                : fs_option_bad("network", value, "an interface as eth0, or a network as 10.1.0.0/16");
  case O_LOCAL_IO:
    return set_local_io(value, &o->local_io);
  case O_REPORT:
    return set_report(value, &o->report);
  case O_LOG:
    return set_text("log", value, "a file", &o->log);
  case O_STATS:
    return number("stats", value, 1, 86400, &o->stats);
  case O_OUTPUT_REPLICAS:
    if (fs_parse_u64(value, 0, 1, &o->output_replicas) == 0) return 0;
    return fs_option_bad("output-replicas", value, "0 or 1");
  case O_NODE_LOCAL:
    return set_node_local(o, value);
  case O_VERIFY:
    return set_verify(value, &o->verify);
  case O_START_TIMEOUT:
    return number("start-timeout", value, 1, 86400, &o->start_timeout);
  case O_DEADLINE:
    return number("deadline", value, 10, 3600000, &o->deadline_ms);
  default:
    return -EINVAL;
  }
}

static bool set_flag(struct fs_launch_options *o, int id) {
  bool *flag = id == O_READ_ONLY     ? &o->read_only
               : id == O_STATIC      ? &o->supervised
               : id == O_ENV_AS_IS   ? &o->env_as_is
               : id == O_NO_IO_URING ? &o->no_io_uring
               : id == O_PURGE       ? &o->purge
               : id == O_KEEP        ? &o->keep
               : id == O_OVERLAY     ? &o->overlay
               : id == O_DISCARD     ? &o->discard
               : id == O_STAGED      ? &o->staged
               : id == O_OUTPUTS     ? &o->outputs
               : id == O_DAEMON      ? &o->daemon
               : id == O_VERBOSE     ? &o->verbose
               : id == O_DOCTOR      ? &o->doctor
                                     : NULL;
  if (flag) *flag = true;
  return flag != NULL;
}

void fs_option_answer(void (*help)(void)) {
  if (help)
    help();
  else
    printf("fs-launch (FanStore) %s\n", FS_VERSION);
  exit(fflush(stdout) == 0 ? 0 : FS_EXIT_FAILED);
}

static void answer(int id, void (*help)(void)) {
  if (id == O_HELP || id == O_VERSION) fs_option_answer(id == O_HELP ? help : NULL);
}

/* Refuses an option that is given twice: one of the two values would be ignored silently. */
static fs_err once(struct fs_launch_options *o, const struct fs_opt *opts, size_t n, int id) {
  uint64_t bit = 1ull << id;
  for (size_t i = 0; (o->given & bit) && i < n; i++) {
    if (opts[i].id != id) continue;
    fs_say("--%s: give it once", opts[i].name);
    return -EINVAL;
  }
  if (id != O_DATASET && id != O_MOUNT && id != O_NODE_LOCAL) o->given |= bit;
  return 0;
}

static fs_err set_option(struct fs_launch_options *o, const struct fs_opt *opts, size_t n, int id, const char *value) {
  if (set_flag(o, id)) return 0;
  fs_err err = once(o, opts, n, id);
  return err < 0 ? err : set_value(o, id, value);
}

static fs_err on_launch_option(void *ctx, int id, const char *value) {
  answer(id, help_launch);
  return set_option(ctx, launch_opts, FS_ARRAY_LEN(launch_opts), id, value);
}

static fs_err on_clean_option(void *ctx, int id, const char *value) {
  answer(id, help_clean);
  if (id == 0) {
    fs_say("clean takes no argument '%s' (see fs-launch clean --help)", value);
    return -EINVAL;
  }
  return set_option(ctx, clean_opts, FS_ARRAY_LEN(clean_opts), id, value);
}

static int check_nodes(const struct fs_launch_options *o) {
  if ((o->emulate > 0) + (o->hosts != NULL) + (o->hostfile != NULL) <= 1) return -1;
  fs_say("--emulate, --hosts and --hostfile: give one of them");
  return FS_EXIT_USAGE;
}

/* Checks that the options for outputs do not contradict each other. */
static int check_outputs(const struct fs_launch_options *o) {
  const struct {
    const char *name;
    bool given;
  } of_outputs[] = {{"keep", o->keep},
                    {"discard", o->discard},
                    {"stage-out", o->stage_out != NULL},
                    {"stage-in", o->stage_in != NULL},
                    {"output-limit", o->output_limit > 0},
                    {"node-local", o->node_locals > 0},
                    {"overlay", o->overlay},
                    {"output-replicas", o->output_replicas > 0}};
  for (size_t i = 0; o->read_only && i < FS_ARRAY_LEN(of_outputs); i++) {
    if (!of_outputs[i].given) continue;
    fs_say("--%s and --read-only: give one of them", of_outputs[i].name);
    return FS_EXIT_USAGE;
  }
  if (o->discard && (o->keep || o->stage_out)) {
    fs_say("--discard and --%s: give one of them", o->keep ? "keep" : "stage-out");
    return FS_EXIT_USAGE;
  }
  if (!o->keep || !o->stage_out) return 0;
  fs_say("--keep and --stage-out: give one of them (what cannot be staged out is kept)");
  return FS_EXIT_USAGE;
}

/* Checks what --daemon does not go with. */
static int check_daemon(const struct fs_launch_options *o, const char *command) {
  const char *why = NULL;
  if (!o->daemon && o->log) why = "--log: give --daemon with it";
  if (o->daemon && o->doctor) why = "--daemon and --doctor: give one of them";
  if (o->daemon && o->np > 0) why = "--daemon and --np: give one of them (mpirun fs-launch attach runs P programs)";
  if (o->daemon && o->report && strcmp(o->report, "-") == 0) why = "--report -: give a file with --daemon";
  if (o->daemon && command) why = "--daemon and COMMAND: give one of them (fs-launch attach runs COMMAND in the job)";
  if (why) fs_say("%s", why);
  return why ? FS_EXIT_USAGE : 0;
}

int fs_options_parse(struct fs_launch_options *o, int argc, char **argv) {
  int next =
      fs_opt_parse("fs-launch", launch_opts, FS_ARRAY_LEN(launch_opts), argc, argv, 1, true, on_launch_option, o);
  if (next < 0) return FS_EXIT_USAGE;
  if (o->datasets == 0 && !o->doctor) {
    if (next < argc)
      fs_say("--dataset is missing, and '%s' is taken for COMMAND (see fs-launch --help)", argv[next]);
    else
      fs_say("--dataset is missing (see fs-launch --help)");
    return FS_EXIT_USAGE;
  }
  if (check_daemon(o, next < argc ? argv[next] : NULL) != 0) return FS_EXIT_USAGE;
  if (!o->daemon && (next >= argc || argv[next][0] == '\0')) {
    fs_say("COMMAND is missing (see fs-launch --help)");
    return FS_EXIT_USAGE;
  }
  o->command = o->daemon ? NULL : argv + next;
  o->words = argv + 1;
  o->nwords = next - 1 - (next > 1 && strcmp(argv[next - 1], "--") == 0);
  if (check_outputs(o) != 0) return FS_EXIT_USAGE;
  const char *as_is = getenv(FS_ENV_AS_IS), *verify = getenv(FS_ENV_VERIFY);
  if (as_is && as_is[0] != '\0' && strcmp(as_is, "0") != 0) o->env_as_is = true;
  if (!o->verify && verify && set_verify(verify, &o->verify) < 0) return FS_EXIT_USAGE;
  if (!o->verify) o->verify = "remote";
  if (o->replicas == 0) o->replicas = 1;
  if (o->start_timeout == 0) o->start_timeout = 60;
  return check_nodes(o);
}

int fs_options_parse_clean(struct fs_launch_options *o, int argc, char **argv) {
  int next =
      fs_opt_parse("fs-launch clean", clean_opts, FS_ARRAY_LEN(clean_opts), argc, argv, 1, false, on_clean_option, o);
  if (next >= 0 && o->to && !o->outputs) {
    fs_say("--to: give --outputs with it");
    return FS_EXIT_USAGE;
  }
  if (next >= 0 && o->datasets > 0 && !o->staged) {
    fs_say("--except: give --staged with it");
    return FS_EXIT_USAGE;
  }
  return next < 0 ? FS_EXIT_USAGE : check_nodes(o);
}

static fs_err on_doctor_option(void *ctx, int id, const char *value) {
  (void)ctx, (void)value;
  answer(id, help_doctor);
  return 0;
}

int fs_options_parse_doctor(int argc, char **argv) {
  int next = fs_opt_parse("fs-launch doctor", doctor_opts, FS_ARRAY_LEN(doctor_opts), argc, argv, 1, true,
                          on_doctor_option, NULL);
  if (next < 0) return -EINVAL;
  if (next < argc) return next;
  fs_say("FILE is missing (see fs-launch doctor --help)");
  return -EINVAL;
}
