/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The set of ranks that keep names of output files, and the choice of the two that keep each
 * directory (docs/internals/members.md). The set only shrinks, and each smaller set has a
 * higher number. The functions are pure: they touch only their arguments.
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
/* Makes m the set of all ranks, with number 1. */
void fs_members_all(struct fs_members *m, uint32_t nodes);
/* Removes this rank from the set and raises the set's number by 1. Does nothing if the rank is
   no member. */
void fs_members_without(struct fs_members *m, uint32_t rank);

/* The two members that keep a directory. A keeper that does not exist is FS_NO_RANK. */
struct fs_keepers {
  uint32_t primary, backup;
};
struct fs_keepers fs_members_keepers(const struct fs_members *m, uint64_t dir);
/* Returns the next member after this rank round the ring, or FS_NO_RANK if there is no other
   member. */
uint32_t fs_members_after(const struct fs_members *m, uint32_t rank);

#endif
