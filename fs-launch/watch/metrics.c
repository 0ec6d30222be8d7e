/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One reading of a job in Prometheus's text format, version 0.0.4. All samples of a metric stand
 * together, after its HELP and TYPE. docs/watching.md lists the metrics. No state.
 */
#include <string.h>

#include "watch.h"

/* A metric of each node: a key of the live file, or one for each place. */
struct metric {
  const char *name, *help;
  enum fs_view_key key; /* with places: of the first place */
  unsigned places;      /* 0: it has no label place */
  double unit;          /* multiplies the value */
  bool gauge;
};
#define COUNTER(name, key, help)                                                                                       \
  { "fanstore_" name "_total", help, FS_VIEW_##key, 0, 1, false }
#define PLACES(name, key, help)                                                                                        \
  { "fanstore_" name "_total", help, FS_VIEW_##key, 4, 1, false }
#define GAUGE(name, key, help)                                                                                         \
  { "fanstore_" name, help, FS_VIEW_##key, 0, 1, true }
static const struct metric metrics[] = {
    COUNTER("opens", OPENS, "Opens of dataset files."),
    COUNTER("stats", STATS, "Calls of the stat family."),
    PLACES("files", FILES_LOCAL, "Files by the place of their first read."),
    PLACES("read_bytes", BYTES_LOCAL, "Bytes of dataset files given to programs, by place."),
    PLACES("blocks", BLOCKS_LOCAL, "Blocks of dataset files touched, by place."),
    COUNTER("fallback_blocks", FALLBACKS, "Blocks read from shared storage because no node could give them."),
    COUNTER("read_errors", ERRORS, "Reads that failed."),
    COUNTER("materialized_files", MATERIALIZED, "Files copied to real ones for calls that need one."),
    COUNTER("direct_bytes", BYTES_DIRECT, "Bytes read past the page cache."),
    COUNTER("foreign_output_opens", OUTPUT_OPENS, "Opens of outputs of other nodes."),
    COUNTER("foreign_output_bytes", OUTPUT_BYTES, "Bytes read of outputs of other nodes."),
    COUNTER("served_blocks", SERVED, "Blocks sent to other nodes."),
    COUNTER("served_bytes", SERVED_BYTES, "Bytes sent to other nodes."),
    COUNTER("fetched_blocks", FETCHED, "Blocks received from other nodes."),
    COUNTER("fetched_bytes", FETCHED_BYTES, "Bytes received from other nodes."),
    COUNTER("prefetched_blocks", PREFETCHED, "Blocks fetched ahead."),
    COUNTER("cache_disk_read_bytes", DISK_BYTES, "Bytes read from the cache on disk."),
    COUNTER("cache_disk_kept_bytes", DISK_KEPT_BYTES, "Bytes written to the cache on disk."),
    COUNTER("checksum_errors", CHECKSUM_ERRORS, "Blocks with a wrong checksum."),
    COUNTER("timeouts", TIMEOUTS, "Requests to other nodes without an answer in time."),
    COUNTER("dropped_messages", DROPPED, "Messages that were not valid."),
    COUNTER("refused_requests", REFUSED, "Requests that could not be queued."),
    COUNTER("cache_evictions", EVICTIONS, "Blocks that left the cache in memory."),
    COUNTER("staged_bytes", STAGED_BYTES, "Bytes of partitions copied to the node."),
    COUNTER("passed_bytes", PASSED_BYTES, "Of staged_bytes: what came from other nodes."),
    COUNTER("reused_bytes", REUSED_BYTES, "Bytes of partitions that earlier jobs had left there."),
    COUNTER("clients", CLIENTS, "Processes that have connected to the daemon."),
    COUNTER("replicated_blocks", REPLICATED, "Blocks of outputs copied to a second node."),
    COUNTER("replicated_bytes", REPLICATED_BYTES, "Bytes of outputs copied to a second node."),
    COUNTER("output_files", OUTPUTS, "Files that programs made."),
    COUNTER("output_written_bytes", OUTPUT_WRITTEN, "Bytes that programs wrote to outputs."),
    {"fanstore_wait_seconds_total", "Time that programs waited in reads, summed over processes.", FS_VIEW_WAIT_MS, 0,
     0.001, false},
    {"fanstore_daemon_cpu_seconds_total", "Processor time of the daemon.", FS_VIEW_CPU_MS, 0, 0.001, false},
    COUNTER("decodes", DECODES, "Compressed blocks that programs decoded, by samples."),
    {"fanstore_decode_seconds_total", "Time that programs decoded blocks, by samples.", FS_VIEW_DECODE_MS, 0, 0.001,
     false},
    COUNTER("decode_saved_bytes", DECODE_SAVED, "Bytes that compression saved in reads, by samples."),
    GAUGE("cache_used_bytes", CACHE_USED, "Bytes in the cache in memory."),
    GAUGE("cache_size_bytes", CACHE_SIZE, "Room of the cache in memory."),
    GAUGE("queue", QUEUE, "Requests to other nodes that are under way."),
    GAUGE("processes", PROCESSES, "Processes that are connected to the daemon."),
    {"fanstore_host_busy_ratio", "Part of the host's processors that is busy, 0 to 1.", FS_VIEW_HOST_BUSY, 0, 0.01,
     true},
    {"fanstore_wait_worst_ratio", "Part of its time that one process waited in reads at most, 0 to 1.",
     FS_VIEW_WAIT_WORST, 0, 0.01, true},
    GAUGE("fill_bytes", FILL_TOTAL, "Bytes that --prefetch idle is to fetch."),
    GAUGE("fill_done_bytes", FILL_DONE, "Those of them that are in the cache."),
};

/* Writes a label's value, which may have any bytes: as valid UTF-8 on one line, with \, " escaped. */
static void label(FILE *out, const char *name, const char *value) {
  char line[1024];
  fprintf(out, "%s=\"", name);
  for (const char *p = fs_one_line(value, line, sizeof(line)); *p != '\0'; p++) {
    if (*p == '\\' || *p == '"') fputc('\\', out);
    fputc(*p, out);
  }
  fputc('"', out);
}

static void head(FILE *out, const char *name, const char *help, const char *type) {
  fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Writes "NAME{job=..,node=..,host=.." and leaves the brace open. */
static void begin(FILE *out, const struct fs_view *l, uint32_t node, const char *name, const char *suffix) {
  fprintf(out, "%s%s{", name, suffix);
  label(out, "job", l->job);
  fprintf(out, ",node=\"%u\",", node);
  label(out, "host", l->node[node].host);
}

static void node_metric(const struct fs_view *l, const struct metric *m, FILE *out) {
  bool headed = false;
  for (uint32_t i = 0; i < l->nodes; i++)
    for (unsigned p = 0; p < FS_MAX(m->places, 1u); p++) {
      unsigned key = (unsigned)m->key + p;
      if (!l->node[i].sampled || !(l->node[i].have & 1ull << key)) continue;
      if (!headed) head(out, m->name, m->help, m->gauge ? "gauge" : "counter");
      headed = true;
      begin(out, l, i, m->name, "");
      if (m->places > 0) fprintf(out, ",place=\"%s\"", fs_latency_place_name(p));
      if (m->unit == 1)
        fprintf(out, "} %llu\n", (unsigned long long)l->node[i].value[key]);
      else
        fprintf(out, "} %.15g\n", (double)l->node[i].value[key] * m->unit);
    }
}

#define LATENCY "fanstore_latency_seconds"

static void bucket(const struct fs_view *l, uint32_t node, unsigned kind, const char *suffix, FILE *out) {
  begin(out, l, node, LATENCY, suffix);
  fprintf(out, ",op=\"%s\",place=\"%s\"", fs_latency_op_name(kind / FS_LATENCY_PLACES),
          fs_latency_place_name(kind % FS_LATENCY_PLACES));
}

/* The file's histograms have eight buckets for each power of two. One of these is enough here, and
   keeps the number of series small. The sum takes the middle of each bucket. */
static void histogram(const struct fs_view *l, uint32_t node, unsigned kind, FILE *out) {
  const struct fs_latency *h = l->node[node].latency[kind];
  uint64_t n = 0;
  double sum = 0;
  for (unsigned b = 0; b < FS_LATENCY_BUCKETS; b++) {
    double low = (double)fs_latency_low(b), high = (double)fs_latency_high(b);
    n += h->count[b];
    sum += (double)h->count[b] * (low + high) / 2;
    if ((b + 1) % (1u << FS_LATENCY_SUB_SHIFT) != 0 || b + 1 == FS_LATENCY_BUCKETS) continue;
    bucket(l, node, kind, "_bucket", out);
    fprintf(out, ",le=\"%.10g\"} %llu\n", high / 1e9, (unsigned long long)n);
  }
  bucket(l, node, kind, "_bucket", out);
  fprintf(out, ",le=\"+Inf\"} %llu\n", (unsigned long long)n);
  bucket(l, node, kind, "_sum", out);
  fprintf(out, "} %.9g\n", sum / 1e9);
  bucket(l, node, kind, "_count", out);
  fprintf(out, "} %llu\n", (unsigned long long)n);
}

static void histograms(const struct fs_view *l, FILE *out) {
  bool headed = false;
  for (uint32_t i = 0; i < l->nodes; i++)
    for (unsigned k = 0; k < FS_LATENCY_KINDS; k++) {
      if (!l->node[i].latency[k]) continue;
      if (!headed) head(out, LATENCY, "Time of calls, by operation and place.", "histogram");
      headed = true;
      histogram(l, i, k, out);
    }
}

static void job_gauge(const struct fs_view *l, const char *name, const char *help, double value, FILE *out) {
  head(out, name, help, "gauge");
  fprintf(out, "%s{", name);
  label(out, "job", l->job);
  fprintf(out, "} %.15g\n", value);
}

static void job_metrics(const struct fs_view *l, FILE *out) {
  head(out, "fanstore_job_state", "1 for the state that the job is in.", "gauge");
  for (int s = 0; s < FS_VIEW_NSTATES; s++) {
    fputs("fanstore_job_state{", out);
    label(out, "job", l->job);
    fprintf(out, ",state=\"%s\"} %d\n", fs_view_state_name[s], (int)l->state == s);
  }
  job_gauge(l, "fanstore_job_nodes", "Nodes of the job.", l->nodes, out);
  job_gauge(l, "fanstore_job_start_time_seconds", "When the job started, in seconds since 1970.",
            (double)l->started_ms / 1e3, out);
  job_gauge(l, "fanstore_job_warnings", "Warnings that fs-launch has.", l->warnings, out);
  job_gauge(l, "fanstore_job_staging_bytes", "Bytes that are to be staged at the start.", (double)l->total, out);
  job_gauge(l, "fanstore_job_staging_done_bytes", "Those of them that are staged.", (double)l->done, out);
}

static void sample_times(const struct fs_view *l, FILE *out) {
  const char *name = "fanstore_sample_time_seconds";
  bool headed = false;
  for (uint32_t i = 0; i < l->nodes; i++) {
    if (!l->node[i].sampled) continue;
    if (!headed) head(out, name, "When the node's figures were read, in seconds since 1970.", "gauge");
    headed = true;
    begin(out, l, i, name, "");
    fprintf(out, "} %.15g\n", (double)l->node[i].ms / 1e3);
  }
}

void fs_metrics_prometheus(const struct fs_view *l, FILE *out) {
  job_metrics(l, out);
  sample_times(l, out);
  for (size_t i = 0; i < FS_ARRAY_LEN(metrics); i++) node_metric(l, &metrics[i], out);
  histograms(l, out);
}
