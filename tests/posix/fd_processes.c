/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What descriptors do between processes and threads: fork, vfork, clone, exec, unshare, standard input, messages. Run
 * by fd_calls.sh, for the tree that it packs; see fd_show.h.
 */
#include "fd_show.h"

#include <signal.h>
#include <sys/mman.h>

static void forks(char **argv) {
  int a = in("a.txt"), b = open(P("b.txt"), O_RDONLY | O_CLOEXEC), status;
  line("before", a);
  pid_t pid = fork();
  if (pid == 0) {
    line("child", a);
    line("child", b);
    SHOW(close(b));
    SHOW(in("d/e.txt"));
    line("child", b);
    SHOW(lseek(a, 14, SEEK_SET));
    _exit(0);
  }
  waitpid(pid, &status, 0);
  line("parent", a);
  line("parent", b);
  pid = vfork();
  if (pid == 0) {
    line("vfork child", a);
    close(a);
    _exit(0);
  }
  waitpid(pid, &status, 0);
  line("parent", a);
  pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (pid == 0) {
    line("raw clone", a);
    SHOW(close(a));
    SHOW(in("b.txt"));
    line("raw clone", a);
    _exit(0);
  }
  waitpid(pid, &status, 0);
  line("parent", a);
  pid = fork();
  if (pid == 0) {
    SHOW(dup2(a, 0));
    line("standard input", 0);
    _exit(0);
  }
  waitpid(pid, &status, 0);
  line("parent", a);
  SHOW(lseek(a, 0, SEEK_SET));
  if (fork() == 0) {
    line("child", a);
    _exit(0);
  }
  wait(&status);
  line("parent", a);
  map("in the end");
}

static char stack[65536];
static int in_clone(void *arg) {
  int a = *(int *)arg;
  line("clone", a);
  close(a);
  int b = open("/dev/null", O_RDONLY);
  line("clone, closed", a);
  dprintf(1, "clone: %d\n", b);
  char fd[12];
  snprintf(fd, sizeof(fd), "%d", dup(b));
  _exit(0);
}

static void clones(char **argv) {
  int a = in("a.txt");
  int flags[] = {SIGCHLD, CLONE_VM | CLONE_VFORK | SIGCHLD};
  for (int i = 0; i < 2; i++) {
    pid_t pid = clone(in_clone, stack + sizeof(stack), flags[i], &a);
    reap(pid);
    line("parent", a);
    SHOW(in("b.txt"));
    map("parent");
  }
}

static void executed(char **argv) {
  const char *static_program = argv[3], *program = argv[4];
  int a = in("a.txt");
  SHOW(fcntl(in("b.txt"), F_SETFD, FD_CLOEXEC));
  SHOW(open(P("b.txt"), O_RDONLY | O_CLOEXEC));
  SHOW(fcntl(5, F_SETFD, 0));
  for (int i = 0; i < 2; i++) {
    run(i == 0 ? program : static_program, "3", "2");
    run(i == 0 ? program : static_program, "4", "1");
    run(i == 0 ? program : static_program, "5", "1");
    line("parent", a);
  }
}

static int meet[2];
static void *unsharer(void *arg) {
  char c;
  (void)arg;
  dprintf(1, "thread: %d\n", close_range(3, 4, CLOSE_RANGE_UNSHARE));
  line("thread, closed", 3);
  line("thread", 5);
  int fd = open("/dev/null", O_RDONLY);
  dprintf(1, "thread: fd %d\n", fd);
  line("thread, null", fd);
  int b = in("b.txt");
  line("thread, b", b);
  (void)!write(meet[1], "x", 1);
  (void)!read(meet[1], &c, 1);
  line("thread, null", fd);
  line("thread, b", b);
  return NULL;
}

/* A thread with descriptors of its own: the same numbers are other files in the rest of the process. */
static void unshared(char **argv) {
  pthread_t t;
  char c;
  in("a.txt"), in("b.txt"), in("a.txt");
  SHOW(socketpair(AF_UNIX, SOCK_STREAM, 0, meet));
  pthread_create(&t, NULL, unsharer, NULL);
  (void)!read(meet[0], &c, 1);
  line("main", 3);
  line("main", 4);
  line("main", 5);
  SHOW(close(3));
  SHOW(in("d/e.txt"));
  line("main", 3);
  (void)!write(meet[0], "x", 1);
  pthread_join(t, NULL);
  line("main", 3);
}

static void low(char **argv) {
  char text[32];
  SHOW(close(0));
  SHOW(in("a.txt"));
  SHOW(fgets(text, sizeof(text), stdin) != NULL);
  dprintf(1, "stdin: %s", text);
  SHOW(dup2(in("b.txt"), 0));
  SHOW(lseek(0, 0, SEEK_SET));
  line("0", 0);
  line("3", 3);
  run("/bin/cat", "-", "/dev/null");
  line("3", 3);
  SHOW(close(0));
  SHOW(open("/dev/null", O_RDONLY));
  SHOW(in("a.txt"));
}

/* Started with 0 closed: what opens give, and what children find there. */
static void closed(char **argv) {
  struct stat st;
  SHOW(in("a.txt"));
  SHOW(in("b.txt"));
  line("0", 0);
  SHOW(close(3));
  SHOW(fstat(0, &st));
  SHOW(st.st_size);
  run("/bin/cat", "-", "/dev/null");
  line("0", 0);
  SHOW(close(0));
  for (int i = 0; i < 3; i++) {
    SHOW(in("b.txt"));
    SHOW(close(0));
  }
}

