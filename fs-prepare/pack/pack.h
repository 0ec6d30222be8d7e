/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stages of `fs-prepare pack`, in order: walk (lists SOURCE) -> plan (order, links, partitions,
 * segments) -> pipeline (threads that read, compress and checksum) -> store (one thread that
 * places) -> parts (the partitions, each with a buffer) -> writer (threads that write full buffers)
 * -> target (the directory that becomes the dataset).
 *
 * A chunk is a whole small file, or whole blocks of a large one. A segment is the unit of
 * placement: chunks that stay in one partition. A file below plan.cut_above is one segment. Chunks
 * and segments depend only on the data and the options, never on --jobs or on timing, so neither
 * does the output. A batch is the unit of work: a large chunk, or many small ones.
 */
#ifndef FS_PREPARE_PACK_H
#define FS_PREPARE_PACK_H

#include "../prepare.h"
#include "../progress.h"
#include "codec/encode.h"
#include "items.h"
#include "sources.h"

/* Returns true if a pattern matches the path or a directory above it. */
bool fs_globs_match_above(const struct fs_globs *g, const char *path);

enum fs_dereference { FS_DEREF_NONE, FS_DEREF_OUTSIDE, FS_DEREF_ALL };
enum fs_codec_choice { FS_CHOOSE_AUTO, FS_CHOOSE_RAW, FS_CHOOSE_LZ4, FS_CHOOSE_LZ4HC, FS_CHOOSE_ZSTD };
enum fs_shards { FS_SHARDS_DEFAULT, FS_SHARDS_NEST, FS_SHARDS_MERGE }; /* default: nest several */
enum fs_order { FS_ORDER_PATH, FS_ORDER_SHUFFLE, FS_ORDER_SIZE };

struct fs_pack_options {
  const char *command;          /* for messages */
  const char *source, *dataset; /* source: the first one */
  char *own_name;               /* dataset, if it is not given */
  struct fs_source_arg *sources;
  uint32_t nsources;
  enum fs_shards shards;
  const char *files_from; /* NULL: all names */
  bool null;              /* its names end with NUL */
  bool keep_going;
  char mount[PATH_MAX];
  char codec_text[32];
  enum fs_codec_choice codec;
  int level;            /* for lz4hc and zstd */
  uint64_t decode_rate; /* for auto: plain bytes that a core must decode in a second; 0: by what is saved */
  uint64_t partitions;  /* 0: chosen from the size */
  uint32_t block_size;
  uint32_t align;
  unsigned jobs;
  bool force;
  const char *left_out;      /* FILE for the names that were left out, or NULL */
  const char *json_progress; /* FILE, "-", or NULL */
  enum fs_order order;       /* in which items are packed */
  bool update;               /* DATASET is updated from SOURCE */
  bool checksum;             /* with update: contents are compared */
  bool quiet;                /* the walk does not warn */
  bool restart;              /* an interrupted pack is not resumed */
  struct {
    bool codec, block_size, align, mount; /* given by the user: else an update takes the dataset's */
  } given;
  enum fs_dereference dereference; /* which symlinks are followed */
  struct fs_globs replicate, exclude;
  /* Of a pack over nodes: */
  const char *local_dir; /* NULL: this process packs alone */
  const char *hosts, *hostfile, *network;
  uint64_t emulate, start_timeout, node_timeout;
  bool nodes_only, verbose;
};
/* Reads the command line. Returns 0, or -EINVAL after one line on stderr. Release with
   fs_pack_options_free. */
fs_err fs_pack_options_parse(struct fs_pack_options *o, int argc, char **argv);
void fs_pack_options_free(struct fs_pack_options *o);
/* For the parser: add a word or the value of --source; then take DATASET from the words, check the
   combination and set the mount. Each returns 0, or a negative errno after one line on stderr. */
#define FS_PACK_SYNOPSIS "[options] SOURCE... DATASET"
fs_err fs_pack_add_source(struct fs_pack_options *o, const char *prefix, const char *path);
fs_err fs_pack_set_source(struct fs_pack_options *o, const char *option, const char *value);
fs_err fs_pack_set_shards(struct fs_pack_options *o, const char *value);
fs_err fs_pack_take_words(struct fs_pack_options *o);
void fs_pack_free_sources(struct fs_pack_options *o);
fs_err fs_pack_dereference(struct fs_pack_options *o, const char *value);
/* Sets the codec. Returns 0 or -EINVAL. */
fs_err fs_pack_codec(struct fs_pack_options *o, const char *text);
/* Becomes fs-launch, which starts fanstore-pack with these words on the nodes. Returns the exit
   status if that fails. */
