/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers calls that change names or attributes. Below a mount they are refused like on a read-only
 * file system (client/files/refuse.c), except for removing and renaming outputs. Errors that the
 * kernel finds before it looks at a path are left to the kernel. If a path leads out of a mount,
 * the kernel cannot follow it, so the call is made here if it has no other pointers. No locks.
 */
#include <utime.h>

#include "static.h"

/* Newer kinds of processor lack these older calls. No call has these numbers. */
#ifndef SYS_mkdir
enum { SYS_mkdir = -9, SYS_mknod, SYS_symlink, SYS_link, SYS_unlink, SYS_rmdir, SYS_chmod, SYS_chown, SYS_lchown };
#endif

/* Makes the call in this process with the path replaced. The umask of this process is 0. */
static int64_t change_outside(struct fs_call *c, const struct fs_trap *t, const char *real) {
  uint64_t a[6];
  memcpy(a, c->arg, sizeof(a));
  a[t->path] = (uint64_t)(uintptr_t)real;
  switch (c->nr) {
  case SYS_mkdir:
  case SYS_mknod:
  case SYS_mkdirat:
  case SYS_mknodat:
    a[t->path + 1] &= ~(uint64_t)fs_tracee_umask(c);
    break;
  case SYS_unlink:
  case SYS_rmdir:
  case SYS_chmod:
  case SYS_chown:
  case SYS_lchown:
  case SYS_unlinkat:
  case SYS_truncate:
  case SYS_fchmodat:
  case SYS_fchownat:
    break;
  default:
    return -EOPNOTSUPP;
  }
  return fs_syscall6(c->nr, (long)a[0], (long)a[1], (long)a[2], (long)a[3], (long)a[4], (long)a[5]);
}

