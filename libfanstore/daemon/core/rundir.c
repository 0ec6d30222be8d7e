/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's directories on this host: the run directory (ipc/node.h) with this node's lock and
 * socket, and the backing directory for outputs and materialised files. Both are locked while in
 * use. So the next daemon can tell what dead jobs have left, and removes it. A lock on the base
 * directory keeps starting, leaving and cleaning apart. The MPI thread calls this at the start, and
 * the thread that ends the process at the end. Every wait for a lock is bounded.
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "ipc/left.h"
#include "ipc/local.h"
#include "ipc/node.h"
#include "ipc/processes.h"
#include "ipc/rundir.h"
#include "util/dir.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_BASE_LOCK_NS 10000000000ull
#define FS_BASE_LEAVE_NS 500000000ull
#define FS_NODE_LOCK_NS 200000000ull /* a test whether a job lives holds its locks for a moment */
/* for programs that end with the daemon, as when a job is cancelled */
#define FS_PROGRAMS_NS 2000000000ull
/* seconds after which a run directory without a lock counts as dead */
#define FS_LOCKLESS_AGE 600

/* Opens a directory that must belong to this user alone. */
static fs_fd fs_rundir_open(int at, const char *path) {
  FS_AUTO_CLOSE int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat st;
  if (fd < 0) return -errno;
  if (fstat(fd, &st) < 0) return -errno;
  if (st.st_uid != geteuid()) return -EPERM;
  if ((st.st_mode & 077) != 0 && fchmod(fd, 0700) < 0) return -errno;
  return FS_MOVE_FD(fd);
}

static fs_err fs_rundir_flock(int fd, uint64_t wait_ns) {
  uint64_t end = fs_now_ns() + wait_ns;
  while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return -errno;
    if (fs_now_ns() >= end) return -ETIMEDOUT;
    usleep(5000);
  }
  return 0;
}

/* Makes, opens and locks a directory that others may remove at any moment while nobody holds its lock. */
static fs_fd fs_rundir_make_locked(const char *path, uint64_t wait_ns) {
  for (int tries = 0; tries < 100; tries++) {
    if (mkdir(path, 0700) < 0 && errno != EEXIST) return -errno;
    FS_AUTO_CLOSE int fd = fs_rundir_open(AT_FDCWD, path);
    if (fd == -ENOENT) continue;
    if (fd < 0) return fd;
    fs_err err = fs_rundir_flock(fd, wait_ns);
    if (err < 0) return err;
    if (fs_is_named(AT_FDCWD, path, fd)) return FS_MOVE_FD(fd);
  }
  return -ETIMEDOUT;
}

static bool fs_rundir_suffix(const char *name, const char *suffix) {
  size_t n = strlen(name), m = strlen(suffix);
  return n >= m && strcmp(name + n - m, suffix) == 0;
}

/* Returns true if a process of this run directory is alive, which then holds one of its locks. */
static bool fs_rundir_alive(int dirfd) {
  struct stat st;
  DIR *dir = fs_opendirat(dirfd, ".");
  if (!dir) return true;
  bool alive = false, locks = false;
  for (struct dirent *e; !alive && (e = readdir(dir)) != NULL;) {
    if (!fs_rundir_suffix(e->d_name, ".lock")) continue;
    locks = true;
    alive = fs_run_lock_held(dirfd, e->d_name) > 0;
  }
  closedir(dir);
  if (alive || fs_sys_fstat(dirfd, &st) < 0) return true;
  return fs_age_s(st.st_mtime) < (locks ? FS_RUN_YOUNG_S : FS_LOCKLESS_AGE);
}

/* Removes the run directories of dead jobs that have no program here. The caller has locked the
   base, so no daemon is between making its run directory and locking it. */
