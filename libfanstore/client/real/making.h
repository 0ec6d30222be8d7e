/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Real files that are made of a dataset's entry: what materialize.c, copies.c, alone.c and remap.c
 * share. Private to them. docs/internals/read-path.md, "Real files", says who writes what, and what a process
 * that dies leaves behind.
 */
#ifndef FS_CLIENT_REAL_MAKING_H
#define FS_CLIENT_REAL_MAKING_H

#include "client/data_priv.h"
#include "ipc/alone.h"

struct fs_making {
  struct fs_dataset *ds;
  uint32_t entry;
  uint32_t number; /* of the dataset, in names; 0 in a directory of this dataset alone */
  uint64_t size;
  mode_t mode;
  int32_t progress; /* a file whose length tells others how far a whole copy is; -1: nobody waits */
  bool unreadable;  /* the data itself cannot be read: another place to write to does not help */
};

struct fs_map_range {
  uint64_t from, to; /* of the file */
};

#define FS_MADE_WHOLE 'm'  /* endings of names in the backing directory: a whole file */
#define FS_MADE_MAPPED 'c' /* a file of which some chunks are filled */
#define FS_MADE_MARKS 'b'  /* which chunks are filled */
#define FS_MADE_LOCK 'w'   /* the lock of the process that makes the whole file */

/* Prepares to make a regular file of the dataset. Errors are those of fs_data_map. */
fs_err fs_making_set(struct fs_making *m, uint32_t mount, uint32_t entry);
/* Writes the file's bytes [from, to) to the same place of fd. */
fs_err fs_making_fill(struct fs_making *m, int fd, uint64_t from, uint64_t to);
/* Writes the name <dir>/<number of the dataset>-<entry>[-<inode>-<born>].<ending> to out. `of` is
   the file whose inode and creation time (ns; 0: the file system does not say) are in the name, or
   NULL. */
struct fs_made_of {
  uint64_t inode, born;
};
fs_err fs_making_path(const struct fs_making *m, const char *dir, const struct fs_made_of *of, char ending, char *out);
/* Opens a made file for reading. Returns -EUCLEAN if it is not this user's or has another size. */
fs_fd fs_making_open(const struct fs_making *m, const char *path);
/* Sets the entry that a made file's name, without an inode, stands for, and returns whether it is
   such a name. The file may lie in the job's backing directory, in the one in memory, or in a
   directory of processes without a daemon. */
bool fs_made_name(const char *path, char ending, uint32_t *mount, uint32_t *entry);
/* Returns whether this error says that there is no room. */
static inline bool fs_is_full(fs_err err) {
  return err == -ENOSPC || err == -EDQUOT || err == -EFBIG;
}

/* ---- alone.c ---- */

/* Returns the directory that processes without a daemon share for this dataset, below
   fs_alone_base(base). The directory stays locked until this process ends. Returns NULL if there is
   none or it cannot be used. */
const char *fs_alone_get(struct fs_dataset *ds, unsigned base);

/* ---- copies.c ---- */

#define FS_CLAIM_NAP_NS 2000000l
/* A waiter gives up on the holder of a claim after so many naps without any progress. */
#define FS_CLAIM_TURNS 5000u
/* Claims one byte of a file. The kernel drops the claim when its holder dies. Returns -EAGAIN if
   another process has it. */
fs_err fs_claim(int fd, uint64_t byte);
void fs_unclaim(int fd, uint64_t byte);
void fs_claim_nap(void);
/* Returns 0, or -ENOSPC if there is no room for so many bytes in the directory's file system, or in
   the node's memory if the directory lies there. */
fs_err fs_copies_room(const struct fs_node *node, const char *dir, uint64_t bytes);
/* Returns a read-only descriptor of the node's copy in this directory, in which [from, to) of the
   file is filled. */
fs_fd fs_copies_get(struct fs_making *m, const char *dir, uint64_t from, uint64_t to);

/* ---- remap.c ---- */

/* Not 0 if this process has mapped a copy that may not be whole. */
extern FS_INTERNAL _Atomic uint32_t fs_copies_mapped;

#endif
