/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single calls over several ranks, in the simulation of ns_fixture.h: a record's attributes, its publications, what is
 * for its home and not for a keeper, marks, and a rank that is cut off.
 */
#include "ns_fixture.h"

static void test_attributes(void **state) {
  (void)state;
  static struct call c;
  random_seed(0);
  sim_start(3);
  struct fs_names_call h = call_create(0, FS_DATASET_DIR(0, 1), S_IFDIR | 0755);
  uint64_t id = h.create.id;
  call_start(&c, 0, h, "d", "");
  call_wait(&c);
  h = (struct fs_names_call){.op = FS_NAMES_LOOKUP, .lookup = {.dir = h.create.dir, .id = id}};
  call_start(&c, 1, h, "", "");
  call_wait(&c);
  assert_int_equal(c.err, 0);
  assert_true(call_record(&c)->id == id);
  h = (struct fs_names_call){.op = FS_NAMES_SETATTR,
                             .flags = FS_SET_MODE | FS_SET_TIMES,
                             .setattr = {.dir = h.lookup.dir,
                                         .id = id,
                                         .call = fs_ns_id(world.ns[1]),
                                         .mode = S_IFDIR | 0711,
                                         .mtime = 5,
                                         .mtime_ns = 6}};
  call_start(&c, 1, h, "", "");
  call_wait(&c);
  assert_int_equal(c.err, 0);
  h.setattr.call = fs_ns_id(world.ns[2]);
  h.flags = FS_SET_TIMES;
  h.setattr.mtime = 7;
  call_start(&c, 2, h, "", "");
  call_wait(&c);
  assert_true(call_record(&c)->mode == (S_IFDIR | 0711) && call_record(&c)->mtime == 7);
  h.setattr.mtime = 8; /* the same call: it was made */
  call_start(&c, 2, h, "", "");
  call_wait(&c);
  assert_int_equal(call_record(&c)->mtime, 7);
  h.setattr.call = fs_ns_id(world.ns[2]);
  h.setattr.mode = S_IFLNK;
  call_start(&c, 2, h, "", "");
  call_wait(&c);
  assert_int_equal(c.err, -EINVAL);
  h.setattr.mode = S_IFDIR;
  h.setattr.id++;
  call_start(&c, 2, h, "", "");
  call_wait(&c);
  assert_int_equal(c.err, -ENOENT);
  sim_settle();
  sim_check_backups();
}

/* Makes a call about `name`, and compares which questions it needs until all is quiet. -1: no matter. */
static void asks(uint32_t rank, struct fs_names_call h, const int expected[FS_NAMES_OPS]) {
  static struct call c;
  memset(world.questions, 0, sizeof(world.questions));
  call_start(&c, rank, h, h.op == FS_NAMES_PUBLISH ? "" : "second", "");
  call_wait(&c);
  assert_int_equal(c.err, 0);
  sim_settle();
  for (int op = 0; op < FS_NAMES_OPS; op++)
    if (expected[op] >= 0) assert_int_equal(world.questions[op], expected[op]);
}

/* Making, publishing and removing a file ask each rank once at most: the primary, unless it is the caller; the backup;
 * and at a removal the home, unless it hears of it as one of the two. */
static void test_nobody_is_asked_twice(void **state) {
  (void)state;
  static struct call c;
  for (unsigned round = 0; round < 32; round++) {
    random_seed(round);
    sim_start(4);
    uint64_t dir = FS_DATASET_DIR(0, 1 + round / 4);
    struct fs_keepers k = fs_members_keepers(fs_ns_members(world.ns[0]), dir);
    uint32_t caller = round % 4;
    int expected[FS_NAMES_OPS] = {[FS_NAMES_PING] = -1, [FS_NAMES_BACKUP] = 1};
    call_start(&c, k.primary, call_create(k.primary, dir, S_IFREG | 0644), "first", "");
    call_wait(&c);
    sim_settle();
    struct fs_names_call h = call_create(caller, dir, S_IFREG | 0644);
    uint64_t id = h.create.id;
    expected[FS_NAMES_CREATE] = caller != k.primary;
    asks(caller, h, expected);
    h = (struct fs_names_call){.op = FS_NAMES_PUBLISH,
                               .publish = {.dir = dir, .id = id, .number = 1, .size = 5, .mode = S_IFREG | 0644}};
    expected[FS_NAMES_CREATE] = 0;
    expected[FS_NAMES_PUBLISH] = caller != k.primary;
    asks(caller, h, expected);
    uint32_t remover = (caller + round / 8) % 4;
    h = (struct fs_names_call){.op = FS_NAMES_REMOVE, .remove = {.dir = dir, .call = fs_ns_id(world.ns[remover])}};
    expected[FS_NAMES_PUBLISH] = 0;
    expected[FS_NAMES_REMOVE] = remover != k.primary;
    expected[FS_NAMES_DROP] = caller != k.primary && caller != k.backup;
    asks(remover, h, expected);
  }
}

