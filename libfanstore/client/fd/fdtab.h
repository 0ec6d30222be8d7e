/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of this process's descriptors that are files of a dataset. The kernel holds a virtual
 * descriptor's number too, by a placeholder: an O_PATH descriptor of an anonymous socket's inode.
 * So the lowest free number, EMFILE, dup and close_range stay right, and a call that bypasses the
 * library fails with EBADF instead of giving a wrong answer.
 *
 * The table is a lock-free cache. A missing entry does no harm: fs_fd_adopt finds the slot by the
 * placeholder's inode. A wrong entry would be corruption, so entries carry the slot's generation,
 * and wrappers clear the entry of every fresh real descriptor. In a vfork child, whose memory is
 * its parent's, nothing here is written. docs/internals/descriptors.md describes all of it.
 */
#ifndef FS_CLIENT_FD_FDTAB_H
#define FS_CLIENT_FD_FDTAB_H

#include "client/data.h"
#include "client/fd/fduse.h"
#include "client/fd/slot.h"

#define FS_FD_MAX (1u << 20)

/* An entry has the slot in bits 0-19, flags in bits 20-31 and the slot's generation in bits 32-63.
   0: not a virtual descriptor. */
#define FS_FDE_VIRTUAL 0x100000u
#define FS_FDE_IDLE 0x200000u       /* a placeholder in the pool: closed, as the program sees it */
#define FS_FDE_ANCESTOR 0x400000u   /* a real directory above a mount */
#define FS_FDE_CLOEXEC 0x800000u    /* what F_GETFD says; the kernel's own flag stays set */
#define FS_FDE_INHERIT 0x1000000u   /* the kernel's close-on-exec flag was cleared */
#define FS_FDE_NAMED 0x2000000u     /* a file action of posix_spawn names it */
#define FS_FDE_OUTPUT 0x8000000u    /* a written output's real file; close publishes it */
#define FS_FDE_STAGED 0x10000000u   /* a real file of --stage-in's directory, open for reading */
#define FS_FDE_CLAIMED 0x4000000ull /* a thread changes what the kernel has there (fdclaim.c) */
#define FS_FDE_SLOT(e) ((uint32_t)(e) & (FS_SLOTS - 1))
#define FS_FDE_GEN(e) ((uint32_t)((e) >> 32))

/* A call returns this if fd is no virtual descriptor any more. The caller then makes the call on
   the real descriptor; if the file's offset has moved, it first calls fs_fd_take_over
   (fdreal.h). */
#define FS_E_REAL (-5000)

extern FS_INTERNAL _Atomic uint64_t fs_fdtab[FS_FD_MAX];
/* One more than the highest number that was ever a virtual descriptor's. */
extern FS_INTERNAL _Atomic uint32_t fs_fdtab_high;
/* Raises fs_fdtab_high above fd. Called before the number gets an entry. */
void fs_fd_note_high(int fd);

static inline uint64_t fs_fd_entry(int fd) {
  return FS_LIKELY((uint32_t)fd < FS_FD_MAX) ? atomic_load_explicit(&fs_fdtab[fd], memory_order_acquire) : 0;
}

struct fs_slot *fs_fd_slot_slow(int fd, uint64_t entry);

/* Returns the open file behind fd, &fs_slot_closed for an idle placeholder, or NULL if fd is not
   known to be virtual. */
static inline struct fs_slot *fs_fd_slot(int fd) {
  uint64_t e = fs_fd_entry(fd);
  return FS_LIKELY(e == 0) ? NULL : fs_fd_slot_slow(fd, e);
}

struct fs_slot *fs_fd_use_slow(int fd, uint64_t entry, struct fs_use *u);
/* Like fs_fd_slot, for a call that goes on with the open file until fs_use_end. Other threads may
   close or replace the number meanwhile. */
static inline struct fs_slot *fs_fd_use(int fd, struct fs_use *u) {
  uint64_t e = fs_fd_entry(fd);
  return FS_LIKELY(e == 0) ? NULL : fs_fd_use_slow(fd, e, u);
}

/* Inserts fd into the table if it is an inherited virtual descriptor, and returns its slot. Called
   after the kernel has refused fd with EBADF or has shown a socket. */
struct fs_slot *fs_fd_adopt(int fd);
/* Like fs_fd_adopt, for a call that goes on with the open file until fs_use_end. */
struct fs_slot *fs_fd_adopt_use(int fd, struct fs_use *u);

/* Returns the open file whose placeholder has this device and inode, in whatever process it is
   open. NULL: an ordinary socket. */
struct fs_slot *fs_slot_of_socket(uint64_t dev, uint64_t ino);

/* Returns the descriptor of this process that a path like "/dev/fd/5/rest", "/proc/self/fd/5" or
   "/dev/stdin" names, or -1. Sets *rest to what follows the number, without slashes. */
int fs_fd_of_name(const char *path, const char **rest);

/* Returns a new virtual descriptor and its slot, of kind IDLE, which the caller fills and
   publishes. Errors: -EMFILE, -ENFILE, and -EAGAIN in a vfork child. */
fs_fd fs_fd_new(struct fs_slot **slot);
/* Makes a filled slot visible as fd. */
void fs_fd_publish(int fd, struct fs_slot *slot, bool cloexec);

/* close(2) of a virtual descriptor. Returns -EBADF if fd is idle, and FS_E_REAL if it is real, as
   fs_fd_dup and fs_fd_dup_to do. */
