/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a range of a file. Cuts the range into pieces of blocks and gets each from the best place
 * that works: the node's own partition, the node's cache or a peer through the daemon, or the copy
 * on shared storage. client/files and materialize.c call this. No locks. Nothing is allocated,
 * except for blocks too large for the decoded-block cache.
 */
#include "client/data_priv.h"
#include "util/util.h"

#define FS_READ_MAX 0x7ffff000u /* as read(2) */
#define FS_WINDOW 8u            /* blocks in flight for one call */
#define FS_OPENED_BYTES 512u    /* behind these the processor fetches ahead by itself */

struct fs_reading {
  struct fs_dataset *ds;
  struct fs_link *link; /* NULL: no daemon at this time */
  uint32_t entry;
  int32_t process; /* began the read */
  fs_err err;
};

/* ---- the places ---- */

static fs_err fs_read_local(struct fs_dataset *ds, struct fs_piece *p) {
  const struct fs_block *b = &p->b;
  uint64_t end = b->offset + b->stored_len;
  struct fs_stored s;
  p->place = FS_PLACE_IS_LOCAL;
  if (fs_piece_raw(p) && fs_checked(ds, FS_CHECK_LOCAL, b->key))
    return fs_local_copy(ds, b->partition, p->dst, p->n, b->offset + p->off, b->offset, end);
  if (fs_piece_raw(p) && fs_piece_whole(p)) { /* what is checked is what the caller gets */
    fs_err err = fs_local_copy(ds, b->partition, p->dst, p->n, b->offset, b->offset, end);
    return err < 0 ? err : fs_local_check(ds, b, p->dst, NULL);
  }
  fs_err err = fs_local_stored(ds, b, &s);
  if (err < 0) return err;
  err = fs_decode_piece(ds, s.bytes, p);
  fs_local_stored_end(&s);
  return err;
}

static fs_err fs_read_shared(struct fs_dataset *ds, struct fs_piece *p) {
  const struct fs_block *b = &p->b;
  struct fs_scratch s;
  bool raw = fs_piece_raw(p);
  p->place = FS_PLACE_IS_SHARED;
  if (raw && fs_piece_whole(p)) return fs_shared_block(ds, b, p->dst, NULL);
  if (raw && fs_checked(ds, FS_CHECK_SHARED, b->key)) return fs_shared_range(ds, b, p->dst, p->n, p->off);
  fs_err err = fs_scratch_get(ds, b->stored_len, &s);
  if (err < 0) return err;
  err = fs_shared_block(ds, b, s.buf, &s);
  if (err == 0) err = fs_decode_piece(ds, s.buf, p);
  fs_scratch_put(&s, err == 0 && raw ? b->key : FS_KEY_NONE, b->plain_len);
  return err;
}

/* ---- errors ---- */

static const char *fs_owner_list(const struct fs_dataset *ds, uint32_t partition, char *out, size_t size) {
  const struct fs_placement *p = &ds->placement[partition];
  char *at = out, number[FS_U64_TEXT];
  *at = '\0';
  for (unsigned i = 0; i < p->owners && i < FS_MAX_OWNERS && at + 10 < out + size; i++) {
    if (i > 0) *at++ = ',';
    for (const char *d = fs_u64_text(p->owner[i], number); *d; d++) *at++ = *d;
    *at = '\0';
  }
  return out;
}

/* Tells the user in one line which file and block it is, where it should have been, why it cannot
   be had, and what to do. */
static void fs_read_told(const struct fs_reading *r, const struct fs_piece *p, fs_err err) {
  char name[2048], shown[2048], part[FS_PART_NAME_SIZE], block[FS_U64_TEXT], owners[64] = "";
  const struct fs_dataset *ds = r->ds;
  size_t len;
  fs_ssize n = fs_index_path(&ds->ix, r->entry, name, sizeof(name));
  const char *file = n < 0 ? "(a file)" : fs_printable(name, (size_t)n, shown, sizeof(shown));
  uint64_t i = p->b.key & FS_KEY_BLOCK ? (p->b.key & ~FS_KEY_BLOCK) - ds->ix.entries[r->entry].data : 0;
  bool nodes = fs_is_remote(ds, p->b.partition);
  if (nodes) fs_owner_list(ds, p->b.partition, owners, sizeof(owners));
  FS_NOTE(fs_mount_path(ds->mount, &len), "/", file, ": block ", fs_u64_text(i, block), " cannot be read",
          nodes ? ", not from node " : "", owners, nodes ? " (" : "", nodes ? fs_err_text(p->missed) : "",
          nodes ? ") and not" : "", " from ", ds->shared, "/", fs_part_name(p->b.partition, part), " (",
          fs_err_text(err), "); run 'fs-prepare verify' on the dataset");
}

