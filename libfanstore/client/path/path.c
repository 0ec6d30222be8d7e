/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Resolves a path that may lead below a mount. The common case, a plain absolute path, is one hash
 * look-up. Every other path is walked component by component: dots, symlinks inside, into and out
 * of the dataset, mounts below mounts, and virtual directories. A path that the kernel has refused
 * is walked with the real file system's symlinks read too. No allocation, no locks.
 */
#include "client/path/path.h"

#include <linux/openat2.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "client/names/nodelocal.h"
#include "client/names/overlay.h"
#include "client/path/cwd.h"
#include "client/path/vdir.h"
#include "client/path/walk.h"
#include "util/util.h"

/* Returns whether the caller may look up names in all directories above an entry. */
static bool may_search(const struct fs_index *ix, uint32_t entry) {
  if (fs_caller_is_root()) return true;
  while (entry != FS_ROOT) {
    uint32_t parent = ix->entries[entry].parent;
    if (parent >= entry || !(ix->entries[parent].mode & S_IXUSR)) return false;
    entry = parent;
  }
  return true;
}

/* Returns whether the path's last name, of the dataset's entry that was found, is one of this node,
   or was taken, or a change is about to take it. */
static __attribute__((noinline)) bool name_is_shadowed(const struct fs_found *f, unsigned flags, const char *path,
                                                       bool local) {
  fs_err err;
  const struct fs_index *ix = fs_mount_ix(f->mount, &err);
  const struct fs_entry *e = ix == NULL ? NULL : fs_index_entry(ix, f->entry);
  size_t len = strlen(path);
  while (len > 0 && path[len - 1] == '/') len--;
  size_t at = len;
  while (at > 0 && path[at - 1] != '/') at--;
  if (local && fs_nl_glob(path + at, len - at)) return true;
  if (e == NULL || S_ISDIR(e->mode)) return false;
  return ((flags & FS_CHANGES) && fs_overlay_on()) || fs_overlay_maybe(f->mount, e->parent, path + at, len - at);
}

/* Returns whether the path's last name may lead elsewhere than to the dataset's entry. If other
   directories have taken names, one more bit of shared memory tells that this one has none. */
static __attribute__((noinline)) bool is_shadowed(const struct fs_found *f, unsigned flags, const char *path) {
  bool local = (flags & FS_WRITES) != 0 || (fs_nl_any() & FS_NL_SHADOWS) != 0;
  if (!local && !(flags & FS_CHANGES) && FS_LIKELY(!fs_overlay_near(f->mount, f->entry))) return false;
  return name_is_shadowed(f, flags, path, local);
}

/* Looks up at once what is behind path[at] in a mount. Returns false if it must be walked. */
static bool look_up(uint32_t mount, const char *path, size_t at, size_t path_len, unsigned flags, struct fs_found *f,
                    int *result) {
  const struct fs_index *ix = fs_mount_ix(mount, result);
  if (ix == NULL) return true;
  int64_t e = fs_index_lookup(ix, path + at, path_len - at);
  if (e < 0) return false;
  const struct fs_entry *entry = fs_index_entry(ix, (uint64_t)e);
  if (entry == NULL || (S_ISLNK(entry->mode) && !(flags & FS_NOFOLLOW))) return false;
  if (!may_search(ix, (uint32_t)e)) return false;
  f->mount = mount;
  f->entry = (uint32_t)e;
  if (fs_nl_may_shadow(flags) && is_shadowed(f, flags, path)) return false;
  f->last = FS_LAST_NAME;
  f->out.id = 0;
  *result = FS_IN;
  return true;
}

/* Looks up one plain name in a directory of a dataset, as find and ls do. */
static bool look_up_child(uint32_t mount, uint32_t dir, const char *name, unsigned flags, struct fs_found *f) {
  size_t len = strcspn(name, "/");
  fs_err err;
  if (name[len] == '/' || len == 0 || name[0] == '.' || fs_is_output(dir)) return false;
  const struct fs_index *ix = fs_mount_ix(mount, &err);
  int64_t e = ix == NULL || fs_mount_list[mount].outer ? -1 : fs_index_child(ix, dir, name, len);
  if (e < 0) return false;
  const struct fs_entry *entry = fs_index_entry(ix, (uint64_t)e);
  if (entry == NULL || (S_ISLNK(entry->mode) && !(flags & FS_NOFOLLOW))) return false;
  if (!(ix->entries[dir].mode & S_IXUSR) && !fs_caller_is_root()) return false;
  f->mount = mount;
  f->entry = (uint32_t)e;
  if (fs_nl_may_shadow(flags) && is_shadowed(f, flags, name)) return false;
  f->last = FS_LAST_NAME;
  f->out.id = 0;
  return true;
}

