/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creates the names of staged-in files (stagein.h), in the MPI thread. When all ranks serve, each
 * creates its own names, by the calls that clients use. A file needs one call, which also publishes
 * it. Its directory is created first, by the rank that needs it first; the other ranks are told
 * that it exists.
 */
#include "daemon/stagein/stagein.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/outputs/outpath.h"
#include "daemon/stageout/stageout.h"

#define FS_IN_FLIGHT 64u
#define FS_IN_SAY_NS 200000000ull
#define FS_IN_READERS 4u
#define FS_IN_COPIERS 2u

static void fs_in_start(struct fs_in_item *item);

/* ---- one name ---- */

static void fs_in_failed(struct fs_stagein *in, fs_err err) {
  if (in->failed == 0) in->failed = err;
}

static void fs_in_free(struct fs_in_item *item) {
  free(item->target);
  if (!S_ISDIR(item->st.st_mode)) free(item); /* a directory contains its item */
}

/* Sets a directory's id, or 0 if it failed, and goes on with the items that wait for it. */
static void fs_in_dir_made(struct fs_in_dir *dir, uint64_t id) {
  dir->id = id;
  dir->failed = id == 0;
  for (struct fs_chain *l; (l = fs_chain_pop(&dir->waiting)) != NULL;) {
    struct fs_in_item *item = FS_ITEM(l, struct fs_in_item, chain);
    item->in->pending--;
    fs_in_start(item);
  }
}

static void fs_in_dir_answered(struct fs_in_dir *dir, fs_err err, const struct fs_record *r) {
  struct fs_stagein *in = dir->self.in;
  bool there = (err == 0 || err == -EEXIST) && r && S_ISDIR(r->mode);
  if (!there) fs_in_failed(in, err == 0 ? -EPROTO : err);
  if (there) fs_path_parent(in->d, r->id, dir->self.dir->id);
  dir->id = there ? r->id : 0;
  if (there && dir->mine) fs_stagein_named(in, &dir->self);
  fs_in_dir_made(dir, there ? r->id : 0);
}

/* Removes the backing file of a file that could not be created. */
static void fs_in_file_failed(struct fs_in_item *item) {
  struct fs_daemon *d = item->in->d;
  char name[FS_BACKING_NAME_SIZE];
  (void)unlinkat(d->backing_fd, fs_backing_name(item->id, name), 0);
  fs_backing_not_created(d, item->id);
}

static void fs_in_pump(struct fs_stagein *in);

static void fs_in_answered(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_in_item *item = ctx;
  struct fs_stagein *in = item->in;
  size_t at = 0;
  const struct fs_record *r = err == 0 || err == -EEXIST ? fs_record_next(body, n, &at) : NULL;
  in->pending--;
  if (S_ISDIR(item->st.st_mode)) {
    fs_in_dir_answered(FS_ITEM(item, struct fs_in_dir, self), err, r);
  } else {
    if (err < 0) fs_in_failed(in, err);
    if (err < 0 && S_ISREG(item->st.st_mode)) fs_in_file_failed(item);
    if (err == 0) in->made++;
    if (err == 0 && S_ISLNK(item->st.st_mode)) fs_stagein_named(in, item);
    if (err == 0 && S_ISREG(item->st.st_mode)) in->files++, in->bytes += (uint64_t)item->st.st_size;
    fs_in_free(item);
  }
  fs_in_pump(in);
}

