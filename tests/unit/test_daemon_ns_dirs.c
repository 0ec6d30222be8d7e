/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Directories of outputs that are renamed to other parents, many at once, in the simulation of ns_fixture.h: none ends
 * up below itself, none is lost, and each is in one place, whoever dies meanwhile.
 */
#include "ns_fixture.h"

#define DIRS 12u
#define AT_ONCE 6u

static uint64_t dir_id[DIRS + 2];
static unsigned dirs;

static struct fs_names_call make_call(uint64_t dir, uint64_t id) {
  return (struct fs_names_call){.op = FS_NAMES_CREATE, .create = {.dir = dir, .id = id, .mode = S_IFDIR | 0755}};
}

static uint64_t make_dir(uint64_t dir, const char *name) {
  static struct call c;
  uint32_t rank = random_below(world.ranks);
  uint64_t id = dir_id[dirs++] = fs_ns_id(world.ns[rank]);
  call_start(&c, rank, make_call(dir, id), name, "");
  call_wait(&c);
  assert_int_equal(c.err, 0);
  return id;
}

static void make_dirs(void) {
  dirs = 0;
  for (unsigned i = 0; i < DIRS; i++) {
    char name[16];
    snprintf(name, sizeof(name), "d%u", i);
    make_dir(FS_DATASET_DIR(0, i % 3), name);
  }
}

/* Where a directory is, asked of a living rank. */
static uint64_t parent_of(uint32_t rank, uint64_t id) {
  static struct call c;
  c.done = false;
  c.n = 0;
  fs_ns_find(world.ns[rank], world.now, id, 0, call_done, &c);
  call_wait(&c);
  assert_int_equal(c.err, 0);
  assert_true(call_record(&c)->id == id);
  return call_record(&c)->dir;
}

static void check_dirs(uint32_t rank) {
  unsigned places = 0;
  sim_settle();
  sim_check_backups();
  for (unsigned i = 0; i < dirs; i++) {
    unsigned depth = 0;
    for (uint64_t at = dir_id[i]; at & FS_OUTPUT_ID; at = parent_of(rank, at)) assert_true(depth++ < dirs);
  }
  for (unsigned k = 0; k < dirs + 3; k++) {
    uint64_t dir = k < dirs ? dir_id[k] : FS_DATASET_DIR(0, k - dirs);
    uint32_t primary = fs_members_keepers(fs_ns_members(world.ns[rank]), dir).primary;
    for (unsigned i = 0; i < dirs; i++) places += fs_names_find_id(world.ns[primary]->names, dir, dir_id[i]) != NULL;
  }
  assert_int_equal(places, dirs);
}

static unsigned done, refused, changes;

/* Each name stays its directory's, so that none stands in another's way. */
static void storm(unsigned round, bool death, unsigned loss) {
  static struct call c[AT_ONCE];
  bool active[AT_ONCE] = {false};
  uint64_t at[DIRS];
  random_seed(round);
  sim_start(2 + round % (RANKS - 1));
  make_dirs();
  for (unsigned i = 0; i < DIRS; i++) at[i] = FS_DATASET_DIR(0, i % 3);
  unsigned busy[AT_ONCE], calls = 0;
  uint64_t to[AT_ONCE];
  uint32_t victim = random_below(world.ranks);
  world.loss = loss;
  for (unsigned step = 0; step < 6000 || calls > 0; step++) {
    sim_step();
    assert_true(step < 1000000);
    if (death && step == 2000 + random_below(100)) sim_kill(victim);
    for (unsigned i = 0; i < AT_ONCE; i++) {
      if (active[i] && c[i].done) {
        active[i] = false;
        calls--;
        if (c[i].err == 0) at[busy[i]] = to[i], done++;
        if (c[i].err == -EINVAL) refused++;
        assert_true(c[i].err == 0 || c[i].err == -EINVAL || c[i].err == -ETIMEDOUT);
        if (loss == 0) assert_true(c[i].err != -ETIMEDOUT);
      }
      if (active[i] || step >= 6000 || random_below(20) != 0) continue;
      unsigned d = random_below(DIRS), k = random_below(DIRS + 1);
      bool used = false;
      for (unsigned j = 0; j < AT_ONCE; j++) used = used || (active[j] && busy[j] == d);
      to[i] = k < DIRS ? dir_id[k] : FS_DATASET_DIR(0, random_below(3));
      if (used || to[i] == at[d] || (c[i].done && c[i].err == -ETIMEDOUT)) continue;
      uint32_t rank;
      do rank = random_below(world.ranks);
      while (world.dead[rank] || (death && rank == victim));
      char name[16];
      snprintf(name, sizeof(name), "d%u", d);
      struct fs_names_call h = {.op = FS_NAMES_RENAME,
                                .rename = {.dir = at[d], .to = to[i], .call = fs_ns_id(world.ns[rank])}};
      busy[i] = d;
      active[i] = true;
      calls++;
      call_start(&c[i], rank, h, name, name);
    }
  }
  changes += world.changes;
  world.loss = 0;
  uint32_t rank = 0;
  while (world.dead[rank]) rank++;
  check_dirs(rank);
}

