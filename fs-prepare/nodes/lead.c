/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lead, rank 0: runs pack's stages for all nodes. It hands out batches, has pack's store decide
 * their places in order, and tells the workers. So the result does not depend on which node packs
 * what. A worker has at most `most` batches, and the owners have at most `window` that are not in
 * their partitions yet. Main thread.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nodes.h"

#define AHEAD 16u /* batches of a worker that are encoded and wait for those of slower nodes */
#define TURN_NS (FS_NS_PER_S / 10)

struct peer {
  char host[256];
  uint32_t jobs;
  uint32_t owed;                /* batches whose bytes it has not written yet */
  uint64_t encoded, timed;      /* bytes that it has read and encoded; at the last look */
  double rate;                  /* of them, a second */
  uint32_t unencoded, unplaced; /* batches that it has */
  uint64_t last;                /* the batch that last had bytes for it, + 1 */
  uint64_t staged;
};

struct flight { /* a batch from its hand-out until it is in the partitions */
  uint32_t worker, left;
  bool busy;
};

struct fs_lead {
  struct fs_pipeline *pipeline;
  const struct fs_plan *plan;
  struct fs_parts *parts;
  struct peer *peer;
  struct flight *flight;
  uint64_t window, handed, unkept;
  uint64_t *seq; /* [partition]: of its next piece */
  uint32_t answers;
  dev_t *device; /* [source]: of a directory */
  uint64_t looked_ns;
  bool began;
};

static struct fs_nodes *nodes; /* fs_pack_nodes' functions have no context */

static fs_err wait_answers(struct fs_nodes *n) {
  while (n->lead->answers < n->nodes) {
    fs_err err = fs_nodes_step(n, fs_now_ns() + TURN_NS);
    if (err < 0) return err;
  }
  n->lead->answers = 0;
  return 0;
}

/* Finds nodes that say nothing. While the lead itself was busy, it heard nobody. */
static fs_err check_silence(struct fs_nodes *n, uint64_t stepped) {
  const uint64_t now = fs_now_ns(), most = n->o.node_timeout * FS_NS_PER_S;
  for (uint32_t i = 1; i < n->nodes; i++) {
    if (now - stepped > FS_NS_PER_S) n->heard_ns[i] = now;
    if (now - n->heard_ns[i] > most)
      return fs_nodes_fail(n,
                           "node %u has not answered for %" PRIu64 " s; look at its host and network, then pack again",
                           i, n->o.node_timeout);
  }
  return 0;
}

static void absolute(const char *path, char out[PATH_MAX]) {
  char joined[2 * PATH_MAX], cwd[PATH_MAX];
  bool relative = path[0] != '/';
  const char *dir = relative ? getcwd(cwd, sizeof cwd) : "";
  snprintf(joined, sizeof joined, "%s%s%s", dir != NULL ? dir : "", relative ? "/" : "", path);
  snprintf(out, PATH_MAX, "%.4095s", joined);
}

/* A compressed archive is read from its begin to its end, so several nodes are no faster. */
static fs_err put_sources(struct fs_msg *m, const struct fs_tree *tree) {
  struct fs_lead *l = nodes->lead;
  char path[PATH_MAX];
  l->device = calloc(tree->nsources + 1u, sizeof *l->device);
  if (l->device == NULL) return -ENOMEM;
  fs_msg_u32(m, tree->nsources);
  for (uint32_t i = 0; i < tree->nsources; i++) {
    const struct fs_source *src = &tree->sources[i];
    struct stat st = {0};
    if (src->kind == FS_SOURCE_STREAM)
      return fs_nodes_fail(nodes, "%s: such an archive cannot be packed with --local-dir; leave that out, or unpack it",
                           src->path);
    fs_sys_fstat(src->fd, &st);
    l->device[i] = st.st_dev;
    absolute(src->path, path);
    fs_msg_text(m, path);
    fs_msg_u32(m, src->kind);
    fs_msg_u64(m, src->skip);
    fs_msg_u64(m, (uint64_t)st.st_size);
    fs_msg_u64(m, (uint64_t)st.st_mtim.tv_sec);
    fs_msg_u32(m, (uint32_t)st.st_mtim.tv_nsec);
  }
  return 0;
}

