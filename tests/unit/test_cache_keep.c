/* SPDX-License-Identifier: BSD-3-Clause */
/* Which blocks stay in the node cache when there are more than it has room for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "cache/cache.h"

struct fixture {
  struct fs_cache *c;
  struct fs_cache_view v;
};

static void no_pins(void *ctx, void (*visit)(void *arg, uint32_t line), void *arg) {
  (void)ctx, (void)visit, (void)arg;
}

/* A cache of 1 MiB: room for some 250 blocks of 4000 bytes. */
static struct fixture make(void) {
  struct fixture f;
  uint64_t size;
  assert_int_equal(fs_cache_new(&f.c, 1 << 20, 4000, no_pins, NULL), 0);
  const void *map = mmap(NULL, 1 << 20, PROT_READ, MAP_SHARED, fs_cache_slab_fd(f.c, &size), 0);
  assert_ptr_not_equal(map, MAP_FAILED);
  assert_int_equal(fs_cache_view_init(&f.v, map, size, NULL, 0), 0);
  return f;
}

/* Reads keys from `from` to `to` - 1 of so many bytes once each, in an order drawn anew, each in two pieces. Returns
 * how many were there. */
static unsigned epoch_of(struct fs_cache *c, uint64_t from, uint64_t to, uint32_t bytes) {
  static uint64_t order[1000];
  static uint32_t seed = 1;
  uint64_t n = to - from;
  unsigned hits = 0;
  void *buf;
  for (uint64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    uint64_t j = (seed >> 8) % (i + 1);
    order[i] = order[j];
    order[j] = from + i;
  }
  for (uint64_t i = 0; i < n; i++) {
    if (fs_cache_find(c, order[i]) >= 0) {
      hits++;
      continue;
    }
    int64_t line = fs_cache_alloc(c, order[i], bytes, &buf);
    assert_true(line >= 0);
    fs_cache_publish(c, (uint32_t)line, false);
    assert_int_equal(fs_cache_find(c, order[i]), line);
  }
  return hits;
}

static unsigned epoch(struct fs_cache *c, uint64_t from, uint64_t to) {
  return epoch_of(c, from, to, 4000);
}

/* Of blocks that are read once an epoch, the cache keeps as many as it has room for, also if they are so small that it
   has lines for fewer of them than bytes. */
static void test_epochs(void **state) {
  static const uint32_t sizes[] = {4000, 1000, 100};
  (void)state;
  for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
    struct fixture f = make();
    struct fs_cache_stats st;
    unsigned hits = 0;
    (void)epoch_of(f.c, 1, 501, sizes[s]);
    fs_cache_stats(f.c, &st);
    assert_in_range(st.lines_used, 200, 260);
    for (int e = 0; e < 20; e++) hits += epoch_of(f.c, 1, 501, sizes[s]);
    assert_in_range(hits, 20 * st.lines_used * 85 / 100, 20 * st.lines_used);
    fs_cache_free(f.c);
  }
}

/* The first blocks stay, as long as there is room, and the others pass. */
static void test_stays(void **state) {
  (void)state;
  struct fixture f = make();
  unsigned stay = 0, spare = 0;
  void *buf;
  for (uint64_t key = 1; key < 501; key++) {
    bool room = fs_cache_spare(f.c, 4000);
    int64_t line = fs_cache_alloc(f.c, key, 4000, &buf);
    assert_true(line >= 0);
    fs_cache_publish(f.c, (uint32_t)line, false);
    assert_true(fs_cache_stays(f.c, (uint32_t)line) || !room);
    stay += fs_cache_stays(f.c, (uint32_t)line);
    spare += room;
  }
  assert_in_range(stay, 200, 260);
  assert_in_range(spare, stay - 30, stay);
  fs_cache_free(f.c);
}

/* What was fetched ahead stays until it is read, however much comes in between. */
static void test_awaited(void **state) {
  (void)state;
  struct fixture f = make();
  void *buf;
  for (int e = 0; e < 3; e++) (void)epoch(f.c, 1, 501);
  for (uint64_t key = 5000; key < 5050; key++) {
    int64_t line = fs_cache_alloc(f.c, key, 4000, &buf);
    assert_true(line >= 0);
    fs_cache_publish(f.c, (uint32_t)line, true);
  }
  (void)epoch(f.c, 1, 501);
  for (uint64_t key = 5000; key < 5050; key++) assert_true(fs_cache_find(f.c, key) >= 0);
  unsigned hits = 0;
  for (int e = 0; e < 10; e++) hits += epoch(f.c, 1, 501);
  assert_true(hits > 10 * 150);                  /* of some 250 lines, 50 may still have what was fetched ahead */
  for (uint64_t key = 6000; key < 6300; key++) { /* more than there is room for, and nobody reads it */
    int64_t line = fs_cache_alloc(f.c, key, 4000, &buf);
    assert_true(line >= 0);
    fs_cache_publish(f.c, (uint32_t)line, true);
  }
  fs_cache_free(f.c);
}

/* When other blocks are read, those take the places. */
static void test_other_epochs(void **state) {
  (void)state;
  struct fixture f = make();
  unsigned hits = 0;
  for (int e = 0; e < 20; e++) (void)epoch(f.c, 1, 501);
  for (int e = 0; e < 4; e++) (void)epoch(f.c, 1001, 1201);
  assert_int_equal(epoch(f.c, 1001, 1201), 200); /* there is room for all */
  for (int e = 0; e < 5; e++) (void)epoch(f.c, 2001, 2501);
  for (int e = 0; e < 20; e++) hits += epoch(f.c, 2001, 2501);
  assert_true(hits > 20 * 190);
  fs_cache_free(f.c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_epochs),
      cmocka_unit_test(test_stays),
      cmocka_unit_test(test_awaited),
      cmocka_unit_test(test_other_epochs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
