/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes what daemons believe of calls about output files and of records: a message that passes the check has its names
 * and records inside its bytes, and a record that was read is read alike when it is written again.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ipc/op.h"
#include "ipc/wire.h"
#include "ipc/written.h"

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

static void check(bool good) {
  if (!good) abort();
}

static void check_listed(const char *body, size_t n) {
  struct fs_listed l;
  const char *name;
  for (size_t at = 0; (name = fs_listed_next(body, n, &at, &l)) != NULL;) {
    check(at <= n && at % 8 == 0 && name >= body && name + l.name_len <= body + n);
    check(fs_name_ok(name, l.name_len) && l.seq > 0 && l.seq <= FS_RECORD_SEQ_MAX);
  }
}

static bool is_id(uint64_t id) {
  return (id & FS_OUTPUT_ID) && !(id >> 63);
}

static bool is_name(const char *name, size_t n) {
  return n > 0 && n <= FS_RECORD_NAME_MAX && !memchr(name, '/', n) && !memchr(name, '\0', n);
}

static void check_ranges(const char *ranges, size_t n) {
  struct fs_range r;
  for (size_t at = 0; at < n; at += sizeof(r)) {
    check(n - at >= sizeof(r));
    memcpy(&r, ranges + at, sizeof(r));
    check(r.len > 0 && r.off + r.len >= r.off && r.off + r.len <= INT64_MAX);
  }
}

static void check_list(const char *list, size_t n) {
  struct fs_output_extent e;
  check(n == 0 || n >= sizeof(struct fs_replica_list));
  for (size_t at = sizeof(struct fs_replica_list); at < n; at += sizeof(e)) {
    check(n - at >= sizeof(e));
    memcpy(&e, list + at, sizeof(e));
    check(e.segment == 0 ? e.len == 0 : e.len > 0 && is_id(e.segment));
    check(e.off + e.len >= e.off && e.off + e.len <= INT64_MAX);
  }
}

/* What the handlers take for granted, said once more. */
static void check_fields(const struct fs_names_call *c) {
  const char *tail = fs_call_tail(c), *tail2 = fs_call_tail2(c);
  switch (c->op) {
  case FS_NAMES_LOOKUP:
    check(c->tail_len > 0 ? is_name(tail, c->tail_len) : is_id(c->lookup.id));
    break;
  case FS_NAMES_CREATE:
    check(is_name(tail, c->tail_len) && S_ISLNK(c->create.mode) == (c->tail2_len > 0));
    check(is_id(c->create.id) && c->create.size <= INT64_MAX && c->create.mtime_ns < 1000000000);
    break;
  case FS_NAMES_PUBLISH:
    check(is_id(c->publish.id) && c->publish.size <= INT64_MAX && c->publish.mtime_ns < 1000000000);
    break;
  case FS_NAMES_REMOVE:
  case FS_NAMES_TAKE:
    check(is_name(tail, c->tail_len));
    break;
  case FS_NAMES_RENAME:
    check(is_name(tail, c->tail_len) && is_name(tail2, c->tail2_len));
    check(c->rename.dir != 0 && !(c->rename.dir >> 63) && c->rename.to != 0 && !(c->rename.to >> 63));
    break;
  case FS_NAMES_SETATTR:
    check(is_id(c->setattr.id) && c->setattr.size <= INT64_MAX && c->setattr.mtime_ns < 1000000000);
    check(S_ISREG(c->setattr.mode) || (c->flags != 0 && !(c->flags & FS_SET_SIZE)));
    break;
  case FS_NAMES_EXTEND:
    check_ranges(tail, c->tail_len);
    check(is_id(c->extend.id) && is_id(c->extend.segment));
    check(c->extend.written == 0 || (c->extend.written <= FS_WRITTEN_FILES && c->tail_len == 0));
    break;
  case FS_NAMES_APPEND:
    check(c->tail_len == 0 || c->tail_len == c->append.bytes);
    check(!(c->flags & FS_APPEND_AT) || (c->tail_len > 0 && c->append.off <= INT64_MAX - c->append.bytes));
    break;
  case FS_NAMES_LOCK:
    check(is_id(c->lock.id) && c->lock.owner != 0 && c->lock.start <= c->lock.end && c->lock.end <= INT64_MAX);
    check(!(c->flags & FS_LOCK_TEST) || (c->flags & (FS_LOCK_READ | FS_LOCK_WRITE)));
    break;
  case FS_NAMES_FORWARD:
    check(is_id(c->forwarder.id) && is_id(c->forwarder.file) && c->forwarder.off <= INT64_MAX);
    break;
  case FS_NAMES_OFFER:
    check(is_id(c->offer.file) && (c->offer.segment == 0 || is_id(c->offer.segment)));
    break;
  case FS_NAMES_TIMES:
    check(c->times.dir != 0 && !(c->times.dir >> 63));
    break;
  case FS_NAMES_BACKUP:
    check(c->backup.dir != 0 && c->backup.changed <= INT64_MAX / 2);
    break;
  case FS_NAMES_MARK:
    check(c->mark.bit < FS_MARK_BITS && c->mark.name < FS_TAKEN_BITS);
    break;
  case FS_NAMES_REPLICA:
    check(is_id(c->replica.id) && S_ISREG(c->replica.mode) && c->replica.size <= INT64_MAX);
    check(c->tail_len == 0 || c->tail_len >= sizeof(struct fs_wire_replica));
    check_list(tail2, c->tail2_len);
    break;
  default:
    break;
  }
}

static void check_call(const struct fs_names_call *c, size_t n) {
  check(fs_call_size(c) <= n && c->op > 0 && c->op < FS_NAMES_OPS);
  const struct fs_op *op = fs_call_op(c);
  check(op->scope != FS_SCOPE_NONE && !(c->flags & ~op->flags));
  check((op->tail || c->tail_len == 0) && (op->tail2 || c->tail2_len == 0));
  check(fs_call_scope(c) != FS_SCOPE_FILE || is_id(fs_call_id(c)));
  check(op->dir == 0 || (fs_call_dir(c) != 0 && !(fs_call_dir(c) >> 63)));
  check_fields(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size > FS_NAMES_BODY) size = FS_NAMES_BODY;
  char *body = calloc(1, size + (size == 0)); /* just so large that what is read beyond it is seen */
  if (!body) abort();
  if (size > 0) memcpy(body, data, size);
  if (fs_call_ok(body, size)) {
    const struct fs_names_call *c = (const void *)body;
    check_call(c, size);
    check_records(body, size, sizeof(*c));
  }
  check_records(body, size, 0);
  check_listed(body, size);
  free(body);
  return 0;
}
