/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch clean: removes the run directories of dead jobs, and what killed daemons and killed
 * programs without a daemon have left on this node. With --staged it also removes staged partitions
 * that no job uses (a job holds the .lock of each directory shared, docs/internals/staging.md). With --hosts
 * it runs itself on each host by mpirun.
 */
#include <dirent.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../launch.h"
#include "ipc/alone.h"
#include "ipc/local.h"
#include "left.h"
#include "util/dir.h"
#include "util/own.h"

struct clean_staged {
  unsigned removed, kept;
  struct { /* of --except */
    char path[PATH_MAX];
    uint8_t id[16];
  } except[FS_MAX_DATASETS];
  unsigned excepted;
};

static bool is_excepted(const struct clean_staged *c, const uint8_t id[16]) {
  for (unsigned i = 0; i < c->excepted; i++)
    if (memcmp(c->except[i].id, id, 16) == 0) return true;
  return false;
}

static int find_excepted(struct clean_staged *c, const struct fs_launch_options *o) {
  for (; c->excepted < o->datasets; c->excepted++) {
    struct fs_manifest m;
    char why[PATH_MAX + 256] = "", *path = c->except[c->excepted].path;
    const char *given = o->dataset[c->excepted].path;
    fs_err err = realpath(given, path) ? fs_manifest_load(path, &m, why, sizeof(why)) : -errno;
    if (err < 0) {
      if (why[0] == '\0') snprintf(why, sizeof(why), "%s: no such dataset (%s)", given, strerror(-err));
      fs_say("%s", why);
      return FS_EXIT_FAILED;
    }
    memcpy(c->except[c->excepted].id, m.dataset_id, 16);
  }
  return 0;
}

/* Removes a dataset's directory. The lock is removed last, so that no job takes a new lock beside
   files that are being removed. A job that comes then stages everything. */
static fs_err remove_dataset(int dir, const char *path) {
  char file[PATH_MAX + 300];
  DIR *d = fs_opendirat(dir, ".");
  fs_err err = d ? 0 : -errno;
  for (const struct dirent *e; d && err == 0 && (e = readdir(d)) != NULL;) {
    if (fs_is_dot(e->d_name) || strcmp(e->d_name, FS_STAGE_LOCK) == 0) continue;
    snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
    err = fs_remove_tree(file);
  }
  if (d) closedir(d);
  if (err == 0 && (unlinkat(dir, FS_STAGE_LOCK, 0) < 0 || rmdir(path) < 0)) err = -errno;
  return err == -ENOENT ? 0 : err == -ENOTEMPTY ? -EBUSY : err;
}

/* Removes one dataset's directory, <top>/<id>, unless a job uses it. */
static void clean_dataset(int top, const char *top_path, const char *id, struct clean_staged *c) {
  char path[PATH_MAX];
  uint8_t bytes[16];
  int n = snprintf(path, sizeof(path), "%s/%s", top_path, id);
  if (strlen(id) != 32 || fs_unhex(id, bytes, 16) < 0 || n < 0 || (size_t)n >= sizeof(path)) return;
  if (is_excepted(c, bytes)) return;
  FS_AUTO_CLOSE fs_fd dir = fs_own_open(top, id);
  if (dir < 0) return;
  FS_AUTO_CLOSE int lock = openat(dir, FS_STAGE_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (lock < 0 && errno == ENOENT) return; /* another process removed it */
  fs_err err = lock < 0 ? -errno : !fs_lock_alone(dir, FS_STAGE_LOCK, lock) ? -EBUSY : remove_dataset(dir, path);
  if (err < 0) {
    fs_say("%s: %s", path, err == -EBUSY ? "in use, kept" : strerror(-err));
    c->kept++;
  } else {
    fs_say("removed %s", path);
    c->removed++;
  }
}

static void clean_top(int local, const char *local_path, const char *name, struct clean_staged *c) {
  char path[PATH_MAX];
  int n = snprintf(path, sizeof(path), "%s/%s", local_path, name);
  FS_AUTO_CLOSE fs_fd fd = fs_own_open(local, name);
  DIR *d = fd >= 0 && n > 0 && (size_t)n < sizeof(path) ? fs_opendirat(fd, ".") : NULL;
  if (!d) return;
  for (const struct dirent *e; (e = readdir(d)) != NULL;) clean_dataset(fd, path, e->d_name, c);
  closedir(d);
  unlinkat(local, name, AT_REMOVEDIR); /* if it is empty */
}

static int clean_local(void *ctx, const char *local) {
  struct clean_staged *c = ctx;
  DIR *d = fs_opendirat(AT_FDCWD, local);
  if (!d && errno != ENOENT) {
    fs_say("%s: %s", local, strerror(errno));
    return FS_EXIT_FAILED;
  }
  for (const struct dirent *e; d && (e = readdir(d)) != NULL;)
    if (fs_local_top(e->d_name)) clean_top(dirfd(d), local, e->d_name, c);
  if (d) closedir(d);
  return 0;
}

static int clean_default(void *ctx, const char *local) {
  int status = clean_local(ctx, local);
  rmdir(local); /* our own by name, if it is empty */
  return status;
}

static int clean_staged(const struct fs_launch *l, struct clean_staged *c) {
  int status = l->opt.local_dir ? clean_local(c, l->local_dir) : fs_own_each(l->local_dir, true, clean_default, c);
  if (status != 0) return status;
  if (l->opt.verbose) fs_say("%u staged datasets removed, %u kept", c->removed, c->kept);
  return c->kept > 0 ? 1 : 0;
}

/* Tells what was left because another user owns it, with advice. Returns the exit status. */
static int clean_others(const char *local) {
  char path[PATH_MAX];
  struct stat st;
  int status = 0;
  DIR *d = fs_opendirat(AT_FDCWD, local);
  for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
    if (!fs_local_top(e->d_name) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) continue;
    if (st.st_uid == geteuid()) continue;
    snprintf(path, sizeof(path), "%.3000s/%.255s", local, e->d_name);
    const struct passwd *user = getpwuid(st.st_uid);
    fs_say("%s belongs to %s (user %u) and was left alone: run fs-launch clean as that user", path,
           user ? user->pw_name : "another user", (unsigned)st.st_uid);
    status = 1;
  }
  if (d) closedir(d);
  return status;
}

