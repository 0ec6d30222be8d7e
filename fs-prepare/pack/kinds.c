/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups the files of a tree into kinds, by suffix and top directory. A suffix that few directories
 * have is divided by directory, where each has much of it: they may be different things of one
 * suffix. Suffixes with few bytes share one kind. One thread.
 */
#include "kinds.h"

#include <stdlib.h>
#include <string.h>

#define DIRS_MOST 16u            /* a suffix in more directories is not divided: they are shards */
#define DIR_LEAST (512ull << 10) /* plain bytes of a directory's own kind */
#define KIND_LEAST (64ull << 10) /* plain bytes of a kind */

/* The files of one suffix below one top directory. The names lie in an item's path. */
struct group {
  const char *suffix, *top;
  uint32_t suffix_len, top_len;
  uint64_t files, bytes;
  uint32_t kind;
};

struct groups {
  struct group *group;
  size_t n, room;
  uint32_t *slot; /* number of a group + 1 */
  size_t nslots;  /* a power of two */
  size_t common;  /* length of the directory that has all files, with its slash */
};

static bool is_packed(const struct fs_item *item) {
  return S_ISREG(item->mode) && !item->alias && !item->kept && item->size != 0;
}

/* Returns the length of the longest directory, with its slash, that all packed files are below. */
static size_t find_common(const struct fs_tree *tree) {
  const char *first = NULL;
  size_t n = 0;
  for (size_t i = 0; i < tree->n; i++) {
    const char *path = tree->items[i].path;
    if (!is_packed(&tree->items[i])) continue;
    if (first == NULL) {
      first = path;
      n = strlen(path);
    }
    size_t same = 0;
    while (same < n && path[same] == first[same] && path[same] != '\0') same++;
    n = same;
    while (n > 0 && first[n - 1] != '/') n--;
  }
  return n;
}

static struct group group_of(const struct groups *g, const char *path) {
  const char *top = path + g->common, *end = strchr(top, '/');
  const size_t len = strlen(path), suffix = fs_suffix(path, len);
  return (struct group){.suffix = path + len - suffix,
                        .suffix_len = (uint32_t)suffix,
                        .top = top,
                        .top_len = end != NULL ? (uint32_t)(end - top) : 0};
}

static int by_text(const char *a, size_t n, const char *b, size_t m) {
  int c = memcmp(a, b, FS_MIN(n, m));
  return c != 0 ? c : n < m ? -1 : n > m;
}

static int by_key(const void *va, const void *vb) {
  const struct group *a = va, *b = vb;
  int c = by_text(a->suffix, a->suffix_len, b->suffix, b->suffix_len);
  return c != 0 ? c : by_text(a->top, a->top_len, b->top, b->top_len);
}

/* Returns the slot of a group, which may be empty. */
static uint32_t *slot_of(const struct groups *g, const struct group *key) {
  uint64_t hash = fs_xxh3(key->suffix, key->suffix_len) * 31 + fs_xxh3(key->top, key->top_len);
  size_t i = hash & (g->nslots - 1);
  while (g->slot[i] != 0 && by_key(&g->group[g->slot[i] - 1], key) != 0) i = (i + 1) & (g->nslots - 1);
  return &g->slot[i];
}

/* Makes room for one more group. */
static fs_err grow(struct groups *g) {
  if (g->n < g->room) return 0;
  const size_t room = FS_MAX(2 * g->room, (size_t)64), nslots = 2 * room;
  struct group *more = realloc(g->group, room * sizeof *more);
  if (more == NULL) return -ENOMEM;
  g->group = more;
  uint32_t *slot = calloc(nslots, sizeof *slot);
  if (slot == NULL) return -ENOMEM;
  free(g->slot);
  g->slot = slot;
  g->nslots = nslots;
  g->room = room;
  for (size_t i = 0; i < g->n; i++) *slot_of(g, &g->group[i]) = (uint32_t)i + 1;
  return 0;
}

static fs_err count(struct groups *g, const struct fs_tree *tree) {
  g->common = find_common(tree);
  for (size_t i = 0; i < tree->n; i++) {
    const struct fs_item *item = &tree->items[i];
    if (!is_packed(item)) continue;
    fs_err err = grow(g);
    if (err < 0) return err;
    struct group key = group_of(g, item->path);
    uint32_t *slot = slot_of(g, &key);
    if (*slot == 0) {
      g->group[g->n++] = key;
      *slot = (uint32_t)g->n;
    }
    struct group *group = &g->group[*slot - 1];
    group->files++;
    group->bytes += item->size;
  }
  return 0;
}

/* ---- from groups to kinds ---- */

/* One or more groups of a suffix that could be a kind. */
struct proposal {
  uint64_t bytes;
  size_t first; /* the first of its groups */
  bool own;     /* one directory's */
};

