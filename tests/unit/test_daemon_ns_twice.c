/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records that are in two directories, as a rename has not ended at the old one, in the simulation of ns_fixture.h. One
 * of the two must stay.
 */
#include "ns_fixture.h"

static fs_err ask(uint32_t rank, struct fs_names_call h, const char *name, const char *name2) {
  static struct call c;
  call_start(&c, rank, h, name, name2);
  call_wait(&c);
  return c.err;
}

static fs_err look(uint64_t dir, const char *name) {
  return ask(3, (struct fs_names_call){.op = FS_NAMES_LOOKUP, .lookup.dir = dir}, name, "");
}

/* A record is in two directories while a rename ends. Another one that takes it back must drop the older of the two:
 * not what it took if the one at its end is locked, and what it took if not. */
static void test_renamed_back(void **state) {
  (void)state;
  for (unsigned locked = 0; locked < 2; locked++) {
    random_seed(0);
    sim_start(4);
    struct fs_names_call there = call_create(0, FS_DATASET_DIR(0, 1), S_IFREG | 0644), here = there;
    here.create.dir = FS_DATASET_DIR(0, 2);
    struct fs_names_call take = {
        .op = FS_NAMES_TAKE, .take = {.dir = there.create.dir, .to = here.create.dir, .call = fs_ns_id(world.ns[1])}};
    struct fs_names_call back = {
        .op = FS_NAMES_RENAME,
        .rename = {.dir = here.create.dir, .to = there.create.dir, .call = fs_ns_id(world.ns[2])}};
    assert_int_equal(ask(0, there, "f", ""), 0);
    if (locked) assert_int_equal(ask(1, take, "f", ""), 0);
    assert_int_equal(ask(0, here, "f", ""), 0);
    assert_int_equal(ask(2, back, "f", "g"), locked ? 0 : -ENOENT); /* the call was repeated after EAGAIN */
    assert_int_equal(look(there.create.dir, locked ? "g" : "f"), 0);
    assert_int_equal(look(here.create.dir, "f"), -ENOENT);
  }
}

/* The record is locked in both directories: the rename has not ended at the old one, and one that would take the record
 * back was never made. The later lock's time is over first. */
static void test_locked_twice(void **state) {
  (void)state;
  random_seed(0);
  sim_start(4);
  struct fs_names_call old = call_create(0, FS_DATASET_DIR(0, 1), S_IFREG | 0644), new = old;
  new.create.dir = FS_DATASET_DIR(0, 2);
  struct fs_names_call back = {.op = FS_NAMES_TAKE,
                               .take = {.dir = new.create.dir, .to = old.create.dir, .call = fs_ns_id(world.ns[1])}};
  struct fs_names_call calls[] = {old, new, back, back};
  calls[3].take = (struct fs_call_take){old.create.dir, new.create.dir, new.create.id}; /* a call that was made */
  for (unsigned i = 0; i < FS_ARRAY_LEN(calls); i++) assert_int_equal(ask(0, calls[i], "f", ""), 0);
  for (uint64_t end = world.now + 10 * DEADLINE; world.now < end;) sim_step();
  assert_int_equal(look(old.create.dir, "f"), -ENOENT);
  assert_int_equal(look(new.create.dir, "f"), 0);
  sim_settle();
  sim_check_backups();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_renamed_back),
      cmocka_unit_test(test_locked_twice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
