/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The output files whose home is this node: their bytes are in the backing directory, written by this node's programs
 * through the kernel. Who has them open on other nodes, what of them was published last, what is changed by name, and
 * what nobody told of (docs/internals/output-bytes.md). The MPI thread's; what may take long goes to the I/O
 * pool.
 *
 *   backing.c          the table; OPEN and CLOSE of other nodes; removal
 *   backing_drop.c     who unlinks a removed file's backing file, and who waits for that
 *   backing_open.c     opens the backing file whatever its mode
 *   backing_extents.c  files of several writers: which bytes are on which node
 *   backing_change.c   SETATTR and APPEND: change the backing file; calls that wait for that
 *   backing_watch.c    finds closed files, and publishes them if their writer has not
 */
#ifndef FS_DAEMON_OUTPUTS_BACKING_H
#define FS_DAEMON_OUTPUTS_BACKING_H

#include <sys/stat.h>

#include "daemon/daemon.h"
#include "daemon/metadata/ns.h"
#include "daemon/outputs/extents.h"
#include "util/table.h"

/* The contents of a file that other nodes have been told. */
struct fs_backing_reported {
  uint64_t version, size, list;
  struct timespec mtime, ctime;
  bool loose;       /* the contents may have changed since without new times */
  uint32_t holding; /* number of nodes that have it open */
  /* one bit for each node that has it open; then one for each that has had a segment */
  uint64_t holder[];
};

/* State of a backing file that is a link to a staged-in file. */
struct fs_backing_in {
  bool copying; /* the file is being copied */
  fs_err err;   /* error of the last copy, at err_at */
  uint64_t err_at;
};

struct fs_backing_file {
  struct fs_table_link by_id;
  uint64_t id, dir; /* dir: the directory of its record, as last known; 0: unknown */
  uint64_t size;    /* size, mtime and mode as last published; mode is 0 before the first time */
  int64_t mtime;
  uint32_t mtime_ns, mode;
  uint64_t number; /* of that publication: the version of its record, if it has come there */
  bool removed;    /* it has no name; its bytes stay while nodes have it open */
  bool gone;       /* its bytes are being removed; it cannot be opened any more */
  bool publishing; /* this daemon is publishing it */
  bool untold;     /* what was published last may not have been whole */
  bool creating;   /* its name is being created at the directory's primary */
  bool counted;    /* in count.outputs */
  bool segment;    /* it is a segment of another file and never has a name */
  bool split;      /* other nodes have or had bytes of it */
  uint64_t name;   /* a hash of the name and directory that left.c has written down */
  struct fs_backing_reported *reported;
  struct fs_extents *extents; /* extent map of bytes that are in segments; or NULL */
  /* version of the extent map; `recent` has the ranges of the latest changes */
  uint64_t changes;
  struct fs_backing_recent *recent;
  uint64_t adopted;         /* its size when this node became its home */
  struct fs_backing_in *in; /* NULL: it is no link to a staged-in file */
  struct fs_copy *copy;     /* state of its replica (replicas.h); or NULL */
  struct fs_chain open;     /* link in the list of those that may be open for writing */
  uint64_t look_at;         /* then: when to look at it again */
};

struct fs_backing {
  struct fs_table files;
  uint64_t version, published;       /* the last numbers given out */
  struct fs_chain changing, waiting; /* for backing_change.c */
  struct fs_chain dropping, leaving; /* for backing_drop.c */
  struct fs_chain young, open;       /* files that may be open for writing, by look_at */
  uint32_t publishing;               /* publications by this daemon under way */
  struct fs_maps_node *lists;        /* state of each rank, for extent_maps.c */
};

/* ---- backing.c ---- */
fs_err fs_backing_new(struct fs_daemon *d);
struct fs_backing_file *fs_backing_find(const struct fs_daemon *d, uint64_t id);
/* fs_backing_creating says that a client is about to create a file with this id in this
   directory. fs_backing_created and fs_backing_not_created say how that ended. */
void fs_backing_creating(struct fs_daemon *d, uint64_t id, uint64_t dir);
void fs_backing_created(struct fs_daemon *d, uint64_t id);
void fs_backing_not_created(struct fs_daemon *d, uint64_t id);
/* Adds a file whose backing file is a link to a staged-in file, published as that is. Returns
   false without memory. */
bool fs_backing_staged_in(struct fs_daemon *d, uint64_t id, uint64_t dir, const struct stat *st);
/* Makes this node the home of another node's file, and publishes it. The caller gives its mode,
   the number of its publications, and its segments, a list that belongs to the file from then
   on. */
void fs_backing_adopt(struct fs_daemon *d, uint64_t id, uint64_t dir, uint64_t published, uint32_t mode,
                      struct fs_extents *segments);
/* Returns the entry of a backing file that is a segment; it has a replica as files have. Returns
   NULL without memory. */
