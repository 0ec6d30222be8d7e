/* SPDX-License-Identifier: BSD-3-Clause */
/* See overlay.h. A process may die at any point of a copy: the name is then the dataset's still, or
   an output's with all bytes. */
#include "client/names/overlay.h"

#include <string.h>
#include <sys/stat.h>

#include "client/data_priv.h"
#include "client/names/calls.h"
#include "util/util.h"

#define FS_COPY_STEP (1u << 20)

bool fs_overlay_on(void) {
  const struct fs_node *node = fs_names_node();
  return node != NULL && (node->ctl->flags & FS_CTL_OVERLAY);
}

static bool is_set(const _Atomic uint64_t *bits, uint32_t bit) {
  return atomic_load_explicit(&bits[bit / 64], memory_order_acquire) >> bit % 64 & 1;
}

bool fs_overlay_near(uint32_t mount, uint32_t entry) {
  fs_err err;
  const struct fs_dataset *ds = fs_dataset(mount, &err);
  const struct fs_node *node = ds == NULL ? NULL : atomic_load_explicit(&ds->node, memory_order_acquire);
  if (node == NULL || entry >= ds->ix.nentries) return false;
  return is_set(node->ctl->taken, fs_mark_bit(FS_DATASET_DIR(ds->number, ds->ix.entries[entry].parent)));
}

bool fs_overlay_maybe(uint32_t mount, uint32_t dir, const char *name, size_t len) {
  const struct fs_node *node = fs_overlay_any() ? fs_names_node() : NULL;
  uint64_t id = node == NULL ? 0 : fs_output_dir_id(mount, dir);
  if (id == 0 || (id & FS_OUTPUT_ID) || !is_set(node->ctl->taken, fs_mark_bit(id))) return false;
  return is_set(node->ctl->taken_names, fs_taken_bit(id, name, len));
}

enum fs_overlay_kind fs_overlay_kind(const struct fs_found *f) {
  const struct fs_entry *e = fs_overlay_on() ? fs_names_entry(f->mount, f->entry, f->name, f->name_len) : NULL;
  return e == NULL ? FS_OVERLAY_NONE : S_ISDIR(e->mode) ? FS_OVERLAY_DIRECTORY : FS_OVERLAY_FILE;
}

int fs_overlay_is_datasets(const struct fs_found *f) {
  struct fs_answer a;
  const struct fs_record *r;
  enum fs_overlay_kind kind = fs_overlay_kind(f);
  if (kind != FS_OVERLAY_FILE) return kind == FS_OVERLAY_DIRECTORY;
  if (!fs_overlay_maybe(f->mount, f->entry, f->name, f->name_len)) return true;
  fs_err err = fs_output_find(fs_output_dir_id(f->mount, f->entry), f->name, f->name_len, &a, &r);
  return err == -ENOENT ? true : err;
}

/* ---- copying up ---- */

static fs_err copy_bytes(uint32_t mount, uint32_t entry, int to) {
  uint64_t off = 0;
  char *buf = fs_mem_map(FS_COPY_STEP);
  fs_ssize got = buf ? 1 : -ENOMEM;
  while (got > 0) {
    got = fs_output_full() ? -EDQUOT : fs_data_read(mount, entry, buf, FS_COPY_STEP, off, NULL);
    for (fs_ssize done = 0, n = got; done < n && got > 0; done += got, off += (uint64_t)FS_MAX(got, 0))
      got = fs_sys_pwrite(to, buf + done, (size_t)(n - done), off);
  }
  fs_mem_unmap(buf, FS_COPY_STEP);
  return got < 0 ? (fs_err)got : 0;
}

/* Returns whether so many bytes may be copied by --output-limit. */
static bool has_room(uint64_t size) {
  const struct fs_node *node = fs_names_node();
  uint64_t limit = node == NULL ? 0 : node->ctl->output_limit;
  if (fs_output_full()) return false;
  return limit == 0 || size <= limit - FS_MIN(atomic_load(&node->ctl->output_used), limit);
}

/* Fills a backing file with the dataset's bytes, mode and mtime, or only gives it the mode. */
static fs_err fill_file(fs_fd to, uint32_t mount, uint32_t child, bool empty, struct stat *st) {
  const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, st->st_mtim};
  fs_err err = empty ? 0 : copy_bytes(mount, child, to);
  if (err == 0) err = (fs_err)FS_SYS2(SYS_fchmod, to, st->st_mode & 07777);
  if (err == 0 && !empty) err = (fs_err)FS_SYS4(SYS_utimensat, to, NULL, times, 0);
  return err == 0 ? fs_sys_fstat(to, st) : err;
}

