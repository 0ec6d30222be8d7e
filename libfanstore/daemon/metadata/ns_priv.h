/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of ns.h share. See there; docs/internals/metadata.md has the order of things, and what dies when. */
#ifndef FS_DAEMON_METADATA_NS_PRIV_H
#define FS_DAEMON_METADATA_NS_PRIV_H

#include <string.h>
#include <sys/stat.h>

#include "daemon/metadata/ns.h"
#include "util/table.h"

#define FS_ASK_CHAINS 1024u
#define FS_MOVED_CHAINS 1024u
#define FS_MOVED_MOST 64u /* entries of one chain */
#define FS_DONE_CALLS 65536u
#define FS_REMOVED_DIRS 65536u
#define FS_ABOVE_SEEN 8192u
/* removals that a backup remembers, in case the primary dies before it has reported them */
#define FS_GONE 1024u
#define FS_LEND_TIMES 4096u
#define FS_EARLY_MOST 64u  /* callers that are answered before the backup, at once */
#define FS_SHARE_MOST 512u /* records that enter the shared table in one turn: a millisecond */
#define FS_UNSENT_MOST 64u
#define FS_CLOSED_DEADLINES (2 * FS_REQUEST_DEADLINES)
#define FS_NS_RETRY_NS 1000000ull
/* The failure detector needs two deadlines to evict a rank. A name that this rank was moving
   stays locked for two more. */
#define FS_REQUEST_DEADLINES 6u

/* A question of this rank that has no answer yet. */
struct fs_ask {
  struct fs_chain chain; /* in order of deadline */
  struct fs_chain hash;
  uint64_t id, deadline;
  uint32_t rank;
  uint32_t deputy; /* a backup that may answer instead of `rank`, or FS_NO_RANK */
  fs_ns_done *done;
  void *ctx;
};

/* A call about a directory or file, until its keeper, which may change meanwhile, has answered. */
struct fs_request {
  struct fs_chain chain; /* link in the list of those that wait for the next try */
  struct fs_ns *ns;
  uint64_t end, again;
  fs_ns_done *done;
  void *ctx;
  uint32_t rank;             /* that is asked now */
  struct fs_names_call call; /* followed by its names */
};

/* A change of this rank's table that is on its way to the backup. The caller's answer follows
   it. */
struct fs_commit {
  struct fs_chain chain; /* link in the list of those that wait for the next try */
  struct fs_chain all;
  struct fs_ns *ns;
  struct fs_asked asked;
  uint64_t dir;
  /* ids: of the record that was put, of the one that went, and of its new directory (0: unknown) */
  uint64_t put, gone, to;
  uint64_t whiteout;  /* id of a whiteout that was put, or 0 */
  uint64_t hold;      /* or the id of a record whose lock has changed */
  uint64_t hold_call; /* the rename that holds the lock */
  bool shut;          /* or: whether the directory takes names has changed */
  uint64_t call;      /* id of the call, or 0 */
  /* the backup may answer the caller, if this change is its first news of it */
  bool forwarded;
  bool answered; /* the backup was told to answer the caller */
  bool own;      /* it makes or removes a file of this rank */
  bool early;    /* the caller was answered before the backup (ns_private.c) */
  uint64_t again;
  uint32_t rank;                                 /* that is asked now */
  void (*then)(struct fs_commit *c, fs_err err); /* called instead of answering */
  void *ctx;
  uint64_t drop; /* a file that has lost its name; 0: none */
  bool here;     /* this rank is its home, and answers the caller when its bytes are gone */
  bool there;    /* the backup is its home, and was told to drop it */
  size_t answer_n;
  char *answer;
};

struct fs_local { /* a message of this rank to itself */
  struct fs_chain chain;
  struct fs_ns_message head;
  size_t n;
  alignas(8) char body[];
};

/* The lock on a record that another directory's primary is about to take, or whose directory is
   being removed. */
struct fs_hold {
  struct fs_chain chain;
  uint64_t id, dir, to, until;
  uint64_t call; /* id of the rename that holds the lock, or of the removal if `to` is 0 */
  bool asking;
};

/* The directory in which a directory's record was last seen. */
struct fs_above_seen {
  uint64_t id, dir;
};

struct fs_moved {
  struct fs_moved *next;
  uint64_t dir, id, to;
};

/* The ids of the latest changes by callers, so that a repeated call is not executed twice. A
   ring, with hash chains through it; a link is a place in the ring + 1, and 0 ends a chain. */
