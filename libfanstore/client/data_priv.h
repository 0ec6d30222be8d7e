/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This header is what the files behind client/data.h share: the process's mounts, opened datasets,
 * their partitions, and the steps of a read. Only they and their unit tests include it.
 *
 * A pointer or number is published once, from 0 to its value, by compare and swap; a thread that
 * loses drops what it made. Nothing published is ever freed, so readers need no lock. What must not
 * survive a fork (the channel, the counters, which chunks are populated, decoded blocks) lies in
 * MADV_WIPEONFORK memory: a child finds zeros there, however it was made.
 */
#ifndef FS_CLIENT_DATA_PRIV_H
#define FS_CLIENT_DATA_PRIV_H

#include "cache/cache.h"
#include "client/data.h"
#include "client/timing.h"
#include "ipc/node.h"
#include "ipc/record_table.h"
#include "util/sys.h"

/* ---- self.c: memory, this process ---- */

/* Returns n bytes of zeroed private memory from the kernel, or NULL. */
void *fs_mem_map(size_t n);
/* Like fs_mem_map, but a forked child finds zeros. Returns NULL also if the kernel cannot do
   that. */
void *fs_mem_map_wiped(size_t n);
/* Like fs_mem_map, but children that are forked later share the mapping. */
void *fs_mem_map_shared(size_t n);
/* Maps n bytes of shared memory or of a file, from its beginning. Returns NULL if that fails. */
void *fs_mem_map_fd(int fd, size_t n, int prot);
void fs_mem_unmap(void *p, size_t n);
static inline bool fs_publish_ptr(void *_Atomic *word, void *p, void **winner) {
  void *none = NULL;
  bool won = atomic_compare_exchange_strong_explicit(word, &none, p, memory_order_acq_rel, memory_order_acquire);
  *winner = won ? p : none;
  return won;
}

struct fs_link;
struct fs_self {
  _Atomic int32_t pid;   /* the process that this memory belongs to; 0 in a new child */
  _Atomic uint32_t told; /* lines written to stderr */
  void *_Atomic link;    /* struct fs_link: this process's channel, or NULL */
  void *_Atomic trace;   /* struct fs_trace_own: where this process's calls are recorded, or NULL */
  _Atomic uint64_t link_retry_ns;
  _Atomic uint32_t spin_ns; /* of a wait, at most. More than FS_SPIN_MAX_NS: that many more waits sleep (wait.c) */
  _Atomic uint32_t crowded_waits; /* after the next crowded yield, twice as many waits sleep (wait.c) */
  _Atomic uint64_t decodes;       /* partial decodes of a block */
  _Atomic uint64_t counter[FS_C_COUNT];
  /* Read-ahead, by a hash of the file: its last remote block that was read (entry << 32 | block),
     and the end of what was asked for. */
#define FS_AHEAD_SLOTS 64u
  _Atomic uint64_t ahead_last[FS_AHEAD_SLOTS];
  _Atomic uint32_t ahead_end[FS_AHEAD_SLOTS];
};
/* Returns this process's state. It is never NULL: if the kernel gives no memory, it is static. */
struct fs_self *fs_self(void);
/* Returns whether this process owns the memory that it runs in. Slow paths that open descriptors
   ask this: a vfork child shares memory but not descriptors, so it must publish none. A forked
   child adopts the memory in this call. */
bool fs_self_owner(void);
/* Returns the process that the memory belongs to, without a system call. If the value changes
   during a read, a signal handler has forked in it. The read then goes on in the child, where the
   blocks that it had decoded are wiped. */
int32_t fs_self_process(void);
/* Adds blocks and bytes to the counters of the place that they came from. */
void fs_count_place(enum fs_place place, uint64_t blocks, uint64_t bytes);
uint64_t fs_counter_get(unsigned counter); /* this process's: channel and private memory */

/* ---- note.c: one line on stderr ---- */

/* Writes "fanstore: " and the parts, up to a NULL, as one line to stderr. A process writes a few
   such lines at most. */
