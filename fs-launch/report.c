/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --report: the counters of every node, the placement, the job's course (figures.h) and the
 * warnings, as JSON, as a page that shows the same JSON, or the counters as lines of text. The keys
 * of counters are the daemons' own (ipc/control.h), so new ones appear without a change here.
 * docs/report.md describes the report.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "launch.h"
#include "page.h"
#include "report.h"

static char *shown_name(const char *name, char *out, size_t size) {
  return fs_printable(name, strlen(name), out, size);
}

static void json_placement(const struct fs_launch *l, const struct fs_launch_dataset *d, FILE *out) {
  fputs(", \"placement\": [", out);
  for (uint64_t p = 0; p < d->index.nparts; p++) {
    const struct fs_owners *place = &l->place[d->first + p];
    fprintf(out, "%s[", p > 0 ? ", " : "");
    unsigned n = place->everywhere ? l->nodes : place->owners;
    for (unsigned i = 0; i < n; i++) fprintf(out, "%s%u", i > 0 ? ", " : "", place->everywhere ? i : place->owner[i]);
    fputc(']', out);
  }
  fputs("]}", out);
}

static void json_datasets(const struct fs_launch *l, FILE *out) {
  char id[33];
  fputs("  \"datasets\": [", out);
  for (unsigned i = 0; i < l->opt.datasets; i++) {
    const struct fs_launch_dataset *d = &l->dataset[i];
    fprintf(out, "%s\n    {\"path\": ", i > 0 ? "," : "");
    fs_json_string(out, d->path);
    fputs(", \"mount\": ", out);
    fs_json_string(out, d->mount);
    fprintf(out, ", \"id\": \"%s\", \"files\": %llu, \"bytes\": %llu, \"partitions\": %llu, \"lost\": %u",
            fs_hex(d->manifest.dataset_id, 16, id), (unsigned long long)d->manifest.files,
            (unsigned long long)d->manifest.plain_bytes, (unsigned long long)d->index.nparts, d->lost);
    json_placement(l, d, out);
  }
  fputs("\n  ],\n", out);
}

static void json_nodes(const struct fs_launch *l, FILE *out) {
  fputs("  \"nodes\": [", out);
  for (uint32_t i = 0; i < l->nodes; i++) {
    const struct fs_launch_node *n = &l->node[i];
    fprintf(out, "%s\n    {\"rank\": %u, \"host\": ", i > 0 ? "," : "", i);
    fs_json_string(out, n->host);
    fprintf(out, ", \"reported\": %s, \"staged\": %llu, \"reused\": %llu, \"free\": %llu",
            n->stats.n > 0 ? "true" : "false", (unsigned long long)n->staged, (unsigned long long)n->reused,
            (unsigned long long)n->free);
    for (unsigned k = 0; k < n->stats.n; k++)
      fprintf(out, ", \"%s\": %llu", n->stats.at[k].key, (unsigned long long)n->stats.at[k].value);
    fputc('}', out);
  }
  fputs("\n  ],\n", out);
}

static void json_failures(const struct fs_launch_outputs *o, FILE *out) {
  const char *before = "";
  struct fs_launch_failure f;
  fputs(", \"failures\": [", out);
  for (size_t i = 0; i < o->failures; i++) {
    if (!fs_outputs_reason(o, i, &f)) continue;
    fprintf(out, "%s\n    {\"failed\": %llu, \"lost\": %llu, \"why\": ", before, (unsigned long long)f.failed,
            (unsigned long long)f.lost);
    fs_json_string(out, f.why);
    fputc('}', out);
    before = ",";
  }
  fputc(']', out);
}

static void json_outputs(const struct fs_launch *l, FILE *out) {
  const struct fs_launch_outputs *o = &l->outputs;
  fprintf(out,
          "  \"outputs\": {\"files\": %llu, \"bytes\": %llu, \"staged\": %llu, \"failed\": %llu, \"lost\": %llu, "
          "\"directories\": %llu, \"symlinks\": %llu, \"gone\": %llu, \"kept\": ",
          (unsigned long long)o->files, (unsigned long long)o->bytes, (unsigned long long)o->staged,
          (unsigned long long)o->failed, (unsigned long long)o->lost, (unsigned long long)o->dirs,
          (unsigned long long)o->links, (unsigned long long)o->gone);
  if (o->kept[0])
    fs_json_string(out, o->kept);
  else
    fputs("null", out);
  fputs(", \"to\": ", out);
  if (l->opt.stage_out)
    fs_json_string(out, l->stage_out);
  else
    fputs("null", out);
  json_failures(o, out);
  fputs(", \"names\": [", out);
  for (size_t i = 0; i < o->named; i++) {
    fprintf(out, "%s\n    {\"node\": %u, \"size\": %llu, \"name\": ", i > 0 ? "," : "", o->output[i].rank,
            (unsigned long long)o->output[i].size);
    fs_json_string(out, o->output[i].name);
    fputc('}', out);
  }
  fputs("], \"gone_names\": [", out);
  for (size_t i = 0; i < o->gone_named; i++) {
    if (i > 0) fputs(", ", out);
    fs_json_string(out, o->gone_output[i].name);
  }
  fputs("]},\n", out);
}

/* Returns true if this node is the first with this key, so that each key is listed once. */
static bool first_with(const struct fs_launch *l, uint32_t node, const char *key) {
  for (uint32_t i = 0; i < node; i++)
    for (unsigned k = 0; k < l->node[i].stats.n; k++)
      if (strcmp(l->node[i].stats.at[k].key, key) == 0) return false;
  return true;
}

