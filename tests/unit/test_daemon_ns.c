/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of output files over several ranks, in a simulation (ns_fixture.h): calls one after another against a plain
 * table, with ranks that die at any moment, also of names that the datasets have; and that backups have what
 * primaries have. test_daemon_ns_storm.c has calls at once.
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

/* Does a dataset have this name? What is there then is a file, until the name was taken. */
static bool in_dataset(uint64_t dir, const char *name) {
  return !(dir & FS_OUTPUT_ID) && name[0] <= 'c';
}
static struct row *row_whiteout(uint64_t dir, const char *name, uint64_t call) {
  struct row *r = row_new();
  *r = (struct row){.there = true, .dir = dir, .id = call, .mode = FS_WHITEOUT};
  snprintf(r->name, sizeof(r->name), "%s", name);
  return r;
}
static bool is_seen(const struct row *r) {
  return r && !S_ISCHR(r->mode);
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

/* A dataset's name that was taken has a record for ever: nobody finds it absent, and goes on to the dataset, at any
   moment of any call. */
static void check_taken(void) {
  struct fs_record_copy slot;
  for (unsigned i = 0; i < ROWS; i++) {
    const struct row *r = &table[i];
    if (!r->there || !in_dataset(r->dir, r->name)) continue;
    for (uint32_t k = 0; k < world.ranks; k++) {
      if (world.dead[k]) continue;
      assert_int_not_equal(fs_record_view_find(&world.view[k], world.now, r->dir, r->name, strlen(r->name), &slot),
                           FS_RECORD_ABSENT);
    }
  }
}

static void run(struct call *c, uint32_t rank, struct fs_names_call head, const char *name, const char *name2) {
  unsigned kill_at = may_kill ? random_below(40) : UINT32_MAX;
  call_start(c, rank, head, name, name2);
  for (unsigned steps = 0; !c->done || (may_kill && steps <= kill_at); steps++) {
    assert_true(steps < 1000000);
    if (steps == kill_at) sim_kill(killed);
    sim_step();
    if (loss == 0 && random_below(16) == 0) check_taken();
  }
}

static void do_create(struct call *c, uint32_t rank, uint64_t dir, const char *name) {
  static const mode_t modes[] = {S_IFREG | 0644, S_IFREG | 0600, S_IFDIR | 0755, S_IFLNK | 0777};
  struct fs_names_call h = {.op = FS_NAMES_CREATE, .create = {.dir = dir, .id = fs_ns_id(world.ns[rank])}};
  struct row *r = row_find(dir, name);
  h.create.mode = modes[random_below(4)];
  if (in_dataset(dir, name)) h.flags = FS_CREATE_TAKES | (random_below(4) == 0 ? FS_CREATE_COPY : 0);
  run(c, rank, h, name, S_ISLNK(h.create.mode) ? "target" : "");
  if (r && !is_seen(r) && !(h.flags & FS_CREATE_COPY)) r->there = false, r = NULL;
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
  bool takes = in_dataset(dir, name), first = !r && takes;
  h.flags = (directory ? FS_REMOVE_DIRECTORY : 0) | (takes ? FS_REMOVE_TAKES : 0);
  run(c, rank, h, name, "");
  fs_err err = first                               ? (directory ? -ENOTDIR : 0)
               : !is_seen(r)                       ? -ENOENT
               : directory && !S_ISDIR(r->mode)    ? -ENOTDIR
               : !directory && S_ISDIR(r->mode)    ? -EISDIR
               : directory && row_count(r->id) > 0 ? -ENOTEMPTY
                                                   : 0;
  assert_int_equal(c->err, err);
  if (err == 0 && r) row_remove(r);
  if (err == 0 && takes) (void)row_whiteout(dir, name, h.remove.call);
}

static void do_rename(struct call *c, uint32_t rank, uint64_t dir, const char *name) {
  uint64_t to = random_below(2) ? dir : some_dir();
  const char *name2 = some_name();
  struct row *r = row_find(dir, name), *t = row_find(to, name2);
  struct fs_names_call h = {.op = FS_NAMES_RENAME, .rename = {.dir = dir, .to = to, .call = fs_ns_id(world.ns[rank])}};
  bool takes = in_dataset(to, name2), dataset = takes && !t, keep = random_below(4) == 0;
  h.flags = (keep ? FS_RENAME_NOREPLACE : 0) | (takes ? FS_RENAME_TAKES : 0);
  run(c, rank, h, name, name2);
  if (t && !is_seen(t)) {
    if (c->err == 0) t->there = false;
    t = NULL;
  }
  fs_err err = !is_seen(r)                                  ? -ENOENT
               : (t || dataset) && keep                     ? -EEXIST
               : dataset && S_ISDIR(r->mode)                ? -ENOTDIR
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
  if (in_dataset(dir, name)) (void)row_whiteout(dir, name, h.rename.call);
  r->dir = to;
  snprintf(r->name, sizeof(r->name), "%s", name2);
}

static void do_list(struct call *c, uint32_t rank, uint64_t dir) {
  unsigned expected = 0, found = 0;
  for (unsigned i = 0; i < ROWS; i++) expected += table[i].there && table[i].dir == dir;
  uint32_t most = random_below(2) ? FS_LISTED_MOST : FS_NAMES_BODY;
  struct fs_call_list list = {.dir = dir, .most = most};
  do {
    struct fs_listed l;
    size_t at = 0;
    run(c, rank, (struct fs_names_call){.op = FS_NAMES_LIST, .list = list}, "", "");
    may_kill = false;
    assert_int_equal(c->err, 0);
    while (at < c->n) {
      char name[256] = "";
      const char *got = fs_listed_next(c->body, c->n, &at, &l);
      assert_non_null(got);
      assert_true(l.seq > list.after);
      list.after = l.seq;
      memcpy(name, got, l.name_len);
      struct row *r = row_find(dir, name);
      assert_true(r && r->id == l.id);
      found++;
    }
  } while (c->n + FS_LISTED_MOST > most);
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
static unsigned whiteouts; /* found there */
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
      assert_int_equal(rec->flags & FS_RECORD_TAKEN, in_dataset(dir, name) ? FS_RECORD_TAKEN : 0);
      if (rec->flags & FS_RECORD_TAKEN) assert_true(world.taken[i][fs_taken_bit(dir, name, strlen(name))]);
      whiteouts += fs_is_whiteout(rec);
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
  random_seed(2);
  for (uint32_t ranks = 2; ranks <= RANKS; ranks++) sequence(ranks, 1500, false);
  assert_int_equal(world.changes, 0);
  assert_true(climbs > 30 && loops > 2);
  assert_true(shared_found > 1000 && shared_absent > 1000 && borrowed_found > 100 && whiteouts > 100);
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

int main(int argc, char **argv) {
  if (argc > 1) times = (unsigned)strtoul(argv[1], NULL, 10);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_rank),
      cmocka_unit_test(test_no_deaths),
      cmocka_unit_test(test_lost_messages),
      cmocka_unit_test(test_deaths),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
