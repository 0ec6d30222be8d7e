/* SPDX-License-Identifier: BSD-3-Clause */
/* The cache is filled while nobody reads: a few blocks at a time, not beside reads, and with little work in each round.
 */
#include <sys/stat.h>

#include "fetch_fixture.h"

#define MANY 10000u /* blocks of one file */

static struct fs_block_rec many[MANY];
static struct fs_entry file;

/* One file, all on node 3. */
static int setup_fill(void **state) {
  int err = setup(state);
  for (unsigned i = 0; i < MANY; i++) {
    many[i] = records[i % BLOCKS];
    many[i].partition = 1;
  }
  file = (struct fs_entry){
      .size = (uint64_t)MANY << 12, .mode = S_IFREG | 0444, .name = FS_NAME_MAKE(0, 1, FS_CODEC_LZ4, FS_ENTRY_BLOCKS)};
  struct fs_index *ix = &d->data[0].stage.index;
  ix->entries = &file;
  ix->nentries = 1;
  ix->blocks = many;
  ix->nblocks = MANY;
  fs_codec_set_first(&ix->codecs);
  ix->block_size = 4096;
  ix->block_shift = 12;
  config.fill = true;
  d->fill = (struct fs_fill){0};
  return err;
}

/* Sends what waits to be sent, and answers the oldest request. */
static void answer(void) {
  turn(0);
  answer_one(3, GOOD);
}

/* Has four blocks under way, pauses while a read waits and for 2 ms after it, and does nothing without the option. */
static void test_fill(void **state) {
  (void)state;
  config.fill = false;
  assert_int_equal(fs_fill_run(d), 0);
  config.fill = true;
  assert_int_equal(fs_fill_run(d), 4);
  assert_int_equal(fs_fill_run(d), 0);
  answer();
  assert_int_equal(fs_fill_run(d), 1);
  struct fs_req *r = post(0, key_of(300), 0);
  while (atomic_load(&r->state) == FS_REQ_POSTED) {
    answer();
    assert_int_equal(fs_fill_run(d), 0);
  }
  while (d->fetcher->ahead > 0) answer();
  assert_int_equal(fs_fill_run(d), 0);
  turn(3000000);
  assert_int_equal(fs_fill_run(d), 4);
  while (d->fetcher->ahead > 0) answer();
  assert_int_equal(d->count.prefetched, 9);
}

/* The cache has lines for a fraction of these small blocks: the filling ends when they are used, and
   evicts nothing. */
static void test_fill_full(void **state) {
  (void)state;
  unsigned rounds = 0;
  for (; !d->fill.done && rounds < MANY; rounds++) {
    turn(0);
    (void)fs_fill_run(d);
    while (world.sends > 0) answer_one(3, GOOD);
  }
  assert_true(d->fill.done);
  assert_in_range(d->count.prefetched, (1u << 20) / 4096 / 2, MANY / 2);
  for (unsigned i = 0; i < d->count.prefetched; i++) assert_true(fs_cache_find(d->cache, key_of(i)) >= 0);
}

/* Blocks that are not to be had do not hold up the daemon: a round looks at some of them. */
static void test_fill_unavailable(void **state) {
  (void)state;
  unsigned rounds = 0;
  d->data[0].max_stored = BLOCK - 1;
  for (; !d->fill.done && rounds < 100; rounds++) {
    uint64_t before = d->fill.block;
    assert_int_equal(fs_fill_run(d), 0);
    assert_true(d->fill.block <= before + 5000);
  }
  assert_true(d->fill.done);
  assert_in_range(rounds, 2, 10);
}

#define TEST_FILL(f) cmocka_unit_test_setup_teardown(f, setup_fill, teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST_FILL(test_fill),
      TEST_FILL(test_fill_full),
      TEST_FILL(test_fill_unavailable),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
