/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The helpers of libfanstore/util: sizes, tables, lists, paths, printing, patterns, directories,
 * options, checksums.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "util/sys.h"
#include "util/table.h"
#include "util/util.h"
#include "util/xxh.h"

static void test_parse_size(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint64_t value;
  } good[] = {{"0", 0},
              {"4096", 4096},
              {"64K", 64 << 10},
              {"64k", 64 << 10},
              {"64KiB", 64 << 10},
              {"16M", 16 << 20},
              {"2G", 2ull << 30},
              {"1T", 1ull << 40},
              {"15E", 15ull << 60},
              {"18446744073709551615", UINT64_MAX}};
  static const char *const bad[] = {
      "", "K", "-1", "+1", " 1", "1 ", "1.5G", "1KB", "1Ki", "1X", "16E", "64KK", "18446744073709551616", "0x10"};
  uint64_t n;
  for (size_t i = 0; i < FS_ARRAY_LEN(good); i++) {
    assert_int_equal(fs_parse_size(good[i].text, &n), 0);
    assert_int_equal(n, good[i].value);
  }
  for (size_t i = 0; i < FS_ARRAY_LEN(bad); i++) assert_int_equal(fs_parse_size(bad[i], &n), -EINVAL);
  assert_int_equal(fs_parse_u64("7", 1, 7, &n), 0);
  assert_int_equal(n, 7);
  assert_int_equal(fs_parse_u64("8", 1, 7, &n), -EINVAL);
  assert_int_equal(fs_parse_u64("0", 1, 7, &n), -EINVAL);
  assert_int_equal(fs_parse_u64("7K", 1, 7000, &n), -EINVAL);
}

static void test_format_count(void **state) {
  char buf[32];
  (void)state;
  assert_string_equal(fs_format_count(0, "file", buf, sizeof(buf)), "0 files");
  assert_string_equal(fs_format_count(1, "directory", buf, sizeof(buf)), "1 directory");
  assert_string_equal(fs_format_count(12, "directory", buf, sizeof(buf)), "12 directories");
}

static void test_format_size(void **state) {
  (void)state;
  char buf[32];
  assert_string_equal(fs_format_size(0, buf, sizeof(buf)), "0 B");
  assert_string_equal(fs_format_size(1023, buf, sizeof(buf)), "1023 B");
  assert_string_equal(fs_format_size(1024, buf, sizeof(buf)), "1.0 KiB");
  assert_string_equal(fs_format_size(1536ull << 20, buf, sizeof(buf)), "1.5 GiB");
  assert_string_equal(fs_format_size((1 << 20) - 1, buf, sizeof(buf)), "1.0 MiB");
  assert_string_equal(fs_format_size(UINT64_MAX, buf, sizeof(buf)), "16.0 EiB");
}

static void test_hex(void **state) {
  (void)state;
  char text[33], name[FS_PART_NAME_SIZE];
  uint8_t bytes[16], back[16];
  for (int i = 0; i < 16; i++) bytes[i] = (uint8_t)(i * 17);
  assert_string_equal(fs_hex(bytes, 16, text), "00112233445566778899aabbccddeeff");
  assert_int_equal(fs_unhex(text, back, 16), 0);
  assert_memory_equal(bytes, back, 16);
  assert_int_equal(fs_unhex("0011", back, 16), -EINVAL);
  assert_int_equal(fs_unhex("00112g", back, 3), -EINVAL);
  assert_int_equal(fs_unhex("001122", back, 2), -EINVAL);
  assert_string_equal(fs_part_name(42, name), "part-00042");
  assert_string_equal(fs_part_name(UINT32_MAX, name), "part-4294967295");
}

