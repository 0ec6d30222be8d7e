/* SPDX-License-Identifier: BSD-3-Clause */
/* A node's owner (owner.c) and its directory (partial.c). */
#ifndef FS_PREPARE_NODES_OWNER_H
#define FS_PREPARE_NODES_OWNER_H

#include "nodes.h"

struct message { /* FS_NODES_BYTES, while not all of it is in the partitions */
  uint64_t batch;
  uint32_t left;
};

struct piece {
  uint64_t seq, offset, len;
  const uint8_t *data; /* of a waiting piece: its own memory */
  struct message *of;
  struct piece *next;
};

struct fs_owner {
  char top[PATH_MAX], name[32];
  int top_fd, dir_fd, shared_fd;
  struct fs_parts local, shared;
  const struct fs_plan *plan;
  bool *here, *first; /* [new partition]: this node writes it; also to shared storage */
  uint32_t parts;     /* new ones */
  enum { FS_OWNER_CLOSED, FS_OWNER_OPEN, FS_OWNER_FINISHED, FS_OWNER_SEALED } state;
  struct {
    uint64_t seq;          /* of the next piece */
    struct piece *waiting; /* in order */
  } * part;
};

/* Ends this rank with a line about an error of a write: below DATASET's directory, or the local one. */
fs_err fs_owner_failed(struct fs_nodes *n, bool shared, fs_err err);

/* partial.c. Handles FS_NODES_OPEN. */
void fs_partial_begin(struct fs_nodes *n);
/* Makes the names of the directory and of its files last. */
fs_err fs_partial_sync(const struct fs_owner *o);
/* Removes the directory if `discard`, or if no journal counts on it. */
void fs_partial_remove(const struct fs_owner *o, bool discard);
/* Closes the directory, and does the same. */
void fs_partial_close(struct fs_owner *o, bool discard);

#endif
