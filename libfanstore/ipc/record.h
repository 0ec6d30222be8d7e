/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of output files, and the ids by which clients and daemons know them. A record is one name
 * in one directory. Records travel in the bodies of calls and answers (ipc/call.h): little-endian,
 * without pointers. A receiver reads them only by fs_record_next, which checks them. No state.
 */
#ifndef FS_IPC_RECORD_H
#define FS_IPC_RECORD_H

#include <assert.h>
#include <limits.h>
#include <sys/stat.h>

#include "util/base.h"

/* Most bytes of a call or an answer: a call with two of the longest names, or as many records as
   fit. */
#define FS_NAMES_BODY 16384u
#define FS_RECORD_NAME_MAX 255u
#define FS_RECORD_TARGET_MAX (PATH_MAX - 1)
#define FS_RECORD_SEQ_MAX (1ull << 40) /* positions in a directory are offsets of 47 bits */
#define FS_NSEC 1000000000u

/* The id of a dataset's directory, or of an output directory's record. 0: none. */
#define FS_OUTPUT_ID (1ull << 62)
#define FS_OUTPUT_ID_RANK(id) ((uint32_t)((id) >> 48) & 0x3fffu)
#define FS_OUTPUT_ID_MAKE(rank, count) (FS_OUTPUT_ID | (uint64_t)(rank) << 48 | ((count) & ((1ull << 48) - 1)))
/* A client makes the ids of its own files: bit 47, its channel's number (19 bits), then a count.
   The daemon tells the client its first id. Ids without bit 47 are the daemon's own. */
#define FS_OUTPUT_ID_CLIENTS (1u << 19)
#define FS_OUTPUT_ID_FILES (1u << 28)
#define FS_OUTPUT_ID_FIRST(rank, client) FS_OUTPUT_ID_MAKE(rank, 1ull << 47 | (uint64_t)(client) << 28)
#define FS_DATASET_DIR(dataset, entry) ((uint64_t)((dataset) + 1) << 32 | (entry))
/* Returns true if `id` can be the id of a file, a directory or a symlink. */
static inline bool fs_id_ok(uint64_t id) {
  return (id & FS_OUTPUT_ID) && id >> 63 == 0;
}
/* Returns true if `dir` can be the id of a directory. */
static inline bool fs_dir_ok(uint64_t dir) {
  return dir != 0 && dir >> 63 == 0;
}

/* The file with an output's bytes, below the daemon's backing directory (fs_ctl.backing). */
#define FS_OUTPUT_DIR "out"
#define FS_OUTPUT_FILE FS_OUTPUT_DIR "/%016llx"
/* Below fs_ctl.backing: node-local names, in one directory for each directory id; names that are
   being made; symlinks to the paths that sockets were bound to. */
#define FS_NL_DIR "node-local"
#define FS_NL_NEW FS_NL_DIR "/new"
#define FS_NL_PATHS FS_NL_DIR "/paths"

/* Returns the bit of a directory in the bitmap of directories that may have outputs
   (fs_ctl.outputs). */
#define FS_MARK_BITS 65536u
static inline uint32_t fs_mark_bit(uint64_t dir) {
  dir = (dir ^ dir >> 31) * 0x9e3779b97f4a7c15ull;
  return (uint32_t)(dir >> 48);
}

/* Returns the bit of a name in the bitmap of a dataset's names that were taken (fs_ctl.taken_names). */
#define FS_TAKEN_BITS (1u << 19)
uint32_t fs_taken_bit(uint64_t dir, const char *name, size_t len);

/* The bitmap of directories that may have node-local names (fs_ctl.node_local), and its flags. */
#define FS_NL_BITS 4096u
#define FS_NL_NAMES 1u     /* this node has such names */
#define FS_NL_SHADOWS 2u   /* one of them is also a name in the dataset */
#define FS_NL_TAKEN 4u     /* with --overlay: a dataset's name was taken */
#define FS_NODE_LOCALS 32u /* patterns of --node-local */
#define FS_NL_GLOBS 1024u  /* bytes of all patterns, each with its NUL, and one more NUL */
static inline uint32_t fs_nl_bit(uint64_t dir) {
  return fs_mark_bit(dir) % FS_NL_BITS;
}

/* ---- records ---- */

enum fs_record_flags {
  FS_RECORD_PUBLISHED = 1, /* size, times and mode are as last published; else the home knows them */
  FS_RECORD_SHARED = 2,    /* several nodes have segments of the contents */
  FS_RECORD_STAGED_IN =
      4, /* from --stage-in's directory, unchanged; a file's backing file at home is a link to the original */
  FS_RECORD_TAKEN = 16, /* the dataset has this name too (--overlay) */
  FS_RECORD_TIMED = 8,  /* of a directory, in an answer: its times include changes in it
                          (fs_record_changed); size: number of output directories in it */
};

