/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process knows of the output files of other nodes that it has open (outputs.h, segment.h). It
 * asks home for a snapshot of its own (OPEN), which stands for the contents until the process gives
 * it back. So bytes that it reads while the snapshot is its own are of that file. A forked child,
 * and a program that inherits the descriptor, ask anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/data_priv.h"
#include "client/outputs/segment.h"
#include "util/util.h"

#define FS_TURN_TRIES 100000u
#define FS_SNAPSHOTS 1000u
/* An answer is used so long if the file was not published since. A program that opens a file, reads
   it and looks for its end needs one. */
#define FS_FRESH_NS 10000000ull
#define FS_OPENED_WORDS (sizeof(struct fs_opened) / sizeof(uint64_t))
static_assert(sizeof(struct fs_opened) % sizeof(uint64_t) == 0, "an answer is words");

struct output_opened {                      /* beside a number; zeros in a forked child */
  _Atomic uint32_t snapshot;                /* 0: none */
  _Atomic uint32_t opens;                   /* this process's opens without a close, as far as it knows */
  _Atomic uint32_t brought;                 /* without a snapshot: the bytes that came in a batch (batch.c); 0: none */
  _Atomic uint32_t gone;                    /* and the home has the file no more */
  _Atomic uint32_t turn;                    /* odd: the next fields are being written */
  _Atomic uint32_t slot;                    /* of the file's record in shared memory; 0: not known */
  _Atomic uint64_t answer[FS_OPENED_WORDS]; /* home's last one, a struct fs_opened */
  _Atomic uint64_t asked;                   /* order of that question; its segments are no older */
  _Atomic uint64_t at;                      /* when home answered, by the coarse clock */
  _Atomic uint64_t version;                 /* of the published record before home was asked; 0: not known */
  _Atomic uint32_t published;               /* fs_output_published before that question */
  _Atomic uint64_t appended;                /* ctl's word before that question */
  _Atomic uint32_t changes, changed;        /* this process's changes of the file: now, before that question */
  struct fs_output_writing writing;
};

#define FS_HELD_PART 4096u
static_assert(FS_OUTPUT_NODES % FS_HELD_PART == 0, "parts of one size");

static struct output_opened *held_of(uint32_t entry) {
  static void *_Atomic part[FS_OUTPUT_NODES / FS_HELD_PART];
  const size_t size = FS_HELD_PART * sizeof(struct output_opened);
  const uint32_t place = entry - FS_OUTPUT_FIRST;
  if (fs_output_node(entry) == NULL) return NULL;
  void *held = atomic_load_explicit(&part[place / FS_HELD_PART], memory_order_acquire);
  if (FS_UNLIKELY(held == NULL)) {
    void *mine = fs_mem_map_wiped(size);
    if (mine == NULL) return NULL;
    if (!fs_publish_ptr(&part[place / FS_HELD_PART], mine, &held)) fs_mem_unmap(mine, size);
  }
  return (struct output_opened *)held + place % FS_HELD_PART;
}

uint64_t fs_output_id(uint32_t entry) {
  return atomic_load_explicit(&fs_output_node(entry)->id, memory_order_relaxed);
}

struct fs_output_writing *fs_output_writing(uint32_t entry) {
  struct output_opened *held = held_of(entry);
  return held == NULL ? NULL : &held->writing;
}

static fs_err hold(uint32_t entry, struct fs_opened *h) {
  size_t got;
  struct fs_names_call c = {.op = FS_NAMES_OPEN, .flags = FS_OPEN_BYTES, .open.id = fs_output_id(entry)};
  fs_err err = fs_names_call(&c, "", "", h, sizeof(*h), &got);
  if (err != 0) return err;
  return got != sizeof(*h) || h->size > INT64_MAX || h->own > h->size || h->snapshot == 0 ||
                 h->snapshot >= FS_OUTPUT_SNAPSHOTS
             ? -EIO
             : 0;
}

/* Ends one OPEN that gave this snapshot. Nobody waits for that. */
static void give_back(uint32_t entry, uint32_t snapshot) {
  char body[8];
  size_t got;
  struct fs_names_call c = {.op = FS_NAMES_CLOSE, .close = {.id = fs_output_id(entry), .snapshot = snapshot}};
  if (snapshot != 0 && !fs_names_tell(FS_WANT_CLOSE | snapshot))
    (void)fs_names_call(&c, "", "", body, sizeof(body), &got);
}

