/* SPDX-License-Identifier: BSD-3-Clause */
/* See shared_names.h. */
#include "daemon/metadata/shared_names.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/sys.h"
#include "util/util.h"

struct fs_shared_names {
  int fd;
  uint64_t size;
  struct fs_records_head *head;
  char *base;
  uint64_t level, count; /* of the index in use: its level, its entries */
  uint32_t fresh;        /* slots from here on were never used */
  uint32_t unused;       /* a list of free slots, number + 1 each; the first word has the next */
  unsigned depth;
};

static _Atomic uint64_t *level_index(const struct fs_shared_names *t, uint64_t level) {
  return (_Atomic uint64_t *)(t->base + fs_record_index_at(level));
}

static struct fs_record_slot *slot_of(const struct fs_shared_names *t, uint32_t slot) {
  return (struct fs_record_slot *)(t->base + fs_record_slots_at()) + (slot - 1);
}

static uint64_t word_of(const struct fs_record_slot *s, unsigned i) {
  return atomic_load_explicit(&s->word[i], memory_order_relaxed);
}

static void set_word(_Atomic uint64_t *at, uint64_t w) {
  atomic_store_explicit(at, w, memory_order_relaxed);
}

/* ---- a change ---- */

void fs_shared_names_begin(struct fs_shared_names *t) {
  t->depth++;
}

