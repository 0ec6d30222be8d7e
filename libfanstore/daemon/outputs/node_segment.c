/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which backing file is this node's segment of a file of several writers (docs/internals/several-writers.md): programs
 * offer one when they write a file that has none here yet, and all others are told of it. So all that a node writes of
 * a file is in one backing file, and takes its room once. Forwarders have segments of their own. An entry is there as
 * long as its backing file is. The MPI thread's.
 */
#include "daemon/outputs/node_segment.h"

#include <fcntl.h>
#include <stdlib.h>

#include "daemon/outputs/backing.h"
#include "daemon/outputs/forwarder.h"

#define FS_NODE_SEGMENT_FIRST 256u /* chains of a new table */

struct fs_node_segment {
  struct fs_node_segment *next, *next_segment; /* in the chains of their files, and of their own ids */
  uint64_t file, segment;
};

struct fs_node_segments {
  struct fs_node_segment **file, **segment;
  uint64_t mask, count;
};

fs_err fs_node_segments_new(struct fs_daemon *d) {
  struct fs_node_segments *t = calloc(1, sizeof(*t));
  d->node_segments = t;
  if (!t) return -ENOMEM;
  t->file = calloc(FS_NODE_SEGMENT_FIRST, sizeof(struct fs_node_segment *));
  t->segment = calloc(FS_NODE_SEGMENT_FIRST, sizeof(struct fs_node_segment *));
  t->mask = FS_NODE_SEGMENT_FIRST - 1;
  return t->file && t->segment ? 0 : -ENOMEM;
}

static struct fs_node_segment *fs_node_segment_of(const struct fs_node_segments *t, uint64_t file) {
  struct fs_node_segment *p = t->file[fs_mix64(file) & t->mask];
  while (p && p->file != file) p = p->next;
  return p;
}

static struct fs_node_segment *fs_node_segment_find(const struct fs_node_segments *t, uint64_t segment) {
  struct fs_node_segment *p = t->segment[fs_mix64(segment) & t->mask];
  while (p && p->segment != segment) p = p->next_segment;
  return p;
}

static void fs_node_segment_link(struct fs_node_segments *t, struct fs_node_segment *p) {
  struct fs_node_segment **file = &t->file[fs_mix64(p->file) & t->mask],
                         **segment = &t->segment[fs_mix64(p->segment) & t->mask];
  p->next = *file, *file = p;
  p->next_segment = *segment, *segment = p;
}

/* Twice as many chains; without memory they just get longer. */
static void fs_node_segments_grow(struct fs_node_segments *t) {
  struct fs_node_segments to = {.mask = 2 * t->mask + 1, .count = t->count};
  to.file = calloc(to.mask + 1, sizeof(struct fs_node_segment *));
  to.segment = calloc(to.mask + 1, sizeof(struct fs_node_segment *));
  if (!to.file || !to.segment) {
    free(to.file);
    free(to.segment);
    return;
  }
  for (uint64_t i = 0; i <= t->mask; i++) {
    for (struct fs_node_segment *p = t->file[i], *next; p; p = next) {
      next = p->next;
      fs_node_segment_link(&to, p);
    }
  }
  free(t->file);
  free(t->segment);
  *t = to;
}

static void fs_node_segment_forget(struct fs_node_segments *t, struct fs_node_segment *p) {
  struct fs_node_segment **at = &t->file[fs_mix64(p->file) & t->mask];
  while (*at != p) at = &(*at)->next;
  *at = p->next;
  at = &t->segment[fs_mix64(p->segment) & t->mask];
  while (*at != p) at = &(*at)->next_segment;
  *at = p->next_segment;
  t->count--;
  free(p);
}

static bool fs_node_segment_there(const struct fs_daemon *d, uint64_t segment) {
  char name[FS_BACKING_NAME_SIZE];
  struct stat st;
  return fstatat(d->backing_fd, fs_backing_name(segment, name), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/* Is this backing file nothing else: no file of its own, no forwarder, no other file's? */
static bool fs_node_segment_free(const struct fs_daemon *d, uint64_t segment) {
  const struct fs_backing_file *f = fs_backing_find(d, segment);
  bool named = f && (f->dir != 0 || f->removed || f->gone);
  return !named && !fs_forwarder_find(d, segment) && !fs_node_segment_find(d->node_segments, segment) &&
         fs_node_segment_there(d, segment);
}

static fs_err fs_node_segment_add(struct fs_daemon *d, uint64_t file, uint64_t segment) {
  struct fs_node_segments *t = d->node_segments;
  if (segment == file || !fs_node_segment_free(d, segment)) return -EINVAL;
  struct fs_node_segment *p = malloc(sizeof(*p));
  if (!p) return -ENOMEM;
  if (t->count > t->mask) fs_node_segments_grow(t);
  *p = (struct fs_node_segment){.file = file, .segment = segment};
  fs_node_segment_link(t, p);
  t->count++;
  return 0;
}

fs_err fs_node_segment_offered(struct fs_daemon *d, uint64_t file, uint64_t offered, uint64_t *segment) {
  struct fs_node_segment *p = fs_node_segment_of(d->node_segments, file);
  if (p && !fs_node_segment_there(d, p->segment)) {
    fs_node_segment_forget(d->node_segments, p);
    p = NULL;
  }
  fs_err err = !p && offered != 0 ? fs_node_segment_add(d, file, offered) : 0;
  *segment = p ? p->segment : offered;
  return err;
}

void fs_node_segment_dropped(struct fs_daemon *d, uint64_t segment) {
  struct fs_node_segment *p = d->node_segments ? fs_node_segment_find(d->node_segments, segment) : NULL;
  if (p) fs_node_segment_forget(d->node_segments, p);
}

void fs_node_segment_useless(struct fs_daemon *d, uint64_t file) {
  const struct fs_node_segment *p = d->node_segments ? fs_node_segment_of(d->node_segments, file) : NULL;
  if (p) fs_backing_dropped(d, p->segment);
}
