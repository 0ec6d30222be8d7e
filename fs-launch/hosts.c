/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the hosts of the nodes: --emulate, --hosts, --hostfile, the Slurm allocation, or this host
 * alone. Only counts the hosts and finds the first; mpirun itself reads the lists. Called once,
 * also by fs-launch clean.
 */
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

struct host_list {
  char **name;
  uint32_t n;
};

/* Returns true for a valid host name. A leading dash is refused: a remote shell would read an
   option. */
static bool is_name(const char *name, size_t len) {
  if (len == 0 || len >= 256 || name[0] == '-') return false;
  for (size_t i = 0; i < len; i++)
    if ((unsigned char)name[i] <= ' ' || name[i] == 127) return false;
  return true;
}

/* Adds a name unless it is in the list (names may repeat with slots). Returns 0, -EINVAL, -E2BIG or
   -ENOMEM. */
static fs_err list_add(struct host_list *list, const char *name, size_t len) {
  if (!is_name(name, len)) return -EINVAL;
  for (uint32_t i = 0; i < list->n; i++)
    if (strlen(list->name[i]) == len && memcmp(list->name[i], name, len) == 0) return 0;
  if (list->n == FS_MAX_NODES) return -E2BIG;
  char **grown = realloc(list->name, (list->n + 1) * sizeof(*grown));
  if (!grown) return -ENOMEM;
  list->name = grown;
  list->name[list->n] = strndup(name, len);
  if (!list->name[list->n]) return -ENOMEM;
  list->n++;
  return 0;
}

static void list_free(struct host_list *list) {
  for (uint32_t i = 0; i < list->n; i++) free(list->name[i]);
  free(list->name);
}

/* Reads a list such as "A,B:4,C". */
static fs_err hosts_from_option(const char *text, struct host_list *list) {
  for (;;) {
    size_t n = strcspn(text, ",");
    fs_err err = list_add(list, text, strcspn(text, ",:") < n ? strcspn(text, ",:") : n);
    if (err < 0) return err;
    if (text[n] == '\0') return 0;
    text += n + 1;
  }
}

/* Reads a file with one host on each line: "name slots=4 # remark". */
static fs_err hosts_from_file(const char *path, struct host_list *list) {
  char line[1024];
  FILE *f = fopen(path, "re");
  fs_err err = f ? 0 : -errno;
  while (err == 0 && fgets(line, sizeof(line), f)) {
    char *p = line + strspn(line, " \t");
    size_t n = strcspn(p, " \t\r\n#:");
    const char *at = memrchr(p, '@', n); /* user@host */
    if (at) {
      n -= (size_t)(at + 1 - p);
      p = (char *)at + 1;
    }
    if (n > 0) err = list_add(list, p, n);
  }
  if (f) fclose(f);
  return err < 0 ? err : list->n > 0 ? 0 : -ENODATA;
}

/* Writes the first name of a Slurm list: "r3n1" for "r[3-5,9]n[1-2],g7". */
static void slurm_first(const char *list, char *out, size_t size) {
  size_t at = 0;
  while (*list != '\0' && *list != ',' && at + 1 < size) {
    if (*list != '[') {
      out[at++] = *list++;
      continue;
    }
    size_t first = strcspn(list + 1, "-,]"), all = strcspn(list, "]");
    first = FS_MIN(first, size - 1 - at);
    memcpy(out + at, list + 1, first);
    at += first;
    list += all + (list[all] == ']');
  }
  out[at] = '\0';
}

/* Writes the second name of a Slurm list: "r4n1" for "r[3-5,9]n[1-2],g7". Returns false if there is
   none that is easily told. */
static bool slurm_second(const char *list, char *out, size_t size) {
  char rest[1024];
  size_t open = strcspn(list, "[,"), first = strcspn(list + open, "-,]");
  const char *at = list + open + first;
  if (list[open] != '[' || *at == ']' || *at == '\0') { /* one name */
    const char *end = list + open + (list[open] == '[' ? strcspn(list + open, "]") : 0);
    const char *comma = strchr(end, ',');
    if (comma) slurm_first(comma + 1, out, size);
    return comma != NULL;
  }
  int width = (int)first - 1, n;
  if (*at == ',') {
    n = snprintf(rest, sizeof(rest), "%.*s[%s", (int)open, list, at + 1);
  } else {
    unsigned long second = strtoul(list + open + 1, NULL, 10) + 1;
    n = snprintf(rest, sizeof(rest), "%.*s[%0*lu%s", (int)open, list, width, second,
                 list + open + strcspn(list + open, "]"));
  }
  if (n < 0 || (size_t)n >= sizeof(rest)) return false;
  slurm_first(rest, out, size);
  return true;
}

static bool address_is_here(const struct sockaddr *a, const struct ifaddrs *mine) {
  for (; mine; mine = mine->ifa_next) {
    if (!mine->ifa_addr || mine->ifa_addr->sa_family != a->sa_family) continue;
    if (a->sa_family == AF_INET && ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
                                       ((const struct sockaddr_in *)mine->ifa_addr)->sin_addr.s_addr)
      return true;
    if (a->sa_family == AF_INET6 && memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                                           &((const struct sockaddr_in6 *)mine->ifa_addr)->sin6_addr, 16) == 0)
      return true;
  }
  return false;
}

