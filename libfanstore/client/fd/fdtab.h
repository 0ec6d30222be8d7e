/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which descriptors of this process are files of a dataset. A virtual descriptor is a number that the kernel holds
 * too: a placeholder, an O_PATH descriptor of an anonymous socket's inode, so that the lowest free number, EMFILE,
 * dup and close_range stay right and a call that bypasses us fails with EBADF instead of lying.
 *
 * The table is a lock-free cache: a missing entry is harmless (fs_fd_adopt finds the slot by the placeholder's
 * inode), a wrong one would be corruption, so entries carry the slot's generation, and wrappers clear the entry of
 * every fresh real descriptor. In a vfork child, whose memory is its parent's, nothing here is written.
 * docs/internals/descriptors.md tells all of it.
 */
#ifndef FS_CLIENT_FD_FDTAB_H
#define FS_CLIENT_FD_FDTAB_H

#include "client/fd/fduse.h"
#include "client/fd/slot.h"

#define FS_FD_MAX (1u << 20)

/* An entry: bits 0-19 slot, 20-31 flags, 32-63 the slot's generation. 0: not ours. */
#define FS_FDE_VIRTUAL 0x100000u
#define FS_FDE_IDLE 0x200000u       /* a placeholder in the pool: closed, as far as the program can tell */
#define FS_FDE_ANCESTOR 0x400000u   /* a real directory above a mount */
#define FS_FDE_CLOEXEC 0x800000u    /* what F_GETFD says; the kernel's own flag stays set */
#define FS_FDE_INHERIT 0x1000000u   /* the kernel's close-on-exec flag was cleared: children may hold it */
#define FS_FDE_NAMED 0x2000000u     /* a file action of posix_spawn names it */
#define FS_FDE_OUTPUT 0x8000000u    /* a real file of the outputs, open for writing: closing publishes it (outputs.h) */
#define FS_FDE_STAGED 0x10000000u   /* a real file of --stage-in's directory, open for reading (outputs.h) */
#define FS_FDE_CLAIMED 0x4000000ull /* a thread changes what the kernel has there: fdclaim.c */
#define FS_FDE_SLOT(e) ((uint32_t)(e) & (FS_SLOTS - 1))
#define FS_FDE_GEN(e) ((uint32_t)((e) >> 32))

/* What a call answers when fd is no virtual descriptor any more: the call is to be made on the descriptor, which is
   real, after fs_fd_take_over where its offset has moved (fdreal.h). */
#define FS_E_REAL (-5000)

extern FS_INTERNAL _Atomic uint64_t fs_fdtab[FS_FD_MAX];
/* No virtual descriptor has ever had this number or one above. */
extern FS_INTERNAL _Atomic uint32_t fs_fdtab_high;
/* Before the number gets an entry. */
void fs_fd_note_high(int fd);
/* > 0 in a vfork child: its memory is the parent's, its descriptors are not. */
extern FS_INTERNAL FS_TLS int fs_vfork_depth;

static inline uint64_t fs_fd_entry(int fd) {
  return FS_LIKELY((uint32_t)fd < FS_FD_MAX) ? atomic_load_explicit(&fs_fdtab[fd], memory_order_acquire) : 0;
}

struct fs_slot *fs_fd_slot_slow(int fd, uint64_t entry);

/* The open file behind fd, &fs_slot_closed for an idle placeholder, NULL when fd is not (known to be) ours. */
static inline struct fs_slot *fs_fd_slot(int fd) {
  uint64_t e = fs_fd_entry(fd);
  return FS_LIKELY(e == 0) ? NULL : fs_fd_slot_slow(fd, e);
}

struct fs_slot *fs_fd_use_slow(int fd, uint64_t entry, struct fs_use *u);
/* The same for a call that goes on with the open file, whatever other threads do to the number meanwhile, until
   fs_use_end. */
static inline struct fs_slot *fs_fd_use(int fd, struct fs_use *u) {
  uint64_t e = fs_fd_entry(fd);
  return FS_LIKELY(e == 0) ? NULL : fs_fd_use_slow(fd, e, u);
}

/* After the kernel refused fd with EBADF, or showed a socket: is it an inherited virtual descriptor? Inserts it. */
struct fs_slot *fs_fd_adopt(int fd);
/* The same for a call that goes on with it. */
struct fs_slot *fs_fd_adopt_use(int fd, struct fs_use *u);

/* The open file whose placeholder stat describes so, in whatever process it is open; NULL: a socket like others. */
struct fs_slot *fs_slot_of_socket(uint64_t dev, uint64_t ino);

/* The descriptor of this process that a path like "/dev/fd/5/rest", "/proc/self/fd/5" or "/dev/stdin" names, and what
   follows the number, without slashes; or -1. */
int fs_fd_of_name(const char *path, const char **rest);

