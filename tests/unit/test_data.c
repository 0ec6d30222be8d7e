/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading without a daemon: every range of every kind of file, threads, forks, damaged data, real files. */
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/resource.h>

#include "data_fixture.h"

static uint64_t bytes_counted(void) {
  uint64_t n = 0;
  for (unsigned p = 0; p < FS_PLACE_COUNT; p++) n += fs_counter_get(FS_C_BYTES + p);
  return n;
}

static void all_ranges(const struct fix *f) {
  size_t len;
  CHECK(fs_mounts() == 1);
  CHECK(strcmp(fs_mount_path(0, &len), FIX_MOUNT) == 0 && len == strlen(FIX_MOUNT));
  CHECK(!fs_mounts_read_only());
  fix_read_all(f);
  CHECK(fs_counter_get(FS_C_ERRORS) == 0);
  CHECK(fs_counter_get(FS_C_FALLBACKS) == 0);
  CHECK(bytes_counted() == fs_counter_get(FS_C_BYTES + FS_PLACE_IS_SHARED));
}
static void test_all_ranges(void **state) {
  fix_run(state, all_ranges);
}

/* What open asks for in advance counts nothing and is harmless for whatever has no bytes to be asked for. */
static void opened(const struct fix *f) {
  fs_err err;
  const struct fs_index *ix = fs_mount_index(0, &err);
  CHECK(ix != NULL);
  for (uint32_t entry = 0; entry < ix->nentries + 2; entry++) fs_data_opened(0, entry);
  fs_data_opened(0, UINT32_MAX);
  fs_data_opened(7, 0); /* no such mount */
  for (unsigned i = 0; i < FS_C_COUNT; i++) CHECK(fs_counter_get(i) == 0);
  fix_read_all(f);
}
static void test_opened(void **state) {
  fix_run(state, opened);
}

static uint64_t decodes(void) {
  return atomic_exchange(&fs_self()->decodes, 0);
}

static void decode_once(const struct fix *f) {
  uint64_t size = fix_table[FIX_BIG_LZ4].size, blocks = size / FIX_BS;
  for (uint64_t off = 0; off < size; off += 4096)
    fix_read(f, FIX_BIG_LZ4, off, 4096); /* the last, short block is read whole */
  CHECK(decodes() == 2 * blocks);        /* the first 4096 bytes of each alone, then all of it */
  fix_read(f, FIX_BIG_LZ4, 0, FIX_BS);   /* a whole block goes straight to the caller */
  CHECK(decodes() == 0);
  for (int i = 0; i < 100; i++) fix_read(f, FIX_SMALL_LZ4, (uint64_t)i, 10);
  CHECK(decodes() == 1);
}

/* A first read decodes a block up to where it ends, and the next one beyond that the whole of it. */
static void decode_prefix(const struct fix *f) {
  for (uint32_t block = 0; block < 20; block++) { /* more than there are slots */
    uint64_t at = block * FIX_BS;
    fix_read(f, FIX_BIG_LZ4, at + 10000, 100);
    fix_read(f, FIX_BIG_LZ4, at + 10050, 200);
    fix_read(f, FIX_BIG_LZ4, at, 10250);
    CHECK(decodes() == 1);
    fix_read(f, FIX_BIG_LZ4, at + 12000, 1000);
    fix_read(f, FIX_BIG_LZ4, at + 60000, FIX_BS - 60000);
    fix_read(f, FIX_BIG_LZ4, at + 1, 60000);
    CHECK(decodes() == 1);
  }
  fix_read(f, FIX_BIG_LZ4, 60000, 10); /* is still there: those read to their end made room for each other */
  CHECK(decodes() == 0);
  fix_read(f, FIX_BIG_LZ4, 18 * FIX_BS + 60000, 10);
  fix_read(f, FIX_BIG_LZ4, 18 * FIX_BS, 60000);
  CHECK(decodes() == 1);
}
static void test_decode_prefix(void **state) {
  fix_run(state, decode_prefix);
}

