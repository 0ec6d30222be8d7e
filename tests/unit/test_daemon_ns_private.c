/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Directories that only the programs of one rank use (ns_private.c), in the simulation of ns_fixture.h: its programs
 * have their answers before the backup has their changes, no other rank sees an older state than another one has seen,
 * and of what nobody else has seen only the last changes are lost with the rank.
 */
#include "ns_fixture.h"

#define FILES 8u
#define CHANGES 200u

static struct call calls[2 * FS_EARLY_MOST];

static struct fs_names_call of_dir(uint32_t op, uint64_t dir) {
  return (struct fs_names_call){.op = op, .lookup.dir = dir};
}

static const char *name_of(unsigned i) {
  static char name[16];
  snprintf(name, sizeof(name), "f%u", i);
  return name;
}

/* Makes an output directory, and returns its id. */
static uint64_t make_dir(uint32_t rank) {
  struct fs_names_call h = call_create(rank, FS_DATASET_DIR(0, 1), S_IFDIR | 0755);
  call_start(&calls[0], rank, h, "dir", "");
  call_wait(&calls[0]);
  assert_int_equal(calls[0].err, 0);
  sim_settle();
  return h.create.id;
}

static uint64_t start(uint32_t ranks, unsigned loss) {
  sim_start(ranks);
  uint64_t dir = make_dir(0);
  world.loss = loss;
  return dir;
}

/* Returns true if the call was answered before any message was delivered. */
static bool is_early(struct call *c, uint32_t rank, struct fs_names_call h, const char *name) {
  call_start(c, rank, h, name, "");
  bool early = c->done;
  call_wait(c);
  assert_int_equal(c->err, 0);
  return early;
}

static fs_err look(uint32_t rank, uint64_t dir, const char *name) {
  call_start(&calls[0], rank, of_dir(FS_NAMES_LOOKUP, dir), name, "");
  call_wait(&calls[0]);
  return calls[0].err;
}

static struct fs_names_call removal(uint32_t rank, uint64_t dir) {
  return (struct fs_names_call){.op = FS_NAMES_REMOVE, .remove = {.dir = dir, .call = fs_ns_id(world.ns[rank])}};
}

static void test_what_is_early(void **state) {
  (void)state;
  random_seed(0);
  uint64_t dir = start(3, 0);
  assert_true(is_early(&calls[0], 0, call_create(0, dir, S_IFREG | 0644), "a"));
  assert_true(is_early(&calls[0], 0, removal(0, dir), "a"));
  assert_false(is_early(&calls[0], 0, call_create(0, dir, S_IFDIR | 0755), "d"));
  assert_false(is_early(&calls[0], 0, call_create(0, FS_DATASET_DIR(0, 1), S_IFREG | 0644), "b"));
  /* asked for its times, a directory stays private; asked for a name, it is not any more */
  call_start(&calls[0], 1, of_dir(FS_NAMES_TIMES, dir), "", "");
  call_wait(&calls[0]);
  assert_true(is_early(&calls[0], 0, call_create(0, dir, S_IFREG | 0644), "c"));
  assert_int_equal(look(1, dir, "c"), 0);
  assert_false(is_early(&calls[0], 0, call_create(0, dir, S_IFREG | 0644), "e"));
  assert_false(is_early(&calls[0], 0, removal(0, dir), "c"));
}

/* fsync of a directory waits for the backup. */
static void test_synced(void **state) {
  (void)state;
  random_seed(0);
  uint64_t dir = start(3, 0);
  struct fs_names_call sync = of_dir(FS_NAMES_TIMES, dir), h = call_create(0, dir, S_IFREG | 0644);
  sync.flags = FS_TIMES_SYNC;
  assert_true(is_early(&calls[0], 0, sync, ""));
  call_start(&calls[1], 0, h, "a", "");
  assert_true(calls[1].done);
  assert_false(is_early(&calls[0], 0, sync, ""));
  uint32_t backup = fs_members_keepers(fs_ns_members(world.ns[0]), dir).backup;
  assert_non_null(fs_names_find_id(world.ns[backup]->names, dir, h.create.id));
}

static struct fs_names_call publication(uint64_t dir, uint64_t id, uint64_t size, uint32_t flags) {
  return (struct fs_names_call){
      .op = FS_NAMES_PUBLISH,
      .flags = flags,
      .publish = {.dir = dir, .id = id, .number = size, .size = size, .mode = S_IFREG | 0644}};
}

/* Returns the size that the backup has, or 0: none was published. */
static uint64_t size_at_backup(uint64_t dir, uint64_t id) {
  uint32_t backup = fs_members_keepers(fs_ns_members(world.ns[0]), dir).backup;
  const struct fs_record *r = fs_names_find_id(world.ns[backup]->names, dir, id);
  assert_non_null(r);
  return r->flags & FS_RECORD_PUBLISHED ? r->size : 0;
}

/* What is published is sent a little later, at once if the program has called fsync, and again when the directory is
   shown. */