void fs_note(const char *const *parts);
#define FS_NOTE(...) fs_note((const char *const[]){__VA_ARGS__, NULL})
#define FS_U64_TEXT 24
char *fs_u64_text(uint64_t v, char out[FS_U64_TEXT]);
/* Writes a line that `path` is no dataset, what to do about it, and the effect. */
void fs_note_no_dataset(const char *path, const char *effect, const char *on);
const char *fs_err_text(fs_err err); /* a few words for the errors that users meet */

/* ---- ownfd.c ---- */

/* Marks fd as the library's own and remembers that *word holds it (as fd + 1). */
void fs_own_note(int fd, _Atomic int32_t *word);
/* Returns whether fd, which was published in *word, was the same file all through its use. If not,
   the result of that use is void. A caller cannot tell by the number alone, which the library may
   have again for another file. */
static inline bool fs_own_still(_Atomic int32_t *word, int fd, bool temporary) {
  return temporary || atomic_load_explicit(word, memory_order_relaxed) == fd + 1;
}
/* Moves `low` to the library's range and publishes it in *word (number + 1; 0: none yet). Returns
   the number to use, whichever thread published it. If *temporary is set, that is still `low`, and
   the caller closes it after this use. */
fs_fd fs_own_publish(_Atomic int32_t *word, int low, bool *temporary);
/* Enclose moving a descriptor to the library's range and publishing it (ownfd.c says why). If begin
   returns false, the caller must not publish. */
bool fs_own_publish_begin(void);
void fs_own_publish_end(void);
/* Opens path read-only, CLOEXEC, at a low number. The caller passes it to fs_data_adopt_fd or
   closes it. */
fs_fd fs_open_read(const char *path);
/* Like fs_open_read, with more open flags. */
fs_fd fs_open_read_as(const char *path, int more);
/* Writes "dir/name" to out, which has PATH_MAX bytes. Returns 0 or -ENAMETOOLONG. */
fs_err fs_join(char *out, const char *dir, const char *name);

/* ---- config.c, mount.c ---- */

struct fs_part {
  _Atomic int32_t local_fd; /* number + 1, 0: not opened, -1: cannot be used */
  _Atomic int32_t shared_fd;
  _Atomic int32_t direct_fd;     /* as local_fd, for the same file opened with O_DIRECT */
  _Atomic uint32_t direct_unit;  /* its offsets, lengths and addresses are multiples of this */
  void *_Atomic map;             /* the local file, whole */
  void *_Atomic chunk;           /* _Atomic uint16_t[] in wiped memory: a state for each FS_CHUNK */
  _Atomic uint64_t read_to;      /* end of the last large read that was not in the page tables */
  _Atomic uint64_t taken_to;     /* end of the last chunk that came from the device */
  _Atomic uint64_t asked_to;     /* how far the kernel was asked to read behind such chunks */
  _Atomic uint64_t run, run_end; /* sequential bytes asked of direct.c, and their end */
  _Atomic uint32_t told;         /* damage or a failed read of the local file was told */
};

struct fs_node;
struct fs_dataset {
  struct fs_index ix;
  uint32_t mount;                               /* number of its mount */
  uint32_t number;                              /* in the job; meaningless when node is NULL */
  const struct fs_node *_Atomic node;           /* NULL: no daemon; changes at most once */
  const struct fs_placement *_Atomic placement; /* of its partitions; NULL: all shared */
  const char *local;                            /* this node's directory, or NULL */
  const char *shared;                           /* the dataset's directory */
  enum fs_verify verify;
  size_t work_size;         /* of the memory that decoding a block may need: fs_codec_work_size */
  void *_Atomic checked[2]; /* by enum fs_check: _Atomic uint8_t[], a bit an entry, then a block */
  void *_Atomic blocks;     /* struct fs_dcache */
  void *_Atomic alone;      /* struct fs_alone[]: where real files are made without a daemon */
  struct fs_part part[];
};

