/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The node's cache, smaller than what other nodes have: the share of bytes that are read from it, from the second epoch
 * on. The cache is the daemon's own (libfanstore/cache). Beside it, on the same trace: LRU, S3-FIFO (Yang et al., SOSP
 * 2023: a tenth for new blocks, a queue of ghosts as large as the cache), a fixed set, and the optimum (Belady: of the
 * blocks in the cache and the new one, the one whose next use is the latest is left out).
 *
 * hitratio [FILES [EPOCHS]]: files of the same size, and of 5 to 79 KB; each is read once an epoch in an order drawn
 * anew. "hot": each hundredth file is read ten times more in each epoch. "phases": after half of the epochs another
 * half of the files is read.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cache/cache.h"

#define NONE UINT32_MAX
enum { HOT = 1, PHASES = 2, VARIED = 4 };

struct trace {
  uint32_t files, n, epochs;
  uint32_t *size;  /* by file */
  uint32_t *file;  /* by read */
  uint32_t *epoch; /* by read */
  uint32_t *next;  /* by read: the next read of the same file, or NONE */
  uint64_t bytes;  /* of all files */
};

static uint64_t seed = 88172645463325252ull;
static uint32_t draw(uint32_t below) { /* below: at least 1 */
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return (uint32_t)((seed >> 16) % (below ? below : 1));
}

static void *zeroed(size_t n, size_t size) {
  void *p = calloc(n + 1, size);
  if (!p) exit(2);
  return p;
}

static struct trace make(uint32_t files, uint32_t epochs, int kind) {
  struct trace t = {.files = files, .epochs = epochs};
  t.size = zeroed(files, 4);
  t.file = zeroed((size_t)files * epochs * 2, 4);
  t.epoch = zeroed((size_t)files * epochs * 2, 4);
  for (uint32_t f = 0; f < files; f++) t.size[f] = kind & VARIED ? 5000 + draw(74000) : 20000;
  for (uint32_t e = 0; e < epochs; e++) {
    uint32_t first = t.n, from = 0, to = files;
    if (kind & PHASES) from = e < epochs / 2 ? 0 : files / 2, to = e < epochs / 2 ? files / 2 : files;
    for (uint32_t f = from; f < to; f++) {
      for (uint32_t i = 0; i < ((kind & HOT) && f % 100 == 0 ? 11u : 1u); i++) t.file[t.n++] = f;
    }
    for (uint32_t i = t.n - 1; i > first; i--) {
      uint32_t j = first + draw(i - first + 1), swap = t.file[i];
      t.file[i] = t.file[j], t.file[j] = swap;
    }
    for (uint32_t i = first; i < t.n; i++) t.epoch[i] = e;
  }
  for (uint32_t f = 0; f < files; f++) t.bytes += t.size[f];
  t.next = zeroed(t.n, 4);
  uint32_t *last = zeroed(files, 4);
  for (uint32_t f = 0; f < files; f++) last[f] = NONE;
  for (uint32_t i = t.n; i-- > 0;) t.next[i] = last[t.file[i]], last[t.file[i]] = i;
  free(last);
  return t;
}

static void unmake(struct trace *t) {
  free(t->size), free(t->file), free(t->epoch), free(t->next);
}

struct score {
  uint64_t hit, all;
};
static bool counts(const struct trace *t, uint32_t i, int kind) {
  if (kind & PHASES) return t->epoch[i] > t->epochs / 2;
  return t->epoch[i] > 0;
}
static void score(struct score *s, const struct trace *t, uint32_t i, int kind, bool hit) {
  if (!counts(t, i, kind)) return;
  s->all += t->size[t->file[i]];
  if (hit) s->hit += t->size[t->file[i]];
}
static double share(struct score s) {
  return s.all ? 100.0 * (double)s.hit / (double)s.all : 0;
}

static void no_pins(void *ctx, void (*visit)(void *arg, uint32_t line), void *arg) {
  (void)ctx, (void)visit, (void)arg;
}

/* A file is a block. It is read `pieces` times in a row. */
static double own(const struct trace *t, uint64_t capacity, int kind, uint32_t pieces) {
  struct fs_cache *c;
  struct score s = {0};
  if (fs_cache_new(&c, capacity, 79000, no_pins, NULL) < 0) return -1;
  for (uint32_t i = 0; i < t->n; i++) {
    void *buf;
    uint64_t key = FS_CACHE_KEY(0, t->file[i]);
    bool hit = fs_cache_find(c, key) >= 0;
    score(&s, t, i, kind, hit);
    if (hit) continue;
    int64_t line = fs_cache_alloc(c, key, t->size[t->file[i]], &buf);
    if (line < 0) continue;
    fs_cache_publish(c, (uint32_t)line, false);
    for (uint32_t p = 1; p < pieces; p++) (void)fs_cache_find(c, key);
  }
  fs_cache_free(c);
  return share(s);
}

