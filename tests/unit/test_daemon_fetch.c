/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fetching blocks from other nodes, over a network of this file's own: what is asked of whom, what is done with good,
 * bad, late and missing replies, and that every request of a client gets its answer. Time is the test's.
 */
#include "fetch_fixture.h"

static void test_one_fetch_for_all(void **state) {
  (void)state;
  struct fs_req *a = post(0, key_of(1), 0), *b = post(1, key_of(1), 0), *c;
  turn(0);
  assert_int_equal(world.sends, 1);
  answer_one(3, GOOD);
  expect_block(a, 0, 1, false);
  expect_block(b, 1, 1, true);
  c = post(2, key_of(1), 0);
  turn(0);
  assert_int_equal(world.sends, 0);
  expect_block(c, 2, 1, true);
  assert_int_equal(d->count.fetched, 1);
}

static void test_bad_replies_go_to_the_replica(void **state) {
  (void)state;
  static const enum damage bad[] = {FLIPPED, SHORT, SHORTER, BAD_MAGIC, BAD_ID, BAD_LENGTH, FAILED};
  for (unsigned i = 0; i < FS_ARRAY_LEN(bad); i++) {
    struct fs_req *r = post(0, key_of(2 * i), 0);
    turn(0);
    answer_one(1, bad[i]);
    turn(0);
    answer_one(2, GOOD);
    expect_block(r, 0, 2 * i, false);
    done_with(0);
  }
  assert_int_equal(d->count.checksum_errors, 1);
  assert_int_equal(d->count.dropped, 5); /* all but a wrong byte and an error */
  struct fs_req *r = post(0, key_of(100), 0);
  turn(0);
  answer_one(1, FLIPPED);
  turn(0);
  answer_one(2, FLIPPED);
  expect_error(r, -EREMOTEIO);
  assert_int_equal(fs_cache_find(d->cache, key_of(100)), -ENOENT);
}

/* A large block comes without a header; what is wrong with it sends its fetch to the replica. */
static void test_bare_replies(void **state) {
  (void)state;
  static unsigned char big[40000], flipped[sizeof(big)];
  for (unsigned i = 0; i < sizeof(big); i++) big[i] = flipped[i] = (unsigned char)(i * 7 + i / 256);
  flipped[39999] ^= 1;
  d->data[0].max_stored = sizeof(big);
  records[0].stored_len = sizeof(big);
  records[0].xxh3 = fs_xxh3(big, sizeof(big));
  for (unsigned i = 0; i < 3; i++) {
    struct fs_wire_req req;
    struct fs_req *r = post(0, key_of(0), 0);
    turn(0);
    take_request(1, &req);
    assert_int_equal(req.type, FS_WIRE_READ_BARE);
    if (i == 0) deliver(1, req.tag, flipped, sizeof(big));
    if (i == 1) deliver(1, req.tag, big, sizeof(big) - 1);
    if (i == 2) {
      struct fs_wire_rep rep = {
          .magic = FS_WIRE_MAGIC, .version = FS_WIRE_VERSION, .type = req.type, .id = req.id, .err = -EIO};
      deliver(1, req.tag, &rep, sizeof(rep));
    }
    turn(0);
    assert_int_equal(atomic_load(&r->state), FS_REQ_POSTED);
    take_request(2, &req);
    if (i < 2) {
      deliver(2, req.tag, flipped, sizeof(big));
      expect_error(r, -EREMOTEIO);
    } else {
      deliver(2, req.tag, big, sizeof(big));
      assert_int_equal(r->err, 0);
      assert_int_equal(atomic_load(&client->channel->pin[0]), r->line + 1);
      assert_int_equal(fs_cache_find(d->cache, key_of(0)), r->line);
    }
    done_with(0);
  }
  assert_int_equal(d->count.checksum_errors, 3);
  assert_int_equal(d->count.dropped, 1);
  assert_int_equal(d->count.fetched_bytes, sizeof(big));
}

