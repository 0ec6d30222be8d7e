/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which chunks of the mapped local partitions are in this process's page tables, and when to put
 * one there. If memory has room for the dataset, a chunk is taken whole, in one call, by page cache
 * folios as large as page table entries: a warm chunk after a few reads, one that has to come from
 * the device as soon as that is worth it. If it has no room, only the wanted bytes are read, and
 * only chunks that are in memory anyway are mapped. local.c alone calls this. No locks: the chunks'
 * states are hints, and all other words may have any value.
 */
#include <sys/mman.h>

#include "client/data_priv.h"
#include "client/fd/fdtab.h"
#include "ipc/room.h"
#include "util/util.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

#define FS_WARM_UNIT 8u           /* of a count, for 4 KiB from the page cache (fs_chunk_read) */
#define FS_GAIN_SHIFT 9           /* ns that such a read from the mapping saves, about 2^9 */
#define FS_AT_LEAST 2u            /* reads before a chunk is populated */
#define FS_AT_MOST 64u            /* the same, if small folios make that dear */
#define FS_COST_MOST 400000ull    /* a longer time was an interruption */
#define FS_FROM_DEVICE_NS 100000u /* if populating takes longer, it was not only page tables */
#define FS_ROOM_NS 1000000000ull  /* an answer of fs_room_look is good for so long */
#define FS_LOSSES_MOST 6u
#define FS_LOOKS 8u
#define FS_FAULT_AROUND 65536u    /* the kernel's fault_around_bytes, unless it was set to another value */
#define FS_LOST_NS 30000000000ull /* no room for so long after the kernel has taken back a chunk */

static _Atomic uint32_t g_never;         /* the kernel has no MADV_POPULATE_READ */
static _Atomic uint32_t g_cost = 2048;   /* ns that populating a chunk takes, moving average */
static _Atomic uint32_t g_room;          /* the last answer, of FS_ROOM_ALL chunks */
static _Atomic uint32_t g_losses;        /* how often the kernel took chunks back */
static _Atomic uint64_t g_until, g_lost; /* ends of the answer, and of having no room */
static _Atomic int32_t g_meminfo;        /* descriptor + 1 */
static _Atomic uint64_t g_hand;          /* counts looks at what is in memory */

/* ---- room ---- */

/* Returns the available memory. The file is opened once, so that no read takes a low number that
   the program may want. */
static uint64_t fs_meminfo_read(void) {
  for (;;) {
    bool temporary = false;
    fs_fd fd = fs_vfork_depth > 0 ? -1 : atomic_load_explicit(&g_meminfo, memory_order_acquire) - 1;
    if (fd < 0) {
      fs_fd low = fs_open_read(FS_MEMINFO);
      if (low < 0) return 0;
      fd = fs_own_publish(&g_meminfo, low, &temporary);
    }
    uint64_t got = fs_mem_available(fd);
    if (temporary) fs_sys_close(fd);
    if (FS_LIKELY(fs_own_still(&g_meminfo, fd, temporary))) return got;
  }
}

/* Returns the memory for the partitions. Unless all are kept in the page cache, it is halved each
   time that it proved too much. */
static uint64_t fs_room_bytes(const struct fs_ctl *ctl) {
  uint64_t bytes = fs_meminfo_read();
  if (!ctl) return bytes;
  if (ctl->memory_limit > 0) bytes = FS_MIN(bytes, ctl->memory_limit);
  return ctl->flags & FS_CTL_IO_CACHED ? bytes : bytes >> atomic_load_explicit(&g_losses, memory_order_relaxed);
}

/* Returns the opened datasets one after the other, and NULL after the last. */
static struct fs_dataset *fs_dataset_next(uint32_t *i) {
  struct fs_config *config = fs_config();
  struct fs_dataset *ds = NULL;
  while (!ds && *i < config->mounts) ds = atomic_load_explicit(&config->mount[(*i)++].ds, memory_order_acquire);
  return ds;
}

static void fs_advise(bool whole) {
  uint32_t i = 0;
  for (struct fs_dataset *ds; (ds = fs_dataset_next(&i));) {
    for (uint32_t p = 0; p < ds->ix.nparts; p++) {
      void *map = atomic_load_explicit(&ds->part[p].map, memory_order_acquire);
      if (map) fs_map_advise(map, ds->ix.parts[p].size, whole);
    }
  }
}

/* Finds for how many chunks of the local partitions memory has room beside what others have there.
   MemAvailable counts the page cache, and so also what it has of the partitions. */