static unsigned times = 1;

static void test_storm(void **state) {
  (void)state;
  done = refused = 0;
  for (unsigned round = 0; round < 40 * times; round++) storm(round, false, 0);
  assert_true(done > 2000 && refused > 500);
}
static void test_storm_with_a_death(void **state) {
  (void)state;
  changes = 0;
  for (unsigned round = 0; round < 60 * times; round++) storm(round, true, 0);
  assert_true(changes > 50);
}
static void test_storm_with_losses(void **state) {
  (void)state;
  for (unsigned round = 0; round < 20 * times; round++) storm(round, false, 400);
}

/* Two nodes put each of two directories below the other: one succeeds, and the other hears why not. */
static void test_two_into_each_other(void **state) {
  (void)state;
  static struct call c[2];
  unsigned first = 0;
  for (unsigned round = 0; round < 300 * times; round++) {
    random_seed(round);
    sim_start(2 + round % (RANKS - 1));
    make_dirs();
    uint64_t inner[2] = {make_dir(dir_id[0], "x"), make_dir(dir_id[1], "x")};
    unsigned wait = random_below(200);
    for (unsigned i = 0; i < 2; i++) {
      struct fs_names_call h = {
          .op = FS_NAMES_RENAME,
          .rename = {.dir = FS_DATASET_DIR(0, i), .to = inner[1 - i], .call = fs_ns_id(world.ns[1 - i])}};
      call_start(&c[i], 1 - i, h, i ? "d1" : "d0", "y");
      for (unsigned step = 0; step < wait; step++) sim_step();
    }
    call_wait(&c[0]);
    call_wait(&c[1]);
    assert_int_equal(c[0].err + c[1].err, -EINVAL);
    first += c[0].err == 0;
    check_dirs(0);
  }
  assert_true(first > 10 * times && first < 290 * times);
}

/* An empty directory in the place is replaced, one that is not stays; nothing goes below itself. */
static void test_what_is_in_the_way(void **state) {
  (void)state;
  static struct call c;
  random_seed(0);
  sim_start(3);
  make_dirs();
  uint64_t a = FS_DATASET_DIR(0, 0), t = make_dir(dir_id[1], "t");
  make_dir(t, "in");
  struct fs_names_call h = {.op = FS_NAMES_RENAME,
                            .rename = {.dir = a, .to = dir_id[1], .call = fs_ns_id(world.ns[2])}};
  call_start(&c, 2, h, "d0", "t");
  call_wait(&c);
  assert_int_equal(c.err, -ENOTEMPTY);
  struct fs_names_call rm = {
      .op = FS_NAMES_REMOVE, .flags = FS_REMOVE_DIRECTORY, .remove = {.dir = t, .call = fs_ns_id(world.ns[0])}};
  call_start(&c, 0, rm, "in", "");
  call_wait(&c);
  assert_int_equal(c.err, 0);
  h.rename.call = fs_ns_id(world.ns[2]);
  h.flags = FS_RENAME_NOREPLACE;
  call_start(&c, 2, h, "d0", "t");
  call_wait(&c);
  assert_int_equal(c.err, -EEXIST);
  h.rename.call = fs_ns_id(world.ns[2]);
  h.flags = 0;
  unsigned trees = world.tree[0];
  call_start(&c, 2, h, "d0", "t");
  call_wait(&c);
  assert_int_equal(c.err, 0);
  dirs -= 2;                                                                     /* t and what was in it are gone */
  for (uint32_t i = 0; i < 3; i++) assert_true(world.tree[i] > (i ? 0 : trees)); /* before the caller hears */
  assert_true(parent_of(0, dir_id[0]) == dir_id[1]);
  h = (struct fs_names_call){.op = FS_NAMES_RENAME,
                             .rename = {.dir = FS_DATASET_DIR(0, 1), .to = dir_id[0], .call = fs_ns_id(world.ns[2])}};
  call_start(&c, 2, h, "d1", "u"); /* d1 into d1/t */
  call_wait(&c);
  assert_int_equal(c.err, -EINVAL);
  h.rename.to = dir_id[1];
  h.rename.call = fs_ns_id(world.ns[2]);
  call_start(&c, 2, h, "d1", "u"); /* into itself */
  call_wait(&c);
  assert_int_equal(c.err, -EINVAL);
  check_dirs(0);
}

