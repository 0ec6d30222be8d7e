/* SPDX-License-Identifier: BSD-3-Clause */
/* What outputs need of replicas: the functions are in daemon/replicas, the folder above, and may also be called where
   there are no replicas. */
#ifndef FS_DAEMON_OUTPUTS_REPLICATE_H
#define FS_DAEMON_OUTPUTS_REPLICATE_H

#include "daemon/outputs/backing.h"

typedef void fs_replicated(void *ctx, fs_err err);

/* What a program waits for. Looked at is what may be another in begin ... end, and what the partner lacks. */
struct fs_replica_wish {
  bool sync, behind; /* also on the partner's disk; for nobody who waits */
  uint64_t begin, end;
};

/* What the file is now is with the partner when done is called: 0, also where there is none or the file has gone. */
void fs_replicate(struct fs_daemon *d, uint64_t id, struct fs_replica_wish wish, fs_replicated *done, void *ctx);
/* A client's or forwarder's EXTEND: its segment is brought to the partner, then home is told. */
void fs_segment_extend(struct fs_daemon *d, const struct fs_names_call *c, fs_ns_done *done, void *ctx);
/* A file of this node goes. */
void fs_copy_forget(struct fs_daemon *d, struct fs_backing_file *f);
/* It may have been changed without a trace in its times. */
void fs_copy_loosen(const struct fs_daemon *d, uint64_t id);
/* The list of this file's segments has changed. */
void fs_copy_listed(struct fs_daemon *d, struct fs_backing_file *f, struct fs_output_extent e);
/* A call of the file's home to its partner; and such a file has gone. */
void fs_replica_call(struct fs_daemon *d, struct fs_asked a, const struct fs_names_call *c);
void fs_replica_drop(struct fs_daemon *d, uint64_t id);
/* This node is its home, and is still writing what the last one has sent. */
bool fs_replica_waits(const struct fs_daemon *d, uint64_t id);

#endif
