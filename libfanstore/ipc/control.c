/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses control lines (control.h) in the caller's buffer and builds them there. Called by
 * fs-launch and fanstored. A parsed line came through mpirun: it may be truncated or mixed with
 * other output, so nothing in it is trusted. No state.
 */
#include "ipc/control.h"

#include <string.h>

#include "util/util.h"

#define FS_CONTROL_PREFIX "@fs "

static int fs_control_hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

fs_err fs_control_unescape(char *s) {
  char *out = s;
  for (; *s != '\0'; s++) {
    if (*s != '%') {
      *out++ = *s;
      continue;
    }
    int hi = fs_control_hex(s[1]);
    int lo = hi < 0 ? -1 : fs_control_hex(s[2]);
    if (lo < 0 || (hi == 0 && lo == 0)) return -EINVAL;
    *out++ = (char)(hi << 4 | lo);
    s += 2;
  }
  *out = '\0';
  return 0;
}

/* Cuts off and returns the next word, or NULL at the end. */
static char *fs_control_word(char **cursor) {
  char *w = *cursor + strspn(*cursor, " ");
  if (*w == '\0') return NULL;
  char *end = w + strcspn(w, " ");
  *cursor = *end == '\0' ? end : end + 1;
  *end = '\0';
  return w;
}

static fs_err fs_control_pair(struct fs_control *c, char *word) {
  char *eq = strchr(word, '=');
  if (!eq || eq == word || c->pairs == FS_ARRAY_LEN(c->pair)) return -EINVAL;
  *eq = '\0';
  c->pair[c->pairs].key = word;
  c->pair[c->pairs].value = eq + 1;
  c->pairs++;
  return fs_control_unescape(eq + 1);
}

fs_err fs_control_parse(const char *line, size_t n, struct fs_control *c) {
  c->pairs = 0;
  c->verb = NULL;
  if (n > 0 && line[n - 1] == '\n') n--;
  if (n > 0 && line[n - 1] == '\r') n--;
  size_t prefix = strlen(FS_CONTROL_PREFIX);
  if (n <= prefix || n >= sizeof(c->line) || memcmp(line, FS_CONTROL_PREFIX, prefix) != 0) return -EINVAL;
  for (size_t i = 0; i < n; i++) {
    if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f) return -EINVAL;
  }
  memcpy(c->line, line + prefix, n - prefix);
  c->line[n - prefix] = '\0';
  char *cursor = c->line;
  char *verb = fs_control_word(&cursor);
  if (!verb || strspn(verb, "abcdefghijklmnopqrstuvwxyz") != strlen(verb)) return -EINVAL;
  c->verb = verb;
  for (char *word; (word = fs_control_word(&cursor)) != NULL;) {
    fs_err err = fs_control_pair(c, word);
    if (err < 0) return err;
  }
  return 0;
}

const char *fs_control_get(const struct fs_control *c, const char *key) {
  for (unsigned i = 0; i < c->pairs; i++) {
    if (strcmp(c->pair[i].key, key) == 0) return c->pair[i].value;
  }
  return NULL;
}

fs_err fs_control_get_u64(const struct fs_control *c, const char *key, uint64_t *out) {
  const char *value = fs_control_get(c, key);
  return value ? fs_parse_u64(value, 0, UINT64_MAX, out) : -ENOENT;
}

/* Appends bytes and leaves room for the newline and the NUL. */
static fs_err fs_control_put(struct fs_control_line *l, const char *s, size_t n) {
  if (l->len + n + 2 > sizeof(l->text)) return -ENOSPC;
  memcpy(l->text + l->len, s, n);
  l->len += n;
  l->text[l->len] = '\0';
  return 0;
}

fs_err fs_control_begin(struct fs_control_line *l, const char *verb) {
  l->len = 0;
  fs_err err = fs_control_put(l, FS_CONTROL_PREFIX, strlen(FS_CONTROL_PREFIX));
  return err < 0 ? err : fs_control_put(l, verb, strlen(verb));
}

static fs_err fs_control_put_value(struct fs_control_line *l, const char *value) {
  static const char digit[] = "0123456789ABCDEF";
  for (; *value != '\0'; value++) {
    unsigned char ch = (unsigned char)*value;
    char code[3] = {'%', digit[ch >> 4], digit[ch & 15]};
    bool plain = ch > 0x20 && ch != 0x7f && ch != '%';
    fs_err err = plain ? fs_control_put(l, value, 1) : fs_control_put(l, code, sizeof(code));
    if (err < 0) return err;
  }
  return 0;
}

fs_err fs_control_add(struct fs_control_line *l, const char *key, const char *value) {
  size_t before = l->len;
  fs_err err = fs_control_put(l, " ", 1);
  if (err == 0) err = fs_control_put(l, key, strlen(key));
  if (err == 0) err = fs_control_put(l, "=", 1);
  if (err == 0) err = fs_control_put_value(l, value);
  if (err < 0) { /* add the whole pair or nothing */
    l->len = before;
    l->text[before] = '\0';
  }
  return err;
}

fs_err fs_control_add_u64(struct fs_control_line *l, const char *key, uint64_t value) {
  char text[24];
  snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
  return fs_control_add(l, key, text);
}

fs_err fs_control_end(struct fs_control_line *l) {
  if (l->len + 2 > sizeof(l->text)) return -ENOSPC;
  l->text[l->len++] = '\n';
  l->text[l->len] = '\0';
  return 0;
}