bool fs_host_is_here(const char *name) {
  char here[256] = "";
  gethostname(here, sizeof(here) - 1);
  if (strcmp(name, here) == 0 || strcmp(name, "localhost") == 0) return true;
  size_t n = strcspn(name, "."), m = strcspn(here, ".");
  if (n == m && strncmp(name, here, n) == 0 && (name[n] == '\0' || here[m] == '\0') && strspn(name, "0123456789") != n)
    return true;
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
  struct ifaddrs *mine = NULL;
  bool yes = false;
  if (getaddrinfo(name, NULL, &hints, &found) != 0) return false;
  if (getifaddrs(&mine) == 0)
    for (const struct addrinfo *a = found; a && !yes; a = a->ai_next) yes = address_is_here(a->ai_addr, mine);
  if (mine) freeifaddrs(mine);
  freeaddrinfo(found);
  return yes;
}

static int hosts_listed(struct fs_launch *l) {
  struct host_list list = {0};
  const char *option = l->opt.hosts ? "--hosts" : "--hostfile", *value = l->opt.hosts ? l->opt.hosts : l->opt.hostfile;
  fs_err err = l->opt.hosts ? hosts_from_option(value, &list) : hosts_from_file(value, &list);
  if (err == 0) {
    l->where = FS_WHERE_HOSTS;
    l->nodes = list.n;
    snprintf(l->first_host, sizeof(l->first_host), "%s", list.name[0]);
    l->first_here = fs_host_is_here(l->first_host);
    snprintf(l->peers, sizeof(l->peers), "%s%s%s", list.name[0], list.n > 1 ? "," : "", list.n > 1 ? list.name[1] : "");
  } else {
    fs_say("%s %s: %s", option, value,
           err == -ENODATA  ? "no host in it"
           : err == -EINVAL ? "not a list of hosts"
                            : strerror(-err));
  }
  list_free(&list);
  return err == 0 ? 0 : err == -EINVAL && l->opt.hosts ? FS_EXIT_USAGE : FS_EXIT_FAILED;
}

static bool hosts_slurm(struct fs_launch *l) {
  const char *count = getenv("SLURM_JOB_NUM_NODES"), *names = getenv("SLURM_JOB_NODELIST");
  const char *step_host = getenv("SLURMD_NODENAME");
  uint64_t n;
  if (!count) count = getenv("SLURM_NNODES");
  if (!names) names = getenv("SLURM_NODELIST");
  if (!getenv("SLURM_JOB_ID") || !count || !names || fs_parse_u64(count, 1, FS_MAX_NODES, &n) < 0) return false;
  l->where = FS_WHERE_SLURM;
  l->nodes = (uint32_t)n;
  slurm_first(names, l->first_host, sizeof(l->first_host));
  char second[256];
  bool two = n > 1 && slurm_second(names, second, sizeof(second));
  snprintf(l->peers, sizeof(l->peers), "%s%s%s", l->first_host, two ? "," : "", two ? second : "");
  l->first_here = step_host ? strcmp(step_host, l->first_host) == 0 : fs_host_is_here(l->first_host);
  return true;
}

/* Returns true if Slurm starts several of us. `srun fs-launch` starts one for each task of the
   step, and each would start FanStore on all nodes and run COMMAND. A rank of an MPI job is here on
   purpose. */
static bool step_repeats(void) {
  const char *task = getenv("SLURM_PROCID");
  uint64_t n;
  return task && fs_parse_u64(task, 1, UINT32_MAX, &n) == 0 && !getenv("OMPI_COMM_WORLD_SIZE");
}

int fs_hosts_find(struct fs_launch *l) {
  if (l->opt.hosts || l->opt.hostfile) {
    int status = hosts_listed(l);
    if (status != 0) return status;
  } else if (l->opt.emulate > 0 || !hosts_slurm(l)) {
    l->where = FS_WHERE_HERE;
    l->nodes = l->opt.emulate > 0 ? (uint32_t)l->opt.emulate : 1;
    gethostname(l->first_host, sizeof(l->first_host) - 1);
    l->first_here = true;
  } else if (step_repeats()) {
    fs_say("this is task %s of a job step, and each would start FanStore on all nodes: start fs-launch once, without "
           "srun or "
           "by srun -N1 -n1",
           getenv("SLURM_PROCID"));
    return FS_EXIT_USAGE;
  }
  l->node = calloc(l->nodes, sizeof(*l->node));
  if (!l->node) {
    fs_say("out of memory");
    return FS_EXIT_FAILED;
  }
  if (l->opt.replicas > FS_MAX_OWNERS && l->opt.replicas != l->nodes) {
    fs_say("--replicas %llu: at most %u, or %u, the number of nodes", (unsigned long long)l->opt.replicas,
           FS_MAX_OWNERS, l->nodes);
    return FS_EXIT_USAGE;
  }
  return 0;
}
