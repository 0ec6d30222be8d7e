/* SPDX-License-Identifier: BSD-3-Clause */
/* For net_mpi.c: struct fs_net's `copies`. */
#ifndef FS_DAEMON_MPI_COPIES_H
#define FS_DAEMON_MPI_COPIES_H

#include <stdbool.h>

bool fs_net_mpi_copies(void);

#endif
