/* SPDX-License-Identifier: BSD-3-Clause */
/* What the walk does with names that cannot be packed, when all of them are known. One thread. */
#include <stdlib.h>
#include <string.h>

#include "links.h"

int fs_walk_problem_order(const void *a, const void *b) {
  return strcmp(((const struct fs_walk_problem *)a)->path, ((const struct fs_walk_problem *)b)->path);
}

fs_err fs_say_problems(const char *source, const struct fs_walk_problems *p) {
  const struct fs_walk_problem *all = p->all;
  size_t total = p->n;
  if (total == 0) return 0;
  for (size_t i = 0; i < total && i < 10; i++) fs_say("%s/%s %s", source, all[i].path, all[i].what);
  if (total > 10) fs_say("and %zu more", total - 10);
  fs_say("%zu of SOURCE's names cannot be packed; remove them, make them readable, or leave them out with --exclude",
         total);
  return -EPERM;
}

bool fs_in_problem(const struct fs_walk_problems *p, const char *path) {
  char part[PATH_MAX];
  struct fs_walk_problem key = {.path = part};
  for (size_t n = 0;; n++) {
    if (path[n] == '/' || path[n] == '\0') {
      part[n] = '\0';
      const struct fs_walk_problem *found = bsearch(&key, p->all, p->n, sizeof *p->all, fs_walk_problem_order);
      if (found != NULL && found->dir) return true;
    }
    if (path[n] == '\0') return false;
    part[n] = path[n];
  }
}

fs_err fs_leave_out_problems(struct fs_tree *tree, uint32_t source, const struct fs_walk_problems *p) {
  const struct fs_source *src = &tree->sources[source];
  size_t kept = 0, skip = src->skip;
  for (size_t i = 0; i < p->n; i++) {
    fs_err err = fs_left_out_add(&tree->left_out, src, p->all[i].path, p->all[i].what);
    if (err < 0) return err;
  }
  for (size_t i = 0; i < tree->n; i++) {
    struct fs_item *item = &tree->items[i];
    if (item->source != source || strlen(item->path) < skip || !fs_in_problem(p, item->path + skip))
      tree->items[kept++] = *item;
  }
  tree->n = kept;
  return 0;
}
