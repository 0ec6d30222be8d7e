/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tells fs-launch once a second what this node counts (sample.h). A line is only sent if it would
 * not wait for room in the pipe to mpirun: a launcher that is stopped must not stop the node. What
 * was not sent is in the next line, since all numbers are sums.
 */
#include "daemon/sample/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "daemon/sample/files.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_SAMPLE_NS 1000000000ull
#define FS_SAMPLE_LINES 256u /* that fs-launch gets in a second from all nodes: in a larger job each waits longer */
#define FS_SAMPLE_IDLE                                                                                                 \
  30u /* intervals after which a line is sent even if nothing has changed: host_busy would be old */
#define FS_SAMPLE_ROOM 64u
#define FS_SAMPLE_COUNTS 3072u         /* bytes of a line's histogram */
#define FS_SAMPLE_LOOK_NS 100000000ull /* between two looks at what clients tell of single reads */

struct fs_values {
  struct {
    const char *key;
    uint64_t value;
  } at[FS_SAMPLE_ROOM];
  unsigned n;
  unsigned counts; /* the first so many only change if something happens */
};

struct fs_sampler {
  uint64_t every, next, said;    /* said: when the last line was sent */
  uint64_t epoch;                /* CLOCK_REALTIME less CLOCK_MONOTONIC at the start: a sample's time never goes back */
  uint64_t sent[FS_SAMPLE_ROOM]; /* the values of the last line */
  uint64_t told[FS_LATENCY_KINDS]; /* the calls of the last histograms */
  uint64_t look;                   /* when the clients' reads are looked at next */
  uint64_t collected, worst;       /* when the values were collected last; of that time, what one process waited most */
  uint64_t told_processes, told_us; /* of the last line `waits` */
  struct fs_files files;
  uint64_t host_all, host_idle, busy; /* the processors' times at the last look; in percent since the one before */
};

static void put(struct fs_values *v, const char *key, uint64_t value) {
  if (v->n == FS_SAMPLE_ROOM) return;
  v->at[v->n].key = key;
  v->at[v->n++].value = value;
}

/* Puts the counters of the clients. */
static void put_clients(struct fs_values *v, const uint64_t counter[FS_C_COUNT]) {
  static const char *const places[][FS_PLACE_COUNT] = {
      {"files_local", "files_cache", "files_remote", "files_shared"},
      {"bytes_local", "bytes_cache", "bytes_remote", "bytes_shared"},
      {"blocks_local", "blocks_cache", "blocks_remote", "blocks_shared"}};
  static const unsigned first[] = {FS_C_FILES, FS_C_BYTES, FS_C_BLOCKS};
  put(v, "opens", counter[FS_C_OPENS]);
  put(v, "stats", counter[FS_C_STATS]);
  put(v, "fallbacks", counter[FS_C_FALLBACKS]);
  put(v, "errors", counter[FS_C_ERRORS]);
  put(v, "materialized", counter[FS_C_MATERIALIZED]);
  put(v, "bytes_direct", counter[FS_C_DIRECT]);
  put(v, "output_opens", counter[FS_C_OUT_OPENS]);
  put(v, "output_bytes", counter[FS_C_OUT_BYTES]);
  for (size_t g = 0; g < FS_ARRAY_LEN(first); g++)
    for (unsigned p = 0; p < FS_PLACE_COUNT; p++) put(v, places[g][p], counter[first[g] + p]);
  put(v, "wait_ms", counter[FS_C_WAIT_NS] / 1000000);
  put(v, "decodes", counter[FS_C_DECODES]);
  put(v, "decode_ms", counter[FS_C_DECODE_NS] / 1000000);
  put(v, "decode_saved", counter[FS_C_DECODE_SAVED]);
}

/* Puts the daemon's own counters. */
static void put_own(struct fs_values *v, const struct fs_daemon *d, uint64_t damaged, uint64_t evictions) {
  put(v, "served", d->count.served);
  put(v, "served_bytes", d->count.served_bytes);
  put(v, "fetched", d->count.fetched);
  put(v, "fetched_bytes", d->count.fetched_bytes);
  put(v, "prefetched", d->count.prefetched);
  put(v, "disk_bytes", d->count.disk_bytes);
  put(v, "disk_kept_bytes", d->count.disk_kept_bytes);
  put(v, "checksum_errors", d->count.checksum_errors + damaged);
  put(v, "timeouts", d->count.timeouts);
  put(v, "dropped", fs_ctl_dropped(d));
  put(v, "refused", d->count.refused);
  put(v, "evictions", evictions);
  put(v, "staged_bytes", d->count.staged_bytes);
  put(v, "reused_bytes", d->count.reused_bytes);
  put(v, "passed_bytes", d->count.passed_bytes);
  put(v, "replicated", d->count.replicated);
  put(v, "replicated_bytes", d->count.replicated_bytes);
  put(v, "clients", d->clients.attached);
  put(v, "outputs", d->count.outputs);
  put(v, "output_written", d->count.output_written);
}

