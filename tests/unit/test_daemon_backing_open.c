/* SPDX-License-Identifier: BSD-3-Clause */
/* Backing files that their modes let nobody open: opened all the same, and with the same modes afterwards. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/outputs/backing.h"
#include "util/sys.h"

#define NOBODY 65534

static struct fs_daemon d;
static const mode_t modes[] = {0, 0100, 0200, 0400, 0600, 0044, 01077, 01200};

static void make(uint64_t id, mode_t mode) {
  char name[FS_BACKING_NAME_SIZE];
  int fd = openat(d.backing_fd, fs_backing_name(id, name), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  assert_true(fd >= 0 && write(fd, "bytes", 5) == 5 && fchmod(fd, mode) == 0);
  close(fd);
}

static mode_t mode_of(uint64_t id) {
  char name[FS_BACKING_NAME_SIZE];
  struct stat st;
  assert_int_equal(fstatat(d.backing_fd, fs_backing_name(id, name), &st, AT_SYMLINK_NOFOLLOW), 0);
  return st.st_mode & 07777;
}

static void test_modes(void **state) {
  (void)state;
  char buf[8];
  for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
    make(i, modes[i]);
    fs_fd fd = fs_backing_file_open(&d, i, O_RDONLY);
    assert_true(fd >= 0 && read(fd, buf, sizeof(buf)) == 5);
    assert_true(write(fd, "x", 1) < 0);
    close(fd);
    assert_int_equal(mode_of(i), modes[i]);
    fd = fs_backing_file_open(&d, i, O_WRONLY | O_APPEND);
    assert_true(fd >= 0 && write(fd, "+", 1) == 1 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
    close(fd);
    fd = fs_backing_file_open(&d, i, O_RDWR);
    assert_true(fd >= 0 && read(fd, buf, sizeof(buf)) == 6 && memcmp(buf, "bytes+", 6) == 0);
    close(fd);
    assert_int_equal(mode_of(i), modes[i]);
  }
}

/* The bytes that go with the answer to OPEN: all of a small file, or none. */
static void test_small(void **state) {
  (void)state;
  char bytes[FS_OPEN_BYTES_MOST];
  struct fs_opened held = {.id = 900, .own = 5, .size = 5};
  make(900, 0600);
  assert_int_equal(fs_backing_small(&d, &held, bytes), 5);
  assert_memory_equal(bytes, "bytes", 5);
  const struct fs_opened none[] = {{.id = 900},
                                   {.id = 900, .own = 4, .size = 4}, /* it has grown since */
                                   {.id = 900, .own = 6, .size = 6}, /* it has become shorter */
                                   {.id = 900, .own = 5, .size = 6},
                                   {.id = 900, .own = 5, .size = 5, .segments = 1},
                                   {.id = 901, .own = 5, .size = 5}};
  for (unsigned i = 0; i < sizeof(none) / sizeof(none[0]); i++)
    assert_int_equal(fs_backing_small(&d, &none[i], bytes), 0);
  char name[FS_BACKING_NAME_SIZE];
  int fd = openat(d.backing_fd, fs_backing_name(900, name), O_WRONLY | O_CLOEXEC);
  assert_true(fd >= 0);
  for (unsigned more = 0; more < 2; more++) {
    held.own = held.size = FS_OPEN_BYTES_MOST + more;
    assert_int_equal(ftruncate(fd, (off_t)held.own), 0);
    assert_int_equal(fs_backing_small(&d, &held, bytes), more ? 0 : FS_OPEN_BYTES_MOST);
  }
  close(fd);
}

static void test_refused(void **state) {
  (void)state;
  char name[FS_BACKING_NAME_SIZE], target[FS_BACKING_NAME_SIZE];
  assert_int_equal(fs_backing_file_open(&d, 1000, O_RDONLY), -ENOENT);
  make(1001, 0);
  assert_int_equal(symlinkat(fs_backing_name(1001, target), d.backing_fd, fs_backing_name(1002, name)), 0);
  assert_int_equal(fs_backing_file_open(&d, 1002, O_RDONLY), -ELOOP);
  assert_int_equal(mkdirat(d.backing_fd, fs_backing_name(1003, name), 0), 0);
  if (geteuid() != 0) assert_int_equal(fs_backing_file_open(&d, 1003, O_RDONLY), -EACCES);
}

static void *open_often(void *flags) {
  for (unsigned i = 0; i < 500; i++) {
    fs_fd fd = fs_backing_file_open(&d, 2000, *(const int *)flags);
    if (fd < 0) return (void *)(intptr_t)fd;
    fs_sys_close(fd); /* as the library does: ThreadSanitizer should see all of a number's closes, or none */
  }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  static const int flags[] = {O_RDONLY, O_WRONLY, O_RDWR, O_RDONLY};
  pthread_t thread[4];
  make(2000, 0);
  for (unsigned i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&thread[i], NULL, open_often, (void *)(uintptr_t)&flags[i]), 0);
  for (unsigned i = 0; i < 4; i++) {
    void *err;
    assert_int_equal(pthread_join(thread[i], &err), 0);
    assert_null(err);
  }
  assert_int_equal(mode_of(2000), 0);
}

/* Root may open anything. */
static int setup(void **state) {
  static char dir[PATH_MAX];
  const char *tmp = getenv("TMPDIR");
  (void)state;
  snprintf(dir, sizeof(dir), "%s/backing_open.XXXXXX", tmp ? tmp : "/tmp");
  if (!mkdtemp(dir) || (d.backing_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) return -1;
  *state = dir;
  if (mkdirat(d.backing_fd, FS_OUTPUT_DIR, 0700) < 0) return -1;
  if (geteuid() != 0) return 0;
  if (fchownat(d.backing_fd, FS_OUTPUT_DIR, NOBODY, NOBODY, 0) < 0 || fchown(d.backing_fd, NOBODY, NOBODY) < 0)
    return -1;
  return setegid(NOBODY) < 0 || seteuid(NOBODY) < 0 ? -1 : 0;
}

static int teardown(void **state) {
  static const uint64_t others[] = {1001, 1002, 2000};
  char name[FS_BACKING_NAME_SIZE];
  if (getuid() == 0 && (seteuid(0) < 0 || setegid(0) < 0)) return -1;
  for (uint64_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) unlinkat(d.backing_fd, fs_backing_name(i, name), 0);
  for (unsigned i = 0; i < 3; i++) unlinkat(d.backing_fd, fs_backing_name(others[i], name), 0);
  unlinkat(d.backing_fd, fs_backing_name(1003, name), AT_REMOVEDIR);
  unlinkat(d.backing_fd, FS_OUTPUT_DIR, AT_REMOVEDIR);
  close(d.backing_fd);
  return rmdir(*state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_modes),
      cmocka_unit_test(test_small),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
