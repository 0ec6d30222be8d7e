/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The launcher's side of the control lines (ipc/control.h): stores what the daemons report in
 * struct fs_launch_node, and sends the placement to rank 0. Lines come through mpirun and are
 * untrusted: a line that does not parse, or names a rank or partition that does not exist, is
 * ignored. One thread.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/layout.h"
#include "ipc/wire.h"
#include "launch.h"

#define FS_SEND_NS (10 * FS_NS_PER_S)

/* Handles `hello` and `begun`. */
static void on_hello(struct fs_launch_node *node, const struct fs_control *c) {
  const char *host = fs_control_get(c, "host");
  uint64_t pid = 0;
  fs_control_get_u64(c, "pid", &pid);
  fs_control_get_u64(c, "free", &node->free);
  const char *network = fs_control_get(c, "network");
  if (network) snprintf(node->network, sizeof(node->network), "%s", network);
  if (host) snprintf(node->host, sizeof(node->host), "%s", host);
  node->pid = pid <= INT_MAX ? (pid_t)pid : 0;
  node->begun = true;
  if (strcmp(c->verb, "hello") == 0) node->hello = true;
}

/* Ends the start if a daemon is of another FanStore than this launcher: it may come from another
   installation on its host. Daemons without these keys are older. */
static void check_version(struct fs_launch *l, uint64_t rank, const struct fs_control *c) {
  const char *version = fs_control_get(c, "version");
  uint64_t ipc = 0, wire = 0;
  fs_control_get_u64(c, "ipc", &ipc);
  fs_control_get_u64(c, "wire", &wire);
  if ((ipc == FS_IPC_VERSION && wire == FS_WIRE_VERSION) || l->fail[0]) return;
  snprintf(
      l->fail, sizeof(l->fail),
      "node %llu (%s): %.300s there is of FanStore %.40s (protocols %llu, %llu), and this fs-launch is of FanStore %s "
      "(protocols %u, %u): install the same FanStore on all hosts",
      (unsigned long long)rank, l->node[rank].host, l->fanstored, version ? version : "(older)",
      (unsigned long long)ipc, (unsigned long long)wire, FS_VERSION, FS_IPC_VERSION, FS_WIRE_VERSION);
}

/* Handles `have`: partitions such as "0,4-7,12". */
static void on_have(struct fs_launch *l, uint64_t rank, const struct fs_control *c) {
  uint64_t d;
  const char *text = fs_control_get(c, "parts");
  if (!text || fs_control_get_u64(c, "dataset", &d) < 0 || d >= l->opt.datasets) return;
  bool *staged = l->staged + rank * l->parts + l->dataset[d].first;
  uint64_t parts = l->dataset[d].index.nparts;
  l->node[rank].have |= 1ull << d;
  while (*text >= '0' && *text <= '9') {
    char *end;
    unsigned long long first = strtoull(text, &end, 10), last = first;
    if (*end == '-') last = strtoull(end + 1, &end, 10);
    for (uint64_t p = first; p <= last && p < parts; p++) staged[p] = true;
    if (*end != ',') return;
    text = end + 1;
  }
}

static void on_lost(struct fs_launch *l, uint64_t rank, const struct fs_control *c) {
  uint64_t d, p;
  if (fs_control_get_u64(c, "dataset", &d) < 0 || d >= l->opt.datasets || fs_control_get_u64(c, "part", &p) < 0 ||
      p >= l->dataset[d].index.nparts)
    return;
  l->dataset[d].lost++;
  fs_warn(l, "node %llu (%s): partition %llu could not be staged there", (unsigned long long)rank, l->node[rank].host,
          (unsigned long long)p);
}

/* Handles `fetched`: what this node had from others, "NODE:BLOCKS:BYTES:US,...". A daemon sends it
   once at its end. */
static void on_fetched(struct fs_launch *l, uint64_t rank, const struct fs_control *c) {
  const char *text = fs_control_get(c, "from");
  if (!l->pair_bytes && l->nodes <= FS_MATRIX_NODES)
    l->pair_bytes = calloc((size_t)l->nodes * l->nodes, sizeof(*l->pair_bytes));
  for (unsigned long long from, blocks, bytes, us; text; text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL) {
    if (sscanf(text, "%10llu:%19llu:%19llu:%19llu", &from, &blocks, &bytes, &us) != 4 || from >= l->nodes) return;
    struct fs_served *s = &l->node[from].served;
    s->blocks += blocks;
    s->bytes += bytes;
    s->us += us;
    if (l->pair_bytes) l->pair_bytes[from * l->nodes + rank] += bytes;
  }
}

static void on_text(struct fs_launch *l, uint64_t rank, const struct fs_control *c, bool fail) {
  const char *text = fs_control_get(c, "text");
  char who[256];
  if (!text) text = "no reason given";
  snprintf(who, sizeof(who), l->node[rank].host[0] ? "node %llu (%.200s): " : "node %llu: ", (unsigned long long)rank,
           l->node[rank].host);
  if (fail) l->node[rank].failed = true;
  if (!fail)
    fs_warn(l, "%s%s", who, text);
  else if (l->fail[0] == '\0')
    snprintf(l->fail, sizeof(l->fail), "%s%s", l->nodes > 1 ? who : "", text);
}

static void on_ready(struct fs_launch_node *node, const struct fs_control *c) {
  fs_control_get_u64(c, "staged", &node->staged);
  fs_control_get_u64(c, "reused", &node->reused);
  fs_control_get_u64(c, "passed", &node->passed);
  fs_control_get_u64(c, "local", &node->local);
  fs_control_get_u64(c, "memory", &node->memory);
  fs_control_get_u64(c, "cached", &node->cached);
  node->ready = true;
}

