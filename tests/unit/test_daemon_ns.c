/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of output files over several ranks, in a simulation (ns_fixture.h): calls one after another against a plain
 * table, with ranks that die at any moment; calls at once, of which one may win; and that backups have what primaries
 * have.
 */
#include "ns_fixture.h"

/* ---- a plain table ---- */

static unsigned loss; /* one message in so many */

#define ROWS 4000u
struct row {
  bool there, published;
  uint64_t dir, id;
  uint32_t home;
  mode_t mode;
  char name[16];
};
static struct row table[ROWS];
static struct row gone[ROWS]; /* what was removed or replaced */
static unsigned removals;
static unsigned climbs, loops; /* renames of directories to other ones, and those that would be below themselves */

static struct row *row_find(uint64_t dir, const char *name) {
  for (unsigned i = 0; i < ROWS; i++) {
    if (table[i].there && table[i].dir == dir && strcmp(table[i].name, name) == 0) return &table[i];
  }
  return NULL;
}
static struct row *row_new(void) {
  for (unsigned i = 0; i < ROWS; i++) {
    if (!table[i].there) return &table[i];
  }
  fail_msg("the table is full");
  return NULL;
}
static unsigned row_count(uint64_t dir) {
  unsigned n = 0;
  for (unsigned i = 0; i < ROWS; i++) n += table[i].there && table[i].dir == dir;
  return n;
}
static void row_remove(struct row *r) {
  r->there = false;
  if (removals < ROWS) gone[removals++] = *r;
}

/* Is the directory `dir` that of id, or below it? */
static bool is_below(uint64_t dir, uint64_t id) {
  for (unsigned depth = 0; dir != id && (dir & FS_OUTPUT_ID); depth++) {
    unsigned i = 0;
    while (i < ROWS && !(table[i].there && table[i].id == dir)) i++;
    if (i == ROWS) return false; /* it was removed */
    assert_true(depth < ROWS);
    dir = table[i].dir;
  }
  return dir == id;
}

/* A directory: of a dataset, or one that was made. */
static uint64_t some_dir(void) {
  uint64_t made[ROWS];
  unsigned n = 0;
  for (unsigned i = 0; i < ROWS; i++) {
    if (table[i].there && S_ISDIR(table[i].mode)) made[n++] = table[i].id;
  }
  unsigned k = random_below(n + 4);
  return k < n ? made[k] : FS_DATASET_DIR(0, random_below(6));
}
static const char *some_name(void) {
  static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
  return names[random_below(FS_ARRAY_LEN(names))];
}

/* ---- one call after another ---- */

static bool may_kill; /* somebody, in the middle of the next call */
static uint32_t killed;

static void run(struct call *c, uint32_t rank, struct fs_names_call head, const char *name, const char *name2) {
  unsigned kill_at = may_kill ? random_below(40) : UINT32_MAX;
  call_start(c, rank, head, name, name2);
  for (unsigned steps = 0; !c->done || (may_kill && steps <= kill_at); steps++) {
    assert_true(steps < 1000000);
    if (steps == kill_at) sim_kill(killed);
    sim_step();
  }
}

static void do_create(struct call *c, uint32_t rank, uint64_t dir, const char *name) {
  static const mode_t modes[] = {S_IFREG | 0644, S_IFREG | 0600, S_IFDIR | 0755, S_IFLNK | 0777};
  struct fs_names_call h = {.op = FS_NAMES_CREATE, .create = {.dir = dir, .id = fs_ns_id(world.ns[rank])}};
  struct row *r = row_find(dir, name);
  h.create.mode = modes[random_below(4)];
  run(c, rank, h, name, S_ISLNK(h.create.mode) ? "target" : "");
  assert_int_equal(c->err, r ? -EEXIST : 0);
  assert_non_null(call_record(c));
  assert_true(call_record(c)->id == (r ? r->id : h.create.id));
  if (r) return;
  r = row_new();
  *r = (struct row){.there = true, .dir = dir, .id = h.create.id, .home = rank, .mode = h.create.mode};
  snprintf(r->name, sizeof(r->name), "%s", name);
}

static void do_lookup(struct call *c, uint32_t rank, uint64_t dir, const char *name) {
  struct row *r = row_find(dir, name);
  run(c, rank, (struct fs_names_call){.op = FS_NAMES_LOOKUP, .lookup.dir = dir}, name, "");
  assert_int_equal(c->err, r ? 0 : -ENOENT);
  if (c->err == 0) assert_true(call_record(c)->id == r->id && call_record(c)->mode == r->mode);
}

static void do_publish(struct call *c, uint32_t rank, uint64_t dir, const char *name) {
  struct row *r = row_find(dir, name);
  if (!r || !S_ISREG(r->mode)) return;
  struct fs_names_call h = {.op = FS_NAMES_PUBLISH, .publish = {.dir = dir, .id = r->id, .size = 77, .mode = r->mode}};
  run(c, rank, h, "", "");
  assert_int_equal(c->err, 0);
  r->published = true;
  assert_int_equal(call_record(c)->size, 77);
}

