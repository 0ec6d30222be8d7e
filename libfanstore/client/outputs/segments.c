/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads files of several writers (outputs.h). What this process has not published yet comes first,
 * then what home says is in segments, then home's own backing file. The rest is zeros. Backing
 * files of this node are read through the kernel.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "client/data_priv.h"
#include "client/outputs/segment.h"
#include "util/util.h"

#define FS_WINDOW_EXTENTS 128u

/* Home's answer about the bytes from some offset on. */
struct window {
  uint32_t count;
  uint64_t from, end;            /* the range that it describes */
  struct fs_extent_map_head now; /* the answer: the extent map's version, and some of the map */
  struct fs_output_extent at[FS_WINDOW_EXTENTS];
};
static_assert(offsetof(struct window, at) == offsetof(struct window, now) + sizeof(struct fs_extent_map_head),
              "as it comes");

static fs_err ask_window(uint32_t entry, uint64_t off, struct window *w) {
  struct fs_names_call c = {.op = FS_NAMES_EXTENTS, .extents = {.id = fs_output_id(entry), .off = off}};
  size_t got;
  fs_err err = fs_names_call(&c, "", "", &w->now, sizeof(w->now) + sizeof(w->at), &got);
  if (err == 0 && got < sizeof(w->now)) err = -EIO;
  w->count = err != 0 ? 0 : (uint32_t)((got - sizeof(w->now)) / sizeof(w->at[0]));
  w->from = off;
  w->end = UINT64_MAX;
  for (uint32_t i = 0; err == 0 && i < w->count; i++) {
    const struct fs_output_extent *e = &w->at[i];
    bool sane = e->len > 0 && e->len <= INT64_MAX && e->off <= INT64_MAX && (e->segment & FS_OUTPUT_ID) &&
                e->segment >> 63 == 0;
    if (!sane || (i > 0 && e->off < w->at[i - 1].off + w->at[i - 1].len)) return -EIO;
  }
  if (w->count == FS_WINDOW_EXTENTS) w->end = w->at[w->count - 1].off + w->at[w->count - 1].len;
  return err;
}

/* What home's extent map is now. */
static fs_err ask_list(uint32_t entry, struct fs_extent_map_head *now) {
  struct fs_names_call c = {.op = FS_NAMES_EXTENTS, .extents = {.id = fs_output_id(entry), .off = INT64_MAX}};
  size_t got;
  fs_err err = fs_names_call(&c, "", "", now, sizeof(*now), &got);
  return err == 0 && (got != sizeof(*now) || now->end > INT64_MAX) ? -EIO : err;
}

/* Bytes that are in one segment, or in none (0). */
struct run {
  uint64_t segment, from, end;
};

static struct run run_at(const struct window *w, uint64_t off) {
  struct run r = {.from = w->from, .end = w->end};
  for (uint32_t i = 0; i < w->count; i++) {
    const struct fs_output_extent *e = &w->at[i];
    uint64_t end = e->off + e->len;
    if (e->off > off) {
      r.end = e->off;
      break;
    }
    if (off < end) return (struct run){.segment = e->segment, .from = e->off, .end = end};
    r.from = end;
  }
  return r;
}

/* Returns how to read a run: by grains if it has half of a block or less, because the rest of the
   block is another's. Cuts *len to where that holds. */
static struct fs_output_how how_to_read(const struct run *r, uint64_t off, uint64_t *len) {
  uint64_t begin = off - off % FS_OUTPUT_BLOCK, end = begin + FS_OUTPUT_BLOCK, last = r->end - r->end % FS_OUTPUT_BLOCK;
  bool few = FS_MIN(r->end, end) - FS_MAX(r->from, begin) <= FS_OUTPUT_BLOCK / 2;
  const uint64_t most = (uint64_t)FS_OUTPUT_GRAIN * FS_OUTPUT_BLOCKS;
  if (few && end <= most) {
    *len = FS_MIN(*len, end - off);
    return (struct fs_output_how){.block = FS_OUTPUT_GRAIN, .end = FS_MIN(r->end, most)};
  }
  if (last > off && r->end - last <= FS_OUTPUT_BLOCK / 2) *len = FS_MIN(*len, last - off);
  return (struct fs_output_how){.block = FS_OUTPUT_BLOCK, .end = last > off ? last : r->end};
}

