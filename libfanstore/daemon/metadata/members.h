/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ranks that keep names of output files, and which of them keeps which directory (docs/internals/members.md).
 * The set only shrinks; each smaller one has a higher number. Pure functions.
 */
#ifndef FS_DAEMON_METADATA_MEMBERS_H
#define FS_DAEMON_METADATA_MEMBERS_H

#include "ipc/layout.h"

#define FS_NO_RANK UINT32_MAX

struct fs_members {
  uint64_t number;
  uint32_t nodes, count;
  uint64_t bits[FS_MAX_NODES / 64];
};

static inline bool fs_member(const struct fs_members *m, uint32_t rank) {
  return rank < m->nodes && (m->bits[rank / 64] >> rank % 64 & 1) != 0;
}
/* All ranks, number 1. */
void fs_members_all(struct fs_members *m, uint32_t nodes);
/* Without this rank, number + 1. */
void fs_members_without(struct fs_members *m, uint32_t rank);

/* The two members that keep a directory: FS_NO_RANK where there is none. */
struct fs_keepers {
  uint32_t primary, backup;
};
struct fs_keepers fs_members_keepers(const struct fs_members *m, uint64_t dir);
/* The member after this rank, round the ring; FS_NO_RANK when there is no other. */
uint32_t fs_members_after(const struct fs_members *m, uint32_t rank);

#endif
