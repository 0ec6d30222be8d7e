/* SPDX-License-Identifier: BSD-3-Clause */
/* The first pass over an archive: whatever it has, the items are a tree of clean names. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../fs-prepare/pack/pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(const char *path) {
  if (path[0] == '/' || strlen(path) >= PATH_MAX) abort();
  for (const char *p = path; *p != '\0';) {
    const size_t n = strcspn(p, "/");
    if (n == 0 || n > FS_NAME_MAX || (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.')))) abort();
    p += n;
    if (*p == '/' && *++p == '\0') abort();
  }
}

static int by_path(const void *a, const void *b) {
  return fs_path_compare(((const struct fs_item *)a)->path, ((const struct fs_item *)b)->path);
}

static void check(const struct fs_tree *tree) {
  qsort(tree->items, tree->n, sizeof(*tree->items), by_path);
  if (tree->n == 0 || tree->items[0].path[0] != '\0' || !S_ISDIR(tree->items[0].mode)) abort();
  for (size_t i = 0; i < tree->n; i++) {
    const struct fs_item *item = &tree->items[i];
    check_name(item->path);
    if (i != 0 && fs_path_compare(tree->items[i - 1].path, item->path) >= 0) abort();
    if (!S_ISREG(item->mode) && !S_ISDIR(item->mode) && !S_ISLNK(item->mode)) abort();
    if ((item->target != NULL) != S_ISLNK(item->mode) || item->depth != fs_path_depth(item->path)) abort();
    if (item->mtime_nsec >= 1000000000) abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fs_source_arg arg = {.path = "archive"};
  const struct fs_pack_options o = {.sources = &arg, .nsources = 1, .jobs = 1, .keep_going = true, .dataset = "ds"};
  struct fs_tree tree = {.sources = calloc(1, sizeof(*tree.sources)), .nsources = 1};
  struct fs_source *src = tree.sources;
  if (!src) return 0;
  *src = (struct fs_source){.path = arg.path, .fd = memfd_create("archive", MFD_CLOEXEC)};
  char why[128];
  bool made = src->fd >= 0 && fs_write_full(src->fd, data, size) == 0 && fs_sys_fstat(src->fd, &src->st) == 0;
  if (made && fs_archive_probe(src, why, sizeof(why)) > 0 && fs_sources_collect(&o, &tree) == 0) check(&tree);
  fs_tree_free(&tree);
  return 0;
}
