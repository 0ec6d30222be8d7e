/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of a dataset that outputs and whiteouts have taken, with --overlay
 * (docs/internals/overlay.md). Lock-free, no allocation. As long as no name of the job was taken,
 * one word of shared memory says so, which is read anyway (nodelocal.h).
 */
#ifndef FS_CLIENT_NAMES_OVERLAY_H
#define FS_CLIENT_NAMES_OVERLAY_H

#include "client/names/names.h"
#include "client/node/words.h"

/* Returns whether programs of this job may take names of the datasets. */
bool fs_overlay_on(void);
/* Returns whether a name of a dataset was taken. */
static inline bool fs_overlay_any(void) {
  const _Atomic uint32_t *word = atomic_load_explicit(&fs_nl_any_word, memory_order_relaxed);
  return FS_UNLIKELY((atomic_load_explicit(word, memory_order_acquire) & FS_NL_TAKEN) != 0);
}
/* Returns whether a name may have been taken in the directory of the dataset's entry `entry`. A few
   instructions. */
bool fs_overlay_near(uint32_t mount, uint32_t entry);
/* Returns whether this name of a dataset's directory may have been taken. Reads shared memory
   only. */
bool fs_overlay_maybe(uint32_t mount, uint32_t dir, const char *name, size_t len);

/* What the dataset has of f's name, which a job with --overlay is about to make or remove. */
enum fs_overlay_kind { FS_OVERLAY_NONE /* also without --overlay */, FS_OVERLAY_FILE, FS_OVERLAY_DIRECTORY };
enum fs_overlay_kind fs_overlay_kind(const struct fs_found *f);
/* Returns whether f's name is still the dataset's: it has the name, and the name was not taken. A
   negative errno if that cannot be found out. */
int fs_overlay_is_datasets(const struct fs_found *f);
/* Makes an output of a dataset's file or symlink: entry `child`, with this name in `dir`. With
   FS_EMPTIES the output is empty. Returns 0, also if the name was taken meanwhile. */
fs_err fs_overlay_copy_up(uint32_t mount, uint32_t dir, uint32_t child, const char *name, size_t len, unsigned flags);
/* Tells the user, once for each process, of the option that allows what was refused: a change of
   the dataset's entry `entry`, or of f's name. Returns -EROFS. */
fs_err fs_overlay_refused(uint32_t mount, uint32_t entry);
fs_err fs_overlay_refused_name(const struct fs_found *f);

#endif
