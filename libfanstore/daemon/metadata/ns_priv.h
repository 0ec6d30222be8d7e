/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of ns.h share. See there; docs/internals/metadata.md has the order of things, and what dies when. */
#ifndef FS_DAEMON_METADATA_NS_PRIV_H
#define FS_DAEMON_METADATA_NS_PRIV_H

#include <string.h>
#include <sys/stat.h>

#include "daemon/metadata/ns.h"

#define FS_ASK_CHAINS 1024u
#define FS_MOVED_CHAINS 1024u
#define FS_MOVED_MOST 64u /* in a chain */
#define FS_DONE_CALLS 65536u
#define FS_REMOVED_DIRS 65536u
#define FS_ABOVE_SEEN 8192u
#define FS_GONE 1024u /* removals that a backup remembers: those whose primary may not live to tell of them */
#define FS_CLOSED_DEADLINES (2 * FS_REQUEST_DEADLINES)
#define FS_NS_RETRY_NS 1000000ull
/* To find out that a rank is gone takes two; a name that it was about to move is held for two more. */
#define FS_REQUEST_DEADLINES 6u

/* A question that this rank has asked. */
struct fs_ask {
  struct fs_chain chain; /* by time */
  struct fs_chain hash;
  uint64_t id, deadline;
  uint32_t rank;
  uint32_t deputy; /* may answer as well */
  fs_ns_done *done;
  void *ctx;
};

/* A call about a directory on its way: until its keeper, whoever that is by then, has answered. */
struct fs_request {
  struct fs_chain chain; /* of those that wait to be tried again */
  struct fs_ns *ns;
  uint64_t end, again;
  fs_ns_done *done;
  void *ctx;
  uint32_t rank;             /* that it is with */
  struct fs_names_call call; /* followed by its names */
};

/* A change of this rank's memory on its way to the backup; then the answer goes out. */
struct fs_commit {
  struct fs_chain chain; /* of those that wait to be tried again */
  struct fs_chain all;
  struct fs_ns *ns;
  struct fs_asked asked;
  uint64_t dir;
  uint64_t put, gone, to; /* ids of a record that was put, or went; and where to, if that is known */
  uint64_t hold;          /* or of one that is held, or no more */
  uint64_t hold_call;     /* for this rename */
  bool shut;              /* or whether the directory takes names */
  uint64_t call;          /* id of the call, or 0 */
  bool forwarded;         /* the backup may answer the caller, if it is told now; */
  bool answered;          /* it was told to */
  bool later;             /* the caller does not wait for it (fs_ns_published) */
  uint64_t again;
  uint32_t rank;                                 /* that it is with */
  void (*then)(struct fs_commit *c, fs_err err); /* instead of the answer */
  void *ctx;
  uint64_t drop; /* a file whose last name went */
  size_t answer_n;
  char *answer;
};

struct fs_local { /* a message to itself */
  struct fs_chain chain;
  struct fs_ns_message head;
  size_t n;
  alignas(8) char body[];
};

/* A record that another directory's primary is about to take. */
struct fs_hold {
  struct fs_chain chain;
  uint64_t id, dir, to, until;
  uint64_t call; /* id of the rename, or removal (to: 0), that it is for */
  bool asking;
};

/* Where a directory's record was seen last. */
struct fs_above_seen {
  uint64_t id, dir;
};

struct fs_moved {
  struct fs_moved *next;
  uint64_t dir, id, to;
};

/* The ids of the last changes of callers: a ring, and chains through it by hash (numbers in the ring + 1). */
struct fs_done_calls {
  uint32_t at;
  uint32_t chain[FS_DONE_CALLS];
  struct fs_done_call {
    uint64_t id;
    uint32_t next;
  } call[FS_DONE_CALLS];
};

struct fs_suspect { /* one for each rank, in order */
  struct fs_ns *ns;
  bool pinging, reporting;
  uint64_t ping_again; /* when the ping that is under way is sent once more; 0: it was */
  bool answered;       /* that one was */
  uint32_t arbiter;    /* whom this rank has told */
  bool silent;         /* since it was heard last, a question to it was not answered in time */
  bool heard;          /* it has begun to serve: others take longer to stage their partitions */
};

