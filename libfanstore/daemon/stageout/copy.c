/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread that copies outputs into the directory that outlives the job. A copy has a temporary
 * name beside its final one until all of it is on the disk, and then gets its name by rename, so
 * that readers find complete files only. Whatever had that name before is replaced, but never
 * removed unless this job made it. With --in-place it is not even replaced.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/outputs/backing.h"
#include "daemon/stageout/inplace.h"
#include "util/dir.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_COPY_WINDOW (8u << 20) /* bytes of a copy that may wait to be written */
#define FS_IOPRIO_IDLE (3 << 13)
#define FS_COPY_NICE 10
#define FS_COPY_NS 1000000000ull /* time after which a batch starts no further file */

/* Lowers this thread's priorities, once: the job's own reads, writes and computing come first. */
static void fs_copy_give_way(void) {
  static _Thread_local bool done;
  if (done) return;
  done = true;
  (void)syscall(SYS_ioprio_set, 1, 0, FS_IOPRIO_IDLE);
  (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), FS_COPY_NICE);
}

/* ---- directories ---- */

/* Makes the directories before the path's last slash. */
static fs_err fs_copy_parents(struct fs_stageout *o, char *path) {
  for (char *p = strchr(path, '/'); p; p = strchr(p + 1, '/')) {
    *p = '\0';
    int made = mkdirat(o->fd, path, 0777);
    fs_err err = made < 0 && errno != EEXIST ? -errno : 0;
    if (made == 0) fs_inplace_made(o, path);
    *p = '/';
    if (err < 0) return err;
  }
  return 0;
}

/*
 * Makes sure that no symlink leads a copy elsewhere. If the job has a directory where there is a
 * symlink, the symlink is removed, as rsync does. Missing directories are made later, when they are
 * needed. Each directory is checked once in a batch.
 */
static fs_err fs_copy_way(struct fs_stageout *o, char *path) {
  const char *slash = strrchr(path, '/');
  size_t n = slash ? (size_t)(slash - path) : 0;
  if (n == 0 || (strncmp(o->way, path, n) == 0 && o->way[n] == '\0')) return 0;
  o->way[0] = '\0';
  for (char *p = strchr(path, '/'); p; p = strchr(p + 1, '/')) {
    struct stat st;
    *p = '\0';
    int found = fstatat(o->fd, path, &st, AT_SYMLINK_NOFOLLOW);
    bool link = found == 0 && S_ISLNK(st.st_mode);
    fs_err err = found < 0 ? -errno : link && o->in_place ? -EEXIST : link && unlinkat(o->fd, path, 0) < 0 ? -errno : 0;
    *p = '/';
    if (err < 0 || link) return err == -ENOENT ? 0 : err;
  }
  if (n < sizeof(o->way)) memcpy(o->way, path, n);
  o->way[n < sizeof(o->way) ? n : 0] = '\0';
  return 0;
}

/* ---- what is there ---- */

static bool fs_copy_current(const struct fs_staged *s, const struct fs_source *from) {
  const struct stat *st = &from->st;
  return s->path && s->size == from->size && s->changes == from->scattered->changes &&
         fs_same_time(s->mtime, st->st_mtim) && fs_same_time(s->ctime, st->st_ctim) && s->mode == (st->st_mode & 07777);
}

/* Removes the directories above `path` that are now empty. */
static void fs_copy_prune(struct fs_stageout *o, const char *path) {
  if (o->in_place)
    fs_inplace_prune(o, path);
  else
    fs_staged_prune(o->fd, path);
}

static void fs_copy_unlink(struct fs_stageout *o, struct fs_staged *s) {
  if (s->path && fs_staged_there(o->fd, s) && !fs_inplace_taken(o, s->path)) {
    fs_staged_remove(o->fd, s);
    fs_copy_prune(o, s->path);
  }
  free(s->path);
  s->path = NULL;
}

/* ---- copying ---- */

/* Keeps few pages of a copy waiting to be written, and none in the page cache: both would slow
   down the job. The bytes from `from` to `to` have just been written. */
