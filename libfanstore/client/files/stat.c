/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What stat and its like say of a dataset's files, and what calls that would change them get.
 * Answers come from the index alone, except for the times of directories that may have outputs.
 * Lock-free.
 */
#include <linux/magic.h>
#include <linux/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "client/files/files.h"
#include "client/names/nodelocal.h"
#include "client/names/overlay.h"
#include "client/outputs/outputs.h"
#include "client/path/vdir.h"

fs_err fs_file_stat(uint32_t mount, uint32_t entry, struct stat *st) {
  fs_err err;
  if (FS_UNLIKELY(fs_is_vdir(entry))) return fs_vdir_stat(mount, entry, st);
  if (fs_is_output(entry)) return fs_output_stat(mount, entry, st);
  const struct fs_index *ix = fs_mount_ix(mount, &err);
  if (FS_UNLIKELY(ix == NULL)) return err;
  if (FS_UNLIKELY(entry >= ix->nentries)) return -EUCLEAN;
  fs_index_stat(ix, entry, st);
  st->st_dev = fs_mount_dev(mount);
  /* The file belongs to the caller, by default: git and ssh refuse files of others. */
  fs_ids(&st->st_uid, &st->st_gid);
  fs_count(FS_C_STATS, 1);
  return 0;
}

fs_err fs_file_stat_now(uint32_t mount, uint32_t entry, struct stat *st) {
  fs_err err = fs_file_stat(mount, entry, st);
  if (FS_UNLIKELY(err == 0 && S_ISDIR(st->st_mode) && entry < FS_OUTPUT_FIRST))
    fs_output_dataset_times(mount, entry, st);
  return err;
}

fs_err fs_found_stat(const struct fs_found *f, struct stat *st) {
  if (FS_LIKELY(f->out.id == 0)) return fs_file_stat_now(f->mount, f->entry, st);
  struct fs_record now = f->out;
  fs_output_record_size(&now);
  fs_output_record_times(&now);
  fs_output_record_stat(f->mount, &now, st);
  fs_count(FS_C_STATS, 1);
  return 0;
}

fs_err fs_file_fstat(struct fs_slot *s, struct stat *st) {
  return atomic_load_explicit(&s->kind, memory_order_relaxed) == FS_SLOT_CLOSED
             ? -EBADF
             : fs_file_stat_now(s->mount, s->entry, st);
}

static struct statx_timestamp stamp(struct timespec t) {
  return (struct statx_timestamp){.tv_sec = t.tv_sec, .tv_nsec = (uint32_t)t.tv_nsec};
}

void fs_file_to_statx(const struct stat *st, unsigned mask, struct statx *out) {
  (void)mask; /* all of it is at hand */
  *out = (struct statx){
      .stx_mask = STATX_BASIC_STATS,
      .stx_blksize = (uint32_t)st->st_blksize,
      .stx_nlink = (uint32_t)st->st_nlink,
      .stx_uid = st->st_uid,
      .stx_gid = st->st_gid,
      .stx_mode = (uint16_t)st->st_mode,
      .stx_ino = st->st_ino,
      .stx_size = (uint64_t)st->st_size,
      .stx_blocks = (uint64_t)st->st_blocks,
      .stx_atime = stamp(st->st_atim),
      .stx_ctime = stamp(st->st_ctim),
      .stx_mtime = stamp(st->st_mtim),
      .stx_dev_major = major(st->st_dev),
      .stx_dev_minor = minor(st->st_dev),
  };
}

/* Returns whether a file with this mode may be used so. */
static fs_err access_mode(uint32_t has, int mode) {
  bool root = fs_caller_is_root();
  if ((mode & R_OK) && !root && !(has & S_IRUSR)) return -EACCES;
  if ((mode & W_OK) && !root && !(has & S_IWUSR)) return -EACCES;
  bool may_execute = has & (root ? S_IXUSR | S_IXGRP | S_IXOTH : S_IXUSR);
  return (mode & X_OK) && !may_execute && !(root && S_ISDIR(has)) ? -EACCES : 0;
}

