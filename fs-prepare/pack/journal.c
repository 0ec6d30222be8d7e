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
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "store.h"

#define MAGIC 0x334c4e524a534600ull /* "\0FSJRNL3" read as a little-endian u64 */
#define EVERY_NS 5000000000ull
#define SHARE 50u /* a checkpoint takes at most one part in so many of the time */

struct head {
  uint64_t magic, options, source, seed, xxh3;
};
struct record {
  uint64_t length;             /* of all, with the parts' states and the items */
  uint64_t next, offset, from; /* `from`: the place in the order of the first item below */
  uint64_t nitems;             /* items of the order from there on */
  uint64_t stored_bytes;
  uint32_t current, nparts;
  uint64_t nleft; /* files that --keep-going has left out since the record before; their records precede the items */
  uint64_t xxh3;  /* of the record, with 0 here */
};
struct left_rec {
  uint64_t item;
  int64_t err;
};
static_assert(FS_JOURNAL_LEAST == sizeof(struct head) + sizeof(struct record), "pack.h");
/* An item, as far as it is stored. Of nodes, its struct fs_long_key follows. Then come its blocks that no
   earlier record has. */
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
  return fstat(fd, &st) == 0 && st.st_size > FS_JOURNAL_LEAST;
}

/* ---- writing ---- */

static void start_timer(struct fs_journal *j) {
  const char *ms = getenv("FANSTORE_TEST_CHECKPOINT_MS"); /* for tests */
  uint64_t n;
  j->last_ns = fs_now_ns();
  j->every_ns = ms != NULL && fs_parse_u64(ms, 0, 1000000, &n) == 0 ? n * 1000000 : EVERY_NS;
}

