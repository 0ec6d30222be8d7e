/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the real functions in every glibc from 2.17 on, for real.c. If this libc lacks a function,
 * a stand-in calls the function of the older libc, makes the system call, or loads the library that
 * the function was in. No locks; two threads that resolve at once store the same pointers.
 */
#include <stdlib.h>

#include "preload/preload.h"

static long not_there(void) {
  errno = ENOSYS;
  return -1;
}
/* For functions that return their error. */
static int not_there_error(void) {
  return ENOSYS;
}

/* The functions behind stat and mknod before glibc 2.33. Other preloaded libraries wrap them too. */
#if defined(__aarch64__)
#define FS_STAT_VERSION 0
#else
#define FS_STAT_VERSION 1
#endif
static int (*old_fxstat)(int, int, struct stat *);
static int (*old_fxstatat)(int, int, const char *, struct stat *, int);
static int (*old_xmknod)(int, const char *, mode_t, dev_t *);
static int (*old_xmknodat)(int, int, const char *, mode_t, dev_t *);

static int older_fstat(int fd, struct stat *st) {
  return old_fxstat != NULL ? old_fxstat(FS_STAT_VERSION, fd, st) : fs_ret_int(fs_sys_fstat(fd, st));
}
static int older_fstatat(int dirfd, const char *path, struct stat *st, int flags) {
  return old_fxstatat != NULL ? old_fxstatat(FS_STAT_VERSION, dirfd, path, st, flags)
                              : fs_ret_int(fs_sys_fstatat(dirfd, path, st, flags));
}
static int older_mknod(const char *path, mode_t mode, dev_t dev) {
  return old_xmknod != NULL ? old_xmknod(FS_MKNOD_VERSION, path, mode, &dev)
                            : fs_ret_int(FS_SYS4(SYS_mknodat, AT_FDCWD, path, mode, dev));
}
static int older_mknodat(int dirfd, const char *path, mode_t mode, dev_t dev) {
  return old_xmknodat != NULL ? old_xmknodat(FS_MKNOD_VERSION, dirfd, path, mode, &dev)
                              : fs_ret_int(FS_SYS4(SYS_mknodat, dirfd, path, mode, dev));
}
static pid_t older__Fork(void) {
  return FS_REAL(fork)();
}

/* These are one system call each. */
#define FS_CALLS(X)                                                                                                    \
  X(close_range, (unsigned a, unsigned b, int f), FS_SYS3(SYS_close_range, a, b, f))                                   \
  X(copy_file_range, (int i, off64_t *pi, int o, off64_t *po, size_t n, unsigned f),                                   \
    FS_SYS6(SYS_copy_file_range, i, pi, o, po, n, f))                                                                  \
  X(execveat, (int d, const char *p, char *const a[], char *const e[], int f), FS_SYS5(SYS_execveat, d, p, a, e, f))   \
  X(fsmount, (int fd, unsigned f, unsigned a), FS_SYS3(SYS_fsmount, fd, f, a))                                         \
  X(fsopen, (const char *n, unsigned f), FS_SYS2(SYS_fsopen, n, f))                                                    \
  X(getdents64, (int fd, void *b, size_t n), FS_SYS3(SYS_getdents64, fd, b, n))                                        \
  X(memfd_create, (const char *n, unsigned f), FS_SYS2(SYS_memfd_create, n, f))                                        \
  X(pidfd_getfd, (int fd, int t, unsigned f), FS_SYS3(SYS_pidfd_getfd, fd, t, f))                                      \
  X(pidfd_open, (pid_t p, unsigned f), FS_SYS2(SYS_pidfd_open, p, f))                                                  \
  X(preadv2, (int fd, const struct iovec *v, int c, off_t o, int f), FS_SYS6(SYS_preadv2, fd, v, c, o, 0, f))          \
  X(pwritev2, (int fd, const struct iovec *v, int c, off_t o, int f), FS_SYS6(SYS_pwritev2, fd, v, c, o, 0, f))        \
  X(renameat2, (int d, const char *a, int e, const char *b, unsigned f), FS_SYS5(SYS_renameat2, d, a, e, b, f))        \
  X(statx, (int d, const char *p, int f, unsigned m, struct statx *st), FS_SYS5(SYS_statx, d, p, f, m, st))

#define X(name, params, call)                                                                                          \
  static long older_##name params {                                                                                    \
    return fs_ret(call);                                                                                               \
  }
FS_CALLS(X)
#undef X

/* Before glibc 2.34 these were in a library that the program may load later, or not at all. So it is
   looked for when one of them is called. */
