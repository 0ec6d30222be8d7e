/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What follows from a removal on other ranks, in the simulation of ns_fixture.h: homes drop bytes, keepers close
 * directories, whoever dies meanwhile.
 */
#include "ns_fixture.h"

/* The primary of a name dies at some moment of its removal: what follows from it is done all the same. */
static bool removal_dies(unsigned round, mode_t mode) {
  static struct call c;
  random_seed(round);
  sim_start(4);
  struct fs_names_call h = {.op = FS_NAMES_CREATE, .create = {.dir = FS_DATASET_DIR(0, round), .mode = mode | 0755}};
  uint32_t primary = fs_members_keepers(fs_ns_members(world.ns[0]), h.create.dir).primary, home = (primary + 1) % 4;
  uint64_t id = h.create.id = fs_ns_id(world.ns[home]);
  call_start(&c, home, h, "x", "");
  call_wait(&c);
  sim_settle();
  h = (struct fs_names_call){.op = FS_NAMES_REMOVE,
                             .flags = S_ISDIR(mode) ? FS_REMOVE_DIRECTORY : 0,
                             .remove = {.dir = h.create.dir, .call = fs_ns_id(world.ns[home])}};
  call_start(&c, home, h, "x", "");
  for (unsigned step = 0; step < round % 60; step++) sim_step();
  bool lost = false; /* the word about it was on its way */
  for (uint32_t to = 0; to < 4; to++) {
    for (const struct packet *p = world.first[primary][to]; p; p = p->next) {
      const struct fs_names_call *q = (const void *)p->body;
      lost = lost || (!p->head.answer && (q->op == FS_NAMES_DROP || q->op == FS_NAMES_FORGET));
    }
  }
  sim_kill(primary);
  call_wait(&c);
  assert_int_equal(c.err, 0);
  sim_settle();
  sim_check_backups();
  if (S_ISREG(mode)) assert_true(world.dropped[home][id & 0xffff]);
  for (uint32_t i = 0; S_ISDIR(mode) && i < 4; i++) {
    struct fs_keepers k = fs_members_keepers(fs_ns_members(world.ns[i]), id);
    if (!world.dead[i] && (k.primary == i || k.backup == i))
      assert_true(fs_names_closed(world.ns[i]->names, id, UINT64_MAX - 1));
  }
  return lost;
}
static void test_removals_of_a_primary_that_dies(void **state) {
  (void)state;
  unsigned lost[2] = {0};
  for (unsigned round = 0; round < 600; round = next_round(round))
    lost[round % 2] += removal_dies(round, round % 2 ? S_IFREG : S_IFDIR);
  assert_true(lost[0] > 10 / next_round(0) && lost[1] > 10 / next_round(0));
}

/* The primary has the bytes of a file that another rank removes or replaces. It drops the bytes of a removed file
 * while the backup hears of that, and the caller need not ask for it. Those of a replaced file are there until the
 * backup knows. */
static void removed_at_home(unsigned round, bool rename) {
  static struct call c;
  random_seed(round);
  sim_start(4);
  struct fs_names_call h = {.op = FS_NAMES_CREATE, .create = {.dir = FS_DATASET_DIR(0, round), .mode = S_IFREG | 0644}};
  struct fs_keepers k = fs_members_keepers(fs_ns_members(world.ns[0]), h.create.dir);
  uint32_t caller = (k.primary + 1 + round % 3) % 4;
  uint64_t dir = h.create.dir, id = h.create.id = fs_ns_id(world.ns[k.primary]), other = fs_ns_id(world.ns[caller]);
  for (unsigned i = 0; i < 2; i++, h.create.id = other) {
    call_start(&c, k.primary, h, i ? "new" : "x", "");
    call_wait(&c);
  }
  sim_settle();
  h = (struct fs_names_call){.op = FS_NAMES_REMOVE, .remove = {.dir = dir, .call = fs_ns_id(world.ns[caller])}};
  if (rename) h = (struct fs_names_call){.op = FS_NAMES_RENAME, .rename = {dir, dir, h.remove.call}};
  call_start(&c, caller, h, rename ? "new" : "x", rename ? "x" : "");
  for (unsigned step = 0; step < round % 40; step++) {
    sim_step();
    bool dropped = world.dropped[k.primary][id & 0xffff];
    bool known = !fs_names_find_id(world.ns[k.backup]->names, dir, id);
    if (rename) assert_true(known || !dropped);
  }
  bool dies = round % 80 >= 40;
  if (dies) sim_kill(k.primary);
  call_wait(&c);
  assert_int_equal(c.err, 0);
  if (!dies && !rename) assert_true(c.n == 0 && world.dropped[k.primary][id & 0xffff]);
  sim_settle();
  sim_check_backups();
  call_start(&c, caller, (struct fs_names_call){.op = FS_NAMES_LOOKUP, .lookup.dir = dir}, "x", "");
  call_wait(&c);
  assert_true(rename ? c.err == 0 && call_record(&c)->id == other : c.err == -ENOENT);
}
static void test_removed_at_home(void **state) {
  (void)state;
  for (unsigned round = 0; round < 480; round = next_round(round)) removed_at_home(round, round >= 240);
}

