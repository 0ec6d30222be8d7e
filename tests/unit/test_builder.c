/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of the hash table, in an index of many names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "index_fixture.h"

/* A table of which each look-up would go over all must not be believed. */
static void test_probe_bound(void **state) {
  char name[16], why[256] = "";
  struct fs_index ix;
  void *out;
  uint64_t size;
  struct fs_builder *b = fs_builder_new(FIX_BLOCK, FS_ALIGN);
  (void)state;
  assert_int_equal(fs_builder_add(b, &(struct fs_build_file){.path = "", .mode = S_IFDIR | 0755}), 0);
  for (unsigned i = 0; i < 5000; i++) {
    snprintf(name, sizeof(name), "f%u", i);
    assert_int_equal(fs_builder_add(b, &(struct fs_build_file){.path = name, .mode = S_IFREG | 0644}), 0);
  }
  assert_int_equal(fs_builder_finish(b, &out, &size, why, sizeof(why)), 0);
  struct fs_index_header *h = out;
  assert_true(h->section[FS_SEC_BUCKETS].count > FS_PROBE_MAX && h->max_probe < 200);
  h->max_probe = FS_PROBE_MAX;
  fix_checksums(out, size, false);
  assert_int_equal(fs_index_attach(out, size, &ix, why, sizeof(why)), 0);
  h->max_probe = FS_PROBE_MAX + 1;
  fix_checksums(out, size, false);
  assert_int_equal(fs_index_attach(out, size, &ix, why, sizeof(why)), -EBADMSG);
  assert_non_null(strstr(why, "hash table"));
  fs_builder_release(out, size);
  fs_builder_free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_probe_bound)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
