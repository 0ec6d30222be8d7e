/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The current directory, which may be below a mount. The kernel's own current directory then is either the real
 * directory of the same path, or a stand-in: a directory that was removed as soon as we were in it, whose name, seen
 * through /proc/self/cwd, says which mount and entry it stands for. So the kernel carries it over fork and exec.
 *
 * The answer is cached per process, and computed anew after chdir and in every vfork child (whose current directory is
 * its own but whose memory is its parent's). Thread safe; nobody waits.
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

/* Copies the current directory. 0, or why its path is not known (a removed directory, say): then it is outside, unless
   `below` says otherwise. */
fs_err fs_cwd_get(struct fs_cwd *out);
/* Is the current directory neither in nor above a mount? No copy, no system call when cached. */
bool fs_cwd_far(void);
/* The same in a few instructions; false also when it is not known. */
extern FS_INTERNAL _Atomic uint32_t fs_cwd_epoch, fs_cwd_far_epoch;
static inline bool fs_cwd_surely_far(void) {
  return atomic_load_explicit(&fs_cwd_far_epoch, memory_order_relaxed) ==
             atomic_load_explicit(&fs_cwd_epoch, memory_order_relaxed) &&
         fs_vfork_depth == 0;
}
/* Is it known to be above a mount, and below none? Its path is then the first `len` bytes of that mount's. */
bool fs_cwd_is_above(uint32_t *mount, uint32_t *len);
/* A real directory (O_PATH, CLOEXEC) that stands for a directory of a dataset: chdir to it means that. */
fs_fd fs_cwd_open(uint32_t mount, uint32_t entry);
/* The same, and never the real directory of the same path. */
fs_fd fs_cwd_standin(uint32_t mount, uint32_t entry);
/* chdir to a directory of a dataset. */
fs_err fs_cwd_enter(uint32_t mount, uint32_t entry);
/* The kernel's current directory has changed. */
void fs_cwd_changed(void);
/* "DIR/<name><mount key>.<entry>.<anything> (deleted)", as /proc shows a stand-in's name: what does it stand for? That
   of an output directory has its id after the entry, which is this process's own afterwards. */
bool fs_standin_parse(const char *link, const char *name, uint32_t *mount, uint32_t *entry);
/* In a forked child. */
void fs_cwd_forked(void);

#endif
