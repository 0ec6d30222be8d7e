/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open file descriptions of dataset files ("slots"), in one memfd that a process creates at its first open below a
 * mount, and that its children share: by the mapping after fork, by an inherited descriptor that FANSTORE_STATE
 * names after exec. dup and fork therefore share offsets. docs/internals/descriptors.md has the protocol.
 *
 * Everything here is lock-free, allocates nothing, and uses raw system calls. The memory is shared with other
 * processes of the user: what is read from it is bounds-checked where it is used.
 */
#ifndef FS_CLIENT_FD_SLOT_H
#define FS_CLIENT_FD_SLOT_H

#include <assert.h>

#include "util/base.h"

#define FS_STATE_MAGIC 0x4554415453460001ull
#define FS_STATE_VERSION 7u
#define FS_SLOTS (1u << 20)
#define FS_SLOTS_FIRST (1u << 16) /* so many are used before the holders are looked for the first time */
/* In a slot's offset: bit 63, it has moved to a real descriptor; bits 47-62, to which one in the store; the rest, where
   it was at that moment. See fdreal.h. */
#define FS_OFFSET_REAL (1ull << 63)
#define FS_OFFSET_BITS 47
#define FS_OFFSET_MASK ((1ull << FS_OFFSET_BITS) - 1)
#define FS_OFFSET_TOKEN(offset) ((uint32_t)((offset) >> FS_OFFSET_BITS & 0xffff))

#define FS_SLOT_LEASE 0x80000000u /* in flags, beside what F_GETFL says: the file has a lease */

enum fs_slot_kind { FS_SLOT_FREE, FS_SLOT_IDLE, FS_SLOT_FILE, FS_SLOT_DIR, FS_SLOT_PATH, FS_SLOT_CLOSED };

struct fs_slot {
  _Atomic uint32_t gen;     /* bumped at each open and each end; an fd table entry with another one is stale */
  _Atomic uint8_t kind;     /* enum fs_slot_kind */
  _Atomic uint8_t shared;   /* other processes may hold it: only a scan of holders frees it */
  _Atomic uint8_t counted;  /* its first read was counted */
  _Atomic uint8_t replaced; /* a number was its, and is another file's: calls may be under way by that */
  _Atomic uint64_t ino;     /* of the placeholder's socket; what finds the slot from an inherited descriptor */
  uint32_t mount;
  uint32_t entry;
  uint64_t mount_key;      /* hash of the mount's path: another process may number its mounts differently */
  _Atomic uint64_t offset; /* file: bytes; directory: number of the next record */
  _Atomic uint32_t flags;  /* what F_GETFL says */
  _Atomic uint32_t refs;   /* descriptors of the one process that holds it, while not shared */
  _Atomic uint32_t moved;  /* number of the last scan that had begun when the descriptor was copied or handed on */
  uint32_t reserved1;
  _Atomic uint64_t ready; /* generation << 32 | token + 1: what the offset moved to stands at its place */
};
static_assert(sizeof(struct fs_slot) == 64, "a slot is a cache line");

/*
 * Output directories, and output files of other nodes, that processes have come to: each has an entry number that no
 * dataset has, FS_OUTPUT_FIRST + its place in this hash table, for as long as the table lives. Written by
 * client/outputs/outputs.c.
 */
#define FS_OUTPUT_FIRST 0xfff10000u
#define FS_OUTPUT_NODES (1u << 18)
struct fs_output_node {
  _Atomic uint64_t id;      /* of the record; 0: free */
  _Atomic uint64_t dir;     /* that it was last seen in */
  _Atomic uint32_t parent;  /* entry number of that */
  _Atomic uint32_t mode;    /* as last seen; 0: being filled */
  _Atomic uint64_t permits; /* of a directory: mode, 16 bits, and the tree's number before it was asked for */
  _Atomic uint64_t segment; /* of a file: that some process has made last, to write it (outputs/write.c); 0: none */
};
static_assert(sizeof(struct fs_output_node) == 40, "a node is 40 bytes");
static inline bool fs_is_output(uint32_t entry) {
  return FS_UNLIKELY(entry >= FS_OUTPUT_FIRST);
}

