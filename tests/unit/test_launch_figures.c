/* SPDX-License-Identifier: BSD-3-Clause */
/* What the report shows of a job's course: the timeline's sums, epochs, and findings, from lines as
   daemons send them. Nothing is started. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../fs-launch/launch.h"

#define BEGAN 1700000000000ull
#define MIB (1ull << 20)

/* A job of so many nodes and seconds. Each node has one partition of 1 GiB, and the dataset 1000
   files. */
static struct fs_launch *job(uint32_t nodes, uint64_t seconds) {
  struct fs_launch *l = calloc(1, sizeof(*l));
  assert_non_null(l);
  l->nodes = nodes;
  l->node = calloc(nodes, sizeof(*l->node));
  l->opt.datasets = 1;
  l->dataset = calloc(1, sizeof(*l->dataset));
  l->dataset->manifest.files = 1000;
  l->parts = nodes;
  l->part = calloc(nodes, sizeof(*l->part));
  l->place = calloc(nodes, sizeof(*l->place));
  for (uint32_t i = 0; i < nodes; i++) {
    l->part[i].size = 1024 * MIB;
    l->place[i] = (struct fs_owners){.owner = {(uint16_t)i}, .owners = 1};
    snprintf(l->node[i].host, sizeof(l->node[i].host), "h%u", i);
  }
  l->began_ms = BEGAN;
  l->command_ns = seconds * FS_NS_PER_S;
  return l;
}

static void end(struct fs_launch *l) {
  for (uint32_t i = 0; i < l->nodes; i++) fs_sample_free(&l->node[i].history);
  fs_figures_free(l->figures);
  free(l->node);
  free(l->dataset);
  free(l->part);
  free(l->place);
  free(l->pair_bytes);
  free(l);
}

/* A daemon's line. The words after VERB rank=K. */
static void line(struct fs_launch *l, uint32_t rank, const char *verb, const char *words) {
  struct fs_control c;
  char text[1024];
  int n = snprintf(text, sizeof(text), "@fs %s rank=%u %s\n", verb, rank, words);
  assert_int_equal(fs_control_parse(text, (size_t)n, &c), 0);
  fs_sample_line_in(&l->node[rank].history, l->nodes, &c);
  if (strcmp(verb, "stats") == 0) fs_sample_values(&l->node[rank].stats, &c);
}

/* Sums at a time after COMMAND's start. All bytes but those of `remote` are local. */
static void sample(struct fs_launch *l, uint32_t rank, const char *verb, uint64_t ms, uint64_t opens, uint64_t remote,
                   uint64_t wait_ms, unsigned busy) {
  char words[512];
  snprintf(words, sizeof(words),
           "ms=%llu opens=%llu bytes_local=%llu bytes_remote=%llu fetched_bytes=%llu wait_ms=%llu host_busy=%u "
           "processes=%u clients=2 cache_size=%llu cpu_ms=%llu",
           (unsigned long long)(BEGAN + ms), (unsigned long long)opens, (unsigned long long)(opens * 1000),
           (unsigned long long)remote, (unsigned long long)remote, (unsigned long long)wait_ms, busy,
           strcmp(verb, "stats") == 0 ? 0 : 2, (unsigned long long)(256 * MIB), (unsigned long long)(ms / 2));
  line(l, rank, verb, words);
}

static const struct fs_figures *figures(struct fs_launch *l) {
  l->figures = fs_figures_new(l);
  assert_non_null(l->figures);
  return l->figures;
}

/* Each node opens `rate` files a second for so many seconds. */
static void steady(struct fs_launch *l, uint64_t seconds, uint64_t rate, uint64_t remote, uint64_t wait_ms,
                   unsigned busy) {
  for (uint32_t i = 0; i < l->nodes; i++) {
    for (uint64_t s = 1; s <= seconds; s++)
      sample(l, i, "sample", s * 1000 - 137, s * rate, s * remote, s * wait_ms, busy);
    sample(l, i, "stats", seconds * 1000 + 300, seconds * rate + 7, seconds * remote, seconds * wait_ms, busy);
  }
}

static void test_sums(void **state) {
  (void)state;
  static const uint64_t lengths[] = {0, 1, 7, 299, 1000, 100000};
  for (size_t k = 0; k < FS_ARRAY_LEN(lengths); k++) {
    struct fs_launch *l = job(3, lengths[k]);
    steady(l, FS_MIN(lengths[k], 2000u), 40, MIB, 100, 50);
    const struct fs_figures *f = figures(l);
    assert_in_range(f->intervals, 1, 300);
    assert_int_equal(f->end_ms[f->intervals - 1], FS_MAX(lengths[k] * 1000, 1u));
    for (uint32_t i = 0; i < 3; i++) {
      assert_int_equal(fs_figures_sum(f, i, FS_SERIES_FILES), fs_sample_get(&l->node[i].stats, "opens"));
      assert_int_equal(fs_figures_sum(f, i, FS_SERIES_LOCAL), fs_sample_get(&l->node[i].stats, "bytes_local"));
      assert_int_equal(fs_figures_sum(f, i, FS_SERIES_WAIT_MS), fs_sample_get(&l->node[i].stats, "wait_ms"));
    }
    end(l);
  }
}

