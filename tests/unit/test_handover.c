/* SPDX-License-Identifier: BSD-3-Clause */
/* Client and daemon meeting at the socket: the good case, and every way in which the other side can be rude. */
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ipc/handover.h"
#include "util/sys.h"
#include "util/util.h"

#define TIMEOUT 200000000ull

enum manner {
  POLITE,
  REFUSES,
  SILENT,
  HANGS_UP,
  SHORT,
  BAD_MAGIC,
  BAD_VERSION,
  FEW_FDS,
  ONE_FD_MORE,
  MANY_FDS,
  ODD_ERR
};

struct host {
  char dir[PATH_MAX], path[PATH_MAX];
  int listener;
  enum manner manner;
  fs_ssize pid;
};

static unsigned open_fds(void) {
  DIR *d = opendir("/proc/self/fd");
  unsigned n = 0;
  while (readdir(d)) n++;
  closedir(d);
  return n;
}

/* A welcome with any number of descriptors. */
static void send_raw(int s, const struct fs_welcome *w, size_t size, unsigned fds) {
  alignas(struct cmsghdr) char control[CMSG_SPACE((FS_HO_COUNT + 3) * sizeof(int))] = {0};
  struct iovec iov = {(void *)w, size};
  struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
  if (fds > 0) {
    msg.msg_control = control;
    msg.msg_controllen = CMSG_SPACE(fds * sizeof(int));
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    *c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(fds * sizeof(int))};
    for (unsigned i = 0; i < fds; i++) memcpy(CMSG_DATA(c) + i * sizeof(int), &(int){1}, sizeof(int));
  }
  sendmsg(s, &msg, MSG_NOSIGNAL);
}

static void welcome(struct host *h, int s) {
  struct fs_welcome w = {.magic = FS_HELLO_MAGIC, .version = FS_IPC_VERSION};
  struct fs_handover give = {.fd = {0, 1, 2, 1, 2, 0}, .size = {1, 2, 3, 4, 5, 0}};
  switch (h->manner) {
  case POLITE:
    fs_handover_welcome(s, 0, &give);
    break;
  case REFUSES:
    fs_handover_welcome(s, -EBUSY, NULL);
    break;
  case SILENT:
    usleep(2 * TIMEOUT / 1000);
    break;
  case HANGS_UP:
    break;
  case SHORT:
    send_raw(s, &w, sizeof(w) - 1, FS_HO_COUNT);
    break;
  case BAD_MAGIC:
    w.magic++;
    send_raw(s, &w, sizeof(w), FS_HO_COUNT);
    break;
  case BAD_VERSION:
    w.version++;
    send_raw(s, &w, sizeof(w), FS_HO_COUNT);
    break;
  case FEW_FDS:
    send_raw(s, &w, sizeof(w), FS_HO_COUNT - 1);
    break;
  case ONE_FD_MORE:
    send_raw(s, &w, sizeof(w), FS_HO_COUNT + 1);
    break;
  case MANY_FDS:
    send_raw(s, &w, sizeof(w), FS_HO_COUNT + 3);
    break;
  case ODD_ERR:
    w.err = 5;
    send_raw(s, &w, sizeof(w), 0);
    break;
  }
}

static void *serve(void *arg) {
  struct host *h = arg;
  int s = -1;
  while (s < 0) s = accept(h->listener, NULL, NULL);
  do h->pid = fs_handover_hello(s);
  while (h->pid == -EAGAIN);
  welcome(h, s);
  close(s);
  return NULL;
}

static fs_err meet(struct host *h, enum manner manner, struct fs_handover *got) {
  pthread_t t;
  h->manner = manner;
  assert_int_equal(pthread_create(&t, NULL, serve, h), 0);
  fs_err err = fs_handover_connect(h->path, TIMEOUT, got);
  pthread_join(t, NULL);
  return err;
}

static void test_polite(void **state) {
  struct host *h = *state;
  struct fs_handover got;
  assert_int_equal(meet(h, POLITE, &got), 0);
  assert_int_equal(h->pid, getpid());
  assert_int_equal(fcntl(got.socket, F_GETFD), FD_CLOEXEC);
  close(got.socket);
  for (unsigned i = 0; i < FS_HO_COUNT; i++) {
    assert_int_equal(fcntl(got.fd[i], F_GETFD), FD_CLOEXEC);
    assert_int_equal(got.size[i], i < FS_HO_DOORBELL ? i + 1 : 0);
    close(got.fd[i]);
  }
}

static void test_rude(void **state) {
  static const struct {
    enum manner manner;
    fs_err err;
  } rude[] = {{REFUSES, -EBUSY},
              {SILENT, -ETIMEDOUT},
              {SHORT, -EPROTO},
              {BAD_MAGIC, -EPROTO},
              {BAD_VERSION, -EPROTONOSUPPORT},
              {FEW_FDS, -EPROTO},
              {ONE_FD_MORE, -EPROTO},
              {MANY_FDS, -EPROTO},
              {ODD_ERR, -EPROTO},
              {HANGS_UP, -ECONNREFUSED}};
  struct fs_handover got;
  for (unsigned i = 0; i < FS_ARRAY_LEN(rude); i++) {
    unsigned before = open_fds();
    assert_int_equal(meet(*state, rude[i].manner, &got), rude[i].err);
    assert_int_equal(open_fds(), before);
  }
}