struct fs_done_calls {
  uint32_t at;
  uint32_t chain[FS_DONE_CALLS];
  struct fs_done_call {
    uint64_t id;
    uint32_t next;
  } call[FS_DONE_CALLS];
};

struct fs_suspect { /* one for each rank, in order of ranks */
  struct fs_ns *ns;
  bool pinging, reporting;
  uint64_t ping_again; /* when the ping under way is repeated; 0: it has been */
  bool answered;       /* the repeated ping was answered */
  uint32_t arbiter;    /* the rank to which this one has reported the suspicion */
  bool silent;         /* a question to it has timed out since it was last heard */
  /* this rank has heard of it, so it serves; a rank that still stages in is not suspected */
  bool heard;
};

struct fs_ns {
  uint32_t rank;
  bool replicated;
  const struct fs_ns_hooks *hooks;
  void *user;
  uint64_t now, deadline_ns;
  struct fs_names *names;
  uint64_t most_bytes;              /* limit for the table of names; 0: none */
  struct fs_members members, first; /* now; at the start */
  uint64_t next_ask, next_id;
  struct fs_chain asks, ask_hash[FS_ASK_CHAINS];
  struct fs_chain requests, commits, committing, holds, moves, climbs, local, notices;
  bool draining;
  uint32_t early;    /* commits whose callers were answered early */
  struct fs_unsent { /* records of private directories that were published, and not sent to a backup */
    uint64_t dir, id;
  } unsent[FS_UNSENT_MOST];
  uint32_t unsent_n;
  uint64_t unsent_since;
  struct fs_moved *moved[FS_MOVED_CHAINS];
  struct fs_above_seen above[FS_ABOVE_SEEN];
  struct fs_done_calls done;
  uint64_t removed[FS_REMOVED_DIRS]; /* the latest removed directories, which stay closed */
  uint32_t removed_at;
  struct fs_gone {
    uint64_t dir, id;
    bool directory;
  } gone[FS_GONE];
  uint32_t gone_at;
  /* Bits that all members know: of directories that may have outputs; of directories where names of
     a dataset were taken; of these names. */
  uint64_t marked[FS_MARK_BITS / 64], taken[FS_MARK_BITS / 64], taken_names[FS_TAKEN_BITS / 64];
  struct fs_table lent;               /* directories with records that other ranks have borrowed */
  uint64_t changed_at[FS_LEND_TIMES]; /* when a directory changed last, by a hash of its id */
  uint64_t known_set;                 /* the set that all its members are known to have */
  struct fs_names *borrowed;          /* records that are lent to this rank; NULL: it borrows none */
  struct fs_suspect *suspect;
  uint64_t watch_at, timers_at;
  uint64_t asked_at, watched_at; /* when the last ping to the next member was sent; the last that was answered */
  bool transferring;
  uint32_t transfers;              /* directories being transferred */
  struct fs_chain transfers_to_do; /* directories that wait for their transfer */
  bool watching;
  bool unsure;     /* this rank was suspended, and no other rank has answered since */
  bool confirming; /* a ping is under way to clear `unsure` */
  /* how often this rank was suspended: until now, and until that ping was sent */
  uint64_t stood, before;
  uint32_t pinging; /* pings under way */
  uint64_t dropped_messages;
  alignas(8) char body[FS_NAMES_BODY]; /* scratch space for messages */
};

/* ---- ns.c ---- */
/* Returns the rank that has the file's bytes: its home, or the rank with the replica. */
uint32_t fs_record_home(const struct fs_ns *ns, const struct fs_record *r);
/* Returns true if this rank has all records of the directory as they are now. */
bool fs_ns_certain(const struct fs_ns *ns, uint64_t dir);

/* ---- ns_ask.c ---- */
/* Asks a rank, which may be this one. done may be NULL; it also gets the errors -ETIMEDOUT,
   -EHOSTDOWN (the rank is no member) and -ENOMEM. */
void fs_ns_ask(struct fs_ns *ns, uint32_t rank, const struct fs_names_call *c, fs_ns_done *done, void *ctx);
/* Asks a directory's primary; the primary's or its backup's answer ends the question. */
void fs_ns_ask_keepers(struct fs_ns *ns, struct fs_keepers k, const struct fs_names_call *c, fs_ns_done *done,
                       void *ctx);