/* Runs the same command without its hosts, by mpirun on each of them. */
static int clean_hosts(struct fs_launch *l, const struct clean_staged *c) {
  struct fs_words w = {0};
  int status = fs_find_programs(l);
  if (status == 0) status = fs_network_choose(l);
  if (status != 0) return status;
  fs_mpirun_plain(l, &w);
  fs_words_add(&w, "%s", l->self);
  fs_words_add(&w, "clean");
  if (l->opt.staged) fs_words_add(&w, "--staged");
  for (unsigned i = 0; i < c->excepted; i++) {
    fs_words_add(&w, "--except");
    fs_words_add(&w, "%s", c->except[i].path);
  }
  if (l->opt.outputs) fs_words_add(&w, "--outputs");
  if (l->opt.to) {
    fs_words_add(&w, "--to");
    fs_words_add(&w, "%s", l->to);
  }
  if (l->opt.verbose) fs_words_add(&w, "--verbose");
  if (l->opt.local_dir) {
    fs_words_add(&w, "--local-dir");
    fs_words_add(&w, "%s", l->local_dir);
  }
  fs_mpirun_environment(l, true);
  execv(w.word[0], w.word);
  fs_say("%s: %s", w.word[0], strerror(errno));
  return FS_EXIT_FAILED;
}

int fs_clean(int argc, char **argv) {
  static struct fs_launch l = {.run_lock = -1, .guard_fd = -1, .to_daemons = -1};
  static struct clean_staged c;
  int status = fs_options_parse_clean(&l.opt, argc, argv);
  if (status >= 0) return status;
  l.opt.emulate = l.opt.hosts || l.opt.hostfile ? 0 : 1; /* clean this host only, also in a Slurm
                                                            allocation */
  status = fs_hosts_find(&l);
  if (status == 0) status = fs_local_dir(&l);
  if (status == 0) status = fs_check_to(&l);
  if (status == 0) status = find_excepted(&c, &l.opt);
  if (status != 0) return status;
  fs_run_prefer(l.opt.local_dir ? l.local_dir : NULL);
  if (l.where != FS_WHERE_HERE) return clean_hosts(&l, &c);
  fs_run_sweep(true);
  bool failed = false;
  struct fs_left_clean outputs = {.remove = l.opt.outputs, .to = l.opt.to ? l.to : NULL, .failed = &failed, .kept = -1};
  fs_backing_files_clean(l.local_dir, !l.opt.local_dir, &outputs);
  fs_kept_clean(l.local_dir, !l.opt.local_dir, &outputs);
  fs_fragments_remove(l.local_dir, !l.opt.local_dir, false, true, l.opt.staged);
  for (unsigned i = 0; i < FS_ALONE_BASES; i++)
    if (fs_alone_base(i)) fs_alone_clean(fs_alone_base(i));
  if (l.opt.staged) status = clean_staged(&l, &c);
  if (status == 0 && l.opt.local_dir) status = clean_others(l.local_dir);
  return status == 0 && failed ? 1 : status;
}