static void send_codecs(struct fs_nodes *n, const struct fs_pack_codecs *c) {
  for (uint32_t i = 0; i < c->n; i++) {
    const struct fs_encoding *e = &c->row[i];
    struct fs_msg *m = fs_msg_new(FS_NODES_CODEC);
    fs_msg_u32(m, i);
    fs_msg_u32(m, e->family);
    fs_msg_u32(m, e->element);
    fs_msg_u32(m, (uint32_t)e->level);
    fs_msg_u32(m, e->dict_len);
    fs_msg_put(m, e->dict, e->dict_len);
    fs_nodes_send_all(n, m);
  }
}

static fs_err begin(const struct fs_plan *plan, const struct fs_target *t) {
  struct fs_nodes *n = nodes;
  struct fs_lead *l = n->lead;
  char local[PATH_MAX], shared[2 * PATH_MAX] = "";
  absolute(plan->opts->local_dir, local);
  if (!plan->opts->nodes_only) snprintf(shared, sizeof shared, "%s/%s", t->parent, t->temp);
  l->plan = plan;
  l->began = true;
  l->seq = calloc(plan->nparts + plan->nreplicated, sizeof *l->seq);
  struct fs_msg *m = l->seq != NULL ? fs_msg_new(FS_NODES_PLAN) : NULL;
  fs_msg_text(m, local);
  fs_msg_text(m, shared);
  fs_msg_u32(m, plan->nparts);
  fs_msg_u32(m, plan->nreplicated);
  fs_msg_u64(m, plan->plain_bytes);
  fs_msg_u64(m, plan->cut_above);
  fs_msg_u64(m, plan->segment);
  fs_msg_u64(m, plan->chunk);
  fs_msg_put(m, plan->codecs.of_kind, sizeof plan->codecs.of_kind);
  if (m == NULL) return -ENOMEM;
  fs_err err = put_sources(m, plan->tree);
  fs_nodes_send_all(n, err == 0 ? m : fs_msg_new(FS_NODES_END));
  if (err < 0) return err;
  send_codecs(n, &plan->codecs);
  return wait_answers(n);
}

static fs_err on_ready(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  struct peer *p = &n->lead->peer[from];
  p->jobs = fs_in_u32(in);
  snprintf(p->host, sizeof p->host, "%s", fs_in_text(in));
  for (char *c = p->host; *c != '\0'; c++) /* it goes into lines and JSON */
    if (*c < '-' || *c > 'z' || *c == '\\') *c = '?';
  if (p->jobs == 0 || p->jobs > 4096) return -EPROTO;
  n->lead->window += 2ull * p->jobs + AHEAD;
  n->lead->answers++;
  return 0;
}

static uint64_t window(void) {
  struct fs_lead *l = nodes->lead;
  l->flight = calloc(l->window, sizeof *l->flight);
  if (l->flight == NULL) l->window = 0;
  return FS_MAX(l->window, 1u);
}

static void put_item(struct fs_msg *m, const struct fs_item *item, bool own_device) {
  fs_msg_text(m, item->path);
  fs_msg_u32(m, item->source);
  fs_msg_u64(m, item->size);
  fs_msg_u32(m, own_device);
  fs_msg_u64(m, item->ino);
  fs_msg_u64(m, (uint64_t)item->mtime_sec);
  fs_msg_u32(m, item->mtime_nsec);
  fs_msg_u32(m, item->mode);
  fs_msg_u32(m, item->kind);
  fs_msg_u32(m, item->followed);
  fs_msg_u32(m, item->replicate);
}

static void hand_out(struct fs_nodes *n, uint32_t to, uint64_t number, const struct fs_batch *b) {
  struct fs_lead *l = n->lead;
  struct fs_msg *m = fs_msg_new(FS_NODES_WORK);
  fs_msg_u64(m, number);
  fs_msg_u32(m, b->n);
  for (uint32_t i = 0; i < b->n; i++) {
    const struct fs_item *item = &l->plan->tree->items[b->chunk[i].item];
    fs_msg_u64(m, b->chunk[i].item);
    put_item(m, item, item->dev == l->device[item->source]);
    fs_msg_u64(m, b->chunk[i].offset);
    fs_msg_u64(m, b->chunk[i].plain_len);
  }
  l->flight[number % l->window] = (struct flight){.worker = to, .busy = true};
  l->handed = number + 1;
  l->unkept++;
  l->peer[to].unencoded++;
  l->peer[to].unplaced++;
  fs_nodes_send(n, to, m);
}

static bool has_room(const struct peer *p) {
  return p->unencoded < 2 * p->jobs && p->unplaced < 2 * p->jobs + AHEAD;
}

