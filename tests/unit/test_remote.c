/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading with a daemon (a stand-in): attach, local and remote blocks, the node's cache, everything that goes wrong. */
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/time.h>

#include "daemon_fixture.h"

#define BIG_CACHE (16ull << 20)

static struct fake_word *g_word; /* of the daemon that runs now */

static void run_with(void **state, const char *name, uint32_t mode, uint64_t cache, fix_fn *fn, char *text,
                     size_t size) {
  struct fix *f = *state;
  struct fake_handle h = fake_start(f, name, mode, cache);
  g_word = h.word;
  fix_run_text(f, fn, text, size);
  for (int i = 0; i < 1000 && atomic_load(&h.word->open_now); i++) usleep(1000);
  assert_int_equal(atomic_load(&h.word->open_now), 0);
  assert_int_equal(waitpid(h.pid, NULL, WNOHANG), 0); /* its own checks held */
  fake_stop(&h, f);
}

static void move_shared(const struct fix *f, bool away) {
  char path[512];
  snprintf(path, sizeof(path), "%s.away", f->dataset);
  CHECK((away ? rename(f->dataset, path) : rename(path, f->dataset)) == 0);
}

static uint64_t count(unsigned counter) {
  return fs_counter_get(counter);
}

/* ---- as it should be ---- */

static void serve(const struct fix *f) {
  enum fs_place place = FS_PLACE_COUNT;
  char buf[100];
  CHECK(fs_data_read(0, fix_entry(FIX_MID), buf, 100, 0, &place) == 100 && place == FS_PLACE_IS_REMOTE);
  CHECK(fs_data_read(0, fix_entry(FIX_MID), buf, 100, 0, &place) == 100 && place == FS_PLACE_IS_CACHE);
  CHECK(fs_data_read(0, fix_entry(FIX_SMALL), buf, 100, 0, &place) == 100 && place == FS_PLACE_IS_LOCAL);
  CHECK(fs_data_read(0, fix_entry(FIX_BIG), buf, 100, 0, &place) == 100 && place == FS_PLACE_IS_LOCAL);
  CHECK(atomic_load(&g_word->requests) == 1);
  fix_read_all(f);
  uint64_t remote = count(FS_C_BLOCKS + FS_PLACE_IS_REMOTE);
  CHECK(remote > 0 && atomic_load(&g_word->requests) >= remote);
  uint32_t requests = atomic_load(&g_word->requests);
  fix_read_all(f);
  CHECK(count(FS_C_BLOCKS + FS_PLACE_IS_REMOTE) == remote); /* all in the node's cache by now */
  CHECK(atomic_load(&g_word->requests) == requests);
  CHECK(count(FS_C_FALLBACKS) == 0 && count(FS_C_ERRORS) == 0);
  CHECK(count(FS_C_BLOCKS + FS_PLACE_IS_SHARED) == 0);
  CHECK(fs_link_get()->channel->counter[FS_C_BLOCKS + FS_PLACE_IS_REMOTE] == remote);
  CHECK(atomic_load(&g_word->connections) == 1 && atomic_load(&g_word->rung) > 0);
  CHECK(fs_data_owns_fd(fs_link_get()->socket) && fs_data_owns_fd(fs_link_get()->doorbell));
}
static void test_serve(void **state) {
  move_shared(*state, true); /* nothing may need it */
  run_with(state, "node-0.sock", FAKE_SERVE, BIG_CACHE, serve, NULL, 0);
  move_shared(*state, false);
}

static void *reader(void *arg) {
  fix_read_all(arg);
  return NULL;
}
static void threads(const struct fix *f) {
  pthread_t t[4];
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&t[i], NULL, reader, (void *)f) == 0);
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  CHECK(count(FS_C_ERRORS) == 0);
  CHECK(atomic_load(&fs_link_get()->channel->claimed) == 0);
  for (unsigned i = 0; i < FS_CHANNEL_SLOTS; i++) CHECK(atomic_load(&fs_link_get()->channel->pin[i]) == 0);
}
/* A cache of a few blocks, so that lines are evicted and used again all the time. */
static void test_evictions(void **state) {
  run_with(state, "node-0.sock", FAKE_SERVE, 1 << 20, threads, NULL, 0);
}

