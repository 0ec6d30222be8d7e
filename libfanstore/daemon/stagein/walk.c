/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Walks through --stage-in's directory, once on each rank. A thread of its own does that, as the
 * directory may be large and far away. All ranks read all directories. The hash of a path decides
 * which rank takes the name, so that each file is taken once without messages. A bounded number of
 * items waits for the MPI thread.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/stagein/stagein.h"
#include "util/util.h"

#define FS_IN_WAITING 1024u
#define FS_IN_OWN ".fanstore-" /* names that --stage-out uses itself */

struct fs_in_walk {
  struct fs_stagein *in;
  struct fs_in_dir **stack; /* directories still to be read */
  size_t n, room;
};

/* ---- what is handed over ---- */

static void fs_in_push(struct fs_stagein *in, struct fs_in_item *item) {
  pthread_mutex_lock(&in->lock);
  while (in->waiting >= FS_IN_WAITING) pthread_cond_wait(&in->room, &in->lock);
  fs_chain_push(&in->found, &item->chain);
  in->waiting++;
  pthread_mutex_unlock(&in->lock);
}

static void fs_in_leave(struct fs_stagein *in, struct fs_in_left *left, const char *path, fs_err why) {
  pthread_mutex_lock(&in->lock);
  if (left->count++ == 0) {
    left->why = why;
    snprintf(left->name, sizeof(left->name), "%s", path);
  }
  pthread_mutex_unlock(&in->lock);
}

/* ---- which is whose ---- */

static bool fs_in_mine(const struct fs_stagein *in, const char *path) {
  return fs_xxh3(path, strlen(path)) % in->d->net->nodes == in->d->net->rank;
}

/* Returns the dataset's number if the path is a mount, FS_MAX_DATASETS if it is above one, else
   -1. With one dataset there are no mounts below the root. */
static int fs_in_mount(const struct fs_daemon *d, const char *path) {
  size_t n = strlen(path);
  int found = -1;
  for (uint32_t i = 0; d->datasets > 1 && i < d->datasets; i++) {
    const char *mount = d->data[i].mount + 1;
    if (strncmp(mount, path, n) != 0) continue;
    if (mount[n] == '\0') return (int)i;
    if (mount[n] == '/') found = FS_MAX_DATASETS;
  }
  return found;
}

/* Returns the dataset's entry of a name in one of its directories, or -ENOENT. */
static int64_t fs_in_entry(const struct fs_daemon *d, const struct fs_in_dir *dir, const char *name) {
  uint64_t dataset = (dir->id >> 32) - 1;
  if (dir->id == 0 || (dir->id & FS_OUTPUT_ID) || dataset >= d->datasets) return -ENOENT;
  return fs_index_child(&d->data[dataset].stage.index, (uint32_t)dir->id, name, strlen(name));
}

static bool fs_in_is_dir(const struct fs_daemon *d, const struct fs_in_dir *dir, int64_t entry) {
  const struct fs_entry *e = fs_index_entry(&d->data[(dir->id >> 32) - 1].stage.index, (uint64_t)entry);
  return e && S_ISDIR(e->mode);
}

/* ---- directories ---- */

static fs_err fs_in_add(struct fs_in_walk *w, struct fs_in_dir *dir) {
  if (w->n == w->room) {
    size_t room = w->room ? 2 * w->room : 256;
    struct fs_in_dir **grown = realloc(w->stack, room * sizeof(struct fs_in_dir *));
    if (!grown) return -ENOMEM;
    w->stack = grown;
    w->room = room;
  }
  w->stack[w->n++] = dir;
  return 0;
}

static fs_err fs_in_dir_new(struct fs_in_walk *w, struct fs_in_dir *parent, const char *path, uint64_t id, bool above) {
  size_t n = strlen(path) + 1;
  struct fs_in_dir *dir = calloc(1, sizeof(*dir) + n);
  if (!dir) return -ENOMEM;
  memcpy(dir->path, path, n);
  char *slash = strrchr(dir->path, '/');
  dir->self = (struct fs_in_item){.in = w->in, .dir = parent, .name = slash ? slash + 1 : dir->path};
  dir->id = id;
  dir->above = above;
  fs_chain_init(&dir->self.chain);
  fs_chain_init(&dir->waiting);
  return fs_in_add(w, dir);
}

