/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the value of struct fs_net's `copies`, for net_mpi.c. */
#ifndef FS_DAEMON_MPI_COPIES_H
#define FS_DAEMON_MPI_COPIES_H

#include <stdbool.h>

bool fs_net_mpi_copies(void);

#endif
