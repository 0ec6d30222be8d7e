/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The beginnings of members of an archive that comes as a stream, for the samples of --codec auto. The
 * first pass over the archive fills them; sample.c reads them. If they become too many, half of them
 * are dropped, by a hash of the member's number, so that those that stay are spread over the archive.
 */
#include <stdlib.h>
#include <string.h>

#include "sources.h"
#include "util/grow.h"
#include "util/util.h"

/* What a beginning of n bytes takes, with what malloc and the list need for it. */
static uint64_t cost(size_t n) {
  return n + sizeof(struct fs_begin) + 32;
}

static bool is_wanted(const struct fs_begins *b, uint64_t member) {
  return (fs_xxh3(&member, sizeof member) & (b->step - 1)) == 0;
}

static void drop_half(struct fs_begins *b) {
  size_t n = 0;
  b->step *= 2;
  for (size_t i = 0; i < b->n; i++) {
    struct fs_begin *begin = &b->list[i];
    if (is_wanted(b, begin->member)) {
      b->list[n++] = *begin;
      continue;
    }
    b->bytes -= cost(begin->n);
    free(begin->bytes);
  }
  b->n = n;
}

fs_err fs_begins_add(struct fs_begins *b, uint64_t member, size_t n, struct fs_begin **out) {
  *out = NULL;
  if (b->step == 0) b->step = 1;
  while (b->n > 0 && b->bytes + cost(n) > b->most && is_wanted(b, member)) drop_half(b);
  if (n == 0 || b->bytes + cost(n) > b->most || !is_wanted(b, member)) return 0;
  fs_err err = fs_grow(&b->list, &b->room, b->n, sizeof *b->list);
  if (err < 0) return err;
  uint8_t *bytes = calloc(n, 1);
  if (bytes == NULL) return -ENOMEM;
  *out = &b->list[b->n++];
  **out = (struct fs_begin){.member = member, .bytes = bytes, .n = n};
  b->bytes += cost(n);
  return 0;
}

static int by_member(const void *va, const void *vb) {
  const struct fs_begin *a = va, *b = vb;
  return a->member < b->member ? -1 : a->member > b->member;
}

const struct fs_begin *fs_begins_find(const struct fs_begins *b, uint64_t member) {
  const struct fs_begin wanted = {.member = member};
  return b->n != 0 ? bsearch(&wanted, b->list, b->n, sizeof *b->list, by_member) : NULL;
}

void fs_begins_free(struct fs_begins *b) {
  for (size_t i = 0; i < b->n; i++) free(b->list[i].bytes);
  free(b->list);
  *b = (struct fs_begins){0};
}