/* Makes the sequence number odd before the first word that changes. */
static void touch(struct fs_shared_names *t) {
  uint64_t seq = atomic_load_explicit(&t->head->seq, memory_order_relaxed);
  if (seq & 1) return;
  atomic_store_explicit(&t->head->seq, seq + 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
}

void fs_shared_names_end(struct fs_shared_names *t) {
  uint64_t seq = atomic_load_explicit(&t->head->seq, memory_order_relaxed);
  if (--t->depth == 0 && (seq & 1)) atomic_store_explicit(&t->head->seq, seq + 1, memory_order_release);
}

/* ---- the index ---- */

static void index_add(_Atomic uint64_t *index, uint64_t mask, uint64_t hash, uint32_t slot) {
  uint64_t i = hash & mask;
  while (atomic_load_explicit(&index[i], memory_order_relaxed) != 0) i = (i + 1) & mask;
  set_word(&index[i], hash >> 32 << 32 | slot);
}

static uint64_t slot_hash(const struct fs_shared_names *t, uint32_t slot) {
  struct {
    struct fs_record r;
    char name[FS_RECORD_TEXT];
  } s;
  for (unsigned i = 0; i < FS_RECORD_WORDS; i++) {
    uint64_t w = word_of(slot_of(t, slot), i);
    memcpy((char *)&s + i * sizeof(w), &w, sizeof(w));
  }
  return fs_record_hash(s.r.dir, s.name, s.r.name_len);
}

/* Goes over to the next level when half of the index is used. Nobody reads the new index while it
   is filled. */
static void grow(struct fs_shared_names *t) {
  if (t->count < 1ull << (t->level - 1) || t->level == FS_RECORD_LEVEL_LAST) return;
  const _Atomic uint64_t *from = level_index(t, t->level);
  _Atomic uint64_t *to = level_index(t, t->level + 1);
  uint64_t mask = (2ull << t->level) - 1;
  for (uint64_t i = 0; i < 1ull << t->level; i++) {
    uint32_t slot = (uint32_t)atomic_load_explicit(&from[i], memory_order_relaxed);
    if (slot != 0) index_add(to, mask, slot_hash(t, slot), slot);
  }
  t->level++;
  touch(t);
  set_word(&t->head->level, t->level);
}

/* Removes the entry of a slot, and moves those behind it up that would not be found any more. */
static void index_remove(struct fs_shared_names *t, uint32_t slot) {
  _Atomic uint64_t *index = level_index(t, t->level);
  uint64_t mask = (1ull << t->level) - 1, at = slot_hash(t, slot) & mask, e;
  while ((uint32_t)(e = atomic_load_explicit(&index[at], memory_order_relaxed)) != slot) {
    if (e == 0) return;
    at = (at + 1) & mask;
  }
  for (uint64_t i = (at + 1) & mask; (e = atomic_load_explicit(&index[i], memory_order_relaxed)) != 0;
       i = (i + 1) & mask) {
    uint64_t home = slot_hash(t, (uint32_t)e) & mask;
    if (((i - home) & mask) < ((i - at) & mask)) continue; /* it is found without the hole */
    set_word(&index[at], e);
    at = i;
  }
  set_word(&index[at], 0);
}

/* ---- slots ---- */

static uint32_t slot_take(struct fs_shared_names *t) {
  uint32_t slot = t->unused;
  if (slot != 0)
    t->unused = (uint32_t)word_of(slot_of(t, slot), 0);
  else if (t->fresh < t->head->slots)
    slot = ++t->fresh;
  return slot;
}

void fs_shared_names_set(struct fs_shared_names *t, uint32_t slot, const struct fs_record *r, const char *name,
                         const char *target) {
  struct {
    struct fs_record r;
    char text[FS_RECORD_TEXT];
  } s = {.r = *r};
  memcpy(s.text, name, r->name_len);
  if (r->target_len > 0 && (size_t)r->name_len + r->target_len <= sizeof(s.text))
    memcpy(s.text + r->name_len, target, r->target_len);
  fs_shared_names_begin(t);
  touch(t);
  for (unsigned i = 0; i < FS_RECORD_WORDS; i++) {
    uint64_t w;
    memcpy(&w, (char *)&s + i * sizeof(w), sizeof(w));
    set_word(&slot_of(t, slot)->word[i], w);
  }
  fs_shared_names_end(t);
}

uint32_t fs_shared_names_put(struct fs_shared_names *t, const struct fs_record *r, const char *name,
                             const char *target) {
  uint32_t slot = r->name_len > FS_RECORD_TEXT ? 0 : slot_take(t);
  if (slot == 0) return 0;
  fs_shared_names_begin(t);
  grow(t);
  fs_shared_names_set(t, slot, r, name, target);
  index_add(level_index(t, t->level), (1ull << t->level) - 1, fs_record_hash(r->dir, name, r->name_len), slot);
  t->count++;
  fs_shared_names_end(t);
  return slot;
}

void fs_shared_names_drop(struct fs_shared_names *t, uint32_t slot) {
  fs_shared_names_begin(t);
  touch(t);
  index_remove(t, slot);
  set_word(&slot_of(t, slot)->word[0], t->unused);
  t->unused = slot;
  t->count--;
  fs_shared_names_end(t);
}

void fs_shared_names_until(struct fs_shared_names *t, uint64_t until) {
  atomic_store_explicit(&t->head->until, until, memory_order_relaxed);
}

/* ---- the memory ---- */

int fs_shared_names_fd(const struct fs_shared_names *t, uint64_t *size) {
  *size = t->size;
  return t->fd;
}

static fs_err names_map(struct fs_shared_names *t) {
  FS_AUTO_CLOSE int fd = memfd_create("fanstore-records", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, (off_t)t->size) < 0) return -errno;
  void *p = mmap(NULL, t->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) return -errno;
  t->base = p;
  t->head = p;
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0) return -errno;
  t->fd = FS_MOVE_FD(fd);
  return 0;
}

fs_err fs_shared_names_new(struct fs_shared_names **out, uint64_t bytes) {
  struct fs_shared_names *t = calloc(1, sizeof(*t));
  uint64_t each = sizeof(struct fs_record_slot) + 2 * sizeof(uint64_t);
  uint64_t slots = FS_MIN(FS_MAX(bytes / each, 1u << (FS_RECORD_LEVEL_FIRST - 1)), FS_RECORD_SLOTS_MOST);
  if (!t) return -ENOMEM;
  t->fd = -1;
  t->size = fs_record_table_size(slots);
  t->level = FS_RECORD_LEVEL_FIRST;
  fs_err err = names_map(t);
  if (err < 0 || !t->head) {
    fs_shared_names_free(t);
    return err;
  }
  t->head->slots = slots;
  set_word(&t->head->level, t->level);
  t->head->magic = FS_RECORDS_MAGIC;
  *out = t;
  return 0;
}

void fs_shared_names_free(struct fs_shared_names *t) {
  if (t->base) (void)munmap(t->base, t->size);
  if (t->fd >= 0) (void)close(t->fd);
  free(t);
}
