/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens a dataset for staging, finds what is staged already, and removes it at the end if asked to.
 * The daemon calls this at its start and end, from one thread. The source is untrusted: manifest
 * and index are checked before anything is copied.
 */
#include "daemon/staging/stage.h"

#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "daemon/staging/dir.h"
#include "util/sys.h"

struct fs_stage_item fs_stage_item_part(const struct fs_stage *s, uint32_t p) {
  const struct fs_part_rec *rec = &s->index.parts[p];
  struct fs_stage_item item = {.number = p,
                               .size = rec->size,
                               .xxh3 = rec->xxh3,
                               .checked = FS_PART_HEADER_SIZE,
                               .id = (const char *)s->manifest.dataset_id};
  char name[FS_PART_NAME_SIZE];
  snprintf(item.name, sizeof(item.name), "%s", fs_part_name(p, name));
  snprintf(item.temporary, sizeof(item.temporary), FS_STAGE_NEW "%s", item.name);
  return item;
}

struct fs_stage_item fs_stage_item_index(const struct fs_stage *s) {
  return (struct fs_stage_item){.number = FS_STAGE_INDEX,
                                .size = s->manifest.index_size,
                                .xxh3 = s->manifest.index_xxh3,
                                .id = (const char *)s->manifest.dataset_id,
                                .name = "index",
                                .temporary = FS_STAGE_NEW "index"};
}

static fs_err stage_names(struct fs_stage *s, const char *source, const char *local_root, int node) {
  char id[33], dir[32] = "fanstore";
  if (strlen(source) >= sizeof(s->source)) return -ENAMETOOLONG;
  strcpy(s->source, source);
  if (node >= 0) snprintf(dir, sizeof(dir), "fanstore-node%d", node);
  fs_hex(s->manifest.dataset_id, sizeof(s->manifest.dataset_id), id);
  int n = snprintf(s->local, sizeof(s->local), "%s/%s/%s", local_root, dir, id);
  return n < 0 || (size_t)n >= sizeof(s->local) - sizeof("/part-00000.stamp") ? -ENAMETOOLONG : 0;
}

/* Opens the index file of the source or of the copy, and checks that it is this dataset's. */
static fs_err stage_index_open(const struct fs_stage *s, const char *dir, struct fs_index *ix, char *why,
                               size_t why_size) {
  char text[256] = "";
  fs_err err = fs_index_open_of(dir, &s->manifest, ix, text, sizeof(text));
  if (err < 0 && text[0] != '\0') {
    char shown[512];
    snprintf(why, why_size, "%s/index: %s", fs_printable(dir, strlen(dir), shown, sizeof(shown)), text);
  }
  return err < 0 ? fs_stage_why(err, why, why_size, dir, "index") : 0;
}

fs_err fs_stage_open(struct fs_stage *s, const char *source, const char *local_root, int emulated_node, char *why,
                     size_t why_size) {
  if (why_size > 0) why[0] = '\0';
  memset(s, 0, sizeof(*s));
  s->dir_fd = s->lock_fd = -1;
  fs_err err = fs_manifest_load(source, &s->manifest, why, why_size);
  if (err < 0) return fs_stage_why(err, why, why_size, source, "manifest");
  err = stage_names(s, source, local_root, emulated_node);
  if (err < 0) return fs_stage_why(err, why, why_size, local_root, NULL);
  return stage_index_open(s, source, &s->index, why, why_size);
}

void fs_stage_close(struct fs_stage *s) {
  if (s->index.hdr) fs_index_close(&s->index);
  s->index = (struct fs_index){0};
  fs_cleanup_close(&s->dir_fd);
  fs_cleanup_close(&s->lock_fd);
  s->dir_fd = s->lock_fd = -1;
}

void fs_stage_abandon(struct fs_stage *s) {
  int was = FS_STAGE_IDLE;
  while (!atomic_compare_exchange_weak(&s->copying, &was,
                                       was == FS_STAGE_COPYING ? FS_STAGE_SWEEPING : FS_STAGE_ABANDONED))
    if (was == FS_STAGE_ABANDONED) return;
  if (was != FS_STAGE_COPYING) return;
  fs_stage_sweep(s->dir_fd);
  atomic_store(&s->copying, FS_STAGE_ABANDONED);
}

