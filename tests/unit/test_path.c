/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths that lead below a mount, by every road, and those that do not; the current directory below a mount. */
#include "client/files/files.h"
#include "client/path/cwd.h"
#include "client/path/vdir.h"
#include "tools_fixture.h"
#include "tree_fixture.h"

#define M FIX_MOUNT

struct expect {
  const char *path;
  unsigned flags;
  int route;
  const char *name; /* FS_IN: path of the entry, FS_NEW: of its directory, FS_REDIRECT: the real path */
};

static const struct expect table[] = {
    {M, 0, FS_IN, ""},
    {M "/", 0, FS_IN, ""},
    {M "/d/small", 0, FS_IN, "d/small"},
    {M "//d/.//small", 0, FS_IN, "d/small"},
    {M "/d/e/../small", 0, FS_IN, "d/small"},
    {M "/d/", 0, FS_IN, "d"},
    {M "/d/.", 0, FS_IN, "d"},
    {"//fanstore-test/./mount/empty", 0, FS_IN, "empty"},
    {"/fanstore-test/other/../mount/empty", 0, -ENOENT, NULL},
    {"/fanstore-test/../fanstore-test/mount/empty", 0, FS_IN, "empty"},
    {"/tmp/../fanstore-test/mount/empty", 0, FS_IN, "empty"},
    {"/../fanstore-test/mount/empty", 0, FS_IN, "empty"},
    {M "/../mount/empty", 0, FS_IN, "empty"},
    {M "/to-small", 0, FS_IN, "d/small"},
    {M "/to-small", FS_NOFOLLOW, FS_IN, "to-small"},
    {M "/to-d", FS_NOFOLLOW, FS_IN, "to-d"},
    {M "/to-d/", FS_NOFOLLOW, FS_IN, "d"},
    {M "/to-d/small", FS_NOFOLLOW, FS_IN, "d/small"},
    {M "/d/up", 0, FS_IN, "empty"},
    {M "/to-d/up", 0, FS_IN, "empty"},
    {M "/back-in/deep", 0, FS_IN, "d/e/deep"},
    {M "/back-in/..", 0, FS_IN, "d"},
    {M "/out", 0, FS_REDIRECT, "/etc/passwd"},
    {M "/out", FS_NOFOLLOW, FS_IN, "out"},
    {M "/out-dir/passwd", 0, FS_REDIRECT, "/etc/passwd"},
    {M "/out-dir/", 0, FS_REDIRECT, "/etc/"},
    {M "/..", 0, FS_IN, "/fanstore-test"},
    {M "/../../etc/passwd", 0, FS_REDIRECT, "/etc/passwd"},
    {M "/none", 0, FS_NEW, ""},
    {M "/d/none", 0, FS_NEW, "d"},
    {M "/d/none/", 0, FS_NEW, "d"},
    {M "/dangling", 0, FS_NEW, ""},
    {M "/dangling", FS_NOFOLLOW, FS_IN, "dangling"},
    {M "/none/x", 0, -ENOENT, NULL},
    {M "/none/../empty", 0, -ENOENT, NULL},
    {M "/empty/", 0, -ENOTDIR, NULL},
    {M "/empty/.", 0, -ENOTDIR, NULL},
    {M "/empty/x", 0, -ENOTDIR, NULL},
    {M "/d/small/../small", 0, -ENOTDIR, NULL},
    {M "/loop-a", 0, -ELOOP, NULL},
    {M "/loop-a/x", 0, -ELOOP, NULL},
    {M "/loop-a", FS_NOFOLLOW, FS_IN, "loop-a"},
    {"/fanstore-test", 0, FS_OUTSIDE, NULL},
    {"/fanstore-test/mount2/empty", 0, FS_OUTSIDE, NULL},
    {"/fanstore-test/moun", 0, FS_OUTSIDE, NULL},
    {"/etc/passwd", 0, FS_OUTSIDE, NULL},
    {"/etc/../etc/passwd", 0, FS_OUTSIDE, NULL},
    {"/", 0, FS_OUTSIDE, NULL},
    {"", 0, FS_OUTSIDE, NULL},
    {"d/small", 0, FS_OUTSIDE, NULL},
};

static int64_t entry_of(const char *name) {
  fs_err err;
  const struct fs_index *ix = fs_mount_index(0, &err);
  CHECK(ix != NULL);
  return fs_index_lookup(ix, name, strlen(name));
}

static void check_virtual(const struct fs_found *f, const char *name) {
  char path[PATH_MAX];
  CHECK(fs_is_vdir(f->entry) && fs_path_of(f->mount, f->entry, path, sizeof(path)) == (fs_ssize)strlen(name));
  CHECK(strcmp(path, name) == 0);
}

