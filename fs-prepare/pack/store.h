/* SPDX-License-Identifier: BSD-3-Clause */
/* Where content is stored, and what of it is stored already. One thread. */
#ifndef FS_PREPARE_STORE_H
#define FS_PREPARE_STORE_H

#include "pack.h"

/* What tells the content of a whole file that another node has. With --codec auto: fs_chunk.plain_xxh3
   and .plain_key. Else first is 0, since its blocks have XXH3s, and second is fs_chunk.key. */
struct fs_long_key {
  uint64_t first, second;
};

/* Where content is stored: the partitions, and a table of the content that is stored already. One
   thread. */
struct fs_store {
  const struct fs_plan *plan;
  struct fs_parts parts;
  uint32_t current; /* partition of the segment being written */
  struct fs_seen *seen;
  uint64_t seen_size, seen_used;
  struct fs_long_key *keys; /* of nodes: for each item */
  uint64_t plain_xxh3;      /* of the last chunk, if equal files are found by it; else 0 */
  uint64_t stored_bytes;
  uint64_t placed;                      /* chunks of files with several blocks */
  struct fs_chunks *chunks;             /* of large files */
  uint64_t shared_chunks, shared_bytes; /* of them, those that were not stored again; plain bytes */
};
fs_err fs_store_open(struct fs_store *s, const struct fs_plan *plan, int dir, bool resume);
/* Notes that an item's content, which was one chunk, is stored. plain_xxh3: the XXH3 of its plain bytes, if
   equal files are found by it, else 0. */
fs_err fs_store_seen(struct fs_store *s, uint64_t item, uint64_t plain_xxh3);
/* Places a chunk, and sets its `partition` and `at` if its bytes are not stored already. */
fs_err fs_store_chunk(struct fs_store *s, struct fs_chunk *chunk);
/* Frees what only fs_store_chunk needs. */
void fs_store_forget(struct fs_store *s);
void fs_store_free(struct fs_store *s);

/* The chunks of large files that were stored last (chunks.c). */
fs_err fs_chunks_open(struct fs_store *s);
void fs_chunks_free(struct fs_store *s);
/* Looks for the bytes of a chunk, whose item has its blocks already, but not their places. Returns 1 and
   the first block of the stored chunk, 0, or a negative errno. */
int fs_chunks_find(struct fs_store *s, const struct fs_chunk *c, const struct fs_built_block **place);
/* Notes chunk k of a large file, which now has its place: the chunk was stored, or refers to a stored one.
   A resumed run repeats all notes in their order. second: fs_chunk.key, of nodes. */
void fs_chunks_note(struct fs_store *s, uint64_t item, uint64_t k, uint64_t second);
/* Returns `second` of a chunk that later ones may refer to, else 0. */
uint64_t fs_chunks_second(const struct fs_store *s, uint64_t item, uint64_t k);
/* Returns true if a chunk of the large file that was noted last refers to another one. */
bool fs_chunks_referred(const struct fs_store *s);

#endif
