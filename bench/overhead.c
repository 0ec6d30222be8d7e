/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a call that is no dataset's costs through the library: overhead [-n BATCH] [-r ROUNDS] [-s native|library] [-c
 * CALL] DIRECTORY, with libfanstore.so preloaded. Calls each function in turn by the pointer that the program gets (the
 * library's) and by libc's own, batch by batch in one process, and prints a line "CALL native-ns added-ns" of medians
 * for each. -s makes the calls of one side alone, untimed, for a tool that counts instructions or system calls. Knows
 * nothing of FanStore; bench/overhead.py runs it.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common.h"

#define FUNCTIONS(X)                                                                                                   \
  X(ssize_t, read, (int, void *, size_t))                                                                              \
  X(ssize_t, pread, (int, void *, size_t, off_t))                                                                      \
  X(ssize_t, write, (int, const void *, size_t))                                                                       \
  X(off_t, lseek, (int, off_t, int))                                                                                   \
  X(int, fstat, (int, struct stat *))                                                                                  \
  X(int, stat, (const char *, struct stat *))                                                                          \
  X(int, fstatat, (int, const char *, struct stat *, int))                                                             \
  X(int, access, (const char *, int))                                                                                  \
  X(ssize_t, readlink, (const char *, char *, size_t))                                                                 \
  X(int, open, (const char *, int, ...))                                                                               \
  X(int, openat, (int, const char *, int, ...))                                                                        \
  X(int, close, (int))                                                                                                 \
  X(int, dup, (int))                                                                                                   \
  X(int, fcntl, (int, int, ...))                                                                                       \
  X(int, socket, (int, int, int))                                                                                      \
  X(void *, mmap, (void *, size_t, int, int, int, off_t))                                                              \
  X(int, poll, (struct pollfd *, nfds_t, int))                                                                         \
  X(FILE *, fopen, (const char *, const char *))                                                                       \
  X(DIR *, opendir, (const char *))                                                                                    \
  X(int, closedir, (DIR *))                                                                                            \
  X(struct dirent *, readdir, (DIR *))                                                                                 \
  X(char *, getcwd, (char *, size_t))

struct side {
#define X(ret, name, params) ret(*name) params;
  FUNCTIONS(X)
#undef X
};

static struct side library, native;
static char file[PATH_MAX], near[PATH_MAX], missing[PATH_MAX], linked[PATH_MAX], deep[PATH_MAX];
static int fd, dirfd_, null;
static struct stat st;
static char buf[PATH_MAX];

static int list(const struct side *s) {
  DIR *d = s->opendir(buf + sizeof(buf) / 2);
  while (s->readdir(d)) continue;
  return s->closedir(d);
}

/* A name that is not there, without the library; in its place, the one system call that tells whether a symlink was on
   the way. */
static int looked_for(const struct side *s, const char *path) {
  struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
  int r = native.stat(path, &st);
  return s == &native ? r : (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

/* In each: s, the side, and n, how often. The argument is made so that the kernel has as little to do as may be. */
#define CALLS(X)                                                                                                       \
  X(read, s->read(fd, buf, 0))                                                                                         \
  X(pread, s->pread(fd, buf, 1, 0))                                                                                    \
  X(write, s->write(null, buf, 1))                                                                                     \
  X(lseek, s->lseek(fd, 0, SEEK_SET))                                                                                  \
  X(fcntl_GETFL, s->fcntl(fd, F_GETFL))                                                                                \
  X(fstat, s->fstat(fd, &st))                                                                                          \
  X(stat, s->stat(file, &st))                                                                                          \
  X(stat_deep, s->stat(deep, &st))                                                                                     \
  X(stat_relative, s->stat("file", &st))                                                                               \
  X(fstatat, s->fstatat(dirfd_, "file", &st, 0))                                                                       \
  X(access, s->access(file, F_OK))                                                                                     \
  X(open_close, s->close(s->open(file, O_RDONLY)))                                                                     \
  X(openat_close, s->close(s->openat(dirfd_, "file", O_RDONLY)))                                                       \
  X(dup_close, s->close(s->dup(fd)))                                                                                   \
  X(socket_close, s->close(s->socket(AF_UNIX, SOCK_DGRAM, 0)))                                                         \
  X(mmap_munmap, munmap(s->mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0), 1))                                           \
  X(poll, s->poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0))                                                 \
  X(fopen_fclose, fclose(s->fopen(file, "r")))                                                                         \
  X(opendir_closedir, s->closedir(s->opendir(buf + sizeof(buf) / 2)))                                                  \
  X(opendir_list_closedir, list(s))                                                                                    \
  X(getcwd, s->getcwd(buf, sizeof(buf) / 2))                                                                           \
  X(stat_missing, s->stat(near, &st))                                                                                  \
  X(stat_missing_deep, s->stat(missing, &st))                                                                          \
  X(stat_missing_linked, s->stat(linked, &st))                                                                         \
  X(open_missing, s->open(near, O_RDONLY))                                                                             \
  X(access_missing_relative, s->access("missing", F_OK))                                                               \
  X(limit_missing, looked_for(s, near))                                                                                \
  X(limit_missing_deep, looked_for(s, missing))                                                                        \
  X(readlink_no_link, s->readlink(file, buf, sizeof(buf) / 2))

#define X(name, call)                                                                                                  \
  static __attribute__((noinline)) void call_##name(const struct side *s, unsigned n) {                                \
    for (unsigned i = 0; i < n; i++) (void)!(uintptr_t)(call);                                                         \
  }
