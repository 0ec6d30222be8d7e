/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of the name service over a network that tells of them in any order, loses some, and brings ones that are no
 * messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/metadata/ns_net.h"

#define MOST 4000u

/* ---- a network that keeps everything ---- */

struct kept {
  const void *buf;
  size_t bytes;
  struct fs_net_op *op;
};
static struct kept sent[MOST], posted[64];
static uint32_t sends, posts;
static bool failing;

static fs_err keep_send(struct fs_net *n, uint32_t peer, uint32_t tag, const void *buf, size_t bytes,
                        struct fs_net_op *op) {
  (void)n, (void)peer;
  assert_int_equal(tag, FS_TAG_NAMES);
  if (failing) return -ECOMM;
  assert_true(sends < MOST);
  sent[sends++] = (struct kept){.buf = buf, .bytes = bytes, .op = op};
  return 0;
}
static fs_err keep_recv(struct fs_net *n, uint32_t peer, uint32_t tag, void *buf, size_t bytes, struct fs_net_op *op) {
  (void)n;
  assert_int_equal(peer, FS_NET_ANY);
  assert_int_equal(tag, FS_TAG_NAMES);
  assert_true(posts < FS_ARRAY_LEN(posted));
  posted[posts++] = (struct kept){.buf = buf, .bytes = bytes, .op = op};
  return 0;
}
static const struct fs_net_ops keep_ops = {.send = keep_send, .recv = keep_recv};
static struct fs_net net = {.ops = &keep_ops, .rank = 0, .nodes = 3, .tag_max = 32767};

/* One message arrives at one of the receives, as coming from this rank. */
static void arrive(uint32_t from, const void *buf, size_t bytes) {
  assert_true(posts > 0);
  struct kept k = posted[0];
  memmove(posted, posted + 1, --posts * sizeof(posted[0]));
  memcpy((void *)k.buf, buf, FS_MIN(bytes, k.bytes));
  k.op->done(k.op, from, bytes, bytes > k.bytes ? -EMSGSIZE : 0);
}

/* ---- what came ---- */

static uint64_t next_id[3];
static unsigned received, skipped;

static void receive(void *ctx, uint32_t from, const struct fs_ns_message *head, const void *body, size_t n) {
  assert_ptr_equal(ctx, &net);
  assert_true(head->id >= next_id[from]);
  skipped += (unsigned)(head->id - next_id[from]);
  next_id[from] = head->id + 1;
  assert_int_equal(n, head->id % 100);
  for (size_t i = 0; i < n; i++) assert_int_equal(((const unsigned char *)body)[i], (head->id + i) & 0xff);
  assert_int_equal(head->set, 7);
  assert_int_equal(head->err, -(int)(head->id % 3));
  received++;
}

static struct fs_ns_net *n;
static int setup(void **state) {
  (void)state;
  sends = posts = 0;
  received = skipped = 0;
  failing = false;
  memset(next_id, 0, sizeof(next_id));
  return fs_ns_net_new(&n, &net, 1000, receive, &net);
}
/* The service ends with its process; here its receives are given back. */
static int teardown(void **state) {
  (void)state;
  fs_ns_net_timers(n, UINT64_MAX / 2);
  for (uint32_t i = 0; i < sends; i++) sent[i].op->done(sent[i].op, 1, sent[i].bytes, 0);
  for (uint32_t i = 0; i < posts; i++) free(posted[i].op);
  free(n);
  return 0;
}

static void gather_one(uint64_t id) {
  unsigned char body[100];
  struct fs_ns_message head = {.id = id, .set = 7, .err = -(int)(id % 3), .answer = id % 2};
  for (size_t i = 0; i < id % 100; i++) body[i] = (unsigned char)(id + i);
  fs_ns_net_send(n, 1, &head, body, id % 100);
}
static void send_one(uint64_t id) {
  gather_one(id);
  fs_ns_net_flush(n);
}

static void test_in_order(void **state) {
  (void)state;
  for (uint64_t i = 0; i < 1000; i++) send_one(i);
  for (uint32_t i = 0; i < sends; i++) arrive(2, sent[i].buf, sent[i].bytes);
  assert_int_equal(received, 1000);
  assert_int_equal(skipped, 0);
}

