/* SPDX-License-Identifier: BSD-3-Clause */
/* fs-prepare: packs a directory tree into a dataset, and reads datasets. This file only chooses the
   command. */
#include "prepare.h"

#include <string.h>

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *words;
  const char *what;
} commands[] = {
    {"pack", fs_prep_pack, "[options] SOURCE... DATASET", "pack directories or archives into a new dataset"},
    {"place", fs_prep_place, "[options] --local-dir DIR DATASET",
     "copy a dataset's partitions to the nodes of later jobs"},
    {"verify", fs_prep_verify, "[options] DATASET", "check every checksum and every block; repair what is damaged"},
    {"info", fs_prep_info, "[options] DATASET", "show sizes, counts and partitions"},
    {"list", fs_prep_list, "[options] DATASET", "list the files"},
    {"diff", fs_prep_diff, "[options] DATASET SOURCE|DATASET2", "say how they differ"},
    {"unpack", fs_prep_unpack, "[options] DATASET DIR", "restore the tree into DIR"},
};

static void help(void) {
  printf("usage: fs-prepare COMMAND [options] ...\n\nPacks a directory tree into a FanStore dataset: compressed "
         "partitions and an index.\n\n");
  for (size_t i = 0; i < FS_ARRAY_LEN(commands); i++)
    printf("  %-7s %-34s %s\n", commands[i].name, commands[i].words, commands[i].what);
  printf("\nfs-prepare COMMAND --help shows the options of a command.\n");
}

int main(int argc, char **argv) {
  fs_say_as("fs-prepare");
  if (argc < 2) {
    fs_say("a command is missing: pack, place, verify, info, list, diff or unpack (see fs-prepare --help)");
    return FS_EXIT_USAGE;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
    help();
    return fs_prep_finish(FS_EXIT_OK);
  }
  if (strcmp(argv[1], "--version") == 0) {
    fs_prep_version();
    return fs_prep_finish(FS_EXIT_OK);
  }
  for (size_t i = 0; i < FS_ARRAY_LEN(commands); i++)
    if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
  fs_say("unknown %s '%s' (see fs-prepare --help)", argv[1][0] == '-' ? "option" : "command", argv[1]);
  return FS_EXIT_USAGE;
}
