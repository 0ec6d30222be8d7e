/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by left.c, left_copy.c and left_names.c only. One thread. */
#ifndef FS_LAUNCH_CLEAN_LEFT_PRIV_H
#define FS_LAUNCH_CLEAN_LEFT_PRIV_H

#include "left.h"

/* ---- left_copy.c ---- */
/* Opens the directory `name` in a directory of copies, and makes it if it does not exist. Follows
   no symlink. */
fs_fd fs_left_open_dir(int at, const char *name);
/* Opens or makes all directories before the last slash of a path below `top`. Returns the last
   one. */
fs_fd fs_left_open_parent(int top, const char *path);
/* Copies a file, with mode and mtime, to the disk. Does nothing if the name has the same bytes
   already. Returns -EEXIST if it has others. */
fs_err fs_left_copy_file(int dir, const char *name, int to, const char *as);
/* Makes a symlink. Does nothing if the name is a symlink to that target. Returns -EEXIST if it is
   something else. */
fs_err fs_left_copy_link(const char *target, int to, const char *as);

/* ---- left_names.c ---- */
struct fs_left_names;
/* Reads the names that a daemon left beside its backing files. */
fs_err fs_left_names_read(int backing, struct fs_left_names **out);
void fs_left_names_free(struct fs_left_names *n);
/* Writes the path of a file or directory below the mount. Returns false if it is unknown. */
bool fs_left_names_path(const struct fs_left_names *n, uint64_t id, char *out, size_t size);
/* Returns true if other nodes have bytes of this file. */
bool fs_left_names_split(const struct fs_left_names *n, uint64_t id);
/* Calls visit for each symlink and each directory (target NULL), until a call fails. `path` is NULL
   if it is unknown. */
fs_err fs_left_names_others(const struct fs_left_names *n,
                            fs_err (*visit)(void *ctx, uint64_t id, const char *path, const char *target), void *ctx);

#endif
