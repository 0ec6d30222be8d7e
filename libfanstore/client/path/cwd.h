/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The current directory, which may be below a mount. The kernel's own current directory is then
 * either the real directory of the same path, or a stand-in: a directory that was removed as soon
 * as the process was in it. The stand-in's name, as /proc/self/cwd shows it, says which mount and
 * entry it stands for. So the kernel carries the current directory over fork and exec.
 *
 * The answer is cached per process. It is computed anew after chdir, and in every vfork child,
 * whose current directory is its own but whose memory is its parent's. Thread safe; nobody waits.
 */
#ifndef FS_CLIENT_PATH_CWD_H
#define FS_CLIENT_PATH_CWD_H

#include <limits.h>

#include "client/fd/fdtab.h"
#include "util/base.h"

#define FS_STANDIN_NAME ".fanstore-cwd."

struct fs_cwd {
  bool below; /* mount and entry are set */
  bool near;  /* a mount lies below this directory, or it lies in one */
  uint32_t mount, entry;
  uint32_t len; /* 0: unknown */
  char path[PATH_MAX];
};

/* Copies the current directory. Returns 0, or why its path is not known, because it was removed,
   for example. If the path is not known, the directory is outside, unless `below` is set. */
fs_err fs_cwd_get(struct fs_cwd *out);
/* Returns whether the current directory is neither in nor above a mount. If the answer is cached,
   the call makes no system call. Nothing is copied. */
bool fs_cwd_far(void);
/* Returns what fs_cwd_far does, in a few instructions, but also false if the answer is not
   cached. */
extern FS_INTERNAL _Atomic uint32_t fs_cwd_epoch, fs_cwd_far_epoch;
static inline bool fs_cwd_surely_far(void) {
  return atomic_load_explicit(&fs_cwd_far_epoch, memory_order_relaxed) ==
             atomic_load_explicit(&fs_cwd_epoch, memory_order_relaxed) &&
         fs_vfork_depth == 0;
}
/* Returns whether the current directory is known to be above a mount and below none. Its path is
   then the first *len bytes of the path of *mount. */
bool fs_cwd_is_above(uint32_t *mount, uint32_t *len);
/* Returns a real directory (O_PATH, CLOEXEC) that stands for a directory of a dataset. A process
   that changes to it is in the dataset's directory. */
fs_fd fs_cwd_open(uint32_t mount, uint32_t entry);
/* Like fs_cwd_open, but never returns the real directory of the same path. */
fs_fd fs_cwd_standin(uint32_t mount, uint32_t entry);
/* Changes the current directory to a directory of a dataset. */
fs_err fs_cwd_enter(uint32_t mount, uint32_t entry);
/* Drops the cached answer. Called after the kernel's current directory has changed. */
void fs_cwd_changed(void);
/* Finds the mount and entry that a stand-in's name stands for, and returns whether it is such a
   name. /proc shows the name as "DIR/<name><mount key>.<entry>.<anything> (deleted)". The name of
   an output directory has the directory's id after the entry; this process gives it an entry number
   of its own. */
bool fs_standin_parse(const char *link, const char *name, uint32_t *mount, uint32_t *entry);
/* Drops the cached answer in a forked child. */
void fs_cwd_forked(void);

#endif
