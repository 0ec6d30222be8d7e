/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls on a dataset, one by one, as a program makes them: interposer_calls.sh runs this with the library on a mount,
 * and on the plain directory, so that what is expected here is what a file system does. Usage: DIR (ro|rw): whether DIR
 * refuses to be written. Made for the tree that the script packs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <wchar.h>

#include "calls.h"

static int at_offset(int fd) {
  return (int)lseek(fd, 0, SEEK_CUR);
}

static void opens(void) {
  char name[400] = "", *deep = calloc(1, 6000);
  memset(name, 'x', 300);
  memset(deep, 'y', 5000);
  ERR(EISDIR, open(P("d"), O_WRONLY));
  ERR(EEXIST, open(P("a.txt"), O_RDONLY | O_CREAT | O_EXCL, 0600));
  ERR(ENOTDIR, open(P("a.txt/"), O_RDONLY));
  ERR(ENOTDIR, open(P("a.txt/x"), O_RDONLY));
  ERR(ENOTDIR, open(P("a.txt"), O_DIRECTORY));
  OK(close(open(P("d/../a.txt"), O_RDONLY)) == 0);
  ERR(ENOENT, open(P("none/../a.txt"), O_RDONLY));
  ERR(ENOENT, open("", O_RDONLY));
  ERR(EFAULT, open(*(char *volatile *)&(char *){NULL}, O_RDONLY));
  ERR(ENAMETOOLONG, open(P(name), O_RDONLY));
  ERR(ENAMETOOLONG, open(P(deep), O_RDONLY));
  ERR(ELOOP, open(P("loop"), O_RDONLY));
  ERR(ELOOP, open(P("link"), O_RDONLY | O_NOFOLLOW));
  ERR(ENOENT, open(P("dangling"), O_RDONLY));
  OK(close(open(P("a.txt"), O_RDONLY | O_CREAT, 0600)) == 0);
  free(deep);
}

static void refusals(void) {
  ERR(EROFS, open(P("a.txt"), O_WRONLY));
  ERR(EROFS, open(P("a.txt"), O_RDWR | O_CREAT, 0600));
  ERR(EROFS, open(P("new"), O_WRONLY | O_CREAT, 0600));
  ERR(EROFS, open(P("a.txt"), O_RDONLY | O_TRUNC));
  ERR(EROFS, open(P("d"), O_TMPFILE | O_RDWR, 0600));
  ERR(EROFS, chmod(P("a.txt"), 0600));
  ERR(EROFS, unlink(P("a.txt")));
  ERR(EROFS, unlink(P("none")));
  ERR(EROFS, unlink(P("d")));
  ERR(EEXIST, mkdir(P("d"), 0700));
  ERR(EROFS, mkdir(P("new"), 0700));
  ERR(EROFS, rmdir(P("d")));
  ERR(EROFS, rename(P("a.txt"), P("b")));
  ERR(EROFS, link(P("a.txt"), P("b")));
  ERR(EROFS, symlink("a.txt", P("b")));
  ERR(EROFS, truncate(P("a.txt"), 0));
  ERR(EROFS, utimensat(AT_FDCWD, P("a.txt"), NULL, 0));
  ERR(EROFS, setxattr(P("a.txt"), "user.x", "y", 1, 0));
  ERR(EROFS, access(P("a.txt"), W_OK));
  ERR(EXDEV, rename(P("a.txt"), "/tmp/interposer-calls"));
  int fd = open(P("a.txt"), O_RDONLY);
  ERR(EROFS, fchmod(fd, 0600));
  OK(fopen(P("a.txt"), "w") == NULL && errno == EROFS);
  OK(fopen(P("a.txt"), "r+") == NULL && errno == EROFS);
  close(fd);
}

