/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists directories by system calls, for outputs.sh: linked statically it runs under fanstore-static, linked
 * dynamically with the library, and says the same.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      printf("line %d: %s (errno %d)\n", __LINE__, #condition, errno);                                                 \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

struct old_dirent {
  unsigned long ino, off;
  unsigned short len;
  char name[];
};
#define NAMES 6000
static char names[NAMES][256];
static int count;

static int open_dir(const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  CHECK(fd >= 0);
  return fd;
}

/* Names, types and inodes, read by `size` bytes; no position may be larger than `last`. */
static int list(const char *path, size_t size, int64_t last) {
  char buf[32768] __attribute__((aligned(8)));
  int fd = open_dir(path);
  for (ssize_t n; (n = getdents64(fd, buf, size)) != 0;) {
    CHECK(n > 0 && (size_t)n <= size);
    struct dirent64 *d;
    for (ssize_t at = 0; at < n; at += d->d_reclen) {
      d = (struct dirent64 *)(buf + at);
      CHECK(d->d_off > 0 && d->d_off <= last);
      printf("%s %d %lu\n", d->d_name, d->d_type, (unsigned long)d->d_ino);
    }
  }
  return 0;
}

#ifdef SYS_getdents
static int list_old(const char *path, size_t size) {
  char buf[32768] __attribute__((aligned(8)));
  int fd = open_dir(path);
  for (long n; (n = syscall(SYS_getdents, fd, buf, size)) != 0;) {
    CHECK(n > 0 && (size_t)n <= size);
    struct old_dirent *d;
    for (long at = 0; at < n; at += d->len) {
      d = (struct old_dirent *)(buf + at);
      printf("%s %d %lu\n", d->name, buf[at + d->len - 1], d->ino);
    }
  }
  return 0;
}
#endif

/* What is too small for one name: EINVAL, and the position stays. */
static void too_small(const char *path) {
  char buf[24] __attribute__((aligned(8)));
  int fd = open_dir(path);
  CHECK(getdents64(fd, buf, 24) == 24); /* "." */
  CHECK(getdents64(fd, buf, 8) == -1 && errno == EINVAL);
  CHECK(getdents64(fd, buf, 24) == 24 && strcmp(((struct dirent64 *)buf)->d_name, "..") == 0);
  close(fd);
}

static int seek(const char *path) {
  static long where[NAMES];
  DIR *d = opendir(path);
  CHECK(d != NULL);
  for (struct dirent *e; (where[count] = telldir(d), e = readdir(d)) != NULL;) strcpy(names[count++], e->d_name);
  for (int k = 0; k < count && k < 200; k++) {
    int i = (int)(k * 7919L % count);
    seekdir(d, where[i]);
    struct dirent *e = readdir(d);
    CHECK(e != NULL && strcmp(e->d_name, names[i]) == 0);
  }
  rewinddir(d);
  int again = 0;
  for (struct dirent *e; (e = readdir(d)) != NULL;) CHECK(strcmp(e->d_name, names[again++]) == 0);
  CHECK(again == count);
  closedir(d);
  too_small(path);
  printf("%d\n", count);
  return 0;
}

static long take(int fd) {
  char buf[2048] __attribute__((aligned(8)));
  long n = getdents64(fd, buf, sizeof(buf)), records = 0;
  CHECK(n >= 0);
  for (long at = 0; at < n; at += ((struct dirent64 *)(buf + at))->d_reclen) records++;
  return records;
}

/* By a descriptor, a copy of it and a child in turn: together they see each name once. */
static int share(const char *path) {
  int fd = open_dir(path), copy = dup(fd), status;
  for (long n = 1; n > 0; count += (int)n) {
    n = take(fd) + take(copy);
    pid_t child = fork();
    if (child == 0) _exit((int)take(fd));
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    n += WEXITSTATUS(status);
  }
  printf("%d\n", count);
  return 0;
}

/* Removes what it lists, some names at a time. */
static void empty(int fd) {
  char buf[300] __attribute__((aligned(8)));
  for (long n; (n = getdents64(fd, buf, sizeof(buf))) != 0;) {
    CHECK(n > 0);
    struct dirent64 *d;
    for (long at = 0; at < n; at += d->d_reclen) {
      d = (struct dirent64 *)(buf + at);
      if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0) continue;
      if (d->d_type == DT_DIR) {
        int below = openat(fd, d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        CHECK(below >= 0);
        empty(below);
        close(below);
      }
      CHECK(unlinkat(fd, d->d_name, d->d_type == DT_DIR ? AT_REMOVEDIR : 0) == 0);
    }
  }
}

/* A directory that is removed while it is open lists nothing, or the two dots. */
static int remove_all(const char *path) {
  int fd = open_dir(path);
  empty(fd);
  CHECK(rmdir(path) == 0);
  CHECK(lseek(fd, 0, SEEK_SET) == 0 && take(fd) <= 2 && take(fd) == 0);
  CHECK(openat(fd, "x", O_RDONLY) == -1 && errno == ENOENT);
  return 0;
}

int main(int argc, char **argv) {
  size_t size = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
  CHECK(argc > 2);
  if (strcmp(argv[1], "list") == 0) return list(argv[2], size, argc > 4 ? UINT32_MAX : INT64_MAX);
#ifdef SYS_getdents
  if (strcmp(argv[1], "old") == 0) return list_old(argv[2], size);
#endif
  if (strcmp(argv[1], "seek") == 0) return seek(argv[2]);
  if (strcmp(argv[1], "share") == 0) return share(argv[2]);
  return remove_all(argv[2]);
}