static fs_err fs_read_failed(const struct fs_reading *r, const struct fs_piece *p, fs_err err) {
  /* A child begins the read again. */
  if (err == -EFAULT || fs_self_process() != r->process) return err;
  fs_count(FS_C_ERRORS, 1);
  fs_read_told(r, p, err);
  return -EIO;
}

/* ---- windows of blocks ---- */

/* Starts what takes time. Returns 1 if done already, 0 if it must be finished, or a negative errno
   if the shared copy is next. */
static fs_err fs_piece_start(const struct fs_reading *r, struct fs_piece *p) {
  struct fs_dataset *ds = r->ds;
  p->slot = -1;
  bool local = fs_is_local(ds, p->b.partition), remote = fs_is_remote(ds, p->b.partition);
  p->place = local ? FS_PLACE_IS_LOCAL : remote ? FS_PLACE_IS_CACHE : FS_PLACE_IS_SHARED;
  if ((!fs_piece_whole(p) && (!fs_piece_raw(p) || !local)) && fs_decoded_copy(ds, p)) return 1;
  return local || !remote || !r->link ? 0 : fs_remote_submit(ds, r->link, p, 0);
}

static fs_err fs_piece_ask(const struct fs_reading *r, struct fs_piece *p, uint32_t flags) {
  fs_err err = fs_remote_submit(r->ds, r->link, p, flags);
  if (err == 1) return 0;
  if (err < 0) return err;
  fs_remote_ring(r->ds, r->link);
  return fs_remote_collect(r->ds, r->link, p);
}

/* Looks for another node that has the block, if the local copy fails. */
static fs_err fs_piece_elsewhere(const struct fs_reading *r, struct fs_piece *p, fs_err err) {
  if (!r->link || r->ds->placement[p->b.partition].owners < 2) return err;
  return fs_piece_ask(r, p, 0);
}

/* Reads from the shared copy. If that fails too, slow nodes are better than an error. */
static fs_err fs_piece_missed(const struct fs_reading *r, struct fs_piece *p) {
  fs_err err = fs_read_shared(r->ds, p);
  if (err == 0 || err == -EFAULT || p->missed != -EREMOTEIO || !r->link) return err;
  fs_err late = fs_piece_ask(r, p, FS_REQ_PATIENT);
  return late == 0 || late == -EFAULT ? late : err;
}

static fs_err fs_piece_finish(const struct fs_reading *r, struct fs_piece *p, fs_err err) {
  struct fs_dataset *ds = r->ds;
  bool local = fs_is_local(ds, p->b.partition), remote = fs_is_remote(ds, p->b.partition);
  if (p->slot >= 0) {
    err = fs_remote_collect(ds, r->link, p);
  } else if (err == 0 && local) {
    err = fs_read_local(ds, p);
    if (err == -EIO) fs_local_failed(ds, p->b.partition);
    if (err < 0 && err != -EFAULT) err = fs_piece_elsewhere(r, p, err);
  } else if (err == 0) {
    err = -ENODEV; /* this node gives no way to it */
  }
  if (err == 0 || err == -EFAULT) return err;
  if (local || remote) fs_count(FS_C_FALLBACKS, 1);
  p->missed = err;
  return fs_piece_missed(r, p);
}

/* Finds the block at `off` of the file and the part of it that is wanted. */
static fs_err fs_piece_set(const struct fs_reading *r, struct fs_piece *p, uint8_t *dst, size_t n, uint64_t off) {
  const struct fs_index *ix = &r->ds->ix;
  fs_err err = fs_index_block(ix, r->entry, off >> ix->block_shift, &p->b);
  if (err < 0) return -EUCLEAN;
  p->off = (uint32_t)(off & (ix->block_size - 1));
  if (p->off >= p->b.plain_len) return -EUCLEAN;
  p->n = (uint32_t)FS_MIN(n, (size_t)(p->b.plain_len - p->off));
  p->dst = dst;
  return 0;
}

/* Waits for a slot if other threads of this process have all, as long as for an answer at most.
   Slots that a jump out of a signal handler left behind never come back: then only the first read
   waits. */
static fs_err fs_piece_await(const struct fs_reading *r, struct fs_piece *p) {
  struct fs_slot_wait wait = {0};
  fs_err err = -EAGAIN;
  if (atomic_load_explicit(&r->link->full, memory_order_relaxed)) return err;
  while (err == -EAGAIN && fs_wait_slot(&wait, r->ds->node->deadline_ns)) err = fs_piece_start(r, p);
  if (err == -EAGAIN) atomic_store_explicit(&r->link->full, 1, memory_order_relaxed);
  return err;
}

