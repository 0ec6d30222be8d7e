/* SPDX-License-Identifier: BSD-3-Clause */
/* What fs-launch tells the user: lines and a progress bar on stderr, and warnings kept for the summary. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

static bool bar_on_screen;

bool fs_bar_shown(void) {
  static int tty = -1;
  if (tty < 0) tty = isatty(STDERR_FILENO) ? 1 : 0;
  return tty == 1;
}

void fs_bar(const char *text) {
  if (!fs_bar_shown() || (!text && !bar_on_screen)) return;
  fprintf(stderr, "\r\033[K%s", text ? text : "");
  fflush(stderr);
  bar_on_screen = text != NULL;
}

void fs_say(const char *format, ...) {
  char line[2048];
  va_list ap;
  va_start(ap, format);
  vsnprintf(line, sizeof(line), format, ap);
  va_end(ap);
  fs_bar(NULL);
  fprintf(stderr, "fs-launch: %s\n", line);
}

void fs_warn(struct fs_launch *l, const char *format, ...) {
  char line[1024];
  va_list ap;
  va_start(ap, format);
  vsnprintf(line, sizeof(line), format, ap);
  va_end(ap);
  for (unsigned i = 0; i < l->warnings; i++)
    if (strcmp(l->warning[i], line) == 0) return;
  if (l->opt.verbose) fs_say("warning: %s", line);
  if (l->warnings < FS_LAUNCH_WARNINGS && (l->warning[l->warnings] = strdup(line)) != NULL) l->warnings++;
}

char *fs_shown(const char *name, char *out, size_t size) {
  return fs_printable(name, strlen(name), out, size);
}
