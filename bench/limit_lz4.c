/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What LZ4_compress_default gives: limit_lz4 BLOCK THREADS DIRECTORY LIST reads the files of LIST into memory, then
 * compresses all of them, each in blocks of BLOCK bytes, by so many threads. Prints a JSON object: bytes, stored, and
 * first: nanoseconds of it all. Reading is not timed.
 */
#include <inttypes.h>
#include <lz4.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common.h"

struct file {
  char *data;
  size_t size;
};

static struct file *files;
static size_t n, total;
static int block;
static atomic_size_t next, stored;

static void load(const char *path) {
  FILE *f = fopen(path, "re");
  struct stat st;
  if (!f || fstat(fileno(f), &st) != 0) die(path);
  struct file *more = realloc(files, (n + 1) * sizeof(*files));
  if (!more) die("memory");
  files = more;
  struct file new = {malloc((size_t)st.st_size + 1), (size_t)st.st_size};
  if (!new.data || fread(new.data, 1, new.size, f) != new.size) die(path);
  files[n++] = new;
  total += new.size;
  fclose(f);
}

static void load_all(const char *top, const char *list) {
  FILE *f = fopen(list, "re");
  if (!f) die(list);
  char *line = NULL, *path;
  size_t room = 0;
  for (ssize_t len; (len = getline(&line, &room, f)) > 0;) {
    line[strcspn(line, "\n")] = 0;
    if (asprintf(&path, "%s/%s", top, line) < 0) die("memory");
    load(path);
    free(path);
  }
  free(line);
  fclose(f);
}

static void *worker(void *arg) {
  (void)arg;
  int room = LZ4_compressBound(block);
  char *out = malloc((size_t)room);
  if (!out) die("memory");
  memset(out, 1, (size_t)room);
  for (size_t i; (i = atomic_fetch_add(&next, 1)) < n;)
    for (size_t at = 0; at < files[i].size; at += (size_t)block) {
      int len = files[i].size - at < (size_t)block ? (int)(files[i].size - at) : block;
      atomic_fetch_add(&stored, (size_t)LZ4_compress_default(files[i].data + at, out, len, room));
    }
  free(out);
  return NULL;
}

int main(int argc, char **argv) {
  int threads = argc == 5 ? atoi(argv[2]) : 0;
  block = argc == 5 ? atoi(argv[1]) : 0;
  if (threads < 1 || threads > 64 || block < 1 || block > LZ4_MAX_INPUT_SIZE) {
    fprintf(stderr, "usage: limit_lz4 BLOCK THREADS DIRECTORY LIST\n");
    return 2;
  }
  load_all(argv[3], argv[4]);
  pthread_t thread[64];
  uint64_t t = now();
  for (int i = 0; i < threads; i++)
    if (pthread_create(&thread[i], NULL, worker, NULL) != 0) die("thread");
  for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
  t = now() - t;
  printf("{\"bytes\": %zu, \"stored\": %zu, \"first\": %" PRIu64 "}\n", total, atomic_load(&stored), t);
  return 0;
}
