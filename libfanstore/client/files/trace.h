/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records this process's calls on files below the mounts, if FANSTORE_TRACE asks for it
 * (ipc/trace.h). If it does not, a call costs one test of fs_trace_on. Recording takes no lock. A
 * record makes no system call, except for one in about 65,000, which gets room in the file. If there
 * is no room, calls are counted and not recorded. A forked child has a file of its own.
 */
#ifndef FS_CLIENT_TRACE_H
#define FS_CLIENT_TRACE_H

#include "ipc/trace.h"
#include "util/sys.h"

extern FS_INTERNAL _Atomic uint32_t fs_trace_on;

/* Reads the environment. If the file is named by a relative path, the call sets the variable to the
   absolute one by `set`, for children that start elsewhere. A constructor calls this. */
void fs_trace_start(void (*set)(const char *name, const char *value));
/* Ends recording, and cuts the file to what was written. The process calls this at its end, while
   other threads may go on. Async-signal-safe. */
void fs_trace_leave(void);

struct fs_traced {
  enum fs_trace_call call;
  uint32_t place;   /* or FS_TRACE_NO_PLACE */
  uint32_t handle;  /* or FS_TRACE_NO_HANDLE */
  const char *path; /* or NULL */
  size_t mount_len;
  uint64_t off, n;
};
/* Records a call that began at begin_ns (fs_now_ns) and has just returned `result`. Changes no
   errno. */
void fs_trace_add(const struct fs_traced *c, uint64_t begin_ns, int64_t result);
/* Like fs_trace_add, with the path of an entry, or of a name of `len` bytes in this directory. */
void fs_trace_add_name(struct fs_traced *c, uint32_t mount, uint32_t entry, const char *name, size_t len,
                       uint64_t begin_ns, int64_t result);

static inline bool fs_tracing(void) {
  return FS_UNLIKELY(atomic_load_explicit(&fs_trace_on, memory_order_relaxed) != 0);
}
/* Returns when a call begins, or 0 if nothing is recorded. */
static inline uint64_t fs_trace_begin(void) {
  return fs_tracing() ? fs_now_ns() : 0;
}

#endif
