/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When names in a directory were changed last, in the simulation of ns_fixture.h: what counts as a change, what all
 * ranks are told, and what the next primary knows of it.
 */
#include "ns_fixture.h"

#define DIR FS_DATASET_DIR(0, 1)
#define OTHER FS_DATASET_DIR(0, 2)

static struct call call;

static fs_err ask(uint32_t rank, struct fs_names_call h, const char *name, const char *name2) {
  call_start(&call, rank, h, name, name2);
  call_wait(&call);
  return call.err;
}

static uint64_t subdirs; /* as told last */

/* All ranks are told the same. */
static uint64_t changed(uint64_t dir) {
  uint64_t at = 0;
  struct fs_dir_times told;
  for (uint32_t i = 0; i < world.ranks; i++) {
    if (world.dead[i]) continue;
    assert_int_equal(ask(i, (struct fs_names_call){.op = FS_NAMES_TIMES, .times.dir = dir}, "", ""), 0);
    assert_int_equal(call.n, sizeof(told));
    memcpy(&told, call.body, sizeof(told));
    if (at != 0) assert_true(told.changed == at && told.subdirs == subdirs);
    at = told.changed;
    subdirs = told.subdirs;
  }
  return at;
}

static uint64_t subdirs_of(uint64_t dir) {
  (void)changed(dir);
  return subdirs;
}

static struct { uint64_t dir, other; /* as seen last */ } seen;

/* Whether the two have changed since. */
static void expect(bool dir, bool other) {
  uint64_t now = changed(DIR), other_now = changed(OTHER);
  assert_true(dir ? now > seen.dir : now == seen.dir);
  assert_true(other ? other_now > seen.other : other_now == seen.other);
  seen.dir = now;
  seen.other = other_now;
}

static struct fs_names_call create(uint32_t rank, uint32_t mode) {
  return (struct fs_names_call){.op = FS_NAMES_CREATE,
                                .create = {.dir = DIR, .id = fs_ns_id(world.ns[rank]), .mode = mode}};
}

static struct fs_names_call move(uint32_t rank) {
  return (struct fs_names_call){.op = FS_NAMES_RENAME,
                                .rename = {.dir = DIR, .to = OTHER, .call = fs_ns_id(world.ns[rank])}};
}

static struct fs_names_call removal(uint32_t rank, uint32_t flags) {
  return (struct fs_names_call){
      .op = FS_NAMES_REMOVE, .flags = flags, .remove = {.dir = DIR, .call = fs_ns_id(world.ns[rank])}};
}

static void begin(uint32_t ranks) {
  random_seed(ranks);
  sim_start(ranks);
  seen.dir = seen.other = 0;
}

static void test_what_changes_it(void **state) {
  (void)state;
  for (uint32_t ranks = 1; ranks <= RANKS; ranks++) {
    uint32_t last = ranks - 1;
    begin(ranks);
    expect(false, false);
    struct fs_names_call file = create(0, S_IFREG | 0644), dir = create(last, S_IFDIR | 0755);
    assert_int_equal(ask(0, file, "f", ""), 0);
    expect(true, false);
    assert_int_equal(ask(last, create(last, S_IFREG | 0644), "f", ""), -EEXIST);
    assert_int_equal(ask(0, file, "f", ""), 0); /* made again */
    expect(false, false);
    struct fs_names_call p = {.op = FS_NAMES_PUBLISH,
                              .publish = {.dir = DIR, .id = file.create.id, .mode = file.create.mode, .number = 1}};
    assert_int_equal(ask(0, p, "", ""), 0);
    expect(false, false); /* the name was there before */
    p.publish.number = 2;
    assert_int_equal(ask(0, p, "", ""), 0);
    expect(false, false);
    assert_int_equal(subdirs_of(DIR), 0);
    assert_int_equal(ask(last, dir, "d", ""), 0);
    expect(true, false);
    assert_int_equal(subdirs_of(DIR), 1);
    assert_int_equal(ask(0, create(0, S_IFLNK | 0777), "l", "target"), 0);
    expect(true, false);
    struct fs_names_call set = {
        .op = FS_NAMES_SETATTR, .flags = FS_SET_MODE, .setattr = {.dir = DIR, .id = dir.create.id, .mode = S_IFDIR}};
    set.setattr.call = fs_ns_id(world.ns[0]);
    assert_int_equal(ask(0, set, "", ""), 0);
    expect(false, false);
    struct fs_names_call within = move(0);
    within.rename.to = DIR;
    assert_int_equal(ask(0, within, "l", "m"), 0);
    expect(true, false);
    assert_int_equal(ask(last, move(last), "f", "f"), 0);
    expect(true, true);
    assert_int_equal(ask(last, removal(last, 0), "m", ""), 0);
    expect(true, false);
    assert_int_equal(ask(0, move(0), "d", "e"), 0);
    expect(true, true);
    assert_true(subdirs_of(DIR) == 0 && subdirs_of(OTHER) == 1);
    struct fs_names_call back = move(last);
    back.rename.dir = OTHER;
    back.rename.to = DIR;
    assert_int_equal(ask(last, back, "e", "d"), 0);
    expect(true, true);
    assert_true(subdirs_of(DIR) == 1 && subdirs_of(OTHER) == 0);
    assert_int_equal(ask(0, removal(0, FS_REMOVE_DIRECTORY), "d", ""), 0);
    expect(true, false);
    assert_int_equal(subdirs_of(DIR), 0);
    assert_int_equal(ask(0, removal(0, 0), "d", ""), -ENOENT);
    expect(false, false);
    sim_settle();
    sim_check_backups();
  }
}