/* One name. The name and, for a symlink, the target follow, then zeros to a multiple of 8 bytes. */
struct fs_record {
  uint64_t id;
  uint64_t dir;
  uint64_t seq;     /* position in the directory's order; never 0 in a directory */
  uint64_t version; /* of the contents; of a directory: the last change (TIMES) before its times
                       were set */
  uint64_t size;
  int64_t mtime, ctime; /* seconds */
  uint32_t mtime_ns, ctime_ns;
  uint32_t mode; /* with the type: S_IFREG, S_IFDIR, S_IFLNK or FS_WHITEOUT */
  uint32_t home; /* rank */
  uint32_t flags;
  uint16_t name_len, target_len;
};
static_assert(sizeof(struct fs_record) == 80, "fs_record is 80 bytes");

static inline const char *fs_record_name(const struct fs_record *r) {
  return (const char *)(r + 1);
}
static inline const char *fs_record_target(const struct fs_record *r) {
  return (const char *)(r + 1) + r->name_len;
}
static inline size_t fs_record_size(const struct fs_record *r) {
  return fs_round_up(sizeof(*r) + r->name_len + r->target_len, 8);
}

/* The mode of a whiteout: the record of a dataset's name that was removed (docs/internals/overlay.md). */
#define FS_WHITEOUT S_IFCHR
static inline bool fs_is_whiteout(const struct fs_record *r) {
  return S_ISCHR(r->mode);
}

/* Returns true if a file can have this name: 1 to 255 bytes, no slash, no NUL, not "." or "..". */
bool fs_name_ok(const char *name, size_t len);
/* Returns true if a symlink can have this target: no NUL, not too long. */
bool fs_target_ok(const char *target, size_t len);
/* Returns true if `mode` is permissions and one of the three types of a record. */
bool fs_mode_ok(uint32_t mode);
/* Returns the record at *at of a body of n bytes and advances *at. Returns NULL if it is not whole
   and valid. */
const struct fs_record *fs_record_next(const void *body, size_t n, size_t *at);
/* Writes a record, with this name and target of the lengths in *r, at *at of a body of n bytes, and
   advances *at. Returns false if there is no room. */
bool fs_record_put(void *body, size_t n, size_t *at, const struct fs_record *r, const char *name, const char *target);

/* ---- listings ---- */

/* One name in an answer to LIST. The name follows, then zeros to a multiple of 8 bytes. */
struct fs_listed {
  uint64_t id;
  uint64_t seq;
  uint32_t mode;
  uint16_t name_len;
  uint16_t flags; /* FS_RECORD_TAKEN or 0 */
};
static_assert(sizeof(struct fs_listed) == 24, "fs_listed is 24 bytes");
#define FS_LISTED_MOST 280u /* bytes of the longest one */

/* Writes what a listing says of a record at *at of a body of n bytes, and advances *at. Returns
   false if there is no room. */
bool fs_listed_put(void *body, size_t n, size_t *at, const struct fs_record *r);
/* Copies what is at *at of a body of n bytes to *out, and advances *at. Returns its name, in the
   body, or NULL if it is not whole and valid. */
const char *fs_listed_next(const void *body, size_t n, size_t *at, struct fs_listed *out);

/* ---- times ---- */

/* Least distance in ns of two changes in a directory. Half of it is still visible in a double. */
#define FS_CHANGED_STEP 1000u
/* Returns the time in ns since 1970 by the clock with which the kernel stamps files. Whatever is
   compared with a directory's changes (its creation, its times being set) is stamped by this
   clock. */
uint64_t fs_changed_clock(void);
static inline void fs_stamp(uint64_t ns, int64_t *sec, uint32_t *rest) {
  *sec = (int64_t)(ns / FS_NSEC);
  *rest = (uint32_t)(ns % FS_NSEC);
}
/* Applies the last change of names in a directory to the directory's record. Times that were set
   hold until the next change. */
static inline void fs_record_changed(struct fs_record *r, uint64_t changed) {
  int64_t sec;
  uint32_t ns;
  if (changed <= r->version) return;
  fs_stamp(changed, &sec, &ns);
  r->mtime = sec;
  r->mtime_ns = ns;
  if (r->ctime > sec || (r->ctime == sec && r->ctime_ns > ns)) return;
  r->ctime = sec;
  r->ctime_ns = ns;
}

#endif
