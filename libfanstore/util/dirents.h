/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the names of a real directory by raw system calls, without allocation. For the preloaded
 * library, which must not call libc's opendir.
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

#endif