int fs_pack_by_launch(const struct fs_pack_options *o, int argc, char **argv);

/* The names that --keep-going left out. */
struct fs_left {
  const char *source; /* path of the SOURCE, or NULL for a name that several have */
  size_t skip;        /* length of its prefix and the slash */
  char *path, *why;   /* path in the dataset */
  uint64_t item;      /* left out by fs_plan_leave_out, for this error; else the error is 0 */
  fs_err err;
};
struct fs_left_out {
  struct fs_left *list;
  size_t n, room;
};
/* Adds a name of a source, relative to it, or (NULL) of the dataset. Returns 0 or -ENOMEM. */
fs_err fs_left_out_add(struct fs_left_out *l, const struct fs_source *src, const char *path, const char *why);
/* Moves all problems to the list. */
fs_err fs_left_out_take(struct fs_left_out *l, const struct fs_source *src, struct fs_problems *p);
/* Names the first ten on stderr. */
void fs_left_out_name(struct fs_left_out *l);
/* Does the same, and tells how many there are. */
void fs_left_out_say(struct fs_left_out *l);
/* Checks that the file of --left-out, if it is given, can be written. Returns 0, or a negative errno after one line on
   stderr. */
fs_err fs_left_out_check(const struct fs_pack_options *o);
/* Writes all names to the file, if it is given. Returns like fs_left_out_check. */
fs_err fs_left_out_write(struct fs_left_out *l, const struct fs_pack_options *o);
void fs_left_out_free(struct fs_left_out *l);

struct fs_tree {
  struct fs_source *sources;
  uint32_t nsources;
  dev_t target_dev; /* the directory that becomes the dataset */
  ino_t target_ino;
  struct fs_item *items;
  size_t n;
  struct fs_block_file blocks;  /* of items with several */
  struct fs_arena text;         /* their paths and targets */
  struct fs_left_out left_out;  /* because of --keep-going */
  uint64_t replaced, absolute;  /* as in struct fs_scan */
  uint64_t excluded;            /* the same; of directories, names below an excluded one do not count */
  struct fs_progress *progress; /* counts the names of the walk */
};
/* Compares two items in the index's order, for qsort. */
int fs_item_order(const void *a, const void *b);
/* Appends the items of a directory. Returns 0, or a negative errno after one or more lines on
   stderr. */
fs_err fs_walk(const struct fs_pack_options *o, struct fs_tree *tree, uint32_t source);
/* Appends an array of items from malloc, which is then the tree's or freed. Returns 0, -EFBIG after one
   line on stderr, or -ENOMEM: then the array is still the caller's. */
fs_err fs_tree_take(struct fs_tree *tree, struct fs_items *items);
/* Frees the items and what they have. */
void fs_tree_forget(struct fs_tree *tree);
void fs_tree_free(struct fs_tree *tree);
/* Makes the file of the items' blocks in a directory. */
fs_err fs_block_file_open(struct fs_tree *tree, int dir, uint64_t block_size);

#define FS_KINDS_MAX 200u /* kinds of files (kinds.h) */

/* The dataset's table of codecs: how the blocks of each row are encoded. Set before the pipeline starts. */
#define FS_LEVEL_NONE (-1) /* a row of the dataset that is updated: no file is encoded with it yet */
struct fs_pack_codecs {
  struct fs_encoding row[FS_CODEC_ROWS_MAX];
  uint32_t n;
  uint8_t of_kind[FS_KINDS_MAX]; /* the row of a file of each kind, if it is worth the decoding */
};

