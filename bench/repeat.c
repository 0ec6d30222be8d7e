/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times a command: repeat [-n TIMES] COMMAND [ARG...] runs it so many times, one after the other, with its output to
 * /dev/null, and prints the shortest time from its start to its end, in us, as JSON. It fails when the command does.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

extern char **environ;

static double once(char **command, posix_spawn_file_actions_t *actions) {
  pid_t pid;
  int status;
  uint64_t start = now();
  int rc = posix_spawnp(&pid, command[0], actions, NULL, command, environ);
  if (rc != 0 || waitpid(pid, &status, 0) != pid || status != 0) {
    fprintf(stderr, "repeat: %s: %s\n", command[0], rc ? strerror(rc) : "failed");
    exit(1);
  }
  return (double)(now() - start) / 1e3;
}

int main(int argc, char **argv) {
  int times = 3;
  for (int c; (c = getopt(argc, argv, "+n:")) != -1;) {
    if (c != 'n') return 2;
    times = atoi(optarg);
  }
  if (optind >= argc || times < 1) {
    fprintf(stderr, "usage: repeat [-n TIMES] COMMAND [ARG...]\n");
    return 2;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  double best = 1e18;
  for (int i = 0; i <= times; i++) { /* the first is not timed */
    double took = once(argv + optind, &actions);
    if (i > 0 && took < best) best = took;
  }
  printf("{\"us\": %.1f}\n", best);
  return 0;
}
