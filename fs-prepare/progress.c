/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that tells how far a command is (progress.h). It reads the counters ten times a second.
   It alone writes to the JSON file. */
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "progress.h"

#define SECOND 1000000000ull
#define LOOK (SECOND / 10)
#define HANGS (8 * SECOND / 10) /* after a signal */
#define BAR 20
/* A file costs as much time as this many of its bytes: opening, checking and placing it. */
#define FILE_COST (16u << 10)

static volatile sig_atomic_t asked; /* by SIGUSR1 */

static const struct {
  const char *name, *doing;
  bool counts; /* it begins with new counts; others keep those of the stage before */
} stages[] = {
    [FS_STAGE_LIST] = {"list", "listing", true},       [FS_STAGE_COMPARE] = {"compare", "comparing large files", false},
    [FS_STAGE_PACK] = {"pack", "packing", true},       [FS_STAGE_INDEX] = {"index", "making the index", false},
    [FS_STAGE_SYNC] = {"sync", "syncing", false},      [FS_STAGE_VERIFY] = {"verify", "verifying", true},
    [FS_STAGE_REPAIR] = {"repair", "repairing", true}, [FS_STAGE_UNPACK] = {"unpack", "unpacking", true},
    [FS_STAGE_DONE] = {"done", "done", false},         [FS_STAGE_FAILED] = {"failed", "failed", false},
};

/* One look at the counters, and what follows from it. */
struct look {
  uint64_t ns, names, files, files_all, bytes, bytes_all, stored, left_out;
  int stage;
  double part;                 /* of the stage's work, 0 to 1; negative: not known */
  double smaller;              /* times */
  double byte_rate, file_rate; /* of the last seconds */
  double left;                 /* seconds; negative: not known */
};

static void on_usr1(int sig) {
  (void)sig;
  asked = 1;
}

static void guess(const struct fs_progress *p, struct look *l) {
  double all = (double)l->bytes_all + (double)l->files_all * FILE_COST;
  double is = (double)l->bytes + (double)l->files * FILE_COST, took = (double)(l->ns - p->stage_ns) / 1e9;
  double old = (double)p->old_bytes + (double)p->old_files * FILE_COST;
  l->part = stages[l->stage].counts && all > 0 ? FS_MIN(is / all, 1.0) : -1;
  l->left = all > old && is - old > 0.001 * (all - old) && took > 1 ? took * FS_MAX(all - is, 0) / (is - old) : -1;
  l->smaller = fs_times_smaller(l->bytes, l->stored);
}

static void rate(const struct fs_progress *p, struct look *l) {
  uint64_t ns = p->stage_ns, files = p->old_files, bytes = p->old_bytes;
  if (p->samples != 0) { /* the oldest that is kept */
    uint64_t i = p->samples > FS_RATE_SECONDS ? p->samples % FS_RATE_SECONDS : 0;
    ns = p->sample[i].ns;
    files = p->sample[i].files;
    bytes = p->sample[i].bytes;
  }
  double seconds = (double)(l->ns - FS_MIN(ns, l->ns)) / 1e9;
  if (seconds < 0.001) return;
  l->byte_rate = (double)(l->bytes - FS_MIN(bytes, l->bytes)) / seconds;
  l->file_rate = (double)(l->files - FS_MIN(files, l->files)) / seconds;
}

static struct look look(const struct fs_progress *p) {
  const struct fs_counts *c = &p->now;
  struct look l = {.ns = fs_now_ns(), .stage = p->stage};
  l.names = c->names;
  l.files = c->files;
  l.files_all = c->files_all;
  l.bytes = c->bytes;
  l.bytes_all = c->bytes_all;
  l.stored = c->stored;
  l.left_out = c->left_out;
  guess(p, &l);
  rate(p, &l);
  return l;
}

static void keep_sample(struct fs_progress *p, const struct look *l) {
  uint64_t i = p->samples % FS_RATE_SECONDS;
  p->sample[i].ns = l->ns;
  p->sample[i].files = l->files;
  p->sample[i].bytes = l->bytes;
  p->samples++;
}

