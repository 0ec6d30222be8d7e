/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What clients have written of files with several writers (ipc/written.h; daemon/outputs/written.c; replica_fixture.h):
 * when the home hears of it, and that it hears of nothing twice. The test is the home, node 0.
 */
#include <pthread.h>
#include <sys/stat.h>

#include "daemon/outputs/client_calls.h"
#include "daemon/outputs/locks.h"
#include "daemon/outputs/node_segment.h"
#include "daemon/outputs/written.h"
#include "ipc/channel.h"
#include "replica_fixture.h"

#define PART FS_OUTPUT_ID_MAKE(1, 50)
#define OLD (11 * SECOND / 10)

static struct fs_client client;
static struct fs_written *w;
static struct fs_replicas *replicas;

static int setup_written(void **state) {
  if (setup(state) != 0) return -1;
  replicas = d->replicas;
  d->replicas = NULL;
  client = (struct fs_client){.pid = 77, .first_id = 100, .channel = calloc(1, sizeof(struct fs_channel))};
  if (!client.channel || fs_written_new(d) != 0 || fs_node_segments_new(d) != 0) return -1;
  w = &client.channel->written[fs_chan_claim(&client.channel->written_claimed, UINT64_MAX)];
  atomic_store(&w->file, THEIRS);
  atomic_store(&w->segment, PART);
  atomic_store(&d->clients.slot[0], &client);
  atomic_store(&d->clients.high, 1);
  return 0;
}

static int teardown_written(void **state) {
  atomic_store(&d->clients.slot[0], NULL);
  fs_written_forget(d, &client);
  free(client.channel);
  d->replicas = replicas;
  return teardown(state);
}

/* ---- the client and the home ---- */

static void note(uint64_t off, uint64_t len) {
  assert_true(fs_written_note(w, off, len));
}

/* The client calls by slot i, and waits. */
static void call(unsigned i, uint32_t flags) {
  struct fs_names_call c = {
      .op = FS_NAMES_EXTEND, .flags = flags, .extend = {.id = THEIRS, .segment = PART, .written = 1}};
  struct fs_client_call *k = malloc(sizeof(*k));
  assert_non_null(k);
  assert_true(fs_call_ok(&c, sizeof(c)));
  *k = (struct fs_client_call){.d = d, .client = &client, .number = i, .until = d->now + config.deadline_ns};
  assert_int_equal(fs_extend_call.prepare(k, &c), 0);
  client.call_slot[i] = k;
  fs_extend_call.start(k, &c);
}

static bool waits(unsigned i) {
  return client.call_slot[i] != NULL;
}
static fs_err answer_of(unsigned i) {
  assert_false(waits(i));
  return client.channel->call_slot[i].err;
}

static void look(uint64_t ns) {
  d->now += ns;
  fs_written_timers(d);
}

/* The home was asked once, for these ranges. */
static void asked(uint32_t n, const struct fs_range *range) {
  assert_int_equal(said.asks, 1);
  assert_int_equal(said.call.op, FS_NAMES_EXTEND);
  assert_true(said.call.extend.id == THEIRS && said.call.extend.segment == PART && said.call.extend.written == 0);
  assert_int_equal(said.call.tail_len, n * sizeof(*range));
  if (n > 0) assert_memory_equal(said.tail, range, n * sizeof(*range));
}
#define ASKED(...)                                                                                                     \
  asked(sizeof((struct fs_range[]){__VA_ARGS__}) / sizeof(struct fs_range), (struct fs_range[]){__VA_ARGS__})

static void home_answers_to(uint64_t id, fs_err err) {
  const struct fs_ns_message head = {.id = id, .set = 1, .answer = 1, .err = err};
  said.asks = 0;
  fs_ns_receive(d->ns, d->now, 0, &head, NULL, 0);
}
static void home_answers(fs_err err) {
  home_answers_to(said.head.id, err);
}

static void silent(void) {
  for (unsigned i = 0; i < 50; i++) look(SECOND / 10);
  assert_int_equal(said.asks, 0);
}

/* ---- tests ---- */

static void test_old(void **state) {
  (void)state;
  silent();
  note(10, 5);
  look(SECOND / 10);
  look(SECOND / 2);
  assert_int_equal(said.asks, 0);
  note(15, 5); /* joined */
  note(40, 1);
  look(OLD);
  ASKED({10, 10}, {40, 1});
  assert_int_equal(said.call.flags, FS_EXTEND_OPEN);
  note(41, 1); /* not joined: the last one is taken */
  look(OLD);
  assert_int_equal(said.asks, 1);
  assert_int_equal(fs_written_pending(w), 3);
  assert_true(fs_written_busy(d));
  home_answers(0);
  assert_int_equal(fs_written_pending(w), 1);
  look(SECOND / 10);
  assert_int_equal(said.asks, 0); /* once a second */
  look(OLD);
  ASKED({41, 1});
  home_answers(0);
  assert_false(fs_written_busy(d));
  silent();
}

