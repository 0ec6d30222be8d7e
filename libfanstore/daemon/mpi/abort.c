/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What Open MPI 4.1 does when it has lost mpirun: a thread of its own calls ompi_mpi_abort, which ends the process some
 * time in the next seconds. A daemon has outputs to keep then, and ends by itself (daemon/core/listen.c), so it has
 * that function's name; libmpi calls it through its table of symbols. Where it has another name this one is not called.
 */
#include <dlfcn.h>
#include <unistd.h>

#include "daemon/mpi/abort.h"

#define FS_ABORT_WAITS 50 /* of 10 ms: mpirun's connections end a moment before it does */

struct ompi_communicator_t;
__attribute__((visibility("default"))) int ompi_mpi_abort(struct ompi_communicator_t *comm, int code);

static pid_t parent;

void fs_abort_guard(void) {
  parent = getppid();
}

int ompi_mpi_abort(struct ompi_communicator_t *comm, int code) {
  int (*real)(struct ompi_communicator_t *, int) = NULL;
  void *found = dlsym(RTLD_NEXT, "ompi_mpi_abort");
  for (int i = 0; parent != 0 && i < FS_ABORT_WAITS; i++) {
    if (getppid() != parent) return 0;
    usleep(10000);
  }
  if (!found) _exit(1);
  *(void **)&real = found;
  return real(comm, code);
}
