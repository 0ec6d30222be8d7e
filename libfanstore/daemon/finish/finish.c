/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of the job for this rank's outputs (finish.h). A list of them is made once. It is worked
 * off in small steps, between the other work of the MPI thread.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/finish/finish_priv.h"
#include "daemon/outputs/backing.h"
#include "daemon/outputs/forwarder.h"
#include "daemon/outputs/outpath.h"
#include "daemon/outputs/written.h"
#include "daemon/replicas/replicas.h"
#include "daemon/stagein/stagein.h"
#include "daemon/stageout/stageout.h"

#define FS_OUTPUTS_FLIGHT 64u       /* paths being asked for, or files being moved, at once */
#define FS_OUTPUTS_STAGED_OUT 1024u /* files being copied to --stage-out at once: some batches */
#define FS_OUTPUTS_COUNTED 512u     /* files in one step if only their sizes are wanted */
#define FS_OUTPUTS_SAY_NS 200000000ull
#define FS_OUTPUTS_GONE_DEADLINES 5u       /* deadlines within which a node's death is detected */
#define FS_OUTPUTS_ALONE_NS 10000000000ull /* the same limit if mpirun has died (command.c) */

struct fs_output_step { /* one output at work; a copy, as the list may move in memory */
  struct fs_daemon *d;
  struct fs_output item;
  uint64_t size;
  fs_err err; /* error of its copy to --stage-out */
};

/* Sets *size to the file's size by the kernel, as the last writer may not be published yet.
   Returns false if there is no such output any more. */
static bool fs_outputs_size(const struct fs_daemon *d, const struct fs_output *item, uint64_t *size) {
  char name[FS_BACKING_NAME_SIZE];
  struct stat st;
  const struct fs_backing_file *f = fs_backing_find(d, item->id);
  *size = f && f->in ? f->size : 0;
  if (!S_ISREG(item->mode) || (f && f->in)) return true;
  if (fstatat(d->backing_fd, fs_backing_name(item->id, name), &st, AT_SYMLINK_NOFOLLOW) < 0)
    /* if the bytes are missing but the name exists, the copy will fail and report it */
    return f && !f->removed;
  *size = (uint64_t)st.st_size;
  return S_ISREG(st.st_mode);
}

/* ---- what fails ---- */

/* Returns the entry for this error. If there were more errors than entries, the last would count
   all others. */
static struct fs_outputs_reason *fs_outputs_reason(struct fs_outputs *o, fs_err err) {
  struct fs_outputs_reason *r = o->reason;
  while (r->err != 0 && r->err != err && r < &o->reason[FS_OUTPUTS_REASONS - 1]) r++;
  if (r->err == 0) r->err = err;
  return r;
}

static void fs_outputs_failed(struct fs_outputs *o, fs_err err) {
  o->failed++;
  fs_outputs_reason(o, err)->failed++;
}

/* Counts an output that was not copied because of `first` (0: it did not have to be) and not
   kept because of `err`. */
static void fs_outputs_lost(struct fs_outputs *o, fs_err first, fs_err err) {
  o->lost++;
  fs_outputs_reason(o, first < 0 ? first : err)->unkept++;
  fs_outputs_reason(o, err)->lost++;
}

/* ---- the list ---- */

static void fs_outputs_add(struct fs_outputs *o, const struct fs_output *item) {
  if (o->n == o->room) {
    size_t room = o->room ? 2 * o->room : 256;
    struct fs_output *grown = realloc(o->item, room * sizeof(*grown));
    if (!grown) {
      fs_outputs_failed(o, -ENOMEM);
      return;
    }
    o->item = grown;
    o->room = room;
  }
  o->item[o->n++] = *item;
}

/* Returns true if an unchanged staged-in file needs no work: it is still where it came from. */
static bool fs_outputs_elsewhere(const struct fs_outputs *o, bool staged) {
  return staged && !o->stage;
}

