/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds and makes run directories, and checks their locks (rundir.h). The only state is the local
   directory. A path that is returned may disappear at any time, and whoever opens it checks its
   owner. */
#include "ipc/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "ipc/local.h"
#include "ipc/node.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_RUN_PLACES 4
#define FS_RUN_SUFFIX 7 /* ".XXXXXX" */

static const char *run_local;

void fs_run_prefer(const char *local) {
  run_local = local && local[0] == '/' ? local : NULL;
}

/* ---- the places ---- */

struct run_places {
  const char *path[FS_RUN_PLACES];
  unsigned n;
};

static void places_add(struct run_places *p, const char *path) {
  if (!path || path[0] != '/') return;
  for (unsigned i = 0; i < p->n; i++)
    if (strcmp(p->path[i], path) == 0) return;
  p->path[p->n++] = path;
}

static const char *run_chosen(void) {
  const char *chosen = getenv(FS_ENV_RUN_BASE);
  return chosen && chosen[0] == '/' ? chosen : NULL;
}

static struct run_places run_places(void) {
  struct run_places p = {.n = 0};
  if (run_chosen()) {
    places_add(&p, run_chosen());
    return p;
  }
  places_add(&p, run_local);
  places_add(&p, getenv("TMPDIR"));
  places_add(&p, "/dev/shm");
  places_add(&p, "/tmp");
  return p;
}

/* Returns true if `path` is `top` or below it. Follows symlinks in both. */
static bool run_below(const char *path, const char *top) {
  char a[PATH_MAX], b[PATH_MAX];
  if (!realpath(path, a) || !realpath(top, b)) return false;
  size_t n = strlen(b);
  return strncmp(a, b, n) == 0 && (a[n] == '/' || a[n] == '\0');
}

/* Returns true for a file system that is known to be local. Others may be shared by hosts or lack
   sockets. */
static bool run_is_local(const char *path) {
  static const unsigned long kinds[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,       BTRFS_SUPER_MAGIC, TMPFS_MAGIC,
                                        F2FS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, 0x2fc12fc1 /* ZFS */};
  struct statfs fs;
  if (statfs(path, &fs) < 0) return false;
  for (size_t i = 0; i < FS_ARRAY_LEN(kinds); i++)
    if ((unsigned long)fs.f_type == kinds[i]) return true;
  return false;
}

/* Returns true if no other user can rename what this user makes in this directory. */
static bool run_is_safe(const char *path) {
  struct stat st;
  if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0)) return false;
  return (st.st_mode & 022) == 0 || (st.st_mode & S_ISVTX) != 0;
}

/* Returns the size of a socket's path in this place, with its NUL. */
static size_t run_socket_size(const char *place, const char *job) {
  char name[PATH_MAX];
  fs_ssize n = fs_run_name(place, name, sizeof(name));
  return n < 0 ? PATH_MAX : (size_t)n + 1 + strlen(job) + sizeof("/node-4095.sock");
}

static bool run_fits(const char *place, const char *job) {
  return run_socket_size(place, job) + FS_RUN_SUFFIX <= sizeof(((struct sockaddr_un *)0)->sun_path) &&
         run_is_local(place) && run_is_safe(place) && !run_below(place, "/tmp") && !run_below(place, "/var/tmp");
}

/* ---- a job's ---- */

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
  if (fs_run_bases(run_has, &(struct run_wanted){job, base, sizeof(base)}) <= 0) {
    struct run_places p = run_places();
    fs_ssize err = fs_run_name(p.path[0], base, sizeof(base));
    if (err < 0) return err;
  }
  int n = snprintf(out, size, "%s/%s", base, job);
  return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : n;
}

static fs_err run_take(const char *place, char *out, size_t size) {
  char name[PATH_MAX];
  fs_ssize n = fs_run_name(place, name, sizeof(name));
  fs_err err = n < 0 ? (fs_err)n : fs_own_get(name, false, out, size);
  if (err < 0) snprintf(out, size, "%s", place);
  return err;
}

fs_err fs_run_base(const char *job, char *out, size_t size) {
  struct run_places p = run_places();
  fs_err err = -ENAMETOOLONG;
  if (fs_run_bases(run_has, &(struct run_wanted){job, out, size}) > 0) return 0;
  snprintf(out, size, "%s", p.path[0]);
  if (run_chosen()) return run_take(p.path[0], out, size);
  for (unsigned i = 0; i < p.n; i++)
    if (run_fits(p.path[i], job) && (err = run_take(p.path[i], out, size)) == 0) return 0;
  for (unsigned i = 0; i < p.n; i++) {
    bool last = strcmp(p.path[i], "/dev/shm") != 0 && p.path[i] != run_local;
    if (!last || run_socket_size(p.path[i], job) > sizeof(((struct sockaddr_un *)0)->sun_path)) continue;
    if ((err = run_take(p.path[i], out, size)) == 0) return 0;
  }
  return err;
}

int fs_run_bases(fs_own_fn *fn, void *ctx) {
  struct run_places p = run_places();
  char name[PATH_MAX];
  int stop = 0;
  for (unsigned i = 0; i < p.n && stop == 0; i++)
    if (fs_run_name(p.path[i], name, sizeof(name)) > 0) stop = fs_own_each(name, false, fn, ctx);
  return stop;
}

bool fs_run_is_job(const char *base, const char *name) {
  char path[PATH_MAX];
  const char *tmp = getenv("TMPDIR"), *place = run_chosen();
  if (name[0] == '.' || strcmp(name, FS_MEMORY_LOCAL) == 0) return false;
  if (!place) place = tmp && tmp[0] == '/' ? tmp : "/tmp";
  if (fs_run_name(place, path, sizeof(path)) > 0 && strcmp(path, base) == 0) return true;
  return strncmp(name, "job-", 4) == 0;
}

/* Opens the file for writing, because NFS refuses locks on files that are open only for reading. */
int fs_run_lock_held(int dir, const char *name) {
  FS_AUTO_CLOSE int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? -ENOENT : 1;
  return flock(fd, LOCK_EX | LOCK_NB) < 0;
}

bool fs_run_backing_held(int dir, bool over) {
  struct stat st;
  if (flock(dir, LOCK_EX | LOCK_NB) < 0) return true;
  int held = fs_run_lock_held(dir, FS_BACKING_LOCK);
  if (held >= 0 || over) return held > 0;
  return fs_sys_fstat(dir, &st) < 0 || fs_age_s(st.st_mtime) < FS_RUN_YOUNG_S;
}