struct fs_mount {
  char path[PATH_MAX];
  char dataset[PATH_MAX];
  size_t path_len;
  dev_t dev;
  uint32_t same;    /* the mount of which this is another name, or itself */
  void *_Atomic ds; /* struct fs_dataset */
  _Atomic int32_t err;
  _Atomic uint64_t retry_ns;
  _Atomic uint32_t told;
};

#define FS_MAX_NAMES (2 * FS_MAX_DATASETS) /* a mount may have two */

struct fs_config {
  uint32_t mounts;
  uint32_t names; /* the mounts, then their other names: see fs_mount_names */
  bool read_only;
  bool relative; /* a dataset was named by a relative path */
  enum fs_verify verify;
  struct fs_mount mount[];
};
/* Returns the process's configuration, never NULL. Only the atomic fields of its mounts change. */
struct fs_config *fs_config(void);
/* Reads and parses the file "manifest" of the directory dir, with raw calls only. */
struct fs_manifest;
fs_err fs_manifest_read(const char *dir, struct fs_manifest *m);
/* Returns the opened dataset of mount i, or NULL with *err set. The first call opens it. */
struct fs_dataset *fs_dataset(uint32_t i, fs_err *err);
/* Gives the datasets that were opened before the daemon was met the node that it serves. */
void fs_datasets_online(const struct fs_node *node);

/* ---- attach.c: the daemon ---- */

#define FS_DEADLINE_MIN_NS 10000000ull
#define FS_DEADLINE_MAX_NS 120000000000ull
struct fs_node { /* the same for a process and its forked children */
  const struct fs_ctl *ctl;
  const struct fs_placement *placement;
  struct fs_cache_view view;
  struct fs_record_view records;
  uint64_t ctl_ino; /* tells the job's daemon from a later one at the same address */
  uint64_t deadline_ns;
  bool offline; /* made from what the daemon has left, without it (offline.c) */
};
struct fs_link { /* belongs to one process */
  struct fs_channel *channel;
  uint64_t channel_size;
  int32_t socket, doorbell;
  _Atomic uint32_t dead;  /* the daemon has ended */
  _Atomic uint32_t full;  /* a wait for a slot timed out; until one is free, nobody waits again */
  _Atomic uint64_t files; /* ids of output files given out */
};
/* Returns this process's node, or NULL if there is no job. If its daemon has not been met, the node
   is an offline one. */
const struct fs_node *fs_node_attach(void);
/* Returns whether this process is in a job, also if its daemon was not met. */
bool fs_run_set(void);
struct fs_link *fs_link_get(void);             /* NULL: none at this time */
extern FS_INTERNAL _Atomic uint32_t fs_no_run; /* no job in the environment, so never a daemon */
/* Returns the link for one read of a vfork child whose parent has none, or NULL. The link is built
   in `mine` and is not published; fs_link_return ends it. */
struct fs_link *fs_link_borrow(struct fs_link *mine);
void fs_link_return(struct fs_link *mine);
bool fs_node_alive(const struct fs_node *node);
/* Returns whether the daemon has ended or stopped while the job has not. */
bool fs_node_silent(const struct fs_node *node);
/* Returns whether everything that a client reads of this ctl lies inside its `size` bytes. */
bool fs_ctl_valid(const struct fs_ctl *c, uint64_t size);
/* Returns how long to wait for the daemon that has this socket. */
uint64_t fs_attach_patience(const struct stat *socket, const struct timespec *now);
/* Returns why the last attempt to meet the daemon failed, or 0. */
fs_err fs_attach_failed(void);
/* Returns whether the user was told that this process sees no directory by the name in
   FANSTORE_RUN. */
bool fs_run_unseen(void);
/* Let one thread of a forked child close what it inherited of its parent's link. The child takes it
   by fs_link_newest, before it makes a link of its own. */
struct fs_link *fs_link_newest(void);
void fs_link_forked(struct fs_link *inherited);

/* ---- offline.c ---- */

/* Returns the node of `run` as its daemon left it, or one of which nothing is known. Later calls
   return the same node. NULL: no memory. */
