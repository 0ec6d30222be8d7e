/* SPDX-License-Identifier: BSD-3-Clause */
/* The call LOCK (ipc/call.h): a client asks its daemon, and that the home of the file. */
#ifndef FS_IPC_LOCK_H
#define FS_IPC_LOCK_H

#include <assert.h>

#include "util/base.h"

/*
 * LOCK sets, tests or ends locks of a file (docs/internals/locks.md). The home's kernel decides. The
 * flags have one of LOCK_READ, WRITE, NONE, END and LOOK. EBUSY: another owner has a lock that
 * conflicts. EINPROGRESS: it does, and the home goes on waiting for a while: the caller asks again.
 * ENOLCK: the limit is reached, or the file is an unchanged one of --stage-in. ENOTRECOVERABLE, from
 * the client's own daemon: the home that had this owner's locks is gone. No answer, but for
 * LOCK_TEST a struct fs_lock_found.
 */
enum fs_lock_flags {
  FS_LOCK_READ = 1,     /* a shared lock */
  FS_LOCK_WRITE = 2,    /* an exclusive lock */
  FS_LOCK_NONE = 4,     /* unlock */
  FS_LOCK_END = 8,      /* the owner has closed the file: end all its locks of this file */
  FS_LOCK_LOOK = 16,    /* to the client's own daemon: an open file description that other processes
                           may have was closed */
  FS_LOCK_FLOCK = 32,   /* a lock of flock(2); else one of fcntl(2), with a range */
  FS_LOCK_PROCESS = 64, /* The owner is the process; else it is an open file description. */
  FS_LOCK_WAIT = 128,   /* Wait for a conflicting lock to end. */
  FS_LOCK_LEAVE = 256,  /* Stop to wait. The answer is that of a last try. */
  FS_LOCK_TEST = 512,   /* Only tell what is in the way. */
  FS_LOCK_ALL = 1023,
};
struct fs_call_lock {
  uint64_t id;
  uint64_t owner; /* FS_LOCK_OWNER; of a process, set by its daemon */
  uint64_t start; /* first byte and last byte of the range; INT64_MAX: to the end */
  uint64_t end;
  uint32_t pid; /* of the process that asks, set by its daemon */
};
/* Names an open file description: the inode of its placeholder, and the generation of its slot. */
#define FS_LOCK_OWNER(ino, gen) ((uint64_t)(uint32_t)(ino) << 32 | (uint32_t)(gen))
#define FS_LOCK_OWNER_INO(owner) ((uint32_t)((owner) >> 32))
struct fs_lock_found {
  uint64_t start, end;
  uint32_t flags; /* FS_LOCK_READ or WRITE; 0: nothing is in the way */
  int32_t pid;    /* -1: not known, or the owner is an open file description */
};
static_assert(sizeof(struct fs_lock_found) == 24, "fs_lock_found is 24 bytes");

#endif
