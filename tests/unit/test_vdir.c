/* SPDX-License-Identifier: BSD-3-Clause */
/* Directories that exist only above mounts, of several mounts below one another; no dataset is needed for them. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/files/files.h"
#include "client/path/path.h"
#include "client/path/vdir.h"

#define TOP "/fanstore-none"
#define MOUNTS TOP "/a/m:" TOP "/a/b/n:" TOP "/a/m/x/y/z:" TOP "/a-b:" TOP "/a/b/o"

static void text_of(uint32_t mount, uint32_t entry, const char *want) {
  char path[PATH_MAX];
  assert_int_equal(fs_path_of(mount, entry, path, sizeof(path)), (int)strlen(want));
  assert_string_equal(path, want);
}

static void test_finding(void **state) {
  const char *const above[] = {TOP, TOP "/a", TOP "/a/b", TOP "/a/m", TOP "/a/m/x", TOP "/a/m/x/y"};
  const char *const not_above[] = {TOP "/b", TOP "/a/", TOP "/a/m/x/y/z", TOP "/a-b", TOP "/a/b/n", "/fanstore-non"};
  uint32_t mount, entry;
  (void)state;
  assert_int_equal(fs_mount_count(), 5);
  for (unsigned i = 0; i < FS_ARRAY_LEN(above); i++) {
    assert_true(fs_vdir_find(above[i], strlen(above[i]), &mount, &entry));
    assert_true(fs_is_vdir(entry) && fs_vdir_missing(above[i], strlen(above[i]), &mount, &entry));
    text_of(mount, entry, above[i]);
  }
  for (unsigned i = 0; i < FS_ARRAY_LEN(not_above); i++)
    assert_false(fs_vdir_find(not_above[i], strlen(not_above[i]), &mount, &entry));
  assert_true(fs_vdir_find("", 0, &mount, &entry));
  assert_false(fs_vdir_missing("", 0, &mount, &entry)); /* the root is there */
}

static void expect_children(const char *dir, const char *want) {
  char all[200] = "";
  const char *name;
  size_t n;
  for (uint32_t i = 0; (n = fs_vdir_child(dir, strlen(dir), i, &name)) > 0; i++)
    sprintf(all + strlen(all), "%.*s ", (int)n, name);
  assert_string_equal(all, want);
}

static void test_children(void **state) {
  (void)state;
  expect_children("", "fanstore-none ");
  expect_children(TOP, "a a-b ");
  expect_children(TOP "/a", "m b ");
  expect_children(TOP "/a/b", "n o ");
  expect_children(TOP "/a/m", "x ");
  expect_children(TOP "/a/m/x/y/z", "");
  expect_children(TOP "/none", "");
  assert_int_equal(fs_vdir_mount_at(TOP "/a", strlen(TOP "/a"), "m", 1), 0);
  assert_int_equal(fs_vdir_mount_at(TOP "/a", strlen(TOP "/a"), "b", 1), -1);
  assert_true(fs_vdir_component("x", 1) && fs_vdir_component("fanstore-none", 13) && !fs_vdir_component("fanstore", 8));
  assert_true(fs_vdir_component("a-b", 3) && !fs_vdir_component("a-c", 3) && !fs_vdir_component("", 0));
  assert_true(fs_vdir_on_way(TOP) && fs_vdir_on_way(TOP "/a/b") && fs_vdir_on_way(TOP "/other/name"));
  assert_false(fs_vdir_on_way("/fanstore-non") || fs_vdir_on_way("/fanstore-none2/a") || fs_vdir_on_way("/"));
  assert_false(fs_vdir_on_way("/tmp/fanstore-none") || fs_vdir_on_way(""));
}

/* "/" is where the ways to all mounts begin; told by the number that its listing has for ".". */
static void test_edges(void **state) {
  const char *path;
  size_t len;
  (void)state;
  DIR *d = opendir("/"), *other = opendir("/proc");
  const struct dirent *e;
  while ((e = readdir(d)) != NULL && strcmp(e->d_name, ".") != 0) continue;
  assert_true(e != NULL && fs_vdir_edge_dot(e->d_ino) && !fs_vdir_edge_dot(e->d_ino + 1) && !fs_vdir_edge_dot(0));
  assert_true(fs_vdir_edge(dirfd(d), &path, &len) && len == 0 && !fs_vdir_edge(dirfd(other), &path, &len));
  closedir(d);
  closedir(other);
}

