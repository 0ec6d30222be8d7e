/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the slots that nobody holds any more. A killed process cannot give its slots back, and no
 * process knows whether it is the last one to hold a shared slot. The scan walks /proc/<pid>/fd of
 * every process that may be read, which are the user's, and keeps the slots that appear there as
 * "socket:[ino]". It runs only when slots run short, once in tens of thousands of opens.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/fd/slot.h"
#include "util/dirents.h"
#include "util/util.h"

void fs_each_number(int dirfd, fs_visit_number *visit, void *ctx) {
  struct fs_dirents names = {.fd = dirfd};
  for (const struct dirent64 *d; (d = fs_dirents_next(&names)) != NULL;)
    if (d->d_name[0] >= '0' && d->d_name[0] <= '9') visit(ctx, dirfd, d->d_name);
}

/* Reads a file of a process in /proc from its beginning, or "" if it cannot be read. */
static void read_about(const char *name, const char *file, char *text, size_t size) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%.20s/%s", name, file);
  FS_AUTO_CLOSE int fd = fs_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  fs_ssize n = fd < 0 ? 0 : fs_sys_read(fd, text, size - 1);
  text[n > 0 ? n : 0] = '\0';
}

uint64_t fs_process_began(const char *name) {
  char text[1024];
  unsigned long long ticks = 0;
  read_about(name, "stat", text, sizeof(text));
  const char *rest = strrchr(text, ')'); /* the 20th field after the name, which may be anything */
  if (rest) (void)sscanf(rest + 1, "%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%*s%llu", &ticks);
  return ticks;
}

/*
 * Returns whether a process whose descriptors are not shown may hold slots. Such a process is not
 * dumpable, or is another user's. It may hold some only if it is younger than the state, whose
 * first user is the ancestor of all others, and may be this user's. Root without its capabilities
 * is not shown the descriptors of a process that has given up being root, either.
 */
static bool may_hold(const struct fs_state *st, const char *name) {
  char text[1024];
  unsigned user[4] = {0};
  uint64_t began = fs_process_began(name);
  if (began != 0 && began < st->began) return false;
  read_about(name, "status", text, sizeof(text));
  const char *ids = strstr(text, "\nUid:");
  if (geteuid() == 0 || !ids || sscanf(ids + 5, "%u%u%u%u", &user[0], &user[1], &user[2], &user[3]) != 4) return true;
  for (unsigned i = 0; i < 4; i++)
    if (user[i] == getuid() || user[i] == geteuid()) return true;
  return false;
}

struct scan {
  const struct fs_state *st;
  uint32_t slots; /* ever used, when the scan began */
  uint32_t mask;  /* of `by_ino` */
  bool blind;     /* a process could not be looked at */
  uint64_t *held; /* one bit a slot */
  uint64_t *ino;  /* of each slot when the scan began; `gen` is its generation before that */
  uint32_t *gen;
  uint32_t *by_ino; /* slot + 1, a hash table with linear probing; 0: free */
};

static uint32_t place_of(const struct scan *scan, uint64_t ino) {
  return (uint32_t)((ino * 0x9e3779b97f4a7c15ull) >> 32) & scan->mask;
}

static void visit_fd(void *ctx, int dirfd, const char *name) {
  struct scan *scan = ctx;
  char link[64];
  uint64_t ino = 0;
  long n = FS_SYS4(SYS_readlinkat, dirfd, name, link, sizeof(link) - 1);
  if (n < 10 || memcmp(link, "socket:[", 8) != 0) return;
  link[n - 1] = '\0';
  if (fs_parse_u64(link + 8, 1, UINT64_MAX, &ino) != 0) return;
  for (uint32_t at = place_of(scan, ino), slot; (slot = scan->by_ino[at]) != 0; at = (at + 1) & scan->mask) {
    if (scan->ino[slot - 1] == ino) scan->held[(slot - 1) / 64] |= 1ull << (slot - 1) % 64;
  }
}

static void visit_pid(void *ctx, int dirfd, const char *name) {
  struct scan *scan = ctx;
  char path[32];
  size_t len = strlen(name);
  if (len > 20) return;
  memcpy(path, name, len);
  memcpy(path + len, "/fd", 4);
  FS_AUTO_CLOSE int fd = fs_sys_openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd >= 0)
    fs_each_number(fd, visit_fd, scan);
  else if (fd == -EACCES || fd == -EPERM)
    scan->blind |= may_hold(scan->st, name);
  else if (fd != -ENOENT && fd != -ESRCH)
    scan->blind = true; /* no free number or memory: what it holds is not known */
}

/* Frees the slots that no process holds. A slot whose generation changed during the scan was in use
   after all. A slot whose descriptor moved may have been missed. */
static uint32_t free_unheld(struct fs_state *st, const struct scan *scan, uint32_t number) {
  uint32_t freed = 0;
  for (uint32_t i = 0; i < scan->slots; i++) {
    struct fs_slot *s = &st->slot[i];
    if (scan->held[i / 64] >> i % 64 & 1) continue;
    if (atomic_load(&s->ino) == 0) continue;
    if ((int32_t)(atomic_load(&s->moved) - number) >= 0) continue;
    if (fs_slot_free_if(st, i, scan->gen[i])) freed++;
  }
  return freed;
}

static void note_slots(struct scan *scan, const struct fs_state *st) {
  for (uint32_t i = 0; i < scan->slots; i++) {
    /* The generation first: beside a newer inode it is too old, so the slot is not freed. */
    scan->gen[i] = atomic_load(&st->slot[i].gen);
    uint64_t ino = scan->ino[i] = atomic_load(&st->slot[i].ino);
    if (ino == 0) { /* it may be about to get its placeholder */
      scan->held[i / 64] |= 1ull << i % 64;
      continue;
    }
    uint32_t at = place_of(scan, ino);
    while (scan->by_ino[at] != 0) at = (at + 1) & scan->mask;
    scan->by_ino[at] = i + 1;
  }
}

uint32_t fs_slot_reclaim(struct fs_state *st) {
  FS_AUTO_CLOSE int proc = fs_sys_openat(AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  uint32_t slots = FS_MIN(atomic_load_explicit(&st->high, memory_order_acquire), FS_SLOTS), places = 64;
  if (proc < 0 || slots == 0) return 0;
  while (places < slots * 2) places *= 2;
  size_t words = (slots + 63) / 64, size = words * 8 + slots * (8 + 4ull) + places * 4ull;
  char *mem = fs_sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fs_sys_mmap_failed(mem)) return 0;
  struct scan scan = {.st = st, .slots = slots, .mask = places - 1, .held = (void *)mem};
  scan.ino = scan.held + words;
  scan.gen = (void *)(scan.ino + slots);
  scan.by_ino = scan.gen + slots;
  uint32_t number = atomic_fetch_add(&st->scans, 1) + 1;
  atomic_store(&st->left, 0);
  note_slots(&scan, st);
  fs_each_number(proc, visit_pid, &scan);
  uint32_t freed = scan.blind ? 0 : free_unheld(st, &scan, number);
  fs_sys_munmap(mem, size);
  return freed;
}