/* What its primary may do with a directory all members hear of before the caller does; other bits concern nobody. */
static void test_permissions(void **state) {
  (void)state;
  static struct call c;
  static const uint32_t modes[] = {0555, 0500, 0577, 0755};
  random_seed(0);
  sim_start(3);
  make_dirs();
  for (unsigned i = 0; i < FS_ARRAY_LEN(modes); i++) {
    unsigned before[3] = {world.tree[0], world.tree[1], world.tree[2]};
    struct fs_names_call h = {.op = FS_NAMES_SETATTR, .flags = FS_SET_MODE, .setattr.mode = S_IFDIR | modes[i]};
    h.setattr.dir = FS_DATASET_DIR(0, 0);
    h.setattr.id = dir_id[0];
    h.setattr.call = fs_ns_id(world.ns[1]);
    call_start(&c, 1, h, "", "");
    call_wait(&c);
    assert_int_equal(c.err, 0);
    bool changed = i == 0 || i == 3;
    for (uint32_t k = 0; k < 3; k++) assert_int_equal(world.tree[k] > before[k], changed);
  }
  check_dirs(0);
}

static uint64_t kept_by(uint32_t primary, uint32_t backup) {
  struct fs_keepers k;
  uint32_t entry = 0;
  do k = fs_members_keepers(fs_ns_members(world.ns[0]), FS_DATASET_DIR(0, ++entry));
  while (k.primary != primary || k.backup != backup);
  return FS_DATASET_DIR(0, entry);
}

/* Of a keeper that has names enough nothing is made or brought; what is there is changed, moved away and removed. */
static void test_enough_names(void **state) {
  (void)state;
  static struct call c;
  struct fs_names_call make = {.op = FS_NAMES_CREATE, .create.mode = S_IFLNK | 0777}, move = {.op = FS_NAMES_RENAME};
  char name[32];
  random_seed(0);
  sim_start(3);
  uint64_t full = kept_by(1, 2), to = kept_by(2, 0), n = 0;
  make.create.dir = full;
  fs_ns_limit(world.ns[1], 20000);
  for (c.err = 0; c.err == 0 && n < 1000; n++) {
    snprintf(name, sizeof(name), "n%03u", (unsigned)n);
    make.create.id = fs_ns_id(world.ns[0]);
    call_start(&c, 0, make, name, "target");
    call_wait(&c);
  }
  assert_int_equal(c.err, -ENOSPC);
  assert_true(n > 50 && n < 200 && fs_ns_full(world.ns[1]) && !fs_ns_full(world.ns[0]));
  make.create.dir = to;
  make.create.id = fs_ns_id(world.ns[0]);
  call_start(&c, 0, make, "elsewhere", "target");
  call_wait(&c);
  assert_int_equal(c.err, 0);
  const struct {
    uint64_t from, to;
    const char *name, *name2;
    fs_err err;
  } moves[] = {{to, 0, "elsewhere", "here", -ENOSPC},
               {0, 0, "n000", "m000", 0},
               {0, to, "m000", "there", 0},
               {to, 0, "elsewhere", "here", 0}};
  for (size_t i = 0; i < FS_ARRAY_LEN(moves); i++) {
    move.rename.call = fs_ns_id(world.ns[2]);
    move.rename.dir = moves[i].from ? moves[i].from : full;
    move.rename.to = moves[i].to ? moves[i].to : full;
    call_start(&c, 2, move, moves[i].name, moves[i].name2);
    call_wait(&c);
    assert_int_equal(c.err, moves[i].err);
  }
  sim_settle();
  sim_check_backups();
}

int main(int argc, char **argv) {
  if (argc > 1) times = (unsigned)strtoul(argv[1], NULL, 10);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_in_the_way),  cmocka_unit_test(test_permissions),
      cmocka_unit_test(test_two_into_each_other), cmocka_unit_test(test_storm),
      cmocka_unit_test(test_storm_with_a_death),  cmocka_unit_test(test_storm_with_losses),
      cmocka_unit_test(test_enough_names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
