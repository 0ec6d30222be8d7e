/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of posix_spawn's file actions. libc carries them out in the child, without the wrappers,
 * so a path in a dataset must be something real by then. The descriptors that this takes live until
 * the actions are destroyed. A small table keeps them. If a program has more of them at once than
 * the table holds, the rest stay open, close-on-exec.
 */
#include "client/path/cwd.h"
#include "preload/preload.h"

#define FS_KEPT 64

static struct {
  _Atomic(const posix_spawn_file_actions_t *) owner;
  int fd;
  bool output; /* an output's: its close publishes */
} kept[FS_KEPT];

static void keep(const posix_spawn_file_actions_t *fa, int fd, bool output) {
  for (int i = 0; i < FS_KEPT; i++) {
    const posix_spawn_file_actions_t *none = NULL;
    if (!atomic_compare_exchange_strong(&kept[i].owner, &none, fa)) continue;
    kept[i].fd = fd;
    kept[i].output = output;
    return;
  }
}

FS_EXPORT int posix_spawn_file_actions_destroy(posix_spawn_file_actions_t *fa) {
  for (int i = 0; i < FS_KEPT; i++) {
    if (atomic_load(&kept[i].owner) != fa) continue;
    kept[i].output ? (void)close(kept[i].fd) : fs_own_close(kept[i].fd);
    atomic_store(&kept[i].owner, NULL);
  }
  return FS_REAL(posix_spawn_file_actions_destroy)(fa);
}

/* Returns a path for which the kernel gives the same error when the action is carried out, or NULL
   if the action cannot even be added. */
static const char *fails_so(fs_err err) {
  return err == -ENOENT ? "/proc/self/fd/none" : err == -ENOTDIR ? "/dev/null/none" : NULL;
}

/* Opens an output that is written or made at once, since libc could not. Each child gets a copy of
   one descriptor. */
static int add_output(posix_spawn_file_actions_t *fa, int fd, const char *path, int flags, mode_t mode) {
  int out = open(path, flags | O_CLOEXEC, mode);
  if (out < 0 && fails_so(-errno) != NULL)
    return FS_REAL(posix_spawn_file_actions_addopen)(fa, fd, fails_so(-errno), 0, 0);
  if (out < 0) return errno;
  keep(fa, out, true);
  return posix_spawn_file_actions_adddup2(fa, out, fd);
}

FS_EXPORT int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *restrict fa, int fd,
                                               const char *restrict path, int flags, mode_t mode) {
  struct fs_found f;
  int route = fs_path_route(AT_FDCWD, path, (flags & (O_ACCMODE | O_TRUNC)) != O_RDONLY ? FS_CHANGES : 0, &f);
  if (route == FS_OUTSIDE || route == FS_REDIRECT)
    return FS_REAL(posix_spawn_file_actions_addopen)(fa, fd, route == FS_OUTSIDE ? path : f.real, flags, mode);
  fs_err err = fs_must_exist(route);
  if ((flags & (O_ACCMODE | O_TRUNC)) != O_RDONLY || (err == -ENOENT && (flags & O_CREAT)))
    return add_output(fa, fd, path, flags, mode);
  fs_fd real = err != 0 ? err : fs_data_materialize_checked(f.mount, f.entry);
  if (real < 0 && fails_so(real) != NULL)
    return FS_REAL(posix_spawn_file_actions_addopen)(fa, fd, fails_so(real), 0, 0);
  if (real < 0) return -real;
  /* Each child opens the file anew, as it would open the path itself. */
  char name[32];
  fs_fd high = fs_data_adopt_fd(real);
  if (high < 0) high = real;
  keep(fa, high, false);
  snprintf(name, sizeof(name), "/proc/self/fd/%d", high);
  return FS_REAL(posix_spawn_file_actions_addopen)(fa, fd, name, flags & ~(O_CREAT | O_EXCL | O_NOFOLLOW), mode);
}

/* Names fd, so that a program that does not load the library finds a real file there. */
FS_EXPORT int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *fa, int fd, int newfd) {
  if (fs_fd_slot(fd) != NULL) fs_fd_name(fd);
  return FS_REAL(posix_spawn_file_actions_adddup2)(fa, fd, newfd);
}

static int add_directory(posix_spawn_file_actions_t *fa, uint32_t mount, uint32_t entry) {
  struct stat st;
  fs_err err = fs_file_stat(mount, entry, &st);
  if (err == 0 && !S_ISDIR(st.st_mode)) err = -ENOTDIR;
  fs_fd fd = err != 0 ? err : fs_cwd_open(mount, entry);
  if (fd < 0) return -fd;
  keep(fa, fd, false);
  return FS_REAL(posix_spawn_file_actions_addfchdir_np)(fa, fd);
}

FS_EXPORT int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t *restrict fa, const char *restrict path) {
  struct fs_found f;
  int route = fs_path_route(AT_FDCWD, path, 0, &f);
  if (route == FS_OUTSIDE || route == FS_REDIRECT)
    return FS_REAL(posix_spawn_file_actions_addchdir_np)(fa, route == FS_OUTSIDE ? path : f.real);
  fs_err err = fs_must_exist(route);
  if (err != 0 && fails_so(err) != NULL) return FS_REAL(posix_spawn_file_actions_addchdir_np)(fa, fails_so(err));
  return err != 0 ? -err : add_directory(fa, f.mount, f.entry);
}

FS_EXPORT int posix_spawn_file_actions_addfchdir_np(posix_spawn_file_actions_t *fa, int fd) {
  const struct fs_slot *s = fs_fd_slot(fd);
  if (s == NULL) return FS_REAL(posix_spawn_file_actions_addfchdir_np)(fa, fd);
  return s == &fs_slot_closed ? EBADF : add_directory(fa, s->mount, s->entry);
}
