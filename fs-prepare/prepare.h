/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the commands of fs-prepare share: the command line, messages, threads, signals, and an opened dataset. Messages
 * may be printed from any thread; the rest says so where it matters.
 */
#ifndef FS_PREPARE_H
#define FS_PREPARE_H

#include <signal.h>

#include "format/manifest.h"
#include "index/index.h"
#include "util/sys.h"
#include "util/util.h"

enum { FS_EXIT_OK = 0, FS_EXIT_FAILED = 1, FS_EXIT_USAGE = 2 };

/* The commands: argv[0] is the command's name; the result is the exit status. */
int fs_prep_pack(int argc, char **argv);
int fs_prep_verify(int argc, char **argv);
int fs_prep_info(int argc, char **argv);
int fs_prep_list(int argc, char **argv);
int fs_prep_unpack(int argc, char **argv);

/* A command's line: its words, its options, and where they go. */
enum { FS_OPT_WORD = 0, FS_OPT_HELP = 1, FS_OPT_VERSION = 2, FS_OPT_OWN = 16 };
#define FS_OPT_COMMON                                                                                                  \
  {"help", 'h', NULL, "show this text and exit", FS_OPT_HELP}, {                                                       \
    "version", 0, NULL, "show the version and exit", FS_OPT_VERSION                                                    \
  }
struct fs_prep_cli {
  const char *command;
  const char *synopsis; /* after "fs-prepare COMMAND " */
  const char *about;    /* for --help: what it does, before the options */
  const struct fs_opt *opts;
  size_t nopts;
  const char *word_names[2];
  size_t want;
  fs_err (*set)(void *ctx, int id, const char *value); /* prints its own line when it refuses */
  void *ctx;
  const char *word[2]; /* filled */
  size_t got;
};
/* 0, or -EINVAL after one line on stderr. --help and --version print and exit. */
fs_err fs_prep_parse(struct fs_prep_cli *cli, int argc, char **argv);
void fs_prep_version(void);
/* Ends the standard output. `status`, or FS_EXIT_FAILED after a line when not all of it could be written. */
int fs_prep_finish(int status);

/* One line "fs-prepare: ..." on stderr; a progress bar that is shown there is wiped first. */
void fs_prep_say(const char *format, ...) FS_PRINTF(1, 2);
/* A status line that the next one replaces, when stderr is a terminal; NULL wipes it. */
void fs_prep_status(const char *line);
bool fs_prep_tty(void);
/* Printable form of a name or path; malloc'ed, never NULL. */
char *fs_prep_name(const char *path);

/* The number of CPUs that this process may use. */
unsigned fs_prep_cpus(void);
/* A --jobs argument. 0, or -EINVAL after a line. */
fs_err fs_prep_jobs(const char *value, unsigned *jobs);
/* Runs fn(ctx, 0..n-1) on at most `jobs` threads and waits. Falls back to fewer threads, at worst this one. */
typedef void fs_prep_fn(void *ctx, uint64_t i);
void fs_prep_parallel(unsigned jobs, uint64_t n, fs_prep_fn *fn, void *ctx);
/* Raises the limit of open files as far as allowed, towards n. Returns the limit. */
uint64_t fs_prep_open_files(uint64_t n);

/* The first SIGINT, SIGTERM or SIGHUP after fs_prep_catch_signals; 0: none. */
extern volatile sig_atomic_t fs_prep_signal;
void fs_prep_catch_signals(void);

/* Opens path below dirfd without following any symlink on the way (openat2 where the kernel has it). */
fs_fd fs_prep_open_beneath(int dirfd, const char *path, int flags, mode_t mode);

/* A dataset opened for reading. The partitions are opened when first used, by any thread, and most are kept open. */
struct fs_dataset {
  const char *path;
  int dir;
  struct fs_manifest manifest;
  struct fs_index ix;
  _Atomic int *part_fd; /* one a partition; -1: not kept open */
  _Atomic uint64_t kept;
  uint64_t keep_most;
};
/* 0, or a negative errno after one line on stderr. */
fs_err fs_dataset_open(struct fs_dataset *ds, const char *path);
/* The same, and checks the index against the manifest's checksum. */
fs_err fs_dataset_open_checked(struct fs_dataset *ds, const char *path);
void fs_dataset_close(struct fs_dataset *ds);
/* Descriptor of a partition, to be given back, or a negative errno: -EUCLEAN when it is no regular file. */
fs_fd fs_dataset_part(struct fs_dataset *ds, uint32_t number);
void fs_dataset_part_done(struct fs_dataset *ds, uint32_t number, int fd);
/* Does the manifest agree with the index's bytes? 0, or -EBADMSG and why. Reads all of the index. */
fs_err fs_dataset_check_index(const struct fs_dataset *ds, char *why, size_t why_size);
/* Path of an entry, malloc'ed: relative, or in printable form. NULL: out of memory or damaged. */
char *fs_dataset_entry_path(const struct fs_dataset *ds, uint32_t entry, bool printable);
static inline const char *fs_dataset_codec_name(uint32_t codec) {
  return codec == FS_CODEC_RAW ? "raw" : codec == FS_CODEC_LZ4 ? "lz4" : "?";
}

#endif