static void each_total(const struct fs_launch *l, FILE *out, bool json) {
  const char *before = "";
  for (uint32_t i = 0; i < l->nodes; i++)
    for (unsigned k = 0; k < l->node[i].stats.n; k++) {
      const char *key = l->node[i].stats.at[k].key;
      if (fs_sample_is_gauge(key) || !first_with(l, i, key)) continue;
      fprintf(out, json ? "%s\"%s\": %llu" : "%stotal.%s %llu\n", before, key, (unsigned long long)fs_stat_sum(l, key));
      if (json) before = ", ";
    }
}

static void json_words(const char *key, char *const *word, int n, FILE *out) {
  fprintf(out, "  \"%s\": [", key);
  for (int i = 0; word && i < n && word[i]; i++) {
    if (i > 0) fputs(", ", out);
    fs_json_string(out, word[i]);
  }
  fputs("],\n", out);
}

static void json_head(const struct fs_launch *l, const char *headline, int status, FILE *out) {
  char started[32] = "";
  time_t began = (time_t)(l->began_ms / 1000);
  struct tm tm;
  if (gmtime_r(&began, &tm)) strftime(started, sizeof(started), "%Y-%m-%dT%H:%M:%SZ", &tm);
  fprintf(out, "{\n  \"fanstore\": \"%s\",\n  \"schema\": %u,\n  \"job\": ", FS_VERSION, FS_REPORT_SCHEMA);
  fs_json_string(out, l->job);
  fputs(",\n  \"headline\": ", out);
  fs_json_string(out, headline);
  fputs(",\n", out);
  json_words("command", l->opt.command, INT_MAX, out);
  json_words("options", l->opt.words, l->opt.nwords, out);
  fprintf(out, "  \"started\": \"%s\",\n  \"status\": %d,\n  \"seconds\": %.3f,\n", started, status,
          (double)l->command_ns / 1e9);
}

static void json_warnings(const struct fs_launch *l, FILE *out) {
  fputs("  \"warnings\": [", out);
  for (unsigned i = 0; i < l->warnings; i++) {
    if (i > 0) fputs(", ", out);
    fs_json_string(out, l->warning[i]);
  }
  fputs("]\n}\n", out);
}

static void report_json(const struct fs_launch *l, const char *headline, int status, FILE *out) {
  json_head(l, headline, status, out);
  json_datasets(l, out);
  json_nodes(l, out);
  json_outputs(l, out);
  fputs("  \"total\": {", out);
  each_total(l, out, true);
  fputs("},\n", out);
  fs_report_figures(l, out);
  json_warnings(l, out);
}

static void report_text(const struct fs_launch *l, int status, FILE *out) {
  char shown[512];
  fprintf(out, "job %s\nstatus %d\nseconds %.3f\nnodes %u\n", l->job, status, (double)l->command_ns / 1e9, l->nodes);
  for (unsigned i = 0; i < l->opt.datasets; i++) {
    fprintf(out, "dataset.%u.path %s\n", i, shown_name(l->dataset[i].path, shown, sizeof(shown)));
    fprintf(out, "dataset.%u.mount %s\n", i, shown_name(l->dataset[i].mount, shown, sizeof(shown)));
    fprintf(out, "dataset.%u.partitions %llu\n", i, (unsigned long long)l->dataset[i].index.nparts);
  }
  for (uint32_t i = 0; i < l->nodes; i++) {
    const struct fs_launch_node *n = &l->node[i];
    fprintf(out, "node.%u.host %s\nnode.%u.staged %llu\nnode.%u.reused %llu\n", i, n->host, i,
            (unsigned long long)n->staged, i, (unsigned long long)n->reused);
    for (unsigned k = 0; k < n->stats.n; k++)
      fprintf(out, "node.%u.%s %llu\n", i, n->stats.at[k].key, (unsigned long long)n->stats.at[k].value);
  }
  each_total(l, out, false);
  fprintf(out, "outputs.files %llu\noutputs.bytes %llu\n", (unsigned long long)l->outputs.files,
          (unsigned long long)l->outputs.bytes);
  for (size_t i = 0; i < l->outputs.named; i++)
    fprintf(out, "output %s\n", shown_name(l->outputs.output[i].name, shown, sizeof(shown)));
  for (unsigned i = 0; i < l->warnings; i++) fprintf(out, "warning %s\n", l->warning[i]);
}

static void report_page(const struct fs_launch *l, const char *headline, int status, FILE *out) {
  FS_AUTO_FREE char *json = NULL;
  size_t n = 0;
  FILE *memory = open_memstream(&json, &n);
  if (memory) report_json(l, headline, status, memory);
  if (memory && fclose(memory) == 0) fs_page(l, headline, json, n, out);
}

static bool ends_in(const char *name, const char *suffix) {
  size_t n = strlen(name), k = strlen(suffix);
  return n > k && strcmp(name + n - k, suffix) == 0;
}

void fs_report(const struct fs_launch *l, int status) {
  const char *name = l->opt.report;
  char headline[400] = "";
  struct fs_report_file file;
  if (!name) return;
  fs_err err = fs_report_open(name, &file);
  if (err == 0) {
    if (l->figures) fs_figures_headline(l, l->figures, status, headline, sizeof(headline));
    if (ends_in(name, ".json"))
      report_json(l, headline, status, file.out);
    else if (ends_in(name, ".html"))
      report_page(l, headline, status, file.out);
    else
      report_text(l, status, file.out);
    err = fs_report_close(&file);
  }
  if (err < 0) fs_say("--report %s: %s", name, strerror(-err));
}
