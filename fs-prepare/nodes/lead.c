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

#include "ipc/control.h"
#include "lead.h"

#define TURN_NS (FS_NS_PER_S / 10)
#define FS_ERRNO_MOST 4095 /* the kernel's */

static struct fs_nodes *nodes; /* fs_pack_nodes' functions have no context */

/* Finds nodes that say nothing. While the lead itself was busy, it heard nobody. */
static fs_err check_silence(struct fs_nodes *n, uint64_t stepped) {
  const uint64_t now = fs_now_ns(), most = n->o.node_timeout * FS_NS_PER_S;
  for (uint32_t i = 1; i < n->nodes; i++) {
    if (now - stepped > FS_NS_PER_S) n->heard_ns[i] = now;
    const char *host = n->lead->peer[i].host; /* "" until it is ready */
    if (now - n->heard_ns[i] > most)
      return fs_nodes_fail(
          n, "node %u%s%s%s has not answered for %" PRIu64 " s; look at its host and network, then pack again", i,
          *host ? " (" : "", host, *host ? ")" : "", n->o.node_timeout);
  }
  return 0;
}

static fs_err put_sources(struct fs_msg *m, const struct fs_tree *tree) {
  struct fs_lead *l = nodes->lead;
  char path[PATH_MAX];
  l->device = calloc(tree->nsources + 1u, sizeof *l->device);
  l->reader = calloc(tree->nsources + 1u, sizeof *l->reader);
  if (l->device == NULL || l->reader == NULL) return -ENOMEM;
  fs_msg_u32(m, tree->nsources);
  for (uint32_t i = 0; i < tree->nsources; i++) {
    const struct fs_source *src = &tree->sources[i];
    struct stat st = {0};
    fs_sys_fstat(src->fd, &st);
    if (src->kind != FS_SOURCE_DIR && !fs_source_same(&st, &src->st))
      return fs_nodes_fail(nodes, "%s: changed while it was being packed; pack again when nothing writes to it",
                           src->path);
    l->device[i] = st.st_dev;
    fs_nodes_absolute(src->path, path);
    fs_msg_text(m, path);
    fs_msg_u32(m, src->kind);
    fs_msg_u64(m, src->skip);
    fs_msg_stat(m, &st);
    fs_msg_u32(m, src->tar);
    fs_msg_u32(m, (uint32_t)src->filter);
    fs_msg_u64(m, src->last);
  }
  return 0;
}

static struct fs_msg *end_message(bool keep) {
  struct fs_msg *m = fs_msg_new(FS_NODES_END);
  fs_msg_u32(m, keep);
  return m;
}

/* An update takes options that are not given from the dataset. */
static void put_options(struct fs_msg *m, const struct fs_pack_options *o) {
  fs_msg_u32(m, o->block_size);
  fs_msg_u32(m, o->align);
  fs_msg_u32(m, o->codec);
}

/* Tells the numbers of the new partitions, and notes which one each number is. */
static fs_err put_numbers(struct fs_msg *m, const struct fs_plan *plan) {
  struct fs_lead *l = nodes->lead;
  const uint32_t n = plan->nparts + plan->nreplicated, total = plan->update != NULL ? plan->update->total : n;
  l->seq = calloc(n + 1u, sizeof *l->seq);
  l->new_of = calloc(total + 1u, sizeof *l->new_of);
  if (l->seq == NULL || l->new_of == NULL) return -ENOMEM;
  fs_msg_u32(m, plan->nparts);
  fs_msg_u32(m, plan->nreplicated);
  fs_msg_u32(m, total);
  for (uint32_t k = 0; k < n; k++) {
    fs_msg_u32(m, fs_parts_new(plan, k));
    l->new_of[fs_parts_new(plan, k)] = k;
  }
  return 0;
}

