/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls about output files, as clients and daemons make them of each other, and their answers. A call is a header
 * (struct fs_names_call), in a box of a channel (ipc/layout.h) or behind a struct fs_wire_names (ipc/wire.h), then a
 * body of at most FS_NAMES_BODY bytes. Little-endian, no pointers. Whoever receives one checks it by fs_call_ok before
 * use. docs/output-files.md is the protocol.
 */
#ifndef FS_IPC_CALL_H
#define FS_IPC_CALL_H

#include <assert.h>
#include <sys/stat.h>

#include "ipc/record.h"

/* What is asked of the rank that keeps a directory (RENAME: the directory `to`). The id of CREATE is that of the new
   record, those of REMOVE and RENAME are the caller's own: a call that is made again has the same id, and is done once.
 */
enum fs_names_op {
  FS_NAMES_LOOKUP = 1, /* dir, name: its record; or with no name id: ENOENT, EREMCHG as for PUBLISH */
  FS_NAMES_CREATE,     /* dir, name, target, id, mode, mtime: the new record; EEXIST with that of the name */
  FS_NAMES_PUBLISH,    /* dir, id, mode, size, mtime: what home's spill is now; to: its ctime, in ns since 1970 (0: as
                          mtime). ENOENT, EREMCHG when it is elsewhere */
  FS_NAMES_REMOVE,     /* dir, name, id, mode's type (S_IFDIR: rmdir; else unlink) */
  FS_NAMES_RENAME,     /* dir, name, to, name 2, id, flags: the id of a file that was replaced, or 0, and the record as
                          it is then, but of a symlink */
  FS_NAMES_LIST,       /* dir, seq: records after it, as many as fit; none at the end */
  FS_NAMES_SETATTR,    /* dir, id, mode's type, flags (enum fs_set) and what they name: the record as it is then. Of a
                          file its home does it, of others the directory's keeper; size, when times of a directory are
                          set: its last change (TIMES). ENOENT, EREMCHG as for PUBLISH */
  FS_NAMES_HOLD,       /* id, of a file of another node's, or of several writers: struct fs_held; home keeps its bytes
                          until RELEASE. ENOENT, EHOSTDOWN, EFBIG */
  FS_NAMES_RELEASE,    /* id, seq: a handle: one HOLD that gave it is over (0: whichever). Of a node: all are */
  /* of a file that several processes write (section 7); home answers */
  FS_NAMES_EXTEND,  /* id, to: a part, instead of a name struct fs_range[]: bytes that are in the part; size: how many.
                       Publishes the file, also without any. seq, blocks: up to there (if 0: nothing) rank blocks - 1
                       has appended of the caller's; EIO: this home has not got it. struct fs_appended, off 0 */
  FS_NAMES_EXTENTS, /* id, size: an offset: struct fs_listed, and struct fs_out_extent[] from there on, as many as fit
                     */
  FS_NAMES_APPEND,  /* id, size: bytes for the end of home's spill, instead of a name: FS_APPEND_DATA at most; without
                       them so many zeros (FS_APPEND_MAX) that are the caller's to write. struct fs_appended */
  FS_NAMES_OWN,     /* id, size: the spill is to be a file of its own, empty when size is 0, before it is changed.
                       EINPROGRESS, with bytes copied so far, 64 bits: to be asked again */
  /* of a client to its own daemon alone, of a spill of that node (section 7) */
  FS_NAMES_RELAY, /* id: has no name, to: a file, dir: that it was seen in last, or 0; flags: FS_RELAY_APPEND, or size:
                     from where on. What is written there is that file's */
  FS_NAMES_SYNC,  /* id: what was written there is published, seq: the first so many bytes. EAGAIN: it is not yet.
                     flags: then the file is made `size` long (FS_SYNC_CUT); or that is where it is written from now on
                     (FS_SYNC_SEEK; ESPIPE). struct fs_relayed: it is a relay */
  FS_NAMES_OFFER, /* id: a file, to: a spill to be this node's part of it, if it has none yet; 0: only asks. The part
                     that it has, 64 bits, or 0. EINVAL: that spill is something else */
  FS_NAMES_FIND,  /* id, of a directory: its record, whichever directory it is in. ENOENT */
  FS_NAMES_TIMES, /* dir: struct fs_dir_times */
  FS_NAMES_NODE_LOCAL, /* dir: a client makes names of its node there. Its own daemon sets the directory's bit. flags:
                          FS_NL_SHADOWS */
  /* between the daemons only */
  FS_NAMES_TAKE,  /* dir, name, to: the record, which is held for that directory's owner; EAGAIN while held */
  FS_NAMES_TAKEN, /* dir, id, size, flags: by the rename of this id the record moved away, or (FS_NAMES_KEEP) did not */
  FS_NAMES_ARRIVED, /* dir, id, size: is it here, or was the rename of this id done? */
  FS_NAMES_CLOSE,   /* dir: no names in it, and none are taken any more for a while; ENOTEMPTY */
  FS_NAMES_OPEN,    /* dir: they are again */
  FS_NAMES_FORGET,  /* dir: it was removed */
  FS_NAMES_ABOVE,   /* dir, id, of a directory: its record. EBUSY with the id of the call that is about to rename or
                       remove it; ENOENT, EREMCHG as for PUBLISH */
  /* to a rank, not to a keeper */
  FS_NAMES_MIRROR, /* dir, id: a record to drop (or 0), to: where it went (or 0), size: the caller's id; records to
                           put. seq, mode: a question of the rank `mode`, which is then answered, by the first of these
                           records. mtime: when names in it were changed last, in ns */
  FS_NAMES_MARK,   /* seq: number of a bit of the directories that may have outputs */
  FS_NAMES_TREE,   /* the tree of directories has changed */
  FS_NAMES_DROP,   /* id: the file has no name any more */
  FS_NAMES_PING,
  FS_NAMES_ACCUSE,  /* id: a rank that does not answer */
  FS_NAMES_SET,     /* seq, bits: the members */
  FS_NAMES_WHERE,   /* id: the directory that its record is in, if this rank keeps it as owner or mirror; with
                        FS_NAMES_SEEN else where it was seen last; ENOENT */
  FS_NAMES_LISTS,   /* a list of parts has changed: no program is to use one that it has */
  FS_NAMES_REPLICA, /* id, dir, size, mode, mtime, seq as in PUBLISH, to: generation << 32 and number of the blocks that
                       were sent of it (ipc/wire.h), or instead of a name one more: all is here now. EILSEQ: not all;
                       blocks: sent by this home so far, of all its files. Instead of name 2 struct
                       fs_replica_list: of a file of several writers */
  FS_NAMES_OPS
};

