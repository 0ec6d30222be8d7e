/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is done with output files at the end of the job: the launcher says `finish`, each rank counts its own, names
 * some, keeps them if it was asked to, and says so (ipc/control.h). All ranks serve on meanwhile, since paths are found
 * by asking each other. The MPI thread's; files are moved by the I/O pool.
 *
 *   outputs.c   one after another, and the lines
 *   keep.c      one of them into <local-dir>/fanstore-outputs/<job>
 */
#ifndef FS_DAEMON_OUTPUTS_H
#define FS_DAEMON_OUTPUTS_H

#include "daemon/daemon.h"

#define FS_OUTPUTS_KEPT "fanstore-outputs"

struct fs_spill_file;
struct fs_output {
  uint64_t id, dir;
  uint32_t mode; /* with the type */
  char *target;  /* of a symlink */
};

/* Once; later ones are passed over. */
void fs_outputs_finish(struct fs_daemon *d, const struct fs_control *c);
void fs_outputs_timers(struct fs_daemon *d);
/* Is what was asked for at the end still to be done? */
bool fs_outputs_pending(const struct fs_daemon *d);
/* One more is this node's, perhaps after the list was made. */
void fs_outputs_adopted(struct fs_daemon *d, const struct fs_spill_file *f);

/* ---- keep.c ---- */
fs_err fs_keep_dir(const struct fs_daemon *d, char *path, size_t size);
/* Gives an output its name below that directory. */
void fs_keep(struct fs_daemon *d, const struct fs_output *o, const char *path, void (*done)(void *ctx, fs_err err),
             void *ctx);
int fs_keep_reap(void); /* calls back what is done */

#endif