static void test_told_of_in_any_order(void **state) {
  (void)state;
  uint32_t order[1000], x = 12345;
  for (uint32_t i = 0; i < 1000; i++) order[i] = i;
  for (uint32_t i = 999; i > 0; i--) {
    x = x * 1103515245 + 12345;
    uint32_t k = (x >> 8) % (i + 1), swap = order[i];
    order[i] = order[k];
    order[k] = swap;
  }
  for (uint64_t i = 0; i < 1000; i++) send_one(i);
  for (uint32_t i = 0; i < sends; i++) arrive(2, sent[order[i]].buf, sent[order[i]].bytes);
  assert_int_equal(received, 1000);
  assert_int_equal(skipped, 0);
}

static void test_a_gap_is_passed_over(void **state) {
  (void)state;
  for (uint64_t i = 0; i < 10; i++) send_one(i);
  fs_ns_net_timers(n, 100);
  for (uint32_t i = 0; i < sends; i++) {
    if (i != 3 && i != 6) arrive(2, sent[i].buf, sent[i].bytes);
  }
  assert_int_equal(received, 3);
  fs_ns_net_timers(n, 599);
  assert_int_equal(received, 3);
  fs_ns_net_timers(n, 600);
  assert_int_equal(received, 5);
  fs_ns_net_timers(n, 1200);
  assert_int_equal(received, 8);
  assert_int_equal(skipped, 2);
}

/* What is sent in one round goes in few packets, each of which is taken as a whole. */
static void test_gathered(void **state) {
  (void)state;
  alignas(8) unsigned char buf[FS_NAMES_BODY + 64];
  for (uint64_t i = 0; i < 4000; i++) gather_one(i);
  uint32_t full = sends;
  fs_ns_net_flush(n);
  assert_int_equal(sends, full + 1);
  assert_in_range(sends, 20, 40); /* 4000 heads of 64 bytes and bodies of 50 */
  fs_ns_net_flush(n);
  assert_int_equal(sends, full + 1);
  for (uint32_t i = sends; i-- > 0;) { /* one message of it is wrong, or it is cut */
    size_t bytes = sent[i].bytes;
    assert_true(bytes <= sizeof(buf));
    memcpy(buf, sent[i].buf, bytes);
    for (size_t at = 0; at < bytes;) {
      size_t odd = at + i % sizeof(struct fs_wire_names);
      at += fs_wire_names_size(((struct fs_wire_names *)(void *)(buf + at))->length);
      buf[odd] ^= 1;
      arrive(2, buf, bytes);
      buf[odd] ^= 1;
    }
    arrive(2, buf, bytes - 8);
  }
  assert_int_equal(received, 0);
  for (uint32_t i = sends; i-- > 0;) arrive(2, sent[i].buf, sent[i].bytes);
  assert_int_equal(received, 4000);
  assert_int_equal(skipped, 0);
}

/* The numbers of a packet that could not be sent are those of the next one. */
static void test_a_packet_that_fails(void **state) {
  (void)state;
  for (uint64_t i = 0; i < 30; i++) {
    gather_one(i);
    failing = i == 19;
    if (i % 10 == 9) fs_ns_net_flush(n);
  }
  assert_int_equal(sends, 2);
  assert_int_equal(fs_ns_net_dropped(n), 10);
  for (uint32_t i = 0; i < sends; i++) arrive(2, sent[i].buf, sent[i].bytes);
  assert_int_equal(received, 20);
  assert_int_equal(skipped, 10);
}

/* What could not be sent leaves none. */
static void test_a_send_that_fails(void **state) {
  (void)state;
  for (uint64_t i = 0; i < 10; i++) {
    failing = i == 3 || i == 6;
    send_one(i);
  }
  assert_int_equal(sends, 8);
  for (uint32_t i = 0; i < sends; i++) arrive(2, sent[i].buf, sent[i].bytes);
  assert_int_equal(received, 8);
  assert_int_equal(skipped, 2);
}

static void test_twice_is_once(void **state) {
  (void)state;
  for (uint64_t i = 0; i < 10; i++) send_one(i);
  for (unsigned twice = 0; twice < 2; twice++) {
    for (uint32_t i = 0; i < sends; i++) arrive(2, sent[9 - i].buf, sent[9 - i].bytes);
  }
  assert_int_equal(received, 10);
  assert_int_equal(fs_ns_net_dropped(n), 10);
}

