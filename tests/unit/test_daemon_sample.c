/* SPDX-License-Identifier: BSD-3-Clause */
/* What a daemon says each second: only what has changed, all clients' sums, and nothing that would have to wait. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>

#include "daemon/sample/sample.h"
#include "fetch_fixture.h"

static int out[2], real_out;
static char said[65536];

/* stdout is a pipe while the daemon speaks: cmocka's own lines go elsewhere. */
static void begin_to_hear(void) {
  fflush(stdout);
  real_out = dup(STDOUT_FILENO);
  assert_int_equal(pipe2(out, O_NONBLOCK), 0);
  dup2(out[1], STDOUT_FILENO);
}

static const char *end_to_hear(void) {
  size_t len = 0;
  ssize_t n;
  dup2(real_out, STDOUT_FILENO);
  close(real_out);
  close(out[1]);
  while ((n = read(out[0], said + len, sizeof(said) - 1 - len)) > 0) len += (size_t)n;
  close(out[0]);
  said[len] = '\0';
  return said;
}

static const char *second_later(void) {
  d->now += SECOND;
  begin_to_hear();
  fs_sampler_timers(d);
  return end_to_hear();
}

static void count(struct fs_client *c, unsigned kind, unsigned bucket, uint64_t n) {
  atomic_fetch_add(&c->channel->latency[kind][bucket], n);
  atomic_fetch_or(&c->channel->latency_kinds, 1u << kind);
}

static int start(void **state) {
  assert_int_equal(setup(state), 0);
  assert_int_equal(fs_sampler_new(d), 0);
  d->now = fs_now_ns() + SECOND;
  return 0;
}

static int end(void **state) {
  free(d->sampler);
  return teardown(state);
}

static void test_only_changes(void **state) {
  (void)state;
  const char *text = second_later();
  assert_non_null(strstr(text, "@fs sample rank=0 ms="));
  assert_non_null(strstr(text, " processes=1 "));
  assert_null(strstr(text, "@fs latency"));
  assert_string_equal(second_later(), "");
  atomic_fetch_add(&client->channel->counter[FS_C_OPENS], 3);
  atomic_fetch_add(&client->channel->counter[FS_C_WAIT_NS], 2500000);
  text = second_later();
  assert_non_null(strstr(text, " opens=3 "));
  assert_non_null(strstr(text, " wait_ms=2 "));
  begin_to_hear();
  d->now += SECOND / 2;
  atomic_fetch_add(&client->channel->counter[FS_C_OPENS], 1);
  fs_sampler_timers(d); /* half a second later */
  assert_string_equal(end_to_hear(), "");
  assert_string_equal(second_later() + strlen(said) - 1, "\n");
}

/* host_busy of a node where nothing happens does not stay as it was. */
static void test_idle(void **state) {
  (void)state;
  assert_non_null(strstr(second_later(), "@fs sample "));
  for (int s = 1; s < 30; s++) assert_string_equal(second_later(), "");
  assert_non_null(strstr(second_later(), " host_busy="));
  assert_string_equal(second_later(), "");
}

/* The histograms of clients that have ended stay in the sum, and are counted once. */
static void test_histograms(void **state) {
  fs_err err;
  int fd;
  (void)state;
  struct fs_client *other = fs_clients_add(d, 2, &fd, &err);
  assert_non_null(other);
  close(fd);
  count(client, FS_LATENCY_KIND(FS_LATENCY_READ, FS_LATENCY_REMOTE), 100, 2);
  count(other, FS_LATENCY_KIND(FS_LATENCY_READ, FS_LATENCY_REMOTE), 100, 5);
  count(other, FS_LATENCY_KIND(FS_LATENCY_OPEN, FS_LATENCY_OUTPUT), 3, 128);
  const char *text = second_later();
  assert_non_null(strstr(text, "@fs latency rank=0 op=read place=remote counts=100:7\n"));
  assert_non_null(strstr(text, "@fs latency rank=0 op=open place=output counts=3:128\n"));
  fs_clients_forget(d, other);
  fs_clients_bury(d);
  count(client, FS_LATENCY_KIND(FS_LATENCY_READ, FS_LATENCY_REMOTE), 101, 1);
  text = second_later();
  assert_non_null(strstr(text, "counts=100:7,101:1\n"));
  assert_null(strstr(text, "op=open"));
  begin_to_hear();
  fs_sampler_leave(d, 0);
  text = end_to_hear();
  assert_non_null(strstr(text, "@fs stats rank=0 ms="));
  assert_null(strstr(text, "@fs latency"));
}

/* A histogram that fills a line goes on in the next one, and each line can be parsed. */
static void test_long_histogram(void **state) {
  struct fs_control c;
  struct fs_latency h = {0};
  unsigned lines = 0, more = 0;
  (void)state;
  for (unsigned b = 0; b < FS_LATENCY_BUCKETS; b++)
    count(client, FS_LATENCY_KIND(FS_LATENCY_READ, FS_LATENCY_LOCAL), b, UINT64_MAX / 1024 - b);
  (void)second_later();
  for (char *at = said, *stop; (stop = strchr(at, '\n')); at = stop + 1) {
    assert_int_equal(fs_control_parse(at, (size_t)(stop - at), &c), 0);
    if (strcmp(c.verb, "latency") != 0) continue;
    assert_int_equal(fs_latency_parse(fs_control_get(&c, "counts"), &h), 0);
    more += fs_control_get(&c, "more") != NULL;
    lines++;
  }
  assert_true(lines >= 2);
  assert_int_equal(more, lines - 1);
  for (unsigned b = 0; b < FS_LATENCY_BUCKETS; b++) assert_int_equal(h.count[b], UINT64_MAX / 1024 - b);
}

