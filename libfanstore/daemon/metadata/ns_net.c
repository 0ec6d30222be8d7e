/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport of ns_net.h. MPI matches messages in order, but reports their completion in any
 * order. So each message has a number, and one that comes early waits for those before it. If a
 * number never comes, because its send failed, it is skipped after a while.
 *
 * A message that nobody waits for is delayed, to go in one packet with the next message to the same
 * rank: the sending of a packet costs more than its contents. The MPI thread's.
 */
#include "daemon/metadata/ns_net.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/core/chain.h"

#define FS_NS_POSTED 16u
#define FS_NS_SENDING (8u << 20) /* bytes under way at most */
#define FS_NS_SENDS 2048u        /* packets under way at most */
#define FS_NS_EARLY 1024u        /* messages of one rank that wait for earlier ones */
#define FS_NS_TOGETHER 4096u     /* bytes of a packet of small messages */
#define FS_NS_KEPT_NS 100000u    /* how long the first of them waits */

struct fs_ns_packet {
  struct fs_net_op op;
  struct fs_ns_net *net;
  struct fs_ns_packet *next;
  struct fs_chain chain;
  size_t bytes;      /* counted from `head` */
  uint32_t messages; /* each with a head of its own, at a multiple of 8 bytes */
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
  struct fs_ns_packet *kept;
};

struct fs_ns_net {
  struct fs_net *net;
  fs_ns_net_receive *receive;
  void *ctx;
  uint64_t patience_ns, now;
  uint64_t sending, dropped;
  uint32_t sends;                /* packets under way */
  uint32_t keeping;              /* ranks for which a packet is delayed */
  uint64_t kept_since;           /* when the first of them was delayed; 0: not known yet */
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

static void fs_ns_go(struct fs_ns_net *n, uint32_t to, struct fs_ns_packet *p) {
  if (fs_net_send(n->net, to, FS_TAG_NAMES, &p->head, p->bytes, &p->op) == 0) return;
  n->peer[to].sent -= p->messages; /* the numbers are used again */
  n->dropped += p->messages;
  fs_ns_sent(&p->op, to, 0, -ECOMM);
}

static void fs_ns_go_kept(struct fs_ns_net *n, uint32_t to) {
  struct fs_ns_packet *p = n->peer[to].kept;
  if (!p) return;
  n->peer[to].kept = NULL;
  n->keeping--;
  fs_ns_go(n, to, p);
}

static struct fs_ns_packet *fs_ns_packet(struct fs_ns_net *n, size_t room) {
  struct fs_ns_packet *p = n->sending < FS_NS_SENDING && n->sends < FS_NS_SENDS ? malloc(sizeof(*p) + room) : NULL;
  if (!p) return NULL;
  *p = (struct fs_ns_packet){.net = n, .op.done = fs_ns_sent};
  n->sends++;
  return p;
}

static void fs_ns_add(struct fs_ns_packet *p, uint64_t order, const struct fs_ns_message *head, const void *body,
                      size_t bytes) {
  struct fs_wire_names h = {.magic = FS_WIRE_NAMES_MAGIC,
                            .version = FS_WIRE_VERSION,
                            .answer = (uint16_t)head->answer,
                            .id = head->id,
                            .set = head->set,
                            .order = order,
                            .err = head->err,
                            .length = (uint32_t)bytes};
  size_t at = fs_round_up(p->bytes, 8), grown = at + sizeof(h) + bytes - p->bytes;
  char *to = (char *)&p->head;
  memset(to + p->bytes, 0, at - p->bytes);
  memcpy(to + at, &h, sizeof(h));
  if (bytes > 0) memcpy(to + at + sizeof(h), body, bytes);
  h.sum = fs_wire_sum(to + at, bytes);
  memcpy(to + at + offsetof(struct fs_wire_names, sum), &h.sum, sizeof(h.sum));
  p->bytes += grown;
  p->net->sending += grown;
  p->messages++;
}

void fs_ns_net_send(struct fs_ns_net *n, uint32_t to, const struct fs_ns_message *head, const void *body,
                    size_t bytes) {
  struct fs_ns_peer *peer = &n->peer[to];
  size_t room = sizeof(struct fs_wire_names) + fs_round_up(bytes, 8);
  bool small = room <= FS_NS_TOGETHER / 4;
  if (peer->kept && peer->kept->bytes + room > FS_NS_TOGETHER) fs_ns_go_kept(n, to);
  struct fs_ns_packet *p = peer->kept ? peer->kept : fs_ns_packet(n, head->later && small ? FS_NS_TOGETHER : bytes);
  if (!p) {
    n->dropped++;
    return;
  }
  fs_ns_add(p, ++peer->sent, head, body, bytes);
  if (!peer->kept) n->keeping++;
  if (n->keeping == 1 && !peer->kept) n->kept_since = 0;
  peer->kept = p;
  if (!head->later || !small) fs_ns_go_kept(n, to);
}

void fs_ns_net_flush(struct fs_ns_net *n, uint64_t now, bool all) {
  if (n->keeping == 0) return;
  if (n->kept_since == 0) n->kept_since = now;
  if (!all && now - n->kept_since < FS_NS_KEPT_NS) return;
  for (uint32_t i = 0; i < n->net->nodes; i++) fs_ns_go_kept(n, i);
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
         h->length <= FS_NAMES_BODY && h->length <= bytes - sizeof(*h) && h->answer <= 1 &&
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
  bool good = err == 0 && from < n->net->nodes && bytes > 0;
  for (size_t at = 0; good && at < bytes;) {
    const struct fs_wire_names *h = (const void *)((const char *)&p->head + at);
    good = fs_ns_sane(h, bytes - at);
    if (!good) break;
    fs_ns_take(n, from, h);
    at += fs_round_up(sizeof(*h) + h->length, 8);
  }
  if (!good) n->dropped++;
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
