/* SPDX-License-Identifier: BSD-3-Clause */
/* See inside.h. It uses ipc/channel.h as a client of the library does; each wait has an end. */
#include "daemon/core/inside.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ipc/channel.h"
#include "util/sys.h"

#define FS_INSIDE_BLOCKS (FS_INSIDE_BYTES / FS_OUTPUT_BLOCK + 1)
#define FS_INSIDE_PATIENCE 2u /* deadlines of the job to wait; the daemon answers before that */

struct fs_inside {
  struct fs_daemon *d;
  struct fs_client *client;
  struct fs_cache_view view;
};

fs_err fs_inside_new(struct fs_daemon *d, struct fs_inside **out) {
  struct fs_inside *in = calloc(1, sizeof(*in));
  uint64_t size;
  int fd = fs_cache_slab_fd(d->cache, &size);
  if (!in) return -ENOMEM;
  in->d = d;
  const void *slab = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
  fs_err err = slab == MAP_FAILED ? -errno : fs_cache_view_init(&in->view, slab, size, NULL, 0);
  if (err == 0) in->client = fs_clients_add(d, (uint32_t)getpid(), &fd, &err);
  if (err < 0) {
    free(in);
    return err;
  }
  atomic_fetch_sub(&d->clients.attached, 1); /* it is not a process that has attached */
  close(fd);
  *out = in;
  return 0;
}

/* ---- waiting ---- */

static void fs_inside_ring(const struct fs_inside *in) {
  if (atomic_load(&in->d->ctl->asleep)) fs_daemon_wake(in->d);
}

/* Waits for an answer. Returns false if none came in time; the daemon then frees the slot when
   it answers. */
static bool fs_inside_wait(const struct fs_inside *in, _Atomic uint32_t *word) {
  uint64_t now = fs_now_ns(), end = now + FS_INSIDE_PATIENCE * in->d->cfg->deadline_ns;
  for (; fs_chan_pending(atomic_load_explicit(word, memory_order_acquire)) && now < end; now = fs_now_ns())
    (void)fs_chan_sleep(word, end - now);
  return !fs_chan_abandon(word);
}

/* ---- calls ---- */

static fs_err fs_inside_call(struct fs_inside *in, const struct fs_names_call *c, void *answer, size_t size) {
  struct fs_channel *ch = in->client->channel;
  int32_t i = fs_chan_claim_call(ch);
  if (i < 0) return -ETIMEDOUT; /* all were given up: the daemon has still to clear them away */
  struct fs_call_slot *b = &ch->call_slot[i];
  memcpy(b->body, c, sizeof(*c));
  b->length = sizeof(*c);
  fs_chan_post(fs_chan_call(ch, (uint32_t)i));
  fs_inside_ring(in);
  if (!fs_inside_wait(in, &b->state)) return -ETIMEDOUT;
  fs_err err = b->err;
  if (err == 0 && b->length != size) err = -EPROTO;
  if (err == 0 && size > 0) memcpy(answer, b->body, size);
  fs_chan_free(fs_chan_call(ch, (uint32_t)i));
  return err;
}

fs_err fs_inside_open(struct fs_inside *in, uint64_t id, struct fs_opened *held) {
  struct fs_names_call c = {.op = FS_NAMES_OPEN, .open.id = id};
  return fs_inside_call(in, &c, held, sizeof(*held));
}

void fs_inside_close(struct fs_inside *in, const struct fs_opened *held) {
  struct fs_names_call c = {.op = FS_NAMES_CLOSE, .close = {.id = held->id, .snapshot = held->snapshot}};
  (void)fs_inside_call(in, &c, NULL, 0);
}

/* ---- blocks ---- */

struct fs_inside_block {
  uint32_t slot, skip, n;
  char *to;
};

/* Posts a request. Returns its slot, or FS_CHANNEL_SLOTS if none is free. */
static uint32_t fs_inside_post(struct fs_inside *in, uint64_t key) {
  struct fs_channel *ch = in->client->channel;
  int32_t i = fs_chan_claim_req(ch);
  if (i < 0) return FS_CHANNEL_SLOTS;
  ch->req[i].key = key;
  ch->req[i].flags = 0;
  fs_chan_post(fs_chan_req(ch, (uint32_t)i));
  return (uint32_t)i;
}

static fs_err fs_inside_collect(struct fs_inside *in, const struct fs_inside_block *b) {
  struct fs_channel *ch = in->client->channel;
  struct fs_req *r = &ch->req[b->slot];
  uint32_t len = 0;
  if (!fs_inside_wait(in, &r->state)) return -ETIMEDOUT;
  fs_err err = r->err;
  const char *bytes = err == 0 ? fs_cache_pinned(&in->view, r->key, r->line, &len) : NULL;
  if (err == 0 && !bytes) err = -EIO;
  if (err == 0 && (len < b->skip || len - b->skip < b->n)) err = -EAGAIN;
  if (err == 0) memcpy(b->to, bytes + b->skip, b->n);
  fs_chan_free(fs_chan_req(ch, b->slot));
  return err;
}

fs_err fs_inside_read(struct fs_inside *in, const struct fs_opened *held, void *buf, size_t n, uint64_t off) {
  struct fs_inside_block block[FS_INSIDE_BLOCKS];
  uint32_t count = 0;
  fs_err err = n <= FS_INSIDE_BYTES ? 0 : -EINVAL;
  if (err == 0 && (off > held->own || n > held->own - off)) err = -EAGAIN;
  for (size_t done = 0; err == 0 && done < n; count++) {
    struct fs_inside_block *b = &block[count];
    b->skip = (uint32_t)((off + done) % FS_OUTPUT_BLOCK);
    b->n = (uint32_t)FS_MIN(n - done, (size_t)(FS_OUTPUT_BLOCK - b->skip));
    b->to = (char *)buf + done;
    b->slot = fs_inside_post(in, FS_OUTPUT_KEY(held->snapshot, (off + done) / FS_OUTPUT_BLOCK));
    if (b->slot == FS_CHANNEL_SLOTS) {
      err = -ETIMEDOUT;
      break;
    }
    done += b->n;
  }
  fs_inside_ring(in);
  for (uint32_t i = 0; i < count; i++) {
    fs_err got = fs_inside_collect(in, &block[i]);
    if (err == 0) err = got;
  }
  return err;
}
