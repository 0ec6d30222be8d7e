/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * FANSTORE_VERIFY: whose copies of a block are compared with its checksum. A stand-in for the daemon stages partition 0
 * and serves nothing; a byte of every block of the staged copy is flipped, or of the shared one.
 */
#include "daemon_fixture.h"

#define CACHE (16ull << 20)

static struct fake_word *g_word;

/* Flips the last byte of what is stored of each block in partition 0 of the local copy or of the shared one. */
static void flip_blocks(struct fix *f, const char *dir) {
  struct fs_index ix;
  struct fs_block b;
  char path[512], name[FS_PART_NAME_SIZE];
  uint8_t *bytes = malloc(f->part_size[0]);
  memcpy(bytes, f->part[0], f->part_size[0]);
  snprintf(path, sizeof(path), "%s/index", f->dataset);
  assert_int_equal(fs_index_open(path, &ix, NULL, 0), 0);
  for (uint32_t e = 0; e < ix.nentries; e++) {
    for (uint64_t i = 0; S_ISREG(ix.entries[e].mode) && fs_index_block(&ix, e, i, &b) == 0; i++)
      if (b.partition == 0) bytes[b.offset + b.stored_len - 1] ^= 0x10;
  }
  fs_index_close(&ix);
  fix_write(dir, fs_part_name(0, name), bytes, f->part_size[0]);
  free(bytes);
}

enum copy { LOCAL, SHARED };
static void run(void **state, const char *verify, enum copy damaged, fix_fn *fn, char *text, size_t size) {
  struct fix *f = *state;
  char local[512], name[FS_PART_NAME_SIZE];
  struct fake_handle h = fake_start(f, "node-0.sock", FAKE_SERVE, CACHE);
  g_word = h.word;
  snprintf(local, sizeof(local), "%s/local", f->dir);
  flip_blocks(f, damaged == LOCAL ? local : f->dataset);
  setenv("FANSTORE_VERIFY", verify, 1);
  fix_run_text(f, fn, text, size);
  unsetenv("FANSTORE_VERIFY");
  fix_write(damaged == LOCAL ? local : f->dataset, fs_part_name(0, name), f->part[0], f->part_size[0]);
  fake_stop(&h, f);
}

static bool differs(const struct fix *f, unsigned id) {
  uint64_t size = fix_table[id].size;
  uint8_t *buf = malloc(size);
  fs_ssize n = fs_data_read(0, fix_entry(id), buf, size, 0, NULL);
  bool is = n != (fs_ssize)size || memcmp(buf, f->plain[id], size) != 0;
  free(buf);
  return is;
}

static void all_right(const struct fix *f) {
  fix_read(f, FIX_BIG, 0, 3 * FIX_BS + 5);
  fix_read(f, FIX_BIG, FIX_BS + 5, 10);
  CHECK(fs_counter_get(FS_C_BLOCKS + FS_PLACE_IS_LOCAL) == 0);
  CHECK(fs_counter_get(FS_C_DAMAGED) == 5 && fs_counter_get(FS_C_FALLBACKS) == 5);
  fix_read_all(f);
  CHECK(fs_counter_get(FS_C_ERRORS) == 0);
}
static void test_always(void **state) {
  char text[4096];
  run(state, "always", LOCAL, all_right, text, sizeof(text));
  assert_non_null(strstr(text, "/part-00000: the staged partition is damaged (a checksum differs)"));
  assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1); /* one line */
  run(state, "allways", LOCAL, all_right, text, sizeof(text));   /* a slip of the pen is no leave to skip checks */
  assert_non_null(strstr(text, "FANSTORE_VERIFY=allways: it is 'always', 'remote' or 'never'"));
}

/* The other way round: this is what is not looked at. */
static void wrong_bytes(const struct fix *f) {
  CHECK(differs(f, FIX_SMALL) && differs(f, FIX_BIG));
  CHECK(fs_counter_get(FS_C_DAMAGED) == 0 && fs_counter_get(FS_C_FALLBACKS) == 0);
}
static void test_remote(void **state) {
  run(state, "remote", LOCAL, wrong_bytes, NULL, 0);
}
static void wrong_shared(const struct fix *f) {
  CHECK(differs(f, FIX_SMALL));
  CHECK(fs_counter_get(FS_C_DAMAGED) == 0 && fs_counter_get(FS_C_ERRORS) == 0);
}
static void right_shared(const struct fix *f) {
  char buf[100];
  CHECK(fs_data_read(0, fix_entry(FIX_SMALL), buf, sizeof(buf), 0, NULL) == -EIO);
  fix_read(f, FIX_MID, 0, fix_table[FIX_MID].size); /* partition 1 */
  CHECK(fs_counter_get(FS_C_DAMAGED) == 1 && fs_counter_get(FS_C_ERRORS) == 1);
}
static void plain(void **state, const char *verify, fix_fn *fn) {
  struct fix *f = *state;
  char name[FS_PART_NAME_SIZE];
  flip_blocks(f, f->dataset);
  setenv("FANSTORE_VERIFY", verify, 1);
  fix_run(state, fn);
  unsetenv("FANSTORE_VERIFY");
  fix_write(f->dataset, fs_part_name(0, name), f->part[0], f->part_size[0]);
}
static void test_never(void **state) {
  run(state, "never", LOCAL, wrong_bytes, NULL, 0);
  plain(state, "never", wrong_shared);
  plain(state, "remote", right_shared);
  plain(state, "always", right_shared);
}