static void do_remove(struct call *c, uint32_t rank, uint64_t dir, const char *name) {
  struct row *r = row_find(dir, name);
  bool directory = random_below(2);
  struct fs_names_call h = {.op = FS_NAMES_REMOVE, .remove = {.dir = dir, .call = fs_ns_id(world.ns[rank])}};
  h.flags = directory ? FS_REMOVE_DIRECTORY : 0;
  run(c, rank, h, name, "");
  fs_err err = !r                                  ? -ENOENT
               : directory && !S_ISDIR(r->mode)    ? -ENOTDIR
               : !directory && S_ISDIR(r->mode)    ? -EISDIR
               : directory && row_count(r->id) > 0 ? -ENOTEMPTY
                                                   : 0;
  assert_int_equal(c->err, err);
  if (err == 0) row_remove(r);
}

static void do_rename(struct call *c, uint32_t rank, uint64_t dir, const char *name) {
  uint64_t to = random_below(2) ? dir : some_dir();
  const char *name2 = some_name();
  struct row *r = row_find(dir, name), *t = row_find(to, name2);
  struct fs_names_call h = {.op = FS_NAMES_RENAME, .rename = {.dir = dir, .to = to, .call = fs_ns_id(world.ns[rank])}};
  if (random_below(4) == 0) h.flags = FS_RENAME_NOREPLACE;
  run(c, rank, h, name, name2);
  fs_err err = !r                                           ? -ENOENT
               : t && h.flags                               ? -EEXIST
               : r == t                                     ? 0
               : S_ISDIR(r->mode) && is_below(to, r->id)    ? -EINVAL
               : t && S_ISDIR(t->mode) && !S_ISDIR(r->mode) ? -EISDIR
               : t && !S_ISDIR(t->mode) && S_ISDIR(r->mode) ? -ENOTDIR
               : t && S_ISDIR(t->mode) && row_count(t->id)  ? -ENOTEMPTY
                                                            : 0;
  assert_int_equal(c->err, err);
  if (S_ISDIR(r ? r->mode : 0) && to != dir) err == 0 ? climbs++ : err == -EINVAL ? loops++ : 0;
  if (err != 0 || r == t) return;
  if (t) row_remove(t);
  r->dir = to;
  snprintf(r->name, sizeof(r->name), "%s", name2);
}

static void do_list(struct call *c, uint32_t rank, uint64_t dir) {
  unsigned expected = 0, found = 0;
  for (unsigned i = 0; i < ROWS; i++) expected += table[i].there && table[i].dir == dir;
  uint64_t seq = 0;
  do {
    const struct fs_record *rec;
    size_t at = 0;
    run(c, rank, (struct fs_names_call){.op = FS_NAMES_LIST, .list = {.dir = dir, .after = seq}}, "", "");
    may_kill = false;
    assert_int_equal(c->err, 0);
    while (at < c->n) {
      char name[256] = "";
      rec = fs_record_next(c->body, c->n, &at);
      assert_non_null(rec);
      assert_true(rec->seq > seq);
      seq = rec->seq;
      memcpy(name, fs_record_name(rec), rec->name_len);
      struct row *r = row_find(dir, name);
      assert_true(r && r->id == rec->id);
      found++;
    }
  } while (c->n > 0);
  assert_int_equal(found, expected);
}

static uint32_t a_living_rank(void) {
  uint32_t rank;
  do rank = random_below(world.ranks);
  while (world.dead[rank] || (may_kill && rank == killed));
  return rank;
}

static unsigned shared_found, shared_absent, borrowed_found; /* answers of shared memory */

/* What programs of any rank find in its shared memory is what they may see: the last call has returned. */
static void check_shared(uint64_t dir, const char *name) {
  struct fs_record_copy slot;
  const struct fs_record *rec = (const struct fs_record *)&slot;
  const struct row *r = row_find(dir, name);
  for (uint32_t i = 0; i < world.ranks; i++) {
    if (world.dead[i]) continue;
    enum fs_record_answer a = fs_record_view_find(&world.view[i], world.now, dir, name, strlen(name), &slot);
    if (a == FS_RECORD_FOUND) {
      assert_non_null(r);
      assert_true(rec->id == r->id && rec->mode == r->mode && rec->dir == dir);
      if (S_ISREG(r->mode)) assert_int_equal(rec->flags & FS_RECORD_PUBLISHED, r->published);
      if (S_ISDIR(r->mode) && (rec->flags & FS_RECORD_TIMED)) assert_true(rec->size <= row_count(r->id));
      shared_found++;
      borrowed_found += !fs_ns_certain(world.ns[i], dir);
    } else if (a == FS_RECORD_ABSENT) {
      assert_null(r);
      shared_absent++;
    }
  }
}

