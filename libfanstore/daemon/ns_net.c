/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See ns_net.h. MPI matches messages in order, but tells of what is complete in any order; so each carries a number,
 * and one that comes early waits for those before it. A number that never comes (its send failed) is passed over in
 * time.
 */
#include "daemon/ns_net.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/chain.h"

#define FS_NS_POSTED 16u
#define FS_NS_SENDING (8u << 20) /* bytes under way */
#define FS_NS_SENDS 2048u        /* messages under way */
#define FS_NS_EARLY 1024u        /* messages that wait, of one rank */

struct fs_ns_packet {
  struct fs_net_op op;
  struct fs_ns_net *net;
  struct fs_ns_packet *next;
  struct fs_chain chain;
  size_t bytes;
  struct fs_wire_names head;
  alignas(8) char body[];
};

struct fs_ns_peer {
  uint64_t sent, received; /* numbers of the last ones */
  struct fs_chain early;   /* in order of their numbers */
  uint32_t waiting;
  uint64_t since; /* when the first of them came */
};

struct fs_ns_net {
  struct fs_net *net;
  fs_ns_net_receive *receive;
  void *ctx;
  uint64_t patience_ns, now;
  uint64_t sending, dropped;
  uint32_t sends;                /* under way */
  struct fs_ns_packet *unposted; /* receives that the network had no room for, by `next` */
  struct fs_ns_peer peer[];
};

/* ---- sending ---- */

static void fs_ns_sent(struct fs_net_op *op, uint32_t peer, uint64_t bytes, fs_err err) {
  struct fs_ns_packet *p = FS_ITEM(op, struct fs_ns_packet, op);
  (void)peer, (void)bytes, (void)err;
  p->net->sending -= p->bytes;
  p->net->sends--;
  free(p);
}

void fs_ns_net_send(struct fs_ns_net *n, uint32_t to, const struct fs_ns_message *head, const void *body,
                    size_t bytes) {
  struct fs_ns_packet *p = n->sending < FS_NS_SENDING && n->sends < FS_NS_SENDS ? malloc(sizeof(*p) + bytes) : NULL;
  if (!p) {
    n->dropped++;
    return;
  }
  p->op.done = fs_ns_sent;
  p->net = n;
  p->bytes = bytes;
  p->head = (struct fs_wire_names){.magic = FS_WIRE_NAMES_MAGIC,
                                   .version = FS_WIRE_VERSION,
                                   .answer = (uint16_t)head->answer,
                                   .id = head->id,
                                   .set = head->set,
                                   .order = ++n->peer[to].sent,
                                   .err = head->err,
                                   .length = (uint32_t)bytes};
  if (bytes > 0) memcpy(p->body, body, bytes);
  n->sending += bytes;
  n->sends++;
  if (fs_net_send(n->net, to, FS_TAG_NAMES, &p->head, sizeof(p->head) + bytes, &p->op) < 0) {
    n->peer[to].sent--; /* as if it had never been */
    n->dropped++;
    fs_ns_sent(&p->op, to, 0, -ECOMM);
  }
}

/* ---- receiving ---- */

static void fs_ns_deliver(struct fs_ns_net *n, uint32_t from, const struct fs_ns_packet *p) {
  struct fs_ns_message head = {.id = p->head.id, .set = p->head.set, .err = p->head.err, .answer = p->head.answer};
  n->peer[from].received = p->head.order;
  n->receive(n->ctx, from, &head, p->body, p->head.length);
}

/* Those that waited, as far as there is no gap. */
static void fs_ns_catch_up(struct fs_ns_net *n, uint32_t from) {
  struct fs_ns_peer *peer = &n->peer[from];
  while (!fs_chain_empty(&peer->early)) {
    struct fs_ns_packet *p = FS_ITEM(peer->early.next, struct fs_ns_packet, chain);
    if (p->head.order > peer->received + 1) break;
    fs_chain_drop(&p->chain);
    peer->waiting--;
    peer->since = n->now;
    if (p->head.order > peer->received) fs_ns_deliver(n, from, p);
    free(p);
  }
}

