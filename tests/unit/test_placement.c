/* SPDX-License-Identifier: BSD-3-Clause */
/* The placement: balance, replicas, reuse of what is staged, lack of room. Pure computation; nothing is started. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../fs-launch/placement.h"

#define MAX_NODES 40u
#define MAX_PARTS 300u

struct fixture {
  struct fs_place_part part[MAX_PARTS];
  struct fs_owners out[MAX_PARTS];
  bool staged[MAX_NODES * MAX_PARTS];
  uint32_t group[MAX_NODES];
  uint64_t room[MAX_NODES];
  struct fs_place_input in;
};

static struct fixture *make(uint32_t nodes, uint64_t parts, uint32_t replicas) {
  struct fixture *f = calloc(1, sizeof(*f));
  assert_non_null(f);
  for (uint64_t p = 0; p < parts; p++) f->part[p].size = 1000;
  for (uint32_t n = 0; n < nodes; n++) {
    f->group[n] = n;
    f->room[n] = 1u << 30;
  }
  f->in = (struct fs_place_input){.nodes = nodes,
                                  .parts = parts,
                                  .replicas = replicas,
                                  .part = f->part,
                                  .staged = f->staged,
                                  .group = f->group,
                                  .room = f->room};
  return f;
}

static void compute(struct fixture *f) {
  assert_int_equal(fs_place_compute(&f->in, f->out), 0);
  for (uint64_t p = 0; p < f->in.parts; p++) {
    const struct fs_owners *o = &f->out[p];
    assert_true(o->owners <= FS_MAX_OWNERS);
    assert_true(!o->everywhere || o->owners == 0);
    for (unsigned i = 0; i < o->owners; i++) {
      assert_true(o->owner[i] < f->in.nodes);
      for (unsigned k = 0; k < i; k++) assert_true(o->owner[i] != o->owner[k]);
    }
  }
}

static uint64_t load(const struct fixture *f, uint32_t node, bool primary) {
  uint64_t sum = 0;
  for (uint64_t p = 0; p < f->in.parts; p++)
    for (unsigned i = 0; i < f->out[p].owners; i++)
      if (f->out[p].owner[i] == node && (i == 0 || !primary)) sum += f->part[p].size;
  return sum;
}

/* Marks as staged what was placed. */
static void stage(struct fixture *f) {
  for (uint64_t p = 0; p < f->in.parts; p++) {
    for (unsigned i = 0; i < f->out[p].owners; i++) f->staged[f->out[p].owner[i] * f->in.parts + p] = true;
    for (uint32_t n = 0; f->out[p].everywhere && n < f->in.nodes; n++) f->staged[n * f->in.parts + p] = true;
  }
}

static void uneven(struct fixture *f, unsigned seed) {
  for (uint64_t p = 0; p < f->in.parts; p++) {
    seed = seed * 1664525u + 1013904223u;
    f->part[p].size = 4096 + seed % 1000000;
  }
}

static void balanced(void **state) {
  (void)state;
  for (uint32_t nodes = 1; nodes <= 7; nodes++) {
    struct fixture *f = make(nodes, 100, 1);
    uint64_t low = UINT64_MAX, high = 0;
    uneven(f, nodes);
    compute(f);
    for (uint32_t n = 0; n < nodes; n++) {
      low = FS_MIN(low, load(f, n, false));
      high = FS_MAX(high, load(f, n, false));
    }
    assert_true(high - low < 1004096);
    for (uint64_t p = 0; p < 100; p++) assert_int_equal(f->out[p].owners, 1);
    free(f);
  }
}

static void replicas(void **state) {
  (void)state;
  for (uint32_t copies = 2; copies <= 5; copies++) {
    struct fixture *f = make(7, 140, copies);
    compute(f);
    for (uint64_t p = 0; p < 140; p++) assert_int_equal(f->out[p].owners, copies);
    for (uint32_t n = 0; n < 7; n++) {
      assert_in_range(load(f, n, false), 20000 * copies - 2000, 20000 * copies + 2000);
      assert_in_range(load(f, n, true), 18000, 22000); /* and asked first for its part of them */
    }
    free(f);
  }
}

static void everywhere(void **state) {
  (void)state;
  struct fixture *f = make(4, 10, 1);
  f->part[3].everywhere = true;
  compute(f);
  assert_true(f->out[3].everywhere);
  assert_false(f->out[2].everywhere);
  for (uint32_t n = 0; n < 4; n++) assert_true(f->room[n] <= (1u << 30) - 1000);
  f->in.replicas = 4; /* as many as nodes */
  compute(f);
  for (uint64_t p = 0; p < 10; p++) assert_true(f->out[p].everywhere);
  free(f);
  f = make(1, 10, 1);
  f->part[0].everywhere = true;
  compute(f);
  for (uint64_t p = 0; p < 10; p++) assert_int_equal(f->out[p].owner[0], 0);
  free(f);
}

