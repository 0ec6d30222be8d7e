/* SPDX-License-Identifier: BSD-3-Clause */
/* A staged partition that somebody opens for writing: it is withdrawn before a byte changes, and let go after a while.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/blocks/partitions.h"
#include "net_fixture.h"
#include "util/sys.h"
#include "util/util.h"

#define PART_SIZE 65536u
#define SECOND_NS 1000000000ull

static struct fs_daemon *d;
static struct fs_daemon_config config;
static struct fs_part_rec parts[2];
static char dir[1024], path[2][1100];

static void make_part(struct fs_dataset *ds, uint32_t p) {
  static char content[PART_SIZE];
  char name[FS_PART_NAME_SIZE];
  memset(content, 'a' + (int)p, sizeof(content));
  parts[p].size = PART_SIZE;
  snprintf(path[p], sizeof(path[p]), "%s/%s", dir, fs_part_name(p, name));
  int fd = open(path[p], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  assert_int_equal(fs_write_full(fd, content, PART_SIZE), 0);
  close(fd);
  ds->fd[p] = open(path[p], O_RDONLY | O_CLOEXEC);
  ds->have[p] = true;
  ds->place[p] = (struct fs_placement){.owners = 2, .owner = {0, 1}, .flags = FS_PLACE_LOCAL};
}

static int setup(void **state) {
  (void)state;
  d = new_daemon(&config, 0, 2, dir, sizeof(dir));
  world.net.copies = true;
  d->datasets = 1;
  d->now = fs_now_ns();
  struct fs_dataset *ds = &d->data[0];
  strcpy(ds->stage.local, dir);
  ds->partitions = 2;
  ds->have = calloc(2, sizeof(*ds->have));
  ds->fd = calloc(2, sizeof(*ds->fd));
  ds->place = calloc(2, sizeof(*ds->place));
  for (uint32_t p = 0; p < 2; p++) make_part(ds, p);
  ds->stage.index = (struct fs_index){.parts = parts, .nparts = 2};
  size_t at = fs_round_up(sizeof(*d->ctl), 64);
  d->ctl = calloc(1, at + 2 * sizeof(struct fs_placement));
  d->ctl->placements = at;
  memcpy((char *)d->ctl + at, ds->place, 2 * sizeof(*ds->place));
  assert_int_equal(fs_parts_new(d), 0);
  assert_int_equal(fs_leases_start(d), 0);
  return 0;
}

static const struct fs_placement *told(uint32_t p) {
  return (const struct fs_placement *)((const char *)d->ctl + d->ctl->placements) + p;
}

static void *shorten(void *p) {
  int fd = open(p, O_WRONLY | O_TRUNC | O_CLOEXEC); /* the kernel holds it up */
  assert_true(fd >= 0);
  close(fd);
  return NULL;
}

/* Waits for the signal, which comes when the file is being opened. */
static void wait_told(void) {
  uint64_t n;
  for (int i = 0; i < 5000 && read(d->wake, &n, sizeof(n)) < 0; i++) usleep(1000);
}

static void test_withdrawn(void **state) {
  (void)state;
  struct stat st;
  pthread_t thread;
  if (fcntl(d->data[0].fd[1], F_GETLEASE) != F_RDLCK) skip(); /* no leases on this file system */
  const char *bytes = fs_part_bytes(d, 0, 1, 0);
  fs_leases_look(d);
  assert_true(d->data[0].have[0] && d->data[0].have[1]);
  assert_int_equal(pthread_create(&thread, NULL, shorten, path[1]), 0);
  wait_told();
  fs_leases_look(d);
  assert_true(d->data[0].have[0]);
  assert_false(d->data[0].have[1]);
  assert_int_equal(told(0)->flags, FS_PLACE_LOCAL);
  assert_int_equal(told(1)->flags, 0);
  assert_int_equal(told(1)->owners, 2); /* the others are still asked */
  assert_int_equal(d->data[0].place[1].flags, 0);

  d->now += SECOND_NS / 2; /* not yet: copies that were begun are let end */
  fs_leases_look(d);
  assert_int_equal(stat(path[1], &st), 0);
  assert_int_equal(st.st_size, PART_SIZE);
  if (bytes) assert_int_equal(bytes[PART_SIZE - 1], 'b');

  d->now += SECOND_NS;
  fs_leases_look(d);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(stat(path[1], &st), 0);
  assert_int_equal(st.st_size, 0);
  if (bytes) assert_int_equal(bytes[PART_SIZE - 1], 0); /* no SIGBUS for what is being sent */
}

/* Opening it for reading, and removing it, is nobody's business. */
static void test_untouched(void **state) {
  (void)state;
  close(open(path[0], O_RDONLY | O_CLOEXEC));
  assert_int_equal(unlink(path[0]), 0);
  fs_leases_look(d);
  d->now += 2 * SECOND_NS;
  fs_leases_look(d);
  assert_true(d->data[0].have[0]);
  assert_int_equal(told(0)->flags, FS_PLACE_LOCAL);
}

static int teardown(void **state) {
  (void)state;
  keep_daemon(d);
  for (uint32_t p = 0; p < 2; p++) close(d->data[0].fd[p]);
  return fs_remove_tree(dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_withdrawn, setup, teardown),
      cmocka_unit_test_setup_teardown(test_untouched, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