static void fs_ns_wait(struct fs_ns_net *n, uint32_t from, const struct fs_ns_packet *p) {
  struct fs_ns_peer *peer = &n->peer[from];
  struct fs_ns_packet *copy = peer->waiting < FS_NS_EARLY ? malloc(sizeof(*copy) + p->head.length) : NULL;
  struct fs_chain *before = peer->early.prev;
  if (!copy) {
    n->dropped++;
    return;
  }
  memcpy(copy, p, sizeof(*copy) + p->head.length);
  while (before != &peer->early && FS_ITEM(before, struct fs_ns_packet, chain)->head.order > p->head.order)
    before = before->prev;
  fs_chain_push_front(before, &copy->chain);
  if (peer->waiting++ == 0) peer->since = n->now;
}

static bool fs_ns_sane(const struct fs_ns_net *n, const struct fs_ns_packet *p, uint32_t from, uint64_t bytes) {
  const struct fs_wire_names *h = &p->head;
  return from < n->net->nodes && bytes >= sizeof(*h) && h->magic == FS_WIRE_NAMES_MAGIC &&
         h->version == FS_WIRE_VERSION && h->length <= FS_NAMES_BODY && bytes == sizeof(*h) + h->length &&
         h->answer <= 1;
}

static fs_err fs_ns_post(struct fs_ns_packet *p) {
  return fs_net_recv(p->net->net, FS_NET_ANY, FS_TAG_NAMES, &p->head, sizeof(p->head) + FS_NAMES_BODY, &p->op);
}

static void fs_ns_received(struct fs_net_op *op, uint32_t from, uint64_t bytes, fs_err err) {
  struct fs_ns_packet *p = FS_ITEM(op, struct fs_ns_packet, op);
  struct fs_ns_net *n = p->net;
  if (err != 0 || !fs_ns_sane(n, p, from, bytes) || p->head.order <= n->peer[from].received) {
    n->dropped++;
  } else if (p->head.order == n->peer[from].received + 1) {
    fs_ns_deliver(n, from, p);
    fs_ns_catch_up(n, from);
  } else {
    fs_ns_wait(n, from, p);
  }
  if (fs_ns_post(p) == 0) return;
  p->next = n->unposted;
  n->unposted = p;
}

void fs_ns_net_timers(struct fs_ns_net *n, uint64_t now) {
  n->now = now;
  while (n->unposted && fs_ns_post(n->unposted) == 0) n->unposted = n->unposted->next;
  for (uint32_t i = 0; i < n->net->nodes; i++) {
    struct fs_ns_peer *peer = &n->peer[i];
    if (peer->waiting == 0 || now - peer->since < n->patience_ns) continue;
    peer->received = FS_ITEM(peer->early.next, struct fs_ns_packet, chain)->head.order - 1;
    fs_ns_catch_up(n, i);
  }
}

uint64_t fs_ns_net_dropped(const struct fs_ns_net *n) {
  return n->dropped;
}

fs_err fs_ns_net_new(struct fs_ns_net **out, struct fs_net *net, uint64_t deadline_ns, fs_ns_net_receive *receive,
                     void *ctx) {
  struct fs_ns_net *n = calloc(1, sizeof(*n) + net->nodes * sizeof(n->peer[0]));
  if (!n) return -ENOMEM;
  *n = (struct fs_ns_net){.net = net, .receive = receive, .ctx = ctx, .patience_ns = deadline_ns / 2};
  for (uint32_t i = 0; i < net->nodes; i++) fs_chain_init(&n->peer[i].early);
  *out = n;
  for (uint32_t i = 0; i < FS_NS_POSTED; i++) {
    struct fs_ns_packet *p = calloc(1, sizeof(*p) + FS_NAMES_BODY);
    if (!p) return -ENOMEM;
    p->op.done = fs_ns_received;
    p->net = n;
    fs_err err = fs_ns_post(p);
    if (err < 0) return err;
  }
  return 0;
}
