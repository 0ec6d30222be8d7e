/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of --report: the file that it goes to (reportfile.c) and the groups of its JSON that
 * show the job's course (reportjson.c). report.c calls them.
 */
#ifndef FS_LAUNCH_REPORT_H
#define FS_LAUNCH_REPORT_H

#include <limits.h>
#include <stdio.h>

#include "util/base.h"

struct fs_launch;

#define FS_REPORT_SCHEMA 1u /* of the JSON; a key that means something else raises it */

/* A regular file gets its name when all of it is on the disk. A pipe is written as it is. */
struct fs_report_file {
  FILE *out;
  char name[PATH_MAX], temporary[PATH_MAX]; /* temporary: empty if it is no regular file */
};
/* Opens the report without waiting: a FIFO may have no reader. Returns 0 or a negative errno. */
fs_err fs_report_open(const char *name, struct fs_report_file *f);
/* Returns 0, or a negative errno: then a regular file of this name is as it was. */
fs_err fs_report_close(struct fs_report_file *f);

/* Writes the groups latency, slow_files, served, matrix, compression, timeline, epochs, waiting, processes and
   findings. */
void fs_report_figures(const struct fs_launch *l, FILE *out);

#endif
