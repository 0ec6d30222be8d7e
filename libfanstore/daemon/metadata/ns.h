/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names of output files over all ranks: asking the rank that keeps a directory, keeping one, mirroring, and what
 * happens when ranks go (docs/internals/metadata.md). Everything is started and calls back; nothing waits.
 * It sends by its user's `send`, which delivers whole messages in order between two ranks that live, and loses
 * those to and from the dead. One thread; time is `now`, which the user sets before each call.
 *
 *   ns_ask.c      questions to a rank, answers, deadlines; messages of this rank to itself
 *   ns_request.c  a call about a directory: finds the keeper, again after a change of members
 *   ns_exec.c     the table of handlers; what a keeper does for a call that concerns one directory
 *   ns_gone.c     what a removal causes on other ranks
 *   ns_notice.c   what other ranks must know before a call is executed
 *   ns_private.c  directories that only the programs of the rank that made them use
 *   ns_lend.c     lends records of this rank's directories to others, and recalls them before a change
 *   ns_borrow.c   the other side: borrowed records are found in shared memory
 *   ns_mark.c     tells all ranks that a directory may have outputs, before its first output
 *   ns_move.c     renames between directories and removals of directories: these need two keepers
 *   ns_lock.c     locks a record at its present keeper during such an operation
 *   ns_above.c    finds a record by its id; a directory is not renamed into itself
 *   ns_commit.c   sends each change to the backup, and whole directories after a change of members
 *   ns_where.c    finds the directory of a record; lists directories and symlinks
 *   ns_members.c  suspicions, pings, the set of members
 */
#ifndef FS_DAEMON_METADATA_NS_H
#define FS_DAEMON_METADATA_NS_H

#include "daemon/core/chain.h"
#include "daemon/metadata/members.h"
#include "daemon/metadata/names.h"
#include "ipc/op.h"

/* The head of a message. The body of a question is a struct fs_names_call. The body of an answer
   is records or members. */
struct fs_ns_message {
  uint64_t id;  /* chosen by the asker; the answer repeats it */
  uint64_t set; /* number of the set of members that the sender knows */
  int32_t err;  /* only in an answer */
  uint32_t answer;
};

/* A question to this rank, which has to answer it exactly once. */
struct fs_asked {
  uint32_t from;
  uint64_t id;
  uint64_t set; /* number of the set of members that the asker knew */
};

