/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrapper of wordexp, in which libc uses a glob of its own. The wildcards of the text are hidden
 * from libc: each becomes a control character that the text does not hold. libc does all the rest,
 * and its words are matched here, by this library's glob. Wildcards that come out of variables and
 * commands are still libc's: they match real files only.
 */
#include <stdlib.h>

#include "preload/preload.h"

static const char wild[] = "*?[";
static const char hidden[] = "\001\002\003";

/* Returns the end of what a quote or a dollar sign begins at p. Wildcards in there are not handled
   here. */
static const char *skip_quoted(const char *p);

static const char *skip_to(const char *p, char end) {
  while (*p != '\0' && *p != end)
    p = *p == '\'' || *p == '"' || *p == '`' || *p == '\\' || *p == '$' ? skip_quoted(p) : p + 1;
  return *p == '\0' ? p : p + 1;
}

static const char *skip_balanced(const char *p) {
  int depth = 0;
  while (*p != '\0') {
    if (*p == '(') depth++;
    if (*p == ')' && --depth == 0) return p + 1;
    p = *p == '\'' || *p == '"' || *p == '\\' ? skip_quoted(p) : p + 1;
  }
  return p;
}

static const char *skip_simple(const char *p, char end) {
  while (*p != '\0' && *p != end) p++;
  return *p == '\0' ? p : p + 1;
}

static const char *skip_quoted(const char *p) {
  switch (*p) {
  case '\\':
    return p[1] == '\0' ? p + 1 : p + 2;
  case '\'':
    return skip_simple(p + 1, '\'');
  case '"':
    return skip_to(p + 1, '"');
  case '`':
    return skip_simple(p + 1, '`');
  case '$':
    return p[1] == '{' ? skip_to(p + 2, '}') : p[1] == '(' ? skip_balanced(p + 1) : p[1] == '\0' ? p + 1 : p + 2;
  default:
    return p + 1;
  }
}

/* libc takes these characters as they are behind a wildcard in the same word, and refuses them
   elsewhere. */
static bool is_odd(const char *text) {
  bool behind = false;
  for (const char *p = text; *p != '\0';) {
    if (strchr(" \t\n", *p) != NULL) behind = false;
    if (behind && strchr("|&;<>(){}`", *p) != NULL) return true;
    bool wildcard = strchr(wild, *p) != NULL;
    behind = behind || wildcard;
    p = wildcard ? p + 1 : skip_quoted(p);
  }
  return false;
}

/* Returns a copy of the text with its wildcards hidden. */
static char *hide_wildcards(const char *text) {
  char *copy = strdup(text);
  if (copy == NULL) return NULL;
  for (const char *p = text; *p != '\0';) {
    const char *w = strchr(wild, *p);
    if (w != NULL) copy[p - text] = hidden[w - wild];
    p = w != NULL ? p + 1 : skip_quoted(p);
  }
  return copy;
}

/* A growing list of words, like wordexp's. */
struct words {
  char **list;
  size_t n;
};

static bool add(struct words *w, const char *text) {
  char **more = reallocarray(w->list, w->n + 2, sizeof(char *));
  if (more == NULL) return false;
  w->list = more;
  w->list[w->n] = strdup(text);
  if (w->list[w->n] == NULL) return false;
  w->list[++w->n] = NULL;
  return true;
}

/* Writes a word with hidden wildcards as a pattern, in which all else stands for itself, or as
   plain text. */
static void show_wildcards(const char *word, char *out, bool pattern) {
  for (; *word != '\0'; word++) {
    const char *h = strchr(hidden, *word);
    if (h == NULL && pattern && strchr("*?[\\", *word) != NULL) *out++ = '\\';
    *out++ = h != NULL ? wild[h - hidden] : *word;
  }
  *out = '\0';
}

static bool match(struct words *w, const char *word) {
  if (strpbrk(word, hidden) == NULL) return add(w, word);
  char *text = malloc(2 * strlen(word) + 1);
  if (text == NULL) return false;
  glob_t g = {0};
  bool ok = true;
  show_wildcards(word, text, true);
  int r = glob(text, 0, NULL, &g);
  for (size_t i = 0; r == 0 && ok && i < g.gl_pathc; i++) ok = add(w, g.gl_pathv[i]);
  if (r == 0) globfree(&g);
  show_wildcards(word, text, false);
  if (r != 0) ok = r != GLOB_NOSPACE && add(w, text);
  free(text);
  return ok;
}

static void free_words(struct words *w) {
  for (size_t i = 0; i < w->n; i++) free(w->list[i]);
  free(w->list);
}

/* Puts the words where the flags say. */
static int deliver(struct words *w, wordexp_t *out, int flags) {
  bool append = (flags & WRDE_APPEND) != 0;
  size_t before = flags & WRDE_DOOFFS ? out->we_offs : 0, had = before + (append ? out->we_wordc : 0);
  char **list = reallocarray(append ? out->we_wordv : NULL, had + w->n + 1, sizeof(char *));
  if (list == NULL) return WRDE_NOSPACE;
  if (!append) {
    memset(list, 0, before * sizeof(char *));
    out->we_wordc = 0;
    if (!(flags & WRDE_DOOFFS)) out->we_offs = 0;
  }
  if (w->n > 0) memcpy(list + had, w->list, w->n * sizeof(char *));
  list[had + w->n] = NULL;
  out->we_wordv = list;
  out->we_wordc += w->n;
  w->n = 0; /* they are the caller's now */
  return 0;
}

static int expand(const char *text, wordexp_t *out, int flags) {
  wordexp_t plain = {0};
  struct words w = {0};
  int r = FS_REAL(wordexp)(text, &plain, flags & (WRDE_NOCMD | WRDE_SHOWERR | WRDE_UNDEF));
  if (r != 0) return r;
  if (flags & WRDE_REUSE) wordfree(out);
  for (size_t i = 0; r == 0 && i < plain.we_wordc; i++) r = match(&w, plain.we_wordv[i]) ? 0 : WRDE_NOSPACE;
  wordfree(&plain);
  if (r == 0) r = deliver(&w, out, flags);
  free_words(&w);
  return r;
}

FS_EXPORT int wordexp(const char *restrict text, wordexp_t *restrict out, int flags) {
  if (fs_mount_count() == 0 || strpbrk(text, wild) == NULL || strpbrk(text, hidden) != NULL || is_odd(text))
    return FS_REAL(wordexp)(text, out, flags);
  char *copy = hide_wildcards(text);
  if (copy == NULL) return WRDE_NOSPACE;
  int r = expand(copy, out, flags);
  free(copy);
  return r;
}
