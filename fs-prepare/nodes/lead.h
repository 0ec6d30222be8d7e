/* SPDX-License-Identifier: BSD-3-Clause */
/* What the lead knows of the nodes and of the batches on their way. Main thread of rank 0. */
#ifndef FS_PREPARE_NODES_LEAD_H
#define FS_PREPARE_NODES_LEAD_H

#include "nodes.h"

#define FS_LEAD_AHEAD 16u /* batches of a worker that are encoded and wait for those of slower nodes */

struct fs_peer {
  char host[256];
  uint32_t jobs;
  uint32_t owed;                /* batches whose bytes it has not written yet */
  uint64_t encoded, timed;      /* bytes that it has read and encoded; at the last look */
  double rate;                  /* of them, a second */
  uint32_t unencoded, unplaced; /* batches that it has */
  uint32_t streams;             /* that it reads and whose last batch is not encoded */
  uint64_t last;                /* the batch that last had bytes for it, + 1 */
  uint64_t staged;
  bool answered;
};

struct fs_flight { /* a batch from its hand-out until it is in the partitions */
  uint64_t number;
  uint32_t worker, left;
  bool busy;
};

struct fs_lead {
  struct fs_pipeline *pipeline;
  const struct fs_plan *plan;
  struct fs_peer *peer;
  struct fs_flight *flight;
  uint64_t window, handed;
  uint64_t *seq;               /* [new partition]: of its next piece */
  uint32_t *new_of;            /* [partition]: which new one it is */
  uint32_t asked, answers;     /* the kind of message that all nodes answer with; how many have */
  struct fs_part_state *state; /* [new partition]: as its owners tell it; NULL: they are not asked */
  bool *held;                  /* [old partition]: a node has it; NULL: they are not asked */
  uint32_t held_parts;
  dev_t *device;                /* [source]: of a directory */
  uint32_t *reader;             /* [source]: of a stream: the node that reads it, + 1; 0: none so far */
  uint32_t turn;                /* the node that gets the next batch of no stream, if it has room */
  uint64_t began_ns, looked_ns; /* when it had the plan; of fs_lead_rates */
  bool adopted;
};

/* answers.c. Waits until all nodes have answered with a message of this kind. */
fs_err fs_lead_answers(struct fs_nodes *n, uint32_t kind);
/* Counts an answer. Returns -EPROTO if nobody has asked for it. */
fs_err fs_lead_answered(struct fs_nodes *n, uint32_t from, uint32_t kind);
/* Sets the handlers of messages from nodes that have no batch: READY, SEALED, ADOPTED, FAILED, ALIVE. */
void fs_answers_begin(struct fs_nodes *n);
/* Waits until all that is placed is in the partitions, then has the owners finish or sync them (kind), and
   stores their states. */
fs_err fs_lead_ask_states(struct fs_nodes *n, uint32_t kind, const struct fs_parts *p, struct fs_part_state *state);
/* tell.c. Each second, tells the progress which node is the slowest. */
void fs_lead_rates(const struct fs_nodes *n);
/* Tells, for --verbose, how many bytes the nodes have encoded, and how many streams they have read. */
void fs_lead_say_shares(const struct fs_nodes *n);
/* Prints what the pack has left on the nodes. */
void fs_lead_summary(const struct fs_nodes *n);

#endif
