/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Says what paths are: paths.sh runs this where the tree is a real file system and where it is a mount, and compares.
 * Usage: paths TOP TREE SEED COUNT, with random paths made of what TOP (a directory) and TREE (below it) hold; or
 * paths TOP TREE -, with paths from standard input ("@DIR" changes the current directory). What a path leads to is told
 * by its content, never by numbers that differ between file systems.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static unsigned long long state;

static unsigned draw(unsigned n) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (unsigned)(state >> 33) % n;
}

static void say_error(const char *what) {
  printf(" %s:%s", what, strerrorname_np(errno));
}

static void say_stat(const char *what, int r, const struct stat *st) {
  if (r != 0) {
    say_error(what);
    return;
  }
  printf(" %s:%o:%ld", what, st->st_mode, S_ISDIR(st->st_mode) ? 0L : (long)st->st_size);
  if (!S_ISDIR(st->st_mode)) printf(":%ld:%d", (long)st->st_mtime, (int)st->st_nlink);
}

static void say_content(int fd) {
  char buf[200];
  ssize_t n = read(fd, buf, sizeof(buf) - 1);
  if (n < 0) {
    say_error("read");
    return;
  }
  buf[strcspn(memcpy(buf, buf, (size_t)n), "\n")] = '\0';
  printf(" '%.*s'", (int)n, buf);
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void say_list(DIR *d) {
  const struct dirent *e;
  char *name[200];
  int n = 0;
  while (n < 200 && (e = readdir(d)) != NULL) {
    int type = e->d_type == DT_DIR ? '/' : e->d_type == DT_LNK ? '@' : e->d_type == DT_REG ? ' ' : '?';
    if (asprintf(&name[n], "%s%c", e->d_name, type) > 0) n++;
  }
  qsort(name, (size_t)n, sizeof(name[0]), by_name);
  printf(" [");
  for (int i = 0; i < n; i++) {
    printf(i == 0 ? "%s" : ",%s", name[i]);
    free(name[i]);
  }
  printf("]");
}

/* A walk that a mount elsewhere makes begin anew counts its symlinks twice: the kernel's ELOOP where there are more
   than
   20. Who meets it asks again. */
#define AGAIN(call)                                                                                                    \
  ({                                                                                                                   \
    __typeof__(call) got_;                                                                                             \
    int tries_ = 0;                                                                                                    \
    do {                                                                                                               \
      errno = 0;                                                                                                       \
      got_ = (call);                                                                                                   \
    } while (errno == ELOOP && tries_++ < 4);                                                                          \
    got_;                                                                                                              \
  })

/* Everything about a path from a directory. */
static void look(int dirfd, const char *path) {
  struct stat st;
  char text[PATH_MAX];
  say_stat("stat", AGAIN(fstatat(dirfd, path, &st, 0)), &st);
  say_stat("lstat", AGAIN(fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW)), &st);
  if (AGAIN(faccessat(dirfd, path, R_OK, 0)) != 0) say_error("access");
  ssize_t n = AGAIN(readlinkat(dirfd, path, text, sizeof(text) - 1));
  if (n < 0)
    say_error("readlink");
  else
    printf(" ->%.*s", (int)n, text);
  int fd = AGAIN(openat(dirfd, path, O_RDONLY));
  if (fd < 0) {
    say_error("open");
  } else {
    say_content(fd);
    DIR *d = fdopendir(fd);
    if (d == NULL) {
      say_error("fdopendir");
      close(fd);
    } else {
      say_list(d);
      closedir(d);
    }
  }
  fd = AGAIN(openat(dirfd, path, O_PATH | O_NOFOLLOW));
  if (fd < 0) say_error("O_PATH");
  if (fd >= 0) say_stat("fstat", fstat(fd, &st), &st), close(fd);
}

/* What only takes paths from the current directory. */
static void look_here(const char *path) {
  char text[PATH_MAX];
  if (AGAIN(realpath(path, text)) == NULL)
    say_error("realpath");
  else
    printf(" =%s", text);
  DIR *d = AGAIN(opendir(path));
  if (d == NULL)
    say_error("opendir");
  else
    say_list(d), closedir(d);
}

