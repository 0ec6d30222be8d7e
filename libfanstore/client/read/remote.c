/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks that other nodes hold: from the node's cache, else by a request to the node's daemon through this process's
 * channel (ipc/channel.h has the protocol). Called by data.c for each such block. A slot of the channel is claimed for
 * both, since its pin protects the bytes in the cache. Waits are bounded by the deadline and end early when the
 * daemon has died, hangs or stops.
 */
#include "client/data_priv.h"
#include "ipc/channel.h"
#include "util/util.h"

#define FS_PREFETCH_SLOTS 32
#define FS_AHEAD_BLOCKS 4u

/* ---- slots ---- */

static void fs_remote_post(struct fs_channel *c, int32_t i, uint64_t key, uint32_t flags) {
  struct fs_req *r = &c->req[i];
  r->key = key;
  r->flags = flags;
  r->err = 0;
  r->line = r->hit = 0;
  fs_chan_post(fs_chan_req(c, (uint32_t)i));
}

/* ---- one block ---- */

/* Copies or decodes from pinned bytes. */
static fs_err fs_remote_take(struct fs_dataset *ds, const void *bytes, uint32_t len, struct fs_piece *p, bool hit) {
  if (!bytes || len != p->b.stored_len) return -EBADMSG;
  p->place = hit ? FS_PLACE_IS_CACHE : FS_PLACE_IS_REMOTE;
  return fs_decode_piece(ds, bytes, p);
}

fs_err fs_remote_submit(struct fs_dataset *ds, struct fs_link *link, struct fs_piece *p, uint32_t flags) {
  struct fs_channel *c = link->channel;
  uint64_t key = FS_CACHE_KEY(ds->number, p->b.key);
  uint32_t len;
  int32_t i = fs_chan_claim_req(c);
  /* Slots that were left to a daemon that hangs come back when it goes on, or never: do not wait for one. */
  if (i < 0) return fs_node_alive(ds->node) && !fs_link_dead(link) ? -EAGAIN : -EHOSTDOWN;
  if (FS_UNLIKELY(atomic_load_explicit(&link->full, memory_order_relaxed))) atomic_store(&link->full, 0);
  const void *bytes = fs_cache_pin(&ds->node->view, key, &c->pin[i], &len);
  if (bytes) {
    fs_err err = fs_remote_take(ds, bytes, len, p, true);
    fs_chan_free(fs_chan_req(c, (uint32_t)i));
    return err < 0 ? err : 1;
  }
  if (!fs_node_alive(ds->node) || fs_link_known_dead(link)) {
    fs_chan_free(fs_chan_req(c, (uint32_t)i));
    return -EHOSTDOWN;
  }
  fs_remote_post(c, i, key, flags);
  p->slot = i;
  return 0;
}

void fs_remote_ring(struct fs_dataset *ds, struct fs_link *link) {
  fs_link_ring(ds->node, link);
}

/* Leaves a slot to the daemon, which frees it instead of an answer; a dead one never will. Returns
   false if the answer has come after all. */
static bool fs_req_abandon(struct fs_link *link, int32_t i) {
  if (!fs_chan_abandon(&link->channel->req[i].state)) return false;
  if (fs_link_dead(link)) fs_chan_free(fs_chan_req(link->channel, (uint32_t)i));
  return true;
}

fs_err fs_remote_collect(struct fs_dataset *ds, struct fs_link *link, struct fs_piece *p) {
  struct fs_channel *c = link->channel;
  int32_t i = p->slot;
  struct fs_req *r = &c->req[i];
  uint32_t len = 0;
  p->slot = -1;
  fs_err err = fs_wait_done(ds->node, link, &r->state, ds->node->deadline_ns, false);
  if (err < 0 && fs_req_abandon(link, i)) return err;
  err = r->err;
  if (err == 0) {
    const void *bytes = fs_cache_pinned(&ds->node->view, FS_CACHE_KEY(ds->number, p->b.key), r->line, &len);
    err = fs_remote_take(ds, bytes, len, p, r->hit);
  } else if (err > 0 || err < -4095) {
    err = -EPROTO;
  }
  fs_chan_free(fs_chan_req(c, (uint32_t)i));
  return err;
}

