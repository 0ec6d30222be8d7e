/* SPDX-License-Identifier: BSD-3-Clause */
/* Local partitions past the page cache: every byte, nothing left in memory, pieces, threads, forks, refusal, numbers.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include "daemon_fixture.h"
#include "ipc/room.h"

static bool skipped;

static void run(void **state, fix_fn *fn) {
  if (skipped) skip();
  fake_flags = FS_CTL_IO_DIRECT;
  fake_run(state, fn);
}

static unsigned resident(const struct fix *f) {
  uint8_t page[FIX_PART_ROOM / 4096];
  unsigned n = 0;
  CHECK(mincore((void *)fs_local_map(fake_dataset(), 0), f->part_size[0], page) == 0);
  for (uint64_t i = 0; i < (f->part_size[0] + 4095) / 4096; i++) n += page[i] & 1;
  return n;
}

static void drop_pages(const struct fix *f) {
  char path[512];
  snprintf(path, sizeof(path), "%s/local/part-00000", f->dir);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  CHECK(fd >= 0 && fsync(fd) == 0);
  for (unsigned i = 0; i < 100 && (i == 0 || resident(f) > 0); i++) {
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    usleep(1000);
  }
  close(fd);
  CHECK(resident(f) == 0);
}

static uint64_t read_directly(void) {
  return fs_counter_get(FS_C_DIRECT);
}

static void all(const struct fix *f) {
  drop_pages(f);
  uint64_t before = read_directly();
  fix_read_all(f);
  CHECK(read_directly() - before > f->part_size[0]);
  CHECK(resident(f) == 0);
}
static void test_all(void **state) {
  run(state, all);
}

static void in_memory(const struct fix *f) {
  drop_pages(f);
  fs_local_willneed(fake_dataset(), &(struct fs_block){.offset = 0, .stored_len = (uint32_t)f->part_size[0]});
  for (unsigned i = 0; i < 5000 && resident(f) < f->part_size[0] / 4096; i++) usleep(1000);
  fix_read_all(f);
  CHECK(read_directly() == 0);
}
/* What is in memory is read from there. */
static void test_in_memory(void **state) {
  run(state, in_memory);
}

/* System calls of this process that read. */
static uint64_t reads(void) {
  char text[512] = "";
  FS_AUTO_CLOSE int fd = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
  ssize_t n = read(fd, text, sizeof(text) - 1);
  const char *at = n > 0 ? strstr(text, "syscr: ") : NULL;
  return at ? strtoull(at + 7, NULL, 10) : 0;
}

static void pieces(const struct fix *f) {
  drop_pages(f);
  fix_read(f, FIX_SMALL, 0, 1); /* everything is open */
  uint64_t before = reads();
  for (uint64_t off = 0; off < fix_table[FIX_BIG].size; off += 1000) fix_read(f, FIX_BIG, off, 1000);
  CHECK(resident(f) == 0);
  if (before > 0) CHECK(reads() - before < 10);
}
/* A file in small pieces is not a request each. */
static void test_pieces(void **state) {
  run(state, pieces);
}

static void in_order(const struct fix *f) {
  static uint8_t buf[65536];
  const uint64_t n = sizeof(buf), size = f->part_size[0];
  drop_pages(f);
  CHECK(fs_local_copy(fake_dataset(), 0, buf, n, n, 0, size) == 0);
  CHECK(resident(f) == 0);
  atomic_store(&fake_dataset()->part[0].run, 16u << 20); /* as if it had begun long before */
  CHECK(fs_local_copy(fake_dataset(), 0, buf, n, 2 * n, 0, size) == 0);
  CHECK(memcmp(buf, f->part[0] + 2 * n, n) == 0 && resident(f) >= n / 4096);
  drop_pages(f);
  CHECK(fs_local_copy(fake_dataset(), 0, buf, 1000, 6 * n, 0, size) == 0); /* elsewhere */
  CHECK(memcmp(buf, f->part[0] + 6 * n, 1000) == 0 && resident(f) == 0);
}
/* A long way in order is left to the kernel's readahead. */
static void test_in_order(void **state) {
  run(state, in_order);
}