static void test_lists(void **state) {
  (void)state;
  static const char *const items[] = {"/a", "/with:colon", "/back\\slash\\", "\\:", "last"};
  char list[128] = "", item[32];
  for (size_t i = 0; i < FS_ARRAY_LEN(items); i++) assert_int_equal(fs_list_append(list, sizeof(list), items[i]), 0);
  assert_string_equal(list, "/a:/with\\:colon:/back\\\\slash\\\\:\\\\\\::last");
  const char *cursor = list;
  for (size_t i = 0; i < FS_ARRAY_LEN(items); i++) {
    assert_int_equal(fs_list_next(&cursor, item, sizeof(item)), strlen(items[i]));
    assert_string_equal(item, items[i]);
  }
  assert_int_equal(fs_list_next(&cursor, item, sizeof(item)), -ENOENT);
  assert_int_equal(fs_list_next(&cursor, item, sizeof(item)), -ENOENT);
  cursor = ":::x:";
  assert_int_equal(fs_list_next(&cursor, item, sizeof(item)), 1);
  assert_int_equal(fs_list_next(&cursor, item, sizeof(item)), -ENOENT);
  cursor = "toolong:ok"; /* goes on after the one that does not fit */
  assert_int_equal(fs_list_next(&cursor, item, 7), -ENAMETOOLONG);
  assert_int_equal(fs_list_next(&cursor, item, 7), 2);
  for (size_t size = 1; size < 9; size++) { /* "ab:c\:d" and its NUL take 8 bytes */
    char small[9] = "", *guard = small + size;
    *guard = 'G';
    fs_err first = fs_list_append(small, size, "ab"), second = fs_list_append(small, size, "c:d");
    assert_int_equal(first, size >= 3 ? 0 : -ENAMETOOLONG);
    assert_int_equal(second, size >= (first ? 5 : 8) ? 0 : -ENAMETOOLONG);
    assert_string_equal(small, second == 0 ? "ab:c\\:d" : first == 0 ? "ab" : "");
    assert_int_equal(*guard, 'G');
  }
}

static void test_normalize(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {"/", "/"},       {"//", "/"},          {"/.", "/"},          {"/..", "/"},       {"/a", "/a"},
      {"/a/", "/a"},    {"/a//b", "/a/b"},    {"/a/./b", "/a/b"},   {"/a/../b", "/b"},  {"/a/b/../../..", "/"},
      {"/...", "/..."}, {"/a/..b", "/a/..b"}, {"/.a/b.", "/.a/b."}, {"/../../x", "/x"}, {"/a/b/..", "/a"},
  };
  char out[64];
  for (size_t i = 0; i < FS_ARRAY_LEN(pairs); i++) {
    assert_int_equal(fs_path_normalize(pairs[i][0], out, sizeof(out)), strlen(pairs[i][1]));
    assert_string_equal(out, pairs[i][1]);
    size_t need = strlen(pairs[i][1]) + 1;
    if (strcmp(pairs[i][0], pairs[i][1]) != 0) continue;
    assert_int_equal(fs_path_normalize(pairs[i][0], out, need), need - 1);
    assert_int_equal(fs_path_normalize(pairs[i][0], out, need - 1), -ENAMETOOLONG);
  }
  assert_int_equal(fs_path_normalize("", out, sizeof(out)), -EINVAL);
  assert_int_equal(fs_path_normalize("a/b", out, sizeof(out)), -EINVAL);
}

static fs_ssize below(const char *path, const char *prefix) {
  return fs_path_below(path, strlen(path), prefix, strlen(prefix));
}

static void test_below(void **state) {
  (void)state;
  assert_int_equal(below("/a/b", "/a"), 3);
  assert_int_equal(below("/a", "/a"), 2);
  assert_int_equal(below("/ab", "/a"), -1);
  assert_int_equal(below("/", "/a"), -1);
  assert_int_equal(below("/a", "/a/b"), -1);
  assert_int_equal(below("/a", "/"), 1);
  assert_int_equal(below("/", "/"), 1);
}

