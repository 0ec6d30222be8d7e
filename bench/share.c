/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads one process's share of a tree, as one of several training processes does in an epoch: share [-s SEED] K N
 * DIRECTORY. An ordinary program; bench/suites/scale.py runs N of them on a plain directory and on a mount.
 *
 * Lists DIRECTORY, sorts the paths, draws the same order of all files as its fellows, and reads whole every N-th file
 * from the K-th on (0 to N - 1). Prints one JSON object: listed (files in all), files and bytes that it has read; sum,
 * of all their paths and bytes, whatever their order; list_s, read_s: seconds; anon, tables, peak: its memory at the
 * end in MiB, as RssAnon, VmPTE and VmHWM of /proc/self/status.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common.h"

/* Paths below the top, one after the other, each with its zero. */
static char *names;
static size_t names_used, names_room;
static uint32_t *at, n_files, room; /* where each path begins in names */
static size_t bytes, files;
static uint64_t sum;

static void *grown(void *p, size_t size) {
  p = realloc(p, size);
  if (!p) die("memory");
  return p;
}

static void push(const char *path, size_t length) {
  if (n_files == room) at = grown(at, (room = room ? 2 * room : 1 << 16) * sizeof(*at));
  if (names_used + length + 1 > names_room) names = grown(names, names_room = 2 * names_room + (1 << 20));
  if (names_used + length > UINT32_MAX) die("too many names");
  at[n_files++] = (uint32_t)names_used;
  memcpy(names + names_used, path, length + 1);
  names_used += length + 1;
}

/* path: a buffer of 4096, of which length is used, with the directory's path; top: the part that is left out. */
static void list(char *path, size_t length, size_t top) {
  DIR *d = opendir(path);
  if (!d) die(path);
  for (const struct dirent *e; (e = readdir(d));) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    size_t n = strlen(e->d_name);
    if (length + n + 2 > 4096) die(path);
    path[length] = '/';
    memcpy(path + length + 1, e->d_name, n + 1);
    if (e->d_type == DT_DIR) list(path, length + 1 + n, top);
    if (e->d_type == DT_REG) push(path + top + 1, length + n - top);
  }
  path[length] = 0;
  closedir(d);
}

static int by_name(const void *a, const void *b) {
  return strcmp(names + *(const uint32_t *)a, names + *(const uint32_t *)b);
}

static void shuffle(uint64_t x) {
  for (uint32_t i = n_files; i > 1; i--) {
    uint32_t j = (uint32_t)(next_random(&x) % i), t = at[i - 1];
    at[i - 1] = at[j];
    at[j] = t;
  }
}

static uint64_t mixed(uint64_t h, const char *p, size_t n) {
  for (uint64_t word = 0; n > 0; word = 0) {
    size_t k = n < sizeof(word) ? n : sizeof(word);
    memcpy(&word, p, k);
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    p += k, n -= k;
  }
  return h;
}

static void read_one(const char *path, uint64_t h) {
  static char buffer[1 << 20];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) != 0) die(path);
  for (size_t left = (size_t)st.st_size; left > 0;) {
    ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n <= 0) die(path);
    h = mixed(h, buffer, (size_t)n);
    bytes += (size_t)n;
    left -= (size_t)n < left ? (size_t)n : left;
  }
  close(fd);
  sum += h;
  files++;
}

static void read_share(const char *top, uint32_t first, uint32_t step) {
  char path[4096];
  for (uint64_t i = first; i < n_files; i += step) {
    const char *name = names + at[i];
    if (snprintf(path, sizeof(path), "%s/%s", top, name) >= (int)sizeof(path)) die(name);
    read_one(path, mixed(1, name, strlen(name)));
  }
}

/* A line of /proc/self/status, MiB. */
static double status_of(const char *key) {
  char line[256];
  unsigned long kib = 0;
  FILE *f = fopen("/proc/self/status", "re");
  if (!f) die("/proc/self/status");
  while (fgets(line, sizeof(line), f))
    if (!strncmp(line, key, strlen(key))) kib = strtoul(line + strlen(key), NULL, 10);
  fclose(f);
  return (double)kib / 1024;
}

int main(int argc, char **argv) {
  uint64_t seed = 1;
  for (int c; (c = getopt(argc, argv, "s:")) != -1;) {
    if (c != 's') return 2;
    seed = strtoull(optarg, NULL, 10);
  }
  static char path[4096];
  unsigned long k = optind + 3 == argc ? strtoul(argv[optind], NULL, 10) : 0;
  unsigned long n = optind + 3 == argc ? strtoul(argv[optind + 1], NULL, 10) : 0;
  if (k >= n || n > 1000 || strlen(argv[optind + 2]) >= sizeof(path)) {
    fprintf(stderr, "usage: share [-s SEED] K N DIRECTORY\n");
    return 2;
  }
  const char *top = strcpy(path, argv[optind + 2]);
  uint64_t began = now();
  list(path, strlen(top), strlen(top));
  qsort(at, n_files, sizeof(*at), by_name);
  uint64_t listed = now();
  shuffle(88172645463325252u ^ seed << 1);
  read_share(top, (uint32_t)k, (uint32_t)n);
  double read_s = (double)(now() - listed) / 1e9;
  printf("{\"listed\": %" PRIu32 ", \"files\": %zu, \"bytes\": %zu, \"sum\": %" PRIu64
         ", \"list_s\": %.3f, \"read_s\": %.3f, "
         "\"anon\": %.2f, \"tables\": %.2f, \"peak\": %.1f}\n",
         n_files, files, bytes, sum, (double)(listed - began) / 1e9, read_s, status_of("RssAnon:"), status_of("VmPTE:"),
         status_of("VmHWM:"));
  return 0;
}
