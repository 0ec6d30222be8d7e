/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrappers of the calls about the current directory, and of realpath. */
#include "client/path/cwd.h"

#include <stdlib.h>

#include "preload/preload.h"

static int64_t enter(int route, const struct fs_found *f) {
  struct stat st;
  fs_err err = fs_must_exist(route);
  if (err == 0) err = fs_file_stat(f->mount, f->entry, &st);
  if (err != 0) return err;
  if (!S_ISDIR(st.st_mode)) return -ENOTDIR;
  err = fs_file_access(f->mount, f->entry, X_OK);
  return err != 0 ? err : fs_cwd_enter(f->mount, f->entry);
}

static int real_chdir(const char *path) {
  int r = FS_REAL(chdir)(path);
  if (r == 0) fs_cwd_changed();
  return r;
}

FS_EXPORT int chdir(const char *path) {
  FS_PATH_CALL(AT_FDCWD, path, 0, enter(route, f), real_chdir(path));
}

static int64_t enter_slot(const struct fs_slot *s) {
  uint8_t kind = atomic_load(&s->kind);
  struct fs_found f = {.mount = s->mount, .entry = s->entry};
  return kind == FS_SLOT_CLOSED ? -EBADF : enter(FS_IN, &f);
}

FS_EXPORT int fchdir(int fd) {
  struct fs_slot *s = fs_fd_slot(fd);
  if (s != NULL) return fs_ret_int(enter_slot(s));
  int r = FS_REAL(fchdir)(fd);
  if (r == 0) fs_cwd_changed();
  if (r == 0 || (errno != ENOTDIR && errno != EBADF) || (s = fs_fd_adopt(fd)) == NULL) return r;
  return fs_ret_int(enter_slot(s));
}

/* Gets the name of a virtual current directory. Returns false if the directory is a real one. */
static bool virtual_cwd(struct fs_cwd *cwd) {
  return fs_mount_count() > 0 && fs_cwd_get(cwd) == 0 && cwd->below;
}

static char *give(const char *text, size_t len, char *buf, size_t size) {
  if (buf == NULL && (buf = malloc(size > len ? size : len + 1)) == NULL) return NULL;
  return memcpy(buf, text, len + 1);
}

/* Gets an output directory's path anew: it, or one above it, may have been renamed since it was
   entered. */
static fs_err look_again(struct fs_cwd *cwd) {
  if (!fs_is_output(cwd->entry)) return 0;
  fs_ssize n = fs_path_of(cwd->mount, cwd->entry, cwd->path, sizeof(cwd->path));
  if (n >= 0) cwd->len = (uint32_t)n;
  return n < 0 ? (fs_err)n : 0;
}

static __attribute__((noinline)) char *getcwd_near(char *buf, size_t size) {
  struct fs_cwd cwd;
  if (!virtual_cwd(&cwd)) return FS_REAL(getcwd)(buf, size);
  fs_err err = look_again(&cwd);
  if (err == 0 && (buf != NULL || size != 0)) err = size == 0 ? -EINVAL : size <= cwd.len ? -ERANGE : 0;
  if (err != 0) {
    fs_ret(err);
    return NULL;
  }
  return give(cwd.path, cwd.len, buf, size);
}

FS_EXPORT char *getcwd(char *buf, size_t size) {
  return fs_mount_count() == 0 || fs_cwd_surely_far() ? FS_REAL(getcwd)(buf, size) : getcwd_near(buf, size);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* getwd is, and is still called */
FS_EXPORT char *getwd(char *buf) {
  FS_MAY_BE_NULL(buf);
  if (buf != NULL) return getcwd(buf, PATH_MAX);
  fs_ret(-EINVAL);
  return NULL;
}

FS_EXPORT char *get_current_dir_name(void) {
  struct fs_cwd cwd;
  return virtual_cwd(&cwd) ? give(cwd.path, cwd.len, NULL, 0) : FS_REAL(get_current_dir_name)();
}

FS_CHECKED(char *, __getcwd_chk, (char *buf, size_t size, size_t have), size <= have, getcwd(buf, size))
FS_VIA(char *, __getwd_chk, (char *buf, size_t have), ((void)have, getwd(buf)))

/* Writes the canonical path to out (PATH_MAX). Returns its length or an error. */
static fs_ssize canonical(int route, const struct fs_found *f, char *out) {
  fs_err err = fs_must_exist(route);
  return err != 0 ? err : fs_path_of(f->mount, f->entry, out, PATH_MAX);
}

/* Writes the canonical path of a name of this node, whose directory is f->entry. */
static fs_ssize canonical_of_node(const struct fs_found *f, char *out) {
  struct stat st;
  fs_err err = fs_sys_fstatat(AT_FDCWD, f->real, &st, AT_SYMLINK_NOFOLLOW);
  fs_ssize n = err != 0 ? err : fs_path_of(f->mount, f->entry, out, PATH_MAX);
  if (n < 0) return n;
  if ((size_t)n + f->name_len + 2 > PATH_MAX) return -ENAMETOOLONG;
  out[n++] = '/';
  memcpy(out + n, f->name, f->name_len);
  out[n + (fs_ssize)f->name_len] = '\0';
  return n + (fs_ssize)f->name_len;
}

static char *real_realpath(const char *path, char *buf, bool *again) {
  char *r = FS_REAL(realpath)(path, buf);
  *again = r == NULL && errno == ENOENT && !fs_path_surely_missing(AT_FDCWD, path, 0, -ENOENT);
  return r;
}

/* Makes realpath of a path that may lead below a mount. `missed` says that the kernel has refused
   it with ENOENT although it did not look so. */
static __attribute__((noinline)) char *realpath_slow(const char *path, char *buf, bool missed) {
  char out[PATH_MAX];
  struct fs_found f;
  bool again = true;
  int route = missed ? FS_OUTSIDE : fs_path_route_slow(AT_FDCWD, path, 0, &f);
  if (route == FS_OUTSIDE) {
    char *r = missed ? NULL : real_realpath(path, buf, &again);
    if (!again) return r;
    route = fs_path_retry_walk(AT_FDCWD, path, 0, -ENOENT, &f);
    if (route == FS_OUTSIDE) return NULL;
  }
  bool own = route == FS_REDIRECT && fs_nl_is(&f);
  if (route == FS_REDIRECT && !own) return FS_REAL(realpath)(f.real, buf);
  fs_ssize n = own ? canonical_of_node(&f, out) : canonical(route, &f, out);
  if (n >= 0) return give(out, (size_t)n, buf, 0);
  fs_ret(n);
  return NULL;
}

FS_EXPORT char *realpath(const char *restrict path, char *restrict buf) {
  bool again;
  if (!fs_path_outside(AT_FDCWD, path)) return realpath_slow(path, buf, false);
  char *r = real_realpath(path, buf, &again);
  return again ? realpath_slow(path, buf, true) : r;
}

FS_EXPORT char *canonicalize_file_name(const char *path) {
  return realpath(path, NULL);
}

FS_CHECKED(char *, __realpath_chk, (const char *path, char *buf, size_t have), have >= PATH_MAX, realpath(path, buf))