static void *moved(const char *library, const char *name) {
  void *p = dlsym(RTLD_NEXT, name);
  void *handle = p == NULL ? FS_REAL(dlopen)(library, RTLD_LAZY) : NULL;
  if (handle != NULL) p = dlsym(handle, name);
  return p != NULL ? p : (void *)not_there;
}
#define FS_MOVED(library, ret, name, params, args)                                                                     \
  static ret older_##name params {                                                                                     \
    ret(*fs_next) params;                                                                                              \
    *(void **)&fs_next = moved(library, #name);                                                                        \
    __atomic_store_n(&fs_real.name, fs_next, __ATOMIC_RELEASE);                                                        \
    return fs_next args;                                                                                               \
  }
#define X(ret, name, params, args) FS_MOVED("librt.so.1", ret, name, params, args)
FS_SYMBOLS_SHM(X)
FS_SYMBOLS_AIO(X)
#undef X
#define X(ret, name, params, args) FS_MOVED("libutil.so.1", ret, name, params, args)
FS_SYMBOLS_PTY(X)
#undef X
#define X(ret, name, params, args) FS_MOVED("libpthread.so.0", ret, name, params, args)
FS_SYMBOLS_THREAD(X)
#undef X

#define FS_NAMED(name)                                                                                                 \
  { #name, (void *)older_##name }
static const struct {
  const char *name;
  void *function;
} stand_ins[] = {FS_NAMED(fstat),
                 FS_NAMED(fstatat),
                 FS_NAMED(mknod),
                 FS_NAMED(mknodat),
                 FS_NAMED(_Fork),
                 {"posix_spawn_file_actions_addchdir_np", (void *)not_there_error},
                 {"posix_spawn_file_actions_addfchdir_np", (void *)not_there_error},
#define X(name, params, call) FS_NAMED(name),
                 FS_CALLS(X)
#undef X
#define X(ret, name, params, args) FS_NAMED(name),
                     FS_SYMBOLS_SHM(X) FS_SYMBOLS_AIO(X) FS_SYMBOLS_PTY(X) FS_SYMBOLS_THREAD(X)
#undef X
};

static void look_up_old(void) {
  *(void **)&old_fxstat = dlsym(RTLD_NEXT, "__fxstat");
  *(void **)&old_fxstatat = dlsym(RTLD_NEXT, "__fxstatat");
  *(void **)&old_xmknod = dlsym(RTLD_NEXT, "__xmknod");
  *(void **)&old_xmknodat = dlsym(RTLD_NEXT, "__xmknodat");
}

void *fs_stand_in(const char *name) {
  if (old_fxstat == NULL) look_up_old();
  for (size_t i = 0; i < FS_ARRAY_LEN(stand_ins); i++)
    if (strcmp(stand_ins[i].name, name) == 0) return stand_ins[i].function;
  return (void *)not_there;
}

/* Before glibc 2.36, dlsym with RTLD_NEXT finds the oldest version of a function. It also finds
   libattr's own ones, which no program calls any more: they call syscall(2), and so this library. */
static const struct {
  const char *name, *version;
} versions[] = {
    {"glob", "GLIBC_2.27"},        {"lio_listio", "GLIBC_2.34"},  {"lio_listio", "GLIBC_2.4"},
    {"nftw", "GLIBC_2.3.3"},       {"posix_spawn", "GLIBC_2.15"}, {"posix_spawnp", "GLIBC_2.15"},
    {"quick_exit", "GLIBC_2.24"},  {"realpath", "GLIBC_2.3"},     {"getxattr", "GLIBC_2.3"},
    {"lgetxattr", "GLIBC_2.3"},    {"fgetxattr", "GLIBC_2.3"},    {"listxattr", "GLIBC_2.3"},
    {"llistxattr", "GLIBC_2.3"},   {"flistxattr", "GLIBC_2.3"},   {"setxattr", "GLIBC_2.3"},
    {"lsetxattr", "GLIBC_2.3"},    {"fsetxattr", "GLIBC_2.3"},    {"removexattr", "GLIBC_2.3"},
    {"lremovexattr", "GLIBC_2.3"}, {"fremovexattr", "GLIBC_2.3"},
};

void *fs_real_find(const char *name) {
  void *p = NULL;
  for (size_t i = 0; i < FS_ARRAY_LEN(versions) && p == NULL; i++)
    if (versions[i].name[0] == name[0] && strcmp(versions[i].name, name) == 0)
      p = dlvsym(RTLD_NEXT, name, versions[i].version);
  if (p == NULL) p = dlsym(RTLD_NEXT, name);
  return p != NULL ? p : fs_stand_in(name);
}