static const struct fix *g_fix;

static void *reader(void *arg) {
  uint32_t x = (uint32_t)(uintptr_t)arg;
  for (unsigned i = 0; i < 300 / fix_slowness(); i++) {
    x = x * 1664525u + 1013904223u;
    unsigned id = x >> 28 & 1 ? FIX_BIG : FIX_BIG_LZ4;
    fix_read(g_fix, id, (x >> 4) % fix_table[id].size, (x >> 12) % 80000 + 1);
  }
  return NULL;
}

static void threads(const struct fix *f) {
  pthread_t thread[12];
  g_fix = f;
  drop_pages(f);
  for (uintptr_t i = 0; i < FS_ARRAY_LEN(thread); i++)
    CHECK(pthread_create(&thread[i], NULL, reader, (void *)(i + 1)) == 0);
  for (unsigned i = 0; i < FS_ARRAY_LEN(thread); i++) CHECK(pthread_join(thread[i], NULL) == 0);
  CHECK(read_directly() > 0);
}
/* More of them than there are buffers. */
static void test_threads(void **state) {
  run(state, threads);
}

static void forked(const struct fix *f) {
  int status;
  drop_pages(f);
  fix_read(f, FIX_BIG, 0, 100);
  for (unsigned i = 0; i < 3; i++) {
    pid_t pid = fork();
    if (pid == 0) {
      fix_read(f, FIX_BIG, 100, 3000); /* its parent has it in a buffer */
      fix_read_patterns(f, FIX_BIG);
      CHECK(read_directly() > 0);
      _exit(0);
    }
    fix_read(f, FIX_BIG, 100 + i, 70000);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  }
}
static void test_forked(void **state) {
  run(state, forked);
}

static volatile sig_atomic_t g_child, g_children;

static void fork_here(int sig) {
  (void)sig;
  if (g_child || g_children >= 40) return;
  pid_t pid = (pid_t)FS_SYS5(SYS_clone, SIGCHLD, 0, 0, 0, 0); /* as fork, without handlers of the C library's */
  if (pid == 0) g_child = 1;
  if (pid > 0) g_children++;
}

static void interrupted(const struct fix *f) {
  struct itimerval every = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
  int status;
  drop_pages(f);
  signal(SIGALRM, fork_here);
  setitimer(ITIMER_REAL, &every, NULL);
  for (unsigned i = 0; i < 200000 && g_children < 40 && !g_child; i++)
    fix_read(f, FIX_BIG, i * 37777 % (2 * FIX_BS), 2 * FIX_BS);
  if (g_child) { /* its read was right; and what it finds of it afterwards */
    for (unsigned i = 0; i < 10; i++) fix_read(f, FIX_BIG, i * 20000, 20000);
    _exit(0);
  }
  setitimer(ITIMER_REAL, &never, NULL);
  CHECK(g_children == 40);
  while (wait(&status) > 0) CHECK(status == 0);
  alarm(0);
}
/* A signal handler forks in the middle of a read, which goes on in the child. */
static void test_interrupted(void **state) {
  run(state, interrupted);
}

/* A buffer is of one partition, and of what was read into it last, also when that failed half way. */
static void buffers(const struct fix *f) {
  static uint8_t buf[8192];
  const uint64_t n = sizeof(buf), at = 2 * n, size = f->part_size[0];
  char local[512];
  struct fs_dataset *ds = fake_dataset();
  drop_pages(f);
  snprintf(local, sizeof(local), "%s/local", f->dir);
  fix_write(local, "part-00001", f->part[1], f->part_size[1]);
  for (uint32_t p = 0; p < 2; p++) {
    CHECK(fs_local_copy(ds, p, buf, n, at, 0, size) == 0 && memcmp(buf, f->part[p] + at, n) == 0);
  }
  snprintf(local, sizeof(local), "%s/local/part-00000", f->dir);
  CHECK(fs_local_copy(ds, 0, buf, n, at, 0, size) == 0);
  CHECK(truncate(local, (off_t)(at + n + 4096)) == 0);
  CHECK(fs_local_copy(ds, 0, buf, n, at + n, 0, size) == -EIO); /* half of it is there */
  CHECK(fs_local_copy(ds, 0, buf, n, at, 0, size) == 0 && memcmp(buf, f->part[0] + at, n) == 0);
}
static void test_buffers(void **state) {
  run(state, buffers);
}

