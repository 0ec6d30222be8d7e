/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader's side of the node's cache: what it finds, what it pins, and slabs that it must not believe. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/cache.h"
#include "tools_fixture.h"

#define LINES 16u
#define BUCKETS 2u
#define DATA_OFF 4096u
#define SLAB_SIZE 8192u

struct slab {
  alignas(4096) uint8_t bytes[SLAB_SIZE];
  uint8_t heat[LINES];
};

static struct fs_cache_header *header(struct slab *s) {
  return (void *)s->bytes;
}
static struct fs_line *line(struct slab *s, unsigned i) {
  return (struct fs_line *)(s->bytes + header(s)->line_off) + i;
}
static _Atomic uint32_t *way(struct slab *s, uint64_t key, unsigned w) {
  return (_Atomic uint32_t *)(s->bytes + header(s)->bucket_off) +
         (fs_cache_bucket(key) & (BUCKETS - 1)) * FS_CACHE_WAYS + w;
}

static void fill(struct slab *s) {
  memset(s, 0, sizeof(*s));
  *header(s) = (struct fs_cache_header){.magic = FS_CACHE_MAGIC,
                                        .version = FS_IPC_VERSION,
                                        .lines = LINES,
                                        .buckets = BUCKETS,
                                        .size = SLAB_SIZE,
                                        .bucket_off = 128,
                                        .line_off = 256,
                                        .data_off = DATA_OFF};
}

static void put(struct slab *s, uint64_t key, unsigned i, unsigned w, uint64_t off, uint32_t len) {
  line(s, i)->off = off;
  line(s, i)->len = len;
  atomic_store(&line(s, i)->tag, key | FS_CACHE_VALID);
  atomic_store(way(s, key, w), i + 1);
}

static void test_pin(void **state) {
  static struct slab s;
  struct fs_cache_view v;
  _Atomic uint32_t pin = 0;
  uint32_t len = 0;
  (void)state;
  fill(&s);
  put(&s, 77, 3, 7, DATA_OFF + 64, 100);
  assert_int_equal(fs_cache_view_init(&v, s.bytes, SLAB_SIZE, s.heat, LINES), 0);
  assert_null(fs_cache_pin(&v, 78, &pin, &len));
  assert_int_equal(pin, 0);
  assert_ptr_equal(fs_cache_pin(&v, 77, &pin, &len), s.bytes + DATA_OFF + 64);
  assert_int_equal(len, 100);
  assert_int_equal(pin, 4);
  assert_int_equal(s.heat[3], 1);
  fs_cache_unpin(&pin);
  assert_int_equal(pin, 0);
  s.heat[3] = 0;
  assert_ptr_equal(fs_cache_pinned(&v, 77, 3, &len), s.bytes + DATA_OFF + 64);
  assert_int_equal(s.heat[3], 0);                /* its first use */
  assert_null(fs_cache_pinned(&v, 78, 3, &len)); /* another block's */
  assert_null(fs_cache_pinned(&v, 77, LINES, &len));
  atomic_store(&line(&s, 3)->tag, 0); /* the daemon looks whether it can be evicted */
  assert_null(fs_cache_pin(&v, 77, &pin, &len));
  assert_int_equal(pin, 0);
  assert_non_null(fs_cache_pinned(&v, 77, 3, &len));
}

static void test_copy(void **state) {
  static struct slab s;
  static _Atomic uint64_t hints[FS_CACHE_HINTS];
  struct fs_cache_view v;
  char out[100] = "";
  (void)state;
  fill(&s);
  put(&s, 77, 3, 7, DATA_OFF + 64, 100);
  memset(s.bytes + DATA_OFF + 64, 'a', 100);
  assert_int_equal(fs_cache_view_init(&v, s.bytes, SLAB_SIZE, s.heat, LINES), 0);
  for (unsigned round = 0; round < 2; round++) {
    v.hint = round ? hints : NULL;
    assert_false(fs_cache_copy(&v, 78, 100, out, 0, 100));
    assert_false(fs_cache_copy(&v, 77, 101, out, 0, 100)); /* not as long as the index says */
    assert_false(fs_cache_copy(&v, 77, 100, out, 1, 100));
    assert_false(fs_cache_copy(&v, 77, 100, out, UINT32_MAX, 2));
    assert_true(fs_cache_copy(&v, 77, 100, out, 90, 10));
    assert_memory_equal(out, "aaaaaaaaaa", 11);
  }
  assert_int_equal(s.heat[3], 1);
  assert_int_equal(hints[77] >> 32, 3);
  /* Evicted: the hint is not believed. Elsewhere: it is found, and the hint mended. */
  atomic_store(&line(&s, 3)->tag, 0);
  assert_false(fs_cache_copy(&v, 77, 100, out, 0, 100));
  put(&s, 77, 5, 7, DATA_OFF + 128, 100);
  assert_true(fs_cache_copy(&v, 77, 100, out, 0, 100));
  assert_int_equal(hints[77] >> 32, 5);
  /* Any word is safe to have, also where the bytes are no longer. */
  const uint64_t words[] = {UINT64_MAX, (uint64_t)LINES << 32, (uint64_t)3 << 32 | UINT32_MAX, 5ull << 32};
  for (unsigned i = 0; i < 4; i++) {
    hints[77] = words[i];
    fs_cache_soon(&v, 77, 512);
    assert_true(fs_cache_copy(&v, 77, 100, out, 0, 100));
  }
  put(&s, 77, 5, 7, SLAB_SIZE - 99, 100);
  assert_false(fs_cache_copy(&v, 77, 100, out, 0, 100));
}

