/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which spill is this node's part of a file of several writers (docs/internals/several-writers.md): programs offer one
 * when they write a file that has none here yet, and all others are told of it. So all that a node writes of a file is
 * in one spill, and takes its room once. Relays have parts of their own. An entry is there as long as its spill is. The
 * MPI thread's.
 */
#include "daemon/outputs/node_part.h"

#include <fcntl.h>
#include <stdlib.h>

#include "daemon/outputs/relay.h"
#include "daemon/outputs/spill.h"

#define FS_NODE_PART_FIRST 256u /* chains of a new table */

struct fs_node_part {
  struct fs_node_part *next, *next_part; /* in the chains of their files, and of their own ids */
  uint64_t file, part;
};

struct fs_node_parts {
  struct fs_node_part **file, **part;
  uint64_t mask, count;
};

fs_err fs_node_parts_new(struct fs_daemon *d) {
  struct fs_node_parts *t = calloc(1, sizeof(*t));
  d->node_parts = t;
  if (!t) return -ENOMEM;
  t->file = calloc(FS_NODE_PART_FIRST, sizeof(struct fs_node_part *));
  t->part = calloc(FS_NODE_PART_FIRST, sizeof(struct fs_node_part *));
  t->mask = FS_NODE_PART_FIRST - 1;
  return t->file && t->part ? 0 : -ENOMEM;
}

static struct fs_node_part *fs_node_part_of(const struct fs_node_parts *t, uint64_t file) {
  struct fs_node_part *p = t->file[fs_mix64(file) & t->mask];
  while (p && p->file != file) p = p->next;
  return p;
}

static struct fs_node_part *fs_node_part_find(const struct fs_node_parts *t, uint64_t part) {
  struct fs_node_part *p = t->part[fs_mix64(part) & t->mask];
  while (p && p->part != part) p = p->next_part;
  return p;
}

static void fs_node_part_link(struct fs_node_parts *t, struct fs_node_part *p) {
  struct fs_node_part **file = &t->file[fs_mix64(p->file) & t->mask], **part = &t->part[fs_mix64(p->part) & t->mask];
  p->next = *file, *file = p;
  p->next_part = *part, *part = p;
}

/* Twice as many chains; without memory they just get longer. */
static void fs_node_parts_grow(struct fs_node_parts *t) {
  struct fs_node_parts to = {.mask = 2 * t->mask + 1, .count = t->count};
  to.file = calloc(to.mask + 1, sizeof(struct fs_node_part *));
  to.part = calloc(to.mask + 1, sizeof(struct fs_node_part *));
  if (!to.file || !to.part) {
    free(to.file);
    free(to.part);
    return;
  }
  for (uint64_t i = 0; i <= t->mask; i++) {
    for (struct fs_node_part *p = t->file[i], *next; p; p = next) {
      next = p->next;
      fs_node_part_link(&to, p);
    }
  }
  free(t->file);
  free(t->part);
  *t = to;
}

static void fs_node_part_forget(struct fs_node_parts *t, struct fs_node_part *p) {
  struct fs_node_part **at = &t->file[fs_mix64(p->file) & t->mask];
  while (*at != p) at = &(*at)->next;
  *at = p->next;
  at = &t->part[fs_mix64(p->part) & t->mask];
  while (*at != p) at = &(*at)->next_part;
  *at = p->next_part;
  t->count--;
  free(p);
}

static bool fs_node_part_there(const struct fs_daemon *d, uint64_t part) {
  char name[FS_SPILL_NAME_SIZE];
  struct stat st;
  return fstatat(d->spill_fd, fs_spill_name(part, name), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/* Is this spill nothing else: no file of its own, no relay, no other file's? */
static bool fs_node_part_free(const struct fs_daemon *d, uint64_t part) {
  const struct fs_spill_file *f = fs_spill_find(d, part);
  bool named = f && (f->dir != 0 || f->removed || f->gone);
  return !named && !fs_relay_find(d, part) && !fs_node_part_find(d->node_parts, part) && fs_node_part_there(d, part);
}

static fs_err fs_node_part_add(struct fs_daemon *d, uint64_t file, uint64_t part) {
  struct fs_node_parts *t = d->node_parts;
  if (part == file || !fs_node_part_free(d, part)) return -EINVAL;
  struct fs_node_part *p = malloc(sizeof(*p));
  if (!p) return -ENOMEM;
  if (t->count > t->mask) fs_node_parts_grow(t);
  *p = (struct fs_node_part){.file = file, .part = part};
  fs_node_part_link(t, p);
  t->count++;
  return 0;
}

fs_err fs_node_part_offered(struct fs_daemon *d, uint64_t file, uint64_t offered, uint64_t *part) {
  struct fs_node_part *p = fs_node_part_of(d->node_parts, file);
  if (p && !fs_node_part_there(d, p->part)) {
    fs_node_part_forget(d->node_parts, p);
    p = NULL;
  }
  fs_err err = !p && offered != 0 ? fs_node_part_add(d, file, offered) : 0;
  *part = p ? p->part : offered;
  return err;
}

void fs_node_part_dropped(struct fs_daemon *d, uint64_t part) {
  struct fs_node_part *p = d->node_parts ? fs_node_part_find(d->node_parts, part) : NULL;
  if (p) fs_node_part_forget(d->node_parts, p);
}

void fs_node_part_useless(struct fs_daemon *d, uint64_t file) {
  const struct fs_node_part *p = d->node_parts ? fs_node_part_of(d->node_parts, file) : NULL;
  if (p) fs_spill_dropped(d, p->part);
}
