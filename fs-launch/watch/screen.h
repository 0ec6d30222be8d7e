/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A full screen by ncurses, which is loaded when it is needed: fs-launch itself does not depend on
 * it. There is one screen. One thread.
 */
#ifndef FS_LAUNCH_WATCH_SCREEN_H
#define FS_LAUNCH_WATCH_SCREEN_H

#include "util/base.h"

enum fs_screen_style { FS_SCREEN_PLAIN, FS_SCREEN_BOLD, FS_SCREEN_REVERSE };
/* Keys that are no characters: ncurses' own numbers. */
enum fs_screen_key {
  FS_KEY_NONE = -1,
  FS_KEY_DOWN = 0402,
  FS_KEY_UP = 0403,
  FS_KEY_LEFT = 0404,
  FS_KEY_RIGHT = 0405,
  FS_KEY_HOME = 0406,
  FS_KEY_PGDN = 0522,
  FS_KEY_PGUP = 0523,
  FS_KEY_END = 0550,
  FS_KEY_RESIZE = 0632
};

/* Takes the terminal. Returns 0, or the exit status after it told the reason. */
int fs_screen_open(void);
/* Gives the terminal back as it was. May be called if none is open. */
void fs_screen_close(void);
void fs_screen_size(int *rows, int *columns);
void fs_screen_clear(void);
/* Writes a text of printable ASCII in a line, at most `width` characters; others become '?'. With
   REVERSE it is filled up to the width. */
void fs_screen_text(int row, int column, int width, enum fs_screen_style style, const char *text);
void fs_screen_show(void); /* shows what was written since fs_screen_clear */
int fs_screen_key(int wait_ms);

#endif