static fs_err held(const struct fs_dataset *old, const char *local_dir, bool *out) {
  char path[PATH_MAX], local[PATH_MAX];
  struct fs_lead *l = nodes->lead;
  fs_nodes_absolute(old->path, path);
  fs_nodes_absolute(local_dir, local);
  l->held = out;
  l->held_parts = (uint32_t)old->ix.nparts;
  struct fs_msg *m = fs_msg_new(FS_NODES_HOLD);
  fs_msg_text(m, path);
  fs_msg_text(m, local);
  fs_msg_put(m, old->manifest.dataset_id, sizeof old->manifest.dataset_id);
  fs_nodes_send_all(nodes, m);
  fs_err err = fs_lead_answers(nodes, FS_NODES_HELD);
  l->held = NULL;
  return err;
}

static void walk(struct fs_walk *w) {
  fs_walk_lead(nodes, w);
}

static fs_err scan(const struct fs_pack_options *o, struct fs_tree *tree, struct fs_scan *out) {
  return fs_scan_lead(nodes, o, tree, out);
}

static fs_err begin(const struct fs_plan *plan, const struct fs_target *t) {
  struct fs_nodes *n = nodes;
  struct fs_lead *l = n->lead;
  char local[PATH_MAX];
  fs_nodes_absolute(plan->opts->local_dir, local);
  n->target = t;
  l->plan = plan;
  l->began_ns = fs_now_ns();
  struct fs_msg *m = fs_msg_new(FS_NODES_PLAN);
  fs_msg_text(m, local);
  put_options(m, plan->opts);
  fs_err err = put_numbers(m, plan);
  fs_msg_u64(m, plan->seed);
  fs_msg_u64(m, plan->plain_bytes);
  fs_msg_u64(m, plan->cut_above);
  fs_msg_u64(m, plan->segment);
  fs_msg_u64(m, plan->chunk);
  fs_msg_put(m, plan->codecs.of_kind, sizeof plan->codecs.of_kind);
  if (m == NULL) return -ENOMEM;
  if (err == 0) err = put_sources(m, plan->tree);
  if (err == 0 && m->n > n->most)
    err = fs_nodes_fail(n,
                        "the paths of %u SOURCEs have %zu bytes, and a pack over nodes takes about %zu; move them into "
                        "one directory, or shorten their paths",
                        plan->tree->nsources, m->n, n->most);
  fs_nodes_send_all(n, err == 0 ? m : end_message(false));
  if (err < 0) return err;
  fs_codecs_send(n, &plan->codecs);
  return fs_lead_answers(n, FS_NODES_READY);
}

/* A pipeline begins: its batches have numbers from 0 on. */
static uint64_t window(void) {
  struct fs_lead *l = nodes->lead;
  l->pipeline = NULL;
  if (l->flight == NULL) l->flight = calloc(l->window, sizeof *l->flight);
  if (l->flight == NULL) l->window = 0;
  return FS_MAX(l->window, 1u);
}

static bool all_kept(const struct fs_nodes *n) {
  for (uint32_t i = 0; i < n->nodes; i++)
    if (n->lead->peer[i].owed != 0) return false;
  return true;
}

/* Waits until all that is placed is in the partitions. */
static fs_err wait_kept(struct fs_nodes *n) {
  fs_err err = 0;
  while (!all_kept(n) && err == 0) err = fs_nodes_step(n, fs_now_ns() + TURN_NS);
  return err;
}

