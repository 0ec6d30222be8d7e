/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fanstore-static: what its files share. A supervisor that answers the system calls of programs that LD_PRELOAD does
 * not reach (docs/static.md): a seccomp filter hands over the calls that take a path, or describe an open file, and
 * this process answers them below a mount and lets the kernel answer all others. main.c starts and ends things; loop.c
 * has the threads that answer; one file for each family of calls.
 *
 * Threads: FS_STATIC_THREADS that answer, and the main one. What they share lies in real.c (under a mutex), place.c
 * (under a mutex) and in the client's lock-free state.
 */
#ifndef FS_STATIC_H
#define FS_STATIC_H

#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>

#include "client/files/files.h"

#define FS_STATIC_THREADS 8       /* that wait for calls */
#define FS_STATIC_THREADS_MAX 128 /* more are made while all wait for data */
/* FANSTORE_ENV_AS_IS while the supervisor starts; it is not COMMAND's. */
#define FS_STATIC_AS_IS "supervisor"
#define FS_STATIC_FAILED 125 /* exit statuses, as env(1) has them */
#define FS_STATIC_NOT_EXECUTABLE 126
#define FS_STATIC_NOT_FOUND 127

/* A call that is being answered. The caller waits in the kernel; it may be killed at any moment. */
struct fs_call {
  int listener;
  uint64_t id;
  pid_t tid;
  int nr;
  uint64_t arg[6];
  bool seen; /* st is what the real file system says of `full` */
  struct stat st;
  bool lost;           /* `path` is relative to a directory below a mount that was removed, or of which nobody knows */
  char path[PATH_MAX]; /* as the caller gave it */
  char full[2 * PATH_MAX]; /* absolute */
};

/* An answer is the call's result, a negative errno, or one of these. */
#define FS_PASS INT64_MIN           /* the kernel does it */
#define FS_ANSWERED (INT64_MIN + 1) /* has been given already */

/* ---- traps.c: the calls that the filter hands over ---- */

struct fs_trap;
typedef int64_t fs_trap_fn(struct fs_call *c, const struct fs_trap *t);
struct fs_trap {
  int nr;
  fs_trap_fn *fn;
  int8_t dirfd, path; /* numbers of the arguments; -1: none */
  int8_t flags;       /* number of the argument with AT_SYMLINK_NOFOLLOW and the like; -1: none */
  bool nofollow;      /* the last component is never followed */
};
const struct fs_trap *fs_trap_of(int nr);
/* Installs the filter in this process: the listener, or a negative errno. */
fs_fd fs_filter_install(void);

/* ---- loop.c ---- */

/* Starts the threads. 0 or a negative errno. */
fs_err fs_loop_start(int listener);
/* Gives the caller a descriptor of ours (which is closed) as the call's result. FS_ANSWERED or a negative errno. */
int64_t fs_give(struct fs_call *c, fs_fd fd, bool cloexec);
fs_err fs_answer(const struct fs_call *c, int64_t result);
/* Is the caller still waiting? To be asked before anything is written to it. */
bool fs_call_valid(const struct fs_call *c);
/* One line on stderr, the first time that `once` is passed. */
void fs_tell_once(_Atomic bool *once, const char *format, ...) FS_PRINTF(2, 3);

/* ---- tracee.c: the caller's memory, descriptors and paths ---- */

fs_err fs_tracee_read(const struct fs_call *c, uint64_t addr, void *buf, size_t n);
fs_err fs_tracee_write(const struct fs_call *c, uint64_t addr, const void *buf, size_t n);
/* A string of the caller's of less than PATH_MAX bytes: 0, -EFAULT, -ENAMETOOLONG, or -EPERM when it may not be read.
 */
fs_err fs_tracee_string(const struct fs_call *c, uint64_t addr, char *out);
/* Where /proc/TID/<what> leads. */
fs_err fs_tracee_link(const struct fs_call *c, const char *what, char *out);
/* The text of /proc/TID/status, cut to size; "" with a negative errno. Ids and umask are in the first FS_STATUS_HEAD.
 */
#define FS_STATUS_HEAD 512
fs_ssize fs_tracee_status(const struct fs_call *c, char *text, size_t size);
mode_t fs_tracee_umask(const struct fs_call *c);
/* The path in argument number `path`, relative to the descriptor in argument number `dirfd` (-1: the current
   directory). As fs_path_route, and FS_REDIRECT also where only we know the directory that the path is relative to. */
int fs_call_find(struct fs_call *c, int dirfd, int path, unsigned flags, struct fs_found *f);
/* May what the caller asks for be done by us, with our rights? Not for one that has changed its user, group or root
   directory, or given up capabilities. */
bool fs_call_trusted(const struct fs_call *c);
/* Only puts the absolute path together, in c->full. 1: only we know what it is relative to; 0; or negative, which is
   the kernel's to say unless c->lost. */
int fs_call_full(struct fs_call *c, int dirfd, int path);
/* Are there flags beyond the known ones? The kernel refuses that before it looks at the path. */
bool fs_call_bad_flags(const struct fs_call *c, const struct fs_trap *t, int known);
/* Does the call take a symlink at the end for itself? */
bool fs_call_nofollow(const struct fs_call *c, const struct fs_trap *t);
/* fs_call_find for a trap with its own flags. */
int fs_trap_find(struct fs_call *c, const struct fs_trap *t, struct fs_found *f);
/* Does the call mean the descriptor itself: "" or NULL with AT_EMPTY_PATH? */
bool fs_call_empty(const struct fs_call *c, const struct fs_trap *t);
/* What of a dataset a descriptor of the caller's is open on. False: nothing. */
bool fs_call_ref(const struct fs_call *c, int fd, uint32_t *mount, uint32_t *entry);
/* The same of the descriptor that c->path names in /proc or /dev/fd. */
bool fs_call_proc_ref(const struct fs_call *c, uint32_t *mount, uint32_t *entry);

/* ---- place.c: the current directory ---- */

/* 1: the current directory is not the kernel's, and this is its absolute path; 0: it is the kernel's. Negative: it is
   not the kernel's, and has no path: -ENOENT if it was removed. */
int fs_place_get(const struct fs_call *c, char *path);
fs_trap_fn fs_on_chdir, fs_on_fchdir, fs_on_getcwd;

/* ---- real.c: real files that stand for those of a dataset ---- */

/* A new read-only descriptor, of a file with the entry's bytes or of a directory that stands for it. */
fs_fd fs_real_open(uint32_t mount, uint32_t entry, bool dir, int flags);
/* One that only stands for it, for O_PATH. */
fs_fd fs_real_path(uint32_t mount, uint32_t entry, bool dir);
/* Does this name, as /proc tells it, belong to one? */
bool fs_real_parse(const char *link, uint32_t *mount, uint32_t *entry);

/* ---- open.c, stat.c, xattr.c, dir.c, exec.c, change.c ---- */

fs_trap_fn fs_on_open, fs_on_creat, fs_on_openat, fs_on_openat2, fs_on_lock;
fs_trap_fn fs_on_stat, fs_on_fstat, fs_on_newfstatat, fs_on_statx, fs_on_access, fs_on_readlink, fs_on_statfs,
    fs_on_fstatfs, fs_on_getxattr, fs_on_listxattr;
fs_trap_fn fs_on_getdents, fs_on_getdents64;
fs_trap_fn fs_on_exec;
extern pthread_mutex_t fs_tracing; /* held while a process is traced */
fs_trap_fn fs_on_change, fs_on_change_fd, fs_on_times, fs_on_make, fs_on_remove, fs_on_rename;

#endif
