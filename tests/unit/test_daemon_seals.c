/* SPDX-License-Identifier: BSD-3-Clause */
/* What a client is handed over, as docs/internals/shared-memory.md lists it: nobody who has a descriptor of it can make
 * it shorter or longer, so that no access ends in SIGBUS, nor take the seals off; ctl and slab can be read only. */
#include "fetch_fixture.h"

#include <fcntl.h>
#include <sys/mman.h>

enum may { READ_ONLY, WRITABLE };

/* By the descriptor, and by one that is opened anew: the seals are the file's. */
static void sealed(int fd, uint64_t size, enum may may) {
  char path[64];
  struct stat st;
  char byte = 1;
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  int anew = open(path, O_RDWR | O_CLOEXEC);
  assert_true(anew >= 0);
  for (int i = 0; i < 2; i++) {
    int by = i == 0 ? fd : anew;
    assert_int_equal(fstat(by, &st), 0);
    assert_int_equal(st.st_size, size);
    assert_true(ftruncate(by, 0) == -1 && errno == EPERM);
    assert_true(ftruncate(by, (off_t)size - 4096) == -1 && errno == EPERM);
    assert_true(ftruncate(by, (off_t)size + 4096) == -1 && errno == EPERM);
    assert_true(fallocate(by, 0, (off_t)size, 4096) == -1 && errno == EPERM);
    assert_true(fcntl(by, F_ADD_SEALS, F_SEAL_WRITE) == -1 && errno == EPERM);
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, by, 0);
    assert_int_equal(p == MAP_FAILED, may == READ_ONLY);
    if (p != MAP_FAILED) munmap(p, size);
    p = mmap(NULL, size, PROT_READ, MAP_SHARED, by, 0);
    assert_true(p != MAP_FAILED);
    if (may == READ_ONLY) {
      assert_int_equal(mprotect(p, 4096, PROT_READ | PROT_WRITE), -1);
      assert_true(pwrite(by, &byte, 1, 0) == -1 && errno == EPERM);
      assert_int_equal(fallocate(by, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    } else {
      assert_true(pread(by, &byte, 1, 0) == 1 && pwrite(by, &byte, 1, 0) == 1);
    }
    munmap(p, size);
  }
  close(anew);
}

static void test_ctl(void **state) {
  struct fs_index_header header = {0};
  (void)state;
  d->data[0].stage.index.hdr = &header;
  d->ctl_fd = -1;
  assert_int_equal(fs_ctl_build(d), 0);
  sealed(d->ctl_fd, d->ctl->size, READ_ONLY);
  atomic_store(&d->ctl->heartbeat_ns, 4711); /* the daemon's own mapping */
  assert_int_equal(d->ctl->magic, FS_CTL_MAGIC);
  munmap(d->ctl, d->ctl->size);
  close(d->ctl_fd);
}

static void test_slab(void **state) {
  uint64_t size;
  (void)state;
  int fd = fs_cache_slab_fd(d->cache, &size);
  sealed(fd, size, READ_ONLY);
}

static void test_heat(void **state) {
  uint64_t size;
  (void)state;
  int fd = fs_cache_heat_fd(d->cache, &size);
  sealed(fd, size, WRITABLE);
}

static void test_channel(void **state) {
  fs_err err;
  int fd = -1;
  (void)state;
  struct fs_client *c = fs_clients_add(d, 2, &fd, &err);
  assert_non_null(c);
  sealed(fd, sizeof(struct fs_channel), WRITABLE);
  close(fd);
  fs_clients_forget(d, c);
}

int main(void) {
  const struct CMUnitTest tests[] = {TEST(test_ctl), TEST(test_slab), TEST(test_heat), TEST(test_channel)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
