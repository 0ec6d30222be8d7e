/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Virtual directories: those above a mount that neither the real file system nor another dataset has. Each is named by
 * a mount and an entry number that no dataset has, which tells how much of the mount's path is its own; so it is
 * opened, listed, entered and inherited as a directory of a dataset is. Needs no dataset to be readable. No system call
 * but in fs_vdir_missing; no locks, no allocation.
 */
#ifndef FS_CLIENT_PATH_VDIR_H
#define FS_CLIENT_PATH_VDIR_H

#include <limits.h>
#include <sys/stat.h>

#include "client/fd/slot.h"
#include "client/path/mounts.h"

#define FS_VDIR FS_MAX_ENTRIES /* | length of the directory's path */
static_assert(FS_OUTPUT_FIRST - FS_VDIR >= PATH_MAX, "a path's length fits into an entry number");

static inline bool fs_is_vdir(uint32_t entry) {
  return FS_UNLIKELY(entry >= FS_VDIR) && entry < FS_OUTPUT_FIRST;
}

/* Is this normalised path a proper ancestor of a mount? Then *mount and *entry name it, whether it really exists or
   not. */
bool fs_vdir_find(const char *path, size_t len, uint32_t *mount, uint32_t *entry);
/* The same, and the real file system has no such directory. */
bool fs_vdir_missing(const char *path, size_t len, uint32_t *mount, uint32_t *entry);
/* Its path (not NUL-terminated) and length; false when there is no such thing: numbers may come from shared memory. */
bool fs_vdir_path(uint32_t mount, uint32_t entry, const char **path, size_t *len);
/* Name i of those that mounts put into the directory `path`, each once. Its length, 0 past the last. */
size_t fs_vdir_child(const char *path, size_t len, uint32_t i, const char **name);
/* Is path + "/" + name a mount? Its number, or -1. */
int fs_vdir_mount_at(const char *path, size_t len, const char *name, size_t name_len);
/* Is `name` a component of a mount's path? */
bool fs_vdir_component(const char *name, size_t len);
/*
 * Is this real directory one in which the way to a mount begins that the real file system lacks? Then its path and
 * length, for fs_vdir_child. Where those directories are is looked up once in a process; when there are none, this
 * makes no system call.
 */
bool fs_vdir_edge(int fd, const char **path, size_t *len);
/* May it be one, by the inode number that its listing has for "."? By 0, before it was listed: only where listings do
   not tell. By the same look-up, and else without a system call. */
bool fs_vdir_edge_dot(uint64_t ino);
/* Does a plain absolute path (no dots, no symlinks) lead to or through a directory above a mount that the real file
   system lacks? By the same look-up. */
bool fs_vdir_on_way(const char *path);
uint64_t fs_vdir_ino(const char *path, size_t len);
fs_err fs_vdir_stat(uint32_t mount, uint32_t entry, struct stat *st);

/* The deepest mount at or above a normalised path, and where the rest of the path begins. -1: none. */
int fs_mount_above(const char *path, size_t len, size_t *rest);

#endif
