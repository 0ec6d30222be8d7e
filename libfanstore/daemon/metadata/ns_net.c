/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport of ns_net.h. What is to be sent to a rank in one round of the loop goes as one
 * packet. MPI matches packets in order, but reports their completion in any order. So each message
 * has a number, and one that comes early waits for those before it. If a number never comes,
 * because its packet was lost, it is skipped after a while. The MPI thread's.
 */
#include "daemon/metadata/ns_net.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/core/chain.h"

#define FS_NS_POSTED 16u
#define FS_NS_SENDING (8u << 20) /* bytes under way at most */
#define FS_NS_SENDS 2048u        /* packets that are filled or under way, at most */
#define FS_NS_PACKET (sizeof(struct fs_wire_names) + FS_NAMES_BODY)
#define FS_NS_EARLY FS_NS_SENDING /* bytes of one rank that wait for earlier ones, at most */

struct fs_ns_packet {
  struct fs_net_op op;
  struct fs_ns_net *net;
  struct fs_ns_packet *next;
  struct fs_chain chain; /* of packets that are being filled, or of messages that came early */
  uint32_t to;
  size_t bytes;
  uint64_t first; /* the first message's number */
  alignas(8) char data[];
};

struct fs_ns_peer {
  uint64_t sent, received;      /* numbers of the last messages */
  struct fs_chain early;        /* in order of their numbers */
  uint64_t waiting;             /* bytes of these */
  uint64_t since;               /* when the first of `early` came */
  struct fs_ns_packet *filling; /* what is to be sent with the next flush */
};

struct fs_ns_net {
  struct fs_net *net;
  fs_ns_net_receive *receive;
  void *ctx;
  uint64_t patience_ns, now;
  uint64_t sending, dropped;
  uint32_t sends;                /* packets that are filled or under way */
  struct fs_chain filling;       /* in the order of their first messages */
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

/* Sends a packet. If that fails, the next messages get its numbers. */
static void fs_ns_packet_send(struct fs_ns_net *n, struct fs_ns_packet *p) {
  struct fs_ns_peer *peer = &n->peer[p->to];
  fs_chain_drop(&p->chain);
  peer->filling = NULL;
  struct fs_ns_packet *small = realloc(p, sizeof(*p) + p->bytes);
  if (small) p = small;
  if (fs_net_send(n->net, p->to, FS_TAG_NAMES, p->data, p->bytes, &p->op) == 0) return;
  n->dropped += peer->sent + 1 - p->first;
  peer->sent = p->first - 1;
  fs_ns_sent(&p->op, p->to, 0, -ECOMM);
}

void fs_ns_net_flush(struct fs_ns_net *n) {
  while (!fs_chain_empty(&n->filling)) fs_ns_packet_send(n, FS_ITEM(n->filling.next, struct fs_ns_packet, chain));
}

/* Returns the packet to this rank that has room for so many bytes more, or NULL. */
static struct fs_ns_packet *fs_ns_packet_to(struct fs_ns_net *n, uint32_t to, size_t bytes) {
  struct fs_ns_peer *peer = &n->peer[to];
  if (peer->filling && peer->filling->bytes + bytes > FS_NS_PACKET) fs_ns_packet_send(n, peer->filling);
  if (n->sending + bytes > FS_NS_SENDING) return NULL;
  if (peer->filling) return peer->filling;
  struct fs_ns_packet *p = n->sends < FS_NS_SENDS ? malloc(sizeof(*p) + FS_NS_PACKET) : NULL;
  if (!p) return NULL;
  *p = (struct fs_ns_packet){.net = n, .op.done = fs_ns_sent, .to = to, .first = peer->sent + 1};
  fs_chain_push(&n->filling, &p->chain);
  n->sends++;
  peer->filling = p;
  return p;
}

void fs_ns_net_send(struct fs_ns_net *n, uint32_t to, const struct fs_ns_message *head, const void *body,
                    size_t bytes) {
  size_t all = fs_wire_names_size((uint32_t)bytes);
  struct fs_ns_packet *p = fs_ns_packet_to(n, to, all);
  if (!p) {
    n->dropped++;
    return;
  }
  struct fs_wire_names *h = (void *)(p->data + p->bytes);
  *h = (struct fs_wire_names){.magic = FS_WIRE_NAMES_MAGIC,
                              .version = FS_WIRE_VERSION,
                              .answer = (uint16_t)head->answer,
                              .id = head->id,
                              .set = head->set,
                              .order = ++n->peer[to].sent,
                              .err = head->err,
                              .length = (uint32_t)bytes};
  if (bytes > 0) memcpy(h + 1, body, bytes);
  memset((char *)(h + 1) + bytes, 0, all - sizeof(*h) - bytes);
  h->sum = fs_wire_sum(h, bytes);
  p->bytes += all;
  n->sending += all;
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
    if (p->first > peer->received + 1) break;
    fs_chain_drop(&p->chain);
    peer->waiting -= p->bytes;
    peer->since = n->now;
    if (p->first > peer->received) fs_ns_deliver(n, from, (const void *)p->data);
    free(p);
  }
}

