/* SPDX-License-Identifier: BSD-3-Clause */
/* fs-launch jobs: a table of this user's live jobs on this host. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "watch.h"

size_t fs_watch_width(void) {
  struct winsize w;
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : SIZE_MAX;
}

static void row(const struct fs_job *job, const struct fs_view *l, size_t name_width, size_t columns) {
  char name[1024], command[4 * FS_CONTROL_LINE], age[FS_SHOW], nodes[FS_SHOW] = "-";
  if (l->job[0] != '\0') snprintf(nodes, sizeof(nodes), "%u", l->nodes);
  fs_show_text(job->name, SIZE_MAX, name, sizeof(name));
  int n = printf("%-*s  %-9s  %11s  %5s", (int)name_width, name, l->job[0] ? fs_view_state_name[l->state] : "-",
                 fs_show_age(fs_clock_ns(CLOCK_REALTIME) / 1000000, l->started_ms, age), nodes);
  size_t left = n > 0 && columns > (size_t)n + 2 ? columns - (size_t)n - 2 : 0;
  printf("  %s\n", fs_show_text(l->command ? l->command : "-", left, command, sizeof(command)));
}

static void table(const struct fs_job *job, const struct fs_view *l, size_t n) {
  size_t name_width = strlen("JOB"), columns = fs_watch_width();
  for (size_t i = 0; i < n; i++) name_width = FS_MAX(name_width, strlen(job[i].name));
  name_width = FS_MIN(name_width, 1000);
  if (n > 0) printf("%-*s  %-9s  %11s  %5s  %s\n", (int)name_width, "JOB", "STATE", "AGE", "NODES", "COMMAND");
  for (size_t i = 0; i < n; i++) row(&job[i], &l[i], name_width, columns);
}

static void json_one(const struct fs_job *job, const struct fs_view *l) {
  fputs("{\"job\": ", stdout);
  fs_json_string(stdout, job->name);
  fputs(", \"run\": ", stdout);
  fs_json_string(stdout, job->run);
  printf(", \"pid\": %d", (int)job->launcher);
  if (l->job[0] != '\0') {
    printf(", \"state\": \"%s\", \"nodes\": %u, \"started_ms\": %llu, \"user\": ", fs_view_state_name[l->state],
           l->nodes, (unsigned long long)l->started_ms);
    fs_json_string(stdout, l->user);
    fputs(", \"command\": ", stdout);
    fs_json_string(stdout, l->command);
  }
  putchar('}');
}

static void json(const struct fs_job *job, const struct fs_view *l, size_t n) {
  putchar('[');
  for (size_t i = 0; i < n; i++) {
    fputs(i > 0 ? ",\n " : "\n ", stdout);
    json_one(&job[i], &l[i]);
  }
  puts(n > 0 ? "\n]" : "]");
}

int fs_watch_jobs(int argc, char **argv) {
  struct fs_watch_options o = {0};
  FS_AUTO_FREE struct fs_job *job = NULL;
  int status = fs_watch_options_jobs(&o, argc, argv);
  if (status >= 0) return status;
  size_t n = fs_jobs_list(&job);
  FS_AUTO_FREE struct fs_view *l = calloc(n + 1, sizeof(*l));
  for (size_t i = 0; l && i < n; i++) (void)fs_view_read(job[i].run, &l[i]);
  if (!l) return fs_say("out of memory"), FS_EXIT_FAILED;
  if (n == 0 && !o.json) fs_say("you have no job on this host");
  if (o.json)
    json(job, l, n);
  else
    table(job, l, n);
  for (size_t i = 0; i < n; i++) fs_view_free(&l[i]);
  if (fflush(stdout) == 0) return 0;
  fs_say("standard output: %s", strerror(errno));
  return FS_EXIT_FAILED;
}
