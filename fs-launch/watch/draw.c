/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws the screen of fs-launch top. One table has the columns: how wide, what they show, and by which
   key they sort. */
#include <stdlib.h>
#include <string.h>

#include "screen.h"
#include "top.h"

#define FS_TOP_HEAD 6   /* lines above the rows, with the columns' names */
#define FS_TOP_FIXED 17 /* columns of the node and its host */
#define FS_TOP_LINE 512
#define FS_TOP_FILES 34 /* columns before the name of a file */

/* Each column's number of a node. */
static const struct fs_delta *delta(const struct fs_watch *w, uint32_t i) {
  return &w->node[i].delta;
}
static double gauge(const struct fs_watch *w, uint32_t i, enum fs_view_key key) {
  return (double)w->view.node[i].value[key];
}
static double files(const struct fs_watch *w, uint32_t i) {
  return fs_delta_rate(delta(w, i), FS_VIEW_OPENS);
}
static double bytes(const struct fs_watch *w, uint32_t i) {
  return fs_delta_bytes(delta(w, i));
}
static double local(const struct fs_watch *w, uint32_t i) {
  return fs_delta_rate(delta(w, i), FS_VIEW_BYTES_LOCAL);
}
static double cache(const struct fs_watch *w, uint32_t i) {
  return fs_delta_rate(delta(w, i), FS_VIEW_BYTES_CACHE);
}
static double remote(const struct fs_watch *w, uint32_t i) {
  return fs_delta_rate(delta(w, i), FS_VIEW_BYTES_REMOTE);
}
static double shared(const struct fs_watch *w, uint32_t i) {
  return fs_delta_rate(delta(w, i), FS_VIEW_BYTES_SHARED);
}
static double hit(const struct fs_watch *w, uint32_t i) {
  return fs_delta_hit(delta(w, i));
}
static double worst(const struct fs_watch *w, uint32_t i) {
  return gauge(w, i, FS_VIEW_WAIT_WORST);
}
static double waited(const struct fs_watch *w, uint32_t i) {
  return fs_delta_waited(delta(w, i));
}
static double p50(const struct fs_watch *w, uint32_t i) {
  return (double)fs_latency_percentile(&delta(w, i)->remote, 500);
}
static double p99(const struct fs_watch *w, uint32_t i) {
  return (double)fs_latency_percentile(&delta(w, i)->remote, 990);
}
static double busy(const struct fs_watch *w, uint32_t i) {
  return gauge(w, i, FS_VIEW_HOST_BUSY);
}
static double used(const struct fs_watch *w, uint32_t i) {
  return gauge(w, i, FS_VIEW_CACHE_USED);
}
static double room(const struct fs_watch *w, uint32_t i) {
  return gauge(w, i, FS_VIEW_CACHE_SIZE);
}
static double queue(const struct fs_watch *w, uint32_t i) {
  return gauge(w, i, FS_VIEW_QUEUE);
}
static double outputs(const struct fs_watch *w, uint32_t i) {
  return gauge(w, i, FS_VIEW_OUTPUTS);
}
static char *show_whole(double n, char out[FS_SHOW]) {
  snprintf(out, FS_SHOW, "%.0f", n);
  return out;
}
static char *show_giga(double n, char out[FS_SHOW]) {
  return fs_show_giga(n > 0 && n < 1.8e19 ? (uint64_t)n : 0, out);
}

static const struct column {
  const char *title;
  int width;
  char key; /* sorts by this column; 0: none */
  double (*value)(const struct fs_watch *w, uint32_t node);
  char *(*show)(double value, char out[FS_SHOW]);
} columns[] = {
    {"FILES/S", 8, 'f', files, fs_show_count},
    {"MB/S", 7, 'm', bytes, fs_show_mega},
    {"LOCAL", 6, 0, local, fs_show_mega},
    {"CACHE", 6, 0, cache, fs_show_mega},
    {"REMOTE", 7, 0, remote, fs_show_mega},
    {"SHARED", 7, 0, shared, fs_show_mega},
    {"HIT%", 5, 'h', hit, fs_show_percent},
    {"WAIT%", 6, 'w', waited, fs_show_percent},
    {"P99", 6, 'p', p99, fs_show_ns},
    {"WORST%", 7, 'x', worst, fs_show_percent},
    {"P50", 6, 0, p50, fs_show_ns},
    {"BUSY%", 6, 'b', busy, fs_show_percent},
    {"CACHED", 7, 'c', used, show_giga},
    {"OF", 6, 0, room, show_giga},
    {"QUEUE", 6, 'u', queue, show_whole},
    {"OUTPUTS", 8, 'o', outputs, show_whole},
};

bool fs_top_sorts(int key) {
  if (key == 'n') return true;
  for (size_t c = 0; c < FS_ARRAY_LEN(columns); c++)
    if (key != 0 && key == columns[c].key) return true;
  return false;
}

