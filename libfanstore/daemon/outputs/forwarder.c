/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A forwarder is a backing file of this node that stands for a file of another node
 * (client/outputs/forwarder.c). Programs write it through the kernel. The daemon forwards the bytes
 * every second, when a client asks (FS_NAMES_SYNC), and when the last writer has closed the file.
 * With O_APPEND, the home appends the bytes, whole lines where possible. Otherwise the backing file
 * becomes a segment of the file. All runs in the MPI thread, but the I/O pool reads the bytes.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/outputs/forwarder.h"

#include "daemon/outputs/backing.h"
#include "daemon/outputs/outpath.h"
#include "daemon/outputs/replicate.h"
#include "util/sys.h"

#define FS_FORWARDER_PASS_NS 1000000000ull /* what was written is passed on so often, */
#define FS_FORWARDER_LOOK_NS 50000000ull   /* or at the first look after the last close */
#define FS_FORWARDER_LOOKS 32u             /* in a row */
#define FS_FORWARDER_TELL_NS 10000000000ull
#define FS_FORWARDER_RANGES 240u
#define FS_FORWARDERS 4096u /* at once; then ENFILE */

/* A call that waits for the writes made before it, not for those that others make later. */
struct fs_forwarder_wait {
  struct fs_chain chain;
  uint64_t until, upto; /* upto: bytes if append, else the number of a pass */
  uint32_t flags;
  uint64_t size;          /* for FS_SYNC_CUT and FS_SYNC_SEEK */
  struct fs_forwarded of; /* file is 0 if there is no forwarder */
  fs_ns_done *done;
  void *ctx;
};

struct fs_forwarder {
  struct fs_chain chain, waiting;
  struct fs_daemon *d;
  uint64_t id, to, dir;
  uint64_t sent;             /* append: bytes forwarded so far; else where the segment's bytes begin */
  uint64_t passes, scan;     /* segment: number of passes begun; how far the last one is */
  uint64_t look_at, pass_at; /* when to see whether it is closed; to pass on what was written */
  struct stat st;            /* attributes at the start of the last pass */
  bool append, closed, busy;
  bool extending;    /* `call` is an EXTEND; else an APPEND */
  uint64_t kept;     /* append: the unpublished bytes begin here */
  uint64_t appended; /* the unpublished bytes that the home has (fs_appended_more), or 0 */
  fs_err err;        /* no caller got this error yet */
  uint64_t lost;     /* bytes that were lost and are not reported yet */
  fs_err lost_err;   /* why */
  uint64_t tell_at;  /* no report before this time */
  struct fs_io io;
  struct fs_names_call call; /* the last one: APPEND or EXTEND */
  char bytes[FS_APPEND_DATA];
};

static void fs_forwarder_run(struct fs_forwarder *r);

struct fs_forwarder *fs_forwarder_find(const struct fs_daemon *d, uint64_t id) {
  for (struct fs_chain *l = d->forwarders->next; l != d->forwarders; l = l->next) {
    struct fs_forwarder *r = FS_ITEM(l, struct fs_forwarder, chain);
    if (r->id == id) return r;
  }
  return NULL;
}

static void fs_forwarder_end(struct fs_forwarder_wait *w, fs_err err) {
  w->done(w->ctx, err, &w->of, w->of.file != 0 ? sizeof(w->of) : 0);
  free(w);
}

/* Answers a call after the file was cut or published. */
static void fs_forwarder_done(void *ctx, fs_err err, const void *body, size_t n) {
  (void)body, (void)n;
  fs_forwarder_end(ctx, err == -ENOENT ? 0 : err);
}

/* Answers a waiting call. The gap that a seek leaves (FS_SYNC_SEEK) is not part of the segment. */
static void fs_forwarder_answer(struct fs_forwarder *r, struct fs_forwarder_wait *w, fs_err err) {
  struct fs_names_call cut = {.op = FS_NAMES_SETATTR,
                              .flags = FS_SET_SIZE,
                              .setattr = {.dir = r->to, .id = r->to, .mode = S_IFREG, .size = w->size}};
  fs_chain_drop(&w->chain);
  if (err == 0 && (w->flags & FS_SYNC_SEEK) && !r->append) {
    if (w->size < r->sent) err = -ESPIPE;
    if (w->size >= (uint64_t)r->st.st_size) r->sent = r->scan = FS_MAX(w->size, r->sent);
  }
  if (err != 0 || !(w->flags & FS_SYNC_CUT)) {
    fs_forwarder_end(w, err);
    return;
  }
  cut.setattr.call = fs_ns_id(r->d->ns);
  r->busy = true; /* what runs inside this call leaves it alone */
  fs_ns_call(r->d->ns, r->d->now, &cut, fs_forwarder_done, w);
  r->busy = false;
}

