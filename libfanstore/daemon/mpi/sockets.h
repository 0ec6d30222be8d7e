/* SPDX-License-Identifier: BSD-3-Clause */
/* The TCP connections of this process, which are MPI's, to be slept on (sockets.c). */
#ifndef FS_DAEMON_MPI_SOCKETS_H
#define FS_DAEMON_MPI_SOCKETS_H

/* Adds those that `epoll` does not have yet; how many. */
int fs_sockets_find(int epoll);
/* Takes out those that are readable at the moment: they are dead, or nobody reads them. */
void fs_sockets_drop(int epoll);

#endif