static void check_route(const struct expect *e, int dirfd, const char *path) {
  struct fs_found f;
  int route = fs_path_route(dirfd, path, e->flags, &f);
  if (route != e->route) fprintf(stderr, "%s: %d, expected %d\n", path, route, e->route);
  CHECK(route == e->route);
  if ((route == FS_IN || route == FS_NEW) && e->name[0] == '/')
    check_virtual(&f, e->name);
  else if (route == FS_IN || route == FS_NEW)
    CHECK(f.mount == 0 && f.entry == entry_of(e->name));
  if (route == FS_REDIRECT) CHECK(strcmp(f.real, e->name) == 0);
}

static void absolute(const struct fix *f) {
  (void)f;
  for (unsigned i = 0; i < FS_ARRAY_LEN(table); i++) check_route(&table[i], AT_FDCWD, table[i].path);
  CHECK(fs_path_outside(AT_FDCWD, NULL));
}
static void test_absolute(void **state) {
  fix_run(state, absolute);
}

static void long_names(const struct fix *f) {
  struct fs_found found;
  char path[PATH_MAX + 100] = M "/";
  (void)f;
  memset(path + strlen(path), 'x', 256);
  CHECK(fs_path_route(AT_FDCWD, path, 0, &found) == -ENAMETOOLONG);
  path[strlen(path) - 1] = '\0';
  CHECK(fs_path_route(AT_FDCWD, path, 0, &found) == FS_NEW);
  memset(path + strlen(M), '/', PATH_MAX);
  path[PATH_MAX - 1] = '\0';
  CHECK(fs_path_route(AT_FDCWD, path, 0, &found) == FS_IN);
  path[PATH_MAX - 1] = '/';
  path[PATH_MAX] = '\0';
  CHECK(fs_path_route(AT_FDCWD, path, 0, &found) == -ENAMETOOLONG);
}
static void test_long_names(void **state) {
  fix_run(state, long_names);
}

/* The same paths below the mount, as seen from a directory of it that is open or current. */
static void relative_from(int dirfd) {
  for (unsigned i = 0; i < FS_ARRAY_LEN(table); i++) {
    char path[PATH_MAX] = "../";
    if (strncmp(table[i].path, M "/", strlen(M) + 1) != 0 || table[i].path[strlen(M) + 1] == '\0') continue;
    strcat(path, table[i].path + strlen(M) + 1);
    check_route(&table[i], dirfd, path);
    check_route(&table[i], dirfd, table[i].path);
  }
  check_route(&(struct expect){"", 0, FS_IN, "d/small"}, dirfd, "small");
  check_route(&(struct expect){"", 0, FS_IN, "d"}, dirfd, ".");
  check_route(&(struct expect){"", 0, FS_IN, ""}, dirfd, "..");
  check_route(&(struct expect){"", 0, FS_NEW, "d"}, dirfd, "none");
}

static void from_directory(const struct fix *f) {
  struct fs_found found = {.mount = 0, .entry = (uint32_t)entry_of("d")};
  (void)f;
  int dir = fs_file_open(FS_IN, &found, O_RDONLY | O_DIRECTORY);
  CHECK(dir > 2);
  relative_from(dir);
  found.entry = (uint32_t)entry_of("d/small");
  int file = fs_file_open(FS_IN, &found, O_RDONLY);
  CHECK(file > dir);
  CHECK(fs_path_route(file, "x", 0, &found) == -ENOTDIR);
  CHECK(fs_fd_close(file) == 0);
  CHECK(fs_path_route(file, "x", 0, &found) == -EBADF);
}
static void test_from_directory(void **state) {
  fix_run(state, from_directory);
}

static void check_cwd(const char *path) {
  struct fs_cwd cwd;
  CHECK(fs_cwd_get(&cwd) == 0);
  CHECK(strcmp(cwd.path, path) == 0 && cwd.len == strlen(path));
}

static void current_directory(const struct fix *f) {
  int status;
  CHECK(chdir(f->dir) == 0);
  fs_cwd_changed();
  CHECK(fs_cwd_far());
  check_cwd(f->dir);
  CHECK(fs_cwd_enter(0, (uint32_t)entry_of("d")) == 0);
  CHECK(!fs_cwd_far());
  check_cwd(M "/d");
  relative_from(AT_FDCWD);
  pid_t pid = fork();
  if (pid == 0) {
    fs_cwd_changed(); /* as a new program: what the kernel says is all there is */
    check_cwd(M "/d");
    relative_from(AT_FDCWD);
    _exit(0);
  }
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  CHECK(chdir("/") == 0);
  fs_cwd_changed();
  CHECK(!fs_cwd_far()); /* the mount lies below */
  check_cwd("/");
  check_route(&(struct expect){"", 0, FS_IN, "d/small"}, AT_FDCWD, "fanstore-test/mount/d/small");
  check_route(&(struct expect){"", 0, FS_OUTSIDE, NULL}, AT_FDCWD, "etc/passwd");
}
static void test_current_directory(void **state) {
  fix_run(state, current_directory);
}

