/* SPDX-License-Identifier: BSD-3-Clause */
/* A network that the test completes by hand, for the tests of the daemon's two sides: what it asks, and what it
 * answers. */
#ifndef FS_TEST_NET_FIXTURE_H
#define FS_TEST_NET_FIXTURE_H

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "util/util.h"

#define MESSAGES 2048u

struct message {
  struct fs_net_op *op;
  void *buf;
  size_t bytes;
  uint32_t peer, tag;
};
static struct {
  struct fs_net net;
  struct message recv[MESSAGES], sent[MESSAGES];
  uint32_t recvs, sends;
  fs_err refuse; /* what a send gets */
} world;

/* A daemon's memory ends with its process. What a test leaves, a daemon and what is on its way, must not look lost to
   those who look for that. At the end of a test. */
static inline void keep_daemon(struct fs_daemon *d) {
  static void *volatile kept[64];
  static unsigned n;
  struct message *all = calloc(world.recvs + world.sends + 1, sizeof(*all));
  assert_true(n + 2 <= FS_ARRAY_LEN(kept) && all);
  memcpy(all, world.recv, world.recvs * sizeof(*all));
  memcpy(all + world.recvs, world.sent, world.sends * sizeof(*all));
  kept[n++] = d;
  kept[n++] = all;
}

static fs_err fake_send(struct fs_net *n, uint32_t peer, uint32_t tag, const void *buf, size_t bytes,
                        struct fs_net_op *op) {
  (void)n;
  if (world.refuse < 0) return world.refuse;
  assert_true(world.sends < MESSAGES);
  world.sent[world.sends++] = (struct message){op, (void *)buf, bytes, peer, tag};
  return 0;
}
static fs_err fake_recv(struct fs_net *n, uint32_t peer, uint32_t tag, void *buf, size_t bytes, struct fs_net_op *op) {
  (void)n;
  assert_true(world.recvs < MESSAGES);
  world.recv[world.recvs++] = (struct message){op, buf, bytes, peer, tag};
  return 0;
}
static int fake_poll(struct fs_net *n) {
  (void)n;
  return 0;
}
static const struct fs_net_ops fake_ops = {.send = fake_send, .recv = fake_recv, .poll = fake_poll};

/* A daemon on such a network, with a directory of its own, whose path is put into dir. */
static inline struct fs_daemon *new_daemon(const struct fs_daemon_config *cfg, uint32_t rank, uint32_t nodes, char *dir,
                                           size_t size) {
  const char *tmp = getenv("TMPDIR");
  struct fs_daemon *d = calloc(1, sizeof(*d));
  memset((void *)&world, 0, sizeof(world));
  world.net = (struct fs_net){.ops = &fake_ops, .rank = rank, .nodes = nodes, .tag_max = 32767};
  snprintf(dir, size, "%s/fs-daemon.XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(dir));
  assert_non_null(d);
  d->cfg = cfg;
  d->net = &world.net;
  d->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return d;
}

#endif
