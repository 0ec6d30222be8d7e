/* SPDX-License-Identifier: BSD-3-Clause */
/* The groups of the report's JSON that show the job's course (figures.h; docs/report.md). */
#include <stdio.h>

#include "launch.h"
#include "report.h"

static const char *const series_name[FS_SERIES_COUNT] = {
    [FS_SERIES_LOCAL] = "bytes_local",   [FS_SERIES_CACHE] = "bytes_cache",   [FS_SERIES_REMOTE] = "bytes_remote",
    [FS_SERIES_SHARED] = "bytes_shared", [FS_SERIES_FILES] = "files",         [FS_SERIES_WAIT_MS] = "wait_ms",
    [FS_SERIES_CPU_MS] = "cpu_ms",       [FS_SERIES_PROCESSES] = "processes", [FS_SERIES_HOST_BUSY] = "host_busy",
};

static void json_series(const struct fs_figures *f, uint32_t node, enum fs_series s, FILE *out) {
  const uint64_t *v = fs_figures_series(f, node, s);
  fprintf(out, ", \"%s\": [", series_name[s]);
  for (unsigned i = 0; i < f->intervals; i++) fprintf(out, "%s%llu", i > 0 ? "," : "", (unsigned long long)v[i]);
  fputc(']', out);
}

static void json_timeline(const struct fs_figures *f, FILE *out) {
  fputs("  \"timeline\": {\"seconds\": [", out);
  for (unsigned i = 0; i < f->intervals; i++) fprintf(out, "%s%.10g", i > 0 ? "," : "", (double)f->end_ms[i] / 1000);
  fputs("], \"nodes\": [", out);
  for (uint32_t n = 0; n < f->nodes; n++) {
    fprintf(out, "%s\n    {\"rank\": %u", n > 0 ? "," : "", n);
    for (unsigned s = 0; s < FS_SERIES_COUNT; s++) json_series(f, n, (enum fs_series)s, out);
    fputc('}', out);
  }
  fputs("\n  ]},\n", out);
}

static double us(const struct fs_latency *h, unsigned per_mille) {
  return (double)fs_latency_percentile(h, per_mille) / 1000;
}

static void json_histogram(uint32_t rank, unsigned op, unsigned place, const struct fs_latency *h, FILE *out) {
  const char *before = "";
  fprintf(out,
          "\n    {\"rank\": %u, \"op\": \"%s\", \"place\": \"%s\", \"n\": %llu, \"p50_us\": %.10g, \"p90_us\": %.10g, "
          "\"p99_us\": %.10g, \"max_us\": %.10g, \"buckets\": [",
          rank, fs_latency_op_name(op), fs_latency_place_name(place), (unsigned long long)fs_latency_total(h),
          us(h, 500), us(h, 900), us(h, 990), us(h, 1000));
  for (unsigned b = 0; b < FS_LATENCY_BUCKETS; b++) {
    if (h->count[b] == 0) continue;
    fprintf(out, "%s[%llu,%llu]", before, (unsigned long long)fs_latency_low(b), (unsigned long long)h->count[b]);
    before = ",";
  }
  fputs("]}", out);
}

static void json_latency(const struct fs_launch *l, FILE *out) {
  const char *before = "";
  fputs("  \"latency\": [", out);
  for (uint32_t i = 0; i < l->nodes; i++)
    for (unsigned op = 0; op < FS_LATENCY_OPS; op++)
      for (unsigned place = 0; place < FS_LATENCY_PLACES; place++) {
        const struct fs_latency *h = fs_sample_latency(&l->node[i].history, op, place);
        if (!h || fs_latency_total(h) == 0) continue;
        fputs(before, out);
        json_histogram(i, op, place, h, out);
        before = ",";
      }
  fputs("\n  ],\n", out);
}

static void json_slow_files(const struct fs_launch *l, FILE *out) {
  struct fs_waited_file file[FS_WAITS_SHOWN];
  char path[2 * PATH_MAX];
  const char *before = "";
  unsigned n = fs_waits_slow(l, file);
  fputs("  \"slow_files\": [", out);
  for (unsigned i = 0; i < n; i++) {
    const struct fs_waited_file *f = &file[i];
    if (fs_waits_path(l, f, path, sizeof(path)) < 0) continue;
    fprintf(out, "%s\n    {\"path\": ", before);
    fs_json_string(out, path);
    fprintf(
        out,
        ", \"rank\": %u, \"place\": \"%s\", \"longest_ms\": %.10g, \"reads\": %llu, \"total_ms\": %.10g, \"bytes\": "
        "%llu}",
        f->node, fs_latency_place_name(f->place), (double)f->longest_us / 1000, (unsigned long long)f->reads,
        (double)f->us / 1000, (unsigned long long)f->bytes);
    before = ",";
  }
  fputs("\n  ],\n", out);
}

