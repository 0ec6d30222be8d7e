/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads output files of other nodes (outputs.h): raw blocks of a snapshot (opened.c) through the
 * node's cache, like a dataset's remote blocks.
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

struct out_reading {
  struct fs_dataset ds; /* stands for a dataset, for remote.c */
  struct fs_link *link;
  uint32_t snapshot;
  uint32_t block;
  uint64_t size, list, end;
};

static fs_err snapshot(uint32_t entry, struct out_reading *r) {
  struct fs_opened h;
  fs_err err = fs_output_snapshot(entry, &h);
  if (err != 0) return err;
  r->snapshot = h.snapshot;
  r->size = h.own;
  r->list = h.list;
  return 0;
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
  if (posted > 0) {
    fs_timing_slow(fs_now_ns());
    fs_remote_ring(&r->ds, r->link);
  }
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
  return fs_output_still_held(entry, r->snapshot) ? err : -ESTALE;
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
    done = 0;
    err = read_once(entry, &r, how->list, buf, n, off, &done);
    if (err == 0 && done == 0 && tries == 0) err = -ESTALE; /* the file may have grown */
    if (err == 0 || !worth_asking(err) || fs_now_ns() > end) break;
    /* If another thread has asked meanwhile, its answer is used. */
    bool ask = fs_output_still_held(entry, r.snapshot);
    if (ask && ++tries == FS_OUTPUT_TRIES) break;
    err = ask ? fs_output_refresh(entry) : 0;
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
  if (fs_output_is_brought(entry)) return 0; /* all bytes are here */
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
  fs_err err = fs_output_asked(segment) < fs_output_asked(entry) ? fs_output_refresh(segment) : 0;
  if (err == 0) return fs_output_read_backing(segment, buf, n, off, how);
  fs_count(FS_C_ERRORS, 1);
  told(segment, err);
  return -EIO;
}

static fs_ssize read_whole(uint32_t entry, void *buf, size_t n, uint64_t off) {
  struct fs_output_whole w = {0};
  fs_ssize got = -ESTALE;
  for (unsigned tries = 0; got == -ESTALE; tries++) {
    fs_err err = fs_output_whole_for(entry, off + n, &w);
    if (err != 0) return err == -ENOENT || err == -EHOSTDOWN || err == -EIO ? (told(entry, err), -EIO) : err;
    if (off >= w.size || n == 0) return 0;
    size_t len = FS_MIN(n, (size_t)(w.size - off));
    w.any = tries >= FS_OUTPUT_MAPS; /* the extent map changes all the time */
    if (w.segments || w.size > w.own)
      got = fs_output_read_segments(entry, &w, buf, len, off);
    else if (fs_output_read_brought(entry, buf, len, off))
      got = (fs_ssize)len;
    else
      got = fs_output_read_backing(
          entry, buf, len, off,
          &(struct fs_output_how){.block = FS_OUTPUT_BLOCK, .end = UINT64_MAX, .list = w.any ? 0 : w.list});
    if (got == -ESTALE) fs_output_changed(entry);
  }
  return got;
}

fs_ssize fs_output_read(uint32_t entry, void *buf, size_t n, uint64_t off) {
  if (FS_UNLIKELY(fs_bad_memory(buf, n))) return -EFAULT;
  fs_timing_begin();
  fs_ssize got = read_whole(entry, buf, n, off);
  fs_timing_end(FS_LATENCY_READ, FS_LATENCY_OUTPUT);
  return got;
}
