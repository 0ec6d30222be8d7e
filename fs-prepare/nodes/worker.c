/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node's worker: its threads read and encode the batches that the lead hands out. The main thread
 * takes the lead's messages, tells it what a batch has become, and sends the stored bytes to the
 * owners when the lead has placed them. One mutex protects the two lists of jobs.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nodes.h"

#define HANGS_S 5   /* for the threads to end after a failure */
#define CHOICES 64u /* large files whose codec is known; each chunk of such a file comes alone */

struct job {
  uint64_t number; /* of the batch */
  struct fs_batch batch;
  struct fs_item items[FS_BATCH_CHUNKS];
  uint64_t item[FS_BATCH_CHUNKS]; /* the lead's numbers */
  struct fs_tree tree;
  struct fs_plan plan;
  struct job *next;
};

struct list {
  struct job *first, **last;
};

struct fs_worker {
  pthread_mutex_t lock;
  pthread_cond_t more;
  struct list ready, done; /* to be encoded; encoded */
  struct job *waiting;     /* for FS_NODES_PLACED */
  struct job *idle;
  const struct fs_plan *plan;
  struct fs_msg **to; /* [rank]: FS_NODES_BYTES that is being made */
  struct {
    pthread_mutex_t choosing; /* taken without `lock` */
    uint64_t item1;           /* item + 1 */
    uint8_t choice;
  } known[CHOICES];
  bool stop;
  unsigned nthreads;
  pthread_t *threads;
};

static void list_add(struct list *l, struct job *j) {
  j->next = NULL;
  *l->last = j;
  l->last = &j->next;
}

static struct job *list_take(struct list *l) {
  struct job *j = l->first;
  if (j == NULL) return NULL;
  l->first = j->next;
  if (l->first == NULL) l->last = &l->first;
  return j;
}

/* Learns whether a large file is worth encoding. Each of its chunks is a job, and only the first one reads samples. */
static void choose(struct fs_worker *w, struct job *j, uint32_t i, struct fs_encoder *encoder) {
  const uint64_t item1 = j->item[i] + 1;
  const size_t at = j->item[i] % CHOICES;
  pthread_mutex_lock(&w->known[at].choosing);
  if (w->known[at].item1 == item1) {
    atomic_store(&j->items[i].choice, w->known[at].choice);
  } else {
    fs_choose_by_samples(&j->plan, &j->items[i], encoder);
    w->known[at].item1 = item1;
    w->known[at].choice = atomic_load(&j->items[i].choice); /* after an error none: the chunk will tell of it */
  }
  pthread_mutex_unlock(&w->known[at].choosing);
}

static void encode(struct fs_worker *w, struct job *j, uint8_t *plain, struct fs_encoder *encoder) {
  for (uint32_t i = 0; i < j->batch.n && j->batch.stream == NULL && encoder != NULL; i++)
    if (!j->batch.chunk[i].whole) choose(w, j, i, encoder);
  if (plain == NULL || encoder == NULL || fs_batch_room(&j->plan, &j->batch) < 0) {
    j->batch.n = 1;
    j->batch.err = -ENOMEM;
    if (j->batch.stream != NULL) fs_stream_fail(j->batch.stream, -ENOMEM);
  } else {
    fs_encode_batch(&j->plan, &j->batch, plain, encoder);
  }
}

static void *work(void *arg) {
  struct fs_worker *w = arg;
  FS_AUTO_FREE uint8_t *plain = malloc(fs_batch_plain(w->plan));
  struct fs_encoder *encoder = fs_encoder_new();
  pthread_mutex_lock(&w->lock);
  while (!w->stop) {
    struct job *j = list_take(&w->ready);
    if (j == NULL) {
      pthread_cond_wait(&w->more, &w->lock);
      continue;
    }
    pthread_mutex_unlock(&w->lock);
    encode(w, j, plain, encoder);
    pthread_mutex_lock(&w->lock);
    list_add(&w->done, j);
  }
  pthread_mutex_unlock(&w->lock);
  fs_encoder_free(encoder);
  return NULL;
}

