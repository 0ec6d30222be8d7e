/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partitions from node to node while the nodes stage: what a node answers, what it makes of answers that are late,
 * wrong or missing, and what it then still takes. The test is the other nodes; a thread is the worker.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/staging/peers.h"
#include "net_fixture.h"
#include "util/sys.h"

#define SIZE (2 * (uint64_t)FS_PEER_PIECE + 4096)
#define PARTS 4u

static struct fs_daemon *d;
static const struct fs_daemon_config config = {.deadline_ns = 50000000}; /* ten of these bound an answer */
static char dir[200];

static int setup(void **state) {
  (void)state;
  d = new_daemon(&config, 0, 3, dir, sizeof(dir));
  d->datasets = 1;
  d->passing = true;
  struct fs_dataset *ds = &d->data[0];
  ds->partitions = PARTS;
  ds->place = calloc(PARTS, sizeof(*ds->place));
  ds->have = calloc(PARTS, sizeof(*ds->have));
  snprintf(ds->stage.local, sizeof(ds->stage.local), "%s", dir);
  ds->have[1] = true; /* which is staged; 2 is not yet; 0 and 3 are not to be here */
  ds->place[1].flags = ds->place[2].flags = FS_PLACE_LOCAL;
  assert_int_equal(fs_iopool_start(&d->pool, 1, d->wake), 0);
  assert_int_equal(fs_peers_start(d), 0);
  return 0;
}
static int teardown(void **state) {
  (void)state;
  fs_remove_tree(dir);
  keep_daemon(d);
  return 0;
}

static uint8_t byte_at(uint64_t off) {
  return (uint8_t)(off * 7 + off / 4096);
}

/* ---- what it answers ---- */

static struct fs_wire_req request(uint32_t part, uint64_t off, uint32_t len) {
  struct fs_wire_req r = {.magic = FS_WIRE_MAGIC,
                          .version = FS_WIRE_VERSION,
                          .type = FS_WIRE_READ_PART,
                          .id = 77,
                          .tag = FS_TAG_PIECE_FIRST + 3,
                          .partition = part,
                          .length = len,
                          .offset = off};
  r.sum = fs_wire_sum(&r, 0);
  return r;
}
/* Node 1 sends a request. Returns the answer, or NULL if there is none. */
static const struct fs_wire_rep *answer_to(const struct fs_wire_req *r, size_t n) {
  uint32_t sends = world.sends, at = 0;
  while (world.recv[at].tag != FS_TAG_PART) at++;
  struct message m = world.recv[at];
  world.recv[at] = world.recv[--world.recvs];
  memcpy(m.buf, r, n);
  m.op->done(m.op, 1, n, 0);
  for (unsigned i = 0; i < 1000 && world.sends == sends && d->pool.live > 0; i++)
    if (fs_iopool_reap(&d->pool) == 0) usleep(1000);
  if (world.sends == sends) return NULL;
  m = world.sent[sends];
  const struct fs_wire_rep *rep = m.buf;
  assert_int_equal(m.peer, 1);
  assert_int_equal(m.tag, r->tag);
  assert_int_equal(rep->id, 77);
  assert_int_equal(m.bytes, sizeof(*rep) + rep->length);
  return rep;
}

static const struct fs_wire_rep *ask(const struct fs_wire_req *r, size_t n) {
  const struct fs_wire_rep *rep = answer_to(r, n);
  if (!rep) fail_msg("no answer");
  return rep;
}

static void answers(void **state) {
  (void)state;
  char path[256];
  snprintf(path, sizeof(path), "%s/part-00001", dir);
  FILE *f = fopen(path, "w");
  for (unsigned i = 0; i < 10000; i++) fputc(byte_at(i), f);
  fclose(f);
  struct fs_wire_req r = request(1, 0, 0);
  assert_int_equal(ask(&r, sizeof(r))->err, 0);
  r = request(2, 0, 0);
  assert_int_equal(ask(&r, sizeof(r))->err, -EAGAIN);
  r = request(3, 0, 10);
  assert_int_equal(ask(&r, sizeof(r))->err, -ENOENT);
  r = request(1, 1000, 3000);
  const struct fs_wire_rep *rep = ask(&r, sizeof(r));
  assert_int_equal(rep->err, 0);
  for (unsigned i = 0; i < 3000; i++) assert_int_equal(((const uint8_t *)(rep + 1))[i], byte_at(1000 + i));
  r = request(1, 9000, 3000); /* over its end */
  assert_true(ask(&r, sizeof(r))->err < 0);
  uint64_t alive = atomic_load(&d->peers->alive);
  fs_peers_staged(d, 0, 2, true);
  r = request(2, 0, 0);
  rep = ask(&r, sizeof(r));
  assert_int_equal(rep->err, 0);
  assert_true(rep->reserved[0] > alive);
}

static void not_understood(void **state) {
  (void)state;
  struct fs_wire_req r = request(1, 0, 0), bad[8] = {r, r, r, r, r, r, r, r};
  bad[0].magic++;
  bad[1].version++;
  bad[2].type = FS_WIRE_READ;
  bad[3].tag = FS_TAG_PIECE_FIRST + FS_PEER_PIECES;
  bad[4].dataset = 1;
  bad[5].partition = PARTS;
  bad[6].length = FS_PEER_PIECE + 1;
  bad[7].offset = UINT64_MAX;
  for (unsigned i = 0; i < 8; i++) {
    bad[i].sum = fs_wire_sum(&bad[i], 0);
    assert_null(answer_to(&bad[i], sizeof(r)));
  }
  assert_null(answer_to(&r, sizeof(r) - 1));
  r.sum++;
  assert_null(answer_to(&r, sizeof(r)));
  assert_int_equal(d->count.dropped, 10);
  r = request(1, 0, 0);
  ask(&r, sizeof(r)); /* it still listens */
}