static void test_quiet_time(void **state) {
  (void)state;
  struct fs_launch *l = job(1, 100);
  sample(l, 0, "sample", 1000, 100, 0, 0, 10);
  sample(l, 0, "sample", 80000, 300, 0, 0, 10); /* nothing was sent in between: nothing happened */
  sample(l, 0, "stats", 100100, 300, 0, 0, 10);
  const struct fs_figures *f = figures(l);
  const uint64_t *files = fs_figures_series(f, 0, FS_SERIES_FILES);
  assert_int_equal(f->intervals, 100);
  assert_int_equal(files[0], 100);
  for (unsigned i = 1; i < 78; i++) assert_int_equal(files[i], 0);
  assert_int_equal(files[78] + files[79], 200);
  assert_int_equal(fs_figures_process_ms(f, 0), 200000);
  end(l);
}

static void test_dead_node(void **state) {
  (void)state;
  struct fs_launch *l = job(2, 60);
  for (uint64_t s = 1; s <= 10; s++) sample(l, 1, "sample", s * 1000, s * 5, 0, 0, 10);
  const struct fs_figures *f = figures(l);
  assert_int_equal(fs_figures_sum(f, 0, FS_SERIES_FILES), 0);
  assert_int_equal(fs_figures_sum(f, 1, FS_SERIES_FILES), 50);
  end(l);
}

static void test_epochs(void **state) {
  (void)state;
  struct fs_launch *l = job(2, 100);
  steady(l, 100, 15, 3000, 20, 10); /* 30 files a second of 1000 */
  const struct fs_figures *f = figures(l);
  assert_int_equal(f->epochs, 3);
  uint64_t before = 0, remote = 0;
  for (unsigned i = 0; i < 3; i++) {
    const struct fs_epoch *e = &f->epoch[i];
    assert_true(e->whole);
    assert_int_equal(e->start_ms, before);
    assert_in_range(e->end_ms - e->start_ms, 33000, 33700);
    assert_in_range(e->wait_ms, 1250, 1350);
    before = e->end_ms;
    remote += e->bytes[2];
  }
  assert_in_range(remote, 590000, 600000);
  end(l);
}

static void test_epochs_of_a_second(void **state) {
  (void)state;
  struct fs_launch *l = job(1, 10);
  steady(l, 10, 2500, 0, 0, 10); /* 2.5 epochs in each interval */
  const struct fs_figures *f = figures(l);
  assert_int_equal(f->epochs, 25);
  for (unsigned i = 0; i < 24; i++) assert_true(f->epoch[i].end_ms > f->epoch[i].start_ms);
  end(l);
}

static void test_epoch_begun(void **state) {
  (void)state;
  struct fs_launch *l = job(1, 60);
  steady(l, 60, 25, 0, 0, 10);
  const struct fs_figures *f = figures(l);
  assert_int_equal(f->epochs, 2);
  assert_true(f->epoch[0].whole && !f->epoch[1].whole);
  assert_int_equal(f->epoch[1].end_ms, 60000);
  end(l);
  l = job(1, 60); /* not one whole epoch */
  steady(l, 60, 5, 0, 0, 10);
  assert_int_equal(figures(l)->epochs, 0);
  end(l);
  l = job(1, 60); /* a few large files, which are opened again and again */
  l->dataset->manifest.files = 4;
  steady(l, 60, 25, 0, 0, 10);
  assert_int_equal(figures(l)->epochs, 0);
  end(l);
}

static void test_no_findings(void **state) {
  (void)state;
  struct fs_launch *l = job(4, 120); /* well, and long */
  steady(l, 120, 100, MIB, 100, 80);
  for (uint32_t i = 0; i < 4; i++) l->node[i].served = (struct fs_served){50000, 1ull << 30, 50000ull * (800 + 50 * i)};
  assert_int_equal(figures(l)->findings, 0);
  end(l);
  l = job(4, 10); /* all is wrong, but short */
  steady(l, 10, 100, 900 * MIB, 1000, 100);
  l->node[2].served = (struct fs_served){50000, 1ull << 30, 50000ull * 90000};
  assert_int_equal(figures(l)->findings, 0);
  end(l);
}

/* The job has exactly one finding, with all of these in its text. */
static void one(const struct fs_launch *l, const char *const *parts) {
  const struct fs_figures *f = l->figures;
  for (unsigned i = 0; i < f->findings; i++) print_message("%s\n", f->finding[i].text);
  assert_int_equal(f->findings, 1);
  for (; *parts; parts++) assert_non_null(strstr(f->finding[0].text, *parts));
  assert_true(strlen(f->finding[0].text) < sizeof(f->finding[0].text) - 1);
}
#define ONE(l, ...) one(l, (const char *const[]){__VA_ARGS__, NULL})

