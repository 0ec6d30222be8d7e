/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a client connects to its node's daemon. A SOCK_SEQPACKET Unix socket is in a run directory of
 * mode 0700. The client sends one struct fs_hello; the daemon answers with one struct fs_welcome
 * and six file descriptors, which have CLOEXEC. Afterwards the connection stays open and silent:
 * it closes when the client ends. If the two are of different versions, the first two words of both
 * messages are still the same. Both sides check that the peer has the same uid (SO_PEERCRED).
 * The client's side makes raw system calls only, allocates nothing and has a timeout.
 */
#ifndef FS_IPC_HANDOVER_H
#define FS_IPC_HANDOVER_H

#include "ipc/layout.h"

#define FS_HELLO_MAGIC 0x4f4c4c45u

struct fs_hello {
  uint32_t magic;
  uint32_t version; /* FS_IPC_VERSION */
  uint32_t pid;
  uint32_t reserved;
};

enum fs_handover_fd { FS_HO_CTL, FS_HO_SLAB, FS_HO_HEAT, FS_HO_RECORDS, FS_HO_CHANNEL, FS_HO_DOORBELL, FS_HO_COUNT };

struct fs_welcome {
  uint32_t magic;
  uint32_t version;
  int32_t err; /* negative errno: refused, without descriptors */
  uint32_t reserved;
  uint64_t size[FS_HO_COUNT]; /* bytes of each memfd; 0 for the doorbell */
};

struct fs_handover {
  int socket;
  uint32_t version; /* of the daemon, also if that was the reason of a refusal; 0: not known */
  int fd[FS_HO_COUNT];
  uint64_t size[FS_HO_COUNT];
};

/* Connects to the daemon and receives the descriptors. Returns 0, -ECONNREFUSED, -ENOENT (no
   daemon), -ETIMEDOUT, -EPROTO, -EPROTONOSUPPORT (another version), the daemon's refusal, or -ECHILD in a child that a
   signal handler forked during the call. */
fs_err fs_handover_connect(const char *socket_path, uint64_t timeout_ns, struct fs_handover *out);
/* Creates the daemon's listening socket (mode 0600, CLOEXEC, non-blocking). */
fs_fd fs_handover_listen(const char *socket_path);
/* Reads the hello of an accepted connection in the daemon, and checks the client's uid. Returns the
   client's pid (0: another pid namespace), -EAGAIN, or another error. */
fs_ssize fs_handover_hello(int connection);
/* Sends the daemon's welcome, or its refusal `err`. h may be NULL if err is not 0. */
fs_err fs_handover_welcome(int connection, fs_err err, const struct fs_handover *h);

#endif
