/* SPDX-License-Identifier: BSD-3-Clause */
/* The live file's parser, the differences between two reads, and numbers as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../fs-launch/watch/watch.h"

#define HEAD "fanstore-live 1\n"
#define JOB "job j%20x pid=7 user=me started=5000 state=running nodes=2 command=a%20b%0Ac more=1\n"

static fs_err parse(const char *text, struct fs_view *l) {
  char copy[4096];
  snprintf(copy, sizeof(copy), "%s", text);
  return fs_view_parse(copy, strlen(copy), l);
}

static void test_parse(void **state) {
  struct fs_view l;
  (void)state;
  assert_int_equal(parse(HEAD JOB "progress done=3 total=9\n"
                                  "node 1 host=h%3D ms=17 opens=5 wait_ms=18446744073709551615 newer=1\n"
                                  "latency 1 read remote n=3 p50=1 counts=0:1,239:2\n"
                                  "latency 1 unlink remote n=3 counts=0:1\n"
                                  "of-a-newer-version 1\nwarning a%20b\n"
                                  "busy remote node=1 reads=3 us=9 longest_us=8 path=/a%20b new=1\n"
                                  "busy nowhere reads=1 path=/c\nbusy local reads=1\n",
                         &l),
                   0);
  assert_string_equal(l.job, "j x");
  assert_string_equal(l.command, "a b\nc");
  assert_int_equal(l.pid, 7);
  assert_int_equal(l.state, FS_VIEW_RUNNING);
  assert_int_equal(l.nodes, 2);
  assert_int_equal(l.total, 9);
  assert_false(l.node[0].sampled);
  assert_true(l.node[1].sampled);
  assert_string_equal(l.node[1].host, "h=");
  assert_int_equal(l.node[1].value[FS_VIEW_OPENS], 5);
  assert_true(l.node[1].value[FS_VIEW_WAIT_MS] == UINT64_MAX);
  assert_int_equal(l.node[1].have, 1ull << FS_VIEW_OPENS | 1ull << FS_VIEW_WAIT_MS);
  const struct fs_latency *h = l.node[1].latency[FS_LATENCY_KIND(FS_LATENCY_READ, FS_LATENCY_REMOTE)];
  assert_non_null(h);
  assert_int_equal(h->count[239], 2);
  assert_int_equal(l.warnings, 1);
  assert_string_equal(l.warning[0], "a b");
  assert_int_equal(l.files, 1);
  assert_string_equal(l.busy[0].path, "/a b");
  assert_int_equal(l.busy[0].place, FS_LATENCY_REMOTE);
  assert_int_equal(l.busy[0].reads, 3);
  assert_int_equal(l.busy[0].longest_us, 8);
  fs_view_free(&l);
}

static void test_refused(void **state) {
  static const char *const bad[] = {
      "",
      HEAD,
      "fanstore-live 2\n" JOB,
      JOB,
      HEAD "node 0 ms=1\n" JOB,
      HEAD JOB JOB,
      HEAD JOB "node 2 ms=1\n",
      HEAD JOB "node -1 ms=1\n",
      HEAD JOB "node\n",
      HEAD JOB "latency 0 read\n",
      HEAD JOB "latency 0 read remote counts=240:1\n",
      HEAD JOB "latency 0 read remote counts=1\n",
      HEAD JOB "warning a%00b\n",
      HEAD "job j nodes=4097\n",
      HEAD "job\n",
      HEAD JOB "node 0 ms=1", /* the last line is cut */
  };
  (void)state;
  for (size_t i = 0; i < FS_ARRAY_LEN(bad); i++) {
    struct fs_view l;
    assert_int_equal(parse(bad[i], &l), -EINVAL);
    assert_null(l.node);
    fs_view_free(&l);
  }
}

static void take(struct fs_watch *w, uint64_t now_ms, const char *nodes) {
  struct fs_view l;
  char text[2048];
  snprintf(text, sizeof(text), "%s%s", HEAD JOB, nodes);
  assert_int_equal(parse(text, &l), 0);
  assert_int_equal(fs_watch_take(w, &l, now_ms * 1000000), 0);
}

