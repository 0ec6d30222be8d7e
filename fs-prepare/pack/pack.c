/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-prepare pack: runs the stages of pack.h and always cleans up after them. Signals only set a
 * flag; the stages check it and return here. Main thread.
 */
#include "pack.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kinds.h"
#include "store.h"

struct pack {
  struct fs_pack_options o;
  struct fs_tree tree;
  struct fs_plan plan;
  struct fs_kinds kinds;
  struct fs_target target;
  struct fs_update update;
  struct fs_journal journal;
  struct fs_store store;
  struct fs_progress progress;
  struct fs_manifest manifest; /* filled from the new index */
  uint64_t resumed;            /* bytes that an interrupted run had packed */
  uint64_t duplicates, duplicate_bytes;
};

/* Counts a file when its last chunk came. */
static void count_progress(struct pack *p, const struct fs_chunk *c) {
  const struct fs_item *item = &p->tree.items[c->item];
  struct fs_counts *now = &p->progress.now;
  now->bytes += c->plain_len;
  now->stored = p->store.stored_bytes;
  now->files += c->offset + c->plain_len == item->size;
  now->left_out = p->tree.left_out.n;
}

/* Stores a chunk, unless its file is left out. */
static fs_err take_chunk(struct pack *p, struct fs_chunk *c) {
  c->partition = FS_NOWHERE;
  if (c->err < 0) return fs_plan_leave_out(&p->plan, c->item, c->err);
  if (p->tree.items[c->item].left_out) return 0;
  fs_err err = fs_store_chunk(&p->store, c);
  if (err < 0 && err != -EINTR) fs_target_say(&p->target, "cannot write a partition", err);
  return err;
}

static fs_err take_batch(struct pack *p, struct fs_batch *b) {
  for (uint32_t i = 0; i < b->n; i++) {
    struct fs_chunk *c = &b->chunk[i];
    if (b->err < 0 && i + 1 == b->n) {
      fs_item_say(&p->plan, &p->tree.items[c->item], b->err);
      return b->err;
    }
    fs_err err = take_chunk(p, c);
    if (err < 0) return err;
    err = fs_journal_note(&p->journal, c, p->tree.items[c->item].left_out ? 0 : p->store.plain_xxh3);
    if (err < 0) return err;
    count_progress(p, c);
  }
  return 0;
}

/* Returns the bytes that an interrupted run has packed. Before the pipeline starts. */
static uint64_t resumed_bytes(const struct pack *p) {
  uint64_t bytes = p->journal.offset;
  for (uint64_t i = 0; i < p->journal.next; i++) bytes += p->tree.items[p->plan.order[i]].size;
  return bytes;
}

/* Writes a checkpoint, if it is time or `now`. */
static fs_err checkpoint(struct pack *p, bool now) {
  fs_err err = (now ? fs_journal_checkpoint : fs_journal_tick)(&p->journal, &p->store);
  if (err < 0 && err != -EINTR && err != -ECONNABORTED) fs_target_say(&p->target, "cannot write a checkpoint", err);
  return err;
}

static fs_err pack_order(struct pack *p, uint64_t next, uint64_t offset) {
  struct fs_batch *batch;
  struct fs_pipeline *pipeline = fs_pipeline_start(&p->plan, next, offset);
  if (pipeline == NULL) {
    fs_say("no thread can be started; lower --jobs or raise the limits (ulimit -u, -v)");
    return -EAGAIN;
  }
  fs_err err = 0;
  while (err == 0) {
    int got = fs_pipeline_next(pipeline, &batch);
    if (got == -ENODATA) break;
    if (got < 0) err = got;
    if (got > 0) {
      err = take_batch(p, batch);
      if (err == 0 && fs_pack_nodes != NULL) err = fs_pack_nodes->stored(batch);
      fs_pipeline_done(pipeline);
    }
    if (err == 0) err = checkpoint(p, false);
    if (fs_prep_signal != 0) err = -EINTR;
  }
  /* After an interrupt, nothing waits for a reader that hangs. */
  if (err != -EINTR) fs_pipeline_stop(pipeline);
  return err;
}

