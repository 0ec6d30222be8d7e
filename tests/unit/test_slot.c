/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared table of open files: allocating from several processes at once, inheriting it, finding what nobody holds.
 */
#include <pthread.h>
#include <sys/prctl.h>

#include "client/fd/fdtab.h"
#include "client/names/names.h"
#include "tree_fixture.h"

static void allocate(const struct fix *f) {
  (void)f;
  CHECK(fs_state_attach(false) == NULL);
  struct fs_state *st = fs_state_attach(true);
  CHECK(st != NULL && fs_state_attach(false) == st && fs_state_fd() >= 0);
  int64_t a = fs_slot_alloc(st), b = fs_slot_alloc(st);
  CHECK(a == 0 && b == 1 && st->slot[a].kind == FS_SLOT_IDLE);
  uint32_t gen = st->slot[a].gen;
  fs_slot_free(st, (uint32_t)a);
  CHECK(st->slot[a].kind == FS_SLOT_FREE && st->slot[a].gen != gen);
  CHECK(fs_slot_alloc(st) == 0);
  CHECK(fs_slot_by_ino(st, 4711) == -ENOENT && fs_slot_by_ino(st, 0) == -ENOENT);
  st->slot[b].ino = 4711;
  CHECK(fs_slot_by_ino(st, 4711) == b);
}
static void test_allocate(void **state) {
  fix_run(state, allocate);
}

/* Two processes and the parent allocate and free: no slot is ever given twice. */
static void contend(struct fs_state *st, uint32_t tag) {
  for (int i = 0; i < 20000; i++) {
    int64_t s = fs_slot_alloc(st);
    CHECK(s >= 0);
    CHECK(atomic_exchange(&st->slot[s].refs, tag) == 0);
    CHECK(atomic_exchange(&st->slot[s].refs, 0) == tag);
    fs_slot_free(st, (uint32_t)s);
  }
}

static void processes(const struct fix *f) {
  int status;
  (void)f;
  struct fs_state *st = fs_state_attach(true);
  for (uint32_t i = 1; i <= 2; i++)
    if (fork() == 0) {
      contend(st, i);
      _exit(0);
    }
  contend(st, 3);
  for (int i = 0; i < 2; i++) CHECK(wait(&status) > 0 && status == 0);
  CHECK(st->high <= 3);
  for (unsigned w = 0; w < FS_SLOTS / 64; w++) CHECK(st->used[w] == 0);
}
static void test_processes(void **state) {
  fix_run(state, processes);
}

/* Threads of one process, which the thread sanitizer sees; at the same time processes open and close, and are killed at
 * any moment. A scan then finds what they had, but for a slot that they had just taken or nearly given back. */
#define VICTIMS 40
static void *contend_main(void *arg) {
  struct fs_state *st = fs_state_attach(false);
  uint32_t tag = *(uint32_t *)arg;
  for (int i = 0; i < 10000; i++) {
    int64_t s = fs_slot_alloc(st);
    CHECK(s >= 0);
    struct fs_slot *slot = &st->slot[s];
    slot->entry = tag; /* not atomic: its owner has it alone, and nothing but the bit orders it */
    CHECK(atomic_exchange_explicit(&slot->refs, tag, memory_order_relaxed) == 0);
    CHECK(atomic_load_explicit(&slot->kind, memory_order_relaxed) == FS_SLOT_IDLE);
    CHECK(atomic_exchange_explicit(&slot->refs, 0, memory_order_relaxed) == tag);
    CHECK(slot->entry == tag);
    fs_slot_free(st, (uint32_t)s);
  }
  return NULL;
}

static pid_t start_victim(void) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid > 0) return pid;
  CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
  for (;;) {
    struct fs_slot *s[3];
    int fd[3];
    for (int i = 0; i < 3; i++) CHECK((fd[i] = fs_fd_new(&s[i])) > 2);
    for (int i = 0; i < 3; i++) {
      CHECK(atomic_load(&s[i]->kind) == FS_SLOT_IDLE);
      fs_fd_publish(fd[i], s[i], true);
    }
    for (int i = 0; i < 3; i++) CHECK(fs_fd_close(fd[i]) == 0);
  }
}

