/* SPDX-License-Identifier: BSD-3-Clause */
/* The records in shared memory: what the table of names publishes is what readers find, also while it changes, and
   garbage there hurts nobody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "daemon/metadata/names.h"
#include "daemon/metadata/shared_names.h"

#define DIRS 6u
#define NAMES 300u
#define BYTES (1u << 20)
#define ALWAYS 1000u /* a time at which the table is certain */

static uint64_t not_certain; /* a directory */

static enum fs_names_part part_of(void *ctx, uint64_t dir) {
  (void)ctx;
  return dir != not_certain ? FS_NAMES_ALL : FS_NAMES_NONE;
}
static uint32_t home(void *ctx, const struct fs_record *r) {
  return r->home + *(uint32_t *)ctx;
}

struct shared {
  struct fs_shared_names *table;
  struct fs_names *names;
  struct fs_record_view view;
  void *base;
  uint64_t size;
  uint32_t more; /* added to each home */
};

static void begin(struct shared *s, uint64_t bytes) {
  *s = (struct shared){0};
  assert_int_equal(fs_shared_names_new(&s->table, bytes), 0);
  assert_int_equal(fs_names_new(&s->names), 0);
  const struct fs_names_sharing how = {.table = s->table, .part = part_of, .home = home, .ctx = &s->more};
  fs_names_share(s->names, &how);
  int fd = fs_shared_names_fd(s->table, &s->size);
  assert_ptr_equal(mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  s->base = mmap(NULL, s->size, PROT_READ, MAP_SHARED, fd, 0);
  assert_ptr_not_equal(s->base, MAP_FAILED);
  assert_int_equal(fs_record_view_init(&s->view, s->base, s->size), 0);
  fs_shared_names_until(s->table, ALWAYS + 1);
  not_certain = 0;
}

static void end(struct shared *s) {
  fs_names_free(s->names);
  fs_shared_names_free(s->table);
  munmap(s->base, s->size);
}

static enum fs_record_answer ask(const struct shared *s, uint64_t dir, const char *name, struct fs_record_copy *out) {
  return fs_record_view_find(&s->view, ALWAYS, dir, name, strlen(name), out);
}

static void put(struct shared *s, uint64_t dir, unsigned id, const char *name, uint32_t mode, const char *target) {
  struct fs_record r = {.id = FS_OUTPUT_ID_MAKE(1, id + 1),
                        .dir = dir,
                        .mode = mode,
                        .size = id,
                        .home = 5,
                        .name_len = (uint16_t)strlen(name),
                        .target_len = (uint16_t)strlen(target)};
  assert_int_equal(fs_names_put(s->names, &r, name, target, NULL), 0);
}

/* Everything in the table of names is found, and nothing else. Not `whole`: or has to be asked for. */
static void compare(const struct shared *s, bool whole) {
  char name[300];
  struct fs_record_copy slot;
  const struct fs_record *r = (const struct fs_record *)&slot;
  for (uint64_t dir = 1; dir <= DIRS; dir++) {
    for (unsigned i = 0; i < NAMES; i++) {
      snprintf(name, sizeof(name), i % 3 ? "name-%u" : "%0*u-a-longer-name", i % 3 ? (int)i : (int)(i % 90), i);
      const struct fs_record *there = fs_names_find(s->names, dir, name, strlen(name));
      enum fs_record_answer a = ask(s, dir, name, &slot);
      if (dir == not_certain || strlen(name) > FS_RECORD_TEXT || fs_names_count(s->names, dir) == 0) {
        assert_true(a == FS_RECORD_ASK || (a == FS_RECORD_ABSENT && !there));
        continue;
      }
      if (!whole && a == FS_RECORD_ASK) continue;
      assert_int_equal(a, there ? FS_RECORD_FOUND : FS_RECORD_ABSENT);
      if (!there) continue;
      assert_true(r->id == there->id && r->size == there->size && r->dir == dir && r->seq == there->seq);
      assert_int_equal(r->home, there->home + s->more);
      assert_memory_equal(r + 1, name, strlen(name));
    }
  }
}

static void change(struct shared *s) {
  char name[300];
  for (unsigned k = 0; k < 40; k++) {
    unsigned i = (unsigned)rand() % NAMES, id = (unsigned)rand() % (2 * NAMES);
    uint64_t dir = 1 + (uint64_t)rand() % DIRS;
    snprintf(name, sizeof(name), i % 3 ? "name-%u" : "%0*u-a-longer-name", i % 3 ? (int)i : (int)(i % 90), i);
    if (rand() % 3)
      put(s, dir, id, name, S_IFREG | 0644, "");
    else
      (void)fs_names_drop(s->names, dir, FS_OUTPUT_ID_MAKE(1, id + 1));
  }
  if (rand() % 50 == 0) fs_names_drop_dir(s->names, 1 + (uint64_t)rand() % DIRS);
}

static void test_as_the_names(void **state) {
  struct shared s;
  (void)state;
  begin(&s, BYTES);
  srand(1);
  for (unsigned round = 0; round < 300; round++) {
    change(&s);
    if (round % 10 == 0) compare(&s, true);
    if (round % 60 != 59) continue;
    not_certain = (uint64_t)rand() % (DIRS + 1); /* the members have changed */
    s.more = (uint32_t)rand() % 3;
    fs_names_share_again(s.names);
    for (unsigned k = 0; k < 4; k++) { /* directories that were not certain come bit by bit */
      compare(&s, false);
      fs_names_share_more(s.names, 1 + (unsigned)rand() % NAMES);
      change(&s);
    }
    fs_names_share_more(s.names, UINT32_MAX);
    compare(&s, true);
  }
  end(&s);
}

/* Many records: the index grows. Then nearly all go, and their slots serve again. */
static void test_many(void **state) {
  struct shared s;
  char name[32];
  struct fs_record_copy slot;
  (void)state;
  begin(&s, 32u << 20);
  for (unsigned round = 0; round < 2; round++) {
    for (unsigned i = 0; i < 100000; i++) {
      snprintf(name, sizeof(name), "%u", i);
      put(&s, 7, i, name, S_IFREG | 0600, "");
    }
    for (unsigned i = 0; i < 100100; i++) {
      snprintf(name, sizeof(name), "%u", i);
      assert_int_equal(ask(&s, 7, name, &slot), i < 100000 ? FS_RECORD_FOUND : FS_RECORD_ABSENT);
    }
    for (unsigned i = 0; i < 99990; i++) assert_true(fs_names_drop(s.names, 7, FS_OUTPUT_ID_MAKE(1, i + 1)));
    assert_int_equal(ask(&s, 7, "17", &slot), FS_RECORD_ABSENT);
    assert_int_equal(ask(&s, 7, "99995", &slot), FS_RECORD_FOUND);
  }
  end(&s);
}

/* No room: what is there is found, what is not there is asked for. */
static void test_full(void **state) {
  struct shared s;
  char name[32];
  unsigned found = 0;
  struct fs_record_copy slot;
  (void)state;
  begin(&s, 0);
  for (unsigned i = 0; i < 2000; i++) {
    snprintf(name, sizeof(name), "%u", i);
    put(&s, 7, i, name, S_IFREG | 0600, "");
  }
  for (unsigned i = 0; i < 2000; i++) {
    snprintf(name, sizeof(name), "%u", i);
    enum fs_record_answer a = ask(&s, 7, name, &slot);
    assert_int_not_equal(a, FS_RECORD_ABSENT);
    found += a == FS_RECORD_FOUND;
  }
  assert_in_range(found, 400, 600);
  assert_int_equal(ask(&s, 7, "no such name", &slot), FS_RECORD_ASK);
  put(&s, 8, 5000, "in a directory without room", S_IFREG, "");
  assert_int_equal(ask(&s, 8, "in a directory without room", &slot), FS_RECORD_ASK);
  end(&s);
}

static void test_kinds(void **state) {
  struct shared s;
  struct fs_dir_times t;
  struct fs_record_copy slot;
  const struct fs_record *r = (const struct fs_record *)&slot;
  char longest[FS_RECORD_TEXT + 2];
  (void)state;
  begin(&s, BYTES);
  memset(longest, 'x', sizeof(longest));
  longest[sizeof(longest) - 1] = '\0';
  put(&s, 1, 1, "link", S_IFLNK | 0777, "target");
  put(&s, 1, 2, "far", S_IFLNK | 0777, longest);
  put(&s, 1, 3, longest, S_IFREG | 0600, "");
  put(&s, 1, 4, longest + 1, S_IFREG | 0600, "");
  put(&s, 1, 5, "dir", S_IFDIR | 0755, "");
  assert_int_equal(ask(&s, 1, "link", &slot), FS_RECORD_FOUND);
  assert_memory_equal(fs_record_target(r), "target", 6);
  assert_int_equal(ask(&s, 1, "far", &slot), FS_RECORD_ASK);
  assert_int_equal(ask(&s, 1, longest, &slot), FS_RECORD_ASK);
  assert_int_equal(ask(&s, 1, longest + 1, &slot), FS_RECORD_FOUND);
  assert_int_equal(ask(&s, 1, "other", &slot), FS_RECORD_ABSENT);
  assert_int_equal(ask(&s, 9, "other", &slot), FS_RECORD_ASK);

  assert_int_equal(ask(&s, 1, "dir", &slot), FS_RECORD_FOUND);
  assert_true(r->flags & FS_RECORD_TIMED);
  assert_int_equal(r->size, 0);
  uint64_t dir = r->id;
  put(&s, dir, 6, "below", S_IFDIR | 0755, "");
  fs_names_change(s.names, dir, 5000000007u);
  assert_int_equal(ask(&s, 1, "dir", &slot), FS_RECORD_FOUND);
  assert_true(r->size == 1 && r->mtime == 5 && r->mtime_ns == 7 + FS_CHANGED_STEP);
  assert_true(fs_record_view_times(&s.view, ALWAYS, dir, &t));
  assert_true(t.subdirs == 1 && t.changed == 5000000007u + FS_CHANGED_STEP);
  assert_false(fs_record_view_times(&s.view, ALWAYS, 9, &t));

  fs_shared_names_until(s.table, ALWAYS); /* from now on nothing is certain */
  assert_int_equal(ask(&s, 1, "link", &slot), FS_RECORD_ASK);
  assert_false(fs_record_view_times(&s.view, ALWAYS, dir, &t));
  end(&s);
}

/* A writer that died in the middle. */
static void test_half(void **state) {
  struct shared s;
  struct fs_record_copy slot;
  (void)state;
  begin(&s, BYTES);
  put(&s, 1, 1, "a", S_IFREG, "");
  fs_shared_names_begin(s.table);
  assert_int_equal(ask(&s, 1, "a", &slot), FS_RECORD_FOUND);
  put(&s, 1, 2, "b", S_IFREG, "");
  assert_int_equal(ask(&s, 1, "a", &slot), FS_RECORD_ASK);
  fs_shared_names_end(s.table);
  assert_int_equal(ask(&s, 1, "b", &slot), FS_RECORD_FOUND);
  end(&s);
}

/* ---- readers beside the writer ---- */

struct race {
  struct shared s;
  _Atomic bool over;
  _Atomic uint64_t found, asked;
};

/* "one" and "two" are one file that is renamed to and fro. "pair" has the same number in three fields. */
static void *reader(void *arg) {
  struct race *race = arg;
  struct fs_record_copy slot;
  const struct fs_record *r = (const struct fs_record *)&slot;
  while (!atomic_load(&race->over)) {
    enum fs_record_answer a = ask(&race->s, 1, "pair", &slot);
    assert_int_not_equal(a, FS_RECORD_ABSENT);
    if (a == FS_RECORD_FOUND) assert_true(r->size == r->version && r->version == (uint64_t)r->mtime);
    atomic_fetch_add(a == FS_RECORD_FOUND ? &race->found : &race->asked, 1);
    a = ask(&race->s, 1, "filler-3", &slot);
    assert_true(a != FS_RECORD_FOUND || (r->name_len == 8 && memcmp(r + 1, "filler-3", 8) == 0));
  }
  return NULL;
}

static void test_race(void **state) {
  static struct race race;
  pthread_t t[2];
  char name[32];
  (void)state;
  begin(&race.s, BYTES);
  struct fs_record r = {.id = FS_OUTPUT_ID_MAKE(1, 1), .dir = 1, .mode = S_IFREG, .name_len = 4};
  assert_int_equal(fs_names_put(race.s.names, &r, "pair", "", NULL), 0);
  for (unsigned i = 0; i < 2; i++) pthread_create(&t[i], NULL, reader, &race);
  for (uint64_t i = 0; i < 200000; i++) {
    r.size = r.version = i;
    r.mtime = (int64_t)i;
    assert_int_equal(fs_names_put(race.s.names, &r, "pair", "", NULL), 0);
    snprintf(name, sizeof(name), "filler-%u", (unsigned)i % 7);
    put(&race.s, 1, 10 + (unsigned)(i % 11), name, S_IFREG, "");
    if (i % 100 == 0) usleep(10);
  }
  atomic_store(&race.over, true);
  for (unsigned i = 0; i < 2; i++) pthread_join(t[i], NULL);
  printf("%llu found, %llu asked\n", (unsigned long long)race.found, (unsigned long long)race.asked);
  assert_true(race.found > 100);
  end(&race.s);
}

/* ---- garbage ---- */

static void test_garbage(void **state) {
  struct fs_record_view v;
  struct fs_record_copy slot;
  struct fs_dir_times t;
  uint64_t size = fs_record_table_size(512);
  uint64_t *words = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  struct fs_records_head *h = (void *)words;
  (void)state;
  assert_ptr_not_equal(words, MAP_FAILED);
  assert_int_equal(fs_record_view_init(&v, words, size), -EPROTO);
  h->magic = FS_RECORDS_MAGIC;
  h->slots = 513;
  while (fs_record_table_size(h->slots) == size) h->slots++;
  assert_int_equal(fs_record_view_init(&v, words, size), -EPROTO);
  h->slots = UINT64_MAX / 192;
  assert_int_equal(fs_record_view_init(&v, words, size), -EPROTO);
  assert_int_equal(fs_record_view_init(&v, words, 8), -EPROTO);
  h->slots = 512;
  assert_int_equal(fs_record_view_init(&v, words, size), 0);
  h->until = UINT64_MAX;
  srand(2);
  uint64_t *index = words + fs_record_index_at(FS_RECORD_LEVEL_FIRST) / 8, *slots = words + fs_record_slots_at() / 8;
  for (unsigned round = 0; round < 20000; round++) {
    char name[8];
    size_t n = (size_t)snprintf(name, sizeof(name), "%d", rand() % 64);
    uint64_t dir = (uint64_t)rand() % 4, hash = fs_record_hash(dir, name, n);
    h->level = rand() % 8 ? FS_RECORD_LEVEL_FIRST : (uint64_t)rand();
    h->seq = (uint64_t)(rand() % 16 == 0);
    index[(hash + (uint64_t)rand() % 2) % 1024] =
        hash >> 32 << 32 | (rand() % 4 ? (uint32_t)rand() % 600 : (uint32_t)rand() * 2);
    slots[rand() % (512 * 24)] = rand() % 2 ? dir : (uint64_t)rand() << 32 | (uint64_t)rand();
    (void)fs_record_view_find(&v, ALWAYS, dir, name, n, &slot);
    (void)fs_record_view_times(&v, ALWAYS, dir, &t);
  }
  for (unsigned i = 0; i < 1024; i++) index[i] = 1; /* no end */
  h->level = FS_RECORD_LEVEL_FIRST;
  h->seq = 0;
  assert_int_equal(fs_record_view_find(&v, ALWAYS, 1, "x", 1, &slot), FS_RECORD_ASK);
  munmap(words, size);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_the_names), cmocka_unit_test(test_many),
                                     cmocka_unit_test(test_full),         cmocka_unit_test(test_kinds),
                                     cmocka_unit_test(test_half),         cmocka_unit_test(test_race),
                                     cmocka_unit_test(test_garbage)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
