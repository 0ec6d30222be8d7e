/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output files of other nodes: who holds what, when their home hears of it, and their blocks, over a network of the
 * tests' own (fetch_fixture.h): good replies, short ones, wrong ones, and keys that are none.
 */
#include "daemon/outputs/backing.h"

#include "fetch_fixture.h"

#include "daemon/blocks/fetch.h"
#include "daemon/metadata/ns.h"
#include "daemon/outputs/open_files.h"
#include "ipc/channel.h"

#define FILE_ID FS_OUTPUT_ID_MAKE(2, 77) /* its home is node 2 */

/* ---- the name service: only who is sent what ---- */

static unsigned releases;
static uint64_t question; /* id of the last one */

static void keep_send(struct fs_ns *ns, uint32_t rank, const struct fs_ns_message *head, const void *body, size_t n) {
  const struct fs_names_call *c = body;
  (void)ns;
  assert_false(head->answer);
  assert_true(n >= sizeof(*c));
  if (c->op != FS_NAMES_CLOSE) return;
  assert_int_equal(rank, FS_OUTPUT_ID_RANK(c->close.id));
  releases++;
  question = head->id;
}
static const struct fs_ns_hooks hooks = {.send = keep_send};
static void answer_release(fs_err err) {
  struct fs_ns_message head = {.id = question, .set = 1, .err = err, .answer = 1};
  fs_ns_receive(d->ns, d->now, 2, &head, NULL, 0);
}

static void *volatile kept[96]; /* a daemon ends with its process; what the tests leave must not look lost */
static int setup_holds(void **state) {
  static unsigned n;
  if (setup(state) != 0) return -1;
  releases = 0;
  assert_int_equal(fs_ns_new(&d->ns, 0, NODES, SECOND, &hooks, d), 0);
  assert_int_equal(fs_open_files_new(d), 0);
  assert_int_equal(fs_backing_new(d), 0);
  assert_true(n < FS_ARRAY_LEN(kept) - 2);
  kept[n++] = d->ns;
  kept[n++] = d->holds;
  kept[n++] = d->backing_files;
  return 0;
}
#define HOLD_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup_holds, teardown)

/* A OPEN of the client and home's answer; the snapshot. */
static uint32_t hold(uint64_t version, uint64_t size) {
  struct fs_opened held = {.id = FILE_ID, .version = version, .size = size, .own = size, .mode = S_IFREG | 0644};
  assert_int_equal(fs_open_files_ask(d, client, FILE_ID), 0);
  assert_int_equal(fs_open_files_answered(d, client, FILE_ID, 0, &held), 0);
  assert_true(held.snapshot != 0);
  return held.snapshot;
}

/* ---- blocks ---- */

#define NO_BIT SIZE_MAX
#define FIRST_BIT (8 * sizeof(struct fs_wire_rep))

static void reply_output(const struct fs_wire_req *req, uint32_t length, size_t flip, uint32_t said) {
  static struct {
    struct fs_wire_rep rep;
    unsigned char data[8192];
  } r;
  for (uint32_t i = 0; i < length; i++) r.data[i] = (unsigned char)(i * 3);
  r.rep = (struct fs_wire_rep){.magic = FS_WIRE_MAGIC, .version = FS_WIRE_VERSION, .type = req->type, .id = req->id};
  r.rep.length = said;
  r.rep.xxh3 = fs_xxh3(r.data, length);
  if (flip != NO_BIT) ((unsigned char *)&r)[flip / 8] ^= (unsigned char)(1u << flip % 8);
  deliver(2, req->tag, &r, sizeof(r.rep) + length);
}

static struct fs_wire_req asked_of_home(uint32_t length, uint64_t offset) {
  struct fs_wire_req req;
  turn(0);
  take_request(2, &req);
  assert_int_equal(req.type, FS_WIRE_READ_OUTPUT);
  assert_true(req.file == FILE_ID);
  assert_int_equal(req.length, length);
  assert_int_equal(req.offset, offset);
  return req;
}

