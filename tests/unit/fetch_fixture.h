/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A daemon of node 0 with one client, over a network of the tests' own: a dataset of which everything is on other
 * nodes, and the moves of the client and of the peers. Shared by the tests of fetching and of fetching ahead.
 */
#ifndef FS_TEST_FETCH_FIXTURE_H
#define FS_TEST_FETCH_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/blocks/fetch.h"
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
static inline void make_dataset(void) {
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

static inline int setup(void **state) {
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

static inline int teardown(void **state) {
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

static inline uint64_t key_of(unsigned block) {
  return FS_CACHE_KEY(0, FS_KEY_BLOCK | block);
}
static inline struct fs_req *post(unsigned slot, uint64_t key, uint32_t flags) {
  struct fs_channel *ch = client->channel;
  atomic_fetch_or(&ch->claimed, 1ull << slot);
  ch->req[slot].key = key;
  ch->req[slot].flags = flags;
  atomic_store(&ch->req[slot].state, FS_REQ_POSTED);
  atomic_fetch_or(&ch->posted, 1ull << slot);
  return &ch->req[slot];
}
static inline void turn(uint64_t later_ns) {
  d->now += later_ns;
  (void)fs_clients_scan(d);
  (void)fs_prefetch_run(d);
  fs_fetch_timers(d);
}
static inline void want(uint64_t key) {
  struct fs_channel *ch = client->channel;
  uint32_t at = atomic_fetch_add(&ch->prefetch_head, 1);
  atomic_store(&ch->prefetch[at % FS_PREFETCH_RING], key + 1);
}
static inline bool is_claimed(unsigned slot) {
  return atomic_load(&client->channel->claimed) & 1ull << slot;
}
static inline void done_with(unsigned slot) {
  atomic_store(&client->channel->pin[slot], 0);
  atomic_store(&client->channel->req[slot].state, FS_REQ_FREE);
  atomic_fetch_and(&client->channel->claimed, ~(1ull << slot));
}

/* Takes the oldest request that was sent to a node (NODES: to whichever) out of the network. */
static inline struct message take_request(uint32_t peer, struct fs_wire_req *req) {
  for (uint32_t i = 0; i < world.sends; i++) {
    struct message m = world.sent[i];
    if (peer != NODES && m.peer != peer) continue;
    memmove(&world.sent[i], &world.sent[i + 1], (--world.sends - i) * sizeof(m));
    assert_int_equal(m.tag, FS_TAG_REQUEST);
    assert_int_equal(m.bytes, sizeof(*req));
    memcpy(req, m.buf, sizeof(*req));
    assert_int_equal(req->magic, FS_WIRE_MAGIC);
    assert_true(req->sum == fs_wire_sum(req, 0));
    assert_true(req->tag >= FS_TAG_REPLY_FIRST && req->tag <= world.net.tag_max);
    m.op->done(m.op, m.peer, m.bytes, 0);
    return m;
  }
  fail_msg("no request to node %u", peer);
  return (struct message){0};
}
static inline bool asked(uint32_t peer) {
  for (uint32_t i = 0; i < world.sends; i++) {
    if (world.sent[i].peer == peer) return true;
  }
  return false;
}
/* Delivers a reply to the receive that waits for it. */
static inline void deliver(uint32_t peer, uint32_t tag, const void *reply, size_t bytes) {
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

enum damage { GOOD, FLIPPED, SHORT, SHORTER, BAD_MAGIC, BAD_ID, BAD_LENGTH, FAILED };
static inline void reply(uint32_t peer, const struct fs_wire_req *req, enum damage damage) {
  static struct {
    struct fs_wire_rep rep;
    unsigned char data[BLOCK];
  } r;
  size_t bytes = sizeof(r.rep) + req->length;
  r.rep = (struct fs_wire_rep){
      .magic = FS_WIRE_MAGIC, .version = FS_WIRE_VERSION, .type = req->type, .id = req->id, .length = req->length};
  if (req->length > 0) memcpy(r.data, stored[(req->offset - 4096) / BLOCK], BLOCK);
  if (damage == FLIPPED) r.data[500] ^= 1;
  if (damage == SHORT || damage == SHORTER) bytes -= 1; /* and that it is, by SHORTER, is said */
  if (damage == SHORTER) r.rep.length--;
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
static inline void answer_one(uint32_t peer, enum damage damage) {
  struct fs_wire_req req = {0};
  struct message m = take_request(peer, &req);
  reply(m.peer, &req, damage);
}

static inline void expect_block(const struct fs_req *r, unsigned slot, unsigned block, bool hit) {
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
static inline void expect_error(const struct fs_req *r, int err) {
  assert_int_equal(atomic_load(&r->state), FS_REQ_DONE);
  assert_int_equal(r->err, err);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

#endif