void fs_remote_cancel(struct fs_link *link, struct fs_piece *p) {
  if (p->slot >= 0 && !fs_req_abandon(link, p->slot)) fs_chan_free(fs_chan_req(link->channel, (uint32_t)p->slot));
  p->slot = -1;
}

/* ---- ahead of the reader ---- */

bool fs_remote_ahead_of(const struct fs_node *node, struct fs_link *link, uint64_t key) {
  struct fs_channel *c = link->channel;
  if (fs_cache_has(&node->view, key)) return false;
  if (__builtin_popcountll(atomic_load_explicit(&c->claimed, memory_order_relaxed)) >= FS_PREFETCH_SLOTS) return false;
  int32_t i = fs_chan_claim_req(c);
  if (i < 0) return false;
  if (!fs_node_alive(node) || fs_link_known_dead(link)) {
    fs_chan_free(fs_chan_req(c, (uint32_t)i));
    return false;
  }
  fs_remote_post(c, i, key, FS_REQ_PREFETCH);
  return true;
}

static bool fs_remote_prefetch(struct fs_dataset *ds, struct fs_link *link, const struct fs_block *b) {
  return fs_remote_ahead_of(ds->node, link, FS_CACHE_KEY(ds->number, b->key));
}

fs_err fs_remote_want(struct fs_dataset *ds, struct fs_link *link, const struct fs_block *b) {
  struct fs_channel *c = link->channel;
  uint64_t key = FS_CACHE_KEY(ds->number, b->key);
  if (fs_cache_has(&ds->node->view, key)) return 0;
  if (!fs_node_alive(ds->node) || fs_link_known_dead(link)) return -EHOSTDOWN;
  return fs_chan_want(c, key + 1) ? 0 : -EAGAIN;
}

/* Finds which blocks to ask for, those from *from on and before *end, of a file of `count` blocks
   that is read in order and whose block i is read now. */
static bool fs_ahead_window(uint32_t mount, uint32_t entry, uint64_t i, uint64_t count, uint64_t *from, uint64_t *end) {
  struct fs_self *self = fs_self();
  uint32_t h = (entry * 2654435761u ^ mount) % FS_AHEAD_SLOTS;
  uint64_t now = (uint64_t)entry << 32 | (uint32_t)i;
  uint64_t last = atomic_exchange_explicit(&self->ahead_last[h], now, memory_order_relaxed);
  if (i == 0 || i > UINT32_MAX - 8 || last != now - 1) {
    if (last != now) atomic_store_explicit(&self->ahead_end[h], (uint32_t)i + 1, memory_order_relaxed);
    return false;
  }
  *from = FS_MAX(atomic_load_explicit(&self->ahead_end[h], memory_order_relaxed), i + 1);
  *end = FS_MIN(i + 1 + FS_AHEAD_BLOCKS, count);
  if (*from >= *end) return false;
  atomic_store_explicit(&self->ahead_end[h], (uint32_t)*end, memory_order_relaxed);
  return true;
}

void fs_remote_ahead(struct fs_dataset *ds, struct fs_link *link, uint32_t entry, uint64_t i) {
  uint64_t from, end, count = fs_index_block_count(&ds->ix, fs_index_entry(&ds->ix, entry));
  bool asked = false;
  if (!fs_ahead_window(ds->mount, entry, i, count, &from, &end)) return;
  for (; from < end; from++) {
    struct fs_block b;
    if (fs_index_block(&ds->ix, entry, from, &b) < 0) break;
    if (!fs_is_local(ds, b.partition) && fs_is_remote(ds, b.partition)) asked |= fs_remote_prefetch(ds, link, &b);
  }
  if (asked) fs_remote_ring(ds, link); /* a sleeping daemon is not woken for cached blocks */
}

void fs_remote_ahead_out(struct fs_dataset *ds, struct fs_link *link, uint32_t entry, uint32_t handle, uint64_t i,
                         uint64_t count) {
  uint64_t from, end;
  bool asked = false;
  if (!fs_ahead_window(ds->mount, entry, i, count, &from, &end)) return;
  for (; from < end; from++)
    asked |= fs_remote_prefetch(ds, link, &(struct fs_block){.key = FS_CACHE_KEY_BLOCK(FS_OUTPUT_KEY(handle, from))});
  if (asked) fs_remote_ring(ds, link);
}