/* A file's device has another number on each host. It is compared only on SOURCE's own one. */
static void read_item(struct fs_nodes *n, struct fs_item *item, struct fs_in *in) {
  free(item->path);
  *item = (struct fs_item){.path = strdup(fs_in_path(in))};
  item->source = fs_in_u32(in);
  if (item->source >= n->tree.nsources) {
    in->bad = true;
    item->source = 0;
  }
  const struct fs_source *src = &n->tree.sources[item->source];
  if (item->path != NULL && strlen(item->path) < src->skip) in->bad = true;
  item->size = fs_in_u64(in);
  if (item->size > INT64_MAX) in->bad = true;
  item->dev = fs_in_u32(in) != 0 ? fs_item_device(src->st.st_dev) : 0;
  item->ino = fs_in_u64(in);
  item->mtime_sec = (int64_t)fs_in_u64(in);
  item->mtime_nsec = fs_in_u32(in);
  item->mode = (uint16_t)fs_in_u32(in);
  uint32_t kind = fs_in_u32(in);
  item->kind = (uint8_t)FS_MIN(kind, FS_KINDS_MAX - 1);
  if (n->plan.codecs.of_kind[item->kind] >= n->plan.codecs.n) in->bad = true;
  item->followed = fs_in_u32(in) != 0;
  item->replicate = fs_in_u32(in) != 0;
}

static fs_err read_job(struct fs_nodes *n, struct job *j, struct fs_in *in) {
  uint64_t bytes = 0;
  j->number = fs_in_u64(in);
  j->batch.n = fs_in_u32(in);
  j->batch.err = 0;
  if (j->batch.n == 0 || j->batch.n > FS_BATCH_CHUNKS) return -EPROTO;
  for (uint32_t i = 0; i < j->batch.n && !in->bad; i++) {
    struct fs_item *item = &j->items[i];
    j->item[i] = fs_in_u64(in);
    read_item(n, item, in);
    if (item->path == NULL) return -ENOMEM;
    struct fs_chunk c = {.item = i};
    c.offset = fs_in_u64(in);
    c.plain_len = fs_in_u64(in);
    c.whole = c.plain_len == item->size;
    if (c.plain_len == 0 || c.plain_len > n->plan.chunk || c.offset > item->size || c.plain_len > item->size - c.offset)
      return -EPROTO;
    bytes += c.plain_len;
    j->batch.chunk[i] = c;
    if (fs_item_stream(&n->tree, item) != fs_item_stream(&n->tree, &j->items[0])) return -EPROTO;
  }
  j->batch.stream = in->bad ? NULL : fs_item_stream(&n->tree, &j->items[0]);
  if (j->batch.stream != NULL) j->batch.turn = fs_stream_turn(j->batch.stream);
  return in->bad || bytes > FS_MAX(n->plan.chunk, (uint64_t)FS_BATCH_BYTES) ? -EPROTO : 0;
}

static struct job *new_job(struct fs_worker *w) {
  struct job *j = w->idle != NULL ? w->idle : calloc(1, sizeof *j);
  if (w->idle != NULL) w->idle = j->next;
  return j;
}

static void begin_job(struct fs_worker *w, struct job *j) {
  pthread_mutex_lock(&w->lock);
  list_add(&w->ready, j);
  pthread_cond_signal(&w->more);
  pthread_mutex_unlock(&w->lock);
}

static fs_err on_work(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  struct fs_worker *w = n->worker;
  if (from != 0 || w == NULL) return -EPROTO;
  struct job *j = new_job(w);
  if (j == NULL) return -ENOMEM;
  j->plan = n->plan;
  j->tree = n->tree;
  j->tree.items = j->items;
  j->tree.n = FS_BATCH_CHUNKS;
  j->plan.tree = &j->tree;
  fs_err err = read_job(n, j, in);
  if (err == 0) {
    begin_job(w, j);
  } else {
    j->next = w->idle;
    w->idle = j;
  }
  return err;
}

