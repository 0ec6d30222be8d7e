/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The full screen of fs-launch top (screen.h). The functions of ncurses are declared here, so that
 * the build needs no header of it either. Their types, key numbers and attributes are those of the
 * library's version 6 (libncursesw.so.6), which cannot change them.
 */
#include "screen.h"

#include <dlfcn.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watch.h"

#define LIBRARY "libncursesw.so.6"
#define PACKAGE "libncursesw6"
#define ATTR_REVERSE (1 << 18)
#define ATTR_BOLD (1 << 21)

struct screen;
struct window;
static struct {
  struct screen *(*newterm)(const char *type, FILE *out, FILE *in);
  void (*delscreen)(struct screen *s);
  int (*endwin)(void), (*cbreak)(void), (*noecho)(void), (*curs_set)(int visible);
  int (*keypad)(struct window *w, bool on), (*wgetch)(struct window *w);
  int (*getmaxx)(const struct window *w), (*getmaxy)(const struct window *w);
  int (*werase)(struct window *w), (*wrefresh)(struct window *w);
  int (*wmove)(struct window *w, int row, int column), (*wattrset)(struct window *w, int attributes);
  int (*waddnstr)(struct window *w, const char *text, int n);
  void (*wtimeout)(struct window *w, int ms);
} nc;
static struct screen *screen;
static struct window *window;

static bool load(void *library) {
  const struct {
    const char *name;
    void *to;
  } symbols[] = {
      {"newterm", &nc.newterm}, {"delscreen", &nc.delscreen}, {"endwin", &nc.endwin},     {"cbreak", &nc.cbreak},
      {"noecho", &nc.noecho},   {"curs_set", &nc.curs_set},   {"keypad", &nc.keypad},     {"wgetch", &nc.wgetch},
      {"getmaxx", &nc.getmaxx}, {"getmaxy", &nc.getmaxy},     {"werase", &nc.werase},     {"wrefresh", &nc.wrefresh},
      {"wmove", &nc.wmove},     {"wattrset", &nc.wattrset},   {"waddnstr", &nc.waddnstr}, {"wtimeout", &nc.wtimeout},
  };
  for (size_t i = 0; i < FS_ARRAY_LEN(symbols); i++) {
    void *symbol = dlsym(library, symbols[i].name);
    if (!symbol) return false;
    memcpy(symbols[i].to, &symbol, sizeof(symbol));
  }
  return true;
}

int fs_screen_open(void) {
  if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO)) {
    fs_say("top: standard input and output must be a terminal: use fs-launch stats");
    return 1;
  }
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  struct window **standard = library ? dlsym(library, "stdscr") : NULL;
  if (!standard || !load(library)) {
    fs_say("top needs " LIBRARY ": install the package " PACKAGE " (Debian), or use fs-launch stats");
    return 1;
  }
  setlocale(LC_CTYPE, "");
  const char *type = getenv("TERM");
  screen = nc.newterm(NULL, stdout, stdin);
  window = screen ? *standard : NULL;
  if (!window) {
    fs_say("top: terminals of type '%s' are not known here: set TERM, or use fs-launch stats", type ? type : "");
    return 1;
  }
  nc.cbreak();
  nc.noecho();
  nc.curs_set(0);
  nc.keypad(window, true);
  return 0;
}

void fs_screen_close(void) {
  if (!screen) return;
  nc.endwin();
  nc.delscreen(screen);
  screen = NULL;
}

void fs_screen_size(int *rows, int *columns) {
  *rows = nc.getmaxy(window);
  *columns = nc.getmaxx(window);
}

void fs_screen_clear(void) {
  nc.werase(window);
}

void fs_screen_text(int row, int column, int width, enum fs_screen_style style, const char *text) {
  char line[512];
  int rows, columns, n = 0;
  fs_screen_size(&rows, &columns);
  width = FS_MIN(FS_MIN(width, columns - column), (int)sizeof(line));
  if (row < 0 || row >= rows || column < 0 || width <= 0) return;
  for (; n < width && text[n] != '\0'; n++) line[n] = text[n];
  for (int i = 0; i < n; i++)
    if (line[i] < 0x20 || line[i] > 0x7e) line[i] = '?';
  if (style == FS_SCREEN_REVERSE && n < width) {
    memset(line + n, ' ', (size_t)(width - n));
    n = width;
  }
  nc.wattrset(window, style == FS_SCREEN_REVERSE ? ATTR_REVERSE : style == FS_SCREEN_BOLD ? ATTR_BOLD : 0);
  nc.wmove(window, row, column);
  nc.waddnstr(window, line, n);
  nc.wattrset(window, 0);
}

void fs_screen_show(void) {
  nc.wrefresh(window);
}

int fs_screen_key(int wait_ms) {
  nc.wtimeout(window, wait_ms);
  return nc.wgetch(window);
}
