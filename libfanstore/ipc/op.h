/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of operations on output files: for each operation of ipc/call.h whom it is asked of,
 * who may ask, which ids it has, and what must be true of a call before it is believed. Clients and
 * daemons ask the table, and compare no numbers of operations. The daemon's handlers are in tables
 * of their own, by the operation.
 */
#ifndef FS_IPC_OP_H
#define FS_IPC_OP_H

#include "ipc/call.h"

/* Whom a call is asked of. */
enum fs_scope {
  FS_SCOPE_NONE,      /* there is no such operation */
  FS_SCOPE_DIRECTORY, /* the owner of a directory's records */
  FS_SCOPE_MIRROR,    /* the mirror of that directory, by its owner */
  FS_SCOPE_FILE,      /* the home of a file */
  FS_SCOPE_RECORD,    /* of a file its home, of a directory or a symlink the owner of the directory
                         that it is in */
  FS_SCOPE_BYTES,     /* the node that has the bytes of a file: its home, or one that has a part or a
                         replica */
  FS_SCOPE_PARTNER,   /* the partner of a file's home, by that home */
  FS_SCOPE_RANK,      /* any daemon */
  FS_SCOPE_NODE,      /* the daemon of the client's own node, and no other one */
};

/* One operation: what is true of all its calls. Offsets are those of fields of struct
 * fs_names_call, or 0. */
struct fs_op {
  const char *name;
  enum fs_scope scope;
  bool client;    /* a client may make the call */
  bool changes;   /* the call changes names: EROFS where outputs are read-only */
  bool not_twice; /* A child that does not know what has become of its parent's call may not make it
                     once more. */
  bool not_later; /* The call is sent once: one that comes later could undo what was done after it.
                   */
  uint8_t dir;    /* the directory whose owner is asked */
  uint8_t id;     /* the record that the call is about */
  uint8_t call;   /* the call's own id: it is done once. The client's daemon sets it. */
  uint8_t bytes;  /* how many bytes must be with another node before the answer comes, where files
                     have replicas */
  uint32_t flags; /* all that the operation has */
  uint32_t later; /* the flag that says that nobody waits for the answer: the call may go with the
                     next message */
  /* What the two tails of a call must be; NULL: empty. */
  bool (*tail)(const char *bytes, size_t n);
  bool (*tail2)(const char *bytes, size_t n);
  /* What else must be true of a call; NULL: nothing. */
  bool (*ok)(const struct fs_names_call *c);
};
extern const struct fs_op fs_ops[FS_NAMES_OPS];

/* Of a call that has passed fs_call_ok, or that was made here: */
static inline const struct fs_op *fs_call_op(const struct fs_names_call *c) {
  return &fs_ops[c->op];
}
static inline uint64_t *fs_call_at(struct fs_names_call *c, uint8_t at) {
  return (uint64_t *)(void *)((char *)c + at);
}
/* The directory whose owner is asked, and the record that the call is about; only where the
 * operation has them. */
static inline uint64_t fs_call_dir(const struct fs_names_call *c) {
  return *fs_call_at((struct fs_names_call *)c, fs_call_op(c)->dir);
}
static inline uint64_t fs_call_id(const struct fs_names_call *c) {
  return *fs_call_at((struct fs_names_call *)c, fs_call_op(c)->id);
}
/* The scope, of RECORD either FILE or DIRECTORY. */
static inline enum fs_scope fs_call_scope(const struct fs_names_call *c) {
  enum fs_scope scope = fs_call_op(c)->scope;
  return scope != FS_SCOPE_RECORD ? scope : S_ISREG(c->setattr.mode) ? FS_SCOPE_FILE : FS_SCOPE_DIRECTORY;
}

/* True if the answer has to wait until bytes of a file are with another node, where files have
 * replicas; and how many.
 */
static inline bool fs_call_bytes(const struct fs_names_call *c, uint64_t *bytes) {
  const struct fs_op *op = fs_call_op(c);
  if (op->bytes == 0 || (op->scope == FS_SCOPE_RECORD && fs_call_scope(c) != FS_SCOPE_FILE)) return false;
  *bytes = *fs_call_at((struct fs_names_call *)c, op->bytes);
  return true;
}

/* Puts the tails behind a call, where there is room for them, and zeros up to a multiple of 8
 * bytes. Returns its size.
 */
size_t fs_call_put(struct fs_names_call *c, const void *tail, size_t n, const void *tail2, size_t n2);
/* True for a whole call, with all that its operation needs, in n bytes. Its records are checked as
 * they are taken. */
bool fs_call_ok(const void *body, size_t n);

#endif
