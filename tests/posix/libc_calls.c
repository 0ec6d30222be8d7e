/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libc functions that want a certain kind of descriptor, or do something with one inside libc: sockets, terminals, AIO,
 * watches, syscall(2) by number, descriptors that arrive. libc_calls.sh runs this on a plain directory and on mounts
 * with the same tree, and compares what is printed. Usage: DIR.
 */
#include "libc_calls.h"

#include <linux/fs.h>
#include <linux/openat2.h>

/* A file's descriptor where something else is wanted. */
static void kinds(const char *name) {
  int fd = open(P(name), O_RDONLY), value = 0;
  char text[256];
  struct termios t;
  struct sockaddr_storage a;
  struct iovec v = {text, 10};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
  socklen_t n = sizeof(a);
  printf("-- %s\n", name);
  SHOW(tcgetattr(fd, &t));
  SHOW(isatty(fd));
  SHOW(isfdtype(fd, S_IFREG));
  SHOW(isfdtype(fd, S_IFSOCK));
  SHOW(bind(fd, (struct sockaddr *)&a, n));
  SHOW(connect(fd, (struct sockaddr *)&a, n));
  SHOW(listen(fd, 1));
  SHOW(accept(fd, NULL, NULL));
  SHOW(accept4(fd, NULL, NULL, 0));
  SHOW(getpeername(fd, (struct sockaddr *)&a, &n));
  SHOW(getsockname(fd, (struct sockaddr *)&a, &n));
  n = sizeof(value);
  SHOW(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &n));
  SHOW(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, n));
  SHOW(shutdown(fd, SHUT_RD));
  SHOW(recv(fd, text, 1, 0));
  SHOW(recvfrom(fd, text, 1, 0, NULL, NULL));
  SHOW(recvmsg(fd, &m, 0));
  SHOW(send(fd, text, 1, 0));
  SHOW(sendto(fd, text, 1, 0, NULL, 0));
  SHOW(sendmsg(fd, &m, 0));
  SHOW(vmsplice(fd, &v, 1, 0));
  SHOW(dprintf(fd, "x"));
  SHOW(eventfd_write(fd, 1));
  SHOW(close(fd));
}

static volatile int told, told_value;
static void on_signal(int n, siginfo_t *info, void *context) {
  (void)context;
  told = n;
  told_value = info->si_code == SI_ASYNCIO ? info->si_value.sival_int : -1;
}
static void in_thread(union sigval value) {
  told_value = value.sival_int;
  __atomic_store_n(&told, -7, __ATOMIC_RELEASE);
}
static void wait_told(void) {
  for (int i = 0; i < 5000 && __atomic_load_n(&told, __ATOMIC_ACQUIRE) == 0; i++) usleep(1000);
  printf("told %d %d\n", told, told_value);
  told = told_value = 0;
}
static void wait_done(struct aiocb *cb) {
  const struct aiocb *list[] = {cb};
  while (aio_error(cb) == EINPROGRESS) aio_suspend(list, 1, NULL);
}

