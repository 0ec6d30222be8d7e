/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts and keeps the outputs that a dead daemon has left (left.h). No state. */
#include "ipc/left.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/local.h"
#include "ipc/record.h"
#include "util/dir.h"
#include "util/util.h"

int fs_left_count(int backing, uint64_t *files, uint64_t *bytes) {
  struct stat st;
  fs_err err = 0;
  *files = *bytes = 0;
  DIR *d = fstatat(backing, FS_LEFT_NAMES, &st, AT_SYMLINK_NOFOLLOW) == 0 ? fs_opendirat(backing, FS_OUTPUT_DIR) : NULL;
  if (!d) return errno == ENOENT ? 0 : -errno;
  for (const struct dirent *e; err == 0 && (errno = 0, e = readdir(d)) != NULL;) {
    if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
      err = errno == ENOENT ? 0 : -errno;
    } else if (S_ISREG(st.st_mode)) {
      ++*files;
      *bytes += (uint64_t)st.st_size;
    }
  }
  if (err == 0) err = -errno; /* readdir's */
  closedir(d);
  return err < 0 ? err : *files > 0;
}

fs_err fs_left_strip(int backing, const char *path) {
  static const char *const stay[] = {".", "..", FS_OUTPUT_DIR, FS_LEFT_NAMES, FS_BACKING_LOCK};
  char at[PATH_MAX];
  fs_err first = 0;
  DIR *d = fs_opendirat(backing, ".");
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
