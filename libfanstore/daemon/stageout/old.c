/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cleans up what dead daemons have left in DIR (log.h). Their unnamed copies are removed. If the
 * job ends well, their logs and this daemon's become one log, with a line for each file that still
 * is as the line says.
 *
 * A daemon is dead if its log's lock is free and it ran under this very kernel: some file systems
 * keep locks local to a node. A log from another kernel, of another node or before a reboot,
 * belongs to a dead daemon if nothing was written to it for a day; its copies may go if they have
 * not changed for an hour. A wrong guess costs that daemon a second copy.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "daemon/stageout/log.h"
#include "util/dir.h"
#include "util/sys.h"

#define FS_OLD_MOST 256u             /* logs that one daemon takes over; later jobs take the rest */
#define FS_OLD_LOG_S 86400           /* age of a dead daemon's log from another kernel */
#define FS_OLD_COPY_S 3600           /* age of its copies */
#define FS_OLD_LOOK_NS 5000000000ull /* time for checking files; unchecked lines stay */

/* ---- whose it is ---- */

static void fs_old_boot(void *ctx, const struct fs_control *c) {
  char *boot = ctx;
  const char *id = strcmp(c->verb, "boot") == 0 ? fs_control_get(c, "id") : NULL;
  if (id) snprintf(boot, FS_LOG_BOOT_SIZE, "%s", id);
}

void fs_log_adopt(struct fs_stageout_log *log, const char *name) {
  char boot[FS_LOG_BOOT_SIZE] = "";
  struct stat st, there;
  FS_AUTO_CLOSE int fd = openat(log->dir, name, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0 || log->olds >= FS_OLD_MOST || flock(fd, LOCK_EX | LOCK_NB) < 0) return;
  if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || fstatat(log->dir, name, &there, AT_SYMLINK_NOFOLLOW) < 0 ||
      there.st_ino != st.st_ino)
    return; /* another daemon has just removed it */
  fs_log_lines(fd, fs_old_boot, boot);
  bool same = log->boot[0] && strcmp(boot, log->boot) == 0;
  if (!same && log->now - st.st_mtim.tv_sec < FS_OLD_LOG_S) return;
  struct fs_log_old *grown = realloc(log->old, (log->olds + 1) * sizeof(*grown));
  char *copy = grown ? strdup(name) : NULL;
  if (grown) log->old = grown;
  if (copy) log->old[log->olds++] = (struct fs_log_old){.fd = FS_MOVE_FD(fd), .same_kernel = same, .name = copy};
}

/* ---- copies without a name ---- */

struct fs_old_cleaning {
  const struct fs_stageout_log *log;
  struct fs_log_old *old;
};

/* Returns true if the name is that of an unnamed copy of the log `of`:
   ".fanstore-<job>-<rank>-<id>". */
static bool fs_old_is_copy(const char *name, const char *of) {
  char prefix[NAME_MAX + 1];
  int n = snprintf(prefix, sizeof(prefix), FS_STAGEOUT_COPY, of);
  if (n >= (int)sizeof(prefix) || strncmp(name, prefix, (size_t)n) != 0) return false;
  return strlen(name + n) == 16 && strspn(name + n, "0123456789abcdef") == 16;
}

static bool fs_old_below(const char *dir) {
  for (const char *p = dir; p; p = strchr(p, '/')) {
    p += *p == '/';
    if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == '\0')) return false;
  }
  return dir[0] != '/' && dir[0] != '\0';
}

