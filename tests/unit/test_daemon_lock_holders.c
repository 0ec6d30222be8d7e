/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Owners of locks on this node (daemon/outputs/lock_holders.c; replica_fixture.h): what the home hears about the locks
 * of a client. The test is the home, node 0.
 */
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/outputs/client_calls.h"
#include "daemon/outputs/locks.h"
#include "ipc/channel.h"
#include "replica_fixture.h"

#define WRITE FS_LOCK_WRITE
#define END FS_LOCK_END
#define PROCESS FS_LOCK_PROCESS

static struct fs_client client;

static int setup_holders(void **state) {
  if (setup(state) != 0) return -1;
  client = (struct fs_client){.pid = 77, .first_id = 100, .channel = calloc(1, sizeof(struct fs_channel))};
  return client.channel ? (int)fs_lock_holders_new(d) : -1;
}

static int teardown_holders(void **state) {
  free(client.channel);
  return teardown(state);
}

/* Makes a call of the client. Returns whether the home was asked. */
static bool call_by(uint64_t owner, uint32_t flags) {
  struct fs_names_call c = {
      .op = FS_NAMES_LOCK, .flags = flags, .lock = {.id = THEIRS, .owner = owner, .end = INT64_MAX}};
  struct fs_client_call *k = malloc(sizeof(*k));
  unsigned asks = said.asks;
  assert_non_null(k);
  *k = (struct fs_client_call){.d = d, .client = &client, .until = d->now + config.deadline_ns};
  assert_int_equal(fs_lock_call.prepare(k, &c), 0);
  client.call_slot[0] = k;
  fs_lock_call.start(k, &c);
  return said.asks > asks;
}

static bool call(uint32_t flags) {
  return call_by(5, flags);
}

static void home_answers_to(uint64_t id, fs_err err) {
  const struct fs_ns_message head = {.id = id, .set = 1, .answer = 1, .err = err};
  fs_ns_receive(d->ns, d->now, 0, &head, NULL, 0);
}

static void home_answers(fs_err err) {
  home_answers_to(said.head.id, err);
}

static void test_end(void **state) {
  (void)state;
  for (unsigned kind = 0; kind < 2; kind++) {
    uint32_t flags = kind == 0 ? 0 : PROCESS;
    assert_true(call(WRITE | flags));
    assert_int_equal(said.call.lock.owner, kind == 0 ? 5 : 100);
    assert_int_equal(said.call.lock.pid, 77);
    home_answers(0);
    assert_true(call(END | flags));
    home_answers(0);
    assert_null(client.call_slot[0]);
    assert_false(call(END | flags)); /* it is forgotten */
  }
}

/* If the program's END does not reach the home, the daemon sends another. */
static void test_end_lost(void **state) {
  (void)state;
  assert_true(call(WRITE));
  home_answers(0);
  assert_true(call(END));
  unsigned asks = said.asks;
  home_answers(-ENOMEM);
  assert_null(client.call_slot[0]);
  assert_int_equal(said.asks, asks + 1);
  assert_int_equal(said.call.flags, END);
  home_answers(0);
  assert_false(call(END));
}

/* A LOCK that the client does not wait for may be repeated after END. */
static void test_end_overtakes(void **state) {
  (void)state;
  assert_true(call(WRITE));
  uint64_t lock = said.head.id;
  assert_true(call(END));
  home_answers(0);
  unsigned asks = said.asks;
  home_answers_to(lock, 0);
  assert_int_equal(said.asks, asks + 1);
  assert_int_equal(said.call.flags, END);
  home_answers(0);
  assert_false(call(END));
}

/* A client that goes while it asks for a lock. */
static void test_client_gone(void **state) {
  (void)state;
  assert_true(call(WRITE | PROCESS));
  client.call_slot[0]->client = NULL; /* as fs_client_calls_forget does */
  fs_lock_holders_forget(d, &client);
  unsigned asks = said.asks;
  home_answers(0);
  assert_int_equal(said.asks, asks + 1);
  assert_int_equal(said.call.flags, END | PROCESS);
  home_answers(0);
}

/* The home is evicted: the client may do nothing but close the file. */
static void test_home_lost(void **state) {
  struct fs_names_call c = {.op = FS_NAMES_LOCK, .flags = WRITE, .lock = {.id = THEIRS, .owner = 5, .end = INT64_MAX}};
  (void)state;
  assert_true(call(WRITE));
  home_answers(0);
  assert_int_equal(fs_lock_holders_check(d, &client, THEIRS), 0);
  fs_members_without(&d->ns->members, 0);
  fs_lock_holders_members(d);
  assert_int_equal(fs_lock_holders_check(d, &client, THEIRS), -EIO);
  struct fs_client_call k = {.d = d, .client = &client};
  assert_int_equal(fs_lock_call.prepare(&k, &c), -ENOTRECOVERABLE);
  assert_false(call(END));
  assert_int_equal(fs_lock_holders_check(d, &client, THEIRS), 0);
}

/* The client has gone. Of its open file descriptions, other processes have some, more than a few. */
static void test_many_descriptions(void **state) {
  enum { KEPT = 300, GONE = 50 };
  int fd[KEPT];
  struct stat st;
  (void)state;
  for (unsigned i = 0; i < KEPT; i++) {
    fd[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(fstat(fd[i], &st), 0);
    if (i % (KEPT / GONE) == 0) {
      assert_true(call_by(FS_LOCK_OWNER(UINT32_MAX - i, 1), WRITE));
      home_answers(0);
    }
    assert_true(call_by(FS_LOCK_OWNER(st.st_ino, 1), WRITE));
    home_answers(0);
  }
  fs_lock_holders_forget(d, &client);
  unsigned asks = said.asks;
  for (unsigned i = 0; i < 3; i++) {
    fs_lock_holders_timers(d);
    run();
    d->now += 10 * SECOND;
  }
  assert_int_equal(said.asks - asks, GONE);
  for (unsigned i = 0; i < KEPT; i++) close(fd[i]);
}

/* A close waits for the end of the locks, but no longer than a deadline if the home does not answer. */
static void test_close_waits(void **state) {
  (void)state;
  for (unsigned turn = 0; turn < 2; turn++) {
    assert_true(call(WRITE));
    home_answers(0);
    assert_false(call(FS_LOCK_LOOK));
    fs_lock_holders_timers(d);
    run();
    assert_int_equal(said.call.flags, END);
    assert_non_null(client.call_slot[0]);
    uint64_t end = said.head.id;
    if (turn == 1) d->now += config.deadline_ns;
    if (turn == 1) fs_lock_holders_timers(d);
    if (turn == 0) home_answers_to(end, 0);
    assert_null(client.call_slot[0]);
    if (turn == 1) home_answers_to(end, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_end, setup_holders, teardown_holders),
      cmocka_unit_test_setup_teardown(test_end_lost, setup_holders, teardown_holders),
      cmocka_unit_test_setup_teardown(test_end_overtakes, setup_holders, teardown_holders),
      cmocka_unit_test_setup_teardown(test_client_gone, setup_holders, teardown_holders),
      cmocka_unit_test_setup_teardown(test_many_descriptions, setup_holders, teardown_holders),
      cmocka_unit_test_setup_teardown(test_close_waits, setup_holders, teardown_holders),
      cmocka_unit_test_setup_teardown(test_home_lost, setup_holders, teardown_holders),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