static uint64_t processor_ms(void) {
  struct rusage u;
  if (getrusage(RUSAGE_SELF, &u) < 0) return 0;
  return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
         (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
}

/* Looks at the host's processors. What waits for a disk is idle. */
static void look_at_host(struct fs_sampler *s) {
  char text[256] = "";
  unsigned long long t[8] = {0};
  FS_AUTO_CLOSE int fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fs_sys_read(fd, text, sizeof(text) - 1) <= 0) return;
  if (sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6],
             &t[7]) < 5)
    return;
  uint64_t all = 0, idle = t[3] + t[4];
  for (size_t i = 0; i < FS_ARRAY_LEN(t); i++) all += t[i];
  uint64_t past = all - FS_MIN(all, s->host_all), rest = FS_MIN(idle - FS_MIN(idle, s->host_idle), past);
  if (past > 0) s->busy = (past - rest) * 100 / past;
  s->host_all = all;
  s->host_idle = idle;
}

/* Puts how much of the cache --prefetch idle has filled. */
static void put_fill(struct fs_values *v, const struct fs_daemon *d, uint64_t used) {
  uint64_t total = d->cfg->fill ? atomic_load_explicit(&d->warm.expected, memory_order_relaxed) : 0;
  uint64_t done = used + d->count.disk_kept_bytes;
  if (!d->disk) total = FS_MIN(total, d->cfg->cache_bytes);
  if (d->fill.done) total = FS_MIN(total, done);
  put(v, "fill_total", total);
  put(v, "fill_done", FS_MIN(done, total));
}

static void put_gauges(struct fs_values *v, const struct fs_daemon *d, uint64_t used) {
  put(v, "cache_used", used);
  put(v, "cache_size", d->cache ? d->cfg->cache_bytes : 0);
  put(v, "queue", d->fetcher ? fs_fetch_flying(d) : 0);
  put(v, "processes", fs_clients_now(d));
  put_fill(v, d, used);
}

/* Collects all values. Those that change by themselves are the last. */
static void collect(struct fs_daemon *d, struct fs_values *v) {
  struct fs_cache_stats cache = {0};
  uint64_t counter[FS_C_COUNT];
  *v = (struct fs_values){0};
  if (d->cache) fs_cache_stats(d->cache, &cache);
  fs_clients_sum(d, counter);
  put_clients(v, counter);
  put_own(v, d, counter[FS_C_DAMAGED], cache.evictions);
  put_gauges(v, d, cache.bytes_used);
  put(v, "wait_worst", d->sampler ? d->sampler->worst : 0);
  v->counts = v->n;
}

static void say_values(const struct fs_daemon *d, struct fs_sampler *s, const char *verb, struct fs_values *v) {
  struct fs_control_line l;
  uint64_t ns = s ? s->epoch + fs_now_ns() : fs_clock_ns(CLOCK_REALTIME);
  if (s) look_at_host(s);
  put(v, "cpu_ms", processor_ms());
  put(v, "host_busy", s ? s->busy : 0);
  if (fs_say_begin(d, &l, verb) < 0) return;
  (void)fs_control_add_u64(&l, "ms", ns / 1000000);
  for (unsigned i = 0; i < v->n; i++) (void)fs_control_add_u64(&l, v->at[i].key, v->at[i].value);
  fs_say_line(&l);
}

/* ---- histograms ---- */

/* Says one histogram, in as many lines as it needs. Returns false if there is no room for a line. */
static bool say_latency(const struct fs_daemon *d, unsigned kind, const struct fs_latency *h, bool wait) {
  for (unsigned from = 0; from < FS_LATENCY_BUCKETS;) {
    char counts[FS_SAMPLE_COUNTS];
    struct fs_control_line l;
    (void)fs_latency_text(h, &from, counts, sizeof(counts));
    if (!wait && !fs_say_room()) return false;
    if (fs_say_begin(d, &l, "latency") < 0) return false;
    (void)fs_control_add(&l, "op", fs_latency_op_name(kind / FS_LATENCY_PLACES));
    (void)fs_control_add(&l, "place", fs_latency_place_name(kind % FS_LATENCY_PLACES));
    (void)fs_control_add(&l, "counts", counts);
    if (from < FS_LATENCY_BUCKETS) (void)fs_control_add_u64(&l, "more", 1);
    fs_say_line(&l);
  }
  return true;
}

/* Says the histograms that have changed. `wait`: also if the pipe is full. */
static void say_latencies(const struct fs_daemon *d, uint64_t told[FS_LATENCY_KINDS], bool wait) {
  for (unsigned kind = 0; kind < FS_LATENCY_KINDS; kind++) {
    struct fs_latency h;
    if (!fs_clients_latency(d, kind, &h)) continue;
    uint64_t calls = fs_latency_total(&h);
    if (calls != told[kind] && say_latency(d, kind, &h, wait)) told[kind] = calls;
  }
}

/* ---- single processes and files ---- */

