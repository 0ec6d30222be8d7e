/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The output files whose home is this node: their bytes are in the spill directory, written by this node's programs
 * through the kernel. Who has them open on other nodes, what of them was published last, what is changed by name, and
 * what nobody told of (docs/internals/output-bytes.md). The MPI thread's; what may take long goes to the I/O
 * pool.
 *
 *   spill.c        the table; HOLD and RELEASE of other nodes; removal
 *   spill_drop.c   who unlinks a removed file's backing file, and who waits for that
 *   spill_open.c   the bytes, whatever the mode
 *   spill_extents.c  files of several writers: which bytes are on which node
 *   spill_set.c    SETATTR: the spill is changed, then published
 *   spill_watch.c  what was closed: published, if its writer has not done so
 */
#ifndef FS_DAEMON_OUTPUTS_SPILL_H
#define FS_DAEMON_OUTPUTS_SPILL_H

#include <sys/stat.h>

#include "daemon/daemon.h"
#include "daemon/metadata/ns.h"
#include "daemon/outputs/extents.h"

/* What other nodes were told of a file's contents. */
struct fs_spill_told {
  uint64_t version, size, list;
  struct timespec mtime, ctime;
  bool loose;        /* they may have changed since without a trace in the times */
  uint32_t holding;  /* nodes that hold it */
  uint64_t holder[]; /* a bit for each; then one for each that has had a part of it */
};

/* The spill is a link to a file of --stage-in's. */
struct fs_spill_in {
  bool copying; /* to become a file of its own, */
  fs_err err;   /* which failed then: */
  uint64_t err_at;
};

struct fs_spill_file {
  struct fs_spill_file *next;
  uint64_t id, dir; /* dir: of its record, as last heard; 0: unknown */
  uint64_t size;    /* as published, with what follows; before the first time mode is 0 */
  int64_t mtime;
  uint32_t mtime_ns, mode;
  bool removed;    /* it has no name; its bytes stay while nodes hold it */
  bool gone;       /* nor can it be held any more: its bytes are being removed */
  bool closed;     /* it was closed, and is to be published */
  bool publishing; /* by this daemon */
  bool creating;   /* its name is on its way to the directory's owner */
  bool part;       /* of another file; it never has a name */
  bool split;      /* other nodes have, or had, bytes of it */
  uint64_t name;   /* a hash of the name and directory that left.c has written down */
  uint64_t let_in; /* until then no cut begins: somebody waits whom the last one has turned away */
  struct fs_spill_told *told;
  struct fs_extents *extents; /* bytes that are elsewhere; or NULL */
  uint64_t changes;           /* of that list, and what the last ones were about */
  struct fs_spill_recent *recent;
  uint64_t adopted;       /* so long it was when this node became its home */
  struct fs_spill_in *in; /* NULL: its bytes are this job's */
  struct fs_copy *copy;   /* what its replica has (replicas.h); or NULL */
};

#define FS_SPILL_EARLY 256u
struct fs_spill {
  struct fs_spill_file **chain;
  uint64_t mask, count;
  uint64_t version, published; /* the last ones given */
  struct fs_chain setting, appending, dropping, leaving;
  int watch; /* inotify; -1: none */
  uint64_t look_at;
  uint32_t publishing; /* by this daemon itself */
  uint64_t scan_left;  /* chains that are still to be looked at: for what is closed, or, after a loss, at all files */
  bool scan_all, scan_again;
  uint64_t early[FS_SPILL_EARLY]; /* the last ids that were closed and not known */
  uint32_t early_at;
  struct fs_lists_node *lists; /* of each rank */
};