static bool fs_forwarder_hurry(const struct fs_forwarder *r) {
  return r->closed || r->waiting.next != &r->waiting;
}

/* ---- what is lost ---- */

struct fs_forwarder_loss {
  struct fs_daemon *d;
  uint64_t id, bytes;
  fs_err err;
};

static void fs_forwarder_named(void *ctx, fs_err err, const char *path) {
  struct fs_forwarder_loss *l = ctx;
  char number[32];
  snprintf(number, sizeof(number), "%llu", (unsigned long long)l->id);
  if (err != -ENOENT) /* else the file was removed */
    fs_say_text(l->d, "warn",
                "output file %.700s: %llu bytes that were written here are lost, node %u did not take them: %s",
                err == 0 ? path : number, (unsigned long long)l->bytes, fs_home_of(l->d, l->id), strerror(-l->err));
  l->d->forwarders_telling--;
  free(l);
}

/* Reports what was lost. */
static void fs_forwarder_tell(struct fs_forwarder *r) {
  struct fs_forwarder_loss *l = malloc(sizeof(*l));
  if (!l) return;
  *l = (struct fs_forwarder_loss){.d = r->d, .id = r->to, .bytes = r->lost, .err = r->lost_err};
  r->lost = 0;
  r->tell_at = r->d->now + FS_FORWARDER_TELL_NS;
  r->d->forwarders_telling++;
  r->busy = true; /* what runs inside this call leaves it alone */
  fs_path_find(r->d, r->dir, r->to, fs_forwarder_named, l);
  r->busy = false;
}

/* Returns where the lost bytes begin. EXTEND gives -EIO if the home lost the appended bytes. */
static uint64_t fs_forwarder_lost_from(const struct fs_forwarder *r, fs_err err) {
  struct fs_range first;
  if (r->append) return r->extending && err == -EIO ? r->kept : r->sent;
  if (!r->extending || r->call.tail_len < sizeof(first)) return r->scan;
  memcpy(&first, r->bytes, sizeof(first));
  return first.off;
}

/* Gives up all bytes not forwarded yet. The next call that waits gets the error, and the launcher
   prints a warning: the first at once, later ones for all that was lost in ten seconds. */
static void fs_forwarder_failed(struct fs_forwarder *r, fs_err err) {
  struct stat st = {0};
  char name[FS_BACKING_NAME_SIZE];
  uint64_t from = fs_forwarder_lost_from(r, err);
  if (fstatat(r->d->backing_fd, fs_backing_name(r->id, name), &st, AT_SYMLINK_NOFOLLOW) < 0) st.st_size = 0;
  uint64_t end = (uint64_t)st.st_size;
  if (r->append) r->sent = end;
  r->st = st;
  r->scan = end;
  if (r->extending) r->appended = 0; /* else the home has the earlier bytes */
  if (r->appended == 0) r->kept = end;
  if (err == -ENOENT) return; /* the file was removed */
  r->err = err;
  r->lost += FS_MAX(end, from) - from;
  r->lost_err = err;
  if (r->d->now >= r->tell_at) fs_forwarder_tell(r);
}

static int fs_forwarder_open(const struct fs_forwarder *r) {
  char name[FS_BACKING_NAME_SIZE];
  return openat(r->d->backing_fd, fs_backing_name(r->id, name), FS_BACKING_READ);
}

/* If it cannot be told, no write may be lost. */
static bool fs_forwarder_written(const struct fs_forwarder *r) {
  struct stat st;
  return fs_backing_written(r->d, r->id, &st) != 0;
}

/* Answers the calls that wait for no more than `upto`. */
static void fs_forwarder_reached(struct fs_forwarder *r, uint64_t upto) {
  bool any = false;
  for (struct fs_chain *l = r->waiting.next, *next; l != &r->waiting; l = next) {
    struct fs_forwarder_wait *w = FS_ITEM(l, struct fs_forwarder_wait, chain);
    next = l->next;
    if (w->upto > upto) continue;
    fs_forwarder_answer(r, w, r->err);
    any = true;
  }
  if (any) r->err = 0;
}

static bool fs_forwarder_awaited(const struct fs_forwarder *r, uint64_t upto) {
  for (struct fs_chain *l = r->waiting.next; l != &r->waiting; l = l->next)
    if (FS_ITEM(l, struct fs_forwarder_wait, chain)->upto <= upto) return true;
  return false;
}

