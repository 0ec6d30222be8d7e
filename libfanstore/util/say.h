/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of the tools on stderr: lines, and a progress bar if stderr is a terminal. One mutex
   orders them, so any thread may print. */
#ifndef FS_UTIL_SAY_H
#define FS_UTIL_SAY_H

#include "util/base.h"

/* Sets the name that each line begins with. Called once, by main. */
void fs_say_as(const char *program);
/* Prints one line "PROGRAM: ..." after it wipes the progress bar. */
void fs_say(const char *format, ...) FS_PRINTF(1, 2);
/* Prints a progress bar that the next one replaces, if stderr is a terminal. NULL wipes it. */
void fs_bar(const char *text);
bool fs_bar_shown(void); /* true if stderr is a terminal */

#endif
