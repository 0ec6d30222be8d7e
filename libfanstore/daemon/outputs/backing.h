/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The output files whose home is this node: their bytes are in the backing directory, written by this node's programs
 * through the kernel. Who has them open on other nodes, what of them was published last, what is changed by name, and
 * what nobody told of (docs/internals/output-bytes.md). The MPI thread's; what may take long goes to the I/O
 * pool.
 *
 *   backing.c        the table; OPEN and CLOSE of other nodes; removal
 *   backing_drop.c   who unlinks a removed file's backing file, and who waits for that
 *   backing_open.c   the bytes, whatever the mode
 *   backing_extents.c  files of several writers: which bytes are on which node
 *   backing_set.c    SETATTR: the backing file is changed, then published
 *   backing_watch.c  what was closed: published, if its writer has not done so
 */
#ifndef FS_DAEMON_OUTPUTS_BACKING_H
#define FS_DAEMON_OUTPUTS_BACKING_H

#include <sys/stat.h>

#include "daemon/daemon.h"
#include "daemon/metadata/ns.h"
#include "daemon/outputs/extents.h"

/* What other nodes were told of a file's contents. */
struct fs_backing_reported {
  uint64_t version, size, list;
  struct timespec mtime, ctime;
  bool loose;        /* they may have changed since without a trace in the times */
  uint32_t holding;  /* nodes that hold it */
  uint64_t holder[]; /* a bit for each; then one for each that has had a part of it */
};

/* The backing file is a link to a file of --stage-in's. */
struct fs_backing_in {
  bool copying; /* to become a file of its own, */
  fs_err err;   /* which failed then: */
  uint64_t err_at;
};

struct fs_backing_file {
  struct fs_backing_file *next;
  uint64_t id, dir; /* dir: of its record, as last heard; 0: unknown */
  uint64_t size;    /* as published, with what follows; before the first time mode is 0 */
  int64_t mtime;
  uint32_t mtime_ns, mode;
  bool removed;    /* it has no name; its bytes stay while nodes hold it */
  bool gone;       /* nor can it be held any more: its bytes are being removed */
  bool closed;     /* it was closed, and is to be published */
  bool publishing; /* by this daemon */
  bool creating;   /* its name is on its way to the directory's owner */
  bool segment;    /* of another file; it never has a name */
  bool split;      /* other nodes have, or had, bytes of it */
  uint64_t name;   /* a hash of the name and directory that left.c has written down */
  uint64_t let_in; /* until then no cut begins: somebody waits whom the last one has turned away */
  struct fs_backing_reported *reported;
  struct fs_extents *extents; /* bytes that are elsewhere; or NULL */
  uint64_t changes;           /* of that list, and what the last ones were about */
  struct fs_backing_recent *recent;
  uint64_t adopted;         /* so long it was when this node became its home */
  struct fs_backing_in *in; /* NULL: its bytes are this job's */
  struct fs_copy *copy;     /* what its replica has (replicas.h); or NULL */
};

#define FS_BACKING_EARLY 256u
struct fs_backing {
  struct fs_backing_file **chain;
  uint64_t mask, count;
  uint64_t version, published; /* the last ones given */
  struct fs_chain setting, appending, dropping, leaving;
  int watch; /* inotify; -1: none */
  uint64_t look_at;
  uint32_t publishing; /* by this daemon itself */
  uint64_t scan_left;  /* chains that are still to be looked at: for what is closed, or, after a loss, at all files */
  bool scan_all, scan_again;
  uint64_t early[FS_BACKING_EARLY]; /* the last ids that were closed and not known */
  uint32_t early_at;
  struct fs_maps_node *lists; /* of each rank */
};

