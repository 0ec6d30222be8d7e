/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that have nothing to do with a mount: their results and errors, one line each. Run by outside.sh with and
 * without the library, in a directory far from the mount, in one above it and in "/". Arguments: a directory to work
 * in, its name below "/", and a file to open first, if any.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utmp.h>

#include "rows.h"

/* Each makes something of a template and removes it: 1, or -1; 2 where the template was not filled in. */
static int made(const char *name, const char *template, int fd) {
  if (fd < 0) return -1;
  size_t n = strlen(template);
  struct stat st;
  return strlen(name) != n || memcmp(name + n - 6, "XXXXXX", 6) == 0 || lstat(name, &st) != 0 ? 2 : 1;
}
static int temp_file(const char *template) {
  char b[4096];
  int fd = mkstemp(strcpy(b, template)), r = made(b, template, fd);
  close(fd);
  unlink(b);
  return r;
}
static int temp_directory(const char *template) {
  char b[4096];
  int r = made(b, template, mkdtemp(strcpy(b, template)) != NULL ? 0 : -1);
  rmdir(b);
  return r;
}

static void templates(void) {
  SHOW(temp_file("tXXXXXX"));
  SHOW(temp_file("./tXXXXXX"));
  SHOW(temp_file("out/tXXXXXX"));
  SHOW(temp_file("out/../out/tXXXXXX"));
  SHOW(temp_file("none/tXXXXXX"));
  SHOW(temp_file("tXXXX"));
  SHOW(temp_directory("tXXXXXX"));
  SHOW(temp_directory("./tXXXXXX"));
  SHOW(temp_directory("../tXXXXXX"));
  SHOW(temp_directory("none/tXXXXXX"));
}

static void changes(void) {
  SHOW(mkdir("n", 0700));
  SHOW(mkdir("n/", 0700));
  SHOW(rename("n", "./m"));
  SHOW(rename("m", "n2"));
  SHOW(rmdir("n2"));
  SHOW(rmdir("n2"));
  SHOW(symlink("a", "s"));
  SHOW(link("s", "s2"));
  SHOW(link("s", "s2"));
  SHOW(unlink("s"));
  SHOW(unlink("./s2"));
  SHOW(close(open("../f", O_CREAT | O_RDWR, 0600)));
  SHOW(truncate("../f", 10));
  SHOW(unlink("../f"));
}

static void asks(void) {
  struct stat st;
  struct statx sx;
  SHOW(fstatat(AT_FDCWD, "", &st, AT_EMPTY_PATH));
  SHOW(fstatat(0, "", &st, AT_EMPTY_PATH | 0x40000));
  SHOW(fstatat(AT_FDCWD, "", &st, AT_EMPTY_PATH | 0x40000));
  SHOW(fstatat(AT_FDCWD, "", &st, 0));
  SHOW(fstatat(-1, "", &st, AT_EMPTY_PATH));
  SHOW(statx(AT_FDCWD, "", AT_EMPTY_PATH, 0xfff, &sx));
  SHOW(statx(0, "", AT_EMPTY_PATH | 0x40000, 0xfff, &sx));
  SHOW(access("none/x", F_OK));
  SHOW(open("", O_RDONLY));
  SHOW(chdir("none"));
  SHOW(closedir(NULL));
}

static void descriptors(const char *file) {
  char c;
  int fd = open(file, O_RDONLY);
  SHOW(close_range((unsigned)fd, ~0u, 0x80));
  SHOW(close_range(9, 8, 0));
  SHOW(read(fd, &c, 1));
  SHOW(close(fd));
  SHOW(close(-1));
  SHOW(dup2(5, 1000));
  SHOW(dup2(0, -1));
  SHOW(dup3(0, 0, 0));
  SHOW(fcntl(0, F_DUPFD, 1 << 30));
}

/* closefrom where the kernel lacks close_range. */
static void old_kernel(const char *file) {
  struct sock_filter f[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog p = {4, f};
  int status;
  pid_t pid = fork();
  if (pid == 0) {
    for (int i = 0; i < 4; i++) open("/dev/null", O_RDONLY);
    open(file, O_RDONLY);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, 2, &p) != 0) perror("seccomp");
    closefrom(5);
    for (int i = 3; i < 12; i++) printf("%d ", fcntl(i, F_GETFD));
    printf("\n");
    exit(0);
  }
  SHOW(waitpid(pid, &status, 0) == pid);
}

