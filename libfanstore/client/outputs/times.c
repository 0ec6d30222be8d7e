/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times and link counts of directories that have outputs (outputs.h). The daemon that keeps a
 * directory's names knows when they were changed last and how many are directories. Each stat asks
 * it; stat of a dataset's directory asks only if outputs may be there. If nobody answers, the times
 * and the count are those that are known here.
 */
#include <sys/stat.h>

#include "client/data_priv.h"
#include "client/outputs/outputs.h"

static fs_err ask(uint64_t dir, struct fs_dir_times *t) {
  const struct fs_node *node = fs_names_node();
  if (node && fs_record_view_times(&node->records, fs_clock_ns(CLOCK_MONOTONIC_COARSE), dir, t)) return 0;
  struct fs_names_call c = {.op = FS_NAMES_TIMES, .times.dir = dir};
  size_t n;
  fs_err err = fs_names_call(&c, "", "", t, sizeof(*t), &n);
  return err == 0 && n != sizeof(*t) ? -EIO : err;
}

fs_err fs_output_changed_at(uint64_t dir, uint64_t *changed) {
  struct fs_dir_times t = {0};
  fs_err err = ask(dir, &t);
  *changed = err == 0 ? t.changed : 0;
  return err;
}

fs_err fs_output_dir_sync(uint32_t entry) {
  const struct fs_output_node *n = fs_output_node(entry);
  struct fs_names_call c = {.op = FS_NAMES_TIMES, .flags = FS_TIMES_SYNC};
  struct fs_dir_times t;
  size_t got;
  if (n) c.times.dir = atomic_load_explicit(&n->id, memory_order_relaxed);
  return n ? fs_names_call(&c, "", "", &t, sizeof(t), &got) : 0;
}

void fs_output_record_times(struct fs_record *r) {
  struct fs_dir_times t;
  if (!S_ISDIR(r->mode) || (r->flags & FS_RECORD_TIMED) || ask(r->id, &t) != 0) return;
  fs_record_changed(r, t.changed);
  r->size = t.subdirs;
  r->flags |= FS_RECORD_TIMED;
}

static bool earlier(struct timespec a, struct timespec b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

void fs_output_dataset_times(uint32_t mount, uint32_t entry, struct stat *st) {
  const struct fs_node *node = fs_names_node();
  uint64_t dir = node == NULL ? 0 : fs_output_dir_id(mount, entry);
  struct fs_dir_times told;
  if (dir == 0 || node->offline || !fs_output_maybe(node, dir) || ask(dir, &told) != 0) return;
  struct timespec t = {.tv_sec = (time_t)(told.changed / 1000000000u), .tv_nsec = (long)(told.changed % 1000000000u)};
  if (earlier(st->st_mtim, t)) st->st_mtim = t;
  if (earlier(st->st_ctim, t)) st->st_ctim = t;
  st->st_nlink += (nlink_t)told.subdirs;
}
