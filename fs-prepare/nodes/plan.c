/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node takes the lead's plan (FS_NODES_PLAN): opens the SOURCEs, and starts its owner and its worker.
 * Main thread.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nodes.h"

#define OTHER_FILES 1024ull /* partitions, connections, and what is open for a moment */
#define SOURCE_LEAST 52u    /* bytes of a SOURCE in the message */

void fs_nodes_absolute(const char *path, char out[PATH_MAX]) {
  char joined[2 * PATH_MAX], cwd[PATH_MAX];
  bool relative = path[0] != '/';
  const char *dir = relative ? getcwd(cwd, sizeof cwd) : "";
  snprintf(joined, sizeof joined, "%s%s%s", dir != NULL ? dir : "", relative ? "/" : "", path);
  snprintf(out, PATH_MAX, "%.4095s", joined);
}

fs_err fs_nodes_fail_source(struct fs_nodes *n, const char *path, fs_err err) {
  const char *why = err == -ESTALE ? "changed, or is not what node 0 has there" : strerror(-err);
  if (err == -EMFILE)
    return fs_nodes_fail(n, "node %u (%s): SOURCE %s: %s; raise the limit of open files (ulimit -n)", n->rank, n->host,
                         path, why);
  if (err == -ENOMEM || err == -ENFILE) return err;
  return fs_nodes_fail(n, "node %u (%s): SOURCE %s: %s; it must be on storage that all nodes share", n->rank, n->host,
                       path, why);
}

void fs_msg_stat(struct fs_msg *m, const struct stat *st) {
  fs_msg_u64(m, (uint64_t)st->st_size);
  fs_msg_u64(m, (uint64_t)st->st_mtim.tv_sec);
  fs_msg_u32(m, (uint32_t)st->st_mtim.tv_nsec);
}

struct stat fs_in_stat(struct fs_in *in) {
  struct stat st = {.st_size = (off_t)fs_in_u64(in)};
  st.st_mtim.tv_sec = (time_t)fs_in_u64(in);
  st.st_mtim.tv_nsec = (long)fs_in_u32(in);
  return st;
}

fs_err fs_nodes_open_source(struct fs_source *src, const struct stat *lead) {
  const bool dir = src->kind == FS_SOURCE_DIR;
  const int flags = O_RDONLY | O_CLOEXEC | (dir ? O_DIRECTORY : O_NONBLOCK | O_NOCTTY);
  fs_err err = src->fd = fs_sys_openat(AT_FDCWD, src->path, flags, 0);
  if (err >= 0) err = fs_sys_fstat(src->fd, &src->st);
  return err == 0 && !dir && !fs_source_same(&src->st, lead) ? -ESTALE : err;
}

static fs_err open_source(struct fs_nodes *n, struct fs_source *src, struct fs_in *in) {
  src->fd = -1;
  src->path = strdup(fs_in_text(in));
  src->kind = fs_in_u32(in);
  src->skip = fs_in_u64(in);
  const struct stat lead = fs_in_stat(in);
  src->tar = fs_in_u32(in) != 0;
  src->filter = (int)fs_in_u32(in);
  src->last = fs_in_u64(in);
  if (in->bad || src->path == NULL || src->kind > FS_SOURCE_STREAM) return -EPROTO;
  fs_err err = fs_nodes_open_source(src, &lead);
  if (err < 0) return fs_nodes_fail_source(n, src->path, err);
  return src->kind == FS_SOURCE_STREAM ? fs_stream_open(src) : 0;
}

static fs_err open_sources(struct fs_nodes *n, struct fs_in *in) {
  const uint32_t count = fs_in_u32(in);
  if (count == 0 || count > (in->n - in->at) / SOURCE_LEAST) return -EPROTO;
  n->tree.sources = calloc(count, sizeof *n->tree.sources);
  if (n->tree.sources == NULL) return -ENOMEM;
  fs_prep_open_files((n->rank == 0 ? 2 : 1) * count + OTHER_FILES); /* the lead has its own, too */
  fs_err err = 0;
  for (; n->tree.nsources < count && err == 0; n->tree.nsources++)
    err = open_source(n, &n->tree.sources[n->tree.nsources], in);
  return err;
}

