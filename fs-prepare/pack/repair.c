/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-prepare verify --repair-from: makes a damaged partition again. A block is taken from the first of
 * these that has it: the damaged partition, an archive that can be read from its begin only, the same
 * place in a copy of the dataset, the file that it was packed from. A file's bytes are encoded again
 * by the block's row. The row does not tell the level: good blocks of the row tell it, else levels are
 * tried. Each block must have its checksum, and the whole partition its own. A partition is written
 * beside the damaged one and renamed, so jobs that read the old file go on. Threads take partitions.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "repair.h"

#define SEARCHES 4u /* blocks of a PLACE for which all levels are tried, although none fits; then ever fewer */
#define SAMPLES 2u  /* good blocks of each row whose level is searched */
#define TRIES 256u  /* bad blocks of each row that are read to find these */

/* A partition that is made. */
struct mend {
  struct fs_coder c;
  struct fs_verify *v;
  uint32_t number;
  int damaged, copy; /* descriptors, or negative */
  FILE *out;
  char temp[64];
  uint64_t at;
  struct fs_xxh3_stream *hash;
  struct fs_passes_block block; /* to be written; its offset is 0 before the first one */
  bool found;                   /* c.stored is that block */
  uint64_t lost;                /* blocks that nothing has */
  uint32_t lost_entry;          /* the file of the first one */
  fs_err err;                   /* ends all */
};

static bool fits(const struct fs_passes_block *b, const void *stored, size_t n) {
  return n == b->stored_len && fs_xxh3(stored, n) == b->xxh3;
}

bool fs_coder_read(struct fs_coder *c, int fd, const struct fs_passes_block *b) {
  return fd >= 0 && fs_pread_full(fd, c->stored, b->stored_len, b->offset) == 0 && fits(b, c->stored, b->stored_len);
}

fs_err fs_coder_open(struct fs_coder *c, struct fs_repair *r) {
  const size_t block = r->v->ds.ix.block_size;
  *c = (struct fs_coder){.r = r, .stored = malloc(block), .plain = malloc(block), .encoder = fs_encoder_new()};
  return c->stored != NULL && c->plain != NULL && c->encoder != NULL ? 0 : -ENOMEM;
}

void fs_coder_close(struct fs_coder *c) {
  fs_encoding_release(&c->encoding);
  fs_encoder_free(c->encoder);
  free(c->stored);
  free(c->plain);
}

/* Encodes the plain bytes at this level. Returns true if the result is the block. */
static bool encode_at(struct fs_coder *c, const struct fs_passes_block *b, int level) {
  const struct fs_codec_set *set = &c->r->v->ds.ix.codecs;
  const struct fs_codec_rec *row = &set->rows[b->codec];
  const void *dict = row->dict_len != 0 ? set->strings + row->dict : NULL;
  struct fs_encoding *e = &c->encoding;
  if (e->family != row->family || e->element != row->element || e->level != level || e->dict != dict) {
    fs_encoding_release(e);
    *e = (struct fs_encoding){row->family, row->element, level, row->dict_len, dict, NULL};
    if (fs_encoding_prepare(e) < 0) {
      *e = (struct fs_encoding){0};
      return false;
    }
  }
  fs_ssize n = fs_encode(c->encoder, e, c->plain, b->plain_len, c->stored, b->plain_len);
  return n > 0 && fits(b, c->stored, (size_t)n);
}

static bool is_coded(const struct fs_coder *c, const struct fs_passes_block *b) {
  return b->stored_len != b->plain_len && b->codec < c->r->v->ds.ix.codecs.n && b->codec < FS_CODEC_ROWS_MAX;
}

bool fs_coder_encode(struct fs_coder *c, const struct fs_passes_block *b, int level) {
  if (b->stored_len == b->plain_len) {
    memcpy(c->stored, c->plain, b->plain_len);
    return fits(b, c->stored, b->plain_len);
  }
  if (!is_coded(c, b)) return false;
  const bool zstd = c->r->v->ds.ix.codecs.rows[b->codec].family == FS_FAMILY_ZSTD;
  if (level < (zstd ? 1 : 0) || !encode_at(c, b, level)) return false; /* zstd's level 0 is another one's name */
  atomic_store(&c->r->level[b->codec], level + 1);
  return true;
}

int fs_coder_known(const struct fs_coder *c, const struct fs_passes_block *b) {
  return is_coded(c, b) ? atomic_load(&c->r->level[b->codec]) - 1 : -1;
}

int fs_coder_most(const struct fs_coder *c, const struct fs_passes_block *b) {
  const bool zstd = c->r->v->ds.ix.codecs.rows[b->codec].family == FS_FAMILY_ZSTD;
  return zstd ? FS_ZSTD_LEVEL_MAX : FS_LZ4_LEVEL_MAX;
}