static fs_err pack_contents(struct pack *p) {
  p->resumed = resumed_bytes(p);
  fs_progress_stage(&p->progress, FS_STAGE_PACK, p->plan.norder, p->plan.pack_bytes);
  fs_progress_resume(&p->progress, p->journal.next, p->resumed);
  p->progress.now.stored = p->store.stored_bytes;
  fs_err err = pack_order(p, p->journal.next, p->journal.offset);
  if (err == 0 && p->journal.any) err = checkpoint(p, true);
  p->journal.ended = true;
  fs_ssize again = 0;
  while (err == 0 && (again = fs_plan_again(&p->plan)) > 0) err = pack_order(p, 0, 0);
  return err == 0 && again < 0 ? (fs_err)again : err;
}

/* The entries of the index, for fs_builder_entries. */
struct entries {
  const struct fs_tree *tree;
  uint32_t *number; /* of the item that becomes entry i; NULL: i itself */
  size_t n;
};

static void entry_of(void *ctx, uint64_t i, struct fs_build_file *f) {
  const struct entries *e = ctx;
  const struct fs_item *item = &e->tree->items[e->number != NULL ? e->number[i] : i], *content = item;
  const bool file = S_ISREG(item->mode);
  while (file && content->alias) content = &e->tree->items[content->same];
  *f = (struct fs_build_file){.path = item->path,
                              .mode = item->mode,
                              .mtime_sec = item->mtime_sec,
                              .mtime_nsec = item->mtime_nsec,
                              .size = item->size,
                              .target = S_ISLNK(item->mode) ? item->target : NULL,
                              .codec = file ? content->codec : 0,
                              .flags = file ? fs_item_flags(content) : 0,
                              .blocks = file ? fs_item_block(content, 0) : NULL,
                              .nblocks = file ? fs_item_nblocks(content) : 0,
                              .inode_group = item->group};
}

/* Leaves out the items that are left out. */
static fs_err list_entries(const struct pack *p, struct entries *e) {
  *e = (struct entries){.tree = &p->tree, .n = p->tree.n};
  if (p->plan.left_out == 0) return 0;
  e->number = malloc(p->tree.n * sizeof *e->number);
  if (e->number == NULL) return -ENOMEM;
  e->n = 0;
  for (size_t i = 0; i < p->tree.n; i++)
    if (!p->tree.items[i].left_out) e->number[e->n++] = (uint32_t)i;
  return 0;
}

static fs_err fill_builder(struct pack *p, struct fs_builder *b) {
  fs_err err = 0;
  for (uint32_t i = FS_CODEC_ROWS_MIN; i < p->plan.codecs.n && err == 0; i++) {
    const struct fs_encoding *e = &p->plan.codecs.row[i];
    int row = fs_builder_codec(b, &(struct fs_build_codec){e->family, e->element, e->dict, e->dict_len});
    err = row < 0 ? row : 0;
  }
  for (uint32_t i = 0; i < p->store.parts.n && err == 0; i++) err = fs_builder_part(b, &p->store.parts.out[i].rec);
  return err;
}

static fs_err put_index(void *ctx, uint64_t at, const void *data, size_t n) {
  return fs_prep_signal != 0 ? -EINTR : fs_pwrite_full(*(const int *)ctx, data, n, at);
}

/* Writes the index, but does not sync it. */
static fs_err make_index(struct pack *p, int fd, struct fs_index_header *h) {
  char why[512] = "";
  struct entries entries;
  struct fs_builder *b = fs_builder_new(p->o.block_size, p->o.align);
  if (b == NULL) return -ENOMEM;
  fs_err err = list_entries(p, &entries);
  if (err == 0) err = fill_builder(p, b);
  if (err == 0) {
    fs_builder_entries(b, entries.n, entry_of, &entries);
    err = fs_builder_write(b, put_index, &fd, h, why, sizeof why);
  }
  if (err == -EINVAL) fs_say("the index cannot be made: %s", why[0] != '\0' ? why : strerror(-err));
  if (err == -ENOMEM) fs_say("out of memory while making the index");
  if (err < 0 && err != -EINVAL && err != -ENOMEM && err != -EINTR)
    fs_target_say(&p->target, "the index cannot be written", err);
  free(entries.number);
  fs_builder_free(b);
  return err;
}

