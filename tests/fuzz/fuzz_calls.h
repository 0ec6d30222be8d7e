/* SPDX-License-Identifier: BSD-3-Clause */
/* For fuzz_daemon.c: its input, and what calls about names of output files are made of it. */
#ifndef FS_TEST_FUZZ_CALLS_H
#define FS_TEST_FUZZ_CALLS_H

#include <string.h>
#include <sys/stat.h>

#include "daemon/daemon.h"
#include "fuzz_input.h"
#include "ipc/op.h"
#include "ipc/wire.h"
#include "ipc/written.h"

#define RANKS 3u
#define CLIENTS 3u

static struct fs_client *client[CLIENTS];

/* ---- calls ---- */

static uint64_t an_id(void) {
  uint8_t b = byte();
  return b & 128 ? client[b % CLIENTS]->first_id + (b >> 4 & 3) : FS_OUTPUT_ID_MAKE(b % RANKS, b >> 4 & 3);
}
static uint64_t a_dir(void) {
  uint8_t b = byte();
  return b & 1 ? FS_DATASET_DIR(0, b >> 1 & 3) : an_id();
}

/* Appends a record as there may be one. */
static size_t a_record(char *body, size_t n) {
  struct fs_record r = {.id = an_id(), .dir = a_dir(), .seq = byte() % 16, .version = byte(), .size = word() & 0xfffff};
  uint8_t how = byte();
  r.mode = (how & 1 ? S_IFDIR : how & 2 ? S_IFLNK : S_IFREG) | 0644;
  r.home = how >> 2 & 3;
  r.flags = how >> 4;
  r.name_len = (uint16_t)(1 + byte() % 9);
  r.target_len = S_ISLNK(r.mode) ? 9 : 0;
  if (byte() == 1) take(&r, sizeof(r) - 4);
  (void)fs_record_put(body, FS_NAMES_BODY, &n, &r, "recorded.", "target...");
  return n;
}

/* Of a file's segments: whole, in pieces, changes. */
static size_t some_list(char *p) {
  uint32_t n = byte() & 7;
  struct fs_replica_list head = {.at = byte() & 7, .total = byte() & 15, .all = byte() & 1};
  memcpy(p, &head, sizeof(head));
  for (uint32_t i = 0; i < n; i++) {
    uint8_t how = byte();
    struct fs_output_extent e = {byte() * 16u, 1 + (how & 63), FS_OUTPUT_ID_MAKE(how >> 6, 1ull << 47 | (how & 3))};
    if (how % 8 == 0) e.len = e.segment = 0;
    memcpy(p + sizeof(head) + i * sizeof(e), &e, sizeof(e));
  }
  return sizeof(head) + n * sizeof(struct fs_output_extent);
}

/* What stands after the head, by operation. */
static size_t call_tails(struct fs_names_call *c) {
  static const char *const names[] = {"f", "g", "d", "one", "new", "longer-name", "recorded.", "r"};
  const char *name = names[byte() % FS_ARRAY_LEN(names)], *second = names[byte() % FS_ARRAY_LEN(names)];
  struct fs_range range = {byte() * 16u, 1 + byte()};
  struct {
    struct fs_wire_replica head;
    char bytes[64];
  } block = {.head = {.offset = byte() * 64u, .length = byte() & 63}};
  char bytes[512];
  size_t n;
  bool some = byte() & 1, two = byte() & 1;
  switch (c->op) {
  case FS_NAMES_LOOKUP:
    return fs_call_put(c, name, some ? 0 : strlen(name), "", 0);
  case FS_NAMES_RENAME:
    return fs_call_put(c, name, strlen(name), second, strlen(second));
  case FS_NAMES_CREATE:
    return fs_call_put(c, name, strlen(name), second, S_ISLNK(c->create.mode) ? strlen(second) : 0);
  case FS_NAMES_REMOVE:
  case FS_NAMES_TAKE:
    return fs_call_put(c, name, strlen(name), "", 0);
  case FS_NAMES_EXTEND:
    return fs_call_put(c, &range, c->extend.written == 0 ? sizeof(range) : 0, "", 0);
  case FS_NAMES_APPEND:
    c->append.bytes = byte();
    take(bytes, c->append.bytes);
    return fs_call_put(c, bytes, c->append.bytes, "", 0);
  case FS_NAMES_REPLICA:
    block.head.file = c->replica.id;
    memset(block.bytes, 5, sizeof(block.bytes));
    n = two ? some_list(bytes) : 0;
    return fs_call_put(c, &block, some ? sizeof(block.head) + block.head.length : 0, bytes, n);
  case FS_NAMES_BACKUP:
    n = some ? a_record((char *)c, sizeof(*c)) : sizeof(*c);
    c->tail_len = (uint16_t)(n - sizeof(*c));
    return n;
  default:
    return fs_call_put(c, "", 0, "", 0);
  }
}

