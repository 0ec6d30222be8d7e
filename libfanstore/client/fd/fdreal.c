/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes a real descriptor of a virtual one. A process that needs it moves the slot's offset into a
 * real file's description, by one bit of the offset's word that is set once, and leaves the
 * description in the store. All holders follow when they need the offset. The wrappers of reading,
 * dup, exec and spawn call this only if they must.
 */
#include "client/fd/fdreal.h"

#include "client/data_priv.h"
#include "client/fd/fdhooks.h"
#include "util/util.h"

static uint64_t ready_word(const struct fs_slot *s, uint32_t token) {
  return (uint64_t)atomic_load(&s->gen) << 32 | (token + 1);
}

static void set_place(struct fs_slot *s, fs_fd fd, uint32_t token, uint64_t place) {
  if (atomic_load(&s->ready) == ready_word(s, token)) return; /* a waiter has done it */
  FS_SYS3(SYS_lseek, fd, place, SEEK_SET);
  atomic_store(&s->ready, ready_word(s, token));
}

/* Returns the description that the offset has moved to, once it stands at the right place. The
   process that moves it is between two instructions, or dead. If it is dead, the waiter sets the
   place. */
static fs_fd stored(struct fs_state *st, struct fs_slot *s, uint64_t off) {
  uint32_t token = FS_OFFSET_TOKEN(off), from = 0;
  fs_fd fd = -ENOENT;
  fs_store_begin(st);
  for (int tries = 0; fd < 0 && tries < 3; tries++) fd = fs_store_get(st, (uint32_t)(s - st->slot), token, &from);
  fs_store_end(st);
  uint64_t begin = fs_now_ns();
  while (fd >= 0 && atomic_load(&s->ready) != ready_word(s, token)) {
    if (from == (uint32_t)fs_sys_gettid() || fs_store_give_up(from, begin))
      set_place(s, fd, token, off & FS_OFFSET_MASK);
  }
  return fd;
}

/*
 * Moves the offset to `mine`, which is in the store under the token already. If the offset has
 * moved before, that description is taken instead. If that one is lost, because the store was full
 * for example, `mine` goes on from the place in the word.
 */
static fs_fd move_offset(struct fs_state *st, struct fs_slot *s, fs_fd mine, uint32_t token) {
  uint64_t name = FS_OFFSET_REAL | (uint64_t)token << FS_OFFSET_BITS, off = atomic_load(&s->offset), place;
  do {
    fs_fd theirs = off & FS_OFFSET_REAL ? stored(st, s, off) : -ENOENT;
    if (theirs >= 0) {
      fs_sys_close(mine);
      return theirs;
    }
    place = off & FS_OFFSET_REAL ? off & FS_OFFSET_MASK : FS_MIN(off, FS_OFFSET_MASK);
  } while (!atomic_compare_exchange_strong(&s->offset, &off, name | place));
  set_place(s, mine, token, place);
  return mine;
}

fs_fd fs_real_get(struct fs_slot *s) {
  struct fs_state *st = fs_state_attach(false);
  fs_err err = st == NULL ? -EBADF : fs_slot_readable(s);
  bool output = fs_slot_writable(s) == 0;
  if (err != 0) return err;
  uint64_t off = atomic_load(&s->offset);
  fs_fd fd = off & FS_OFFSET_REAL ? stored(st, s, off) : -ENOENT;
  if (fd >= 0) return fd;
  /* All threads must write to one copy. */
  if (output && fs_fd_hooks.only_here(s->entry)) atomic_store(&s->shared, 1);
  fd = output ? fs_fd_hooks.forwarder(s->entry, atomic_load(&s->flags), off & FS_OFFSET_MASK)
              : fs_data_materialize(s->mount, s->entry);
  if (fd < 0) return fd;
  if (atomic_load(&s->shared)) {
    uint32_t token = atomic_fetch_add(&st->tokens, 1) & 0xffff;
    fs_store_begin(st);
    fs_store_put(st, (uint32_t)(s - st->slot), token, fd);
    fs_store_end(st);
    return move_offset(st, s, fd, token);
  }
  FS_SYS3(SYS_lseek, fd, atomic_load(&s->offset) & FS_OFFSET_MASK, SEEK_SET);
  /* Another thread may read by the slot, which must not become another file's at once. */
  atomic_store(&s->shared, 1);
  return fd;
}

/* In a vfork child only fd itself is replaced: the table is its parent's. */
fs_err fs_fd_take_over(int fd, struct fs_slot *s) {
  uint32_t gen = atomic_load(&s->gen);
  fs_fd real = fs_real_get(s);
  if (real < 0) return real;
  bool output = fs_slot_writable(s) == 0;
  fs_err err = 0;
  if (fs_vfork_depth > 0) {
    int64_t flags = fs_sys_fcntl(fd, F_GETFD, 0);
    err = (fs_err)FS_SYS3(SYS_dup3, real, fd, flags > 0 ? O_CLOEXEC : 0);
  } else {
    fs_fd_become_real(s, gen, real, output);
  }
  fs_sys_close(real);
  return FS_MIN(err, 0);
}

void fs_real_follow(void) {
  uint32_t high = atomic_load(&fs_fdtab_high);
  for (uint32_t fd = 3; fd < high && fs_vfork_depth == 0; fd++) {
    if (!(fs_fd_entry((int)fd) & FS_FDE_VIRTUAL)) continue;
    FS_USE(u);
    struct fs_slot *s = fs_fd_use((int)fd, &u);
    if (s == NULL || atomic_load(&s->kind) != FS_SLOT_FILE) continue;
    if (fs_slot_is_real(s) || (fs_is_output(s->entry) && fs_fd_hooks.only_here(s->entry))) fs_fd_take_over((int)fd, s);
  }
  fs_use_reap();
}