static void test_a_block(void **state) {
  (void)state;
  uint32_t h = hold(1, FS_OUTPUT_BLOCK + 1000);
  struct fs_req *r = post(0, FS_OUTPUT_KEY(h, 1), 0), *again;
  struct fs_wire_req req = asked_of_home(1000, FS_OUTPUT_BLOCK);
  reply_output(&req, 1000, NO_BIT, 1000);
  turn(0);
  assert_int_equal(r->err | (int)atomic_load(&r->state), FS_REQ_DONE);
  again = post(1, FS_OUTPUT_KEY(h, 1), 0);
  turn(0);
  assert_int_equal(world.sends, 0);
  assert_true(again->err == 0 && again->hit == 1 && again->line == r->line);
  assert_int_equal(d->count.fetched_bytes, 1000);
}

static void test_a_grain(void **state) {
  (void)state;
  uint32_t h = hold(1, FS_OUTPUT_GRAIN + 1000);
  const uint64_t key[] = {FS_OUTPUT_GRAIN_KEY(h, 1), FS_OUTPUT_GRAIN_KEY(h, 0), FS_OUTPUT_KEY(h, 0)};
  const uint32_t length[] = {1000, FS_OUTPUT_GRAIN, FS_OUTPUT_GRAIN + 1000};
  const uint64_t offset[] = {FS_OUTPUT_GRAIN, 0, 0};
  for (unsigned i = 0; i < FS_ARRAY_LEN(key); i++) {
    struct fs_req *r = post(0, key[i], 0);
    struct fs_wire_req req = asked_of_home(length[i], offset[i]);
    reply_output(&req, 1000, NO_BIT, 1000);
    turn(0);
    assert_int_equal(r->err | (int)atomic_load(&r->state), FS_REQ_DONE);
    done_with(0);
  }
  for (unsigned i = 0; i < FS_ARRAY_LEN(key); i++) assert_true(fs_cache_find(d->cache, key[i]) >= 0);
}

static void test_shorter_than_it_was(void **state) {
  (void)state;
  uint32_t h = hold(1, 3000);
  struct fs_req *r = post(0, FS_OUTPUT_KEY(h, 0), 0);
  struct fs_wire_req req = asked_of_home(3000, 0);
  reply_output(&req, 10, NO_BIT, 10);
  turn(0);
  assert_int_equal(r->err, 0);
  assert_int_equal(d->count.fetched_bytes, 10);
  h = hold(2, 3000);
  r = post(1, FS_OUTPUT_KEY(h, 0), 0);
  req = asked_of_home(3000, 0);
  reply_output(&req, 0, NO_BIT, 0);
  turn(0);
  assert_int_equal(r->err, 0);
}

static void test_bad_replies(void **state) {
  (void)state;
  struct {
    uint32_t length, said;
    size_t flip;
  } bad[] = {{1000, 1000, FIRST_BIT}, {1000, 999, NO_BIT}, {999, 1000, NO_BIT}, {1000, UINT32_MAX, NO_BIT}};
  uint32_t h = hold(1, 1000);
  for (unsigned i = 0; i < FS_ARRAY_LEN(bad); i++) {
    struct fs_req *r = post(0, FS_OUTPUT_KEY(h, 0), 0);
    struct fs_wire_req req = asked_of_home(1000, 0);
    reply_output(&req, bad[i].length, bad[i].flip, bad[i].said);
    turn(0);
    expect_error(r, -EREMOTEIO);
    assert_false(asked(1) || asked(3)); /* nobody else has it */
    assert_int_equal(fs_cache_find(d->cache, FS_OUTPUT_KEY(h, 0)), -ENOENT);
    done_with(0);
  }
  assert_int_equal(d->count.checksum_errors, 1);
}

