/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes and removes the run directory of a job on this host, and sweeps those of dead jobs. A run
 * directory is alive while one of its lock files is locked: launch.lock by fs-launch,
 * node-<rank>.lock by each daemon.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/un.h>
#include <unistd.h>

#include "launch.h"
#include "util/dir.h"
#include "util/own.h"

#define FS_RUN_TRIES 20

static int run_base(struct fs_launch *l, char *base, size_t size) {
  char name[PATH_MAX], plain[64];
  fs_err err = fs_run_base(l->job, base, size);
  if (err < 0) {
    fs_say("run directory in %s: %s", base, strerror(-err));
    return FS_EXIT_FAILED;
  }
  int n = (int)(strrchr(base, '/') - base), m = (int)fs_run_name("", plain, sizeof(plain));
  snprintf(name, sizeof(name), "%.*s", n + m, base); /* without the suffix */
  fs_warn_taken(l, name, base);
  FS_AUTO_CLOSE int fd = open(base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat st;
  if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 077) != 0) (void)fchmod(fd, 0700);
  return 0;
}

/* Makes a job name that no other job has, on any host that may share the directory. */
static void run_name(char *job, size_t size) {
  char host[64] = "";
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  gethostname(host, sizeof(host) - 1);
  for (char *p = host; *p; p++)
    if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-", *p)) *p = '-';
  snprintf(job, size, "job-%.20s-%d-%llx%05lx", host, (int)getpid(), (unsigned long long)now.tv_sec,
           (unsigned long)now.tv_nsec / 1000);
}

static fs_err run_make(struct fs_launch *l) {
  char path[PATH_MAX + 16];
  if (mkdir(l->run, 0700) < 0) return -errno;
  snprintf(path, sizeof(path), "%s/launch.lock", l->run);
  l->run_lock = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (l->run_lock < 0) return -errno;
  if (flock(l->run_lock, LOCK_EX | LOCK_NB) == 0) return 0;
  fs_err err = -errno;
  close(l->run_lock);
  l->run_lock = -1;
  (void)unlink(path);
  (void)rmdir(l->run);
  return err;
}

int fs_run_create(struct fs_launch *l) {
  char base[PATH_MAX];
  fs_err err = 0;
  for (int tries = 0; tries < FS_RUN_TRIES; tries++) {
    run_name(l->job, sizeof(l->job));
    int status = run_base(l, base, sizeof(base));
    if (status != 0) return status;
    int n = snprintf(l->run, sizeof(l->run), "%s/%s", base, l->job);
    if (n < 0 || (size_t)n + sizeof("/node-4095.sock") > sizeof(((struct sockaddr_un *)0)->sun_path)) {
      fs_say("the run directory's name is too long for a socket: set " FS_ENV_RUN_BASE " to a shorter path");
      return FS_EXIT_FAILED;
    }
    err = run_make(l);
    /* Another job's end has just removed the base, or a sweep examines our lock: try again. */
    if (err != -ENOENT && err != -EWOULDBLOCK) break;
    usleep(10000);
  }
  if (err == 0) return 0;
  fs_say("run directory %s: %s", l->run, strerror(-err));
  return FS_EXIT_FAILED;
}

void fs_run_remove(const char *run) {
  char base[PATH_MAX];
  if (run[0] == '\0') return;
  fs_remove_tree(run);
  snprintf(base, sizeof(base), "%.*s", (int)(strrchr(run, '/') - run), run);
  rmdir(base); /* stays while other jobs exist */
}

void fs_session_remove(pid_t mpirun) {
  char path[PATH_MAX], host[256] = "";
  const char *base = getenv("TMPDIR");
  struct stat st;
  gethostname(host, sizeof(host) - 1);
  int n = snprintf(path, sizeof(path), "%s/ompi.%s.%u/pid.%d", base && base[0] ? base : "/tmp", host,
                   (unsigned)geteuid(), (int)mpirun);
  if (mpirun <= 0 || n < 0 || (size_t)n >= sizeof(path)) return;
  if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || fs_process_alive(mpirun)) return;
  char *slash = strrchr(path, '/');
  *slash = '\0';
  if (!fs_own_is(path, false)) return;
  *slash = '/';
  fs_remove_tree(path);
  *slash = '\0';
  rmdir(path); /* stays while another MPI job is there */
}

struct run_state {
  bool launcher, launcher_held, node_held;
  time_t newest;
};

static void run_look(int dir, struct run_state *s) {
  DIR *d = fs_opendirat(dir, ".");
  struct stat st;
  *s = (struct run_state){.launcher_held = !d}; /* treat it as alive if it cannot be examined */
  if (fs_sys_fstat(dir, &st) == 0) s->newest = st.st_mtime;
  for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
    size_t n = strlen(e->d_name);
    if (n < 5 || strcmp(e->d_name + n - 5, ".lock") != 0) continue;
    bool held = fs_run_lock_held(dir, e->d_name) > 0;
    if (fs_sys_fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0) s->newest = FS_MAX(s->newest, st.st_mtime);
    if (strcmp(e->d_name, "launch.lock") == 0) {
      s->launcher = true;
      s->launcher_held = held;
    } else {
      s->node_held = s->node_held || held;
    }
  }
  if (d) closedir(d);
}

bool fs_run_held(const char *run) {
  struct run_state s;
  FS_AUTO_CLOSE int dir = open(run, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (dir < 0) return errno != ENOENT;
  run_look(dir, &s);
  return s.launcher_held || s.node_held;
}

/* Removes one run directory if its job is dead. Kills daemons whose launcher is gone. */
static bool run_sweep_one(int base, const char *base_path, const char *job, bool tell) {
  char run[PATH_MAX];
  struct run_state s;
  FS_AUTO_CLOSE int dir = openat(base, job, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  int n = snprintf(run, sizeof(run), "%s/%s", base_path, job);
  if (dir < 0 || n < 0 || (size_t)n >= sizeof(run)) return false;
  run_look(dir, &s);
  if (s.launcher_held || (s.node_held && !s.launcher)) return false;
  if (fs_age_s(s.newest) < FS_RUN_YOUNG_S) {
    if (tell)
      fs_say("%s: its job starts, or died less than %d s ago: left alone; run this again then", run, FS_RUN_YOUNG_S);
    return false;
  }
  /* The job was launched on another host. It continues without its daemon here, or mpirun's daemon
     is about to start a program. Its launcher will end it. */
  if (!s.launcher && fs_job_signal(job, run, true, 0) > 0) return false;
  fs_job_end(job, run, true);
  fs_err err = fs_remove_tree(run);
  if (err < 0)
    fs_say("%s: %s", run, strerror(-err));
  else if (tell)
    fs_say("removed %s, left by a job that died", run);
  return err == 0;
}

struct run_sweep {
  bool tell;
  unsigned n;
};

static int run_sweep_base(void *ctx, const char *base) {
  struct run_sweep *s = ctx;
  FS_AUTO_CLOSE fs_fd fd = fs_own_open(AT_FDCWD, base);
  if (fd < 0) return 0;
  unsigned before = s->n;
  DIR *d = fs_opendirat(fd, ".");
  for (const struct dirent *e; d && (e = readdir(d)) != NULL;)
    if (fs_run_is_job(base, e->d_name) && run_sweep_one(fd, base, e->d_name, s->tell)) s->n++;
  if (d) closedir(d);
  if (s->n > before) rmdir(base);
  return 0;
}

unsigned fs_run_sweep(bool tell) {
  struct run_sweep s = {.tell = tell};
  (void)fs_run_bases(run_sweep_base, &s);
  return s.n;
}
