/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of several writers (outputs.h): what read.c, write.c and segments.c share. All of it is
   this process's own; a forked child begins with nothing. */
#ifndef FS_CLIENT_OUTPUTS_SEGMENT_H
#define FS_CLIENT_OUTPUTS_SEGMENT_H

#include "client/outputs/outputs.h"

/* Returns whether this node is the home of a file that its programs made. It is not if the job took
   this node for dead, because another node then has what was replicated of the file. */
static inline bool fs_output_home_here(const struct fs_node *node, uint64_t id) {
  bool out = (node->ctl->flags & FS_CTL_REPLICAS) && (fs_output_tree(node) & FS_TREE_UNKNOWN);
  return FS_OUTPUT_ID_RANK(id) == fs_names_rank(node) && !out;
}

/* What this process has written of one file. */
struct fs_output_writer {
  _Atomic uint32_t lock;
  _Atomic int32_t fd;                /* of the segment, + 1; 0: none */
  _Atomic uint32_t placed;           /* there are bytes that home neither knows of nor made room for */
  _Atomic uint64_t appended;         /* home appended these bytes, not published yet (fs_appended_more) */
  _Atomic uint32_t failed;           /* the last attempt to publish failed */
  _Atomic uint32_t writes;           /* so many so far, */
  _Atomic uint32_t flushed, synced;  /* and before the last close or the like, the last fsync */
  uint64_t segment;                  /* id of the segment */
  struct fs_written *_Atomic ranges; /* in the channel: not published. NULL: each write publishes */
  struct fs_channel *channel;
  uint32_t number; /* of `ranges` in the channel */
  int32_t process; /* whose channel it is */
};

/* A file's writer, and the calls that use it. */
struct fs_output_writing {
  void *_Atomic writer;
  _Atomic uint32_t uses;  /* FS_WRITING_* and how many */
  _Atomic uint32_t locks; /* not 0: the process itself may own locks of the file (fcntl) */
};
#define FS_WRITING_ENDS (1u << 31) /* no call uses it; none may begin until the writer is dropped */
#define FS_WRITING_LEFT (1u << 30) /* the last descriptor was closed: the last call does the rest */
/* Returns what belongs to a number, or NULL if there is no such number. */
struct fs_output_writing *fs_output_writing(uint32_t entry);
uint64_t fs_output_id(uint32_t entry);
/* Returns a number that changes when the daemon publishes what this process has written. */
uint32_t fs_output_published(uint32_t entry);
/* Reads the bytes at off if they are in this process's segment and not published yet, and returns
   whether they are. Cuts *len to how far that answer goes. *got is what pread returned, or -ESTALE
   if bytes may have been published since the caller learned `w` from the home. */
struct fs_output_whole;
bool fs_output_unpublished(uint32_t entry, const struct fs_output_whole *w, void *buf, uint64_t off, uint64_t *len,
                           fs_ssize *got);
/* Returns the end of what is not published yet, or 0. */
uint64_t fs_output_written_end(uint32_t entry);
/* Drops this process's writer after its last descriptor was closed, unless another thread has
   opened the file meanwhile. A writer that a call uses goes at the end of that call. */
void fs_output_writer_end(uint32_t entry);
/* Returns how many descriptors of the file this process has, as far as it knows. */
uint32_t fs_output_opens(uint32_t entry);
/* Keeps the file open at home for other processes, after this process's last descriptor of it was
   closed. */
void fs_output_keep(const struct fs_slot *s);
/* Tells home that it need not keep the file for this process. */
void fs_output_forget(uint32_t entry);
/* Tells the homes of the file's segments that they need not keep them for this process. */
void fs_output_forget_segments(uint32_t entry);
/* Makes the next use ask home again, because its last answer is out of date. */
void fs_output_changed(uint32_t entry);
/* Publishes what this process has written, before home cuts the file. */
fs_err fs_output_cut(uint32_t entry);

/* ---- write.c, for append.c ---- */