/* But for those that say nothing, a reply with any wrong bit is none. */
static void test_every_bit(void **state) {
  (void)state;
  uint32_t h = hold(1, 100);
  for (size_t bit = 0; bit < FIRST_BIT + 8 * 100; bit++) {
    bool nothing = bit >= 8 * offsetof(struct fs_wire_rep, reserved) && bit < FIRST_BIT;
    struct fs_req *r = post(0, FS_OUTPUT_KEY(h, 0), 0);
    struct fs_wire_req req = asked_of_home(100, 0);
    reply_output(&req, 100, bit, 100);
    turn(0);
    expect_error(r, nothing ? 0 : -EREMOTEIO);
    done_with(0);
    if (nothing) h = hold(2 + bit, 100); /* else the next would be a hit */
    assert_int_equal(fs_cache_find(d->cache, FS_OUTPUT_KEY(h, 0)), -ENOENT);
  }
}

static void test_home_is_silent(void **state) {
  (void)state;
  uint32_t h = hold(1, 1000);
  struct fs_req *r = post(0, FS_OUTPUT_KEY(h, 0), 0);
  turn(0);
  turn(5 * SECOND);
  expect_error(r, -EREMOTEIO);
  done_with(0);
  r = post(0, FS_OUTPUT_KEY(h, 0), 0); /* and at once, now that it is suspect */
  turn(0);
  expect_error(r, -EREMOTEIO);
}

/* Its disk hangs, and it answers others: nobody else has these blocks, so it is asked as long as there is room for what
   it owes. What waits then is asked of it no more. */
static void test_home_owes(void **state) {
  (void)state;
  struct fs_wire_req req;
  struct fs_req *r;
  for (unsigned round = 0; round < 2; round++) {
    for (unsigned i = 0; i < FS_PEER_IN_FLIGHT / 2; i++) post(i, FS_OUTPUT_KEY(hold(100 * round + i + 1, 1000), 0), 0);
    turn(0);
    for (unsigned i = 0; i < FS_PEER_IN_FLIGHT / 2; i++) take_request(2, &req);
    r = round == 0 ? NULL : post(FS_PEER_IN_FLIGHT / 2, FS_OUTPUT_KEY(hold(1000, 1000), 0), 0);
    turn(SECOND);
    assert_int_equal(world.sends, 0); /* no room */
    d->fetcher->peer[2].heard = d->now;
    turn(SECOND * 5 / 2);
    if (r) expect_error(r, -EREMOTEIO);
    for (unsigned i = 0; i < FS_PEER_IN_FLIGHT / 2; i++) done_with(i);
  }
  assert_int_equal(d->fetcher->peer[2].owed, FS_PEER_IN_FLIGHT);
  assert_false(d->fetcher->peer[2].suspected);
  done_with(FS_PEER_IN_FLIGHT / 2);
  r = post(0, FS_OUTPUT_KEY(hold(1001, 1000), 0), 0);
  turn(0);
  expect_error(r, -EREMOTEIO);
  done_with(0);
  reply_output(&req, 1000, NO_BIT, 1000);
  r = post(0, FS_OUTPUT_KEY(hold(1001, 1000), 0), 0);
  req = asked_of_home(1000, 0);
  reply_output(&req, 1000, NO_BIT, 1000);
  turn(0);
  assert_int_equal(r->err | (int)atomic_load(&r->state), FS_REQ_DONE);
}

/* What waits in its queue goes on waiting when it begins to owe. */
static void test_queue_of_home_that_owes(void **state) {
  (void)state;
  struct fs_wire_req req[FS_PEER_OWED + 1];
  struct fs_req *r;
  d->fetcher->peer_bytes = FS_PEER_OWED * 1000;
  for (unsigned i = 0; i < FS_PEER_OWED; i++) post(i, FS_OUTPUT_KEY(hold(i + 1, 1000), 0), 0);
  r = post(20, FS_OUTPUT_KEY(hold(100, 1000), 0), 0);
  turn(0);
  for (unsigned i = 0; i < FS_PEER_OWED; i++) take_request(2, &req[i]);
  assert_int_equal(world.sends, 0);
  turn(SECOND);
  d->fetcher->peer[2].heard = d->now;
  turn(SECOND * 5 / 2);
  assert_int_equal(d->fetcher->peer[2].owed, FS_PEER_OWED);
  req[0] = asked_of_home(1000, 0);
  reply_output(&req[0], 1000, NO_BIT, 1000);
  turn(0);
  assert_int_equal(r->err | (int)atomic_load(&r->state), FS_REQ_DONE);
}

