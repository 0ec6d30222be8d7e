/* SPDX-License-Identifier: BSD-3-Clause */
/* See disk.h. What is on the disk stays there: with a new order in each epoch, no other choice is
   better (docs/internals/shared-memory.md, "What is evicted"). */
#include "daemon/blocks/disk.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "util/sys.h"
#include "util/table.h"
#include "util/util.h"

#define FS_DISK_WRITING (16u << 20) /* bytes copied and not yet written */
#define FS_DISK_ENTRY_SHARE 256u    /* one block for so many bytes of the cache in memory */
#define FS_DISK_RESERVE 10u         /* a tenth of the file system stays free, */
#define FS_DISK_RESERVE_MOST (8ull << 30)
#define FS_DISK_LOOK_NS 20000000ull

struct fs_disk_block {
  struct fs_table_link link; /* by the cache's key */
  uint64_t off;
  bool written;
};

struct fs_disk_write {
  struct fs_io io;
  struct fs_chain chain; /* of those that wait */
  struct fs_daemon *d;
  uint64_t key;
  unsigned char bytes[];
};

struct fs_disk {
  struct fs_daemon *d;
  int fd;
  uint64_t size, used;    /* what may be written; has been */
  uint64_t writing;       /* bytes that wait for the disk */
  struct fs_chain writes; /* one at a time: a slow disk must not take all threads of the pool */
  bool busy;
  uint64_t reading; /* reads under way */
  uint64_t heard;   /* when a read ended last, or began while there was none */
  uint64_t look_at, blocks_most;
  struct fs_io cut; /* empties the file */
  bool cutting, cut_again;
  struct fs_table blocks;
};

static uint64_t fs_disk_reserve(const struct statvfs *v) {
  return FS_MIN((uint64_t)v->f_blocks * v->f_frsize / FS_DISK_RESERVE, FS_DISK_RESERVE_MOST);
}

static uint64_t fs_disk_free(const struct statvfs *v) {
  return (uint64_t)v->f_bavail * v->f_frsize;
}

static struct fs_disk_block *fs_disk_block(const struct fs_disk *s, uint64_t key) {
  struct fs_table_link *l = fs_table_find(&s->blocks, key);
  return l ? FS_ITEM(l, struct fs_disk_block, link) : NULL;
}

static void fs_disk_drop(struct fs_disk *s, struct fs_disk_block *b) {
  fs_table_remove(&s->blocks, &b->link);
  free(b);
}

/* ---- end ---- */

static fs_err fs_disk_empty(struct fs_io *io) {
  return ftruncate(io->fd, 0) < 0 ? -errno : 0;
}

static void fs_disk_cut(struct fs_daemon *d);

static void fs_disk_emptied(struct fs_io *io) {
  struct fs_disk *s = FS_ITEM(io, struct fs_disk, cut);
  s->cutting = false;
  if (s->cut_again) fs_disk_cut(s->d);
}

/* Empties the file, in a thread of the pool. */
static void fs_disk_cut(struct fs_daemon *d) {
  struct fs_disk *s = d->disk;
  s->cut_again = s->cutting;
  if (s->cutting) return;
  s->cutting = true;
  s->cut = (struct fs_io){.fd = s->fd, .work = fs_disk_empty, .done = fs_disk_emptied};
  fs_iopool_submit(&d->pool, &s->cut);
}

/* Ends the cache on disk for this job: nothing is written any more, and the file is emptied. What is
   being read at the moment fails. What is being written is emptied when it has been written. */
