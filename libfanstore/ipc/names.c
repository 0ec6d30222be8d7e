/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of output files in messages: written, and checked when they come in. No state, no locks. */
#include "ipc/names.h"

#include <string.h>
#include <sys/stat.h>

#define FS_NSEC 1000000000u

bool fs_name_ok(const char *name, size_t len) {
  if (len == 0 || len > FS_RECORD_NAME_MAX) return false;
  if (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.'))) return false;
  return memchr(name, '/', len) == NULL && memchr(name, '\0', len) == NULL;
}

static bool record_sane(const struct fs_record *r) {
  uint32_t type = r->mode & S_IFMT;
  if (type != S_IFREG && type != S_IFDIR && type != S_IFLNK) return false;
  if ((r->mode & ~(uint32_t)(S_IFMT | 07777)) || !(r->id & FS_OUT_ID) || r->id >> 63 || r->dir == 0) return false;
  if (r->mtime_ns >= FS_NSEC || r->ctime_ns >= FS_NSEC || r->size > INT64_MAX) return false;
  if (r->seq > FS_RECORD_SEQ_MAX) return false;
  if (r->target_len > FS_RECORD_TARGET_MAX || (type == S_IFLNK) != (r->target_len > 0)) return false;
  return fs_name_ok(fs_record_name(r), r->name_len) && memchr(fs_record_target(r), '\0', r->target_len) == NULL;
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

/* ---- calls ---- */

static bool names_ok(const struct fs_names_call *c) {
  bool target = c->op == FS_NAMES_CREATE && (c->mode & S_IFMT) == S_IFLNK;
  switch (c->op) {
  case FS_NAMES_LOOKUP:
  case FS_NAMES_REMOVE:
  case FS_NAMES_TAKE:
    return fs_name_ok(fs_call_name(c), c->name_len) && c->name2_len == 0;
  case FS_NAMES_RENAME:
    return fs_name_ok(fs_call_name(c), c->name_len) && fs_name_ok(fs_call_name2(c), c->name2_len);
  case FS_NAMES_CREATE:
    if (!fs_name_ok(fs_call_name(c), c->name_len) || target != (c->name2_len > 0)) return false;
    return c->name2_len <= FS_RECORD_TARGET_MAX && memchr(fs_call_name2(c), '\0', c->name2_len) == NULL;
  default:
    return c->name_len == 0 && c->name2_len == 0;
  }
}

/* Calls about a directory name one. */
static bool dir_ok(const struct fs_names_call *c) {
  if (c->op > FS_NAMES_MIRROR) return true;
  if ((c->op == FS_NAMES_RENAME || c->op == FS_NAMES_TAKE) && (c->to == 0 || c->to >> 63)) return false;
  return c->dir != 0 && c->dir >> 63 == 0;
}

static bool mode_ok(const struct fs_names_call *c) {
  uint32_t type = c->mode & S_IFMT;
  if (c->mode & ~(uint32_t)(S_IFMT | 07777)) return false;
  return c->op != FS_NAMES_CREATE || type == S_IFREG || type == S_IFDIR || type == S_IFLNK;
}

bool fs_call_ok(const void *body, size_t n) {
  const struct fs_names_call *c = body;
  if (n < sizeof(*c) || n > FS_NAMES_BODY || n < fs_call_size(c)) return false;
  bool known = (c->op >= FS_NAMES_LOOKUP && c->op < FS_NAMES_CLIENT_OPS) ||
               (c->op >= FS_NAMES_TAKE && c->op <= FS_NAMES_FORGET) ||
               (c->op >= FS_NAMES_MIRROR && c->op <= FS_NAMES_SET);
  if (!known || c->mtime_ns >= FS_NSEC || c->size > INT64_MAX || c->seq > FS_RECORD_SEQ_MAX) return false;
  if (c->op == FS_NAMES_CREATE && (!(c->id & FS_OUT_ID) || c->id >> 63)) return false;
  return names_ok(c) && dir_ok(c) && mode_ok(c);
}