static void test_decode_once(void **state) {
  fix_run(state, decode_once);
}

/* As if the dataset had blocks so large that one of them is all that the cache holds. */
static void one_slot(void) {
  fs_err err;
  struct fs_dataset *ds = fs_dataset(0, &err);
  CHECK(ds != NULL);
  ds->ix.block_size = 4u << 20;
}

static void decode_one_slot(const struct fix *f) {
  one_slot();
  for (int i = 0; i < 100; i++) fix_read(f, FIX_SMALL_LZ4, (uint64_t)i, 10);
  CHECK(decodes() == 1); /* the stored bytes are not put in the block's way */
}
static void test_decode_one_slot(void **state) {
  fix_run(state, decode_one_slot);
}

static uint8_t *g_locked;
static volatile pid_t g_child = -1;

/* The first touch of the caller's buffer, in the middle of the copy: forks there. */
static void fork_here(int sig) {
  (void)sig;
  g_child = fork();
  CHECK(g_child >= 0 && mprotect(g_locked, 4096, PROT_READ | PROT_WRITE) == 0);
}

/* A child that was forked while a decoded block was copied goes on, and its cache of them too. */
static void decode_forked(const struct fix *f) {
  int status;
  one_slot();
  fix_read(f, FIX_SMALL_LZ4, 0, 100);
  g_locked = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(g_locked != MAP_FAILED && signal(SIGSEGV, fork_here) != SIG_ERR);
  CHECK(fs_data_read(0, fix_entry(FIX_SMALL_LZ4), g_locked, 1000, 7, NULL) == 1000);
  CHECK(memcmp(g_locked, f->plain[FIX_SMALL_LZ4] + 7, 1000) == 0);
  if (g_child > 0) CHECK(waitpid(g_child, &status, 0) == g_child && status == 0);
  decodes();
  for (int i = 0; i < 100; i++) fix_read(f, FIX_SMALL_LZ4, (uint64_t)i, 10);
  CHECK(g_child >= 0 && decodes() == 0);
}
static void test_decode_forked(void **state) {
  if (fix_on_valgrind()) skip(); /* the copy's fault is an error to it */
  fix_run(state, decode_forked);
}

/* The same of a raw block of the shared copy, which its first use left among the decoded ones. */
static void raw_forked(const struct fix *f) {
  int status;
  fix_read(f, FIX_BIG, 1000, 5000);
  g_locked = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(g_locked != MAP_FAILED && signal(SIGSEGV, fork_here) != SIG_ERR);
  CHECK(fs_data_read(0, fix_entry(FIX_BIG), g_locked, 4000, 2000, NULL) == 4000);
  CHECK(memcmp(g_locked, f->plain[FIX_BIG] + 2000, 4000) == 0);
  CHECK(g_child >= 0);
  if (g_child > 0) CHECK(waitpid(g_child, &status, 0) == g_child && status == 0);
}
static void test_raw_forked(void **state) {
  if (fix_on_valgrind()) skip();
  fix_run(state, raw_forked);
}