void fs_control_line_in(struct fs_launch *l, const char *line, size_t n) {
  struct fs_control c;
  uint64_t rank;
  if (fs_control_parse(line, n, &c) < 0) {
    fs_noise_line(l, line, n);
    return;
  }
  if (fs_control_get_u64(&c, "rank", &rank) < 0 || rank >= l->nodes) return;
  struct fs_launch_node *node = &l->node[rank];
  bool figures = strcmp(c.verb, "sample") == 0 || strcmp(c.verb, "latency") == 0 || strcmp(c.verb, "waits") == 0 ||
                 strcmp(c.verb, "files") == 0;
  if (!figures && strcmp(c.verb, "warn") != 0) l->progress_ns = fs_now_ns();
  if (strcmp(c.verb, "begun") == 0 || strcmp(c.verb, "hello") == 0) on_hello(node, &c);
  if (strcmp(c.verb, "begun") == 0) check_version(l, rank, &c);
  if (strcmp(c.verb, "have") == 0) on_have(l, rank, &c);
  if (strcmp(c.verb, "placed") == 0) {
    node->placed = true;
    l->placed_ns = l->progress_ns;
  }
  if (strcmp(c.verb, "ready") == 0) on_ready(node, &c);
  if (strcmp(c.verb, "lost") == 0) on_lost(l, rank, &c);
  if (strcmp(c.verb, "stats") == 0) fs_sample_values(&node->stats, &c);
  fs_sample_line_in(&node->history, l->nodes, &c);
  fs_waits_line_in(&node->waits, (uint32_t)rank, &c);
  if (strcmp(c.verb, "fetched") == 0) on_fetched(l, rank, &c);
  fs_outputs_line_in(l, rank, &c);
  fs_stage_in_line(l, rank, &c);
  if (strcmp(c.verb, "bye") == 0) {
    node->bye = true;
    node->left = fs_control_get(&c, "left") != NULL;
  }
  if (strcmp(c.verb, "warn") == 0 || strcmp(c.verb, "fail") == 0) on_text(l, rank, &c, c.verb[0] == 'f');
  if (strcmp(c.verb, "stage") == 0) {
    fs_control_get_u64(&c, "done", &node->stage_done);
    fs_control_get_u64(&c, "total", &node->stage_total);
  }
}

int fs_control_send(struct fs_launch *l, const struct fs_control_line *line) {
  uint64_t until = fs_now_ns() + FS_SEND_NS;
  for (size_t done = 0; done < line->len;) {
    ssize_t n = l->to_daemons < 0 ? -1 : write(l->to_daemons, line->text + done, line->len - done);
    if (n > 0) {
      done += (size_t)n;
      continue;
    }
    if (l->to_daemons < 0 || (errno != EAGAIN && errno != EINTR) || fs_now_ns() > until || l->daemons_ended)
      return -EPIPE;
    fs_events_step(l, fs_now_ns()); /* the daemons may wait for us to read */
    struct pollfd p = {.fd = l->to_daemons, .events = POLLOUT};
    poll(&p, 1, 20);
  }
  return 0;
}

/* Writes the owners of a partition as "0.2", "*", or "-", and its source as "<0" behind them. */
static void owners_text(const struct fs_owners *p, char *out, size_t size) {
  size_t n = 0;
  snprintf(out, size, "%s", p->everywhere ? "*" : "-");
  for (unsigned i = 0; i < p->owners; i++)
    n += (size_t)snprintf(out + n, size - n, "%s%u", i > 0 ? "." : "", p->owner[i]);
  n = strlen(out);
  if (p->passed) snprintf(out + n, size - n, "<%u", p->source);
}

static int send_some(struct fs_launch *l, unsigned d, uint64_t first, const char *owners) {
  struct fs_control_line line;
  fs_err err = fs_control_begin(&line, "place");
  if (err == 0) err = fs_control_add_u64(&line, "dataset", d);
  if (err == 0) err = fs_control_add_u64(&line, "first", first);
  if (err == 0) err = fs_control_add(&line, "owners", owners);
  if (err == 0) err = fs_control_end(&line);
  return err == 0 ? fs_control_send(l, &line) : err;
}

static int send_dataset(struct fs_launch *l, unsigned d) {
  char owners[1024] = "", one[64];
  uint64_t first = 0;
  size_t n = 0;
  for (uint64_t p = 0; p < l->dataset[d].index.nparts; p++) {
    owners_text(&l->place[l->dataset[d].first + p], one, sizeof(one));
    if (n + strlen(one) + 2 > sizeof(owners)) { /* escaping may triple it: the line still fits */
      int err = send_some(l, d, first, owners);
      if (err < 0) return err;
      first = p;
      n = 0;
    }
    n += (size_t)snprintf(owners + n, sizeof(owners) - n, "%s%s", n > 0 ? "," : "", one);
  }
  return n > 0 ? send_some(l, d, first, owners) : 0;
}

int fs_control_send_placement(struct fs_launch *l) {
  struct fs_control_line line;
  for (unsigned d = 0; d < l->opt.datasets; d++) {
    int err = send_dataset(l, d);
    if (err < 0) return err;
  }
  fs_err err = fs_control_begin(&line, "go");
  if (err == 0) err = fs_control_end(&line);
  return err == 0 ? fs_control_send(l, &line) : err;
}