struct fs_ns;
struct fs_ns_hooks {
  /* Copies and sends head and body. The hook cannot fail: a message that cannot be sent is lost. */
  void (*send)(struct fs_ns *ns, uint32_t rank, const struct fs_ns_message *head, const void *body, size_t n);
  void (*mark)(struct fs_ns *ns, uint32_t bit); /* a directory of this bit may have outputs */
  /* A name of a dataset with bit `name` was taken in a directory of this bit. */
  void (*taken)(struct fs_ns *ns, uint32_t bit, uint32_t name);
  void (*tree)(struct fs_ns *ns);  /* a directory was renamed or removed */
  void (*lists)(struct fs_ns *ns); /* another home has changed an extent map */
  /* A file has lost its name. Unless `now` is set, a program of this rank may unlink its bytes. */
  void (*dropped)(struct fs_ns *ns, uint64_t id, bool now);
  /* Called after `dropped` if the asker waits for the removal of the bytes. Returns true if the
     removal is under way; the hook's owner then calls fs_ns_answer when it is complete. May be
     NULL. */
  bool (*dropping)(struct fs_ns *ns, struct fs_asked a, uint64_t id);
  /* Handles a question about a file whose home should be this rank (FS_SCOPE_FILE, and SETATTR of
     a file), or about a replica here (REPLICA). The hook answers by fs_ns_answer, at once or later. The same
     question may come again in the meantime. */
  void (*home)(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
  void (*members)(struct fs_ns *ns); /* the set of members has changed */
  /* Called when a directory or symlink that this rank keeps, as primary or backup, has changed
     or gone. The hook may not call the functions of this header. May be NULL. */
  void (*other)(struct fs_ns *ns, const struct fs_record *r, bool gone);
};

/* The result of a call: 0 or a negative errno, and the answer's body, which is valid during the
   call-back only. */
typedef void fs_ns_done(void *ctx, fs_err err, const void *body, size_t n);

/* Makes a service. `primary` is the user's context, for its hooks; it is no rank. Returns 0 or
   -ENOMEM. */
fs_err fs_ns_new(struct fs_ns **out, uint32_t rank, uint32_t nodes, uint64_t deadline_ns,
                 const struct fs_ns_hooks *hooks, void *user);
void *fs_ns_user(const struct fs_ns *ns);
uint64_t fs_ns_dropped(const struct fs_ns *ns); /* messages: not understood, late, or nobody's */
const struct fs_members *fs_ns_members(const struct fs_ns *ns);
/* Says that files have replicas. If a file's rank is evicted, its home is then the next member
   after that rank. */
void fs_ns_replicate(struct fs_ns *ns);
/* Limits the memory for names; 0 means no limit. Above the limit this rank refuses to create
   names and to take renamed ones, with ENOSPC. Names that this rank keeps as a backup count, but
   are never refused. */
void fs_ns_limit(struct fs_ns *ns, uint64_t bytes);
/* Returns true if the names take as much memory as they may. */
bool fs_ns_full(const struct fs_ns *ns);
/*
 * From now on the records that this rank knows for certain are in the shared table. Those are the
 * records of the directories of which it is the primary, or has been the backup since the start (a
 * later backup gets older records bit by bit), and those that other ranks have lent to it. Call it
 * before the first message.
 */
void fs_ns_share(struct fs_ns *ns, struct fs_shared_names *table);
/* Returns until when this rank's records can be trusted, 0: not now. The others need longer to
   evict a rank that they do not hear. */
uint64_t fs_ns_certain_until(const struct fs_ns *ns);
/* Returns the rank that has a file's bytes, as far as this rank knows. */
uint32_t fs_ns_home(const struct fs_ns *ns, uint64_t id);
/* Returns false if this rank was suspended, so that the others may have evicted it, and it has
   not found out yet. */
bool fs_ns_sure(const struct fs_ns *ns);
/* Returns a new id for a file of this rank. */
uint64_t fs_ns_id(struct fs_ns *ns);

/* Starts a call about a directory's records or a file's bytes. The caller has checked it by
   fs_call_ok. The service calls done once, after seven deadlines at the latest. */
void fs_ns_call(struct fs_ns *ns, uint64_t now, const struct fs_names_call *c, fs_ns_done *done, void *ctx);
/* Waits for the removal of a file's bytes. Call this only from the call-back of a removal, whose
   answer is the id. The service calls done when the home has removed the bytes or keeps them for
   nodes that have the file open, when the home has not answered within a deadline, or when the
   home is no member. */
void fs_ns_await_drop(struct fs_ns *ns, uint64_t id, fs_ns_done *done, void *ctx);
/* Answers a question. Outside a call-back of the service, an answer of this rank to itself waits
   for the next timers or fs_ns_run_local. */
void fs_ns_answer(struct fs_ns *ns, struct fs_asked a, fs_err err, const void *body, size_t n);
/* fs_ns_done_before returns true if the call with this id has been executed here and recorded.
   fs_ns_done_now records it. */
bool fs_ns_done_before(const struct fs_ns *ns, uint64_t call);
void fs_ns_done_now(struct fs_ns *ns, uint64_t call);
/* Finds the record with this id, on whichever rank it is. `dir` is the directory in which the
   caller last knew it, or 0. If the record is not there, the service asks one rank after another
   for it, first the one that made it. If no rank has it, done gets -ENOENT. */
void fs_ns_find(struct fs_ns *ns, uint64_t now, uint64_t id, uint64_t dir, fs_ns_done *done, void *ctx);
/* Pings all other members. The service calls done when each has answered or is no member any
   more. */
void fs_ns_all(struct fs_ns *ns, uint64_t now, fs_ns_done *done, void *ctx);
/* Calls visit for each file in the directories of which this rank is primary. The call-back may
   not change anything. */
void fs_ns_files(const struct fs_ns *ns, void (*visit)(void *ctx, const struct fs_record *r), void *ctx);
/* Like fs_ns_files, for directories and symlinks. */
void fs_ns_others(const struct fs_ns *ns, void (*visit)(void *ctx, const struct fs_record *r), void *ctx);
/* Handles a message from another rank. The message is checked here. */
void fs_ns_receive(struct fs_ns *ns, uint64_t now, uint32_t from, const struct fs_ns_message *head, const void *body,
                   size_t n);
/* Delivers the messages that this rank has sent to itself. */
void fs_ns_run_local(struct fs_ns *ns, uint64_t now);
/* Handles deadlines and retries. Call it at least every few milliseconds. */
void fs_ns_timers(struct fs_ns *ns, uint64_t now);
/* Returns true while calls, commits, moves or transfers are under way. */
bool fs_ns_busy(const struct fs_ns *ns);

#endif
