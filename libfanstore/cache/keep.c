/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which lines of the node cache stay, and which are evicted (docs/internals/shared-memory.md, "What is
 * evicted"). Called by cache.c.
 *
 * If each block is read once in an epoch, in a new order each time, then a block that stays is hit
 * once an epoch, and blocks that push each other out are hardly ever hit. So lines are resident as
 * long as there is room, and stay. The others are passing: they are a queue in a small part of the
 * cache, and the oldest is evicted. While all passing lines are replaced once, the hand goes round
 * all lines, and finds residents that are no longer used. Lines that were fetched ahead are awaited
 * until they are read.
 */
#include "cache/cache_priv.h"

#define FS_CACHE_WARM_WALK 2048 /* warm lines that one batch skips before it also takes warm ones */
#define FS_CACHE_PASSING 32u    /* a 32nd of the cache is for passing lines, or room for one block */
#define FS_CACHE_TRIES 4u       /* each fourth batch is of neighbours */
#define FS_CACHE_AGE 1024u      /* rounds without a use after which a resident line leaves */
#define FS_CACHE_AWAITED 64u    /* the same for an awaited line */

static void fs_cache_queue(struct fs_cache *c, uint32_t l) {
  struct fs_own_line *o = &c->own[l];
  struct fs_cache_queue *q = &c->queue[o->class];
  if (o->class == FS_LINE_RESIDENT) return;
  o->queued = true;
  o->prev = q->last;
  o->next = FS_SLAB_NONE;
  *(q->last != FS_SLAB_NONE ? &c->own[q->last].next : &q->first) = l;
  q->last = l;
}

static void fs_cache_unqueue(struct fs_cache *c, uint32_t l) {
  struct fs_own_line *o = &c->own[l];
  struct fs_cache_queue *q = &c->queue[o->class];
  if (!o->queued) return;
  o->queued = false;
  if (c->look == l) c->look = o->next;
  *(o->prev != FS_SLAB_NONE ? &c->own[o->prev].next : &q->first) = o->next;
  *(o->next != FS_SLAB_NONE ? &c->own[o->next].prev : &q->last) = o->prev;
}

static bool fs_cache_residents_full(const struct fs_cache *c, uint64_t granules) {
  return c->in[FS_LINE_RESIDENT] + c->in[FS_LINE_AWAITED] + granules + c->passing > fs_cache_capacity(c);
}

bool fs_cache_stays(const struct fs_cache *c, uint32_t line) {
  enum fs_line_class class = c->own[line].class;
  return class == FS_LINE_RESIDENT || (class == FS_LINE_AWAITED && !fs_cache_residents_full(c, 4 * c->passing));
}

bool fs_cache_spare(const struct fs_cache *c, uint32_t len) {
  return !fs_cache_residents_full(c, c->passing + FS_MAX(len / FS_SLAB_GRANULE + 2, c->line_share));
}

/* Gives a valid line another class, and puts it at the end of that one's queue. */
static void fs_cache_move(struct fs_cache *c, uint32_t l, enum fs_line_class class) {
  struct fs_own_line *o = &c->own[l];
  fs_cache_unqueue(c, l);
  c->in[o->class] -= fs_cache_size(c, l);
  c->in[class] += fs_cache_size(c, l);
  o->class = class;
  o->age = 0;
  fs_cache_queue(c, l);
}

static bool fs_cache_used(struct fs_cache *c, uint32_t l) {
  return atomic_exchange_explicit(&c->heat[l], 0, memory_order_relaxed) != 0;
}

/* Moves the hand over one extent. A resident line that was not used for long becomes a passing one:
   after one round if residents are renewed, or if there are too many. So does an awaited line that
   nobody reads. */
static void fs_cache_pass_over(struct fs_cache *c) {
  uint32_t size = c->slab.extent[c->slab.hand].size, l = fs_slab_sweep(&c->slab);
  if (l != FS_SLAB_NONE) size = fs_cache_size(c, l);
  bool renew = c->renew > 0 || fs_cache_residents_full(c, 0);
  c->due -= FS_MIN(c->due, size);
  c->renew -= FS_MIN(c->renew, size);
  struct fs_own_line *o = l == FS_SLAB_NONE ? NULL : &c->own[l];
  if (!o || o->state != FS_LINE_VALID || o->class == FS_LINE_PASSING) return;
  uint32_t most = o->class == FS_LINE_AWAITED ? FS_CACHE_AWAITED : renew ? 0 : FS_CACHE_AGE;
  o->age++;
  if (o->class == FS_LINE_RESIDENT && fs_cache_used(c, l)) {
    uint8_t turn = (uint8_t)(c->filled / fs_cache_capacity(c));
    if (o->counted != turn) c->used += size;
    o->counted = turn;
    o->age = 0;
  }
  if (o->age > most) fs_cache_move(c, l, FS_LINE_PASSING);
}

/* A read awaited line becomes resident if there is room, and some to spare: as many lines are awaited,
   now more, now less, as programs ask for ahead. Returns whether it was read. */
static bool fs_cache_came(struct fs_cache *c, uint32_t l) {
  if (!fs_cache_used(c, l)) return false;
  fs_cache_move(c, l, fs_cache_residents_full(c, c->passing) ? FS_LINE_PASSING : FS_LINE_RESIDENT);
  return true;
}

/* Finds awaited lines that were read. Most are the oldest. Some others are looked at each time, as
   the oldest may never be read. */
static void fs_cache_arrived(struct fs_cache *c) {
  const uint32_t *first = &c->queue[FS_LINE_AWAITED].first;
  uint32_t l = *first, next;
  for (unsigned n = 0, unread = 0; n < FS_CACHE_WARM_WALK && unread < FS_CACHE_BATCH && l != FS_SLAB_NONE;
       n++, l = next) {
    next = c->own[l].next;
    unread += !fs_cache_came(c, l);
  }
  for (unsigned n = 0; n < FS_CACHE_BATCH / 4; n++) {
    l = c->look != FS_SLAB_NONE ? c->look : *first;
    if (l == FS_SLAB_NONE) return;
    c->look = c->own[l].next;
    (void)fs_cache_came(c, l);
  }
}

/* Sets the room for passing lines anew. `near` are blocks that were fetched again soon: with three
   times the room they would have been there. Several readers of the same files, one behind the
   other, fetch every second block so, and readers of shuffled epochs few. */
static void fs_cache_resize(struct fs_cache *c) {
  uint64_t capacity = fs_cache_capacity(c), fetched = c->filled - c->sized;
  if (fetched < capacity / FS_CACHE_PASSING) return;
  if (c->near > fetched / 8 * 3)
    c->passing = FS_MIN(c->passing + c->passing / 2, capacity / 2);
  else
    c->passing = FS_MAX(c->passing - c->passing / 64, c->passing_least);
  c->sized = c->filled;
  c->near = 0;
}

/* Finds out whether other blocks are read now than when the residents were chosen. `again` are
   blocks that were fetched a second time before as much was fetched as the cache holds: a cache
   that kept the newest blocks would have had them. If these are more than the residents that were
   used, the residents are renewed. The hand finds uses late, so what was fetched again counts from
   the next comparison on. Of many blocks a part is looked at, chosen by the key's hash. */
static void fs_cache_judge(struct fs_cache *c, uint64_t key, uint64_t granules) {
  uint64_t capacity = fs_cache_capacity(c), one_in = c->stats.lines_used / (FS_CACHE_SEEN / 2) + 1;
  uint64_t hash = fs_mix64(key);
  struct fs_cache_seen *seen = &c->seen[hash % FS_CACHE_SEEN];
  c->filled += granules;
  if ((hash >> 32) % one_in == 0) {
    uint64_t since = seen->key == key ? c->filled - seen->at : UINT64_MAX;
    if (since <= capacity) c->again += granules * one_in;
    if (since <= 3 * c->passing) c->near += granules * one_in;
    *seen = (struct fs_cache_seen){.key = key, .at = c->filled};
  }
  fs_cache_resize(c);
  if (c->filled < c->judge_at) return;
  bool others = c->before > c->used + capacity / 64;
  if (others) c->renew = capacity;
  c->judge_at = c->filled + (others ? capacity : capacity / 4);
  c->before = others ? 0 : c->before / 4 * 3 + c->again;
  c->used = others ? 0 : c->used / 4 * 3;
  c->again = 0;
}

static void fs_cache_hand(struct fs_cache *c) {
  for (uint32_t n = FS_CACHE_WARM_WALK; n > 0 && (c->due > 0 || fs_cache_residents_full(c, 0)); n--)
    fs_cache_pass_over(c);
}

void fs_cache_keep_init(struct fs_cache *c, uint32_t max_stored) {
  uint64_t all = fs_cache_capacity(c), block = ((uint64_t)max_stored + FS_CACHE_HEADROOM) / FS_SLAB_GRANULE;
  c->passing = c->passing_least = FS_MAX(all / FS_CACHE_PASSING, FS_MIN(all / 2, block));
  c->line_share = (uint32_t)(all / c->lines + 1);
  c->look = FS_SLAB_NONE;
  for (int i = 0; i < FS_LINE_CLASSES; i++) c->queue[i] = (struct fs_cache_queue){FS_SLAB_NONE, FS_SLAB_NONE};
}

void fs_cache_keep(struct fs_cache *c, uint32_t l) {
  uint32_t size = fs_cache_size(c, l);
  c->own[l].class = fs_cache_residents_full(c, size) ? FS_LINE_PASSING : FS_LINE_RESIDENT;
  c->own[l].age = 0;
  c->own[l].counted = 0;
  c->in[c->own[l].class] += size;
  fs_cache_judge(c, c->own[l].key, size);
}

void fs_cache_kept(struct fs_cache *c, uint32_t l, bool awaited) {
  fs_cache_move(c, l, awaited ? FS_LINE_AWAITED : c->own[l].class);
}

/* ---- eviction ---- */

static void fs_cache_mark_pinned(void *arg, uint32_t line) {
  struct fs_cache *c = arg;
  if (line < c->lines && c->own[line].state == FS_LINE_LEAVING) c->own[line].state = FS_LINE_PINNED;
}

void fs_cache_drop(struct fs_cache *c, uint32_t l) {
  struct fs_own_line *o = &c->own[l];
  atomic_store_explicit(&fs_cache_ways(c, o->key)[o->way], 0, memory_order_relaxed);
  c->stats.lines_used--;
  c->in[o->class] -= fs_cache_size(c, l);
  fs_slab_release(&c->slab, o->extent);
  o->state = FS_LINE_FREE;
  o->extent = c->free_line;
  c->free_line = l;
}

/*
 * Evicts these lines except the pinned ones, and returns how many were evicted. First the tags are
 * cleared, then the pins are read, all sequentially consistent. A client stores its pin before it
 * reads the tag again. So either the client sees the cleared tag, or the pin is seen here.
 */
uint32_t fs_cache_evict(struct fs_cache *c, const uint32_t *line, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    fs_cache_unqueue(c, line[i]);
    c->own[line[i]].state = FS_LINE_LEAVING;
    atomic_store_explicit(&c->line[line[i]].tag, 0, memory_order_seq_cst);
  }
  c->pins(c->ctx, fs_cache_mark_pinned, c);
  uint32_t gone = 0;
  for (uint32_t i = 0; i < n; i++) {
    struct fs_own_line *o = &c->own[line[i]];
    if (o->state == FS_LINE_PINNED) {
      o->state = FS_LINE_VALID;
      atomic_store_explicit(&c->heat[line[i]], 1, memory_order_relaxed);
      atomic_store_explicit(&c->line[line[i]].tag, o->key | FS_CACHE_VALID, memory_order_release);
      fs_cache_queue(c, line[i]);
    } else {
      fs_cache_drop(c, line[i]);
      gone++;
    }
  }
  c->stats.evictions += gone;
  return gone;
}

