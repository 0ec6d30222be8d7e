/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first pass over an archive: reads all headers, and makes an item of each member. As with tar,
 * a later member of the same name replaces an earlier one, and a hard link belongs to the member
 * that had its target's name at that time. fs-prepare has the locale "C", so that libarchive gives
 * the bytes of a name as they are. One thread for each archive.
 *
 * The item's `ino` is the place of its bytes in a FLAT archive, and the number of the member in a
 * STREAM. Its `dev` is above all device numbers.
 */
#include "archive.h"

#include <stdlib.h>
#include <string.h>

#include "kinds.h"

#define BEGINS_BYTES (16u << 20) /* beginnings of members that are kept, of all archives */
#define BEGINS_SOURCES 256u      /* archives of which they are kept */
/* The first pass reads the bytes of compressed tar files, but neither holes nor zip files. A file with holes
   may be as large as in ext4. No compression makes more of a byte than bzip2, from zeros: 1.2 million. */
#define MOST_HOLES (16ull << 40)
#define MOST_RATIO (2u << 20)
#define ZIP_HEADER_MOST 16384u /* of one member; its name has at most 4095 bytes */

/* A hard link's `target` is the name of its target until it is resolved. */
struct member {
  struct fs_item item;
  uint32_t seq; /* its place in the archive */
  bool link;    /* hard link */
  bool leading; /* its name began with '/' */
};

struct pass {
  const struct fs_pack_options *o;
  struct fs_source *src;
  uint32_t number;
  struct fs_scan *scan;
  struct fs_reader r;
  struct member *members;
  size_t n, room;
  uint32_t seq;
  uint64_t expected; /* FLAT: where the next header is; 0: anywhere */
  bool lost;         /* the last header was damaged */
  uint64_t lost_at;
  uint64_t holes; /* bytes of the files that must have holes */
};

static bool stopped(const struct pass *p) {
  return fs_prep_signal != 0 || atomic_load_explicit(&p->scan->stop, memory_order_relaxed);
}

static fs_err problem(struct pass *p, const char *name, const char *what) {
  return fs_problems_add(&p->scan->problems, name, what);
}

/*
 * Writes a member's name as a path of the dataset: without a leading '/', without "." and empty
 * components, behind the prefix. Returns 0, or -EINVAL with *what.
 */
static fs_err clean_name(const struct fs_source *src, const char *name, char out[PATH_MAX], const char **what) {
  size_t n = strlen(src->prefix);
  memcpy(out, src->prefix, n);
  *what = "has a path of more than 4095 bytes";
  for (size_t len; *name != '\0'; name += len) {
    name += strspn(name, "/");
    len = strcspn(name, "/");
    if (len == 0 || (len == 1 && name[0] == '.')) continue;
    if (len == 2 && name[0] == '.' && name[1] == '.') *what = "leads out of the archive by '..'";
    if (len > FS_NAME_MAX) *what = "has a name of more than 255 bytes";
    if ((len == 2 && name[0] == '.' && name[1] == '.') || len > FS_NAME_MAX || n + len + 2 > PATH_MAX) return -EINVAL;
    if (n != 0) out[n++] = '/';
    memcpy(out + n, name, len);
    n += len;
  }
  out[n] = '\0';
  return 0;
}

static const char *why_type(mode_t type) {
  switch (type) {
  case AE_IFREG:
  case AE_IFDIR:
  case AE_IFLNK:
    return NULL;
  case AE_IFCHR:
  case AE_IFBLK:
    return "is a device";
  case AE_IFIFO:
    return "is a fifo";
  case AE_IFSOCK:
    return "is a socket";
  default:
    return "is of an unknown type";
  }
}

/* Returns what is wrong with a file's size or data, or NULL. */
static const char *why_data(struct pass *p, struct archive_entry *e) {
  const uint64_t archive = (uint64_t)p->src->st.st_size;
  const int64_t size = archive_entry_size(e);
  if (archive_entry_is_encrypted(e)) return "is encrypted";
  if (!archive_entry_size_is_set(e) || size < 0) return "has no size in its header";
  const bool holes = (uint64_t)size / MOST_RATIO > archive;
  if (holes && p->src->tar) p->holes += FS_MIN((uint64_t)size, MOST_HOLES + 1 - p->holes);
  if (holes && (!p->src->tar || p->holes > MOST_HOLES))
    return "claims to have more bytes than an archive of this size can hold";
  if (p->src->kind != FS_SOURCE_FLAT) return NULL;
  const uint64_t begin = fs_reader_at(&p->r);
  return begin > archive || (uint64_t)size > archive - begin ? "is cut off by the end of the archive" : NULL;
}

