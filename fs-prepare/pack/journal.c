/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The journal of checkpoints: the file "journal" of the temporary directory. A head says which
 * SOURCE and which options it is for. Records follow, one for each checkpoint: how far the plan's
 * order is stored, the state of each new partition, and the places of what was stored since the
 * record before. A record is appended after all that it speaks of is on disk, and has a checksum, so
 * the last whole record is true whenever the process or the machine dies. docs/internals/pack.md
 * has the protocol. Called by pack's main thread.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pack.h"

#define MAGIC 0x314c4e524a534600ull /* "\0FSJRNL1" read as a little-endian u64 */
#define EVERY_NS 5000000000ull
#define SHARE 50u /* a checkpoint takes at most one part in so many of the time */

struct head {
  uint64_t magic, options, source, xxh3;
};
struct record {
  uint64_t length; /* of all, with the parts' states and the items */
  uint64_t next, offset;
  uint64_t from;   /* the place in the order of the first item below */
  uint64_t nitems; /* items of the order from there on */
  uint64_t stored_bytes;
  uint32_t current, nparts;
  uint64_t xxh3; /* of the record, with 0 here */
};
/* An item, as far as it is stored. Its blocks that no earlier record has follow. */
struct item_rec {
  uint64_t same1; /* the item of the same content + 1; 0: none */
  uint64_t plain; /* else XXH3 of the plain bytes, if equal files are found by it (store.c); 0: none */
  uint64_t first; /* number of the first block that follows */
  uint32_t nblocks;
  uint8_t codec, flags;
  uint16_t zero;
};

bool fs_journal_has_checkpoint(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 && (size_t)st.st_size > sizeof(struct head) + sizeof(struct record);
}

/* ---- which SOURCE and options it is for ---- */

static uint64_t hash_options(const struct fs_plan *plan) {
  const struct fs_pack_options *o = plan->opts;
  char text[512], id[33] = "";
  if (plan->update != NULL) fs_hex(plan->update->old.manifest.dataset_id, 16, id);
  int n = snprintf(text, sizeof text, "%s %s %d %" PRIu64 " %" PRIu64 " %u %u %d %d %d %s", FS_VERSION, o->codec_text,
                   o->level, o->decode_rate, o->partitions, o->block_size, o->align, (int)o->order, (int)o->dereference,
                   o->checksum, id);
  return fs_xxh3(text, (size_t)n);
}

static void hash_item(struct fs_xxh3_stream *h, const struct fs_item *item) {
  const uint64_t numbers[] = {item->size,
                              S_ISREG(item->mode) ? item->ino : 0,
                              (uint64_t)item->mtime_sec,
                              item->mtime_nsec,
                              item->mode,
                              item->replicate,
                              item->followed,
                              item->alias ? item->same + 1 : 0,
                              item->group,
                              item->kept,
                              item->source};
  fs_xxh3_update(h, item->path, strlen(item->path) + 1);
  if (S_ISLNK(item->mode)) fs_xxh3_update(h, item->target, strlen(item->target) + 1);
  fs_xxh3_update(h, numbers, sizeof numbers);
}

static void hash_archive(struct fs_xxh3_stream *h, const struct fs_source *src) {
  if (src->kind == FS_SOURCE_DIR) return;
  const uint64_t numbers[] = {(uint64_t)src->st.st_size, (uint64_t)src->st.st_mtim.tv_sec,
                              (uint64_t)src->st.st_mtim.tv_nsec};
  fs_xxh3_update(h, numbers, sizeof numbers);
}

/* What is encoded how, and in which order. What is read for this may fail in one run and not in the
   next. */
