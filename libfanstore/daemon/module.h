/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of a daemon that the loop starts, runs and ends. Each row of the table in modules.c is
 * a part: the functions of it that the loop calls, and when. A NULL member is never called. The MPI
 * thread calls all of them, in the order of the table; only `leave` may be called by the guard
 * instead, where the MPI thread hangs.
 *
 * To add a part: its functions in a folder of its own, its state in struct fs_daemon (daemon.h) as a
 * pointer, a row in modules.c, the folder's line in tests/lint/layers.sh, and a unit test beside
 * tests/unit/test_daemon_*.c.
 */
#ifndef FS_DAEMON_MODULE_H
#define FS_DAEMON_MODULE_H

#include "daemon/daemon.h"

struct fs_backing_file;

struct fs_module {
  const char *name; /* of messages */
  /* Before the launcher's placement: directories that the part needs. On an error `why` says which. */
  fs_err (*open)(struct fs_daemon *d, char *why, size_t why_size);
  /* After staging, before the node serves: memory, threads. Clients cannot come yet. */
  fs_err (*start)(struct fs_daemon *d);
  /* In each round of the loop. Returns how much was done: 0 lets the loop sleep. */
  int (*work)(struct fs_daemon *d);
  /* In each round, after the work of all parts: what costs little and does not keep the loop awake. */
  void (*look)(struct fs_daemon *d);
  /* Between `work` and `look`, a millisecond after the last time at the earliest. */
  void (*timers)(struct fs_daemon *d);
  /* True while the part waits for an answer of another node: the loop sleeps less then. */
  bool (*busy)(const struct fs_daemon *d);
  /* Messages of other nodes that the part threw away, also before `start`. */
  uint64_t (*dropped)(const struct fs_daemon *d);
  /* The client has gone and its memory is about to be freed. */
  void (*client_gone)(struct fs_daemon *d, struct fs_client *c);
  /* The set of nodes that are members has changed (metadata/members.h). */
  void (*members)(struct fs_daemon *d);
  /* Events of outputs whose home this node is. What an output is now was published to the other nodes; the output
     has lost its last name; this node has become the home of an output of another node. */
  void (*published)(struct fs_daemon *d, uint64_t id);
  void (*removed)(struct fs_daemon *d, uint64_t id);
  void (*adopted)(struct fs_daemon *d, const struct fs_backing_file *f);
  /* A line of the launcher's (ipc/control.h), also before `start`. True: it was for this part. */
  bool (*obey)(struct fs_daemon *d, const struct fs_control *line);
  /* The end, before the run directory goes, also if the part was never opened or started. status: what the process
     exits with; if it is not 0, other threads may still be at work on everything. */
  void (*leave)(struct fs_daemon *d, int status);
};

fs_err fs_modules_open(struct fs_daemon *d, char *why, size_t why_size);
/* On an error `which` is the part that could not start. */
fs_err fs_modules_start(struct fs_daemon *d, const char **which);
/* One round: work, timers, look. Returns how much was done. */
int fs_modules_run(struct fs_daemon *d);
bool fs_modules_busy(const struct fs_daemon *d);
uint64_t fs_modules_dropped(const struct fs_daemon *d);
void fs_modules_client_gone(struct fs_daemon *d, struct fs_client *c);
void fs_modules_members(struct fs_daemon *d);
void fs_modules_published(struct fs_daemon *d, uint64_t id);
void fs_modules_removed(struct fs_daemon *d, uint64_t id);
void fs_modules_adopted(struct fs_daemon *d, const struct fs_backing_file *f);
bool fs_modules_obey(struct fs_daemon *d, const struct fs_control *line);
void fs_modules_leave(struct fs_daemon *d, int status);

#endif
