/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes files that have another node for a home, or that several processes write (outputs.h;
 * docs/internals/several-writers.md). The bytes go to a segment, a backing file without a name on
 * this node, at their offset in the file. Their ranges are kept here until fsync or close tells
 * home. segments.c reads them back.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "client/data_priv.h"
#include "client/outputs/outputs.h"
#include "client/outputs/segment.h"
#include "util/util.h"

#define FS_LOCK_TRIES 100000u
#define FS_SEALED_TRIES 20000u
#define FS_LATE_TRIES 4u
#define FS_SEEN_NS 1000000000ull /* between two publications of a file that is being written */

/* ---- the segment ---- */

static bool lock(struct fs_output_writer *w) {
  for (unsigned i = 0; i < FS_LOCK_TRIES; i++) {
    if (atomic_exchange_explicit(&w->lock, 1, memory_order_acquire) == 0) return true;
    FS_SYS0(SYS_sched_yield);
  }
  return false; /* a signal handler of the thread that has it */
}

static void unlock(struct fs_output_writer *w) {
  atomic_store_explicit(&w->lock, 0, memory_order_release);
}

static fs_fd open_segment(const struct fs_node *node, uint64_t segment, uint32_t flags) {
  char path[PATH_MAX];
  fs_err err = fs_output_path(node, segment, path);
  return err != 0 ? err : fs_sys_openat(AT_FDCWD, path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
}

/* Opens a segment that may be there, if it is of this node and was not dropped meanwhile. */
static fs_fd open_old(const struct fs_node *node, uint64_t segment) {
  bool here = (segment & FS_OUTPUT_ID) && segment >> 63 == 0 && FS_OUTPUT_ID_RANK(segment) == fs_names_rank(node);
  return here ? open_segment(node, segment, 0) : -ENOENT;
}

/* Asks the daemon for the segment that this node has of the file, or 0. If there is none, `offered`
   becomes it. */
static fs_err ask_segment(uint32_t entry, uint64_t offered, uint64_t *segment) {
  const struct fs_names_call c = {.op = FS_NAMES_OFFER, .offer = {.file = fs_output_id(entry), .segment = offered}};
  size_t got;
  fs_err err = fs_names_call(&c, "", "", segment, sizeof(*segment), &got);
  return err == 0 && got != sizeof(*segment) ? -EIO : err;
}

/* Makes a new segment. If another program offers one first, that one is the node's, and this one
   goes. */
static fs_fd new_segment(const struct fs_node *node, uint32_t entry, bool offer, uint64_t *segment) {
  char path[PATH_MAX];
  uint64_t taken;
  fs_fd fd;
  do { /* EEXIST: the number was shared by a fork in a signal handler */
    *segment = fs_names_id();
    fd = *segment == 0 ? -EIO : open_segment(node, *segment, O_CREAT | O_EXCL);
  } while (fd == -EEXIST);
  if (fd < 0 || !offer || ask_segment(entry, *segment, &taken) != 0 || taken == *segment) return fd;
  fs_fd other = open_old(node, taken);
  if (other < 0) return fd;
  fs_sys_close(fd);
  if (fs_output_path(node, *segment, path) == 0) FS_SYS3(SYS_unlinkat, AT_FDCWD, path, 0);
  *segment = taken;
  return other;
}

/* Finds the one segment of all writers of the file on this node, so that a file that is written
   anew each epoch takes no more room each time. The processes that share the table remember it.
   Without a daemon's answer the writer has one of its own. */
static fs_fd find_segment(const struct fs_node *node, uint32_t entry, uint64_t *segment) {
  struct fs_output_node *n = fs_output_node(entry);
  *segment = n == NULL ? 0 : atomic_load_explicit(&n->segment, memory_order_relaxed);
  fs_fd fd = open_old(node, *segment);
  if (fd >= 0) return fd;
  fs_err err = ask_segment(entry, 0, segment);
  if (err == 0) fd = open_old(node, *segment);
  if (fd < 0) fd = new_segment(node, entry, err == 0, segment);
  if (fd >= 0 && n != NULL) atomic_store_explicit(&n->segment, *segment, memory_order_relaxed);
  return fd;
}

static fs_err make_segment(struct fs_output_writer *w, uint32_t entry) {
  const struct fs_node *node = fs_names_node();
  bool temporary;
  if (node == NULL) return -EIO;
  fs_fd low = find_segment(node, entry, &w->segment);
  fs_fd fd = low < 0 ? low : fs_own_publish(&w->fd, low, &temporary);
  if (fd >= 0 && temporary) {
    fs_sys_close(fd);
    fd = -EMFILE; /* a vfork child, or no number to spare */
  }
  return fd < 0 ? fd : 0;
}

/* Writers of files that were closed, to be used again. */
static void *_Atomic spare[64];

static struct fs_output_writer *writer_new(void) {
  for (unsigned i = 0; i < FS_ARRAY_LEN(spare); i++) {
    struct fs_output_writer *w = atomic_exchange(&spare[i], NULL);
    if (w != NULL) return w;
  }
  return fs_mem_map(sizeof(struct fs_output_writer));
}

static void writer_drop(struct fs_output_writer *w) {
  int32_t fd = atomic_exchange(&w->fd, 0);
  void *none = NULL;
  if (fd > 0) fs_own_close(fd - 1);
  w->segment = 0;
  w->count = 0;
  atomic_store(&w->sealed, 0);
  atomic_store(&w->failed, 0);
  atomic_store(&w->placed, 0);
  atomic_store(&w->appended, 0);
  for (unsigned i = 0; i < FS_ARRAY_LEN(spare); i++, none = NULL)
    if (atomic_compare_exchange_strong(&spare[i], &none, w)) return;
}

/* ---- calls that have it in hand (tests/model/writer.pml) ---- */

/* Begins a call that uses the writer. Returns false in a signal handler of the thread that drops
   it. */
static bool begin(struct fs_output_writing *at) {
  for (unsigned i = 0; at != NULL && i < FS_LOCK_TRIES; i++) {
    uint32_t uses = atomic_load(&at->uses);
    while (!(uses & FS_WRITING_ENDS))
      if (atomic_compare_exchange_weak(&at->uses, &uses, uses + 1)) return true;
    FS_SYS0(SYS_sched_yield);
  }
  return false;
}

static fs_err flush(uint32_t entry, bool sync);

/* Ends a call that uses the writer. A child that a signal handler forked in the middle of a call
   has none to end. */
static void finish(struct fs_output_writing *at, uint32_t entry) {
  uint32_t uses = atomic_load(&at->uses), next;
  do {
    if ((uses & ~(FS_WRITING_ENDS | FS_WRITING_LEFT)) == 0) return;
    next = uses == (FS_WRITING_LEFT | 1) ? 0 : uses - 1;
  } while (!atomic_compare_exchange_weak(&at->uses, &uses, next));
  if (FS_LIKELY(uses != (FS_WRITING_LEFT | 1)) || fs_output_opens(entry) > 0) return;
  (void)flush(entry, false);
  fs_output_writer_end(entry);
}

/* Looks at the writer while no call uses it, and drops it if the file is closed and all is
   published. Sets *late if something was written late. Returns false if the caller must look
   again. */
static bool end_once(struct fs_output_writing *at, uint32_t entry, bool *late) {
  uint32_t uses = atomic_load(&at->uses), next;
  *late = false;
  do {
    next = uses == 0 ? FS_WRITING_ENDS : uses | FS_WRITING_LEFT;
  } while (!atomic_compare_exchange_weak(&at->uses, &uses, next));
  if (uses != 0) return true; /* the last call does it */
  struct fs_output_writer *w = atomic_load(&at->writer);
  bool closed = w != NULL && fs_output_opens(entry) == 0;
  bool rest = closed && (w->count > 0 || atomic_load(&w->appended) != 0);
  bool drop = closed && !rest;
  *late = rest && !atomic_load(&w->failed);
  if (drop) atomic_store(&at->writer, NULL);
  bool left = atomic_exchange(&at->uses, 0) & FS_WRITING_LEFT;
  if (drop) writer_drop(w);
  return !*late && !left;
}

/* Signals wait: a handler's call would wait for ENDS in vain, and a jump would leave ENDS for
   good. */
void fs_output_writer_end(uint32_t entry) {
  struct fs_output_writing *at = fs_output_writing(entry);
  unsigned published = 0;
  /* The writer is read before the uses. */
  bool done = at == NULL || (atomic_load(&at->writer) == NULL && atomic_load(&at->uses) == 0);
  while (!done) {
    uint64_t signals;
    bool late;
    fs_sys_sigmask(~0ull, &signals);
    done = end_once(at, entry, &late);
    fs_sys_sigmask(signals, NULL);
    if (late && (published++ == FS_LATE_TRIES || flush(entry, false) != 0)) return;
  }
}

/* Returns the writer if there is one. finish ends its use. */
static struct fs_output_writer *writer_if_any(struct fs_output_writing *at, uint32_t entry) {
  if (at == NULL || atomic_load(&at->writer) == NULL || !begin(at)) return NULL;
  struct fs_output_writer *w = atomic_load(&at->writer);
  if (w == NULL) finish(at, entry);
  return w;
}

static fs_err writer_make(struct fs_output_writing *at, uint32_t entry, void **w) {
  struct fs_output_writer *mine = writer_new();
  if (mine == NULL) return -ENOMEM;
  fs_err err = make_segment(mine, entry);
  /* The segment is left to the end of the job. */
  if (err != 0 || !fs_publish_ptr(&at->writer, mine, w)) writer_drop(mine);
  return err;
}

/* Returns this process's writer of a file, which the first write makes. finish ends its use. */
static fs_err writer_of(struct fs_output_writing *at, uint32_t entry, struct fs_output_writer **out) {
  if (at == NULL || fs_vfork_depth > 0) return -EBADF;
  if (!begin(at)) return -EDEADLK;
  void *w = atomic_load(&at->writer);
  fs_err err = FS_LIKELY(w != NULL) ? 0 : writer_make(at, entry, &w);
  if (err != 0) finish(at, entry);
  *out = w;
  return err;
}

fs_err fs_output_writer_of(uint32_t entry, struct fs_output_writer **out) {
  return writer_of(fs_output_writing(entry), entry, out);
}

void fs_output_writer_finish(uint32_t entry) {
  finish(fs_output_writing(entry), entry);
}

/* ---- what was written ---- */

static fs_err extend(uint32_t entry, uint64_t segment, const struct fs_range *ranges, uint32_t n, uint64_t appended,
                     bool sync) {
  size_t got;
  char body[8];
  struct fs_names_call c = {.op = FS_NAMES_EXTEND,
                            .flags = sync ? FS_EXTEND_DURABLE : 0,
                            .tail_len = (uint16_t)(n * sizeof(*ranges)),
                            .extend = {.id = fs_output_id(entry), .segment = segment}};
  fs_appended_say(&c.extend, appended);
  for (uint32_t i = 0; i < n; i++) c.extend.bytes += ranges[i].len;
  fs_err err = fs_names_call(&c, (const char *)ranges, "", body, sizeof(body), &got);
  return err == -ENOENT ? 0 : err; /* the file was removed meanwhile */
}

/* Copies the ranges to publish. If another thread is publishing them, a thread that has waited for
   a while publishes them once more, which does no harm. The other thread may be the one that this
   signal handler interrupted. */
static bool take(struct fs_output_writer *w, struct fs_range *ranges, uint32_t *n, bool *mine) {
  for (unsigned tries = 0;; tries++) {
    if (!lock(w)) return false;
    *n = w->count;
    *mine = w->sealed == 0;
    if (*mine || tries > FS_SEALED_TRIES) {
      memcpy(ranges, w->range, *n * sizeof(ranges[0]));
      if (*mine) w->sealed = *n;
      unlock(w);
      return true;
    }
    unlock(w);
    FS_SYS0(SYS_sched_yield);
  }
}

static fs_err publish(struct fs_output_writer *w, uint32_t entry, bool sync) {
  struct fs_range ranges[FS_OUTPUT_RANGES];
  fs_err err = sync ? (fs_err)FS_SYS1(SYS_fdatasync, atomic_load(&w->fd) - 1) : 0;
  uint32_t n = 1;
  bool mine = true;
  while (err == 0 && mine) {
    if (!take(w, ranges, &n, &mine)) return -EDEADLK;
    uint64_t appended = n == 0 ? atomic_exchange(&w->appended, 0) : 0;
    if (n == 0 && appended == 0) return 0;
    err = extend(entry, w->segment, ranges, n, appended, sync);
    atomic_store_explicit(&w->failed, err != 0, memory_order_relaxed);
    if (err == 0) fs_output_changed(entry);
    if (!mine) break;
    bool locked = lock(w); /* if not, the ranges stay and are published again */
    if (locked && err == 0) memmove(w->range, w->range + n, (w->count - n) * sizeof(ranges[0]));
    if (locked && err == 0) w->count -= n;
    /* Without ranges nothing was sealed here, and `sealed` may be another thread's by now. */
    if (n > 0) atomic_store(&w->sealed, 0);
    if (!locked) break;
    unlock(w);
  }
  return err;
}

static fs_err flush(uint32_t entry, bool sync) {
  struct fs_output_writing *at = fs_output_writing(entry);
  struct fs_output_writer *w = fs_vfork_depth > 0 ? NULL : writer_if_any(at, entry);
  if (w == NULL) return 0;
  fs_err err = publish(w, entry, sync);
  finish(at, entry);
  return err;
}

fs_err fs_output_flush(uint32_t entry, bool sync) {
  bool pinned = fs_vfork_depth == 0 && fs_output_pin(entry);
  fs_err err = flush(entry, sync);
  fs_output_unpin(entry, pinned);
  return err;
}

/* Notes a range, joined to the last range if it follows it. Returns whether there was room. */
static bool note(struct fs_output_writer *w, uint64_t off, uint64_t n) {
  struct fs_range *last = w->count > w->sealed ? &w->range[w->count - 1] : NULL;
  if (last != NULL && off >= last->off && off <= last->off + last->len) {
    last->len = FS_MAX(last->len, off + n - last->off);
    return true;
  }
  if (w->count == FS_OUTPUT_RANGES) return false;
  w->range[w->count++] = (struct fs_range){.off = off, .len = n};
  return true;
}

/* Returns whether it is time to publish, so that other nodes see a file grow. With replicas that
   would have to wait for them. */
static bool is_due(struct fs_output_writer *w) {
  const struct fs_node *node = fs_names_node();
  uint64_t now = fs_clock_ns(CLOCK_MONOTONIC_COARSE), due = atomic_load_explicit(&w->due, memory_order_relaxed);
  if (now < due || node == NULL || (node->ctl->flags & FS_CTL_REPLICAS)) return false;
  atomic_store_explicit(&w->due, now + FS_SEEN_NS, memory_order_relaxed);
  return due != 0;
}

static fs_err wrote(uint32_t entry, struct fs_output_writer *w, uint64_t off, uint64_t n) {
  const struct fs_range one = {.off = off, .len = n};
  fs_err err = 0;
  for (unsigned i = 0; i < FS_LATE_TRIES && err == 0 && lock(w); i++) {
    bool noted = note(w, off, n);
    unlock(w);
    if (noted && is_due(w)) (void)fs_output_flush(entry, false); /* close returns an error that lasts */
    if (noted) return 0;
    err = fs_output_flush(entry, false);
  }
  return err != 0 ? err : extend(entry, w->segment, &one, 1, 0, false);
}

/* Returns whether the byte at off is in a range, and cuts *len to how far that answer goes. */
static bool find_range(const struct fs_output_writer *w, uint64_t off, uint64_t *len) {
  bool found = false;
  /* Overlapping ranges have the same bytes: they are of one file. */
  for (uint32_t i = w->count; i-- > 0;) {
    const struct fs_range *r = &w->range[i];
    if (off >= r->off && off - r->off < r->len) {
      *len = FS_MIN(*len, r->off + r->len - off);
      found = true;
    } else if (r->off > off) {
      *len = FS_MIN(*len, r->off - off);
    }
  }
  return found;
}

bool fs_output_unpublished(uint32_t entry, void *buf, uint64_t off, uint64_t *len, fs_ssize *got) {
  struct fs_output_writing *at = fs_output_writing(entry);
  struct fs_output_writer *w = fs_vfork_depth > 0 ? NULL : writer_if_any(at, entry);
  if (w == NULL) return false;
  bool locked = lock(w), found = locked && find_range(w, off, len);
  if (locked) unlock(w);
  if (found) *got = fs_sys_pread(atomic_load(&w->fd) - 1, buf, (size_t)*len, off);
  finish(at, entry);
  return found;
}

uint64_t fs_output_written_end(uint32_t entry) {
  struct fs_output_writing *at = fs_output_writing(entry);
  /* A vfork child ends nothing: the descriptors are its parent's. */
  bool counted = fs_vfork_depth == 0;
  struct fs_output_writer *w = counted ? writer_if_any(at, entry) : at == NULL ? NULL : atomic_load(&at->writer);
  uint64_t end = 0;
  if (w == NULL) return 0;
  bool locked = w->count > 0 && lock(w);
  for (uint32_t i = 0; i < FS_MIN(w->count, FS_OUTPUT_RANGES); i++)
    end = FS_MAX(end, w->range[i].off + w->range[i].len);
  if (locked) unlock(w);
  if (counted) finish(at, entry);
  return end;
}

/* ---- writing ---- */

static _Atomic bool at_end;

void fs_output_at_end(void) {
  atomic_store(&at_end, true);
}

fs_ssize fs_output_ending(uint32_t entry, fs_ssize put) {
  fs_use_reap();
  bool last = FS_UNLIKELY(atomic_load_explicit(&at_end, memory_order_relaxed) || fs_use_retired_file(entry));
  fs_err err = last ? fs_output_flush(entry, false) : 0;
  return err != 0 ? err : put;
}

static fs_ssize write_by(struct fs_output_writer *w, uint32_t entry, const void *buf, size_t n, uint64_t off,
                         bool placed) {
  fs_ssize put = fs_sys_pwrite(atomic_load_explicit(&w->fd, memory_order_relaxed) - 1, buf, n, off);
  if (put <= 0) return put;
  if (placed) atomic_store_explicit(&w->placed, 1, memory_order_relaxed);
  fs_err err = wrote(entry, w, off, (uint64_t)put);
  return err != 0 ? err : fs_output_ending(entry, put);
}

fs_ssize fs_output_write_segment(uint32_t entry, const void *buf, size_t n, uint64_t off, bool placed) {
  struct fs_output_writing *at = fs_output_writing(entry);
  struct fs_output_writer *w;
  if (n == 0) return 0;
  if (off > (uint64_t)INT64_MAX - n) return -EFBIG;
  fs_err err = FS_UNLIKELY(fs_output_full()) ? -EDQUOT : writer_of(at, entry, &w);
  if (err != 0) return err;
  fs_ssize put = write_by(w, entry, buf, n, off, placed);
  finish(at, entry);
  return put;
}

fs_err fs_output_cut(uint32_t entry) {
  return fs_output_flush(entry, false); /* home cuts what it knows */
}
