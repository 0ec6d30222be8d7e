/* SPDX-License-Identifier: BSD-3-Clause */
/* The TCP connections of this process, which are MPI's, for a sleep that messages end
   (sockets.c). The MPI thread's. */
#ifndef FS_DAEMON_MPI_SOCKETS_H
#define FS_DAEMON_MPI_SOCKETS_H

/* Adds the connections that `epoll` does not have yet. Returns how many. */
int fs_sockets_find(int epoll);
/* Removes the connections that are readable at the moment: they are dead, or nobody reads them. */
void fs_sockets_drop(int epoll);

#endif
