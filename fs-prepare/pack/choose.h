/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses how files of one kind are stored, from samples of them. The choice depends on the samples
 * and the options alone: what decoding costs is computed from constants (cost.c), and not measured
 * on this machine. So the same SOURCE gives the same bytes on every machine. Any thread.
 */
#ifndef FS_PREPARE_CHOOSE_H
#define FS_PREPARE_CHOOSE_H

#include "codec/encode.h"
#include "util/base.h"

#define FS_READ_RATE 312500000ull /* bytes a second of one reader: a link of 10 Gbit/s that four readers share */
#define FS_AUTO_LZ4_LEVEL 5       /* level 9 takes up to five times as long, and saves 1/50 at most */
#define FS_AUTO_ZSTD_LEVEL 6

/* Returns the nanoseconds that one core is taken to need for decoding so many blocks. */
uint64_t fs_decode_cost(const struct fs_encoding *e, uint64_t blocks, uint64_t plain, uint64_t stored);
/*
 * Returns true if decoding may cost so much. `rate` is the least number of plain bytes that one core
 * must decode in a second. If it is 0, decoding may cost what reading fewer bytes saves.
 */
bool fs_decode_allowed(uint64_t rate, uint64_t cost_ns, uint64_t plain, uint64_t stored);
/* Returns true if --codec auto stores a file encoded that becomes so small. */
bool fs_worth(const struct fs_encoding *e, uint64_t rate, uint64_t blocks, uint64_t plain, uint64_t stored);
/* Writes "lz4hc:9", "zstd:6+shuffle4", "zstd:6+dict16K" and the like. Returns `out`. */
#define FS_ENCODING_TEXT 32
const char *fs_encoding_text(const struct fs_encoding *e, char out[FS_ENCODING_TEXT]);

/* A block of a file. */
struct fs_sample {
  const uint8_t *plain;
  size_t n;
};

/* What an encoding gives for the samples that were tried. Each sample counts the same, whatever its
   length is. */
struct fs_trial {
  struct fs_encoding encoding; /* not prepared; the dictionary is the verdict's */
  uint64_t stored;             /* files that are not worth it are raw; with the dictionary's share */
  uint64_t unbound;            /* the same without a bound on the cost of decoding */
  uint64_t cost_ns;            /* of decoding what is counted in `unbound` */
};

struct fs_verdict {
  uint64_t plain;       /* of the trials, in the same measure; 0: nothing was tried */
  struct fs_trial best; /* look at `stored` */
  struct fs_trial next; /* the smallest in `unbound`, if the bound forbids it. Family raw: there is none */
  uint8_t *dict;        /* from malloc, or NULL: no dictionary was found */
};

/* The files for which is chosen. */
struct fs_choose {
  const struct fs_sample *samples; /* spread over the files */
  size_t n;
  uint64_t bytes; /* plain bytes of all files */
  bool small;     /* the samples are whole small files: try a dictionary, whose own bytes count */
  uint64_t rate;  /* as in fs_decode_allowed */
};
/* Returns 0 and the verdict, or -ENOMEM. The caller releases the verdict. Without samples it is a common
   encoding, and each file is tried. */
fs_err fs_choose(const struct fs_choose *c, struct fs_verdict *v);
void fs_verdict_release(struct fs_verdict *v);

#endif
