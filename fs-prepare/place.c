/* SPDX-License-Identifier: BSD-3-Clause */
/* `fs-prepare place`: copies a dataset's partitions to the nodes. It becomes `fs-launch --place`, which
   stages and runs no COMMAND: fs-launch alone knows how to place and to stage. One thread. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "prepare.h"

enum {
  OPT_LOCAL_DIR = FS_OPT_OWN,
  OPT_HOSTS,
  OPT_HOSTFILE,
  OPT_EMULATE,
  OPT_NETWORK,
  OPT_REPLICAS,
  OPT_START,
  OPT_VERBOSE
};

static const struct fs_opt options[] = {
    {"local-dir", 'l', "DIR", "where the partitions go on each node, as in fs-launch --local-dir", OPT_LOCAL_DIR},
    {"hosts", 0, "A,B,...", "one node on each of these hosts (default: the nodes of the Slurm job,\nelse this host)",
     OPT_HOSTS},
    {"hostfile", 0, "FILE", "one node on each host named there, one a line", OPT_HOSTFILE},
    {"emulate", 0, "N", "N nodes (1 to 64) on this host", OPT_EMULATE},
    {"network", 0, "IFACE|CIDR", "between hosts: use this network interface, or the one in this network", OPT_NETWORK},
    {"replicas", 'r', "R", "copies of each partition, on distinct nodes (default 1)", OPT_REPLICAS},
    {"start-timeout", 0, "SECONDS", "give up after so long without progress (default 60)", OPT_START},
    {"verbose", 'v', NULL, "tell what happens", OPT_VERBOSE},
    FS_OPT_COMMON,
};

static const char about[] =
    "Copies the partitions of DATASET to the nodes. What is there already stays, so a place that was\n"
    "interrupted goes on where it was. fs-launch with the same nodes and --local-dir uses what is there.";

struct place {
  const char *value[OPT_VERBOSE - OPT_LOCAL_DIR + 1]; /* by option; fs-launch checks them */
};

static fs_err set(void *ctx, int id, const char *value) {
  struct place *p = ctx;
  p->value[id - OPT_LOCAL_DIR] = value != NULL ? value : "";
  return 0;
}

/* Becomes fs-launch. Returns the exit status if that fails. */
static int become_launch(const struct place *p, char *dataset) {
  char launch[PATH_MAX], name[FS_ARRAY_LEN(p->value)][32];
  char *words[2 * FS_ARRAY_LEN(p->value) + 9];
  size_t n = 0;
  if (fs_prep_beside("fs-launch", launch) < 0) return FS_EXIT_FAILED;
  static char place[] = "--place", dataset_option[] = "--dataset", read_only[] = "--read-only", end[] = "--",
              command[] = "true";
  words[n++] = launch;
  words[n++] = place;
  for (size_t i = 0; i < FS_ARRAY_LEN(p->value); i++) {
    if (p->value[i] == NULL) continue;
    snprintf(name[i], sizeof name[i], "--%s", options[i].name);
    words[n++] = name[i];
    if (options[i].arg != NULL) words[n++] = (char *)p->value[i];
  }
  words[n++] = dataset_option;
  words[n++] = dataset;
  words[n++] = read_only;
  words[n++] = end;
  words[n++] = command;
  words[n] = NULL;
  execv(launch, words);
  fs_say("%s: %s", launch, strerror(errno));
  return FS_EXIT_FAILED;
}

int fs_prep_place(int argc, char **argv) {
  struct place p = {.value = {NULL}};
  struct fs_prep_cli cli = {.command = "place",
                            .synopsis = "[options] --local-dir DIR DATASET",
                            .about = about,
                            .opts = options,
                            .nopts = FS_ARRAY_LEN(options),
                            .word_names = {"DATASET"},
                            .want = 1,
                            .set = set,
                            .ctx = &p};
  if (fs_prep_parse(&cli, argc, argv) < 0) return FS_EXIT_USAGE;
  if (p.value[0] != NULL) return become_launch(&p, (char *)cli.word[0]);
  fs_say("place: --local-dir is missing: the directory on each node that the jobs will use");
  return FS_EXIT_USAGE;
}