static void fs_outputs_other(void *ctx, const struct fs_record *r) {
  struct fs_outputs *o = ctx;
  bool staged = r->flags & FS_RECORD_STAGED_IN;
  if (!staged && S_ISDIR(r->mode)) o->dirs++;
  if (!staged && S_ISLNK(r->mode)) o->links++;
  if ((!o->keep && !o->stage) || fs_outputs_elsewhere(o, staged)) return;
  struct fs_output item = {
      .id = r->id, .dir = r->dir, .mode = r->mode, .mtime = r->mtime, .mtime_ns = r->mtime_ns, .version = r->version};
  if (S_ISLNK(r->mode)) item.target = strndup(fs_record_target(r), r->target_len);
  if (!S_ISLNK(r->mode) || item.target) fs_outputs_add(ctx, &item);
}

static void fs_outputs_list(struct fs_daemon *d) {
  const struct fs_table *t = &d->backing_files->files;
  d->outputs->listed = true;
  fs_backing_look_all(d);
  for (struct fs_table_link *l = NULL; (l = fs_table_next(t, l)) != NULL;) {
    const struct fs_backing_file *f = FS_ITEM(l, struct fs_backing_file, by_id);
    struct fs_output item = {.id = f->id, .dir = f->dir, .mode = S_IFREG};
    uint64_t size;
    if (f->removed || f->dir == 0 || !fs_backing_mine(d, f->id) || fs_outputs_elsewhere(d->outputs, f->in)) continue;
    fs_outputs_add(d->outputs, &item);
    if (d->outputs->stage && !fs_stageout_held(d, f->id) && fs_outputs_size(d, &item, &size)) d->outputs->total += size;
  }
  fs_ns_others(d->ns, fs_outputs_other, d->outputs);
}

/* ---- what went with its home ---- */

static void fs_outputs_orphaned(void *ctx, const struct fs_record *r) {
  const struct fs_daemon *d = ctx;
  struct fs_output item = {.id = r->id,
                           .dir = r->dir,
                           .mode = r->mode,
                           .mtime = r->mtime,
                           .mtime_ns = r->mtime_ns,
                           .gone = true,
                           .size = r->size};
  if (!fs_member(fs_ns_members(d->ns), r->home) && !(r->flags & FS_RECORD_STAGED_IN)) fs_outputs_add(d->outputs, &item);
}

/* All other nodes have answered, or other nodes keep their names now. */
static void fs_outputs_all_known(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_outputs *o = ctx;
  (void)body, (void)n;
  if (!o->gone_listed) o->gone_sure = err == 0; /* else the list was made before this answer */
}

static bool fs_outputs_gone(struct fs_daemon *d) {
  struct fs_outputs *o = d->outputs;
  if (o->gone_listed) return true;
  if (!o->gone_asked) {
    o->gone_asked = true;
    fs_ns_all(d->ns, d->now, fs_outputs_all_known, o);
  }
  if (!o->gone_sure && d->now < o->gone_by) return false;
  o->gone_listed = true;
  for (uint32_t i = 0; i < d->net->nodes; i++) o->gone_nodes += !fs_member(fs_ns_members(d->ns), i);
  fs_ns_files(d->ns, fs_outputs_orphaned, d);
  return o->next == o->n;
}

void fs_outputs_adopted(struct fs_daemon *d, const struct fs_backing_file *f) {
  struct fs_output item = {.id = f->id, .dir = f->dir, .mode = S_IFREG};
  struct fs_outputs *o = d->outputs;
  uint64_t size;
  if (!o || !o->listed) return;
  bool again = !d->outputs_pending;
  if (again) o->n = o->next = o->room = 0;
  if (again && o->stage) d->stageout->syncing = d->stageout->synced = false;
  d->outputs_pending = true;
  fs_outputs_add(o, &item);
  if (o->stage && fs_outputs_size(d, &item, &size)) o->total += size;
}

/* ---- one after another ---- */

static void fs_outputs_step_end(void *ctx, fs_err err) {
  struct fs_output_step *s = ctx;
  if (err < 0) fs_outputs_failed(s->d->outputs, err);
  if (err < 0 && !S_ISREG(s->item.mode)) fs_outputs_reason(s->d->outputs, err)->others++;
  s->d->outputs->flight--;
  free(s);
}

static void fs_outputs_say(const struct fs_output_step *s, const char *path) {
  struct fs_control_line l;
  if (fs_say_begin(s->d, &l, "output") < 0 || fs_control_add_u64(&l, "size", s->size) < 0) return;
  if (s->err < 0 && fs_control_add(&l, "why", fs_output_why(s->err)) < 0) return;
  if (fs_control_add(&l, "name", path) == 0) fs_say_line(&l);
}

