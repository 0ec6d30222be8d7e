/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SETATTR and APPEND of files whose home is this node. The I/O pool changes the backing file. Then
 * the MPI thread answers the caller, after SETATTR when the file is published.
 *
 * While a file is truncated, calls about it wait (fs_change_waits). They are kept in the order of
 * their arrival, and made when their turn comes. If a call comes again while it is at work, the
 * newest request gets the answer. If it comes again later, it is not done twice: a second truncation
 * would remove later writes.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "daemon/outputs/backing.h"

/* A change until its answer, in the chain `changing`, or a call that waits, in the chain
   `waiting`. */
struct fs_change {
  struct fs_chain chain;
  struct fs_io io;
  struct fs_daemon *d;
  struct fs_asked asked;
  bool cuts;                 /* the backing file may be cut, and the extent map is not cut yet */
  uint64_t off;              /* where the bytes of an APPEND are */
  struct fs_names_call call; /* then its tails */
};

static struct fs_change *fs_change_new(struct fs_daemon *d, struct fs_asked a, const struct fs_names_call *c,
                                       struct fs_chain *list) {
  struct fs_change *s = malloc(offsetof(struct fs_change, call) + fs_call_size(c));
  if (!s) {
    fs_ns_answer(d->ns, a, -ENOMEM, NULL, 0);
    return NULL;
  }
  memset(s, 0, offsetof(struct fs_change, call));
  s->d = d;
  s->asked = a;
  memcpy(&s->call, c, fs_call_size(c));
  fs_chain_push(list, &s->chain);
  return s;
}

/* ---- calls that wait ---- */

bool fs_backing_cutting(const struct fs_daemon *d, uint64_t id) {
  const struct fs_chain *list = &d->backing_files->changing;
  for (const struct fs_chain *l = list->next; l != list; l = l->next) {
    const struct fs_change *s = FS_ITEM(l, struct fs_change, chain);
    if (s->cuts && fs_call_id(&s->call) == id) return true;
  }
  return false;
}

/* Returns the id of the call, which is unique in the job; 0: it has none. */
static uint64_t fs_change_call(const struct fs_names_call *c) {
  uint8_t at = fs_call_op(c)->call;
  return at != 0 ? *fs_call_at((struct fs_names_call *)c, at) : 0;
}

/* If this call is in the list already, has that one answer the newest request, and returns true. Its
   caller has had no answer in time. */
static bool fs_change_joins(const struct fs_chain *list, struct fs_asked a, const struct fs_names_call *c) {
  uint64_t call = fs_change_call(c);
  for (struct fs_chain *l = list->next; call != 0 && l != list; l = l->next) {
    struct fs_change *s = FS_ITEM(l, struct fs_change, chain);
    if (fs_change_call(&s->call) != call || s->asked.from != a.from) continue;
    s->asked.id = FS_MAX(s->asked.id, a.id);
    return true;
  }
  return false;
}

/* Returns the first call about the file that waits, or NULL. */
static struct fs_change *fs_change_first(const struct fs_daemon *d, uint64_t id) {
  const struct fs_chain *list = &d->backing_files->waiting;
  for (struct fs_chain *l = list->next; l != list; l = l->next) {
    struct fs_change *s = FS_ITEM(l, struct fs_change, chain);
    if (fs_call_id(&s->call) == id) return s;
  }
  return NULL;
}

/* Returns true if the file is being truncated and has segments, or the call gives it one: the extent
   map must fit the backing file. */
static bool fs_change_waits(const struct fs_daemon *d, const struct fs_names_call *c) {
  if (!fs_backing_cutting(d, fs_call_id(c))) return false;
  const struct fs_backing_file *f = fs_backing_find(d, fs_call_id(c));
  return fs_backing_gives_segment(c) || (f && fs_extents_any(f->extents));
}

bool fs_backing_wait(struct fs_daemon *d, struct fs_asked a, const struct fs_names_call *c) {
  struct fs_backing *t = d->backing_files;
  if (fs_change_joins(&t->changing, a, c) || fs_change_joins(&t->waiting, a, c)) return true;
  if (!fs_change_waits(d, c) && !fs_change_first(d, fs_call_id(c))) return false;
  (void)fs_change_new(d, a, c, &t->waiting);
  return true;
}

