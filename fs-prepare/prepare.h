/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the commands of fs-prepare: the command line, messages, threads, signals, and an opened
 * dataset. Any thread may print messages. Other functions are for one thread unless their comment
 * says otherwise.
 */
#ifndef FS_PREPARE_H
#define FS_PREPARE_H

#include <pthread.h>
#include <signal.h>

#include "format/manifest.h"
#include "index/index.h"
#include "util/grow.h"
#include "util/say.h"
#include "util/sys.h"
#include "util/util.h"

enum { FS_EXIT_OK = 0, FS_EXIT_FAILED = 1, FS_EXIT_USAGE = 2, FS_EXIT_LEFT_OUT = 3 };

/* The commands. argv[0] is the command's name. They return the exit status. */
int fs_prep_pack(int argc, char **argv);
int fs_prep_place(int argc, char **argv);
int fs_prep_verify(int argc, char **argv);
int fs_prep_info(int argc, char **argv);
int fs_prep_list(int argc, char **argv);
int fs_prep_unpack(int argc, char **argv);
int fs_prep_diff(int argc, char **argv);

/* A command line: its words, its options, and the callback for them. */
enum { FS_OPT_WORD = 0, FS_OPT_HELP = 1, FS_OPT_VERSION = 2, FS_OPT_OWN = 16 };
#define FS_OPT_COMMON                                                                                                  \
  {"help", 'h', NULL, "show this text and exit", FS_OPT_HELP}, {                                                       \
    "version", 0, NULL, "show the version and exit", FS_OPT_VERSION                                                    \
  }
struct fs_prep_cli {
  const char *command;
  const char *synopsis; /* after "fs-prepare COMMAND " */
  const char *forms[4]; /* the same of other forms, for --help */
  const char *about;    /* for --help: its purpose, printed before the options */
  const struct fs_opt *opts;
  size_t nopts;
  const char *word_names[2];
  size_t want;                                         /* 0: all words go to `set`, with FS_OPT_WORD */
  fs_err (*set)(void *ctx, int id, const char *value); /* prints a line itself if it refuses */
  void *ctx;
  const char *word[2]; /* set by the parser */
  size_t got;
};
/* Parses the command line. Returns 0, or -EINVAL after one line on stderr. --help and --version
   print and exit. */
fs_err fs_prep_parse(struct fs_prep_cli *cli, int argc, char **argv);
void fs_prep_version(void);
/* Ends standard output. Returns `status`, or FS_EXIT_FAILED after one line if not all output could
   be written. */
int fs_prep_finish(int status);

/* Returns how many times smaller the stored bytes are than the plain ones; 1 if there are none. */
static inline double fs_times_smaller(uint64_t plain, uint64_t stored) {
  return plain != 0 ? (double)plain / (double)FS_MAX(stored, 1) : 1;
}

/* Returns the printable form of a name or path, from malloc, never NULL. */
char *fs_prep_name(const char *path);

/* The patterns of a repeatable option. */
struct fs_globs {
  char **glob;
  size_t n;
};
/* Adds a pattern, without the '/' that a shell's completion adds to a directory. Returns 0, or -EINVAL
   after one line on stderr. */
fs_err fs_globs_add(struct fs_globs *g, const char *command, const char *option, const char *value);
/* Returns true if one of the patterns matches. */
bool fs_globs_match(const struct fs_globs *g, const char *path);
void fs_globs_free(struct fs_globs *g);

/* Writes the path of a program beside this one to `out`. Returns 0, or a negative errno after one line
   on stderr. */
fs_err fs_prep_beside(const char *program, char out[PATH_MAX]);

/* Parses a --jobs argument. Returns 0, or -EINVAL after one line on stderr. */
fs_err fs_prep_jobs(const char *value, unsigned *jobs);
/* Starts a thread with all signals blocked: they are for the main thread. Returns false if it cannot. */
bool fs_prep_thread(pthread_t *thread, void *(*fn)(void *), void *ctx);
/* Runs fn(ctx, 0..n-1) on at most `jobs` threads and waits. If threads cannot be made, uses fewer,
   at worst only this one. */
typedef void fs_prep_fn(void *ctx, uint64_t i);
void fs_prep_parallel(unsigned jobs, uint64_t n, fs_prep_fn *fn, void *ctx);
/* Raises the limit of open files towards n, as far as allowed. Returns the limit. */
uint64_t fs_prep_open_files(uint64_t n);

/* The first SIGINT, SIGTERM or SIGHUP after fs_prep_catch_signals; 0: none. */
extern volatile sig_atomic_t fs_prep_signal;
void fs_prep_catch_signals(void);

/* Computes the XXH3 of a file's bytes from `from` to `end`. Returns 0, or a negative errno: -EINTR after a
   signal. */
fs_err fs_prep_hash(int fd, uint64_t from, uint64_t end, uint64_t *xxh3);