static void put_chunk(struct fs_msg *m, const struct fs_plan *plan, const struct fs_chunk *c) {
  fs_msg_u32(m, (uint32_t)c->err);
  if (c->err < 0) return; /* --keep-going: the lead leaves the file out */
  fs_msg_u32(m, c->codec);
  fs_msg_u64(m, c->stored_len);
  fs_msg_u64(m, fs_second_hash(plan, c->stored, c->stored_len));
  fs_msg_u64(m, c->plain_xxh3);
  fs_msg_u64(m, c->plain_key);
  fs_msg_u32(m, c->nblocks);
  for (uint32_t i = 0; i < c->nblocks; i++) {
    fs_msg_u32(m, c->blocks[i].stored_len);
    fs_msg_u64(m, c->blocks[i].xxh3);
  }
}

static void tell_encoded(struct fs_nodes *n, struct job *j) {
  struct fs_msg *m = fs_msg_new(FS_NODES_ENCODED);
  fs_msg_u64(m, j->number);
  fs_msg_u32(m, (uint32_t)j->batch.err);
  fs_msg_u32(m, j->batch.n);
  for (uint32_t i = 0; i < j->batch.n; i++) {
    bool failed = j->batch.err < 0 && i + 1 == j->batch.n;
    if (!failed) put_chunk(m, &j->plan, &j->batch.chunk[i]);
  }
  if (j->batch.err == -EBADMSG && j->batch.stream != NULL) fs_msg_text(m, fs_stream_why(j->batch.stream));
  j->next = n->worker->waiting;
  n->worker->waiting = j;
  fs_nodes_send(n, 0, m);
}

static void tick(struct fs_nodes *n) {
  struct fs_worker *w = n->worker;
  for (;;) {
    pthread_mutex_lock(&w->lock);
    struct job *j = list_take(&w->done);
    pthread_mutex_unlock(&w->lock);
    if (j == NULL) return;
    tell_encoded(n, j);
    n->moved = true;
  }
}

#define BYTES_COUNT_AT 12u /* in FS_NODES_BYTES: after its kind and the batch's number */

struct place {
  uint32_t part;
  uint64_t seq, offset;
};

static void add_piece(struct fs_nodes *n, uint32_t rank, const struct job *j, const struct fs_chunk *c,
                      const struct place *at) {
  struct fs_msg **m = &n->worker->to[rank];
  uint32_t count = 0;
  if (*m == NULL) {
    *m = fs_msg_new(FS_NODES_BYTES);
    fs_msg_u64(*m, j->number);
    fs_msg_u32(*m, 0);
  }
  if (*m != NULL && !(*m)->failed) memcpy(&count, (*m)->data + BYTES_COUNT_AT, sizeof count);
  fs_msg_patch_u32(*m, BYTES_COUNT_AT, count + 1);
  fs_msg_u32(*m, at->part);
  fs_msg_u64(*m, at->seq);
  fs_msg_u64(*m, at->offset);
  fs_msg_u64(*m, c->stored_len);
  fs_msg_put(*m, c->stored, c->stored_len);
}

static struct job *take_waiting(struct fs_worker *w, uint64_t number) {
  for (struct job **at = &w->waiting; *at != NULL; at = &(*at)->next)
    if ((*at)->number == number) {
      struct job *j = *at;
      *at = j->next;
      return j;
    }
  return NULL;
}

static fs_err on_placed(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  struct fs_worker *w = n->worker;
  struct job *j = from == 0 && w != NULL && n->nodes != 0 ? take_waiting(w, fs_in_u64(in)) : NULL;
  if (j == NULL) return -EPROTO;
  j->next = w->idle;
  w->idle = j;
  if (fs_in_u32(in) != j->batch.n) return -EPROTO;
  for (uint32_t i = 0; i < j->batch.n; i++) {
    struct place at;
    at.part = fs_in_u32(in);
    at.seq = fs_in_u64(in);
    at.offset = fs_in_u64(in);
    if (in->bad) return -EPROTO;
    if (at.part == FS_NOWHERE) continue;
    if (at.part >= n->plan.nparts + n->plan.nreplicated) return -EPROTO;
    if (at.part < n->plan.nparts) add_piece(n, fs_nodes_owner(&n->plan, n->nodes, at.part), j, &j->batch.chunk[i], &at);
    for (uint32_t r = 0; at.part >= n->plan.nparts && r < n->nodes; r++) add_piece(n, r, j, &j->batch.chunk[i], &at);
  }
  for (uint32_t r = 0; r < n->nodes; r++) {
    if (w->to[r] != NULL) fs_nodes_send(n, r, w->to[r]);
    w->to[r] = NULL;
  }
  return 0;
}

