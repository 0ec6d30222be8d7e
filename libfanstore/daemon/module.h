/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The modules of a daemon that the loop starts, runs and ends. Each row of the table in modules.c is
 * a module: the functions that the loop calls, and when. A NULL member is never called. The MPI
 * thread calls all of them, in the order of the table. If the MPI thread hangs, the guard calls
 * `leave` instead.
 *
 * To add a module: put its functions into a folder of its own, its state into struct fs_daemon
 * (daemon.h) as a pointer, a row into modules.c, the folder's line into tests/lint/layers.sh, and a
 * unit test beside tests/unit/test_daemon_*.c.
 */
#ifndef FS_DAEMON_MODULE_H
#define FS_DAEMON_MODULE_H

#include "daemon/daemon.h"

struct fs_backing_file;

struct fs_module {
  const char *name; /* for messages */
  /* Opens the directories and starts the threads that the module needs before the launcher's
     placement. On an error,
     `why` gets a message. */
  fs_err (*open)(struct fs_daemon *d, char *why, size_t why_size);
  /* Makes the module's memory and threads, after staging and before the node serves. Clients
     cannot come yet. */
  fs_err (*start)(struct fs_daemon *d);
  /* Does the module's work, in each round of the loop. Returns how much was done: 0 lets the loop
     sleep. */
  int (*work)(struct fs_daemon *d);
  /* Called in each round, after the work of all modules, for what costs little and does not keep
     the loop awake. */
  void (*look)(struct fs_daemon *d);
  /* Called between `work` and `look`, at most once a millisecond. */
  void (*timers)(struct fs_daemon *d);
  /* Returns true while the module waits for an answer of another node; the loop then sleeps less. */
  bool (*busy)(const struct fs_daemon *d);
  /* Messages of other nodes that the module threw away, also before `start`. */
  uint64_t (*dropped)(const struct fs_daemon *d);
  /* The client has gone and its memory is about to be freed. */
  void (*client_gone)(struct fs_daemon *d, struct fs_client *c);
  /* Called when the set of members has changed (metadata/members.h). */
  void (*members)(struct fs_daemon *d);
  /* Returns false if the rank was evicted. One module knows. */
  bool (*member)(const struct fs_daemon *d, uint32_t rank);
  /* Events of outputs whose home this node is. What an output is now was published to the other nodes; the output
     has lost its last name; this node has become the home of an output of another node. */
  void (*published)(struct fs_daemon *d, uint64_t id);
  void (*removed)(struct fs_daemon *d, uint64_t id);
  void (*adopted)(struct fs_daemon *d, const struct fs_backing_file *f);
  /* A line of the launcher's (ipc/control.h), also before `start`. True: it was for this module. */
  bool (*obey)(struct fs_daemon *d, const struct fs_control *line);
  /* Called at the end, before the run directory is removed, also if the module was never opened or
     started. status is the exit status. If it is not 0, other threads may still be at work on
     everything. */
  void (*leave)(struct fs_daemon *d, int status);
};

fs_err fs_modules_open(struct fs_daemon *d, char *why, size_t why_size);
/* Starts all modules. On an error, *which is the name of the module that could not start. */
fs_err fs_modules_start(struct fs_daemon *d, const char **which);
/* Runs one round: work, timers, look. Returns how much was done. */
int fs_modules_run(struct fs_daemon *d);
bool fs_modules_busy(const struct fs_daemon *d);
uint64_t fs_modules_dropped(const struct fs_daemon *d);
void fs_modules_client_gone(struct fs_daemon *d, struct fs_client *c);
void fs_modules_members(struct fs_daemon *d);
bool fs_modules_member(const struct fs_daemon *d, uint32_t rank);
void fs_modules_published(struct fs_daemon *d, uint64_t id);
void fs_modules_removed(struct fs_daemon *d, uint64_t id);
void fs_modules_adopted(struct fs_daemon *d, const struct fs_backing_file *f);
bool fs_modules_obey(struct fs_daemon *d, const struct fs_control *line);
void fs_modules_leave(struct fs_daemon *d, int status);

#endif