static void refused(const struct fix *f) {
  drop_pages(f);
  atomic_store(&fake_dataset()->part[0].direct_fd, -1);
  fix_read_all(f);
  CHECK(read_directly() == 0 && resident(f) > 0);
}
static void test_refused(void **state) {
  run(state, refused);
}

static void test_room(void **state) {
  (void)state;
  const uint64_t gib = 1ull << 30;
  assert_int_equal(fs_room_share(0, 3 * gib, 4 * gib), FS_ROOM_ALL);
  assert_int_equal(fs_room_share(0, 6 * gib, 4 * gib), FS_ROOM_ALL / 2 - 1);
  assert_int_equal(fs_room_share(0, 1, 0), 0);
  assert_int_equal(fs_room_share(0, UINT64_MAX, UINT64_MAX), FS_ROOM_ALL * 3 / 4 - 1);
  assert_int_equal(fs_room_share(FS_CTL_IO_CACHED, 3 * gib, 4 * gib), FS_ROOM_ALL);
  assert_int_equal(fs_room_share(FS_CTL_IO_CACHED, 3 * gib + 1, 4 * gib), 0);
  assert_int_equal(fs_room_share(FS_CTL_IO_DIRECT, 1, 4 * gib), 0);
}

/* Where the tests' directory is in memory, or O_DIRECT is refused, there is nothing to be seen. */
static void look(void) {
  const char *tmp = getenv("TMPDIR");
  int fd = open(tmp ? tmp : "/tmp", O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
  uint8_t *page = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
  uint8_t in = 1;
  skipped = fd < 0 || ftruncate(fd, 4096) != 0 || mincore(page, 4096, &in) != 0 || (in & 1);
  if (skipped) fprintf(stderr, "test_direct: no reads past the page cache in %s\n", tmp ? tmp : "/tmp");
  if (fd >= 0) close(fd);
}

/* A number that was given up and is the library's again, for another file, is not what was published. */
static void number_again(const struct fix *f) {
  static _Atomic int32_t word, other;
  bool temporary;
  (void)f;
  fs_fd fd = fs_own_publish(&word, open("/dev/null", O_RDONLY | O_CLOEXEC), &temporary);
  CHECK(fd >= 0 && !temporary && fs_own_still(&word, fd, temporary));
  atomic_store(&word, -1);
  fs_own_close(fd);
  CHECK(fs_own_publish(&other, open("/dev/zero", O_RDONLY | O_CLOEXEC), &temporary) == fd);
  CHECK(fs_data_owns_fd(fd) && !fs_own_still(&word, fd, temporary));
}
static void test_number_again(void **state) {
  fix_run(state, number_again);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_room),
      cmocka_unit_test_setup_teardown(test_all, fake_setup, fix_teardown),
      cmocka_unit_test_setup_teardown(test_in_memory, fake_setup, fix_teardown),
      cmocka_unit_test_setup_teardown(test_pieces, fake_setup, fix_teardown),
      cmocka_unit_test_setup_teardown(test_in_order, fake_setup, fix_teardown),
      cmocka_unit_test_setup_teardown(test_threads, fake_setup, fix_teardown),
      cmocka_unit_test_setup_teardown(test_forked, fake_setup, fix_teardown),
      cmocka_unit_test_setup_teardown(test_interrupted, fake_setup, fix_teardown),
      cmocka_unit_test_setup_teardown(test_buffers, fake_setup, fix_teardown),
      cmocka_unit_test_setup_teardown(test_refused, fake_setup, fix_teardown),
      cmocka_unit_test_setup_teardown(test_number_again, fake_setup, fix_teardown),
  };
  look();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
