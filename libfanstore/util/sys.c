/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The system calls that sys.h does not inline: futexes, mappings, complete reads and writes. Called
 * by all parts, also in the preloaded library, so no interposed libc function is called. No state,
 * no locks.
 */
#include "util/sys.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/utsname.h>

#define FS_NS_PER_SEC 1000000000ull

fs_err fs_futex_wait(const _Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns) {
  struct timespec ts = {.tv_sec = (time_t)(timeout_ns / FS_NS_PER_SEC), .tv_nsec = (long)(timeout_ns % FS_NS_PER_SEC)};
  return (fs_err)FS_SYS4(SYS_futex, word, FUTEX_WAIT, value, &ts);
}

void fs_eventfd_take(int fd) {
  uint64_t sink;
  struct iovec iov = {.iov_base = &sink, .iov_len = sizeof(sink)};
  long n = FS_SYS6(SYS_preadv2, fd, &iov, 1, -1, -1, RWF_NOWAIT);
  if (n < 0 && n != -EAGAIN) (void)fs_sys_read(fd, &sink, sizeof(sink)); /* Linux < 5.13, sandbox */
}

void fs_futex_wake(_Atomic uint32_t *word, int count) {
  FS_SYS3(SYS_futex, word, FUTEX_WAKE, count);
}

uint64_t fs_mem_available(int meminfo) {
  static const char label[] = "MemAvailable:";
  char text[512];
  fs_ssize n = meminfo < 0 ? 0 : fs_sys_pread(meminfo, text, sizeof(text) - 1, 0);
  text[FS_MAX(n, 0)] = '\0';
  const char *at = strstr(text, label);
  uint64_t kib = 0;
  if (!at) return 0;
  for (at += sizeof(label) - 1; *at == ' '; at++) continue;
  for (; *at >= '0' && *at <= '9'; at++) kib = kib * 10 + (uint64_t)(*at - '0');
  return kib << 10;
}

bool fs_pages_resident(const void *bytes, size_t n) {
  enum { MOST = 1024 };
  unsigned char page[MOST];
  const size_t size = getauxval(AT_PAGESZ);
  uintptr_t at = (uintptr_t)bytes & ~(uintptr_t)(size - 1), end = (uintptr_t)bytes + n;
  while (at < end) {
    size_t pages = FS_MIN((end - at + size - 1) / size, (size_t)MOST);
    if (FS_SYS3(SYS_mincore, at, pages * size, page) != 0) return false;
    for (size_t i = 0; i < pages; i++) {
      if (!(page[i] & 1)) return false;
    }
    at += pages * size;
  }
  return true;
}

void *fs_map_hint(size_t n) {
  if (n < FS_HUGE_PAGE || n > SIZE_MAX - FS_HUGE_PAGE) return NULL;
  n += FS_HUGE_PAGE;
  void *p = fs_sys_mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (fs_sys_mmap_failed(p)) return NULL;
  fs_sys_munmap(p, n); /* if another thread takes the place, the mapping lies elsewhere */
  return (void *)fs_round_up((uintptr_t)p, FS_HUGE_PAGE);
}

/* Returns true from Linux 5.18 on. Before, a fault in a mapping for random access reads one page
   and no huge page. */
static bool fs_random_is_huge(void) {
  struct utsname u;
  unsigned version[2] = {0};
  if (FS_SYS1(SYS_uname, &u) != 0) return false;
  const char *at = u.release;
  for (unsigned i = 0; i < 2; i++, at += *at == '.')
    for (; *at >= '0' && *at <= '9'; at++) version[i] = version[i] * 10 + (unsigned)(*at - '0');
  return version[0] > 5 || (version[0] == 5 && version[1] >= 18);
}

void fs_map_advise(const void *map, size_t n, bool whole) {
  bool huge = FS_SYS3(SYS_madvise, map, n, whole ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) == 0;
  /* Otherwise a fault reads two huge pages in one request, and the reader of the first waits for
     both. */
  FS_SYS3(SYS_madvise, map, n, whole && huge && fs_random_is_huge() ? MADV_RANDOM : MADV_NORMAL);
}

fs_err fs_pread_full(int fd, void *buf, size_t n, uint64_t off) {
  char *p = buf;
  while (n > 0) {
    fs_ssize got = fs_sys_pread(fd, p, n, off);
    if (got == -EINTR) continue;
    if (got < 0) return (fs_err)got;
    if (got == 0) return -EIO;
    p += got;
    off += (uint64_t)got;
    n -= (size_t)got;
  }
  return 0;
}

fs_err fs_pwrite_full(int fd, const void *buf, size_t n, uint64_t off) {
  const char *p = buf;
  while (n > 0) {
    fs_ssize put = fs_sys_pwrite(fd, p, n, off);
    if (put == -EINTR) continue;
    if (put < 0) return (fs_err)put;
    if (put == 0) return -EIO;
    p += put;
    off += (uint64_t)put;
    n -= (size_t)put;
  }
  return 0;
}

fs_err fs_write_full(int fd, const void *buf, size_t n) {
  const char *p = buf;
  while (n > 0) {
    fs_ssize put = fs_sys_write(fd, p, n);
    if (put == -EINTR) continue;
    if (put < 0) return (fs_err)put;
    if (put == 0) return -EIO;
    p += put;
    n -= (size_t)put;
  }
  return 0;
}

unsigned fs_sys_cpus(void) {
  uint64_t mask[128] = {0}; /* 8192 processors */
  unsigned n = 0;
  if (FS_SYS3(SYS_sched_getaffinity, 0, sizeof(mask), mask) < 0) return 1;
  for (size_t i = 0; i < FS_ARRAY_LEN(mask); i++) n += (unsigned)__builtin_popcountll(mask[i]);
  return n;
}
