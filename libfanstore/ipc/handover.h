/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a client meets its node's daemon: a SOCK_SEQPACKET Unix socket in a 0700 run directory, one struct fs_hello,
 * one struct fs_welcome with five file descriptors. The connection then stays open, silent; its end is the
 * client's end. The daemon checks SO_PEERCRED (same uid). Client side: raw system calls only, no allocation,
 * bounded by a timeout. Descriptors are returned with CLOEXEC.
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

enum fs_handover_fd { FS_HO_CTL, FS_HO_SLAB, FS_HO_HEAT, FS_HO_CHANNEL, FS_HO_DOORBELL, FS_HO_COUNT };

struct fs_welcome {
  uint32_t magic;
  uint32_t version;
  int32_t err; /* negative errno: refused, no descriptors follow */
  uint32_t reserved;
  uint64_t size[FS_HO_COUNT]; /* bytes of each memfd; 0 for the doorbell */
};

struct fs_handover {
  int socket;
  int fd[FS_HO_COUNT];
  uint64_t size[FS_HO_COUNT];
};

/* Connects, says hello, receives. 0; -ECONNREFUSED, -ENOENT (no daemon), -ETIMEDOUT, -EPROTO, -ECHILD (in a child that
   a signal handler forked meanwhile), or the refusal. */
fs_err fs_handover_connect(const char *socket_path, uint64_t timeout_ns, struct fs_handover *out);
/* Daemon: creates the socket (mode 0600, CLOEXEC, non-blocking). */
fs_fd fs_handover_listen(const char *socket_path);
/* Daemon: reads the hello of an accepted connection and checks the peer's uid. The peer's pid, -EAGAIN, or an error. */
fs_ssize fs_handover_hello(int connection);
/* Daemon: sends the welcome. fds may be NULL when err is not 0. */
fs_err fs_handover_welcome(int connection, fs_err err, const struct fs_handover *h);

#endif