const struct fs_node *fs_node_offline(const char *run, uint32_t node);
/* Returns the node that fs_node_offline has made, or NULL. */
const struct fs_node *fs_node_was_offline(void);

/* ---- wait.c ---- */

bool fs_link_known_dead(const struct fs_link *link);
/* Returns whether the daemon has ended. Makes a system call. */
bool fs_link_dead(struct fs_link *link);
/* Returns whether a call can be answered. If the daemon seems to have stopped, the first caller
   waits up to 0.5 s for its next heartbeat: the whole job may have been suspended. */
bool fs_wait_alive(const struct fs_node *node, struct fs_link *link);
/* Wakes the daemon, if it sleeps, after the caller has posted something. */
void fs_link_ring(const struct fs_node *node, const struct fs_link *link);
/* Waits up to ns nanoseconds until the daemon has answered in this word (enum fs_req_state).
   Returns 0, -ETIMEDOUT or -EHOSTDOWN; with `signals` also -EINTR, if a signal handler has run. */
fs_err fs_wait_done(const struct fs_node *node, struct fs_link *link, _Atomic uint32_t *state, uint64_t ns,
                    bool signals);
/* A wait for a free slot while other threads have all of them. Begins as {0}. */
struct fs_slot_wait {
  uint64_t end, tries;
};
/* Waits a moment before the next try to claim a slot. Returns false if it has waited for ns. */
bool fs_wait_slot(struct fs_slot_wait *w, uint64_t ns);

/* ---- local.c ---- */

#define FS_CHUNK_SHIFT 21u
#define FS_CHUNK (1ull << FS_CHUNK_SHIFT)
/* Returns a descriptor of the staged partition p. If *temporary is set, the caller closes it after
   use. */
fs_fd fs_local_fd(struct fs_dataset *ds, uint32_t p, bool *temporary);
/* Opens the file of the staged partition p anew, with more open flags, at a low number. */
fs_fd fs_local_open(struct fs_dataset *ds, uint32_t p, int more);
/* Copies n bytes at off of the staged partition p. [file, file_end) is the file or block that the
   bytes belong to. Returns 0, -EFAULT, or the reason why the partition cannot be used. */
fs_err fs_local_copy(struct fs_dataset *ds, uint32_t p, void *dst, size_t n, uint64_t off, uint64_t file,
                     uint64_t file_end);
/* Returns a pointer into the mapping to n bytes at off of the staged partition p, whose pages are
   present. If it returns NULL, the caller uses fs_local_copy. */
const void *fs_local_ptr(struct fs_dataset *ds, uint32_t p, size_t n, uint64_t off);
void fs_local_willneed(struct fs_dataset *ds, const struct fs_block *b);
/* Gives all stored bytes of a block, checked as FANSTORE_VERIFY says: in the mapping, else copied.
   If it returns 0, the caller ends the use by fs_local_stored_end. */
struct fs_stored;
fs_err fs_local_stored(struct fs_dataset *ds, const struct fs_block *b, struct fs_stored *out);
void fs_local_stored_end(struct fs_stored *s);
/* Checks a block as fs_check_block does, and tells the user of damage once for each partition. */
struct fs_scratch;
fs_err fs_local_check(struct fs_dataset *ds, const struct fs_block *b, const void *stored, const struct fs_scratch *in);
/* Tells the user, once for each partition, that a read of it gave -EIO. */
void fs_local_failed(struct fs_dataset *ds, uint32_t p);
/* Returns the mapping of the staged partition p, which the first call makes, or NULL. */
const uint8_t *fs_local_map(struct fs_dataset *ds, uint32_t p);

/* ---- chunk.c: which chunks of the mappings are in this process's page tables ---- */

/* A chunk's word holds its kind and a count since the last look at it. The count is of reads; while
   the chunk is cold, they are weighted. */
