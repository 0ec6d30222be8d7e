/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists of paths in environment variables, and lexical changes of absolute paths. The client calls
 * this for every path; the tools call it too. Pure functions; no system calls.
 */
#include <string.h>

#include "util/util.h"

/* Returns one character of a list item and moves *p past it. */
static char fs_list_char(const char **p) {
  char c = *(*p)++;
  if (c == '\\' && (**p == ':' || **p == '\\')) c = *(*p)++;
  return c;
}

fs_ssize fs_list_next(const char **cursor, char *item, size_t size) {
  const char *p = *cursor;
  size_t n = 0;
  while (*p == ':') p++; /* an empty item names nothing */
  if (*p == '\0') {
    *cursor = p;
    return -ENOENT;
  }
  while (*p != '\0' && *p != ':') {
    char c = fs_list_char(&p);
    if (n < size) item[n] = c;
    n++;
  }
  *cursor = p; /* past the item even if it is too long, so that the caller's loop ends */
  if (n >= size) return -ENAMETOOLONG;
  item[n] = '\0';
  return (fs_ssize)n;
}

fs_err fs_list_append(char *list, size_t size, const char *item) {
  size_t old = strlen(list), n = old;
  if (*item == '\0') return 0;
  if (n > 0 && n + 1 < size) list[n++] = ':';
  for (const char *p = item; *p != '\0'; p++) {
    size_t need = *p == ':' || *p == '\\' ? 2 : 1;
    if (n + need >= size) {
      list[old] = '\0';
      return -ENAMETOOLONG;
    }
    if (need == 2) list[n++] = '\\';
    list[n++] = *p;
  }
  list[n] = '\0';
  return 0;
}

/* Removes the last component of out[0..n) and returns the new length. The root stays. */
static size_t fs_path_up(const char *out, size_t n) {
  while (n > 0 && out[n - 1] != '/') n--;
  return n > 0 ? n - 1 : 0;
}

fs_ssize fs_path_normalize(const char *path, char *out, size_t size) {
  size_t n = 0; /* out[0..n) is empty or starts with '/' and ends without one */
  if (*path != '/') return -EINVAL;
  while (*path != '\0') {
    while (*path == '/') path++;
    size_t len = strcspn(path, "/");
    if (len == 2 && path[0] == '.' && path[1] == '.') {
      n = fs_path_up(out, n);
    } else if (len > 0 && !(len == 1 && path[0] == '.')) {
      if (n + 1 + len >= size) return -ENAMETOOLONG;
      out[n++] = '/';
      memcpy(out + n, path, len);
      n += len;
    }
    path += len;
  }
  if (n == 0) {
    if (size < 2) return -ENAMETOOLONG;
    out[n++] = '/';
  }
  out[n] = '\0';
  return (fs_ssize)n;
}

fs_ssize fs_path_below(const char *path, size_t path_len, const char *prefix, size_t prefix_len) {
  if (prefix_len == 1 && prefix[0] == '/') return path_len > 0 && path[0] == '/' ? 1 : -1;
  if (path_len < prefix_len || memcmp(path, prefix, prefix_len) != 0) return -1;
  if (path_len == prefix_len) return (fs_ssize)path_len;
  return path[prefix_len] == '/' ? (fs_ssize)prefix_len + 1 : -1;
}

const char *fs_list_word(const char *list, const char *part, size_t *len) {
  const char *word = list ? strstr(list, part) : NULL;
  if (!word) return NULL;
  while (word > list && word[-1] != ':' && word[-1] != ' ') word--;
  *len = strcspn(word, ": ");
  return word;
}
