/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers of the walk: where symlinks lead (links.c), files whose size is 0 (pseudo.c), and names that
   cannot be packed (problems.c). Any thread may call them. */
#ifndef FS_PREPARE_LINKS_H
#define FS_PREPARE_LINKS_H

#include "pack.h"

struct fs_links {
  int root;                  /* SOURCE */
  char mount[PATH_MAX];      /* of SOURCE: its place below the dataset's mount */
  char mount_real[PATH_MAX]; /* the mount's path without symlinks; "": the same */
  bool outside_packed;       /* the target of a link that leads out is packed in its place */
};
void fs_links_init(struct fs_links *links, const struct fs_source *src, const struct fs_pack_options *o);
/*
 * Returns true if the symlink at `path` (below SOURCE) leads out of SOURCE for a program on the
 * mount. `region` is the length of the path of the region that the link lies in. A link to a
 * missing name within SOURCE does not lead out.
 */
bool fs_links_out(const struct fs_links *links, const char *path, size_t region, const char *target);

/* The directories that contain a packed directory, up to SOURCE. Kept only if symlinks are
   followed. */
struct fs_ancestor {
  const struct fs_ancestor *up;
  struct fs_ancestor *next; /* list of all that one thread made */
  dev_t dev;
  ino_t ino;
};
bool fs_ancestor_loop(const struct fs_ancestor *in, const struct stat *st);
/* Adds one to the list `all`, which fs_ancestors_free frees. Returns 0 or -ENOMEM. */
fs_err fs_ancestor_add(struct fs_ancestor **all, const struct fs_ancestor *up, const struct stat *st,
                       const struct fs_ancestor **added);
void fs_ancestors_free(struct fs_ancestor *all);

/* Returns the problem with a file whose size is 0, or NULL. Files of /proc, /sys and some FUSE file
   systems have bytes although their size is 0. */
const char *fs_pseudo_problem(int dir, const char *name, const struct stat *st, int flags);

/* A name that cannot be packed. */
struct fs_walk_problem {
  char *path;
  const char *what;
  bool dir; /* it is among the items, and what is below it is missing */
};
struct fs_walk_problems { /* of all threads, sorted by path */
  struct fs_walk_problem *all;
  size_t n;
};
int fs_walk_problem_order(const void *a, const void *b);
/* Names the first ten problems. Returns -EPERM, or 0 if there is none. */
fs_err fs_say_problems(const char *source, const struct fs_walk_problems *p);
/* Returns true if the path is, or is below, a directory that could not be read. */
bool fs_in_problem(const struct fs_walk_problems *p, const char *path);
/* With --keep-going: lists the problems as left out, and drops the directories that could not be read
   and all below them. */
fs_err fs_leave_out_problems(struct fs_tree *tree, uint32_t source, const struct fs_walk_problems *p);

#endif
