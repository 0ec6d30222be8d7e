/* SPDX-License-Identifier: BSD-3-Clause */
/* See record_table.h. */
#include "ipc/record_table.h"

#include <string.h>
#include <sys/stat.h>

#include "util/util.h"

#define FS_RECORD_TRIES 4u
#define FS_RECORD_LOOKS 1000u /* while a change is under way, which takes less than a microsecond */
#define FS_RECORD_PROBES 256u

uint64_t fs_record_hash(uint64_t dir, const char *name, size_t len) {
  return fs_mix64(fs_xxh3(name, len) ^ dir);
}

fs_err fs_record_view_init(struct fs_record_view *v, const void *base, uint64_t size) {
  const struct fs_records_head *h = base;
  *v = (struct fs_record_view){0};
  if (size < sizeof(*h) || h->magic != FS_RECORDS_MAGIC) return -EPROTO;
  if (h->slots > FS_RECORD_SLOTS_MOST || size < fs_record_table_size(h->slots)) return -EPROTO;
  *v = (struct fs_record_view){.head = h, .base = base};
  return 0;
}

/* Copies a slot. What is read may be any mixture of old and new words. */
static void slot_copy(const struct fs_record_view *v, uint64_t slot, struct fs_record_copy *out) {
  const struct fs_record_slot *s = (const void *)(v->base + fs_record_slots_at() + slot * sizeof(*s));
  for (unsigned i = 0; i < FS_RECORD_WORDS; i++) {
    uint64_t w = atomic_load_explicit(&s->word[i], memory_order_relaxed);
    memcpy((char *)out + i * sizeof(w), &w, sizeof(w));
  }
}

static bool slot_is(const struct fs_record *r, uint64_t dir, const char *name, size_t len) {
  return r->dir == dir && r->name_len == len && memcmp(r + 1, name, len) == 0;
}

/* Finds the slot of a name, or with len 0 that of a directory. Sets *number to the slot's + 1. */
static enum fs_record_answer probe_slot(const struct fs_record_view *v, uint64_t dir, const char *name, size_t len,
                                        struct fs_record_copy *out, uint32_t *number) {
  uint64_t level = atomic_load_explicit(&v->head->level, memory_order_relaxed), hash = fs_record_hash(dir, name, len);
  if (level < FS_RECORD_LEVEL_FIRST || level > FS_RECORD_LEVEL_LAST) return FS_RECORD_ASK;
  const _Atomic uint64_t *index = (const void *)(v->base + fs_record_index_at(level));
  for (uint64_t i = 0, mask = (1ull << level) - 1; i < FS_RECORD_PROBES; i++) {
    uint64_t e = atomic_load_explicit(&index[(hash + i) & mask], memory_order_relaxed);
    if (e == 0) return FS_RECORD_ABSENT;
    if (e >> 32 != hash >> 32) continue;
    if ((uint32_t)e == 0 || (uint32_t)e > v->head->slots) return FS_RECORD_ASK;
    slot_copy(v, (uint32_t)e - 1, out);
    *number = (uint32_t)e;
    if (slot_is(&out->r, dir, name, len)) return FS_RECORD_FOUND;
  }
  return FS_RECORD_ASK;
}

static enum fs_record_answer probe(const struct fs_record_view *v, uint64_t dir, const char *name, size_t len,
                                   struct fs_record_copy *out) {
  uint32_t number;
  return probe_slot(v, dir, name, len, out, &number);
}

static bool probe_times(const struct fs_record_view *v, uint64_t dir, struct fs_dir_times *t) {
  struct fs_record_copy d;
  if (probe(v, dir, "", 0, &d) != FS_RECORD_FOUND) return false;
  *t = (struct fs_dir_times){.changed = d.r.version, .subdirs = d.r.size};
  return true;
}

/* A name that is not here is absent only if all names of its directory are here. */
static enum fs_record_answer look_up(const struct fs_record_view *v, uint64_t dir, const char *name, size_t len,
                                     struct fs_record_copy *out) {
  struct fs_record *r = &out->r;
  struct fs_dir_times t;
  enum fs_record_answer found = probe(v, dir, name, len, out);
  if (found == FS_RECORD_ABSENT)
    return probe(v, dir, "", 0, out) == FS_RECORD_FOUND && r->seq != 0 ? FS_RECORD_ABSENT : FS_RECORD_ASK;
  if (found == FS_RECORD_ASK || (size_t)r->name_len + r->target_len > FS_RECORD_TEXT) return FS_RECORD_ASK;
  if (S_ISDIR(r->mode) && probe_times(v, r->id, &t)) {
    fs_record_changed(r, t.changed);
    r->size = t.subdirs;
    r->flags |= FS_RECORD_TIMED;
  }
  return FS_RECORD_FOUND;
}

/* Returns true and the sequence number if the table can be read now. */
static bool begin(const struct fs_record_view *v, uint64_t *seq) {
  for (unsigned i = 0; i < FS_RECORD_LOOKS; i++) {
    *seq = atomic_load_explicit(&v->head->seq, memory_order_acquire);
    if (!(*seq & 1)) return true;
  }
  return false;
}

/* Returns true if nothing has changed since `begin`. */
static bool same(const struct fs_record_view *v, uint64_t seq) {
  atomic_thread_fence(memory_order_acquire);
  return atomic_load_explicit(&v->head->seq, memory_order_relaxed) == seq;
}

static bool certain(const struct fs_record_view *v, uint64_t now) {
  return v->head && now < atomic_load_explicit(&v->head->until, memory_order_relaxed);
}

enum fs_record_answer fs_record_view_find(const struct fs_record_view *v, uint64_t now, uint64_t dir, const char *name,
                                          size_t len, struct fs_record_copy *out) {
  uint64_t seq;
  if (!certain(v, now) || len == 0 || len > FS_RECORD_TEXT) return FS_RECORD_ASK;
  for (unsigned i = 0; i < FS_RECORD_TRIES && begin(v, &seq); i++) {
    enum fs_record_answer a = look_up(v, dir, name, len, out);
    if (same(v, seq)) return a;
  }
  return FS_RECORD_ASK;
}

bool fs_record_view_times(const struct fs_record_view *v, uint64_t now, uint64_t dir, struct fs_dir_times *t) {
  uint64_t seq;
  if (!certain(v, now)) return false;
  for (unsigned i = 0; i < FS_RECORD_TRIES && begin(v, &seq); i++) {
    bool known = probe_times(v, dir, t);
    if (same(v, seq)) return known;
  }
  return false;
}

uint32_t fs_record_view_slot(const struct fs_record_view *v, uint64_t now, uint64_t dir, const char *name, size_t len) {
  struct fs_record_copy s;
  uint64_t seq;
  uint32_t number;
  if (!certain(v, now) || len == 0 || len > FS_RECORD_TEXT || !begin(v, &seq)) return 0;
  bool found = probe_slot(v, dir, name, len, &s, &number) == FS_RECORD_FOUND;
  return found && same(v, seq) ? number : 0;
}

bool fs_record_view_at(const struct fs_record_view *v, uint64_t now, uint32_t slot, struct fs_record *r) {
  struct fs_record_copy s;
  uint64_t seq;
  if (slot == 0 || !certain(v, now) || slot > v->head->slots || !begin(v, &seq)) return false;
  slot_copy(v, slot - 1, &s);
  *r = s.r;
  return same(v, seq);
}
