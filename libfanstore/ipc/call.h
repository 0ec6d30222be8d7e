/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls about output files, as clients and daemons make them of each other, and their answers. A
 * call is a header (struct fs_names_call), in a call slot of a channel (ipc/layout.h) or behind a struct
 * fs_wire_names (ipc/wire.h), then its tails. Little-endian, no pointers, FS_NAMES_BODY bytes at
 * most. Whoever receives one checks it by fs_call_ok before use. docs/internals/metadata.md is the
 * protocol; CONTRIBUTING.md says how to add an operation.
 *
 * What follows is, for each operation: what it does, its answer, its errors; then its fields and
 * flags. Errors that all have: EINVAL for a call that fails the check; ETIMEDOUT or EHOSTDOWN with
 * the rank (32 bits) that does not answer; ENOMEM; between daemons also EAGAIN, and ESTALE with the
 * members: the caller asks again.
 */
#ifndef FS_IPC_CALL_H
#define FS_IPC_CALL_H

#include <assert.h>
#include <sys/stat.h>

#include "ipc/record.h"

/* The numbers have no order. */
enum fs_names_op {
  FS_NAMES_LOOKUP = 1,
  FS_NAMES_CREATE,
  FS_NAMES_PUBLISH,
  FS_NAMES_REMOVE,
  FS_NAMES_RENAME,
  FS_NAMES_LIST,
  FS_NAMES_SETATTR,
  FS_NAMES_TIMES,
  FS_NAMES_OPEN,
  FS_NAMES_CLOSE,
  FS_NAMES_EXTEND,
  FS_NAMES_EXTENTS,
  FS_NAMES_APPEND,
  FS_NAMES_OWN,
  FS_NAMES_FORWARD,
  FS_NAMES_SYNC,
  FS_NAMES_OFFER,
  FS_NAMES_FIND,
  FS_NAMES_NODE_LOCAL,
  FS_NAMES_TAKE,
  FS_NAMES_TAKEN,
  FS_NAMES_ARRIVED,
  FS_NAMES_SHUT,
  FS_NAMES_UNSHUT,
  FS_NAMES_FORGET,
  FS_NAMES_ABOVE,
  FS_NAMES_BACKUP,
  FS_NAMES_MARK,
  FS_NAMES_TREE,
  FS_NAMES_MAPS,
  FS_NAMES_DROP,
  FS_NAMES_PING,
  FS_NAMES_SUSPECT,
  FS_NAMES_SET,
  FS_NAMES_WHERE,
  FS_NAMES_REPLICA,
  FS_NAMES_OPS
};

/* Operations that say no more than a directory, or a record. */
struct fs_call_directory {
  uint64_t dir;
};
struct fs_call_record {
  uint64_t id;
};

/* ---- names, at the owner of their directory ---- */

/* LOOKUP finds a name, the tail; or, without a name, a record of the directory by its id. The
   answer is the record. ENOENT. EREMCHG, by id: the answer is the id of the directory that the
   record has moved to (64 bits). */
enum fs_lookup_flags {
  FS_LOOKUP_UNPUBLISHED = 1, /* Files count before they are published: the name is to be written. */
};
struct fs_call_lookup {
  uint64_t dir;
  uint64_t id;
};

/* CREATE makes a record. The tails are its name and, of a symlink, its target. The answer is the
   record. EEXIST with the record that has the name; ENOENT: the directory was removed; ENOSPC:
   names take all the memory that they may. */
enum fs_create_flags {
  FS_CREATE_STAGED_IN = 1, /* by a daemon: the record is FS_RECORD_STAGED_IN, and published */
};
struct fs_call_create {
  uint64_t dir;
  uint64_t id;       /* of the new record, and of this call */
  uint64_t size;     /* of a file of --stage-in's */
  int64_t mtime;     /* in s; also the ctime */
  uint32_t mtime_ns; /* the rest of it */
  uint32_t mode;     /* with the type */
};

/* PUBLISH makes a file's record what its backing file is now. The answer is the record. ENOENT and
   EREMCHG as of LOOKUP; EIO: the file has another home. */