static void fs_outputs_name(const struct fs_output_step *s, const char *path) {
  if (!S_ISREG(s->item.mode) || s->d->outputs->names == 0) return;
  s->d->outputs->names--;
  fs_outputs_say(s, path);
}

static void fs_outputs_kept(void *ctx, fs_err err) {
  struct fs_output_step *s = ctx;
  if (err < 0) fs_outputs_lost(s->d->outputs, s->err, err);
  fs_outputs_step_end(s, s->err < 0 ? s->err : err);
}

static void fs_outputs_keep(struct fs_output_step *s, const char *path) {
  s->d->outputs->kept = true;
  fs_keep(s->d, &s->item, path, fs_outputs_kept, s);
}

/* Names and keeps an output that could not be copied to --stage-out. */
static void fs_outputs_left(void *ctx, fs_err err, const char *path) {
  struct fs_output_step *s = ctx;
  if (err < 0) {
    fs_outputs_kept(s, err);
    return;
  }
  const struct fs_backing_file *f = fs_backing_find(s->d, s->item.id);
  if (s->err == -ECANCELED && S_ISREG(s->item.mode) && fs_stageout_at(s->d, s->item.id, path)) {
    s->d->outputs->staged++; /* it was copied before the cancellation */
    fs_outputs_step_end(s, 0);
    return;
  }
  fs_outputs_name(s, path);
  if (f && f->in)
    fs_outputs_step_end(s, s->err); /* it stays where --stage-in found it */
  else
    fs_outputs_keep(s, path);
}

static void fs_outputs_staged_out(void *ctx, fs_err err) {
  struct fs_output_step *s = ctx;
  struct fs_outputs *o = s->d->outputs;
  if (err == -ESTALE) { /* another node is its home now; it copies and counts the file */
    fs_outputs_step_end(s, 0);
    return;
  }
  bool file = S_ISREG(s->item.mode) && (err < 0 || !fs_stageout_held(s->d, s->item.id));
  if (file) o->files++, o->bytes += s->size;
  if (err == 0) {
    o->staged += file;
    fs_outputs_step_end(s, 0);
    return;
  }
  s->err = err;
  fs_path_find(s->d, s->item.dir, s->item.id, fs_outputs_left, s);
}

/* Returns true if the file's name may have been lost: if two nodes die together, names go with
   them, and nobody knows whether this file had one. */
static bool fs_outputs_severed(const struct fs_daemon *d, const struct fs_output *item) {
  const struct fs_backing_file *f = fs_backing_find(d, item->id);
  return S_ISREG(item->mode) && f && f->mode != 0 && !f->removed && fs_ns_members(d->ns)->count + 2 <= d->net->nodes;
}

static void fs_outputs_found(void *ctx, fs_err err, const char *path) {
  struct fs_output_step *s = ctx;
  struct fs_outputs *o = s->d->outputs;
  if (err == -ENOENT && fs_outputs_severed(s->d, &s->item)) {
    char number[64];
    snprintf(number, sizeof(number), "lost+found/%llu", (unsigned long long)s->item.id);
    s->err = -ENOLINK;
    if (o->names > 0) o->names--, fs_outputs_say(s, number);
    o->files++, o->bytes += s->size;
    if (o->keep)
      fs_outputs_keep(s, number);
    else
      fs_outputs_step_end(s, -ENOLINK);
    return;
  }
  if (err == 0 && S_ISREG(s->item.mode)) {
    fs_outputs_name(s, path);
    o->files++;
    o->bytes += s->size;
  }
  if (err == 0 && o->keep && !fs_stageout_done(s->d, s->item.id))
    fs_outputs_keep(s, path);
  else
    /* -ENOENT: it was removed, or never got a name */
    fs_outputs_step_end(s, err == -ENOENT ? 0 : err);
}

static void fs_outputs_begin(struct fs_output_step *s) {
  if (s->d->outputs->stage)
    fs_stageout_last(s->d, &s->item, fs_outputs_staged_out, s);
  else
    fs_path_find(s->d, s->item.dir, s->item.id, fs_outputs_found, s);
}

/* Takes a directory's times, which the last change in it also moves. Without an answer its
   record's times are used. */
