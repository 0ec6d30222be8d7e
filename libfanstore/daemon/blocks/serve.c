/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers other nodes' requests (ipc/wire.h) with stored bytes of the partitions that are staged
 * here, or with bytes of output files. The MPI thread reads what the page cache has, or sends it
 * from there (partitions.h), and leaves the rest to the I/O pool. Jobs and reply buffers are
 * bounded: when they are used up, no receive is posted, and requests wait in MPI at their senders'
 * cost. Replies that nobody takes, since a peer has died or hangs, are put aside and do not count.
 * Every field of a request is checked.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/stagein/stagein.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_JOBS 256u
#define FS_POSTED 32u /* receives waiting for requests */
/* jobs put aside at most; a peer has 64 requests under way at most */
#define FS_ASIDE 2048u
/* time after which a reply is put aside, or two deadlines if that is longer */
#define FS_ASIDE_NS 1000000000ull
#define FS_REPLY_BYTES (64u << 20)
/* for tests: delays each reply by so many microseconds */
#define FS_DELAY_ENV "FANSTORE_TEST_DELAY_US"

struct fs_job {
  struct fs_net_op recv, send;
  struct fs_chain chain; /* link in the list of free, hungry, delayed or sending jobs */
  struct fs_daemon *d;
  struct fs_io io;
  struct fs_wire_req req;
  struct fs_wire_rep bare; /* the whole reply, when it is an error or a pong */
  struct fs_reply *reply;
  uint64_t xxh3; /* checksum of what was read of an output file */
  /* what a successful bare read sends, in the reply buffer or the partition itself */
  const void *bytes;
  uint32_t peer;
  uint32_t asked; /* length asked of an output file, which may be shorter */
  uint64_t due;   /* when a delayed reply is sent */
  uint64_t sent;  /* when the sending began */
  bool aside;
  bool staged; /* the backing file is a link to a staged-in file */
};

struct fs_reply { /* a reply buffer; free ones are linked through it */
  struct fs_wire_rep rep;
  unsigned char data[];
};

struct fs_server {
  struct fs_job job[FS_JOBS];
  struct fs_chain free_jobs, hungry, delayed, sending;
  struct fs_chain spare_jobs; /* made in place of jobs put aside, and not needed now */
  uint32_t posted, running, aside;
  size_t reply_size;
  uint32_t replies, replies_most; /* made so far, at most */
  uint32_t nfree;
  struct fs_reply **free_reply;
  uint64_t delay_ns;
  bool memory[FS_MAX_DATASETS]; /* the partitions are in memory: reading never blocks */
};

static void fs_job_post(struct fs_server *s);

