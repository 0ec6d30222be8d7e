/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What descriptors do within a process, call by call: numbers, copies, ranges, limits, names below /proc, and calls
 * behind the library's back. Run by fd_calls.sh, for the tree that it packs; see fd_show.h.
 */
#include "fd_show.h"

static void numbers(char **argv) {
  int real, pair[2];
  SHOW(in("a.txt"));
  SHOW(in("b.txt"));
  SHOW(close(3));
  SHOW(in("b.txt"));
  SHOW(close(3));
  SHOW(real = open("/dev/null", O_RDONLY));
  SHOW(close(4));
  SHOW(dup(real));
  SHOW(in("a.txt"));
  SHOW(close(4));
  SHOW(close(5));
  SHOW(pipe(pair));
  SHOW(pair[0] * 100 + pair[1]);
  SHOW(close(3));
  SHOW(in("a.txt"));
  SHOW(close(4));
  SHOW(dup(3));
  SHOW(fcntl(3, F_DUPFD, 10));
  SHOW(close(10));
  SHOW(fcntl(3, F_DUPFD_CLOEXEC, 10));
  SHOW(close(3));
  SHOW(socket(AF_UNIX, SOCK_STREAM, 0));
  SHOW(close(5));
  FILE *f = fopen("/dev/zero", "r");
  SHOW(fileno(f));
  SHOW(fclose(f));
  SHOW(in("a.txt"));
  SHOW(close(5));
  DIR *d = opendir("/");
  SHOW(dirfd(d));
  SHOW(closedir(d));
  f = fopen(P("b.txt"), "r");
  SHOW(fileno(f));
  SHOW(fclose(f));
  SHOW(open("/dev/null", O_RDONLY));
  map("in the end");
}

static void copies(char **argv) {
  int a = in("a.txt"), b, c;
  SHOW(b = dup(a));
  line("a", a);
  line("b", b);
  SHOW(c = dup2(a, 20));
  line("c", c);
  SHOW(lseek(b, 0, SEEK_CUR));
  SHOW(lseek(c, 7, SEEK_SET));
  line("a", a);
  SHOW(dup2(a, a));
  SHOW(dup3(a, a, 0));
  SHOW(dup3(a, 21, O_CLOEXEC));
  SHOW(fcntl(21, F_GETFD));
  SHOW(dup3(a, 22, 12345));
  SHOW(dup2(99, 23));
  SHOW(dup2(a, -1));
  SHOW(fcntl(a, F_DUPFD, -1));
  SHOW(fcntl(a, F_DUPFD, 1 << 30));
  SHOW(close(a));
  line("closed", a);
  line("copy", b);
  SHOW(dup2(open("/dev/null", O_RDONLY), b));
  line("null", b);
  line("copy", c);
  SHOW(syscall(SYS_dup, c));
  SHOW(syscall(SYS_dup3, c, 25, O_CLOEXEC));
  line("raw", 25);
  SHOW(syscall(SYS_close, 25));
  line("raw", 25);
  SHOW(syscall(SYS_fcntl, c, F_DUPFD, 30));
  map("copies");
}

static void ranges(char **argv) {
  for (int i = 0; i < 10; i++) (i % 2 ? in("a.txt") : open("/dev/null", O_RDONLY));
  map("opened");
  SHOW(close_range(5, 6, 0));
  map("closed 5-6");
  SHOW(close_range(8, 20, CLOSE_RANGE_CLOEXEC));
  map("8-20 close-on-exec");
  SHOW(close_range(9, 10, CLOSE_RANGE_UNSHARE));
  map("9-10, unshared");
  SHOW(close_range(9, 8, 0));
  SHOW(close_range(9, 10, 77));
  SHOW(in("a.txt"));
  SHOW(in("a.txt"));
  SHOW(open("/dev/null", O_RDONLY));
  line("read", 6);
  closefrom(7);
  map("closed from 7");
  SHOW(close_range(3, ~0u, 0));
  map("all");
  SHOW(in("b.txt"));
  line("read", 3);
}

