/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes the text helpers that see what users and environments give: path lists, sizes, normalisation, printing,
 * patterns. What each promises about its result is checked.
 */
#include <stdlib.h>
#include <string.h>

#include "util/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Taking a list apart and putting it together again gives a list of the same items. */
static void check_list(const char *text, size_t item_size) {
  size_t room = strlen(text) * 2 + 2;
  char *item = malloc(item_size), *back = malloc(item_size), *list = calloc(1, room);
  const char *cursor = text, *again = list;
  fs_ssize n;
  while ((n = fs_list_next(&cursor, item, item_size)) != -ENOENT) {
    if (n == -ENAMETOOLONG) continue;
    if (n <= 0 || (size_t)n >= item_size || item[n] != '\0') abort();
    if (fs_list_append(list, room, item) < 0) abort();
  }
  cursor = text;
  while ((n = fs_list_next(&cursor, item, item_size)) != -ENOENT) {
    if (n < 0) continue;
    if (fs_list_next(&again, back, item_size) != n || strcmp(item, back) != 0) abort();
  }
  if (fs_list_next(&again, back, item_size) != -ENOENT) abort();
  free(list);
  free(back);
  free(item);
}

static void check_path(const char *text, size_t out_size) {
  char *out = malloc(out_size), *again = malloc(out_size);
  fs_ssize n = fs_path_normalize(text, out, out_size);
  if (n >= 0) {
    if ((size_t)n != strlen(out) || out[0] != '/' || (n > 1 && out[n - 1] == '/')) abort();
    if (strstr(out, "//") || strstr(out, "/./") || strstr(out, "/../")) abort();
    if (fs_path_normalize(out, again, out_size) != n || strcmp(out, again) != 0) abort();
    if (fs_path_below(out, (size_t)n, out, (size_t)n) < 0 || fs_path_below(out, (size_t)n, "/", 1) != 1) abort();
  } else if (n != -EINVAL && n != -ENAMETOOLONG) {
    abort();
  }
  free(again);
  free(out);
}

static void check_numbers(const char *text) {
  uint64_t n, again;
  char shown[64];
  if (fs_parse_size(text, &n) == 0) {
    snprintf(shown, sizeof(shown), "%llu", (unsigned long long)n);
    if (fs_parse_size(shown, &again) < 0 || again != n) abort();
    fs_format_size(n, shown, sizeof(shown));
  }
  if (fs_parse_u64(text, 5, 500, &n) == 0 && (n < 5 || n > 500)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  size_t room = (size_t)data[0] + 1;
  char *text = malloc(size), *shown = malloc(room);
  memcpy(text, data + 1, size - 1);
  text[size - 1] = '\0';
  check_list(text, room);
  check_path(text, room);
  check_numbers(text);
  fs_printable((const char *)data, size, shown, room);
  if (strlen(shown) >= room || strchr(shown, '\n')) abort();
  char *second = strchr(text, ' ');
  if (second) {
    *second++ = '\0';
    if (strlen(text) > 256)
      text[256] = '\0'; /* cubic at the worst: an own pattern of thousands of '[' takes its time */
    fs_glob_match(text, second);
  }
  free(shown);
  free(text);
  return 0;
}