static const char *duration(char *out, size_t size, double left) {
  unsigned s = left >= 0 && left < 360000 ? (unsigned)(left + 0.5) : 0;
  if (left < 0 || left >= 360000)
    snprintf(out, size, "--:--");
  else if (s >= 3600)
    snprintf(out, size, "%u:%02u:%02u", s / 3600, s / 60 % 60, s % 60);
  else
    snprintf(out, size, "%u:%02u", s / 60, s % 60);
  return out;
}

/* Writes ", slowest: node 3 (host), 12 MB/s", or nothing. */
static void slowest(const struct fs_slowest *s, char *out, size_t size) {
  const char *host = s->host;
  char rate[32] = "its disk";
  out[0] = '\0';
  if (host == NULL) return;
  if (!s->writes) snprintf(rate, sizeof rate, "%.0f MB/s", (double)s->rate / 1e6);
  snprintf(out, size, ", slowest: node %u (%.64s), %s", (unsigned)s->node, host, rate);
}

static void show_counts(const struct fs_progress *p, const struct look *l) {
  char left[24], is[32], all[32], smaller[40] = "", slow[128] = "", bar[BAR + 1];
  fs_format_size(l->bytes, is, sizeof is);
  fs_format_size(l->bytes_all, all, sizeof all);
  if (l->stage == FS_STAGE_PACK) snprintf(smaller, sizeof smaller, ", %.2f times smaller", l->smaller);
  if (l->stage == FS_STAGE_PACK) slowest(&p->slowest, slow, sizeof slow);
  memset(bar, ' ', BAR);
  memset(bar, '=', (size_t)(l->part * BAR));
  bar[BAR] = '\0';
  duration(left, sizeof left, l->left);
  if (fs_bar_shown()) /* what a narrow terminal cuts off comes last */
    fs_progress("[%s] %3d%%  ETA %s  %.0f MB/s  %" PRIu64 "/%" PRIu64 " file%s  %s/%s%s%s", bar, (int)(l->part * 100),
                left, l->byte_rate / 1e6, l->files, l->files_all, fs_plural(l->files_all), is, all, slow, smaller);
  else
    fs_progress("%s: %d%%, %" PRIu64 " of %" PRIu64 " file%s, %s of %s%s, %.0f MB/s, %s left%s", stages[l->stage].doing,
                (int)(l->part * 100), l->files, l->files_all, fs_plural(l->files_all), is, all, smaller,
                l->byte_rate / 1e6, left, slow);
}

static void show(const struct fs_progress *p, const struct look *l) {
  if (l->stage == FS_STAGE_LIST)
    fs_progress("listing: %" PRIu64 " name%s", l->names, fs_plural(l->names));
  else if (l->part >= 0)
    show_counts(p, l);
  else
    fs_progress("%s", stages[l->stage].doing);
}

/* If FILE is a pipe that nobody empties, the object is lost. */
static void write_json(const struct fs_progress *p, const struct look *l) {
  char line[1024], left[32] = "null", slow[300] = "\"slowest_node\": null";
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  if (l->left >= 0) snprintf(left, sizeof left, "%.1f", l->left);
  if (p->slowest.host != NULL && l->stage == FS_STAGE_PACK)
    snprintf(slow, sizeof slow,
             "\"slowest_node\": {\"node\": %u, \"host\": \"%s\", \"bytes_per_second\": %" PRIu64 ", \"writes\": %s}",
             (unsigned)p->slowest.node, p->slowest.host, (uint64_t)p->slowest.rate,
             p->slowest.writes ? "true" : "false");
  int n = snprintf(line, sizeof line,
                   "{\"time\": %lld.%03ld, \"seconds\": %.1f, \"stage\": \"%s\", \"names\": %" PRIu64
                   ", \"files\": %" PRIu64 ", \"files_all\": %" PRIu64 ", \"bytes\": %" PRIu64
                   ", \"bytes_all\": %" PRIu64 ", \"stored_bytes\": %" PRIu64 ", \"left_out\": %" PRIu64
                   ", \"files_per_second\": %.1f, \"bytes_per_second\": %.0f, \"seconds_left\": %s, %s}\n",
                   (long long)time.tv_sec, time.tv_nsec / 1000000, (double)(l->ns - p->start_ns) / 1e9,
                   stages[l->stage].name, l->names, l->files, l->files_all, l->bytes, l->bytes_all, l->stored,
                   l->left_out, l->file_rate, l->byte_rate, left, slow);
  fs_write_full(p->json, line, (uint64_t)n);
}