/* The receiver prints at the same time. */
static void hand_over(int to, int fd) {
  if (send_fd(to, fd) != 1) dprintf(1, "sendmsg: %s\n", strerrorname_np(errno));
}

/* To a process that was there before, to one without the library (it is told by its number), and to oneself. */
static void messages(char **argv) {
  const char *receiver = argv[0];
  int pair[2], status;
  char fd[12];
  SHOW(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
  pid_t pid = fork();
  if (pid == 0) {
    int got = receive_fd(pair[1]);
    line("receiver", got);
    _exit(0);
  }
  int a = in("a.txt");
  line("sender", a);
  hand_over(pair[0], a);
  waitpid(pid, &status, 0);
  line("sender", a);
  int copy = dup(a);
  hand_over(pair[0], a);
  SHOW(close(a));
  int b = in("b.txt");
  int got = receive_fd(pair[1]);
  line("got", got);
  line("copy", copy);
  line("b", b);
  hand_over(pair[0], got);
  pid = fork();
  if (pid == 0) {
    snprintf(fd, sizeof(fd), "%d", pair[1]);
    char *const no_environment[] = {NULL}, *const argv[] = {(char *)receiver, (char *)"receive", fd, NULL};
    execve(receiver, argv, no_environment);
    _exit(9);
  }
  reap(pid);
  line("copy", copy);
}

static void receive(int from) {
  line("stranger", receive_fd(from));
}

/* 1,000 at once go to an executed program, each with its offset; and back, since the offsets are shared. */
static void inherited(char **argv) {
  int fds[1000], right = 0;
  for (int i = 0; i < 1000; i++) lseek(fds[i] = in("a.txt"), i % 700, SEEK_SET);
  pid_t pid = fork();
  if (pid == 0) {
    execl(argv[0], argv[0], "inherited", "3", NULL);
    _exit(9);
  }
  reap(pid);
  for (int i = 0; i < 1000; i++) right += lseek(fds[i], 0, SEEK_CUR) == i % 700 + 1;
  SHOW(right);
}

/* The library's own descriptors may lie among them. */
static void check_inherited(int first) {
  int right = 0;
  char c;
  for (int fd = first, i = 0; i < 1000 && fd < 1100; fd++) {
    if (fcntl(fd, F_GETFD) < 0 || lseek(fd, 0, SEEK_CUR) != i % 700) continue;
    i++;
    right += read(fd, &c, 1) == 1;
  }
  SHOW(right);
}

/* More open files die with their processes than there is room for: those of the living stay as they are. */
static void killed(char **argv) {
  int a = in("a.txt"), b = in("b.txt"), pair[2], good = 0;
  char c;
  line("a", a);
  SHOW(pipe(pair));
  for (int round = 0; round < 80; round++) {
    pid_t pid = fork();
    if (pid == 0) {
      for (int i = 0; i < 1000; i++) in(i % 2 ? "a.txt" : "b.txt");
      (void)!write(pair[1], "x", 1);
      pause();
    }
    good += read(pair[0], &c, 1) == 1 && kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid;
  }
  SHOW(good);
  line("a", a);
  line("b", b);
  SHOW(in("d/e.txt"));
  line("e", pair[1] + 1);
}

/* Four processes read one description, record by record, while two of them make it their standard input: each record
   goes to one of them. */
#define RECORDS 5000
static int read_records(int fd, unsigned char *seen, int turn) {
  char text[9] = "";
  for (int n = 0;; n++) {
    if (n == turn && dup2(fd, 0) == 0) fd = 0;
    ssize_t got = read(fd, text, 8);
    if (got <= 0) return (int)got;
    if (got != 8) return 1;
    __atomic_fetch_add(&seen[atoi(text)], 1, __ATOMIC_RELAXED);
  }
}

static void races(char **argv) {
  int bad = 0, status;
  unsigned char *seen = mmap(NULL, RECORDS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int round = 0; round < 60; round++) {
    memset(seen, 0, RECORDS);
    int fd = in("numbers");
    for (int child = 0; child < 4; child++)
      if (fork() == 0) _exit(read_records(fd, seen, child % 2 == 0 ? 10 + round * 13 : -1));
    for (int child = 0; child < 4; child++) bad += wait(&status) < 0 || status != 0;
    bad += lseek(fd, 0, SEEK_CUR) != 8 * RECORDS;
    for (int i = 0; i < RECORDS; i++) bad += seen[i] != 1;
    close(fd);
  }
  SHOW(bad);
}

static const struct test tests[] = {
    {"forks", forks},   {"clones", clones}, {"executed", executed}, {"unshared", unshared},
    {"low", low},       {"closed", closed}, {"messages", messages}, {"inherited", inherited},
    {"killed", killed}, {"races", races},   {NULL, NULL},
};

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "receive") == 0) return receive(atoi(argv[2])), 0;
  if (argc == 3 && strcmp(argv[1], "inherited") == 0) return check_inherited(atoi(argv[2])), 0;
  return run_case(tests, argc, argv);
}
