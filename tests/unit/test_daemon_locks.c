/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks at the home (daemon/outputs/locks.c; replica_fixture.h): owners of nodes 0 and 2, and a program of this node
 * that uses the kernel's locks.
 */
#include <fcntl.h>
#include <sys/file.h>

#include "daemon/outputs/locks.h"
#include "replica_fixture.h"

static int file; /* a program's descriptor of the backing file */

static int setup_locks(void **state) {
  char name[FS_BACKING_NAME_SIZE];
  if (setup(state) != 0 || fs_locks_new(d) != 0) return -1;
  d->net->rank = 1;
  file = openat(d->backing_fd, fs_backing_name(OURS, name), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  fs_backing_creating(d, OURS, FS_DATASET_DIR(0, 0));
  return file < 0 ? -1 : 0;
}

static void send_lock(uint32_t rank, uint64_t owner, uint32_t flags, uint64_t start, uint64_t end) {
  const struct fs_names_call c = {
      .op = FS_NAMES_LOCK, .flags = flags, .lock = {.id = OURS, .owner = owner, .start = start, .end = end, .pid = 77}};
  assert_true(fs_call_ok(&c, sizeof(c)));
  said.answers = 0;
  said.err = 1;
  fs_backing_home(d, (struct fs_asked){.from = rank, .id = ++question}, &c);
}

/* The home's answer; 1: none yet. */
static fs_err lock(uint32_t rank, uint64_t owner, uint32_t flags, uint64_t start, uint64_t end) {
  send_lock(rank, owner, flags, start, end);
  return said.answers > 0 ? said.err : 1;
}

/* Lets time pass until there is an answer. */
static fs_err settled(void) {
  for (unsigned tries = 0; said.answers == 0; tries++) {
    assert_true(tries < 5000);
    if (fs_locks_reap(d) == 0) usleep(1000);
    d->now += 100000;
    fs_locks_timers(d);
  }
  return said.err;
}

/* Waits until no other node has an owner here. */
static void no_owner(void) {
  for (unsigned tries = 0; d->ctl->lock_owners > 0; tries++) {
    assert_true(tries < 5000);
    if (fs_locks_reap(d) == 0) usleep(1000);
    fs_locks_timers(d);
  }
}

static bool program_locks(short type, off_t start, off_t len) {
  struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
  return fcntl(file, F_OFD_SETLK, &l) == 0;
}

#define READ FS_LOCK_READ
#define WRITE FS_LOCK_WRITE
#define NONE FS_LOCK_NONE
#define END FS_LOCK_END
#define FLOCK FS_LOCK_FLOCK
#define WAIT FS_LOCK_WAIT

static void test_conflicts(void **state) {
  (void)state;
  for (unsigned twice = 0; twice < 2; twice++) assert_int_equal(lock(0, 5, WRITE, 0, 9), 0);
  assert_int_equal(d->ctl->lock_owners, 1);
  assert_int_equal(lock(2, 5, WRITE, 9, 9), -EBUSY); /* the same number on another node */
  assert_int_equal(lock(0, 6, READ, 0, INT64_MAX), -EBUSY);
  assert_int_equal(lock(0, 5, WRITE | FS_LOCK_PROCESS, 0, 9), -EBUSY);
  assert_int_equal(lock(2, 5, WRITE, 10, 19), 0);
  assert_int_equal(lock(2, 5, WRITE | FLOCK, 0, INT64_MAX), 0); /* flock is another kind */
  assert_int_equal(lock(0, 5, READ | FLOCK, 0, INT64_MAX), -EBUSY);
  assert_false(program_locks(F_RDLCK, 5, 1));
  assert_int_equal(flock(file, LOCK_SH | LOCK_NB), -1);
  for (unsigned twice = 0; twice < 2; twice++) assert_int_equal(lock(0, 5, NONE, 0, 9), 0);
  assert_true(program_locks(F_WRLCK, 5, 1));
  assert_int_equal(lock(0, 5, READ, 0, 9), -EBUSY);
  for (unsigned twice = 0; twice < 2; twice++) assert_int_equal(lock(2, 5, END, 0, INT64_MAX), 0);
  assert_int_equal(flock(file, LOCK_EX | LOCK_NB), 0);
  assert_true(program_locks(F_WRLCK, 0, 0));
  assert_int_equal(lock(0, 6, NONE, 0, INT64_MAX), 0); /* none that it knows */
  assert_int_equal(lock(0, 5, END, 0, INT64_MAX), 0);
  assert_int_equal(lock(0, 6, END, 0, INT64_MAX), 0);
  assert_int_equal(lock(0, 5, END | FS_LOCK_PROCESS, 0, INT64_MAX), 0);
  assert_int_equal(d->ctl->lock_owners, 0);
  close(file);
}

/* By flock: valgrind lets no other thread run while one waits for a lock of an open file description. */
static fs_err whole(uint32_t flags) {
  return lock(2, 5, FLOCK | flags, 0, INT64_MAX);
}

static void test_waits(void **state) {
  (void)state;
  assert_int_equal(flock(file, LOCK_EX | LOCK_NB), 0);
  assert_int_equal(whole(READ | WAIT), 1);
  assert_int_equal(settled(), -EINPROGRESS); /* it goes on */
  assert_int_equal(whole(READ | WAIT), 1);
  uint64_t first = question;
  assert_int_equal(whole(READ | WAIT), -EINPROGRESS); /* another thread: the first one asks again */
  assert_int_equal(said.answered[0], first);
  said.answers = 0;
  assert_int_equal(flock(file, LOCK_UN), 0);
  assert_int_equal(settled(), 0);
  assert_int_equal(flock(file, LOCK_EX | LOCK_NB), -1);
  /* A wait that is left: with the lock, if that has come. */
  assert_int_equal(flock(file, LOCK_SH | LOCK_NB), 0);
  assert_int_equal(whole(WRITE | WAIT), 1);
  assert_int_equal(whole(WRITE | FS_LOCK_LEAVE), -EINPROGRESS); /* for the question before */
  said.answers = 0;
  assert_int_equal(settled(), -EBUSY);
  assert_int_equal(whole(WRITE | FS_LOCK_LEAVE), -EBUSY);
  assert_int_equal(flock(file, LOCK_UN), 0);
  assert_int_equal(whole(WRITE | FS_LOCK_LEAVE), 0);
  assert_int_equal(whole(NONE), 0);
  /* An owner that ends while it waits. */
  assert_int_equal(flock(file, LOCK_EX | LOCK_NB), 0);
  assert_int_equal(whole(WRITE | WAIT), 1);
  assert_int_equal(whole(END), 0);
  no_owner();
  /* One that nobody asks about any more. */
  assert_int_equal(whole(WRITE | WAIT), 1);
  d->now += 100 * SECOND;
  while (fs_locks_reap(d) == 0) {
    fs_locks_timers(d);
    usleep(1000);
  }
  assert_int_equal(flock(file, LOCK_UN), 0);
  assert_int_equal(flock(file, LOCK_EX | LOCK_NB), 0);
  assert_int_equal(whole(END), 0);
  no_owner();
  close(file);
}

/* Nobody gets a lock that nobody asks for any more, also if it is free before the thread is seen to have ended. */
static void test_forgotten(void **state) {
  (void)state;
  assert_int_equal(flock(file, LOCK_EX | LOCK_NB), 0);
  assert_int_equal(whole(WRITE | WAIT), 1);
  assert_int_equal(settled(), -EINPROGRESS);
  d->now += 100 * SECOND;
  for (unsigned i = 0; i < 100; i++) {
    fs_locks_timers(d);
    usleep(1000);
  }
  assert_int_equal(flock(file, LOCK_UN), 0);
  assert_int_equal(fs_locks_reap(d), 1);
  assert_int_equal(flock(file, LOCK_EX | LOCK_NB), 0);
  assert_int_equal(whole(END), 0);
  no_owner();
  close(file);
}

/* While a thread waits for a lock, only that thread gets it: it would lock once more after the unlock. */
static void test_granted_once(void **state) {
  (void)state;
  for (unsigned i = 0; i < 20; i++) {
    assert_int_equal(flock(file, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(whole(WRITE | WAIT), 1);
    assert_int_equal(flock(file, LOCK_UN), 0);
    if (i % 2 == 0) {
      uint64_t first = question;
      assert_int_equal(whole(WRITE | WAIT), -EINPROGRESS); /* of the question before */
      assert_int_equal(said.answered[0], first);
      said.answers = 0;
    } else {
      assert_int_equal(whole(WRITE), -EBUSY);
      said.answers = 0;
    }
    assert_int_equal(settled(), 0);
    assert_int_equal(whole(NONE), 0);
    assert_int_equal(fs_locks_reap(d), 0);
  }
  /* A program that has closed a descriptor of the file loses what it waits for, and may ask again. */
  assert_int_equal(flock(file, LOCK_EX | LOCK_NB), 0);
  assert_int_equal(whole(WRITE | WAIT), 1);
  assert_int_equal(whole(END), 0);
  said.answers = 0;
  assert_int_equal(settled(), -EINPROGRESS);
  no_owner();
  close(file);
}

/* More programs than threads wait: the others ask again and again. */
static void test_many_wait(void **state) {
  uint32_t waiting = 0;
  (void)state;
  assert_int_equal(flock(file, LOCK_EX | LOCK_NB), 0);
  while (waiting < 1000 && lock(2, 100 + waiting, FLOCK | WRITE | WAIT, 0, INT64_MAX) == 1) waiting++;
  assert_int_equal(waiting, 256);
  assert_int_equal(said.err, -EBUSY);
  assert_int_equal(flock(file, LOCK_UN), 0);
  for (uint32_t i = 0; i <= waiting; i++) (void)lock(2, 100 + i, END, 0, INT64_MAX);
  no_owner();
  close(file);
}

/* Another thread of the daemon has a lease for a moment, to see whether a program writes the file. */
static void test_lease(void **state) {
  char name[FS_BACKING_NAME_SIZE];
  (void)state;
  close(file);
  int reader = openat(d->backing_fd, fs_backing_name(OURS, name), O_RDONLY | O_CLOEXEC);
  if (fcntl(reader, F_SETSIG, SIGURG) < 0 || fcntl(reader, F_SETLEASE, F_RDLCK) < 0) skip();
  assert_int_equal(lock(2, 5, WRITE, 0, 9), -EAGAIN);
  assert_int_equal(fcntl(reader, F_SETLEASE, F_UNLCK), 0);
  assert_int_equal(lock(2, 5, WRITE, 0, 9), 0);
  assert_int_equal(lock(2, 5, END, 0, INT64_MAX), 0);
  close(reader);
}

/* That another node locks a file does not make it one that a program has open for writing. */
static void looked_at(uint32_t flags) {
  struct fs_backing_file *f = fs_backing_find(d, OURS);
  assert_int_equal(lock(2, 5, flags, 0, INT64_MAX), 0);
  fs_backing_created(d, OURS);
  fs_backing_timers(d);
  assert_false(f->publishing); /* not yet: it is young */
  d->now += SECOND;
  fs_backing_timers(d);
  assert_int_equal(f->publishing, (flags & FLOCK) == 0 || file < 0);
  assert_int_equal(lock(2, 5, END, 0, INT64_MAX), 0);
}
static void test_closed_and_locked(void **state) {
  (void)state;
  close(file);
  looked_at(WRITE);
}
static void test_closed_and_flocked(void **state) {
  (void)state;
  close(file);
  file = -1;
  looked_at(WRITE | FLOCK);
}
static void test_open_and_flocked(void **state) {
  (void)state;
  looked_at(WRITE | FLOCK);
  close(file);
}

static void test_bounds(void **state) {
  (void)state;
  uint64_t i = 0;
  while (i < 10000 && lock(2, 5, WRITE, 2 * i, 2 * i) == 0) i++;
  assert_int_equal(said.err, -ENOLCK);
  assert_true(i >= 4000 && i < 4100);
  assert_int_equal(lock(2, 5, NONE, 0, 0), 0);
  assert_int_equal(lock(2, 5, NONE, 0, INT64_MAX), 0);
  for (i = 0; i < 10000; i++) { /* one at a time: as many as it likes */
    assert_int_equal(lock(2, 5, WRITE, 5, 5), 0);
    assert_int_equal(lock(2, 5, NONE, 5, 5), 0);
  }
  const struct fs_names_call other = {
      .op = FS_NAMES_LOCK, .flags = WRITE, .lock = {.id = OURS + 1, .owner = 5, .end = INT64_MAX}};
  said.answers = 0;
  fs_backing_home(d, (struct fs_asked){.from = 2, .id = ++question}, &other);
  assert_int_equal(said.err, -ENOENT);
  close(file);
}

static void test_checks(void **state) {
  (void)state;
  const struct fs_call_lock whole = {.id = OURS, .owner = 5, .end = INT64_MAX};
  static const uint32_t wrong[] = {0,
                                   READ | WRITE,
                                   NONE | WAIT,
                                   END | FS_LOCK_TEST,
                                   FLOCK,
                                   WRITE | WAIT | FS_LOCK_LEAVE,
                                   WRITE | FLOCK | FS_LOCK_PROCESS,
                                   WRITE | FLOCK | FS_LOCK_TEST,
                                   1024};
  struct fs_names_call c = {.op = FS_NAMES_LOCK, .lock = whole};
  for (unsigned i = 0; i < FS_ARRAY_LEN(wrong); i++) {
    c.flags = wrong[i];
    assert_false(fs_call_ok(&c, sizeof(c)));
  }
  c.flags = WRITE | WAIT;
  assert_true(fs_call_ok(&c, sizeof(c)));
  c.lock.start = 1;
  c.lock.end = 0;
  assert_false(fs_call_ok(&c, sizeof(c)));
  c.lock.end = 1ull << 63;
  assert_false(fs_call_ok(&c, sizeof(c)));
  c.lock = whole;
  c.lock.owner = 0;
  assert_false(fs_call_ok(&c, sizeof(c)));
  close(file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_conflicts, setup_locks, teardown),
      cmocka_unit_test_setup_teardown(test_waits, setup_locks, teardown),
      cmocka_unit_test_setup_teardown(test_forgotten, setup_locks, teardown),
      cmocka_unit_test_setup_teardown(test_granted_once, setup_locks, teardown),
      cmocka_unit_test_setup_teardown(test_many_wait, setup_locks, teardown),
      cmocka_unit_test_setup_teardown(test_lease, setup_locks, teardown),
      cmocka_unit_test_setup_teardown(test_closed_and_locked, setup_locks, teardown),
      cmocka_unit_test_setup_teardown(test_closed_and_flocked, setup_locks, teardown),
      cmocka_unit_test_setup_teardown(test_open_and_flocked, setup_locks, teardown),
      cmocka_unit_test_setup_teardown(test_bounds, setup_locks, teardown),
      cmocka_unit_test_setup_teardown(test_checks, setup_locks, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
