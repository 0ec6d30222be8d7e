/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fetching blocks from other nodes, over a network of this file's own: what is asked of whom, what is done with good,
 * bad, late and missing replies, and that every request of a client gets its answer. Time is the test's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/fetch.h"
#include "net_fixture.h"
#include "util/sys.h"
#include "util/util.h"

#define BLOCKS 400u
#define BLOCK 1000u
#define NODES 4u
#define SECOND 1000000000ull

/* ---- a daemon of node 0 ---- */

static struct fs_daemon *d;
static struct fs_daemon_config config;
static struct fs_block_rec records[BLOCKS];
static struct fs_part_rec parts[2];
static unsigned char stored[BLOCKS][BLOCK];
static struct fs_client *client;

/* Partition 0 is on nodes 1 and 2, partition 1 on node 3 alone. Odd blocks are in partition 1. */
static void make_dataset(void) {
  struct fs_dataset *ds = &d->data[0];
  d->datasets = 1;
  ds->partitions = 2;
  ds->max_stored = 4096;
  ds->place = calloc(2, sizeof(*ds->place));
  ds->place[0] = (struct fs_placement){.owner = {1, 2}, .owners = 2};
  ds->place[1] = (struct fs_placement){.owner = {3}, .owners = 1};
  parts[0].size = parts[1].size = 4096 + (uint64_t)BLOCKS * BLOCK;
  for (unsigned i = 0; i < BLOCKS; i++) {
    for (unsigned k = 0; k < BLOCK; k++) stored[i][k] = (unsigned char)(i * 13 + k);
    records[i] = (struct fs_block_rec){.offset = 4096 + (uint64_t)i * BLOCK,
                                       .stored_len = BLOCK,
                                       .partition = i % 2,
                                       .xxh3 = fs_xxh3(stored[i], BLOCK)};
  }
  ds->stage.index =
      (struct fs_index){.blocks = records, .nblocks = BLOCKS, .parts = parts, .nparts = 2, .block_size = 65536};
}

static int setup(void **state) {
  fs_err err;
  int fd = -1;
  (void)state;
  memset(&world, 0, sizeof(world));
  world.net = (struct fs_net){.ops = &fake_ops, .rank = 0, .nodes = NODES, .tag_max = 32767};
  d = calloc(1, sizeof(*d));
  config = (struct fs_daemon_config){.deadline_ns = 4 * SECOND, .cache_bytes = 1 << 20};
  d->cfg = &config;
  d->net = &world.net;
  d->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  d->now = 1000 * SECOND;
  make_dataset();
  assert_int_equal(fs_cache_new(&d->cache, 1 << 20, 4096, fs_clients_pins, d), 0);
  assert_int_equal(fs_fetcher_new(d), 0);
  client = fs_clients_add(d, 1, &fd, &err);
  assert_non_null(client);
  close(fd);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  if (client) fs_clients_forget(d, client);
  fs_clients_bury(d);
  fs_cache_free(d->cache);
  free(d->fetcher->peer);
  free(d->fetcher);
  free(d->data[0].place);
  close(d->wake);
  free(d);
  return 0;
}

/* ---- the client's and the peers' moves ---- */

static uint64_t key_of(unsigned block) {
  return FS_CACHE_KEY(0, FS_KEY_BLOCK | block);
}
static struct fs_req *post(unsigned slot, uint64_t key, uint32_t flags) {
  struct fs_channel *ch = client->channel;
  atomic_fetch_or(&ch->claimed, 1ull << slot);
  ch->req[slot].key = key;
  ch->req[slot].flags = flags;
  atomic_store(&ch->req[slot].state, FS_REQ_POSTED);
  atomic_fetch_or(&ch->posted, 1ull << slot);
  return &ch->req[slot];
}
static void turn(uint64_t later_ns) {
  d->now += later_ns;
  (void)fs_clients_scan(d);
  fs_fetch_timers(d);
}
static bool is_claimed(unsigned slot) {
  return atomic_load(&client->channel->claimed) & 1ull << slot;
}
static void done_with(unsigned slot) {
  atomic_store(&client->channel->pin[slot], 0);
  atomic_store(&client->channel->req[slot].state, FS_REQ_FREE);
  atomic_fetch_and(&client->channel->claimed, ~(1ull << slot));
}

/* Takes the oldest request that was sent to a node (NODES: to whichever) out of the network. */
static struct message take_request(uint32_t peer, struct fs_wire_req *req) {
  for (uint32_t i = 0; i < world.sends; i++) {
    struct message m = world.sent[i];
    if (peer != NODES && m.peer != peer) continue;
    memmove(&world.sent[i], &world.sent[i + 1], (--world.sends - i) * sizeof(m));
    assert_int_equal(m.tag, FS_TAG_REQUEST);
    assert_int_equal(m.bytes, sizeof(*req));
    memcpy(req, m.buf, sizeof(*req));
    assert_int_equal(req->magic, FS_WIRE_MAGIC);
    assert_true(req->tag >= FS_TAG_REPLY_FIRST && req->tag <= world.net.tag_max);
    m.op->done(m.op, m.peer, m.bytes, 0);
    return m;
  }
  fail_msg("no request to node %u", peer);
  return (struct message){0};
}
static bool asked(uint32_t peer) {
  for (uint32_t i = 0; i < world.sends; i++) {
    if (world.sent[i].peer == peer) return true;
  }
  return false;
}
/* Delivers a reply to the receive that waits for it. */
static void deliver(uint32_t peer, uint32_t tag, const void *reply, size_t bytes) {
  for (uint32_t i = 0; i < world.recvs; i++) {
    struct message m = world.recv[i];
    if (m.peer != peer || m.tag != tag) continue;
    assert_true(bytes <= m.bytes);
    memmove(&world.recv[i], &world.recv[i + 1], (--world.recvs - i) * sizeof(m));
    memcpy(m.buf, reply, bytes);
    m.op->done(m.op, peer, bytes, 0);
    return;
  }
  fail_msg("nobody waits for a reply of node %u", peer);
}