enum fs_publish_flags {
  FS_PUBLISH_SHARED = 1,    /* not all bytes are in home's backing file */
  FS_PUBLISH_STAGED_IN = 2, /* by a daemon: the file is still as --stage-in has found it */
  FS_PUBLISH_DURABLE = 4,   /* The program waits until the file is on disk, as its replica. */
  FS_PUBLISH_LATER = 8,     /* by the owner itself: nobody waits for the answer */
};
struct fs_call_publish {
  uint64_t dir;
  uint64_t id;
  uint64_t number; /* Of two publications the greater is the newer; 0: this one is. */
  uint64_t size;
  int64_t mtime;     /* in s */
  uint64_t ctime;    /* in ns since 1970; 0: the mtime */
  uint32_t mtime_ns; /* the rest of the mtime */
  uint32_t mode;
};

/* REMOVE removes a name, the tail. The answer is the id of the file that had it (64 bits), or
   nothing. ENOENT, EISDIR, ENOTDIR, ENOTEMPTY. */
enum fs_remove_flags {
  FS_REMOVE_DIRECTORY = 1, /* rmdir; else unlink */
};
struct fs_call_remove {
  uint64_t dir;
  uint64_t call; /* the id of this call */
};

/* RENAME gives the first name, in `dir`, the second name, in `to`; its owner does it. The answer is
   the id of the file that was replaced, or 0, then the record unless that is a symlink; it is empty
   if it was done before. ENOENT, EEXIST, EISDIR, ENOTDIR, ENOTEMPTY; EINVAL: a directory into
   itself; ENOSPC as of CREATE. */
enum fs_rename_flags {
  FS_RENAME_NOREPLACE = 1, /* EEXIST if the second name is there */
};
struct fs_call_rename {
  uint64_t dir;
  uint64_t to;
  uint64_t call; /* the id of this call */
};

/* LIST lists a directory in its order. The answer is as many records as fit, or none at the end. */
struct fs_call_list {
  uint64_t dir;
  uint64_t after; /* the `seq` of the last record that the caller has; 0: none */
};

/* SETATTR changes attributes: of a file at its home, of others at the owner of their directory. The
   answer is the record as it is then; nothing, of a file that is not published. ENOENT and EREMCHG
   as of LOOKUP; EINVAL: it is of another type; EDQUOT. */
enum fs_set { FS_SET_MODE = 1, FS_SET_TIMES = 2, FS_SET_SIZE = 4, FS_SET_ALL = 7 };
struct fs_call_setattr {
  uint64_t dir; /* that the record is in */
  uint64_t id;
  uint64_t call;     /* the id of this call */
  uint64_t size;     /* of SET_SIZE, of a file */
  uint64_t changed;  /* of SET_TIMES, of a directory: its last change, as TIMES has said; the times
                        hold until the next */
  int64_t mtime;     /* of SET_TIMES, in s */
  uint32_t mtime_ns; /* the rest of it */
  uint32_t mode;     /* the type of the record; and the permissions, of SET_MODE */
};

/* TIMES (struct fs_call_directory) asks when names in a directory were changed last. Its answer: */
struct fs_dir_times {
  uint64_t changed; /* when they were changed last, in ns since 1970; 0: never */
  uint64_t subdirs; /* how many of them are directories */
};
static_assert(sizeof(struct fs_dir_times) == 16, "fs_dir_times is 16 bytes");

/* ---- bytes of a file, at its home ---- */

/*
 * OPEN (struct fs_call_record) opens a file of another node, or of several writers. Home keeps its
 * bytes until CLOSE. ENOENT, EIO: its bytes are lost, EFBIG, EMFILE. The answer is what the file
 * is now. Its bytes come by requests for FS_OUTPUT_KEY(snapshot, block): of `own` bytes each block but
 * the last has FS_OUTPUT_BLOCK, fewer when the file has become shorter since; or for FS_OUTPUT_GRAIN_KEY,
 * where less of a block than half is wanted.
 */
#define FS_OUTPUT_BLOCK (256u << 10)
#define FS_OUTPUT_GRAIN (32u << 10) /* in multiples of it, whole files of up to 64 GiB */
#define FS_OUTPUT_SNAPSHOTS (1u << 20)
#define FS_OUTPUT_BLOCKS (1u << 21) /* of a file; a longer one is EFBIG */
struct fs_opened {
  uint64_t id, version, size;
  int64_t mtime, ctime;
  uint32_t mtime_ns, ctime_ns;
  uint32_t mode;
  uint32_t snapshot; /* this node's number for these contents, for all its processes until the last
                      CLOSE; not 0 */
  uint64_t own;      /* bytes of home's backing file, which has the blocks; `size` is of the whole */
  uint32_t segments; /* not 0: some are elsewhere */
  uint16_t tight;    /* not 0: home has little room left */
  uint16_t nameless; /* not 0: it was removed, or replaced */
  uint64_t list;     /* number of the extent map, another one after each change; not 0 */
};
static_assert(sizeof(struct fs_opened) == 80, "fs_opened is 80 bytes");

