/* SPDX-License-Identifier: BSD-3-Clause */
/* The lines of fs-launch stats: text in columns, and JSON. */
#include <string.h>

#include "watch.h"

void fs_stats_header(FILE *out, bool nodes, bool outputs) {
  fputs("TIME    ", out);
  if (nodes) fputs("  NODE HOST        ", out);
  fprintf(out, "   FILES/S     MB/S  LOCAL%% CACHE%% REMOTE%% SHARED%%  WAIT%%%s    P50    P99\n",
          outputs ? "   OUT/S  OUTMB/S" : "");
}

static void time_of_day(FILE *out) {
  time_t now = (time_t)(fs_clock_ns(CLOCK_REALTIME) / FS_NS_PER_S);
  struct tm tm;
  char text[32] = "";
  if (localtime_r(&now, &tm)) strftime(text, sizeof(text), "%H:%M:%S", &tm);
  fputs(text, out);
}

static void row(const struct fs_delta *d, bool outputs, FILE *out) {
  static const int width[] = {6, 6, 7, 7};
  char a[FS_SHOW], b[FS_SHOW];
  fprintf(out, "  %8s %8s ", fs_show_count(fs_delta_rate(d, FS_VIEW_OPENS), a), fs_show_mega(fs_delta_bytes(d), b));
  for (int p = FS_LATENCY_LOCAL; p <= FS_LATENCY_SHARED; p++)
    fprintf(out, " %*s", width[p], fs_show_percent(fs_delta_share(d, (enum fs_latency_place)p), a));
  fprintf(out, " %6s", fs_show_percent(fs_delta_waited(d), a));
  if (outputs)
    fprintf(out, " %7s %8s", fs_show_count(fs_delta_rate(d, FS_VIEW_OUTPUTS), a),
            fs_show_mega(fs_delta_rate(d, FS_VIEW_OUTPUT_WRITTEN), b));
  fprintf(out, " %6s %6s\n", fs_show_ns((double)fs_latency_percentile(&d->remote, 500), a),
          fs_show_ns((double)fs_latency_percentile(&d->remote, 990), b));
}

static void staging_row(const struct fs_view *l, FILE *out) {
  char done[32], total[32];
  fprintf(out, "  %s", fs_view_state_name[l->state]);
  if (l->total > 0)
    fprintf(out, ": %s of %s", fs_format_size(l->done, done, sizeof(done)),
            fs_format_size(l->total, total, sizeof(total)));
  fputc('\n', out);
}

void fs_stats_text(const struct fs_watch *w, bool nodes, bool outputs, FILE *out) {
  const struct fs_view *l = &w->view;
  char host[64];
  struct fs_delta total;
  if (l->state < FS_VIEW_RUNNING) {
    time_of_day(out);
    staging_row(l, out);
    return;
  }
  for (uint32_t i = 0; nodes && i < l->nodes; i++) {
    time_of_day(out);
    fprintf(out, "  %4u %-12s", i, fs_show_text(l->node[i].host, 12, host, sizeof(host)));
    row(&w->node[i].delta, outputs, out);
  }
  if (nodes) return;
  fs_watch_total(w, &total);
  time_of_day(out);
  row(&total, outputs, out);
}

static void json_number(const char *name, double value, FILE *out) {
  if (value < 0)
    fprintf(out, ", \"%s\": null", name);
  else
    fprintf(out, ", \"%s\": %.6g", name, value);
}

static void json_delta(const struct fs_delta *d, FILE *out) {
  char name[64];
  fprintf(out, "\"seconds\": %.3f", d->seconds);
  json_number("files_per_s", fs_delta_rate(d, FS_VIEW_OPENS), out);
  json_number("bytes_per_s", fs_delta_bytes(d), out);
  for (int p = FS_LATENCY_LOCAL; p <= FS_LATENCY_SHARED; p++) {
    snprintf(name, sizeof(name), "bytes_%s_per_s", fs_latency_place_name((unsigned)p));
    json_number(name, fs_delta_rate(d, (enum fs_view_key)(FS_VIEW_BYTES_LOCAL + p)), out);
  }
  json_number("waited_percent", fs_delta_waited(d), out);
  json_number("hit_percent", fs_delta_hit(d), out);
  json_number("decodes_per_s", fs_delta_rate(d, FS_VIEW_DECODES), out);
  json_number("decode_s_per_s", fs_delta_rate(d, FS_VIEW_DECODE_MS) / 1e3, out);
  json_number("decode_saved_bytes_per_s", fs_delta_rate(d, FS_VIEW_DECODE_SAVED), out);
  json_number("outputs_per_s", fs_delta_rate(d, FS_VIEW_OUTPUTS), out);
  json_number("output_bytes_per_s", fs_delta_rate(d, FS_VIEW_OUTPUT_WRITTEN), out);
  uint64_t p50 = fs_latency_percentile(&d->remote, 500), p99 = fs_latency_percentile(&d->remote, 990);
  json_number("remote_read_p50_us", p50 > 0 ? (double)p50 / 1e3 : -1, out);
  json_number("remote_read_p99_us", p99 > 0 ? (double)p99 / 1e3 : -1, out);
}

static void json_node(const struct fs_watch *w, uint32_t i, FILE *out) {
  static const enum fs_view_key gauges[] = {FS_VIEW_CACHE_USED, FS_VIEW_CACHE_SIZE, FS_VIEW_QUEUE,
                                            FS_VIEW_PROCESSES,  FS_VIEW_HOST_BUSY,  FS_VIEW_WAIT_WORST,
                                            FS_VIEW_FILL_TOTAL, FS_VIEW_FILL_DONE};
  const struct fs_view_node *n = &w->view.node[i];
  fprintf(out, "{\"node\": %u, \"host\": ", i);
  fs_json_string(out, n->host);
  fputs(", ", out);
  json_delta(&w->node[i].delta, out);
  for (size_t k = 0; k < FS_ARRAY_LEN(gauges); k++)
    fprintf(out, ", \"%s\": %llu", fs_view_key_name[gauges[k]], (unsigned long long)n->value[gauges[k]]);
  fputc('}', out);
}

void fs_stats_json(const struct fs_watch *w, bool nodes, FILE *out) {
  const struct fs_view *l = &w->view;
  struct fs_delta total;
  fs_watch_total(w, &total);
  fprintf(out, "{\"ms\": %llu, \"job\": ", (unsigned long long)(fs_clock_ns(CLOCK_REALTIME) / 1000000));
  fs_json_string(out, l->job);
  fprintf(out, ", \"state\": \"%s\", \"staged_bytes\": %llu, \"to_stage_bytes\": %llu, ", fs_view_state_name[l->state],
          (unsigned long long)l->done, (unsigned long long)l->total);
  json_delta(&total, out);
  if (nodes) fputs(", \"nodes\": [", out);
  for (uint32_t i = 0; nodes && i < l->nodes; i++) {
    if (i > 0) fputs(", ", out);
    json_node(w, i, out);
  }
  fputs(nodes ? "]}\n" : "}\n", out);
}
