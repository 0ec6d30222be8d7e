/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks whether a file in the directory is still the copy that this daemon made (stageout.h).
 * Other daemons, of this job and of others, put their files there, too.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/stageout/stageout.h"
#include "util/dir.h"
#include "util/util.h"

bool fs_staged_look(int dir, const char *path, struct statx *there) {
  int flags = AT_SYMLINK_NOFOLLOW | (path[0] == '\0' ? AT_EMPTY_PATH : 0);
  return statx(dir, path, flags, STATX_BASIC_STATS | STATX_BTIME, there) == 0;
}

struct timespec fs_staged_born(const struct statx *there) {
  return there->stx_mask & STATX_BTIME ? fs_statx_time(there->stx_btime) : (struct timespec){0};
}

static bool known(struct timespec t) {
  return t.tv_sec != 0 || t.tv_nsec != 0;
}

/*
 * Returns true if `there` is the copy that was made. A file system may give the inode of a replaced
 * file to a file that is made a moment later and usually is as large. So the birth time is
 * compared, too. If that is unknown, the ctime is compared, which is the time when the copy got its
 * name; this is impossible if it has just been `renamed`. For a staged-in file the mtime is
 * compared.
 */
static bool fs_staged_is(const struct fs_staged *s, const struct statx *there, bool renamed) {
  struct timespec born = fs_staged_born(there);
  if (there->stx_ino != s->ino || there->stx_size != s->size) return false;
  if (known(s->born) && known(born)) return fs_same_time(s->born, born);
  if (known(s->moved)) return renamed || fs_same_time(s->moved, fs_statx_time(there->stx_ctime));
  return fs_same_time(s->mtime, fs_statx_time(there->stx_mtime));
}

bool fs_staged_there(int dir, const struct fs_staged *s) {
  struct statx there;
  return s->path && fs_staged_look(dir, s->path, &there) && fs_staged_is(s, &there, false);
}

void fs_staged_named(int dir, struct fs_staged *s) {
  struct statx there;
  if (!fs_staged_look(dir, s->path, &there) || !fs_staged_is(s, &there, true)) return;
  s->born = fs_staged_born(&there);
  s->moved = fs_statx_time(there.stx_ctime);
}

/* Gives a file its name back, unless the name has been given to another file meanwhile. */
static void put_back(int dir, const char *away, const char *path) {
  fs_err err = fs_rename_new(dir, away, path);
  if (err == -EEXIST)
    (void)unlinkat(dir, away, 0);
  else if (err < 0)
    /* the file system can do neither, such as NFS without hard links */
    (void)renameat(dir, away, dir, path);
}

/* Another program may have put its own file where the copy was, just before the rename. */
fs_err fs_staged_moved(int dir, const struct fs_staged *s, const char *path) {
  struct statx there;
  if (!fs_staged_look(dir, path, &there) || fs_staged_is(s, &there, true)) return 0;
  put_back(dir, path, s->path);
  return -EAGAIN;
}

void fs_staged_prune(int dir, const char *path) {
  char parent[PATH_MAX];
  snprintf(parent, sizeof(parent), "%s", path);
  for (char *slash; (slash = strrchr(parent, '/')) != NULL;) {
    *slash = '\0';
    if (unlinkat(dir, parent, AT_REMOVEDIR) < 0) return;
  }
}

/* Another node may put a newer file there at the same moment. So the file is moved away first,
   then checked, and put back if it is not the copy. */
void fs_staged_remove(int dir, const struct fs_staged *s) {
  const char *slash = strrchr(s->path, '/');
  FS_AUTO_FREE char *away = NULL;
  struct statx there;
  int n = asprintf(&away, "%.*s.fanstore-gone-%llx", slash ? (int)(slash - s->path) + 1 : 0, s->path,
                   (unsigned long long)s->ino);
  if (n < 0 || renameat(dir, s->path, dir, away) < 0) return;
  if (fs_staged_look(dir, away, &there) && !fs_staged_is(s, &there, true))
    put_back(dir, away, s->path);
  else
    (void)unlinkat(dir, away, 0);
}