/* The daemon evicts the line and fills it anew between two steps of the reader: when it first touches a page that it
   may not write. */
static struct slab *changing;
static uint64_t changes_to;
static uint8_t *barred;

static void change_line(int sig) {
  (void)sig;
  atomic_store(&line(changing, 3)->tag, 0);
  atomic_fetch_add(&line(changing, 3)->uses, 1);
  memset(changing->bytes + DATA_OFF + 64, 'b', 100);
  atomic_store(&line(changing, 3)->tag, changes_to | FS_CACHE_VALID);
  if (mprotect(barred, 4096, PROT_READ | PROT_WRITE) != 0) _exit(1);
}

static struct fs_cache_view begin_change(struct slab *s, uint64_t to) {
  struct fs_cache_view v;
  fill(s);
  put(s, 77, 3, 7, DATA_OFF + 64, 100);
  assert_int_equal(fs_cache_view_init(&v, s->bytes, SLAB_SIZE, s->heat, LINES), 0);
  changing = s;
  changes_to = to;
  assert_int_equal(mprotect(barred, 4096, PROT_NONE), 0);
  return v;
}

static void test_changes(void **state) {
  static struct slab s;
  struct sigaction sa = {.sa_handler = change_line}, was;
  uint32_t len;
  (void)state;
  if (fix_on_valgrind()) skip(); /* the fault is an error to it */
  barred = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(barred != MAP_FAILED);
  sigaction(SIGSEGV, &sa, &was);
  for (uint64_t key = 77; key < 79; key++) { /* the same block again, and another one */
    struct fs_cache_view v = begin_change(&s, key);
    assert_false(fs_cache_copy(&v, 77, 100, barred, 0, 100));
    assert_int_equal(line(&s, 3)->uses, 1);
  }
  struct fs_cache_view v = begin_change(&s, 78);
  _Atomic uint32_t *pin = (void *)barred;
  assert_null(fs_cache_pin(&v, 77, pin, &len));
  assert_int_equal(*pin, 0);
  assert_int_equal(line(&s, 3)->uses, 1);
  sigaction(SIGSEGV, &was, NULL);
  munmap(barred, 4096);
}

static void test_hostile_words(void **state) {
  static struct slab s;
  struct fs_cache_view v;
  _Atomic uint32_t pin = 0;
  uint32_t len;
  (void)state;
  fill(&s);
  assert_int_equal(fs_cache_view_init(&v, s.bytes, SLAB_SIZE, NULL, 0), 0);
  atomic_store(way(&s, 5, 0), UINT32_MAX);
  atomic_store(way(&s, 5, 1), LINES + 1);
  put(&s, 5, 1, 2, SLAB_SIZE - 50, 51);
  assert_null(fs_cache_pin(&v, 5, &pin, &len));
  put(&s, 5, 1, 2, UINT64_MAX - 10, 51);
  assert_null(fs_cache_pin(&v, 5, &pin, &len));
  assert_null(fs_cache_pinned(&v, 5, 1, &len));
  put(&s, 5, 1, 2, SLAB_SIZE - 50, 50);
  assert_non_null(fs_cache_pin(&v, 5, &pin, &len));
  assert_int_equal(pin, 2);
}

static void refused(void (*spoil)(struct fs_cache_header *h)) {
  static struct slab s;
  struct fs_cache_view v;
  fill(&s);
  spoil(header(&s));
  assert_int_equal(fs_cache_view_init(&v, s.bytes, SLAB_SIZE, s.heat, LINES), -EPROTO);
}
#define SPOIL(name, what)                                                                                              \
  static void name(struct fs_cache_header *h) {                                                                        \
    h->what;                                                                                                           \
  }
SPOIL(bad_magic, magic++)
SPOIL(bad_version, version++)
SPOIL(bad_size, size = SLAB_SIZE + 1)
SPOIL(bad_buckets, buckets = 3)
SPOIL(no_buckets, buckets = 0)
SPOIL(many_buckets, buckets = 1u << 31)
SPOIL(many_lines, lines = UINT32_MAX)
SPOIL(bad_bucket_off, bucket_off = UINT64_MAX - 7)
SPOIL(odd_bucket_off, bucket_off = 129)
SPOIL(bad_line_off, line_off = SLAB_SIZE)

static void test_hostile_headers(void **state) {
  static struct slab s;
  struct fs_cache_view v;
  (void)state;
  refused(bad_magic);
  refused(bad_version);
  refused(bad_size);
  refused(bad_buckets);
  refused(no_buckets);
  refused(many_buckets);
  refused(many_lines);
  refused(bad_bucket_off);
  refused(odd_bucket_off);
  refused(bad_line_off);
  fill(&s);
  assert_int_equal(fs_cache_view_init(&v, s.bytes, 10, NULL, 0), -EPROTO);
  assert_int_equal(fs_cache_view_init(&v, s.bytes, SLAB_SIZE, s.heat, LINES - 1), 0);
  assert_null(v.heat); /* too small to be used */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_pin), cmocka_unit_test(test_copy),
                                     cmocka_unit_test(test_changes), cmocka_unit_test(test_hostile_words),
                                     cmocka_unit_test(test_hostile_headers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
