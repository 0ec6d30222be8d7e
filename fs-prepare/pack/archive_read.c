/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The second pass over archives whose members come as a stream. The pipeline's threads take turns:
 * the batches of a stream are read in the order in which they were claimed, each by the thread that
 * claimed it, and are encoded beside each other. Only the thread whose turn it is touches the
 * archive. A thread that waits for its turn waits for threads that claimed earlier batches, so there
 * is no deadlock.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "archive.h"

struct fs_stream {
  const struct fs_source *src;
  struct fs_reader r;
  uint64_t member;  /* number of the current member; 0: none */
  uint64_t at;      /* bytes of it that were read */
  uint8_t choice;   /* of the current member, if it is large */
  uint64_t damaged; /* number of a member that cannot be read to its end */
  char why[256];    /* of an error */
  uint64_t claimed; /* turns that were given out, by one thread at a time */
  pthread_mutex_t lock;
  pthread_cond_t next;
  uint64_t turn; /* whose turn it is */
  fs_err failed; /* ends all turns */
};

struct fs_stream *fs_item_stream(const struct fs_tree *tree, const struct fs_item *item) {
  return tree->sources[item->source].stream;
}

fs_err fs_stream_open(struct fs_source *src) {
  struct fs_stream *s = calloc(1, sizeof *s);
  if (s == NULL) return -ENOMEM;
  s->src = src;
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->next, NULL);
  src->stream = s;
  return 0;
}

void fs_stream_close(struct fs_stream *s) {
  if (s == NULL) return;
  fs_reader_close(&s->r);
  pthread_mutex_destroy(&s->lock);
  pthread_cond_destroy(&s->next);
  free(s);
}

uint64_t fs_stream_turn(struct fs_stream *s) {
  return s->claimed++;
}

void fs_stream_fail(struct fs_stream *s, fs_err err) {
  pthread_mutex_lock(&s->lock);
  if (s->failed == 0) s->failed = err;
  pthread_cond_broadcast(&s->next);
  pthread_mutex_unlock(&s->lock);
}

static fs_err wait_turn(struct fs_stream *s, uint64_t turn) {
  pthread_mutex_lock(&s->lock);
  while (s->turn != turn && s->failed == 0) pthread_cond_wait(&s->next, &s->lock);
  fs_err err = s->failed;
  pthread_mutex_unlock(&s->lock);
  return err;
}

static void end_turn(struct fs_stream *s) {
  pthread_mutex_lock(&s->lock);
  s->turn++;
  pthread_cond_broadcast(&s->next);
  pthread_mutex_unlock(&s->lock);
}

static fs_err because(struct fs_stream *s, const char *why) {
  if (archive_errno(s->r.a) == ENOMEM) return -ENOMEM;
  fs_stream_because(s, why);
  return -EBADMSG;
}

/* Goes on to a member. */
static fs_err find_member(struct fs_stream *s, const struct fs_item *item) {
  struct archive_entry *e;
  fs_err err = s->r.a == NULL ? fs_reader_open(&s->r, s->src) : 0;
  if (err < 0) return err;
  while (s->member < item->ino) {
    int got = fs_reader_next(&s->r, &e);
    if (got == -EIO) return because(s, fs_archive_why(s->r.a));
    if (got == 0) return -ESTALE;
    s->member++;
    s->at = 0;
    if (got > 0 && s->member == item->ino && archive_entry_size(e) != (int64_t)item->size) return -ESTALE;
  }
  return s->member == item->ino ? 0 : -ESTALE;
}

static fs_err read_full(struct fs_stream *s, uint8_t *out, size_t n) {
  bool ended = false;
  for (size_t done = 0; done < n;) {
    if (fs_prep_signal != 0) return -EINTR;
    la_ssize_t got = archive_read_data(s->r.a, out + done, FS_MIN(n - done, (size_t)1 << 20));
    if (got < 0) return because(s, fs_archive_why(s->r.a));
    if (got == 0 && ended) return because(s, "it has fewer bytes than its header says");
    ended = got == 0; /* libarchive gives the last hole of a sparse file after the data's end */
    done += (size_t)got;
    s->at += (uint64_t)got;
  }
  return 0;
}

