/* SPDX-License-Identifier: BSD-3-Clause */
/* See left.h. */
#include "ipc/left.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/local.h"
#include "ipc/names.h"
#include "util/dir.h"
#include "util/util.h"

bool fs_left_count(int spill, uint64_t *files, uint64_t *bytes) {
  struct stat st;
  *files = *bytes = 0;
  DIR *d = faccessat(spill, FS_LEFT_NAMES, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ? fs_opendirat(spill, FS_OUT_DIR) : NULL;
  for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
    if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode)) continue;
    ++*files;
    *bytes += (uint64_t)st.st_size;
  }
  if (d) closedir(d);
  return *files > 0;
}

fs_err fs_left_strip(int spill, const char *path) {
  static const char *const stay[] = {".", "..", FS_OUT_DIR, FS_LEFT_NAMES, FS_SPILL_LOCK};
  char at[PATH_MAX];
  fs_err first = 0;
  DIR *d = fs_opendirat(spill, ".");
  for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
    bool stays = false;
    for (size_t i = 0; i < FS_ARRAY_LEN(stay); i++) stays = stays || strcmp(e->d_name, stay[i]) == 0;
    if (stays) continue;
    bool fits = snprintf(at, sizeof(at), "%s/%s", path, e->d_name) < (int)sizeof(at);
    fs_err err = fits ? fs_remove_tree(at) : -ENAMETOOLONG;
    if (first == 0) first = err;
  }
  if (d) closedir(d);
  return first;
}
