/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls on files and directories of a dataset, answered as the kernel would on a read-only file
 * system. A wrapper of preload/ finds the entry (path.h) or the open file (fdtab.h) and calls this.
 * Results are the system call's own, with a negative errno for failure. The paths of open, read,
 * lseek, stat and close take no lock, allocate nothing and make no system call.
 */
#ifndef FS_CLIENT_FILES_FILES_H
#define FS_CLIENT_FILES_FILES_H

#include <sys/statfs.h>

#include "client/fd/fdtab.h"
#include "client/path/path.h"
#include "util/dirents.h"

struct statx;

/* ---- by entry: `route` is what fs_path_route said, FS_IN or FS_NEW ---- */

/* Checks the flags of open(2) alone, as the kernel does. Returns 0 or -EINVAL. */
fs_err fs_file_check_flags(int flags);
/* open(2). Returns a virtual descriptor, or a real one if it must be real (descriptors 0-2, a vfork
   child). */
fs_fd fs_file_open(int route, const struct fs_found *f, int flags);
/* Returns what fs_file_open would be refused with, or 0. */
fs_err fs_file_open_check(int route, const struct fs_found *f, int flags);
fs_err fs_file_stat(uint32_t mount, uint32_t entry, struct stat *st);
/* Like fs_file_stat, but a dataset's directory has the times of the last change of the outputs in
   it. */
fs_err fs_file_stat_now(uint32_t mount, uint32_t entry, struct stat *st);
/* These three also answer for what a walk with FS_LOOK found. */
fs_err fs_found_stat(const struct fs_found *f, struct stat *st);
fs_err fs_found_access(const struct fs_found *f, int mode);
fs_ssize fs_found_readlink(const struct fs_found *f, char *buf, size_t n);
void fs_file_to_statx(const struct stat *st, unsigned mask, struct statx *out);
fs_err fs_file_access(uint32_t mount, uint32_t entry, int mode);
fs_ssize fs_file_readlink(uint32_t mount, uint32_t entry, char *buf, size_t n);
fs_err fs_file_statfs(uint32_t mount, struct statfs *out);
/* Returns the error for a call that would change the file system: -EROFS, or one that the kernel
   checks first. `route` comes from a walk with FS_AS_IS and FS_NOFOLLOW for new names, and with
   FS_PARENT for names to be removed. */
fs_err fs_file_refuse_new(int route, const struct fs_found *f, bool directory);
/* Returns whether an output can be made with this name. */
bool fs_file_may_make(int route, const struct fs_found *f, bool directory);
/* Removes an output. Returns 0 or why that is refused. */
fs_err fs_file_remove(int route, const struct fs_found *f, bool directory);
/* Returns the error for a change of an existing name. */
fs_err fs_file_refuse_change(int route);
/* In a job with outputs, these three succeed for a dataset's directory and keep nothing: chmod if
   the owner's bits stay, chown if the caller may set the owner, times if they are other than now.
   Otherwise they return what fs_file_refuse_change does, or -EPERM. */
fs_err fs_file_chmod(int route, const struct fs_found *f, mode_t mode);
fs_err fs_file_chown(int route, const struct fs_found *f, uid_t uid, gid_t gid);
fs_err fs_file_times(const struct fs_found *f, const struct timespec t[2]);
/* Returns -EOPNOTSUPP, as for an output, so that programs set the mode instead of an ACL. */
fs_err fs_file_xattr(int route, const struct fs_found *f);
fs_err fs_file_refuse_truncate(int route, const struct fs_found *f, int64_t n);
fs_err fs_file_refuse_times(int route, const struct timespec t[2]);
/* rename and link of two names of which one may be below a mount. They return FS_OUTSIDE (0) if
   neither is, 1 if an output was renamed, or a negative errno. */
fs_err fs_file_rename(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);
fs_err fs_file_refuse_link(int from_dir, const char *from, int to_dir, const char *to, int flags);
/* Routes the template of mkstemp and its like, which may lead below a mount. Returns FS_OUTSIDE or
   FS_REDIRECT as other calls do, FS_NEW if the name can be made below a mount, or why it is
   refused. */
int fs_file_refuse_template(const char *template, int suffix, struct fs_found *f);
/* Returns whether the name to be made is that of a virtual directory. */
bool fs_file_is_vdir(int dirfd, const char *path);

/* ---- by open file ---- */

fs_ssize fs_file_read(struct fs_slot *s, void *buf, size_t n);
fs_ssize fs_file_pread(struct fs_slot *s, void *buf, size_t n, int64_t off);
/* off -1 means the file's own offset, which the call moves. */
fs_ssize fs_file_readv(struct fs_slot *s, const struct iovec *iov, int count, int64_t off);
fs_ssize fs_file_write(struct fs_slot *s, const void *buf, size_t n);
fs_ssize fs_file_pwrite(struct fs_slot *s, const void *buf, size_t n, int64_t off);
fs_ssize fs_file_writev(struct fs_slot *s, const struct iovec *iov, int count, int64_t off);
int64_t fs_file_lseek(struct fs_slot *s, int64_t off, int whence);
fs_err fs_file_fstat(struct fs_slot *s, struct stat *st);
/* Fills buf with records of getdents64(2). */
fs_ssize fs_file_getdents(struct fs_slot *s, void *buf, size_t n);
/* fcntl(2), except for the F_DUPFD family, F_GETFD and F_SETFD. */
int64_t fs_file_fcntl(struct fs_slot *s, int cmd, long arg);
fs_err fs_file_ioctl(struct fs_slot *s, unsigned long request, void *arg);
/* mmap(2). Returns the address, or a negative errno as a pointer. */
void *fs_file_mmap(struct fs_slot *s, void *addr, size_t len, int prot, int flags, int64_t off);
fs_err fs_file_advise(struct fs_slot *s, int64_t off, int64_t len, int advice);
/* sendfile(2) from s to a pipe, socket or file. off may be NULL. */
fs_ssize fs_file_send(struct fs_slot *s, int out, int64_t *off, size_t n);
/* flock(2), lockf(3), and the locks of fcntl(2): of a process, or of the open file description. */
int64_t fs_file_flock(struct fs_slot *s, int op);
int64_t fs_file_lockf(struct fs_slot *s, int cmd, int64_t n);
int64_t fs_file_test_lock(struct fs_slot *s, struct flock *l, bool process);
int64_t fs_file_set_lock(struct fs_slot *s, const struct flock *l, bool process, bool wait);
/* dup2 or dup3 of a virtual descriptor. If newfd is 0, 1 or 2, it becomes a real file. */
fs_fd fs_file_dup_to(int fd, struct fs_slot *s, int newfd, bool cloexec);

/* ---- the process ---- */

/* Makes real files of those of the descriptors 0-2 that are virtual. Called at start-up, and in a
   vfork child before exec, because the program may be a static one. */
void fs_files_start(void);
/* Makes real files of all that a program would inherit, before one is executed that does not load
   the library. If `named` is set, this includes what the file actions of posix_spawn name
   (fs_fd_name). */
void fs_files_inherited(bool named);

/* Gets record i of a directory: ".", "..", or a child. Returns 0, 1 if the child was removed, -ENOENT
   past the end, or an error. */
int fs_dir_record(uint32_t mount, uint32_t dir, uint64_t i, struct fs_dirent_view *out);
/* Writes getdents64 records of a directory, with its outputs and the names of this node, from
   position *at on, and moves *at. Returns the number of bytes, 0 at the end, or -EINVAL if not even
   one record fits. */
fs_ssize fs_dir_list(uint32_t mount, uint32_t dir, uint64_t *at, void *buf, size_t n);

#endif
