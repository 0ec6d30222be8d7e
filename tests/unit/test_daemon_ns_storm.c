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

int main(int argc, char **argv) {
  if (argc > 1) times = (unsigned)strtoul(argv[1], NULL, 10);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_wins),
      cmocka_unit_test(test_storm),
      cmocka_unit_test(test_storm_with_a_death),
      cmocka_unit_test(test_storm_with_two_deaths),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
