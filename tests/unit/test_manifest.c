/* SPDX-License-Identifier: BSD-3-Clause */
/* The manifest and the partition headers: round trips, and one clear line for each kind of damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/manifest.h"
#include "util/sys.h"
#include "util/util.h"

static const struct fs_manifest sample = {.version = FS_FORMAT_VERSION,
                                          .dataset_id = {1, 2, 3, 0xff},
                                          .mount = "/data/image net\n\\x\xc3\xa9\x01/t:",
                                          .codec = "lz4hc:9",
                                          .block_size = 262144,
                                          .partitions = 16,
                                          .files = 1281167,
                                          .dirs = 1001,
                                          .symlinks = 3,
                                          .plain_bytes = 1ull << 40,
                                          .stored_bytes = UINT64_MAX,
                                          .index_size = 384,
                                          .index_xxh3 = 0x0123456789abcdefull};

static size_t sample_text(char *out, size_t size) {
  fs_ssize n = fs_manifest_format(&sample, out, size);
  assert_true(n > 0);
  return (size_t)n;
}

/* Parses a body to which a right checksum is added. */
static fs_err parse_body(const char *body, char *why, size_t why_size) {
  char text[8192];
  static struct fs_manifest m;
  int n = snprintf(text, sizeof(text), "%schecksum %016llx\n", body, (unsigned long long)fs_xxh3(body, strlen(body)));
  *why = '\0';
  return fs_manifest_parse(text, (size_t)n, &m, why, why_size);
}

static void test_round_trip(void **state) {
  (void)state;
  char text[8192], again[8192], why[256] = "";
  static struct fs_manifest m;
  size_t n = sample_text(text, sizeof(text));
  assert_int_equal(fs_manifest_parse(text, n, &m, why, sizeof(why)), 0);
  assert_memory_equal(&m, &sample, sizeof(m));
  assert_int_equal(fs_manifest_format(&m, again, sizeof(again)), n);
  assert_memory_equal(text, again, n);
  for (size_t i = 0; i < n; i++) assert_true(text[i] == '\n' || (text[i] >= 0x20 && text[i] < 0x7f));
  for (size_t size = 1; size <= n; size++) assert_int_equal(fs_manifest_format(&sample, again, size), -ENOSPC);
}

static void test_longest_mount(void **state) {
  (void)state;
  static struct fs_manifest m, back;
  static char text[64 << 10];
  m = sample;
  memset(m.mount, 0x80, PATH_MAX - 1);
  m.mount[0] = '/';
  m.mount[PATH_MAX - 1] = '\0';
  fs_ssize n = fs_manifest_format(&m, text, sizeof(text));
  assert_true(n > 4 * (PATH_MAX - 2));
  assert_int_equal(fs_manifest_parse(text, (size_t)n, &back, NULL, 0), 0);
  assert_memory_equal(&m, &back, sizeof(m));
}

/* Each byte changed, each truncation: refused. */
static void test_damaged(void **state) {
  (void)state;
  char text[8192], why[256];
  static struct fs_manifest m;
  size_t n = sample_text(text, sizeof(text));
  for (size_t i = 0; i < n; i++) {
    assert_true(fs_manifest_parse(text, i, &m, why, sizeof(why)) < 0);
    for (unsigned flip = 1; flip < 256; flip <<= 1) {
      text[i] = (char)(text[i] ^ (char)flip);
      assert_true(fs_manifest_parse(text, n, &m, why, sizeof(why)) < 0);
      text[i] = (char)(text[i] ^ (char)flip);
    }
  }
}