/* CLOSE ends one OPEN of a client; of a node, all of them. No answer. ENOENT. */
struct fs_call_close {
  uint64_t id;
  uint32_t snapshot; /* that OPEN gave; 0: whichever */
};

/* EXTEND says that ranges of a file (the tail, struct fs_range[]) are in a part of it, and
   publishes the file; also without any. The answer is a struct fs_appended with an offset of 0.
   ENOENT; EIO: home has not got what the caller has appended. */
enum fs_extend_flags {
  FS_EXTEND_DURABLE = 1, /* as of PUBLISH */
};
struct fs_call_extend {
  uint64_t id;
  uint64_t segment;       /* the id of the segment, which the caller's node has */
  uint64_t bytes;         /* in all ranges */
  uint64_t appended;      /* up to there the caller has appended, */
  uint32_t appended_home; /* and this rank, minus 1, has taken it; 0: nothing was appended */
};
struct fs_range {
  uint64_t off, len; /* len > 0 */
};

/* EXTENTS asks which bytes of a file are in segments. The answer is a struct fs_extent_map_head, then struct
   fs_output_extent[], in order, as many as fit. ENOENT, EIO. */
struct fs_call_extents {
  uint64_t id;
  uint64_t off; /* from there on */
};
struct fs_extent_map_head {
  uint64_t list, end; /* its number, as in struct fs_opened; where its last bytes end */
};
struct fs_output_extent {
  uint64_t off, len;
  uint64_t segment; /* id of the backing file that has them, at the same offset */
};

/* APPEND adds bytes, the tail, to the end of home's backing file; or, without a tail, zeros that
   are the caller's to overwrite. The answer is a struct fs_appended. ENOENT, EIO, EDQUOT, ENOSPC.
 */
#define FS_APPEND_MAX (1u << 20) /* zeros */
#define FS_APPEND_DATA 16000u    /* bytes */
struct fs_call_append {
  uint64_t id;
  uint64_t call;  /* the id of this call */
  uint64_t bytes; /* how many: not 0 */
};
#define FS_APPEND_UNKNOWN UINT64_MAX /* the offset of a call that was made before */
struct fs_appended {
  uint64_t off;
  uint32_t tight; /* as in fs_opened */
  uint32_t home;  /* the rank that has done it */
};

/* OWN makes the backing file of a file of --stage-in's a file of its own, before the file is
   changed. The answer is empty. EINPROGRESS with the bytes that were copied so far (64 bits): the
   caller asks again. */
enum fs_own_flags {
  FS_OWN_EMPTY = 1, /* The program truncates the file: nothing is copied. */
};
struct fs_call_own {
  uint64_t id;
};

/* ---- of a client, at its own daemon ---- */

/* FORWARD: a backing file of this node, which has no name, stands for a file of another node: what programs
   write to it is that file's. No answer. EINVAL, ENFILE. */
enum fs_forwarder_flags {
  FS_FORWARDER_APPEND = 1, /* What they write is appended. */
};
struct fs_call_forwarder {
  uint64_t id;
  uint64_t file; /* that it stands for */
  uint64_t dir;  /* where that was seen last, or 0 */
  uint64_t off;  /* where it is written from */
};

/* SYNC waits until what was written to a backing file is published. The answer is a struct fs_forwarded if
   that is a forwarder, else nothing. EAGAIN: it takes longer, the caller asks again. ESPIPE: a forwarder
   cannot be moved there. */
