/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch stats --format: readings on standard output, or in a file that is replaced by rename, so
 * that node_exporter's textfile collector never reads half of it. The file is removed when the job
 * ends: what is there is of a running job.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watch.h"

static void write_reading(const struct fs_watch_options *o, const struct fs_view *l, FILE *out) {
  if (o->format == FS_WATCH_INFLUX)
    fs_metrics_influx(l, out);
  else
    fs_metrics_prometheus(l, out);
}

/* Writes to FILE.PID~, which no collector takes for a file of its own, and renames it. */
static fs_err replace(const struct fs_watch_options *o, const struct fs_view *l) {
  char temporary[PATH_MAX];
  int n = snprintf(temporary, sizeof(temporary), "%s.%d~", o->output, (int)getpid());
  if (n < 0 || (size_t)n >= sizeof(temporary)) return -ENAMETOOLONG;
  int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
  FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
  if (!out) return -errno;
  write_reading(o, l, out);
  bool bad = ferror(out) != 0;
  fs_err err = (fclose(out) != 0 || bad) ? -errno : 0;
  if (err == 0 && rename(temporary, o->output) < 0) err = -errno;
  if (err < 0) unlink(temporary);
  return err;
}

static fs_err put(const struct fs_watch_options *o, const struct fs_view *l) {
  if (o->output) return replace(o, l);
  write_reading(o, l, stdout);
  return fflush(stdout) == 0 ? 0 : -errno;
}

/* Returns the exit status after a reading could not be written. */
static int not_written(const struct fs_watch_options *o, fs_err err) {
  if (!o->output && err == -EPIPE) return 0;
  fs_say("%s: %s", o->output ? o->output : "standard output", strerror(-err));
  return FS_EXIT_FAILED;
}

static int readings(const struct fs_watch_options *o, const struct fs_job *job, uint64_t most) {
  uint64_t done = 0, seen = 0, next = fs_now_ns(), step = FS_MAX(o->interval, 1) * FS_NS_PER_S;
  for (;; next = FS_MAX(next + step, fs_now_ns())) {
    struct fs_view l;
    fs_watch_wait(job, next, &seen);
    if (fs_watch_signal() != 0) return 0;
    int err = fs_watch_read(job, &l);
    if (err == -EAGAIN) continue;
    if (err != 0) return err == FS_WATCH_ENDED ? 0 : fs_watch_failed(job, err);
    fs_err bad = put(o, &l);
    fs_view_free(&l);
    if (bad < 0) return not_written(o, bad);
    if (++done == most) return 0;
  }
}

int fs_watch_export(const struct fs_watch_options *o, const struct fs_job *job) {
  bool once = !o->output && o->interval == 0 && o->count == 0;
  if (o->output) fs_watch_signals();
  int status = readings(o, job, once ? 1 : o->count);
  if (o->output && o->count == 0) unlink(o->output);
  fs_watch_die();
  return status;
}
