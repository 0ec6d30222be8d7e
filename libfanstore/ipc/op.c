/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of operations on output files, and the checks of their calls (op.h). No state, no
   locks. */
#include "ipc/op.h"

#include <string.h>

#include "ipc/wire.h"
#include "ipc/written.h"

/* ---- tails ---- */

static bool name_or_none(const char *name, size_t n) {
  return n == 0 || fs_name_ok(name, n);
}

static bool bytes_ok(const char *bytes, size_t n) {
  (void)bytes;
  return n <= FS_APPEND_DATA;
}

/* For tails that their readers check: records and the members. */
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
  struct fs_output_extent e;
  if (n == 0) return true;
  if (n < sizeof(struct fs_replica_list) || (n - sizeof(struct fs_replica_list)) % sizeof(e) != 0) return false;
  for (size_t at = sizeof(struct fs_replica_list); at < n; at += sizeof(e)) {
    memcpy(&e, list + at, sizeof(e));
    if (e.segment == 0 ? e.len != 0 : (!fs_id_ok(e.segment) || e.len == 0)) return false;
    if (e.len > INT64_MAX || e.off > INT64_MAX - e.len) return false;
  }
  return true;
}

/* ---- fields ---- */

static bool size_ok(uint64_t size) {
  return size <= INT64_MAX;
}

static bool lookup_ok(const struct fs_names_call *c) {
  return c->tail_len > 0 || (fs_id_ok(c->lookup.id) && !(c->flags & FS_LOOKUP_BORROW));
}

static bool create_ok(const struct fs_names_call *c) {
  const struct fs_call_create *m = &c->create;
  if ((c->flags & FS_CREATE_COPY) && !(c->flags & FS_CREATE_TAKES)) return false;
  return size_ok(m->size) && m->mtime_ns < FS_NSEC && fs_mode_ok(m->mode) && S_ISLNK(m->mode) == (c->tail2_len > 0);
}

static bool publish_ok(const struct fs_names_call *c) {
  const struct fs_call_publish *p = &c->publish;
  bool mode = !(p->mode & ~(uint32_t)(S_IFMT | 07777));
  return p->number <= FS_RECORD_SEQ_MAX && size_ok(p->size) && p->mtime_ns < FS_NSEC && mode;
}

static bool rename_ok(const struct fs_names_call *c) {
  return fs_dir_ok(c->rename.dir);
}

static bool list_call_ok(const struct fs_names_call *c) {
  return c->list.after <= FS_RECORD_SEQ_MAX && c->list.most >= FS_LISTED_MOST && c->list.most <= FS_NAMES_BODY;
}

static bool setattr_ok(const struct fs_names_call *c) {
  const struct fs_call_setattr *s = &c->setattr;
  if (!fs_mode_ok(s->mode) || !size_ok(s->size) || !size_ok(s->changed)) return false;
  return s->mtime_ns < FS_NSEC && (S_ISREG(s->mode) || (c->flags != 0 && !(c->flags & FS_SET_SIZE)));
}

static bool extend_ok(const struct fs_names_call *c) {
  const struct fs_call_extend *e = &c->extend;
  bool written = e->written <= FS_WRITTEN_FILES && (e->written == 0 || c->tail_len == 0);
  return fs_id_ok(e->segment) && size_ok(e->bytes) && e->appended <= FS_RECORD_SEQ_MAX && written;
}

static bool extents_ok(const struct fs_names_call *c) {
  return size_ok(c->extents.off);
}

static bool append_ok(const struct fs_names_call *c) {
  const struct fs_call_append *a = &c->append;
  if (!size_ok(a->bytes) || (c->tail_len > 0 && c->tail_len != a->bytes)) return false;
  return !(c->flags & FS_APPEND_AT) || (c->tail_len > 0 && size_ok(a->off) && a->off <= INT64_MAX - a->bytes);
}

/* One action, and only what goes with it. A process has no locks of flock(2). */
static bool lock_ok(const struct fs_names_call *c) {
  const uint32_t sets = FS_LOCK_READ | FS_LOCK_WRITE, ends = FS_LOCK_NONE | FS_LOCK_END | FS_LOCK_LOOK;
  const uint32_t how = FS_LOCK_WAIT | FS_LOCK_LEAVE | FS_LOCK_TEST;
  uint32_t action = c->flags & (sets | ends);
  if (action == 0 || (action & (action - 1)) != 0) return false;
  if ((c->flags & how) != 0 && ((action & ends) || (c->flags & how & ((c->flags & how) - 1)) != 0)) return false;
  if ((c->flags & FS_LOCK_FLOCK) && (c->flags & (FS_LOCK_PROCESS | FS_LOCK_TEST))) return false;
  return c->lock.owner != 0 && c->lock.start <= c->lock.end && size_ok(c->lock.end);
}

