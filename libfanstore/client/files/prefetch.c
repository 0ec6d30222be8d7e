/* SPDX-License-Identifier: BSD-3-Clause */
/* Prefetches whole files by their paths, for fanstore_prefetch. No locks, no allocation. */
#include <sys/stat.h>

#include "client/files/info.h"
#include "client/outputs/outputs.h"
#include "util/util.h"

#define FS_NAP_NS 100000
#define FS_PATIENCE_NS 50000000ull

/* Prefetches one file, and waits a little whenever the queue is full. Returns -EAGAIN if the queue
   does not move. */
static fs_err fs_prefetch_whole(const struct fs_found *f) {
  const struct timespec nap = {.tv_nsec = FS_NAP_NS};
  uint64_t off = 0, before = 0, since = 0, now;
  fs_err err;
  bool held = !fs_is_output(f->entry) || fs_output_is_open(f->entry);
  while ((err = fs_data_prefetch_from(f->mount, f->entry, &off, UINT64_MAX)) == -EAGAIN) {
    now = fs_now_ns();
    if (off != before || since == 0) since = now;
    if (now - since > FS_PATIENCE_NS) break;
    before = off;
    FS_SYS2(SYS_nanosleep, &nap, NULL);
  }
  if (!held) fs_output_close(f->entry); /* home keeps its bytes only while it is open */
  return err;
}

static bool fs_is_file(const struct fs_found *f) {
  uint32_t mode;
  return fs_entry_mode(f->mount, f->entry, &mode) == 0 && S_ISREG(mode);
}

fs_ssize fs_data_prefetch_list(const char *const *paths, size_t n, size_t *started) {
  size_t done = 0, files = 0;
  if (fs_mounts() == 0) return -ENXIO;
  for (; done < n; done++) {
    struct fs_found f;
    if (!paths[done] || fs_path_find(paths[done], &f) != FS_IN) continue;
    if (!fs_is_file(&f)) continue;
    if (fs_prefetch_whole(&f) == -EAGAIN) break;
    files++;
  }
  if (started) *started = files;
  return (fs_ssize)done;
}
