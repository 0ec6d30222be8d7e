/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of other nodes that forked children have inherited (outputs.h). Home keeps the bytes of a
 * removed file for the processes that have it open, and each process opens it for itself. A child
 * does so at its start. Its parent may close the descriptor before that, so it keeps the file open
 * at home for a while.
 */
#include "client/data_priv.h"
#include "client/outputs/segment.h"

#define FS_KEPT 16u

/* What this process keeps open for others: 21 bits of the number's place, 20 of the slot, and the
   low 23 of its generation. */
static _Atomic uint64_t kept[FS_KEPT];
#define FS_KEPT_GEN 0x7fffffu
#define FS_KEPT_WORD(place, slot, gen) ((uint64_t)(place) << 43 | (uint64_t)(slot) << 23 | ((gen)&FS_KEPT_GEN))
#define FS_KEPT_ENTRY(word) (FS_OUTPUT_FIRST + (uint32_t)((word) >> 43))
static_assert((FS_SLOTS - 1) >> 20 == 0 && (FS_OUTPUT_NODES - 1) >> 21 == 0, "a word has room for them");

static bool still_shared(const struct fs_state *st, uint64_t word) {
  const struct fs_slot *s = &st->slot[word >> 23 & (FS_SLOTS - 1)];
  return ((atomic_load(&s->gen) ^ word) & FS_KEPT_GEN) == 0;
}

static void give_up(uint64_t word) {
  if (word != 0 && fs_output_opens(FS_KEPT_ENTRY(word)) == 0) fs_output_forget(FS_KEPT_ENTRY(word));
}

static bool put(uint64_t word) {
  for (unsigned i = 0; i < FS_KEPT; i++) {
    uint64_t none = 0;
    if (atomic_load(&kept[i]) == word || atomic_compare_exchange_strong(&kept[i], &none, word)) return true;
  }
  return false;
}

/* Gives up what no process has open any more, or, if there is none, the first one. */
static void make_room(struct fs_state *st) {
  bool any = false;
  fs_slot_reclaim(st);
  for (unsigned i = 0; i < FS_KEPT; i++) {
    uint64_t word = atomic_load(&kept[i]);
    if (word == 0 || still_shared(st, word) || !atomic_compare_exchange_strong(&kept[i], &word, 0)) continue;
    give_up(word);
    any = true;
  }
  if (!any) give_up(atomic_exchange(&kept[0], 0));
}

void fs_output_keep(const struct fs_slot *s) {
  struct fs_state *st = fs_state_attach(false);
  if (st == NULL) return;
  uint64_t word = FS_KEPT_WORD(s->entry - FS_OUTPUT_FIRST, s - st->slot, atomic_load(&s->gen));
  for (unsigned tries = 0; tries < 2 && !put(word); tries++) make_room(st);
}

void fs_output_forked(void) {
  uint32_t high = atomic_load(&fs_fdtab_high);
  for (unsigned i = 0; i < FS_KEPT; i++) atomic_store(&kept[i], 0); /* the parent's */
  for (uint32_t fd = 0; fd < high; fd++) {
    const struct fs_slot *s = fs_fd_entry((int)fd) & FS_FDE_VIRTUAL ? fs_fd_slot((int)fd) : NULL;
    if (s != NULL && atomic_load(&s->kind) == FS_SLOT_FILE && fs_is_output(s->entry))
      (void)fs_output_open(s->entry, 0, O_RDONLY);
  }
}
