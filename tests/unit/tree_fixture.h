/* SPDX-License-Identifier: BSD-3-Clause */
/* The data fixture's dataset with directories and symlinks of every kind added. Shared by the tests of paths and files.
 */
#ifndef FS_TEST_TREE_FIXTURE_H
#define FS_TEST_TREE_FIXTURE_H

#include "client/files/files.h"
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
  struct fs_builder *b;
  struct fix *f = fix_begin(&b);
  for (unsigned i = 0; i < FS_ARRAY_LEN(tree_more); i++) {
    struct fs_build_file file = tree_more[i];
    if (file.target != NULL) file.size = strlen(file.target);
    assert_int_equal(fs_builder_add(b, &file), 0);
  }
  return fix_end(f, b, state);
}

static inline int open_small(int flags) {
  struct fs_found found = {.mount = 0, .entry = fix_entry(FIX_SMALL)};
  return fs_file_open(FS_IN, &found, flags);
}

#endif