/* Slots that are in use: with a placeholder's inode, by which a scan finds out, or without. */
static unsigned left_behind(const struct fs_state *st, bool known) {
  unsigned n = 0;
  for (uint32_t i = 0; i < FS_SLOTS; i++)
    n += (st->used[i / 64] >> i % 64 & 1) && (atomic_load(&st->slot[i].ino) != 0) == known;
  return n;
}

static void kills(const struct fix *f) {
  pthread_t thread[3];
  uint32_t tag[3] = {1, 2, 3};
  int status;
  (void)f;
  struct fs_state *st = fs_state_attach(true);
  for (int i = 0; i < 3; i++) CHECK(pthread_create(&thread[i], NULL, contend_main, &tag[i]) == 0);
  unsigned seed = (unsigned)getpid();
  fprintf(stderr, "# seed %u\n", seed);
  for (int i = 0; i < VICTIMS; i += 2) {
    pid_t pid[2] = {start_victim(), start_victim()};
    usleep((useconds_t)rand_r(&seed) % 3000);
    for (int k = 0; k < 2; k++) {
      CHECK(kill(pid[k], SIGKILL) == 0 && waitpid(pid[k], &status, 0) == pid[k]);
      CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
  }
  for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < 1000 && left_behind(st, true) > 0; i++) { /* a process elsewhere may hide what it has */
    if (i > 0) usleep(10000);
    fs_slot_reclaim(st);
  }
  CHECK(left_behind(st, true) == 0 && left_behind(st, false) <= VICTIMS);
}
static void test_kills(void **state) {
  fix_run(state, kills);
}

/* Slots run out; those of a process that was killed are found, those that are held stay. */
static void reclaim(const struct fix *f) {
  int pipefd[2], status;
  char c;
  (void)f;
  struct fs_slot *mine;
  int held = fs_fd_new(&mine);
  CHECK(held > 2 && pipe(pipefd) == 0);
  struct fs_state *st = fs_state_attach(false);
  pid_t pid = fork();
  if (pid == 0) {
    struct fs_slot *s;
    CHECK(fs_fd_new(&s) > 2);
    CHECK(write(pipefd[1], "x", 1) == 1);
    pause();
  }
  CHECK(read(pipefd[0], &c, 1) == 1);
  CHECK(fs_slot_reclaim(st) == 0);
  kill(pid, SIGKILL);
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(st->slot[1].kind == FS_SLOT_IDLE);
  CHECK(fs_slot_reclaim(st) == 1 && st->slot[1].kind == FS_SLOT_FREE);
  CHECK(mine->kind == FS_SLOT_IDLE && fs_slot_by_ino(st, mine->ino) == mine - st->slot);
  for (uint32_t i = 1; i < FS_SLOTS_FIRST; i++) {
    CHECK(fs_slot_alloc(st) == i);
    st->slot[i].ino = 1ull << 40 | i; /* no such socket */
  }
  st->left = FS_SLOTS_FIRST / 2; /* worth a scan */
  CHECK(fs_slot_alloc(st) == 1 && st->limit == FS_SLOTS_FIRST && st->left == 0);
  for (uint32_t i = 2; i < FS_SLOTS; i++) CHECK(fs_slot_alloc(st) == i); /* without an inode yet: none is freed */
  CHECK(st->limit == FS_SLOTS && fs_slot_alloc(st) == -ENFILE);
  fs_slot_free(st, 77777);
  fs_slot_free(st, 777);
  CHECK(fs_slot_alloc(st) == 777 && fs_slot_alloc(st) == 77777 && fs_slot_alloc(st) == -ENFILE);
}
static void test_reclaim(void **state) {
  fix_run(state, reclaim);
}