/* The same, but each file is fetched ahead of its read, by files of an eighth of the cache. What is fetched again
   counts again. */
static double ahead(const struct trace *t, uint64_t capacity, int kind) {
  struct fs_cache *c;
  struct fs_cache_view v;
  struct score s = {0};
  uint64_t window = 0, fetched = 0, size;
  void *buf;
  if (fs_cache_new(&c, capacity, 79000, no_pins, NULL) < 0) return -1;
  void *map = mmap(NULL, capacity, PROT_READ, MAP_SHARED, fs_cache_slab_fd(c, &size), 0);
  if (map == MAP_FAILED || fs_cache_view_init(&v, map, size, NULL, 0) < 0) return -1;
  for (uint32_t i = 0, next = 0; i < t->n; i++) {
    for (; next <= i || (next < t->n && window < capacity / 8); next++) {
      uint64_t key = FS_CACHE_KEY(0, t->file[next]);
      uint32_t bytes = t->size[t->file[next]];
      window += bytes;
      if (fs_cache_has(&v, key)) continue;
      int64_t line = fs_cache_alloc(c, key, bytes, &buf);
      if (line >= 0) fs_cache_publish(c, (uint32_t)line, true);
      if (counts(t, next, kind)) fetched += bytes;
    }
    window -= t->size[t->file[i]];
    bool hit = fs_cache_find(c, FS_CACHE_KEY(0, t->file[i])) >= 0;
    score(&s, t, i, kind, hit);
    if (!hit && counts(t, i, kind)) fetched += t->size[t->file[i]];
  }
  munmap(map, capacity);
  fs_cache_free(c);
  return 100.0 - 100.0 * (double)fetched / (double)s.all;
}

/* ---- lists ---- */

struct list {
  uint32_t *prev, *next, first, last;
  uint64_t bytes;
};
static struct list list_new(uint32_t files) {
  return (struct list){.prev = zeroed(files, 4), .next = zeroed(files, 4), .first = NONE, .last = NONE};
}
static void list_push(struct list *l, uint32_t f, uint32_t size) {
  l->prev[f] = l->last, l->next[f] = NONE;
  if (l->last != NONE)
    l->next[l->last] = f;
  else
    l->first = f;
  l->last = f;
  l->bytes += size;
}
static void list_drop(struct list *l, uint32_t f, uint32_t size) {
  if (l->prev[f] != NONE)
    l->next[l->prev[f]] = l->next[f];
  else
    l->first = l->next[f];
  if (l->next[f] != NONE)
    l->prev[l->next[f]] = l->prev[f];
  else
    l->last = l->prev[f];
  l->bytes -= size;
}
static void list_free(struct list *l) {
  free(l->prev), free(l->next);
}

static double lru(const struct trace *t, uint64_t capacity, int kind) {
  struct list l = list_new(t->files);
  char *in = zeroed(t->files, 1);
  struct score s = {0};
  for (uint32_t i = 0; i < t->n; i++) {
    uint32_t f = t->file[i];
    score(&s, t, i, kind, in[f]);
    if (in[f]) list_drop(&l, f, t->size[f]);
    while (l.bytes + t->size[f] > capacity) {
      uint32_t old = l.first;
      list_drop(&l, old, t->size[old]);
      in[old] = 0;
    }
    list_push(&l, f, t->size[f]);
    in[f] = 1;
  }
  list_free(&l), free(in);
  return share(s);
}

static double s3fifo(const struct trace *t, uint64_t capacity, int kind) {
  enum { OUT, SMALL, MAIN, GHOST };
  struct list l[4];
  for (int i = 1; i < 4; i++) l[i] = list_new(t->files);
  char *in = zeroed(t->files, 1), *uses = zeroed(t->files, 1);
  struct score s = {0};
  for (uint32_t i = 0; i < t->n; i++) {
    uint32_t f = t->file[i];
    bool hit = in[f] == SMALL || in[f] == MAIN;
    score(&s, t, i, kind, hit);
    if (hit) {
      if (uses[f] < 3) uses[f]++;
      continue;
    }
    while (l[SMALL].bytes + l[MAIN].bytes + t->size[f] > capacity) {
      bool small = l[SMALL].bytes >= capacity / 10 || l[MAIN].first == NONE;
      uint32_t old = small ? l[SMALL].first : l[MAIN].first;
      list_drop(&l[small ? SMALL : MAIN], old, t->size[old]);
      if (small && uses[old] > 1) {
        in[old] = MAIN, uses[old] = 0;
        list_push(&l[MAIN], old, t->size[old]);
      } else if (small) {
        in[old] = GHOST;
        list_push(&l[GHOST], old, t->size[old]);
        while (l[GHOST].bytes > capacity) {
          uint32_t ghost = l[GHOST].first;
          list_drop(&l[GHOST], ghost, t->size[ghost]);
          in[ghost] = OUT;
        }
      } else if (uses[old] > 0) {
        uses[old]--;
        list_push(&l[MAIN], old, t->size[old]);
      } else {
        in[old] = OUT;
      }
    }
    int where = in[f] == GHOST ? MAIN : SMALL;
    if (in[f] == GHOST) list_drop(&l[GHOST], f, t->size[f]);
    in[f] = (char)where, uses[f] = 0;
    list_push(&l[where], f, t->size[f]);
  }
  for (int i = 1; i < 4; i++) list_free(&l[i]);
  free(in), free(uses);
  return share(s);
}

