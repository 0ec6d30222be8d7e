/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of output files' names: against a plain array that does the same slowly, and its corners. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "daemon/metadata/names.h"
#include "ipc/op.h"

#define DIRS 5u
#define IDS 400u
#define NAMES 120u

static struct fs_record a_record(uint64_t dir, unsigned id, const char *name) {
  return (struct fs_record){.id = FS_OUTPUT_ID_MAKE(3, id + 1),
                            .dir = dir,
                            .mode = S_IFREG | 0644,
                            .size = id,
                            .name_len = (uint16_t)strlen(name)};
}

/* ---- the model: one row for each directory and id ---- */

struct row {
  bool there;
  uint64_t seq;
  char name[32];
};
struct model {
  struct row row[DIRS + 1][IDS];
  uint64_t seq[DIRS + 1];
};

static void model_put(struct model *m, unsigned id, uint64_t dir, const char *name) {
  for (unsigned i = 0; i < IDS; i++) {
    if (m->row[dir][i].there && strcmp(m->row[dir][i].name, name) == 0) m->row[dir][i].there = false;
  }
  struct row *r = &m->row[dir][id];
  *r = (struct row){.there = true, .seq = ++m->seq[dir]};
  snprintf(r->name, sizeof(r->name), "%s", name);
}

static void compare_dir(const struct fs_names *n, const struct model *m, uint64_t dir) {
  uint64_t seq = 0, count = 0;
  const struct fs_record *r;
  while ((r = fs_names_after(n, dir, seq)) != NULL) {
    const struct row *w = &m->row[dir][(r->id & 0xffffffff) - 1];
    assert_true(r->seq > seq);
    assert_true(w->there && w->seq == r->seq && r->size == (r->id & 0xffffffff) - 1);
    assert_int_equal(r->name_len, strlen(w->name));
    assert_memory_equal(fs_record_name(r), w->name, r->name_len);
    assert_ptr_equal(fs_names_find(n, dir, w->name, strlen(w->name)), r);
    assert_ptr_equal(fs_names_find_id(n, dir, r->id), r);
    seq = r->seq;
    count++;
  }
  uint64_t expected = 0;
  for (unsigned i = 0; i < IDS; i++) expected += m->row[dir][i].there;
  assert_int_equal(count, expected);
  assert_int_equal(fs_names_count(n, dir), expected);
}

static uint64_t random_state = 88172645463325252ull;
static unsigned random_below(unsigned n) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (unsigned)(random_state >> 33) % n;
}

static void test_model(void **state) {
  (void)state;
  static struct model m;
  struct fs_names *n;
  char name[32];
  assert_int_equal(fs_names_new(&n), 0);
  for (unsigned step = 0; step < 200000; step++) {
    unsigned id = random_below(IDS), what = random_below(10);
    uint64_t dir = 1 + random_below(DIRS);
    snprintf(name, sizeof(name), "name-%u", random_below(NAMES));
    if (what < 6) {
      struct fs_record r = a_record(dir, id, name);
      const struct fs_record *now;
      assert_int_equal(fs_names_put(n, &r, name, NULL, &now), 0);
      model_put(&m, id, dir, name);
      assert_int_equal(now->seq, m.row[dir][id].seq);
    } else if (what < 9) {
      assert_int_equal(fs_names_drop(n, dir, FS_OUTPUT_ID_MAKE(3, id + 1)), m.row[dir][id].there);
      m.row[dir][id].there = false;
    } else if (step % 100 == 0) {
      for (dir = 1; dir <= DIRS; dir++) compare_dir(n, &m, dir);
    } else {
      const struct fs_record *r = fs_names_find_id(n, dir, FS_OUTPUT_ID_MAKE(3, id + 1));
      assert_int_equal(r != NULL, m.row[dir][id].there);
    }
  }
  for (unsigned dir = 1; dir <= DIRS; dir++) compare_dir(n, &m, dir);
  fs_names_free(n);
}

/* ---- many, and corners ---- */

