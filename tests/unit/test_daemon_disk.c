/* SPDX-License-Identifier: BSD-3-Clause */
/* The cache on disk, with a pool of this test's own: it says when a read or a write ends. */
#include <sys/stat.h>

#include "daemon/blocks/disk.h"
#include "fetch_fixture.h"

/* ---- a pool without threads ---- */

static struct queued {
  const struct fs_iopool *pool;
  struct fs_io *io;
} queue[64];
static unsigned queued;
static const struct fs_iopool *readers; /* the first that is started */

fs_err fs_iopool_start(struct fs_iopool *p, uint32_t threads, int wake) {
  (void)threads, (void)wake;
  if (!readers) readers = p;
  return 0;
}
void fs_iopool_submit(struct fs_iopool *p, struct fs_io *io) {
  assert_true(queued < FS_ARRAY_LEN(queue));
  queue[queued++] = (struct queued){p, io};
}
int fs_iopool_reap(struct fs_iopool *p) {
  (void)p;
  return 0;
}

static struct fs_io *take(unsigned i) {
  struct fs_io *io = queue[i].io;
  memmove(&queue[i], &queue[i + 1], (--queued - i) * sizeof(queue[0]));
  return io;
}

/* What a thread does, and then the MPI thread. */
static void end(struct fs_io *io) {
  io->err = io->work(io);
  io->done(io);
}

static bool is_read(const struct queued *q) {
  return q->pool == readers;
}

/* Ends all looks and writes, in their order. */
static void write_all(void) {
  for (unsigned i = 0; i < queued;) {
    if (is_read(&queue[i]))
      i++;
    else
      end(take(i)), i = 0;
  }
}

static unsigned reads(void) {
  unsigned n = 0;
  for (unsigned i = 0; i < queued; i++) n += is_read(&queue[i]);
  return n;
}

static struct fs_io *take_read(void) {
  unsigned i = 0;
  while (i < queued && !is_read(&queue[i])) i++;
  assert_true(i < queued);
  return take(i);
}

/* ---- blocks ---- */

static char directory[PATH_MAX];