static int route_below(uint32_t mount, uint32_t dir, const char *path, unsigned flags, struct fs_found *f) {
  if (!(flags & FS_PARENT) && look_up_child(mount, dir, path, flags, f)) return FS_IN;
  return fs_walk_below(mount, dir, path, flags, f);
}

fs_err fs_path_of_fd(int dirfd, char *out) {
  char link[32] = "/proc/self/fd/";
  char digits[12];
  size_t at = strlen(link), n = 0;
  for (unsigned v = (unsigned)dirfd; n == 0 || v > 0; v /= 10) digits[n++] = (char)('0' + v % 10);
  while (n > 0) link[at++] = digits[--n];
  link[at] = '\0';
  long len = FS_SYS4(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX - 1);
  if (len <= 0 || out[0] != '/') return -EBADF;
  out[len] = '\0';
  return 0;
}

static int route_relative(int dirfd, const char *path, unsigned flags, struct fs_found *f) {
  if (dirfd == AT_FDCWD) {
    struct fs_cwd cwd;
    fs_err err = fs_cwd_get(&cwd);
    if (err != 0 && !cwd.below) return FS_OUTSIDE;
    if (cwd.below) return route_below(cwd.mount, cwd.entry, path, flags, f);
    return fs_walk_text(cwd.path, path, flags, f);
  }
  FS_USE(u);
  struct fs_slot *s = fs_fd_use(dirfd, &u);
  if (s == NULL) {
    char base[PATH_MAX];
    return fs_path_of_fd(dirfd, base) == 0 ? fs_walk_text(base, path, flags, f) : FS_OUTSIDE;
  }
  uint8_t kind = atomic_load_explicit(&s->kind, memory_order_relaxed);
  if (kind == FS_SLOT_CLOSED) return -EBADF;
  if (kind == FS_SLOT_FILE) return -ENOTDIR;
  return route_below(s->mount, s->entry, path, flags, f);
}

int fs_path_route_slow(int dirfd, const char *path, unsigned flags, struct fs_found *f) {
  int result;
  if (path[0] == '\0') return -ENOENT;
  if (path[0] != '/') return route_relative(dirfd, path, flags, f);
  size_t at, len = strlen(path);
  int mount = fs_mount_above(path, len, &at);
  if (mount < 0 || len >= PATH_MAX) return fs_walk_text(NULL, path, flags, f);
  if (!(flags & FS_PARENT) && look_up((uint32_t)mount, path, at, len, flags, f, &result)) return result;
  /* Not if the mount's own name is the last one of the walk, nor below another mount, whose directories
     have permissions. */
  size_t above;
  bool below = path[at + strspn(path + at, "/")] != '\0' &&
               (fs_mount_count() == 1 || fs_mount_above(path, fs_mount_list[mount].len - 1, &above) < 0);
  return below ? fs_walk_below((uint32_t)mount, FS_ROOT, path + at, flags, f) : fs_walk_text(NULL, path, flags, f);
}

static bool exists(int dirfd, const char *path) {
  return FS_SYS3(SYS_faccessat, dirfd, path, F_OK) == 0;
}

static bool is_link(int dirfd, const char *path) {
  char target[8];
  return FS_SYS4(SYS_readlinkat, dirfd, path, target, sizeof(target)) > 0;
}

/* Returns whether openat2 may be called. A sandbox that does not know openat2 may kill for it, as
   man's does. A container's sandbox looks the same. */
static bool may_ask_for_links(void) {
  static _Atomic int may = -1;
  int known = atomic_load_explicit(&may, memory_order_relaxed);
  if (FS_LIKELY(known >= 0)) return known != 0;
  known = FS_SYS1(SYS_prctl, PR_GET_SECCOMP) == 0;
  atomic_store_explicit(&may, known, memory_order_relaxed);
  return known != 0;
}

/*
 * Asks the kernel, in one system call, whether the path can be looked up without following
 * symlinks. If a path meets a symlink, like a linked home directory, the next paths mostly meet it
 * too. So asking is then left out for a while.
 */
static bool meets_no_link(int dirfd, const char *path, unsigned flags) {
  static _Atomic uint32_t leave_out;
  struct open_how how = {.flags = O_PATH | O_CLOEXEC | (flags & FS_NOFOLLOW ? O_NOFOLLOW : 0),
                         .resolve = RESOLVE_NO_SYMLINKS};
  uint32_t left = atomic_load_explicit(&leave_out, memory_order_relaxed);
  if (left > 0) atomic_store_explicit(&leave_out, left - 1, memory_order_relaxed);
  if (left > 0 || !may_ask_for_links()) return false;
  long fd = FS_SYS4(SYS_openat2, dirfd, path, &how, sizeof(how));
  if (fd >= 0) fs_sys_close((int)fd); /* openat2 has just made it */
  if (fd == -ELOOP) atomic_store_explicit(&leave_out, 63, memory_order_relaxed);
  return fd >= 0 || fd == -ENOENT;
}