/* Begins to write the fields. False: a signal handler of the writing thread, which goes without. */
static bool turn_begin(struct output_opened *held) {
  for (unsigned i = 0; i < FS_TURN_TRIES; i++) {
    uint32_t turn = atomic_load(&held->turn) & ~1u;
    if (atomic_compare_exchange_strong(&held->turn, &turn, turn + 1)) return true;
    FS_SYS0(SYS_sched_yield);
  }
  return false;
}

static void turn_end(struct output_opened *held, bool begun) {
  if (begun) atomic_fetch_add(&held->turn, 1);
}

/* Returns whether nothing has changed since. */
static bool turn_is(const struct output_opened *held, uint32_t turn) {
  if (turn % 2 == 0 && atomic_load(&held->turn) == turn) return true;
  if (turn % 2 != 0) FS_SYS0(SYS_sched_yield);
  return false;
}

static _Atomic uint64_t asked_last;

static uint64_t asked_now(void) {
  return atomic_fetch_add(&asked_last, 1) + 1;
}

static void answer_put(struct output_opened *held, const struct fs_opened *h) {
  uint64_t word[FS_OPENED_WORDS];
  memcpy(word, h, sizeof(word));
  for (unsigned i = 0; i < FS_OPENED_WORDS; i++) atomic_store(&held->answer[i], word[i]);
}

/* Takes home's last answer, and returns what `published` was before the question. If another thread
   writes it all the time, takes any. */
static uint32_t answer_take(const struct output_opened *held, struct fs_opened *h) {
  uint64_t word[FS_OPENED_WORDS];
  uint32_t published = 0;
  for (unsigned tries = 0; tries < FS_TURN_TRIES; tries++) {
    uint32_t turn = atomic_load(&held->turn);
    published = atomic_load(&held->published);
    for (unsigned i = 0; i < FS_OPENED_WORDS; i++) word[i] = atomic_load(&held->answer[i]);
    if (turn_is(held, turn)) break;
  }
  memcpy(h, word, sizeof(word));
  return published;
}

/* Returns whether the file's record is in shared memory and says what the file was at its last
   publication. */
static bool record_of(uint32_t entry, const struct output_opened *held, struct fs_record *r) {
  return fs_output_record_at(atomic_load(&held->slot), fs_output_id(entry), r) &&
         (r->flags & (FS_RECORD_PUBLISHED | FS_RECORD_SHARED)) == FS_RECORD_PUBLISHED;
}

static uint64_t record_version(uint32_t entry, const struct output_opened *held) {
  struct fs_record r;
  return record_of(entry, held, &r) ? r.version : 0;
}

/* Returns the token of the bytes that the file is open by, or 0. */
static uint32_t brought_of(const struct output_opened *held) {
  return atomic_load(&held->snapshot) == 0 ? atomic_load(&held->brought) : 0;
}

static void drop_brought(struct output_opened *held) {
  if (FS_LIKELY(atomic_load_explicit(&held->brought, memory_order_relaxed) == 0)) return;
  fs_batch_drop(atomic_exchange(&held->brought, 0));
  atomic_store(&held->gone, 0);
}

/* Returns how often programs of this node have appended to files of other nodes, as far as that is
   known. Such bytes are there for the whole node at once. */
static uint64_t node_appended(void) {
  const struct fs_node *node = fs_names_node();
  return node == NULL ? 0 : atomic_load(&node->ctl->appended);
}

/* Returns whether home's last answer is new, and the file was not published since. */
static bool is_fresh(uint32_t entry, const struct output_opened *held) {
  uint64_t version = atomic_load(&held->version);
  uint32_t brought = brought_of(held);
  if (FS_UNLIKELY(brought != 0 && atomic_load(&held->gone) != 0)) return true;
  return version != 0 && (brought != 0 || atomic_load(&held->snapshot) != 0) &&
         atomic_load(&held->changed) == atomic_load(&held->changes) &&
         atomic_load(&held->appended) == node_appended() &&
         fs_clock_ns(CLOCK_MONOTONIC_COARSE) - atomic_load(&held->at) < FS_FRESH_NS &&
         record_version(entry, held) == version;
}

/* What was so before a question. */
struct before {
  uint64_t asked, version, appended;
  uint32_t published, changes;
};

