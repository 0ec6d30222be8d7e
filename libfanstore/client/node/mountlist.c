/* SPDX-License-Identifier: BSD-3-Clause */
/* The flat list of mount prefixes (mountlist.h), filled at its first use. */
#include "client/node/mountlist.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "util/util.h"

struct fs_mount_prefix fs_mount_list[FS_MOUNT_NAMES];
_Atomic int32_t fs_mount_listed = -1;
struct fs_mount_filter fs_mount_filter;
const struct fs_index *_Atomic fs_mount_known[FS_MOUNT_NAMES];

static_assert(FS_MOUNT_NAMES <= 32, "a bit for each mount");

static void note_components(struct fs_mount_filter *f, const char *path) {
  while (*path == '/') {
    size_t len = strcspn(++path, "/");
    uint32_t bit = fs_mount_component_bit(path, len);
    f->component[bit / 64] |= 1ull << bit % 64;
    path += len;
  }
}

/* Fills the filter from the first n of fs_mount_list. */
static void fill_filter(uint32_t n) {
  struct fs_mount_filter f = {.common = fs_mount_list[0].len, .path = fs_mount_list[0].path};
  for (uint32_t i = 1; i < n; i++) {
    size_t most = FS_MIN(f.common, fs_mount_list[i].len);
    for (f.common = 0; f.common < most && f.path[f.common] == fs_mount_list[i].path[f.common];) f.common++;
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t bit = 1u << i;
    f.next[(uint8_t)fs_mount_list[i].path[f.common]] |= bit;
    f.next['/'] |= bit;
    f.next['.'] |= bit;
    note_components(&f, fs_mount_list[i].path);
  }
  fs_mount_filter = f; /* threads that race here write the same */
}

static bool is_below(uint32_t k, uint32_t i) {
  return fs_path_below(fs_mount_list[k].path, fs_mount_list[k].len, fs_mount_list[i].path, fs_mount_list[i].len) > 0;
}

uint32_t fs_mount_list_fill(void) {
  uint32_t n = FS_MIN(fs_mount_names(), FS_MOUNT_NAMES);
  for (uint32_t i = 0; i < n; i++) {
    struct fs_mount_prefix *m = &fs_mount_list[i];
    m->path = fs_mount_path(i, &m->len);
    if (m->path == NULL) m->path = "", m->len = 0;
    m->key = fs_xxh3(m->path, m->len);
    m->canonical = fs_mount_canonical(i);
  }
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < n; k++)
      if (fs_mount_list[k].len > fs_mount_list[i].len && is_below(k, i)) fs_mount_list[i].outer = true;
  if (n > 0) fill_filter(n);
  /* An allocator, for example, may call this before libc has set the environment, which is then not
     known yet. */
  if (environ != NULL) atomic_store_explicit(&fs_mount_listed, (int32_t)n, memory_order_release);
  return n;
}

const struct fs_index *fs_mount_ix_slow(uint32_t i, fs_err *err) {
  *err = -EIO;
  if (i >= fs_mount_count()) return NULL;
  const struct fs_index *ix = fs_mount_index(i, err);
  if (ix != NULL) atomic_store_explicit(&fs_mount_known[i], ix, memory_order_release);
  return ix;
}
