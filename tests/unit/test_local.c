/* SPDX-License-Identifier: BSD-3-Clause */
/* Local partitions: when a chunk of the mapping is taken, what a forked child finds, and what the kernel takes back. */
#include "daemon_fixture.h"

/* The kind of partition 0's first chunk, which is all of it. */
static uint32_t kind(void) {
  _Atomic uint16_t *chunk = fake_dataset()->part[0].chunk;
  return chunk ? chunk[0] & FS_CHUNK_KIND : FS_CHUNK_COLD;
}

static void small_reads(const struct fix *f, unsigned most) {
  for (unsigned i = 0; i < most && kind() == FS_CHUNK_COLD; i++) fix_read(f, FIX_SMALL, i, 100);
}

static bool can_populate(void) {
  static uint8_t page[8192];
  uint8_t *at = (uint8_t *)fs_round_up((uintptr_t)page, 4096);
  return FS_SYS3(SYS_madvise, at, 4096, 22) == 0; /* MADV_POPULATE_READ */
}

static void after_reads(const struct fix *f) {
  fix_read(f, FIX_SMALL, 0, 100);
  CHECK(kind() == FS_CHUNK_COLD); /* one small read is not worth it */
  small_reads(f, 600);
  CHECK(kind() == (can_populate() ? FS_CHUNK_PRESENT : FS_CHUNK_NEVER));
  fix_read_patterns(f, FIX_SMALL);
  fix_read_patterns(f, FIX_BIG);
  CHECK(kind() != FS_CHUNK_COLD); /* looked at many times meanwhile */
}
static void test_after_reads(void **state) {
  fake_run(state, after_reads);
}

static void at_once(const struct fix *f) {
  if (!can_populate()) return;
  fix_read(f, FIX_BIG, 0, 5 * FIX_BS);
  CHECK(kind() == FS_CHUNK_PRESENT);
}
/* A large read is. */
static void test_at_once(void **state) {
  fake_run(state, at_once);
}

static void forked(const struct fix *f) {
  int status;
  if (!can_populate()) return;
  small_reads(f, 600);
  CHECK(kind() == FS_CHUNK_PRESENT);
  pid_t pid = fork();
  if (pid == 0) {
    CHECK(kind() == FS_CHUNK_COLD);
    small_reads(f, 600);
    CHECK(kind() == FS_CHUNK_PRESENT);
    _exit(0);
  }
  CHECK(waitpid(pid, &status, 0) == pid && status == 0 && kind() == FS_CHUNK_PRESENT);
}
/* Page tables are not inherited. */
static void test_forked(void **state) {
  fake_run(state, forked);
}

static unsigned resident(const void *map, uint64_t size) {
  uint8_t page[FIX_PART_ROOM / 4096];
  unsigned n = 0;
  CHECK(mincore((void *)map, size, page) == 0);
  for (uint64_t i = 0; i < (size + 4095) / 4096; i++) n += page[i] & 1;
  return n;
}

/* Takes partition 0 out of memory. False: this kernel does not let go of it. */
static bool take_back(const struct fix *f) {
  char path[512];
  snprintf(path, sizeof(path), "%s/local/part-00000", f->dir);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  CHECK(fd >= 0);
  fsync(fd);
  const uint8_t *map = fs_local_map(fake_dataset(), 0);
  for (int i = 0; i < 10 && resident(map, f->part_size[0]) > 0; i++) {
    FS_SYS3(SYS_madvise, map, f->part_size[0], 21); /* MADV_PAGEOUT */
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    usleep(1000);
  }
  close(fd);
  return resident(map, f->part_size[0]) == 0;
}