struct fs_ns {
  uint32_t rank;
  bool replicated;
  const struct fs_ns_hooks *hooks;
  void *user;
  uint64_t now, deadline_ns;
  struct fs_names *names;
  uint64_t most_bytes; /* of names; 0: no limit */
  struct fs_members members;
  uint64_t next_ask, next_id;
  struct fs_chain asks, ask_hash[FS_ASK_CHAINS];
  struct fs_chain requests, commits, committing, holds, moves, climbs, local, markings;
  bool draining;
  struct fs_moved *moved[FS_MOVED_CHAINS];
  struct fs_above_seen above[FS_ABOVE_SEEN];
  struct fs_done_calls done;
  uint64_t removed[FS_REMOVED_DIRS]; /* the last directories that were removed: they stay closed */
  uint32_t removed_at;
  struct fs_gone {
    uint64_t dir, id;
    bool directory;
  } gone[FS_GONE];
  uint32_t gone_at;
  uint64_t marked[FS_MARK_BITS / 64];
  struct fs_suspect *suspect;
  uint64_t watch_at, timers_at;
  bool transferring;
  uint32_t transfers;              /* under way */
  struct fs_chain transfers_to_do; /* and not */
  bool watching;
  bool unsure;            /* this rank stood still, and no other has answered since: */
  bool confirming;        /* one is asked, */
  uint64_t stood, before; /* so often it has; and had when that one was asked */
  uint32_t pinging;       /* ranks */
  uint64_t dropped_messages;
  alignas(8) char body[FS_NAMES_BODY]; /* to build answers in */
};

/* ---- ns_ask.c ---- */
/* Asks a rank, which may be this one. done may be NULL. -ETIMEDOUT, -EHOSTDOWN (no member), -ENOMEM come by done, too.
 */
void fs_ns_ask(struct fs_ns *ns, uint32_t rank, const struct fs_names_call *c, fs_ns_done *done, void *ctx);
/* Asks a directory's primary; its backup may answer. */
void fs_ns_ask_keepers(struct fs_ns *ns, struct fs_keepers k, const struct fs_names_call *c, fs_ns_done *done,
                       void *ctx);
/* That it was done, which nobody waits for. */
void fs_ns_answer_later(struct fs_ns *ns, struct fs_asked a);
void fs_ns_answered(struct fs_ns *ns, uint32_t from, const struct fs_ns_message *head, const void *body, size_t n);
void fs_ns_drain(struct fs_ns *ns);
void fs_ns_ask_timers(struct fs_ns *ns);
/* Asks all other members the same; done when all have answered or are members no more. */
void fs_ns_ask_all(struct fs_ns *ns, const struct fs_names_call *c, fs_ns_done *done, void *ctx);
/* Of all members, those. */
void fs_ns_ask_those(struct fs_ns *ns, const bool *those, const struct fs_names_call *c, fs_ns_done *done, void *ctx);
/* Those to a rank that is no member any more fail. */
void fs_ns_ask_gone(struct fs_ns *ns);

/* ---- ns_request.c ---- */
/* True for a call that goes to the home of a file, and not to a directory's keeper. */
static inline bool fs_call_to_home(const struct fs_names_call *c) {
  enum fs_scope scope = fs_call_scope(c);
  return scope == FS_SCOPE_FILE || scope == FS_SCOPE_BYTES;
}
void fs_request_start(struct fs_ns *ns, const struct fs_names_call *c, fs_ns_done *done, void *ctx);
void fs_request_timers(struct fs_ns *ns, bool all);