/* ---- spill.c ---- */
fs_err fs_spill_new(struct fs_daemon *d);
struct fs_spill_file *fs_spill_find(const struct fs_daemon *d, uint64_t id);
/* A client is about to make a file of this id, in this directory; has; or could not. */
void fs_spill_creating(struct fs_daemon *d, uint64_t id, uint64_t dir);
void fs_spill_created(struct fs_daemon *d, uint64_t id);
void fs_spill_not_created(struct fs_daemon *d, uint64_t id);
/* A link to a file of --stage-in's is its spill, and published as that is. False: no memory. */
bool fs_spill_staged(struct fs_daemon *d, uint64_t id, uint64_t dir, const struct stat *st);
/* What was another node's file is this one's, and to be published: its mode, the publications that it had, and its
   parts, a list that is the file's from here on. */
void fs_spill_adopt(struct fs_daemon *d, uint64_t id, uint64_t dir, uint64_t published, uint32_t mode,
                    struct fs_extents *parts);
/* This spill is a part, which has a replica as files have. NULL: no memory. */
struct fs_spill_file *fs_spill_part(struct fs_daemon *d, uint64_t id);
/* It is to be published again, when there is time. */
void fs_spill_again(struct fs_daemon *d, struct fs_spill_file *f);
/* Its bytes go, by the I/O pool. */
void fs_spill_unlink(struct fs_daemon *d, uint64_t id);
/* Was it changed so short a while ago that the next change may leave the times as they are? */
bool fs_spill_young(const struct stat *st);
/* What is now published of it. */
void fs_spill_published(struct fs_daemon *d, const struct fs_call_publish *c, bool there);
/* The name service's words (ns.h). */
void fs_spill_home(struct fs_daemon *d, struct fs_asked a, const struct fs_names_call *c);
void fs_spill_dropped(struct fs_daemon *d, uint64_t id);
/* The same, but the bytes are left for a moment to the program that has removed the file. */
void fs_spill_dropped_soon(struct fs_daemon *d, uint64_t id);
void fs_spill_members(struct fs_daemon *d);
/* "out/<id>", below d->spill_fd. */
#define FS_SPILL_NAME_SIZE 32u
/* Programs can do with a spill what they like. Opening it waits for nobody, be it a FIFO or under somebody's lease
   (then EAGAIN). */
#define FS_SPILL_READ (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
#define FS_SPILL_WRITE (O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
const char *fs_spill_name(uint64_t id, char name[FS_SPILL_NAME_SIZE]);
/* The two halves of HOLD: what it is, of a spill that is so now; and that this rank holds it. */
fs_err fs_spill_held(struct fs_daemon *d, uint64_t id, const struct stat *st, struct fs_held *held);
fs_err fs_spill_holder(struct fs_daemon *d, struct fs_spill_file *f, uint32_t rank);
/* This rank has a part of it, whatever becomes of the list. */
fs_err fs_spill_writer(struct fs_daemon *d, struct fs_spill_file *f, uint32_t rank);
bool fs_spill_writes(const struct fs_daemon *d, const struct fs_spill_file *f, uint32_t rank);
/* The rank that has a file's bytes. */
static inline uint32_t fs_home_of(const struct fs_daemon *d, uint64_t id) {
  return d->replicas ? fs_ns_home(d->ns, id) : FS_OUT_ID_RANK(id);
}
/* Is this one of this node's files? */
bool fs_spill_mine(const struct fs_daemon *d, uint64_t id);

/* ---- spill_drop.c ---- */
/* ns.h, dropping: this rank wants to know when the bytes are gone. */
bool fs_spill_dropping(struct fs_daemon *d, struct fs_asked a, uint64_t id);
/* They are, or cannot be removed. */
void fs_spill_drop_done(struct fs_daemon *d, uint64_t id);
/* A program of this node has removed a file. True: it is to unlink the backing file. */
bool fs_spill_leaving(struct fs_daemon *d, uint64_t id);
/* The pool unlinks it, if nobody asks for it before, a moment later. */
void fs_spill_unlink_soon(struct fs_daemon *d, uint64_t id);
void fs_spill_drop_timers(struct fs_daemon *d);

/* ---- spill_open.c ---- */
/* open(2) of the spill, no symlink, also where its mode does not permit it, and without waiting (as FS_SPILL_READ). */
fs_fd fs_spill_open(const struct fs_daemon *d, uint64_t id, int flags);

