/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names of output files over all ranks: asking the rank that keeps a directory, keeping one, mirroring, and what
 * happens when ranks go (docs/internals/metadata.md). Everything is started and calls back; nothing waits.
 * It sends by its user's `send`, which delivers whole messages in order between two ranks that live, and loses
 * those to and from the dead. One thread; time is `now`, which the user sets before each call.
 *
 *   ns_ask.c      a question to a rank, its answer, its deadline; the same to itself
 *   ns_request.c  a call about a directory: finding its keeper, again after a change of members
 *   ns_exec.c     the table of handlers; what a keeper does for a call that concerns one directory
 *   ns_gone.c     what follows from a removal on other ranks
 *   ns_mark.c     which directories may have outputs: told to all before the first
 *   ns_move.c     a rename between directories, the removal of one: by two keepers
 *   ns_lock.c     the side of the one that has the record
 *   ns_above.c    which directories are above one: a directory is not renamed into itself
 *   ns_commit.c   the backup: each change; whole directories after a change of members
 *   ns_where.c    which directory a record is in; what is no file
 *   ns_members.c  suspicions, pings, the set of members
 */
#ifndef FS_DAEMON_METADATA_NS_H
#define FS_DAEMON_METADATA_NS_H

#include "daemon/core/chain.h"
#include "daemon/metadata/members.h"
#include "daemon/metadata/names.h"
#include "ipc/op.h"

/* The head of a message. A question's body is a struct fs_names_call, an answer's records or members. */
struct fs_ns_message {
  uint64_t id;  /* the asker's; the answer repeats it */
  uint64_t set; /* number of the members that the sender knows */
  int32_t err;  /* of an answer */
  uint32_t answer;
  bool later; /* nobody waits for it (never of one that was received) */
};

/* A question to this rank that is to be answered once. */
struct fs_asked {
  uint32_t from;
  uint64_t id;
  uint64_t set; /* number of the members that the asker knew */
};

struct fs_ns;
struct fs_ns_hooks {
  /* Sends head and body, copying them. Never fails: what cannot be sent is lost. */
  void (*send)(struct fs_ns *ns, uint32_t rank, const struct fs_ns_message *head, const void *body, size_t n);
  void (*mark)(struct fs_ns *ns, uint32_t bit); /* a directory of this bit may have outputs */
  void (*tree)(struct fs_ns *ns);               /* a directory was renamed or removed */
  void (*lists)(struct fs_ns *ns);              /* an extent map has changed, at another home */
  void (*dropped)(struct fs_ns *ns, uint64_t id);
  /* Asked after `dropped`. True: the bytes are on their way out, and fs_ns_answer comes when they are. May be NULL. */
  bool (*dropping)(struct fs_ns *ns, struct fs_asked a, uint64_t id);
  /* A question about a file whose home this rank should be (SETATTR, OPEN, CLOSE), or its replica here (REPLICA):
     fs_ns_answer, then or later. The same one may come again while it is at work. */
  void (*home)(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
  void (*members)(struct fs_ns *ns);
  /* A directory or symlink that this rank keeps, as primary or backup, has changed or gone. It may call nothing of this
     file. May be NULL. */
  void (*other)(struct fs_ns *ns, const struct fs_record *r, bool gone);
};

/* What came of a call: 0 or a negative errno, and the answer's body, valid during the call-back. */
typedef void fs_ns_done(void *ctx, fs_err err, const void *body, size_t n);

fs_err fs_ns_new(struct fs_ns **out, uint32_t rank, uint32_t nodes, uint64_t deadline_ns,
                 const struct fs_ns_hooks *hooks, void *user);
void *fs_ns_user(const struct fs_ns *ns);
uint64_t fs_ns_dropped(const struct fs_ns *ns); /* messages: not understood, late, or nobody's */
const struct fs_members *fs_ns_members(const struct fs_ns *ns);
/* Files have replicas: that of a rank which is no member any more is the member's after it. */
void fs_ns_replicate(struct fs_ns *ns);
/* Where names take more memory than this (0: no limit), none are made or brought here any more: ENOSPC. Those that are
   mirrored here count, and are never refused. */
void fs_ns_limit(struct fs_ns *ns, uint64_t bytes);
bool fs_ns_full(const struct fs_ns *ns);
/* The rank that has a file's bytes, as far as is known here. */
uint32_t fs_ns_home(const struct fs_ns *ns, uint64_t id);
/* False: this rank stood still, and may have been taken for dead; it does not know yet. */
bool fs_ns_sure(const struct fs_ns *ns);
/* A new id for a file of this rank's. */
uint64_t fs_ns_id(struct fs_ns *ns);

/* A call about a directory's records or a file's bytes, checked by fs_call_ok. done is called once, at the latest after
   seven deadlines. */
void fs_ns_call(struct fs_ns *ns, uint64_t now, const struct fs_names_call *c, fs_ns_done *done, void *ctx);
/*
 * The record, if this rank owns the directory and has done this publication of its own. All that others could lose of
 * it with this rank alone is lost with the file, so who published it need not wait for the backup. Else NULL.
 */
const struct fs_record *fs_ns_published(const struct fs_ns *ns, const struct fs_names_call *c);
/* For a removal's answer, which is the file's id, and from its call-back only: done when home has removed the bytes or
   keeps them for who holds the file, or could not say so within a deadline, or is no member. */
void fs_ns_await_drop(struct fs_ns *ns, uint64_t id, fs_ns_done *done, void *ctx);
/* Outside the service's own calls it goes out with the next timers, or with fs_ns_run_local. */
void fs_ns_answer(struct fs_ns *ns, struct fs_asked a, fs_err err, const void *body, size_t n);
/* Was a call with this id done here, and noted? */
bool fs_ns_done_before(const struct fs_ns *ns, uint64_t call);
void fs_ns_done_now(struct fs_ns *ns, uint64_t call);
/* The directory (8 bytes) that the record of this id is in: for who has lost sight of it. Asks one rank after another,
   first the one that made it; done with -ENOENT when none has it. */
void fs_ns_where(struct fs_ns *ns, uint64_t now, uint64_t id, fs_ns_done *done, void *ctx);
/* The record of the directory of this id, wherever it is. */
void fs_ns_find(struct fs_ns *ns, uint64_t now, uint64_t id, fs_ns_done *done, void *ctx);
/* done when all other members have answered, or are none any more. */
void fs_ns_all(struct fs_ns *ns, uint64_t now, fs_ns_done *done, void *ctx);
/* The files in the directories that this rank owns; */
void fs_ns_files(const struct fs_ns *ns, void (*visit)(void *ctx, const struct fs_record *r), void *ctx);
/* the directories and symlinks in them. visit may not change anything. */
void fs_ns_others(const struct fs_ns *ns, void (*visit)(void *ctx, const struct fs_record *r), void *ctx);
/* A message from another rank, as it came. */
void fs_ns_receive(struct fs_ns *ns, uint64_t now, uint32_t from, const struct fs_ns_message *head, const void *body,
                   size_t n);
/* Delivers what this rank has said to itself. */
void fs_ns_run_local(struct fs_ns *ns, uint64_t now);
/* Deadlines; call at least every few milliseconds. */
void fs_ns_timers(struct fs_ns *ns, uint64_t now);
bool fs_ns_busy(const struct fs_ns *ns);

#endif