/* The owners must not take batches of this pipeline for those of the one before. */
static fs_err begin_batches(struct fs_nodes *n, struct fs_pipeline *p) {
  struct fs_lead *l = n->lead;
  fs_err err = wait_kept(n);
  l->pipeline = p;
  l->handed = 0;
  for (uint32_t i = 0; i < n->nodes; i++) l->peer[i].last = 0;
  return err;
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

static void send_work(struct fs_nodes *n, uint32_t to, uint64_t number, const struct fs_batch *b) {
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
  fs_nodes_send(n, to, m);
}

static void hand_out(struct fs_nodes *n, uint32_t to, uint64_t number, const struct fs_batch *b) {
  struct fs_lead *l = n->lead;
  l->flight[number % l->window] = (struct fs_flight){.number = number, .worker = to, .busy = true};
  l->handed = number + 1;
  l->peer[to].unencoded++;
  l->peer[to].unplaced++;
  send_work(n, to, number, b);
}

/* The batches of a stream wait for each other, so a node gets more of them: then others get those of theirs. */
static bool has_room(const struct fs_peer *p, bool stream) {
  return (stream || p->unencoded < 2 * p->jobs) && p->unplaced < 2 * p->jobs + FS_LEAD_AHEAD;
}

/* Returns the node that reads a stream, from its begin to its end. A new one goes to the node that reads the
   fewest. */
static uint32_t reader_of(struct fs_nodes *n, uint32_t source) {
  struct fs_lead *l = n->lead;
  uint32_t best = 0;
  if (l->reader[source] != 0) return l->reader[source] - 1;
  for (uint32_t i = 1; i < n->nodes; i++)
    if (l->peer[i].streams < l->peer[best].streams) best = i;
  l->peer[best].streams++;
  l->reader[source] = best + 1;
  return best;
}

/* Returns true if a batch has the end of the last member of its stream that is read. */
static bool ends_stream(const struct fs_tree *tree, const struct fs_batch *b) {
  const struct fs_chunk *c = &b->chunk[b->n - 1];
  const struct fs_item *item = &tree->items[c->item];
  return item->ino == tree->sources[item->source].last && c->offset + c->plain_len == item->size;
}

/* Gives batches to the nodes that have room, one to each in turn. */
static void hand_out_all(struct fs_nodes *n) {
  struct fs_lead *l = n->lead;
  uint64_t number;
  uint32_t full = 0; /* nodes in a row without room */
  while (full < n->nodes && n->err == 0 && !l->flight[l->handed % l->window].busy) {
    const struct fs_item *item = fs_pipeline_stream_item(l->pipeline);
    const uint32_t to = item != NULL ? reader_of(n, item->source) : l->turn;
    if (item == NULL) l->turn = (l->turn + 1) % n->nodes;
    if (!has_room(&l->peer[to], item != NULL)) {
      full = item != NULL ? n->nodes : full + 1;
      continue;
    }
    const struct fs_batch *b = fs_pipeline_claim(l->pipeline, &number);
    if (b == NULL) return;
    hand_out(n, to, number, b);
    full = 0;
  }
}

static fs_err read_chunk(const struct fs_plan *plan, struct fs_chunk *c, struct fs_chunk_block *blocks,
                         struct fs_in *in) {
  const uint64_t block = plan->opts->block_size, most = (c->plain_len + block - 1) / block;
  uint64_t sum = 0;
  int32_t err = (int32_t)fs_in_u32(in);
  if (err > 0 || err < -FS_ERRNO_MOST || (err < 0 && !plan->opts->keep_going)) return -EPROTO;
  c->err = err;
  c->nblocks = 0;
  if (err < 0) return 0;
  uint32_t codec = fs_in_u32(in);
  c->codec = (uint8_t)codec;
  c->stored_len = fs_in_u64(in);
  c->key = fs_in_u64(in);
  c->plain_xxh3 = fs_in_u64(in);
  c->plain_key = fs_in_u64(in);
  c->nblocks = fs_in_u32(in);
  c->stored = NULL;
  c->blocks = blocks;
  if (c->nblocks != most || codec >= plan->codecs.n) return -EPROTO;
  for (uint32_t i = 0; i < c->nblocks; i++) {
    blocks[i].stored_len = fs_in_u32(in);
    blocks[i].xxh3 = fs_in_u64(in);
    const uint64_t plain = FS_MIN(c->plain_len - i * block, block);
    if (blocks[i].stored_len == 0 || blocks[i].stored_len > plain) return -EPROTO;
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
  const bool awaited = l->pipeline != NULL && l->peer[from].unencoded != 0; /* else the pipeline may have ended */
  struct fs_batch *b = awaited ? fs_pipeline_claimed(l->pipeline, number) : NULL;
  if (b == NULL || l->flight[number % l->window].worker != from || count == 0 || count > b->n || err > 0 ||
      err < -FS_ERRNO_MOST || (err == 0 && count != b->n))
    return -EPROTO;
  b->n = count;
  b->err = err;
  for (uint32_t i = 0; i < count; i++) l->peer[from].encoded += b->chunk[i].plain_len;
  fs_err bad = read_batch(l->plan, b, in);
  if (err == -EBADMSG && b->stream != NULL) fs_stream_because(b->stream, fs_in_text(in));
  l->peer[from].unencoded--;
  if (bad == 0 && b->stream != NULL && ends_stream(l->plan->tree, b)) l->peer[from].streams--;
  if (bad == 0) fs_pipeline_encoded(l->pipeline, number);
  return bad;
}

static fs_err step(struct fs_pipeline *p) {
  struct fs_nodes *n = nodes;
  if (n->lead->window == 0) return -ENOMEM;
  fs_err err = n->lead->pipeline == NULL ? begin_batches(n, p) : 0;
  if (err < 0) return err;
  fs_lead_rates(n);
  hand_out_all(n);
  if (n->err == 0 && fs_pipeline_claimed(p, fs_pipeline_taken(p)) == NULL && fs_pipeline_taken(p) < n->lead->handed)
    return 0; /* the next batch is encoded */
  return fs_nodes_step(n, fs_now_ns() + TURN_NS);
}

/* Counts an owner that gets bytes of this batch. */
static void count_owners(struct fs_nodes *n, struct fs_flight *f, uint32_t k, uint64_t number) {
  struct fs_lead *l = n->lead;
  const bool all = k >= l->plan->nparts;
  for (uint32_t i = all ? 0 : fs_nodes_owner(l->plan, n->nodes, k); i < n->nodes; i++) {
    if (l->peer[i].last != number + 1) {
      f->left++;
      l->peer[i].owed++;
    }
    l->peer[i].last = number + 1;
    if (!all) break;
  }
}

static fs_err stored(const struct fs_batch *b) {
  struct fs_nodes *n = nodes;
  struct fs_lead *l = n->lead;
  const uint64_t number = fs_pipeline_taken(l->pipeline);
  struct fs_flight *f = &l->flight[number % l->window];
  struct fs_msg *m = fs_msg_new(FS_NODES_PLACED);
  fs_msg_u64(m, number);
  fs_msg_u32(m, b->n);
  for (uint32_t i = 0; i < b->n; i++) {
    const struct fs_chunk *c = &b->chunk[i];
    const bool placed = c->partition != FS_NOWHERE;
    const uint32_t k = placed ? l->new_of[c->partition] : FS_NOWHERE;
    fs_msg_u32(m, k);
    fs_msg_u64(m, placed ? l->seq[k]++ : 0);
    fs_msg_u64(m, placed ? c->at : 0);
    if (placed) count_owners(n, f, k, number);
  }
  l->peer[f->worker].unplaced--;
  if (f->left == 0) f->busy = false;
  fs_nodes_send(n, f->worker, m);
  return n->err;
}

static fs_err on_kept(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  struct fs_lead *l = n->lead;
  const uint64_t number = fs_in_u64(in);
  struct fs_flight *f = l->flight != NULL && l->window != 0 ? &l->flight[number % l->window] : NULL;
  if (f == NULL || !f->busy || f->number != number || f->left == 0 || l->peer[from].owed == 0) return -EPROTO;
  l->peer[from].owed--;
  if (--f->left == 0) f->busy = false;
  return 0;
}

fs_err fs_lead_ask_states(struct fs_nodes *n, uint32_t kind, const struct fs_parts *p, struct fs_part_state *state) {
  fs_err err = wait_kept(n);
  if (err < 0) return err;
  struct fs_msg *m = fs_msg_new(kind);
  fs_msg_u32(m, p->nnew);
  for (uint32_t k = 0; k < p->nnew; k++) fs_msg_u64(m, p->out[fs_parts_new(n->lead->plan, k)].size);
  n->lead->state = state;
  fs_nodes_send_all(n, m);
  err = fs_lead_answers(n, FS_NODES_STATES);
  n->lead->state = NULL;
  for (uint32_t k = 0; k < p->nnew && err == 0; k++)
    if (state[k].size != p->out[fs_parts_new(n->lead->plan, k)].size) err = -EBADMSG; /* or no owner told it */
  return err;
}

/* All nodes that have a replicated partition must agree. */
static fs_err on_states(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  const struct fs_plan *plan = n->lead->plan;
  struct fs_part_state *state = n->lead->state;
  fs_err err = fs_lead_answered(n, from, FS_NODES_STATES);
  for (uint32_t k; err == 0 && (k = fs_in_u32(in)) != UINT32_MAX;) {
    const uint64_t size = fs_in_u64(in), xxh3 = fs_in_u64(in);
    if (in->bad || k >= plan->nparts + plan->nreplicated || !fs_nodes_owns(plan, n->nodes, from, k)) return -EPROTO;
    if (state[k].size != 0 && (state[k].size != size || state[k].xxh3 != xxh3)) return -EBADMSG;
    state[k] = (struct fs_part_state){size, xxh3};
  }
  return err;
}

static fs_err finish(struct fs_parts *p) {
  FS_AUTO_FREE struct fs_part_state *state = calloc(p->nnew + 1u, sizeof *state);
  if (state == NULL) return -ENOMEM;
  nodes->lead->pipeline = NULL;
  if (nodes->o.verbose) fs_lead_say_shares(nodes);
  fs_err err = fs_lead_ask_states(nodes, FS_NODES_FINISH, p, state);
  for (uint32_t k = 0; k < p->nnew && err == 0; k++)
    p->out[fs_parts_new(nodes->lead->plan, k)].rec.xxh3 = state[k].xxh3;
  return err;
}

static fs_err seal(struct fs_parts *p, const uint8_t dataset_id[16]) {
  (void)p;
  struct fs_msg *m = fs_msg_new(FS_NODES_SEAL);
  fs_msg_put(m, dataset_id, 16);
  fs_nodes_send_all(nodes, m);
  return fs_lead_answers(nodes, FS_NODES_SEALED);
}

/* At the end, or after a failure or a signal. */
static void leave(bool keep) {
  nodes->discard = !keep;
  nodes->leaving = true;
  fs_owner_stop(nodes);
  /* The user's signal comes to all ranks. If mpirun ends this one, another is gone: the message tells which. */
  if (!nodes->over && fs_prep_signal != FS_SIGNAL_STOP) {
    nodes->over = true;
    fs_nodes_send_all(nodes, end_message(keep));
    fs_nodes_flush(nodes);
  }
  fs_encoder_stop(nodes);
}

/* Before the dataset gets its name: with --nodes-only these copies are the only ones, and the dataset
   that is there so far must not go before they are. */
static fs_err adopt(const struct fs_target *t) {
  char path[PATH_MAX];
  if ((size_t)snprintf(path, sizeof path, "%s/%s", t->parent, t->temp) >= sizeof path) return -ENAMETOOLONG;
  struct fs_msg *m = fs_msg_new(FS_NODES_ADOPT);
  fs_msg_text(m, path);
  fs_nodes_send_all(nodes, m);
  nodes->lead->adopted = true;
  return fs_lead_answers(nodes, FS_NODES_ADOPTED);
}

int fs_lead_run(struct fs_nodes *n, int argc, char **argv) {
  static struct fs_pack_nodes functions = {.walk = walk,
                                           .scan = scan,
                                           .held = held,
                                           .begin = begin,
                                           .window = window,
                                           .step = step,
                                           .stored = stored,
                                           .finish = finish,
                                           .seal = seal,
                                           .adopt = adopt,
                                           .leave = leave};
  struct fs_lead *lead = n->lead = calloc(1, sizeof *lead);
  if (lead != NULL) lead->peer = calloc(n->nodes, sizeof *lead->peer);
  if (lead == NULL || lead->peer == NULL) return FS_EXIT_FAILED;
  nodes = n;
  n->check = check_silence;
  n->handler[FS_NODES_ENCODED] = on_encoded;
  n->handler[FS_NODES_KEPT] = on_kept;
  n->handler[FS_NODES_STATES] = on_states;
  fs_answers_begin(n);
  functions.nodes = n->nodes;
  fs_checkpoints_begin(n, &functions);
  fs_pack_nodes = &functions;
  int status = fs_prep_pack(argc, argv);
  bool packed = status == FS_EXIT_OK || status == FS_EXIT_LEFT_OUT;
  if (packed && lead->adopted) fs_lead_summary(n);
  leave(false);
  return packed ? fs_prep_finish(status) : status;
}
