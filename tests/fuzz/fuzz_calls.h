/* SPDX-License-Identifier: BSD-3-Clause */
/* For fuzz_daemon.c: its input, and what calls about names of output files are made of it. */
#ifndef FS_TEST_FUZZ_CALLS_H
#define FS_TEST_FUZZ_CALLS_H

#include <string.h>
#include <sys/stat.h>

#include "daemon/daemon.h"
#include "fuzz_input.h"
#include "ipc/call.h"
#include "ipc/wire.h"

#define RANKS 3u
#define CLIENTS 3u

static struct fs_client *client[CLIENTS];

/* ---- calls ---- */

static uint64_t an_id(void) {
  uint8_t b = byte();
  return b & 128 ? client[b % CLIENTS]->first_id + (b >> 4 & 3) : FS_OUT_ID_MAKE(b % RANKS, b >> 4 & 3);
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

/* Of a file's parts: whole, in pieces, changes. */
static size_t some_list(char *p) {
  uint32_t n = byte() & 7;
  struct fs_replica_list head = {.at = byte() & 7, .total = byte() & 15, .all = byte() & 1};
  memcpy(p, &head, sizeof(head));
  for (uint32_t i = 0; i < n; i++) {
    uint8_t how = byte();
    struct fs_out_extent e = {byte() * 16u, 1 + (how & 63), FS_OUT_ID_MAKE(how >> 6, 1ull << 47 | (how & 3))};
    if (how % 8 == 0) e.len = e.part = 0;
    memcpy(p + sizeof(head) + i * sizeof(e), &e, sizeof(e));
  }
  return sizeof(head) + n * sizeof(struct fs_out_extent);
}

/* What stands after the head, by operation. */
static void call_tail(struct fs_names_call *c, char *p) {
  static const char *const names[] = {"f", "g", "d", "one", "new", "longer-name", "recorded.", "r"};
  const char *name = names[byte() % FS_ARRAY_LEN(names)], *second = names[byte() % FS_ARRAY_LEN(names)];
  struct fs_range range = {byte() * 16u, 1 + byte()};
  struct fs_wire_replica replica = {.offset = byte() * 64u, .length = byte() & 63, .file = c->id};
  switch (c->op) {
  case FS_NAMES_LOOKUP:
    if (byte() & 1) return;
    break;
  case FS_NAMES_RENAME:
  case FS_NAMES_CREATE:
    c->name2_len = (uint16_t)(c->op == FS_NAMES_RENAME || S_ISLNK(c->mode) ? strlen(second) : 0);
    memcpy(p + strlen(name), second, c->name2_len);
    break;
  case FS_NAMES_REMOVE:
  case FS_NAMES_TAKE:
    break;
  case FS_NAMES_EXTEND:
    c->name_len = (uint16_t)sizeof(range);
    memcpy(p, &range, sizeof(range));
    return;
  case FS_NAMES_APPEND:
    c->name_len = byte();
    c->size = c->name_len;
    take(p, c->name_len);
    return;
  case FS_NAMES_REPLICA:
    if (byte() & 1) {
      memcpy(p, &replica, sizeof(replica));
      memset(p + sizeof(replica), 5, replica.length);
      c->name_len = (uint16_t)(sizeof(replica) + replica.length);
    }
    if (byte() & 1) c->name2_len = (uint16_t)some_list(p + c->name_len);
    return;
  default:
    return;
  }
  c->name_len = (uint16_t)strlen(name);
  memcpy(p, name, c->name_len);
}

/* A call: mostly one that there is, about what there may be. Of op, or 0: whichever. */
static size_t a_call_of(char *body, uint32_t op) {
  struct fs_names_call c = {0};
  uint8_t how = byte(), group = how % 4 % 3;
  memset(body, 0, 4096);
  if (how == 255) {
    take(&c, sizeof(c));
    c.name_len &= 1023;
    c.name2_len &= 1023;
  } else {
    c.op = op ? op : an_op(group);
    c.flags = byte() & fs_ops[c.op].flags;
    c.dir = a_dir();
    c.to = how & 4 ? (uint64_t)(byte() & 3) << 32 | (byte() & 3) : a_dir();
    c.id = an_id();
    c.seq = how & 8 ? word() & 0xffff : byte() & 7;
    c.size = word() & 0xfffff;
    uint8_t type = byte();
    c.mode = (type & 1 ? S_IFDIR : type & 2 ? S_IFLNK : S_IFREG) | (uint32_t)(type >> 2 & 7) << 6;
    if (c.op == FS_NAMES_SETATTR) c.flags = 1 + c.flags % (S_ISREG(c.mode) ? 7 : 3);
    call_tail(&c, body + sizeof(c));
  }
  memcpy(body, &c, sizeof(c));
  size_t n = sizeof(c);
  if (c.op != FS_NAMES_MIRROR || !(how & 16)) return fs_call_size(&c);
  n = a_record(body, n);
  ((struct fs_names_call *)(void *)body)->name_len = (uint16_t)(n - sizeof(c));
  return n;
}
static size_t a_call(char *body) {
  return a_call_of(body, 0);
}

#endif
