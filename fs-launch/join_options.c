/* SPDX-License-Identifier: BSD-3-Clause */
/* The command lines of fs-launch attach, env and stop. One table for each serves the parser and the
   help. One thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch.h"

enum { O_NODE = 1, O_CONTAINER, O_HELP };

#define HELP_NODE                                                                                                      \
  { "node", 0, "K", "be on node K, if the job has several on this host", O_NODE }
#define HELP_HELP                                                                                                      \
  { "help", 'h', NULL, "show this help", O_HELP }

static const struct fs_opt attach_opts[] = {HELP_NODE, HELP_HELP};
static const struct fs_opt env_opts[] = {
    HELP_NODE,
    {"container", 0, "KIND", "print options for docker, podman, apptainer, charliecloud or enroot", O_CONTAINER},
    HELP_HELP,
};
static const struct fs_opt stop_opts[] = {HELP_HELP};

#define HELP_JOB                                                                                                       \
  "JOB is a name that fs-launch --daemon has printed, or a run directory. Without JOB it is the job\n"                 \
  "whose COMMAND calls fs-launch, else your only job on this host.\n\nOptions:\n"

static void help_attach(void) {
  printf("usage: fs-launch attach [JOB] [options] [--] [COMMAND [ARG...]]\n\n"
         "Runs COMMAND, or your shell, on this host as a program of a running job: it sees the mounts. Its exit\n"
         "status is COMMAND's own; 125 if it cannot join the job. " HELP_JOB);
  fs_opt_help(stdout, attach_opts, FS_ARRAY_LEN(attach_opts));
}

static void help_env(void) {
  printf("usage: fs-launch env [JOB] [options]\n\n"
         "Prints the environment of a running job's programs on this host as export lines for sh. With --container\n"
         "it prints options of a container runtime, in one line: docker run $(fs-launch env --container docker)\n"
         "IMAGE COMMAND. " HELP_JOB);
  fs_opt_help(stdout, env_opts, FS_ARRAY_LEN(env_opts));
}

static void help_stop(void) {
  printf("usage: fs-launch stop [JOB]\n\n"
         "Ends a job of fs-launch --daemon: ends programs that still run, saves outputs, prints the summary. The\n"
         "exit status is 0, or 125 if outputs that were to be saved are not saved. " HELP_JOB);
  fs_opt_help(stdout, stop_opts, FS_ARRAY_LEN(stop_opts));
}

static fs_err set_node(struct fs_join *j, const char *value) {
  uint64_t node;
  if (j->node < 0 && fs_parse_u64(value, 0, FS_MAX_NODES - 1, &node) == 0) {
    j->node = (int)node;
    return 0;
  }
  fs_say("--node %s: give the number of a node, once", value[0] ? value : "''");
  return -EINVAL;
}

static fs_err set_container(struct fs_join *j, const char *value) {
  if (!j->container && fs_container_find(value)) {
    j->container = value;
    return 0;
  }
  fs_say("--container %s: give docker, podman, apptainer, charliecloud or enroot, once", value[0] ? value : "''");
  return -EINVAL;
}

static fs_err set_job(struct fs_join *j, const char *value) {
  if (j->word || value[0] == '\0') {
    fs_say("'%s': give one JOB", value);
    return -EINVAL;
  }
  j->word = value;
  return 0;
}

static fs_err set(struct fs_join *j, int id, const char *value) {
  return id == O_NODE ? set_node(j, value) : id == O_CONTAINER ? set_container(j, value) : set_job(j, value);
}

static fs_err on_attach(void *ctx, int id, const char *value) {
  if (id == O_HELP) fs_option_answer(help_attach);
  return set(ctx, id, value);
}

static fs_err on_env(void *ctx, int id, const char *value) {
  if (id == O_HELP) fs_option_answer(help_env);
  return set(ctx, id, value);
}

static fs_err on_stop(void *ctx, int id, const char *value) {
  if (id == O_HELP) fs_option_answer(help_stop);
  return set(ctx, id, value);
}

/* Returns true if the first word of attach is JOB. Else it is COMMAND: no directory is one. */
static bool is_job(const char *word) {
  struct stat st;
  if (!strchr(word, '/')) return strncmp(word, "job-", 4) == 0;
  return stat(word, &st) == 0 && S_ISDIR(st.st_mode);
}

int fs_options_parse_attach(struct fs_join *j, int argc, char **argv) {
  for (int at = 1;;) {
    int next =
        fs_opt_parse("fs-launch attach", attach_opts, FS_ARRAY_LEN(attach_opts), argc, argv, at, true, on_attach, j);
    bool command = next > at && strcmp(argv[next - 1], "--") == 0;
    if (next < 0 || next >= argc || command || j->word || !is_job(argv[next])) return next;
    j->word = argv[next];
    at = next + 1;
  }
}

int fs_options_parse_env(struct fs_join *j, int argc, char **argv) {
  return fs_opt_parse("fs-launch env", env_opts, FS_ARRAY_LEN(env_opts), argc, argv, 1, false, on_env, j) < 0
             ? FS_EXIT_USAGE
             : -1;
}

int fs_options_parse_stop(struct fs_join *j, int argc, char **argv) {
  return fs_opt_parse("fs-launch stop", stop_opts, FS_ARRAY_LEN(stop_opts), argc, argv, 1, false, on_stop, j) < 0
             ? FS_EXIT_USAGE
             : -1;
}
