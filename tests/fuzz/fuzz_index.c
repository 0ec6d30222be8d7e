/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzes the index reader. The input's checksums, magic and sizes are made right first, so that mutations get past the
 * doors; then every accessor is used. When the last byte is even, the sections keep their checksums. Without a corpus,
 * start from the index that test_index writes with FS_FUZZ_SEEDS=DIR.
 */
#include <stdio.h>

#include "../unit/index_fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char why[256];
  struct fs_index ix;
  if (size < sizeof(struct fs_index_header)) return 0;
  bool deep = data[size - 1] & 1;
  uint8_t *copy = malloc(size); /* of just this size, for the address sanitizer */
  struct fs_index_header *h = (struct fs_index_header *)memcpy(copy, data, size);
  h->magic = FS_INDEX_MAGIC;
  h->version = FS_FORMAT_VERSION;
  h->header_size = sizeof(*h);
  h->feature_incompat &= FS_FEATURE_INCOMPAT_KNOWN;
  h->file_size = size;
  fix_checksums(copy, size, deep);
  if (fs_index_attach(copy, size, &ix, why, sizeof(why)) == 0) {
    fix_use(&ix);
    fs_index_verify(&ix, why, sizeof(why));
  }
  free(copy);
  return 0;
}
