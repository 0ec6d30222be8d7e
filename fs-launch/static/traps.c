/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of trapped system calls, and the filter that is made from it. One table serves both, so
 * every trapped call is answered. Calls of another ABI (32-bit, x32) are let through: such a
 * program sees the real file system.
 */
#include <assert.h>
#include <linux/audit.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "static.h"

#if defined(__x86_64__)
#define FS_AUDIT_ARCH AUDIT_ARCH_X86_64
#define FS_X32_BIT 0x40000000u
#elif defined(__aarch64__)
#define FS_AUDIT_ARCH AUDIT_ARCH_AARCH64
#else
#error "the filter knows the system calls of x86-64 and aarch64 only"
#endif
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#define FS_IO_URING_SETUP 425
#define FS_TRAP_MAX 512

/* Columns: number, function, argument numbers of descriptor, path and flags, last component never
   followed. */
static const struct fs_trap traps[] = {
#ifdef SYS_open
    {SYS_open, fs_on_open, -1, 0, -1, false},
    {SYS_creat, fs_on_creat, -1, 0, -1, false},
    {SYS_stat, fs_on_stat, -1, 0, -1, false},
    {SYS_lstat, fs_on_stat, -1, 0, -1, true},
    {SYS_access, fs_on_access, -1, 0, -1, false},
    {SYS_readlink, fs_on_readlink, -1, 0, -1, true},
    {SYS_getdents, fs_on_getdents, -1, -1, -1, false},
    {SYS_unlink, fs_on_remove, -1, 0, -1, true},
    {SYS_rmdir, fs_on_remove, -1, 0, -1, true},
    {SYS_mkdir, fs_on_make, -1, 0, -1, true},
    {SYS_mknod, fs_on_make, -1, 0, -1, true},
    {SYS_symlink, fs_on_make, -1, 1, -1, true},
    {SYS_rename, fs_on_rename, -1, 0, -1, true},
    {SYS_link, fs_on_rename, -1, 0, -1, true},
    {SYS_chmod, fs_on_change, -1, 0, -1, false},
    {SYS_chown, fs_on_change, -1, 0, -1, false},
    {SYS_lchown, fs_on_change, -1, 0, -1, true},
    {SYS_utime, fs_on_change, -1, 0, -1, false},
    {SYS_utimes, fs_on_times, -1, 0, -1, false},
    {SYS_futimesat, fs_on_times, 0, 1, -1, false},
#endif
#ifdef SYS_renameat
    {SYS_renameat, fs_on_rename, 0, 1, -1, true},
#endif
    {SYS_openat, fs_on_openat, 0, 1, -1, false},
    {SYS_openat2, fs_on_openat2, 0, 1, -1, false},
    {SYS_newfstatat, fs_on_newfstatat, 0, 1, 3, false},
    {SYS_fstat, fs_on_fstat, 0, -1, -1, false},
    {SYS_statx, fs_on_statx, 0, 1, 2, false},
    {SYS_faccessat, fs_on_access, 0, 1, -1, false},
    {SYS_faccessat2, fs_on_access, 0, 1, 3, false},
    {SYS_readlinkat, fs_on_readlink, 0, 1, -1, true},
    {SYS_statfs, fs_on_statfs, -1, 0, -1, false},
    {SYS_fstatfs, fs_on_fstatfs, 0, -1, -1, false},
    {SYS_getxattr, fs_on_getxattr, -1, 0, -1, false},
    {SYS_lgetxattr, fs_on_getxattr, -1, 0, -1, true},
    {SYS_fgetxattr, fs_on_getxattr, 0, -1, -1, false},
    {SYS_flistxattr, fs_on_listxattr, 0, -1, -1, false},
    {SYS_listxattr, fs_on_listxattr, -1, 0, -1, false},
    {SYS_llistxattr, fs_on_listxattr, -1, 0, -1, true},
    {SYS_getdents64, fs_on_getdents64, -1, -1, -1, false},
    {SYS_chdir, fs_on_chdir, -1, 0, -1, false},
    {SYS_fchdir, fs_on_fchdir, 0, -1, -1, false},
    {SYS_getcwd, fs_on_getcwd, -1, -1, -1, false},
    {SYS_execve, fs_on_exec, -1, 0, -1, false},
    {SYS_execveat, fs_on_exec, 0, 1, 4, false},
    {SYS_unlinkat, fs_on_remove, 0, 1, -1, true},
    {SYS_mkdirat, fs_on_make, 0, 1, -1, true},
    {SYS_mknodat, fs_on_make, 0, 1, -1, true},
    {SYS_symlinkat, fs_on_make, 1, 2, -1, true},
    {SYS_renameat2, fs_on_rename, 0, 1, -1, true},
    {SYS_linkat, fs_on_rename, 0, 1, -1, true},
    {SYS_fchmodat, fs_on_change, 0, 1, -1, false},
    {SYS_fchmodat2, fs_on_change, 0, 1, 3, false},
    {SYS_fchownat, fs_on_change, 0, 1, 4, false},
    {SYS_truncate, fs_on_change, -1, 0, -1, false},
    {SYS_utimensat, fs_on_times, 0, 1, 3, false},
    {SYS_setxattr, fs_on_change, -1, 0, -1, false},
    {SYS_lsetxattr, fs_on_change, -1, 0, -1, true},
    {SYS_removexattr, fs_on_change, -1, 0, -1, false},
    {SYS_lremovexattr, fs_on_change, -1, 0, -1, true},
    {SYS_fchmod, fs_on_change_fd, 0, -1, -1, false},
    {SYS_fchown, fs_on_change_fd, 0, -1, -1, false},
    {SYS_fsetxattr, fs_on_change_fd, 0, -1, -1, false},
    {SYS_fremovexattr, fs_on_change_fd, 0, -1, -1, false},
    {SYS_flock, fs_on_lock, 0, -1, -1, false},
    {SYS_fcntl, fs_on_lock, 0, -1, -1, false}, /* the last one: only with these commands */
};
static const uint32_t lock_commands[] = {F_GETLK, F_SETLK, F_SETLKW, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW};