static const char *why_link(const char *target) {
  if (target == NULL || target[0] == '\0') return "is a link to nothing";
  return strlen(target) >= PATH_MAX ? "is a link to a path of more than 4095 bytes" : NULL;
}

/* Copies a text that stays as long as the items. */
static char *copy(struct pass *p, const char *text) {
  return fs_arena_text(&p->scan->text, text, strlen(text));
}

static fs_err add_member(struct pass *p, struct archive_entry *e, const char *name, const char *path) {
  const char *link = archive_entry_hardlink(e);
  const mode_t type = link != NULL ? S_IFREG : archive_entry_filetype(e);
  const bool file = link == NULL && type == AE_IFREG;
  const int64_t nsec = archive_entry_mtime_nsec(e);
  const char *target = link != NULL ? link : type == AE_IFLNK ? archive_entry_symlink(e) : NULL;
  struct member m = {.seq = p->seq, .leading = name[0] == '/', .link = link != NULL};
  m.item = (struct fs_item){
      .path = copy(p, path),
      .target = target != NULL ? copy(p, target) : NULL,
      .size = file ? (uint64_t)archive_entry_size(e) : 0,
      .dev = FS_ARCHIVE_DEVICE(p->number),
      .ino = p->src->kind == FS_SOURCE_FLAT ? fs_reader_at(&p->r) : p->seq,
      .mtime_sec = archive_entry_mtime(e),
      .mtime_nsec = nsec >= 0 && nsec < 1000000000 ? (uint32_t)nsec : 0,
      .mode = (uint16_t)(type | (archive_entry_perm(e) & 07777)),
      .depth = fs_path_depth(path) & FS_DEPTH_MASK,
      .replicate = fs_globs_match_above(&p->o->replicate, path),
      .source = p->number,
  };
  bool full = m.item.path == NULL || (target != NULL && m.item.target == NULL);
  fs_err err = full ? -ENOMEM : fs_grow(&p->members, &p->room, p->n, sizeof *p->members);
  if (err == 0) p->members[p->n++] = m;
  if (p->scan->progress != NULL) atomic_fetch_add_explicit(&p->scan->progress->now.names, 1, memory_order_relaxed);
  return err;
}

static size_t le16(const uint8_t *p) {
  return (size_t)(p[0] | p[1] << 8);
}

/* Returns the name of a zip file's member as it is in the file, from malloc, or NULL. libarchive cannot
   convert a name that is marked as UTF-8 to the locale "C". The header of 30 bytes, the name and the
   extra fields end where the data begins. */