static struct before before_asking(uint32_t entry, const struct output_opened *held) {
  uint64_t asked = asked_now();
  return (struct before){.asked = asked,
                         .version = record_version(entry, held),
                         .appended = node_appended(),
                         .published = fs_output_published(entry),
                         .changes = atomic_load(&held->changes)};
}

static void answered(struct output_opened *held, const struct before *b, const struct fs_opened *h) {
  atomic_store(&held->version, b->version);
  atomic_store(&held->published, b->published);
  atomic_store(&held->appended, b->appended);
  atomic_store(&held->changed, b->changes);
  atomic_store(&held->asked, b->asked);
  atomic_store(&held->at, fs_clock_ns(CLOCK_MONOTONIC_COARSE));
  answer_put(held, h);
}

/* The file is open by a batch, and its home knows it no more: it was removed. It stays as it was. */
static bool is_gone(struct output_opened *held) {
  struct fs_opened h;
  if (brought_of(held) == 0) return false;
  (void)answer_take(held, &h);
  h.nameless = 1;
  bool begun = turn_begin(held);
  answer_put(held, &h);
  atomic_store(&held->gone, 1);
  turn_end(held, begun);
  return true;
}

/* Asks home once. Sets *old to the snapshot that is to be given back, or 0. */
static fs_err refresh_once(uint32_t entry, struct output_opened *held, uint32_t *old) {
  struct fs_opened h;
  const struct before b = before_asking(entry, held);
  fs_err err = hold(entry, &h);
  *old = err == 0 ? h.snapshot : 0;
  if (err != 0) return err == -ENOENT && is_gone(held) ? 0 : err;
  bool begun = turn_begin(held);
  if (atomic_load(&held->snapshot) == 0 || atomic_load(&held->asked) < b.asked) {
    answered(held, &b, &h);
    *old = atomic_exchange(&held->snapshot, h.snapshot);
    drop_brought(held);
  }
  turn_end(held, begun);
  return 0;
}

/* The answer's snapshot becomes this process's, unless another thread has asked later. A child that
   a signal handler forked in the middle of this asks for itself: its parent may give its own
   snapshot back at any time. */
fs_err fs_output_refresh(uint32_t entry) {
  struct output_opened *held = held_of(entry);
  if (held == NULL) return -EUCLEAN;
  for (;;) {
    uint32_t old;
    int32_t process = fs_self_process();
    fs_err err = refresh_once(entry, held, &old);
    if (FS_UNLIKELY(fs_self_process() != process)) continue;
    give_back(entry, old);
    return err;
  }
}

uint64_t fs_output_asked(uint32_t entry) {
  const struct output_opened *held = held_of(entry);
  return held == NULL ? UINT64_MAX : atomic_load(&held->asked);
}

/* Counts one open less and returns how many there were. */
static uint32_t not_open(struct output_opened *held) {
  uint32_t opens = atomic_load(&held->opens);
  while (opens > 0 && !atomic_compare_exchange_weak(&held->opens, &opens, opens - 1)) {
  }
  return opens;
}

/* Opens the file by a batch, if no other descriptor of this process has it open. What the process has
   written itself is then published. While a program of this node has a lock, homes are asked: what
   was written under a lock may be in another file than the locked one. */
static bool open_brought(uint32_t entry, struct output_opened *held) {
  struct fs_opened h;
  struct fs_record r;
  const struct before b = before_asking(entry, held);
  const struct fs_node *node = fs_names_node();
  bool may = fs_vfork_depth == 0 && atomic_load(&held->snapshot) == 0 && fs_output_written_end(entry) == 0 &&
             node != NULL && atomic_load(&node->ctl->lock_owners) == 0;
  if (!may || b.version == 0 || !record_of(entry, held, &r) || r.version != b.version) return false;
  uint32_t token = fs_batch_open(&r, b.appended, &h);
  if (token == 0) return false;
  bool begun = turn_begin(held), mine = begun && atomic_load(&held->snapshot) == 0;
  if (mine) {
    answered(held, &b, &h);
    token = atomic_exchange(&held->brought, token);
  }
  turn_end(held, begun);
  fs_batch_drop(token);
  return mine;
}

/* Returns whether these flags may open by a batch. O_CREAT with O_RDWR often opens a file to lock it. */
static bool may_bring(int flags) {
  int how = flags & O_ACCMODE;
  return !(flags & O_TRUNC) && (how == O_RDONLY || (how == O_RDWR && !(flags & O_CREAT)));
}

