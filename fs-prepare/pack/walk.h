/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The walk of one directory SOURCE. Its threads share two stacks of tasks under one mutex. If several
 * nodes pack, the lead hands tasks to the others too, and adds what they found as a further walker
 * (fs-prepare/nodes/walk.c). There, the functions `report` and `give` pass on what is found.
 */
#ifndef FS_PREPARE_WALK_H
#define FS_PREPARE_WALK_H

#include <pthread.h>

#include "links.h"

#define FS_WALK_NAMES 128u /* names in a task of names */

/* A directory that is to be walked, or some of its names. */
struct fs_walk_task {
  char *path;  /* of the directory, below SOURCE; from malloc */
  char *names; /* NULL: all; else each with its NUL, from malloc */
  size_t size; /* bytes of `names` */
  uint16_t depth;
  bool replicate;
  bool followed;                   /* its path contains a followed symlink */
  bool here;                       /* the lead walks it: it may be on another device than SOURCE */
  size_t region;                   /* length of the path of its region (links.c) */
  const struct fs_ancestor *chain; /* itself and its ancestors; NULL: no symlink is followed */
};

struct fs_walk_stack {
  struct fs_walk_task *task;
  size_t n, room;
};

struct fs_msg;
struct fs_walk;
struct fs_walker {
  struct fs_walk *walk;
  struct fs_items items;
  struct fs_arena text; /* of the items */
  struct fs_walk_problem *problems;
  size_t nproblems, problem_room;
  struct fs_ancestor *ancestors;
  uint64_t excluded;          /* names that match --exclude */
  uint64_t symlinks, outside; /* symlinks seen; those that lead out and are packed unchanged */
  char *example;              /* the first path of `outside` */
  struct fs_msg *out;         /* of a node that walks for the lead */
};

struct fs_walk {
  const struct fs_pack_options *o;
  struct fs_tree *tree;
  const struct fs_source *source;
  uint32_t number; /* of the source */
  int root;
  dev_t dev; /* of the source */
  uid_t user;
  struct fs_links links;
  pthread_mutex_t lock;
  pthread_cond_t more;
  struct fs_walk_stack open, here; /* tasks for any node; those that only the lead may take */
  unsigned busy;                   /* tasks that are being walked, here and elsewhere */
  fs_err err;                      /* stops all threads */
  unsigned jobs;
  struct fs_walker *walkers; /* jobs + 1: the last one is for what other nodes found */
  /* On a node that walks for the lead: takes what a walker has, after each name, and at the end of a
     task; and takes a task that was found. The lead has none. */
  fs_err (*report)(struct fs_walker *w, bool end);
  fs_err (*give)(struct fs_walker *w, const char *path, const struct fs_walk_task *task);
};

/* Prepares a walk of an open source. Returns 0 or a negative errno. Release with fs_walk_close. */
fs_err fs_walk_open(struct fs_walk *walk, const struct fs_pack_options *o, struct fs_tree *tree, uint32_t source);
void fs_walk_close(struct fs_walk *walk);
/* Walks with threads until no task is left, or walk->err is set. */
void fs_walk_threads(struct fs_walk *walk);
/* Stops all threads, if nothing has. */
void fs_walk_stop(struct fs_walk *walk, fs_err err);
/* Adds a task; path and names are copied. Any thread. Returns 0 or -ENOMEM. */
fs_err fs_walk_push(struct fs_walk *walk, const char *path, const struct fs_walk_task *task);
/* Pushes a task that a walker found, or gives it back to the lead. */
fs_err fs_walk_hand_out(struct fs_walker *w, const char *path, const struct fs_walk_task *task);
void fs_walk_task_free(struct fs_walk_task *task);
/* Adds an item, whose path in the source is copied. Its target is in w->text. */
fs_err fs_walk_add_item(struct fs_walker *w, const struct fs_item *item);
/* Adds the item of a directory, file or symlink. `in` has its depth. */
fs_err fs_walk_add_stat(struct fs_walker *w, const struct stat *st, const char *path, char *target,
                        const struct fs_walk_task *in);
/* Adds a problem. `what` must stay. dir: it is a directory that is an item already. */
fs_err fs_walk_add_problem(struct fs_walker *w, const char *path, const char *what, bool dir);
/* Counts a symlink that leads out of SOURCE. */
fs_err fs_walk_add_outside(struct fs_walker *w, const char *path);
/* Returns a path of the source as a path of the dataset, from malloc, or NULL. */
char *fs_walk_in_dataset(const struct fs_walk *walk, const char *path);
/* Returns the number of components of a path of the source in the dataset. */
uint16_t fs_walk_depth(const struct fs_walk *walk, const char *path);
/* visit.c. Handles one name in a directory: adds an item or a problem, or nothing if the name is excluded. */
fs_err fs_walk_visit(struct fs_walker *w, int dir, const char *name, const char *path, const struct fs_walk_task *in);
/* Visits the names of --files-from (listed.c). */
fs_err fs_walk_listed(struct fs_walker *w);

#endif
