/* SPDX-License-Identifier: BSD-3-Clause */
/* What fanstore.h's functions and the attributes user.fanstore.* say, with and without a daemon, and fetching ahead. */
#include <pthread.h>

#include "client/files/info.h"
#include "daemon_fixture.h"

#define BIG_CACHE (16ull << 20)

static struct fake_word *g_word;

static void run_with(void **state, uint32_t mode, uint64_t cache, fix_fn *fn) {
  struct fix *f = *state;
  struct fake_handle h = fake_start(f, "node-0.sock", mode, cache);
  g_word = h.word;
  fix_run(state, fn);
  assert_int_equal(waitpid(h.pid, NULL, WNOHANG), 0); /* its own checks held */
  fake_stop(&h, f);
}

static struct fanstore_info info_of(const char *path) {
  struct fanstore_info info = {.size = sizeof(info)};
  fs_err err = fs_info_path(path, &info);
  if (err != 0) fprintf(stderr, "%s: %d\n", path, err);
  CHECK(err == 0 && info.size == sizeof(info));
  return info;
}

/* The attribute as text, or its error as a number. */
static const char *attr(unsigned id, const char *name) {
  static char value[PATH_MAX + 1];
  fs_ssize n = fs_file_getxattr(0, fix_entry(id), name, value, sizeof(value) - 1);
  if (n < 0)
    snprintf(value, sizeof(value), "%d", (int)n);
  else
    value[n] = '\0';
  return value;
}

static void without_daemon(const struct fix *f) {
  struct fanstore_info i = info_of(FIX_MOUNT "/scatter");
  const char *mount = NULL, *dataset = NULL;
  CHECK(i.place == FANSTORE_SHARED && i.node == -1 && i.blocks == 12 && i.blocks_local == 0 && i.blocks_remote == 0);
  CHECK(i.bytes == fix_table[FIX_SCATTER].size && i.stored_bytes == i.bytes && strcmp(i.codec, "raw") == 0);
  CHECK(i.block_size == FIX_BS && strcmp(i.mount, FIX_MOUNT) == 0 && strcmp(i.dataset, f->dataset) == 0);
  CHECK(fs_info_mount_of(FIX_MOUNT "/no/such", &mount, &dataset) == 1 && strcmp(mount, FIX_MOUNT) == 0);
  CHECK(strcmp(dataset, f->dataset) == 0 && fs_info_mount_of(FIX_MOUNT "x", NULL, NULL) == 0);
  CHECK(fs_info_mount_of("/", NULL, NULL) == 0 && fs_info_mount_of(FIX_MOUNT, NULL, NULL) == 1);
  CHECK(fs_info_mount_of(NULL, NULL, NULL) == -EFAULT && fs_info_path("/", &i) == -ENXIO);
  CHECK(fs_info_path(FIX_MOUNT "/no", &i) == -ENOENT && fs_info_path(NULL, &i) == -EFAULT);
  i.size = 4;
  CHECK(fs_info_path(FIX_MOUNT "/empty", &i) == -EINVAL);
  i = info_of(FIX_MOUNT "/empty");
  CHECK(i.partition == -1 && i.blocks == 0 && i.bytes == 0);
  i = info_of(FIX_MOUNT "/d");
  CHECK(S_ISDIR(i.mode) && i.partition == -1);
  CHECK(fs_info_node(NULL) == -ENOTCONN);
  struct fanstore_stats s = {.size = sizeof(s)};
  CHECK(fs_info_stats(FANSTORE_NODE, &s) == -ENOTCONN && fs_info_stats(9, &s) == -EINVAL);
  fix_read(f, FIX_MID, 0, 100);
  CHECK(fs_info_stats(FANSTORE_PROCESS, &s) == 0 && s.bytes[FANSTORE_SHARED] == 100 && s.size == sizeof(s));
  struct {
    struct fanstore_stats s;
    uint64_t more;
  } newer = {.s.size = sizeof(newer), .more = 7};
  CHECK(fs_info_stats(FANSTORE_PROCESS, &newer.s) == 0 && newer.s.size == sizeof(s) && newer.more == 7);
  s = (struct fanstore_stats){.size = 16, .stats = 99};
  CHECK(fs_info_stats(FANSTORE_PROCESS, &s) == 0 && s.size == 16 && s.stats == 99);
  CHECK(strcmp(attr(FIX_MID, "user.fanstore.node"), "shared") == 0);
}
static void test_without_daemon(void **state) {
  char run[512];
  snprintf(run, sizeof(run), "%s", getenv("FANSTORE_RUN"));
  unsetenv("FANSTORE_RUN");
  fix_run(state, without_daemon);
  setenv("FANSTORE_RUN", run, 1);
}

