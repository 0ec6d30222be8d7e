/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Odd calls on a read-only tree, by path: errors.sh runs this on a read-only tmpfs and on a mount of the same files,
 * and compares the rows. Usage: errors TREE OUTSIDE.
 */
#include <dirent.h>
#include <ftw.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <utime.h>

#include "errors.h"

const char *base, *outside;

static const char *join(const char *dir, const char *name) {
  static char path[32][2 * PATH_MAX + 1000];
  static unsigned next;
  char *p = path[next++ % 32];
  snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
  return p;
}
const char *P(const char *name) {
  return join(base, name);
}
const char *O(const char *name) {
  return join(outside, name);
}
void *at_address(intptr_t address) {
  void *p = (void *)address;
  __asm__("" : "+r"(p));
  return p;
}

bool kernel_is(int major, int minor) {
  struct utsname name;
  int a = 0, b = 0;
  uname(&name);
  sscanf(name.release, "%d.%d", &a, &b);
  return a > major || (a == major && b >= minor);
}

static const char *repeat(const char *text, size_t n) {
  static char out[4][3 * PATH_MAX];
  static unsigned next;
  char *p = out[next++ % 4];
  p[0] = '\0';
  for (size_t i = 0; i < n; i++) strcat(p, text);
  return p;
}

static void opens(void) {
  F(open(P("f"), O_RDONLY));
  F(open(P("f"), O_WRONLY));
  F(open(P("f"), O_RDWR | O_CREAT, 0600));
  F(open(P("f"), O_RDONLY | O_CREAT, 0600));
  F(open(P("f"), O_RDONLY | O_CREAT | O_EXCL, 0600));
  F(open(P("new"), O_WRONLY | O_CREAT, 0600));
  F(open(P("new"), O_RDONLY | O_CREAT | O_EXCL, 0600));
  F(open(P("none/new"), O_WRONLY | O_CREAT, 0600));
  F(open(P("f/new"), O_WRONLY | O_CREAT, 0600));
  F(open(P("f"), O_RDONLY | O_TRUNC));
  F(open(P("f"), O_ACCMODE));
  F(open(P("f"), O_RDONLY | O_APPEND | O_NONBLOCK | O_SYNC | O_NOCTTY));
  F(open(P("f"), O_RDONLY | O_NOATIME));
  F(open(P("f"), O_RDONLY | O_DIRECTORY));
  if (kernel_is(6, 4)) {
    F(open(P("f"), O_RDONLY | O_CREAT | O_DIRECTORY, 0600));
    F(open(P("d"), O_RDONLY | O_CREAT | O_DIRECTORY, 0600));
    F(open(P("new"), O_RDONLY | O_CREAT | O_DIRECTORY, 0600));
  }
  F(open(P("f"), O_PATH | O_CREAT | O_DIRECTORY, 0600));
  F(open(P("d"), O_PATH | O_CREAT | O_EXCL | O_TRUNC, 0600));
  F(open(P("none"), O_PATH | O_CREAT, 0600));
  F(open(P("f/"), O_RDONLY));
  F(open(P("f/."), O_RDONLY));
  F(open(P("f/"), O_RDONLY | O_CREAT, 0600));
  F(open(P("d/"), O_RDONLY | O_CREAT, 0600));
  F(open(P("d/."), O_RDONLY | O_CREAT, 0600));
  F(open(P("d/.."), O_RDONLY | O_CREAT | O_EXCL, 0600));
  F(open(P("new/"), O_RDONLY | O_CREAT, 0600));
  F(open(P("new/"), O_RDONLY | O_CREAT | O_EXCL, 0600));
  F(open(P("dangling/"), O_RDONLY | O_CREAT, 0600));
  F(open(P("none/new/"), O_RDONLY | O_CREAT, 0600));
  F(open(P("f/x"), O_RDONLY));
  F(open(P("f/.."), O_RDONLY));
  F(open(P("d"), O_WRONLY));
  F(open(P("d"), O_RDONLY | O_CREAT, 0600));
  F(open(P("d"), O_RDONLY | O_CREAT | O_EXCL, 0600));
  F(open(P("d"), O_RDONLY | O_TRUNC));
  F(open(P("d"), O_RDONLY | O_DIRECT));
  F(open(P("d"), O_RDONLY | O_NOFOLLOW | O_DIRECTORY));
  F(open(P("d"), O_TMPFILE | O_RDWR, 0600));
  F(open(P("d"), O_TMPFILE | O_RDONLY, 0600));
  F(open(P("f"), O_TMPFILE | O_WRONLY, 0600));
  F(open(P("none"), O_TMPFILE | O_WRONLY, 0600));
  F(open(P("d"), (O_TMPFILE & ~O_DIRECTORY) | O_RDWR, 0600));
  F(open(P("link"), O_RDONLY));
  F(open(P("link"), O_RDONLY | O_NOFOLLOW));
  F(open(P("link"), O_RDONLY | O_NOFOLLOW | O_DIRECTORY));
  F(open(P("link"), O_RDONLY | O_CREAT, 0600));
  F(open(P("link"), O_RDONLY | O_CREAT | O_EXCL, 0600));
  F(open(P("link"), O_PATH | O_NOFOLLOW));
  F(open(P("link/"), O_RDONLY));
  F(open(P("to-d/"), O_RDONLY | O_NOFOLLOW));
  F(open(P("to-d"), O_RDONLY | O_NOFOLLOW));
  F(open(P("to-d"), O_RDONLY | O_NOFOLLOW | O_DIRECTORY));
  F(open(P("dangling"), O_RDONLY));
  F(open(P("dangling"), O_WRONLY | O_CREAT, 0600));
  F(open(P("dangling"), O_WRONLY | O_CREAT | O_EXCL, 0600));
  F(open(P("dangling-deep"), O_WRONLY | O_CREAT, 0600));
  F(open(P("loop"), O_RDONLY));
  F(open(P("loop"), O_RDONLY | O_CREAT, 0600));
  F(open(P("loop/x"), O_RDONLY));
  F(open(P("loop"), O_PATH | O_NOFOLLOW));
  F(open(P("out"), O_RDONLY));
  F(open(P("out-none"), O_RDONLY));
  F(open(P("chain40"), O_RDONLY));
  F(open(P("chain41"), O_RDONLY));
  F(open(P("script"), O_RDONLY));
  F(creat(P("f"), 0600));
  F(creat(P("new"), 0600));
}

