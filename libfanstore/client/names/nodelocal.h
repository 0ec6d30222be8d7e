/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of one node (docs/internals/node-local.md): UNIX sockets, FIFOs, and regular files
 * whose names match --node-local. Each is a real object of the kernel in <backing
 * directory>/node-local/<directory's id>/. A path that ends in such a name is FS_REDIRECT to that
 * object, with out.id 0 and `mount` and `entry` of its directory. Lock-free, no allocation. If a
 * job has no such names, it makes no system call for them: one word of shared memory says so.
 */
#ifndef FS_CLIENT_NAMES_NODELOCAL_H
#define FS_CLIENT_NAMES_NODELOCAL_H

#include <sys/socket.h>
#include <sys/un.h>

#include "client/names/found.h"
#include "client/node/words.h"
#include "index/index.h"

/* Returns FS_NL_NAMES and FS_NL_SHADOWS, if there are names of this node. */
static inline uint32_t fs_nl_any(void) {
  return atomic_load_explicit(atomic_load_explicit(&fs_nl_any_word, memory_order_relaxed), memory_order_relaxed) &
         (FS_NL_NAMES | FS_NL_SHADOWS);
}
/* Returns whether the last name of a path that is walked with these flags may be one of this
   node. */
static inline bool fs_nl_maybe(unsigned flags) {
  return FS_UNLIKELY((flags & (FS_WRITES | FS_FILE)) != 0 || fs_nl_any() != 0);
}
/* Returns whether the last name may be one of this node, or one that was taken or is about to be
   (overlay.h), although the dataset has it too. */
static inline bool fs_nl_may_shadow(unsigned flags) {
  const _Atomic uint32_t *word = atomic_load_explicit(&fs_nl_any_word, memory_order_relaxed);
  return FS_UNLIKELY((flags & (FS_WRITES | FS_CHANGES)) != 0 ||
                     (atomic_load_explicit(word, memory_order_acquire) & (FS_NL_SHADOWS | FS_NL_TAKEN)) != 0);
}
/* Returns whether the name matches a pattern of --node-local. */
bool fs_nl_glob(const char *name, size_t len);

/*
 * Looks for a name in the directory mount:entry. `e` is the dataset's entry of that name, with
 * number `child`, or NULL. FS_FILE says that a file of this name is to be made. FS_WRITES says that
 * a dataset's file of this name is to be written; it is then copied. Returns 1 and the path in
 * `real` if it is a name of this node, 0 if it is none, or a negative errno.
 */
int fs_nl_find(uint32_t mount, uint32_t entry, const char *name, size_t len, const struct fs_entry *e, uint32_t child,
               unsigned flags, char real[PATH_MAX]);
/* Returns whether an FS_REDIRECT leads to a name of this node. */
bool fs_nl_is(const struct fs_found *f);

/* mknod of a route that is FS_NEW: makes a FIFO or a socket. Returns -EPERM for other types. */
fs_err fs_nl_mknod(const struct fs_found *f, mode_t mode);
/* Removes f's name. Returns 1 if done, 0 if it is no name of this node, or a negative errno. */
int fs_nl_remove(const struct fs_found *f, bool directory);
/* Checks f's name, a directory that is to be removed. Returns -ENOTEMPTY if it has names of this
   node. Sets *id to the directory's id if it has had such names, else to 0. */
fs_err fs_nl_check_empty(const struct fs_found *f, uint64_t *id);
/* Makes the check of fs_nl_check_empty for `to`, before a rename of `from` replaces it, if `from`
   is a directory. */
fs_err fs_nl_check_replaced(const struct fs_found *from, const struct fs_found *to, unsigned flags, uint64_t *id);
/* Removes this node's directory of names of a removed directory. */
void fs_nl_removed(uint64_t id);
/* Renames a name of this node. Returns 1 if done, 0 if neither name is of this node, or a negative
   errno: -EXDEV if the name would change its kind. */
int fs_nl_rename(const struct fs_found *from, const struct fs_found *to, unsigned flags);
/* The positions of this node's names in a directory begin here, after those of outputs. */
#define FS_NL_AT (1ull << 42)
/* Lists a directory's names of this node, as fs_output_list does, from *at on, which is at least
   FS_NL_AT. */
fs_ssize fs_nl_list(uint32_t mount, uint32_t dir, uint64_t *at, void *buf, size_t n);

/* ---- nodelocal_socket.c ---- */

/* Binds a socket to `path`, as the program gave it, whose route f is FS_NEW. */
fs_err fs_nl_bind(int fd, const struct fs_found *f, const char *path);
/* Fills in a short address of a socket whose path may be longer than an address. The caller closes
   a->fd after use. */
struct fs_nl_address {
  struct sockaddr_un un;
  socklen_t len;
  int fd;
};
fs_err fs_nl_reach(const char *real, struct fs_nl_address *a);

/* Puts the path that the program gave into an address of *n bytes that the kernel has stored at
   `a`, where `have` fit, if fs_nl_bind has bound its socket. */
#define FS_NL_FD "/proc/self/fd/"
void fs_nl_tell(struct sockaddr_un *a, socklen_t have, socklen_t *n);
static inline void fs_nl_told(struct sockaddr *a, socklen_t have, socklen_t *n) {
  const size_t least = offsetof(struct sockaddr_un, sun_path) + sizeof(FS_NL_FD);
  if (FS_LIKELY(have < least || *n > have || *n < least || a->sa_family != AF_UNIX)) return;
  fs_nl_tell((struct sockaddr_un *)(void *)a, have, n);
}

#endif