/* Symlinks of the real file system that lead to a mount that the kernel does not have. */
static void after_enoent(const struct fix *f) {
  struct fs_found found;
  char link[400];
  snprintf(link, sizeof(link), "%s/link", f->dir);
  CHECK(symlink(M "/d", link) == 0);
  snprintf(link, sizeof(link), "%s/link/small", f->dir);
  CHECK(fs_path_route(AT_FDCWD, link, 0, &found) == FS_OUTSIDE);
  CHECK(fs_path_retry(AT_FDCWD, link, 0, -ENOENT, &found) == FS_IN && found.entry == entry_of("d/small"));
  snprintf(link, sizeof(link), "%s/link", f->dir);
  CHECK(fs_path_retry(AT_FDCWD, link, 0, -ENOENT, &found) == FS_IN && found.entry == entry_of("d"));
  CHECK(fs_path_retry(AT_FDCWD, link, FS_NOFOLLOW, -ENOENT, &found) == FS_OUTSIDE);
  CHECK(fs_path_retry(AT_FDCWD, link, 0, -EACCES, &found) == FS_OUTSIDE);
  snprintf(link, sizeof(link), "%s/no/such/thing", f->dir);
  CHECK(fs_path_retry(AT_FDCWD, link, 0, -ENOENT, &found) == FS_OUTSIDE);
  CHECK(fs_path_retry(AT_FDCWD, "/fanstore-test", 0, -ENOENT, &found) == FS_IN);
  check_virtual(&found, "/fanstore-test");
  CHECK(fs_path_retry(AT_FDCWD, "/fanstore-test/new", 0, -ENOENT, &found) == FS_NEW);
  check_virtual(&found, "/fanstore-test");
  CHECK(fs_path_retry(AT_FDCWD, "/fanstore-test/new/x", 0, -ENOENT, &found) == -ENOENT);
  CHECK(fs_path_is_ancestor("/") && fs_path_is_ancestor("/fanstore-test/./x/..") && !fs_path_is_ancestor(M));
}
static void test_after_enoent(void **state) {
  fix_run(state, after_enoent);
}

/* Is the path, normalised, at or below one of the mounts? */
static bool inside(const char *path) {
  char norm[PATH_MAX];
  fs_ssize n = fs_path_normalize(path, norm, sizeof(norm));
  for (uint32_t i = 0; n > 0 && i < fs_mount_count(); i++)
    if (fs_path_below(norm, (size_t)n, fs_mount_list[i].path, fs_mount_list[i].len) >= 0) return true;
  return false;
}

/* The quick answer against the slow one, for all spellings of few bytes: it may only err by saying that it is not sure,
   and of plain paths it must be sure. */
static void quick_answers(const struct fix *f) {
  static const char alphabet[] = "/.ab";
  char path[11] = "/";
  unsigned sure = 0, unsure = 0;
  (void)f;
  CHECK(fs_mount_count() == (uint32_t)atoi(getenv("MOUNTS")));
  for (uint32_t code = 0; code < 1u << (fix_on_valgrind() ? 16 : 18); code++) {
    uint32_t rest = code;
    size_t n = 1;
    for (; rest > 1; rest >>= 2) path[n++] = alphabet[rest & 3];
    path[n] = '\0';
    bool in = inside(path), out = fs_path_outside(AT_FDCWD, path);
    if (in && out) fprintf(stderr, "%s is taken for one outside\n", path);
    CHECK(!in || !out);
    if (in || strchr(path, '.') != NULL || strstr(path, "//") != NULL) continue;
    CHECK(out);
    CHECK(!fs_path_is_ancestor(path) || fs_path_maybe_above(AT_FDCWD, path));
    CHECK(!fs_path_is_ancestor(path) || fs_path_side(AT_FDCWD, path) != FS_SIDE_OUTSIDE);
    CHECK(out == (fs_path_side(AT_FDCWD, path) != FS_SIDE_UNSURE));
    sure += out;
    unsure += !out;
  }
  CHECK(sure > 1000 && unsure == 0);
  CHECK(fs_path_outside(AT_FDCWD, "/tmp/.ab/b") && fs_path_outside(AT_FDCWD, "/.tmp"));
  CHECK(!fs_path_maybe_above(AT_FDCWD, "/tmp/ab") && !fs_path_maybe_above(AT_FDCWD, "/tmp/.ab"));
}
static void test_quick_answers(void **state) {
  static const char *const mounts[][2] = {{"1", "/a"},       {"1", "/a/b"},         {"1", "/a./..b"},
                                          {"2", "/a:/a/a"},  {"3", "/a/b:/a:/b"},   {"2", "/ab/a:/ab/b"},
                                          {"2", "/b/.a:/b"}, {"3", "/aa:/ab:/a.a"}, {"1", "/.a"}};
  for (unsigned i = 0; i < FS_ARRAY_LEN(mounts); i++) {
    setenv("FANSTORE_DATASET", "/x:/y:/z", 1);
    setenv("FANSTORE_MOUNT", mounts[i][1], 1);
    setenv("MOUNTS", mounts[i][0], 1);
    if (mounts[i][0][0] == '1') setenv("FANSTORE_DATASET", "/x", 1);
    if (mounts[i][0][0] == '2') setenv("FANSTORE_DATASET", "/x:/y", 1);
    fix_run(state, quick_answers);
  }
  unsetenv("FANSTORE_DATASET");
  unsetenv("FANSTORE_MOUNT");
}

