/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of the tools on stderr: lines, and a progress bar if stderr is a terminal. One mutex
   orders them, so any thread may print. */
#ifndef FS_UTIL_SAY_H
#define FS_UTIL_SAY_H

#include <limits.h>
#include <stdarg.h>

#include "util/base.h"

#define FS_SAY_LINE (3 * PATH_MAX) /* two paths and a sentence */

/* Sets the name that each line begins with. Called once, by main. */
void fs_say_as(const char *program);
/* Prints one line "PROGRAM: ..." after it wipes the progress bar. Names in it may have any bytes: the
   line is printed by fs_one_line. */
void fs_say(const char *format, ...) FS_PRINTF(1, 2);
void fs_say_to(int fd); /* replaces stderr by this open file from now on */
/* Returns how many lines could not be written, as the disk is full. */
unsigned fs_say_lost(void);
/* Writes such a line to `out`. Returns out. */
char *fs_vline(char *out, size_t size, const char *format, va_list ap) __attribute__((format(printf, 3, 0)));
/* Prints a progress bar that the next one replaces, if stderr is a terminal. NULL wipes it. */
void fs_bar(const char *text);
bool fs_bar_shown(void); /* true if stderr is a terminal */
/* Prints bars as lines from now on, each after FS_BAR_LINE. Another process that has the terminal shows them. Called
   once, by main. */
void fs_bar_by_lines(void);
#define FS_BAR_LINE "bar: "
/* Shows progress: a bar on a terminal, else a line. */
void fs_progress(const char *format, ...) FS_PRINTF(1, 2);
/* Returns how many nanoseconds pass from one fs_progress to the next: a bar moves ten times a second,
   and people read log files with a line a minute. */
uint64_t fs_progress_every(void);

#endif
