/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of fanstore.h, whose answers come from client/files/info.h. */
#include "client/files/info.h"
#include "preload/preload.h"
#include "util/util.h"

FS_EXPORT const char *fanstore_version(void) {
  return FS_VERSION;
}
FS_EXPORT int fanstore_mount_of(const char *path, const char **mount, const char **dataset) {
  return fs_info_mount_of(path, mount, dataset);
}
FS_EXPORT int fanstore_node(uint32_t *nodes) {
  return fs_info_node(nodes);
}
FS_EXPORT int fanstore_info(const char *path, struct fanstore_info *info) {
  return fs_info_path(path, info);
}
FS_EXPORT int64_t fanstore_prefetch(const char *const *paths, size_t n, size_t *started) {
  return paths == NULL && n > 0 ? -EFAULT : fs_data_prefetch_list(paths, n, started);
}
FS_EXPORT int fanstore_stats(int whose, struct fanstore_stats *stats) {
  return fs_info_stats(whose, stats);
}
