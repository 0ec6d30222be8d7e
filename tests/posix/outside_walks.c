/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program does outside all mounts, with the library loaded and a file of a dataset open: walks of trees deeper
 * than there are descriptors, system calls by number, expansion of words. Prints the answers, for comparison with those
 * without the library: outside_walks DIRECTORY [FILE BELOW A MOUNT]. "outside_walks library PATH": descriptors that
 * dlopen keeps. "outside_walks names PATH": what fts and nftw see there.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <linux/openat2.h>
#include <mntent.h>
#include <nl_types.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utmp.h>
#include <wordexp.h>

#include "rows.h"

static int steps, deepest;
static unsigned long sum;

static void mix(const char *text, unsigned long more) {
  for (; *text != '\0'; text++) sum = sum * 31 + (unsigned char)*text;
  sum = sum * 31 + more;
  steps++;
}
static int step(const char *path, const struct stat *st, int type, struct FTW *at) {
  (void)st;
  if (at->level > deepest) deepest = at->level;
  mix(path, (unsigned long)(type * 64 + at->base + at->level));
  return 0;
}
static int old_step(const char *path, const struct stat *st, int type) {
  (void)st;
  mix(path, (unsigned long)type);
  return 0;
}

static void walk(const char *path, int fds, int flags) {
  char before[4096], after[4096];
  steps = deepest = 0;
  sum = 0;
  getcwd(before, sizeof(before));
  int r = nftw(path, step, fds, flags);
  printf("nftw %s %d %x: %d %s, %d steps, %d deep, %lx, %d\n", path, fds, flags, r, r != 0 ? strerror(errno) : "",
         steps, deepest, sum, strcmp(before, getcwd(after, sizeof(after))));
}

/* A directory in the other, `depth` of them, with a few files. */
static void make_deep(const char *name, int depth) {
  char here[4096];
  getcwd(here, sizeof(here));
  for (int i = 0; i < depth; i++) {
    mkdir(i == 0 ? name : "dd", 0755);
    chdir(i == 0 ? name : "dd");
    if (i % 50 == 0) mkdir("empty", 0755), close(open("file", O_CREAT | O_RDWR, 0644)), symlink("file", "link");
  }
  chdir(here);
}

static void walks(void) {
  struct rlimit low = {64, 64};
  make_deep("deep", 300);
  make_deep("deeper", 1800); /* longer than PATH_MAX */
  setrlimit(RLIMIT_NOFILE, &low);
  static const int fds[] = {-1, 0, 1, 2, 7, 40};
  for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++)
    for (int flags = 0; flags < 16; flags++) walk("deep", fds[i], flags);
  walk("deeper", 1, 0);
  walk("deeper", 10, 0);
  walk("deeper", 10, FTW_PHYS | FTW_DEPTH);
  steps = 0, sum = 0;
  int r = ftw("deep", old_step, 5);
  printf("ftw: %d, %d steps, %lx\n", r, steps, sum);
}

/* fts, in and out of the directories, and by paths. */
static void streams(void) {
  static const int options[] = {FTS_PHYSICAL, FTS_PHYSICAL | FTS_NOCHDIR, FTS_LOGICAL, FTS_PHYSICAL | FTS_SEEDOT};
  for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
    FTS *walk = fts_open((char *const[]){"deep", "none", NULL}, options[i], NULL);
    steps = deepest = 0, sum = 0;
    for (FTSENT *e; walk != NULL && (e = fts_read(walk)) != NULL;) {
      mix(e->fts_path, (unsigned long)e->fts_info);
      if (e->fts_level > deepest) deepest = e->fts_level;
      if (e->fts_info == FTS_D && fts_children(walk, FTS_NAMEONLY) == NULL) mix("empty", 0);
      if (strcmp(e->fts_name, "link") == 0 && e->fts_number++ == 0) fts_set(walk, e, FTS_FOLLOW);
    }
    printf("fts %x: %d, %d steps, %d deep, %lx\n", options[i], walk == NULL ? -2 : fts_close(walk), steps, deepest,
           sum);
  }
}

