/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between the ranks of fanstore-pack: making, sending, receiving and reading them, and the
 * turn in which all of a rank's work is done. A message to the own rank takes no network. All in the
 * main thread, which opened MPI.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lead.h"

#define TAG 1u
#define ALIVE_NS (2 * FS_NS_PER_S)
#define CUT_NS (3 * FS_NS_PER_S)
#define NAP_NS 100000
#define TELLS_NS 400000000ull

struct receive {
  struct fs_net_op op;
  struct fs_nodes *nodes;
  uint8_t *data;
};

static struct fs_nodes *self; /* fs_net's call-backs have no context of ours */
/* One at a time: of several that wait, a short message may be there before a long one that was sent
   earlier. */
static struct receive receive;

struct fs_msg *fs_msg_new(enum fs_nodes_kind kind) {
  struct fs_msg *m = calloc(1, sizeof *m);
  fs_msg_u32(m, kind);
  return m;
}

void fs_msg_put(struct fs_msg *m, const void *data, size_t n) {
  if (m == NULL || m->failed || n == 0) return;
  if (m->n + n > m->room) {
    size_t room = FS_MAX(m->room * 2, m->n + n + 64);
    uint8_t *grown = realloc(m->data, room);
    m->failed = grown == NULL;
    if (grown == NULL) return;
    m->data = grown;
    m->room = room;
  }
  memcpy(m->data + m->n, data, n);
  m->n += n;
}

void fs_msg_u32(struct fs_msg *m, uint32_t value) {
  fs_msg_put(m, &value, sizeof value);
}

void fs_msg_u64(struct fs_msg *m, uint64_t value) {
  fs_msg_put(m, &value, sizeof value);
}

void fs_msg_text(struct fs_msg *m, const char *text) {
  uint32_t n = (uint32_t)strlen(text) + 1;
  fs_msg_u32(m, n);
  fs_msg_put(m, text, n);
}

void fs_msg_patch_u32(struct fs_msg *m, size_t at, uint32_t value) {
  if (m != NULL && !m->failed) memcpy(m->data + at, &value, sizeof value);
}

void fs_msg_free(struct fs_msg *m) {
  if (m != NULL) free(m->data);
  free(m);
}

const void *fs_in_get(struct fs_in *in, size_t n) {
  if (in->bad || n > in->n - in->at) {
    in->bad = true;
    return NULL;
  }
  const void *at = in->data + in->at;
  in->at += n;
  return at;
}

uint32_t fs_in_u32(struct fs_in *in) {
  uint32_t value = 0;
  const void *at = fs_in_get(in, sizeof value);
  if (at != NULL) memcpy(&value, at, sizeof value);
  return value;
}

uint64_t fs_in_u64(struct fs_in *in) {
  uint64_t value = 0;
  const void *at = fs_in_get(in, sizeof value);
  if (at != NULL) memcpy(&value, at, sizeof value);
  return value;
}

const char *fs_in_text(struct fs_in *in) {
  uint32_t n = fs_in_u32(in);
  const char *text = fs_in_get(in, n);
  if (text == NULL || n == 0 || memchr(text, '\0', n) != text + n - 1) in->bad = true;
  return in->bad ? "" : text;
}

bool fs_in_name_ok(const char *name, size_t n) {
  return n != 0 && n <= FS_NAME_MAX && memchr(name, '/', n) == NULL && !(n <= 2 && memcmp(name, "..", n) == 0);
}

const char *fs_in_path(struct fs_in *in) {
  const char *path = fs_in_text(in), *at = path;
  if (strlen(path) >= PATH_MAX) in->bad = true;
  while (*at != '\0' && !in->bad) {
    const size_t n = strcspn(at, "/");
    at += n;
    if (!fs_in_name_ok(at - n, n) || (*at == '/' && *++at == '\0')) in->bad = true;
  }
  return in->bad ? "" : path;
}

/* Notes that a rank cannot be reached. If it was killed, mpirun says so and ends this one too; a line
   of ours would hide that. So it comes later (CUT_NS). */
static void cut(struct fs_nodes *n, uint32_t peer, fs_err err) {
  if (n->cut_ns != 0) return;
  n->cut_ns = fs_now_ns();
  n->cut_from = peer;
  n->cut_err = err;
  const char *host = n->lead != NULL && peer < n->nodes ? n->lead->peer[peer].host : "";
  /* Not one of our lines: fs-launch shows it if mpirun ends without a better reason. */
  fprintf(stderr, "node %u (%s): no connection to node %u%s%s%s: %s\n", n->rank, n->host, peer, *host ? " (" : "", host,
          *host ? ")" : "", strerror(-err));
}

