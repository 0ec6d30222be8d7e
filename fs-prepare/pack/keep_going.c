/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What --keep-going leaves out: names that the walk cannot pack, and files that cannot be read or
 * change while they are packed. Called by pack's main thread, and by the walk at its end.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pack.h"

#define NAMED 10u /* on stderr */

fs_err fs_left_out_add(struct fs_left_out *l, const struct fs_source *src, const char *path, const char *why) {
  if (fs_grow(&l->list, &l->room, l->n, sizeof *l->list) < 0) return -ENOMEM;
  struct fs_left one = {.source = src != NULL ? src->path : NULL, .skip = src != NULL ? src->skip : 0};
  const bool prefix = src != NULL && src->prefix[0] != '\0';
  if (asprintf(&one.path, "%s%s%s", prefix ? src->prefix : "", prefix ? "/" : "", path) < 0) return -ENOMEM;
  one.why = strdup(why);
  l->list[l->n++] = one;
  return one.why != NULL ? 0 : -ENOMEM;
}

fs_err fs_left_out_take(struct fs_left_out *l, const struct fs_source *src, struct fs_problems *p) {
  fs_err err = 0;
  for (size_t i = 0; i < p->n && err == 0; i++) err = fs_left_out_add(l, src, p->problem[i].path, p->problem[i].what);
  fs_problems_free(p);
  return err;
}

void fs_left_out_free(struct fs_left_out *l) {
  for (size_t i = 0; i < l->n; i++) {
    free(l->list[i].path);
    free(l->list[i].why);
  }
  free(l->list);
  *l = (struct fs_left_out){0};
}

static int by_path(const void *a, const void *b) {
  return strcmp(((const struct fs_left *)a)->path, ((const struct fs_left *)b)->path);
}

/* Returns true if what was left out has no name of its own, as after a damaged header of an archive. */
static bool is_nameless(const struct fs_left *e) {
  return e->source != NULL && e->path[e->skip] == '\0';
}

static fs_err write_one(FILE *out, const struct fs_left *e) {
  FS_AUTO_FREE char *why = NULL;
  if (asprintf(&why, "%s%s%s", is_nameless(e) ? e->source : "", is_nameless(e) ? " " : "", e->why) < 0) return -ENOMEM;
  fputs("{\"path\": ", out);
  fs_json_string(out, e->path);
  fputs(", \"why\": ", out);
  fs_json_string(out, why);
  fputs("}\n", out);
  return 0;
}

/* Tries whether the file can be opened, and makes none: SOURCE may be above it. Keeps what is in it. */
fs_err fs_left_out_check(const struct fs_pack_options *o) {
  if (o->left_out == NULL) return 0;
  FS_AUTO_CLOSE int fd = open(o->left_out, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd >= 0 || errno == ENXIO) return 0; /* a pipe that nobody reads yet */
  char dir[PATH_MAX];
  const char *slash = strrchr(o->left_out, '/');
  snprintf(dir, sizeof dir, "%.*s", slash == NULL ? 1 : (int)(slash - o->left_out) + 1,
           slash == NULL ? "." : o->left_out);
  if (errno == ENOENT && access(dir, W_OK | X_OK) == 0) return 0;
  fs_err err = -errno;
  fs_say("--left-out '%s': cannot be opened: %s", o->left_out, strerror(errno));
  return err;
}

fs_err fs_left_out_write(struct fs_left_out *l, const struct fs_pack_options *o) {
  if (o->left_out == NULL) return 0;
  FILE *out = fopen(o->left_out, "we");
  bool failed = out == NULL;
  if (l->n != 0) qsort(l->list, l->n, sizeof *l->list, by_path);
  for (size_t i = 0; i < l->n && !failed; i++) failed = write_one(out, &l->list[i]) < 0;
  failed |= out != NULL && (ferror(out) != 0 || fflush(out) != 0);
  if (out != NULL) fclose(out);
  if (failed) fs_say("--left-out '%s': cannot be written: %s", o->left_out, strerror(errno));
  return failed ? -EIO : 0;
}

