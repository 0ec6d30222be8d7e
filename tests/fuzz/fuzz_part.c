/* SPDX-License-Identifier: BSD-3-Clause */
/* The header page of a partition: any bytes are refused or accepted, the page as it is made is accepted. */
#include <stdlib.h>
#include <string.h>

#include "format/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fs_part_rec rec = {.size = 2 * FS_PART_HEADER_SIZE, .xxh3 = 42};
  uint8_t page[FS_PART_HEADER_SIZE] = {0}, id[16] = {1, 2, 3};
  char why[128];
  (void)fs_part_header_check(data, size, 3, &rec, why, sizeof(why));
  fs_part_header_make(page, 3, &rec, id);
  if (fs_part_header_check(page, sizeof(page), 3, &rec, why, sizeof(why)) != 0) abort();
  size_t n = FS_MIN(size, sizeof(page));
  for (size_t i = 0; i < n; i++) page[i] ^= data[i];
  bool same = true;
  for (size_t i = 0; i < n && i < sizeof(struct fs_part_header); i++) same = same && data[i] == 0;
  fs_err err = fs_part_header_check(page, sizeof(page), 3, &rec, why, sizeof(why));
  if (!same && err == 0) abort();
  return 0;
}
