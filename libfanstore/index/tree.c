/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The builder's tree: sorts added entries breadth first, finds each entry's parent, and joins hard
 * links. Called once in each run of the builder. One thread.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "index/build.h"
#include "util/util.h"

/* An entry and what its path says. */
struct fs_named {
  struct fs_build_file f;
  size_t len;
  uint32_t depth; /* components of the path */
};

fs_err fs_layout_refuse(const struct fs_layout *l, const char *text, const struct fs_build_file *f) {
  char shown[512];
  fs_printable(f->path, strlen(f->path), shown, sizeof(shown));
  if (l->why) snprintf(l->why, l->why_size, "'%s': %s", shown, text);
  return -EINVAL;
}

static uint32_t fs_depth(const char *path) {
  uint32_t depth = *path != '\0';
  while ((path = strchr(path, '/'))) depth++, path++;
  return depth;
}

static void fs_named_get(const struct fs_layout *l, uint64_t i, struct fs_named *to) {
  fs_layout_get(l, i, &to->f);
  to->len = strlen(to->f.path);
  to->depth = fs_depth(to->f.path);
}

/* Compares two paths of the same depth, by components: the end of a component comes before any byte
   of a longer name. */
static int fs_path_order(const char *a, size_t n, const char *b, size_t m) {
  size_t i = 0, least = FS_MIN(n, m);
  while (i < least && a[i] == b[i]) i++;
  if (i == least) return (n > m) - (n < m);
  unsigned x = a[i] == '/' ? 0 : (unsigned char)a[i], y = b[i] == '/' ? 0 : (unsigned char)b[i];
  return x < y ? -1 : 1;
}

static int fs_named_order(const struct fs_named *a, const struct fs_named *b) {
  if (a->depth != b->depth) return a->depth < b->depth ? -1 : 1;
  return fs_path_order(a->f.path, a->len, b->f.path, b->len);
}

static int fs_added_order(const void *pa, const void *pb, void *ctx) {
  const struct fs_layout *l = ctx;
  const char *a = l->b->added[*(const uint32_t *)pa].path, *b = l->b->added[*(const uint32_t *)pb].path;
  const uint32_t x = fs_depth(a), y = fs_depth(b);
  return x != y ? (x > y) - (x < y) : fs_path_order(a, strlen(a), b, strlen(b));
}

static fs_err fs_sort_added(struct fs_layout *l) {
  l->sorted = malloc((l->n + 1) * sizeof(*l->sorted));
  if (!l->sorted) return -ENOMEM;
  for (uint64_t i = 0; i < l->n; i++) l->sorted[i] = (uint32_t)i;
  qsort_r(l->sorted, l->n, sizeof(*l->sorted), fs_added_order, l);
  return 0;
}

/*
 * Checks each entry, and finds its parent. Parents are in the order of their first children, so one
 * pass with two cursors joins the levels: `up` goes over the possible parents, i over the entries.
 */
static fs_err fs_join_parents(struct fs_layout *l) {
  struct fs_named last, one, above;
  uint64_t up = 0;
  fs_named_get(l, 0, &last);
  above = last;
  for (uint64_t i = 1; i < l->n; i++, last = one) {
    fs_named_get(l, i, &one);
    const char *bad = fs_builder_refuses(l->b, &one.f);
    if (bad) return fs_layout_refuse(l, bad, &one.f);
    const int order = fs_named_order(&last, &one);
    if (order >= 0) return fs_layout_refuse(l, order == 0 ? "added twice" : "is not in order", &one.f);
    const uint32_t name = fs_name_len(one.f.path, one.len);
    const size_t len = one.len > name ? one.len - name - 1 : 0;
    while (above.depth + 1 < one.depth ||
           (above.depth + 1 == one.depth && fs_path_order(above.f.path, above.len, one.f.path, len) < 0)) {
      if (++up == i) break;
      fs_named_get(l, up, &above);
    }
    if (up == i || above.depth + 1 != one.depth || fs_path_order(above.f.path, above.len, one.f.path, len) != 0)
      return fs_layout_refuse(l, "its directory was not added", &one.f);
    if (!S_ISDIR(above.f.mode)) return fs_layout_refuse(l, "its parent is not a directory", &one.f);
    l->parent[i] = (uint32_t)up;
    l->hdr.max_depth = one.depth;
  }
  return 0;
}