static void fs_rundir_clean(int base_fd, const char *base, const char *own) {
  DIR *dir = fs_opendirat(base_fd, ".");
  if (!dir) return;
  for (struct dirent *e; (e = readdir(dir)) != NULL;) {
    char path[PATH_MAX];
    if (!fs_run_is_job(base, e->d_name) || strcmp(e->d_name, own) == 0) continue;
    FS_AUTO_CLOSE int fd = fs_rundir_open(base_fd, e->d_name);
    if (fd < 0 || fs_rundir_alive(fd)) continue;
    if (snprintf(path, sizeof(path), "%s/%s", base, e->d_name) >= (int)sizeof(path)) continue;
    /* A job whose programs still run goes on without its daemon; its launcher, on another host,
       removes this. */
    if (fs_job_signal(e->d_name, path, false, 0) == 0) (void)fs_remove_tree(path);
  }
  closedir(dir);
}

/* Cleans another base directory, such as one used while this base's name belonged to somebody
   else. Does not wait for locks. */
static int fs_rundir_clean_other(void *ctx, const char *base) {
  const struct fs_daemon *d = ctx;
  size_t n = strlen(base);
  if (strncmp(d->run, base, n) == 0 && d->run[n] == '/') return 0;
  FS_AUTO_CLOSE int fd = fs_rundir_open(AT_FDCWD, base);
  if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) return 0;
  fs_rundir_clean(fd, base, d->cfg->job);
  (void)rmdir(base);
  return 0;
}

static fs_fd fs_rundir_lock(int dir, const char *name) {
  FS_AUTO_CLOSE int fd = openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return -errno;
  fs_err err = fs_rundir_flock(fd, FS_NODE_LOCK_NS);
  if (err < 0) return err == -ETIMEDOUT ? -EBUSY : err;
  return FS_MOVE_FD(fd);
}

static fs_fd fs_rundir_lock_node(const char *run, uint32_t rank) {
  char name[32];
  FS_AUTO_CLOSE int dir = fs_rundir_open(AT_FDCWD, run);
  if (dir < 0) return dir;
  snprintf(name, sizeof(name), "node-%u.lock", rank);
  return fs_rundir_lock(dir, name);
}

/* Returns the locked base directory of this job's run directory. A base that was just removed as
   empty may have become somebody else's; then the choice is made again. */
static fs_fd fs_rundir_base(const char *job, char *base, size_t size) {
  fs_fd fd = -EPERM;
  for (int tries = 0; tries < 10 && (fd == -EPERM || fd == -ENOTDIR || fd == -ELOOP); tries++) {
    fd = fs_run_base(job, base, size);
    if (fd == 0) fd = fs_rundir_make_locked(base, FS_BASE_LOCK_NS);
  }
  return fd;
}

fs_err fs_rundir_enter(struct fs_daemon *d, char *why, size_t why_size) {
  char base[PATH_MAX] = "";
  (void)fs_mkdirs(d->cfg->local_dir, 0700); /* it may be the base; staging reports a failure */
  FS_AUTO_CLOSE int base_fd = fs_rundir_base(d->cfg->job, base, sizeof(base));
  int n = snprintf(d->run, sizeof(d->run), "%s/%s", base, d->cfg->job);
  fs_err err = base_fd < 0 ? base_fd : 0;
  if (err == -ENAMETOOLONG || n >= (int)sizeof(d->run) ||
      fs_run_socket(d->run, d->net->rank, d->socket_path, sizeof(d->socket_path)) < 0) {
    snprintf(why, why_size, "the run directory's name is too long");
    return -ENAMETOOLONG;
  }
  if (err == 0) {
    fs_rundir_clean(base_fd, base, d->cfg->job);
    (void)fs_run_bases(fs_rundir_clean_other, d);
    if (mkdir(d->run, 0700) < 0 && errno != EEXIST) err = -errno;
  }
  if (err == 0) {
    d->lock_fd = fs_rundir_lock_node(d->run, d->net->rank);
    err = d->lock_fd < 0 ? d->lock_fd : 0;
  }
  if (err == -EBUSY)
    snprintf(why, why_size, "job %s has a daemon for node %u here already", d->cfg->job, d->net->rank);
  else if (err == -EPERM)
    snprintf(why, why_size, "%s: this belongs to somebody else", base);
  else if (err < 0)
    snprintf(why, why_size, "%s: %s", d->run, strerror(-err));
  return err;
}

