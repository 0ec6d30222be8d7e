/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows of errors.sh: calls by descriptor, of a file, a directory and O_PATH ones, and mappings. */
#include <dirent.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include "errors.h"

/* The calls that take any descriptor. */
static void any_descriptor(const char *kind, int fd) {
  static char buf[1 << 16];
  struct stat st;
  struct statx sx;
  struct statfs sf;
  struct iovec iov[2] = {{buf, 3}, {buf, 3}};
  struct timespec ts[2] = {{.tv_sec = 1}}, bad_ts[2] = {{.tv_nsec = -7}};
  DIR *d;
  printf("descriptor of %s\n", kind);
  R(read(fd, buf, 0));
  R(read(fd, buf, 2));
  R(pread(fd, buf, 2, 0));
  R(pread(fd, buf, 2, -1));
  R(pread(fd, buf, 0, -1));
  R(pread(fd, buf, 2, INT64_MAX));
  R(pread(fd, buf, SIZE_MAX / 2, 1));
  R(readv(fd, iov, 2));
  R(readv(fd, iov, 0));
  R(readv(fd, iov, -1));
  R(readv(fd, iov, IOV_MAX + 1));
  R(readv(fd, at_address(1), 1));
  R(preadv(fd, iov, 2, 1));
  R(preadv(fd, iov, 2, -1));
  R(preadv2(fd, iov, 2, -1, 0));
  R(preadv2(fd, iov, 2, 0, 0x10000));
  R(preadv2(fd, iov, 2, 0, RWF_HIPRI));
  R(preadv2(fd, iov, 2, -2, 0));
  R(write(fd, buf, 1));
  R(write(fd, buf, 0));
  R(pwrite(fd, buf, 1, 0));
  R(pwrite(fd, buf, 1, -1));
  R(writev(fd, iov, 1));
  R(ftruncate(fd, 0));
  R(ftruncate(fd, -1));
  R(fallocate(fd, 0, 0, 1));
  E(posix_fallocate(fd, 0, 1));
  R(lseek(fd, 0, SEEK_SET));
  R(lseek(fd, -1, SEEK_SET));
  R(lseek(fd, 0, 9));
  R(fsync(fd));
  R(fdatasync(fd));
  R(syncfs(fd));
  R(flock(fd, LOCK_SH));
  R(flock(fd, LOCK_EX | LOCK_NB));
  R(flock(fd, 16));
  R(lockf(fd, F_TEST, 0));
  R(lockf(fd, F_LOCK, 0));
  R(fchmod(fd, 0600));
  R(fchown(fd, 0, 0));
  R(futimens(fd, NULL));
  R(futimens(fd, ts));
  R(futimens(fd, bad_ts));
  R(fstat(fd, &st));
  R(fstatfs(fd, &sf));
  R(fstatat(fd, "", &st, AT_EMPTY_PATH));
  R(fstatat(fd, "", &st, 0));
  R(fstatat(fd, "x", &st, 0));
  R(statx(fd, "", AT_EMPTY_PATH, 0, &sx));
  R(statx(fd, "", AT_EMPTY_PATH, STATX__RESERVED, &sx));
  R(statx(fd, "", 0, 0, &sx));
  R(faccessat(fd, "", R_OK, AT_EMPTY_PATH));
  R(faccessat(fd, "", W_OK, AT_EMPTY_PATH));
  R(faccessat(fd, "", R_OK, 0));
  R(fchownat(fd, "", 0, 0, AT_EMPTY_PATH));
  R(fchownat(fd, "", 0, 0, 0));
  R(utimensat(fd, "", ts, AT_EMPTY_PATH));
  R(utimensat(fd, "", ts, 0));
  R(utimensat(fd, NULL, ts, 0));
  R(readlinkat(fd, "", buf, 10));
  R(readlinkat(fd, "", buf, 0));
  F(openat(fd, "", O_RDONLY));
  F(openat(fd, "x", O_RDONLY));
  F(openat(fd, ".", O_RDONLY));
  F(openat(fd, "new", O_CREAT | O_WRONLY, 0600));
  R(mkdirat(fd, "new", 0700));
  R(unlinkat(fd, "x", 0));
  R(fchdir(fd));
  R(chdir("/"));
  if (kernel_is(6, 6)) {
    R(fgetxattr(fd, "user.none", buf, 10));
    R(fsetxattr(fd, "user.x", "y", 1, 0));
    R(fremovexattr(fd, "user.x"));
  }
  R(syscall(SYS_getdents64, fd, buf, sizeof(buf)) > 0 ? 1 : syscall(SYS_getdents64, fd, buf, sizeof(buf)));
  R(lseek(fd, 0, SEEK_SET));
  R(syscall(SYS_getdents64, fd, buf, 5));
  R(isatty(fd));
  E(posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED));
  E(posix_fadvise(fd, 0, -1, POSIX_FADV_NORMAL));
  E(posix_fadvise(fd, 0, 0, 99));
  R(readahead(fd, 0, 100));
  R(fpathconf(fd, _PC_NAME_MAX));
  int copy = dup(fd);
  Q(d = fdopendir(copy));
  if (d != NULL) copy = -1, closedir(d);
  close(copy);
}

