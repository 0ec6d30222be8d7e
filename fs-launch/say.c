/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows progress now and then, and keeps warnings for the summary. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

#define FS_BAR_NS (FS_NS_PER_S / 10)
#define FS_LINE_NS (60 * FS_NS_PER_S)               /* for log files that people read */
#define FS_PROGRESS_ENV "FANSTORE_TEST_PROGRESS_MS" /* for tests: replaces FS_LINE_NS */

static uint64_t progress_ns(void) {
  const char *test = getenv(FS_PROGRESS_ENV);
  uint64_t ms;
  if (fs_bar_shown()) return FS_BAR_NS;
  return test && fs_parse_u64(test, 1, 60000, &ms) == 0 ? ms * (FS_NS_PER_S / 1000) : FS_LINE_NS;
}

bool fs_progress_due(struct fs_launch *l) {
  uint64_t now = fs_now_ns();
  if (now - l->bar_ns < progress_ns()) return false;
  l->bar_ns = now;
  return true;
}

void fs_progress(const char *format, ...) {
  char text[256];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof(text), format, ap);
  va_end(ap);
  if (fs_bar_shown())
    fs_bar(text);
  else
    fs_say("%s", text);
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
