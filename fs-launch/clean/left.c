/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch clean --outputs: handles outputs of finished jobs in a local directory. What a job kept
 * is below DIR/fanstore-outputs/JOB, under its names. What a killed daemon left is in its backing
 * directory, with the names in a file beside it (ipc/left.h). With --to both are first copied to
 * TO/JOB, never over an existing file, and removed when all is copied. Called by backing.c and
 * clean.c. One thread.
 *
 *   left.c        what is done with each directory, and the messages
 *   left_copy.c   one copy
 *   left_names.c  the names that a daemon has left
 */
#include "left.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "../launch.h"
#include "ipc/left.h"
#include "ipc/local.h"
#include "ipc/record.h"
#include "left_priv.h"
#include "util/dir.h"

#define FS_LEFT_DEPTH 256u
#define FS_LEFT_NAMED 10u /* incomplete files that are named to the user */

static fs_err tell_failed(const char *path, fs_err err) {
  if (err < 0) fs_say("%s: %s: the outputs stay", path, strerror(-err));
  return err;
}

/* Returns the next entry of a directory, or NULL with *err at the end or after an error. */
static const struct dirent *next_entry(DIR *d, struct stat *st, fs_err *err) {
  for (const struct dirent *e; errno = 0, (e = readdir(d)) != NULL;) {
    if (fs_is_dot(e->d_name)) continue;
    if (fstatat(dirfd(d), e->d_name, st, AT_SYMLINK_NOFOLLOW) == 0) return e;
    if (errno != ENOENT) break;
  }
  *err = -errno;
  return NULL;
}

/* ---- what a job kept: a tree with names ---- */

static fs_err walk_kept(int dir, int to, const char *shown, unsigned depth, struct fs_left_sum *sum);

/* Copies a directory's contents, then sets mode and mtime of the copy. */
static fs_err walk_directory(int dir, const char *name, int to, const char *shown, unsigned depth,
                             struct fs_left_sum *sum) {
  struct stat st;
  FS_AUTO_CLOSE int sub = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (sub < 0 || fstat(sub, &st) < 0) return -errno;
  FS_AUTO_CLOSE fs_fd into = to < 0 ? -1 : fs_left_open_dir(to, name);
  if (to >= 0 && into < 0) return tell_failed(shown, into);
  fs_err err = walk_kept(sub, into, shown, depth - 1, sum);
  if (err < 0 || to < 0) return err;
  struct timespec times[2] = {st.st_mtim, st.st_mtim};
  return tell_failed(shown, fchmod(into, (st.st_mode & 07777) | 0700) < 0 || futimens(into, times) < 0 ? -errno : 0);
}

static fs_err copy_kept(int dir, const char *name, int to, bool file) {
  char target[PATH_MAX];
  if (file) return fs_left_copy_file(dir, name, to, name);
  ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);
  if (n < 0) return -errno;
  target[n] = '\0';
  return fs_left_copy_link(target, to, name);
}

/* Counts the files of a tree, and copies all of it unless `to` is -1. `shown` is the path of `to`,
   for messages. */
static fs_err walk_kept(int dir, int to, const char *shown, unsigned depth, struct fs_left_sum *sum) {
  char path[PATH_MAX];
  struct stat st;
  DIR *d = depth == 0 ? NULL : fs_opendirat(dir, ".");
  fs_err err = depth == 0 ? -ELOOP : d ? 0 : -errno;
  for (const struct dirent *e; d && err == 0 && (e = next_entry(d, &st, &err)) != NULL;) {
    if (snprintf(path, sizeof(path), "%s/%s", shown, e->d_name) >= (int)sizeof(path)) err = -ENAMETOOLONG;
    if (err == 0 && S_ISDIR(st.st_mode)) {
      err = walk_directory(dir, e->d_name, to, path, depth, sum);
      continue;
    }
    if (S_ISREG(st.st_mode))
      sum->files++, sum->bytes += (uint64_t)st.st_size;
    else
      sum->links++;
    if (err == 0 && to >= 0) err = tell_failed(path, copy_kept(dir, e->d_name, to, S_ISREG(st.st_mode)));
  }
  if (d) closedir(d);
  return err;
}