static void fs_copy_window(int fd, uint64_t from, uint64_t to) {
  if (from / FS_COPY_WINDOW == to / FS_COPY_WINDOW) return;
  off_t last = (off_t)(to / FS_COPY_WINDOW * FS_COPY_WINDOW - FS_COPY_WINDOW);
  (void)sync_file_range(fd, last, FS_COPY_WINDOW, SYNC_FILE_RANGE_WRITE);
  if (last == 0) return;
  off_t before = last - FS_COPY_WINDOW;
  (void)sync_file_range(fd, before, FS_COPY_WINDOW,
                        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  (void)posix_fadvise(fd, before, FS_COPY_WINDOW, POSIX_FADV_DONTNEED);
}

/* Copies a file and computes its checksum; if `to` is -1, computes only the checksum. Holes stay
   holes. */
static fs_err fs_copy_bytes(struct fs_stageout *o, struct fs_source *from, int to, uint64_t *sum) {
  struct fs_xxh3_stream *x = fs_xxh3_new();
  char *buf = o->buf;
  fs_err err = x ? 0 : -ENOMEM;
  for (uint64_t at = 0; err == 0 && at < from->size;) {
    bool hole;
    fs_ssize n = fs_source_read(from, buf, FS_SOURCE_BYTES, at, &hole);
    if (n <= 0) err = n < 0 ? (fs_err)n : -EIO;
    if (atomic_load_explicit(&o->cancelled, memory_order_relaxed)) err = -ECANCELED;
    if (err < 0) break;
    if (hole) memset(buf, 0, (size_t)n);
    fs_xxh3_update(x, buf, (size_t)n);
    at += (uint64_t)n;
    if (to < 0) continue;
    if (!hole) err = fs_pwrite_full(to, buf, (size_t)n, at - (uint64_t)n);
    atomic_fetch_add_explicit(&o->copied, (uint64_t)n, memory_order_relaxed);
    fs_copy_window(to, at - (uint64_t)n, at);
  }
  if (err == 0 && to >= 0 && ftruncate(to, (off_t)from->size) < 0) err = -errno;
  if (err == 0) *sum = fs_xxh3_digest(x);
  free(x);
  return err;
}

/* Sets the copy's mode and times. Returns -EAGAIN if the source has changed meanwhile. */
static fs_err fs_copy_settle(struct fs_source *from, int to) {
  struct timespec times[2] = {from->st.st_mtim, from->st.st_mtim};
  if (fchmod(to, from->st.st_mode & 07777) < 0 || futimens(to, times) < 0) return -errno;
  return fs_source_same(from);
}

static void fs_copy_describe(struct fs_staged *s, const struct fs_source *from, const struct statx *made) {
  s->ino = made->stx_ino;
  s->born = fs_staged_born(made);
  s->moved = fs_statx_time(made->stx_ctime);
  s->size = from->size;
  s->changes = from->scattered->changes;
  s->mtime = from->st.st_mtim;
  s->ctime = from->st.st_ctim;
  s->mode = from->st.st_mode & 07777;
  s->open = from->open || fs_source_written(from);
}

/* Returns "d/.fanstore-<job>-<rank>-<id>" for "d/name", or NULL. The log records first that such
   a file may exist. */
static char *fs_copy_temporary(const struct fs_stageout_item *j) {
  const struct fs_stageout *o = j->out;
  const char *slash = strrchr(j->path, '/');
  int dir = slash ? (int)(slash - j->path) + 1 : 0;
  char *name = NULL;
  fs_stageout_log_dir(o->log, j->path);
  int n = asprintf(&name, "%.*s" FS_STAGEOUT_COPY "%016llx", dir, j->path, fs_stageout_log_name(o->log),
                   (unsigned long long)j->output.id);
  return n < 0 ? NULL : name;
}

/* Creates the temporary file, in place of any leftover of that name. */
static fs_fd fs_copy_create(int dir, const char *name) {
  (void)unlinkat(dir, name, 0);
  int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  return fd < 0 ? -errno : fd;
}

/* Makes a new copy. The copy is on the disk only after fs_copy_sync. */
static fs_err fs_copy_new(struct fs_stageout_item *j, struct fs_source *from) {
  struct fs_stageout *o = j->out;
  struct statx made = {0};
  char *name = fs_copy_temporary(j);
  fs_err err = name ? 0 : -ENOMEM;
  FS_AUTO_CLOSE fs_fd to = err == 0 ? fs_copy_create(o->fd, name) : err;
  if (to == -ENOENT && (err = fs_copy_parents(o, j->path)) == 0) to = fs_copy_create(o->fd, name);
  if (err == 0 && to < 0) err = to;
  if (err == 0) err = fs_copy_bytes(o, from, to, &j->copy.sum);
  if (err == 0) err = fs_copy_settle(from, to);
  if (err == 0 && !fs_staged_look(to, "", &made)) err = -errno;
  if (err < 0) {
    if (to >= 0) (void)unlinkat(o->fd, name, 0);
    free(name);
    return err;
  }
  j->copy.path = name;
  j->fd = FS_MOVE_FD(to);
  fs_copy_describe(&j->copy, from, &made);
  return 0;
}

/* Compares checksums, for a file that somebody had open when it was copied: a change through a
   mapping need not show in its times. */
static fs_err fs_copy_again(struct fs_stageout_item *j, struct fs_source *from, bool *same) {
  struct fs_staged *s = j->staged;
  uint64_t sum = 0;
  fs_err err = fs_copy_bytes(j->out, from, -1, &sum);
  if (err == 0) err = fs_source_same(from);
  *same = err == 0 && sum == s->sum;
  if (*same) s->open = from->open || fs_source_written(from);
  return err;
}

/* Gives an unchanged staged-in file of the same directory its new name as a hard link. Returns
   false if that is impossible; the file is then copied. */
static bool fs_copy_link(struct fs_stageout_item *j) {
  struct fs_stageout *o = j->out;
  const struct fs_staged *s = j->staged;
  char name[FS_BACKING_NAME_SIZE];
  struct stat st;
  if (!o->held || !j->scattered.linked || fstatat(o->d->backing_fd, fs_backing_name(j->output.id, name), &st, 0) < 0)
    return false;
  if (s->path && strcmp(s->path, j->path) == 0 && fs_staged_there(o->fd, s)) return true;
  char *link = fs_copy_temporary(j);
  if (link && fs_copy_parents(o, j->path) == 0) {
    (void)unlinkat(o->fd, link, 0);
    if (linkat(o->d->backing_fd, name, o->fd, link, AT_SYMLINK_FOLLOW) == 0) {
      j->copy = (struct fs_staged){.path = link,
                                   .ino = st.st_ino,
                                   .size = (uint64_t)st.st_size,
                                   .mtime = st.st_mtim,
                                   .mode = st.st_mode & 07777};
      return true;
    }
  }
  free(link);
  return false;
}

static fs_err fs_copy_file(struct fs_stageout_item *j) {
  struct fs_stageout *o = j->out;
  struct fs_source from;
  fs_err err = fs_copy_way(o, j->path);
  if (err < 0 || fs_copy_link(j)) return err;
  err = fs_source_open(&from, o->d, o->inside, j->output.id, O_RDONLY, &j->scattered);
  if (err < 0) return err;
  bool there = fs_copy_current(j->staged, &from) && fs_staged_there(o->fd, j->staged);
  if (there && j->staged->open) err = fs_copy_again(j, &from, &there);
  /* checked before all bytes are copied in vain */
  if (err == 0 && !there && fs_inplace_taken(o, j->path)) err = -EEXIST;
  if (err == 0 && !there) err = fs_copy_new(j, &from);
  fs_source_close(&from);
  return err;
}

/* Renames a copy to its name, which an empty directory may have. */
static fs_err fs_copy_rename(struct fs_stageout *o, const char *from, const char *to) {
  int dir = o->fd;
  if (o->in_place) return fs_inplace_rename(o, from, to);
  if (renameat(dir, from, dir, to) == 0) return 0;
  if (errno != EISDIR || unlinkat(dir, to, AT_REMOVEDIR) < 0) return -errno;
  return renameat(dir, from, dir, to) < 0 ? -errno : 0;
}

static bool fs_copy_is_link(int dir, const char *path) {
  struct stat st;
  return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

static fs_err fs_copy_directory(struct fs_stageout_item *j) {
  struct fs_stageout *o = j->out;
  struct stat st;
  if (!o->in_place && fs_copy_is_link(o->fd, j->path) && unlinkat(o->fd, j->path, 0) < 0) return -errno;
  if (mkdirat(o->fd, j->path, 0777) == 0)
    fs_inplace_made(o, j->path);
  else if (errno != EEXIST)
    return -errno;
  else if (o->in_place && !fs_inplace_made_by_job(o, j->path)) {
    j->there = fstatat(o->fd, j->path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
    return j->there ? 0 : -EEXIST;
  }
  fs_err err = fs_chmod_dir(o->fd, j->path, (j->output.mode & 07777) | 0700);
  return err == -ENOTDIR ? -EEXIST : err; /* a symlink or a file has the name */
}

static fs_err fs_copy_other(struct fs_stageout_item *j) {
  struct fs_stageout *o = j->out;
  fs_err err = fs_copy_way(o, j->path);
  if (err == 0) err = fs_copy_parents(o, j->path);
  if (err < 0) return err;
  if (S_ISDIR(j->output.mode)) return fs_copy_directory(j);
  char target[PATH_MAX];
  struct timespec times[2] = {fs_output_time(&j->output), fs_output_time(&j->output)};
  ssize_t n = readlinkat(o->fd, j->path, target, sizeof(target));
  if (n >= 0 && (size_t)n == strlen(j->output.target) && memcmp(target, j->output.target, (size_t)n) == 0)
    return o->in_place ? 0 : utimensat(o->fd, j->path, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
  FS_AUTO_FREE char *name = fs_copy_temporary(j);
  if (!name) return -ENOMEM;
  (void)unlinkat(o->fd, name, 0);
  if (symlinkat(j->output.target, o->fd, name) < 0) return -errno;
  err = utimensat(o->fd, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
  if (err == 0 && atomic_load_explicit(&o->given_up, memory_order_relaxed)) err = -ECANCELED;
  if (err == 0) err = fs_copy_rename(o, name, j->path);
  if (err < 0) (void)unlinkat(o->fd, name, 0);
  return err;
}

/* ---- names ---- */

static fs_err fs_copy_move(struct fs_stageout *o, const char *from, char *to) {
  fs_err err = fs_copy_way(o, to);
  if (err == 0) err = fs_copy_rename(o, from, to);
  if (err != -ENOENT) return err;
  err = fs_copy_parents(o, to);
  return err == 0 ? fs_copy_rename(o, from, to) : err;
}

/* Removes an unnamed copy, and its directory if that is empty then. */
static void fs_copy_discard(struct fs_stageout_item *j) {
  if (j->copy.path && unlinkat(j->out->fd, j->copy.path, 0) == 0) fs_copy_prune(j->out, j->copy.path);
  free(j->copy.path);
  j->copy.path = NULL;
}

static bool fs_copy_together(const char *a, const char *b) {
  const char *end = strrchr(a, '/');
  size_t n = end ? (size_t)(end - a) + 1 : 0;
  return strncmp(a, b, n) == 0 && !strchr(b + n, '/');
}

/* Names an item's copy. A new copy gets its name, and the old copy is removed unless it had the
   same name. If there is no new copy, the old one is renamed as its file was. */
static fs_err fs_copy_name(struct fs_stageout_item *j) {
  struct fs_stageout *o = j->out;
  struct fs_staged *s = j->staged;
  struct fs_staged *now = j->copy.path ? &j->copy : s;
  bool same = s->path && strcmp(s->path, j->path) == 0;
  if (now == s && same) return 0;
  /* another file of the batch has taken its name */
  if (now == s && !fs_staged_there(o->fd, s)) return -EAGAIN;
  char *path = strdup(j->path);
  fs_err err = path ? fs_copy_move(o, now->path, j->path) : -ENOMEM;
  if (err == 0 && now == s) err = fs_staged_moved(o->fd, s, path);
  if (err < 0) {
    free(path);
    return err;
  }
  /* rename does nothing if both names are links to one file */
  if (j->copy.path) (void)unlinkat(o->fd, j->copy.path, 0);
  if (now == s || !fs_copy_together(now->path, j->path)) fs_copy_prune(o, now->path);
  if (now == &j->copy && !same) fs_copy_unlink(o, s);
  fs_inplace_named(o, j->path, now);
  free(s->path);
  if (now == &j->copy) free(j->copy.path);
  *s = *now;
  s->path = path;
  j->copy.path = NULL;
  fs_staged_named(o->fd, s);
  return 0;
}

static fs_err fs_copy_named(struct fs_stageout_item *j) {
  bool over = atomic_load_explicit(&j->out->given_up, memory_order_relaxed);
  fs_err err = over ? -ECANCELED : j->changed ? -EAGAIN : fs_copy_name(j);
  if (err < 0) fs_copy_discard(j);
  return err;
}

static void fs_copy_remove(struct fs_stageout_item *j) {
  fs_copy_discard(j);
  fs_copy_unlink(j->out, j->staged);
}

/* ---- a batch ---- */

static void fs_copy_unsynced(struct fs_stageout_item *j) {
  if (j->fd >= 0) close(j->fd);
  j->fd = -1;
}

/* Syncs the copies of a batch. All writes are started before the first is waited for, so that
   they proceed together. */
static void fs_copy_sync(struct fs_stageout_batch *b) {
  for (uint32_t i = 0; b->count > 1 && i < b->count; i++)
    if (b->item[i].fd >= 0) (void)sync_file_range(b->item[i].fd, 0, 0, SYNC_FILE_RANGE_WRITE);
  for (uint32_t i = 0; i < b->count; i++) {
    struct fs_stageout_item *j = &b->item[i];
    if (j->fd < 0) continue;
    if (fsync(j->fd) < 0) j->err = -errno;
    fs_copy_unsynced(j);
  }
}

fs_err fs_stageout_copy_work(struct fs_io *io) {
  struct fs_stageout_batch *b = FS_ITEM(io, struct fs_stageout_batch, io);
  uint64_t end = fs_now_ns() + FS_COPY_NS;
  fs_copy_give_way();
  fs_err unlogged = fs_inplace_begin(b->item[0].out);
  b->item[0].out->way[0] = '\0';
  for (uint32_t i = 0; i < b->count; i++) {
    struct fs_stageout_item *j = &b->item[i];
    if (j->err == 0) j->err = unlogged;
    j->later = i > 0 && fs_now_ns() > end;
    if (j->later || j->err < 0) continue;
    if (j->task == FS_STAGE_REMOVE)
      fs_copy_remove(j);
    else if (S_ISREG(j->output.mode))
      j->err = fs_copy_file(j);
  }
  fs_copy_sync(b);
  return 0;
}

/* Returns true if the path was asked for too long ago. If the daemon was suspended, the file may
   have another home now, which has copied it. */
static bool fs_copy_late(const struct fs_stageout_item *j) {
  return !j->changed && fs_now_ns() - j->asked_ns > FS_STAGEOUT_QUIET_NS;
}

static void fs_copy_second(struct fs_stageout_item *j) {
  j->late = j->err == 0 && j->task == FS_STAGE_NAME && fs_copy_late(j);
  j->through = !j->late;
  if (j->late) return;
  if (j->task == FS_STAGE_REMOVE)
    fs_copy_remove(j);
  else if (j->err == 0 && j->task == FS_STAGE_NAME)
    j->err = fs_copy_named(j);
  else if (j->err < 0)
    fs_copy_discard(j);
}

/* Directories are made last, as the removal of a file also removes empty directories. */
fs_err fs_stageout_name_work(struct fs_io *io) {
  struct fs_stageout_batch *b = FS_ITEM(io, struct fs_stageout_batch, io);
  b->item[0].out->way[0] = '\0';
  for (uint32_t i = 0; i < b->count; i++) {
    struct fs_stageout_item *j = &b->item[i];
    if (S_ISREG(j->output.mode) && !j->later && !j->through) fs_copy_second(j);
  }
  if (b->item[0].out->log) fs_stageout_log_flush(b->item[0].out->log);
  for (uint32_t i = 0; i < b->count; i++) {
    struct fs_stageout_item *j = &b->item[i];
    if (S_ISREG(j->output.mode) || j->later || j->through || j->err < 0 || j->task != FS_STAGE_NAME) continue;
    j->err = fs_copy_other(j);
    j->through = true;
  }
  return 0;
}

fs_err fs_stageout_clean_work(struct fs_io *io) {
  fs_copy_give_way();
  fs_stageout_log_clean(FS_ITEM(io, struct fs_stageout, clean)->log);
  return 0;
}

fs_err fs_stageout_sync_work(struct fs_io *io) {
  const struct fs_stageout *o = FS_ITEM(io, struct fs_stageout, sync);
  fs_err err = o->named && syncfs(o->fd) < 0 ? -errno : 0;
  if (err == 0 && !o->in_place) fs_stageout_log_end(o->log);
  return err;
}
