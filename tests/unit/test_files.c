/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls on files and directories of a dataset give what a read-only file system gives. */
#include <dirent.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <termios.h> /* TCGETS needs it on ppc64le */

#include "client/files/files.h"
#include "tree_fixture.h"
#include "util/machine.h"

static struct fs_found at(const char *name) {
  fs_err err;
  const struct fs_index *ix = fs_mount_index(0, &err);
  CHECK(ix != NULL);
  int64_t e = fs_index_lookup(ix, name, strlen(name));
  CHECK(e >= 0);
  return (struct fs_found){.mount = 0, .entry = (uint32_t)e};
}

static int open_at(const char *name, int flags) {
  struct fs_found found = at(name);
  return fs_file_open(FS_IN, &found, flags);
}

static struct fs_slot *slot_of(const char *name) {
  struct fs_slot *s = fs_fd_slot(open_at(name, O_RDONLY));
  CHECK(s != NULL);
  return s;
}

static void opening(const struct fix *f) {
  struct fs_found found = at("d");
  (void)f;
  CHECK(open_at("d/small", O_WRONLY) == -EROFS && open_at("d/small", O_RDWR | O_CREAT) == -EROFS);
  CHECK(open_at("d/small", O_RDONLY | O_TRUNC) == -EROFS && open_at("d/small", O_CREAT | O_EXCL) == -EEXIST);
  CHECK(open_at("d/small", O_RDONLY | O_CREAT) > 2 && open_at("d/small", O_RDONLY | O_DIRECT) > 2);
  CHECK(open_at("d", O_WRONLY) == -EISDIR && open_at("d", O_RDONLY | O_CREAT) == -EISDIR);
  CHECK(open_at("d/small", O_DIRECTORY) == -ENOTDIR && open_at("to-small", O_RDONLY) == -ELOOP);
  CHECK(open_at("d", O_TMPFILE | O_RDWR) == -EROFS && open_at("to-small", O_PATH | O_NOFOLLOW) > 2);
  CHECK(fs_file_open(FS_NEW, &found, O_RDONLY) == -ENOENT &&
        fs_file_open(FS_NEW, &found, O_CREAT | O_WRONLY) == -EROFS);
  struct fs_slot *s = fs_fd_slot(open_at("d/small", O_PATH));
  CHECK(fs_slot_readable(s) == -EBADF && fs_file_fcntl(s, F_GETFL, 0) == O_PATH && fs_file_lseek(s, 0, 0) == -EBADF);
  CHECK(fs_counter_get(FS_C_OPENS) == 3);
}
static void test_opening(void **state) {
  fix_run(state, opening);
}

static void reading(const struct fix *f) {
  char buf[4000];
  const uint8_t *plain = f->plain[FIX_SMALL];
  struct fs_slot *s = slot_of("d/small");
  CHECK(fs_file_read(s, buf, 0) == 0 && fs_file_read(s, buf, 1000) == 1000 && memcmp(buf, plain, 1000) == 0);
  CHECK(fs_file_pread(s, buf, 10, 500) == 10 && memcmp(buf, plain + 500, 10) == 0);
  CHECK(fs_file_pread(s, buf, 10, -1) == -EINVAL && fs_file_pread(s, buf, 10, 3000) == 0);
  struct iovec iov[3] = {{buf, 100}, {buf + 200, 0}, {buf + 300, 4000 - 300}};
  CHECK(fs_file_readv(s, iov, 3, -1) == 2000 && memcmp(buf + 300, plain + 1100, 1900) == 0);
  CHECK(fs_file_read(s, buf, 10) == 0);
  CHECK(fs_file_readv(s, iov, 3, 2950) == 50 && fs_file_readv(s, iov, -1, 0) == -EINVAL);
  CHECK(fs_file_lseek(s, -10, SEEK_END) == 2990 && fs_file_read(s, buf, 100) == 10);
  CHECK(fs_file_lseek(s, 5000, SEEK_SET) == 5000 && fs_file_read(s, buf, 100) == 0);
  CHECK(fs_file_lseek(s, -1, SEEK_SET) == -EINVAL && fs_file_lseek(s, 0, 9) == -EINVAL);
  CHECK(fs_file_lseek(s, 10, SEEK_DATA) == 10 && fs_file_lseek(s, 10, SEEK_HOLE) == 3000);
  CHECK(fs_file_lseek(s, 3000, SEEK_DATA) == -ENXIO && fs_file_lseek(s, INT64_MAX, SEEK_CUR) == -EINVAL);
  CHECK(fs_file_lseek(s, 0, SEEK_SET) == 0);
  CHECK(fs_file_read(slot_of("d"), buf, 1) == -EISDIR && fs_file_read(&fs_slot_closed, buf, 1) == -EBADF);
  uint64_t files = 0;
  for (unsigned p = 0; p < FS_PLACE_COUNT; p++) files += fs_counter_get(FS_C_FILES + p);
  CHECK(files == 1);
}
static void test_reading(void **state) {
  fix_run(state, reading);
}

