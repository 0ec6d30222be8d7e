/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends while a thread reads files below a mount: main returns, and libc's last flush of stdout waits
 * for the reader of a full pipe, so that the thread goes on after the destructors. Arguments: a
 * mount, and a name below it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char path[4096];

static void *reads(void *arg) {
  char buf[64];
  for (;;) {
    int fd = open(path, O_RDONLY);
    if (fd < 0 || read(fd, buf, sizeof(buf)) < 0) _exit(3);
    close(fd);
  }
  return arg;
}

int main(int argc, char **argv) {
  pthread_t thread;
  if (argc != 3) return 2;
  snprintf(path, sizeof(path), "%s/%s", argv[1], argv[2]);
  fcntl(1, F_SETFL, O_NONBLOCK);
  while (write(1, "0123456789", 10) > 0) continue;
  fcntl(1, F_SETFL, 0);
  puts("last");
  if (pthread_create(&thread, NULL, reads, NULL) != 0) return 2;
  usleep(100000);
  return 0;
}