static struct fs_reply *fs_reply_take(struct fs_server *s) {
  if (s->nfree > 0) return s->free_reply[--s->nfree];
  if (s->replies >= s->replies_most) return NULL;
  void *p = mmap(NULL, s->reply_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  s->replies++;
  return p;
}

/* Takes back a job that was put aside and whose reply was taken after all. Another job has its
   place by now. */
static void fs_job_back(struct fs_job *j) {
  struct fs_server *s = j->d->server;
  if (j->reply) {
    munmap(j->reply, s->reply_size);
    s->replies--;
    s->replies_most--;
  }
  j->reply = NULL;
  j->aside = false;
  s->aside--;
  s->running++;
  fs_chain_push(&s->spare_jobs, &j->chain);
}

static void fs_job_free(struct fs_job *j) {
  struct fs_server *s = j->d->server;
  bool aside = j->aside;
  fs_chain_drop(&j->chain);
  if (aside) fs_job_back(j);
  if (j->reply) s->free_reply[s->nfree++] = j->reply;
  j->reply = NULL;
  j->bytes = NULL;
  j->xxh3 = 0;
  s->running--;
  if (!aside) fs_chain_push(&s->free_jobs, &j->chain);
}

/* ---- replying ---- */

static void fs_job_sent(struct fs_net_op *op, uint32_t peer, uint64_t bytes, fs_err err) {
  struct fs_job *j = FS_ITEM(op, struct fs_job, send);
  (void)peer, (void)bytes, (void)err;
  fs_job_free(j);
}

static void fs_job_send(struct fs_job *j) {
  struct fs_daemon *d = j->d;
  const struct fs_wire_rep *rep = j->reply ? &j->reply->rep : &j->bare;
  const void *message = j->bytes ? j->bytes : rep;
  size_t bytes = j->bytes ? j->req.length : sizeof(*rep) + rep->length;
  if (j->bytes || rep->length > 0) {
    d->count.served++;
    d->count.served_bytes += j->req.length;
  }
  j->sent = d->now;
  if (fs_net_send(d->net, j->peer, j->req.tag, message, bytes, &j->send) < 0)
    fs_job_free(j);
  else
    fs_chain_push(&d->server->sending, &j->chain);
}

static void fs_job_reply(struct fs_job *j, fs_err err) {
  struct fs_server *s = j->d->server;
  if (err < 0 && j->reply) {
    s->free_reply[s->nfree++] = j->reply;
    j->reply = NULL;
  }
  if (j->reply && j->req.type == FS_WIRE_READ_BARE) j->bytes = j->reply->data;
  struct fs_wire_rep *rep = j->reply ? &j->reply->rep : &j->bare;
  *rep = (struct fs_wire_rep){.magic = FS_WIRE_MAGIC,
                              .version = FS_WIRE_VERSION,
                              .type = j->req.type,
                              .id = j->req.id,
                              .err = err,
                              .length = j->reply ? j->req.length : 0,
                              .xxh3 = j->xxh3};
  if (s->delay_ns == 0) {
    fs_job_send(j);
    return;
  }
  j->due = j->d->now + s->delay_ns;
  fs_chain_push(&s->delayed, &j->chain);
}

/* ---- reading ---- */

static void fs_job_read_done(struct fs_io *io) {
  struct fs_job *j = FS_ITEM(io, struct fs_job, io);
  if (io->err < 0 && j->req.type != FS_WIRE_READ_OUTPUT)
    fs_part_failed(j->d, j->req.dataset, j->req.partition, io->err);
  fs_job_reply(j, io->err);
}

/* Reads as many bytes as there are, and their checksum. A thread of the pool runs it. */
static fs_err fs_job_output_work(struct fs_io *io) {
  struct fs_job *j = FS_ITEM(io, struct fs_job, io);
  char name[FS_BACKING_NAME_SIZE];
  FS_AUTO_CLOSE fs_fd fd = j->staged ? fs_sys_openat(j->d->backing_fd, fs_backing_name(j->req.file, name),
                                                     O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0)
                                     : fs_backing_file_open(j->d, j->req.file, O_RDONLY | O_NONBLOCK);
  uint32_t got = 0;
  fs_ssize n = 1;
  if (fd < 0) return fd;
  while (n > 0 && got < j->req.length) {
    n = fs_sys_pread(fd, j->reply->data + got, j->req.length - got, j->req.offset + got);
    if (n == -EINTR)
      n = 1;
    else if (n < 0)
      return (fs_err)n;
    else
      got += (uint32_t)n;
  }
  j->req.length = got;
  j->xxh3 = fs_xxh3(j->reply->data, got);
  return 0;
}

/* Some of these bytes may have moved to a segment during the read; then the answer is -ESTALE. */
static void fs_job_output_done(struct fs_io *io) {
  struct fs_job *j = FS_ITEM(io, struct fs_job, io);
  if (io->err == 0 && !fs_backing_same_map(j->d, j->req.file, j->req.list, j->req.offset, j->asked)) io->err = -ESTALE;
  fs_job_read_done(io);
}

static void fs_job_staged_done(struct fs_io *io) {
  fs_stagein_has_read(FS_ITEM(io, struct fs_job, io)->d);
  fs_job_output_done(io);
}

static void fs_job_output(struct fs_job *j) {
  const struct fs_backing_file *f = fs_backing_find(j->d, j->req.file);
  j->staged = f && f->in;
  j->asked = j->req.length;
  j->io = (struct fs_io){.work = fs_job_output_work, .done = j->staged ? fs_job_staged_done : fs_job_output_done};
  if (!j->staged)
    fs_iopool_submit(&j->d->pool, &j->io);
  else if (!fs_stagein_read(j->d, &j->io))
    fs_job_reply(j, -EIO);
}

/* Reads the block if that does not block. Returns false if it would, or on an error. */
static bool fs_job_read_now(struct fs_job *j, int fd) {
  struct fs_server *s = j->d->server;
  struct iovec iov = {.iov_base = j->reply->data, .iov_len = j->req.length};
  if (fd < 0) return false;
  if (s->memory[j->req.dataset]) return fs_pread_full(fd, iov.iov_base, iov.iov_len, j->req.offset) == 0;
  return preadv2(fd, &iov, 1, (off_t)j->req.offset, RWF_NOWAIT) == (ssize_t)iov.iov_len;
}

/* Reads the block into a reply buffer. */
static void fs_job_read(struct fs_job *j) {
  struct fs_daemon *d = j->d;
  j->reply = fs_reply_take(d->server);
  if (!j->reply) {
    fs_chain_push(&d->server->hungry, &j->chain);
    return;
  }
  if (j->req.type == FS_WIRE_READ_OUTPUT) {
    fs_job_output(j);
    return;
  }
  struct fs_dataset *ds = &d->data[j->req.dataset];
  int fd = ds->fd[j->req.partition];
  if (fs_job_read_now(j, fd)) {
    fs_job_reply(j, 0);
    return;
  }
  j->io = (struct fs_io){.fd = fd,
                         .dir = ds->stage.local,
                         .part = j->req.partition,
                         .len = j->req.length,
                         .off = j->req.offset,
                         .buf = j->reply->data,
                         .done = fs_job_read_done};
  fs_iopool_submit(&d->pool, &j->io);
}

/* ---- sending out of the partition itself ---- */

static void fs_job_mapped_done(struct fs_io *io) {
  struct fs_job *j = FS_ITEM(io, struct fs_job, io);
  fs_part_read(j->d, j->req.dataset, j->req.partition, io->span, io->err);
  if (io->err < 0) {
    fs_job_read(j);
    return;
  }
  j->bytes = fs_part_bytes(j->d, j->req.dataset, j->req.partition, j->req.offset);
  fs_job_reply(j, 0);
}

static void fs_job_take(struct fs_job *j) {
  struct fs_daemon *d = j->d;
  const struct fs_wire_req *r = &j->req;
  const void *bytes = r->type == FS_WIRE_READ_BARE ? fs_part_bytes(d, r->dataset, r->partition, r->offset) : NULL;
  if (!bytes) {
    fs_job_read(j);
  } else if (fs_pages_resident(bytes, r->length)) {
    j->bytes = bytes;
    fs_job_reply(j, 0);
  } else {
    j->io = (struct fs_io){.span = fs_part_missing(d, r->dataset, r->partition, r->offset, r->length),
                           .done = fs_job_mapped_done};
    if (j->io.span.len > 0)
      fs_iopool_submit(&d->pool, &j->io);
    else
      fs_job_read(j); /* no room: pages read now may be evicted before they are sent */
  }
}

/* ---- requests ---- */

static fs_err fs_job_check(const struct fs_daemon *d, const struct fs_wire_req *r) {
  if (r->type == FS_WIRE_READ_OUTPUT) {
    bool sane = r->length > 0 && r->length <= FS_OUTPUT_BLOCK && r->offset <= (uint64_t)INT64_MAX - r->length;
    return sane && fs_backing_mine(d, r->file) ? 0 : -EINVAL;
  }
  if (r->type != FS_WIRE_READ && r->type != FS_WIRE_READ_BARE) return -EINVAL;
  if (r->dataset >= d->datasets) return -EINVAL;
  const struct fs_dataset *ds = &d->data[r->dataset];
  if (r->partition >= ds->partitions || !ds->have[r->partition]) return -ENOENT;
  uint64_t size = ds->stage.index.parts[r->partition].size;
  if (r->length == 0 || r->length > ds->max_stored || r->length > size || r->offset > size - r->length) return -EINVAL;
  return 0;
}

static bool fs_job_understood(const struct fs_daemon *d, const struct fs_wire_req *r, uint64_t bytes) {
  return bytes == sizeof(*r) && r->magic == FS_WIRE_MAGIC && r->version == FS_WIRE_VERSION &&
         r->tag >= FS_TAG_REPLY_FIRST && r->tag <= d->net->tag_max && r->sum == fs_wire_sum(r, 0);
}

static void fs_job_received(struct fs_net_op *op, uint32_t peer, uint64_t bytes, fs_err err) {
  struct fs_job *j = FS_ITEM(op, struct fs_job, recv);
  struct fs_daemon *d = j->d;
  d->server->posted--;
  d->server->running++;
  j->peer = peer;
  if (err < 0 || peer >= d->net->nodes || !fs_job_understood(d, &j->req, bytes)) {
    d->count.dropped++;
    fs_job_free(j); /* no address for a reply is known */
  } else if (j->req.type == FS_WIRE_PING) {
    fs_job_reply(j, 0);
  } else {
    fs_err bad = fs_job_check(d, &j->req);
    if (bad < 0)
      fs_job_reply(j, bad);
    else
      fs_job_take(j);
  }
  fs_job_post(d->server);
}

static void fs_job_post(struct fs_server *s) {
  while (s->posted < FS_POSTED && !fs_chain_empty(&s->free_jobs)) {
    struct fs_job *j = FS_ITEM(fs_chain_pop(&s->free_jobs), struct fs_job, chain);
    if (fs_net_recv(j->d->net, FS_NET_ANY, FS_TAG_REQUEST, &j->req, sizeof(j->req), &j->recv) < 0) {
      fs_chain_push(&s->free_jobs, &j->chain);
      return;
    }
    s->posted++;
  }
}

static void fs_job_init(struct fs_daemon *d, struct fs_job *j) {
  j->d = d;
  j->recv.done = fs_job_received;
  j->send.done = fs_job_sent;
  fs_chain_init(&j->chain);
}

/* Puts aside a job whose reply nobody has taken for long. Another job and another buffer take
   its place. */
static bool fs_job_put_aside(struct fs_job *j) {
  struct fs_server *s = j->d->server;
  struct fs_chain *link = fs_chain_pop(&s->spare_jobs);
  struct fs_job *spare = link ? FS_ITEM(link, struct fs_job, chain) : calloc(1, sizeof(*spare));
  if (!spare) return false;
  if (!link) fs_job_init(j->d, spare);
  fs_chain_push(&s->free_jobs, &spare->chain);
  fs_chain_drop(&j->chain);
  if (j->reply) s->replies_most++;
  j->aside = true;
  s->aside++;
  s->running--;
  return true;
}

static void fs_server_stuck(struct fs_daemon *d) {
  struct fs_server *s = d->server;
  uint64_t patience = FS_MAX(2 * d->cfg->deadline_ns, FS_ASIDE_NS);
  while (s->aside < FS_ASIDE && !fs_chain_empty(&s->sending)) {
    struct fs_job *j = FS_ITEM(s->sending.next, struct fs_job, chain);
    if (d->now - j->sent < patience || !fs_job_put_aside(j)) break;
  }
}

void fs_server_timers(struct fs_daemon *d) {
  struct fs_server *s = d->server;
  fs_server_stuck(d);
  while (!fs_chain_empty(&s->delayed)) {
    struct fs_job *j = FS_ITEM(s->delayed.next, struct fs_job, chain);
    if (d->now < j->due) break;
    fs_chain_drop(&j->chain);
    fs_job_send(j);
  }
  while (!fs_chain_empty(&s->hungry) && (s->nfree > 0 || s->replies < s->replies_most)) {
    struct fs_chain *link = fs_chain_pop(&s->hungry);
    fs_job_read(FS_ITEM(link, struct fs_job, chain));
    if (s->hungry.prev == link) break; /* it waits again, as there is no memory for a new buffer */
  }
  fs_job_post(s);
}

bool fs_server_busy(const struct fs_daemon *d) {
  return d->server->running > 0;
}

fs_err fs_server_new(struct fs_daemon *d) {
  struct fs_server *s = calloc(1, sizeof(*s));
  uint64_t delay_us;
  if (fs_parts_new(d) < 0) return -ENOMEM;
  const char *delay = getenv(FS_DELAY_ENV);
  if (!s) return -ENOMEM;
  if (delay && fs_parse_u64(delay, 0, 60000000, &delay_us) == 0) s->delay_ns = delay_us * 1000;
  uint32_t most = FS_OUTPUT_BLOCK;
  for (uint32_t i = 0; i < d->datasets; i++) {
    struct statfs fs;
    most = FS_MAX(most, d->data[i].max_stored);
    s->memory[i] = statfs(d->data[i].stage.local, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
  }
  s->reply_size = fs_round_up(sizeof(struct fs_reply) + most, 4096);
  s->replies_most = (uint32_t)FS_MIN(FS_MAX(FS_REPLY_BYTES / s->reply_size, 8u), FS_JOBS);
  s->free_reply = calloc(s->replies_most + FS_ASIDE, sizeof(*s->free_reply));
  if (!s->free_reply) return -ENOMEM;
  fs_chain_init(&s->free_jobs);
  fs_chain_init(&s->hungry);
  fs_chain_init(&s->delayed);
  fs_chain_init(&s->sending);
  fs_chain_init(&s->spare_jobs);
  for (uint32_t i = 0; i < FS_JOBS; i++) {
    fs_job_init(d, &s->job[i]);
    fs_chain_push(&s->free_jobs, &s->job[i].chain);
  }
  d->server = s;
  fs_job_post(s);
  return 0;
}