/* The home's answer to OPEN had the bytes: nobody asks for them. */
static void test_bytes_that_came_with_the_answer(void **state) {
  (void)state;
  char bytes[1001] = "given";
  uint32_t h = hold(1, 1000), whole = hold(2, FS_OUTPUT_BLOCK + 10);
  fs_fetch_given(d, FS_OUTPUT_KEY(h, 0), bytes, 999);
  fs_fetch_given(d, FS_OUTPUT_KEY(h, 0), bytes, 1001);
  fs_fetch_given(d, FS_OUTPUT_KEY(h + 5, 0), bytes, 1000);
  fs_fetch_given(d, FS_OUTPUT_KEY(whole, 0), bytes, 1000);
  for (uint64_t key = FS_OUTPUT_KEY(h, 0);; key = FS_OUTPUT_KEY(whole, 0)) {
    assert_int_equal(fs_cache_find(d->cache, key), -ENOENT);
    if (key == FS_OUTPUT_KEY(whole, 0)) break;
  }
  fs_fetch_given(d, FS_OUTPUT_KEY(h, 0), bytes, 1000);
  fs_fetch_given(d, FS_OUTPUT_KEY(h, 0), bytes, 1000); /* once is enough */
  struct fs_req *r = post(0, FS_OUTPUT_KEY(h, 0), 0);
  turn(0);
  assert_int_equal(world.sends, 0);
  assert_int_equal(r->err | (int)atomic_load(&r->state), FS_REQ_DONE);
  assert_int_equal(d->count.fetched_bytes, 1000);
  /* The bytes of a block that is on its way do not come twice. */
  h = hold(3, 1000);
  r = post(1, FS_OUTPUT_KEY(h, 0), 0);
  struct fs_wire_req req = asked_of_home(1000, 0);
  fs_fetch_given(d, FS_OUTPUT_KEY(h, 0), bytes, 1000);
  assert_int_equal(fs_cache_find(d->cache, FS_OUTPUT_KEY(h, 0)), -ENOENT);
  reply_output(&req, 1000, NO_BIT, 1000);
  turn(0);
  assert_int_equal(r->err | (int)atomic_load(&r->state), FS_REQ_DONE);
}

static void test_keys_that_are_none(void **state) {
  (void)state;
  uint32_t h = hold(1, 2 * FS_OUTPUT_BLOCK), empty = hold(2, 0);
  const uint64_t bad[] = {FS_OUTPUT_KEY(0, 0),
                          FS_OUTPUT_KEY(h + 5, 0),
                          FS_OUTPUT_KEY(h, 2),
                          FS_OUTPUT_KEY(h, FS_OUTPUT_BLOCKS - 1),
                          FS_OUTPUT_KEY(FS_OUTPUT_SNAPSHOTS - 1, 0),
                          FS_OUTPUT_KEY(empty, 0),
                          FS_OUTPUT_GRAIN_KEY(h, 2 * FS_OUTPUT_BLOCK / FS_OUTPUT_GRAIN),
                          FS_OUTPUT_GRAIN_KEY(empty, 0),
                          FS_OUTPUT_GRAIN_KEY(h, 0) + (1ull << 41),
                          FS_OUTPUT_KEY(h, 0) | 1ull << 63,
                          FS_OUTPUT_KEY(h, 0) | 1ull << 50};
  for (unsigned i = 0; i < FS_ARRAY_LEN(bad); i++) {
    struct fs_req *r = post(0, bad[i], 0);
    want(bad[i]);
    turn(0);
    expect_error(r, -EINVAL);
    assert_int_equal(world.sends, 0);
    done_with(0);
  }
}

