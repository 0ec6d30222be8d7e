/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes the manifest's parser with the input as it is and with a right checksum line added. What is accepted must
 * come out the same after being written and parsed again. test_manifest writes a seed with FS_FUZZ_SEEDS=DIR.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/manifest.h"
#include "util/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *text, size_t n) {
  static struct fs_manifest m, again;
  static char out[64 << 10];
  char why[256] = "";
  fs_err err = fs_manifest_parse(text, n, &m, why, sizeof(why));
  if (err < 0 && (why[0] == '\0' || strchr(why, '\n'))) abort(); /* one line for the user */
  if (err < 0) return;
  fs_ssize put = fs_manifest_format(&m, out, sizeof(out));
  if (put < 0 || fs_manifest_parse(out, (size_t)put, &again, NULL, 0) < 0) abort();
  if (memcmp(&m, &again, sizeof(m)) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 64);
  memcpy(text, data, size);
  check(text, size);
  char *last = size > 0 ? memmem(text, size, "checksum ", 9) : NULL; /* a seed's own */
  size_t body = last ? (size_t)(last - text) : size;
  int n = snprintf(text + body, 64, "checksum %016" PRIx64 "\n", fs_xxh3(text, body));
  text = realloc(text, body + (size_t)n); /* of just this size, for the address sanitizer */
  check(text, body + (size_t)n);
  free(text);
  return 0;
}