enum fs_sync_flags {
  FS_SYNC_CUT = 1,   /* Then the file is made `size` bytes long. */
  FS_SYNC_SEEK = 2,  /* Then the forwarder is written from `size` on. */
  FS_SYNC_WRITE = 4, /* The program is told, and goes on: nobody else needs to be. Of no forwarder
                        nothing is done. */
  FS_SYNC_LOOK = 8,  /* For attributes: of no forwarder only what has changed is published. */
  FS_SYNC_ALL = 15,
};
struct fs_call_sync {
  uint64_t id;
  uint64_t upto; /* the first so many bytes */
  uint64_t size;
};
struct fs_forwarded {
  uint64_t file, dir; /* that it stands for; where that was seen last, or 0 */
  uint64_t append;    /* not 0: what is written to it is appended there */
};

/* OFFER makes a backing file this node's segment of a file, if the node has none yet. The answer is the id of
   the node's segment, or 0 (64 bits). EINVAL: that backing file is something else. */
struct fs_call_offer {
  uint64_t file;
  uint64_t segment; /* the backing file; 0: only asks */
};

/* FIND (struct fs_call_record) finds the record of a directory, whichever directory that is in. The
   answer is the record. ENOENT. */

/* NODE_LOCAL (struct fs_call_directory): the client is about to make names of its node in a
   directory. No answer. Its flag is FS_NL_SHADOWS. */

/* ---- between the owners of two directories ---- */

/* TAKE: a record, by its name, the tail, is held for a rename to another directory. The answer is
   the record. ENOENT; EAGAIN while another call holds it. */
struct fs_call_take {
  uint64_t dir;
  uint64_t to;     /* the other directory, whose owner asks */
  uint64_t call;   /* the rename */
  uint32_t caller; /* the rank whose client renames it: it sees its own files before they are
                      published */
};

/* TAKEN: by that rename the record has moved away. No answer. */
enum fs_taken_flags {
  FS_TAKEN_KEEP = 1, /* It has not: it is held no more, and stays. */
};
struct fs_call_taken {
  uint64_t dir;
  uint64_t id;
  uint64_t to;
  uint64_t call;
};

/* ARRIVED: has the record come to this directory, or was the rename done? No answer. ENOENT: no. */
struct fs_call_arrived {
  uint64_t dir;
  uint64_t id;
  uint64_t call;
};

/* CLOSE, OPEN, FORGET (struct fs_call_directory): a directory that is about to be removed takes no
   names for a while, does again, was removed. No answer. CLOSE: ENOTEMPTY. */

/* ABOVE finds a record by its id, as LOOKUP does. EBUSY with the id of the call that is about to
 * rename or remove it.
 */

/* BACKUP tells the backup of a directory what has changed. The tail is records to put. No answer.
 */
enum fs_backup_flags {
  FS_BACKUP_HELD = 1,     /* Record `id` is held for directory `to` and the rename `call`. */
  FS_BACKUP_KEEP = 2,     /* Record `id` is held no more. */
  FS_BACKUP_SHUT = 4,     /* The directory takes no names for a while; */
  FS_BACKUP_OPENED = 8,   /* it does; */
  FS_BACKUP_REMOVED = 16, /* it never will. */
  FS_BACKUP_LATER = 32,   /* Nobody waits for the answer. */
  FS_BACKUP_ALL = 63,
};
struct fs_call_backup {
  uint64_t dir;
  uint64_t id;       /* a record to drop, or 0 */
  uint64_t to;       /* the directory that it went to, or 0 */
  uint64_t call;     /* the call that did it, or 0 */
  uint64_t changed;  /* when names in the directory were changed last, in ns */
  uint64_t question; /* The backup answers this question of the rank `asker`, with the first record;
                        0: it does not. */
  uint32_t asker;
};

/* ---- of any daemon ---- */

/* MARK: directories of this bit (fs_mark_bit) may have outputs. No answer. */
struct fs_call_mark {
  uint32_t bit;
};

/* TREE: the tree of directories has changed. LISTS: an extent map has; no program is to use one
   that it has. PING: is it there? Without fields or answers. */

/* DROP (struct fs_call_record): a file has no name any more. No answer. */
enum fs_drop_flags {
  FS_DROP_AWAIT = 1, /* Home answers when the backing file is gone, or at once if it stays. */
};

/* SUSPECT: a rank does not answer the caller. No answer. */
struct fs_call_suspect {
  uint32_t rank;
};

/* SET tells the members: the tail is a bit for each rank. No answer. */
struct fs_call_set {
  uint64_t number; /* A greater one is newer. */
};

/* WHERE (struct fs_call_record): the id of the directory that a record is in (64 bits), if this
 * rank keeps it. ENOENT.
 */
