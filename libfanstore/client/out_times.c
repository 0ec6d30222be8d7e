/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times of directories that have outputs (out.h). Who keeps the names in a directory knows when they were changed last,
 * and is asked by each stat of it; of a dataset's directory only where outputs may be. When nobody answers, the times
 * are those that are known here.
 */
#include <sys/stat.h>

#include "client/data_priv.h"
#include "client/out.h"

fs_err fs_out_changed_at(uint64_t dir, uint64_t *changed) {
  struct fs_names_call c = {.op = FS_NAMES_TIMES, .dir = dir};
  size_t n;
  *changed = 0;
  fs_err err = fs_names_call(&c, "", "", changed, sizeof(*changed), &n);
  return err == 0 && n != sizeof(*changed) ? -EIO : err;
}

void fs_out_record_times(struct fs_record *r) {
  uint64_t changed;
  if (!S_ISDIR(r->mode) || (r->flags & FS_RECORD_TIMED) || fs_out_changed_at(r->id, &changed) != 0) return;
  fs_record_changed(r, changed);
  r->flags |= FS_RECORD_TIMED;
}

static bool earlier(struct timespec a, struct timespec b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

void fs_out_dataset_times(uint32_t mount, uint32_t entry, struct stat *st) {
  const struct fs_node *node = fs_names_node();
  uint64_t dir = node == NULL ? 0 : fs_out_dir_id(mount, entry), changed;
  if (dir == 0 || node->offline || !fs_out_maybe(node, dir) || fs_out_changed_at(dir, &changed) != 0) return;
  struct timespec t = {.tv_sec = (time_t)(changed / 1000000000u), .tv_nsec = (long)(changed % 1000000000u)};
  if (earlier(st->st_mtim, t)) st->st_mtim = t;
  if (earlier(st->st_ctim, t)) st->st_ctim = t;
}
