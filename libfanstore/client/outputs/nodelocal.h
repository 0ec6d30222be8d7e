/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of one node (docs/internals/node-local.md): UNIX sockets, FIFOs, and regular files whose names match
 * --node-local. Each is a real object of the kernel in <backing directory>/node-local/<directory's id>/. A path that
 * ends in such a name is FS_REDIRECT to that object, with out.id 0 and `mount` and `entry` of its directory. Lock-free,
 * no allocation. A job that has no such names makes no system call for them: one word of shared memory says so.
 */
#ifndef FS_CLIENT_OUTPUTS_NODELOCAL_H
#define FS_CLIENT_OUTPUTS_NODELOCAL_H

#include <sys/socket.h>
#include <sys/un.h>

#include "client/path/path.h"
#include "index/index.h"

/* FS_NL_NAMES and FS_NL_SHADOWS of this node. */
extern FS_INTERNAL const _Atomic uint32_t *_Atomic fs_nl_any_word;
static inline uint32_t fs_nl_any(void) {
  return atomic_load_explicit(atomic_load_explicit(&fs_nl_any_word, memory_order_relaxed), memory_order_relaxed);
}
/* May the last name of a path that is walked with these flags be one? */
static inline bool fs_nl_maybe(unsigned flags) {
  return FS_UNLIKELY((flags & (FS_WRITES | FS_FILE)) != 0 || fs_nl_any() != 0);
}
/* The same of a path that leads to a name of the dataset. */
static inline bool fs_nl_may_shadow(unsigned flags) {
  return FS_UNLIKELY((flags & FS_WRITES) != 0 || (fs_nl_any() & FS_NL_SHADOWS) != 0);
}
/* Does the name match a pattern of --node-local? */
bool fs_nl_glob(const char *name, size_t len);

/*
 * Looks for a name in the directory mount:entry. `e` is the dataset's entry of that name, with number `child`, or NULL.
 * FS_FILE: a file of this name is to be made. FS_WRITES: a dataset's file of this name is to be written, and is copied.
 * 1: it is a name of this node, and its path is in `real`. 0: it is none. Or a negative errno.
 */
int fs_nl_find(uint32_t mount, uint32_t entry, const char *name, size_t len, const struct fs_entry *e, uint32_t child,
               unsigned flags, char real[PATH_MAX]);
/* Is a FS_REDIRECT the path of such a name? */
bool fs_nl_is(const struct fs_found *f);

/* mknod of a route that is FS_NEW: a FIFO or a socket; -EPERM for other types. */
fs_err fs_nl_mknod(const struct fs_found *f, mode_t mode);
/* Removes f's name. 1: done. 0: it is no name of this node. Or a negative errno. */
int fs_nl_remove(const struct fs_found *f, bool directory);
/* Before f's name, a directory, is removed: -ENOTEMPTY when it has names of this node. *id: of a directory that has had
   some, else 0. */
fs_err fs_nl_check_empty(const struct fs_found *f, uint64_t *id);
/* The same before a rename of `from`, if that is a directory, replaces `to`. */
fs_err fs_nl_check_replaced(const struct fs_found *from, const struct fs_found *to, unsigned flags, uint64_t *id);
void fs_nl_removed(uint64_t id);
/* 1: done. 0: neither name is of this node. Or a negative errno: -EXDEV when the name would change its kind. */
int fs_nl_rename(const struct fs_found *from, const struct fs_found *to, unsigned flags);
/* As fs_output_list, from *at on, which is at least FS_NL_AT. */
fs_ssize fs_nl_list(uint32_t mount, uint32_t dir, uint64_t *at, void *buf, size_t n);

/* ---- nodelocal_socket.c ---- */

/* bind of `path`, as the program gave it, whose route f is FS_NEW. */
fs_err fs_nl_bind(int fd, const struct fs_found *f, const char *path);
/* A short address of a socket whose path may be longer than an address. a->fd is to be closed after its use. */
struct fs_nl_address {
  struct sockaddr_un un;
  socklen_t len;
  int fd;
};
fs_err fs_nl_reach(const char *real, struct fs_nl_address *a);

/* The kernel has stored an address of *n bytes at `a`, where `have` fit. That of a socket which fs_nl_bind has bound
   becomes the path that the program gave. */
#define FS_NL_FD "/proc/self/fd/"
void fs_nl_tell(struct sockaddr_un *a, socklen_t have, socklen_t *n);
static inline void fs_nl_told(struct sockaddr *a, socklen_t have, socklen_t *n) {
  const size_t least = offsetof(struct sockaddr_un, sun_path) + sizeof(FS_NL_FD);
  if (FS_LIKELY(have < least || *n > have || *n < least || a->sa_family != AF_UNIX)) return;
  fs_nl_tell((struct sockaddr_un *)(void *)a, have, n);
}

#endif
