/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of this node's backing files, the OPEN and CLOSE of other nodes, and removal. See
 * backing.h. A file's version names its contents. OPEN gives out a new version if the backing file
 * differs from what other nodes were told last, or may differ although its times are the same.
 */
#include "daemon/outputs/backing.h"

#include "daemon/module.h"
#include "daemon/outputs/client_calls.h"
#include "daemon/outputs/locks.h"
#include "daemon/outputs/node_segment.h"
#include "daemon/outputs/replicate.h"
#include "daemon/outputs/service.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/sys.h"
#include "util/util.h"

#define FS_CLOCK_TICK_NS 20000000ll /* the kernel's file times may be this coarse */

const char *fs_backing_name(uint64_t id, char name[FS_BACKING_NAME_SIZE]) {
  snprintf(name, FS_BACKING_NAME_SIZE, FS_OUTPUT_FILE, (unsigned long long)id);
  return name;
}

bool fs_backing_mine(const struct fs_daemon *d, uint64_t id) {
  return (id & FS_OUTPUT_ID) && id >> 63 == 0 && fs_home_of(d, id) == d->net->rank;
}

/* ---- the table ---- */

struct fs_backing_file *fs_backing_find(const struct fs_daemon *d, uint64_t id) {
  struct fs_table_link *l = fs_table_find(&d->backing_files->files, id);
  return l ? FS_ITEM(l, struct fs_backing_file, by_id) : NULL;
}

static struct fs_backing_file *fs_backing_make(struct fs_daemon *d, uint64_t id) {
  struct fs_backing *s = d->backing_files;
  struct fs_backing_file *f = fs_backing_find(d, id);
  if (f) return f;
  f = calloc(1, sizeof(*f));
  if (!f) return NULL;
  f->id = id;
  fs_chain_init(&f->open);
  (void)fs_table_add(&s->files, &f->by_id, id);
  return f;
}

static void fs_backing_free(struct fs_daemon *d, struct fs_backing_file *f) {
  fs_table_remove(&d->backing_files->files, &f->by_id);
  fs_chain_drop(&f->open);
  free(f->reported);
  free(f->in);
  fs_copy_forget(d, f);
  free(f->extents);
  free(f->recent);
  free(f);
}

struct fs_backing_file *fs_backing_segment(struct fs_daemon *d, uint64_t id) {
  struct fs_backing_file *f = fs_backing_make(d, id);
  if (f && f->dir == 0) f->segment = true;
  return f;
}

void fs_backing_creating(struct fs_daemon *d, uint64_t id, uint64_t dir) {
  struct fs_backing_file *f = fs_backing_mine(d, id) ? fs_backing_make(d, id) : NULL;
  if (!f) return;
  f->dir = dir;
  f->creating = true;
}

static void fs_backing_count(struct fs_daemon *d, struct fs_backing_file *f) {
  if (!f->counted && f->mode == 0) d->count.outputs++; /* with a mode, a node has published it before */
  f->counted = true;
}

void fs_backing_created(struct fs_daemon *d, uint64_t id) {
  struct fs_backing_file *f = fs_backing_find(d, id);
  if (!f) return;
  f->creating = false;
  fs_backing_count(d, f);
  fs_backing_is_open(d, f);
}

bool fs_backing_staged_in(struct fs_daemon *d, uint64_t id, uint64_t dir, const struct stat *st) {
  struct fs_backing_file *f = fs_backing_make(d, id);
  if (!f || (f->in = calloc(1, sizeof(*f->in))) == NULL) return false;
  f->dir = dir;
  f->size = (uint64_t)st->st_size;
  f->mtime = st->st_mtim.tv_sec;
  f->mtime_ns = (uint32_t)st->st_mtim.tv_nsec;
  f->mode = st->st_mode & (S_IFMT | 07777);
  return true;
}

void fs_backing_not_created(struct fs_daemon *d, uint64_t id) {
  struct fs_backing_file *f = fs_backing_find(d, id);
  if (f && !f->reported) fs_backing_free(d, f);
}

