/* SPDX-License-Identifier: BSD-3-Clause */
/* The command-line parser of the tools. One table serves the parser and the help. Single-threaded;
   prints errors to stderr. */
#include <stdio.h>
#include <string.h>

#include "util/util.h"

struct fs_opt_state {
  const char *prog;
  const struct fs_opt *opts;
  size_t nopts;
  int argc;
  char **argv;
  fs_opt_fn *fn;
  void *ctx;
};

static int fs_opt_error(const struct fs_opt_state *s, const char *before, const char *option, size_t len,
                        const char *after) {
  char shown[256];
  fs_printable(option, len, shown, sizeof(shown));
  fprintf(stderr, "%s: %s '%s'%s (see %s --help)\n", s->prog, before, shown, after, s->prog);
  return -EINVAL;
}

static const struct fs_opt *fs_opt_by_name(const struct fs_opt_state *s, const char *name, size_t len) {
  for (size_t i = 0; i < s->nopts; i++) {
    const char *have = s->opts[i].name;
    if (have && strlen(have) == len && memcmp(have, name, len) == 0) return &s->opts[i];
  }
  return NULL;
}

static const struct fs_opt *fs_opt_by_letter(const struct fs_opt_state *s, char letter) {
  for (size_t i = 0; i < s->nopts; i++) {
    if (s->opts[i].letter == letter) return &s->opts[i];
  }
  return NULL;
}

/* Returns how many letters must be inserted, removed or replaced to make one name of the other. */
static size_t fs_opt_distance(const char *a, size_t len, const char *b) {
  size_t row[32], width = strlen(b);
  if (len >= FS_ARRAY_LEN(row) || width >= FS_ARRAY_LEN(row)) return len + width;
  for (size_t k = 0; k <= width; k++) row[k] = k;
  for (size_t i = 0; i < len; i++) {
    size_t corner = row[0]++;
    for (size_t k = 0; k < width; k++) {
      size_t replaced = corner + (a[i] != b[k]);
      corner = row[k + 1];
      row[k + 1] = FS_MIN(replaced, FS_MIN(corner, row[k]) + 1);
    }
  }
  return row[width];
}

/* Prints an error that names the option which is most like this word, if one in three letters is
   wrong at most. */
static int fs_opt_unknown(const struct fs_opt_state *s, const char *word, size_t shown) {
  const char *best = NULL;
  char hint[64] = "";
  size_t len = shown - 2, least = len / 3 + 1;
  for (size_t i = 0; word[1] == '-' && i < s->nopts; i++) {
    size_t d = s->opts[i].name ? fs_opt_distance(word + 2, len, s->opts[i].name) : least;
    if (d >= least) continue;
    least = d;
    best = s->opts[i].name;
  }
  if (best) snprintf(hint, sizeof(hint), ": did you mean --%s?", best);
  return fs_opt_error(s, "unknown option", word, shown, hint);
}

/* Returns true if this word, at the place of a value, is "--" or an option of the table: then the
   value was forgotten. A value of that form can be given as "--name=--value". */
static bool fs_opt_forgotten(const struct fs_opt_state *s, const char *word) {
  if (word[0] != '-' || word[1] != '-') return false;
  return word[2] == '\0' || fs_opt_by_name(s, word + 2, strcspn(word + 2, "=")) != NULL;
}

/* Handles the option at argv[i], or the letters there, as in "-fk". If the last option takes a value, this is
   attached or the next word. Returns the next index. */
static int fs_opt_one(const struct fs_opt_state *s, int i) {
  const char *word = s->argv[i], *value = NULL;
  const struct fs_opt *o;
  size_t shown;
  fs_err err = 0;
  if (word[1] == '-') {
    size_t len = strcspn(word + 2, "=");
    shown = len + 2;
    o = fs_opt_by_name(s, word + 2, len);
    if (word[shown] == '=') value = word + shown + 1;
  } else {
    const char *last = word + 1;
    o = fs_opt_by_letter(s, *last);
    while (o && !o->arg && last[1] != '\0') o = fs_opt_by_letter(s, *++last);
    shown = o ? (size_t)(last + 1 - word) : strlen(word);
    if (last[1] != '\0') value = last + 1;
    for (const char *flag = word + 1; o && flag < last && err == 0; flag++)
      err = s->fn(s->ctx, fs_opt_by_letter(s, *flag)->id, NULL);
    if (err < 0) return err;
  }
  if (!o) return fs_opt_unknown(s, word, shown);
  if (!o->arg && value) return fs_opt_error(s, "option", word, shown, " takes no argument");
  if (o->arg && !value) {
    if (++i >= s->argc || fs_opt_forgotten(s, s->argv[i]))
      return fs_opt_error(s, "option", word, shown, " needs an argument");
    value = s->argv[i];
  }
  err = s->fn(s->ctx, o->id, value);
  return err < 0 ? err : i + 1;
}

int fs_opt_parse(const char *prog, const struct fs_opt *opts, size_t nopts, int argc, char **argv, int first,
                 bool stop_at_word, fs_opt_fn *fn, void *ctx) {
  const struct fs_opt_state s = {prog, opts, nopts, argc, argv, fn, ctx};
  bool only_words = false;
  for (int i = first; i < argc;) {
    const char *word = argv[i];
    if (!only_words && strcmp(word, "--") == 0) {
      if (stop_at_word) return i + 1;
      only_words = true;
      i++;
    } else if (only_words || word[0] != '-' || word[1] == '\0') {
      if (stop_at_word) return i;
      fs_err err = fn(ctx, 0, word);
      if (err < 0) return err;
      i++;
    } else {
      i = fs_opt_one(&s, i);
      if (i < 0) return i;
    }
  }
  return argc;
}

/* Writes " -l, --name ARG" to text. Returns its width. */
static int fs_opt_label(const struct fs_opt *o, char *text, size_t size) {
  const char *arg = o->arg ? o->arg : "", *space = o->arg ? " " : "";
  if (!o->name) return snprintf(text, size, "  -%c%s%s", o->letter, space, arg);
  if (!o->letter) return snprintf(text, size, "      --%s%s%s", o->name, space, arg);
  return snprintf(text, size, "  -%c, --%s%s%s", o->letter, o->name, space, arg);
}

void fs_opt_help(FILE *out, const struct fs_opt *opts, size_t nopts) {
  char label[128];
  int width = 0;
  for (size_t i = 0; i < nopts; i++) width = FS_MAX(width, fs_opt_label(&opts[i], label, sizeof(label)));
  for (size_t i = 0; i < nopts; i++) {
    fs_opt_label(&opts[i], label, sizeof(label));
    fprintf(out, "%-*s  ", width, label);
    for (const char *p = opts[i].help; *p != '\0'; p++) { /* further lines of a help text are
                                                             aligned with the first */
      fputc(*p, out);
      if (*p == '\n') fprintf(out, "%*s", width + 2, "");
    }
    fputc('\n', out);
  }
}
