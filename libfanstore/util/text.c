/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints file names of any bytes on one line, and matches shell patterns. Used by the tools. Pure
   functions. */
#include <stdio.h>
#include <string.h>

#include "util/util.h"

/*
 * Returns the length of the well-formed UTF-8 sequence at p (at most n bytes), or 0. Without `c1` the
 * C1 control characters count as malformed, because terminals obey them.
 */
static size_t fs_utf8_len(const unsigned char *p, size_t n, bool c1) {
  const uint32_t lowest[5] = {0, 0, c1 ? 0x80 : 0xa0, 0x800, 0x10000};
  size_t len = p[0] >= 0xf0 && p[0] < 0xf8 ? 4 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3 : p[0] >= 0xc0 && p[0] < 0xe0 ? 2 : 0;
  if (len == 0 || len > n) return 0;
  uint32_t code = p[0] & (0xffu >> (len + 1));
  for (size_t i = 1; i < len; i++) {
    if ((p[i] & 0xc0) != 0x80) return 0;
    code = code << 6 | (p[i] & 0x3fu);
  }
  bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < lowest[len] || code > 0x10ffff || surrogate ? 0 : len;
}

/* Writes the printed form of the bytes at p to piece; `backslash`: a backslash is doubled. Returns how
   many bytes of p it stands for. */
static size_t fs_print_piece(const unsigned char *p, size_t n, bool backslash, char piece[8]) {
  size_t utf8 = fs_utf8_len(p, n, false);
  if (utf8 > 0) {
    memcpy(piece, p, utf8);
    piece[utf8] = '\0';
    return utf8;
  }
  if (*p == '\n' || (*p == '\\' && backslash))
    snprintf(piece, 8, "\\%c", *p == '\n' ? 'n' : '\\');
  else if (*p >= 0x20 && *p < 0x7f)
    snprintf(piece, 8, "%c", *p);
  else
    snprintf(piece, 8, "\\x%02x", *p);
  return 1;
}

static char *fs_print(const char *name, size_t len, bool backslash, char *out, size_t size) {
  const unsigned char *p = (const unsigned char *)name;
  size_t used = 0;
  if (size == 0) return out;
  while (len > 0) {
    char piece[8];
    size_t took = fs_print_piece(p, len, backslash, piece), n = strlen(piece);
    if (used + n >= size) break;
    memcpy(out + used, piece, n);
    used += n;
    p += took;
    len -= took;
  }
  out[used] = '\0';
  return out;
}

char *fs_printable(const char *name, size_t len, char *out, size_t size) {
  return fs_print(name, len, true, out, size);
}

char *fs_one_line(const char *text, char *out, size_t size) {
  return fs_print(text, strlen(text), false, out, size);
}

void fs_json_string(FILE *out, const char *text) {
  const unsigned char *p = (const unsigned char *)text;
  fputc('"', out);
  for (size_t n = strlen(text), took; n > 0; p += took, n -= took) {
    took = fs_utf8_len(p, n, true);
    if (took == 0 && *p >= 0x80)
      fprintf(out, "\\udc%02x", *p);
    else if (*p == '"' || *p == '\\')
      fprintf(out, "\\%c", *p);
    else if (*p < 0x20 || *p == 0x7f)
      fprintf(out, "\\u%04x", *p);
    else if (took == 2 && *p == 0xc2 && p[1] < 0xa0) /* C1: terminals obey these, too */
      fprintf(out, "\\u%04x", p[1]);
    else
      fwrite(p, 1, FS_MAX(took, 1), out);
    if (took == 0) took = 1;
  }
  fputc('"', out);
}

/* Returns true if c matches the set at p, after its '['. Sets *end to the place after ']', or to
   NULL if the set is not closed. */
static bool fs_glob_set(const char *p, unsigned char c, const char **end) {
  bool negate = *p == '!' || *p == '^', hit = false;
  if (negate) p++;
  for (bool first = true; *p != '\0' && (first || *p != ']'); first = false) {
    if (*p == '\\' && p[1] != '\0') p++;
    unsigned char low = (unsigned char)*p++, high = low;
    if (p[0] == '-' && p[1] != '\0' && p[1] != ']') {
      p++;
      if (*p == '\\' && p[1] != '\0') p++;
      high = (unsigned char)*p++;
    }
    if (low <= c && c <= high) hit = true;
  }
  *end = *p == ']' ? p + 1 : NULL;
  return hit != negate;
}

/* Matches one pattern unit that is no star with the character c. Sets *next to the rest of the
   pattern. */
static bool fs_glob_one(const char *p, unsigned char c, const char **next) {
  const char *end;
  *next = p + 1;
  if (*p == '?') return c != '/';
  if (*p == '[') {
    bool hit = fs_glob_set(p + 1, c, &end);
    if (end) {
      *next = end;
      return hit && c != '/';
    }
  }
  if (*p == '\\' && p[1] != '\0') {
    *next = p + 2;
    p++;
  }
  return (unsigned char)*p == c;
}

/* A place to go back to: the pattern after a star, and the text that the star has not consumed
   yet. */
struct fs_glob_mark {
  const char *pattern, *text;
  bool whole_dirs; /* of "**" before a slash: it consumes whole components */
};

/* Lets the last star consume more: '*' within its component, else the last "**". Returns false if
   nothing is left. */
static bool fs_glob_back(struct fs_glob_mark *star, struct fs_glob_mark *deep, const char **p, const char **t) {
  if (star->pattern && *star->text != '\0' && *star->text != '/') {
    star->text++;
    *p = star->pattern;
    *t = star->text;
    return true;
  }
  if (!deep->pattern || *deep->text == '\0') return false;
  if (deep->whole_dirs) {
    const char *slash = strchr(deep->text, '/');
    if (!slash) return false;
    deep->text = slash;
  }
  deep->text++;
  star->pattern = NULL;
  *p = deep->pattern;
  *t = deep->text;
  return true;
}

static bool fs_glob_text(const char *p, const char *t) {
  const char *begin = p;
  struct fs_glob_mark star = {0}, deep = {0};
  for (;;) {
    const char *next;
    if (p[0] == '*' && p[1] == '*') {
      bool component = p == begin || p[-1] == '/'; /* "a**" followed by a slash is no whole component */
      while (*p == '*') p++;
      deep = (struct fs_glob_mark){p, t, component && *p == '/'};
      if (deep.whole_dirs) deep.pattern = ++p;
      star.pattern = NULL;
    } else if (*p == '*') {
      star = (struct fs_glob_mark){++p, t, false};
    } else if (*p == '\0' && *t == '\0') {
      return true;
    } else if (*p != '\0' && *t != '\0' && fs_glob_one(p, (unsigned char)*t, &next)) {
      p = next;
      t++;
    } else if (!fs_glob_back(&star, &deep, &p, &t)) {
      return false;
    }
  }
}

bool fs_glob_match(const char *pattern, const char *path) {
  if (!strchr(pattern, '/')) {
    const char *slash = strrchr(path, '/');
    return fs_glob_text(pattern, slash ? slash + 1 : path);
  }
  return fs_glob_text(*pattern == '/' ? pattern + 1 : pattern, path);
}