enum fs_where_flags {
  FS_WHERE_SEEN = 1, /* Else where it was seen last. */
};

/* REPLICA: of a generation of a file's replica so many blocks were sent (ipc/wire.h); all is here.
   The tails are one more block (struct fs_wire_replica, bytes) or nothing; and of a file of several
   writers what has changed in its extent map. No answer. EILSEQ: not all is here. EAGAIN: it is
   not written yet. */
enum fs_replica_flags {
  FS_REPLICA_DURABLE = 1, /* as of PUBLISH */
  FS_REPLICA_SEGMENT = 2, /* This is a segment of another file. */
  FS_REPLICA_MORE = 4,    /* More of the list follows; all is not here yet. */
};
struct fs_call_replica {
  uint64_t id;
  uint64_t dir;    /* of its record; 0: of a segment */
  uint64_t number; /* of its next publication */
  uint64_t size;
  int64_t mtime;     /* in s */
  uint32_t mtime_ns; /* the rest of it */
  uint32_t mode;
  uint32_t generation;
  uint32_t blocks; /* of this generation */
  uint32_t sent;   /* blocks that home has sent by then, of all its files */
};
/* Changes of the extent map, from number `at` of `total` on, followed by struct fs_output_extent[]:
   with segment 0 and no length the list ends at off. */
struct fs_replica_list {
  uint32_t at, total;
  uint32_t all; /* not 0: they are the whole list */
  uint32_t unused;
};
static_assert(sizeof(struct fs_replica_list) == 16, "fs_replica_list is 16 bytes");

/* ---- a call ---- */

/* Followed by its tails, then by zeros to a multiple of 8 bytes. */
struct fs_names_call {
  uint32_t op;    /* enum fs_names_op */
  uint32_t flags; /* the operation's own */
  uint16_t tail_len, tail2_len;
  uint32_t unused;
  union {
    struct fs_call_lookup lookup, above;
    struct fs_call_create create;
    struct fs_call_publish publish;
    struct fs_call_remove remove;
    struct fs_call_rename rename;
    struct fs_call_list list;
    struct fs_call_setattr setattr;
    struct fs_call_close release;
    struct fs_call_extend extend;
    struct fs_call_extents extents;
    struct fs_call_append append;
    struct fs_call_own own;
    struct fs_call_forwarder forwarder;
    struct fs_call_sync sync;
    struct fs_call_offer offer;
    struct fs_call_take take;
    struct fs_call_taken taken;
    struct fs_call_arrived arrived;
    struct fs_call_backup backup;
    struct fs_call_mark mark;
    struct fs_call_suspect suspect;
    struct fs_call_set set;
    struct fs_call_replica replica;
    struct fs_call_directory times, node_local, close, open, forget;
    struct fs_call_record hold, find, drop, where;
  };
};
static_assert(sizeof(struct fs_names_call) == 80, "fs_names_call is 80 bytes");

static inline const char *fs_call_tail(const struct fs_names_call *c) {
  return (const char *)(c + 1);
}
static inline const char *fs_call_tail2(const struct fs_names_call *c) {
  return (const char *)(c + 1) + c->tail_len;
}
static inline size_t fs_call_size(const struct fs_names_call *c) {
  return fs_round_up(sizeof(*c) + c->tail_len + c->tail2_len, 8);
}

/*
 * What a home has appended and is not published yet: up to where, in bits from FS_APPENDED_RANK on,
 * and its rank + 1. Of a home that goes before it is published the next one may lack it. What the
 * first home has done counts.
 */
#define FS_APPENDED_RANK 16
static inline uint64_t fs_appended_more(uint64_t was, const struct fs_appended *at, uint64_t n) {
  uint64_t end = FS_MIN(at->off, FS_RECORD_SEQ_MAX - n) + n, rank = at->home + 1ull;
  if (was != 0 && (was & ((1u << FS_APPENDED_RANK) - 1)) != rank) return was;
  return FS_MAX(was >> FS_APPENDED_RANK, end) << FS_APPENDED_RANK | rank;
}
static inline void fs_appended_say(struct fs_call_extend *c, uint64_t appended) {
  c->appended = appended >> FS_APPENDED_RANK;
  c->appended_home = (uint32_t)(appended & ((1u << FS_APPENDED_RANK) - 1));
}

#endif
