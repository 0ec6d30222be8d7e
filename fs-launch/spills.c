/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spill directories (docs/output-files.md, section 3) that killed daemons have left in a local directory:
 * DIR/fanstore/spill-JOB-RANK, with emulated nodes DIR/fanstore-nodeK/... A daemon holds a lock on its own as long as
 * it lives. Removed at the end of the job, and by fs-launch clean when the job is over.
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "launch.h"

#define FS_SPILL_PREFIX "spill-"

bool fs_local_top(const char *name) {
  size_t n = strlen("fanstore-node");
  return strcmp(name, "fanstore") == 0 ||
         (strncmp(name, "fanstore-node", n) == 0 && name[n] && strspn(name + n, "0123456789") == strlen(name + n));
}

/* "spill-JOB-RANK" */
static bool job_of(const char *name, char *job, size_t size) {
  size_t n = strlen(FS_SPILL_PREFIX);
  const char *rank = strrchr(name, '-');
  if (strncmp(name, FS_SPILL_PREFIX "job-", n + 4) != 0 || strspn(rank + 1, "0123456789") != strlen(rank + 1) ||
      !rank[1])
    return false;
  int put = snprintf(job, size, "%.*s", (int)(rank - name) - (int)n, name + n);
  return put > 0 && (size_t)put < size;
}

/* Does anything of it run on this host? Its other daemons, or programs whose own daemon is dead. */
static bool job_lives(const char *job) {
  char run[PATH_MAX];
  return fs_run_dir(job, run, sizeof(run)) < 0 || fs_run_held(run) || fs_job_signal(job, run, true, 0) > 0;
}

static void remove_spill(int top, const char *top_path, const char *name, const char *job, bool tell) {
  char path[PATH_MAX], of[128], shown[512];
  struct stat st;
  int n = snprintf(path, sizeof(path), "%s/%s", top_path, name);
  if (!job_of(name, of, sizeof(of)) || (job && strcmp(job, of) != 0) || n < 0 || (size_t)n >= sizeof(path)) return;
  FS_AUTO_CLOSE int dir = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (dir < 0 || fstat(dir, &st) < 0 || st.st_uid != geteuid() || flock(dir, LOCK_EX | LOCK_NB) < 0) return;
  if (!job && job_lives(of)) return;
  fs_err err = fs_remove_tree(path);
  fs_shown(path, shown, sizeof(shown));
  if (err < 0)
    fs_say("%s: %s", shown, strerror(-err));
  else if (tell)
    fs_say("removed %s, left by a daemon that died", shown);
}

static void remove_below(int local, const char *local_path, const char *name, const char *job, bool tell) {
  char path[PATH_MAX];
  struct stat st;
  int n = snprintf(path, sizeof(path), "%s/%s", local_path, name);
  int fd = openat(local, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *d = fd >= 0 && n > 0 && (size_t)n < sizeof(path) && fstat(fd, &st) == 0 && st.st_uid == geteuid() ? fdopendir(fd)
                                                                                                         : NULL;
  for (const struct dirent *e; d && (e = readdir(d)) != NULL;) remove_spill(fd, path, e->d_name, job, tell);
  if (d)
    closedir(d);
  else if (fd >= 0)
    close(fd);
}

void fs_spills_remove(const char *local, const char *job, bool tell) {
  int fd = open(local, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *d = fd < 0 ? NULL : fdopendir(fd);
  if (!d && fd >= 0) close(fd);
  for (const struct dirent *e; d && (e = readdir(d)) != NULL;)
    if (fs_local_top(e->d_name)) remove_below(fd, local, e->d_name, job, tell);
  if (d) closedir(d);
}