static double fixed(const struct trace *t, uint64_t capacity, int kind) {
  char *in = zeroed(t->files, 1);
  struct score s = {0};
  uint64_t used = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    uint32_t f = t->file[i];
    score(&s, t, i, kind, in[f]);
    if (in[f] || used + t->size[f] > capacity) continue;
    in[f] = 1, used += t->size[f];
  }
  free(in);
  return share(s);
}

/* A heap of the files in the cache, the latest next use on top. An entry is old if the file has another next use by
 * now. */
struct heap {
  uint32_t n, *file, *at;
};
static bool later(const struct heap *h, uint32_t a, uint32_t b) {
  return h->at[a] > h->at[b];
}
static void heap_swap(struct heap *h, uint32_t a, uint32_t b) {
  uint32_t f = h->file[a], at = h->at[a];
  h->file[a] = h->file[b], h->at[a] = h->at[b], h->file[b] = f, h->at[b] = at;
}
static void heap_push(struct heap *h, uint32_t f, uint32_t at) {
  uint32_t i = h->n++;
  h->file[i] = f, h->at[i] = at;
  for (; i > 0 && later(h, i, (i - 1) / 2); i = (i - 1) / 2) heap_swap(h, i, (i - 1) / 2);
}
static void heap_pop(struct heap *h) {
  heap_swap(h, 0, --h->n);
  for (uint32_t i = 0, child; (child = 2 * i + 1) < h->n; i = child) {
    if (child + 1 < h->n && later(h, child + 1, child)) child++;
    if (!later(h, child, i)) break;
    heap_swap(h, i, child);
  }
}

static double optimum(const struct trace *t, uint64_t capacity, int kind) {
  struct heap h = {.file = zeroed(t->n, 4), .at = zeroed(t->n, 4)};
  uint32_t *next = zeroed(t->files, 4); /* of a file in the cache */
  char *in = zeroed(t->files, 1);
  struct score s = {0};
  uint64_t used = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    uint32_t f = t->file[i];
    score(&s, t, i, kind, in[f]);
    if (!in[f]) used += t->size[f];
    in[f] = 1, next[f] = t->next[i];
    heap_push(&h, f, t->next[i]);
    while (used > capacity) {
      uint32_t top = h.file[0];
      if (in[top] && next[top] == h.at[0]) in[top] = 0, used -= t->size[top];
      heap_pop(&h);
    }
  }
  free(h.file), free(h.at), free(next), free(in);
  return share(s);
}

int main(int argc, char **argv) {
  uint32_t files = argc > 1 ? (uint32_t)atoi(argv[1]) : 20000, epochs = argc > 2 ? (uint32_t)atoi(argv[2]) : 10;
  static const double parts[] = {0.1, 0.25, 0.5, 0.75};
  static const char *const name[] = {"once an epoch", "hot", "phases", "hot, phases"};
  printf("%u files, %u epochs: %% of bytes from the cache, from the second epoch on\n", files, epochs);
  printf("%-14s %-10s %8s %8s %8s %8s %8s %8s %8s %8s\n", "reads", "sizes", "capacity", "FanStore", "pieces", "ahead",
         "LRU", "S3-FIFO", "fixed", "optimum");
  for (int kind = 0; kind < 8; kind++) {
    struct trace t = make(files, epochs, kind);
    for (size_t p = 0; p < sizeof(parts) / sizeof(parts[0]); p++) {
      double part = parts[p];
      uint64_t capacity = (uint64_t)(part * (double)t.bytes);
      printf("%-14s %-10s %8.2f %8.1f %8.1f %8.1f %8.1f %8.1f %8.1f %8.1f\n", name[kind & 3],
             kind & VARIED ? "5-79 KB" : "20 KB", part, own(&t, capacity, kind, 1), own(&t, capacity, kind, 8),
             ahead(&t, capacity, kind), lru(&t, capacity, kind), s3fifo(&t, capacity, kind), fixed(&t, capacity, kind),
             optimum(&t, capacity, kind));
    }
    unmake(&t);
  }
  return 0;
}
