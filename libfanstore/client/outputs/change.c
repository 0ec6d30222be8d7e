/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and attributes of output files (outputs.h). Each change is one call to the daemon, which
   refuses a dataset's names. */
#include <errno.h>
#include <linux/fs.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client/data_priv.h"
#include "client/names/overlay.h"
#include "client/outputs/segment.h"
#include "util/util.h"

/* Stamps with the present time, but later than the last change in a directory, if there is one. */
static void stamp_now(uint64_t changed, int64_t *sec, uint32_t *ns) {
  /* The kernel stamps files with this clock, also if the program's clocks are faked. */
  uint64_t now = fs_clock_ns(CLOCK_REALTIME_COARSE);
  if (changed != 0) now = FS_MAX(now, changed + FS_CHANGED_STEP / 2);
  fs_stamp(now, sec, ns);
}

/* ---- making names ---- */

static fs_err make(const struct fs_found *f, uint32_t mode, const char *target) {
  struct fs_answer a;
  const struct fs_record *r;
  struct fs_names_call c = {.op = FS_NAMES_CREATE,
                            .tail_len = (uint16_t)f->name_len,
                            .tail2_len = (uint16_t)strlen(target),
                            .create = {.mode = mode, .id = FS_OUTPUT_ID /* the daemon chooses one */}};
  fs_err err = fs_output_may_make(f, &c.create.dir);
  if (err != 0) return err == -EACCES ? fs_output_refused(f, c.create.dir, true) : err;
  c.flags = fs_overlay_kind(f) == FS_OVERLAY_FILE ? FS_CREATE_TAKES : 0;
  stamp_now(0, &c.create.mtime, &c.create.mtime_ns);
  return fs_names_ask(&c, f->name, target, &a, &r);
}

fs_err fs_output_mkdir(const struct fs_found *f, mode_t mode) {
  return make(f, S_IFDIR | (mode & 07777 & ~fs_umask()), "");
}

fs_err fs_output_symlink(const struct fs_found *f, const char *target) {
  size_t n = strnlen(target, PATH_MAX);
  return n == 0 ? -ENOENT : n == PATH_MAX ? -ENAMETOOLONG : make(f, S_IFLNK | 0777, target);
}

/* ---- removing and renaming ---- */

/* Unlinks the backing file of what was removed, if it is this node's and nobody needs it. If this
   process does not, the daemon does it a moment later. */
static void drop_own(const struct fs_answer *a) {
  const struct fs_node *node = fs_names_node();
  char path[PATH_MAX];
  uint64_t id;
  if (a->n != sizeof(id) || !node) return;
  memcpy(&id, a->body, sizeof(id));
  if (fs_output_path(node, id, path) == 0 && FS_SYS3(SYS_unlinkat, AT_FDCWD, path, 0) == 0)
    (void)fs_names_tell(FS_WANT_GONE | id);
}

fs_err fs_output_remove(const struct fs_found *f, bool directory) {
  struct fs_answer a;
  struct fs_names_call c = {
      .op = FS_NAMES_REMOVE, .flags = directory ? FS_REMOVE_DIRECTORY : 0, .tail_len = (uint16_t)f->name_len};
  fs_err err = fs_output_may_make(f, &c.remove.dir);
  if (err == -EACCES) return fs_output_refused(f, c.remove.dir, false);
  enum fs_overlay_kind kind = err == 0 ? fs_overlay_kind(f) : FS_OVERLAY_NONE;
  if (kind == FS_OVERLAY_DIRECTORY) return directory ? -EROFS : -EISDIR;
  if (kind == FS_OVERLAY_FILE) c.flags |= FS_REMOVE_TAKES;
  if (err == 0) err = fs_names_call(&c, f->name, "", a.body, sizeof(a.body), &a.n);
  if (err == 0) drop_own(&a);
  return err == -EROFS ? fs_overlay_refused_name(f) : err;
}

/* Checks that a name given as "x/" is a directory. */
static fs_err check_directory(const struct fs_found *f, uint64_t dir) {
  struct fs_answer a;
  const struct fs_record *r;
  int datasets = fs_overlay_is_datasets(f);
  if (datasets != 0) return datasets < 0 ? datasets : fs_overlay_kind(f) == FS_OVERLAY_DIRECTORY ? 0 : -ENOTDIR;
  fs_err err = fs_output_look_up(dir, f->name, f->name_len, &a, &r);
  return err != 0 ? err : S_ISDIR(r->mode) ? 0 : -ENOTDIR;
}

/* Checks a move to another directory. A directory that moves must be writable, too: its ".."
   changes. */
