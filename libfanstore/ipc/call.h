/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls about output files and their answers. Clients call daemons, and daemons call each other. A
 * call is a header (struct fs_names_call), then its tails, at most FS_NAMES_BODY bytes,
 * little-endian, without pointers. A call is in a call slot of a channel (ipc/layout.h) or behind a
 * struct fs_wire_names (ipc/wire.h). The receiver checks each call by fs_call_ok before use.
 * docs/internals/metadata.md is the protocol. CONTRIBUTING.md explains how to add an operation.
 *
 * Each operation below has a comment with its effect, answer and errors, then its fields and flags.
 * All calls can fail with: EINVAL if the check fails; ETIMEDOUT or EHOSTDOWN, with the rank (32
 * bits) that does not answer; ENOMEM. Between daemons also EAGAIN, and ESTALE with the members: the
 * caller retries.
 */
#ifndef FS_IPC_CALL_H
#define FS_IPC_CALL_H

#include <assert.h>

#include "ipc/append.h"
#include "ipc/lock.h"
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
  FS_NAMES_RECALL,
  FS_NAMES_TREE,
  FS_NAMES_MAPS,
  FS_NAMES_DROP,
  FS_NAMES_PING,
  FS_NAMES_SUSPECT,
  FS_NAMES_SET,
  FS_NAMES_WHERE,
  FS_NAMES_REPLICA,
  FS_NAMES_LOCK,
  FS_NAMES_OPS
};

/* The fields of operations that name only a directory, or only a record. */
struct fs_call_directory {
  uint64_t dir;
};
struct fs_call_record {
  uint64_t id;
};

/* ---- names, at the primary of their directory ---- */

/* LOOKUP finds the name in the tail or, without a tail, the directory's record with this id. The
   answer is the record. ENOENT. EREMCHG, by id only: the record has moved; the answer is the id of
   its new directory (64 bits). */
enum fs_lookup_flags {
  FS_LOOKUP_BORROW = 1, /* By a daemon, with a name: the answer, also ENOENT, begins with a struct
                           fs_lent; behind the record are as many records as are lent. */
};
struct fs_lent {
  uint64_t set, changed; /* the members' number for the lender; as from TIMES */
  uint32_t lender;       /* rank */
  uint32_t lent;         /* enum fs_lent_part */
};
enum fs_lent_part { FS_LENT_NONE, FS_LENT_SOME, FS_LENT_ALL };

struct fs_call_lookup {
  uint64_t dir;
  uint64_t id;
};

/* CREATE makes a record. The tails are the name and, for a symlink, the target. The answer is the
   record. EEXIST with the record that has the name; ENOENT: the directory was removed; ENOSPC:
   names use all the memory that they may. */
enum fs_create_flags {
  FS_CREATE_STAGED_IN = 1, /* by a daemon: the record is FS_RECORD_STAGED_IN and published */
  FS_CREATE_TAKES = 2,     /* The dataset has the name; a whiteout is replaced. */
  FS_CREATE_COPY = 4,      /* with TAKES: EEXIST if the name was taken before, also for a whiteout */
};
struct fs_call_create {
  uint64_t dir;
  uint64_t id;       /* id of the new record and of this call */
  uint64_t size;     /* of a file from --stage-in */
  int64_t mtime;     /* in s; also the ctime */
  uint32_t mtime_ns; /* the rest of it */
  uint32_t mode;     /* with the type */
};

/* PUBLISH updates a file's record from its backing file. The answer is the record. ENOENT and
   EREMCHG as for LOOKUP; EIO: the file has another home. */
