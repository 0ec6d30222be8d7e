/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a dataset's partitions are, beside its own directory: copies that jobs have staged on this
 * host, and the only ones of a dataset that was packed with --nodes-only. One thread.
 */
#include <unistd.h>

#include "prepare.h"

bool fs_dataset_only_nodes(const struct fs_dataset *ds) {
  return fs_part_only_nodes(ds->path, ds->ix.nparts);
}

fs_err fs_dataset_need_parts(const struct fs_dataset *ds, const char *instead) {
  if (!fs_dataset_only_nodes(ds)) return 0;
  fs_say("%s: its partitions are on the nodes only (--nodes-only); %s", ds->path, instead);
  return -ENOENT;
}

fs_fd fs_copies_open(const struct fs_dataset *ds, const char *local_dir, int node, char path[PATH_MAX]) {
  char id[33], dir[32] = "fanstore";
  fs_hex(ds->manifest.dataset_id, sizeof ds->manifest.dataset_id, id);
  if (node >= 0) snprintf(dir, sizeof dir, "fanstore-node%d", node);
  int n = snprintf(path, PATH_MAX, "%s/%s/%s", local_dir, dir, id);
  if (n < 0 || n >= PATH_MAX) return -ENAMETOOLONG;
  return fs_sys_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
}