static void reads(void) {
  char buf[64];
  int fd = open(P("a.txt"), O_RDONLY), dir = open(P("d"), O_RDONLY);
  struct stat st;
  OK(fstat(fd, &st) == 0 && st.st_size == 7090);
  ERR(EBADF, write(fd, "x", 1));
  ERR(EBADF, pwrite(fd, "x", 1, 0));
  ERR(EINVAL, pread(fd, buf, 1, -1));
  ERR(EISDIR, read(dir, buf, 1));
  OK(read(fd, buf, 0) == 0);
  ERR(EINVAL, readv(fd, NULL, -1));
  ERR(EINVAL, lseek(fd, -1, SEEK_SET));
  OK(lseek(fd, 1000, SEEK_END) == 8090 && read(fd, buf, 1) == 0);
  OK(lseek(fd, 0, SEEK_DATA) == 0 && lseek(fd, 0, SEEK_HOLE) == 7090);
  ERR(ENXIO, lseek(fd, 1 << 20, SEEK_DATA));
  ERR(EINVAL, lseek(fd, 0, 9));
  ERR(EACCES, mmap(NULL, 10, PROT_WRITE, MAP_SHARED, fd, 0));
  ERR(EINVAL, mmap(NULL, 0, PROT_READ, MAP_SHARED, fd, 0));
  ERR(EINVAL, mmap(NULL, 10, PROT_READ, MAP_SHARED, fd, 5));
  ERR(ENODEV, mmap(NULL, 10, PROT_READ, MAP_SHARED, dir, 0));
  char *p = mmap(NULL, 7090, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  OK(p != MAP_FAILED && memcmp(p, "line 0\n", 7) == 0 && p[7089] == '\n' && p[7090] == '\0');
  p[0] = 'X'; /* a private copy */
  OK(munmap(p, 7090) == 0 && pread(fd, buf, 4, 0) == 4 && memcmp(buf, "line", 4) == 0);
  int out = memfd_create("out", 0);
  off_t off = 7;
  OK(sendfile(out, fd, &off, 14) == 14 && off == 21 && pread(out, buf, 20, 0) == 14 &&
     memcmp(buf, "line 1\nline 2\n", 14) == 0);
  ERR(EBADF, copy_file_range(fd, NULL, fd, NULL, 10, 0));
  close(out);
  close(dir);
  close(fd);
}

/* The kernel shows O_LARGEFILE, which glibc hides. Emulators of it do not show it. */
static int is_read_only(int fd) {
#if defined(__aarch64__)
  const int large = 0400000;
#elif defined(__powerpc64__)
  const int large = 0200000;
#else
  const int large = 0100000;
#endif
  int flags = fcntl(fd, F_GETFL), other = open("/proc/self/exe", O_RDONLY), real = fcntl(other, F_GETFL);
  close(other);
  return flags == large || flags == real;
}

static void controls(void) {
  struct flock lock = {.l_type = F_WRLCK};
  struct epoll_event event = {.events = EPOLLIN};
  struct statvfs vfs;
  char buf[64];
  fd_set set;
  int fd = open(P("a.txt"), O_RDONLY), ep = epoll_create1(0);
  ERR(EINVAL, ftruncate(fd, 0));
  ERR(EBADF, fallocate(fd, 0, 0, 1));
  ERR(EBADF, fcntl(fd, F_SETLK, &lock));
  lock.l_type = F_RDLCK;
  OK(fcntl(fd, F_SETLK, &lock) == 0 && is_read_only(fd) && flock(fd, LOCK_EX) == 0);
  OK(fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED) == 0 && !isatty(fd) && errno == ENOTTY);
  struct pollfd polled = {.fd = fd, .events = POLLIN};
  OK(poll(&polled, 1, -1) == 1 && polled.revents == POLLIN && polled.fd == fd);
  FD_ZERO(&set);
  FD_SET(fd, &set);
  OK(select(fd + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(fd, &set));
  ERR(EPERM, epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event));
  ERR(ENODATA, getxattr(P("a.txt"), "user.none", buf, sizeof(buf)));
  OK(listxattr(P("a.txt"), buf, sizeof(buf)) == 0 && statvfs(P("d"), &vfs) == 0 && vfs.f_namemax == 255);
  ERR(EACCES, access(P("a.txt"), X_OK));
  OK(access(P("a.txt"), R_OK) == 0 && access(P("run.sh"), X_OK) == 0 && faccessat(AT_FDCWD, P("d"), F_OK, 0) == 0);
  ERR(EINVAL, readlink(P("a.txt"), buf, sizeof(buf)));
  OK(readlink(P("link"), buf, sizeof(buf)) == 5 && readlink(P("link"), buf, 2) == 2);
  close(ep);
  close(fd);
}

