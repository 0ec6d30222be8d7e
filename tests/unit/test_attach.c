/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a daemon hands over, and what others may have put where this node's copies lie, is looked at before it is
 * believed: whatever is wrong with it, every byte is right, from elsewhere.
 */
#include <signal.h>
#include <sys/time.h>

#include "daemon_fixture.h"

/* ---- the control segment ---- */

/* A segment with every text as long and every table as large as it may be, and then each a little more. */

#define CTL_PLACES 64u
#define CTL_SIZE (sizeof(struct fs_ctl) + CTL_PLACES * sizeof(struct fs_placement))
#define CTL_ROOM fs_round_up(CTL_SIZE + sizeof(struct fs_ctl_dataset), 64) /* one more would lie in it */

static struct fs_ctl *g_ctl;

static bool ctl_is_valid(uint64_t size) {
  bool valid = fs_ctl_valid(g_ctl, size);
  free(g_ctl);
  g_ctl = NULL;
  return valid;
}

static struct fs_ctl *ctl_of(uint32_t datasets) {
  struct fs_ctl *c = g_ctl = aligned_alloc(64, CTL_ROOM);
  assert_non_null(c);
  memset(c, 0, CTL_ROOM);
  c->magic = FS_CTL_MAGIC;
  c->version = FS_IPC_VERSION;
  c->datasets = datasets;
  c->size = CTL_SIZE;
  c->placements = sizeof(*c);
  c->nplacements = CTL_PLACES;
  memset(c->backing, 's', PATH_MAX - 1);
  for (uint32_t i = 0; i < FS_MAX_DATASETS; i++) {
    struct fs_ctl_dataset *s = &c->dataset[i];
    memset(s->mount, 'm', PATH_MAX - 1);
    memset(s->source, 's', PATH_MAX - 1);
    memset(s->local, 'l', PATH_MAX - 1);
    s->placement = i * (CTL_PLACES / FS_MAX_DATASETS);
    s->partitions = CTL_PLACES - s->placement;
  }
  return c;
}

#define CTL_REFUSED(...) /* the change */                                                                              \
  do {                                                                                                                 \
    struct fs_ctl *c = ctl_of(FS_MAX_DATASETS);                                                                        \
    __VA_ARGS__;                                                                                                       \
    assert_false(ctl_is_valid(CTL_SIZE));                                                                              \
  } while (0)

static void test_ctl_valid(void **state) {
  (void)state;
  for (uint32_t i = 0; i <= FS_MAX_DATASETS; i++) {
    ctl_of(i);
    assert_true(ctl_is_valid(CTL_SIZE));
  }
  struct fs_ctl *bare = ctl_of(1);
  bare->dataset[0].partitions = 0;
  bare->nplacements = 0;
  bare->size = sizeof(*bare);
  assert_true(ctl_is_valid(sizeof(*bare)));
  bare = ctl_of(0);
  bare->size = bare->placements = bare->nplacements = 0;
  assert_false(ctl_is_valid(sizeof(struct fs_ctl) - 1));
  CTL_REFUSED(c->magic++);
  CTL_REFUSED(c->version++);
  CTL_REFUSED(c->size++);
  CTL_REFUSED(c->datasets++);
  CTL_REFUSED(c->placements += 4, c->nplacements--);
  CTL_REFUSED(c->placements = c->size + 8);
  CTL_REFUSED(c->nplacements++);
  CTL_REFUSED(c->nplacements = UINT64_MAX / sizeof(struct fs_placement) + 2);
  CTL_REFUSED(c->backing[PATH_MAX - 1] = 's');
  for (uint32_t i = 0; i < FS_MAX_DATASETS; i += FS_MAX_DATASETS - 1) {
    CTL_REFUSED(c->dataset[i].mount[PATH_MAX - 1] = 'm');
    CTL_REFUSED(c->dataset[i].source[PATH_MAX - 1] = 's');
    CTL_REFUSED(c->dataset[i].local[PATH_MAX - 1] = 'l');
    CTL_REFUSED(c->dataset[i].partitions++);
    CTL_REFUSED(c->dataset[i].placement = CTL_PLACES + 1);
    CTL_REFUSED(c->dataset[i].placement = CTL_PLACES + 1, c->dataset[i].partitions = 0);
  }
}

/* ---- the segments, as they are handed over ---- */

enum spoiled { CTL_SHORT, SLAB_SHORT, CHANNEL_SHORT, CHANNEL_SMALL, CHANNEL_MAGIC, CHANNEL_VERSION, SPOILED };
static enum spoiled g_spoiled;

static void spoil(struct fs_handover *h, struct fs_channel *c) {
  static const enum fs_handover_fd more[] = {FS_HO_CTL, FS_HO_SLAB, FS_HO_CHANNEL};
  if (g_spoiled <= CHANNEL_SHORT) h->size[more[g_spoiled]] += 4096; /* than there is */
  if (g_spoiled == CHANNEL_SMALL) h->size[FS_HO_CHANNEL] = sizeof(*c) - 1;
  if (g_spoiled == CHANNEL_MAGIC) c->magic++;
  if (g_spoiled == CHANNEL_VERSION) c->version++;
}

static void without_node(const struct fix *f) {
  fix_read_all(f);
  CHECK(fs_node_attach()->offline && fs_link_get() == NULL && fs_counter_get(FS_C_ERRORS) == 0);
  CHECK(fs_counter_get(FS_C_BLOCKS + FS_PLACE_IS_LOCAL) == 0);
}

