/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Findings: what in a job was wrong or could be faster, one sentence each, with the option that
 * helps (figures.h). Each has a least time and a least size, so that a short or small job has none.
 * docs/report.md has the same rules in words.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "figures.h"
#include "launch.h"

#define FS_LEAST_MS 30000u         /* a shorter job has no findings */
#define FS_LEAST_BYTES (64u << 20) /* nor has it for fewer bytes */
#define FS_LEAST_BLOCKS 1000u      /* before a node is called slow, */
#define FS_LEAST_US 500u           /* and this much longer for each than the others */
#define FS_BUSY 95u                /* percent */
#define FS_NAMED_NODES 8u

static struct fs_finding *add(struct fs_figures *f) {
  return f->findings < FS_FINDINGS_MAX ? &f->finding[f->findings++] : NULL;
}

static char *node_name(const struct fs_launch *l, uint32_t node, char out[128]) {
  snprintf(out, 128, l->node[node].host[0] ? "node %u (%.100s)" : "node %u", node, l->node[node].host);
  return out;
}

static char *tenths(double x, char out[16]) {
  unsigned t = (unsigned)(FS_MIN(x, 1e6) * 10 + 0.5);
  snprintf(out, 16, "%u.%u", t / 10 % 10000000, t % 10);
  return out;
}

/* The text begins a sentence. */
static void capital(struct fs_finding *n) {
  if (n->brief[0] == 'n') n->brief[0] = 'N';
  if (n->text[0] == 'n') n->text[0] = 'N';
}

