/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open file descriptions of dataset files ("slots"). They lie in one memfd, which a process creates
 * at its first open below a mount. Its children share it: by the mapping after fork, and after exec
 * by an inherited descriptor that FANSTORE_STATE names. dup and fork therefore share offsets.
 * docs/internals/descriptors.md has the protocol.
 *
 * Everything here is lock-free, allocates nothing, and uses raw system calls. Other processes of
 * the user share the memory, so what is read from it is bounds-checked where it is used.
 */
#ifndef FS_CLIENT_FD_SLOT_H
#define FS_CLIENT_FD_SLOT_H

#include <assert.h>
#include <errno.h>
#include <fcntl.h>

#include "util/base.h"

#define FS_STATE_MAGIC 0x4554415453460001ull
#define FS_STATE_VERSION 10u
#define FS_SLOTS (1u << 20)
#define FS_SLOTS_FIRST (1u << 16) /* so many are used before the first scan of holders */
/* A slot's offset. Bit 63: the offset has moved to a real descriptor. Bits 47-62: the token of that
   descriptor in the store. The other bits: the offset, at that moment if it has moved. See
   fdreal.h. */
#define FS_OFFSET_REAL (1ull << 63)
#define FS_OFFSET_BITS 47
#define FS_OFFSET_MASK ((1ull << FS_OFFSET_BITS) - 1)
#define FS_OFFSET_TOKEN(offset) ((uint32_t)((offset) >> FS_OFFSET_BITS & 0xffff))

enum fs_slot_kind { FS_SLOT_FREE, FS_SLOT_IDLE, FS_SLOT_FILE, FS_SLOT_DIR, FS_SLOT_PATH, FS_SLOT_CLOSED };

struct fs_slot {
  _Atomic uint32_t gen;     /* bumped at each open and end; a table entry with another is stale */
  _Atomic uint8_t kind;     /* enum fs_slot_kind */
  _Atomic uint8_t shared;   /* other processes may hold it: only a scan of holders frees it */
  _Atomic uint8_t counted;  /* FS_SLOT_COUNTED: its first read was counted */
  _Atomic uint8_t replaced; /* a number of it is another file's; calls may go on by it */
  _Atomic uint64_t ino;     /* of the placeholder's socket: finds an inherited slot */
  uint32_t mount;
  uint32_t entry;
  uint64_t mount_key;      /* hash of the mount's path: processes may number mounts differently */
  _Atomic uint64_t offset; /* file: bytes; directory: number of the next record */
  _Atomic uint32_t flags;  /* what F_GETFL says */
  _Atomic uint32_t refs;   /* descriptors of the one process that holds it, while not shared */
  _Atomic uint32_t moved;  /* the newest scan when a descriptor was copied or handed on */
  _Atomic uint32_t locked; /* FS_SLOT_LOCKED, FS_SLOT_STREAM */
  _Atomic uint64_t ready;  /* generation << 32 | token + 1, once the real file is at the offset */
};
static_assert(sizeof(struct fs_slot) == 64, "a slot is a cache line");
#define FS_SLOT_COUNTED 1u
#define FS_SLOT_TRACED 2u /* the same, in a process that writes a trace */
#define FS_SLOT_LOCKED 1u /* a process has locked an output by this slot */
#define FS_SLOT_STREAM 2u /* stdio has a stream of it */

static inline bool fs_slot_locked(const struct fs_slot *s) {
  return FS_UNLIKELY((atomic_load_explicit(&s->locked, memory_order_relaxed) & FS_SLOT_LOCKED) != 0);
}

/*
 * Output directories, and output files of other nodes, that processes have come to. Each has an
 * entry number that no dataset has, FS_OUTPUT_FIRST + its place in this hash table, for as long as
 * the table lives. client/names/names.c writes them.
 */
#define FS_OUTPUT_FIRST 0xff010000u
#define FS_OUTPUT_NODES (1u << 21)
struct fs_output_node {
  _Atomic uint64_t id;      /* of the record; 0: free */
  _Atomic uint64_t dir;     /* the directory that it was last seen in */
  _Atomic uint32_t parent;  /* entry number of that directory */
  _Atomic uint32_t mode;    /* as last seen; 0: being filled */
  _Atomic uint64_t permits; /* a directory's mode, 16 bits, and the tree's number when asked */
  _Atomic uint64_t segment; /* that a process writes a file by (outputs/write.c); 0: none */
  _Atomic uint32_t locked;  /* a process has locked the file: writes go to its home (outputs/append.c) */
  uint32_t reserved;
};
static_assert(sizeof(struct fs_output_node) == 48, "a node is 48 bytes");
static inline bool fs_is_output(uint32_t entry) {
  return FS_UNLIKELY(entry >= FS_OUTPUT_FIRST);
}