static void test_deadline_and_recovery(void **state) {
  (void)state;
  struct fs_wire_req late, ping;
  struct fs_req *r = post(0, key_of(1), 0);
  turn(0);
  take_request(3, &late);
  turn(2 * SECOND);
  assert_int_equal(atomic_load(&r->state), FS_REQ_POSTED);
  turn(SECOND + SECOND / 2);
  expect_error(r, -EREMOTEIO);
  done_with(0);
  r = post(0, key_of(3), 0); /* a suspect is not asked */
  turn(0);
  expect_error(r, -EREMOTEIO);
  done_with(0);
  assert_false(asked(3));
  turn(SECOND + SECOND / 10);
  take_request(3, &ping);
  assert_int_equal(ping.type, FS_WIRE_PING);
  reply(3, &late, GOOD); /* too late for its block, but a sign of life */
  assert_int_equal(d->count.dropped, 1);
  assert_int_equal(fs_cache_find(d->cache, key_of(1)), -ENOENT);
  r = post(0, key_of(3), 0);
  turn(0);
  answer_one(3, GOOD);
  expect_block(r, 0, 3, false);
  reply(3, &ping, GOOD);
  assert_int_equal(d->count.timeouts, 1);
  assert_int_equal(d->count.dropped, 1); /* the answer to a ping is none of them */
  assert_int_equal(d->fetcher->spare, FS_EXCHANGES);
}

static void test_deadline_with_a_replica(void **state) {
  (void)state;
  struct fs_req *r = post(0, key_of(2), 0);
  struct fs_wire_req late;
  turn(0);
  take_request(1, &late);
  turn(SECOND + SECOND * 6 / 10); /* half of three quarters of the deadline */
  assert_true(asked(2));
  answer_one(2, GOOD);
  expect_block(r, 0, 2, false);
  reply(1, &late, GOOD);
  expect_block(r, 0, 2, false);
}

static void test_slow_is_not_dead(void **state) {
  (void)state;
  struct fs_wire_req slow;
  struct fs_req *r = post(0, key_of(1), 0);
  turn(0);
  take_request(3, &slow);
  turn(SECOND);
  post(1, key_of(3), 0);
  turn(0);
  answer_one(3, GOOD); /* it answers others */
  turn(2 * SECOND + SECOND / 10);
  expect_error(r, -EREMOTEIO);
  post(2, key_of(5), 0);
  turn(0);
  assert_true(asked(3));
  reply(3, &slow, GOOD);
}

/* Node 1's disk hangs: it answers pings, and sends what it has in memory. When it owes some blocks, it is asked for
   none that another node has, until it sends one of them. */
static void test_hanging_disk(void **state) {
  (void)state;
  struct fs_wire_req owed[FS_PEER_OWED], req;
  struct fs_req *r[FS_PEER_OWED];
  for (unsigned i = 0; i < FS_PEER_OWED; i++) r[i] = post(i, key_of(2 * i), 0);
  turn(0);
  for (unsigned i = 0; i < FS_PEER_OWED; i++) take_request(1, &owed[i]);
  turn(SECOND);
  post(8, key_of(20), 0);
  turn(0);
  answer_one(1, GOOD);
  turn(SECOND * 6 / 10);
  for (unsigned i = 0; i < FS_PEER_OWED; i++) answer_one(2, GOOD);
  turn(0);
  for (unsigned i = 0; i < FS_PEER_OWED; i++) {
    expect_block(r[i], i, 2 * i, false);
    done_with(i);
  }
  r[0] = post(0, key_of(30), 0);
  turn(0);
  assert_false(asked(1)); /* nobody waits for it */
  take_request(2, &req);
  turn(SECOND * 2); /* and node 2 has more time: it is the only one */
  assert_int_equal(atomic_load(&r[0]->state), FS_REQ_POSTED);
  reply(2, &req, GOOD);
  done_with(0);
  d->data[0].place[0].owners = 1; /* it alone has the others */
  r[0] = post(0, key_of(34), 0);
  turn(0);
  expect_error(r[0], -EREMOTEIO);
  done_with(0);
  r[0] = post(0, key_of(34), FS_REQ_PATIENT);
  turn(0);
  answer_one(1, GOOD);
  expect_block(r[0], 0, 34, false);
  done_with(0);
  d->data[0].place[0].owners = 2;
  reply(1, &owed[0], GOOD);
  r[0] = post(0, key_of(32), 0);
  turn(0);
  answer_one(1, GOOD);
  expect_block(r[0], 0, 32, false);
  for (unsigned i = 0; i < FS_PEER_OWED; i++)
    if (i != 0) reply(1, &owed[i], GOOD);
  assert_int_equal(d->fetcher->spare, FS_EXCHANGES);
  assert_int_equal(d->fetcher->peer[1].owed, 0);
}