/* A read that fails gives its range back. */
static void bad_buffer(const struct fix *f) {
  (void)f;
  struct fs_slot *s = slot_of("d/big");
  CHECK(fs_file_read(s, (void *)16, FIX_BS) == -EFAULT && s->offset == 0);
}
static void test_bad_buffer(void **state) {
  fix_run(state, bad_buffer);
}

/* Threads that share an offset read each byte exactly once. */
static struct fs_slot *shared_slot;
static _Atomic uint64_t sum_seen, bytes_seen;
static void *share(void *arg) {
  uint8_t buf[777];
  fs_ssize n;
  (void)arg;
  while ((n = fs_file_read(shared_slot, buf, sizeof(buf))) > 0) {
    for (fs_ssize i = 0; i < n; i++) atomic_fetch_add(&sum_seen, buf[i]);
    atomic_fetch_add(&bytes_seen, (uint64_t)n);
  }
  CHECK(n == 0);
  return NULL;
}
static void shared_offset(const struct fix *f) {
  pthread_t t[4];
  uint64_t sum = 0;
  shared_slot = slot_of("d/big");
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&t[i], NULL, share, NULL) == 0);
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  for (uint64_t i = 0; i < fix_table[FIX_BIG].size; i++) sum += f->plain[FIX_BIG][i];
  CHECK(bytes_seen == fix_table[FIX_BIG].size && sum_seen == sum);
}
static void test_shared_offset(void **state) {
  fix_run(state, shared_offset);
}

static void attributes(const struct fix *f) {
  struct stat st;
  char buf[16];
  (void)f;
  CHECK(fs_file_stat(0, at("d/small").entry, &st) == 0 && st.st_size == 3000 && S_ISREG(st.st_mode));
  CHECK(st.st_uid == geteuid() && st.st_gid == getegid() && st.st_dev == fs_mount_dev(0));
  CHECK(fs_file_stat(0, 1u << 30, &st) == -EUCLEAN && fs_file_stat(9, 0, &st) == -EIO);
  CHECK(fs_file_fstat(&fs_slot_closed, &st) == -EBADF);
  CHECK(fs_file_access(0, at("d/small").entry, F_OK | R_OK) == 0 && fs_file_access(0, 0, W_OK) == -EROFS);
  CHECK(fs_file_access(0, at("d/small").entry, X_OK) == -EACCES && fs_file_access(0, at("d/e/deep").entry, X_OK) == 0);
  CHECK(fs_file_access(0, 0, 64) == -EINVAL && fs_file_access(0, 0, X_OK) == 0);
  CHECK(fs_file_readlink(0, at("to-small").entry, buf, 16) == 7 && memcmp(buf, "d/small", 7) == 0);
  CHECK(fs_file_readlink(0, at("to-small").entry, buf, 3) == 3 &&
        fs_file_readlink(0, at("d").entry, buf, 3) == -EINVAL);
  struct fs_found found = at("d");
  CHECK(fs_file_refuse_new(FS_IN, &found, true) == -EEXIST && fs_file_refuse_new(FS_NEW, &found, true) == -EROFS);
  found.last = FS_LAST_SLASH;
  CHECK(fs_file_refuse_new(FS_NEW, &found, true) == -EROFS && fs_file_refuse_new(FS_NEW, &found, false) == -ENOENT);
  CHECK(fs_file_refuse_change(FS_IN) == -EROFS && fs_file_refuse_change(FS_NEW) == -ENOENT);
  CHECK(fs_file_refuse_change(-ELOOP) == -ELOOP);
}
static void test_attributes(void **state) {
  fix_run(state, attributes);
}