static void json_compression(const struct fs_launch *l, FILE *out) {
  fprintf(out, "  \"compression\": {\"decodes\": %llu, \"saved_bytes\": %llu, \"decode_s\": %.10g},\n",
          (unsigned long long)fs_stat_sum(l, "decodes"), (unsigned long long)fs_stat_sum(l, "decode_saved"),
          (double)fs_stat_sum(l, "decode_ms") / 1000);
}

/* Bytes by pair, and what each node answered others. */
static void json_served(const struct fs_launch *l, FILE *out) {
  fputs("  \"served\": [", out);
  for (uint32_t i = 0; i < l->nodes; i++) {
    const struct fs_served *s = &l->node[i].served;
    fprintf(out, "%s\n    {\"rank\": %u, \"blocks\": %llu, \"bytes\": %llu, \"mean_us\": %.1f}", i > 0 ? "," : "", i,
            (unsigned long long)s->blocks, (unsigned long long)s->bytes,
            s->blocks > 0 ? (double)s->us / (double)s->blocks : 0.0);
  }
  fputs("\n  ],\n  \"matrix\": ", out);
  for (uint32_t i = 0; l->pair_bytes && i < l->nodes; i++) {
    fputs(i > 0 ? "],\n    [" : "[\n    [", out);
    for (uint32_t k = 0; k < l->nodes; k++)
      fprintf(out, "%s%llu", k > 0 ? "," : "", (unsigned long long)l->pair_bytes[(size_t)i * l->nodes + k]);
  }
  fputs(l->pair_bytes ? "]\n  ],\n" : "null,\n", out);
}

static void json_epochs(const struct fs_figures *f, FILE *out) {
  static const char *const place[4] = {"local", "cache", "remote", "shared"};
  fputs("  \"epochs\": [", out);
  for (unsigned i = 0; i < f->epochs; i++) {
    const struct fs_epoch *e = &f->epoch[i];
    uint64_t others = e->bytes[1] + e->bytes[2] + e->bytes[3];
    fprintf(out, "%s\n    {\"start_s\": %.10g, \"end_s\": %.10g, \"complete\": %s, \"hit_ratio\": ", i > 0 ? "," : "",
            (double)e->start_ms / 1000, (double)e->end_ms / 1000, e->whole ? "true" : "false");
    if (others > 0)
      fprintf(out, "%.4f", (double)e->bytes[1] / (double)others);
    else
      fputs("null", out);
    fprintf(out, ", \"wait_s\": %.10g", (double)e->wait_ms / 1000);
    for (unsigned p = 0; p < 4; p++) fprintf(out, ", \"bytes_%s\": %llu", place[p], (unsigned long long)e->bytes[p]);
    fputc('}', out);
  }
  fputs(f->epochs > 0 ? "\n  ],\n" : "],\n", out);
}

static void json_spread(const struct fs_launch *l, uint32_t node, FILE *out) {
  struct fs_waits_spread s;
  (void)fs_waits_spread(l, node, &s);
  fprintf(out, "\"processes\": %llu, \"median_s\": %.10g, \"worst_s\": %.10g, \"worst_pid\": %llu",
          (unsigned long long)s.processes, (double)s.median_us / 1e6, (double)s.worst_us / 1e6,
          (unsigned long long)s.worst_pid);
  if (node == l->nodes) fprintf(out, ", \"worst_rank\": %u", s.worst_node);
}

static void json_waiting(const struct fs_launch *l, const struct fs_figures *f, FILE *out) {
  fputs("  \"waiting\": [", out);
  for (uint32_t i = 0; i < f->nodes; i++) {
    fprintf(out, "%s\n    {\"rank\": %u, \"wait_s\": %.10g, \"process_s\": %.10g, ", i > 0 ? "," : "", i,
            (double)fs_figures_sum(f, i, FS_SERIES_WAIT_MS) / 1000, (double)fs_figures_process_ms(f, i) / 1000);
    json_spread(l, i, out);
    fputc('}', out);
  }
  fputs("\n  ],\n  \"processes\": {", out);
  json_spread(l, l->nodes, out);
  fputs("},\n", out);
}

static void json_findings(const struct fs_figures *f, FILE *out) {
  fputs("  \"findings\": [", out);
  for (unsigned i = 0; i < f->findings; i++) {
    if (i > 0) fputs(", ", out);
    fs_json_string(out, f->finding[i].text);
  }
  fputs("],\n", out);
}

void fs_report_figures(const struct fs_launch *l, FILE *out) {
  json_latency(l, out);
  json_slow_files(l, out);
  json_served(l, out);
  json_compression(l, out);
  if (!l->figures) return;
  json_timeline(l->figures, out);
  json_epochs(l->figures, out);
  json_waiting(l, l->figures, out);
  json_findings(l->figures, out);
}
