/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lines between fs-launch and the daemons. mpirun forwards them through stdin and stdout, so
 * they work wherever mpirun works. A line is "@fs VERB KEY=VALUE ...\n", at most FS_CONTROL_LINE
 * bytes. Values are escaped ("%XX") so that they hold no space and no newline. A line that does not
 * begin with "@fs " is other output and is ignored. No state.
 *
 * daemon -> launcher (stdout of every rank)
 *   begun rank=K host=H pid=P           before MPI is initialised; which FanStore the daemon is of
 *     version=V ipc=N wire=N            (FS_VERSION, FS_IPC_VERSION, FS_WIRE_VERSION); network: the
 *     [network=TEXT]                    interface and address that it uses, or all there are
 *   hello rank=K host=H pid=P job=J     MPI is up and the local directory is usable
 *     free=BYTES
 *   have rank=K dataset=D               partitions that are already staged there; one line per
 *     parts=0,4-7,12 [more=1]           dataset; with more=1 the next line continues the list
 *   placed rank=K                       `go` has come: the connection from rank 0 works
 *   stage rank=K done=BYTES total=BYTES progress, at most a few times a second
 *   ready rank=K staged=BYTES           serving; local: bytes of partitions here; memory: bytes of
 *     reused=BYTES local=BYTES          memory; cached: percentage of the partitions that is read
 *     memory=BYTES cached=PERCENT       through the page cache; passed: of `staged`, what came from
 *     passed=BYTES                      other nodes
 *   lost rank=K dataset=D part=P        could not be staged there: the launcher must not rely on it
 *   warn rank=K text=...                a warning for the user
 *   fail rank=K text=...                this daemon cannot start; the job is over
 *   sample rank=K ms=T key=value ...    each second while the node serves, if a key but the last two
 *                                       has changed: the keys of `stats`. ms: since 1970
 *   latency rank=K op=OP place=P        after `sample` and `stats`, if it has changed: a histogram of
 *     counts=B:N,... [more=1]           calls since the start (ipc/latency.h); more=1: the next line
 *                                       has the rest of the buckets
 *   waits rank=K worst_pid=P            each second and at the end, if it has changed: processes by
 *     worst_us=US counts=B:N,...        the microseconds that each waited in reads, in buckets of
 *                                       ipc/latency.h; and the one that waited longest
 *   files rank=K kind=KIND              the same: files that reads waited for. slow: those of the
 *     list=D:E:P:N:BYTES:US:LONGEST,... longest reads since the start; busy: those that most reads of
 *                                       the last seconds waited for. D: dataset, E: entry of its
 *                                       index, P: enum fs_place, N: reads, US and LONGEST:
 *                                       microseconds of them all, and of the longest one
 *   stats rank=K ms=T key=value ...     counters; last before bye. Keys that are sums over this
 *                                       node's clients: opens stats
 *                                       files_{local,cache,remote,shared} bytes_{the same four}
 *                                       blocks_{the same four} fallbacks errors materialized
 *                                       bytes_direct (datasets), output_opens output_bytes (outputs
 *                                       of other nodes) wait_ms decodes decode_ms
 *                                       decode_saved. The daemon's own keys (see
 *                                       docs/internals/messages.md): served served_bytes fetched
 *                                       fetched_bytes prefetched disk_bytes disk_kept_bytes
 *                                       checksum_errors timeouts dropped
 *                                       refused evictions staged_bytes reused_bytes passed_bytes clients
 *                                       replicated replicated_bytes outputs output_written
 *                                       cache_used cache_size queue processes fill_total fill_done
 *                                       wait_worst cpu_ms host_busy
 *   fetched rank=K                      after stats: what came from other nodes: blocks, stored bytes,
 *     from=NODE:BLOCKS:BYTES:US,...     and the microseconds from each request to its answer, summed
 *                                       up. Long lists continue in a further line
 *   stagein rank=K files=N bytes=BYTES  after stagein: names made so far. With end=1 also the names
 *     [dataset=N dataset_name=PATH]     left out, each with an example: dataset: the dataset has
 *     [odd=N odd_name=PATH              the name; odd: another reason
 *      odd_why=TEXT] [end=1]
 *   wrote rank=K                        a program of this node has made its first output
 *   output rank=K size=BYTES            after finish: a file that the job wrote below a mount; why:
 *     [why=TEXT] [gone=K] name=PATH     the reason that it was not copied; gone: its home K has
 *                                       gone
 *   failed rank=K failed=N unkept=N     after finish, before `outputs`, for each reason: failed:
 *     lost=N others=N why=TEXT          not copied or kept; unkept: those of them that are nowhere;
 *                                       lost: not kept in the end for this reason, whatever the
 *                                       first reason was; others: directories and symlinks among
 *                                       the failed
 *   outputs rank=K files=N bytes=BYTES  after finish: progress; with end=1 the end. done, total:
 *     [kept=DIR] [staged=N done=BYTES   bytes of --stage-out; lost: files neither copied nor kept;
 *     total=BYTES] [failed=N] [lost=N]  dirs, links: directories and symlinks that the job made;
 *     [dirs=N] [links=N] [gone=N]       gone, with end=1: files in this rank's directories whose
 *     [gone_nodes=N] [end=1]            home has gone, if that is known; gone_nodes: nodes that
 *                                       had gone when these were counted
 *   successor rank=K of=N [pending=1]   --output-replicas: rank N has gone, and its outputs are
 *                                       K's; pending: K has not finished taking them over
 *   leaving rank=K                      after stats, once a second: what was made is being removed
 *   bye rank=K [left=1]                 left: programs of the job are there, and node-K.ctl
 *                                       (ipc/node.h) stays for them
 * launcher -> rank 0 (stdin), which passes each on to all ranks
 *   place dataset=D first=P             partitions P, P+1, ...: ranks joined by '.', '-' none, '*'
 *     owners=0.2,1.3<1,-,*<0            all; <K: those that do not have it get it from rank K, and
 *                                       pass it on. Without <K each one reads shared storage
 *   go                                  placement complete: stage, then serve
 *   stagein                             all are ready: make the names of --stage-in's files
 *   finish [names=N] [keep=1]           COMMAND is over: count its outputs, name N, keep them, or
 *     [stage=1] [alone=1]               copy them out and keep those that cannot be copied; serve
 *                                       on. alone: sent by a daemon itself when mpirun has died;
 *                                       its further lines go to the run directory (ipc/node.h)
 *   cancel                              no more copies: what is left counts as failed
 *   stop [purge=1] [gone=1]             drain, report, clean up, exit (end of file means the same)
 * If rank 0 is dead or silent, fs-launch signals mpirun, which passes the signal to all ranks.
 * FS_SIGNAL_FINISH is `finish` with names=10 and the command line's choice of keeping and staging
 * out. FS_SIGNAL_STOP is `stop`. SIGUSR1 and SIGUSR2 are not used: Slurm sends these to every
 * process of a job, for COMMAND.
 *
 * The command line that fs-launch gives to every rank of fanstored (paths absolute; options in any
 * order; each value a word of its own):
 *   fanstored --job JOB --local-dir DIR {--dataset DIR --mount PATH}... [--emulate N]
 *     [--cache BYTES] [--read-only] [--deadline MS] [--keep] [--stage-out DIR [--in-place INODE]]
 *     [--stage-in DIR] [--output-limit BYTES] [--output-replicas 1]
 *     [--local-io cached|direct|auto] [--peers HOST,HOST [--network IFACE|CIDR]]
 *     [--env NAME=VALUE]... [--verbose]
 * fs-launch chooses JOB ([A-Za-z0-9._-]+). fs_run_find(JOB) is its run directory on every host.
 * dataset=D in the lines counts the --dataset options from 0. With --emulate N, N ranks run on one
 * host, and rank k is its node k.
 */
