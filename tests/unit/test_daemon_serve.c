/* SPDX-License-Identifier: BSD-3-Clause */
/* Answering other nodes' requests: good ones from memory and from the I/O pool, and everything that must be refused. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/blocks/partitions.h"
#include "daemon/stagein/stagein.h"
#include "net_fixture.h"
#include "util/sys.h"
#include "util/util.h"

#define PART_SIZE 65536u
#define MOST 40000u

static struct fs_daemon *d;
static struct fs_daemon_config config;
static struct fs_part_rec parts[3];
static unsigned char content[PART_SIZE];
static char dir[1024];

/* Partition 0: an open descriptor; 1: to be opened by name; 2: not here. */
static int setup(void **state) {
  (void)state;
  char path[1100];
  for (unsigned i = 0; i < PART_SIZE; i++) content[i] = (unsigned char)(i * 7 + i / 256);
  d = new_daemon(&config, 0, 3, dir, sizeof(dir));
  d->datasets = 1;
  struct fs_dataset *ds = &d->data[0];
  strcpy(ds->stage.local, dir);
  ds->partitions = 3;
  ds->max_stored = MOST;
  ds->have = calloc(3, sizeof(*ds->have));
  ds->fd = malloc(3 * sizeof(*ds->fd));
  ds->have[0] = ds->have[1] = true;
  for (uint32_t p = 0; p < 3; p++) {
    char name[FS_PART_NAME_SIZE];
    parts[p].size = PART_SIZE;
    snprintf(path, sizeof(path), "%s/%s", dir, fs_part_name(p, name));
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fs_write_full(fd, content, p == 1 ? PART_SIZE / 2 : PART_SIZE), 0); /* 1 is cut short */
    ds->fd[p] = p == 0 ? fd : -1;
    if (p != 0) close(fd);
  }
  ds->stage.index = (struct fs_index){.parts = parts, .nparts = 3};
  assert_int_equal(fs_iopool_start(&d->pool, 1, d->wake), 0);
  assert_int_equal(fs_server_new(d), 0);
  assert_true(world.recvs > 0);
  return 0;
}

/* The pool's thread lives on with the daemon's memory, as in the daemon itself. */
static int teardown(void **state) {
  (void)state;
  keep_daemon(d);
  close(d->data[0].fd[0]);
  return fs_remove_tree(dir);
}