static void test_many(void **state) {
  (void)state;
  enum { N = 100000 };
  struct fs_names *n;
  char name[32];
  assert_int_equal(fs_names_new(&n), 0);
  for (unsigned i = 0; i < N; i++) {
    snprintf(name, sizeof(name), "%u", i);
    struct fs_record r = a_record(7 + i % 1000, i, name);
    assert_int_equal(fs_names_put(n, &r, name, NULL, NULL), 0);
  }
  for (unsigned i = 0; i < N; i++) {
    snprintf(name, sizeof(name), "%u", i);
    const struct fs_record *r = fs_names_find(n, 7 + i % 1000, name, strlen(name));
    assert_non_null(r);
    assert_int_equal(r->size, i);
    assert_null(fs_names_find(n, 8 + i % 1000, name, strlen(name)));
  }
  assert_true(fs_names_bytes(n) > N * (sizeof(struct fs_record) + 5));
  for (unsigned i = 0; i < N / 2; i++) assert_true(fs_names_drop(n, 7 + i % 1000, FS_OUTPUT_ID_MAKE(3, i + 1)));
  for (unsigned dir = 7; dir < 1007; dir++) fs_names_drop_dir(n, dir);
  assert_int_equal(fs_names_bytes(n), 0);
  fs_names_free(n);
}

static void test_a_listing_goes_on_after_changes(void **state) {
  (void)state;
  struct fs_names *n;
  char name[32];
  bool seen[100] = {false};
  uint64_t seq = 0;
  const struct fs_record *r;
  assert_int_equal(fs_names_new(&n), 0);
  for (unsigned i = 0; i < 100; i++) {
    snprintf(name, sizeof(name), "%u", i);
    struct fs_record w = a_record(1, i, name);
    assert_int_equal(fs_names_put(n, &w, name, NULL, NULL), 0);
  }
  for (unsigned step = 0; (r = fs_names_after(n, 1, seq)) != NULL; step++) {
    assert_false(seen[r->size]);
    seen[r->size] = true;
    seq = r->seq;
    /* behind it all go; before it every other one */
    fs_names_drop(n, 1, FS_OUTPUT_ID_MAKE(3, step + 1));
    if (step % 2 == 0 && step + 51 < 100) fs_names_drop(n, 1, FS_OUTPUT_ID_MAKE(3, step + 51));
  }
  for (unsigned i = 0; i < 50; i++) assert_true(seen[i]);
  fs_names_free(n);
}

/* What a backup hears: records with their seq, in whatever order. */
static void test_given_seq(void **state) {
  (void)state;
  static const uint64_t seqs[] = {5, 3, 9, 4, 1, 9};
  struct fs_names *n;
  char name[32];
  uint64_t seq = 0;
  const struct fs_record *r;
  assert_int_equal(fs_names_new(&n), 0);
  for (unsigned i = 0; i < FS_ARRAY_LEN(seqs); i++) {
    snprintf(name, sizeof(name), "%u", i);
    struct fs_record w = a_record(1, i, name);
    w.seq = seqs[i];
    assert_int_equal(fs_names_put(n, &w, name, NULL, NULL), 0);
  }
  static const uint64_t order[] = {1, 3, 4, 5, 9};
  for (unsigned i = 0; i < FS_ARRAY_LEN(order); i++, seq = r->seq) {
    r = fs_names_after(n, 1, seq);
    assert_non_null(r);
    assert_int_equal(r->seq, order[i]);
  }
  assert_int_equal(r->size, 5); /* the later one with seq 9 */
  assert_null(fs_names_after(n, 1, 9));
  struct fs_record w = a_record(1, 50, "new");
  assert_int_equal(fs_names_put(n, &w, "new", NULL, &r), 0);
  assert_int_equal(r->seq, 10);
  fs_names_free(n);
}

static void count_dir(void *ctx, uint64_t dir) {
  ((unsigned *)ctx)[dir]++;
}

/* A backup hears of old ones after newer ones, of some twice, and of removals in between. */
static void test_late_ones(void **state) {
  (void)state;
  enum { SEQS = 300 };
  struct fs_names *n;
  char name[32];
  unsigned id_of[SEQS + 1] = {0}; /* + 1 */
  assert_int_equal(fs_names_new(&n), 0);
  for (unsigned step = 0; step < 100000; step++) {
    /* mostly in order, in two places at once, as a new backup hears of them */
    unsigned seq = 1 + (step % 4 == 0 ? random_below(SEQS) : (step / 2 + (step % 2) * SEQS / 2) % SEQS);
    unsigned id = 500 + seq + SEQS * random_below(2);
    snprintf(name, sizeof(name), "%u", id);
    struct fs_record r = a_record(1, id, name);
    r.seq = seq;
    if (random_below(5) > 0) {
      assert_int_equal(fs_names_put(n, &r, name, NULL, NULL), 0);
      id_of[seq] = id + 1;
    } else {
      assert_int_equal(fs_names_drop(n, 1, r.id), id_of[seq] == id + 1);
      if (id_of[seq] == id + 1) id_of[seq] = 0;
    }
    if (random_below(50) > 0) continue;
    uint64_t at = 0, count = 0;
    for (unsigned s = 1; s <= SEQS; s++) {
      if (id_of[s] == 0) continue;
      const struct fs_record *found = fs_names_after(n, 1, at);
      assert_non_null(found);
      assert_int_equal(found->seq, s);
      assert_int_equal(found->size, id_of[s] - 1);
      at = s;
      count++;
    }
    assert_null(fs_names_after(n, 1, at));
    assert_int_equal(fs_names_count(n, 1), count);
  }
  fs_names_free(n);
}

