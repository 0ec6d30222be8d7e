/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where paths lead, next to what the kernel says: two directories R and V that hold the same, but that the trees R/m
 * and R/w/u/n are real, and V/m and V/w/u/n mounts of them; V/w does not exist. The input chooses the components of a
 * path, and how many of them are the way to a directory that the rest begins at: the current one, or one that is open.
 * Both must end at the same name, or with the same error. Symlinks lead everywhere: within the tree, out of it, from
 * the outside into it, round in circles.
 */
#include "../unit/data_fixture.h"
#include "client/files/files.h"
#include "client/path/cwd.h"
#include "client/path/path.h"
#include "client/path/vdir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define R "/R"
#define V "/V"
#define HERE "@" /* of a target: becomes the directory that R and V lie in, and which of them */

static const struct thing {
  const char *path, *target; /* NULL: a file; "": a directory */
} inside[] = {{"d", ""},
              {"d/e", ""},
              {"d/e/deep", NULL},
              {"d/small", NULL},
              {"empty", NULL},
              {"d/up", "../empty"},
              {"to-d", "d"},
              {"to-small", "d/small"},
              {"slashed", "d/e/"},
              {"back-in", HERE "/m/d/e"},
              {"self", "."},
              {"above", ".."},
              {"out", "../o/x"},
              {"out-dir", "../o"},
              {"out-abs", HERE "/o"},
              {"etc", "/etc"},
              {"dangling", "none"},
              {"dangling-deep", "none/deep"},
              {"through-file", "empty/x"},
              {"far", HERE "/w/u/n/d"},
              {"far-up", HERE "/w"},
              {"loop-a", "loop-b"},
              {"loop-b", "loop-a"},
              {"grow", "grow/grow"}},
  outside[] = {{"o", ""},      {"o/x", NULL},           {"o/to-m", "../m"},      {"o/to-e", "../m/d/e"},
               {"in", "m"},    {"in-abs", HERE "/m/d"}, {"in-out", "m/out-dir"}, {"chain", "o/to-e/../.."},
               {"to-w", "w/u"}};

static const char *const names[] = {"",
                                    ".",
                                    "..",
                                    "m",
                                    "d",
                                    "e",
                                    "deep",
                                    "small",
                                    "empty",
                                    "up",
                                    "to-d",
                                    "none",
                                    "to-small",
                                    "slashed",
                                    "back-in",
                                    "self",
                                    "above",
                                    "out",
                                    "o",
                                    "out-abs",
                                    "etc",
                                    "dangling",
                                    "loop-a",
                                    "out-dir",
                                    "grow",
                                    "x",
                                    "to-m",
                                    "in",
                                    "to-e",
                                    "in-abs",
                                    "in-out",
                                    "chain",
                                    "passwd",
                                    "through-file",
                                    "dangling-deep",
                                    "w",
                                    "u",
                                    "n",
                                    "far",
                                    "far-up",
                                    "to-w"};
static char top[200];
static const char *const trees[] = {"/m", "/w/u/n"};

static void target_of(const struct thing *t, const char *which, char *out) {
  if (t->target[0] == HERE[0])
    snprintf(out, PATH_MAX, "%s%s%s", top, which, t->target + 1);
  else
    snprintf(out, PATH_MAX, "%s", t->target);
}

static void make_real(const char *which, const char *below, const struct thing *t) {
  char path[PATH_MAX], target[PATH_MAX];
  snprintf(path, sizeof(path), "%s%s%s%s", top, which, below, t->path);
  int bad = 0;
  if (!t->target) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    bad = fd < 0;
    close(fd);
  } else if (t->target[0] == '\0') {
    bad = mkdir(path, 0755);
  } else {
    target_of(t, which, target);
    bad = symlink(target, path);
  }
  if (bad) abort();
}

/* Of the mount at V + where: its path. */
static void make_dataset(const char *where, char dataset[300], char mount[300]) {
  struct fs_builder *b;
  char target[PATH_MAX];
  struct fix *f = fix_begin(&b);
  struct fs_build_file root = {.path = "", .mode = S_IFDIR | 0755};
  if (fs_builder_add(b, &root) < 0) abort();
  for (size_t i = 0; i < FS_ARRAY_LEN(inside); i++) {
    const struct thing *t = &inside[i];
    struct fs_build_file e = {.path = t->path, .mode = S_IFREG | 0644};
    if (t->target) {
      target_of(t, V, target);
      e.mode = target[0] ? S_IFLNK | 0777 : S_IFDIR | 0755;
      e.target = target[0] ? target : NULL;
      e.size = strlen(target);
    }
    if (fs_builder_add(b, &e) < 0) abort();
  }
  fix_finish(f, b);
  fs_builder_free(b);
  snprintf(mount, 300, "%s" V "%s", top, where);
  snprintf(dataset, 300, "%s", f->dataset);
  for (unsigned p = 0; p < FIX_PARTS; p++) free(f->part[p]);
  free(f);
}

