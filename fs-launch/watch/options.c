/* SPDX-License-Identifier: BSD-3-Clause */
/* The command lines of fs-launch jobs, stats and top. One thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watch.h"

enum { O_INTERVAL = 1, O_COUNT, O_NODES, O_JSON, O_FORMAT, O_OUTPUT, O_LISTEN, O_HELP, O_VERSION };

#define HELP_COMMON                                                                                                    \
  {"help", 'h', NULL, "show this help", O_HELP}, {                                                                     \
    "version", 0, NULL, "show the version", O_VERSION                                                                  \
  }
static const struct fs_opt jobs_opts[] = {
    {"json", 0, NULL, "print a JSON array", O_JSON},
    HELP_COMMON,
};
static const struct fs_opt stats_opts[] = {
    {"interval", 'i', "SECONDS", "a line, or a reading, each so many seconds (default: 1)", O_INTERVAL},
    {"count", 'c', "N", "end after N lines or readings (default: when the job ends)", O_COUNT},
    {"nodes", 0, NULL, "a line for each node", O_NODES},
    {"json", 0, NULL, "lines of JSON", O_JSON},
    {"format", 0, "FORMAT", "one reading of all counters, as prometheus or influx has it", O_FORMAT},
    {"output", 0, "FILE", "with --format: replace FILE each interval until the job ends, then remove it", O_OUTPUT},
    {"listen", 0, "ADDRESS",
     "serve Prometheus by HTTP at /metrics until the job ends: PORT, HOST:PORT or unix:PATH\n"
     "(default host: 127.0.0.1)",
     O_LISTEN},
    HELP_COMMON,
};
static const struct fs_opt top_opts[] = {HELP_COMMON};

#define JOB_HELP                                                                                                       \
  "JOB is a name that fs-launch jobs shows, or a run directory; without it, your only job on this host.\n"

static void help_jobs(void) {
  printf("usage: fs-launch jobs [options]\n\n"
         "Lists your running jobs that fs-launch started on this host. The exit status is 0 also if there are none.\n\n"
         "Options:\n");
  fs_opt_help(stdout, jobs_opts, FS_ARRAY_LEN(jobs_opts));
}

static void help_stats(void) {
  printf("usage: fs-launch stats [options] [JOB]\n\n"
         "Prints what a running job reads and writes, a line each second, until the job ends. docs/watching.md\n"
         "explains the columns and the metrics.\n" JOB_HELP "\nOptions:\n");
  fs_opt_help(stdout, stats_opts, FS_ARRAY_LEN(stats_opts));
}

static void help_top(void) {
  printf("usage: fs-launch top [options] [JOB]\n\n"
         "Shows the nodes of a running job on the whole terminal, and refreshes them each second. It needs\n"
         "libncursesw.so.6. docs/watching.md explains the columns.\n" JOB_HELP
         "\nKeys: q ends. Arrows, PgUp, PgDn and Home scroll. These sort: n by node, f files, m bytes, h hits,\n"
         "w waiting, p the slowest reads, c cache, u queue, b busy processors, o outputs; r reverses.\n\nOptions:\n");
  fs_opt_help(stdout, top_opts, FS_ARRAY_LEN(top_opts));
}

static fs_err set_format(struct fs_watch_options *o, const char *value) {
  o->format = strcmp(value, "prometheus") == 0 ? FS_WATCH_PROMETHEUS
              : strcmp(value, "influx") == 0   ? FS_WATCH_INFLUX
                                               : FS_WATCH_TEXT;
  return o->format == FS_WATCH_TEXT ? fs_option_bad("format", value, "prometheus or influx") : 0;
}

static fs_err set(struct fs_watch_options *o, int id, const char *value) {
  switch (id) {
  case O_JSON:
    o->json = true;
    return 0;
  case O_NODES:
    o->nodes = true;
    return 0;
  case O_INTERVAL:
    return fs_parse_u64(value, 1, 86400, &o->interval) < 0
               ? fs_option_bad("interval", value, "a number from 1 to 86400")
               : 0;
  case O_COUNT:
    return fs_parse_u64(value, 1, UINT32_MAX, &o->count) < 0 ? fs_option_bad("count", value, "a number from 1 on") : 0;
  case O_FORMAT:
    return set_format(o, value);
  case O_OUTPUT:
    o->output = value;
    return value[0] == '\0' ? fs_option_bad("output", value, "a file") : 0;
  case O_LISTEN:
    o->listen = value;
    return value[0] == '\0' ? fs_option_bad("listen", value, "PORT, HOST:PORT or unix:PATH") : 0;
  default:
    return -EINVAL;
  }
}

static fs_err set_or_help(struct fs_watch_options *o, int id, const char *value, void (*help)(void)) {
  if (id == O_HELP || id == O_VERSION) fs_option_answer(id == O_HELP ? help : NULL);
  if (id > 0) return set(o, id, value);
  if (o->job || value[0] == '\0') {
    fs_say("'%s': give one JOB", value);
    return -EINVAL;
  }
  o->job = value;
  return 0;
}

static fs_err on_jobs(void *ctx, int id, const char *value) {
  if (id > 0) return set_or_help(ctx, id, value, help_jobs);
  fs_say("jobs takes no argument '%s' (see fs-launch jobs --help)", value);
  return -EINVAL;
}

static fs_err on_stats(void *ctx, int id, const char *value) {
  return set_or_help(ctx, id, value, help_stats);
}

static fs_err on_top(void *ctx, int id, const char *value) {
  return set_or_help(ctx, id, value, help_top);
}

int fs_watch_options_jobs(struct fs_watch_options *o, int argc, char **argv) {
  int next = fs_opt_parse("fs-launch jobs", jobs_opts, FS_ARRAY_LEN(jobs_opts), argc, argv, 1, false, on_jobs, o);
  return next < 0 ? FS_EXIT_USAGE : -1;
}

int fs_watch_options_top(struct fs_watch_options *o, int argc, char **argv) {
  int next = fs_opt_parse("fs-launch top", top_opts, FS_ARRAY_LEN(top_opts), argc, argv, 1, false, on_top, o);
  return next < 0 ? FS_EXIT_USAGE : -1;
}

/* Checks that the options fit together. Returns NULL, or what is wrong. */
static const char *check_stats(const struct fs_watch_options *o) {
  if (o->json && (o->format != FS_WATCH_TEXT || o->listen)) return "--json and --format or --listen: give one of them";
  if (o->nodes && (o->format != FS_WATCH_TEXT || o->listen)) return "--nodes: metrics have all nodes, leave it out";
  if (o->listen && o->format == FS_WATCH_INFLUX) return "--listen: it serves Prometheus only";
  if (o->listen && (o->output || o->interval > 0 || o->count > 0))
    return "--listen and --output, --interval or --count: leave one out";
  if (o->output && o->format == FS_WATCH_TEXT) return "--output: give --format with it";
  return NULL;
}

int fs_watch_options_stats(struct fs_watch_options *o, int argc, char **argv) {
  int next = fs_opt_parse("fs-launch stats", stats_opts, FS_ARRAY_LEN(stats_opts), argc, argv, 1, false, on_stats, o);
  if (next < 0) return FS_EXIT_USAGE;
  const char *bad = check_stats(o);
  if (bad) fs_say("%s", bad);
  if (o->json) o->format = FS_WATCH_JSON;
  return bad ? FS_EXIT_USAGE : -1;
}