static struct fs_wire_req request(uint32_t part, uint64_t offset, uint32_t length) {
  return (struct fs_wire_req){.magic = FS_WIRE_MAGIC,
                              .version = FS_WIRE_VERSION,
                              .type = FS_WIRE_READ,
                              .id = 0x123456789,
                              .tag = 100,
                              .partition = part,
                              .length = length,
                              .offset = offset};
}
static void arrive_as_it_is(uint32_t peer, const void *req, size_t bytes) {
  assert_true(world.recvs > 0);
  struct message m = world.recv[0];
  memmove(&world.recv[0], &world.recv[1], --world.recvs * sizeof(m));
  assert_true(bytes <= m.bytes);
  assert_int_equal(m.tag, FS_TAG_REQUEST);
  memcpy(m.buf, req, bytes);
  m.op->done(m.op, peer, bytes, 0);
}
static void arrive(uint32_t peer, const struct fs_wire_req *req, size_t bytes) {
  struct fs_wire_req r = *req;
  r.sum = fs_wire_sum(&r, 0);
  arrive_as_it_is(peer, &r, bytes);
}
/* Waits for the reply (the pool may have it) and completes its send. */
static struct fs_wire_rep answer(uint32_t peer, unsigned char *data) {
  struct fs_wire_rep rep;
  for (int i = 0; i < 5000 && world.sends == 0; i++) {
    usleep(1000);
    fs_iopool_reap(&d->pool);
    fs_stagein_reap(d);
    fs_server_timers(d);
  }
  assert_true(world.sends > 0);
  struct message m = world.sent[0];
  memmove(&world.sent[0], &world.sent[1], --world.sends * sizeof(m));
  assert_int_equal(m.peer, peer);
  assert_int_equal(m.tag, 100);
  memcpy(&rep, m.buf, sizeof(rep));
  assert_int_equal(m.bytes, sizeof(rep) + rep.length);
  assert_int_equal(rep.magic, FS_WIRE_MAGIC);
  assert_int_equal(rep.id, 0x123456789);
  if (data) memcpy(data, (char *)m.buf + sizeof(rep), rep.length);
  m.op->done(m.op, m.peer, m.bytes, 0);
  return rep;
}
/* A bare read: its reply is the bytes alone, or a header with an error. */
static void ask_bare(uint32_t part, uint64_t offset, int err) {
  struct fs_wire_req r = request(part, offset, MOST);
  r.type = FS_WIRE_READ_BARE;
  arrive(1, &r, sizeof(r));
  for (int i = 0; i < 5000 && world.sends == 0; i++) {
    usleep(1000);
    fs_iopool_reap(&d->pool);
    fs_stagein_reap(d);
    fs_server_timers(d);
  }
  assert_true(world.sends > 0);
  struct message m = world.sent[--world.sends];
  const struct fs_wire_rep *rep = m.buf;
  assert_int_equal(m.tag, 100);
  assert_int_equal(m.bytes, err == 0 ? MOST : sizeof(*rep));
  if (err == 0)
    assert_memory_equal(m.buf, content + offset, MOST);
  else
    assert_int_equal(rep->err, err);
  m.op->done(m.op, m.peer, m.bytes, 0);
}
static void ask(const struct fs_wire_req *r, int err) {
  static unsigned char data[MOST];
  arrive(1, r, sizeof(*r));
  struct fs_wire_rep rep = answer(1, data);
  assert_int_equal(rep.err, err);
  assert_int_equal(rep.length, err == 0 ? r->length : 0);
  if (err == 0) assert_memory_equal(data, content + r->offset, r->length);
}

static void test_reads(void **state) {
  (void)state;
  struct fs_wire_req r = request(0, 0, MOST);
  ask(&r, 0);
  r = request(0, PART_SIZE - 1, 1);
  ask(&r, 0);
  r = request(1, 100, 5000); /* by name, in the pool */
  ask(&r, 0);
  assert_int_equal(d->count.served, 3);
  assert_int_equal(d->count.served_bytes, MOST + 1 + 5000);
  r = request(1, PART_SIZE / 2 - 10, 100); /* the file is shorter than the index says */
  ask(&r, -EIO);
  r = (struct fs_wire_req){
      .magic = FS_WIRE_MAGIC, .version = FS_WIRE_VERSION, .type = FS_WIRE_PING, .id = 0x123456789, .tag = 100};
  arrive(2, &r, sizeof(r));
  struct fs_wire_rep rep = answer(2, NULL);
  assert_int_equal(rep.type, FS_WIRE_PING);
  assert_false(fs_server_busy(d));
}

/* Out of the partition itself where the network can, out of a buffer where not; in the page cache and after it was
   dropped. */
