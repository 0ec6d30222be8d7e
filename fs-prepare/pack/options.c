/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of `fs-prepare pack`. One thread. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "choose.h"
#include "pack.h"

enum {
  OPT_PARTITIONS = FS_OPT_OWN,
  OPT_CODEC,
  OPT_DECODE_BUDGET,
  OPT_BLOCK_SIZE,
  OPT_REPLICATE,
  OPT_EXCLUDE,
  OPT_JOBS,
  OPT_MOUNT,
  OPT_ALIGN,
  OPT_DEREFERENCE,
  OPT_ORDER,
  OPT_SOURCE,
  OPT_SHARDS,
  OPT_FILES_FROM,
  OPT_NULL,
  OPT_KEEP_GOING,
  OPT_FORCE,
  OPT_LEFT_OUT,
  OPT_JSON_PROGRESS,
  OPT_UPDATE,
  OPT_CHECKSUM,
  OPT_RESTART,
  OPT_LOCAL_DIR,
  OPT_HOSTS,
  OPT_HOSTFILE,
  OPT_EMULATE,
  OPT_NETWORK,
  OPT_NODES_ONLY,
  OPT_START_TIMEOUT,
  OPT_NODE_TIMEOUT,
  OPT_VERBOSE
};

static const struct fs_opt options[] = {
    {"partitions", 0, "N",
     "number of partitions (default: one a GiB, at least 8; more than 64\nonly above 4 TiB, one per 64 GiB)",
     OPT_PARTITIONS},
    {"codec", 0, "CODEC",
     "auto, raw, lz4, lz4hc[:LEVEL] or zstd[:LEVEL] (default auto: what is the\nsmallest for samples of each kind of "
     "files, within --decode-budget)",
     OPT_CODEC},
    {"decode-budget", 0, "BUDGET",
     "for auto: a core must decode as fast (2GB/s), or decoding may take such a\npart of the time of reading (10%); "
     "default: as long as is saved by reading less",
     OPT_DECODE_BUDGET},
    {"block-size", 0, "SIZE", "plain bytes of a block: a power of two, 16K to 16M (default 256K)", OPT_BLOCK_SIZE},
    {"replicate", 0, "GLOB", "put what matches on every node (repeatable)", OPT_REPLICATE},
    {"exclude", 0, "GLOB", "leave out what matches (repeatable)", OPT_EXCLUDE},
    {"jobs", 'j', "N", "number of threads (default: one a CPU)", OPT_JOBS},
    {"mount", 0, "PATH", "where the dataset will appear (default: SOURCE's absolute path)", OPT_MOUNT},
    {"align", 0, "SIZE", "alignment of large raw files: 4K or 64K (default 4K)", OPT_ALIGN},
    {"dereference", 0, "WHICH",
     "all: pack what symlinks lead to in their place\noutside: only of those that lead outside of SOURCE",
     OPT_DEREFERENCE},
    {"order", 0, "ORDER", "order in the partitions: path, shuffle or size (largest first; default path)", OPT_ORDER},
    {"source", 0, "PREFIX=PATH", "pack the directory or archive PATH as the directory PREFIX (repeatable)", OPT_SOURCE},
    {"shards", 0, "HOW",
     "nest: each SOURCE into a directory of its name (default for several)\nmerge: all into one tree", OPT_SHARDS},
    {"files-from", 0, "FILE", "pack only the names that FILE lists, or standard input if FILE is -", OPT_FILES_FROM},
    {"null", '0', NULL, "names of --files-from end with NUL, not newline", OPT_NULL},
    {"keep-going", 'k', NULL, "leave out what cannot be packed or changes; the exit status is then 3", OPT_KEEP_GOING},
    {"left-out", 0, "FILE", "like --keep-going, and write the names that are left out to FILE", OPT_LEFT_OUT},
    {"json-progress", 0, "FILE",
     "each second, write a line with a JSON object to FILE; -: to standard\nerror, instead of other progress",
     OPT_JSON_PROGRESS},
    {"force", 'f', NULL, "replace an existing dataset", OPT_FORCE},
    {"update", 'u', NULL, "keep what DATASET has of SOURCE already; pack what is new or changed", OPT_UPDATE},
    {"checksum", 'c', NULL, "with --update: compare contents, not sizes and times", OPT_CHECKSUM},
    {"restart", 0, NULL, "begin anew what was interrupted", OPT_RESTART},
    {"local-dir", 'l', "DIR",
     "pack on several nodes, straight into this directory on each, where\nfs-launch --local-dir finds the partitions",
     OPT_LOCAL_DIR},
    {"hosts", 0, "A,B,...",
     "with --local-dir: one node on each of these hosts (default: the nodes\nof the Slurm job, "
     "else this host)",
     OPT_HOSTS},
    {"hostfile", 0, "FILE", "with --local-dir: one node on each host named there, one a line", OPT_HOSTFILE},
    {"emulate", 0, "N", "with --local-dir: N nodes (1 to 64) on this host", OPT_EMULATE},
    {"network", 0, "IFACE|CIDR", "between hosts: use this network interface, or the one in this network", OPT_NETWORK},
    {"nodes-only", 0, NULL, "with --local-dir: no partitions in DATASET, only on the nodes", OPT_NODES_ONLY},
    {"start-timeout", 0, "SECONDS", "give up if the nodes have not started after so long (default 60)",
     OPT_START_TIMEOUT},
    {"node-timeout", 0, "SECONDS", "give up if a node has not answered for so long (default 60)", OPT_NODE_TIMEOUT},
    {"verbose", 'v', NULL, "with --local-dir: show what mpirun prints, and how fast SOURCE was listed", OPT_VERBOSE},
    FS_OPT_COMMON,
};