fs_err fs_output_open(uint32_t entry, uint32_t slot, int flags) {
  struct output_opened *held = held_of(entry);
  if (held == NULL) return -ENOMEM;
  uint32_t others = atomic_fetch_add(&held->opens, 1); /* first, for fs_output_close */
  atomic_store(&held->slot, slot);
  if (slot != 0 && others == 0 && may_bring(flags) && open_brought(entry, held)) return 0;
  fs_err err = fs_output_refresh(entry);
  /* A removed file of which this process has only the bytes cannot be written. */
  if (err == 0 && (flags & O_ACCMODE) != O_RDONLY && fs_output_is_brought(entry)) err = -ENOENT;
  if (err != 0) fs_output_unpin(entry, true); /* another thread's close may have left the end to this one */
  return err;
}

void fs_output_closed(struct fs_slot *s) {
  uint32_t entry = s->entry;
  struct output_opened *held = held_of(entry);
  if (held == NULL) return;
  if ((atomic_load_explicit(&s->flags, memory_order_relaxed) & O_ACCMODE) != O_RDONLY)
    (void)fs_output_flush(entry, false);
  fs_output_lock_closed(s);
  if (not_open(held) != 1) return; /* 0: an inherited file, of which nobody knows the last close */
  if (atomic_load(&s->shared))
    fs_output_keep(s);
  else
    fs_output_forget(entry);
  fs_output_forget_segments(entry);
  fs_output_writer_end(entry);
}

bool fs_output_pin(uint32_t entry) {
  struct output_opened *held = held_of(entry);
  uint32_t opens = held == NULL ? 0 : atomic_load(&held->opens);
  while (opens > 0 && !atomic_compare_exchange_weak(&held->opens, &opens, opens + 1)) {
  }
  return opens > 0;
}

void fs_output_unpin(uint32_t entry, bool pinned) {
  if (!pinned || not_open(held_of(entry)) != 1 || fs_vfork_depth > 0) return;
  fs_output_forget(entry);
  fs_output_forget_segments(entry);
  fs_output_writer_end(entry);
}

uint32_t fs_output_opens(uint32_t entry) {
  struct output_opened *held = held_of(entry);
  return held == NULL ? 0 : atomic_load(&held->opens);
}

void fs_output_forget(uint32_t entry) {
  struct output_opened *held = held_of(entry);
  if (held == NULL) return;
  drop_brought(held);
  give_back(entry, atomic_exchange(&held->snapshot, 0));
}

bool fs_output_read_brought(uint32_t entry, void *buf, size_t n, uint64_t off) {
  const struct output_opened *held = held_of(entry);
  uint32_t token = held == NULL ? 0 : brought_of(held);
  if (FS_LIKELY(token == 0) || !fs_batch_copy(token, buf, n, off)) return false;
  fs_count(FS_C_OUT_BYTES, n);
  return true;
}

bool fs_output_is_brought(uint32_t entry) {
  const struct output_opened *held = held_of(entry);
  return held != NULL && brought_of(held) != 0;
}

fs_err fs_output_at_home(uint32_t entry) {
  if (FS_LIKELY(!fs_output_is_brought(entry))) return 0;
  fs_err err = fs_output_refresh(entry);
  return err != 0 ? err : fs_output_is_brought(entry) ? FS_E_REAL : 0;
}

bool fs_output_only_here(uint32_t entry) {
  return fs_output_at_home(entry) != 0;
}

bool fs_output_is_open(uint32_t entry) {
  const struct output_opened *held = held_of(entry);
  return held != NULL && (atomic_load(&held->snapshot) != 0 || atomic_load(&held->brought) != 0);
}

void fs_output_close(uint32_t entry) {
  struct output_opened *held = held_of(entry);
  if (held == NULL) return;
  bool begun = turn_begin(held);
  uint32_t old = atomic_load(&held->opens) == 0 ? atomic_exchange(&held->snapshot, 0) : 0;
  turn_end(held, begun);
  give_back(entry, old);
}

void fs_output_changed(uint32_t entry) {
  struct output_opened *held = held_of(entry);
  if (held != NULL) atomic_fetch_add(&held->changes, 1);
}