#define FS_CHUNK_KIND 0xc000u
#define FS_CHUNK_COLD 0x0000u
#define FS_CHUNK_PRESENT 0x4000u
#define FS_CHUNK_NEVER 0x8000u
#define FS_CHUNK_COUNT 0x3fffu
#define FS_CHUNK_LOOK_AT 512u /* at this count, see whether the kernel has taken pages back */

/* Returns whether memory has room for chunk c of the partition beside the others that are to be
   there. */
bool fs_chunk_room(uint32_t p, uint64_t c);
/* Returns whether chunk c, where it is not in the page cache, is to be read past it. */
bool fs_chunk_direct(struct fs_dataset *ds, uint32_t p, uint64_t c);
/* Counts a read of n bytes from a chunk that is not present, and takes the chunk into the page
   tables when that is worth it. `cold` says that some of the bytes were not in memory. Returns
   whether the chunk is present now. */
bool fs_chunk_read(struct fs_dataset *ds, uint32_t p, _Atomic uint16_t *word, uint64_t c, size_t n, bool cold);
/* Returns whether bytes of the mapping are likely to be in memory. Looks at one page of them. */
bool fs_chunk_likely(const uint8_t *map, uint64_t off, uint64_t n);
/* Note how long a large read of n bytes took, by pread or from a chunk that was just taken. */
void fs_chunk_preaded(uint64_t began, size_t n);
void fs_chunk_copied(uint64_t began, size_t n);
/* Counts a large read of n bytes that are in memory, before it is made. Takes the chunk if this is
   expected to save time, or once more bytes than it has were read from it: then something is read
   again. Returns whether the chunk is present now. */
bool fs_chunk_read_big(struct fs_dataset *ds, uint32_t p, _Atomic uint16_t *word, uint64_t c, size_t n);
/* Returns whether a chunk that is marked present is still in memory. */
bool fs_chunk_look(struct fs_dataset *ds, uint32_t p, _Atomic uint16_t *word, uint64_t c);
/* Gives the kernel the advice that suits the room in memory, for a new mapping of a partition. */
void fs_local_mapped(const void *map, size_t n);

/* ---- cold.c: large reads that are not in memory, where there is room ---- */

struct fs_cold {    /* what fs_cold_look finds of a chunk */
  bool likely;      /* its rest is likely to be read */
  const void *last; /* a missing page after most others, or NULL */
};
struct fs_cold_read {
  size_t n;            /* bytes to read, all in one chunk */
  uint64_t off;        /* their place in the partition */
  uint64_t begin, end; /* the range of the partition that the whole call reads */
  uint64_t file, file_end;
};
/* Samples which pages of chunk c are in memory. */
void fs_cold_look(const uint8_t *map, uint64_t size, uint64_t c, struct fs_cold *cold);
/* Asks the kernel for the bytes of the read and for what follows in the same call. */
void fs_cold_before(struct fs_dataset *ds, uint32_t p, const struct fs_cold_read *r);
/* Asks the kernel for the rest of the chunk after the read, if that is likely to be read. */
void fs_cold_rest(struct fs_dataset *ds, uint32_t p, const struct fs_cold_read *r, const struct fs_cold *cold);
/* Asks the kernel for what is behind chunk c, which came from the device for small reads, if the
   chunk before it came so too. */
void fs_cold_follow(struct fs_dataset *ds, uint32_t p, uint64_t c);

/* ---- direct.c: past the page cache ---- */

/* Reads past the page cache. Returns 0, an error, or -EAGAIN if the page cache has the bytes or
   this way is not to be had; the caller then reads through the page cache. */
fs_err fs_direct_read(struct fs_dataset *ds, uint32_t p, void *dst, const struct fs_cold_read *r);

/* ---- verify.c ---- */

enum fs_check { FS_CHECK_SHARED, FS_CHECK_LOCAL };
static inline bool fs_is_verified(const struct fs_dataset *ds, enum fs_check which) {
  return ds->verify >= (which == FS_CHECK_LOCAL ? FS_VERIFY_ALWAYS : FS_VERIFY_REMOTE);
}
/* Prepares a newly opened dataset so that children that are forked later share what is known of its
   staged blocks. */