static bool forwarder_ok(const struct fs_names_call *c) {
  return fs_id_ok(c->forwarder.file) && size_ok(c->forwarder.off);
}

static bool sync_ok(const struct fs_names_call *c) {
  return c->sync.upto <= FS_RECORD_SEQ_MAX && size_ok(c->sync.size);
}

static bool offer_ok(const struct fs_names_call *c) {
  return c->offer.segment == 0 || fs_id_ok(c->offer.segment);
}

static bool take_ok(const struct fs_names_call *c) {
  return fs_dir_ok(c->take.to);
}

static bool taken_ok(const struct fs_names_call *c) {
  return size_ok(c->taken.call);
}

static bool arrived_ok(const struct fs_names_call *c) {
  return size_ok(c->arrived.call);
}

static bool backup_ok(const struct fs_names_call *c) {
  const struct fs_call_backup *m = &c->backup;
  bool drops = c->flags & FS_BACKUP_DROP;
  return m->changed <= INT64_MAX / 2 && size_ok(m->call) && m->question <= FS_RECORD_SEQ_MAX &&
         (!drops || fs_id_ok(m->id));
}

static bool mark_ok(const struct fs_names_call *c) {
  return c->mark.bit < FS_MARK_BITS && c->mark.name < FS_TAKEN_BITS;
}

static bool set_ok(const struct fs_names_call *c) {
  return c->set.number <= FS_RECORD_SEQ_MAX;
}

static bool replica_ok(const struct fs_names_call *c) {
  const struct fs_call_replica *r = &c->replica;
  return r->number <= FS_RECORD_SEQ_MAX && size_ok(r->size) && r->mtime_ns < FS_NSEC && S_ISREG(r->mode) &&
         fs_mode_ok(r->mode);
}

/* ---- the table: one row for each operation ---- */

#define OP(NAME, ...) [FS_NAMES_##NAME] = {.name = #NAME, __VA_ARGS__}
#define AT(field) offsetof(struct fs_names_call, field)
#define DIRECTORY(member) .scope = FS_SCOPE_DIRECTORY, .dir = AT(member.dir)
#define FILE_OF(member) .scope = FS_SCOPE_FILE, .id = AT(member.id)
#define OWN_NODE .scope = FS_SCOPE_NODE
#define ANY_RANK .scope = FS_SCOPE_RANK
#define CLIENT .client = true
#define CHANGES CLIENT, .changes = true
#define NOT_TWICE .not_twice = true
#define MEMBERS .members = true