/* ---- backing.c ---- */
fs_err fs_backing_new(struct fs_daemon *d);
struct fs_backing_file *fs_backing_find(const struct fs_daemon *d, uint64_t id);
/* A client is about to make a file of this id, in this directory; has; or could not. */
void fs_backing_creating(struct fs_daemon *d, uint64_t id, uint64_t dir);
void fs_backing_created(struct fs_daemon *d, uint64_t id);
void fs_backing_not_created(struct fs_daemon *d, uint64_t id);
/* A link to a file of --stage-in's is its backing file, and published as that is. False: no memory. */
bool fs_backing_staged_in(struct fs_daemon *d, uint64_t id, uint64_t dir, const struct stat *st);
/* What was another node's file is this one's, and to be published: its mode, the publications that it had, and its
   segments, a list that is the file's from here on. */
void fs_backing_adopt(struct fs_daemon *d, uint64_t id, uint64_t dir, uint64_t published, uint32_t mode,
                      struct fs_extents *segments);
/* This backing file is a segment, which has a replica as files have. NULL: no memory. */
struct fs_backing_file *fs_backing_segment(struct fs_daemon *d, uint64_t id);
/* It is to be published again, when there is time. */
void fs_backing_again(struct fs_daemon *d, struct fs_backing_file *f);
/* Its bytes go, by the I/O pool. */
void fs_backing_unlink(struct fs_daemon *d, uint64_t id);
/* Was it changed so short a while ago that the next change may leave the times as they are? */
bool fs_backing_young(const struct stat *st);
/* What is now published of it. */
void fs_backing_published(struct fs_daemon *d, const struct fs_call_publish *c, bool there);
/* A call to a file's home. f: NULL if nothing is known here of the file. */
typedef void fs_home_handler(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f,
                             const struct fs_names_call *c);
/* Instead of home's own, while the backing file is a link to a file of --stage-in's (stagein/own.c); NULL: the same. */
extern fs_home_handler *const fs_staged_handlers[FS_NAMES_OPS];
/* The name service's words (ns.h). */
void fs_backing_home(struct fs_daemon *d, struct fs_asked a, const struct fs_names_call *c);
void fs_backing_dropped(struct fs_daemon *d, uint64_t id);
/* The same, but the bytes are left for a moment to the program that has removed the file. */
void fs_backing_dropped_soon(struct fs_daemon *d, uint64_t id);
void fs_backing_members(struct fs_daemon *d);
/* "out/<id>", below d->backing_fd. */
#define FS_BACKING_NAME_SIZE 32u
/* Programs can do with a backing file what they like. Opening it waits for nobody, be it a FIFO or under somebody's
   lease (then EAGAIN). */
#define FS_BACKING_READ (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
#define FS_BACKING_WRITE (O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
const char *fs_backing_name(uint64_t id, char name[FS_BACKING_NAME_SIZE]);
/* The two halves of OPEN: what it is, of a backing file that is so now; and that this rank holds it. */
fs_err fs_backing_opened(struct fs_daemon *d, uint64_t id, const struct stat *st, struct fs_opened *held);
fs_err fs_backing_holder(struct fs_daemon *d, struct fs_backing_file *f, uint32_t rank);
/* This rank has a part of it, whatever becomes of the list. */
fs_err fs_backing_writer(struct fs_daemon *d, struct fs_backing_file *f, uint32_t rank);
bool fs_backing_writes(const struct fs_daemon *d, const struct fs_backing_file *f, uint32_t rank);
/* The rank that has a file's bytes. */
static inline uint32_t fs_home_of(const struct fs_daemon *d, uint64_t id) {
  return d->replicas ? fs_ns_home(d->ns, id) : FS_OUTPUT_ID_RANK(id);
}
/* Is this one of this node's files? */
bool fs_backing_mine(const struct fs_daemon *d, uint64_t id);

/* ---- backing_drop.c ---- */
/* ns.h, dropping: this rank wants to know when the bytes are gone. */
bool fs_backing_dropping(struct fs_daemon *d, struct fs_asked a, uint64_t id);
/* They are, or cannot be removed. */
void fs_backing_drop_done(struct fs_daemon *d, uint64_t id);
/* A program of this node has removed a file. True: it is to unlink the backing file. */
bool fs_backing_leaving(struct fs_daemon *d, uint64_t id);
/* The pool unlinks it, if nobody asks for it before, a moment later. */
void fs_backing_unlink_soon(struct fs_daemon *d, uint64_t id);
void fs_backing_drop_timers(struct fs_daemon *d);