struct fs_update;
struct fs_plan {
  const struct fs_pack_options *opts;
  struct fs_tree *tree;     /* sorted in the index's order */
  struct fs_update *update; /* NULL: a new dataset */
  uint64_t plain_bytes;     /* of all files; hard links count once */
  uint64_t new_bytes;       /* of those that an update does not keep */
  uint64_t pack_bytes;      /* bytes that the pipeline reads: without aliases */
  uint64_t left_out;        /* files that were left out after the plan was made */
  uint64_t files, dirs, symlinks;
  uint64_t links;  /* further names of hard-linked files */
  uint32_t nparts; /* ordinary partitions to be written; the replicated ones follow */
  uint32_t nreplicated;
  uint64_t seed;      /* of fs_second_hash: random, and the same for a resumed run */
  uint64_t cut_above; /* larger files are cut into segments */
  uint64_t segment;   /* bytes; a multiple of chunk */
  uint64_t chunk;     /* bytes; a multiple of the block size and of the alignment */
  struct fs_pack_codecs codecs;
  uint32_t *order; /* the items with content, in the order in which they are packed */
  uint64_t norder;
};
/* Fills plan->codecs as --codec says. Returns 0 or -ENOMEM. */
fs_err fs_plan_codecs(struct fs_plan *plan);
void fs_plan_codecs_free(struct fs_plan *plan);
/* Adds a row to the table. The dictionary must live as long as the plan. Returns
   its number, -ENOMEM, -ENOSPC if the table is full, or -EINVAL. */
int fs_plan_codec_row(struct fs_plan *plan, const struct fs_encoding *e);
void fs_plan_free(struct fs_plan *plan);
fs_err fs_plan_make(struct fs_plan *plan, const struct fs_pack_options *o, struct fs_tree *tree,
                    struct fs_update *update);
/* Finds large files of equal content and makes the later ones aliases. The store finds small
   ones. */
fs_err fs_plan_find_equal(struct fs_plan *plan);
/* Makes plan->order. Called when all aliases of the plan are known. Returns 0 or -ENOMEM. */
fs_err fs_plan_order(struct fs_plan *plan);
/* Leaves out an item that could not be read, if --keep-going allows it. Returns 0, or the error after
   one line on stderr. */
fs_err fs_plan_leave_out(struct fs_plan *plan, uint64_t number, fs_err err);
/* Leaves out what an interrupted run has left out for this error. Returns 0, -ENOMEM, or -EIO after one line. */
fs_err fs_plan_leave_out_again(struct fs_plan *plan, uint64_t number, fs_err err);
/* Makes plan->order from aliases whose content was left out, after the pipeline has ended. Returns
   how many are to be packed now, or a negative errno. */
fs_ssize fs_plan_again(struct fs_plan *plan);

/* Opens an item; the caller checks it after reading. Returns a descriptor or a negative errno
   (-ESTALE: the item changed). */
fs_fd fs_item_open(const struct fs_tree *tree, const struct fs_item *item);
/* Checks that an open item is unchanged since the walk. Returns 0 or -ESTALE. */
fs_err fs_item_check(const struct fs_tree *tree, int fd, const struct fs_item *item);
/* Reads bytes of an open item. Returns 0 or a negative errno. */
fs_err fs_item_read(const struct fs_tree *tree, const struct fs_item *item, int fd, void *buf, size_t n, uint64_t at);
/* Returns the error, or -ESTALE if the file turns out to have changed. */
fs_err fs_item_error(const struct fs_plan *plan, const struct fs_item *item, fs_err err);
/* Compares an item that can be opened with a file of a dataset of the same size. Returns like
   fs_content_equal. */
int fs_item_equal(const struct fs_tree *tree, const struct fs_item *item, struct fs_dataset *ds, uint32_t entry);
/* Prints one line about an error of fs_item_open, fs_item_check or a read. */
void fs_item_say(const struct fs_plan *plan, const struct fs_item *item, fs_err err);

