/* SPDX-License-Identifier: BSD-3-Clause */
/* fs-launch stats: a line each second with what a job did since the last one. */
#include <string.h>
#include <unistd.h>

#include "watch.h"

#define FS_STATS_HEADER_LINES 20u

/* Flushes standard output. Returns 0, -EPIPE if nobody reads it any more, or another errno. */
static fs_err flush(void) {
  return fflush(stdout) == 0 && !ferror(stdout) ? 0 : -errno;
}

static void show(const struct fs_watch_options *o, const struct fs_watch *w, uint64_t *lines) {
  if (o->format == FS_WATCH_JSON) {
    fs_stats_json(w, o->nodes, stdout);
    return;
  }
  bool outputs = fs_watch_width() >= FS_STATS_WIDTH;
  /* In a file, one header is enough. */
  if (*lines == 0 || (isatty(STDOUT_FILENO) && *lines >= FS_STATS_HEADER_LINES)) {
    fs_stats_header(stdout, o->nodes, outputs);
    *lines = 0;
  }
  fs_stats_text(w, o->nodes, outputs, stdout);
  *lines += o->nodes ? w->view.nodes : 1;
}

static int lines(const struct fs_watch_options *o, const struct fs_job *job, struct fs_watch *w) {
  uint64_t shown = 0, header = 0, seen = 0, next = fs_now_ns(), step = FS_MAX(o->interval, 1) * FS_NS_PER_S;
  fs_watch_wait(job, next, &seen);
  int err = fs_watch_step(job, w);
  while (err == 0 || err == -EAGAIN) {
    next += step;
    fs_watch_wait(job, next, &seen);
    if (fs_now_ns() > next + step) next = fs_now_ns(); /* we were suspended */
    err = fs_watch_step(job, w);
    if (err != 0) continue;
    show(o, w, &header);
    fs_err out = flush();
    if (out == -EPIPE || (out == 0 && ++shown == o->count)) return 0;
    if (out == 0) continue;
    fs_say("standard output: %s", strerror(-out));
    return FS_EXIT_FAILED;
  }
  return err == FS_WATCH_ENDED ? 0 : fs_watch_failed(job, err);
}

int fs_watch_stats(int argc, char **argv) {
  struct fs_watch_options o = {0};
  struct fs_watch w = {0};
  struct fs_job job;
  int status = fs_watch_options_stats(&o, argc, argv);
  if (status >= 0) return status;
  status = fs_jobs_find(o.job, &job);
  if (status != 0) return status;
  if (o.listen) return fs_watch_listen(o.listen, &job);
  if (o.format == FS_WATCH_PROMETHEUS || o.format == FS_WATCH_INFLUX) return fs_watch_export(&o, &job);
  status = lines(&o, &job, &w);
  fs_watch_free(&w);
  return status;
}
