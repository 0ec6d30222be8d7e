/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of operations on output files (ipc/call.h). A row says who receives the call, who may
 * make the call, which ids it has, and what the receiver checks. Clients and daemons ask this table
 * and never compare operation numbers. The daemon's handlers are in tables of their own, indexed by
 * the operation.
 */
#ifndef FS_IPC_OP_H
#define FS_IPC_OP_H

#include "ipc/call.h"

/* The receiver of a call. */
enum fs_scope {
  FS_SCOPE_NONE,      /* no such operation */
  FS_SCOPE_DIRECTORY, /* the primary of a directory */
  FS_SCOPE_BACKUP,    /* the backup of a directory; called by the primary */
  FS_SCOPE_FILE,      /* the home of a file */
  FS_SCOPE_RECORD,    /* for a file its home, for a directory or a symlink the primary of its parent
                         directory */
  FS_SCOPE_BYTES,     /* a node with bytes of the file: its home, or one with a segment or replica
                       */
  FS_SCOPE_PARTNER,   /* the partner of a file's home; called by the home */
  FS_SCOPE_RANK,      /* any daemon */
  FS_SCOPE_NODE,      /* only the daemon of the client's own node */
};

/* One operation. A field is given as its offset in struct fs_names_call; 0: the operation has no
   such field. */
struct fs_op {
  const char *name;
  enum fs_scope scope;
  bool client;      /* a client may make the call */
  bool changes;     /* the call changes names: EROFS if outputs are read-only; what is lent of the
                       directory is recalled before it */
  bool not_twice;   /* a forked child must not repeat its parent's unfinished call */
  bool not_later;   /* never resend: a late copy could undo a newer change */
  bool members;     /* only members may make it: an evicted rank would act beside its successor */
  bool queues;      /* the client's daemon may first await an earlier call about the file */
  uint8_t dir;      /* field: the directory whose primary is called */
  uint8_t id;       /* field: the record that the call is about */
  uint8_t call;     /* field: the call's id, set by the client's daemon; a call is done once */
  uint8_t bytes;    /* field: bytes that reach a replica before the answer */
  uint32_t flags;   /* all flags that the operation has */
  uint32_t signals; /* flags with which a signal handler ends the client's wait (EINTR) */
  /* Checks of the two tails; NULL: the tail must be empty. */
  bool (*tail)(const char *bytes, size_t n);
  bool (*tail2)(const char *bytes, size_t n);
  /* A further check of the call; NULL: none. */
  bool (*ok)(const struct fs_names_call *c);
};
extern const struct fs_op fs_ops[FS_NAMES_OPS];

/* These functions take only calls that were made here or have passed fs_call_ok. */
static inline const struct fs_op *fs_call_op(const struct fs_names_call *c) {
  return &fs_ops[c->op];
}
static inline uint64_t *fs_call_at(struct fs_names_call *c, uint8_t at) {
  return (uint64_t *)(void *)((char *)c + at);
}
/* Return the call's directory or record id. The operation must have that field. */
static inline uint64_t fs_call_dir(const struct fs_names_call *c) {
  return *fs_call_at((struct fs_names_call *)c, fs_call_op(c)->dir);
}
static inline uint64_t fs_call_id(const struct fs_names_call *c) {
  return *fs_call_at((struct fs_names_call *)c, fs_call_op(c)->id);
}
/* Returns the call's scope; FS_SCOPE_RECORD becomes FILE or DIRECTORY. */
static inline enum fs_scope fs_call_scope(const struct fs_names_call *c) {
  enum fs_scope scope = fs_call_op(c)->scope;
  return scope != FS_SCOPE_RECORD ? scope : S_ISREG(c->setattr.mode) ? FS_SCOPE_FILE : FS_SCOPE_DIRECTORY;
}

/* Returns true if the call waits, when files have replicas, until some bytes reach a replica, and
   stores how many in *bytes. */
static inline bool fs_call_bytes(const struct fs_names_call *c, uint64_t *bytes) {
  const struct fs_op *op = fs_call_op(c);
  if (op->bytes == 0 || (op->scope == FS_SCOPE_RECORD && fs_call_scope(c) != FS_SCOPE_FILE)) return false;
  *bytes = *fs_call_at((struct fs_names_call *)c, op->bytes);
  return true;
}

/* Writes the tails and the zeros behind a call, which must have room for them. Returns the call's
   size. */
size_t fs_call_put(struct fs_names_call *c, const void *tail, size_t n, const void *tail2, size_t n2);
/* Returns true if the n bytes are a complete and valid call. Records in a tail are not checked
   here; fs_record_next checks them. */
bool fs_call_ok(const void *body, size_t n);

#endif