/* Ends the forwarder if no program can write to it any more. All its bytes are forwarded. */
static void fs_forwarder_settled(struct fs_forwarder *r, bool gone) {
  char name[FS_BACKING_NAME_SIZE];
  fs_forwarder_reached(r, UINT64_MAX);
  if (!gone && (!r->closed || fs_forwarder_written(r))) {
    r->closed = false;
    return;
  }
  if (r->lost > 0) fs_forwarder_tell(r);
  if (r->append) (void)unlinkat(r->d->backing_fd, fs_backing_name(r->id, name), 0);
  r->d->forwarders_open--;
  fs_chain_drop(&r->chain);
  free(r);
}

/* ---- passing on ---- */

static void fs_forwarder_called(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_forwarder *r = ctx;
  struct fs_appended at = {.off = FS_APPEND_UNKNOWN};
  r->busy = false;
  if (err == 0 && n == sizeof(at)) memcpy(&at, body, n);
  if (err < 0) {
    fs_forwarder_failed(r, err);
  } else if (r->extending) {
    r->appended = 0;
    r->kept = r->sent;
  } else {
    r->appended = fs_appended_more(r->appended, &at, r->call.append.bytes);
    r->sent += r->call.append.bytes;
  }
  fs_forwarder_run(r);
}

static_assert(offsetof(struct fs_forwarder, bytes) ==
                  offsetof(struct fs_forwarder, call) + sizeof(struct fs_names_call),
              "the bytes follow the call");

static void fs_forwarder_call_append(struct fs_forwarder *r, size_t n) {
  const struct fs_call_append append = {.id = r->to, .call = fs_ns_id(r->d->ns), .bytes = n};
  r->busy = true;
  r->extending = false;
  r->call = (struct fs_names_call){.op = FS_NAMES_APPEND, .tail_len = (uint16_t)n, .append = append};
  fs_ns_call(r->d->ns, r->d->now, &r->call, fs_forwarder_called, r);
}

static void fs_forwarder_call_extend(struct fs_forwarder *r, size_t n) {
  const struct fs_call_extend extend = {.id = r->to, .segment = r->id};
  r->busy = true;
  r->extending = true;
  r->call = (struct fs_names_call){.op = FS_NAMES_EXTEND, .tail_len = (uint16_t)n, .extend = extend};
  fs_appended_say(&r->call.extend, r->appended);
  fs_segment_extend(r->d, &r->call, fs_forwarder_called, r);
}

/* Returns how many of n bytes to append: whole lines, unless one is too long or a call waits. */
static size_t fs_forwarder_lines(const struct fs_forwarder *r, size_t n) {
  const char *last = memrchr(r->bytes, '\n', n);
  if (n < FS_APPEND_DATA && fs_forwarder_hurry(r)) return n;
  return last ? (size_t)(last - r->bytes) + 1 : n == FS_APPEND_DATA ? n : 0;
}

/* Lets the I/O pool look at the forwarder's bytes. */
static void fs_forwarder_submit(struct fs_forwarder *r, fs_err (*work)(struct fs_io *), void (*done)(struct fs_io *)) {
  r->busy = true;
  r->io = (struct fs_io){.work = work, .done = done};
  fs_iopool_submit(&r->d->pool, &r->io);
}

static fs_err fs_forwarder_read(struct fs_io *io) {
  struct fs_forwarder *r = FS_ITEM(io, struct fs_forwarder, io);
  FS_AUTO_CLOSE int fd = fs_forwarder_open(r);
  ssize_t n = fd < 0 ? -1 : pread(fd, r->bytes, sizeof(r->bytes), (off_t)r->sent);
  if (n < 0) return -errno;
  io->len = (uint32_t)n;
  return 0;
}

static void fs_forwarder_have(struct fs_io *io) {
  struct fs_forwarder *r = FS_ITEM(io, struct fs_forwarder, io);
  size_t n = io->err == 0 ? fs_forwarder_lines(r, io->len) : 0;
  r->busy = false;
  if (io->err == -EAGAIN) return; /* a program has a lease: try again at the next look */
  if (io->err < 0) fs_forwarder_failed(r, io->err);
  if (n > 0)
    fs_forwarder_call_append(r, n);
  else if (r->appended != 0)
    fs_forwarder_call_extend(r, 0);
  else if (fs_forwarder_hurry(r))
    fs_forwarder_run(r);
}