/* ---- what a daemon left: numbers, and names beside them ---- */

struct left_backing {
  int backing, top; /* top: directory of the copies, or -1 */
  const char *to;   /* path of `top` */
  struct fs_left_names *names;
  struct fs_left_sum *sum;
};

static fs_err copy_to(int out, const char *name, int top, const char *path) {
  const char *slash = strrchr(path, '/');
  FS_AUTO_CLOSE fs_fd to = fs_left_open_parent(top, path);
  return to < 0 ? to : fs_left_copy_file(out, name, to, slash ? slash + 1 : path);
}

static bool is_taken(fs_err err) {
  return err == -EEXIST || err == -ENOTDIR || err == -ELOOP || err == -EISDIR || err == -ENAMETOOLONG;
}

/* Copies one file. It goes to lost+found, with `lost` as its path, if it has no name, is
   incomplete, or if its name is taken: another node's file may have got that name meanwhile. */
static fs_err copy_left(const struct left_backing *s, int out, const char *name, const char *path, bool whole,
                        char lost[PATH_MAX]) {
  if (path) {
    int n = snprintf(lost, PATH_MAX, "%s%s", whole ? "" : "lost+found/", path);
    fs_err err = n >= PATH_MAX ? -ENAMETOOLONG : copy_to(out, name, s->top, lost);
    if (!is_taken(err)) return err;
    s->sum->taken += whole;
  }
  snprintf(lost, PATH_MAX, "lost+found/%s", name);
  return copy_to(out, name, s->top, lost);
}

static void tell_split(const struct left_backing *s, const char *path) {
  char full[2 * PATH_MAX];
  if (s->sum->split > FS_LEFT_NAMED) return;
  snprintf(full, sizeof(full), "%s/%s", s->to, path);
  fs_say("%s is not whole: other nodes had some of its bytes", full);
}

static fs_err each_left(const struct left_backing *s, int out, const char *name) {
  char path[PATH_MAX], lost[PATH_MAX] = "", full[2 * PATH_MAX];
  uint64_t id = 0;
  bool number = strlen(name) == 16 && fs_unhex(name, (uint8_t *)&id, sizeof(id)) == 0;
  id = __builtin_bswap64(id);
  bool named = number && fs_left_names_path(s->names, id, path, sizeof(path));
  bool split = number && fs_left_names_split(s->names, id);
  s->sum->nameless += !named && !split;
  s->sum->split += split;
  if (s->top < 0) return 0;
  fs_err err = copy_left(s, out, name, named ? path : NULL, !split, lost);
  if (err == 0 && split) tell_split(s, lost);
  snprintf(full, sizeof(full), "%s/%s", s->to, named ? path : name);
  return tell_failed(full, err);
}

static fs_err put_link(int top, const char *path, const char *target) {
  const char *slash = strrchr(path, '/');
  FS_AUTO_CLOSE fs_fd to = fs_left_open_parent(top, path);
  return to < 0 ? to : fs_left_copy_link(target, to, slash ? slash + 1 : path);
}

/* Makes a directory. If its name is taken, nothing is lost. */
static fs_err put_directory(int top, const char *path) {
  char inside[PATH_MAX + 1];
  snprintf(inside, sizeof(inside), "%s/", path ? path : "lost+found");
  FS_AUTO_CLOSE fs_fd to = path ? fs_left_open_parent(top, inside) : -EEXIST;
  return to >= 0 || is_taken(to) ? 0 : to;
}

