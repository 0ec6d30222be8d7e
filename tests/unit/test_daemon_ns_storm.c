/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of output files over several ranks, in a simulation (ns_fixture.h): many calls at once, of which one may win.
 */
#include "ns_fixture.h"

/* As many times as many rounds: the program's argument. */
static unsigned times = 1;

static const char *some_name(void) {
  static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
  return names[random_below(FS_ARRAY_LEN(names))];
}

#define AT_ONCE 64u

/* Every name is made by many at once: one succeeds, and all others hear of that one. */
static void test_one_wins(void **state) {
  (void)state;
  static struct call c[AT_ONCE];
  uint64_t id[AT_ONCE];
  random_seed(0);
  sim_start(RANKS);
  for (unsigned round = 0; round < 100; round++) {
    char name[16];
    snprintf(name, sizeof(name), "n%u", round);
    for (unsigned i = 0; i < AT_ONCE; i++) {
      uint32_t rank = random_below(RANKS);
      id[i] = fs_ns_id(world.ns[rank]);
      struct fs_names_call h = {.op = FS_NAMES_CREATE,
                                .create = {.dir = FS_DATASET_DIR(0, round % 7), .id = id[i], .mode = S_IFREG | 0600}};
      call_start(&c[i], rank, h, name, "");
    }
    uint64_t winner = 0;
    for (unsigned i = 0; i < AT_ONCE; i++) {
      call_wait(&c[i]);
      if (c[i].err != 0) continue;
      assert_true(winner == 0);
      winner = id[i];
    }
    assert_true(winner != 0);
    for (unsigned i = 0; i < AT_ONCE; i++) {
      assert_true(c[i].err == 0 || c[i].err == -EEXIST);
      assert_true(call_record(&c[i])->id == winner);
    }
  }
  sim_settle();
  sim_check_backups();
}

/* Any rank, and of two a neighbour. */
static bool is_victim(uint32_t rank, uint32_t first, uint32_t deaths) {
  return (rank + world.ranks - first) % world.ranks < deaths;
}

/* Whatever many do at once, in the end each record is in one place, and none has vanished that nobody removed; unless
   two ranks die at once, which may be those that keep a directory. */
static void storm(uint32_t ranks, uint32_t deaths) {
  static struct call c[AT_ONCE];
  static uint64_t made[2000];
  unsigned count = 0, removed = 0, seen = 0, calls = 0;
  bool active[AT_ONCE] = {false}, removes[AT_ONCE] = {false}, creates[AT_ONCE] = {false};
  uint64_t id[AT_ONCE] = {0};
  sim_start(ranks);
  uint32_t first = random_below(ranks);
  for (unsigned step = 0; step < 40000 || calls > 0; step++) {
    sim_step();
    for (uint32_t i = 0; step == 10000 && i < deaths; i++) sim_kill((first + i) % ranks);
    if (step % 4 != 0) continue;
    unsigned i = random_below(AT_ONCE);
    if (active[i] && !c[i].done) continue;
    if (active[i]) {
      calls--;
      active[i] = false;
      if (creates[i] && c[i].err == 0) made[count++] = id[i];
      if (removes[i] && c[i].err == 0) removed++;
      assert_true(c[i].err != -ETIMEDOUT || deaths > 1);
    }
    if (step >= 40000 || count >= FS_ARRAY_LEN(made) - AT_ONCE) continue;
    uint32_t rank;
    do rank = random_below(ranks);
    while (is_victim(rank, first, deaths));
    unsigned what = random_below(3);
    uint64_t dir = FS_DATASET_DIR(0, random_below(4)), to = FS_DATASET_DIR(0, random_below(4));
    id[i] = fs_ns_id(world.ns[rank]);
    struct fs_names_call create = {.op = FS_NAMES_CREATE, .create = {.dir = dir, .id = id[i], .mode = S_IFLNK | 0777}};
    struct fs_names_call removal = {.op = FS_NAMES_REMOVE, .remove = {.dir = dir, .call = id[i]}};
    struct fs_names_call move = {.op = FS_NAMES_RENAME, .rename = {.dir = dir, .to = to, .call = id[i]}};
    move.flags = FS_RENAME_NOREPLACE; /* so that only removals remove */
    struct fs_names_call h = what == 0 ? create : what == 1 ? removal : move;
    creates[i] = what == 0;
    removes[i] = what == 1;
    active[i] = true;
    calls++;
    call_start(&c[i], rank, h, some_name(), what == 0 ? "t" : what == 2 ? some_name() : "");
  }
  sim_settle();
  sim_check_backups();
  for (uint64_t e = 0; e < 4; e++) {
    uint64_t dir = FS_DATASET_DIR(0, e), seq = 0;
    const struct fs_record *r;
    uint32_t living = 0;
    while (world.dead[living]) living++;
    const struct fs_names *n = world.ns[fs_members_keepers(&world.ns[living]->members, dir).primary]->names;
    for (; (r = fs_names_after(n, dir, seq)) != NULL; seq = r->seq) {
      unsigned k = 0;
      while (k < count && made[k] != r->id) k++;
      assert_true(k < count || deaths > 1);
      if (k < count) made[k] = 0; /* seen once only */
      seen++;
    }
  }
  assert_true(count > 100);
  if (deaths < 2) assert_int_equal(seen, count - removed);
}

