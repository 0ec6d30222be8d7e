/* SPDX-License-Identifier: BSD-3-Clause */
/* Which two members keep a directory (daemon/metadata/members.h), for every set that evictions leave. */
#include "daemon/metadata/members.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ipc/record.h"

#define NODES 8u
#define DIRS 1000u

static void made_by(uint64_t *dir, uint32_t maker) {
  for (uint32_t i = 0; i < DIRS; i++) dir[i] = maker < NODES ? FS_OUTPUT_ID_MAKE(maker, i + 1) : FS_DATASET_DIR(0, i);
}

/* What a rank kept goes to the directory's backup, and nothing else moves. */
static void check_eviction(const struct fs_members *was, uint32_t rank, const uint64_t *dir) {
  struct fs_members is = *was;
  fs_members_without(&is, rank);
  for (uint32_t i = 0; i < DIRS; i++) {
    struct fs_keepers old = fs_members_keepers(was, dir[i]), new = fs_members_keepers(&is, dir[i]);
    assert_int_equal(new.primary, old.primary == rank ? old.backup : old.primary);
    if (old.primary != rank && old.backup != rank) assert_int_equal(new.backup, old.backup);
  }
}

/* Returns the smallest and the largest share of the members other than `but`. */
static void shares(const struct fs_members *m, const uint64_t *dir, bool backup, uint32_t but, uint32_t range[2]) {
  uint32_t count[NODES] = {0};
  range[0] = DIRS, range[1] = 0;
  for (uint32_t i = 0; i < DIRS; i++) {
    struct fs_keepers k = fs_members_keepers(m, dir[i]);
    count[backup ? k.backup : k.primary]++;
  }
  for (uint32_t i = 0; i < NODES; i++) {
    if (i == but || !fs_member(m, i)) continue;
    range[0] = FS_MIN(range[0], count[i]);
    range[1] = FS_MAX(range[1], count[i]);
  }
}

static void test_keepers(void **state) {
  (void)state;
  static uint64_t dir[DIRS];
  for (uint32_t maker = 0; maker <= NODES; maker++) { /* NODES: the dataset's directories */
    struct fs_members m;
    fs_members_all(&m, NODES);
    made_by(dir, maker);
    for (uint32_t n = NODES, gone = maker % 3; n > 1; n--, gone = (gone + 3) % NODES) {
      uint32_t range[2];
      bool makers = fs_member(&m, maker);
      for (uint32_t i = 0; makers && i < DIRS; i++) assert_int_equal(fs_members_keepers(&m, dir[i]).primary, maker);
      shares(&m, dir, makers, makers ? maker : NODES, range);
      assert_in_range(range[0], DIRS / n * 2 / 3, DIRS);
      assert_in_range(range[1], 0, DIRS / (makers ? n - 1 : n) * 3 / 2);
      check_eviction(&m, gone, dir);
      fs_members_without(&m, gone);
    }
    struct fs_keepers last = fs_members_keepers(&m, dir[0]);
    assert_true(fs_member(&m, last.primary));
    assert_int_equal(last.backup, FS_NO_RANK);
  }
}

/* The rank in an id may be none of the job's: ids come from other daemons. */
static void test_unknown_maker(void **state) {
  (void)state;
  struct fs_members m;
  fs_members_all(&m, 2);
  for (uint32_t i = 0; i < DIRS; i++) {
    struct fs_keepers k = fs_members_keepers(&m, FS_OUTPUT_ID_MAKE(0x3fff, i));
    assert_int_equal(k.primary + k.backup, 1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_keepers), cmocka_unit_test(test_unknown_maker)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
