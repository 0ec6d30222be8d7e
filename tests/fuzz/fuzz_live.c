/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job's live file with any bytes in it, and after a NUL the next one: read or refused, and then everything that the
 * watching commands print of it. What they print holds no byte that a terminal or a collector could take for something
 * else. And a daemon's line on single files and processes: what fs-launch keeps of it stays in its bounds.
 */
#include <stdlib.h>
#include <string.h>

#include "../../fs-launch/watch/watch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Aborts if a line has control characters. */
static void check_text(const char *text, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (((unsigned char)text[i] < 0x20 && text[i] != '\n') || text[i] == 0x7f) abort();
  if (n > 0 && text[n - 1] != '\n') abort();
}

/* Each line is a comment or NAME{LABELS} VALUE, without quotes left open. */
static void check_prometheus(char *text) {
  for (char *line; (line = strsep(&text, "\n")) != NULL && text;) {
    bool quoted = false;
    if (strncmp(line, "# HELP fanstore_", 16) == 0 || strncmp(line, "# TYPE fanstore_", 16) == 0) continue;
    if (strncmp(line, "fanstore_", 9) != 0) abort();
    char *p = strchr(line, '{');
    if (!p) abort();
    for (p++; *p != '\0' && (quoted || *p != '}'); p++) {
      if (*p == '"') quoted = !quoted;
      if (quoted && *p == '\\' && *++p != '\\' && *p != '"') abort();
    }
    if (quoted || p[0] != '}' || p[1] != ' ' || p[2] == '\0') abort();
  }
}

static void check_output(const struct fs_watch *w) {
  char *text = NULL;
  size_t n = 0;
  FILE *out = open_memstream(&text, &n);
  if (!out) abort();
  fs_metrics_prometheus(&w->view, out);
  fclose(out);
  check_text(text, n);
  check_prometheus(text);
  free(text);
  out = open_memstream(&text, &n);
  if (!out) abort();
  fs_metrics_influx(&w->view, out);
  fs_stats_header(out, true, true);
  fs_stats_text(w, false, true, out);
  fs_stats_text(w, true, false, out);
  fs_stats_json(w, true, out);
  fclose(out);
  check_text(text, n);
  free(text);
}

static void check_one(struct fs_watch *w, const uint8_t *data, size_t size, uint64_t now) {
  struct fs_view l;
  char *text = malloc(size + 1);
  if (!text) return;
  memcpy(text, data, size);
  if (fs_view_parse(text, size, &l) == 0) {
    if (l.nodes > FS_MAX_NODES || l.job[0] == '\0' || !l.command || l.state >= FS_VIEW_NSTATES) abort();
    if (fs_watch_take(w, &l, now) < 0) abort();
    if (w->view.nodes < 64) check_output(w);
  }
  fs_view_free(&l);
  free(text);
}

static void check_waits(const uint8_t *data, size_t size) {
  static struct fs_launch l; /* without a dataset: no file has a name */
  struct fs_launch_node node = {0};
  struct fs_control c;
  struct fs_waited_file f[FS_WAITS_SHOWN];
  struct fs_waits_spread s;
  char path[64];
  if (fs_control_parse((const char *)data, size, &c) < 0) return;
  l.node = &node;
  l.nodes = 1;
  fs_waits_line_in(&node.waits, 0, &c);
  unsigned n = fs_waits_slow(&l, f);
  for (unsigned i = 0; i < n; i++)
    if (f[i].place >= FS_PLACE_COUNT || fs_waits_path(&l, &f[i], path, sizeof(path)) == 0) abort();
  if (n > FS_WAITS_SLOW || fs_waits_busy(&l, f) > FS_WAITS_BUSY) abort();
  if (fs_waits_spread(&l, 1, &s) && s.median_us > s.worst_us) abort();
  free(node.waits.processes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  check_waits(data, size);
  struct fs_watch w = {0};
  const uint8_t *nul = memchr(data, '\0', size);
  size_t first = nul ? (size_t)(nul - data) : size;
  check_one(&w, data, first, 5 * FS_NS_PER_S);
  if (nul) check_one(&w, nul + 1, size - first - 1, 6 * FS_NS_PER_S);
  fs_watch_free(&w);
  return 0;
}