static void hash_plan(struct fs_xxh3_stream *h, const struct fs_plan *plan) {
  const struct fs_pack_codecs *c = &plan->codecs;
  for (uint32_t i = 0; i < c->n; i++) {
    const struct fs_encoding *e = &c->row[i];
    const uint64_t numbers[] = {e->family, e->element, (uint64_t)e->level, e->dict_len};
    fs_xxh3_update(h, numbers, sizeof numbers);
    if (e->dict_len != 0) fs_xxh3_update(h, e->dict, e->dict_len);
  }
  fs_xxh3_update(h, c->of_kind, sizeof c->of_kind);
  for (uint64_t i = 0; i < plan->tree->n; i++) fs_xxh3_update(h, &plan->tree->items[i].kind, 1);
  fs_xxh3_update(h, plan->order, plan->norder * sizeof *plan->order);
}

static fs_err fingerprint(struct fs_journal *j) {
  struct fs_xxh3_stream *h = fs_xxh3_new();
  if (h == NULL) return -ENOMEM;
  for (size_t i = 0; i < j->plan->tree->n; i++) hash_item(h, &j->plan->tree->items[i]);
  for (uint32_t i = 0; i < j->plan->tree->nsources; i++) hash_archive(h, &j->plan->tree->sources[i]);
  hash_plan(h, j->plan);
  j->source = fs_xxh3_digest(h);
  j->options = hash_options(j->plan);
  fs_xxh3_free(h);
  return 0;
}

/* ---- writing ---- */

static void start_timer(struct fs_journal *j) {
  const char *ms = getenv("FANSTORE_TEST_CHECKPOINT_MS"); /* for tests */
  uint64_t n;
  j->last_ns = fs_now_ns();
  j->every_ns = ms != NULL && fs_parse_u64(ms, 0, 1000000, &n) == 0 ? n * 1000000 : EVERY_NS;
}

fs_err fs_journal_begin(struct fs_journal *j, int fd) {
  struct head h = {.magic = MAGIC, .options = j->options, .source = j->source};
  h.xxh3 = fs_xxh3(&h, offsetof(struct head, xxh3));
  j->fd = fd;
  j->next = j->offset = j->from = j->block = j->chunks = 0;
  j->any = false;
  j->end = sizeof h;
  start_timer(j);
  if (ftruncate(fd, 0) < 0) return -errno;
  return fs_pwrite_full(fd, &h, sizeof h, 0);
}

/* Notes the hash of an item, of which the hashes of those before it were noted or are 0. */
static fs_err note_plain(struct fs_journal *j, uint64_t plain_xxh3) {
  if (plain_xxh3 == 0) return 0;
  for (const uint64_t at = j->next - j->from; j->nplain <= at; j->nplain++) {
    fs_err err = fs_grow(&j->plain, &j->plain_room, j->nplain, sizeof *j->plain);
    if (err < 0) return err;
    j->plain[j->nplain] = 0;
  }
  j->plain[j->nplain - 1] = plain_xxh3;
  return 0;
}

fs_err fs_journal_note(struct fs_journal *j, const struct fs_chunk *c, uint64_t plain_xxh3) {
  fs_err err = j->ended ? 0 : note_plain(j, plain_xxh3);
  j->offset = c->offset + c->plain_len;
  j->chunks++;
  if (j->offset != j->plan->tree->items[c->item].size) return err;
  j->next++;
  j->offset = 0;
  return err;
}

void fs_journal_free(struct fs_journal *j) {
  free(j->plain);
  j->plain = NULL;
}

static struct fs_item *item_at(const struct fs_journal *j, uint64_t place) {
  return &j->plan->tree->items[j->plan->order[place]];
}

/* Returns the number of blocks of the item at `place` that are in the journal. */
static uint64_t written_blocks(const struct fs_journal *j, uint64_t place) {
  return place == j->from ? j->block : 0;
}

/* Returns how many items a record made now has: an item that is stored in part is the last. */
static uint64_t count_items(const struct fs_journal *j) {
  return j->next - j->from + (j->offset != 0);
}

/* The body of a record, which is written through a buffer: it may be large. */
struct body {
  int fd;
  uint64_t at; /* of the buffer's bytes in the journal */
  struct fs_xxh3_stream *hash;
  fs_err err;
  size_t used;
  uint8_t buf[64 << 10];
};