enum fs_publish_flags {
  FS_PUBLISH_SHARED = 1,    /* the home's backing file does not have all bytes */
  FS_PUBLISH_STAGED_IN = 2, /* by a daemon: unchanged since --stage-in */
  FS_PUBLISH_DURABLE = 4,   /* The program waits until file and replica are on disk, and for the backup. */
};
struct fs_call_publish {
  uint64_t dir;
  uint64_t id;
  uint64_t number; /* a newer publication has a greater number; 0: newest */
  uint64_t size;
  int64_t mtime;     /* in s */
  uint64_t ctime;    /* in ns since 1970; 0: the same as the mtime */
  uint32_t mtime_ns; /* the rest of the mtime */
  uint32_t mode;
};

/* REMOVE removes the name in the tail. The answer is the id of the removed file (64 bits), or empty
   if no file was removed. ENOENT, EISDIR, ENOTDIR, ENOTEMPTY. */
enum fs_remove_flags {
  FS_REMOVE_DIRECTORY = 1, /* rmdir; else unlink */
  FS_REMOVE_TAKES = 2,     /* The dataset has a file of this name: leave a whiteout. */
};
struct fs_call_remove {
  uint64_t dir;
  uint64_t call; /* the id of this call */
};

/* RENAME changes the first name, in `dir`, to the second name, in `to`. The primary of `to` does
   it. The answer is the id of the replaced file, or 0, then the record unless it is a symlink. The
   answer is empty if this call was done before. ENOENT, EEXIST, EISDIR, ENOTDIR, ENOTEMPTY; EINVAL:
   a directory cannot move into itself; ENOSPC as for CREATE. */
enum fs_rename_flags {
  FS_RENAME_NOREPLACE = 1, /* fail with EEXIST if the second name exists */
  FS_RENAME_TAKES = 2,     /* The dataset has a file of the second name. */
};
struct fs_call_rename {
  uint64_t dir;
  uint64_t to;
  uint64_t call; /* the id of this call */
};

/* LIST lists a directory in its order. The answer is as many names (struct fs_listed) as fit in
   `most` bytes. If the longest name would have fitted behind them, they are the last ones. */
struct fs_call_list {
  uint64_t dir;
  uint64_t after; /* the `seq` of the last name that the caller has; 0: none */
  uint64_t most;  /* FS_LISTED_MOST to FS_NAMES_BODY */
};

/* SETATTR changes attributes: of a file at its home, of others at the primary of their directory.
   The answer is the new record; for a removed file it is empty. Without flags, the home publishes
   the file as it is. ENOENT and EREMCHG as for LOOKUP; EINVAL: the record has another
   type; EDQUOT. */
enum fs_set { FS_SET_MODE = 1, FS_SET_TIMES = 2, FS_SET_SIZE = 4, FS_SET_ALL = 7 };
struct fs_call_setattr {
  uint64_t dir; /* the directory of the record */
  uint64_t id;
  uint64_t call;     /* the id of this call */
  uint64_t size;     /* for SET_SIZE, of a file */
  uint64_t changed;  /* for SET_TIMES of a directory: its last change, from TIMES; the times hold
                        until the next change */
  int64_t mtime;     /* for SET_TIMES, in s */
  uint32_t mtime_ns; /* the rest of it */
  uint32_t mode;     /* type of the record; for SET_MODE also the permissions */
};

/* TIMES (struct fs_call_directory) asks when names in a directory changed last. */
enum fs_times_flags { FS_TIMES_SYNC = 1 }; /* answered when the backup has all changes */
struct fs_dir_times {
  uint64_t changed; /* last change in ns since 1970; 0: never */
  uint64_t subdirs; /* number of its output directories */
};
static_assert(sizeof(struct fs_dir_times) == 16, "fs_dir_times is 16 bytes");

/* ---- bytes of a file, at its home ---- */

/*
 * OPEN (struct fs_call_record) opens a file of another node, or of several writers. The home keeps
 * the file's bytes until CLOSE. ENOENT; EIO: the bytes are lost; EFBIG; EMFILE. The answer
 * describes the file now. The client requests the bytes by FS_OUTPUT_KEY(snapshot, block): each
 * block but the last of `own` bytes has FS_OUTPUT_BLOCK, fewer if the file has become shorter. If
 * less than half of a block is wanted, the client uses FS_OUTPUT_GRAIN_KEY. With FS_OPEN_BYTES a home
 * on another node may add all bytes of a small file to its answer to the client's daemon.
 */