/* The same job again finds every partition where it is, whatever the sizes and the number of nodes. */
static void reused(void **state) {
  (void)state;
  for (uint32_t nodes = 1; nodes <= 9; nodes++) {
    for (uint32_t copies = 1; copies <= 3; copies++) {
      struct fixture *f = make(nodes, 37, copies);
      struct fs_owners first[MAX_PARTS];
      uneven(f, nodes * 10 + copies);
      f->part[5].everywhere = true;
      compute(f);
      stage(f);
      memcpy(first, f->out, sizeof(first));
      for (uint32_t n = 0; n < nodes; n++) f->room[n] = 0; /* nothing needs room now */
      compute(f);
      for (uint64_t p = 0; p < 37; p++) {
        assert_int_equal(f->out[p].owners, first[p].owners);
        for (unsigned i = 0; i < f->out[p].owners; i++) assert_true(f->staged[f->out[p].owner[i] * f->in.parts + p]);
      }
      free(f);
    }
  }
}

/* Everything on node 0 from an earlier job: it keeps its share, the others get theirs. */
static void rebalanced(void **state) {
  (void)state;
  struct fixture *f = make(4, 40, 1);
  for (uint64_t p = 0; p < 40; p++) f->staged[p] = true;
  compute(f);
  for (uint32_t n = 0; n < 4; n++) assert_int_equal(load(f, n, false), 10000);
  free(f);
}

static void little_room(void **state) {
  (void)state;
  struct fixture *f = make(2, 10, 2);
  f->room[0] = 3500;
  f->room[1] = 4999;
  uint64_t placed = 0;
  f->in.replicas = 1;
  compute(f);
  for (uint64_t p = 0; p < 10; p++) placed += f->out[p].owners;
  assert_int_equal(placed, 7);
  assert_int_equal(load(f, 0, false), 3000);
  assert_int_equal(load(f, 1, false), 4000);
  assert_int_equal(f->room[0], 500);
  free(f);
}

/* Emulated nodes share one file system: its room is given out once. */
static void shared_room(void **state) {
  (void)state;
  struct fixture *f = make(4, 16, 1);
  memset(f->group, 0, sizeof(f->group));
  f->room[0] = 9000;
  f->part[0].everywhere = true;
  compute(f);
  uint64_t used = 0;
  for (uint32_t n = 0; n < 4; n++) used += load(f, n, false);
  assert_true(f->out[0].everywhere);
  assert_int_equal(used + 4000, 9000);
  f->room[0] = 3000; /* not for four copies: as many as there is room for */
  compute(f);
  assert_false(f->out[0].everywhere);
  free(f);
}

/* Every partition has one copy before any has two. */
static void first_copies_first(void **state) {
  (void)state;
  struct fixture *f = make(3, 9, 3);
  f->in.replicas = 2;
  for (uint32_t n = 0; n < 3; n++) f->room[n] = 4000;
  compute(f);
  for (uint64_t p = 0; p < 9; p++) assert_true(f->out[p].owners >= 1);
  free(f);
}

static void many_nodes(void **state) {
  (void)state;
  struct fixture *f = make(40, 7, 1);
  compute(f);
  for (uint64_t p = 0; p < 7; p++) assert_int_equal(f->out[p].owners, 1);
  f->in.replicas = 40;
  f->room[17] = 10; /* one node too full: owners are listed, as many as a list holds */
  compute(f);
  for (uint64_t p = 0; p < 7; p++) assert_int_equal(f->out[p].owners, FS_MAX_OWNERS);
  free(f);
}

/* As many copies as nodes: without room for all of them, each partition still gets its first one. */
static void first_copies_of_all(void **state) {
  (void)state;
  struct fixture *f = make(2, 4, 2);
  f->in.group = (const uint32_t[]){0, 0};
  f->room[0] = 4500;
  f->part[2].everywhere = true;
  f->part[2].size = 200;
  compute(f);
  assert_true(f->out[2].everywhere);
  for (uint64_t p = 0; p < 4; p++) {
    if (p == 2) continue;
    assert_int_equal(f->out[p].everywhere, p == 0); /* 3,400 for the first copies, 1,100 are left */
    assert_int_equal(f->out[p].owners, p == 0 ? 0 : 1);
  }
  assert_true(fs_place_lacks(&f->in, f->out, 1) && !fs_place_lacks(&f->in, f->out, 0));
  assert_false(fs_place_lacks(&f->in, f->out, 2));
  free(f);
}

