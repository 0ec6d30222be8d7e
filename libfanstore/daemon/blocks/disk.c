/* SPDX-License-Identifier: BSD-3-Clause */
/* See disk.h. What is on the disk stays there: with a new order in each epoch, no other choice is
   better (docs/internals/shared-memory.md, "What is evicted"). */
#include "daemon/blocks/disk.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "util/sys.h"
#include "util/table.h"
#include "util/util.h"

#define FS_DISK_READS 4u            /* at once, each with a thread of its own */
#define FS_DISK_WRITING (16u << 20) /* bytes copied and not yet written */
#define FS_DISK_ENTRY_SHARE 256u    /* one block for so many bytes of the cache in memory */
#define FS_DISK_RESERVE 10u         /* a tenth of the file system stays free, */
#define FS_DISK_RESERVE_MOST (8ull << 30)
#define FS_DISK_LOOK_NS 20000000ull
#define FS_DISK_PATIENCE 4u /* a read that takes longer than this part of the deadline is given up */

struct fs_disk_block {
  struct fs_table_link link; /* by the cache's key */
  uint64_t off;
  bool written;
};

struct fs_disk_write {
  struct fs_io io;
  struct fs_disk *s;
  uint64_t key;
  unsigned char bytes[];
};

/* A read in a thread of the pool. If it takes too long, it loses its fetch, and keeps its line and
   its thread until the kernel has answered. */
struct fs_disk_read {
  struct fs_io io;
  struct fs_disk *s;
  struct fs_fetch *fetch;
  uint64_t begun;
  uint32_t line;
  bool busy;
};

struct fs_disk {
  struct fs_daemon *d;
  int fd;
  uint64_t size, used; /* what may be written; has been */
  uint64_t writing;    /* bytes that wait for the disk */
  uint64_t look_at, blocks_most;
  _Atomic bool ended; /* set by the MPI thread; after that no thread writes */
  bool looking, told;
  struct fs_io look, cut;
  /* `writes` has one thread: looks, writes and the cut are done in the order of their submission */
  struct fs_iopool reads, writes;
  struct fs_chain waiting; /* fetches whose block is on the disk, and that wait for a read */
  struct fs_disk_read read[FS_DISK_READS];
  struct fs_table blocks, forgotten; /* forgotten: for the writer, which frees them */
};

static struct fs_disk_block *fs_disk_block(const struct fs_disk *s, uint64_t key) {
  struct fs_table_link *l = fs_table_find(&s->blocks, key);
  return l ? FS_ITEM(l, struct fs_disk_block, link) : NULL;
}

static void fs_disk_drop(struct fs_table *t, struct fs_disk_block *b) {
  if (!b) return;
  fs_table_remove(t, &b->link);
  free(b);
}

/* Returns the bytes that are free, and sets how many have to stay free. */
static uint64_t fs_disk_free(const struct statvfs *v, uint64_t *reserve) {
  *reserve = FS_MIN((uint64_t)v->f_blocks * v->f_frsize / FS_DISK_RESERVE, FS_DISK_RESERVE_MOST);
  return (uint64_t)v->f_bavail * v->f_frsize;
}

/* ---- end ---- */

static fs_err fs_disk_empty(struct fs_io *io) {
  struct fs_disk *s = FS_ITEM(io, struct fs_disk, cut);
  fs_err err = ftruncate(io->fd, 0) < 0 ? -errno : 0;
  FS_TABLE_EACH(&s->forgotten, l) fs_disk_drop(&s->forgotten, FS_ITEM(l, struct fs_disk_block, link));
  return err;
}

static void fs_disk_say(struct fs_daemon *d, const char *what) {
  fs_say_text(d, "warn", "--cache-disk: %s: %s", d->cfg->local_dir, what);
}

static void fs_disk_lost(struct fs_daemon *d, const char *why) {
  fs_say_text(d, "warn", "--cache-disk: %s: %s: the job goes on without it", d->cfg->local_dir, why);
}

static void fs_disk_emptied(struct fs_io *io) {
  const struct fs_disk *s = FS_ITEM(io, struct fs_disk, cut);
  if (io->err < 0) fs_disk_say(s->d, "its file cannot be emptied, and takes room until the job ends");
}