enum fs_names_flags {
  FS_NAMES_NOREPLACE = 1,  /* of RENAME */
  FS_NAMES_KEEP = 2,       /* of TAKEN, MIRROR: the hold of record id ends, and it stays */
  FS_NAMES_TAKEN_TOO = 16, /* of LOOKUP: also what is not published yet: it is to be written */
  FS_NAMES_PARTS = 8,      /* of PUBLISH: not all bytes are in home's spill */
  FS_NAMES_PART = 8,       /* of REPLICA: this is a part of another file */
  FS_NAMES_MORE = 1,       /* of REPLICA: more of the list follows, the last word has still to be said */
  FS_NAMES_STAGED = 32,    /* of CREATE and PUBLISH, by daemons: FS_RECORD_STAGED, with its size and published */
  FS_NAMES_DURABLE = 64,   /* of PUBLISH, EXTEND, REPLICA: the program has waited for its disk */
  FS_NAMES_HELD = 4,       /* of MIRROR: record id is held for directory `to` and the rename `size` */
  FS_NAMES_SHUT = 8,       /* of MIRROR: the directory takes no names for a while; */
  FS_NAMES_OPENED = 16,    /* it does; */
  FS_NAMES_REMOVED = 32,   /* it never will */
  FS_NAMES_AWAIT = 256,    /* of DROP: home answers when the backing file is gone, or at once if it stays */
  FS_NAMES_LATER = 128,    /* of MIRROR, and PUBLISH by the owner itself: nobody waits for the answer */
  FS_NAMES_SEEN = 1,       /* of WHERE */
};
#define FS_MIRROR_ALL                                                                                                  \
  (FS_NAMES_KEEP | FS_NAMES_HELD | FS_NAMES_SHUT | FS_NAMES_OPENED | FS_NAMES_REMOVED | FS_NAMES_LATER)

/* What SETATTR sets: mode's permissions; mtime, mtime_ns; size (of a file). */
enum fs_set { FS_SET_MODE = 1, FS_SET_TIMES = 2, FS_SET_SIZE = 4, FS_SET_ALL = 7 };

