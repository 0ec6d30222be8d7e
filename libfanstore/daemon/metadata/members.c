/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of members.h. They use rendezvous hashing: if a rank is evicted, only its own
   directories get another primary, and that is the rank that was their backup. */
#include "daemon/metadata/members.h"

#include "ipc/record.h"

void fs_members_all(struct fs_members *m, uint32_t nodes) {
  *m = (struct fs_members){.number = 1, .nodes = nodes, .count = nodes};
  for (uint32_t i = 0; i < nodes; i++) m->bits[i / 64] |= 1ull << i % 64;
}

void fs_members_without(struct fs_members *m, uint32_t rank) {
  if (!fs_member(m, rank)) return;
  m->bits[rank / 64] &= ~(1ull << rank % 64);
  m->count--;
  m->number++;
}

/* The maker of an output directory comes first: most names in it are made by programs of its node. */
static uint64_t fs_member_weight(uint64_t dir, uint32_t rank) {
  if ((dir & FS_OUTPUT_ID) && FS_OUTPUT_ID_RANK(dir) == rank) return UINT64_MAX;
  return fs_mix64(dir * 0x9e3779b97f4a7c15ull + (rank + 1) * 0xd1b54a32d192ed03ull);
}

struct fs_keepers fs_members_keepers(const struct fs_members *m, uint64_t dir) {
  struct fs_keepers k = {FS_NO_RANK, FS_NO_RANK};
  uint64_t best = 0, second = 0;
  for (uint32_t i = 0; i < m->nodes; i++) {
    if (!fs_member(m, i)) continue;
    uint64_t w = fs_member_weight(dir, i);
    if (k.primary == FS_NO_RANK || w > best) {
      k.backup = k.primary;
      second = best;
      k.primary = i;
      best = w;
    } else if (k.backup == FS_NO_RANK || w > second) {
      k.backup = i;
      second = w;
    }
  }
  return k;
}

uint32_t fs_members_after(const struct fs_members *m, uint32_t rank) {
  for (uint32_t i = 1; i < m->nodes; i++) {
    uint32_t next = (rank + i) % m->nodes;
    if (fs_member(m, next)) return next;
  }
  return FS_NO_RANK;
}