static void names(void) {
  struct stat st;
  F(open("", O_RDONLY));
  F(open(P("d/../f"), O_RDONLY));
  F(open(P("none/../f"), O_RDONLY));
  F(open(P("d//.//x"), O_RDONLY));
  R(stat(P(repeat("x", 255)), &st));
  R(stat(P(repeat("x", 256)), &st));
  R(stat(P(repeat("n", 255)), &st));
  R(stat(P(repeat("./", 2000)), &st));
  R(stat(P(repeat("/", 3900)), &st));
  R(stat(P(repeat("./", 2100)), &st));
  R(stat(P(repeat("d/../", 500)), &st));
  R(stat(P(repeat("y", 4999)), &st));
  R(stat(P("f/"), &st));
  R(stat(P("f/../f"), &st));
  R(stat(P("link/.."), &st));
  R(stat(P("to-d/../f"), &st));
  R(lstat(P("to-d/"), &st));
  R(lstat(P("dangling"), &st));
  R(lstat(P("dangling/"), &st));
  R(lstat(P("loop/"), &st));
  R(stat(P("new\nline"), &st));
  R(stat(P("\xff\xfe"), &st));
  R(stat(P("\xff"), &st));
  R(stat("", &st));
}

static void permissions(void) {
  struct stat st;
  DIR *d;
  F(open(P("secret"), O_RDONLY));
  F(open(P("secret"), O_WRONLY));
  F(open(P("secret"), O_RDONLY | O_TRUNC));
  F(open(P("secret"), O_PATH));
  F(open(P("write-only"), O_RDONLY));
  F(open(P("no-search/x"), O_RDONLY));
  F(open(P("no-search/none"), O_RDONLY));
  F(open(P("no-search/new"), O_WRONLY | O_CREAT, 0600));
  F(open(P("no-search"), O_RDONLY | O_DIRECTORY));
  F(open(P("no-read/x"), O_RDONLY));
  F(open(P("no-read"), O_RDONLY | O_DIRECTORY));
  F(open(P("no-read"), O_PATH | O_DIRECTORY));
  R(stat(P("no-search/x"), &st));
  R(stat(P("no-search/sub/x"), &st));
  R(stat(P("no-search/."), &st));
  R(stat(P("no-search/.."), &st));
  R(stat(P("no-search/"), &st));
  R(chdir(P("no-search")));
  R(chdir(P("no-read")));
  R(chdir("/"));
  R(unlink(P("no-search/x")));
  R(mkdir(P("no-search/new"), 0700));
  R(rename(P("no-search/x"), P("y")));
  Q(d = opendir(P("no-read")));
  if (d != NULL) closedir(d);
  for (int mode = 0; mode < 8; mode++) {
    printf("mode %d\n", mode);
    R(access(P("f"), mode));
    R(access(P("script"), mode));
    R(access(P("secret"), mode));
    R(access(P("write-only"), mode));
    R(access(P("d"), mode));
    R(access(P("no-search"), mode));
    R(access(P("no-read"), mode));
    R(access(P("link"), mode));
    R(access(P("none"), mode));
    R(euidaccess(P("secret"), mode));
    R(faccessat(AT_FDCWD, P("link"), mode, AT_SYMLINK_NOFOLLOW));
  }
  R(access(P("f"), 8));
  R(access(P("none"), -1));
  R(faccessat(AT_FDCWD, P("f"), R_OK, AT_EACCESS));
  R(faccessat(AT_FDCWD, P("f"), R_OK, 0x4000));
}

