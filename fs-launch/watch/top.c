/* SPDX-License-Identifier: BSD-3-Clause */
/* fs-launch top: the nodes of a running job on the whole terminal. It reads the live file once a
   second, and a key at once. */
#include <stdlib.h>
#include <string.h>

#include "screen.h"
#include "top.h"

#define FS_TOP_LOOK_MS 1000
#define FS_TOP_KEY_MS 100 /* a signal is seen after so long */

static void scroll_rows(struct fs_top *t, int64_t by) {
  int64_t row = (int64_t)t->row + by;
  t->row = row < 0 ? 0 : (uint32_t)row; /* fs_top_draw bounds it at the end */
}

/* Returns false if the key ends the command. */
static bool on_key(struct fs_top *t, int key) {
  if (key == 'q') return false;
  if (fs_top_sorts(key)) t->sort = (char)key;
  if (key == 'r') t->reverse = !t->reverse;
  if (key == FS_KEY_UP) scroll_rows(t, -1);
  if (key == FS_KEY_DOWN) scroll_rows(t, 1);
  if (key == FS_KEY_PGUP) scroll_rows(t, -t->page);
  if (key == FS_KEY_PGDN) scroll_rows(t, t->page);
  if (key == FS_KEY_HOME) t->row = t->column = 0;
  if (key == FS_KEY_END) scroll_rows(t, FS_MAX_NODES);
  if (key == FS_KEY_LEFT && t->column > 0) t->column--;
  if (key == FS_KEY_RIGHT && t->column + 1 < fs_top_columns()) t->column++;
  return true;
}

/* Reads the live file. Returns what fs_watch_step does. */
static int look(const struct fs_job *job, struct fs_watch *w, struct fs_top *t) {
  int err = fs_watch_step(job, w);
  if (err != 0) return err;
  uint32_t *order = realloc(t->order, (w->view.nodes + 1) * sizeof(*order));
  if (!order) return -ENOMEM;
  t->order = order;
  return 0;
}

/* Returns 0 at q or a signal, FS_WATCH_ENDED at the job's end, or a negative errno. */
static int loop(const struct fs_job *job, struct fs_watch *w, struct fs_top *t) {
  int err = look(job, w, t);
  for (uint64_t next = fs_now_ns(); err == 0 || err == -EAGAIN;) {
    if (fs_now_ns() >= next) {
      next += FS_TOP_LOOK_MS * 1000000ull;
      next = FS_MAX(next, fs_now_ns());
      err = look(job, w, t);
      if (err != 0 && err != -EAGAIN) return err;
    }
    if (t->order) fs_top_draw(t);
    int key = fs_screen_key(FS_TOP_KEY_MS);
    if (fs_watch_signal() != 0 || (key != FS_KEY_NONE && !on_key(t, key))) return 0;
  }
  return err;
}

int fs_watch_top(int argc, char **argv) {
  struct fs_watch_options o = {0};
  struct fs_watch w = {0};
  struct fs_top t = {.watch = &w, .sort = 'n'};
  struct fs_job job;
  int status = fs_watch_options_top(&o, argc, argv);
  if (status >= 0) return status;
  status = fs_jobs_find(o.job, &job);
  if (status != 0) return status;
  fs_watch_signals();
  status = fs_screen_open();
  if (status != 0) return status;
  int err = loop(&job, &w, &t);
  fs_screen_close();
  if (err == FS_WATCH_ENDED) fs_say("%s has ended", job.name);
  free(t.order);
  fs_watch_free(&w);
  fs_watch_die();
  return err < 0 ? fs_watch_failed(&job, err) : 0;
}
