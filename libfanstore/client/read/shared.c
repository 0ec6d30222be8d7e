/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dataset's own directory on shared storage: the only source without a daemon, the last one
 * with it. It is read by pread only, since such a file may shrink or vanish under a mapping; only
 * mappings of the program show it (materialize.c). Every block is compared with its checksum at its
 * first use in a process (verify.c). No locks; descriptors are published once.
 */
#include "client/data_priv.h"
#include "client/fd/fdtab.h"
#include "format/manifest.h"
#include "util/util.h"

/* Checks that the partition is of this dataset. The dataset may have been packed anew since its
   index was read, and what was checked of the old blocks says nothing about the new ones. */
static fs_err fs_shared_same(const struct fs_dataset *ds, uint32_t p, int fd) {
  struct fs_part_header h;
  fs_err err = fs_pread_full(fd, &h, sizeof(h), 0);
  return err < 0 ? err : fs_part_header_check(&h, sizeof(h), p, &ds->ix.parts[p], NULL, 0);
}

/* Opens a partition, and checks its header and its size against the index, so that the user is told
   of a truncated one. */
static fs_fd fs_shared_open(struct fs_dataset *ds, uint32_t p) {
  char path[PATH_MAX], name[FS_PART_NAME_SIZE], has[FS_U64_TEXT], want[FS_U64_TEXT];
  struct stat st;
  fs_err err = fs_join(path, ds->shared, fs_part_name(p, name));
  if (err < 0) return err;
  FS_AUTO_CLOSE fs_fd fd = fs_open_read(path);
  err = fd < 0 ? fd : fs_sys_fstat(fd, &st);
  if (err < 0) {
    FS_NOTE(path, ": cannot open the partition: ", fs_err_text(err));
    return err;
  }
  if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != ds->ix.parts[p].size) {
    FS_NOTE(path, ": the partition is ", fs_u64_text((uint64_t)st.st_size, has), " bytes long, the index says ",
            fs_u64_text(ds->ix.parts[p].size, want), "; copy or pack the dataset again");
    return -EIO;
  }
  err = fs_shared_same(ds, p, fd);
  if (err == 0) return FS_MOVE_FD(fd);
  bool other = err == -EBADMSG;
  FS_NOTE(path,
          other ? ": the partition is of another dataset, or its header is damaged" : ": cannot use the partition: ",
          other ? "" : fs_err_text(err));
  return err;
}

fs_fd fs_shared_fd(struct fs_dataset *ds, uint32_t p, bool *temporary) {
  int32_t fd = atomic_load_explicit(&ds->part[p].shared_fd, memory_order_acquire);
  *temporary = false;
  if (FS_LIKELY(fd > 0 && fs_vfork_depth == 0)) return fd - 1;
  fs_fd low = fs_shared_open(ds, p);
  if (low < 0) return low;
  return fs_own_publish(&ds->part[p].shared_fd, low, temporary);
}

static fs_err fs_shared_pread(struct fs_dataset *ds, uint32_t p, void *dst, size_t n, uint64_t off) {
  bool temporary;
  if (ds->node) fs_timing_slow(fs_now_ns()); /* else nobody counts */
  fs_fd fd = fs_shared_fd(ds, p, &temporary);
  if (fd < 0) return fd;
  fs_err err = fs_pread_full(fd, dst, n, off);
  if (temporary) fs_sys_close(fd);
  if ((err == 0 || err == -EFAULT || temporary) && fs_own_still(&ds->part[p].shared_fd, fd, temporary)) return err;
  /* A network file system's descriptor may have gone stale, so try once more with a fresh one. */
  fd = fs_shared_open(ds, p);
  if (fd < 0) return fd;
  err = fs_pread_full(fd, dst, n, off);
  fs_sys_close(fd);
  return err;
}

/* ---- reading ---- */

fs_err fs_shared_block(struct fs_dataset *ds, const struct fs_block *b, void *dst, const struct fs_scratch *in) {
  fs_err err = fs_shared_pread(ds, b->partition, dst, b->stored_len, b->offset);
  return err < 0 ? err : fs_check_block(ds, FS_CHECK_SHARED, b, dst, in);
}

fs_err fs_shared_range(struct fs_dataset *ds, const struct fs_block *b, void *dst, size_t n, uint64_t off) {
  return fs_shared_pread(ds, b->partition, dst, n, b->offset + off);
}

fs_err fs_shared_straight(struct fs_dataset *ds, uint32_t entry, const struct fs_straight *s) {
  const struct fs_entry *e = &ds->ix.entries[entry];
  uint32_t shift = ds->ix.block_shift;
  uint64_t first = s->off >> shift, last = (s->off + s->n - 1) >> shift, start = first << shift;
  uint64_t key = FS_NAME_FLAGS(e->name) & FS_ENTRY_BLOCKS ? FS_KEY_BLOCK | e->data : entry;
  if (!fs_checked_range(ds, FS_CHECK_SHARED, entry, s->off, s->n)) return -EAGAIN;
  uint64_t plain = FS_MIN(e->size - start, (uint64_t)ds->ix.block_size);
  if (first == last && s->n < plain) { /* its first use may have left the block in memory */
    const struct fs_piece p = {.b = {.key = key + first, .plain_len = (uint32_t)plain},
                               .dst = s->dst,
                               .off = (uint32_t)(s->off - start),
                               .n = (uint32_t)s->n};
    if (fs_decoded_copy(ds, &p)) return 0;
  }
  return fs_shared_pread(ds, s->partition, s->dst, s->n, s->begin + s->off);
}

void fs_shared_willneed(struct fs_dataset *ds, const struct fs_block *b) {
  bool temporary;
  fs_fd fd = fs_shared_fd(ds, b->partition, &temporary);
  if (fd < 0) return;
  FS_SYS4(SYS_fadvise64, fd, b->offset, b->stored_len, POSIX_FADV_WILLNEED);
  if (temporary) fs_sys_close(fd);
}
