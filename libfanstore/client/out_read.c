/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading output files of other nodes (out.h): raw blocks through the node's cache, as a dataset's remote blocks. A
 * process asks home for a handle of its own (HOLD), which stands for the contents until the process gives it back; so
 * what it reads by a handle that was its own all the time is of that file. A forked child, and a program that inherits
 * the descriptor, ask anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/data_priv.h"
#include "client/files.h"
#include "client/out_part.h"
#include "util/util.h"

#define FS_OUT_WINDOW 8u /* blocks in flight for one call */
#define FS_OUT_TRIES 4u  /* handles that a read outlives */

/* ---- what home says ---- */

struct out_held {          /* beside a number; zeros in a forked child */
  _Atomic uint32_t handle; /* 0: none */
  _Atomic uint32_t opens;  /* of this process, not closed yet: as far as it knows */
  _Atomic uint64_t own;    /* bytes of home's spill; stored before the handle that it belongs to */
  _Atomic uint64_t size;   /* of the whole */
  _Atomic uint32_t parts;  /* not 0: bytes are elsewhere */
  _Atomic uint32_t stale;  /* this process has changed the file since */
  _Atomic uint64_t asked;  /* when: no older are its parts */
  _Atomic uint64_t listed; /* struct fs_out_how: asked for since */
  void *_Atomic writer;    /* struct fs_out_writer */
};
#define FS_HANDLE_HERE UINT32_MAX /* home is this node: nothing is held */

static struct out_held *held_of(uint32_t entry) {
  static void *_Atomic table;
  void *held = atomic_load_explicit(&table, memory_order_acquire);
  if (FS_UNLIKELY(held == NULL)) {
    void *mine = fs_mem_map_wiped(FS_OUT_NODES * sizeof(struct out_held));
    if (mine == NULL) return NULL;
    if (!fs_publish_ptr(&table, mine, &held)) fs_mem_unmap(mine, FS_OUT_NODES * sizeof(struct out_held));
  }
  return fs_out_node(entry) == NULL ? NULL : (struct out_held *)held + (entry - FS_OUT_FIRST);
}

uint64_t fs_out_id(uint32_t entry) {
  return atomic_load_explicit(&fs_out_node(entry)->id, memory_order_relaxed);
}

void *_Atomic *fs_out_writer_word(uint32_t entry) {
  struct out_held *held = held_of(entry);
  return held == NULL ? NULL : &held->writer;
}

static bool is_here(uint32_t entry) {
  const struct fs_node *node = fs_names_node();
  return node != NULL && fs_out_home_here(node, fs_out_id(entry));
}

/* A file of this node, which others have written too. */
static fs_err look_here(uint32_t entry, struct fs_held *h) {
  char path[PATH_MAX];
  struct stat st;
  struct fs_answer a;
  const struct fs_record *r;
  struct fs_names_call c = {.op = FS_NAMES_LOOKUP};
  fs_err err = fs_out_path(fs_names_node(), fs_out_id(entry), path);
  if (err == 0) err = fs_sys_fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW);
  if (err != 0) return err;
  err = fs_out_ask_number(entry, &c, &a, &r);
  if (err != 0 && err != -ENOENT) return err;
  *h = (struct fs_held){.id = fs_out_id(entry),
                        .own = (uint64_t)st.st_size,
                        .size = FS_MAX((uint64_t)st.st_size, err == 0 && r != NULL ? r->size : 0),
                        .mtime = st.st_mtim.tv_sec,
                        .ctime = st.st_ctim.tv_sec,
                        .mtime_ns = (uint32_t)st.st_mtim.tv_nsec,
                        .ctime_ns = (uint32_t)st.st_ctim.tv_nsec,
                        .mode = st.st_mode,
                        .parts = 1,
                        .nameless = err == -ENOENT,
                        .handle = FS_HANDLE_HERE};
  return 0;
}

static fs_err hold(uint32_t entry, struct fs_held *h) {
  size_t got;
  struct fs_names_call c = {.op = FS_NAMES_HOLD, .id = fs_out_id(entry)};
  if (is_here(entry)) return look_here(entry, h);
  fs_err err = fs_names_call(&c, "", "", h, sizeof(*h), &got);
  if (err != 0) return err;
  return got != sizeof(*h) || h->size > INT64_MAX || h->own > h->size || h->handle == 0 || h->handle >= FS_OUT_HANDLES
             ? -EIO
             : 0;
}

/* One HOLD that gave this handle is over. */
static void give_back(uint32_t entry, uint32_t handle) {
  char body[8];
  size_t got;
  struct fs_names_call c = {.op = FS_NAMES_RELEASE, .id = fs_out_id(entry), .seq = handle};
  if (handle != 0 && handle != FS_HANDLE_HERE) (void)fs_names_call(&c, "", "", body, sizeof(body), &got);
}

