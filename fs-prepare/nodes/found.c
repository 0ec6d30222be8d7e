/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of what a node has found in a SOURCE, in its messages to the lead: those that the walk (walk.c)
 * and the scan of archives (scan.c) have in common. Any thread, each with its own message.
 */
#include <string.h>

#include "nodes.h"

void fs_found_put_item(struct fs_msg *m, const struct fs_item *item, const char *path) {
  fs_msg_u32(m, FS_FOUND_ITEM);
  fs_msg_text(m, path);
  fs_msg_u32(m, item->mode);
  fs_msg_u64(m, item->size);
  fs_msg_u64(m, item->ino);
  fs_msg_u64(m, (uint64_t)item->mtime_sec);
  fs_msg_u32(m, item->mtime_nsec);
  fs_msg_u32(m, item->replicate);
  fs_msg_u32(m, item->linked);
  fs_msg_text(m, S_ISLNK(item->mode) ? item->target : "");
}

fs_err fs_found_take_item(struct fs_in *in, struct fs_arena *text, struct fs_item *item) {
  *item = (struct fs_item){.path = (char *)fs_in_path(in)};
  const uint32_t mode = fs_in_u32(in);
  item->size = fs_in_u64(in);
  item->ino = fs_in_u64(in);
  item->mtime_sec = (int64_t)fs_in_u64(in);
  item->mtime_nsec = fs_in_u32(in);
  item->replicate = fs_in_u32(in) != 0;
  item->linked = fs_in_u32(in) != 0;
  const char *target = fs_in_text(in);
  const bool known = S_ISREG(mode) || ((S_ISDIR(mode) || S_ISLNK(mode)) && item->size == 0);
  if (in->bad || mode > UINT16_MAX || !known || item->size > INT64_MAX || item->mtime_nsec >= FS_NS_PER_S ||
      strlen(target) >= PATH_MAX)
    return -EPROTO;
  item->mode = (uint16_t)mode;
  if (S_ISLNK(mode)) item->target = fs_arena_text(text, target, strlen(target));
  return S_ISLNK(mode) && item->target == NULL ? -ENOMEM : 0;
}

void fs_found_put_problem(struct fs_msg *m, const char *path, const char *what) {
  fs_msg_u32(m, FS_FOUND_PROBLEM);
  fs_msg_text(m, path);
  fs_msg_text(m, what);
}

fs_err fs_found_take_problem(struct fs_in *in, const char **path, const char **what) {
  *path = fs_in_text(in);
  *what = fs_in_text(in);
  return in->bad ? -EPROTO : 0;
}