/* What waits in the queue of such a peer is asked elsewhere at once, and only then. */
static void test_queue_of_a_hanging_disk(void **state) {
  (void)state;
  struct fs_wire_req req;
  struct fs_req *r;
  d->fetcher->peer_bytes = FS_PEER_OWED * BLOCK; /* no more at once */
  post(0, key_of(10), 0);
  turn(0);
  take_request(1, &req);
  turn(SECOND);
  reply(1, &req, GOOD);
  turn(0);
  for (unsigned i = 1; i <= FS_PEER_OWED; i++) post(i, key_of(2 * i + 20), 0);
  r = post(20, key_of(60), 0);
  turn(0);
  assert_int_equal(world.sends, FS_PEER_OWED);
  while (asked(1)) take_request(1, &req);
  turn(SECOND + SECOND / 10);
  d->fetcher->peer[1].heard = d->now; /* it has answered something */
  assert_int_equal(world.sends, 0);
  turn(SECOND / 2);
  assert_false(d->fetcher->peer[1].suspected);
  while (asked(2)) answer_one(2, GOOD);
  turn(0);
  expect_block(r, 20, 60, false);
}

static void test_limits(void **state) {
  (void)state;
  struct fs_client *many[8];
  uint32_t n = 0, answered = 0;
  for (unsigned i = 0; i < FS_ARRAY_LEN(many); i++) {
    fs_err err;
    int fd;
    many[i] = fs_clients_add(d, 2 + i, &fd, &err);
    close(fd);
    for (unsigned s = 0; s < 20; s++, n++) {
      struct fs_channel *ch = many[i]->channel;
      ch->req[s].key = key_of(2 * n + 1);
      atomic_store(&ch->req[s].state, FS_REQ_POSTED);
      atomic_fetch_or(&ch->posted, 1ull << s);
    }
  }
  turn(0);
  assert_int_equal(world.sends, FS_PEER_IN_FLIGHT);
  while (world.sends > 0) {
    assert_true(world.sends <= FS_PEER_IN_FLIGHT);
    answer_one(3, GOOD);
    answered++;
    turn(0);
  }
  assert_int_equal(answered, n);
  for (unsigned i = 0; i < FS_ARRAY_LEN(many); i++) {
    for (unsigned s = 0; s < 20; s++) assert_int_equal(atomic_load(&many[i]->channel->req[s].state), FS_REQ_DONE);
    fs_clients_forget(d, many[i]);
  }
  fs_clients_bury(d);
}

/* The next exchange of the same number has another tag: a late reply finds no receive. */
static void test_tags_differ(void **state) {
  static uint32_t tag[FS_EXCHANGES];
  unsigned again = 0;
  struct fs_wire_req req;
  uint64_t last = UINT64_MAX;
  (void)state;
  for (unsigned i = 0; i < 3 * FS_EXCHANGES; i++) {
    post(0, key_of(3), 0);
    turn(0);
    take_request(3, &req);
    uint32_t number = (uint32_t)(req.id & 0xffff);
    assert_true(req.id != last && number < FS_EXCHANGES);
    assert_int_not_equal(req.tag, tag[number]);
    again += tag[number] != 0;
    tag[number] = req.tag;
    last = req.id;
    reply(3, &req, FAILED);
    turn(0);
    done_with(0);
  }
  assert_true(again >= FS_EXCHANGES);
}

