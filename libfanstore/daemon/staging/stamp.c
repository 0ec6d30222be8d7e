/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stamps, because of which the next launch trusts a staged copy without reading it. A stamp is
 * written after the copy was checked and synced, and names the copy by size, mtime and inode. It
 * does not fit a copy that was replaced, truncated or written to since, nor one whose data a power
 * failure destroyed, as the stamp is written last. A torn or foreign stamp fails its own checksum.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/staging/dir.h"
#include "util/sys.h"

#define FS_STAMP_MAGIC 0x504d415453534600ull /* "\0FSSTAMP" */
#define FS_STAMP_VERSION 1u

struct fs_stamp {
  uint64_t magic;
  uint32_t version;
  uint32_t number; /* of the partition, FS_STAGE_INDEX for the index */
  uint8_t dataset_id[16];
  uint64_t size;
  uint64_t xxh3; /* of the content, as the index or the manifest has it */
  uint64_t inode;
  int64_t mtime_sec;
  uint64_t mtime_nsec;
  uint64_t stamp_xxh3; /* of all before */
};
static_assert(sizeof(struct fs_stamp) == 80, "fs_stamp is 80 bytes");

static void stamp_name(const struct fs_stage_item *item, bool temporary, char out[64]) {
  snprintf(out, 64, "%s%s.stamp", temporary ? FS_STAGE_NEW : "", item->name);
}

static fs_err stamp_make(int dir, const struct fs_stage_item *item, struct fs_stamp *out) {
  struct stat st;
  if (fstatat(dir, item->name, &st, AT_SYMLINK_NOFOLLOW) < 0) return -errno;
  if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (uint64_t)st.st_size != item->size) return -EBADMSG;
  *out = (struct fs_stamp){.magic = FS_STAMP_MAGIC,
                           .version = FS_STAMP_VERSION,
                           .number = item->number,
                           .size = item->size,
                           .xxh3 = item->xxh3,
                           .inode = st.st_ino,
                           .mtime_sec = st.st_mtim.tv_sec,
                           .mtime_nsec = (uint64_t)st.st_mtim.tv_nsec};
  memcpy(out->dataset_id, item->id, sizeof(out->dataset_id));
  out->stamp_xxh3 = fs_xxh3(out, offsetof(struct fs_stamp, stamp_xxh3));
  return 0;
}

bool fs_stamp_fits(int dir, const struct fs_stage_item *item) {
  struct fs_stamp want, have;
  char name[64];
  stamp_name(item, false, name);
  if (stamp_make(dir, item, &want) < 0) return false;
  FS_AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0 || fs_pread_full(fd, &have, sizeof(have), 0) < 0) return false;
  return memcmp(&want, &have, sizeof(have)) == 0;
}

fs_err fs_stamp_write(int dir, const struct fs_stage_item *item, bool sync) {
  struct fs_stamp stamp;
  char name[64], temporary[64];
  fs_err err = stamp_make(dir, item, &stamp);
  if (err < 0) return err;
  stamp_name(item, false, name);
  stamp_name(item, true, temporary);
  unlinkat(dir, temporary, 0);
  FS_AUTO_CLOSE int fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return -errno;
  err = fs_write_full(fd, &stamp, sizeof(stamp));
  if (err == 0 && sync && fsync(fd) < 0) err = -errno;
  if (err == 0 && renameat(dir, temporary, dir, name) < 0) err = -errno;
  if (err < 0) unlinkat(dir, temporary, 0);
  return err;
}

void fs_stamp_remove(int dir, const struct fs_stage_item *item) {
  char name[64];
  stamp_name(item, false, name);
  unlinkat(dir, name, 0);
}
