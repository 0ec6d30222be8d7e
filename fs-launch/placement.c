/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes the placement (placement.h). First, a staged partition stays on a node that has it while
 * that node holds less than its fair share. Then the largest partitions go first, each to the node
 * with the fewest bytes so far. This rule gives only to nodes below their share, so the same job
 * finds all its partitions where they are when it starts again. A pure function.
 */
#include "placement.h"

#include <stdlib.h>
#include <string.h>

struct place_state {
  const struct fs_place_input *in;
  struct fs_owners *out;
  uint64_t *load;    /* [node]: bytes of the partitions that it owns */
  uint64_t *primary; /* [node]: bytes of the partitions that it is asked for first */
  uint64_t *passes;  /* [node]: bytes of the partitions whose source it is */
  uint64_t *order;   /* [part]: largest first */
  uint64_t fair;     /* bytes that a node should own */
};

static bool has_copy(const struct fs_place_input *in, uint32_t node, uint64_t p) {
  return in->staged && in->staged[node * in->parts + p];
}

static bool owns(const struct fs_owners *out, uint32_t node) {
  for (unsigned i = 0; i < out->owners; i++)
    if (out->owner[i] == node) return true;
  return false;
}

/* `first`: for the first copy, which cannot come from another node. */
static bool fits(const struct fs_place_input *in, uint32_t node, uint64_t p, bool first) {
  if (in->part[p].only_staged && first) return has_copy(in, node, p);
  return has_copy(in, node, p) || in->room[in->group[node]] >= in->part[p].size;
}

static void give(struct place_state *s, uint32_t node, uint64_t p) {
  struct fs_owners *out = &s->out[p];
  out->owner[out->owners++] = (uint16_t)node;
  s->load[node] += s->in->part[p].size;
  if (!has_copy(s->in, node, p)) s->in->room[s->in->group[node]] -= s->in->part[p].size;
}

/* Returns how many copies of a partition the nodes are to have. */
static uint32_t asked(const struct fs_place_input *in, uint64_t p) {
  return in->part[p].everywhere ? in->nodes : FS_MIN(in->replicas, in->nodes);
}

/* The same for one that is not everywhere. */
static uint32_t wanted(const struct fs_place_input *in, uint64_t p) {
  return FS_MIN(asked(in, p), FS_MAX_OWNERS);
}

bool fs_place_lacks(const struct fs_place_input *in, const struct fs_owners *out, uint64_t p) {
  return !out[p].everywhere && out[p].owners < asked(in, p);
}

static bool any_copy(const struct fs_place_input *in, uint64_t p) {
  for (uint32_t n = 0; n < in->nodes; n++)
    if (has_copy(in, n, p)) return true;
  return false;
}

static bool try_everywhere(struct place_state *s, uint64_t p) {
  const struct fs_place_input *in = s->in;
  uint32_t node;
  if (in->part[p].only_staged && !any_copy(in, p)) return false;
  for (node = 0; node < in->nodes && fits(in, node, p, false); node++)
    if (!has_copy(in, node, p)) in->room[in->group[node]] -= in->part[p].size;
  if (node == in->nodes) {
    s->out[p].everywhere = true;
    return true;
  }
  while (node-- > 0)
    if (!has_copy(in, node, p)) in->room[in->group[node]] += in->part[p].size;
  return false;
}

/* Places a partition that has owners on all other nodes as well, if they have room. */
static void try_raise(struct place_state *s, uint64_t p) {
  const struct fs_place_input *in = s->in;
  struct fs_owners *out = &s->out[p];
  const struct fs_owners had = *out;
  if (out->everywhere || had.owners == 0) return;
  for (unsigned i = 0; i < had.owners; i++)
    if (!has_copy(in, had.owner[i], p)) in->room[in->group[had.owner[i]]] += in->part[p].size;
  out->owners = 0;
  bool raised = try_everywhere(s, p);
  for (unsigned i = 0; i < had.owners; i++) {
    if (raised)
      s->load[had.owner[i]] -= in->part[p].size;
    else if (!has_copy(in, had.owner[i], p))
      in->room[in->group[had.owner[i]]] -= in->part[p].size;
  }
  if (!raised) *out = had;
}

/* Returns the node with the fewest bytes that may take p, or in->nodes if there is none. Among
   equals it prefers one that has p. */
static uint32_t best_node(const struct place_state *s, uint64_t p, bool only_staged) {
  const struct fs_place_input *in = s->in;
  uint32_t best = in->nodes;
  for (uint32_t n = 0; n < in->nodes; n++) {
    if (owns(&s->out[p], n) || !fits(in, n, p, s->out[p].owners == 0)) continue;
    if (only_staged && (!has_copy(in, n, p) || (s->load[n] >= s->fair && !in->part[p].only_staged))) continue;
    if (best == in->nodes || s->load[n] < s->load[best] ||
        (s->load[n] == s->load[best] && has_copy(in, n, p) && !has_copy(in, best, p)))
      best = n;
  }
  return best;
}

