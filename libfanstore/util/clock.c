/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's clocks. Another preloaded library may fake the program's clocks (libfaketime), but
 * deadlines, the daemon's heartbeat and times of files need the real ones. The vDSO's function is
 * looked up once; if there is none, the system call serves. Racing threads find the same function.
 * The only libc function used is getauxval.
 */
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>

#include "util/sys.h"

#define FS_NS_PER_SEC 1000000000ull
#define FS_VDSO_SYMBOLS 64u /* more than any vDSO has */

typedef int clock_function(clockid_t, struct timespec *);

static int fs_clock_call(clockid_t id, struct timespec *ts) {
  return (int)FS_SYS2(SYS_clock_gettime, id, ts);
}

static bool fs_is_clock(const char *name) {
  return strcmp(name, "__vdso_clock_gettime") == 0 || strcmp(name, "__kernel_clock_gettime") == 0;
}

static const ElfW(Phdr) * fs_vdso_header(const char *base, uint32_t type) {
  const ElfW(Ehdr) *e = (const void *)base;
  const ElfW(Phdr) *p = (const void *)(base + e->e_phoff);
  for (unsigned i = 0; i < e->e_phnum; i++)
    if (p[i].p_type == type) return &p[i];
  return NULL;
}

/* Finds clock_gettime in the vDSO. The kernel's image is trusted. ld puts the strings after the
   symbols, so the symbols end there, or at a limit. */
static clock_function *fs_vdso_find(const char *base) {
  const ElfW(Phdr) *load = fs_vdso_header(base, PT_LOAD), *dynamic = fs_vdso_header(base, PT_DYNAMIC);
  if (load == NULL || dynamic == NULL) return NULL;
  const char *at = base + load->p_offset - load->p_vaddr, *strings = NULL;
  const ElfW(Sym) *symbols = NULL;
  for (const ElfW(Dyn) *d = (const void *)(base + dynamic->p_offset); d->d_tag != DT_NULL; d++) {
    if (d->d_tag == DT_STRTAB) strings = at + d->d_un.d_ptr;
    if (d->d_tag == DT_SYMTAB) symbols = (const void *)(at + d->d_un.d_ptr);
  }
  if (strings == NULL || symbols == NULL) return NULL;
  for (unsigned i = 0; i < FS_VDSO_SYMBOLS && (const char *)&symbols[i + 1] <= strings; i++)
    if (symbols[i].st_shndx != SHN_UNDEF && fs_is_clock(strings + symbols[i].st_name))
      return (clock_function *)(uintptr_t)(at + symbols[i].st_value);
  return NULL;
}

static clock_function *fs_clock_look_up(clock_function *_Atomic *known) {
  const char *base = (const char *)getauxval(AT_SYSINFO_EHDR); /* NOLINT(performance-no-int-to-ptr) */
  clock_function *f = base == NULL ? NULL : fs_vdso_find(base);
  if (f == NULL) f = fs_clock_call;
  atomic_store_explicit(known, f, memory_order_relaxed);
  return f;
}

uint64_t fs_clock_ns(clockid_t id) {
  static clock_function *_Atomic known;
  struct timespec ts = {0};
  clock_function *f = atomic_load_explicit(&known, memory_order_relaxed);
  if (FS_UNLIKELY(f == NULL)) f = fs_clock_look_up(&known);
  if (f(id, &ts) != 0) fs_clock_call(id, &ts);
  return (uint64_t)ts.tv_sec * FS_NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t fs_now_ns(void) {
  return fs_clock_ns(CLOCK_MONOTONIC);
}
