/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flock, lockf and the locks of fcntl on virtual descriptors (files.h). Locks of a dataset's file are
 * granted and kept nowhere: nobody can write it. Locks of an output are asked of its home
 * (outputs/locks.c). A directory that outputs can be made in has no locks.
 */
#include <sys/file.h>
#include <unistd.h>

#include "client/data_priv.h"
#include "client/files/files.h"
#include "client/outputs/outputs.h"

/* Returns 1 for an output, 0 for a dataset's file, or the error. */
static int lockable(const struct fs_slot *s) {
  uint8_t kind = atomic_load(&s->kind);
  if (kind == FS_SLOT_CLOSED || kind == FS_SLOT_PATH) return -EBADF;
  if (kind == FS_SLOT_DIR) return fs_is_output(s->entry) || (fs_run_set() && !fs_mounts_read_only()) ? -ENOLCK : 0;
  return fs_is_output(s->entry);
}

int64_t fs_file_flock(struct fs_slot *s, int op) {
  const int mandatory = 32; /* LOCK_MAND: nothing happens any more */
  int type = op & ~LOCK_NB;
  if (op & mandatory) return 0;
  if (type != LOCK_SH && type != LOCK_EX && type != LOCK_UN) return -EINVAL;
  uint32_t flags = type == LOCK_SH ? FS_LOCK_READ : type == LOCK_EX ? FS_LOCK_WRITE : FS_LOCK_NONE;
  int err = lockable(s);
  if (err < 0 && err != -EBADF && type == LOCK_UN) return 0;
  if (err != 1) return err;
  if (type != LOCK_UN && !(op & LOCK_NB)) flags |= FS_LOCK_WAIT;
  return fs_output_lock(s, flags | FS_LOCK_FLOCK, 0, INT64_MAX, NULL);
}

/* ---- ranges ---- */

static int64_t base_of(struct fs_slot *s, short whence) {
  struct stat st;
  fs_err err;
  switch (whence) {
  case SEEK_SET:
    return 0;
  case SEEK_CUR:
    return fs_file_lseek(s, 0, SEEK_CUR);
  case SEEK_END:
    err = fs_file_fstat(s, &st);
    return err != 0 ? err : st.st_size;
  default:
    return -EINVAL;
  }
}

/* Computes the first and the last byte, as the kernel does. */
static int64_t range_of(struct fs_slot *s, const struct flock *l, uint64_t *start, uint64_t *end) {
  int64_t first = base_of(s, l->l_whence), last = INT64_MAX;
  if (first < 0) return first;
  if (__builtin_add_overflow(first, l->l_start, &first)) return -EOVERFLOW;
  if (first < 0) return -EINVAL;
  if (l->l_len > 0 && __builtin_add_overflow(first, l->l_len - 1, &last)) return -EOVERFLOW;
  if (l->l_len < 0) {
    last = first - 1;
    first += l->l_len;
    if (first < 0) return -EINVAL;
  }
  *start = (uint64_t)first;
  *end = (uint64_t)last;
  return 0;
}

static fs_err check_access(const struct fs_slot *s, short type) {
  int access = fs_slot_access(s);
  if (type == F_WRLCK) return access != O_RDONLY ? 0 : -EBADF;
  return type == F_RDLCK && access == O_WRONLY ? -EBADF : 0;
}

static uint32_t type_of(short type) {
  return type == F_RDLCK ? FS_LOCK_READ : type == F_WRLCK ? FS_LOCK_WRITE : FS_LOCK_NONE;
}

/* Nobody can hold a lock that conflicts with one of a dataset's file. */
int64_t fs_file_test_lock(struct fs_slot *s, struct flock *l, bool process) {
  struct fs_lock_found found = {0};
  uint64_t start, end;
  if (fs_bad_address(l)) return -EFAULT;
  if ((l->l_type != F_RDLCK && l->l_type != F_WRLCK) || (!process && l->l_pid != 0)) return -EINVAL;
  int64_t err = lockable(s);
  bool output = err == 1;
  if (output) err = range_of(s, l, &start, &end);
  if (err != 0) return err;
  uint32_t flags = type_of(l->l_type) | FS_LOCK_TEST | (process ? FS_LOCK_PROCESS : 0);
  if (output) err = fs_output_lock(s, flags, start, end, &found);
  if (err != 0) return err;
  if (found.flags == 0) {
    l->l_type = F_UNLCK;
    return 0;
  }
  l->l_type = found.flags & FS_LOCK_READ ? F_RDLCK : F_WRLCK;
  l->l_whence = SEEK_SET;
  l->l_start = (off_t)found.start;
  l->l_len = found.end == INT64_MAX ? 0 : (off_t)(found.end - found.start + 1);
  l->l_pid = found.pid;
  return 0;
}

int64_t fs_file_set_lock(struct fs_slot *s, const struct flock *l, bool process, bool wait) {
  uint64_t start, end;
  if (fs_bad_address(l)) return -EFAULT;
  if (l->l_type != F_RDLCK && l->l_type != F_WRLCK && l->l_type != F_UNLCK) return -EINVAL;
  if (!process && l->l_pid != 0) return -EINVAL;
  int64_t err = lockable(s);
  if (err == -ENOLCK && l->l_type == F_UNLCK) return 0;
  bool output = err == 1;
  if (err >= 0) err = check_access(s, l->l_type);
  if (err == 0 && output) err = range_of(s, l, &start, &end);
  if (err != 0 || !output) return err;
  uint32_t flags = type_of(l->l_type) | (process ? FS_LOCK_PROCESS : 0);
  if (wait && l->l_type != F_UNLCK) flags |= FS_LOCK_WAIT;
  return fs_output_lock(s, flags, start, end, NULL);
}

/* As libc makes it of fcntl. F_TEST asks as a reader. */
int64_t fs_file_lockf(struct fs_slot *s, int cmd, int64_t n) {
  struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_len = n};
  int64_t err;
  switch (cmd) {
  case F_TEST:
    l.l_type = F_RDLCK;
    err = fs_file_test_lock(s, &l, true);
    return err != 0 ? err : l.l_type == F_UNLCK ? 0 : -EACCES;
  case F_ULOCK:
    l.l_type = F_UNLCK;
    return fs_file_set_lock(s, &l, true, false);
  case F_LOCK:
  case F_TLOCK:
    return fs_file_set_lock(s, &l, true, cmd == F_LOCK);
  default:
    return -EINVAL;
  }
}
