/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file that a process writes if FANSTORE_TRACE is set: its calls on files below the mounts, one
 * record each. client/files/trace.c writes it, fs-launch/replay/ reads it. docs/tracing.md is for
 * users.
 *
 * A trace is one or more segments one after the other, as `cat` joins files. A segment is a head and
 * records. Each begins at a multiple of 8 bytes. Numbers are those of the machine that wrote them.
 * A process writes one segment through a shared mapping. It takes room by adding to head.used,
 * fills the record, and stores `size` last. So if the process was killed, its last records may have
 * size 0: the reader ends the segment there.
 */
#ifndef FS_IPC_TRACE_H
#define FS_IPC_TRACE_H

#include <assert.h>

#include "util/base.h"

#define FS_ENV_TRACE "FANSTORE_TRACE" /* the file; each process adds ".HOST.PID" */
#define FS_TRACE_MAGIC 0x3145434152545346ull
#define FS_TRACE_VERSION 1u
#define FS_TRACE_LIMIT (256ull << 20) /* bytes of a segment */

enum fs_trace_call {
  FS_TRACE_NONE,
  FS_TRACE_OPEN,  /* off: flags; n: size; result: handle, or a negative errno; has a path */
  FS_TRACE_CLOSE, /* by handle */
  FS_TRACE_READ,  /* off, n: what was asked; result: bytes, or a negative errno */
  FS_TRACE_WRITE, /* the same, of other nodes' outputs */
  FS_TRACE_STAT,  /* has a path */
  FS_TRACE_FSTAT, /* by handle */
  FS_TRACE_MAP,   /* off, n */
  FS_TRACE_CALLS
};
#define FS_TRACE_CALL_NAMES                                                                                            \
  { "", "open", "close", "read", "write", "stat", "fstat", "map" }
#define FS_TRACE_NO_HANDLE UINT32_MAX
#define FS_TRACE_NO_PLACE 255u

struct fs_trace_head {
  uint64_t magic;
  uint32_t version;
  uint32_t pid;
  uint64_t realtime_ns;  /* CLOCK_REALTIME and */
  uint64_t monotonic_ns; /* CLOCK_MONOTONIC when the segment was begun */
  _Atomic uint64_t used; /* bytes of the segment with this head; may be more than was written */
  _Atomic uint64_t lost; /* calls for which there was no room */
  uint32_t ppid;
  uint32_t reserved;
  char host[72];
};
static_assert(sizeof(struct fs_trace_head) == 128, "the head of a segment is 128 bytes");

struct fs_trace_record {
  _Atomic uint32_t size; /* with the path, a multiple of 8 */
  uint8_t call;          /* enum fs_trace_call */
  uint8_t place;         /* enum fs_place, or FS_TRACE_NO_PLACE */
  uint16_t path_len;     /* the absolute path follows the record */
  uint16_t mount_len;    /* so many of its bytes are the mount's */
  uint16_t reserved;
  uint32_t thread; /* tells the threads of a process apart */
  uint32_t handle; /* an open file: from its open to its close */
  uint32_t reserved2;
  uint64_t begin_ns;
  uint64_t ns; /* how long the call took */
  int64_t result;
  uint64_t off, n;
};
static_assert(sizeof(struct fs_trace_record) == 64, "a record is 64 bytes");

#endif
