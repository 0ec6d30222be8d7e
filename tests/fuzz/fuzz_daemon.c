/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A whole daemon but for MPI, and all that it hears: the input is a story of messages from two other nodes (requests,
 * replies, names of output files, replicas), of what a client writes into its channel (requests, pins, the ring of
 * wanted blocks, calls about names) and of time. Messages are mostly what such messages look like, else they get no
 * further than the door. It must live on, and no client must be given a block of a dataset that is not what the index
 * says.
 *
 * The daemon is the same for up to 5,000 inputs, so a fault need not come again with the input that it is told with.
 * When the other nodes have been taken for dead, which none comes back from, there is soon a new one.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "../unit/net_fixture.h"
#include "daemon/blocks/fetch.h"
#include "daemon/metadata/ns_priv.h"
#include "daemon/module.h"
#include "daemon/outputs/backing.h"
#include "daemon/outputs/forwarder.h"
#include "daemon/outputs/locks.h"
#include "daemon/outputs/node_segment.h"
#include "daemon/outputs/open_files.h"
#include "daemon/outputs/service.h"
#include "daemon/outputs/written.h"
#include "daemon/replicas/replicas.h"
#include "daemon/sample/sample.h"
#include "daemon/stagein/stagein.h"
#include "daemon/stageout/stageout.h"
#include "fuzz_calls.h"
#include "index/builder.h"
#include "util/sys.h"
#include "util/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BLOCKS 40u
#define SEGMENT_SIZE (1u << 20)
#define LIVES 5000u
#define ALONE 100u
#define QUESTIONS 16u

static struct fs_daemon *d;
static struct fs_daemon_config config;
static struct fs_cache_view view;
static void *slab;
static uint64_t slab_size;
static char dir[256];
static unsigned char segment[SEGMENT_SIZE];
static uint64_t order[RANKS];                                      /* of names' messages to us */
static struct question { uint64_t id, rank; } question[QUESTIONS]; /* that the daemon asked, the last ones */
static uint32_t questions;
static bool not_taken;

/* ---- the daemon ---- */

static void make_index(struct fs_index *ix) {
  static struct fs_built_block blocks[BLOCKS];
  struct fs_built_block one = {4096, fs_xxh3(segment + 4096, 500), 500, 0};
  struct fs_builder *b = fs_builder_new(FS_BLOCK_SIZE_MIN, FS_ALIGN);
  const struct fs_part_rec rec = {.size = SEGMENT_SIZE};
  char why[256];
  void *out;
  uint64_t size;
  for (uint32_t i = 0; i < BLOCKS; i++) {
    uint32_t len = i % 4 == 0 ? FS_BLOCK_SIZE_MIN : 700 + i;
    blocks[i] = (struct fs_built_block){8192 + i * FS_BLOCK_SIZE_MIN, 0, len, i % 2};
    blocks[i].xxh3 = fs_xxh3(segment + blocks[i].offset, len);
  }
  const struct fs_build_file files[] = {
      {.path = "", .mode = S_IFDIR | 0755},
      {.path = "d", .mode = S_IFDIR | 0755},
      {.path = "d/one", .mode = S_IFREG | 0644, .size = 500, .blocks = &one, .nblocks = 1},
      {.path = "d/many",
       .mode = S_IFREG | 0644,
       .size = BLOCKS * FS_BLOCK_SIZE_MIN,
       .codec = FS_CODEC_LZ4,
       .blocks = blocks,
       .nblocks = BLOCKS}};
  for (size_t i = 0; i < FS_ARRAY_LEN(files); i++)
    if (fs_builder_add(b, &files[i]) < 0) abort();
  if (fs_builder_part(b, &rec) < 0 || fs_builder_part(b, &rec) < 0) abort();
  if (fs_builder_finish(b, &out, &size, why, sizeof(why)) < 0 || fs_index_attach(out, size, ix, NULL, 0) < 0) abort();
  fs_builder_free(b);
}