const struct fs_op fs_ops[FS_NAMES_OPS] = {
    /* names */
    OP(LOOKUP, DIRECTORY(lookup), CLIENT, .flags = FS_LOOKUP_BORROW, .tail = name_or_none, .ok = lookup_ok),
    OP(CREATE, DIRECTORY(create), CHANGES, .id = AT(create.id),
       .flags = FS_CREATE_STAGED_IN | FS_CREATE_TAKES | FS_CREATE_COPY, .tail = fs_name_ok, .tail2 = fs_target_ok,
       .ok = create_ok),
    OP(PUBLISH, DIRECTORY(publish), CHANGES, .id = AT(publish.id), .bytes = AT(publish.size),
       .flags = FS_PUBLISH_SHARED | FS_PUBLISH_STAGED_IN | FS_PUBLISH_DURABLE, .ok = publish_ok),
    OP(REMOVE, DIRECTORY(remove), CHANGES, NOT_TWICE, .call = AT(remove.call),
       .flags = FS_REMOVE_DIRECTORY | FS_REMOVE_TAKES, .tail = fs_name_ok),
    OP(RENAME, .scope = FS_SCOPE_DIRECTORY, .dir = AT(rename.to), CHANGES, NOT_TWICE, .call = AT(rename.call),
       .flags = FS_RENAME_NOREPLACE | FS_RENAME_TAKES, .tail = fs_name_ok, .tail2 = fs_name_ok, .ok = rename_ok),
    OP(LIST, DIRECTORY(list), CLIENT, .ok = list_call_ok),
    OP(SETATTR, .scope = FS_SCOPE_RECORD, CHANGES, .dir = AT(setattr.dir), .id = AT(setattr.id),
       .call = AT(setattr.call), .bytes = AT(setattr.size), .flags = FS_SET_ALL, .ok = setattr_ok),
    OP(TIMES, DIRECTORY(times), CLIENT, .flags = FS_TIMES_SYNC),
    /* bytes of a file */
    OP(OPEN, FILE_OF(open), CLIENT, .flags = FS_OPEN_BYTES),
    OP(CLOSE, FILE_OF(close), CLIENT, NOT_TWICE, .not_later = true),
    OP(EXTEND, FILE_OF(extend), CLIENT, .queues = true, .bytes = AT(extend.bytes),
       .flags = FS_EXTEND_DURABLE | FS_EXTEND_OPEN, .tail = ranges_ok, .ok = extend_ok),
    OP(EXTENTS, FILE_OF(extents), CLIENT, .ok = extents_ok),
    OP(APPEND, FILE_OF(append), CLIENT, NOT_TWICE, .call = AT(append.call), .flags = FS_APPEND_AT, .tail = bytes_ok,
       .ok = append_ok),
    OP(LOCK, FILE_OF(lock), CLIENT, NOT_TWICE, .flags = FS_LOCK_ALL, .signals = FS_LOCK_WAIT, .ok = lock_ok),
    OP(OWN, FILE_OF(own), CLIENT, NOT_TWICE, .flags = FS_OWN_EMPTY),
    /* at the client's own daemon */
    OP(FORWARD, OWN_NODE, CLIENT, NOT_TWICE, .id = AT(forwarder.id), .flags = FS_FORWARDER_APPEND, .ok = forwarder_ok),
    OP(SYNC, OWN_NODE, CLIENT, .id = AT(sync.id), .flags = FS_SYNC_ALL, .ok = sync_ok),
    OP(OFFER, OWN_NODE, CLIENT, .id = AT(offer.file), .ok = offer_ok),
    OP(FIND, OWN_NODE, CLIENT, .id = AT(find.id)),
    OP(NODE_LOCAL, OWN_NODE, CHANGES, .dir = AT(node_local.dir), .flags = FS_NL_SHADOWS),
    /* between daemons */
    OP(TAKE, DIRECTORY(take), MEMBERS, .tail = fs_name_ok, .ok = take_ok),
    OP(TAKEN, DIRECTORY(taken), MEMBERS, .changes = true, .id = AT(taken.id), .flags = FS_TAKEN_KEEP, .ok = taken_ok),
    OP(ARRIVED, DIRECTORY(arrived), .id = AT(arrived.id), .ok = arrived_ok),
    OP(SHUT, DIRECTORY(shut), MEMBERS),
    OP(UNSHUT, DIRECTORY(unshut), MEMBERS),
    OP(FORGET, DIRECTORY(forget)),
    OP(ABOVE, DIRECTORY(above), .id = AT(above.id)),
    OP(BACKUP, .scope = FS_SCOPE_BACKUP, .dir = AT(backup.dir), .flags = FS_BACKUP_ALL, .tail = any_ok,
       .ok = backup_ok),
    OP(MARK, ANY_RANK, .flags = FS_MARK_TAKEN, .ok = mark_ok),
    OP(RECALL, ANY_RANK, .dir = AT(recall.dir)),
    OP(TREE, ANY_RANK),
    OP(MAPS, ANY_RANK),
    OP(DROP, .scope = FS_SCOPE_BYTES, .id = AT(drop.id), .flags = FS_DROP_AWAIT),
    OP(PING, ANY_RANK),
    OP(SUSPECT, ANY_RANK),
    OP(SET, ANY_RANK, .tail = any_ok, .ok = set_ok),
    OP(WHERE, ANY_RANK, .id = AT(where.id), .flags = FS_WHERE_SEEN),
    OP(REPLICA, .scope = FS_SCOPE_PARTNER, .id = AT(replica.id),
       .flags = FS_REPLICA_DURABLE | FS_REPLICA_SEGMENT | FS_REPLICA_MORE, .tail = block_ok, .tail2 = list_ok,
       .ok = replica_ok),
};

static bool tail_ok(bool (*ok)(const char *bytes, size_t n), const char *bytes, size_t n) {
  return ok ? ok(bytes, n) : n == 0;
}

bool fs_call_ok(const void *body, size_t n) {
  const struct fs_names_call *c = body;
  if (n < sizeof(*c) || n > FS_NAMES_BODY || n < fs_call_size(c)) return false;
  if (c->op >= FS_NAMES_OPS || fs_ops[c->op].scope == FS_SCOPE_NONE) return false;
  const struct fs_op *op = fs_call_op(c);
  if (c->flags & ~op->flags) return false;
  if (op->dir && !fs_dir_ok(fs_call_dir(c))) return false;
  if (op->id && !fs_id_ok(fs_call_id(c))) return false;
  if (!tail_ok(op->tail, fs_call_tail(c), c->tail_len) || !tail_ok(op->tail2, fs_call_tail2(c), c->tail2_len))
    return false;
  return !op->ok || op->ok(c);
}

size_t fs_call_put(struct fs_names_call *c, const void *tail, size_t n, const void *tail2, size_t n2) {
  char *to = (char *)(c + 1);
  c->tail_len = (uint16_t)n;
  c->tail2_len = (uint16_t)n2;
  if (n > 0) memcpy(to, tail, n);
  if (n2 > 0) memcpy(to + n, tail2, n2);
  size_t size = fs_round_up(sizeof(*c) + n + n2, 8); /* in shared memory the lengths are not read back */
  memset(to + n + n2, 0, size - sizeof(*c) - n - n2);
  return size;
}
