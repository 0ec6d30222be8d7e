/* SPDX-License-Identifier: BSD-3-Clause */
/* Control lines from anywhere: parsed or refused, and what is parsed can be built and parsed again. */
#include <stdlib.h>
#include <string.h>

#include "ipc/control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct fs_control c, again;
  static struct fs_control_line l;
  if (fs_control_parse((const char *)data, size, &c) < 0) return 0;
  if (fs_control_begin(&l, c.verb) < 0) abort();
  for (unsigned i = 0; i < c.pairs; i++) {
    if (fs_control_add(&l, c.pair[i].key, c.pair[i].value) < 0) return 0; /* escaped it may be longer than it was */
  }
  if (fs_control_end(&l) < 0 || fs_control_parse(l.text, l.len, &again) < 0) abort();
  if (strcmp(c.verb, again.verb) != 0 || c.pairs != again.pairs) abort();
  for (unsigned i = 0; i < c.pairs; i++) {
    if (strcmp(c.pair[i].value, again.pair[i].value) != 0) abort();
  }
  return 0;
}