static void fs_outputs_timed(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_output_step *s = ctx;
  struct fs_output *item = &s->item;
  struct fs_record r = {.version = item->version, .mtime = item->mtime, .mtime_ns = item->mtime_ns};
  struct fs_dir_times told;
  if (err == 0 && n == sizeof(told)) {
    memcpy(&told, body, n);
    fs_record_changed(&r, told.changed);
    item->mtime = r.mtime;
    item->mtime_ns = r.mtime_ns;
  }
  fs_outputs_begin(s);
}

static void fs_outputs_gone_named(struct fs_outputs *o, const struct fs_output_step *s, const char *path) {
  if (o->gone_names == 0) return;
  o->gone_names--;
  fs_outputs_tell_gone(s->d, &s->item, path);
}

/* Takes the answer whether --stage-out's directory has the orphaned file. */
static void fs_outputs_gone_looked(void *ctx, bool whole, const char *path) {
  struct fs_output_step *s = ctx;
  struct fs_outputs *o = s->d->outputs;
  if (whole) {
    o->files++;
    o->staged++;
    o->bytes += s->size;
  } else {
    o->gone++;
    fs_outputs_gone_named(o, s, path);
  }
  fs_outputs_step_end(s, 0);
}

static void fs_outputs_gone_found(void *ctx, fs_err err, const char *path) {
  struct fs_output_step *s = ctx;
  if (err == 0 && s->d->outputs->stage) {
    fs_stageout_look(s->d, &s->item, path, fs_outputs_gone_looked, s);
    return;
  }
  s->d->outputs->gone++;
  if (err == 0) fs_outputs_gone_named(s->d->outputs, s, path);
  fs_outputs_step_end(s, 0);
}

/* If another node is its home and has it, that node counts it. */
static void fs_outputs_gone_asked(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_output_step *s = ctx;
  (void)body, (void)n;
  if (err == -EIO)
    fs_path_find(s->d, s->item.dir, s->item.id, fs_outputs_gone_found, s);
  else
    fs_outputs_step_end(s, 0);
}

static void fs_outputs_next_gone(struct fs_daemon *d, const struct fs_output *item) {
  struct fs_outputs *o = d->outputs;
  struct fs_output_step *s = o->stage || d->replicas || o->gone_names > 0 ? malloc(sizeof(*s)) : NULL;
  if (!s) {
    o->gone++;
    return;
  }
  *s = (struct fs_output_step){.d = d, .item = *item, .size = item->size};
  o->flight++;
  fs_replicas_ask(d, item->id, fs_outputs_gone_asked, s);
}

static void fs_outputs_next(struct fs_daemon *d) {
  struct fs_outputs *o = d->outputs;
  const struct fs_output *item = &o->item[o->next++];
  uint64_t size;
  if (item->gone) {
    fs_outputs_next_gone(d, item);
    return;
  }
  if (!fs_outputs_size(d, item, &size)) return;
  if (!o->keep && !o->stage && o->flight >= o->names) { /* files under way may still need names */
    o->files++;
    o->bytes += size;
    return;
  }
  struct fs_output_step *s = malloc(sizeof(*s));
  if (!s) {
    fs_outputs_failed(o, -ENOMEM);
    return;
  }
  *s = (struct fs_output_step){.d = d, .item = *item, .size = size};
  o->flight++;
  struct fs_names_call times = {.op = FS_NAMES_TIMES, .times.dir = item->id};
  if (S_ISDIR(item->mode))
    fs_ns_call(d->ns, d->now, &times, fs_outputs_timed, s);
  else
    fs_outputs_begin(s);
}

/* ---- the end ---- */

static void fs_outputs_end(struct fs_daemon *d) {
  struct fs_outputs *o = d->outputs;
  /* the copying thread may still read them */
  bool given_up = d->stageout && atomic_load(&d->stageout->given_up);
  for (size_t i = 0; i < o->n && !given_up; i++) free(o->item[i].target);
  free(o->item);
  o->item = NULL;
  d->outputs_pending = false;
  d->outputs_saved = o->stage ? o->lost == 0 : o->keep && o->failed == 0;
  fs_outputs_tell(d, true);
  fs_commands_finished(d);
}