/* Makes the calls about this file that have waited, up to the next one that has to wait. A rank that
   is no member any more has nothing open (fs_backing_members), so its calls are dropped. */
static void fs_change_next(struct fs_daemon *d, uint64_t id) {
  struct fs_change *s;
  while ((s = fs_change_first(d, id)) != NULL && !fs_change_waits(d, &s->call)) {
    fs_chain_drop(&s->chain);
    if (fs_member(fs_ns_members(d->ns), s->asked.from)) fs_backing_answer(d, s->asked, &s->call);
    free(s);
  }
}

static void fs_change_end(struct fs_change *s, fs_err err, const void *body, size_t n) {
  struct fs_daemon *d = s->d;
  uint64_t id = fs_call_id(&s->call);
  fs_ns_answer(d->ns, s->asked, err, body, err == 0 ? n : 0);
  fs_chain_drop(&s->chain);
  free(s);
  fs_change_next(d, id); /* also after a truncation that has failed */
}

/* ---- SETATTR ---- */

static fs_err fs_setting_size(const struct fs_daemon *d, uint64_t id, uint64_t size) {
  struct stat st;
  FS_AUTO_CLOSE fs_fd fd = fs_backing_file_open(d, id, O_WRONLY | O_NONBLOCK);
  if (fd < 0) return fd;
  if (fs_space_full(d) && fstat(fd, &st) == 0 && size > (uint64_t)st.st_size) return -EDQUOT;
  return ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
}

/* Sets the times last, because the other changes change them. */
static fs_err fs_setting_work(struct fs_io *io) {
  const struct fs_change *s = FS_ITEM(io, struct fs_change, io);
  const struct fs_call_setattr *c = &s->call.setattr;
  uint32_t flags = s->call.flags;
  char name[FS_BACKING_NAME_SIZE];
  struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = c->mtime, .tv_nsec = c->mtime_ns}};
  int dir = s->d->backing_fd;
  fs_backing_name(c->id, name);
  fs_err err = flags & FS_SET_SIZE ? fs_setting_size(s->d, c->id, c->size) : 0;
  if (err == 0 && (flags & FS_SET_MODE) && fchmodat(dir, name, c->mode & 07777, 0) < 0) err = -errno;
  if (err == 0 && (flags & FS_SET_TIMES) && utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0) err = -errno;
  return err;
}

/* -ENOENT: the file was removed, but it has been changed for those that have it open. Then the body
   is no record. */
static void fs_setting_published(void *ctx, fs_err err, const void *body, size_t n) {
  bool removed = err == -ENOENT;
  fs_change_end(ctx, removed ? 0 : err, body, removed ? 0 : n);
}

/* Publishes the change, if the file has a name. What was never published may still be open and not
   whole. */
static void fs_setting_publish(struct fs_change *s) {
  struct fs_backing_file *f = fs_backing_find(s->d, s->call.setattr.id);
  if (f && f->reported) f->reported->loose = true;
  if (!f || f->dir == 0 || f->creating || f->removed)
    fs_change_end(s, 0, NULL, 0);
  else if (f->mode == 0)
    fs_backing_publish_open(s->d, f->id, fs_setting_published, s);
  else
    fs_backing_publish(s->d, f->id, fs_setting_published, s);
}

static void fs_setting_told(void *ctx, fs_err err, const void *body, size_t n) {
  if (err < 0)
    fs_change_end(ctx, err, body, n);
  else
    fs_setting_publish(ctx);
}

static void fs_setting_done(struct fs_io *io) {
  struct fs_change *s = FS_ITEM(io, struct fs_change, io);
  struct fs_daemon *d = s->d;
  const struct fs_call_setattr *c = &s->call.setattr;
  uint64_t id = c->id;
  if (io->err < 0) {
    fs_change_end(s, io->err, NULL, 0);
    return;
  }
  struct fs_backing_file *f = fs_backing_find(d, id);
  bool listed = s->cuts && f && f->extents;
  if (listed) fs_backing_cut(d, f, c->size);
  s->cuts = false;
  fs_ns_done_now(d->ns, c->call);
  if (listed)
    fs_maps_report(d, fs_setting_told, s);
  else
    fs_setting_publish(s);
  fs_change_next(d, id);
}