/* The windows of the last files. They are good as long as the node's word is what it was before
   they were asked for. A thread that finds one busy, in use by another thread or by the one that
   this signal handler has interrupted, asks anew. */
#define FS_WINDOWS 8u
static struct kept {
  _Atomic uint32_t busy;
  uint64_t id, word;
  struct window win;
} kept[FS_WINDOWS];

static struct kept *kept_take(uint64_t id) {
  struct kept *k = &kept[fs_mix64(id) % FS_WINDOWS];
  return atomic_exchange_explicit(&k->busy, 1, memory_order_acquire) == 0 ? k : NULL;
}

/* Answers from a kept window of that version of the extent map. */
static bool recall(const struct fs_node *node, uint64_t id, uint64_t list, uint64_t at, struct run *run) {
  struct kept *k = fs_node_alive(node) ? kept_take(id) : NULL;
  if (k == NULL) return false;
  uint64_t word = atomic_load_explicit(&node->ctl->lists, memory_order_acquire);
  bool good = k->id == id && k->word == word && k->win.now.list == list && at >= k->win.from && at < k->win.end;
  if (good) *run = run_at(&k->win, at);
  atomic_store_explicit(&k->busy, 0, memory_order_release);
  return good;
}

static void keep(uint64_t id, uint64_t word, const struct window *win) {
  struct kept *k = word & FS_LISTS_UNKNOWN ? NULL : kept_take(id);
  if (k == NULL) return;
  k->id = id;
  k->word = word;
  k->win = *win;
  atomic_store_explicit(&k->busy, 0, memory_order_release);
}

/* Finds which segment has the byte at `at`: from what this call knows, from what this process
   knows, or from home. */
static fs_err find_run(const struct fs_node *node, uint32_t entry, struct fs_output_whole *w, uint64_t at,
                       struct window *win, struct run *run) {
  uint64_t id = fs_output_id(entry), word = atomic_load_explicit(&node->ctl->lists, memory_order_acquire);
  fs_err err = 0;
  if (at < win->from || at >= win->end) {
    if (recall(node, id, w->list, at, run)) return 0;
    /* Ask from the block's begin, to know how much of the block is where. A window may end in the
       middle of a block. */
    err = ask_window(entry, at - at % FS_OUTPUT_BLOCK, win);
    if (err == 0 && at >= win->end) err = ask_window(entry, at, win);
    if (err == 0) keep(id, word, win);
    if (err == 0 && !fs_output_list_is(entry, w, win->now.list)) err = -ESTALE;
  }
  if (err == 0) *run = run_at(win, at);
  return err;
}

/* Reads one of this node's backing files; beyond its end are zeros. */
static fs_ssize read_here(const struct fs_node *node, uint64_t id, void *buf, size_t n, uint64_t off) {
  char path[PATH_MAX];
  fs_err err = fs_output_path(node, id, path);
  if (err != 0) return err;
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
  fs_ssize got = fd < 0 ? fd : fs_sys_pread(fd, buf, n, off);
  if (got != 0) return got;
  memset(buf, 0, n);
  return (fs_ssize)n;
}

/* Snapshots of segments have no descriptors, so they are kept for the last few, or until their file
   is closed. */
static _Atomic uint64_t last[32]; /* the file's number, and the segment's */