static void test_slow_node(void **state) {
  (void)state;
  char headline[300];
  struct fs_launch *l = job(4, 120);
  steady(l, 120, 100, MIB, 100, 80);
  for (uint32_t i = 0; i < 4; i++) {
    l->node[i].served = (struct fs_served){50000, 1ull << 30, 50000ull * (i == 3 ? 2400 : 1000 + 10 * i)};
    line(l, i, "latency", i == 3 ? "op=read place=local counts=100:50,200:50" : "op=read place=local counts=100:100");
  }
  figures(l);
  ONE(l, "Node 3 (h3)", "2.4 ms", "1.0 ms", "its disk is slow");
  fs_figures_headline(l, l->figures, 0, headline, sizeof(headline));
  assert_non_null(strstr(headline, "Node 3 (h3) served 2.4 times as slowly as the others: its disk is slow."));
  fs_figures_headline(l, l->figures, 3, headline, sizeof(headline));
  assert_non_null(strstr(headline, "ended with status 3"));
  end(l);
}

static void test_small_cache(void **state) {
  (void)state;
  struct fs_launch *l = job(4, 120); /* 3 GiB are on the other nodes, 256 MiB in the cache */
  steady(l, 120, 100, 50 * MIB, 100, 80);
  figures(l);
  ONE(l, "256.0 MiB", "3.0 GiB", "--cache 4G", "--cache-disk auto");
  end(l);
}

static void test_busy(void **state) {
  (void)state;
  struct fs_launch *l = job(1, 120);
  steady(l, 120, 100, 0, 1500, 99);
  figures(l);
  ONE(l, "Node 0 (h0)", "processors were busy", "Leave 1");
  end(l);
  l = job(1, 120); /* busy, and nobody waits */
  steady(l, 120, 100, 0, 5, 99);
  assert_int_equal(figures(l)->findings, 0);
  end(l);
}

static void test_shared(void **state) {
  (void)state;
  struct fs_launch *l = job(2, 120);
  char words[128];
  steady(l, 119, 100, 0, 5, 10);
  snprintf(words, sizeof(words), "ms=%llu opens=100 bytes_local=1000000 bytes_shared=%llu clients=1", BEGAN + 120100,
           300 * MIB);
  line(l, 1, "stats", words);
  figures(l);
  ONE(l, "Node 1 (h1)", "300.0 MiB", "shared storage", "--replicas 2");
  end(l);
}

/* What came from which node, also from daemons that say what cannot be. */
static void test_fetched(void **state) {
  (void)state;
  static const char *const lines[] = {"@fs fetched rank=0 from=1:10:1000:50,2:5:500:60\n",
                                      "@fs fetched rank=2 from=1:1:1:1\n",
                                      "@fs fetched rank=3 from=1:10:1000:50\n",
                                      "@fs fetched rank=0 from=3:1:1:1,1:1:1:1\n",
                                      "@fs fetched rank=0 from=4294967297:1:1:1\n",
                                      "@fs fetched rank=0 from=1:1:1\n",
                                      "@fs fetched rank=0 from=,,,\n",
                                      "@fs fetched rank=0\n"};
  struct fs_launch *l = job(3, 10);
  for (size_t i = 0; i < FS_ARRAY_LEN(lines); i++) fs_control_line_in(l, lines[i], strlen(lines[i]));
  assert_int_equal(l->node[0].served.blocks, 0);
  assert_int_equal(l->node[1].served.blocks, 11);
  assert_int_equal(l->node[1].served.us, 51);
  assert_int_equal(l->node[2].served.bytes, 500);
  assert_int_equal(l->pair_bytes[1 * 3 + 0], 1000);
  assert_int_equal(l->pair_bytes[1 * 3 + 2], 1);
  assert_int_equal(l->pair_bytes[2 * 3 + 0], 500);
  end(l);
}

static void test_idle(void **state) {
  (void)state;
  struct fs_launch *l = job(3, 120);
  steady(l, 120, 10000, 0, 5, 10);
  line(l, 1, "stats", "ms=1800000000000 opens=0 clients=0");
  line(l, 2, "stats", "ms=1800000000000 opens=0 clients=0");
  figures(l);
  ONE(l, "Nodes 1, 2:", "--np");
  end(l);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sums),
      cmocka_unit_test(test_quiet_time),
      cmocka_unit_test(test_dead_node),
      cmocka_unit_test(test_epochs),
      cmocka_unit_test(test_epochs_of_a_second),
      cmocka_unit_test(test_epoch_begun),
      cmocka_unit_test(test_no_findings),
      cmocka_unit_test(test_slow_node),
      cmocka_unit_test(test_small_cache),
      cmocka_unit_test(test_busy),
      cmocka_unit_test(test_shared),
      cmocka_unit_test(test_fetched),
      cmocka_unit_test(test_idle),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
