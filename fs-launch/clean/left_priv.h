/* SPDX-License-Identifier: BSD-3-Clause */
/* What left.c, left_copy.c and left_names.c share. */
#ifndef FS_LAUNCH_CLEAN_LEFT_PRIV_H
#define FS_LAUNCH_CLEAN_LEFT_PRIV_H

#include "left.h"

/* ---- left_copy.c ---- */
/* Opens the directory `name` of a directory of copies. Makes it if it is not there. Follows no symlink. */
fs_fd fs_left_open_dir(int at, const char *name);
/* The same for all directories before the last slash of a path below `top`. */
fs_fd fs_left_open_parent(int top, const char *path);
/* Copies a file, with mode and mtime, to the disk. Does nothing if the name has the same bytes already. -EEXIST: it has
   others. */
fs_err fs_left_copy_file(int dir, const char *name, int to, const char *as);
/* Makes a symlink, unless the name is one with that target. -EEXIST: it is something else. */
fs_err fs_left_copy_link(const char *target, int to, const char *as);

/* ---- left_names.c ---- */
struct fs_left_names;
/* Reads the names that a daemon has left beside its backing files. */
fs_err fs_left_names_read(int backing, struct fs_left_names **out);
void fs_left_names_free(struct fs_left_names *n);
/* The path of a file or directory below the mount. False: it is not known. */
bool fs_left_names_path(const struct fs_left_names *n, uint64_t id, char *out, size_t size);
/* Other nodes have bytes of this file. */
bool fs_left_names_split(const struct fs_left_names *n, uint64_t id);
/* Calls visit for each symlink, and for each directory (without target), until one fails. `path` is NULL if it is not
   known. */
fs_err fs_left_names_others(const struct fs_left_names *n,
                            fs_err (*visit)(void *ctx, uint64_t id, const char *path, const char *target), void *ctx);

#endif
