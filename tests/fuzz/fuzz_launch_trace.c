/* SPDX-License-Identifier: BSD-3-Clause */
/* Traces of fs-launch replay: whatever is in the file, no record reaches beyond it, and what is saved is read again. */
#include <stdlib.h>
#include <string.h>

#include "../../fs-launch/replay/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t walk(const struct fs_trace_set *set) {
  uint64_t sum = 0;
  for (size_t k = 0; k < set->segments; k++) {
    struct fs_trace_item i;
    for (const uint8_t *at = set->segment[k].at; fs_trace_next(&set->segment[k], &at, &i);) {
      if (i.r.mount_len > i.r.path_len) abort();
      for (size_t n = 0; n < i.r.path_len; n++) sum += (uint8_t)i.path[n];
    }
    sum += strlen(set->segment[k].head.host);
  }
  return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fs_trace_set set = {0};
  uint64_t *aligned = malloc(size + 8); /* as a mapping is */
  if (!aligned) return 0;
  memcpy(aligned, data, size);
  if (fs_trace_add_bytes(&set, (const uint8_t *)aligned, size) == 0 && set.segments == 0) abort();
  (void)walk(&set);
  free(set.segment);
  free(aligned);
  return 0;
}