/* Makes the link before the name, as a program's backing file exists before its name. */
static fs_err fs_in_link(struct fs_in_item *item) {
  struct fs_stagein *in = item->in;
  struct fs_daemon *d = in->d;
  char name[FS_BACKING_NAME_SIZE], target[2 * PATH_MAX];
  const char *dir = item->dir->path;
  if (in->held_fd >= 0)
    snprintf(target, sizeof(target), "%s/%s/%llu", in->dir, in->held, (unsigned long long)item->link);
  else
    snprintf(target, sizeof(target), "%s/%s%s%s", in->dir, dir, dir[0] != '\0' ? "/" : "", item->name);
  fs_backing_name(item->id, name);
  if (symlinkat(target, d->backing_fd, name) < 0) return -errno;
  if (fs_backing_staged_in(d, item->id, item->dir->id, &item->st)) {
    snprintf(target, sizeof(target), "%s%s%s", dir, dir[0] != '\0' ? "/" : "", item->name);
    if (in->held_fd >= 0)
      fs_stageout_there(d, item->id, target, &item->st);
    else
      fs_stageout_touch(d, item->id);
    return 0;
  }
  (void)unlinkat(d->backing_fd, name, 0);
  return -ENOMEM;
}

static void fs_in_call(struct fs_in_item *item) {
  alignas(8) static char body[FS_NAMES_BODY];
  struct fs_daemon *d = item->in->d;
  struct fs_names_call *c = (void *)body;
  *c = (struct fs_names_call){.op = FS_NAMES_CREATE,
                              .flags = FS_CREATE_STAGED_IN | (item->takes ? FS_CREATE_TAKES : 0),
                              .create.dir = item->dir->id,
                              .create.id = item->id,
                              .create.size = S_ISREG(item->st.st_mode) ? (uint64_t)item->st.st_size : 0,
                              .create.mtime = item->st.st_mtim.tv_sec,
                              .create.mtime_ns = (uint32_t)item->st.st_mtim.tv_nsec,
                              .create.mode = item->st.st_mode & (S_IFMT | 07777)};
  (void)fs_call_put(c, item->name, strlen(item->name), item->target, item->target ? strlen(item->target) : 0);
  item->in->pending++;
  fs_ns_call(d->ns, d->now, c, fs_in_answered, item);
}

static void fs_in_make(struct fs_in_item *item) {
  item->id = fs_ns_id(item->in->d->ns);
  fs_err err = S_ISREG(item->st.st_mode) ? fs_in_link(item) : 0;
  if (err == 0) {
    fs_in_call(item);
    return;
  }
  fs_in_failed(item->in, err);
  fs_in_free(item);
}

/* Creates the directory, once, if it has no id yet. */
static void fs_in_need(struct fs_in_dir *dir) {
  if (dir->id != 0 || dir->failed || dir->asked) return;
  dir->asked = true;
  fs_in_start(&dir->self);
}

static void fs_in_start(struct fs_in_item *item) {
  struct fs_in_dir *dir = item->dir;
  fs_in_need(dir);
  if (dir->failed && S_ISDIR(item->st.st_mode)) {
    fs_in_dir_made(FS_ITEM(item, struct fs_in_dir, self), 0);
  } else if (dir->failed) {
    fs_in_free(item);
  } else if (dir->id != 0) {
    fs_in_make(item);
  } else {
    item->in->pending++;
    fs_chain_push(&dir->waiting, &item->chain);
  }
}

/* ---- one after another ---- */

static struct fs_in_item *fs_in_next(struct fs_stagein *in, bool *last) {
  pthread_mutex_lock(&in->lock);
  struct fs_chain *l = fs_chain_pop(&in->found);
  if (l) in->waiting--;
  *last = !l && in->walked;
  if (in->waiting == 0 || l) pthread_cond_signal(&in->room);
  pthread_mutex_unlock(&in->lock);
  return l ? FS_ITEM(l, struct fs_in_item, chain) : NULL;
}

static void fs_in_left_add(struct fs_control_line *l, const struct fs_in_left *left, const char *count,
                           const char *name, const char *why) {
  if (left->count == 0) return;
  (void)fs_control_add_u64(l, count, left->count);
  (void)fs_control_add(l, name, left->name);
  if (why) (void)fs_control_add(l, why, left->why == -EXDEV ? "not below a mount" : strerror(-left->why));
}

