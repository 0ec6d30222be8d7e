/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node whose daemon cannot be met when a program starts, because it is dead, stopped, or refuses.
 * The daemon has left a description of the node in the run directory (ipc/node.h): which partitions
 * are here, how they are read, and which directories may have outputs. The program reads local
 * partitions and shared storage, and gets EIO where outputs may be. If no description is there,
 * outputs may be everywhere. attach.c calls this. The node is published by compare and swap and
 * never freed.
 */
#include <string.h>
#include <sys/stat.h>

#include "client/data_priv.h"

#define FS_CTL_LARGEST (1ull << 30) /* more than all partitions that there can be */
#define FS_OFFLINE_DEADLINE_NS 1000000000ull

static void *_Atomic g_offline;

/* Reads the ctl into memory of this process's own, because the file may be cut at any time. Returns
   NULL if it is not there or not well-formed. */
static struct fs_ctl *read_ctl(const char *run, uint32_t rank) {
  char path[PATH_MAX];
  struct stat st;
  if (fs_run_ctl(run, rank, path, sizeof(path)) < 0) return NULL;
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
  if (fd < 0 || fs_sys_fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != (uid_t)FS_SYS1(SYS_geteuid, 0))
    return NULL;
  uint64_t size = (uint64_t)st.st_size;
  struct fs_ctl *c = size >= sizeof(*c) && size <= FS_CTL_LARGEST ? fs_mem_map(size) : NULL;
  if (!c) return NULL;
  if (fs_pread_full(fd, c, size, 0) == 0 && fs_ctl_valid(c, size)) return c;
  fs_mem_unmap(c, size);
  return NULL;
}

static struct fs_ctl *unknown_ctl(uint32_t rank) {
  struct fs_ctl *c = fs_mem_map(sizeof(*c));
  if (!c) return NULL;
  c->node = rank;
  c->nodes = rank + 1;
  c->size = c->placements = sizeof(*c);
  c->deadline_ns = FS_OFFLINE_DEADLINE_NS;
  for (size_t i = 0; i < FS_ARRAY_LEN(c->outputs); i++)
    atomic_store_explicit(&c->outputs[i], ~0ull, memory_order_relaxed);
  return c;
}

/* Resets everything that only a running daemon keeps true. */
static void take_offline(struct fs_ctl *c) {
  atomic_store(&c->heartbeat_ns, 0);
  atomic_store(&c->stopping, 1);
  atomic_store(&c->tree, FS_TREE_UNKNOWN);
  atomic_store(&c->lists, FS_LISTS_UNKNOWN);
  atomic_store(&c->output_full, 0);
  atomic_fetch_and(&c->node_local_any, FS_NL_TAKEN);
}

const struct fs_node *fs_node_was_offline(void) {
  return atomic_load_explicit(&g_offline, memory_order_acquire);
}

const struct fs_node *fs_node_offline(const char *run, uint32_t rank) {
  static const _Atomic uint32_t empty[FS_CACHE_WAYS]; /* a cache with nothing in it */
  struct fs_node *mine = fs_mem_map(sizeof(*mine));
  struct fs_ctl *c = mine && run ? read_ctl(run, rank) : NULL;
  if (mine && !c) c = unknown_ctl(rank);
  if (!c) {
    fs_mem_unmap(mine, sizeof(*mine));
    return fs_node_was_offline();
  }
  take_offline(c);
  mine->ctl = c;
  mine->placement = (const struct fs_placement *)((const char *)c + c->placements);
  mine->view.bucket = empty;
  mine->deadline_ns = FS_MIN(FS_MAX(c->deadline_ns, FS_DEADLINE_MIN_NS), FS_DEADLINE_MAX_NS);
  mine->offline = true;
  void *node;
  uint64_t size = c->size;
  if (fs_publish_ptr(&g_offline, mine, &node)) return node;
  fs_mem_unmap(c, size);
  fs_mem_unmap(mine, sizeof(*mine));
  return node;
}