/* Without root, owner permissions hold. */
static void permissions(const struct fix *f) {
  if (geteuid() == 0) CHECK(chmod(f->dir, 0755) == 0 && chmod(f->dataset, 0755) == 0);
  for (unsigned p = 0; p < 4; p++) {
    static const char *const names[] = {"index", "manifest", "part-00000", "part-00001"};
    char path[400];
    snprintf(path, sizeof(path), "%s/%s", f->dataset, names[p]);
    CHECK(chmod(path, 0644) == 0);
  }
  if (geteuid() == 0) CHECK(setgid(65534) == 0 && setuid(65534) == 0);
  CHECK(open_at("secret", O_RDONLY) == -EACCES && fs_file_access(0, at("secret").entry, R_OK) == -EACCES);
  CHECK(fs_data_materialize_checked(0, at("secret").entry) == -EACCES && open_at("d/small", O_RDONLY) > 2);
}
static void test_permissions(void **state) {
  fix_run(state, permissions);
}

static void control(const struct fix *f) {
  struct fs_slot *s = slot_of("d/small");
  struct flock write_lock = {.l_type = F_WRLCK}, read_lock = {.l_type = F_RDLCK};
  int n = 0;
  (void)f;
  CHECK(fs_file_fcntl(s, F_GETFL, 0) == FS_O_LARGEFILE);
  CHECK(fs_file_fcntl(s, F_SETFL, O_NONBLOCK | O_WRONLY) == 0 &&
        fs_file_fcntl(s, F_GETFL, 0) == (FS_O_LARGEFILE | O_NONBLOCK));
  CHECK(fs_file_fcntl(s, F_SETLK, (long)&write_lock) == -EBADF && fs_file_fcntl(s, F_SETLK, (long)&read_lock) == 0);
  CHECK(fs_file_fcntl(s, F_GETLK, (long)&write_lock) == 0 && write_lock.l_type == F_UNLCK);
  CHECK(fs_file_fcntl(s, 12345, 0) == -EINVAL && fs_file_fcntl(&fs_slot_closed, F_GETFL, 0) == -EBADF);
  CHECK(fs_file_ioctl(s, FIONREAD, &n) == 0 && n == 3000 && fs_file_ioctl(s, TCGETS, NULL) == -ENOTTY);
  int on = 1, off = 0;
  CHECK(fs_file_ioctl(s, FIONBIO, &on) == 0 && (fs_file_fcntl(s, F_GETFL, 0) & O_NONBLOCK) != 0);
  CHECK(fs_file_ioctl(s, FIONBIO, &off) == 0 && (fs_file_fcntl(s, F_GETFL, 0) & O_NONBLOCK) == 0);
  CHECK(fs_file_advise(s, 0, 0, POSIX_FADV_WILLNEED) == 0 && fs_file_advise(s, 0, 0, 99) == -EINVAL);
}
static void test_control(void **state) {
  fix_run(state, control);
}

static void check_map(const struct fix *f, unsigned id, uint64_t off, uint64_t len, int flags) {
  struct fs_slot *s = slot_of(fix_table[id].path);
  uint8_t *p = fs_file_mmap(s, NULL, len, PROT_READ, flags, (int64_t)off);
  CHECK(!fs_sys_mmap_failed(p));
  uint64_t n = FS_MIN(len, fix_table[id].size - off);
  CHECK(memcmp(p, f->plain[id] + off, n) == 0);
  for (uint64_t i = n; i < fs_round_up(n, 4096) && i < len; i++) CHECK(p[i] == 0);
  CHECK(munmap(p, len) == 0);
}