/* Followed by name, name 2 (RENAME) or target (CREATE), and from the next multiple of 8 on records. */
struct fs_names_call {
  uint32_t op, flags;
  uint64_t dir, to;
  uint64_t id, seq, size;
  int64_t mtime;
  uint32_t mtime_ns, mode;
  uint16_t name_len, name2_len;
  uint32_t blocks;
};
static_assert(sizeof(struct fs_names_call) == 72, "fs_names_call is 72 bytes");

/* The answer to TIMES: what the directory's owner knows of the output names in it. */
struct fs_dir_times {
  uint64_t changed; /* when they were changed last, in ns since 1970; 0: never */
  uint64_t subdirs; /* how many of them are directories */
};
static_assert(sizeof(struct fs_dir_times) == 16, "fs_dir_times is 16 bytes");

/*
 * A file of another node as it is now, the answer to HOLD. Its bytes come by requests for FS_OUT_KEY(handle, block): of
 * `size` bytes each block but the last has FS_OUT_BLOCK, fewer when the file has become shorter since; or for
 * FS_OUT_GRAIN_KEY, where less of a block than half is wanted of this spill. The handle is this node's number for these
 * contents (0 is none), good for all its processes until the last RELEASE here.
 */
#define FS_OUT_BLOCK (256u << 10)
#define FS_OUT_GRAIN (32u << 10) /* in multiples of it, whole files of up to 64 GiB */
#define FS_OUT_HANDLES (1u << 20)
#define FS_OUT_BLOCKS (1u << 21) /* of a file; a longer one is EFBIG */
struct fs_held {
  uint64_t id, version, size;
  int64_t mtime, ctime;
  uint32_t mtime_ns, ctime_ns;
  uint32_t mode;
  uint32_t handle;
  uint64_t own;      /* bytes of home's spill, by which blocks are counted; `size` is that of the whole */
  uint32_t parts;    /* not 0: some are elsewhere */
  uint16_t tight;    /* not 0: home has little room left */
  uint16_t nameless; /* not 0: it was removed, or replaced */
  uint64_t list;     /* number of the list of parts, another one after each change; not 0 */
};
static_assert(sizeof(struct fs_held) == 80, "fs_held is 80 bytes");

#define FS_RELAY_APPEND 1u
#define FS_SYNC_CUT 1u
#define FS_SYNC_SEEK 2u
#define FS_SYNC_WRITE 4u /* the program is told, and goes on: nobody else needs to be; of no relay nothing is done */
#define FS_SYNC_LOOK 8u  /* attributes are of concern: of no relay only what changed since it was published is */
#define FS_SYNC_ALL 15u
struct fs_relayed {
  uint64_t file, dir; /* that it stands for; where that was seen last, or 0 */
  uint64_t append;    /* not 0: what is written to it is appended there */
};
#define FS_APPEND_MAX (1u << 20)
#define FS_APPEND_DATA 16000u
#define FS_APPEND_UNKNOWN UINT64_MAX /* the offset of a call that was made before */
struct fs_appended {
  uint64_t off;
  uint32_t tight; /* as in fs_held */
  uint32_t home;  /* the rank that has done it */
};
/*
 * What a home has appended and is not published yet: up to where, in bits from FS_APPENDED_RANK on, and its rank + 1.
 * Of a home that goes before it is published the next one may lack it. What the first home has done counts.
 */
#define FS_APPENDED_RANK 16
static inline uint64_t fs_appended_more(uint64_t was, const struct fs_appended *at, uint64_t n) {
  uint64_t end = FS_MIN(at->off, FS_RECORD_SEQ_MAX - n) + n, rank = at->home + 1ull;
  if (was != 0 && (was & ((1u << FS_APPENDED_RANK) - 1)) != rank) return was;
  return FS_MAX(was >> FS_APPENDED_RANK, end) << FS_APPENDED_RANK | rank;
}
static inline void fs_appended_say(struct fs_names_call *c, uint64_t appended) {
  c->seq = appended >> FS_APPENDED_RANK;
  c->blocks = (uint32_t)(appended & ((1u << FS_APPENDED_RANK) - 1));
}
struct fs_range {
  uint64_t off, len; /* len > 0 */
};
struct fs_listed {
  uint64_t list, end; /* its number, as in struct fs_held; where its last bytes end */
};
struct fs_out_extent {
  uint64_t off, len;
  uint64_t part; /* id of the spill that has them, at the same offset */
};