/* Ends the question that this answer is for. Counts an answer without a question as dropped. */
void fs_ns_answered(struct fs_ns *ns, uint32_t from, const struct fs_ns_message *head, const void *body, size_t n);
/* Delivers the messages of this rank to itself. Does nothing if it is already at work. */
void fs_ns_drain(struct fs_ns *ns);
void fs_ns_ask_timers(struct fs_ns *ns);
/* Asks all other members. Calls done when each has answered or is no member any more; suspected
   members are asked again. */
void fs_ns_ask_all(struct fs_ns *ns, const struct fs_names_call *c, fs_ns_done *done, void *ctx);
/* Like fs_ns_ask_all, for the members whose element in `those` is true; NULL means all. */
void fs_ns_ask_those(struct fs_ns *ns, const bool *those, const struct fs_names_call *c, fs_ns_done *done, void *ctx);
/* Makes the questions to ranks that are no members any more fail with the next timers. */
void fs_ns_ask_gone(struct fs_ns *ns);

/* ---- ns_request.c ---- */
/* Returns true if the call goes to the home of a file, false if it goes to a directory's keeper. */
static inline bool fs_call_to_home(const struct fs_names_call *c) {
  enum fs_scope scope = fs_call_scope(c);
  return scope == FS_SCOPE_FILE || scope == FS_SCOPE_BYTES;
}
/* Starts a call, and repeats it to its present keeper or home until it is answered or its time is
   over. done may be NULL. */
void fs_request_start(struct fs_ns *ns, const struct fs_names_call *c, fs_ns_done *done, void *ctx);
void fs_request_timers(struct fs_ns *ns, bool all);

