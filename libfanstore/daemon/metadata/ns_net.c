/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport of ns_net.h. MPI matches messages in order, but reports their completion in any
 * order. So each message has a number, and one that comes early waits for those before it. If a
 * number never comes, because its send failed, it is skipped after a while. The MPI thread's.
 */
#include "daemon/metadata/ns_net.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/core/chain.h"

#define FS_NS_POSTED 16u
#define FS_NS_SENDING (8u << 20) /* bytes under way at most */
#define FS_NS_SENDS 2048u        /* messages under way at most */
#define FS_NS_EARLY 1024u        /* messages of one rank that wait for earlier ones */

struct fs_ns_packet {
  struct fs_net_op op;
  struct fs_ns_net *net;
  struct fs_ns_packet *next;
  struct fs_chain chain;
  size_t bytes; /* counted from `head` */
  struct fs_wire_names head;
  alignas(8) char body[];
};
static_assert(offsetof(struct fs_ns_packet, body) == offsetof(struct fs_ns_packet, head) + sizeof(struct fs_wire_names),
              "a packet's bytes lie in one piece");

struct fs_ns_peer {
  uint64_t sent, received; /* numbers of the last messages */
  struct fs_chain early;   /* in order of their numbers */
  uint32_t waiting;
  uint64_t since; /* when the first of `early` came */
};

struct fs_ns_net {
  struct fs_net *net;
  fs_ns_net_receive *receive;
  void *ctx;
  uint64_t patience_ns, now;
  uint64_t sending, dropped;
  uint32_t sends;                /* messages under way */
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
  bool room = n->sending < FS_NS_SENDING && n->sends < FS_NS_SENDS;
  struct fs_ns_packet *p = room ? malloc(sizeof(*p) + bytes) : NULL;
  if (!p) {
    n->dropped++;
    return;
  }
  *p = (struct fs_ns_packet){.net = n, .op.done = fs_ns_sent, .bytes = sizeof(p->head) + bytes};
  p->head = (struct fs_wire_names){.magic = FS_WIRE_NAMES_MAGIC,
                                   .version = FS_WIRE_VERSION,
                                   .answer = (uint16_t)head->answer,
                                   .id = head->id,
                                   .set = head->set,
                                   .order = n->peer[to].sent + 1,
                                   .err = head->err,
                                   .length = (uint32_t)bytes};
  if (bytes > 0) memcpy(p->body, body, bytes);
  p->head.sum = fs_wire_sum(&p->head, bytes);
  n->sending += p->bytes;
  n->sends++;
  if (fs_net_send(n->net, to, FS_TAG_NAMES, &p->head, p->bytes, &p->op) == 0) {
    n->peer[to].sent++;
  } else {
    n->dropped++; /* the next message gets its number */
    fs_ns_sent(&p->op, to, 0, -ECOMM);
  }
}

/* ---- receiving ---- */

static void fs_ns_deliver(struct fs_ns_net *n, uint32_t from, const struct fs_wire_names *h) {
  struct fs_ns_message head = {.id = h->id, .set = h->set, .err = h->err, .answer = h->answer};
  n->peer[from].received = h->order;
  n->receive(n->ctx, from, &head, h + 1, h->length);
}

/* Delivers the waiting messages up to the next gap. */
static void fs_ns_catch_up(struct fs_ns_net *n, uint32_t from) {
  struct fs_ns_peer *peer = &n->peer[from];
  while (!fs_chain_empty(&peer->early)) {
    struct fs_ns_packet *p = FS_ITEM(peer->early.next, struct fs_ns_packet, chain);
    if (p->head.order > peer->received + 1) break;
    fs_chain_drop(&p->chain);
    peer->waiting--;
    peer->since = n->now;
    if (p->head.order > peer->received) fs_ns_deliver(n, from, &p->head);
    free(p);
  }
}

static void fs_ns_wait(struct fs_ns_net *n, uint32_t from, const struct fs_wire_names *h) {
  struct fs_ns_peer *peer = &n->peer[from];
  struct fs_ns_packet *copy = peer->waiting < FS_NS_EARLY ? malloc(sizeof(*copy) + h->length) : NULL;
  struct fs_chain *before = peer->early.prev;
  if (!copy) {
    n->dropped++;
    return;
  }
  memcpy(&copy->head, h, sizeof(*h) + h->length);
  while (before != &peer->early && FS_ITEM(before, struct fs_ns_packet, chain)->head.order > h->order)
    before = before->prev;
  fs_chain_push_front(before, &copy->chain);
  if (peer->waiting++ == 0) peer->since = n->now;
}

/* Returns true if the message is well-formed and fits into so many bytes. */
static bool fs_ns_sane(const struct fs_wire_names *h, size_t bytes) {
  return bytes >= sizeof(*h) && h->magic == FS_WIRE_NAMES_MAGIC && h->version == FS_WIRE_VERSION &&
         h->length <= FS_NAMES_BODY && h->length == bytes - sizeof(*h) && h->answer <= 1 &&
         h->sum == fs_wire_sum(h, h->length);
}

static void fs_ns_take(struct fs_ns_net *n, uint32_t from, const struct fs_wire_names *h) {
  if (h->order <= n->peer[from].received) {
    n->dropped++;
  } else if (h->order == n->peer[from].received + 1) {
    fs_ns_deliver(n, from, h);
    fs_ns_catch_up(n, from);
  } else {
    fs_ns_wait(n, from, h);
  }
}

static fs_err fs_ns_post(struct fs_ns_packet *p) {
  return fs_net_recv(p->net->net, FS_NET_ANY, FS_TAG_NAMES, &p->head, sizeof(p->head) + FS_NAMES_BODY, &p->op);
}

static void fs_ns_received(struct fs_net_op *op, uint32_t from, uint64_t bytes, fs_err err) {
  struct fs_ns_packet *p = FS_ITEM(op, struct fs_ns_packet, op);
  struct fs_ns_net *n = p->net;
  if (err == 0 && from < n->net->nodes && fs_ns_sane(&p->head, bytes))
    fs_ns_take(n, from, &p->head);
  else
    n->dropped++;
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
