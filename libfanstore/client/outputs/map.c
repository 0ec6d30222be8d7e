/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Outputs of this node that the process has mapped to write them (outputs.h). Stores leave no trace
 * on which the daemon could rely, so msync, munmap and the process's end publish them. A mapping
 * that finds no room here, or is moved, is published when the kernel closes the file.
 */
#include "client/data_priv.h"
#include "client/outputs/outputs.h"

#define FS_MAPS 64u

static struct {
  _Atomic uintptr_t begin; /* 0: free; 1: being filled */
  _Atomic uintptr_t end;
  _Atomic uint64_t id;
} maps[FS_MAPS];
_Atomic uint32_t fs_output_maps;

void fs_output_mapped(int fd, const void *addr, size_t n) {
  uint64_t id = fs_output_tracked_id(fd);
  fs_output_note_mapped(fd);
  for (unsigned i = 0; id != 0 && i < FS_MAPS; i++) {
    uintptr_t none = 0;
    if (!atomic_compare_exchange_strong(&maps[i].begin, &none, 1)) continue;
    atomic_store(&maps[i].id, id);
    atomic_store(&maps[i].end, (uintptr_t)addr + n);
    atomic_store(&maps[i].begin, (uintptr_t)addr);
    atomic_fetch_add(&fs_output_maps, 1);
    return;
  }
  if (id != 0) atomic_fetch_add(&fs_output_maps, 1); /* for good: each close publishes */
}

fs_err fs_output_map_sync(const void *addr, size_t n, bool unmapped) {
  uintptr_t from = (uintptr_t)addr, to = from + n;
  fs_err first = 0;
  for (unsigned i = 0; i < FS_MAPS; i++) {
    uintptr_t begin = atomic_load(&maps[i].begin), end = atomic_load(&maps[i].end);
    uint64_t id = atomic_load(&maps[i].id);
    if (begin <= 1 || end <= from || begin >= to) continue;
    bool gone = unmapped && from <= begin && end <= to;
    if (gone && !atomic_compare_exchange_strong(&maps[i].begin, &begin, 0)) continue;
    if (gone) atomic_fetch_sub(&fs_output_maps, 1);
    fs_err err = fs_output_sync(id, 0, UINT64_MAX); /* the id is no forwarder's */
    if (first == 0) first = err;
  }
  return first;
}