fs_err fs_found_access(const struct fs_found *f, int mode) {
  if (f->out.id == 0) return fs_file_access(f->mount, f->entry, mode);
  return mode & ~(R_OK | W_OK | X_OK) ? -EINVAL : access_mode(f->out.mode, mode);
}

/* Returns whether an open for writing would make a copy of this node (nodelocal.h). */
static bool may_be_copied(const struct fs_index *ix, const struct fs_entry *e) {
  const char *name;
  uint32_t len;
  return S_ISREG(e->mode) && fs_index_name(ix, e, &name, &len) == 0 && fs_nl_glob(name, len);
}

fs_err fs_file_access(uint32_t mount, uint32_t entry, int mode) {
  fs_err err;
  if (mode & ~(R_OK | W_OK | X_OK)) return -EINVAL;
  if (fs_is_vdir(entry)) return mode & W_OK ? -EROFS : 0;
  if (fs_is_output(entry)) {
    uint32_t has;
    err = fs_output_mode(entry, &has);
    return err != 0 ? err : access_mode(has, mode);
  }
  const struct fs_index *ix = fs_mount_ix(mount, &err);
  if (ix == NULL) return err;
  const struct fs_entry *e = fs_index_entry(ix, entry);
  if (e == NULL) return -EUCLEAN;
  if ((mode & W_OK) && may_be_copied(ix, e)) return access_mode(e->mode | S_IWUSR, mode);
  if ((mode & W_OK) && (S_ISDIR(e->mode) ? fs_names_node() == NULL : !fs_overlay_on())) return -EROFS;
  return access_mode(e->mode, mode);
}

fs_ssize fs_file_readlink(uint32_t mount, uint32_t entry, char *buf, size_t n) {
  fs_err err;
  const char *target;
  uint64_t len;
  if (fs_is_vdir(entry)) return -EINVAL;
  if (fs_is_output(entry)) {
    if (n == 0 || n > INT_MAX) return -EINVAL;
    return fs_bad_address(buf) ? -EFAULT : fs_output_readlink(entry, buf, n);
  }
  const struct fs_index *ix = fs_mount_ix(mount, &err);
  if (ix == NULL) return err;
  const struct fs_entry *e = fs_index_entry(ix, entry);
  if (e == NULL) return -EUCLEAN;
  if (!S_ISLNK(e->mode) || n == 0 || n > INT_MAX) return -EINVAL;
  err = fs_index_target(ix, e, &target, &len);
  if (err != 0) return err;
  if (fs_bad_address(buf)) return -EFAULT;
  memcpy(buf, target, FS_MIN(len, n));
  return (fs_ssize)FS_MIN(len, n);
}

fs_ssize fs_found_readlink(const struct fs_found *f, char *buf, size_t n) {
  if (f->out.id == 0) return fs_file_readlink(f->mount, f->entry, buf, n);
  if (!S_ISLNK(f->out.mode) || n == 0 || n > INT_MAX) return -EINVAL;
  if (fs_bad_address(buf)) return -EFAULT;
  n = FS_MIN(n, f->out.target_len);
  memcpy(buf, f->real, n);
  return (fs_ssize)n;
}

fs_err fs_file_statfs(uint32_t mount, struct statfs *out) {
  fs_err err;
  const struct fs_index *ix = fs_mount_ix(mount, &err);
  if (ix == NULL) return err;
  if (fs_bad_address(out)) return -EFAULT;
  dev_t dev = fs_mount_dev(mount);
  *out = (struct statfs){
      .f_type = SQUASHFS_MAGIC, /* the dataset is a read-only image; find and du trust such a type's link counts */
      .f_bsize = ix->block_size,
      .f_frsize = ix->block_size,
      .f_blocks = (ix->hdr->stored_bytes + ix->block_size - 1) >> ix->block_shift,
      .f_files = ix->nentries,
      .f_fsid = {{(int)dev, (int)(dev >> 32)}},
      .f_namelen = FS_NAME_MAX,
      .f_flags = 0x21, /* ST_RDONLY, ST_VALID */
  };
  const struct fs_node *node = fs_names_node();
  if (node != NULL) fs_output_add_room(node, out);
  return 0;
}
