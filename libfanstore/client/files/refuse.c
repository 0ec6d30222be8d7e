/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What calls that would change a dataset get: EROFS, but first what is wrong with the call itself.
 * The wrappers of preload/change.c call this.
 */
#include <linux/fs.h>
#include <unistd.h>

#include "client/files/files.h"
#include "client/names/nodelocal.h"
#include "client/names/overlay.h"
#include "client/outputs/outputs.h"
#include "client/path/cwd.h"
#include "client/path/vdir.h"

fs_err fs_file_refuse_new(int route, const struct fs_found *f, bool directory) {
  if (route < 0) return route;
  if (route == FS_IN) return -EEXIST;
  return f->last == FS_LAST_SLASH && !directory ? -ENOENT : -EROFS;
}

bool fs_file_may_make(int route, const struct fs_found *f, bool directory) {
  return route == FS_NEW && (directory || f->last != FS_LAST_SLASH) && fs_names_node() != NULL && !fs_is_vdir(f->entry);
}

static fs_err refuse_remove(int route, const struct fs_found *f, bool directory) {
  if (route < 0) return route;
  if (route == FS_IN) return directory ? -EBUSY : -EISDIR; /* a mount itself, or above one */
  if (f->last == FS_LAST_DOT) return directory ? -EINVAL : -EISDIR;
  if (f->last == FS_LAST_DOTDOT) return directory ? -ENOTEMPTY : -EISDIR;
  return -EROFS;
}

fs_err fs_file_remove(int route, const struct fs_found *f, bool directory) {
  fs_err err = refuse_remove(route, f, directory);
  if (err != -EROFS || fs_names_node() == NULL || fs_is_vdir(f->entry)) return err;
  if (f->last == FS_LAST_SLASH && !directory) return -ENOTDIR;
  uint64_t id = 0;
  int own = fs_nl_any() != 0 ? fs_nl_remove(f, directory) : 0;
  if (own != 0) return FS_MIN(own, 0);
  err = directory && fs_nl_any() != 0 ? fs_nl_check_empty(f, &id) : 0;
  if (err == 0) err = fs_output_remove(f, directory);
  if (err == 0 && id != 0) fs_nl_removed(id);
  return err;
}

fs_err fs_file_refuse_change(int route) {
  return route < 0 ? route : route == FS_NEW ? -ENOENT : -EROFS;
}

static fs_err refuse_change_of(int route, const struct fs_found *f) {
  fs_err err = fs_file_refuse_change(route);
  return err == -EROFS ? fs_overlay_refused(f->mount, f->entry) : err;
}

/* ---- attributes of a dataset's directory ----
 * tar, cp and rsync set the attributes of directories that exist already. If outputs can be made,
 * such calls succeed and keep nothing: neither owners nor times, nor the bits of other users, which
 * count for nobody. */

static bool is_shared_dir(int route, const struct fs_found *f, struct stat *st) {
  return route == FS_IN && fs_names_node() != NULL && !fs_is_vdir(f->entry) &&
         fs_file_stat(f->mount, f->entry, st) == 0 && S_ISDIR(st->st_mode);
}

fs_err fs_file_chmod(int route, const struct fs_found *f, mode_t mode) {
  struct stat st;
  bool same = is_shared_dir(route, f, &st) && (st.st_mode & S_IRWXU) == (mode & S_IRWXU);
  return same ? 0 : refuse_change_of(route, f);
}

fs_err fs_file_chown(int route, const struct fs_found *f, uid_t uid, gid_t gid) {
  struct stat st;
  return is_shared_dir(route, f, &st) ? fs_output_chown(uid, gid) : refuse_change_of(route, f);
}

fs_err fs_file_xattr(int route, const struct fs_found *f) {
  struct stat st;
  if (is_shared_dir(route, f, &st)) return -EOPNOTSUPP;
  return route == FS_IN && fs_overlay_on() ? -EOPNOTSUPP : refuse_change_of(route, f);
}

fs_err fs_file_times(const struct fs_found *f, const struct timespec t[2]) {
  struct stat st;
  bool now = t == NULL || t[1].tv_nsec == UTIME_NOW;
  return !now && is_shared_dir(FS_IN, f, &st) ? 0 : fs_overlay_refused(f->mount, f->entry);
}

fs_err fs_file_refuse_truncate(int route, const struct fs_found *f, int64_t n) {
  struct stat st;
  if (n < 0) return -EINVAL;
  if (route != FS_IN) return fs_file_refuse_change(route);
  fs_err err = fs_file_stat(f->mount, f->entry, &st);
  return err != 0 ? err : S_ISDIR(st.st_mode) ? -EISDIR : fs_overlay_refused(f->mount, f->entry);
}

static bool valid_time(const struct timespec *t) {
  return t->tv_nsec == UTIME_NOW || t->tv_nsec == UTIME_OMIT || (t->tv_nsec >= 0 && t->tv_nsec < 1000000000);
}

fs_err fs_file_refuse_times(int route, const struct timespec t[2]) {
  /* The path is not looked at. */
  if (t != NULL && t[0].tv_nsec == UTIME_OMIT && t[1].tv_nsec == UTIME_OMIT) return 0;
  if (route == FS_IN && t != NULL && !(valid_time(&t[0]) && valid_time(&t[1]))) return -EINVAL;
  return fs_file_refuse_change(route);
}