/* Of two publications under way at once that one stays that home made later; and a file is followed by its id. */
static void test_publications_in_order(void **state) {
  (void)state;
  static struct call c, late;
  random_seed(0);
  sim_start(3);
  uint64_t to = FS_DATASET_DIR(0, 2);
  struct fs_names_call h = call_create(0, FS_DATASET_DIR(0, 1), S_IFREG | 0644);
  struct fs_names_call p = {.op = FS_NAMES_PUBLISH,
                            .publish = {.dir = h.create.dir, .id = h.create.id, .mode = h.create.mode}};
  call_start(&c, 0, h, "f", "");
  call_wait(&c);
  for (uint64_t i = 1; i < 100; i++) {
    p.publish.number = 2 * i, p.publish.size = 2 * i, p.publish.mtime = 9;
    p.publish.ctime = i % 2 ? 5000000007u : 0; /* ctime */
    call_start(&c, 0, p, "", "");
    p.publish.number--, p.publish.size = 1;
    call_start(&late, 0, p, "", "");
    call_wait(&c);
    call_wait(&late);
    assert_int_equal(call_record(&c)->size, 2 * i);
    assert_int_equal(call_record(&c)->mtime, 9);
    assert_int_equal(call_record(&c)->ctime, i % 2 ? 5 : 9);
    assert_int_equal(call_record(&c)->ctime_ns, i % 2 ? 7 : 0);
    assert_int_equal(late.err, 0);
    assert_int_equal(call_record(&late)->size, 2 * i);
    assert_int_equal(call_record(&late)->version, 2 * i);
  }
  h = (struct fs_names_call){.op = FS_NAMES_RENAME,
                             .rename = {.dir = p.publish.dir, .to = to, .call = fs_ns_id(world.ns[0])}};
  call_start(&c, 0, h, "f", "g");
  call_wait(&c);
  assert_int_equal(c.err, 0);
  h = (struct fs_names_call){.op = FS_NAMES_LOOKUP, .lookup = {.dir = p.publish.dir, .id = p.publish.id}};
  call_start(&c, 1, h, "", "");
  call_wait(&c);
  assert_int_equal(c.err, -EREMCHG);
  assert_true(c.n == sizeof(to) && memcmp(c.body, &to, sizeof(to)) == 0);
  h.lookup.dir = to;
  call_start(&c, 1, h, "", "");
  call_wait(&c);
  assert_int_equal(call_record(&c)->size, 198);
  sim_settle();
  sim_check_backups();
}

/* A file of --stage-in's is there at once, and is none of them any more when its home says so. */
static void test_staged(void **state) {
  (void)state;
  static struct call c;
  random_seed(0);
  sim_start(3);
  struct fs_names_call h = {
      .op = FS_NAMES_CREATE,
      .flags = FS_CREATE_STAGED_IN,
      .create = {
          .dir = FS_DATASET_DIR(0, 1), .id = fs_ns_id(world.ns[0]), .mode = S_IFREG | 0640, .size = 12345, .mtime = 7}};
  struct fs_names_call p = {.op = FS_NAMES_PUBLISH,
                            .publish = {.dir = h.create.dir, .id = h.create.id, .mode = h.create.mode, .size = 12345}};
  for (unsigned again = 0; again < 2; again++) {
    call_start(&c, 0, h, "f", "");
    call_wait(&c);
    assert_int_equal(c.err, 0);
    assert_int_equal(call_record(&c)->flags, FS_RECORD_PUBLISHED | FS_RECORD_STAGED_IN);
  }
  struct fs_names_call look = {.op = FS_NAMES_LOOKUP, .lookup.dir = h.create.dir};
  call_start(&c, 1, look, "f", "");
  call_wait(&c);
  assert_int_equal(c.err, 0);
  assert_int_equal(call_record(&c)->size, 12345);
  assert_int_equal(call_record(&c)->home, 0);
  assert_int_equal(call_record(&c)->mtime, 7);
  for (unsigned own = 0; own < 2; own++) {
    p.publish.number++;
    p.flags = own ? 0 : FS_PUBLISH_STAGED_IN;
    call_start(&c, 0, p, "", "");
    call_wait(&c);
    assert_int_equal(call_record(&c)->flags, FS_RECORD_PUBLISHED | (own ? 0 : FS_RECORD_STAGED_IN));
  }
  sim_settle();
  sim_check_backups();
}