/* Replaces `from` in the sample's body, or appends when from is "". */
static fs_err change(const char *from, const char *to, char *why, size_t why_size) {
  char text[8192], body[8192];
  size_t n = sample_text(text, sizeof(text));
  *strstr(text, "checksum ") = '\0';
  assert_true(n > 0);
  const char *at = *from ? strstr(text, from) : text + strlen(text);
  assert_non_null(at);
  snprintf(body, sizeof(body), "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
  return parse_body(body, why, why_size);
}

static void test_errors(void **state) {
  (void)state;
  static const struct {
    const char *from, *to;
    fs_err err;
    const char *says;
  } cases[] = {
      {"fanstore-dataset 2\n", "fanstore-dataset 3\n", -EPROTONOSUPPORT,
       "dataset has format version 3, this FanStore reads versions 1 and 2: use a newer FanStore"},
      {"fanstore-dataset 2\n", "fanstore-dataset 0\n", -EPFNOSUPPORT,
       "dataset has format version 0, this FanStore reads versions 1 and 2: pack it again"},
      {"fanstore-dataset 2\n", "fanstore-dataset 1\n", 0, ""},
      {"fanstore-dataset 2\n", "something 1\n", -EINVAL, "not a FanStore manifest"},
      {"", "x-note anything at all\nx-\n", 0, ""},
      {"", "color blue\n", -EINVAL, "unknown key 'color'"},
      {"", "files 3\n", -EINVAL, "'files' is given twice"},
      {"files 1281167\n", "", -EINVAL, "'files' is missing"},
      {"files 1281167\n", "files\n", -EINVAL, "line 'files' has no value"},
      {"files 1281167\n", "files 12x\n", -EINVAL, "'files' has a bad value"},
      {"files 1281167\n", "files 99999999999\n", -EINVAL, "'files' has a bad value"},
      {"files 1281167\n", "files -1\n", -EINVAL, "'files' has a bad value"},
      {"block_size 262144", "block_size 262143", -EINVAL, "'block_size' has a bad value"},
      {"block_size 262144", "block_size 1024", -EINVAL, "'block_size' has a bad value"},
      {"partitions 16", "partitions 65537", -EINVAL, "'partitions' has a bad value"},
      {"mount /", "mount ", -EINVAL, "'mount' has a bad value"},
      {"mount /", "mount //", -EINVAL, "'mount' has a bad value"},
      {"mount /", "mount /../", -EINVAL, "'mount' has a bad value"},
      {"mount /", "mount /\\x00", -EINVAL, "'mount' has a bad value"},
      {"mount /", "mount /\\x4g", -EINVAL, "'mount' has a bad value"},
      {"mount /", "mount /\\n", -EINVAL, "'mount' has a bad value"},
      {"codec lz4hc:9", "codec ", -EINVAL, "'codec' has a bad value"},
      {"codec lz4hc:9", "codec 0123456789012345678901234567890123456789", -EINVAL, "'codec' has a bad value"},
      {"dataset_id 01", "dataset_id 0", -EINVAL, "'dataset_id' has a bad value"},
      {"index_xxh3 01", "index_xxh3 zz", -EINVAL, "'index_xxh3' has a bad value"},
  };
  char why[256];
  for (size_t i = 0; i < FS_ARRAY_LEN(cases); i++) {
    fs_err err = change(cases[i].from, cases[i].to, why, sizeof(why));
    if (err != cases[i].err || !strstr(why, cases[i].says)) print_error("case %zu: %d '%s'\n", i, err, why);
    assert_int_equal(err, cases[i].err);
    assert_non_null(strstr(why, cases[i].says));
    assert_null(strchr(why, '\n'));
  }
}

/* What is behind a NUL would be passed over. */
static void test_nul(void **state) {
  (void)state;
  char text[8192], why[256] = "", *at;
  static struct fs_manifest m;
  sample_text(text, sizeof(text));
  at = strstr(text, "checksum ");
  assert_non_null(at);
  for (unsigned i = 0; i < 2; i++) {
    memcpy(at, i == 0 ? "x-note _more\n" : "x-note \0more\n", 13);
    int n = sprintf(at + 13, "checksum %016llx\n", (unsigned long long)fs_xxh3(text, (size_t)(at + 13 - text)));
    assert_int_equal(fs_manifest_parse(text, (size_t)(at + 13 - text + n), &m, why, sizeof(why)), i == 0 ? 0 : -EINVAL);
  }
  assert_non_null(strstr(why, "NUL"));
}

static void write_file(const char *path, const char *text, size_t n) {
  int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
  assert_int_equal(fs_write_full(fd, text, n), 0);
  close(fd);
}

static void test_load(void **state) {
  (void)state;
  char dir[] = "/tmp/fs-test-manifest-XXXXXX", path[64], text[8192], why[256];
  static struct fs_manifest m;
  size_t n = sample_text(text, sizeof(text));
  assert_int_equal(fs_manifest_load("/nonexistent/dataset", &m, why, sizeof(why)), -ENOENT);
  assert_string_equal(why, "/nonexistent/dataset: no such dataset");
  assert_non_null(mkdtemp(dir));
  assert_int_equal(fs_manifest_load(dir, &m, why, sizeof(why)), -ENOENT);
  assert_non_null(
      strstr(why, ": no such dataset: it has no manifest; if it is not packed yet, run: fs-prepare pack /"));
  snprintf(path, sizeof(path), "%s/index", dir);
  write_file(path, text, n);
  assert_int_equal(fs_manifest_load(dir, &m, why, sizeof(why)), -ENOENT);
  assert_non_null(strstr(why, ": no such dataset: it has no manifest but an index; copy all"));
  snprintf(path, sizeof(path), "%s/manifest", dir);
  write_file(path, text, n);
  assert_int_equal(fs_manifest_load(dir, &m, why, sizeof(why)), 0);
  assert_memory_equal(&m, &sample, sizeof(m));
  assert_int_equal(fs_manifest_load(path, &m, why, sizeof(why)), -ENOENT); /* a file is no dataset */
  write_file(path, text, n - 30);
  assert_int_equal(fs_manifest_load(dir, &m, why, sizeof(why)), -EBADMSG);
  assert_non_null(strstr(why, "manifest is truncated"));
  assert_int_equal(fs_manifest_load(dir, &m, NULL, 0), -EBADMSG);
  assert_int_equal(fs_remove_tree(dir), 0);
}

static void test_part_header(void **state) {
  (void)state;
  static alignas(8) uint8_t page[FS_PART_HEADER_SIZE];
  const struct fs_part_rec rec = {.size = 8192, .xxh3 = 77}, other = {.size = 8192, .xxh3 = 78},
                           longer = {.size = 12288, .xxh3 = 77};
  struct fs_part_header *h = (void *)page;
  const uint8_t other_id[16] = {9};
  char why[256] = "";
  memset(page, 0xaa, sizeof(page));
  fs_part_header_make(page, 5, &rec, sample.dataset_id);
  assert_int_equal(fs_part_header_check(page, sizeof(page), 5, &rec, why, sizeof(why)), 0);
  for (size_t i = sizeof(struct fs_part_header); i < sizeof(page); i++) assert_int_equal(page[i], 0);
  assert_int_equal(fs_part_header_check(page, 71, 5, &rec, why, sizeof(why)), -EBADMSG);
  assert_int_equal(fs_part_header_check(page, sizeof(page), 6, &rec, why, sizeof(why)), -EBADMSG);
  assert_int_equal(fs_part_header_check(page, sizeof(page), 5, &other, why, sizeof(why)), -EBADMSG);
  assert_int_equal(fs_part_header_check(page, sizeof(page), 5, &longer, why, sizeof(why)), -EBADMSG);
  memcpy(h->dataset_id, other_id, sizeof(other_id)); /* a later dataset may have it too, and of version 1 */
  h->version = FS_FORMAT_VERSION_OLDEST;
  h->header_xxh3 = fs_xxh3(h, offsetof(struct fs_part_header, header_xxh3));
  assert_int_equal(fs_part_header_check(page, sizeof(page), 5, &rec, why, sizeof(why)), 0);
  for (size_t i = 0; i < sizeof(struct fs_part_header); i++) {
    page[i] ^= 4;
    fs_err err = fs_part_header_check(page, sizeof(page), 5, &rec, why, sizeof(why));
    assert_int_equal(err, i >= 8 && i < 12 ? -EPROTONOSUPPORT : -EBADMSG);
    page[i] ^= 4;
  }
  h->version = 0;
  assert_int_equal(fs_part_header_check(page, sizeof(page), 5, &rec, why, sizeof(why)), -EPFNOSUPPORT);
  assert_non_null(strstr(why, "pack it again"));
  h->version = FS_FORMAT_VERSION;
  h->feature_incompat = 1;
  h->header_xxh3 = fs_xxh3(h, offsetof(struct fs_part_header, header_xxh3));
  assert_int_equal(fs_part_header_check(page, sizeof(page), 5, &rec, why, sizeof(why)), -EPROTONOSUPPORT);
  assert_non_null(strstr(why, "uses features that this FanStore does not know: use a newer FanStore"));
}

/* With FS_FUZZ_SEEDS=DIR the text goes there too, as a seed for tests/fuzz/fuzz_manifest.c. */
static void test_seed(void **state) {
  (void)state;
  const char *dir = getenv("FS_FUZZ_SEEDS");
  char path[PATH_MAX], text[8192];
  if (!dir) skip();
  size_t n = sample_text(text, sizeof(text));
  snprintf(path, sizeof(path), "%s/manifest", dir);
  write_file(path, text, n);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_longest_mount), cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_errors),      cmocka_unit_test(test_nul),           cmocka_unit_test(test_load),
      cmocka_unit_test(test_part_header), cmocka_unit_test(test_seed),
  };
  return cmocka_run_group_tests_name("manifest", tests, NULL, NULL);
}
