/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the job is doing now, for others: the file `live` in the run directory, and the lines of
 * --stats on stderr. docs/internals/live.md describes both. events.c calls this in each of its
 * waits. Nothing here ends the job: if the file cannot be written, nobody looks.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "launch.h"

#define FS_LIVE_NS FS_NS_PER_S
#define FS_LIVE_LATE_NS (FS_NS_PER_S / 3)
#define FS_LIVE_SHARE 20u  /* at most one part in so many of the time goes into the file */
#define FS_LIVE_TEXT 1000u /* bytes of COMMAND, or of a warning */

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- the file ---- */

/* Writes the beginning of the text, escaped as in ipc/control.h. Returns how much room is left. */
static size_t put_escaped(FILE *out, const char *text, size_t room) {
  for (; *text != '\0' && room > 0; text++, room--) {
    unsigned char c = (unsigned char)*text;
    if (c > 0x20 && c != 0x7f && c != '%')
      fputc(c, out);
    else
      fprintf(out, "%%%02X", c);
  }
  return room;
}

static const char *state_name(const struct fs_launch *l) {
  bool staging = false, ready = true;
  for (uint32_t i = 0; i < l->nodes; i++) {
    staging = staging || l->node[i].stage_total > 0;
    ready = ready && l->node[i].ready;
  }
  if (l->begun || l->stopping) return l->begun && !l->command_ended ? "running" : "finishing";
  return staging && !ready ? "staging" : "starting";
}

static void put_job(const struct fs_launch *l, FILE *out) {
  size_t room = FS_LIVE_TEXT;
  fprintf(out, "job %s pid=%d user=%u started=%" PRIu64 " state=%s nodes=%u command=", l->job, (int)getpid(),
          (unsigned)geteuid(), now_ms() - (fs_now_ns() - l->live.since_ns) / 1000000, state_name(l), l->nodes);
  for (char **word = l->opt.command; word && *word && room > 0; word++) {
    if (word > l->opt.command) room = put_escaped(out, " ", room);
    room = put_escaped(out, *word, room);
  }
  fputc('\n', out);
}

static void put_progress(const struct fs_launch *l, FILE *out) {
  uint64_t done = 0, total = 0;
  for (uint32_t i = 0; i < l->nodes; i++) {
    done += l->node[i].stage_done;
    total += l->node[i].stage_total;
  }
  if (total > 0 && !l->begun) fprintf(out, "progress done=%" PRIu64 " total=%" PRIu64 "\n", done, total);
}

static void put_latency(FILE *out, uint32_t rank, unsigned kind, const struct fs_latency *h) {
  char counts[FS_LATENCY_BUCKETS * 26];
  unsigned from = 0;
  (void)fs_latency_text(h, &from, counts, sizeof(counts));
  fprintf(out,
          "latency %u %s %s n=%" PRIu64 " p50=%" PRIu64 " p90=%" PRIu64 " p99=%" PRIu64 " max=%" PRIu64 " counts=%s\n",
          rank, fs_latency_op_name(kind / FS_LATENCY_PLACES), fs_latency_place_name(kind % FS_LATENCY_PLACES),
          fs_latency_total(h), fs_latency_percentile(h, 500), fs_latency_percentile(h, 900),
          fs_latency_percentile(h, 990), fs_latency_percentile(h, 1000), counts);
}

static void put_node(const struct fs_launch_node *n, uint32_t rank, FILE *out) {
  const struct fs_sample_history *h = &n->history;
  fprintf(out, "node %u host=", rank);
  put_escaped(out, n->host, sizeof(n->host));
  fprintf(out, " ms=%" PRIu64, h->samples > 0 ? h->sample[h->samples - 1].ms : 0);
  for (unsigned k = 0; k < h->last.n; k++) {
    const char *key = h->last.at[k].key;
    fprintf(out, " %s=%" PRIu64, key, n->dead && fs_sample_is_gauge(key) ? 0 : h->last.at[k].value);
  }
  fputc('\n', out);
  for (unsigned kind = 0; kind < FS_LATENCY_KINDS; kind++)
    if (h->latency[kind]) put_latency(out, rank, kind, h->latency[kind]);
}