/* Returns true if no read has been answered in time. */
static bool fs_disk_stuck(const struct fs_disk *s) {
  for (const struct fs_disk_read *r = s->read; r < s->read + FS_DISK_READS; r++) {
    if (!r->busy || r->fetch) return false;
  }
  return true;
}

static uint64_t fs_disk_patience(const struct fs_disk *s) {
  return s->d->cfg->deadline_ns / FS_DISK_PATIENCE;
}

/* Lets fetches that wait for a read go on to other nodes, if they have waited for too long or wait in
   vain. */
static void fs_disk_pass_on(struct fs_disk *s) {
  bool none = s->ended || fs_disk_stuck(s);
  while (!fs_chain_empty(&s->waiting)) {
    struct fs_fetch *f = FS_ITEM(s->waiting.next, struct fs_fetch, chain);
    if (!none && s->d->now <= f->started + fs_disk_patience(s)) return;
    fs_chain_drop(&f->chain);
    fs_fetch_route(s->d, f);
  }
}

/* Ends the cache on disk for this job. Writes that wait are not done any more, then the file is
   emptied. A read under way ends as usual, but what it gives is not used. */
static void fs_disk_end(struct fs_disk *s, const char *why) {
  if (s->ended) return;
  s->ended = true;
  s->forgotten = s->blocks;
  s->blocks = (struct fs_table){0};
  s->cut = (struct fs_io){.fd = s->fd, .work = fs_disk_empty, .done = fs_disk_emptied};
  fs_iopool_submit(&s->writes, &s->cut);
  fs_disk_lost(s->d, why);
  fs_disk_pass_on(s);
}

/* ---- start ---- */

static int fs_disk_file(const char *dir) {
  char path[PATH_MAX];
  int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return fd;
  int n = snprintf(path, sizeof(path), "%s/.new-cache-XXXXXX", dir);
  if (n < 0 || n >= (int)sizeof(path)) return -1;
  fd = mkostemp(path, O_CLOEXEC);
  if (fd >= 0) (void)unlink(path);
  return fd;
}

/* Returns how much of the disk may be used, or 0 and why. */
static uint64_t fs_disk_size(const struct fs_daemon *d, int fd, const char **why) {
  struct statvfs v;
  struct statfs fs;
  uint64_t reserve;
  bool given = d->cfg->cache_disk != FS_DISK_AUTO;
  if (fd < 0 || fstatvfs(fd, &v) < 0 || fstatfs(fd, &fs) < 0) {
    *why = strerror(errno);
    return 0;
  }
  *why = "that is memory and not a disk: give a size instead of auto";
  if (!given && fs.f_type == TMPFS_MAGIC) return 0;
  uint64_t left = fs_disk_free(&v, &reserve);
  *why = "there is no room";
  return FS_MIN(d->cfg->cache_disk, (left - FS_MIN(left, reserve)) / FS_MAX(d->cfg->emulate, 1u));
}

fs_err fs_disk_start(struct fs_daemon *d) {
  char size[32];
  const char *why;
  if (d->cfg->cache_disk == 0) return 0;
  struct fs_disk *s = calloc(1, sizeof(*s));
  if (!s) return -ENOMEM;
  s->d = d;
  s->fd = fs_disk_file(d->cfg->local_dir);
  s->size = fs_disk_size(d, s->fd, &why);
  if (s->size == 0) {
    fs_disk_lost(d, why);
    if (s->fd >= 0) (void)close(s->fd);
    free(s);
    return 0;
  }
  if (s->size < d->cfg->cache_disk && d->cfg->cache_disk != FS_DISK_AUTO)
    fs_say_text(d, "warn", "--cache-disk: %s has %s for it", d->cfg->local_dir,
                fs_format_size(s->size, size, sizeof(size)));
  uint64_t cache;
  (void)fs_cache_slab_fd(d->cache, &cache);
  s->blocks_most = cache / FS_DISK_ENTRY_SHARE;
  fs_chain_init(&s->waiting);
  d->disk = s;
  fs_err err = fs_iopool_start(&s->reads, FS_DISK_READS, d->wake);
  return err < 0 ? err : fs_iopool_start(&s->writes, 1, d->wake);
}

