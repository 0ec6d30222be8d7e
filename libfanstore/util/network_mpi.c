/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tells Open MPI and UCX which interface to use (util/network.h), by the environment of a process
 * that will initialise MPI. The processes of one job may get different names, because each host has
 * its own. An interface's RDMA ports are files below /sys/class.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "util/network.h"

extern char **environ;

/* Returns true if a file of Open MPI's parameters has a line that begins with `name`. */
static bool fs_file_sets(const char *path, const char *name) {
  char line[512];
  bool found = false;
  FILE *f = fopen(path, "re");
  while (f && !found && fgets(line, sizeof(line), f)) {
    const char *at = line + strspn(line, " \t");
    found = strncmp(at, name, strlen(name)) == 0;
  }
  if (f) fclose(f);
  return found;
}

static bool fs_environment_sets(const char *name) {
  static const char *const before[] = {"OMPI_MCA_", "PRTE_MCA_"};
  for (char **e = environ; *e; e++)
    for (size_t i = 0; i < FS_ARRAY_LEN(before); i++)
      if (strncmp(*e, before[i], strlen(before[i])) == 0 && strncmp(*e + strlen(before[i]), name, strlen(name)) == 0)
        return true;
  return false;
}

bool fs_network_is_set(const char *name) {
  const char *home = getenv("HOME"), *prefix = getenv("OPAL_PREFIX");
  char path[PATH_MAX];
  if (fs_environment_sets(name) || fs_file_sets("/etc/openmpi/openmpi-mca-params.conf", name)) return true;
  if (home && snprintf(path, sizeof(path), "%s/.openmpi/mca-params.conf", home) < (int)sizeof(path) &&
      fs_file_sets(path, name))
    return true;
  return prefix && snprintf(path, sizeof(path), "%s/etc/openmpi-mca-params.conf", prefix) < (int)sizeof(path) &&
         fs_file_sets(path, name);
}

static bool fs_port_is_active(const char *sys, const char *device, const char *port) {
  char path[PATH_MAX], state[32] = "";
  if (snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports/%s/state", sys, device, port) >= (int)sizeof(path))
    return false;
  FILE *f = fopen(path, "re");
  if (f && !fgets(state, sizeof(state), f)) state[0] = '\0';
  if (f) fclose(f);
  return strstr(state, "ACTIVE") != NULL;
}

/* Adds "DEVICE:PORT" for the active ports of a device. Returns the new length of `out`. */
static size_t fs_add_ports(const char *sys, const char *device, char *out, size_t n, size_t size) {
  char path[PATH_MAX];
  if (snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports", sys, device) >= (int)sizeof(path)) return n;
  DIR *dir = opendir(path);
  for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
    if (e->d_name[0] == '.' || !fs_port_is_active(sys, device, e->d_name)) continue;
    int put = snprintf(out + n, size - n, "%s:%s,", device, e->d_name);
    if (put < 0 || (size_t)put >= size - n) break;
    n += (size_t)put;
  }
  if (dir) closedir(dir);
  out[n] = '\0';
  return n;
}

/* A label as "eth0:1" names an address of eth0. The kernel's directory and UCX know eth0 only. */
const char *fs_network_devices(const char *sys, const char *label, bool only, char *out, size_t size) {
  char path[PATH_MAX], name[IF_NAMESIZE];
  size_t n = 0;
  snprintf(name, sizeof(name), "%.*s", (int)strcspn(label, ":"), label);
  out[0] = '\0';
  if (only)
    snprintf(path, sizeof(path), "%s/class/net/%s/device/infiniband", sys, name);
  else
    snprintf(path, sizeof(path), "%s/class/infiniband", sys);
  DIR *dir = opendir(path);
  for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;)
    if (e->d_name[0] != '.') n = fs_add_ports(sys, e->d_name, out, n, size - IF_NAMESIZE);
  if (dir) closedir(dir);
  snprintf(out + n, size - n, "%s", name);
  return out;
}

void fs_network_set(const struct fs_network *n, bool named, bool force) {
  char devices[1024];
  bool v6 = n->family == AF_INET6;
  if (force || !fs_network_is_set("btl_tcp_if_")) {
    setenv("OMPI_MCA_btl_tcp_if_include", n->name, 1);
    unsetenv("OMPI_MCA_btl_tcp_if_exclude"); /* Open MPI refuses both */
    if (v6) setenv("OMPI_MCA_btl_tcp_disable_family", "4", 0);
  }
  if (!force && (getenv("UCX_NET_DEVICES") || fs_file_sets("/etc/ucx/ucx.conf", "UCX_NET_DEVICES"))) return;
  setenv("UCX_NET_DEVICES", fs_network_devices("/sys", n->name, named, devices, sizeof(devices)), 1);
  if (v6) setenv("UCX_TCP_AF_PRIO", "inet6", 0);
}