/* More blocks wanted at once than the channel has slots: all wait their turn, none takes the shared copy. */
static void *crowd_reader(void *arg) {
  for (uint64_t i = 0; i < 20 / fix_slowness(); i++) {
    fix_read(arg, FIX_SCATTER, 0, fix_table[FIX_SCATTER].size);
    fix_read(arg, FIX_BIG_LZ4, 0, fix_table[FIX_BIG_LZ4].size);
  }
  return NULL;
}
static void crowd(const struct fix *f) {
  pthread_t t[24];
  for (int i = 0; i < 24; i++) CHECK(pthread_create(&t[i], NULL, crowd_reader, (void *)f) == 0);
  for (int i = 0; i < 24; i++) pthread_join(t[i], NULL);
  CHECK(count(FS_C_FALLBACKS) == 0 && count(FS_C_ERRORS) == 0);
  CHECK(atomic_load(&fs_link_get()->channel->claimed) == 0);
}
static void test_crowd(void **state) {
  run_with(state, "node-0.sock", FAKE_SERVE, BIG_CACHE, crowd, NULL, 0);
}

static void forks(const struct fix *f) {
  int status;
  fix_read(f, FIX_MID, 0, 100);
  struct fs_channel *mine = fs_link_get()->channel;
  int socket = fs_link_get()->socket;
  struct stat before, now;
  CHECK(fstat(socket, &before) == 0);
  for (int told = 0; told < 2; told++) {
    pid_t pid = fork();
    if (pid == 0) {
      if (told) fs_data_forked();
      fix_read_all(f);
      CHECK(count(FS_C_BLOCKS + FS_PLACE_IS_LOCAL) > 0 && count(FS_C_BLOCKS + FS_PLACE_IS_SHARED) == 0);
      CHECK(fstat(socket, &now) == -1 || now.st_ino != before.st_ino); /* the parent's connection is closed here */
      _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  }
  CHECK(atomic_load(&g_word->connections) == 3);
  CHECK(fs_link_get()->channel == mine);
  CHECK(count(FS_C_BYTES + FS_PLACE_IS_REMOTE) == 100);
  fix_read_all(f);
}
static void test_forks(void **state) {
  run_with(state, "node-0.sock", FAKE_SERVE, BIG_CACHE, forks, NULL, 0);
}

/* A signal handler forks in the middle of a read, which then goes on in parent and child. */
static volatile sig_atomic_t g_in_child, g_children, g_bad_children;
static void fork_in_a_handler(int sig) {
  int status;
  (void)sig;
  pid_t pid = fork();
  if (pid == 0) {
    signal(SIGSEGV, SIG_DFL); /* cmocka has a handler */
    fs_data_forked();
    g_in_child = 1;
  } else if (waitpid(pid, &status, 0) == pid) {
    g_children++;
    g_bad_children += status != 0;
  }
}
static void forks_in_reads(const struct fix *f) {
  struct itimerval never = {{0, 0}, {0, 0}};
  struct sigaction action = {.sa_handler = fork_in_a_handler, .sa_flags = SA_RESTART};
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  for (uint64_t i = 0; i < 3000 && g_children < 60 / (int)fix_slowness() && !g_in_child; i++) {
    struct itimerval once = {{0, 0}, {0, 20 + (suseconds_t)(i % 200)}};
    CHECK(setitimer(ITIMER_REAL, &once, NULL) == 0);
    for (uint64_t k = 0; k < 20 && !g_in_child; k++)
      fix_read(f, FIX_BIG_LZ4, (i * 20 + k) * 7919 % (19 * FIX_BS), 40000);
  }
  if (g_in_child) {
    fix_read_all(f); /* nothing wrong is remembered */
    _exit(0);
  }
  CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
  CHECK(g_bad_children == 0);
  fix_read_all(f);
  CHECK(atomic_load(&fs_link_get()->channel->claimed) == 0 && count(FS_C_FALLBACKS) == 0);
}
static void test_forks_in_reads(void **state) {
  run_with(state, "node-0.sock", FAKE_SERVE, BIG_CACHE, forks_in_reads, NULL, 0);
}

static void sequence(const struct fix *f) {
  uint64_t size = fix_table[FIX_BIG_LZ4].size;
  for (uint64_t off = 0; off < size; off += 10000) fix_read(f, FIX_BIG_LZ4, off, 10000);
  CHECK(count(FS_C_BLOCKS + FS_PLACE_IS_SHARED) == 0);
  fs_data_prefetch(0, fix_entry(FIX_SCATTER), 0, UINT64_MAX);
  for (int i = 0; i < 1000 && atomic_load(&g_word->prefetches) < 5; i++) usleep(1000);
  CHECK(atomic_load(&g_word->prefetches) >= 5);
  uint64_t remote = count(FS_C_BLOCKS + FS_PLACE_IS_REMOTE);
  fix_read(f, FIX_SCATTER, 0, 12 * FIX_BS);
  CHECK(count(FS_C_BLOCKS + FS_PLACE_IS_REMOTE) == remote);
  CHECK(atomic_load(&fs_link_get()->channel->claimed) == 0);
}
static void test_sequence(void **state) {
  run_with(state, "node-0.sock", FAKE_SERVE, BIG_CACHE, sequence, NULL, 0);
}

static void test_other_name(void **state) {
  run_with(state, "node-7.sock", FAKE_SERVE, BIG_CACHE, serve, NULL, 0);
}

static void real_files(const struct fix *f) {
  struct stat a, b;
  bool temporary;
  uint64_t fd_off;
  int fd = fs_data_materialize(0, fix_entry(FIX_BIG_LZ4)), again = fs_data_materialize(0, fix_entry(FIX_BIG_LZ4)), map;
  CHECK(fd >= 0 && again >= 0 && fstat(fd, &a) == 0 && fstat(again, &b) == 0);
  CHECK(a.st_ino == b.st_ino && a.st_nlink == 1 && (uint64_t)a.st_size == fix_table[FIX_BIG_LZ4].size);
  uint8_t *p = mmap(NULL, (size_t)a.st_size, PROT_READ, MAP_SHARED, fd, 0);
  CHECK(p != MAP_FAILED && memcmp(p, f->plain[FIX_BIG_LZ4], (size_t)a.st_size) == 0);
  CHECK(count(FS_C_MATERIALIZED) <= 1);
  /* the local aligned file is mapped where it lies; a remote one, and what goes beyond its last page, is not */
  CHECK(fs_data_map(0, fix_entry(FIX_BIG), FIX_BS, 100, false, &map, &fd_off, &temporary) == 0);
  CHECK(!temporary && fs_data_owns_fd(map));
  p = mmap(NULL, 100, PROT_READ, MAP_SHARED, map, (off_t)fd_off);
  CHECK(p != MAP_FAILED && memcmp(p, f->plain[FIX_BIG] + FIX_BS, 100) == 0);
  CHECK(fs_data_map(0, fix_entry(FIX_BIG), 0, 20 * FIX_BS, false, &map, &fd_off, &temporary) == 0 && temporary);
  CHECK(fs_data_map(0, fix_entry(FIX_MID), 0, 20000, false, &map, &fd_off, &temporary) == 0 && temporary &&
        fd_off == 0);
}
static void test_real_files(void **state) {
  struct fix *f = *state;
  char path[512];
  for (int i = 0; i < 2; i++) run_with(state, "node-0.sock", FAKE_SERVE, BIG_CACHE, real_files, NULL, 0);
  snprintf(path, sizeof(path), "%s/backing", f->dir);
  fs_remove_tree(path);
  run_with(state, "node-0.sock", FAKE_SERVE, BIG_CACHE, sequence, NULL, 0); /* no directory: no harm */
  assert_int_equal(mkdir(path, 0700), 0);
}

/* ---- when things go wrong ---- */

static uint64_t timed_read(const struct fix *f, unsigned id) {
  uint64_t start = fs_now_ns();
  fix_read(f, id, 0, fix_table[id].size);
  return fs_now_ns() - start;
}

static void silent(const struct fix *f) {
  fix_entry(FIX_MID);
  uint64_t took = timed_read(f, FIX_MID);
  CHECK(took >= 250000000 && took < 2000000000 * fix_slowness());
  CHECK(count(FS_C_FALLBACKS) == 1 && count(FS_C_BLOCKS + FS_PLACE_IS_SHARED) == 1 && count(FS_C_ERRORS) == 0);
  timed_read(f, FIX_SCATTER); /* five remote blocks at once: one deadline for each, but not for the claim */
  struct fs_channel *c = fs_link_get()->channel;
  CHECK(atomic_load(&c->claimed) != 0);
  atomic_store(&g_word->mode, FAKE_SERVE);
  for (int i = 0; i < 2000 && atomic_load(&c->claimed); i++) usleep(1000);
  CHECK(atomic_load(&c->claimed) == 0); /* the daemon has given the slots back */
  CHECK(atomic_load(&g_word->abandoned) >= 2);
  uint64_t shared = count(FS_C_BLOCKS + FS_PLACE_IS_SHARED);
  fix_read_all(f); /* and all is well again */
  CHECK(count(FS_C_BLOCKS + FS_PLACE_IS_SHARED) == shared);
}
static void test_silent(void **state) {
  run_with(state, "node-0.sock", FAKE_SILENT, BIG_CACHE, silent, NULL, 0);
}

static void detour(const struct fix *f) {
  fix_entry(FIX_MID);
  CHECK(timed_read(f, FIX_MID) < 100000000 * fix_slowness());
  fix_read_all(f);
  CHECK(count(FS_C_FALLBACKS) > 0 && count(FS_C_ERRORS) == 0 && count(FS_C_BLOCKS + FS_PLACE_IS_REMOTE) == 0);
  CHECK(count(FS_C_BLOCKS + FS_PLACE_IS_LOCAL) > 0);
  CHECK(atomic_load(&fs_link_get()->channel->claimed) == 0);
}
static void test_stale(void **state) {
  run_with(state, "node-0.sock", FAKE_STALE, BIG_CACHE, detour, NULL, 0);
}
static void test_stopping(void **state) {
  run_with(state, "node-0.sock", FAKE_STOPPING, BIG_CACHE, detour, NULL, 0);
}
static void test_failing_peer(void **state) {
  run_with(state, "node-0.sock", FAKE_FAIL, BIG_CACHE, detour, NULL, 0);
}
static void test_bad_line(void **state) {
  run_with(state, "node-0.sock", FAKE_BAD_LINE, BIG_CACHE, detour, NULL, 0);
}

static void killed(const struct fix *f) {
  struct ucred peer;
  socklen_t size = sizeof(peer);
  fix_read(f, FIX_MID, 0, 100);
  CHECK(getsockopt(fs_link_get()->socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0);
  kill(peer.pid, SIGKILL);
  /* Noticed by the connection, long before the deadlines are over. */
  CHECK(timed_read(f, FIX_SCATTER) < 1000000000 * fix_slowness());
  CHECK(count(FS_C_BLOCKS + FS_PLACE_IS_SHARED) > 0 && count(FS_C_ERRORS) == 0);
  CHECK(timed_read(f, FIX_BIG_LZ4) < 1000000000 * fix_slowness());
}
static void test_killed(void **state) {
  struct fake_handle h = fake_start(*state, "node-0.sock", FAKE_SERVE, BIG_CACHE);
  g_word = h.word;
  fix_run(state, killed);
  fake_stop(&h, *state);
}

/* The same in a program with a timer, whose signals end each sleep before its time. */
static void on_tick(int sig) {
  (void)sig;
}
static void killed_amid_signals(const struct fix *f) {
  struct ucred peer;
  socklen_t size = sizeof(peer);
  struct itimerval often = {.it_interval = {.tv_usec = 4000}, .it_value = {.tv_usec = 4000}};
  fix_read(f, FIX_MID, 0, 100);
  CHECK(getsockopt(fs_link_get()->socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0);
  signal(SIGALRM, on_tick);
  kill(peer.pid, SIGSTOP); /* so that it dies with the requests */
  if (fork() == 0) {
    usleep(300000);
    kill(peer.pid, SIGKILL);
    _exit(0);
  }
  CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
  CHECK(timed_read(f, FIX_SCATTER) < fs_node_attach()->deadline_ns / 2);
  CHECK(count(FS_C_BLOCKS + FS_PLACE_IS_SHARED) > 0 && count(FS_C_ERRORS) == 0);
}
static void test_killed_amid_signals(void **state) {
  struct fake_handle h = fake_start(*state, "node-0.sock", FAKE_SERVE, BIG_CACHE);
  g_word = h.word;
  fix_run(state, killed_amid_signals);
  fake_stop(&h, *state);
}

/* Its end while every slot is in use: nobody waits for a slot that it will never give back. */
static void *last_reader(void *arg) {
  for (int i = 0; i < 3; i++) fix_read(arg, FIX_BIG_LZ4, 0, fix_table[FIX_BIG_LZ4].size);
  return NULL;
}
static void killed_in_a_crowd(const struct fix *f) {
  struct ucred peer;
  socklen_t size = sizeof(peer);
  pthread_t t[24];
  fix_read(f, FIX_MID, 0, 100);
  CHECK(getsockopt(fs_link_get()->socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0);
  kill(peer.pid, SIGSTOP); /* so that all slots are posted when it dies */
  uint64_t start = fs_now_ns();
  for (int i = 0; i < 24; i++) CHECK(pthread_create(&t[i], NULL, last_reader, (void *)f) == 0);
  for (int i = 0; i < 3000 && atomic_load(&fs_link_get()->channel->claimed) != UINT64_MAX; i++) usleep(1000);
  CHECK(atomic_load(&fs_link_get()->channel->claimed) == UINT64_MAX);
  kill(peer.pid, SIGKILL);
  for (int i = 0; i < 24; i++) pthread_join(t[i], NULL);
  CHECK(fs_now_ns() - start < 5000000000 * fix_slowness());
  CHECK(atomic_load(&fs_link_get()->channel->claimed) == 0 && count(FS_C_ERRORS) == 0);
}
static void test_killed_in_a_crowd(void **state) {
  struct fake_handle h = fake_start(*state, "node-0.sock", FAKE_SERVE, BIG_CACHE);
  g_word = h.word;
  fix_run(state, killed_in_a_crowd);
  fake_stop(&h, *state);
}

/* Another daemon at the address of one that died: its lines are not those of the memory that this process has. */
static void another_daemon(const struct fix *f) {
  struct ucred peer;
  socklen_t size = sizeof(peer);
  int status;
  fix_read(f, FIX_SCATTER, 0, fix_table[FIX_SCATTER].size);
  CHECK(getsockopt(fs_link_get()->socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0);
  kill(peer.pid, SIGKILL);
  struct fake_handle h = fake_start((struct fix *)(uintptr_t)f, "node-0.sock", FAKE_SERVE, BIG_CACHE);
  pid_t pid = fork();
  if (pid == 0) {
    CHECK(!fs_link_get());
    fix_read_all(f);
    CHECK(count(FS_C_BLOCKS + FS_PLACE_IS_REMOTE) == 0 && count(FS_C_ERRORS) == 0);
    _exit(0);
  }
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  CHECK(atomic_load(&h.word->connections) > 0 && atomic_load(&h.word->requests) == 0);
  kill(h.pid, SIGKILL);
}
static void test_another_daemon(void **state) {
  struct fake_handle h = fake_start(*state, "node-0.sock", FAKE_SERVE, BIG_CACHE);
  g_word = h.word;
  fix_run(state, another_daemon);
  fake_stop(&h, *state);
}

/* It hangs with every slot in use: once that is known, reads go round it at once. */
static void stopped_in_a_crowd(const struct fix *f) {
  struct ucred peer;
  socklen_t size = sizeof(peer);
  pthread_t t[24];
  fix_read(f, FIX_MID, 0, 100);
  CHECK(getsockopt(fs_link_get()->socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0);
  kill(peer.pid, SIGSTOP);
  for (int i = 0; i < 24; i++) CHECK(pthread_create(&t[i], NULL, last_reader, (void *)f) == 0);
  for (int i = 0; i < 24; i++) pthread_join(t[i], NULL);
  CHECK(atomic_load(&fs_link_get()->channel->claimed) == UINT64_MAX);
  CHECK(timed_read(f, FIX_BIG_LZ4) < 1000000000 * fix_slowness());
  kill(peer.pid, SIGCONT);
  for (int i = 0; i < 3000 && atomic_load(&fs_link_get()->channel->claimed); i++) usleep(1000);
  CHECK(atomic_load(&fs_link_get()->channel->claimed) == 0 && count(FS_C_ERRORS) == 0);
}
static void test_stopped_in_a_crowd(void **state) {
  run_with(state, "node-0.sock", FAKE_SERVE, BIG_CACHE, stopped_in_a_crowd, NULL, 0);
}

/* All slots were left behind by jumps out of reads: one read waits for a deadline, the others go elsewhere at once. */
static void no_slots(const struct fix *f) {
  atomic_store(&g_word->mode, FAKE_SERVE);
  fix_read(f, FIX_MID, 0, 100);
  struct fs_channel *c = fs_link_get()->channel;
  atomic_store(&c->claimed, UINT64_MAX);
  uint64_t took = timed_read(f, FIX_SCATTER);
  CHECK(took >= 250000000 && took < 1000000000 * fix_slowness());
  CHECK(timed_read(f, FIX_BIG_LZ4) < 200000000 * fix_slowness());
  CHECK(count(FS_C_BLOCKS + FS_PLACE_IS_SHARED) > 1 && count(FS_C_ERRORS) == 0);
  atomic_store(&c->claimed, UINT64_MAX >> 1); /* one that is free again is enough */
  uint64_t shared = count(FS_C_BLOCKS + FS_PLACE_IS_SHARED);
  fix_read(f, FIX_SCATTER, 0, fix_table[FIX_SCATTER].size);
  CHECK(count(FS_C_BLOCKS + FS_PLACE_IS_SHARED) == shared && count(FS_C_BLOCKS + FS_PLACE_IS_REMOTE) > 1);
  CHECK(atomic_load(&c->claimed) == UINT64_MAX >> 1);
}
static void test_no_slots(void **state) {
  run_with(state, "node-0.sock", FAKE_SILENT, BIG_CACHE, no_slots, NULL, 0);
}

static void nothing_left(const struct fix *f) {
  char buf[100];
  (void)f;
  CHECK(fs_data_read(0, fix_entry(FIX_MID), buf, 100, 0, NULL) == -EIO);
  CHECK(count(FS_C_ERRORS) == 1);
}
static void test_nothing_left(void **state) {
  char text[4096];
  move_shared(*state, true);
  run_with(state, "node-0.sock", FAKE_FAIL, BIG_CACHE, nothing_left, text, sizeof(text));
  move_shared(*state, false);
  assert_non_null(
      strstr(text, FIX_MOUNT "/d/mid: block 0 cannot be read, not from node 1 (input/output error) and not from "));
}

/* Nodes that owe blocks are asked by who can have them from nowhere else. */
static void test_owing_peer(void **state) {
  run_with(state, "node-0.sock", FAKE_OWING, BIG_CACHE, detour, NULL, 0);
  move_shared(*state, true);
  run_with(state, "node-0.sock", FAKE_OWING, BIG_CACHE, fix_read_all, NULL, 0);
  move_shared(*state, false);
}

static void plain(const struct fix *f) {
  fix_read_all(f);
  CHECK(count(FS_C_BLOCKS + FS_PLACE_IS_SHARED) > 0 && count(FS_C_BLOCKS + FS_PLACE_IS_LOCAL) == 0);
  CHECK(count(FS_C_FALLBACKS) == 0 && fs_link_get() == NULL);
}
static void test_no_daemon(void **state) {
  fix_run(state, plain);
  run_with(state, "node-0.sock", FAKE_REFUSE, BIG_CACHE, plain, NULL, 0);
  run_with(state, "node-0.sock", FAKE_BAD_CTL, BIG_CACHE, plain, NULL, 0);
}

static void short_local(const struct fix *f) {
  fix_read_all(f);
  CHECK(count(FS_C_FALLBACKS) > 0 && count(FS_C_ERRORS) == 0);
}
static void test_short_local(void **state) {
  struct fix *f = *state;
  char path[512], text[4096];
  snprintf(path, sizeof(path), "%s/local/part-00000", f->dir);
  assert_int_equal(truncate(path, 5000), 0);
  run_with(state, "node-0.sock", FAKE_SERVE, BIG_CACHE, short_local, text, sizeof(text));
  assert_non_null(strstr(text, "part-00000: the staged partition does not have the size"));
  snprintf(path, sizeof(path), "%s/local", f->dir);
  fix_write(path, "part-00000", f->part[0], f->part_size[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_serve),
      cmocka_unit_test(test_evictions),
      cmocka_unit_test(test_crowd),
      cmocka_unit_test(test_forks),
      cmocka_unit_test(test_sequence),
      cmocka_unit_test(test_other_name),
      cmocka_unit_test(test_real_files),
      cmocka_unit_test(test_silent),
      cmocka_unit_test(test_stale),
      cmocka_unit_test(test_stopping),
      cmocka_unit_test(test_failing_peer),
      cmocka_unit_test(test_bad_line),
      cmocka_unit_test(test_killed),
      cmocka_unit_test(test_killed_amid_signals),
      cmocka_unit_test(test_another_daemon),
      cmocka_unit_test(test_no_slots),
      cmocka_unit_test(test_nothing_left),
      cmocka_unit_test(test_owing_peer),
      cmocka_unit_test(test_no_daemon),
      cmocka_unit_test(test_short_local),
      cmocka_unit_test(test_killed_in_a_crowd),
      cmocka_unit_test(test_stopped_in_a_crowd),
      cmocka_unit_test(test_forks_in_reads),
  };
  return cmocka_run_group_tests(tests, fake_setup, fix_teardown);
}
