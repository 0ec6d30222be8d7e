/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where paths lead, next to what the kernel says: two directories R and V that hold the same, but that the tree R/m is
 * real and V/m a mount of it. The input chooses the components of a path; both must end at the same name, or with the
 * same error. Symlinks lead everywhere: within the tree, out of it, from the outside into it, round in circles.
 */
#include "../unit/data_fixture.h"
#include "client/path.h"
#include "client/vdir.h"

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
              {"loop-a", "loop-b"},
              {"loop-b", "loop-a"},
              {"grow", "grow/grow"}},
  outside[] = {{"o", ""},   {"o/x", NULL},           {"o/to-m", "../m"},      {"o/to-e", "../m/d/e"},
               {"in", "m"}, {"in-abs", HERE "/m/d"}, {"in-out", "m/out-dir"}, {"chain", "o/to-e/../.."}};

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
                                    "dangling-deep"};
static char top[200];

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

static void make_dataset(void) {
  struct fs_builder *b;
  char target[PATH_MAX], mount[300];
  static struct fix *f;
  f = fix_begin(&b);
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
  snprintf(mount, sizeof(mount), "%s" V "/m", top);
  setenv("FANSTORE_DATASET", f->dataset, 1);
  setenv("FANSTORE_MOUNT", mount, 1);
  unsetenv("FANSTORE_RUN");
}

static void start(void) {
  const char *tmp = getenv("TMPDIR");
  char path[300], real[PATH_MAX];
  snprintf(path, sizeof(path), "%.150s/fuzz-path-XXXXXX", tmp ? tmp : "/tmp");
  if (!mkdtemp(path) || !realpath(path, real)) abort();
  snprintf(top, sizeof(top), "%.190s", real);
  static const struct thing sides[] = {{R, ""}, {V, ""}, {R "/m", ""}};
  for (size_t i = 0; i < FS_ARRAY_LEN(sides); i++) make_real("", "", &sides[i]);
  for (size_t i = 0; i < FS_ARRAY_LEN(inside); i++) make_real(R, "/m/", &inside[i]);
  for (size_t i = 0; i < FS_ARRAY_LEN(outside); i++) make_real(R, "/", &outside[i]);
  for (size_t i = 0; i < FS_ARRAY_LEN(outside); i++) make_real(V, "/", &outside[i]);
  make_dataset();
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

/* What the kernel finds: its name, or an error. */
static void by_kernel(const char *path, bool nofollow, const char *which, char *out) {
  char link[64], found[PATH_MAX];
  int fd = -1;
  /* A walk that a mount elsewhere makes begin anew counts its symlinks twice: ELOOP where there are more than 20. */
  for (int i = 0; fd < 0 && (i == 0 || (errno == ELOOP && i < 4)); i++)
    fd = open(path, O_PATH | O_CLOEXEC | (nofollow ? O_NOFOLLOW : 0));
  if (fd < 0) {
    snprintf(out, PATH_MAX, "%s", strerrorname_np(errno));
    return;
  }
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, found, sizeof(found) - 1);
  close(fd);
  if (n < 0) abort();
  found[n] = '\0';
  common(found, which, out);
}

static void by_entry(const struct fs_found *f, char *out) {
  char path[PATH_MAX], below[PATH_MAX + 8];
  fs_err err;
  if (fs_is_vdir(f->entry)) {
    if (fs_path_of(f->mount, f->entry, path, sizeof(path)) < 0) abort();
    common(path, V, out);
    return;
  }
  const struct fs_index *ix = fs_mount_index(f->mount, &err);
  fs_ssize n = ix ? fs_index_path(ix, f->entry, below, sizeof(below)) : -1;
  if (n < 0) abort();
  snprintf(out, PATH_MAX, "*/m%s%.4000s", n > 0 ? "/" : "", below);
}

static void by_library(const char *path, bool nofollow, char *out) {
  struct fs_found f;
  unsigned flags = nofollow ? FS_NOFOLLOW : 0;
  int route = fs_path_route(AT_FDCWD, path, flags, &f);
  if (route == FS_OUT) { /* as wrappers do: the kernel first */
    int fd = open(path, O_PATH | O_CLOEXEC | (nofollow ? O_NOFOLLOW : 0));
    if (fd < 0) route = fs_path_retry(AT_FDCWD, path, flags, -errno, &f);
    if (fd >= 0) close(fd);
  }
  if (route == FS_OUT)
    by_kernel(path, nofollow, V, out);
  else if (route == FS_REDIRECT)
    by_kernel(f.real, nofollow, V, out);
  else if (route == FS_IN)
    by_entry(&f, out);
  else
    snprintf(out, PATH_MAX, "%s", strerrorname_np(route == FS_NEW ? ENOENT : -route));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char real[2 * PATH_MAX], mine[2 * PATH_MAX], want[PATH_MAX], got[PATH_MAX];
  if (top[0] == '\0') start();
  if (size == 0) return 0;
  int n = snprintf(real, sizeof(real), "%s" R, top), m = snprintf(mine, sizeof(mine), "%s" V, top);
  for (size_t i = 1; i < size && n < PATH_MAX + 100; i++) {
    const char *name = names[data[i] % FS_ARRAY_LEN(names)];
    n += snprintf(real + n, sizeof(real) - (size_t)n, "/%s", name);
    m += snprintf(mine + m, sizeof(mine) - (size_t)m, "/%s", name);
  }
  by_kernel(real, data[0] & 1, R, want);
  by_library(mine, data[0] & 1, got);
  if (strcmp(want, got) == 0) return 0;
  fprintf(stderr, "%s%s\n  kernel:  %s\n  library: %s\n", mine, data[0] & 1 ? " (not followed)" : "", want, got);
  abort();
}
