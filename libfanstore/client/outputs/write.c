/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes files that have another node for a home, or that several processes write (outputs.h;
 * docs/internals/several-writers.md). The bytes go to a segment, a backing file without a name on
 * this node, at their offset in the file. Their ranges are noted in the channel (ipc/written.h),
 * from which the daemon publishes them. segments.c reads them back.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "client/data_priv.h"
#include "client/outputs/outputs.h"
#include "client/outputs/segment.h"
#include "ipc/channel.h"
#include "util/util.h"

#define FS_LOCK_TRIES 100000u
#define FS_LATE_TRIES 4u

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

/* ---- ranges ---- */

/* Gives the writer a place in the channel for its ranges, if one is free. */
static void ranges_claim(struct fs_output_writer *w, uint32_t entry) {
  w->process = fs_self_process(); /* first: a child that a signal handler forks now has no place */
  const struct fs_link *link = fs_link_get();
  int32_t number = link == NULL ? -1 : fs_chan_claim(&link->channel->written_claimed, UINT64_MAX);
  if (number < 0) return;
  w->channel = link->channel;
  w->number = (uint32_t)number;
  struct fs_written *ranges = &w->channel->written[number];
  atomic_store_explicit(&ranges->file, fs_output_id(entry), memory_order_relaxed);
  atomic_store_explicit(&ranges->segment, w->segment, memory_order_relaxed);
  atomic_store_explicit(&w->ranges, ranges, memory_order_release);
}

/* Gives the place back. All ranges are published. */
static void ranges_free(struct fs_output_writer *w) {
  const struct fs_written *ranges = atomic_exchange(&w->ranges, NULL);
  if (ranges == NULL || w->process != fs_self_process()) return;
  atomic_fetch_and_explicit(&w->channel->written_claimed, ~(1ull << w->number), memory_order_release);
}

/* Returns where the writer's ranges are, or NULL. A child that a signal handler forked in the middle
   of a call has the writer, but its parent has the channel. */
static struct fs_written *ranges_of(const struct fs_output_writer *w) {
  struct fs_written *ranges = atomic_load_explicit(&w->ranges, memory_order_acquire);
  return FS_LIKELY(w->process == fs_self_process()) ? ranges : NULL;
}

static uint32_t pending(const struct fs_output_writer *w) {
  const struct fs_written *ranges = ranges_of(w);
  return ranges == NULL ? 0 : fs_written_pending(ranges);
}

/* Returns whether a close or the like, or with `sync` an fsync, has told the home of all writes. The
   daemon may have published all by itself, but then stage-out and the partner's disk have not heard
   of it. */