static void test_deepest_mount(void **state) {
  size_t rest;
  (void)state;
  assert_int_equal(fs_mount_above(TOP "/a/m/x/y/z/f", strlen(TOP "/a/m/x/y/z/f"), &rest), 2);
  assert_string_equal(&(TOP "/a/m/x/y/z/f")[rest], "f");
  assert_int_equal(fs_mount_above(TOP "/a/m/x/y", strlen(TOP "/a/m/x/y"), &rest), 0);
  assert_string_equal(&(TOP "/a/m/x/y")[rest], "x/y");
  assert_int_equal(fs_mount_above(TOP "/a/m", strlen(TOP "/a/m"), &rest), 0);
  assert_int_equal(rest, strlen(TOP "/a/m"));
  assert_int_equal(fs_mount_above(TOP "/a", strlen(TOP "/a"), &rest), -1);
  assert_true(fs_mount_list[0].outer && !fs_mount_list[1].outer && !fs_mount_list[2].outer);
}

/* Numbers may come from shared memory: none is believed. */
static void test_bad_numbers(void **state) {
  const uint32_t bad[] = {FS_VDIR, FS_VDIR | 1, FS_VDIR | (sizeof(TOP "/a/m") - 1), FS_VDIR | 4000, UINT32_MAX, 0};
  struct fs_dirent_view view;
  struct stat st;
  const char *path;
  size_t len;
  (void)state;
  for (unsigned i = 0; i < FS_ARRAY_LEN(bad); i++) assert_false(fs_vdir_path(0, bad[i], &path, &len));
  assert_false(fs_vdir_path(5, FS_VDIR | (sizeof(TOP) - 1), &path, &len));
  assert_int_equal(fs_vdir_stat(0, FS_VDIR | 2, &st), -EUCLEAN);
  assert_int_equal(fs_dir_record(0, FS_VDIR | 2, 2, &view), -EUCLEAN);
}

static void test_as_files(void **state) {
  struct fs_found f;
  struct fs_dirent_view view;
  struct stat st, up;
  char buf[8];
  (void)state;
  assert_true(fs_vdir_find(TOP "/a", strlen(TOP "/a"), &f.mount, &f.entry));
  f.last = FS_LAST_NAME;
  assert_int_equal(fs_file_stat(f.mount, f.entry, &st), 0);
  assert_true(S_ISDIR(st.st_mode) && st.st_nlink == 4 && st.st_uid == 0);
  assert_int_equal(fs_file_access(f.mount, f.entry, R_OK | X_OK), 0);
  assert_int_equal(fs_file_access(f.mount, f.entry, W_OK), -EROFS);
  assert_int_equal(fs_file_readlink(f.mount, f.entry, buf, sizeof(buf)), -EINVAL);
  assert_int_equal(fs_file_open(FS_IN, &f, O_WRONLY), -EISDIR);
  assert_int_equal(fs_data_materialize_checked(f.mount, f.entry), -EISDIR);
  assert_int_equal(fs_dir_record(f.mount, f.entry, 1, &view), 0);
  assert_true(fs_vdir_find(TOP, strlen(TOP), &f.mount, &f.entry) && fs_file_stat(f.mount, f.entry, &up) == 0);
  assert_true(view.ino == up.st_ino && up.st_ino != st.st_ino && up.st_dev == st.st_dev);
  int fd = fs_file_open(FS_IN, &f, O_RDONLY | O_DIRECTORY);
  assert_true(fd > 2);
  assert_int_equal(fs_path_route(fd, "a/b", 0, &f), FS_IN);
  text_of(f.mount, f.entry, TOP "/a/b");
  assert_int_equal(fs_path_route(fd, "new", 0, &f), FS_NEW);
  text_of(f.mount, f.entry, TOP);
  assert_int_equal(fs_path_route(fd, "new/x", 0, &f), -ENOENT);
  assert_int_equal(fs_fd_close(fd), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_finding), cmocka_unit_test(test_children),    cmocka_unit_test(test_deepest_mount),
      cmocka_unit_test(test_edges),   cmocka_unit_test(test_bad_numbers), cmocka_unit_test(test_as_files),
  };
  unsetenv("FANSTORE_STATE");
  setenv("FANSTORE_DATASET", "none:none:none:none:none", 1);
  setenv("FANSTORE_MOUNT", MOUNTS, 1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