CALLS(X)
#undef X

struct call {
  const char *name;
  void (*run)(const struct side *s, unsigned n);
};
static const struct call calls[] = {
#define X(name, call) {#name, call_##name},
    CALLS(X)
#undef X
};

static void *symbol(void *where, const char *name) {
  void *p = dlsym(where, name);
  if (!p) errx(1, "%s: not found", name);
  return p;
}

static void find_functions(void) {
  void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  if (!libc) errx(1, "libc.so.6: not found");
#define X(ret, name, params)                                                                                           \
  *(void **)&library.name = symbol(RTLD_DEFAULT, #name);                                                               \
  *(void **)&native.name = symbol(libc, #name);
  FUNCTIONS(X)
#undef X
}

static void use(const char *of_dataset) {
  int ours = open(of_dataset, O_RDONLY);
  if (ours < 0 || read(ours, buf, 1) != 1 || close(ours) != 0) die(of_dataset);
}

static void prepare(const char *dir) {
  snprintf(file, sizeof(file), "%s/file", dir);
  snprintf(deep, sizeof(deep), "%s/some/directories/of/names/that/are/rather/long/as/datasets/have/them", dir);
  snprintf(missing, sizeof(missing), "%s/some/file/that/is/not/there", dir);
  snprintf(near, sizeof(near), "%s/missing", dir);
  snprintf(linked, sizeof(linked), "%s/link", dir);
  if (chdir(dir) != 0) die(dir);
  if (symlink(".", linked) != 0 && errno != EEXIST) die(linked);
  snprintf(linked, sizeof(linked), "%s/link/missing", dir);
  fd = native.open(file, O_RDWR | O_CREAT, 0600);
  null = native.open("/dev/null", O_WRONLY);
  dirfd_ = native.open(dir, O_RDONLY | O_DIRECTORY);
  if (fd < 0 || null < 0 || dirfd_ < 0 || native.write(fd, "x", 1) != 1) die(file);
  for (char *p = deep + strlen(dir) + 1; (p = strchr(p, '/')); *p++ = '/') {
    *p = '\0';
    mkdir(deep, 0700);
  }
  if (mkdir(deep, 0700) != 0 && errno != EEXIST) die(deep);
  snprintf(buf + sizeof(buf) / 2, sizeof(buf) / 2, "%s", dir);
}

static double timed(const struct call *c, const struct side *s, unsigned n) {
  uint64_t start = now();
  c->run(s, n);
  return (double)(now() - start) / n;
}

static void compare(const struct call *c, unsigned rounds, unsigned n) {
  double *plain = calloc(rounds, sizeof(*plain)), *added = calloc(rounds, sizeof(*added));
  if (!plain || !added) die("calloc");
  for (unsigned r = 0; r < rounds; r++) {
    double a = timed(c, r % 2 ? &library : &native, n), b = timed(c, r % 2 ? &native : &library, n);
    plain[r] = r % 2 ? b : a;
    added[r] = r % 2 ? a - b : b - a;
  }
  double base = median(plain, rounds), more = median(added, rounds);
  printf("%s %.1f %.1f\n", c->name, base, more);
  free(plain);
  free(added);
}

int main(int argc, char **argv) {
  unsigned batch = 300, rounds = 301;
  const char *side = NULL, *only = NULL;
  for (int c; (c = getopt(argc, argv, "n:r:s:c:m:")) != -1;) {
    if (c == 'n')
      batch = (unsigned)strtoul(optarg, NULL, 10);
    else if (c == 'r')
      rounds = (unsigned)strtoul(optarg, NULL, 10);
    else if (c == 's')
      side = optarg;
    else if (c == 'c')
      only = optarg;
    else if (c == 'm')
      use(optarg);
    else
      return 2;
  }
  if (optind + 1 != argc || batch == 0 || rounds == 0) {
    fprintf(stderr, "usage: overhead [-n BATCH] [-r ROUNDS] [-s native|library] [-c CALL] [-m FILE] DIRECTORY\n");
    return 2;
  }
  find_functions();
  prepare(argv[optind]);
  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
    const struct call *c = &calls[i];
    if (only && strcmp(only, c->name) != 0) continue;
    c->run(&library, 2);
    c->run(&native, 2);
    if (side)
      c->run(strcmp(side, "native") == 0 ? &native : &library, batch);
    else
      compare(c, rounds, batch);
  }
  return 0;
}
