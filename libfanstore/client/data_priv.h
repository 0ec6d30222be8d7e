/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files behind client/data.h share: the process's mounts, opened datasets, their partitions, and the
 * steps of a read. Private to them and to their unit tests.
 *
 * Publication: a pointer or number goes from 0 to its value once, by compare and swap; who loses drops what it made.
 * Nothing published is ever freed, so readers need no lock. What must not survive a fork (the channel, the counters,
 * which chunks are populated, decoded blocks) lies in MADV_WIPEONFORK memory: a child finds zeros there, however it
 * was made.
 */
#ifndef FS_CLIENT_DATA_PRIV_H
#define FS_CLIENT_DATA_PRIV_H

#include "cache/cache.h"
#include "client/data.h"
#include "ipc/node.h"
#include "util/sys.h"

/* ---- self.c: memory, this process ---- */

/* Zeroed private memory straight from the kernel; NULL when there is none. */
void *fs_mem_map(size_t n);
/* The same, zeroed again in a forked child. NULL also where the kernel cannot do that. */
void *fs_mem_map_wiped(size_t n);
/* The same, the same also for children that are forked from now on. */
void *fs_mem_map_shared(size_t n);
/* Shared memory or a file, from its beginning. NULL when it cannot be mapped. */
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
  _Atomic int32_t pid;   /* of the process that this memory belongs to; 0 in a new child */
  _Atomic uint32_t told; /* lines written to stderr */
  void *_Atomic link;    /* struct fs_link: this process's channel, or NULL */
  _Atomic uint64_t link_retry_ns;
  _Atomic uint32_t spin_ns;
  _Atomic uint64_t decodes; /* partial decodes of a block into the decoded-block cache or a temporary buffer */
  _Atomic uint64_t counter[FS_C_COUNT];
  /* Read-ahead: the last remote block read of the file that hashes here (entry << 32 | block), and how far was asked */
#define FS_AHEAD_SLOTS 64u
  _Atomic uint64_t ahead_last[FS_AHEAD_SLOTS];
  _Atomic uint32_t ahead_end[FS_AHEAD_SLOTS];
};
/* This process's state; never NULL (static memory where the kernel gives none). */
struct fs_self *fs_self(void);
/* For slow paths that open descriptors: is this the process that the memory belongs to? False in a vfork child,
   which shares memory but not descriptors and so must publish none. Adopts the memory in a forked child. */
bool fs_self_owner(void);
/* The process that the memory belongs to, without a system call. A read that finds it changed at its end was
   interrupted by a signal handler that forked, and goes on in the child, where what it had decoded is wiped. */
int32_t fs_self_process(void);
/* Adds blocks and bytes that came from a place. */
void fs_count_place(enum fs_place place, uint64_t blocks, uint64_t bytes);
uint64_t fs_counter_get(unsigned counter); /* of this process: channel and private memory */

/* ---- note.c: one line on stderr ---- */

/* "fanstore: " and the parts (up to a NULL) in one write, a few times per process. */
void fs_note(const char *const *parts);
#define FS_NOTE(...) fs_note((const char *const[]){__VA_ARGS__, NULL})
#define FS_U64_TEXT 24
char *fs_u64_text(uint64_t v, char out[FS_U64_TEXT]);
/* One line that `path` is no dataset, what is to be done, and the effect. */
void fs_note_no_dataset(const char *path, const char *effect, const char *on);
const char *fs_err_text(fs_err err); /* a few words for the errors that users meet */

/* ---- ownfd.c ---- */

/* A descriptor is the library's own from now on, and published in *word (number + 1). */
void fs_own_note(int fd, _Atomic int32_t *word);
/* After the use of a descriptor that was published in *word: was it that all the time? Else what came of it is void.
   The number alone does not tell, which may be the library's again by now, for another file. */
static inline bool fs_own_still(_Atomic int32_t *word, int fd, bool temporary) {
  return temporary || atomic_load_explicit(word, memory_order_relaxed) == fd + 1;
}
/* Moves `low` to the library's numbers and publishes it in *word (number + 1, 0: none yet): the number to use, whoever
   published it. *temporary: it is still `low`, to be closed after this use. */