/* Vectors, counts and offsets at their limits. */
static void limits(const char *kind, int fd) {
  static char buf[1 << 16];
  struct iovec huge[2] = {{buf, SSIZE_MAX}, {buf, 2}}, bad[2] = {{buf, 3}, {at_address(-4096), 3}};
  struct iovec null[2] = {{NULL, 0}, {buf, 3}}, negative[1] = {{buf, (size_t)-1}};
  static struct iovec many[IOV_MAX];
  for (int i = 0; i < IOV_MAX; i++) many[i] = (struct iovec){buf + i, 1};
  printf("limits of %s\n", kind);
  R(lseek(fd, 0, SEEK_SET));
  R(readv(fd, huge, 2));
  R(readv(fd, negative, 1));
  R(readv(fd, null, 2));
  R(lseek(fd, 0, SEEK_SET));
  R(readv(fd, bad, 2));
  R(lseek(fd, 0, SEEK_SET));
  R(readv(fd, many, IOV_MAX));
  R(preadv(fd, null, 1, 0));
  R(preadv(fd, many, 3, INT64_MAX));
  R(pread(fd, buf, 0, 1 << 30));
  R(pread(fd, buf, 10, 1 << 30));
  R(pread(fd, buf, 10, INT64_MAX - 10));
  R(pread(fd, buf, 10, INT64_MAX - 9));
  R(pread(fd, buf, SIZE_MAX, 0));
  R(read(fd, buf, SIZE_MAX));
  R(lseek(fd, 0, SEEK_SET));
  R(lseek(fd, 1 << 20, SEEK_CUR));
  R(lseek(fd, -(1 << 20), SEEK_CUR));
  R(lseek(fd, INT64_MIN, SEEK_SET));
  R(lseek(fd, INT64_MIN, SEEK_END));
  R(linkat(fd, "", AT_FDCWD, P("new"), AT_EMPTY_PATH));
  R(linkat(fd, "", AT_FDCWD, P("f"), AT_EMPTY_PATH));
  R(linkat(fd, "x", AT_FDCWD, P("new"), 0));
  R(symlinkat("x", fd, "new"));
  R(symlinkat("x", fd, "sub"));
  R(mknodat(fd, "new", S_IFREG | 0600, 0));
  R(renameat(fd, "x", fd, "y"));
  R(renameat(fd, "x", AT_FDCWD, O("y")));
  R(unlinkat(fd, "sub", AT_REMOVEDIR));
  R(unlinkat(fd, ".", AT_REMOVEDIR));
  R(fchmodat(fd, "x", 0600, 0));
  R(fchmodat(fd, "none", 0600, 0));
  R(utimensat(fd, "x", NULL, 0));
  R(faccessat(fd, "x", R_OK, 0));
  R(faccessat(fd, "../f", R_OK, 0));
  R(faccessat(fd, "", F_OK, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW));
  R(lseek(fd, 0, SEEK_SET));
}