static void places_and_errors(const struct fix *f) {
  enum fs_place place = FS_PLACE_COUNT;
  char buf[10];
  CHECK(fs_data_read(0, fix_entry(FIX_SMALL), buf, 10, 0, &place) == 10 && place == FS_PLACE_IS_SHARED);
  CHECK(memcmp(buf, f->plain[FIX_SMALL], 10) == 0);
  CHECK(fs_counter_get(FS_C_BYTES + FS_PLACE_IS_SHARED) == 10);
  CHECK(fs_counter_get(FS_C_BLOCKS + FS_PLACE_IS_SHARED) == 1);
  CHECK(fs_data_read(0, fix_entry(FIX_SMALL), NULL, 10, 0, NULL) == -EFAULT);
  void *read_only = mmap(NULL, FIX_BS, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(fs_data_read(0, fix_entry(FIX_BIG), read_only, FIX_BS, 0, NULL) == -EFAULT);
  CHECK(fs_data_read(0, FS_ROOT, buf, 10, 0, NULL) == -EUCLEAN);
  CHECK(fs_data_read(0, 1u << 30, buf, 10, 0, NULL) == -EUCLEAN);
  CHECK(fs_data_read(1, 1, buf, 10, 0, NULL) == -ENOENT);
  CHECK(fs_mount_dev(0) != 0);
  CHECK(fs_counter_get(FS_C_ERRORS) == 0);
  fs_count(FS_C_OPENS, 3);
  fs_count(FS_C_COUNT, 3);
  CHECK(fs_counter_get(FS_C_OPENS) == 3);
}
static void test_places_and_errors(void **state) {
  fix_run(state, places_and_errors);
}

/* Of a raw file in one piece: the first time block by block, then with one request; counted alike, and the first place
   is told alike. */
static void straight(const struct fix *f) {
  uint64_t size = fix_table[FIX_BIG].size;
  uint8_t *buf = malloc(size);
  for (unsigned turn = 1; turn <= 3; turn++) {
    enum fs_place place = FS_PLACE_COUNT;
    memset(buf, 0, size);
    CHECK(fs_data_read(0, fix_entry(FIX_BIG), buf, size, 0, &place) == (fs_ssize)size && place == FS_PLACE_IS_SHARED);
    CHECK(memcmp(buf, f->plain[FIX_BIG], size) == 0);
    CHECK(fs_counter_get(FS_C_BLOCKS + FS_PLACE_IS_SHARED) == 6 * turn);
    CHECK(fs_counter_get(FS_C_BYTES + FS_PLACE_IS_SHARED) == size * turn);
  }
  fix_read(f, FIX_BIG, FIX_BS - 1, 2);
  CHECK(fs_counter_get(FS_C_BLOCKS + FS_PLACE_IS_SHARED) == 20);
  free(buf);
}
static void test_straight(void **state) {
  fix_run(state, straight);
}

static void *reader(void *arg) {
  for (int i = fix_on_valgrind(); i < 2; i++) fix_read_all(arg);
  return NULL;
}
static void threads(const struct fix *f) {
  pthread_t t[4];
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&t[i], NULL, reader, (void *)f) == 0);
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
}
static void test_threads(void **state) {
  fix_run(state, threads);
}

static void forks(const struct fix *f) {
  int status;
  fix_read_all(f);
  pid_t pid = fork();
  if (pid == 0) {
    fs_data_forked();
    CHECK(bytes_counted() == 0); /* the child's own */
    fix_read_all(f);
    pid_t grandchild = fork(); /* as a raw clone would be: nothing told the library */
    if (grandchild == 0) {
      fix_read_all(f);
      _exit(0);
    }
    CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
    _exit(0);
  }
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  fix_read_all(f);
}
static void test_forks(void **state) {
  fix_run(state, forks);
}

/* A vfork child shares the memory but not the descriptors: what it opens must not be believed by the parent. */
static void vforks(const struct fix *f) {
  static volatile int shares;
  int status;
  CHECK(fs_self_owner());
  pid_t pid = vfork();
  if (pid == 0) {
    char buf[100];
    shares = 1;
    fs_ssize n = fs_data_read(0, fix_entry(FIX_SMALL), buf, sizeof(buf), 0, NULL);
    _exit(n == 100 && !fs_self_owner() ? 0 : 1);
  }
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(status == 0 || !shares); /* valgrind and the thread sanitizer make a fork of it */
  fix_read_all(f);
}
static void test_vforks(void **state) {
  fix_run(state, vforks);
}

static void own_fds(const struct fix *f) {
  struct rlimit limit;
  int low = open("/dev/null", O_RDONLY);
  fix_read(f, FIX_SMALL, 0, 10);
  int next = open("/dev/null", O_RDONLY);
  CHECK(next == low + 1); /* the partition's descriptor is out of the way */
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  int fd = fs_data_adopt_fd(next);
  CHECK(fd > next && fs_data_owns_fd(fd) && !fs_data_owns_fd(low) && !fs_data_owns_fd(-1));
  CHECK(limit.rlim_cur < 1100 || fd >= 1000);
  CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC && fcntl(next, F_GETFD) == -1);
}
static void test_own_fds(void **state) {
  fix_run(state, own_fds);
}