/* Returns a number that changes whenever there is progress. */
static uint64_t fs_in_moved(const struct fs_stagein *in) {
  return in->made + atomic_load_explicit(&in->copied, memory_order_relaxed);
}

static void fs_in_say(struct fs_stagein *in) {
  struct fs_control_line l;
  in->told = fs_in_moved(in);
  in->say_at = in->d->now + FS_IN_SAY_NS;
  if (fs_say_begin(in->d, &l, "stagein") < 0) return;
  (void)fs_control_add_u64(&l, "files", in->files);
  (void)fs_control_add_u64(&l, "bytes", in->bytes);
  if (in->ended) {
    fs_in_left_add(&l, &in->dataset, "dataset", "dataset_name", NULL);
    fs_in_left_add(&l, &in->odd, "odd", "odd_name", "odd_why");
    (void)fs_control_add_u64(&l, "end", 1);
  }
  fs_say_line(&l);
}

static void fs_in_end(struct fs_stagein *in) {
  fs_err err = in->err < 0 ? in->err : in->failed;
  in->ended = true;
  if (err < 0) {
    fs_say_text(in->d, "fail", "--stage-in %s: %s", in->dir, strerror(-err));
    return;
  }
  fs_in_say(in);
}

static void fs_in_pump(struct fs_stagein *in) {
  bool last = false;
  if (in->pumping || in->ended) return; /* an answer may come inside this function */
  in->pumping = true;
  while (in->pending < FS_IN_FLIGHT && !last) {
    struct fs_in_item *item = fs_in_next(in, &last);
    if (!item) break;
    if (S_ISDIR(item->st.st_mode))
      fs_in_need(FS_ITEM(item, struct fs_in_dir, self));
    else
      fs_in_start(item);
  }
  in->pumping = false;
  if (last && in->pending == 0) fs_in_end(in);
}

void fs_stagein_timers(struct fs_daemon *d) {
  struct fs_stagein *in = d->stagein;
  if (!in || !in->begun || in->ended) return;
  fs_in_pump(in);
  if (!in->ended && in->told != fs_in_moved(in) && d->now >= in->say_at) fs_in_say(in);
}

int fs_stagein_reap(struct fs_daemon *d) {
  struct fs_stagein *in = d->stagein;
  return in ? fs_iopool_reap(&in->reads) + fs_iopool_reap(&in->copies) : 0;
}

/* ---- start ---- */

void fs_stagein_begin(struct fs_daemon *d) {
  struct fs_stagein *in = d->stagein;
  if (!in || in->begun || !d->ctl) return;
  in->begun = true;
  fs_err err = fs_thread_start(fs_stagein_walk, in);
  if (err == 0) return;
  in->err = err;
  in->walked = true;
}

fs_err fs_stagein_open(struct fs_daemon *d, char *why, size_t why_size) {
  if (!d->cfg->stage_in) return 0;
  struct fs_stagein *in = calloc(1, sizeof(*in));
  if (!in) return -ENOMEM;
  d->stagein = in;
  in->d = d;
  in->held_fd = -1;
  in->dir = d->cfg->stage_in;
  pthread_mutex_init(&in->lock, NULL);
  pthread_cond_init(&in->room, NULL);
  fs_chain_init(&in->found);
  in->fd = open(in->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  fs_err err = in->fd < 0 ? -errno : 0;
  if (err < 0) {
    snprintf(why, why_size, "--stage-in %s: %s", in->dir, strerror(-err));
    return err;
  }
  return fs_stagein_held_open(d, why, why_size);
}

fs_err fs_stagein_start(struct fs_daemon *d) {
  struct fs_stagein *in = d->stagein;
  fs_err err = in ? fs_iopool_start(&in->reads, FS_IN_READERS, d->wake) : 0;
  return err == 0 && in ? fs_iopool_start(&in->copies, FS_IN_COPIERS, d->wake) : err;
}