/* ---- holds ---- */

static void test_home_hears_of_the_last_release(void **state) {
  (void)state;
  uint32_t a = hold(1, 1000), b = hold(1, 1000), c = hold(2, 2000);
  assert_int_equal(a, b);
  assert_int_equal(fs_open_files_release(d, client, FILE_ID, 0), -ENOENT);
  assert_int_equal(fs_open_files_release(d, client, FILE_ID, c + 1), -ENOENT);
  assert_int_equal(fs_open_files_release(d, client, FILE_ID + 1, c), -ENOENT);
  assert_int_equal(fs_open_files_release(d, client, FILE_ID, a), 0);
  assert_int_equal(fs_open_files_release(d, client, FILE_ID, c), 0);
  assert_int_equal(fs_open_files_release(d, client, FILE_ID, c), -ENOENT);
  assert_int_equal(releases, 0);
  assert_int_equal(fs_open_files_release(d, client, FILE_ID, a), 0);
  assert_int_equal(releases, 1);
  answer_release(0);
  hold(3, 5);
  assert_int_equal(releases, 1);
}

/* A client's word in its ring is as good as its CLOSE; a wrong one is nothing. */
static void test_given_back_by_a_word(void **state) {
  (void)state;
  uint32_t a = hold(1, 1000), b = hold(2, 2000);
  const uint64_t words[] = {0, UINT32_MAX, FS_OUTPUT_SNAPSHOTS, b + 1, 1ull << 40, FS_OUTPUT_ID, FILE_ID, b, b};
  for (unsigned i = 0; i < FS_ARRAY_LEN(words); i++)
    assert_true(fs_chan_want(client->channel, FS_WANT_CLOSE | words[i]));
  (void)fs_prefetch_run(d);
  assert_false(fs_prefetch_posted(client));
  assert_int_equal(releases, 0);
  assert_true(fs_chan_want(client->channel, FS_WANT_CLOSE | a));
  (void)fs_prefetch_run(d);
  assert_int_equal(releases, 1);
  assert_int_equal(fs_open_files_release(d, client, FILE_ID, a), -ENOENT);
}

/* A program of this node makes and removes a file. */
static void make_and_remove(uint64_t id) {
  fs_backing_creating(d, id, FS_DATASET_DIR(0, 0));
  fs_backing_created(d, id);
  assert_true(fs_backing_leaving(d, id));
}

/* The pool unlinks a removed file, unless its program says that it has done so. */
static void test_unlinked_by_its_program(void **state) {
  (void)state;
  const uint64_t gone = FS_OUTPUT_ID_MAKE(0, 5), left = FS_OUTPUT_ID_MAKE(0, 6);
  make_and_remove(gone);
  assert_non_null(fs_backing_find(d, gone));
  assert_true(fs_chan_want(client->channel, FS_WANT_GONE | gone));
  (void)fs_prefetch_run(d);
  assert_null(fs_backing_find(d, gone));
  d->now += SECOND;
  fs_backing_drop_timers(d);
  assert_int_equal(d->pool.live, 0);
  make_and_remove(left);
  d->now += SECOND;
  fs_backing_drop_timers(d);
  assert_int_equal(d->pool.live, 1);
  d->pool.head->done(d->pool.head); /* there is no thread */
  assert_null(fs_backing_find(d, left));
}

/* A file is counted when it is made, or at its first publication if its making was not seen to end. */
static void test_files_that_are_counted(void **state) {
  (void)state;
  struct fs_call_publish c = {.id = FS_OUTPUT_ID_MAKE(0, 5), .dir = FS_DATASET_DIR(0, 0), .size = 10, .mode = 0600};
  fs_backing_creating(d, c.id, c.dir);
  assert_int_equal(d->count.outputs, 0);
  fs_backing_not_created(d, c.id);
  fs_backing_creating(d, c.id, c.dir);
  fs_backing_created(d, c.id);
  assert_int_equal(d->count.outputs, 1);
  fs_backing_published(d, &c, true, false);
  assert_int_equal(d->count.outputs, 1);
  assert_int_equal(d->count.output_written, 10);
  c.id = FS_OUTPUT_ID_MAKE(0, 6);
  for (unsigned twice = 0; twice < 2; twice++) {
    fs_backing_published(d, &c, true, false);
    assert_int_equal(d->count.outputs, 2);
  }
  for (uint64_t id = FS_OUTPUT_ID_MAKE(0, 5); id <= c.id; id++) fs_backing_ended(d, id);
}

