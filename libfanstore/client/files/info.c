/* SPDX-License-Identifier: BSD-3-Clause */
/* What the functions of fanstore.h answer; see info.h. All of it comes from the index, the
   placement and the counters. */
#include "client/files/info.h"

#include <string.h>

#include "client/data_priv.h"
#include "client/path/vdir.h"

int fs_path_find(const char *path, struct fs_found *f) {
  struct stat st;
  int route = fs_path_route(AT_FDCWD, path, 0, f);
  if (route != FS_OUTSIDE) return route;
  fs_err err = fs_sys_fstatat(AT_FDCWD, path, &st, 0);
  if (err != -ENOENT && err != -ENOTDIR) return FS_OUTSIDE;
  return fs_path_retry(AT_FDCWD, path, 0, err, f);
}

/* Finds, for a name that is not there, where its nearest existing directory leads. */
static int find_above(const char *path, struct fs_found *f) {
  char above[PATH_MAX];
  size_t len = strnlen(path, sizeof(above));
  int route = fs_path_find(path, f);
  if (len == sizeof(above)) return route;
  memcpy(above, path, len + 1);
  while (route == -ENOENT || route == -ENOTDIR) {
    char *slash = strrchr(above, '/');
    if (!slash) return strcmp(above, ".") == 0 ? FS_OUTSIDE : fs_path_find(".", f);
    if (slash == above) return FS_OUTSIDE;
    *slash = '\0';
    route = fs_path_find(above, f);
  }
  return route;
}

int fs_info_mount_of(const char *path, const char **mount, const char **dataset) {
  struct fs_found f;
  fs_err err;
  size_t len;
  if (fs_mounts() == 0) return -ENXIO;
  if (!path) return -EFAULT;
  int route = find_above(path, &f);
  if (route < 0) return route;
  if ((route != FS_IN && route != FS_NEW) || fs_is_vdir(f.entry) || fs_is_output(f.entry)) return 0;
  struct fs_dataset *ds = fs_dataset(f.mount, &err);
  if (mount) *mount = fs_mount_path(f.mount, &len);
  if (dataset) *dataset = ds ? ds->shared : fs_config()->mount[f.mount].dataset;
  return 1;
}

int fs_info_node(uint32_t *nodes) {
  if (fs_mounts() == 0) return -ENXIO;
  const struct fs_node *node = fs_node_attach();
  if (!node || node->offline) return -ENOTCONN;
  if (nodes) *nodes = node->ctl->nodes;
  return (int)node->ctl->node;
}

static void add_block(const struct fs_dataset *ds, const struct fs_block *b, struct fanstore_info *out) {
  out->stored_bytes += b->stored_len;
  if (fs_is_local(ds, b->partition)) {
    out->blocks_local++;
  } else if (fs_is_remote(ds, b->partition)) {
    out->blocks_remote++;
    out->blocks_cached += fs_cache_has(&ds->node->view, FS_CACHE_KEY(ds->number, b->key));
  }
}

static void first_block(const struct fs_dataset *ds, const struct fs_block *b, struct fanstore_info *out) {
  bool local = fs_is_local(ds, b->partition), remote = fs_is_remote(ds, b->partition);
  out->partition = (int32_t)b->partition;
  out->place = local ? FANSTORE_LOCAL : remote ? FANSTORE_REMOTE : FANSTORE_SHARED;
  out->node = local || remote ? ds->placement[b->partition].owner[0] : -1;
}

fs_err fs_info_entry(uint32_t mount, uint32_t entry, struct fanstore_info *out) {
  fs_err err = 0;
  size_t len;
  struct fs_dataset *ds = fs_dataset(mount, &err);
  const struct fs_entry *e = ds ? fs_index_entry(&ds->ix, entry) : NULL;
  if (!e) return ds ? -EUCLEAN : err;
  *out = (struct fanstore_info){.size = sizeof(*out),
                                .mode = e->mode,
                                .place = ds->placement ? FANSTORE_LOCAL : FANSTORE_SHARED,
                                .node = ds->placement ? (int32_t)ds->node->ctl->node : -1,
                                .partition = -1,
                                .block_size = ds->ix.block_size,
                                .mount = fs_mount_path(mount, &len),
                                .dataset = ds->shared,
                                .codec = fs_codec_name(&ds->ix.codecs, FS_NAME_CODEC(e->name))};
  if (!S_ISREG(e->mode)) return 0;
  out->bytes = e->size;
  out->blocks = fs_index_block_count(&ds->ix, e);
  for (uint64_t i = 0; err == 0 && i < out->blocks; i++) {
    struct fs_block b;
    err = fs_index_block(&ds->ix, entry, i, &b);
    if (err == 0 && i == 0) first_block(ds, &b, out);
    if (err == 0) add_block(ds, &b, out);
  }
  return err;
}

