/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens the dataset of a mount at its first use: finds it at the node's daemon or on shared
 * storage, and maps its index. fs_mount_index and every read call this. A dataset is published by
 * compare and swap and never closed. A failure is told once and tried again a second later.
 */
#include <string.h>

#include "client/data_priv.h"
#include "client/node/words.h"
#include "format/manifest.h"

#define FS_RETRY_NS 1000000000ull

static const struct fs_ctl_dataset *fs_ctl_find(const struct fs_node *node, const char *path) {
  for (uint32_t i = 0; node && i < node->ctl->datasets; i++) {
    if (strcmp(node->ctl->dataset[i].mount, path) == 0) return &node->ctl->dataset[i];
  }
  return NULL;
}

/* Maps DIR/index if it is the index with this id. */
static fs_err fs_open_index(const char *dir, const uint8_t *id, struct fs_index *ix) {
  char path[PATH_MAX];
  fs_err err = fs_join(path, dir, "index");
  if (err == 0) err = fs_index_open(path, ix, NULL, 0);
  if (err < 0) return err;
  if (memcmp(ix->hdr->dataset_id, id, sizeof(ix->hdr->dataset_id)) == 0) return 0;
  fs_index_close(ix);
  return -EPROTO;
}

/* Like fs_open_index, and checks the contents, if nobody else has: a flipped bit must not become
   another size. */
static fs_err fs_open_index_checked(const char *dir, const uint8_t *id, struct fs_index *ix) {
  fs_err err = fs_open_index(dir, id, ix);
  if (err < 0 || fs_index_check(ix, NULL, 0) == 0) return err;
  fs_index_close(ix);
  return -EBADMSG;
}

/* Returns how much is checked. Without its daemon nobody looks after the node's copies, so all that
   is read of them is checked, unless the setting is 'never'. */
static enum fs_verify fs_verify_of(const struct fs_node *node) {
  enum fs_verify verify = fs_config()->verify;
  return node && node->offline && verify == FS_VERIFY_REMOTE ? FS_VERIFY_ALWAYS : verify;
}

/* Opens the index with a daemon: the node's own copy, which was checked when it was staged, or else
   the one on shared storage. */
static fs_err fs_open_index_node(const struct fs_node *node, const struct fs_ctl_dataset *d, struct fs_index *ix) {
  bool always = fs_verify_of(node) == FS_VERIFY_ALWAYS;
  fs_err err = (always ? fs_open_index_checked : fs_open_index)(d->local, d->id, ix);
  if (err == 0 && d->index_inode != 0 && (ix->inode != d->index_inode || ix->mtime != d->index_mtime)) {
    fs_index_close(ix); /* it is not the one that was checked, or has changed since */
    err = -EBADMSG;
  }
  if (err == -EBADMSG)
    FS_NOTE(d->local, "/index: the staged index is damaged, or was written to; that on shared storage is used");
  if (err < 0) err = fs_open_index_checked(d->source, d->id, ix);
  if (err < 0 || ix->nparts == d->partitions) return err;
  fs_index_close(ix);
  return -EPROTO;
}

/* Opens the index without a daemon. The manifest says whether this is a whole dataset, and which
   index belongs to it. */
static fs_err fs_open_index_plain(const char *dataset, struct fs_index *ix) {
  struct fs_manifest *m = fs_mem_map(sizeof(*m));
  if (!m) return -ENOMEM;
  fs_err err = fs_manifest_read(dataset, m);
  if (err == 0) err = fs_open_index_checked(dataset, m->dataset_id, ix);
  fs_mem_unmap(m, sizeof(*m));
  return err;
}

static size_t fs_dataset_size(uint64_t nparts) {
  return sizeof(struct fs_dataset) + (size_t)nparts * sizeof(struct fs_part);
}

static struct fs_dataset *fs_dataset_make(uint32_t i, struct fs_mount *m, fs_err *err) {
  const struct fs_node *node = fs_node_attach();
  const struct fs_ctl_dataset *d = fs_ctl_find(node, m->path);
  struct fs_index ix = {0};
  if (node) fs_words_of(node);
  *err = d ? fs_open_index_node(node, d, &ix) : fs_open_index_plain(m->dataset, &ix);
  if (*err < 0) return NULL;
  struct fs_dataset *ds = fs_mem_map(fs_dataset_size(ix.nparts));
  if (!ds) {
    *err = -ENOMEM;
    fs_index_close(&ix);
    return NULL;
  }
  ds->ix = ix;
  ds->mount = i;
  ds->shared = m->dataset;
  ds->verify = fs_verify_of(node);
  ds->work_size = fs_codec_work_size(&ix.codecs, ix.block_size);
  fs_checked_start(ds);
  ds->number = i;
  if (d) {
    ds->number = (uint32_t)(d - node->ctl->dataset);
    ds->placement = node->placement + d->placement;
    ds->local = d->local;
    ds->shared = d->source;
  }
  if (d || (node && node->offline)) ds->node = node;
  return ds;
}