/* So many messages were lost that a rank was taken for dead: names that only it sees may be removed by others then. */
static bool one_is_out(void) {
  bool out = false;
  for (uint32_t i = 0; i < world.ranks; i++) out = out || fs_ns_members(world.ns[i])->count < world.ranks;
  return out;
}

static void one_call(void) {
  static struct call c;
  uint32_t rank = a_living_rank();
  uint64_t dir = some_dir();
  const char *name = some_name();
  switch (random_below(8)) {
  case 0:
  case 1:
    do_create(&c, rank, dir, name);
    break;
  case 2:
    do_publish(&c, rank, dir, name);
    break;
  case 3:
    do_remove(&c, rank, dir, name);
    break;
  case 4:
  case 5:
    do_rename(&c, rank, dir, name);
    break;
  case 6:
    do_list(&c, rank, dir);
    break;
  default:
    do_lookup(&c, rank, dir, name);
  }
  if (loss > 0 && one_is_out()) return;
  for (unsigned k = 0; k < 8; k++) check_shared(some_dir(), some_name());
  check_shared(dir, name);
}

/* Whoever made it, and died or not: homes have dropped what has no name, and nothing can be made in what was removed.
 */
static void check_removed(void) {
  for (unsigned i = 0; i < removals; i++) {
    const struct row *r = &gone[i];
    if (S_ISREG(r->mode) && !world.dead[r->home]) assert_true(world.dropped[r->home][r->id & 0xffff]);
    for (uint32_t k = 0; k < world.ranks && S_ISDIR(r->mode); k++) {
      struct fs_keepers keepers = fs_members_keepers(fs_ns_members(world.ns[k]), r->id);
      if (!world.dead[k] && (keepers.primary == k || keepers.backup == k))
        assert_true(fs_names_closed(world.ns[k]->names, r->id, UINT64_MAX - 1));
    }
  }
}

static void check_all(void) {
  static struct call c;
  may_kill = false;
  if (loss == 0) check_removed(); /* else the last word may be on its way for some deadlines */
  for (uint64_t e = 0; e < 6; e++) do_list(&c, a_living_rank(), FS_DATASET_DIR(0, e));
  for (unsigned i = 0; i < ROWS; i++) {
    if (table[i].there && S_ISDIR(table[i].mode)) do_list(&c, a_living_rank(), table[i].id);
  }
}

/* The last one stays alive; between two deaths the copies are made. */
static void sequence(uint32_t ranks, unsigned calls, bool deaths) {
  memset(table, 0, sizeof(table));
  removals = 0;
  sim_start(ranks);
  world.loss = loss;
  uint32_t living = ranks;
  for (unsigned i = 0; i < calls; i++) {
    may_kill = deaths && living > 1 && random_below(calls / ranks) == 0;
    if (may_kill) {
      sim_settle();
      do killed = random_below(ranks);
      while (world.dead[killed]);
      living--;
    }
    bool kills = may_kill;
    one_call();
    if (kills && !world.dead[killed]) living++; /* it had no part in a call that was not made */
    may_kill = false;
    if (loss > 0 && one_is_out()) return;
    if (random_below(200) != 0 && !kills) continue;
    sim_settle();
    sim_check_backups();
    check_all();
  }
  sim_settle();
  sim_check_backups();
  check_all();
}

/* As many times as many rounds: the program's argument. */
static unsigned times = 1;

static void test_one_rank(void **state) {
  (void)state;
  random_seed(0);
  sequence(1, 3000, false);
}
static void test_no_deaths(void **state) {
  (void)state;
  random_seed(0);
  for (uint32_t ranks = 2; ranks <= RANKS; ranks++) sequence(ranks, 1500, false);
  assert_int_equal(world.changes, 0);
  assert_true(climbs > 30 && loops > 2);
  assert_true(shared_found > 1000 && shared_absent > 1000 && borrowed_found > 100);
}
/* Messages that are lost (too many were under way, say) are sent again, and what they ask for is done once. */
static void test_lost_messages(void **state) {
  (void)state;
  uint64_t lost = 0;
  for (unsigned round = 0; round < 30 * times; round++) {
    random_seed(round);
    loss = 50 + 50 * (round % 4);
    sequence(2 + round % (RANKS - 1), 300, false);
    lost += world.lost;
  }
  loss = 0;
  assert_true(lost > 100 * times);
}
static void test_deaths(void **state) {
  (void)state;
  unsigned changes = 0;
  for (unsigned round = 0; round < 100 * times; round++, changes += world.changes) {
    random_seed(round);
    sequence(2 + round % (RANKS - 1), 300, true);
  }
  assert_true(changes > 100 * times);
}

/* ---- many at once ---- */

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
      cmocka_unit_test(test_one_rank),           cmocka_unit_test(test_no_deaths),
      cmocka_unit_test(test_lost_messages),      cmocka_unit_test(test_deaths),
      cmocka_unit_test(test_one_wins),           cmocka_unit_test(test_storm),
      cmocka_unit_test(test_storm_with_a_death), cmocka_unit_test(test_storm_with_two_deaths),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