bool fs_coder_search(struct fs_coder *c, const struct fs_passes_block *b) {
  for (int level = 0, most = fs_coder_most(c, b); level <= most; level++)
    if (fs_coder_encode(c, b, level)) return true;
  return false;
}

bool fs_coder_may_search(struct fs_coder *c, const struct fs_passes_block *b, uint32_t source) {
  if (!is_coded(c, b)) return false;
  const uint32_t n = atomic_fetch_add(&c->r->wanted[source].misses[b->codec], 1);
  return n < SEARCHES || (n & (n - 1)) == 0;
}

/* What learn needs and has found. */
struct learner {
  struct fs_coder c;
  void *work;                         /* for decoding */
  uint8_t samples[FS_CODEC_ROWS_MAX]; /* of each row: good blocks whose level was searched; SAMPLES: it is known */
  uint16_t bad[FS_CODEC_ROWS_MAX];    /* of each row: bad blocks that were read */
};

/* Reads and decodes a block of the dataset to c->plain. Returns true if it is good. */
static bool read_good(struct learner *l, const struct fs_passes_block *b) {
  struct fs_coder *c = &l->c;
  struct fs_dataset *ds = &c->r->v->ds;
  struct fs_codec_set *set = &ds->ix.codecs;
  const int fd = fs_dataset_part(ds, b->partition);
  const bool good = fs_coder_read(c, fd, b) && fs_block_decode_prefix(set, b->codec, c->stored, b->stored_len, c->plain,
                                                                      b->plain_len, b->plain_len, l->work) == 0;
  fs_dataset_part_done(ds, b->partition, fd);
  return good;
}

/* Finds the level of good blocks of a file, if its row needs more samples. */
static void learn_from(struct learner *l, uint32_t entry) {
  struct fs_coder *c = &l->c;
  const struct fs_index *ix = &c->r->v->ds.ix;
  const uint64_t n = fs_index_block_count(ix, &ix->entries[entry]);
  const uint32_t row = FS_NAME_CODEC(ix->entries[entry].name);
  struct fs_passes_block b;
  for (uint64_t i = 0; i < n && l->samples[row] < SAMPLES && l->bad[row] < TRIES; i++) {
    if (fs_passes_get(ix, entry, i, &b) < 0) return;
    if (!is_coded(c, &b)) continue;
    if (!read_good(l, &b)) {
      l->bad[row]++;
      continue;
    }
    l->samples[row]++;
    if (fs_coder_encode(c, &b, fs_coder_known(c, &b)) || fs_coder_search(c, &b)) l->samples[row] = SAMPLES;
  }
}

/* Finds the levels of good blocks, first of good files. The rows' other blocks mostly have the same. */
static fs_err learn(struct fs_repair *r) {
  const struct fs_verify *v = r->v;
  struct learner l = {.samples[FS_CODEC_RAW] = SAMPLES};
  FS_AUTO_FREE void *work = l.work = fs_dataset_work(&v->ds);
  fs_err err = fs_coder_open(&l.c, r);
  if (work == NULL) err = -ENOMEM;
  for (uint8_t state = FS_GOOD; state <= FS_DAMAGED && err == 0; state++)
    for (uint64_t i = 0; i < v->ds.ix.nentries; i++)
      if (atomic_load(&v->state[i]) == state) learn_from(&l, (uint32_t)i);
  fs_coder_close(&l.c);
  return err;
}

static fs_err put(struct mend *m, const void *data, size_t n) {
  if (fwrite(data, 1, n, m->out) != n) return errno != 0 ? -errno : -EIO;
  fs_xxh3_update(m->hash, data, n);
  m->at += n;
  return 0;
}

/* Writes what lies between blocks: zeros, but for the unused blocks of files that --keep-going left
   out, and of an earlier dataset. */
static fs_err put_gap(struct mend *m, uint64_t end) {
  const size_t step = m->v->ds.ix.block_size;
  while (m->at < end) {
    size_t n = (size_t)FS_MIN(end - m->at, (uint64_t)step);
    int from = m->copy >= 0 ? m->copy : m->c.r->gaps[m->number] ? m->damaged : -1;
    if (from < 0 || fs_pread_full(from, m->c.stored, n, m->at) < 0) memset(m->c.stored, 0, n);
    fs_err err = put(m, m->c.stored, n);
    if (err < 0) return err;
  }
  return 0;
}

static bool same_bytes(const struct fs_passes_block *a, const struct fs_passes_block *b) {
  return a->offset == b->offset && a->stored_len == b->stored_len && a->xxh3 == b->xxh3;
}

/* Writes m->block, if there is one. If nothing has it, zeros are written, and the rest shows what else
   is lost. */
