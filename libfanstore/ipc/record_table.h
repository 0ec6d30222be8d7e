/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The records of outputs that a node's daemon knows for certain, in memory that the node's programs
 * read without a lock and without a system call. The daemon writes it
 * (daemon/metadata/shared_names.h), and clients have it read-only. An answer is what the daemon
 * would have answered to LOOKUP or TIMES at that time, or "ask": then the client asks the daemon.
 * docs/internals/metadata.md, "Records in shared memory", has the argument,
 * tests/model/records.pml the model.
 *
 * Layout: the head (FS_RECORD_PAGE bytes), the indexes of all levels, the slots. An index is an
 * open hash table with linear probing. An entry of it is the upper half of the hash and the number
 * of a slot + 1, or 0. Level L has 2^L entries, and half of them are used at most.
 *
 * The sequence number is odd while the daemon changes something. A reader that finds another number
 * afterwards has read nothing. Fork: the mapping is inherited. Threads: any number.
 */
#ifndef FS_IPC_RECORD_TABLE_H
#define FS_IPC_RECORD_TABLE_H

#include "ipc/call.h"

#define FS_RECORDS_MAGIC 0x4352435346000001ull
#define FS_RECORD_PAGE 4096u
#define FS_RECORD_LEVEL_FIRST 10u
#define FS_RECORD_LEVEL_LAST 21u
#define FS_RECORD_SLOTS_MOST (1u << (FS_RECORD_LEVEL_LAST - 1))
#define FS_RECORD_WORDS 24u
#define FS_RECORD_TEXT (FS_RECORD_WORDS * 8u - sizeof(struct fs_record)) /* longer names are asked for */

struct fs_records_head {
  uint64_t magic;
  uint64_t slots;                     /* in the table */
  alignas(64) _Atomic uint64_t seq;   /* odd: a change is under way */
  alignas(64) _Atomic uint64_t until; /* CLOCK_MONOTONIC in ns: after it, nothing here is certain */
  _Atomic uint64_t level;             /* of the index in use */
};

/*
 * A record with its name and, if there is room for it, its target. Or what is known of a directory:
 * `dir` is its id, name_len is 0, `version` is its last change, `size` its number of subdirectories
 * (both as in struct fs_dir_times), and `seq` is 1 if all its records are here, else 0.
 */
struct fs_record_slot {
  _Atomic uint64_t word[FS_RECORD_WORDS];
};
static_assert(sizeof(struct fs_record_slot) == 192, "a slot is three cache lines");
struct fs_record_copy { /* of a slot */
  struct fs_record r;
  char text[FS_RECORD_TEXT];
};
static_assert(sizeof(struct fs_record_copy) == sizeof(struct fs_record_slot), "a copy has all words of its slot");

static inline uint64_t fs_record_index_at(uint64_t level) {
  return FS_RECORD_PAGE + ((1ull << level) - (1u << FS_RECORD_LEVEL_FIRST)) * sizeof(uint64_t);
}
static inline uint64_t fs_record_slots_at(void) {
  return fs_round_up(fs_record_index_at(FS_RECORD_LEVEL_LAST + 1), FS_RECORD_PAGE);
}
static inline uint64_t fs_record_table_size(uint64_t slots) {
  return fs_record_slots_at() + fs_round_up(slots * sizeof(struct fs_record_slot), FS_RECORD_PAGE);
}
uint64_t fs_record_hash(uint64_t dir, const char *name, size_t len);

/* ---- reading ---- */

struct fs_record_view {
  const struct fs_records_head *head; /* NULL: everything is asked for */
  const char *base;
};

enum fs_record_answer { FS_RECORD_ASK = -1, FS_RECORD_ABSENT, FS_RECORD_FOUND };

/* Checks the head of a table of `size` bytes. Returns 0 or -EPROTO. */
fs_err fs_record_view_init(struct fs_record_view *v, const void *base, uint64_t size);
/* Looks up a name at the time `now`. With FS_RECORD_FOUND, `out` has the record with its name and
   target. A directory's record has FS_RECORD_TIMED if its times are known. The caller decides
   whether the record is visible to its node. */
enum fs_record_answer fs_record_view_find(const struct fs_record_view *v, uint64_t now, uint64_t dir, const char *name,
                                          size_t len, struct fs_record_copy *out);
/* Returns the number of the slot of a name + 1, or 0. */
uint32_t fs_record_view_slot(const struct fs_record_view *v, uint64_t now, uint64_t dir, const char *name, size_t len);
/* Reads the record in a slot, which may have been given to another record since. The caller compares
   ids. Returns false if nothing certain was read. */
bool fs_record_view_at(const struct fs_record_view *v, uint64_t now, uint32_t slot, struct fs_record *r);
/* Sets what TIMES would answer. Returns false if the daemon must be asked. */
bool fs_record_view_times(const struct fs_record_view *v, uint64_t now, uint64_t dir, struct fs_dir_times *t);

#endif
