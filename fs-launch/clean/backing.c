/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Removes what killed daemons have left in a local directory DIR: below DIR/fanstore, for emulated
 * nodes below DIR/fanstore-nodeK. Called by fs-launch at the end of each job, and by fs-launch
 * clean. One thread.
 *
 *   Backing directories (docs/internals/end-of-job.md): outputs-JOB-RANK. A daemon locks its own
 *   while it lives. They are removed when the job is over, unless outputs are in them.
 *   Incomplete copies (docs/internals/staging.md): ID/.new-... The writer holds the lock ID/.staging.
 *   Incomplete packs (docs/internals/pack-nodes.md): .pack-... The writer holds a lock on it. If the
 *   pack has a checkpoint, it stays, and fs-launch clean says so, unless --staged is given.
 *   Copies of files in memory (docs/internals/read-path.md): below /dev/shm, in directories named like
 *   backing directories.
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "../launch.h"
#include "ipc/left.h"
#include "ipc/local.h"
#include "ipc/node.h"
#include "ipc/record.h"
#include "ipc/rundir.h"
#include "left.h"
#include "util/dir.h"
#include "util/own.h"

#define FS_LOCK_POLL_NS 20000000l
#define FS_LOCK_TRIES 50u

struct left {
  const char *job;                   /* only backing directories of this job; NULL: of all */
  unsigned tries;                    /* attempts to take a lock */
  bool fragment, tell, all;          /* all: also outputs, which are saved or dropped */
  bool packs;                        /* also packs that can go on */
  const struct fs_left_clean *clean; /* what to do with outputs; NULL: they stay */
};

bool fs_local_top(const char *name) {
  size_t n = strlen("fanstore-node");
  return strcmp(name, "fanstore") == 0 ||
         (strncmp(name, "fanstore-node", n) == 0 && name[n] && strspn(name + n, "0123456789") == strlen(name + n));
}

/* Takes the job's name from "outputs-JOB-RANK". */
static bool job_of(const char *name, char *job, size_t size) {
  size_t n = strlen(FS_LOCAL_BACKING);
  const char *rank = strrchr(name, '-');
  if (strncmp(name, FS_LOCAL_BACKING "job-", n + 4) != 0 || strspn(rank + 1, "0123456789") != strlen(rank + 1) ||
      !rank[1])
    return false;
  int put = snprintf(job, size, "%.*s", (int)(rank - name) - (int)n, name + n);
  return put > 0 && (size_t)put < size;
}

/* Also counts the job's other daemons, and programs whose own daemon is dead. */
bool fs_job_lives(const char *job) {
  char run[PATH_MAX];
  return fs_run_find(job, run, sizeof(run)) < 0 || fs_run_held(run) || fs_job_signal(job, run, true, 0) > 0;
}

static void tell_removed(const struct left *w, const char *path) {
  if (w->tell) fs_say("removed %s, left by a daemon that died", path);
}

/* Waits a moment and returns true if the lock should be tried again: a killed process releases its
   locks a moment after it looks dead. */
static bool lock_again(const struct left *w, unsigned tries) {
  if (tries >= w->tries) return false;
  nanosleep(&(struct timespec){.tv_nsec = FS_LOCK_POLL_NS}, NULL);
  return true;
}

/* Returns the number of backing files that are not saved. */
static unsigned backing_files(int dir) {
  unsigned n = 0;
  DIR *d = fs_opendirat(dir, FS_OUTPUT_DIR);
  for (const struct dirent *e; d && (e = readdir(d)) != NULL;) n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n;
}

/* Tells that a directory stays because its outputs cannot be counted. */
static void tell_unknown(const struct left *w, const char *path, fs_err err) {
  fs_say("%s: %s: it stays", path, strerror(-err));
  if (w->clean && w->clean->failed) *w->clean->failed = true;
}

static void remove_backing(int top, const char *top_path, const char *name, const struct left *w) {
  char path[PATH_MAX], of[128];
  int n = snprintf(path, sizeof(path), "%s/%s", top_path, name);
  if (!job_of(name, of, sizeof(of)) || (w->job && strcmp(w->job, of) != 0) || n < 0 || (size_t)n >= sizeof(path))
    return;
  FS_AUTO_CLOSE fs_fd dir = fs_own_open(top, name);
  if (dir < 0) return;
  for (unsigned tries = 0; fs_run_backing_held(dir, w->job != NULL); tries++)
    if (!lock_again(w, tries)) return;
  if ((!w->job && fs_job_lives(of)) || !fs_is_named(top, name, dir)) return; /* removed by now */
  struct fs_left_sum sum = {0};
  int any = w->all ? 0 : fs_left_count(dir, &sum.files, &sum.bytes);
  if (any < 0) {
    tell_unknown(w, path, any);
    return;
  }
  if (any > 0) {
    (void)fs_left_strip(dir, path);
    if (w->clean) (void)fs_left_done(w->clean, dir, path, of, &sum);
    return;
  }
  unsigned files = w->tell ? backing_files(dir) : 0;
  fs_err err = fs_remove_tree(path);
  if (err < 0)
    fs_say("%s: %s", path, strerror(-err));
  else if (files > 0)
    fs_say("removed %s, left by a daemon that died, with %u output%s in it", path, files, files == 1 ? "" : "s");
  else
    tell_removed(w, path);
}

