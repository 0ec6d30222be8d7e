/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network between the hosts of a job. Each host chooses the interface that routes to the others,
 * or that of --network (util/network.h): fanstored for MPI's messages, --on-host for mpirun's daemon
 * on another host, and fs-launch for mpirun itself. Nothing is done for a job on one host. If rank 0
 * does not reach another rank, the start ends early with both ends' addresses.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

#define FS_CONNECT_S 10
#define FS_CHANNEL "oob_tcp_if_include"

/* On another host, fs-launch gets this line from mpirun (fs_network_noise). */
static void tell_wrong(const char *why) {
  char here[256] = "";
  gethostname(here, sizeof(here) - 1);
  fs_say("%s: %s", here, why);
}

int fs_network_choose(struct fs_launch *l) {
  char why[2 * FS_NETWORK_LIST];
  if (l->where == FS_WHERE_HERE || (l->nodes == 1 && l->first_here)) return 0;
  l->network_named = l->opt.network && fs_network_find(l->opt.network, &l->network, why, sizeof(why)) == 0;
  if (l->network_named) return 0;
  if (l->opt.network && l->first_here) {
    tell_wrong(why);
    return FS_EXIT_FAILED;
  }
  /* A host that is no node may be outside of the network. */
  (void)fs_network_route(l->peers, &l->network);
  return 0;
}

/* Returns true if the user has set the channel's interfaces, or the command that starts mpirun's
   daemons. */
static bool channel_is_set(void) {
  static const char *const names[] = {"oob_tcp_if_", "prte_if_", "orte_launch_agent", "prte_launch_agent"};
  const char *mine = getenv("FANSTORE_MPIRUN_ARGS");
  for (size_t i = 0; i < FS_ARRAY_LEN(names); i++)
    if (fs_network_is_set(names[i]) || (mine && strstr(mine, names[i]))) return true;
  return false;
}

/* Returns true if the path can be a word of mpirun's parameter, which goes through a remote shell. */
static bool is_plain(const char *path) {
  return strpbrk(path, " \t\n:'\"\\`$&|;<>()*?[]{}~#!") == NULL;
}

void fs_network_mpirun(const struct fs_launch *l, struct fs_words *w) {
  if (l->network.family == 0 || !is_plain(l->self) || (!l->opt.network && channel_is_set())) return;
  fs_words_add(w, "%s", l->mpi->mca);
  fs_words_add(w, FS_CHANNEL);
  fs_words_add(w, "%s", l->network.name);
  fs_words_all(w, l->mpi->starter);
  fs_words_add(w, "%s --on-host %s %s %s", l->self, l->network_named ? l->opt.network : "-", l->network.address,
               l->mpi->daemon);
}

void fs_network_daemons(const struct fs_launch *l, struct fs_words *w) {
  if (l->where == FS_WHERE_HERE || l->nodes == 1) return;
  fs_words_add(w, "--peers");
  fs_words_add(w, "%s", l->peers);
  if (!l->opt.network) return;
  fs_words_add(w, "--network");
  fs_words_add(w, "%s", l->opt.network);
}

void fs_network_rank(const char *peers, const char *network) {
  struct fs_network n = {.family = 0};
  char why[2 * FS_NETWORK_LIST];
  if (peers[0] == '\0') return;
  bool named = network[0] != '\0';
  fs_err err = named ? fs_network_find(network, &n, why, sizeof(why)) : fs_network_route(peers, &n);
  if (err == 0) fs_network_set(&n, named, false);
}

void fs_network_noise(struct fs_launch *l, const char *line) {
  static const char before[] = "fs-launch: ";
  if (!l->opt.network || l->fail[0] || strncmp(line, before, strlen(before)) != 0 || !strstr(line, ": --network "))
    return;
  snprintf(l->fail, sizeof(l->fail), "%s", line + strlen(before));
}

/* Open MPI 5 may have replaced the name by its newer one. */
static bool is_channel(const char *parameter) {
  return strcmp(parameter, FS_CHANNEL) == 0 || strcmp(parameter, "prte_if_include") == 0;
}

int fs_network_run(int argc, char **argv) {
  struct fs_network n = {.family = 0};
  char why[2 * FS_NETWORK_LIST];
  if (argc < 5 || !argv[4]) return FS_EXIT_USAGE;
  bool named = strcmp(argv[2], "-") != 0;
  if (named && fs_network_find(argv[2], &n, why, sizeof(why)) < 0) {
    tell_wrong(why);
    return FS_EXIT_FAILED;
  }
  if (!named) (void)fs_network_route(argv[3], &n);
  char *program = argv[4], **to = argv + 4;
  for (char **from = argv + 4; *from; from++) {
    bool channel = from[0][0] == '-' && from[1] && from[2] && is_channel(from[1]);
    if (channel) from[2] = n.name;
    if (channel && n.family == 0)
      from += 2; /* all interfaces */
    else
      *to++ = *from;
  }
  *to = NULL;
  execvp(program, argv + 4);
  fprintf(stderr, "%s: %s\n", program, strerror(errno));
  return FS_EXIT_NOT_FOUND;
}

/* Returns the first node that has not got the placement, and counts such nodes in *n. */
static uint32_t first_cut(const struct fs_launch *l, uint32_t *n) {
  uint32_t first = 0;
  *n = 0;
  for (uint32_t i = 1; i < l->nodes; i++) {
    if (l->node[i].placed || l->node[i].ready) continue;
    if ((*n)++ == 0) first = i;
  }
  return first;
}

bool fs_network_cut(const struct fs_launch *l) {
  uint32_t n;
  if (l->where == FS_WHERE_HERE || l->nodes < 2 || !l->node[0].placed) return false;
  return fs_now_ns() - l->placed_ns > FS_CONNECT_S * FS_NS_PER_S && first_cut(l, &n) > 0;
}

void fs_network_reason(const struct fs_launch *l, char *why, size_t size) {
  uint32_t n, to = first_cut(l, &n);
  char more[32] = "";
  if (n > 1) snprintf(more, sizeof(more), " and %u more", n - 1);
  snprintf(why, size,
           "no connection from node 0 (%.60s: %.200s) to node %u (%.60s: %.200s)%s within %d s: is there a firewall? "
           "--network chooses another interface",
           l->node[0].host, l->node[0].network, to, l->node[to].host, l->node[to].network, more, FS_CONNECT_S);
}

void fs_network_hint(const struct fs_launch *l, char *why, size_t size) {
  size_t n = strlen(why);
  if (l->network.family != 0 && n < size)
    snprintf(why + n, size - n, "; mpirun waits at %s %s (--network chooses another interface)", l->network.name,
             l->network.address);
}