/* Starts up to FS_WINDOW blocks and returns their number. Stops early if the channel is full and
   something is in flight. */
static unsigned fs_window_start(struct fs_reading *r, struct fs_piece *p, fs_err *started, uint8_t *dst, size_t n,
                                uint64_t off) {
  unsigned k = 0, posted = 0;
  for (; k < FS_WINDOW && n > 0; k++) {
    r->err = fs_piece_set(r, &p[k], dst, n, off);
    if (r->err < 0) break;
    started[k] = fs_piece_start(r, &p[k]);
    if (started[k] == -EAGAIN && posted == 0) started[k] = fs_piece_await(r, &p[k]);
    if (started[k] == -EAGAIN && posted > 0) break;
    posted += p[k].slot >= 0;
    dst += p[k].n;
    n -= p[k].n;
    off += p[k].n;
  }
  if (posted > 0) {
    fs_timing_slow(fs_now_ns()); /* the daemon that is woken may get this processor */
    fs_remote_ring(r->ds, r->link);
  }
  return k;
}

/* Reads a window. Returns the bytes. If a block fails, returns those before it and sets r->err. */
static size_t fs_window_read(struct fs_reading *r, uint8_t *dst, size_t n, uint64_t off, enum fs_place *place) {
  struct fs_piece p[FS_WINDOW];
  fs_err started[FS_WINDOW];
  size_t done = 0;
  unsigned count = fs_window_start(r, p, started, dst, n, off);
  fs_err bad = r->err; /* the error of the block after these */
  r->err = 0;
  for (unsigned k = 0; k < count; k++) {
    if (r->err < 0) {
      if (p[k].slot >= 0) fs_remote_cancel(r->link, &p[k]);
      continue;
    }
    fs_err err = started[k] == 1 ? 0 : fs_piece_finish(r, &p[k], started[k]);
    if (err < 0) {
      r->err = fs_read_failed(r, &p[k], err);
      continue;
    }
    if (place && done == 0) *place = p[k].place;
    fs_count_place(p[k].place, 1, p[k].n);
    done += p[k].n;
    if (r->link && (p[k].b.key & FS_KEY_BLOCK) && !fs_is_local(r->ds, p[k].b.partition))
      fs_remote_ahead(r->ds, r->link, r->entry, (off + done - 1) >> r->ds->ix.block_shift);
  }
  if (r->err == 0) r->err = bad;
  return done;
}

/* Reads window by window. A child that a signal handler forked in the middle of it begins again:
   the memory of the decoded blocks was wiped, and the pins were its parent's. */
static size_t fs_read_windows(struct fs_reading *r, uint8_t *dst, size_t n, uint64_t off, enum fs_place *place) {
  struct fs_link borrowed;
  size_t done;
  do {
    r->process = fs_self_process();
    done = 0;
    r->err = 0;
    r->link = r->ds->node ? fs_link_get() : NULL;
    if (FS_UNLIKELY(!r->link && r->ds->node)) r->link = fs_link_borrow(&borrowed);
    while (done < n && r->err == 0) done += fs_window_read(r, dst + done, n - done, off + done, done ? NULL : place);
    if (FS_UNLIKELY(r->link == &borrowed)) fs_link_return(&borrowed);
  } while (FS_UNLIKELY(fs_self_process() != r->process));
  return done;
}

/*
 * Reads a raw file that lies in one piece, by one copy from a local partition or one pread of the
 * shared copy, for any number of blocks. This is the hot path. Returns false if the read must go
 * block by block.
 */
static bool fs_read_straight(const struct fs_reading *r, uint8_t *dst, size_t n, uint64_t off, enum fs_place *place,
                             fs_err *err) {
  struct fs_dataset *ds = r->ds;
  uint32_t partition;
  uint64_t begin;
  if (!fs_index_place(&ds->ix, r->entry, &partition, &begin)) return false;
  if (FS_LIKELY(fs_is_local(ds, partition))) {
    if (FS_UNLIKELY(ds->verify == FS_VERIFY_ALWAYS) && !fs_checked_range(ds, FS_CHECK_LOCAL, r->entry, off, n))
      return false;
    *err = fs_local_copy(ds, partition, dst, n, begin + off, begin, begin + fs_index_entry(&ds->ix, r->entry)->size);
  } else {
    if (fs_is_remote(ds, partition)) return false;
    *err = fs_shared_straight(ds, r->entry, &(struct fs_straight){partition, begin, dst, n, off});
    *place = FS_PLACE_IS_SHARED;
  }
  if (*err == 0) fs_count_place(*place, ((off + n - 1) >> ds->ix.block_shift) - (off >> ds->ix.block_shift) + 1, n);
  return *err == 0 || *err == -EFAULT;
}

