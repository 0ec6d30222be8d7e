/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared table of open file descriptions: creating and inheriting it, and its allocator, a bitmap in shared
 * memory that any process may change by compare and swap. A process that dies leaves its bits set; slot_scan.c
 * finds them when slots run short.
 */
#include "client/slot.h"

#include <linux/memfd.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "client/data_priv.h"
#include "ipc/node.h"
#include "util/sys.h"
#include "util/util.h"

struct fs_state *_Atomic fs_state;
struct fs_slot fs_slot_closed = {.kind = FS_SLOT_CLOSED};

static _Atomic int state_fd = -1;
static _Atomic bool env_tried;

int fs_state_fd(void) {
  return atomic_load_explicit(&state_fd, memory_order_acquire);
}

static struct fs_state *map_state(int fd) {
  void *p = fs_sys_mmap(NULL, sizeof(struct fs_state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  return fs_sys_mmap_failed(p) ? NULL : p;
}

/* One thread's table wins; a loser's goes away. */
static struct fs_state *install(struct fs_state *st, int fd) {
  struct fs_state *none = NULL;
  if (atomic_compare_exchange_strong(&fs_state, &none, st)) {
    atomic_store_explicit(&state_fd, fd, memory_order_release);
    return st;
  }
  fs_sys_munmap(st, sizeof(*st));
  return none;
}

static struct fs_state *inherit_state(void) {
  const char *text = getenv(FS_ENV_STATE);
  uint64_t fd;
  struct stat sb;
  if (text == NULL || fs_parse_u64(text, 3, 1u << 30, &fd) != 0) return NULL;
  if (fs_sys_fstat((int)fd, &sb) != 0 || !S_ISREG(sb.st_mode) || (uint64_t)sb.st_size != sizeof(struct fs_state))
    return NULL;
  struct fs_state *st = map_state((int)fd);
  if (st == NULL) return NULL;
  if (st->magic == FS_STATE_MAGIC && st->version == FS_STATE_VERSION && st->slots == FS_SLOTS)
    return install(st, (int)fd);
  fs_sys_munmap(st, sizeof(*st));
  return NULL;
}

static struct fs_state *create_state(void) {
  int fd = (int)FS_SYS2(SYS_memfd_create, "fanstore-state", MFD_CLOEXEC);
  if (fd < 0) return NULL;
  bool publish = fs_own_publish_begin();
  fs_fd high = fs_data_adopt_fd(fd);
  if (high < 0) high = fd;
  struct fs_state *st = NULL;
  if (FS_SYS2(SYS_ftruncate, high, sizeof(struct fs_state)) == 0) st = map_state(high);
  if (st == NULL) {
    fs_sys_close(high);
    if (publish) fs_own_publish_end();
    return NULL;
  }
  fs_sys_fcntl(high, F_SETFD, 0); /* exec'ed programs find their open files through it */
  st->version = FS_STATE_VERSION;
  st->slots = FS_SLOTS;
  st->magic = FS_STATE_MAGIC;
  struct fs_state *won = install(st, high);
  if (won != st) fs_own_close(high);
  if (publish) fs_own_publish_end();
  return won;
}

struct fs_state *fs_state_attach(bool create) {
  struct fs_state *st = atomic_load_explicit(&fs_state, memory_order_acquire);
  if (FS_LIKELY(st != NULL)) return st;
  /* Every thread that comes here before the answer is known asks: none may create a table while one is inherited. */
  if (!atomic_load(&env_tried)) st = inherit_state();
  atomic_store(&env_tried, true);
  if (st == NULL) st = atomic_load_explicit(&fs_state, memory_order_acquire);
  return st == NULL && create ? create_state() : st;
}

static int64_t try_alloc(struct fs_state *st) {
  for (uint32_t w = 0; w < FS_SLOTS / 64; w++) {
    uint64_t used = atomic_load_explicit(&st->used[w], memory_order_relaxed);
    while (~used != 0) {
      uint32_t bit = (uint32_t)__builtin_ctzll(~used);
      if (atomic_compare_exchange_weak(&st->used[w], &used, used | 1ull << bit)) return (int64_t)w * 64 + bit;
    }
  }
  return -ENFILE;
}

int64_t fs_slot_alloc(struct fs_state *st) {
  int64_t i = try_alloc(st);
  for (int tries = 0; i < 0 && tries < 3; tries++) { /* another's scan may have freed what ours would have */
    fs_slot_reclaim(st);
    i = try_alloc(st);
  }
  if (i < 0) return i;
  struct fs_slot *s = &st->slot[i];
  atomic_store_explicit(&s->ino, 0, memory_order_relaxed);
  atomic_store_explicit(&s->shared, 0, memory_order_relaxed);
  atomic_store_explicit(&s->kind, FS_SLOT_IDLE, memory_order_release);
  uint32_t high = atomic_load_explicit(&st->high, memory_order_relaxed);
  while (high <= (uint32_t)i && !atomic_compare_exchange_weak(&st->high, &high, (uint32_t)i + 1)) {
  }
  return i;
}

void fs_slot_free(struct fs_state *st, uint32_t index) {
  struct fs_slot *s = &st->slot[index];
  atomic_fetch_add_explicit(&s->gen, 1, memory_order_relaxed);
  atomic_store_explicit(&s->ino, 0, memory_order_relaxed);
  atomic_store_explicit(&s->kind, FS_SLOT_FREE, memory_order_release);
  atomic_fetch_and_explicit(&st->used[index / 64], ~(1ull << index % 64), memory_order_release);
}

int64_t fs_slot_by_ino(const struct fs_state *st, uint64_t ino) {
  uint32_t high = FS_MIN(atomic_load_explicit(&st->high, memory_order_acquire), FS_SLOTS);
  for (uint32_t i = 0; ino != 0 && i < high; i++)
    if (atomic_load_explicit(&st->slot[i].ino, memory_order_relaxed) == ino) return i;
  return -ENOENT;
}