static const char about[] =
    "Packs SOURCE, a directory or an archive (tar, also compressed; zip), into a new dataset, the directory DATASET.\n"
    "It appears only when it is complete.\n"
    "A run that was interrupted is resumed by the same command.\n"
    "A GLOB without '/' is matched against the last component, others against the path below SOURCE; '*' does not\n"
    "match '/', '**' does. What matches a directory holds for all below it.";

static fs_err bad(const char *option, const char *value, const char *instead) {
  fs_say("pack: --%s '%s': %s", option, value, instead);
  return -EINVAL;
}

#define FS_ZSTD_LEVEL 3 /* zstd's own default */

fs_err fs_pack_codec(struct fs_pack_options *o, const char *value) {
  uint64_t level = strncmp(value, "zstd", 4) == 0 ? FS_ZSTD_LEVEL : 9;
  if (strcmp(value, "auto") == 0)
    o->codec = FS_CHOOSE_AUTO;
  else if (strcmp(value, "raw") == 0)
    o->codec = FS_CHOOSE_RAW;
  else if (strcmp(value, "lz4") == 0)
    o->codec = FS_CHOOSE_LZ4;
  else if (strcmp(value, "lz4hc") == 0 ||
           (strncmp(value, "lz4hc:", 6) == 0 && fs_parse_u64(value + 6, 1, 12, &level) == 0))
    o->codec = FS_CHOOSE_LZ4HC;
  else if (strcmp(value, "zstd") == 0 ||
           (strncmp(value, "zstd:", 5) == 0 && fs_parse_u64(value + 5, 1, FS_ZSTD_LEVEL_MAX, &level) == 0))
    o->codec = FS_CHOOSE_ZSTD;
  else
    return -EINVAL;
  o->level = (int)level;
  snprintf(o->codec_text, sizeof o->codec_text, "%.31s", value);
  return 0;
}

static fs_err set_codec(struct fs_pack_options *o, const char *value) {
  o->given.codec = true;
  if (fs_pack_codec(o, value) == 0) return 0;
  return bad("codec", value, "give auto, raw, lz4, lz4hc[:1 to 12] or zstd[:1 to 22]");
}

/* Reads a rate, as 2GB/s or 500MB/s, or a part of the time of reading, as 10%. */
static fs_err set_decode_budget(struct fs_pack_options *o, const char *value) {
  static const struct {
    const char *unit;
    double rate;
  } units[] = {{"GB/s", 1e9}, {"MB/s", 1e6}, {"%", 0}};
  char *unit = NULL;
  const double n = strtod(value, &unit);
  double rate = 0;
  for (size_t i = 0; i < FS_ARRAY_LEN(units) && n > 0; i++)
    if (strcmp(unit, units[i].unit) == 0) rate = units[i].rate > 0 ? n * units[i].rate : FS_READ_RATE * 100 / n;
  if (!(rate >= 1e6 && rate <= 1e12))
    return bad("decode-budget", value, "give a rate as 2GB/s or 500MB/s, or a part as 10%");
  o->decode_rate = (uint64_t)rate;
  return 0;
}

