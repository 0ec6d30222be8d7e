/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch replay --save: joins segments to one file, which can be sent to somebody. With
 * --no-names, each part of a path below the mount becomes a number, the same for the same name. A
 * short suffix stays, because it tells what kind of file this is. Mounts become /mount, and hosts
 * numbers.
 */
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../launch.h"
#include "names.h"
#include "replay.h"

#define FS_SUFFIX_MAX 6u /* with its dot */

struct saving {
  FILE *out;
  bool no_names;
  struct fs_names_table names, hosts;
};

static uint64_t number_of(struct fs_names_table *t, const char *name, size_t len) {
  struct fs_names_entry *e = fs_names_table_get(t, name, len);
  if (e && e->value == UINT64_MAX) e->value = t->used;
  return e ? e->value : 0;
}

/* Returns the length of the suffix of a name, 0 if it has none that may stay. */
static size_t suffix_of(const char *name, size_t len) {
  for (size_t n = 1; n <= FS_SUFFIX_MAX && n < len; n++) {
    unsigned char c = (unsigned char)name[len - n];
    if (c == '.') return n > 1 ? n : 0;
    if (!isalnum(c)) return 0;
  }
  return 0;
}

/* Writes the path without names. Returns its length. */
static size_t anonymous(struct saving *s, const struct fs_trace_item *i, char *out, size_t size) {
  const char *p = i->path + i->r.mount_len, *end = i->path + i->r.path_len;
  size_t n = (size_t)snprintf(out, size, "/mount");
  while (p < end && n + 32 < size) {
    while (p < end && *p == '/') p++;
    const char *slash = p < end ? memchr(p, '/', (size_t)(end - p)) : NULL;
    size_t len = (size_t)((slash ? slash : end) - p), suffix = suffix_of(p, len);
    if (len == 0) break;
    n += (size_t)snprintf(out + n, size - n, "/n%llu%.*s", (unsigned long long)number_of(&s->names, p, len),
                          (int)suffix, p + len - suffix);
    p += len;
  }
  return n;
}

static void save_record(struct saving *s, const struct fs_trace_item *i) {
  static const char zeros[8];
  char path[PATH_MAX];
  struct fs_trace_record r;
  const char *text = i->path;
  memcpy(&r, &i->r, sizeof(r));
  if (s->no_names && r.path_len > 0) {
    r.path_len = (uint16_t)anonymous(s, i, path, sizeof(path));
    r.mount_len = (uint16_t)strlen("/mount");
    text = path;
  }
  size_t size = fs_round_up(sizeof(r) + r.path_len, 8);
  atomic_store_explicit(&r.size, (uint32_t)size, memory_order_relaxed);
  fwrite(&r, sizeof(r), 1, s->out);
  fwrite(text, 1, r.path_len, s->out);
  fwrite(zeros, 1, size - sizeof(r) - r.path_len, s->out);
}

/* Writes the head again when it is known how long the segment is. */
static bool save_segment(struct saving *s, const struct fs_trace_segment *from) {
  struct fs_trace_head head;
  struct fs_trace_item item;
  off_t begin = ftello(s->out);
  memcpy(&head, &from->head, sizeof(head));
  if (s->no_names) {
    unsigned long long host = number_of(&s->hosts, head.host, strlen(head.host));
    memset(head.host, 0, sizeof(head.host));
    snprintf(head.host, sizeof(head.host), "host%llu", host);
  }
  fwrite(&head, sizeof(head), 1, s->out);
  for (const uint8_t *at = from->at; fs_trace_next(from, &at, &item);) save_record(s, &item);
  off_t end = ftello(s->out);
  if (begin < 0 || end < 0) return false;
  atomic_store(&head.used, (uint64_t)(end - begin));
  return fseeko(s->out, begin, SEEK_SET) == 0 && fwrite(&head, sizeof(head), 1, s->out) == 1 &&
         fseeko(s->out, end, SEEK_SET) == 0;
}

int fs_replay_save(const struct fs_trace_set *set, const char *file, bool no_names) {
  FS_AUTO_CLOSE int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  struct saving s = {.no_names = no_names, .out = fd < 0 ? NULL : fdopen(fd, "w")};
  bool good = s.out != NULL;
  int err = errno;
  if (s.out) FS_MOVE_FD(fd);
  errno = 0;
  for (size_t i = 0; good && i < set->segments; i++) good = save_segment(&s, &set->segment[i]);
  if (s.out && (ferror(s.out) || !good)) good = false, err = errno ? errno : EIO;
  if (s.out && fclose(s.out) != 0 && good) good = false, err = errno;
  fs_names_table_free(&s.names);
  fs_names_table_free(&s.hosts);
  if (good) return 0;
  fs_say("--save %s: %s", file, strerror(err));
  if (s.out) unlink(file);
  return FS_EXIT_FAILED;
}