static void make_segment(int number) {
  char path[300];
  snprintf(path, sizeof(path), "%s/part-%05d", dir, number);
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || fs_write_full(fd, segment, SEGMENT_SIZE) < 0) abort();
  if (fdatasync(fd) == 0) (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* not in memory at first */
  d->data[0].fd[number] = fd;
}

static void add_client(unsigned k) {
  fs_err err;
  int fd;
  client[k] = fs_clients_add(d, 100 + k, &fd, &err);
  if (!client[k]) abort();
  close(fd);
}

/* What its threads may still have is left: the descriptors of its directory, and itself. */
static void stop(void) {
  char path[300];
  while (d->fetcher->reading > 0) (void)fs_iopool_reap(&d->pool);
  for (unsigned k = 0; k < CLIENTS; k++) fs_clients_forget(d, client[k]);
  fs_clients_bury(d);
  munmap(slab, slab_size);
  fs_cache_free(d->cache);
  free(d->fetcher->peer);
  free(d->fetcher);
  close(d->data[0].fd[0]);
  snprintf(path, sizeof(path), "%s/part-%05d", dir, 0);
  unlink(path);
}

/* Partition 0 is here and on node 1, partition 1 on nodes 1 and 2. */
static void start(void) {
  static unsigned lives;
  struct fs_dataset *ds;
  if (d) stop();
  signal(SIGIO, SIG_IGN); /* of leases, as in a daemon */
  memset((void *)&world, 0, sizeof(world));
  memset(order, 0, sizeof(order));
  questions = 0;
  world.net = (struct fs_net){.ops = &fake_ops, .rank = 0, .nodes = RANKS, .tag_max = 32767, .arrivals = -1};
  config = (struct fs_daemon_config){.deadline_ns = 1000000000, .cache_bytes = 4 << 20, .replicas = true};
  config.job = "fuzz";
  if (lives & 1) config.cache_bytes = 448 << 10; /* which is full soon */
  world.net.copies = lives & 2;
  uint64_t now = d ? d->now : 1000000000000;
  d = calloc(1, sizeof(*d));
  d->cfg = &config;
  d->net = &world.net;
  d->now = now;
  d->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const char *tmp = getenv("TMPDIR");
  snprintf(dir, sizeof(dir), "%.200s/fuzz-%d-%u", tmp ? tmp : "/tmp", (int)getpid(), lives++);
  snprintf(d->backing, sizeof(d->backing), "%s/backing", dir);
  if (mkdir(dir, 0700) < 0 || mkdir(d->backing, 0700) < 0) abort();
  d->backing_fd = open(d->backing, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (mkdirat(d->backing_fd, FS_OUTPUT_DIR, 0700) < 0) abort();
  for (uint32_t i = 0; i < SEGMENT_SIZE; i++) segment[i] = (unsigned char)(i * 7 + i / 256 * 13);
  d->datasets = 1;
  ds = &d->data[0];
  make_index(&ds->stage.index);
  strcpy(ds->stage.local, dir);
  ds->partitions = 2;
  ds->max_stored = FS_BLOCK_SIZE_MIN;
  ds->have = calloc(2, sizeof(*ds->have));
  ds->fd = malloc(2 * sizeof(*ds->fd));
  ds->place = calloc(2, sizeof(*ds->place));
  ds->fd[1] = -1;
  ds->have[0] = d->passing = true;
  make_segment(0);
  ds->place[0] = (struct fs_placement){.owner = {0, 1}, .owners = 2, .flags = FS_PLACE_LOCAL};
  ds->place[1] = (struct fs_placement){.owner = {1, 2}, .owners = 2};
  static fs_err (*const start[])(struct fs_daemon *) = {
      fs_fetcher_new,    fs_server_new,     fs_leases_start,      fs_ctl_build,   fs_service_start,
      fs_backing_new,    fs_forwarders_new, fs_node_segments_new, fs_written_new, fs_open_files_new,
      fs_stageout_start, fs_stagein_start,  fs_replicas_start,    fs_locks_new,   fs_lock_holders_new,
      fs_sampler_new,    fs_peers_start};
  fs_err err = fs_cache_new(&d->cache, config.cache_bytes, FS_OUTPUT_BLOCK, fs_clients_pins, d);
  if (err == 0) err = fs_iopool_start(&d->pool, 1, d->wake);
  for (size_t i = 0; err == 0 && i < FS_ARRAY_LEN(start); i++) err = start[i](d);
  if (err < 0) abort();
  int fd = fs_cache_slab_fd(d->cache, &slab_size);
  slab = mmap(NULL, slab_size, PROT_READ, MAP_SHARED, fd, 0);
  if (slab == MAP_FAILED || fs_cache_view_init(&view, slab, slab_size, NULL, 0) < 0) abort();
  for (unsigned k = 0; k < CLIENTS; k++) add_client(k);
}

/* ---- messages ---- */

/* To the receive that is posted for it, if there is one. */
static void deliver(uint32_t from, uint32_t at, const void *bytes, size_t n) {
  struct message m = world.recv[at];
  if (n > m.bytes) return;
  memmove(&world.recv[at], &world.recv[at + 1], (--world.recvs - at) * sizeof(m));
  if (n > 0) memcpy(m.buf, bytes, n);
  m.op->done(m.op, from, n, byte() == 255 ? -EMSGSIZE : 0);
}

static void arrive(uint32_t from, uint32_t tag, const void *bytes, size_t n) {
  for (uint32_t i = 0; i < world.recvs; i++) {
    if (world.recv[i].tag != tag) continue;
    deliver(from, i, bytes, n);
    return;
  }
}

/* Some messages come in one packet with the next one. */
static void names_message(uint32_t from, struct fs_wire_names h, const void *body, size_t n) {
  static alignas(8) unsigned char packets[RANKS][2 * (sizeof(h) + FS_NAMES_BODY)];
  static size_t at[RANKS];
  h.magic = FS_WIRE_NAMES_MAGIC, h.version = FS_WIRE_VERSION, h.length = (uint32_t)n;
  if (h.order == 0) h.order = ++order[from];
  unsigned char *m = memset(packets[from] + at[from], 0, fs_wire_names_size(h.length));
  if (n > 0) memcpy(m + sizeof(h), body, n);
  memcpy(m, &h, sizeof(h));
  h.sum = fs_wire_sum(m, n);
  memcpy(m, &h, sizeof(h));
  at[from] += fs_wire_names_size(h.length);
  if (h.id % 4 == 1 && at[from] <= sizeof(packets[0]) / 4) return;
  arrive(from, FS_TAG_NAMES, packets[from], at[from]);
  at[from] = 0;
}

/* What the daemon has sent is done with, but for replies that nobody takes now. Pings are answered, else there were
   soon no other members. */
static void complete_sends(void) {
  uint32_t left = 0;
  while (world.sends > left) {
    struct message m = world.sent[left];
    if (not_taken && m.tag >= FS_TAG_REPLY_FIRST) {
      left++;
      continue;
    }
    static alignas(8) unsigned char packet[sizeof(struct fs_wire_names) + FS_NAMES_BODY];
    size_t bytes = m.tag == FS_TAG_NAMES ? m.bytes : 0;
    memcpy(packet, m.buf, bytes);
    memmove(&world.sent[left], &world.sent[left + 1], (--world.sends - left) * sizeof(m));
    m.op->done(m.op, m.peer, m.bytes, 0);
    for (size_t at = 0; at < bytes;) {
      const struct fs_wire_names *h = (void *)(packet + at);
      at += fs_wire_names_size(h->length);
      if (h->answer) continue;
      if (((const struct fs_names_call *)(h + 1))->op == FS_NAMES_PING)
        names_message(m.peer, (struct fs_wire_names){.answer = 1, .id = h->id, .set = h->set}, NULL, 0);
      else
        question[questions++ % QUESTIONS] = (struct question){h->id, m.peer};
    }
  }
}

static void a_request(uint32_t from) {
  struct fs_wire_req r;
  take(&r, sizeof(r));
  r.magic = FS_WIRE_MAGIC;
  r.version = FS_WIRE_VERSION;
  r.type = byte() % 7;
  r.tag = FS_TAG_REPLY_FIRST + r.tag % 2048;
  if (byte() & 3) { /* of something that there is */
    r.dataset = 0;
    r.partition %= 2;
    r.offset %= SEGMENT_SIZE;
    r.length %= FS_BLOCK_SIZE_MIN + 2;
    r.file = FS_OUTPUT_ID_MAKE(r.file % RANKS, r.file >> 8 & 7);
  }
  if (r.type == FS_WIRE_READ_PART) r.tag = FS_TAG_PIECE_FIRST + r.tag % 9;
  r.sum = fs_wire_sum(&r, 0);
  arrive(from, r.type == FS_WIRE_READ_PART ? FS_TAG_PART : FS_TAG_REQUEST, &r, sizeof(r) - (byte() == 1));
}

static void a_reply(void) {
  static unsigned char m[sizeof(struct fs_wire_rep) + FS_OUTPUT_BLOCK];
  uint32_t at[MESSAGES], n = 0;
  for (uint32_t i = 0; i < world.recvs; i++)
    if (world.recv[i].tag >= FS_TAG_REPLY_FIRST) at[n++] = i;
  if (n == 0) return;
  uint32_t i = at[byte() % n];
  struct fs_exchange *x = FS_ITEM(world.recv[i].op, struct fs_exchange, recv);
  struct fs_wire_rep rep = {.magic = FS_WIRE_MAGIC, .version = FS_WIRE_VERSION, .type = x->req.type, .id = x->req.id};
  uint8_t how = byte();
  size_t bytes = x->req.length, head = x->req.type == FS_WIRE_READ_BARE ? 0 : sizeof(rep);
  rep.length = (uint32_t)bytes;
  if (bytes > FS_OUTPUT_BLOCK) abort();
  if (x->req.file == 0 && x->req.offset + bytes <= SEGMENT_SIZE)
    memcpy(m + head, segment + x->req.offset, bytes);
  else
    memset(m + head, 7, bytes);
  rep.xxh3 = fs_xxh3(m + head, bytes);
  if (how & 1) take(m + head + word() % (bytes + 1), FS_MIN(bytes / 2, 16u)); /* bytes that need not be right */
  if (how & 2) take((char *)&rep + byte() % (sizeof(rep) - 8), 8);
  if (how & 4) bytes = word() % (bytes + 1);
  memcpy(m, &rep, head);
  deliver(how & 8 ? word() : x->peer, i, m, head + bytes);
}

/* What a client does before it tells of its file. */
static void a_backing(uint64_t id, uint64_t size) {
  char name[FS_BACKING_NAME_SIZE];
  int fd = openat(d->backing_fd, fs_backing_name(id, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd >= 0 && ftruncate(fd, (off_t)(size & 0xffff)) < 0) abort();
  if (fd >= 0) close(fd);
}

static void a_names_message(uint32_t from) {
  static alignas(8) char body[FS_NAMES_BODY];
  struct fs_wire_names h = {0};
  uint8_t how = byte();
  h.id = word();
  h.set = how & 1 ? byte() % 4 : d->ns->members.number;
  if (how & 2 && questions > 0) {
    uint32_t q = byte() % FS_MIN(questions, QUESTIONS);
    h.answer = 1;
    h.id = question[q].id;
    from = (uint32_t)question[q].rank % RANKS;
    h.err = (how & 68) == 4 ? -(int32_t)(byte()) : 0;
  }
  if (how & 8) h.order = order[from] + byte();
  size_t n = how & 16 ? 0 : how & 32 && h.answer ? a_record(body, 0) : a_call(body);
  names_message(from, h, body, n);
}

/* Blocks of a replica, of as many files as there may be, in order mostly: and the word that these were all. */
static void a_replica(uint32_t from) {
  static struct {
    struct fs_wire_replica h;
    unsigned char bytes[256];
  } m;
  static alignas(8) char body[FS_NAMES_BODY];
  static struct { uint32_t generation, sent; } file[RANKS][4];
  uint8_t how = byte(), k = how & 3, many = 1 + (how >> 2 & 3);
  if (how & 128) file[from][k].generation += 1 + (how >> 6 & 1), file[from][k].sent = 0;
  for (; many > 0 && !(how & 32); many--, file[from][k].sent++) {
    uint8_t odd = byte();
    m.h = (struct fs_wire_replica){.file = FS_OUTPUT_ID_MAKE(from, k), .generation = file[from][k].generation};
    m.h.offset = byte() * 64u;
    m.h.length = odd & 1 ? 0 : 1 + (odd >> 1 & 31);
    m.h.hole = odd & 1 ? word() & 0xfffff : 0;
    if (odd == 255) take(&m, sizeof(m));
    m.h.length %= 256;
    m.h.magic = FS_WIRE_REPLICA_MAGIC;
    m.h.version = FS_WIRE_VERSION;
    m.h.xxh3 = fs_xxh3(m.bytes, m.h.length) ^ (odd == 254);
    m.h.sum = fs_wire_sum(&m.h, 0);
    arrive(from, FS_TAG_REPLICA, &m, sizeof(m.h) + m.h.length + (odd == 253));
  }
  if (!(how & 64)) return;
  size_t n = a_call_of(body, FS_NAMES_REPLICA);
  struct fs_names_call *c = (void *)body;
  c->replica.id = FS_OUTPUT_ID_MAKE(from, k);
  c->replica.mode = S_IFREG | (c->replica.mode & 0777);
  c->replica.generation = file[from][k].generation;
  c->replica.blocks = file[from][k].sent + (c->replica.blocks == 3);
  names_message(from, (struct fs_wire_names){.id = word(), .set = d->ns->members.number}, body, n);
}

/* ---- clients ---- */

static void check_answers(struct fs_client *c) {
  for (uint32_t i = 0; i < FS_CHANNEL_SLOTS; i++) {
    struct fs_req *r = &c->channel->req[i];
    struct fs_block b;
    uint32_t len;
    if (c->waiter[i].busy || atomic_load(&r->state) != FS_REQ_DONE || r->err != 0) continue;
    uint64_t key = c->waiter[i].key; /* the channel's own may be another by now */
    const void *bytes = fs_cache_pinned(&view, key, r->line, &len);
    if (!bytes || key >> 41 != 0 || fs_index_block_by_key(&d->data[0].stage.index, key, &b) < 0) continue;
    if (len != b.stored_len || fs_xxh3(bytes, len) != b.xxh3) abort();
  }
}

static void a_post(struct fs_client *c) {
  uint32_t slot = byte() % FS_CHANNEL_SLOTS;
  struct fs_req *r = &c->channel->req[slot];
  uint8_t how = byte();
  if (c->waiter[slot].busy && !(how & 16)) return;
  if (!c->waiter[slot].busy) atomic_store(&c->channel->pin[slot], 0);
  atomic_fetch_or(&c->channel->claimed, 1ull << slot);
  r->key = how & 1 ? (uint64_t)word() << 32 | word() : FS_CACHE_KEY(0, FS_KEY_BLOCK | byte() % (BLOCKS + 1));
  if (how & 2) r->key = FS_CACHE_KEY(0, byte() % 5);
  if (how & 4) r->key = FS_OUTPUT_KEY(byte() % 4, byte() % 4);
  if (how & 64) r->key ^= FS_OUTPUT_GRAIN_KEY(0, 0) ^ FS_OUTPUT_KEY(0, 0);
  r->flags = (how & 8 ? FS_REQ_PREFETCH : 0) | (how & 128 ? FS_REQ_PATIENT : 0);
  atomic_store(&r->state, how & 32 ? byte() % 6 : FS_REQ_POSTED);
  atomic_fetch_or(&c->channel->posted, 1ull << slot);
}

/* Notes a range as written. */
static void a_write(struct fs_client *c, uint8_t how) {
  struct fs_written *w = &c->channel->written[how % 4];
  atomic_fetch_or(&c->channel->written_claimed, 1u << how % 4);
  if (how & 8) atomic_store(&w->file, an_id());
  if (how & 8) atomic_store(&w->segment, an_id());
  (void)fs_written_note(w, word() & 0xfffff, how & 16 ? (uint64_t)word() << 32 | word() : 1ull + byte());
}

static void a_want(struct fs_client *c) {
  uint8_t how = byte();
  if (how & 64) {
    a_write(c, byte());
    return;
  }
  uint64_t waited = FS_WAIT_FILE(how & 2, how >> 2 & 7, byte()); /* a read that waited */
  if (how & 128) atomic_store(&c->channel->wait[c->waits_tail % FS_WAIT_RING].file, waited);
  uint32_t at = atomic_fetch_add(&c->channel->prefetch_head, 1);
  uint64_t key = how & 1 ? (uint64_t)word() << 32 | word() : FS_CACHE_KEY(0, FS_KEY_BLOCK | byte() % BLOCKS);
  atomic_store(&c->channel->prefetch[at % FS_PREFETCH_RING], key + 1);
}

static void a_call_slot(struct fs_client *c) {
  uint32_t i = byte() % FS_CHANNEL_CALLS;
  struct fs_call_slot *b = &c->channel->call_slot[i];
  b->length = (uint32_t)a_call(b->body);
  uint8_t how = byte();
  const struct fs_names_call *call = (const void *)b->body;
  uint64_t id = call->op < FS_NAMES_OPS && fs_call_op(call)->id ? fs_call_id(call) : 0;
  if (how & 8 && fs_id_ok(id)) a_backing(id, call->publish.size);
  if (how & 1) b->length = word();
  atomic_fetch_or(&c->channel->calls_claimed, 1u << i);
  atomic_store(&b->state, how & 2 ? byte() % 6 : FS_REQ_POSTED);
  atomic_fetch_or(&c->channel->calls_posted, how & 4 ? UINT32_MAX : 1u << i);
}

/* Writes anything anywhere but over the counters: those are sums, of which nothing follows. */
static void a_scribble(struct fs_client *c) {
  size_t n = byte() % 32, at = word() % (sizeof(struct fs_channel) - 32);
  take((char *)c->channel + at, n);
}

static void a_death(unsigned k) {
  fs_clients_forget(d, client[k]);
  fs_clients_bury(d);
  add_client(k);
}

static void turn(void) {
  (void)fs_modules_run(d);
  complete_sends();
  for (unsigned k = 0; k < CLIENTS; k++) check_answers(client[k]);
}

static void an_event(void) {
  uint8_t what = byte();
  uint32_t from = 1 + (what >> 4) % (RANKS - 1);
  struct fs_client *c = client[(what >> 4) % CLIENTS];
  switch (what & 15) {
  case 0:
    a_request(from);
    break;
  case 1:
  case 2:
    a_reply();
    break;
  case 3:
  case 4:
    a_names_message(from);
    break;
  case 5:
    a_replica(from);
    break;
  case 6:
  case 7:
    a_post(c);
    break;
  case 8:
    a_want(c);
    break;
  case 9:
  case 10:
    a_call_slot(c);
    break;
  case 11:
    a_scribble(c);
    break;
  case 12:
    a_death((what >> 4) % CLIENTS);
    break;
  case 13:
    d->now += (uint64_t)word() % (what >> 4 == 0 ? 2000000000 : 240000000); /* more, and it is the daemon that stood */
    break;
  case 14:
    world.refuse = what & 16 ? -EAGAIN : 0;
    not_taken = what & 32;
    break;
  default:
    d->now += 1000000;
  }
  turn();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static unsigned age = LIVES, alone;
  alone += d && d->ns->members.count == 1;
  if (age++ == LIVES || alone == ALONE) {
    start();
    age = alone = 0;
  }
  in = (struct input){data, size};
  world.refuse = 0;
  while (in.left > 0) an_event();
  world.refuse = 0;
  not_taken = false;
  turn();
  return 0;
}
