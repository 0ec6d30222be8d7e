/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens files of a dataset. Makes real files of them where a virtual descriptor does not serve: as
 * standard input, in a vfork child, for exec, sendfile and their like. Lock-free; see files.h.
 */
#include <unistd.h>

#include "client/fd/fdreal.h"
#include "client/files/files.h"
#include "client/names/overlay.h"
#include "client/outputs/outputs.h"
#include "client/path/vdir.h"
#include "util/machine.h"
#include "util/util.h"

/* Flags that belong to the call, not to the open file. */
#define FS_OPEN_ONLY (O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_CLOEXEC)

/* Refuses flags that contradict each other, before the path is looked at. */
fs_err fs_file_check_flags(int flags) {
  const int tmpfile = O_TMPFILE & ~O_DIRECTORY;
  if (flags & O_PATH) return 0;
  if ((flags & (O_CREAT | O_DIRECTORY)) == (O_CREAT | O_DIRECTORY)) return -EINVAL;
  if (!(flags & tmpfile)) return 0;
  return (flags & O_TMPFILE) == O_TMPFILE && (flags & O_ACCMODE) != O_RDONLY ? 0 : -EINVAL;
}

/* Returns the error of an open that writes to a file of the dataset. */
static __attribute__((noinline)) fs_err refuse_write(const struct fs_found *f, mode_t mode) {
  if (fs_overlay_on() && !(mode & S_IWUSR) && !fs_caller_is_root()) return -EACCES;
  return fs_overlay_refused(f->mount, f->entry);
}

/* Makes the checks of open(2) on a read-only file system, in the kernel's order. */
static inline fs_err check_open(const struct fs_found *f, mode_t mode, int flags) {
  bool writes = (flags & O_ACCMODE) != O_RDONLY;
  if (flags & O_PATH) return (flags & O_DIRECTORY) && !S_ISDIR(mode) ? -ENOTDIR : 0;
  if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) return -EEXIST;
  if ((flags & O_TMPFILE) == O_TMPFILE)
    return !S_ISDIR(mode) ? -ENOTDIR : fs_names_node() == NULL ? -EROFS : -EOPNOTSUPP;
  if ((flags & O_CREAT) && S_ISDIR(mode)) return -EISDIR;
  if ((flags & O_DIRECTORY) && !S_ISDIR(mode)) return -ENOTDIR;
  if (S_ISLNK(mode)) return -ELOOP;
  if (S_ISDIR(mode) && (writes || (flags & O_TRUNC))) return -EISDIR;
  if ((writes || (flags & O_TRUNC)) && !fs_is_output(f->entry)) return refuse_write(f, mode);
  if ((writes || (flags & O_TRUNC)) && !(mode & S_IWUSR) && !fs_caller_is_root()) return -EACCES;
  if (!(mode & S_IRUSR) && (flags & O_ACCMODE) != O_WRONLY && !fs_caller_is_root()) return -EACCES;
  return S_ISDIR(mode) && (flags & O_DIRECT) ? -EINVAL : 0;
}

