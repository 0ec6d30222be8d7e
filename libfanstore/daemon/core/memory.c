/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much memory there is for what this node reads: the machine's, and the limits of the job's
 * control groups. The programs of a job are taken to have the daemon's limits. No state; any
 * thread.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "ipc/room.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_CGROUPS "/sys/fs/cgroup"

static fs_ssize fs_memory_text(const char *path, char *text, size_t size) {
  FS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
  fs_ssize n = fd < 0 ? fd : fs_sys_read(fd, text, size - 1);
  text[FS_MAX(n, 0)] = '\0';
  return n;
}

uint64_t fs_memory_available(void) {
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(AT_FDCWD, FS_MEMINFO, O_RDONLY | O_CLOEXEC, 0);
  return fs_mem_available(fd);
}

/* Returns the lowest limit of a group and of those above it, which are its parent directories; 0
   means none. */
static uint64_t fs_memory_lowest(const char *top, const char *group, const char *file) {
  char path[PATH_MAX], text[64];
  uint64_t lowest = 0, limit;
  size_t len = strcspn(group, "\n");
  for (;;) {
    int n = snprintf(path, sizeof(path), "%s%.*s/%s", top, (int)len, group, file);
    bool read = n > 0 && (size_t)n < sizeof(path) && fs_memory_text(path, text, sizeof(text)) > 0;
    text[read ? strcspn(text, "\n") : 0] = '\0';
    if (read && fs_parse_u64(text, 0, INT64_MAX, &limit) == 0 && limit < FS_MEMORY_UNLIMITED)
      lowest = lowest == 0 ? limit : FS_MIN(lowest, limit);
    if (len == 0) return lowest;
    while (len > 0 && group[--len] != '/') continue;
  }
}

uint64_t fs_memory_limit_of(const char *top, const char *groups) {
  uint64_t lowest = 0;
  for (const char *line = groups; line && *line; line = strchr(line, '\n'), line += line != NULL) {
    char path[PATH_MAX];
    const char *what = strchr(line, ':'), *group = what ? strchr(what + 1, ':') : NULL;
    if (!group) break;
    bool unified = group == what + 1, memory = strncmp(what, ":memory:", 8) == 0;
    if (!unified && !memory) continue;
    snprintf(path, sizeof(path), "%s%s", top, memory ? "/memory" : "");
    uint64_t limit = fs_memory_lowest(path, group + 1, memory ? "memory.limit_in_bytes" : "memory.max");
    if (limit > 0) lowest = lowest == 0 ? limit : FS_MIN(lowest, limit);
  }
  return lowest;
}

uint64_t fs_memory_limit(void) {
  char text[8192];
  fs_memory_text("/proc/self/cgroup", text, sizeof(text));
  return fs_memory_limit_of(FS_CGROUPS, text);
}

/* Returns the machine's memory, or the limit if that is lower. */
static uint64_t fs_memory_least(uint64_t limit) {
  uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  return limit > 0 ? FS_MIN(all, limit) : all;
}

uint64_t fs_memory_all(void) {
  return fs_memory_least(fs_memory_limit());
}

uint64_t fs_memory_cache_default(uint64_t all, uint32_t nodes) {
  return FS_MIN(FS_CACHE_DEFAULT, all / 2 / FS_MAX(nodes, 1u));
}

fs_err fs_memory_cache_check(uint64_t bytes, uint64_t all, uint32_t nodes, char *why, size_t size) {
  uint64_t most = all / FS_MAX(nodes, 1u);
  char each[32], have[32], on[64] = "";
  if (bytes <= most) return 0;
  if (nodes > 1) snprintf(on, sizeof(on), " on each of %u nodes", nodes);
  snprintf(why, size, "--cache %s%s: this host (or its control group) has %s of memory: give at most %lluM%s",
           fs_format_size(bytes, each, sizeof(each)), on, fs_format_size(all, have, sizeof(have)),
           (unsigned long long)(most >> 20), nodes > 1 ? " each" : "");
  return -ENOMEM;
}

/* An eighth of a node's share of the memory. As much again may go to the names of which this
   node is the backup. */
uint64_t fs_memory_names(const struct fs_daemon *d) {
  return fs_memory_least(d->ctl->memory_limit) / 8 / FS_MAX(d->cfg->emulate, 1u);
}

fs_err fs_memory_tell(const struct fs_daemon *d, struct fs_control_line *l) {
  uint64_t bytes = 0, memory = fs_memory_available(), limit = d->ctl->memory_limit;
  for (uint32_t i = 0; i < d->datasets; i++) {
    for (uint32_t p = 0; p < d->data[i].partitions; p++)
      bytes += d->data[i].have[p] ? d->data[i].stage.index.parts[p].size : 0;
  }
  if (limit > 0) memory = FS_MIN(memory, limit);
  fs_err err = fs_control_add_u64(l, "local", bytes);
  if (err == 0) err = fs_control_add_u64(l, "memory", memory);
  uint32_t share = d->cfg->local_io & FS_CTL_IO_CACHED ? FS_ROOM_ALL : fs_room_share(d->cfg->local_io, bytes, memory);
  return err < 0 ? err : fs_control_add_u64(l, "cached", share * 100 / FS_ROOM_ALL);
}
