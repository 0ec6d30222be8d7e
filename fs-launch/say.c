/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows progress now and then, and keeps warnings for the summary. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

bool fs_progress_due(struct fs_launch *l) {
  uint64_t now = fs_now_ns();
  if (now - l->bar_ns < fs_progress_every()) return false;
  l->bar_ns = now;
  return true;
}

void fs_warn(struct fs_launch *l, const char *format, ...) {
  char line[FS_SAY_LINE];
  va_list ap;
  va_start(ap, format);
  fs_vline(line, sizeof(line), format, ap);
  va_end(ap);
  for (unsigned i = 0; i < l->warnings; i++)
    if (strcmp(l->warning[i], line) == 0) return;
  if (l->opt.verbose) fs_say("warning: %s", line);
  if (l->warnings < FS_LAUNCH_WARNINGS && (l->warning[l->warnings] = strdup(line)) != NULL) l->warnings++;
}
