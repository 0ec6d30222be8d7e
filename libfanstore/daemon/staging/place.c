/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The placement table, as the launcher's `place` lines give it. Only the order of the owners is
 * computed here: this node first, the others rotated by its rank, so that not all nodes ask the
 * same owner. Lines are checked in full, because a wrong rank would mean a message to nobody. The
 * MPI thread calls this; the worker calls fs_place_lose while the MPI thread does not look at the
 * table.
 */
#include <string.h>

#include "daemon/daemon.h"
#include "util/util.h"

/* The owner at position i of the list [first, first + 1, ...], where "all" stands for every rank. */
struct fs_owners {
  uint32_t rank[FS_MAX_OWNERS * 4];
  uint32_t n;
  bool all;
  bool passed;     /* the owners get it from each other, and the first from `source` */
  uint32_t source; /* an owner, or another rank that has it */
};

/* Parses "3.1", "-" or "*", each with "<5" behind it if the source is 5. */
static fs_err fs_place_owners(char *text, uint32_t nodes, struct fs_owners *o) {
  uint64_t source = 0;
  char *tail = strchr(text, '<');
  o->n = 0;
  o->passed = tail != NULL;
  if (tail) *tail = '\0';
  if (tail && fs_parse_u64(tail + 1, 0, nodes - 1, &source) < 0) return -EINVAL;
  o->source = (uint32_t)source;
  o->all = strcmp(text, "*") == 0;
  if (o->all || strcmp(text, "-") == 0) return 0;
  for (char *cursor = text, *word; (word = strsep(&cursor, ".")) != NULL;) {
    uint64_t rank;
    if (fs_parse_u64(word, 0, nodes - 1, &rank) < 0) return -EINVAL;
    if (o->n == FS_ARRAY_LEN(o->rank)) return -EINVAL;
    o->rank[o->n++] = (uint32_t)rank;
  }
  return 0;
}

static void fs_place_add(struct fs_placement *p, uint32_t rank) {
  if (p->owners == FS_MAX_OWNERS) return;
  for (uint32_t i = 0; i < p->owners; i++) {
    if (p->owner[i] == rank) return;
  }
  p->owner[p->owners++] = (uint16_t)rank;
}

static void fs_place_fill(struct fs_placement *p, const struct fs_owners *o, uint32_t self, uint32_t nodes) {
  uint32_t n = o->all ? nodes : o->n;
  *p = (struct fs_placement){.owners = 0};
  for (uint32_t i = 0; i < n; i++) {
    if ((o->all ? i : o->rank[i]) != self) continue;
    p->flags = FS_PLACE_LOCAL;
    fs_place_add(p, self);
  }
  for (uint32_t i = 0; i < n && p->owners < FS_MAX_OWNERS; i++) {
    uint32_t at = (self + i) % n;
    fs_place_add(p, o->all ? at : o->rank[at]);
  }
}

/* Returns the rank from which this node gets the partition. The ranks are a binary tree: first the
   source, then the owners in their order, or from the source on if they are all. */
static uint16_t fs_place_from(const struct fs_owners *o, uint32_t self, uint32_t nodes) {
  uint32_t at = 0, order[FS_ARRAY_LEN(o->rank) + 1] = {o->source}, n = 1;
  if (!o->passed || self == o->source) return FS_FROM_SHARED;
  if (o->all) return (uint16_t)((((self + nodes - o->source) % nodes - 1) / 2 + o->source) % nodes);
  for (uint32_t i = 0; i < o->n; i++) {
    if (o->rank[i] == o->source) continue;
    if (o->rank[i] == self) at = n;
    order[n++] = o->rank[i];
  }
  return at == 0 ? FS_FROM_SHARED : (uint16_t)order[(at - 1) / 2];
}

fs_err fs_place_apply(struct fs_daemon *d, const struct fs_control *c) {
  uint64_t dataset, part;
  if (fs_control_get_u64(c, "dataset", &dataset) < 0 || dataset >= d->datasets) return -EINVAL;
  if (fs_control_get_u64(c, "first", &part) < 0) return -EINVAL;
  const char *list = fs_control_get(c, "owners");
  char text[FS_CONTROL_LINE];
  if (!list || strlen(list) >= sizeof(text)) return -EINVAL;
  memcpy(text, list, strlen(list) + 1);
  struct fs_dataset *ds = &d->data[dataset];
  for (char *cursor = text, *word; (word = strsep(&cursor, ",")) != NULL; part++) {
    struct fs_owners o;
    if (part >= ds->partitions || fs_place_owners(word, d->net->nodes, &o) < 0) return -EINVAL;
    fs_place_fill(&ds->place[part], &o, d->net->rank, d->net->nodes);
    ds->from[part] = fs_place_from(&o, d->net->rank, d->net->nodes);
    d->passing = d->passing || o.passed;
  }
  return 0;
}

void fs_place_lose(struct fs_dataset *ds, uint32_t rank, uint32_t part) {
  struct fs_placement *p = &ds->place[part], old = *p;
  *p = (struct fs_placement){.owners = 0};
  for (uint32_t i = 0; i < old.owners; i++) {
    if (old.owner[i] != rank) fs_place_add(p, old.owner[i]);
  }
}