static void place_round(struct place_state *s, uint32_t copies, bool only_staged) {
  for (uint64_t i = 0; i < s->in->parts; i++) {
    uint64_t p = s->order[i];
    if (s->out[p].everywhere || s->out[p].owners >= FS_MIN(copies, wanted(s->in, p))) continue;
    uint32_t node = best_node(s, p, only_staged);
    if (node < s->in->nodes) give(s, node, p);
  }
}

/* For each partition, makes the owner with the least load the first to be asked. */
static void place_primaries(struct place_state *s) {
  for (uint64_t i = 0; i < s->in->parts; i++) {
    struct fs_owners *out = &s->out[s->order[i]];
    if (out->owners == 0) continue;
    unsigned best = 0;
    for (unsigned k = 1; k < out->owners; k++)
      if (s->primary[out->owner[k]] < s->primary[out->owner[best]]) best = k;
    uint16_t node = out->owner[best];
    out->owner[best] = out->owner[0];
    out->owner[0] = node;
    s->primary[node] += s->in->part[s->order[i]].size;
  }
}

/* Returns true if the node can be the source of p: in the first of three rounds the owners that have
   it, then other nodes that have it, then the owners. */
static bool may_pass(const struct place_state *s, uint32_t node, uint64_t p, unsigned round) {
  bool owner = s->out[p].everywhere || owns(&s->out[p], node), has = has_copy(s->in, node, p);
  return round == 0 ? owner && has : round == 1 ? has : owner;
}

/* For each partition that is copied more than once, or is on another node, chooses the node with
   the fewest bytes to pass on. */
static void place_sources(struct place_state *s) {
  for (uint64_t i = 0; i < s->in->parts; i++) {
    uint64_t p = s->order[i];
    struct fs_owners *out = &s->out[p];
    uint32_t missing = 0, best = s->in->nodes;
    for (uint32_t n = 0; n < s->in->nodes; n++)
      if (out->everywhere || owns(out, n)) missing += !has_copy(s->in, n, p);
    for (unsigned round = 0; missing > 0 && round < 3 && best == s->in->nodes; round++)
      for (uint32_t n = 0; n < s->in->nodes; n++)
        if (may_pass(s, n, p, round) && (best == s->in->nodes || s->passes[n] < s->passes[best])) best = n;
    if (best == s->in->nodes) continue;
    out->source = (uint16_t)best;
    out->passed = missing > 1 || has_copy(s->in, best, p);
    if (out->passed) s->passes[best] += s->in->part[p].size;
  }
}

static int by_size(const void *a, const void *b, void *ctx) {
  const struct fs_place_part *part = ctx;
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  if (part[x].size != part[y].size) return part[x].size < part[y].size ? 1 : -1;
  return x < y ? -1 : x > y;
}

static void place_all(struct place_state *s) {
  const struct fs_place_input *in = s->in;
  unsigned __int128 total = 0;
  uint32_t most = 0;
  for (uint64_t p = 0; p < in->parts; p++) s->order[p] = p;
  qsort_r(s->order, in->parts, sizeof(*s->order), by_size, (void *)in->part);
  for (uint64_t i = 0; i < in->parts; i++)
    if (in->part[s->order[i]].everywhere && in->nodes > 1) (void)try_everywhere(s, s->order[i]);
  for (uint64_t p = 0; p < in->parts; p++) {
    if (s->out[p].everywhere) continue;
    total += (unsigned __int128)in->part[p].size * wanted(s->in, p);
    most = FS_MAX(most, wanted(s->in, p));
  }
  s->fair = (uint64_t)((total + in->nodes - 1) / in->nodes);
  for (uint32_t copies = 1; copies <= most; copies++) place_round(s, copies, true);
  place_round(s, 1, false);
  const bool on_all = in->replicas >= in->nodes && in->nodes > 1;
  for (uint64_t i = 0; i < in->parts && on_all; i++) try_raise(s, s->order[i]);
  for (uint32_t copies = 2; copies <= most; copies++) place_round(s, copies, false);
  place_primaries(s);
  place_sources(s);
}

fs_err fs_place_compute(const struct fs_place_input *in, struct fs_owners *out) {
  FS_AUTO_FREE uint64_t *load = calloc(in->nodes + 1u, sizeof(*load));
  FS_AUTO_FREE uint64_t *primary = calloc(in->nodes + 1u, sizeof(*primary));
  FS_AUTO_FREE uint64_t *passes = calloc(in->nodes + 1u, sizeof(*passes));
  FS_AUTO_FREE uint64_t *order = calloc(in->parts + 1u, sizeof(*order));
  if (!load || !primary || !passes || !order) return -ENOMEM;
  struct place_state s = {.in = in, .out = out, .load = load, .primary = primary, .passes = passes, .order = order};
  memset(out, 0, in->parts * sizeof(*out));
  if (in->nodes > 0) place_all(&s);
  return 0;
}