static void controls(const char *kind, int fd) {
  struct flock lock = {.l_type = F_WRLCK}, read_lock = {.l_type = F_RDLCK}, none = {.l_type = 99};
  struct epoll_event event = {.events = EPOLLIN};
  struct pollfd polled = {.fd = fd, .events = POLLIN | POLLOUT};
  int n = 0, ep = epoll_create1(0);
  long flags = 0;
  fd_set set;
  printf("controls of %s\n", kind);
  R(fcntl(fd, F_GETFD));
  R(fcntl(fd, F_GETFL) & ~O_NOATIME);
  R(fcntl(fd, F_SETFL, O_NONBLOCK));
  R(fcntl(fd, F_GETFL));
  R(fcntl(fd, F_SETFL, 0));
  R(fcntl(fd, F_SETLK, &lock));
  R(fcntl(fd, F_SETLK, &read_lock));
  R(fcntl(fd, F_SETLK, &none));
  R(fcntl(fd, F_GETLK, &lock));
  R(fcntl(fd, F_GETLK, at_address(0)));
  R(fcntl(fd, F_SETLK, at_address(0)));
  R(fcntl(fd, 9999));
  R(fcntl(fd, F_DUPFD, -1));
  R(fcntl(fd, F_DUPFD, 1 << 30));
  R(ioctl(fd, FIONREAD, &n));
  R(n);
  R(ioctl(fd, FIGETBSZ, &n));
  R(n > 0);
  R(ioctl(fd, FS_IOC_GETFLAGS, &flags));
  R(ioctl(fd, TCGETS, &n));
  R(ioctl(fd, 0x12345678, &n));
  R(ioctl(fd, FIONBIO, &n));
  R(ioctl(fd, FIOCLEX));
  R(fcntl(fd, F_GETFD));
  R(ioctl(fd, FIONCLEX));
  R(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event));
  R(epoll_ctl(ep, EPOLL_CTL_DEL, fd, &event));
  R(poll(&polled, 1, 0));
  R(polled.revents);
  FD_ZERO(&set);
  FD_SET(fd, &set);
  R(select(fd + 1, &set, NULL, NULL, &(struct timeval){0}));
  R(dup2(fd, fd) == fd);
  R(dup3(fd, fd, 0));
  R(dup3(fd, 500, 0x40));
  R(dup2(fd, -1));
  R(dup2(fd, 1 << 30));
  close(ep);
}

static void seeks(int fd) {
  char buf[8];
  off_t off = -1, zero = 0;
  int out = open(O("copy"), O_RDWR | O_CREAT | O_TRUNC, 0600), pipes[2];
  R(lseek(fd, 1000, SEEK_END) > 1000);
  R(read(fd, buf, 1));
  R(lseek(fd, INT64_MAX, SEEK_SET) == INT64_MAX);
  R(lseek(fd, INT64_MAX, SEEK_CUR));
  R(lseek(fd, INT64_MAX, SEEK_END));
  R(lseek(fd, INT64_MIN, SEEK_CUR));
  R(lseek(fd, 0, SEEK_DATA));
  R(lseek(fd, 0, SEEK_HOLE));
  R(lseek(fd, 5, SEEK_DATA));
  R(lseek(fd, 5, SEEK_HOLE));
  R(lseek(fd, 1 << 30, SEEK_DATA));
  R(lseek(fd, 1 << 30, SEEK_HOLE));
  R(lseek(fd, -1, SEEK_DATA));
  R(lseek(fd, -1, SEEK_HOLE));
  R(lseek(fd, 0, SEEK_SET));
  R(sendfile(out, fd, NULL, 3));
  R(lseek(fd, 0, SEEK_CUR));
  R(sendfile(out, fd, &off, 3));
  R(sendfile(out, fd, &zero, 0));
  R(sendfile(fd, out, NULL, 3));
  R(sendfile(-1, fd, NULL, 3));
  R(copy_file_range(fd, NULL, fd, NULL, 3, 0));
  R(copy_file_range(out, NULL, fd, NULL, 3, 0));
  R(pipe(pipes));
  R(splice(out, NULL, fd, NULL, 1, 0));
  close(pipes[0]);
  close(pipes[1]);
  close(out);
}

