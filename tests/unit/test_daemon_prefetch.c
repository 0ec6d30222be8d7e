/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks that clients want ahead: fetched a few at a time, behind the reads, from a bounded queue. */
#include "fetch_fixture.h"

/* Wanted ahead: a few at a time, fewer while a read waits, which is not behind them; each once; junk is dropped. */
static void test_wanted_ahead(void **state) {
  (void)state;
  for (unsigned i = 1; i < 200; i += 2) {
    want(key_of(i));
    want(key_of(1));
    want(key_of(BLOCKS + i));
  }
  assert_true(fs_prefetch_posted(client));
  turn(0);
  turn(0);
  assert_false(fs_prefetch_posted(client));
  assert_int_equal(atomic_load(&client->channel->prefetch_tail), 300);
  uint32_t flying = world.sends;
  assert_in_range(flying, 4, 32);
  assert_in_range(fs_prefetch_waiting(d), 100, 300 - flying);
  struct fs_req *r = post(0, key_of(301), 0);
  turn(0);
  assert_int_equal(world.sends, flying + 1); /* the read's own, and no more of the others */
  while (flying-- > 4) answer_one(3, GOOD);
  turn(0);
  assert_int_equal(world.sends, 5); /* a read waits: only so many */
  while (atomic_load(&r->state) == FS_REQ_POSTED) {
    answer_one(3, GOOD);
    turn(0);
  }
  for (unsigned i = 0; i < 300 && world.sends > 0; i++) {
    answer_one(3, GOOD);
    turn(0);
  }
  assert_int_equal(fs_prefetch_waiting(d), 0);
  assert_int_equal(d->count.prefetched, 100);
  assert_int_equal(d->fetcher->ahead, 0);
  assert_int_equal(d->fetcher->ahead_bytes, 0);
  assert_int_equal(d->fetcher->live, 0);
  for (unsigned i = 1; i < 200; i += 2) assert_true(fs_cache_find(d->cache, key_of(i)) >= 0);
}

/* A full queue leaves the ring full; a client that dies leaves nothing. */
static void test_wanted_too_much(void **state) {
  (void)state;
  struct fs_channel *ch = client->channel;
  for (uint32_t k = 0, i = 0; k < 2 * FS_PREFETCH_QUEUE / FS_PREFETCH_RING; k++) {
    while (atomic_load(&ch->prefetch_head) - atomic_load(&ch->prefetch_tail) < FS_PREFETCH_RING)
      want(key_of(i++ % BLOCKS));
    for (int turns = 0; turns < 8; turns++) (void)fs_prefetch_run(d);
  }
  assert_true(fs_prefetch_posted(client));
  assert_in_range(fs_prefetch_waiting(d), FS_PREFETCH_QUEUE - 256, FS_PREFETCH_QUEUE);
  fs_clients_forget(d, client);
  client = NULL;
  fs_clients_bury(d);
  (void)fs_prefetch_run(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_wanted_ahead),
      TEST(test_wanted_too_much),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