/* If mpirun does not read, nothing is said, and nothing is lost. */
static void test_full_pipe(void **state) {
  (void)state;
  static const char junk[4096];
  atomic_fetch_add(&client->channel->counter[FS_C_STATS], 9);
  begin_to_hear();
  while (write(out[1], junk, sizeof(junk)) > 0) continue;
  fcntl(out[1], F_SETFL, 0); /* it would wait */
  d->now += SECOND;
  fs_sampler_timers(d);
  (void)end_to_hear();
  assert_int_equal(said[0], 0);
  assert_non_null(strstr(second_later(), " stats=9 "));
}

/* A client tells of a read that waited. */
static void waited(uint64_t file, uint64_t us) {
  struct fs_channel *c = client->channel;
  uint32_t head = atomic_fetch_add(&c->waits_head, 1);
  atomic_store(&c->wait[head % FS_WAIT_RING].read, us << 32 | 100);
  atomic_store(&c->wait[head % FS_WAIT_RING].file, file);
}

static const char *line_of(const char *text, const char *what) {
  const char *found = strstr(text, what);
  return found ? found : "(none)";
}

/* The longest reads stay, however many come later; the busiest files are those of the last seconds. Files that are not
   there are left out. */
static void test_files(void **state) {
  (void)state;
  uint64_t file = FS_WAIT_FILE(0, FS_PLACE_IS_REMOTE, 1), other = FS_WAIT_FILE(0, FS_PLACE_IS_SHARED, 2);
  d->data[0].stage.index.nentries = 3;
  waited(file, 5000);
  waited(FS_WAIT_FILE(1, 0, 0), 9);
  waited(FS_WAIT_FILE(0, FS_PLACE_COUNT, 0), 9);
  waited(FS_WAIT_FILE(0, 0, UINT32_MAX), 9);
  waited(UINT64_MAX, 9);
  const char *text = second_later();
  assert_non_null(strstr(text, "@fs files rank=0 kind=slow list=0:1:2:1:100:5000:5000\n"));
  assert_null(strstr(text, "kind=busy"));
  assert_null(strstr(second_later(), "@fs files"));
  for (unsigned i = 0; i < 50; i++) waited(other, 10 + i % 2);
  waited(file, 20);
  (void)second_later();
  (void)second_later();
  text = second_later();
  assert_non_null(strstr(line_of(text, "kind=busy"), "list=0:2:3:50:5000:525:11,0:1:2:2:200:5020:5000\n"));
  assert_int_equal(atomic_load(&client->channel->waits_tail), 56);
  for (unsigned i = 0; i < 4; i++) assert_null(strstr(second_later(), "kind=busy"));
  assert_non_null(strstr(second_later(), "kind=busy list=\n")); /* nothing waited in this window */
  begin_to_hear();
  fs_sampler_leave(d, 0);
  assert_null(strstr(end_to_hear(), "@fs files"));
}

/* How long each process waited: those that have ended count, and those that used no dataset do not. */
static void test_waits(void **state) {
  fs_err err;
  int fd;
  (void)state;
  struct fs_client *other = fs_clients_add(d, 2, &fd, &err), *idle;
  assert_non_null(other);
  close(fd);
  idle = fs_clients_add(d, 3, &fd, &err);
  assert_non_null(idle);
  close(fd);
  assert_null(strstr(second_later(), "@fs waits"));
  atomic_fetch_add(&client->channel->counter[FS_C_WAIT_NS], 300000);
  atomic_fetch_add(&client->channel->counter[FS_C_OPENS], 1);
  atomic_fetch_add(&other->channel->counter[FS_C_WAIT_NS], 700000000);
  assert_non_null(strstr(second_later(), "@fs waits rank=0 worst_pid=2 worst_us=700000 counts="));
  assert_non_null(strstr(said, " wait_worst=70 "));
  struct fs_latency h = {0};
  char counts[256] = "";
  assert_int_equal(sscanf(strstr(said, "@fs waits"), "%*s %*s %*s %*s %*s counts=%255s", counts), 1);
  assert_int_equal(fs_latency_parse(counts, &h), 0);
  assert_int_equal(fs_latency_total(&h), 2);
  assert_int_equal(h.count[fs_latency_bucket(300)], 1);
  fs_clients_forget(d, other);
  fs_clients_bury(d);
  assert_null(strstr(second_later(), "@fs waits"));
  assert_non_null(strstr(said, " wait_worst=0 "));
  atomic_fetch_add(&idle->channel->counter[FS_C_OPENS], 1);
  assert_non_null(strstr(second_later(), "@fs waits rank=0 worst_pid=2 worst_us=700000 counts=0:1,"));
  fs_clients_forget(d, idle);
  fs_clients_bury(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_only_changes, start, end),
      cmocka_unit_test_setup_teardown(test_idle, start, end),
      cmocka_unit_test_setup_teardown(test_histograms, start, end),
      cmocka_unit_test_setup_teardown(test_long_histogram, start, end),
      cmocka_unit_test_setup_teardown(test_full_pipe, start, end),
      cmocka_unit_test_setup_teardown(test_files, start, end),
      cmocka_unit_test_setup_teardown(test_waits, start, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