static void test_nobody(void **state) {
  struct host *h = *state;
  struct fs_handover got;
  char path[PATH_MAX];
  unsigned before = open_fds();
  assert_true(snprintf(path, sizeof(path), "%s.not", h->path) > 0);
  assert_int_equal(fs_handover_connect(path, TIMEOUT, &got), -ENOENT);
  int fd = fs_handover_listen(path);
  assert_true(fd >= 0);
  close(fd); /* a daemon that was killed leaves its socket's name */
  assert_int_equal(fs_handover_connect(path, TIMEOUT, &got), -ECONNREFUSED);
  /* it listens, but does not accept: the backlog may take the connection, the answer never comes */
  uint64_t start = fs_now_ns();
  assert_int_equal(fs_handover_connect(h->path, TIMEOUT, &got), -ETIMEDOUT);
  assert_in_range(fs_now_ns() - start, TIMEOUT / 2, 10 * TIMEOUT);
  assert_int_equal(open_fds(), before);
  fd = accept(h->listener, NULL, NULL);
  assert_true(fd >= 0);
  assert_int_equal(fs_handover_hello(fd), getpid()); /* the hello of the one that went away is still there */
  assert_int_equal(fs_handover_hello(fd), -ECONNRESET);
  close(fd);
}

static void test_mode(void **state) {
  struct host *h = *state;
  struct stat st;
  assert_int_equal(stat(h->path, &st), 0);
  assert_int_equal(st.st_mode, S_IFSOCK | 0600);
}

/* Whoever else gets as far as the socket: neither side talks to another user. */
static void test_other_user(void **state) {
  struct host *h = *state;
  struct fs_handover got;
  struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = "node-0.sock"};
  int status;
  if (geteuid() != 0) skip();
  assert_int_equal(chmod(h->dir, 0711), 0);
  assert_int_equal(chmod(h->path, 0666), 0);
  pid_t pid = fork();
  if (pid == 0) {
    if (chdir(h->dir) != 0 || setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
    if (fs_handover_connect(addr.sun_path, TIMEOUT, &got) != -EPERM) _exit(3);
    struct fs_hello hello = {.magic = FS_HELLO_MAGIC, .version = FS_IPC_VERSION};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0) _exit(4);
    _exit(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello) ? 0 : 5);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  for (unsigned i = 0; i < 2; i++) {
    int fd = accept(h->listener, NULL, NULL);
    assert_true(fd >= 0);
    assert_int_equal(fs_handover_hello(fd), -EPERM);
    close(fd);
  }
}

/* What is no hello, of this user. */
static void test_bad_hello(void **state) {
  struct fs_hello hello[2] = {{.magic = FS_HELLO_MAGIC, .version = FS_IPC_VERSION}};
  static const size_t sizes[] = {1, 7, sizeof(struct fs_hello) - 1, sizeof(struct fs_hello) + 1};
  int pair[2];
  (void)state;
  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
  for (unsigned i = 0; i < FS_ARRAY_LEN(sizes); i++) {
    assert_int_equal(send(pair[1], hello, sizes[i], 0), sizes[i]);
    assert_int_equal(fs_handover_hello(pair[0]), -EPROTO);
  }
  assert_int_equal(fs_handover_hello(pair[0]), -EAGAIN);
  hello[0].version++;
  for (size_t n = 8; n <= sizeof(*hello) + 8; n += 4) { /* another version's may have another size */
    assert_int_equal(send(pair[1], hello, n, 0), n);
    assert_int_equal(fs_handover_hello(pair[0]), -EPROTONOSUPPORT);
  }
  hello[0].magic++;
  assert_int_equal(send(pair[1], hello, sizeof(*hello), 0), sizeof(*hello));
  assert_int_equal(fs_handover_hello(pair[0]), -EPROTO);
  close(pair[0]);
  close(pair[1]);
}

static int start(void **state, bool deep) {
  struct host *h = calloc(1, sizeof(*h));
  const char *tmp = getenv("TMPDIR");
  size_t n = (size_t)snprintf(h->dir, 1024, "%s/fanstore-test-XXXXXX", tmp ? tmp : "/tmp");
  if (!mkdtemp(h->dir)) return -1;
  memcpy(h->path, h->dir, n + 1);
  if (deep) { /* longer than a sockaddr_un's path */
    n += (size_t)sprintf(h->path + n, "/%0150d", 1);
    if (mkdir(h->path, 0700) != 0) return -1;
  }
  strcpy(h->path + n, "/node-0.sock");
  h->listener = fs_handover_listen(h->path);
  *state = h;
  return h->listener < 0;
}
static int setup(void **state) {
  return start(state, false);
}
static int setup_deep(void **state) {
  return start(state, true);
}
static int teardown(void **state) {
  struct host *h = *state;
  close(h->listener);
  fs_remove_tree(h->dir);
  free(h);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_polite, setup, teardown),
      cmocka_unit_test_setup_teardown(test_polite, setup_deep, teardown),
      cmocka_unit_test_setup_teardown(test_rude, setup, teardown),
      cmocka_unit_test_setup_teardown(test_nobody, setup, teardown),
      cmocka_unit_test_setup_teardown(test_nobody, setup_deep, teardown),
      cmocka_unit_test_setup_teardown(test_mode, setup, teardown),
      cmocka_unit_test_setup_teardown(test_other_user, setup, teardown),
      cmocka_unit_test(test_bad_hello),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