int fs_file_refuse_template(const char *template, int suffix, struct fs_found *f) {
  size_t len = strlen(template);
  if (suffix < 0 || len < 6 + (size_t)suffix || memcmp(template + len - (size_t)suffix - 6, "XXXXXX", 6) != 0)
    return -EINVAL;
  int route = fs_path_route_slow(AT_FDCWD, template, FS_NOFOLLOW | FS_AS_IS | FS_MAKE, f);
  return fs_file_may_make(route, f, false) ? FS_NEW : route == FS_IN || route == FS_NEW ? -EROFS : route;
}

static __attribute__((noinline)) bool is_vdir(int dirfd, const char *path) {
  struct fs_found f;
  if (path[0] == '/' ? !fs_path_is_ancestor(path) : dirfd == AT_FDCWD ? fs_cwd_far() : fs_fd_entry(dirfd) == 0)
    return false;
  return fs_path_retry(dirfd, path, FS_NOFOLLOW | FS_AS_IS, -ENOENT, &f) == FS_IN && fs_is_vdir(f.entry);
}

bool fs_file_is_vdir(int dirfd, const char *path) {
  return !fs_bad_address(path) && path[0] != '\0' && fs_path_maybe_above(dirfd, path) && is_vdir(dirfd, path);
}

/* ---- two names ---- */

struct side {
  int route; /* FS_OUTSIDE also for a mount itself, whose name is in a directory outside */
  bool busy; /* a mount, or a directory above one */
  struct fs_found f;
};

static void look(int dirfd, const char *path, unsigned flags, struct side *s) {
  s->busy = false;
  s->route = fs_bad_address(path)           ? -EFAULT
             : fs_path_outside(dirfd, path) ? FS_OUTSIDE
                                            : fs_path_route_slow(dirfd, path, flags, &s->f);
  if (s->route != FS_IN || !(flags & FS_PARENT)) return;
  s->busy = true;
  s->route = FS_OUTSIDE;
}

static bool one_place(const struct side *a, const struct side *b) {
  return fs_mount_list[a->f.mount].canonical == fs_mount_list[b->f.mount].canonical &&
         fs_is_vdir(a->f.entry) == fs_is_vdir(b->f.entry);
}

static bool is_dot(const struct side *s) {
  return s->f.last == FS_LAST_DOT || s->f.last == FS_LAST_DOTDOT;
}

static fs_err rename_flags(unsigned flags) {
  if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT)) return -EINVAL;
  return (flags & RENAME_EXCHANGE) && (flags & (RENAME_NOREPLACE | RENAME_WHITEOUT)) ? -EINVAL : 0;
}

static bool is_outside(const struct side *s) {
  return s->route == FS_OUTSIDE || s->route == FS_REDIRECT;
}

static __attribute__((noinline)) fs_err rename_below(int from_dir, const char *from, int to_dir, const char *to,
                                                     unsigned flags) {
  struct side a, b;
  look(from_dir, from, FS_PARENT, &a);
  look(to_dir, to, FS_PARENT, &b);
  bool out_a = is_outside(&a), out_b = is_outside(&b);
  if (out_a && out_b) return a.busy || b.busy ? -EBUSY : FS_OUTSIDE;
  fs_err err = rename_flags(flags);
  if (err == 0) err = FS_MIN(a.route, 0);
  if (err == 0) err = FS_MIN(b.route, 0);
  if (err != 0) return err;
  if (out_a || out_b || !one_place(&a, &b)) return -EXDEV;
  if (is_dot(&a)) return -EBUSY;
  if (is_dot(&b)) return flags & RENAME_NOREPLACE ? -EEXIST : -EBUSY;
  if (fs_names_node() == NULL || fs_is_vdir(a.f.entry)) return -EROFS;
  int own = fs_nl_rename(&a.f, &b.f, flags);
  if (own != 0) return own;
  uint64_t id = 0;
  err = fs_nl_any() != 0 ? fs_nl_check_replaced(&a.f, &b.f, flags, &id) : 0;
  if (err == 0) err = fs_output_rename(&a.f, &b.f, flags);
  if (err == 0 && id != 0) fs_nl_removed(id);
  return err == 0 ? 1 : err;
}

fs_err fs_file_rename(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
  if (fs_path_outside(from_dir, from) && fs_path_outside(to_dir, to)) return FS_OUTSIDE;
  return rename_below(from_dir, from, to_dir, to, flags);
}

static __attribute__((noinline)) fs_err refuse_link(int from_dir, const char *from, int to_dir, const char *to,
                                                    int flags) {
  struct side a = {.route = FS_OUTSIDE}, b;
  if (flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH)) return -EINVAL;
  bool empty = !fs_bad_address(from) && from[0] == '\0' && (flags & AT_EMPTY_PATH);
  if (!empty) look(from_dir, from, flags & AT_SYMLINK_FOLLOW ? 0 : FS_NOFOLLOW, &a);
  look(to_dir, to, FS_NOFOLLOW | FS_AS_IS, &b);
  bool real = a.route == FS_OUTSIDE || (a.route == FS_REDIRECT && a.f.out.id == 0 && !fs_nl_is(&a.f));
  if (real && is_outside(&b)) return FS_OUTSIDE;
  if (a.route < 0 || a.route == FS_NEW) return a.route == FS_NEW ? -ENOENT : a.route;
  if (is_outside(&b)) return -EXDEV;
  return fs_file_may_make(b.route, &b.f, false) ? -EPERM : fs_file_refuse_new(b.route, &b.f, false);
}

fs_err fs_file_refuse_link(int from_dir, const char *from, int to_dir, const char *to, int flags) {
  if (fs_path_outside(from_dir, from) && fs_path_outside(to_dir, to)) return FS_OUTSIDE;
  return refuse_link(from_dir, from, to_dir, to, flags);
}