void fs_backing_set(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f, const struct fs_names_call *c) {
  struct fs_change *s = fs_change_new(d, a, c, &d->backing_files->changing);
  if (!s) return;
  if (c->flags == 0) {
    if (f) fs_backing_is_open(d, f);
    fs_backing_publish_open(d, c->setattr.id, fs_setting_published, s);
    return;
  }
  if (fs_ns_done_before(d->ns, c->setattr.call)) {
    fs_setting_publish(s);
    return;
  }
  s->cuts = c->flags & FS_SET_SIZE;
  /* Programs on this node read the backing file through the kernel. From now on, what they read
     fits no extent map that they know. */
  if (s->cuts && f && f->extents) fs_maps_changed(d);
  s->io = (struct fs_io){.work = fs_setting_work, .done = fs_setting_done};
  fs_iopool_submit(&d->pool, &s->io);
}

/* ---- APPEND ---- */

/* Appends through the kernel, with O_APPEND: no other writer gets the same range, not even one
   of home's own programs. With FS_APPEND_AT, writes at an offset. */
static fs_err fs_append_work(struct fs_io *io) {
  static const char zeros[65536];
  struct fs_change *s = FS_ITEM(io, struct fs_change, io);
  size_t bytes = s->call.append.bytes;
  bool data = s->call.tail_len > 0;
  struct iovec iov[FS_APPEND_MAX / sizeof(zeros)] = {
      {.iov_base = (void *)(uintptr_t)fs_call_tail(&s->call), .iov_len = bytes}};
  int count = data;
  for (uint64_t left = data ? 0 : bytes; left > 0; left -= iov[count++].iov_len)
    iov[count] = (struct iovec){.iov_base = (void *)(uintptr_t)zeros, .iov_len = FS_MIN(left, sizeof(zeros))};
  bool at = s->call.flags & FS_APPEND_AT;
  FS_AUTO_CLOSE fs_fd fd = fs_backing_file_open(s->d, s->call.append.id, O_WRONLY | (at ? 0 : O_APPEND));
  if (fd < 0) return fd;
  if (at && lseek(fd, (off_t)s->call.append.off, SEEK_SET) < 0) return -errno;
  ssize_t put = writev(fd, iov, count);
  if (put != (ssize_t)bytes) return put < 0 ? -errno : -ENOSPC;
  off_t end = lseek(fd, 0, SEEK_CUR);
  s->off = (uint64_t)end - bytes;
  return end < 0 ? -errno : 0;
}

static void fs_append_done(struct fs_io *io) {
  struct fs_change *s = FS_ITEM(io, struct fs_change, io);
  const struct fs_appended at = {.off = s->off, .home = s->d->net->rank};
  struct fs_backing_file *f = fs_backing_find(s->d, s->call.append.id);
  if (io->err == 0) fs_ns_done_now(s->d->ns, s->call.append.call);
  if (io->err == 0 && f) fs_backing_grows(s->d, f);
  fs_change_end(s, io->err, &at, sizeof(at));
}

void fs_backing_append(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f,
                       const struct fs_names_call *c) {
  if (fs_extents_none(d, a, f, c->append.id)) return;
  if (fs_ns_done_before(d->ns, c->append.call)) {
    const struct fs_appended unknown = {.off = FS_APPEND_UNKNOWN, .home = d->net->rank};
    fs_ns_answer(d->ns, a, 0, &unknown, sizeof(unknown));
    return;
  }
  fs_err err = c->append.bytes == 0 || c->append.bytes > FS_APPEND_MAX ? -EINVAL : fs_space_full(d) ? -EDQUOT : 0;
  /* The extent map would hide what is written to the backing file. */
  if (err == 0 && (c->flags & FS_APPEND_AT) && fs_extents_any(f->extents)) err = -EREMCHG;
  if (err < 0) {
    fs_ns_answer(d->ns, a, err, NULL, 0);
    return;
  }
  struct fs_change *s = fs_change_new(d, a, c, &d->backing_files->changing);
  if (!s) return;
  s->io = (struct fs_io){.work = fs_append_work, .done = fs_append_done};
  fs_iopool_submit(&d->pool, &s->io);
}
