/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows the progress of pack: a bar on a terminal, else a line every ten seconds. Called by its
   main thread. */
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "pack.h"

#define BAR 20
#define SECOND 1000000000ull

static int columns(void) {
  struct winsize ws;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col > 20 ? ws.ws_col : 80;
}

static void eta(char *out, size_t size, uint64_t elapsed_ns, double done) {
  double left = done > 0.001 ? (double)elapsed_ns / 1e9 * (1 - done) / done : -1;
  if (left < 0 || left > 360000) {
    snprintf(out, size, "--:--");
    return;
  }
  unsigned s = (unsigned)(left + 0.5);
  if (s >= 3600)
    snprintf(out, size, "%u:%02u:%02u", s / 3600, s / 60 % 60, s % 60);
  else
    snprintf(out, size, "%u:%02u", s / 60, s % 60);
}

void fs_progress_show(struct fs_progress *p, const struct fs_plan *plan) {
  uint64_t now = fs_now_ns(), every = fs_bar_shown() ? SECOND / 10 : 10 * SECOND;
  if (now - p->last_ns < every) return;
  p->last_ns = now;
  double done = plan->pack_bytes != 0 ? (double)p->bytes / (double)plan->pack_bytes : 1;
  double ratio = p->bytes != 0 ? (double)p->stored / (double)p->bytes : 1;
  char left[24], is[32], all[32], line[512], bar[BAR + 1];
  eta(left, sizeof left, now - p->start_ns, done);
  fs_format_size(p->bytes, is, sizeof is);
  fs_format_size(plan->pack_bytes, all, sizeof all);
  int filled = (int)(done * BAR);
  memset(bar, ' ', BAR);
  memset(bar, '=', (size_t)FS_MIN(filled, BAR));
  bar[BAR] = '\0';
  snprintf(line, sizeof line, "[%s] %3d%%  %llu/%llu files  %s/%s  ratio %.2f  ETA %s", bar, (int)(done * 100),
           (unsigned long long)p->files, (unsigned long long)plan->files, is, all, ratio, left);
  if (fs_bar_shown()) {
    size_t width = (size_t)columns() - 1;
    if (width < sizeof line) line[width] = '\0';
    fs_bar(line);
  } else {
    fs_say("%llu of %llu files, %s of %s, ratio %.2f, %s left", (unsigned long long)p->files,
           (unsigned long long)plan->files, is, all, ratio, left);
  }
}