/* With no number to spare, partitions are opened for one read at a time. */
static void few_fds(const struct fix *f) {
  fix_entry(FIX_SMALL);
  struct rlimit limit = {8, 8};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return; /* under valgrind, which keeps some for itself */
  for (int fd = 3; fd < 7; fd++) dup2(1, fd);
  fix_read_patterns(f, FIX_SCATTER);
}
static void test_few_fds(void **state) {
  fix_run(state, few_fds);
}

/* ---- damage ---- */

static void put_part(struct fix *f, uint32_t p, uint64_t size) {
  char name[FS_PART_NAME_SIZE];
  fix_write(f->dataset, fs_part_name(p, name), f->part[p], size);
}

static void damaged(const struct fix *f) {
  static uint8_t buf[12 * FIX_BS];
  CHECK(fs_data_read(0, fix_entry(FIX_MID), buf, sizeof(buf), 0, NULL) == -EIO);
  CHECK(fs_data_read(0, fix_entry(FIX_MID), buf, 10, 19000, NULL) == -EIO); /* also where the bytes are good */
  CHECK(fs_counter_get(FS_C_ERRORS) == 2);
  fix_read_patterns(f, FIX_BIG);
}
static void test_flipped_byte(void **state) {
  struct fix *f = *state;
  char text[4096];
  /* d/mid is the first in partition 1 */
  f->part[1][FS_PART_HEADER_SIZE + 100] ^= 1;
  put_part(f, 1, f->part_size[1]);
  fix_run_text(f, damaged, text, sizeof(text));
  f->part[1][FS_PART_HEADER_SIZE + 100] ^= 1;
  put_part(f, 1, f->part_size[1]);
  assert_non_null(strstr(text, "fanstore: " FIX_MOUNT "/d/mid: block 0 cannot be read from "));
  assert_non_null(strstr(text, "part-00001 (checksum or size differs); run 'fs-prepare verify'"));
}

static void flipped_block(const struct fix *f) {
  static uint8_t buf[21 * FIX_BS];
  uint32_t e = fix_entry(FIX_SCATTER);
  CHECK(fs_data_read(0, e, buf, sizeof(buf), 0, NULL) == 2 * FIX_BS); /* the blocks before the damaged one */
  CHECK(memcmp(buf, f->plain[FIX_SCATTER], 2 * FIX_BS) == 0);
  CHECK(fs_data_read(0, e, buf, 100, 2 * FIX_BS, NULL) == -EIO);
  fix_read(f, FIX_SCATTER, 3 * FIX_BS, 8 * FIX_BS);
}
static void test_flipped_block(void **state) {
  struct fix *f = *state;
  char text[4096];
  uint8_t *at = memmem(f->part[0], f->part_size[0], f->plain[FIX_SCATTER] + 2 * FIX_BS, FIX_BS);
  assert_non_null(at);
  at[FIX_BS - 1] ^= 0x80;
  put_part(f, 0, f->part_size[0]);
  fix_run_text(f, flipped_block, text, sizeof(text));
  at[FIX_BS - 1] ^= 0x80;
  put_part(f, 0, f->part_size[0]);
  assert_non_null(strstr(text, "/scatter: block 2 cannot be read"));
}

static void truncated(const struct fix *f) {
  char buf[100];
  CHECK(fs_data_read(0, fix_entry(FIX_SMALL), buf, 100, 0, NULL) == -EIO);
  CHECK(fs_data_read(0, fix_entry(FIX_SMALL), buf, 100, 0, NULL) == -EIO);
  fix_read_patterns(f, FIX_MID);
}
static void test_truncated(void **state) {
  struct fix *f = *state;
  char text[4096];
  put_part(f, 0, f->part_size[0] - 4096);
  fix_run_text(f, truncated, text, sizeof(text));
  put_part(f, 0, f->part_size[0]);
  assert_non_null(strstr(text, "part-00000: the partition is "));
}

