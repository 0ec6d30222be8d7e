/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrapper of inotify_add_watch. The kernel does not know the dataset. If a real directory lies at the
   mount, it would watch that one. */
#include <sys/inotify.h>

#include "client/path/vdir.h"
#include "preload/preload.h"

/*
 * Makes a watch that reports nothing. A dataset's file never changes, nor does a directory where
 * nobody can make outputs. A watch on what may change without the kernel's knowledge is refused, so
 * that programs poll. The watch is on an inode of its own, an anonymous socket's, which the watch
 * keeps. It ends with inotify_rm_watch or close like any other. Watching a path twice gives two
 * watches.
 */
static int64_t watch_nothing(int fd, int route, const struct fs_found *f, uint32_t mask) {
  struct stat st = {0};
  char path[32];
  fs_err err = fs_must_exist(route);
  if (err == 0) err = fs_file_stat(f->mount, f->entry, &st);
  if (err == 0 && (mask & IN_ONLYDIR) && !S_ISDIR(st.st_mode)) err = -ENOTDIR;
  bool changes = S_ISDIR(st.st_mode) ? fs_names_node() != NULL && !fs_is_vdir(f->entry) : fs_is_output(f->entry);
  /* Programs have a way for "no more watches". */
  if (err == 0 && changes && !S_ISLNK(st.st_mode)) err = -ENOSPC;
  if (err != 0) return err;
  fs_fd inode = (fs_fd)FS_SYS3(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (inode < 0) return inode;
  snprintf(path, sizeof(path), "/proc/self/fd/%d", inode);
  const uint32_t events = IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF; /* not those of the close here */
  int64_t r = FS_SYS3(SYS_inotify_add_watch, fd, path, (mask & events) != 0 ? mask & events : IN_ATTRIB);
  fs_sys_close(inode);
  return r;
}

FS_EXPORT int inotify_add_watch(int fd, const char *p, uint32_t mask) {
  unsigned walk = mask & IN_DONT_FOLLOW ? FS_NOFOLLOW : 0;
  FS_PATH_CALL(AT_FDCWD, p, walk, watch_nothing(fd, route, f, mask), FS_REAL(inotify_add_watch)(fd, p, mask));
}