static int print(const char *path, const struct stat *st, int type, struct FTW *at) {
  (void)st, (void)type;
  return puts(path + at->base) < 0;
}
static int names(const char *path) {
  FTS *walk = fts_open((char *const[]){(char *)path, NULL}, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
  for (FTSENT *e; walk != NULL && (e = fts_read(walk)) != NULL;)
    if (e->fts_info != FTS_DP) puts(e->fts_name);
  return walk == NULL || fts_close(walk) != 0 || nftw(path, print, 8, 0) != 0;
}

static long restricted(const char *path, uint64_t resolve) {
  struct open_how how = {.flags = O_RDONLY, .resolve = resolve};
  long fd = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
  return fd >= 0 ? close((int)fd) : -1;
}
static void restrictions(void) {
  for (uint64_t resolve = RESOLVE_NO_XDEV; resolve <= RESOLVE_IN_ROOT; resolve *= 2) {
    SHOW(restricted("deep/file", resolve));
    SHOW(restricted("deep/link", resolve));
    SHOW(restricted("deep/../deep/dd", resolve));
    SHOW(restricted("deep/dd/none/x", resolve));
    SHOW(restricted("../none", resolve));
    SHOW(restricted("/proc/self/cwd/deep", resolve));
  }
}

static void numbers(void) {
  char buf[4096];
  int ends[2];
  sigset_t none;
  sigemptyset(&none);
  pipe(ends);
  write(ends[1], "xx", 2);
  SHOW(syscall(SYS_getcwd, NULL, 0));
  SHOW(syscall(SYS_getcwd, buf, 0));
  SHOW(syscall(SYS_getcwd, buf, 2));
  SHOW(syscall(SYS_getcwd, NULL, 4096));
  SHOW(syscall(SYS_utimensat, AT_FDCWD, NULL, NULL, 0));
  SHOW(syscall(SYS_read, -1, buf, 1));
  SHOW(syscall(SYS_read, ends[0], buf, 1));
  SHOW(syscall(SYS_pread64, ends[0], buf, 1, 0));
  struct pollfd p = {.fd = ends[0], .events = POLLIN};
  struct timespec t = {0, 500000000}, zero = {0, 0};
  SHOW(syscall(SYS_ppoll, &p, 1, &t, NULL, 8));
  printf("time left: %d\n", t.tv_nsec != 500000000);
  SHOW(syscall(SYS_ppoll, &p, 1, &zero, &none, 3));
  fd_set set;
  FD_ZERO(&set);
  FD_SET(ends[0], &set);
  t = (struct timespec){0, 500000000};
  SHOW(syscall(SYS_pselect6, ends[0] + 1, &set, NULL, NULL, &t, NULL));
  printf("time left: %d\n", t.tv_nsec != 500000000);
  SHOW(syscall(1000));
}

static _Atomic int stage;
static int input;
static void *reader(void *arg) {
  char c;
  stage = 1;
  while (stage != 2) sched_yield();
  stage = syscall(SYS_read, input, &c, 1) == 1 ? 3 : 4; /* no cancellation point */
  pthread_testcancel();
  return arg;
}
static void cancelled(void) {
  pthread_t thread;
  int ends[2];
  pipe(ends);
  write(ends[1], "x", 1);
  input = ends[0];
  pthread_create(&thread, NULL, reader, NULL);
  while (stage != 1) sched_yield();
  pthread_cancel(thread);
  stage = 2;
  pthread_join(thread, NULL);
  printf("a cancelled thread's syscall(SYS_read): %d\n", stage);
}

static void words(void) {
  static const char *const texts[] = {"deep/*",         "*;",         "*|",           "a*&",      "*(",       "{*",
                                      "$(echo deep/*)", "\"deep/*\"", "'*' deep/f*",  "deep/\\*", "$((2*3))", "[",
                                      "deep/[ef]*",     "none*",      "${X:-deep/*}", "a;*"};
  for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
    wordexp_t w = {0};
    int r = wordexp(texts[i], &w, 0);
    printf("wordexp %s: %d", texts[i], r);
    for (size_t j = 0; r == 0 && j < w.we_wordc; j++) printf(" <%s>", w.we_wordv[j]);
    putchar('\n');
    if (r == 0) wordfree(&w);
  }
}

/* Functions that use a name or a directory inside libc. */
static void inside(void) {
  char text[4096];
  off64_t at = 0;
  const char *name = tempnam("deep", "pre");
  printf("tempnam: %.8s\n", name == NULL ? "none" : name);
  printf("ftok: %d %d\n", ftok("deep/file", 1) != -1, ftok("none", 1));
  FILE *mounts = setmntent("/proc/mounts", "r");
  printf("setmntent: %d %d\n", mounts != NULL && getmntent(mounts) != NULL && endmntent(mounts) == 1,
         setmntent("none", "r") == NULL);
  printf("catopen: %d\n", catopen("deep/file", 0) == (nl_catd)-1);
  close(open("logins", O_CREAT | O_WRONLY, 0600));
  updwtmp("logins", &(struct utmp){.ut_type = USER_PROCESS, .ut_pid = 77});
  utmpname("logins");
  const struct utmp *entry = getutent();
  printf("utmp: %d\n", entry == NULL ? -1 : entry->ut_pid);
  endutent();
  printf("getdirentries: %d\n", getdirentries(open("deep", O_RDONLY), text, sizeof(text), &at) > 0);
}

static int descriptors(void) {
  int n = 0;
  DIR *dir = opendir("/proc/self/fd");
  while (readdir(dir) != NULL) n++;
  closedir(dir);
  return n;
}

static int library(const char *path) {
  int before = descriptors();
  for (int i = 0; i < 100; i++) {
    void *handle = dlopen(path, RTLD_NOW);
    if (handle == NULL) return puts(dlerror()), 1;
    dlclose(handle);
  }
  printf("descriptors kept: %s\n", descriptors() - before < 5 ? "few" : "many");
  return 0;
}

int main(int argc, char **argv) {
  if (strcmp(argv[1], "library") == 0) return library(argv[2]);
  if (strcmp(argv[1], "names") == 0) return names(argv[2]);
  if (argc > 2 && open(argv[2], O_RDONLY) < 0) return 1;
  if (argc <= 2) open("/dev/null", O_RDONLY);
  chdir(argv[1]);
  walks();
  streams();
  restrictions();
  numbers();
  cancelled();
  words();
  inside();
  return 0;
}