/* Gives batches to the nodes that have room, one to each in turn. */
static void hand_out_all(struct fs_nodes *n) {
  struct fs_lead *l = n->lead;
  for (bool some = true; some && n->err == 0;) {
    some = false;
    for (uint32_t i = 0; i < n->nodes && n->err == 0; i++) {
      uint64_t number;
      if (!has_room(&l->peer[i]) || l->flight[l->handed % l->window].busy) continue;
      struct fs_batch *b = fs_pipeline_claim(l->pipeline, &number);
      if (b == NULL) return;
      hand_out(n, i, number, b);
      some = true;
    }
  }
}

static fs_err read_chunk(const struct fs_plan *plan, struct fs_chunk *c, struct fs_chunk_block *blocks,
                         struct fs_in *in) {
  const uint64_t most = (c->plain_len + plan->opts->block_size - 1) / plan->opts->block_size;
  uint64_t sum = 0;
  uint32_t codec = fs_in_u32(in);
  c->codec = (uint8_t)codec;
  c->stored_len = fs_in_u64(in);
  c->key = fs_in_u64(in);
  c->plain_xxh3 = fs_in_u64(in);
  c->plain_key = fs_in_u64(in);
  c->err = 0;
  c->nblocks = fs_in_u32(in);
  c->stored = NULL;
  c->blocks = blocks;
  if (c->nblocks != most || codec >= plan->codecs.n) return -EPROTO;
  for (uint32_t i = 0; i < c->nblocks; i++) {
    blocks[i].stored_len = fs_in_u32(in);
    blocks[i].xxh3 = fs_in_u64(in);
    sum += blocks[i].stored_len;
  }
  return in->bad || sum != c->stored_len ? -EPROTO : 0;
}

static fs_err read_batch(const struct fs_plan *plan, struct fs_batch *b, struct fs_in *in) {
  uint64_t nblocks = 0, block = plan->opts->block_size;
  for (uint32_t i = 0; i < b->n; i++) nblocks += (b->chunk[i].plain_len + block - 1) / block;
  free(b->blocks);
  b->blocks = calloc(nblocks, sizeof *b->blocks);
  if (b->blocks == NULL) return -ENOMEM;
  struct fs_chunk_block *blocks = b->blocks;
  for (uint32_t i = 0; i < b->n; i++) {
    if (b->err < 0 && i + 1 == b->n) break;
    fs_err err = read_chunk(plan, &b->chunk[i], blocks, in);
    if (err < 0) return err;
    blocks += b->chunk[i].nblocks;
  }
  return 0;
}

static fs_err on_encoded(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  struct fs_lead *l = n->lead;
  uint64_t number = fs_in_u64(in);
  int32_t err = (int32_t)fs_in_u32(in);
  uint32_t count = fs_in_u32(in);
  struct fs_batch *b = l->pipeline != NULL ? fs_pipeline_claimed(l->pipeline, number) : NULL;
  if (b == NULL || l->flight[number % l->window].worker != from || count == 0 || count > b->n || err > 0 ||
      (err == 0 && count != b->n))
    return -EPROTO;
  b->n = count;
  b->err = err;
  for (uint32_t i = 0; i < count; i++) l->peer[from].encoded += b->chunk[i].plain_len;
  fs_err bad = read_batch(l->plan, b, in);
  l->peer[from].unencoded--;
  if (bad == 0) fs_pipeline_encoded(l->pipeline, number);
  return bad;
}

/* Returns the node for which the others wait: one that has not written half of what may be on its
   way, else the slowest of those that have batches. NULL: there is none. */
static const struct peer *slowest_node(const struct fs_nodes *n, bool *writes) {
  const struct fs_lead *l = n->lead;
  const struct peer *writer = l->peer, *worker = NULL;
  for (uint32_t i = 0; i < n->nodes; i++) {
    const struct peer *p = &l->peer[i];
    if (p->owed > writer->owed) writer = p;
    if (p->unencoded > 0 && (worker == NULL || p->rate < worker->rate)) worker = p;
  }
  *writes = writer->owed >= FS_MAX(l->window / 2, 2u);
  return *writes ? writer : worker;
}

