/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One operation over and over, for profilers: hotpath [-o] [-n NODE] stat|read|piece COUNT DIRECTORY. bench/profile.sh
 * runs it. read is open, fstat, read of the whole file, close; piece reads a file in steps of 4 KiB, and an operation
 * is one step. All files are read before, then COUNT operations are done on files drawn at random. With -o nothing is
 * read before, and each file is read once in random order, at most COUNT. -n takes only files that NODE of FanStore
 * serves. Prints the nanoseconds of an operation, and the processor time of this process in it, as JSON.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common.h"

enum { PIECE = 4096 };

static char **files, *buffer;
static const char *node;
static size_t n_files, largest;
static uint64_t seed = 88172645463325252ULL;

static size_t any(size_t below) {
  return (size_t)(next_random(&seed) % below);
}

static void note(const char *path, size_t size) {
  if (node) {
    char served[16] = "";
    if (getxattr(path, "user.fanstore.node", served, sizeof(served) - 1) < 0) die(path);
    if (strcmp(served, node) != 0) return;
  }
  char **more = realloc(files, (n_files + 1) * sizeof(*files));
  if (!more || !(more[n_files++] = strdup(path))) die("memory");
  files = more;
  if (size > largest) largest = size;
}

/* Notes the files below a directory. */
static void walk(const char *dir) {
  DIR *d = opendir(dir);
  if (!d) die(dir);
  for (const struct dirent *e; (e = readdir(d));) {
    struct stat st;
    char *path;
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    if (asprintf(&path, "%s/%s", dir, e->d_name) < 0) die("memory");
    if (lstat(path, &st) < 0) die(path);
    if (S_ISDIR(st.st_mode))
      walk(path);
    else if (S_ISREG(st.st_mode))
      note(path, (size_t)st.st_size);
    free(path);
  }
  closedir(d);
}

static size_t op_stat(const char *path) {
  struct stat st;
  if (stat(path, &st) < 0) die(path);
  return 1;
}

static size_t op_read(const char *path) {
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &st) < 0 || read(fd, buffer, (size_t)st.st_size) != st.st_size) die(path);
  close(fd);
  return 1;
}

static size_t op_piece(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  size_t done = 0;
  ssize_t got = 0;
  if (fd < 0) die(path);
  while ((got = read(fd, buffer, PIECE)) > 0) done++;
  if (got < 0) die(path);
  close(fd);
  return done;
}

/* Of its own, so that callgrind can be told to count only what happens in it. */
__attribute__((noinline)) static size_t measured(size_t (*op)(const char *), size_t count, int once) {
  size_t done = 0;
  for (size_t i = 0; once ? i < n_files && i < count : done < count; i++) done += op(files[once ? i : any(n_files)]);
  return done;
}

static void shuffle(void) {
  for (size_t i = n_files; i > 1; i--) {
    size_t j = any(i);
    char *swap = files[i - 1];
    files[i - 1] = files[j];
    files[j] = swap;
  }
}

static int64_t cpu(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return (int64_t)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000000000 +
         (r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1000;
}

static void run(const char *name, size_t (*op)(const char *), size_t count, int once) {
  buffer = malloc(largest + PIECE);
  if (!buffer) die("malloc");
  memset(buffer, 1, largest + PIECE);
  shuffle();
  /* Three times: mappings are populated only where it is worth it. */
  for (size_t i = 0; !once && i < 3 * n_files; i++) (void)op_read(files[i % n_files]);
  uint64_t start = now();
  int64_t used = cpu();
  double done = (double)measured(op, count, once), ns = (double)(now() - start);
  printf("{\"operation\": \"%s\", \"count\": %.0f, \"ns\": %.1f, \"cpu_ns\": %.1f}\n", name, done, ns / done,
         (double)(cpu() - used) / done);
}

int main(int argc, char **argv) {
  size_t (*op)(const char *) = NULL;
  int once = 0;
  for (int c; (c = getopt(argc, argv, "on:")) != -1;) {
    if (c == 'o')
      once = 1;
    else if (c == 'n')
      node = optarg;
    else
      return 2;
  }
  char **a = argv + optind;
  if (argc - optind == 3)
    op = !strcmp(a[0], "stat") ? op_stat : !strcmp(a[0], "read") ? op_read : !strcmp(a[0], "piece") ? op_piece : NULL;
  if (!op) {
    fprintf(stderr, "usage: hotpath [-o] [-n NODE] stat|read|piece COUNT DIRECTORY\n");
    return 2;
  }
  walk(a[2]);
  if (n_files == 0) {
    fprintf(stderr, "hotpath: no file in %s\n", a[2]);
    return 1;
  }
  run(a[0], op, strtoul(a[1], NULL, 10), once);
  return 0;
}
