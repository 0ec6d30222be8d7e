/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network of daemon/core/net.h by MPI messages on MPI_COMM_WORLD: the only file that includes
 * <mpi.h>. All calls come from the thread that opened it (MPI_THREAD_FUNNELED: MULTIPLE costs a
 * fifth of the message rate). Active requests are dense in one array, for MPI_Testsome. Errors are
 * returned, never fatal: a dead rank must not end the others.
 */
#include <mpi.h>
#include <sys/epoll.h>

#include "daemon/core/net.h"
#include "daemon/mpi/abort.h"
#include "daemon/mpi/copies.h"
#include "daemon/mpi/sockets.h"

#define FS_MPI_OPS 8192 /* operations at once; all users together stay well below it */
#define FS_MPI_BATCH 64 /* completions taken by one poll */

struct fs_net_mpi {
  struct fs_net net;
  int active;
  MPI_Request request[FS_MPI_OPS];
  struct fs_net_op *op[FS_MPI_OPS];
  int index[FS_MPI_OPS];
  MPI_Status status[FS_MPI_OPS];
};

static fs_err fs_mpi_errno(int code) {
  int class = MPI_ERR_OTHER;
  if (code == MPI_SUCCESS) return 0;
  MPI_Error_class(code, &class);
  return class == MPI_ERR_TRUNCATE ? -EMSGSIZE : -ECOMM;
}

static fs_err fs_mpi_started(struct fs_net_mpi *m, int code, MPI_Request request, struct fs_net_op *op) {
  if (code != MPI_SUCCESS) return fs_mpi_errno(code);
  m->request[m->active] = request;
  m->op[m->active++] = op;
  return 0;
}

static fs_err fs_mpi_send(struct fs_net *n, uint32_t peer, uint32_t tag, const void *buf, size_t bytes,
                          struct fs_net_op *op) {
  struct fs_net_mpi *m = (struct fs_net_mpi *)n;
  MPI_Request r = MPI_REQUEST_NULL;
  if (m->active == FS_MPI_OPS) return -ENOBUFS;
  int code = MPI_Isend(buf, (int)bytes, MPI_BYTE, (int)peer, (int)tag, MPI_COMM_WORLD, &r);
  return fs_mpi_started(m, code, r, op);
}

static fs_err fs_mpi_recv(struct fs_net *n, uint32_t peer, uint32_t tag, void *buf, size_t bytes,
                          struct fs_net_op *op) {
  struct fs_net_mpi *m = (struct fs_net_mpi *)n;
  int source = peer == FS_NET_ANY ? MPI_ANY_SOURCE : (int)peer;
  MPI_Request r = MPI_REQUEST_NULL;
  if (m->active == FS_MPI_OPS) return -ENOBUFS;
  int code = MPI_Irecv(buf, (int)bytes, MPI_BYTE, source, (int)tag, MPI_COMM_WORLD, &r);
  return fs_mpi_started(m, code, r, op);
}

/* Closes the gaps that completed requests left. */
static void fs_mpi_compact(struct fs_net_mpi *m) {
  int kept = 0;
  for (int i = 0; i < m->active; i++) {
    if (m->request[i] == MPI_REQUEST_NULL) continue;
    m->request[kept] = m->request[i];
    m->op[kept++] = m->op[i];
  }
  m->active = kept;
}

struct fs_mpi_done {
  struct fs_net_op *op;
  uint32_t peer;
  uint64_t bytes;
  fs_err err;
};

static struct fs_mpi_done fs_mpi_outcome(struct fs_net_op *op, MPI_Status *st, bool failed) {
  int bytes = 0;
  struct fs_mpi_done d = {.op = op, .peer = (uint32_t)st->MPI_SOURCE};
  if (failed) d.err = fs_mpi_errno(st->MPI_ERROR);
  if (d.err == 0 && MPI_Get_count(st, MPI_BYTE, &bytes) == MPI_SUCCESS && bytes > 0) d.bytes = (uint64_t)bytes;
  return d;
}

static int fs_mpi_poll(struct fs_net *n) {
  struct fs_net_mpi *m = (struct fs_net_mpi *)n;
  struct fs_mpi_done done[FS_MPI_BATCH];
  int total = 0, count = 0;
  int code = MPI_Testsome(m->active, m->request, &count, m->index, m->status);
  /* Open MPI tests the requests first and then makes progress: a second call finds what the
     first brought in. */
  if (code == MPI_SUCCESS && count == 0) code = MPI_Testsome(m->active, m->request, &count, m->index, m->status);
  if (count == MPI_UNDEFINED || count <= 0) return 0;
  bool failed = code != MPI_SUCCESS;
  /* Call-backs start new operations, so the results are first taken out of the arrays, a batch
     at a time. */
  while (total < count) {
    int batch = FS_MIN(count - total, FS_MPI_BATCH);
    for (int i = 0; i < batch; i++) {
      done[i] = fs_mpi_outcome(m->op[m->index[total + i]], &m->status[total + i], failed);
    }
    total += batch;
    if (total < count) {
      for (int i = 0; i < batch; i++) done[i].op->done(done[i].op, done[i].peer, done[i].bytes, done[i].err);
      continue; /* operations started meanwhile are behind those that this Testsome examined */
    }
    fs_mpi_compact(m);
    for (int i = 0; i < batch; i++) done[i].op->done(done[i].op, done[i].peer, done[i].bytes, done[i].err);
  }
  return count;
}

static int fs_mpi_find(struct fs_net *n) {
  return n->arrivals < 0 ? 0 : fs_sockets_find(n->arrivals);
}

static void fs_mpi_drop(struct fs_net *n) {
  if (n->arrivals >= 0) fs_sockets_drop(n->arrivals);
}

static const struct fs_net_ops fs_mpi_ops = {
    .send = fs_mpi_send, .recv = fs_mpi_recv, .poll = fs_mpi_poll, .find = fs_mpi_find, .drop = fs_mpi_drop};

struct fs_net *fs_net_mpi_open(int *argc, char ***argv, const char **why) {
  static struct fs_net_mpi mpi;
  int provided = 0, rank = 0, nodes = 0, found = 0, *ub = NULL;
  *why = "MPI cannot be initialised";
  if (MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) return NULL;
  fs_abort_guard();
  *why = "this MPI has no MPI_THREAD_FUNNELED";
  if (provided < MPI_THREAD_FUNNELED) return NULL;
  *why = "MPI_COMM_WORLD is unusable";
  if (MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN) != MPI_SUCCESS) return NULL;
  if (MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS || MPI_Comm_size(MPI_COMM_WORLD, &nodes) != MPI_SUCCESS) {
    return NULL;
  }
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &ub, &found);
  mpi.net = (struct fs_net){.ops = &fs_mpi_ops,
                            .rank = (uint32_t)rank,
                            .nodes = (uint32_t)nodes,
                            .arrivals = epoll_create1(EPOLL_CLOEXEC),
                            .copies = fs_net_mpi_copies(),
                            .tag_max = found && ub && *ub > 32767 ? (uint32_t)*ub : 32767u};
  return &mpi.net;
}

void fs_net_mpi_close(void) {
  MPI_Finalize();
}