struct fs_backing_file *fs_backing_segment(struct fs_daemon *d, uint64_t id);
/* Has the file published again when there is time. */
void fs_backing_again(struct fs_daemon *d, struct fs_backing_file *f);
/* Forgets a removed file whose backing file is unlinked. */
void fs_backing_ended(struct fs_daemon *d, uint64_t id);
/* Unlinks backing files, by the I/O pool. */
void fs_backing_unlink(struct fs_daemon *d, const uint64_t *id, uint32_t count);
/* Returns true if the file was changed so recently that the next change may leave its times as
   they are. */
bool fs_backing_young(const struct stat *st);
/* Records what is now published of a file. If `open` is set, nobody has closed or synced it, so it
   may not be whole, and only other nodes' programs see it. */
void fs_backing_published(struct fs_daemon *d, const struct fs_call_publish *c, bool there, bool open);
/* A call to a file's home. f: NULL if nothing is known here of the file. */
typedef void fs_home_handler(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f,
                             const struct fs_names_call *c);
/* Instead of home's own, while the backing file is a link to a file of --stage-in's (stagein/own.c); NULL: the same. */
extern fs_home_handler *const fs_staged_handlers[FS_NAMES_OPS];
/* The name service's words (ns.h). */
void fs_backing_home(struct fs_daemon *d, struct fs_asked a, const struct fs_names_call *c);
/* Returns true if the call gives a file a segment. */
bool fs_backing_gives_segment(const struct fs_names_call *c);
/* Like fs_backing_home, for a call that does not have to wait for changes of the file. */
void fs_backing_answer(struct fs_daemon *d, struct fs_asked a, const struct fs_names_call *c);
void fs_backing_dropped(struct fs_daemon *d, uint64_t id);
/* Like fs_backing_dropped, but leaves the bytes for a moment to the program that has removed the
   file. */
void fs_backing_dropped_soon(struct fs_daemon *d, uint64_t id);
void fs_backing_members(struct fs_daemon *d);
/* "out/<id>", below d->backing_fd. */
#define FS_BACKING_NAME_SIZE 32u
/* Flags for opening a backing file. Programs can do anything to it, so an open must not wait,
   even if it is a FIFO or under somebody's lease (then EAGAIN). */
#define FS_BACKING_READ (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
#define FS_BACKING_WRITE (O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
const char *fs_backing_name(uint64_t id, char name[FS_BACKING_NAME_SIZE]);
/* The two halves of OPEN. fs_backing_opened fills in the snapshot of a backing file with these
   attributes; fs_backing_holder records that the rank has the file open. */
fs_err fs_backing_opened(struct fs_daemon *d, uint64_t id, const struct stat *st, struct fs_opened *held);
fs_err fs_backing_holder(struct fs_daemon *d, struct fs_backing_file *f, uint32_t rank);
/* Makes the next snapshot a new version, also if the attributes are the same. */
void fs_backing_loosen(struct fs_daemon *d, uint64_t id);
/* Records that the rank has a segment of the file, even if the extent map loses it. */
fs_err fs_backing_writer(struct fs_daemon *d, struct fs_backing_file *f, uint32_t rank);
bool fs_backing_writes(const struct fs_daemon *d, const struct fs_backing_file *f, uint32_t rank);
/* The rank that has a file's bytes. */
static inline uint32_t fs_home_of(const struct fs_daemon *d, uint64_t id) {
  return d->replicas ? fs_ns_home(d->ns, id) : FS_OUTPUT_ID_RANK(id);
}
/* Is this one of this node's files? */
bool fs_backing_mine(const struct fs_daemon *d, uint64_t id);

/* ---- backing_drop.c ---- */
/* The hook `dropping` of ns.h: a rank wants to know when the bytes are gone. */
bool fs_backing_dropping(struct fs_daemon *d, struct fs_asked a, uint64_t id);
/* Says that the bytes are gone or cannot be removed. */
void fs_backing_drop_done(struct fs_daemon *d, uint64_t id);
/* Says that a program of this node has removed a file. Returns true if the program has to unlink
   the backing file. */
bool fs_backing_leaving(struct fs_daemon *d, uint64_t id);
/* Has the pool unlink the backing file a moment later, unless somebody asks for it before. */
void fs_backing_unlink_soon(struct fs_daemon *d, uint64_t id);
void fs_backing_drop_timers(struct fs_daemon *d);

/* ---- backing_open.c ---- */
/* Opens a backing file, even if its mode forbids it; follows no symlink and does not wait (see
   FS_BACKING_READ). */
fs_fd fs_backing_file_open(const struct fs_daemon *d, uint64_t id, int flags);
/* Reads the whole file if it is small, has no segments and is in memory. Returns its size, or 0. Does
   not wait. */
size_t fs_backing_small(const struct fs_daemon *d, const struct fs_opened *held, char bytes[FS_OPEN_BYTES_MOST]);
/* Returns 1 if somebody has the backing file open for writing: the kernel then refuses a read lease.
   Returns 0 if nobody has or there is no such file, and -1 if that cannot be told: the file system
   has no leases, or the daemon may not read the file. Sets the file's attributes as they are then, or a
   mode of 0 if they are not known. */