static void test_printable(void **state) {
  (void)state;
  char out[64];
  const char raw[] = "a\\b\n\t\x7f\xc3\xa9\xff\xc3(\xed\xa0\x80\xc2\x9b\xf0\x9f\x98\x80\xc0\xaf";
  assert_string_equal(fs_printable(raw, sizeof(raw) - 1, out, sizeof(out)),
                      "a\\\\b\\n\\x09\\x7f\xc3\xa9\\xff\\xc3(\\xed\\xa0\\x80\\xc2\\x9b\xf0\x9f\x98\x80\\xc0\\xaf");
  assert_string_equal(fs_printable("\xc3\xa9", 1, out, sizeof(out)), "\\xc3"); /* cut in the middle */
  assert_string_equal(fs_printable("abc\x01", 4, out, 7), "abc");              /* whole units only */
  assert_string_equal(fs_printable("abc", 3, out, 1), "");
  assert_string_equal(fs_one_line("a\\b\n\x1b[1m\xc2\x9b\xc3\xa9", out, sizeof(out)),
                      "a\\b\\n\\x1b[1m\\xc2\\x9b\xc3\xa9");
  fs_printable(raw, sizeof(raw) - 1, out, sizeof(out));
  char again[sizeof(out)];
  assert_string_equal(fs_one_line(out, again, sizeof(again)), out);
}

static void test_json(void **state) {
  (void)state;
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  assert_non_null(out);
  fs_json_string(out, "a\"\\\n\x1b\x7f\xc2\x9b\xc3\xa9\xff\xc3(\xed\xa0\x80\xf0\x9f\x98\x80");
  assert_int_equal(fclose(out), 0);
  assert_string_equal(text, "\"a\\\"\\\\\\u000a\\u001b\\u007f\\u009b\xc3\xa9\\udcff\\udcc3("
                            "\\udced\\udca0\\udc80\xf0\x9f\x98\x80\"");
  free(text);
}