/* Opens a path below dirfd. Follows no symlink on the way (openat2 if the kernel has it). */
fs_fd fs_prep_open_beneath(int dirfd, const char *path, int flags, mode_t mode);

/* A dataset opened for reading. Any thread may open a partition. A partition is opened at its first
   use, and most are kept open. */
struct fs_dataset {
  const char *path;
  int dir;
  struct fs_manifest manifest;
  struct fs_index ix;
  _Atomic int *part_fd; /* one for each partition; -1: not kept open */
  _Atomic uint64_t kept;
  uint64_t keep_most;
};
/* Opens a dataset. Returns 0, or a negative errno after one line on stderr. */
fs_err fs_dataset_open(struct fs_dataset *ds, const char *path);
/* Like fs_dataset_open, and checks the index against the manifest's checksum. */
fs_err fs_dataset_open_checked(struct fs_dataset *ds, const char *path);
void fs_dataset_close(struct fs_dataset *ds);
/* Gives the index's pages back to the page cache, until they are used again. */
void fs_dataset_forget_index(const struct fs_dataset *ds);
/* Returns a descriptor of a partition, which the caller gives back by fs_dataset_part_done, or a
   negative errno: -EUCLEAN if the partition is no regular file. */
fs_fd fs_dataset_part(struct fs_dataset *ds, uint32_t number);
void fs_dataset_part_done(struct fs_dataset *ds, uint32_t number, int fd);
/* Checks the kind, size and header of a partition's file. fd: what fs_dataset_part has returned. Returns 0, or a
   negative errno with `why`. */
fs_err fs_dataset_part_look(const struct fs_dataset *ds, uint32_t number, int fd, char *why, size_t why_size);
/* Closes a descriptor that is kept: another file has the partition's name. No thread may use it. */
void fs_dataset_part_forget(struct fs_dataset *ds, uint32_t number);
/* Checks that the manifest agrees with the index's bytes. Reads the whole index. Returns 0, or
   -EBADMSG with `why`. */
fs_err fs_dataset_check_index(const struct fs_dataset *ds, char *why, size_t why_size);
/* As fs_part_only_nodes. */
bool fs_dataset_only_nodes(const struct fs_dataset *ds);
/* Returns 0, or -ENOENT after one line if no partition is there. instead: what the user can do. */
fs_err fs_dataset_need_parts(const struct fs_dataset *ds, const char *instead);
/* Opens the directory in which jobs with this --local-dir have staged the dataset on this host, and
   writes its path. node: of --emulate, or -1. Returns the descriptor, or a negative errno. */
fs_fd fs_copies_open(const struct fs_dataset *ds, const char *local_dir, int node, char path[PATH_MAX]);
/* Returns the length of a name's suffix, without its dot: 1 to 12 letters and digits, of which one is a
   letter. Else returns 0. */
size_t fs_suffix(const char *name, size_t len);
/* Prints how the files of each suffix are stored: a table, or a line of info's JSON. */
void fs_suffixes_print(const struct fs_index *ix);
void fs_suffixes_json(const struct fs_index *ix);
/* Returns the path of an entry, from malloc, or NULL if out of memory or damaged. */
char *fs_dataset_entry_path(const struct fs_dataset *ds, uint32_t entry);
/* Returns memory for decoding blocks one after the other, for free(), or NULL. */
void *fs_dataset_work(const struct fs_dataset *ds);
/* How a dataset's files lie on the nodes of a job. Files in replicated partitions are not counted. */
struct fs_spread {
  uint32_t nodes;
  uint64_t least_files, most_files; /* of a node */
  uint64_t least_bytes, most_bytes; /* of a node's partitions, with the replicated ones */
  double directories;               /* mean over directories of several files: nodes with a file of it, of those
                                       that could have one */
};
fs_err fs_spread_over_nodes(const struct fs_index *ix, uint32_t nodes, struct fs_spread *out);
/* Adds the files of each partition to files[partition]. */
void fs_spread_files(const struct fs_index *ix, uint64_t *files);

/* Counts the bytes of the partitions that no file uses, without padding, and the stored bytes that the
   dataset would have more if no blocks of different large files, or of one, were stored once. Returns 0,
   -ENOMEM or -EUCLEAN. */
fs_err fs_dataset_waste(const struct fs_dataset *ds, uint64_t *unused, uint64_t *shared);
/* Compares a file of a dataset with what `read` reads, of the same size. Returns 1 if equal, 0, or a
   negative errno: -EBADMSG if the dataset is damaged. */
typedef fs_err fs_content_read_fn(void *ctx, void *buf, size_t n, uint64_t at);
int fs_content_equal(struct fs_dataset *ds, uint32_t entry, fs_content_read_fn *read, void *ctx);
/* Compares file x of one dataset with file y of another; both have the same size. Returns like
   fs_content_equal. */
int fs_content_equal_in(struct fs_dataset *a, uint32_t x, struct fs_dataset *b, uint32_t y);

#endif
