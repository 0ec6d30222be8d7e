/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An evicted rank that goes on with a rename that it began, in the simulation of ns_fixture.h. The new primary may be
 * making the same rename then: the evicted one must not end its locks.
 */
#include "ns_fixture.h"

#define DIR FS_DATASET_DIR(0, 1)
#define OTHER FS_DATASET_DIR(0, 2)
#define THE_CALL FS_OUTPUT_ID_MAKE(0, 1000) /* which both make */

static struct call call, late;
static uint32_t primary, evicted, member;

static fs_err ask(struct fs_names_call h, const char *name) {
  call_start(&call, member, h, name, "");
  call_wait(&call);
  return call.err;
}

static void steps(uint64_t ns) {
  for (uint64_t end = world.now + ns; world.now < end;) sim_step();
}

/* Cuts one rank off until it is evicted, and lets it know. It is none of the directory's keepers. */
static void begin(uint64_t dir) {
  random_seed(0);
  sim_start(4);
  struct fs_keepers k = fs_members_keepers(fs_ns_members(world.ns[0]), dir);
  primary = k.primary;
  evicted = 0;
  while (evicted == k.primary || evicted == k.backup) evicted++;
  member = evicted + 1;
  while (member == k.primary || member == k.backup) member++;
  steps(2 * DEADLINE);
  for (uint32_t i = 0; i < 4; i++) world.cut[i][evicted] = world.cut[evicted][i] = i != evicted;
  while (fs_member(fs_ns_members(world.ns[primary]), evicted)) sim_step();
  for (uint32_t i = 0; i < 4; i++) world.cut[i][evicted] = world.cut[evicted][i] = false;
  while (fs_member(fs_ns_members(world.ns[evicted]), evicted)) sim_step();
  steps(DEADLINE);
}

/* What the evicted rank asks now has the members' set, and comes within the lock's time. */
static void ask_late(struct fs_names_call h) {
  call_start(&late, evicted, h, "", "");
  steps(DEADLINE / 2);
}

static void test_keep(void **state) {
  (void)state;
  begin(DIR);
  struct fs_names_call file = call_create(member, DIR, S_IFREG | 0644);
  assert_int_equal(ask(file, "f"), 0);
  struct fs_names_call take = {.op = FS_NAMES_TAKE, .take = {.dir = DIR, .to = OTHER, .call = THE_CALL}};
  assert_int_equal(ask(take, "f"), 0);
  struct fs_names_call keep = {
      .op = FS_NAMES_TAKEN, .flags = FS_TAKEN_KEEP, .taken = {.dir = DIR, .id = file.create.id, .call = THE_CALL}};
  ask_late(keep);
  assert_non_null(fs_lock_find(world.ns[primary], DIR, file.create.id));
  assert_int_equal(ask(keep, ""), 0); /* that of the new primary ends it */
  assert_null(fs_lock_find(world.ns[primary], DIR, file.create.id));
  sim_settle();
  sim_check_backups();
}

static void test_unshut(void **state) {
  (void)state;
  uint64_t dir = FS_OUTPUT_ID_MAKE(0, 2000);
  begin(dir);
  struct fs_names_call file = call_create(member, dir, S_IFREG | 0644);
  assert_int_equal(ask((struct fs_names_call){.op = FS_NAMES_SHUT, .shut.dir = dir}, ""), 0);
  struct fs_names_call unshut = {.op = FS_NAMES_UNSHUT, .unshut.dir = dir};
  ask_late(unshut);
  assert_int_equal(ask(file, "f"), -ENOENT);
  assert_int_equal(ask(unshut, ""), 0);
  assert_int_equal(ask(file, "f"), 0);
  sim_settle();
  sim_check_backups();
}

/* A directory that nobody removes stays open, and a name that nobody renames is not locked. */
static void test_begin(void **state) {
  (void)state;
  begin(DIR);
  struct fs_names_call file = call_create(member, DIR, S_IFREG | 0644), other = call_create(member, OTHER, S_IFREG);
  assert_int_equal(ask(file, "f"), 0);
  ask_late((struct fs_names_call){.op = FS_NAMES_SHUT, .shut.dir = OTHER});
  assert_int_equal(ask(other, "f"), 0);
  struct fs_names_call take = {.op = FS_NAMES_TAKE, .take = {.dir = DIR, .to = OTHER, .call = THE_CALL}};
  static struct call taking;
  call_start(&taking, evicted, take, "f", "");
  steps(DEADLINE / 2);
  assert_null(fs_lock_find(world.ns[primary], DIR, file.create.id));
  call_wait(&late); /* it has a deadline */
  call_wait(&taking);
  assert_true(late.err == -ETIMEDOUT && taking.err == -ETIMEDOUT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_keep),
      cmocka_unit_test(test_unshut),
      cmocka_unit_test(test_begin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