void fs_checked_start(struct fs_dataset *ds);
/* Return whether this copy of the block, or of all blocks of a raw file's range (n > 0), was
   compared with its checksum or need not be. */
bool fs_checked(struct fs_dataset *ds, enum fs_check which, uint64_t key);
bool fs_checked_range(struct fs_dataset *ds, enum fs_check which, uint32_t entry, uint64_t off, size_t n);
/* Compares the block's stored bytes with their checksum, once for this copy. `in` is the buffer
   that they lie in, or NULL if they lie elsewhere. Returns 0, -EBADMSG if they are not what was
   stored, or -EAGAIN if a fork has wiped the buffer meanwhile. */
struct fs_scratch;
fs_err fs_check_block(struct fs_dataset *ds, enum fs_check which, const struct fs_block *b, const void *stored,
                      const struct fs_scratch *in);

/* ---- shared.c ---- */

/* Reads the whole stored block to dst and checks it. `in` is the buffer that dst lies in, or NULL
   if it is the caller's. Errors are those of fs_check_block. */
fs_err fs_shared_block(struct fs_dataset *ds, const struct fs_block *b, void *dst, const struct fs_scratch *in);
/* Reads n raw bytes at off of a stored block that was checked before. */
fs_err fs_shared_range(struct fs_dataset *ds, const struct fs_block *b, void *dst, size_t n, uint64_t off);
/* Reads a range of a raw file with one pread, if all its blocks were checked before; otherwise
   returns -EAGAIN. The file lies in one piece, from `begin` of the partition on. */
struct fs_straight {
  uint32_t partition;
  uint64_t begin;
  uint8_t *dst;
  size_t n;
  uint64_t off;
};
fs_err fs_shared_straight(struct fs_dataset *ds, uint32_t entry, const struct fs_straight *s);
/* Returns a descriptor of the partition on shared storage, as fs_local_fd does of a staged one. */
fs_fd fs_shared_fd(struct fs_dataset *ds, uint32_t p, bool *temporary);
void fs_shared_willneed(struct fs_dataset *ds, const struct fs_block *b);

/* ---- decode.c ---- */

/* A range of one block, and where it is to arrive. */
struct fs_piece {
  struct fs_block b;
  uint8_t *dst;
  uint32_t off, n; /* in the block's plain bytes; n > 0, inside */
  int32_t slot;    /* of a posted request, or -1 */
  fs_err missed;   /* why neither the local copy nor another node gave it */
  enum fs_place place;
};
static inline bool fs_piece_raw(const struct fs_piece *p) {
  return p->b.stored_len == p->b.plain_len || p->b.codec == FS_CODEC_RAW;
}
static inline bool fs_piece_whole(const struct fs_piece *p) {
  return p->n == p->b.plain_len;
}
/* Copies the range and returns true, if the block is decoded already. */
bool fs_decoded_copy(struct fs_dataset *ds, const struct fs_piece *p);
/* Decodes stored bytes to the piece's range. Returns 0, -EBADMSG or -ENOMEM. */
fs_err fs_decode_piece(struct fs_dataset *ds, const void *stored, const struct fs_piece *p);
/* A buffer for a block's bytes: a slot of the decoded-block cache, or a temporary mapping. */
struct fs_scratch {
  void *buf;
  size_t mapped;         /* bytes of a temporary mapping, or 0 */
  struct fs_dslot *slot; /* or a slot of the cache, which nobody else uses until it is given back */
  _Atomic uint8_t *hint; /* where a reader looks for the slot's number, or NULL */
  uint8_t number;
  int32_t process;
};
/* Gets a buffer of n bytes: a slot of the decoded-block cache if one is free, else a mapping. */
fs_err fs_scratch_get(struct fs_dataset *ds, size_t n, struct fs_scratch *s);
/* Gives the buffer back. If key is not FS_KEY_NONE, its first len bytes stay known as the plain
   bytes of that block. */
