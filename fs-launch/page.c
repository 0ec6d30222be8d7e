/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fills in the page of --report FILE.html (page.h): the frame, the script, the JSON, and for a
 * browser without scripts a table made here. What users and programs named is escaped: as text of
 * HTML, and in the JSON each '<', so that no name ends the script. One thread.
 */
#include "page.h"

#include <string.h>

#include "launch.h"

extern const char fs_page_html[], fs_page_js[];
extern const uint32_t fs_page_html_size, fs_page_js_size;

/* Writes text as HTML. */
static void text(FILE *out, const char *t) {
  char shown[1024];
  for (const char *p = fs_one_line(t, shown, sizeof(shown)); *p != '\0'; p++) {
    if (*p == '<')
      fputs("&lt;", out);
    else if (*p == '>')
      fputs("&gt;", out);
    else if (*p == '&')
      fputs("&amp;", out);
    else if (*p == '"')
      fputs("&quot;", out);
    else
      fputc(*p, out);
  }
}

static void element(FILE *out, const char *name, const char *t) {
  fprintf(out, "<%s>", name);
  text(out, t);
  fprintf(out, "</%s>\n", name);
}

static void size_cell(FILE *out, uint64_t bytes) {
  char size[32];
  fprintf(out, "<td>%s</td>", fs_format_size(bytes, size, sizeof(size)));
}

static void node_row(const struct fs_launch *l, uint32_t node, FILE *out) {
  static const char *const sizes[] = {"bytes_local", "bytes_cache", "bytes_remote", "bytes_shared", "served_bytes"};
  const struct fs_launch_node *n = &l->node[node];
  fprintf(out, "<tr><td class=\"t\">%u ", node);
  text(out, n->host);
  if (n->stats.n == 0) {
    fputs("</td><td colspan=\"7\">no report</td></tr>\n", out);
    return;
  }
  fprintf(out, "</td><td>%llu</td>", (unsigned long long)fs_sample_get(&n->stats, "opens"));
  for (size_t i = 0; i < FS_ARRAY_LEN(sizes); i++) size_cell(out, fs_sample_get(&n->stats, sizes[i]));
  fprintf(out, "<td>%.1f s</td></tr>\n",
          l->figures ? (double)fs_figures_sum(l->figures, node, FS_SERIES_WAIT_MS) / 1000 : 0.0);
}

/* What a browser without scripts shows. */
static void summary(const struct fs_launch *l, const char *headline, FILE *out) {
  char line[400];
  snprintf(line, sizeof(line), "FanStore job %s", l->job);
  element(out, "h1", line);
  fputs("<p class=\"headline\">", out);
  text(out, headline);
  fputs("</p>\n<ul class=\"notes\">\n", out);
  for (unsigned i = 0; l->figures && i < l->figures->findings; i++) element(out, "li", l->figures->finding[i].text);
  for (unsigned i = 0; i < l->warnings; i++) element(out, "li", l->warning[i]);
  fputs("</ul>\n<table>\n<tr><th class=\"t\">Node</th><th>Files opened</th><th>Own partitions</th><th>Cache</th>"
        "<th>Another node</th><th>Shared storage</th><th>Sent to others</th><th>Waited</th></tr>\n",
        out);
  for (uint32_t i = 0; i < l->nodes; i++) node_row(l, i, out);
  fprintf(out, "</table>\n<p>Outputs: %llu file%s.</p>\n", (unsigned long long)l->outputs.files,
          fs_plural(l->outputs.files));
}

/* Writes JSON so that it can stand in a script element: '<' is only in its strings. */
static void data(const char *json, size_t n, FILE *out) {
  for (size_t i = 0; i < n; i++) {
    if (json[i] == '<')
      fputs("\\u003c", out);
    else
      fputc(json[i], out);
  }
}

/* Writes the frame from *at up to the mark, or to its end if that is NULL. Moves *at past it. */
static void until(size_t *at, const char *mark, FILE *out) {
  const char *rest = fs_page_html + *at;
  size_t left = fs_page_html_size - *at;
  const char *found = mark ? memmem(rest, left, mark, strlen(mark)) : NULL;
  size_t n = found ? (size_t)(found - rest) : left;
  fwrite(rest, 1, n, out);
  *at += found ? n + strlen(mark) : n;
}

void fs_page(const struct fs_launch *l, const char *headline, const char *json, size_t n, FILE *out) {
  size_t at = 0;
  until(&at, "@TITLE@", out);
  fputs("FanStore job ", out);
  text(out, l->job);
  until(&at, "@SUMMARY@", out);
  summary(l, headline, out);
  until(&at, "@SCRIPT@", out);
  fwrite(fs_page_js, 1, fs_page_js_size, out);
  until(&at, "@DATA@", out);
  data(json, n, out);
  until(&at, NULL, out);
}
