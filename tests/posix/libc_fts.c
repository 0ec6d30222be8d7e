/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Walks a tree with fts and nftw in all combinations of their options, and prints everything that a program can see of
 * each step. libc_calls.sh runs this on a plain directory and on a mount with the same tree and compares. Usage: DIR.
 */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *base;
static char *lines[100000];
static size_t count;

/* Without the directory's own name. */
static const char *cut(const char *path) {
  size_t n = strlen(base);
  if (path == NULL) return "NULL";
  return strncmp(path, base, n) == 0 ? path + n : path;
}

static const char *where(void) {
  static char buf[PATH_MAX];
  if (getcwd(buf, sizeof(buf)) == NULL) return "?";
  return cut(buf) == buf ? "outside" : cut(buf);
}

static void line(const char *text) {
  lines[count++] = strdup(text);
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A directory's own order is no one's business: those walks are compared as sets. */
static void flush(const char *title, int sorted) {
  printf("== %s\n", title);
  if (sorted) qsort(lines, count, sizeof(*lines), by_text);
  for (size_t i = 0; i < count; i++) {
    puts(lines[i]);
    free(lines[i]);
  }
  count = 0;
}

static int by_name(const FTSENT **a, const FTSENT **b) {
  return strcmp((*a)->fts_name, (*b)->fts_name);
}
static int by_name_down(const FTSENT **a, const FTSENT **b) {
  return by_name(b, a);
}

static void show(const FTS *walk, const FTSENT *e, const char *what) {
  char text[3 * PATH_MAX], attributes[128] = "-";
  long skew = strncmp(e->fts_path, base, strlen(base)) == 0 ? (long)strlen(base) : 0;
  int with_stat = !(walk->fts_options & FTS_NOSTAT) && e->fts_info != FTS_NSOK && e->fts_info != FTS_DOT;
  if (with_stat)
    snprintf(attributes, sizeof(attributes), "%o %ld %d", e->fts_statp->st_mode,
             S_ISDIR(e->fts_statp->st_mode) ? -1L : (long)e->fts_statp->st_size,
             e->fts_info == FTS_D && e->fts_ino == e->fts_statp->st_ino && e->fts_dev == e->fts_statp->st_dev);
  snprintf(text, sizeof(text),
           "%s info %d level %d name %s %d path %s %ld acc %s errno %d flags %d cycle %s in %s cwd %s [%s]", what,
           e->fts_info, e->fts_level, e->fts_name, e->fts_namelen, cut(e->fts_path),
           strcmp(what, "child") == 0 ? 0 : e->fts_pathlen - skew, cut(e->fts_accpath), e->fts_errno, e->fts_flags,
           e->fts_info == FTS_DC ? e->fts_cycle->fts_name : "-", e->fts_parent->fts_name, where(), attributes);
  line(text);
}

enum act { NOTHING, SKIP, FOLLOW, AGAIN, CHILDREN, NAMES, ACTS };

static void act_on(FTS *walk, FTSENT *e, enum act act) {
  if (act == SKIP && strcmp(e->fts_name, "sub") == 0) fts_set(walk, e, FTS_SKIP);
  if (act == FOLLOW && e->fts_info == FTS_SL && e->fts_number++ == 0) fts_set(walk, e, FTS_FOLLOW);
  if (act == AGAIN && e->fts_info == FTS_F && e->fts_number++ == 0) fts_set(walk, e, FTS_AGAIN);
  if (act != CHILDREN && act != NAMES) return;
  errno = 0;
  FTSENT *child = fts_children(walk, act == NAMES ? FTS_NAMEONLY : 0);
  if (child == NULL && errno != 0) line(strerrorname_np(errno));
  for (; child != NULL; child = child->fts_link) {
    if (act == NAMES)
      line(cut(child->fts_name));
    else
      show(walk, child, "child");
    if (act == CHILDREN && strcmp(child->fts_name, "f1") == 0) fts_set(walk, child, FTS_SKIP);
  }
}

static void walk(char **paths, int options, int (*compare)(const FTSENT **, const FTSENT **), enum act act,
                 const char *title) {
  int cwd = open(".", O_RDONLY);
  errno = 0;
  FTS *walk = fts_open(paths, options, compare);
  if (walk == NULL) {
    line(strerrorname_np(errno));
  } else {
    FTSENT *e;
    if (act >= CHILDREN) {
      const FTSENT *root = fts_children(walk, 0);
      for (; root != NULL; root = root->fts_link) line(cut(root->fts_name));
    }
    for (int i = 0; i < 3000 && (e = fts_read(walk)) != NULL; i++) {
      show(walk, e, "read");
      act_on(walk, e, act);
    }
    line(strerrorname_np(errno));
    int r = fts_close(walk);
    if (r != 0) line("close failed");
  }
  line(where());
  if (fchdir(cwd) != 0) line("no way back");
  close(cwd);
  flush(title, compare == NULL);
}

static void walks(const char *name, char **paths) {
  static const int bits[] = {FTS_NOCHDIR, FTS_NOSTAT, FTS_SEEDOT, FTS_XDEV, FTS_COMFOLLOW};
  int (*const compare[])(const FTSENT **, const FTSENT **) = {NULL, by_name, by_name_down};
  char title[128];
  for (int how = 0; how < 2; how++)
    for (int set = 0; set < 32; set++)
      for (int c = 0; c < 3; c++)
        for (enum act act = NOTHING; act < ACTS; act++) {
          int options = how == 0 ? FTS_PHYSICAL : FTS_LOGICAL;
          for (int i = 0; i < 5; i++) options |= set >> i & 1 ? bits[i] : 0;
          if (c == 2 && act != NOTHING) continue;
          if (!(options & (FTS_NOCHDIR | FTS_LOGICAL)) && set % 10 != 0) continue; /* changing directories is slow */
          if (act == FOLLOW && (options & FTS_XDEV)) continue; /* libc then looks at a word that it never set */
          snprintf(title, sizeof(title), "%s options %x compare %d act %d", name, options, c, act);
          walk(paths, options, compare[c], act, title);
        }
}

static int stop_at, seen;

static int step(const char *path, const struct stat *st, int type, struct FTW *at) {
  char text[3 * PATH_MAX];
  snprintf(text, sizeof(text), "%s type %d base %d level %d %o %ld cwd %s", cut(path), type,
           at->base - (path[0] == '/' ? (int)strlen(base) : 0), at->level, type == FTW_NS ? 0 : st->st_mode,
           type == FTW_NS || S_ISDIR(st->st_mode) ? -1L : (long)st->st_size, where());
  if (stop_at == 0) line(text);
  return ++seen == stop_at ? 77 : 0;
}

static int step_actions(const char *path, const struct stat *st, int type, struct FTW *at) {
  step(path, st, type, at);
  if (strcmp(path + at->base, "sub") == 0 && type == FTW_D) return FTW_SKIP_SUBTREE;
  return FTW_CONTINUE;
}

static int step_old(const char *path, const struct stat *st, int type) {
  struct FTW at = {path[0] == '/' ? (int)strlen(base) : 0, 0};
  return step(path, st, type, &at);
}

static void tree_walks(const char *path) {
  static const int bits[] = {FTW_PHYS, FTW_MOUNT, FTW_CHDIR, FTW_DEPTH, FTW_ACTIONRETVAL};
  char title[PATH_MAX];
  for (int set = 0; set < 32; set++) {
    int flags = 0;
    for (int i = 0; i < 5; i++) flags |= set >> i & 1 ? bits[i] : 0;
    if (!(flags & FTW_PHYS) && cut(path)[0] == '\0') continue; /* ends at a loop, wherever that comes */
    seen = 0;
    errno = 0;
    int r = nftw(path, flags & FTW_ACTIONRETVAL ? step_actions : step, 8, flags);
    snprintf(title, sizeof(title), "nftw %s flags %x: %d %s cwd %s", cut(path), flags, r,
             r < 0 ? strerrorname_np(errno) : "-", where());
    flush(title, 1);
  }
  if (cut(path)[0] == '\0') return;
  seen = 0;
  errno = 0;
  int r = ftw(path, step_old, 8);
  snprintf(title, sizeof(title), "ftw %s: %d %s", cut(path), r, r < 0 ? strerrorname_np(errno) : "-");
  flush(title, 1);
}

int main(int argc, char **argv) {
  char with_slash[PATH_MAX], d[PATH_MAX], to_d[PATH_MAX], none[PATH_MAX], file[PATH_MAX], up[PATH_MAX];
  if (argc != 2) return 2;
  base = argv[1];
  snprintf(with_slash, sizeof(with_slash), "%s/", base);
  snprintf(d, sizeof(d), "%s/d", base);
  snprintf(to_d, sizeof(to_d), "%s/to-d", base);
  snprintf(none, sizeof(none), "%s/none", base);
  snprintf(file, sizeof(file), "%s/a.txt", base);
  snprintf(up, sizeof(up), "%s/d/../d", base);
  walks("one", (char *[]){argv[1], NULL});
  walks("slash", (char *[]){with_slash, NULL});
  walks("many", (char *[]){none, to_d, d, file, up, NULL});
  walks("empty", (char *[]){"", NULL});
  tree_walks(base);
  tree_walks(d);
  tree_walks(up);
  tree_walks(none);
  tree_walks(file);
  tree_walks(to_d);
  stop_at = 5;
  if (chdir(base) != 0) return 3;
  tree_walks("d");
  stop_at = 0;
  tree_walks("d");
  tree_walks("loops");
  walks("relative", (char *[]){"d", "to-d", "./link", ".", NULL});
  return 0;
}
