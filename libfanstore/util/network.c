/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asks the kernel by which interface it would send to another host: a UDP socket is connected, which
 * sends nothing, and then has a local address. Open MPI and UCX would use all interfaces that are up,
 * also a bridge such as docker0 that has the same address on each host. Called once by each process,
 * before MPI is initialised. docs/networks.md tells users what is chosen.
 */
#include "util/network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "util/util.h"

#define FS_LOOKUP_S 2 /* for the addresses of a name */

union fs_address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
};

/* Returns the address's bytes, and their number in *n. */
static const unsigned char *fs_address_bytes(const struct sockaddr *a, size_t *n) {
  *n = a->sa_family == AF_INET ? 4 : a->sa_family == AF_INET6 ? 16 : 0;
  if (a->sa_family == AF_INET) return (const unsigned char *)&((const struct sockaddr_in *)a)->sin_addr;
  return (const unsigned char *)&((const struct sockaddr_in6 *)a)->sin6_addr;
}

/* Returns true if the first `bits` bits of two addresses are the same; bits ~0u: all. */
static bool fs_address_same(const struct sockaddr *a, const struct sockaddr *b, unsigned bits) {
  size_t n, m;
  const unsigned char *x = fs_address_bytes(a, &n), *y = fs_address_bytes(b, &m);
  if (a->sa_family != b->sa_family || n == 0) return false;
  bits = FS_MIN(bits, (unsigned)n * 8);
  if (memcmp(x, y, bits / 8) != 0) return false;
  return bits % 8 == 0 || ((x[bits / 8] ^ y[bits / 8]) >> (8 - bits % 8)) == 0;
}

static unsigned fs_mask_bits(const struct sockaddr *mask) {
  size_t n = 0;
  unsigned bits = 0;
  const unsigned char *b = mask ? fs_address_bytes(mask, &n) : NULL;
  for (size_t i = 0; i < n; i++) bits += (unsigned)__builtin_popcount(b[i]);
  return bits;
}

static bool fs_is_link_local(const struct sockaddr *a) {
  return a->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

/* Returns true for an address of an interface between hosts. */
static bool fs_is_outward(const struct ifaddrs *i) {
  if (!i->ifa_addr || (i->ifa_flags & IFF_LOOPBACK) || !(i->ifa_flags & IFF_UP)) return false;
  return i->ifa_addr->sa_family == AF_INET || (i->ifa_addr->sa_family == AF_INET6 && !fs_is_link_local(i->ifa_addr));
}

static void fs_network_fill(const struct ifaddrs *i, struct fs_network *out) {
  size_t n;
  *out = (struct fs_network){.family = i->ifa_addr->sa_family, .prefix = fs_mask_bits(i->ifa_netmask)};
  snprintf(out->name, sizeof(out->name), "%s", i->ifa_name);
  inet_ntop(out->family, fs_address_bytes(i->ifa_addr, &n), out->address, sizeof(out->address));
}

/* ---- the route ---- */

/* A lookup in a thread of its own, which is left behind if the name service does not answer. */
struct fs_lookup {
  pthread_mutex_t lock;
  pthread_cond_t ended;
  bool over, left;
  struct addrinfo *found;
  char host[256];
};

static void *fs_lookup_run(void *arg) {
  struct fs_lookup *l = arg;
  struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *found = NULL;
  if (getaddrinfo(l->host, "9", &hints, &found) != 0) found = NULL;
  pthread_mutex_lock(&l->lock);
  l->found = found;
  l->over = true;
  bool left = l->left;
  pthread_cond_signal(&l->ended);
  pthread_mutex_unlock(&l->lock);
  if (!left) return NULL;
  if (found) freeaddrinfo(found);
  free(l);
  return NULL;
}

/* Starts the thread with all signals blocked: they are for the others. */
static int fs_lookup_start(struct fs_lookup *l, pthread_t *thread) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int err = pthread_create(thread, NULL, fs_lookup_run, l);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return err;
}

static struct addrinfo *fs_lookup(const char *host, size_t n) {
  struct fs_lookup *l = calloc(1, sizeof(*l));
  struct addrinfo *found = NULL;
  struct timespec until;
  pthread_t thread;
  if (!l || n >= sizeof(l->host)) {
    free(l);
    return NULL;
  }
  memcpy(l->host, host, n);
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->ended, NULL);
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += FS_LOOKUP_S;
  if (fs_lookup_start(l, &thread) != 0) {
    free(l);
    return NULL;
  }
  pthread_detach(thread);
  pthread_mutex_lock(&l->lock);
  while (!l->over && pthread_cond_clockwait(&l->ended, &l->lock, CLOCK_MONOTONIC, &until) == 0) continue;
  l->left = !l->over;
  bool over = l->over;
  if (over) found = l->found;
  pthread_mutex_unlock(&l->lock);
  if (over) free(l);
  return found;
}