static void test_glob(void **state) {
  (void)state;
  static const struct {
    const char *pattern, *path;
    bool match;
  } cases[] = {
      {"*.jpg", "a/b/x.jpg", true},
      {"*.jpg", "x.jpeg", false},
      {"x?z", "d/xyz", true},
      {"val", "val", true},
      {"val", "a/val", true},
      {"val", "val/a", false},
      {"val/*", "val/a", true},
      {"val/*", "val/a/b", false},
      {"val/**", "val/a/b", true},
      {"**/x", "x", true},
      {"**/x", "a/b/x", true},
      {"**/x", "a/bx", false},
      {"a/**/b", "a/b", true},
      {"a/**/b", "a/x/y/b", true},
      {"a/**/b", "a/xb", false},
      {"/a", "a", true},
      {"/a", "b/a", false},
      {"[a-c]x", "bx", true},
      {"[!a-c]x", "bx", false},
      {"[]]", "]", true},
      {"[", "[", true},
      {"a\\*", "a*", true},
      {"a\\*", "ab", false},
      {"a*b*c", "aXbXbXc", true},
      {"a*b*c", "aXbXbX", false},
      {"*", "", true},
      {"?", "", false},
      {"a?b/*", "a/b/c", false},
      {"a/**/*.jpg", "a/b/c/x.jpg", true},
      {"a/**/c/*", "a/c/b/c/x", true},
      {"**", "a/b", true},
      {"a**/b", "ab", false},
      {"a**/b", "ax/y/b", true},
      {"**/a**/**/a", "aaa/aa", false},
      {"**/a**/**/a", "b/aa/x/a", true},
      {"[a", "[a", true},
      {"a[/]b/x", "a/b/x", false},
      {"*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
  };
  for (size_t i = 0; i < FS_ARRAY_LEN(cases); i++) {
    bool match = fs_glob_match(cases[i].pattern, cases[i].path);
    if (match != cases[i].match) print_error("pattern '%s', path '%s'\n", cases[i].pattern, cases[i].path);
    assert_int_equal(match, cases[i].match);
  }
}

static void touch(const char *dir, const char *name) {
  char path[128];
  snprintf(path, sizeof(path), "%s/%s", dir, name);
  int fd = open(path, O_CREAT | O_WRONLY, 0600);
  assert_true(fd >= 0);
  close(fd);
}

static void test_trees(void **state) {
  (void)state;
  char dir[] = "/tmp/fs-test-util-XXXXXX", path[128], keep[128];
  struct stat st;
  assert_non_null(mkdtemp(dir));
  snprintf(path, sizeof(path), "%s/tree/a//b/c/", dir);
  assert_int_equal(fs_mkdirs(path, 0700), 0);
  assert_int_equal(fs_mkdirs(path, 0700), 0);
  assert_int_equal(stat(path, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0700);
  touch(path, "file");
  snprintf(keep, sizeof(keep), "%s/keep", dir);
  assert_int_equal(fs_mkdirs(keep, 0755), 0);
  touch(keep, "precious");
  snprintf(path, sizeof(path), "%s/tree/a/link", dir);
  assert_int_equal(symlink(keep, path), 0);
  snprintf(path, sizeof(path), "%s/tree/a/b", dir);
  assert_int_equal(chmod(path, 0500), 0);
  snprintf(path, sizeof(path), "%s/keep/precious/x", dir);
  assert_int_equal(fs_mkdirs(path, 0755), -ENOTDIR);
  assert_int_equal(fs_mkdirs("", 0755), -ENOENT);
  snprintf(path, sizeof(path), "%s/tree", dir);
  assert_int_equal(fs_remove_tree(path), 0);
  assert_int_equal(access(path, F_OK), -1);
  assert_int_equal(fs_remove_tree(path), 0); /* gone already */
  snprintf(path, sizeof(path), "%s/link", dir);
  assert_int_equal(symlink(keep, path), 0);
  assert_int_equal(fs_remove_tree(path), 0); /* the link, not what it points at */
  snprintf(path, sizeof(path), "%s/keep/precious", dir);
  assert_int_equal(access(path, F_OK), 0);
  assert_int_equal(fs_remove_tree(dir), 0);
  assert_int_equal(access(dir, F_OK), -1);
}

/* ---- options ---- */

static const struct fs_opt options[] = {{"dataset", 'd', "DIR", "the dataset", 1},
                                        {"verbose", 'v', NULL, "say more\nand more", 2},
                                        {"force", 0, NULL, "overwrite", 3},
                                        {NULL, 'l', "N", "level", 4}};

static fs_err note(void *ctx, int id, const char *value) {
  char *log = ctx;
  sprintf(log + strlen(log), "%d=%s;", id, value ? value : "-");
  return id == 3 ? -ECANCELED : 0;
}

static int parse(char *log, bool stop, const char *line) {
  static char copy[256];
  char *argv[16] = {"prog"}, *save = NULL;
  int argc = 1;
  snprintf(copy, sizeof(copy), "%s", line);
  for (char *p = strtok_r(copy, " ", &save); p; p = strtok_r(NULL, " ", &save)) argv[argc++] = p;
  *log = '\0';
  return fs_opt_parse("prog", options, FS_ARRAY_LEN(options), argc, argv, 1, stop, note, log);
}

static void test_options(void **state) {
  (void)state;
  char log[256];
  assert_int_equal(parse(log, false, "--dataset x -d y --dataset=z -dw -v word -l 3 - -l4 --dataset="), 15 - 1);
  assert_string_equal(log, "1=x;1=y;1=z;1=w;2=-;0=word;4=3;0=-;4=4;1=;");
  assert_int_equal(parse(log, false, "-d -1 -d -v -d --x --dataset=--force -d--"), 9);
  assert_string_equal(log, "1=-1;1=-v;1=--x;1=--force;1=--;");
  assert_int_equal(parse(log, false, "a -- --dataset -v"), 5);
  assert_string_equal(log, "0=a;0=--dataset;0=-v;");
  assert_int_equal(parse(log, true, "-v cmd -d x"), 2);
  assert_string_equal(log, "2=-;");
  assert_int_equal(parse(log, true, "-v -- -d x"), 3);
  assert_int_equal(parse(log, false, "a --force b"), -ECANCELED);
  assert_string_equal(log, "0=a;3=-;");
  assert_int_equal(parse(log, false, "-vvd x -vl4"), 4);
  assert_string_equal(log, "2=-;2=-;1=x;2=-;4=4;");
}

/* Each error is one line on stderr. */
static void test_option_errors(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"--nope", "prog: unknown option '--nope' (see prog --help)\n"},
      {"--nope=3", "prog: unknown option '--nope' (see prog --help)\n"},
      {"-x", "prog: unknown option '-x' (see prog --help)\n"},
      {"-vx", "prog: unknown option '-vx' (see prog --help)\n"},
      {"--datset x", "prog: unknown option '--datset': did you mean --dataset? (see prog --help)\n"},
      {"--datasets=x", "prog: unknown option '--datasets': did you mean --dataset? (see prog --help)\n"},
      {"--data x", "prog: unknown option '--data' (see prog --help)\n"},
      {"--verbose=1", "prog: option '--verbose' takes no argument (see prog --help)\n"},
      {"--dataset", "prog: option '--dataset' needs an argument (see prog --help)\n"},
      {"--dataset --verbose", "prog: option '--dataset' needs an argument (see prog --help)\n"},
      {"-d --dataset=x", "prog: option '-d' needs an argument (see prog --help)\n"},
      {"-l -- x", "prog: option '-l' needs an argument (see prog --help)\n"},
      {"-l", "prog: option '-l' needs an argument (see prog --help)\n"},
  };
  char log[256], text[512];
  for (size_t i = 0; i < FS_ARRAY_LEN(cases); i++) {
    int out[2], old = dup(2);
    assert_int_equal(pipe(out), 0);
    dup2(out[1], 2);
    int result = parse(log, false, cases[i][0]);
    dup2(old, 2);
    close(old);
    close(out[1]);
    ssize_t n = read(out[0], text, sizeof(text) - 1);
    close(out[0]);
    assert_int_equal(result, -EINVAL);
    text[FS_MAX(n, 0)] = '\0';
    assert_string_equal(text, cases[i][1]);
  }
}