static fs_err put_block(struct mend *m) {
  const struct fs_passes_block *b = &m->block;
  if (b->offset == 0) return 0;
  if (!m->found && m->lost++ == 0) m->lost_entry = b->entry;
  if (!m->found) memset(m->c.stored, 0, b->stored_len);
  if (b->offset < m->at) return 0; /* no blocks overlap; if they do, the partition's checksum decides */
  return put(m, m->c.stored, b->stored_len);
}

static void mend_block(void *state, const struct fs_passes_block *b) {
  struct mend *m = state;
  if (m->err < 0) return;
  if (!same_bytes(&m->block, b)) {
    m->err = put_block(m);
    if (m->err == 0) m->err = put_gap(m, b->offset);
    m->block = *b;
    m->found = fs_coder_read(&m->c, m->damaged, b) || (m->c.r->streams && fs_coder_read(&m->c, fileno(m->out), b)) ||
               fs_coder_read(&m->c, m->copy, b);
  }
  if (m->err == 0 && !m->found) m->found = fs_repair_from_source(&m->c, b);
}

/* Writes the header. */
static fs_err write_header(struct mend *m) {
  const struct fs_index *ix = &m->v->ds.ix;
  uint8_t page[FS_PART_HEADER_SIZE];
  m->hash = fs_xxh3_new();
  if (m->hash == NULL) return -ENOMEM;
  m->at = sizeof page;
  errno = 0;
  fs_part_header_make(page, m->number, &ix->parts[m->number], ix->hdr->dataset_id);
  return fwrite(page, 1, sizeof page, m->out) == sizeof page ? 0 : errno != 0 ? -errno : -EIO;
}

/* Writes the rest. Returns 0, -EBADMSG if it is not the partition that was packed, or an error of the
   file. */
static fs_err write_rest(struct mend *m) {
  const struct fs_part_rec *rec = &m->v->ds.ix.parts[m->number];
  fs_err err = put_block(m);
  if (err == 0) err = put_gap(m, rec->size);
  if (err < 0) return err;
  if (fflush(m->out) != 0) return -errno;
  return m->lost == 0 && fs_xxh3_digest(m->hash) == rec->xxh3 ? 0 : -EBADMSG;
}