static pid_t fork_hidden(void) {
  int ready[2];
  char c;
  CHECK(pipe(ready) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && prctl(PR_SET_DUMPABLE, 0) == 0 && write(ready[1], "x", 1) == 1);
    _exit(pause());
  }
  CHECK(read(ready[0], &c, 1) == 1);
  close(ready[0]);
  close(ready[1]);
  return pid;
}

static void killed(pid_t pid) {
  int status;
  kill(pid, SIGKILL);
  CHECK(waitpid(pid, &status, 0) == pid);
}

/* What a process holds that hides its descriptors is not freed; one that is older than the table does not matter. */
static void hidden(const struct fix *f) {
  int status;
  (void)f;
  if (geteuid() == 0) CHECK(setgid(65534) == 0 && setuid(65534) == 0);
  pid_t older = fork_hidden();
  usleep(30000); /* some ticks */
  pid_t pid = fork();
  if (pid == 0) {
    struct fs_slot *s;
    struct fs_state *st = fs_state_attach(true);
    CHECK(st->began != 0 && st->began == fs_process_began("self") && fs_fd_new(&s) > 2);
    pid_t holder = fork_hidden();
    s->ino = 1ull << 40; /* as if it were held by nobody else */
    CHECK(fs_slot_reclaim(st) == 0 && s->kind == FS_SLOT_IDLE);
    killed(holder);
    CHECK(fs_slot_reclaim(st) == 1 && s->kind == FS_SLOT_FREE);
    _exit(0);
  }
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  killed(older);
}
static void test_hidden(void **state) {
  fix_run(state, hidden);
}

/* An executed program finds the table by the environment; garbage there is ignored. */
static void inherit(const struct fix *f) {
  char text[16], args[3][16] = {"", "nonsense", "0"};
  (void)f;
  struct fs_state *st = fs_state_attach(true);
  CHECK(fs_slot_alloc(st) == 0);
  snprintf(text, sizeof(text), "%d", fs_state_fd());
  CHECK(fcntl(fs_state_fd(), F_GETFD) == 0);
  for (int i = 0; i < 4; i++) {
    pid_t pid = fork();
    if (pid == 0) {
      execl("/proc/self/exe", "test_slot", "--attached", i < 3 ? args[i] : text, i < 3 ? "0" : "1", (char *)NULL);
      _exit(9);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  }
}
static void test_inherit(void **state) {
  fix_run(state, inherit);
}

/* Files of other nodes get numbers of their own, as many as docs/outputs.md says, and keep them. */
static void numbers(const struct fix *f) {
  enum { MANY = 2000000 };
  uint8_t *taken = calloc(FS_OUTPUT_NODES, 1);
  (void)f;
  CHECK(taken != NULL);
  for (uint64_t i = 1; i <= MANY; i++) {
    const struct fs_record r = {.id = FS_OUTPUT_ID | i, .dir = 1, .mode = S_IFREG};
    int64_t number = fs_output_number(&r, FS_ROOT);
    CHECK(number >= FS_OUTPUT_FIRST && number < (int64_t)FS_OUTPUT_FIRST + FS_OUTPUT_NODES);
    CHECK(taken[number - FS_OUTPUT_FIRST]++ == 0);
    CHECK(i % 1000 != 0 || fs_output_number(&r, FS_ROOT) == number);
  }
  free(taken);
}
static void test_numbers(void **state) {
  fix_run(state, numbers);
}

static int attached(char **argv) {
  setenv("FANSTORE_STATE", argv[2], 1);
  struct fs_state *st = fs_state_attach(false);
  if (argv[3][0] == '0') return st != NULL;
  return st == NULL || st->slot[0].kind != FS_SLOT_IDLE || fs_slot_alloc(st) != 1;
}

int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "--attached") == 0) return attached(argv);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocate), cmocka_unit_test(test_processes),
                                     cmocka_unit_test(test_kills),    cmocka_unit_test(test_reclaim),
                                     cmocka_unit_test(test_hidden),   cmocka_unit_test(test_inherit),
                                     cmocka_unit_test(test_numbers)};
  unsetenv("FANSTORE_STATE");
  return cmocka_run_group_tests(tests, tree_setup, fix_teardown);
}
