/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of getdents64(2), read and written without allocation. For the preloaded library, which
 * must not call libc's opendir and which answers for directories of its own.
 */
#ifndef FS_UTIL_DIRENTS_H
#define FS_UTIL_DIRENTS_H

#include <dirent.h>

#include "util/sys.h"

struct fs_dirents {
  int fd; /* an open directory of the caller; below 0: no names */
  long at, have;
  alignas(struct dirent64) char page[2048];
};

/* Returns the next name, including "." and "..", valid until the next call. Returns NULL at the end
   or if the directory cannot be read. */
static inline const struct dirent64 *fs_dirents_next(struct fs_dirents *d) {
  if (d->at >= d->have) {
    d->at = 0;
    d->have = d->fd < 0 ? 0 : FS_SYS3(SYS_getdents64, d->fd, d->page, sizeof(d->page));
    if (d->have <= 0) return NULL;
  }
  const struct dirent64 *e = (const struct dirent64 *)(const void *)(d->page + d->at);
  d->at += e->d_reclen;
  return e;
}

/* What a record says. */
struct fs_dirent_view {
  uint64_t ino;
  const char *name;
  uint32_t name_len;
  uint8_t type; /* DT_* */
};
/* Writes one getdents64 record, with `next` as the position after it. Returns its length, or 0 if
   there is no room. The name may lie at `to` or after it, behind as many bytes as a record has
   before its name, or more. */
size_t fs_dirent_put(char *to, size_t room, const struct fs_dirent_view *v, uint64_t next);

#endif
