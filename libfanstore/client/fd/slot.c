/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared table of open file descriptions: how it is made and inherited, and its allocator, a
 * bitmap in shared memory that any process may change by compare and swap. A process that dies
 * leaves its bits set; slot_scan.c finds them when slots run short.
 */
#include "client/fd/slot.h"

#include <linux/memfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/data_priv.h"
#include "client/fd/fdreal.h"
#include "client/node/mountlist.h"
#include "ipc/node.h"
#include "util/sys.h"
#include "util/util.h"

struct fs_state *_Atomic fs_state;
struct fs_slot fs_slot_closed = {.kind = FS_SLOT_CLOSED};

/* Descriptors of the state and the store, + 1; 0: none. */
static _Atomic int32_t state_fd, store_fd;
static _Atomic bool env_tried;

int fs_state_fd(void) {
  return atomic_load_explicit(&state_fd, memory_order_acquire) - 1;
}

int fs_state_store(void) {
  return atomic_load_explicit(&store_fd, memory_order_acquire) - 1;
}

void fs_state_text(char out[FS_STATE_TEXT]) {
  char number[FS_U64_TEXT];
  int store = fs_state_store();
  strcpy(out, fs_u64_text((uint64_t)fs_state_fd(), number));
  if (store < 0) return;
  strcat(out, ",");
  strcat(out, fs_u64_text((uint64_t)store, number));
}