#ifndef FS_IPC_CONTROL_H
#define FS_IPC_CONTROL_H

#include <signal.h>

#include "util/base.h"

/* fs-launch/rank.c uses SIGRTMAX - 1 down to SIGRTMAX - 7. */
#define FS_SIGNAL_FINISH (SIGRTMAX - 10)
#define FS_SIGNAL_STOP (SIGRTMAX - 11)

#define FS_CONTROL_LINE 4096u
/* For tests: milliseconds between two samples of a daemon, and between two of fs-launch's live files. */
#define FS_ENV_TEST_SAMPLE "FANSTORE_TEST_SAMPLE_MS"

struct fs_control {
  char line[FS_CONTROL_LINE]; /* cut into words in place */
  const char *verb;
  struct {
    const char *key;
    char *value; /* unescaped */
  } pair[64];
  unsigned pairs;
};

/* Parses one line of n bytes, with or without its newline. Returns 0, or -EINVAL if it is no
   control line. */
fs_err fs_control_parse(const char *line, size_t n, struct fs_control *c);
/* Replaces each %XX of a value in place. Returns 0, or -EINVAL for a wrong one and for %00. */
fs_err fs_control_unescape(char *value);
const char *fs_control_get(const struct fs_control *c, const char *key); /* NULL if absent */
fs_err fs_control_get_u64(const struct fs_control *c, const char *key, uint64_t *out);
/* A control line under construction. Call begin, then add for each pair, then end, which appends
   the newline. Each returns 0 or -ENOSPC; an add that fails leaves the line unchanged. `len` is the
   length so far. */
struct fs_control_line {
  char text[FS_CONTROL_LINE];
  size_t len;
};
fs_err fs_control_begin(struct fs_control_line *l, const char *verb);
fs_err fs_control_add(struct fs_control_line *l, const char *key, const char *value);
fs_err fs_control_add_u64(struct fs_control_line *l, const char *key, uint64_t value);
fs_err fs_control_end(struct fs_control_line *l);

#endif