/* Shows what is due. A new stage is shown at once on a terminal only. */
static void tell(struct fs_progress *p) {
  struct look l = look(p);
  bool quiet = p->json == STDERR_FILENO, changed = l.stage != p->shown_stage;
  bool due = l.ns - p->shown_ns >= fs_progress_every() || (changed && fs_bar_shown());
  if (changed) p->samples = 0;
  p->shown_stage = l.stage;
  if (asked != 0 && !fs_bar_shown()) due = true;
  if (due && (!quiet || asked != 0)) show(p, &l);
  if (due) p->shown_ns = l.ns;
  asked = 0;
  if (l.ns - p->json_ns < FS_MIN(SECOND, fs_progress_every()) && !changed) return;
  keep_sample(p, &l);
  p->json_ns = l.ns;
  if (p->json >= 0) write_json(p, &l);
}

/* Takes signals of the process, which the main thread does not get while it hangs. */
static void wait_a_while(const struct fs_progress *p) {
  const struct timespec time = {.tv_nsec = (long)LOOK};
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  if (p->hangs != NULL) {
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
  }
  int sig = sigtimedwait(&set, NULL, &time);
  if (sig == SIGUSR1) asked = 1;
  if (sig > 0 && sig != SIGUSR1 && fs_prep_signal == 0) fs_prep_signal = sig;
}

static void look_at_signal(struct fs_progress *p) {
  uint64_t now = fs_now_ns();
  if (fs_prep_signal == 0 || p->hangs == NULL) return;
  if (p->signal_ns == 0) p->signal_ns = now;
  if (now - p->signal_ns >= HANGS) p->hangs(p->ctx);
}

static void *run(void *arg) {
  struct fs_progress *p = arg;
  for (;;) {
    wait_a_while(p);
    if (p->stop) return NULL;
    tell(p);
    look_at_signal(p);
  }
}

static fs_err open_json(struct fs_progress *p, const char *json) {
  p->json = -1;
  if (json == NULL) return 0;
  if (strcmp(json, "-") == 0) {
    p->json = STDERR_FILENO;
    return 0;
  }
  int flags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  p->json = fs_sys_openat(AT_FDCWD, json, flags, 0666);
  if (p->json < 0)
    fs_say("--json-progress '%s': cannot be opened: %s", json,
           p->json == -ENXIO ? "nothing reads from it" : strerror(-p->json));
  return p->json < 0 ? p->json : 0;
}

fs_err fs_progress_start(struct fs_progress *p, const char *json) {
  struct sigaction sa = {.sa_handler = on_usr1, .sa_flags = SA_RESTART};
  fs_err err = open_json(p, json);
  if (err < 0) return err;
  p->start_ns = p->shown_ns = p->json_ns = fs_now_ns();
  p->stage_ns = p->start_ns;
  sigemptyset(&sa.sa_mask);
  sigaction(SIGUSR1, &sa, NULL);
  p->started = fs_prep_thread(&p->thread, run, p); /* it takes signals by sigtimedwait; without it nothing is told */
  return 0;
}

void fs_progress_stage(struct fs_progress *p, enum fs_stage stage, uint64_t files, uint64_t bytes) {
  if (stages[stage].counts) {
    p->now.files_all = files;
    p->now.bytes_all = bytes;
    p->now.files = p->now.bytes = 0;
  }
  p->old_files = p->now.files;
  p->old_bytes = p->now.bytes;
  p->stage_ns = fs_now_ns();
  p->stage = stage;
}

void fs_progress_resume(struct fs_progress *p, uint64_t files, uint64_t bytes) {
  p->old_files = files;
  p->old_bytes = bytes;
  p->now.files += files;
  p->now.bytes += bytes;
}

void fs_progress_stop(struct fs_progress *p, bool done) {
  if (!p->started) return;
  p->stop = true;
  pthread_kill(p->thread, SIGUSR1);
  pthread_join(p->thread, NULL);
  p->started = false;
  fs_bar(NULL);
  p->stage = done ? FS_STAGE_DONE : FS_STAGE_FAILED;
  struct look l = look(p);
  l.left = 0;
  if (p->json >= 0) write_json(p, &l);
  if (p->json > STDERR_FILENO) close(p->json);
  p->json = -1;
}
