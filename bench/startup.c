/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a library costs each program that starts: startup [-r ROUNDS] [-p PROGRAM] VARIANT... times PROGRAM (/bin/true)
 * from spawn to end, each VARIANT in turn within a round. A variant is a list of NAME=VALUE separated by blanks: the
 * environment. Prints a line for each: the median, and the median of its difference to the first, in microseconds.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

#define VARIANTS 16
#define VARIABLES 32

static double run(const char *program, char *const env[]) {
  char *argv[] = {(char *)program, NULL};
  pid_t pid;
  int status;
  uint64_t start = now();
  if (posix_spawn(&pid, program, NULL, NULL, argv, env) != 0 || waitpid(pid, &status, 0) != pid || status != 0) {
    fprintf(stderr, "startup: %s failed with %s\n", program, env[0] ? env[0] : "nothing");
    exit(1);
  }
  return (double)(now() - start) / 1e3;
}

int main(int argc, char **argv) {
  static char *env[VARIANTS][VARIABLES + 1];
  unsigned rounds = 500;
  const char *program = "/bin/true";
  for (int c; (c = getopt(argc, argv, "r:p:")) != -1;) {
    if (c == 'r')
      rounds = (unsigned)strtoul(optarg, NULL, 10);
    else if (c == 'p')
      program = optarg;
    else
      return 2;
  }
  int variants = argc - optind;
  if (variants < 1 || variants > VARIANTS || rounds == 0) {
    fprintf(stderr, "usage: startup [-r ROUNDS] [-p PROGRAM] VARIANT...\n");
    return 2;
  }
  double *took[VARIANTS], *more[VARIANTS];
  for (int v = 0; v < variants; v++) {
    int n = 0;
    for (char *p = strtok(strdup(argv[optind + v]), " "); p && n < VARIABLES; p = strtok(NULL, " ")) env[v][n++] = p;
    took[v] = calloc(rounds, sizeof(double));
    more[v] = calloc(rounds, sizeof(double));
    if (!took[v] || !more[v]) return 1;
  }
  for (unsigned r = 0; r < rounds; r++) {
    for (int v = 0; v < variants; v++) took[v][r] = run(program, env[v]);
    for (int v = 0; v < variants; v++) more[v][r] = took[v][r] - took[0][r];
  }
  for (int v = 0; v < variants; v++) printf("%.1f %.1f\n", median(took[v], rounds), median(more[v], rounds));
  return 0;
}
