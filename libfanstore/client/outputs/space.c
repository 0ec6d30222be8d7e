/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much may be written (outputs.h; docs/internals/output-bytes.md). The daemon adds up what
 * the node's outputs take, and one word says when that is too much. Each writer reads the word; the
 * kernel knows nothing of it.
 */
#include <errno.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "client/data_priv.h"
#include "client/outputs/outputs.h"

fs_err fs_output_room(int fd, uint64_t size) {
  struct stat st;
  if (!fs_output_tracked(fs_fd_entry(fd)) || !fs_output_full()) return 0;
  return size == UINT64_MAX || (fs_sys_fstat(fd, &st) == 0 && size > (uint64_t)st.st_size) ? -EDQUOT : 0;
}

static uint64_t left_of(const struct fs_node *node) {
  uint64_t limit = node->ctl->output_limit;
  uint64_t used = atomic_load_explicit(&node->ctl->output_used, memory_order_relaxed);
  return limit == 0 ? UINT64_MAX : limit - FS_MIN(used, limit);
}

uint64_t fs_output_left(void) {
  const struct fs_node *node = fs_names_node();
  return node == NULL ? UINT64_MAX : left_of(node);
}

/* Counts all in the dataset's blocks. What is taken is then the dataset, and what the backing file
   system has lost. */
void fs_output_add_room(const struct fs_node *node, struct statfs *st) {
  struct statfs backing;
  if (FS_SYS2(SYS_statfs, node->ctl->backing, &backing) != 0) return;
  uint64_t unit = (uint64_t)(backing.f_frsize > 0 ? backing.f_frsize : backing.f_bsize), block = (uint64_t)st->f_frsize;
  uint64_t left = left_of(node), limit = node->ctl->output_limit > 0 ? node->ctl->output_limit : UINT64_MAX;
  if (unit == 0 || block == 0) return;
  st->f_blocks += FS_MIN(backing.f_blocks * unit, limit) / block;
  st->f_bfree = FS_MIN(backing.f_bfree * unit, left) / block;
  st->f_bavail = FS_MIN(backing.f_bavail * unit, left) / block;
  st->f_files += backing.f_files;
  st->f_ffree = backing.f_ffree;
  st->f_flags &= ~ST_RDONLY;
}
