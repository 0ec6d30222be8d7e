/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that start when their daemon is dead, stopped, or gone with all that it has left. */
#include "client/outputs/outputs.h"
#include "client/path/path.h"
#include "daemon_fixture.h"

static struct fake_handle g_fake; /* the daemon of the scenario */

static int route_of(const char *name) {
  static struct fs_found f;
  char path[256];
  snprintf(path, sizeof(path), "%s/%s", FIX_MOUNT, name);
  return fs_path_route(AT_FDCWD, path, 0, &f);
}

static fs_err make(const char *name) {
  static struct fs_found f;
  char path[256];
  snprintf(path, sizeof(path), "%s/%s", FIX_MOUNT, name);
  CHECK(fs_path_route(AT_FDCWD, path, FS_MAKE, &f) == FS_NEW);
  return fs_output_create(&f, O_WRONLY, 0600);
}

static struct stat socket_of(const struct fix *f) {
  char path[512];
  struct stat st;
  snprintf(path, sizeof(path), "%s/run/node-0.sock", f->dir);
  CHECK(stat(path, &st) == 0);
  return st;
}

static bool socket_marked(const struct fix *f) {
  mode_t mode = socket_of(f).st_mode & 07777;
  CHECK(mode == FS_SOCKET_MODE || mode == FS_SOCKET_SILENT);
  return mode == FS_SOCKET_SILENT;
}

/* Whatever an output could be is an error, all that the dataset has is there. */
static void lost(const struct fix *f) {
  const struct fs_node *node = fs_names_node();
  CHECK(node != NULL && node->offline && node->ctl->node == 0 && !fs_node_alive(node));
  fix_read_all(f);
  CHECK(route_of("d/mid") == FS_IN && route_of("nosuch") == -EIO && route_of("d/nosuch") == -EIO);
  CHECK(route_of("nosuch/below") == -EIO && make("new") == -EIO && make("d/new") == -EIO);
  uint64_t at = FS_OUTPUT_AT;
  char buf[512];
  CHECK(fs_output_list(0, FS_ROOT, &at, buf, sizeof(buf)) == -EIO);
  CHECK(fs_counter_get(FS_C_BLOCKS + FS_PLACE_IS_SHARED) > 0 && fs_counter_get(FS_C_ERRORS) == 0);
}

static void lost_known(const struct fix *f) {
  lost(f);
  CHECK(fs_counter_get(FS_C_BLOCKS + FS_PLACE_IS_LOCAL) > 0);
}

static void lost_unknown(const struct fix *f) {
  lost(f);
  CHECK(fs_counter_get(FS_C_BLOCKS + FS_PLACE_IS_LOCAL) == 0);
}

static void start(struct fix *f) {
  fake_leaves = true;
  fake_marks = -1;
  g_fake = fake_start(f, "node-0.sock", FAKE_SERVE, 1 << 20);
  fake_leaves = false;
}

/* Leaves what a daemon leaves that is killed. */
static void start_and_kill(struct fix *f) {
  start(f);
  kill(g_fake.pid, SIGKILL);
  assert_int_equal(waitpid(g_fake.pid, NULL, 0), g_fake.pid);
}

static void end(struct fix *f) {
  fake_stop(&g_fake, f);
}

static void told_once_of(const char *whom, const char *text, const char *what) {
  const char *first = strstr(text, whom);
  assert_non_null(first);
  assert_null(strstr(first + 1, "fanstore: "));
  assert_non_null(strstr(first, what));
}

static void told_once(const char *text, const char *what) {
  told_once_of("fanstore: the daemon of node 0, this program's own, ", text, what);
}

static void test_dead(void **state) {
  char text[4096];
  start_and_kill(*state);
  fix_run_text(*state, lost_known, text, sizeof(text));
  told_once(text, " has ended; ");
  end(*state);
}

/* As in a program that another host's environment was carried to: a daemon that ended in order has no socket, only what
   it left. */
static void test_other_node(void **state) {
  struct fix *f = *state;
  char path[512], text[4096];
  snprintf(path, sizeof(path), "%s/run/node-0.sock", f->dir);
  setenv("FANSTORE_NODE", "3", 1);
  for (int in_order = 0; in_order < 2; in_order++) {
    start_and_kill(f);
    if (in_order) assert_int_equal(unlink(path), 0);
    fix_run_text(f, lost_known, text, sizeof(text));
    told_once(text, " has ended; ");
    end(f);
  }
  setenv("FANSTORE_NODE", "0", 1);
}

/* Where no outputs were made, as far as the daemon knew, nothing is missed but its making. */
static void unmarked(const struct fix *f) {
  CHECK(fs_names_node()->offline);
  fix_read_all(f);
  uint64_t at = FS_OUTPUT_AT;
  char buf[512];
  CHECK(route_of("nosuch") == FS_NEW && route_of("d/nosuch") == FS_NEW && route_of("nosuch/below") == -ENOENT);
  CHECK(fs_output_list(0, FS_ROOT, &at, buf, sizeof(buf)) == 0);
  CHECK(make("new") == -EIO);
}