/* Gives the caller as much as its structure has room for. */
static fs_err hand_out(void *out, const void *full, uint32_t size) {
  uint32_t have = *(const uint32_t *)out, n = FS_MIN(have, size);
  if (have < 2 * sizeof(uint32_t)) return -EINVAL;
  memcpy(out, full, n);
  *(uint32_t *)out = n;
  return 0;
}

fs_err fs_info_path(const char *path, struct fanstore_info *out) {
  struct fs_found f;
  struct fanstore_info full;
  if (!path || !out) return -EFAULT;
  if (fs_mounts() == 0) return -ENXIO;
  int route = fs_path_find(path, &f);
  if (route < 0) return route;
  if (route == FS_OUTSIDE || route == FS_REDIRECT || fs_is_vdir(f.entry) || fs_is_output(f.entry)) return -ENXIO;
  if (route == FS_NEW) return -ENOENT;
  fs_err err = fs_info_entry(f.mount, f.entry, &full);
  return err < 0 ? err : hand_out(out, &full, sizeof(full));
}

static void client_counters(struct fanstore_stats *s, uint64_t (*get)(unsigned)) {
  s->opens = get(FS_C_OPENS);
  s->stats = get(FS_C_STATS);
  s->fallbacks = get(FS_C_FALLBACKS);
  s->errors = get(FS_C_ERRORS);
  s->materialized = get(FS_C_MATERIALIZED);
  s->checksum_errors = get(FS_C_DAMAGED);
  for (unsigned p = 0; p < FS_PLACE_COUNT; p++) {
    s->files[p] = get(FS_C_FILES + p);
    s->bytes[p] = get(FS_C_BYTES + p);
    s->blocks[p] = get(FS_C_BLOCKS + p);
  }
}

static uint64_t of_clients(unsigned counter) {
  return atomic_load_explicit(&fs_node_attach()->ctl->counter[counter], memory_order_relaxed);
}

static uint64_t of_daemon(const struct fs_node *node, enum fs_node_counter counter) {
  return atomic_load_explicit(&node->ctl->node_counter[counter], memory_order_relaxed);
}

static fs_err node_counters(struct fanstore_stats *s) {
  const struct fs_node *node = fs_node_attach();
  if (!node || node->offline) return -ENOTCONN;
  client_counters(s, of_clients);
  s->clients = (uint32_t)of_daemon(node, FS_N_CLIENTS);
  s->served = of_daemon(node, FS_N_SERVED);
  s->served_bytes = of_daemon(node, FS_N_SERVED_BYTES);
  s->fetched = of_daemon(node, FS_N_FETCHED);
  s->fetched_bytes = of_daemon(node, FS_N_FETCHED_BYTES);
  s->prefetched = of_daemon(node, FS_N_PREFETCHED);
  s->prefetch_waiting = of_daemon(node, FS_N_PREFETCH_WAITING);
  s->evictions = of_daemon(node, FS_N_EVICTIONS);
  s->timeouts = of_daemon(node, FS_N_TIMEOUTS);
  s->checksum_errors = of_daemon(node, FS_N_CHECKSUM_ERRORS);
  s->dropped = of_daemon(node, FS_N_DROPPED);
  return 0;
}

fs_err fs_info_stats(int whose, struct fanstore_stats *out) {
  struct fanstore_stats full = {.size = sizeof(full)};
  fs_err err = 0;
  if (!out) return -EFAULT;
  if (whose != FANSTORE_PROCESS && whose != FANSTORE_NODE) return -EINVAL;
  if (fs_mounts() == 0) return -ENXIO;
  if (whose == FANSTORE_NODE)
    err = node_counters(&full);
  else
    client_counters(&full, fs_counter_get);
  return err < 0 ? err : hand_out(out, &full, sizeof(full));
}