void rows_of_descriptors(void) {
  int fd = open(P("f"), O_RDONLY), dir = open(P("d"), O_RDONLY), path = open(P("f"), O_PATH);
  int path_dir = open(P("d"), O_PATH), path_link = open(P("link"), O_PATH | O_NOFOLLOW);
  any_descriptor("a file", fd);
  any_descriptor("a directory", dir);
  any_descriptor("an O_PATH file", path);
  any_descriptor("an O_PATH directory", path_dir);
  any_descriptor("an O_PATH symlink", path_link);
  any_descriptor("nothing", 900);
  limits("a file", fd);
  limits("a directory", dir);
  limits("an O_PATH directory", path_dir);
  limits("an O_PATH symlink", path_link);
  controls("a file", fd);
  controls("a directory", dir);
  controls("an O_PATH file", path);
  seeks(fd);
  R(lseek(dir, 0, SEEK_END));
  R(lseek(dir, 0, SEEK_DATA));
  R(close(fd) | close(dir) | close(path) | close(path_dir) | close(path_link));
  R(close(fd));
  R(close(-1));
}

static void one_mapping(int fd, int prot, int flags) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (1 << 20) + 5, span = (1 << 20) + page;
  printf("mmap prot %x flags %x\n", (unsigned)prot, (unsigned)flags);
  char *p = mmap(NULL, size, prot, flags, fd, 0);
  Q(p);
  if (p == MAP_FAILED) return;
  R(msync(p, page, MS_SYNC));
  R(msync(p, page, MS_ASYNC | MS_SYNC));
  R(madvise(p, page, MADV_WILLNEED));
  R(madvise(p, page, MADV_DONTNEED));
  R(madvise(p, page, 9999));
  R(mlock(p, page));
  R(munlock(p, page));
  R(mprotect(p, page, PROT_READ));
  R(mprotect(p, page, PROT_READ | PROT_WRITE));
  R(mprotect(p, page, PROT_READ | PROT_EXEC));
  R(mprotect(p, page, PROT_NONE));
  char *moved = mremap(p, span, span, MREMAP_MAYMOVE);
  Q(moved);
  R(munmap(p, span));
}

void rows_of_mappings(void) {
  int fd = open(P("big"), O_RDONLY), dir = open(P("d"), O_RDONLY), empty = open(P("empty"), O_RDONLY);
  int path = open(P("big"), O_PATH);
  const int kinds[] = {MAP_PRIVATE,
                       MAP_SHARED,
                       MAP_SHARED_VALIDATE,
                       0,
                       MAP_PRIVATE | MAP_POPULATE,
                       MAP_PRIVATE | MAP_DENYWRITE,
                       MAP_PRIVATE | MAP_LOCKED};
  for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
    for (int prot = 0; prot < 8; prot++) one_mapping(fd, prot, kinds[i]);
  Q(mmap(NULL, 0, PROT_READ, MAP_SHARED, fd, 0));
  Q(mmap(NULL, 10, PROT_READ, MAP_SHARED, fd, 5));
  Q(mmap(NULL, 10, PROT_READ, MAP_SHARED, fd, -4096));
  Q(mmap(NULL, 10, PROT_READ, MAP_SHARED, fd, INT64_MAX & ~4095));
  Q(mmap(NULL, SIZE_MAX, PROT_READ, MAP_SHARED, fd, 0));
  Q(mmap(NULL, SIZE_MAX & ~4095ul, PROT_READ, MAP_SHARED, fd, 0));
  Q(mmap(NULL, 10, PROT_READ, MAP_SHARED, fd, 1 << 30));
  Q(mmap(at_address(5), 10, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0));
  Q(mmap(NULL, 10, PROT_READ, MAP_SHARED, dir, 0));
  Q(mmap(NULL, 10, PROT_READ, MAP_PRIVATE, path, 0));
  Q(mmap(NULL, 10, PROT_READ, MAP_PRIVATE, 900, 0));
  Q(mmap(NULL, 10, PROT_READ, MAP_PRIVATE, empty, 0));
  Q(mmap(NULL, 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, fd, 0));
  close(fd);
  close(dir);
  close(empty);
  close(path);
}
