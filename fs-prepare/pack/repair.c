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

/* A partition that a thread makes. */
struct mend {
  struct fs_coder c;
  struct fs_verify *v;
  uint32_t number;
  int damaged, copy; /* descriptors, or negative */
  FILE *out;
  char temp[64];
  uint64_t at;
  struct fs_xxh3_stream *hash;
  uint64_t lost;       /* blocks that nothing has */
  uint32_t lost_entry; /* the file of the first one */
  bool gaps;           /* gaps are as in the damaged partition, not zeros */
};

static bool fits(const struct fs_vblock *b, const void *stored, size_t n) {
  return n == b->stored_len && fs_xxh3(stored, n) == b->xxh3;
}

static bool read_stored(struct mend *m, int fd, const struct fs_vblock *b) {
  return fd >= 0 && fs_pread_full(fd, m->c.stored, b->stored_len, b->offset) == 0 &&
         fits(b, m->c.stored, b->stored_len);
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
static bool encode_at(struct fs_coder *c, const struct fs_vblock *b, int level) {
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

static bool is_coded(const struct fs_coder *c, const struct fs_vblock *b) {
  return b->stored_len != b->plain_len && b->codec < c->r->v->ds.ix.codecs.n && b->codec < FS_CODEC_ROWS_MAX;
}

bool fs_coder_encode(struct fs_coder *c, const struct fs_vblock *b, int level) {
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

int fs_coder_known(const struct fs_coder *c, const struct fs_vblock *b) {
  return is_coded(c, b) ? atomic_load(&c->r->level[b->codec]) - 1 : -1;
}

int fs_coder_most(const struct fs_coder *c, const struct fs_vblock *b) {
  const bool zstd = c->r->v->ds.ix.codecs.rows[b->codec].family == FS_FAMILY_ZSTD;
  return zstd ? FS_ZSTD_LEVEL_MAX : FS_LZ4_LEVEL_MAX;
}

bool fs_coder_search(struct fs_coder *c, const struct fs_vblock *b) {
  for (int level = 0, most = fs_coder_most(c, b); level <= most; level++)
    if (fs_coder_encode(c, b, level)) return true;
  return false;
}

bool fs_coder_may_search(struct fs_coder *c, const struct fs_vblock *b, uint32_t source) {
  if (!is_coded(c, b)) return false;
  const uint32_t n = atomic_fetch_add(&c->r->wanted[source].misses[b->codec], 1);
  return n < SEARCHES || (n & (n - 1)) == 0;
}

/* Reads and decodes a good block of the dataset to c->plain. */
static bool read_good(struct fs_coder *c, uint32_t part, const struct fs_vblock *b, void *work) {
  struct fs_dataset *ds = &c->r->v->ds;
  struct fs_codec_set *set = &ds->ix.codecs;
  const int fd = fs_dataset_part(ds, part);
  const bool good =
      fd >= 0 && fs_pread_full(fd, c->stored, b->stored_len, b->offset) == 0 && fits(b, c->stored, b->stored_len) &&
      fs_block_decode_prefix(set, b->codec, c->stored, b->stored_len, c->plain, b->plain_len, b->plain_len, work) == 0;
  fs_dataset_part_done(ds, part, fd);
  return good;
}

/* Finds the levels of good blocks. The rows' other blocks mostly have the same. */
static fs_err learn(struct fs_repair *r) {
  const struct fs_verify *v = r->v;
  uint8_t samples[FS_CODEC_ROWS_MAX] = {0};
  struct fs_coder c;
  FS_AUTO_FREE void *work = fs_dataset_work(&v->ds);
  fs_err err = fs_coder_open(&c, r);
  if (work == NULL) err = -ENOMEM;
  for (uint32_t p = 0; p < v->ds.ix.nparts && err == 0; p++) {
    for (uint64_t i = v->first[p]; i < v->first[p + 1]; i++) {
      const struct fs_vblock *b = &v->blocks[i];
      if (!is_coded(&c, b) || atomic_load(&b->bad) || samples[b->codec] == SAMPLES) continue;
      samples[b->codec]++;
      if (read_good(&c, p, b, work) && (fs_coder_encode(&c, b, fs_coder_known(&c, b)) || fs_coder_search(&c, b)))
        samples[b->codec] = SAMPLES;
    }
  }
  fs_coder_close(&c);
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
    int from = m->copy >= 0 ? m->copy : m->gaps ? m->damaged : -1;
    if (from < 0 || fs_pread_full(from, m->c.stored, n, m->at) < 0) memset(m->c.stored, 0, n);
    fs_err err = put(m, m->c.stored, n);
    if (err < 0) return err;
  }
  return 0;
}

static bool same_bytes(const struct fs_vblock *a, const struct fs_vblock *b) {
  return a->offset == b->offset && a->stored_len == b->stored_len && a->xxh3 == b->xxh3;
}

/* Writes the block v->blocks[i], and moves i to the next one. If nothing has the block, zeros are
   written, and the rest shows what else is lost. */
static fs_err put_block(struct mend *m, uint64_t *i, uint64_t end) {
  const struct fs_vblock *blocks = m->v->blocks, *b = &blocks[*i];
  uint64_t same = *i + 1;
  while (same < end && same_bytes(b, &blocks[same])) same++;
  fs_err err = put_gap(m, b->offset);
  if (err < 0) return err;
  bool found = read_stored(m, m->damaged, b) || (m->c.r->streams && read_stored(m, fileno(m->out), b)) ||
               read_stored(m, m->copy, b);
  for (; *i < same; ++*i) found = found || fs_repair_from_source(&m->c, &blocks[*i]);
  if (!found && m->lost++ == 0) m->lost_entry = b->entry;
  if (!found) memset(m->c.stored, 0, b->stored_len);
  if (b->offset < m->at) return 0; /* no blocks overlap; if they do, the partition's checksum decides */
  return put(m, m->c.stored, b->stored_len);
}

/* Writes the partition. Returns 0, -EBADMSG if it is not the one that was packed, or an error of the
   file. */
static fs_err write_part(struct mend *m) {
  const struct fs_verify *v = m->v;
  const struct fs_part_rec *rec = &v->ds.ix.parts[m->number];
  uint8_t page[FS_PART_HEADER_SIZE];
  rewind(m->out);
  m->at = sizeof page;
  m->lost = 0;
  fs_xxh3_free(m->hash);
  m->hash = fs_xxh3_new();
  if (m->hash == NULL) return -ENOMEM;
  errno = 0;
  fs_part_header_make(page, m->number, rec, v->ds.ix.hdr->dataset_id);
  if (fwrite(page, 1, sizeof page, m->out) != sizeof page) return errno != 0 ? -errno : -EIO;
  fs_err err = 0;
  for (uint64_t i = v->first[m->number], end = v->first[m->number + 1]; i < end && err == 0;)
    err = put_block(m, &i, end);
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

static fs_err mend(struct mend *m) {
  fs_err err = fs_coder_open(&m->c, m->c.r);
  if (err == 0) err = open_temp(m);
  if (err == 0) err = write_part(m);
  if (err == -EBADMSG && m->lost == 0 && m->copy < 0 && m->damaged >= 0) {
    m->gaps = true;
    err = write_part(m);
  }
  return err == 0 ? replace(m) : err;
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
    fs_say("%s/%s: not repaired: it has bytes of no file, which only a copy of the dataset has", v->ds.path, part);
  else if (err < 0)
    fs_say("%s/%s: not repaired: %s%s", v->ds.path, part, err != -ENOMEM ? "it cannot be written: " : "",
           strerror(-err));
  else
    printf("repaired: %s\n", part);
}

static void mend_part(void *ctx, uint64_t number) {
  struct fs_repair *r = ctx;
  struct fs_verify *v = r->v;
  struct mend m = {.c.r = r, .v = v, .number = (uint32_t)number, .copy = -1};
  if (v->part[number] != FS_DAMAGED) return;
  m.damaged = fs_dataset_part(&v->ds, m.number);
  if (r->copy_path != NULL) m.copy = fs_dataset_part(&r->copy, m.number);
  fs_err err = mend(&m);
  tell(&m, err);
  if (err == 0) v->part[number] = FS_GOOD;
  if (m.out != NULL) fclose(m.out);
  if (m.temp[0] != '\0') unlinkat(v->ds.dir, m.temp, 0);
  fs_dataset_part_done(&v->ds, m.number, m.damaged);
  fs_dataset_part_forget(&v->ds, m.number);
  if (r->copy_path != NULL) fs_dataset_part_done(&r->copy, m.number, m.copy);
  v->progress.now.bytes += v->ds.ix.parts[number].size;
  fs_coder_close(&m.c);
  fs_xxh3_free(m.hash);
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
  if (err == 0) fs_prep_parallel(v->jobs, v->ds.ix.nparts, mend_part, r);
  if (err == 0) say_problems(r);
  if (err < 0) remove_left(&v->ds);
  if (err < 0) fs_say("%s: %s", v->ds.path, strerror(-err));
  return err;
}