static void test_published(void **state) {
  (void)state;
  for (unsigned round = 0; round < 20; round++) {
    struct fs_record_copy slot;
    const struct fs_record *seen = (const struct fs_record *)&slot;
    random_seed(round);
    uint64_t dir = start(2 + round % 3, round % 2 == 0 ? 0 : 10);
    struct fs_names_call h = call_create(0, dir, S_IFREG | 0644);
    (void)is_early(&calls[0], 0, h, "a");
    bool early = is_early(&calls[0], 0, publication(dir, h.create.id, 7, 0), "");
    sim_settle();
    if (world.loss == 0) assert_true(early && size_at_backup(dir, h.create.id) == 7);
    assert_false(is_early(&calls[0], 0, publication(dir, h.create.id, 8, FS_PUBLISH_DURABLE), ""));
    assert_int_equal(size_at_backup(dir, h.create.id), 8);
    (void)is_early(&calls[0], 0, publication(dir, h.create.id, 9, 0), "");
    assert_int_equal(look(1, dir, "a"), 0);
    assert_int_equal(call_record(&calls[0])->size, 9);
    sim_settle();
    if (fs_ns_members(world.ns[0])->number > 1) continue; /* so much was lost that somebody was evicted */
    assert_int_equal(size_at_backup(dir, h.create.id), 9);
    uint32_t backup = fs_members_keepers(fs_ns_members(world.ns[0]), dir).backup;
    if (fs_record_view_find(&world.view[backup], world.now, dir, "a", 1, &slot) == FS_RECORD_FOUND)
      assert_int_equal(seen->size, 9);
    else
      assert_true(world.loss > 0); /* it is not certain now */
  }
}

/* Until then, no message comes to a rank. */
static void postpone(uint32_t to, uint64_t until) {
  for (uint32_t i = 0; i < world.ranks; i++) {
    for (struct packet *p = world.first[i][to]; p; p = p->next) p->due = FS_MAX(p->due, until);
  }
}

/* The backup stands still or dies while the maker goes on making files: another rank's question has its answer soon
   after. */
static void test_slow_backup(void **state) {
  (void)state;
  static struct call question;
  for (unsigned round = 0; round < 12; round++) {
    random_seed(round);
    uint64_t dir = start(3, 0), stall = world.now + 45000000;
    uint32_t backup = fs_members_keepers(fs_ns_members(world.ns[0]), dir).backup, other = 3 - backup;
    unsigned files = 0;
    (void)is_early(&calls[0], 0, call_create(0, dir, S_IFREG | 0644), "a");
    sim_settle();
    if (round % 2 == 0) sim_kill(backup);
    calls[1].done = true;
    for (unsigned steps = 0; steps < 10 || !question.done; steps++) {
      if (steps == 5) call_start(&question, other, of_dir(FS_NAMES_LOOKUP, dir), "a", "");
      if (calls[1].done) call_start(&calls[1], 0, call_create(0, dir, S_IFREG | 0644), name_of(files++), "");
      if (round % 2 != 0) postpone(backup, stall);
      sim_step();
      assert_true(world.now < stall + 4 * DEADLINE);
    }
    assert_int_equal(question.err, 0);
    question.done = false;
    call_wait(&calls[1]);
  }
}

/* A directory of many messages, whose maker goes on making files: the question is answered all the same, and nobody
   finds one absent while the backup gets them. */
static void test_many(void **state) {
  (void)state;
  static struct call question;
  struct fs_record_copy slot;
  random_seed(1);
  uint64_t dir = start(3, 0);
  unsigned files = 0;
  for (; files < 600; files++) (void)is_early(&calls[0], 0, call_create(0, dir, S_IFREG | 0644), name_of(files));
  call_start(&question, 1, of_dir(FS_NAMES_LOOKUP, dir), "f7", "");
  for (unsigned steps = 0; steps < 1000; steps++) {
    assert_true(question.done || steps < 200);
    (void)is_early(&calls[0], 0, call_create(0, dir, S_IFREG | 0644), name_of(files++));
    for (uint32_t rank = 0; rank < world.ranks; rank++) {
      const char *name = name_of(random_below(files));
      assert_int_not_equal(fs_record_view_find(&world.view[rank], world.now, dir, name, strlen(name), &slot),
                           FS_RECORD_ABSENT);
    }
    sim_step();
  }
  assert_int_equal(question.err, 0);
  sim_settle();
  sim_check_backups();
  uint32_t backup = fs_members_keepers(fs_ns_members(world.ns[0]), dir).backup;
  assert_int_equal(fs_record_view_find(&world.view[backup], world.now, dir, "f9", 2, &slot), FS_RECORD_FOUND);
}

static void test_bounded(void **state) {
  (void)state;
  random_seed(0);
  uint64_t dir = start(2, 0);
  for (unsigned i = 0; i < 2 * FS_EARLY_MOST; i++) {
    call_start(&calls[i], 0, call_create(0, dir, S_IFREG | 0644), name_of(i), "");
    assert_true(calls[i].done == (i < FS_EARLY_MOST));
  }
  sim_settle();
  for (unsigned i = 0; i < 2 * FS_EARLY_MOST; i++) assert_true(calls[i].done && calls[i].err == 0);
  assert_int_equal(world.ns[0]->early, 0);
  sim_check_backups();
}