static struct fs_state *map_state(int fd) {
  void *p = fs_sys_mmap(NULL, sizeof(struct fs_state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  return fs_sys_mmap_failed(p) ? NULL : p;
}

/* Publishes one thread's table. A loser's goes away. */
static struct fs_state *install(struct fs_state *st, int fd, int store) {
  struct fs_state *none = NULL;
  if (atomic_compare_exchange_strong(&fs_state, &none, st)) {
    if (store >= 0) fs_own_note(store, &store_fd);
    fs_own_note(fd, &state_fd);
    atomic_store_explicit(&store_fd, FS_MAX(store, -1) + 1, memory_order_release);
    atomic_store_explicit(&state_fd, fd + 1, memory_order_release);
    return st;
  }
  fs_sys_munmap(st, sizeof(*st));
  return none;
}

/* Parses "STATE,STORE": two numbers, of which the second may be missing. */
static bool parse_state(const char *text, uint64_t *fd, uint64_t *store) {
  char first[FS_STATE_TEXT];
  size_t len = text != NULL ? strcspn(text, ",") : 0;
  if (len == 0 || len >= sizeof(first)) return false;
  memcpy(first, text, len);
  first[len] = '\0';
  if (fs_parse_u64(first, 3, 1u << 30, fd) != 0) return false;
  *store = 0;
  return text[len] == '\0' || fs_parse_u64(text + len + 1, 3, 1u << 30, store) == 0;
}

static struct fs_state *inherit_state(void) {
  uint64_t fd, store;
  struct stat sb;
  if (!parse_state(getenv(FS_ENV_STATE), &fd, &store)) return NULL;
  if (fs_sys_fstat((int)fd, &sb) != 0 || !S_ISREG(sb.st_mode) || (uint64_t)sb.st_size != sizeof(struct fs_state))
    return NULL;
  struct fs_state *st = map_state((int)fd);
  if (st == NULL) return NULL;
  if (st->magic != FS_STATE_MAGIC || st->version != FS_STATE_VERSION || st->slots != FS_SLOTS) {
    fs_sys_munmap(st, sizeof(*st));
    return NULL;
  }
  bool has_store = store > 0 && fs_sys_fstat((int)store, &sb) == 0 && S_ISSOCK(sb.st_mode) &&
                   sb.st_ino == st->store_ino && sb.st_dev == st->sock_dev;
  return install(st, (int)fd, has_store ? (int)store : -1);
}

/* Moves fd to a high number, inheritable: executed programs find their open files through it. */
static fs_fd place_inheritable(fs_fd fd) {
  if (fd < 0) return fd;
  fs_fd high = fs_data_adopt_fd(fd);
  if (high < 0) high = fd;
  fs_sys_fcntl(high, F_SETFD, 0);
  return high;
}

static_assert(sizeof(struct fs_state) < 170000000, "the next message says so");
static struct fs_state *fill_state(int fd, int store) {
  struct stat sb = {0};
  struct fs_state *st = NULL;
  if (fs_sys_file_limit() < sizeof(struct fs_state))
    FS_NOTE("a limit of file sizes (ulimit -f) is below 170 MB: no file below a mount can be opened; raise it");
  else if (FS_SYS2(SYS_ftruncate, fd, sizeof(struct fs_state)) == 0)
    st = map_state(fd);
  if (st == NULL) return NULL;
  if (store >= 0 && fs_sys_fstat(store, &sb) == 0) st->store_ino = sb.st_ino;
  st->sock_dev = sb.st_dev;
  st->began = fs_process_began("self");
  st->version = FS_STATE_VERSION;
  st->slots = FS_SLOTS;
  st->limit = FS_SLOTS_FIRST;
  st->magic = FS_STATE_MAGIC;
  return st;
}

/* Makes the table. A vfork child never does: the memory would be its parent's, the descriptors
   not. */
static struct fs_state *create_state(void) {
  if (fs_vfork_depth > 0) return NULL;
  bool publish = fs_own_publish_begin();
  fs_fd fd = place_inheritable((fs_fd)FS_SYS2(SYS_memfd_create, "fanstore-state", MFD_CLOEXEC));
  fs_fd store = fd < 0 ? fd : place_inheritable(fs_store_new());
  struct fs_state *st = fd < 0 ? NULL : fill_state(fd, store), *won = st == NULL ? NULL : install(st, fd, store);
  if (won != st || st == NULL) {
    fs_own_close(fd);
    fs_own_close(store);
  }
  if (publish) fs_own_publish_end();
  return won;
}

struct fs_state *fs_state_attach(bool create) {
  struct fs_state *st = atomic_load_explicit(&fs_state, memory_order_acquire);
  if (FS_LIKELY(st != NULL)) return st;
  /* Every thread that comes here before the answer is known asks: none may make a table while one
     is inherited. */
  if (!atomic_load(&env_tried)) st = inherit_state();
  atomic_store(&env_tried, true);
  if (st == NULL) st = atomic_load_explicit(&fs_state, memory_order_acquire);
  return st == NULL && create ? create_state() : st;
}

void fs_state_ahead(void) {
  if (fs_mount_count() > 0 && fs_run_set() && !fs_mounts_read_only()) fs_state_attach(true);
}

static int64_t take_between(struct fs_state *st, uint32_t from, uint32_t to) {
  for (uint32_t w = from; w < to; w++) {
    uint64_t used = atomic_load_explicit(&st->used[w], memory_order_relaxed);
    while (~used != 0) {
      uint32_t bit = (uint32_t)__builtin_ctzll(~used);
      if (!atomic_compare_exchange_weak(&st->used[w], &used, used | 1ull << bit)) continue;
      atomic_store_explicit(&st->hint, w, memory_order_relaxed);
      return (int64_t)w * 64 + bit;
    }
  }
  return -ENFILE;
}

/* Takes nearly the lowest free slot: the hint may be late. */
static int64_t try_alloc(struct fs_state *st) {
  uint32_t end = FS_MIN(atomic_load_explicit(&st->limit, memory_order_relaxed), FS_SLOTS) / 64;
  uint32_t hint = FS_MIN(atomic_load_explicit(&st->hint, memory_order_relaxed), end);
  int64_t i = take_between(st, hint, end);
  return i < 0 ? take_between(st, 0, hint) : i;
}

/*
 * Finds a slot if all up to the limit are marked used, some of which may have no holder any more.
 * As long as few can be such, the limit is doubled, because a scan takes some tenths of a second of
 * a processor. The limit is also doubled before a scan, so that other processes can go on
 * meanwhile. If the scan finds half of the slots free, the limit goes back.
 */
static int64_t alloc_short(struct fs_state *st) {
  int64_t i = -ENFILE;
  for (int tries = 0; i < 0 && tries < 3;) { /* another scan may have freed the slots of this one */
    uint32_t was = atomic_load(&st->limit), more = was * 2;
    bool scan = was >= FS_SLOTS || atomic_load(&st->left) >= was / 2;
    bool raised = was < FS_SLOTS && atomic_compare_exchange_strong(&st->limit, &was, more);
    if (scan && (raised || was >= FS_SLOTS)) {
      uint32_t freed = fs_slot_reclaim(st);
      if (raised && freed >= was / 2) atomic_compare_exchange_strong(&st->limit, &more, was);
      tries++;
    }
    i = try_alloc(st);
  }
  return i;
}

int64_t fs_slot_alloc(struct fs_state *st) {
  int64_t i = try_alloc(st);
  if (FS_UNLIKELY(i < 0)) i = alloc_short(st);
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

bool fs_slot_free_if(struct fs_state *st, uint32_t index, uint32_t gen) {
  struct fs_slot *s = &st->slot[index];
  if (!atomic_compare_exchange_strong(&s->gen, &gen, gen + 1)) return false;
  atomic_store_explicit(&s->ino, 0, memory_order_relaxed);
  atomic_store_explicit(&s->kind, FS_SLOT_FREE, memory_order_release);
  atomic_fetch_and_explicit(&st->used[index / 64], ~(1ull << index % 64), memory_order_release);
  if (atomic_load_explicit(&st->hint, memory_order_relaxed) > index / 64)
    atomic_store_explicit(&st->hint, index / 64, memory_order_relaxed);
  return true;
}

void fs_slot_free(struct fs_state *st, uint32_t index) {
  fs_slot_free_if(st, index, atomic_load(&st->slot[index].gen));
}

int64_t fs_slot_by_ino(const struct fs_state *st, uint64_t ino) {
  uint32_t high = FS_MIN(atomic_load_explicit(&st->high, memory_order_acquire), FS_SLOTS);
  for (uint32_t i = 0; ino != 0 && i < high; i++)
    if (atomic_load_explicit(&st->slot[i].ino, memory_order_relaxed) == ino) return i;
  return -ENOENT;
}
