/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads every file of a directory by read, mmap and stdio, in four threads and a forked child, and prints one checksum:
 * sanitizers DIRECTORY. With a second argument it then reads past the end of a buffer, for a sanitizer to find.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(x)                                                                                                        \
  do {                                                                                                                 \
    if (!(x)) {                                                                                                        \
      perror(#x);                                                                                                      \
      exit(9);                                                                                                         \
    }                                                                                                                  \
  } while (0)

static const char *directory;

static unsigned long checksum(const unsigned char *p, size_t n) {
  unsigned long h = 5381;
  for (size_t i = 0; i < n; i++) h = h * 33 + p[i];
  return h;
}

static unsigned long one_file(const char *path, size_t size) {
  unsigned char *buf = malloc(size + 1);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  MUST(fd >= 0 && read(fd, buf, size + 1) == (ssize_t)size);
  unsigned long h = checksum(buf, size);
  if (size > 0) {
    void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    MUST(p != MAP_FAILED && checksum(p, size) == h && munmap(p, size) == 0);
  }
  MUST(close(fd) == 0);
  FILE *f = fopen(path, "r");
  MUST(f != NULL && fread(buf, 1, size + 1, f) == size && checksum(buf, size) == h && fclose(f) == 0);
  free(buf);
  return h;
}

static void *all_files(void *sum) {
  char path[PATH_MAX];
  struct stat st;
  DIR *d = opendir(directory);
  MUST(d != NULL);
  for (const struct dirent *e; (e = readdir(d)) != NULL;) {
    snprintf(path, sizeof(path), "%s/%s", directory, e->d_name);
    MUST(stat(path, &st) == 0);
    if (S_ISREG(st.st_mode)) *(unsigned long *)sum += one_file(path, (size_t)st.st_size);
  }
  closedir(d);
  return NULL;
}

int main(int argc, char **argv) {
  pthread_t thread[4];
  unsigned long sum[4] = {0}, mine = 0;
  int status = -1;
  directory = argv[1];
  for (int i = 0; i < 4; i++) MUST(pthread_create(&thread[i], NULL, all_files, &sum[i]) == 0);
  for (int i = 0; i < 4; i++) MUST(pthread_join(thread[i], NULL) == 0 && sum[i] == sum[0]);
  pid_t pid = fork();
  if (pid == 0) {
    all_files(&mine);
    _exit(mine == sum[0] ? 0 : 1);
  }
  MUST(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
  if (argc > 2) {
    char path[PATH_MAX], *small = malloc(10);
    snprintf(path, sizeof(path), "%s/f3", directory);
    int fd = open(path, O_RDONLY);
    MUST(read(fd, small, 100) == 100);
    free(small);
  }
  printf("%lx\n", sum[0]);
  return 0;
}