static void fs_old_clean_dir(void *ctx, const struct fs_control *c) {
  const struct fs_old_cleaning *w = ctx;
  const char *name = strcmp(c->verb, "dir") == 0 ? fs_control_get(c, "name") : NULL;
  struct stat st;
  DIR *d = name && fs_old_below(name) ? fs_opendirat(w->log->out, name) : NULL;
  if (!d) return;
  for (const struct dirent *e; (e = readdir(d)) != NULL;) {
    if (!fs_old_is_copy(e->d_name, w->old->name) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
      continue;
    bool dead = w->old->same_kernel || w->log->now - st.st_ctim.tv_sec > FS_OLD_COPY_S;
    if (!dead || unlinkat(dirfd(d), e->d_name, 0) < 0) w->old->stays = true;
  }
  closedir(d);
}

static void fs_old_new_name(const char *of, char *name, size_t size) {
  snprintf(name, size, ".new-%s", of);
}

void fs_stageout_log_clean(struct fs_stageout_log *log) {
  char half[NAME_MAX + 8];
  for (uint32_t i = 0; i < log->olds; i++) {
    fs_log_lines(log->old[i].fd, fs_old_clean_dir, &(struct fs_old_cleaning){.log = log, .old = &log->old[i]});
    fs_old_new_name(log->old[i].name, half, sizeof(half));
    (void)unlinkat(log->dir, half, 0);
  }
}

/* ---- one log of many ---- */

/* Returns true if the line describes the present file. Over several logs, nobody knows which
   line for a name is the last. */
static bool fs_old_true(const struct fs_stageout_log *log, const struct fs_logged *e) {
  struct stat st;
  if (fstatat(log->out, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0) return errno != ENOENT && errno != ENOTDIR;
  return S_ISREG(st.st_mode) && (uint64_t)st.st_size == e->size && (uint64_t)st.st_mtim.tv_sec == e->mtime &&
         (uint64_t)st.st_mtim.tv_nsec == e->mtime_ns;
}

/* Writes a new log. Returns the number of its lines, or an error. */
static int64_t fs_old_write(const struct fs_stageout_log *log, const struct fs_log_table *t, FILE *to) {
  uint64_t end = fs_now_ns() + FS_OLD_LOOK_NS;
  struct fs_control_line l;
  int64_t n = 0;
  if (fs_control_begin(&l, "boot") < 0 || fs_control_add(&l, "id", log->boot) < 0 || fs_control_end(&l) < 0)
    return -ENOSPC;
  (void)fwrite(l.text, 1, l.len, to);
  for (uint32_t i = 0; i < FS_LOG_CHAINS; i++) {
    for (const struct fs_logged *e = t->chain[i]; e; e = e->next) {
      if ((fs_now_ns() < end && !fs_old_true(log, e)) || fs_log_line(&l, e->name, e) < 0) continue;
      (void)fwrite(l.text, 1, l.len, to);
      n++;
    }
  }
  return ferror(to) || fflush(to) != 0 || fsync(fileno(to)) < 0 ? -EIO : n;
}

/* Replaces this daemon's log by a new one, which is locked before it has its name. */
static fs_err fs_old_replace(struct fs_stageout_log *log, const struct fs_log_table *t) {
  char half[NAME_MAX + 8];
  fs_old_new_name(log->name, half, sizeof(half));
  int fd = openat(log->dir, half, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  FILE *to = fd < 0 ? NULL : fdopen(fd, "w");
  if (!to) {
    fs_err err = -errno;
    if (fd >= 0) close(fd);
    return err;
  }
  (void)flock(fd, LOCK_EX | LOCK_NB);
  int64_t lines = fs_old_write(log, t, to);
  fs_err err = lines < 0 ? (fs_err)lines : 0;
  if (lines > 0 && renameat(log->dir, half, log->dir, log->name) < 0) err = -errno;
  if (lines <= 0 || err < 0) (void)unlinkat(log->dir, half, 0);
  if (lines == 0) (void)unlinkat(log->dir, log->name, 0);
  log->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* the duplicate keeps the lock */
  fclose(to);
  return err == 0 && fsync(log->dir) < 0 ? -errno : err;
}

void fs_stageout_log_compact(struct fs_stageout_log *log) {
  struct fs_log_table *t = calloc(1, sizeof(*t));
  if (!t) return;
  fs_stageout_log_flush(log);
  for (uint32_t i = 0; i < log->olds; i++) fs_log_lines(log->old[i].fd, fs_log_remember, t);
  fs_log_lines(log->fd, fs_log_remember, t);
  if (t->count < FS_LOG_MOST && fs_old_replace(log, t) == 0) {
    for (uint32_t i = 0; i < log->olds; i++)
      if (!log->old[i].stays) (void)unlinkat(log->dir, log->old[i].name, 0);
  }
  for (uint32_t i = 0; i < FS_LOG_CHAINS; i++) {
    for (struct fs_logged *e = t->chain[i], *next; e; e = next) {
      next = e->next;
      free(e);
    }
  }
  free(t);
}