/*
 * Reads a range inside one raw block that is in the node's cache, without the bookkeeping for
 * several blocks. A file of one block, as most are, has its entry for a key. Returns false if the
 * read must go the long way.
 */
static bool fs_read_cached(const struct fs_reading *r, uint8_t *dst, size_t n, uint64_t off, enum fs_place *place) {
  struct fs_dataset *ds = r->ds;
  const struct fs_entry *e = fs_index_entry(&ds->ix, r->entry);
  uint64_t key = r->entry;
  uint32_t stored = (uint32_t)e->size, from = (uint32_t)off;
  if (!ds->node) return false;
  if (e->size > ds->ix.block_size || (FS_NAME_FLAGS(e->name) & FS_ENTRY_BLOCKS) ||
      FS_NAME_CODEC(e->name) != FS_CODEC_RAW) {
    struct fs_piece p;
    if ((off ^ (off + n - 1)) >> ds->ix.block_shift != 0) return false;
    if (fs_piece_set(r, &p, dst, n, off) < 0 || p.n != n || !fs_piece_raw(&p)) return false;
    if (fs_is_local(ds, p.b.partition)) return false;
    key = p.b.key;
    stored = p.b.stored_len;
    from = p.off;
  }
  if (!fs_cache_copy(&ds->node->view, FS_CACHE_KEY(ds->number, key), stored, dst, from, (uint32_t)n)) return false;
  *place = FS_PLACE_IS_CACHE;
  fs_count_place(FS_PLACE_IS_CACHE, 1, n);
  struct fs_link *link = key & FS_KEY_BLOCK ? fs_link_get() : NULL;
  if (link) fs_remote_ahead(ds, link, r->entry, off >> ds->ix.block_shift);
  return true;
}

void fs_data_opened(uint32_t mount, uint32_t entry) {
  fs_err err;
  struct fs_dataset *ds = fs_dataset(mount, &err);
  uint32_t partition;
  uint64_t begin;
  if (!ds || !fs_index_place(&ds->ix, entry, &partition, &begin)) return;
  if (fs_is_local(ds, partition)) {
    const uint8_t *map = atomic_load_explicit(&ds->part[partition].map, memory_order_acquire);
    uint64_t n = map ? FS_MIN(fs_index_entry(&ds->ix, entry)->size, FS_OPENED_BYTES) : 0;
    for (uint64_t at = 0; at < n; at += 64) __builtin_prefetch(map + begin + at);
  } else if (fs_is_remote(ds, partition)) {
    fs_cache_soon(&ds->node->view, FS_CACHE_KEY(ds->number, entry), FS_OPENED_BYTES);
  }
}

static inline fs_ssize fs_read_any(struct fs_reading *r, void *buf, size_t n, uint64_t off, enum fs_place *place) {
  if (fs_read_straight(r, buf, n, off, place, &r->err)) return r->err < 0 ? r->err : (fs_ssize)n;
  if (fs_read_cached(r, buf, n, off, place)) return (fs_ssize)n;
  size_t done = fs_read_windows(r, buf, n, off, place);
  return done > 0 ? (fs_ssize)done : r->err;
}

fs_ssize fs_dataset_read(uint32_t mount, uint32_t entry, void *buf, size_t n, uint64_t off, enum fs_place *place) {
  struct fs_reading r = {.entry = entry};
  enum fs_place ignored;
  if (!place) place = &ignored;
  *place = FS_PLACE_IS_LOCAL;
  r.ds = fs_dataset(mount, &r.err);
  const struct fs_entry *e = r.ds ? fs_index_entry(&r.ds->ix, entry) : NULL;
  if (!e) return r.ds ? -EUCLEAN : r.err;
  if (!S_ISREG(e->mode)) return -EUCLEAN;
  if (off >= e->size || n == 0) return 0;
  if (FS_UNLIKELY(fs_bad_address(buf))) return -EFAULT;
  n = FS_MIN(n, (size_t)FS_MIN(e->size - off, FS_READ_MAX));
  fs_timing_begin();
  fs_ssize got = fs_read_any(&r, buf, n, off, place);
  if (fs_timing_chosen())
    fs_timing_count_read(&(struct fs_timed_read){r.ds->number, entry, *place, r.ds->node ? got : 0});
  return got;
}