static uint64_t command_ms(const struct fs_launch *l) {
  return l->command_ns / 1000000;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Returns the median of these values but that of `node`; those that are 0 are not known. */
static double median_of_others(const double *value, uint32_t nodes, uint32_t node) {
  FS_AUTO_FREE double *other = calloc(nodes, sizeof(*other));
  uint32_t n = 0;
  for (uint32_t i = 0; other && i < nodes; i++)
    if (i != node && value[i] > 0) other[n++] = value[i];
  if (n == 0) return 0;
  qsort(other, n, sizeof(*other), by_size);
  return (other[(n - 1) / 2] + other[n / 2]) / 2;
}

static double busy(const struct fs_figures *f, uint32_t node) {
  return (double)fs_figures_sum(f, node, FS_SERIES_HOST_BUSY) / f->intervals;
}

/* Returns how long nine in ten of the node's reads of its own partitions took at most. */
static double local_time(const struct fs_launch *l, uint32_t node) {
  const struct fs_latency *h = fs_sample_latency(&l->node[node].history, FS_LATENCY_READ, FS_LATENCY_LOCAL);
  return h ? (double)fs_latency_percentile(h, 900) : 0;
}

static const char *why_slow(const struct fs_launch *l, const struct fs_figures *f, uint32_t node) {
  FS_AUTO_FREE double *local = calloc(l->nodes, sizeof(*local));
  for (uint32_t i = 0; local && i < l->nodes; i++) local[i] = local_time(l, i);
  double others = local ? median_of_others(local, l->nodes, node) : 0;
  if (local && others > 0 && local[node] >= 2 * others) return "its disk is slow";
  return busy(f, node) >= FS_BUSY ? "its processors were busy" : "look at its network and its disk";
}

/* A node that answers other nodes half as fast as the median of the others, or slower. */
static void slow_node(const struct fs_launch *l, struct fs_figures *f) {
  FS_AUTO_FREE double *us = calloc(l->nodes, sizeof(*us));
  char name[128], a[16], b[16];
  for (uint32_t i = 0; us && i < l->nodes; i++) {
    const struct fs_served *s = &l->node[i].served;
    us[i] = s->blocks >= FS_LEAST_BLOCKS ? (double)s->us / (double)s->blocks : 0;
  }
  for (uint32_t i = 0; us && i < l->nodes; i++) {
    double others = median_of_others(us, l->nodes, i);
    bool long_enough = l->node[i].served.us / 1000 >= FS_MAX(command_ms(l) / 20, 10000u);
    if (others == 0 || us[i] < 2 * others || us[i] < others + FS_LEAST_US || !long_enough) continue;
    struct fs_finding *n = add(f);
    if (!n) return;
    const char *why = why_slow(l, f, i);
    node_name(l, i, name);
    snprintf(n->brief, sizeof(n->brief), "%s served %s times as slowly as the others: %s", name,
             tenths(us[i] / others, a), why);
    snprintf(n->text, sizeof(n->text),
             "%s answered other nodes in %s ms, the others in %s ms: %s. Without it (--hosts) the others need not "
             "wait for it.",
             name, tenths(us[i] / 1000, a), tenths(others / 1000, b), why);
    capital(n);
  }
}

static bool has_owner(const struct fs_owners *place, uint32_t node) {
  bool found = place->everywhere;
  for (unsigned i = 0; i < place->owners; i++) found = found || place->owner[i] == node;
  return found;
}

/* Bytes of the partitions that only other nodes have. */
static uint64_t held_by_others(const struct fs_launch *l, uint32_t node) {
  uint64_t bytes = 0;
  for (uint64_t p = 0; p < l->parts; p++)
    if (l->place[p].owners > 0 && !has_owner(&l->place[p], node)) bytes += l->part[p].size;
  return bytes;
}

/* Writes a size as --cache takes it, a little more than the bytes. */
static char *size_option(uint64_t bytes, char out[32]) {
  unsigned long long mib = ((bytes + bytes / 16) >> 20) + 1;
  if (mib > 1024)
    snprintf(out, 32, "%lluG", (mib + 1023) / 1024);
  else
    snprintf(out, 32, "%lluM", (mib + 63) / 64 * 64);
  return out;
}

/* Blocks were fetched again, because the cache has no room for all that the other nodes have. */
static void small_cache(const struct fs_launch *l, struct fs_figures *f) {
  uint64_t again = 0, most = 0, cache = 0;
  char a[32], b[32], c[32], d[32];
  for (uint32_t i = 0; i < l->nodes; i++) {
    const struct fs_launch_node *n = &l->node[i];
    uint64_t held = held_by_others(l, i), fetched = fs_sample_get(&n->stats, "fetched_bytes");
    uint64_t room = fs_sample_get(&n->history.last, "cache_size");
    bool waits = fs_figures_sum(f, i, FS_SERIES_WAIT_MS) >= command_ms(l) / 50;
    if (room == 0 || room >= held || fetched < held + held / 4 || !waits) continue;
    again += fetched - held;
    if (held > most) cache = room;
    most = FS_MAX(most, held);
  }
  struct fs_finding *n = again >= FS_LEAST_BYTES ? add(f) : NULL;
  if (!n) return;
  snprintf(n->brief, sizeof(n->brief),
           "The caches were smaller than what the nodes read from each other: %s were fetched again",
           fs_format_size(again, a, sizeof(a)));
  snprintf(n->text, sizeof(n->text),
           "A node's cache has %s, and the other nodes have %s of partitions that it lacks, so %s were fetched again: "
           "--cache %s would do%s.",
           fs_format_size(cache, b, sizeof(b)), fs_format_size(most, c, sizeof(c)), a, size_option(most, d),
           l->opt.cache_disk ? "" : ", or --cache-disk auto");
}

/* Milliseconds in which all processors of the node were busy and its programs waited for a tenth of
   their time or more. */
static uint64_t busy_ms(const struct fs_figures *f, uint32_t node) {
  const uint64_t *load = fs_figures_series(f, node, FS_SERIES_HOST_BUSY);
  const uint64_t *wait = fs_figures_series(f, node, FS_SERIES_WAIT_MS);
  const uint64_t *processes = fs_figures_series(f, node, FS_SERIES_PROCESSES);
  uint64_t ms = 0;
  for (unsigned i = 0; i < f->intervals; i++) {
    uint64_t length = f->end_ms[i] - (i > 0 ? f->end_ms[i - 1] : 0);
    if (load[i] >= FS_BUSY && wait[i] > 0 && wait[i] >= processes[i] * length / 10) ms += length;
  }
  return ms;
}

/* The programs left no processor to the daemon. Emulated nodes share their processors anyway. */
static void busy_processors(const struct fs_launch *l, struct fs_figures *f) {
  char name[128];
  for (uint32_t i = 0; i < l->nodes && l->opt.emulate <= 1; i++) {
    uint64_t ms = busy_ms(f, i), used = fs_figures_sum(f, i, FS_SERIES_CPU_MS);
    if (ms < FS_LEAST_MS || ms < command_ms(l) / 2) continue;
    struct fs_finding *n = add(f);
    if (!n) return;
    unsigned leave = 1 + (unsigned)(used / FS_MAX(command_ms(l), 1u));
    node_name(l, i, name);
    snprintf(n->brief, sizeof(n->brief), "%s had no processor free for its daemon while programs waited", name);
    snprintf(n->text, sizeof(n->text),
             "%s: all processors were busy for %llu s while programs waited for data. Leave %u to the daemon: start "
             "fewer processes or workers there (docs/performance.md).",
             name, (unsigned long long)(ms / 1000), leave);
    capital(n);
  }
}

static bool all_placed(const struct fs_launch *l) {
  for (uint64_t p = 0; p < l->parts; p++)
    if (l->place[p].owners == 0 && !l->place[p].everywhere) return false;
  return true;
}

/* Nodes read from shared storage although each partition was placed on a node. */
static void shared_storage(const struct fs_launch *l, struct fs_figures *f) {
  char name[128], a[32];
  for (uint32_t i = 0; i < l->nodes && all_placed(l); i++) {
    uint64_t shared = fs_figures_sum(f, i, FS_SERIES_SHARED), all = shared;
    for (unsigned s = FS_SERIES_LOCAL; s < FS_SERIES_SHARED; s++) all += fs_figures_sum(f, i, (enum fs_series)s);
    if (shared < FS_LEAST_BYTES || shared < all / 50) continue;
    struct fs_finding *n = add(f);
    if (!n) return;
    node_name(l, i, name);
    fs_format_size(shared, a, sizeof(a));
    snprintf(n->brief, sizeof(n->brief), "%s read %s from shared storage, although other nodes have it", name, a);
    snprintf(n->text, sizeof(n->text),
             "%s read %s (%llu %%) from shared storage, although every partition is on a node: the nodes that have "
             "them did not answer in time, or lost them. --replicas 2 gives each partition a second node.",
             name, a, (unsigned long long)(100 * shared / all));
    capital(n);
  }
}

/* Nodes where fs-launch did not start COMMAND, and no program used FanStore, while others read much.
   (The summary names those where COMMAND ran.) */
static void idle_nodes(const struct fs_launch *l, struct fs_figures *f) {
  char list[128] = "", more[32] = "";
  uint32_t idle = 0, ran = l->opt.np == 0 ? 1 : (uint32_t)FS_MIN(l->opt.np, l->nodes);
  uint64_t read = 0;
  for (uint32_t i = 0; i < l->nodes; i++) {
    for (unsigned s = FS_SERIES_LOCAL; s <= FS_SERIES_SHARED; s++) read += fs_figures_sum(f, i, (enum fs_series)s);
    if (i < ran || l->node[i].stats.n == 0 || fs_sample_get(&l->node[i].stats, "clients") > 0) continue;
    size_t len = strlen(list);
    if (idle++ < FS_NAMED_NODES) snprintf(list + len, sizeof(list) - len, "%s%u", len > 0 ? ", " : "", i);
  }
  struct fs_finding *n = idle > 0 && idle < l->nodes && read >= FS_LEAST_BYTES ? add(f) : NULL;
  if (!n) return;
  if (idle > FS_NAMED_NODES) snprintf(more, sizeof(more), " and %u more", idle - FS_NAMED_NODES);
  snprintf(n->brief, sizeof(n->brief), "%u of %u nodes had no program that used the dataset", idle, l->nodes);
  snprintf(n->text, sizeof(n->text),
           "node%s %s%s: no program used the dataset there, so %s served the others only. --np starts COMMAND on all "
           "nodes (docs/fs-launch.1).",
           idle == 1 ? "" : "s", list, more, idle == 1 ? "it" : "they");
  capital(n);
}

void fs_findings(const struct fs_launch *l, struct fs_figures *f) {
  if (command_ms(l) < FS_LEAST_MS) return;
  if (l->nodes > 1) slow_node(l, f);
  if (l->nodes > 1) small_cache(l, f);
  busy_processors(l, f);
  if (l->nodes > 1) shared_storage(l, f);
  if (l->nodes > 1) idle_nodes(l, f);
}

static char *duration(uint64_t ms, char out[48]) {
  if (ms < 120000)
    snprintf(out, 48, "%.1f s", (double)ms / 1000);
  else if (ms < 7200000)
    snprintf(out, 48, "%llu min %llu s", (unsigned long long)(ms / 60000), (unsigned long long)(ms / 1000 % 60));
  else
    snprintf(out, 48, "%llu h %llu min", (unsigned long long)(ms / 3600000), (unsigned long long)(ms / 60000 % 60));
  return out;
}

void fs_figures_headline(const struct fs_launch *l, const struct fs_figures *f, int status, char *out, size_t size) {
  uint64_t near = 0, all = 0;
  char took[48], read[32], end[64] = "";
  for (uint32_t i = 0; i < l->nodes; i++)
    for (unsigned s = FS_SERIES_LOCAL; s <= FS_SERIES_SHARED; s++) {
      uint64_t bytes = fs_figures_sum(f, i, (enum fs_series)s);
      all += bytes;
      if (s <= FS_SERIES_CACHE) near += bytes;
    }
  if (status == 0 && f->findings > 0) {
    snprintf(out, size, "%s.", f->finding[0].brief);
    return;
  }
  if (status != 0) snprintf(end, sizeof(end), " and ended with status %d", status);
  size_t n = (size_t)snprintf(out, size, "COMMAND ran %s on %u node%s%s", duration(command_ms(l), took), l->nodes,
                              l->nodes == 1 ? "" : "s", end);
  if (n >= size) return;
  if (all == 0)
    snprintf(out + n, size - n, "; it read nothing of the dataset%s.", l->opt.datasets == 1 ? "" : "s");
  else
    snprintf(out + n, size - n, "; it read %s, %.0f %% of it from the nodes' own partitions and caches.",
             fs_format_size(all, read, sizeof(read)), 100.0 * (double)near / (double)all);
}