int fs_backing_written(const struct fs_daemon *d, uint64_t id, struct stat *st);

/* ---- backing_extents.c ---- */
/* Handle EXTEND and EXTENTS. */
void fs_extents_extend(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f,
                       const struct fs_names_call *c);
void fs_extents_asked(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f, const struct fs_names_call *c);
/* If this node does not have the file, answers with an error and returns true. */
bool fs_extents_none(struct fs_daemon *d, struct fs_asked a, const struct fs_backing_file *f, uint64_t id);
/* fs_backing_put adds an extent to the extent map. fs_backing_cut truncates the map to `size`. */
fs_err fs_backing_put(struct fs_daemon *d, struct fs_backing_file *f, struct fs_output_extent e);
void fs_backing_cut(struct fs_daemon *d, struct fs_backing_file *f, uint64_t size);
/* Returns the version of the extent map, which clients use, too. Another home of the file never
   gives out the same version. */
uint64_t fs_backing_map(const struct fs_daemon *d, const struct fs_backing_file *f);
/* Returns true if the extent map of this range has not changed since version `list`. Returns
   false also if that is unknown. */
bool fs_backing_same_map(const struct fs_daemon *d, uint64_t id, uint64_t list, uint64_t off, uint64_t len);
/* ---- extent_maps.c ---- */
fs_err fs_maps_new(struct fs_daemon *d);
/* Says that a node is about to be told an extent map. */
void fs_maps_asked(struct fs_daemon *d, uint32_t rank);
/* Tells this node's programs that an extent map has changed. */
void fs_maps_changed(struct fs_daemon *d);
/* Tells the other nodes that an extent map has changed, then calls done; whoever changed it is
   answered after that. */
void fs_maps_report(struct fs_daemon *d, fs_ns_done *done, void *ctx);
/* Handles a change of members. */
void fs_maps_members(struct fs_daemon *d);
/* Keeps programs from using known extent maps as long as this node may have been evicted. */
void fs_maps_timers(struct fs_daemon *d);

/* ---- backing_extents.c, for others ---- */
struct fs_scattered;
/* Copies the whole extent map for another thread (source.h). */
fs_err fs_backing_scattered(const struct fs_backing_file *f, struct fs_scattered *to);
void fs_backing_drop_segments(struct fs_daemon *d, struct fs_backing_file *f);

/* ---- backing_change.c ---- */
/* Handle SETATTR and APPEND. */
void fs_backing_set(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f, const struct fs_names_call *c);
void fs_backing_append(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f,
                       const struct fs_names_call *c);
/* Returns true if the backing file is being truncated and the extent map will be: the two do not
   fit together now. */
bool fs_backing_cutting(const struct fs_daemon *d, uint64_t id);
/* Keeps the call and returns true if it has to wait: for a truncation of its file, or for a call
   about it that waits already. fs_backing_answer is called when its turn comes. A repeated call that
   is at work or waits needs no place of its own; then it returns true as well. */
bool fs_backing_wait(struct fs_daemon *d, struct fs_asked a, const struct fs_names_call *c);

/* ---- backing_watch.c ---- */
void fs_backing_not_published(struct fs_daemon *d, uint64_t id);
/* Looks now at all files that may be open for writing, and at all forwarders, and publishes those
   that nobody has open. */
void fs_backing_look_all(struct fs_daemon *d);
void fs_backing_timers(struct fs_daemon *d);
/* Publishes the present state of the backing file, wherever its record is now. done gets the
   record or the error. */
void fs_backing_publish(struct fs_daemon *d, uint64_t id, fs_ns_done *done, void *ctx);
/* Like fs_backing_publish, if only the extent map has changed and the file may be longer. `open`: as
   for FS_EXTEND_OPEN. */
void fs_backing_publish_map(struct fs_daemon *d, uint64_t id, bool open, fs_ns_done *done, void *ctx);
/* Like fs_backing_publish, for a file that nobody has closed or synced: it gets no replica and is not
   staged out. */
void fs_backing_publish_open(struct fs_daemon *d, uint64_t id, fs_ns_done *done, void *ctx);
/* Says that a program may have the file open for writing. From now on it is published once a second
   if it has changed, until nobody has. */
void fs_backing_is_open(struct fs_daemon *d, struct fs_backing_file *f);
/* Says that another node writes to the backing file. A second later the file is published if nobody
   has done so: the writer may keep it open for long, or be killed. With replicas that would bring the
   bytes to another node each time. */
void fs_backing_grows(struct fs_daemon *d, struct fs_backing_file *f);
/* Like fs_backing_publish_open, if the file has changed. The caller may be about to write it, or has
   just emptied it by O_TRUNC: see fs_backing_is_open. */
void fs_backing_look(struct fs_daemon *d, uint64_t id, fs_ns_done *done, void *ctx);
/* Like fs_backing_publish_open, if the file was published before and has changed since. */
void fs_backing_show(struct fs_daemon *d, uint64_t id, fs_ns_done *done, void *ctx);

#endif