/* Returns true when the copies' names are synced, or nothing was copied. */
static bool fs_outputs_synced(struct fs_daemon *d) {
  struct fs_outputs *o = d->outputs;
  fs_err err = 0;
  if (!o->stage) return true;
  bool settled =
      atomic_load(&d->stageout->cancelled) || (fs_stageout_removed_all(d->stageout) && fs_stagein_settled(d));
  if (!settled || !fs_stageout_sync(d, o->staged > 0, &err)) return false;
  if (err < 0) fs_outputs_failed(o, err);
  return true;
}

/* Returns true if the next output has to wait: directories come after all files, because the
   removal of a file also removes empty directories. */
static bool fs_outputs_waits(struct fs_outputs *o) {
  bool wait = !S_ISREG(o->item[o->next].mode) && o->flight > 0 && !o->others;
  if (!wait && !S_ISREG(o->item[o->next].mode)) o->others = true;
  return wait;
}

void fs_outputs_timers(struct fs_daemon *d) {
  struct fs_outputs *o = d->outputs;
  if (!d->outputs_pending) return;
  if (!o->listed && (fs_forwarders_pending(d) || fs_written_busy(d)) && d->now < o->list_by) return;
  if (!o->listed) fs_outputs_list(d);
  (void)fs_keep_reap();
  uint32_t most = o->stage ? FS_OUTPUTS_STAGED_OUT : o->keep || o->names > 0 ? FS_OUTPUTS_FLIGHT : FS_OUTPUTS_COUNTED;
  uint32_t flight = o->stage ? FS_OUTPUTS_STAGED_OUT : FS_OUTPUTS_FLIGHT;
  for (uint32_t i = 0; i < most && o->next < o->n && o->flight < flight && !fs_outputs_waits(o); i++)
    fs_outputs_next(d);
  if (o->next == o->n && o->flight == 0 && fs_outputs_gone(d) && fs_outputs_synced(d)) {
    fs_outputs_end(d);
  } else if (d->now >= o->say_at) {
    o->say_at = d->now + FS_OUTPUTS_SAY_NS;
    fs_outputs_tell(d, false);
  }
}

void fs_outputs_finish(struct fs_daemon *d, const struct fs_control *c) {
  uint64_t keep = 0, stage = 0, alone = 0;
  (void)fs_control_get_u64(c, "alone", &alone);
  if (d->outputs) {
    /* a second `finish`: the launcher or mpirun has died meanwhile, or the first came twice */
    uint64_t names;
    if (fs_control_get_u64(c, "names", &names) < 0) fs_stageout_cancel(d);
    if (!d->outputs_pending && alone) fs_outputs_tell(d, true);
    if (!d->outputs_pending) fs_commands_finished(d);
    return;
  }
  d->outputs = calloc(1, sizeof(*d->outputs));
  if (!d->outputs) return;
  struct fs_outputs *o = d->outputs;
  d->outputs_pending = true;
  (void)fs_control_get_u64(c, "names", &o->names);
  o->gone_names = o->names;
  uint64_t patience = FS_OUTPUTS_GONE_DEADLINES * d->cfg->deadline_ns;
  o->gone_by = d->now + (alone ? FS_MIN(patience, FS_OUTPUTS_ALONE_NS) : patience);
  o->gone_sure = o->names == 0; /* without names nobody wants the answer */
  o->gone_listed = o->gone_sure;
  o->keep = fs_control_get_u64(c, "keep", &keep) == 0 && keep != 0;
  o->stage = d->stageout && fs_control_get_u64(c, "stage", &stage) == 0 && stage != 0;
  if (!o->stage) fs_stageout_cancel(d);
  o->say_at = d->now + FS_OUTPUTS_SAY_NS;
  o->list_by = d->now + d->cfg->deadline_ns;
  if (d->ctl)
    fs_backing_look_all(d);
  else
    fs_outputs_end(d); /* the daemon does not serve yet */
}

void fs_outputs_settle(const struct fs_daemon *d) {
  char path[PATH_MAX];
  const struct fs_stageout *o = d->stageout;
  FS_AUTO_CLOSE int kept =
      fs_keep_dir(d, path, sizeof(path)) == 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  fs_settle(kept, o && !atomic_load(&o->cancelled) ? o->fd : -1); /* a cancelled --stage-out may hang */
}