/* Removes the contents of backing directories whose owners are dead, except outputs. */
static void fs_rundir_clean_backing_files(const char *parent) {
  DIR *dir = opendir(parent);
  if (!dir) return;
  for (struct dirent *e; (e = readdir(dir)) != NULL;) {
    char path[PATH_MAX];
    if (strncmp(e->d_name, FS_LOCAL_BACKING, strlen(FS_LOCAL_BACKING)) != 0) continue;
    FS_AUTO_CLOSE int fd = fs_rundir_open(dirfd(dir), e->d_name);
    uint64_t files, bytes;
    if (fd < 0 || fs_run_backing_held(fd, false) || !fs_is_named(dirfd(dir), e->d_name, fd)) continue;
    if (snprintf(path, sizeof(path), "%s/%s", parent, e->d_name) >= (int)sizeof(path)) continue;
    (void)(fs_left_count(fd, &files, &bytes) != 0 ? fs_left_strip(fd, path) : fs_remove_tree(path));
  }
  closedir(dir);
}

/*
 * Sets the flag by which ext4 spreads subdirectories. By default ext4 puts a directory near its
 * parent, and its files near it. Without a journal it then skips all inodes near there that were
 * freed in the last minutes, for each new file; outputs would wait for those of the last job. With
 * the flag on its parent, a directory goes where few are, depending on its name.
 */
static void fs_rundir_apart(int dir) {
  struct statfs fs;
  int flags = 0;
  if (fstatfs(dir, &fs) < 0 || fs.f_type != EXT4_SUPER_MAGIC || ioctl(dir, FS_IOC_GETFLAGS, &flags) < 0) return;
  flags |= FS_TOPDIR_FL;
  (void)ioctl(dir, FS_IOC_SETFLAGS, &flags);
}

/* Makes the directory of outputs, first under a name unique to the job, as the name decides its
   place on the disk. */
static fs_err fs_rundir_out(const struct fs_daemon *d) {
  char name[NAME_MAX + 1];
  fs_rundir_apart(d->backing_fd);
  int n = snprintf(name, sizeof(name), "%s-%s-%u", FS_OUTPUT_DIR, d->cfg->job, d->net->rank);
  if (n >= (int)sizeof(name)) return -ENAMETOOLONG;
  if (mkdirat(d->backing_fd, name, 0700) < 0) return -errno;
  if (renameat(d->backing_fd, name, d->backing_fd, FS_OUTPUT_DIR) == 0) return 0;
  fs_err err = errno == ENOTEMPTY || errno == EEXIST ? 0 : -errno;
  (void)unlinkat(d->backing_fd, name, AT_REMOVEDIR);
  return err;
}

/* Makes the directory in memory for copies that the backing directory has no room for. If that
   fails, there is no such room, and nothing depends on it. Another job that ends may remove the
   parents as empty. */
static void fs_rundir_memory(struct fs_daemon *d) {
  char base[PATH_MAX], parent[PATH_MAX], path[PATH_MAX];
  if (fs_memory_local(base, sizeof(base)) < 0 || fs_memory_backing(d->backing, path, sizeof(path)) < 0) return;
  int n = snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(path, '/') - path), path);
  for (int tries = 0; n > 0 && tries < 3 && d->memory_fd < 0; tries++) {
    if (mkdir(base, 0700) < 0 && errno != EEXIST) return;
    FS_AUTO_CLOSE int fd = fs_rundir_open(AT_FDCWD, base);
    if (fd < 0 && fd != -ENOENT) return; /* it belongs to somebody else */
    if (mkdir(parent, 0700) < 0 && errno != EEXIST) continue;
    fs_rundir_clean_backing_files(parent);
    d->memory_fd = fs_rundir_make_locked(path, FS_BASE_LEAVE_NS);
  }
}

