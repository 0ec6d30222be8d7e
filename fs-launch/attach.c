/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch attach: becomes a program in the environment of a running job, on any host of the job.
 * fs-launch env: prints this environment, for shells or as options of container runtimes
 * (container.c). docs/internals/attach.md describes both. One thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

#define FS_NODES_TEXT 200

/* Variables that fs_env_set sets or removes. */
static const char *const shown[] = {
    FS_ENV_DATASET,          FS_ENV_MOUNT,  FS_ENV_RUN,   FS_ENV_NODE,     FS_ENV_EMULATE,
    FS_ENV_READ_ONLY,        FS_ENV_VERIFY, FS_ENV_AS_IS, FS_ENV_IO_URING, FS_ENV_PREFETCH_BYTES,
    "HDF5_USE_FILE_LOCKING", "LD_PRELOAD",  "PYTHONPATH"};

const char *fs_env_shown(size_t i) {
  return i < FS_ARRAY_LEN(shown) ? shown[i] : NULL;
}

static int tell_closed(const struct fs_job *job) {
  fs_say("%s: no program can join this job here: it starts, ends, or has no daemon on this host", job->name);
  return FS_EXIT_FAILED;
}

static int tell_other_node(const struct fs_job *job, const bool here[FS_MAX_NODES], int node) {
  char list[FS_NODES_TEXT] = "";
  size_t n = 0;
  for (unsigned i = 0; i < FS_MAX_NODES && n + 16 < sizeof(list); i++)
    if (here[i]) n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%u", n > 0 ? ", " : "", i);
  fs_say("%s has no node %d on this host (there is: %s)", job->name, node, list);
  return FS_EXIT_USAGE;
}

/* Finds the job, and the environment of this node, or of the first one on this host if node is
   negative: they differ in nothing that programs see. Returns 0 or the exit status. */
static int find(const char *word, struct fs_job *job, int node, struct fs_launch_env *e) {
  bool here[FS_MAX_NODES] = {false};
  int status = fs_jobs_find(word, job);
  if (status != 0) return status;
  if (fs_env_nodes(job->run, true, here) == 0) return tell_closed(job);
  if (node >= 0 && !here[node]) return tell_other_node(job, here, node);
  for (int i = 0; node < 0; i++)
    if (here[i]) node = i;
  fs_err err = fs_env_read(job->run, (unsigned)node, e);
  if (err == 0) return 0;
  if (err == -ENOENT) return tell_closed(job);
  fs_say("%s/node-%d.env: %s", job->run, node, err == -EPROTO ? "it is of another FanStore" : strerror(-err));
  return FS_EXIT_FAILED;
}

static bool same_directory(const char *a, const char *b) {
  struct stat x, y;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Sets the environment of the job's node. FANSTORE_RUN is spelled as the daemon spells it, because
   the job finds its programs by it. Returns 0 or the exit status. */
static int join(struct fs_join *j) {
  int status = find(j->word, &j->job, j->node, &j->env);
  if (status != 0) return status;
  const char *run = same_directory(j->env.value[FS_WORD_RUN], j->job.run) ? j->env.value[FS_WORD_RUN] : j->job.run;
  return fs_env_set(&j->env, run, j->node);
}

/* Returns true if programs can still join the node that fs_env_set has chosen. */
static bool is_open(const struct fs_job *job) {
  bool here[FS_MAX_NODES] = {false};
  const char *node = getenv(FS_ENV_NODE);
  uint64_t k = 0;
  return fs_env_nodes(job->run, true, here) > 0 &&
         (!node || (fs_parse_u64(node, 0, FS_MAX_NODES - 1, &k) == 0 && here[k]));
}

int fs_attach(int argc, char **argv) {
  struct fs_join j = {.node = -1};
  char *shell[] = {getenv("SHELL"), NULL};
  int next = fs_options_parse_attach(&j, argc, argv);
  if (next < 0) return FS_EXIT_USAGE;
  int status = join(&j);
  if (status != 0) return status;
  if (!shell[0] || shell[0][0] == '\0') shell[0] = (char *)"/bin/sh";
  return is_open(&j.job) ? fs_env_become(&j.env, next < argc ? argv + next : shell) : tell_closed(&j.job);
}

/* Prints the value for sh: in single quotes. */
static void print_quoted(const char *value) {
  putchar('\'');
  for (; *value; value++) {
    if (*value == '\'')
      fputs("'\\''", stdout);
    else
      putchar(*value);
  }
  putchar('\'');
}

/* What is not set is removed: the shell may have it from another job. */
static void print_exports(void) {
  for (size_t i = 0; i < FS_ARRAY_LEN(shown); i++) {
    const char *value = getenv(shown[i]);
    if (!value && strncmp(shown[i], "FANSTORE_", 9) == 0) printf("unset %s\n", shown[i]);
    if (!value) continue;
    printf("export %s=", shown[i]);
    print_quoted(value);
    putchar('\n');
  }
}

int fs_env(int argc, char **argv) {
  struct fs_join j = {.node = -1};
  int status = fs_options_parse_env(&j, argc, argv);
  if (status >= 0) return status;
  const struct fs_container *kind = j.container ? fs_container_find(j.container) : NULL;
  for (size_t i = 0; kind && i < 2; i++) unsetenv(i == 0 ? "LD_PRELOAD" : "PYTHONPATH"); /* the image has its own */
  status = join(&j);
  if (status == 0 && kind) status = fs_container_print(kind, &j);
  if (status == 0 && !kind) print_exports();
  if (status != 0 || fflush(stdout) == 0) return status;
  fs_say("stdout: %s", strerror(errno));
  return FS_EXIT_FAILED;
}