enum fs_open_flags {
  FS_OPEN_BYTES = 1, /* the caller will read */
};
#define FS_OUTPUT_BLOCK (256u << 10)
#define FS_OUTPUT_GRAIN (32u << 10) /* unit for files of up to 64 GiB */
#define FS_OUTPUT_SNAPSHOTS (1u << 20)
#define FS_OUTPUT_BLOCKS (1u << 21) /* of a file; EFBIG beyond */
struct fs_opened {
  uint64_t id, version, size;
  int64_t mtime, ctime;
  uint32_t mtime_ns, ctime_ns;
  uint32_t mode;
  uint32_t snapshot; /* number of these contents on this node, for all its processes until the last
                        CLOSE; not 0 */
  uint64_t own;      /* size of the home's backing file, which has the blocks; `size` is the whole
                        file's */
  uint32_t segments; /* not 0: other nodes have segments */
  uint32_t nameless; /* not 0: the file was removed or replaced */
  uint64_t list;     /* version of the extent map, new after each change; not 0 */
};
static_assert(sizeof(struct fs_opened) == 80, "fs_opened is 80 bytes");
#define FS_OPEN_BYTES_MOST (FS_NAMES_BODY - sizeof(struct fs_opened)) /* of a small file, at most */

/* CLOSE ends one OPEN of a client, or all OPENs of a node. No answer. ENOENT. */
struct fs_call_close {
  uint64_t id;
  uint32_t snapshot; /* from OPEN; 0: all OPENs of the node */
};

/* EXTEND adds ranges (the tail, struct fs_range[], may be empty) of a segment to the extent map and
   publishes the file. No answer. ENOENT; EIO: the home does not have what the caller appended. */
enum fs_extend_flags {
  FS_EXTEND_DURABLE = 1, /* as for PUBLISH */
  FS_EXTEND_OPEN = 2,    /* No program has closed or synced the file: stage-out does not hear of it. */
};
struct fs_call_extend {
  uint64_t id;
  uint64_t segment;       /* id of the segment, on the caller's node */
  uint64_t bytes;         /* in all ranges */
  uint64_t appended;      /* end of what the caller appended */
  uint32_t appended_home; /* rank + 1 of the home that took it; 0: nothing was appended */
  uint32_t written;       /* from a client without a tail: number + 1 of its struct fs_written, whose
                             ranges are meant; else 0 */
};
struct fs_range {
  uint64_t off, len; /* len > 0 */
};

/* EXTENTS asks which bytes of a file are in segments. The answer is a struct fs_extent_map_head,
   then as many struct fs_output_extent as fit, in order. ENOENT, EIO. */
struct fs_call_extents {
  uint64_t id;
  uint64_t off; /* list from this offset on */
};
struct fs_extent_map_head {
  uint64_t list, end; /* version as in struct fs_opened; end of the last extent */
};
struct fs_output_extent {
  uint64_t off, len;
  uint64_t segment; /* id of the backing file with the bytes, at the same offset */
};

/* APPEND adds bytes to a file of the home. ipc/append.h has its fields and flags. */

/* OWN makes a private copy of the backing file of a --stage-in file, before a change. The answer is
   empty. EINPROGRESS with the number of bytes copied so far (64 bits): the caller retries. */
enum fs_own_flags {
  FS_OWN_EMPTY = 1, /* The program truncates the file: copy nothing. */
};
struct fs_call_own {
  uint64_t id;
};

/* LOCK sets, tests or ends locks of a file. ipc/lock.h has its fields and flags. */

/* ---- from a client to its own daemon ---- */