static int fs_group_order(const void *pa, const void *pb) {
  const struct fs_member *a = pa, *b = pb;
  if (a->data != b->data) return a->data < b->data ? -1 : 1;
  return (a->entry > b->entry) - (a->entry < b->entry);
}

static int fs_entry_order(const void *pa, const void *pb) {
  const struct fs_member *a = pa, *b = pb;
  return (a->entry > b->entry) - (a->entry < b->entry);
}

static uint64_t fs_real_size(const struct fs_build_file *f) {
  return S_ISLNK(f->mode) ? strlen(f->target) : f->size;
}

/* Joins `count` members of one hard-link group, sorted by entry: all take the first one's inode. */
static fs_err fs_join_group(struct fs_layout *l, struct fs_member *members, uint64_t count) {
  struct fs_build_file first, f;
  fs_layout_get(l, members[0].entry, &first);
  for (uint64_t i = 0; i < count; i++) {
    fs_layout_get(l, members[i].entry, &f);
    if ((f.mode & S_IFMT) != (first.mode & S_IFMT) || fs_real_size(&f) != fs_real_size(&first))
      return fs_layout_refuse(l, "differs in type or size from another hard link to it", &f);
    members[i].nlink = (uint32_t)count;
    members[i].inode = members[0].entry;
  }
  l->nlinks += count - 1;
  return 0;
}

/* Collects the entries with a group. Stores them if there is room, else counts them. */
static void fs_find_members(struct fs_layout *l) {
  struct fs_build_file f;
  l->nmembers = 0;
  for (uint64_t i = 0; i < l->n; i++) {
    fs_layout_get(l, i, &f);
    if (f.inode_group == 0) continue;
    if (l->members) l->members[l->nmembers] = (struct fs_member){.data = f.inode_group, .entry = (uint32_t)i};
    l->nmembers++;
  }
}

static fs_err fs_join_links(struct fs_layout *l) {
  fs_find_members(l);
  l->members = malloc((l->nmembers + 1) * sizeof(*l->members)); /* not NULL without members either */
  if (!l->members) return -ENOMEM;
  fs_find_members(l);
  qsort(l->members, l->nmembers, sizeof(*l->members), fs_group_order);
  for (uint64_t i = 0, end; i < l->nmembers; i = end) {
    for (end = i + 1; end < l->nmembers && l->members[end].data == l->members[i].data;) end++;
    fs_err err = fs_join_group(l, l->members + i, end - i);
    if (err < 0) return err;
  }
  qsort(l->members, l->nmembers, sizeof(*l->members), fs_entry_order);
  return 0;
}

struct fs_member *fs_layout_member(const struct fs_layout *l, uint64_t entry) {
  uint64_t from = 0, to = l->nmembers;
  while (from < to) {
    uint64_t mid = from + (to - from) / 2;
    if (l->members[mid].entry < entry)
      from = mid + 1;
    else
      to = mid;
  }
  return l->members + from;
}

fs_err fs_layout_tree(struct fs_layout *l) {
  struct fs_build_file root = {.path = "x"};
  fs_err err = l->b->get ? 0 : fs_sort_added(l);
  if (err < 0) return err;
  l->parent = calloc(l->n + 1, sizeof(*l->parent));
  if (!l->parent) return -ENOMEM;
  if (l->n > 0) fs_layout_get(l, 0, &root);
  if (root.path[0] != '\0' || !S_ISDIR(root.mode) || fs_builder_refuses(l->b, &root)) {
    if (l->why) snprintf(l->why, l->why_size, "the root directory was not added");
    return -EINVAL;
  }
  err = fs_join_parents(l);
  return err < 0 ? err : fs_join_links(l);
}