static void raw_calls(void) {
  char b[4096];
  SHOW(syscall(SYS_getcwd, NULL, 100));
  SHOW(syscall(SYS_getcwd, b, 0));
  SHOW(syscall(SYS_getcwd, b, 1));
  SHOW(syscall(SYS_getcwd, b, sizeof(b)) > 0);
  SHOW(syscall(SYS_openat, AT_FDCWD, "/none", O_RDONLY));
  SHOW(syscall(SYS_faccessat, AT_FDCWD, "/etc", R_OK, 0x100));
}

/* syscall(2) is no cancellation point. */
static void *raw_and_cancelled(void *arg) {
  int p[2];
  char c;
  if (pipe(p) != 0 || write(p[1], "x", 1) != 1) return arg;
  pthread_cancel(pthread_self());
  syscall(SYS_read, p[0], &c, 1);
  syscall(SYS_close, p[0]);
  syscall(SYS_openat, AT_FDCWD, "/none", O_RDONLY);
  printf("not cancelled by raw calls\n");
  read(p[1], &c, 0);
  printf("not cancelled\n");
  return arg;
}

/* A tree deeper than there may be descriptors. */
static int visits;
static int visit(const char *path, const struct stat *st, int type, struct FTW *at) {
  (void)path, (void)st;
  visits += type == FTW_D || type == FTW_DP ? at->level : 100000;
  return 0;
}
static void deep_tree(void) {
  enum { DEEP = 200 };
  struct rlimit was, few = {100, 100};
  getrlimit(RLIMIT_NOFILE, &was);
  few.rlim_max = was.rlim_max;
  for (int i = 0; i < DEEP; i++)
    if (mkdir("deep", 0700) != 0 || chdir("deep") != 0) perror("deep");
  for (int i = 0; i < DEEP; i++)
    if (chdir("..") != 0) perror("..");
  setrlimit(RLIMIT_NOFILE, &few);
  for (int depth = 0; depth <= FTW_DEPTH; depth += FTW_DEPTH) {
    SHOW(nftw("deep", visit, 1, depth));
    SHOW(nftw("deep", visit, 20, depth | FTW_CHDIR));
    SHOW(nftw("./deep/deep", visit, 20, depth | FTW_CHDIR | FTW_PHYS));
  }
  setrlimit(RLIMIT_NOFILE, &was);
  printf("%d visits\n", visits);
}

/* Stacks as small as programs make them, for signal handlers. */
static void on_signal(int number) {
  struct stat st;
  (void)number;
  int fd = open("/etc/passwd", O_RDONLY);
  close(fd);
  close(open("/etc/none", O_RDONLY));
  stat("/none/none", &st);
  unlink("/none/none");
  mkdir("/etc", 0700);
}
static void small_stack(void) {
  static char room[3][8192];
  memset(room, 0x55, sizeof(room));
  stack_t stack = {.ss_sp = room[1], .ss_size = sizeof(room[1])};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
  sigaltstack(&stack, NULL);
  sigaction(SIGUSR1, &action, NULL);
  raise(SIGUSR1);
  int spoilt = 0;
  for (int i = 0; i < 8192; i++) spoilt += room[0][i] != 0x55;
  printf("%s below the stack\n", spoilt > 0 ? "writes" : "nothing");
}

static void *on_small_stack(void *arg) {
  struct stat st;
  (void)arg;
  close(open("a", O_RDWR | O_CREAT, 0600));
  close(open("./a", O_RDONLY));
  close(open("b", O_RDONLY));
  stat("out/none", &st);
  mkdir("out", 0700);
  unlink("a");
  printf("end of a small stack\n");
  return NULL;
}
static void small_thread(void) {
  pthread_t thread;
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, 16384);
  int err = chdir(".") == 0 ? pthread_create(&thread, &attr, on_small_stack, NULL) : -1;
  if (err == 0) pthread_join(thread, NULL);
  printf("pthread_create = %d\n", err); /* not before: it would be a race of lines */
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc > 3 && open(argv[3], O_RDONLY) < 0) return 1;
  if (chdir(argv[1]) != 0) return 1;
  templates();
  changes();
  asks();
  descriptors(argc > 3 ? argv[3] : "/etc/passwd");
  old_kernel(argc > 3 ? argv[3] : "/etc/passwd");
  raw_calls();
  deep_tree();
  struct utmp user = {0};
  updwtmp("./none/../none/wtmp", &user);
  printf("updwtmp: %s\n", strerror(errno));
  pthread_t thread;
  void *result = NULL;
  pthread_create(&thread, NULL, raw_and_cancelled, NULL);
  pthread_join(thread, &result);
  SHOW(result == PTHREAD_CANCELED);
  small_stack();
  small_thread();
  if (chdir("/") != 0) return 1;
  SHOW(temp_file(argv[2]));
  SHOW(temp_directory(argv[2]));
  return 0;
}