static void test_unmarked(void **state) {
  struct fix *f = *state;
  char text[4096];
  fake_leaves = true;
  fake_marks = 0;
  g_fake = fake_start(f, "node-0.sock", FAKE_SERVE, 1 << 20);
  kill(g_fake.pid, SIGKILL);
  assert_int_equal(waitpid(g_fake.pid, NULL, 0), g_fake.pid);
  fix_run_text(f, unmarked, text, sizeof(text));
  told_once(text, " has ended; ");
  end(f);
}

/* ---- what was left is not what it was ---- */

static void not_believed(struct fix *f) {
  char text[4096];
  fix_run_text(f, lost_unknown, text, sizeof(text));
  told_once(text, " has ended; ");
  end(f);
}

static void damaged(struct fix *f, const char *name, size_t size, uint64_t off, const char *bytes, size_t n) {
  char path[512];
  start_and_kill(f);
  snprintf(path, sizeof(path), "%s/run/node-0.ctl", f->dir);
  int fd = open(path, O_RDWR);
  assert_true(fd >= 0);
  if (size < SIZE_MAX) assert_int_equal(ftruncate(fd, (off_t)size), 0);
  assert_int_equal(pwrite(fd, bytes, n, (off_t)off), n);
  close(fd);
  if (strcmp(name, "gone") == 0) assert_int_equal(unlink(path), 0);
  not_believed(f);
}

static void test_damaged(void **state) {
  static const char many[8] = {-1, -1, -1, -1, -1, -1, -1, 0x7f};
  damaged(*state, "gone", SIZE_MAX, 0, "", 0);
  damaged(*state, "empty", 0, 0, "", 0);
  damaged(*state, "short", sizeof(struct fs_ctl), 0, "", 0);
  damaged(*state, "shorter", sizeof(struct fs_ctl) - 1, 0, "", 0);
  damaged(*state, "huge", (1ul << 30) + 1, 0, "", 0);
  damaged(*state, "magic", SIZE_MAX, 0, "x", 1);
  damaged(*state, "datasets", SIZE_MAX, offsetof(struct fs_ctl, datasets), many, 4);
  damaged(*state, "placements", SIZE_MAX, offsetof(struct fs_ctl, nplacements), many, 8);
}

/* Somebody else's words, and whatever a link leads to. */
static void test_not_its_own(void **state) {
  struct fix *f = *state;
  char path[512], moved[512];
  snprintf(path, sizeof(path), "%s/run/node-0.ctl", f->dir);
  snprintf(moved, sizeof(moved), "%s/run/moved", f->dir);
  start_and_kill(f);
  assert_int_equal(rename(path, moved), 0);
  assert_int_equal(symlink(moved, path), 0);
  not_believed(f);
  if (geteuid() != 0) {
    print_message("           not asked for one of another user: only root can make it\n");
    return;
  }
  start_and_kill(f);
  assert_int_equal(chown(path, 65534, 65534), 0);
  not_believed(f);
}

static void nothing_known(const struct fix *f) {
  (void)f;
  CHECK(fs_names_node()->offline && route_of("d/mid") == FS_IN && route_of("nosuch") == -EIO);
}

static void test_no_directory(void **state) {
  struct fix *f = *state;
  char path[512], text[4096];
  snprintf(path, sizeof(path), "%s/run", f->dir);
  assert_int_equal(rmdir(path), 0);
  fix_run_text(f, nothing_known, text, sizeof(text));
  assert_int_equal(mkdir(path, 0700), 0);
  told_once_of("fanstore: the job's run directory ", text, "/run does not exist for this program, ");
}

/* Nobody looks after the local copies any more: what differs there is read from elsewhere. */
static void test_damaged_local(void **state) {
  struct fix *f = *state;
  char path[512], text[4096];
  snprintf(path, sizeof(path), "%s/local", f->dir);
  f->part[0][f->part_size[0] / 2] ^= 1;
  fix_write(path, "part-00000", f->part[0], f->part_size[0]);
  start_and_kill(f);
  fix_run_text(f, lost_known, text, sizeof(text));
  end(f);
  f->part[0][f->part_size[0] / 2] ^= 1;
  fix_write(path, "part-00000", f->part[0], f->part_size[0]);
  assert_non_null(strstr(text, "part-00000: the staged partition is damaged"));
}

/* ---- nothing is written there anyway ---- */

static void missing(const struct fix *f) {
  fix_read_all(f);
  CHECK(fs_names_node() == NULL && route_of("nosuch") == FS_NEW && route_of("nosuch/below") == -ENOENT);
}

static void test_read_only(void **state) {
  char text[4096];
  start_and_kill(*state);
  setenv("FANSTORE_READ_ONLY", "1", 1);
  fix_run_text(*state, missing, text, sizeof(text));
  unsetenv("FANSTORE_READ_ONLY");
  end(*state);
  assert_string_equal(text, "");
}

/* ---- stopped, and going on ---- */

