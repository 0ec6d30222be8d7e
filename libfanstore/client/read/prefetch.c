/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fetches ahead on a hint of the program: posix_fadvise, readahead or fanstore_prefetch. Remote
 * blocks go as keys into a queue of this process's channel. The daemon takes them after what reads
 * wait for. The kernel gets a hint for local and shared blocks. client/files and preload call this.
 * No locks, no allocation.
 */
#include "client/data_priv.h"
#include "client/files/info.h"
#include "client/outputs/outputs.h"

#define FS_NAP_NS 100000
#define FS_PATIENCE_NS 50000000ull

/* Several blocks that lie behind one another in a partition are one hint. */
struct fs_hint {
  struct fs_block b;
  bool local, any;
};

static void fs_hint_give(struct fs_dataset *ds, struct fs_hint *h) {
  if (!h->any) return;
  if (h->local)
    fs_local_willneed(ds, &h->b);
  else
    fs_shared_willneed(ds, &h->b);
  h->any = false;
}

static void fs_hint_add(struct fs_dataset *ds, struct fs_hint *h, const struct fs_block *b, bool local) {
  bool next = h->any && h->local == local && h->b.partition == b->partition &&
              h->b.offset + h->b.stored_len == b->offset && h->b.stored_len <= UINT32_MAX - b->stored_len;
  if (next) {
    h->b.stored_len += b->stored_len;
    return;
  }
  fs_hint_give(ds, h);
  *h = (struct fs_hint){.b = *b, .local = local, .any = true};
}

static fs_err fs_prefetch_block(struct fs_dataset *ds, struct fs_link *link, const struct fs_block *b,
                                struct fs_hint *h) {
  bool local = fs_is_local(ds, b->partition);
  if (!local && link && fs_is_remote(ds, b->partition)) return fs_remote_want(ds, link, b);
  fs_hint_add(ds, h, b, local);
  return 0;
}

fs_err fs_data_prefetch_from(uint32_t mount, uint32_t entry, uint64_t *off, uint64_t end) {
  fs_err err = 0;
  struct fs_hint hint = {.any = false};
  if (fs_is_output(entry)) return fs_output_prefetch_from(entry, off, end);
  struct fs_dataset *ds = fs_dataset(mount, &err);
  const struct fs_entry *e = ds ? fs_index_entry(&ds->ix, entry) : NULL;
  if (!e) return ds ? -EUCLEAN : err;
  if (!S_ISREG(e->mode)) return -EUCLEAN;
  struct fs_link *link = ds->node ? fs_link_get() : NULL;
  end = FS_MIN(end, e->size);
  for (unsigned k = 0; *off < end && k < FS_PREFETCH_BLOCKS; k++) {
    struct fs_block b;
    uint64_t i = *off >> ds->ix.block_shift;
    err = fs_index_block(&ds->ix, entry, i, &b);
    if (err == 0) err = fs_prefetch_block(ds, link, &b, &hint);
    if (err < 0) break;
    *off = (i + 1) << ds->ix.block_shift;
  }
  fs_hint_give(ds, &hint);
  if (link) fs_remote_ring(ds, link);
  return err;
}

void fs_data_prefetch(uint32_t mount, uint32_t entry, uint64_t off, uint64_t n) {
  if (n > 0) (void)fs_data_prefetch_from(mount, entry, &off, n < UINT64_MAX - off ? off + n : UINT64_MAX);
}

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
  fs_err err;
  if (fs_is_output(f->entry)) return fs_output_mode(f->entry, &mode) == 0 && S_ISREG(mode);
  const struct fs_index *ix = fs_mount_ix(f->mount, &err);
  const struct fs_entry *e = ix ? fs_index_entry(ix, f->entry) : NULL;
  return e && S_ISREG(e->mode);
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