struct fs_state {
  uint64_t magic;
  uint32_t version;
  uint32_t slots;
  _Atomic uint32_t high;        /* slots at and above this were never used */
  _Atomic uint32_t scans;       /* scans of holders that have begun */
  uint64_t store_ino;           /* of the socket that real descriptors wait in; 0: there is none */
  uint64_t sock_dev;            /* st_dev of sockets, and so of placeholders */
  uint64_t began;               /* when the process that made it was, in ticks since boot; 0: not known */
  _Atomic uint32_t store_owner; /* thread that works on the store; a hint, see fdstore.c */
  _Atomic uint32_t tokens;      /* given to messages in the store so far */
  _Atomic uint32_t limit;       /* slots above this are not looked at yet; a power of two */
  _Atomic uint32_t hint;        /* place in `used` below which none was free a moment ago */
  _Atomic uint32_t left;        /* shared slots that were closed since the last scan: it may find so many */
  uint32_t reserved;
  _Atomic uint64_t used[FS_SLOTS / 64];
  struct fs_slot slot[FS_SLOTS];
  struct fs_output_node out[FS_OUTPUT_NODES];
};

/* NULL before the first use in this process. */
extern FS_INTERNAL struct fs_state *_Atomic fs_state;

/* A slot that every operation refuses with EBADF. */
extern FS_INTERNAL struct fs_slot fs_slot_closed;

/* Maps what FANSTORE_STATE names, else NULL; with create, makes a new one. Cheap once done. */
struct fs_state *fs_state_attach(bool create);
/* Before a child that shares this memory and not the descriptors: in a job with outputs it may need a table, to become
   one of their directories, and must not make it. */
void fs_state_ahead(void);
/* The descriptor of the state's memfd (kept open, inheritable), or -1. */
int fs_state_fd(void);
/* That of the store's socket (the same), or -1. */
int fs_state_store(void);
/* What FANSTORE_STATE is to be for a child. */
#define FS_STATE_TEXT 32
void fs_state_text(char out[FS_STATE_TEXT]);

/* A free slot, kind IDLE, or -ENFILE when all are held. */
int64_t fs_slot_alloc(struct fs_state *st);
/* By who holds its placeholder, so that no scan frees it at the same time. */
void fs_slot_free(struct fs_state *st, uint32_t index);
/* Unless its generation is another one: then somebody else has freed it, and it may be in use anew. */
bool fs_slot_free_if(struct fs_state *st, uint32_t index, uint32_t gen);
/* The slot whose placeholder has this inode number, or -ENOENT. */
int64_t fs_slot_by_ino(const struct fs_state *st, uint64_t ino);
/* A descriptor of it was copied, or is about to be inherited: a scan now running may miss both the old and the new. */
static inline void fs_slot_moved(const struct fs_state *st, struct fs_slot *s) {
  uint32_t scans = atomic_load_explicit(&st->scans, memory_order_seq_cst);
  if (atomic_load_explicit(&s->moved, memory_order_relaxed) != scans) atomic_store(&s->moved, scans);
}
/* A call may be under way on it: the next scan leaves it, too. */
static inline void fs_slot_stays(const struct fs_state *st, struct fs_slot *s) {
  atomic_store(&s->moved, atomic_load(&st->scans) + 1);
}
/* Frees the slots that no process holds any more, unless one may hold some that cannot be looked at. Returns how many.
 */
uint32_t fs_slot_reclaim(struct fs_state *st);
/* When a process was made, in ticks since boot (proc(5), stat), or 0. name: its directory in /proc. */
uint64_t fs_process_began(const char *name);
/* Calls visit for every name in a directory of /proc that begins with a digit. */
typedef void fs_visit_number(void *ctx, int dirfd, const char *name);
void fs_each_number(int dirfd, fs_visit_number *visit, void *ctx);

#endif