static fs_err read_options(struct fs_nodes *n, struct fs_in *in) {
  n->o.block_size = fs_in_u32(in);
  n->o.align = fs_in_u32(in);
  const uint32_t codec = fs_in_u32(in);
  if (codec > FS_CHOOSE_ZSTD) return -EPROTO;
  n->o.codec = codec;
  const bool block = fs_is_pow2(n->o.block_size) && n->o.block_size >= FS_BLOCK_SIZE_MIN && n->o.block_size < n->most;
  return block && fs_is_pow2(n->o.align) && n->o.align <= FS_BLOCK_SIZE_MAX ? 0 : -EPROTO;
}

static fs_err read_numbers(struct fs_nodes *n, struct fs_in *in) {
  struct fs_update *u = &n->numbers;
  n->plan.update = u;
  n->plan.nparts = fs_in_u32(in);
  n->plan.nreplicated = fs_in_u32(in);
  u->total = fs_in_u32(in);
  const uint64_t count = (uint64_t)n->plan.nparts + n->plan.nreplicated;
  if (in->bad || count > u->total || u->total > FS_MAX_PARTITIONS) return -EPROTO;
  u->number = calloc(count + 1, sizeof *u->number);
  if (u->number == NULL) return -ENOMEM;
  for (uint64_t k = 0; k < count; k++) {
    u->number[k] = fs_in_u32(in);
    if (u->number[k] >= u->total || (k != 0 && u->number[k] <= u->number[k - 1])) return -EPROTO;
  }
  return 0;
}

static fs_err read_plan(struct fs_nodes *n, struct fs_in *in) {
  const char *local = fs_in_text(in);
  n->plan = (struct fs_plan){.opts = &n->o, .tree = &n->tree};
  fs_err err = read_options(n, in);
  if (err == 0) err = read_numbers(n, in);
  if (err < 0) return err;
  n->plan.seed = fs_in_u64(in);
  n->plan.plain_bytes = fs_in_u64(in);
  n->plan.cut_above = fs_in_u64(in);
  n->plan.segment = fs_in_u64(in);
  n->plan.chunk = fs_in_u64(in);
  const void *rows = fs_in_get(in, sizeof n->plan.codecs.of_kind); /* on_work compares them with the rows */
  if (rows != NULL) memcpy(n->plan.codecs.of_kind, rows, sizeof n->plan.codecs.of_kind);
  if (in->bad || strlen(local) >= sizeof n->local || n->plan.chunk == 0 ||
      n->plan.chunk > FS_MAX(n->o.block_size, FS_BATCH_BYTES))
    return -EPROTO;
  strcpy(n->local, local);
  return open_sources(n, in);
}

static fs_err on_plan(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  if (from != 0 || n->owner != NULL || n->node_walk != NULL || n->node_scan != NULL) return -EPROTO;
  fs_err err = read_plan(n, in);
  if (err == 0) err = fs_owner_start(n);
  if (err == 0) err = fs_encoder_start(n);
  if (err < 0) return err;
  struct fs_msg *m = fs_msg_new(FS_NODES_READY);
  fs_msg_u32(m, n->o.jobs);
  fs_msg_text(m, n->host);
  fs_nodes_send(n, 0, m);
  return 0;
}

static fs_err on_end(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  if (from != 0) return -EPROTO;
  n->discard = fs_in_u32(in) == 0;
  n->over = true;
  return 0;
}

void fs_plan_begin(struct fs_nodes *n) {
  n->handler[FS_NODES_PLAN] = on_plan;
  n->handler[FS_NODES_END] = on_end;
}
