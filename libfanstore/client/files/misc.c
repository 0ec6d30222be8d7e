/* SPDX-License-Identifier: BSD-3-Clause */
/* fcntl, ioctl, mmap and advice on open files of a dataset. Lock-free; see files.h. */
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/data_priv.h"
#include "client/fd/fdreal.h"
#include "client/files/files.h"

static int64_t set_flags(struct fs_slot *s, long arg) {
  const uint32_t may_change = O_APPEND | O_ASYNC | O_DIRECT | O_NOATIME | O_NONBLOCK;
  uint32_t old = atomic_load(&s->flags);
  atomic_store(&s->flags, (old & ~may_change) | ((uint32_t)arg & may_change));
  return 0;
}

int64_t fs_file_fcntl(struct fs_slot *s, int cmd, long arg) {
  uint8_t kind = atomic_load(&s->kind);
  if (kind == FS_SLOT_CLOSED) return -EBADF;
  if (cmd == F_GETFL) return atomic_load(&s->flags);
  if (kind == FS_SLOT_PATH) return -EBADF;
  switch (cmd) {
  case F_SETFL:
    return set_flags(s, arg);
  case F_GETLK:
  case F_OFD_GETLK:
    return fs_file_test_lock(s, (struct flock *)arg, cmd == F_GETLK);
  case F_SETLK:
  case F_SETLKW:
    return fs_file_set_lock(s, (const struct flock *)arg, true, cmd == F_SETLKW);
  case F_OFD_SETLK:
  case F_OFD_SETLKW:
    return fs_file_set_lock(s, (const struct flock *)arg, false, cmd == F_OFD_SETLKW);
  default:
    return -EINVAL;
  }
}

/* As the kernel, to any address: Python's fcntl.ioctl gives the bytes of an object. */
static fs_err give_int(void *arg, int64_t value) {
  int given = (int)value;
  if (fs_bad_address(arg)) return -EFAULT;
  memcpy(arg, &given, sizeof(given));
  return 0;
}

fs_err fs_file_ioctl(struct fs_slot *s, unsigned long request, void *arg) {
  struct stat st;
  uint8_t kind = atomic_load(&s->kind);
  if (kind == FS_SLOT_CLOSED || kind == FS_SLOT_PATH) return -EBADF;
  switch (request) {
  case FIONREAD:
    if (kind != FS_SLOT_FILE || fs_file_fstat(s, &st) != 0) return -ENOTTY;
    if (fs_slot_is_real(s)) return FS_E_REAL;
    return give_int(arg, FS_MAX(st.st_size - (int64_t)atomic_load(&s->offset), 0));
  case FIGETBSZ:
    return fs_file_fstat(s, &st) != 0 ? -EIO : give_int(arg, st.st_blksize);
  case FS_IOC_GETFLAGS: /* none; programs take an int where the number says long */
    return give_int(arg, 0);
  case FS_IOC_SETFLAGS:
    return -EROFS;
  case FIOCLEX:
  case FIONCLEX:
    return 0;
  case FIONBIO:
    if (fs_bad_address(arg)) return -EFAULT;
    if (*(const int *)arg != 0)
      atomic_fetch_or(&s->flags, O_NONBLOCK);
    else
      atomic_fetch_and(&s->flags, ~(uint32_t)O_NONBLOCK);
    return 0;
  case FICLONE: /* cloning into it: callers go on with read and write */
  case FICLONERANGE:
    return fs_slot_writable(s) == 0 ? -EXDEV : -EBADF;
  default:
    return -ENOTTY;
  }
}

fs_err fs_file_advise(struct fs_slot *s, int64_t off, int64_t len, int advice) {
  if (atomic_load(&s->kind) == FS_SLOT_CLOSED || atomic_load(&s->kind) == FS_SLOT_PATH) return -EBADF;
  if (len < 0 || advice < POSIX_FADV_NORMAL || advice > POSIX_FADV_NOREUSE) return -EINVAL;
  if (advice == POSIX_FADV_WILLNEED && off >= 0 && atomic_load(&s->kind) == FS_SLOT_FILE)
    fs_data_prefetch(s->mount, s->entry, (uint64_t)off, len == 0 ? UINT64_MAX >> 1 : (uint64_t)len);
  return 0;
}

