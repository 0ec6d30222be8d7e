/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cleans up what dead daemons have left in DIR (log.h). Their unnamed copies are removed, and if
 * the job ends well, their logs, too.
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

#define FS_OLD_MOST 256u   /* logs that one daemon takes over; later jobs take the rest */
#define FS_OLD_LOG_S 86400 /* age of a dead daemon's log from another kernel */
#define FS_OLD_COPY_S 3600 /* age of its copies */

/* ---- whose it is ---- */

static void fs_old_boot(void *ctx, const struct fs_control *c) {
  char *boot = ctx;
  const char *id = strcmp(c->verb, "boot") == 0 ? fs_control_get(c, "id") : NULL;
  if (id) snprintf(boot, FS_LOG_BOOT_SIZE, "%s", id);
}

void fs_log_adopt(struct fs_stageout_log *log, const char *name) {
  char boot[FS_LOG_BOOT_SIZE] = "";
  off_t at = 0;
  struct stat st, there;
  FS_AUTO_CLOSE int fd = openat(log->dir, name, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0 || log->olds >= FS_OLD_MOST || flock(fd, LOCK_EX | LOCK_NB) < 0) return;
  if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || fstatat(log->dir, name, &there, AT_SYMLINK_NOFOLLOW) < 0 ||
      there.st_ino != st.st_ino)
    return; /* another daemon has just removed it */
  fs_log_lines(fd, &at, fs_old_boot, boot);
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

void fs_stageout_log_clean(struct fs_stageout_log *log) {
  for (uint32_t i = 0; i < log->olds; i++) {
    off_t at = 0;
    fs_log_lines(log->old[i].fd, &at, fs_old_clean_dir, &(struct fs_old_cleaning){.log = log, .old = &log->old[i]});
  }
}

/* ---- the end ---- */

void fs_stageout_log_end(struct fs_stageout_log *log) {
  for (uint32_t i = 0; i < log->olds; i++)
    if (!log->old[i].stays) (void)unlinkat(log->dir, log->old[i].name, 0);
  (void)unlinkat(log->dir, log->name, 0);
  (void)unlinkat(log->out, FS_LOG_DIR, AT_REMOVEDIR); /* stays while another daemon has a log there */
}
