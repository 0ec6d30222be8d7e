/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of fs-launch replay. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../launch.h"
#include "replay.h"

enum { O_SPEED = 1, O_DIR, O_LIST, O_SAVE, O_MAKE, O_NO_NAMES, O_HELP, O_VERSION };

static const struct fs_opt opts[] = {
    {"speed", 0, "X", "divide the pauses between calls by X (default 1), or 'max': no pauses", O_SPEED},
    {"dir", 0, "DIR", "read below DIR instead of the mounts of the trace", O_DIR},
    {"list", 0, NULL, "print the calls, one a line", O_LIST},
    {"save", 0, "FILE", "join the trace to one new file", O_SAVE},
    {"no-names", 0, NULL, "with --save: replace names by numbers", O_NO_NAMES},
    {"make", 0, "DIR", "make the files of the trace in DIR, with random bytes", O_MAKE},
    {"help", 'h', NULL, "show this help", O_HELP},
    {"version", 0, NULL, "show the version", O_VERSION}};

struct wanted {
  const char *dir, *save, *make;
  double speed;
  bool list, no_names;
};

static void help(void) {
  printf("usage: fs-launch replay [options] TRACE...\n\n"
         "Make the calls of a trace again, and compare how long they take. A program that runs with\n"
         "FANSTORE_TRACE=FILE in its environment writes a trace of its calls below the mounts: each of its\n"
         "processes a file FILE.HOST.PID. TRACE is one such file, or FILE for all of them.\n\nOptions:\n");
  fs_opt_help(stdout, opts, FS_ARRAY_LEN(opts));
}

static fs_err set_speed(const char *value, double *speed) {
  char *end = NULL;
  *speed = strtod(value, &end);
  if (*value && end && *end == '\0' && *speed >= 0.001 && *speed <= 1000) return 0;
  *speed = 0;
  if (strcmp(value, "max") == 0) return 0;
  return fs_option_bad("speed", value, "a number from 0.001 to 1000, or 'max'");
}

static fs_err on_option(void *ctx, int id, const char *value) {
  struct wanted *w = ctx;
  if (id == O_HELP || id == O_VERSION) fs_option_answer(id == O_HELP ? help : NULL);
  if (id == O_SPEED) return set_speed(value, &w->speed);
  if (id == O_LIST) w->list = true;
  if (id == O_NO_NAMES) w->no_names = true;
  if (id == O_DIR) w->dir = value;
  if (id == O_SAVE) w->save = value;
  if (id == O_MAKE) w->make = value;
  return 0;
}

int fs_replay(int argc, char **argv) {
  struct wanted w = {.speed = 1};
  struct fs_trace_set set = {0};
  int next = fs_opt_parse("fs-launch replay", opts, FS_ARRAY_LEN(opts), argc, argv, 1, true, on_option, &w);
  if (next < 0) return FS_EXIT_USAGE;
  if (next >= argc || w.list + (w.save != NULL) + (w.make != NULL) > 1 || (w.no_names && !w.save)) {
    fs_say("%s (see fs-launch replay --help)", next >= argc            ? "TRACE is missing"
                                               : w.no_names && !w.save ? "--no-names: give --save with it"
                                                                       : "--list, --save and --make: give one of them");
    return FS_EXIT_USAGE;
  }
  int status = 0;
  for (int i = next; status == 0 && i < argc; i++) status = fs_trace_read(&set, argv[i]);
  if (status != 0) return status;
  if (set.cut > 0)
    fs_say("%llu process%s of the trace ended without a word; the trace has what they did before",
           (unsigned long long)set.cut, set.cut == 1 ? "" : "es");
  if (set.lost > 0)
    fs_say("%llu call%s not in the trace: it had no room", (unsigned long long)set.lost,
           set.lost == 1 ? " is" : "s are");
  return w.list   ? fs_replay_list(&set)
         : w.save ? fs_replay_save(&set, w.save, w.no_names)
         : w.make ? fs_replay_make(&set, w.make)
                  : fs_replay_play(&set, w.speed, w.dir);
}
