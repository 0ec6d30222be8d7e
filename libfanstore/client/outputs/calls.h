/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls about names of output files (ipc/call.h), by the call slots of this process's channel;
 * docs/internals/metadata.md. Thread safe, lock-free, no allocation; each call is bounded by a deadline. In a vfork
 * child the parent's channel is used, or one for the call alone.
 */
#ifndef FS_CLIENT_OUTPUTS_CALLS_H
#define FS_CLIENT_OUTPUTS_CALLS_H

#include "ipc/layout.h"
#include "ipc/op.h"

struct fs_node;
/* The node, if files can be made below its mounts; NULL: everything there is read-only. */
const struct fs_node *fs_names_node(void);
uint32_t fs_names_rank(const struct fs_node *node);
/* Room for the largest record, with its name and target. */
#define FS_RECORD_MAX (sizeof(struct fs_record) + 256 + PATH_MAX)
struct fs_answer {
  size_t n; /* bytes of the body */
  alignas(8) char body[FS_RECORD_MAX];
};
/*
 * Makes the call with c->tail_len bytes of name and c->tail2_len of name2. Its own error; -EROFS without a daemon or
 * where it is to be so; -EIO when there is no answer. The answer's body goes to `body` (of `size` bytes), *n of them.
 */
fs_err fs_names_call(const struct fs_names_call *c, const char *name, const char *name2, void *body, size_t size,
                     size_t *n);
/* How long the call may take. */
uint64_t fs_names_patience(const struct fs_node *node, const struct fs_names_call *c);
/* Says once that this node's daemon does not answer: -EIO. link: by which it was asked, or NULL. */
struct fs_link;
fs_err fs_names_lost(const struct fs_node *node, struct fs_link *link);
/* fs_names_call for an answer of one record, which is checked: in `a`, or NULL when there is none. */
fs_err fs_names_ask(const struct fs_names_call *c, const char *name, const char *name2, struct fs_answer *a,
                    const struct fs_record **record);
/* A new id for a file of this process's; 0: there are no more. */
uint64_t fs_names_id(void);

#endif
