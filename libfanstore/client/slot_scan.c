/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the slots that nobody holds any more: killed processes cannot give theirs back, and of a shared slot no
 * process knows whether it is the last. Walks /proc/<pid>/fd of every process that may be read (those of the user) and
 * keeps what is named there as "socket:[ino]". Called only when slots run short, so once in tens of thousands of opens.
 */
#include <string.h>
#include <sys/mman.h>

#include "client/slot.h"
#include "util/sys.h"
#include "util/util.h"

struct fs_kernel_dirent {
  uint64_t ino;
  int64_t off;
  uint16_t reclen;
  uint8_t type;
  char name[];
};

void fs_each_number(int dirfd, fs_visit_number *visit, void *ctx) {
  alignas(8) char buf[4096];
  for (;;) {
    long n = FS_SYS3(SYS_getdents64, dirfd, buf, sizeof(buf));
    if (n <= 0) return;
    for (long at = 0; at < n;) {
      const struct fs_kernel_dirent *d = (const void *)(buf + at);
      if (d->name[0] >= '0' && d->name[0] <= '9') visit(ctx, dirfd, d->name);
      at += d->reclen;
    }
  }
}

struct scan {
  const struct fs_state *st;
  uint64_t *held;   /* one bit a slot */
  uint64_t *filter; /* a set of hashed inode numbers, so that most sockets cost no search */
};

static void visit_fd(void *ctx, int dirfd, const char *name) {
  struct scan *scan = ctx;
  char link[64];
  uint64_t ino = 0;
  long n = FS_SYS4(SYS_readlinkat, dirfd, name, link, sizeof(link) - 1);
  if (n < 10 || memcmp(link, "socket:[", 8) != 0) return;
  link[n - 1] = '\0';
  if (fs_parse_u64(link + 8, 1, UINT64_MAX, &ino) != 0) return;
  if ((scan->filter[ino / 64 % (FS_SLOTS / 64)] >> ino % 64 & 1) == 0) return;
  int64_t slot = fs_slot_by_ino(scan->st, ino);
  if (slot >= 0) scan->held[slot / 64] |= 1ull << slot % 64;
}

static void visit_pid(void *ctx, int dirfd, const char *name) {
  char path[32];
  size_t len = strlen(name);
  if (len > 20) return;
  memcpy(path, name, len);
  memcpy(path + len, "/fd", 4);
  FS_AUTO_CLOSE int fd = fs_sys_openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd >= 0) fs_each_number(fd, visit_fd, ctx);
}

/* A slot whose generation moved while we scanned was in use after all; one whose descriptor moved may have been missed.
 */
static uint32_t free_unheld(struct fs_state *st, const struct scan *scan, const uint32_t *gen, uint32_t number) {
  uint32_t freed = 0;
  for (uint32_t i = 0; i < FS_SLOTS; i++) {
    struct fs_slot *s = &st->slot[i];
    if (scan->held[i / 64] >> i % 64 & 1) continue;
    if (atomic_load(&s->ino) == 0 || atomic_load(&s->gen) != gen[i]) continue;
    if ((int32_t)(atomic_load(&s->moved) - number) >= 0) continue;
    fs_slot_free(st, i);
    freed++;
  }
  return freed;
}

uint32_t fs_slot_reclaim(struct fs_state *st) {
  size_t bitmap = FS_SLOTS / 8, size = 2 * bitmap + FS_SLOTS * sizeof(uint32_t);
  FS_AUTO_CLOSE int proc = fs_sys_openat(AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (proc < 0) return 0;
  char *mem = fs_sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fs_sys_mmap_failed(mem)) return 0;
  struct scan scan = {.st = st, .held = (void *)mem, .filter = (void *)(mem + bitmap)};
  uint32_t *gen = (void *)(mem + 2 * bitmap);
  uint32_t number = atomic_fetch_add(&st->scans, 1) + 1;
  for (uint32_t i = 0; i < FS_SLOTS; i++) {
    gen[i] = atomic_load(&st->slot[i].gen); /* first: with a newer inode it is an older one, and so no match later */
    uint64_t ino = atomic_load(&st->slot[i].ino);
    if (ino == 0) scan.held[i / 64] |= 1ull << i % 64; /* about to get its placeholder, maybe: not ours to free */
    scan.filter[ino / 64 % (FS_SLOTS / 64)] |= 1ull << ino % 64;
  }
  fs_each_number(proc, visit_pid, &scan);
  uint32_t freed = free_unheld(st, &scan, gen, number);
  fs_sys_munmap(mem, size);
  return freed;
}
