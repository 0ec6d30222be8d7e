/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fanstored: one process, which is one MPI rank, on each node of a job. Reads its options and
 * enters libfanstore/daemon. fs-launch starts it under mpirun; docs/fanstored.1 tells how to start
 * it by hand.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/daemon.h"
#include "ipc/node.h"
#include "ipc/rundir.h"
#include "util/network.h"
#include "util/own.h"
#include "util/util.h"

#define FS_DEADLINE_DEFAULT_MS 3000u

enum {
  OPT_JOB = 1,
  OPT_LOCAL_DIR,
  OPT_EMULATE,
  OPT_CACHE,
  OPT_DEADLINE,
  OPT_VERIFY,
  OPT_DATASET,
  OPT_MOUNT,
  OPT_READ_ONLY,
  OPT_OVERLAY,
  OPT_KEEP,
  OPT_CACHE_DISK,
  OPT_FILL,
  OPT_STAGE_OUT,
  OPT_IN_PLACE,
  OPT_OUTPUT_LIMIT,
  OPT_STAGE_IN,
  OPT_OUTPUT_REPLICAS,
  OPT_LOCAL_IO,
  OPT_NODE_LOCAL,
  OPT_LOCAL_DEFAULT,
  OPT_ENV,
  OPT_PEERS,
  OPT_NETWORK,
  OPT_VERBOSE,
  OPT_HELP,
  OPT_VERSION
};

static const struct fs_opt options[] = {
    {"job", 0, "NAME", "name of the job: the same on all ranks, different for each job", OPT_JOB},
    {"local-dir", 0, "DIR", "node-local storage", OPT_LOCAL_DIR},
    {"local-default", 0, NULL, "nobody chose DIR: when it is another user's, DIR.XXXXXX is taken", OPT_LOCAL_DEFAULT},
    {"dataset", 0, "DIR", "a dataset (repeatable)", OPT_DATASET},
    {"mount", 0, "PATH", "where the dataset before it is seen (default: its own mount)", OPT_MOUNT},
    {"emulate", 0, "N", "all N ranks run on this host, each with a directory of its own", OPT_EMULATE},
    {"cache", 0, "SIZE", "memory for blocks of other nodes (default 1G, or less)", OPT_CACHE},
    {"cache-disk", 0, "SIZE", "room on the local disk for blocks that memory has no room for, or auto", OPT_CACHE_DISK},
    {"fill", 0, NULL, "fetch other nodes' blocks while nobody reads, as many as the cache holds", OPT_FILL},
    {"deadline", 0, "MS", "how long a client waits for a block (default 3000)", OPT_DEADLINE},
    {"verify", 0, "WHICH", "compare what other nodes send with its checksums: remote (default), always; or never",
     OPT_VERIFY},
    {"output-replicas", 0, "N", "1: output files are on one more node when close and fsync return",
     OPT_OUTPUT_REPLICAS},
    {"local-io", 0, "HOW", "cached, direct, or auto: directly what memory has no room for (default)", OPT_LOCAL_IO},
    {"read-only", 0, NULL, "refuse all writing below the mounts", OPT_READ_ONLY},
    {"overlay", 0, NULL, "programs may replace, change and remove the datasets' files, for this job", OPT_OVERLAY},
    {"keep", 0, NULL, "keep output files when the launcher is gone", OPT_KEEP},
    {"stage-out", 0, "DIR", "copy output files there, by name", OPT_STAGE_OUT},
    {"in-place", 0, "INODE", "with --stage-out: replace nothing there but copies of this job", OPT_IN_PLACE},
    {"output-limit", 0, "SIZE", "room for output files on this node (default: all there is)", OPT_OUTPUT_LIMIT},
    {"stage-in", 0, "DIR", "what is there are output files from the start", OPT_STAGE_IN},
    {"node-local", 0, "GLOB", "files of such names are each node's own (repeatable; default: none)", OPT_NODE_LOCAL},
    {"env", 0, "NAME=VALUE", "a word for the environment of programs that join the job (repeatable)", OPT_ENV},
    {"peers", 0, "A,B", "use the network interface that routes to these hosts", OPT_PEERS},
    {"network", 0, "IFACE|CIDR", "with --peers: use this interface, or the one in this network", OPT_NETWORK},
    {"verbose", 0, NULL, "tell when nodes stop or start to answer", OPT_VERBOSE},
    {"help", 'h', NULL, "show this help", OPT_HELP},
    {"version", 0, NULL, "show the version", OPT_VERSION},
};