/* While a OPEN is under way nothing is said that would undo it. */
static void test_no_release_past_a_hold(void **state) {
  (void)state;
  struct fs_opened held = {0};
  uint32_t a = hold(1, 1000);
  assert_int_equal(fs_open_files_ask(d, client, FILE_ID), 0);
  assert_int_equal(fs_open_files_release(d, client, FILE_ID, a), 0);
  assert_int_equal(releases, 0);
  assert_int_equal(fs_open_files_answered(d, client, FILE_ID, -ETIMEDOUT, &held), -EHOSTDOWN);
  assert_int_equal(releases, 1);
  /* One that was lost is sent again, unless it is held by then. */
  answer_release(-ETIMEDOUT);
  assert_int_equal(releases, 2);
  hold(1, 1000);
  answer_release(-ETIMEDOUT);
  assert_int_equal(releases, 2);
}

static void test_a_client_that_is_gone(void **state) {
  (void)state;
  struct fs_opened held = {.id = FILE_ID, .version = 9, .size = 1, .own = 1, .mode = S_IFREG};
  hold(1, 1000);
  hold(2, 1000);
  assert_int_equal(fs_open_files_ask(d, client, FILE_ID), 0);
  fs_clients_forget(d, client);
  client = NULL;
  fs_clients_bury(d);
  assert_int_equal(releases, 0);
  assert_int_equal(fs_open_files_answered(d, NULL, FILE_ID, 0, &held), 0);
  assert_int_equal(releases, 1);
}

static void test_answers_that_are_none(void **state) {
  (void)state;
  const struct fs_opened bad[] = {
      {.id = FILE_ID + 1, .mode = S_IFREG},
      {.id = FILE_ID, .mode = S_IFDIR},
      {.id = FILE_ID, .mode = S_IFREG, .own = (uint64_t)FS_OUTPUT_BLOCK * FS_OUTPUT_BLOCKS + 1},
      {.id = FILE_ID, .mode = S_IFREG, .mtime_ns = 1000000000}};
  for (unsigned i = 0; i < FS_ARRAY_LEN(bad); i++) {
    struct fs_opened held = bad[i];
    assert_int_equal(fs_open_files_ask(d, client, FILE_ID), 0);
    assert_int_equal(fs_open_files_answered(d, client, FILE_ID, 0, &held), -EPROTO);
    answer_release(0);
  }
  assert_int_equal(fs_open_files_ask(d, client, FS_OUTPUT_ID_MAKE(NODES, 1)), -EINVAL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      HOLD_TEST(test_a_block),
      HOLD_TEST(test_a_grain),
      HOLD_TEST(test_shorter_than_it_was),
      HOLD_TEST(test_bad_replies),
      HOLD_TEST(test_every_bit),
      HOLD_TEST(test_home_is_silent),
      HOLD_TEST(test_home_owes),
      HOLD_TEST(test_queue_of_home_that_owes),
      HOLD_TEST(test_bytes_that_came_with_the_answer),
      HOLD_TEST(test_keys_that_are_none),
      HOLD_TEST(test_home_hears_of_the_last_release),
      HOLD_TEST(test_given_back_by_a_word),
      HOLD_TEST(test_unlinked_by_its_program),
      HOLD_TEST(test_files_that_are_counted),
      HOLD_TEST(test_no_release_past_a_hold),
      HOLD_TEST(test_a_client_that_is_gone),
      HOLD_TEST(test_answers_that_are_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
