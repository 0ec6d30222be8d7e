/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds what the partner lacks of a file. A thread of the pool reads the file in steps, block by
 * block, and compares the XXH3 of each block with that of the block last sent. Only the new bytes
 * are sent of a block that has become longer. The thread has the copy to itself while `reading` is
 * set.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/replicas/replicas.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_STAT_BLOCK 512u /* what st_blocks counts */

static fs_err fs_copy_sum(struct fs_copy *c, uint64_t i, uint64_t sum) {
  if (i >= c->room) {
    uint32_t room = FS_MAX(2 * c->room, (uint32_t)i + 8);
    uint64_t *grown = realloc(c->sum, room * sizeof(*grown));
    if (!grown) return -ENOMEM;
    c->sum = grown;
    c->room = room;
  }
  c->sum[i] = sum;
  return 0;
}

/* Reads up to n bytes, fewer only at the end of the file. Returns how many. */
static fs_ssize fs_copy_bytes(int fd, unsigned char *buf, size_t n, uint64_t off) {
  size_t got = 0;
  while (got < n) {
    fs_ssize k = fs_sys_pread(fd, buf + got, n - got, off + got);
    if (k == -EINTR) continue;
    if (k < 0) return k;
    if (k == 0) break;
    got += (size_t)k;
  }
  return (fs_ssize)got;
}

/* Returns how many bytes of this block the partner has. */
static size_t fs_copy_known(const struct fs_copy *c, uint64_t begin) {
  return begin / FS_OUTPUT_BLOCK < c->blocks ? FS_MIN((uint64_t)c->st.st_size - begin, FS_OUTPUT_BLOCK) : 0;
}

/* Returns the end of the hole that begins with this block, rounded to a block or the file's end;
   `begin` if there is none. */
static uint64_t fs_copy_hole(const struct fs_copy *c, int fd, uint64_t begin) {
  uint64_t size = (uint64_t)c->now.st_size;
  if ((uint64_t)c->now.st_blocks * FS_STAT_BLOCK >= size) return begin;
  off_t data = lseek(fd, (off_t)begin, SEEK_DATA);
  if (data < 0) return errno == ENXIO ? size : begin;
  return (uint64_t)data >= size ? size : FS_MAX((uint64_t)data / FS_OUTPUT_BLOCK * FS_OUTPUT_BLOCK, begin);
}

/* Describes the hole from c->at to `end`, so that it takes no room at the partner either. *send
   is set if the partner does not have it. */
static fs_err fs_copy_zeros(struct fs_copy *c, struct fs_replica_block *b, uint64_t end, bool *send) {
  uint64_t begin = c->at, whole, sum;
  memset(b->bytes, 0, FS_OUTPUT_BLOCK);
  whole = fs_xxh3(b->bytes, FS_OUTPUT_BLOCK);
  for (uint64_t at = begin; at < end; at += FS_OUTPUT_BLOCK) {
    size_t len = FS_MIN(end - at, FS_OUTPUT_BLOCK);
    sum = len == FS_OUTPUT_BLOCK ? whole : fs_xxh3(b->bytes, len);
    *send = *send || fs_copy_known(c, at) != len || c->sum[at / FS_OUTPUT_BLOCK] != sum;
    fs_err err = fs_copy_sum(c, at / FS_OUTPUT_BLOCK, sum);
    if (err < 0) return err;
    c->at = at;
  }
  b->head.offset = begin;
  b->head.length = 0;
  b->head.hole = end - begin;
  b->head.xxh3 = 0;
  return 0;
}

