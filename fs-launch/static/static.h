/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fanstore-static: what its files share. This supervisor answers system calls of programs that
 * LD_PRELOAD does not reach (docs/static.md). A seccomp filter hands over the calls that take a
 * path or describe an open file. This process answers them below a mount and lets the kernel answer
 * all others. main.c starts and ends the supervisor; loop.c has the threads that answer; each other
 * file is a family of calls.
 *
 * Threads: the main one and FS_STATIC_THREADS that answer. They share data in real.c and place.c,
 * each under a mutex, and the client's lock-free state.
 */
#ifndef FS_STATIC_H
#define FS_STATIC_H

#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>

#include "client/files/files.h"

#define FS_STATIC_THREADS 8       /* threads that wait for calls */
#define FS_STATIC_THREADS_MAX 128 /* more threads are made while all wait for data */
/* FANSTORE_ENV_AS_IS while the supervisor starts; COMMAND does not get it. */
#define FS_STATIC_AS_IS "supervisor"
#define FS_STATIC_FAILED 125 /* exit statuses, as in env(1) */
#define FS_STATIC_NOT_EXECUTABLE 126
#define FS_STATIC_NOT_FOUND 127

/* A call that is being answered. The caller waits in the kernel and may be killed at any moment. */
struct fs_call {
  int listener;
  uint64_t id;
  pid_t tid;
  int nr;
  uint64_t arg[6];
  bool seen; /* st is the real file system's answer for `full` */
  struct stat st;
  bool lost;               /* `path` is relative to a removed or unknown directory below a mount */
  char path[PATH_MAX];     /* as the caller passed it */
  char full[2 * PATH_MAX]; /* absolute */
};

/* An answer is the call's result, a negative errno, or one of these. */
#define FS_PASS INT64_MIN           /* the kernel makes the call */
#define FS_ANSWERED (INT64_MIN + 1) /* the call was answered already */

/* ---- traps.c: the calls that the filter hands over ---- */

struct fs_trap;
typedef int64_t fs_trap_fn(struct fs_call *c, const struct fs_trap *t);
struct fs_trap {
  int nr;
  fs_trap_fn *fn;
  int8_t dirfd, path; /* argument numbers; -1: none */
  int8_t flags;       /* argument number of AT_SYMLINK_NOFOLLOW etc.; -1: none */
  bool nofollow;      /* the last component is never followed */
};
const struct fs_trap *fs_trap_of(int nr);
/* Installs the filter in this process. Returns the listener or a negative errno. */
fs_fd fs_filter_install(void);

/* ---- loop.c ---- */

/* Starts the threads. Returns 0 or a negative errno. */
fs_err fs_loop_start(int listener);
/* Gives our descriptor fd to the caller as the call's result, and closes fd. Returns FS_ANSWERED or
   a negative errno. */
int64_t fs_give(struct fs_call *c, fs_fd fd, bool cloexec);
fs_err fs_answer(const struct fs_call *c, int64_t result);
/* Returns true if the caller still waits. Call this before each write to the caller: its pid may
   have been reused. */
bool fs_call_valid(const struct fs_call *c);
/* Prints one line on stderr, only the first time for each `once`. */
void fs_tell_once(_Atomic bool *once, const char *format, ...) FS_PRINTF(2, 3);

/* ---- tracee.c: the caller's memory, descriptors and paths ---- */

fs_err fs_tracee_read(const struct fs_call *c, uint64_t addr, void *buf, size_t n);
fs_err fs_tracee_write(const struct fs_call *c, uint64_t addr, const void *buf, size_t n);
/* Reads a string of less than PATH_MAX bytes from the caller. Returns 0, -EFAULT, -ENAMETOOLONG, or
   -EPERM if the caller's memory may not be read. */
fs_err fs_tracee_string(const struct fs_call *c, uint64_t addr, char *out);
/* Reads the symlink /proc/TID/<what>. */
fs_err fs_tracee_link(const struct fs_call *c, const char *what, char *out);
/* Reads /proc/TID/status, cut to `size`. After an error the text is "". The first FS_STATUS_HEAD
   bytes have ids and umask. */
