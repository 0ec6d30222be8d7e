/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the names that a killed daemon has left (ipc/left.h, left.c): one table of files and
   directories by id, and one of names without bytes. One thread. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/control.h"
#include "ipc/left.h"
#include "left_priv.h"

#define FS_LEFT_CHAINS 65536u
#define FS_LEFT_DEPTH 256u

struct left_name {
  struct left_name *next;
  uint64_t id, dir;
  bool split, whole; /* whole: `name` is a path, not a name in `dir` */
  char *text;
};

struct left_other {
  struct left_other *next;
  uint64_t id, dir;
  char *name, *target; /* target: NULL for a directory */
};

struct fs_left_names {
  struct left_name *name[FS_LEFT_CHAINS];
  struct left_other *other[FS_LEFT_CHAINS];
};

static struct left_name *name_of(const struct fs_left_names *n, uint64_t id) {
  struct left_name *e = n->name[id % FS_LEFT_CHAINS];
  while (e && e->id != id) e = e->next;
  return e;
}

static struct left_name *make_name(struct fs_left_names *n, uint64_t id) {
  struct left_name *e = name_of(n, id), **chain = &n->name[id % FS_LEFT_CHAINS];
  if (e || (e = calloc(1, sizeof(*e))) == NULL) return e;
  *e = (struct left_name){.next = *chain, .id = id};
  return *chain = e;
}

static void free_other(struct left_other *e) {
  free(e->name);
  free(e->target);
  free(e);
}

/* Applies a line about a symlink or directory: the last line about an id is valid. */
static fs_err other_line(struct fs_left_names *n, const struct fs_control *c, uint64_t id, uint64_t dir) {
  const char *name = fs_control_get(c, "name"), *target = fs_control_get(c, "target");
  bool put = name && ((target && target[0]) || fs_control_get(c, "made"));
  struct left_other **at = &n->other[id % FS_LEFT_CHAINS], *e;
  if (!put && strcmp(c->verb, "gone") != 0) return 0;
  while ((e = *at) != NULL && (e->id != id || e->dir != dir)) at = &e->next;
  if (e) {
    *at = e->next;
    free_other(e);
  }
  if (!put) return 0;
  e = calloc(1, sizeof(*e));
  if (!e) return -ENOMEM;
  *e = (struct left_other){
      .next = *at, .id = id, .dir = dir, .name = strdup(name), .target = target ? strdup(target) : NULL};
  *at = e;
  return e->name && (!target || e->target) ? 0 : -ENOMEM;
}

static fs_err name_line(struct fs_left_names *n, const struct fs_control *c) {
  uint64_t id, dir = 0;
  const char *name = fs_control_get(c, "name"), *path = fs_control_get(c, "path");
  if (fs_control_get_u64(c, "id", &id) < 0) return 0;
  (void)fs_control_get_u64(c, "dir", &dir);
  fs_err err = other_line(n, c, id, dir);
  bool split = strcmp(c->verb, "split") == 0;
  if (err < 0 || (!split && !name && !path)) return err;
  struct left_name *e = make_name(n, id);
  char *text = name || path ? strdup(name ? name : path) : NULL;
  if (!e || (!split && !text)) {
    free(text);
    return -ENOMEM;
  }
  e->split = e->split || split;
  if (!text) return 0;
  free(e->text);
  e->text = text;
  e->whole = !name;
  e->dir = dir;
  return 0;
}

fs_err fs_left_names_read(int backing, struct fs_left_names **out) {
  struct fs_left_names *n = *out = calloc(1, sizeof(*n));
  int fd = openat(backing, FS_LEFT_NAMES, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
  FS_AUTO_FREE char *text = NULL;
  size_t room = 0;
  struct fs_control c;
  fs_err err = !n ? -ENOMEM : in ? 0 : -errno;
  for (ssize_t got; err == 0 && (got = getline(&text, &room, in)) > 0;)
    if ((size_t)got < FS_CONTROL_LINE && fs_control_parse(text, (size_t)got, &c) == 0) err = name_line(n, &c);
  if (err == 0 && ferror(in)) err = -EIO;
  if (in)
    fclose(in);
  else if (fd >= 0)
    close(fd);
  return err;
}

void fs_left_names_free(struct fs_left_names *n) {
  for (uint32_t i = 0; n && i < FS_LEFT_CHAINS; i++) {
    for (struct left_name *e = n->name[i], *next; e; e = next) {
      next = e->next;
      free(e->text);
      free(e);
    }
    for (struct left_other *e = n->other[i], *next; e; e = next) {
      next = e->next;
      free_other(e);
    }
  }
  free(n);
}

bool fs_left_names_split(const struct fs_left_names *n, uint64_t id) {
  const struct left_name *e = name_of(n, id);
  return e && e->split;
}

/* Returns true if no component leads out of the directory. */
static bool is_below(const char *path) {
  for (const char *p = path; p; p = strchr(p, '/')) {
    p += *p == '/';
    size_t n = strcspn(p, "/");
    if (n == 0 || (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.')))) return false;
  }
  return true;
}

/* Makes a path from its end. `tail` is the part below `id`, or "". */
static bool path_of(const struct fs_left_names *names, uint64_t id, const char *tail, char *out, size_t size) {
  char path[PATH_MAX];
  const struct left_name *n = name_of(names, id);
  size_t at = sizeof(path) - 1 - FS_MIN(strlen(tail), sizeof(path) - 1);
  memcpy(path + at, tail, sizeof(path) - 1 - at);
  path[sizeof(path) - 1] = '\0';
  for (unsigned depth = 0; n && n->text && depth < FS_LEFT_DEPTH; depth++) {
    size_t len = strlen(n->text), slash = path[at] != '\0' && len > 0;
    if (len + slash > at) return false;
    at -= len + slash;
    memcpy(path + at, n->text, len);
    if (slash) path[at + len] = '/';
    if (n->whole) return is_below(path + at) && snprintf(out, size, "%s", path + at) < (int)size;
    n = name_of(names, n->dir);
  }
  return false;
}

bool fs_left_names_path(const struct fs_left_names *n, uint64_t id, char *out, size_t size) {
  return path_of(n, id, "", out, size);
}

fs_err fs_left_names_others(const struct fs_left_names *n,
                            fs_err (*visit)(void *ctx, uint64_t id, const char *path, const char *target), void *ctx) {
  char path[PATH_MAX];
  fs_err err = 0;
  for (uint32_t i = 0; i < FS_LEFT_CHAINS; i++)
    for (const struct left_other *e = n->other[i]; e && err == 0; e = e->next)
      err = visit(ctx, e->id, path_of(n, e->dir, e->name, path, sizeof(path)) ? path : NULL, e->target);
  return err;
}