/* Gives an opened dataset the node of a daemon that has been met. Numbers and directories are the
   same as before, unless the daemon had left nothing. If they then differ from what was assumed,
   the dataset stays as it is. */
static void fs_dataset_online(struct fs_dataset *ds, const struct fs_mount *m, const struct fs_node *node) {
  const struct fs_ctl_dataset *d = fs_ctl_find(node, m->path);
  const struct fs_node *was = ds->node;
  if (!was || !was->offline || !d || (uint32_t)(d - node->ctl->dataset) != ds->number) return;
  if (ds->ix.nparts != d->partitions || memcmp(ds->ix.hdr->dataset_id, d->id, sizeof(d->id)) != 0) return;
  if (!ds->placement) ds->local = d->local;
  ds->placement = node->placement + d->placement;
  ds->node = node;
}

void fs_datasets_online(const struct fs_node *node) {
  struct fs_config *c = fs_config();
  for (uint32_t i = 0; i < c->mounts; i++) {
    struct fs_dataset *ds = atomic_load_explicit(&c->mount[i].ds, memory_order_acquire);
    if (ds) fs_dataset_online(ds, &c->mount[i], node);
  }
}

/* Returns what a call below the mount fails with, and tells the user once. */
static fs_err fs_mount_failed(struct fs_mount *m, fs_err err) {
  /* These errors will pass, so the user is not told. */
  if (err == -EMFILE || err == -ENFILE || err == -ENOMEM) return err;
  if (atomic_exchange(&m->told, 1) == 0) {
    if (err == -ENOENT)
      fs_note_no_dataset(m->dataset, "; nothing can be read below ", m->path);
    else
      FS_NOTE(m->dataset, ": cannot use this dataset: ", fs_err_text(err), "; nothing can be read below ", m->path);
  }
  atomic_store(&m->retry_ns, fs_now_ns() + FS_RETRY_NS);
  err = err == -ENOENT || err == -EACCES ? err : -EIO;
  atomic_store(&m->err, err);
  return err;
}

static struct fs_dataset *fs_dataset_open(uint32_t i, fs_err *err) {
  struct fs_config *c = fs_config();
  if (i >= c->names) {
    *err = -ENOENT;
    return NULL;
  }
  struct fs_mount *m = &c->mount[i];
  if (m->same != i) {
    struct fs_dataset *ds = fs_dataset(m->same, err);
    if (ds != NULL) atomic_store(&m->ds, ds);
    return ds;
  }
  *err = atomic_load(&m->err);
  if (*err != 0 && fs_now_ns() < atomic_load(&m->retry_ns)) return NULL;
  struct fs_dataset *mine = fs_dataset_make(i, m, err);
  if (!mine) {
    *err = fs_mount_failed(m, *err);
    return NULL;
  }
  void *ds;
  const struct fs_node *node = mine->node;
  if (!fs_publish_ptr(&m->ds, mine, &ds)) {
    uint64_t nparts = mine->ix.nparts;
    fs_index_close(&mine->ix);
    fs_mem_unmap(mine, fs_dataset_size(nparts));
  }
  /* The daemon was met meanwhile. */
  if (node && node->offline && !fs_node_attach()->offline) fs_datasets_online(fs_node_attach());
  return ds;
}

struct fs_dataset *fs_dataset(uint32_t i, fs_err *err) {
  struct fs_config *c = fs_config();
  void *ds = FS_LIKELY(i < c->names) ? atomic_load_explicit(&c->mount[i].ds, memory_order_acquire) : NULL;
  return FS_LIKELY(ds != NULL) ? ds : fs_dataset_open(i, err);
}

const struct fs_index *fs_mount_index(uint32_t i, fs_err *err) {
  struct fs_dataset *ds = fs_dataset(i, err);
  return ds ? &ds->ix : NULL;
}