#define FS_STATUS_HEAD 512
fs_ssize fs_tracee_status(const struct fs_call *c, char *text, size_t size);
mode_t fs_tracee_umask(const struct fs_call *c);
/* Finds the path in argument `path`, relative to the descriptor in argument `dirfd` (-1: the
   current directory). Returns the results of fs_path_route; also FS_REDIRECT if only we know the
   directory that the path is relative to. */
int fs_call_find(struct fs_call *c, int dirfd, int path, unsigned flags, struct fs_found *f);
/* Returns true if we may act for the caller with our rights: it must not have changed its user,
   group or root directory, or dropped capabilities. */
bool fs_call_trusted(const struct fs_call *c);
/* Only makes the absolute path, in c->full. Returns 1 if only we know the directory that the path
   is relative to, else 0. Returns a negative errno if the kernel should answer, unless c->lost is
   set. */
int fs_call_full(struct fs_call *c, int dirfd, int path);
/* Returns true if there are unknown flags. The kernel refuses these before it looks at the path. */
bool fs_call_bad_flags(const struct fs_call *c, const struct fs_trap *t, int known);
/* Returns true if the call does not follow a symlink at the path's end. */
bool fs_call_nofollow(const struct fs_call *c, const struct fs_trap *t);
/* Finds the path of a call like fs_call_find, with the trap's own arguments and flags. */
int fs_trap_find(struct fs_call *c, const struct fs_trap *t, struct fs_found *f);
/* Returns true if the call means the descriptor itself: "" or NULL with AT_EMPTY_PATH. */
bool fs_call_empty(const struct fs_call *c, const struct fs_trap *t);
/* Stores which entry of a dataset the caller's descriptor is open on. Returns false if none. */
bool fs_call_ref(const struct fs_call *c, int fd, uint32_t *mount, uint32_t *entry);
/* Like fs_call_ref, for a descriptor that c->path names in /proc or /dev/fd. */
bool fs_call_proc_ref(const struct fs_call *c, uint32_t *mount, uint32_t *entry);

/* ---- place.c: the current directory ---- */

/* Returns 0 if the kernel's current directory is the caller's. Returns 1 and the absolute path if
   only we know the directory: it is below a mount, or was reached from one by "..". Returns a
   negative errno if only we know the directory and it has no path: -ENOENT if it was removed. */
int fs_place_get(const struct fs_call *c, char *path);
fs_trap_fn fs_on_chdir, fs_on_fchdir, fs_on_getcwd;

/* ---- real.c: real files that stand for those of a dataset ---- */

/* Opens a new read-only descriptor of a file with the entry's bytes, or of a directory that stands
   for the entry. */
fs_fd fs_real_open(uint32_t mount, uint32_t entry, bool dir, int flags);
/* Opens a descriptor that only stands for the entry, for O_PATH. */
fs_fd fs_real_path(uint32_t mount, uint32_t entry, bool dir);
/* Returns true if this name, from /proc, is a real file or directory that stands for an entry. */
bool fs_real_parse(const char *link, uint32_t *mount, uint32_t *entry);

/* ---- open.c, stat.c, xattr.c, dir.c, exec.c, change.c ---- */

fs_trap_fn fs_on_open, fs_on_creat, fs_on_openat, fs_on_openat2, fs_on_lock;
fs_trap_fn fs_on_stat, fs_on_fstat, fs_on_newfstatat, fs_on_statx, fs_on_access, fs_on_readlink, fs_on_statfs,
    fs_on_fstatfs, fs_on_getxattr, fs_on_listxattr;
fs_trap_fn fs_on_getdents, fs_on_getdents64;
fs_trap_fn fs_on_exec;
extern pthread_mutex_t fs_tracing; /* locked while a process is traced */
fs_trap_fn fs_on_change, fs_on_change_fd, fs_on_times, fs_on_make, fs_on_remove, fs_on_rename;

#endif