static void test_option_help(void **state) {
  (void)state;
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  fs_opt_help(out, options, FS_ARRAY_LEN(options));
  fclose(out);
  assert_string_equal(text, "  -d, --dataset DIR  the dataset\n"
                            "  -v, --verbose      say more\n"
                            "                     and more\n"
                            "      --force        overwrite\n"
                            "  -l N               level\n");
  free(text);
}

/* ---- checksums, system calls ---- */

static void test_xxh3(void **state) {
  (void)state;
  static uint8_t data[100000 + 7];
  uint8_t id[16];
  char hex[33];
  for (size_t i = 0; i < sizeof(data); i++) data[i] = (uint8_t)(i * 31 + i / 256);
  assert_int_equal(fs_xxh3("", 0), 0x2d06800538d394c2ull);
  fs_xxh3_128("", 0, id);
  assert_string_equal(fs_hex(id, 16, hex), "99aa06d3014798d86001c324468d497f");
  for (size_t n = 0; n < sizeof(data); n += n < 3000 ? 1 : 4999) /* whatever the processor, the same result */
    assert_int_equal(fs_xxh3(data + n % 7, n), XXH3_64bits(data + n % 7, n));
  struct fs_xxh3_stream *s = fs_xxh3_new();
  assert_non_null(s);
  for (size_t at = 0, n; at < sizeof(data); at += n) {
    n = FS_MIN(at % 977 + 1, sizeof(data) - at);
    fs_xxh3_update(s, data + at, n);
  }
  fs_xxh3_update(s, NULL, 0);
  assert_int_equal(fs_xxh3_digest(s), fs_xxh3(data, sizeof(data)));
  fs_xxh3_free(s);
}

static void test_sys(void **state) {
  (void)state;
  char name[] = "/tmp/fs-test-util-XXXXXX", back[8];
  _Atomic uint32_t word = 1;
  int fd = mkstemp(name);
  assert_true(fd >= 0);
  unlink(name);
  assert_int_equal(fs_write_full(fd, "abc", 3), 0);
  assert_int_equal(fs_pwrite_full(fd, "XYZ", 3, 2), 0);
  assert_int_equal(fs_pread_full(fd, back, 5, 0), 0);
  assert_memory_equal(back, "abXYZ", 5);
  assert_int_equal(fs_pread_full(fd, back, 6, 0), -EIO);
  {
    FS_AUTO_CLOSE int own = fd;
    FS_AUTO_FREE char *memory = malloc(10);
    FS_AUTO_CLOSE int none = -1;
    (void)own, (void)memory, (void)none;
  }
  assert_int_equal(fs_pread_full(fd, back, 1, 0), -EBADF);
  assert_int_equal(fs_futex_wait(&word, 2, 1000000000), -EAGAIN);
  uint64_t start = fs_now_ns();
  assert_int_equal(fs_futex_wait(&word, 1, 20000000), -ETIMEDOUT);
  assert_true(fs_now_ns() - start >= 20000000);
  fs_futex_wake(&word, 1);
}

