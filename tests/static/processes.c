/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients of processes.sh, linked statically. kill PROGRAM: children killed while they execute PROGRAM can be
 * waited for. fifo DIR: opens that wait for a writer, by way of a dataset's directory, hold up nobody else. other
 * USER DIR: somebody who became another user gets nothing by way of DIR. names FILE DIR: /proc/1 is not descriptor 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int kill_children(const char *program) {
  int status, n = 400, ended = 0;
  alarm(60);
  for (int i = 0; i < n; i++) {
    pid_t child = fork();
    if (child == 0) {
      execl(program, program, "-n", (char *)NULL);
      _exit(127);
    }
    for (volatile int k = rand() % (i % 2 ? 300000 : 60000); k > 0; k--) {
    }
    kill(child, SIGKILL);
    ended += waitpid(child, &status, 0) == child;
  }
  return ended != n;
}

static int open_fifos(const char *dir) {
  int at = open(dir, O_RDONLY | O_DIRECTORY), bad = 0;
  pid_t child[20];
  for (int i = 0; i < 20; i++) {
    child[i] = fork();
    if (child[i] == 0) _exit(openat(at, "../../fifo", O_RDONLY) < 0);
  }
  alarm(20);
  usleep(300000);
  int fd = openat(at, "../../fifo", O_WRONLY);
  if (fd < 0) return 2;
  for (int i = 0; i < 20; i++) {
    int status = 1;
    waitpid(child[i], &status, 0);
    bad += status != 0;
  }
  return bad != 0;
}

static int as_other(const char *user, const char *dir) {
  int at = open(dir, O_RDONLY | O_DIRECTORY);
  if (setgroups(0, NULL) != 0 || setgid((gid_t)atoi(user)) != 0 || setuid((uid_t)atoi(user)) != 0) return 77;
  if (open("/proc/self/status", O_RDONLY) < 0) return 77;
  if (openat(at, "../../secret", O_RDONLY) >= 0) return 1;
  return unlinkat(at, "../../secret", 0) == 0 || fchmodat(at, "../../secret", 0666, 0) == 0 || errno != EACCES;
}

static int names(const char *dir) {
  struct stat root, st;
  int fd = open(dir, O_RDONLY | O_DIRECTORY);
  char link[300] = "", name[64];
  dup2(fd, 1);
  int process = open("/proc/1", O_RDONLY | O_DIRECTORY);
  snprintf(name, sizeof(name), "/proc/self/fd/%d", process);
  if (readlink(name, link, sizeof(link) - 1) < 0 || strcmp(link, "/proc/1") != 0) return 1;
  /* A child's descriptor is the child's. */
  pid_t child = fork();
  if (child == 0) {
    dup2(open("/", O_RDONLY), 1);
    pause();
  }
  usleep(200000);
  snprintf(name, sizeof(name), "/proc/%d/fd/1", (int)child);
  int other = open(name, O_RDONLY);
  int bad = other < 0 || fstat(other, &st) != 0 || stat("/", &root) != 0 || st.st_ino != root.st_ino;
  kill(child, SIGKILL);
  return bad;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  if (strcmp(argv[1], "kill") == 0) return kill_children(argv[2]);
  if (strcmp(argv[1], "fifo") == 0) return open_fifos(argv[2]);
  if (strcmp(argv[1], "other") == 0 && argc > 3) return as_other(argv[2], argv[3]);
  return names(argv[2]);
}