static fs_err fs_in_found_dir(struct fs_in_walk *w, struct fs_in_dir *dir, const char *path, const char *name) {
  struct fs_stagein *in = w->in;
  int mount = fs_in_mount(in->d, path);
  int64_t entry = fs_in_entry(in->d, dir, name);
  if (mount >= 0 && mount < (int)FS_MAX_DATASETS)
    return fs_in_dir_new(w, dir, path, FS_DATASET_DIR((uint64_t)mount, FS_ROOT), false);
  if (entry >= 0 && fs_in_is_dir(in->d, dir, entry))
    return fs_in_dir_new(w, dir, path, FS_DATASET_DIR((dir->id >> 32) - 1, (uint64_t)entry), false);
  if (mount >= 0) return fs_in_dir_new(w, dir, path, 0, true);
  if (entry < 0 && !dir->above) return fs_in_dir_new(w, dir, path, 0, false);
  if (fs_in_mine(in, path)) fs_in_leave(in, entry >= 0 ? &in->dataset : &in->odd, path, -EXDEV);
  return 0;
}

/* ---- files and symlinks ---- */

static char *fs_in_link(int fd, const char *name, fs_err *err) {
  char target[PATH_MAX];
  ssize_t n = readlinkat(fd, name, target, sizeof(target) - 1);
  char *copy = n > 0 ? strndup(target, (size_t)n) : NULL;
  *err = n < 0 ? -errno : copy ? 0 : -ENOMEM;
  return copy;
}

static fs_err fs_in_readable(int fd, const char *name, const struct stat *st) {
  if (!S_ISREG(st->st_mode)) return S_ISLNK(st->st_mode) ? 0 : -EOPNOTSUPP;
  return faccessat(fd, name, R_OK, AT_EACCESS) < 0 ? -errno : 0;
}

/* Returns true if each node has its own file of that name. */
static bool fs_in_node_local(const struct fs_daemon *d, const char *name) {
  for (uint32_t i = 0; i < d->cfg->node_locals; i++)
    if (fs_glob_match(d->cfg->node_local[i], name)) return true;
  return false;
}

/* Returns true if a file has the type, size and mtime of the dataset's: then it is taken for a copy
   of that, and the dataset's is used. */
static bool fs_in_same(const struct fs_daemon *d, const struct fs_in_dir *dir, const char *name,
                       const struct stat *st) {
  struct stat own;
  fs_index_stat(&d->data[(dir->id >> 32) - 1].stage.index, (uint32_t)fs_in_entry(d, dir, name), &own);
  return S_ISREG(st->st_mode) && S_ISREG(own.st_mode) && st->st_size == own.st_size &&
         st->st_mtim.tv_sec == own.st_mtim.tv_sec && st->st_mtim.tv_nsec == own.st_mtim.tv_nsec;
}

/* Takes a name that is this rank's. `takes` says that the dataset has the name too. */
static fs_err fs_in_take(struct fs_in_walk *w, struct fs_in_dir *dir, int fd, const char *name, bool takes) {
  struct fs_in_item item = {.in = w->in, .dir = dir, .takes = takes}, *made;
  if (fstatat(fd, name, &item.st, AT_SYMLINK_NOFOLLOW) < 0) return -errno;
  if (takes && fs_in_same(w->in->d, dir, name, &item.st)) return 0;
  if (S_ISREG(item.st.st_mode) && fs_in_node_local(w->in->d, name)) return 0;
  fs_err err = fs_in_readable(fd, name, &item.st);
  if (err == 0 && S_ISLNK(item.st.st_mode)) item.target = fs_in_link(fd, name, &err);
  if (err == 0 && S_ISREG(item.st.st_mode)) err = fs_stagein_link(w->in, &item, fd, name);
  if (err < 0) return err;
  size_t n = strlen(name) + 1;
  made = malloc(sizeof(*made) + n);
  if (!made) {
    free(item.target);
    return -ENOMEM;
  }
  *made = item;
  made->name = memcpy(made + 1, name, n);
  fs_chain_init(&made->chain);
  fs_in_push(w->in, made);
  return 0;
}