static fs_err each_other(void *ctx, uint64_t id, const char *path, const char *target) {
  const struct left_backing *s = ctx;
  char lost[64], full[2 * PATH_MAX];
  s->sum->links += target != NULL;
  if (s->top < 0) return 0;
  snprintf(lost, sizeof(lost), "lost+found/%016llx", (unsigned long long)id);
  snprintf(full, sizeof(full), "%s/%s", s->to, path ? path : lost);
  if (!target) return tell_failed(full, put_directory(s->top, path));
  fs_err err = path ? put_link(s->top, path, target) : -EEXIST;
  s->sum->taken += is_taken(err);
  return tell_failed(full, is_taken(err) ? put_link(s->top, lost, target) : err);
}

/* Counts all outputs, and copies them unless `top` is -1. */
static fs_err walk_left(struct left_backing *s) {
  struct stat st;
  DIR *d = fs_opendirat(s->backing, FS_OUTPUT_DIR);
  fs_err err = d ? 0 : -errno;
  const struct fs_left_sum none = {0};
  *s->sum = none;
  for (const struct dirent *e; d && err == 0 && (e = next_entry(d, &st, &err)) != NULL;) {
    if (!S_ISREG(st.st_mode)) continue;
    s->sum->files++;
    s->sum->bytes += (uint64_t)st.st_size;
    err = each_left(s, dirfd(d), e->d_name);
  }
  if (d) closedir(d);
  return err == 0 ? fs_left_names_others(s->names, each_other, s) : err;
}

static fs_err backing_walk(int backing, int top, const char *to, struct fs_left_sum *sum) {
  struct left_backing s = {.backing = backing, .top = top, .to = to, .sum = sum};
  fs_err err = fs_left_names_read(backing, &s.names);
  if (err == 0) err = walk_left(&s);
  fs_left_names_free(s.names);
  return err;
}

/* ---- telling, and removing ---- */