void fs_backing_published(struct fs_daemon *d, const struct fs_call_publish *c, bool there, bool open) {
  struct fs_backing_file *f = there ? fs_backing_make(d, c->id) : fs_backing_find(d, c->id);
  if (!f) return;
  fs_backing_count(d, f);
  if (c->size > f->size) d->count.output_written += c->size - f->size;
  f->dir = c->dir;
  f->size = c->size;
  f->mtime = c->mtime;
  f->mtime_ns = c->mtime_ns;
  f->mode = S_IFREG | (c->mode & 07777);
  fs_backing_loosen(d, c->id);
  f->untold = open;
  if (!open) fs_modules_published(d, c->id);
}

void fs_backing_again(struct fs_daemon *d, struct fs_backing_file *f) {
  fs_backing_not_published(d, f->id);
  fs_backing_is_open(d, f);
}

/* A home may have published since its replica last heard from it. The successor skips this many
   numbers, so that its own are higher. */
#define FS_BACKING_ADOPTED (1u << 20)

void fs_backing_adopt(struct fs_daemon *d, uint64_t id, uint64_t dir, uint64_t published, uint32_t mode,
                      struct fs_extents *segments) {
  struct fs_backing_file *f = fs_backing_make(d, id);
  if (!f) {
    free(segments);
    return;
  }
  free(f->extents);
  f->extents = segments;
  f->changes++;
  f->dir = dir;
  f->mode = mode;
  d->backing_files->published = FS_MAX(d->backing_files->published, published + FS_BACKING_ADOPTED);
  fs_modules_adopted(d, f);
  fs_backing_again(d, f);
}

/* ---- removal ---- */

struct fs_backing_unlinking {
  struct fs_io io;
  struct fs_daemon *d;
  uint32_t count;
  uint64_t id[];
};

static fs_err fs_backing_unlink_work(struct fs_io *io) {
  const struct fs_backing_unlinking *u = FS_ITEM(io, struct fs_backing_unlinking, io);
  char name[FS_BACKING_NAME_SIZE];
  for (uint32_t i = 0; i < u->count; i++) (void)unlinkat(u->d->backing_fd, fs_backing_name(u->id[i], name), 0);
  return 0;
}

void fs_backing_ended(struct fs_daemon *d, uint64_t id) {
  struct fs_backing_file *f = fs_backing_find(d, id);
  if (f) fs_backing_free(d, f);
  fs_backing_drop_done(d, id);
  fs_space_freed(d);
}

static void fs_backing_unlinked(struct fs_io *io) {
  struct fs_backing_unlinking *u = FS_ITEM(io, struct fs_backing_unlinking, io);
  for (uint32_t i = 0; i < u->count; i++) fs_backing_ended(u->d, u->id[i]);
  free(u);
}

/* The pool unlinks, because a file system may take long to free a large file. */
void fs_backing_unlink(struct fs_daemon *d, const uint64_t *id, uint32_t count) {
  struct fs_backing_unlinking *u = malloc(sizeof(*u) + count * sizeof(*id));
  if (!u) return; /* the files stay until the job ends */
  *u = (struct fs_backing_unlinking){
      .io = {.work = fs_backing_unlink_work, .done = fs_backing_unlinked}, .d = d, .count = count};
  memcpy(u->id, id, count * sizeof(*id));
  fs_iopool_submit(&d->pool, &u->io);
}

/* Removes the bytes. No node can open the file from now on. */
static void fs_backing_remove(struct fs_daemon *d, uint64_t id, bool soon) {
  struct fs_backing_file *f = fs_backing_make(d, id);
  if (!f) return;
  f->removed = f->gone = true;
  fs_backing_drop_segments(d, f);
  if (soon)
    fs_backing_unlink_soon(d, id);
  else
    fs_backing_unlink(d, &id, 1);
}