static void test_directories(void **state) {
  (void)state;
  struct fs_names *n;
  unsigned seen[4] = {0};
  assert_int_equal(fs_names_new(&n), 0);
  struct fs_record a = a_record(1, 0, "a"), b = a_record(2, 1, "link");
  b.mode = S_IFLNK | 0777;
  b.target_len = 6;
  assert_int_equal(fs_names_put(n, &a, "a", NULL, NULL), 0);
  assert_int_equal(fs_names_put(n, &b, "link", "target", NULL), 0);
  assert_memory_equal(fs_record_target(fs_names_find(n, 2, "link", 4)), "target", 6);
  assert_false(fs_names_closed(n, 3, 100));
  assert_int_equal(fs_names_close(n, 3, 200), 0);
  assert_true(fs_names_closed(n, 3, 199));
  assert_false(fs_names_closed(n, 3, 200));
  assert_int_equal(fs_names_close(n, 3, 0), 0);
  assert_false(fs_names_closed(n, 3, 100));
  fs_names_each(n, count_dir, seen);
  assert_int_equal(seen[1] + seen[2] + seen[3], 3);
  fs_names_drop_dir(n, 2);
  assert_null(fs_names_find(n, 2, "link", 4));
  assert_null(fs_names_find_id(n, 2, b.id));
  assert_non_null(fs_names_find(n, 1, "a", 1));
  fs_names_free(n);
}

/* ---- records in messages ---- */

static void test_messages(void **state) {
  (void)state;
  alignas(8) char body[512];
  size_t at = 0;
  struct fs_record r = a_record(9, 4, "name");
  assert_true(fs_record_put(body, sizeof(body), &at, &r, "name", NULL));
  size_t one = at;
  while (fs_record_put(body, sizeof(body), &at, &r, "name", NULL)) continue;
  assert_true(at <= sizeof(body) && at + one > sizeof(body));
  size_t end = at, n = 0;
  for (at = 0; fs_record_next(body, end, &at) != NULL;) n++;
  assert_int_equal(n, end / one);
  for (size_t cut = 0; cut < one; cut++) {
    at = 0;
    assert_null(fs_record_next(body, cut, &at));
    assert_int_equal(at, 0);
  }
}

static void test_insane_messages(void **state) {
  (void)state;
  static const char *const bad_names[] = {".", "..", "a/b", ""};
  alignas(8) char body[512];
  for (unsigned i = 0; i < FS_ARRAY_LEN(bad_names); i++) {
    size_t at = 0;
    struct fs_record r = a_record(9, 4, bad_names[i]);
    assert_true(fs_record_put(body, sizeof(body), &at, &r, bad_names[i], NULL));
    at = 0;
    assert_null(fs_record_next(body, sizeof(body), &at));
  }
  struct fs_record good = a_record(9, 4, "n"), r[8];
  for (unsigned i = 0; i < FS_ARRAY_LEN(r); i++) r[i] = good;
  r[0].mode = S_IFIFO | 0600;
  r[1].id = 5;
  r[2].dir = 0;
  r[3].mtime_ns = 1000000000;
  r[4].size = UINT64_MAX;
  r[5].seq = UINT64_MAX;
  r[6].target_len = 1;
  r[7].mode = S_IFLNK | 0777;
  for (unsigned i = 0; i < FS_ARRAY_LEN(r); i++) {
    size_t at = 0;
    assert_true(fs_record_put(body, sizeof(body), &at, &r[i], "n", "t"));
    at = 0;
    assert_null(fs_record_next(body, sizeof(body), &at));
  }
}

/* A symlink's target is as long as it says, and text. */
static void test_insane_targets(void **state) {
  (void)state;
  static const char *const targets[] = {"ok", "\0k", "o\0"};
  alignas(8) char body[512];
  for (unsigned i = 0; i < FS_ARRAY_LEN(targets); i++) {
    size_t at = 0;
    struct fs_record r = a_record(9, 4, "n");
    r.mode = S_IFLNK | 0777;
    r.target_len = 2;
    assert_true(fs_record_put(body, sizeof(body), &at, &r, "n", targets[i]));
    at = 0;
    assert_int_equal(fs_record_next(body, sizeof(body), &at) != NULL, i == 0);
  }
}

