/* SPDX-License-Identifier: BSD-3-Clause */
/* A daemon that ends in MPI_Init without a word, by LD_PRELOAD, as long as there is a file TEST_ENDS.RANK, which it
 * removes: as MPI does when a peer has been killed that is to be connected to. By TEST_ENDS.RANK.stops it stops, by
 * TEST_ENDS.RANK.killed it is killed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  int (*next)(int *, char ***, int, int *) = (int (*)(int *, char ***, int, int *))dlsym(RTLD_NEXT, "MPI_Init_thread");
  char path[4096];
  snprintf(path, sizeof(path), "%s.%s", getenv("TEST_ENDS"), getenv("OMPI_COMM_WORLD_RANK"));
  if (unlink(path) == 0) _exit(1);
  snprintf(path, sizeof(path), "%s.%s.stops", getenv("TEST_ENDS"), getenv("OMPI_COMM_WORLD_RANK"));
  if (unlink(path) == 0) raise(SIGSTOP);
  snprintf(path, sizeof(path), "%s.%s.killed", getenv("TEST_ENDS"), getenv("OMPI_COMM_WORLD_RANK"));
  if (unlink(path) == 0) raise(SIGKILL);
  return next(argc, argv, required, provided);
}