/* A passing line's turn has come. Returns true if it is to be evicted. Else it is queued once more, or
   resident. The uses of its first time in the queue do not make it resident: a reader that reads a
   block in pieces uses it many times at once. */
static bool fs_cache_turn(struct fs_cache *c, uint32_t l) {
  bool first = c->own[l].age == 0;
  if (!fs_cache_used(c, l)) return true;
  fs_cache_move(c, l, first ? FS_LINE_PASSING : FS_LINE_RESIDENT);
  c->own[l].age = 1;
  return false;
}

/* Evicts a batch of passing lines. */
static uint32_t fs_cache_pass(struct fs_cache *c, uint64_t want) {
  const struct fs_cache_queue *q = &c->queue[FS_LINE_PASSING];
  uint32_t batch[FS_CACHE_BATCH], n = 0;
  uint64_t room = 0;
  for (int stay = 0; n < FS_CACHE_BATCH && room < want && stay < FS_CACHE_WARM_WALK && q->first != FS_SLAB_NONE;) {
    uint32_t l = q->first;
    if (!fs_cache_turn(c, l)) {
      stay++;
      continue;
    }
    fs_cache_unqueue(c, l);
    c->own[l].state = FS_LINE_LEAVING;
    room += fs_cache_size(c, l);
    batch[n++] = l;
  }
  c->due = FS_MIN(c->due + room * fs_cache_capacity(c) / c->passing, fs_cache_capacity(c));
  return n ? fs_cache_evict(c, batch, n) : 0;
}