static void flush(struct body *b) {
  fs_xxh3_update(b->hash, b->buf, b->used);
  if (b->err == 0) b->err = fs_pwrite_full(b->fd, b->buf, b->used, b->at);
  b->at += b->used;
  b->used = 0;
}

static void put(struct body *b, const void *data, size_t n) {
  while (n > 0) {
    const size_t k = FS_MIN(n, sizeof b->buf - b->used);
    memcpy(b->buf + b->used, data, k);
    b->used += k;
    data = (const uint8_t *)data + k;
    n -= k;
    if (b->used == sizeof b->buf) flush(b);
  }
}

static uint64_t record_size(const struct fs_journal *j, const struct fs_store *s, uint64_t nitems) {
  uint64_t size = sizeof(struct record) + s->parts.nnew * sizeof(struct fs_part_state);
  for (uint64_t i = 0; i < nitems; i++) {
    const uint64_t blocks = fs_item_nblocks(item_at(j, j->from + i)) - written_blocks(j, j->from + i);
    size += sizeof(struct item_rec) + blocks * sizeof(struct fs_built_block);
  }
  return size;
}

static void put_items(const struct fs_journal *j, uint64_t nitems, struct body *b) {
  for (uint64_t i = 0; i < nitems; i++) {
    const struct fs_item *item = item_at(j, j->from + i);
    const uint64_t first = written_blocks(j, j->from + i);
    const struct item_rec ir = {.same1 = item->alias ? item->same + 1ull : 0,
                                .plain = i < j->nplain ? j->plain[i] : 0,
                                .first = first,
                                .nblocks = (uint32_t)(fs_item_nblocks(item) - first),
                                .codec = item->codec,
                                .flags = (uint8_t)fs_item_flags(item)};
    put(b, &ir, sizeof ir);
    if (ir.nblocks != 0) put(b, fs_item_block(item, first), ir.nblocks * sizeof(struct fs_built_block));
  }
}

/* Writes a record: its body, then its head, which has the checksum. Stores its length. */
static fs_err write_record(const struct fs_journal *j, const struct fs_store *s, const struct fs_part_state *state,
                           uint64_t *length) {
  const uint64_t nitems = count_items(j);
  struct record r = {.length = record_size(j, s, nitems),
                     .next = j->next,
                     .offset = j->offset,
                     .from = j->from,
                     .nitems = nitems,
                     .stored_bytes = s->stored_bytes,
                     .current = s->current,
                     .nparts = s->parts.nnew};
  FS_AUTO_FREE struct body *b = calloc(1, sizeof *b);
  if (b == NULL || (b->hash = fs_xxh3_new()) == NULL) return -ENOMEM;
  b->fd = j->fd;
  b->at = j->end + sizeof r;
  fs_xxh3_update(b->hash, &r, sizeof r);
  put(b, state, s->parts.nnew * sizeof *state);
  put_items(j, nitems, b);
  flush(b);
  r.xxh3 = fs_xxh3_digest(b->hash);
  fs_xxh3_free(b->hash);
  *length = r.length;
  return b->err < 0 ? b->err : fs_pwrite_full(j->fd, &r, sizeof r, j->end);
}