fs_fd fs_own_publish(_Atomic int32_t *word, int low, bool *temporary);
/* Around giving a descriptor the library's number and publishing it; see ownfd.c. False: do not publish. */
bool fs_own_publish_begin(void);
void fs_own_publish_end(void);
/* Opens read-only, CLOEXEC, a low number: pass it on to fs_data_adopt_fd or close it. */
fs_fd fs_open_read(const char *path);
fs_fd fs_open_read_as(const char *path, int more); /* more flags */
/* Joins "dir/name" into out (PATH_MAX). */
fs_err fs_join(char *out, const char *dir, const char *name);

/* ---- config.c, mount.c ---- */

struct fs_part {
  _Atomic int32_t local_fd; /* number + 1, 0: not opened, -1: cannot be used */
  _Atomic int32_t shared_fd;
  _Atomic int32_t direct_fd;     /* as local_fd, of the same file, by O_DIRECT */
  _Atomic uint32_t direct_unit;  /* what its offsets, lengths and addresses are multiples of */
  void *_Atomic map;             /* the local file, whole */
  void *_Atomic chunk;           /* _Atomic uint16_t[] in wiped memory: state of each FS_CHUNK of the mapping */
  _Atomic uint64_t read_to;      /* the end of the last large read that was not in the page tables, */
  _Atomic uint64_t taken_to;     /* and of the last chunk that came from the device; */
  _Atomic uint64_t asked_to;     /* behind such chunks the kernel was asked until here */
  _Atomic uint64_t run, run_end; /* bytes that direct.c was asked for in order, and their end */
  _Atomic uint32_t told;         /* the user knows that the local file is damaged, or cannot be read */
};

struct fs_node;
struct fs_dataset {
  struct fs_index ix;
  uint32_t mount;                               /* number of its mount */
  uint32_t number;                              /* in the job; meaningless when node is NULL */
  const struct fs_node *_Atomic node;           /* NULL: no daemon; changes once, from one that is offline */
  const struct fs_placement *_Atomic placement; /* of its partitions; NULL: all on the shared copy */
  const char *local;                            /* this node's directory; NULL without a placement */
  const char *shared;                           /* the dataset's directory */
  enum fs_verify verify;
  void *_Atomic checked[2]; /* of enum fs_check: _Atomic uint8_t[], a bit for each entry, then each block record */
  void *_Atomic blocks;     /* struct fs_dcache */
  void *_Atomic alone;      /* struct fs_alone[]: where real files go without a daemon */
  struct fs_part part[];
};

