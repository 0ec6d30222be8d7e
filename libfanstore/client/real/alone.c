/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes without a daemon map copies in directories that all such processes of the node share
 * (ipc/alone.h). This file enters a dataset's directory when it is first needed, and leaves it when
 * the process ends. Called by materialize.c, and at forks and ends of the process. Safe in threads
 * and signal handlers: words are published by compare and swap.
 */
#include <string.h>
#include <sys/file.h>

#include "client/fd/fdtab.h"
#include "client/real/making.h"

#define FS_ALONE_NEVER (-1)

struct fs_alone {
  _Atomic int32_t lock;        /* number + 1 of the locked directory; 0: none; or FS_ALONE_NEVER */
  _Atomic int32_t pid;         /* the process that has this lock to itself */
  _Atomic uint64_t dev, inode; /* of the directory */
  char path[PATH_MAX];         /* "": there is none */
};

static _Atomic bool g_ended;

/* Copies byte by byte: ThreadSanitizer in the program would see a write of libc, and not how it is
   published. */
static void put_path(struct fs_alone *a, const char *path) {
  volatile char *to = a->path;
  while ((*to++ = *path++) != '\0') continue;
}

/* Returns the dataset's places, or NULL without memory. The names are made once, because the
   environment may change. */
static struct fs_alone *alone_of(struct fs_dataset *ds) {
  void *all = atomic_load_explicit(&ds->alone, memory_order_acquire);
  const size_t bytes = FS_ALONE_BASES * sizeof(struct fs_alone);
  if (all) return all;
  char path[PATH_MAX];
  struct fs_alone *mine = fs_mem_map(bytes);
  for (unsigned i = 0; mine && i < FS_ALONE_BASES; i++) {
    const char *base = fs_alone_base(i);
    if (base && fs_alone_path(base, ds->ix.hdr->dataset_id, path) == 0) put_path(&mine[i], path);
  }
  if (mine && !fs_publish_ptr(&ds->alone, mine, &all)) fs_mem_unmap(mine, bytes);
  return mine ? all : NULL;
}

/* Returns whether fd is still the directory. The program may have closed the number by means of its
   own, and may use it for another file. */
static bool is_ours(const struct fs_alone *a, int fd) {
  struct stat st;
  return fs_sys_fstat(fd, &st) == 0 && st.st_dev == atomic_load(&a->dev) && st.st_ino == atomic_load(&a->inode);
}

/* Gives the lock up. */
static void forget(struct fs_alone *a, int32_t word) {
  if (!atomic_compare_exchange_strong(&a->lock, &word, 0)) return;
  if (fs_data_owns_fd(word - 1) && is_ours(a, word - 1)) fs_own_close(word - 1);
}

/* Removes what killed processes have left in all places, once a process. */
static void clean_once(void) {
  static _Atomic bool cleaned;
  if (atomic_exchange(&cleaned, true)) return;
  for (unsigned i = 0; i < FS_ALONE_BASES; i++)
    if (fs_alone_base(i)) fs_alone_clean(fs_alone_base(i));
}

static bool enter(struct fs_alone *a) {
  bool temporary;
  struct stat st;
  int32_t none = 0;
  fs_fd low = fs_alone_enter(a->path);
  /* A second wait would not help. */
  if (low == -EAGAIN) atomic_compare_exchange_strong(&a->lock, &none, FS_ALONE_NEVER);
  if (low < 0) return false;
  if (fs_sys_fstat(low, &st) == 0) {
    atomic_store(&a->dev, st.st_dev);
    atomic_store(&a->inode, st.st_ino);
    atomic_store(&a->pid, fs_sys_getpid());
  }
  (void)fs_own_publish(&a->lock, low, &temporary);
  if (temporary) fs_sys_close(low); /* a lock that ends with this call protects nothing */
  return !temporary;
}

const char *fs_alone_get(struct fs_dataset *ds, unsigned base) {
  struct fs_alone *all = alone_of(ds), *a = all ? &all[base] : NULL;
  if (!a || !a->path[0] || atomic_load(&g_ended)) return NULL;
  int32_t word = atomic_load(&a->lock);
  if (word > 0 && fs_alone_is(a->path, word - 1)) return a->path;
  /* A vfork child's parent would not have the lock. */
  if (word == FS_ALONE_NEVER || fs_vfork_depth > 0) return NULL;
  if (word > 0) forget(a, word);
  if (!enter(a)) return NULL;
  clean_once(); /* what this process uses now is locked */
  return a->path;
}

/* Calls fn for each directory that this process has entered. */
static void each_entered(void (*fn)(struct fs_alone *a, int32_t word, struct fs_fork_locks *l),
                         struct fs_fork_locks *l) {
  struct fs_config *c = fs_config();
  for (uint32_t i = 0; i < c->mounts; i++) {
    struct fs_dataset *ds = atomic_load(&c->mount[i].ds);
    struct fs_alone *all = ds ? atomic_load(&ds->alone) : NULL;
    for (unsigned k = 0; all && k < FS_ALONE_BASES; k++) {
      int32_t word = atomic_load(&all[k].lock);
      if (word > 0) fn(&all[k], word, l);
    }
  }
}

/* Leaves a directory. A child that was made without the library's knowledge has its parent's lock,
   and must not give it up. */
static void leave(struct fs_alone *a, int32_t word, struct fs_fork_locks *l) {
  (void)l;
  if (atomic_load(&a->pid) != fs_sys_getpid()) return;
  if (is_ours(a, word - 1)) fs_alone_leave(a->path, word - 1);
  forget(a, word);
}

/* Threads that map after this get copies of their own. */
void fs_data_leave(void) {
  if (fs_vfork_depth > 0) return;
  atomic_store(&g_ended, true);
  each_entered(leave, NULL);
}

/* ---- fork: the child's descriptor is the parent's description, and so its lock ---- */

static void make_lock(struct fs_alone *a, int32_t word, struct fs_fork_locks *l) {
  if (l->n == FS_FORK_LOCKS || !is_ours(a, word - 1)) return;
  fs_fd low = fs_sys_openat(word - 1, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  fs_fd fd = low < 0 ? low : fs_data_adopt_fd(low);
  if (fd < 0 && low >= 0) fs_sys_close(low);
  if (fd < 0) return;
  if (FS_SYS2(SYS_flock, fd, LOCK_SH | LOCK_NB) != 0) {
    fs_own_close(fd);
    return;
  }
  l->lock[l->n].fd = fd;
  l->lock[l->n++].of = a;
}

void fs_data_locks_fork(struct fs_fork_locks *l) {
  l->n = 0;
  each_entered(make_lock, l);
}

/* Puts the child's lock at the same number, because others read the number from the word. */
static void take_lock(struct fs_alone *a, int32_t word, struct fs_fork_locks *l) {
  for (unsigned i = 0; i < l->n; i++) {
    if (l->lock[i].of != a || !is_ours(a, word - 1)) continue;
    if (FS_SYS3(SYS_dup3, l->lock[i].fd, word - 1, O_CLOEXEC) < 0) break;
    atomic_store(&a->pid, fs_sys_getpid());
    return;
  }
  forget(a, word);
}

void fs_data_locks_forked(struct fs_fork_locks *l, bool child) {
  if (child) each_entered(take_lock, l);
  for (unsigned i = 0; i < l->n; i++) fs_own_close(l->lock[i].fd);
}