/* Each second, tells the progress which node is the slowest. */
static void look_at_rates(const struct fs_nodes *n) {
  struct fs_lead *l = n->lead;
  struct fs_slowest *s = &l->plan->tree->progress->slowest;
  const uint64_t now = fs_now_ns();
  double seconds = (double)(now - l->looked_ns) / 1e9;
  bool writes, first = l->looked_ns == 0;
  if (n->nodes < 2 || (seconds < 1 && !first)) return;
  l->looked_ns = now;
  for (uint32_t i = 0; i < n->nodes && !first; i++) {
    struct peer *p = &l->peer[i];
    double is = (double)(p->encoded - p->timed) / seconds;
    p->rate = p->timed == 0 ? is : 0.7 * p->rate + 0.3 * is; /* mostly the last three seconds */
    p->timed = p->encoded;
  }
  const struct peer *p = first ? NULL : slowest_node(n, &writes);
  s->host = NULL;
  if (p == NULL) return;
  s->node = (uint32_t)(p - l->peer);
  s->rate = (uint64_t)p->rate;
  s->writes = writes;
  s->host = p->host;
}

static fs_err step(struct fs_pipeline *p) {
  struct fs_nodes *n = nodes;
  if (n->lead->window == 0) return -ENOMEM;
  n->lead->pipeline = p;
  look_at_rates(n);
  hand_out_all(n);
  if (n->err == 0 && fs_pipeline_claimed(p, fs_pipeline_taken(p)) == NULL && n->lead->unkept > 0 &&
      fs_pipeline_taken(p) < n->lead->handed)
    return 0; /* the next batch is encoded */
  return fs_nodes_step(n, fs_now_ns() + TURN_NS);
}

/* Counts an owner that gets bytes of this batch. */
static void count_owners(struct fs_nodes *n, struct flight *f, uint32_t part, uint64_t number) {
  struct fs_lead *l = n->lead;
  for (uint32_t i = part < l->plan->nparts ? part % n->nodes : 0; i < n->nodes; i++) {
    if (l->peer[i].last != number + 1) {
      f->left++;
      l->peer[i].owed++;
    }
    l->peer[i].last = number + 1;
    if (part < l->plan->nparts) break;
  }
}

static fs_err stored(const struct fs_batch *b) {
  struct fs_nodes *n = nodes;
  struct fs_lead *l = n->lead;
  const uint64_t number = fs_pipeline_taken(l->pipeline);
  struct flight *f = &l->flight[number % l->window];
  struct fs_msg *m = fs_msg_new(FS_NODES_PLACED);
  fs_msg_u64(m, number);
  fs_msg_u32(m, b->n);
  for (uint32_t i = 0; i < b->n; i++) {
    const struct fs_chunk *c = &b->chunk[i];
    const struct fs_item *item = &l->plan->tree->items[c->item];
    const struct fs_built_block *first =
        item->alias ? NULL : fs_item_block(item, c->offset / l->plan->opts->block_size);
    fs_msg_u32(m, first != NULL ? first->partition : UINT32_MAX);
    fs_msg_u64(m, first != NULL ? l->seq[first->partition]++ : 0);
    fs_msg_u64(m, first != NULL ? first->offset : 0);
    if (first != NULL) count_owners(n, f, first->partition, number);
  }
  l->peer[f->worker].unplaced--;
  if (f->left == 0) {
    f->busy = false;
    l->unkept--;
  }
  fs_nodes_send(n, f->worker, m);
  return n->err;
}

static fs_err on_kept(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  struct fs_lead *l = n->lead;
  struct flight *f = l->flight != NULL ? &l->flight[fs_in_u64(in) % l->window] : NULL;
  if (f == NULL || !f->busy || f->left == 0 || l->peer[from].owed == 0) return -EPROTO;
  l->peer[from].owed--;
  if (--f->left != 0) return 0;
  f->busy = false;
  l->unkept--;
  return 0;
}

static fs_err finish(struct fs_parts *p) {
  struct fs_nodes *n = nodes;
  n->lead->pipeline = NULL;
  n->lead->parts = p;
  while (n->lead->unkept > 0) {
    fs_err err = fs_nodes_step(n, fs_now_ns() + TURN_NS);
    if (err < 0) return err;
  }
  struct fs_msg *m = fs_msg_new(FS_NODES_FINISH);
  fs_msg_u32(m, p->n);
  for (uint32_t i = 0; i < p->n; i++) fs_msg_u64(m, p->out[i].size);
  fs_nodes_send_all(n, m);
  return wait_answers(n);
}