static fs_err tell_cut(struct fs_nodes *n) {
  if (n->cut_ns == 0 || fs_now_ns() < n->cut_ns + CUT_NS) return 0;
  bool to_lead = n->rank != 0 && n->cut_from == 0;
  n->cut_ns = UINT64_MAX / 2; /* once */
  if (to_lead) fs_say("node %u (%s): no connection to node 0: %s", n->rank, n->host, strerror(-n->cut_err));
  if (to_lead) return n->err = -ECONNABORTED;
  return fs_nodes_fail(n, "node %u (%s): no connection to node %u: %s; look at its host and network", n->rank, n->host,
                       n->cut_from, strerror(-n->cut_err));
}

static void handle(struct fs_nodes *n, uint32_t from, const uint8_t *data, size_t bytes) {
  struct fs_in in = {.data = data, .n = bytes};
  uint32_t kind = fs_in_u32(&in);
  n->moved = true;
  if (from >= n->nodes) return;
  n->heard_ns[from] = fs_now_ns();
  if ((n->leaving || n->err < 0) && kind != FS_NODES_END) return;
  if (in.bad || kind >= FS_NODES_KINDS || n->handler[kind] == NULL) {
    fs_nodes_fail(n, "node %u (%s): a message of an unknown kind came from node %u; install one FanStore on all nodes",
                  n->rank, n->host, from);
    return;
  }
  fs_err err = n->handler[kind](n, from, &in);
  if (err == 0 && in.bad) err = -EPROTO;
  if (err < 0 && n->err == 0)
    fs_nodes_fail(n, "node %u (%s): a message from node %u cannot be used: %s", n->rank, n->host, from, strerror(-err));
}

/* Returns the size of the largest message. An update takes the block size from the dataset. */
static size_t receive_size(const struct fs_pack_options *o) {
  const size_t most = FS_MAX(o->update ? FS_BLOCK_SIZE_MAX : o->block_size, FS_BATCH_BYTES);
  return most + most / 128 + (1u << 20);
}

static void received(struct fs_net_op *op, uint32_t peer, uint64_t bytes, fs_err err) {
  struct receive *r = (struct receive *)op;
  struct fs_nodes *n = r->nodes;
  if (err == 0) handle(n, peer, r->data, bytes);
  if (err == 0) err = fs_net_recv(n->net, FS_NET_ANY, TAG, r->data, n->most, op);
  if (err < 0) cut(n, peer, err);
}

static void sent(struct fs_net_op *op, uint32_t peer, uint64_t bytes, fs_err err) {
  const uint32_t to = ((struct fs_msg *)op)->to; /* of a send that failed, MPI does not tell it */
  (void)peer, (void)bytes;
  fs_msg_free((struct fs_msg *)op);
  self->sending--;
  self->moved = true;
  if (err < 0) cut(self, to, err);
}

fs_err fs_nodes_open(struct fs_nodes *n, struct fs_net *net) {
  self = n;
  n->net = net;
  n->rank = net->rank;
  n->nodes = net->nodes;
  n->own_last = &n->own;
  n->parent = getppid();
  n->heard_ns = calloc(n->nodes, sizeof *n->heard_ns);
  gethostname(n->host, sizeof n->host - 1);
  fs_err err = n->heard_ns != NULL ? 0 : -ENOMEM;
  if (err < 0) return err;
  n->most = receive_size(&n->o);
  receive = (struct receive){.op.done = received, .nodes = n, .data = malloc(n->most)};
  if (receive.data == NULL) return -ENOMEM;
  return fs_net_recv(net, FS_NET_ANY, TAG, receive.data, n->most, &receive.op);
}

void fs_nodes_send(struct fs_nodes *n, uint32_t to, struct fs_msg *m) {
  fs_err err = m == NULL || m->failed ? -ENOMEM : m->n > n->most ? -EMSGSIZE : 0;
  if (err == 0 && to == n->rank) {
    *n->own_last = m;
    n->own_last = &m->next;
    return;
  }
  if (err == 0) {
    m->op.done = sent;
    m->to = to;
    n->said_ns = fs_now_ns();
    err = fs_net_send(n->net, to, TAG, m->data, m->n, &m->op);
    if (err == 0) n->sending++;
  }
  const size_t bytes = m != NULL ? m->n : 0;
  if (err < 0) fs_msg_free(m);
  if (err == -EMSGSIZE)
    fs_nodes_fail(n, "node %u (%s): a message of %zu bytes for node %u exceeds the limit of %zu bytes", n->rank,
                  n->host, bytes, to, n->most);
  else if (err == -ENOMEM)
    fs_nodes_fail(n, "node %u (%s): out of memory", n->rank, n->host);
  else if (err < 0)
    cut(n, to, err);
}