static int count_open(int *first_error) {
  int n = 0;
  while (in("a.txt") >= 0) n++;
  *first_error = errno;
  return n;
}

static void limits(char **argv) {
  struct rlimit l = {64, 4096};
  int err;
  SHOW(in("a.txt"));
  SHOW(setrlimit(RLIMIT_NOFILE, &l));
  SHOW(count_open(&err));
  SHOW(err == EMFILE);
  SHOW(dup(3));
  SHOW(open("/dev/null", O_RDONLY));
  SHOW(fcntl(3, F_DUPFD, 3));
  SHOW(fcntl(3, F_DUPFD, 64));
  SHOW(dup2(3, 64));
  SHOW(dup2(3, 63));
  line("63", 63);
  SHOW(close(40));
  SHOW(open("/dev/null", O_RDONLY));
  SHOW(close(41));
  SHOW(in("b.txt"));
  line("41", 41);
  SHOW(close(50));
  SHOW(dup(41));
  for (int fd = 3; fd < 64; fd++)
    if (close(fd) != 0) SHOW(fd);
  for (int fd = 3; fd < 64; fd++)
    if (dup2(1, fd) != fd) SHOW(fd);
  SHOW(close_range(3, 63, 0));
  SHOW(count_open(&err));
  SHOW(getrlimit(RLIMIT_NOFILE, &l));
  SHOW(l.rlim_cur);
}

/* With a hard limit that is as low, the library's own descriptors are among the numbers that the program uses. */
static void tight(char **argv) {
  struct rlimit l = {64, 64};
  SHOW(setrlimit(RLIMIT_NOFILE, &l));
  int a = in("a.txt"), b = in("b.txt"), bad = 0;
  line("a", a);
  line("b", b);
  for (int fd = 10; fd < 60; fd++) bad += dup2(fd % 2 ? 2 : a, fd) != fd;
  SHOW(bad);
  line("a", a);
  line("copy", 50);
  SHOW(lseek(40, 0, SEEK_CUR));
  SHOW(close_range(20, 63, 0));
  line("copy", 18);
  SHOW(in("d/e.txt"));
  line("e", 5);
  run(argv[4], "3", "1");
  run(argv[3], "3", "1");
  line("a", a);
  closefrom(3);
  SHOW(in("a.txt"));
  line("a", a);
}

static void many(char **argv) {
  struct rlimit l = {4096, 4096};
  int last = -1, same = 0, right = 0;
  char c, first = 0;
  SHOW(setrlimit(RLIMIT_NOFILE, &l));
  for (int i = 0; i < 50000; i++) {
    int fd = in(i % 2 ? "a.txt" : "b.txt");
    same += fd == last;
    last = fd;
    right += read(fd, &c, 1) == 1 && c == (i % 2 ? 'l' : 'h');
    close(fd);
  }
  SHOW(same);
  SHOW(right);
  int fds[1000];
  for (int i = 0; i < 1000; i++) fds[i] = in("a.txt");
  SHOW(fds[0]);
  SHOW(fds[900]);
  SHOW(fds[999] > fds[900]);
  for (int i = 0; i < 1000; i++) lseek(fds[i], i % 800, SEEK_SET);
  right = 0;
  for (int i = 0; i < 1000; i++) right += lseek(fds[i], 0, SEEK_CUR) == i % 800 && read(fds[i], &first, 1) == 1;
  SHOW(right);
  pid_t pid = fork();
  if (pid == 0) {
    for (int i = 0; i < 1000; i++) right += lseek(fds[i], 0, SEEK_CUR) == i % 800 + 1;
    _exit(right == 2000 ? 0 : 1);
  }
  reap(pid);
  for (int i = 0; i < 1000; i++) right += close(fds[i]) == 0;
  SHOW(right);
}

