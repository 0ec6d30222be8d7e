/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The directory with a dataset's copies on one node: makes, opens and locks it, and removes
 * fragments. Locks are flock()s, so the kernel drops them when their holder dies. A lock counts
 * only on the file that is still in the directory: a purge removes both, so a waiter checks again.
 */
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "daemon/staging/dir.h"
#include "util/dir.h"
#include "util/sys.h"

#define FS_STAGE_POLL_NS 20000000l /* pause between two tries to get .staging */
/* wait for .staging without a growing temporary file */
#define FS_STAGE_PATIENCE_NS (60ull * 1000000000)

fs_err fs_stage_why(fs_err err, char *why, size_t why_size, const char *dir, const char *what) {
  char shown[512];
  if (why_size == 0 || why[0] != '\0') return err;
  fs_printable(dir, strlen(dir), shown, sizeof(shown));
  if (what)
    snprintf(why, why_size, "%s/%s: %s", shown, what, strerror(-err));
  else
    snprintf(why, why_size, "%s: %s", shown, strerror(-err));
  return err;
}

/* Opens a directory that must be this user's, and makes it if it is missing. */
static fs_fd stage_own_dir(int at, const char *name, const char *shown, char *why, size_t why_size) {
  struct stat st;
  if (mkdirat(at, name, 0700) < 0 && errno != EEXIST) return fs_stage_why(-errno, why, why_size, shown, NULL);
  FS_AUTO_CLOSE int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return fs_stage_why(-errno, why, why_size, shown, NULL);
  if (fstat(fd, &st) < 0) return fs_stage_why(-errno, why, why_size, shown, NULL);
  if (st.st_uid != geteuid()) {
    snprintf(why, why_size, "%s belongs to another user: give --local-dir a directory of your own", shown);
    return -EACCES;
  }
  if ((st.st_mode & 077) != 0) fchmod(fd, 0700);
  return FS_MOVE_FD(fd);
}

#define FS_STAGE_DIR_TRIES 100u

static fs_fd stage_dir_open(const char *root, const char *local, char *why, size_t why_size) {
  char node[64], shown[512];
  const char *id = strrchr(local, '/') + 1, *mid_name = id - 1;
  struct stat st;
  while (mid_name > local && mid_name[-1] != '/') mid_name--;
  snprintf(node, sizeof(node), "%.*s", (int)(id - 1 - mid_name), mid_name);
  fs_err err = fs_mkdirs(root, 0700);
  if (err < 0) return fs_stage_why(err, why, why_size, root, NULL);
  FS_AUTO_CLOSE int top = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (top < 0 || fstat(top, &st) < 0) return fs_stage_why(-errno, why, why_size, root, NULL);
  fs_printable(root, strlen(root), shown, sizeof(shown));
  bool others = st.st_uid != geteuid() && st.st_uid != 0;
  if (lstat(root, &st) == 0 && S_ISLNK(st.st_mode)) others = others || (st.st_uid != geteuid() && st.st_uid != 0);
  if (others) {
    snprintf(why, why_size, "%s belongs to another user: give --local-dir a directory of your own", shown);
    return -EACCES;
  }
  FS_AUTO_CLOSE int mid = stage_own_dir(top, node, shown, why, why_size);
  if (mid < 0) return mid;
  return stage_own_dir(mid, id, shown, why, why_size);
}

/* A cleaner removes empty directories, perhaps one that was made a moment ago; so this tries
   again. */
fs_fd fs_stage_dir_open(const char *root, const char *local, char *why, size_t why_size) {
  fs_fd fd = -ENOENT;
  for (unsigned tries = 0; fd == -ENOENT && tries < FS_STAGE_DIR_TRIES; tries++) {
    if (why_size > 0) why[0] = '\0';
    fd = stage_dir_open(root, local, why, why_size);
  }
  return fd;
}

static fs_fd stage_lock_open(int dir, const char *name) {
  int fd = openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  return fd < 0 ? (errno == ENOENT ? -ESTALE : -errno) : fd;
}

fs_fd fs_stage_lock_use(int dir) {
  for (unsigned tries = 0; tries < 500; tries++) {
    FS_AUTO_CLOSE int fd = stage_lock_open(dir, FS_STAGE_LOCK);
    if (fd < 0) return fd;
    if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
      if (fs_is_named(dir, FS_STAGE_LOCK, fd)) return FS_MOVE_FD(fd);
      continue;
    }
    if (errno != EWOULDBLOCK && errno != EINTR) return -errno;
    /* a purge holds it, and will be done soon */
    nanosleep(&(struct timespec){.tv_nsec = FS_STAGE_POLL_NS}, NULL);
  }
  return -EBUSY;
}

/* Returns a value that changes as long as the holder of .staging copies: made of the sizes and
   times of temporary files. */
static uint64_t stage_activity(int dir) {
  uint64_t sum = 0;
  DIR *d = fs_opendirat(dir, ".");
  if (!d) return 0;
  for (const struct dirent *e; (e = readdir(d)) != NULL;) {
    struct stat st;
    if (strncmp(e->d_name, FS_STAGE_NEW, sizeof(FS_STAGE_NEW) - 1) != 0) continue;
    if (fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) continue;
    sum = sum * 31 + (uint64_t)st.st_ino + (uint64_t)st.st_mtim.tv_sec + (uint64_t)st.st_mtim.tv_nsec;
  }
  closedir(d);
  return sum;
}

fs_fd fs_stage_lock_staging(int dir, fs_stage_progress_fn *progress, void *ctx) {
  uint64_t seen = 0, since = fs_now_ns();
  for (unsigned tries = 0;; tries++) {
    FS_AUTO_CLOSE int fd = stage_lock_open(dir, FS_STAGE_STAGING);
    if (fd < 0) return fd;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
      if (fs_is_named(dir, FS_STAGE_STAGING, fd)) return FS_MOVE_FD(fd);
      continue;
    }
    if (errno != EWOULDBLOCK && errno != EINTR) return -errno;
    if (tries % 50 == 0) {
      uint64_t now = fs_now_ns(), activity = stage_activity(dir);
      if (activity != seen) since = now;
      seen = activity;
      if (now - since > FS_STAGE_PATIENCE_NS) return -EBUSY;
      fs_err err = progress ? progress(ctx, 0) : 0;
      if (err < 0) return err;
    }
    nanosleep(&(struct timespec){.tv_nsec = FS_STAGE_POLL_NS}, NULL);
  }
}

void fs_stage_sweep(int dir) {
  DIR *d = fs_opendirat(dir, ".");
  if (!d) return;
  for (const struct dirent *e; (e = readdir(d)) != NULL;)
    if (strncmp(e->d_name, FS_STAGE_NEW, sizeof(FS_STAGE_NEW) - 1) == 0) unlinkat(dir, e->d_name, 0);
  closedir(d);
}
