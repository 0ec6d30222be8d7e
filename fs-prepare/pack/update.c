/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pack --update: what the dataset that is updated has of SOURCE already. A file whose size and time
 * are those of the dataset (with --checksum: whose content is) keeps its blocks. The new dataset has
 * the old partitions under their numbers, as hard links. A partition that the old dataset does not
 * use is not taken over: a new partition gets its number, or an empty one does. So what a running
 * job can read by the old index stays for one update. A damaged partition is not taken over either, and
 * its files are packed again. If the old partitions are on the nodes only, this process reads none of
 * them: those that a node has are taken over. Called by the plan and the partitions.
 */
#include <inttypes.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "pack.h"

static void take_options(const struct fs_update *u, struct fs_pack_options *o) {
  const struct fs_manifest *m = &u->old.manifest;
  if (!o->given.codec && fs_pack_codec(o, m->codec) < 0) fs_pack_codec(o, "auto");
  if (!o->given.mount) snprintf(o->mount, sizeof o->mount, "%s", m->mount);
  if (!o->given.block_size) o->block_size = u->old.ix.hdr->block_size;
  if (!o->given.align) o->align = u->old.ix.hdr->align;
}

/* Marks the partitions in which the old dataset has a block. */
static fs_err find_used(struct fs_update *u) {
  const struct fs_index *ix = &u->old.ix;
  struct fs_block b;
  u->taken = calloc(ix->nparts + 1, sizeof *u->taken);
  if (u->taken == NULL) return -ENOMEM;
  for (uint64_t i = 0; i < ix->nentries; i++) {
    const uint64_t n = S_ISREG(ix->entries[i].mode) ? fs_index_block_count(ix, &ix->entries[i]) : 0;
    for (uint64_t k = 0; k < n; k++) {
      fs_err err = fs_index_block(ix, (uint32_t)i, k, &b);
      if (err < 0) return err;
      u->taken[b.partition] = true;
    }
  }
  fs_dataset_forget_index(&u->old);
  return 0;
}

struct parts_look {
  struct fs_update *u;
  struct fs_progress *progress;
  bool read; /* all bytes are compared with the checksum */
  _Atomic fs_err err;
};

/* Returns 0 if a partition is good or cannot be opened, -EBADMSG with `why`, or another error. */
static fs_err check_part(const struct parts_look *l, uint32_t number, int fd, char *why, size_t why_size) {
  const struct fs_part_rec *rec = &l->u->old.ix.parts[number];
  uint64_t xxh3 = 0;
  if (fd < 0 && fd != -ENOENT && fd != -EUCLEAN) return 0; /* fs_update_take says so */
  if (fs_dataset_part_look(&l->u->old, number, fd, why, why_size) < 0) return -EBADMSG;
  if (!l->read) return 0;
  fs_err err = fs_prep_hash(fd, FS_PART_HEADER_SIZE, rec->size, &xxh3);
  if (err == -EINTR || err == -ENOMEM) return err;
  if (err < 0) snprintf(why, why_size, "cannot be read: %s", strerror(-err));
  if (err == 0 && xxh3 != rec->xxh3) snprintf(why, why_size, "damaged: its checksum differs");
  return err < 0 || xxh3 != rec->xxh3 ? -EBADMSG : 0;
}

/* Any thread. */
static void look_at_part(void *ctx, uint64_t number) {
  struct parts_look *l = ctx;
  struct fs_dataset *old = &l->u->old;
  char why[256] = "", name[FS_PART_NAME_SIZE];
  if (!l->u->taken[number] || atomic_load(&l->err) < 0) return;
  const int fd = fs_dataset_part(old, (uint32_t)number);
  const fs_err err = check_part(l, (uint32_t)number, fd, why, sizeof why);
  fs_dataset_part_done(old, (uint32_t)number, fd);
  if (l->read) l->progress->now.bytes += old->ix.parts[number].size;
  if (err == 0) return;
  if (err != -EBADMSG) {
    atomic_store(&l->err, err);
    return;
  }
  fs_say("%s/%s: %s; what SOURCE has of it is packed again", old->path, fs_part_name((uint32_t)number, name), why);
  l->u->taken[number] = false;
  l->u->lost = true;
}

/* Drops the damaged partitions. */
static fs_err look_at_parts(struct fs_update *u, const struct fs_pack_options *o, struct fs_progress *progress) {
  struct parts_look l = {.u = u, .progress = progress, .read = o->checksum};
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < u->old.ix.nparts; i++) bytes += u->taken[i] ? u->old.ix.parts[i].size : 0;
  if (l.read) fs_progress_stage(progress, FS_STAGE_VERIFY, 0, bytes);
  fs_prep_parallel(o->jobs, u->old.ix.nparts, look_at_part, &l);
  if (l.read) fs_progress_stage(progress, FS_STAGE_LIST, 0, 0);
  return atomic_load(&l.err);
}

