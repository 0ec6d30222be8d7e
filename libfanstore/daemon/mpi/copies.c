/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds out whether messages may be sent from a file's mapping. Sockets copy, so they may. Hardware
 * that fetches the bytes itself wants memory that it can lock and write to: some drivers refuse
 * read-only mappings of files, others copy them for good. net_mpi.c calls this once; it looks at
 * what fs-launch has told Open MPI and UCX to use.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/mpi/copies.h"

static bool fs_env_is(const char *name, const char *value) {
  const char *is = getenv(name);
  return is && strcmp(is, value) == 0;
}

/* Returns true if there is no InfiniBand, RoCE or the like; UCX then has only sockets and shared
   memory. */
static bool fs_no_verbs(void) {
  DIR *dir = opendir("/sys/class/infiniband");
  const struct dirent *e = NULL;
  if (!dir) return true;
  while ((e = readdir(dir)) != NULL && e->d_name[0] == '.') continue;
  closedir(dir);
  return e == NULL;
}

bool fs_net_mpi_copies(void) {
  if (fs_env_is("OMPI_MCA_pml", "ob1")) return fs_env_is("OMPI_MCA_btl", "self,tcp");
  return fs_env_is("OMPI_MCA_pml", "ucx") && (fs_env_is("UCX_TLS", "tcp,self") || fs_no_verbs());
}