static void asynchronous(void) {
  char a[64] = "", b[64] = "";
  int fd = open(P("a.txt"), O_RDONLY), dir = open(P("d"), O_RDONLY), plain = memfd_create("x", 0);
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
  sigaction(SIGUSR1, &action, NULL);
  struct aiocb one = {.aio_fildes = fd, .aio_buf = a, .aio_nbytes = 7, .aio_offset = 7};
  one.aio_sigevent =
      (struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 5};
  SHOW(aio_read(&one));
  wait_done(&one);
  wait_told();
  SHOW(aio_error(&one));
  SHOW(aio_return(&one));
  printf("%s|\n", a);
  one.aio_sigevent =
      (struct sigevent){.sigev_notify = SIGEV_THREAD, .sigev_notify_function = in_thread, .sigev_value.sival_int = 6};
  one.aio_offset = 0;
  SHOW(aio_read(&one));
  wait_done(&one);
  wait_told();
  SHOW(aio_return(&one));
  one.aio_sigevent.sigev_notify = SIGEV_NONE;
  one.aio_offset = 1 << 20;
  SHOW(aio_read(&one));
  wait_done(&one);
  SHOW(aio_return(&one));
  one.aio_fildes = dir;
  SHOW(aio_read(&one));
  wait_done(&one);
  GIVES(aio_error(&one));
  one.aio_fildes = fd;
  SHOW(aio_write(&one));
  wait_done(&one);
  GIVES(aio_error(&one));
  SHOW(aio_cancel(fd, NULL));
  SHOW(aio_cancel(fd, &one));
  SHOW(aio_fsync(O_SYNC, &one));
  wait_done(&one);
  SHOW(aio_fsync(77, &one));

  struct aiocb two = {.aio_fildes = plain, .aio_buf = "written", .aio_nbytes = 7, .aio_lio_opcode = LIO_WRITE};
  struct aiocb three = {.aio_fildes = plain, .aio_buf = b, .aio_nbytes = 6, .aio_lio_opcode = LIO_READ};
  two.aio_sigevent.sigev_notify = three.aio_sigevent.sigev_notify = SIGEV_NONE;
  struct aiocb *list[] = {&two, NULL};
  SHOW(lio_listio(LIO_WAIT, list, 2, NULL));
  list[0] = &three;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 8};
  SHOW(lio_listio(LIO_NOWAIT, list, 2, &event));
  wait_told();
  printf("%.6s %ld %ld\n", b, (long)aio_return(&two), (long)aio_return(&three));
  SHOW(lio_listio(9, list, 2, NULL));
  close(fd);
  close(dir);
  close(plain);
}

static void watches(void) {
  char buf[4096];
  int fd = inotify_init1(IN_NONBLOCK);
  DOES(inotify_add_watch(fd, P("a.txt"), IN_MODIFY | IN_ATTRIB | IN_CREATE | IN_DELETE_SELF));
  int dir = inotify_add_watch(fd, P("d"), IN_CREATE | IN_ONLYDIR);
  SHOW(dir > 0);
  DOES(inotify_add_watch(fd, P("to-d"), IN_CREATE | IN_ONLYDIR));
  SHOW(inotify_add_watch(fd, P("a.txt"), IN_CREATE | IN_ONLYDIR));
  SHOW(inotify_add_watch(fd, P("none"), IN_CREATE));
  SHOW(inotify_add_watch(0, P("d"), IN_CREATE));
  close(open(P("a.txt"), O_RDONLY));
  SHOW(read(fd, buf, sizeof(buf)));
  SHOW(inotify_rm_watch(fd, dir));
  SHOW(inotify_rm_watch(fd, dir));
  SHOW(read(fd, buf, sizeof(buf)) == sizeof(struct inotify_event)); /* IN_IGNORED */
  close(fd);
}

static void numbers(void) {
  char buf[256];
  struct stat st;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, P("a.txt"), O_RDONLY), dir = open(P("d"), O_RDONLY);
  struct iovec v = {buf, 7};
  struct pollfd p = {fd, POLLIN, 0};
  fd_set set;
  FD_ZERO(&set);
  FD_SET(fd, &set);
  SHOW(syscall(SYS_preadv2, fd, &v, 1, 7L, 0L, 0));
  SHOW(syscall(SYS_preadv, fd, &v, 1, 7L, 0L));
  SHOW(memcmp(buf, "line 1\n", 7));
  SHOW(syscall(SYS_ioctl, fd, TCGETS, buf));
  SHOW(syscall(SYS_flock, fd, 1));
  SHOW(syscall(SYS_fsync, fd));
  SHOW(syscall(SYS_fadvise64, fd, 0L, 0L, POSIX_FADV_WILLNEED));
  SHOW(syscall(SYS_fadvise64, fd, 0L, 0L, 99));
  SHOW(syscall(SYS_readahead, fd, 0L, 100L));
  SHOW(syscall(SYS_ftruncate, fd, 1L));
  SHOW(syscall(SYS_fallocate, fd, 0, 0L, 1L));
  SHOW(syscall(SYS_write, fd, "x", 1L));
  SHOW(syscall(SYS_ppoll, &p, 1L, NULL, NULL, 8L));
  SHOW(p.revents);
  SHOW(syscall(SYS_pselect6, fd + 1, &set, NULL, NULL, NULL, NULL));
  SHOW(syscall(SYS_epoll_ctl, epoll_create1(0), EPOLL_CTL_ADD, fd, &(struct epoll_event){0}));
  SHOW(syscall(SYS_faccessat, AT_FDCWD, P("a.txt"), R_OK));
  SHOW(syscall(SYS_newfstatat, dir, "t.txt", &st, 0));
  SHOW(syscall(SYS_readlinkat, AT_FDCWD, P("to-d"), buf, sizeof(buf)));
  SHOW(syscall(SYS_getxattr, P("a.txt"), "user.none", buf, sizeof(buf)));
  SHOW(syscall(SYS_fgetxattr, fd, "user.none", buf, sizeof(buf)));
  SHOW(syscall(SYS_listxattr, P("none"), buf, sizeof(buf)));
  SHOW(syscall(SYS_mkdirat, AT_FDCWD, P("d"), 0700));
  SHOW(syscall(SYS_symlinkat, "x", dir, "t.txt"));
  SHOW(syscall(SYS_chroot, P("none")));
  SHOW(syscall(SYS_umount2, P("none"), 0));
