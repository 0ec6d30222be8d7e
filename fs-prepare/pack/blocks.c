/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The blocks of large files while a dataset is packed. They are in a file without a name, which is
 * mapped: so the kernel can write them out when memory is short, and they take none of the process's
 * own. Disk space is reserved before a page is touched. Only pack's main thread changes them.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pack.h"

#define STEP (1ull << 20) /* bytes of disk space that are reserved at once, at least */

/* Returns the bytes that the blocks of a file take here. */
static uint64_t bytes_of(uint64_t size, uint64_t block_size) {
  const uint64_t n = size / block_size + (size % block_size != 0);
  return n > 1 ? sizeof(struct fs_item_blocks) + n * sizeof(struct fs_built_block) : 0;
}

static fs_err make_file(struct fs_block_file *f, int dir) {
  f->fd = fs_sys_openat(dir, FS_BLOCK_FILE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (f->fd < 0) return f->fd;
  fs_err err = unlinkat(dir, FS_BLOCK_FILE, 0) < 0 ? -errno : 0;
  void *map = err == 0 ? mmap(NULL, f->size, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0) : MAP_FAILED;
  if (err == 0 && map == MAP_FAILED) err = -errno;
  if (err == 0) f->map = map;
  if (err < 0) close(f->fd);
  return err;
}

/* Takes the process's own memory instead: some file systems map no files to be written. */
static fs_err take_memory(struct fs_block_file *f) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void *map = mmap(NULL, f->size, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (map == MAP_FAILED) return -errno;
  f->fd = -1;
  f->map = map;
  return 0;
}

fs_err fs_block_file_open(struct fs_tree *tree, int dir, uint64_t block_size) {
  struct fs_block_file *f = &tree->blocks;
  *f = (struct fs_block_file){.block_size = block_size};
  for (size_t i = 0; i < tree->n; i++)
    if (S_ISREG(tree->items[i].mode)) f->size += bytes_of(tree->items[i].size, block_size);
  fs_err err = f->size != 0 ? make_file(f, dir) : 0;
  return err == -ENODEV || err == -EINVAL ? take_memory(f) : err;
}

/* Reserves disk space up to `end`. */
static fs_err reserve(struct fs_block_file *f, uint64_t end) {
  const uint64_t to = FS_MIN(FS_MAX(end, f->reserved + STEP), f->size);
  int err = EINTR;
  if (f->fd < 0 || end <= f->reserved) return 0;
  while (err == EINTR && fs_prep_signal == 0)
    err = posix_fallocate(f->fd, (off_t)f->reserved, (off_t)(to - f->reserved));
  if (err == 0) f->reserved = to;
  return -err;
}

fs_err fs_item_room(struct fs_block_file *f, struct fs_item *item) {
  const uint64_t bytes = bytes_of(item->size, f->block_size);
  if (bytes == 0) return 0;
  if (bytes > f->size - f->used) return -ENOMEM;
  fs_err err = reserve(f, f->used + bytes);
  if (err < 0) return err;
  item->blocks = (struct fs_item_blocks *)(f->map + f->used);
  item->blocks->n = 0;
  item->many = true;
  f->last = f->used;
  f->used += bytes;
  return 0;
}

void fs_item_drop_blocks(struct fs_block_file *f, struct fs_item *item) {
  if (item->many && (uint8_t *)item->blocks == f->map + f->last) f->used = f->last;
  if (item->many || item->one) {
    item->target = NULL;
    item->same = 0;
  }
  item->many = item->one = false;
}

void fs_block_file_forget(const struct fs_block_file *f) {
  if (f->map != NULL && f->fd >= 0) madvise(f->map, f->size, MADV_DONTNEED);
}

fs_err fs_block_file_sync(const struct fs_block_file *f) {
  return f->map != NULL && f->fd >= 0 && fdatasync(f->fd) < 0 ? -errno : 0;
}

void fs_block_file_close(struct fs_block_file *f) {
  if (f->map == NULL) return;
  munmap(f->map, f->size);
  if (f->fd >= 0) close(f->fd);
  *f = (struct fs_block_file){0};
}
