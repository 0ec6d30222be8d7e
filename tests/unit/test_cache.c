/* SPDX-License-Identifier: BSD-3-Clause */
/* The node cache: its bounds, eviction, pins, and readers against the writer, checking every byte. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/cache.h"
#include "tools_fixture.h"
#include "util/sys.h"

#define PINS 64u
#define READERS 3u

static _Atomic uint32_t *pins; /* PINS of them, shared with forked clients */
static unsigned scans;

static void all_pins(void *ctx, void (*visit)(void *arg, uint32_t line), void *arg) {
  (void)ctx;
  scans++;
  for (unsigned i = 0; i < PINS; i++) {
    uint32_t pin = atomic_load(&pins[i]);
    if (pin) visit(arg, pin - 1);
  }
}

struct fixture {
  struct fs_cache *c;
  struct fs_cache_view v;
  const char *map; /* as clients map it */
  uint64_t size;
};

static struct fixture make(uint64_t bytes, uint32_t max) {
  struct fixture f;
  uint64_t heat;
  if (!pins) pins = mmap(NULL, PINS * sizeof(*pins), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(pins, MAP_FAILED);
  for (unsigned i = 0; i < PINS; i++) atomic_store(&pins[i], 0);
  assert_int_equal(fs_cache_new(&f.c, bytes, max, all_pins, NULL), 0);
  int fd = fs_cache_slab_fd(f.c, &f.size);
  int heat_fd = fs_cache_heat_fd(f.c, &heat);
  f.map = mmap(NULL, f.size, PROT_READ, MAP_SHARED, fd, 0);
  assert_ptr_not_equal(f.map, MAP_FAILED);
  void *h = mmap(NULL, heat, PROT_READ | PROT_WRITE, MAP_SHARED, heat_fd, 0);
  assert_ptr_not_equal(h, MAP_FAILED);
  assert_int_equal(fs_cache_view_init(&f.v, f.map, f.size, h, heat), 0);
  return f;
}

static uint32_t length_of(uint64_t key) {
  return 1 + (uint32_t)(key * 7919 % 5000) + (key % 50 == 0 ? 60000 : 0);
}

static void fill(unsigned char *p, uint64_t key) {
  uint32_t n = length_of(key);
  for (uint32_t i = 0; i < n; i++) p[i] = (unsigned char)(key * 31 + i * 7);
}

static bool intact(const unsigned char *p, uint64_t key, uint32_t len) {
  if (len != length_of(key)) return false;
  for (uint32_t i = 0; i < len; i++) {
    if (p[i] != (unsigned char)(key * 31 + i * 7)) return false;
  }
  return true;
}

static int64_t put(struct fs_cache *c, uint64_t key) {
  void *buf;
  int64_t line = fs_cache_alloc(c, key, length_of(key), &buf);
  if (line < 0) return line;
  fill((unsigned char *)buf + FS_CACHE_HEADROOM, key);
  fs_cache_publish(c, (uint32_t)line, false);
  return line;
}

static void test_find_and_read(void **state) {
  (void)state;
  struct fixture f = make(1 << 20, 65536);
  uint32_t len;
  assert_int_equal(fs_cache_find(f.c, 7), -ENOENT);
  int64_t line = put(f.c, 7);
  assert_true(line >= 0);
  assert_int_equal(fs_cache_find(f.c, 7), line);
  const void *bytes = fs_cache_pin(&f.v, 7, &pins[0], &len);
  assert_non_null(bytes);
  assert_true(intact(bytes, 7, len));
  assert_int_equal(pins[0], line + 1);
  assert_ptr_equal(fs_cache_pinned(&f.v, 7, (uint32_t)line, &len), bytes);
  fs_cache_unpin(&pins[0]);
  assert_null(fs_cache_pin(&f.v, 8, &pins[0], &len));
  assert_int_equal(pins[0], 0);
  fs_cache_free(f.c);
}

static void test_unpublished_is_invisible(void **state) {
  (void)state;
  struct fixture f = make(1 << 20, 65536);
  struct fs_cache_stats st;
  uint32_t len;
  void *buf;
  int64_t line = fs_cache_alloc(f.c, 9, length_of(9), &buf);
  assert_true(line >= 0);
  assert_int_equal(fs_cache_find(f.c, 9), -ENOENT);
  assert_null(fs_cache_pin(&f.v, 9, &pins[0], &len));
  fs_cache_abort(f.c, (uint32_t)line);
  fs_cache_stats(f.c, &st);
  assert_int_equal(st.lines_used, 0);
  assert_int_equal(st.bytes_used, 0);
  fs_cache_free(f.c);
}

static void test_clients_cannot_write(void **state) {
  (void)state;
  struct fixture f = make(1 << 20, 65536);
  int fd = fs_cache_slab_fd(f.c, &f.size);
  assert_ptr_equal(mmap(NULL, f.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  assert_int_equal(ftruncate(fd, 0), -1);
  assert_int_equal(write(fd, "x", 1), -1);
  fs_cache_free(f.c);
}

static void test_bounded_and_evicting(void **state) {
  (void)state;
  struct fixture f = make(1 << 20, 65536);
  struct fs_cache_stats st;
  for (uint64_t key = 1; key <= 5000; key++) {
    assert_true(put(f.c, key) >= 0);
    fs_cache_stats(f.c, &st);
    assert_true(st.bytes_used <= 1 << 20);
  }
  assert_true(st.evictions > 4000);
  assert_true(scans < st.evictions); /* in batches */
  assert_int_equal(st.alloc_failures, 0);
  unsigned found = 0;
  for (uint64_t key = 1; key <= 5000; key++) found += fs_cache_find(f.c, key) >= 0;
  assert_int_equal(found, st.lines_used);
  assert_true(fs_cache_find(f.c, 5000) >= 0);
  fs_cache_free(f.c);
}

static void test_pinned_stays(void **state) {
  (void)state;
  struct fixture f = make(1 << 20, 65536);
  uint32_t len[4];
  const void *bytes[4];
  for (uint64_t k = 0; k < 4; k++) {
    assert_true(put(f.c, 50 * (k + 1)) >= 0); /* the large ones */
    bytes[k] = fs_cache_pin(&f.v, 50 * (k + 1), &pins[k], &len[k]);
    assert_non_null(bytes[k]);
  }
  for (uint64_t key = 1000; key < 4000; key++) assert_true(put(f.c, key) >= 0);
  for (uint64_t k = 0; k < 4; k++) assert_true(intact(bytes[k], 50 * (k + 1), len[k]));
  for (uint64_t k = 0; k < 4; k++) fs_cache_unpin(&pins[k]);
  uint64_t key = 4000;
  for (; key < 200000 && fs_cache_has(&f.v, 50); key++) assert_true(put(f.c, key) >= 0);
  assert_true(key < 200000); /* without a use it leaves, once it is not pinned */
  fs_cache_free(f.c);
}

static void test_warm_outlives_cold(void **state) {
  (void)state;
  struct fixture f = make(1 << 20, 65536);
  assert_true(put(f.c, 1) >= 0);
  for (uint64_t key = 1000; key < 1400; key++) {
    assert_true(put(f.c, key) >= 0);
    assert_true(fs_cache_find(f.c, 1) >= 0); /* used all the time */
  }
  fs_cache_free(f.c);
}

static void test_all_pinned(void **state) {
  (void)state;
  struct fixture f = make(1 << 20, 65536);
  struct fs_cache_stats st;
  unsigned n = 0;
  for (uint64_t key = 50; n < PINS; key += 50) {
    int64_t line = put(f.c, key);
    if (line < 0) {
      assert_int_equal(line, -ENOBUFS);
      break;
    }
    atomic_store(&pins[n++], (uint32_t)line + 1);
  }
  assert_true(n > 8 && n < PINS);
  fs_cache_stats(f.c, &st);
  assert_int_equal(st.evictions, 0);
  atomic_store(&pins[0], 0);
  assert_true(put(f.c, 50000) >= 0);
  fs_cache_free(f.c);
}

static void test_one_bucket_for_many(void **state) {
  (void)state;
  struct fixture f = make(1 << 20, 65536);
  uint32_t mask = f.v.bucket_mask, n = 0;
  int64_t last = -1;
  for (uint64_t key = 1; n < 3 * FS_CACHE_WAYS; key++) {
    if ((fs_cache_bucket(key) & mask) != 3) continue;
    last = put(f.c, key);
    assert_true(last >= 0);
    assert_int_equal(fs_cache_find(f.c, key), last);
    n++;
  }
  fs_cache_free(f.c);
}

/* Pages that the slab has. */
static uint64_t resident(const struct fixture *f) {
  struct stat st;
  uint64_t size;
  assert_int_equal(fstat(fs_cache_slab_fd(f->c, &size), &st), 0);
  return (uint64_t)st.st_blocks * 512;
}

static void warm_all(const struct fixture *f, uint64_t expected) {
  uint64_t before, warmed = fs_cache_warm(f->c, expected);
  do {
    before = warmed;
    warmed = fs_cache_warm(f->c, expected);
    assert_true(warmed >= before && warmed <= f->size);
  } while (warmed != before);
}

static void use(const struct fixture *f, uint64_t key, uint32_t bytes) {
  void *buf;
  int64_t line = fs_cache_alloc(f->c, key, bytes, &buf);
  assert_true(line >= 0);
  memset(buf, 'x', FS_CACHE_HEADROOM + bytes);
  fs_cache_publish(f->c, (uint32_t)line, false);
}

static void test_pages_ahead(void **state) {
  const uint32_t mib = 1 << 20;
  struct fixture f = make(160 * mib, 4 * mib);
  (void)state;
  uint64_t unused = resident(&f);
  warm_all(&f, 0);
  assert_int_equal(resident(&f), unused); /* nothing before the first use */
  assert_int_equal(fs_cache_reached(f.c), 0);
  void *buf;
  int64_t line = fs_cache_alloc(f.c, 1, 4 * mib, &buf);
  assert_true(line >= 0);
  memset((char *)buf + FS_CACHE_HEADROOM, 'x', 4 * mib);
  fs_cache_publish(f.c, (uint32_t)line, false);
  assert_true(fs_cache_reached(f.c) > 4 * mib);
  warm_all(&f, 0);
  assert_in_range(resident(&f), 12 * mib, 40 * mib); /* ahead, but not by everything */
  for (uint64_t i = 0; i < 4 * mib; i++) assert_int_equal(((char *)buf)[FS_CACHE_HEADROOM + i], 'x');
  for (uint64_t key = 2; key < 30; key++) use(&f, key, 4 * mib);
  warm_all(&f, 0);
  assert_in_range(resident(&f), 120 * mib, f.size); /* the end of the slab is the end */
  fs_cache_free(f.c);
}

static void test_pages_expected(void **state) {
  const uint32_t mib = 1 << 20;
  struct fixture f = make(160 * mib, 4 * mib);
  (void)state;
  warm_all(&f, 60 * mib);
  assert_in_range(resident(&f), 60 * mib, 66 * mib); /* before the first use */
  for (uint64_t key = 1; key < 13; key++) use(&f, key, 4 * mib);
  warm_all(&f, 60 * mib);
  assert_in_range(resident(&f), 60 * mib, 66 * mib); /* no more, as long as less is used */
  for (uint64_t key = 13; key < 20; key++) use(&f, key, 4 * mib);
  warm_all(&f, 60 * mib);
  assert_in_range(resident(&f), 84 * mib, f.size); /* ahead again */
  warm_all(&f, 1000 * mib);
  assert_in_range(resident(&f), 120 * mib, f.size); /* but for what comes just after the used part */
  fs_cache_free(f.c);
}

static void test_too_small(void **state) {
  (void)state;
  struct fs_cache *c;
  assert_int_equal(fs_cache_new(&c, 4096, 65536, all_pins, NULL), -EINVAL);
  assert_int_equal(fs_cache_new(&c, 0, 1, all_pins, NULL), -EINVAL);
}

/* ---- readers against the writer ---- */

#define KEYS 3000u

static struct fixture shared;
static _Atomic bool done;
static _Atomic uint64_t reads;

static void *reader(void *arg) {
  unsigned me = *(unsigned *)arg, seed = me;
  while (!atomic_load(&done)) {
    const unsigned char *bytes[2];
    uint64_t key[2];
    uint32_t len[2];
    for (unsigned i = 0; i < 2; i++) {
      key[i] = (uint64_t)rand_r(&seed) % KEYS;
      bytes[i] = fs_cache_pin(&shared.v, key[i], &pins[2 * me + i], &len[i]);
    }
    if (rand_r(&seed) % 64 == 0) usleep(200);
    for (unsigned i = 0; i < 2; i++) {
      if (!bytes[i]) continue;
      if (!intact(bytes[i], key[i], len[i])) return (void *)"wrong bytes";
      atomic_fetch_add(&reads, 1);
      fs_cache_unpin(&pins[2 * me + i]);
    }
  }
  return NULL;
}

/* The readers use the writer's own mapping, so that ThreadSanitizer sees both sides at the same addresses. */
static void share_mapping(void) {
  void *buf;
  uint64_t size;
  int64_t line = fs_cache_alloc(shared.c, KEYS + 1, 100, &buf);
  assert_true(line >= 0);
  char *base = (char *)buf + FS_CACHE_HEADROOM - shared.v.line[line].off;
  fs_cache_abort(shared.c, (uint32_t)line);
  fs_cache_slab_fd(shared.c, &size);
  assert_int_equal(fs_cache_view_init(&shared.v, base, size, (void *)shared.v.heat, shared.v.lines), 0);
}

/* A client that is killed while it pins, copies and unpins; what it had pinned is given back by who sees its end. */
#define VICTIM (2 * READERS)
static pid_t start_victim(void) {
  pid_t pid = fork();
  if (pid != 0) return pid;
  unsigned seed = (unsigned)getpid();
  for (;;) {
    uint64_t key = (uint64_t)rand_r(&seed) % KEYS;
    uint32_t len;
    unsigned i = VICTIM + (unsigned)rand_r(&seed) % 4;
    fs_cache_unpin(&pins[i]);
    const void *bytes = fs_cache_pin(&shared.v, key, &pins[i], &len);
    if (bytes && !intact(bytes, key, len)) _exit(1);
  }
}

static void kill_victim(pid_t pid) {
  int status;
  assert_true(pid > 0);
  kill(pid, SIGKILL);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status)); /* it saw no wrong byte */
  for (unsigned i = 0; i < 4; i++) fs_cache_unpin(&pins[VICTIM + i]);
}

static void test_readers_and_writer(void **state) {
  (void)state;
  pthread_t t[READERS];
  unsigned id[READERS], seed = 4711;
  struct fs_cache_stats st;
  shared = make(1 << 20, 65536);
  share_mapping();
  for (unsigned i = 0; i < READERS; i++) {
    id[i] = i;
    assert_int_equal(pthread_create(&t[i], NULL, reader, &id[i]), 0);
  }
  uint64_t now, end = fs_now_ns() + 1000000000ull, next = 0, least = 10000 / fix_slowness();
  pid_t victim = start_victim();
  for (unsigned rounds = 0; (now = fs_now_ns()) < end || rounds < least; rounds++) {
    uint64_t key = (uint64_t)rand_r(&seed) % KEYS;
    if (now > next) {
      kill_victim(victim);
      victim = start_victim();
      next = fs_now_ns() + (uint64_t)rand_r(&seed) % (20000000 * fix_slowness());
    }
    if (fs_cache_find(shared.c, key) >= 0) continue;
    void *buf;
    int64_t line = fs_cache_alloc(shared.c, key, length_of(key), &buf);
    if (line < 0) continue;
    fill((unsigned char *)buf + FS_CACHE_HEADROOM, key);
    if (rand_r(&seed) % 16 == 0)
      fs_cache_abort(shared.c, (uint32_t)line);
    else
      fs_cache_publish(shared.c, (uint32_t)line, false);
  }
  kill_victim(victim);
  atomic_store(&done, true);
  for (unsigned i = 0; i < READERS; i++) {
    void *wrong;
    pthread_join(t[i], &wrong);
    assert_null(wrong);
  }
  fs_cache_stats(shared.c, &st);
  print_message("%llu reads, %llu evictions, %llu times full\n", (unsigned long long)reads,
                (unsigned long long)st.evictions, (unsigned long long)st.alloc_failures);
  assert_true(reads > 100 && st.evictions > 100);
  fs_cache_free(shared.c);
}

/* A client that copies without pins: other processes, as clients are, so that ThreadSanitizer does not see the copies
   of bytes that are being replaced; they are never believed. */
static int copy_all(const struct fs_cache_view *v, unsigned me, uint64_t end) {
  static unsigned char bytes[65536];
  static _Atomic uint64_t hints[FS_CACHE_HINTS];
  struct fs_cache_view mine = *v;
  unsigned seed = me;
  uint64_t copies = 0;
  if (me > 0) mine.hint = hints;
  while (fs_now_ns() < end) {
    uint64_t key = (uint64_t)rand_r(&seed) % 200;
    fs_cache_soon(&mine, key, 512);
    uint32_t len = length_of(key), from = (uint32_t)rand_r(&seed) % len, n = len - from;
    if (!fs_cache_copy(&mine, key, len, bytes + from, from, n)) continue;
    for (uint32_t i = from; i < len; i++) {
      if (bytes[i] != (unsigned char)(key * 31 + i * 7)) return 1;
    }
    if (fs_cache_copy(&mine, key, len + 1, bytes, 0, 1)) return 2;
    copies++;
  }
  return copies > 10 ? 0 : 3;
}

static bool pick_all(void *ctx, uint64_t key) {
  (void)ctx;
  (void)key;
  return true;
}

/* The same key in the same line again is another use of it: who copied during both must see that. */
static void test_uses(void **state) {
  (void)state;
  struct fixture f = make(1 << 20, 65536);
  int64_t line = put(f.c, 7);
  assert_true(line >= 0);
  uint32_t uses = f.v.line[line].uses;
  fs_cache_purge(f.c, pick_all, NULL, NULL);
  assert_int_equal(put(f.c, 7), line);
  assert_int_not_equal(f.v.line[line].uses, uses);
  fs_cache_free(f.c);
}

static void test_copies_and_writer(void **state) {
  (void)state;
  pid_t child[READERS];
  unsigned seed = 42;
  struct fs_cache_stats st;
  struct fixture f = make(1 << 18, 65536);
  uint64_t end = fs_now_ns() + 1000000000ull;
  for (unsigned i = 0; i < READERS; i++) {
    child[i] = fork();
    if (child[i] == 0) _exit(copy_all(&f.v, i, end));
    assert_true(child[i] > 0);
  }
  while (fs_now_ns() < end) {
    uint64_t key = (uint64_t)rand_r(&seed) % 200;
    if (fs_cache_find(f.c, key) < 0) put(f.c, key);
  }
  for (unsigned i = 0; i < READERS; i++) {
    int status;
    assert_int_equal(waitpid(child[i], &status, 0), child[i]);
    assert_int_equal(status, 0);
  }
  fs_cache_stats(f.c, &st);
  assert_true(st.evictions > 100);
  fs_cache_free(f.c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_find_and_read),
      cmocka_unit_test(test_unpublished_is_invisible),
      cmocka_unit_test(test_clients_cannot_write),
      cmocka_unit_test(test_bounded_and_evicting),
      cmocka_unit_test(test_pinned_stays),
      cmocka_unit_test(test_warm_outlives_cold),
      cmocka_unit_test(test_all_pinned),
      cmocka_unit_test(test_one_bucket_for_many),
      cmocka_unit_test(test_pages_ahead),
      cmocka_unit_test(test_pages_expected),
      cmocka_unit_test(test_too_small),
      cmocka_unit_test(test_uses),
      cmocka_unit_test(test_readers_and_writer),
      cmocka_unit_test(test_copies_and_writer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
