/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls about names of output files (ipc/call.h). A process makes them by the call slots of its
 * channel; docs/internals/metadata.md describes them. Thread safe, lock-free, no allocation. Each call
 * has a deadline. A vfork child uses its parent's channel, or one for the call alone.
 */
#ifndef FS_CLIENT_NAMES_CALLS_H
#define FS_CLIENT_NAMES_CALLS_H

#include "ipc/layout.h"
#include "ipc/op.h"

struct fs_node;
/* Returns the node if files can be made below its mounts, or NULL if everything there is
   read-only. */
const struct fs_node *fs_names_node(void);
uint32_t fs_names_rank(const struct fs_node *node);
/* Room for the largest record, with its name and target. */
#define FS_RECORD_MAX (sizeof(struct fs_record) + 256 + PATH_MAX)
struct fs_answer {
  size_t n; /* bytes of the body */
  alignas(8) char body[FS_RECORD_MAX];
};
/*
 * Makes the call with c->tail_len bytes of name and c->tail2_len bytes of name2. Writes *n bytes of
 * the answer to `body`, which has `size` bytes. Returns the call's own error, -EROFS if there is no
 * daemon or the mount is read-only, or -EIO if there is no answer.
 */
fs_err fs_names_call(const struct fs_names_call *c, const char *name, const char *name2, void *body, size_t size,
                     size_t *n);
/* Returns how long the call may take. */
uint64_t fs_names_patience(const struct fs_node *node, const struct fs_names_call *c);
/* Says once that this node's daemon does not answer, and returns -EIO. link is the one by which it
   was asked, or NULL. */
struct fs_link;
fs_err fs_names_lost(const struct fs_node *node, struct fs_link *link);
/* Makes a call whose answer is one record, and checks the record. *record points into `a`, or is
   NULL if the answer has none. */
fs_err fs_names_ask(const struct fs_names_call *c, const char *name, const char *name2, struct fs_answer *a,
                    const struct fs_record **record);
/* Returns a new id for a file of this process, or 0 if there are no more. */
uint64_t fs_names_id(void);

/* Tells this node's daemon, without waiting, that an output of this node was opened for writing or
   changed (its id), that a removed one was unlinked (FS_WANT_GONE), or that a snapshot is given back (FS_WANT_CLOSE).
   Returns false if the daemon does not live or has many hints to look at. */
bool fs_names_tell(uint64_t word);

#endif