/* Drops the partitions that no node has. */
static fs_err look_on_nodes(struct fs_update *u, const struct fs_pack_options *o) {
  const uint32_t parts = (uint32_t)u->old.ix.nparts;
  uint32_t lost = 0, used = 0;
  FS_AUTO_FREE bool *held = calloc(parts + 1u, sizeof *held);
  fs_err err = held != NULL ? fs_pack_nodes->held(&u->old, o->local_dir, held) : -ENOMEM;
  for (uint32_t p = 0; p < parts && err == 0; p++) {
    used += u->taken[p];
    lost += u->taken[p] && !held[p];
    u->taken[p] = u->taken[p] && held[p];
  }
  if (err < 0 || lost == 0) return err;
  if (lost == used) {
    fs_say("%s: none of its partitions is on a node of this job; look at --local-dir and the nodes, or pack SOURCE "
           "again with --force",
           u->old.path);
    return -ECONNABORTED;
  }
  u->lost = true;
  fs_say("pack: warning: %s: %u of %u partitions %s on no node of this job; what SOURCE has of %s is packed again",
         u->old.path, lost, used, lost == 1 ? "is" : "are", lost == 1 ? "it" : "them");
  return 0;
}

/* The partitions of an update are where the old ones are. */
static fs_err find_place(struct fs_update *u, const struct fs_pack_options *o) {
  u->on_nodes = fs_dataset_only_nodes(&u->old);
  if (!u->on_nodes && o->nodes_only) {
    fs_say("%s: its partitions are in it; name it as DATASET, without --nodes-only", u->old.path);
    return -EINVAL;
  }
  if (u->on_nodes && !o->nodes_only)
    return fs_dataset_need_parts(&u->old, "update it there, with --nodes-only, or pack SOURCE again with --force");
  if (u->on_nodes && o->checksum)
    return fs_dataset_need_parts(&u->old, "--checksum would read them here; leave it out");
  return 0;
}

fs_err fs_update_open(struct fs_update *u, struct fs_pack_options *o, struct fs_target *t,
                      struct fs_progress *progress) {
  struct stat st;
  fs_err err = fs_dataset_open_checked(&u->old, t->path);
  if (err == 0) err = find_place(u, o);
  if (err < 0) return err;
  take_options(u, o);
  if (o->block_size != u->old.ix.hdr->block_size || o->align != u->old.ix.hdr->align) {
    fs_say("%s: has another --block-size or --align; leave these options out, or pack it again with --force", t->path);
    return -EINVAL;
  }
  err = fs_sys_fstat(u->old.dir, &st);
  if (err == 0) err = find_used(u);
  if (err == 0) err = u->on_nodes ? look_on_nodes(u, o) : look_at_parts(u, o, progress);
  if (err == -EINTR || err == -ECONNABORTED) return err;
  if (err < 0) {
    fs_say("%s: cannot be updated: %s", t->path, err == -EUCLEAN ? "damaged; run fs-prepare verify" : strerror(-err));
    return err;
  }
  t->old_dev = st.st_dev;
  t->old_ino = st.st_ino;
  return 0;
}

void fs_update_hash(const struct fs_update *u, struct fs_xxh3_stream *h) {
  fs_xxh3_update(h, u->old.manifest.dataset_id, sizeof u->old.manifest.dataset_id);
  fs_xxh3_update(h, u->taken, u->old.ix.nparts * sizeof *u->taken);
}

void fs_update_free(struct fs_update *u) {
  free(u->taken);
  free(u->number);
  if (u->old.path != NULL) fs_dataset_close(&u->old);
}

/* ---- which files are kept ---- */

#define FORGET 8u /* parts of SOURCE after which the old index's pages are given back */

struct match {
  struct fs_update *u;
  struct fs_plan *plan;
  uint32_t *entry; /* of the old dataset + 1, for each item; 0: none */
  _Atomic fs_err err;
};