static void reading_calls(void) {
  struct stat st;
  struct statx sx;
  struct statfs sf;
  struct statvfs sv;
  char buf[PATH_MAX];
  R(readlink(P("f"), buf, sizeof(buf)));
  R(readlink(P("d"), buf, sizeof(buf)));
  R(readlink(P("none"), buf, sizeof(buf)));
  R(readlink(P("link"), buf, 0));
  R(readlink(P("none"), buf, 0));
  R(readlink(P("link"), buf, (size_t)-1));
  R(readlink(P("dangling-deep"), buf, 3));
  R(readlink(P("link/"), buf, sizeof(buf)));
  R(readlink(P("to-d/"), buf, sizeof(buf)));
  R(fstatat(AT_FDCWD, P("f"), &st, 0x40));
  R(fstatat(AT_FDCWD, P("f"), &st, AT_NO_AUTOMOUNT));
  R(fstatat(AT_FDCWD, P("none"), &st, 0x40));
  R(fstatat(-1, P("f"), &st, 0));
  R(statx(AT_FDCWD, P("f"), 0, STATX_BASIC_STATS, &sx));
  R(statx(AT_FDCWD, P("f"), 0x40, STATX_BASIC_STATS, &sx));
  R(statx(AT_FDCWD, P("f"), AT_STATX_FORCE_SYNC, 0, &sx));
  R(statx(AT_FDCWD, P("f"), AT_STATX_SYNC_TYPE, 0, &sx));
  R(statx(AT_FDCWD, P("f"), 0, STATX__RESERVED, &sx));
  R(statx(AT_FDCWD, P("none"), 0, STATX__RESERVED, &sx));
  R(statfs(P("f"), &sf));
  R(statfs(P("none"), &sf));
  R(statvfs(P("d"), &sv));
  R(sv.f_flag & ST_RDONLY);
  R(pathconf(P("f"), _PC_NAME_MAX));
  R(pathconf(P("f"), _PC_PATH_MAX));
  R(pathconf(P("none"), _PC_NAME_MAX));
  R(pathconf(P("f"), 999));
  R(chdir(P("f")));
  R(chdir(P("none")));
  R(chdir(P("loop")));
  Q(realpath(P("link"), NULL));
  Q(realpath(P("none"), NULL));
  Q(realpath(P("f/"), NULL));
  Q(realpath(P("f/x"), NULL));
  Q(realpath(P("loop"), NULL));
  Q(realpath("", NULL));
  Q(opendir(P("f")));
  Q(opendir(P("none")));
  Q(fopen(P("f"), "q"));
  Q(fopen(P("none"), "r"));
  Q(fopen(P("f"), "w"));
  Q(fopen(P("f"), "r+"));
  Q(fopen(P("f"), "rx"));
  Q(fopen(P("f"), "wx"));
  Q(fopen(P("new"), "a"));
  Q(fopen(P("d"), "r"));
  Q(fopen(P("d"), "w"));
}