static fs_err bad(const char *what, const char *value) {
  fprintf(stderr, "fanstored: %s '%s' (see fanstored --help)\n", what, value);
  return -EINVAL;
}

static fs_err usage(void) {
  printf("Usage: mpirun [...] fanstored --job NAME --local-dir DIR --dataset DIR [--mount PATH] ...\n"
         "Serves a node's part of the datasets to the other nodes. Started by fs-launch.\n\n");
  fs_opt_help(stdout, options, FS_ARRAY_LEN(options));
  exit(0);
}

static fs_err on_number(struct fs_daemon_config *c, int id, const char *value) {
  uint64_t n;
  switch (id) {
  case OPT_EMULATE:
    if (fs_parse_u64(value, 0, FS_MAX_NODES, &n) < 0) return bad("--emulate", value);
    c->emulate = (uint32_t)n;
    return 0;
  case OPT_DEADLINE:
    if (fs_parse_u64(value, 10, 3600000, &n) < 0) return bad("--deadline: 10 to 3600000 ms, not", value);
    c->deadline_ns = n * 1000000;
    return 0;
  case OPT_OUTPUT_LIMIT:
    return fs_parse_size(value, &c->output_limit) < 0 ? bad("--output-limit", value) : 0;
  case OPT_CACHE_DISK:
    if (strcmp(value, "auto") == 0) c->cache_disk = FS_DISK_AUTO;
    return c->cache_disk == 0 && fs_parse_size(value, &c->cache_disk) < 0 ? bad("--cache-disk", value) : 0;
  case OPT_IN_PLACE:
    return fs_parse_u64(value, 1, UINT64_MAX, &c->in_place) < 0 ? bad("--in-place", value) : 0;
  case OPT_OUTPUT_REPLICAS:
    if (fs_parse_u64(value, 0, 1, &n) < 0) return bad("--output-replicas: 0 or 1, not", value);
    c->replicas = n > 0;
    return 0;
  default:
    if (fs_parse_size(value, &c->cache_bytes) < 0) return bad("--cache", value);
    return 0;
  }
}

static fs_err on_dataset(struct fs_daemon_config *c, int id, const char *value) {
  if (id == OPT_DATASET) {
    if (c->datasets == FS_MAX_DATASETS) return bad("too many datasets:", value);
    c->dataset[c->datasets++] = value;
    return 0;
  }
  if (c->datasets == 0 || c->mount[c->datasets - 1]) return bad("--mount without a --dataset before it:", value);
  c->mount[c->datasets - 1] = value;
  return 0;
}

static fs_err on_node_local(struct fs_daemon_config *c, const char *value) {
  size_t bytes = 1 + strlen(value) + 1;
  for (uint32_t i = 0; i < c->node_locals; i++) bytes += strlen(c->node_local[i]) + 1;
  if (c->node_locals == FS_NODE_LOCALS || bytes > FS_NL_GLOBS) return bad("too many patterns of --node-local:", value);
  c->node_local[c->node_locals++] = value;
  return 0;
}

static const char *peers, *network;

