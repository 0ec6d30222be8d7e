/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the short summary on stderr: where the data came from, node by node, and what went
   wrong. */
#include <stdio.h>
#include <string.h>

#include "launch.h"

static uint64_t stat_of(const struct fs_launch_node *n, const char *key) {
  return fs_sample_get(&n->stats, key);
}

uint64_t fs_stat_sum(const struct fs_launch *l, const char *key) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < l->nodes; i++) sum += stat_of(&l->node[i], key);
  return sum;
}

#define FS_UNUSED_NAMED 16u

struct shares {
  uint64_t opens, sent, bytes[4], total, output_opens, output_bytes;
};

static void add_shares(struct shares *s, const struct fs_launch_node *n) {
  static const char *const keys[] = {"bytes_local", "bytes_cache", "bytes_remote", "bytes_shared"};
  s->opens += stat_of(n, "opens");
  s->sent += stat_of(n, "served_bytes");
  s->output_opens += stat_of(n, "output_opens");
  s->output_bytes += stat_of(n, "output_bytes");
  for (unsigned i = 0; i < 4; i++) {
    s->bytes[i] += stat_of(n, keys[i]);
    s->total += stat_of(n, keys[i]);
  }
}

static void share_line(const char *label, const struct shares *s) {
  char read[32], outputs[32], shares[128] = "", others[128] = "", sent[64] = "";
  double all = s->total > 0 ? (double)s->total / 100 : 1;
  if (s->total > 0)
    snprintf(shares, sizeof(shares), ": %.1f%% local, %.1f%% cache, %.1f%% remote, %.1f%% shared storage",
             (double)s->bytes[0] / all, (double)s->bytes[1] / all, (double)s->bytes[2] / all,
             (double)s->bytes[3] / all);
  if (s->output_opens > 0)
    snprintf(others, sizeof(others), "; other nodes' outputs: %llu opened, %s read",
             (unsigned long long)s->output_opens, fs_format_size(s->output_bytes, outputs, sizeof(outputs)));
  if (s->sent > 0)
    snprintf(sent, sizeof(sent), "; %s sent to other nodes", fs_format_size(s->sent, outputs, sizeof(outputs)));
  fs_say("%s: %llu dataset file%s opened, %s read%s%s%s", label, (unsigned long long)s->opens, s->opens == 1 ? "" : "s",
         fs_format_size(s->total, read, sizeof(read)), shares, others, sent);
}

/* Prints the total of the nodes that reported, and how many did not. */
static void total_line(const struct fs_launch *l, const struct shares *total, uint32_t reported) {
  char label[64];
  snprintf(label, sizeof(label), reported < l->nodes ? "%u of %u nodes, the others gave no report" : "all %u nodes",
           reported < l->nodes ? reported : l->nodes, l->nodes);
  if (reported > 0)
    share_line(label, total);
  else
    fs_say("all %u nodes: no report", l->nodes);
}

static void node_lines(const struct fs_launch *l) {
  struct shares total = {0};
  uint32_t reported = 0;
  char label[320];
  for (uint32_t i = 0; i < l->nodes; i++) {
    const struct fs_launch_node *n = &l->node[i];
    struct shares s = {0};
    add_shares(&s, n);
    add_shares(&total, n);
    reported += n->stats.n > 0;
    snprintf(label, sizeof(label), "node %u (%s)", i, n->host);
    if (l->nodes > 16) continue; /* the report has them all */
    if (n->stats.n > 0)
      share_line(label, &s);
    else
      fs_say("%s: no report", label);
  }
  if (l->nodes > 1) total_line(l, &total, reported);
}

/* Names nodes where COMMAND ran and no process connected to the daemon: none needed it, its paths are
   wrong, or the library was not loaded. */
