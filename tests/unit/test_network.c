/* SPDX-License-Identifier: BSD-3-Clause */
/* Which values --network may have, routes that lead nowhere, and what Open MPI and UCX are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "util/network.h"
#include "util/util.h"

static void test_values(void **state) {
  (void)state;
  static const char *const good[] = {"eth0", "enp0s31f6", "10.0.0.0/8", "10.1.2.3/32", "fd77::/64", "::/1"};
  static const char *const bad[] = {"",           "-x",        "a;b", "a,b",   "an-interface-with-a-long-name",
                                    "10.0.0.0/0", "10.0.0/8",  "/8",  "eth0/", "10.0.0.0/33",
                                    "fd77::/129", "10.0.0.0/x"};
  for (size_t i = 0; i < FS_ARRAY_LEN(good); i++) assert_true(fs_network_ok(good[i]));
  for (size_t i = 0; i < FS_ARRAY_LEN(bad); i++) assert_false(fs_network_ok(bad[i]));
}

static void test_nowhere(void **state) {
  (void)state;
  struct fs_network n;
  char why[2 * FS_NETWORK_LIST];
  assert_int_equal(fs_network_route("", &n), -ENOENT);
  assert_int_equal(fs_network_route("localhost,127.0.0.1,::1", &n), -ENOENT);
  assert_int_equal(n.family, 0);
  assert_int_equal(fs_network_find("lo", &n, why, sizeof(why)), -ENODEV);
  assert_non_null(strstr(why, "--network lo: no interface that is up has this name and an address; there is "));
  assert_int_equal(fs_network_find("127.0.0.0/8", &n, why, sizeof(why)), -ENODEV);
  assert_non_null(strstr(why, "an address in it"));
}

static void put(const char *sys, const char *dir, const char *file, const char *text) {
  char command[1024];
  snprintf(command, sizeof(command), "mkdir -p %s/%s && printf '%%s\\n' '%s' >%s/%s/%s", sys, dir, text, sys, dir,
           file);
  assert_int_equal(system(command), 0);
}

static void test_devices(void **state) {
  (void)state;
  char sys[256], out[256];
  const char *base = getenv("TMPDIR");
  snprintf(sys, sizeof(sys), "%s/sys-XXXXXX", base ? base : "/tmp");
  assert_non_null(mkdtemp(sys));
  assert_string_equal(fs_network_devices(sys, "eth0", false, out, sizeof(out)), "eth0");
  put(sys, "class/infiniband/mlx5_0/ports/1", "state", "4: ACTIVE");
  put(sys, "class/infiniband/mlx5_0/ports/2", "state", "1: DOWN");
  put(sys, "class/net/ib0/device/infiniband/mlx5_0", "x", "");
  assert_string_equal(fs_network_devices(sys, "eth0", false, out, sizeof(out)), "mlx5_0:1,eth0");
  assert_string_equal(fs_network_devices(sys, "eth0", true, out, sizeof(out)), "eth0");
  assert_string_equal(fs_network_devices(sys, "ib0", true, out, sizeof(out)), "mlx5_0:1,ib0");
  assert_string_equal(fs_network_devices(sys, "ib0:1", true, out, sizeof(out)), "mlx5_0:1,ib0");
  /* What has no room is left out as a whole. */
  assert_string_equal(fs_network_devices(sys, "ib0", true, out, IF_NAMESIZE + 9), "ib0");
  assert_int_equal(fs_remove_tree(sys), 0);
}

static void test_environment(void **state) {
  (void)state;
  struct fs_network n = {.family = AF_INET, .name = "eth0"};
  assert_int_equal(setenv("HOME", "/nowhere", 1), 0);
  unsetenv("UCX_NET_DEVICES");
  setenv("OMPI_MCA_btl_tcp_if_exclude", "docker0", 1);
  assert_true(fs_network_is_set("btl_tcp_if_"));
  fs_network_set(&n, true, false); /* the user has chosen, for Open MPI alone */
  assert_null(getenv("OMPI_MCA_btl_tcp_if_include"));
  assert_string_equal(getenv("UCX_NET_DEVICES"), "eth0");
  setenv("UCX_NET_DEVICES", "docker0", 1);
  fs_network_set(&n, true, false);
  assert_string_equal(getenv("UCX_NET_DEVICES"), "docker0");
  fs_network_set(&n, true, true);
  assert_null(getenv("OMPI_MCA_btl_tcp_if_exclude"));
  assert_string_equal(getenv("OMPI_MCA_btl_tcp_if_include"), "eth0");
  assert_string_equal(getenv("UCX_NET_DEVICES"), "eth0");
  assert_null(getenv("UCX_TCP_AF_PRIO"));
  n.family = AF_INET6;
  fs_network_set(&n, true, true);
  assert_string_equal(getenv("UCX_TCP_AF_PRIO"), "inet6");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_nowhere),
                                     cmocka_unit_test(test_devices), cmocka_unit_test(test_environment)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
