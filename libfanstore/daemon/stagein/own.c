/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The home of staged-in files, as long as their backing files are links into --stage-in's
 * directory. Threads of their own ask that directory for what other nodes want to know, since it
 * may be slow or hang. A program that wants to change such a file first asks for a copy. The copy
 * replaces the link in one step. If the source changes during the copy, the copy is repeated.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/outputs/blocks.h"
#include "daemon/stagein/stagein.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_OWN_BYTES (1u << 20)
#define FS_OWN_TRIES 3u
#define FS_OWN_ERR_NS 1000000000ull /* time for which a failure is reported before the next try */

/* ---- reading ---- */

/* Uses a pool of its own, so that a directory that hangs does not stop the service of the
   datasets. */
static bool fs_in_submit(struct fs_daemon *d, struct fs_io *io) {
  struct fs_stagein *in = d->stagein;
  if (!in || (in->reading > 0 && d->now > in->moved + d->cfg->deadline_ns)) return false;
  if (in->reading++ == 0) in->moved = d->now;
  fs_iopool_submit(&in->reads, io);
  return true;
}

static void fs_in_has_read(struct fs_daemon *d) {
  d->stagein->reading--;
  d->stagein->moved = d->now;
}

/* Reads such a file for another node. A thread of the pool runs it. */
static fs_err fs_in_read_work(struct fs_io *io) {
  struct fs_block_read *r = FS_ITEM(io, struct fs_block_read, io);
  char name[FS_BACKING_NAME_SIZE];
  FS_AUTO_CLOSE fs_fd fd =
      fs_sys_openat(r->d->backing_fd, fs_backing_name(r->req.file, name), O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
  return fd < 0 ? fd : fs_output_read_bytes(r, fd);
}

static void fs_in_read_done(struct fs_io *io) {
  struct fs_block_read *r = FS_ITEM(io, struct fs_block_read, io);
  fs_in_has_read(r->d);
  fs_output_read_done(r, io->err);
}

static void fs_in_read(struct fs_daemon *d, struct fs_block_read *r) {
  r->io = (struct fs_io){.work = fs_in_read_work, .done = fs_in_read_done};
  if (!fs_in_submit(d, &r->io)) fs_serve_done(r, -EIO);
}

const struct fs_block_source fs_staged_in_blocks = {.read = fs_in_read};

/* Replaces errors of the directory's file system that would mean something else between daemons
   by -EIO. */
static fs_err fs_in_errno(fs_err err) {
  bool theirs = err == -ENOSPC || err == -EDQUOT || err == -EACCES || err == -EFBIG || err == -ENOMEM;
  return err == 0 || theirs ? err : -EIO;
}

/* ---- OPEN ---- */

struct fs_in_held {
  struct fs_io io;
  struct fs_daemon *d;
  struct fs_asked asked;
  uint64_t id;
  struct stat st;
};

static fs_err fs_in_held_work(struct fs_io *io) {
  struct fs_in_held *h = FS_ITEM(io, struct fs_in_held, io);
  char name[FS_BACKING_NAME_SIZE];
  if (fstatat(h->d->backing_fd, fs_backing_name(h->id, name), &h->st, 0) < 0) return -errno;
  if (h->st.st_size > (int64_t)FS_OUTPUT_BLOCK * FS_OUTPUT_BLOCKS) return -EFBIG;
  return S_ISREG(h->st.st_mode) ? 0 : -EIO;
}

static void fs_in_held_done(struct fs_io *io) {
  struct fs_in_held *h = FS_ITEM(io, struct fs_in_held, io);
  struct fs_opened held;
  fs_in_has_read(h->d);
  fs_err err = io->err < 0 ? fs_in_errno(io->err) : fs_backing_opened(h->d, h->id, &h->st, &held);
  fs_ns_answer(h->d->ns, h->asked, err, &held, err == 0 ? sizeof(held) : 0);
  free(h);
}

/* It is held from now on: a release may be on its way before the answer. */
static void fs_in_hold(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f,
                       const struct fs_names_call *c) {
  (void)c;
  fs_err err = fs_backing_holder(d, f, a.from);
  struct fs_in_held *h = err == 0 ? malloc(sizeof(*h)) : NULL;
  if (!h) {
    fs_ns_answer(d->ns, a, err < 0 ? err : -ENOMEM, NULL, 0);
    return;
  }
  *h = (struct fs_in_held){.d = d, .asked = a, .id = f->id};
  h->io = (struct fs_io){.work = fs_in_held_work, .done = fs_in_held_done};
  if (fs_in_submit(d, &h->io)) return;
  fs_ns_answer(d->ns, a, -EIO, NULL, 0);
  free(h);
}

/* ---- OWN ---- */

struct fs_owning {
  struct fs_io io;
  struct fs_daemon *d;
  uint64_t id;
  uint32_t mode;
  bool empty;
};

fs_err fs_stagein_bytes(struct fs_stagein *in, int from, int to) {
  FS_AUTO_FREE char *buf = malloc(FS_OWN_BYTES);
  if (!buf) return -ENOMEM;
  for (uint64_t at = 0;;) {
    ssize_t n = pread(from, buf, FS_OWN_BYTES, (off_t)at);
    if (n <= 0) return n < 0 ? -errno : 0;
    fs_err err = fs_write_full(to, buf, (size_t)n);
    if (err < 0) return err;
    at += (uint64_t)n;
    atomic_fetch_add_explicit(&in->copied, (uint64_t)n, memory_order_relaxed);
  }
}

/* All of it, with its times and mode; -EAGAIN: it has changed meanwhile. */
static fs_err fs_own_copy(const struct fs_owning *o, int to) {
  struct stat st, now;
  char name[FS_BACKING_NAME_SIZE];
  FS_AUTO_CLOSE int from =
      openat(o->d->backing_fd, fs_backing_name(o->id, name), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (from < 0 || fstat(from, &st) < 0) return errno == EAGAIN ? -EIO : -errno;
  if (!S_ISREG(st.st_mode)) return -EIO;
  if (lseek(to, 0, SEEK_SET) < 0 || ftruncate(to, 0) < 0) return -errno;
  fs_err err = fs_stagein_bytes(o->d->stagein, from, to);
  if (err < 0) return err;
  struct timespec times[2] = {st.st_mtim, st.st_mtim};
  if (fstat(from, &now) < 0 || fchmod(to, st.st_mode & 07777) < 0 || futimens(to, times) < 0) return -errno;
  return fs_same_contents(&st, &now) ? 0 : -EAGAIN;
}

static fs_err fs_own_work(struct fs_io *io) {
  const struct fs_owning *o = FS_ITEM(io, struct fs_owning, io);
  int dir = o->d->backing_fd;
  char name[FS_BACKING_NAME_SIZE], copy[FS_BACKING_NAME_SIZE];
  /* outside the watched directory, where its close would count as a publication */
  snprintf(copy, sizeof(copy), "own-%016llx", (unsigned long long)o->id);
  (void)unlinkat(dir, copy, 0);
  FS_AUTO_CLOSE int to = openat(dir, copy, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  fs_err err = to < 0 ? -errno : -EAGAIN;
  if (to >= 0 && o->empty) err = fchmod(to, o->mode & 07777) < 0 ? -errno : 0;
  for (unsigned tries = 0; err == -EAGAIN && tries < FS_OWN_TRIES; tries++) err = fs_own_copy(o, to);
  if (err == -EAGAIN) err = -EIO;
  if (err == 0 && renameat(dir, copy, dir, fs_backing_name(o->id, name)) < 0) err = -errno;
  if (err < 0 && to >= 0) (void)unlinkat(dir, copy, 0);
  return err;
}

static void fs_own_done(struct fs_io *io) {
  struct fs_owning *o = FS_ITEM(io, struct fs_owning, io);
  struct fs_daemon *d = o->d;
  struct fs_backing_file *f = fs_backing_find(d, o->id);
  char name[FS_BACKING_NAME_SIZE];
  if (!f || f->gone) { /* the file was removed before the copy came */
    if (io->err == 0) (void)unlinkat(d->backing_fd, fs_backing_name(o->id, name), 0);
  } else if (f->in && io->err < 0) {
    *f->in = (struct fs_backing_in){.err = fs_in_errno(io->err), .err_at = d->now};
  } else if (f->in) {
    free(f->in);
    f->in = NULL;
    if (f->reported) f->reported->loose = true;
  }
  free(o);
}

static fs_err fs_own_start(struct fs_daemon *d, struct fs_backing_file *f, bool empty) {
  struct fs_backing_in *in = f->in;
  if (in->copying) return -EINPROGRESS;
  if (!empty && fs_space_full(d)) return -EDQUOT;
  if (in->err < 0 && d->now < in->err_at + FS_OWN_ERR_NS) return in->err;
  struct fs_owning *o = malloc(sizeof(*o));
  if (!o) return -ENOMEM;
  *o = (struct fs_owning){.d = d, .id = f->id, .mode = f->mode, .empty = empty};
  o->io = (struct fs_io){.work = fs_own_work, .done = fs_own_done};
  *in = (struct fs_backing_in){.copying = true};
  fs_iopool_submit(&d->stagein->copies, &o->io);
  return -EINPROGRESS;
}

/* ---- calls ---- */

static void fs_in_own(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f,
                      const struct fs_names_call *c) {
  uint64_t copied = d->stagein ? atomic_load_explicit(&d->stagein->copied, memory_order_relaxed) : 0;
  fs_err err = fs_own_start(d, f, c->flags & FS_OWN_EMPTY);
  fs_ns_answer(d->ns, a, err, &copied, sizeof(copied));
}

/* These come after OWN; if not they wait for it as long as calls are made again. */
static void fs_in_change(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f,
                         const struct fs_names_call *c) {
  fs_err err = fs_own_start(d, f, false);
  (void)c;
  fs_ns_answer(d->ns, a, err == -EINPROGRESS ? -EAGAIN : err, NULL, 0);
}

fs_home_handler *const fs_staged_handlers[FS_NAMES_OPS] = {
    [FS_NAMES_SETATTR] = fs_in_change, [FS_NAMES_OPEN] = fs_in_hold, [FS_NAMES_EXTEND] = fs_in_change,
    [FS_NAMES_APPEND] = fs_in_change,  [FS_NAMES_OWN] = fs_in_own,
};