static void test_calls(void **state) {
  (void)state;
  note(0, 1);
  call(0, 0);
  ASKED({0, 1});
  note(5, 1);
  call(1, 0);
  call(2, FS_EXTEND_DURABLE);
  assert_int_equal(said.asks, 1);
  home_answers(0);
  assert_int_equal(answer_of(0), 0);
  assert_true(waits(1) && waits(2));
  ASKED({5, 1});
  assert_int_equal(said.call.flags, FS_EXTEND_DURABLE);
  home_answers(0);
  assert_int_equal(answer_of(1), 0);
  assert_int_equal(answer_of(2), 0);
  call(3, FS_EXTEND_DURABLE); /* there is nothing, and no partner */
  assert_int_equal(answer_of(3), 0);
  assert_int_equal(said.asks, 0);
  /* A call waits for what the daemon has begun by itself. */
  note(9, 1);
  look(SECOND);
  look(OLD);
  ASKED({9, 1});
  call(0, 0);
  assert_true(waits(0));
  home_answers(0);
  assert_true(waits(0));
  asked(0, NULL); /* the home took the file to be open */
  assert_int_equal(said.call.flags, 0);
  home_answers(-ENOENT); /* the file was removed */
  assert_int_equal(answer_of(0), -ENOENT);
  call(0, 0);
  assert_int_equal(answer_of(0), 0);
  assert_int_equal(said.asks, 0);
  assert_int_equal(fs_written_pending(w), 0);
}

/* After an error only the client tries again: nobody knows whether the home has the ranges. */
static void test_fails(void **state) {
  (void)state;
  note(0, 1);
  look(SECOND);
  look(OLD);
  ASKED({0, 1});
  call(0, 0);
  home_answers(-ENOSPC);
  assert_int_equal(answer_of(0), -ENOSPC);
  assert_int_equal(fs_written_pending(w), 1);
  note(1, 1);
  look(SECOND / 10);
  assert_int_equal(said.asks, 0);
  look(OLD); /* each second again, though the program does nothing */
  ASKED({0, 1}, {1, 1});
  home_answers(-ENOSPC);
  look(SECOND / 10);
  assert_int_equal(said.asks, 0);
  call(1, 0);
  ASKED({0, 1}, {1, 1});
  home_answers(0);
  assert_int_equal(answer_of(1), 0);
  note(7, 1);
  look(SECOND);
  look(OLD);
  ASKED({7, 1});
  home_answers(0);
}

static void dies(void) {
  atomic_store(&d->clients.slot[0], NULL);
  fs_written_forget(d, &client);
  fs_client_calls_forget(d, &client);
}

static void test_dies(void **state) {
  (void)state;
  for (unsigned i = 0; i < FS_WRITTEN_RANGES; i++) note(2 * i, 1);
  assert_false(fs_written_note(w, 1000, 1));
  call(0, 0);
  assert_int_equal(said.call.tail_len, FS_WRITTEN_RANGES * sizeof(struct fs_range));
  uint64_t first = said.head.id;
  home_answers(0);
  note(1000, 1);
  call(1, 0);
  ASKED({1000, 1});
  first = said.head.id;
  said.asks = 0;
  note(2000, 1);
  call(2, 0);
  dies(); /* what was not on its way is not published any more */
  assert_int_equal(said.asks, 0);
  home_answers_to(first, -EIO);
  assert_int_equal(said.asks, 0);
  assert_false(fs_written_busy(d));
}

/* All is published, but the home took the file to be open. */
static void test_dies_told(void **state) {
  (void)state;
  note(3, 1);
  look(SECOND);
  look(OLD);
  ASKED({3, 1});
  home_answers(0);
  dies();
  asked(0, NULL);
  assert_int_equal(said.call.flags, 0);
  home_answers(0);
}

static void test_dies_idle(void **state) {
  (void)state;
  note(3, 1);
  dies(); /* no look was before */
  assert_int_equal(said.asks, 0);
  silent();
}