/* Makes the names of the temporary directory and of its files last. */
static fs_err sync_names(int dir) {
  FS_AUTO_CLOSE int parent = fs_sys_openat(dir, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (parent < 0) return parent;
  return fsync(dir) < 0 || fsync(parent) < 0 ? -errno : 0;
}

fs_err fs_journal_checkpoint(struct fs_journal *j, struct fs_store *s) {
  if (j->ended) return 0;
  FS_AUTO_FREE struct fs_part_state *state = calloc(s->parts.nnew + 1, sizeof *state);
  if (state == NULL) return -ENOMEM;
  fs_err err = fs_parts_sync(&s->parts, j->plan, state);
  if (err == 0 && !j->any) err = sync_names(s->parts.dir);
  if (err < 0) return err;
  uint64_t length = 0;
  err = write_record(j, s, state, &length);
  if (err == 0 && fdatasync(j->fd) < 0) err = -errno;
  if (err < 0) return err;
  j->end += length;
  j->chunks = 0;
  j->any = true;
  j->from = j->next;
  j->nplain = 0;
  j->block = j->offset != 0 ? fs_item_nblocks(item_at(j, j->next)) : 0;
  return 0;
}

fs_err fs_journal_tick(struct fs_journal *j, struct fs_store *s) {
  const uint64_t begun = fs_now_ns();
  if (j->chunks == 0 || begun - j->last_ns < j->every_ns) return 0;
  fs_err err = fs_journal_checkpoint(j, s);
  j->last_ns = fs_now_ns();
  if (j->every_ns >= EVERY_NS) j->every_ns = FS_MAX(EVERY_NS, SHARE * (j->last_ns - begun));
  return err;
}

/* ---- reading ---- */

/* Reads the record at `at`, from malloc. Returns NULL if there is no whole one. */
static struct record *read_record(const struct fs_journal *j, uint64_t at, uint64_t size) {
  struct record head;
  const uint32_t nparts = j->plan->nparts + j->plan->nreplicated;
  const uint64_t least = sizeof head + nparts * sizeof(struct fs_part_state);
  if (size - at < sizeof head || fs_pread_full(j->fd, &head, sizeof head, at) < 0) return NULL;
  if (head.length < least || head.length > size - at || head.nparts != nparts) return NULL;
  struct record *r = malloc(head.length);
  if (r != NULL && fs_pread_full(j->fd, r, head.length, at) == 0) {
    uint64_t xxh3 = r->xxh3;
    r->xxh3 = 0;
    if (r->length == head.length && fs_xxh3(r, head.length) == xxh3) return r;
  }
  free(r);
  return NULL;
}

static uint64_t file_size(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* Returns the last whole record, from malloc, or NULL. Sets j->end to its end. */
static struct record *last_record(struct fs_journal *j) {
  const uint64_t size = file_size(j->fd);
  struct record *last = NULL;
  j->end = sizeof(struct head);
  for (struct record *r; (r = read_record(j, j->end, size)) != NULL; last = r) {
    j->end += r->length;
    free(last);
  }
  return last;
}

/* Returns true if a block lies in a partition as it is at the checkpoint. */
static bool block_fits(const struct fs_store *s, const struct fs_built_block *b) {
  return b->partition < s->parts.n && b->offset >= FS_PART_HEADER_SIZE &&
         b->offset <= s->parts.out[b->partition].size && b->stored_len <= s->parts.out[b->partition].size - b->offset;
}

static bool may_be_same(const struct fs_item *item, const struct fs_item *other) {
  return other != item && S_ISREG(other->mode) && !other->alias && fs_item_nblocks(other) != 0 &&
         other->size == item->size;
}

/* Takes over an item and the blocks behind its record. */
static fs_err apply_item(struct fs_store *s, struct fs_item *item, const struct item_rec *ir, const uint8_t *blocks) {
  const struct fs_tree *tree = s->plan->tree;
  const uint64_t block = s->plan->opts->block_size, all = (item->size + block - 1) / block;
  const uint64_t had = fs_item_nblocks(item);
  if (ir->first != had || ir->nblocks > all - had || ir->codec >= s->plan->codecs.n) return -EUCLEAN;
  if (ir->same1 != 0) {
    if (ir->same1 > tree->n || !may_be_same(item, &tree->items[ir->same1 - 1])) return -EUCLEAN;
    if (had != 0 || ir->nblocks != 0) return -EUCLEAN;
    fs_item_make_alias(item, ir->same1 - 1);
    return 0;
  }
  if (!item->many && fs_item_room(item, block) < 0) return -ENOMEM;
  item->codec = ir->codec;
  fs_item_set_flags(item, ir->flags);
  for (uint64_t i = ir->first; i < had + ir->nblocks; i++) {
    struct fs_built_block b;
    memcpy(&b, blocks + (i - ir->first) * sizeof b, sizeof b);
    fs_item_add_block(item, &b);
    if (!block_fits(s, &b) || b.stored_len == 0 || b.stored_len > FS_MIN(block, item->size - i * block))
      return -EUCLEAN;
  }
  return 0;
}

static fs_err apply_record(struct fs_journal *j, struct fs_store *s, const struct record *r) {
  const uint8_t *at = (const uint8_t *)(r + 1) + r->nparts * sizeof(struct fs_part_state);
  const uint8_t *end = (const uint8_t *)r + r->length;
  fs_err err = r->from <= j->plan->norder && r->nitems <= j->plan->norder - r->from ? 0 : -EUCLEAN;
  for (uint64_t i = 0; i < r->nitems && err == 0; i++) {
    struct item_rec ir;
    const uint64_t number = j->plan->order[r->from + i];
    struct fs_item *item = &j->plan->tree->items[number];
    if ((size_t)(end - at) < sizeof ir) return -EUCLEAN;
    memcpy(&ir, at, sizeof ir);
    at += sizeof ir;
    if ((size_t)(end - at) / sizeof(struct fs_built_block) < ir.nblocks) return -EUCLEAN;
    err = apply_item(s, item, &ir, at);
    at += ir.nblocks * sizeof(struct fs_built_block);
    if (err == 0 && !item->alias && item->size <= j->plan->chunk) err = fs_store_seen(s, number, ir.plain);
  }
  return err;
}

static fs_err apply_all(struct fs_journal *j, struct fs_store *s) {
  const uint64_t size = j->end;
  fs_err err = 0;
  for (uint64_t at = sizeof(struct head); at < size && err == 0;) {
    FS_AUTO_FREE struct record *r = read_record(j, at, size);
    if (r == NULL) return -EIO;
    at += r->length;
    err = apply_record(j, s, r);
  }
  return err;
}

fs_err fs_journal_restore(struct fs_journal *j, struct fs_store *s) {
  FS_AUTO_FREE struct record *last = last_record(j);
  if (last == NULL || last->next > j->plan->norder || last->current >= FS_MAX(s->parts.n, 1)) return -EBADMSG;
  if (last->offset != 0 && (last->next == j->plan->norder || last->offset >= item_at(j, last->next)->size))
    return -EBADMSG;
  fs_err err = fs_parts_resume(&s->parts, j->plan, (const struct fs_part_state *)(last + 1));
  if (err == 0 && ftruncate(j->fd, (off_t)j->end) < 0) err = -errno;
  if (err < 0) return err;
  err = apply_all(j, s);
  if (err == -EUCLEAN || err == -EIO)
    fs_say("the journal of the interrupted pack contradicts itself; use --restart to begin anew");
  s->current = last->current;
  s->stored_bytes = last->stored_bytes;
  j->next = j->from = last->next;
  j->offset = last->offset;
  j->block = j->offset != 0 ? fs_item_nblocks(item_at(j, j->next)) : 0;
  j->any = true;
  return err == -EUCLEAN ? -EIO : err;
}

/* Returns why the journal that was found is not for this plan, or NULL. */
static const char *why_other(const struct fs_journal *j, int fd) {
  struct head h;
  if (fs_pread_full(fd, &h, sizeof h, 0) < 0 || h.magic != MAGIC || h.xxh3 != fs_xxh3(&h, offsetof(struct head, xxh3)))
    return "its journal is damaged or of another version";
  if (h.options != j->options) return "it had other options";
  return h.source != j->source ? "SOURCE has changed since" : NULL;
}

fs_err fs_journal_open(struct fs_journal *j, const struct fs_plan *plan, struct fs_target *t) {
  *j = (struct fs_journal){.plan = plan};
  fs_err err = fingerprint(j);
  if (err < 0) return err;
  const char *why = t->adopted ? why_other(j, t->journal_fd) : NULL;
  if (why != NULL) {
    fs_say("the interrupted pack of %s is not resumed, because %s; this one begins anew", t->path, why);
    err = fs_target_renew(t);
    if (err < 0) return err;
  }
  if (!t->adopted) return fs_journal_begin(j, t->journal_fd);
  j->fd = t->journal_fd;
  start_timer(j);
  return 0;
}