static void fill_manifest(struct pack *p, const struct fs_index_header *h, uint64_t xxh3) {
  struct fs_manifest *m = &p->manifest;
  *m = (struct fs_manifest){.version = FS_FORMAT_VERSION,
                            .block_size = h->block_size,
                            .partitions = p->store.parts.n,
                            .files = h->files,
                            .dirs = h->dirs,
                            .symlinks = h->symlinks,
                            .plain_bytes = h->plain_bytes,
                            .stored_bytes = h->stored_bytes,
                            .index_size = h->file_size,
                            .index_xxh3 = xxh3};
  memcpy(m->dataset_id, h->dataset_id, sizeof m->dataset_id);
  snprintf(m->mount, sizeof m->mount, "%s", p->o.mount);
  snprintf(m->codec, sizeof m->codec, "%s", p->o.codec_text);
}

/* Ends the partitions, then the index, then writes the manifest. Each is synced before the next
   one. */
static fs_err write_all(struct pack *p, int index) {
  const size_t room = 64 << 10;
  FS_AUTO_FREE char *text = malloc(room);
  if (text == NULL) return -ENOMEM;
  fs_progress_stage(&p->progress, FS_STAGE_SYNC, 0, 0);
  fs_ssize n = fs_manifest_format(&p->manifest, text, room);
  fs_err err = n < 0 ? (fs_err)n : fs_parts_seal(&p->store.parts, p->manifest.dataset_id);
  if (err == 0 && fs_pack_nodes != NULL) err = fs_pack_nodes->seal(&p->store.parts, p->manifest.dataset_id);
  if (err == 0 && fsync(index) < 0) err = -errno;
  if (err == 0) err = fs_target_write(&p->target, "manifest", text, (uint64_t)n);
  if (err < 0 && err != -EINTR && err != -ECONNABORTED) fs_target_say(&p->target, "cannot be written", err);
  return err;
}

/* Returns true if an update has changed nothing. A damaged partition may have got the same bytes again. */
static bool is_as_before(const struct pack *p) {
  const struct fs_manifest *m = &p->manifest, *old = &p->update.old.manifest;
  return p->plan.update != NULL && !p->update.lost &&
         memcmp(m->dataset_id, old->dataset_id, sizeof m->dataset_id) == 0 && strcmp(m->mount, old->mount) == 0 &&
         strcmp(m->codec, old->codec) == 0;
}

/* Counts the files whose content is stored already, without hard links. */
static void count_duplicates(struct pack *p) {
  const struct fs_tree *tree = &p->tree;
  for (size_t i = 0; i < tree->n; i++) {
    const struct fs_item *item = &tree->items[i];
    if (!item->alias || item->left_out || !S_ISREG(item->mode)) continue;
    if (item->group != 0 && item->group == tree->items[item->same].group) continue;
    p->duplicates++;
    p->duplicate_bytes += item->size;
  }
}

static fs_err write_dataset(struct pack *p) {
  struct fs_index_header h = {0};
  uint64_t xxh3 = 0;
  fs_err err = fs_parts_finish(&p->store.parts);
  if (err == 0 && fs_pack_nodes != NULL) err = fs_pack_nodes->finish(&p->store.parts);
  if (err < 0) {
    if (err != -EINTR && err != -ECONNABORTED) fs_target_say(&p->target, "cannot write a partition", err);
    return err;
  }
  fs_progress_stage(&p->progress, FS_STAGE_INDEX, 0, 0);
  fs_store_forget(&p->store);
  fs_plan_free(&p->plan);
  FS_AUTO_CLOSE int index = fs_target_file(&p->target, "index");
  if (index < 0) return index;
  err = fs_block_file_sync(&p->tree.blocks);
  if (err < 0) fs_target_say(&p->target, "cannot be written", err);
  if (err == 0) err = make_index(p, index, &h);
  fs_kinds_count(&p->kinds, &p->tree);
  count_duplicates(p);
  fs_tree_forget(&p->tree); /* the nodes map the index */
  if (err == 0) err = fs_target_hash(&p->target, index, h.file_size, &xxh3);
  if (err < 0) return err;
  fill_manifest(p, &h, xxh3);
  err = write_all(p, index);
  if (err == 0 && fs_prep_signal != 0) err = -EINTR;
  if (err == 0 && is_as_before(p)) return 0; /* the dataset stays */
  if (err == 0 && fs_pack_nodes != NULL)
    err = fs_target_recheck(&p->target); /* no later run goes on with staged copies */
  if (err == 0 && fs_pack_nodes != NULL) err = fs_pack_nodes->adopt(&p->target);
  return err < 0 ? err : fs_target_commit(&p->target);
}