struct fs_state {
  uint64_t magic;
  uint32_t version;
  uint32_t slots;
  _Atomic uint32_t high;        /* slots at and above this were never used */
  _Atomic uint32_t scans;       /* scans of holders that have begun */
  uint64_t store_ino;           /* inode of the socket in which real descriptors wait; 0: none */
  uint64_t sock_dev;            /* st_dev of sockets, and so of placeholders */
  uint64_t began;               /* start of its maker, in ticks since boot; 0: not known */
  _Atomic uint32_t store_owner; /* thread that works on the store; a hint, see fdstore.c */
  _Atomic uint32_t tokens;      /* tokens given to messages in the store so far */
  _Atomic uint32_t limit;       /* slots from here on are not used yet; a power of two */
  _Atomic uint32_t hint;        /* word of `used` below which none was free a moment ago */
  _Atomic uint32_t left;        /* shared slots closed since the last scan: it may find so many */
  uint32_t reserved;
  _Atomic uint64_t used[FS_SLOTS / 64];
  struct fs_slot slot[FS_SLOTS];
  struct fs_output_node out[FS_OUTPUT_NODES];
};

/* Makes the check that all reading calls make. Returns 0 if the file can be read, else -EBADF or
   -EISDIR. */
static inline fs_err fs_slot_readable(const struct fs_slot *s) {
  uint8_t kind = atomic_load_explicit(&s->kind, memory_order_relaxed);
  if (FS_LIKELY(kind == FS_SLOT_FILE)) return 0;
  return kind == FS_SLOT_DIR ? -EISDIR : -EBADF;
}
/* Returns O_RDONLY, O_WRONLY or O_RDWR. */
static inline int fs_slot_access(const struct fs_slot *s) {
  return (int)(atomic_load_explicit(&s->flags, memory_order_relaxed) & O_ACCMODE);
}
/* Returns 0 if s is an output that is open for writing and is not a file of the kernel's, else
   -EBADF. */
static inline fs_err fs_slot_writable(const struct fs_slot *s) {
  bool file = atomic_load_explicit(&s->kind, memory_order_relaxed) == FS_SLOT_FILE && fs_is_output(s->entry);
  return file && fs_slot_access(s) != O_RDONLY ? 0 : -EBADF;
}

/* This process's table; NULL before its first use. */
extern FS_INTERNAL struct fs_state *_Atomic fs_state;

/* A slot that every operation refuses with EBADF. */
extern FS_INTERNAL struct fs_slot fs_slot_closed;

/* Returns the place of a slot in the table. */
static inline uint32_t fs_slot_number(const struct fs_slot *s) {
  const struct fs_state *st = atomic_load_explicit(&fs_state, memory_order_relaxed);
  return st == NULL || s == &fs_slot_closed ? UINT32_MAX : (uint32_t)(s - st->slot);
}

/* Returns the table. The first call maps what FANSTORE_STATE names. If that is none, the call makes
   a new table if `create` is set, else it returns NULL. Later calls are cheap. */
struct fs_state *fs_state_attach(bool create);
/* Makes the table, in a job with outputs, before a child that shares this memory but not the
   descriptors. Such a child may need the table, to enter an output directory, and must not make
   it. */
void fs_state_ahead(void);
/* Returns the descriptor of the state's memfd (kept open, inheritable), or -1. */
int fs_state_fd(void);
/* Returns the descriptor of the store's socket (kept open, inheritable), or -1. */
int fs_state_store(void);
/* Writes what FANSTORE_STATE is to be for a child. */
#define FS_STATE_TEXT 32
void fs_state_text(char out[FS_STATE_TEXT]);

/* Returns a free slot, of kind IDLE, or -ENFILE if all are held. */
int64_t fs_slot_alloc(struct fs_state *st);
/* Frees a slot. The caller holds the slot's placeholder, so no scan frees the slot at the same
   time. */
void fs_slot_free(struct fs_state *st, uint32_t index);
/* Frees a slot if its generation is gen. If it is not, somebody else has freed the slot, which may
   be in use anew. */
bool fs_slot_free_if(struct fs_state *st, uint32_t index, uint32_t gen);
/* Returns the slot whose placeholder has this inode number, or -ENOENT. */
int64_t fs_slot_by_ino(const struct fs_state *st, uint64_t ino);
/* Notes that a descriptor of s was copied or is about to be inherited: a running scan may miss both
   the old and the new one. */
static inline void fs_slot_moved(const struct fs_state *st, struct fs_slot *s) {
  uint32_t scans = atomic_load_explicit(&st->scans, memory_order_seq_cst);
  if (atomic_load_explicit(&s->moved, memory_order_relaxed) != scans) atomic_store(&s->moved, scans);
}
/* Keeps the next scan from freeing s, because a call may be using it. */
static inline void fs_slot_stays(const struct fs_state *st, struct fs_slot *s) {
  atomic_store(&s->moved, atomic_load(&st->scans) + 1);
}
/* Frees the slots that no process holds any more, and returns how many. Frees none if a process
   that cannot be looked at may hold some. */
uint32_t fs_slot_reclaim(struct fs_state *st);
/* Returns when a process was started, in ticks since boot (proc(5), stat), or 0. name: its
   directory in /proc. */
uint64_t fs_process_began(const char *name);
/* Calls visit for every name in a directory of /proc that begins with a digit. */
typedef void fs_visit_number(void *ctx, int dirfd, const char *name);
void fs_each_number(int dirfd, fs_visit_number *visit, void *ctx);

#endif
