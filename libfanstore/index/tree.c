/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The builder's tree: sorts the added entries breadth first, finds each entry's parent and
 * children, and joins hard links. Called once by fs_builder_finish. One thread.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "index/build.h"
#include "util/util.h"

fs_err fs_layout_refuse(const struct fs_layout *l, const char *text, const struct fs_node *node) {
  char shown[512];
  fs_printable(node->path, node->path_len, shown, sizeof(shown));
  if (l->why) snprintf(l->why, l->why_size, "'%s': %s", shown, text);
  return -EINVAL;
}

/* Compares a node's path with len bytes of another path of the same depth, by components: the end of
   a component comes before any byte of a longer name. */
static int fs_path_order(const struct fs_node *a, const char *path, uint32_t len) {
  uint32_t i = 0, n = FS_MIN((uint32_t)a->path_len, len);
  while (i < n && a->path[i] == path[i]) i++;
  if (i == n) return (a->path_len > len) - (a->path_len < len);
  unsigned x = a->path[i] == '/' ? 0 : (unsigned char)a->path[i], y = path[i] == '/' ? 0 : (unsigned char)path[i];
  return x < y ? -1 : 1;
}

static int fs_node_order(const void *pa, const void *pb) {
  const struct fs_node *a = *(struct fs_node *const *)pa, *b = *(struct fs_node *const *)pb;
  if (a->depth != b->depth) return a->depth < b->depth ? -1 : 1;
  return fs_path_order(a, b->path, b->path_len);
}

/*
 * Finds the parents. Parents are in the order of their first children, so one pass with two cursors
 * joins the levels: `up` goes over the possible parents, i over the entries.
 */
static fs_err fs_join_parents(struct fs_layout *l) {
  uint64_t up = 0;
  for (uint64_t i = 1; i < l->n; i++) {
    struct fs_node *node = l->sorted[i];
    uint32_t len = node->depth > 1 ? (uint32_t)(node->path_len - node->name_len - 1) : 0;
    while (up < i && (l->sorted[up]->depth + 1 < node->depth ||
                      (l->sorted[up]->depth + 1 == node->depth && fs_path_order(l->sorted[up], node->path, len) < 0)))
      up++;
    struct fs_node *parent = l->sorted[up];
    if (up == i || parent->depth + 1 != node->depth || fs_path_order(parent, node->path, len) != 0)
      return fs_layout_refuse(l, "its directory was not added", node);
    if (!S_ISDIR(parent->mode)) return fs_layout_refuse(l, "its parent is not a directory", node);
    if (parent->size++ == 0) parent->first = i;
    if (S_ISDIR(node->mode)) parent->nlink++;
    node->parent = (uint32_t)up;
  }
  return 0;
}

struct fs_member {
  uint64_t group;
  uint32_t entry;
};

static int fs_member_order(const void *pa, const void *pb) {
  const struct fs_member *a = pa, *b = pb;
  if (a->group != b->group) return a->group < b->group ? -1 : 1;
  return (a->entry > b->entry) - (a->entry < b->entry);
}

/* Joins the members [0, count) of one hard-link group, sorted by entry: all take the first one's
   inode. */
static fs_err fs_join_group(struct fs_layout *l, const struct fs_member *members, uint64_t count) {
  const struct fs_node *first = l->sorted[members[0].entry];
  for (uint64_t i = 0; i < count; i++) {
    struct fs_node *node = l->sorted[members[i].entry];
    if ((node->mode & S_IFMT) != (first->mode & S_IFMT) || node->size != first->size)
      return fs_layout_refuse(l, "differs in type or size from another hard link to it", node);
    node->nlink = (uint32_t)count;
    node->inode = members[0].entry;
  }
  l->nlinks += count - 1;
  return 0;
}

static bool fs_in_group(const struct fs_node *node) {
  return !S_ISDIR(node->mode) && node->group != 0;
}

static fs_err fs_join_links(struct fs_layout *l) {
  uint64_t count = 0;
  for (uint64_t i = 0; i < l->n; i++) count += fs_in_group(l->sorted[i]);
  if (count == 0) return 0;
  FS_AUTO_FREE struct fs_member *members = malloc(count * sizeof(*members));
  if (!members) return -ENOMEM;
  count = 0;
  for (uint64_t i = 0; i < l->n; i++) {
    if (fs_in_group(l->sorted[i])) members[count++] = (struct fs_member){l->sorted[i]->group, (uint32_t)i};
  }
  qsort(members, count, sizeof(*members), fs_member_order);
  for (uint64_t i = 0, end; i < count; i = end) {
    for (end = i + 1; end < count && members[end].group == members[i].group;) end++;
    fs_err err = fs_join_group(l, members + i, end - i);
    if (err < 0) return err;
  }
  return 0;
}

fs_err fs_layout_tree(struct fs_layout *l) {
  for (uint64_t i = 0; i < l->n; i++) l->sorted[i] = &l->b->nodes[i];
  uint64_t ordered = 1; /* fs-prepare adds entries in this order */
  while (ordered < l->n && fs_node_order(&l->sorted[ordered - 1], &l->sorted[ordered]) <= 0) ordered++;
  if (ordered < l->n) qsort(l->sorted, l->n, sizeof(*l->sorted), fs_node_order);
  if (l->n == 0 || l->sorted[0]->depth != 0 || !S_ISDIR(l->sorted[0]->mode)) {
    if (l->why) snprintf(l->why, l->why_size, "the root directory was not added");
    return -EINVAL;
  }
  for (uint64_t i = 0; i < l->n; i++) {
    struct fs_node *node = l->sorted[i];
    if (i > 0 && fs_node_order(&l->sorted[i - 1], &l->sorted[i]) == 0) return fs_layout_refuse(l, "added twice", node);
    node->nlink = S_ISDIR(node->mode) ? 2 : 1;
    node->inode = (uint32_t)i;
  }
  fs_err err = fs_join_parents(l);
  if (err == 0) err = fs_join_links(l);
  for (uint64_t i = 0; i < l->n && err == 0; i++)
    if (!S_ISDIR(l->sorted[i]->mode)) l->sorted[i]->first = 0; /* it was the group */
  return err;
}