/* Asks for what the file is now: this process's handle from here on. */
static fs_err refresh(uint32_t entry, struct fs_held *h) {
  static _Atomic uint64_t asked;
  struct out_held *held = held_of(entry);
  if (held == NULL) return -EUCLEAN;
  uint64_t now = atomic_fetch_add(&asked, 1) + 1;
  fs_err err = hold(entry, h);
  if (err != 0) return err;
  atomic_store(&held->asked, now);
  atomic_store_explicit(&held->size, h->size, memory_order_release);
  atomic_store_explicit(&held->parts, h->parts, memory_order_release);
  atomic_store_explicit(&held->own, h->own, memory_order_release);
  give_back(entry, atomic_exchange(&held->handle, h->handle));
  return 0;
}

fs_err fs_out_hold(uint32_t entry) {
  struct out_held *held = held_of(entry);
  struct fs_held h;
  if (held == NULL) return -EUCLEAN;
  fs_err err = refresh(entry, &h);
  if (err == 0) atomic_fetch_add(&held->opens, 1);
  return err;
}

void fs_out_closed(const struct fs_slot *s) {
  uint32_t entry = s->entry;
  struct out_held *held = held_of(entry);
  if (held == NULL) return;
  if ((atomic_load_explicit(&s->flags, memory_order_relaxed) & O_ACCMODE) != O_RDONLY) (void)fs_out_flush(entry, false);
  uint32_t opens = atomic_load(&held->opens);
  while (opens > 0 && !atomic_compare_exchange_weak(&held->opens, &opens, opens - 1)) {
  }
  if (opens != 1) return; /* 0: of a file that was inherited, nobody knows the last one */
  if (atomic_load(&s->shared))
    fs_out_keep(s);
  else
    fs_out_forget(entry);
  fs_out_writer_end(entry);
}

uint32_t fs_out_opens(uint32_t entry) {
  struct out_held *held = held_of(entry);
  return held == NULL ? 0 : atomic_load(&held->opens);
}

void fs_out_forget(uint32_t entry) {
  struct out_held *held = held_of(entry);
  if (held != NULL) give_back(entry, atomic_exchange(&held->handle, 0));
}

void fs_out_changed(uint32_t entry) {
  struct out_held *held = held_of(entry);
  if (held != NULL) atomic_store(&held->stale, 1);
}

void fs_out_copied_slot(const struct fs_slot *s) {
  struct out_held *held = held_of(s->entry);
  if (held != NULL && atomic_load(&held->opens) > 0) atomic_fetch_add(&held->opens, 1);
}

static fs_err known_whole(uint32_t entry, struct fs_out_whole *w) {
  struct out_held *held = held_of(entry);
  struct fs_held h;
  if (held == NULL) return -EUCLEAN;
  bool stale = atomic_load_explicit(&held->stale, memory_order_relaxed) && atomic_exchange(&held->stale, 0);
  bool known = atomic_load_explicit(&held->handle, memory_order_acquire) != 0;
  fs_err err = stale || !known ? refresh(entry, &h) : 0;
  w->size = atomic_load_explicit(&held->size, memory_order_relaxed);
  w->own = atomic_load_explicit(&held->own, memory_order_relaxed);
  w->parts = atomic_load_explicit(&held->parts, memory_order_relaxed) != 0;
  return err;
}

/* The same, asked again where less than `need` is known; with what this process has not published yet. */
static fs_err whole_for(uint32_t entry, uint64_t need, struct fs_out_whole *w) {
  struct fs_held h;
  fs_err err = known_whole(entry, w);
  if (err == 0 && need > w->size) {
    err = refresh(entry, &h);
    if (err == 0) err = known_whole(entry, w);
  }
  uint64_t end = err == 0 ? fs_out_written_end(entry) : 0;
  w->parts = w->parts || end > 0;
  w->size = FS_MAX(w->size, end);
  return err;
}

fs_err fs_out_size(uint32_t entry, uint64_t need, uint64_t *size) {
  struct fs_out_whole w = {0};
  fs_err err = whole_for(entry, need, &w);
  if (err == 0) *size = w.size;
  return err;
}

fs_err fs_out_fstat(uint32_t mount, uint32_t entry, struct stat *st) {
  struct fs_held h;
  fs_err err = refresh(entry, &h);
  if (err != 0) return err;
  struct fs_record r = {.id = fs_out_id(entry),
                        .mode = S_IFREG | (h.mode & 07777),
                        .size = FS_MAX(h.size, fs_out_written_end(entry)),
                        .mtime = h.mtime,
                        .mtime_ns = h.mtime_ns,
                        .ctime = h.ctime,
                        .ctime_ns = h.ctime_ns};
  fs_out_record_stat(mount, &r, st);
  if (h.nameless != 0) st->st_nlink = 0;
  return 0;
}

