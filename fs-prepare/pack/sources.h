/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the items of a pack come from: directories and archives, each at a prefix of the dataset.
 *
 * A SOURCE is read in one of three ways. The files of a directory are opened by their names. A tar
 * archive that is not compressed is one file in which each member has its place (FLAT). The members
 * of any other archive come as a stream, in the archive's order (STREAM, archive_read.c).
 */
#ifndef FS_PREPARE_SOURCES_H
#define FS_PREPARE_SOURCES_H

#include "../prepare.h"
#include "util/arena.h"

struct fs_pack_options;
struct fs_tree;
struct fs_item;
struct fs_plan;
struct fs_batch;

enum fs_source_kind { FS_SOURCE_DIR, FS_SOURCE_FLAT, FS_SOURCE_STREAM };

/* A SOURCE of the command line. */
struct fs_source_arg {
  const char *path;
  const char *prefix; /* from --source PREFIX=PATH; NULL: a word */
};

/* The first bytes of a member of an archive. */
struct fs_begin {
  uint64_t member; /* its number */
  uint8_t *bytes;  /* from malloc */
  size_t n;        /* > 0 */
};
struct fs_begins {
  struct fs_begin *list; /* by ascending number */
  size_t n, room;
  uint64_t bytes, most; /* bytes of all, and how many they may be */
  uint64_t step;        /* one member in so many is kept */
};
/* Makes room for the first n bytes of a member, all zeros, if they are to be kept; else *begin becomes NULL.
   The numbers of the members ascend. Returns 0 or -ENOMEM. */
fs_err fs_begins_add(struct fs_begins *b, uint64_t member, size_t n, struct fs_begin **begin);
/* Returns the beginning of a member, or NULL. */
const struct fs_begin *fs_begins_find(const struct fs_begins *b, uint64_t member);
void fs_begins_free(struct fs_begins *b);

struct fs_stream;
struct fs_source {
  const char *path;      /* as the user gave it */
  char prefix[PATH_MAX]; /* the dataset's directory with the names of this source; "": its root */
  size_t skip;           /* bytes of an item's path before its path in this source */
  enum fs_source_kind kind;
  int fd;                   /* of the directory or archive */
  bool tar;                 /* of an archive */
  int filter;               /* of an archive: libarchive's number of how it is compressed */
  bool untested;            /* its own program does not test it: who reads it has checksums of its own */
  struct stat st;           /* of an archive */
  struct fs_stream *stream; /* for STREAM: its state in the second pass */
  uint64_t last;            /* for STREAM: the last member that is read; after it the decoder's memory is freed */
  struct fs_begins begins;  /* for STREAM and --codec auto, until the codecs are chosen */
};

/* Opens all sources. Returns 0, or a negative errno after one line on stderr. */
fs_err fs_sources_open(const struct fs_pack_options *o, struct fs_tree *tree);
/* Collects the items of all sources in tree->items, in no order. Returns 0, or a negative errno
   after one or more lines on stderr. */
fs_err fs_sources_collect(const struct fs_pack_options *o, struct fs_tree *tree);
void fs_sources_close(struct fs_tree *tree);
/* Sets the prefix of each source. Returns 0, or -ENAMETOOLONG. */
fs_err fs_source_prefix(const struct fs_pack_options *o, const struct fs_source_arg *arg, char *prefix, size_t size);
/* Returns the length of a path without a suffix of archives, such as ".tar.gz". */
size_t fs_archive_stem(const char *path);

/* Returns the number of a path's components. */
uint16_t fs_path_depth(const char *path);
/* Compares paths so that what is in a directory comes immediately after it. */
int fs_path_compare(const char *a, const char *b);

/* Items that are being collected. */
struct fs_items {
  struct fs_item *item;
  size_t n, room;
};

/* Names that cannot be packed. */
struct fs_problem {
  char *path;
  char *what;
};
struct fs_problems {
  struct fs_problem *problem;
  size_t n, room;
};
/* Adds a problem, with a copy of both texts. Returns 0 or -ENOMEM. */
fs_err fs_problems_add(struct fs_problems *p, const char *path, const char *what);
void fs_problems_free(struct fs_problems *p);
/* Prints the first ten in the order of their paths, and how many more there are. Frees them. */
void fs_problems_say(struct fs_problems *p, const char *source);

/* What the first pass over an archive found. */
struct fs_scan {
  struct fs_items items;
  struct fs_arena text; /* of the items */
  struct fs_problems problems;
  uint64_t replaced; /* members that a later one of the same name replaced */
  uint64_t absolute; /* names that began with '/' */
  uint64_t excluded; /* names that match --exclude */
  fs_err err;
  struct fs_progress *progress; /* it counts the members; NULL: none */
  _Atomic bool stop;            /* set by another thread: ends the scan with -EINTR */
};
#define FS_ARCHIVE_DEVICE(number) (UINT32_MAX - (number)) /* no device of Linux has a number with these upper bits */
/* Returns 1 if the open file is an archive, and sets the source's kind; 0 if it is none, with the reason, or
   -ENOMEM. */
int fs_archive_probe(struct fs_source *src, char *why, size_t size);
/* Returns true if an archive is that of an earlier look: a file of the same size and time. */
static inline bool fs_source_same(const struct stat *now, const struct stat *then) {
  return S_ISREG(now->st_mode) && now->st_size == then->st_size && now->st_mtim.tv_sec == then->st_mtim.tv_sec &&
         now->st_mtim.tv_nsec == then->st_mtim.tv_nsec;
}
/* Returns how many bytes of beginnings of an archive's members are kept. */
uint64_t fs_archive_begins(const struct fs_pack_options *o, uint32_t number);
/* Reads all headers of an archive. If a FLAT one has a sparse member, it becomes a STREAM. For a compressed one this
   decompresses all of it. The result is in out->err: 0, -ENOMEM or -EINTR. Any thread, one for each archive. */
void fs_archive_scan(const struct fs_pack_options *o, struct fs_source *src, uint32_t number, struct fs_scan *out);

/* Returns the stream that an item comes from, or NULL if it can be opened. */
struct fs_stream *fs_item_stream(const struct fs_tree *tree, const struct fs_item *item);
fs_err fs_stream_open(struct fs_source *src);
void fs_stream_close(struct fs_stream *s);
/* Returns the number of the next turn at a stream. The batches must take their numbers in the order of the
   plan, one at a time: the pipeline with its lock, or the main thread of the node that reads the stream. */
uint64_t fs_stream_turn(struct fs_stream *s);
/* Waits for the batch's turn, and reads the plain bytes of its chunks one behind the other. Sets
   batch->err and batch->n like fs_encode_batch. Chooses the codec of large files at their begin.
   Any thread. */
void fs_stream_read(const struct fs_plan *plan, struct fs_batch *batch, uint8_t *plain);
/* Ends all turns, if a claimed batch is never read. */
void fs_stream_fail(struct fs_stream *s, fs_err err);
/* The reason for -EBADMSG, and how the lead takes it over from the node that has read the stream. */
const char *fs_stream_why(const struct fs_stream *s);
void fs_stream_because(struct fs_stream *s, const char *why);
/* Prints one line about an error of fs_stream_read. */
void fs_stream_say(const struct fs_source *src, const struct fs_item *item, fs_err err);

/* --files-from: the names, sorted so that a directory comes before what is in it, each once. */
struct fs_names {
  char *text;
  char **name;
  size_t n;
};
/* Reads the names. Returns 0, or a negative errno after one line on stderr. */
fs_err fs_names_read(const char *file, bool null, struct fs_names *names);
void fs_names_free(struct fs_names *names);

#endif