static void attributes(void) {
  char buf[64];
  if (!kernel_is(6, 6)) return; /* a tmpfs has no user.* before */
  R(getxattr(P("f"), "user.none", buf, sizeof(buf)));
  R(getxattr(P("f"), "system.posix_acl_access", buf, sizeof(buf)));
  R(getxattr(P("none"), "user.none", buf, sizeof(buf)));
  R(lgetxattr(P("link"), "security.selinux", buf, sizeof(buf)));
  R(listxattr(P("none"), buf, sizeof(buf)));
  R(setxattr(P("f"), "user.x", "y", 1, 0));
  R(setxattr(P("none"), "user.x", "y", 1, 0));
  R(lsetxattr(P("link"), "user.x", "y", 1, 0));
  R(removexattr(P("f"), "user.x"));
  R(removexattr(P("none"), "user.x"));
  R(lremovexattr(P("link"), "user.x"));
}

/* Addresses that no program can have. What is just not mapped faults in the library, as in any memcpy. */
static void bad_addresses(void) {
  char buf[64];
  int fd = open(P("big"), O_RDONLY);
  const intptr_t bad[] = {0, 1, -1, -4096, INTPTR_MIN};
  for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    char *p = at_address(bad[i]);
    printf("address %d\n", (int)i);
    F(open(p, O_RDONLY));
    F(openat(AT_FDCWD, p, O_RDONLY));
    R(access(p, F_OK));
    R(stat(p, (struct stat *)buf));
    R(stat(P("f"), (struct stat *)p));
    R(stat(P("none"), (struct stat *)p));
    R(lstat(P("f"), (struct stat *)p));
    R(fstat(fd, (struct stat *)p));
    R(fstatat(AT_FDCWD, P("f"), (struct stat *)p, 0));
    R(statx(AT_FDCWD, P("f"), 0, STATX_BASIC_STATS, (struct statx *)p));
    R(readlink(P("link"), p, 10));
    R(readlink(P("f"), p, 10));
    R(statfs(P("f"), (struct statfs *)p));
    R(chdir(p));
    R(unlink(p));
    R(mkdir(p, 0700));
    R(rename(P("f"), p));
    R(rename(p, P("f")));
    R(link(P("f"), p));
    R(symlink("x", p));
    R(chmod(p, 0600));
    R(truncate(p, 0));
    R(rmdir(p));
    R(read(fd, p, 10));
    R(read(fd, p, 0));
    R(read(fd, p, 1 << 20));
    R(pread(fd, p, 10, 0));
    R(pread(fd, p, 10, 1 << 30));
    R(getxattr(p, "user.x", buf, sizeof(buf)));
    R(syscall(SYS_getdents64, fd, p, 1000));
  }
  close(fd);
}

void rows_of_paths(void) {
  opens();
  names();
  permissions();
  reading_calls();
  attributes();
  bad_addresses();
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  base = argv[1];
  outside = argv[2];
  setvbuf(stdout, NULL, _IONBF, 0);
  rows_of_paths();
  rows_of_changes();
  rows_of_pairs();
  rows_of_descriptors();
  rows_of_mappings();
  return 0;
}