/* A good copy is hashed once for a process and what it forks, and the shared copy is not trusted for the local one's
   sake. */
static void once(const struct fix *f) {
  int status;
  char buf[FIX_BS];
  for (int turn = 0; turn < 2; turn++) fix_read_all(f);
  CHECK(fs_counter_get(FS_C_DAMAGED) == 0 && fs_counter_get(FS_C_BLOCKS + FS_PLACE_IS_SHARED) == 0);
  fs_err err;
  struct fs_dataset *ds = fs_dataset(0, &err);
  uint32_t entry = fix_entry(FIX_BIG);
  struct fs_block b;
  CHECK(fs_index_block(&ds->ix, entry, 0, &b) == 0);
  CHECK(fs_checked(ds, FS_CHECK_LOCAL, b.key) && !fs_checked(ds, FS_CHECK_SHARED, b.key));
  pid_t pid = fork();
  if (pid == 0) _exit(fs_checked(ds, FS_CHECK_LOCAL, b.key) ? 0 : 1);
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  CHECK(fs_data_read(0, entry, buf, sizeof(buf), 0, NULL) == (fs_ssize)sizeof(buf));
}
static void once_in_a_child(const struct fix *f) {
  int status;
  fs_err err;
  struct fs_block b;
  struct fs_dataset *ds = fs_dataset(0, &err);
  uint32_t entry = fix_entry(FIX_BIG);
  CHECK(fs_index_block(&ds->ix, entry, 0, &b) == 0 && !fs_checked(ds, FS_CHECK_LOCAL, b.key));
  pid_t pid = fork();
  if (pid == 0) {
    fix_read(f, FIX_BIG, 0, FIX_BS);
    _exit(0);
  }
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  CHECK(fs_checked(ds, FS_CHECK_LOCAL, b.key));
}
static void good(void **state, fix_fn *fn) {
  struct fake_handle h = fake_start(*state, "node-0.sock", FAKE_SERVE, CACHE);
  setenv("FANSTORE_VERIFY", "always", 1);
  fix_run(state, fn);
  unsetenv("FANSTORE_VERIFY");
  fake_stop(&h, *state);
}
static void test_once(void **state) {
  good(state, once);
  good(state, once_in_a_child);
}

/* A partition is not mapped into a program where it is damaged. */
static void maps(const struct fix *f) {
  uint64_t fd_off, size = fix_table[FIX_BIG].size;
  int fd;
  bool temporary;
  CHECK(fs_data_map(0, fix_entry(FIX_BIG), 0, size, false, &fd, &fd_off, &temporary) == 0 && temporary);
  uint8_t *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, (off_t)fd_off);
  CHECK(p != MAP_FAILED && memcmp(p, f->plain[FIX_BIG], size) == 0);
}
static void maps_direct(const struct fix *f) {
  uint64_t fd_off, size = fix_table[FIX_BIG].size;
  int fd;
  bool temporary;
  CHECK(fs_data_map(0, fix_entry(FIX_BIG), 0, size, false, &fd, &fd_off, &temporary) == 0 && !temporary);
  uint8_t *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, (off_t)fd_off);
  CHECK(p != MAP_FAILED && memcmp(p, f->plain[FIX_BIG], size) == 0);
}
static void test_maps(void **state) {
  run(state, "always", LOCAL, maps, NULL, 0);
  good(state, maps_direct);
}

