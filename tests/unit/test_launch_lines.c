/* SPDX-License-Identifier: BSD-3-Clause */
/* The output of several ranks, cut into lines, however mpirun cut it into pieces. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../fs-launch/launch.h"

#define RANKS 3u
#define LINES 400u

static struct fs_mpi mpi;
static struct fs_launch l = {.nodes = RANKS, .mpi = &mpi};
static unsigned next_line[RANKS], others;
static char other[64];

static size_t line_of(unsigned rank, unsigned i, char *text) {
  size_t n = (size_t)sprintf(text, "@fs line rank=%u i=%u text=[1,%u]<std=", rank, i, rank);
  size_t len = n + (i * 37 + rank * 11) % 3000;
  memset(text + n, 'a' + (int)rank, len - n);
  return len;
}

static void on_line(struct fs_launch *launch, const char *line, size_t n) {
  static char expected[FS_CONTROL_LINE];
  unsigned rank;
  (void)launch;
  if (n < 17 || strncmp(line, "@fs line rank=", 14) != 0) {
    others++;
    snprintf(other, sizeof(other), "%.*s", (int)n, line);
    return;
  }
  rank = (unsigned)(line[14] - '0');
  assert_true(rank < RANKS);
  assert_int_equal(n, line_of(rank, next_line[rank]++, expected));
  assert_memory_equal(line, expected, n);
}

static int start(void **state) {
  (void)state;
  memset(next_line, 0, sizeof(next_line));
  others = 0;
  return 0;
}

/* Reads these bytes from a pipe as they come. */
static void feed(struct fs_launch_lines *in, int fd, const char *text, size_t n) {
  assert_int_equal(write(fd, text, n), n);
  size_t before;
  int left = (int)n;
  while (left > 0) {
    before = sizeof(in->text) - in->len;
    fs_lines_read(&l, in, on_line);
    left -= (int)FS_MIN(before, (size_t)left);
  }
}

static void opened(struct fs_launch_lines *in, int *fd) {
  int p[2];
  assert_int_equal(pipe(p), 0);
  *in = (struct fs_launch_lines){.fd = p[0]};
  *fd = p[1];
}

static void pieces(const char *format, bool each_line) {
  static char text[RANKS][LINES * FS_CONTROL_LINE];
  static struct fs_launch_lines in;
  size_t len[RANKS] = {0}, at[RANKS] = {0};
  int fd;
  srand(1);
  for (unsigned r = 0; r < RANKS; r++)
    for (unsigned i = 0; i < LINES; i++) {
      len[r] += line_of(r, i, text[r] + len[r]);
      text[r][len[r]++] = '\n';
    }
  opened(&in, &fd);
  for (unsigned turn = 0, over = 0; over < RANKS; turn++) {
    unsigned r = (unsigned)rand() % RANKS;
    char tag[32], piece[8 * FS_CONTROL_LINE];
    size_t tagged = (size_t)snprintf(tag, sizeof(tag), format, r), n = 0;
    size_t take = FS_MIN(1 + (size_t)rand() % (turn % 3 ? 4096 : 40), len[r] - at[r]);
    for (size_t i = 0; i < take; i++) {
      if (i == 0 || (each_line && text[r][at[r] + i - 1] == '\n')) {
        memcpy(piece + n, tag, tagged);
        n += tagged;
      }
      piece[n++] = text[r][at[r] + i];
    }
    at[r] += take;
    feed(&in, fd, piece, n);
    over = 0;
    for (unsigned k = 0; k < RANKS; k++) over += at[k] == len[k];
  }
  close(fd);
  while (in.fd >= 0) fs_lines_read(&l, &in, on_line);
  for (unsigned r = 0; r < RANKS; r++) assert_int_equal(next_line[r], LINES);
  assert_int_equal(others, 0);
}

/* What Open MPI 4.1 does with --tag-output, and Open MPI 5 with --output tag:raw. */
static void test_pieces(void **state) {
  (void)state;
  pieces("[37,%u]<stdout>:", true);
  start(state);
  mpi.tag_blank = true;
  pieces("[1,%u]<stdout>: ", false);
  mpi.tag_blank = false;
}

static void test_others(void **state) {
  static struct fs_launch_lines in;
  static char longest[3 * FS_CONTROL_LINE];
  char text[FS_CONTROL_LINE + 64];
  int fd;
  (void)state;
  opened(&in, &fd);
  feed(&in, fd, "plain\n", 6);
  assert_string_equal(other, "plain");
  feed(&in, fd, "[1,7]<stdout>:of no node\n", 25);
  assert_string_equal(other, "of no node");
  feed(&in, fd, "[1,2]<stderr>:\n", 15);
  assert_string_equal(other, "");
  feed(&in, fd, "[1,]<stdout>:x\n", 15);
  assert_string_equal(other, "[1,]<stdout>:x");
  assert_int_equal(others, 4);
  /* A line that is too long is dropped, and the next one is whole. */
  memset(longest, 'x', sizeof(longest));
  feed(&in, fd, longest, sizeof(longest));
  feed(&in, fd, "\n[1,0]<stdout>:", 15);
  feed(&in, fd, longest, 4096);
  feed(&in, fd, "[1,0]<stdout>:y[1,1]<stdout>:after", 34);
  feed(&in, fd, "[1,0]<stdout>:z\n", 16);
  assert_int_equal(others, 4);
  size_t n = line_of(0, 0, text);
  text[n++] = '\n';
  feed(&in, fd, "[1,0]<stdout>:", 14);
  feed(&in, fd, text, n);
  assert_int_equal(next_line[0], 1);
  close(fd); /* the end is the end of a line, too */
  while (in.fd >= 0) fs_lines_read(&l, &in, on_line);
  assert_null(in.held);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_pieces, start),
      cmocka_unit_test_setup(test_others, start),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
