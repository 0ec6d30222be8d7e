/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes staged copies of partitions that were packed on this node, so that no job copies or reads
   them. A copy is a link, so a pack that is killed meanwhile has all its files, and goes on with them. fanstore-pack
   calls this, in one thread. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/staging/dir.h"

static fs_err adopt(struct fs_stage *s, const struct fs_stage_item *item, int from, const char *name) {
  struct stat st;
  if (fs_stamp_fits(s->dir_fd, item)) return 0;
  if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0) return -errno;
  if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != item->size) return -EBADMSG;
  if (fchmodat(from, name, 0400, 0) < 0) return -errno;
  fs_stamp_remove(s->dir_fd, item);
  unlinkat(s->dir_fd, item->name, 0);
  if (linkat(from, name, s->dir_fd, item->name, 0) < 0 && renameat(from, name, s->dir_fd, item->name) < 0)
    return -errno; /* not even without links */
  return fs_stamp_write(s->dir_fd, item, true);
}

fs_err fs_stage_adopt(struct fs_stage *s, uint32_t p, int from, const char *name, char *why, size_t why_size) {
  if (p >= s->index.nparts) return -EINVAL;
  struct fs_stage_item item = fs_stage_item_part(s, p);
  FS_AUTO_CLOSE int lock = fs_stage_lock_staging(s->dir_fd, NULL, NULL);
  fs_err err = lock < 0 ? lock : adopt(s, &item, from, name);
  return err < 0 ? fs_stage_why(err, why, why_size, s->local, item.name) : 0;
}
