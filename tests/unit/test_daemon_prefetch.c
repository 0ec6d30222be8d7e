/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks that clients want ahead: fetched a few at a time, behind the reads, from a bounded queue. */
#include "daemon/outputs/backing.h"
#include "fetch_fixture.h"
#include "ipc/channel.h"

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

static void fill_queue(unsigned blocks) {
  struct fs_channel *ch = client->channel;
  for (uint32_t k = 0, i = 0; k < 2 * FS_PREFETCH_QUEUE / FS_PREFETCH_RING; k++) {
    while (atomic_load(&ch->prefetch_head) - atomic_load(&ch->prefetch_tail) < FS_PREFETCH_RING)
      want(key_of(i++ % blocks * 2 + 1));
    for (int turns = 0; turns < 8; turns++) (void)fs_prefetch_run(d);
  }
}

/* A queue that a client has filled leaves its ring full, and has room for half; a client that dies leaves nothing. */
static void test_wanted_too_much(void **state) {
  (void)state;
  fill_queue(BLOCKS / 2);
  assert_true(fs_prefetch_posted(client));
  assert_in_range(fs_prefetch_waiting(d), FS_PREFETCH_QUEUE / 2 - 256, FS_PREFETCH_QUEUE / 2);
  fs_clients_forget(d, client);
  client = NULL;
  fs_clients_bury(d);
  (void)fs_prefetch_run(d);
}

static unsigned asked_from(unsigned block) {
  unsigned n = 0;
  for (uint32_t i = 0; i < world.sends; i++) {
    struct fs_wire_req req;
    memcpy(&req, world.sent[i].buf, sizeof(req));
    n += req.offset >= 4096 + (uint64_t)block * BLOCK;
  }
  return n;
}

/* Another client's wishes are taken all the same, and come in turn with those of the one that has so many. */
static void test_wanted_by_two(void **state) {
  (void)state;
  int fd = -1;
  fs_err err;
  fill_queue(100);
  struct fs_client *many = client, *few = fs_clients_add(d, 2, &fd, &err);
  assert_non_null(few);
  close(fd);
  client = few;
  for (unsigned i = 0; i < 10; i++) want(key_of(301 + 2 * i));
  turn(0);
  assert_false(fs_prefetch_posted(few));
  assert_true(fs_prefetch_posted(many));
  for (unsigned i = 0; i < 25; i++) { /* of what was under way before */
    answer_one(3, GOOD);
    turn(0);
  }
  assert_int_equal(asked_from(301), 10);
  fs_clients_forget(d, few);
  client = many;
}

/* ---- outputs that were opened for writing, in the same ring ---- */

static struct fs_backing backing;
static struct fs_backing_file files[4];

static void open_to_write(unsigned i) {
  assert_true(fs_chan_want(client->channel, files[i].id));
}
static bool is_listed(unsigned i) {
  return !fs_chain_empty(&files[i].open);
}

/* They do not wait behind a full queue of blocks. When the client has gone, all are taken, also those behind a place
   that a killed thread has not filled. */
static void test_opened(void **state) {
  (void)state;
  d->backing_files = &backing;
  fs_chain_init(&backing.young);
  fs_chain_init(&backing.open);
  for (unsigned i = 0; i < FS_ARRAY_LEN(files); i++) {
    files[i].id = FS_OUTPUT_ID_MAKE(0, i + 1);
    fs_chain_init(&files[i].open);
    (void)fs_table_add(&backing.files, &files[i].by_id, files[i].id);
  }
  want(key_of(1));
  open_to_write(0);
  (void)fs_prefetch_run(d);
  assert_true(is_listed(0));
  d->fetcher->prefetch.count += FS_PREFETCH_QUEUE;
  open_to_write(1);
  want(key_of(2));
  open_to_write(2);
  (void)fs_prefetch_run(d);
  assert_true(is_listed(1) && !is_listed(2));
  atomic_fetch_add(&client->channel->prefetch_head, 1);
  open_to_write(3);
  fs_prefetch_gone(d, client);
  assert_true(is_listed(2) && is_listed(3));
  d->fetcher->prefetch.count -= FS_PREFETCH_QUEUE;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_wanted_ahead),
      TEST(test_wanted_too_much),
      TEST(test_wanted_by_two),
      TEST(test_opened),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