#if defined(__x86_64__)
  SHOW(syscall(SYS_poll, &p, 1L, -1));
  SHOW(syscall(SYS_select, fd + 1, &set, NULL, NULL, NULL));
  SHOW(syscall(SYS_mkdir, P("d"), 0700));
  SHOW(syscall(SYS_access, P("a.txt"), R_OK));
#endif
  SHOW(syscall(SYS_close, fd));
  SHOW(syscall(SYS_close, fd));
  close(dir);
}

static void descriptors(void) {
  int pair[2], fds[2], master, slave, status, n = 0;
  char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 'x';
  struct iovec v = {&byte, 1};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
  socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
  if (pipe(fds) != 0) return;
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
  memcpy(CMSG_DATA(c), &fds[1], sizeof(int));
  SHOW(sendmsg(pair[0], &m, 0));
  SHOW(recvmsg(pair[1], &m, 0));
  memcpy(&n, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
  SHOW(write(n, "y", 1));
  SHOW(read(fds[0], &byte, 1));
  SHOW(openpty(&master, &slave, NULL, NULL, NULL));
  SHOW(isatty(slave));
  fflush(stdout);
  pid_t pid = forkpty(&master, NULL, NULL, NULL);
  if (pid == 0) {
    char line[64];
    int fd = open(P("a.txt"), O_RDONLY);
    _exit(isatty(0) && read(fd, line, 6) == 6 && memcmp(line, "line 0", 6) == 0 ? 7 : 8);
  }
  waitpid(pid, &status, 0);
  SHOW(WEXITSTATUS(status));
  SHOW(fclose(stdin));
  SHOW(open(P("a.txt"), O_RDONLY));
  SHOW(read(0, &byte, 1));
}

static void resolved(int dir, const char *path, uint64_t flags, uint64_t resolve, uint64_t mode) {
  struct open_how how = {.flags = flags, .mode = mode, .resolve = resolve};
  char byte = '-';
  int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how)), err = fd < 0 ? errno : 0;
  if (fd >= 0 && read(fd, &byte, 1) < 0) byte = '!';
  printf("openat2 %s %jx %jx: %s %c\n", cut(path), (uintmax_t)flags, (uintmax_t)resolve, strerrorname_np(err), byte);
  if (fd >= 0) close(fd);
}