/* Another process may have read it meanwhile, and made reading wait: both share its flags. */
static void test_eventfd(void **state) {
  (void)state;
  uint64_t n = 5;
  FS_AUTO_CLOSE int fd = eventfd(0, EFD_CLOEXEC);
  assert_int_equal(fs_write_full(fd, &n, sizeof(n)), 0);
  alarm(20);
  fs_eventfd_take(fd);
  fs_eventfd_take(fd);
  alarm(0);
  assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
  assert_int_equal(fs_sys_read(fd, &n, sizeof(n)), -EAGAIN);
}

/* And in a sandbox that knows no preadv2, whatever it answers. */
static int take_filtered(int fd, unsigned answer) {
  struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                               BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_preadv2, 0, 1),
                               BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | answer),
                               BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {.len = FS_ARRAY_LEN(code), .filter = code};
  uint64_t n = 5;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) return 2;
  if (fs_write_full(fd, &n, sizeof(n)) < 0) return 3;
  fs_eventfd_take(fd);
  return fs_sys_read(fd, &n, sizeof(n)) == -EAGAIN ? 0 : 4;
}

static void test_eventfd_filtered(void **state) {
  (void)state;
  static const unsigned answers[] = {EPERM, ENOSYS, EOPNOTSUPP};
  for (size_t i = 0; i < FS_ARRAY_LEN(answers); i++) {
    FS_AUTO_CLOSE int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int status;
    pid_t pid = fork();
    if (pid == 0) _exit(take_filtered(fd, answers[i]));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
  }
}

/* Each key is there twice while the table grows. Then every other key loses one of its links. */
static void test_table(void **state) {
  (void)state;
  static struct fs_table_link link[2000];
  struct fs_table t = {.count = 0};
  struct fs_table_link *l = NULL, *next;
  size_t seen = 0;
  assert_null(fs_table_find(&t, 0));
  assert_null(fs_table_next(&t, NULL));
  for (size_t i = 0; i < FS_ARRAY_LEN(link); i++) fs_table_add(&t, &link[i], i / 2);
  for (size_t i = 0; i < FS_ARRAY_LEN(link); i += 4) fs_table_remove(&t, &link[i]);
  for (uint64_t key = 0; key < FS_ARRAY_LEN(link) / 2; key++) {
    l = fs_table_find(&t, key);
    assert_non_null(l);
    assert_int_equal(fs_table_more(l) != NULL, key % 2);
  }
  for (l = fs_table_next(&t, NULL); l; l = next, seen++) {
    next = fs_table_next(&t, l);
    fs_table_remove(&t, l);
  }
  assert_int_equal(seen, FS_ARRAY_LEN(link) * 3 / 4);
  assert_int_equal(t.count, 0);
  assert_null(fs_table_find(&t, 1));
  free(t.chain);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_parse_size),    cmocka_unit_test(test_format_count),
      cmocka_unit_test(test_format_size),   cmocka_unit_test(test_hex),
      cmocka_unit_test(test_lists),         cmocka_unit_test(test_normalize),
      cmocka_unit_test(test_below),         cmocka_unit_test(test_printable),
      cmocka_unit_test(test_json),          cmocka_unit_test(test_glob),
      cmocka_unit_test(test_trees),         cmocka_unit_test(test_options),
      cmocka_unit_test(test_option_errors), cmocka_unit_test(test_option_help),
      cmocka_unit_test(test_xxh3),          cmocka_unit_test(test_sys),
      cmocka_unit_test(test_eventfd),       cmocka_unit_test(test_eventfd_filtered),
      cmocka_unit_test(test_table),
  };
  return cmocka_run_group_tests_name("util", tests, NULL, NULL);
}