/* After a member's last byte: libarchive checks its checksum now. */
static fs_err check_end(struct fs_stream *s) {
  uint8_t byte;
  la_ssize_t got = archive_read_data(s->r.a, &byte, 1);
  if (got > 0) return because(s, "it has more bytes than its header says");
  return got < 0 ? because(s, fs_archive_why(s->r.a)) : 0;
}

fs_err fs_stream_next(struct fs_stream *s, const struct fs_item *item, uint8_t *out, size_t n) {
  fs_err err = find_member(s, item);
  if (err == 0) err = read_full(s, out, n);
  return err == 0 && s->at == item->size ? check_end(s) : err;
}

const char *fs_stream_why(const struct fs_stream *s) {
  return s->why;
}

void fs_stream_because(struct fs_stream *s, const char *why) {
  snprintf(s->why, sizeof s->why, "%s", why);
}

static fs_err read_chunk(struct fs_stream *s, const struct fs_plan *plan, const struct fs_chunk *c, uint8_t *plain) {
  struct fs_item *item = &plan->tree->items[c->item];
  fs_err err = s->damaged == item->ino ? -EBADMSG : find_member(s, item);
  while (err == 0 && s->at <= c->offset) { /* the pieces before this chunk are passed over */
    const bool begin = s->at == 0 && item->size > plan->chunk;
    const size_t n = (size_t)FS_MIN(item->size - s->at, plan->chunk);
    const bool last = s->at == c->offset;
    err = read_full(s, plain, n);
    if (err == 0 && begin) {
      fs_choose_by_begin(plan, item, plain, n);
      s->choice = atomic_load(&item->choice);
    }
    if (err < 0 || last) break;
  }
  if (err == 0 && !c->whole) atomic_store(&item->choice, s->choice); /* a node has an item of its own for each batch */
  if (err == 0 && s->at == item->size) err = check_end(s);
  if (err == 0 && s->at == item->size && item->ino == s->src->last) fs_reader_close(&s->r);
  if (err == -EBADMSG) s->damaged = item->ino;
  return err;
}

/* Checks that the archive is still the one that was scanned. */
static fs_err check_source(const struct fs_source *src) {
  struct stat st = {0};
  fs_err err = fs_sys_fstat(src->fd, &st);
  return err < 0 ? err : fs_source_same(&st, &src->st) ? 0 : -ESTALE;
}

void fs_stream_read(const struct fs_plan *plan, struct fs_batch *batch, uint8_t *plain) {
  struct fs_stream *s = batch->stream;
  uint32_t done = 0;
  fs_err err = wait_turn(s, batch->turn);
  for (; err == 0 && done < batch->n; done++) {
    struct fs_chunk *c = &batch->chunk[done];
    err = read_chunk(s, plan, c, plain);
    plain += c->plain_len;
    c->err = err;
    if (err == -EBADMSG && plan->opts->keep_going) err = 0; /* this member is left out */
  }
  if (err == 0 || err == -EBADMSG) { /* what has changed meanwhile is not called damaged */
    const fs_err changed = check_source(s->src);
    if (changed < 0) err = changed;
  }
  batch->err = err;
  if (err < 0) {
    batch->n = FS_MAX(done, 1u);
    fs_stream_fail(s, err);
  }
  end_turn(s);
}

void fs_stream_say(const struct fs_source *src, const struct fs_item *item, fs_err err) {
  const char *path = item->path + src->skip;
  if (err == -EINTR) return;
  if (err == -EBADMSG)
    fs_say("%s: member %s is damaged: %s; get the archive again, or leave it out with --exclude", src->path, path,
           src->stream->why);
  else if (err == -ESTALE)
    fs_say("%s: changed while it was being packed; pack again when nothing writes to it", src->path);
  else
    fs_say("%s: member %s cannot be read: %s", src->path, path, strerror(-err));
}
