/* SPDX-License-Identifier: BSD-3-Clause */
/* Tells which directories of killed packs are still of use (docs/internals/pack-nodes.md). No state. */
#include "ipc/local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/sys.h"

/* Returns true if the directory is missing because its parent, of which the inode is known, does not have it. */
static bool is_gone(char *path, uint64_t parent) {
  struct stat st;
  char *slash = strrchr(path, '/');
  *slash = '\0';
  fs_err err = fs_sys_fstatat(AT_FDCWD, slash == path ? "/" : path, &st, 0);
  *slash = '/';
  return err == 0 && st.st_ino == parent;
}

bool fs_local_pack_resumes(int dir, char of[PATH_MAX]) {
  char text[PATH_MAX + 32] = "", journal[PATH_MAX + 16];
  struct stat st;
  of[0] = '\0';
  FS_AUTO_CLOSE int fd = fs_sys_openat(dir, FS_LOCAL_PACK_OF, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
  if (fd == -ENOENT) return false;
  if (fd < 0 || fs_sys_fstat(fd, &st) < 0) return true; /* it cannot be told */
  if (st.st_size <= 0 || (size_t)st.st_size >= sizeof text) return false;
  if (fs_pread_full(fd, text, (size_t)st.st_size, 0) < 0) return true;
  char *path = strchr(text, ' ');
  if (path == NULL || path[1] != '/' || strlen(path + 1) >= PATH_MAX) return false;
  strcpy(of, path + 1);
  snprintf(journal, sizeof journal, "%s/journal", of);
  fs_err err = fs_sys_fstatat(AT_FDCWD, journal, &st, AT_SYMLINK_NOFOLLOW);
  if (err == 0) return st.st_size > FS_LOCAL_JOURNAL_LEAST;
  return (err != -ENOENT && err != -ENOTDIR) || !is_gone(of, strtoull(text, NULL, 10));
}