static void fs_disk_end(struct fs_daemon *d, const char *why) {
  struct fs_disk *s = d->disk;
  fs_say_text(d, "warn", "--cache-disk: %s: %s: the job goes on without it", d->cfg->local_dir, why);
  s->size = 0;
  FS_TABLE_EACH(&s->blocks, l) fs_disk_drop(s, FS_ITEM(l, struct fs_disk_block, link));
  fs_disk_cut(d);
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

fs_err fs_disk_start(struct fs_daemon *d) {
  struct statvfs v;
  char text[32];
  if (d->cfg->cache_disk == 0) return 0;
  struct fs_disk *s = calloc(1, sizeof(*s));
  if (!s) return -ENOMEM;
  s->fd = fs_disk_file(d->cfg->local_dir);
  if (s->fd < 0 || fstatvfs(s->fd, &v) < 0) {
    fs_say_text(d, "warn", "--cache-disk: %s: %s: the job goes on without it", d->cfg->local_dir, strerror(errno));
    if (s->fd >= 0) (void)close(s->fd);
    free(s);
    return 0;
  }
  uint64_t spare = fs_disk_free(&v) - FS_MIN(fs_disk_free(&v), fs_disk_reserve(&v));
  uint64_t cache;
  (void)fs_cache_slab_fd(d->cache, &cache);
  s->d = d;
  fs_chain_init(&s->writes);
  s->blocks_most = cache / FS_DISK_ENTRY_SHARE;
  s->size = FS_MIN(d->cfg->cache_disk, spare / FS_MAX(d->cfg->emulate, 1u));
  if (s->size < d->cfg->cache_disk && d->cfg->cache_disk != FS_DISK_AUTO)
    fs_say_text(d, "warn", "--cache-disk: %s has %s for it", d->cfg->local_dir,
                fs_format_size(s->size, text, sizeof(text)));
  d->disk = s;
  return 0;
}

/* ---- writing ---- */

static void fs_disk_write(struct fs_disk *s) {
  struct fs_chain *l = s->busy ? NULL : fs_chain_pop(&s->writes);
  if (!l) return;
  s->busy = true;
  fs_iopool_submit(&s->d->pool, &FS_ITEM(l, struct fs_disk_write, chain)->io);
}

static fs_err fs_disk_work(struct fs_io *io) {
  return fs_pwrite_full(io->fd, io->buf, io->len, io->off);
}

static void fs_disk_done(struct fs_io *io) {
  struct fs_disk_write *w = FS_ITEM(io, struct fs_disk_write, io);
  struct fs_disk *s = w->d->disk;
  struct fs_disk_block *b = fs_disk_block(s, w->key);
  s->writing -= io->len;
  s->busy = false;
  if (io->err < 0 && s->size > 0) {
    fs_disk_end(w->d, strerror(-io->err));
  } else if (s->size == 0) {
    fs_disk_cut(w->d);
  } else if (b && b->off == io->off) {
    b->written = true;
    w->d->count.disk_kept_bytes += io->len;
  }
  free(w);
  fs_disk_write(s);
}

int fs_disk_room(const struct fs_daemon *d, uint32_t len) {
  const struct fs_disk *s = d->disk;
  if (!s || s->used + len > s->size || s->blocks.count >= s->blocks_most) return -1;
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
  *w = (struct fs_disk_write){.d = d, .key = f->key};
  memcpy(w->bytes, bytes, len);
  w->io = (struct fs_io){
      .fd = s->fd, .len = len, .off = s->used, .buf = w->bytes, .work = fs_disk_work, .done = fs_disk_done};
  s->used += len;
  s->writing += len;
  fs_chain_push(&s->writes, &w->chain);
  fs_disk_write(s);
}

/* ---- reading ---- */

bool fs_disk_find(struct fs_daemon *d, uint64_t key, int *fd, uint64_t *off) {
  struct fs_disk *s = d->disk;
  const struct fs_disk_block *b = s ? fs_disk_block(s, key) : NULL;
  if (!b || !b->written) return false;
  *fd = s->fd;
  *off = b->off;
  if (s->reading++ == 0) s->heard = d->now;
  return true;
}

void fs_disk_read(struct fs_daemon *d, uint64_t key, uint32_t len, bool good) {
  struct fs_disk *s = d->disk;
  struct fs_disk_block *b = fs_disk_block(s, key);
  s->reading--;
  s->heard = d->now;
  if (good)
    d->count.disk_bytes += len;
  else if (b && b->written)
    fs_disk_drop(s, b);
}

/* ---- when to end ---- */

void fs_disk_timers(struct fs_daemon *d) {
  struct fs_disk *s = d->disk;
  struct statvfs v;
  if (!s || s->size == 0 || d->now < s->look_at) return;
  s->look_at = d->now + FS_DISK_LOOK_NS;
  if (s->reading > 0 && d->now > s->heard + d->cfg->deadline_ns / 2)
    fs_disk_end(d, "no answer");
  else if (s->used > 0 && fstatvfs(s->fd, &v) == 0 && fs_disk_free(&v) < fs_disk_reserve(&v) / 2)
    fs_disk_end(d, "nearly full");
}
