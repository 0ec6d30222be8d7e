/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls on files and directories of a dataset, as the kernel would answer them on a read-only file system. A wrapper of
 * preload/ finds the entry (path.h) or the open file (fdtab.h) and comes here. Results are the system call's own,
 * with a negative errno for failure. No locks, no allocation, no system call on the paths open, read, lseek, stat,
 * close.
 */
#ifndef FS_CLIENT_FILES_FILES_H
#define FS_CLIENT_FILES_FILES_H

#include <sys/statfs.h>

#include "client/fd/fdtab.h"
#include "client/path/path.h"

struct statx;

/* ---- by entry: `route` is what fs_path_route said, FS_IN or FS_NEW ---- */

/* What open(2) says of its flags alone: 0 or -EINVAL. */
fs_err fs_file_check_flags(int flags);
/* open(2). A virtual descriptor, or a real one where it must be (descriptors 0-2, a vfork child). */
fs_fd fs_file_open(int route, const struct fs_found *f, int flags);
/* What it is refused with, or 0. */
fs_err fs_file_open_check(int route, const struct fs_found *f, int flags);
fs_err fs_file_stat(uint32_t mount, uint32_t entry, struct stat *st);
/* With the times of a dataset's directory that outputs in it have moved. */
fs_err fs_file_stat_now(uint32_t mount, uint32_t entry, struct stat *st);
/* Of what a walk with FS_LOOK found, too. */
fs_err fs_found_stat(const struct fs_found *f, struct stat *st);
fs_err fs_found_access(const struct fs_found *f, int mode);
fs_ssize fs_found_readlink(const struct fs_found *f, char *buf, size_t n);
void fs_file_to_statx(const struct stat *st, unsigned mask, struct statx *out);
fs_err fs_file_access(uint32_t mount, uint32_t entry, int mode);
fs_ssize fs_file_readlink(uint32_t mount, uint32_t entry, char *buf, size_t n);
fs_err fs_file_statfs(uint32_t mount, struct statfs *out);
/* A real read-only descriptor with the entry's content, CLOEXEC. -EISDIR, -EACCES. */
fs_fd fs_file_materialize(uint32_t mount, uint32_t entry);
/* What a call that would change the file system gets: EROFS, or what comes first. `route` is of a walk with FS_AS_IS
   and FS_NOFOLLOW for new names, FS_PARENT for those to be removed. */
fs_err fs_file_refuse_new(int route, const struct fs_found *f, bool directory);
/* Can an output be made of this name? */
bool fs_file_may_make(int route, const struct fs_found *f, bool directory);
/* Removes an output, or says why not. */
fs_err fs_file_remove(int route, const struct fs_found *f, bool directory);
fs_err fs_file_refuse_change(int route); /* the name must exist */
/* Of a dataset's directory, in a job with outputs, these succeed and keep nothing: a mode with the owner's bits as they
   are, an owner that the caller may set, times other than now. Else as fs_file_refuse_change, or -EPERM. */
fs_err fs_file_chmod(int route, const struct fs_found *f, mode_t mode);
fs_err fs_file_chown(int route, const struct fs_found *f, uid_t uid, gid_t gid);
fs_err fs_file_times(const struct fs_found *f, const struct timespec t[2]);
/* -EOPNOTSUPP, as of an output: programs then set the mode instead of an ACL. */
fs_err fs_file_xattr(int route, const struct fs_found *f);
fs_err fs_file_refuse_truncate(int route, const struct fs_found *f, int64_t n);
fs_err fs_file_refuse_times(int route, const struct timespec t[2]);
/* rename and link of two names of which one may be below a mount. FS_OUTSIDE (0): neither is; 1: an output was renamed;
   else a negative errno. */
fs_err fs_file_rename(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);
fs_err fs_file_refuse_link(int from_dir, const char *from, int to_dir, const char *to, int flags);
/* mkstemp and its like, of a template whose path may lead below a mount, with FS_OUTSIDE or FS_REDIRECT as for other
   calls; FS_NEW where it can be made below a mount; else why it is refused. */