/* Of a message with any of its bits flipped, or that is shorter or longer than it says, nothing is believed. */
static void test_flipped(void **state) {
  (void)state;
  unsigned char buf[4096];
  send_one(50);
  size_t bytes = sent[0].bytes;
  next_id[2] = 50;
  memcpy(buf, sent[0].buf, bytes);
  for (size_t bit = 0; bit < (sizeof(struct fs_wire_names) + 50) * 8; bit++) {
    buf[bit / 8] ^= (unsigned char)(1u << bit % 8);
    arrive(2, buf, bytes);
    buf[bit / 8] ^= (unsigned char)(1u << bit % 8);
  }
  for (size_t cut = 0; cut < bytes; cut++) arrive(2, buf, cut);
  memset(buf + bytes, 0, 8);
  arrive(2, buf, bytes + 8);
  assert_int_equal(received, 0);
  arrive(2, buf, bytes);
  assert_int_equal(received, 1);
  assert_int_equal(skipped, 0);
}

static void test_no_messages(void **state) {
  (void)state;
  char big[65536] = {0};
  struct fs_wire_names good = {.magic = FS_WIRE_NAMES_MAGIC, .version = FS_WIRE_VERSION, .set = 7, .order = 1}, bad;
  good.sum = fs_wire_sum(&good, 0);
  arrive(2, big, 0);
  arrive(2, big, sizeof(big));
  arrive(2, &good, sizeof(good) - 1);
  bad = good, bad.magic++, bad.sum = fs_wire_sum(&bad, 0);
  arrive(2, &bad, sizeof(bad));
  bad = good, bad.version++, bad.sum = fs_wire_sum(&bad, 0);
  arrive(2, &bad, sizeof(bad));
  bad = good, bad.length = 1, bad.sum = fs_wire_sum(&bad, 0);
  arrive(2, &bad, sizeof(bad));
  bad = good, bad.answer = 2, bad.sum = fs_wire_sum(&bad, 0);
  arrive(2, &bad, sizeof(bad));
  bad = good, bad.order = 0, bad.sum = fs_wire_sum(&bad, 0);
  arrive(2, &bad, sizeof(bad));
  arrive(77, &good, sizeof(good));
  assert_int_equal(received, 0);
  assert_int_equal(fs_ns_net_dropped(n), 9);
  arrive(2, &good, sizeof(good));
  assert_int_equal(received, 1);
}

/* A body that ends beyond its message would be of what was in the buffer before. */
static void test_cut(void **state) {
  (void)state;
  alignas(8) char text[sizeof(struct fs_wire_names) + 8] = {0};
  struct fs_wire_names *h = (void *)text;
  *h = (struct fs_wire_names){
      .magic = FS_WIRE_NAMES_MAGIC, .version = FS_WIRE_VERSION, .set = 7, .order = 1, .length = 8};
  h->sum = fs_wire_sum(h, 8);
  assert_true(posts > 0);
  struct kept k = posted[0];
  memmove(posted, posted + 1, --posts * sizeof(posted[0]));
  memcpy((void *)k.buf, text, sizeof(text));
  k.op->done(k.op, 2, sizeof(text) - 1, 0);
  assert_int_equal(received, 0);
  assert_int_equal(fs_ns_net_dropped(n), 1);
}

/* A rank that takes nothing costs a bounded amount of memory. */
static void test_bounded(void **state) {
  (void)state;
  static char body[FS_NAMES_BODY];
  struct fs_ns_message head = {.id = 1};
  for (unsigned i = 0; i < MOST; i++) fs_ns_net_send(n, 1, &head, body, sizeof(body));
  assert_true(sends > 100 && sends < 1000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_in_order, setup, teardown),
      cmocka_unit_test_setup_teardown(test_told_of_in_any_order, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_gap_is_passed_over, setup, teardown),
      cmocka_unit_test_setup_teardown(test_gathered, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_packet_that_fails, setup, teardown),
      cmocka_unit_test_setup_teardown(test_a_send_that_fails, setup, teardown),
      cmocka_unit_test_setup_teardown(test_twice_is_once, setup, teardown),
      cmocka_unit_test_setup_teardown(test_flipped, setup, teardown),
      cmocka_unit_test_setup_teardown(test_no_messages, setup, teardown),
      cmocka_unit_test_setup_teardown(test_cut, setup, teardown),
      cmocka_unit_test_setup_teardown(test_bounded, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
