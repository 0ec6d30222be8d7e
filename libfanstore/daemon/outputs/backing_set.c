/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SETATTR of a file whose home is this node. The I/O pool changes the backing file. Then the MPI
 * thread publishes the file and answers the caller. If a call comes again while it is at work or
 * after it was done, it is not done twice: a second truncation would remove later writes.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/outputs/backing.h"

struct fs_backing_setting {
  struct fs_chain chain;
  struct fs_io io;
  struct fs_daemon *d;
  struct fs_asked asked;
  uint32_t flags; /* enum fs_set */
  struct fs_call_setattr call;
  bool working, waiting;
};

/* A call that was turned away comes again within 4 ms (ns_request.c) plus the network's time. */
#define FS_LET_IN_NS 10000000ull

static fs_err fs_setting_size(const struct fs_daemon *d, uint64_t id, uint64_t size) {
  struct stat st;
  FS_AUTO_CLOSE fs_fd fd = fs_backing_file_open(d, id, O_WRONLY | O_NONBLOCK);
  if (fd < 0) return fd;
  if (fs_space_full(d) && fstat(fd, &st) == 0 && size > (uint64_t)st.st_size) return -EDQUOT;
  return ftruncate(fd, (off_t)size) < 0 ? -errno : 0;
}

/* Sets the times last, because the other changes change them. */
static fs_err fs_setting_work(struct fs_io *io) {
  const struct fs_backing_setting *s = FS_ITEM(io, struct fs_backing_setting, io);
  const struct fs_call_setattr *c = &s->call;
  char name[FS_BACKING_NAME_SIZE];
  struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = c->mtime, .tv_nsec = c->mtime_ns}};
  int dir = s->d->backing_fd;
  fs_backing_name(c->id, name);
  fs_err err = s->flags & FS_SET_SIZE ? fs_setting_size(s->d, c->id, c->size) : 0;
  if (err == 0 && (s->flags & FS_SET_MODE) && fchmodat(dir, name, c->mode & 07777, 0) < 0) err = -errno;
  if (err == 0 && (s->flags & FS_SET_TIMES) && utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0) err = -errno;
  return err;
}

static void fs_setting_end(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_backing_setting *s = ctx;
  fs_ns_answer(s->d->ns, s->asked, err, body, err == 0 ? n : 0);
  fs_chain_drop(&s->chain);
  free(s);
}

/* -ENOENT: the file was removed, but it has been changed for those that have it open. */
static void fs_setting_published(void *ctx, fs_err err, const void *body, size_t n) {
  fs_setting_end(ctx, err == -ENOENT ? 0 : err, body, err == 0 ? n : 0);
}

/* Publishes the change. A file that was never published stays unpublished. */
static void fs_setting_publish(struct fs_backing_setting *s) {
  struct fs_backing_file *f = fs_backing_find(s->d, s->call.id);
  if (f && f->reported) f->reported->loose = true;
  if (f && f->mode != 0 && !f->removed)
    fs_backing_publish(s->d, s->call.id, fs_setting_published, s);
  else
    fs_setting_end(s, 0, NULL, 0);
}

static void fs_setting_told(void *ctx, fs_err err, const void *body, size_t n) {
  if (err < 0)
    fs_setting_end(ctx, err, body, n);
  else
    fs_setting_publish(ctx);
}

static void fs_setting_done(struct fs_io *io) {
  struct fs_backing_setting *s = FS_ITEM(io, struct fs_backing_setting, io);
  if (io->err < 0) {
    fs_setting_end(s, io->err, NULL, 0);
    return;
  }
  struct fs_backing_file *f = fs_backing_find(s->d, s->call.id);
  s->working = false;
  bool cut = f && (s->flags & FS_SET_SIZE) && f->extents;
  if (cut) fs_backing_cut(s->d, f, s->call.size);
  fs_ns_done_now(s->d->ns, s->call.call);
  if (cut)
    fs_maps_report(s->d, fs_setting_told, s);
  else
    fs_setting_publish(s);
}

/* If this call is at work already, has that one answer the newest request, and returns true. */
static bool fs_setting_joins(const struct fs_backing *t, struct fs_asked a, const struct fs_call_setattr *c) {
  for (struct fs_chain *l = t->setting.next; l != &t->setting; l = l->next) {
    struct fs_backing_setting *s = FS_ITEM(l, struct fs_backing_setting, chain);
    if (s->call.call != c->call || s->call.id != c->id || s->asked.from != a.from) continue;
    if (a.id > s->asked.id) s->asked = a;
    return true;
  }
  return false;
}

static void fs_setting_begin(struct fs_backing_setting *s, const struct fs_backing_file *f) {
  s->working = true;
  /* Programs on this node read the backing file through the kernel. From now on, what they read
     fits no extent map that they know. */
  if (f && fs_backing_cutting(s->d, f)) fs_maps_changed(s->d);
  fs_iopool_submit(&s->d->pool, &s->io);
}

void fs_backing_set(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f, const struct fs_names_call *c) {
  if (fs_setting_joins(d->backing_files, a, &c->setattr)) return;
  struct fs_backing_setting *s = malloc(sizeof(*s));
  if (!s) {
    fs_ns_answer(d->ns, a, -ENOMEM, NULL, 0);
    return;
  }
  *s = (struct fs_backing_setting){.d = d, .asked = a, .flags = c->flags, .call = c->setattr};
  s->io = (struct fs_io){.work = fs_setting_work, .done = fs_setting_done};
  fs_chain_push(&d->backing_files->setting, &s->chain);
  if (fs_ns_done_before(d->ns, c->setattr.call)) {
    fs_setting_publish(s);
    return;
  }
  s->waiting = f && (c->flags & FS_SET_SIZE) && d->now < f->let_in;
  if (!s->waiting) fs_setting_begin(s, f);
}

void fs_backing_let_in(struct fs_daemon *d, struct fs_backing_file *f) {
  f->let_in = d->now + FS_LET_IN_NS;
}

/* All truncations that waited begin together: other calls wait no longer than for one of them. */
void fs_backing_set_timers(struct fs_daemon *d) {
  struct fs_backing *t = d->backing_files;
  for (struct fs_chain *l = t->setting.next; l != &t->setting; l = l->next) {
    struct fs_backing_setting *s = FS_ITEM(l, struct fs_backing_setting, chain);
    const struct fs_backing_file *f = s->waiting ? fs_backing_find(d, s->call.id) : NULL;
    if (!s->waiting || (f && d->now < f->let_in)) continue;
    s->waiting = false;
    fs_setting_begin(s, f);
  }
}

bool fs_backing_cutting(const struct fs_daemon *d, const struct fs_backing_file *f) {
  const struct fs_backing *t = d->backing_files;
  for (struct fs_chain *l = t->setting.next; l != &t->setting; l = l->next) {
    const struct fs_backing_setting *s = FS_ITEM(l, struct fs_backing_setting, chain);
    if (s->working && s->call.id == f->id && (s->flags & FS_SET_SIZE)) return true;
  }
  return false;
}
