/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of operations on output files, and what a call must be before it is believed. No state, no locks. */
#include "ipc/call.h"

#include <string.h>

#include "ipc/wire.h"

/* ---- tails ---- */

static bool name_or_none(const char *name, size_t n) {
  return n == 0 || fs_name_ok(name, n);
}

static bool bytes_ok(const char *bytes, size_t n) {
  (void)bytes;
  return n <= FS_APPEND_DATA;
}

/* Records, and the members: their readers check them. */
static bool any_ok(const char *bytes, size_t n) {
  (void)bytes, (void)n;
  return true;
}

static bool ranges_ok(const char *ranges, size_t n) {
  struct fs_range r;
  for (size_t at = 0; at + sizeof(r) <= n; at += sizeof(r)) {
    memcpy(&r, ranges + at, sizeof(r));
    if (r.len == 0 || r.len > INT64_MAX || r.off > INT64_MAX - r.len) return false;
  }
  return n % sizeof(r) == 0;
}

static bool block_ok(const char *block, size_t n) {
  (void)block;
  return n == 0 || n >= sizeof(struct fs_wire_replica);
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

/* ---- fields ---- */

static bool lookup_ok(const struct fs_names_call *c) {
  return c->name_len > 0 || fs_id_ok(c->id);
}

static bool create_ok(const struct fs_names_call *c) {
  return c->name_len > 0 && fs_mode_ok(c->mode) && S_ISLNK(c->mode) == (c->name2_len > 0);
}

static bool rename_ok(const struct fs_names_call *c) {
  return fs_dir_ok(c->dir);
}

static bool setattr_ok(const struct fs_names_call *c) {
  return fs_mode_ok(c->mode) && c->flags != 0 && (!(c->flags & FS_SET_SIZE) || S_ISREG(c->mode));
}

static bool append_ok(const struct fs_names_call *c) {
  return c->name_len == 0 || c->name_len == c->size;
}

static bool part_ok(const struct fs_names_call *c) {
  return fs_id_ok(c->to);
}

static bool offer_ok(const struct fs_names_call *c) {
  return c->to == 0 || fs_id_ok(c->to);
}

static bool take_ok(const struct fs_names_call *c) {
  return fs_dir_ok(c->to);
}

static bool mirror_ok(const struct fs_names_call *c) {
  return c->mtime >= 0 && c->mtime <= INT64_MAX / 2;
}

static bool mark_ok(const struct fs_names_call *c) {
  return c->seq < FS_MARK_BITS;
}

static bool replica_ok(const struct fs_names_call *c) {
  return S_ISREG(c->mode);
}

/* ---- the table ---- */

#define AT(field) offsetof(struct fs_names_call, field)
#define OF_DIRECTORY .scope = FS_SCOPE_DIRECTORY, .dir = AT(dir)
#define OF_FILE .scope = FS_SCOPE_FILE, .id = AT(id)
#define OF_NODE .scope = FS_SCOPE_NODE
#define CHANGE .client = true, .changes = true

const struct fs_op fs_ops[FS_NAMES_OPS] = {
    [FS_NAMES_LOOKUP] = {.name = "LOOKUP",
                         OF_DIRECTORY,
                         .client = true,
                         .flags = FS_NAMES_TAKEN_TOO,
                         .tail = name_or_none,
                         .ok = lookup_ok},
    [FS_NAMES_CREATE] = {.name = "CREATE",
                         OF_DIRECTORY,
                         CHANGE,
                         .id = AT(id),
                         .flags = FS_NAMES_STAGED,
                         .tail = fs_name_ok,
                         .tail2 = fs_target_ok,
                         .ok = create_ok},
    [FS_NAMES_PUBLISH] = {.name = "PUBLISH",
                          OF_DIRECTORY,
                          CHANGE,
                          .id = AT(id),
                          .bytes = AT(size),
                          .flags = FS_NAMES_PARTS | FS_NAMES_STAGED | FS_NAMES_DURABLE | FS_NAMES_LATER},
    [FS_NAMES_REMOVE] = {.name = "REMOVE", OF_DIRECTORY, CHANGE, .not_twice = true, .call = AT(id), .tail = fs_name_ok},
    [FS_NAMES_RENAME] = {.name = "RENAME",
                         .scope = FS_SCOPE_DIRECTORY,
                         CHANGE,
                         .dir = AT(to),
                         .not_twice = true,
                         .call = AT(id),
                         .flags = FS_NAMES_NOREPLACE,
                         .tail = fs_name_ok,
                         .tail2 = fs_name_ok,
                         .ok = rename_ok},
    [FS_NAMES_LIST] = {.name = "LIST", OF_DIRECTORY, .client = true},
    [FS_NAMES_SETATTR] = {.name = "SETATTR",
                          .scope = FS_SCOPE_RECORD,
                          CHANGE,
                          .dir = AT(dir),
                          .id = AT(id),
                          .call = AT(to),
                          .bytes = AT(size),
                          .flags = FS_SET_ALL,
                          .ok = setattr_ok},
    [FS_NAMES_TIMES] = {.name = "TIMES", OF_DIRECTORY, .client = true},
    [FS_NAMES_HOLD] = {.name = "HOLD", OF_FILE, .client = true},
    [FS_NAMES_RELEASE] = {.name = "RELEASE", OF_FILE, .client = true, .not_twice = true, .not_later = true},
    [FS_NAMES_EXTEND] = {.name = "EXTEND",
                         OF_FILE,
                         .client = true,
                         .bytes = AT(size),
                         .flags = FS_NAMES_DURABLE,
                         .tail = ranges_ok,
                         .ok = part_ok},
    [FS_NAMES_EXTENTS] = {.name = "EXTENTS", OF_FILE, .client = true},
    [FS_NAMES_APPEND] = {.name = "APPEND",
                         OF_FILE,
                         .client = true,
                         .not_twice = true,
                         .call = AT(to),
                         .tail = bytes_ok,
                         .ok = append_ok},
    [FS_NAMES_OWN] = {.name = "OWN", OF_FILE, .client = true, .not_twice = true},
    [FS_NAMES_RELAY] = {.name = "RELAY",
                        OF_NODE,
                        .client = true,
                        .not_twice = true,
                        .id = AT(id),
                        .flags = FS_RELAY_APPEND,
                        .ok = part_ok},
    [FS_NAMES_SYNC] = {.name = "SYNC", OF_NODE, .client = true, .id = AT(id), .flags = FS_SYNC_ALL},
    [FS_NAMES_OFFER] = {.name = "OFFER", OF_NODE, .client = true, .id = AT(id), .ok = offer_ok},
    [FS_NAMES_FIND] = {.name = "FIND", OF_NODE, .client = true, .id = AT(id)},
    [FS_NAMES_NODE_LOCAL] = {.name = "NODE_LOCAL", OF_NODE, CHANGE, .dir = AT(dir), .flags = FS_NL_SHADOWS},
    [FS_NAMES_TAKE] = {.name = "TAKE", OF_DIRECTORY, .tail = fs_name_ok, .ok = take_ok},
    [FS_NAMES_TAKEN] = {.name = "TAKEN", OF_DIRECTORY, .id = AT(id), .flags = FS_NAMES_KEEP},
    [FS_NAMES_ARRIVED] = {.name = "ARRIVED", OF_DIRECTORY, .id = AT(id)},
    [FS_NAMES_CLOSE] = {.name = "CLOSE", OF_DIRECTORY},
    [FS_NAMES_OPEN] = {.name = "OPEN", OF_DIRECTORY},
    [FS_NAMES_FORGET] = {.name = "FORGET", OF_DIRECTORY},
    [FS_NAMES_ABOVE] = {.name = "ABOVE", OF_DIRECTORY, .id = AT(id)},
    [FS_NAMES_MIRROR] = {.name = "MIRROR",
                         .scope = FS_SCOPE_MIRROR,
                         .dir = AT(dir),
                         .flags = FS_MIRROR_ALL,
                         .tail = any_ok,
                         .ok = mirror_ok},
    [FS_NAMES_MARK] = {.name = "MARK", .scope = FS_SCOPE_RANK, .ok = mark_ok},
    [FS_NAMES_TREE] = {.name = "TREE", .scope = FS_SCOPE_RANK},
    [FS_NAMES_LISTS] = {.name = "LISTS", .scope = FS_SCOPE_RANK},
    [FS_NAMES_DROP] = {.name = "DROP", .scope = FS_SCOPE_BYTES, .id = AT(id), .flags = FS_NAMES_AWAIT},
    [FS_NAMES_PING] = {.name = "PING", .scope = FS_SCOPE_RANK},
    [FS_NAMES_ACCUSE] = {.name = "ACCUSE", .scope = FS_SCOPE_RANK},
    [FS_NAMES_SET] = {.name = "SET", .scope = FS_SCOPE_RANK, .tail = any_ok},
    [FS_NAMES_WHERE] = {.name = "WHERE", .scope = FS_SCOPE_RANK, .id = AT(id), .flags = FS_NAMES_SEEN},
    [FS_NAMES_REPLICA] = {.name = "REPLICA",
                          .scope = FS_SCOPE_PARTNER,
                          .id = AT(id),
                          .flags = FS_NAMES_DURABLE | FS_NAMES_PART | FS_NAMES_MORE,
                          .tail = block_ok,
                          .tail2 = list_ok,
                          .ok = replica_ok},
};

static bool tail_ok(bool (*ok)(const char *bytes, size_t n), const char *bytes, size_t n) {
  return ok ? ok(bytes, n) : n == 0;
}

bool fs_call_ok(const void *body, size_t n) {
  const struct fs_names_call *c = body;
  if (n < sizeof(*c) || n > FS_NAMES_BODY || n < fs_call_size(c)) return false;
  if (c->op >= FS_NAMES_OPS || fs_ops[c->op].scope == FS_SCOPE_NONE) return false;
  const struct fs_op *op = fs_call_op(c);
  if ((c->flags & ~op->flags) || (c->mode & ~(uint32_t)(S_IFMT | 07777)) || c->mtime_ns >= FS_NSEC) return false;
  if (c->size > INT64_MAX || c->seq > FS_RECORD_SEQ_MAX) return false;
  if (op->dir && !fs_dir_ok(fs_call_dir(c))) return false;
  if (op->id && !fs_id_ok(fs_call_id(c))) return false;
  if (!tail_ok(op->tail, fs_call_name(c), c->name_len) || !tail_ok(op->tail2, fs_call_name2(c), c->name2_len))
    return false;
  return !op->ok || op->ok(c);
}

size_t fs_call_put(struct fs_names_call *c, const void *tail, size_t n, const void *tail2, size_t n2) {
  char *to = (char *)(c + 1);
  c->name_len = (uint16_t)n;
  c->name2_len = (uint16_t)n2;
  if (n > 0) memcpy(to, tail, n);
  if (n2 > 0) memcpy(to + n, tail2, n2);
  size_t size = fs_round_up(sizeof(*c) + n + n2, 8); /* in shared memory the lengths are not read back */
  memset(to + n + n2, 0, size - sizeof(*c) - n - n2);
  return size;
}