static void no_mount(const struct fix *f) {
  struct fanstore_info i = {.size = sizeof(i)};
  const char *path = "/";
  (void)f;
  CHECK(fs_info_path("/", &i) == -ENXIO && fs_info_mount_of("/", NULL, NULL) == -ENXIO);
  CHECK(fs_info_node(NULL) == -ENXIO && fs_data_prefetch_list(&path, 1, NULL) == -ENXIO);
  CHECK(fs_info_stats(FANSTORE_PROCESS, &(struct fanstore_stats){.size = 8}) == -ENXIO);
}
static void test_no_mount(void **state) {
  setenv("FANSTORE_DATASET", "", 1);
  fix_run(state, no_mount);
  unsetenv("FANSTORE_DATASET");
}

static void with_daemon(const struct fix *f) {
  uint32_t nodes = 0;
  char small[3];
  CHECK(fs_info_node(&nodes) == 0 && nodes == 2);
  struct fanstore_info i = info_of(FIX_MOUNT "/d/mid");
  CHECK(i.place == FANSTORE_REMOTE && i.node == 1 && i.partition == 1 && i.blocks_remote == 1 && i.blocks_cached == 0);
  i = info_of(FIX_MOUNT "/d/big");
  CHECK(i.place == FANSTORE_LOCAL && i.node == 0 && i.partition == 0 && i.blocks_local == i.blocks && i.blocks == 6);
  i = info_of(FIX_MOUNT "/big.lz4");
  CHECK(strcmp(i.codec, "lz4") == 0 && i.stored_bytes < i.bytes && i.blocks_local + i.blocks_remote == i.blocks);
  CHECK(strcmp(attr(FIX_MID, "user.fanstore.node"), "1") == 0);
  CHECK(strcmp(attr(FIX_BIG, "user.fanstore.node"), "0") == 0);
  CHECK(strcmp(attr(FIX_SCATTER, "user.fanstore.node"), "0,1") == 0);
  CHECK(strcmp(attr(FIX_SCATTER, "user.fanstore.place"), "local,remote") == 0);
  CHECK(strcmp(attr(FIX_SCATTER, "user.fanstore.partition"), "0,1") == 0);
  CHECK(strcmp(attr(FIX_BIG_LZ4, "user.fanstore.codec"), "lz4") == 0);
  CHECK(strcmp(attr(FIX_MID, "user.fanstore.stored_size"), "20000") == 0);
  CHECK(strcmp(attr(FIX_MID, "user.fanstore.dataset"), f->dataset) == 0);
  CHECK(strcmp(attr(FIX_MID, "user.fanstore.mount"), FIX_MOUNT) == 0);
  CHECK(atoi(attr(FIX_EMPTY, "user.fanstore.node")) == -ENODATA && atoi(attr(FIX_MID, "user.other")) == -ENODATA);
  CHECK(atoi(attr(FIX_MID, "user.fanstore.")) == -ENODATA && atoi(attr(FIX_MID, "")) == -ERANGE);
  CHECK(fs_file_getxattr(0, fix_entry(FIX_MID), "user.fanstore.stored_size", NULL, 0) == 5);
  CHECK(fs_file_getxattr(0, fix_entry(FIX_MID), "user.fanstore.stored_size", small, 3) == -ERANGE);
  CHECK(fs_file_getxattr(0, fix_entry(FIX_MID), "user.fanstore.stored_size", NULL, 5) == -EFAULT);
  CHECK(fs_file_getxattr(0, 0, "user.fanstore.node", small, 3) == -ENODATA); /* a directory */
  CHECK(fs_file_getxattr(0, 1u << 30, "user.fanstore.node", small, 3) == -EUCLEAN);
}
static void test_with_daemon(void **state) {
  run_with(state, FAKE_SERVE, BIG_CACHE, with_daemon);
}