void fs_output_copied_slot(const struct fs_slot *s) {
  struct output_opened *held = held_of(s->entry);
  if (held != NULL && atomic_load(&held->opens) > 0) atomic_fetch_add(&held->opens, 1);
}

static fs_err known_whole(uint32_t entry, struct fs_output_whole *w) {
  struct output_opened *held = held_of(entry);
  struct fs_opened h;
  int32_t process = fs_self_process();
  if (held == NULL) return -EUCLEAN;
  bool stale = atomic_load(&held->changed) != atomic_load(&held->changes);
  bool known = (atomic_load_explicit(&held->snapshot, memory_order_acquire) != 0 || brought_of(held) != 0) &&
               fs_output_published(entry) == atomic_load_explicit(&held->published, memory_order_relaxed);
  fs_err err = stale || !known ? fs_output_refresh(entry) : 0;
  w->published = answer_take(held, &h);
  w->size = h.size;
  w->own = h.own;
  w->list = h.list;
  w->segments = h.segments != 0;
  return err == 0 && FS_UNLIKELY(fs_self_process() != process) ? known_whole(entry, w) : err; /* wiped by a fork */
}

bool fs_output_list_is(uint32_t entry, struct fs_output_whole *w, uint64_t list) {
  struct output_opened *held = held_of(entry);
  if (w->list == list) return true;
  if (held == NULL || !w->any) return false;
  atomic_store(&held->asked, asked_now());
  w->list = list;
  return true;
}

fs_err fs_output_whole_for(uint32_t entry, uint64_t need, struct fs_output_whole *w) {
  uint64_t end = fs_output_written_end(entry); /* first: the daemon may publish it at any time */
  const struct output_opened *held = held_of(entry);
  bool fresh = held != NULL && is_fresh(entry, held); /* before the answer is taken */
  fs_err err = known_whole(entry, w);
  if (err == 0 && need > w->size && !fresh) {
    err = fs_output_refresh(entry);
    if (err == 0) err = known_whole(entry, w);
  }
  w->segments = w->segments || end > 0;
  w->size = FS_MAX(w->size, end);
  return err;
}

fs_err fs_output_size(uint32_t entry, uint64_t need, uint64_t *size) {
  struct fs_output_whole w = {0};
  fs_err err = fs_output_whole_for(entry, need, &w);
  if (err == 0) *size = w.size;
  return err;
}

fs_err fs_output_fstat(uint32_t mount, uint32_t entry, struct stat *st) {
  struct output_opened *held = held_of(entry);
  struct fs_opened h;
  if (held == NULL) return -EUCLEAN;
  bool pinned = fs_output_pin(entry);
  uint64_t end = fs_output_written_end(entry); /* first: the daemon may publish it at any time */
  fs_output_unpin(entry, pinned);
  fs_err err = is_fresh(entry, held) ? 0 : fs_output_refresh(entry);
  if (err != 0) return err;
  (void)answer_take(held, &h);
  struct fs_record r = {.id = fs_output_id(entry),
                        .mode = S_IFREG | (h.mode & 07777),
                        .size = FS_MAX(h.size, end),
                        .mtime = h.mtime,
                        .mtime_ns = h.mtime_ns,
                        .ctime = h.ctime,
                        .ctime_ns = h.ctime_ns};
  fs_output_record_stat(mount, &r, st);
  if (h.nameless != 0) st->st_nlink = 0;
  return 0;
}

bool fs_output_still_held(uint32_t entry, uint32_t snapshot) {
  const struct output_opened *held = held_of(entry);
  return held != NULL && atomic_load_explicit(&held->snapshot, memory_order_seq_cst) == snapshot;
}

fs_err fs_output_snapshot(uint32_t entry, struct fs_opened *h) {
  const struct output_opened *held = held_of(entry);
  if (held == NULL) return -EUCLEAN;
  for (unsigned tries = 0; tries < FS_SNAPSHOTS; tries++) {
    uint32_t turn = atomic_load(&held->turn);
    (void)answer_take(held, h);
    h->snapshot = atomic_load(&held->snapshot);
    if (h->snapshot != 0 && (turn_is(held, turn) || tries == FS_SNAPSHOTS - 1)) return 0;
    fs_err err = h->snapshot == 0 ? fs_output_refresh(entry) : 0;
    if (err == 0 && brought_of(held) != 0) err = -ENOENT;
    if (err != 0) return err;
  }
  return -EIO;
}