bool fs_lock_alone(int dir, const char *name, int lock) {
  return flock(lock, LOCK_EX | LOCK_NB) == 0 && fs_is_named(dir, name, lock);
}

static bool is_fragment(const char *name) {
  return strncmp(name, FS_STAGE_NEW, strlen(FS_STAGE_NEW)) == 0;
}

/* Returns true if there is anything to remove; otherwise no lock is touched. */
static bool has_fragments(int dir) {
  bool found = false;
  DIR *d = fs_opendirat(dir, ".");
  for (const struct dirent *e; d && !found && (e = readdir(d)) != NULL;) found = is_fragment(e->d_name);
  if (d) closedir(d);
  return found;
}

/* Removes the files of a pack, unless a node packs into them now or a later pack can go on with them. */
static void remove_pack(int top, const char *top_path, const char *name, const struct left *w) {
  char path[2 * PATH_MAX], of[PATH_MAX];
  FS_AUTO_CLOSE fs_fd dir = fs_own_open(top, name);
  if (dir < 0 || !fs_lock_alone(top, name, dir)) return;
  snprintf(path, sizeof(path), "%s/%s", top_path, name);
  if (!w->packs && fs_local_pack_resumes(dir, of)) {
    if (w->tell) fs_say("%s: kept: the pack that made it goes on from %s; clean --staged removes it", path, of);
  } else if (fs_remove_tree(path) == 0) {
    tell_removed(w, path);
  }
}

/* Removes the incomplete copies of one dataset, unless another job is copying it now. */
static void remove_fragments(int top, const char *top_path, const char *id, const struct left *w) {
  char path[2 * PATH_MAX];
  uint8_t bytes[16];
  if (strncmp(id, FS_LOCAL_PACK, strlen(FS_LOCAL_PACK)) == 0) remove_pack(top, top_path, id, w);
  if (strlen(id) != 32 || fs_unhex(id, bytes, 16) < 0) return;
  FS_AUTO_CLOSE fs_fd dir = fs_own_open(top, id);
  if (dir < 0 || !has_fragments(dir)) return;
  FS_AUTO_CLOSE int lock = openat(dir, FS_STAGE_STAGING, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (lock < 0) return;
  for (unsigned tries = 0; !fs_lock_alone(dir, FS_STAGE_STAGING, lock); tries++)
    if (!lock_again(w, tries)) return;
  DIR *d = fs_opendirat(dir, ".");
  for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
    if (!is_fragment(e->d_name) || unlinkat(dir, e->d_name, 0) < 0) continue;
    snprintf(path, sizeof(path), "%s/%s/%s", top_path, id, e->d_name);
    tell_removed(w, path);
  }
  if (d) closedir(d);
}

static void remove_below(int local, const char *local_path, const char *name, const struct left *w) {
  char path[PATH_MAX];
  int n = snprintf(path, sizeof(path), "%s/%s", local_path, name);
  FS_AUTO_CLOSE fs_fd fd = fs_own_open(local, name);
  DIR *d = fd >= 0 && n > 0 && (size_t)n < sizeof(path) ? fs_opendirat(fd, ".") : NULL;
  for (const struct dirent *e; d && (e = readdir(d)) != NULL;)
    (w->fragment ? remove_fragments : remove_backing)(fd, path, e->d_name, w);
  if (d) closedir(d);
}

static void remove_in(const char *local, const struct left *w) {
  DIR *d = fs_opendirat(AT_FDCWD, local);
  for (const struct dirent *e; d && (e = readdir(d)) != NULL;)
    if (fs_local_top(e->d_name)) remove_below(dirfd(d), local, e->d_name, w);
  if (d) closedir(d);
}

static int remove_each(void *ctx, const char *local) {
  remove_in(local, ctx);
  return 0;
}

static void remove_left(const char *local, bool by_default, struct left w) {
  if (by_default)
    fs_own_each(local, true, remove_each, &w);
  else
    remove_in(local, &w);
}

/* Removes copies in memory, and their directories if they are empty. */
static void remove_in_memory(const struct left *w) {
  char path[PATH_MAX];
  fs_ssize n = fs_memory_local(path, sizeof(path));
  if (n <= 0 || !fs_own_is(path, false)) return;
  remove_in(path, w);
  snprintf(path + n, sizeof(path) - (size_t)n, "/" FS_MEMORY_LOCAL);
  (void)rmdir(path);
  path[n] = '\0';
  (void)rmdir(path);
}

void fs_backing_files_remove(const char *local, bool by_default, const char *job, bool all) {
  struct left w = {.job = job, .tries = FS_LOCK_TRIES, .all = all};
  remove_left(local, by_default, w);
  remove_in_memory(&w);
}

void fs_backing_files_clean(const char *local, bool by_default, const struct fs_left_clean *c) {
  remove_left(local, by_default, (struct left){.tell = true, .clean = c});
}

void fs_fragments_remove(const char *local, bool by_default, bool wait, bool tell, bool packs) {
  struct left w = {.fragment = true, .tries = wait ? FS_LOCK_TRIES : 0, .tell = tell, .packs = packs};
  remove_left(local, by_default, w);
  remove_in_memory(&(struct left){.tries = w.tries});
}
