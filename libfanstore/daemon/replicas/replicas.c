/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts replicas, runs their timers, and handles changes of members (replicas.h). The MPI
   thread's. */
#include "daemon/replicas/replicas.h"

#include <stdlib.h>

void fs_replicas_timers(struct fs_daemon *d) {
  if (!d->replicas) return;
  fs_copy_timers(d->replicas);
  fs_replica_timers(d->replicas);
}

/* Tells the launcher for which evicted ranks this node is the successor. The launcher waits for
   that at the end of the job. */
static void fs_replicas_tell(const struct fs_daemon *d) {
  const struct fs_members *m = fs_ns_members(d->ns);
  struct fs_control_line l;
  for (uint32_t rank = 0; rank < m->nodes; rank++) {
    if (fs_member(m, rank) || fs_members_after(m, rank) != d->net->rank) continue;
    if (fs_say_begin(d, &l, "successor") == 0 && fs_control_add_u64(&l, "of", rank) == 0 &&
        fs_control_add_u64(&l, "pending", d->outputs_pending) == 0)
      fs_say_line(&l);
  }
}

/* Handles a change of members. If this node was the partner of an evicted rank, it adopts that
   rank's files. If the partner is another one now, it gets all files, the adopted ones too. */
void fs_replicas_members(struct fs_daemon *d) {
  struct fs_replicas *t = d->replicas;
  if (!t) return;
  uint32_t was = t->partner;
  t->partner = fs_members_after(fs_ns_members(d->ns), d->net->rank);
  fs_replica_members(t);
  fs_replicas_tell(d);
  if (t->partner == was) return;
  if (t->partner == FS_NO_RANK)
    fs_say_text(d, "warn", "outputs have no replicas any more: there is no other node left");
  t->sent = 0;
  fs_copy_members(t);
}

/* The home that it has now says EIO of what its last one had not brought there (backing_extents.c). */
void fs_replicas_ask(struct fs_daemon *d, uint64_t id, fs_ns_done *done, void *ctx) {
  struct fs_names_call c = {.op = FS_NAMES_EXTENTS, .extents = {.id = id, .off = INT64_MAX}};
  if (d->replicas)
    fs_ns_call(d->ns, d->now, &c, done, ctx);
  else
    done(ctx, -EIO, NULL, 0);
}

int fs_replicas_reap(struct fs_daemon *d) {
  return d->replicas ? fs_iopool_reap(&d->replicas->pool) : 0;
}

bool fs_replicas_busy(const struct fs_daemon *d) {
  const struct fs_replicas *t = d->replicas;
  return t && (t->active > 0 || !fs_chain_empty(&t->asked));
}

fs_err fs_replicas_start(struct fs_daemon *d) {
  if (!d->cfg->replicas || d->net->nodes < 2) return 0;
  struct fs_replicas *t = calloc(1, sizeof(*t));
  if (!t || (t->heard = calloc(d->net->nodes, sizeof(*t->heard))) == NULL) {
    free(t);
    return -ENOMEM;
  }
  t->d = d;
  t->partner = fs_members_after(fs_ns_members(d->ns), d->net->rank);
  struct fs_chain *lists[] = {&t->first, &t->later, &t->again, &t->busy, &t->asked, &t->unposted};
  for (size_t i = 0; i < FS_ARRAY_LEN(lists); i++) fs_chain_init(lists[i]);
  d->replicas = t;
  fs_ns_replicate(d->ns);
  /* Versions of two homes of one file must differ, so each rank counts from its own base. */
  d->backing_files->version = (uint64_t)d->net->rank << 40;
  fs_err err = fs_iopool_start(&t->pool, FS_REPLICA_THREADS, d->wake);
  return err < 0 ? err : fs_replica_start(t);
}