/* ---- spill_extents.c ---- */
/* EXTEND, EXTENTS, APPEND */
void fs_extents_extend(struct fs_daemon *d, struct fs_asked a, struct fs_spill_file *f, const struct fs_names_call *c);
void fs_extents_list(struct fs_daemon *d, struct fs_asked a, struct fs_spill_file *f, const struct fs_names_call *c);
void fs_extents_append(struct fs_daemon *d, struct fs_asked a, struct fs_spill_file *f, const struct fs_names_call *c);
/* These bytes are in that part now; and the file ends here. */
fs_err fs_spill_put(struct fs_daemon *d, struct fs_spill_file *f, struct fs_out_extent e);
void fs_spill_cut(struct fs_daemon *d, struct fs_spill_file *f, uint64_t size);
/* What the list is called, by clients too: another home of the file never calls one of its own so. */
uint64_t fs_spill_list(const struct fs_daemon *d, const struct fs_spill_file *f);
/* Were the same of these bytes in parts when the list had that number? False also when that is not known any more. */
bool fs_spill_as_listed(const struct fs_daemon *d, uint64_t id, uint64_t list, uint64_t off, uint64_t len);
/* ---- spill_lists.c ---- */
fs_err fs_lists_new(struct fs_daemon *d);
/* A node is about to be told a list; */
void fs_lists_asked(struct fs_daemon *d, uint32_t rank);
/* one has changed: for this node's programs; */
void fs_lists_changed(struct fs_daemon *d);
/* for others', before whoever changed it is answered; */
void fs_lists_tell(struct fs_daemon *d, fs_ns_done *done, void *ctx);
/* and the members have. */
void fs_lists_members(struct fs_daemon *d);
/* None is to be kept, as long as this node may have been left out. */
void fs_lists_timers(struct fs_daemon *d);

/* ---- spill_extents.c, for others ---- */
struct fs_scattered;
/* The whole list, copied for another thread (source.h). */
fs_err fs_spill_scattered(const struct fs_spill_file *f, struct fs_scattered *to);
void fs_spill_drop_parts(struct fs_daemon *d, struct fs_spill_file *f);

/* ---- spill_set.c ---- */
/* SETATTR */
void fs_spill_set(struct fs_daemon *d, struct fs_asked a, struct fs_spill_file *f, const struct fs_names_call *c);
/* Its spill is being cut, and its list of parts will be: the one does not go with the other now. */
bool fs_spill_cutting(const struct fs_daemon *d, const struct fs_spill_file *f);

/* ---- spill_watch.c ---- */
void fs_spill_watch(struct fs_daemon *d);
/* A client's PUBLISH of a file of this node's: what its spill is now, and its number. False: there is no spill, and the
   client's word stands. */
bool fs_spill_publishing(struct fs_daemon *d, struct fs_names_call *c);
void fs_spill_not_published(struct fs_daemon *d, uint64_t id);
/* Its name is there: it is published, if it has been closed since it was made. */
void fs_spill_named(struct fs_daemon *d, struct fs_spill_file *f);
/* Was it closed before anybody told of it? */
bool fs_spill_closed_early(const struct fs_daemon *d, uint64_t id);
int fs_spill_drain(struct fs_daemon *d); /* how many were closed */
void fs_spill_timers(struct fs_daemon *d);
/* Makes the record what the spill is now, wherever it has gone meanwhile; done with the record, or why not. */
void fs_spill_publish(struct fs_daemon *d, uint64_t id, fs_ns_done *done, void *ctx);
/* The same, where only the list of its parts is another, and the file perhaps longer. */
void fs_spill_publish_list(struct fs_daemon *d, uint64_t id, fs_ns_done *done, void *ctx);
/* The same for one that others see already, where it has changed. */
void fs_spill_look(struct fs_daemon *d, uint64_t id, fs_ns_done *done, void *ctx);

#endif
