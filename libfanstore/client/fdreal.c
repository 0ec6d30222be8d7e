/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a virtual descriptor to a real one: who needs it moves the slot's offset into a real file's description (one
 * bit of the offset's word, set once), leaves that in the store, and all holders follow when they need the offset.
 * Called by the wrappers of reading, dup, exec and spawn; not on any path that has no need of it.
 */
#include "client/fdreal.h"

#include "client/data_priv.h"
#include "client/files.h"
#include "util/util.h"

#define FS_FD_LIST_MAX 65536u

static fs_fd stored(struct fs_state *st, const struct fs_slot *s, uint32_t gen) {
  return fs_state_store() < 0 ? -ENOENT : fs_store_get((uint32_t)(s - st->slot), gen);
}

/* Who sets the bit moves the offset, and nobody else's description will do from then on. When the one that did it was
   killed before it left its own, the offset that the word still says is where the next one begins. */
static fs_fd move_offset(struct fs_state *st, struct fs_slot *s, fs_fd mine) {
  uint32_t gen = atomic_load(&s->gen);
  fs_store_begin(st);
  uint64_t off = atomic_fetch_or(&s->offset, FS_OFFSET_REAL);
  fs_fd theirs = off & FS_OFFSET_REAL ? stored(st, s, gen) : -ENOENT;
  if (theirs < 0) {
    FS_SYS3(SYS_lseek, mine, off & ~FS_OFFSET_REAL, SEEK_SET);
    fs_store_put(st, (uint32_t)(s - st->slot), gen, mine);
  }
  fs_store_end(st);
  if (theirs < 0) return mine;
  fs_sys_close(mine);
  return theirs;
}

fs_fd fs_real_get(struct fs_slot *s) {
  struct fs_state *st = fs_state_attach(false);
  fs_err err = st == NULL ? -EBADF : fs_file_readable(s);
  if (err != 0) return err;
  if (fs_slot_is_real(s)) {
    fs_store_begin(st);
    fs_fd fd = stored(st, s, atomic_load(&s->gen));
    fs_store_end(st);
    if (fd >= 0) return fd;
  }
  fs_fd fd = fs_data_materialize(s->mount, s->entry);
  if (fd < 0) return fd;
  if (atomic_load(&s->shared)) return move_offset(st, s, fd);
  FS_SYS3(SYS_lseek, fd, atomic_load(&s->offset) & ~FS_OFFSET_REAL, SEEK_SET);
  return fd;
}

/* In a vfork child only its own descriptor: the table is its parent's. */
fs_err fs_fd_take_over(int fd, struct fs_slot *s) {
  fs_fd real = fs_real_get(s);
  if (real < 0) return real;
  fs_err err = 0;
  if (fs_vfork_depth > 0) {
    int64_t flags = fs_sys_fcntl(fd, F_GETFD, 0);
    err = (fs_err)FS_SYS3(SYS_dup3, real, fd, flags > 0 ? O_CLOEXEC : 0);
  } else {
    fs_fd_become_real(s, real);
  }
  fs_sys_close(real);
  return FS_MIN(err, 0);
}

void fs_real_follow(void) {
  uint32_t high = atomic_load(&fs_fdtab_high);
  for (uint32_t fd = 3; fd < high && fs_vfork_depth == 0; fd++) {
    if (!(fs_fd_entry((int)fd) & FS_FDE_VIRTUAL)) continue;
    struct fs_slot *s = fs_fd_slot((int)fd);
    if (s != NULL && atomic_load(&s->kind) == FS_SLOT_FILE && fs_slot_is_real(s)) fs_fd_take_over((int)fd, s);
  }
}

static bool is_inherited(int fd) {
  int64_t status = fs_sys_fcntl(fd, F_GETFL, 0);
  return status >= 0 && (status & O_PATH) && fs_sys_fcntl(fd, F_GETFD, 0) == 0;
}

static void make_inherited_real(void *ctx, int dirfd, const char *name) {
  uint64_t fd;
  (void)ctx;
  if (fs_parse_u64(name, 0, FS_FD_LIST_MAX, &fd) != 0 || (int)fd == dirfd || !is_inherited((int)fd)) return;
  struct fs_slot *s = fs_fd_adopt((int)fd);
  if (s != NULL && atomic_load(&s->kind) == FS_SLOT_FILE) fs_fd_take_over((int)fd, s);
}

void fs_real_inherited(bool named) {
  FS_AUTO_CLOSE int dir = fs_sys_openat(AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (dir >= 0) fs_each_number(dir, make_inherited_real, NULL);
  uint32_t high = atomic_load(&fs_fdtab_high);
  for (uint32_t fd = 0; named && fd < high && fs_vfork_depth == 0; fd++) {
    if (!(fs_fd_entry((int)fd) & FS_FDE_NAMED)) continue;
    struct fs_slot *s = fs_fd_slot((int)fd);
    if (s != NULL && atomic_load(&s->kind) == FS_SLOT_FILE) fs_fd_take_over((int)fd, s);
  }
}