static int setup_disk(void **state) {
  int err = setup(state);
  queued = 0;
  readers = NULL;
  const char *tmp = getenv("TMPDIR");
  (void)snprintf(directory, sizeof(directory), "%s/disk.XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(directory));
  config.local_dir = directory;
  config.cache_disk = 64 << 20;
  config.unverified = false;
  return err != 0 ? err : fs_disk_start(d);
}

static struct fs_disk *volatile used[8]; /* of tests that are over: not leaked */

static int teardown_disk(void **state) {
  static unsigned over;
  while (queued > 0) end(take(0));
  used[over++] = d->disk;
  assert_int_equal(rmdir(directory), 0);
  d->disk = NULL;
  return teardown(state);
}

/* The client reads a block, and has it from another node. */
static void read_remote(unsigned block) {
  struct fs_req *r = post(9, key_of(block), 0);
  turn(0);
  answer_one(NODES, GOOD);
  assert_int_equal(atomic_load(&r->state), FS_REQ_DONE); /* expect_block would evict another block */
  assert_int_equal(r->err, 0);
  done_with(9);
}

/* Reads more blocks than the cache in memory holds, from number FRESH on. */
#define FRESH 100u
static void fill_disk(void) {
  for (unsigned i = FRESH; i < BLOCKS; i++) {
    read_remote(i);
    write_all();
  }
}

/* The n-th block of node 3 that is on the disk and no longer in memory. */
static unsigned on_disk(unsigned n) {
  for (unsigned i = FRESH + 1; i < BLOCKS; i += 2) {
    if (fs_cache_find(d->cache, key_of(i)) < 0 && n-- == 0) return i;
  }
  fail_msg("%s", "too few blocks are on the disk only");
  return 0;
}

static struct fs_req *ask(unsigned slot, unsigned block) {
  struct fs_req *r = post(slot, key_of(block), 0);
  turn(0);
  return r;
}

static void answer_read(unsigned slot, unsigned block, const struct fs_req *r) {
  answer_one(3, GOOD);
  expect_block(r, slot, block, false);
  done_with(slot);
}

/* Blocks smaller than a granule use up the lines of the cache, and are kept on the disk. */
static void test_keep(void **state) {
  (void)state;
  fill_disk();
  assert_true(d->count.disk_kept_bytes >= BLOCKS / 8 * BLOCK);
  unsigned block = on_disk(0);
  struct fs_req *r = ask(0, block);
  assert_int_equal(world.sends, 0);
  end(take_read());
  expect_block(r, 0, block, true);
  done_with(0);
  assert_int_equal(d->count.disk_bytes, BLOCK);
  turn(2 * SECOND);
  fs_disk_timers(d); /* nothing is overdue */
  write_all();
  assert_int_equal(d->fetcher->reading, 0);
}

/* A read that is not answered goes to another node after a quarter of the deadline, and so does what
   waits behind it. While the disk answers nothing, it is not asked. When it does, it is. */
static void test_hang(void **state) {
  (void)state;
  struct fs_req *r[6];
  unsigned block[6];
  fill_disk();
  for (unsigned i = 0; i < 6; i++) block[i] = on_disk(i);
  for (unsigned i = 0; i < 5; i++) r[i] = ask(i, block[i]);
  assert_int_equal(reads(), 4);
  turn(SECOND / 2);
  fs_disk_timers(d);
  turn(0);
  assert_int_equal(world.sends, 0);
  turn(SECOND / 2 + 1);
  fs_disk_timers(d);
  turn(0);
  for (unsigned i = 0; i < 5; i++) answer_read(i, block[i], r[i]);
  assert_int_equal(d->fetcher->reading, 0);
  r[5] = ask(5, block[5]);
  answer_read(5, block[5], r[5]);
  while (reads() > 0) end(take_read());
  write_all();
  unsigned next = on_disk(4);
  r[0] = ask(0, next);
  assert_int_equal(world.sends, 0);
  end(take_read());
  expect_block(r[0], 0, next, true);
  assert_int_equal(d->count.disk_bytes, BLOCK);
}

/* Reads new blocks, until some wait to be written. */
static void write_some(void) {
  unsigned before = queued;
  for (unsigned i = 0; queued < before + 3; i++) {
    assert_true(i < FRESH);
    read_remote(i);
  }
}

/* Fails the next write. */
static void fail_write(int err) {
  for (unsigned i = 0; i < queued; i++) {
    if (is_read(&queue[i]) || queue[i].io->len == 0) continue;
    struct fs_io *io = take(i);
    io->err = err;
    io->done(io);
    return;
  }
  fail_msg("%s", "no write");
}

static void check_ended(int fd) {
  struct stat st;
  write_all();
  assert_int_equal(fstat(fd, &st), 0);
  assert_int_equal(st.st_size, 0);
  assert_int_equal(fs_disk_room(d, BLOCK), -1);
}

/* When the cache ends, writes that wait do not make the file long again, what waits for a read goes to
   other nodes at once, and a read that was under way is not believed, even without checksums. */
static void test_end(void **state) {
  (void)state;
  config.unverified = true;
  fill_disk();
  unsigned first = on_disk(0), last = on_disk(4);
  struct fs_req *r[5];
  for (unsigned i = 0; i < 4; i++) r[i] = ask(i, on_disk(i));
  r[4] = ask(4, last);
  int fd = queue[0].io->fd;
  write_some();
  fail_write(-EIO);
  turn(0);
  answer_read(4, last, r[4]);
  struct fs_io *late = take_read();
  memset(late->buf, 0, late->len);
  late->err = 0;
  late->done(late);
  turn(0);
  answer_read(0, first, r[0]);
  check_ended(fd);
  while (reads() > 0) end(take_read());
  for (unsigned i = 1; i < 4; i++) {
    turn(0);
    answer_one(3, GOOD);
  }
}

/* Without room for more, it keeps what it has. */
static void test_no_more_room(void **state) {
  (void)state;
  fill_disk();
  uint64_t kept = d->count.disk_kept_bytes;
  unsigned block = on_disk(0);
  write_some();

  fail_write(-EAGAIN);
  assert_int_equal(fs_disk_room(d, BLOCK), -1);
  struct fs_req *r = ask(0, block);
  end(take_read());
  expect_block(r, 0, block, true);
  assert_int_equal(d->count.disk_kept_bytes, kept);
  done_with(0);
  int fd = queue[0].io->fd;
  fail_write(-ENOSPC); /* a quota's, say: outputs need the room */
  check_ended(fd);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_keep, setup_disk, teardown_disk),
      cmocka_unit_test_setup_teardown(test_hang, setup_disk, teardown_disk),
      cmocka_unit_test_setup_teardown(test_end, setup_disk, teardown_disk),
      cmocka_unit_test_setup_teardown(test_no_more_room, setup_disk, teardown_disk),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