/* Takes the blocks of an entry over. Returns 1, 0 if they do not fit, or a negative errno. */
static int take_blocks(const struct fs_update *u, struct fs_tree *tree, struct fs_item *item, uint32_t entry) {
  const struct fs_index *ix = &u->old.ix;
  const struct fs_entry *e = fs_index_entry(ix, entry);
  const uint64_t n = fs_index_block_count(ix, e);
  struct fs_block b;
  if (n == 0) return 0;
  fs_err err = fs_item_room(&tree->blocks, item);
  if (err < 0) return err;
  for (uint64_t i = 0; i < n; i++) {
    bool good = fs_index_block(ix, entry, i, &b) == 0;
    if (!good || !u->taken[b.partition] ||
        ((ix->parts[b.partition].flags & FS_PART_REPLICATE) != 0) != item->replicate) {
      fs_item_drop_blocks(&tree->blocks, item);
      return 0;
    }
    fs_item_add_block(item, &(struct fs_built_block){b.offset, b.xxh3, b.stored_len, b.partition});
  }
  item->codec = (uint8_t)FS_NAME_CODEC(e->name);
  fs_item_set_flags(item, FS_NAME_FLAGS(e->name));
  item->kept = true;
  return 1;
}

struct open_item {
  const struct fs_tree *tree;
  const struct fs_item *item;
  int fd;
};

static fs_err read_item(void *ctx, void *buf, size_t n, uint64_t at) {
  const struct open_item *o = ctx;
  return fs_item_read(o->tree, o->item, o->fd, buf, n, at);
}

int fs_item_equal(const struct fs_tree *tree, const struct fs_item *item, struct fs_dataset *ds, uint32_t entry) {
  FS_AUTO_CLOSE int fd = fs_item_open(tree, item);
  if (fd < 0) return fd;
  int same = fs_content_equal(ds, entry, read_item, &(struct open_item){tree, item, fd});
  fs_err err = fs_item_check(tree, fd, item);
  return err < 0 ? err : same;
}

/* Compares an item with an entry of the same size. What is damaged in the dataset is packed again,
   and so is what can be read only once. Returns 1 if equal, 0, or a negative errno. */
static int same_content(struct match *m, const struct fs_item *item, uint32_t entry) {
  if (fs_item_stream(m->plan->tree, item) != NULL) return 0;
  int same = fs_item_equal(m->plan->tree, item, &m->u->old, entry);
  return same == -EBADMSG ? 0 : same;
}

/* With --checksum: forgets the entries of other contents. Any thread. */
static void compare_one(void *ctx, uint64_t i) {
  struct match *m = ctx;
  if (m->entry[i] == 0 || atomic_load(&m->err) < 0) return;
  int same = fs_prep_signal != 0 ? -EINTR : same_content(m, &m->plan->tree->items[i], m->entry[i] - 1);
  if (same < 0 && same != -EINTR && same != -ENOMEM && m->plan->opts->keep_going) same = 0; /* the pipeline says why */
  if (same == 0) m->entry[i] = 0;
  if (same >= 0 || atomic_exchange(&m->err, same) < 0 || same == -EINTR) return;
  fs_item_say(m->plan, &m->plan->tree->items[i], same);
}

/* Finds the entry of each item's path that may have its content. Of hard links, any name will do. */
static void find_entries(struct match *m) {
  const struct fs_tree *tree = m->plan->tree;
  const struct fs_index *ix = &m->u->old.ix;
  const bool checksum = m->plan->opts->checksum;
  for (size_t i = 0; i < tree->n; i++) {
    if (i % (tree->n / FORGET + 1) == 0) fs_dataset_forget_index(&m->u->old);
    if (!S_ISREG(tree->items[i].mode)) continue;
    const int64_t n = fs_index_lookup(ix, tree->items[i].path, strlen(tree->items[i].path));
    if (n < 0 || !S_ISREG(ix->entries[n].mode)) continue;
    m->u->found++;
    const size_t first = tree->items[i].alias ? tree->items[i].same : i;
    const struct fs_item *item = &tree->items[first];
    const struct fs_entry *e = &ix->entries[n];
    const bool same_time = item->mtime_sec == e->mtime_sec && item->mtime_nsec == e->mtime_nsec;
    if (m->entry[first] == 0 && item->size != 0 && e->size == item->size && (checksum || same_time))
      m->entry[first] = (uint32_t)n + 1;
  }
}

/* Refuses a SOURCE that has no file of the dataset: it is probably another one. */
static fs_err check_found(const struct fs_update *u) {
  const uint64_t files = u->old.manifest.files;
  if (u->found != 0 || files == 0) return 0;
  fs_say("%s: SOURCE has none of its %" PRIu64 " file%s; name the right SOURCE, or replace the dataset by pack --force",
         u->old.path, files, fs_plural(files));
  return -EINVAL;
}