static void descriptors(void) {
  int fd = open(P("a.txt"), O_RDONLY), copy = dup(fd);
  OK(copy == fd + 1 && dup2(fd, fd) == fd && fcntl(fd, F_GETFD) == 0);
  ERR(EINVAL, dup3(fd, fd, 0));
  ERR(EBADF, close(777));
  OK(lseek(fd, 5, SEEK_SET) == 5 && at_offset(copy) == 5);
  OK(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC && fcntl(copy, F_GETFD) == 0);
  OK(fcntl(fd, F_DUPFD, 30) == 30 && fcntl(30, F_GETFD) == 0 && fcntl(fd, F_DUPFD_CLOEXEC, 30) == 31);
  OK(fcntl(31, F_GETFD) == FD_CLOEXEC && close(30) == 0 && close(31) == 0);
  int null = open("/dev/null", O_RDONLY);
  OK(dup2(null, copy) == copy && read(copy, &null, 1) == 0 && at_offset(fd) == 5);
  OK(dup2(fd, copy) == copy && at_offset(copy) == 5 && close(copy) == 0 && at_offset(fd) == 5);
  OK(close_range((unsigned)fd, ~0u, 0) == 0);
  ERR(EBADF, lseek(fd, 0, SEEK_CUR));
  OK(open(P("a.txt"), O_RDONLY) == fd && close(fd) == 0 && open("/dev/null", O_RDONLY) >= fd);
  close_range((unsigned)fd, ~0u, 0);
}

