/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What mpirun and the programs below it print to stderr at the start: the last lines are kept, and if
 * the start fails, the most useful of them becomes the reason. mpirun prints its messages as blocks
 * between lines of dashes: sentences that go on in the next line, and then maybe "Key: value" lines.
 * One thread.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "launch.h"

/* Keeps ssh's line about a host that it cannot reach. mpirun's many lines after that say less. */
static void on_shell(struct fs_launch *l, const char *line) {
  size_t n = strlen(l->shell);
  bool refused = strchr(line, '@') && strstr(line, ": Permission denied");
  if (!l->starting || (strncmp(line, "ssh: ", 5) != 0 && !refused) || strstr(l->shell, line)) return;
  if (n + strlen(line) + 3 < sizeof(l->shell))
    snprintf(l->shell + n, sizeof(l->shell) - n, "%s%s", n ? "; " : "", line);
}

/* Returns true for a line that says nothing: Open MPI 4.1 prints the first at the end of each job
   whose daemons end by themselves, Open MPI 5 the second for a remote shell that was quick. */
static bool is_harmless(const struct fs_launch *l, const char *line) {
  bool at_end = l->stopping && !l->starting && strstr(line, "PMIX ERROR: BAD-PARAM in file ") &&
                strstr(line, "/pmix_event_notification.c at line ");
  return at_end || strstr(line, "plm:ssh: Warning: setpgid(");
}

void fs_noise_line(struct fs_launch *l, const char *line, size_t n) {
  struct fs_launch_noise *slot = &l->noise[l->noises % FS_ARRAY_LEN(l->noise)];
  while (n > 0 && (line[n - 1] == '\r' || line[n - 1] == ' ')) n--;
  fs_printable(line, n, slot->text, sizeof(slot->text));
  slot->block = l->noise_block;
  if (is_harmless(l, slot->text)) return;
  if (l->opt.verbose && slot->text[0]) {
    fs_bar(NULL);
    fprintf(stderr, "%s\n", slot->text);
  }
  fs_start_noise(l, slot->text);
  on_shell(l, slot->text);
  fs_network_noise(l, slot->text);
  bool dashes = strspn(slot->text, "- ") == strlen(slot->text);
  if (n > 8 && dashes) l->noise_block++;
  if (slot->text[0] && !dashes) l->noises++;
}

/* Returns the n-th of the lines that are kept, or NULL. */
static const struct fs_launch_noise *line_at(const struct fs_launch *l, unsigned i) {
  unsigned room = FS_ARRAY_LEN(l->noise), n = FS_MIN(l->noises, room);
  return i < n ? &l->noise[(l->noises - n + i) % room] : NULL;
}

const char *fs_noise_with(const struct fs_launch *l, const char *word) {
  const struct fs_launch_noise *line;
  for (unsigned i = 0; (line = line_at(l, i)) != NULL; i++)
    if (strstr(line->text, word)) return line->text;
  return NULL;
}

/* Returns the length of a sentence's first part: up to a full stop before a blank or the end. */
static size_t sentence_length(const char *text) {
  for (const char *p = text; *p; p++)
    if (*p == '.' && (p[1] == ' ' || p[1] == '\0')) return (size_t)(p - text);
  return strlen(text);
}

/* Returns true for a line "Key: value". */
static bool is_key(const char *text) {
  size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ");
  return n > 0 && n < 24 && text[n] == ':' && text[n + 1] == ' ' && strlen(text) < 80;
}

static void add(char *out, size_t size, const char *before, const char *text, size_t n) {
  size_t at = strlen(out), blanks = FS_MIN(strspn(text, " "), n);
  text += blanks;
  n -= blanks;
  if (at + strlen(before) + n + 2 < size) snprintf(out + at, size - at, "%s%.*s", before, (int)n, text);
}

/* Writes the sentence that is in line i, and the values that its block names. */
static void tell_block(const struct fs_launch *l, unsigned i, char *out, size_t size) {
  const struct fs_launch_noise *first = line_at(l, i), *next = first;
  const char *between = "";
  bool ended = false;
  for (out[0] = '\0'; !ended && next && next->block == first->block && next->text[0]; next = line_at(l, ++i)) {
    size_t n = sentence_length(next->text);
    bool colon = n > 0 && next->text[n - 1] == ':';
    ended = next->text[n] == '.' || colon;
    add(out, size, between, next->text, n - colon);
    between = " ";
  }
  unsigned keys = 0;
  for (; next && next->block == first->block; next = line_at(l, ++i)) {
    if (!is_key(next->text)) continue;
    size_t name = strcspn(next->text, ":");
    add(out, size, keys++ ? ", " : " (", next->text, name + 1);
    add(out, size, " ", next->text + name + 1, strlen(next->text + name + 1));
  }
  if (keys > 0) add(out, size, ")", "", 0);
}

const char *fs_noise_telling(const struct fs_launch *l, char *out, size_t size) {
  static const char *const words[] = {"srun: error", "step creation", "ssh:",   "no connection to node",
                                      "resolve",     "refused",       "denied", "timed out",
                                      "not found",   "rror"};
  const struct fs_launch_noise *line;
  if (l->shell[0]) {
    snprintf(out, size, "%.300s; 'ssh HOST true' must work for each host", l->shell);
    return out;
  }
  for (size_t k = 0; k < FS_ARRAY_LEN(words); k++)
    for (unsigned i = 0; (line = line_at(l, i)) != NULL; i++) {
      if (!strstr(line->text, words[k])) continue;
      if (line->block % 2 == 0) return line->text;
      unsigned from = i; /* a sentence may have begun in an earlier line of its block */
      while (from > 0 && line_at(l, from - 1)->block == line->block &&
             line_at(l, from - 1)->text[sentence_length(line_at(l, from - 1)->text)] != '.')
        from--;
      tell_block(l, from, out, size);
      return out;
    }
  for (unsigned i = 0; (line = line_at(l, i)) != NULL; i++)
    if (line->block % 2 == 1) {
      tell_block(l, i, out, size);
      return out;
    }
  return l->noises > 0 ? line_at(l, 0)->text : NULL;
}