enum damage { GOOD, FLIPPED, SHORT, BAD_MAGIC, BAD_ID, BAD_LENGTH, FAILED };
static void reply(uint32_t peer, const struct fs_wire_req *req, enum damage damage) {
  static struct {
    struct fs_wire_rep rep;
    unsigned char data[BLOCK];
  } r;
  size_t bytes = sizeof(r.rep) + req->length;
  r.rep = (struct fs_wire_rep){
      .magic = FS_WIRE_MAGIC, .version = FS_WIRE_VERSION, .type = req->type, .id = req->id, .length = req->length};
  if (req->length > 0) memcpy(r.data, stored[(req->offset - 4096) / BLOCK], BLOCK);
  if (damage == FLIPPED) r.data[500] ^= 1;
  if (damage == SHORT) bytes -= 1;
  if (damage == BAD_MAGIC) r.rep.magic++;
  if (damage == BAD_ID) r.rep.id ^= 1 << 16;
  if (damage == BAD_LENGTH) r.rep.length--;
  if (damage == FAILED) {
    r.rep.err = -EIO;
    r.rep.length = 0;
    bytes = sizeof(r.rep);
  }
  deliver(peer, req->tag, &r, bytes);
}
static void answer_one(uint32_t peer, enum damage damage) {
  struct fs_wire_req req;
  struct message m = take_request(peer, &req);
  reply(m.peer, &req, damage);
}

static void expect_block(const struct fs_req *r, unsigned slot, unsigned block, bool hit) {
  assert_int_equal(atomic_load(&r->state), FS_REQ_DONE);
  assert_int_equal(r->err, 0);
  assert_int_equal(r->hit, hit);
  assert_int_equal(atomic_load(&client->channel->pin[slot]), r->line + 1);
  struct fs_cache_view v;
  void *buf;
  uint64_t size;
  uint32_t len;
  /* the writer's own mapping, found by a line that is given back again */
  int64_t probe = fs_cache_alloc(d->cache, 12345, 1, &buf);
  assert_true(probe >= 0);
  fs_cache_slab_fd(d->cache, &size);
  char *base = (char *)((uintptr_t)buf / 4096 * 4096);
  while (*(uint64_t *)(void *)base != FS_CACHE_MAGIC) base -= 4096;
  fs_cache_abort(d->cache, (uint32_t)probe);
  assert_int_equal(fs_cache_view_init(&v, base, size, NULL, 0), 0);
  const void *bytes = fs_cache_pinned(&v, r->key, r->line, &len);
  assert_non_null(bytes);
  assert_int_equal(len, BLOCK);
  assert_memory_equal(bytes, stored[block], BLOCK);
}
static void expect_error(const struct fs_req *r, int err) {
  assert_int_equal(atomic_load(&r->state), FS_REQ_DONE);
  assert_int_equal(r->err, err);
}

/* ---- the tests ---- */

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
  static const enum damage bad[] = {FLIPPED, SHORT, BAD_MAGIC, BAD_ID, BAD_LENGTH, FAILED};
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
  struct fs_req *r = post(0, key_of(100), 0);
  turn(0);
  answer_one(1, FLIPPED);
  turn(0);
  answer_one(2, FLIPPED);
  expect_error(r, -EREMOTEIO);
  assert_int_equal(fs_cache_find(d->cache, key_of(100)), -ENOENT);
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
  assert_int_equal(fs_cache_find(d->cache, key_of(1)), -ENOENT);
  r = post(0, key_of(3), 0);
  turn(0);
  answer_one(3, GOOD);
  expect_block(r, 0, 3, false);
  reply(3, &ping, GOOD);
  assert_int_equal(d->count.timeouts, 1);
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

static void test_tags_differ(void **state) {
  (void)state;
  struct fs_wire_req first, second;
  post(0, key_of(1), 0);
  turn(0);
  take_request(3, &first);
  reply(3, &first, FAILED);
  turn(0);
  done_with(0);
  for (unsigned i = 0; i < 2 * FS_EXCHANGES; i++) {
    post(0, key_of(3), 0);
    turn(0);
    take_request(3, &second);
    assert_true(second.id != first.id);
    if ((second.id & 0xffff) == (first.id & 0xffff)) assert_int_not_equal(second.tag, first.tag);
    reply(3, &second, FAILED);
    turn(0);
    done_with(0);
    first = second;
  }
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

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_one_fetch_for_all),
      TEST(test_bad_replies_go_to_the_replica),
      TEST(test_deadline_and_recovery),
      TEST(test_deadline_with_a_replica),
      TEST(test_slow_is_not_dead),
      TEST(test_limits),
      TEST(test_tags_differ),
      TEST(test_junk),
      TEST(test_abandoned_and_prefetched),
      TEST(test_a_client_dies),
      TEST(test_network_refuses),
      TEST(test_cache_full_of_pins),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
