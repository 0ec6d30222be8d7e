/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-prepare verify --repair-from: makes a damaged partition again. A block is taken from the first of
 * these that has it: the damaged partition, the same place in a copy of the dataset, the file that it
 * was packed from. A file's bytes are encoded again by the block's row. The row does not tell the
 * level, so levels are tried. Each block must have its checksum, and the whole partition its own. A
 * partition is written beside the damaged one and renamed, so jobs that read the old file go on.
 * Threads take partitions.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "codec/encode.h"
#include "verify.h"

#define SEARCHES 64u /* blocks for which all levels are tried, although none fits */

struct repair {
  struct fs_verify *v;
  struct fs_dataset copy;
  bool has_copy;
  int source; /* directory, or -1 */
  /* For each row: the last level that fitted + 1, and the searches that found none. */
  _Atomic int level[FS_CODEC_ROWS_MAX];
  _Atomic uint32_t misses[FS_CODEC_ROWS_MAX];
};

/* A partition that a thread makes. */
struct mend {
  struct repair *r;
  uint32_t number;
  int damaged, copy; /* descriptors, or negative */
  FILE *out;
  char temp[64];
  uint64_t at;
  struct fs_xxh3_stream *hash;
  uint8_t *stored, *plain;
  struct fs_encoder *encoder;
  struct fs_encoding encoding; /* the one used last, with its dictionary prepared */
  uint64_t lost;               /* blocks that nothing has */
  uint32_t lost_entry;         /* the file of the first one */
  bool gaps;                   /* gaps are as in the damaged partition, not zeros */
};

static bool fits(const struct fs_vblock *b, const void *stored, size_t n) {
  return n == b->stored_len && fs_xxh3(stored, n) == b->xxh3;
}

static bool read_stored(struct mend *m, int fd, const struct fs_vblock *b) {
  return fd >= 0 && fs_pread_full(fd, m->stored, b->stored_len, b->offset) == 0 && fits(b, m->stored, b->stored_len);
}

/* Encodes the plain bytes at this level. Returns true if the result is the block. */
static bool encode_at(struct mend *m, const struct fs_vblock *b, int level) {
  const struct fs_codec_set *set = &m->r->v->ds.ix.codecs;
  const struct fs_codec_rec *row = &set->rows[b->codec];
  const void *dict = row->dict_len != 0 ? set->strings + row->dict : NULL;
  struct fs_encoding *e = &m->encoding;
  if (e->family != row->family || e->element != row->element || e->level != level || e->dict != dict) {
    fs_encoding_release(e);
    *e = (struct fs_encoding){row->family, row->element, level, row->dict_len, dict, NULL};
    if (fs_encoding_prepare(e) < 0) {
      *e = (struct fs_encoding){0};
      return false;
    }
  }
  fs_ssize n = fs_encode(m->encoder, e, m->plain, b->plain_len, m->stored, b->plain_len);
  return n > 0 && fits(b, m->stored, (size_t)n);
}

static bool encode(struct mend *m, const struct fs_vblock *b) {
  struct repair *r = m->r;
  const struct fs_codec_set *set = &r->v->ds.ix.codecs;
  if (b->stored_len == b->plain_len) {
    memcpy(m->stored, m->plain, b->plain_len);
    return fits(b, m->stored, b->plain_len);
  }
  if (b->codec >= set->n || b->codec >= FS_CODEC_ROWS_MAX) return false;
  int known = atomic_load(&r->level[b->codec]) - 1;
  if (known >= 0 && encode_at(m, b, known)) return true;
  if (atomic_load(&r->misses[b->codec]) >= SEARCHES) return false;
  const bool zstd = set->rows[b->codec].family == FS_FAMILY_ZSTD;
  const int most = zstd ? FS_ZSTD_LEVEL_MAX : FS_LZ4_LEVEL_MAX;
  for (int level = zstd ? 1 : 0; level <= most; level++) {
    if (level == known || !encode_at(m, b, level)) continue;
    atomic_store(&r->level[b->codec], level + 1);
    return true;
  }
  atomic_fetch_add(&r->misses[b->codec], 1);
  return false;
}

