/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This node's partitions as memory that can be sent from (partitions.h). datasets.c calls this in the
 * MPI thread. A mapping lives as long as the daemon.
 */
#include "daemon/blocks/partitions.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "util/sys.h"
#include "util/util.h"

#define FS_PAGE 4096ull
#define FS_CHUNK FS_HUGE_PAGE
#define FS_ROOM_NS 1000000000ull /* how long the answer of fs_parts_room counts */
/* chunks being read at once; beyond that only pages, as others wait for the disk, too */
#define FS_READING_MOST 8u
/* how long there is no room after the kernel has evicted a chunk */
#define FS_LOST_NS 30000000000ull

struct fs_part_map {
  const uint8_t *map;
  bool tried;
  uint8_t *taken; /* one bit for each chunk that was read whole */
  uint8_t *bad;   /* one bit for each chunk whose read failed */
};

struct fs_parts {
  struct fs_part_map *part[FS_MAX_DATASETS];
  bool memory[FS_MAX_DATASETS]; /* fs_parts_in_memory */
  bool told[FS_MAX_DATASETS];   /* the warning about disk errors was given */
  bool room;
  uint32_t reading; /* spans with the I/O pool */
  uint64_t room_until, lost_until;
};

fs_err fs_parts_new(struct fs_daemon *d) {
  struct fs_parts *s = calloc(1, sizeof(*s));
  d->parts = s;
  if (!s) return -ENOMEM;
  for (uint32_t i = 0; i < d->datasets; i++) {
    s->part[i] = calloc(d->data[i].partitions + 1, sizeof(*s->part[i]));
    if (!s->part[i]) return -ENOMEM;
    struct statfs fs;
    s->memory[i] = statfs(d->data[i].stage.local, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
  }
  return 0;
}

bool fs_parts_in_memory(const struct fs_daemon *d, uint32_t dataset) {
  return d->parts->memory[dataset];
}

/* ---- room ---- */

/* Asks for huge folios if partitions are read whole; else the kernel chooses. */
static void fs_parts_advise(const struct fs_daemon *d, bool whole) {
  for (uint32_t i = 0; i < d->datasets; i++) {
    for (uint32_t p = 0; p < d->data[i].partitions; p++) {
      const struct fs_part_map *m = &d->parts->part[i][p];
      if (m->map) fs_map_advise(m->map, d->data[i].stage.index.parts[p].size, whole);
    }
  }
}

/* Returns true if all partitions of this node fit in memory, beside what others have there.
   client/read/chunk.c uses the same rule. */
static bool fs_parts_room(struct fs_daemon *d) {
  struct fs_parts *s = d->parts;
  uint64_t bytes = 0;
  if (d->now < s->room_until) return s->room;
  for (uint32_t i = 0; i < d->datasets; i++) {
    for (uint32_t p = 0; p < d->data[i].partitions; p++)
      bytes += d->data[i].have[p] ? d->data[i].stage.index.parts[p].size : 0;
  }
  bool room = d->now >= s->lost_until && bytes <= fs_memory_available() / 4 * 3;
  if (room != s->room) fs_parts_advise(d, room);
  s->room = room;
  s->room_until = d->now + FS_ROOM_NS;
  return room;
}

/* ---- the mappings ---- */

static void fs_part_map(struct fs_part_map *m, int fd, uint64_t size, bool room) {
  struct stat st;
  m->tried = true;
  if (fd < 0 || size == 0 || fstat(fd, &st) < 0 || (uint64_t)st.st_size != size) return;
  void *p = mmap(fs_map_hint(size), size, PROT_READ, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) return;
  m->taken = calloc(2, size / FS_CHUNK / 8 + 1);
  /* zero bytes: tests only that the kernel knows MADV_POPULATE_READ */
  if (!m->taken || madvise(p, 0, MADV_POPULATE_READ) < 0) {
    free(m->taken);
    m->taken = NULL;
    munmap(p, size);
    return;
  }
  m->bad = m->taken + size / FS_CHUNK / 8 + 1;
  if (room) fs_map_advise(p, size, true);
  m->map = p;
}

const void *fs_part_bytes(struct fs_daemon *d, uint32_t dataset, uint32_t part, uint64_t off) {
  const struct fs_dataset *ds = &d->data[dataset];
  struct fs_part_map *m = &d->parts->part[dataset][part];
  if (!d->net->copies) return NULL;
  if (!m->tried) fs_part_map(m, ds->fd[part], ds->stage.index.parts[part].size, fs_parts_room(d));
  return m->map ? m->map + off : NULL;
}

/* The kernel has evicted what was read, so there is less room than it seemed. */
static void fs_parts_lost(struct fs_daemon *d) {
  struct fs_parts *s = d->parts;
  s->lost_until = d->now + FS_LOST_NS;
  s->room_until = 0;
  for (uint32_t i = 0; i < d->datasets; i++) {
    for (uint32_t p = 0; p < d->data[i].partitions; p++) {
      if (s->part[i][p].map) memset(s->part[i][p].taken, 0, d->data[i].stage.index.parts[p].size / FS_CHUNK / 8 + 1);
    }
  }
}

struct fs_span fs_part_missing(struct fs_daemon *d, uint32_t dataset, uint32_t part, uint64_t off, uint32_t len) {
  const struct fs_part_map *m = &d->parts->part[dataset][part];
  uint64_t size = d->data[dataset].stage.index.parts[part].size;
  uint64_t end = off + len, c = off / FS_CHUNK, border = (c + 1) * FS_CHUNK;
  if ((m->taken[c / 8] >> (c % 8) & 1) && !fs_pages_resident(m->map + off, (uint32_t)(FS_MIN(end, border) - off)))
    fs_parts_lost(d);
  bool bad = m->bad[c / 8] >> (c % 8) & 1;
  if (bad || !fs_parts_room(d)) return (struct fs_span){0};
  uint64_t step = d->parts->reading < FS_READING_MOST ? FS_CHUNK : FS_PAGE;
  uint64_t begin = off & ~(step - 1);
  d->parts->reading++;
  return (struct fs_span){m->map + begin, FS_MIN(fs_round_up(end, step), size) - begin};
}

void fs_part_read(struct fs_daemon *d, uint32_t dataset, uint32_t part, struct fs_span s, fs_err err) {
  struct fs_part_map *m = &d->parts->part[dataset][part];
  uint64_t begin = (uint64_t)(s.at - m->map), end = begin + s.len;
  d->parts->reading--;
  /* how a mapping reports EIO */
  if (err == -EFAULT) m->bad[begin / FS_CHUNK / 8] |= (uint8_t)(1u << (begin / FS_CHUNK % 8));
  if (err < 0) return;
  for (uint64_t c = fs_round_up(begin, FS_CHUNK) / FS_CHUNK; (c + 1) * FS_CHUNK <= end; c++)
    m->taken[c / 8] |= (uint8_t)(1u << (c % 8));
}

void fs_part_failed(struct fs_daemon *d, uint32_t dataset, uint32_t part, fs_err err) {
  char name[FS_PART_NAME_SIZE];
  if (d->parts->told[dataset]) return;
  d->parts->told[dataset] = true;
  fs_say_text(d, "warn", "%s/%s cannot be read: %s; what this disk does not give is read from elsewhere",
              d->data[dataset].stage.local, fs_part_name(part, name), strerror(-err));
}

void fs_part_forget(struct fs_daemon *d, uint32_t dataset, uint32_t part) {
  struct fs_part_map *m = &d->parts->part[dataset][part];
  if (!m->map) return;
  (void)mmap((void *)m->map, d->data[dataset].stage.index.parts[part].size, PROT_READ,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}
