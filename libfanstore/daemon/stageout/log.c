/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes and reads the logs of log.h. With --in-place a copy's line is written after the copy has
 * its name. A lost or damaged line costs only that the copy cannot be replaced.
 */
#include "daemon/stageout/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "util/dir.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_LOG_TRIES 100u
#define FS_LOG_PAUSE_US 5000u

/* ---- lines ---- */

void fs_log_lines(int fd, off_t *at, fs_log_line_fn *line, void *ctx) {
  int dup_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  FILE *in = dup_fd < 0 ? NULL : fdopen(dup_fd, "r");
  FS_AUTO_FREE char *text = NULL;
  size_t room = 0;
  struct fs_control c;
  if (!in) {
    if (dup_fd >= 0) close(dup_fd);
    return;
  }
  (void)fseeko(in, *at, SEEK_SET);
  for (ssize_t n; (n = getline(&text, &room, in)) > 0;) {
    if (text[n - 1] == '\n') *at += n;
    if ((size_t)n < FS_CONTROL_LINE && fs_control_parse(text, (size_t)n, &c) == 0) line(ctx, &c);
  }
  fclose(in);
}

static fs_err fs_log_parse(const struct fs_control *c, struct fs_logged *e, const char **name) {
  *name = fs_control_get(c, "name");
  bool whole = strcmp(c->verb, "staged") == 0 && *name && fs_control_get_u64(c, "size", &e->size) == 0 &&
               fs_control_get_u64(c, "mtime", &e->mtime) == 0 && fs_control_get_u64(c, "ns", &e->mtime_ns) == 0;
  return whole ? 0 : -EINVAL;
}

static fs_err fs_log_line(struct fs_control_line *l, const char *path, const struct fs_logged *e) {
  fs_err err = fs_control_begin(l, "staged");
  if (err == 0) err = fs_control_add_u64(l, "size", e->size);
  if (err == 0) err = fs_control_add_u64(l, "mtime", e->mtime);
  if (err == 0) err = fs_control_add_u64(l, "ns", e->mtime_ns);
  if (err == 0) err = fs_control_add(l, "name", path);
  return err == 0 ? fs_control_end(l) : err;
}

/* ---- what is remembered ---- */

static struct fs_logged **fs_log_chain(const struct fs_log_table *t, const char *name) {
  return (struct fs_logged **)(uintptr_t)&t->chain[fs_xxh3(name, strlen(name)) % FS_LOG_CHAINS];
}

static bool fs_log_same(const struct fs_logged *a, const struct fs_logged *b) {
  return a->size == b->size && a->mtime == b->mtime && a->mtime_ns == b->mtime_ns;
}

/* Several lines for one name are remembered: which one describes the present file is not known
   yet. */
void fs_log_remember(void *ctx, const struct fs_control *c) {
  struct fs_log_table *t = ctx;
  struct fs_logged line;
  const char *name;
  if (fs_log_parse(c, &line, &name) < 0) return;
  struct fs_logged **chain = fs_log_chain(t, name), *e = *chain;
  while (e && (strcmp(e->name, name) != 0 || !fs_log_same(e, &line))) e = e->next;
  if (e || t->count >= FS_LOG_MOST || (e = malloc(sizeof(*e) + strlen(name) + 1)) == NULL) return;
  *e = line;
  strcpy(e->name, name);
  e->next = *chain;
  *chain = e;
  t->count++;
}

bool fs_log_table_find(const struct fs_log_table *t, const char *path, const struct stat *st) {
  for (const struct fs_logged *e = *fs_log_chain(t, path); e; e = e->next) {
    if (strcmp(e->name, path) == 0 && e->size == (uint64_t)st->st_size && e->mtime == (uint64_t)st->st_mtim.tv_sec &&
        e->mtime_ns == (uint64_t)st->st_mtim.tv_nsec)
      return true;
  }
  return false;
}

/* ---- opening ---- */

static void fs_log_boot(char boot[FS_LOG_BOOT_SIZE]) {
  FS_AUTO_CLOSE int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  fs_ssize n = fd < 0 ? 0 : fs_sys_read(fd, boot, FS_LOG_BOOT_SIZE - 1);
  boot[FS_MAX(n, 0)] = '\0';
  boot[strcspn(boot, "\n")] = '\0';
}