fs_err fs_fd_close(int fd);
/* Forgets what the table knew of fd, after the kernel has closed it or put another file there. */
void fs_fd_forget(int fd);
/* Gives up the hold on its slot of an entry that was taken out of the table. */
void fs_fd_release(uint64_t e);
/* Takes an idle placeholder at fd out of the pool. Called before the kernel puts another file
   there. */
void fs_fd_evict(int fd);
/* fcntl(F_DUPFD...) of a virtual descriptor. Returns the copy or a negative errno. */
fs_fd fs_fd_dup(int fd, int min, bool cloexec);
/* dup3 of a virtual descriptor onto newfd >= 3. */
fs_fd fs_fd_dup_to(int fd, int newfd, bool cloexec);
/* Puts the file behind `real` at every descriptor of this process that is open on s with generation
   gen, so that they go on sharing an offset. If `output` is set, the descriptors are noted as an
   output's. */
void fs_fd_become_real(const struct fs_slot *s, uint32_t gen, int real, bool output);
fs_err fs_fd_get_cloexec(int fd);
fs_err fs_fd_set_cloexec(int fd, bool on);
void fs_fd_mark_ancestor(int fd);
/* Notes that a file action of posix_spawn names fd. */
void fs_fd_name(int fd);

/* ---- fdclaim.c: one thread's descriptor, changed by another ---- */

struct fs_fd_claim {
  uint64_t entry; /* 0: there is no claim */
  uint64_t signals;
};
static inline bool fs_fd_same_file(uint64_t a, uint64_t b) {
  const uint64_t file = ~0xffffffffull | FS_FDE_VIRTUAL | FS_FDE_SLOT(~0u);
  return ((a ^ b) & file) == 0;
}
/* Returns the entry of fd, once no thread claims it. */
uint64_t fs_fd_settled(int fd);
/* Claims fd if it is still the file of the entry `like`, and sets flags of its entry. Until
   fs_fd_unclaim, no other thread changes fd and this thread gets no signal. `gone` tells
   fs_fd_unclaim that the number is another file's now. */
bool fs_fd_claim(int fd, uint64_t like, uint64_t flags, struct fs_fd_claim *c);
void fs_fd_unclaim(int fd, const struct fs_fd_claim *c, bool gone);
/* Enclose a call by which the kernel puts another file at fd, whatever was there. */
void fs_fd_over_begin(int fd, struct fs_fd_claim *c);
void fs_fd_over_end(int fd, const struct fs_fd_claim *c, bool replaced);
/* Ends the claim like fs_fd_over_end, with the entry of the virtual descriptor that has replaced
   fd. The number is never without an entry. */
void fs_fd_over_put(int fd, const struct fs_fd_claim *c, uint64_t entry);

/* Gives up the pool's idle placeholders, so that the kernel has free numbers. Returns whether there
   were any. */
bool fs_fd_pool_drop(void);
/* Notes that descriptors below 3 were closed, so that the next open must take the lowest number. */
void fs_fd_low_closed(void);
/* Returns whether one of the descriptors below 3 may still be closed. */
bool fs_fd_low_was_closed(void);
/* The lowest number that the kernel may have free, as far as wrappers saw it closed. A hint;
   UINT_MAX: nothing is known. */
extern FS_INTERNAL _Atomic uint32_t fs_fd_hint;
static inline void fs_fd_freed(int fd) {
  if ((uint32_t)fd < atomic_load_explicit(&fs_fd_hint, memory_order_relaxed))
    atomic_store_explicit(&fs_fd_hint, (uint32_t)fd, memory_order_relaxed);
}
static inline void fs_fd_taken(int fd) {
  if ((uint32_t)fd >= atomic_load_explicit(&fs_fd_hint, memory_order_relaxed))
    atomic_store_explicit(&fs_fd_hint, UINT32_MAX, memory_order_relaxed);
}
/* Forgets what the table knew of fd, after the kernel has given it to a file of its own. */
static inline void fs_fd_is_real(int fd) {
  fs_fd_taken(fd);
  if (FS_UNLIKELY(fs_fd_entry(fd) != 0)) fs_fd_forget(fd);
}
/* Whether there may be idle placeholders. Also true if the last one has just gone. */
extern FS_INTERNAL _Atomic bool fs_pool_maybe;
/* Makes the numbers of the lowest idle placeholders free, so that they are among the n lowest free
   numbers that the kernel gives out next. */
void fs_fd_make_lowest(int n);

/*
 * Enclose a fork. fs_fd_prepare_fork takes the pool away (into *idle) and marks the open slots
 * shared. After the fork, fs_fd_parent gives the pool back in the parent, and fs_fd_child closes it
 * in the child.
 */
#define FS_POOL_WORDS 16
#define FS_POOL_PARKED 4
struct fs_fd_idle {
  uint64_t mask[FS_POOL_WORDS];
  uint64_t parked[FS_POOL_PARKED];
};
void fs_fd_prepare_fork(struct fs_fd_idle *idle);
void fs_fd_parent(const struct fs_fd_idle *idle);
void fs_fd_child(const struct fs_fd_idle *idle);
/* Marks the open slots shared, because other processes may hold them. Called before a child is made, before exec, and
   before an output's descriptor is sent. */
void fs_fd_share(void);
/* How often fs_fd_share was called. An open that sees it change shares its new slot too, which was
   not in the table yet. */
extern FS_INTERNAL _Atomic uint32_t fs_fd_shares;
void fs_fd_share_slot(struct fs_slot *s);
/* Marks the slots in the table shared. In a child these are the ones that it has from its
   parent. */
void fs_fd_share_known(void);
/* Clears the kernel's close-on-exec flag of the placeholders that a program is to inherit. */
void fs_fd_prepare_exec(void);

#endif