/* ---- ns_exec.c ---- */
/* A name in this directory, of this rank's, was made, removed or moved. */
void fs_changed_now(struct fs_ns *ns, uint64_t dir);
/* Calls the handler of the call's operation. */
void fs_exec(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
/* Adds a record as others are to see it. False: no room. */
bool fs_answer_put(struct fs_ns *ns, size_t *at, const struct fs_record *r);
/* The record of this directory that has the name, which is the first tail. */
const struct fs_record *fs_exec_find(const struct fs_ns *ns, uint64_t dir, const struct fs_names_call *c);
void fs_answer_record(struct fs_ns *ns, struct fs_asked a, fs_err err, const struct fs_record *r);
/* Starts it, or answers that there was no memory for it. */
void fs_exec_commit(struct fs_ns *ns, struct fs_asked a, struct fs_commit *commit);
bool fs_exec_visible(const struct fs_record *r, uint32_t from);
/* Was the change of the call with this id made already? 1: yes; 0: no; -EAGAIN: yes, but the backup does not have it
 * yet. */
int fs_done_already(const struct fs_ns *ns, uint64_t id);
void fs_done_note(struct fs_ns *ns, uint64_t id);

/* ---- ns_gone.c ---- */
/* DROP */
void fs_gone_told(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
/* Its home is told that a file has no name any more; */
void fs_gone_drop(struct fs_ns *ns, uint64_t id);
/* the keepers of a directory's names, that it was removed; */
void fs_gone_forget(struct fs_ns *ns, uint64_t dir);
/* which then takes no names here. */
fs_err fs_gone_dir(struct fs_ns *ns, uint64_t dir);
/* A backup hears of a removal; and does what the primary would have, when that is gone. */
void fs_gone_note(struct fs_ns *ns, const struct fs_record *r);
void fs_gone_redo(struct fs_ns *ns, const struct fs_members *before);

/* ---- ns_mark.c ---- */
/* Before a directory of a dataset gets its first output. True: the call goes on later. */
bool fs_exec_mark(struct fs_ns *ns, struct fs_asked a, uint64_t dir, const struct fs_names_call *c);
/* MARK */
void fs_mark_told(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);

/* ---- ns_where.c ---- */
/* WHERE */
void fs_where_asked(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
/* As fs_ns_where; with `seen` also where a rank saw it last that may not know better. */
void fs_where_start(struct fs_ns *ns, uint64_t id, bool seen, fs_ns_done *done, void *ctx);

/* ---- ns_above.c ---- */
void fs_above_note(struct fs_ns *ns, uint64_t id, uint64_t dir);
/* Where a directory was seen last, or 0. */
uint64_t fs_above_seen(struct fs_ns *ns, uint64_t id);
/* For the rename `call` of directory `id`, which is held, into `from`: 0; -EINVAL when that is it, or below it; -EAGAIN
   when it could not be told until then; -ENOENT, -ENOMEM. */
void fs_climb_start(struct fs_ns *ns, uint64_t from, uint64_t id, uint64_t call, uint64_t until, fs_ns_done *done,
                    void *ctx);
void fs_climb_timers(struct fs_ns *ns);

/* ---- ns_move.c ---- */
/* RENAME */
void fs_move_start(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
/* Has the directory `dir` closed, drops its record, and answers. */
void fs_rmdir_start(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
/* Is a rename or removal of this record under way? And of which call, or 0. */
bool fs_locked(const struct fs_ns *ns, uint64_t dir, uint64_t id);
uint64_t fs_locked_by(const struct fs_ns *ns, uint64_t dir, uint64_t id);
/* Is the record on its way into a directory of this rank, and not yet with the backup? */
bool fs_moving(const struct fs_ns *ns, uint64_t dir, uint64_t id);
/* Is this rename at work here, and has not put the record yet? */
bool fs_move_begun(const struct fs_ns *ns, uint64_t call);

/* ---- ns_lock.c ---- */
/* TAKE, TAKEN */
void fs_move_take(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
void fs_move_taken(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
/* What a backup hears of holds. */
fs_err fs_lock_backup(struct fs_ns *ns, const struct fs_names_call *c);
struct fs_hold *fs_lock_find(const struct fs_ns *ns, uint64_t dir, uint64_t id);
/* For two deadlines, or until something else is said. NULL: no memory. */
struct fs_hold *fs_lock_new(struct fs_ns *ns, uint64_t dir, uint64_t id, uint64_t to, uint64_t call);
void fs_lock_end(struct fs_hold *h);
void fs_lock_timers(struct fs_ns *ns);
/* Where a record of this directory went last, or 0. */
void fs_moved_forget(struct fs_ns *ns, uint64_t dir, uint64_t id); /* it is here */
void fs_moved_note(struct fs_ns *ns, uint64_t dir, uint64_t id, uint64_t to);
uint64_t fs_moved_to(const struct fs_ns *ns, uint64_t dir, uint64_t id);

/* ---- ns_commit.c ---- */
/*
 * A change that is made here, in this directory; whoever makes it sets what it is: put, gone, to, call, hold. The
 * answer is this record, if any, as it is now. NULL: no memory, and nothing is answered.
 */
struct fs_commit *fs_commit_new(struct fs_ns *ns, struct fs_asked a, uint64_t dir, const struct fs_record *answer);
void fs_commit_start(struct fs_commit *c);
/* Is the change that this call made still on its way to the backup? */
bool fs_committing(const struct fs_ns *ns, uint64_t call);
void fs_commit_timers(struct fs_ns *ns, bool all);
/* BACKUP */
void fs_commit_backup(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
/* After a change of members: directories that lack a backup get one. */
void fs_commit_transfer(struct fs_ns *ns, const struct fs_members *before);

/* ---- ns_members.c ---- */
void fs_suspected(struct fs_ns *ns, uint32_t rank);
void fs_watch_timers(struct fs_ns *ns);
/* PING, SUSPECT, SET */
void fs_pinged_by(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
void fs_suspicion_asked(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
void fs_set_received(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
void fs_set_take(struct fs_ns *ns, uint64_t number, const void *bits, size_t n);
void fs_answer_stale(struct fs_ns *ns, struct fs_asked a);

#endif