unsigned fs_top_columns(void) {
  return FS_ARRAY_LEN(columns);
}

static int compare(const void *a, const void *b, void *ctx) {
  const struct fs_top *t = ctx;
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  int by = 0;
  for (size_t c = 0; t->sort != 'n' && c < FS_ARRAY_LEN(columns); c++) {
    if (columns[c].key != t->sort) continue;
    double m = columns[c].value(t->watch, x), n = columns[c].value(t->watch, y);
    by = m > n ? -1 : m < n; /* the largest first */
  }
  if (by == 0) by = x < y ? -1 : x > y;
  return t->reverse ? -by : by;
}

/* Writes a line of the head, cut to the screen. */
static void line(int row, enum fs_screen_style style, const char *format, ...) FS_PRINTF(3, 4);
static void line(int row, enum fs_screen_style style, const char *format, ...) {
  char text[FS_TOP_LINE];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof(text), format, ap);
  va_end(ap);
  fs_screen_text(row, 0, FS_TOP_LINE, style, text);
}

static void draw_job(const struct fs_view *l) {
  char job[256], user[128], age[FS_SHOW];
  uint64_t now = fs_clock_ns(CLOCK_REALTIME) / 1000000;
  line(0, FS_SCREEN_BOLD, "%s  %s %s  %u node%s  user %s", fs_show_text(l->job, 60, job, sizeof(job)),
       fs_view_state_name[l->state], fs_show_age(now, l->started_ms, age), l->nodes, l->nodes == 1 ? "" : "s",
       fs_show_text(l->user, 32, user, sizeof(user)));
}

static void draw_rates(const struct fs_watch *w) {
  struct fs_delta d;
  char a[FS_SHOW], b[FS_SHOW], c[FS_SHOW], e[FS_SHOW], f[FS_SHOW], g[FS_SHOW], h[FS_SHOW];
  fs_watch_total(w, &d);
  line(1, FS_SCREEN_PLAIN, "%s files/s  %s MB/s: %s%% local %s%% cache %s%% remote %s%% shared  waited %s%%",
       fs_show_count(fs_delta_rate(&d, FS_VIEW_OPENS), a), fs_show_mega(fs_delta_bytes(&d), b),
       fs_show_percent(fs_delta_share(&d, FS_LATENCY_LOCAL), c),
       fs_show_percent(fs_delta_share(&d, FS_LATENCY_CACHE), e),
       fs_show_percent(fs_delta_share(&d, FS_LATENCY_REMOTE), f),
       fs_show_percent(fs_delta_share(&d, FS_LATENCY_SHARED), g), fs_show_percent(fs_delta_waited(&d), h));
  double most = -1;
  for (uint32_t i = 0; i < w->view.nodes; i++) most = FS_MAX(most, w->node[i].ms > 0 ? worst(w, i) : -1);
  line(2, FS_SCREEN_PLAIN, "remote reads: P50 %s  P99 %s  outputs: %s/s  %s MB/s  worst waited %s%%",
       fs_show_ns((double)fs_latency_percentile(&d.remote, 500), a),
       fs_show_ns((double)fs_latency_percentile(&d.remote, 990), b),
       fs_show_count(fs_delta_rate(&d, FS_VIEW_OUTPUTS), c), fs_show_mega(fs_delta_rate(&d, FS_VIEW_OUTPUT_WRITTEN), e),
       fs_show_percent(most, f));
}

static void draw_bar(const char *what, uint64_t done, uint64_t total) {
  char a[32], b[32], bar[21];
  double part = FS_MIN((double)done / (double)total, 1);
  memset(bar, '.', sizeof(bar) - 1);
  memset(bar, '#', (size_t)(part * (double)(sizeof(bar) - 1)));
  bar[sizeof(bar) - 1] = '\0';
  line(3, FS_SCREEN_PLAIN, "%s [%s] %.0f%%: %s of %s", what, bar, 100 * part, fs_format_size(done, a, sizeof(a)),
       fs_format_size(total, b, sizeof(b)));
}

/* Shows a bar while the job stages, or fills its caches, else its command. */
static void draw_progress(const struct fs_view *l) {
  char command[FS_TOP_LINE];
  uint64_t done = 0, total = 0;
  for (uint32_t i = 0; i < l->nodes; i++) {
    done += l->node[i].value[FS_VIEW_FILL_DONE];
    total += l->node[i].value[FS_VIEW_FILL_TOTAL];
  }
  if (l->state < FS_VIEW_RUNNING && l->total > 0)
    draw_bar("staging", l->done, l->total);
  else if (done < total)
    draw_bar("filling the caches", done, total);
  else
    line(3, FS_SCREEN_PLAIN, "%s", fs_show_text(l->command, FS_TOP_LINE / 4, command, sizeof(command)));
}

