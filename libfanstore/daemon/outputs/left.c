/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See left.h. The daemon appends the records in answers to a file beside the backing files, with
 * one write a millisecond. So `fs-launch clean --outputs` finds the names if the daemon is killed.
 * Directories and symlinks have no backing file: the two daemons that keep their records write
 * them. Nothing is synced: a killed process loses the last milliseconds, a host that goes down
 * loses more. The MPI thread collects lines, and the I/O pool writes them, one buffer after
 * another. If the disk hangs, lines wait, up to a limit. A file whose line does not fit has no
 * name. The line that says that a file is not whole is written at once: nobody may take the file
 * for whole.
 */
#include "daemon/outputs/left.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/outputs/backing.h"
#include "daemon/outputs/outpath.h"
#include "ipc/left.h"
#include "util/sys.h"
#include "util/table.h"
#include "util/util.h"

#define FS_LEFT_MOST (16u << 20) /* most bytes of waiting lines */
#define FS_LEFT_NS 1000000ull
#define FS_LEFT_RETRY_NS 1000000000ull /* after a failed write (disk full) */
#define FS_LEFT_ASKED 16u              /* most paths asked for at once */
#define FS_LEFT_ROUND_NS 5000000000ull /* time between two rounds that ask for all paths */
#define FS_LEFT_WAIT_NS 1000000000ull  /* longest wait for the pool's last write, at the end */

struct fs_left_dir { /* a directory that has a line */
  struct fs_table_link by_id;
  struct fs_left_dir *after, *later;
  struct fs_daemon *d;
  uint64_t id;
  uint64_t path; /* a hash of its path; 0: unknown */
  bool gone;
};

struct fs_left_text {
  char *text;
  size_t len, room;
};

static struct {
  bool on, writing; /* writing: the pool has `written` */
  bool failed;      /* that write failed: it is repeated, after a newline */
  _Atomic bool done;
  _Atomic int fd;
  uint64_t since, tree, round;
  uint32_t asked;
  struct fs_table dirs;
  struct fs_left_dir *all, *again, *later;
  struct fs_left_text lines, written;
  struct fs_daemon *d;
  struct fs_io io;
} left = {.fd = -1}; /* one daemon per process */

