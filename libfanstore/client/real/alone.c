/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The copies that a process without a daemon maps lie in directories that all such processes of the
 * node share (ipc/alone.h). This file enters a dataset's directory when it is first needed, and
 * leaves it when the process ends. Called by materialize.c, and at forks and ends of the process.
 * Safe in threads and signal handlers: words are published by compare and swap.
 */
#include <string.h>
#include <sys/file.h>

#include "client/fd/fdtab.h"
#include "client/real/making.h"

struct fs_alone {
  _Atomic int32_t lock; /* the open directory, locked: number + 1; 0: not entered */
  char path[PATH_MAX];  /* "": there is none */
};

/* The dataset's, or NULL without memory. Names are made once: the environment may change. */
static struct fs_alone *alone_of(struct fs_dataset *ds) {
  void *all = atomic_load_explicit(&ds->alone, memory_order_acquire);
  const size_t bytes = FS_ALONE_BASES * sizeof(struct fs_alone);
  if (all) return all;
  struct fs_alone *mine = fs_mem_map(bytes);
  for (unsigned i = 0; mine && i < FS_ALONE_BASES; i++) {
    const char *base = fs_alone_base(i);
    if (!base || fs_alone_path(base, ds->ix.hdr->dataset_id, mine[i].path) < 0) mine[i].path[0] = '\0';
  }
  if (mine && !fs_publish_ptr(&ds->alone, mine, &all)) fs_mem_unmap(mine, bytes);
  return mine ? all : NULL;
}

/* Takes the word of a lock that is not on the named directory any more. */
static void forget(struct fs_alone *a, int32_t word) {
  if (!atomic_compare_exchange_strong(&a->lock, &word, 0)) return;
  if (fs_data_owns_fd(word - 1)) fs_own_close(word - 1);
}

const char *fs_alone_get(struct fs_dataset *ds, unsigned base) {
  bool temporary;
  struct fs_alone *all = alone_of(ds), *a = all ? &all[base] : NULL;
  if (!a || !a->path[0]) return NULL;
  int32_t word = atomic_load(&a->lock);
  if (word > 0 && fs_alone_is(a->path, word - 1)) return a->path;
  if (fs_vfork_depth > 0) return NULL; /* its parent would not have the lock */
  if (word > 0) forget(a, word);
  fs_fd low = fs_alone_enter(a->path);
  if (low < 0) return NULL;
  (void)fs_own_publish(&a->lock, low, &temporary);
  if (!temporary) return a->path;
  fs_sys_close(low); /* a lock that goes with this call protects nothing */
  return NULL;
}

/* Calls fn for all that this process has entered. */
static void each_entered(void (*fn)(struct fs_alone *a, int32_t word)) {
  struct fs_config *c = fs_config();
  for (uint32_t i = 0; i < c->mounts; i++) {
    struct fs_dataset *ds = atomic_load(&c->mount[i].ds);
    struct fs_alone *all = ds ? atomic_load(&ds->alone) : NULL;
    for (unsigned k = 0; all && k < FS_ALONE_BASES; k++) {
      int32_t word = atomic_load(&all[k].lock);
      if (word > 0) fn(&all[k], word);
    }
  }
}

static void leave(struct fs_alone *a, int32_t word) {
  if (fs_alone_is(a->path, word - 1)) fs_alone_leave(a->path, word - 1);
  forget(a, word);
}

void fs_data_leave(void) {
  if (fs_vfork_depth == 0) each_entered(leave);
}

/* The child's descriptor is the parent's description, and so its lock: the child takes one of its
   own, under the same number. */
static void forked(struct fs_alone *a, int32_t word) {
  bool ours = fs_alone_is(a->path, word - 1);
  fs_fd mine = ours ? fs_sys_openat(word - 1, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0) : -EBADF;
  if (mine < 0 || FS_SYS2(SYS_flock, mine, LOCK_SH | LOCK_NB) != 0 || FS_SYS3(SYS_dup3, mine, word - 1, O_CLOEXEC) < 0)
    forget(a, word);
  if (mine >= 0) fs_sys_close(mine);
}

void fs_alone_forked(void) {
  each_entered(forked);
}