/* Descriptors run out, for our opens and for real ones. */
static void limits(void) {
  struct rlimit old, few;
  int n = 0, real = 0;
  getrlimit(RLIMIT_NOFILE, &old);
  few = (struct rlimit){40, old.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  while (open(P("a.txt"), O_RDONLY) >= 0) n++;
  ERR(EMFILE, open(P("a.txt"), O_RDONLY));
  OK(n >= 30);
  for (int fd = 20; fd < 40; fd++) close(fd);
  while (open("/dev/null", O_RDONLY) >= 0) real++;
  OK(real >= 20);
  setrlimit(RLIMIT_NOFILE, &old);
  close_range(3, ~0u, 0);
}

/* Returns 1 for each file, 100 for each directory and 10000 for each symlink of a tree. */
static int visit(int dir, const char *name, int level) {
  struct stat st;
  if (level > 5 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return 1000000;
  if (!S_ISDIR(st.st_mode)) return S_ISREG(st.st_mode) ? 1 : S_ISLNK(st.st_mode) ? 10000 : 1000000;
  DIR *d = fdopendir(openat(dir, name, O_RDONLY | O_DIRECTORY));
  int visited = 100;
  for (const struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) visited += visit(dirfd(d), e->d_name, level + 1);
  return d != NULL && closedir(d) == 0 ? visited : 1000000;
}

static void directories(void) {
  struct dirent **list, *e;
  struct stat st;
  glob_t g;
  long where = -1;
  int n = 0;
  DIR *d = opendir(P("d"));
  while ((e = readdir(d)) != NULL)
    if (++n == 5) where = telldir(d);
  OK(n == 13); /* ., .., 10 files, sub */
  seekdir(d, where);
  for (n = 0; readdir(d) != NULL;) n++;
  OK(n == 8);
  rewinddir(d);
  OK(readdir(d) != NULL && fstatat(dirfd(d), "f1", &st, 0) == 0 && st.st_size == 1000);
  OK(close(openat(dirfd(d), "sub/../f1", O_RDONLY)) == 0 && closedir(d) == 0);
  OK(opendir(P("none")) == NULL && errno == ENOENT);
  OK(opendir(P("a.txt")) == NULL && errno == ENOTDIR);
  OK(scandir(P("d"), &list, NULL, alphasort) == 13 && strcmp(list[2]->d_name, "f0") == 0);
  OK(glob(P("d/f*"), 0, NULL, &g) == 0 && g.gl_pathc == 10);
  OK(glob(P("zz*"), 0, NULL, &g) == GLOB_NOMATCH);
  OK(visit(AT_FDCWD, base, 0) == 14 + 3 * 100 + 4 * 10000);
  OK(fstatat(AT_FDCWD, P("link"), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode));
  OK(stat(P("link"), &st) == 0 && st.st_size == 7090);
}

static void streams(void) {
  char buf[64] = "";
  FILE *f = fopen(P("a.txt"), "r");
  OK(f != NULL && fileno(f) > 2 && fscanf(f, "%*s %s", buf) == 1 && strcmp(buf, "0") == 0);
  OK(fseek(f, -5, SEEK_END) == 0 && ftell(f) == 7085 && fgets(buf, 20, f) != NULL && strcmp(buf, " 799\n") == 0);
  OK(fgetc(f) == EOF && feof(f));
  rewind(f);
  OK(fgetc(f) == 'l' && ungetc('z', f) == 'z' && fgetc(f) == 'z' && fclose(f) == 0);
  OK(fopen(P("none"), "r") == NULL && errno == ENOENT);
  f = fdopen(open(P("a.txt"), O_RDONLY), "r");
  OK(lseek(fileno(f), 7, SEEK_SET) == 7 && fgets(buf, 20, f) != NULL && strcmp(buf, "line 1\n") == 0 && fclose(f) == 0);
  f = fopen(P("a.txt"), "r,ccs=UTF-8");
  OK(f != NULL && fgetwc(f) == L'l' && fclose(f) == 0);
  OK(freopen(P("a.txt"), "r", stdin) != NULL && fgetc(stdin) == 'l');
  char *real = realpath(P("link"), NULL);
  OK(real != NULL && strcmp(real, P("a.txt")) == 0);
  free(real);
}

static int status_of(pid_t pid) {
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}

/* Runs a shell whose standard output is compared. */
static void expect_output(const char *want, int out) {
  char buf[512] = "";
  OK(pread(out, buf, sizeof(buf) - 1, 0) >= 0);
  if (strcmp(buf, want) != 0) failures++, printf("output '%s', expected '%s'\n", buf, want);
  OK(ftruncate(out, 0) == 0 && lseek(out, 0, SEEK_SET) == 0);
}

static void spawns(int out) {
  extern char **environ;
  char want[PATH_MAX * 2], *shell[] = {"sh", "-c", "head -n 1; pwd; ls | head -n 2", NULL};
  char *cat[] = {"head", "-n", "1", NULL}, *script[] = {"run.sh", "arg", NULL};
  posix_spawn_file_actions_t fa;
  pid_t pid;
  posix_spawn_file_actions_init(&fa);
  OK(posix_spawn_file_actions_addopen(&fa, 0, P("a.txt"), O_RDONLY, 0) == 0);
  OK(posix_spawn_file_actions_addchdir_np(&fa, P("d")) == 0 && posix_spawn_file_actions_adddup2(&fa, out, 1) == 0);
  OK(posix_spawnp(&pid, "sh", &fa, NULL, shell, environ) == 0 && status_of(pid) == 0);
  snprintf(want, sizeof(want), "line 0\n%s\nf0\nf1\n", P("d"));
  expect_output(want, out);
  posix_spawn_file_actions_destroy(&fa);
  int fd = open(P("a.txt"), O_RDONLY);
  lseek(fd, 7, SEEK_SET);
  posix_spawn_file_actions_init(&fa);
  posix_spawn_file_actions_adddup2(&fa, fd, 0);
  posix_spawn_file_actions_adddup2(&fa, out, 1);
  OK(posix_spawnp(&pid, "head", &fa, NULL, cat, environ) == 0 && status_of(pid) == 0);
  expect_output("line 1\n", out);
  OK(posix_spawn(&pid, P("run.sh"), &fa, NULL, script, environ) == 0 && status_of(pid) == 0);
  expect_output("script arg\n", out);
  posix_spawn_file_actions_destroy(&fa);
  close(fd);
}

static void children(int out) {
  char buf[16], want[PATH_MAX * 2];
  int fd = open(P("a.txt"), O_RDONLY);
  pid_t pid = vfork();
  if (pid == 0) {
    dup2(fd, 9);
    close(fd);
    dup2(9, 0);
    dup2(out, 1);
    if (chdir(P("d")) != 0) _exit(8);
    execlp("sh", "sh", "-c", "head -n 1; pwd -P; cat sub/t.txt", (char *)NULL);
    _exit(9);
  }
  OK(status_of(pid) == 0);
  snprintf(want, sizeof(want), "line 0\n%s\nhello\n", P("d"));
  expect_output(want, out);
  lseek(fd, 0, SEEK_SET);
  OK(access("sub/t.txt", F_OK) != 0); /* the child's directory was its own */
  pid = fork();
  if (pid == 0) _exit(read(fd, buf, 7) == 7 && close(fd) == 0 ? 0 : 1);
  OK(status_of(pid) == 0 && at_offset(fd) == 7);
  pid = vfork();
  if (pid == 0) {
    dup2(out, 1);
    execl(P("echo"), "echo", "from", "the", "mount", (char *)NULL);
    _exit(9);
  }
  OK(status_of(pid) == 0);
  expect_output("from the mount\n", out);
  /* An inherited descriptor, read by number in an executed program, moves the shared offset. */
  snprintf(want, sizeof(want), "/usr/bin/python3 -c 'import os; os.write(%d, os.read(%d, 7))'", out, fd);
  OK(system(want) == 0);
  expect_output("line 1\n", out);
  OK(at_offset(fd) == 14);
  OK(close(0) == 0 && open(P("a.txt"), O_RDONLY) == 0 && read(0, buf, 6) == 6);
  OK(dup2(fd, 0) == 0 && read(0, buf, 6) == 6 && memcmp(buf, "line 2", 6) == 0);
  close(fd);
}

static void raw_calls(void) {
  struct stat st;
  char buf[8];
  long fd = syscall(SYS_openat, AT_FDCWD, P("a.txt"), O_RDONLY, 0);
  OK(fd > 2 && syscall(SYS_read, fd, buf, 7L) == 7 && memcmp(buf, "line 0\n", 7) == 0);
  OK(syscall(SYS_newfstatat, AT_FDCWD, P("a.txt"), &st, 0) == 0 && st.st_size == 7090);
  OK(syscall(SYS_close, fd) == 0 && syscall(SYS_getpid) == getpid());
  ERR(ENOSYS, syscall(9999));
  ERR(EBADF, syscall(SYS_read, fd, buf, 7L));
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  base = argv[1];
  int first = open("/dev/null", O_RDONLY);
  OK(first == 3 && close(first) == 0);
  opens();
  if (strcmp(argv[2], "ro") == 0) refusals();
  reads();
  controls();
  descriptors();
  limits();
  directories();
  int out = open(getenv("TMPDIR"), O_TMPFILE | O_RDWR, 0600);
  OK(out >= 0 && fcntl(out, F_DUPFD, 60) == 60);
  spawns(60);
  children(60);
  raw_calls();
  streams();
  printf("%d failures\n", failures);
  return failures != 0;
}