/* A path that leaves a mount's after n bytes, at the end of the memory that can be read, or with the mount's own next
   bytes after its end. */
static void leaves_after(size_t n, const char *tail, size_t room, char *page_end) {
  const char *mount = fs_mount_list[0].path;
  size_t tail_len = strlen(tail), len = n + tail_len;
  char *path = page_end - len - 1 - room;
  memcpy(path, mount, n);
  memcpy(path + n, tail, tail_len);
  memset(path + len, 0, room + 1);
  if (room > 1 && len + 1 < fs_mount_list[0].len)
    memcpy(path + len + 1, mount + len + 1, FS_MIN(room, fs_mount_list[0].len - len - 1));
  bool in = inside(path), plain = strstr(tail, "..") == NULL && strstr(tail, "//") == NULL && strchr(tail, '.') == NULL;
  CHECK(!in || !fs_path_outside(AT_FDCWD, path));
  CHECK(in || !plain || fs_path_outside(AT_FDCWD, path));
  if (!in && plain && n + 1 < fs_mount_list[0].len && tail_len > 0 && tail[0] != '/' && tail[0] != mount[n])
    CHECK(fs_path_side(AT_FDCWD, path) == FS_SIDE_OUTSIDE);
  CHECK(!fs_path_is_ancestor(path) || fs_path_side(AT_FDCWD, path) != FS_SIDE_OUTSIDE);
}

static void long_prefixes(const struct fix *f) {
  static const char *const tails[] = {"",      "x", "/",  "/x", "/some/other/name", "//", "/.", "/..",
                                      "/../x", ".", "..", "./x"};
  char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  (void)f;
  CHECK(pages != MAP_FAILED && mprotect(pages + 4096, 4096, PROT_NONE) == 0);
  for (size_t n = 1; n <= fs_mount_list[0].len; n++)
    for (size_t room = 0; room < 16; room++)
      for (unsigned t = 0; t < FS_ARRAY_LEN(tails); t++) leaves_after(n, tails[t], room, pages + 4096);
  munmap(pages, 8192);
}
static void test_long_prefixes(void **state) {
  static const char *const mounts[] = {"/scratch", "/scratch/someone/job-1234/a.b", "/lustre/x",
                                       "/a/b/c/d/e/f/g/h/i/j"};
  setenv("FANSTORE_DATASET", "/x", 1);
  for (unsigned i = 0; i < FS_ARRAY_LEN(mounts); i++) {
    setenv("FANSTORE_MOUNT", mounts[i], 1);
    fix_run(state, long_prefixes);
  }
  unsetenv("FANSTORE_DATASET");
  unsetenv("FANSTORE_MOUNT");
}

/* No mount is configured: everything is outside, whatever it is called. */
static void no_mount(const struct fix *f) {
  struct fs_found found;
  (void)f;
  CHECK(fs_mount_count() == 0);
  CHECK(fs_path_outside(AT_FDCWD, M "/d/small") && fs_path_outside(AT_FDCWD, "x/../y"));
  CHECK(fs_path_retry(AT_FDCWD, M, 0, -ENOENT, &found) == FS_OUTSIDE);
}
static void test_no_mount(void **state) {
  setenv("FANSTORE_DATASET", "", 1);
  fix_run(state, no_mount);
  unsetenv("FANSTORE_DATASET");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_absolute),       cmocka_unit_test(test_long_names),
      cmocka_unit_test(test_from_directory), cmocka_unit_test(test_current_directory),
      cmocka_unit_test(test_after_enoent),   cmocka_unit_test(test_no_mount),
      cmocka_unit_test(test_quick_answers),  cmocka_unit_test(test_long_prefixes),
  };
  unsetenv("FANSTORE_STATE");
  return cmocka_run_group_tests(tests, tree_setup, fix_teardown);
}