/* Copies all outputs. When this returns 0, files and names are on the disk. */
static fs_err copy_all(const struct fs_left_clean *c, int backing, const char *job, const char *to,
                       struct fs_left_sum *sum) {
  struct stat st;
  FS_AUTO_CLOSE int dir = open(c->to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return -errno;
  bool made = mkdirat(dir, job, 0777) == 0;
  FS_AUTO_CLOSE fs_fd top = fs_left_open_dir(dir, job);
  if (top < 0 || fstat(top, &st) < 0) return tell_failed(to, top < 0 ? top : -errno);
  if (!made && st.st_uid != geteuid()) { /* another user could replace the copies */
    fs_say("%s: belongs to another user: the outputs stay", to);
    return -EPERM;
  }
  fs_err err = backing >= 0 ? backing_walk(backing, top, to, sum)
                            : walk_kept(c->kept, top, to, FS_LEFT_DEPTH, &(struct fs_left_sum){0});
  return err == 0 && syncfs(dir) < 0 ? -errno : err;
}

/* Writes text like "2 outputs (12 B) and 1 symlink". */
static void describe(const struct fs_left_sum *sum, char *text, size_t size) {
  char bytes[32], links[64] = "";
  fs_format_size(sum->bytes, bytes, sizeof(bytes));
  if (sum->links > 0)
    snprintf(links, sizeof(links), " and %llu symlink%s", (unsigned long long)sum->links, sum->links == 1 ? "" : "s");
  snprintf(text, size, "%llu output%s (%s)%s", (unsigned long long)sum->files, sum->files == 1 ? "" : "s", bytes,
           links);
}

/* Writes text like " (1 is not whole, 2 have no name)", or "". */
static void describe_flaws(const struct fs_left_sum *sum, char *text, size_t size) {
  char split[64] = "", nameless[64] = "";
  if (sum->split > 0)
    snprintf(split, sizeof(split), "%llu %s not whole", (unsigned long long)sum->split, sum->split == 1 ? "is" : "are");
  if (sum->nameless > 0)
    snprintf(nameless, sizeof(nameless), "%llu %s no name", (unsigned long long)sum->nameless,
             sum->nameless == 1 ? "has" : "have");
  const char *comma = split[0] && nameless[0] ? ", " : "";
  snprintf(text, size, split[0] || nameless[0] ? " (%s%s%s)" : "%s%s%s", split, comma, nameless);
}

static void tell_found(const struct fs_left_sum *sum) {
  if (sum->split > 0)
    fs_say("%llu of them %s not whole, since other nodes had some of the bytes: in lost+found there",
           (unsigned long long)sum->split, sum->split == 1 ? "is" : "are");
  unsigned long long others = sum->nameless + sum->taken;
  if (others > 0)
    fs_say("%llu of them have no name, or one that is too long or taken: they are in lost+found there", others);
}

static bool left_failed(const struct fs_left_clean *c, const char *path, const char *why) {
  if (c->failed) *c->failed = true;
  fs_say("%s: %s", path, why);
  return false;
}

bool fs_left_done(const struct fs_left_clean *c, int backing, const char *path, const char *job,
                  struct fs_left_sum *sum) {
  char what[128], flaws[160], to[PATH_MAX];
  fs_err err = backing >= 0 ? backing_walk(backing, -1, path, sum) : 0;
  describe(sum, what, sizeof(what));
  describe_flaws(sum, flaws, sizeof(flaws));
  if (err == 0 && !c->remove) {
    fs_say("%s: %s of a job that is over%s: fs-launch clean --outputs removes %s, with --to DIR copies first", path,
           what, flaws, sum->files + sum->links == 1 ? "it" : "them");
    return false;
  }
  if (err == 0 && c->to && snprintf(to, sizeof(to), "%s/%s", c->to, job) >= (int)sizeof(to)) err = -ENAMETOOLONG;
  if (err == 0 && c->to) err = copy_all(c, backing, job, to, sum);
  if (err == 0) err = fs_remove_tree(path);
  if (err < 0) return left_failed(c, path, strerror(-err));
  fs_say("removed %s, with %s%s%s", path, what, c->to ? ", which are in " : "", c->to ? to : "");
  if (c->to) tell_found(sum);
  return true;
}

static void clean_job(struct fs_left_clean *c, const char *base, int job, const char *name) {
  char path[2 * PATH_MAX];
  struct fs_left_sum sum = {0};
  snprintf(path, sizeof(path), "%s/%s", base, name);
  fs_err err = flock(job, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK ? -EBUSY : 0;
  if (!fs_is_named(AT_FDCWD, path, job)) return; /* another fs-launch clean removed it */
  if (err == 0) err = walk_kept(job, -1, "", FS_LEFT_DEPTH, &sum);
  c->kept = job;
  if (err == 0)
    (void)fs_left_done(c, -1, path, name, &sum);
  else if (err == -EBUSY)
    (void)left_failed(c, path, "another fs-launch clean is at work there");
  else if (err == -ELOOP || err == -ENAMETOOLONG)
    (void)left_failed(c, path, "its directories are more than 256 levels deep, or their paths too long: it stays");
  else
    (void)left_failed(c, path, strerror(-err));
}

static int clean_kept(void *ctx, const char *local) {
  struct fs_left_clean c = *(const struct fs_left_clean *)ctx;
  char base[PATH_MAX];
  struct stat st;
  if (snprintf(base, sizeof(base), "%s/" FS_OUTPUTS_KEPT, local) >= (int)sizeof(base)) return 0;
  DIR *d = fs_opendirat(AT_FDCWD, base);
  bool ours = d && fstat(dirfd(d), &st) == 0 && st.st_uid == geteuid();
  for (const struct dirent *e; ours && (e = readdir(d)) != NULL;) {
    if (strncmp(e->d_name, "job-", 4) != 0 || fs_job_lives(e->d_name)) continue;
    FS_AUTO_CLOSE int job = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (job >= 0) clean_job(&c, base, job, e->d_name);
  }
  if (d) closedir(d);
  if (ours && c.remove) (void)rmdir(base);
  return 0;
}

void fs_kept_clean(const char *local, bool by_default, const struct fs_left_clean *c) {
  struct fs_left_clean copy = *c;
  if (by_default)
    fs_own_each(local, true, clean_kept, &copy);
  else
    (void)clean_kept(&copy, local);
}