/* Evicts a batch of neighbouring lines from the hand on. Used lines get a second chance. Awaited lines
   that nobody has read are taken in the second round only. *walk: extents that may still be passed. */
static uint32_t fs_cache_sweep(struct fs_cache *c, uint64_t want, uint64_t *walk) {
  uint32_t batch[FS_CACHE_BATCH], n = 0;
  uint64_t room = 0;
  int warm = 0;
  while (n < FS_CACHE_BATCH && room<want && * walk> 0) {
    --*walk;
    uint32_t l = fs_slab_sweep(&c->slab);
    if (l == FS_SLAB_NONE || c->own[l].state != FS_LINE_VALID) continue;
    bool used = fs_cache_used(c, l), awaited = c->own[l].class == FS_LINE_AWAITED;
    if (awaited ? !used && *walk > c->slab.made : used && warm < FS_CACHE_WARM_WALK) {
      warm++;
      continue;
    }
    c->own[l].state = FS_LINE_LEAVING; /* a small cache: the hand may reach this line again */
    room += fs_cache_size(c, l);
    batch[n++] = l;
  }
  return n ? fs_cache_evict(c, batch, n) : 0;
}

static uint32_t fs_cache_take_line(struct fs_cache *c) {
  uint32_t l = c->free_line;
  if (l != FS_SLAB_NONE)
    c->free_line = c->own[l].extent;
  else if (c->made < c->lines)
    l = c->made++;
  return l;
}

/* Returns a line with room for so many granules. Evicts until there is one: passing lines, and if
   their room is in too small pieces, neighbours. The hand passes each extent at most twice. */
uint32_t fs_cache_room(struct fs_cache *c, uint32_t granules) {
  uint64_t walk = 2 * (uint64_t)c->slab.made + 2;
  uint64_t want = FS_MAX((uint64_t)granules, (c->size / FS_SLAB_GRANULE) / 256);
  for (uint32_t tries = 0, evicted = 1;;) {
    uint32_t l = fs_cache_take_line(c);
    if (l != FS_SLAB_NONE) {
      uint32_t e = fs_slab_alloc(&c->slab, granules, l);
      if (e != FS_SLAB_NONE) {
        c->own[l].extent = e;
        return l;
      }
      c->own[l].extent = c->free_line;
      c->free_line = l;
    }
    if (walk == 0) return FS_SLAB_NONE;
    if (evicted > 0) {
      fs_cache_arrived(c);
      fs_cache_hand(c);
    }
    evicted = tries++ % FS_CACHE_TRIES == FS_CACHE_TRIES - 1 ? 0 : fs_cache_pass(c, want);
    if (evicted == 0) fs_cache_sweep(c, want, &walk);
  }
}
