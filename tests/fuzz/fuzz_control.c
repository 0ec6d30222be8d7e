/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a daemon and its launcher hear of each other. Control lines from anywhere: parsed or refused, and what is parsed
 * can be built and parsed again. And, after a byte that begins no line, its command line: refused, or with values that
 * can be.
 */
#include <stdlib.h>
#include <string.h>

#include "ipc/control.h"
#define main fanstored_main
int fanstored_main(int argc, char **argv);
#include "../../fs-launch/fanstored.c"
#include "../../fs-launch/sample.c"
#include "../../libfanstore/daemon/core/config.c"
#undef main
#include "fuzz_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const words[] = {"--job",
                                    "--local-dir",
                                    "--dataset",
                                    "--mount",
                                    "--emulate",
                                    "--cache",
                                    "--deadline",
                                    "--verify",
                                    "--node-local",
                                    "--local-io",
                                    "--stage-out",
                                    "--output-limit",
                                    "--output-replicas",
                                    "--stage-in",
                                    "--verbose",
                                    "--keep",
                                    "job-1",
                                    "/a",
                                    "16M",
                                    "1",
                                    "always",
                                    "direct",
                                    "--read-only",
                                    "--network",
                                    "fd77::/64",
                                    "--"};

/* What fs-launch keeps of a daemon's figures stays in its bounds (fs-launch/sample.h). */
static void check_figures(const struct fs_control *c) {
  struct fs_sample_history h = {0};
  fs_sample_line_in(&h, 2, c);
  fs_sample_line_in(&h, 2, c);
  if (h.samples > 1 || h.samples > h.room || h.last.n > FS_LAUNCH_STATS) abort();
  for (unsigned kind = 0; kind < FS_LATENCY_KINDS; kind++)
    if (h.latency[kind] && fs_latency_percentile(h.latency[kind], 1000) > fs_latency_high(FS_LATENCY_BUCKETS - 1))
      abort();
  fs_sample_free(&h);
}

/* In the daemon's place. */
static struct fs_daemon_config told;
void fs_say_begun(const char *used) {
  (void)used;
}
void fs_say_failed(const char *why) {
  (void)why;
}
uint64_t fs_memory_all(void) {
  return 1ull << 30;
}
uint64_t fs_memory_cache_default(uint64_t all, uint32_t nodes) {
  return nodes > 0 ? all / nodes : all;
}
struct fs_net *fs_net_mpi_open(int *argc, char ***argv, const char **why) {
  static struct fs_net net;
  (void)argc, (void)argv, (void)why;
  return &net;
}
int fs_daemon_run(const struct fs_daemon_config *c, struct fs_net *net) {
  (void)net;
  told = *c;
  return 0;
}

/* Help and version leave by exit; --local-default makes a directory where its name is another user's; --peers looks
   names up. */
static bool left_out(const char *word) {
  bool letters = word[0] == '-' && word[1] != '-';
  return strstr(word, "help") || strstr(word, "version") || (letters && strchr(word, 'h')) ||
         strstr(word, "local-def") || strncmp(word, "--p", 3) == 0;
}

static void check_options(const uint8_t *data, size_t size) {
  const struct fs_daemon_config *c = &told;
  struct fuzz_words w = {.known = words, .n = FS_ARRAY_LEN(words), .left_out = left_out};
  fuzz_words(&w, "fanstored", data, size);
  int status = fanstored_main(w.argc, w.argv);
  if (status != 0 && status != 2) abort();
  if (status == 0) {
    if (!c->job || !fs_job_name_ok(c->job) || c->local_dir[0] != '/' || c->local_default) abort();
    if (c->datasets == 0 || c->datasets > FS_MAX_DATASETS || c->emulate > FS_MAX_NODES) abort();
    if (c->deadline_ns < 10000000) abort();
    if ((c->stage_out && c->stage_out[0] != '/') || (c->stage_in && c->stage_in[0] != '/')) abort();
  }
  free(w.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct fs_control c, again;
  static struct fs_control_line l;
  if (size > 0 && data[0] >= 0x80) check_options(data + 1, size - 1);
  if (fs_control_parse((const char *)data, size, &c) < 0) return 0;
  check_figures(&c);
  if (fs_control_begin(&l, c.verb) < 0) abort();
  for (unsigned i = 0; i < c.pairs; i++) {
    if (fs_control_add(&l, c.pair[i].key, c.pair[i].value) < 0) return 0; /* escaped it may be longer than it was */
  }
  if (fs_control_end(&l) < 0 || fs_control_parse(l.text, l.len, &again) < 0) abort();
  if (strcmp(c.verb, again.verb) != 0 || c.pairs != again.pairs) abort();
  for (unsigned i = 0; i < c.pairs; i++) {
    if (strcmp(c.pair[i].value, again.pair[i].value) != 0) abort();
  }
  return 0;
}