static void fs_ns_wait(struct fs_ns_net *n, uint32_t from, const struct fs_wire_names *h) {
  struct fs_ns_peer *peer = &n->peer[from];
  size_t bytes = sizeof(*h) + h->length;
  struct fs_ns_packet *copy = peer->waiting + bytes <= FS_NS_EARLY ? malloc(sizeof(*copy) + bytes) : NULL;
  struct fs_chain *before = peer->early.prev;
  if (!copy) {
    n->dropped++;
    return;
  }
  copy->first = h->order;
  copy->bytes = bytes;
  memcpy(copy->data, h, bytes);
  while (before != &peer->early && FS_ITEM(before, struct fs_ns_packet, chain)->first > h->order) before = before->prev;
  fs_chain_push_front(before, &copy->chain);
  if (peer->waiting == 0) peer->since = n->now;
  peer->waiting += bytes;
}

/* Returns true if the message at h is well-formed and ends within so many bytes. */
static bool fs_ns_sane(const struct fs_wire_names *h, size_t bytes) {
  return bytes >= sizeof(*h) && h->magic == FS_WIRE_NAMES_MAGIC && h->version == FS_WIRE_VERSION &&
         h->length <= FS_NAMES_BODY && fs_wire_names_size(h->length) <= bytes && h->answer <= 1 &&
         h->sum == fs_wire_sum(h, h->length);
}

/* Returns true if a packet is nothing but well-formed messages. Of another one, none is believed. */
static bool fs_ns_packet_sane(const struct fs_ns_packet *p, size_t bytes) {
  size_t at = 0;
  const struct fs_wire_names *h;
  for (; at < bytes; at += fs_wire_names_size(h->length)) {
    h = (const void *)(p->data + at);
    if (!fs_ns_sane(h, bytes - at)) return false;
  }
  return bytes > 0;
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
  return fs_net_recv(p->net->net, FS_NET_ANY, FS_TAG_NAMES, p->data, FS_NS_PACKET, &p->op);
}

static void fs_ns_received(struct fs_net_op *op, uint32_t from, uint64_t bytes, fs_err err) {
  struct fs_ns_packet *p = FS_ITEM(op, struct fs_ns_packet, op);
  struct fs_ns_net *n = p->net;
  const struct fs_wire_names *h;
  bool sane = err == 0 && from < n->net->nodes && fs_ns_packet_sane(p, bytes);
  if (!sane) n->dropped++;
  for (size_t at = 0; sane && at < bytes; at += fs_wire_names_size(h->length)) {
    h = (const void *)(p->data + at);
    fs_ns_take(n, from, h);
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
    peer->received = FS_ITEM(peer->early.next, struct fs_ns_packet, chain)->first - 1;
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
  fs_chain_init(&n->filling);
  for (uint32_t i = 0; i < net->nodes; i++) fs_chain_init(&n->peer[i].early);
  *out = n;
  for (uint32_t i = 0; i < FS_NS_POSTED; i++) {
    struct fs_ns_packet *p = calloc(1, sizeof(*p) + FS_NS_PACKET);
    if (!p) return -ENOMEM;
    p->op.done = fs_ns_received;
    p->net = n;
    fs_err err = fs_ns_post(p);
    if (err < 0) return err;
  }
  return 0;
}