struct fs_chunk_block {
  uint64_t xxh3;
  uint32_t stored_len;
};
struct fs_chunk {
  uint64_t item;
  uint64_t offset;     /* offset of its plain bytes in the file */
  uint64_t plain_len;  /* > 0 */
  bool whole;          /* the whole file */
  uint64_t plain_xxh3; /* with `whole` and --codec auto: of the plain bytes */
  uint8_t codec;
  fs_err err;            /* its bytes could not be read: all below is invalid */
  const uint8_t *stored; /* NULL: another node has them */
  uint64_t key;          /* without `stored`: a hash of the stored bytes beside those of the blocks */
  uint64_t plain_key;    /* of nodes, with plain_xxh3: another hash of the plain bytes */
  uint64_t stored_len;
  const struct fs_chunk_block *blocks;
  uint32_t nblocks;
  uint32_t partition; /* where the store has placed it, or FS_NOWHERE: it is stored already, or left out */
  uint64_t at;        /* its first byte there */
};
#define FS_NOWHERE UINT32_MAX
#define FS_BATCH_CHUNKS 128u
#define FS_BATCH_BYTES (1u << 20) /* plain; a single chunk may have more */
struct fs_batch {
  uint32_t n;
  fs_err err;               /* of the last chunk; those before it are valid */
  struct fs_stream *stream; /* of all chunks; NULL: their items can be opened */
  uint64_t turn;            /* at the stream */
  struct fs_chunk chunk[FS_BATCH_CHUNKS];
  uint8_t *stored; /* room for all chunks' stored bytes; reused, like `blocks` */
  struct fs_chunk_block *blocks;
};
/* Returns the most plain bytes of a batch. */
static inline uint64_t fs_batch_plain(const struct fs_plan *plan) {
  return FS_MAX(plan->chunk, (uint64_t)FS_BATCH_BYTES);
}
/* Makes room for the largest batch. Returns 0 or -ENOMEM. */
fs_err fs_batch_room(const struct fs_plan *plan, struct fs_batch *batch);
void fs_batch_free(struct fs_batch *batch);
/* Fills the chunks from their items: reads, chooses the codec, encodes. `plain` has room for
   fs_batch_plain bytes. Any thread, with an encoder of its own. */
void fs_encode_batch(const struct fs_plan *plan, struct fs_batch *batch, uint8_t *plain, struct fs_encoder *encoder);
/* With fs_xxh3, 128 bits tell content that another node has. Who makes SOURCE does not know the seed. */
uint64_t fs_second_hash(const struct fs_plan *plan, const void *data, uint64_t n);
/* Chooses whether a large file is worth encoding, by samples. After an error the choice is left open. */
void fs_choose_by_samples(const struct fs_plan *plan, struct fs_item *item, struct fs_encoder *encoder);
/* The same for a large file of a stream, by its first chunk. */
void fs_choose_by_begin(const struct fs_plan *plan, struct fs_item *item, const uint8_t *plain, size_t n);

struct fs_pipeline;
/* Starts the threads. The first chunk is that at `offset` of the item plan->order[at]. */
struct fs_pipeline *fs_pipeline_start(const struct fs_plan *plan, uint64_t at, uint64_t offset);
/* Stores the next batch in order. Returns 1, 0 after a short while without a batch, or -ENODATA
   after the last. */
int fs_pipeline_next(struct fs_pipeline *p, struct fs_batch **batch);
/* Gives back the batch that fs_pipeline_next returned last. */
void fs_pipeline_done(struct fs_pipeline *p);
void fs_pipeline_stop(struct fs_pipeline *p);
/* For fs_pack_nodes, in the thread that calls fs_pipeline_next. Claims the next batch and stores its
   number, if one is left and the ring has room; else returns NULL. */
struct fs_batch *fs_pipeline_claim(struct fs_pipeline *p, uint64_t *number);
/* Returns the first item of the next batch, if it comes from a stream; else NULL. */
const struct fs_item *fs_pipeline_stream_item(const struct fs_pipeline *p);
/* Returns a batch that is claimed and not done, or NULL. */
struct fs_batch *fs_pipeline_claimed(struct fs_pipeline *p, uint64_t number);
void fs_pipeline_encoded(struct fs_pipeline *p, uint64_t number);
/* Returns the number of the batch that fs_pipeline_next returns next. */
uint64_t fs_pipeline_taken(const struct fs_pipeline *p);

/* Threads that write buffers to files. Only one thread of fs-prepare calls these functions. */
struct fs_writer;
struct fs_write {
  uint8_t *data; /* page-aligned */
  size_t used;
  uint64_t at;       /* offset in the file */
  uint32_t *pending; /* count of the file's unfinished writes; under the writer's lock */
  int fd;
  struct fs_write *next;
};
/* Starts the threads, with buffers for `files` open files and some more that are being written,
   about 32 MiB in all. */
struct fs_writer *fs_writer_start(uint32_t files);
/* Returns the size of a buffer: a power of two, whole pages. */
size_t fs_writer_size(const struct fs_writer *w);
/* Returns an empty buffer, and may wait for one. Returns 0, the error of an earlier write, or
   -EINTR. */