static void draw_warning(const struct fs_view *l) {
  char text[FS_TOP_LINE];
  if (l->warnings == 0) return;
  fs_show_text(l->warning[l->warnings - 1], FS_TOP_LINE / 4, text, sizeof(text));
  if (l->warnings == 1)
    line(4, FS_SCREEN_BOLD, "warning: %s", text);
  else
    line(4, FS_SCREEN_BOLD, "%u warnings, the last: %s", l->warnings, text);
}

/* Writes a row: of node `i`, or the titles. */
static void draw_row(const struct fs_top *t, int row, bool titles, uint32_t i) {
  int rows, width, at = FS_TOP_FIXED;
  char text[FS_TOP_LINE], host[64];
  enum fs_screen_style style = titles ? FS_SCREEN_REVERSE : FS_SCREEN_PLAIN;
  fs_screen_size(&rows, &width);
  if (titles)
    snprintf(text, sizeof(text), "%4s %-12s", "NODE", "HOST");
  else
    snprintf(text, sizeof(text), "%4u %-12s", i, fs_show_text(t->watch->view.node[i].host, 12, host, sizeof(host)));
  fs_screen_text(row, 0, titles ? width : FS_TOP_FIXED, style, text);
  for (size_t c = t->column; c < FS_ARRAY_LEN(columns) && at + columns[c].width <= width; c++) {
    char number[FS_SHOW];
    bool sampled = titles || t->watch->node[i].ms > 0;
    const char *shown = titles     ? columns[c].title
                        : !sampled ? "-"
                                   : columns[c].show(columns[c].value(t->watch, i), number);
    snprintf(text, sizeof(text), "%*s", columns[c].width, shown);
    fs_screen_text(row, at, columns[c].width, style, text);
    at += columns[c].width;
  }
}

static void draw_file(int row, int width, const struct fs_view_file *f) {
  char text[FS_TOP_LINE], path[FS_TOP_LINE], waited[FS_SHOW], longest[FS_SHOW];
  size_t room = (size_t)FS_MAX(width - FS_TOP_FILES, 12);
  size_t len = strlen(f->path);
  bool cut = len > room; /* the end of a path tells more than its beginning */
  const char *shown = cut ? f->path + (len - room + 2) : f->path;
  snprintf(text, sizeof(text), "%7llu %8s %8s %-8s %s%s", (unsigned long long)FS_MIN(f->reads, 9999999ull),
           fs_show_ns((double)f->us * 1e3, waited), fs_show_ns((double)f->longest_us * 1e3, longest),
           fs_latency_place_name(f->place), cut ? ".." : "", fs_show_text(shown, FS_TOP_LINE / 4, path, sizeof(path)));
  fs_screen_text(row, 0, width, FS_SCREEN_PLAIN, text);
}

/* Shows the busiest files below the nodes, if there is room for some. */
static void draw_files(const struct fs_view *l, int row, int rows, int width) {
  if (l->files == 0 || row + 3 >= rows) return;
  char text[FS_TOP_LINE];
  snprintf(text, sizeof(text), "%7s %8s %8s %-8s %s", "READS", "WAITED", "LONGEST", "PLACE", "BUSIEST FILES");
  fs_screen_text(row + 1, 0, width, FS_SCREEN_REVERSE, text);
  for (unsigned i = 0; i < l->files && row + 2 + (int)i < rows - 1; i++)
    draw_file(row + 2 + (int)i, width, &l->busy[i]);
}

void fs_top_draw(struct fs_top *t) {
  const struct fs_view *l = &t->watch->view;
  int rows, width;
  fs_screen_size(&rows, &width);
  fs_screen_clear();
  for (uint32_t i = 0; i < l->nodes; i++) t->order[i] = i;
  if (l->nodes > 1) qsort_r(t->order, l->nodes, sizeof(*t->order), compare, t);
  t->page = FS_MAX(rows - FS_TOP_HEAD - 1, 1);
  uint32_t most = l->nodes > (uint32_t)t->page ? l->nodes - (uint32_t)t->page : 0;
  t->row = FS_MIN(t->row, most);
  draw_job(l);
  draw_rates(t->watch);
  draw_progress(l);
  draw_warning(l);
  draw_row(t, FS_TOP_HEAD - 1, true, 0);
  for (uint32_t i = 0; i < (uint32_t)t->page && t->row + i < l->nodes; i++)
    draw_row(t, FS_TOP_HEAD + (int)i, false, t->order[t->row + i]);
  draw_files(l, FS_TOP_HEAD + (int)FS_MIN(l->nodes, (uint32_t)t->page), rows, width);
  line(rows - 1, FS_SCREEN_REVERSE, "by %c%s  q quit  arrows PgUp PgDn  sort n f m h w p x b c u o  r reverse", t->sort,
       t->reverse ? ", reversed" : "");
  fs_screen_show();
}
