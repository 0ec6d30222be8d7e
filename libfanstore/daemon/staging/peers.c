/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a node tells the others while it stages (peers.h): which partitions it has, and that it makes
 * progress. The worker thread sets it, and the MPI thread answers with it.
 */
#include "daemon/staging/peers.h"

#include <stdlib.h>

void fs_peers_staged(struct fs_daemon *d, uint32_t dataset, uint32_t part, bool there) {
  if (!d->peers) return;
  atomic_store_explicit(&d->peers->state[dataset][part], there ? FS_PART_THERE : FS_PART_ABSENT, memory_order_release);
  fs_peers_alive(d);
}

void fs_peers_alive(struct fs_daemon *d) {
  if (d->peers) atomic_fetch_add(&d->peers->alive, 1);
}

fs_err fs_peers_start(struct fs_daemon *d) {
  if (!d->passing || d->net->nodes == 1) return 0;
  struct fs_peers *p = calloc(1, sizeof(*p));
  if (!p) return -ENOMEM;
  p->d = d;
  for (uint32_t i = 0; i < d->datasets; i++) {
    const struct fs_dataset *ds = &d->data[i];
    p->state[i] = calloc(ds->partitions + 1, sizeof(*p->state[i]));
    if (!p->state[i]) return -ENOMEM;
    for (uint32_t k = 0; k < ds->partitions; k++) {
      bool comes = (ds->place[k].flags & FS_PLACE_LOCAL) != 0;
      atomic_init(&p->state[i][k], ds->have[k] ? FS_PART_THERE : comes ? FS_PART_COMING : FS_PART_ABSENT);
    }
  }
  d->peers = p;
  fs_err err = fs_take_new(p);
  return err == 0 ? fs_give_new(p) : err;
}

int fs_peers_run(struct fs_daemon *d) {
  return d->peers ? fs_take_run(d->peers) : 0;
}

bool fs_peers_busy(const struct fs_daemon *d) {
  return d->peers && (fs_take_busy(d->peers) || fs_give_busy(d->peers));
}