/* Says how long each process waited. */
static void say_waits(const struct fs_daemon *d, struct fs_sampler *s) {
  struct fs_process_waits w;
  struct fs_control_line l;
  char counts[FS_SAMPLE_COUNTS];
  unsigned from = 0;
  fs_clients_waits(d, &w);
  uint64_t processes = fs_latency_total(&w.us);
  if (processes == 0 || (processes == s->told_processes && w.worst_us == s->told_us)) return;
  (void)fs_latency_text(&w.us, &from, counts, sizeof(counts));
  if (fs_say_begin(d, &l, "waits") < 0) return;
  (void)fs_control_add_u64(&l, "worst_pid", w.worst_pid);
  (void)fs_control_add_u64(&l, "worst_us", w.worst_us);
  (void)fs_control_add(&l, "counts", counts);
  fs_say_line(&l);
  s->told_processes = processes;
  s->told_us = w.worst_us;
}

static void say_files(const struct fs_daemon *d, const char *kind, const struct fs_file_waits *list, unsigned n) {
  struct fs_control_line l;
  char text[FS_SAMPLE_COUNTS];
  (void)fs_files_text(list, n, text, sizeof(text));
  if (fs_say_begin(d, &l, "files") < 0) return;
  (void)fs_control_add(&l, "kind", kind);
  (void)fs_control_add(&l, "list", text);
  fs_say_line(&l);
}

/* `wait`: also if the pipe is full. */
static void say_reads(const struct fs_daemon *d, struct fs_sampler *s, bool wait) {
  struct fs_files *f = &s->files;
  if (wait || fs_say_room()) say_waits(d, s);
  if (f->slow_changed && (wait || fs_say_room())) {
    say_files(d, "slow", f->slow, f->nslow);
    f->slow_changed = false;
  }
  if (f->shown_changed && (wait || fs_say_room())) {
    say_files(d, "busy", f->shown, f->nshown);
    f->shown_changed = false;
  }
}

static void look_at_reads(struct fs_daemon *d, struct fs_sampler *s) {
  uint32_t high = atomic_load(&d->clients.high);
  for (uint32_t i = 0; i < high; i++) {
    struct fs_client *c = atomic_load(&d->clients.slot[i]);
    if (c) fs_files_take(d, &s->files, c);
  }
}

void fs_sampler_client_gone(struct fs_daemon *d, struct fs_client *c) {
  if (d->sampler) fs_files_take(d, &d->sampler->files, c);
}

/* ---- the module ---- */

fs_err fs_sampler_new(struct fs_daemon *d) {
  const char *test = getenv(FS_ENV_TEST_SAMPLE);
  uint64_t ms;
  d->sampler = calloc(1, sizeof(*d->sampler));
  if (!d->sampler) return -ENOMEM;
  d->sampler->every = FS_SAMPLE_NS * FS_MAX(d->net->nodes, FS_SAMPLE_LINES) / FS_SAMPLE_LINES;
  if (test && fs_parse_u64(test, 1, 3600000, &ms) == 0) d->sampler->every = ms * 1000000;
  d->sampler->epoch = fs_clock_ns(CLOCK_REALTIME) - fs_now_ns();
  d->sampler->collected = fs_now_ns();
  d->sampler->next = d->sampler->collected + d->sampler->every;
  look_at_host(d->sampler);
  return 0;
}

static bool changed(const struct fs_sampler *s, const struct fs_values *v) {
  for (unsigned i = 0; i < v->counts; i++)
    if (s->sent[i] != v->at[i].value) return true;
  return false;
}

void fs_sampler_timers(struct fs_daemon *d) {
  struct fs_sampler *s = d->sampler;
  struct fs_values v;
  if (d->now >= s->look) {
    look_at_reads(d, s);
    s->look = d->now + FS_SAMPLE_LOOK_NS;
  }
  if (d->now < s->next) return;
  s->next = d->now + s->every;
  s->worst = fs_clients_worst(d, d->now - s->collected);
  s->collected = d->now;
  fs_files_sample(&s->files);
  collect(d, &v);
  say_reads(d, s, false);
  bool due = changed(s, &v) || d->now - s->said >= FS_SAMPLE_IDLE * s->every;
  if (!due || !fs_say_room()) return;
  s->said = d->now;
  for (unsigned i = 0; i < v.counts; i++) s->sent[i] = v.at[i].value;
  say_values(d, s, "sample", &v);
  say_latencies(d, s->told, false);
}

void fs_sampler_leave(struct fs_daemon *d, int status) {
  struct fs_values v;
  uint64_t told[FS_LATENCY_KINDS] = {0};
  if (status != 0) return; /* other threads may still change the counters */
  if (d->sampler) look_at_reads(d, d->sampler);
  collect(d, &v);
  say_values(d, d->sampler, "stats", &v);
  say_latencies(d, d->sampler ? d->sampler->told : told, true);
  if (d->sampler) say_reads(d, d->sampler, true);
}