static fs_err match_all(struct match *m) {
  struct fs_tree *tree = m->plan->tree;
  find_entries(m);
  fs_err found = check_found(m->u);
  if (found < 0) return found;
  if (m->plan->opts->checksum) fs_prep_parallel(m->plan->opts->jobs, tree->n, compare_one, m);
  fs_err err = atomic_load(&m->err);
  for (size_t i = 0; i < tree->n && err == 0; i++) {
    if (i % (tree->n / FORGET + 1) == 0) fs_dataset_forget_index(&m->u->old);
    if (m->entry[i] == 0) continue;
    int taken = take_blocks(m->u, tree, &tree->items[i], m->entry[i] - 1);
    if (taken < 0 && taken != -ENOMEM && taken != -EINTR)
      fs_say("%s: cannot be updated: %s", m->u->old.path, strerror(-taken));
    if (taken < 0) return taken;
    if (taken == 0) continue;
    m->u->kept++;
    m->u->kept_bytes += tree->items[i].size;
  }
  fs_dataset_forget_index(&m->u->old);
  return err;
}

fs_err fs_update_match(struct fs_update *u, struct fs_plan *plan) {
  FS_AUTO_FREE uint32_t *entry = calloc(plan->tree->n, sizeof *entry);
  struct match m = {.u = u, .plan = plan, .entry = entry};
  return entry != NULL ? match_all(&m) : -ENOMEM;
}

fs_err fs_update_codecs(const struct fs_update *u, struct fs_plan *plan) {
  const struct fs_codec_set *old = &u->old.ix.codecs;
  for (uint32_t i = FS_CODEC_ROWS_MIN; i < old->n; i++) {
    const struct fs_codec_rec *r = &old->rows[i];
    const struct fs_encoding e = {.family = r->family,
                                  .element = r->element,
                                  .level = FS_LEVEL_NONE,
                                  .dict = r->dict_len != 0 ? old->strings + r->dict : NULL,
                                  .dict_len = r->dict_len};
    plan->codecs.row[plan->codecs.n++] = e;
  }
  return 0;
}

/* ---- partitions ---- */

fs_err fs_update_number(struct fs_update *u, const struct fs_plan *plan) {
  const uint32_t n = plan->nparts + plan->nreplicated;
  uint32_t k = 0;
  u->total = (uint32_t)u->old.ix.nparts;
  u->number = calloc((size_t)n + 1, sizeof *u->number);
  if (u->number == NULL) return -ENOMEM;
  for (uint32_t i = 0; i < u->total && k < n; i++)
    if (!u->taken[i]) u->number[k++] = i;
  while (k < n) u->number[k++] = u->total++;
  if (u->total <= FS_MAX_PARTITIONS) return 0;
  fs_say("%s: would get more than %u partitions; pack it again with --force", u->old.path, FS_MAX_PARTITIONS);
  return -EFBIG;
}

static fs_err copy(int from, int to, uint64_t size) {
  if (ioctl(to, FICLONE, from) < 0) {
    FS_AUTO_FREE uint8_t *piece = malloc(1u << 20);
    if (piece == NULL) return -ENOMEM;
    for (uint64_t at = 0; at < size; at += 1u << 20) {
      const size_t n = (size_t)FS_MIN(size - at, 1ull << 20);
      if (fs_prep_signal != 0) return -EINTR;
      fs_err err = fs_pread_full(from, piece, n, at);
      if (err == 0) err = fs_pwrite_full(to, piece, n, at);
      if (err < 0) return err;
    }
  }
  return fsync(to) < 0 ? -errno : 0;
}

fs_err fs_update_take(struct fs_update *u, int dir, uint32_t part) {
  char name[FS_PART_NAME_SIZE];
  struct stat st;
  fs_part_name(part, name);
  int from = fs_dataset_part(&u->old, part);
  fs_err err = from < 0 ? from : fs_sys_fstat(from, &st);
  if (err == 0 && (uint64_t)st.st_size != u->old.ix.parts[part].size) err = -EUCLEAN;
  if (err < 0) {
    fs_say("%s/%s: %s; run fs-prepare verify", u->old.path, name,
           err == -EUCLEAN ? "is no partition of this dataset" : strerror(-err));
    err = -ECONNABORTED; /* it is said */
  } else {
    unlinkat(dir, name, 0); /* an interrupted run has made it */
    if (linkat(u->old.dir, name, dir, name, 0) < 0) {
      FS_AUTO_CLOSE int to = fs_sys_openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      err = to < 0 ? to : copy(from, to, (uint64_t)st.st_size);
    }
  }
  fs_dataset_part_done(&u->old, part, from);
  return err;
}