/* Creates this daemon's log. The line with the boot id is written only if the lock is held:
   without that line nobody takes a free lock for the daemon's death. */
static fs_err fs_log_create(struct fs_stageout_log *log) {
  struct fs_control_line l;
  struct stat st;
  FS_AUTO_CLOSE int fd = openat(log->dir, log->name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) return -errno;
  bool locked = false; /* other daemons may hold the lock for a moment to test it */
  for (unsigned i = 0; !locked && i < FS_LOG_TRIES; i++) {
    locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno != EWOULDBLOCK) break;
    if (!locked) usleep(FS_LOG_PAUSE_US);
  }
  fs_log_boot(log->boot);
  if (locked && log->boot[0] && fs_control_begin(&l, "boot") == 0 && fs_control_add(&l, "id", log->boot) == 0 &&
      fs_control_end(&l) == 0)
    (void)fs_write_full(fd, l.text, l.len);
  if (futimens(fd, NULL) < 0 || fstat(fd, &st) < 0) return -errno;
  log->now = st.st_mtim.tv_sec;
  log->fd = FS_MOVE_FD(fd);
  return 0;
}

static void fs_log_adopt_all(struct fs_stageout_log *log) {
  DIR *d = fs_opendirat(log->dir, ".");
  for (const struct dirent *e; d && (e = readdir(d)) != NULL;)
    if (e->d_name[0] != '.' && strcmp(e->d_name, log->name) != 0) fs_log_adopt(log, e->d_name);
  if (d) closedir(d);
}

static fs_err fs_log_directory(struct fs_stageout_log *log) {
  if (mkdirat(log->out, FS_LOG_DIR, 0777) < 0 && errno != EEXIST) return -errno;
  FS_AUTO_CLOSE int dir = openat(log->out, FS_LOG_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (dir < 0) return -errno;
  log->dir = dir;
  fs_err err = fs_log_create(log);
  if (err == 0)
    log->dir = FS_MOVE_FD(dir);
  else
    (void)unlinkat(log->out, FS_LOG_DIR, AT_REMOVEDIR); /* fails if it is not empty */
  return err;
}

fs_err fs_stageout_log_open(struct fs_stageout_log **out, int dir, const char *name) {
  struct fs_stageout_log *log = calloc(1, sizeof(*log));
  *out = NULL;
  if (!log || (log->name = strdup(name)) == NULL) {
    free(log);
    return -ENOMEM;
  }
  log->out = dir;
  fs_err err = -ENOENT; /* another job may remove the empty directory at this moment (old.c) */
  for (unsigned i = 0; (err == -ENOENT || err == -ESTALE) && i < FS_LOG_TRIES; i++) err = fs_log_directory(log);
  if (err < 0) {
    free(log->name);
    free(log);
    return err;
  }
  fs_log_adopt_all(log);
  *out = log; /* for the life of the process */
  return 0;
}

/* ---- writing ---- */

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
  struct fs_logged e = {.size = s->size, .mtime = (uint64_t)s->mtime.tv_sec, .mtime_ns = (uint64_t)s->mtime.tv_nsec};
  if (fs_log_line(&l, path, &e) < 0 || !fs_log_room(log, l.len)) return;
  memcpy(log->text + log->len, l.text, l.len);
  log->len += l.len;
}

/* Returns true if the directory has no line yet, and remembers it. */
static bool fs_log_new_dir(struct fs_stageout_log *log, uint64_t hash) {
  if (fs_table_find(&log->made_in, hash)) return false;
  struct fs_table_link *l = malloc(sizeof(*l)); /* without memory the line is only written again */
  if (l) fs_table_add(&log->made_in, l, hash);
  return true;
}

const char *fs_stageout_log_name(const struct fs_stageout_log *log) {
  return log->name;
}

void fs_stageout_log_dir(struct fs_stageout_log *log, const char *path) {
  struct fs_control_line l;
  char dir[PATH_MAX];
  const char *slash = strrchr(path, '/');
  snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
  if (fs_log_new_dir(log, fs_xxh3(dir, strlen(dir))) && fs_control_begin(&l, "dir") == 0 &&
      fs_control_add(&l, "name", dir) == 0 && fs_control_end(&l) == 0)
    (void)fs_write_full(log->fd, l.text, l.len);
}
