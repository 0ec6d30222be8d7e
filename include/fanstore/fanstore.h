/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What libfanstore.so offers to programs that know of it. None need to: the library works on unmodified programs by
 * LD_PRELOAD. Look the functions up with dlsym(RTLD_DEFAULT, ...), so that a program also runs without it; docs/api.md
 * has examples in C and Python.
 *
 * Results: 0 or a count, or a negative errno (-ENXIO: this process has no mounts); errno itself is not changed.
 * All functions may be called from any thread at any time, also at once, in forked children, and with paths that are
 * relative, or lead through symlinks. None starts a thread or allocates by malloc; none but fanstore_prefetch waits,
 * except that the first use of a mount in a process opens the dataset and meets the node's daemon.
 *
 * A structure begins with its size, which the caller sets: a newer library fills in what the caller knows, an older one
 * what it knows itself, and sets the size to that. Fields are only ever added at the end. Text belongs to the library
 * and stays valid until the process ends. Sizes are in bytes.
 */
#ifndef FANSTORE_FANSTORE_H
#define FANSTORE_FANSTORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, "MAJOR.MINOR.PATCH". */
const char *fanstore_version(void);

/*
 * Is this path below a mount (or the mount itself)? 1, also when nothing of that name is there; 0: no. With 1, *mount
 * and *dataset (each may be NULL) are the mount's path and the dataset's directory on shared storage.
 */
int fanstore_mount_of(const char *path, const char **mount, const char **dataset);

/* This process's node, from 0 on, and the number of nodes in *nodes (may be NULL). -ENOTCONN: no daemon. */
int fanstore_node(uint32_t *nodes);

/* Where bytes come from. FANSTORE_CACHE is used in counters only: other nodes' data in this node's cache. */
enum fanstore_place {
  FANSTORE_LOCAL = 0,  /* staged on this node */
  FANSTORE_CACHE = 1,  /* of another node, in this node's cache */
  FANSTORE_REMOTE = 2, /* another node, by a message */
  FANSTORE_SHARED = 3, /* the dataset's directory on shared storage */
  FANSTORE_PLACES = 4
};

struct fanstore_info {
  uint32_t size;       /* set it to sizeof(struct fanstore_info) */
  uint32_t mode;       /* as st_mode of stat(2) */
  uint32_t place;      /* enum fanstore_place, of the file's first block; not FANSTORE_CACHE */
  int32_t node;        /* the node that is asked first for that block: this one where it is local; -1: shared storage */
  int32_t partition;   /* of the first block; -1: an empty file, a directory */
  uint32_t block_size; /* a file is stored in blocks of so many bytes, the last one shorter */
  const char *mount;   /* path of the mount */
  const char *dataset; /* directory of the dataset on shared storage */
  const char *codec;   /* "raw", "lz4" */
  uint64_t bytes;      /* of the file, as st_size */
  uint64_t stored_bytes; /* as stored, sum over the blocks */
  uint64_t blocks;
  uint64_t blocks_local;  /* of them: staged on this node */
  uint64_t blocks_remote; /* staged on other nodes */
  uint64_t blocks_cached; /* of the remote ones: in this node's cache at this moment */
};
/* About a file, directory or symlink's target below a mount. -ENOENT; -ENXIO also for a path outside every mount. */
int fanstore_info(const char *path, struct fanstore_info *info);

/*
 * Starts to fetch the files that `paths` names, n of them, into this node's cache (of local and shared files: into the
 * page cache), and does not wait for the data. Of one file at most 256 blocks are fetched. The result is how many paths
 * from the first one on were dealt with: their files are on the way, or there already, or they are no files below a
 * mount, which are passed over; *started (may be NULL) is the number of those that are files. A result below n means
 * that the node's queue (16,384 blocks) is full and did not move for 50 ms: call again with the rest, later. What is
 * fetched ahead may be evicted before it is read when the cache is small; reads go before it. It is a hint: errors of
 * the data are not seen here.
 */
int64_t fanstore_prefetch(const char *const *paths, size_t n, size_t *started);

struct fanstore_stats {
  uint32_t size;                   /* set it to sizeof(struct fanstore_stats) */
  uint32_t clients;                /* of the node: processes that have met the daemon, ended ones too */
  uint64_t opens;                  /* of the datasets' regular files */
  uint64_t stats;                  /* stat calls of any kind */
  uint64_t files[FANSTORE_PLACES]; /* opened files by where their first read was served */
  uint64_t bytes[FANSTORE_PLACES]; /* given to the program */
  uint64_t blocks[FANSTORE_PLACES];
  uint64_t fallbacks;    /* blocks from shared storage, after a node did not give them */
  uint64_t errors;       /* reads that ended in EIO */
  uint64_t materialized; /* files written out whole, for mmap or exec */
  /* Of the node only: */
  uint64_t served, served_bytes;      /* blocks given to other nodes */
  uint64_t fetched, fetched_bytes;    /* blocks got from other nodes */
  uint64_t prefetched;                /* of them: asked for by a prefetch and not yet by a read */
  uint64_t prefetch_waiting;          /* blocks in the queue now */
  uint64_t evictions;                 /* from the cache */
  uint64_t timeouts, checksum_errors; /* the latter of a process too: copies that it read itself */
  uint64_t dropped;                   /* messages of other nodes: not understood, or late */
};
enum fanstore_whose { FANSTORE_PROCESS = 0, FANSTORE_NODE = 1 };
/*
 * Counters since the process began (a forked child begins with zeros), or of all processes of this node's job and its
 * daemon, up to 100 ms old. -ENOTCONN: FANSTORE_NODE without a daemon; -EINVAL.
 */
int fanstore_stats(int whose, struct fanstore_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
