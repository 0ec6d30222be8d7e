/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads output files of other nodes (outputs.h): raw blocks through the node's cache, like a
 * dataset's remote blocks. A process asks home for a snapshot of its own (OPEN), which stands for
 * the contents until the process gives it back. So bytes that it reads while the snapshot is its
 * own are of that file. A forked child, and a program that inherits the descriptor, ask anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/data_priv.h"
#include "client/outputs/segment.h"
#include "util/util.h"

#define FS_OUTPUT_WINDOW 8u /* blocks in flight for one call */
#define FS_OUTPUT_TRIES 4u  /* so often a read asks for a new snapshot */
#define FS_OUTPUT_MAPS 16u  /* so often a read takes a new extent map */
#define FS_TURN_TRIES 100000u
#define FS_SNAPSHOTS 1000u

/* ---- what home says ---- */

struct output_opened {       /* beside a number; zeros in a forked child */
  _Atomic uint32_t snapshot; /* 0: none */
  _Atomic uint32_t opens;    /* this process's opens without a close, as far as it knows */
  _Atomic uint32_t turn;     /* odd: the next fields are being written */
  _Atomic uint64_t own;      /* bytes of home's backing file */
  _Atomic uint64_t size;     /* of the whole */
  _Atomic uint64_t list;     /* version of home's extent map at that time */
  _Atomic uint64_t asked;    /* order of that question; its segments are no older */
  _Atomic uint32_t segments; /* not 0: bytes are elsewhere */
  _Atomic uint32_t stale;    /* this process has changed the file since then */
  struct fs_output_writing writing;
};

static struct output_opened *held_of(uint32_t entry) {
  static void *_Atomic table;
  void *held = atomic_load_explicit(&table, memory_order_acquire);
  if (FS_UNLIKELY(held == NULL)) {
    void *mine = fs_mem_map_wiped(FS_OUTPUT_NODES * sizeof(struct output_opened));
    if (mine == NULL) return NULL;
    if (!fs_publish_ptr(&table, mine, &held)) fs_mem_unmap(mine, FS_OUTPUT_NODES * sizeof(struct output_opened));
  }
  return fs_output_node(entry) == NULL ? NULL : (struct output_opened *)held + (entry - FS_OUTPUT_FIRST);
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
  struct fs_names_call c = {.op = FS_NAMES_OPEN, .open.id = fs_output_id(entry)};
  fs_err err = fs_names_call(&c, "", "", h, sizeof(*h), &got);
  if (err != 0) return err;
  return got != sizeof(*h) || h->size > INT64_MAX || h->own > h->size || h->snapshot == 0 ||
                 h->snapshot >= FS_OUTPUT_SNAPSHOTS
             ? -EIO
             : 0;
}