static void say_once(const struct pack *p) {
  const uint64_t links = p->plan.links, chunks = p->store.shared_chunks;
  char size[32];
  if (p->duplicates == 0 && links == 0 && chunks == 0) return;
  printf("  stored once: %" PRIu64 " duplicate%s (%s), %" PRIu64 " further hard link%s", p->duplicates,
         fs_plural(p->duplicates), fs_format_size(p->duplicate_bytes, size, sizeof size), links, fs_plural(links));
  if (chunks != 0)
    printf(", %" PRIu64 " equal piece%s of large files (%s)", chunks, fs_plural(chunks),
           fs_format_size(p->store.shared_bytes, size, sizeof size));
  printf("\n");
}

static void say_partitions(const struct fs_plan *plan, const struct fs_parts *parts) {
  char least[32], most[32];
  uint64_t min = UINT64_MAX, max = 0;
  if (parts->nordinary == 0) return;
  for (uint32_t k = 0; k < parts->nordinary; k++) {
    const uint64_t size = parts->out[fs_parts_new(plan, k)].size;
    min = FS_MIN(min, size);
    max = FS_MAX(max, size);
  }
  printf("  %" PRIu32 " %spartition%s of %s", parts->nordinary, plan->update != NULL ? "new " : "",
         fs_plural(parts->nordinary), fs_format_size(min, least, sizeof least));
  if (strcmp(least, fs_format_size(max, most, sizeof most)) != 0) printf(" to %s", most);
  if (parts->nnew > parts->nordinary) printf(", and %" PRIu32 " to be replicated", parts->nnew - parts->nordinary);
  printf("\n");
}

/* Returns how many bytes of DATASET's partitions no file uses, as `info` says it. */
static uint64_t unused_bytes(const char *path) {
  struct fs_dataset ds;
  uint64_t unused = 0, shared;
  if (fs_dataset_open(&ds, path) < 0) return 0;
  fs_dataset_waste(&ds, &unused, &shared);
  fs_dataset_close(&ds);
  return unused;
}

/* Says what an update has kept, and how much of the partitions no file uses. */
static void say_update(const struct pack *p) {
  const struct fs_update *u = &p->update;
  char kept[32], packed[32], unused[32];
  uint64_t all = 0;
  if (p->plan.update == NULL) return;
  const uint64_t bytes = unused_bytes(p->target.path);
  for (uint32_t i = 0; i < p->store.parts.n; i++) all += p->store.parts.out[i].rec.size - FS_PART_HEADER_SIZE;
  const uint64_t removed = u->old.manifest.files - u->found;
  printf("  kept %" PRIu64 " file%s (%s), packed %s, removed %" PRIu64 " file%s\n", u->kept, fs_plural(u->kept),
         fs_format_size(u->kept_bytes, kept, sizeof kept), fs_format_size(p->plan.pack_bytes, packed, sizeof packed),
         removed, fs_plural(removed));
  printf("  no file uses %s of the partitions", fs_format_size(bytes, unused, sizeof unused));
  printf("%s\n", bytes > all / 2 ? "; pack --force drops them" : "");
}

