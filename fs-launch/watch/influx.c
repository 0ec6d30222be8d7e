/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One reading of a job in InfluxDB's line protocol: a line for each node, and one for each of its
 * histograms. Whole numbers are signed there, so larger ones are cut. No state.
 */
#include <string.h>

#include "watch.h"

/* Writes a tag's value, which may have any bytes: valid UTF-8 on one line. The protocol gives commas,
   equals signs and blanks a backslash. It has no way to write a backslash before one of these or at
   the end, so a backslash becomes a slash. No tag is empty. */
static void tag(FILE *out, const char *name, const char *value) {
  char line[1024];
  fprintf(out, ",%s=", name);
  if (value[0] == '\0') value = "unknown";
  for (const char *p = fs_one_line(value, line, sizeof(line)); *p != '\0'; p++) {
    if (*p == ',' || *p == '=' || *p == ' ') fputc('\\', out);
    fputc(*p == '\\' ? '/' : *p, out);
  }
}

static void tags(FILE *out, const struct fs_view *l, uint32_t node, const char *measurement) {
  fputs(measurement, out);
  tag(out, "job", l->job);
  fprintf(out, ",node=%u", node);
  tag(out, "host", l->node[node].host);
}

static void field(FILE *out, const char **before, const char *name, uint64_t value) {
  fprintf(out, "%s%s=%llui", *before, name, (unsigned long long)FS_MIN(value, (uint64_t)INT64_MAX));
  *before = ",";
}

static void end(FILE *out, const struct fs_view_node *n) {
  fprintf(out, " %llu\n", (unsigned long long)(FS_MIN(n->ms, (uint64_t)INT64_MAX / 1000000) * 1000000));
}

static void node_line(const struct fs_view *l, uint32_t node, FILE *out) {
  const struct fs_view_node *n = &l->node[node];
  const char *before = " ";
  if (n->have == 0) return;
  tags(out, l, node, "fanstore");
  for (unsigned k = 0; k < FS_VIEW_NKEYS; k++)
    if (n->have & 1ull << k) field(out, &before, fs_view_key_name[k], n->value[k]);
  end(out, n);
}

static void latency_line(const struct fs_view *l, uint32_t node, unsigned kind, FILE *out) {
  const struct fs_latency *h = l->node[node].latency[kind];
  const char *before = " ";
  if (!h) return;
  tags(out, l, node, "fanstore_latency");
  tag(out, "op", fs_latency_op_name(kind / FS_LATENCY_PLACES));
  tag(out, "place", fs_latency_place_name(kind % FS_LATENCY_PLACES));
  field(out, &before, "n", fs_latency_total(h));
  field(out, &before, "p50_ns", fs_latency_percentile(h, 500));
  field(out, &before, "p90_ns", fs_latency_percentile(h, 900));
  field(out, &before, "p99_ns", fs_latency_percentile(h, 990));
  end(out, &l->node[node]);
}

void fs_metrics_influx(const struct fs_view *l, FILE *out) {
  for (uint32_t i = 0; i < l->nodes; i++) {
    if (!l->node[i].sampled) continue;
    node_line(l, i, out);
    for (unsigned k = 0; k < FS_LATENCY_KINDS; k++) latency_line(l, i, k, out);
  }
}