/* The file exists from the start: without it, fs_left_count finds nothing and nothing is kept. */
static void fs_left_open(const struct fs_daemon *d) {
  left.fd = openat(d->backing_fd, FS_LEFT_NAMES, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
}

void fs_left_start(struct fs_daemon *d) {
  left.on = !d->cfg->read_only && (d->cfg->keep || d->cfg->stage_out);
  left.d = d;
  if (left.on) fs_left_open(d);
}

/* ---- writing ---- */

static fs_err fs_left_work(struct fs_io *io) {
  (void)io;
  if (left.fd < 0) fs_left_open(left.d);
  fs_err err = left.fd < 0 ? left.fd : left.failed ? fs_write_full(left.fd, "\n", 1) : 0;
  if (err == 0) err = fs_write_full(left.fd, left.written.text, left.written.len);
  atomic_store(&left.done, true);
  return err;
}

static void fs_left_done(struct fs_io *io) {
  left.writing = false;
  left.failed = io->err < 0;
  if (left.failed) left.since = left.d->now;
}

static void fs_left_swap(void) {
  struct fs_left_text t = left.written;
  left.written = left.lines;
  left.lines = t;
  left.lines.len = 0;
}

static void fs_left_write(struct fs_daemon *d) {
  if (!left.failed) fs_left_swap();
  left.writing = true;
  atomic_store(&left.done, false);
  left.io = (struct fs_io){.work = fs_left_work, .done = fs_left_done};
  fs_iopool_submit(&d->pool, &left.io);
}

void fs_left_flush(struct fs_daemon *d) {
  uint64_t until = fs_now_ns() + FS_LEFT_WAIT_NS;
  (void)d;
  while (left.writing && !atomic_load(&left.done) && fs_now_ns() < until) usleep(1000);
  if (left.writing && !atomic_load(&left.done)) return;
  if ((left.failed && fs_left_work(&left.io) < 0) || left.lines.len == 0) return;
  left.failed = false;
  fs_left_swap();
  (void)fs_left_work(&left.io);
}

static bool fs_left_room(struct fs_left_text *t, size_t more) {
  if (t->len + more <= t->room) return true;
  size_t room = FS_MAX(2 * t->room, 65536u);
  char *grown = t->len + more > FS_LEFT_MOST ? NULL : realloc(t->text, room);
  if (!grown) return false;
  t->text = grown;
  t->room = room;
  return true;
}

static void fs_left_line(struct fs_daemon *d, struct fs_control_line *l) {
  struct fs_left_text *t = &left.lines;
  if (fs_control_end(l) < 0 || !fs_left_room(t, l->len)) return;
  if (t->len == 0) left.since = d->now;
  memcpy(t->text + t->len, l->text, l->len);
  t->len += l->len;
}

/* ---- directories ---- */

static void fs_left_path(struct fs_daemon *d, struct fs_left_dir *p, const char *path) {
  struct fs_control_line l;
  uint64_t hash = fs_xxh3(path, strlen(path)) | 1;
  if (hash == p->path) return;
  p->path = hash;
  if (fs_control_begin(&l, "path") == 0 && fs_control_add_u64(&l, "id", p->id) == 0 &&
      fs_control_add(&l, "path", path) == 0)
    fs_left_line(d, &l);
}

static void fs_left_found(void *ctx, fs_err err, const char *path) {
  struct fs_left_dir *p = ctx;
  left.asked--;
  if (err == 0) fs_left_path(p->d, p, path);
  if (err == -ENOENT) p->gone = true;
}

static void fs_left_ask(struct fs_left_dir *p) {
  left.asked++;
  fs_path_find(p->d, 0, p->id, fs_left_found, p);
}

/* A dataset's directory never changes its path. If there are several datasets, the path begins
   with the mount's name. */
static void fs_left_dataset(struct fs_daemon *d, struct fs_left_dir *p) {
  char path[2 * PATH_MAX] = "";
  uint64_t dataset = (p->id >> 32) - 1;
  if (p->id >> 32 == 0 || dataset >= d->datasets) return;
  size_t n = 0;
  if (d->datasets > 1) n = (size_t)snprintf(path, sizeof(path), "%s/", d->data[dataset].mount + 1);
  if (fs_index_path(&d->data[dataset].stage.index, (uint32_t)p->id, path + n, PATH_MAX) < 0) return;
  fs_left_path(d, p, path);
}

/* Adds a directory. If it has no line yet (`named` is false), its path is asked for later,
   because the caller may be in the middle of a change. */
static void fs_left_dir(struct fs_daemon *d, uint64_t id, bool named) {
  struct fs_left_dir *p = fs_table_find(&left.dirs, id) ? NULL : malloc(sizeof(*p));
  if (!p) return;
  *p = (struct fs_left_dir){.after = left.all, .d = d, .id = id};
  fs_table_add(&left.dirs, &p->by_id, id);
  left.all = p;
  if (!(id & FS_OUTPUT_ID))
    fs_left_dataset(d, p);
  else if (!named)
    p->later = left.later, left.later = p;
}

/* Forgets directories that were removed. */
static void fs_left_forget(void) {
  for (struct fs_left_dir **at = &left.all, *p; (p = *at) != NULL;) {
    if (!p->gone) {
      at = &p->after;
      continue;
    }
    fs_table_remove(&left.dirs, &p->by_id);
    *at = p->after;
    free(p);
  }
}

/* Asks for all paths again after any node has renamed or removed a directory. */
static void fs_left_again(struct fs_daemon *d) {
  uint64_t tree = atomic_load(&d->ctl->tree);
  if (!left.again && !left.later && left.asked == 0 && tree != left.tree && d->now - left.round >= FS_LEFT_ROUND_NS) {
    fs_left_forget();
    left.tree = tree;
    left.round = d->now;
    left.again = left.all;
  }
  for (struct fs_left_dir *p; (p = left.later) != NULL && left.asked < FS_LEFT_ASKED;) {
    left.later = p->later;
    fs_left_ask(p);
  }
  for (; left.again && left.asked < FS_LEFT_ASKED; left.again = left.again->after)
    if (left.again->id & FS_OUTPUT_ID) fs_left_ask(left.again);
}

void fs_left_timers(struct fs_daemon *d) {
  if (!left.on || !d->ctl) return;
  fs_left_again(d);
  if ((left.lines.len > 0 || left.failed) && !left.writing &&
      d->now - left.since >= (left.failed ? FS_LEFT_RETRY_NS : FS_LEFT_NS))
    fs_left_write(d);
}

/* ---- records ---- */

void fs_left_record(struct fs_daemon *d, const void *body, size_t n) {
  struct fs_control_line l;
  char name[FS_RECORD_NAME_MAX + 1];
  size_t at = 0;
  const struct fs_record *r = left.on ? fs_record_next(body, n, &at) : NULL;
  if (!r || S_ISLNK(r->mode) || r->name_len > FS_RECORD_NAME_MAX) return;
  memcpy(name, fs_record_name(r), r->name_len);
  name[r->name_len] = '\0';
  if (S_ISREG(r->mode)) {
    struct fs_backing_file *f = fs_backing_mine(d, r->id) ? fs_backing_find(d, r->id) : NULL;
    uint64_t hash = fs_xxh3(name, r->name_len) + r->dir;
    if (!f || f->in || f->name == hash) return;
    f->name = hash;
  }
  if (fs_control_begin(&l, "name") == 0 && fs_control_add_u64(&l, "id", r->id) == 0 &&
      fs_control_add_u64(&l, "dir", r->dir) == 0 && fs_control_add(&l, "name", name) == 0)
    fs_left_line(d, &l);
  fs_left_dir(d, r->dir, false);
  if (S_ISDIR(r->mode)) fs_left_dir(d, r->id, true);
}

void fs_left_other(struct fs_daemon *d, const struct fs_record *r, bool gone) {
  struct fs_control_line l;
  char name[FS_RECORD_NAME_MAX + 1], target[PATH_MAX];
  if (!left.on || (r->flags & FS_RECORD_STAGED_IN) || r->name_len > FS_RECORD_NAME_MAX ||
      r->target_len >= sizeof(target))
    return;
  snprintf(name, sizeof(name), "%.*s", (int)r->name_len, fs_record_name(r));
  snprintf(target, sizeof(target), "%.*s", (int)r->target_len, fs_record_target(r));
  fs_err err = fs_control_begin(&l, gone ? "gone" : "name");
  if (err == 0) err = fs_control_add_u64(&l, "id", r->id);
  if (err == 0) err = fs_control_add_u64(&l, "dir", r->dir);
  if (err == 0 && !gone) err = fs_control_add(&l, "name", name);
  if (err == 0 && !gone) err = fs_control_add(&l, S_ISLNK(r->mode) ? "target" : "made", target);
  if (err == 0) fs_left_line(d, &l);
  if (!gone) fs_left_dir(d, r->dir, false);
  if (!gone && S_ISDIR(r->mode)) fs_left_dir(d, r->id, true);
}

/* Called before the writer has its answer. The line starts with a newline, because the pool's
   last line may be incomplete. */
void fs_left_split(struct fs_daemon *d, uint64_t id) {
  struct fs_control_line l;
  char text[128];
  int fd = atomic_load(&left.fd);
  if (!left.on || fs_control_begin(&l, "split") < 0 || fs_control_add_u64(&l, "id", id) < 0) return;
  int n = snprintf(text, sizeof(text), "\n%s\n", l.text);
  if (fd < 0 || fs_write_full(fd, text, (size_t)n) < 0) fs_left_line(d, &l);
}

bool fs_left_any(const struct fs_daemon *d) {
  uint64_t files, bytes;
  return left.on && d->ctl && (!d->outputs_saved || d->outputs_pending) &&
         fs_left_count(d->backing_fd, &files, &bytes) != 0;
}
