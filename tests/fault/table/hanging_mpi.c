/* SPDX-License-Identifier: BSD-3-Clause */
/* For daemons.sh, by LD_PRELOAD into daemons: while the file $FAULTS_MPI.RANK is there, MPI_Testsome does not return.
   The daemon's other threads go on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef int testsome(int, void *, int *, int *, void *);

int MPI_Testsome(int n, void *requests, int *count, int *which, void *states);
int MPI_Testsome(int n, void *requests, int *count, int *which, void *states) {
  static testsome *next;
  static char hangs[4096];
  if (!next) {
    void *symbol = dlsym(RTLD_NEXT, "MPI_Testsome");
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *prefix = getenv("FAULTS_MPI");
    if (rank && prefix) snprintf(hangs, sizeof(hangs), "%s.%s", prefix, rank);
    *(void **)&next = symbol;
  }
  while (hangs[0] && access(hangs, F_OK) == 0) usleep(20000);
  return next(n, requests, count, which, states);
}