static char *zip_name(const struct pass *p) {
  uint8_t head[ZIP_HEADER_MOST];
  const uint64_t end = fs_reader_at(&p->r);
  const size_t n = (size_t)FS_MIN(end, (uint64_t)sizeof head);
  const bool zip = (archive_format(p->r.a) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_ZIP;
  if (!zip || archive_filter_count(p->r.a) != 1 || fs_pread_full(p->src->fd, head, n, end - n) < 0) return NULL;
  for (size_t len = 30; len <= n; len++) {
    const uint8_t *h = head + n - len;
    if (memcmp(h, "PK\3\4", 4) == 0 && 30 + le16(h + 26) + le16(h + 28) == len)
      return strndup((const char *)h + 30, le16(h + 26));
  }
  return NULL;
}

/* Adds a member, or a problem. */
static fs_err visit(struct pass *p, struct archive_entry *e) {
  char path[PATH_MAX];
  const char *name = archive_entry_pathname(e), *what = NULL;
  const char *link = archive_entry_hardlink(e);
  FS_AUTO_FREE char *raw = name == NULL ? zip_name(p) : NULL;
  if (name == NULL) name = raw;
  if (name == NULL) return problem(p, "", "has a member whose name cannot be read");
  if (clean_name(p->src, name, path, &what) < 0) return problem(p, name, what);
  what = link != NULL ? NULL : why_type(archive_entry_filetype(e));
  if (what == NULL && link == NULL && archive_entry_filetype(e) == AE_IFREG) what = why_data(p, e);
  if (what == NULL && archive_entry_filetype(e) == AE_IFLNK && link == NULL) what = why_link(archive_entry_symlink(e));
  if (what == NULL && strlen(path) + 1 == p->src->skip + (p->src->skip == 0) &&
      (link != NULL || archive_entry_filetype(e) != AE_IFDIR))
    what = "has the name of the whole tree, and is no directory";
  return what != NULL ? problem(p, name, what) : add_member(p, e, name, path);
}

/* Makes room for the beginning of the last member, if it is to be kept. Returns 0 or -ENOMEM. */
static fs_err keep_begin(struct pass *p, size_t before, struct fs_begin **begin) {
  *begin = NULL;
  if (p->n == before || p->src->kind != FS_SOURCE_STREAM || p->src->begins.most == 0) return 0;
  const uint64_t size = p->members[p->n - 1].item.size; /* 0 of what is no file */
  return fs_begins_add(&p->src->begins, p->seq, (size_t)FS_MIN(size, (uint64_t)FS_SAMPLE_PIECE), begin);
}

/* Passes over a member's data, and copies its beginning, if `begin` is not NULL. A FLAT archive is not
   read for this. */
static int skip_data(struct pass *p, struct fs_begin *begin) {
  const void *data;
  size_t n;
  la_int64_t at;
  if (p->src->kind == FS_SOURCE_FLAT || p->src->filter == ARCHIVE_FILTER_NONE) {
    if (begin != NULL && archive_read_data(p->r.a, begin->bytes, begin->n) < 0) return ARCHIVE_RETRY;
    return archive_read_data_skip(p->r.a);
  }
  for (;;) {
    if (stopped(p)) return ARCHIVE_EOF;
    int got = archive_read_data_block(p->r.a, &data, &n, &at);
    if (got != ARCHIVE_OK && got != ARCHIVE_WARN) return got;
    if (begin != NULL && at >= 0 && (uint64_t)at < begin->n)
      memcpy(begin->bytes + at, data, FS_MIN(n, begin->n - (size_t)at));
  }
}

/* Takes back the last member, whose data is damaged. */
static fs_err refuse_last(struct pass *p, size_t before) {
  FS_AUTO_FREE char *what = NULL;
  if (asprintf(&what, "is damaged (%s), and nothing after it can be read", fs_archive_why(p->r.a)) < 0) return -ENOMEM;
  if (p->n == before) return problem(p, "", what);
  struct member *m = &p->members[--p->n];
  return problem(p, m->item.path + p->src->skip, what);
}

/* Returns true if the bytes of each member so far lie in the archive as they are. Those of a sparse
   file do not. */
static bool is_flat(struct pass *p, struct archive_entry *e) {
  const uint64_t at = p->r.header;
  const uint64_t size = archive_entry_size_is_set(e) ? (uint64_t)archive_entry_size(e) : 0;
  const bool as_expected = p->expected == 0 || at == p->expected;
  const bool file = archive_entry_filetype(e) == AE_IFREG && archive_entry_hardlink(e) == NULL;
  p->expected = file && size <= (uint64_t)p->src->st.st_size ? fs_round_up(fs_reader_at(&p->r) + size, 512) : 0;
  return as_expected && archive_entry_sparse_count(e) == 0;
}

/* Adds a problem for the first of the headers that are damaged in a row: libarchive takes each 512 bytes for
   a header until it finds one. Returns -ENODATA if it does not go on. */
static fs_err lose_header(struct pass *p) {
  FS_AUTO_FREE char *what = NULL;
  const bool first = !p->lost;
  const uint64_t at = p->r.header;
  const char *last = p->n != 0 ? p->members[p->n - 1].item.path : NULL;
  last = last != NULL && strlen(last) > p->src->skip ? last + p->src->skip : "its begin";
  if (!first && at == p->lost_at) return -ENODATA;
  p->lost = true;
  p->lost_at = at;
  p->expected = 0;
  if (!first) return 0;
  if (asprintf(&what, "is damaged after %s: what follows, up to the next good header, cannot be read", last) < 0)
    return -ENOMEM;
  return problem(p, "", what);
}

static fs_err read_headers(struct pass *p) {
  struct archive_entry *e;
  fs_err err = 0;
  while (err == 0) {
    if (stopped(p)) return -EINTR;
    int got = fs_reader_next(&p->r, &e);
    if (got == 0) return 0;
    if (p->seq++ == FS_MAX_ENTRIES) return problem(p, "", "has more members than a dataset can hold");
    if (got > 0 && p->src->kind == FS_SOURCE_FLAT && !is_flat(p, e)) return -EXDEV;
    if (got == -EIO) {
      FS_AUTO_FREE char *what = NULL;
      if (asprintf(&what, "is damaged after %zu member%s (%s), and nothing after it can be read", p->n, fs_plural(p->n),
                   fs_archive_why(p->r.a)) < 0)
        return -ENOMEM;
      return problem(p, "", what);
    }
    if (got < 0) {
      err = lose_header(p);
      if (err == -ENODATA) return 0;
      continue;
    }
    p->lost = false;
    const size_t before = p->n, problems = p->scan->problems.n;
    err = visit(p, e);
    const bool cut = p->src->kind == FS_SOURCE_FLAT && p->scan->problems.n != problems &&
                     archive_entry_size(e) > p->src->st.st_size - (la_int64_t)fs_reader_at(&p->r);
    if (err < 0 || cut) return err; /* there is nothing behind the archive's end */
    struct fs_begin *begin;
    err = keep_begin(p, before, &begin);
    if (err < 0) return err;
    got = skip_data(p, begin);
    if (got == ARCHIVE_RETRY && begin != NULL) return -EXDEV; /* the second pass will say which member is damaged */
    if (got != ARCHIVE_OK && got != ARCHIVE_WARN && got != ARCHIVE_EOF) return refuse_last(p, before);
  }
  return err;
}

static int by_name(const void *va, const void *vb) {
  const struct member *a = va, *b = vb;
  int c = fs_path_compare(a->item.path, b->item.path);
  return c != 0 ? c : a->seq < b->seq ? -1 : a->seq > b->seq;
}

/* Returns the member that had this path before member number `seq`, or NULL. */
static struct member *find(const struct pass *p, const char *path, uint32_t seq) {
  size_t from = 0, to = p->n; /* the first member that comes after the wanted one */
  while (from < to) {
    size_t mid = from + (to - from) / 2;
    int c = fs_path_compare(p->members[mid].item.path, path);
    if (c < 0 || (c == 0 && p->members[mid].seq < seq))
      from = mid + 1;
    else
      to = mid;
  }
  if (from == 0 || strcmp(p->members[from - 1].item.path, path) != 0) return NULL;
  return &p->members[from - 1];
}

/* Makes a hard link the same file as its target, which is no unresolved link. */
static fs_err resolve_link(struct pass *p, struct member *m) {
  char path[PATH_MAX];
  const char *bad;
  struct member *to = clean_name(p->src, m->item.target, path, &bad) == 0 ? find(p, path, m->seq) : NULL;
  m->item.target = NULL;
  if (to == NULL || to->item.mode == 0 || S_ISDIR(to->item.mode)) {
    m->item.mode = 0; /* dropped */
    return problem(p, m->item.path + p->src->skip, "is a hard link to a name that is not before it in the archive");
  }
  m->item.size = to->item.size;
  m->item.ino = to->item.ino;
  m->item.mode = to->item.mode;
  m->item.mtime_sec = to->item.mtime_sec;
  m->item.mtime_nsec = to->item.mtime_nsec;
  m->item.linked = to->item.linked = true;
  m->item.target = to->item.target;
  return 0;
}

static int by_seq(const void *va, const void *vb) {
  const struct member *a = *(struct member *const *)va, *b = *(struct member *const *)vb;
  return a->seq < b->seq ? -1 : a->seq > b->seq;
}

/* Resolves the hard links in the archive's order, so that no link to a link is followed twice. */
static fs_err resolve_links(struct pass *p) {
  size_t n = 0;
  for (size_t i = 0; i < p->n; i++) n += p->members[i].link;
  if (n == 0) return 0;
  FS_AUTO_FREE struct member **links = malloc(n * sizeof *links);
  if (links == NULL) return -ENOMEM;
  n = 0;
  for (size_t i = 0; i < p->n; i++)
    if (p->members[i].link) links[n++] = &p->members[i];
  qsort(links, n, sizeof *links, by_seq);
  fs_err err = 0;
  for (size_t i = 0; i < n && err == 0; i++) err = resolve_link(p, links[i]);
  return err;
}

/* Gives the last member of each name to the scan. The items take the place of the members, which are
   larger: there may be millions. */
static void keep_last(struct pass *p) {
  char *items = (char *)p->members;
  size_t n = 0;
  for (size_t i = 0; i < p->n; i++) {
    const struct member m = p->members[i];
    bool replaced = i + 1 < p->n && strcmp(m.item.path, p->members[i + 1].item.path) == 0;
    p->scan->replaced += replaced && !S_ISDIR(m.item.mode);
    if (replaced || m.item.mode == 0) continue;
    if (fs_globs_match_above(&p->o->exclude, m.item.path)) {
      p->scan->excluded++;
      continue;
    }
    p->scan->absolute += m.leading;
    memcpy(items + n++ * sizeof m.item, &m.item, sizeof m.item);
  }
  void *less = realloc(items, (n + 1) * sizeof(struct fs_item));
  p->scan->items = (struct fs_items){.item = less != NULL ? less : (void *)items, .n = n};
  p->members = NULL;
}

static fs_err resolve(struct pass *p) {
  if (p->n == 0) return 0;
  qsort(p->members, p->n, sizeof *p->members, by_name);
  fs_err err = resolve_links(p);
  if (err == 0) keep_last(p);
  return err;
}

static fs_err scan(struct pass *p) {
  fs_err err = fs_reader_open(&p->r, p->src);
  if (err == 0) err = read_headers(p);
  if (err == 0) err = resolve(p);
  free(p->members);
  fs_reader_close(&p->r);
  return err;
}

/* Leaves out all of an archive that its own program refuses. The checksum is of many members together, so
   nobody knows which of them are damaged, also where libarchive names one. */
static fs_err refuse_all(struct fs_scan *out, const char *tool) {
  FS_AUTO_FREE char *what = NULL;
  out->items.n = 0;
  if (asprintf(&what, "is damaged: '%s -t' refuses it, and any of its members may be wrong", tool) < 0) return -ENOMEM;
  return fs_problems_add(&out->problems, "", what);
}

static fs_err scan_passes(const struct fs_pack_options *o, struct fs_source *src, uint32_t number,
                          struct fs_scan *out) {
  for (;;) {
    struct pass p = {.o = o, .src = src, .number = number, .scan = out};
    fs_err err = scan(&p);
    if (err != -EXDEV) return err;
    if (src->kind == FS_SOURCE_STREAM) fs_begins_free(&src->begins); /* none is kept the next time */
    src->kind = FS_SOURCE_STREAM;
    free(out->items.item);
    out->items = (struct fs_items){0};
    fs_arena_free(&out->text);
    fs_problems_free(&out->problems);
  }
}

uint64_t fs_archive_begins(const struct fs_pack_options *o, uint32_t number) {
  const bool some = o->codec == FS_CHOOSE_AUTO && number < BEGINS_SOURCES;
  return some ? BEGINS_BYTES / FS_MIN(o->nsources, BEGINS_SOURCES) : 0;
}

void fs_archive_scan(const struct fs_pack_options *o, struct fs_source *src, uint32_t number, struct fs_scan *out) {
  src->begins.most = fs_archive_begins(o, number);
  const struct fs_archive_test test = fs_archive_test_start(src);
  out->err = scan_passes(o, src, number, out);
  const bool good = fs_archive_test_end(&test, out);
  if (out->err == 0 && !good) out->err = refuse_all(out, test.tool);
}
