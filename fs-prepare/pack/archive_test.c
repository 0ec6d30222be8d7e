/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a compressed archive with the program that made it ("gzip -t"), while the first pass reads the
 * archive. libarchive does not compare gzip's checksum. Of the others it may not read what is behind
 * the archive's last member, and there is the checksum. Without the program nothing is tested.
 */
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "archive.h"

static const char *tool_of(int filter) {
  switch (filter) {
  case ARCHIVE_FILTER_GZIP:
    return "gzip";
  case ARCHIVE_FILTER_BZIP2:
    return "bzip2";
  case ARCHIVE_FILTER_XZ:
  case ARCHIVE_FILTER_LZMA:
    return "xz";
  case ARCHIVE_FILTER_ZSTD:
    return "zstd";
  case ARCHIVE_FILTER_LZ4:
    return "lz4";
  default:
    return NULL;
  }
}

/* Starts it without the blocked signals of this thread. */
static pid_t start(char *const words[], const posix_spawn_file_actions_t *files) {
  posix_spawnattr_t attr;
  sigset_t none;
  pid_t pid = -1;
  sigemptyset(&none);
  if (posix_spawnattr_init(&attr) != 0) return -1;
  if (posix_spawnattr_setsigmask(&attr, &none) != 0 || posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK) != 0 ||
      posix_spawnp(&pid, words[0], files, &attr, words, environ) != 0)
    pid = -1;
  posix_spawnattr_destroy(&attr);
  return pid;
}

/* The program reads the archive by a descriptor of its own, whose place nobody else moves. setpriv (util-linux)
   has the kernel end it if this process is killed. */
static pid_t start_test(const char *tool, int fd) {
  char path[64];
  const char *const words[] = {"setpriv", "--pdeathsig", "KILL", tool, "-t", "-q", NULL};
  posix_spawn_file_actions_t files;
  pid_t pid = -1;
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  FS_AUTO_CLOSE int own = open(path, O_RDONLY | O_CLOEXEC);
  if (own < 0 || posix_spawn_file_actions_init(&files) != 0) return -1;
  bool ok = posix_spawn_file_actions_adddup2(&files, own, STDIN_FILENO) == 0 &&
            posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
            posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0;
  char *const *all = (char *const *)(uintptr_t)words;
  if (ok) pid = start(all, &files);
  if (ok && pid < 0) pid = start(all + 3, &files);
  posix_spawn_file_actions_destroy(&files);
  return pid;
}

struct fs_archive_test fs_archive_test_start(const struct fs_source *src) {
  struct fs_archive_test t = {.tool = src->untested ? NULL : tool_of(src->filter), .pid = -1};
  if (t.tool != NULL) t.pid = start_test(t.tool, src->fd);
  return t;
}

bool fs_archive_test_end(const struct fs_archive_test *t, const struct fs_scan *scan) {
  int status = 0;
  pid_t got = 0;
  while (t->pid >= 0 && got == 0) {
    if (scan->err < 0 || fs_prep_signal != 0 || atomic_load(&scan->stop)) kill(t->pid, SIGKILL);
    got = waitpid(t->pid, &status, WNOHANG);
    if (got == 0) usleep(10000);
  }
  if (got <= 0 || !WIFEXITED(status)) return true;
  const int code = WEXITSTATUS(status);
  return code == 0 || code == 127 || (code == 2 && strcmp(t->tool, "gzip") == 0); /* gzip: 2 is a warning */
}