/* A new virtual descriptor and its slot (kind IDLE, to be filled and published). -EMFILE, -ENFILE, -EAGAIN in a
   vfork child. */
fs_fd fs_fd_new(struct fs_slot **slot);
/* Makes a filled slot visible as fd. */
void fs_fd_publish(int fd, struct fs_slot *slot, bool cloexec);

/* close(2) of a virtual descriptor. -EBADF when it is idle; here and below, FS_E_REAL when it is neither. */
fs_err fs_fd_close(int fd);
/* The kernel has closed fd, or put another file there: forgets what the table knew. */
void fs_fd_forget(int fd);
/* An entry was taken out of the table: gives up its hold on the slot. */
void fs_fd_release(uint64_t e);
/* Before the kernel puts another file at fd: an idle placeholder there leaves the pool. */
void fs_fd_evict(int fd);
/* fcntl(F_DUPFD...) of a virtual descriptor. */
fs_fd fs_fd_dup(int fd, int min, bool cloexec);
/* dup3 of a virtual descriptor onto newfd >= 3. */
fs_fd fs_fd_dup_to(int fd, int newfd, bool cloexec);
/* Puts the file behind `real` at every descriptor of this process that is open on s with that generation, so that they
   go on sharing an offset; those of an output are noted. */
void fs_fd_become_real(const struct fs_slot *s, uint32_t gen, int real, bool output);
fs_err fs_fd_get_cloexec(int fd);
fs_err fs_fd_set_cloexec(int fd, bool on);
void fs_fd_mark_ancestor(int fd);
/* A file action of posix_spawn names fd. */
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
/* The entry, once nobody claims it. */
uint64_t fs_fd_settled(int fd);
/* Claims fd, if it is still the file of the entry `like`, and sets flags of its entry. Until fs_fd_unclaim, which says
   whether the number is another file's now, no other thread changes it, and this one gets no signal. */
bool fs_fd_claim(int fd, uint64_t like, uint64_t flags, struct fs_fd_claim *c);
void fs_fd_unclaim(int fd, const struct fs_fd_claim *c, bool gone);
/* Around a call by which the kernel puts another file at fd, whatever was there. */
void fs_fd_over_begin(int fd, struct fs_fd_claim *c);
void fs_fd_over_end(int fd, const struct fs_fd_claim *c, bool replaced);
/* The same where it was replaced by a virtual descriptor, with this entry: the number is never without one. */
void fs_fd_over_put(int fd, const struct fs_fd_claim *c, uint64_t entry);

/* Gives up the pool's idle placeholders, so that the kernel has free numbers. Were there any? */
bool fs_fd_pool_drop(void);
/* Descriptors below 3 were closed: the next open must take the lowest number. */
void fs_fd_low_closed(void);
/* Is one of them still closed, for all that is known? */
bool fs_fd_low_was_closed(void);
/* The lowest number that the kernel may have free: what a wrapper saw closed. A hint, UINT_MAX when nothing is known.
 */
extern FS_INTERNAL _Atomic uint32_t fs_fd_hint;
static inline void fs_fd_freed(int fd) {
  if ((uint32_t)fd < atomic_load_explicit(&fs_fd_hint, memory_order_relaxed))
    atomic_store_explicit(&fs_fd_hint, (uint32_t)fd, memory_order_relaxed);
}
static inline void fs_fd_taken(int fd) {
  if ((uint32_t)fd >= atomic_load_explicit(&fs_fd_hint, memory_order_relaxed))
    atomic_store_explicit(&fs_fd_hint, UINT32_MAX, memory_order_relaxed);
}
/* The kernel has given out fd for a file of its own: forgets what the table knew, if anything. */
static inline void fs_fd_is_real(int fd) {
  fs_fd_taken(fd);
  if (FS_UNLIKELY(fs_fd_entry(fd) != 0)) fs_fd_forget(fd);
}
/* May there be idle placeholders? True also when the last has just gone. */
extern FS_INTERNAL _Atomic bool fs_pool_maybe;
/* Before the kernel gives out the n lowest free numbers: those of the lowest idle placeholders are to be among them. */
void fs_fd_make_lowest(int n);

/*
 * Around fork: prepare takes the pool away (into *idle) and marks the open slots shared; then fs_fd_parent, or in the
 * child fs_fd_child, gives it back or closes it.
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
/* Before exec or spawn: children may hold the open slots, and see those descriptors that are not close-on-exec. */
void fs_fd_share(void);
/* How often that was: what was opened meanwhile was not in the table yet, and is to be shared too. */
extern FS_INTERNAL _Atomic uint32_t fs_fd_shares;
void fs_fd_share_slot(struct fs_slot *s);
/* What is in the table alone: in a child, of what it has from its parent. */
void fs_fd_share_known(void);
void fs_fd_prepare_exec(void);

#endif
