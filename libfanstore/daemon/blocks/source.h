/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sources of blocks: datasets (datasets.c), outputs (outputs/blocks.c) and staged-in files
 * (stagein/own.c). fetch.c and exchange.c get a client's block by its source. serve.c answers
 * another node's request by its source. The MPI thread calls all functions of a source.
 */
#ifndef FS_DAEMON_BLOCKS_SOURCE_H
#define FS_DAEMON_BLOCKS_SOURCE_H

#include "daemon/daemon.h"

/* A client's block, and what a request for it says (ipc/wire.h). */
struct fs_wanted {
  struct fs_block block;
  uint16_t type;    /* enum fs_wire_type */
  uint32_t dataset; /* of a dataset's block */
  uint64_t file;    /* of an output's block */
  uint64_t list;    /* version of the output's extent map */
};

/* A request of another node, from its arrival to the reply. */
struct fs_block_read {
  struct fs_io io; /* for the source */
  struct fs_daemon *d;
  struct fs_wire_req req;
  void *buf;       /* room for req.length bytes, after fs_serve_room */
  uint32_t length; /* how many bytes the reply has; at first req.length */
  uint64_t xxh3;   /* their checksum, if the source is sized; else 0 */
};

struct fs_block_source {
  /* ---- blocks for this node's clients ---- */
  /* Fills in the block of a client's key, or returns -EINVAL. */
  fs_err (*resolve)(const struct fs_daemon *d, uint64_t key, struct fs_wanted *w);
  /* A fetch of a resolved key begins; it is over. NULL: the source does not want to know. */
  void (*begin)(struct fs_daemon *d, struct fs_fetch *f);
  void (*done)(struct fs_daemon *d, struct fs_fetch *f);
  /* Looks for the next place to ask for the block, or ends the fetch with an error. */
  void (*route)(struct fs_daemon *d, struct fs_fetch *f);
  /* Returns how many more nodes could be asked, including the present one. NULL: only one node has
     the block. */
  uint32_t (*chances)(const struct fs_daemon *d, const struct fs_fetch *f);
  /* The reply says how many bytes it has, at most those that were asked for, and their checksum. */
  bool sized;

  /* ---- requests of other nodes ---- */
  /* Checks a request, and ends in fs_serve_done or fs_serve_bytes, now or later. */
  void (*serve)(struct fs_daemon *d, struct fs_block_read *r);
  /* Goes on with a request that fs_serve_room let wait: reads the bytes into r->buf. */
  void (*read)(struct fs_daemon *d, struct fs_block_read *r);
};

/* modules.c has the table. Keys and requests of staged-in files are those of outputs; outputs pass
   them on to FS_BLOCKS_STAGED_IN, which has `read` only. */
enum fs_block_kind { FS_BLOCKS_DATASET, FS_BLOCKS_OUTPUT, FS_BLOCKS_STAGED_IN, FS_BLOCKS_KINDS };
extern const struct fs_block_source *const fs_block_sources[FS_BLOCKS_KINDS];
extern const struct fs_block_source fs_dataset_blocks; /* datasets.c */

/* ---- serve.c: for sources ---- */
/* Takes a buffer for the request's bytes. Returns false if none is free: then the source's `read`
   is called when there is one. */
bool fs_serve_room(struct fs_block_read *r);
/* Sends the buffer's bytes, or the error. */
void fs_serve_done(struct fs_block_read *r, fs_err err);
/* Sends the bytes from where they are. The request has no buffer, and is a bare read. */
void fs_serve_bytes(struct fs_block_read *r, const void *bytes);

#endif