static void test_rates(void **state) {
  struct fs_watch w = {0};
  struct fs_delta d;
  (void)state;
  take(&w, 10000, "node 0 ms=1000 opens=100 processes=2\nlatency 0 read remote counts=8:5\n");
  fs_watch_total(&w, &d);
  assert_true(fs_delta_rate(&d, FS_VIEW_OPENS) == 0); /* nothing to compare with */
  take(&w, 12000,
       "node 0 ms=3000 opens=300 processes=2 bytes_local=50 bytes_cache=30 bytes_remote=20 wait_ms=1000\n"
       "latency 0 read remote counts=8:5,80:1\nnode 1 ms=9000 opens=7\n");
  fs_watch_total(&w, &d);
  assert_true(fs_delta_rate(&d, FS_VIEW_OPENS) == 100);
  assert_true(fs_delta_bytes(&d) == 50);
  assert_true(fs_delta_share(&d, FS_LATENCY_LOCAL) == 50);
  assert_true(fs_delta_hit(&d) == 60);
  assert_true(fs_delta_waited(&d) == 25); /* 1 s of two processes' 2 s */
  assert_true(fs_latency_percentile(&d.remote, 500) == fs_latency_high(80));
  /* A late sample: the last rates hold for a while. Then the node is idle. */
  take(&w, 13000, "node 0 ms=3000 opens=300 processes=2\nnode 1 ms=10000 opens=27\n");
  fs_watch_total(&w, &d);
  assert_true(fs_delta_rate(&d, FS_VIEW_OPENS) == 120);
  take(&w, 14600, "node 0 ms=3000 opens=300 processes=2\nnode 1 ms=11000 opens=27\n");
  fs_watch_total(&w, &d);
  assert_true(fs_delta_rate(&d, FS_VIEW_OPENS) == 0);
  assert_true(fs_delta_share(&d, FS_LATENCY_LOCAL) == -1);
  assert_true(fs_delta_waited(&d) == 0);
  /* It works again: not all of the idle time counts. A counter that shrinks counts nothing. */
  take(&w, 60000, "node 0 ms=48000 opens=300 processes=2\nnode 1 ms=57000 opens=27\n");
  take(&w, 61000, "node 0 ms=49000 opens=310 processes=2\nnode 1 ms=58000 opens=20\n");
  fs_watch_total(&w, &d);
  assert_true(fs_delta_rate(&d, FS_VIEW_OPENS) == 10);
  fs_watch_free(&w);
}

static void test_show(void **state) {
  char s[FS_SHOW], text[64];
  (void)state;
  assert_string_equal(fs_show_ns(0, s), "-");
  assert_string_equal(fs_show_ns(72, s), "72ns");
  assert_string_equal(fs_show_ns(1500, s), "1.5us");
  assert_string_equal(fs_show_ns(999600, s), "1.0ms");
  assert_string_equal(fs_show_ns(68e9, s), "68s");
  assert_string_equal(fs_show_percent(-1, s), "-");
  assert_string_equal(fs_show_count(12, s), "12");
  assert_string_equal(fs_show_count(1.8e19, s), "18000P");
  assert_string_equal(fs_show_mega(1234567, s), "1.2");
  assert_string_equal(fs_show_giga(1ull << 30, s), "1.0G");
  assert_string_equal(fs_show_age(100000, 0, s), "-");
  assert_string_equal(fs_show_age(100000, 39000, s), "01:01");
  assert_string_equal(fs_show_age(90061000, 1, s), "1-01:01:00");
  assert_string_equal(fs_show_text("a\033[1mb", 100, text, sizeof(text)), "a\\x1b[1mb");
  assert_string_equal(fs_show_text("\xc3\xa4\xc3\xb6\xc3\xbc", 2, text, sizeof(text)), "\xc3\xa4\xc3\xb6");
}

static char *printed(void (*print)(const struct fs_view *l, FILE *out), const struct fs_view *l) {
  char *text = NULL;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  print(l, out);
  fclose(out);
  return text;
}

static void test_metrics(void **state) {
  struct fs_view l;
  (void)state;
  assert_int_equal(
      parse(HEAD "job a%22b\\c state=running nodes=1\nnode 0 host=x%20y,z%3D\\%FF ms=1500 opens=18446744073709551615\n"
                 "latency 0 read remote counts=0:3,8:4,239:1\n",
            &l),
      0);
  char *p = printed(fs_metrics_prometheus, &l), *i = printed(fs_metrics_influx, &l);
  assert_non_null(strstr(
      p, "fanstore_opens_total{job=\"a\\\"b\\\\c\",node=\"0\",host=\"x y,z=\\\\\\\\xff\"} 18446744073709551615\n"));
  assert_non_null(strstr(p, "op=\"read\",place=\"remote\",le=\"1.28e-07\"} 3\n"));
  assert_non_null(strstr(p, "op=\"read\",place=\"remote\",le=\"2.56e-07\"} 7\n"));
  assert_non_null(strstr(p, "op=\"read\",place=\"remote\",le=\"+Inf\"} 8\n"));
  assert_null(strstr(p, "fanstore_queue"));
  assert_string_equal(i, "fanstore,job=a\"b/c,node=0,host=x\\ y\\,z\\=//xff opens=9223372036854775807i 1500000000\n"
                         "fanstore_latency,job=a\"b/c,node=0,host=x\\ y\\,z\\=//xff,op=read,place=remote "
                         "n=8i,p50_ns=144i,p90_ns=68719476736i,p99_ns=68719476736i 1500000000\n");
  free(p);
  free(i);
  fs_view_free(&l);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_parse), cmocka_unit_test(test_refused), cmocka_unit_test(test_rates),
      cmocka_unit_test(test_show),  cmocka_unit_test(test_metrics),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
