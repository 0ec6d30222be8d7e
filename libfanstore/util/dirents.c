/* SPDX-License-Identifier: BSD-3-Clause */
/* See dirents.h. */
#include "util/dirents.h"

#include <string.h>

#include "util/util.h"

/* Relies on the kernel's record being glibc's struct dirent64 on 64-bit machines. */
size_t fs_dirent_put(char *to, size_t room, const struct fs_dirent_view *v, uint64_t next) {
  size_t len = fs_round_up(offsetof(struct dirent64, d_name) + v->name_len + 1, 8);
  struct dirent64 *d = (struct dirent64 *)(void *)to;
  if (len > room) return 0;
  d->d_ino = v->ino;
  d->d_off = (off64_t)next;
  d->d_reclen = (unsigned short)len;
  d->d_type = v->type;
  memmove(d->d_name, v->name, v->name_len);
  d->d_name[v->name_len] = '\0';
  return len;
}