static void fs_backing_drop(struct fs_daemon *d, uint64_t id, bool soon) {
  struct fs_backing_file *f = fs_backing_find(d, id);
  fs_node_segment_dropped(d, id);
  if (!fs_backing_mine(d, id)) fs_node_segment_useless(d, id);
  if (!fs_backing_mine(d, id) || fs_replica_waits(d, id)) {
    fs_replica_drop(d, id);
    return;
  }
  fs_modules_removed(d, id);
  if (f && f->reported && f->reported->holding > 0)
    f->removed = true;
  else if (!f || !f->gone)
    fs_backing_remove(d, id, soon);
}

void fs_backing_dropped(struct fs_daemon *d, uint64_t id) {
  fs_backing_drop(d, id, false);
}

void fs_backing_dropped_soon(struct fs_daemon *d, uint64_t id) {
  fs_backing_drop(d, id, true);
}

/* ---- who has a file open ---- */

/* Records that the rank has closed the file. Returns true if that has removed its bytes. */
static bool fs_backing_close_by(struct fs_daemon *d, struct fs_backing_file *f, uint32_t rank) {
  struct fs_backing_reported *t = f->reported;
  uint64_t bit = 1ull << rank % 64;
  if (!t || !(t->holder[rank / 64] & bit)) return false;
  t->holder[rank / 64] &= ~bit;
  if (--t->holding > 0 || !f->removed) return false;
  fs_backing_remove(d, f->id, false);
  return true;
}

void fs_backing_members(struct fs_daemon *d) {
  const struct fs_table *t = &d->backing_files->files;
  const struct fs_members *m = fs_ns_members(d->ns);
  FS_TABLE_EACH(t, l) {
    struct fs_backing_file *f = FS_ITEM(l, struct fs_backing_file, by_id);
    for (uint32_t rank = 0; f->reported && f->reported->holding > 0 && rank < d->net->nodes; rank++) {
      if (!fs_member(m, rank) && fs_backing_close_by(d, f, rank)) break;
    }
  }
}

/* ---- versions and OPEN ---- */

bool fs_backing_young(const struct stat *st) {
  int64_t changed = st->st_ctim.tv_sec * 1000000000ll + st->st_ctim.tv_nsec;
  return (int64_t)fs_clock_ns(CLOCK_REALTIME) - changed < FS_CLOCK_TICK_NS;
}

static void fs_backing_version(struct fs_daemon *d, struct fs_backing_reported *t, const struct stat *st,
                               uint64_t list) {
  bool same = t->version != 0 && !t->loose && t->list == list && t->size == (uint64_t)st->st_size &&
              fs_same_time(t->mtime, st->st_mtim) && fs_same_time(t->ctime, st->st_ctim);
  if (same) return;
  t->version = ++d->backing_files->version;
  t->list = list;
  t->size = (uint64_t)st->st_size;
  t->mtime = st->st_mtim;
  t->ctime = st->st_ctim;
  t->loose = fs_backing_young(st);
}

void fs_backing_loosen(struct fs_daemon *d, uint64_t id) {
  struct fs_backing_file *f = fs_backing_find(d, id);
  if (f && f->reported) f->reported->loose = true; /* a mapping changes it without new times */
}

static size_t fs_backing_words(const struct fs_daemon *d) {
  return (d->net->nodes + 63) / 64;
}

static struct fs_backing_reported *fs_backing_reported(const struct fs_daemon *d, struct fs_backing_file *f) {
  if (!f->reported)
    f->reported = calloc(1, sizeof(*f->reported) + 2 * fs_backing_words(d) * sizeof(f->reported->holder[0]));
  return f->reported;
}

fs_err fs_backing_opened(struct fs_daemon *d, uint64_t id, const struct stat *st, struct fs_opened *held) {
  struct fs_backing_file *f = fs_backing_find(d, id);
  struct fs_backing_reported *t = f && !f->gone ? fs_backing_reported(d, f) : NULL;
  if (!t) return f && !f->gone ? -ENOMEM : -ENOENT;
  fs_backing_version(d, t, st, fs_backing_map(d, f));
  *held = (struct fs_opened){.id = id,
                             .version = t->version,
                             .size = FS_MAX(t->size, fs_extents_end(f->extents)),
                             .own = t->size,
                             .segments = fs_extents_any(f->extents),
                             .nameless = f->removed,
                             .list = t->list,
                             .mtime = st->st_mtim.tv_sec,
                             .ctime = st->st_ctim.tv_sec,
                             .mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
                             .ctime_ns = (uint32_t)st->st_ctim.tv_nsec,
                             .mode = st->st_mode};
  return 0;
}