void fs_scratch_put(struct fs_scratch *s, uint64_t key, uint32_t len);
#define FS_KEY_NONE UINT64_MAX
/* Returns whether a signal handler has forked since and this is the child. The slot's bytes are
   then wiped, which says nothing about damage. */
bool fs_scratch_wiped(const struct fs_scratch *s);
/* ---- work.c ---- */

/* Memory for one decoding. */
struct fs_work_hold {
  void *mem;              /* NULL: the codec needs none */
  size_t mapped;          /* bytes of a temporary mapping, or 0 */
  _Atomic uint32_t *lock; /* of a piece of the pool, or NULL */
};
/* Gets the memory for decoding a block of this row. `word` is where the pool is published, in memory
   that is wiped in a forked child, or NULL. Returns 0 or -ENOMEM. */
fs_err fs_work_take(const struct fs_dataset *ds, uint32_t row, void *_Atomic *word, struct fs_work_hold *hold);
void fs_work_give(const struct fs_work_hold *hold);

struct fs_stored {
  const void *bytes;
  struct fs_scratch scratch; /* has a buffer if the bytes lie there */
};

/* ---- remote.c ---- */

/* Serves the piece from the node's cache, or posts a request for it and sets p->slot. The caller
   rings the doorbell after a batch. flags is FS_REQ_PATIENT or 0. Returns 1 if done, 0 if posted,
   or a negative errno if the bytes cannot be had this way. */
fs_err fs_remote_submit(struct fs_dataset *ds, struct fs_link *link, struct fs_piece *p, uint32_t flags);
void fs_remote_ring(struct fs_dataset *ds, struct fs_link *link);
/* Waits for a posted request and copies the bytes. Returns 0, -EFAULT for the caller's pointer, or
   another negative errno: the caller then takes the shared copy. */
fs_err fs_remote_collect(struct fs_dataset *ds, struct fs_link *link, struct fs_piece *p);
void fs_remote_cancel(struct fs_link *link, struct fs_piece *p);
/* Puts the block's key into the channel's queue of wanted blocks. Returns 0, also if the block is
   in the cache, -EAGAIN if the queue is full, or -EHOSTDOWN. */
fs_err fs_remote_want(struct fs_dataset *ds, struct fs_link *link, const struct fs_block *b);
/* Asks for the block of a key ahead, unless it is in the cache. Returns whether the doorbell must be
   rung. */
bool fs_remote_ahead_of(const struct fs_node *node, struct fs_link *link, uint64_t key);
/* Notes that block i of the file was read from another node. If reads go in sequence, asks for the
   next blocks. */
void fs_remote_ahead(struct fs_dataset *ds, struct fs_link *link, uint32_t entry, uint64_t i);
/* Like fs_remote_ahead, for an output file or segment of another node that has `count` blocks. */
void fs_remote_ahead_out(struct fs_dataset *ds, struct fs_link *link, uint32_t entry, uint32_t snapshot, uint64_t i,
                         uint64_t count);

/* ---- materialize.c ---- */

/* Returns whether memory has room for a file of so many bytes. At most half of what is available
   counts: with more, the kernel would end processes. */
bool fs_memory_holds(const struct fs_node *node, uint64_t bytes);

/* ---- prefetch.c ---- */

/* fs_data_prefetch_from, for a dataset's file. */
fs_err fs_dataset_prefetch_from(uint32_t mount, uint32_t entry, uint64_t *off, uint64_t end);

/* ---- data.c ---- */

/* fs_data_read, for a dataset's file. */
fs_ssize fs_dataset_read(uint32_t mount, uint32_t entry, void *buf, size_t n, uint64_t off, enum fs_place *place);
static inline bool fs_is_local(const struct fs_dataset *ds, uint32_t partition) {
  return ds->placement &&
         (atomic_load_explicit(&ds->placement[partition].flags, memory_order_relaxed) & FS_PLACE_LOCAL);
}
static inline bool fs_is_remote(const struct fs_dataset *ds, uint32_t partition) {
  return ds->placement && ds->placement[partition].owners != 0;
}

#endif
