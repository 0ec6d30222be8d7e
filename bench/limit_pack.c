/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The steps of packing that nothing can leave out, and no others: limit_pack lz4|zstd:LEVEL|raw BLOCK THREADS DIRECTORY
 * LIST OUT reads the files of LIST by blocks, compresses each block, takes its checksum, gathers what is to be stored
 * in buffers of 2 MiB, takes their checksums, writes them to OUT.N with O_DIRECT and syncs. No order, no names, no
 * index. Two threads for each of THREADS, one of which computes while the other waits for the disk. Prints a JSON
 * object: bytes, stored, and first: nanoseconds of it all.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <lz4.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include "common.h"
#include "util/sys.h"
#include "util/util.h"

#define BUFFER (2u << 20)

static char **paths;
static size_t n, block;
static int top;
static bool lz4;
static int zstd_level; /* 0: not zstd */
static const char *out_name;
static atomic_size_t next, total, stored;
static _Atomic unsigned number;
static _Atomic uint64_t sums; /* so that no checksum is left out */

struct out {
  int fd;
  uint8_t *data;
  size_t used;
  uint64_t at;
};

static void load_list(const char *list) {
  FILE *f = fopen(list, "re");
  if (!f) die(list);
  char *line = NULL;
  size_t room = 0;
  while (getline(&line, &room, f) > 0) {
    line[strcspn(line, "\n")] = 0;
    char **more = realloc(paths, (n + 1) * sizeof(*paths));
    if (!more || !(more[n++] = strdup(line))) die("memory");
    paths = more;
  }
  free(line);
  fclose(f);
}

static void *pages(size_t size) {
  void *p = aligned_alloc(BUFFER, (size + BUFFER - 1) / BUFFER * BUFFER);
  if (!p) die("memory");
  madvise(p, BUFFER, MADV_HUGEPAGE);
  return memset(p, 1, size);
}

static void flush(struct out *o) {
  atomic_fetch_add(&sums, fs_xxh3(o->data, o->used));
  size_t whole = (o->used + 4095) & ~(size_t)4095;
  if (fs_pwrite_full(o->fd, o->data, whole, o->at) < 0) die("write");
  o->at += whole;
  o->used = 0;
}

static void put(struct out *o, const uint8_t *data, size_t len) {
  atomic_fetch_add(&sums, fs_xxh3(data, len));
  while (len > 0) {
    size_t k = FS_MIN(len, BUFFER - o->used);
    memcpy(o->data + o->used, data, k);
    o->used += k;
    data += k;
    len -= k;
    if (o->used == BUFFER) flush(o);
  }
}

/* A thread's memory. */
struct room {
  uint8_t *plain, *packed;
  size_t packed_size;
  ZSTD_CCtx *zstd;
};

/* Returns the size, or 0 if it is stored raw. */
static size_t compress(const struct room *r, size_t len) {
  size_t got = 0;
  if (lz4) got = (size_t)LZ4_compress_default((char *)r->plain, (char *)r->packed, (int)len, (int)r->packed_size);
  if (zstd_level != 0) got = ZSTD_compressCCtx(r->zstd, r->packed, r->packed_size, r->plain, len, zstd_level);
  return !ZSTD_isError(got) && got < len ? got : 0;
}

static void one_file(const char *path, const struct room *r, struct out *o) {
  size_t bytes = 0, kept = 0;
  int fd = openat(top, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) die(path);
  for (ssize_t got; (got = pread(fd, r->plain, block, (off_t)bytes)) != 0;) {
    if (got < 0) die(path);
    size_t len = compress(r, (size_t)got);
    put(o, len > 0 ? r->packed : r->plain, len > 0 ? len : (size_t)got);
    bytes += (size_t)got;
    kept += len > 0 ? len : (size_t)got;
    if ((size_t)got < block) break;
  }
  close(fd);
  atomic_fetch_add(&total, bytes);
  atomic_fetch_add(&stored, kept);
}

static void *worker(void *arg) {
  (void)arg;
  char *name;
  if (asprintf(&name, "%s.%u", out_name, atomic_fetch_add(&number, 1)) < 0) die("memory");
  struct out o = {.fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600), .data = pages(BUFFER)};
  if (o.fd < 0) die(name);
  struct room r = {.packed_size = FS_MAX(ZSTD_compressBound(block), (size_t)LZ4_compressBound((int)block))};
  r.plain = pages(block);
  r.packed = pages(r.packed_size);
  r.zstd = ZSTD_createCCtx();
  if (!r.zstd) die("memory");
  for (size_t i; (i = atomic_fetch_add(&next, 1)) < n;) one_file(paths[i], &r, &o);
  if (o.used > 0) flush(&o);
  if (fsync(o.fd) != 0) die(name);
  close(o.fd);
  free(o.data);
  ZSTD_freeCCtx(r.zstd);
  free(r.plain);
  free(r.packed);
  return name;
}

int main(int argc, char **argv) {
  unsigned threads = argc == 7 ? 2 * (unsigned)strtoul(argv[3], NULL, 10) : 0;
  block = argc == 7 ? strtoul(argv[2], NULL, 10) : 0;
  if (threads < 1 || threads > 256 || block < 4096 || block > BUFFER) {
    fprintf(stderr, "usage: limit_pack lz4|zstd:LEVEL|raw BLOCK THREADS DIRECTORY LIST OUT\n");
    return 2;
  }
  lz4 = strcmp(argv[1], "lz4") == 0;
  zstd_level = strncmp(argv[1], "zstd:", 5) == 0 ? atoi(argv[1] + 5) : 0;
  out_name = argv[6];
  load_list(argv[5]);
  top = open(argv[4], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (top < 0) die(argv[4]);
  pthread_t thread[256];
  uint64_t t = now();
  for (unsigned i = 0; i < threads; i++)
    if (pthread_create(&thread[i], NULL, worker, NULL) != 0) die("thread");
  void *name[256];
  for (unsigned i = 0; i < threads; i++) pthread_join(thread[i], &name[i]);
  t = now() - t;
  for (unsigned i = 0; i < threads; i++) unlink(name[i]); /* not timed */
  printf("{\"bytes\": %zu, \"stored\": %zu, \"first\": %" PRIu64 "}\n", atomic_load(&total), atomic_load(&stored), t);
  return 0;
}