/* Truncated while in use: an error, no signal. */
static void shrinks(const struct fix *f) {
  char buf[100], path[512];
  fix_read(f, FIX_SMALL, 0, 3000);
  fix_read(f, FIX_BIG, 0, fix_table[FIX_BIG].size);
  snprintf(path, sizeof(path), "%s/part-00000", f->dataset);
  CHECK(truncate(path, 100) == 0);
  CHECK(fs_data_read(0, fix_entry(FIX_SMALL), buf, 100, 0, NULL) == -EIO);
  CHECK(fs_data_read(0, fix_entry(FIX_BIG), buf, 100, FIX_BS - 50, NULL) == -EIO);
  CHECK(fs_counter_get(FS_C_ERRORS) == 2);
}
static void test_shrinks(void **state) {
  struct fix *f = *state;
  char text[4096];
  fix_run_text(f, shrinks, text, sizeof(text));
  put_part(f, 0, f->part_size[0]);
}

/* ---- configuration ---- */

static void no_mounts(const struct fix *f) {
  (void)f;
  CHECK(fs_mounts() == 0);
}
static void no_index(const struct fix *f) {
  fs_err err = 0;
  (void)f;
  CHECK(fs_mounts() == 1);
  CHECK(!fs_mount_index(0, &err) && err == -ENOENT);
  CHECK(!fs_mount_index(0, &err) && err == -ENOENT);
}
static void two_mounts(const struct fix *f) {
  size_t len;
  CHECK(fs_mounts() == 2);
  CHECK(strcmp(fs_mount_path(0, &len), FIX_MOUNT) == 0);
  CHECK(strcmp(fs_mount_path(1, &len), "/a:b/c") == 0 && len == 6);
  CHECK(fs_mount_dev(0) != fs_mount_dev(1));
  fix_read_all(f);
}
static void set_env(const char *name, const char *value) {
  setenv(name, value, 1);
}
static void relative(const struct fix *f) {
  CHECK(fs_mounts() == 1);
  fs_mounts_export(set_env);
  CHECK(strcmp(getenv("FANSTORE_DATASET"), f->dataset) == 0 && strcmp(getenv("FANSTORE_MOUNT"), "/other") == 0);
  CHECK(chdir("/") == 0);
  fix_read_all(f);
}
static void run_env(void **state, const char *dataset, const char *mount, fix_fn *fn, const char *expect) {
  char text[4096];
  setenv("FANSTORE_DATASET", dataset, 1);
  if (mount) setenv("FANSTORE_MOUNT", mount, 1);
  fix_run_text(*state, fn, text, sizeof(text));
  unsetenv("FANSTORE_DATASET");
  unsetenv("FANSTORE_MOUNT");
  if (!expect) {
    assert_string_equal(text, "");
    return;
  }
  if (!strstr(text, expect)) fail_msg("no '%s' in '%s'", expect, text);
  assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1); /* one line */
}
static void test_configuration(void **state) {
  struct fix *f = *state;
  char both[1024];
  run_env(state, "/nowhere/at/all", NULL, no_mounts, "fanstore: /nowhere/at/all: no such dataset");
  run_env(state, "/nowhere/at/all", "/mnt/x", no_index, "fanstore: /nowhere/at/all: no such dataset");
  run_env(state, "/usr", NULL, no_mounts,
          "yet, run: fs-prepare pack /usr DATASET; nothing is mounted for it: programs see the plain files");
  run_env(state, "/usr", "/mnt/x", no_index, "if it is not packed yet, run: fs-prepare pack /usr DATASET; nothing can");
  run_env(state, f->dataset, "some/where", no_mounts, "FANSTORE_MOUNT=some/where: a mount path must be absolute");
  run_env(state, f->dataset, "/", no_mounts, "cannot be a mount path");
  run_env(state, "", NULL, no_mounts, NULL);
  snprintf(both, sizeof(both), "%s:%s", f->dataset, f->dataset);
  run_env(state, both, ":/a\\:b/./x/../c/", two_mounts, NULL);
  assert_int_equal(chdir(f->dir), 0);
  run_env(state, "dataset", "/other", relative, NULL);
  assert_int_equal(chdir("/"), 0);
}

