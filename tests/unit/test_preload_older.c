/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stand-ins for functions that an older glibc lacks do what the functions do, on whatever glibc the test runs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "preload/preload.h"

/* After the headers that it needs. */
#include <cmocka.h>

/* CALL(name)(arguments) calls the stand-in of a function of symbols.h. */
#define CALL(name) ((__typeof__(fs_real.name))fs_stand_in(#name))

static char directory[] = "/tmp/fs-older-XXXXXX";

static int start(void **state) {
  (void)state;
  return mkdtemp(directory) == NULL || chdir(directory) != 0;
}
static int end(void **state) {
  (void)state;
  return chdir("/") != 0 || rmdir(directory) != 0;
}

static void attributes(void **state) {
  (void)state;
  struct stat st, same;
  struct statx stx;
  int fd = open("file", O_RDWR | O_CREAT, 0640);
  assert_int_equal(7, write(fd, "1234567", 7));
  assert_int_equal(0, CALL(fstat)(fd, &st));
  assert_int_equal(7, st.st_size);
  assert_int_equal(0, CALL(fstatat)(AT_FDCWD, "file", &same, AT_SYMLINK_NOFOLLOW));
  assert_memory_equal(&st, &same, sizeof(st));
  assert_int_equal(0, CALL(statx)(AT_FDCWD, "file", 0, STATX_BASIC_STATS, &stx));
  assert_int_equal(st.st_ino, stx.stx_ino);
  errno = 0;
  assert_int_equal(-1, CALL(fstatat)(AT_FDCWD, "none", &same, 0));
  assert_int_equal(ENOENT, errno);
  close(fd);
  assert_int_equal(0, unlink("file"));
}

static void nodes(void **state) {
  (void)state;
  struct stat st;
  assert_int_equal(0, CALL(mknod)("pipe", S_IFIFO | 0600, 0));
  assert_int_equal(0, CALL(mknodat)(AT_FDCWD, "second", S_IFIFO | 0600, 0));
  assert_int_equal(0, stat("second", &st));
  assert_true(S_ISFIFO(st.st_mode));
  errno = 0;
  assert_int_equal(-1, CALL(renameat2)(AT_FDCWD, "pipe", AT_FDCWD, "second", 1 /* RENAME_NOREPLACE */));
  assert_int_equal(EEXIST, errno);
  assert_int_equal(0, CALL(renameat2)(AT_FDCWD, "pipe", AT_FDCWD, "second", 0));
  assert_int_equal(0, unlink("second"));
}

static void bytes(void **state) {
  (void)state;
  char text[8] = "", entries[1024];
  struct iovec out = {"abcdef", 6}, in = {text, 3};
  int from = CALL(memfd_create)("from", 0), to = CALL(memfd_create)("to", 0);
  off64_t at = 1;
  assert_true(from >= 0 && to >= 0);
  assert_int_equal(6, CALL(pwritev2)(from, &out, 1, 0, 0));
  assert_int_equal(3, CALL(preadv2)(from, &in, 1, 2, 0));
  assert_string_equal("cde", text);
  assert_int_equal(4, CALL(copy_file_range)(from, &at, to, NULL, 4, 0));
  assert_int_equal(4, pread(to, text, 7, 0));
  assert_memory_equal("bcde", text, 4);
  close(from);
  int dir = open(".", O_RDONLY | O_DIRECTORY);
  assert_true(CALL(getdents64)(dir, entries, sizeof(entries)) > 0);
  assert_int_equal(0, CALL(close_range)((unsigned)to, (unsigned)to, 0));
  assert_int_equal(-1, fcntl(to, F_GETFD));
  close(dir);
}

static void processes(void **state) {
  (void)state;
  int status, fd;
  pid_t pid = CALL(_Fork)();
  if (pid == 0) {
    CALL(execveat)(AT_FDCWD, "/bin/sh", (char *[]){"sh", "-c", "exit 7", NULL}, (char *[]){NULL}, 0);
    _exit(1);
  }
  fd = CALL(pidfd_open)(pid, 0);
  assert_true(fd >= 0);
  close(fd);
  assert_int_equal(pid, waitpid(pid, &status, 0));
  assert_int_equal(7, WEXITSTATUS(status));
}

static void *set(void *p) {
  *(int *)p = 1;
  return NULL;
}

/* Each also sets the pointer, so that the next call is the real function's. */
static void functions_that_moved(void **state) {
  (void)state;
  int master, slave, ran = 0;
  pthread_t thread;
  struct aiocb request = {.aio_fildes = -1};
  assert_int_equal(0, CALL(openpty)(&master, &slave, NULL, NULL, NULL));
  assert_true(isatty(slave));
  close(master);
  close(slave);
  assert_int_equal(0, CALL(pthread_create)(&thread, NULL, set, &ran));
  pthread_join(thread, NULL);
  assert_int_equal(1, ran);
  errno = 0;
  assert_int_equal(-1, CALL(shm_open)("/fs-older-none", O_RDONLY, 0));
  assert_int_equal(ENOENT, errno);
  assert_int_equal(-1, CALL(aio_cancel)(-1, &request));
  assert_int_equal(EBADF, errno);
  assert_ptr_not_equal(fs_real.shm_open, fs_stand_in("shm_open"));
}

static void what_cannot_be_done(void **state) {
  (void)state;
  errno = 0;
  assert_int_equal(-1, ((long (*)(void))fs_stand_in("no_such_function"))());
  assert_int_equal(ENOSYS, errno);
  assert_int_equal(ENOSYS, CALL(posix_spawn_file_actions_addchdir_np)(NULL, "/"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(attributes),
      cmocka_unit_test(nodes),
      cmocka_unit_test(bytes),
      cmocka_unit_test(processes),
      cmocka_unit_test(functions_that_moved),
      cmocka_unit_test(what_cannot_be_done),
  };
  return cmocka_run_group_tests(tests, start, end);
}