void fs_nodes_send_all(struct fs_nodes *n, struct fs_msg *m) {
  for (uint32_t i = 0; m != NULL && i < n->nodes; i++) {
    struct fs_msg *copy = calloc(1, sizeof *copy);
    if (copy != NULL) copy->failed = m->failed;
    fs_msg_put(copy, m->data, m->n);
    fs_nodes_send(n, i, copy);
  }
  if (m != NULL) fs_msg_free(m);
}

static void take_own(struct fs_nodes *n) {
  for (struct fs_msg *m; (m = n->own) != NULL && n->err == 0;) {
    n->own = m->next;
    if (n->own == NULL) n->own_last = &n->own;
    handle(n, n->rank, m->data, m->n);
    fs_msg_free(m);
  }
}

static fs_err one_turn(struct fs_nodes *n) {
  uint64_t now = fs_now_ns();
  if (fs_prep_signal != 0) return -EINTR;
  if (getppid() != n->parent) return -EINTR; /* mpirun is gone */
  if (n->rank != 0 && now - n->said_ns > ALIVE_NS) fs_nodes_send(n, 0, fs_msg_new(FS_NODES_ALIVE));
  n->moved = fs_net_poll(n->net) > 0;
  take_own(n);
  if (n->err == 0) tell_cut(n);
  if (n->tick != NULL && n->err == 0) n->tick(n);
  if (n->check != NULL && n->err == 0) n->check(n, n->stepped_ns);
  return n->err;
}

fs_err fs_nodes_step(struct fs_nodes *n, uint64_t until_ns) {
  for (;;) {
    fs_err err = one_turn(n);
    n->stepped_ns = fs_now_ns();
    if (err < 0 || n->moved || n->stepped_ns >= until_ns) return err;
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
  }
}

fs_err fs_nodes_fail(struct fs_nodes *n, const char *format, ...) {
  char line[FS_SAY_LINE];
  va_list ap;
  va_start(ap, format);
  fs_vline(line, sizeof line, format, ap);
  va_end(ap);
  if (n->err != 0) return n->err;
  n->err = -ECONNABORTED;
  if (n->rank == 0) {
    fs_say("%s", line);
    return n->err;
  }
  struct fs_msg *m = fs_msg_new(FS_NODES_FAILED);
  fs_msg_text(m, line);
  fs_nodes_send(n, 0, m);
  return n->err;
}

void fs_nodes_flush(struct fs_nodes *n) {
  for (uint64_t until = fs_now_ns() + FS_NS_PER_S; n->sending > 0 && fs_now_ns() < until;)
    if (fs_net_poll(n->net) == 0) nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

void fs_nodes_let_lead_tell(void) {
  const struct timespec nap = {.tv_nsec = TELLS_NS / 10};
  for (uint64_t end = fs_now_ns() + TELLS_NS; fs_now_ns() < end;) nanosleep(&nap, NULL);
}

struct aside {
  fs_err (*fn)(void *ctx);
  void *ctx;
  fs_err err;
  _Atomic bool done;
};

static void *run_aside(void *arg) {
  struct aside *a = arg;
  a->err = a->fn(a->ctx);
  atomic_store(&a->done, true);
  return NULL;
}

/* Other handlers must not run meanwhile, or they would find half of the work. So messages wait: a handler
   calls this, and the next receive is posted when it has returned (received). The lead, which handles its
   own messages with a receive posted, must not poll here. */
fs_err fs_nodes_aside(struct fs_nodes *n, fs_err (*fn)(void *ctx), void *ctx) {
  struct aside a = {.fn = fn, .ctx = ctx};
  pthread_t thread;
  if (!fs_prep_thread(&thread, run_aside, &a)) return fn(ctx);
  while (!atomic_load(&a.done)) {
    if (n->rank != 0 && fs_prep_signal != 0) fs_owner_abandon(n);
    if (n->rank != 0 && fs_now_ns() - n->said_ns > ALIVE_NS) {
      fs_nodes_send(n, 0, fs_msg_new(FS_NODES_ALIVE));
      fs_nodes_flush(n);
    }
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
  }
  pthread_join(thread, NULL);
  return a.err;
}