/* ---- real files ---- */

static void check_file(const struct fix *f, unsigned id, int fd) {
  struct stat st;
  uint8_t *buf = malloc(fix_table[id].size + 1);
  CHECK(fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == fix_table[id].size);
  CHECK(read(fd, buf, fix_table[id].size + 1) == (ssize_t)fix_table[id].size);
  CHECK(memcmp(buf, f->plain[id], fix_table[id].size) == 0);
  CHECK((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY && fcntl(fd, F_GETFD) == FD_CLOEXEC);
  CHECK(write(fd, "x", 1) == -1);
  free(buf);
}

static bool check_map(const struct fix *f, unsigned id) {
  uint64_t size = fix_table[id].size, fd_off, page = getauxval(AT_PAGESZ), room = fs_round_up(size, page);
  int fd;
  bool temporary;
  if (size == 0) return false;
  CHECK(fs_data_map(0, fix_entry(id), 0, size, false, &fd, &fd_off, &temporary) == 0);
  uint8_t *p = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, (off_t)fd_off);
  CHECK(p != MAP_FAILED);
  if (temporary) close(fd);
  CHECK(memcmp(p, f->plain[id], size) == 0);
  for (uint64_t i = size; i < room; i++) CHECK(p[i] == 0);
  p[0] ^= 1; /* a private copy */
  munmap(p, room);
  return temporary;
}

static void real_files(const struct fix *f) {
  unsigned copies = 0;
  for (unsigned id = 0; id < FIX_COUNT; id++) {
    int fd = fs_data_materialize(0, fix_entry(id));
    check_file(f, id, fd);
    close(fd);
    copies += check_map(f, id) && check_map(f, id); /* twice the same copy */
  }
  CHECK(copies > 0 && fs_counter_get(FS_C_MATERIALIZED) == FIX_COUNT + copies);
  fs_data_leave();
  CHECK(fs_memory_holds(NULL, 1u << 20) && !fs_memory_holds(NULL, 1ull << 50));
  fs_data_prefetch(0, fix_entry(FIX_BIG_LZ4), 0, UINT64_MAX);
  fs_data_prefetch(0, fix_entry(FIX_EMPTY), 0, 1);
}
static void test_real_files(void **state) {
  struct fix *f = *state;
  fix_run(state, real_files);
  setenv("FANSTORE_TMPDIR", f->dir, 1);
  fix_run(state, real_files);
  setenv("FANSTORE_TMPDIR", "/nowhere/at/all", 1);
  setenv("TMPDIR", "relative", 1);
  fix_run(state, real_files);
  unsetenv("FANSTORE_TMPDIR");
  unsetenv("TMPDIR");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_all_ranges),
      cmocka_unit_test(test_opened),
      cmocka_unit_test(test_decode_once),
      cmocka_unit_test(test_decode_prefix),
      cmocka_unit_test(test_places_and_errors),
      cmocka_unit_test(test_decode_one_slot),
      cmocka_unit_test(test_decode_forked),
      cmocka_unit_test(test_raw_forked),
      cmocka_unit_test(test_straight),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_forks),
      cmocka_unit_test(test_vforks),
      cmocka_unit_test(test_own_fds),
      cmocka_unit_test(test_few_fds),
      cmocka_unit_test(test_flipped_byte),
      cmocka_unit_test(test_flipped_block),
      cmocka_unit_test(test_truncated),
      cmocka_unit_test(test_shrinks),
      cmocka_unit_test(test_configuration),
      cmocka_unit_test(test_real_files),
  };
  return cmocka_run_group_tests(tests, fix_setup, fix_teardown);
}
