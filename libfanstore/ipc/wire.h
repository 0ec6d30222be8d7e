/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI messages between daemons. docs/internals/messages.md is the protocol. Little-endian hosts only
 * (checked at build). A request is one struct fs_wire_req on tag FS_TAG_REQUEST. The reply is one
 * message on the tag that the request names: a struct fs_wire_rep, then the stored bytes. A bare
 * read that succeeds returns the stored bytes alone, so that they are sent without a copy. The
 * receiver checks length, magic, id and checksums, and drops invalid messages.
 */
#ifndef FS_IPC_WIRE_H
#define FS_IPC_WIRE_H

#include <assert.h>

#include "util/util.h"

#define FS_WIRE_MAGIC 0x52495746u
#define FS_WIRE_VERSION 13u

enum fs_wire_tag {
  FS_TAG_REQUEST = 1,
  FS_TAG_CONTROL = 2,
  FS_TAG_NAMES = 3,
  FS_TAG_REPLICA = 4,
  FS_TAG_PART = 5,        /* requests of type READ_PART */
  FS_TAG_PIECE_FIRST = 6, /* their replies: 6 to 13 */
  FS_TAG_REPLY_FIRST = 16
};
enum fs_wire_type {
  FS_WIRE_READ = 1,
  FS_WIRE_PING = 2,
  FS_WIRE_READ_BARE = 3,
  FS_WIRE_READ_OUTPUT = 4, /* bytes of an output at its home, as they are now; may be fewer than
                              requested */
  FS_WIRE_READ_BATCH = 5,  /* a batch (ipc/batch.h); may be shorter than requested */
  FS_WIRE_READ_PART = 6,   /* during staging, bytes of the file of a partition; 0 bytes: whether it is staged.
                              EAGAIN: not yet, and reserved[0] counts the staging's progress */
};

#define FS_WIRE_BARE_LEAST 32768u /* least length of a bare read; above a struct fs_wire_rep */

struct fs_wire_req {
  uint32_t magic;
  uint16_t version;
  uint16_t type;
  uint64_t id; /* generation and slot of the requester; echoed */
  uint32_t tag;
  uint32_t dataset; /* number in the job */
  uint32_t partition;
  uint32_t length;
  uint64_t offset;
  uint64_t file; /* of READ_OUTPUT; of READ_BATCH: the first one; dataset and partition are 0 */
  uint64_t list; /* of READ_OUTPUT: `list` of struct fs_opened; ESTALE if bytes have moved to other nodes since;
                    0: any. Of READ_BATCH: `appended` of the batch */
  uint64_t sum;
};
static_assert(sizeof(struct fs_wire_req) == 64, "fs_wire_req is 64 bytes");

struct fs_wire_rep {
  uint32_t magic;
  uint16_t version;
  uint16_t type;
  uint64_t id;
  int32_t err; /* 0, or a negative errno and length 0 */
  uint32_t length;
  uint64_t xxh3; /* of READ_OUTPUT and READ_BATCH: of the bytes that follow */
  uint64_t reserved[4];
};
static_assert(sizeof(struct fs_wire_rep) == 64, "fs_wire_rep is 64 bytes");

/* A call about names of output files (ipc/call.h) on tag FS_TAG_NAMES: this head, then the body. A packet of MPI has
   one or more of them, one after the other, each at a multiple of 8 bytes. */
#define FS_WIRE_NAMES_MAGIC 0x4e495746u
struct fs_wire_names {
  uint32_t magic;
  uint16_t version;
  uint16_t answer; /* 0 a question, 1 an answer */
  uint64_t id;
  uint64_t set;   /* number of the member set that the sender knows */
  uint64_t order; /* counts messages from this sender to this receiver, from 1 */
  int32_t err;
  uint32_t length; /* of the body */
  uint64_t reserved[2];
  uint64_t sum;
};
static_assert(sizeof(struct fs_wire_names) == 64, "fs_wire_names is 64 bytes");
/* Returns the bytes that such a message takes in its packet. */
static inline size_t fs_wire_names_size(uint32_t length) {
  return sizeof(struct fs_wire_names) + fs_round_up(length, 8);
}
/* Bytes of an output file for the rank with its replica, on tag FS_TAG_REPLICA: this head, then at
   most FS_OUTPUT_BLOCK bytes. There is no answer. FS_NAMES_REPLICA says how many messages there
   were. */
#define FS_WIRE_REPLICA_MAGIC 0x50495746u
struct fs_wire_replica {
  uint32_t magic;
  uint16_t version;
  uint16_t reserved;
  uint64_t file;
  uint64_t offset;
  uint32_t generation; /* of this file, from this sender; newer is greater */
  uint32_t length;
  uint64_t xxh3; /* of the bytes that follow */
  uint64_t hole; /* with a length of 0: size of a hole */
  uint64_t unused;
  uint64_t sum;
};
static_assert(sizeof(struct fs_wire_replica) == 64, "fs_wire_replica is 64 bytes");

/*
 * Returns the value of `sum`, the last field of a head. The sum covers the rest of the head and the
 * n bytes that follow. Without it a damaged request could ask for other bytes, and a damaged record
 * could be believed. The sum of a struct fs_wire_replica covers the head alone, because `xxh3`
 * covers its bytes. A reply needs no sum: the checksum of its bytes shows a wrong reply. An
 * answer about a partition without bytes only says whether to ask again.
 */
#define FS_WIRE_HEAD 64u
static inline uint64_t fs_wire_sum(const void *head, size_t n) {
  uint64_t sum = fs_xxh3(head, FS_WIRE_HEAD - sizeof(uint64_t));
  return n > 0 ? fs_mix64(sum) ^ fs_xxh3((const char *)head + FS_WIRE_HEAD, n) : sum;
}
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire and the disk are little-endian");

#endif
