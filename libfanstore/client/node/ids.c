/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The caller's effective user and group, which stat shows and access checks ask for. They are
 * cached, since stat makes no system call. The wrappers of setuid and its like say when they
 * change. Lock-free: one word holds both numbers or, if they are not known, the number of the
 * last change. A thread that computes them stores them only if nothing was changed meanwhile.
 */
#include "client/node/ids.h"

#include <string.h>

#include "client/data.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_IDS_UNKNOWN (0xffffffffull << 32) /* -1 is no user's number */

static _Atomic uint64_t g_ids = FS_IDS_UNKNOWN;

void fs_ids_changed(void) {
  static _Atomic uint32_t changes;
  atomic_store(&g_ids, FS_IDS_UNKNOWN | (atomic_fetch_add(&changes, 1) + 1));
}

static __attribute__((noinline)) uint64_t ask(uint64_t seen) {
  uint64_t ids = (uint64_t)(uint32_t)FS_SYS1(SYS_geteuid, 0) << 32 | (uint32_t)FS_SYS1(SYS_getegid, 0);
  /* In a vfork child the memory is the parent's. */
  if (fs_vfork_depth == 0) atomic_compare_exchange_strong(&g_ids, &seen, ids);
  return ids;
}

void fs_ids(uint32_t *uid, uint32_t *gid) {
  uint64_t ids = atomic_load_explicit(&g_ids, memory_order_relaxed);
  if (FS_UNLIKELY(ids >= FS_IDS_UNKNOWN || fs_vfork_depth > 0)) ids = ask(ids);
  *uid = (uint32_t)(ids >> 32);
  *gid = (uint32_t)ids;
}

bool fs_caller_is_root(void) {
  uint32_t uid, gid;
  fs_ids(&uid, &gid);
  return uid == 0;
}

/* The mask of umask(2), + 1; 0: unknown. The kernel returns the mask only to a caller that changes
   it, so it is read once from /proc and then followed. */
static _Atomic uint32_t g_umask;

void fs_umask_changed(mode_t mask) {
  if (fs_vfork_depth == 0) atomic_store(&g_umask, (mask & 0777) + 1);
}

static mode_t read_umask(void) {
  char text[512];
  mode_t mask = 0;
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC, 0);
  fs_ssize n = fd < 0 ? fd : fs_sys_read(fd, text, sizeof(text) - 1);
  text[n > 0 ? n : 0] = '\0';
  const char *at = strstr(text, "\nUmask:");
  if (at == NULL) return 022;
  for (at += 7; *at == '\t' || (*at >= '0' && *at <= '7'); at++)
    if (*at != '\t') mask = mask << 3 | (mode_t)(*at - '0');
  return mask & 0777;
}

mode_t fs_umask(void) {
  uint32_t known = atomic_load_explicit(&g_umask, memory_order_relaxed), none = 0;
  if (FS_LIKELY(known != 0) && fs_vfork_depth == 0) return known - 1;
  mode_t mask = read_umask();
  if (fs_vfork_depth == 0) atomic_compare_exchange_strong(&g_umask, &none, mask + 1);
  return mask;
}
