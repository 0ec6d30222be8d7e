/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts how evenly a dataset's files lie on its partitions, and on the nodes of a job, for `info`.
 * The placement is that of fs-launch for nodes with equal room and no copies yet. A file belongs to
 * the partition of its first block. One thread.
 */
#include <stdlib.h>

#include "prepare.h"

#define NOWHERE UINT32_MAX /* for empty files and for replicated partitions */

/* Returns the number of the partition that a file belongs to, or NOWHERE. */
static uint32_t part_of(const struct fs_index *ix, uint64_t entry) {
  struct fs_block block;
  const struct fs_entry *e = &ix->entries[entry];
  if (!S_ISREG(e->mode) || e->size == 0 || fs_index_block(ix, (uint32_t)entry, 0, &block) < 0) return NOWHERE;
  return block.partition;
}

static int by_size(const void *va, const void *vb, void *ctx) {
  const struct fs_part_rec *parts = ctx;
  uint32_t a = *(const uint32_t *)va, b = *(const uint32_t *)vb;
  if (parts[a].size != parts[b].size) return parts[a].size > parts[b].size ? -1 : 1;
  return a < b ? -1 : a > b;
}

/* Sets node[p] for each partition: the largest first, each to the node with the fewest bytes. Adds
   the bytes of each node to `bytes`. */
static fs_err place(const struct fs_index *ix, uint32_t nodes, uint32_t *node, uint64_t *bytes) {
  FS_AUTO_FREE uint32_t *order = malloc((ix->nparts + 1) * sizeof *order);
  if (order == NULL) return -ENOMEM;
  uint64_t everywhere = 0;
  for (uint32_t p = 0; p < ix->nparts; p++) order[p] = p;
  qsort_r(order, ix->nparts, sizeof *order, by_size, (void *)ix->parts);
  for (uint64_t i = 0; i < ix->nparts; i++) {
    const struct fs_part_rec *part = &ix->parts[order[i]];
    uint32_t least = 0;
    node[order[i]] = NOWHERE;
    if (part->flags & FS_PART_REPLICATE) {
      everywhere += part->size;
      continue;
    }
    for (uint32_t n = 1; n < nodes; n++)
      if (bytes[n] < bytes[least]) least = n;
    node[order[i]] = least;
    bytes[least] += part->size;
  }
  for (uint32_t n = 0; n < nodes; n++) bytes[n] += everywhere;
  return 0;
}

/* The places (nodes or partitions) that the current directory has files on. */
struct marks {
  uint64_t *dir; /* [place]: number + 1 of the last directory that had a file there */
  uint64_t files, places;
};

static void mark(struct marks *m, uint64_t dir, uint32_t place) {
  m->files++;
  if (m->dir[place] == dir + 1) return;
  m->dir[place] = dir + 1;
  m->places++;
}

/* Adds the files of each place to files[], and computes the mean spread of directories. */
static void count(const struct fs_index *ix, const uint32_t *place_of, uint32_t places, struct marks *m,
                  struct fs_spread *out, uint64_t *files) {
  double sum = 0;
  uint64_t dirs = 0;
  for (uint64_t d = 0; d < ix->nentries; d++) {
    uint32_t first;
    uint64_t children;
    if (!S_ISDIR(ix->entries[d].mode) || fs_index_children(ix, (uint32_t)d, &first, &children) < 0) continue;
    m->files = m->places = 0;
    for (uint64_t i = first; i < first + children; i++) {
      uint32_t part = part_of(ix, i);
      if (part == NOWHERE || place_of[part] == NOWHERE) continue;
      files[place_of[part]]++;
      mark(m, d, place_of[part]);
    }
    if (m->files < 2) continue;
    sum += (double)m->places / (double)FS_MIN(m->files, (uint64_t)places);
    dirs++;
  }
  out->directories = dirs != 0 ? sum / (double)dirs : 1;
}

static void set_range(const uint64_t *value, uint32_t n, uint64_t *least, uint64_t *most) {
  *least = *most = value[0];
  for (uint32_t i = 1; i < n; i++) {
    *least = FS_MIN(*least, value[i]);
    *most = FS_MAX(*most, value[i]);
  }
}

fs_err fs_spread_over_nodes(const struct fs_index *ix, uint32_t nodes, struct fs_spread *out) {
  FS_AUTO_FREE uint32_t *node = malloc((ix->nparts + 1) * sizeof *node);
  FS_AUTO_FREE uint64_t *bytes = calloc(nodes, sizeof *bytes);
  FS_AUTO_FREE uint64_t *files = calloc(nodes, sizeof *files);
  FS_AUTO_FREE uint64_t *dir = calloc(nodes, sizeof *dir);
  if (node == NULL || bytes == NULL || files == NULL || dir == NULL) return -ENOMEM;
  fs_err err = place(ix, nodes, node, bytes);
  if (err < 0) return err;
  struct marks m = {.dir = dir};
  *out = (struct fs_spread){.nodes = nodes};
  count(ix, node, nodes, &m, out, files);
  set_range(files, nodes, &out->least_files, &out->most_files);
  set_range(bytes, nodes, &out->least_bytes, &out->most_bytes);
  return 0;
}

void fs_spread_files(const struct fs_index *ix, uint64_t *files) {
  for (uint64_t i = 0; i < ix->nentries; i++) {
    uint32_t part = part_of(ix, i);
    if (part != NOWHERE) files[part]++;
  }
}
