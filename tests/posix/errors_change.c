/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of errors.sh: calls that would change names and attributes, of one path and of two. */
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <utime.h>

#include "errors.h"

static void making(void) {
  R(mkdir(P("d"), 0700));
  R(mkdir(P("d/"), 0700));
  R(mkdir(P("d/."), 0700));
  R(mkdir(P("d/.."), 0700));
  R(mkdir(P("f"), 0700));
  R(mkdir(P("f/"), 0700));
  R(mkdir(P("f/x"), 0700));
  R(mkdir(P("new"), 0700));
  R(mkdir(P("new/"), 0700));
  R(mkdir(P("new/."), 0700));
  R(mkdir(P("none/new"), 0700));
  R(mkdir(P("link"), 0700));
  R(mkdir(P("dangling"), 0700));
  R(mkdir(P("dangling/"), 0700));
  R(mkdir(P("loop"), 0700));
  R(mkdir(P("loop/x"), 0700));
  R(mkdir(base, 0700));
  R(mkdir(P(""), 0700));
  R(mkdir("", 0700));
  R(mknod(P("new"), S_IFREG | 0600, 0));
  R(mknod(P("new"), S_IFCHR | 0600, makedev(1, 3)));
  R(mknod(P("new/"), S_IFREG | 0600, 0));
  R(mknod(P("f"), S_IFREG | 0600, 0));
  R(mknod(P("f/"), S_IFREG | 0600, 0));
  R(mkfifo(P("new"), 0600));
  R(mkfifo(P("f"), 0600));
  R(symlink("x", P("new")));
  R(symlink("x", P("new/")));
  R(symlink("x", P("f")));
  R(symlink("x", P("dangling")));
  R(symlink("x", P("none/new")));
}

static void templates(void) {
  char t[PATH_MAX];
  R(mkstemp(strcpy(t, P("newXXXXXX"))));
  R(mkstemp(strcpy(t, P("newXXXXX"))));
  R(mkstemp(strcpy(t, P("none/newXXXXXX"))));
  R(mkstemp(strcpy(t, P("f/newXXXXXX"))));
  R(mkstemps(strcpy(t, P("newXXXXXX.c")), 2));
  R(mkstemps(strcpy(t, P("newXXXXXX.c")), 1));
  R(mkostemp(strcpy(t, P("newXXXXXX")), O_CLOEXEC));
  Q(mkdtemp(strcpy(t, P("newXXXXXX"))));
  Q(mkdtemp(strcpy(t, P("new"))));
  Q(mkdtemp(strcpy(t, P("none/newXXXXXX"))));
}

static void removing(void) {
  R(unlink(P("f")));
  R(unlink(P("f/")));
  R(unlink(P("f/x")));
  R(unlink(P("none")));
  R(unlink(P("none/x")));
  R(unlink(P("d")));
  R(unlink(P("d/.")));
  R(unlink(P("d/..")));
  R(unlink(P("link")));
  R(unlink(P("link/")));
  R(unlink(P("loop")));
  R(unlink(P("loop/x")));
  R(unlink(""));
  R(rmdir(P("d")));
  R(rmdir(P("d/")));
  R(rmdir(P("d/.")));
  R(rmdir(P("d/..")));
  R(rmdir(P("none")));
  R(rmdir(P("f")));
  R(rmdir(P("to-d/")));
  R(rmdir(base));
  R(rmdir(P("")));
  R(unlink(base));
  R(remove(P("f")));
  R(remove(P("d")));
  R(remove(P("d/.")));
  R(remove(P("d/..")));
  R(remove(P("none")));
  R(unlinkat(AT_FDCWD, P("f"), 0));
  R(unlinkat(AT_FDCWD, P("d"), AT_REMOVEDIR));
  R(unlinkat(AT_FDCWD, P("d"), 0x40));
  R(unlinkat(AT_FDCWD, P("none/x"), 0x40));
}

static void modes(void) {
  R(chmod(P("f"), 0600));
  R(chmod(P("none"), 0600));
  R(chmod(P("f/"), 0600));
  R(chmod(P("loop"), 0600));
  R(lchmod(P("link"), 0600));
  R(lchmod(P("f"), 0600));
  R(lchmod(P("none"), 0600));
  R(fchmodat(AT_FDCWD, P("f"), 0600, 0));
  R(fchmodat(AT_FDCWD, P("f"), 0600, 0x40));
  R(fchmodat(AT_FDCWD, P("link"), 0600, AT_SYMLINK_NOFOLLOW));
  R(fchmodat(AT_FDCWD, P("f"), 0600, AT_SYMLINK_NOFOLLOW));
  R(chown(P("f"), (uid_t)-1, (gid_t)-1));
  R(chown(P("none"), 0, 0));
  R(lchown(P("dangling"), 0, 0));
  R(chown(P("dangling"), 0, 0));
  R(fchownat(AT_FDCWD, P("link"), 0, 0, AT_SYMLINK_NOFOLLOW));
  R(fchownat(AT_FDCWD, P("f"), 0, 0, 0x40));
  R(truncate(P("f"), 0));
  R(truncate(P("f"), -1));
  R(truncate(P("none"), -1));
  R(truncate(P("none"), 0));
  R(truncate(P("d"), 0));
  R(truncate(P("link"), 0));
  R(truncate(P("f/"), 0));
}