static void fs_in_found_other(struct fs_in_walk *w, struct fs_in_dir *dir, int fd, const char *path, const char *name) {
  struct fs_stagein *in = w->in;
  if (!fs_in_mine(in, path)) return;
  int64_t entry = fs_in_entry(in->d, dir, name);
  bool takes = entry >= 0 && in->d->cfg->overlay && !fs_in_is_dir(in->d, dir, entry);
  if ((entry >= 0 && !takes) || fs_in_mount(in->d, path) >= 0) {
    fs_in_leave(in, &in->dataset, path, -EROFS);
    return;
  }
  fs_err err = dir->above ? -EXDEV : fs_in_take(w, dir, fd, name, takes);
  if (err < 0) fs_in_leave(in, &in->odd, path, err);
}

/* ---- the walk ---- */

static bool fs_in_directory(int fd, const struct dirent *e) {
  struct stat st;
  if (e->d_type != DT_UNKNOWN) return e->d_type == DT_DIR;
  return fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static fs_err fs_in_name(struct fs_in_walk *w, struct fs_in_dir *dir, int fd, const struct dirent *e) {
  char path[PATH_MAX];
  if (fs_is_dot(e->d_name) || strncmp(e->d_name, FS_IN_OWN, strlen(FS_IN_OWN)) == 0) return 0;
  int n = snprintf(path, sizeof(path), "%s%s%s", dir->path, dir->path[0] != '\0' ? "/" : "", e->d_name);
  if (n + strlen(w->in->dir) + 2 > sizeof(path)) { /* the file's path would be too long */
    fs_in_leave(w->in, &w->in->odd, path, -ENAMETOOLONG);
    return 0;
  }
  if (fs_in_directory(fd, e)) return fs_in_found_dir(w, dir, path, e->d_name);
  fs_in_found_other(w, dir, fd, path, e->d_name);
  return 0;
}

static fs_err fs_in_read(struct fs_in_walk *w, struct fs_in_dir *dir) {
  struct fs_stagein *in = w->in;
  const char *path = dir->path[0] != '\0' ? dir->path : ".";
  int fd = openat(in->fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  DIR *stream = fd < 0 || fstat(fd, &dir->self.st) < 0 ? NULL : fdopendir(fd);
  fs_err err = stream ? 0 : -errno;
  if (!stream) {
    if (fd >= 0) close(fd);
    if (dir->path[0] == '\0') return err;
    if (fs_in_mine(in, dir->path)) fs_in_leave(in, &in->odd, dir->path, err);
    return 0;
  }
  dir->mine = dir->id == 0 && !dir->above && fs_in_mine(in, dir->path);
  if (dir->mine) fs_in_push(in, &dir->self);
  for (const struct dirent *e; err == 0 && (errno = 0, e = readdir(stream)) != NULL;) err = fs_in_name(w, dir, fd, e);
  if (err == 0 && errno != 0) err = -errno;
  closedir(stream);
  return err;
}

void *fs_stagein_walk(void *arg) {
  struct fs_in_walk w = {.in = arg};
  struct fs_stagein *in = w.in;
  bool one = in->d->datasets == 1;
  fs_err err = fs_in_dir_new(&w, NULL, "", one ? FS_DATASET_DIR(0ull, FS_ROOT) : 0, !one);
  while (err == 0 && w.n > 0) err = fs_in_read(&w, w.stack[--w.n]);
  free(w.stack);
  pthread_mutex_lock(&in->lock);
  in->err = err;
  in->walked = true;
  pthread_mutex_unlock(&in->lock);
  return NULL;
}