static void mapping(const struct fix *f) {
  struct fs_slot *s = slot_of("d/big");
  check_map(f, FIX_BIG, 0, fix_table[FIX_BIG].size, MAP_SHARED);
  check_map(f, FIX_BIG, 8192, 100, MAP_PRIVATE);
  check_map(f, FIX_SMALL, 0, 3000, MAP_PRIVATE);
  check_map(f, FIX_MID, 0, 100000, MAP_SHARED); /* pages past the end are reserved */
  check_map(f, FIX_BIG_LZ4, 65536, 200000, MAP_SHARED);
  uint8_t *p = fs_file_mmap(s, NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, 0);
  CHECK(!fs_sys_mmap_failed(p) && (p[0] = 1) == 1);
  CHECK((intptr_t)fs_file_mmap(s, NULL, 4096, PROT_WRITE, MAP_SHARED, 0) == -EACCES);
  CHECK((intptr_t)fs_file_mmap(s, NULL, 0, PROT_READ, MAP_SHARED, 0) == -EINVAL);
  CHECK((intptr_t)fs_file_mmap(s, NULL, 10, PROT_READ, MAP_SHARED, 5) == -EINVAL);
  CHECK((intptr_t)fs_file_mmap(slot_of("d"), NULL, 10, PROT_READ, MAP_SHARED, 0) == -ENODEV);
  CHECK(!fs_sys_mmap_failed(fs_file_mmap(slot_of("empty"), NULL, 10, PROT_READ, MAP_SHARED, 0)));
}
static void test_mapping(void **state) {
  fix_run(state, mapping);
}

static void listing(const struct fix *f) {
  static const char *const names[] = {".", "..", "big", "e", "mid", "small", "small.lz4", "small.zst", "up"};
  alignas(8) char buf[4096], room[512];
  char *tiny = room;
  struct stat st;
  (void)f;
  struct fs_slot *s = slot_of("d");
  fs_ssize n = fs_file_getdents(s, buf, sizeof(buf));
  const struct dirent64 *d = (void *)buf;
  for (unsigned i = 0; i < FS_ARRAY_LEN(names); i++) {
    CHECK((char *)d < buf + n && strcmp(d->d_name, names[i]) == 0 && d->d_off == i + 1);
    d = (void *)((char *)d + d->d_reclen);
  }
  CHECK((char *)d == buf + n && fs_file_getdents(s, buf, sizeof(buf)) == 0);
  CHECK(fs_file_lseek(s, 3, SEEK_SET) == 3 && fs_file_getdents(s, tiny, 64) > 0);
  d = (void *)tiny;
  CHECK(strcmp(d->d_name, "e") == 0 && d->d_type == DT_DIR);
  CHECK(fs_file_stat(0, at("d/e").entry, &st) == 0 && st.st_ino == d->d_ino);
  CHECK(fs_file_getdents(s, tiny, 20) == -EINVAL && fs_file_lseek(s, 0, SEEK_END) == -EINVAL);
  CHECK(fs_file_getdents(slot_of("empty"), buf, sizeof(buf)) == -ENOTDIR);
}
static void test_listing(void **state) {
  fix_run(state, listing);
}

static void sending(const struct fix *f) {
  int pipefd[2];
  char buf[3000];
  int64_t off = 100;
  struct fs_slot *s = slot_of("d/small");
  CHECK(pipe(pipefd) == 0);
  CHECK(fs_file_send(s, pipefd[1], NULL, 500) == 500 && s->offset == 500);
  CHECK(fs_file_send(s, pipefd[1], &off, 5000) == 2900 && off == 3000 && s->offset == 500);
  CHECK(read(pipefd[0], buf, 500) == 500 && memcmp(buf, f->plain[FIX_SMALL], 500) == 0);
  CHECK(read(pipefd[0], buf, 3000) == 2900 && memcmp(buf, f->plain[FIX_SMALL] + 100, 2900) == 0);
}
static void test_sending(void **state) {
  fix_run(state, sending);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_opening),       cmocka_unit_test(test_reading),    cmocka_unit_test(test_bad_buffer),
      cmocka_unit_test(test_shared_offset), cmocka_unit_test(test_attributes), cmocka_unit_test(test_permissions),
      cmocka_unit_test(test_control),       cmocka_unit_test(test_mapping),    cmocka_unit_test(test_listing),
      cmocka_unit_test(test_sending),
  };
  unsetenv("FANSTORE_STATE");
  return cmocka_run_group_tests(tests, tree_setup, fix_teardown);
}