static void taken_back(const struct fix *f) {
  if (!can_populate()) return;
  small_reads(f, 600);
  CHECK(kind() == FS_CHUNK_PRESENT);
  if (!take_back(f)) {
    fprintf(stderr, "test_local: the pages stay in memory here; not tested what happens when they do not\n");
    return;
  }
  _Atomic uint16_t *word = (_Atomic uint16_t *)fake_dataset()->part[0].chunk;
  CHECK(!fs_chunk_look(fake_dataset(), 0, word, 0));
  CHECK(kind() == FS_CHUNK_COLD);
  /* From now on it is not read as a whole, not for many small reads either, but is right. */
  for (unsigned i = 0; i < 40; i++) fix_read(f, FIX_SMALL, i, 50);
  CHECK(kind() == FS_CHUNK_COLD);
  fix_read_patterns(f, FIX_BIG);
  fix_read_patterns(f, FIX_SMALL_LZ4);
}
static void test_taken_back(void **state) {
  fake_run(state, taken_back);
}

static void cold(const struct fix *f) {
  fs_local_map(fake_dataset(), 0);
  if (!can_populate() || !take_back(f)) return;
  fix_read(f, FIX_SMALL, 0, 50);
  CHECK(kind() == FS_CHUNK_COLD);
  for (unsigned i = 0; i < 20; i++) { /* each from the device */
    fix_read(f, FIX_SMALL, i, 50);
    if (kind() == FS_CHUNK_PRESENT) break;
    take_back(f);
  }
  CHECK(kind() == FS_CHUNK_PRESENT);
  fix_read_patterns(f, FIX_BIG);
}
/* What has to come from the device is taken whole after a few reads, where there is room for it. */
static void test_cold(void **state) {
  fake_run(state, cold);
}

static unsigned pages_in_memory(const struct fix *f) {
  return resident(fs_local_map(fake_dataset(), 0), f->part_size[0]);
}

static void large(const struct fix *f) {
  unsigned all = (unsigned)((f->part_size[0] + 4095) / 4096), own = FIX_BS / 4096;
  fs_local_map(fake_dataset(), 0);
  if (!can_populate() || !take_back(f)) return;
  fix_read(f, FIX_BIG, 2 * FIX_BS, FIX_BS);
  unsigned first = pages_in_memory(f);
  CHECK(first >= own && first <= 2 * own && kind() == FS_CHUNK_COLD);
  for (unsigned i = 0; i < 5; i++) fix_read(f, FIX_BIG, 4 * FIX_BS - i * FIX_BS, FIX_BS);
  for (unsigned i = 0; i < 5000 && pages_in_memory(f) < all; i++) usleep(1000);
  CHECK(pages_in_memory(f) == all); /* more than was read */
  CHECK(all > 6 * own);
  fix_read_patterns(f, FIX_BIG);
  CHECK(kind() == FS_CHUNK_PRESENT);
}
/* A large read waits for its own bytes only; with the last of many comes the rest of the chunk. */
static void test_large(void **state) {
  fake_run(state, large);
}

static void bounds(const struct fix *f) {
  uint8_t byte[2];
  uint64_t size = f->part_size[0];
  CHECK(fs_local_copy(fake_dataset(), 0, byte, 1, size - 1, 0, size) == 0);
  CHECK(fs_local_copy(fake_dataset(), 0, byte, 2, size - 1, 0, size) == -EUCLEAN);
  CHECK(fs_local_copy(fake_dataset(), 0, byte, 1, size + 1, 0, size) == -EUCLEAN);
  CHECK(fs_local_ptr(fake_dataset(), 0, 2, size - 1) == NULL);
  if (fix_on_valgrind()) return;
  /* a chunk that is not present: by the kernel */
  CHECK(fs_local_copy(fake_dataset(), 0, (void *)8, 4096, 0, 0, size) == -EFAULT);
}
static void test_bounds(void **state) {
  fake_run(state, bounds);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_after_reads, fake_setup, fix_teardown),
      cmocka_unit_test_setup_teardown(test_at_once, fake_setup, fix_teardown),
      cmocka_unit_test_setup_teardown(test_forked, fake_setup, fix_teardown),
      cmocka_unit_test_setup_teardown(test_taken_back, fake_setup, fix_teardown),
      cmocka_unit_test_setup_teardown(test_cold, fake_setup, fix_teardown),
      cmocka_unit_test_setup_teardown(test_large, fake_setup, fix_teardown),
      cmocka_unit_test_setup_teardown(test_bounds, fake_setup, fix_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