static fs_err check_moved(const struct fs_found *f, uint64_t dir) {
  struct fs_answer a;
  const struct fs_record *r;
  fs_err err = fs_caller_is_root() ? -ENOENT : fs_output_look_up(dir, f->name, f->name_len, &a, &r);
  if (err != 0) return 0; /* the rename finds that out */
  return S_ISDIR(r->mode) && !(r->mode & S_IWUSR) ? -EACCES : 0;
}

/* Returns whether the name `from` is a directory that `to` is below. */
static bool is_above(const struct fs_found *from, uint64_t dir, const struct fs_found *to) {
  struct fs_answer a;
  const struct fs_record *r;
  uint32_t at = to->entry;
  if (fs_output_look_up(dir, from->name, from->name_len, &a, &r) != 0 || !S_ISDIR(r->mode)) return false;
  for (unsigned depth = 0; fs_is_output(at) && depth < PATH_MAX; depth++) {
    if (fs_output_dir_id(to->mount, at) == r->id) return true;
    at = fs_output_up(to->mount, at);
  }
  return false;
}

/* Returns what the kernel says before it looks whether the directories may be written: 0, an error,
   or else `err`. */
static fs_err rename_refused(const struct fs_found *from, const struct fs_found *to, const struct fs_names_call *c,
                             fs_err err) {
  bool same = c->rename.dir == c->rename.to && from->name_len == to->name_len &&
              memcmp(from->name, to->name, to->name_len) == 0;
  bool directory = from->last == FS_LAST_SLASH || to->last == FS_LAST_SLASH;
  fs_err there = fs_output_refused(from, c->rename.dir, false);
  if (there != -EACCES) return there;
  if ((c->flags & FS_RENAME_NOREPLACE) && fs_output_refused(to, c->rename.to, true) == -EEXIST) return -EEXIST;
  there = directory ? check_directory(from, c->rename.dir) : 0;
  if (there != 0 || same) return there;
  if (is_above(from, c->rename.dir, to)) return -EINVAL;
  return is_above(to, c->rename.to, from) ? -ENOTEMPTY : err;
}

/* Prepares the rename of a dataset's name, or to one, in a job with --overlay: makes an output of a
   dataset's file that is renamed. Sets the call's flag. Returns 1 if nothing is to be done. */
static int rename_datasets(const struct fs_found *from, const struct fs_found *to, struct fs_names_call *c) {
  enum fs_overlay_kind kind = fs_overlay_kind(to);
  int datasets = fs_overlay_is_datasets(from);
  bool same = c->rename.dir == c->rename.to && from->name_len == to->name_len &&
              memcmp(from->name, to->name, to->name_len) == 0;
  if (kind == FS_OVERLAY_FILE) c->flags |= FS_RENAME_TAKES;
  if (datasets < 0) return datasets;
  if (datasets && same) return c->flags & FS_RENAME_NOREPLACE ? -EEXIST : 1;
  if (kind == FS_OVERLAY_DIRECTORY) {
    fs_err err = check_directory(from, c->rename.dir);
    return err == -ENOTDIR ? -EISDIR : err != 0 ? err : -EROFS;
  }
  if (!datasets) return 0;
  if (fs_overlay_kind(from) == FS_OVERLAY_DIRECTORY) return -EXDEV;
  if ((c->flags & FS_RENAME_NOREPLACE) && fs_output_refused(to, c->rename.to, true) == -EEXIST) return -EEXIST;
  fs_err err;
  int64_t child = fs_index_child(fs_mount_ix(from->mount, &err), from->entry, from->name, from->name_len);
  return child < 0 ? (int)child
                   : fs_overlay_copy_up(from->mount, from->entry, (uint32_t)child, from->name, from->name_len, 0);
}

fs_err fs_output_rename(const struct fs_found *from, const struct fs_found *to, unsigned flags) {
  struct fs_answer a;
  struct fs_names_call c = {.op = FS_NAMES_RENAME,
                            .flags = flags & RENAME_NOREPLACE ? FS_RENAME_NOREPLACE : 0,
                            .tail_len = (uint16_t)from->name_len,
                            .tail2_len = (uint16_t)to->name_len};
  if (flags & ~(unsigned)RENAME_NOREPLACE) return -EINVAL;
  fs_err err = fs_output_may_make(from, &c.rename.dir);
  if (err == 0 || err == -EACCES) {
    fs_err other = fs_output_may_make(to, &c.rename.to);
    if (err == 0 || other != -EACCES) err = other != 0 ? other : err;
  }
  if (err == 0 && c.rename.dir != c.rename.to) err = check_moved(from, c.rename.dir);
  if (err == -EACCES) return rename_refused(from, to, &c, err);
  if (err == 0 && (from->last == FS_LAST_SLASH || to->last == FS_LAST_SLASH)) err = check_directory(from, c.rename.dir);
  if (err == 0 && fs_overlay_on() && (err = rename_datasets(from, to, &c)) > 0) return 0;
  if (err == 0) err = fs_names_call(&c, from->name, to->name, a.body, sizeof(a.body), &a.n);
  if (err == 0) drop_own(&a);
  if (err == -EROFS) (void)fs_overlay_refused_name(from), (void)fs_overlay_refused_name(to);
  return err == -EISDIR ? rename_refused(from, to, &c, err) : err;
}

