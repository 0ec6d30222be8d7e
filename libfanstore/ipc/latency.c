/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bounds, percentiles and the text form of histograms (latency.h). Called by the daemon and
 * fs-launch; programs only count.
 */
#include "ipc/latency.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t fs_latency_low(unsigned bucket) {
  if (bucket == 0) return 0;
  unsigned power = (bucket >> FS_LATENCY_SUB_SHIFT) + FS_LATENCY_LOW_SHIFT;
  uint64_t sub = bucket & ((1u << FS_LATENCY_SUB_SHIFT) - 1);
  return ((1ull << FS_LATENCY_SUB_SHIFT) + sub) << (power - FS_LATENCY_SUB_SHIFT);
}

uint64_t fs_latency_high(unsigned bucket) {
  return fs_latency_low(bucket + 1);
}

uint64_t fs_latency_total(const struct fs_latency *h) {
  uint64_t n = 0;
  for (unsigned b = 0; b < FS_LATENCY_BUCKETS; b++) n += h->count[b];
  return n;
}

uint64_t fs_latency_percentile(const struct fs_latency *h, unsigned per_mille) {
  double want = (double)fs_latency_total(h) * per_mille / 1000;
  uint64_t n = 0, high = 0;
  for (unsigned b = 0; b < FS_LATENCY_BUCKETS && (n == 0 || (double)n < want); b++) {
    if (h->count[b] == 0) continue;
    n += h->count[b];
    high = fs_latency_high(b);
  }
  return high;
}

size_t fs_latency_text(const struct fs_latency *h, unsigned *from, char *out, size_t size) {
  size_t len = 0;
  if (size > 0) out[0] = '\0';
  for (; *from < FS_LATENCY_BUCKETS; ++*from) {
    char one[40];
    if (h->count[*from] == 0) continue;
    int n = snprintf(one, sizeof(one), "%s%u:%llu", len > 0 ? "," : "", *from, (unsigned long long)h->count[*from]);
    if (len + (size_t)n >= size) break;
    memcpy(out + len, one, (size_t)n + 1);
    len += (size_t)n;
  }
  return len;
}

/* Reads the digits at *s and moves behind them. */
static fs_err number(const char **s, uint64_t *value) {
  char *end;
  if (**s < '0' || **s > '9') return -EINVAL;
  errno = 0;
  *value = strtoull(*s, &end, 10);
  *s = end;
  return errno == 0 ? 0 : -EINVAL;
}

fs_err fs_latency_parse(const char *text, struct fs_latency *h) {
  while (*text != '\0') {
    uint64_t b, n;
    fs_err err = number(&text, &b);
    if (err < 0 || b >= FS_LATENCY_BUCKETS || *text++ != ':') return -EINVAL;
    err = number(&text, &n);
    if (err < 0) return err;
    h->count[b] = n;
    if (*text == ',' && text[1] != '\0')
      text++;
    else if (*text != '\0')
      return -EINVAL;
  }
  return 0;
}

static const char *const op_names[FS_LATENCY_OPS] = {"open", "read", "stat"};
static const char *const place_names[FS_LATENCY_PLACES] = {"local", "cache", "remote", "shared", "output"};

const char *fs_latency_op_name(unsigned op) {
  return op < FS_LATENCY_OPS ? op_names[op] : "?";
}

const char *fs_latency_place_name(unsigned place) {
  return place < FS_LATENCY_PLACES ? place_names[place] : "?";
}

static int find(const char *const *names, int n, const char *name) {
  while (n-- > 0)
    if (strcmp(names[n], name) == 0) return n;
  return -1;
}

int fs_latency_op(const char *name) {
  return find(op_names, FS_LATENCY_OPS, name);
}

int fs_latency_place(const char *name) {
  return find(place_names, FS_LATENCY_PLACES, name);
}