static void summary(struct pack *p) {
  const struct fs_manifest *m = &p->manifest;
  char files[32], dirs[32], links[32], plain[32], stored[32];
  FS_AUTO_FREE char *path = fs_prep_name(p->o.dataset);
  FS_AUTO_FREE char *mount = fs_prep_name(p->o.mount);
  double seconds = (double)(fs_now_ns() - p->progress.start_ns) / 1e9;
  printf("%s: %s, %s, %s, for %s\n", path, fs_format_count(m->files, "file", files, sizeof files),
         fs_format_count(m->dirs, "directory", dirs, sizeof dirs),
         fs_format_count(m->symlinks, "symlink", links, sizeof links), mount);
  printf("  plain %s, stored %s: %.2f times smaller\n", fs_format_size(m->plain_bytes, plain, sizeof plain),
         fs_format_size(m->stored_bytes, stored, sizeof stored), fs_times_smaller(m->plain_bytes, m->stored_bytes));
  say_once(p);
  if (p->tree.replaced != 0 || p->tree.absolute != 0)
    printf("  archives: %" PRIu64 " member%s replaced by later ones of the same name, %" PRIu64
           " name%s without the leading '/'\n",
           p->tree.replaced, fs_plural(p->tree.replaced), p->tree.absolute, fs_plural(p->tree.absolute));
  say_update(p);
  say_partitions(&p->plan, &p->store.parts);
  fs_kinds_print(&p->kinds, &p->plan);
  const uint64_t old = p->resumed + p->update.kept_bytes;
  printf("  %.1f s%s, %.1f MB/s\n", seconds, p->resumed != 0 ? " after it was resumed" : "",
         seconds > 0 ? (double)(m->plain_bytes - FS_MIN(old, m->plain_bytes)) / 1e6 / seconds : 0.0);
}

/* Records the directory that is being written: the walk must not enter it. */
static fs_err note_target(struct pack *p) {
  struct stat st;
  fs_err err = fs_sys_fstat(p->target.temp_fd, &st);
  if (err < 0) return err;
  p->tree.target_dev = st.st_dev;
  p->tree.target_ino = st.st_ino;
  return 0;
}

/* Called by the thread of the progress if a signal came and this thread hangs. */
static void end_at_once(void *ctx) {
  const struct pack *p = ctx;
  if (p->target.temp[0] != '\0')
    fs_say("interrupted; %s stays in %s: the same command goes on from there, or removes it", p->target.temp,
           p->target.parent);
  else
    fs_say("interrupted; nothing is left behind");
  _exit(128 + fs_prep_signal);
}

static void say_resumed(struct pack *p) {
  char done[32], all[32];
  fs_say("resuming: %s of %s are packed already", fs_format_size(resumed_bytes(p), done, sizeof done),
         fs_format_size(p->plan.pack_bytes, all, sizeof all));
}

/* Opens the store of an interrupted run. Returns -EBADMSG if it must begin anew. */
static fs_err resume_store(struct pack *p) {
  fs_err err = fs_store_open(&p->store, &p->plan, p->target.temp_fd, true);
  if (err == 0) err = fs_journal_restore(&p->journal, &p->store);
  if (err == 0) say_resumed(p);
  if (err != -EBADMSG && err != -ENOENT && err != -ENODATA) return err;
  if (err != -ENODATA) fs_say("%s: what an interrupted pack has left is damaged; this one begins anew", p->target.path);
  fs_store_free(&p->store);
  err = fs_target_renew(&p->target);
  if (err == 0) err = fs_journal_begin(&p->journal, p->target.journal_fd);
  return err < 0 ? err : -EBADMSG;
}

static fs_err new_store(struct pack *p) {
  fs_err err = fs_store_open(&p->store, &p->plan, p->target.temp_fd, false);
  return err == 0 && fs_pack_nodes != NULL ? fs_pack_nodes->open(NULL) : err;
}

static fs_err open_store(struct pack *p) {
  fs_err err = fs_journal_open(&p->journal, &p->plan, &p->target);
  if (err == 0) err = p->target.adopted ? resume_store(p) : -EBADMSG;
  if (err == -EBADMSG) err = new_store(p);
  if (err < 0 && err != -EINTR && err != -ECONNABORTED) fs_target_say(&p->target, "cannot create the partitions", err);
  return err;
}

/* Opens the dataset that is to be updated. If there is none, everything is packed. */
static fs_err open_update(struct pack *p) {
  char manifest[PATH_MAX + 16];
  snprintf(manifest, sizeof manifest, "%s/manifest", p->target.path);
  if (!p->o.update) return 0;
  if (access(manifest, F_OK) < 0) {
    fs_say("pack: warning: %s: there is no dataset so far; all of SOURCE is packed", p->target.path);
    return 0;
  }
  return fs_update_open(&p->update, &p->o, &p->target, &p->progress);
}