/* ---- blocks ---- */

struct out_reading {
  struct fs_dataset ds; /* what remote.c wants to know of one */
  struct fs_link *link;
  uint32_t handle;
  uint32_t block;
  uint64_t size, end;
};

/* What was read by it is of the file only if so: another thread may have given it back. */
static bool still_held(uint32_t entry, uint32_t handle) {
  const struct out_held *held = held_of(entry);
  return held != NULL && atomic_load_explicit(&held->handle, memory_order_seq_cst) == handle;
}

/* A handle and the size that belongs to it. */
static fs_err snapshot(uint32_t entry, struct out_reading *r) {
  const struct out_held *held = held_of(entry);
  if (held == NULL) return -EUCLEAN;
  for (unsigned tries = 0; tries < 1000; tries++) {
    struct fs_held h;
    r->handle = atomic_load_explicit(&held->handle, memory_order_acquire);
    r->size = atomic_load_explicit(&held->own, memory_order_acquire);
    if (r->handle != 0 && still_held(entry, r->handle)) return 0;
    fs_err err = r->handle == 0 ? refresh(entry, &h) : 0;
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
  p->b.key = FS_CACHE_KEY_BLOCK(FS_OUT_KEY(r->handle, block));
  p->n = (uint32_t)FS_MIN(n, (size_t)(len - p->off));
}

/* Other threads of this process may have all slots. */
static fs_err submit(struct out_reading *r, struct fs_piece *p, bool wait) {
  const struct timespec nap = {.tv_nsec = 50000};
  uint64_t end = fs_now_ns() + r->ds.node->deadline_ns;
  fs_err err = fs_remote_submit(&r->ds, r->link, p);
  while (err == -EAGAIN && wait && fs_now_ns() < end) {
    FS_SYS2(SYS_nanosleep, &nap, NULL);
    err = fs_remote_submit(&r->ds, r->link, p);
  }
  return err;
}

/* Up to FS_OUT_WINDOW blocks at once. Bytes of those that came before the first that did not; *err is its. */
static size_t read_window(struct out_reading *r, uint8_t *dst, size_t n, uint64_t off, fs_err *err) {
  struct fs_piece p[FS_OUT_WINDOW];
  fs_err started[FS_OUT_WINDOW];
  unsigned count = 0, posted = 0;
  size_t done = 0;
  for (; count < FS_OUT_WINDOW && n > 0; count++) {
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
      fs_remote_ahead_out(&r->ds, r->link, entry, r->handle, block, blocks);
  }
  return err;
}

static void told(uint32_t entry, fs_err err) {
  char id[FS_U64_TEXT], home[FS_U64_TEXT];
  uint64_t number = fs_out_id(entry);
  FS_NOTE("output file ", fs_u64_text(number, id), " cannot be read from node ",
          fs_u64_text(FS_OUT_ID_RANK(number), home), ", which has it (", fs_err_text(err), ")");
}

/* A child that a signal handler forked in the middle of it begins again: the pins were its parent's. */
static fs_err read_once(uint32_t entry, struct out_reading *r, void *buf, size_t n, uint64_t off, size_t *done) {
  struct fs_link borrowed;
  int32_t process;
  fs_err err = snapshot(entry, r);
  if (err != 0 || off >= r->size) return err;
  do {
    process = fs_self_process();
    *done = 0;
    r->link = fs_link_get();
    if (!r->link) r->link = fs_link_borrow(&borrowed);
    err = r->link ? read_all(entry, r, buf, n, off, done) : -EHOSTDOWN;
    if (r->link == &borrowed) fs_link_return(&borrowed);
  } while (FS_UNLIKELY(fs_self_process() != process));
  return still_held(entry, r->handle) ? err : -ESTALE;
}

/* The file has become another meanwhile, or the handle is not known any more. */
static bool worth_asking(fs_err err) {
  return err == -EREMOTEIO || err == -EBADMSG || err == -EINVAL || err == -ESTALE || err == -ENOENT;
}

/* A spill is written in place, at a list's change: what is held since before that is not what the list is about. */
static fs_err hold_as_listed(uint32_t entry, uint64_t listed) {
  struct out_held *held = held_of(entry);
  struct fs_held h;
  bool known = held != NULL && atomic_load(&held->listed) == listed && !(listed & FS_LISTS_UNKNOWN);
  if (known || listed == 0) return 0;
  fs_err err = refresh(entry, &h);
  if (err == 0) atomic_store(&held->listed, listed);
  return err;
}

static struct out_reading reading(const struct fs_out_how *how) {
  return (struct out_reading){.ds.number = how->block == FS_OUT_GRAIN ? FS_MAX_DATASETS + 1 : FS_MAX_DATASETS,
                              .ds.node = fs_names_node(),
                              .block = how->block,
                              .end = how->end};
}
static const struct fs_out_how in_order = {.block = FS_OUT_BLOCK, .end = UINT64_MAX};

fs_ssize fs_out_read_spill(uint32_t entry, void *buf, size_t n, uint64_t off, const struct fs_out_how *how) {
  struct out_reading r = reading(how);
  size_t done = 0;
  fs_err err = r.ds.node == NULL ? -EIO : hold_as_listed(entry, how->listed);
  uint64_t end = err == 0 ? fs_now_ns() + r.ds.node->deadline_ns : 0;
  for (unsigned tries = 0; err == 0;) {
    struct fs_held h;
    done = 0;
    err = read_once(entry, &r, buf, n, off, &done);
    if (err == 0 && done == 0 && tries == 0) err = -ESTALE; /* it may have grown */
    if (err == 0 || !worth_asking(err) || fs_now_ns() > end) break;
    /* Another thread may have asked meanwhile: then it is read by that answer. */
    bool ask = still_held(entry, r.handle);
    if (ask && ++tries == FS_OUT_TRIES) break;
    err = ask ? refresh(entry, &h) : 0;
  }
  if (err == -ESTALE) done = 0;
  if (done > 0 || err == 0) return (fs_ssize)done;
  if (err == -EFAULT) return err;
  fs_count(FS_C_ERRORS, 1);
  told(entry, err);
  return -EIO;
}

fs_err fs_out_prefetch_from(uint32_t entry, uint64_t *off, uint64_t end) {
  struct out_reading r = reading(&in_order);
  r.link = r.ds.node ? fs_link_get() : NULL;
  fs_err err = r.link ? snapshot(entry, &r) : -EHOSTDOWN;
  if (err != 0 || r.handle == FS_HANDLE_HERE) return err;
  for (end = FS_MIN(end, r.size); err == 0 && *off < end;) {
    uint64_t block = *off / FS_OUT_BLOCK;
    err = fs_remote_want(&r.ds, r.link, &(struct fs_block){.key = FS_CACHE_KEY_BLOCK(FS_OUT_KEY(r.handle, block))});
    if (err == 0) *off = (block + 1) * FS_OUT_BLOCK;
  }
  fs_remote_ring(&r.ds, r.link);
  return err;
}

fs_ssize fs_out_read_part(uint32_t entry, uint32_t part, void *buf, size_t n, uint64_t off,
                          const struct fs_out_how *how) {
  const struct out_held *whole = held_of(entry);
  struct out_held *held = held_of(part);
  bool old = whole && held && atomic_load(&held->asked) < atomic_load(&whole->asked);
  if (old) atomic_store(&held->listed, 0);
  return fs_out_read_spill(part, buf, n, off, how);
}

fs_ssize fs_out_read(uint32_t entry, void *buf, size_t n, uint64_t off) {
  struct fs_out_whole w = {0};
  if (FS_UNLIKELY(fs_bad_memory(buf, n))) return -EFAULT;
  fs_err err = whole_for(entry, off + n, &w);
  if (err != 0) return err == -ENOENT || err == -EHOSTDOWN ? (told(entry, err), -EIO) : err;
  if (off >= w.size || n == 0) return 0;
  n = FS_MIN(n, (size_t)(w.size - off));
  bool parts = w.parts || w.size > w.own;
  return parts ? fs_out_read_parts(entry, &w, buf, n, off) : fs_out_read_spill(entry, buf, n, off, &in_order);
}

/* ---- as a file of the kernel's ---- */

fs_fd fs_out_materialize(uint32_t entry) {
  static const size_t step = 1u << 20;
  char proc[32], number[FS_U64_TEXT];
  uint64_t off = 0;
  const struct fs_node *node = fs_names_node();
  FS_AUTO_CLOSE fs_fd fd = -EIO;
  if (node != NULL) fd = fs_sys_openat(AT_FDCWD, node->ctl->spill, O_TMPFILE | O_RDWR | O_CLOEXEC, 0500);
  if (fd < 0) fd = (fs_fd)FS_SYS2(SYS_memfd_create, "fanstore", MFD_CLOEXEC);
  if (fd < 0) return fd;
  char *buf = fs_mem_map(step);
  fs_ssize got = buf ? 1 : -ENOMEM;
  while (got > 0) {
    got = fs_out_read(entry, buf, step, off);
    if (got > 0) got = fs_sys_pwrite(fd, buf, (size_t)got, off);
    if (got > 0) off += (uint64_t)got;
  }
  fs_mem_unmap(buf, step);
  if (got < 0) return (fs_fd)got;
  fs_count(FS_C_MATERIALIZED, 1);
  strcpy(proc, "/proc/self/fd/");
  strcat(proc, fs_u64_text((uint64_t)fd, number));
  return fs_sys_openat(AT_FDCWD, proc, O_RDONLY | O_CLOEXEC, 0);
}