fs_err fs_writer_get(struct fs_writer *w, struct fs_write **buf);
/* Starts to write a buffer, which is then freed. Size and offset are whole pages. */
void fs_writer_put(struct fs_writer *w, struct fs_write *buf);
/* Waits until no write of one file, or (NULL) of any file, is pending. Returns 0, the error of a
   write, or -EINTR. */
fs_err fs_writer_wait(struct fs_writer *w, const uint32_t *pending);
/* Stops the threads, and drops the writes that have not begun. */
void fs_writer_stop(struct fs_writer *w);
/* Sets a file to write page-aligned memory past the page cache, if the file system can. Each write
   is then a write of the disk, so this is not for buffers smaller than FS_DIRECT_LEAST, which very
   many partitions have. */
#define FS_DIRECT_LEAST (256u << 10)
void fs_write_direct(int fd);
fs_err fs_write_pages(int fd, const void *data, size_t n, uint64_t at);

/* The partition files that are being written, and those that an update keeps. One thread. */
struct fs_part_out {
  int fd;
  enum { FS_PART_NEW, FS_PART_KEPT, FS_PART_VACANT } kind;
  uint64_t size; /* including the bytes in the buffer */
  struct fs_write *buf;
  size_t hashed; /* bytes of the buffer that are in the checksum */
  uint32_t pending;
  uint32_t heap_at;
  struct fs_xxh3_stream *hash;
  struct fs_part_rec rec; /* of a kept one, else set at the end */
};
/* A partition at a checkpoint: its size, and the checksum of its bytes from FS_PART_HEADER_SIZE. */
struct fs_part_state {
  uint64_t size, xxh3;
};
struct fs_parts {
  int dir;
  uint32_t align;
  struct fs_part_out *out;
  struct fs_writer *writer;
  uint32_t n;
  uint32_t nnew, nordinary; /* to be written; the ordinary ones of them */
  uint32_t *heap;           /* two heaps of partition numbers, by size: [0, nordinary), [nordinary, nnew) */
};
/* Makes the files in `dir`, or opens those of an interrupted run. here: which new partitions this process
   writes; NULL: all. Of the others only the size is counted. */
fs_err fs_parts_create(struct fs_parts *p, int dir, const struct fs_plan *plan, bool resume, const bool *here);
/* Returns the number of new partition k, 0 to nnew - 1. */
uint32_t fs_parts_new(const struct fs_plan *plan, uint32_t k);
/* Writes everything to disk, and stores the state of each new partition that has a file. */
fs_err fs_parts_sync(struct fs_parts *p, const struct fs_plan *plan, struct fs_part_state *state);
/* Takes the sizes of a checkpoint, and goes back to its states. Returns -EBADMSG if the files do not have
   those bytes. */
fs_err fs_parts_resume(struct fs_parts *p, const struct fs_plan *plan, const struct fs_part_state *state);
/* Rebuilds the heaps after sizes were set. */
void fs_parts_order(struct fs_parts *p);
void fs_parts_hash_buffer(struct fs_part_out *o);
uint32_t fs_parts_least(const struct fs_parts *p, bool replicate);
/* Appends data after padding to `align`. Stores where it begins in *offset. */
fs_err fs_parts_append(struct fs_parts *p, uint32_t part, const void *data, uint64_t n, uint64_t align,
                       uint64_t *offset);
fs_err fs_parts_pad(struct fs_parts *p, uint32_t part, uint64_t align);
/* Appends data at an offset that is not before the partition's end, with zeros between. */
fs_err fs_parts_put(struct fs_parts *p, uint32_t part, uint64_t offset, const void *data, uint64_t n);
/* Compares data with the bytes at `offset`. Returns 1 if equal, 0, or a negative errno. */
int fs_parts_equal(struct fs_parts *p, uint32_t part, uint64_t offset, const uint8_t *data, uint64_t n);
/* Reads the bytes at `offset` back. */
fs_err fs_parts_read(struct fs_parts *p, uint32_t part, uint64_t offset, uint8_t *data, uint64_t n);
/* Pads all partitions, writes their buffers, and fills in their records. */
fs_err fs_parts_finish(struct fs_parts *p);
/* Writes the headers and syncs the files. */
fs_err fs_parts_seal(struct fs_parts *p, const uint8_t dataset_id[16]);
void fs_parts_close(struct fs_parts *p);
void fs_parts_free(struct fs_parts *p);

