/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens small files of other nodes by a batch in the node's cache (ipc/batch.h), without a question.
 * The bytes are copied to this process, so that they stay while the file is open. If the process
 * opens files with neighbouring ids, it asks for batches ahead, and does not wait for them.
 * opened.c decides when such bytes are used. Lock-free, no allocation but the first.
 */
#include <string.h>

#include "client/data_priv.h"
#include "client/outputs/segment.h"
#include "ipc/batch.h"
#include "ipc/channel.h"
#include "util/util.h"

#define FS_BROUGHT 32u            /* files of a process that are open by a batch */
#define FS_BROUGHT_USE (1u << 26) /* counts of one place's uses */
#define FS_BATCH_AHEAD 8u         /* batches that are asked for before their first file is opened, at most */
#define FS_BATCH_AGAIN_NS 50000000ull

/* The bytes of an open file. A forked child has none, as it has no answers (opened.c). */
struct brought {
  _Atomic uint32_t use; /* odd: it has a file */
  uint32_t size;
  char bytes[FS_BATCH_SMALL];
};

static struct brought *brought(void) {
  static void *_Atomic table;
  void *all = atomic_load_explicit(&table, memory_order_acquire);
  if (FS_UNLIKELY(all == NULL)) {
    void *mine = fs_mem_map_wiped(FS_BROUGHT * sizeof(struct brought));
    if (mine == NULL) return NULL;
    if (!fs_publish_ptr(&table, mine, &all)) fs_mem_unmap(mine, FS_BROUGHT * sizeof(struct brought));
  }
  return all;
}

/* ---- the places ---- */

/* A token is the place and its use. */
static struct brought *place_of(uint32_t token) {
  return &brought()[token % FS_BROUGHT];
}

static bool is_of(const struct brought *b, uint32_t token) {
  return atomic_load_explicit(&b->use, memory_order_relaxed) % FS_BROUGHT_USE == token / FS_BROUGHT;
}

static uint32_t place_take(struct brought **out) {
  struct brought *all = brought();
  for (uint32_t i = 0; all != NULL && i < FS_BROUGHT; i++) {
    uint32_t use = atomic_load_explicit(&all[i].use, memory_order_relaxed);
    if (use % 2 != 0 || !atomic_compare_exchange_strong(&all[i].use, &use, use + 1)) continue;
    *out = &all[i];
    return (use + 1) % FS_BROUGHT_USE * FS_BROUGHT + i;
  }
  return 0;
}

void fs_batch_drop(uint32_t token) {
  if (token != 0) atomic_fetch_add(&place_of(token)->use, 1);
}

bool fs_batch_copy(uint32_t token, void *buf, size_t n, uint64_t off) {
  const struct brought *b = place_of(token);
  uint32_t size = b->size;
  if (!is_of(b, token) || size > FS_BATCH_SMALL || off > size || n > size - off) return false;
  memcpy(buf, b->bytes + off, n);
  atomic_thread_fence(memory_order_acquire);
  return is_of(b, token);
}

/* ---- a batch ---- */

/* Copies the file's bytes if they are those of its record. */
static uint32_t take(const struct fs_batch *b, uint32_t len, const struct fs_record *r, uint64_t appended,
                     struct fs_opened *h) {
  struct brought *to;
  if (len < sizeof(*b) || b->appended != appended) return 0;
  const struct fs_batch_file f = b->file[r->id % FS_BATCH_FILES];
  if (f.version != r->version || f.size != r->size || f.size > FS_BATCH_SMALL) return 0;
  if (f.at > len || f.size > len - f.at) return 0;
  uint32_t token = place_take(&to);
  if (token == 0) return 0;
  to->size = f.size;
  memcpy(to->bytes, (const char *)b + f.at, f.size);
  *h = (struct fs_opened){.id = r->id,
                          .size = f.size,
                          .own = f.size,
                          .mtime = f.mtime,
                          .ctime = f.ctime,
                          .mtime_ns = f.mtime_ns,
                          .ctime_ns = f.ctime_ns,
                          .mode = f.mode};
  return token;
}

/* Looks through the turns of the batch that are in the cache. Sets *missing to the first key that is not. */
static uint32_t find(const struct fs_node *node, struct fs_link *link, const struct fs_record *r, uint64_t appended,
                     struct fs_opened *h, uint64_t *missing) {
  struct fs_channel *c = link->channel;
  uint64_t key = FS_BATCH_FIRST(r->id), end = key + FS_BATCH_FILES;
  const struct fs_batch *b;
  uint32_t token = 0, len;
  int32_t i = fs_chan_claim_req(c);
  *missing = 0;
  if (i < 0) return 0;
  for (; token == 0 && key < end && (b = fs_cache_pin(&node->view, key, &c->pin[i], &len)) != NULL; key++)
    token = take(b, len, r, appended, h);
  fs_chan_free(fs_chan_req(c, (uint32_t)i));
  if (token == 0 && key < end) *missing = key;
  return token;
}

/* Returns whether to ask for a batch again, since the cache has old ones: seldom, as a file may be one that no batch
 * has. */
static bool again(void) {
  static _Atomic uint64_t last;
  uint64_t now = fs_clock_ns(CLOCK_MONOTONIC_COARSE), was = atomic_load(&last);
  return now - was >= FS_BATCH_AGAIN_NS && atomic_compare_exchange_strong(&last, &was, now);
}

/* Asks for batches, if the process goes through files with neighbouring ids. */
static void ahead(const struct fs_node *node, struct fs_link *link, uint64_t id, uint64_t missing) {
  static _Atomic uint64_t last;
  static _Atomic uint32_t run; /* batches in order until now */
  uint64_t was = atomic_exchange_explicit(&last, id, memory_order_relaxed), first = FS_BATCH_FIRST(id);
  bool same = first == FS_BATCH_FIRST(was), next = !same && id == was + 1, ring = false;
  if (!same && !next) atomic_store_explicit(&run, 0, memory_order_relaxed);
  if (id == was || (!same && !next)) return;
  if (missing == first || (missing != 0 && again())) ring = fs_remote_ahead_of(node, link, missing);
  uint32_t many = next ? atomic_fetch_add_explicit(&run, 1, memory_order_relaxed) + 2 : missing == first ? 1 : 0;
  for (uint32_t i = 1; i <= FS_MIN(many, FS_BATCH_AHEAD); i++)
    ring |= fs_remote_ahead_of(node, link, first + i * FS_BATCH_FILES);
  if (ring) fs_link_ring(node, link);
}

uint32_t fs_batch_open(const struct fs_record *r, uint64_t appended, struct fs_opened *h) {
  const struct fs_node *node = fs_names_node();
  uint64_t missing;
  if (node == NULL || !fs_batch_id(r->id) || r->size > FS_BATCH_SMALL) return 0;
  if (FS_OUTPUT_ID_RANK(r->id) == fs_names_rank(node) || FS_OUTPUT_ID_RANK(r->id) != r->home) return 0;
  struct fs_link *link = fs_link_get();
  if (link == NULL) return 0;
  uint32_t token = find(node, link, r, appended, h, &missing);
  ahead(node, link, r->id, token != 0 ? 0 : missing);
  return token;
}