static void names(char **argv) {
  char link[PATH_MAX], name[64];
  struct stat st, at;
  struct statx sx;
  int a = in("a.txt"), d = open(P("d"), O_RDONLY | O_DIRECTORY);
  line("a", a);
  const char *forms[] = {"/dev/fd/%d", "/proc/self/fd/%d", "/proc/thread-self/fd/%d", "/proc/%d/fd/%d"};
  for (int i = 0; i < 4; i++) {
    if (i < 3)
      snprintf(name, sizeof(name), forms[i], a);
    else
      snprintf(name, sizeof(name), forms[i], getpid(), a);
    dprintf(1, "form %d\n", i);
    SHOW(stat(name, &st));
    SHOW(fstat(a, &at));
    SHOW(st.st_ino == at.st_ino && st.st_dev == at.st_dev && st.st_size == at.st_size && S_ISREG(st.st_mode));
    SHOW(statx(AT_FDCWD, name, 0, STATX_SIZE, &sx));
    SHOW(sx.stx_size);
    SHOW(lstat(name, &st));
    SHOW(S_ISLNK(st.st_mode));
    memset(link, 0, sizeof(link));
    SHOW(readlink(name, link, sizeof(link)) == (ssize_t)strlen(P("a.txt")) && strcmp(link, P("a.txt")) == 0);
    SHOW(readlink(name, link, 5));
    SHOW(access(name, R_OK));
    int again = open(name, O_RDONLY);
    SHOW(again);
    line("opened again", again);
    SHOW(close(again));
    FILE *f = fopen(name, "r");
    SHOW(f != NULL && fgetc(f) == 'l' && fclose(f) == 0);
    SHOW(open(name, O_RDONLY | O_DIRECTORY));
    SHOW(open(name, O_RDONLY | O_NOFOLLOW));
  }
  line("a", a);
  snprintf(name, sizeof(name), "/proc/self/fd/%d", d);
  SHOW(stat(name, &st));
  SHOW(S_ISDIR(st.st_mode));
  SHOW(open(name, O_RDONLY | O_DIRECTORY));
  snprintf(name, sizeof(name), "/proc/self/fd/%d/e.txt", d);
  SHOW(open(name, O_RDONLY));
  SHOW(stat(name, &st));
  DIR *dir = opendir("/proc/self/fd");
  char seen[64] = "";
  for (struct dirent *e; (e = readdir(dir)) != NULL;)
    if (strchr("34567", e->d_name[0]) && e->d_name[1] == '\0') strcat(seen, e->d_name);
  closedir(dir);
  dprintf(1, "listed: %zu\n", strlen(seen));
}

static void behind(char **argv) {
  char byte;
  int a = in("a.txt"), b = in("b.txt");
  line("a", a);
  SHOW(raw(SYS_close, a, 0, 0));
  SHOW(open("/dev/zero", O_RDONLY));
  SHOW(read(a, &byte, 1) == 1 && byte == 0);
  SHOW(close(a));
  SHOW(raw(SYS_close, b, 0, 0));
  FILE *f = fopen("/dev/zero", "r");
  SHOW(fgetc(f));
  SHOW(read(fileno(f), &byte, 1) == 1 && byte == 0);
  SHOW(fclose(f));
  a = in("a.txt");
  SHOW(raw(SYS_close, a, 0, 0));
  DIR *d = opendir("/");
  SHOW(dirfd(d) == a && readdir(d) != NULL);
  SHOW(closedir(d));
  a = in("a.txt");
  SHOW(raw(SYS_close, a, 0, 0));
  b = in("b.txt");
  line("b", b);
  SHOW(a == b);
  SHOW(raw(SYS_dup, in("a.txt"), 0, 0));
  line("raw copy", b + 2);
  SHOW(raw(SYS_dup3, b + 2, 30, 0));
  line("raw copy", 30);
  SHOW(close(30));
}

static const struct test tests[] = {
    {"numbers", numbers}, {"copies", copies}, {"ranges", ranges}, {"limits", limits}, {"tight", tight},
    {"many", many},       {"names", names},   {"behind", behind}, {NULL, NULL},
};

int main(int argc, char **argv) {
  return run_case(tests, argc, argv);
}
