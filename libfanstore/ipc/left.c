/* SPDX-License-Identifier: BSD-3-Clause */
/* See left.h. */
#include "ipc/left.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/names.h"
#include "util/dir.h"

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