static void await(unsigned files) {
  for (int i = 0; i < 2000 && atomic_load(&g_word->prefetches) < files; i++) usleep(1000);
  CHECK(atomic_load(&g_word->prefetches) == files);
}

/* What was fetched ahead is then read from the node's cache, without a request. */
static void ahead(const struct fix *f) {
  const char *const paths[] = {FIX_MOUNT "/d/mid", "/outside",          FIX_MOUNT "/none", NULL,
                               FIX_MOUNT "/d",     FIX_MOUNT "/scatter"};
  size_t started = 99;
  CHECK(fs_data_prefetch_list(paths, FS_ARRAY_LEN(paths), &started) == FS_ARRAY_LEN(paths) && started == 2);
  await(1 + 6);
  CHECK(info_of(FIX_MOUNT "/d/mid").blocks_cached == 1 && info_of(FIX_MOUNT "/scatter").blocks_cached == 6);
  fix_read(f, FIX_MID, 0, 20000);
  fix_read(f, FIX_SCATTER, 0, 12 * FIX_BS);
  CHECK(atomic_load(&g_word->requests) == 0 && fs_counter_get(FS_C_BLOCKS + FS_PLACE_IS_REMOTE) == 0);
  CHECK(fs_counter_get(FS_C_BLOCKS + FS_PLACE_IS_CACHE) == 7);
  CHECK(fs_data_prefetch_list(paths, FS_ARRAY_LEN(paths), NULL) == FS_ARRAY_LEN(paths)); /* there already */
  uint64_t off = 5 * FIX_BS + 1;
  CHECK(fs_data_prefetch_from(0, fix_entry(FIX_BIG_LZ4), &off, 8 * FIX_BS) == 0 && off == 8 * FIX_BS);
  await(7 + 2);
  CHECK(atomic_load(&fs_link_get()->channel->claimed) == 0);
}
static void test_ahead(void **state) {
  run_with(state, FAKE_SERVE, BIG_CACHE, ahead);
}

/* A daemon that takes nothing: the queue fills up, and the call comes back and says how far it came. */
static void full(const struct fix *f) {
  const char *paths[2000];
  (void)f;
  for (unsigned i = 0; i < FS_ARRAY_LEN(paths); i++) paths[i] = FIX_MOUNT "/d/mid";
  CHECK(fs_data_prefetch_list(paths, FS_ARRAY_LEN(paths), NULL) == FS_PREFETCH_RING);
  for (int i = 0; i < 1000; i++) fs_data_prefetch(0, fix_entry(FIX_MID), 0, UINT64_MAX);
  CHECK(fs_link_get()->channel->prefetch_head == FS_PREFETCH_RING);
}
static void test_full(void **state) {
  run_with(state, FAKE_SILENT, BIG_CACHE, full);
}

/* Many threads at once: every key arrives, none is torn or lost. */
static void *wanting(void *arg) {
  (void)arg;
  for (int i = 0; i < 2000; i++) fs_data_prefetch(0, fix_entry(FIX_SCATTER), 0, UINT64_MAX);
  return NULL;
}
static void threads(const struct fix *f) {
  pthread_t t[4];
  for (int i = 0; i < 4; i++) CHECK(pthread_create(&t[i], NULL, wanting, NULL) == 0);
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  struct fs_channel *c = fs_link_get()->channel;
  for (int i = 0; i < 2000 && atomic_load(&c->prefetch_tail) != atomic_load(&c->prefetch_head); i++) usleep(1000);
  CHECK(atomic_load(&c->prefetch_tail) == atomic_load(&c->prefetch_head));
  CHECK(info_of(FIX_MOUNT "/scatter").blocks_cached == 6);
  fix_read(f, FIX_SCATTER, 0, 12 * FIX_BS);
}
static void test_threads(void **state) {
  run_with(state, FAKE_SERVE, BIG_CACHE, threads);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_without_daemon), cmocka_unit_test(test_no_mount), cmocka_unit_test(test_with_daemon),
      cmocka_unit_test(test_ahead),          cmocka_unit_test(test_full),     cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests_name("info", tests, fake_setup, fix_teardown);
}
