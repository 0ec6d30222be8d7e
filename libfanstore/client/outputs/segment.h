/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of several writers (outputs.h): what read.c, write.c and segments.c share. All of it is this process's
 * own; a forked child begins with nothing.
 */
#ifndef FS_CLIENT_OUTPUTS_SEGMENT_H
#define FS_CLIENT_OUTPUTS_SEGMENT_H

#include "client/outputs/outputs.h"

/* Is this node the home of a file that its programs made? Not when it was taken for dead, and another has what was
   replicated of it. */
static inline bool fs_output_home_here(const struct fs_node *node, uint64_t id) {
  bool out = (node->ctl->flags & FS_CTL_REPLICAS) && (fs_output_tree(node) & FS_TREE_UNKNOWN);
  return FS_OUTPUT_ID_RANK(id) == fs_names_rank(node) && !out;
}

#define FS_OUTPUT_RANGES 240u

/* What this process has written of one file. */
struct fs_output_writer {
  _Atomic uint32_t lock;
  _Atomic int32_t fd;        /* of the segment; + 1 */
  _Atomic uint32_t placed;   /* home has not heard of some bytes, nor made room for them */
  _Atomic uint64_t appended; /* by home, and not published yet (fs_appended_more) */
  _Atomic uint32_t failed;   /* to publish, the last time */
  uint64_t segment;          /* its id */
  uint32_t count;            /* ranges not published yet */
  _Atomic uint32_t sealed;   /* the first of them that are on their way */
  struct fs_range range[FS_OUTPUT_RANGES];
};

/* Beside a number: its writer, and the calls that have it in hand. NULL: no such number. */
struct fs_output_writing {
  void *_Atomic writer;
  _Atomic uint32_t uses; /* FS_WRITING_* and how many */
};
#define FS_WRITING_ENDS (1u << 31) /* none, and none is to begin before the writer is dropped */
#define FS_WRITING_LEFT (1u << 30) /* the last descriptor was closed meanwhile: the last call does the rest */
struct fs_output_writing *fs_output_writing(uint32_t entry);
uint64_t fs_output_id(uint32_t entry);
/* Is the byte at off in this process's segment, not published yet? *len is cut to how far that answer goes, and so many
   bytes are read then: *got as of pread. */
bool fs_output_unpublished(uint32_t entry, void *buf, uint64_t off, uint64_t *len, fs_ssize *got);
/* The end of what is not published yet; 0: there is nothing. */
uint64_t fs_output_written_end(uint32_t entry);
/* The last descriptor of this process is closed: its writer goes, unless another thread has opened the file meanwhile.
   What a call has in hand goes with that call. */
void fs_output_writer_end(uint32_t entry);
/* Descriptors of this process, as far as it knows. */
uint32_t fs_output_opens(uint32_t entry);
/* The last one was closed, and other processes may have some. */
void fs_output_keep(const struct fs_slot *s);
/* Home need not keep it for this process. */
void fs_output_forget(uint32_t entry);
/* Nor the segments of it that were read. */
void fs_output_forget_segments(uint32_t entry);
/* What home said last is not so any more: it is asked again before the next use. */
void fs_output_changed(uint32_t entry);
/* Before home cuts the file. */
fs_err fs_output_cut(uint32_t entry);

/* ---- read.c ---- */

/* What home said last: sizes of the whole and of home's backing file, whether bytes are elsewhere. Asks when nothing is
 * known.
 */
struct fs_output_whole {
  uint64_t size, own;
  uint64_t list; /* of segments: its number then */
  bool segments;
  bool any; /* also when the list becomes another one */
};
/* Is that home's list that goes with w? If not, the file is to be asked for again: of bytes that came to a segment
   since, older copies of it and of home's backing file know nothing. */
bool fs_output_list_is(uint32_t entry, struct fs_output_whole *w, uint64_t list);
/* Bytes of one backing file of another node: home's own, or a segment; in blocks of so many, none read ahead beyond
   `end`. -ESTALE: the file's extent map is not this one (0: whichever). */
struct fs_output_how {
  uint32_t block; /* FS_OUTPUT_BLOCK or FS_OUTPUT_GRAIN */
  uint64_t end, list;
};
fs_ssize fs_output_read_backing(uint32_t entry, void *buf, size_t n, uint64_t off, const struct fs_output_how *how);
/* Those of a segment as they were when the file itself was asked for last, or later: it may have been written anew. */
fs_ssize fs_output_read_segment(uint32_t entry, uint32_t segment, void *buf, size_t n, uint64_t off,
                                const struct fs_output_how *how);

/* ---- segments.c ---- */

/* n bytes at off, all of them before the end of the file, from wherever they are. -ESTALE: its list is another one. */
fs_ssize fs_output_read_segments(uint32_t entry, struct fs_output_whole *w, void *buf, size_t n, uint64_t off);

#endif
