/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors, streams and directories of a dataset that go to other descriptors, processes or streams, one by one:
 * interposer_shared.sh runs this with the library on a mount, and on the plain directory. Usage: DIR. Made for the tree
 * that the script packs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

#include "calls.h"

static int starts(int fd, const char *text) {
  char buf[64];
  return pread(fd, buf, strlen(text), 0) == (ssize_t)strlen(text) && memcmp(buf, text, strlen(text)) == 0;
}

/* A program switches entries off by -fd, ~fd and the like: they stay as they are, whatever is open at that number. */
static void polls(void) {
  int a = open(P("a.txt"), O_RDONLY), b = open(P("b.txt"), O_RDONLY);
  for (int off = 0; off < 4; off++) {
    struct pollfd p[] = {{a, POLLIN, 0}, {-off - a, POLLIN, 0}, {-off - b, POLLIN, 0}};
    OK(poll(p, 3, 0) == 1 && p[0].fd == a && p[0].revents == POLLIN);
    OK(p[1].fd == -off - a && p[1].revents == 0 && p[2].fd == -off - b && p[2].revents == 0);
  }
  fd_set set, before;
  struct timeval bad = {-1, 0};
  FD_ZERO(&set);
  FD_SET(a, &set);
  before = set;
  OK(select(a + 1, &set, NULL, NULL, &bad) == -1 || FD_ISSET(a, &set));
  OK(memcmp(&set, &before, sizeof(set)) == 0);
  close(a);
  close(b);
}

/* The sender closes its descriptor and opens another file before the receiver looks. */
static void messages(void) {
  int pair[2], status = -1;
  char byte = 'y';
  close(open(P("a.txt"), O_RDONLY));
  OK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    int got = receive_fd(pair[1]);
    if (read(pair[1], &byte, 1) != 1) _exit(2);
    _exit(starts(got, "line 0") ? 0 : 1);
  }
  int fd = open(P("a.txt"), O_RDONLY);
  OK(send_fd(pair[0], fd) == 1);
  close(fd);
  fd = open(P("b.txt"), O_RDONLY);
  OK(write(pair[0], &byte, 1) == 1 && waitpid(pid, &status, 0) == pid && status == 0);
  OK(starts(fd, "hello"));
  close(fd);
  close(pair[0]);
  close(pair[1]);
}

static int rest(DIR *d) {
  int n = 0;
  while (readdir(d) != NULL) n++;
  return n;
}

/* A forked child reads on by itself. */
static void directory_streams(void) {
  int status = 0;
  DIR *d = opendir(P("d"));
  OK(d != NULL && readdir(d) != NULL && readdir(d) != NULL);
  pid_t pid = fork();
  if (pid == 0) _exit(rest(d));
  OK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 10);
  OK(rest(d) == 10);
  rewinddir(d);
  long second = readdir(d) != NULL ? telldir(d) : -1;
  OK(rest(d) == 11);
  seekdir(d, second);
  OK(rest(d) == 11);
  closedir(d);
}

static void reopened(void) {
  char line[64];
  FILE *f = fopen(P("a.txt"), "r");
  int fd = fileno(f);
  OK(fgets(line, sizeof(line), f) != NULL && (f = freopen(P("b.txt"), "r", f)) != NULL && fileno(f) == fd);
  OK(fgets(line, sizeof(line), f) != NULL && strcmp(line, "hello\n") == 0 && starts(fd, "hello"));
  OK((f = freopen("/dev/zero", "r", f)) != NULL && fgetc(f) == 0 && starts(fileno(f), ""));
  int other = open(P("a.txt"), O_RDONLY);
  OK(other != fileno(f) && starts(other, "line 0"));
  OK(close(other) == 0 && fclose(f) == 0);
  OK((f = fopen(P("a.txt"), "r")) != NULL && fgetc(f) == 'l' && (f = freopen(NULL, "r", f)) != NULL);
  OK(fgets(line, sizeof(line), f) != NULL && strcmp(line, "line 0\n") == 0 && fclose(f) == 0);
  OK((f = fopen(P("a.txt"), "r")) != NULL && freopen(P("none"), "r", f) == NULL && errno == ENOENT);
}

static void wide(void) {
  wchar_t line[64];
  int n = 0;
  FILE *f = fopen(P("wide.txt"), "r");
  OK(fwide(f, 0) == 0 && fgetws(line, 64, f) != NULL && wcscmp(line, L"\u00e4\u00f6\u00fc\n") == 0 && fwide(f, 0) > 0);
  OK(fgetwc(f) == L'\u65e5' && ungetwc(L'x', f) == L'x' && getwc(f) == L'x' && fclose(f) == 0);
  f = fopen(P("wide.txt"), "r");
  OK(fwscanf(f, L"%*ls %n", &n) == 0 && n == 4 && fclose(f) == 0);
  int fd = open(P("a.txt"), O_RDONLY);
  OK(lseek(fd, 7, SEEK_SET) == 7 && (f = fdopen(fd, "r")) != NULL);
  OK(fgetws(line, 64, f) != NULL && wcscmp(line, L"line 1\n") == 0 && fclose(f) == 0);
}

static void named_by_number(void) {
  char path[64], byte;
  int fd = open(P("a.txt"), O_RDONLY);
  OK(lseek(fd, 7, SEEK_SET) == 7);
  snprintf(path, sizeof(path), "/dev/fd/%d", fd);
  int again = open(path, O_RDONLY);
  OK(starts(again, "line 0") && read(again, &byte, 1) == 1 && byte == 'l' && close(again) == 0);
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  FILE *f = fopen(path, "r");
  OK(f != NULL && fgetc(f) == 'l' && fclose(f) == 0 && lseek(fd, 0, SEEK_CUR) == 7);
  close(fd);
}

/* As shells do for "read x <&5": all copies go on from where the last one was. */
static void standard_input(void) {
  char c[8] = "";
  int fd = open(P("a.txt"), O_RDONLY), copy = dup(fd);
  for (int i = 0; i < 3; i++) {
    OK(close(0) == 0 && dup2(fd, 0) == 0);
    OK(read(0, c + 2 * i, 1) == 1 && read(copy, c + 2 * i + 1, 1) == 1);
  }
  OK(memcmp(c, "line 0", 6) == 0 && lseek(fd, 0, SEEK_CUR) == 6 && starts(fd, "line 0"));
  OK((fcntl(0, F_GETFD) & FD_CLOEXEC) == 0 && close(fd) == 0 && close(copy) == 0);
  OK(close(0) == 0 && open(P("b.txt"), O_RDONLY) == 0 && starts(0, "hello"));
}

int main(int argc, char **argv) {
  if (argc != 2 || setlocale(LC_ALL, "C.UTF-8") == NULL) return 2;
  base = argv[1];
  polls();
  messages();
  directory_streams();
  reopened();
  wide();
  named_by_number();
  standard_input();
  printf("%d failures\n", failures);
  return failures != 0;
}