fs_err fs_backing_holder(struct fs_daemon *d, struct fs_backing_file *f, uint32_t rank) {
  struct fs_backing_reported *t = fs_backing_reported(d, f);
  if (!t) return -ENOMEM;
  if (t->holder[rank / 64] >> rank % 64 & 1) return 0;
  t->holder[rank / 64] |= 1ull << rank % 64;
  t->holding++;
  return 0;
}

fs_err fs_backing_writer(struct fs_daemon *d, struct fs_backing_file *f, uint32_t rank) {
  struct fs_backing_reported *t = fs_backing_reported(d, f);
  if (!t) return -ENOMEM;
  t->holder[fs_backing_words(d) + rank / 64] |= 1ull << rank % 64;
  return 0;
}

bool fs_backing_writes(const struct fs_daemon *d, const struct fs_backing_file *f, uint32_t rank) {
  return f->reported && f->reported->holder[fs_backing_words(d) + rank / 64] >> rank % 64 & 1;
}

static fs_err fs_backing_open_by(struct fs_daemon *d, uint32_t from, uint64_t id, struct fs_opened *held) {
  char name[FS_BACKING_NAME_SIZE];
  struct stat st;
  if (fstatat(d->backing_fd, fs_backing_name(id, name), &st, AT_SYMLINK_NOFOLLOW) < 0) {
    const struct fs_backing_file *of = fs_backing_find(d, id);
    bool successor = FS_OUTPUT_ID_RANK(id) != d->net->rank; /* the first home has failed */
    bool lost = of ? !of->removed && of->dir != 0 : successor;
    return lost && errno == ENOENT ? -EIO : -errno;
  }
  if (!S_ISREG(st.st_mode)) return -ENOENT;
  if (from != d->net->rank && st.st_size > (int64_t)FS_OUTPUT_BLOCK * FS_OUTPUT_BLOCKS) return -EFBIG;
  struct fs_backing_file *f = fs_backing_make(d, id);
  fs_err err = f ? fs_backing_opened(d, id, &st, held) : -ENOMEM;
  return err == 0 ? fs_backing_holder(d, f, from) : err;
}

/* ---- what other nodes ask of a file's home ---- */

static void fs_home_open(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f,
                         const struct fs_names_call *c) {
  struct {
    struct fs_opened held;
    char bytes[FS_OPEN_BYTES_MOST];
  } answer;
  (void)f;
  fs_err err = fs_backing_open_by(d, a.from, c->open.id, &answer.held);
  size_t n = err == 0 ? sizeof(answer.held) : 0;
  if (err == 0 && (c->flags & FS_OPEN_BYTES) && a.from != d->net->rank)
    n += fs_backing_small(d, &answer.held, answer.bytes);
  fs_ns_answer(d->ns, a, err, &answer, n);
}

static void fs_home_close(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f,
                          const struct fs_names_call *c) {
  (void)c;
  if (f) (void)fs_backing_close_by(d, f, a.from);
  fs_ns_answer(d->ns, a, 0, NULL, 0);
}

static void fs_home_own(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f,
                        const struct fs_names_call *c) {
  (void)f, (void)c;
  fs_ns_answer(d->ns, a, 0, NULL, 0); /* this node is the home */
}

