/* SPDX-License-Identifier: BSD-3-Clause */
/* A command line made of an input, a word a line; a byte above 127 stands for a word that is known. */
#ifndef FS_TEST_FUZZ_WORDS_H
#define FS_TEST_FUZZ_WORDS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "util/util.h"

struct fuzz_words {
  const char *const *known;
  size_t n;
  bool (*left_out)(const char *word); /* what would end the target */
  char *text;
  char *argv[64];
  int argc;
};

/* argv[0] is `program`. The caller frees text. */
static void fuzz_words(struct fuzz_words *w, const char *program, const uint8_t *data, size_t size) {
  w->text = malloc(size + 1);
  memcpy(w->text, data, size);
  w->text[size] = '\0';
  w->argv[0] = (char *)(uintptr_t)program;
  w->argc = 1;
  for (char *rest = w->text, *word; w->argc < 60 && (word = strsep(&rest, "\n")) != NULL;) {
    if ((unsigned char)word[0] >= 0x80) word = (char *)(uintptr_t)w->known[(unsigned char)word[0] % w->n];
    if (!w->left_out(word)) w->argv[w->argc++] = word;
  }
  w->argv[w->argc] = NULL;
}

#endif