/* What is for a file's home goes there, and fails when it is gone. */
static void test_questions_to_a_home(void **state) {
  (void)state;
  static struct call c;
  random_seed(0);
  sim_start(3);
  struct fs_names_call h = {.op = FS_NAMES_OPEN, .open.id = FS_OUTPUT_ID_MAKE(2, 9)};
  call_start(&c, 0, h, "", "");
  call_wait(&c);
  assert_int_equal(c.err, 0);
  assert_true(((const struct fs_names_call *)(void *)c.body)->open.id == h.open.id);
  h.open.id = FS_OUTPUT_ID_MAKE(4000, 9);
  call_start(&c, 0, h, "", "");
  call_wait(&c);
  assert_int_equal(c.err, -EHOSTDOWN);
  sim_kill(2);
  for (unsigned i = 0; i < 2; i++) {
    h = (struct fs_names_call){.op = FS_NAMES_OPEN, .open.id = FS_OUTPUT_ID_MAKE(2, 9)};
    if (i == 1) {
      h = (struct fs_names_call){.op = FS_NAMES_SETATTR, .flags = FS_SET_SIZE};
      h.setattr = (struct fs_call_setattr){.dir = 5, .id = FS_OUTPUT_ID_MAKE(2, 9), .mode = S_IFREG};
    }
    call_start(&c, 0, h, "", "");
    call_wait(&c);
    assert_int_equal(c.err, -EHOSTDOWN);
  }
}

/* A home that is busy is asked again: soon at first, less often later; it is not told of as silent. */
static void test_a_busy_home(void **state) {
  (void)state;
  static struct call c;
  for (unsigned i = 0; i < 2; i++) {
    random_seed(0);
    sim_start(3);
    uint64_t busy = i == 0 ? DEADLINE / 20 : 100 * DEADLINE, start = world.now;
    world.busy = start + busy;
    call_start(&c, 0, (struct fs_names_call){.op = FS_NAMES_OPEN, .open.id = FS_OUTPUT_ID_MAKE(2, 9)}, "", "");
    call_wait(&c);
    assert_int_equal(c.err, i == 0 ? 0 : -ETIMEDOUT);
    if (i == 0) {
      assert_true(world.now < start + 2 * busy);
    } else {
      assert_int_equal(c.n, 0);
      assert_in_range(world.asked, 100, 200); /* 600 ms; the pauses are 1 ms first, 4 ms from 32 ms on, and the way */
    }
  }
}

static void test_marked_everywhere_before_the_first(void **state) {
  (void)state;
  static struct call c;
  random_seed(0);
  sim_start(RANKS);
  for (uint32_t e = 0; e < 50; e++) {
    uint64_t dir = FS_DATASET_DIR(1, e);
    struct fs_names_call h = call_create(0, dir, S_IFDIR | 0700);
    call_start(&c, 0, h, "x", "");
    while (!c.done) {
      sim_step();
      bool all = true;
      for (uint32_t i = 0; i < RANKS; i++) all = all && world.mark[i][fs_mark_bit(dir)];
      for (uint32_t i = 0; i < RANKS && !all; i++) assert_int_equal(fs_names_count(world.ns[i]->names, dir), 0);
    }
    assert_int_equal(c.err, 0);
  }
}