/* Returns whether meets_no_link may be the whole answer. It may not if a descriptor may be of a
   directory above a mount that the table does not know. It may not if the path may lead through
   virtual directories, which the kernel does not have; ".." and odd spellings may lead to them. */
static bool link_is_needed(int dirfd, const char *path) {
  if (strstr(path, "..") != NULL || strstr(path, "//") != NULL || strstr(path, "/./") != NULL) return false;
  if (path[0] == '/') return !fs_vdir_on_way(path);
  return dirfd == AT_FDCWD && strchr(path, '/') != NULL && fs_cwd_far();
}

/*
 * Returns whether the path leads to no mount, as most names do that the kernel does not find. Its
 * deepest directory that exists then has no dangling link of the next name, and no mount's path has
 * a component of that name. Makes one system call in most cases.
 */
static __attribute__((noinline)) bool missing_by_parts(int dirfd, const char *path, unsigned flags) {
  char prefix[PATH_MAX];
  size_t len = strlen(path);
  if (len >= sizeof(prefix)) return true;
  memcpy(prefix, path, len + 1);
  if (len > 0 && prefix[len - 1] == '/') flags &= ~FS_NOFOLLOW;
  while (len > 1 && prefix[len - 1] == '/') prefix[--len] = '\0';
  for (bool last = true;; last = false) {
    char *slash = strrchr(prefix, '/');
    bool top = slash == NULL || slash == prefix;
    const char *name = slash == NULL ? prefix : slash + 1;
    if (!top) *slash = '\0';
    if (!top && !exists(dirfd, prefix)) continue;
    if (!top) *slash = '/';
    if (fs_vdir_component(name, strlen(name))) return false;
    return (last && (flags & FS_NOFOLLOW)) || !is_link(dirfd, prefix);
  }
}

static bool plainly_missing(int dirfd, const char *path, unsigned flags) {
  return (link_is_needed(dirfd, path) && meets_no_link(dirfd, path, flags)) || missing_by_parts(dirfd, path, flags);
}

/* Routes a path like "/dev/fd/5" of a placeholder to the file that it stands for. The kernel cannot
   open a placeholder anew (ENXIO), nor go on below it (ENOTDIR). */
static int route_fd_name(const char *path, unsigned flags, struct fs_found *f) {
  const char *rest;
  int fd = fs_fd_of_name(path, &rest);
  FS_USE(u);
  const struct fs_slot *s = fd < 0 ? NULL : fs_fd_use(fd, &u);
  if (fd >= 0 && s == NULL) s = fs_fd_adopt_use(fd, &u);
  if (s == NULL || s == &fs_slot_closed) return FS_OUTSIDE;
  if (rest[0] != '\0') return route_relative(fd, rest, flags, f);
  f->mount = s->mount;
  f->entry = s->entry;
  f->last = FS_LAST_NAME;
  f->out.id = 0;
  return FS_IN;
}

int fs_path_route_fd(const char *path, struct fs_found *f) {
  const char *rest;
  int fd = fs_fd_of_name(path, &rest);
  if (fd < 0 || rest[0] != '\0') return FS_OUTSIDE;
  return route_fd_name(path, 0, f);
}

/* Returns whether a path that the kernel refused with err goes through a descriptor that may be
   virtual. */
static bool names_descriptor(int dirfd, const char *path, fs_err err) {
  const char *rest;
  if (err == -ENXIO || (err == -ENOTDIR && path[0] == '/')) return fs_fd_of_name(path, &rest) >= 0;
  return path[0] != '/' && dirfd != AT_FDCWD && (err == -ENOTDIR || err == -EBADF) && fs_fd_adopt(dirfd) != NULL;
}

bool fs_path_surely_missing(int dirfd, const char *path, unsigned flags, fs_err err) {
  if (fs_mount_count() == 0 || fs_bad_address(path) || path[0] == '\0') return true;
  return err == -ENOENT ? plainly_missing(dirfd, path, flags) : !names_descriptor(dirfd, path, err);
}

int fs_path_retry_walk(int dirfd, const char *path, unsigned flags, fs_err err, struct fs_found *f) {
  if (err == -ENXIO || (err == -ENOTDIR && path[0] == '/')) return route_fd_name(path, flags, f);
  if (err != -ENOENT) return route_relative(dirfd, path, flags, f);
  flags |= FS_REAL_LINKS;
  if (path[0] == '/') return fs_walk_text(NULL, path, flags, f);
  return route_relative(dirfd, path, flags, f);
}

int fs_path_retry(int dirfd, const char *path, unsigned flags, fs_err err, struct fs_found *f) {
  if (fs_path_surely_missing(dirfd, path, flags, err)) return FS_OUTSIDE;
  return fs_path_retry_walk(dirfd, path, flags, err, f);
}
