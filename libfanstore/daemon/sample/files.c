/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps the files that programs waited for (files.h). The slowest are kept by their longest read. The
 * busiest are kept by their reads in a window: a file that is not in a full table takes the place of
 * the one with the fewest reads and inherits their number ("space-saving"). So `reads - inherited`
 * never is too many.
 */
#include "daemon/sample/files.h"

#include <stdio.h>
#include <stdlib.h>

/* Returns the file's record, a new one, or NULL if the table is full. */
static struct fs_file_waits *find(struct fs_file_waits *list, unsigned *n, unsigned room, uint64_t file) {
  for (unsigned i = 0; i < *n; i++)
    if (list[i].file == file) return &list[i];
  if (*n == room) return NULL;
  list[*n] = (struct fs_file_waits){.file = file};
  return &list[(*n)++];
}

static void add(struct fs_file_waits *w, uint64_t us, uint64_t bytes) {
  w->reads++;
  w->bytes += bytes;
  w->us += us;
  w->longest_us = FS_MAX(w->longest_us, us);
}

static void slow(struct fs_files *f, uint64_t file, uint64_t us, uint64_t bytes) {
  struct fs_file_waits *w = find(f->slow, &f->nslow, FS_FILES_SLOW, file);
  if (!w) {
    w = &f->slow[0];
    for (unsigned i = 1; i < FS_FILES_SLOW; i++)
      if (f->slow[i].longest_us < w->longest_us) w = &f->slow[i];
    if (us <= w->longest_us) return;
    *w = (struct fs_file_waits){.file = file};
  }
  add(w, us, bytes);
  f->slow_changed = true;
}

static void busy(struct fs_files *f, uint64_t file, uint64_t us, uint64_t bytes) {
  struct fs_file_waits *w = find(f->busy, &f->nbusy, FS_FILES_BUSY, file);
  if (!w) {
    w = &f->busy[0];
    for (unsigned i = 1; i < FS_FILES_BUSY; i++)
      if (f->busy[i].reads < w->reads) w = &f->busy[i];
    *w = (struct fs_file_waits){.file = file, .reads = w->reads, .inherited = w->reads};
  }
  add(w, us, bytes);
}

void fs_files_take(struct fs_daemon *d, struct fs_files *f, struct fs_client *c) {
  uint64_t file, us, bytes;
  for (unsigned i = 0; i < FS_WAIT_RING && fs_clients_waited(c, &file, &us, &bytes); i++) {
    uint32_t dataset = FS_WAIT_DATASET(file);
    if (dataset >= d->datasets || FS_WAIT_PLACE(file) >= FS_PLACE_COUNT) continue;
    if (file != FS_WAIT_FILE(dataset, FS_WAIT_PLACE(file), FS_WAIT_ENTRY(file))) continue;
    if (FS_WAIT_ENTRY(file) >= d->data[dataset].stage.index.nentries) continue;
    slow(f, file, us, bytes);
    busy(f, file, us, bytes);
  }
}

static uint64_t surely(const struct fs_file_waits *w) {
  return w->reads - w->inherited;
}

static int by_reads(const void *a, const void *b) {
  uint64_t x = surely(a), y = surely(b);
  return (x < y) - (x > y);
}

void fs_files_sample(struct fs_files *f) {
  if (++f->window < FS_FILES_WINDOW) return;
  bool had = f->nshown > 0;
  qsort(f->busy, f->nbusy, sizeof(f->busy[0]), by_reads);
  for (f->nshown = 0; f->nshown < FS_MIN(f->nbusy, FS_FILES_SHOWN) && surely(&f->busy[f->nshown]) > 1; f->nshown++) {
    f->shown[f->nshown] = f->busy[f->nshown];
    f->shown[f->nshown].reads = surely(&f->busy[f->nshown]);
  }
  f->shown_changed = had || f->nshown > 0;
  f->nbusy = f->window = 0;
}

size_t fs_files_text(const struct fs_file_waits *list, unsigned n, char *out, size_t size) {
  size_t len = 0;
  out[0] = '\0';
  for (unsigned i = 0; i < n && len + 128 < size; i++)
    len += (size_t)snprintf(out + len, size - len, "%s%u:%u:%u:%llu:%llu:%llu:%llu", i > 0 ? "," : "",
                            FS_WAIT_DATASET(list[i].file), FS_WAIT_ENTRY(list[i].file), FS_WAIT_PLACE(list[i].file),
                            (unsigned long long)list[i].reads, (unsigned long long)list[i].bytes,
                            (unsigned long long)list[i].us, (unsigned long long)list[i].longest_us);
  return len;
}