static void test_bare(void **state) {
  (void)state;
  int fd = d->data[0].fd[0];
  for (int copies = 0; copies < 2; copies++) {
    world.net.copies = copies;
    ask_bare(0, 0, 0);
    ask_bare(0, 5000, 0);
    ask_bare(0, PART_SIZE - MOST, 0);
    assert_int_equal(fs_part_bytes(d, 0, 0, 0) != NULL, copies);
    assert_int_equal(fdatasync(fd), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    ask_bare(0, 100, 0);
    ask_bare(1, 0, -EIO); /* by name; it is cut short */
    ask_bare(2, 0, -ENOENT);
  }
  assert_int_equal(d->count.served, 8);
  assert_int_equal(d->count.served_bytes, 8 * MOST);
  assert_int_equal(ftruncate(fd, 8192), 0); /* after it was mapped: an error, not the end of the daemon */
  ask_bare(0, 0, -EIO);
  assert_false(fs_server_busy(d));
}

/* An output file of this node: as many bytes as there are, with their checksum. */
static fs_err read_as(uint64_t file, uint64_t list, uint64_t offset, uint32_t length) {
  static unsigned char data[FS_OUTPUT_BLOCK];
  struct fs_wire_req r = request(0, offset, length);
  r.type = FS_WIRE_READ_OUTPUT;
  r.file = file;
  r.list = list;
  arrive(1, &r, sizeof(r));
  return answer(1, data).err;
}

/* Home's backing file has no bytes of the file's where segments have some, or it was cut, since an extent map was told.
 */
static void check_lists(uint64_t mine) {
  static struct fs_ctl ctl;
  struct fs_backing_file *f = fs_backing_segment(d, mine);
  const struct fs_output_extent at = {.off = FS_OUTPUT_BLOCK, .len = 10, .segment = FS_OUTPUT_ID_MAKE(1, 9)};
  assert_non_null(f);
  d->ctl = &ctl;
  uint64_t before = fs_backing_map(d, f);
  assert_int_equal(read_as(mine, before, 0, 100), 0);
  assert_int_equal(fs_backing_put(d, f, at), 0);
  uint64_t put = fs_backing_map(d, f);
  assert_true(put != before && before != 0);
  assert_int_equal(read_as(mine, before, 0, FS_OUTPUT_BLOCK), 0);
  assert_int_equal(read_as(mine, before, FS_OUTPUT_BLOCK, 5), -ESTALE);
  assert_int_equal(read_as(mine, 0, FS_OUTPUT_BLOCK, 5), 0);
  assert_int_equal(read_as(mine, put, FS_OUTPUT_BLOCK, 5), 0);
  assert_int_equal(read_as(mine, put + 1, 0, 5), -ESTALE);            /* not told yet */
  assert_int_equal(read_as(mine, put + (1ull << 40), 0, 5), -ESTALE); /* nor by this home */
  fs_backing_cut(d, f, FS_OUTPUT_BLOCK + 3);
  assert_int_equal(read_as(mine, put, FS_OUTPUT_BLOCK, 5), -ESTALE);
  assert_int_equal(read_as(mine, put, 0, 5), 0);
  for (unsigned i = 0; i < 64; i++) assert_int_equal(fs_backing_put(d, f, at), 0);
  assert_int_equal(read_as(mine, put, 0, 5), -ESTALE); /* what changed first is not known any more */
  assert_int_equal(read_as(mine, put + 1, 0, 5), 0);
}

static void test_outputs(void **state) {
  (void)state;
  static unsigned char data[FS_OUTPUT_BLOCK];
  uint64_t mine = FS_OUTPUT_ID_MAKE(0, 5);
  struct {
    uint64_t file, offset;
    uint32_t length, got;
    int err;
  } cases[] = {{mine, 0, 5000, 5000, 0},
               {mine, PART_SIZE - 10, 100, 10, 0},
               {mine, PART_SIZE, FS_OUTPUT_BLOCK, 0, 0},
               {mine, 0, FS_OUTPUT_BLOCK, PART_SIZE, 0},
               {mine, INT64_MAX - 10, 10, 0, 0},
               {mine, INT64_MAX - 10, 11, 0, -EINVAL},
               {mine, UINT64_MAX, 1, 0, -EINVAL},
               {mine, 0, FS_OUTPUT_BLOCK + 1, 0, -EINVAL},
               {mine, 0, 0, 0, -EINVAL},
               {mine + 1, 0, 1, 0, -ENOENT},
               {mine + 2, 0, 1, 0, -ELOOP},  /* a symlink that somebody put there */
               {mine + 3, 100, 200, 200, 0}, /* --stage-in's */
               {mine + 4, 0, 1, 0, -ENOENT}, /* which has gone */
               {FS_OUTPUT_ID_MAKE(1, 5), 0, 1, 0, -EINVAL},
               {5, 0, 1, 0, -EINVAL},
               {mine | 1ull << 63, 0, 1, 0, -EINVAL}};
  char path[FS_BACKING_NAME_SIZE], target[1100];
  struct stat st = {.st_mode = S_IFREG | 0600, .st_size = PART_SIZE};
  d->stagein = calloc(1, sizeof(*d->stagein));
  d->stagein->d = d;
  d->stagein->held_fd = -1;
  config.read_only = true; /* nobody watches */
  config.deadline_ns = 1000000000;
  assert_int_equal(fs_stagein_start(d), 0);
  assert_int_equal(fs_backing_new(d), 0);
  d->backing_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_int_equal(mkdirat(d->backing_fd, FS_OUTPUT_DIR, 0700), 0);
  int fd = openat(d->backing_fd, fs_backing_name(mine, path), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  assert_int_equal(fs_write_full(fd, content, PART_SIZE), 0);
  close(fd);
  assert_int_equal(symlinkat("/etc/passwd", d->backing_fd, fs_backing_name(mine + 2, path)), 0);
  snprintf(target, sizeof(target), "%s/part-00000", dir);
  assert_int_equal(symlinkat(target, d->backing_fd, fs_backing_name(mine + 3, path)), 0);
  assert_int_equal(symlinkat("/nowhere/at/all", d->backing_fd, fs_backing_name(mine + 4, path)), 0);
  assert_true(fs_backing_staged_in(d, mine + 3, 5, &st) && fs_backing_staged_in(d, mine + 4, 5, &st));
  for (unsigned i = 0; i < FS_ARRAY_LEN(cases); i++) {
    struct fs_wire_req r = request(0, cases[i].offset, cases[i].length);
    r.type = FS_WIRE_READ_OUTPUT;
    r.file = cases[i].file;
    arrive(1, &r, sizeof(r));
    struct fs_wire_rep rep = answer(1, data);
    assert_int_equal(rep.err, cases[i].err);
    assert_int_equal(rep.length, cases[i].got);
    if (rep.err == 0) assert_true(rep.xxh3 == fs_xxh3(data, rep.length));
    if (rep.length > 0) assert_memory_equal(data, content + r.offset, rep.length);
  }
  assert_int_equal(d->count.served_bytes, 5000 + 10 + PART_SIZE + 200);
  assert_int_equal(d->stagein->reading, 0);
  assert_false(fs_server_busy(d));
  check_lists(mine);
  close(d->backing_fd);
}

static void test_refused(void **state) {
  (void)state;
  struct fs_wire_req r = request(0, 0, MOST + 1);
  ask(&r, -EINVAL);
  r = request(0, 0, 0);
  ask(&r, -EINVAL);
  r = request(0, PART_SIZE, 1);
  ask(&r, -EINVAL);
  r = request(0, PART_SIZE - 1, 2);
  ask(&r, -EINVAL);
  r = request(0, UINT64_MAX - 10, 100);
  ask(&r, -EINVAL);
  r = request(2, 0, 10);
  ask(&r, -ENOENT);
  r = request(3, 0, 10);
  ask(&r, -ENOENT);
  r = request(0, 0, 10);
  r.dataset = 1;
  ask(&r, -EINVAL);
  r = request(0, 0, 10);
  r.type = 77;
  ask(&r, -EINVAL);
  assert_int_equal(d->count.served, 0);
}

static void test_dropped(void **state) {
  (void)state;
  struct fs_wire_req good = request(0, 0, 10), r = good;
  uint32_t posted = world.recvs;
  arrive(1, &r, sizeof(r) - 1);
  r.magic++;
  arrive(1, &r, sizeof(r));
  r = good;
  r.version++;
  arrive(1, &r, sizeof(r));
  r = good;
  r.tag = FS_TAG_CONTROL;
  arrive(1, &r, sizeof(r));
  r.tag = world.net.tag_max + 1;
  arrive(1, &r, sizeof(r));
  arrive(3, &good, sizeof(good)); /* no such rank */
  assert_int_equal(d->count.dropped, 6);
  good.type = FS_WIRE_READ_OUTPUT; /* whose bytes say nothing of where they are from */
  good.file = FS_OUTPUT_ID_MAKE(0, 5);
  good.sum = fs_wire_sum(&good, 0);
  for (size_t bit = 0; bit < sizeof(good) * 8; bit++) {
    r = good;
    ((unsigned char *)&r)[bit / 8] ^= (unsigned char)(1u << bit % 8);
    arrive_as_it_is(1, &r, sizeof(r));
  }
  assert_int_equal(d->count.dropped, 6 + sizeof(good) * 8);
  assert_int_equal(world.sends, 0);
  assert_int_equal(world.recvs, posted);
  assert_false(fs_server_busy(d));
}

/* A peer that takes no replies holds buffers and jobs, but only so many; afterwards all is answered. */
static void test_bounded(void **state) {
  (void)state;
  uint32_t n = 0, answered = 0;
  for (; world.recvs > 0 && n < 400; n++) {
    struct fs_wire_req r = request(0, n, 1000);
    arrive(1, &r, sizeof(r));
  }
  assert_true(n < 400);
  for (; answered < n; answered++) assert_int_equal(answer(1, NULL).err, 0);
  assert_false(fs_server_busy(d));
  fs_server_timers(d);
  assert_true(world.recvs > 0);
}

static void taken(const struct message *m) {
  m->op->done(m->op, m->peer, m->bytes, 0);
}

/* Replies that a dead peer never takes: others are answered nevertheless, and the daemon does not count as busy. */
static void test_dead_peer(void **state) {
  (void)state;
  struct fs_wire_req r = request(0, 0, 1000);
  uint32_t stuck = 0, n = 0;
  config.deadline_ns = 1000000000;
  d->now = fs_now_ns();
  for (uint32_t round = 0; round < 3; round++) {
    for (; world.recvs > 0; stuck++) arrive(1, &r, sizeof(r));
    assert_true(fs_server_busy(d));
    for (uint32_t i = 0; i < 2; i++) { /* some waited for a buffer first */
      d->now += 3 * config.deadline_ns;
      fs_server_timers(d);
    }
    assert_false(fs_server_busy(d));
    assert_true(world.recvs > 0);
  }
  assert_true(stuck > 600);
  assert_int_equal(world.sends, stuck);
  arrive(2, &r, sizeof(r));
  assert_int_equal(world.sends, stuck + 1);
  assert_int_equal(world.sent[stuck].peer, 2);
  taken(&world.sent[--world.sends]);

  while (world.sends > 0) taken(&world.sent[--world.sends]); /* it was not dead after all */
  assert_false(fs_server_busy(d));
  for (; world.recvs > 0 && n < 400; n++) arrive(1, &r, sizeof(r));
  assert_true(n < 400); /* as many at once as before */
  for (n = 0; n < 2; n++, fs_server_timers(d)) {
    while (world.sends > 0) taken(&world.sent[--world.sends]);
  }
  assert_false(fs_server_busy(d));
}

/* No memory for a reply: the request waits, the daemon does not. */
static void test_no_memory(void **state) {
  (void)state;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  struct rlimit old, none;
  struct fs_wire_req r = request(0, 0, 1000);
  assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
  none = (struct rlimit){.rlim_cur = 1 << 20, .rlim_max = old.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
  arrive(1, &r, sizeof(r));
  alarm(10);
  fs_server_timers(d);
  alarm(0);
  assert_int_equal(world.sends, 0);
  assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
  fs_server_timers(d);
  assert_int_equal(answer(1, NULL).err, 0);
#endif
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {TEST(test_reads),     TEST(test_bare),     TEST(test_outputs),
                                     TEST(test_refused),   TEST(test_dropped),  TEST(test_bounded),
                                     TEST(test_dead_peer), TEST(test_no_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