static fs_err on_sums(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  struct fs_parts *p = n->lead->parts;
  for (uint32_t part; p != NULL && (part = fs_in_u32(in)) != UINT32_MAX;) {
    uint64_t size = fs_in_u64(in), xxh3 = fs_in_u64(in);
    if (in->bad || part >= p->n || !fs_nodes_owns(n->lead->plan, n->nodes, from, part)) return -EPROTO;
    if (size != p->out[part].rec.size || (p->out[part].rec.xxh3 != 0 && p->out[part].rec.xxh3 != xxh3)) return -EBADMSG;
    p->out[part].rec.xxh3 = xxh3;
  }
  n->lead->answers++;
  return p != NULL ? 0 : -EPROTO;
}

static fs_err seal(struct fs_parts *p, const uint8_t dataset_id[16]) {
  (void)p;
  struct fs_msg *m = fs_msg_new(FS_NODES_SEAL);
  fs_msg_put(m, dataset_id, 16);
  fs_nodes_send_all(nodes, m);
  return wait_answers(nodes);
}

static fs_err on_answer(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  (void)from, (void)in;
  n->lead->answers++;
  return 0;
}

static fs_err on_adopted(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  n->lead->peer[from].staged = fs_in_u64(in);
  n->lead->answers++;
  return 0;
}

static fs_err on_failed(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  const char *line = fs_in_text(in);
  (void)from;
  return fs_nodes_fail(n, "%s", line);
}

static fs_err on_alive(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  (void)n, (void)from, (void)in;
  return 0;
}

/* After a failure or a signal: no rank leaves anything. */
static void leave(void) {
  fs_owner_stop(nodes);
  if (!nodes->lead->began || nodes->over) return;
  nodes->over = true;
  fs_nodes_send_all(nodes, fs_msg_new(FS_NODES_END));
  fs_nodes_flush(nodes);
}

/* Before the dataset gets its name: with --nodes-only these copies are the only ones, and the dataset
   that is there so far must not go before they are. */
static fs_err adopt(const struct fs_target *t) {
  char path[PATH_MAX];
  if ((size_t)snprintf(path, sizeof path, "%s/%s", t->parent, t->temp) >= sizeof path) return -ENAMETOOLONG;
  struct fs_msg *m = fs_msg_new(FS_NODES_ADOPT);
  fs_msg_text(m, path);
  fs_nodes_send_all(nodes, m);
  return wait_answers(nodes);
}

static void summary(const struct fs_nodes *n) {
  char least[32], most[32];
  uint64_t min = UINT64_MAX, max = 0;
  FS_AUTO_FREE char *local = fs_prep_name(n->local);
  for (uint32_t i = 0; i < n->nodes; i++) {
    min = FS_MIN(min, n->lead->peer[i].staged);
    max = FS_MAX(max, n->lead->peer[i].staged);
  }
  printf("  %u node%s with %s to %s each in %s, where fs-launch --local-dir finds them\n", n->nodes,
         n->nodes == 1 ? "" : "s", fs_format_size(min, least, sizeof least), fs_format_size(max, most, sizeof most),
         local);
  if (n->o.nodes_only)
    printf("  the partitions are on these nodes only: if one is lost, so are its files, and SOURCE has to be packed "
           "again\n");
}

int fs_lead_run(struct fs_nodes *n, int argc, char **argv) {
  static const struct fs_pack_nodes functions = {.begin = begin,
                                                 .window = window,
                                                 .step = step,
                                                 .stored = stored,
                                                 .finish = finish,
                                                 .seal = seal,
                                                 .adopt = adopt,
                                                 .leave = leave};
  static fs_nodes_fn *const handlers[FS_NODES_KINDS] = {
      [FS_NODES_READY] = on_ready,   [FS_NODES_ENCODED] = on_encoded, [FS_NODES_KEPT] = on_kept,
      [FS_NODES_SUMS] = on_sums,     [FS_NODES_SEALED] = on_answer,   [FS_NODES_ADOPTED] = on_adopted,
      [FS_NODES_FAILED] = on_failed, [FS_NODES_ALIVE] = on_alive};
  static struct fs_lead lead;
  nodes = n;
  n->lead = &lead;
  n->check = check_silence;
  lead.peer = calloc(n->nodes, sizeof *lead.peer);
  if (lead.peer == NULL) return FS_EXIT_FAILED;
  for (size_t i = 0; i < FS_NODES_KINDS; i++)
    if (handlers[i] != NULL) n->handler[i] = handlers[i];
  fs_pack_nodes = &functions;
  int status = fs_prep_pack(argc, argv);
  bool packed = status == FS_EXIT_OK || status == FS_EXIT_LEFT_OUT;
  if (packed) summary(n);
  leave();
  return packed ? fs_prep_finish(status) : status;
}