/* Lists the data ranges of the segment. A hole was not written here: its range is another's. */
static fs_err fs_forwarder_find_ranges(struct fs_io *io) {
  struct fs_forwarder *r = FS_ITEM(io, struct fs_forwarder, io);
  struct fs_range range;
  FS_AUTO_CLOSE int fd = fs_forwarder_open(r);
  uint64_t end = (uint64_t)r->st.st_size;
  if (fd < 0) return -errno;
  io->len = 0;
  while (r->scan < end && io->len < FS_FORWARDER_RANGES * sizeof(range)) {
    off_t data = lseek(fd, (off_t)r->scan, SEEK_DATA);
    off_t hole = data < 0 ? data : lseek(fd, data, SEEK_HOLE);
    if (data < 0 && errno != ENXIO) return -errno;
    if (data < 0 || (uint64_t)data >= end) break;
    range.off = (uint64_t)data;
    range.len = FS_MIN(hole > data ? (uint64_t)hole : end, end) - range.off;
    memcpy(r->bytes + io->len, &range, sizeof(range));
    io->len += (uint32_t)sizeof(range);
    r->scan = range.off + range.len;
  }
  if (io->len < FS_FORWARDER_RANGES * sizeof(range)) r->scan = end;
  return 0;
}

static void fs_forwarder_ranges(struct fs_io *io) {
  struct fs_forwarder *r = FS_ITEM(io, struct fs_forwarder, io);
  r->busy = false;
  if (io->err == -EAGAIN) return;
  if (io->err < 0) fs_forwarder_failed(r, io->err);
  if (io->err == 0 && io->len > 0)
    fs_forwarder_call_extend(r, io->len);
  else
    fs_forwarder_run(r);
}

static void fs_forwarder_run_append(struct fs_forwarder *r, uint64_t size) {
  if (size < r->sent) r->sent = size; /* a program truncated it, for example by "> /dev/stdout" */
  r->kept = FS_MIN(r->kept, r->sent);
  if (r->appended == 0) fs_forwarder_reached(r, r->sent);
  if (r->appended != 0 && (size == r->sent || fs_forwarder_awaited(r, r->sent)))
    fs_forwarder_call_extend(r, 0);
  else if (size > r->sent)
    fs_forwarder_submit(r, fs_forwarder_read, fs_forwarder_have);
  else
    fs_forwarder_settled(r, false);
}

static void fs_forwarder_run_segment(struct fs_forwarder *r, const struct stat *st) {
  r->st.st_size = FS_MIN(r->st.st_size, st->st_size);
  bool pass = r->scan < (uint64_t)r->st.st_size;
  if (!pass) fs_forwarder_reached(r, r->passes);
  bool changed = st->st_size != r->st.st_size || !fs_same_time(st->st_mtim, r->st.st_mtim);
  if (!pass && (uint64_t)st->st_size > r->sent && changed) {
    r->passes++;
    r->scan = r->sent;
    pass = true;
    r->st = *st;
  }
  if (pass)
    fs_forwarder_submit(r, fs_forwarder_find_ranges, fs_forwarder_ranges);
  else
    fs_forwarder_settled(r, false);
}

static void fs_forwarder_run(struct fs_forwarder *r) {
  char name[FS_BACKING_NAME_SIZE];
  struct stat st;
  if (r->busy) return;
  if (fstatat(r->d->backing_fd, fs_backing_name(r->id, name), &st, AT_SYMLINK_NOFOLLOW) < 0) {
    fs_forwarder_settled(r, true);
    return;
  }
  if (r->append)
    fs_forwarder_run_append(r, (uint64_t)st.st_size);
  else
    fs_forwarder_run_segment(r, &st);
}

/* ---- calls, closes, time ---- */

fs_err fs_forwarder_begin(struct fs_daemon *d, const struct fs_names_call *c) {
  if (FS_OUTPUT_ID_RANK(c->forwarder.file) >= d->net->nodes || fs_forwarder_find(d, c->forwarder.id)) return -EINVAL;
  if (d->forwarders_open >= FS_FORWARDERS) return -ENFILE;
  struct fs_forwarder *r = malloc(sizeof(*r));
  if (!r) return -ENOMEM;
  *r = (struct fs_forwarder){.d = d,
                             .id = c->forwarder.id,
                             .to = c->forwarder.file,
                             .dir = c->forwarder.dir >> 63 ? 0 : c->forwarder.dir,
                             .append = c->flags & FS_FORWARDER_APPEND,
                             .sent = c->forwarder.off};
  if (r->append) r->sent = 0;
  r->scan = r->sent;
  r->look_at = d->now + FS_FORWARDER_LOOK_NS;
  r->pass_at = d->now + FS_FORWARDER_PASS_NS;
  fs_chain_init(&r->waiting);
  fs_chain_push(d->forwarders, &r->chain);
  d->forwarders_open++;
  return 0;
}

