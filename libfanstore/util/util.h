/* SPDX-License-Identifier: BSD-3-Clause */
/* Small pure helpers for all parts: sizes, names, path lists, text, options, checksums.
   Thread-safe; no state. */
#ifndef FS_UTIL_UTIL_H
#define FS_UTIL_UTIL_H

#include <stdio.h>

#include "util/base.h"

#define FS_VERSION "0.1.0"

/* Parses a size: "64K", "16M", "2G", "1T", plain bytes; also 64k, 64KiB. Returns 0, or -EINVAL,
   also on overflow. */
fs_err fs_parse_size(const char *text, uint64_t *out);
/* Parses a decimal number in [min, max]. Returns 0 or -EINVAL. */
fs_err fs_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out);
/* Writes a size such as "1.5 GiB" to buf. Returns buf. */
char *fs_format_size(uint64_t bytes, char *buf, size_t size);
/* Writes a count such as "1 file", "2 files" or "3 directories" to buf. `one` is the singular. Returns buf. */
char *fs_format_count(uint64_t n, const char *one, char *buf, size_t size);
/* Returns the "s" of a plural, or "". */
static inline const char *fs_plural(uint64_t n) {
  return n == 1 ? "" : "s";
}

/*
 * A list of paths in one environment variable. ':' separates items; "\:" is a colon, "\\" a
 * backslash. fs_list_next copies the next item, unescaped, and advances *cursor, which starts at
 * the list's beginning. Returns the item's length, -ENOENT at the end, or -ENAMETOOLONG if it does
 * not fit.
 */
fs_ssize fs_list_next(const char **cursor, char *item, size_t size);
/* Appends an item, escaped, to a NUL-terminated list of at most `size` bytes. Returns 0 or
   -ENAMETOOLONG. */
fs_err fs_list_append(char *list, size_t size, const char *item);
/* Returns the first word that has `part` in it, of words that blanks or colons separate (LD_PRELOAD),
   and its length. NULL: none, or no list. */
const char *fs_list_word(const char *list, const char *part, size_t *len);

/*
 * Normalises an absolute path lexically: removes "." and trailing slashes, applies ".." (never
 * above "/"). Returns the length, -EINVAL if the path is not absolute, or -ENAMETOOLONG.
 */
fs_ssize fs_path_normalize(const char *path, char *out, size_t size);
/* Returns the offset of the rest after the slash if `path` is at or below `prefix`, else -1. Both
   must be normalised. */
fs_ssize fs_path_below(const char *path, size_t path_len, const char *prefix, size_t prefix_len);

/*
 * Writes a name of any bytes as one line: printable ASCII and valid UTF-8 unchanged, others as
 * \xNN, a backslash as \\, a newline as \n. Returns out.
 */
char *fs_printable(const char *name, size_t len, char *out, size_t size);
/* Like fs_printable, but keeps backslashes: a text in which names are printable already does not
   change. */
char *fs_one_line(const char *text, char *out, size_t size);
/* Writes a string of any bytes as JSON, in quotes. A byte that is not valid UTF-8 becomes the escape
   of a lone low surrogate, \udc80 to \udcff, like in Python's surrogateescape: no byte is lost. */
void fs_json_string(FILE *out, const char *text);

/* Returns true if the path matches the shell pattern. '*' and '?' do not match '/'; "**" does. A
   pattern without '/' is compared with the last component, others with the whole relative path. */
bool fs_glob_match(const char *pattern, const char *path);

/* Makes a directory and its parents with mode 0755 (the last with `mode`). Returns 0, also if it
   exists, or a negative errno. */
fs_err fs_mkdirs(const char *path, mode_t mode);
/* Removes a tree of our own files, including `path`, and never follows symlinks out of it. Returns
   0 or the first error. */
fs_err fs_remove_tree(const char *path);
/* Returns libc's text for an errno, in English if this libc has such texts. Never NULL. */
const char *fs_error_text(int err);
/* Returns true for "." and "..". */
static inline bool fs_is_dot(const char *name) {
  return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* Writes the name of a partition, such as "part-00042", to `out`. Returns out. */
#define FS_PART_NAME_SIZE 16
char *fs_part_name(uint32_t number, char out[FS_PART_NAME_SIZE]);
/* Convert n bytes to 2n hex digits and a NUL, and back. fs_unhex returns 0 or -EINVAL. */
char *fs_hex(const uint8_t *bytes, size_t n, char *out);
fs_err fs_unhex(const char *text, uint8_t *bytes, size_t n);

/*
 * An option table for the command-line tools. One row is one option; the parser and --help use it
 * (see fs_opt_parse).
 */
struct fs_opt {
  const char *name; /* "dataset", without dashes */
  char letter;      /* 'l' for -l, or 0 */
  const char *arg;  /* "DIR" for the help, NULL for a flag */
  const char *help;
  int id; /* passed to the callback */
};
/*
 * Parses argv from index `first`. Options end at "--" or, with stop_at_word, at the first word that
 * is no option. Each word goes to the callback with id 0. The caller has ids for --help and
 * --version. On an error one line "PROG: ..." goes to stderr and the result is -EINVAL (exit status
 * 2); a negative result of the callback also ends the parser. Returns the index of the first word
 * that was not consumed.
 */
typedef fs_err fs_opt_fn(void *ctx, int id, const char *value);
int fs_opt_parse(const char *prog, const struct fs_opt *opts, size_t nopts, int argc, char **argv, int first,
                 bool stop_at_word, fs_opt_fn *fn, void *ctx);
/* Prints the options' help, one aligned line each. */
void fs_opt_help(FILE *out, const struct fs_opt *opts, size_t nopts);

/* Copies like memcpy, but faster if the bytes come from memory and not from a processor cache. */
void fs_copy(void *dst, const void *src, size_t n);

/* Returns XXH3-64 of n bytes; for 0 bytes XXH3's constant for the empty input. */
uint64_t fs_xxh3(const void *data, size_t n);
/* XXH3-64 in pieces, for data that is not in memory at once. */
struct fs_xxh3_stream; /* from malloc, about 600 bytes */
struct fs_xxh3_stream *fs_xxh3_new(void);
void fs_xxh3_update(struct fs_xxh3_stream *s, const void *data, size_t n);
uint64_t fs_xxh3_digest(const struct fs_xxh3_stream *s);
void fs_xxh3_free(struct fs_xxh3_stream *s);
void fs_xxh3_128(const void *data, size_t n, uint8_t out[16]); /* canonical form */
/* Whoever does not know the seed cannot make data of equal hashes. */
uint64_t fs_xxh3_seeded(const void *data, size_t n, uint64_t seed);

#endif
