/* SPDX-License-Identifier: BSD-3-Clause */
/* See calls.h. ipc/channel.h has the protocol of a call slot. */
#include "client/names/calls.h"

#include <string.h>

#include "client/data_priv.h"
#include "ipc/channel.h"
#include "util/util.h"

#define FS_REPLICA_NS 60000000000ull
#define FS_REPLICA_BYTE_NS 100u           /* 10 MB/s */
#define FS_REPLICA_BYTES_MAX (1ull << 40) /* counted at most: files may be sparse */

const struct fs_node *fs_names_node(void) {
  const struct fs_node *node = fs_mounts_read_only() ? NULL : fs_node_attach();
  return node && !(node->ctl->flags & FS_CTL_READ_ONLY) ? node : NULL;
}

uint32_t fs_names_rank(const struct fs_node *node) {
  return node->ctl->node;
}

static void fs_call_slot_post(struct fs_channel *ch, uint32_t i, const struct fs_names_call *c, const char *name,
                              const char *name2) {
  struct fs_call_slot *b = &ch->call_slot[i];
  memcpy(b->body, c, sizeof(*c));
  b->length = (uint32_t)fs_call_put((void *)b->body, name, c->tail_len, name2, c->tail2_len);
  fs_chan_post(fs_chan_call(ch, i));
}

/* Takes the daemon's answer, which is as untrusted as any shared memory. */
static fs_err fs_call_slot_take(const struct fs_call_slot *b, void *body, size_t size, size_t *n) {
  int32_t err = *(volatile const int32_t *)&b->err;
  *n = FS_MIN(FS_MIN(*(volatile const uint32_t *)&b->length, FS_NAMES_BODY), size);
  if (*n > 0) memcpy(body, b->body, *n);
  return err > 0 || err < -4095 ? -EIO : err;
}

static bool fs_no_answer(fs_err err) {
  return err == -ETIMEDOUT || err == -EHOSTDOWN || err == -ESHUTDOWN;
}

/* When a node dies, the daemons repeat a call for up to two of the job's deadlines. If a replica is
   made first, all bytes have to go to another node's disk, which may be slow. */
uint64_t fs_names_patience(const struct fs_node *node, const struct fs_names_call *c) {
  uint64_t bytes, patience = (fs_call_op(c)->queues ? 4 : 2) * node->deadline_ns;
  if (!(node->ctl->flags & FS_CTL_REPLICAS) || !fs_call_bytes(c, &bytes)) return patience;
  return patience + FS_REPLICA_NS + FS_MIN(bytes, FS_REPLICA_BYTES_MAX) * FS_REPLICA_BYTE_NS;
}

/* Makes the call by a link. Sets *answered if the error is the daemon's answer about other
   nodes. */
static fs_err fs_call_by(const struct fs_node *node, struct fs_link *link, const struct fs_names_call *c,
                         const char *name, const char *name2, void *body, size_t size, size_t *n, bool *answered) {
  uint64_t patience = fs_names_patience(node, c);
  struct fs_channel *ch = link->channel;
  if (!fs_wait_alive(node, link)) return -EHOSTDOWN;
  struct fs_slot_wait wait = {0};
  int32_t claimed;
  while ((claimed = fs_chan_claim_call(ch)) < 0 && fs_wait_slot(&wait, patience)) continue;
  if (claimed < 0) return -ETIMEDOUT;
  uint32_t i = (uint32_t)claimed;
  fs_call_slot_post(ch, i, c, name, name2);
  fs_timing_slow(fs_now_ns());
  fs_link_ring(node, link);
  bool signals = c->flags & fs_call_op(c)->signals;
  fs_err err = fs_wait_done(node, link, &ch->call_slot[i].state, patience, signals);
  if (err < 0 && fs_chan_abandon(&ch->call_slot[i].state)) {
    if (fs_link_dead(link)) fs_chan_free(fs_chan_call(ch, i));
    return err;
  }
  err = fs_call_slot_take(&ch->call_slot[i], body, size, n);
  fs_chan_free(fs_chan_call(ch, i));
  *answered = true;
  return err;
}

/* Returns whether this process or its parent has told of that node already: one line for each node
   that does not answer. */
static bool fs_names_told(uint32_t rank) {
  static _Atomic uint64_t told[FS_MAX_NODES / 64 + 1];
  rank = FS_MIN(rank, FS_MAX_NODES);
  return atomic_fetch_or(&told[rank / 64], 1ull << rank % 64) >> rank % 64 & 1;
}

/* Returns why this process's own daemon does not answer. */
static const char *fs_own_why(const struct fs_node *node, const struct fs_link *link) {
  fs_err err = fs_attach_failed();
  if (link ? atomic_load_explicit(&node->ctl->stopping, memory_order_relaxed) != 0 : err == -ESHUTDOWN)
    return "ends with the job";
  bool refused = err == -ECONNREFUSED || err == -ENOENT || err == -ECONNRESET || err == -EPIPE;
  if (link ? fs_link_known_dead(link) : refused) return "has ended";
  if (link || err == -ETIMEDOUT) return "does not answer";
  if (err == -EPROTONOSUPPORT) return "is of another version";
  if (err == -EACCES || err == -EPERM) return "is another user's (run the program as the user of the job)";
  return err == -EUSERS ? "has too many clients" : "cannot be asked";
}