/* FORWARD makes an unnamed backing file of this node stand for a file of another node: what
   programs write to the forwarder goes to that file. No answer. EINVAL, ENFILE. */
enum fs_forwarder_flags {
  FS_FORWARDER_APPEND = 1, /* Append what programs write. */
};
struct fs_call_forwarder {
  uint64_t id;
  uint64_t file; /* the file that it stands for */
  uint64_t dir;  /* directory where the file was last seen, or 0 */
  uint64_t off;  /* offset of the first byte that is written */
};

/* SYNC waits until what was written to a backing file is published. For a forwarder the answer is a
   struct fs_forwarded, else it is empty. EAGAIN: not done yet, the caller retries. ESPIPE: the
   forwarder cannot seek there. */
enum fs_sync_flags {
  FS_SYNC_CUT = 1,  /* Afterwards set the file's size to `size`. */
  FS_SYNC_SEEK = 2, /* Afterwards the forwarder writes from `size` on. */
  FS_SYNC_LOOK = 4, /* For attributes: without a forwarder, publish only changes. */
  FS_SYNC_ALL = 7,
};
struct fs_call_sync {
  uint64_t id;
  uint64_t upto; /* wait for so many first bytes */
  uint64_t size;
};
struct fs_forwarded {
  uint64_t file, dir; /* the file that it stands for; its last known directory, or 0 */
  uint64_t append;    /* not 0: writes to the forwarder append */
};

/* OFFER makes a backing file this node's segment of a file if the node has no segment yet. The
   answer is the id of the node's segment, or 0 (64 bits). EINVAL: that backing file has another
   role. */
struct fs_call_offer {
  uint64_t file;
  uint64_t segment; /* the backing file; 0: only ask */
};

/* FIND (struct fs_call_record) finds the record of a directory by its id, in whichever directory
   the record is. The answer is the record. ENOENT. */

/* NODE_LOCAL (struct fs_call_directory) announces that the client will make node-local names in a
   directory. No answer. The flag is FS_NL_SHADOWS. */

/* ---- between the primaries of two directories ---- */

/* TAKE locks a record, named by the tail, for a rename to another directory. The answer is the
   record. ENOENT; EAGAIN: another call has locked the record. */
struct fs_call_take {
  uint64_t dir;
  uint64_t to;   /* the other directory; its primary asks */
  uint64_t call; /* the rename */
};

/* TAKEN ends a TAKE: the rename has moved the record away. No answer. */
enum fs_taken_flags { FS_TAKEN_KEEP = 1 /* The record stays; unlock it. */ };
struct fs_call_taken {
  uint64_t dir;
  uint64_t id;
  uint64_t to;
  uint64_t call;
};

/* ARRIVED asks if the record is in this directory, or if the rename was done. No answer. ENOENT:
   no. */
struct fs_call_arrived {
  uint64_t dir;
  uint64_t id;
  uint64_t call;
};

/* SHUT stops a directory that is about to be removed from taking names; UNSHUT undoes SHUT; FORGET
   drops the removed directory (struct fs_call_directory). No answer. SHUT: ENOTEMPTY. */

/* ABOVE finds a record by its id, like LOOKUP. EBUSY with the id of a call that is about to rename
   or remove the record. */

/* BACKUP sends changes of a directory to its backup. The tail is the records to put. No answer. */
enum fs_backup_flags {
  FS_BACKUP_HELD = 1,     /* The rename `call` has locked record `id` for directory `to`. */
  FS_BACKUP_KEEP = 2,     /* Record `id` is not locked any more. */
  FS_BACKUP_SHUT = 4,     /* The directory takes no names for now. */
  FS_BACKUP_OPENED = 8,   /* The directory takes names again. */
  FS_BACKUP_REMOVED = 16, /* The directory was removed. */
  FS_BACKUP_SHOW = 32,    /* The directory is not private any more: the backup shares its records. */
  FS_BACKUP_DROP = 64,    /* Record `id` is a file of the backup's, which drops its bytes. */
  FS_BACKUP_ALL = 127,
};
struct fs_call_backup {
  uint64_t dir;
  uint64_t id;       /* a record to drop, or 0 */
  uint64_t to;       /* the directory that it moved to, or 0 */
  uint64_t call;     /* the call that removed it, or 0 */
  uint64_t changed;  /* last change of names in the directory, in ns */
  uint64_t question; /* If not 0, the backup answers it to rank `asker` with the first record. */
  uint32_t asker;
};