fs_err fs_journal_begin(struct fs_journal *j, int fd) {
  struct head h = {.magic = MAGIC, .options = j->options, .source = j->source, .seed = j->plan->seed};
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

/* Returns the number of blocks of the item at `place` that are in the journal. What is left out has none. */
static uint64_t written_blocks(const struct fs_journal *j, uint64_t place) {
  return place == j->from && !item_at(j, place)->left_out ? j->block : 0;
}

static uint64_t count_left(const struct fs_journal *j) {
  return j->plan->tree->left_out.n - j->left;
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

/* Returns the number of chunks of a large file that some of its blocks are; they begin with a chunk. */
static uint64_t chunks_of(const struct fs_plan *plan, const struct fs_item *item, uint64_t blocks) {
  const uint64_t each = plan->chunk / plan->opts->block_size;
  return item->size > plan->chunk ? (blocks + each - 1) / each : 0;
}

/* Returns the bytes of what tells content that nodes have: of the file, and of chunks. */
static uint64_t key_size(const struct fs_store *s, uint64_t chunks) {
  return s->keys != NULL ? sizeof *s->keys + chunks * sizeof(uint64_t) : 0;
}

static uint64_t record_size(const struct fs_journal *j, const struct fs_store *s, uint64_t nitems) {
  uint64_t size = sizeof(struct record) + s->parts.nnew * sizeof(struct fs_part_state);
  size += count_left(j) * sizeof(struct left_rec);
  for (uint64_t i = 0; i < nitems; i++) {
    const struct fs_item *item = item_at(j, j->from + i);
    const uint64_t blocks = fs_item_nblocks(item) - written_blocks(j, j->from + i);
    size += sizeof(struct item_rec) + key_size(s, chunks_of(j->plan, item, blocks)) +
            blocks * sizeof(struct fs_built_block);
  }
  return size;
}

static void put_keys(const struct fs_store *s, uint64_t number, uint64_t first, uint64_t blocks, struct body *b) {
  const struct fs_plan *plan = s->plan;
  const uint64_t from = first / (plan->chunk / plan->opts->block_size);
  if (s->keys == NULL) return;
  put(b, &s->keys[number], sizeof *s->keys);
  for (uint64_t k = 0; k < chunks_of(plan, &plan->tree->items[number], blocks); k++) {
    const uint64_t second = fs_chunks_second(s, number, from + k);
    put(b, &second, sizeof second);
  }
}

static void put_left(const struct fs_journal *j, struct body *b) {
  for (size_t i = j->left; i < j->plan->tree->left_out.n; i++) {
    const struct fs_left *e = &j->plan->tree->left_out.list[i];
    const struct left_rec lr = {e->item, e->err};
    put(b, &lr, sizeof lr);
  }
}

static void put_items(const struct fs_journal *j, const struct fs_store *s, uint64_t nitems, struct body *b) {
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
    put_keys(s, j->plan->order[j->from + i], first, ir.nblocks, b);
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
                     .nparts = s->parts.nnew,
                     .nleft = count_left(j)};
  FS_AUTO_FREE struct body *b = calloc(1, sizeof *b);
  if (b == NULL || (b->hash = fs_xxh3_new()) == NULL) return -ENOMEM;
  b->fd = j->fd;
  b->at = j->end + sizeof r;
  fs_xxh3_update(b->hash, &r, sizeof r);
  put(b, state, s->parts.nnew * sizeof *state);
  put_left(j, b);
  put_items(j, s, nitems, b);
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
  fs_err err = fs_pack_nodes != NULL ? fs_pack_nodes->sync(&s->parts, state) : fs_parts_sync(&s->parts, j->plan, state);
  if (err == 0) err = fs_block_file_sync(&j->plan->tree->blocks);
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
  j->left = j->plan->tree->left_out.n;
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

/* The journal, mapped: a record may be large. */
struct mapped {
  const uint8_t *base;
  uint64_t size;
};

static fs_err map_journal(const struct fs_journal *j, struct mapped *m) {
  struct stat st;
  if (fstat(j->fd, &st) < 0) return -errno;
  void *base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, j->fd, 0);
  if (base == MAP_FAILED) return -errno;
  *m = (struct mapped){base, (uint64_t)st.st_size};
  return 0;
}

static bool hash_fits(const struct record *r) {
  struct record head = *r;
  struct fs_xxh3_stream *h = fs_xxh3_new();
  if (h == NULL) return false;
  head.xxh3 = 0;
  fs_xxh3_update(h, &head, sizeof head);
  fs_xxh3_update(h, r + 1, r->length - sizeof head);
  head.xxh3 = fs_xxh3_digest(h);
  fs_xxh3_free(h);
  return head.xxh3 == r->xxh3;
}

/* Returns the record at `at`, or NULL if there is no whole one. */
static const struct record *record_at(const struct fs_journal *j, const struct mapped *m, uint64_t at) {
  const uint32_t nparts = j->plan->nparts + j->plan->nreplicated;
  const struct record *r = (const struct record *)(m->base + at);
  const uint64_t least = sizeof *r + nparts * sizeof(struct fs_part_state);
  if (at > m->size || m->size - at < least || at % alignof(struct record) != 0) return NULL;
  if (r->length < least || r->length > m->size - at || r->nparts != nparts) return NULL;
  return hash_fits(r) ? r : NULL;
}

/* Returns the last whole record, or NULL. Sets j->end to its end, and *left if a record has files that were left out.
 */
static const struct record *last_record(struct fs_journal *j, const struct mapped *m, bool *left) {
  const struct record *last = NULL;
  j->end = sizeof(struct head);
  for (const struct record *r; (r = record_at(j, m, j->end)) != NULL; last = r) {
    j->end += r->length;
    *left |= r->nleft != 0;
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
  if (item->left_out && ir->nblocks == 0) return 0;
  if (item->alias || ir->first != had || ir->nblocks > all - had || ir->codec >= s->plan->codecs.n) return -EUCLEAN;
  if (ir->same1 != 0) {
    if (ir->same1 > tree->n || !may_be_same(item, &tree->items[ir->same1 - 1])) return -EUCLEAN;
    if (had != 0 || ir->nblocks != 0) return -EUCLEAN;
    fs_item_make_alias(item, ir->same1 - 1);
    return 0;
  }
  fs_err err = item->many ? 0 : fs_item_room(&s->plan->tree->blocks, item);
  if (err < 0) return err;
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

/* Notes the chunks of a large file as the store did. second: of nodes, else NULL. */
static void note_chunks(struct fs_store *s, uint64_t item, const struct item_rec *ir, const uint8_t *second) {
  const uint64_t from = ir->first / (s->plan->chunk / s->plan->opts->block_size);
  for (uint64_t k = 0; k < chunks_of(s->plan, &s->plan->tree->items[item], ir->nblocks); k++) {
    uint64_t key = 0;
    if (second != NULL) memcpy(&key, second + k * sizeof key, sizeof key);
    fs_chunks_note(s, item, from + k, key);
  }
}

/* Leaves out what that run has left out. */
static fs_err apply_left(const struct fs_store *s, const struct left_rec *left, uint64_t n) {
  const struct fs_tree *tree = s->plan->tree;
  fs_err err = 0;
  for (uint64_t i = 0; i < n && err == 0; i++) {
    const struct fs_item *item = left[i].item < tree->n ? &tree->items[left[i].item] : NULL;
    if (item == NULL || !S_ISREG(item->mode) || item->alias || item->left_out) return -EUCLEAN;
    if (left[i].err >= 0 || left[i].err < -4095) return -EUCLEAN;
    err = fs_plan_leave_out_again((struct fs_plan *)s->plan, left[i].item, (fs_err)left[i].err);
  }
  return err;
}

static fs_err apply_record(struct fs_journal *j, struct fs_store *s, const struct record *r) {
  const uint8_t *at = (const uint8_t *)(r + 1) + r->nparts * sizeof(struct fs_part_state);
  const uint8_t *end = (const uint8_t *)r + r->length;
  fs_err err = r->from <= j->plan->norder && r->nitems <= j->plan->norder - r->from ? 0 : -EUCLEAN;
  if (r->nleft > (size_t)(end - at) / sizeof(struct left_rec)) return -EUCLEAN;
  if (err == 0) err = apply_left(s, (const struct left_rec *)at, r->nleft);
  at += r->nleft * sizeof(struct left_rec);
  for (uint64_t i = 0; i < r->nitems && err == 0; i++) {
    struct item_rec ir;
    const uint64_t number = j->plan->order[r->from + i];
    struct fs_item *item = &j->plan->tree->items[number];
    if ((size_t)(end - at) < sizeof ir) return -EUCLEAN;
    memcpy(&ir, at, sizeof ir);
    at += sizeof ir;
    const uint64_t keys = key_size(s, chunks_of(j->plan, item, ir.nblocks));
    const uint8_t *second = s->keys != NULL ? at + sizeof *s->keys : NULL;
    if ((size_t)(end - at) < keys) return -EUCLEAN;
    if (s->keys != NULL) memcpy(&s->keys[number], at, sizeof *s->keys);
    at += keys;
    if ((size_t)(end - at) / sizeof(struct fs_built_block) < ir.nblocks) return -EUCLEAN;
    err = apply_item(s, item, &ir, at);
    at += ir.nblocks * sizeof(struct fs_built_block);
    if (err == 0) note_chunks(s, number, &ir, second);
    if (err == 0 && !item->alias && !item->left_out && item->size <= j->plan->chunk)
      err = fs_store_seen(s, number, ir.plain);
  }
  return err;
}

static fs_err apply_all(struct fs_journal *j, struct fs_store *s, const struct mapped *m) {
  fs_err err = 0;
  for (uint64_t at = sizeof(struct head); at < j->end && err == 0;) {
    const struct record *r = (const struct record *)(m->base + at);
    at += r->length;
    err = apply_record(j, s, r);
    madvise((void *)m->base, m->size, MADV_DONTNEED);
  }
  return err;
}

static void say_anew(const char *path, const char *why) {
  fs_say("the interrupted pack of %s is not resumed, because %s; this one begins anew", path, why);
}

static fs_err restore(struct fs_journal *j, struct fs_store *s, const struct mapped *m) {
  bool left = false;
  const struct record *last = last_record(j, m, &left);
  if (last == NULL || last->next > j->plan->norder || last->current >= FS_MAX(s->parts.n, 1)) return -EBADMSG;
  if (last->offset != 0 && (last->next == j->plan->norder || last->offset >= item_at(j, last->next)->size))
    return -EBADMSG;
  if (left && !j->plan->opts->keep_going) {
    say_anew(j->plan->opts->dataset, "it had --keep-going, and has left files out");
    return -ENODATA;
  }
  const struct fs_part_state *state = (const struct fs_part_state *)(last + 1);
  fs_err err = fs_pack_nodes != NULL ? fs_pack_nodes->open(state) : 0;
  if (err == 0) err = fs_parts_resume(&s->parts, j->plan, state);
  if (err == 0 && ftruncate(j->fd, (off_t)j->end) < 0) err = -errno;
  if (err < 0) return err;
  err = apply_all(j, s, m);
  if (err == -EUCLEAN || err == -EIO)
    fs_say("the journal of the interrupted pack contradicts itself; use --restart to begin anew");
  s->current = last->current;
  s->stored_bytes = last->stored_bytes;
  j->next = j->from = last->next;
  j->offset = last->offset;
  j->block = j->offset != 0 ? fs_item_nblocks(item_at(j, j->next)) : 0;
  j->left = j->plan->tree->left_out.n;
  j->any = true;
  return err == -EUCLEAN ? -EIO : err;
}

fs_err fs_journal_restore(struct fs_journal *j, struct fs_store *s) {
  struct mapped m = {0};
  fs_err err = map_journal(j, &m);
  if (err == 0) err = restore(j, s, &m);
  if (m.base != NULL) munmap((void *)m.base, m.size);
  return err;
}

static bool read_head(int fd, struct head *h) {
  return fs_pread_full(fd, h, sizeof(*h), 0) >= 0 && h->magic == MAGIC &&
         h->xxh3 == fs_xxh3(h, offsetof(struct head, xxh3));
}

uint64_t fs_journal_seed(const struct fs_target *t) {
  struct head h;
  if (t->adopted && read_head(t->journal_fd, &h)) return h.seed;
  return getrandom(&h.seed, sizeof h.seed, 0) == sizeof h.seed ? h.seed : fs_now_ns();
}

/* Returns why the journal that was found is not for this plan, or NULL. */
static const char *why_other(const struct fs_journal *j, int fd) {
  struct head h;
  if (!read_head(fd, &h)) return "its journal is damaged or of another version";
  if (h.options != j->options) return fs_pack_nodes != NULL ? "it had other options or nodes" : "it had other options";
  if (h.source == j->source) return NULL;
  return j->plan->update != NULL ? "SOURCE, DATASET or its partitions have changed since" : "SOURCE has changed since";
}

fs_err fs_journal_open(struct fs_journal *j, const struct fs_plan *plan, struct fs_target *t) {
  *j = (struct fs_journal){.plan = plan, .left = plan->tree->left_out.n};
  fs_err err = fs_journal_fingerprint(j);
  if (err < 0) return err;
  const char *why = t->adopted ? why_other(j, t->journal_fd) : NULL;
  if (why != NULL) {
    say_anew(t->path, why);
    err = fs_target_renew(t);
    if (err < 0) return err;
  }
  if (!t->adopted) return fs_journal_begin(j, t->journal_fd);
  j->fd = t->journal_fd;
  start_timer(j);
  return 0;
}