/* A rank that others may have evicted, or one whose files have replicas, waits for the backup. */
static void test_not_early(void **state) {
  (void)state;
  random_seed(0);
  uint64_t dir = start(2, 0);
  world.now += DEADLINE; /* it stood still */
  fs_ns_timers(world.ns[0], world.now);
  assert_false(is_early(&calls[0], 0, call_create(0, dir, S_IFREG | 0644), "a"));
  sim_settle();
  assert_true(is_early(&calls[0], 0, call_create(0, dir, S_IFREG | 0644), "b"));
  sim_start(2);
  for (uint32_t i = 0; i < 2; i++) fs_ns_replicate(world.ns[i]);
  dir = make_dir(0);
  assert_false(is_early(&calls[0], 0, call_create(0, dir, S_IFREG | 0644), "a"));
}

/* Each file is made and removed in turn: it is there if the number of its changes is odd. */
static unsigned changes[FILES], seen[FILES];   /* by all; by others, at least */
static unsigned order[CHANGES], made, certain; /* the files in the order of changes; changes that others have seen */

static void change(uint64_t dir, unsigned i) {
  bool there = changes[i]++ % 2 != 0;
  order[made++] = i;
  (void)is_early(&calls[0], 0, there ? removal(0, dir) : call_create(0, dir, S_IFREG | 0644), name_of(i));
}

static void ask_from_elsewhere(uint64_t dir, unsigned i) {
  assert_int_equal(look(1 + random_below(world.ranks - 1), dir, name_of(i)), changes[i] % 2 != 0 ? 0 : -ENOENT);
  memcpy(seen, changes, sizeof(seen));
  certain = made;
}

/* What is in the shared tables of all ranks. */
static unsigned check_tables(uint64_t dir) {
  struct fs_record_copy slot;
  unsigned elsewhere = 0;
  for (uint32_t rank = 0; rank < world.ranks; rank++) {
    for (unsigned i = 0; i < FILES; i++) {
      const char *name = name_of(i);
      enum fs_record_answer a = fs_record_view_find(&world.view[rank], world.now, dir, name, strlen(name), &slot);
      if (a == FS_RECORD_FOUND) assert_true(changes[i] % 2 != 0);
      if (a == FS_RECORD_ABSENT) assert_true(changes[i] % 2 == 0);
      elsewhere += rank > 0 && a != FS_RECORD_ASK;
    }
  }
  return elsewhere;
}

/* Returns true if `there` is the state after the first n changes. */
static bool is_state_after(unsigned n, const bool *there) {
  unsigned count[FILES] = {0};
  bool same = true;
  for (unsigned i = 0; i < n; i++) count[order[i]]++;
  for (unsigned i = 0; i < FILES; i++) same = same && there[i] == (count[i] % 2 != 0);
  return same;
}

/* Kills the rank that made the directory. Returns how many changes were lost with it. */
static unsigned check_after_death(uint64_t dir) {
  bool there[FILES];
  unsigned n = made;
  sim_kill(0);
  sim_settle();
  for (unsigned i = 0; i < FILES; i++) {
    there[i] = look(1, dir, name_of(i)) == 0;
    if (seen[i] == changes[i]) assert_true(there[i] == (changes[i] % 2 != 0));
  }
  if (world.loss > 0) return 0; /* some came, others did not */
  while (!is_state_after(n, there)) assert_true(n-- > certain);
  return made - n;
}

static void test_death(void **state) {
  (void)state;
  unsigned lost = 0, elsewhere = 0;
  for (unsigned round = 0; round < 400; round = next_round(round)) {
    random_seed(round);
    uint64_t dir = start(2 + round % (RANKS - 1), round % 4 < 2 ? 0 : 10 + 10 * (round % 4));
    unsigned calls_to_make = 1 + random_below(CHANGES), rare = 1 + random_below(100);
    memset(changes, 0, sizeof(changes));
    memset(seen, 0, sizeof(seen));
    made = certain = 0;
    bool out = false;
    for (unsigned k = 0; k < calls_to_make && !out; k++) {
      if (random_below(rare) == 0)
        ask_from_elsewhere(dir, random_below(FILES));
      else
        change(dir, random_below(FILES));
      out = fs_ns_members(world.ns[0])->number > 1; /* so much was lost that somebody was evicted */
      if (!out) elsewhere += check_tables(dir);
      if (random_below(8) == 0) sim_step();
    }
    if (!out) lost += check_after_death(dir);
  }
  assert_true(lost > 100 / next_round(0) && elsewhere > 1000 / next_round(0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_early), cmocka_unit_test(test_published),   cmocka_unit_test(test_many),
      cmocka_unit_test(test_synced),        cmocka_unit_test(test_slow_backup), cmocka_unit_test(test_bounded),
      cmocka_unit_test(test_not_early),     cmocka_unit_test(test_death),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
