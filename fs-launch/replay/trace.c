/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads traces (replay.h). The files are mapped and stay so until the process ends. */
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../launch.h"
#include "replay.h"

bool fs_trace_next(const struct fs_trace_segment *s, const uint8_t **at, struct fs_trace_item *item) {
  size_t left = (size_t)(s->end - *at);
  if (left < sizeof(item->r)) return false;
  memcpy(&item->r, *at, sizeof(item->r));
  size_t size = atomic_load_explicit(&item->r.size, memory_order_relaxed);
  if (size < sizeof(item->r) || size > left || size % 8 != 0) return false;
  if (item->r.path_len > size - sizeof(item->r) || item->r.mount_len > item->r.path_len) return false;
  if (item->r.call == FS_TRACE_NONE || item->r.call >= FS_TRACE_CALLS) return false;
  item->path = (const char *)*at + sizeof(item->r);
  if (memchr(item->path, '\0', item->r.path_len) != NULL) return false;
  item->when = s->head.realtime_ns + (item->r.begin_ns - s->head.monotonic_ns);
  *at += size;
  return true;
}

static fs_err add_segment(struct fs_trace_set *set, const struct fs_trace_segment *s) {
  if (set->segments == set->room) {
    size_t room = set->room ? 2 * set->room : 16;
    struct fs_trace_segment *more = realloc(set->segment, room * sizeof(*more));
    if (!more) return -ENOMEM;
    set->segment = more;
    set->room = room;
  }
  set->segment[set->segments++] = *s;
  return 0;
}

fs_err fs_trace_add_bytes(struct fs_trace_set *set, const uint8_t *bytes, size_t n) {
  const uint8_t *end = bytes + n;
  do {
    struct fs_trace_segment s = {.at = bytes + sizeof(s.head)};
    struct fs_trace_item item;
    if ((size_t)(end - bytes) < sizeof(s.head)) return -EINVAL;
    memcpy(&s.head, bytes, sizeof(s.head));
    if (s.head.magic != FS_TRACE_MAGIC) return -EINVAL;
    if (s.head.version != FS_TRACE_VERSION) return -EPROTONOSUPPORT;
    s.head.host[sizeof(s.head.host) - 1] = '\0';
    uint64_t used = atomic_load(&s.head.used);
    if (used < sizeof(s.head)) return -EINVAL;
    s.end = bytes + FS_MIN(used, (uint64_t)(end - bytes));
    const uint8_t *at = s.at, *next = bytes + FS_MIN(fs_round_up(used, 8), (uint64_t)(end - bytes));
    if (used > UINT64_MAX - 8) next = end;
    if (fs_trace_next(&s, &at, &item) && (set->start == 0 || item.when < set->start)) set->start = item.when;
    while (fs_trace_next(&s, &at, &item)) continue;
    if (at != s.end) set->cut++;
    s.end = at;
    set->lost += atomic_load(&s.head.lost);
    fs_err err = add_segment(set, &s);
    if (err < 0) return err;
    bytes = next;
  } while (bytes < end && *bytes != 0); /* a killed process leaves zeros behind its records */
  return 0;
}

static int read_file(struct fs_trace_set *set, const char *name) {
  struct stat st = {0};
  FS_AUTO_CLOSE int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  fs_err err = fd < 0 || fstat(fd, &st) < 0 ? -errno : !S_ISREG(st.st_mode) || st.st_size == 0 ? -EINVAL : 0;
  void *map = err < 0 ? MAP_FAILED : mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (err == 0 && map == MAP_FAILED) err = -errno;
  if (err == 0) err = fs_trace_add_bytes(set, map, (size_t)st.st_size);
  if (err == 0) return 0;
  fs_say("%s: %s", name,
         err == -EINVAL            ? "not a trace (a trace is written with FANSTORE_TRACE=FILE)"
         : err == -EPROTONOSUPPORT ? "a trace of another version of FanStore"
                                   : strerror(-err));
  return FS_EXIT_FAILED;
}

int fs_trace_read(struct fs_trace_set *set, const char *name) {
  char pattern[PATH_MAX + 2];
  glob_t found = {0};
  if (access(name, F_OK) == 0) return read_file(set, name);
  size_t n = 0; /* no character of the name is a wildcard */
  for (const char *p = name; *p && n < sizeof(pattern) - 5; p++) {
    if (strchr("*?[\\", *p)) pattern[n++] = '\\';
    pattern[n++] = *p;
  }
  strcpy(pattern + n, ".*");
  int status = glob(pattern, 0, NULL, &found) == 0 ? 0 : FS_EXIT_FAILED;
  if (status != 0) fs_say("%s: there is no such trace, and no file %s.*", name, name);
  for (size_t i = 0; status == 0 && i < found.gl_pathc; i++) status = read_file(set, found.gl_pathv[i]);
  globfree(&found);
  return status;
}