/* Opens a file without a name, which goes with the process, however that ends. */
static fs_fd open_unnamed(const char *path) {
  char dir[PATH_MAX];
  size_t len = (size_t)(strrchr(path, '/') - path);
  memcpy(dir, path, len);
  dir[len] = '\0';
  return fs_sys_openat(AT_FDCWD, dir, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
}

static fs_err name_file(fs_fd fd, const char *path) {
  char proc[sizeof("/proc/self/fd/") + FS_U64_TEXT] = "/proc/self/fd/", number[FS_U64_TEXT];
  strcat(proc, fs_u64_text((uint64_t)fd, number));
  return (fs_err)FS_SYS5(SYS_linkat, AT_FDCWD, proc, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

/* The file gets its name when it is whole: until then a process that is killed leaves nothing. If
   that cannot be (no O_TMPFILE, no /proc), it has the name from the start. */
static fs_err make_file(const char *path, uint32_t mount, uint32_t child, bool empty, struct stat *st) {
  fs_err err;
  fs_index_stat(fs_mount_ix(mount, &err), child, st);
  if (!empty && !has_room((uint64_t)st->st_size)) return -EDQUOT;
  if (!empty) {
    struct stat made = *st;
    FS_AUTO_CLOSE fs_fd fd = open_unnamed(path);
    err = fd < 0 ? fd : fill_file(fd, mount, child, empty, &made);
    if (fd >= 0 && err != 0) return err;
    if (err == 0 && name_file(fd, path) == 0) {
      *st = made;
      return 0;
    }
  }
  FS_AUTO_CLOSE fs_fd to = fs_sys_openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  return to < 0 ? (to == -ENOENT ? -EIO : to) : fill_file(to, mount, child, empty, st);
}

static void stamp(struct fs_names_call *c, const struct stat *st) {
  c->create.mode = st->st_mode;
  c->create.mtime = st->st_mtim.tv_sec;
  c->create.mtime_ns = (uint32_t)st->st_mtim.tv_nsec;
}

/* Publishes the file if a replica is to be made. Otherwise the daemon does it, as for each new file
   that nobody has open. */
static fs_err publish(const struct fs_names_call *made, const struct stat *st) {
  uint64_t dir = made->create.dir;
  const struct fs_node *node = fs_names_node();
  return node != NULL && (node->ctl->flags & FS_CTL_REPLICAS) ? fs_output_tell(&dir, made->create.id, st, 0) : 0;
}

/* Makes the output's name, once its bytes are there. */
static fs_err take(struct fs_names_call *c, const char *name, const char *target, bool *made) {
  struct fs_answer a;
  const struct fs_record *r;
  fs_err err = fs_names_ask(c, name, target, &a, &r);
  *made = err == 0 || (err == -EEXIST && r != NULL && r->id == c->create.id);
  return *made || err == -EEXIST ? 0 : err;
}

static fs_err copy_file(struct fs_names_call *c, uint32_t mount, uint32_t child, const char *name, bool empty) {
  char path[PATH_MAX];
  struct stat st;
  bool made = false;
  if (fs_output_full()) return -EDQUOT;
  c->create.id = fs_names_id();
  fs_err err = c->create.id == 0 ? -EIO : fs_output_path(fs_names_node(), c->create.id, path);
  if (err != 0) return err;
  err = make_file(path, mount, child, empty, &st);
  if (err == 0) {
    stamp(c, &st);
    err = take(c, name, "", &made);
  }
  if (made) return publish(c, &st);
  if (err != -EIO) FS_SYS3(SYS_unlinkat, AT_FDCWD, path, 0); /* else the name may exist */
  return err;
}

static fs_err copy_symlink(struct fs_names_call *c, uint32_t mount, uint32_t child, const char *name) {
  char text[PATH_MAX];
  const char *target;
  uint64_t n;
  struct stat st;
  bool made;
  fs_err err;
  const struct fs_index *ix = fs_mount_ix(mount, &err);
  err = fs_index_target(ix, fs_index_entry(ix, child), &target, &n);
  if (err != 0 || n == 0 || n >= sizeof(text)) return err != 0 ? err : -EUCLEAN;
  memcpy(text, target, n);
  fs_index_stat(ix, child, &st);
  stamp(c, &st);
  c->create.mode = S_IFLNK | 0777;
  c->create.id = FS_OUTPUT_ID; /* the daemon chooses one */
  c->tail2_len = (uint16_t)n;
  return take(c, name, text, &made);
}

fs_err fs_overlay_copy_up(uint32_t mount, uint32_t dir, uint32_t child, const char *name, size_t len, unsigned flags) {
  fs_err err;
  const struct fs_index *ix = fs_mount_ix(mount, &err);
  const struct fs_entry *e = ix == NULL ? NULL : fs_index_entry(ix, child);
  struct fs_names_call c = {.op = FS_NAMES_CREATE,
                            .flags = FS_CREATE_TAKES | FS_CREATE_COPY,
                            .tail_len = (uint16_t)len,
                            .create.dir = fs_output_dir_id(mount, dir)};
  if (e == NULL || c.create.dir == 0) return -EUCLEAN;
  if (S_ISLNK(e->mode)) return copy_symlink(&c, mount, child, name);
  return S_ISREG(e->mode) ? copy_file(&c, mount, child, name, (flags & FS_EMPTIES) != 0) : -EROFS;
}

/* ---- without --overlay ---- */

static fs_err refused(const char *name, size_t len) {
  static _Atomic bool told;
  char text[FS_NAME_MAX + 1];
  const struct fs_node *node = fs_names_node();
  if (node == NULL || (node->ctl->flags & FS_CTL_OVERLAY) || len > FS_NAME_MAX || atomic_exchange(&told, true))
    return -EROFS;
  memcpy(text, name, len);
  text[len] = '\0';
  FS_NOTE(text, " is a file of the dataset, which this job cannot change, replace or remove (EROFS); with fs-launch",
          " --overlay it can, and the dataset stays as it is");
  return -EROFS;
}

fs_err fs_overlay_refused(uint32_t mount, uint32_t entry) {
  fs_err err;
  const char *name;
  uint32_t len;
  const struct fs_index *ix = fs_is_output(entry) || fs_is_vdir(entry) ? NULL : fs_mount_ix(mount, &err);
  const struct fs_entry *e = ix == NULL ? NULL : fs_index_entry(ix, entry);
  if (e == NULL || S_ISDIR(e->mode) || fs_index_name(ix, e, &name, &len) != 0) return -EROFS;
  return refused(name, len);
}

fs_err fs_overlay_refused_name(const struct fs_found *f) {
  const struct fs_entry *e = fs_names_entry(f->mount, f->entry, f->name, f->name_len);
  return e == NULL || S_ISDIR(e->mode) ? -EROFS : refused(f->name, f->name_len);
}