static void test_storm(void **state) {
  (void)state;
  for (unsigned round = 0; round < 20 * times; round++) {
    random_seed(round);
    storm(2 + round % (RANKS - 1), 0);
  }
}
static void test_storm_with_a_death(void **state) {
  (void)state;
  for (unsigned round = 0; round < 60 * times; round++) {
    random_seed(round);
    storm(2 + round % (RANKS - 1), 1);
  }
}
static void test_storm_with_two_deaths(void **state) {
  (void)state;
  for (unsigned round = 0; round < 30 * times; round++) {
    random_seed(round);
    storm(3 + round % (RANKS - 2), 2);
  }
}

#define DIRS 4u
#define NAMES 10u

/* Returns true if two ranks were evicted: lost messages do that, too, and both keepers of a directory may be gone. */
static bool two_evicted(uint32_t ranks) {
  for (uint32_t i = 0; i < ranks; i++)
    if (!world.dead[i] && world.ns[i]->members.count + 1 < ranks) return true;
  return false;
}

/* Names of a dataset that were taken stay so, whatever many do at once, also if a rank dies or messages are lost: each
   look-up finds a record. */
static void storm_of_taken_names(uint32_t ranks, uint32_t deaths, uint32_t loss) {
  static struct call c[AT_ONCE];
  static const char names[NAMES][2] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
  struct job {
    unsigned what, dir, name, to, name2;
    bool active, was_taken;
  } job[AT_ONCE] = {0};
  bool taken[DIRS][NAMES] = {{false}}; /* by a call that has returned */
  unsigned calls = 0, seen = 0;
  bool lost = false;
  sim_start(ranks);
  uint32_t first = random_below(ranks);
  world.loss = loss;
  for (unsigned step = 0; step < 40000 || calls > 0; step++) {
    sim_step();
    for (uint32_t i = 0; step == 10000 && i < deaths; i++) sim_kill((first + i) % ranks);
    if (step % 4 != 0) continue;
    lost = lost || two_evicted(ranks);
    unsigned i = random_below(AT_ONCE);
    struct job *j = &job[i];
    if (j->active && !c[i].done) continue;
    if (j->active) {
      calls--;
      j->active = false;
      bool *old = &taken[j->dir][j->name], *new = &taken[j->to][j->name2];
      if (j->what == 0) assert_true(c[i].err == 0 || c[i].err == -EEXIST);
      if (j->what == 3 && j->was_taken && !lost) {
        assert_int_equal(c[i].err, 0);
        seen++;
      }
      if (j->what < 2 && (c[i].err == 0 || c[i].err == -EEXIST)) *old = true;
      if (j->what == 2 && c[i].err == 0) *old = *new = true;
    }
    if (step >= 40000) continue;
    uint32_t rank;
    do rank = random_below(ranks);
    while (is_victim(rank, first, deaths));
    *j = (struct job){.what = random_below(4),
                      .dir = random_below(DIRS),
                      .name = random_below(NAMES),
                      .to = random_below(DIRS),
                      .name2 = random_below(NAMES),
                      .active = true};
    j->was_taken = taken[j->dir][j->name];
    uint64_t dir = FS_DATASET_DIR(0, j->dir), to = FS_DATASET_DIR(0, j->to), id = fs_ns_id(world.ns[rank]);
    const struct fs_names_call call[] = {
        {.op = FS_NAMES_CREATE,
         .flags = FS_CREATE_TAKES,
         .create = {.dir = dir, .id = id, .mode = random_below(2) ? S_IFREG | 0600 : S_IFDIR | 0700}},
        {.op = FS_NAMES_REMOVE,
         .flags = FS_REMOVE_TAKES | (random_below(2) ? FS_REMOVE_DIRECTORY : 0),
         .remove = {.dir = dir, .call = id}},
        {.op = FS_NAMES_RENAME, .flags = FS_RENAME_TAKES, .rename = {.dir = dir, .to = to, .call = id}},
        {.op = FS_NAMES_LOOKUP, .lookup.dir = dir}};
    calls++;
    call_start(&c[i], rank, call[j->what], names[j->name], j->what == 2 ? names[j->name2] : "");
  }
  world.loss = 0;
  sim_settle();
  sim_check_backups();
  uint32_t living = 0;
  while (world.dead[living]) living++;
  for (unsigned d = 0; d < DIRS; d++) {
    uint64_t dir = FS_DATASET_DIR(0, d);
    struct fs_keepers k = fs_members_keepers(&world.ns[living]->members, dir);
    for (unsigned n = 0; n < NAMES; n++) {
      const struct fs_record *r = fs_names_find(world.ns[k.primary]->names, dir, names[n], 1);
      assert_true(lost || !taken[d][n] || (r && (r->flags & FS_RECORD_TAKEN)));
    }
  }
  assert_true(lost || seen > 100);
}

static void test_storm_of_taken_names(void **state) {
  (void)state;
  for (unsigned round = 0; round < 60 * times; round++) {
    random_seed(round);
    storm_of_taken_names(2 + round % (RANKS - 1), round % 2, round % 4 < 2 ? 0 : 100);
  }
  /* A rename that failed was made again, and the first one's KEEP came once more. */
  random_seed(926);
  storm_of_taken_names(4, 0, 100);
  /* A record was in two directories, as a rename had not ended at the old one, and came to the new one once more. */
  random_seed(300022);
  storm_of_taken_names(4, 0, 100);
}

int main(int argc, char **argv) {
  if (argc > 1) times = (unsigned)strtoul(argv[1], NULL, 10);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_wins),
      cmocka_unit_test(test_storm),
      cmocka_unit_test(test_storm_with_a_death),
      cmocka_unit_test(test_storm_with_two_deaths),
      cmocka_unit_test(test_storm_of_taken_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
