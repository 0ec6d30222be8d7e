/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes a file of the kernel's of an output file of another node or of several writers (outputs.h),
 * for mappings and programs that get the descriptor. The file is a copy of the present contents. No
 * locks; slow.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <string.h>

#include "client/data_priv.h"
#include "client/outputs/outputs.h"

fs_fd fs_output_copy(uint32_t entry, uint32_t flags) {
  static const size_t step = 1u << 20;
  char proc[32], number[FS_U64_TEXT];
  uint64_t off = 0, size = 0;
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  const struct fs_node *node = fs_names_node();
  FS_AUTO_CLOSE fs_fd fd = -EIO;
  if (node != NULL) fd = fs_sys_openat(AT_FDCWD, node->ctl->backing, O_TMPFILE | O_RDWR | O_CLOEXEC, 0500);
  if (fd < 0) { /* a file system without O_TMPFILE: in memory, if it has room */
    fs_err err = fs_output_size(entry, 0, &size);
    if (err == 0 && !fs_memory_holds(node, size)) err = -ENOSPC;
    fd = err != 0 ? err : (fs_fd)FS_SYS2(SYS_memfd_create, "fanstore-output", MFD_CLOEXEC);
  }
  if (fd < 0) return fd;
  char *buf = fs_mem_map(step);
  fs_ssize got = buf ? 1 : -ENOMEM;
  while (got > 0) {
    got = fs_output_read(entry, buf, step, off);
    if (got > 0) got = fs_sys_pwrite(fd, buf, (size_t)got, off);
    if (got > 0) off += (uint64_t)got;
  }
  fs_mem_unmap(buf, step);
  if (got < 0) return (fs_fd)got;
  fs_count(FS_C_MATERIALIZED, 1);
  if (writes) {
    const struct fs_output_node *n = fs_output_node(entry);
    if (n != NULL) FS_SYS2(SYS_fchmod, fd, atomic_load_explicit(&n->mode, memory_order_relaxed) & 07777);
    if (flags & O_APPEND) (void)fs_sys_fcntl(fd, F_SETFL, O_APPEND);
    return FS_MOVE_FD(fd);
  }
  strcpy(proc, "/proc/self/fd/");
  strcat(proc, fs_u64_text((uint64_t)fd, number));
  return fs_sys_openat(AT_FDCWD, proc, O_RDONLY | O_CLOEXEC, 0);
}

fs_fd fs_output_materialize(uint32_t entry) {
  return fs_output_copy(entry, O_RDONLY);
}