/* Nothing in a channel is believed. */
static void test_lies(void **state) {
  (void)state;
  const struct fs_range bad[] = {{0, 0}, {1, INT64_MAX}, {INT64_MAX, 1}, {UINT64_MAX, 1}};
  for (unsigned i = 0; i < FS_ARRAY_LEN(bad); i++) {
    note(0, 1);
    atomic_store(&w->range[0].off, bad[i].off);
    atomic_store(&w->range[0].len, bad[i].len);
    look(SECOND);
    look(OLD);
    call(0, 0);
    assert_int_equal(answer_of(0), -EINVAL);
    atomic_store(&w->head, 0);
  }
  atomic_store(&w->head, FS_WRITTEN_RANGES + 1);
  call(0, 0);
  assert_int_equal(answer_of(0), -EINVAL);
  atomic_store(&w->head, 0);
  atomic_store(&w->tail, 77); /* the daemon has its own */
  call(0, 0);
  assert_int_equal(answer_of(0), 0);
  atomic_store(&w->tail, 0);
  note(0, 1);
  atomic_store(&w->file, FS_OUTPUT_ID_MAKE(3, 7)); /* no such node */
  call(0, 0);
  assert_int_equal(answer_of(0), -EINVAL);
  atomic_store(&client.channel->written_claimed, UINT64_MAX);
  silent();
  dies();
  assert_int_equal(said.asks, 0);
  struct fs_names_call c = {.op = FS_NAMES_EXTEND, .extend = {.id = THEIRS, .segment = PART}};
  c.extend.written = FS_WRITTEN_FILES + 1;
  assert_false(fs_call_ok(&c, sizeof(c)));
}

/* With replicas, fsync brings what the daemon has published by itself to the partner's disk. */
static void test_durable(void **state) {
  (void)state;
  char name[FS_BACKING_NAME_SIZE];
  int fd = openat(d->backing_fd, fs_backing_name(PART, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  assert_true(fd >= 0 && write(fd, "0123456789", 10) == 10);
  close(fd);
  d->replicas = replicas;
  note(0, 10);
  look(SECOND);
  look(OLD);
  for (unsigned durable = 0; durable < 2; durable++) {
    if (durable) call(0, FS_EXTEND_DURABLE);
    run();
    for (uint32_t i = 0; i < world.sends; i++) world.sent[i].op->done(world.sent[i].op, 2, world.sent[i].bytes, 0);
    world.sends = 0;
    run();
    assert_int_equal(said.call.op, FS_NAMES_REPLICA);
    assert_int_equal(said.call.flags & FS_REPLICA_DURABLE, durable ? FS_REPLICA_DURABLE : 0);
    answer(0);
    assert_int_equal(said.call.op, FS_NAMES_EXTEND);
    assert_int_equal(said.call.tail_len, durable ? 0 : sizeof(struct fs_range));
    home_answers(0);
  }
  assert_int_equal(answer_of(0), 0);
}

/* ---- both sides at once ---- */

#define NOTES 400000u
static struct fs_written shared;
static uint8_t taken[NOTES];

static void *notes(void *arg) {
  (void)arg;
  for (uint32_t i = 0; i < NOTES; i++)
    while (!fs_written_note(&shared, i, 1)) sched_yield();
  return NULL;
}

/* Each byte is taken, and once. The numbers of ranges wrap around meanwhile. */
static void test_both(void **state) {
  struct fs_range range[FS_WRITTEN_RANGES];
  uint32_t tail = UINT32_MAX - 1000, upto;
  pthread_t thread;
  (void)state;
  atomic_store(&shared.head, tail);
  atomic_store(&shared.tail, tail);
  assert_int_equal(pthread_create(&thread, NULL, notes, NULL), 0);
  for (uint64_t sum = 0; sum < NOTES; tail = upto) {
    int32_t n = fs_written_take(&shared, tail, &upto, range);
    assert_true(n >= 0);
    for (int32_t i = 0; i < n; i++) {
      assert_true(range[i].len > 0 && range[i].off + range[i].len <= NOTES);
      for (uint64_t k = 0; k < range[i].len; k++) assert_int_equal(taken[range[i].off + k]++, 0);
      sum += range[i].len;
    }
    fs_written_published(&shared, upto);
  }
  pthread_join(thread, NULL);
  assert_int_equal(fs_written_pending(&shared), 0);
}

#define WRITTEN_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup_written, teardown_written)

int main(void) {
  const struct CMUnitTest tests[] = {
      WRITTEN_TEST(test_old),  WRITTEN_TEST(test_calls),     WRITTEN_TEST(test_fails),
      WRITTEN_TEST(test_dies), WRITTEN_TEST(test_dies_idle), WRITTEN_TEST(test_dies_told),
      WRITTEN_TEST(test_lies), WRITTEN_TEST(test_durable),   cmocka_unit_test(test_both),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