static int by_bytes(const void *va, const void *vb) {
  const struct proposal *a = va, *b = vb;
  if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
  return a->first < b->first ? -1 : a->first > b->first;
}

/* Divides the groups [from, to) of one suffix. group.kind becomes the number of a proposal, which is
   that of its first group. */
static void propose(struct groups *g, size_t from, size_t to, struct proposal *p) {
  size_t rest = to;
  for (size_t i = from; i < to; i++) {
    struct group *group = &g->group[i];
    bool own = to - from > 1 && to - from <= DIRS_MOST && group->bytes >= DIR_LEAST;
    if (!own && rest == to) rest = i;
    group->kind = (uint32_t)(own ? i : rest);
    p[group->kind].first = group->kind;
    p[group->kind].own = own;
    p[group->kind].bytes += group->bytes;
  }
}

static char *name_of(const struct group *group, bool own) {
  char *name = NULL;
  const int suffix = (int)group->suffix_len, top = own ? (int)group->top_len : 0;
  int n = asprintf(&name, "%s%.*s%s%.*s", suffix > 0 ? "*." : "no suffix", suffix, group->suffix, top > 0 ? " in " : "",
                   top, group->top);
  return n < 0 ? NULL : name;
}

/* Makes kinds of the largest proposals. All other groups are the last kind. */
static fs_err make_kinds(struct fs_kinds *kinds, struct groups *g, struct proposal *p, uint32_t *kind_of) {
  qsort(p, g->n, sizeof *p, by_bytes);
  uint32_t n = 0;
  while (n < g->n && n < FS_KINDS_MAX - 1 && p[n].bytes >= KIND_LEAST) n++;
  kinds->kind = calloc(n + 1, sizeof *kinds->kind);
  if (kinds->kind == NULL) return -ENOMEM;
  kinds->n = n + 1;
  for (size_t i = 0; i < g->n && p[i].bytes > 0; i++) kind_of[p[i].first] = (uint32_t)FS_MIN(i, (size_t)n);
  for (uint32_t i = 0; i <= n; i++) {
    kinds->kind[i].name = i < n ? name_of(&g->group[p[i].first], p[i].own) : strdup("others");
    if (kinds->kind[i].name == NULL) return -ENOMEM;
  }
  for (size_t i = 0; i < g->n; i++) {
    struct group *group = &g->group[i];
    group->kind = kind_of[group->kind];
    struct fs_kind *kind = &kinds->kind[group->kind];
    kind->files += group->files;
    kind->bytes += group->bytes;
  }
  return 0;
}

/* Sorts the groups, so that all depends on names only, and makes kinds of them. */
static fs_err divide(struct fs_kinds *kinds, struct groups *g) {
  FS_AUTO_FREE struct proposal *p = calloc(g->n + 1, sizeof *p);
  FS_AUTO_FREE uint32_t *kind_of = calloc(g->n + 1, sizeof *kind_of);
  if (p == NULL || kind_of == NULL) return -ENOMEM;
  if (g->n > 0) qsort(g->group, g->n, sizeof *g->group, by_key);
  for (size_t from = 0, to; from < g->n; from = to) {
    const struct group *first = &g->group[from];
    for (to = from + 1; to < g->n; to++)
      if (by_text(first->suffix, first->suffix_len, g->group[to].suffix, g->group[to].suffix_len) != 0) break;
    propose(g, from, to, p);
  }
  return make_kinds(kinds, g, p, kind_of);
}

/* The slots are those of groups before they were sorted. */
static void assign(struct groups *g, struct fs_tree *tree) {
  memset(g->slot, 0, g->nslots * sizeof *g->slot);
  for (size_t i = 0; i < g->n; i++) *slot_of(g, &g->group[i]) = (uint32_t)i + 1;
  for (size_t i = 0; i < tree->n; i++) {
    struct fs_item *item = &tree->items[i];
    if (!is_packed(item)) continue;
    struct group key = group_of(g, item->path);
    item->kind = (uint8_t)g->group[*slot_of(g, &key) - 1].kind;
  }
}

fs_err fs_kinds_group(struct fs_kinds *kinds, struct fs_tree *tree) {
  struct groups g = {0};
  fs_err err = grow(&g);
  if (err == 0) err = count(&g, tree);
  if (err == 0) err = divide(kinds, &g);
  if (err == 0) assign(&g, tree);
  free(g.group);
  free(g.slot);
  return err;
}

void fs_kinds_free(struct fs_kinds *kinds) {
  for (uint32_t i = 0; i < kinds->n; i++) {
    free(kinds->kind[i].name);
    fs_verdict_release(&kinds->kind[i].verdict);
  }
  free(kinds->kind);
  *kinds = (struct fs_kinds){0};
}