static void times(void) {
  struct timespec ok[2] = {{.tv_sec = 1}, {.tv_sec = 2}}, omit[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}};
  struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}}, bad[2] = {{.tv_nsec = 1 << 30}, {0}};
  struct timeval tv[2] = {{.tv_sec = 1}}, bad_tv[2] = {{.tv_usec = 2000000}};
  struct utimbuf ut = {1, 2};
  R(utimensat(AT_FDCWD, P("f"), NULL, 0));
  R(utimensat(AT_FDCWD, P("f"), ok, 0));
  R(utimensat(AT_FDCWD, P("f"), omit, 0));
  R(utimensat(AT_FDCWD, P("none"), omit, 0));
  R(utimensat(AT_FDCWD, P("f"), now, 0));
  R(utimensat(AT_FDCWD, P("f"), bad, 0));
  R(utimensat(AT_FDCWD, P("none"), bad, 0));
  R(utimensat(AT_FDCWD, P("f"), ok, 0x40));
  R(utimensat(AT_FDCWD, P("link"), ok, AT_SYMLINK_NOFOLLOW));
  R(utimensat(AT_FDCWD, P("dangling"), ok, AT_SYMLINK_NOFOLLOW));
  R(utimensat(AT_FDCWD, P("dangling"), ok, 0));
  R(utimes(P("f"), NULL));
  R(utimes(P("f"), tv));
  R(utimes(P("f"), bad_tv));
  R(utimes(P("none"), tv));
  R(lutimes(P("dangling"), tv));
  R(utime(P("f"), &ut));
  R(utime(P("none"), NULL));
}

void rows_of_changes(void) {
  making();
  templates();
  removing();
  modes();
  times();
}

static void renames(void) {
  R(rename(P("f"), P("new")));
  R(rename(P("none"), P("new")));
  R(rename(P("f"), P("f")));
  R(rename(P("f"), P("d")));
  R(rename(P("none/x"), P("new")));
  R(rename(P("f"), P("none/x")));
  R(rename(P("f/x"), P("new")));
  R(rename(P("d/."), P("new")));
  R(rename(P("d"), P("d/..")));
  R(rename(P("d"), P("d/sub/x")));
  R(rename(P("f/"), P("new")));
  R(rename(P("f"), O("new")));
  R(rename(P("none"), O("new")));
  R(rename(P("none/x"), O("none/new")));
  R(rename(O("file"), P("new")));
  R(rename(O("none"), P("new")));
  R(rename(O("file"), P("none/x")));
  R(rename(base, O("new")));
  R(rename(base, P("new")));
  R(rename(P("d"), base));
  R(renameat2(AT_FDCWD, P("f"), AT_FDCWD, P("new"), RENAME_NOREPLACE));
  R(renameat2(AT_FDCWD, P("f"), AT_FDCWD, P("d"), RENAME_NOREPLACE));
  R(renameat2(AT_FDCWD, P("f"), AT_FDCWD, P("d/."), RENAME_NOREPLACE));
  R(renameat2(AT_FDCWD, P("f"), AT_FDCWD, P("d"), RENAME_EXCHANGE));
  R(renameat2(AT_FDCWD, P("f"), AT_FDCWD, P("d"), RENAME_EXCHANGE | RENAME_NOREPLACE));
  R(renameat2(AT_FDCWD, P("none/x"), AT_FDCWD, P("d"), 0x100));
  R(rename(O("file"), O("file2")));
  R(rename(O("file2"), O("file")));
}

static void links(void) {
  R(link(P("f"), P("new")));
  R(link(P("f"), P("d")));
  R(link(P("none"), P("new")));
  R(link(P("none"), P("d")));
  R(link(P("f"), P("none/x")));
  R(link(P("f"), P("new/")));
  R(link(P("f/"), P("new")));
  R(link(P("d"), P("new")));
  R(link(P("dangling"), P("new")));
  R(link(P("f"), O("new")));
  R(link(P("none"), O("new")));
  R(link(O("file"), P("new")));
  R(link(O("file"), P("f")));
  R(link(O("file"), P("none/x")));
  R(linkat(AT_FDCWD, P("dangling"), AT_FDCWD, P("new"), AT_SYMLINK_FOLLOW));
  R(linkat(AT_FDCWD, P("f"), AT_FDCWD, P("new"), 0x40));
  R(linkat(AT_FDCWD, P("none"), AT_FDCWD, P("new"), 0x40));
  R(linkat(AT_FDCWD, P("f"), AT_FDCWD, P("new"), AT_SYMLINK_NOFOLLOW));
}

void rows_of_pairs(void) {
  renames();
  links();
}