static void test_junk(void **state) {
  (void)state;
  static const uint64_t junk[] = {UINT64_MAX,
                                  0,
                                  1,
                                  FS_CACHE_KEY(1, FS_KEY_BLOCK),
                                  FS_KEY_BLOCK | BLOCKS,
                                  1ull << 62,
                                  FS_CACHE_VALID | FS_KEY_BLOCK};
  for (unsigned i = 0; i < FS_ARRAY_LEN(junk); i++) {
    struct fs_req *r = post(i, junk[i], 0);
    turn(0);
    expect_error(r, -EINVAL);
  }
  atomic_store(&client->channel->posted, UINT64_MAX); /* nothing else was posted */
  turn(0);
  assert_int_equal(world.sends, 0);
}

static void test_abandoned_and_prefetched(void **state) {
  (void)state;
  struct fs_req *a = post(0, key_of(1), 0);
  post(1, key_of(1), FS_REQ_PREFETCH);
  turn(0);
  atomic_store(&a->state, FS_REQ_ABANDONED);
  answer_one(3, GOOD);
  assert_false(is_claimed(0));
  assert_false(is_claimed(1));
  assert_int_equal(atomic_load(&client->channel->pin[0]), 0);
  assert_int_equal(atomic_load(&client->channel->req[1].state), FS_REQ_FREE);
  assert_true(fs_cache_find(d->cache, key_of(1)) >= 0);
  post(2, key_of(1), 0);
  atomic_store(&client->channel->req[2].state, FS_REQ_ABANDONED); /* before it was even seen */
  turn(0);
  assert_false(is_claimed(2));
}

static void *sleeper(void *arg) {
  struct fs_req *r = arg;
  uint64_t end = fs_now_ns() + 30 * SECOND;
  fs_err err = 0;
  while (atomic_load(&r->state) == FS_REQ_ASLEEP && err != -ETIMEDOUT && fs_now_ns() < end) {
    err = fs_futex_wait(&r->state, FS_REQ_ASLEEP, 30 * SECOND);
  }
  return (void *)(intptr_t)err;
}

/* Whoever said so is woken; a request that was given up asleep is cleared like another. */
static void test_sleepers(void **state) {
  (void)state;
  pthread_t thread;
  void *err = NULL;
  struct fs_req *r = post(0, key_of(1), 0), *late = post(1, key_of(1), 0);
  turn(0);
  atomic_store(&r->state, FS_REQ_ASLEEP);
  atomic_store(&late->state, FS_REQ_ASLEEP); /* seen, asleep, and posted once more, which counts once */
  atomic_fetch_or(&client->channel->posted, 2);
  assert_int_equal(pthread_create(&thread, NULL, sleeper, r), 0);
  usleep(10000);
  turn(0);
  atomic_store(&late->state, FS_REQ_ABANDONED);
  answer_one(3, GOOD);
  expect_block(r, 0, 1, false);
  pthread_join(thread, &err);
  assert_int_not_equal((intptr_t)err, -ETIMEDOUT);
  assert_false(is_claimed(1));
  struct fs_req *unseen = post(2, key_of(3), 0);
  atomic_store(&unseen->state, FS_REQ_ASLEEP); /* before the daemon took it */
  turn(0);
  answer_one(NODES, GOOD);
  expect_block(unseen, 2, 3, false);
}

static void test_a_client_dies(void **state) {
  (void)state;
  atomic_store(&client->channel->counter[FS_C_OPENS], 5);
  post(0, key_of(1), 0);
  post(1, key_of(3), 0);
  turn(0);
  fs_clients_forget(d, client);
  client = NULL;
  fs_clients_bury(d);
  answer_one(3, GOOD);
  answer_one(3, FAILED);
  turn(0);
  assert_true(fs_cache_find(d->cache, key_of(1)) >= 0);
  uint64_t counter[FS_C_COUNT];
  fs_clients_sum(d, counter);
  assert_int_equal(counter[FS_C_OPENS], 5);
}

static void test_network_refuses(void **state) {
  (void)state;
  struct fs_req *r = post(0, key_of(2), 0);
  world.refuse = -ECOMM;
  turn(0);
  turn(0);
  turn(0);
  expect_error(r, -EREMOTEIO);
}

