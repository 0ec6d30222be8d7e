/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See outpath.h. As in clients, a directory's remembered name is valid while ctl.tree is what it
 * was before the name was asked for.
 */
#include "daemon/outputs/outpath.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/metadata/ns.h"
#include "util/table.h"
#include "util/util.h"

struct fs_path_dir { /* an output directory */
  struct fs_table_link by_id;
  uint64_t id, parent, tree;
  char *name; /* NULL: unknown */
};

struct fs_path_walk {
  struct fs_daemon *d;
  uint64_t dir, id; /* the present question: the name of `id`, which was in `dir` (0: unknown) */
  uint64_t tree;
  bool above; /* `id` is a directory above the file */
  fs_path_done *done;
  void *ctx;
  size_t at; /* the path so far is path + at */
  char path[PATH_MAX];
};

static struct fs_table path_dirs; /* one daemon per process */

static struct fs_path_dir *fs_path_dir_find(uint64_t id) {
  struct fs_table_link *l = fs_table_find(&path_dirs, id);
  return l ? FS_ITEM(l, struct fs_path_dir, by_id) : NULL;
}

/* Returns NULL without memory: the directory is then asked for again when it is needed. */
static struct fs_path_dir *fs_path_dir_make(uint64_t id, uint64_t parent) {
  struct fs_path_dir *p = fs_path_dir_find(id);
  if (p || (p = calloc(1, sizeof(*p))) == NULL) return p;
  *p = (struct fs_path_dir){.id = id, .parent = parent};
  fs_table_add(&path_dirs, &p->by_id, id);
  return p;
}

void fs_path_parent(struct fs_daemon *d, uint64_t id, uint64_t parent) {
  (void)d;
  (void)fs_path_dir_make(id, parent);
}

static void fs_path_end(struct fs_path_walk *w, fs_err err) {
  w->done(w->ctx, err, err == 0 ? w->path + w->at : NULL);
  free(w);
}

static bool fs_path_prepend(struct fs_path_walk *w, const char *name, size_t len) {
  bool slash = w->path[w->at] != '\0';
  if (len + slash > w->at) return false;
  if (slash) w->path[--w->at] = '/';
  w->at -= len;
  memcpy(w->path + w->at, name, len);
  return true;
}

/* Prepends the path of the dataset's directory `dir`, and ends the walk. */
static void fs_path_dataset(struct fs_path_walk *w, uint64_t dir) {
  const struct fs_daemon *d = w->d;
  uint64_t dataset = (dir >> 32) - 1;
  char text[PATH_MAX];
  fs_ssize n = dir >> 32 != 0 && dataset < d->datasets
                   ? fs_index_path(&d->data[dataset].stage.index, (uint32_t)dir, text, sizeof(text))
                   : -EINVAL;
  const char *mount = n >= 0 ? d->data[dataset].mount + 1 : "";
  fs_err err = n < 0 ? (fs_err)n : 0;
  if (err == 0 && n > 0 && !fs_path_prepend(w, text, (size_t)n)) err = -ENAMETOOLONG;
  if (err == 0 && d->datasets > 1 && !fs_path_prepend(w, mount, strlen(mount))) err = -ENAMETOOLONG;
  fs_path_end(w, err);
}

static void fs_path_ask(struct fs_path_walk *w);

/* Prepends the names of w->dir and the directories above, up to one that must be asked for. */
static void fs_path_up(struct fs_path_walk *w) {
  uint64_t tree = atomic_load(&w->d->ctl->tree);
  while (w->dir & FS_OUTPUT_ID) {
    const struct fs_path_dir *p = fs_path_dir_find(w->dir);
    w->above = true;
    w->id = w->dir;
    w->dir = p ? p->parent : 0;
    if (!p || !p->name || p->tree != tree || (tree & FS_TREE_UNKNOWN)) {
      fs_path_ask(w);
      return;
    }
    if (!fs_path_prepend(w, p->name, strlen(p->name))) {
      fs_path_end(w, -ENAMETOOLONG);
      return;
    }
  }
  fs_path_dataset(w, w->dir);
}

static void fs_path_named(struct fs_path_walk *w, const struct fs_record *r) {
  w->dir = r->dir;
  struct fs_path_dir *p = w->above ? fs_path_dir_make(w->id, w->dir) : NULL;
  if (p) {
    p->parent = w->dir;
    free(p->name);
    p->name = strndup(fs_record_name(r), r->name_len);
    p->tree = w->tree;
  }
  if (fs_path_prepend(w, fs_record_name(r), r->name_len))
    fs_path_up(w);
  else
    fs_path_end(w, -ENAMETOOLONG);
}

static void fs_path_answered(void *ctx, fs_err err, const void *body, size_t n) {
  struct fs_path_walk *w = ctx;
  size_t at = 0;
  const struct fs_record *r = err == 0 ? fs_record_next(body, n, &at) : NULL;
  if (r)
    fs_path_named(w, r);
  else
    fs_path_end(w, err < 0 ? err : -EPROTO);
}

static void fs_path_ask(struct fs_path_walk *w) {
  w->tree = atomic_load(&w->d->ctl->tree);
  fs_ns_find(w->d->ns, w->d->now, w->id, w->dir, fs_path_answered, w);
}

void fs_path_find(struct fs_daemon *d, uint64_t dir, uint64_t id, fs_path_done *done, void *ctx) {
  struct fs_path_walk *w = malloc(sizeof(*w));
  if (!w) {
    done(ctx, -ENOMEM, NULL);
    return;
  }
  *w = (struct fs_path_walk){.d = d, .dir = dir, .id = id, .done = done, .ctx = ctx};
  w->at = sizeof(w->path) - 1;
  w->path[w->at] = '\0';
  fs_path_ask(w);
}
