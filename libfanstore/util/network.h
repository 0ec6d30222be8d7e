/* SPDX-License-Identifier: BSD-3-Clause */
/* The network interface by which this host reaches the other hosts of a job. fanstored and fs-launch
   choose it before they start Open MPI's parts. No state, no locks. */
#ifndef FS_UTIL_NETWORK_H
#define FS_UTIL_NETWORK_H

#include <net/if.h>
#include <netinet/in.h>

#include "util/base.h"

#define FS_NETWORK_LIST 400

struct fs_network {
  int family; /* AF_INET or AF_INET6; 0: no interface was chosen */
  unsigned prefix;
  char name[IF_NAMESIZE], address[INET6_ADDRSTRLEN];
};

/* Returns true for an interface's name or a network as 10.1.0.0/16. */
bool fs_network_ok(const char *text);
/* Finds the interface that routes to one of the hosts "A,B". Skips a name of this host. The names'
   addresses are waited for two seconds at most. Returns 0, or -ENOENT if there is no route, or no
   name that is another host's. */
fs_err fs_network_route(const char *hosts, struct fs_network *out);
/* Finds an interface by its name, or the one with an address in a network. Returns 0, or -ENODEV
   after it wrote the reason with the interfaces that are there. */
fs_err fs_network_find(const char *text, struct fs_network *out, char *why, size_t size);
/* Writes the interfaces that are up, as "eth0 10.77.0.1/24, docker0 172.17.0.1/16". name: only this
   one's addresses; NULL: all. */
void fs_network_list(const char *name, char *out, size_t size);
/* Writes UCX_NET_DEVICES: the interface, and the RDMA ports below `sys` ("/sys"): the active ones of
   this host, or with `only` those of the interface's own device. Returns `out`. */
const char *fs_network_devices(const char *sys, const char *name, bool only, char *out, size_t size);
/* Sets the variables by which an MPI process of this host uses the interface. named: the user has
   named it, so that RDMA ports of other interfaces are not used. Without force, what the user or a
   file of Open MPI's has set stays. */
void fs_network_set(const struct fs_network *n, bool named, bool force);
/* Returns true if the user, or a file of Open MPI's, has set NAME or NAME with another end, as
   "btl_tcp_if_". */
bool fs_network_is_set(const char *name);

#endif
