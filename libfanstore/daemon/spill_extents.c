/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that several processes have written, on other nodes too: home keeps, for each, which bytes are in which part (a
 * spill without a name, on the node of the process that wrote it), sorted and without overlaps; what is in none is in
 * home's own spill. The last published wins. docs/output-files.md, section 7.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "daemon/ns_priv.h"
#include "daemon/source.h"
#include "daemon/spill.h"

#define FS_EXTENTS_MAX (1u << 20) /* of one file; then EFBIG */

struct fs_extents {
  uint32_t count, room;
  struct fs_out_extent at[];
};

uint64_t fs_extents_end(const struct fs_spill_file *f) {
  const struct fs_extents *x = f->extents;
  return x && x->count > 0 ? x->at[x->count - 1].off + x->at[x->count - 1].len : 0;
}

bool fs_extents_any(const struct fs_spill_file *f) {
  return f->extents && f->extents->count > 0;
}

const struct fs_out_extent *fs_extents_all(const struct fs_spill_file *f, uint32_t *count) {
  *count = f->extents ? f->extents->count : 0;
  return f->extents ? f->extents->at : NULL;
}

fs_err fs_extents_copy(const struct fs_spill_file *f, struct fs_scattered *to) {
  uint32_t count;
  const struct fs_out_extent *e = fs_extents_all(f, &count);
  *to = (struct fs_scattered){.changes = f->changes, .linked = f->in != NULL};
  if (count == 0) return 0;
  to->extent = malloc(count * sizeof(*e));
  if (!to->extent) return -ENOMEM;
  memcpy(to->extent, e, count * sizeof(*e));
  to->count = count;
  return 0;
}

void fs_extents_free(struct fs_spill_file *f) {
  free(f->extents);
  f->extents = NULL;
}