static fs_err on_option(void *ctx, int id, const char *value) {
  struct fs_daemon_config *c = ctx;
  switch (id) {
  case OPT_JOB:
    c->job = value;
    return fs_job_name_ok(value) ? 0 : bad("--job", value);
  case OPT_LOCAL_DIR:
    c->local_dir = value;
    return value[0] == '/' ? 0 : bad("--local-dir must be an absolute path, not", value);
  case OPT_DATASET:
  case OPT_MOUNT:
    return on_dataset(c, id, value);
  case OPT_LOCAL_DEFAULT:
    c->local_default = true;
    return 0;
  case OPT_READ_ONLY:
    c->read_only = true;
    return 0;
  case OPT_OVERLAY:
    c->overlay = true;
    return 0;
  case OPT_FILL:
    c->fill = true;
    return 0;
  case OPT_KEEP:
    c->keep = true;
    return 0;
  case OPT_STAGE_OUT:
    c->stage_out = value;
    return value[0] == '/' ? 0 : bad("--stage-out must be an absolute path, not", value);
  case OPT_STAGE_IN:
    c->stage_in = value;
    return value[0] == '/' ? 0 : bad("--stage-in must be an absolute path, not", value);
  case OPT_VERIFY:
    if (fs_verify_parse(value) < 0) return bad("--verify: always, remote or never, not", value);
    c->unverified = fs_verify_parse(value) == FS_VERIFY_NEVER;
    return 0;
  case OPT_LOCAL_IO:
    if (fs_local_io_parse(value) < 0) return bad("--local-io: cached, direct or auto, not", value);
    c->local_io = (uint32_t)fs_local_io_parse(value);
    return 0;
  case OPT_NODE_LOCAL:
    return on_node_local(c, value);
  case OPT_ENV:
    if (c->envs == FS_DAEMON_ENVS) return bad("too many words of --env:", value);
    c->env[c->envs++] = value;
    return 0;
  case OPT_PEERS:
    peers = value;
    return 0;
  case OPT_NETWORK:
    network = value;
    return fs_network_ok(value) ? 0 : bad("--network", value);
  case OPT_VERBOSE:
    c->verbose = true;
    return 0;
  case OPT_HELP:
    return usage();
  case OPT_VERSION:
    printf("fanstored %s\n", FS_VERSION);
    exit(0);
  case 0:
    return bad("unexpected word", value);
  default:
    return on_number(c, id, value);
  }
}

/* Chooses the interface for Open MPI and UCX, and writes its addresses: they may use any of them. If
   the choice is not ours, writes all addresses of this host. */
static fs_err choose_network(char *said, size_t size) {
  struct fs_network n = {.family = 0};
  said[0] = '\0';
  if (!peers) return 0;
  if (network && fs_network_find(network, &n, said, size) < 0) return -ENODEV;
  bool set = !network && (fs_network_is_set("btl_tcp_if_") || getenv("UCX_NET_DEVICES"));
  if (!network && fs_network_route(peers, &n) < 0) n.family = 0;
  fs_network_list(n.family != 0 && !set ? n.name : NULL, said, size);
  if (n.family != 0) fs_network_set(&n, network != NULL, network != NULL);
  return 0;
}

int main(int argc, char **argv) {
  struct fs_daemon_config c = {.deadline_ns = FS_DEADLINE_DEFAULT_MS * 1000000ull};
  static char local[PATH_MAX], said[2 * FS_NETWORK_LIST];
  const char *why;
  if (fs_opt_parse("fanstored", options, FS_ARRAY_LEN(options), argc, argv, 1, false, on_option, &c) < 0) return 2;
  if (!c.job || !c.local_dir || c.datasets == 0) {
    fprintf(stderr, "fanstored: --job, --local-dir and --dataset are needed (see fanstored --help)\n");
    return 2;
  }
  if (c.cache_bytes == 0) c.cache_bytes = fs_memory_cache_default(fs_memory_all(), c.emulate);
  fs_err err = choose_network(said, sizeof(said));
  fs_say_begun(err == 0 ? said : "");
  if (err < 0) {
    fs_say_failed(said);
    return 1;
  }
  if (c.local_default && fs_own_get(c.local_dir, true, local, sizeof(local)) == 0) c.local_dir = local;
  fs_run_prefer(c.local_default ? NULL : c.local_dir);
  struct fs_net *net = fs_net_mpi_open(&argc, &argv, &why);
  if (!net) {
    fprintf(stderr, "fanstored: %s\n", why);
    return 1;
  }
  return fs_daemon_run(&c, net);
}
