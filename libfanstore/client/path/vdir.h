/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Virtual directories: directories above a mount that neither the real file system nor another
 * dataset has. A mount and an entry number that no dataset has name such a directory; the number
 * tells how much of the mount's path is the directory's own. So it is opened, listed, entered and
 * inherited like a directory of a dataset. No dataset need be readable for that. No locks, no
 * allocation. Only fs_vdir_missing and the look-up of edges make system calls.
 *
 * An edge is a real directory in which the way to a mount begins that the real file system lacks. A
 * process looks its edges up once.
 */
#ifndef FS_CLIENT_PATH_VDIR_H
#define FS_CLIENT_PATH_VDIR_H

#include <limits.h>
#include <sys/stat.h>

#include "client/names/found.h"
#include "client/node/mountlist.h"

/* Returns whether this normalised path is a proper ancestor of a mount, and sets the *mount and
 *entry that name it. The directory may really exist. */
bool fs_vdir_find(const char *path, size_t len, uint32_t *mount, uint32_t *entry);
/* Returns whether fs_vdir_find finds the path and the real file system has no such directory. */
bool fs_vdir_missing(const char *path, size_t len, uint32_t *mount, uint32_t *entry);
/* Sets the path of a virtual directory, not NUL-terminated, and its length. Returns false if there
   is no such directory: the numbers may come from shared memory. */
bool fs_vdir_path(uint32_t mount, uint32_t entry, const char **path, size_t *len);
/* Sets *name to name i of those that mounts put into the directory `path`, each once. Returns the
   name's length, or 0 past the last. */
size_t fs_vdir_child(const char *path, size_t len, uint32_t i, const char **name);
/* Returns the number of the mount whose path is path + "/" + name, or -1. */
int fs_vdir_mount_at(const char *path, size_t len, const char *name, size_t name_len);
/* Returns whether `name` is a component of a mount's path. */
bool fs_vdir_component(const char *name, size_t len);
/* Returns whether fd is an edge, and sets its path and length for fs_vdir_child. If there are no
   edges, the call makes no system call. */
bool fs_vdir_edge(int fd, const char **path, size_t *len);
/* Returns whether a directory may be an edge, by the inode number that its listing has for ".".
   With ino 0 the directory was not listed yet: the call then returns true only if the listing of
   some edge does not tell. After the look-up it makes no system call. */
bool fs_vdir_edge_dot(uint64_t ino);
/* Returns whether a plain absolute path (no dots, no symlinks) leads to or through a directory
   above a mount that the real file system lacks. Uses the process's look-up of edges. */
bool fs_vdir_on_way(const char *path);
uint64_t fs_vdir_ino(const char *path, size_t len);
fs_err fs_vdir_stat(uint32_t mount, uint32_t entry, struct stat *st);

/* Returns the deepest mount at or above a normalised path and sets where the rest of the path
   begins, or returns -1. */
int fs_mount_above(const char *path, size_t len, size_t *rest);

#endif