/* The same with more nodes than a list of owners holds: what fits everywhere is there. */
static void many_copies_of_most(void **state) {
  (void)state;
  struct fixture *f = make(8, 100, 8);
  for (uint32_t n = 0; n < 8; n++) f->room[n] = 99500;
  compute(f);
  unsigned everywhere = 0, first = 0, lacks = 0;
  for (uint64_t p = 0; p < 100; p++) {
    everywhere += f->out[p].everywhere;
    first += f->out[p].everywhere || f->out[p].owners > 0;
    lacks += fs_place_lacks(&f->in, f->out, p);
  }
  assert_int_equal(first, 100);
  assert_in_range(everywhere, 98, 99);
  assert_int_equal(lacks, 100 - everywhere);
  free(f);
}

/* Without a shared copy, a partition stays on the node that has it, also beyond its share, or has no owner. */
static void only_staged(void **state) {
  (void)state;
  struct fixture *f = make(3, 4, 2);
  for (uint64_t p = 0; p < 4; p++) f->part[p].only_staged = true;
  for (uint64_t p = 0; p < 3; p++) f->staged[1 * 4 + p] = true;
  f->room[1] = 0;
  compute(f);
  for (uint64_t p = 0; p < 3; p++) { /* the second copy comes from the first */
    assert_int_equal(f->out[p].owners, 2);
    assert_true(f->out[p].owner[0] == 1 || f->out[p].owner[1] == 1);
    assert_true(f->out[p].passed);
    assert_int_equal(f->out[p].source, 1);
  }
  assert_int_equal(f->out[3].owners, 0);
  f->in.replicas = 3; /* on all nodes */
  compute(f);
  for (uint64_t p = 0; p < 3; p++) assert_true(f->out[p].everywhere && f->out[p].source == 1);
  assert_false(f->out[3].everywhere);
  assert_int_equal(f->out[3].owners, 0);
  free(f);
}

static bool is_owner(const struct fs_owners *o, uint32_t node) {
  for (unsigned i = 0; i < o->owners; i++)
    if (o->owner[i] == node) return true;
  return o->everywhere;
}

/* One node reads a partition from shared storage: the source, unless a node has it. */
static void sources(void **state) {
  (void)state;
  for (uint32_t copies = 1; copies <= 6; copies++) {
    struct fixture *f = make(6, 60, copies);
    uint64_t passes[6] = {0};
    compute(f);
    for (uint64_t p = 0; p < 60; p++) {
      assert_int_equal(f->out[p].passed, copies > 1);
      if (copies > 1) assert_true(is_owner(&f->out[p], f->out[p].source));
      if (copies > 1) passes[f->out[p].source] += 1000;
    }
    for (uint32_t n = 0; copies > 1 && n < 6; n++) assert_in_range(passes[n], 8000, 12000);
    stage(f);
    compute(f);
    for (uint64_t p = 0; p < 60; p++) assert_false(f->out[p].passed); /* nobody lacks it */
    free(f);
  }
  struct fixture *f = make(3, 2, 2);
  f->staged[2 * 2 + 0] = true; /* node 2 has partition 0 */
  f->room[2] = 0;              /* and no room for more */
  compute(f);
  assert_true(f->out[0].passed);
  assert_int_equal(f->out[0].source, 2);
  assert_true(f->out[1].passed);
  assert_int_not_equal(f->out[1].source, 2);
  free(f);
  f = make(2, 4, 1);
  for (uint64_t p = 0; p < 4; p++) f->staged[p] = true; /* node 0 has all */
  compute(f);
  for (uint64_t p = 0; p < 4; p++) {
    assert_int_equal(f->out[p].passed, f->out[p].owner[0] == 1);
    if (f->out[p].passed) assert_int_equal(f->out[p].source, 0); /* which is no owner */
  }
  assert_true(f->out[0].passed + f->out[1].passed + f->out[2].passed + f->out[3].passed == 2);
  free(f);
}

static void empty(void **state) {
  (void)state;
  struct fixture *f = make(3, 0, 1);
  compute(f);
  free(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(balanced),
      cmocka_unit_test(replicas),
      cmocka_unit_test(everywhere),
      cmocka_unit_test(reused),
      cmocka_unit_test(rebalanced),
      cmocka_unit_test(little_room),
      cmocka_unit_test(shared_room),
      cmocka_unit_test(many_nodes),
      cmocka_unit_test(first_copies_first),
      cmocka_unit_test(empty),
      cmocka_unit_test(first_copies_of_all),
      cmocka_unit_test(many_copies_of_most),
      cmocka_unit_test(only_staged),
      cmocka_unit_test(sources),
  };
  return cmocka_run_group_tests_name("placement", tests, NULL, NULL);
}