static fs_err run(struct pack *p) {
  fs_err err = fs_sources_open(&p->o, &p->tree);
  if (err == 0) err = fs_target_check(&p->target, &p->o);
  if (err == 0) err = open_update(p);
  if (err == 0) err = fs_target_create(&p->target, !p->o.restart);
  if (err == 0) err = note_target(p);
  if (err == 0) err = fs_sources_collect(&p->o, &p->tree);
  if (err < 0) return err;
  err = fs_block_file_open(&p->tree, p->target.temp_fd, p->o.block_size);
  if (err < 0) {
    fs_target_say(&p->target, "cannot be written", err);
    return err;
  }
  fs_progress_stage(&p->progress, FS_STAGE_COMPARE, 0, 0);
  err = fs_plan_make(&p->plan, &p->o, &p->tree, p->update.old.path != NULL ? &p->update : NULL);
  if (err == 0) err = fs_plan_codecs(&p->plan);
  if (err == 0) err = fs_kinds_group(&p->kinds, &p->tree);
  if (err == 0 && p->o.codec == FS_CHOOSE_AUTO) err = fs_kinds_choose(&p->kinds, &p->plan);
  if (err == -ENOMEM) fs_say("out of memory while planning");
  malloc_trim(0);
  p->plan.seed = fs_journal_seed(&p->target);
  if (err == 0 && fs_pack_nodes != NULL) err = fs_pack_nodes->begin(&p->plan, &p->target);
  if (err == 0) err = open_store(p);
  if (err == 0) err = pack_contents(p);
  return err < 0 ? err : write_dataset(p);
}

/* Ends a run that failed. What has a checkpoint is kept, unless SOURCE or the updated dataset has changed. */
static void give_up(struct pack *p, fs_err err) {
  const bool keep = p->target.temp[0] != '\0' && err != -ESTALE && (p->journal.any || p->target.adopted);
  if (err < 0 && fs_pack_nodes != NULL) fs_pack_nodes->leave(keep);
  if (!keep) fs_target_discard(&p->target);
  fs_progress_stop(&p->progress, err == 0); /* until here it ends a process that hangs */
  if (err < 0 && fs_prep_signal != 0 && !keep) fs_say("interrupted; nothing is left behind");
  if (err < 0 && keep) fs_target_keep(&p->target, p->journal.any);
  if (err < 0 && fs_prep_signal != 0) _exit(128 + fs_prep_signal);
}

int fs_prep_pack(int argc, char **argv) {
  struct pack *p = calloc(1, sizeof *p);
  if (p == NULL) return FS_EXIT_FAILED;
  if (fs_pack_options_parse(&p->o, argc, argv) < 0) {
    fs_pack_options_free(&p->o);
    free(p);
    return FS_EXIT_USAGE;
  }
  if (p->o.local_dir != NULL && fs_pack_nodes == NULL) return fs_pack_by_launch(&p->o, argc, argv);
  p->target = (struct fs_target){.parent_fd = -1, .temp_fd = -1, .journal_fd = -1};
  p->tree.progress = &p->progress;
  p->progress.hangs = end_at_once;
  p->progress.ctx = p;
  fs_prep_catch_signals();
  fs_err err = fs_progress_start(&p->progress, p->o.json_progress);
  if (err == 0) err = fs_left_out_check(&p->o);
  if (err == 0) err = run(p);
  fs_parts_close(&p->store.parts); /* they may use all descriptors */
  fs_block_file_close(&p->tree.blocks);
  give_up(p, err);
  if (err == 0) summary(p);
  bool all = p->tree.left_out.n == 0;
  if (err == 0 && p->o.keep_going) fs_left_out_say(&p->tree.left_out);
  if (err == 0 || !all) {
    const fs_err written = fs_left_out_write(&p->tree.left_out, &p->o);
    if (err == 0) err = written;
  }
  fs_store_free(&p->store);
  fs_journal_free(&p->journal);
  fs_plan_codecs_free(&p->plan);
  fs_update_free(&p->update);
  fs_plan_free(&p->plan);
  fs_kinds_free(&p->kinds);
  fs_tree_free(&p->tree);
  fs_pack_options_free(&p->o);
  if (p->target.parent_fd >= 0) close(p->target.parent_fd);
  free(p);
  return fs_prep_finish(err < 0 ? FS_EXIT_FAILED : all ? FS_EXIT_OK : FS_EXIT_LEFT_OUT);
}