static void fs_rundir_memory_leave(const struct fs_daemon *d) {
  char path[PATH_MAX];
  if (d->memory_fd < 0 || fs_memory_backing(d->backing, path, sizeof(path)) < 0) return;
  (void)fs_remove_tree(path);
  for (int up = 0; up < 2; up++) { /* the parents, if they are empty */
    *strrchr(path, '/') = '\0';
    if (rmdir(path) < 0) break;
  }
}

/* Replaces a path by the kernel's name for it (/proc/self/maps, /proc/self/fd), as programs
   compare the two. */
static fs_err fs_rundir_resolve(char *path, size_t size) {
  FS_AUTO_FREE char *real = realpath(path, NULL);
  if (!real) return -errno;
  return snprintf(path, size, "%s", real) < (int)size ? 0 : -ENAMETOOLONG;
}

fs_err fs_rundir_backing(struct fs_daemon *d, char *why, size_t why_size) {
  char parent[PATH_MAX];
  snprintf(parent, sizeof(parent), "%s", d->data[0].stage.local);
  char *slash = strrchr(parent, '/');
  if (!slash) return -EINVAL;
  *slash = '\0';
  fs_rundir_clean_backing_files(parent);
  int n = snprintf(d->backing, sizeof(d->backing), "%s/" FS_LOCAL_BACKING "%s-%u", parent, d->cfg->job, d->net->rank);
  fs_err err = n >= (int)sizeof(d->backing) ? -ENAMETOOLONG : 0;
  if (err == 0) {
    d->backing_fd = fs_rundir_make_locked(d->backing, FS_BASE_LEAVE_NS);
    err = d->backing_fd < 0 ? d->backing_fd : fs_rundir_resolve(d->backing, sizeof(d->backing));
  }
  if (err == 0) {
    d->backing_lock_fd = fs_rundir_lock(d->backing_fd, FS_BACKING_LOCK);
    err = d->backing_lock_fd < 0 ? d->backing_lock_fd : 0;
  }
  if (err == 0) err = fs_rundir_out(d);
  if (err == 0) fs_rundir_memory(d);
  if (err < 0) snprintf(why, why_size, "%s: %s", d->backing, strerror(-err));
  return err;
}

/* Returns true if programs of the job still run, though MPI has ended. They need what is here
   when they start others, and the launcher removes it later. If none runs, it is removed now:
   perhaps the launcher has gone, or cannot reach this host. */
static bool fs_rundir_programs(const struct fs_daemon *d) {
  uint64_t until = fs_now_ns() + FS_PROGRAMS_NS;
  while (fs_job_signal(d->cfg->job, d->run, false, 0) > 0) {
    if (fs_now_ns() >= until) return true;
    usleep(50000);
  }
  return false;
}

bool fs_rundir_leave(struct fs_daemon *d) {
  char base[PATH_MAX], lock[PATH_MAX];
  if (d->backing_fd >= 0)
    (void)(d->outputs_left ? fs_left_strip(d->backing_fd, d->backing) : fs_remove_tree(d->backing));
  fs_rundir_memory_leave(d);
  if (d->lock_fd < 0) return false;
  (void)unlink(d->socket_path);
  bool left = d->ctl && !atomic_load(&d->over) && fs_rundir_programs(d);
  snprintf(base, sizeof(base), "%.*s", (int)(strrchr(d->run, '/') - d->run), d->run);
  FS_AUTO_CLOSE int base_fd = fs_rundir_open(AT_FDCWD, base);
  if (base_fd >= 0) (void)fs_rundir_flock(base_fd, FS_BASE_LEAVE_NS);
  if (!left && fs_run_ctl(d->run, d->net->rank, lock, sizeof(lock)) > 0) (void)unlink(lock);
  if (snprintf(lock, sizeof(lock), "%s/node-%u.lock", d->run, d->net->rank) < (int)sizeof(lock)) (void)unlink(lock);
  (void)rmdir(d->run); /* fails unless this is the last daemon */
  (void)rmdir(base);
  return left;
}
