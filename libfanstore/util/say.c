/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints the tools' messages and progress bar (say.h). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "util/say.h"
#include "util/util.h"

#define FS_BAR_NS 100000000ull
#define FS_LINE_NS 60000000000ull
#define FS_PROGRESS_ENV "FANSTORE_TEST_PROGRESS_MS" /* for tests: replaces FS_LINE_NS */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *name = "fanstore";
static bool bar_on_screen, by_lines;
static unsigned lost; /* lines */

void fs_say_as(const char *program) {
  name = program;
}

static _Atomic int tty = -1; /* -1: not known */

void fs_say_to(int fd) {
  pthread_mutex_lock(&lock);
  dup2(fd, STDERR_FILENO);
  bar_on_screen = false;
  tty = -1;
  pthread_mutex_unlock(&lock);
}

bool fs_bar_shown(void) {
  if (tty < 0) tty = isatty(STDERR_FILENO) ? 1 : 0;
  return tty == 1;
}

/* Returns how many bytes of a bar fit into the terminal's line. */
static int bar_width(void) {
  struct winsize ws;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &ws) == 0 && ws.ws_col > 20 ? ws.ws_col - 1 : 79;
}

void fs_bar_by_lines(void) {
  by_lines = true;
  tty = 1;
}

static void bar_locked(const char *text) {
  if (!fs_bar_shown() || (!text && !bar_on_screen)) return;
  if (by_lines)
    fprintf(stderr, FS_BAR_LINE "%s\n", text ? text : "");
  else
    fprintf(stderr, "\r\033[K%.*s", bar_width(), text ? text : "");
  fflush(stderr);
  bar_on_screen = text != NULL;
}

void fs_bar(const char *text) {
  pthread_mutex_lock(&lock);
  bar_locked(text);
  pthread_mutex_unlock(&lock);
}

uint64_t fs_progress_every(void) {
  const char *test = getenv(FS_PROGRESS_ENV);
  uint64_t ms;
  if (fs_bar_shown()) return FS_BAR_NS;
  return test && fs_parse_u64(test, 1, 60000, &ms) == 0 ? ms * 1000000ull : FS_LINE_NS;
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

char *fs_vline(char *out, size_t size, const char *format, va_list ap) {
  char raw[FS_SAY_LINE];
  vsnprintf(raw, sizeof(raw), format, ap);
  return fs_one_line(raw, out, size);
}

void fs_say(const char *format, ...) {
  char line[FS_SAY_LINE];
  va_list ap;
  va_start(ap, format);
  fs_vline(line, sizeof(line), format, ap);
  va_end(ap);
  pthread_mutex_lock(&lock);
  bar_locked(NULL);
  if (fprintf(stderr, "%s: %s\n", name, line) < 0) {
    lost++;
    clearerr(stderr);
  }
  pthread_mutex_unlock(&lock);
}

unsigned fs_say_lost(void) {
  pthread_mutex_lock(&lock);
  unsigned n = lost;
  pthread_mutex_unlock(&lock);
  return n;
}
