/* SPDX-License-Identifier: BSD-3-Clause */
/* See channel_client.h. */
#include "channel_client.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/data_priv.h"
#include "ipc/channel.h"
#include "util/util.h"

#define BATCH 4u
#define PATIENCE_NS 60000000000ull

struct stress {
  const struct client_world *w;
  struct fs_node node;
  struct fs_link link;
  struct fs_dataset ds;
  struct fs_entry file; /* of all blocks, for reading ahead */
  struct fs_part_rec part[2];
  struct fs_block_rec records[STRESS_BLOCKS];
  struct fs_placement place[2];
  uint64_t random;
  bool patient;
  struct client_counts *counts;
};

static uint64_t pick(struct stress *s, uint64_t of) {
  return stress_random(&s->random) % of;
}

static void set_up(struct stress *s) {
  const struct client_world *w = s->w;
  s->node.ctl = w->ctl;
  s->node.view = w->view;
  s->link.socket = w->socket;
  s->link.doorbell = w->doorbell;
  for (unsigned i = 0; i < 2; i++) {
    s->place[i] = (struct fs_placement){.owner = {1}, .owners = 1};
    s->part[i].size = 4096 + STRESS_BLOCKS * STRESS_BLOCK;
  }
  for (uint32_t i = 0; i < STRESS_BLOCKS; i++)
    s->records[i] = (struct fs_block_rec){4096 + (uint64_t)i * STRESS_BLOCK, STRESS_BLOCK, i % 2, 0};
  s->file = (struct fs_entry){.mode = S_IFREG | 0444,
                              .size = (uint64_t)STRESS_BLOCKS << 16,
                              .name = FS_NAME_MAKE(0, 1, FS_CODEC_LZ4, FS_ENTRY_BLOCKS)};
  s->ds.node = &s->node;
  s->ds.placement = s->place;
  s->ds.ix = (struct fs_index){.entries = &s->file,
                               .nentries = 1,
                               .blocks = s->records,
                               .nblocks = STRESS_BLOCKS,
                               .parts = s->part,
                               .nparts = 2,
                               .block_size = 65536,
                               .block_shift = 16};
}

static bool is_block(const struct stress *s, const void *bytes, uint32_t block) {
  return memcmp(bytes, s->w->stored + (size_t)block * STRESS_BLOCK, STRESS_BLOCK) == 0;
}

struct piece {
  struct fs_piece p;
  uint32_t block;
  fs_err err;
  uint8_t bytes[STRESS_BLOCK];
};

static void submit(struct stress *s, struct piece *p, uint32_t block) {
  memset(p->bytes, 0, sizeof(p->bytes));
  p->block = block;
  p->p = (struct fs_piece){.b = {.key = FS_KEY_BLOCK | block, .stored_len = STRESS_BLOCK, .plain_len = STRESS_BLOCK},
                           .dst = p->bytes,
                           .n = STRESS_BLOCK,
                           .slot = -1};
  p->err = fs_remote_submit(&s->ds, &s->link, &p->p, 0);
}

static void collect(struct stress *s, struct piece *p) {
  bool posted = p->err == 0;
  fs_err err = posted ? fs_remote_collect(&s->ds, &s->link, &p->p) : p->err;
  if (p->block >= STRESS_BLOCKS) {
    STRESS(err == -EINVAL || err == -EAGAIN || (err == -ETIMEDOUT && !s->patient));
  } else if (err >= 0) {
    STRESS(is_block(s, p->bytes, p->block));
    s->counts->reads++;
    s->counts->hits += !posted;
  } else if (posted && err == -ETIMEDOUT && !s->patient) {
    s->counts->given_up++;
  } else {
    /* all slots in use; or its owners gave nothing, or gave something else, or there was no room */
    STRESS(posted ? err == -EREMOTEIO || err == -ENOBUFS || err == -ETIMEDOUT : err == -EAGAIN);
    s->counts->elsewhere++;
  }
}