static uint32_t fs_room_look(uint64_t now) {
  const struct fs_ctl *ctl = NULL;
  uint64_t bytes = 0;
  uint32_t i = 0;
  for (const struct fs_dataset *ds; (ds = fs_dataset_next(&i));) {
    for (uint32_t p = 0; p < ds->ix.nparts; p++) bytes += fs_is_local(ds, p) ? ds->ix.parts[p].size : 0;
    ctl = ds->node ? ds->node->ctl : ctl;
  }
  bool lost = now < atomic_load_explicit(&g_lost, memory_order_relaxed);
  uint32_t room = lost ? 0 : fs_room_share(ctl ? ctl->flags : FS_CTL_IO_CACHED, bytes, fs_room_bytes(ctl));
  uint32_t before = atomic_exchange_explicit(&g_room, room, memory_order_relaxed);
  if ((before > 0) != (room > 0)) fs_advise(room > 0);
  atomic_store_explicit(&g_until, now + FS_ROOM_NS, memory_order_relaxed);
  return room;
}

static uint32_t fs_room(uint64_t now) {
  if (now < atomic_load_explicit(&g_until, memory_order_relaxed))
    return atomic_load_explicit(&g_room, memory_order_relaxed);
  return fs_room_look(now);
}

/* Chooses always the same chunks, spread over all partitions, in all processes of the node. */
static bool fs_room_for(uint64_t now, uint32_t p, uint64_t c) {
  uint32_t room = fs_room(now);
  if (room == 0 || room == FS_ROOM_ALL) return room > 0;
  return ((c << 16 | p) * 0x9e3779b97f4a7c15ull) >> (64 - FS_ROOM_SHIFT) < room;
}

bool fs_chunk_room(uint32_t p, uint64_t c) {
  return fs_room_for(fs_now_ns(), p, c);
}

bool fs_chunk_direct(struct fs_dataset *ds, uint32_t p, uint64_t c) {
  uint32_t flags = ds->node ? ds->node->ctl->flags : FS_CTL_IO_CACHED;
  if (flags & (FS_CTL_IO_CACHED | FS_CTL_IO_DIRECT)) return flags & FS_CTL_IO_DIRECT;
  return !fs_chunk_room(p, c);
}

void fs_local_mapped(const void *map, size_t n) {
  if (atomic_load_explicit(&g_room, memory_order_relaxed)) fs_map_advise(map, n, true);
}

/* ---- what the kernel has taken back ---- */

/* Looks at one page of a chunk, another one each time. That finds most chunks that are not in
   memory. */
static bool fs_page_resident(struct fs_dataset *ds, uint32_t p, const uint8_t *map, uint64_t c) {
  uint64_t begin = c << FS_CHUNK_SHIFT, len = FS_MIN(FS_CHUNK, ds->ix.parts[p].size - begin);
  uint64_t n = atomic_fetch_add_explicit(&g_hand, 1, memory_order_relaxed);
  return fs_pages_resident(map + begin + n * 37 % ((len + 4095) / 4096) * 4096, 1);
}

/* A populated chunk is no longer in memory, so there is less room than it seemed, because of a
   limit of the cgroup, for example. All chunks start again, and for a while only the wanted bytes
   are read. */
static void fs_room_lost(uint64_t now) {
  uint32_t i = 0;
  uint32_t losses = atomic_load_explicit(&g_losses, memory_order_relaxed);
  uint64_t before = atomic_exchange_explicit(&g_lost, now + FS_LOST_NS, memory_order_relaxed);
  if (before <= now) atomic_store_explicit(&g_losses, FS_MIN(losses + 1, FS_LOSSES_MOST), memory_order_relaxed);
  for (struct fs_dataset *ds; (ds = fs_dataset_next(&i));) {
    for (uint32_t p = 0; p < ds->ix.nparts; p++) {
      _Atomic uint16_t *chunk = atomic_load_explicit(&ds->part[p].chunk, memory_order_acquire);
      for (uint64_t c = 0; chunk && c <= ds->ix.parts[p].size >> FS_CHUNK_SHIFT; c++)
        atomic_store_explicit(&chunk[c], FS_CHUNK_COLD, memory_order_relaxed);
    }
  }
  fs_room_look(now);
}

/* Looks at one populated chunk of the partition, another one each time. */
static void fs_chunk_sample(struct fs_dataset *ds, uint32_t p, const uint8_t *map, uint64_t now) {
  _Atomic uint16_t *chunk = atomic_load_explicit(&ds->part[p].chunk, memory_order_acquire);
  uint64_t chunks = ds->ix.parts[p].size >> FS_CHUNK_SHIFT; /* whole ones */
  for (unsigned tries = 0; chunk && chunks > 0 && tries < 16; tries++) {
    uint64_t c = atomic_fetch_add_explicit(&g_hand, 1, memory_order_relaxed) % chunks;
    if ((atomic_load_explicit(&chunk[c], memory_order_relaxed) & FS_CHUNK_KIND) != FS_CHUNK_PRESENT) continue;
    if (!fs_page_resident(ds, p, map, c)) fs_room_lost(now);
    return;
  }
}

