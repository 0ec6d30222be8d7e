/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes the names in the run directory and decides the node of this process. Called by the client,
 * the daemon and fs-launch, also from a library constructor: reads the environment, allocates
 * nothing, prints nothing. No state.
 */
#include "ipc/node.h"

#include <stdlib.h>
#include <string.h>

#include "ipc/layout.h"
#include "util/sys.h"
#include "util/util.h"

/* Appends text to out[0..*n). */
static bool fs_put(char *out, size_t size, size_t *n, const char *text) {
  size_t len = strlen(text);
  if (*n + len + 1 > size) return false;
  memcpy(out + *n, text, len + 1);
  *n += len;
  return true;
}

static bool fs_put_u64(char *out, size_t size, size_t *n, uint64_t v) {
  char text[24], *p = text + sizeof(text) - 1;
  *p = '\0';
  do *--p = (char)('0' + v % 10);
  while ((v /= 10) > 0);
  return fs_put(out, size, n, p);
}

fs_ssize fs_run_name(const char *place, char *out, size_t size) {
  size_t n = 0;
  bool fits = fs_put(out, size, &n, place) && fs_put(out, size, &n, "/fanstore-") &&
              fs_put_u64(out, size, &n, (uint64_t)FS_SYS1(SYS_geteuid, 0));
  return fits ? (fs_ssize)n : -ENAMETOOLONG;
}

static fs_ssize fs_run_file(const char *run, uint32_t node, const char *suffix, char *out, size_t size) {
  size_t n = 0;
  bool fits = fs_put(out, size, &n, run) && fs_put(out, size, &n, "/node-") && fs_put_u64(out, size, &n, node) &&
              fs_put(out, size, &n, suffix);
  return fits ? (fs_ssize)n : -ENAMETOOLONG;
}

fs_ssize fs_run_socket(const char *run, uint32_t node, char *out, size_t size) {
  return fs_run_file(run, node, ".sock", out, size);
}

fs_ssize fs_run_ctl(const char *run, uint32_t node, char *out, size_t size) {
  return fs_run_file(run, node, ".ctl", out, size);
}

fs_ssize fs_run_env(const char *run, uint32_t node, char *out, size_t size) {
  return fs_run_file(run, node, ".env", out, size);
}

fs_ssize fs_run_said(const char *run, uint32_t node, char *out, size_t size) {
  return fs_run_file(run, node, ".said", out, size);
}

fs_ssize fs_memory_local(char *out, size_t size) {
  size_t n = 0;
  bool fits =
      fs_put(out, size, &n, "/dev/shm/fanstore-") && fs_put_u64(out, size, &n, (uint64_t)FS_SYS1(SYS_geteuid, 0));
  return fits ? (fs_ssize)n : -ENAMETOOLONG;
}

fs_ssize fs_memory_backing(const char *backing, char *out, size_t size) {
  const char *slash = strrchr(backing, '/');
  fs_ssize len = fs_memory_local(out, size);
  size_t n = len < 0 ? 0 : (size_t)len;
  bool fits = len > 0 && slash && fs_put(out, size, &n, "/" FS_MEMORY_LOCAL) && fs_put(out, size, &n, slash);
  return fits ? (fs_ssize)n : -ENAMETOOLONG;
}

int fs_verify_parse(const char *word) {
  static const char *const words[] = {
      [FS_VERIFY_NEVER] = "never", [FS_VERIFY_REMOTE] = "remote", [FS_VERIFY_ALWAYS] = "always"};
  for (size_t i = 0; i < FS_ARRAY_LEN(words); i++)
    if (strcmp(word, words[i]) == 0) return (int)i;
  return -EINVAL;
}

int fs_local_io_parse(const char *word) {
  if (strcmp(word, "auto") == 0) return 0;
  return strcmp(word, "cached") == 0   ? (int)FS_CTL_IO_CACHED
         : strcmp(word, "direct") == 0 ? (int)FS_CTL_IO_DIRECT
                                       : -EINVAL;
}

static const char *const fs_rank_names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                            "SLURM_PROCID",         "RANK",      "LOCAL_RANK"};

static bool fs_several(const char *name) {
  const char *number = getenv(name);
  uint64_t n;
  return number && fs_parse_u64(number, 2, UINT32_MAX, &n) == 0;
}

/* Returns a rank that a launcher has set, or NULL. A batch script of Slurm also has SLURM_PROCID, and
   so has what it starts without srun: their ranks come from another launcher. If a step has several
   nodes, they are slurmds on one host, and are the job's nodes. */
static const char *fs_rank_of(const char *name) {
  if (strcmp(name, "SLURM_PROCID") != 0) return getenv(name);
  if (!fs_several("SLURM_STEP_NUM_TASKS")) return NULL;
  return getenv(fs_several("SLURM_STEP_NUM_NODES") ? "SLURM_NODEID" : name);
}

uint32_t fs_node_decide(enum fs_node_source *source) {
  enum fs_node_source ignored;
  uint64_t node, nodes;
  const char *named = getenv(FS_ENV_NODE), *emulate = getenv(FS_ENV_EMULATE);
  if (!source) source = &ignored;
  *source = FS_NODE_NAMED;
  if (named && fs_parse_u64(named, 0, FS_MAX_NODES - 1, &node) == 0) return (uint32_t)node;
  *source = FS_NODE_BY_RANK;
  if (emulate && fs_parse_u64(emulate, 1, FS_MAX_NODES, &nodes) == 0) {
    for (size_t i = 0; i < FS_ARRAY_LEN(fs_rank_names); i++) {
      const char *rank = fs_rank_of(fs_rank_names[i]);
      if (rank && fs_parse_u64(rank, 0, UINT32_MAX, &node) == 0) return (uint32_t)(node % nodes);
    }
  }
  *source = FS_NODE_DEFAULT;
  return 0;
}