/* A directory of --stage-in's is as it was, until the job changes it. */
static void test_staged(void **state) {
  (void)state;
  begin(3);
  struct fs_names_call h = create(0, S_IFREG | 0644);
  h.flags = FS_CREATE_STAGED_IN;
  assert_int_equal(ask(0, h, "f", ""), 0);
  expect(false, false);
  assert_int_equal(ask(1, removal(1, 0), "f", ""), 0);
  expect(true, false);
}

/* Two changes are never told apart by less than a double can show. */
static void test_never_the_same(void **state) {
  (void)state;
  begin(2);
  for (unsigned i = 0; i < 200; i++) {
    char name[16];
    uint64_t before = seen.dir;
    snprintf(name, sizeof(name), "%u", i);
    assert_int_equal(ask(i % 2, create(i % 2, S_IFREG | 0644), name, ""), 0);
    expect(true, false);
    assert_true((double)seen.dir / 1e9 > (double)before / 1e9);
  }
}

/* Set times hold until the next change. */
static void test_set(void **state) {
  (void)state;
  for (uint32_t ranks = 1; ranks <= RANKS; ranks++) {
    begin(ranks);
    struct fs_names_call dir = create(0, S_IFDIR | 0755), inside = create(0, S_IFREG | 0644);
    assert_int_equal(ask(0, dir, "d", ""), 0);
    inside.create.dir = dir.create.id;
    assert_int_equal(ask(0, inside, "f", ""), 0);
    uint64_t at = changed(dir.create.id);
    struct fs_names_call set = {.op = FS_NAMES_SETATTR,
                                .flags = FS_SET_TIMES,
                                .setattr = {.dir = DIR,
                                            .id = dir.create.id,
                                            .call = fs_ns_id(world.ns[0]),
                                            .mode = S_IFDIR,
                                            .mtime = 5,
                                            .mtime_ns = 6,
                                            .changed = at}};
    assert_int_equal(ask(0, set, "", ""), 0);
    for (unsigned again = 0; again < 2; again++) {
      assert_int_equal(ask(ranks - 1, (struct fs_names_call){.op = FS_NAMES_LOOKUP, .lookup.dir = DIR}, "d", ""), 0);
      struct fs_record r = *call_record(&call);
      at = changed(dir.create.id);
      bool both = fs_members_keepers(fs_ns_members(world.ns[0]), DIR).primary ==
                  fs_members_keepers(fs_ns_members(world.ns[0]), dir.create.id).primary;
      assert_int_equal((r.flags & FS_RECORD_TIMED) != 0, both);
      fs_record_changed(&r, at);
      int64_t ns = r.mtime * 1000000000 + r.mtime_ns, ctime = r.ctime * 1000000000 + r.ctime_ns;
      assert_true(again ? ns == (int64_t)at : ns == 5000000006);
      assert_true(ctime >= (int64_t)at);
      inside.create.id = fs_ns_id(world.ns[0]);
      if (!again) assert_int_equal(ask(0, inside, "g", ""), 0);
    }
    assert_int_equal(ask(0,
                         (struct fs_names_call){
                             .op = FS_NAMES_REMOVE, .flags = FS_REMOVE_DIRECTORY, .remove = {.dir = DIR, .call = 1}},
                         "d", ""),
                     -ENOTEMPTY);
    sim_settle();
    sim_check_backups();
  }
}

/* Also of a directory that is empty again. */
static void test_primarys_that_die(void **state) {
  (void)state;
  for (unsigned round = 0; round < 20; round++) {
    begin(4);
    random_seed(round);
    bool empty = round % 2 != 0;
    assert_int_equal(ask(0, create(0, S_IFREG | 0644), "f", ""), 0);
    if (!empty) assert_int_equal(ask(0, create(0, S_IFDIR | 0755), "d", ""), 0);
    if (empty) assert_int_equal(ask(0, removal(0, 0), "f", ""), 0);
    expect(true, false);
    for (unsigned deaths = 0; deaths < 2; deaths++) {
      uint32_t alive = 0;
      while (world.dead[alive]) alive++;
      uint32_t primary = fs_members_keepers(fs_ns_members(world.ns[alive]), DIR).primary;
      sim_kill(primary);
      sim_settle();
      expect(false, false);
      assert_int_equal(subdirs_of(DIR), empty ? 0 : 1);
      sim_check_backups();
    }
    uint32_t alive = 0;
    while (world.dead[alive]) alive++;
    assert_int_equal(ask(alive, create(alive, S_IFREG | 0644), "g", ""), 0);
    expect(true, false);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_changes_it),   cmocka_unit_test(test_staged),
      cmocka_unit_test(test_never_the_same),    cmocka_unit_test(test_set),
      cmocka_unit_test(test_primarys_that_die),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