bool fs_chunk_likely(const uint8_t *map, uint64_t off, uint64_t n) {
  uint64_t first = off & ~4095ull, last = (off + n - 1) & ~4095ull;
  uint64_t any = atomic_fetch_add_explicit(&g_hand, 1, memory_order_relaxed) * 37 % (((last - first) >> 12) + 1);
  return fs_pages_resident(map + first + (any << 12), 1) && fs_pages_resident(map + first, 1) &&
         fs_pages_resident(map + last, 1);
}

/* Returns whether a chunk is likely to be in memory as a whole. */
static bool fs_chunk_whole(const uint8_t *chunk, uint64_t len) {
  for (uint64_t at = 0; at < len; at += FS_CHUNK / FS_LOOKS) {
    if (!fs_chunk_likely(chunk, at, FS_MIN(FS_CHUNK / FS_LOOKS, len - at))) return false;
  }
  return true;
}

/* ---- populating ---- */

static void fs_cost_note(uint64_t ns) {
  uint32_t cost = atomic_load_explicit(&g_cost, memory_order_relaxed);
  atomic_store_explicit(&g_cost, (3 * cost + (uint32_t)ns) / 4, memory_order_relaxed);
}

static uint32_t fs_populate_at(void) {
  uint32_t reads = atomic_load_explicit(&g_cost, memory_order_relaxed) >> FS_GAIN_SHIFT;
  return FS_MIN(FS_MAX(reads, FS_AT_LEAST), FS_AT_MOST);
}

/* Takes a chunk that is in memory by faults. Each takes all pages around it that are in memory. With
   these, faults cost half of what MADV_POPULATE_READ does, which looks at each page by itself. */
static void fs_touch(const uint8_t *chunk, uint64_t len) {
  for (uint64_t at = 0; at < len; at += FS_FAULT_AROUND) (void)*(const volatile uint8_t *)(chunk + at);
}

static uint32_t fs_populate(struct fs_dataset *ds, uint32_t p, uint64_t c, const uint8_t *map, bool resident) {
  uint64_t begin = c << FS_CHUNK_SHIFT, len = FS_MIN(FS_CHUNK, ds->ix.parts[p].size - begin), now = fs_now_ns();
  bool room = fs_room_for(now, p, c);
  /* A fault of a page that the device cannot read would be SIGBUS. MADV_POPULATE_READ gives an error. */
  resident = resident || (fs_page_resident(ds, p, map, c) && fs_pages_resident(map + begin, len));
  if (!room && !resident) return FS_CHUNK_COLD;
  if (resident) {
    fs_touch(map + begin, len);
  } else {
    long err = FS_SYS3(SYS_madvise, map + begin, len, MADV_POPULATE_READ);
    if (err == -EINVAL) atomic_store_explicit(&g_never, 1, memory_order_relaxed);
    if (err < 0) return err == -EINTR || err == -EAGAIN ? FS_CHUNK_COLD : FS_CHUNK_NEVER;
  }
  uint64_t ns = fs_now_ns() - now;
  if (resident || ns < FS_FROM_DEVICE_NS) {
    fs_cost_note(FS_MIN(ns, FS_COST_MOST));
    return FS_CHUNK_PRESENT;
  }
  if (room && fs_room(now) == FS_ROOM_ALL) fs_cold_follow(ds, p, c);
  fs_chunk_sample(ds, p, map, now);
  return now < atomic_load_explicit(&g_lost, memory_order_relaxed) ? FS_CHUNK_COLD : FS_CHUNK_PRESENT;
}

/* Takes the chunk into the page tables, from the device if there is room for all. `resident` says
   that it is known to be in memory. Returns whether it is present now. */
static bool fs_chunk_take(struct fs_dataset *ds, uint32_t p, _Atomic uint16_t *word, uint64_t c, bool resident) {
  const uint8_t *map = atomic_load_explicit(&g_never, memory_order_relaxed) ? NULL : fs_local_map(ds, p);
  uint32_t kind = map ? fs_populate(ds, p, c, map, resident) : FS_CHUNK_NEVER;
  /* The looks at a partition's chunks are spread over time. */
  uint32_t count = kind == FS_CHUNK_PRESENT ? (uint32_t)(c * 37) % FS_CHUNK_LOOK_AT : 0;
  atomic_store_explicit(word, (uint16_t)(kind | count), memory_order_relaxed);
  return kind == FS_CHUNK_PRESENT;
}