static void remember(uint32_t entry, uint32_t number) {
  static _Atomic uint32_t next;
  uint64_t word = (uint64_t)entry << 32 | number;
  for (unsigned i = 0; i < FS_ARRAY_LEN(last); i++)
    if (atomic_load_explicit(&last[i], memory_order_relaxed) == word) return;
  uint32_t i = atomic_fetch_add(&next, 1) % FS_ARRAY_LEN(last);
  uint64_t old = atomic_exchange(&last[i], word);
  if (old != 0 && old != word) fs_output_forget((uint32_t)old);
}

void fs_output_forget_segments(uint32_t entry) {
  for (unsigned i = 0; i < FS_ARRAY_LEN(last); i++) {
    uint64_t word = atomic_load_explicit(&last[i], memory_order_relaxed);
    if (word >> 32 == entry && atomic_compare_exchange_strong(&last[i], &word, 0)) fs_output_forget((uint32_t)word);
  }
}

static fs_ssize read_segment(const struct fs_node *node, uint32_t entry, const struct run *run, void *buf, uint64_t n,
                             uint64_t off) {
  struct fs_record r = {.id = run->segment, .dir = run->segment, .mode = S_IFREG | 0600};
  if (fs_output_home_here(node, run->segment)) return read_here(node, run->segment, buf, n, off);
  struct fs_output_how how = how_to_read(run, off, &n);
  int64_t number = fs_output_number(&r, FS_ROOT);
  if (number < 0) return number;
  remember(entry, (uint32_t)number);
  return fs_output_read_segment(entry, (uint32_t)number, buf, n, off, &how);
}

static fs_ssize read_own(const struct fs_node *node, uint32_t entry, const struct fs_output_whole *w,
                         const struct run *run, void *buf, uint64_t n, uint64_t off) {
  uint64_t id = fs_output_id(entry);
  if (fs_output_home_here(node, id)) return read_here(node, id, buf, n, off);
  if (off < w->own) {
    struct fs_output_how how = how_to_read(run, off, &n);
    how.list = w->any ? 0 : w->list;
    return fs_output_read_backing(entry, buf, FS_MIN(n, w->own - off), off, &how);
  }
  memset(buf, 0, n);
  return (fs_ssize)n;
}

/* Returns whether what the kernel has read of home's backing file was right to the end: no segment
   had those bytes, and the file was not cut. */
static bool still_own(const struct fs_node *node, uint32_t entry, const struct fs_output_whole *w, uint64_t word) {
  struct fs_extent_map_head now;
  if (atomic_load(&node->ctl->lists) == word && !(word & FS_LISTS_UNKNOWN)) return true;
  return w->any || !fs_output_home_here(node, fs_output_id(entry)) ||
         (ask_list(entry, &now) == 0 && now.list == w->list);
}

fs_ssize fs_output_read_segments(uint32_t entry, struct fs_output_whole *w, void *buf, size_t n, uint64_t off) {
  struct window win = {.from = UINT64_MAX};
  const struct fs_node *node = fs_names_node();
  size_t done = 0;
  bool here = false;
  if (node == NULL) return -EIO;
  uint64_t word = atomic_load(&node->ctl->lists);
  fs_ssize got = 1;
  while (done < n && got > 0) {
    uint64_t at = off + done, len = n - done;
    uint8_t *to = (uint8_t *)buf + done;
    struct run run = {.segment = 0};
    if (!fs_output_unpublished(entry, w, to, at, &len, &got) && (got = find_run(node, entry, w, at, &win, &run)) == 0) {
      len = FS_MIN(len, run.end - at);
      here = here || run.segment == 0;
      got =
          run.segment != 0 ? read_segment(node, entry, &run, to, len, at) : read_own(node, entry, w, &run, to, len, at);
    }
    /* A segment is shorter than its home was told. If it is home's backing file, which is as long
       as the file, it has been cut. */
    if (got == 0 && run.segment != 0) got = -EIO;
    if (got > 0) done += (size_t)got;
  }
  if (got == -ESTALE || (got < 0 && done == 0)) return got;
  return here && !still_own(node, entry, w, word) ? -ESTALE : (fs_ssize)done;
}