/* The temporary directory beside DATASET, which becomes DATASET. One thread. */
struct fs_target {
  char path[PATH_MAX];   /* path of DATASET, symlinks resolved */
  char parent[PATH_MAX]; /* path of its parent directory */
  char name[256];
  char temp[256]; /* name in the parent; "": none */
  int parent_fd, temp_fd;
  int journal_fd; /* locked while we live */
  bool adopted;   /* an interrupted run's directory */
  bool replace;   /* a dataset may be replaced */
  dev_t old_dev;  /* the directory that is being updated; old_ino is 0 if none is */
  ino_t old_ino;
};
/* Checks that DATASET may be written. Returns a negative errno after one line on stderr. */
fs_err fs_target_check(struct fs_target *t, const struct fs_pack_options *o);
/* Makes the temporary directory. With `resume`, takes over that of an interrupted run, if any. */
fs_err fs_target_create(struct fs_target *t, bool resume);
/* Replaces the temporary directory by a new one. */
fs_err fs_target_renew(struct fs_target *t);
/* Checks once more that DATASET may be made. Returns -EEXIST, or for an update -ESTALE, after one line. */
fs_err fs_target_recheck(const struct fs_target *t);
/* Takes a lock (flock). A killed process keeps one until the disk has answered. Returns -EBUSY at until_ns, -EINTR. */
fs_err fs_target_lock(int fd, uint64_t until_ns);
fs_err fs_target_commit(struct fs_target *t);
/* Leaves the temporary directory to a later run, and says so. mine: this run has a checkpoint there; else
   it has refused to begin, and an interrupted one has made the directory. */
void fs_target_keep(struct fs_target *t, bool mine);
/* Removes the temporary directory, if it still exists. */
void fs_target_discard(struct fs_target *t);
/* Makes a file in the temporary directory. An error is told by one line on stderr. */
fs_fd fs_target_file(struct fs_target *t, const char *name);
/* Computes the XXH3 of the first n bytes of such a file. An error is told by one line, but -EINTR is not. */
fs_err fs_target_hash(struct fs_target *t, int fd, uint64_t n, uint64_t *xxh3);
/* Writes a whole file in the temporary directory and syncs it. */
fs_err fs_target_write(struct fs_target *t, const char *name, const void *data, uint64_t n);
/* Prints one line about an error of a write below the target. */
void fs_target_say(const struct fs_target *t, const char *what, fs_err err);

struct fs_store; /* store.h */

/* The journal of checkpoints, in the temporary directory (journal.c). One thread. */
struct fs_journal {
  int fd;
  const struct fs_plan *plan;
  uint64_t end;          /* where the next record begins */
  uint64_t next, offset; /* the next chunk to be stored; `next` counts in plan->order */
  uint64_t from;         /* what comes before it in plan->order is in the journal */
  uint64_t block;        /* and so are as many blocks of the item there */
  uint64_t *plain;       /* fs_store.plain_xxh3 of each item since then; empty if all are 0 */
  size_t nplain, plain_room;
  uint64_t chunks; /* since the last record */
  uint64_t last_ns, every_ns;
  uint64_t options, source; /* fingerprints */
  bool any;                 /* it has a record */
  size_t left;              /* entries of tree->left_out that are no more to be written */
  bool ended;               /* the plan has got another order */
};
#define FS_JOURNAL_LEAST 112u /* bytes of a journal with a checkpoint: more */
bool fs_journal_has_checkpoint(int fd);
uint64_t fs_journal_seed(const struct fs_target *t); /* of the run whose directory was taken over, or random */
/* Sets j->options and j->source (fingerprint.c). Returns 0 or -ENOMEM. */
fs_err fs_journal_fingerprint(struct fs_journal *j);
/* Begins the journal of the temporary directory. If that was taken over and does not fit the plan,
   says so and renews it. */
fs_err fs_journal_open(struct fs_journal *j, const struct fs_plan *plan, struct fs_target *t);
/* Restores the store of the last checkpoint. Returns -EBADMSG if partitions or journal are damaged, or
   -ENODATA after a line about it; then no item has changed. */