static const struct fs_home_op {
  fs_home_handler *run;
  bool waits; /* the call may have to wait for a change of the file (backing_change.c) */
  bool gives; /* the call gives the file a segment */
  bool looks; /* the answer depends on the contents: a home that may be evicted must not give it */
} fs_home_ops[FS_NAMES_OPS] = {
    [FS_NAMES_SETATTR] = {.run = fs_backing_set, .waits = true},
    [FS_NAMES_OPEN] = {.run = fs_home_open, .waits = true, .looks = true},
    [FS_NAMES_CLOSE] = {.run = fs_home_close, .waits = true}, /* behind its OPEN */
    [FS_NAMES_EXTEND] = {.run = fs_extents_extend, .waits = true, .gives = true},
    [FS_NAMES_EXTENTS] = {.run = fs_extents_asked, .waits = true, .looks = true},
    [FS_NAMES_APPEND] = {.run = fs_backing_append, .waits = true},
    [FS_NAMES_OWN] = {.run = fs_home_own},
    [FS_NAMES_LOCK] = {.run = fs_locks_call, .looks = true},
};

bool fs_backing_gives_segment(const struct fs_names_call *c) {
  return fs_home_ops[c->op].gives;
}

/* Returns true if the call has to come again. Then the extent map is not here yet. Or this node
   stood still and may have been evicted: the file then has another home, which knows better. */
static bool fs_home_later(struct fs_daemon *d, const struct fs_names_call *c) {
  if (!fs_call_op(c)->not_later && fs_replica_waits(d, fs_call_id(c))) return true;
  return fs_home_ops[c->op].looks && d->replicas && !fs_ns_sure(d->ns);
}

void fs_backing_answer(struct fs_daemon *d, struct fs_asked a, const struct fs_names_call *c) {
  const struct fs_home_op *op = &fs_home_ops[c->op];
  struct fs_backing_file *f = fs_backing_find(d, fs_call_id(c));
  fs_home_handler *staged = f && f->in && !f->gone ? fs_staged_handlers[c->op] : NULL;
  if (fs_call_scope(c) == FS_SCOPE_PARTNER)
    fs_replica_call(d, a, c);
  else if (!op->run || !fs_backing_mine(d, fs_call_id(c)))
    fs_ns_answer(d->ns, a, -EINVAL, NULL, 0);
  else if (fs_home_later(d, c))
    fs_ns_answer(d->ns, a, -EAGAIN, NULL, 0);
  else
    (staged ? staged : op->run)(d, a, f, c);
}

void fs_backing_home(struct fs_daemon *d, struct fs_asked a, const struct fs_names_call *c) {
  if (!fs_home_ops[c->op].waits || !fs_backing_wait(d, a, c)) fs_backing_answer(d, a, c);
}

fs_err fs_backing_new(struct fs_daemon *d) {
  struct fs_backing *s = calloc(1, sizeof(*s));
  if (!s) return -ENOMEM;
  d->backing_files = s;
  fs_chain_init(&s->changing);
  fs_chain_init(&s->waiting);
  fs_chain_init(&s->dropping);
  fs_chain_init(&s->leaving);
  fs_chain_init(&s->young);
  fs_chain_init(&s->open);
  return fs_maps_new(d);
}

/* ---- clients' calls that the home answers ---- */

static fs_err fs_backing_asks(struct fs_client_call *call, struct fs_names_call *c) {
  return fs_lock_holders_check(call->d, call->client, fs_call_id(c));
}

const struct fs_client_call_op fs_home_call = {.check = fs_client_call_check_file, .prepare = fs_backing_asks};

static void fs_backing_owned(void *ctx, fs_err err, const void *body, size_t n) {
  const struct fs_client_call *call = ctx;
  if (err == 0) fs_service_wrote(call->d);
  fs_client_call_done(ctx, err, body, n);
}

const struct fs_client_call_op fs_own_call = {.check = fs_client_call_check_file, .done = fs_backing_owned};

/* Readers of this node must not use what they knew of the file before. */
static void fs_backing_appended(void *ctx, fs_err err, const void *body, size_t n) {
  const struct fs_client_call *call = ctx;
  atomic_fetch_add(&call->d->ctl->appended, 1);
  fs_client_call_done(ctx, err, body, n);
}

const struct fs_client_call_op fs_append_call = {
    .check = fs_client_call_check_file, .prepare = fs_backing_asks, .done = fs_backing_appended};
