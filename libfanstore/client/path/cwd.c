/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The current directory, and the stand-ins for directories of a dataset (cwd.h). The path code and
 * the wrappers of chdir and getcwd call this. A sequence lock guards the cached copy; a reader that
 * meets a writer computes the answer itself.
 */
#include "client/path/cwd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/names/names.h"
#include "client/path/path.h"
#include "client/path/vdir.h"
#include "util/util.h"

#define FS_STANDIN_DELETED " (deleted)"

static struct fs_cwd cached;
static _Atomic uint32_t cached_seq; /* odd: being written */
static _Atomic uint32_t cached_epoch;
/* fs_cwd_epoch is bumped at each change. fs_cwd_far_epoch is the epoch in which the directory was
   found to be far from all mounts. */
_Atomic uint32_t fs_cwd_epoch = 1, fs_cwd_far_epoch;

/* The current directory, if it is a real directory above a mount: the epoch, the mount's number and
   the length of the directory's path. A directory that a mount covers, or a stand-in, is not kept
   here, though it may lie above another mount. */
static _Atomic uint64_t above_word;

static void note_above(const struct fs_cwd *c, uint32_t at_epoch) {
  uint32_t mount, entry;
  size_t rest;
  if (!c->near || c->below || fs_mount_above(c->path, c->len, &rest) >= 0) return;
  if (!fs_vdir_find(c->path, c->len == 1 ? 0 : c->len, &mount, &entry)) return;
  atomic_store(&above_word, (uint64_t)at_epoch << 32 | mount << 16 | (c->len == 1 ? 0 : c->len));
}

bool fs_cwd_is_above(uint32_t *mount, uint32_t *len) {
  uint64_t word = atomic_load_explicit(&above_word, memory_order_relaxed);
  *mount = (uint32_t)word >> 16;
  *len = (uint32_t)word & 0xffff;
  return word >> 32 == atomic_load_explicit(&fs_cwd_epoch, memory_order_relaxed) && fs_vfork_depth == 0;
}

void fs_cwd_changed(void) {
  if (fs_vfork_depth == 0) atomic_fetch_add(&fs_cwd_epoch, 1);
}

void fs_cwd_forked(void) {
  if (atomic_load(&cached_seq) & 1)
    atomic_store(&cached_seq, 0); /* the thread that was writing is not in this process */
  fs_cwd_changed();
}

/* Replaces an output directory's number in a stand-in by this process's own. A process with another
   table of numbers (slot.h), like fanstore-static, has another number for the same directory. */
static void own_number(const char *id, uint32_t *entry) {
  unsigned long long value;
  if (!fs_is_output(*entry) || sscanf(id, "%16llx-", &value) != 1) return;
  int64_t number = fs_output_number_of(value);
  *entry = number < 0 ? FS_OUTPUT_RECORD : (uint32_t)number; /* no answer: it leads nowhere */
}

bool fs_standin_parse(const char *link, const char *name, uint32_t *mount, uint32_t *entry) {
  const char *last = strrchr(link, '/');
  unsigned long long key;
  int end = 0;
  size_t len = strlen(link), n = strlen(name);
  if (last == NULL) return false;
  if (strncmp(last, "/memfd:", 7) == 0) last += 6;
  if (strncmp(last + 1, name, n) != 0) return false;
  if (len < sizeof(FS_STANDIN_DELETED) || strcmp(link + len - 10, FS_STANDIN_DELETED) != 0) return false;
  if (sscanf(last + 1 + n, "%16llx.%x.%n", &key, entry, &end) != 2 || end == 0) return false;
  for (*mount = 0; *mount < fs_mount_count() && fs_mount_list[*mount].key != key;) ++*mount;
  if (*mount == fs_mount_count()) return false;
  own_number(last + 1 + n + end, entry);
  return true;
}

/* Fills in c from a stand-in's name. If the directory was removed or nobody answers, it has no
   path. It is below a mount all the same: the kernel's ".." leads to the directory that stand-ins
   are made in. */
static fs_err parse_standin(const char *link, struct fs_cwd *c) {
  if (!fs_standin_parse(link, FS_STANDIN_NAME, &c->mount, &c->entry)) return -ENOENT;
  fs_ssize n = fs_path_of(c->mount, c->entry, c->path, sizeof(c->path));
  c->below = c->near = true;
  c->len = n < 0 ? 0 : (uint32_t)n;
  return n < 0 ? (fs_err)n : 0;
}

/* Finds out whether a real directory has the path of a dataset's directory, or lies above a
   mount. */
static void classify(struct fs_cwd *c) {
  uint32_t mount, entry;
  size_t rest;
  fs_err err;
  c->near = fs_vdir_find(c->path, c->len == 1 ? 0 : c->len, &mount, &entry);
  int i = fs_mount_above(c->path, c->len, &rest);
  if (i < 0) return;
  c->near = true;
  const struct fs_index *ix = fs_mount_ix((uint32_t)i, &err);
  if (ix == NULL) return;
  int64_t e = fs_index_lookup(ix, c->path + rest, c->len - rest);
  if (e < 0 || !S_ISDIR(fs_index_entry(ix, (uint64_t)e)->mode)) return;
  c->below = true;
  c->mount = (uint32_t)i;
  c->entry = (uint32_t)e;
}