void fs_left_out_name(struct fs_left_out *l) {
  if (l->n != 0) qsort(l->list, l->n, sizeof *l->list, by_path);
  for (size_t i = 0; i < l->n && i < NAMED; i++) {
    const struct fs_left *e = &l->list[i];
    const bool slash = e->source != NULL && !is_nameless(e);
    fs_say("%s%s%s %s", e->source != NULL ? e->source : "", slash ? "/" : "", e->path + e->skip, e->why);
  }
  if (l->n > NAMED) fs_say("and %zu more", l->n - NAMED);
}

void fs_left_out_say(struct fs_left_out *l) {
  fs_left_out_name(l);
  if (l->n != 0) fs_say("%zu of SOURCE's names %s left out of the dataset", l->n, l->n == 1 ? "was" : "were");
}

/* The dataset must not become empty because SOURCE has gone. */
static fs_err check_any(const struct fs_plan *plan) {
  if (plan->left_out < plan->files) return 0;
  fs_say("%s: none of its %llu file%s can be read", plan->tree->sources[0].path, (unsigned long long)plan->files,
         fs_plural(plan->files));
  return -EIO;
}

fs_err fs_plan_leave_out_again(struct fs_plan *plan, uint64_t number, fs_err err) {
  struct fs_item *item = &plan->tree->items[number];
  struct fs_left_out *l = &plan->tree->left_out;
  const struct fs_source *src = &plan->tree->sources[item->source];
  char error[128];
  item->left_out = true;
  fs_item_drop_blocks(&plan->tree->blocks, item);
  plan->left_out++;
  snprintf(error, sizeof error, "cannot be read: %s", strerror(-err));
  const bool damaged = err == -EBADMSG && fs_item_stream(plan->tree, item) != NULL;
  const char *why = damaged ? "is damaged" : err == -ESTALE ? "changed while it was being packed" : error;
  fs_err added = fs_left_out_add(l, src, item->path + src->skip, why);
  if (added < 0) return added;
  l->list[l->n - 1].item = number;
  l->list[l->n - 1].err = err;
  return check_any(plan);
}

fs_err fs_plan_leave_out(struct fs_plan *plan, uint64_t number, fs_err err) {
  struct fs_item *item = &plan->tree->items[number];
  if (!plan->opts->keep_going || err == -ENOMEM || err == -EMFILE || err == -ENFILE) {
    fs_item_say(plan, item, err);
    return err;
  }
  if (item->left_out) return 0; /* another chunk of it */
  const bool damaged = err == -EBADMSG && fs_item_stream(plan->tree, item) != NULL;
  return fs_plan_leave_out_again(plan, number, damaged ? err : fs_item_error(plan, item, err));
}

/* Returns the item that has the content of an alias. */
static struct fs_item *content_of(const struct fs_tree *tree, struct fs_item *item) {
  while (item->alias) item = &tree->items[item->same];
  return item;
}

/*
 * The content of an alias was left out. The first such alias of it is packed instead, and the others
 * become its aliases. The field `same` of the content, which is no alias itself, keeps which one. A
 * stream is not read again: all aliases of its members are left out.
 */
fs_ssize fs_plan_again(struct fs_plan *plan) {
  const struct fs_tree *tree = plan->tree;
  plan->norder = 0;
  if (plan->left_out == 0) return 0;
  for (uint64_t i = 0; i < tree->n; i++) {
    struct fs_item *item = &tree->items[i], *content = content_of(tree, item);
    if (content == item || !content->left_out || item->left_out) continue;
    if (fs_item_stream(tree, content) != NULL) {
      fs_err err = fs_plan_leave_out(plan, i, -EBADMSG);
      if (err < 0) return err;
      continue;
    }
    if (content->same != 0) {
      item->same = content->same - 1;
      continue;
    }
    content->same = (uint32_t)i + 1;
    item->alias = false;
    item->same = 0;
    plan->order[plan->norder++] = (uint32_t)i;
  }
  return (fs_ssize)plan->norder;
}