/* Returns what a call has to wait for. `size` was the file's size when the caller first asked. */
static uint64_t fs_forwarder_upto(const struct fs_forwarder *r, uint64_t size) {
  return r->append ? FS_MAX(size, 1u) : r->passes + 1;
}

void fs_forwarder_sync(struct fs_daemon *d, const struct fs_names_call *c, fs_ns_done *done, void *ctx) {
  uint64_t id = c->sync.id;
  struct fs_forwarder *r = fs_forwarder_find(d, id);
  struct fs_forwarder_wait *w = malloc(sizeof(*w));
  if (!w) {
    done(ctx, -ENOMEM, NULL, 0);
    return;
  }
  *w = (struct fs_forwarder_wait){.flags = c->flags, .size = c->sync.size, .done = done, .ctx = ctx};
  w->until = d->now + d->cfg->deadline_ns;
  fs_chain_init(&w->chain);
  if (!r && (c->flags & FS_SYNC_LOOK)) {
    fs_backing_look(d, id, fs_forwarder_done, w);
    return;
  }
  if (!r) { /* stores through a mapping into dirty pages do not change the times */
    fs_copy_loosen(d, id);
    fs_backing_publish(d, id, fs_forwarder_done, w);
    return;
  }
  w->upto = fs_forwarder_upto(r, c->sync.upto);
  w->of = (struct fs_forwarded){.file = r->to, .dir = r->dir, .append = r->append};
  fs_chain_push(&r->waiting, &w->chain);
  fs_forwarder_run(r);
}

bool fs_forwarders_pending(const struct fs_daemon *d) {
  for (struct fs_chain *l = d->forwarders->next; l != d->forwarders; l = l->next) {
    const struct fs_forwarder *r = FS_ITEM(l, struct fs_forwarder, chain);
    if (r->busy || r->closed) return true;
  }
  return d->forwarders_telling > 0;
}

/* The list is in the order of look_at. */
static struct fs_forwarder *fs_forwarder_due(const struct fs_daemon *d) {
  struct fs_forwarder *r = FS_ITEM(d->forwarders->next, struct fs_forwarder, chain);
  return fs_chain_empty(d->forwarders) || d->now < r->look_at ? NULL : r;
}

/* Sees whether the forwarder is closed, and passes on what was written if it is time. This may end
   it. */
static void fs_forwarder_look(struct fs_daemon *d, struct fs_forwarder *r) {
  r->look_at = d->now + FS_FORWARDER_LOOK_NS;
  fs_chain_drop(&r->chain);
  fs_chain_push(d->forwarders, &r->chain);
  r->closed = r->closed || !fs_forwarder_written(r);
  if (!r->closed && d->now < r->pass_at) return;
  r->pass_at = d->now + FS_FORWARDER_PASS_NS;
  fs_forwarder_run(r);
}

void fs_forwarder_timers(struct fs_daemon *d) {
  struct fs_forwarder *r;
  for (struct fs_chain *l = d->forwarders->next; l != d->forwarders; l = l->next) {
    r = FS_ITEM(l, struct fs_forwarder, chain);
    for (struct fs_chain *k = r->waiting.next, *after; k != &r->waiting; k = after) {
      struct fs_forwarder_wait *w = FS_ITEM(k, struct fs_forwarder_wait, chain);
      after = k->next;
      if (d->now >= w->until) fs_forwarder_answer(r, w, -EAGAIN);
    }
  }
  for (uint32_t n = 0; n < FS_FORWARDER_LOOKS && (r = fs_forwarder_due(d)) != NULL; n++) fs_forwarder_look(d, r);
}

void fs_forwarders_look_all(struct fs_daemon *d) {
  for (uint32_t left = d->forwarders_open; left > 0 && !fs_chain_empty(d->forwarders); left--) {
    struct fs_forwarder *r = FS_ITEM(d->forwarders->next, struct fs_forwarder, chain);
    fs_forwarder_look(d, r);
  }
}

fs_err fs_forwarders_new(struct fs_daemon *d) {
  d->forwarders = malloc(sizeof(*d->forwarders));
  if (!d->forwarders) return -ENOMEM;
  fs_chain_init(d->forwarders);
  return 0;
}