/* Finds the interface from which the kernel sends to an address, unless the address is this host's. */
static fs_err fs_route_to(const struct addrinfo *to, const struct ifaddrs *mine, struct fs_network *out) {
  union fs_address from = {.any.sa_family = 0};
  socklen_t len = sizeof(from);
  FS_AUTO_CLOSE int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, to->ai_addr, to->ai_addrlen) < 0 || getsockname(fd, &from.any, &len) < 0) return -ENOENT;
  if (fs_address_same(to->ai_addr, &from.any, ~0u)) return -ENOENT;
  for (; mine; mine = mine->ifa_next) {
    if (!fs_is_outward(mine) || !fs_address_same(mine->ifa_addr, &from.any, ~0u)) continue;
    fs_network_fill(mine, out);
    return 0;
  }
  return -ENOENT;
}

/* IPv4 first: Open MPI and UCX use it first. */
static fs_err fs_route_host(const char *host, size_t n, const struct ifaddrs *mine, struct fs_network *out) {
  struct addrinfo *found = fs_lookup(host, n);
  fs_err err = -ENOENT;
  for (int family = AF_INET; found && err < 0; family = AF_INET6) {
    for (const struct addrinfo *a = found; a && err < 0; a = a->ai_next)
      if (a->ai_family == family) err = fs_route_to(a, mine, out);
    if (family == AF_INET6) break;
  }
  if (found) freeaddrinfo(found);
  return err;
}

fs_err fs_network_route(const char *hosts, struct fs_network *out) {
  struct ifaddrs *mine = NULL;
  fs_err err = -ENOENT;
  *out = (struct fs_network){.family = 0};
  if (getifaddrs(&mine) < 0) return -ENOENT;
  while (err < 0 && *hosts != '\0') {
    size_t n = strcspn(hosts, ",");
    if (n > 0) err = fs_route_host(hosts, n, mine, out);
    hosts += n + (hosts[n] == ',');
  }
  freeifaddrs(mine);
  return err;
}

/* ---- the user's choice ---- */

/* Reads "10.1.0.0/16". */
static fs_err fs_network_parse(const char *text, union fs_address *net, unsigned *prefix) {
  char address[INET6_ADDRSTRLEN];
  const char *slash = strchr(text, '/');
  uint64_t bits;
  if (!slash || (size_t)(slash - text) >= sizeof(address)) return -EINVAL;
  memcpy(address, text, (size_t)(slash - text));
  address[slash - text] = '\0';
  *net = (union fs_address){.any.sa_family = strchr(address, ':') ? AF_INET6 : AF_INET};
  bool v4 = net->any.sa_family == AF_INET;
  if (inet_pton(net->any.sa_family, address, v4 ? (void *)&net->v4.sin_addr : (void *)&net->v6.sin6_addr) != 1)
    return -EINVAL;
  if (fs_parse_u64(slash + 1, 1, v4 ? 32 : 128, &bits) < 0) return -EINVAL;
  *prefix = (unsigned)bits;
  return 0;
}

/* Returns true if this is the interface's name, or the name before a label: "eth0" for "eth0:1". */
static bool fs_is_named(const struct ifaddrs *i, const char *text) {
  size_t n = strlen(text);
  return strncmp(i->ifa_name, text, n) == 0 && (i->ifa_name[n] == '\0' || i->ifa_name[n] == ':');
}

bool fs_network_ok(const char *text) {
  union fs_address net;
  unsigned prefix;
  if (strchr(text, '/')) return fs_network_parse(text, &net, &prefix) == 0;
  /* The name goes through remote shells. */
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@:";
  size_t n = strlen(text);
  return n > 0 && text[0] != '-' && n < IF_NAMESIZE && strspn(text, allowed) == n;
}

fs_err fs_network_find(const char *text, struct fs_network *out, char *why, size_t size) {
  struct ifaddrs *mine = NULL;
  union fs_address net;
  unsigned prefix = 0;
  bool by_name = fs_network_parse(text, &net, &prefix) < 0;
  *out = (struct fs_network){.family = 0};
  if (getifaddrs(&mine) < 0) mine = NULL;
  for (const struct ifaddrs *i = mine; i; i = i->ifa_next) {
    if (!fs_is_outward(i)) continue;
    if (!(by_name ? fs_is_named(i, text) : fs_address_same(i->ifa_addr, &net.any, prefix))) continue;
    /* Open MPI and UCX use IPv4 first. */
    if (out->family == 0 || (out->family == AF_INET6 && i->ifa_addr->sa_family == AF_INET)) fs_network_fill(i, out);
  }
  if (mine) freeifaddrs(mine);
  if (out->family != 0) return 0;
  char there[FS_NETWORK_LIST];
  fs_network_list(NULL, there, sizeof(there));
  snprintf(why, size, "--network %s: no interface that is up has %s; there is %s", text,
           by_name ? "this name and an address" : "an address in it", there[0] ? there : "none");
  return -ENODEV;
}

void fs_network_list(const char *name, char *out, size_t size) {
  struct ifaddrs *mine = NULL;
  struct fs_network one;
  size_t n = 0;
  out[0] = '\0';
  if (getifaddrs(&mine) < 0) return;
  for (const struct ifaddrs *i = mine; i && n + 80 < size; i = i->ifa_next) {
    if (!fs_is_outward(i) || (name && strcmp(i->ifa_name, name) != 0)) continue;
    fs_network_fill(i, &one);
    n += (size_t)snprintf(out + n, size - n, "%s%s %s/%u", n > 0 ? ", " : "", one.name, one.address, one.prefix);
  }
  freeifaddrs(mine);
}