/* ---- to any daemon ---- */

/* MARK says that directories with this bit (fs_mark_bit) may have outputs. TAKEN: and that a name
   with bit `name` (fs_taken_bit) was taken there. No answer. */
enum fs_mark_flags { FS_MARK_TAKEN = 1 };
struct fs_call_mark {
  uint32_t bit, name;
};

/* RECALL (struct fs_call_directory): forget the borrowed records of a directory. No answer. */

/* TREE: the directory tree has changed. MAPS: an extent map has changed, so programs drop the maps
   that they keep. PING: tests if a daemon is alive. These three have no fields and no answer. */

/* DROP (struct fs_call_record): a file no longer has a name. No answer. */
enum fs_drop_flags { FS_DROP_AWAIT = 1 /* Home answers when the backing file is removed or stays. */ };

/* SUSPECT reports a rank that does not answer the caller. No answer. */
struct fs_call_suspect {
  uint32_t rank;
};

/* SET announces the members: the tail has one bit for each rank. No answer. */
struct fs_call_set {
  uint64_t number; /* a newer set has a greater number */
};

/* WHERE (struct fs_call_record) asks for the id of a record's directory (64 bits), if this rank
   keeps the record. ENOENT. */
enum fs_where_flags { FS_WHERE_SEEN = 1 /* Otherwise answer where it was last seen. */ };

/* REPLICA ends a transfer: the home has sent `blocks` blocks (ipc/wire.h) of this generation of a
   replica. The tails are one more block (struct fs_wire_replica, bytes) or nothing, then the
   changes of the extent map if the file has several writers. No answer. EILSEQ: blocks are missing.
   EAGAIN: not written yet. */
enum fs_replica_flags {
  FS_REPLICA_DURABLE = 1, /* as for PUBLISH */
  FS_REPLICA_SEGMENT = 2, /* This is a segment of another file. */
  FS_REPLICA_MORE = 4,    /* More of the extent map follows. */
};
struct fs_call_replica {
  uint64_t id;
  uint64_t dir;    /* of its record; 0: this is a segment */
  uint64_t number; /* of its next publication */
  uint64_t size;
  int64_t mtime;     /* in s */
  uint32_t mtime_ns; /* the rest of it */
  uint32_t mode;
  uint32_t generation;
  uint32_t blocks; /* of this generation */
  uint32_t sent;   /* blocks of all files that the home has sent so far */
};
/* Changes of the extent map, from number `at` of `total` on; struct fs_output_extent[] follows. An
   extent with segment 0 and length 0 says that the map ends at its offset. */
struct fs_replica_list {
  uint32_t at, total;
  uint32_t all; /* not 0: this is the whole map */
  uint32_t unused;
};
static_assert(sizeof(struct fs_replica_list) == 16, "fs_replica_list is 16 bytes");

/* ---- a call ---- */

/* The tails follow, then zeros to a multiple of 8 bytes. */
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
    struct fs_call_close close;
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
    struct fs_call_directory times, node_local, shut, unshut, forget, recall;
    struct fs_call_lock lock;
    struct fs_call_record open, find, drop, where;
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
 * Packs unpublished appends in one word: their end, from bit FS_APPENDED_RANK on, and the rank + 1
 * of the home that took them. If that home fails before publication, its successor may lack the
 * bytes. So the word keeps the first home, and appends at a later home do not change it.
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