/* ---- attributes, of what is not a file of this node ---- */

static fs_err set(const struct fs_found *f, struct fs_names_call *c) {
  struct fs_answer a;
  const struct fs_record *r;
  struct fs_output_node *n = fs_output_node(f->entry);
  c->op = FS_NAMES_SETATTR;
  if (n != NULL) {
    c->setattr.id = atomic_load_explicit(&n->id, memory_order_relaxed);
    c->setattr.mode |= atomic_load_explicit(&n->mode, memory_order_relaxed) & S_IFMT;
  }
  fs_err err = fs_output_ask_number(f->entry, c, &a, &r);
  if (err == 0 && n != NULL && r != NULL) atomic_store_explicit(&n->mode, r->mode, memory_order_relaxed);
  return err;
}

fs_err fs_output_chmod(const struct fs_found *f, mode_t mode) {
  struct fs_names_call c = {.flags = FS_SET_MODE, .setattr.mode = mode & 07777};
  return set(f, &c);
}

#define FS_GROUPS_MOST 1024u

static bool is_group(gid_t gid) {
  gid_t groups[FS_GROUPS_MOST];
  long n = FS_SYS2(SYS_getgroups, FS_GROUPS_MOST, groups);
  for (long i = 0; i < n; i++)
    if (groups[i] == gid) return true;
  return false;
}

/* Allows what a kernel would allow. Nothing is kept, because everything belongs to the user who
   looks. */
fs_err fs_output_chown(uid_t uid, gid_t gid) {
  uint32_t own_uid, own_gid;
  fs_ids(&own_uid, &own_gid);
  bool ours = gid == (gid_t)-1 || gid == own_gid || own_uid == 0 || is_group(gid);
  return (uid == (uid_t)-1 || uid == own_uid || own_uid == 0) && ours ? 0 : -EPERM;
}

fs_err fs_output_times(const struct fs_found *f, const struct timespec t[2]) {
  struct fs_names_call c = {.flags = FS_SET_TIMES};
  const struct fs_output_node *n = fs_output_node(f->entry);
  if (t != NULL && t[1].tv_nsec == UTIME_OMIT) return 0; /* atime is not kept */
  if (n != NULL && S_ISDIR(atomic_load_explicit(&n->mode, memory_order_relaxed))) {
    fs_err err = fs_output_changed_at(atomic_load_explicit(&n->id, memory_order_relaxed), &c.setattr.changed);
    if (err != 0) return err;
  }
  /* Publish now what was written before, so that it does not change the times afterwards. */
  fs_err err = fs_output_flush(f->entry, false);
  if (err != 0) return err;
  if (t == NULL || t[1].tv_nsec == UTIME_NOW)
    stamp_now(c.setattr.changed, &c.setattr.mtime, &c.setattr.mtime_ns);
  else
    c.setattr.mtime = t[1].tv_sec, c.setattr.mtime_ns = (uint32_t)t[1].tv_nsec;
  return set(f, &c);
}

fs_err fs_output_truncate_path(const struct fs_found *f, int64_t size) {
  uint32_t mode;
  fs_err err = size < 0 ? -EINVAL : fs_output_mode(f->entry, &mode);
  if (err == 0 && !S_ISDIR(mode) && !(mode & S_IWUSR) && !fs_caller_is_root()) err = -EACCES;
  return err != 0 ? err : fs_output_truncate(f, size);
}

fs_err fs_output_truncate(const struct fs_found *f, int64_t size) {
  struct fs_names_call c = {.flags = FS_SET_SIZE, .setattr.size = (uint64_t)size};
  const struct fs_output_node *n = fs_output_node(f->entry);
  if (size < 0) return -EINVAL;
  if (n == NULL) return -EUCLEAN;
  if (!S_ISREG(atomic_load_explicit(&n->mode, memory_order_relaxed))) return -EISDIR;
  fs_err err = fs_output_cut(f->entry);
  if (err == 0) err = set(f, &c);
  fs_output_changed(f->entry);
  return err;
}
