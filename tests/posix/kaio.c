/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernel AIO by libaio, and liburing: kaio FILE OTHER [NEW]. Prints the same on a plain directory and on a mount. FILE
 * (@N: the inherited descriptor N) is read, beside OTHER, a real file; NEW is made, written, synced and read again.
 */
#include <fcntl.h>
#include <libaio.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define REQUESTS 6

static io_context_t context;
static struct iocb block[REQUESTS];
static char text[REQUESTS][64];

static void submit(int n) {
  struct iocb *list[REQUESTS], before[REQUESTS];
  struct io_event event[REQUESTS];
  for (int i = 0; i < n; i++) {
    list[i] = block + i;
    before[i] = block[i];
  }
  int r = io_submit(context, n, list);
  printf("submitted %d of %d, unchanged %d\n", r, n, memcmp(before, block, (size_t)n * sizeof(*before)) == 0);
  if (r <= 0) return;
  int got = io_getevents(context, r, r, event, NULL);
  for (int i = 0; i < got; i++)
    printf("event of %ld: %ld %ld, %d\n", (long)(event[i].obj - block), (long)event[i].res, (long)event[i].res2,
           event[i].data == event[i].obj);
  for (int i = 0; i < n; i++) printf("text %d: %s\n", i, text[i]);
  memset(text, 0, sizeof(text));
}

static void prepare(int i, int fd, int write, size_t n, long long at) {
  (write ? io_prep_pwrite : io_prep_pread)(block + i, fd, text[i], n, at);
  block[i].data = block + i;
}

static void reads(const char *path, int real) {
  int fd = path[0] == '@' ? atoi(path + 1) : open(path, O_RDONLY), bell = eventfd(0, EFD_NONBLOCK);
  unsigned long long rung = 0;
  struct iovec parts[2] = {{text[2], 3}, {text[2] + 3, 5}};
  prepare(0, fd, 0, 10, 2);
  io_set_eventfd(block, bell);
  prepare(1, real, 0, 10, 0);
  prepare(2, fd, 0, 0, 0);
  io_prep_preadv(block + 2, fd, parts, 2, 4);
  block[2].data = block + 2;
  prepare(3, fd, 0, 10, 1 << 30); /* past the end */
  prepare(4, real, 0, 10, 5);
  submit(5);
  printf("bell %zd %llu\n", read(bell, &rung, sizeof(rung)), rung);
  prepare(0, fd, 0, 10, 2);
  prepare(1, fd, 1, 10, 0); /* open for reading: the second one is refused */
  prepare(2, fd, 0, 10, 2);
  submit(3);
  prepare(0, fd, 1, 10, 0);
  submit(1);
  prepare(0, fd, 0, 10, -1);
  submit(1);
  close(fd);
  submit(1);
  close(bell);
}

static void writes(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0644);
  printf("made %d\n", fd >= 0);
  strcpy(text[0], "hello");
  strcpy(text[1], "world");
  prepare(0, fd, 1, 5, 0);
  prepare(1, fd, 1, 5, 5);
  submit(2);
  io_prep_fdsync(block, fd);
  block[0].data = block;
  prepare(1, fd, 0, 20, 1);
  submit(2);
  close(fd);
}

int main(int argc, char **argv) {
  struct io_uring ring;
  printf("setup %d\n", io_setup(16, &context));
  reads(argv[1], open(argv[2], O_RDONLY));
  if (argc > 3) writes(argv[3]);
  printf("destroy %d\n", io_destroy(context));
  int r = io_uring_queue_init(4, &ring, 0);
  printf("ring %d\n", r);
  if (r == 0) io_uring_queue_exit(&ring);
  return 0;
}