fs_err fs_names_lost(const struct fs_node *node, struct fs_link *link) {
  char own[FS_U64_TEXT];
  if (link) (void)fs_link_dead(link);
  if (!(node->offline && fs_run_unseen()) && !fs_names_told(node->ctl->node))
    FS_NOTE("the daemon of node ", fs_u64_text(node->ctl->node, own), ", this program's own, ", fs_own_why(node, link),
            "; output files cannot be found, made or changed by this program (EIO), the dataset can be read");
  return -EIO;
}

/* Tells the user that the node's daemon has answered that another one does not. */
static fs_err fs_names_lost_by(const struct fs_node *node, fs_err err, const void *body, size_t n) {
  char other[FS_U64_TEXT], own[FS_U64_TEXT];
  uint32_t rank = FS_MAX_NODES;
  if (n == sizeof(rank)) memcpy(&rank, body, n);
  if (fs_names_told(rank)) return -EIO;
  if (rank < FS_MAX_NODES)
    FS_NOTE("node ", fs_u64_text(rank, other), " does not answer node ", fs_u64_text(node->ctl->node, own),
            "; what it has or knows of output files cannot be read, found or changed (EIO)");
  else
    FS_NOTE("the daemon of node ", fs_u64_text(node->ctl->node, own), " has no answer about output files (",
            err == -EHOSTDOWN ? "another one does not answer" : fs_err_text(err),
            "); they cannot be found, made or changed (EIO)");
  return -EIO;
}

static fs_err fs_call_once(const struct fs_names_call *c, const char *name, const char *name2, void *body, size_t size,
                           size_t *n, int32_t process) {
  const struct fs_node *node = fs_names_node();
  struct fs_link borrowed, *link = node ? fs_link_get() : NULL, *mine = NULL;
  bool answered = false;
  *n = 0;
  if (!node) return -EROFS;
  if (!link) link = mine = fs_link_borrow(&borrowed);
  if (node->offline && link) node = fs_node_attach(); /* the daemon was met a moment ago */
  fs_err err = link ? fs_call_by(node, link, c, name, name2, body, size, n, &answered) : -EHOSTDOWN;
  if (fs_no_answer(err) && fs_self_process() == process) {
    err = answered ? fs_names_lost_by(node, err, body, *n) : fs_names_lost(node, link);
    *n = 0;
  }
  if (mine) fs_link_return(mine);
  return err;
}

bool fs_names_tell(uint64_t word) {
  const struct fs_node *node = fs_names_node();
  const struct fs_link *link = node && !node->offline ? fs_link_get() : NULL;
  struct fs_channel *c = link ? link->channel : NULL;
  if (!c || !fs_node_alive(node) || fs_link_known_dead(link)) return false;
  uint32_t waiting = atomic_load_explicit(&c->prefetch_head, memory_order_relaxed) -
                     atomic_load_explicit(&c->prefetch_tail, memory_order_relaxed);
  return waiting < FS_PREFETCH_RING / 4 && fs_chan_want(c, word);
}

/* Repeats the call in a child that a signal handler forked in the middle of it. The answer is in
   the parent's channel, and the child asks by its own. */
fs_err fs_names_call(const struct fs_names_call *c, const char *name, const char *name2, void *body, size_t size,
                     size_t *n) {
  for (;;) {
    int32_t process = fs_self_process();
    fs_err err = fs_call_once(c, name, name2, body, size, n, process);
    if (FS_LIKELY(fs_self_process() == process)) return err;
    if (!fs_call_op(c)->not_twice) continue;
    *n = 0;
    /* What the parent has open, the parent gives back. */
    return fs_call_op(c)->not_later ? 0 : -EIO;
  }
}

fs_err fs_names_ask(const struct fs_names_call *c, const char *name, const char *name2, struct fs_answer *a,
                    const struct fs_record **record) {
  size_t at = 0;
  fs_err err = fs_names_call(c, name, name2, a->body, sizeof(a->body), &a->n);
  *record = a->n > 0 ? fs_record_next(a->body, a->n, &at) : NULL;
  return err == 0 && a->n > 0 && !*record ? -EIO : err;
}

static uint64_t fs_id_once(void) {
  struct fs_link borrowed, *link = fs_link_get();
  if (!link && fs_link_borrow(&borrowed)) { /* the daemon gives each link numbers of its own */
    uint64_t id = *(volatile const uint64_t *)&borrowed.channel->first_id;
    fs_link_return(&borrowed);
    return id;
  }
  const struct fs_node *node = link ? NULL : fs_names_node();
  if (node) (void)fs_names_lost(node, NULL);
  uint64_t first = link ? *(volatile const uint64_t *)&link->channel->first_id : 0;
  uint64_t count = link ? atomic_fetch_add_explicit(&link->files, 1, memory_order_relaxed) : 0;
  return first != 0 && count < FS_OUTPUT_ID_FILES ? first + count : 0;
}

/* Asks again in a child that a signal handler forked in the middle of it, because the number may be
   its parent's. */
uint64_t fs_names_id(void) {
  for (;;) {
    int32_t process = fs_self_process();
    uint64_t id = fs_id_once();
    if (FS_LIKELY(fs_self_process() == process)) return id;
  }
}