static fs_err set_size(const char *option, const char *value, uint64_t min, uint64_t max, uint32_t *out,
                       const char *instead) {
  uint64_t n;
  if (fs_parse_size(value, &n) < 0 || n < min || n > max || !fs_is_pow2(n)) return bad(option, value, instead);
  *out = (uint32_t)n;
  return 0;
}

static fs_err set_mount(struct fs_pack_options *o, const char *value) {
  fs_ssize n = fs_path_normalize(value, o->mount, sizeof o->mount);
  if (n == -EINVAL) return bad("mount", value, "the path is relative; give an absolute one");
  if (n < 0) return bad("mount", value, "the path is too long");
  if (n == 1) return bad("mount", value, "a dataset cannot appear at the root directory");
  return 0;
}

fs_err fs_pack_dereference(struct fs_pack_options *o, const char *value) {
  if (strcmp(value, "all") == 0)
    o->dereference = FS_DEREF_ALL;
  else if (strcmp(value, "outside") == 0)
    o->dereference = FS_DEREF_OUTSIDE;
  else
    return bad("dereference", value, "give all or outside");
  return 0;
}

static fs_err set_order(struct fs_pack_options *o, const char *value) {
  if (strcmp(value, "path") == 0)
    o->order = FS_ORDER_PATH;
  else if (strcmp(value, "shuffle") == 0)
    o->order = FS_ORDER_SHUFFLE;
  else if (strcmp(value, "size") == 0)
    o->order = FS_ORDER_SIZE;
  else
    return bad("order", value, "give path, shuffle or size");
  return 0;
}

static fs_err set_nodes(struct fs_pack_options *o, int id, const char *value) {
  switch (id) {
  case OPT_LOCAL_DIR:
    o->local_dir = value;
    return value[0] != '\0' ? 0 : bad("local-dir", value, "the path is empty");
  case OPT_HOSTS:
    o->hosts = value;
    return 0;
  case OPT_HOSTFILE:
    o->hostfile = value;
    return 0;
  case OPT_EMULATE:
    return fs_parse_u64(value, 1, 64, &o->emulate) < 0 ? bad("emulate", value, "give a number from 1 to 64") : 0;
  case OPT_NETWORK:
    o->network = value;
    return 0;
  case OPT_NODES_ONLY:
    o->nodes_only = true;
    return 0;
  case OPT_START_TIMEOUT:
    if (fs_parse_u64(value, 1, 86400, &o->start_timeout) == 0) return 0;
    return bad("start-timeout", value, "give a number from 1 to 86400");
  case OPT_NODE_TIMEOUT:
    if (fs_parse_u64(value, 5, 86400, &o->node_timeout) == 0) return 0;
    return bad("node-timeout", value, "give a number from 5 to 86400");
  case OPT_VERBOSE:
    o->verbose = true;
    return 0;
  default:
    return -EINVAL;
  }
}

/* Checks the options of a pack over nodes. */
static fs_err check_nodes(const struct fs_pack_options *o) {
  const char *given = o->hosts != NULL      ? "hosts"
                      : o->hostfile != NULL ? "hostfile"
                      : o->emulate != 0     ? "emulate"
                      : o->nodes_only       ? "nodes-only"
                                            : NULL;
  if (o->local_dir == NULL && given != NULL) {
    fs_say("pack: --%s: give the nodes' directory with --local-dir", given);
    return -EINVAL;
  }
  if (o->local_dir != NULL && o->files_from != NULL && strcmp(o->files_from, "-") == 0) {
    fs_say("pack: --files-from -: with --local-dir, name a file");
    return -EINVAL;
  }
  if ((o->hosts != NULL) + (o->hostfile != NULL) + (o->emulate != 0) < 2) return 0;
  fs_say("pack: give only one of --hosts, --hostfile and --emulate");
  return -EINVAL;
}

