/* SPDX-License-Identifier: BSD-3-Clause */
/* The attributes of outputs (outputs.h). */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "client/data_priv.h"
#include "client/node/ids.h"
#include "client/outputs/outputs.h"

/* An answer that has the directory's times has the count of subdirectories, too. */
static nlink_t record_links(const struct fs_record *r) {
  if (!S_ISDIR(r->mode)) return 1;
  return 2 + (r->flags & FS_RECORD_TIMED ? (nlink_t)r->size : 0);
}

/* If the home does not answer, nobody knows more than the record. */
void fs_output_record_size(struct fs_record *r) {
  struct fs_answer a;
  const struct fs_record *now;
  struct fs_names_call c = {.op = FS_NAMES_SETATTR, .setattr = {.dir = r->dir, .id = r->id, .mode = S_IFREG}};
  if (!S_ISREG(r->mode) || (r->flags & FS_RECORD_PUBLISHED)) return;
  if (fs_output_ask_id(&c, &a, &now) == 0 && now != NULL && now->id == r->id) *r = *now;
}

void fs_output_record_stat(uint32_t mount, const struct fs_record *r, struct stat *st) {
  *st = (struct stat){.st_dev = fs_mount_dev(mount),
                      .st_ino = r->id,
                      .st_mode = r->mode,
                      .st_nlink = record_links(r),
                      .st_size = S_ISLNK(r->mode)   ? r->target_len
                                 : S_ISDIR(r->mode) ? 4096
                                                    : (off_t)r->size,
                      .st_blksize = S_ISREG(r->mode) ? (blksize_t)(256u << 10) : 4096,
                      .st_blocks = (blkcnt_t)((S_ISREG(r->mode) ? r->size : 4096) + 511) / 512,
                      .st_mtim = {.tv_sec = r->mtime, .tv_nsec = r->mtime_ns},
                      .st_ctim = {.tv_sec = r->ctime, .tv_nsec = r->ctime_ns}};
  st->st_atim = st->st_mtim;
  fs_ids(&st->st_uid, &st->st_gid);
}

/* ---- files of this node ---- */

static _Atomic int32_t g_backing; /* the directory of the backing files (number + 1); 0: not opened */

static fs_fd backing_dir(const char *name, const struct fs_found *f, bool *temporary) {
  int32_t fd = atomic_load_explicit(&g_backing, memory_order_acquire);
  char path[PATH_MAX];
  size_t n = (size_t)(name - f->real);
  *temporary = false;
  if (FS_LIKELY(fd > 0 && fs_vfork_depth == 0)) return fd - 1;
  memcpy(path, f->real, n);
  path[n] = '\0';
  fs_fd low = fs_sys_openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
  return low < 0 ? low : fs_own_publish(&g_backing, low, temporary);
}

/* Where the attributes go: st by fstatat, or sx by statx. */
struct wanted {
  int flags;
  bool by_statx;
  unsigned mask;
  struct stat *st;
  struct statx *sx;
};

static fs_err ask_kernel(int dir, const char *path, const struct wanted *w) {
  if (w->by_statx) return (fs_err)FS_SYS5(SYS_statx, dir, path, w->flags, w->mask, w->sx);
  return fs_sys_fstatat(dir, path, w->st, w->flags);
}

static fs_err ask_by_directory(const struct fs_found *f, const struct wanted *w) {
  const char *name = strrchr(f->real, '/') + 1;
  for (;;) {
    bool temporary;
    fs_fd dir = backing_dir(name, f, &temporary);
    if (dir < 0) return ask_kernel(AT_FDCWD, f->real, w);
    fs_err err = ask_kernel(dir, name, w);
    if (temporary) fs_sys_close(dir);
    if (FS_LIKELY(fs_own_still(&g_backing, dir, temporary))) return err;
  }
}

fs_err fs_output_kernel_stat(const struct fs_found *f, struct stat *st, int flags) {
  return ask_by_directory(f, &(struct wanted){.flags = flags, .st = st});
}

fs_err fs_output_kernel_statx(const struct fs_found *f, int flags, unsigned mask, struct statx *sx) {
  return ask_by_directory(f, &(struct wanted){.flags = flags, .by_statx = true, .mask = mask, .sx = sx});
}

/* ---- others ---- */

/* Fills in the attributes of a directory that was removed while a process is in it. */
static void removed_stat(uint32_t mount, const struct fs_output_node *n, struct stat *st) {
  struct fs_record r = {0};
  r.id = atomic_load_explicit(&n->id, memory_order_relaxed);
  r.mode = atomic_load_explicit(&n->mode, memory_order_relaxed);
  fs_output_record_stat(mount, &r, st);
  st->st_nlink = 0;
}

fs_err fs_output_stat(uint32_t mount, uint32_t entry, struct stat *st) {
  struct fs_answer a;
  const struct fs_record *r;
  const struct fs_output_node *n = fs_output_node(entry);
  if (!n) return -EUCLEAN;
  if (S_ISREG(atomic_load_explicit(&n->mode, memory_order_relaxed))) return fs_output_fstat(mount, entry, st);
  fs_err err = fs_output_record_of(entry, &a, &r);
  if (err == -ENOENT) removed_stat(mount, n, st);
  if (err != 0) return err == -ENOENT ? 0 : err;
  struct fs_record now = *r;
  fs_output_record_times(&now);
  fs_output_record_stat(mount, &now, st);
  return 0;
}