/* Not out of the top directory for long: further up others make and remove files. */
static void enter(const char *top, const char *path) {
  char text[PATH_MAX] = "";
  if (AGAIN(chdir(path)) != 0) {
    say_error("chdir");
    return;
  }
  if (getcwd(text, sizeof(text)) == NULL)
    say_error("getcwd");
  else
    printf(" cwd %s", text);
  if (strncmp(text, top, strlen(top)) != 0 && chdir(top) != 0) exit(2);
}

static char long_name[NAME_MAX + 2];

static const char *part(void) {
  static const char *const parts[] = {"..",    "..",    "..",   "..",    "..",   ".",     "",      "a",     "b",
                                      "c.txt", "d",     "e",    "f.txt", "la",   "lup",   "m",     "n",     "t",
                                      "la",    "lfile", "labs", "lout",  "lrel", "lloop", "ldang", "lself", "o",
                                      "r1",    "r2",    "file", "om",    "oma",  "od",    "od",    "oup",   "oanc",
                                      "odang", "extra", "a b",  "nl\nx", "\xff", "k1",    "k40",   "k41"};
  if (draw(60) == 0) return long_name;
  return parts[draw(sizeof(parts) / sizeof(parts[0]))];
}

/* A directory of the tree to start from, or the one above; often a path that exists. */
static void random_path(const char *top, const char *tree, char *out) {
  static const char *const starts[] = {"", "/a", "/d/e", "/la", "/lself", "/..", "/../.."};
  static const char *const around[] = {"", "/o", "/o/r1/r2", "/o/om", "/o/od", "/m", "/m/n", "/o/oanc"};
  unsigned kind = draw(10);
  out[0] = '\0';
  if (kind < 4) sprintf(out, "%s%s/", tree, starts[draw(sizeof(starts) / sizeof(starts[0]))]);
  if (kind >= 4 && kind < 7) sprintf(out, "%s%s/", top, around[draw(sizeof(around) / sizeof(around[0]))]);
  unsigned parts = 1 + draw(5);
  for (unsigned i = 0; i < parts; i++) {
    strcat(out, part());
    if (i + 1 < parts || draw(6) == 0) strcat(out, "/");
  }
}

static void random_paths(const char *top, const char *tree, unsigned count) {
  static char path[20 * PATH_MAX];
  int dir = -1;
  for (unsigned i = 0; i < count; i++) {
    random_path(top, tree, path);
    printf("%u %s", i, path);
    look(AT_FDCWD, path);
    look_here(path);
    if (dir >= 0) look(dir, path);
    if (draw(4) == 0) {
      enter(top, path);
      if (draw(3) == 0) look(AT_FDCWD, "."), look(AT_FDCWD, "..");
    }
    if (draw(8) == 0) {
      if (dir >= 0) close(dir);
      int flags = O_DIRECTORY | (draw(2) ? O_PATH : O_RDONLY);
      dir = AGAIN(open(path, flags));
      printf(" dir %s", dir >= 0 ? "open" : strerrorname_np(errno));
    }
    if (dir >= 0 && draw(20) == 0) printf(" fchdir %d", fchdir(dir));
    printf("\n");
  }
}

static void given_paths(const char *top) {
  char path[2 * PATH_MAX];
  while (fgets(path, sizeof(path), stdin) != NULL) {
    path[strcspn(path, "\n")] = '\0';
    printf("%s", path);
    if (path[0] == '@') {
      enter(top, path + 1);
    } else {
      look(AT_FDCWD, path);
      look_here(path);
    }
    printf("\n");
  }
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  setvbuf(stdout, NULL, _IOLBF, 1 << 16);
  memset(long_name, 'x', NAME_MAX + 1);
  if (chdir(argv[1]) != 0) return 2;
  state = strtoull(argv[3], NULL, 10);
  if (argc == 4)
    given_paths(argv[1]);
  else
    random_paths(argv[1], argv[2], (unsigned)atoi(argv[4]));
  return 0;
}
