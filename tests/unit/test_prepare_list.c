/* SPDX-License-Identifier: BSD-3-Clause */
/* fs-prepare list: a dataset with right checksums may call a file as large as it likes. */
#include "data_fixture.h"

int fs_prep_list(int argc, char **argv);

/* Of the index: its largest file is said to have so many bytes, in blocks that are not there. */
static void enlarge(struct fix *f, uint64_t size) {
  struct fs_index ix;
  struct fs_manifest m;
  char path[512], text[8192];
  snprintf(path, sizeof(path), "%s/index", f->dataset);
  assert_int_equal(fs_index_open(path, &ix, NULL, 0), 0);
  uint8_t *bytes = malloc(ix.map_size);
  memcpy(bytes, ix.map, ix.map_size);
  struct fs_index_header *h = (void *)bytes;
  struct fs_entry *e = (void *)(bytes + h->section[FS_SEC_ENTRIES].offset);
  int64_t n = fs_index_lookup(&ix, "scatter", 7);
  assert_true(n > 0);
  e[n].size = size;
  h->section[FS_SEC_ENTRIES].xxh3 = fs_xxh3(e, h->section[FS_SEC_ENTRIES].count * sizeof(*e));
  h->header_xxh3 = fs_xxh3(h, offsetof(struct fs_index_header, header_xxh3));
  assert_int_equal(fs_manifest_load(f->dataset, &m, NULL, 0), 0);
  m.index_xxh3 = fs_xxh3(bytes, ix.map_size);
  m.files = h->files;
  m.dirs = h->dirs;
  m.symlinks = h->symlinks;
  m.plain_bytes = h->plain_bytes;
  m.stored_bytes = h->stored_bytes;
  fs_ssize len = fs_manifest_format(&m, text, sizeof(text));
  assert_true(len > 0);
  fix_write(f->dataset, "index", bytes, ix.map_size);
  fix_write(f->dataset, "manifest", text, (size_t)len);
  fs_index_close(&ix);
  free(bytes);
}

static void test_exabytes(void **state) {
  struct fix *f = *state;
  int status;
  enlarge(f, 1ull << 62);
  pid_t pid = fork();
  if (pid == 0) {
    char *words[] = {(char *)"list", (char *)"-l", f->dataset, NULL};
    alarm(60);
    dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 1);
    _exit(fs_prep_list(3, words));
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_exabytes, fix_setup, fix_teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