static void make_datasets(void) {
  char dataset[2][300], mount[2][300], both[700];
  for (int i = 0; i < 2; i++) make_dataset(trees[i], dataset[i], mount[i]);
  snprintf(both, sizeof(both), "%s:%s", dataset[0], dataset[1]);
  setenv("FANSTORE_DATASET", both, 1);
  snprintf(both, sizeof(both), "%s:%s", mount[0], mount[1]);
  setenv("FANSTORE_MOUNT", both, 1);
  unsetenv("FANSTORE_RUN");
}

static void start(void) {
  const char *tmp = getenv("TMPDIR");
  char path[300], real[PATH_MAX];
  snprintf(path, sizeof(path), "%.150s/fuzz-path-XXXXXX", tmp ? tmp : "/tmp");
  if (!mkdtemp(path) || !realpath(path, real)) abort();
  snprintf(top, sizeof(top), "%.190s", real);
  static const struct thing sides[] = {{R, ""}, {V, ""}, {R "/m", ""}, {R "/w", ""}, {R "/w/u", ""}, {R "/w/u/n", ""}};
  for (size_t i = 0; i < FS_ARRAY_LEN(sides); i++) make_real("", "", &sides[i]);
  for (size_t i = 0; i < FS_ARRAY_LEN(inside); i++) make_real(R, "/m/", &inside[i]);
  for (size_t i = 0; i < FS_ARRAY_LEN(inside); i++) make_real(R, "/w/u/n/", &inside[i]);
  for (size_t i = 0; i < FS_ARRAY_LEN(outside); i++) make_real(R, "/", &outside[i]);
  for (size_t i = 0; i < FS_ARRAY_LEN(outside); i++) make_real(V, "/", &outside[i]);
  make_datasets();
}

/* A name as both sides call it: what lies in R or V begins with *. */
static void common(const char *path, const char *which, char *out) {
  char prefix[300];
  int n = snprintf(prefix, sizeof(prefix), "%s%s", top, which);
  if (strncmp(path, prefix, (size_t)n) == 0 && (path[n] == '/' || path[n] == '\0'))
    snprintf(out, PATH_MAX, "*%s", path + n);
  else
    snprintf(out, PATH_MAX, "%s", path);
}

/* What the kernel has there, its name; or an error. */
static void by_fd(int fd, const char *which, char *out) {
  char link[64], found[PATH_MAX];
  if (fd < 0) {
    snprintf(out, PATH_MAX, "%s", strerrorname_np(errno));
    return;
  }
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, found, sizeof(found) - 1);
  if (n < 0) abort();
  found[n] = '\0';
  common(found, which, out);
}

/* A walk that a mount elsewhere makes begin anew counts its symlinks twice: ELOOP where there are more than 20. */
static int open_path(int dirfd, const char *path, int flags) {
  int fd = -1;
  for (int i = 0; fd < 0 && (i == 0 || (errno == ELOOP && i < 4)); i++)
    fd = openat(dirfd, path, O_PATH | O_CLOEXEC | flags);
  return fd;
}

static void by_kernel(int dirfd, const char *path, bool nofollow, const char *which, char *out) {
  int fd = open_path(dirfd, path, nofollow ? O_NOFOLLOW : 0);
  by_fd(fd, which, out);
  if (fd >= 0) close(fd);
}

static void by_entry(const struct fs_found *f, char *out) {
  char path[PATH_MAX];
  if (fs_path_of(f->mount, f->entry, path, sizeof(path)) < 0) abort();
  common(path, V, out);
}

/* A route, with the descriptor of what is real: what wrappers do, the kernel first and then once more. */
static int walk(int dirfd, const char *path, int open_flags, struct fs_found *f, int *fd) {
  unsigned flags = open_flags & O_NOFOLLOW ? FS_NOFOLLOW : 0;
  int route = fs_path_route(dirfd, path, flags, f);
  *fd = -1;
  if (route == FS_OUTSIDE) {
    *fd = open_path(dirfd, path, open_flags);
    if (*fd < 0) route = fs_path_retry(dirfd, path, flags, -errno, f);
  }
  if (route == FS_REDIRECT) *fd = open_path(AT_FDCWD, f->real, open_flags);
  return route;
}

