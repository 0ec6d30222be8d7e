/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch clean --outputs: outputs of jobs that are over, in a local directory. What a job kept is below
 * DIR/fanstore-outputs/JOB, under its names. What a daemon that was killed has left is in its spill directory, with its
 * names in a file beside it (ipc/left.h). With --to both are copied to TO/JOB first, and removed when all is there.
 * Never over a file that is there. Called by spills.c and clean.c.
 */
#include "left.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/left.h"
#include "ipc/local.h"
#include "ipc/names.h"
#include "launch.h"
#include "util/dir.h"

#define FS_LEFT_CHAINS 65536u
#define FS_LEFT_DEPTH 256u
#define FS_LEFT_COPY (1u << 20)

/* ---- copies ---- */

static fs_err copy_data(int from, int to, off_t size) {
  FS_AUTO_FREE char *buf = malloc(FS_LEFT_COPY);
  if (!buf) return -ENOMEM;
  for (off_t at = 0; at < size;) {
    off_t data = lseek(from, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break; /* a hole up to the end */
    at = FS_MAX(at, data);
    ssize_t n = pread(from, buf, FS_LEFT_COPY, at);
    if (n <= 0) return n < 0 ? -errno : -EIO;
    fs_err err = fs_pwrite_full(to, buf, (size_t)n, (uint64_t)at);
    if (err < 0) return err;
    at += n;
  }
  return ftruncate(to, size) < 0 ? -errno : 0;
}

/* A directory of copies, made if it is not there. Not a symlink, which would lead elsewhere. */
static fs_fd open_dir(int at, const char *name) {
  if (!fs_is_dot(name) && mkdirat(at, name, 0777) < 0 && errno != EEXIST) return -errno;
  int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  return fd < 0 ? -errno : fd;
}

/* The directory of a path below `top`. */
static fs_fd open_parent(int top, const char *path) {
  char name[NAME_MAX + 1];
  fs_fd at = open_dir(top, ".");
  for (const char *slash; at >= 0 && (slash = strchr(path, '/')) != NULL; path = slash + 1) {
    size_t n = (size_t)(slash - path);
    if (n == 0) continue;
    memcpy(name, path, FS_MIN(n, (size_t)NAME_MAX));
    name[FS_MIN(n, (size_t)NAME_MAX)] = '\0';
    fs_fd sub = n > NAME_MAX ? -ENAMETOOLONG : open_dir(at, name);
    close(at);
    at = sub;
  }
  return at;
}

static fs_fd open_source(int dir, const char *name) {
  const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  struct stat st;
  int fd = openat(dir, name, flags);
  if (fd < 0 && errno == EACCES && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
      fchmodat(dir, name, 0600, 0) == 0) {
    fd = openat(dir, name, flags);
    (void)fchmodat(dir, name, st.st_mode & 07777, 0);
  }
  return fd < 0 ? -errno : fd;
}

static bool same_bytes(int a, int b) {
  FS_AUTO_FREE char *buf = malloc(2 * (size_t)FS_LEFT_COPY);
  for (off_t at = 0; buf;) {
    ssize_t n = pread(a, buf, FS_LEFT_COPY, at), m = pread(b, buf + FS_LEFT_COPY, FS_LEFT_COPY, at);
    if (n < 0 || n != m || memcmp(buf, buf + FS_LEFT_COPY, (size_t)n) != 0) return false;
    if (n == 0) return true;
    at += n;
  }
  return false;
}

/* An earlier run has copied it, and was broken off before it removed the source. */
static bool is_there(int from, off_t size, int to, const char *as) {
  struct stat st;
  FS_AUTO_CLOSE int fd = openat(to, as, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == size && same_bytes(from, fd);
}

/* Without replacing anything. Where no file system flag does it (NFS), a hard link does. */
static fs_err give_name(int dir, const char *from, const char *to) {
  if (renameat2(dir, from, dir, to, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -errno;
  if (linkat(dir, from, dir, to, 0) < 0) return -errno;
  (void)unlinkat(dir, from, 0);
  return 0;
}

/* The name of a copy that is not whole: always the same for one file of one host, so that a later run replaces it. */
static void temporary_name(const struct stat *st, char *name, size_t size) {
  char text[160] = "";
  gethostname(text, 64);
  text[64] = '\0';
  size_t n = strlen(text);
  snprintf(text + n, sizeof(text) - n, " %llx %llx", (unsigned long long)st->st_dev, (unsigned long long)st->st_ino);
  snprintf(name, size, ".fanstore-copy-%016llx", (unsigned long long)fs_xxh3(text, strlen(text)));
}

/* It has its bytes on the disk, its mode and its time when it gets its name. -EEXIST: something else has the name. */
static fs_err copy_file(int dir, const char *name, int to, const char *as) {
  struct stat st, there;
  char temp[64];
  FS_AUTO_CLOSE fs_fd from = open_source(dir, name);
  if (from < 0) return from;
  if (fstat(from, &st) < 0) return -errno;
  if (is_there(from, st.st_size, to, as)) return 0;
  if (fstatat(to, as, &there, AT_SYMLINK_NOFOLLOW) == 0) return -EEXIST;
  temporary_name(&st, temp, sizeof(temp));
  (void)unlinkat(to, temp, 0);
  FS_AUTO_CLOSE int fd = openat(to, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return -errno;
  struct timespec times[2] = {st.st_mtim, st.st_mtim};
  fs_err err = copy_data(from, fd, st.st_size);
  if (err == 0 && (fchmod(fd, st.st_mode & 07777) < 0 || futimens(fd, times) < 0 || fsync(fd) < 0)) err = -errno;
  if (err == 0) err = give_name(to, temp, as);
  if (err < 0) (void)unlinkat(to, temp, 0);
  return err;
}

static fs_err tell_failed(const char *path, fs_err err) {
  char shown[512];
  if (err < 0) fs_say("%s: %s: the outputs stay", fs_shown(path, shown, sizeof(shown)), strerror(-err));
  return err;
}

static fs_err copy_link(int dir, const char *name, int to) {
  char target[PATH_MAX], there[PATH_MAX];
  ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);
  if (n < 0) return -errno;
  target[n] = '\0';
  if (symlinkat(target, to, name) == 0) return 0;
  fs_err err = -errno;
  return readlinkat(to, name, there, sizeof(there)) == n && memcmp(there, target, (size_t)n) == 0 ? 0 : err;
}

/* ---- what a job kept: a tree with names ---- */

static fs_err walk_kept(int dir, int to, const char *shown, unsigned depth, struct fs_left_sum *sum);

static fs_err walk_directory(int dir, const char *name, int to, const char *shown, unsigned depth,
                             struct fs_left_sum *sum) {
  FS_AUTO_CLOSE int sub = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (sub < 0) return -errno;
  FS_AUTO_CLOSE fs_fd into = to < 0 ? -1 : open_dir(to, name);
  if (to >= 0 && into < 0) return tell_failed(shown, into);
  return walk_kept(sub, into, shown, depth - 1, sum);
}

/* Counts the files of a tree. Copies all of it, unless `to` is -1. `shown`: the path of `to`, for messages. */
static fs_err walk_kept(int dir, int to, const char *shown, unsigned depth, struct fs_left_sum *sum) {
  char path[PATH_MAX];
  DIR *d = depth == 0 ? NULL : fs_opendirat(dir, ".");
  fs_err err = depth == 0 ? -ELOOP : d ? 0 : -errno;
  for (const struct dirent *e; d && err == 0 && (e = readdir(d)) != NULL;) {
    struct stat st;
    if (fs_is_dot(e->d_name) || fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) continue;
    if (snprintf(path, sizeof(path), "%s/%s", shown, e->d_name) >= (int)sizeof(path)) err = -ENAMETOOLONG;
    if (err == 0 && S_ISDIR(st.st_mode)) {
      err = walk_directory(dir, e->d_name, to, path, depth, sum);
      continue;
    }
    if (S_ISREG(st.st_mode)) sum->files++, sum->bytes += (uint64_t)st.st_size;
    if (err == 0 && to >= 0)
      err = tell_failed(path,
                        S_ISREG(st.st_mode) ? copy_file(dir, e->d_name, to, e->d_name) : copy_link(dir, e->d_name, to));
  }
  if (d) closedir(d);
  return err;
}

/* ---- what a daemon left: numbers, and names beside them ---- */

struct left_name {
  struct left_name *next;
  uint64_t id, dir;
  bool split, whole; /* whole: the text is a path, not a name in `dir` */
  char *text;
};

static struct left_name *name_of(struct left_name **chain, uint64_t id, bool make) {
  struct left_name **at = &chain[id % FS_LEFT_CHAINS], *n = *at;
  while (n && n->id != id) n = n->next;
  if (n || !make || (n = calloc(1, sizeof(*n))) == NULL) return n;
  *n = (struct left_name){.next = *at, .id = id};
  return *at = n;
}

static void name_line(struct left_name **chain, const struct fs_control *c) {
  uint64_t id;
  const char *name = fs_control_get(c, "name"), *path = fs_control_get(c, "path");
  struct left_name *n = fs_control_get_u64(c, "id", &id) == 0 ? name_of(chain, id, true) : NULL;
  if (!n) return;
  if (strcmp(c->verb, "split") == 0) n->split = true;
  if (!name && !path) return;
  free(n->text);
  n->text = strdup(name ? name : path);
  n->whole = !name;
  n->dir = 0;
  (void)fs_control_get_u64(c, "dir", &n->dir);
}

static struct left_name **read_names(int spill) {
  struct left_name **chain = calloc(FS_LEFT_CHAINS, sizeof(*chain));
  int fd = openat(spill, FS_LEFT_NAMES, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  FILE *in = fd < 0 || !chain ? NULL : fdopen(fd, "r");
  FS_AUTO_FREE char *text = NULL;
  size_t room = 0;
  struct fs_control c;
  for (ssize_t n; in && (n = getline(&text, &room, in)) > 0;)
    if ((size_t)n < FS_CONTROL_LINE && fs_control_parse(text, (size_t)n, &c) == 0) name_line(chain, &c);
  if (in)
    fclose(in);
  else if (fd >= 0)
    close(fd);
  return chain;
}

static void free_names(struct left_name **chain) {
  for (uint32_t i = 0; chain && i < FS_LEFT_CHAINS; i++) {
    for (struct left_name *n = chain[i], *next; n; n = next) {
      next = n->next;
      free(n->text);
      free(n);
    }
  }
  free(chain);
}

/* No component leads out of the directory. */
static bool is_below(const char *path) {
  for (const char *p = path; p; p = strchr(p, '/')) {
    p += *p == '/';
    size_t n = strcspn(p, "/");
    if (n == 0 || (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.')))) return false;
  }
  return true;
}

/* The path of a file, put together from its end; false: it is not known. */
static bool path_of(struct left_name **chain, uint64_t id, char *out, size_t size) {
  char path[PATH_MAX];
  const struct left_name *n = name_of(chain, id, false);
  size_t at = sizeof(path) - 1;
  path[at] = '\0';
  for (unsigned depth = 0; n && n->text && depth < FS_LEFT_DEPTH; depth++) {
    size_t len = strlen(n->text), slash = path[at] != '\0' && len > 0;
    if (len + slash > at) return false;
    at -= len + slash;
    memcpy(path + at, n->text, len);
    if (slash) path[at + len] = '/';
    if (n->whole) return is_below(path + at) && snprintf(out, size, "%s", path + at) < (int)size;
    n = name_of(chain, n->dir, false);
  }
  return false;
}

static fs_err copy_to(int out, const char *name, int top, const char *path) {
  const char *slash = strrchr(path, '/');
  FS_AUTO_CLOSE fs_fd to = open_parent(top, path);
  return to < 0 ? to : copy_file(out, name, to, slash ? slash + 1 : path);
}

/* A file is in lost+found if it has no name, if it is not whole, or if something else has its name: that may have been
   given to another node's file meanwhile. */
static fs_err copy_left(int out, const char *name, int top, const char *path, bool whole, uint64_t *found) {
  char lost[PATH_MAX];
  *found += !path || !whole;
  if (path) {
    int n = snprintf(lost, sizeof(lost), "%s%s", whole ? "" : "lost+found/", path);
    fs_err err = n >= (int)sizeof(lost) ? -ENAMETOOLONG : copy_to(out, name, top, lost);
    if (err != -EEXIST && err != -ENOTDIR && err != -ELOOP && err != -EISDIR) return err;
    *found += whole;
  }
  snprintf(lost, sizeof(lost), "lost+found/%s", name);
  return copy_to(out, name, top, lost);
}

static fs_err left_copy(int spill, int top, const char *to, struct fs_left_sum *sum) {
  char path[PATH_MAX], full[2 * PATH_MAX];
  struct left_name **chain = read_names(spill);
  DIR *d = chain ? fs_opendirat(spill, FS_OUT_DIR) : NULL;
  fs_err err = d ? 0 : -ENOMEM;
  for (const struct dirent *e; d && err == 0 && (e = readdir(d)) != NULL;) {
    uint64_t id;
    struct stat st;
    if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode)) continue;
    bool number = strlen(e->d_name) == 16 && fs_unhex(e->d_name, (uint8_t *)&id, sizeof(id)) == 0;
    const struct left_name *n = number ? name_of(chain, id = __builtin_bswap64(id), false) : NULL;
    bool named = n && path_of(chain, id, path, sizeof(path));
    err = copy_left(dirfd(d), e->d_name, top, named ? path : NULL, n && !n->split, &sum->found);
    snprintf(full, sizeof(full), "%s/%s", to, named ? path : e->d_name);
    (void)tell_failed(full, err);
  }
  if (d) closedir(d);
  free_names(chain);
  return err;
}

/* ---- telling, and removing ---- */

/* All has its names on the disk when this returns 0. */
static fs_err copy_all(const struct fs_left_clean *c, int spill, const char *job, const char *to,
                       struct fs_left_sum *sum) {
  FS_AUTO_CLOSE int dir = open(c->to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return -errno;
  FS_AUTO_CLOSE fs_fd top = open_dir(dir, job);
  if (top < 0) return tell_failed(to, top);
  fs_err err = spill >= 0 ? left_copy(spill, top, to, sum)
                          : walk_kept(c->kept, top, to, FS_LEFT_DEPTH, &(struct fs_left_sum){0});
  return err == 0 && syncfs(dir) < 0 ? -errno : err;
}

bool fs_left_done(const struct fs_left_clean *c, int spill, const char *path, const char *job,
                  struct fs_left_sum *sum) {
  char shown[512], bytes[32], to[PATH_MAX], dest[512];
  fs_shown(path, shown, sizeof(shown));
  fs_format_size(sum->bytes, bytes, sizeof(bytes));
  const char *s = sum->files == 1 ? "" : "s";
  if (!c->remove) {
    fs_say("%s: %llu output%s (%s) of a job that is over: fs-launch clean --outputs removes %s, with --to DIR copies "
           "first",
           shown, (unsigned long long)sum->files, s, bytes, sum->files == 1 ? "it" : "them");
    return false;
  }
  fs_err err = 0;
  if (c->to && snprintf(to, sizeof(to), "%s/%s", c->to, job) >= (int)sizeof(to)) err = -ENAMETOOLONG;
  if (err == 0 && c->to) err = copy_all(c, spill, job, to, sum);
  if (err == 0) err = fs_remove_tree(path);
  if (err < 0) {
    if (c->failed) *c->failed = true;
    fs_say("%s: %s", shown, strerror(-err));
    return false;
  }
  fs_say("removed %s, with %llu output%s (%s)%s%s", shown, (unsigned long long)sum->files, s, bytes,
         c->to ? ", which are in " : "", c->to ? fs_shown(to, dest, sizeof(dest)) : "");
  if (sum->found > 0)
    fs_say("%llu of them have no name, not all of their bytes, or a name that was taken: they are in lost+found there",
           (unsigned long long)sum->found);
  return true;
}

static int clean_kept(void *ctx, const char *local) {
  struct fs_left_clean c = *(const struct fs_left_clean *)ctx;
  char base[PATH_MAX], path[2 * PATH_MAX];
  struct stat st;
  if (snprintf(base, sizeof(base), "%s/" FS_OUTPUTS_KEPT, local) >= (int)sizeof(base)) return 0;
  int fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *d = fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() ? fdopendir(fd) : NULL;
  if (!d && fd >= 0) close(fd);
  for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
    struct fs_left_sum sum = {0};
    if (strncmp(e->d_name, "job-", 4) != 0 || fs_job_lives(e->d_name)) continue;
    FS_AUTO_CLOSE int job = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (job < 0 || walk_kept(job, -1, "", FS_LEFT_DEPTH, &sum) < 0) continue;
    snprintf(path, sizeof(path), "%s/%s", base, e->d_name);
    c.kept = job;
    (void)fs_left_done(&c, -1, path, e->d_name, &sum);
  }
  if (d) closedir(d);
  if (d && c.remove) (void)rmdir(base);
  return 0;
}

void fs_kept_clean(const char *local, bool by_default, const struct fs_left_clean *c) {
  struct fs_left_clean copy = *c;
  if (by_default)
    fs_own_each(local, true, clean_kept, &copy);
  else
    (void)clean_kept(&copy, local);
}