/* ---- what it asks ---- */

enum how { WELL, NOT_YET, SILENT, OTHER_ID, SHORT, LONG, FAILS, REFUSED };
static enum how how;
static _Atomic bool over;

/* The requests that are under way are answered, the last first. */
static void answer(void) {
  for (uint32_t s = world.sends; s-- > 0;) {
    struct message q = world.sent[s], a = {.op = NULL};
    struct fs_wire_req r = *(const struct fs_wire_req *)q.buf;
    assert_int_equal(q.tag, FS_TAG_PART);
    world.sends--;
    q.op->done(q.op, q.peer, q.bytes, 0);
    for (uint32_t i = 0; i < world.recvs && !a.op; i++) {
      if (world.recv[i].tag != r.tag || world.recv[i].peer != q.peer) continue;
      a = world.recv[i];
      world.recv[i] = world.recv[--world.recvs];
    }
    struct fs_wire_rep *rep = a.buf;
    assert_non_null(rep);
    if (!rep) return;
    *rep = (struct fs_wire_rep){
        .magic = FS_WIRE_MAGIC, .version = FS_WIRE_VERSION, .type = r.type, .id = r.id, .length = r.length};
    if (how == NOT_YET || how == REFUSED) rep->length = 0;
    if (how == NOT_YET || how == REFUSED) rep->err = how == NOT_YET ? -EAGAIN : -EIO;
    if (how == OTHER_ID) rep->id++;
    if (how == LONG) rep->length = FS_PEER_PIECE + 1;
    for (uint32_t i = 0; i < rep->length && i < FS_PEER_PIECE; i++) ((uint8_t *)(rep + 1))[i] = byte_at(r.offset + i);
    size_t n = sizeof(*rep) + rep->length;
    a.op->done(a.op, q.peer, how == SHORT ? n - 1 : n, how == FAILS ? -ECOMM : 0);
  }
}

static fs_err asked[4];
static uint8_t *taken;
static void *worker(void *arg) {
  uint32_t peer = *(const uint32_t *)arg;
  asked[0] = fs_take_ask(d, peer, 0, 0);
  while (asked[0] == -EAGAIN) asked[0] = fs_take_ask(d, peer, 0, 0);
  asked[1] = asked[0];
  if (asked[0] == 0) {
    fs_take_begin(d, peer, 0, 0, SIZE);
    asked[1] = fs_take_read(d, taken, FS_PEER_PIECE, 0);
    if (asked[1] == 0) asked[1] = fs_take_read(d, taken + FS_PEER_PIECE, SIZE - FS_PEER_PIECE, FS_PEER_PIECE);
    fs_take_end(d);
  }
  asked[2] = fs_take_ask(d, peer, 0, 0);
  atomic_store(&over, true);
  return NULL;
}

/* The worker asks a peer, and takes a partition that it has. Answers to the first question are `first`. */
static void take_from(uint32_t peer, enum how first, enum how then) {
  pthread_t t;
  taken = calloc(1, SIZE);
  how = first;
  atomic_store(&over, false);
  assert_int_equal(pthread_create(&t, NULL, worker, &peer), 0);
  while (!atomic_load(&over)) {
    int n = fs_take_run(d->peers);
    if (how != SILENT) answer();
    if (n > 0) how = then;
    usleep(100);
  }
  pthread_join(t, NULL);
}

static void takes(void **state) {
  (void)state;
  take_from(1, WELL, WELL);
  for (unsigned i = 0; i < 3; i++) assert_int_equal(asked[i], 0);
  for (uint64_t i = 0; i < SIZE; i++) assert_int_equal(taken[i], byte_at(i));
  free(taken);
  take_from(2, WELL, REFUSED); /* which is no fault of the peer's */
  assert_int_equal(asked[1], -EIO);
  assert_int_equal(asked[2], -EIO);
  free(taken);
  fs_take_close(d);
}

static void gives_up(void **state) {
  (void)state;
  static const struct {
    enum how first, then;
    fs_err err;
  } cases[] = {{NOT_YET, NOT_YET, -ETIMEDOUT}, {SILENT, SILENT, -ETIMEDOUT}, {OTHER_ID, WELL, -EPROTO},
               {SHORT, WELL, -EPROTO},         {LONG, WELL, -EPROTO},        {FAILS, WELL, -EPROTO},
               {WELL, SILENT, -ETIMEDOUT},     {WELL, OTHER_ID, -EPROTO}};
  for (unsigned i = 0; i < FS_ARRAY_LEN(cases); i++) {
    take_from(1, cases[i].first, cases[i].then);
    assert_int_equal(asked[1], cases[i].err);
    /* a silent one is not asked again; one that stands still may go on */
    assert_int_equal(asked[2], cases[i].first == NOT_YET ? -ETIMEDOUT : -EHOSTDOWN);
    free(taken);
    how = WELL;
    answer();                 /* late answers, to whom nobody waits */
    take_from(2, WELL, WELL); /* and others are */
    assert_int_equal(asked[1], 0);
    free(taken);
    teardown(NULL);
    setup(NULL);
  }
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {TEST(answers), TEST(not_understood), TEST(takes), TEST(gives_up)};
  return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
