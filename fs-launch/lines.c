/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The output of the daemons and of mpirun, cut into lines. mpirun forwards the output of each rank in
 * pieces of up to 4096 bytes, and takes it from a pseudo-terminal, so a piece may end within a line
 * and another rank's piece may follow. So mpirun is asked to put a tag before each piece (mpi.c):
 * "[1,RANK]<stdout>:". Open MPI 5 adds a blank. Open MPI 4.1 puts a tag before each line as well.
 * The pieces of a rank are held back until its line is whole.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch.h"

/* The pieces of a rank's line. */
struct fs_launch_held {
  size_t len; /* above FS_CONTROL_LINE: too long, dropped */
  char *text;
};

/* Returns the length of the tag at the beginning of the text, or 0. */
static size_t tag_length(const struct fs_launch *l, const char *text, size_t n, uint64_t *rank) {
  static const char *const ends[] = {"]<stdout>:", "]<stderr>:"};
  size_t i = 1;
  if (n == 0 || text[0] != '[') return 0;
  while (i < n && text[i] >= '0' && text[i] <= '9') i++;
  if (i == 1 || i >= n || text[i] != ',') return 0;
  size_t digits = ++i;
  *rank = 0;
  for (; i < n && text[i] >= '0' && text[i] <= '9' && i < digits + 9; i++)
    *rank = 10 * *rank + (uint64_t)(text[i] - '0');
  for (size_t k = 0; i > digits && k < FS_ARRAY_LEN(ends); k++) {
    size_t len = strlen(ends[k]);
    if (n - i >= len && memcmp(text + i, ends[k], len) == 0) return FS_MIN(i + len + l->mpi->tag_blank, n);
  }
  return 0;
}

/* Returns where the next tag behind the text's first byte begins, or n. */
static size_t next_tag(const struct fs_launch *l, const char *text, size_t n) {
  uint64_t rank;
  for (size_t i = 1; i < n; i++) {
    const char *at = memchr(text + i, '[', n - i);
    if (!at) break;
    i = (size_t)(at - text);
    if (tag_length(l, at, n - i, &rank) > 0) return i;
  }
  return n;
}

/* Adds a piece to what is held of a line. Returns false if there is no memory. */
static bool hold(struct fs_launch_held *h, const char *text, size_t n) {
  if (!h->text) h->text = malloc(FS_CONTROL_LINE);
  if (!h->text) return false;
  if (h->len + n <= FS_CONTROL_LINE) memcpy(h->text + h->len, text, n);
  h->len += n;
  return true;
}

/* Takes a piece of the rank of the last tag. `end`: the line ends with it. */
static void take(struct fs_launch *l, struct fs_launch_lines *in, const char *text, size_t n, bool end,
                 fs_line_fn *fn) {
  uint64_t rank = 0;
  size_t tag = tag_length(l, text, n, &rank);
  if (tag > 0 && !in->held) in->held = calloc(l->nodes, sizeof(*in->held));
  if (tag > 0) in->piece_of = in->held && rank < l->nodes ? &in->held[rank] : NULL;
  struct fs_launch_held *h = in->piece_of;
  text += tag;
  n -= tag;
  if (!h || (end && h->len == 0)) {
    fn(l, text, n);
    return;
  }
  if (!hold(h, text, n) || !end) return;
  if (h->len <= FS_CONTROL_LINE) fn(l, h->text, h->len);
  h->len = 0;
}

/* Takes the pieces up to the last tag, and if `end` also the rest. Returns how many bytes it took. */
static size_t take_pieces(struct fs_launch *l, struct fs_launch_lines *in, const char *text, size_t n, bool end,
                          fs_line_fn *fn) {
  size_t done = 0;
  for (size_t next; (next = next_tag(l, text + done, n - done)) < n - done; done += next)
    take(l, in, text + done, next, false, fn);
  if (!end) return done;
  take(l, in, text + done, n - done, true, fn);
  return n;
}

static void cut_lines(struct fs_launch *l, struct fs_launch_lines *in, fs_line_fn *fn) {
  size_t start = 0;
  for (const char *end; (end = memchr(in->text + start, '\n', in->len - start)) != NULL;) {
    size_t n = (size_t)(end - in->text) - start;
    if (!in->skip) take_pieces(l, in, in->text + start, n, true, fn);
    in->skip = false;
    start += n + 1;
  }
  if (in->len - start == sizeof(in->text) && !in->skip) start = take_pieces(l, in, in->text, in->len, false, fn);
  in->len -= start;
  memmove(in->text, in->text + start, in->len);
  if (in->len == sizeof(in->text)) { /* our programs never write such a line */
    in->skip = true;
    in->len = 0;
  }
}

void fs_lines_read(struct fs_launch *l, struct fs_launch_lines *in, fs_line_fn *fn) {
  ssize_t n = read(in->fd, in->text + in->len, sizeof(in->text) - in->len);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n > 0) {
    in->len += (size_t)n;
    cut_lines(l, in, fn);
    return;
  }
  if (in->len > 0 && !in->skip) take_pieces(l, in, in->text, in->len, true, fn);
  in->len = 0;
  close(in->fd);
  in->fd = -1;
  for (uint32_t i = 0; in->held && i < l->nodes; i++) {
    const struct fs_launch_held *h = &in->held[i];
    if (h->len > 0 && h->len <= FS_CONTROL_LINE) fn(l, h->text, h->len);
    free(h->text);
  }
  free(in->held);
  in->held = in->piece_of = NULL;
}

void fs_lines_file(struct fs_launch *l, const char *path) {
  static struct fs_launch_lines in;
  struct stat st;
  in = (struct fs_launch_lines){.fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
  bool file = in.fd >= 0 && fstat(in.fd, &st) == 0 && S_ISREG(st.st_mode);
  while (file && in.fd >= 0) fs_lines_read(l, &in, fs_control_line_in);
  if (in.fd >= 0) close(in.fd);
}