/* A rank that was taken for dead and is not: it asks the others, and makes no change of its own. */
static void test_cut_off(void **state) {
  (void)state;
  static struct call c;
  random_seed(0);
  sim_start(3);
  for (uint32_t i = 0; i < 2; i++) world.cut[i][2] = world.cut[2][i] = true;
  for (uint32_t e = 0; e < 20; e++) {
    struct fs_names_call h = call_create(0, FS_DATASET_DIR(0, e), S_IFDIR | 0700);
    call_start(&c, 0, h, "x", "");
    call_wait(&c);
    assert_int_equal(c.err, 0);
  }
  assert_int_equal(world.ns[0]->members.count, 2);
  assert_int_equal(world.ns[2]->members.count, 3);
  for (uint32_t i = 0; i < 2; i++) world.cut[i][2] = world.cut[2][i] = false;
  for (uint32_t e = 0; e < 20; e++) {
    struct fs_names_call h = {.op = FS_NAMES_LOOKUP, .lookup.dir = FS_DATASET_DIR(0, e)};
    call_start(&c, 2, h, "x", "");
    call_wait(&c);
    if (c.err != 0) { /* it may answer itself until it has heard */
      assert_int_equal(c.err, -ENOENT);
      assert_int_equal(fs_members_keepers(&world.ns[2]->members, h.lookup.dir).primary, 2);
    }
    h = call_create(2, FS_DATASET_DIR(0, e), S_IFDIR | 0700);
    call_start(&c, 2, h, "y", "");
    call_wait(&c);
    assert_int_equal(c.err, 0);
    h.create.id = fs_ns_id(world.ns[1]);
    call_start(&c, 1, h, "y", "");
    call_wait(&c);
    assert_int_equal(c.err, -EEXIST);
  }
  assert_int_equal(world.ns[2]->members.count, 2);
  sim_settle();
  sim_check_backups();
}

/* However many first outputs of a directory are made at once, the members are told of it once. */
static void test_marked_once(void **state) {
  (void)state;
  static struct call c[200];
  random_seed(0);
  sim_start(5);
  struct fs_names_call h = {.op = FS_NAMES_CREATE, .create = {.dir = FS_DATASET_DIR(0, 1), .mode = S_IFREG | 0644}};
  uint32_t primary = fs_members_keepers(fs_ns_members(world.ns[0]), h.create.dir).primary;
  for (unsigned i = 0; i < FS_ARRAY_LEN(c); i++) {
    char name[16];
    snprintf(name, sizeof(name), "f%u", i);
    h.create.id = fs_ns_id(world.ns[primary]);
    call_start(&c[i], primary, h, name, "");
  }
  for (unsigned i = 0; i < FS_ARRAY_LEN(c); i++) {
    call_wait(&c[i]);
    assert_int_equal(c[i].err, 0);
  }
  sim_settle();
  assert_int_equal(world.marks, 5);
  sim_check_backups();
}

static void ask(struct call *c, uint32_t from, uint32_t to, struct fs_names_call h) {
  c->done = false;
  fs_ns_ask(world.ns[from], to, &h, call_done, c);
  call_wait(c);
}

/* With replicas: who has a file after one rank after another has gone, and who may say what it is. */
static void test_homes_that_go(void **state) {
  (void)state;
  static struct call c;
  random_seed(0);
  sim_start(4);
  for (uint32_t i = 0; i < 4; i++) fs_ns_replicate(world.ns[i]);
  struct fs_names_call made = call_create(1, FS_DATASET_DIR(0, 1), S_IFREG | 0644);
  uint64_t id = made.create.id;
  call_start(&c, 1, made, "f", "");
  call_wait(&c);
  struct fs_names_call publish = {.op = FS_NAMES_PUBLISH,
                                  .publish = {.dir = made.create.dir, .id = id, .number = 5, .mode = S_IFREG | 0644}};
  call_start(&c, 1, publish, "", "");
  call_wait(&c);
  assert_int_equal(c.err, 0);
  for (uint32_t home = 1; home < 4; home++) {
    struct fs_names_call replica = {.op = FS_NAMES_REPLICA, .replica = {.id = id, .mode = S_IFREG | 0644}};
    for (uint32_t i = home; i <= 4; i++) {
      struct fs_names_call look = {.op = FS_NAMES_LOOKUP, .lookup.dir = made.create.dir};
      struct fs_names_call hold = {.op = FS_NAMES_OPEN, .open.id = id};
      call_start(&c, i % 4, look, "f", "");
      call_wait(&c);
      assert_int_equal(call_record(&c)->home, home);
      call_start(&c, i % 4, hold, "", "");
      call_wait(&c);
      assert_int_equal(c.err, 0);
      publish.publish.number++;
      call_start(&c, i % 4, publish, "", "");
      call_wait(&c);
      assert_int_equal(c.err, i == home ? 0 : -EIO);
      if (i % 4 == (home + 1) % 4) continue;
      ask(&c, i % 4, (home + 1) % 4, replica);
      assert_int_equal(c.err, i == home ? 0 : -ESTALE);
    }
    sim_kill(home);
    sim_settle();
  }
  assert_int_equal(fs_ns_home(world.ns[0], id), 0);
}

