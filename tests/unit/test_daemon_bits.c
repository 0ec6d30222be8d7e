/* SPDX-License-Identifier: BSD-3-Clause */
/* Replies in which one bit is not what was sent: each of the header and of the bytes, one after the other. What is in
 * the cache afterwards is what was asked for, always. */
#include "fetch_fixture.h"

#define BIG 40000u

static bool any_key(void *ctx, uint64_t key) {
  (void)ctx, (void)key;
  return true;
}
static void still_pinned(void *ctx, uint64_t key) {
  (void)ctx;
  fail_msg("block %lx is pinned", key);
}

static void flip(void *at, size_t bit) {
  ((unsigned char *)at)[bit / 8] ^= (unsigned char)(1u << bit % 8);
}

/* Asks for block 0, of which node 1 has said this; true: it was taken. Else nothing of it can be seen, and node 2 is
   asked. */
static bool taken(const void *bytes, size_t n, uint16_t type, size_t bit) {
  struct fs_wire_req req;
  unsigned char *said = malloc(n);
  assert_non_null(said);
  memcpy(said, bytes, n);
  flip(said, bit);
  struct fs_req *r = post(0, key_of(0), 0);
  turn(0);
  take_request(1, &req);
  assert_int_equal(req.type, type);
  if (type == FS_WIRE_READ) { /* the number that the flip is to be in */
    ((struct fs_wire_rep *)(void *)said)->id ^= req.id;
  }
  deliver(1, req.tag, said, n);
  free(said);
  turn(0);
  bool took = atomic_load(&r->state) == FS_REQ_DONE;
  assert_int_equal(took, !asked(2));
  assert_int_equal(took, fs_cache_find(d->cache, key_of(0)) >= 0);
  if (took) return true;
  assert_int_equal(atomic_load(&r->state), FS_REQ_POSTED);
  assert_int_equal(atomic_load(&client->channel->pin[0]), 0);
  return false;
}

static void forget(void) {
  done_with(0);
  fs_cache_purge(d->cache, any_key, still_pinned, NULL);
}

/* Of the header's fields: are they looked at? The checksum there is of output files' blocks alone. */
static bool field_counts(size_t bit) {
  size_t at = bit / 8;
  return at < offsetof(struct fs_wire_rep, xxh3) || at >= sizeof(struct fs_wire_rep);
}

static void test_every_bit(void **state) {
  static struct {
    struct fs_wire_rep rep;
    unsigned char data[BLOCK];
  } r;
  (void)state;
  r.rep = (struct fs_wire_rep){
      .magic = FS_WIRE_MAGIC, .version = FS_WIRE_VERSION, .type = FS_WIRE_READ, .length = sizeof(r.data)};
  memcpy(r.data, stored[0], BLOCK);
  uint64_t refused = 0;
  for (size_t bit = 0; bit < 8 * sizeof(r); bit++) {
    bool took = taken(&r, sizeof(r), FS_WIRE_READ, bit);
    assert_int_equal(took, !field_counts(bit));
    refused += !took;
    if (!took) answer_one(2, GOOD);
    expect_block(&client->channel->req[0], 0, 0, false);
    forget();
  }
  assert_int_equal(refused, 8 * (offsetof(struct fs_wire_rep, xxh3) + BLOCK));
  assert_int_equal(d->count.checksum_errors, 8 * BLOCK);
  assert_int_equal(d->count.fetched, 8 * sizeof(r));
}

/* Without a header: bits all over it, and each of the first bytes, which a header might be in. */
static void test_bits_of_bare_replies(void **state) {
  static unsigned char big[BIG];
  struct fs_wire_req req;
  uint64_t refused = 0;
  (void)state;
  for (unsigned i = 0; i < sizeof(big); i++) big[i] = (unsigned char)(i * 7 + i / 256);
  d->data[0].max_stored = sizeof(big);
  records[0].stored_len = sizeof(big);
  records[0].xxh3 = fs_xxh3(big, sizeof(big));
  for (size_t bit = 0; bit < 8 * sizeof(big); bit += bit < 1024 ? 1 : 331, refused++) {
    assert_false(taken(big, sizeof(big), FS_WIRE_READ_BARE, bit));
    take_request(2, &req);
    deliver(2, req.tag, big, sizeof(big));
    assert_int_equal(client->channel->req[0].err, 0);
    assert_int_equal(atomic_load(&client->channel->req[0].state), FS_REQ_DONE);
    forget();
  }
  assert_int_equal(d->count.checksum_errors, refused);
}

int main(void) {
  const struct CMUnitTest tests[] = {TEST(test_every_bit), TEST(test_bits_of_bare_replies)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