/* ---- backing_open.c ---- */
/* open(2) of the backing file, no symlink, also where its mode does not permit it, and without waiting (as
 * FS_BACKING_READ). */
fs_fd fs_backing_file_open(const struct fs_daemon *d, uint64_t id, int flags);

/* ---- backing_extents.c ---- */
/* EXTEND, EXTENTS, APPEND */
void fs_extents_extend(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f,
                       const struct fs_names_call *c);
void fs_extents_asked(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f, const struct fs_names_call *c);
void fs_extents_append(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f,
                       const struct fs_names_call *c);
/* These bytes are in that segment now; and the file ends here. */
fs_err fs_backing_put(struct fs_daemon *d, struct fs_backing_file *f, struct fs_output_extent e);
void fs_backing_cut(struct fs_daemon *d, struct fs_backing_file *f, uint64_t size);
/* What the list is called, by clients too: another home of the file never calls one of its own so. */
uint64_t fs_backing_map(const struct fs_daemon *d, const struct fs_backing_file *f);
/* Were the same of these bytes in segments when the list had that number? False also when that is not known any more.
 */
bool fs_backing_same_map(const struct fs_daemon *d, uint64_t id, uint64_t list, uint64_t off, uint64_t len);
/* ---- extent_maps.c ---- */
fs_err fs_maps_new(struct fs_daemon *d);
/* A node is about to be told a list; */
void fs_maps_asked(struct fs_daemon *d, uint32_t rank);
/* one has changed: for this node's programs; */
void fs_maps_changed(struct fs_daemon *d);
/* for others', before whoever changed it is answered; */
void fs_maps_report(struct fs_daemon *d, fs_ns_done *done, void *ctx);
/* and the members have. */
void fs_maps_members(struct fs_daemon *d);
/* None is to be kept, as long as this node may have been left out. */
void fs_maps_timers(struct fs_daemon *d);

/* ---- backing_extents.c, for others ---- */
struct fs_scattered;
/* The whole list, copied for another thread (source.h). */
fs_err fs_backing_scattered(const struct fs_backing_file *f, struct fs_scattered *to);
void fs_backing_drop_segments(struct fs_daemon *d, struct fs_backing_file *f);

/* ---- backing_set.c ---- */
/* SETATTR */
void fs_backing_set(struct fs_daemon *d, struct fs_asked a, struct fs_backing_file *f, const struct fs_names_call *c);
/* Its backing file is being cut, and its extent map will be: the one does not go with the other now. */
bool fs_backing_cutting(const struct fs_daemon *d, const struct fs_backing_file *f);

/* ---- backing_watch.c ---- */
void fs_backing_watch(struct fs_daemon *d);
/* A client's PUBLISH of a file of this node's: what its backing file is now, and its number. False: there is no backing
   file, and the client's word stands. */
bool fs_backing_publishing(struct fs_daemon *d, struct fs_names_call *c);
void fs_backing_not_published(struct fs_daemon *d, uint64_t id);
/* Its name is there: it is published, if it has been closed since it was made. */
void fs_backing_named(struct fs_daemon *d, struct fs_backing_file *f);
/* Was it closed before anybody told of it? */
bool fs_backing_closed_early(const struct fs_daemon *d, uint64_t id);
int fs_backing_drain(struct fs_daemon *d); /* how many were closed */
void fs_backing_timers(struct fs_daemon *d);
/* Makes the record what the backing file is now, wherever it has gone meanwhile; done with the record, or why not. */
void fs_backing_publish(struct fs_daemon *d, uint64_t id, fs_ns_done *done, void *ctx);
/* The same, where only the list of its segments is another, and the file perhaps longer. */
void fs_backing_publish_map(struct fs_daemon *d, uint64_t id, fs_ns_done *done, void *ctx);
/* The same for one that others see already, where it has changed. */
void fs_backing_look(struct fs_daemon *d, uint64_t id, fs_ns_done *done, void *ctx);

#endif
