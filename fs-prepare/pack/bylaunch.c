/* SPDX-License-Identifier: BSD-3-Clause */
/* `fs-prepare pack --local-dir`: fs-launch knows how to start a rank on each node, so fs-prepare
   becomes `fs-launch --pack`, which starts fanstore-pack with pack's own words. One thread. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pack.h"

int fs_pack_by_launch(const struct fs_pack_options *o, int argc, char **argv) {
  char launch[PATH_MAX], emulate[24], timeout[24];
  FS_AUTO_FREE char **words = calloc((size_t)argc + 16, sizeof *words);
  if (words == NULL || fs_prep_beside("fs-launch", launch) < 0) return FS_EXIT_FAILED;
  snprintf(emulate, sizeof emulate, "%llu", (unsigned long long)o->emulate);
  snprintf(timeout, sizeof timeout, "%llu", (unsigned long long)o->start_timeout);
  const char *const given[][2] = {{"--hosts", o->hosts},
                                  {"--hostfile", o->hostfile},
                                  {"--network", o->network},
                                  {"--emulate", o->emulate != 0 ? emulate : NULL},
                                  {"--start-timeout", timeout}};
  size_t n = 0;
  words[n++] = launch;
  words[n++] = "--pack";
  for (size_t i = 0; i < FS_ARRAY_LEN(given); i++) {
    if (given[i][1] == NULL) continue;
    words[n++] = (char *)given[i][0];
    words[n++] = (char *)given[i][1];
  }
  if (o->verbose) words[n++] = "--verbose";
  words[n++] = "--";
  for (int i = 0; i < argc; i++) words[n++] = argv[i];
  execv(launch, words);
  fs_say("%s: %s", launch, strerror(errno));
  return FS_EXIT_FAILED;
}
