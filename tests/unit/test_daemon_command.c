/* SPDX-License-Identifier: BSD-3-Clause */
/* The launcher's lines on rank 0 of a job of very many nodes: every rank gets each, in order, and few are under way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/daemon.h"
#include "util/sys.h"

#define LINES 40u
#define MOST 8192u /* operations that daemon/mpi has room for */

static struct {
  struct fs_net_op *op;
  uint32_t peer;
} under_way[MOST];
static uint32_t sends, most_sends, got[FS_MAX_NODES];

static fs_err fake_send(struct fs_net *n, uint32_t peer, uint32_t tag, const void *buf, size_t bytes,
                        struct fs_net_op *op) {
  char text[16];
  (void)n, (void)tag;
  assert_true(sends < MOST);
  under_way[sends].op = op;
  under_way[sends++].peer = peer;
  most_sends = FS_MAX(most_sends, sends);
  snprintf(text, sizeof(text), "noise %u", got[peer]++);
  assert_int_equal(bytes, strlen(text));
  assert_memory_equal(buf, text, bytes);
  return 0;
}
static fs_err fake_recv(struct fs_net *n, uint32_t peer, uint32_t tag, void *buf, size_t bytes, struct fs_net_op *op) {
  (void)n, (void)peer, (void)tag, (void)buf, (void)bytes, (void)op;
  return 0;
}
static int fake_poll(struct fs_net *n) {
  (void)n;
  return 0;
}

static void complete_all(void) {
  for (; sends > 0; sends--) under_way[sends - 1].op->done(under_way[sends - 1].op, under_way[sends - 1].peer, 0, 0);
}

static void test_many_nodes(void **state) {
  static const struct fs_net_ops ops = {.send = fake_send, .recv = fake_recv, .poll = fake_poll};
  static struct fs_net net = {.ops = &ops, .rank = 0, .nodes = FS_MAX_NODES, .tag_max = 32767};
  static struct fs_daemon_config config;
  static struct fs_daemon daemon = {.cfg = &config, .net = &net};
  int lines[2], n = 0;
  (void)state;
  daemon.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  assert_int_equal(pipe(lines), 0);
  assert_int_equal(dup2(lines[0], STDIN_FILENO), STDIN_FILENO);
  assert_int_equal(fs_commands_start(&daemon), 0);
  for (unsigned i = 0; i < LINES; i++) assert_true(dprintf(lines[1], "noise %u\n", i) > 0);
  for (unsigned i = 0; i < 5000 && n < (int)LINES; i++) {
    n += fs_commands_run(&daemon);
    if (i % 4 == 3) complete_all();
    usleep(1000);
  }
  assert_int_equal(n, LINES);
  complete_all();
  for (unsigned i = 1; i < FS_MAX_NODES; i++) assert_int_equal(got[i], LINES);
  assert_true(most_sends < MOST - 3000); /* which the blocks need */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_many_nodes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