struct fs_mount {
  char path[PATH_MAX];
  char dataset[PATH_MAX];
  size_t path_len;
  dev_t dev;
  uint32_t same;    /* the mount that this is, or is another name of */
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
struct fs_config *fs_config(void); /* never NULL; as good as constant but for the words of each mount */
/* Reads and parses DIR/manifest with raw calls only. */
struct fs_manifest;
fs_err fs_manifest_read(const char *dir, struct fs_manifest *m);
/* The opened dataset of mount i, opening it on first use; NULL with *err. */
struct fs_dataset *fs_dataset(uint32_t i, fs_err *err);
/* The daemon has been met after all: for what was opened before that. */
void fs_datasets_online(const struct fs_node *node);

/* ---- attach.c: the daemon ---- */

#define FS_DEADLINE_MIN_NS 10000000ull
#define FS_DEADLINE_MAX_NS 120000000000ull
struct fs_node { /* the same for a process and its forked children */
  const struct fs_ctl *ctl;
  const struct fs_placement *placement;
  struct fs_cache_view view;
  uint64_t ctl_ino; /* tells the job's daemon from a later one at the same address */
  uint64_t deadline_ns;
  bool offline; /* made without the daemon, by what it has left (offline.c) */
};
struct fs_link { /* of one process */
  struct fs_channel *channel;
  uint64_t channel_size;
  int32_t socket, doorbell;
  _Atomic uint32_t dead;  /* the daemon has ended */
  _Atomic uint32_t full;  /* somebody waited for a slot in vain: until one is free nobody waits again */
  _Atomic uint64_t files; /* ids of output files given out */
};
/* NULL: there is no job. Offline: its daemon has not been met. */
const struct fs_node *fs_node_attach(void);
/* Is this process in a job, whether its daemon was met or not? */
bool fs_run_set(void);
struct fs_link *fs_link_get(void);             /* NULL: none (now) */
extern FS_INTERNAL _Atomic uint32_t fs_no_run; /* the environment named no job: there is never a daemon */
/* For one read of a vfork child whose parent has no link: one that is not published, in `mine`. NULL: none. */
struct fs_link *fs_link_borrow(struct fs_link *mine);
void fs_link_return(struct fs_link *mine);
bool fs_node_alive(const struct fs_node *node);
/* Has the daemon ended or stopped, and not with the job? */
bool fs_node_silent(const struct fs_node *node);
/* Is this a ctl of which all that is read lies inside? */
bool fs_ctl_valid(const struct fs_ctl *c, uint64_t size);
/* How long the daemon is waited for whose socket this is. */
uint64_t fs_attach_patience(const struct stat *socket, const struct timespec *now);
/* Why the daemon could not be met last; 0. */
fs_err fs_attach_failed(void);
/* Has the user been told that this process sees no directory by the name in FANSTORE_RUN? */
bool fs_run_unseen(void);
/* What a child inherited of its parent's link, before it has its own; and closing that, by one thread. */
struct fs_link *fs_link_newest(void);
void fs_link_forked(struct fs_link *inherited);

/* ---- offline.c ---- */

/* The node of `run` as its daemon left it, or one of which nothing is known; for good. NULL: no memory. */
const struct fs_node *fs_node_offline(const char *run, uint32_t node);
/* The same, if it was made already. */
const struct fs_node *fs_node_was_offline(void);

/* ---- wait.c ---- */

bool fs_link_known_dead(const struct fs_link *link);
bool fs_link_dead(struct fs_link *link); /* by a system call */
/* Can a call be answered? Waits a moment, once, for a daemon that seems to have stopped. */
bool fs_wait_alive(const struct fs_node *node, struct fs_link *link);
/* Wakes the daemon, if it sleeps, after something was posted. */
void fs_link_ring(const struct fs_node *node, const struct fs_link *link);
/* Until the daemon has answered in this word (enum fs_req_state): 0; -ETIMEDOUT, -EHOSTDOWN. */
fs_err fs_wait_done(const struct fs_node *node, struct fs_link *link, _Atomic uint32_t *state, uint64_t ns);
/* A wait for a free slot while other threads have all of them. Begins as {0}. */
struct fs_slot_wait {
  uint64_t end, tries;
};
/* Waits a moment before the next try to claim a slot. Returns false if it has waited for ns. */
bool fs_wait_slot(struct fs_slot_wait *w, uint64_t ns);

/* ---- local.c ---- */

#define FS_CHUNK_SHIFT 21u
#define FS_CHUNK (1ull << FS_CHUNK_SHIFT)
/* Descriptor and mapping of a staged partition. *temporary: close it after use. */
fs_fd fs_local_fd(struct fs_dataset *ds, uint32_t p, bool *temporary);
/* The same file opened anew, with more flags: a low number. */
fs_fd fs_local_open(struct fs_dataset *ds, uint32_t p, int more);
/* Copies n bytes at off of a staged partition, where file to file_end is the file (or block) that they are of.
   0, -EFAULT, or the reason why it cannot be used. */
fs_err fs_local_copy(struct fs_dataset *ds, uint32_t p, void *dst, size_t n, uint64_t off, uint64_t file,
                     uint64_t file_end);
/* The same as a pointer into the mapping whose pages are present; NULL: use fs_local_copy. */
const void *fs_local_ptr(struct fs_dataset *ds, uint32_t p, size_t n, uint64_t off);
void fs_local_willneed(struct fs_dataset *ds, const struct fs_block *b);
/* All stored bytes of a block, checked (FANSTORE_VERIFY): in the mapping, else copied. To be ended when it gave 0. */
struct fs_stored;
fs_err fs_local_stored(struct fs_dataset *ds, const struct fs_block *b, struct fs_stored *out);
void fs_local_stored_end(struct fs_stored *s);
/* As fs_check_block; damage is told once for each partition. */
struct fs_scratch;
fs_err fs_local_check(struct fs_dataset *ds, const struct fs_block *b, const void *stored, const struct fs_scratch *in);
/* A read of it gave -EIO; told likewise. */
void fs_local_failed(struct fs_dataset *ds, uint32_t p);
/* The mapping of a staged partition, made on first use; NULL: none to be had. */
const uint8_t *fs_local_map(struct fs_dataset *ds, uint32_t p);

/* ---- chunk.c: which chunks of the mappings are in this process's page tables ---- */

/* A chunk's word: its kind, and a count since the last look at it (of reads; while it is cold, weighted). */
#define FS_CHUNK_KIND 0xc000u
#define FS_CHUNK_COLD 0x0000u
#define FS_CHUNK_PRESENT 0x4000u
#define FS_CHUNK_NEVER 0x8000u
#define FS_CHUNK_COUNT 0x3fffu
#define FS_CHUNK_LOOK_AT 512u /* then see whether the kernel has taken pages back */

/* Is there room in memory for chunk c of the partition, beside the others that are to be there? */
bool fs_chunk_room(uint32_t p, uint64_t c);
/* Is it to be read past the page cache, where it is not there? */
bool fs_chunk_direct(struct fs_dataset *ds, uint32_t p, uint64_t c);
/* After a read of n bytes from a chunk that is not present, cold: not all of it was in memory. Counts it, and when it
   is time takes the chunk: true when it is present now. */
bool fs_chunk_read(struct fs_dataset *ds, uint32_t p, _Atomic uint16_t *word, uint64_t c, size_t n, bool cold);
/* The same before a large read of bytes that are in memory: takes the chunk if all of it is, or once as much as it has
   was read from it. */
bool fs_chunk_read_big(struct fs_dataset *ds, uint32_t p, _Atomic uint16_t *word, uint64_t c, size_t n);
/* Is a present chunk still in memory? */
bool fs_chunk_look(struct fs_dataset *ds, uint32_t p, _Atomic uint16_t *word, uint64_t c);
/* A partition was mapped. */
void fs_local_mapped(const void *map, size_t n);

/* ---- cold.c: large reads that are not in memory, where there is room ---- */

struct fs_cold {    /* of a chunk */
  bool likely;      /* its rest is likely to be read */
  const void *last; /* a page of it that is missing, after most others */
};
struct fs_cold_read {
  size_t n;            /* bytes, all in one chunk, */
  uint64_t off;        /* at this place of the partition, */
  uint64_t begin, end; /* of a call that reads this of it, */
  uint64_t file, file_end;
};
/* Samples what is in memory of chunk c. */
void fs_cold_look(const uint8_t *map, uint64_t size, uint64_t c, struct fs_cold *cold);
/* Asks for what is read next. */
void fs_cold_before(struct fs_dataset *ds, uint32_t p, const struct fs_cold_read *r);
/* After the read: asks for the rest of its chunk, if that is likely to be read. */
void fs_cold_rest(struct fs_dataset *ds, uint32_t p, const struct fs_cold_read *r, const struct fs_cold *cold);
/* Chunk c came from the device, for small reads: asks for what is behind it, if the one before it came so too. */
void fs_cold_follow(struct fs_dataset *ds, uint32_t p, uint64_t c);

/* ---- direct.c: past the page cache ---- */

/* 0, an error, or -EAGAIN: read it through the page cache, where it is already, or where this way is not to be had. */
fs_err fs_direct_read(struct fs_dataset *ds, uint32_t p, void *dst, const struct fs_cold_read *r);

/* ---- verify.c ---- */

enum fs_check { FS_CHECK_SHARED, FS_CHECK_LOCAL, FS_CHECK_KINDS };
static inline bool fs_is_verified(const struct fs_dataset *ds, enum fs_check which) {
  return ds->verify >= (which == FS_CHECK_LOCAL ? FS_VERIFY_ALWAYS : FS_VERIFY_REMOTE);
}
/* A dataset was opened: children that are forked from now on share what is known of its staged blocks. */
void fs_checked_start(struct fs_dataset *ds);
/* Was this copy of the block compared with its checksum, or need it not be? The same of all blocks of a raw file's
   range, n > 0. */
bool fs_checked(struct fs_dataset *ds, enum fs_check which, uint64_t key);
bool fs_checked_range(struct fs_dataset *ds, enum fs_check which, uint32_t entry, uint64_t off, size_t n);
/* The block's stored bytes as they are in this copy: 0, or -EBADMSG when they are not what was stored. in: where they
   lie, or NULL: elsewhere; -EAGAIN: it was wiped meanwhile, by a fork. */
struct fs_scratch;
fs_err fs_check_block(struct fs_dataset *ds, enum fs_check which, const struct fs_block *b, const void *stored,
                      const struct fs_scratch *in);

/* ---- shared.c ---- */

/* The whole stored block, checked, at dst, which lies in this buffer (NULL: the caller's). Errors as of fs_check_block.
 */
fs_err fs_shared_block(struct fs_dataset *ds, const struct fs_block *b, void *dst, const struct fs_scratch *in);
/* n raw bytes at off of a stored block that was checked before. */
fs_err fs_shared_range(struct fs_dataset *ds, const struct fs_block *b, void *dst, size_t n, uint64_t off);
/* A range of a raw file that begins at `begin` of a partition and lies in one piece, with one pread, if all its blocks
   were checked before; -EAGAIN otherwise. */
struct fs_straight {
  uint32_t partition;
  uint64_t begin;
  uint8_t *dst;
  size_t n;
  uint64_t off;
};
fs_err fs_shared_straight(struct fs_dataset *ds, uint32_t entry, const struct fs_straight *s);
/* The partition on shared storage, as fs_local_fd. */
fs_fd fs_shared_fd(struct fs_dataset *ds, uint32_t p, bool *temporary);
void fs_shared_willneed(struct fs_dataset *ds, const struct fs_block *b);

/* ---- decode.c ---- */

/* A range of one block that is to arrive at dst. */
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
/* Is the block decoded already? Then copies the range. */
bool fs_decoded_copy(struct fs_dataset *ds, const struct fs_piece *p);
/* From stored bytes to the caller's range. 0, -EBADMSG, -ENOMEM. */
fs_err fs_decode_piece(struct fs_dataset *ds, const void *stored, const struct fs_piece *p);
/* Remembers `plain` as the decoded form of a block (copies it). */
struct fs_scratch {
  void *buf;
  size_t mapped;         /* bytes of a temporary mapping, or 0 */
  struct fs_dslot *slot; /* or a slot of the cache, ours alone until given back */
  _Atomic uint8_t *hint; /* and where its number is left for who looks for the block, or NULL */
  uint8_t number;
  int32_t process;
};
/* A buffer of n bytes: a slot of the decoded-block cache when one is free, else a mapping. */
fs_err fs_scratch_get(struct fs_dataset *ds, size_t n, struct fs_scratch *s);
/* Gives it back; with a key, its first len bytes stay known as that block's plain bytes. */
void fs_scratch_put(struct fs_scratch *s, uint64_t key, uint32_t len);
#define FS_KEY_NONE UINT64_MAX
/* Has a signal handler forked since, and this is the child? What the slot holds is then neither good nor damaged. */
bool fs_scratch_wiped(const struct fs_scratch *s);
struct fs_stored {
  const void *bytes;
  struct fs_scratch scratch; /* with a buffer if they are there */
};

/* ---- remote.c ---- */

/* Serves the piece from the node's cache at once, or posts a request for it (p->slot >= 0; ring the doorbell after
   a batch). flags: FS_REQ_PATIENT or 0. 1: done; 0: posted; negative: not to be had this way. */
fs_err fs_remote_submit(struct fs_dataset *ds, struct fs_link *link, struct fs_piece *p, uint32_t flags);
void fs_remote_ring(struct fs_dataset *ds, struct fs_link *link);
/* Waits for a posted request and copies. 0, or negative: take the shared copy (-EFAULT: the caller's pointer). */
fs_err fs_remote_collect(struct fs_dataset *ds, struct fs_link *link, struct fs_piece *p);
void fs_remote_cancel(struct fs_link *link, struct fs_piece *p);
/* Leaves the block's key in the channel's queue of wanted ones. 0, also when it is in the cache; -EAGAIN: the queue is
   full; -EHOSTDOWN. */
fs_err fs_remote_want(struct fs_dataset *ds, struct fs_link *link, const struct fs_block *b);
/* Notes that block i of the file was read remotely; asks for the next ones when reads go in sequence. */
void fs_remote_ahead(struct fs_dataset *ds, struct fs_link *link, uint32_t entry, uint64_t i);
/* The same of an output file or part of another node, of so many blocks. */
void fs_remote_ahead_out(struct fs_dataset *ds, struct fs_link *link, uint32_t entry, uint32_t snapshot, uint64_t i,
                         uint64_t count);

/* ---- materialize.c ---- */

/* Has memory room for a file of so many bytes? Of half of what there is: with more the kernel would end processes. */
bool fs_memory_holds(const struct fs_node *node, uint64_t bytes);

/* ---- data.c ---- */

static inline bool fs_is_local(const struct fs_dataset *ds, uint32_t partition) {
  return ds->placement &&
         (atomic_load_explicit(&ds->placement[partition].flags, memory_order_relaxed) & FS_PLACE_LOCAL);
}
static inline bool fs_is_remote(const struct fs_dataset *ds, uint32_t partition) {
  return ds->placement && ds->placement[partition].owners != 0;
}

#endif
