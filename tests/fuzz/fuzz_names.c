/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes what daemons believe of calls about output files and of records: a message that passes the check has its names
 * and records inside its bytes, and a record that was read is read alike when it is written again.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ipc/call.h"
#include "ipc/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_records(const char *body, size_t n, size_t at) {
  const struct fs_record *r;
  while ((r = fs_record_next(body, n, &at)) != NULL) {
    alignas(8) char again[FS_NAMES_BODY];
    size_t end = 0, back = 0;
    if (at > n || !fs_name_ok(fs_record_name(r), r->name_len)) abort();
    if (!fs_record_put(again, sizeof(again), &end, r, fs_record_name(r), fs_record_target(r))) abort();
    const struct fs_record *same = fs_record_next(again, end, &back);
    if (!same || back != end || memcmp(same, r, sizeof(*r) + r->name_len + r->target_len) != 0) abort();
  }
}

static void check_call(const struct fs_names_call *c, size_t n) {
  if (fs_call_size(c) > n || c->op >= FS_NAMES_OPS || (c->flags & ~fs_ops[c->op].flags)) abort();
  bool replica = c->op == FS_NAMES_REPLICA;
  bool bytes = fs_ops[c->op].tail && !(fs_ops[c->op].scope == FS_SCOPE_DIRECTORY); /* in a name's place */
  if (!bytes && c->name_len > 0 && memchr(fs_call_name(c), '/', c->name_len)) abort();
  struct fs_range r;
  for (size_t at = 0; c->op == FS_NAMES_EXTEND && at < c->name_len; at += sizeof(r)) {
    memcpy(&r, fs_call_name(c) + at, sizeof(r));
    if (c->name_len - at < sizeof(r) || r.len == 0 || r.off + r.len < r.off || r.off + r.len > INT64_MAX) abort();
  }
  struct fs_out_extent e;
  for (size_t at = sizeof(struct fs_replica_list); replica && at < c->name2_len; at += sizeof(e)) {
    if (c->name2_len - at < sizeof(e)) abort();
    memcpy(&e, fs_call_name2(c) + at, sizeof(e));
    if (e.part == 0 ? e.len != 0 : e.len == 0 || !(e.part & FS_OUT_ID)) abort();
    if (e.off + e.len < e.off || e.off + e.len > INT64_MAX) abort();
  }
  if (replica && c->name2_len > 0 && c->name2_len < sizeof(struct fs_replica_list)) abort();
  if (c->op == FS_NAMES_APPEND && c->name_len > 0 && c->name_len != c->size) abort();
  bool of_file = fs_call_scope(c) == FS_SCOPE_FILE || fs_ops[c->op].id != 0;
  if (replica && (!S_ISREG(c->mode) || (c->name_len > 0 && c->name_len < sizeof(struct fs_wire_replica)))) abort();
  if (of_file && (!(c->id & FS_OUT_ID) || c->id >> 63)) abort();
  if (c->op == FS_NAMES_OWN && (c->name_len + c->name2_len > 0)) abort();
  bool two = c->op == FS_NAMES_EXTEND || c->op == FS_NAMES_RELAY;
  if (two && (!(c->to & FS_OUT_ID) || c->to >> 63)) abort();
  if (c->op == FS_NAMES_OFFER && c->to != 0 && (!(c->to & FS_OUT_ID) || c->to >> 63)) abort();
  if (c->op == FS_NAMES_OFFER && (c->name_len + c->name2_len > 0)) abort();
  if (c->op == FS_NAMES_SETATTR && (c->flags & FS_SET_SIZE) && !S_ISREG(c->mode)) abort();
  if (c->op == FS_NAMES_TIMES && (c->dir == 0 || c->dir >> 63 || c->name_len + c->name2_len > 0)) abort();
  if (c->op == FS_NAMES_MIRROR && (c->mtime < 0 || c->mtime > INT64_MAX / 2)) abort();
  if (c->op == FS_NAMES_LOOKUP && c->name_len == 0 && !(c->id & FS_OUT_ID)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size > FS_NAMES_BODY) size = FS_NAMES_BODY;
  char *body = malloc(size + (size == 0)); /* just so large that what is read beyond it is seen */
  if (!body) abort();
  if (size > 0) memcpy(body, data, size);
  if (fs_call_ok(body, size)) {
    const struct fs_names_call *c = (const void *)body;
    check_call(c, size);
    check_records(body, size, sizeof(*c));
  }
  check_records(body, size, 0);
  free(body);
  return 0;
}