void fs_codecs_send(struct fs_nodes *n, const struct fs_pack_codecs *c) {
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

/* The rows come in order, before the first batch. Each has its own copy of its dictionary. */
static fs_err on_codec(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  struct fs_pack_codecs *c = &n->plan.codecs;
  uint32_t number = fs_in_u32(in);
  if (from != 0 || n->worker == NULL || number != c->n || number >= FS_CODEC_ROWS_MAX) return -EPROTO;
  struct fs_encoding e = {.family = (uint8_t)fs_in_u32(in)};
  e.element = (uint8_t)fs_in_u32(in);
  e.level = (int)fs_in_u32(in);
  e.dict_len = fs_in_u32(in);
  const void *dict = fs_in_get(in, e.dict_len);
  if (in->bad || e.family > FS_FAMILY_ZSTD || !fs_element_known(e.element)) return -EPROTO;
  if (e.level < FS_LEVEL_NONE || e.level > (e.family == FS_FAMILY_ZSTD ? FS_ZSTD_LEVEL_MAX : FS_LZ4_LEVEL_MAX))
    return -EPROTO;
  if (e.dict_len != 0) {
    void *copy = malloc(e.dict_len);
    if (copy == NULL) return -ENOMEM;
    memcpy(copy, dict, e.dict_len);
    e.dict = copy;
  }
  c->row[number] = e;
  c->n++;
  return e.level != FS_LEVEL_NONE ? fs_encoding_prepare(&c->row[number]) : 0;
}

void fs_encoder_begin(struct fs_nodes *n) {
  n->handler[FS_NODES_CODEC] = on_codec;
  n->handler[FS_NODES_WORK] = on_work;
  n->handler[FS_NODES_PLACED] = on_placed;
}

fs_err fs_encoder_start(struct fs_nodes *n) {
  struct fs_worker *w = n->worker = calloc(1, sizeof *w);
  if (w == NULL) return -ENOMEM;
  w->plan = &n->plan;
  w->ready.last = &w->ready.first;
  w->done.last = &w->done.first;
  w->to = calloc(n->nodes, sizeof *w->to);
  w->threads = calloc(n->o.jobs, sizeof *w->threads);
  if (w->to == NULL || w->threads == NULL) return -ENOMEM;
  pthread_mutex_init(&w->lock, NULL);
  for (size_t i = 0; i < CHOICES; i++) pthread_mutex_init(&w->known[i].choosing, NULL);
  pthread_cond_init(&w->more, NULL);
  while (w->nthreads < n->o.jobs && fs_prep_thread(&w->threads[w->nthreads], work, w)) w->nthreads++;
  n->tick = tick;
  return w->nthreads != 0 ? 0 : -EAGAIN;
}

/* After a signal the process ends at once: a read may hang. */
void fs_encoder_stop(struct fs_nodes *n) {
  struct fs_worker *w = n->worker;
  if (w == NULL || fs_prep_signal != 0) return;
  pthread_mutex_lock(&w->lock);
  w->stop = true;
  pthread_cond_broadcast(&w->more);
  pthread_mutex_unlock(&w->lock);
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += HANGS_S;
  for (unsigned i = 0; i < w->nthreads; i++)
    if (pthread_timedjoin_np(w->threads[i], NULL, &until) != 0) _exit(FS_EXIT_FAILED); /* a read of SOURCE hangs */
  w->nthreads = 0;
}
