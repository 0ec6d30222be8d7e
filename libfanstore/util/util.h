/* SPDX-License-Identifier: BSD-3-Clause */
/* Small pure helpers used by all parts: sizes, names, path lists, text buffers. Thread safe; no state. */
#ifndef FS_UTIL_UTIL_H
#define FS_UTIL_UTIL_H

#include <stdio.h>

#include "util/base.h"

#define FS_VERSION "0.1.0"

/* "64K", "16M", "2G", "1T", plain bytes; also 64k, 64KiB. 0, or -EINVAL (also on overflow). */
fs_err fs_parse_size(const char *text, uint64_t *out);
/* A decimal number in [min, max]: 0 or -EINVAL. */
fs_err fs_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out);
/* "1.5 GiB" into buf; returns buf. */
char *fs_format_size(uint64_t bytes, char *buf, size_t size);

/*
 * A list of paths in one environment variable: items separated by ':', in which "\:" is a colon and "\\" a
 * backslash. fs_list_next copies the next item, unescaped, and moves *cursor (start at the list's beginning).
 * Returns its length, -ENOENT at the end, -ENAMETOOLONG when it does not fit.
 */
fs_ssize fs_list_next(const char **cursor, char *item, size_t size);
/* Appends an item, escaped, to a NUL-terminated list of at most size bytes. 0 or -ENAMETOOLONG. */
fs_err fs_list_append(char *list, size_t size, const char *item);

/*
 * Lexical normalisation of an absolute path: "." and "" components dropped, ".." applied (never above "/"), no
 * trailing slash. Returns the length, -EINVAL when not absolute, -ENAMETOOLONG.
 */
fs_ssize fs_path_normalize(const char *path, char *out, size_t size);
/* Does `path` lie at or below `prefix` (both normalised)? Returns the offset of the rest (after the slash), or -1. */
fs_ssize fs_path_below(const char *path, size_t path_len, const char *prefix, size_t prefix_len);

/*
 * Prints any bytes of a name on one line: printable ASCII and valid UTF-8 as they are, others as \xNN, backslash
 * as \\, newline as \n. Returns out.
 */
char *fs_printable(const char *name, size_t len, char *out, size_t size);

/* Does `name` match the shell pattern? '*' and '?' do not match '/', "**" does; a pattern without '/' is matched
   against the last component, others against the whole relative path. */
bool fs_glob_match(const char *pattern, const char *path);

/* mkdir -p with mode 0755 (or `mode` for the last). 0 or a negative errno; an existing directory is fine. */
fs_err fs_mkdirs(const char *path, mode_t mode);
/* rm -r below and including path, never following symlinks out of it. 0 or the first error. Used on our own files. */
fs_err fs_remove_tree(const char *path);
/* "." or ".." */
static inline bool fs_is_dot(const char *name) {
  return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* "part-00042" */
#define FS_PART_NAME_SIZE 16
char *fs_part_name(uint32_t number, char out[FS_PART_NAME_SIZE]);
/* 16 bytes as 32 hex digits and NUL; and back: 0 or -EINVAL. */
char *fs_hex(const uint8_t *bytes, size_t n, char *out);
fs_err fs_unhex(const char *text, uint8_t *bytes, size_t n);

/*
 * An option table for the command-line tools: one line an option, from which the parser and --help are made.
 * See fs_opt_parse.
 */
struct fs_opt {
  const char *name; /* "dataset", without dashes */
  char letter;      /* 'l' for -l, or 0 */
  const char *arg;  /* "DIR" for the help, NULL for a flag */
  const char *help;
  int id; /* given to the callback */
};
/*
 * Parses argv from index `first`; options end at "--" or, if stop_at_word, at the first word that is no option.
 * Words go to the callback with id 0. --help and --version are the caller's ids. On an error one line
 * "PROG: ..." goes to stderr and the result is -EINVAL (exit status 2); the callback's own negative result stops too.
 * Returns the index of the first word not consumed (argc when all were).
 */
typedef fs_err fs_opt_fn(void *ctx, int id, const char *value);
int fs_opt_parse(const char *prog, const struct fs_opt *opts, size_t nopts, int argc, char **argv, int first,
                 bool stop_at_word, fs_opt_fn *fn, void *ctx);
/* The options' help, one aligned line each. */
void fs_opt_help(FILE *out, const struct fs_opt *opts, size_t nopts);

/* memcpy, faster where the bytes come from memory and not from a cache. */
void fs_copy(void *dst, const void *src, size_t n);

/* XXH3-64 of n bytes; 0 bytes give XXH3's constant for the empty input. */
uint64_t fs_xxh3(const void *data, size_t n);
/* The same in pieces, for data that is not in memory at once. */
struct fs_xxh3_stream; /* from malloc: ~600 bytes */
struct fs_xxh3_stream *fs_xxh3_new(void);
void fs_xxh3_update(struct fs_xxh3_stream *s, const void *data, size_t n);
uint64_t fs_xxh3_digest(const struct fs_xxh3_stream *s);
void fs_xxh3_free(struct fs_xxh3_stream *s);
void fs_xxh3_128(const void *data, size_t n, uint8_t out[16]); /* canonical form */

#endif