/* Files are named only here, so that few of the names are looked for. */
static void put_files(const struct fs_launch *l, FILE *out) {
  struct fs_waited_file file[FS_WAITS_SHOWN];
  char path[2 * PATH_MAX];
  unsigned n = l->node && l->begun ? fs_waits_busy(l, file) : 0;
  for (unsigned i = 0; i < n; i++) {
    const struct fs_waited_file *f = &file[i];
    if (fs_waits_path(l, f, path, sizeof(path)) < 0) continue;
    fprintf(out, "busy %s node=%u reads=%" PRIu64 " bytes=%" PRIu64 " us=%" PRIu64 " longest_us=%" PRIu64 " path=",
            fs_latency_place_name(f->place), f->node, f->reads, f->bytes, f->us, f->longest_us);
    put_escaped(out, path, FS_LIVE_TEXT);
    fputc('\n', out);
  }
}

static void put_all(const struct fs_launch *l, FILE *out) {
  fputs("fanstore-live 1\n", out);
  put_job(l, out);
  put_progress(l, out);
  for (uint32_t i = 0; l->node && i < l->nodes; i++) put_node(&l->node[i], i, out);
  put_files(l, out);
  for (unsigned i = 0; i < l->warnings; i++) {
    fputs("warning ", out);
    put_escaped(out, l->warning[i], FS_LIVE_TEXT);
    fputc('\n', out);
  }
}

/* Replaces the file, so that a reader sees a whole one. */
static void write_file(const struct fs_launch *l) {
  char path[PATH_MAX + 16], whole[PATH_MAX + 16];
  snprintf(whole, sizeof(whole), "%s/live", l->run);
  snprintf(path, sizeof(path), "%s/live.new", l->run);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
  if (!out) {
    if (fd >= 0) close(fd);
    return;
  }
  put_all(l, out);
  bool bad = fflush(out) != 0;
  bad = fclose(out) != 0 || bad;
  if (bad || rename(path, whole) < 0) (void)unlink(path);
}

/* ---- --stats ---- */

static void add_node(struct fs_live_totals *t, const struct fs_launch_node *n) {
  static const char *const files[] = {"files_local", "files_cache", "files_remote", "files_shared"};
  static const char *const bytes[] = {"bytes_local", "bytes_cache", "bytes_remote", "bytes_shared"};
  const struct fs_sample_values *v = &n->history.last;
  for (unsigned p = 0; p < FS_PLACE_COUNT; p++) {
    t->files += fs_sample_get(v, files[p]);
    t->bytes[p] += fs_sample_get(v, bytes[p]);
  }
  t->wait_ms += fs_sample_get(v, "wait_ms");
  t->outputs += fs_sample_get(v, "outputs");
  t->written += fs_sample_get(v, "output_written");
  if (!n->dead) t->processes += fs_sample_get(v, "processes");
}

/* How much a sum has grown. What nodes report is not trusted to grow. */
static uint64_t grown(uint64_t now, uint64_t before) {
  return now > before ? now - before : 0;
}

static double percent(uint64_t part, uint64_t of) {
  return of > 0 ? FS_MIN((double)part * 100 / (double)of, 100.0) : 0;
}

/* A number with a comma for each thousand. */
static char *grouped(uint64_t n, char *out, size_t size) {
  char digits[24];
  int len = snprintf(digits, sizeof(digits), "%" PRIu64, n);
  size_t at = 0;
  for (int i = 0; i < len && at + 2 < size; i++) {
    out[at++] = digits[i];
    if (i + 1 < len && (len - 1 - i) % 3 == 0) out[at++] = ',';
  }
  out[at] = '\0';
  return out;
}

