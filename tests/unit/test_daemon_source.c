/* SPDX-License-Identifier: BSD-3-Clause */
/* The bytes of a file whose segments are in other backing files of the node: against an array; holes; what changes or
 * is gone. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/outputs/backing.h"
#include "daemon/outputs/source.h"
#include "util/sys.h"
#include "util/util.h"

#define SEGMENT 4u
#define UNIT 65536u /* at least a block of any file system */
#define UNITS 60u

static struct fs_daemon d;
static struct fs_net net = {.rank = 3, .nodes = 8};
static char dir[PATH_MAX];

static uint64_t id_of(unsigned i) {
  return FS_OUTPUT_ID_MAKE(3, 100 + i);
}

static int make(unsigned i) {
  char name[FS_BACKING_NAME_SIZE];
  int fd = openat(d.backing_fd, fs_backing_name(id_of(i), name), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  return fd;
}

static void put(int fd, unsigned byte, uint64_t off, size_t n) {
  static char buf[2 * UNIT];
  memset(buf, (int)byte, sizeof(buf));
  assert_int_equal(fs_pwrite_full(fd, buf, n, off), 0);
}

static int setup(void **state) {
  const char *tmp = getenv("TMPDIR");
  (void)state;
  snprintf(dir, sizeof(dir), "%s/fst-source-XXXXXX", tmp ? tmp : "/tmp");
  if (!mkdtemp(dir)) return -1;
  d.net = &net;
  d.backing_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return mkdirat(d.backing_fd, FS_OUTPUT_DIR, 0700);
}

static int teardown(void **state) {
  (void)state;
  close(d.backing_fd);
  return fs_remove_tree(dir);
}

/* All of it, in pieces of `step`; how much of it was holes. */
static uint64_t read_all(struct fs_source *s, uint8_t *to, size_t step) {
  uint64_t holes = 0;
  for (uint64_t at = 0; at < s->size;) {
    bool hole;
    fs_ssize n = fs_source_read(s, to + at, step, at, &hole);
    assert_true(n > 0 && (size_t)n <= step && at + (uint64_t)n <= s->size);
    if (hole) memset(to + at, 0, (size_t)n);
    if (hole) holes += (uint64_t)n;
    at += (uint64_t)n;
  }
  return holes;
}

static void test_pieces(void **state) {
  static uint8_t want[UNITS * UNIT], got[UNITS * UNIT];
  (void)state;
  for (unsigned seed = 1; seed <= 10; seed++) {
    struct fs_backing_file f = {.id = id_of(0)};
    struct fs_scattered e;
    struct fs_source s;
    int fd[SEGMENT + 1];
    uint64_t size = 0;
    srandom(seed);
    memset(want, 0, sizeof(want));
    for (unsigned i = 0; i <= SEGMENT; i++) fd[i] = make(i);
    for (unsigned i = 0; i < 12; i++) { /* home's own first: what follows is published later */
      unsigned segment = i < 4 ? 0 : 1 + (unsigned)random() % SEGMENT, byte = 1 + i;
      uint64_t off = (uint64_t)random() % (UNITS - 2) * UNIT + (i > 6 ? (uint64_t)random() % 1000 : 0);
      size_t n = 1 + (size_t)random() % UNIT;
      put(fd[segment], byte, off, n);
      memset(want + off, (int)byte, n);
      if (segment > 0)
        assert_int_equal(fs_extents_put(&f.extents, (struct fs_output_extent){off, n, id_of(segment)}), 0);
      size = FS_MAX(size, off + n);
    }
    assert_int_equal(fs_backing_scattered(&f, &e), 0);
    assert_int_equal(fs_source_open(&s, &d, NULL, f.id, O_RDONLY, &e), 0);
    assert_int_equal(s.size, size);
    assert_true(read_all(&s, got, seed % 2 ? FS_SOURCE_BYTES : 10000) > size / 4);
    assert_memory_equal(got, want, size);
    read_all(&s, got, 50000); /* once more from the beginning */
    assert_memory_equal(got, want, size);
    assert_int_equal(fs_source_same(&s), 0);
    fs_source_close(&s);
    free(e.extent);
    free(f.extents);
    for (unsigned i = 0; i <= SEGMENT; i++) assert_int_equal(ftruncate(fd[i], 0) + close(fd[i]), 0);
  }
}

/* Own backing file of one unit, one segment with the second. */
static void open_two(struct fs_source *s, struct fs_scattered *e, int fd[2]) {
  struct fs_backing_file f = {.id = id_of(0)};
  static uint8_t buf[2 * UNIT];
  for (unsigned i = 0; i < 2; i++) put(fd[i] = make(i), 7 + i, i * UNIT, UNIT);
  assert_int_equal(fs_extents_put(&f.extents, (struct fs_output_extent){UNIT, UNIT, id_of(1)}), 0);
  assert_int_equal(fs_backing_scattered(&f, e), 0);
  free(f.extents);
  assert_int_equal(fs_source_open(s, &d, NULL, f.id, O_RDONLY, e), 0);
  assert_int_equal(read_all(s, buf, sizeof(buf)), 0);
  assert_int_equal(fs_source_same(s), 0);
}

static void close_two(struct fs_source *s, struct fs_scattered *e, const int fd[2]) {
  fs_source_close(s);
  free(e->extent);
  close(fd[0]);
  close(fd[1]);
}

static void test_changes(void **state) {
  struct fs_source s;
  struct fs_scattered e;
  int fd[2];
  (void)state;
  for (unsigned i = 0; i < 2; i++) {
    open_two(&s, &e, fd);
    assert_int_equal(ftruncate(fd[i], 3 * UNIT + (off_t)i), 0);
    assert_int_equal(fs_source_same(&s), -EAGAIN);
    assert_int_equal(fs_source_same_segments(&s), i == 0 ? 0 : -EAGAIN);
    assert_int_equal(ftruncate(fd[i], (off_t)(i + 1) * UNIT), 0);
    close_two(&s, &e, fd);
  }
}

static void test_what_is_gone(void **state) {
  char name[FS_BACKING_NAME_SIZE], buf[100];
  struct fs_output_extent there = {0, 10, FS_OUTPUT_ID_MAKE(5, 1)};
  struct fs_scattered e, far = {.extent = &there, .count = 1};
  struct fs_source s;
  bool hole;
  int fd[2];
  (void)state;
  open_two(&s, &e, fd);
  assert_int_equal(ftruncate(fd[1], UNIT + 5), 0);
  assert_int_equal(fs_source_read(&s, buf, 100, UNIT + 50, &hole), -EIO);
  assert_int_equal(ftruncate(fd[0], 5), 0);
  assert_true(fs_source_read(&s, buf, 100, 50, &hole) == 100 && hole); /* there is nothing any more, */
  assert_int_equal(fs_source_same(&s), -EAGAIN);                       /* and that is why */
  assert_int_equal(unlinkat(d.backing_fd, fs_backing_name(id_of(1), name), 0), 0);
  assert_int_equal(fs_source_read(&s, buf, 100, UNIT, &hole), -EIO);
  close_two(&s, &e, fd);
  assert_int_equal(fs_source_open(&s, &d, NULL, id_of(0), O_RDONLY, &far), 0);
  assert_int_equal(fs_source_read(&s, buf, 100, 0, &hole), -EHOSTDOWN); /* another node's, and nobody to ask */
  fs_source_close(&s);
  assert_int_equal(fs_source_open(&s, &d, NULL, id_of(9), O_RDONLY, &far), -ENOENT);
}

static void test_written(void **state) {
  struct fs_scattered none = {0}, linked = {.linked = true};
  struct fs_source s;
  int fd = make(20);
  (void)state;
  put(fd, 1, 0, UNIT);
  assert_int_equal(fs_source_open(&s, &d, NULL, id_of(20), O_RDONLY, &none), 0);
  assert_true(s.open && fs_source_written(&s));
  void *p = mmap(NULL, UNIT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  assert_ptr_not_equal(p, MAP_FAILED);
  close(fd);
  assert_true(fs_source_written(&s)); /* by the mapping */
  munmap(p, UNIT);
  assert_false(fs_source_written(&s));
  assert_true(s.open); /* when it was opened */
  fs_source_close(&s);
  assert_int_equal(fs_source_open(&s, &d, NULL, id_of(20), O_RDONLY, &none), 0);
  assert_false(s.open);
  fd = make(20); /* it has been given back: nobody waits */
  s.scattered = &linked;
  assert_false(fs_source_written(&s)); /* no lease on what is not this job's */
  close(fd);
  fs_source_close(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pieces),
      cmocka_unit_test(test_changes),
      cmocka_unit_test(test_what_is_gone),
      cmocka_unit_test(test_written),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
