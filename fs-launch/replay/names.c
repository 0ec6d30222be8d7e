/* SPDX-License-Identifier: BSD-3-Clause */
/* A hash table of names (names.h). */
#include <stdlib.h>
#include <string.h>

#include "names.h"
#include "util/util.h"

static size_t place_of(const struct fs_names_table *t, const char *name, size_t len) {
  uint64_t h = 14695981039346656037ull;
  for (size_t i = 0; i < len; i++) h = (h ^ (uint8_t)name[i]) * 1099511628211ull;
  size_t at = (size_t)(h ^ h >> 32) & (t->room - 1);
  while (t->entry[at].name && (t->entry[at].len != len || memcmp(t->entry[at].name, name, len) != 0))
    at = (at + 1) & (t->room - 1);
  return at;
}

static bool grow(struct fs_names_table *t) {
  struct fs_names_table larger = {.used = t->used, .room = t->room ? 2 * t->room : 1024};
  larger.entry = calloc(larger.room, sizeof(*larger.entry));
  if (!larger.entry) return false;
  for (size_t i = 0; i < t->room; i++)
    if (t->entry[i].name) larger.entry[place_of(&larger, t->entry[i].name, t->entry[i].len)] = t->entry[i];
  free(t->entry);
  *t = larger;
  return true;
}

struct fs_names_entry *fs_names_table_get(struct fs_names_table *t, const char *name, size_t len) {
  if (2 * t->used >= t->room && !grow(t)) return NULL;
  struct fs_names_entry *e = &t->entry[place_of(t, name, len)];
  if (e->name) return e;
  e->name = malloc(len + 1);
  if (!e->name) return NULL;
  memcpy(e->name, name, len);
  e->name[len] = '\0';
  e->len = len;
  e->value = UINT64_MAX;
  t->used++;
  return e;
}

void fs_names_table_free(struct fs_names_table *t) {
  for (size_t i = 0; i < t->room; i++) free(t->entry[i].name);
  free(t->entry);
  *t = (struct fs_names_table){0};
}