/* Reads the block at c->at into b. *send is set if some of it has to be sent. */
static fs_err fs_copy_block(struct fs_copy *c, int fd, struct fs_replica_block *b, bool *send) {
  uint64_t begin = c->at, i = begin / FS_OUTPUT_BLOCK;
  size_t len = FS_MIN((uint64_t)c->now.st_size - begin, FS_OUTPUT_BLOCK), known = fs_copy_known(c, begin), from = 0;
  uint64_t hole = fs_copy_hole(c, fd, begin);
  if (hole > begin) return fs_copy_zeros(c, b, hole, send);
  b->head.hole = 0;
  fs_ssize got = fs_copy_bytes(fd, b->bytes, len, begin);
  if (got < 0) return (fs_err)got;
  if ((size_t)got < len) { /* the file has become shorter, and will be published again */
    c->now.st_size = (off_t)(begin + (uint64_t)got);
    c->ended = true;
  }
  uint64_t sum = fs_xxh3(b->bytes, (size_t)got);
  *send = got > 0 && (known != (size_t)got || sum != c->sum[i]);
  if (!*send) return got > 0 ? fs_copy_sum(c, i, sum) : 0;
  if (known > 0 && known < (size_t)got && fs_xxh3(b->bytes, known) == c->sum[i]) from = known;
  if (from > 0) memmove(b->bytes, b->bytes + from, (size_t)got - from);
  b->head.offset = begin + from;
  b->head.length = (uint32_t)((size_t)got - from);
  b->head.xxh3 = from > 0 ? fs_xxh3(b->bytes, b->head.length) : sum;
  return fs_copy_sum(c, i, sum);
}

static struct fs_replica_block *fs_copy_buffer(struct fs_copy *c) {
  struct fs_replica_block *b = malloc(sizeof(*b) + FS_OUTPUT_BLOCK);
  if (!b) return NULL;
  b->copy = c;
  b->head = (struct fs_wire_replica){
      .magic = FS_WIRE_REPLICA_MAGIC, .version = FS_WIRE_VERSION, .file = c->id, .generation = c->generation};
  return b;
}

static fs_err fs_copy_begin(struct fs_copy *c, int fd) {
  fs_err err = fs_sys_fstat(fd, &c->now);
  if (err < 0) return err;
  if (!S_ISREG(c->now.st_mode)) return -ENOENT;
  if (c->now.st_size > (int64_t)FS_OUTPUT_BLOCK * FS_OUTPUT_BLOCKS) return -EFBIG;
  if (c->now.st_size < c->st.st_size) c->begin = 0, c->end = UINT64_MAX;
  /* The skipped blocks may have changed all the same; that is then published later. */
  bool passed = c->begin > 0 || c->end < (uint64_t)c->now.st_size;
  c->loose = passed || fs_backing_young(&c->now);
  c->begun = true;
  return 0;
}

/* Returns the next block that may differ from the partner's. The last one that the partner has
   may have become longer. */
static uint64_t fs_copy_skip(const struct fs_copy *c) {
  uint64_t last = c->blocks > 0 ? (c->blocks - 1ull) * FS_OUTPUT_BLOCK : 0, at = c->at;
  if (at < last && at + FS_OUTPUT_BLOCK <= c->begin) at = FS_MIN(c->begin / FS_OUTPUT_BLOCK * FS_OUTPUT_BLOCK, last);
  return at < last && at >= c->end ? last : at;
}

fs_err fs_copy_read(struct fs_io *io) {
  struct fs_copy *c = FS_ITEM(io, struct fs_copy, io);
  struct fs_replica_block *spare = NULL;
  FS_AUTO_CLOSE fs_fd fd = fs_backing_file_open(c->d, c->id, O_RDONLY | O_NONBLOCK);
  /* -ELOOP: the backing file is a link to a staged-in file */
  if (fd < 0) return fd == -ELOOP ? -ENOENT : fd;
  fs_err err = c->begun ? 0 : fs_copy_begin(c, fd);
  for (uint32_t looked = 0; err == 0 && c->n < FS_REPLICA_STEP; looked++) {
    bool send = false;
    c->at = fs_copy_skip(c);
    if (c->at >= (uint64_t)c->now.st_size) c->ended = true;
    if (c->ended || looked == FS_REPLICA_LOOKED) break;
    if (!spare && (spare = fs_copy_buffer(c)) == NULL) return -ENOMEM;
    err = fs_copy_block(c, fd, spare, &send);
    c->at += FS_OUTPUT_BLOCK;
    if (err < 0 || !send) continue;
    c->block[c->n++] = spare;
    spare = NULL;
  }
  free(spare);
  return err;
}
