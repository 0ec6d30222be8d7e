/* SPDX-License-Identifier: BSD-3-Clause */
/* See rundir.h. No state; what it finds may be gone a moment later, and who opens it looks whose it is. */
#include "ipc/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "ipc/local.h"
#include "ipc/node.h"
#include "util/util.h"

struct run_wanted {
  const char *job;
  char *base;
  size_t size;
};

static int run_has(void *ctx, const char *base) {
  const struct run_wanted *w = ctx;
  char path[PATH_MAX];
  int n = snprintf(path, sizeof(path), "%s/%s", base, w->job);
  if (n < 0 || (size_t)n >= sizeof(path) || strlen(base) >= w->size || !fs_own_is(path, false)) return 0;
  memcpy(w->base, base, strlen(base) + 1);
  return 1;
}

fs_ssize fs_run_find(const char *job, char *out, size_t size) {
  char base[PATH_MAX] = "";
  if (fs_run_bases(run_has, &(struct run_wanted){job, base, sizeof(base)}) <= 0) return fs_run_dir(job, out, size);
  int n = snprintf(out, size, "%s/%s", base, job);
  return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : n;
}

fs_err fs_run_base(const char *job, char *out, size_t size) {
  char path[PATH_MAX];
  if (job && fs_run_bases(run_has, &(struct run_wanted){job, out, size}) > 0) return 0;
  fs_ssize n = fs_run_dir(NULL, path, sizeof(path));
  return n < 0 ? (fs_err)n : fs_own_get(path, false, out, size);
}

int fs_run_bases(fs_own_fn *fn, void *ctx) {
  char path[PATH_MAX];
  fs_ssize n = fs_run_dir(NULL, path, sizeof(path));
  return n < 0 ? (int)n : fs_own_each(path, false, fn, ctx);
}

bool fs_run_is_job(const char *base, const char *name) {
  char path[PATH_MAX];
  if (name[0] == '.') return false;
  if (fs_run_dir(NULL, path, sizeof(path)) > 0 && strcmp(path, base) == 0) return true;
  return strncmp(name, "job-", 4) == 0;
}

/* Open for writing: NFS lets nobody lock a file who only reads it. */
int fs_run_lock_held(int dir, const char *name) {
  FS_AUTO_CLOSE int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? -ENOENT : 1;
  return flock(fd, LOCK_EX | LOCK_NB) < 0;
}

bool fs_run_spill_held(int dir, bool over) {
  struct stat st;
  if (flock(dir, LOCK_EX | LOCK_NB) < 0) return true;
  int held = fs_run_lock_held(dir, FS_SPILL_LOCK);
  if (held >= 0 || over) return held > 0;
  return fstat(dir, &st) < 0 || time(NULL) - st.st_mtime < FS_RUN_YOUNG_S;
}
