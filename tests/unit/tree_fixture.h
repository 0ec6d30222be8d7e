/* SPDX-License-Identifier: BSD-3-Clause */
/* The data fixture's dataset with directories and symlinks of every kind added. Shared by the tests of paths and files.
 */
#ifndef FS_TEST_TREE_FIXTURE_H
#define FS_TEST_TREE_FIXTURE_H

#include "data_fixture.h"

static const struct fs_build_file tree_more[] = {
    {.path = "", .mode = S_IFDIR | 0755},
    {.path = "d", .mode = S_IFDIR | 0755},
    {.path = "d/e", .mode = S_IFDIR | 0755},
    {.path = "d/e/deep", .mode = S_IFREG | 0755},
    {.path = "secret", .mode = S_IFREG | 0200},
    {.path = "to-small", .mode = S_IFLNK | 0777, .target = "d/small"},
    {.path = "to-d", .mode = S_IFLNK | 0777, .target = "d"},
    {.path = "d/up", .mode = S_IFLNK | 0777, .target = "../empty"},
    {.path = "back-in", .mode = S_IFLNK | 0777, .target = FIX_MOUNT "/d/e"},
    {.path = "out", .mode = S_IFLNK | 0777, .target = "/etc/passwd"},
    {.path = "out-dir", .mode = S_IFLNK | 0777, .target = "../../etc"},
    {.path = "dangling", .mode = S_IFLNK | 0777, .target = "none"},
    {.path = "loop-a", .mode = S_IFLNK | 0777, .target = "loop-b"},
    {.path = "loop-b", .mode = S_IFLNK | 0777, .target = "loop-a"},
};

static inline int tree_setup(void **state) {
  struct fix *f = calloc(1, sizeof(*f));
  const char *tmp = getenv("TMPDIR");
  snprintf(f->dir, sizeof(f->dir), "%.200s/fanstore-test-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(f->dir));
  snprintf(f->dataset, sizeof(f->dataset), "%s/dataset", f->dir);
  assert_int_equal(mkdir(f->dataset, 0700), 0);
  struct fs_builder *b = fs_builder_new(FIX_BS, FS_ALIGN);
  for (uint32_t p = 0; p < FIX_PARTS; p++) {
    f->part[p] = calloc(1, FIX_PART_ROOM);
    f->part_size[p] = FS_PART_HEADER_SIZE;
  }
  for (unsigned i = 0; i < FS_ARRAY_LEN(tree_more); i++) {
    struct fs_build_file file = tree_more[i];
    if (file.target != NULL) file.size = strlen(file.target);
    assert_int_equal(fs_builder_add(b, &file), 0);
  }
  for (unsigned id = 0; id < FIX_COUNT; id++) fix_add(f, b, id);
  fix_finish(f, b);
  fs_builder_free(b);
  *state = f;
  return 0;
}

#endif