/* ---- ns_exec.c ---- */
/* Adds a record to the answer in ns->body. Returns false if there is no room. */
bool fs_answer_put(struct fs_ns *ns, size_t *at, const struct fs_record *r);
/* Stamps a change of names in a directory of this rank. */
void fs_changed_now(struct fs_ns *ns, uint64_t dir);
/* Calls the handler of the call's operation. */
void fs_exec(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
/* Returns the record in this directory whose name is the call's first tail, or NULL. */
const struct fs_record *fs_exec_find(const struct fs_ns *ns, uint64_t dir, const struct fs_names_call *c);
/* Starts a commit, or answers -ENOMEM if commit is NULL. */
void fs_exec_commit(struct fs_ns *ns, struct fs_asked a, struct fs_commit *commit);
/* Returns 1 if the change of the call with this id has been made, 0 if not, and -EAGAIN if it
   has been made but has not reached the backup yet. fs_done_note records the id. */
int fs_done_already(const struct fs_ns *ns, uint64_t id);
void fs_done_note(struct fs_ns *ns, uint64_t id);

/* ---- ns_gone.c ---- */
/* Handles DROP. */
void fs_gone_told(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
/* Answers when the bytes of a file that this rank has dropped are gone. */
void fs_gone_answer(struct fs_ns *ns, struct fs_asked a, uint64_t id);
/* Tells a file's home that the file has lost its name. */
void fs_gone_drop(struct fs_ns *ns, uint64_t id);
/* Tells the keepers of a directory that the directory was removed. */
void fs_gone_forget(struct fs_ns *ns, uint64_t dir);
/* Removes a directory's table here and closes the directory for good. Returns 0 or -ENOMEM. */
fs_err fs_gone_dir(struct fs_ns *ns, uint64_t dir);
/* fs_gone_note records a removal at the backup. After a change of members fs_gone_redo reports
   the recorded removals whose primary has gone. */
void fs_gone_note(struct fs_ns *ns, const struct fs_record *r);
void fs_gone_redo(struct fs_ns *ns, const struct fs_members *before);

/* ---- ns_notice.c ---- */
/*
 * Tells other ranks something before a call is executed: `tell`, to the members whose element in
 * `those` is true, or to all. The call `c` waits; then() is called when all have answered, and the
 * call is executed or, if this rank is not the primary any more, has to be made again. Calls that
 * have to tell the same wait for the same messages: `tell` is compared by its operation, its
 * flags and its first 8 bytes of fields.
 */
void fs_notice_first(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c,
                     const struct fs_names_call *tell, const bool *those,
                     void (*then)(struct fs_ns *ns, const struct fs_names_call *told));

/* ---- ns_private.c ---- */
/* Returns true if no rank but the directory's maker can know the names in it, as far as this rank, a
   keeper, knows. */
bool fs_private(const struct fs_ns *ns, uint64_t dir);
/* Returns true if a caller of this rank need not wait for the backup's answer in this directory. */
bool fs_private_may_answer(const struct fs_ns *ns, struct fs_asked a, uint64_t dir);
/* Has the backup hear of this record's publication, with others of its directory and once: the record
   is sent again when the directory is shown. */
void fs_private_published(struct fs_ns *ns, const struct fs_record *r);
void fs_private_timers(struct fs_ns *ns);
/* Ends that a directory is private, if the call is another rank's. Returns true if the backup lacks
   changes of which callers know; the call has been answered EAGAIN then, and will be made again. */
bool fs_private_end(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);

/* ---- ns_lend.c ---- */
/* Ends all that is lent of the directory that a call is about to change. Returns true if the call
   has to wait for that; it is then executed, or answered, later. */
bool fs_lend_back(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
/* Answers a LOOKUP with FS_LOOKUP_BORROW. ns->body has the n bytes of the record behind room for a
   struct fs_lent, and `seq` is the record's. If there is no such name, n and seq are 0. */
void fs_lend_answer(struct fs_ns *ns, struct fs_asked a, uint64_t dir, size_t n, uint64_t seq);

/* ---- ns_borrow.c ---- */
/* What this rank borrows is in the same shared table as what it keeps. */
void fs_borrow_share(struct fs_ns *ns, const struct fs_names_sharing *s);
/* Starts a client's LOOKUP in a directory of another rank, and borrows records. Returns false if
   the call is none of this kind. */
bool fs_borrow_start(struct fs_ns *ns, const struct fs_names_call *c, fs_ns_done *done, void *ctx);
/* Handles RECALL. */
void fs_borrow_recalled(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);

/* ---- ns_mark.c ---- */
/* Makes sure that all members know that a directory of a dataset may have outputs. Returns true
   if the call has to wait for that; the call is then executed, or answered, later. */
bool fs_exec_mark(struct fs_ns *ns, struct fs_asked a, uint64_t dir, const struct fs_names_call *c);
/* Like fs_exec_mark, before a record gets a name that the dataset has. */
bool fs_exec_mark_taken(struct fs_ns *ns, struct fs_asked a, uint64_t dir, const char *name, size_t len,
                        const struct fs_names_call *c);
/* Handles MARK. */
void fs_mark_told(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);

/* ---- ns_whiteout.c ---- */
/* Returns r if it is what programs see, else NULL: there is no record, or it is a whiteout. */
static inline const struct fs_record *fs_visible(const struct fs_record *r) {
  return r && !fs_is_whiteout(r) ? r : NULL;
}
/* Puts a whiteout in place of the record of this name, if any, for the commit of the call. Returns
   0, or -ENOMEM and changes nothing. */
fs_err fs_whiteout_put(struct fs_ns *ns, struct fs_commit *commit, uint64_t dir, const char *name, size_t len,
                       uint64_t call);
/* Removes a record from its directory, for the commit of the call. If the dataset has the name, a
   whiteout takes the record's place. Returns 0, or -ENOMEM and changes nothing. */
fs_err fs_vacate(struct fs_ns *ns, struct fs_commit *commit, const struct fs_record *r, uint64_t call);
/* Handles REMOVE of a name that the dataset has, and no record. */
void fs_whiteout_start(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);

/* ---- ns_where.c ---- */
/* Handles WHERE. */
void fs_where_asked(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
/* Finds the directory (8 bytes) of the record with this id. Asks one rank after another, first the
   one that made the record. If no rank has it, done gets -ENOENT. If `seen` is set, a rank's memory
   of where it last saw the record counts as an answer. */
void fs_where_start(struct fs_ns *ns, uint64_t id, bool seen, fs_ns_done *done, void *ctx);

/* ---- ns_above.c ---- */
void fs_above_note(struct fs_ns *ns, uint64_t id, uint64_t dir);
/* fs_above_seen returns the directory in which directory `id` was last seen, or 0. fs_above_note
   remembers it. */
uint64_t fs_above_seen(struct fs_ns *ns, uint64_t id);
/* Checks, for the rename `call` of the locked directory `id` into `from`, that `from` is not
   `id` or below it. done gets 0, -EINVAL if it is, -EAGAIN if the answer is not known by
   `until`, -ELOOP if there are too many levels, -ENOENT, or -ENOMEM. */
void fs_climb_start(struct fs_ns *ns, uint64_t from, uint64_t id, uint64_t call, uint64_t until, fs_ns_done *done,
                    void *ctx);
void fs_climb_timers(struct fs_ns *ns);

/* ---- ns_move.c ---- */
/* Handles RENAME. */
void fs_move_start(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
/* Handles REMOVE of a directory: locks its record, has the directory closed at its keeper,
   removes the record, answers. */
void fs_rmdir_start(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
/* Is a rename or removal of this record under way? And of which call, or 0. */
bool fs_locked(const struct fs_ns *ns, uint64_t dir, uint64_t id);
uint64_t fs_locked_by(const struct fs_ns *ns, uint64_t dir, uint64_t id);
/* Is the record on its way into a directory of this rank, and not yet with the backup? */
bool fs_moving(const struct fs_ns *ns, uint64_t dir, uint64_t id);
/* Returns true if this rename is at work here and has not put the record yet. */
bool fs_move_begun(const struct fs_ns *ns, uint64_t call);

/* ---- ns_lock.c ---- */
/* Handle TAKE, which locks a record for another keeper, and TAKEN, which ends the lock. */
void fs_move_take(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
void fs_move_taken(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
/* Sets or ends a record's lock at the backup, as the primary's BACKUP message says. Returns 0 or
   -ENOMEM. */
fs_err fs_lock_backup(struct fs_ns *ns, const struct fs_names_call *c);
/* Returns the lock on a record of this directory, or NULL. */
struct fs_hold *fs_lock_find(const struct fs_ns *ns, uint64_t dir, uint64_t id);
/* Locks a record for two deadlines, unless the caller sets another time. Returns NULL if there
   is no memory. */
struct fs_hold *fs_lock_new(struct fs_ns *ns, uint64_t dir, uint64_t id, uint64_t to, uint64_t call);
void fs_lock_end(struct fs_hold *h);
void fs_lock_timers(struct fs_ns *ns);
/* fs_moved_to returns the directory into which a record of this directory was last moved, or 0.
   fs_moved_note remembers that; fs_moved_forget is for a record that is here again. */
void fs_moved_forget(struct fs_ns *ns, uint64_t dir, uint64_t id);
void fs_moved_note(struct fs_ns *ns, uint64_t dir, uint64_t id, uint64_t to);
uint64_t fs_moved_to(const struct fs_ns *ns, uint64_t dir, uint64_t id);

/* ---- ns_commit.c ---- */
/*
 * Makes a commit for a change in this directory. The caller sets what has changed: put, gone, to,
 * call, hold. The answer will be a copy of the record `answer`, if any. Returns NULL if there is no
 * memory; then nothing is answered.
 */
struct fs_commit *fs_commit_new(struct fs_ns *ns, struct fs_asked a, uint64_t dir, const struct fs_record *answer);
void fs_commit_start(struct fs_commit *c);
/* Frees a commit that was not started. */
void fs_commit_free(struct fs_commit *c);
/* Returns true if the change of this call is still on its way to the backup. */
bool fs_committing(const struct fs_ns *ns, uint64_t call);
/* Returns true if a caller has its answer, and the backup has not confirmed the change yet. */
bool fs_commit_early(const struct fs_ns *ns, uint64_t dir);
/* Returns true if the backup has not confirmed yet that the record is gone. */
bool fs_committing_gone(const struct fs_ns *ns, uint64_t dir, uint64_t id);
void fs_commit_timers(struct fs_ns *ns, bool all);
/* Handles BACKUP. */
void fs_commit_backup(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
/* After a change of members, sends each directory of this rank that has a new backup to that
   backup. */
void fs_commit_transfer(struct fs_ns *ns, const struct fs_members *before);
/* Sends a directory of this rank to its backup, and has the backup show it. Returns false without
   memory. */
bool fs_commit_show(struct fs_ns *ns, uint64_t dir);

/* ---- ns_members.c ---- */
/* Reports a rank that has not answered in time to the arbiter, or pings it if this rank is the
   arbiter. */
void fs_suspected(struct fs_ns *ns, uint32_t rank);
void fs_watch_timers(struct fs_ns *ns);
/* Handle PING, SUSPECT and SET. fs_set_take intersects this rank's set of members with another;
   fs_answer_stale answers -ESTALE with this rank's set. */
void fs_pinged_by(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
void fs_suspicion_asked(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
void fs_set_received(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c);
void fs_set_take(struct fs_ns *ns, uint64_t number, const void *bits, size_t n);
/* Like fs_notice_first, with the present set for all members. */
void fs_set_first(struct fs_ns *ns, struct fs_asked a, const struct fs_names_call *c,
                  void (*then)(struct fs_ns *ns, const struct fs_names_call *told));
void fs_answer_stale(struct fs_ns *ns, struct fs_asked a);

#endif
