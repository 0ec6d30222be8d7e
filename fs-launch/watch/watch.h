/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The commands that look at a running job: fs-launch jobs, stats and top. They read its live file
 * (view.h) once a second and show what has changed (rates.h). The job does not notice them. One
 * thread.
 */
#ifndef FS_LAUNCH_WATCH_WATCH_H
#define FS_LAUNCH_WATCH_WATCH_H

#include <stdio.h>

#include "../launch.h"
#include "rates.h"

enum fs_watch_format { FS_WATCH_TEXT, FS_WATCH_JSON, FS_WATCH_PROMETHEUS, FS_WATCH_INFLUX };
struct fs_watch_options {
  const char *job; /* NULL: the only one */
  enum fs_watch_format format;
  uint64_t interval, count; /* seconds; lines. 0: not given */
  const char *output, *listen;
  bool nodes, json;
};

/* options.c. These return -1 if work remains, 0 after --help or --version, or the exit status after
   a usage error. */
int fs_watch_options_jobs(struct fs_watch_options *o, int argc, char **argv);
int fs_watch_options_stats(struct fs_watch_options *o, int argc, char **argv);
int fs_watch_options_top(struct fs_watch_options *o, int argc, char **argv);

/* job.c */
#define FS_WATCH_ENDED 1
/* Reads the live file of a job. Returns 0, FS_WATCH_ENDED if the job is over, -EAGAIN if it has no
   file yet, or another negative errno. */
int fs_watch_read(const struct fs_job *job, struct fs_view *l);
/* Reads it and takes the differences. Returns what fs_watch_read does. */
int fs_watch_step(const struct fs_job *job, struct fs_watch *w);
/* Waits until `until_ns` (fs_now_ns), and then, up to a second, until the live file is another one
   than *seen, which is its inode. Ends early after a signal of fs_watch_signals. */
void fs_watch_wait(const struct fs_job *job, uint64_t until_ns, uint64_t *seen);
/* From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT only set what fs_watch_signal returns. */
void fs_watch_signals(void);
int fs_watch_signal(void); /* 0: none came */
/* Ends this process by that signal, as if it had not been caught. Returns if none came. */
void fs_watch_die(void);
/* Tells that the live file cannot be read. Returns the exit status. */
int fs_watch_failed(const struct fs_job *job, int err);

/* show.c: numbers as text. All write to `out` and return it. */
#define FS_SHOW 32
char *fs_show_ns(double ns, char out[FS_SHOW]);                     /* 45us, 1.2ms, 3.4s; 0: - */
char *fs_show_percent(double percent, char out[FS_SHOW]);           /* below 0: - */
char *fs_show_count(double count, char out[FS_SHOW]);               /* 999, 12.3k, 4.5M */
char *fs_show_mega(double bytes, char out[FS_SHOW]);                /* millions: 0.04, 1.2, 345 */
char *fs_show_giga(uint64_t bytes, char out[FS_SHOW]);              /* 512M, 1.2G */
char *fs_show_age(uint64_t now_ms, uint64_t ms, char out[FS_SHOW]); /* as ps: 05:12, 1:02:03, 2-03:04:05 */
/* Writes a text of any bytes as one line of at most `columns` characters. */
char *fs_show_text(const char *text, size_t columns, char *out, size_t size);

/* metrics.c, influx.c: one reading of a job. */
void fs_metrics_prometheus(const struct fs_view *l, FILE *out);
void fs_metrics_influx(const struct fs_view *l, FILE *out);
/* export.c: such readings on standard output, or in a file. Returns the exit status. */
int fs_watch_export(const struct fs_watch_options *o, const struct fs_job *job);
/* listen.c: serves them by HTTP until the job ends. Returns the exit status. */
int fs_watch_listen(const char *address, const struct fs_job *job);

/* list.c: returns the width of standard output if it is a terminal, else SIZE_MAX. */
size_t fs_watch_width(void);

/* rows.c. With `outputs` the lines have the columns OUT/S and OUTMB/S. */
#define FS_STATS_WIDTH 96u /* of a line with these columns, without those of `nodes` */
void fs_stats_header(FILE *out, bool nodes, bool outputs);
void fs_stats_text(const struct fs_watch *w, bool nodes, bool outputs, FILE *out);
void fs_stats_json(const struct fs_watch *w, bool nodes, FILE *out);

#endif