static void stopped(const struct fix *f) {
  enum fs_place place;
  char buf[100];
  CHECK(!socket_marked(f) && labs((long)(time(NULL) - socket_of(f).st_mtim.tv_sec)) < 86400);
  kill(g_fake.pid, SIGSTOP);
  lost(f);
  CHECK(socket_marked(f)); /* others do not wait for so long */
  CHECK(fs_data_read(0, fix_entry(FIX_MID), buf, 100, 0, &place) == 100 && place == FS_PLACE_IS_SHARED);
  kill(g_fake.pid, SIGCONT);
  for (int i = 0; i < 1000 && fs_node_attach()->offline; i++) {
    usleep(1000);
    atomic_store(&fs_self()->link_retry_ns, 0);
  }
  CHECK(!fs_names_node()->offline && !socket_marked(f));
  CHECK(fake_dataset()->node == fs_names_node() && route_of("nosuch") == FS_NEW);
  CHECK(fs_data_read(0, fix_entry(FIX_MID), buf, 100, 0, &place) == 100 && place == FS_PLACE_IS_REMOTE);
  CHECK(fs_data_read(0, fix_entry(FIX_MID), buf, 100, 0, &place) == 100 && place == FS_PLACE_IS_CACHE);
  fix_read_all(f);
}

static void test_stopped(void **state) {
  struct fix *f = *state;
  char path[512], text[4096];
  for (int known = 0; known < 2; known++) {
    start(f);
    snprintf(path, sizeof(path), "%s/run/node-0.ctl", f->dir);
    if (!known) assert_int_equal(unlink(path), 0);
    fix_run_text(f, stopped, text, sizeof(text));
    told_once(text, " does not answer; ");
    end(f);
  }
}

/* ---- how long is waited ---- */

static struct stat socket_since(mode_t mode, time_t s, long ns) {
  return (struct stat){.st_mode = S_IFSOCK | mode, .st_ctim = {.tv_sec = s, .tv_nsec = ns}};
}

static void test_attach_patience(void **state) {
  (void)state;
  const struct timespec now = {.tv_sec = 1000000000, .tv_nsec = 5};
  const uint64_t all = 2000000000, few = 200000000;
  const struct {
    mode_t mode;
    time_t s;
    long ns;
    uint64_t patience;
  } c[] = {
      {0600, 0, 0, all},
      {0600, 1000000000, 5, all},
      {0700, 1000000000, 5, all},
      {0700, 999999997, 6, all},
      {0700, 999999997, 5, few},
      {0700, 999999000, 0, few},
      {0700, 0, 0, few},
      {0700, 1000000001, 0, all},
      {0700, 1000000000, 999999999, all},
      {0700, INT64_MIN / 4, 0, few},
      {0700, INT64_MAX / 4, 0, all},
  };
  for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
    struct stat st = socket_since(c[i].mode, c[i].s, c[i].ns);
    assert_int_equal(fs_attach_patience(&st, &now), c[i].patience);
  }
}

/* A replica's bytes count, no directory's times (in `size` of SETATTR), and no sparse file's for ever. */
static void test_call_patience(void **state) {
  (void)state;
  struct fs_ctl *ctl = calloc(1, sizeof(*ctl));
  assert_non_null(ctl);
  const struct fs_node node = {.ctl = ctl, .deadline_ns = 1000000000};
  const uint64_t least = 2000000000, replica = least + 60000000000, day = 86400000000000;
  struct fs_names_call c = {.op = FS_NAMES_PUBLISH, .publish = {.mode = S_IFREG | 0600, .size = 1000000000}};
  assert_int_equal(fs_names_patience(&node, &c), least);
  ctl->flags = FS_CTL_REPLICAS;
  assert_int_equal(fs_names_patience(&node, &c), replica + 100000000000);
  c = (struct fs_names_call){.op = FS_NAMES_SETATTR, .setattr = {.mode = S_IFREG | 0600, .size = 1000000000}};
  assert_int_equal(fs_names_patience(&node, &c), replica + 100000000000);
  for (unsigned bit = 40; bit < 64; bit++) {
    c.setattr.size = 1ull << bit;
    assert_in_range(fs_names_patience(&node, &c), day, 2 * day);
  }
  c.setattr.mode = S_IFDIR | 0700;
  c.setattr.size = 1763819000000000000;
  assert_int_equal(fs_names_patience(&node, &c), least);
  c.op = FS_NAMES_RENAME;
  assert_int_equal(fs_names_patience(&node, &c), least);
  free(ctl);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dead),          cmocka_unit_test(test_other_node),
      cmocka_unit_test(test_unmarked),      cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_not_its_own),   cmocka_unit_test(test_no_directory),
      cmocka_unit_test(test_damaged_local), cmocka_unit_test(test_read_only),
      cmocka_unit_test(test_stopped),       cmocka_unit_test(test_attach_patience),
      cmocka_unit_test(test_call_patience),
  };
  return cmocka_run_group_tests(tests, fake_setup, fix_teardown);
}