bool fs_chunk_look(struct fs_dataset *ds, uint32_t p, _Atomic uint16_t *word, uint64_t c) {
  const uint8_t *map = fs_local_map(ds, p);
  bool present = map && fs_page_resident(ds, p, map, c);
  atomic_store_explicit(word, present ? FS_CHUNK_PRESENT : FS_CHUNK_COLD, memory_order_relaxed);
  if (!present) fs_room_lost(fs_now_ns());
  return present;
}

bool fs_chunk_read(struct fs_dataset *ds, uint32_t p, _Atomic uint16_t *word, uint64_t c, size_t n, bool cold) {
  uint32_t w = atomic_load_explicit(word, memory_order_relaxed), at = fs_populate_at();
  if ((w & FS_CHUNK_KIND) != FS_CHUNK_COLD) return false;
  uint32_t count = (w & FS_CHUNK_COUNT) + (cold ? at : FS_WARM_UNIT) * (1 + (uint32_t)(n >> 12));
  if (count >= FS_WARM_UNIT * at) return fs_chunk_take(ds, p, word, c, false);
  atomic_store_explicit(word, (uint16_t)(FS_CHUNK_COLD | count), memory_order_relaxed);
  return false;
}

/* ---- large reads ---- */

/* Of 64 KiB each: moving averages in this process and its parents, 0 if not known. They differ from
   machine to machine by a factor of three, either way. */
static _Atomic uint32_t g_pread_ns, g_copy_ns;

/* A shorter time counts more: a longer one may be an interruption. The other way's time is forgotten
   slowly, so that it is tried again. */
static void fs_big_note(_Atomic uint32_t *of, _Atomic uint32_t *other, uint64_t ns, size_t n) {
  if (n < 65536) return;
  uint32_t now = (uint32_t)FS_MAX(FS_MIN(ns, FS_COST_MOST) * 65536 / n, 1u);
  uint32_t before = atomic_load_explicit(of, memory_order_relaxed);
  uint32_t then = atomic_load_explicit(other, memory_order_relaxed);
  uint32_t next = before == 0 || now < before ? (before + now) / (before == 0 ? 1 : 2) : before + (now - before) / 8;
  atomic_store_explicit(of, next, memory_order_relaxed);
  atomic_store_explicit(other, then - then / 64, memory_order_relaxed);
}

void fs_chunk_preaded(uint64_t began, size_t n) {
  fs_big_note(&g_pread_ns, &g_copy_ns, fs_now_ns() - began, n);
}

void fs_chunk_copied(uint64_t began, size_t n) {
  fs_big_note(&g_copy_ns, &g_pread_ns, fs_now_ns() - began, n);
}

/* Returns after how many pages that were read of a chunk its first copy from the mapping pays: when
   preads have cost as much more than copies as populating costs. At the latest when the chunk is
   read again. */
static uint32_t fs_big_at(void) {
  uint32_t pread = atomic_load_explicit(&g_pread_ns, memory_order_relaxed);
  uint32_t copy = atomic_load_explicit(&g_copy_ns, memory_order_relaxed);
  uint32_t cost = atomic_load_explicit(&g_cost, memory_order_relaxed), most = FS_CHUNK >> 12;
  if (copy == 0) return 0;
  return pread <= copy ? most : FS_MIN(16 * cost / (pread - copy), most);
}

bool fs_chunk_read_big(struct fs_dataset *ds, uint32_t p, _Atomic uint16_t *word, uint64_t c, size_t n) {
  uint32_t w = atomic_load_explicit(word, memory_order_relaxed);
  if ((w & FS_CHUNK_KIND) != FS_CHUNK_COLD) return false;
  const uint8_t *map = fs_local_map(ds, p);
  uint64_t begin = c << FS_CHUNK_SHIFT, len = FS_MIN(FS_CHUNK, ds->ix.parts[p].size - begin);
  uint32_t count = (w & FS_CHUNK_COUNT) + (uint32_t)(n >> 12);
  bool again = count > FS_CHUNK >> 12;
  if (map && (again || (count > fs_big_at() && fs_chunk_whole(map + begin, len)))) {
    bool resident = fs_pages_resident(map + begin, len);
    if (resident || (again && fs_chunk_room(p, c))) return fs_chunk_take(ds, p, word, c, resident);
  }
  atomic_store_explicit(word, (uint16_t)(FS_CHUNK_COLD | FS_MIN(count, FS_CHUNK_COUNT)), memory_order_relaxed);
  return false;
}
