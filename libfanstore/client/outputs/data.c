/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface of client/data.h to the bytes of a file, whether a dataset or an output has it. */
#include "client/data.h"

#include "client/data_priv.h"
#include "client/outputs/outputs.h"

fs_ssize fs_data_read(uint32_t mount, uint32_t entry, void *buf, size_t n, uint64_t off, enum fs_place *place) {
  if (!fs_is_output(entry)) return fs_dataset_read(mount, entry, buf, n, off, place);
  if (place) *place = FS_PLACE_IS_LOCAL;
  return fs_output_read(entry, buf, n, off);
}

fs_err fs_data_prefetch_from(uint32_t mount, uint32_t entry, uint64_t *off, uint64_t end) {
  return fs_is_output(entry) ? fs_output_prefetch_from(entry, off, end)
                             : fs_dataset_prefetch_from(mount, entry, off, end);
}

void fs_data_prefetch(uint32_t mount, uint32_t entry, uint64_t off, uint64_t n) {
  if (n > 0) (void)fs_data_prefetch_from(mount, entry, &off, n < UINT64_MAX - off ? off + n : UINT64_MAX);
}