int64_t fs_on_change(struct fs_call *c, const struct fs_trap *t) {
  struct fs_found f;
  if (fs_call_bad_flags(c, t, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) return FS_PASS;
  if (fs_call_empty(c, t)) return fs_on_change_fd(c, t);
  int route = fs_call_find(c, t->dirfd, t->path, FS_CHANGES | (fs_call_nofollow(c, t) ? FS_NOFOLLOW : 0), &f);
  if (route == FS_OUTSIDE && fs_call_proc_ref(c, &f.mount, &f.entry)) route = FS_IN;
  if (route == FS_OUTSIDE) return FS_PASS;
  if (route == FS_REDIRECT) return change_outside(c, t, f.real);
  return c->nr == SYS_truncate ? fs_file_refuse_truncate(route, &f, (int64_t)c->arg[1]) : fs_file_refuse_change(route);
}

int64_t fs_on_change_fd(struct fs_call *c, const struct fs_trap *t) {
  uint32_t mount, entry;
  (void)t;
  return fs_call_ref(c, (int)c->arg[0], &mount, &entry) ? -EROFS : FS_PASS;
}

/* ---- times ---- */

/* Converts microseconds. Invalid ones become invalid nanoseconds, which the kernel refuses. */
static struct timespec from_timeval(struct timeval t) {
  bool valid = t.tv_usec >= 0 && t.tv_usec < 1000000;
  return (struct timespec){.tv_sec = t.tv_sec, .tv_nsec = valid ? t.tv_usec * 1000 : -1};
}

static fs_err read_times(const struct fs_call *c, uint64_t addr, struct timespec t[2]) {
#ifdef SYS_utimes
  struct timeval v[2];
  if (c->nr == SYS_utimes || c->nr == SYS_futimesat) {
    fs_err err = fs_tracee_read(c, addr, v, sizeof(v));
    for (int i = 0; err == 0 && i < 2; i++) t[i] = from_timeval(v[i]);
    return err;
  }
#else
  (void)from_timeval;
#endif
  return fs_tracee_read(c, addr, t, 2 * sizeof(*t));
}

/* If there is no path, the call means the descriptor itself. */
int64_t fs_on_times(struct fs_call *c, const struct fs_trap *t) {
  struct fs_found f;
  struct timespec times[2];
  uint64_t addr = c->arg[t->path + 1];
  if (fs_call_bad_flags(c, t, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) return FS_PASS;
  if (addr != 0 && read_times(c, addr, times) != 0) return FS_PASS;
  int route;
  if ((t->dirfd >= 0 && c->arg[t->path] == 0) || fs_call_empty(c, t))
    route = fs_call_ref(c, (int)c->arg[0], &f.mount, &f.entry) ? FS_IN : FS_OUTSIDE;
  else
    route = fs_trap_find(c, t, &f);
  if (route == FS_OUTSIDE) return FS_PASS;
  return route == FS_REDIRECT ? -EOPNOTSUPP : fs_file_refuse_times(route, addr == 0 ? NULL : times);
}

/* ---- names ---- */

/* Returns true if the kernel refuses the call before it looks at the path. */
static bool bad_before(const struct fs_call *c, const struct fs_trap *t) {
  char target[PATH_MAX];
  mode_t type = (mode_t)c->arg[t->path + 1] & S_IFMT;
  if (c->nr == SYS_mknod || c->nr == SYS_mknodat)
    return type != 0 && type != S_IFREG && type != S_IFCHR && type != S_IFBLK && type != S_IFIFO && type != S_IFSOCK;
  if (c->nr != SYS_symlink && c->nr != SYS_symlinkat) return false;
  return fs_tracee_string(c, c->arg[0], target) != 0 || target[0] == '\0';
}

int64_t fs_on_make(struct fs_call *c, const struct fs_trap *t) {
  struct fs_found f;
  bool directory = c->nr == SYS_mkdir || c->nr == SYS_mkdirat;
  if (bad_before(c, t)) return FS_PASS;
  int route = fs_call_find(c, t->dirfd, t->path, FS_NOFOLLOW | FS_AS_IS, &f);
  if (route == FS_OUTSIDE) return FS_PASS;
  return route == FS_REDIRECT ? change_outside(c, t, f.real) : fs_file_refuse_new(route, &f, directory);
}

int64_t fs_on_remove(struct fs_call *c, const struct fs_trap *t) {
  struct fs_found f;
  bool directory = c->nr == SYS_rmdir || (c->nr == SYS_unlinkat && (c->arg[2] & AT_REMOVEDIR));
  if (c->nr == SYS_unlinkat && (c->arg[2] & ~(uint64_t)AT_REMOVEDIR)) return FS_PASS;
  int route = fs_call_find(c, t->dirfd, t->path, FS_PARENT, &f);
  if (route == FS_OUTSIDE) return FS_PASS;
  return route == FS_REDIRECT ? change_outside(c, t, f.real) : fs_file_remove(route, &f, directory);
}

/* Writes the absolute path of one of two names. Returns 1 if only we know the path, 0 if the kernel
   finds it too; negative: leave the whole call to the kernel. */
static int full_name(struct fs_call *c, int dirfd, int path, char *out) {
  int ours = fs_call_full(c, dirfd, path);
  if (ours < 0) return ours;
  if (strlen(c->full) >= PATH_MAX) return -ENAMETOOLONG;
  strcpy(out, c->full);
  return ours;
}

/* Answers rename and link. "" with AT_EMPTY_PATH means the descriptor, which the kernel handles. */
int64_t fs_on_rename(struct fs_call *c, const struct fs_trap *t) {
  char from[PATH_MAX], to[PATH_MAX];
  bool at = t->dirfd >= 0, links = c->nr == SYS_link || c->nr == SYS_linkat;
  unsigned flags = c->nr == SYS_renameat2 || c->nr == SYS_linkat ? (unsigned)c->arg[4] : 0;
  int a = full_name(c, at ? 0 : -1, at ? 1 : 0, from);
  int b = a < 0 ? a : full_name(c, at ? 2 : -1, at ? 3 : 1, to);
  if (a < 0) return c->lost ? a : FS_PASS;
  if (b < 0) return !c->lost && fs_path_outside(AT_FDCWD, from) ? FS_PASS : b;
  fs_err err = links ? fs_file_refuse_link(AT_FDCWD, from, AT_FDCWD, to, (int)flags)
                     : fs_file_rename(AT_FDCWD, from, AT_FDCWD, to, flags);
  if (err != FS_OUTSIDE) return err > 0 ? 0 : err;
  if (a + b == 0) return FS_PASS;
  if (!fs_call_trusted(c)) return -EACCES;
  return FS_SYS5(links ? SYS_linkat : SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags);
}