#ifndef MAP_32BIT
#define MAP_32BIT 0 /* x86 only */
#endif
/* Flags that only say where the mapping goes. They apply to the reservation, and the file goes on
   top of it. */
#define FS_PLACE_FLAGS (MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_32BIT)

static uint64_t page_size(void) {
  return (uint64_t)sysconf(_SC_PAGESIZE);
}

static void *map_at(void *addr, size_t len, int prot, int flags, int fd, uint64_t fd_off) {
  return fs_sys_mmap(addr, len, prot, flags & ~MAP_DENYWRITE, fd, fd_off);
}

/*
 * Maps a file with the pages that begin past its end, whose access natively raises SIGBUS. Here
 * they are reserved without access, so that what follows the file in its partition is not seen.
 */
static void *map_with_tail(void *addr, size_t len, size_t valid, int prot, int flags, int fd, uint64_t fd_off) {
  char *base =
      fs_sys_mmap(addr, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (flags & FS_PLACE_FLAGS), -1, 0);
  if (fs_sys_mmap_failed(base) || valid == 0) return base;
  void *p = map_at(base, valid, prot, (flags & ~FS_PLACE_FLAGS) | MAP_FIXED, fd, fd_off);
  if (fs_sys_mmap_failed(p)) fs_sys_munmap(base, len);
  return p;
}

static fs_err check_mmap(const struct fs_slot *s, size_t len, int prot, int flags, int64_t off) {
  uint8_t kind = atomic_load(&s->kind);
  int type = flags & MAP_TYPE;
  if (kind == FS_SLOT_CLOSED || kind == FS_SLOT_PATH) return -EBADF;
  if (len == 0 || ((uint64_t)off & (page_size() - 1)) != 0) return -EINVAL;
  if (len > SIZE_MAX - page_size()) return -ENOMEM;
  if (len > INT64_MAX) return off < 0 ? -EOVERFLOW : -ENOMEM;
  if (off < 0 || fs_round_up(len, page_size()) > (uint64_t)(INT64_MAX - off)) return -EOVERFLOW;
  if (type != MAP_SHARED && type != MAP_PRIVATE && type != MAP_SHARED_VALIDATE) return -EINVAL;
  if (kind == FS_SLOT_DIR) return -ENODEV;
  if (type == MAP_PRIVATE || !(prot & PROT_WRITE)) return 0;
  return fs_slot_writable(s) == 0 ? -ENODEV : -EACCES;
}

void *fs_file_mmap(struct fs_slot *s, void *addr, size_t len, int prot, int flags, int64_t off) {
  struct stat st;
  fs_err err = check_mmap(s, len, prot, flags, off);
  if (err == 0) err = fs_file_stat(s->mount, s->entry, &st);
  if (err != 0) return (void *)(intptr_t)err;
  uint64_t end = fs_round_up((uint64_t)st.st_size, page_size());
  size_t span = fs_round_up(len, page_size());
  size_t valid = (uint64_t)off >= end ? 0 : FS_MIN(span, end - (uint64_t)off);
  if (valid == 0) return map_with_tail(addr, span, 0, prot, flags, -1, 0);
  int fd;
  uint64_t fd_off;
  bool temporary = false;
  err = fs_data_map(s->mount, s->entry, (uint64_t)off, FS_MIN(valid, (uint64_t)st.st_size - (uint64_t)off),
                    (prot & PROT_EXEC) != 0, &fd, &fd_off, &temporary);
  if (err != 0) return (void *)(intptr_t)err;
  void *p = valid == span ? map_at(addr, len, prot, flags, fd, fd_off)
                          : map_with_tail(addr, span, valid, prot, flags, fd, fd_off);
  if (temporary) fs_sys_close(fd);
  if (fs_sys_mmap_failed(p) || temporary || fs_data_owns_fd(fd)) return p;
  fs_sys_munmap(p, span); /* the number became the program's meanwhile */
  return fs_file_mmap(s, addr, len, prot, flags, off);
}
