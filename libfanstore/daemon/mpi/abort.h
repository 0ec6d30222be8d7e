/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps MPI from ending the daemon when mpirun has died (abort.c). */
#ifndef FS_DAEMON_MPI_ABORT_H
#define FS_DAEMON_MPI_ABORT_H

void fs_abort_guard(void); /* Remembers the parent process, mpirun's. Called after MPI_Init. */

#endif