/* Word of a rename that is long over must not take away what another one holds now. */
static void test_taken_late(void **state) {
  (void)state;
  static struct call c;
  random_seed(0);
  sim_start(3);
  uint64_t to = FS_DATASET_DIR(0, 2);
  struct fs_names_call made = call_create(0, FS_DATASET_DIR(0, 1), S_IFREG | 0644);
  struct fs_names_call take = {.op = FS_NAMES_TAKE,
                               .take = {.dir = made.create.dir, .to = to, .call = fs_ns_id(world.ns[1])}};
  struct fs_names_call taken = {
      .op = FS_NAMES_TAKEN,
      .flags = FS_TAKEN_KEEP,
      .taken = {.dir = made.create.dir, .to = to, .id = made.create.id, .call = take.take.call}};
  struct fs_names_call look = {.op = FS_NAMES_LOOKUP, .lookup.dir = made.create.dir};
  struct fs_names_call calls[] = {take, taken, take, taken};
  calls[2].take.call = fs_ns_id(world.ns[2]); /* another rename, after the first was given up, */
  calls[3].flags = 0;                         /* of which something is heard still */
  call_start(&c, 0, made, "f", "");
  call_wait(&c);
  for (unsigned i = 0; i < FS_ARRAY_LEN(calls); i++) {
    call_start(&c, 1, calls[i], calls[i].op == FS_NAMES_TAKE ? "f" : "", "");
    call_wait(&c);
    assert_int_equal(c.err, 0);
  }
  call_start(&c, 1, look, "f", "");
  call_wait(&c);
  assert_int_equal(c.err, 0);
  sim_settle();
  sim_check_backups();
}

/* A directory of the dataset's with this primary and backup, which all know to have outputs. */
static uint64_t dir_of(uint32_t primary, uint32_t backup) {
  static struct call c;
  uint32_t entry = 1;
  struct fs_keepers k;
  do k = fs_members_keepers(fs_ns_members(world.ns[0]), FS_DATASET_DIR(0, ++entry));
  while (k.primary != primary || k.backup != backup);
  struct fs_names_call h = call_create(0, FS_DATASET_DIR(0, entry), S_IFREG | 0644);
  call_start(&c, 0, h, "first", "");
  call_wait(&c);
  sim_settle();
  return h.create.dir;
}

/* The backup tells the caller of a change, whoever that is, at once; the primary need not, and does when the backup has
 * not. */
static void test_the_backup_answers(void **state) {
  (void)state;
  static struct call c;
  for (uint32_t caller = 0; caller < 3; caller++) {
    random_seed(caller);
    sim_start(3);
    uint64_t dir = dir_of(1, 2), begin = world.now, messages = world.messages;
    struct fs_names_call h = call_create(caller, dir, S_IFREG | 0600);
    struct fs_names_call p = {.op = FS_NAMES_PUBLISH,
                              .publish = {.dir = dir, .id = h.create.id, .mode = h.create.mode, .size = 77}};
    struct fs_names_call u = {.op = FS_NAMES_REMOVE, .remove = {.dir = dir, .call = fs_ns_id(world.ns[caller])}};
    world.cut[1][0] = true; /* nothing comes from the primary to rank 0 */
    call_start(&c, caller, h, "f", "");
    call_wait(&c);
    assert_true(c.err == 0 && call_record(&c)->id == h.create.id && call_record(&c)->home == caller);
    assert_int_equal(world.messages - messages, caller == 0 ? 4 : caller == 1 ? 2 : 3);
    call_start(&c, caller, p, "", "");
    call_wait(&c);
    assert_true(c.err == 0 && call_record(&c)->size == 77);
    call_start(&c, caller, u, "f", "");
    call_wait(&c);
    assert_true(c.err == 0 && c.n == sizeof(h.create.id) && memcmp(c.body, &h.create.id, sizeof(h.create.id)) == 0);
    assert_true(world.now - begin < DEADLINE);
    world.cut[1][0] = false;
    sim_settle();
    sim_check_backups();
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_attributes),
      cmocka_unit_test(test_the_backup_answers),
      cmocka_unit_test(test_nobody_is_asked_twice),
      cmocka_unit_test(test_publications_in_order),
      cmocka_unit_test(test_staged),
      cmocka_unit_test(test_questions_to_a_home),
      cmocka_unit_test(test_a_busy_home),
      cmocka_unit_test(test_marked_everywhere_before_the_first),
      cmocka_unit_test(test_cut_off),
      cmocka_unit_test(test_marked_once),
      cmocka_unit_test(test_homes_that_go),
      cmocka_unit_test(test_taken_late),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
