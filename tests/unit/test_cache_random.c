/* SPDX-License-Identifier: BSD-3-Clause */
/* Random operations on the node cache. After each one, its lines, queues and sums must agree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/cache_priv.h"

enum { PINS = 24, FILLING = 12, KEYS = 600 };

struct world {
  struct fs_cache *c;
  uint32_t most;         /* bytes of the longest block */
  uint32_t pin[PINS];    /* line + 1, or 0 */
  uint64_t pinned[PINS]; /* its key */
  uint32_t filling[FILLING], fills;
  uint32_t seed;
};

static uint32_t draw(struct world *w, uint32_t below) {
  w->seed = w->seed * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)w->seed * below >> 32);
}

static void pins(void *ctx, void (*visit)(void *arg, uint32_t line), void *arg) {
  struct world *w = ctx;
  for (int i = 0; i < PINS; i++) {
    if (w->pin[i]) visit(arg, w->pin[i] - 1);
  }
}

/* Returns the number of lines in the queue of a class. */
static uint32_t check_queue(const struct fs_cache *c, enum fs_line_class class) {
  uint32_t n = 0, before = FS_SLAB_NONE;
  for (uint32_t l = c->queue[class].first; l != FS_SLAB_NONE; before = l, l = c->own[l].next) {
    assert_true(l < c->made && n++ < c->made);
    assert_int_equal(c->own[l].state, FS_LINE_VALID);
    assert_int_equal(c->own[l].class, class);
    assert_true(c->own[l].queued);
    assert_int_equal(c->own[l].prev, before);
  }
  assert_int_equal(c->queue[class].last, before);
  return n;
}

static void check(const struct world *w) {
  struct fs_cache *c = w->c;
  uint64_t in[FS_LINE_CLASSES] = {0}, used = 0;
  uint32_t valid[FS_LINE_CLASSES] = {0}, lines = 0, free_lines = 0;
  for (uint32_t l = 0; l < c->made; l++) {
    const struct fs_own_line *o = &c->own[l];
    bool queued = o->state == FS_LINE_VALID && o->class != FS_LINE_RESIDENT;
    assert_int_equal(o->queued, queued);
    if (o->state == FS_LINE_FREE) continue;
    assert_true(o->state == FS_LINE_VALID || o->state == FS_LINE_FILLING);
    assert_int_equal(c->slab.extent[o->extent].owner, l);
    assert_int_equal(fs_cache_ways(c, o->key)[o->way], l + 1);
    assert_int_equal(c->line[l].tag, o->state == FS_LINE_VALID ? o->key | FS_CACHE_VALID : 0);
    in[o->class] += fs_cache_size(c, l);
    used += c->slab.extent[o->extent].size;
    if (o->state == FS_LINE_VALID) valid[o->class]++;
    lines++;
  }
  for (uint32_t l = c->free_line; l != FS_SLAB_NONE; l = c->own[l].extent) {
    assert_true(free_lines++ < c->made);
    assert_int_equal(c->own[l].state, FS_LINE_FREE);
  }
  assert_int_equal(lines + free_lines, c->made);
  assert_int_equal(lines, c->stats.lines_used);
  assert_int_equal(used, c->slab.used);
  for (int i = 0; i < FS_LINE_CLASSES; i++) assert_int_equal(in[i], c->in[i]);
  assert_int_equal(check_queue(c, FS_LINE_PASSING), valid[FS_LINE_PASSING]);
  assert_int_equal(check_queue(c, FS_LINE_AWAITED), valid[FS_LINE_AWAITED]);
  assert_int_equal(check_queue(c, FS_LINE_RESIDENT), 0);
  for (int i = 0; i < PINS; i++) {
    if (w->pin[i] == 0) continue;
    assert_int_equal(c->own[w->pin[i] - 1].state, FS_LINE_VALID);
    assert_int_equal(c->own[w->pin[i] - 1].key, w->pinned[i]);
  }
}

static void get(struct world *w, uint64_t key) {
  void *buf;
  int64_t line = fs_cache_find(w->c, key);
  for (uint32_t i = 0; i < w->fills; i++) {
    if (w->c->own[w->filling[i]].key == key) return;
  }
  if (line < 0 && w->fills < FILLING) {
    uint32_t bits = 1 + draw(w, 18), len = FS_MIN(1 + draw(w, 1u << bits), w->most);
    line = fs_cache_alloc(w->c, key, len, &buf);
    if (line < 0) return;
    memset((char *)buf + FS_CACHE_HEADROOM, 0, len);
    w->filling[w->fills++] = (uint32_t)line;
  } else if (line >= 0 && draw(w, 4) == 0) {
    uint32_t i = draw(w, PINS);
    w->pin[i] = (uint32_t)line + 1;
    w->pinned[i] = key;
  }
}

static void end_fill(struct world *w) {
  if (w->fills == 0) return;
  uint32_t i = draw(w, w->fills), line = w->filling[i];
  w->filling[i] = w->filling[--w->fills];
  if (draw(w, 8) == 0)
    fs_cache_abort(w->c, line);
  else
    fs_cache_publish(w->c, line, draw(w, 3) == 0);
}

static bool pick(void *ctx, uint64_t key) {
  return key % 16 == *(uint64_t *)ctx;
}

static void stayed(void *ctx, uint64_t key) {
  assert_int_equal(key % 16, *(uint64_t *)ctx);
}

static void run(uint64_t size, uint32_t most, uint32_t seed, int steps) {
  struct world w = {.most = most, .seed = seed};
  assert_int_equal(fs_cache_new(&w.c, size, most, pins, &w), 0);
  for (int i = 0; i < steps; i++) {
    uint32_t what = draw(&w, 1000);
    uint64_t part = draw(&w, 16), set = (uint64_t)(i / (steps / 3)) * KEYS / 2;
    if (what < 600)
      get(&w, 1 + set + draw(&w, KEYS));
    else if (what < 950)
      end_fill(&w);
    else if (what < 998)
      w.pin[draw(&w, PINS)] = 0;
    else
      fs_cache_purge(w.c, pick, stayed, &part);
    check(&w);
  }
  fs_cache_free(w.c);
}

static void test_random(void **state) {
  (void)state;
  for (uint32_t seed = 1; seed <= 4; seed++) {
    run(1 << 20, 4000, seed, 6000);
    run(1 << 20, 1 << 18, seed, 6000);
    run(1 << 19, 500000, seed, 4000); /* room for one of the longest blocks */
    run(8 << 20, 1 << 18, seed, 4000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
