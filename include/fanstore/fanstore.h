/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public functions of libfanstore.so, for programs that know the library. The library also
 * serves programs that do not call these functions: LD_PRELOAD is enough. A program that looks the
 * functions up with dlsym(RTLD_DEFAULT, ...) also runs without the library. docs/api.md has
 * examples in C and Python.
 *
 * Each function returns 0, a count or a negative errno, and does not change errno. The error -ENXIO
 * means that this process has no mounts. Any thread may call any function at any time, also in a
 * forked child. A path may be relative or lead through symlinks. No function starts a thread or
 * calls malloc. Only fanstore_prefetch waits. The first use of a mount in a process is the
 * exception: this use opens the dataset and connects to the daemon of the node.
 *
 * A structure begins with its size, which the caller sets. The library fills in only the fields
 * that both it and the caller know, and sets the size to what it filled in. New fields are added at
 * the end only. Text belongs to the library and stays valid until the process ends. Sizes are in
 * bytes.
 */
#ifndef FANSTORE_FANSTORE_H
#define FANSTORE_FANSTORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the library's version, "MAJOR.MINOR.PATCH". */
const char *fanstore_version(void);

/*
 * Returns 1 if this path is a mount or below one, even if the path does not exist; otherwise 0.
 * With 1, *mount and *dataset are set to the path of the mount and to the dataset's directory on
 * shared storage. Each of the two pointers may be NULL.
 */
int fanstore_mount_of(const char *path, const char **mount, const char **dataset);

/* Returns the node of this process, counted from 0, and stores the number of nodes in *nodes (may
   be NULL). Returns -ENOTCONN if the node has no daemon. */
int fanstore_node(uint32_t *nodes);

/* The places that bytes come from. Only counters use FANSTORE_CACHE. */
enum fanstore_place {
  FANSTORE_LOCAL = 0,  /* staged on this node */
  FANSTORE_CACHE = 1,  /* another node's bytes, from this node's cache */
  FANSTORE_REMOTE = 2, /* another node, by a message */
  FANSTORE_SHARED = 3, /* the dataset's directory on shared storage */
  FANSTORE_PLACES = 4
};

struct fanstore_info {
  uint32_t size;         /* set it to sizeof(struct fanstore_info) */
  uint32_t mode;         /* like st_mode of stat(2) */
  uint32_t place;        /* enum fanstore_place of the first block; never FANSTORE_CACHE */
  int32_t node;          /* the node that is asked first for the first block; -1: shared storage */
  int32_t partition;     /* of the first block; -1: an empty file or a directory */
  uint32_t block_size;   /* a file is stored in blocks of this size; the last one may be shorter */
  const char *mount;     /* path of the mount */
  const char *dataset;   /* directory of the dataset on shared storage */
  const char *codec;     /* "raw", "lz4", "zstd+dict+shuffle4"...: docs/api.md, user.fanstore.codec */
  uint64_t bytes;        /* size of the file, like st_size */
  uint64_t stored_bytes; /* sum of the blocks' stored sizes */
  uint64_t blocks;
  uint64_t blocks_local;  /* blocks that are staged on this node */
  uint64_t blocks_remote; /* blocks that are staged on other nodes */
  uint64_t blocks_cached; /* remote blocks that are in this node's cache now */
};
/* Fills in *info for a file, a directory or a symlink's target below a mount. Returns 0, -ENOENT,
   or -ENXIO if the path is outside every mount. */
int fanstore_info(const char *path, struct fanstore_info *info);

/*
 * Starts to fetch the n files that `paths` names into this node's cache, and does not wait for the
 * data. Local and shared files go to the page cache instead. At most 256 blocks of each file are
 * fetched.
 *
 * The result is the number of paths, from the first one on, that were handled. A path is handled if
 * its file is on the way or already there, or if the path is no file below a mount. *started (may
 * be NULL) is the number of handled paths that are files. If the result is below n, the node's
 * queue (16,384 blocks) is full and did not move for 50 ms: call again later with the rest.
 *
 * A prefetch is a hint. Reads take priority over it, and errors of the data are not reported here.
 * If the cache is small, fetched data may be evicted before it is read.
 */
int64_t fanstore_prefetch(const char *const *paths, size_t n, size_t *started);

struct fanstore_stats {
  uint32_t size;                   /* set it to sizeof(struct fanstore_stats) */
  uint32_t clients;                /* processes that connected to the node's daemon, even if ended
                                    */
  uint64_t opens;                  /* opens of the datasets' regular files */
  uint64_t stats;                  /* stat calls of any kind */
  uint64_t files[FANSTORE_PLACES]; /* opened files, by the place that served their first read */
  uint64_t bytes[FANSTORE_PLACES]; /* bytes that the program got, by place */
  uint64_t blocks[FANSTORE_PLACES];
  uint64_t fallbacks;    /* blocks read from shared storage because a node did not deliver them */
  uint64_t errors;       /* reads that ended in EIO */
  uint64_t materialized; /* files written out whole, for mmap or exec */
  /* The fields that follow are of the node only. */
  uint64_t served, served_bytes;      /* blocks sent to other nodes */
  uint64_t fetched, fetched_bytes;    /* blocks received from other nodes */
  uint64_t prefetched;                /* received blocks that only a prefetch asked for so far */
  uint64_t prefetch_waiting;          /* blocks in the queue now */
  uint64_t evictions;                 /* from the cache */
  uint64_t timeouts, checksum_errors; /* a process counts checksum errors of its own reads */
  uint64_t dropped;                   /* malformed or late messages of other nodes */
};
enum fanstore_whose { FANSTORE_PROCESS = 0, FANSTORE_NODE = 1 };
/*
 * Fills in *stats. FANSTORE_PROCESS gives the counters of this process since its start; a forked
 * child starts with zeros. FANSTORE_NODE gives the sum over the daemon and all processes of the job
 * on this node, up to 100 ms old. Returns 0, -EINVAL, or -ENOTCONN for FANSTORE_NODE without a
 * daemon.
 */
int fanstore_stats(int whose, struct fanstore_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