static void say_stats(struct fs_launch *l, double seconds) {
  struct fs_live_totals now = {0}, last = l->live.last;
  char clock[16] = "", files[40];
  time_t t = time(NULL);
  struct tm tm;
  uint64_t bytes[FS_PLACE_COUNT], all = 0;
  if (localtime_r(&t, &tm)) strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
  for (uint32_t i = 0; i < l->nodes; i++) add_node(&now, &l->node[i]);
  l->live.last = now;
  for (unsigned p = 0; p < FS_PLACE_COUNT; p++) all += bytes[p] = grown(now.bytes[p], last.bytes[p]);
  uint64_t processes = FS_MAX(FS_MAX(now.processes, last.processes), (uint64_t)1);
  fs_say("%s %s files/s %.0f MB/s: local %.0f %%, cache %.0f %%, remote %.0f %%, shared %.0f %%; waited %.0f %%; "
         "outputs %llu files, %.1f MB/s",
         clock, grouped((uint64_t)((double)grown(now.files, last.files) / seconds + 0.5), files, sizeof(files)),
         (double)all / 1e6 / seconds, percent(bytes[0], all), percent(bytes[1], all), percent(bytes[2], all),
         percent(bytes[3], all), percent(grown(now.wait_ms, last.wait_ms), (uint64_t)(seconds * 1000) * processes),
         (unsigned long long)grown(now.outputs, last.outputs),
         (double)grown(now.written, last.written) / 1e6 / seconds);
}

/* ---- --prefetch idle ---- */

/* Says how far the caches are filled: once a minute, and that they are full. On a terminal COMMAND has the screen, and
   fs-launch top shows a bar. */
static void fill_step(struct fs_launch *l) {
  uint64_t done = 0, total = 0;
  char a[32], b[32];
  if (!l->opt.prefetch_idle || !l->begun || l->command_ended || fs_bar_shown()) return;
  for (uint32_t i = 0; i < l->nodes; i++) {
    done += l->node[i].dead ? 0 : fs_sample_get(&l->node[i].history.last, "fill_done");
    total += l->node[i].dead ? 0 : fs_sample_get(&l->node[i].history.last, "fill_total");
  }
  if (total == 0 || (done >= total ? !l->live.filling : !fs_progress_due(l))) return;
  l->live.filling = done < total;
  fs_format_size(done, a, sizeof(a));
  fs_format_size(total, b, sizeof(b));
  if (l->live.filling)
    fs_progress("filling the caches: %s of %s on %u node%s", a, b, l->nodes, l->nodes == 1 ? "" : "s");
  else
    fs_progress("the caches are filled: %s on %u node%s", a, l->nodes, l->nodes == 1 ? "" : "s");
}

/* ---- when ---- */

static uint64_t interval(void) {
  const char *test = getenv(FS_ENV_TEST_SAMPLE);
  uint64_t ms;
  return test && fs_parse_u64(test, 1, 3600000, &ms) == 0 ? ms * (FS_NS_PER_S / 1000) : FS_LIVE_NS;
}

/* Returns whether a node has sent a sample since the last line. */
static bool have_news(const struct fs_launch *l, uint64_t *told) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < l->nodes; i++) {
    const struct fs_sample_history *h = &l->node[i].history;
    if (h->samples > 0) sum += h->sample[h->samples - 1].ms;
  }
  bool news = sum != *told;
  *told = sum;
  return news;
}

/* A line waits a little for samples that are late: else it would have none, and the next one two. */
static void stats_step(struct fs_launch *l, uint64_t now) {
  struct fs_live *live = &l->live;
  if (l->opt.stats == 0 || !l->begun || l->command_ended) return;
  if (live->stats_ns == 0) live->stats_ns = l->command_ns;
  uint64_t past = now - live->stats_ns, due = l->opt.stats * FS_NS_PER_S;
  if (past < due || (!have_news(l, &live->told) && past < due + FS_LIVE_LATE_NS)) return;
  say_stats(l, (double)past / 1e9);
  live->stats_ns = now;
}

void fs_live_step(struct fs_launch *l) {
  uint64_t now = fs_now_ns();
  stats_step(l, now);
  fill_step(l);
  if (l->run[0] == '\0' || now < l->live.next_ns) return;
  if (l->live.since_ns == 0) l->live.since_ns = now;
  write_file(l);
  uint64_t took = fs_now_ns() - now;
  l->live.next_ns = now + FS_MAX(interval(), FS_LIVE_SHARE * took);
}
