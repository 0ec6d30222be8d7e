/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job that writes a checkpoint now and then, as training does: checkpoint DIR MIB COUNT PAUSE_MS. Each is written by
 * 1 MiB to a temporary name, synced and renamed; it prints how many milliseconds that took, then sleeps.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

#define MIB ((size_t)1 << 20)

static void write_one(const char *dir, unsigned long number, unsigned long mib, char *buf) {
  char temporary[4096], name[4096];
  snprintf(temporary, sizeof(temporary), "%s/temporary", dir);
  snprintf(name, sizeof(name), "%s/checkpoint.%lu", dir, number);
  int fd = open(temporary, O_CREAT | O_TRUNC | O_WRONLY, 0644);
  if (fd < 0) die(temporary);
  for (unsigned long i = 0; i < mib; i++) {
    memcpy(buf, &i, sizeof(i)); /* no two blocks alike */
    if (write(fd, buf, MIB) != (ssize_t)MIB) die(temporary);
  }
  if (fsync(fd) < 0 || close(fd) < 0 || rename(temporary, name) < 0) die(name);
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fputs("usage: checkpoint DIR MIB COUNT PAUSE_MS\n", stderr);
    return 2;
  }
  unsigned long mib = strtoul(argv[2], NULL, 10), count = strtoul(argv[3], NULL, 10),
                pause = strtoul(argv[4], NULL, 10);
  char *buf = malloc(MIB);
  if (!buf) die("memory");
  memset(buf, 'c', MIB);
  for (unsigned long i = 0; i < count; i++) {
    uint64_t begin = now();
    write_one(argv[1], i, mib, buf);
    printf("checkpoint %.2f\n", (double)(now() - begin) / 1e6);
    fflush(stdout);
    usleep((useconds_t)(pause * 1000));
  }
  return 0;
}
