/* SPDX-License-Identifier: BSD-3-Clause */
/* Names in the run directory, and which node a process is on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ipc/node.h"

static void test_names(void **state) {
  char out[128], expect[128], small[20];
  (void)state;
  snprintf(expect, sizeof(expect), "/var/x/fanstore-%u", geteuid());
  assert_int_equal(fs_run_name("/var/x", out, sizeof(out)), strlen(expect));
  assert_string_equal(out, expect);
  assert_int_equal(fs_run_name("/var/x", out, 10), -ENAMETOOLONG);
  assert_int_equal(fs_run_socket("/r", 4095, out, sizeof(out)), 17);
  assert_string_equal(out, "/r/node-4095.sock");
  assert_int_equal(fs_run_ctl("/r", 17, out, sizeof(out)), 14);
  assert_string_equal(out, "/r/node-17.ctl");
  assert_int_equal(fs_run_socket("/r", 4095, small, 17), -ENAMETOOLONG);
  assert_int_equal(fs_run_socket("/r", 4095, small, 18), 17);
}

static void decides(uint32_t node, enum fs_node_source source) {
  enum fs_node_source got;
  assert_int_equal(fs_node_decide(&got), node);
  assert_int_equal(got, source);
  assert_int_equal(fs_node_decide(NULL), node);
}

static void test_decide(void **state) {
  static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                      "SLURM_PROCID",         "RANK",      "LOCAL_RANK"};
  (void)state;
  for (unsigned i = 0; i < 6; i++) unsetenv(ranks[i]);
  unsetenv("SLURM_STEP_NUM_TASKS");
  unsetenv("FANSTORE_NODE");
  unsetenv("FANSTORE_EMULATE");
  decides(0, FS_NODE_DEFAULT);
  setenv("RANK", "5", 1);
  decides(0, FS_NODE_DEFAULT); /* a rank is no node where hosts are nodes */
  setenv("FANSTORE_EMULATE", "3", 1);
  decides(2, FS_NODE_BY_RANK);
  unsetenv("RANK");
  decides(0, FS_NODE_DEFAULT);
  setenv("SLURM_PROCID", "1", 1);
  decides(0, FS_NODE_DEFAULT); /* a batch script's, or that of a step's only task */
  setenv("SLURM_STEP_NUM_TASKS", "1", 1);
  decides(0, FS_NODE_DEFAULT);
  setenv("SLURM_STEP_NUM_TASKS", "2", 1);
  decides(1, FS_NODE_BY_RANK);
  setenv("SLURM_STEP_NUM_NODES", "2", 1);
  setenv("SLURM_NODEID", "2", 1);
  decides(2, FS_NODE_BY_RANK); /* several slurmds on one host */
  unsetenv("SLURM_STEP_NUM_NODES");
  unsetenv("SLURM_PROCID");
  for (int i = 5; i >= 0; i--) { /* the earlier in the order wins */
    setenv(ranks[i], i % 2 ? "4" : "5", 1);
    decides(i % 2 ? 1 : 2, FS_NODE_BY_RANK);
  }
  setenv("OMPI_COMM_WORLD_RANK", "x", 1);
  decides(1, FS_NODE_BY_RANK); /* not a number: the next */
  setenv("FANSTORE_NODE", "7", 1);
  decides(7, FS_NODE_NAMED);
  setenv("FANSTORE_NODE", "-1", 1);
  decides(1, FS_NODE_BY_RANK);
  setenv("FANSTORE_NODE", "4096", 1);
  decides(1, FS_NODE_BY_RANK);
  setenv("FANSTORE_EMULATE", "0", 1);
  decides(0, FS_NODE_DEFAULT);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_decide)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
