/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process that the library is loaded in: memory from the kernel, whether this is a forked or a
 * vfork child, and the counters. All files of the client call this. No locks: one published pointer
 * leads to memory that the kernel zeroes in a forked child.
 */
#include <sys/mman.h>

#include "client/data_priv.h"

FS_TLS int fs_vfork_depth;
static void *_Atomic g_self;
/* Used if the kernel has no MADV_WIPEONFORK (before 4.14) or no memory. fs_data_forked then clears
   it. */
static struct fs_self g_self_static;

#ifdef __SANITIZE_THREAD__
/* The sanitizer must see that an address is used again for another thing, and forgets whole pages
   only. */
#define FS_MMAP(at, n, prot, flags, fd) mmap(at, fs_round_up(n, 4096), prot, flags, fd, 0)
#define FS_MUNMAP(p, n) munmap(p, fs_round_up(n, 4096))
#else
#define FS_MMAP(at, n, prot, flags, fd) fs_sys_mmap(at, n, prot, flags, fd, 0)
#define FS_MUNMAP(p, n) fs_sys_munmap(p, n)
#endif

void *fs_mem_map(size_t n) {
  void *p = FS_MMAP(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  return fs_sys_mmap_failed(p) ? NULL : p;
}

void *fs_mem_map_shared(size_t n) {
  void *p = FS_MMAP(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  return fs_sys_mmap_failed(p) ? NULL : p;
}

void *fs_mem_map_fd(int fd, size_t n, int prot) {
  void *p = FS_MMAP(fs_map_hint(n), n, prot, MAP_SHARED, fd);
  return fs_sys_mmap_failed(p) ? NULL : p;
}

void fs_mem_unmap(void *p, size_t n) {
  if (p) FS_MUNMAP(p, n);
}

void *fs_mem_map_wiped(size_t n) {
  void *p = fs_mem_map(n);
  if (p && FS_SYS3(SYS_madvise, p, n, MADV_WIPEONFORK) != 0) {
    fs_mem_unmap(p, n);
    return NULL;
  }
  return p;
}

struct fs_self *fs_self(void) {
  void *self = atomic_load_explicit(&g_self, memory_order_acquire);
  if (FS_LIKELY(self != NULL)) return self;
  void *mine = fs_mem_map_wiped(sizeof(struct fs_self));
  if (!fs_publish_ptr(&g_self, mine ? mine : &g_self_static, &self)) fs_mem_unmap(mine, sizeof(struct fs_self));
  return self;
}

/* Adopts the memory for this process. Signals wait: if a handler forked in the middle, the child
   would take its parent's number for its own. */
static __attribute__((noinline)) bool fs_self_adopt(struct fs_self *self) {
  uint64_t signals;
  fs_sys_sigmask(~0ull, &signals);
  int32_t pid = fs_sys_getpid(), none = 0;
  /* First: later, other threads may make a link of this process. */
  struct fs_link *inherited = fs_link_newest();
  bool adopted = atomic_compare_exchange_strong(&self->pid, &none, pid);
  if (adopted) fs_link_forked(inherited);
  fs_sys_sigmask(signals, NULL);
  return adopted || none == pid;
}

bool fs_self_owner(void) {
  struct fs_self *self = fs_self();
  if (FS_LIKELY(atomic_load_explicit(&self->pid, memory_order_acquire) == fs_sys_getpid())) return true;
  /* A vfork child does not adopt it, even if its parent has not come here yet: the parent would be
     locked out. */
  return fs_vfork_depth == 0 && fs_self_adopt(self);
}

int32_t fs_self_process(void) {
  struct fs_self *self = fs_self();
  if (FS_UNLIKELY(atomic_load_explicit(&self->pid, memory_order_relaxed) == 0)) (void)fs_self_owner();
  return atomic_load_explicit(&self->pid, memory_order_relaxed);
}

void fs_data_forked(void) {
  struct fs_self *self = fs_self();
  if (self == &g_self_static) {
    atomic_store(&self->link, NULL);
    atomic_store(&self->trace, NULL);
    atomic_store(&self->link_retry_ns, 0);
    for (unsigned i = 0; i < FS_C_COUNT; i++) atomic_store_explicit(&self->counter[i], 0, memory_order_relaxed);
    atomic_store(&self->pid, 0);
  }
  fs_self_owner();
}

static inline _Atomic uint64_t *fs_counters(void) {
  struct fs_self *self = fs_self();
  struct fs_link *link = atomic_load_explicit(&self->link, memory_order_acquire);
  if (FS_UNLIKELY(!link) && !atomic_load_explicit(&fs_no_run, memory_order_relaxed)) link = fs_link_get();
  return link ? link->channel->counter : self->counter;
}

void fs_count(unsigned counter, uint64_t n) {
  if (counter < FS_C_COUNT) atomic_fetch_add_explicit(&fs_counters()[counter], n, memory_order_relaxed);
}

void fs_count_place(enum fs_place place, uint64_t blocks, uint64_t bytes) {
  _Atomic uint64_t *word = fs_counters();
  if ((unsigned)place >= FS_PLACE_COUNT) return;
  atomic_fetch_add_explicit(&word[FS_C_BLOCKS + place], blocks, memory_order_relaxed);
  atomic_fetch_add_explicit(&word[FS_C_BYTES + place], bytes, memory_order_relaxed);
}

uint64_t fs_counter_get(unsigned counter) {
  struct fs_self *self = fs_self();
  struct fs_link *link = atomic_load_explicit(&self->link, memory_order_acquire);
  uint64_t n = atomic_load_explicit(&self->counter[counter], memory_order_relaxed);
  return link ? n + atomic_load_explicit(&link->channel->counter[counter], memory_order_relaxed) : n;
}