static void without_link(const struct fix *f) {
  fix_read_all(f);
  CHECK(!fs_node_attach()->offline && fs_link_get() == NULL && fs_counter_get(FS_C_ERRORS) == 0);
  CHECK(fs_counter_get(FS_C_BLOCKS + FS_PLACE_IS_LOCAL) > 0 && fs_counter_get(FS_C_BLOCKS + FS_PLACE_IS_SHARED) > 0);
}

static void test_segments(void **state) {
  fake_spoil = spoil;
  for (g_spoiled = 0; g_spoiled < SPOILED; g_spoiled++)
    fake_run(state, g_spoiled <= SLAB_SHORT ? without_node : without_link);
  fake_spoil = NULL;
}

/* ---- files where this node's lie ---- */

static void plant(const char *path, const void *bytes, uint64_t size) {
  CHECK(unlink(path) == 0 || errno == ENOENT);
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
  close(fd);
}

static void materialized(const struct fix *f, unsigned id) {
  uint64_t size = fix_table[id].size;
  struct stat st;
  int fd = fs_data_materialize(0, fix_entry(id));
  CHECK(fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == size);
  if (size > 0) {
    void *p = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED && memcmp(p, f->plain[id], size) == 0 && munmap(p, size) == 0);
  }
  close(fd);
}

static void others_files(const struct fix *f) {
  char path[512], moved[600];
  uint64_t size = fix_table[FIX_MID].size;
  uint8_t *wrong = calloc(1, size + 1);
  snprintf(path, sizeof(path), "%s/backing/0-%u.m", f->dir, fix_entry(FIX_MID));
  snprintf(moved, sizeof(moved), "%s.moved", path);
  for (uint64_t n = size - 1; n <= size + 1; n += 2) {
    plant(path, wrong, n);
    materialized(f, FIX_MID);
  }
  plant(moved, wrong, size);
  CHECK(unlink(path) == 0 && symlink(moved, path) == 0);
  materialized(f, FIX_MID);
  plant(path, wrong, size);
  if (geteuid() == 0) {
    CHECK(chown(path, 65534, 65534) == 0);
    materialized(f, FIX_MID);
  }
  snprintf(path, sizeof(path), "%s/backing/0-%u.m", f->dir, fix_entry(FIX_EMPTY));
  CHECK(mkfifo(path, 0600) == 0);
  materialized(f, FIX_EMPTY);
  free(wrong);
}
static void test_materialized(void **state) {
  fake_run(state, others_files);
}

static void others_partition(const struct fix *f) {
  enum fs_place place = FS_PLACE_COUNT;
  char buf[100];
  CHECK(fs_data_read(0, fix_entry(FIX_SMALL), buf, 100, 0, &place) == 100 && place == FS_PLACE_IS_SHARED);
  CHECK(fs_data_read(0, fix_entry(FIX_BIG), buf, 100, 0, &place) == 100 && place == FS_PLACE_IS_SHARED);
  fix_read_all(f);
  CHECK(fs_counter_get(FS_C_ERRORS) == 0);
}

static void test_staged(void **state) {
  struct fix *f = *state;
  char path[512], text[4096];
  struct fake_handle h;
  if (geteuid() != 0) skip(); /* only root can make what belongs to another user */
  snprintf(path, sizeof(path), "%s/local/part-00000", f->dir);
  assert_int_equal(chown(path, 65534, 65534), 0);
  h = fake_start(f, "node-0.sock", FAKE_SERVE, 1 << 20);
  fix_run_text(f, others_partition, text, sizeof(text));
  fake_stop(&h, f);
  assert_non_null(strstr(text, "part-00000: the staged partition belongs to another user"));
}

/* ---- a signal handler that forks in the middle of the first attach ---- */

static volatile pid_t g_forked = -1;

static void fork_once(int sig) {
  (void)sig;
  if (g_forked < 0) g_forked = fork();
}

/* Each of the two has a channel of its own, and at once. */
static void attach_forked(unsigned us) {
  const struct itimerval soon = {.it_value = {.tv_usec = us}};
  int status = 0;
  CHECK(signal(SIGALRM, fork_once) != SIG_ERR && setitimer(ITIMER_REAL, &soon, NULL) == 0);
  uint64_t begin = fs_now_ns();
  CHECK(fs_link_get() != NULL || g_forked == 0);
  while (g_forked < 0) usleep(100);
  struct fs_link *link = fs_link_get();
  CHECK(link != NULL && fs_now_ns() - begin < 1000000000);
  _Atomic uint64_t *word = &link->channel->counter[0];
  atomic_store(word, (uint64_t)getpid());
  usleep(3000);
  CHECK(atomic_load(word) == (uint64_t)getpid());
  if (g_forked > 0) CHECK(waitpid(g_forked, &status, 0) == g_forked);
  _exit(status != 0);
}

static void attach_often(const struct fix *f) {
  (void)f;
  for (unsigned i = 0; i < 150; i++) {
    int status;
    pid_t pid = fork();
    if (pid == 0) attach_forked(30 + i * 4);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  }
}
static void test_attach_forked(void **state) {
#ifdef __SANITIZE_THREAD__
  skip(); /* it keeps signals back, and calls handlers later, whatever the mask then says */
#endif
  if (fix_on_valgrind()) skip();
  fake_run(state, attach_often);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ctl_valid),
      cmocka_unit_test_setup_teardown(test_segments, fake_setup, fix_teardown),
      cmocka_unit_test_setup_teardown(test_materialized, fake_setup, fix_teardown),
      cmocka_unit_test_setup_teardown(test_staged, fake_setup, fix_teardown),
      cmocka_unit_test_setup_teardown(test_attach_forked, fake_setup, fix_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