/* ---- writing ---- */

/* Returns -EAGAIN if that would take what has to stay free. */
static fs_err fs_disk_write(struct fs_io *io) {
  const struct fs_disk *s = FS_ITEM(io, struct fs_disk_write, io)->s;
  struct statvfs v;
  uint64_t reserve;
  if (s->ended) return -ECANCELED;
  if (fstatvfs(io->fd, &v) < 0) return -errno;
  return fs_disk_free(&v, &reserve) < reserve + io->len ? -EAGAIN : fs_pwrite_full(io->fd, io->buf, io->len, io->off);
}

static void fs_disk_written(struct fs_io *io) {
  struct fs_disk_write *w = FS_ITEM(io, struct fs_disk_write, io);
  struct fs_disk *s = w->s;
  struct fs_disk_block *b = fs_disk_block(s, w->key);
  s->writing -= io->len;
  if (io->err == 0 && b) {
    b->written = true;
    s->d->count.disk_kept_bytes += io->len;
  } else {
    fs_disk_drop(&s->blocks, b);
  }
  if (io->err == -EAGAIN)
    s->size = s->used; /* it keeps what it has, until outputs need that too */
  else if (io->err < 0)
    fs_disk_end(s, strerror(-io->err));
  free(w);
}

int fs_disk_room(const struct fs_daemon *d, uint32_t len) {
  const struct fs_disk *s = d->disk;
  if (!s || s->ended || s->used + len > s->size || s->blocks.count >= s->blocks_most) return -1;
  return s->writing + len <= FS_DISK_WRITING;
}

void fs_disk_keep(struct fs_daemon *d, const struct fs_fetch *f, uint32_t line, const void *bytes) {
  struct fs_disk *s = d->disk;
  uint32_t len = f->want.block.stored_len;
  if (FS_KEY_OF_OUTPUT(f->key) || fs_disk_room(d, len) <= 0) return;
  if (fs_cache_stays(d->cache, line) || fs_disk_block(s, f->key)) return;
  struct fs_disk_block *b = malloc(sizeof(*b));
  struct fs_disk_write *w = malloc(sizeof(*w) + len);
  if (!b || !w) {
    free(b);
    free(w);
    return;
  }
  *b = (struct fs_disk_block){.off = s->used};
  (void)fs_table_add(&s->blocks, &b->link, f->key);
  *w = (struct fs_disk_write){.s = s, .key = f->key};
  memcpy(w->bytes, bytes, len);
  w->io = (struct fs_io){
      .fd = s->fd, .len = len, .off = s->used, .buf = w->bytes, .work = fs_disk_write, .done = fs_disk_written};
  s->used += len;
  s->writing += len;
  fs_iopool_submit(&s->writes, &w->io);
}

/* ---- reading ---- */

/* Takes the fetch away from a read. */
static struct fs_fetch *fs_disk_release(struct fs_disk_read *r) {
  struct fs_fetch *f = r->fetch;
  r->fetch = NULL;
  if (f) r->s->d->fetcher->reading--;
  return f;
}

/* Forgets the block of a fetch, which goes on to other nodes. */
static void fs_disk_fail(struct fs_disk *s, struct fs_fetch *f) {
  fs_disk_drop(&s->blocks, fs_disk_block(s, f->key));
  fs_fetch_route(s->d, f);
}

static fs_err fs_disk_read(struct fs_io *io) {
  ssize_t got = pread(io->fd, io->buf, io->len, (off_t)io->off);
  return got == (ssize_t)io->len ? 0 : got < 0 ? -errno : -EIO;
}

static void fs_disk_pump(struct fs_disk *s);