static void fail_send(uint32_t peer) {
  uint32_t i = 0;
  while (i < world.sends && world.sent[i].peer != peer) i++;
  assert_true(i < world.sends);
  struct message m = world.sent[i];
  memmove(&world.sent[i], &world.sent[i + 1], (--world.sends - i) * sizeof(m));
  m.op->done(m.op, peer, 0, -ECOMM);
}

/* The network says later that a send has failed: no reply will come. Its receive keeps a line of the cache for ever, so
   the peer is asked nothing more. */
static void test_sends_fail(void **state) {
  (void)state;
  struct fs_req *r = post(0, key_of(1), 0), *s = post(1, key_of(4), 0);
  turn(0);
  fail_send(3);
  fail_send(1);
  turn(0);
  expect_error(r, -EREMOTEIO);
  answer_one(2, GOOD);
  turn(0);
  expect_block(s, 1, 4, false);
  done_with(0);
  r = post(0, key_of(3), 0);
  turn(0);
  expect_error(r, -EREMOTEIO); /* at once */
  assert_int_equal(world.sends, 0);
  turn(2 * SECOND);
  assert_true(asked(3)); /* a ping */
  fail_send(3);
  assert_int_equal(d->fetcher->peer[3].owed, 1); /* which owes no block */
}

/* Dead peers have taken all exchanges, since MPI completes none of theirs: clients are sent to the shared copy at once.
 */
static void test_none_left(void **state) {
  (void)state;
  struct fs_fetcher *t = d->fetcher;
  for (; t->spare > FS_PING_SPARE; t->spare--) (void)fs_chain_pop(&t->free_exchanges);
  struct fs_req *r = post(0, key_of(1), 0);
  turn(0);
  expect_error(r, -EREMOTEIO);
  assert_int_equal(world.sends, 0);
}

/* A cache that is full when another owner is to be asked may have room a moment later. */
static void test_full_for_the_replica(void **state) {
  (void)state;
  struct fs_req *r = post(0, key_of(2), 0);
  struct fs_wire_req req;
  int64_t line, last = -1;
  void *buf;
  turn(0);
  take_request(1, &req);
  for (uint32_t n = 0; (line = fs_cache_alloc(d->cache, 1000000 + n, BLOCK, &buf)) >= 0; n++) last = line;
  turn(SECOND + SECOND / 2); /* node 1 does not answer */
  assert_int_equal(atomic_load(&r->state), FS_REQ_POSTED);
  fs_cache_abort(d->cache, (uint32_t)last);
  turn(SECOND / 100);
  assert_true(asked(2));
  answer_one(2, GOOD);
  turn(0);
  assert_int_equal(atomic_load(&r->state), FS_REQ_DONE);
  assert_int_equal(r->err, 0);
}

static void test_cache_full_of_pins(void **state) {
  (void)state;
  uint32_t lines = 0;
  void *buf;
  while (fs_cache_alloc(d->cache, 1000000 + lines, 4096, &buf) >= 0) lines++; /* all under way for ever */
  struct fs_req *r = post(0, key_of(1), 0);
  turn(0);
  assert_int_equal(atomic_load(&r->state), FS_REQ_POSTED); /* it may pass */
  turn(SECOND);
  expect_error(r, -ENOBUFS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_one_fetch_for_all),
      TEST(test_bad_replies_go_to_the_replica),
      TEST(test_bare_replies),
      TEST(test_deadline_and_recovery),
      TEST(test_deadline_with_a_replica),
      TEST(test_slow_is_not_dead),
      TEST(test_hanging_disk),
      TEST(test_queue_of_a_hanging_disk),
      TEST(test_limits),
      TEST(test_tags_differ),
      TEST(test_junk),
      TEST(test_abandoned_and_prefetched),
      TEST(test_sleepers),
      TEST(test_a_client_dies),
      TEST(test_network_refuses),
      TEST(test_sends_fail),
      TEST(test_none_left),
      TEST(test_full_for_the_replica),
      TEST(test_cache_full_of_pins),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