fs_fd fs_repair_temp(const struct fs_repair *r, uint32_t number, char name[64]) {
  char part[FS_PART_NAME_SIZE];
  snprintf(name, 64, "%s.repair-%08" PRIx32, fs_part_name(number, part), r->tag);
  return fs_sys_openat(r->v->ds.dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
}

static fs_err open_temp(struct mend *m) {
  struct stat st;
  fs_fd fd = fs_repair_temp(m->c.r, m->number, m->temp);
  if (fd >= 0 && m->damaged >= 0 && fs_sys_fstat(m->damaged, &st) == 0) fchmod(fd, st.st_mode & 0777);
  m->out = fd >= 0 ? fdopen(fd, "r+") : NULL;
  if (m->out == NULL && fd >= 0) close(fd);
  if (m->out != NULL) setvbuf(m->out, NULL, _IOFBF, 1u << 20);
  return fd < 0 ? fd : m->out != NULL ? 0 : -ENOMEM;
}

/* Puts the new partition in the place of the damaged one. */
static fs_err replace(struct mend *m) {
  const struct fs_dataset *ds = &m->v->ds;
  char part[FS_PART_NAME_SIZE];
  if (fsync(fileno(m->out)) < 0) return -errno;
  if (renameat(ds->dir, m->temp, ds->dir, fs_part_name(m->number, part)) < 0) return -errno;
  m->temp[0] = '\0';
  return fsync(ds->dir) < 0 ? -errno : 0;
}

static void tell(const struct mend *m, fs_err err) {
  const struct fs_verify *v = m->v;
  char part[FS_PART_NAME_SIZE];
  fs_part_name(m->number, part);
  FS_AUTO_FREE char *path = m->lost != 0 ? fs_dataset_entry_path(&v->ds, m->lost_entry) : NULL;
  if (err == -EBADMSG && m->lost != 0)
    fs_say("%s/%s: not repaired: %s does not have %" PRIu64 " of its blocks, the first one of %s", v->ds.path, part,
           m->c.r->from, m->lost, path != NULL ? path : "?");
  else if (err == -EBADMSG)
    fs_say("%s/%s: not repaired: it has bytes of no file, which only a copy of the dataset has; "
           "pack --update%s packs its files again",
           v->ds.path, part, v->only_nodes ? "" : " --checksum");
  else if (err < 0)
    fs_say("%s/%s: not repaired: %s%s", v->ds.path, part, err != -ENOMEM ? "it cannot be written: " : "",
           strerror(-err));
  else if (!v->only_nodes)
    printf("repaired: %s\n", part);
}

static void *mend_begin(void *ctx, uint32_t number) {
  struct fs_repair *r = ctx;
  struct fs_verify *v = r->v;
  struct mend *m = malloc(sizeof *m);
  if (m == NULL) {
    tell(&(struct mend){.v = v, .number = number}, -ENOMEM);
    return NULL;
  }
  *m = (struct mend){.v = v, .number = number, .copy = -1};
  m->err = fs_coder_open(&m->c, r);
  m->damaged = fs_dataset_part(&v->ds, number);
  if (r->copy_path != NULL) m->copy = fs_dataset_part(&r->copy, number);
  if (m->err == 0) m->err = open_temp(m);
  if (m->err == 0) m->err = write_header(m);
  return m;
}

static void mend_end(void *state) {
  struct mend *m = state;
  struct fs_verify *v = m->v;
  struct fs_repair *r = m->c.r;
  if (m->err == 0) m->err = write_rest(m);
  const bool again = m->err == -EBADMSG && m->lost == 0 && m->copy < 0 && m->damaged >= 0 && r->gaps[m->number] == 0;
  r->gaps[m->number] = again;
  if (m->err == 0) m->err = replace(m);
  if (!again) tell(m, m->err);
  if (m->err == 0) v->part[m->number] = FS_GOOD;
  if (m->out != NULL) fclose(m->out);
  if (m->temp[0] != '\0' && !again) unlinkat(v->ds.dir, m->temp, 0);
  fs_dataset_part_done(&v->ds, m->number, m->damaged);
  fs_dataset_part_forget(&v->ds, m->number);
  if (r->copy_path != NULL) fs_dataset_part_done(&r->copy, m->number, m->copy);
  if (!again) v->progress.now.bytes += v->ds.ix.parts[m->number].size;
  fs_coder_close(&m->c);
  fs_xxh3_free(m->hash);
  free(m);
}

/* Makes the damaged partitions, and once more those that have other bytes than zeros in their gaps. */
static fs_err mend(struct fs_repair *r) {
  static const struct fs_passes_calls calls = {mend_begin, mend_block, mend_end};
  const struct fs_verify *v = r->v;
  const uint64_t nparts = v->ds.ix.nparts;
  bool again = false;
  FS_AUTO_FREE uint8_t *only = malloc(nparts);
  r->gaps = calloc(nparts, 1);
  if (only == NULL || r->gaps == NULL) return -ENOMEM;
  for (uint64_t p = 0; p < nparts; p++) only[p] = v->part[p] == FS_DAMAGED;
  fs_err err = fs_passes(&v->ds.ix, only, v->jobs, &calls, r);
  for (uint64_t p = 0; p < nparts; p++) again |= only[p] = r->gaps[p];
  return err < 0 || !again ? err : fs_passes(&v->ds.ix, only, v->jobs, &calls, r);
}

/* Removes what killed repairs have left. */
static void remove_left(const struct fs_dataset *ds) {
  int fd = fs_sys_openat(ds->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
  if (dir == NULL) return;
  for (struct dirent *d; (d = readdir(dir)) != NULL;) {
    const char *end = strstr(d->d_name, ".repair-");
    if (strncmp(d->d_name, "part-", 5) == 0 && end != NULL && strlen(end) == 16) unlinkat(ds->dir, d->d_name, 0);
  }
  closedir(dir);
}

/* Says what is wrong with the archives, if something is still missing. */
static void say_problems(struct fs_repair *r) {
  bool lost = false;
  for (uint64_t i = 0; i < r->v->ds.ix.nparts; i++) lost |= r->v->part[i] == FS_DAMAGED;
  for (uint32_t i = 0; i < r->tree.nsources && lost; i++)
    fs_problems_say(&r->wanted[i].problems, r->tree.sources[i].path);
}

fs_err fs_repair(struct fs_repair *r) {
  struct fs_verify *v = r->v;
  uint64_t bytes = 0;
  if (getrandom(&r->tag, sizeof r->tag, 0) != sizeof r->tag) return -EIO;
  for (uint64_t i = 0; i < v->ds.ix.nparts; i++) bytes += v->part[i] == FS_DAMAGED ? v->ds.ix.parts[i].size : 0;
  for (uint32_t i = 0; i < r->tree.nsources; i++)
    bytes += r->tree.sources[i].kind == FS_SOURCE_STREAM ? (uint64_t)r->tree.sources[i].st.st_size : 0;
  fs_progress_stage(&v->progress, FS_STAGE_REPAIR, 0, bytes);
  remove_left(&v->ds);
  fs_err err = r->tree.nsources != 0 ? learn(r) : 0;
  if (err == 0) err = fs_repair_read_archives(r);
  if (err == 0) err = mend(r);
  if (err == 0) say_problems(r);
  if (err < 0) remove_left(&v->ds);
  if (err < 0) fs_say("%s: %s", v->ds.path, strerror(-err));
  return err;
}
