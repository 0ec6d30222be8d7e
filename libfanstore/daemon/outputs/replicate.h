/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replication as the home of an output uses it. daemon/replicas, the folder above, implements these
 * functions (docs/internals/replicas.md). In a job without replicas they may be called too: they
 * answer at once or do nothing. The MPI thread calls them.
 */
#ifndef FS_DAEMON_OUTPUTS_REPLICATE_H
#define FS_DAEMON_OUTPUTS_REPLICATE_H

#include "daemon/outputs/backing.h"

typedef void fs_replicated(void *ctx, fs_err err);

/* What the caller of fs_replicate asks for. */
struct fs_replica_wish {
  bool sync;           /* the partner writes the file to its disk before it answers */
  bool behind;         /* no program waits for the answer */
  uint64_t begin, end; /* bytes that may have changed; what the partner lacks is sent in any case */
};

/* Brings what the file is now to the partner, then calls done. err is 0 also if there is no partner
   or the file was removed. */
void fs_replicate(struct fs_daemon *d, uint64_t id, struct fs_replica_wish wish, fs_replicated *done, void *ctx);
/* Brings the segment of an EXTEND to the partner, then sends the EXTEND to the file's home. */
void fs_segment_extend(struct fs_daemon *d, const struct fs_names_call *c, fs_ns_done *done, void *ctx);
/* Forgets what is known of the replica of a file that is removed. */
void fs_copy_forget(struct fs_daemon *d, struct fs_backing_file *f);
/* Notes that a file may have changed without a trace in its times. */
void fs_copy_loosen(const struct fs_daemon *d, uint64_t id);
/* Notes a change of the file's extent map. */
void fs_copy_listed(struct fs_daemon *d, struct fs_backing_file *f, struct fs_output_extent e);
/* Answers a REPLICA call that the file's home sends to this node, its partner. */
void fs_replica_call(struct fs_daemon *d, struct fs_asked a, const struct fs_names_call *c);
/* Removes the replica that this node keeps of a removed file. */
void fs_replica_drop(struct fs_daemon *d, uint64_t id);
/* Returns true if this node has become the file's home and still writes blocks of the last home. */
bool fs_replica_waits(const struct fs_daemon *d, uint64_t id);

#endif