fs_err fs_journal_restore(struct fs_journal *j, struct fs_store *s);
/* Empties the journal. */
fs_err fs_journal_begin(struct fs_journal *j, int fd);
/* Notes that the store has taken a chunk, with its fs_store.plain_xxh3. Returns 0 or -ENOMEM. */
fs_err fs_journal_note(struct fs_journal *j, const struct fs_chunk *c, uint64_t plain_xxh3);
/* Writes a checkpoint, if it is time. */
fs_err fs_journal_tick(struct fs_journal *j, struct fs_store *s);
fs_err fs_journal_checkpoint(struct fs_journal *j, struct fs_store *s);
void fs_journal_free(struct fs_journal *j);

/* The dataset that is updated (update.c). */
struct fs_update {
  struct fs_dataset old;
  bool *taken; /* for each old partition: files of the old dataset use it, and it is good. NULL: nodes.h's numbers */
  uint32_t *number;  /* of the partitions to be written, ascending */
  uint32_t total;    /* number of partitions of the new dataset */
  _Atomic bool lost; /* an old partition that is used is damaged, or on no node */
  bool on_nodes;     /* the old partitions are on the nodes only, and cannot be read here */
  uint64_t found;    /* files of SOURCE whose path the old dataset has */
  uint64_t kept, kept_bytes;
};
/* Opens DATASET, and takes the options that the user did not give from it. */
fs_err fs_update_open(struct fs_update *u, struct fs_pack_options *o, struct fs_target *t,
                      struct fs_progress *progress);
void fs_update_free(struct fs_update *u);
/* Adds the old dataset, and which of its partitions are taken over, to a hash. */
void fs_update_hash(const struct fs_update *u, struct fs_xxh3_stream *h);
/* Marks the items whose content the old dataset has. */
fs_err fs_update_match(struct fs_update *u, struct fs_plan *plan);
/* Adds the old dataset's rows to the table of codecs, under their numbers. */
fs_err fs_update_codecs(const struct fs_update *u, struct fs_plan *plan);
/* Numbers the partitions to be written. */
fs_err fs_update_number(struct fs_update *u, const struct fs_plan *plan);
/* Makes a kept partition in `dir`: a link, else a copy. */
fs_err fs_update_take(struct fs_update *u, int dir, uint32_t part);

/* If several nodes pack, fs_pack_nodes has the functions of rank 0, which plans and places for all
   of them (fs-prepare/nodes). Else it is NULL. Pack's main thread calls them. */
struct fs_walk;
struct fs_pack_nodes {
  uint32_t nodes;
  void (*walk)(struct fs_walk *walk); /* as fs_walk_threads, with threads of all nodes */
  /* Scans all archives into scan[source]. Returns 0, or a negative errno, after a line unless it is -ENOMEM or
     -EINTR. */
  fs_err (*scan)(const struct fs_pack_options *o, struct fs_tree *tree, struct fs_scan *scan);
  /* Sets held[p] for each partition of DATASET that a node has staged. The nodes keep these until the end. */
  fs_err (*held)(const struct fs_dataset *old, const char *local_dir, bool *held);
  fs_err (*begin)(const struct fs_plan *plan, const struct fs_target *t); /* before the pipeline starts */
  /* Makes the nodes' directories, or goes back to the states of a checkpoint. Returns -ENODATA, after a line,
     if a node cannot. */
  fs_err (*open)(const struct fs_part_state *state);
  /* Like fs_parts_sync, for the partitions of all nodes. */
  fs_err (*sync)(const struct fs_parts *p, struct fs_part_state *state);
  uint64_t (*window)(void);                   /* slots of the pipeline's ring */
  fs_err (*step)(struct fs_pipeline *p);      /* for a short while, or until the next batch is done */
  fs_err (*stored)(const struct fs_batch *b); /* tells the nodes where this batch's chunks are placed */
  fs_err (*finish)(struct fs_parts *p);       /* fills in the records' checksums */
  fs_err (*seal)(struct fs_parts *p, const uint8_t dataset_id[16]);
  fs_err (*adopt)(const struct fs_target *t); /* makes staged copies of the dataset, which has no name so far */
  void (*leave)(bool keep);                   /* before the process ends after a failure. keep: the pack can go on */
};
#define FS_PACK_NODES_END_NS (5 * FS_NS_PER_S) /* for ranks of an interrupted pack, which may still end */
extern const struct fs_pack_nodes *fs_pack_nodes;

#endif