/* ---- listings ---- */

/* A listing has whole names only; what is said of a name takes no more than the most bytes. */
static void test_listed(void **state) {
  (void)state;
  char body[1000], text[FS_RECORD_NAME_MAX + 1];
  size_t end = 0, at = 0;
  struct fs_listed l;
  memset(text, 'x', sizeof(text));
  text[FS_RECORD_NAME_MAX] = '\0';
  struct {
    struct fs_record r;
    char name[FS_RECORD_NAME_MAX + 1];
  } longest = {.r = a_record(9, 4, text)}, taken = {.r = a_record(9, 4, "t"), .name = "t"};
  memcpy(longest.name, text, sizeof(text));
  longest.r.seq = 7;
  taken.r.seq = FS_RECORD_SEQ_MAX;
  taken.r.flags = FS_RECORD_TAKEN | FS_RECORD_PUBLISHED;
  taken.r.mode = FS_WHITEOUT;
  assert_false(fs_listed_put(body, FS_LISTED_MOST - 1, &end, &longest.r));
  assert_int_equal(end, 0);
  assert_true(fs_listed_put(body, FS_LISTED_MOST, &end, &longest.r));
  assert_int_equal(end, FS_LISTED_MOST);
  assert_true(fs_listed_put(body, sizeof(body), &end, &taken.r));
  for (size_t cut = 0; cut < end; cut++) {
    size_t from = cut < FS_LISTED_MOST ? 0 : FS_LISTED_MOST;
    assert_null(fs_listed_next(body, cut, &from, &l));
  }
  const char *name = fs_listed_next(body, end, &at, &l);
  assert_true(name && l.id == longest.r.id && l.seq == 7 && l.flags == 0);
  assert_memory_equal(name, text, l.name_len);
  assert_int_equal(l.name_len, FS_RECORD_NAME_MAX);
  assert_non_null(fs_listed_next(body, end, &at, &l));
  assert_true(l.seq == FS_RECORD_SEQ_MAX && l.flags == FS_RECORD_TAKEN && l.mode == FS_WHITEOUT && at == end);
}

static void test_insane_listed(void **state) {
  (void)state;
  const struct fs_listed good = {.id = FS_OUTPUT_ID | 5, .seq = 1, .mode = S_IFREG | 0644, .name_len = 1};
  struct fs_listed bad[6], l;
  for (unsigned i = 0; i < FS_ARRAY_LEN(bad); i++) bad[i] = good;
  bad[1].id = 5;
  bad[2].seq = 0;
  bad[3].seq = FS_RECORD_SEQ_MAX + 1;
  bad[4].mode = S_IFIFO | 0600;
  bad[5].name_len = 256;
  for (unsigned i = 0; i <= FS_ARRAY_LEN(bad); i++) {
    char body[FS_LISTED_MOST + 8] = "";
    size_t at = 0;
    memcpy(body, i < FS_ARRAY_LEN(bad) ? &bad[i] : &good, sizeof(good));
    memset(body + sizeof(good), i < FS_ARRAY_LEN(bad) ? 'n' : '/', 256);
    assert_int_equal(fs_listed_next(body, sizeof(body), &at, &l) != NULL, i == 0);
  }
}

/* ---- calls ---- */

static bool call_ok(struct fs_names_call c, const void *name, size_t n, const void *name2, size_t n2) {
  alignas(8) char body[FS_NAMES_BODY] = {0};
  memcpy(body, &c, sizeof(c));
  size_t size = fs_call_put((void *)body, name, n, name2, n2);
  bool ok = fs_call_ok(body, size);
  assert_false(fs_call_ok(body, size - 1)); /* cut */
  return ok;
}

static void test_calls(void **state) {
  (void)state;
  const uint64_t id = FS_OUTPUT_ID_MAKE(1, 5);
  const struct fs_names_call rename = {.op = FS_NAMES_RENAME, .rename = {.dir = id, .to = id}};
  struct fs_names_call c = rename;
  assert_true(call_ok(c, "a", 1, "b", 1));
  c.rename.to = 0;
  assert_false(call_ok(c, "a", 1, "b", 1));
  c.rename.to = id | 1ull << 63;
  assert_false(call_ok(c, "a", 1, "b", 1));
  c = (struct fs_names_call){.op = FS_NAMES_APPEND, .append = {.id = id, .bytes = 4}};
  assert_true(call_ok(c, "abcd", 4, "", 0) && call_ok(c, "", 0, "", 0));
  assert_false(call_ok(c, "abc", 3, "", 0) || call_ok(c, "abcde", 5, "", 0));
}