static fs_fd real_directory_standin(void) {
  return fs_sys_openat(AT_FDCWD, "/proc/self/fdinfo", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
}

/* Opens a real file, where the number or the process cannot hold a virtual descriptor. */
static fs_fd open_real(const struct fs_found *f, mode_t mode, int flags) {
  bool output = fs_is_output(f->entry) && (flags & O_ACCMODE) != O_RDONLY;
  fs_fd fd = !S_ISREG(mode) ? real_directory_standin()
             : output       ? fs_output_forwarder(f->entry, (uint32_t)flags, 0)
                            : fs_data_materialize(f->mount, f->entry);
  if (fd >= 0 && !(flags & O_CLOEXEC)) fs_sys_fcntl(fd, F_SETFD, 0);
  return fd;
}

/* Fills a new slot. If it is shared and filled already, a signal handler has forked in the middle
   of open, and the other process was quicker and may have read from it. If it is shared and idle,
   another thread's fork took it for what it was before. */
static void fill(struct fs_slot *s, const struct fs_found *f, mode_t mode, int flags) {
  bool shared = atomic_load_explicit(&s->shared, memory_order_acquire) != 0;
  if (FS_UNLIKELY(shared) && atomic_load_explicit(&s->kind, memory_order_relaxed) != FS_SLOT_IDLE) return;
  s->mount = f->mount;
  s->entry = f->entry;
  s->mount_key = fs_mount_list[f->mount].key;
  int keep = flags & ~FS_OPEN_ONLY;
  uint32_t status = (uint32_t)(flags & O_PATH ? keep & (O_PATH | O_DIRECTORY | O_NOFOLLOW) : keep | FS_O_LARGEFILE);
  uint8_t kind = flags & O_PATH ? FS_SLOT_PATH : S_ISDIR(mode) ? FS_SLOT_DIR : FS_SLOT_FILE;
  atomic_store_explicit(&s->offset, 0, memory_order_relaxed);
  atomic_store_explicit(&s->flags, status, memory_order_relaxed);
  atomic_store_explicit(&s->counted, 0, memory_order_relaxed);
  atomic_store_explicit(&s->locked, 0, memory_order_relaxed);
  atomic_store_explicit(&s->kind, kind, memory_order_relaxed);
}

/* Refuses the open, or sets the file's mode. */
static inline fs_err check_route(int route, const struct fs_found *f, int flags, mode_t *mode) {
  if ((flags & O_CREAT) && f->last == FS_LAST_SLASH) return -EISDIR;
  if (route == FS_NEW) return flags & O_CREAT ? -EROFS : -ENOENT;
  fs_err err = fs_entry_mode(f->mount, f->entry, mode);
  return FS_LIKELY(err == 0) ? check_open(f, *mode, flags) : err;
}

fs_err fs_file_open_check(int route, const struct fs_found *f, int flags) {
  mode_t mode;
  return check_route(route, f, flags, &mode);
}

/* Opens an output of another node or of several writers. */
static fs_err open_output(const struct fs_found *f, int flags) {
  fs_err err = flags & O_TRUNC ? fs_output_truncate(f, 0) : 0;
  return err == 0 ? fs_output_open(f->entry, fs_output_slot(f->out.dir, f->name, f->name_len), flags) : err;
}

fs_fd fs_file_open(int route, const struct fs_found *f, int flags) {
  mode_t mode;
  if (flags & O_PATH) flags &= O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  fs_err err = check_route(route, f, flags, &mode);
  bool output = err == 0 && fs_is_output(f->entry) && S_ISREG(mode) && !(flags & O_PATH);
  if (output) err = open_output(f, flags);
  if (err != 0) return err;
  struct fs_slot *s;
  uint32_t shares = atomic_load_explicit(&fs_fd_shares, memory_order_relaxed);
  fs_fd fd = fs_fd_new(&s);
  if (fd < 0) {
    /* A vfork child, or a root directory without /proc. */
    if (fd == -EAGAIN || fd == -ENOENT) fd = open_real(f, mode, flags);
    fs_output_unpin(f->entry, output);
    return fd;
  }
  if (S_ISREG(mode)) {
    fs_data_opened(f->mount, f->entry);
    fs_count(FS_UNLIKELY(fs_is_output(f->entry)) ? FS_C_OUT_OPENS : FS_C_OPENS, 1);
  }
  fill(s, f, mode, flags);
  fs_fd_publish(fd, s, (flags & O_CLOEXEC) != 0);
  atomic_signal_fence(memory_order_seq_cst);
  if (FS_UNLIKELY(atomic_load_explicit(&fs_fd_shares, memory_order_relaxed) != shares)) fs_fd_share_slot(s);
  if (FS_LIKELY(fd > 2) || !fs_fd_low_was_closed()) return fd;
  return fs_file_dup_to(fd, s, fd, (flags & O_CLOEXEC) != 0);
}

/* Moves `real` to newfd. The program may have closed newfd before, and the real file then has that
   number already. */
static fs_err move_to(int real, int newfd, bool cloexec) {
  if (real == newfd) return (fs_err)fs_sys_fcntl(real, F_SETFD, cloexec ? FD_CLOEXEC : 0);
  return (fs_err)FS_SYS3(SYS_dup3, real, newfd, cloexec ? O_CLOEXEC : 0);
}

static fs_fd real_dup_to(struct fs_slot *s, int newfd, bool cloexec) {
  uint32_t gen = atomic_load(&s->gen);
  bool output = fs_slot_writable(s) == 0;
  fs_fd real = fs_real_get(s);
  struct fs_fd_claim c;
  if (real < 0) return real;
  fs_fd_over_begin(newfd, &c);
  fs_err err = move_to(real, newfd, cloexec);
  fs_fd_over_end(newfd, &c, err >= 0);
  if (err >= 0) fs_fd_become_real(s, gen, real, output);
  if (err >= 0 && output) fs_output_note_real(newfd);
  if (real != newfd) fs_sys_close(real);
  return err < 0 ? err : newfd;
}

/* In a vfork child the placeholder itself goes to 0-2, from where it may be moved on. exec then
   makes a real file of it. */
fs_fd fs_file_dup_to(int fd, struct fs_slot *s, int newfd, bool cloexec) {
  if (newfd > 2 || fs_vfork_depth > 0 || atomic_load(&s->kind) != FS_SLOT_FILE)
    return fd == newfd ? fd : fs_fd_dup_to(fd, newfd, cloexec);
  return real_dup_to(s, newfd, cloexec);
}

void fs_files_start(void) {
  for (int fd = 0; fd < 3; fd++) {
    struct fs_slot *s = fs_fd_adopt(fd);
    if (s == NULL && fd > 0) fs_output_note_real(fd);
    if (s != NULL && atomic_load(&s->kind) == FS_SLOT_FILE) real_dup_to(s, fd, false);
  }
}

static bool is_inherited(int fd) {
  int64_t status = fs_sys_fcntl(fd, F_GETFL, 0);
  return status >= 0 && (status & O_PATH) && fs_sys_fcntl(fd, F_GETFD, 0) == 0;
}

/* How many bytes one exec copies at most, without descriptors 0-2 and those named to posix_spawn. A
   program never looks at most of what it inherits. */
#define FS_INHERIT_BYTES (1ll << 30)
#define FS_INHERIT_NUMBERS 65536u

static void make_inherited_real(void *ctx, int dirfd, const char *name) {
  int64_t *left = ctx;
  uint64_t fd;
  struct stat st;
  if (fs_parse_u64(name, 0, FS_INHERIT_NUMBERS, &fd) != 0 || (int)fd == dirfd || !is_inherited((int)fd)) return;
  struct fs_slot *s = fs_fd_adopt((int)fd);
  if (s == NULL || atomic_load(&s->kind) != FS_SLOT_FILE || fs_file_fstat(s, &st) != 0) return;
  if (fd > 2 && (*left -= st.st_size) < 0) return;
  fs_fd_take_over((int)fd, s);
}

void fs_files_inherited(bool named) {
  FS_AUTO_CLOSE int dir = fs_sys_openat(AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  int64_t left = FS_INHERIT_BYTES;
  if (dir >= 0) fs_each_number(dir, make_inherited_real, &left);
  uint32_t high = atomic_load(&fs_fdtab_high);
  for (uint32_t fd = 0; named && fd < high && fs_vfork_depth == 0; fd++) {
    if (!(fs_fd_entry((int)fd) & FS_FDE_NAMED)) continue;
    struct fs_slot *s = fs_fd_slot((int)fd);
    if (s != NULL && atomic_load(&s->kind) == FS_SLOT_FILE) fs_fd_take_over((int)fd, s);
  }
}
