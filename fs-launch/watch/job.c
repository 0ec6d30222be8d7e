/* SPDX-License-Identifier: BSD-3-Clause */
/* What the watching commands share: reading a job's live file, waiting for the next one, and ends by
   signals. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "watch.h"

#define FS_WATCH_LATE_NS FS_NS_PER_S /* wait so long for a live file that is late */
#define FS_WATCH_POLL_US 20000

static volatile sig_atomic_t ending;

static void on_signal(int sig) {
  ending = sig;
}

void fs_watch_signals(void) {
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  struct sigaction old, act = {.sa_handler = on_signal};
  for (size_t i = 0; i < FS_ARRAY_LEN(signals); i++)
    if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(signals[i], &act, NULL);
}

int fs_watch_signal(void) {
  return ending;
}

void fs_watch_die(void) {
  if (ending == 0) return;
  signal(ending, SIG_DFL);
  raise(ending);
}

int fs_watch_read(const struct fs_job *job, struct fs_view *l) {
  fs_err err = fs_view_read(job->run, l);
  if (err == 0 || err == -ENOENT) {
    if (!fs_run_held(job->run)) {
      fs_view_free(l);
      return FS_WATCH_ENDED;
    }
  }
  return err == -ENOENT ? -EAGAIN : err;
}

int fs_watch_step(const struct fs_job *job, struct fs_watch *w) {
  struct fs_view l;
  int err = fs_watch_read(job, &l);
  if (err == 0) err = fs_watch_take(w, &l, fs_now_ns());
  fs_view_free(&l);
  return err;
}

static uint64_t inode_of(const struct fs_job *job) {
  char path[PATH_MAX + 16];
  struct stat st;
  snprintf(path, sizeof(path), "%s/" FS_VIEW_NAME, job->run);
  if (lstat(path, &st) < 0) return 0;
  return (uint64_t)st.st_ino ^ (uint64_t)fs_mtime_ns(&st); /* a freed inode may come back */
}

void fs_watch_wait(const struct fs_job *job, uint64_t until_ns, uint64_t *seen) {
  uint64_t now, file = *seen;
  while ((now = fs_now_ns()) < until_ns && ending == 0) {
    uint64_t left = FS_MIN(until_ns - now, FS_NS_PER_S / 2) + 1000;
    usleep((useconds_t)(left / 1000));
  }
  while ((file = inode_of(job)) == *seen && fs_now_ns() < until_ns + FS_WATCH_LATE_NS && ending == 0)
    usleep(FS_WATCH_POLL_US);
  *seen = file;
}

int fs_watch_failed(const struct fs_job *job, int err) {
  fs_say("%s/" FS_VIEW_NAME ": %s", job->run,
         err == -EINVAL ? "this is no live file that this fs-launch knows" : strerror(-err));
  return FS_EXIT_FAILED;
}