/* Changes of the list of extents, from number `at` of `total` on, followed by struct fs_out_extent[]: with part 0 and
   no length the list ends at off. */
struct fs_replica_list {
  uint32_t at, total;
  uint32_t all; /* not 0: they are the whole list */
  uint32_t unused;
};
static_assert(sizeof(struct fs_replica_list) == 16, "fs_replica_list is 16 bytes");

static inline const char *fs_call_name(const struct fs_names_call *c) {
  return (const char *)(c + 1);
}
static inline const char *fs_call_name2(const struct fs_names_call *c) {
  return (const char *)(c + 1) + c->name_len;
}
static inline size_t fs_call_size(const struct fs_names_call *c) {
  return fs_round_up(sizeof(*c) + c->name_len + c->name2_len, 8);
}

/* ---- the table of operations ---- */

/* Whom a call is asked of. */
enum fs_scope {
  FS_SCOPE_NONE,      /* there is no such operation */
  FS_SCOPE_DIRECTORY, /* the owner of a directory's records */
  FS_SCOPE_MIRROR,    /* the mirror of that directory, by its owner */
  FS_SCOPE_FILE,      /* the home of a file */
  FS_SCOPE_RECORD,    /* of a file its home, of a directory or a symlink the owner of the directory that it is in */
  FS_SCOPE_BYTES,     /* the node that has the bytes of a file: its home, or one that has a part or a replica */
  FS_SCOPE_PARTNER,   /* the partner of a file's home, by that home */
  FS_SCOPE_RANK,      /* any daemon */
  FS_SCOPE_NODE,      /* the daemon of the client's own node, and no other one */
};

/* One operation: what is true of all its calls. Offsets are those of fields of struct fs_names_call, or 0. */
struct fs_op {
  const char *name;
  enum fs_scope scope;
  bool client;    /* a client may make the call */
  bool changes;   /* the call changes names: EROFS where outputs are read-only */
  bool not_twice; /* A child that does not know what has become of its parent's call may not make it once more. */
  bool not_later; /* The call is sent once: one that comes later could undo what was done after it. */
  uint8_t dir;    /* the directory whose owner is asked */
  uint8_t id;     /* the record that the call is about */
  uint8_t call;   /* the call's own id, by which it is done once: the daemon of the client sets it */
  uint8_t bytes;  /* how many bytes must be with another node before the answer comes, where files have replicas */
  uint32_t flags; /* all that the operation has */
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
/* The directory whose owner is asked, and the record that the call is about; only where the operation has them. */
static inline uint64_t fs_call_dir(const struct fs_names_call *c) {
  return *fs_call_at((struct fs_names_call *)c, fs_call_op(c)->dir);
}
static inline uint64_t fs_call_id(const struct fs_names_call *c) {
  return *fs_call_at((struct fs_names_call *)c, fs_call_op(c)->id);
}
/* The scope, of RECORD either FILE or DIRECTORY. */
static inline enum fs_scope fs_call_scope(const struct fs_names_call *c) {
  enum fs_scope scope = fs_call_op(c)->scope;
  return scope != FS_SCOPE_RECORD ? scope : S_ISREG(c->mode) ? FS_SCOPE_FILE : FS_SCOPE_DIRECTORY;
}

/* True if the answer has to wait until bytes of a file are with another node, where files have replicas; and how many.
 */
static inline bool fs_call_bytes(const struct fs_names_call *c, uint64_t *bytes) {
  const struct fs_op *op = fs_call_op(c);
  if (op->bytes == 0 || (op->scope == FS_SCOPE_RECORD && fs_call_scope(c) != FS_SCOPE_FILE)) return false;
  *bytes = *fs_call_at((struct fs_names_call *)c, op->bytes);
  return true;
}

/* Puts the tails behind a call, where there is room for them, and zeros up to a multiple of 8 bytes. Returns its size.
 */
size_t fs_call_put(struct fs_names_call *c, const void *tail, size_t n, const void *tail2, size_t n2);
/* True for a whole call, with all that its operation needs, in n bytes. Its records are checked as they are taken. */
bool fs_call_ok(const void *body, size_t n);

#endif