/* No copy is good: an error, one line about the file, and no bytes. */
static void nothing_left(const struct fix *f) {
  char buf[100], path[512];
  snprintf(path, sizeof(path), "%s.away", f->dataset);
  fix_entry(FIX_SMALL);
  CHECK(rename(f->dataset, path) == 0);
  CHECK(fs_data_read(0, fix_entry(FIX_SMALL), buf, sizeof(buf), 0, NULL) == -EIO);
  CHECK(fs_counter_get(FS_C_ERRORS) == 1);
  CHECK(rename(path, f->dataset) == 0);
}
static void test_nothing_left(void **state) {
  char text[4096];
  run(state, "always", LOCAL, nothing_left, text, sizeof(text));
  assert_non_null(strstr(text, "/d/small: block 0 cannot be read"));
}

/* ---- without a daemon ---- */

/* Packed anew while it is in use, as other bytes of the same size: what was opened before is read on; what opens it now
   is told, also where children share what was checked of the one before. */
static void pack_again(const struct fix *f) {
  struct fs_part_rec rec = {.size = f->part_size[1]};
  const uint8_t other[16] = "another dataset";
  char path[512], whole[512];
  memset(f->part[1] + FS_PART_HEADER_SIZE, 'x', f->part_size[1] - FS_PART_HEADER_SIZE);
  rec.xxh3 = fs_xxh3(f->part[1] + FS_PART_HEADER_SIZE, rec.size - FS_PART_HEADER_SIZE);
  fs_part_header_make(f->part[1], 1, &rec, other);
  fix_write(f->dataset, "new", f->part[1], f->part_size[1]);
  snprintf(path, sizeof(path), "%s/new", f->dataset);
  snprintf(whole, sizeof(whole), "%s/part-00001", f->dataset);
  CHECK(rename(path, whole) == 0);
}

static void reads_mid(const struct fix *f, bool good) {
  static uint8_t buf[20000];
  pid_t pid = fork();
  int status = 1;
  if (pid == 0) {
    fs_ssize n = fs_data_read(0, fix_entry(FIX_MID), buf, sizeof(buf), 0, NULL);
    CHECK(good ? n == (fs_ssize)sizeof(buf) && memcmp(buf, f->plain[FIX_MID], sizeof(buf)) == 0 : n == -EIO);
    _exit(0);
  }
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void packed_again(const struct fix *f) {
  fix_read(f, FIX_SMALL, 0, 3000); /* so that children share what they have checked */
  reads_mid(f, true);
  pack_again(f);
  reads_mid(f, false);
}
static void packed_again_used(const struct fix *f) {
  fix_read(f, FIX_MID, 0, 20000);
  pack_again(f);
  reads_mid(f, true);
  fix_read(f, FIX_MID, 0, 20000);
}
static void test_packed_again(void **state) {
  struct fix *f = *state;
  static fix_fn *const uses[] = {packed_again, packed_again_used};
  char text[4096];
  for (unsigned i = 0; i < FS_ARRAY_LEN(uses); i++) {
    fix_run_text(f, uses[i], text, sizeof(text));
    fix_write(f->dataset, "part-00001", f->part[1], f->part_size[1]);
    assert_int_equal(strstr(text, "part-00001: the partition is of another dataset") != NULL, i == 0);
  }
  setenv("FANSTORE_VERIFY", "never", 1);
  fix_run_text(f, packed_again, text, sizeof(text));
  unsetenv("FANSTORE_VERIFY");
  fix_write(f->dataset, "part-00001", f->part[1], f->part_size[1]);
}

/* Manifest and index of two datasets: who opens them while a new one is put in place. */
static void two_halves(const struct fix *f) {
  fs_err err = 0;
  (void)f;
  CHECK(!fs_mount_index(0, &err) && err == -EIO);
}
static void test_two_halves(void **state) {
  struct fix *f = *state;
  struct fs_manifest m;
  char was[8192], now[8192], text[4096];
  assert_int_equal(fs_manifest_load(f->dataset, &m, NULL, 0), 0);
  fs_ssize n = fs_manifest_format(&m, was, sizeof(was));
  m.dataset_id[3] ^= 1;
  fs_ssize other = fs_manifest_format(&m, now, sizeof(now));
  assert_true(n > 0 && other > 0);
  fix_write(f->dataset, "manifest", now, (size_t)other);
  fix_run_text(f, two_halves, text, sizeof(text));
  fix_write(f->dataset, "manifest", was, (size_t)n);
  assert_non_null(strstr(text, "not the dataset that was expected"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_always),       cmocka_unit_test(test_remote),     cmocka_unit_test(test_never),
      cmocka_unit_test(test_once),         cmocka_unit_test(test_maps),       cmocka_unit_test(test_nothing_left),
      cmocka_unit_test(test_packed_again), cmocka_unit_test(test_two_halves),
  };
  return cmocka_run_group_tests(tests, fake_setup, fix_teardown);
}