static bool is_flushed(const struct fs_output_writer *w, bool sync) {
  uint32_t writes = atomic_load(&w->writes);
  return atomic_load(&w->flushed) == writes && (!sync || atomic_load(&w->synced) == writes);
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
  ranges_free(w);
  atomic_store(&w->writes, 0);
  atomic_store(&w->flushed, 0);
  atomic_store(&w->synced, 0);
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
  bool rest = closed && (pending(w) > 0 || atomic_load(&w->appended) != 0 || !is_flushed(w, false));
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
  if (err == 0) ranges_claim(mine, entry);
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

static fs_err call_extend(uint32_t entry, struct fs_names_call *c, const struct fs_range *ranges, bool sync) {
  size_t got;
  char body[8];
  c->op = FS_NAMES_EXTEND;
  c->flags = sync ? FS_EXTEND_DURABLE : 0;
  c->extend.id = fs_output_id(entry);
  fs_err err = fs_names_call(c, (const char *)ranges, "", body, sizeof(body), &got);
  return err == -ENOENT ? 0 : err; /* the file was removed meanwhile */
}

/* Publishes a range that is not noted. */
static fs_err publish_range(uint32_t entry, const struct fs_output_writer *w, struct fs_range range) {
  struct fs_names_call c = {.tail_len = sizeof(range), .extend = {.segment = w->segment, .bytes = range.len}};
  fs_err err = call_extend(entry, &c, &range, false);
  if (err == 0) fs_output_changed(entry);
  return err;
}

/* Waits until the daemon has published what is noted by now. */
static fs_err publish_noted(uint32_t entry, const struct fs_output_writer *w, const struct fs_written *ranges,
                            bool sync) {
  struct fs_names_call c = {.extend = {.segment = w->segment, .written = w->number + 1}};
  uint32_t tail = atomic_load(&ranges->tail), n = atomic_load(&ranges->head) - tail; /* in this order: tail follows */
  for (uint32_t k = tail; k != tail + FS_MIN(n, FS_WRITTEN_RANGES); k++)
    c.extend.bytes = FS_MIN(c.extend.bytes + fs_written_at(ranges, k).len, (uint64_t)INT64_MAX);
  fs_err err = call_extend(entry, &c, NULL, sync);
  return ranges_of(w) == ranges ? err : 0; /* else a signal handler forked: nothing is the child's */
}

static fs_err publish_appended(uint32_t entry, const struct fs_output_writer *w, uint64_t appended, bool sync) {
  struct fs_names_call c = {.extend = {.segment = w->segment}};
  fs_appended_say(&c.extend, appended);
  return call_extend(entry, &c, NULL, sync);
}

static fs_err publish(struct fs_output_writer *w, uint32_t entry, bool sync) {
  const struct fs_written *ranges = ranges_of(w);
  fs_err err = sync ? (fs_err)FS_SYS1(SYS_fdatasync, atomic_load(&w->fd) - 1) : 0;
  if (err != 0) return err;
  uint32_t writes = atomic_load(&w->writes);
  bool noted = ranges != NULL && (!is_flushed(w, sync) || pending(w) > 0);
  if (noted) err = publish_noted(entry, w, ranges, sync);
  if (noted && err == 0) atomic_store(&w->flushed, writes);
  if (noted && err == 0 && sync) atomic_store(&w->synced, writes);
  uint64_t appended = err == 0 ? atomic_exchange(&w->appended, 0) : 0;
  if (appended != 0) err = publish_appended(entry, w, appended, sync);
  if (!noted && appended == 0) return 0;
  atomic_store_explicit(&w->failed, err != 0, memory_order_relaxed);
  if (err == 0) fs_output_changed(entry);
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

static fs_err wrote(uint32_t entry, struct fs_output_writer *w, uint64_t off, uint64_t n) {
  struct fs_written *ranges = ranges_of(w);
  fs_err err = 0;
  for (unsigned i = 0; i < FS_LATE_TRIES && ranges != NULL && err == 0 && lock(w); i++) {
    bool noted = fs_written_note(ranges, off, n);
    uint32_t writes = atomic_load_explicit(&w->writes, memory_order_relaxed) + 1;
    atomic_store_explicit(&w->writes, writes, memory_order_relaxed);
    unlock(w);
    if (noted) return 0;
    err = fs_output_flush(entry, false);
  }
  return err != 0 ? err : publish_range(entry, w, (struct fs_range){.off = off, .len = n});
}

uint32_t fs_output_published(uint32_t entry) {
  struct fs_output_writing *at = fs_output_writing(entry);
  /* The writer may be another file's by now. Then the number is wrong, and the caller asks home. */
  const struct fs_output_writer *w = at == NULL ? NULL : atomic_load(&at->writer);
  const struct fs_written *ranges = w == NULL ? NULL : atomic_load_explicit(&w->ranges, memory_order_acquire);
  return ranges == NULL ? 0 : atomic_load_explicit(&ranges->tail, memory_order_acquire);
}

/* Returns whether the byte at off is in a range, and cuts *len to how far that answer goes. */
static bool find_range(const struct fs_written *w, uint64_t off, uint64_t *len) {
  uint32_t tail = atomic_load_explicit(&w->tail, memory_order_acquire);
  bool found = false;
  /* If ranges overlap, any of them will do: the bytes are read from the one segment. */
  for (uint32_t k = atomic_load_explicit(&w->head, memory_order_relaxed); k-- != tail;) {
    const struct fs_range r = fs_written_at(w, k);
    if (off >= r.off && off - r.off < r.len) {
      *len = FS_MIN(*len, r.off + r.len - off);
      found = true;
    } else if (r.off > off) {
      *len = FS_MIN(*len, r.off - off);
    }
  }
  return found;
}

bool fs_output_unpublished(uint32_t entry, const struct fs_output_whole *whole, void *buf, uint64_t off, uint64_t *len,
                           fs_ssize *got) {
  struct fs_output_writing *at = fs_output_writing(entry);
  struct fs_output_writer *w = fs_vfork_depth > 0 ? NULL : writer_if_any(at, entry);
  if (w == NULL) return false;
  const struct fs_written *ranges = ranges_of(w);
  bool locked = ranges != NULL && lock(w), found = locked && find_range(ranges, off, len);
  if (locked) unlock(w);
  if (found) *got = fs_sys_pread(atomic_load(&w->fd) - 1, buf, (size_t)*len, off);
  /* The bytes may be in a publication that the caller does not know yet. */
  bool late = !found && !whole->any && fs_output_published(entry) != whole->published;
  if (late) *got = -ESTALE;
  finish(at, entry);
  return found || late;
}

uint64_t fs_output_written_end(uint32_t entry) {
  struct fs_output_writing *at = fs_output_writing(entry);
  /* A vfork child ends nothing: the descriptors are its parent's. */
  bool counted = fs_vfork_depth == 0;
  struct fs_output_writer *w = counted ? writer_if_any(at, entry) : at == NULL ? NULL : atomic_load(&at->writer);
  uint64_t end = 0;
  if (w == NULL) return 0;
  const struct fs_written *ranges = counted ? ranges_of(w) : atomic_load(&w->ranges);
  bool locked = ranges != NULL && fs_written_pending(ranges) > 0 && lock(w);
  uint32_t head = locked ? atomic_load(&ranges->head) : 0;
  for (uint32_t k = locked ? atomic_load(&ranges->tail) : 0; k != head; k++) {
    const struct fs_range r = fs_written_at(ranges, k);
    end = FS_MAX(end, r.off + r.len);
  }
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
