/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fd_reopened DIRECTORY SECONDS: threads write records into the same files, and open and close those for each record,
 * so that one's open and write come while another one's close is the last. What was written and closed is read back,
 * now and then, and at the end. Files f0 ... of DIRECTORY exist. Exit status 1 with a line for what is wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FILES 2
#define OF_EACH 2 /* threads */
#define RECORD (256u << 10)
#define PLACES 32 /* of each thread */

static const char *dir;
static double until;
static _Atomic unsigned failed;
static unsigned records[FILES * OF_EACH];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void name_of(char *path, size_t size, unsigned file) {
  snprintf(path, size, "%s/f%u", dir, file);
}

static void contents(uint64_t *to, unsigned thread, unsigned i) {
  for (unsigned w = 0; w < RECORD / 8; w++)
    to[w] = (uint64_t)(thread + 1) << 56 | (uint64_t)(i + 1) << 16 | (w & 0xffff);
}

static off_t place(unsigned thread, unsigned i) {
  return (off_t)(i % PLACES * OF_EACH + thread % OF_EACH) * RECORD;
}

static void wrong(const char *what, unsigned thread, unsigned i, ssize_t n) {
  if (failed++ < 10) printf("%s of thread %u, record %u: %zd, %s\n", what, thread, i, n, strerror(errno));
}

static void check(unsigned thread, unsigned i) {
  static _Thread_local uint64_t want[RECORD / 8], got[RECORD / 8];
  char path[4096];
  name_of(path, sizeof(path), thread / OF_EACH);
  contents(want, thread, i);
  memset(got, 0, sizeof(got));
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = pread(fd, got, RECORD, place(thread, i));
  if (n != RECORD || memcmp(want, got, RECORD) != 0) wrong("lost: pread", thread, i, n);
  close(fd);
}

static void *write_records(void *arg) {
  static _Thread_local uint64_t record[RECORD / 8];
  unsigned thread = (unsigned)(uintptr_t)arg, seed = thread, i;
  char path[4096];
  name_of(path, sizeof(path), thread / OF_EACH);
  for (i = 0; now() < until; i++) {
    contents(record, thread, i);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t n = pwrite(fd, record, RECORD, place(thread, i));
    if (n != RECORD) wrong("pwrite", thread, i, n);
    if (close(fd) != 0) wrong("close", thread, i, -1);
    if (rand_r(&seed) % 4 == 0) check(thread, i);
  }
  records[thread] = i;
  return NULL;
}

int main(int argc, char **argv) {
  pthread_t t[FILES * OF_EACH];
  unsigned all = 0;
  if (argc < 3) return 2;
  dir = argv[1];
  until = now() + atof(argv[2]);
  for (uintptr_t k = 0; k < FILES * OF_EACH; k++) pthread_create(&t[k], NULL, write_records, (void *)k);
  for (unsigned k = 0; k < FILES * OF_EACH; k++) pthread_join(t[k], NULL);
  for (unsigned k = 0; k < FILES * OF_EACH; k++) {
    for (unsigned i = records[k] < PLACES ? 0 : records[k] - PLACES; i < records[k]; i++) check(k, i);
    all += records[k];
  }
  printf("%u records, %u wrong\n", all, (unsigned)failed);
  return failed != 0;
}