/* A mode: of a file, a directory or a symlink. */
static uint32_t a_mode(void) {
  uint8_t type = byte();
  return (type & 1 ? S_IFDIR : type & 2 ? S_IFLNK : S_IFREG) | (uint32_t)(type >> 2 & 7) << 6;
}

/* The fields of an operation, about what there may be. */
static void call_fields(struct fs_names_call *c, uint8_t how) {
  uint64_t dir = a_dir(), to = a_dir(), id = an_id(), id2 = an_id();
  uint64_t number = how & 8 ? word() & 0xffff : byte() & 7, size = word() & 0xfffff;
  const struct fs_op *op = fs_call_op(c);
  uint32_t mode = a_mode();
  switch (c->op) {
  case FS_NAMES_LOOKUP:
    c->lookup.id = id;
    break;
  case FS_NAMES_CREATE:
    c->create = (struct fs_call_create){.size = size, .mode = mode};
    break;
  case FS_NAMES_PUBLISH:
    c->publish = (struct fs_call_publish){.number = number, .size = size, .mode = mode};
    break;
  case FS_NAMES_REMOVE:
    c->remove.call = id;
    break;
  case FS_NAMES_RENAME:
    c->rename = (struct fs_call_rename){.dir = to, .call = id};
    break;
  case FS_NAMES_LIST:
    c->list.after = number;
    c->list.most = FS_LISTED_MOST + size % (FS_NAMES_BODY - FS_LISTED_MOST + 1);
    break;
  case FS_NAMES_SETATTR:
    c->setattr = (struct fs_call_setattr){.call = id2, .size = size, .changed = size, .mode = mode};
    c->flags = 1 + c->flags % (S_ISREG(mode) ? 7 : 3);
    break;
  case FS_NAMES_CLOSE:
    c->close.snapshot = (uint32_t)number;
    break;
  case FS_NAMES_EXTEND:
    c->extend = (struct fs_call_extend){.segment = id2, .bytes = size, .appended = number, .appended_home = byte() & 3};
    c->extend.written = how & 16 ? 1 + byte() % FS_WRITTEN_FILES : 0;
    break;
  case FS_NAMES_EXTENTS:
    c->extents.off = size;
    break;
  case FS_NAMES_APPEND:
    c->append.call = id2;
    c->append.off = size;
    break;
  case FS_NAMES_LOCK:
    c->lock = (struct fs_call_lock){.owner = id2, .start = number, .end = how & 1 ? INT64_MAX : number + size};
    c->flags = (1u << mode % 5) | (c->flags & ~31u);
    break;
  case FS_NAMES_FORWARD:
    c->forwarder = (struct fs_call_forwarder){.file = id2, .dir = dir, .off = size};
    break;
  case FS_NAMES_SYNC:
    c->sync = (struct fs_call_sync){.upto = number, .size = size};
    break;
  case FS_NAMES_OFFER:
    c->offer.segment = number & 1 ? id2 : 0;
    break;
  case FS_NAMES_TAKE:
    c->take = (struct fs_call_take){.to = to, .call = id};
    break;
  case FS_NAMES_TAKEN:
    c->taken = (struct fs_call_taken){.to = to, .call = id2};
    break;
  case FS_NAMES_ARRIVED:
    c->arrived.call = id2;
    break;
  case FS_NAMES_ABOVE:
    break;
  case FS_NAMES_BACKUP:
    c->backup =
        (struct fs_call_backup){.id = number & 1 ? id : 0, .to = number & 2 ? to : 0, .call = number & 4 ? id2 : 0};
    c->backup.question = number;
    c->backup.asker = byte() & 3;
    break;
  case FS_NAMES_MARK:
    c->mark.bit = (uint32_t)number;
    c->mark.name = byte() * 4096u;
    break;
  case FS_NAMES_SUSPECT:
    c->suspect.rank = (uint32_t)number;
    break;
  case FS_NAMES_SET:
    c->set.number = number;
    break;
  case FS_NAMES_REPLICA:
    c->replica = (struct fs_call_replica){.dir = dir, .number = number, .size = size, .mode = mode};
    c->replica.generation = byte() & 3;
    c->replica.blocks = byte() & 3;
    c->replica.sent = byte() & 7;
    break;
  default:
    break;
  }
  if (op->dir) *fs_call_at(c, op->dir) = dir;
  if (op->id) *fs_call_at(c, op->id) = id;
}

/* A call: mostly one that there is, about what there may be. Of op, or 0: whichever. */
static size_t a_call_of(char *body, uint32_t op) {
  struct fs_names_call *c = (void *)body;
  uint8_t how = byte(), group = how % 4 % 3;
  memset(body, 0, 4096);
  if (how == 255) {
    take(c, sizeof(*c));
    c->tail_len &= 1023;
    c->tail2_len &= 1023;
    return fs_call_size(c);
  }
  c->op = op ? op : an_op(group);
  c->flags = byte() & fs_ops[c->op].flags;
  call_fields(c, how);
  return call_tails(c);
}
static size_t a_call(char *body) {
  return a_call_of(body, 0);
}

#endif