static void unused_line(const struct fs_launch *l) {
  char list[256] = "", more[32] = "";
  uint32_t ran = l->opt.np == 0 ? 1 : (uint32_t)FS_MIN(l->opt.np, l->nodes), unused = 0;
  for (uint32_t i = 0; i < ran; i++) {
    const struct fs_launch_node *n = &l->node[i];
    if (n->stats.n == 0 || stat_of(n, "clients") > 0) continue;
    size_t len = strlen(list);
    if (unused++ < FS_UNUSED_NAMED) snprintf(list + len, sizeof(list) - len, "%s%u", len > 0 ? ", " : "", i);
  }
  if (unused == 0) return;
  if (unused > FS_UNUSED_NAMED) snprintf(more, sizeof(more), " and %u more", unused - FS_UNUSED_NAMED);
  fs_say(
      "node%s %s%s: nothing below %s was used: is the path right, and did LD_PRELOAD reach the programs? (Nothing is "
      "wrong if COMMAND did not need it.)",
      unused == 1 ? "" : "s", list, more, l->opt.datasets == 1 ? l->dataset[0].mount : "the mounts");
}

int fs_place_status(const struct fs_launch *l, int status) {
  bool lacks = l->lacking > 0 || l->dataset[0].lost > 0 || l->opt.replicas > l->nodes;
  if (status == FS_EXIT_FAILED) return 1;
  return status == 0 && lacks ? FS_PLACE_NOT_ALL : status;
}

/* The summary of fs-prepare place. */
static void place_line(const struct fs_launch *l, uint64_t staged, uint64_t reused, const char *peers) {
  char least[32], most[32], a[32], b[32];
  uint64_t min = UINT64_MAX, max = 0;
  for (uint32_t i = 0; i < l->nodes; i++) {
    min = FS_MIN(min, l->node[i].local);
    max = FS_MAX(max, l->node[i].local);
  }
  fs_format_size(min, least, sizeof(least));
  fs_format_size(max, most, sizeof(most));
  bool alike = strcmp(least, most) == 0;
  fs_say("%s%s is on %u node%s, %s%s%s%s in %s: %s staged%s, %s reused",
         l->lacking > 0 || l->dataset[0].lost > 0 ? "a part of " : "", l->opt.dataset[0].path, l->nodes,
         fs_plural(l->nodes), least, alike ? "" : " to ", alike ? "" : most, l->nodes == 1 ? "" : " each", l->local_dir,
         fs_format_size(staged, a, sizeof(a)), peers, fs_format_size(reused, b, sizeof(b)));
  for (unsigned i = 0; i < l->warnings; i++) fs_say("warning: %s", l->warning[i]);
}

void fs_summary(const struct fs_launch *l) {
  uint64_t staged = 0, reused = 0, passed = 0, errors = fs_stat_sum(l, "errors"),
           fallbacks = fs_stat_sum(l, "fallbacks");
  char a[32], b[32], c[32], peers[64] = "";
  for (uint32_t i = 0; i < l->nodes; i++) {
    staged += l->node[i].staged;
    passed += l->node[i].passed;
    reused += l->node[i].reused;
  }
  if (passed > 0) snprintf(peers, sizeof(peers), " (%s of it from other nodes)", fs_format_size(passed, c, sizeof(c)));
  if (l->opt.place) {
    place_line(l, staged, reused, peers);
    return;
  }
  fs_say("%u node%s, %u dataset%s: %s staged%s, %s reused; %s %.1f s", l->nodes, l->nodes == 1 ? "" : "s",
         l->opt.datasets, l->opt.datasets == 1 ? "" : "s", fs_format_size(staged, a, sizeof(a)), peers,
         fs_format_size(reused, b, sizeof(b)), l->opt.daemon ? "the job served" : "COMMAND ran",
         (double)l->command_ns / 1e9);
  node_lines(l);
  unused_line(l);
  if (fallbacks > 0)
    fs_say(
        "%llu block%s came from shared storage, because a node did not answer, or its copy of a partition is damaged "
        "or missing",
        (unsigned long long)fallbacks, fallbacks == 1 ? "" : "s");
  if (errors > 0) fs_say("%llu read%s failed", (unsigned long long)errors, errors == 1 ? "" : "s");
  fs_outputs_tell(l);
  for (unsigned i = 0; i < l->warnings; i++) fs_say("warning: %s", l->warning[i]);
  for (unsigned i = 0; l->figures && i < l->figures->findings; i++) fs_say("warning: %s", l->figures->finding[i].text);
}
