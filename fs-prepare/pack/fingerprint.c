/* SPDX-License-Identifier: BSD-3-Clause */
/* What a journal is for: hashes of the options and of SOURCE's items with all that the plan has decided about them.
   Called by the journal, in pack's main thread. */
#include <inttypes.h>
#include <string.h>

#include "pack.h"

static uint64_t hash_options(const struct fs_plan *plan) {
  const struct fs_pack_options *o = plan->opts;
  char text[512];
  int n =
      snprintf(text, sizeof text, "%s %s %d %" PRIu64 " %" PRIu64 " %u %u %d %d %d %u %d %d", FS_VERSION, o->codec_text,
               o->level, o->decode_rate, o->partitions, o->block_size, o->align, (int)o->order, (int)o->dereference,
               o->checksum, fs_pack_nodes != NULL ? fs_pack_nodes->nodes : 0, o->nodes_only, plan->update != NULL);
  return fs_xxh3(text, (size_t)n);
}

static void hash_item(struct fs_xxh3_stream *h, const struct fs_item *item) {
  const uint64_t numbers[] = {item->size,
                              S_ISREG(item->mode) ? item->ino : 0,
                              (uint64_t)item->mtime_sec,
                              item->mtime_nsec,
                              item->mode,
                              item->replicate,
                              item->followed,
                              item->alias ? item->same + 1 : 0,
                              item->group,
                              item->kept,
                              item->source};
  fs_xxh3_update(h, item->path, strlen(item->path) + 1);
  if (S_ISLNK(item->mode)) fs_xxh3_update(h, item->target, strlen(item->target) + 1);
  fs_xxh3_update(h, numbers, sizeof numbers);
}

static void hash_archive(struct fs_xxh3_stream *h, const struct fs_source *src) {
  if (src->kind == FS_SOURCE_DIR) return;
  const uint64_t numbers[] = {(uint64_t)src->st.st_size, (uint64_t)src->st.st_mtim.tv_sec,
                              (uint64_t)src->st.st_mtim.tv_nsec};
  fs_xxh3_update(h, numbers, sizeof numbers);
}

/* What is encoded how, and in which order. What is read for this may fail in one run and not in the
   next. */
static void hash_plan(struct fs_xxh3_stream *h, const struct fs_plan *plan) {
  const struct fs_pack_codecs *c = &plan->codecs;
  for (uint32_t i = 0; i < c->n; i++) {
    const struct fs_encoding *e = &c->row[i];
    const uint64_t numbers[] = {e->family, e->element, (uint64_t)e->level, e->dict_len};
    fs_xxh3_update(h, numbers, sizeof numbers);
    if (e->dict_len != 0) fs_xxh3_update(h, e->dict, e->dict_len);
  }
  fs_xxh3_update(h, c->of_kind, sizeof c->of_kind);
  for (uint64_t i = 0; i < plan->tree->n; i++) fs_xxh3_update(h, &plan->tree->items[i].kind, 1);
  fs_xxh3_update(h, plan->order, plan->norder * sizeof *plan->order);
}

fs_err fs_journal_fingerprint(struct fs_journal *j) {
  struct fs_xxh3_stream *h = fs_xxh3_new();
  if (h == NULL) return -ENOMEM;
  if (j->plan->update != NULL) fs_update_hash(j->plan->update, h);
  for (size_t i = 0; i < j->plan->tree->n; i++) hash_item(h, &j->plan->tree->items[i]);
  for (uint32_t i = 0; i < j->plan->tree->nsources; i++) hash_archive(h, &j->plan->tree->sources[i]);
  hash_plan(h, j->plan);
  j->source = fs_xxh3_digest(h);
  j->options = hash_options(j->plan);
  fs_xxh3_free(h);
  return 0;
}