/* Ends one OPEN that gave this snapshot. */
static void give_back(uint32_t entry, uint32_t snapshot) {
  char body[8];
  size_t got;
  struct fs_names_call c = {.op = FS_NAMES_CLOSE, .close = {.id = fs_output_id(entry), .snapshot = snapshot}};
  if (snapshot != 0) (void)fs_names_call(&c, "", "", body, sizeof(body), &got);
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

/* Asks home once. Sets *old to the snapshot that is to be given back, or 0. */
static fs_err refresh_once(uint32_t entry, struct output_opened *held, struct fs_opened *h, uint32_t *old) {
  uint64_t now = asked_now();
  fs_err err = hold(entry, h);
  *old = err == 0 ? h->snapshot : 0;
  if (err != 0) return err;
  bool begun = turn_begin(held);
  if (atomic_load(&held->snapshot) == 0 || atomic_load(&held->asked) < now) {
    atomic_store(&held->asked, now);
    atomic_store(&held->size, h->size);
    atomic_store(&held->segments, h->segments);
    atomic_store(&held->own, h->own);
    atomic_store(&held->list, h->list);
    *old = atomic_exchange(&held->snapshot, h->snapshot);
  }
  turn_end(held, begun);
  return 0;
}

/* Asks home what the file is now. The answer's snapshot becomes this process's, unless another
   thread has asked later. A child that a signal handler forked in the middle of this asks for
   itself: its parent may give its own snapshot back at any time. */
static fs_err refresh(uint32_t entry, struct fs_opened *h) {
  struct output_opened *held = held_of(entry);
  if (held == NULL) return -EUCLEAN;
  for (;;) {
    uint32_t old;
    int32_t process = fs_self_process();
    fs_err err = refresh_once(entry, held, h, &old);
    if (FS_UNLIKELY(fs_self_process() != process)) continue;
    give_back(entry, old);
    return err;
  }
}

/* Counts one open less and returns how many there were. */
static uint32_t not_open(struct output_opened *held) {
  uint32_t opens = atomic_load(&held->opens);
  while (opens > 0 && !atomic_compare_exchange_weak(&held->opens, &opens, opens - 1)) {
  }
  return opens;
}

fs_err fs_output_open(uint32_t entry) {
  struct output_opened *held = held_of(entry);
  struct fs_opened h;
  if (held == NULL) return -EUCLEAN;
  atomic_fetch_add(&held->opens, 1); /* first, for fs_output_close */
  fs_err err = refresh(entry, &h);
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
  if (held != NULL) give_back(entry, atomic_exchange(&held->snapshot, 0));
}

bool fs_output_is_open(uint32_t entry) {
  const struct output_opened *held = held_of(entry);
  return held != NULL && atomic_load(&held->snapshot) != 0;
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
  if (held != NULL) atomic_store(&held->stale, 1);
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
  bool stale = atomic_load_explicit(&held->stale, memory_order_relaxed) && atomic_exchange(&held->stale, 0);
  bool known = atomic_load_explicit(&held->snapshot, memory_order_acquire) != 0;
  fs_err err = stale || !known ? refresh(entry, &h) : 0;
  for (unsigned tries = 0; tries < FS_TURN_TRIES; tries++) {
    uint32_t turn = atomic_load(&held->turn);
    w->size = atomic_load(&held->size);
    w->own = atomic_load(&held->own);
    w->list = atomic_load(&held->list);
    w->segments = atomic_load(&held->segments) != 0;
    if (turn_is(held, turn)) break;
  }
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

/* Like known_whole, but asks again if less than `need` is known, and adds unpublished bytes. */
static fs_err whole_for(uint32_t entry, uint64_t need, struct fs_output_whole *w) {
  struct fs_opened h;
  fs_err err = known_whole(entry, w);
  if (err == 0 && need > w->size) {
    err = refresh(entry, &h);
    if (err == 0) err = known_whole(entry, w);
  }
  uint64_t end = err == 0 ? fs_output_written_end(entry) : 0;
  w->segments = w->segments || end > 0;
  w->size = FS_MAX(w->size, end);
  return err;
}

fs_err fs_output_size(uint32_t entry, uint64_t need, uint64_t *size) {
  struct fs_output_whole w = {0};
  fs_err err = whole_for(entry, need, &w);
  if (err == 0) *size = w.size;
  return err;
}

fs_err fs_output_fstat(uint32_t mount, uint32_t entry, struct stat *st) {
  struct fs_opened h;
  fs_err err = refresh(entry, &h);
  if (err != 0) return err;
  bool pinned = fs_output_pin(entry);
  uint64_t end = fs_output_written_end(entry);
  fs_output_unpin(entry, pinned);
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

/* ---- blocks ---- */

struct out_reading {
  struct fs_dataset ds; /* stands for a dataset, for remote.c */
  struct fs_link *link;
  uint32_t snapshot;
  uint32_t block;
  uint64_t size, list, end;
};

/* False: another thread gave the snapshot back, so bytes read by it may be another file's. */
static bool still_held(uint32_t entry, uint32_t snapshot) {
  const struct output_opened *held = held_of(entry);
  return held != NULL && atomic_load_explicit(&held->snapshot, memory_order_seq_cst) == snapshot;
}

/* Sets a snapshot and the size that belongs to it. */
static fs_err snapshot(uint32_t entry, struct out_reading *r) {
  const struct output_opened *held = held_of(entry);
  if (held == NULL) return -EUCLEAN;
  for (unsigned tries = 0; tries < FS_SNAPSHOTS; tries++) {
    struct fs_opened h;
    uint32_t turn = atomic_load(&held->turn);
    r->snapshot = atomic_load(&held->snapshot);
    r->size = atomic_load(&held->own);
    r->list = atomic_load(&held->list);
    if (r->snapshot != 0 && (turn_is(held, turn) || tries == FS_SNAPSHOTS - 1)) return 0;
    fs_err err = r->snapshot == 0 ? refresh(entry, &h) : 0;
    if (err != 0) return err;
  }
  return -EIO;
}

static void piece_set(const struct out_reading *r, struct fs_piece *p, uint8_t *dst, size_t n, uint64_t off) {
  uint64_t block = off / r->block, begin = block * r->block;
  uint32_t len = (uint32_t)FS_MIN(r->size - begin, r->block);
  *p = (struct fs_piece){.b = {.codec = FS_CODEC_RAW, .stored_len = len, .plain_len = len},
                         .dst = dst,
                         .off = (uint32_t)(off - begin),
                         .slot = -1};
  p->b.key = FS_CACHE_KEY_BLOCK(FS_OUTPUT_KEY(r->snapshot, block));
  p->n = (uint32_t)FS_MIN(n, (size_t)(len - p->off));
}

/* Starts a piece. Other threads of this process may have all slots. */
static fs_err submit(struct out_reading *r, struct fs_piece *p, bool wait) {
  struct fs_slot_wait turn = {0};
  fs_err err = fs_remote_submit(&r->ds, r->link, p, 0);
  while (err == -EAGAIN && wait && fs_wait_slot(&turn, r->ds.node->deadline_ns))
    err = fs_remote_submit(&r->ds, r->link, p, 0);
  return err;
}

/* Reads up to FS_OUTPUT_WINDOW blocks. Returns the bytes before the first error, *err. */
static size_t read_window(struct out_reading *r, uint8_t *dst, size_t n, uint64_t off, fs_err *err) {
  struct fs_piece p[FS_OUTPUT_WINDOW];
  fs_err started[FS_OUTPUT_WINDOW];
  unsigned count = 0, posted = 0;
  size_t done = 0;
  for (; count < FS_OUTPUT_WINDOW && n > 0; count++) {
    piece_set(r, &p[count], dst, n, off);
    started[count] = submit(r, &p[count], posted == 0);
    if (started[count] == -EAGAIN) break;
    posted += p[count].slot >= 0;
    dst += p[count].n;
    off += p[count].n;
    n -= p[count].n;
  }
  if (posted > 0) fs_remote_ring(&r->ds, r->link);
  *err = count == 0 ? -EAGAIN : 0;
  for (unsigned k = 0; k < count; k++) {
    if (*err < 0) {
      fs_remote_cancel(r->link, &p[k]);
      continue;
    }
    *err = started[k] == 1 ? 0 : p[k].slot >= 0 ? fs_remote_collect(&r->ds, r->link, &p[k]) : started[k];
    if (*err < 0) continue;
    fs_count(FS_C_OUT_BYTES, p[k].n);
    done += p[k].n;
  }
  return done;
}

static fs_err read_all(uint32_t entry, struct out_reading *r, uint8_t *dst, size_t n, uint64_t off, size_t *done) {
  fs_err err = 0;
  n = FS_MIN(n, (size_t)(r->size - off));
  uint64_t blocks = (FS_MIN(r->size, r->end) + r->block - 1) / r->block;
  for (uint64_t block = off / r->block; err == 0 && *done < n;) {
    *done += read_window(r, dst + *done, n - *done, off + *done, &err);
    for (; err == 0 && *done > 0 && block * r->block < off + *done; block++)
      fs_remote_ahead_out(&r->ds, r->link, entry, r->snapshot, block, blocks);
  }
  return err;
}

static void told(uint32_t entry, fs_err err) {
  char id[FS_U64_TEXT], home[FS_U64_TEXT];
  uint64_t number = fs_output_id(entry);
  FS_NOTE("output file ", fs_u64_text(number, id), " cannot be read from node ",
          fs_u64_text(FS_OUTPUT_ID_RANK(number), home), ", which has it (", fs_err_text(err), ")");
}

/* Begins again in a child that a signal handler forked meanwhile: the pins were its parent's. */
static fs_err read_once(uint32_t entry, struct out_reading *r, uint64_t list, void *buf, size_t n, uint64_t off,
                        size_t *done) {
  struct fs_link borrowed;
  int32_t process;
  fs_err err = snapshot(entry, r);
  if (err == 0 && list != 0 && r->list != list) err = -EREMCHG;
  if (err != 0 || off >= r->size) return err;
  do {
    process = fs_self_process();
    *done = 0;
    r->link = fs_link_get();
    if (!r->link) r->link = fs_link_borrow(&borrowed);
    err = r->link ? read_all(entry, r, buf, n, off, done) : -EHOSTDOWN;
    if (r->link == &borrowed) fs_link_return(&borrowed);
  } while (FS_UNLIKELY(fs_self_process() != process));
  return still_held(entry, r->snapshot) ? err : -ESTALE;
}

/* Asking again helps if the file is another by now, or the snapshot is not known any more. */
static bool worth_asking(fs_err err) {
  return err == -EREMOTEIO || err == -EBADMSG || err == -EINVAL || err == -ESTALE || err == -ENOENT;
}

static struct out_reading reading(const struct fs_output_how *how) {
  return (struct out_reading){.ds.number = how->block == FS_OUTPUT_GRAIN ? FS_MAX_DATASETS + 1 : FS_MAX_DATASETS,
                              .ds.node = fs_names_node(),
                              .block = how->block,
                              .end = how->end};
}
static const struct fs_output_how in_order = {.block = FS_OUTPUT_BLOCK, .end = UINT64_MAX};

fs_ssize fs_output_read_backing(uint32_t entry, void *buf, size_t n, uint64_t off, const struct fs_output_how *how) {
  struct out_reading r = reading(how);
  size_t done = 0;
  fs_err err = r.ds.node == NULL ? -EIO : 0;
  uint64_t end = err == 0 ? fs_now_ns() + r.ds.node->deadline_ns : 0;
  for (unsigned tries = 0; err == 0;) {
    struct fs_opened h;
    done = 0;
    err = read_once(entry, &r, how->list, buf, n, off, &done);
    if (err == 0 && done == 0 && tries == 0) err = -ESTALE; /* the file may have grown */
    if (err == 0 || !worth_asking(err) || fs_now_ns() > end) break;
    /* If another thread has asked meanwhile, its answer is used. */
    bool ask = still_held(entry, r.snapshot);
    if (ask && ++tries == FS_OUTPUT_TRIES) break;
    err = ask ? refresh(entry, &h) : 0;
  }
  if (err == -EREMCHG) return -ESTALE;
  if (err == -ESTALE) done = 0;
  if (done > 0 || err == 0) return (fs_ssize)done;
  if (err == -EFAULT) return err;
  fs_count(FS_C_ERRORS, 1);
  told(entry, err);
  return -EIO;
}

fs_err fs_output_prefetch_from(uint32_t entry, uint64_t *off, uint64_t end) {
  struct out_reading r = reading(&in_order);
  if (r.ds.node && fs_output_home_here(r.ds.node, fs_output_id(entry))) return 0;
  r.link = r.ds.node ? fs_link_get() : NULL;
  fs_err err = r.link ? snapshot(entry, &r) : -EHOSTDOWN;
  if (err != 0) return err;
  for (end = FS_MIN(end, r.size); err == 0 && *off < end;) {
    uint64_t block = *off / FS_OUTPUT_BLOCK;
    err =
        fs_remote_want(&r.ds, r.link, &(struct fs_block){.key = FS_CACHE_KEY_BLOCK(FS_OUTPUT_KEY(r.snapshot, block))});
    if (err == 0) *off = (block + 1) * FS_OUTPUT_BLOCK;
  }
  fs_remote_ring(&r.ds, r.link);
  return err;
}

fs_ssize fs_output_read_segment(uint32_t entry, uint32_t segment, void *buf, size_t n, uint64_t off,
                                const struct fs_output_how *how) {
  const struct output_opened *whole = held_of(entry), *held = held_of(segment);
  struct fs_opened h;
  bool old = whole && held && atomic_load(&held->asked) < atomic_load(&whole->asked);
  fs_err err = old ? refresh(segment, &h) : 0;
  if (err == 0) return fs_output_read_backing(segment, buf, n, off, how);
  fs_count(FS_C_ERRORS, 1);
  told(segment, err);
  return -EIO;
}

fs_ssize fs_output_read(uint32_t entry, void *buf, size_t n, uint64_t off) {
  struct fs_output_whole w = {0};
  fs_ssize got = -ESTALE;
  if (FS_UNLIKELY(fs_bad_memory(buf, n))) return -EFAULT;
  for (unsigned tries = 0; got == -ESTALE; tries++) {
    fs_err err = whole_for(entry, off + n, &w);
    if (err != 0) return err == -ENOENT || err == -EHOSTDOWN || err == -EIO ? (told(entry, err), -EIO) : err;
    if (off >= w.size || n == 0) return 0;
    size_t len = FS_MIN(n, (size_t)(w.size - off));
    w.any = tries >= FS_OUTPUT_MAPS; /* the extent map changes all the time */
    if (w.segments || w.size > w.own)
      got = fs_output_read_segments(entry, &w, buf, len, off);
    else
      got = fs_output_read_backing(
          entry, buf, len, off,
          &(struct fs_output_how){.block = FS_OUTPUT_BLOCK, .end = UINT64_MAX, .list = w.any ? 0 : w.list});
    if (got == -ESTALE) fs_output_changed(entry);
  }
  return got;
}