static bool read_source(struct mend *m, const struct fs_vblock *b) {
  struct repair *r = m->r;
  struct stat st;
  if (r->source < 0) return false;
  FS_AUTO_FREE char *path = fs_dataset_entry_path(&r->v->ds, b->entry);
  if (path == NULL) return false;
  FS_AUTO_CLOSE int fd = fs_sys_openat(r->source, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
  if (fd < 0 || fs_sys_fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) return false;
  return fs_pread_full(fd, m->plain, b->plain_len, b->index * r->v->ds.ix.block_size) == 0 && encode(m, b);
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
  const size_t step = m->r->v->ds.ix.block_size;
  while (m->at < end) {
    size_t n = (size_t)FS_MIN(end - m->at, (uint64_t)step);
    int from = m->copy >= 0 ? m->copy : m->gaps ? m->damaged : -1;
    if (from < 0 || fs_pread_full(from, m->stored, n, m->at) < 0) memset(m->stored, 0, n);
    fs_err err = put(m, m->stored, n);
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
  const struct fs_vblock *blocks = m->r->v->blocks, *b = &blocks[*i];
  uint64_t same = *i + 1;
  while (same < end && same_bytes(b, &blocks[same])) same++;
  fs_err err = put_gap(m, b->offset);
  if (err < 0) return err;
  bool found = read_stored(m, m->damaged, b) || read_stored(m, m->copy, b);
  for (; *i < same; ++*i) found = found || read_source(m, &blocks[*i]);
  if (!found && m->lost++ == 0) m->lost_entry = b->entry;
  if (!found) memset(m->stored, 0, b->stored_len);
  if (b->offset < m->at) return 0; /* no blocks overlap; if they do, the partition's checksum decides */
  return put(m, m->stored, b->stored_len);
}

/* Writes the partition. Returns 0, -EBADMSG if it is not the one that was packed, or an error of the
   file. */
static fs_err write_part(struct mend *m) {
  const struct fs_verify *v = m->r->v;
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

static fs_err open_temp(struct mend *m) {
  const struct fs_dataset *ds = &m->r->v->ds;
  char part[FS_PART_NAME_SIZE];
  uint32_t random;
  struct stat st;
  if (getrandom(&random, sizeof random, 0) != sizeof random) return -EIO;
  snprintf(m->temp, sizeof m->temp, "%s.repair-%08" PRIx32, fs_part_name(m->number, part), random);
  fs_fd fd = fs_sys_openat(ds->dir, m->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd >= 0 && m->damaged >= 0 && fs_sys_fstat(m->damaged, &st) == 0) fchmod(fd, st.st_mode & 0777);
  m->out = fd >= 0 ? fdopen(fd, "r+") : NULL;
  if (m->out == NULL && fd >= 0) close(fd);
  if (m->out != NULL) setvbuf(m->out, NULL, _IOFBF, 1u << 20);
  return fd < 0 ? fd : m->out != NULL ? 0 : -ENOMEM;
}

/* Puts the new partition in the place of the damaged one. */
static fs_err replace(struct mend *m) {
  const struct fs_dataset *ds = &m->r->v->ds;
  char part[FS_PART_NAME_SIZE];
  if (fsync(fileno(m->out)) < 0) return -errno;
  if (renameat(ds->dir, m->temp, ds->dir, fs_part_name(m->number, part)) < 0) return -errno;
  m->temp[0] = '\0';
  return fsync(ds->dir) < 0 ? -errno : 0;
}

static fs_err mend(struct mend *m) {
  const size_t block = m->r->v->ds.ix.block_size;
  m->stored = malloc(block);
  m->plain = malloc(block);
  m->encoder = fs_encoder_new();
  if (m->stored == NULL || m->plain == NULL || m->encoder == NULL) return -ENOMEM;
  fs_err err = open_temp(m);
  if (err == 0) err = write_part(m);
  if (err == -EBADMSG && m->lost == 0 && m->copy < 0 && m->damaged >= 0) {
    m->gaps = true;
    err = write_part(m);
  }
  return err == 0 ? replace(m) : err;
}

static void tell(const struct mend *m, fs_err err) {
  const struct fs_verify *v = m->r->v;
  char part[FS_PART_NAME_SIZE];
  fs_part_name(m->number, part);
  FS_AUTO_FREE char *path = m->lost != 0 ? fs_dataset_entry_path(&v->ds, m->lost_entry) : NULL;
  if (err == -EBADMSG && m->lost != 0)
    fs_say("%s/%s: not repaired: %s does not have %" PRIu64 " of its blocks, the first one of %s", v->ds.path, part,
           v->repair_from, m->lost, path != NULL ? path : "?");
  else if (err == -EBADMSG)
    fs_say("%s/%s: not repaired: it has bytes of no file, which only a copy of the dataset has", v->ds.path, part);
  else if (err < 0)
    fs_say("%s/%s: not repaired: %s%s", v->ds.path, part, err != -ENOMEM ? "it cannot be written: " : "",
           strerror(-err));
  else
    printf("repaired: %s\n", part);
}

static void mend_part(void *ctx, uint64_t number) {
  struct repair *r = ctx;
  struct fs_verify *v = r->v;
  struct mend m = {.r = r, .number = (uint32_t)number, .copy = -1};
  if (v->part[number] != FS_DAMAGED) return;
  m.damaged = fs_dataset_part(&v->ds, m.number);
  if (r->has_copy) m.copy = fs_dataset_part(&r->copy, m.number);
  fs_err err = mend(&m);
  tell(&m, err);
  if (err == 0) v->part[number] = FS_GOOD;
  if (m.out != NULL) fclose(m.out);
  if (m.temp[0] != '\0') unlinkat(v->ds.dir, m.temp, 0);
  fs_dataset_part_done(&v->ds, m.number, m.damaged);
  fs_dataset_part_forget(&v->ds, m.number);
  if (r->has_copy) fs_dataset_part_done(&r->copy, m.number, m.copy);
  v->progress.now.bytes += v->ds.ix.parts[number].size;
  fs_encoding_release(&m.encoding);
  fs_encoder_free(m.encoder);
  fs_xxh3_free(m.hash);
  free(m.stored);
  free(m.plain);
}

/* Opens a copy of the dataset, or the directory that it was packed from. */
static fs_err open_from(struct repair *r) {
  const struct fs_dataset *ds = &r->v->ds;
  const char *from = r->v->repair_from;
  r->source = fs_sys_openat(AT_FDCWD, from, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (r->source < 0) {
    if (r->source == -ENOTDIR)
      fs_say("--repair-from '%s': is no directory; extract an archive, and give the directory", from);
    else
      fs_say("--repair-from '%s': cannot be opened: %s", from, strerror(-r->source));
    return r->source;
  }
  if (faccessat(r->source, "manifest", F_OK, 0) < 0 || faccessat(r->source, "index", F_OK, 0) < 0) return 0;
  fs_err err = fs_dataset_open(&r->copy, from);
  if (err < 0) return err;
  r->has_copy = true;
  if (memcmp(r->copy.manifest.dataset_id, ds->manifest.dataset_id, sizeof ds->manifest.dataset_id) == 0 &&
      r->copy.ix.nparts == ds->ix.nparts)
    return 0;
  fs_say("--repair-from '%s': is another dataset; give a copy of %s, or what it was packed from", from, ds->path);
  return -EINVAL;
}

static void close_from(struct repair *r) {
  if (r->has_copy) fs_dataset_close(&r->copy);
  if (r->source >= 0) close(r->source);
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

fs_err fs_repair(struct fs_verify *v) {
  struct repair r = {.v = v, .source = -1};
  uint64_t bytes = 0;
  fs_err err = open_from(&r);
  for (uint64_t i = 0; i < v->ds.ix.nparts; i++) bytes += v->part[i] == FS_DAMAGED ? v->ds.ix.parts[i].size : 0;
  fs_progress_stage(&v->progress, FS_STAGE_REPAIR, 0, bytes);
  if (err == 0) remove_left(&v->ds);
  if (err == 0) fs_prep_parallel(v->jobs, v->ds.ix.nparts, mend_part, &r);
  close_from(&r);
  return err;
}

fs_err fs_repair_check(struct fs_verify *v) {
  struct repair r = {.v = v, .source = -1};
  fs_err err = open_from(&r);
  close_from(&r);
  return err;
}
