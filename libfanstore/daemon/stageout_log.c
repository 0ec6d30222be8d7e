/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DIR/.fanstore-staged: a file for each job and rank, a line for each copy that is complete, written after it has its
 * name. Those of earlier jobs are read at the start, so that what is there is not copied again. A line that is lost or
 * damaged costs a copy. Used by the thread that copies, after the start.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/stageout.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_LOG_DIR ".fanstore-staged"
#define FS_LOG_CHAINS 16384u
#define FS_LOG_MOST (1u << 20) /* lines that are remembered */

struct fs_logged {
  struct fs_logged *next;
  uint64_t size, mtime, mtime_ns, sum;
  char name[];
};

struct fs_stageout_log {
  int fd;
  char *text; /* lines that are still to be written */
  size_t len, room;
  uint32_t count;
  struct fs_logged *chain[FS_LOG_CHAINS];
};

static struct fs_logged **fs_log_chain(struct fs_stageout_log *log, const char *name) {
  return &log->chain[fs_xxh3(name, strlen(name)) % FS_LOG_CHAINS];
}

static void fs_log_line(struct fs_stageout_log *log, const char *text, size_t n) {
  struct fs_control c;
  if (fs_control_parse(text, n, &c) < 0 || strcmp(c.verb, "staged") != 0 || log->count >= FS_LOG_MOST) return;
  const char *name = fs_control_get(&c, "name");
  struct fs_logged *e = name ? malloc(sizeof(*e) + strlen(name) + 1) : NULL;
  if (!e) return;
  if (fs_control_get_u64(&c, "size", &e->size) < 0 || fs_control_get_u64(&c, "mtime", &e->mtime) < 0 ||
      fs_control_get_u64(&c, "ns", &e->mtime_ns) < 0 || fs_control_get_u64(&c, "xxh3", &e->sum) < 0) {
    free(e);
    return;
  }
  strcpy(e->name, name);
  struct fs_logged **chain = fs_log_chain(log, name);
  e->next = *chain;
  *chain = e;
  log->count++;
}

static void fs_log_read(struct fs_stageout_log *log, int dir, const char *name) {
  int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
  FS_AUTO_FREE char *line = NULL;
  size_t room = 0;
  if (!in) {
    if (fd >= 0) close(fd);
    return;
  }
  for (ssize_t n; (n = getline(&line, &room, in)) > 0;)
    if ((size_t)n < FS_CONTROL_LINE) fs_log_line(log, line, (size_t)n);
  fclose(in);
}

fs_err fs_stageout_log_open(struct fs_stageout_log **out, int dir, const char *name) {
  if (mkdirat(dir, FS_LOG_DIR, 0777) < 0 && errno != EEXIST) return -errno;
  int fd = openat(dir, FS_LOG_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return -errno;
  DIR *d = fdopendir(fd);
  struct fs_stageout_log *log = d ? calloc(1, sizeof(*log)) : NULL;
  if (!log) {
    if (d)
      closedir(d);
    else
      close(fd);
    return -ENOMEM;
  }
  for (const struct dirent *e; (e = readdir(d)) != NULL;)
    if (!fs_is_dot(e->d_name)) fs_log_read(log, fd, e->d_name);
  log->fd = openat(fd, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
  fs_err err = log->fd < 0 ? -errno : 0;
  closedir(d);
  *out = log;
  return err;
}

bool fs_stageout_log_find(const struct fs_stageout_log *log, const char *path, const struct stat *st, uint64_t *sum) {
  for (const struct fs_logged *e = *fs_log_chain((struct fs_stageout_log *)log, path); e; e = e->next) {
    if (strcmp(e->name, path) != 0 || e->size != (uint64_t)st->st_size || e->mtime != (uint64_t)st->st_mtim.tv_sec ||
        e->mtime_ns != (uint64_t)st->st_mtim.tv_nsec)
      continue;
    *sum = e->sum;
    return true;
  }
  return false;
}

void fs_stageout_log_flush(struct fs_stageout_log *log) {
  if (log->len == 0) return;
  (void)fs_write_full(log->fd, log->text, log->len);
  (void)fdatasync(log->fd);
  log->len = 0;
}

static bool fs_log_room(struct fs_stageout_log *log, size_t more) {
  if (log->len + more <= log->room) return true;
  size_t room = 2 * log->room + FS_CONTROL_LINE;
  char *grown = realloc(log->text, room);
  if (!grown) return false;
  log->text = grown;
  log->room = room;
  return true;
}

void fs_stageout_log_add(struct fs_stageout_log *log, const char *path, const struct fs_staged *s) {
  struct fs_control_line l;
  if (fs_control_begin(&l, "staged") < 0 || fs_control_add_u64(&l, "xxh3", s->sum) < 0 ||
      fs_control_add_u64(&l, "size", s->size) < 0 || fs_control_add_u64(&l, "mtime", (uint64_t)s->mtime.tv_sec) < 0 ||
      fs_control_add_u64(&l, "ns", (uint64_t)s->mtime.tv_nsec) < 0 || fs_control_add(&l, "name", path) < 0 ||
      fs_control_end(&l) < 0 || !fs_log_room(log, l.len))
    return;
  memcpy(log->text + log->len, l.text, l.len);
  log->len += l.len;
}