int fs_file_refuse_template(const char *template, int suffix, struct fs_found *f);
/* Is the name to be made that of a directory which exists only above a mount? */
bool fs_file_is_vdir(int dirfd, const char *path);

/* ---- by open file ---- */

fs_ssize fs_file_read(struct fs_slot *s, void *buf, size_t n);
fs_ssize fs_file_pread(struct fs_slot *s, void *buf, size_t n, int64_t off);
/* off -1: at the file's offset, and moves it. */
fs_ssize fs_file_readv(struct fs_slot *s, const struct iovec *iov, int count, int64_t off);
/* Of an output that is open for writing and not one of the kernel's files; -EBADF: of others. */
fs_err fs_file_writable(const struct fs_slot *s);
fs_ssize fs_file_write(struct fs_slot *s, const void *buf, size_t n);
fs_ssize fs_file_pwrite(struct fs_slot *s, const void *buf, size_t n, int64_t off);
fs_ssize fs_file_writev(struct fs_slot *s, const struct iovec *iov, int count, int64_t off);
int64_t fs_file_lseek(struct fs_slot *s, int64_t off, int whence);
fs_err fs_file_fstat(struct fs_slot *s, struct stat *st);
/* getdents64(2) records. */
fs_ssize fs_file_getdents(struct fs_slot *s, void *buf, size_t n);
/* fcntl(2) but for the F_DUPFD family and F_GETFD/F_SETFD. */
int64_t fs_file_fcntl(struct fs_slot *s, int cmd, long arg);
fs_err fs_file_ioctl(struct fs_slot *s, unsigned long request, void *arg);
/* mmap(2): the address, or a negative errno in a pointer. */
void *fs_file_mmap(struct fs_slot *s, void *addr, size_t len, int prot, int flags, int64_t off);
fs_err fs_file_advise(struct fs_slot *s, int64_t off, int64_t len, int advice);
/* read(2) into a pipe, socket or file: sendfile(2). off may be NULL. */
fs_ssize fs_file_send(struct fs_slot *s, int out, int64_t *off, size_t n);
/* 0 for a file that can be read, -EBADF, -EISDIR else: the check that all reading calls make. */
fs_err fs_file_readable(const struct fs_slot *s);
/* 0, or -ENOLCK: a lock would exclude nobody, since nodes share no locks, and others may write. That is so of outputs,
   and of directories that outputs can be made in. A dataset's file may be locked. */
fs_err fs_file_lockable(const struct fs_slot *s);
/* dup2 or dup3 of a virtual descriptor: materialises onto 0-2. */
fs_fd fs_file_dup_to(int fd, struct fs_slot *s, int newfd, bool cloexec);

/* ---- the process ---- */

/* At start-up, and in a vfork child before exec (the program may be a static one): descriptors 0-2 that are virtual
   ones become real files. */
void fs_files_start(void);
/* The caller's effective user and group: no system call when they are known. */
void fs_ids(uint32_t *uid, uint32_t *gid);
/* setuid or one of its like was called. */
void fs_ids_changed(void);
/* The process's umask, and: umask was called. */
mode_t fs_umask(void);
void fs_umask_changed(mode_t mask);

/* Number of the directory's record after which nothing comes; records: ".", "..", the children. */
struct fs_dirent_view {
  uint64_t ino;
  const char *name;
  uint32_t name_len;
  uint8_t type; /* DT_* */
};
/* Record i of a directory. 0, -ENOENT past the end, -EUCLEAN. */
fs_err fs_dir_record(uint32_t mount, uint32_t dir, uint64_t i, struct fs_dirent_view *out);
/* getdents64 records of a directory, its outputs and names of this node included, from position *at on, which moves.
   Bytes; 0 at the end; -EINVAL when not even one fits. */
fs_ssize fs_dir_list(uint32_t mount, uint32_t dir, uint64_t *at, void *buf, size_t n);
/* Writes one record of getdents64; its length, 0: no room. `next`: the position after it. */
size_t fs_dirent_put(char *to, size_t room, const struct fs_dirent_view *v, uint64_t next);

#endif
