/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeping MPI from ending the daemon when mpirun has died: abort.c. */
#ifndef FS_DAEMON_MPI_ABORT_H
#define FS_DAEMON_MPI_ABORT_H

void fs_abort_guard(void); /* after MPI_Init, by the process whose parent is mpirun's */

#endif