static fs_err set(void *ctx, int id, const char *value) {
  struct fs_pack_options *o = ctx;
  switch (id) {
  case FS_OPT_WORD:
    return fs_pack_add_source(o, NULL, value);
  case OPT_SOURCE:
    return fs_pack_set_source(o, "source", value);
  case OPT_SHARDS:
    return fs_pack_set_shards(o, value);
  case OPT_FILES_FROM:
    o->files_from = value;
    return 0;
  case OPT_NULL:
    o->null = true;
    return 0;
  case OPT_PARTITIONS:
    if (fs_parse_u64(value, 1, FS_MAX_PARTITIONS - 64, &o->partitions) < 0)
      return bad("partitions", value, "give a number from 1 to 65472");
    return 0;
  case OPT_CODEC:
    return set_codec(o, value);
  case OPT_DECODE_BUDGET:
    return set_decode_budget(o, value);
  case OPT_BLOCK_SIZE:
    o->given.block_size = true;
    return set_size("block-size", value, FS_BLOCK_SIZE_MIN, FS_BLOCK_SIZE_MAX, &o->block_size,
                    "give a power of two from 16K to 16M");
  case OPT_ALIGN:
    o->given.align = true;
    if (set_size("align", value, 4096, 65536, &o->align, "give 4K or 64K") < 0) return -EINVAL;
    return o->align == 4096 || o->align == 65536 ? 0 : bad("align", value, "give 4K or 64K");
  case OPT_REPLICATE:
    return fs_globs_add(&o->replicate, "pack", "replicate", value);
  case OPT_EXCLUDE:
    return fs_globs_add(&o->exclude, "pack", "exclude", value);
  case OPT_JOBS:
    return fs_prep_jobs(value, &o->jobs);
  case OPT_MOUNT:
    o->given.mount = true;
    return set_mount(o, value);
  case OPT_DEREFERENCE:
    return fs_pack_dereference(o, value);
  case OPT_ORDER:
    return set_order(o, value);
  case OPT_FORCE:
    o->force = true;
    return 0;
  case OPT_LEFT_OUT:
    o->left_out = value;
    o->keep_going = true;
    return 0;
  case OPT_KEEP_GOING:
    o->keep_going = true;
    return 0;
  case OPT_JSON_PROGRESS:
    o->json_progress = value;
    return 0;
  case OPT_UPDATE:
    o->update = true;
    return 0;
  case OPT_CHECKSUM:
    o->checksum = true;
    return 0;
  case OPT_RESTART:
    o->restart = true;
    return 0;
  default:
    return set_nodes(o, id, value);
  }
}

fs_err fs_pack_options_parse(struct fs_pack_options *o, int argc, char **argv) {
  *o = (struct fs_pack_options){.command = "pack",
                                .codec = FS_CHOOSE_AUTO,
                                .codec_text = "auto",
                                .level = 9,
                                .block_size = FS_BLOCK_SIZE_DEFAULT,
                                .align = FS_ALIGN,
                                .start_timeout = 60,
                                .node_timeout = 60,
                                .jobs = fs_sys_cpus()};
  struct fs_prep_cli cli = {.command = "pack",
                            .synopsis = FS_PACK_SYNOPSIS,
                            .forms = {"[options] --source PREFIX=PATH... [SOURCE...] DATASET",
                                      "[options] --files-from FILE SOURCE DATASET",
                                      "--update [options] SOURCE... DATASET",
                                      "--local-dir DIR [options] SOURCE... [DATASET]    (on several nodes)"},
                            .about = about,
                            .opts = options,
                            .nopts = FS_ARRAY_LEN(options),
                            .set = set,
                            .ctx = o};
  fs_err err = fs_prep_parse(&cli, argc, argv);
  if (err == 0) err = check_nodes(o);
  if (err < 0) return err;
  if (o->decode_rate != 0 && o->codec != FS_CHOOSE_AUTO)
    return bad("codec", o->codec_text, "--decode-budget is for --codec auto only; leave one of them out");
  if (o->checksum && !o->update) {
    fs_say("pack: --checksum is for --update; give both or neither");
    return -EINVAL;
  }
  if (o->force && o->update) {
    fs_say("pack: --force replaces the dataset and --update keeps what is in it; give one of them");
    return -EINVAL;
  }
  return fs_pack_take_words(o);
}

void fs_pack_options_free(struct fs_pack_options *o) {
  fs_globs_free(&o->replicate);
  fs_globs_free(&o->exclude);
  fs_pack_free_sources(o);
}