/* How paths are resolved, and what is wrong with the call itself. */
static void resolutions(void) {
  static const char *const paths[] = {"d/t.txt", "d/../b.txt", "to-d/f1", "to-d", "dangling",      "none",
                                      "d/",      "a.txt/",     "d/none",  ".",    "to-d/../b.txt", "d/./t.txt"};
  int top = open(base, O_RDONLY | O_DIRECTORY), d = open(P("d"), O_PATH | O_DIRECTORY);
  for (unsigned i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
    resolved(top, paths[i], O_RDONLY, 0, 0);
    resolved(top, paths[i], O_RDONLY | O_NOFOLLOW, 0, 0);
    resolved(AT_FDCWD, P(paths[i]), O_PATH, 0, 0);
  }
  resolved(d, "../b.txt", O_RDONLY, 0, 0);
  resolved(d, "t.txt", O_RDONLY, 0, 0);
  for (uint64_t resolve = 0; resolve <= 64; resolve = resolve == 0 ? RESOLVE_NO_SYMLINKS : 16 * resolve) {
    resolved(top, "a.txt", O_RDONLY, resolve, 0600);
    resolved(top, "a.txt", O_CREAT | O_RDONLY, resolve, 010000);
    resolved(top, "a.txt", 1ull << 40, resolve, 0);
    resolved(top, "a.txt", O_PATH | O_RDWR, resolve, 0);
    resolved(top, "a.txt", O_TMPFILE | O_RDONLY, resolve, 0);
  }
  resolved(top, "a.txt", O_RDONLY, RESOLVE_BENEATH | RESOLVE_IN_ROOT, 0);
  resolved(top, "a.txt", O_RDONLY, 1 << 20, 0);
  struct open_how how[2] = {{.flags = O_RDONLY}, {.flags = 1}};
  SHOW(syscall(SYS_openat2, top, "a.txt", how, 8));
  SHOW(syscall(SYS_openat2, top, "a.txt", how, sizeof(how)));
  SHOW(syscall(SYS_openat2, top, "a.txt", NULL, sizeof(how[0])));
  close(top);
  close(d);
}

static void newer(void) {
  int fd = open(P("a.txt"), O_RDONLY), pipes[2];
  off64_t at = 5;
  char text[8192];
  if (pipe(pipes) != 0) return;
  SHOW(splice(fd, NULL, pipes[1], NULL, 10, 0));
  SHOW(lseek(fd, 0, SEEK_CUR));
  SHOW(splice(fd, &at, pipes[1], NULL, 7, SPLICE_F_MORE));
  SHOW(at);
  SHOW(read(pipes[0], text, sizeof(text)));
  printf("%.17s\n", text);
  SHOW(splice(fd, NULL, pipes[1], &at, 10, 0));
  at = 1 << 30;
  SHOW(splice(fd, &at, pipes[1], NULL, 10, 0));
  SHOW(splice(fd, NULL, pipes[1], NULL, 0, 0));
  while (splice(fd, NULL, pipes[1], NULL, 1 << 20, SPLICE_F_NONBLOCK) > 0) continue; /* to its end */
  SHOW(lseek(fd, 0, SEEK_CUR));
  while (write(pipes[1], text, fcntl(pipes[1], F_SETFL, O_NONBLOCK) + 4096) > 0) continue;
  at = 0;
  SHOW(splice(fd, &at, pipes[1], NULL, 10, SPLICE_F_NONBLOCK));
  SHOW(splice(fd, &at, pipes[1], NULL, 10, 0)); /* the pipe itself says so */
  SHOW(at);
  SHOW(syscall(452, AT_FDCWD, P("a.txt"), 0600, 0x10));
  SHOW(syscall(452, fd, "", 0600, AT_EMPTY_PATH | 1));
  SHOW(chdir(P("d")));
  SHOW(syscall(SYS_getcwd, text, 3));
  SHOW(syscall(SYS_getcwd, text, 0));
  SHOW(syscall(SYS_getcwd, NULL, sizeof(text)));
  SHOW(syscall(SYS_getcwd, text, sizeof(text)) == (long)strlen(base) + 3 && strcmp(cut(text), "/d") == 0);
  SHOW(chdir("/"));
  FILE *to = tmpfile();
  struct file_clone_range range = {.src_fd = fd};
  printf("clone: %d", to != NULL && ioctl(fileno(to), FICLONE, fd) != 0 && (errno == EXDEV || errno == EOPNOTSUPP));
  printf(" %d\n",
         to != NULL && ioctl(fileno(to), FICLONERANGE, &range) != 0 && (errno == EXDEV || errno == EOPNOTSUPP));
  if (to != NULL) fclose(to);
  close(fd);
  close(pipes[0]);
  close(pipes[1]);
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc != 2) return 2;
  base = argv[1];
  kinds("a.txt");
  kinds("d");
  asynchronous();
  watches();
  numbers();
  resolutions();
  newer();
  descriptors();
  return 0;
}