static void by_library(int dirfd, const char *path, bool nofollow, char *out) {
  struct fs_found f;
  int fd, route = walk(dirfd, path, nofollow ? O_NOFOLLOW : 0, &f, &fd);
  if (route == FS_OUTSIDE || route == FS_REDIRECT)
    by_fd(fd, V, out);
  else if (route == FS_IN)
    by_entry(&f, out);
  else
    snprintf(out, PATH_MAX, "%s", strerrorname_np(route == FS_NEW ? ENOENT : -route));
  if (fd >= 0) close(fd);
}

/* ---- where a relative path begins ---- */

enum from { FROM_ROOT, FROM_CWD = 2, FROM_FD };

/* The directory as a descriptor of the library's (or the kernel's): -1 when it is none. It becomes the current one,
 * too. */
static int enter(const char *path, enum from from) {
  struct fs_found f;
  struct stat st;
  int fd, route = walk(AT_FDCWD, path, O_DIRECTORY, &f, &fd);
  if (route == FS_IN) {
    if (fs_file_stat(f.mount, f.entry, &st) != 0) abort();
    if (!S_ISDIR(st.st_mode)) return -1;
    fd = fs_file_open(FS_IN, &f, O_PATH | O_DIRECTORY);
    if (fd < 0 || (from == FROM_CWD && fs_cwd_enter(f.mount, f.entry) != 0)) abort();
    return fd;
  }
  if (fd >= 0 && fs_path_maybe_above(AT_FDCWD, path)) fs_fd_mark_ancestor(fd);
  if (fd >= 0 && from == FROM_CWD) {
    if (fchdir(fd) != 0) abort();
    fs_cwd_changed();
  }
  return fd;
}

static void leave(int fd) {
  if (fs_fd_slot(fd) != NULL)
    fs_fd_close(fd);
  else if (close(fd) == 0)
    fs_fd_forget(fd);
}

static size_t join(char *out, size_t size, const char *begin, const uint8_t *data, size_t n) {
  size_t at = (size_t)snprintf(out, size, "%s", begin);
  for (size_t i = 0; i < n && at < PATH_MAX + 100; i++)
    at += (size_t)snprintf(out + at, size - at, i == 0 && *begin == '\0' ? "%s" : "/%s",
                           names[data[i] % FS_ARRAY_LEN(names)]);
  return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char base[2][2 * PATH_MAX], path[2][2 * PATH_MAX], want[PATH_MAX], got[PATH_MAX], side[2][220];
  if (top[0] == '\0') start();
  if (size == 0) return 0;
  bool nofollow = data[0] & 1;
  enum from from = data[0] >> 1 & 3;
  size_t based = from < FROM_CWD ? 0 : FS_MIN(data[0] >> 3 & 7u, size - 1);
  int real = AT_FDCWD, mine = AT_FDCWD;
  snprintf(side[0], sizeof(side[0]), "%s" R, top);
  snprintf(side[1], sizeof(side[1]), "%s" V, top);
  for (int i = 0; i < 2; i++) {
    join(base[i], sizeof(base[i]), side[i], data + 1, based);
    join(path[i], sizeof(path[i]), from < FROM_CWD ? side[i] : "", data + 1 + based, size - 1 - based);
  }
  if (from >= FROM_CWD) {
    real = open_path(AT_FDCWD, base[0], O_DIRECTORY);
    mine = enter(base[1], from);
    if ((real < 0) != (mine < 0)) {
      fprintf(stderr, "%s is a directory to %s\n", base[1], real < 0 ? "the library only" : "the kernel only");
      abort();
    }
    if (real < 0) return 0;
  }
  by_kernel(real, path[0], nofollow, R, want);
  by_library(from == FROM_CWD ? AT_FDCWD : mine, path[1], nofollow, got);
  if (from >= FROM_CWD) {
    close(real);
    leave(mine);
    if (chdir("/") != 0) abort();
    fs_cwd_changed();
  }
  if (strcmp(want, got) == 0) return 0;
  fprintf(stderr, "%s%s%s%s\n  kernel:  %s\n  library: %s\n", from < FROM_CWD ? "" : base[1],
          from < FROM_CWD ? "" : " and then ", path[1], nofollow ? " (not followed)" : "", want, got);
  abort();
}