fs_err fs_stage_prepare(struct fs_stage *s, char *why, size_t why_size) {
  char root[PATH_MAX];
  if (why_size > 0) why[0] = '\0';
  strcpy(root, s->local);
  for (int up = 0; up < 2; up++) *strrchr(root, '/') = '\0';
  if (root[0] == '\0') strcpy(root, "/.");
  for (int tries = 0; tries < 10; tries++) {
    FS_AUTO_CLOSE int dir = fs_stage_dir_open(root, s->local, why, why_size);
    if (dir < 0) return dir;
    FS_AUTO_CLOSE int lock = fs_stage_lock_use(dir);
    if (lock == -ESTALE) continue; /* another job has just purged it */
    if (lock < 0) return fs_stage_why(lock, why, why_size, s->local, FS_STAGE_LOCK);
    FS_AUTO_CLOSE int staging = openat(dir, FS_STAGE_STAGING, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (staging < 0) return fs_stage_why(-errno, why, why_size, s->local, FS_STAGE_STAGING);
    s->dir_fd = FS_MOVE_FD(dir);
    s->lock_fd = FS_MOVE_FD(lock);
    if (flock(staging, LOCK_EX | LOCK_NB) == 0) {
      fs_stage_sweep(s->dir_fd);
      fs_stage_reuse(s);
    }
    return 0;
  }
  return fs_stage_why(-EBUSY, why, why_size, s->local, NULL);
}

uint64_t fs_stage_free_bytes(const char *local_root) {
  char path[PATH_MAX];
  struct statvfs v;
  if (strlen(local_root) >= sizeof(path)) return 0;
  strcpy(path, local_root);
  while (statvfs(path, &v) < 0) { /* the directory itself is made later: ask the nearest that exists */
    char *slash = strrchr(path, '/');
    if (errno != ENOENT || !slash) return 0;
    slash[slash == path ? 1 : 0] = '\0';
    if (slash == path && statvfs(path, &v) < 0) return 0;
  }
  return (uint64_t)v.f_bavail * v.f_frsize;
}

void fs_stage_scan(const struct fs_stage *s, bool *have) {
  for (uint32_t p = 0; p < s->index.nparts; p++) {
    struct fs_stage_item item = fs_stage_item_part(s, p);
    have[p] = s->dir_fd >= 0 && fs_stamp_fits(s->dir_fd, &item);
  }
}

fs_err fs_stage_use_local_index(struct fs_stage *s, bool verify, char *why, size_t why_size) {
  struct fs_index local;
  char text[256] = "", shown[512];
  fs_err err = stage_index_open(s, s->local, &local, why, why_size);
  if (err < 0) return err;
  if (verify) err = fs_index_verify(&local, text, sizeof(text));
  if (err < 0) {
    fs_index_close(&local);
    fs_printable(s->source, strlen(s->source), shown, sizeof(shown));
    snprintf(why, why_size, "%s/index: %s", shown, text[0] ? text : strerror(-err));
    return err;
  }
  fs_index_close(&s->index);
  s->index = local;
  return 0;
}

/* Removes the copies. The lock files go last. The directory goes only if nothing else is in it. */
static fs_err stage_remove_files(struct fs_stage *s) {
  struct fs_stage_item item = fs_stage_item_index(s);
  fs_stage_sweep(s->dir_fd);
  fs_stamp_remove(s->dir_fd, &item);
  unlinkat(s->dir_fd, item.name, 0);
  for (uint32_t p = 0; p < s->manifest.partitions; p++) {
    item = fs_stage_item_part(s, p);
    fs_stamp_remove(s->dir_fd, &item);
    unlinkat(s->dir_fd, item.name, 0);
  }
  unlinkat(s->dir_fd, FS_STAGE_STAGING, 0);
  unlinkat(s->dir_fd, FS_STAGE_LOCK, 0);
  if (rmdir(s->local) < 0 && errno != ENOENT) return -errno;
  char node[PATH_MAX];
  strcpy(node, s->local);
  *strrchr(node, '/') = '\0';
  rmdir(node); /* fails if another dataset is in it */
  return 0;
}

fs_err fs_stage_purge(struct fs_stage *s) {
  if (s->dir_fd < 0) return 0;
  fs_err err = -EBUSY;
  if (flock(s->lock_fd, LOCK_EX | LOCK_NB) == 0) err = stage_remove_files(s);
  fs_cleanup_close(&s->lock_fd); /* also if busy: the other job may then purge these copies */
  fs_cleanup_close(&s->dir_fd);
  s->dir_fd = s->lock_fd = -1;
  return err;
}