/* Returns how many DROPs are on their way between the living. */
static unsigned drops_under_way(void) {
  unsigned n = 0;
  for (uint32_t from = 0; from < world.ranks; from++) {
    for (uint32_t to = 0; to < world.ranks; to++) {
      for (const struct packet *p = world.first[from][to]; p; p = p->next)
        n += !p->head.answer && ((const struct fs_names_call *)p->body)->op == FS_NAMES_DROP;
    }
  }
  return n;
}

/* The backup has the bytes of a file that the primary, a third rank or the backup itself removes. It drops them when
 * it hears of the removal, and nobody tells it once more. */
static void removed_at_backup(unsigned round) {
  static struct call c;
  random_seed(round);
  sim_start(4);
  struct fs_names_call h = {.op = FS_NAMES_CREATE, .create = {.dir = FS_DATASET_DIR(0, round), .mode = S_IFREG | 0644}};
  struct fs_keepers k = fs_members_keepers(fs_ns_members(world.ns[0]), h.create.dir);
  uint32_t caller = round % 4;
  uint64_t dir = h.create.dir, id = h.create.id = fs_ns_id(world.ns[k.backup]);
  call_start(&c, k.backup, h, "x", "");
  call_wait(&c);
  sim_settle();
  h = (struct fs_names_call){.op = FS_NAMES_REMOVE, .remove = {.dir = dir, .call = fs_ns_id(world.ns[caller])}};
  call_start(&c, caller, h, "x", "");
  bool dies = round % 120 >= 60 && caller != k.primary && caller != k.backup;
  for (unsigned step = 0; step < round % 30; step++) {
    sim_step();
    bool gone = !fs_names_find_id(world.ns[k.backup]->names, dir, id);
    assert_int_equal(world.dropped[k.backup][id & 0xffff], gone);
    assert_int_equal(drops_under_way(), 0);
  }
  if (dies) sim_kill(round % 2 ? k.primary : k.backup);
  call_wait(&c);
  assert_int_equal(c.err, 0);
  if (!dies) assert_true(world.dropped[k.backup][id & 0xffff]);
  if (!dies) assert_int_equal(c.n, caller == k.backup ? sizeof(id) : 0);
  sim_settle();
  sim_check_backups();
  assert_true(world.dead[k.backup] || world.dropped[k.backup][id & 0xffff]);
  call_start(&c, caller, (struct fs_names_call){.op = FS_NAMES_LOOKUP, .lookup.dir = dir}, "x", "");
  call_wait(&c);
  assert_int_equal(c.err, -ENOENT);
}
static void test_removed_at_backup(void **state) {
  (void)state;
  for (unsigned round = 0; round < 480; round = next_round(round)) removed_at_backup(round);
}

/* A home whose disk hangs does not keep the caller waiting for longer than some deadlines. */
static void test_unlinks_that_hang(void **state) {
  (void)state;
  static struct call c;
  for (unsigned round = 0; round < 16; round++) {
    random_seed(round);
    sim_start(4);
    world.hangs = true;
    uint32_t home = round % 4, caller = round / 4;
    struct fs_names_call h = call_create(home, FS_DATASET_DIR(0, 1), S_IFREG | 0644);
    uint64_t dir = h.create.dir, id = h.create.id;
    call_start(&c, home, h, "x", "");
    call_wait(&c);
    sim_settle();
    uint64_t begin = world.now;
    h = (struct fs_names_call){.op = FS_NAMES_REMOVE, .remove = {.dir = dir, .call = fs_ns_id(world.ns[caller])}};
    call_start(&c, caller, h, "x", "");
    call_wait(&c);
    assert_int_equal(c.err, 0);
    assert_true(world.now - begin < 2 * DEADLINE);
    sim_settle();
    sim_check_backups();
    assert_true(world.dropped[home][id & 0xffff]);
    assert_int_equal(fs_ns_members(world.ns[0])->count, 4);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_removals_of_a_primary_that_dies),
      cmocka_unit_test(test_removed_at_home),
      cmocka_unit_test(test_removed_at_backup),
      cmocka_unit_test(test_unlinks_that_hang),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
