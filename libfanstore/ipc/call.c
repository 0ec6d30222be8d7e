/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls about output files: what one must be before it is believed (ipc/call.h). No state, no locks. */
#include "ipc/call.h"

#include <string.h>
#include <sys/stat.h>

#include "ipc/wire.h"

static bool ranges_ok(const char *ranges, size_t n) {
  struct fs_range r;
  for (size_t at = 0; at + sizeof(r) <= n; at += sizeof(r)) {
    memcpy(&r, ranges + at, sizeof(r));
    if (r.len == 0 || r.len > INT64_MAX || r.off > INT64_MAX - r.len) return false;
  }
  return n % sizeof(r) == 0;
}

static bool list_ok(const char *list, size_t n) {
  struct fs_out_extent e;
  if (n == 0) return true;
  if (n < sizeof(struct fs_replica_list) || (n - sizeof(struct fs_replica_list)) % sizeof(e) != 0) return false;
  for (size_t at = sizeof(struct fs_replica_list); at < n; at += sizeof(e)) {
    memcpy(&e, list + at, sizeof(e));
    if (e.part == 0 ? e.len != 0 : (!fs_id_ok(e.part) || e.len == 0)) return false;
    if (e.len > INT64_MAX || e.off > INT64_MAX - e.len) return false;
  }
  return true;
}

static bool names_ok(const struct fs_names_call *c) {
  bool target = c->op == FS_NAMES_CREATE && (c->mode & S_IFMT) == S_IFLNK;
  switch (c->op) {
  case FS_NAMES_LOOKUP:
    if (c->name_len == 0) return fs_id_ok(c->id) && c->name2_len == 0;
    return fs_name_ok(fs_call_name(c), c->name_len) && c->name2_len == 0;
  case FS_NAMES_REMOVE:
  case FS_NAMES_TAKE:
    return fs_name_ok(fs_call_name(c), c->name_len) && c->name2_len == 0;
  case FS_NAMES_RENAME:
    return fs_name_ok(fs_call_name(c), c->name_len) && fs_name_ok(fs_call_name2(c), c->name2_len);
  case FS_NAMES_CREATE:
    if (!fs_name_ok(fs_call_name(c), c->name_len) || target != (c->name2_len > 0)) return false;
    return fs_target_ok(fs_call_name2(c), c->name2_len);
  case FS_NAMES_EXTEND:
    return c->name2_len == 0 && ranges_ok(fs_call_name(c), c->name_len);
  case FS_NAMES_APPEND:
    return c->name2_len == 0 && (c->name_len == 0 || c->name_len == c->size);
  case FS_NAMES_REPLICA:
    return (c->name_len == 0 || c->name_len >= sizeof(struct fs_wire_replica)) &&
           list_ok(fs_call_name2(c), c->name2_len);
  default:
    return c->name_len == 0 && c->name2_len == 0;
  }
}

/* Calls about a directory name one. */
static bool dir_ok(const struct fs_names_call *c) {
  if (c->op > FS_NAMES_MIRROR || fs_call_of_file(c) || c->op == FS_NAMES_FIND) return true;
  if ((c->op == FS_NAMES_RENAME || c->op == FS_NAMES_TAKE) && !fs_dir_ok(c->to)) return false;
  return fs_dir_ok(c->dir);
}

static bool mode_ok(const struct fs_names_call *c) {
  if (c->mode & ~(uint32_t)(S_IFMT | 07777)) return false;
  if (c->op == FS_NAMES_REPLICA) return S_ISREG(c->mode);
  return (c->op != FS_NAMES_CREATE && c->op != FS_NAMES_SETATTR) || fs_mode_ok(c->mode);
}

static bool set_ok(const struct fs_names_call *c) {
  if (c->op != FS_NAMES_SETATTR) return true;
  if (c->flags == 0 || (c->flags & ~(uint32_t)FS_SET_ALL)) return false;
  return !(c->flags & FS_SET_SIZE) || S_ISREG(c->mode);
}

/* Those whose id is the caller's word, and names a record. */
static bool call_id_ok(const struct fs_names_call *c) {
  switch (c->op) {
  case FS_NAMES_CREATE:
  case FS_NAMES_SETATTR:
  case FS_NAMES_HOLD:
  case FS_NAMES_RELEASE:
  case FS_NAMES_EXTENTS:
  case FS_NAMES_APPEND:
  case FS_NAMES_FIND:
  case FS_NAMES_ABOVE:
  case FS_NAMES_OWN:
  case FS_NAMES_SYNC:
  case FS_NAMES_WHERE:
  case FS_NAMES_REPLICA:
    return fs_id_ok(c->id);
  case FS_NAMES_RELAY:
  case FS_NAMES_EXTEND:
    return fs_id_ok(c->id) && fs_id_ok(c->to);
  case FS_NAMES_OFFER:
    return fs_id_ok(c->id) && (c->to == 0 || fs_id_ok(c->to));
  default:
    return true;
  }
}

bool fs_call_ok(const void *body, size_t n) {
  const struct fs_names_call *c = body;
  if (n < sizeof(*c) || n > FS_NAMES_BODY || n < fs_call_size(c)) return false;
  bool known = (c->op >= FS_NAMES_LOOKUP && c->op < FS_NAMES_CLIENT_OPS) ||
               (c->op >= FS_NAMES_TAKE && c->op <= FS_NAMES_ABOVE) ||
               (c->op >= FS_NAMES_MIRROR && c->op <= FS_NAMES_REPLICA);
  if (c->op == FS_NAMES_MIRROR && (c->mtime < 0 || c->mtime > INT64_MAX / 2)) return false;
  if (!known || c->mtime_ns >= FS_NSEC || c->size > INT64_MAX || c->seq > FS_RECORD_SEQ_MAX) return false;
  return call_id_ok(c) && names_ok(c) && dir_ok(c) && mode_ok(c) && set_ok(c);
}
