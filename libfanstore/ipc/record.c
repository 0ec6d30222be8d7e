/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes records of output files to messages, and checks received ones. No state, no locks. */
#include "ipc/record.h"

#include <string.h>
#include <time.h>

#include "util/sys.h"
#include "util/util.h"

uint64_t fs_changed_clock(void) {
  return fs_clock_ns(CLOCK_REALTIME_COARSE);
}

uint32_t fs_taken_bit(uint64_t dir, const char *name, size_t len) {
  return (uint32_t)(fs_mix64(fs_xxh3(name, len) + dir) % FS_TAKEN_BITS);
}

bool fs_name_ok(const char *name, size_t len) {
  if (len == 0 || len > FS_RECORD_NAME_MAX) return false;
  if (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.'))) return false;
  return memchr(name, '/', len) == NULL && memchr(name, '\0', len) == NULL;
}

bool fs_target_ok(const char *target, size_t len) {
  return len <= FS_RECORD_TARGET_MAX && memchr(target, '\0', len) == NULL;
}

bool fs_mode_ok(uint32_t mode) {
  uint32_t type = mode & S_IFMT;
  return !(mode & ~(uint32_t)(S_IFMT | 07777)) && (type == S_IFREG || type == S_IFDIR || type == S_IFLNK);
}

static bool record_sane(const struct fs_record *r) {
  if ((!fs_mode_ok(r->mode) && r->mode != FS_WHITEOUT) || !fs_id_ok(r->id) || r->dir == 0) return false;
  if (r->mtime_ns >= FS_NSEC || r->ctime_ns >= FS_NSEC || r->size > INT64_MAX) return false;
  if (r->seq > FS_RECORD_SEQ_MAX || S_ISLNK(r->mode) != (r->target_len > 0)) return false;
  return fs_name_ok(fs_record_name(r), r->name_len) && fs_target_ok(fs_record_target(r), r->target_len);
}

const struct fs_record *fs_record_next(const void *body, size_t n, size_t *at) {
  const struct fs_record *r = (const void *)((const char *)body + *at);
  if (*at % 8 != 0 || *at > n || n - *at < sizeof(*r) || n - *at < fs_record_size(r) || !record_sane(r)) return NULL;
  *at += fs_record_size(r);
  return r;
}

bool fs_record_put(void *body, size_t n, size_t *at, const struct fs_record *r, const char *name, const char *target) {
  size_t size = fs_record_size(r);
  char *to = (char *)body + *at;
  if (*at % 8 != 0 || *at > n || n - *at < size) return false;
  memcpy(to, r, sizeof(*r));
  memcpy(to + sizeof(*r), name, r->name_len);
  if (r->target_len > 0) memcpy(to + sizeof(*r) + r->name_len, target, r->target_len);
  size_t used = sizeof(*r) + r->name_len + r->target_len;
  memset(to + used, 0, size - used);
  *at += size;
  return true;
}

static size_t listed_size(const struct fs_listed *l) {
  return fs_round_up(sizeof(*l) + l->name_len, 8);
}
static_assert((sizeof(struct fs_listed) + FS_RECORD_NAME_MAX + 7) / 8 * 8 == FS_LISTED_MOST, "as the header says");

bool fs_listed_put(void *body, size_t n, size_t *at, const struct fs_record *r) {
  struct fs_listed l = {.id = r->id,
                        .seq = r->seq,
                        .mode = r->mode,
                        .name_len = r->name_len,
                        .flags = (uint16_t)(r->flags & FS_RECORD_TAKEN)};
  size_t size = listed_size(&l), used = sizeof(l) + l.name_len;
  char *to = (char *)body + *at;
  if (*at > n || n - *at < size) return false;
  memcpy(to, &l, sizeof(l));
  memcpy(to + sizeof(l), fs_record_name(r), l.name_len);
  memset(to + used, 0, size - used);
  *at += size;
  return true;
}

const char *fs_listed_next(const void *body, size_t n, size_t *at, struct fs_listed *out) {
  const char *from = (const char *)body + *at;
  if (*at > n || n - *at < sizeof(*out)) return NULL;
  memcpy(out, from, sizeof(*out));
  bool type = fs_mode_ok(out->mode) || out->mode == FS_WHITEOUT;
  if (!type || !fs_id_ok(out->id) || out->seq == 0 || out->seq > FS_RECORD_SEQ_MAX) return NULL;
  if (n - *at < listed_size(out) || !fs_name_ok(from + sizeof(*out), out->name_len)) return NULL;
  *at += listed_size(out);
  return from + sizeof(*out);
}