/* Each operation has a row; a number that is none, a flag or a tail that it has not is refused. */
static void test_table(void **state) {
  (void)state;
  struct fs_names_call c = {.op = FS_NAMES_PING};
  assert_true(call_ok(c, "", 0, "", 0));
  for (uint32_t op = 1; op < FS_NAMES_OPS; op++) assert_true(fs_ops[op].name && fs_ops[op].scope != FS_SCOPE_NONE);
  for (uint32_t op = 1; op < FS_NAMES_OPS; op++) {
    struct fs_names_call odd = {.op = op, .flags = ~fs_ops[op].flags};
    assert_false(call_ok(odd, "", 0, "", 0));
    if (fs_ops[op].dir) assert_false(call_ok((struct fs_names_call){.op = op}, "a", 1, "", 0));
  }
  assert_false(call_ok(c, "a", 1, "", 0) || call_ok(c, "", 0, "a", 1));
  for (uint32_t op = FS_NAMES_OPS; op != 1; op = op == FS_NAMES_OPS ? UINT32_MAX : op == UINT32_MAX ? 0 : 1) {
    c.op = op;
    assert_false(call_ok(c, "", 0, "", 0));
  }
}

/* A client or another node that sends a name of more than 255 bytes is refused, whatever the call is. */
static void test_long_names(void **state) {
  (void)state;
  const uint64_t id = FS_OUTPUT_ID_MAKE(1, 5);
  const struct fs_names_call calls[] = {
      {.op = FS_NAMES_LOOKUP, .lookup.dir = id},
      {.op = FS_NAMES_REMOVE, .remove.dir = id},
      {.op = FS_NAMES_TAKE, .take = {.dir = id, .to = id}},
      {.op = FS_NAMES_CREATE, .create = {.dir = id, .id = id, .mode = S_IFDIR | 0700}},
  };
  char name[300];
  memset(name, 'y', sizeof(name));
  for (unsigned i = 0; i < FS_ARRAY_LEN(calls); i++) {
    assert_true(call_ok(calls[i], name, 255, "", 0));
    assert_false(call_ok(calls[i], name, 256, "", 0) || call_ok(calls[i], name, 300, "", 0));
  }
  struct fs_names_call c = {.op = FS_NAMES_RENAME, .rename = {.dir = id, .to = id}};
  assert_true(call_ok(c, name, 255, name, 255));
  assert_false(call_ok(c, name, 255, name, 256) || call_ok(c, name, 256, name, 255));
}

/* Ranges, and extent maps, end where a file can end. */
static void test_ranges(void **state) {
  (void)state;
  const uint64_t id = FS_OUTPUT_ID_MAKE(1, 5), most = INT64_MAX;
  const struct fs_names_call extend = {.op = FS_NAMES_EXTEND, .extend = {.id = id, .segment = id}};
  const struct fs_names_call replica = {.op = FS_NAMES_REPLICA,
                                        .replica = {.id = id, .dir = id, .mode = S_IFREG | 0600}};
  const struct {
    uint64_t off, len;
    bool ok;
  } is[] = {{0, 1, true},         {most - 1, 1, true},  {0, most, true},       {most, 1, false},
            {0, most + 1, false}, {most + 1, 1, false}, {UINT64_MAX, 2, false}};
  for (unsigned i = 0; i < FS_ARRAY_LEN(is); i++) {
    struct fs_range r = {.off = is[i].off, .len = is[i].len};
    struct {
      struct fs_replica_list head;
      struct fs_output_extent extent;
    } list = {.extent = {.off = is[i].off, .len = is[i].len, .segment = id}};
    assert_int_equal(call_ok(extend, &r, sizeof(r), "", 0), is[i].ok);
    assert_int_equal(call_ok(replica, "", 0, &list, sizeof(list)), is[i].ok);
    list.extent.segment = 5;
    assert_false(call_ok(replica, "", 0, &list, sizeof(list)));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_model),
      cmocka_unit_test(test_many),
      cmocka_unit_test(test_a_listing_goes_on_after_changes),
      cmocka_unit_test(test_given_seq),
      cmocka_unit_test(test_late_ones),
      cmocka_unit_test(test_directories),
      cmocka_unit_test(test_messages),
      cmocka_unit_test(test_insane_messages),
      cmocka_unit_test(test_insane_targets),
      cmocka_unit_test(test_listed),
      cmocka_unit_test(test_insane_listed),
      cmocka_unit_test(test_calls),
      cmocka_unit_test(test_table),
      cmocka_unit_test(test_long_names),
      cmocka_unit_test(test_ranges),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