/* Returns this process's writer of a file, which the first write makes. fs_output_writer_finish ends
   its use. */
fs_err fs_output_writer_of(uint32_t entry, struct fs_output_writer **out);
void fs_output_writer_finish(uint32_t entry);
/* Writes to the segment. `placed`: home has made no room for the bytes. */
fs_ssize fs_output_write_segment(uint32_t entry, const void *buf, size_t n, uint64_t off, bool placed);
/* Publishes at once if nobody may come by later to do so, because the program ends or the
   descriptor is another file's by now. Returns `put` or the error. */
fs_ssize fs_output_ending(uint32_t entry, fs_ssize put);

/* ---- opened.c ---- */

/* Home's last answer: the sizes of the whole and of home's backing file, and whether bytes are
   elsewhere. */
struct fs_output_whole {
  uint64_t size, own;
  uint64_t list;      /* version of the extent map at that time */
  uint32_t published; /* fs_output_published before that time */
  bool segments;
  bool any; /* read on even if the extent map changes */
};
/* Returns whether `list` is the version of home's extent map that goes with w. If it is not, the
   caller asks for the file again: older copies of it and of home's backing file lack the bytes that
   came to a segment since. */
bool fs_output_list_is(uint32_t entry, struct fs_output_whole *w, uint64_t list);
/* Sets what home has said. Asks again if the process has changed the file, or if the known size is
   less than `need` and the answer may be out of date. Adds unpublished bytes. */
fs_err fs_output_whole_for(uint32_t entry, uint64_t need, struct fs_output_whole *w);
/* Asks home what the file is now. */
fs_err fs_output_refresh(uint32_t entry);
/* Returns the order of the last question about the file, among all files. */
uint64_t fs_output_asked(uint32_t entry);
/* Sets a snapshot that is this process's, and home's answer that belongs to it. */
fs_err fs_output_snapshot(uint32_t entry, struct fs_opened *h);
/* Returns false if another thread has given the snapshot back since: bytes that were read by it may
   be another file's. */
bool fs_output_still_held(uint32_t entry, uint32_t snapshot);

/* Reads a range before the end of the file out of the bytes that came in a batch. Returns false if the
   file is not open by a batch. */
bool fs_output_read_brought(uint32_t entry, void *buf, size_t n, uint64_t off);
bool fs_output_is_brought(uint32_t entry);

/* ---- batch.c ---- */

/* Opens the file of a published record by a batch. Returns a token for its bytes and sets the home's
   answer, or returns 0. `appended` is ctl's word before the caller has read the record. */
uint32_t fs_batch_open(const struct fs_record *r, uint64_t appended, struct fs_opened *h);
/* Copies bytes. Returns false if the file has not so many, or if the token was dropped meanwhile. */
bool fs_batch_copy(uint32_t token, void *buf, size_t n, uint64_t off);
void fs_batch_drop(uint32_t token); /* 0: does nothing */

/* ---- read.c ---- */

/* How to read a backing file of another node, home's own or a segment: in blocks of this size, with
   no read-ahead beyond `end`. If `list` is not 0 and is not the version of the file's extent map,
   the read returns -ESTALE. */
struct fs_output_how {
  uint32_t block; /* FS_OUTPUT_BLOCK or FS_OUTPUT_GRAIN */
  uint64_t end, list;
};
fs_ssize fs_output_read_backing(uint32_t entry, void *buf, size_t n, uint64_t off, const struct fs_output_how *how);
/* Reads a segment as it was when the file itself was asked for last, or later: it may have been
   written anew. */
fs_ssize fs_output_read_segment(uint32_t entry, uint32_t segment, void *buf, size_t n, uint64_t off,
                                const struct fs_output_how *how);

/* ---- segments.c ---- */

/* n bytes at off, all of them before the end of the file, from wherever they are. -ESTALE: its list is another one. */
fs_ssize fs_output_read_segments(uint32_t entry, struct fs_output_whole *w, void *buf, size_t n, uint64_t off);

#endif