static_assert(FS_ARRAY_LEN(traps) + FS_ARRAY_LEN(lock_commands) + 2 <= UINT8_MAX, "the filter's jumps are of a byte");

const struct fs_trap *fs_trap_of(int nr) {
  static const struct fs_trap *_Atomic by_number[FS_TRAP_MAX];
  if (nr < 0 || nr >= FS_TRAP_MAX) return NULL;
  const struct fs_trap *t = atomic_load_explicit(&by_number[nr], memory_order_relaxed);
  for (size_t i = 0; t == NULL && i < FS_ARRAY_LEN(traps); i++)
    if (traps[i].nr == nr) atomic_store_explicit(&by_number[nr], t = &traps[i], memory_order_relaxed);
  return t;
}

#define FS_LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define FS_RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)

#define FS_IF(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), (uint8_t)(yes), (uint8_t)(no))

/*
 * Makes the filter: the decision by number, then by fcntl's command, then three ends: let through,
 * hand over, ENOSYS. io_uring would bypass us; with ENOSYS programs use the plain calls.
 */
static size_t filter_make(struct sock_filter *f) {
  const size_t count = FS_ARRAY_LEN(traps) - 1, locks = FS_ARRAY_LEN(lock_commands), rest = locks + 3;
  size_t n = 0;
  f[n++] = (struct sock_filter)FS_LOAD(arch);
  f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FS_AUDIT_ARCH, 1, 0);
  f[n++] = (struct sock_filter)FS_RETURN(SECCOMP_RET_ALLOW);
  f[n++] = (struct sock_filter)FS_LOAD(nr);
#ifdef FS_X32_BIT
  f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FS_X32_BIT, (uint8_t)(count + rest), 0);
#endif
  for (size_t i = 0; i < count; i++) f[n++] = (struct sock_filter)FS_IF(traps[i].nr, count - i + rest, 0);
  f[n++] = (struct sock_filter)FS_IF(FS_IO_URING_SETUP, locks + 4, 0);
  f[n++] = (struct sock_filter)FS_IF(traps[count].nr, 0, locks + 1);
  f[n++] = (struct sock_filter)FS_LOAD(args[1]); /* its lower half: little-endian */
  for (size_t i = 0; i < locks; i++) f[n++] = (struct sock_filter)FS_IF(lock_commands[i], locks - i, 0);
  f[n++] = (struct sock_filter)FS_RETURN(SECCOMP_RET_ALLOW);
  f[n++] = (struct sock_filter)FS_RETURN(SECCOMP_RET_USER_NOTIF);
  f[n++] = (struct sock_filter)FS_RETURN(SECCOMP_RET_ERRNO | ENOSYS);
  return n;
}

/* Installs the filter. With killable waiting (Linux 5.19) a received call is not abandoned at each
   signal: Go sends itself many. Before that, a call starts again after a handler has run. */
fs_fd fs_filter_install(void) {
  struct sock_filter filter[FS_ARRAY_LEN(traps) + FS_ARRAY_LEN(lock_commands) + 16];
  struct sock_fprog program = {.len = (unsigned short)filter_make(filter), .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -errno;
  const unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
  long fd = FS_SYS3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &program);
  if (fd == -EINVAL) fd = FS_SYS3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  return (fs_fd)fd;
}