static __attribute__((noinline)) fs_err compute_standin(struct fs_cwd *c) {
  char link[PATH_MAX];
  long n = FS_SYS4(SYS_readlinkat, AT_FDCWD, "/proc/self/cwd", link, sizeof(link) - 1);
  if (n <= 0) return -ENOENT;
  link[n] = '\0';
  return parse_standin(link, c);
}

static fs_err compute(struct fs_cwd *c) {
  c->below = c->near = false;
  c->len = 0;
  long n = FS_SYS2(SYS_getcwd, c->path, sizeof(c->path));
  if (n > 1 && c->path[0] == '/') {
    c->len = (uint32_t)n - 1;
    classify(c);
    return 0;
  }
  return compute_standin(c);
}

static void publish(const struct fs_cwd *c, uint32_t at_epoch) {
  uint32_t seq = atomic_load(&cached_seq);
  if ((seq & 1) != 0 || !atomic_compare_exchange_strong(&cached_seq, &seq, seq + 1)) return;
  atomic_thread_fence(memory_order_release);
  memcpy(&cached, c, offsetof(struct fs_cwd, path) + c->len + 1);
  atomic_store(&cached_epoch, at_epoch);
  atomic_store_explicit(&cached_seq, seq + 2, memory_order_release);
  if (!c->near) atomic_store(&fs_cwd_far_epoch, at_epoch);
  note_above(c, at_epoch);
}

static bool load_cached(struct fs_cwd *out, bool head_only) {
  uint32_t seq = atomic_load_explicit(&cached_seq, memory_order_acquire);
  if ((seq & 1) != 0 || atomic_load(&cached_epoch) != atomic_load(&fs_cwd_epoch) || fs_vfork_depth > 0) return false;
  memcpy(out, &cached, offsetof(struct fs_cwd, path));
  if (!head_only && out->len < PATH_MAX) memcpy(out->path, cached.path, out->len + 1);
  atomic_thread_fence(memory_order_acquire);
  return atomic_load_explicit(&cached_seq, memory_order_relaxed) == seq;
}

fs_err fs_cwd_get(struct fs_cwd *out) {
  if (load_cached(out, false)) return out->len > 0 ? 0 : -ENOENT;
  uint32_t at_epoch = atomic_load(&fs_cwd_epoch);
  fs_err err = compute(out);
  if (err != 0) out->path[0] = '\0';
  if (fs_vfork_depth == 0) publish(out, at_epoch);
  return err;
}

bool fs_cwd_far(void) {
  struct fs_cwd c;
  if (!load_cached(&c, true)) fs_cwd_get(&c);
  return !c.near;
}

/* Opens the real directory of the same path, if it is there under exactly this name. */
static fs_fd open_same(const char *path) {
  char link[32], seen[PATH_MAX];
  FS_AUTO_CLOSE int fd = fs_sys_openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0) return fd;
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  long n = FS_SYS4(SYS_readlinkat, AT_FDCWD, link, seen, sizeof(seen) - 1);
  if (n <= 0) return -ENOENT;
  seen[n] = '\0';
  return strcmp(seen, path) == 0 ? FS_MOVE_FD(fd) : -ENOENT;
}

static fs_fd open_standin(const char *base, uint32_t mount, uint32_t entry) {
  char path[PATH_MAX], id[24] = "";
  static _Atomic uint32_t unique;
  if (fs_is_output(entry)) snprintf(id, sizeof(id), "%016llx-", (unsigned long long)fs_output_dir_id(mount, entry));
  for (int tries = 0; tries < 16; tries++) {
    uint64_t salt = fs_now_ns() ^ atomic_fetch_add(&unique, 1);
    int n = snprintf(path, sizeof(path), "%s/" FS_STANDIN_NAME "%016llx.%x.%s%x-%06x", base,
                     (unsigned long long)fs_mount_list[mount].key, entry, id, (unsigned)fs_sys_getpid(),
                     (unsigned)(salt & 0xffffff));
    if (n < 0 || n >= (int)sizeof(path)) return -ENAMETOOLONG;
    fs_err err = (fs_err)FS_SYS3(SYS_mkdirat, AT_FDCWD, path, 0700);
    if (err == -EEXIST) continue;
    if (err != 0) return err;
    fs_fd fd = fs_sys_openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    FS_SYS3(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
    return fd;
  }
  return -EEXIST;
}

fs_fd fs_cwd_open(uint32_t mount, uint32_t entry) {
  char path[PATH_MAX];
  fs_ssize n = fs_path_of(mount, entry, path, sizeof(path));
  if (n < 0) return (fs_fd)n;
  fs_fd fd = open_same(path);
  return fd >= 0 ? fd : fs_cwd_standin(mount, entry);
}

fs_fd fs_cwd_standin(uint32_t mount, uint32_t entry) {
  /* On a disk, making and removing a directory takes milliseconds. */
  fs_fd fd = open_standin("/dev/shm", mount, entry);
  if (fd >= 0) return fd;
  const char *tmp = getenv("TMPDIR");
  return open_standin(tmp != NULL && tmp[0] == '/' ? tmp : "/tmp", mount, entry);
}

fs_err fs_cwd_enter(uint32_t mount, uint32_t entry) {
  FS_AUTO_CLOSE int fd = fs_cwd_open(mount, entry);
  if (fd < 0) return fd;
  fs_err err = (fs_err)FS_SYS1(SYS_fchdir, fd);
  fs_cwd_changed();
  return err;
}
