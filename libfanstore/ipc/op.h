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
  FS_SCOPE_BACKUP,    /* the backup of that directory, by its owner */
  FS_SCOPE_FILE,      /* the home of a file */
  FS_SCOPE_RECORD,    /* of a file its home, of a directory or a symlink the owner of the directory
                         that it is in */
  FS_SCOPE_BYTES,     /* the node that has the bytes of a file: its home, or one that has a segment or a
                         replica */
  FS_SCOPE_PARTNER,   /* the partner of a file's home, by that home */
  FS_SCOPE_RANK,      /* any daemon */
  FS_SCOPE_NODE,      /* the daemon of the client's own node, and no other one */
};

/* One operation: what is true of all its calls. A field is given by its offset in struct
   fs_names_call; 0: the operation has none. */
struct fs_op {
  const char *name;
  enum fs_scope scope;
  bool client;    /* a client may make the call */
  bool changes;   /* the call changes names: EROFS where outputs are read-only */
  bool not_twice; /* A forked child may not make its parent's unfinished call once more. */
  bool not_later; /* The call is sent once: a later one could undo what was done since. */
  uint8_t dir;    /* field: the directory whose owner is asked */
  uint8_t id;     /* field: the record that the call is about */
  uint8_t call;   /* field: the call's own id, set by the client's daemon: it is done once */
  uint8_t bytes;  /* field: so many bytes are brought to a replica before the answer comes */
  uint32_t flags; /* all flags that the operation has */
  uint32_t later; /* the flag that lets the call wait for the next message to that rank */
  /* What the two tails of a call must be; NULL: empty. */
  bool (*tail)(const char *bytes, size_t n);
  bool (*tail2)(const char *bytes, size_t n);
  /* What else must be true of a call; NULL: nothing. */
  bool (*ok)(const struct fs_names_call *c);
};
extern const struct fs_op fs_ops[FS_NAMES_OPS];

/* The functions that follow take calls that were made here, or that have passed fs_call_ok. */
static inline const struct fs_op *fs_call_op(const struct fs_names_call *c) {
  return &fs_ops[c->op];
}
static inline uint64_t *fs_call_at(struct fs_names_call *c, uint8_t at) {
  return (uint64_t *)(void *)((char *)c + at);
}
/* The fields `dir` and `id` of the table's row; only where the operation has them. */
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

/* True if, where files have replicas, *bytes are brought to one before the answer comes. */
static inline bool fs_call_bytes(const struct fs_names_call *c, uint64_t *bytes) {
  const struct fs_op *op = fs_call_op(c);
  if (op->bytes == 0 || (op->scope == FS_SCOPE_RECORD && fs_call_scope(c) != FS_SCOPE_FILE)) return false;
  *bytes = *fs_call_at((struct fs_names_call *)c, op->bytes);
  return true;
}

/* Puts the tails and the zeros behind a call, where there is room for them. Returns its size. */
size_t fs_call_put(struct fs_names_call *c, const void *tail, size_t n, const void *tail2, size_t n2);
/* True for a whole call, with all that its operation needs, in n bytes. Records in a tail are
   checked by fs_record_next. */
bool fs_call_ok(const void *body, size_t n);

#endif
