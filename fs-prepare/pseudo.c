/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds files whose size is 0 although they have bytes: those of /proc, /sys and FUSE file systems
 * that make their contents at a read. One read finds such a file. File systems that store files
 * need no read.
 */
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "links.h"

/* Returns true if st_size is the real size on a file system with this f_type of statfs(2). */
static bool has_true_sizes(uint32_t type) {
  static const uint32_t known[] = {
      0xef53,     0x58465342, 0x9123683e, 0xf2f52010, 0x2fc12fc1,
      0xca451a4e,                                                 /* ext4, xfs, btrfs, f2fs, zfs, bcachefs */
      0x01021994, 0x858458f6, 0x794c7630,                         /* tmpfs, ramfs, overlayfs */
      0x6969,     0xff534d42, 0xfe534d42, 0x5346414f,             /* nfs, cifs, smb2, afs */
      0x0bd00bd0, 0x47504653, 0x00c36400, 0x19830326, 0xaad7aaea, /* lustre, gpfs, ceph, beegfs, panfs */
      0x73717368, 0xe0f5e1e2, 0x9660,     0x4d44,     0x2011bab0, /* squashfs, erofs, iso9660, fat, exfat */
  };
  for (size_t i = 0; i < FS_ARRAY_LEN(known); i++)
    if (type == known[i]) return true;
  return false;
}

const char *fs_pseudo_problem(struct fs_pseudo *seen, int dir, const char *name, const struct stat *st, int flags) {
  char byte;
  struct statfs fs;
  struct stat now;
  if (seen->known && seen->dev == st->st_dev) return NULL;
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags, 0);
  if (fd < 0) return strerror(-fd);
  if (fstatfs(fd, &fs) == 0 && has_true_sizes((uint32_t)fs.f_type)) {
    *seen = (struct fs_pseudo){true, st->st_dev};
    return NULL;
  }
  if (fs_sys_fstat(fd, &now) < 0 || !S_ISREG(now.st_mode) || now.st_ino != st->st_ino || now.st_size != 0)
    return "changed while SOURCE was being walked";
  ssize_t n = read(fd, &byte, 1);
  return n == 0  ? NULL
         : n > 0 ? "has bytes though its size is 0 (a file of /proc, /sys or the like); pack a copy of it"
                 : strerror(errno);
}