static void fs_disk_read_done(struct fs_io *io) {
  struct fs_disk_read *r = FS_ITEM(io, struct fs_disk_read, io);
  struct fs_disk *s = r->s;
  struct fs_daemon *d = s->d;
  struct fs_fetch *f = fs_disk_release(r);
  r->busy = false;
  if (f && io->err == 0 && !s->ended && fs_fetch_intact(d, io->buf, io->len, f->want.block.xxh3)) {
    d->count.disk_bytes += io->len;
    f->disk = true;
    fs_cache_publish(d->cache, r->line, fs_fetch_awaited(f));
    fs_fetch_finish(d, f, 0, r->line);
  } else {
    fs_cache_abort(d->cache, r->line);
    if (f) fs_disk_fail(s, f);
  }
  fs_disk_pump(s);
}

/* Returns -ENOBUFS if the cache in memory has no room at the moment. */
static fs_err fs_disk_begin(struct fs_disk *s, struct fs_disk_read *r, struct fs_fetch *f) {
  const struct fs_disk_block *b = fs_disk_block(s, f->key);
  void *buf;
  uint32_t len = f->want.block.stored_len;
  int64_t line = fs_cache_alloc(s->d->cache, f->key, len, &buf);
  if (line < 0) return (fs_err)line;
  fs_chain_drop(&f->chain);
  *r = (struct fs_disk_read){.s = s, .fetch = f, .begun = s->d->now, .line = (uint32_t)line, .busy = true};
  r->io = (struct fs_io){.fd = s->fd,
                         .len = len,
                         .off = b->off,
                         .buf = (char *)buf + FS_CACHE_HEADROOM,
                         .work = fs_disk_read,
                         .done = fs_disk_read_done};
  s->d->fetcher->reading++;
  fs_iopool_submit(&s->reads, &r->io);
  return 0;
}

/* Begins as many reads as there are threads for. */
static void fs_disk_pump(struct fs_disk *s) {
  for (struct fs_disk_read *r = s->read; r < s->read + FS_DISK_READS && !fs_chain_empty(&s->waiting); r++) {
    struct fs_fetch *f = FS_ITEM(s->waiting.next, struct fs_fetch, chain);
    if (!r->busy && fs_disk_begin(s, r, f) < 0) return;
  }
}

bool fs_disk_fetch(struct fs_daemon *d, struct fs_fetch *f) {
  struct fs_disk *s = d->disk;
  const struct fs_disk_block *b = s ? fs_disk_block(s, f->key) : NULL;
  if (!b || !b->written || fs_disk_stuck(s)) return false;
  fs_chain_push(&s->waiting, &f->chain);
  fs_disk_pump(s);
  return true;
}

/* ---- a disk that does not answer, or that outputs need ---- */

static void fs_disk_overdue(struct fs_disk *s) {
  for (struct fs_disk_read *r = s->read; r < s->read + FS_DISK_READS; r++) {
    if (!r->fetch || s->d->now <= r->begun + fs_disk_patience(s)) continue;
    if (!s->told) fs_disk_say(s->d, "it does not answer: what is there comes from other nodes meanwhile");
    s->told = true;
    fs_disk_fail(s, fs_disk_release(r));
  }
}

static fs_err fs_disk_look(struct fs_io *io) {
  struct statvfs v;
  uint64_t reserve;
  return fstatvfs(io->fd, &v) == 0 && fs_disk_free(&v, &reserve) < reserve / 2 ? -ENOSPC : 0;
}

static void fs_disk_looked(struct fs_io *io) {
  struct fs_disk *s = FS_ITEM(io, struct fs_disk, look);
  s->looking = false;
  if (io->err < 0) fs_disk_end(s, "nearly full");
}

void fs_disk_timers(struct fs_daemon *d) {
  struct fs_disk *s = d->disk;
  if (!s) return;
  fs_disk_overdue(s);
  fs_disk_pass_on(s);
  fs_disk_pump(s);
  if (s->used == 0 || s->ended || s->looking || d->now < s->look_at) return;
  s->look_at = d->now + FS_DISK_LOOK_NS;
  s->looking = true;
  s->look = (struct fs_io){.fd = s->fd, .work = fs_disk_look, .done = fs_disk_looked};
  fs_iopool_submit(&s->writes, &s->look);
}

int fs_disk_reap(struct fs_daemon *d) {
  return d->disk ? fs_iopool_reap(&d->disk->reads) + fs_iopool_reap(&d->disk->writes) : 0;
}
