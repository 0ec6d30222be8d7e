/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A dataset opened for reading by verify, info, list and unpack: the manifest, the index and the
 * partitions' descriptors. Everything is untrusted; the index module checks what it returns.
 * Partitions may be opened from any thread.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "prepare.h"

static fs_err open_parts(struct fs_dataset *ds) {
  ds->dir = fs_sys_openat(AT_FDCWD, ds->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (ds->dir < 0) return ds->dir;
  ds->part_fd = calloc(ds->ix.nparts + 1, sizeof *ds->part_fd);
  if (ds->part_fd == NULL) return -ENOMEM;
  for (uint64_t i = 0; i < ds->ix.nparts; i++) atomic_init(&ds->part_fd[i], -1);
  ds->keep_most = fs_prep_open_files(2 * ds->ix.nparts + 64) / 2;
  return 0;
}

fs_err fs_dataset_open(struct fs_dataset *ds, const char *path) {
  char why[512] = "";
  *ds = (struct fs_dataset){.path = path, .dir = -1};
  fs_err err = fs_manifest_load(path, &ds->manifest, why, sizeof why);
  if (err < 0) {
    fs_say("%s", why[0] != '\0' ? why : strerror(-err));
    return err;
  }
  err = fs_index_open_of(path, &ds->manifest, &ds->ix, why, sizeof why);
  if (err < 0) {
    fs_say("%s/index: %s", path, why[0] != '\0' ? why : strerror(-err));
    return err;
  }
  err = open_parts(ds);
  if (err < 0) {
    fs_say("%s: %s", path, strerror(-err));
    fs_dataset_close(ds);
  }
  return err;
}

void fs_dataset_forget_index(const struct fs_dataset *ds) {
  madvise(ds->ix.map, ds->ix.map_size, MADV_DONTNEED);
}

void fs_dataset_close(struct fs_dataset *ds) {
  for (uint64_t i = 0; ds->part_fd != NULL && i < ds->ix.nparts; i++) {
    int fd = atomic_load(&ds->part_fd[i]);
    if (fd >= 0) close(fd);
  }
  free(ds->part_fd);
  if (ds->dir >= 0) close(ds->dir);
  fs_index_close(&ds->ix);
}

/* Opens a partition without blocking: a FIFO may be in its place. */
static fs_fd open_part(const struct fs_dataset *ds, uint32_t number) {
  char name[FS_PART_NAME_SIZE];
  struct stat st;
  FS_AUTO_CLOSE fs_fd fd =
      fs_sys_openat(ds->dir, fs_part_name(number, name), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
  if (fd < 0) return fd;
  fs_err err = fs_sys_fstat(fd, &st);
  if (err == 0 && !S_ISREG(st.st_mode)) err = -EUCLEAN;
  return err < 0 ? err : FS_MOVE_FD(fd);
}

fs_fd fs_dataset_part(struct fs_dataset *ds, uint32_t number) {
  if (number >= ds->ix.nparts) return -EUCLEAN;
  int fd = atomic_load(&ds->part_fd[number]);
  if (fd >= 0) return fd;
  fd = open_part(ds, number);
  if (fd < 0) return fd;
  int none = -1;
  if (atomic_fetch_add(&ds->kept, 1) >= ds->keep_most) {
    atomic_fetch_sub(&ds->kept, 1);
    return fd;
  }
  if (atomic_compare_exchange_strong(&ds->part_fd[number], &none, fd)) return fd;
  atomic_fetch_sub(&ds->kept, 1);
  close(fd); /* another thread was faster */
  return none;
}

void fs_dataset_part_done(struct fs_dataset *ds, uint32_t number, int fd) {
  if (fd >= 0 && atomic_load(&ds->part_fd[number]) != fd) close(fd);
}

void fs_dataset_part_forget(struct fs_dataset *ds, uint32_t number) {
  int fd = atomic_exchange(&ds->part_fd[number], -1);
  if (fd < 0) return;
  close(fd);
  atomic_fetch_sub(&ds->kept, 1);
}

fs_err fs_dataset_part_look(const struct fs_dataset *ds, uint32_t number, int fd, char *why, size_t why_size) {
  const struct fs_part_rec *rec = &ds->ix.parts[number];
  uint8_t page[FS_PART_HEADER_SIZE];
  struct stat st = {0};
  if (fd == -ENOENT)
    snprintf(why, why_size, "missing");
  else if (fd == -EUCLEAN)
    snprintf(why, why_size, "no regular file");
  else if (fd < 0)
    snprintf(why, why_size, "cannot be opened: %s", strerror(-fd));
  else if (fs_sys_fstat(fd, &st) < 0)
    snprintf(why, why_size, "cannot be looked at");
  else if ((uint64_t)st.st_size < rec->size)
    snprintf(why, why_size, "truncated partition: %" PRIu64 " bytes of %" PRIu64, (uint64_t)st.st_size, rec->size);
  else if ((uint64_t)st.st_size > rec->size)
    snprintf(why, why_size, "%" PRIu64 " byte%s too long", (uint64_t)st.st_size - rec->size,
             fs_plural((uint64_t)st.st_size - rec->size));
  else if (fs_pread_full(fd, page, sizeof page, 0) < 0)
    snprintf(why, why_size, "its header cannot be read");
  else
    return fs_part_header_check(page, sizeof page, number, rec, why, why_size);
  return -EBADMSG;
}

fs_err fs_dataset_open_checked(struct fs_dataset *ds, const char *path) {
  char why[512] = "";
  fs_err err = fs_dataset_open(ds, path);
  if (err < 0) return err;
  err = fs_dataset_check_index(ds, why, sizeof why);
  if (err == 0) return 0;
  fs_say("%s/index: %s; run fs-prepare verify", path, why);
  fs_dataset_close(ds);
  return err;
}

fs_err fs_dataset_check_index(const struct fs_dataset *ds, char *why, size_t why_size) {
  const struct fs_manifest *m = &ds->manifest;
  const struct fs_index_header *h = ds->ix.hdr;
  if (fs_xxh3(ds->ix.map, ds->ix.map_size) != m->index_xxh3) {
    snprintf(why, why_size, "its checksum differs from the manifest's");
    return -EBADMSG;
  }
  if (m->files != h->files || m->dirs != h->dirs || m->symlinks != h->symlinks || m->plain_bytes != h->plain_bytes ||
      m->stored_bytes != h->stored_bytes || m->block_size != h->block_size) {
    snprintf(why, why_size, "its counts differ from the manifest's");
    return -EBADMSG;
  }
  return 0;
}

void *fs_dataset_work(const struct fs_dataset *ds) {
  size_t n = FS_MAX(fs_codec_work_size(&ds->ix.codecs, ds->ix.block_size), (size_t)FS_CODEC_WORK_HEAD);
  void *work = malloc(n);
  return work != NULL ? memset(work, 0, FS_CODEC_WORK_HEAD) : NULL;
}

char *fs_dataset_entry_path(const struct fs_dataset *ds, uint32_t entry) {
  char *path = malloc(PATH_MAX);
  if (path == NULL || fs_index_path(&ds->ix, entry, path, PATH_MAX) < 0) {
    free(path);
    return NULL;
  }
  return path;
}
