/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lines between fs-launch and the daemons, over mpirun's own stdin and stdout forwarding (so they work
 * wherever mpirun does). Each line is "@fs VERB KEY=VALUE ...\n", at most FS_CONTROL_LINE bytes; values are escaped
 * so that they hold no space and no newline ("%XX"). Whatever does not begin with "@fs " is a program's noise.
 *
 * daemon -> launcher (stdout of every rank)
 *   begun rank=K host=H pid=P                           before MPI is initialised
 *   alive rank=K                                        each second from then until it serves, whatever it waits for
 *   hello rank=K host=H pid=P job=J free=BYTES          once MPI is up and the local directory usable
 *   have rank=K dataset=D parts=0,4-7,12                what is already staged and stamped there (one per dataset;
 *                                                       with more=1 the next line goes on with the list)
 *   stage rank=K done=BYTES total=BYTES                 progress, at most a few times a second
 *   ready rank=K staged=BYTES reused=BYTES              serving; bytes of partitions here, and of memory, and how much
 *     local=BYTES memory=BYTES cached=PERCENT             of them is read through the page cache
 *   lost rank=K dataset=D part=P                        could not be staged there after all: do not count on it
 *   warn rank=K text=...   fail rank=K text=...         fail: this daemon cannot start; the job is over
 *   stats rank=K key=value ...                          counters; last before bye. Keys: opens stats files_local
 *     files_cache files_remote files_shared bytes_{the same four} blocks_{the same four} fallbacks errors materialized
 *     bytes_direct output_opens output_bytes (sums over this node's clients; the last two of other nodes' outputs, the
 *     rest of datasets), served served_bytes fetched fetched_bytes prefetched
 *     checksum_errors timeouts dropped refused evictions staged_bytes reused_bytes clients replicated
 *     replicated_bytes (the daemon's own; see docs/internals/messages.md)
 *   stagein rank=K files=N bytes=BYTES [end=1]          after stagein: names made so far; at the end also what was left
 *     [dataset=N dataset_name=PATH]                     out: because the dataset has the name, or for another reason;
 *     [odd=N odd_name=PATH odd_why=TEXT]                with an example
 *   wrote rank=K                                        a program of this node has made its first output
 *   output rank=K size=BYTES [why=TEXT] name=PATH       after finish: a file that the job wrote below a mount; why it
 *                                                       was not copied
 *   failed rank=K failed=N unkept=N lost=N others=N     after finish, before `outputs`, for each reason: so many were
 *     why=TEXT                                            not copied or kept for it, unkept of these are nowhere; lost
 *                                                       were not kept in the end for it, whatever the first reason was;
 *                                                       others of the failed are directories and symlinks
 *   outputs rank=K files=N bytes=BYTES [kept=DIR]       after finish: how far; with end=1 done. done, total: bytes
 *     [staged=N done=BYTES total=BYTES]                 of --stage-out; lost: files neither copied nor kept
 *     [failed=N] [lost=N] [end=1]                       dirs, links: directories and symlinks that the job has
 *     [dirs=N] [links=N]                                made
 *                                                       gone, with end=1: files in this rank's directories whose
 *                                                       home has gone (if that is known); an `output` line of one
 *                                                       of them has gone=K, the home
 *   successor rank=K of=N [pending=1]                   --output-replicas: rank N has gone, and what it had of outputs
 *                                                       is K's; it has (pending) not finished with them
 *   leaving rank=K                                      after stats, once a second: what was made is being removed
 *   bye rank=K [left=1]                                 left: programs of the job are there, and node-K.ctl
 *                                                       (ipc/node.h) stays for them
 * launcher -> rank 0 (stdin), which passes each on to all ranks
 *   place dataset=D first=P owners=0.2,1.3,-,*          partitions P, P+1, ...: ranks joined by '.', '-' none, '*' all
 *   go                                                  placement complete: stage, then serve
 *   stagein                                             all are ready: make the names of --stage-in's files
 *   finish [names=N] [keep=1] [stage=1] [alone=1]       COMMAND is over: count its outputs, name N, keep them, or copy
 *                                                       them out and keep those that cannot be; serve on. alone: a
 *                                                       daemon's own, when mpirun has died: what it says from then on
 *                                                       is in the run directory (ipc/node.h)
 *   cancel                                              no more copies: what is left counts as failed
 *   stop [purge=1] [gone=1]                             drain, report, clean up, exit (end of file means the same)
 * Where rank 0 is dead or says nothing, FS_SIGNAL_FINISH to mpirun, which passes it to all ranks, is `finish` with
 * names=10 and what the command line says of keeping and staging out; FS_SIGNAL_STOP is `stop`. Not SIGUSR1 or SIGUSR2:
 * Slurm sends these to every process of a job, for COMMAND's sake.
 *
 * The command line that fs-launch gives to every rank of fanstored (paths absolute; options in any order; each value
 * a word of its own):
 *   fanstored --job JOB --local-dir DIR {--dataset DIR --mount PATH}... [--emulate N] [--cache BYTES] [--read-only]
 *     [--deadline MS] [--keep] [--stage-out DIR [--in-place INODE]] [--stage-in DIR]
 *     [--output-limit BYTES] [--output-replicas 1] [--local-io cached|direct|auto] [--verbose]
 * JOB is [A-Za-z0-9._-]+ and chosen by fs-launch: fs_run_find(JOB) is its run directory on every host. dataset=D in the
 * lines counts the --dataset options from 0. --emulate N: N ranks on one host, rank k being node k of it.
 */
#ifndef FS_IPC_CONTROL_H
#define FS_IPC_CONTROL_H

#include <signal.h>

#include "util/base.h"

/* fs-launch/rank.c has those from SIGRTMAX - 1 down to - 7. */
#define FS_SIGNAL_FINISH (SIGRTMAX - 10)
#define FS_SIGNAL_STOP (SIGRTMAX - 11)

#define FS_CONTROL_LINE 4096u

struct fs_control {
  char line[FS_CONTROL_LINE]; /* cut into words in place */
  const char *verb;
  struct {
    const char *key;
    char *value; /* unescaped */
  } pair[64];
  unsigned pairs;
};

/* Parses one line (without or with its newline). 0, or -EINVAL when it is not a well-formed control line. */
fs_err fs_control_parse(const char *line, size_t n, struct fs_control *c);
const char *fs_control_get(const struct fs_control *c, const char *key); /* NULL when absent */
fs_err fs_control_get_u64(const struct fs_control *c, const char *key, uint64_t *out);
/* Builds a line: begin, add pairs, end (adds the newline). Return 0 or -ENOSPC; len is the line's length so far. */
struct fs_control_line {
  char text[FS_CONTROL_LINE];
  size_t len;
};
fs_err fs_control_begin(struct fs_control_line *l, const char *verb);
fs_err fs_control_add(struct fs_control_line *l, const char *key, const char *value);
fs_err fs_control_add_u64(struct fs_control_line *l, const char *key, uint64_t value);
fs_err fs_control_end(struct fs_control_line *l);

#endif