/* Some of them are cancelled, as by a signal in the middle of a read. */
static void read_blocks(struct stress *s, uint32_t blocks, bool cancel) {
  struct piece piece[BATCH];
  for (uint32_t i = 0; i < blocks; i++) submit(s, &piece[i], (uint32_t)pick(s, STRESS_BLOCKS));
  fs_remote_ring(&s->ds, &s->link);
  for (uint32_t i = 0; i < blocks; i++) {
    if (!cancel || piece[i].err != 0 || pick(s, 2)) {
      collect(s, &piece[i]);
      continue;
    }
    if (pick(s, 2)) sched_yield();
    fs_remote_cancel(&s->link, &piece[i].p);
    s->counts->cancelled++;
  }
}

static void read_nothing(struct stress *s) {
  struct piece piece;
  submit(s, &piece, STRESS_BLOCKS + (uint32_t)pick(s, 100));
  fs_remote_ring(&s->ds, &s->link);
  collect(s, &piece);
}

static void want(struct stress *s) {
  for (uint64_t n = 1 + pick(s, 16); n > 0; n--) {
    struct fs_block b = {.key = FS_KEY_BLOCK | pick(s, STRESS_BLOCKS)};
    fs_err err = fs_remote_want(&s->ds, &s->link, &b);
    STRESS(err == 0 || err == -EAGAIN);
    s->counts->wanted += err == 0;
  }
  fs_remote_ring(&s->ds, &s->link);
}

static void ahead(struct stress *s) {
  uint64_t i = pick(s, STRESS_BLOCKS - 3);
  for (uint64_t k = 0; k < 3; k++) fs_remote_ahead(&s->ds, &s->link, 0, i + k);
  s->counts->ahead++;
}

/* A line that is pinned for longer than a copy takes. */
static void pin(struct stress *s) {
  struct fs_channel *c = s->link.channel;
  uint32_t block = (uint32_t)pick(s, STRESS_BLOCKS), len = 0;
  int32_t i = fs_chan_claim_req(c);
  if (i < 0) return;
  const void *bytes = fs_cache_pin(&s->node.view, FS_CACHE_KEY(0, FS_KEY_BLOCK | block), &c->pin[i], &len);
  if (bytes != NULL) {
    STRESS(len == STRESS_BLOCK && is_block(s, bytes, block));
    for (uint64_t n = pick(s, 8); n > 0; n--) sched_yield();
    STRESS(is_block(s, bytes, block));
    s->counts->pinned++;
  }
  fs_chan_free(fs_chan_req(c, (uint32_t)i));
}

/* A call about names that there is not: answered, and the call slot free again. */
static void call(struct stress *s) {
  struct fs_channel *c = s->link.channel;
  int32_t i = fs_chan_claim_call(c);
  if (i < 0) return;
  struct fs_call_slot *b = &c->call_slot[i];
  memset(b->body, 0xff, 256);
  b->length = 256;
  b->err = 0;
  fs_chan_post(fs_chan_call(c, (uint32_t)i));
  fs_link_ring(&s->node, &s->link);
  fs_err err = fs_wait_done(&s->node, &s->link, &b->state, s->node.deadline_ns, false);
  STRESS(err == 0 || !s->patient);
  if (err < 0 && fs_chan_abandon(&b->state)) return;
  STRESS(b->err == -EINVAL && b->length == 0);
  fs_chan_free(fs_chan_call(c, (uint32_t)i));
  s->counts->calls++;
}

void client_run(const struct client_world *w, struct fs_channel *channel, uint64_t seed, bool patient, uint64_t rounds,
                struct client_counts *counts) {
  struct stress s = {.w = w, .random = seed, .patient = patient, .counts = counts};
  set_up(&s);
  s.link.channel = channel;
  for (uint64_t i = 0; i < rounds; i++) {
    s.node.deadline_ns = patient ? PATIENCE_NS : 1 + pick(&s, 2000000);
    switch (pick(&s, 16)) {
    case 0:
      read_nothing(&s);
      break;
    case 1:
    case 2:
      want(&s);
      break;
    case 3:
      ahead(&s);
      break;
    case 4:
    case 5:
      pin(&s);
      break;
    case 6:
      call(&s);
      break;
    case 7:
    case 8:
      read_blocks(&s, 1 + (uint32_t)pick(&s, BATCH), true);
      break;
    default:
      read_blocks(&s, 1 + (uint32_t)pick(&s, BATCH), false);
    }
  }
}
