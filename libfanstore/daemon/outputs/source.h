/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of an output file of this node's, whoever wrote them (docs/internals/several-writers.md): its own backing
 * file, and the segments that are in other backing files, here or on other nodes. For copying all of it, from the
 * beginning to the end; by one thread, not the MPI thread, which says what is where.
 */
#ifndef FS_DAEMON_OUTPUTS_SOURCE_H
#define FS_DAEMON_OUTPUTS_SOURCE_H

#include <sys/stat.h>

#include "daemon/core/inside.h"

#define FS_SOURCE_BYTES FS_INSIDE_BYTES

/* What is not in home's backing file: a copy of the list, made by the MPI thread. */
struct fs_scattered {
  struct fs_output_extent *extent; /* allocated */
  uint32_t count;
  uint64_t changes; /* of the list, when it was copied */
  bool linked;      /* home's backing file is a link to --stage-in's file */
};

struct fs_source_segment;
struct fs_source {
  const struct fs_daemon *d;
  struct fs_inside *in; /* NULL: there are no segments on other nodes */
  const struct fs_scattered *scattered;
  int fd; /* home's backing file */
  struct stat st;
  bool open; /* for writing, by somebody, when it was opened here */
  uint64_t size;
  uint32_t next; /* extent */
  struct fs_source_segment *segment;
  uint32_t segments;
};

/* flags: O_RDONLY, or O_RDWR for who puts all of it into home's backing file. */
fs_err fs_source_open(struct fs_source *s, const struct fs_daemon *d, struct fs_inside *in, uint64_t id, int flags,
                      const struct fs_scattered *scattered);
/* Up to n bytes at an offset below the size (n: FS_SOURCE_BYTES at most), at least one. *hole: zeros that take no room,
   which are not put into buf. */
fs_ssize fs_source_read(struct fs_source *s, void *buf, size_t n, uint64_t at, bool *hole);
/* 0, or -EAGAIN: home's backing file, or one of the segments that were read, is not what it was at its opening. */
fs_err fs_source_same(struct fs_source *s);
fs_err fs_source_same_segments(struct fs_source *s);
/* Has somebody home's backing file open for writing, or mapped? One that is written through a mapping may stay as it
   was by its times. */
bool fs_source_written(const struct fs_source *s);
void fs_source_close(struct fs_source *s);

#endif
