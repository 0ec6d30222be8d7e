/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of an output file whose home is this node (docs/internals/several-writers.md): its own
 * backing file, and segments in other backing files, here or on other nodes. For copying the whole
 * file from the beginning to the end. One thread uses a source, not the MPI thread, which provides
 * the extent map.
 */
#ifndef FS_DAEMON_OUTPUTS_SOURCE_H
#define FS_DAEMON_OUTPUTS_SOURCE_H

#include <sys/stat.h>

#include "daemon/core/inside.h"

#define FS_SOURCE_BYTES FS_INSIDE_BYTES

/* A copy of the extent map, made by the MPI thread. */
struct fs_scattered {
  struct fs_output_extent *extent; /* allocated */
  uint32_t count;
  uint64_t changes; /* version of the extent map when it was copied */
  bool linked;      /* home's backing file is a link to a staged-in file */
};

struct fs_source_segment;
struct fs_source {
  const struct fs_daemon *d;
  struct fs_inside *in; /* NULL if no segments are on other nodes */
  const struct fs_scattered *scattered;
  int fd; /* home's backing file */
  struct stat st;
  bool open; /* somebody had it open for writing when it was opened here */
  uint64_t size;
  uint32_t next; /* next extent */
  struct fs_source_segment *segment;
  uint32_t segments;
};

/* Opens a file. flags is O_RDONLY, or O_RDWR if the caller writes the segments into home's
   backing file. */
fs_err fs_source_open(struct fs_source *s, const struct fs_daemon *d, struct fs_inside *in, uint64_t id, int flags,
                      const struct fs_scattered *scattered);
/* Reads up to n bytes (at most FS_SOURCE_BYTES) at an offset below the size, at least one. If
 *hole is set, they are zeros that take no room, and buf is not filled. */
fs_ssize fs_source_read(struct fs_source *s, void *buf, size_t n, uint64_t at, bool *hole);
/* fs_source_same returns 0, or -EAGAIN if home's backing file or a segment that was read has
   changed since its opening. fs_source_same_segments checks only the segments. */
fs_err fs_source_same(struct fs_source *s);
fs_err fs_source_same_segments(struct fs_source *s);
/* Returns true if somebody has home's backing file open for writing, or mapped. Writes through a
   mapping may leave its times as they were. */
bool fs_source_written(const struct fs_source *s);
void fs_source_close(struct fs_source *s);

#endif