/* The first extent that ends beyond off. */
static uint32_t fs_extents_first(const struct fs_extents *x, uint64_t off) {
  uint32_t low = 0, high = x ? x->count : 0;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (x->at[middle].off + x->at[middle].len <= off)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Room for `more` extents. */
static fs_err fs_extents_grow(struct fs_spill_file *f, uint32_t more) {
  struct fs_extents *x = f->extents;
  uint32_t count = x ? x->count : 0, room = x ? x->room : 0;
  if (count + more <= room) return 0;
  if (count + more > FS_EXTENTS_MAX) return -EFBIG;
  room = FS_MAX(2 * room, FS_MAX(count + more, 16u));
  struct fs_extents *grown = realloc(x, sizeof(*x) + room * sizeof(x->at[0]));
  if (!grown) return -ENOMEM;
  if (!x) *grown = (struct fs_extents){0};
  grown->room = room;
  f->extents = grown;
  return 0;
}

/* Puts n extents in the place of those from..to. There is room. */
static void fs_extents_splice(struct fs_extents *x, uint32_t from, uint32_t to, const struct fs_out_extent *put,
                              uint32_t n) {
  memmove(&x->at[from + n], &x->at[to], (x->count - to) * sizeof(x->at[0]));
  memcpy(&x->at[from], put, n * sizeof(x->at[0]));
  x->count += n - (to - from);
}

/* What an extent is without [off, end): up to two. */
static uint32_t fs_extent_cut(const struct fs_out_extent *e, uint64_t off, uint64_t end, struct fs_out_extent out[2]) {
  uint32_t n = 0;
  if (e->off < off) out[n++] = (struct fs_out_extent){.off = e->off, .len = off - e->off, .part = e->part};
  if (e->off + e->len > end)
    out[n++] = (struct fs_out_extent){.off = end, .len = e->off + e->len - end, .part = e->part};
  return n;
}

fs_err fs_extents_put(struct fs_spill_file *f, struct fs_out_extent e) {
  struct fs_out_extent put[5];
  uint32_t n = 0;
  fs_err err = fs_extents_grow(f, 2);
  if (err < 0) return err;
  f->changes++;
  struct fs_extents *x = f->extents;
  uint64_t end = e.off + e.len;
  uint32_t from = fs_extents_first(x, e.off), to = from;
  struct fs_out_extent before[2], after[2];
  while (to < x->count && x->at[to].off < end) to++;
  uint32_t nb = to > from ? fs_extent_cut(&x->at[from], e.off, end, before) : 0;
  uint32_t na = to > from + 1 ? fs_extent_cut(&x->at[to - 1], e.off, end, after) : 0;
  for (uint32_t i = 0; i < nb && before[i].off < e.off; i++) put[n++] = before[i];
  /* One after the other in the same part is one: how a file is written, mostly. */
  if (n == 0 && from > 0 && x->at[from - 1].part == e.part && x->at[from - 1].off + x->at[from - 1].len == e.off) {
    e.off = x->at[--from].off;
    e.len = end - e.off;
  }
  put[n++] = e;
  for (uint32_t i = 0; i < nb; i++)
    if (before[i].off >= end) put[n++] = before[i];
  for (uint32_t i = 0; i < na; i++)
    if (after[i].off >= end) put[n++] = after[i];
  fs_extents_splice(x, from, to, put, n);
  return 0;
}

void fs_extents_truncate(struct fs_spill_file *f, uint64_t size) {
  struct fs_extents *x = f->extents;
  uint32_t i = fs_extents_first(x, size);
  if (!x) return;
  f->changes++;
  if (i < x->count && x->at[i].off < size) x->at[i].len = size - x->at[i].off, i++;
  x->count = FS_MIN(x->count, i);
}

/* ---- parts that are of no use any more ---- */

static int fs_extent_by_part(const void *a, const void *b) {
  const struct fs_out_extent *x = a, *y = b;
  return x->part < y->part ? -1 : x->part > y->part;
}

void fs_extents_drop(struct fs_daemon *d, struct fs_spill_file *f) {
  struct fs_extents *x = f->extents;
  f->extents = NULL;
  if (!x) return;
  qsort(x->at, x->count, sizeof(x->at[0]), fs_extent_by_part);
  for (uint32_t i = 0; i < x->count; i++) {
    if (i > 0 && x->at[i].part == x->at[i - 1].part) continue;
    struct fs_names_call c = {.op = FS_NAMES_DROP, .id = x->at[i].part};
    if (FS_OUT_ID_RANK(c.id) == d->net->rank)
      fs_spill_dropped(d, c.id);
    else if (FS_OUT_ID_RANK(c.id) < d->net->nodes)
      fs_ns_ask(d->ns, FS_OUT_ID_RANK(c.id), &c, sizeof(c), NULL, NULL);
  }
  free(x);
}

/* ---- the calls ---- */

struct fs_extending {
  struct fs_daemon *d;
  struct fs_asked asked;
};

static void fs_extended(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_extending *e = ctx;
  const struct fs_appended at = {.tight = fs_space_tight(e->d)};
  (void)body, (void)n;
  if (err == -ENOENT) err = 0;
  fs_ns_answer(e->d->ns, e->asked, err, &at, err == 0 ? sizeof(at) : 0);
  free(e);
}

/* Home's spill is as long as the whole, so that what is appended to it comes after all. It is made longer only: its own
   programs may append at this moment. */
static fs_err fs_extents_reach(const struct fs_daemon *d, const struct fs_spill_file *f) {
  char name[FS_SPILL_NAME_SIZE];
  struct stat st;
  off_t end = (off_t)fs_extents_end(f);
  if (fstatat(d->spill_fd, fs_spill_name(f->id, name), &st, AT_SYMLINK_NOFOLLOW) < 0) return -errno;
  if (st.st_size >= end) return 0;
  FS_AUTO_CLOSE int fd = openat(d->spill_fd, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -errno;
  if (fallocate(fd, 0, end - 1, 1) == 0) return 0;
  return errno == EOPNOTSUPP && ftruncate(fd, end) == 0 ? 0 : -errno; /* a file system that cannot do it so */
}

/* The ranges of a part, then the record's size for all to see. */
static void fs_extents_extend(struct fs_daemon *d, struct fs_asked a, struct fs_spill_file *f,
                              const struct fs_names_call *c) {
  const char *ranges = fs_call_name(c);
  struct fs_extending *e = malloc(sizeof(*e));
  fs_err err = e ? 0 : -ENOMEM;
  if (err == 0 && c->name_len > 0 && FS_OUT_ID_RANK(c->to) != a.from) err = -EINVAL;
  for (uint32_t i = 0; err == 0 && i < c->name_len / sizeof(struct fs_range); i++) {
    struct fs_range r;
    memcpy(&r, ranges + i * sizeof(r), sizeof(r));
    err = fs_extents_put(f, (struct fs_out_extent){.off = r.off, .len = r.len, .part = c->to});
  }
  if (f->told) f->told->loose = true;
  if (err == 0) err = fs_extents_reach(d, f);
  if (err < 0) {
    free(e);
    fs_ns_answer(d->ns, a, err, NULL, 0);
    return;
  }
  *e = (struct fs_extending){.d = d, .asked = a};
  fs_spill_publish(d, c->id, fs_extended, e);
}

static void fs_extents_list(struct fs_daemon *d, struct fs_asked a, const struct fs_spill_file *f,
                            const struct fs_names_call *c) {
  const struct fs_extents *x = f->extents;
  uint32_t i = fs_extents_first(x, c->size), count = x ? x->count : 0;
  uint32_t n = FS_MIN(count - i, (uint32_t)(FS_NAMES_BODY / sizeof(struct fs_out_extent)));
  fs_ns_answer(d->ns, a, 0, x ? &x->at[i] : NULL, n * sizeof(struct fs_out_extent));
}

/* ---- appending ---- */

struct fs_appending {
  struct fs_chain chain;
  struct fs_io io;
  struct fs_daemon *d;
  struct fs_asked asked;
  uint64_t id, call, n, off;
  bool data;
  char bytes[];
};

/* At the end of home's spill, by the kernel: so they are nobody else's, also not those of home's own programs. */
static fs_err fs_append_work(struct fs_io *io) {
  static const char zeros[65536];
  struct fs_appending *p = FS_ITEM(io, struct fs_appending, io);
  char name[FS_SPILL_NAME_SIZE];
  struct iovec iov[FS_APPEND_MAX / sizeof(zeros)] = {{.iov_base = p->bytes, .iov_len = p->n}};
  int count = p->data;
  for (uint64_t left = p->data ? 0 : p->n; left > 0; left -= iov[count++].iov_len)
    iov[count] = (struct iovec){.iov_base = (void *)(uintptr_t)zeros, .iov_len = FS_MIN(left, sizeof(zeros))};
  FS_AUTO_CLOSE int fd =
      openat(p->d->spill_fd, fs_spill_name(p->id, name), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -errno;
  ssize_t put = writev(fd, iov, count);
  if (put != (ssize_t)p->n) return put < 0 ? -errno : -ENOSPC;
  off_t end = lseek(fd, 0, SEEK_CUR);
  p->off = (uint64_t)end - p->n;
  return end < 0 ? -errno : 0;
}

static void fs_append_done(struct fs_io *io) {
  struct fs_appending *p = FS_ITEM(io, struct fs_appending, io);
  fs_chain_drop(&p->chain);
  if (io->err == 0) fs_ns_done_now(p->d->ns, p->call);
  const struct fs_appended at = {.off = p->off, .tight = fs_space_tight(p->d)};
  fs_ns_answer(p->d->ns, p->asked, io->err, &at, io->err == 0 ? sizeof(at) : 0);
  free(p);
}

/* The same call again, while it is at work: later. */
static bool fs_append_running(const struct fs_spill *t, uint64_t call) {
  for (struct fs_chain *l = t->appending.next; l != &t->appending; l = l->next)
    if (FS_ITEM(l, struct fs_appending, chain)->call == call) return true;
  return false;
}

static void fs_extents_append(struct fs_daemon *d, struct fs_asked a, const struct fs_names_call *c) {
  const struct fs_appended unknown = {.off = FS_APPEND_UNKNOWN, .tight = fs_space_tight(d)};
  bool done = fs_ns_done_before(d->ns, c->to), sane = c->size > 0 && c->size <= FS_APPEND_MAX;
  if (!done && sane && fs_space_full(d)) {
    fs_ns_answer(d->ns, a, -EDQUOT, NULL, 0);
    return;
  }
  if (done || !sane || fs_append_running(d->spill_files, c->to)) {
    fs_ns_answer(d->ns, a, done ? 0 : sane ? -EAGAIN : -EINVAL, &unknown, done ? sizeof(unknown) : 0);
    return;
  }
  struct fs_appending *p = malloc(sizeof(*p) + c->name_len);
  if (!p) {
    fs_ns_answer(d->ns, a, -ENOMEM, NULL, 0);
    return;
  }
  *p = (struct fs_appending){.d = d, .asked = a, .id = c->id, .call = c->to, .n = c->size, .data = c->name_len > 0};
  p->io = (struct fs_io){.work = fs_append_work, .done = fs_append_done};
  memcpy(p->bytes, fs_call_name(c), c->name_len);
  fs_chain_push(&d->spill_files->appending, &p->chain);
  fs_iopool_submit(&d->pool, &p->io);
}

void fs_extents_call(struct fs_daemon *d, struct fs_asked a, const struct fs_names_call *c) {
  struct fs_spill_file *f = fs_spill_find(d, c->id);
  char name[FS_SPILL_NAME_SIZE];
  bool lost = !f && faccessat(d->spill_fd, fs_spill_name(c->id, name), F_OK, 0) == 0; /* its making was not answered */
  if (!f || f->gone)
    fs_ns_answer(d->ns, a, lost ? -EIO : -ENOENT, NULL, 0);
  else if (c->op == FS_NAMES_EXTEND)
    fs_extents_extend(d, a, f, c);
  else if (c->op == FS_NAMES_APPEND)
    fs_extents_append(d, a, c);
  else
    fs_extents_list(d, a, f, c);
}
