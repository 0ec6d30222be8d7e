/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Leases on this node's partitions. Clients copy from mappings of them and trust what staging has
 * checked. So a program that truncates or writes to such a file would crash clients or give them
 * wrong bytes. The kernel delays an open for writing of a leased file and tells the lease's holder.
 * This daemon then sends all readers elsewhere, gives them a moment to finish, and only then
 * releases the lease. If a file system knows no leases (NFS), there are none. The MPI thread's,
 * except the signal handler.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include "daemon/blocks/partitions.h"
#include "daemon/daemon.h"
#include "util/sys.h"
#include "util/util.h"

/* time for copies that have begun; the kernel waits for 45 s (lease-break-time) */
#define FS_LEASE_GRACE_NS 1000000000ull
#define FS_LEASE_WARNINGS 4u

enum fs_lease { FS_LEASE_NONE, FS_LEASE_HELD, FS_LEASE_BROKEN };

struct fs_leases {
  uint8_t *state[FS_MAX_DATASETS]; /* enum fs_lease for each partition */
  uint64_t release_at;             /* when broken leases are released; 0: there are none */
  uint32_t lost;
};

static _Atomic bool lease_signal; /* some lease may be broken */
static int lease_wake = -1;

static void fs_lease_handler(int sig) {
  uint64_t one = 1;
  (void)sig;
  atomic_store(&lease_signal, true);
  (void)fs_sys_write(lease_wake, &one, sizeof(one));
}

fs_err fs_leases_start(struct fs_daemon *d) {
  struct sigaction sa = {.sa_handler = fs_lease_handler, .sa_flags = SA_RESTART};
  struct fs_leases *s = d->leases = calloc(1, sizeof(*s));
  if (!s) return -ENOMEM;
  lease_wake = d->wake;
  sigaction(SIGIO, &sa, NULL);
  for (uint32_t i = 0; i < d->datasets; i++) {
    const struct fs_dataset *ds = &d->data[i];
    s->state[i] = calloc(ds->partitions + 1, 1);
    if (!s->state[i]) return -ENOMEM;
    for (uint32_t p = 0; p < ds->partitions; p++) {
      if (ds->have[p] && ds->fd[p] >= 0 && fcntl(ds->fd[p], F_SETLEASE, F_RDLCK) == 0) s->state[i][p] = FS_LEASE_HELD;
    }
  }
  return 0;
}

/* Withdraws a partition: no reader begins to read it any more, here or on another node. */
static void fs_lease_withdraw(struct fs_daemon *d, uint32_t dataset, uint32_t part) {
  struct fs_dataset *ds = &d->data[dataset];
  char name[FS_PART_NAME_SIZE];
  d->leases->state[dataset][part] = FS_LEASE_BROKEN;
  ds->have[part] = false;
  atomic_store_explicit(&ds->place[part].flags, 0, memory_order_relaxed);
  fs_ctl_withdraw(d, dataset, part);
  d->leases->release_at = d->now + FS_LEASE_GRACE_NS;
  if (++d->leases->lost > FS_LEASE_WARNINGS) return;
  fs_say_text(d, "warn", "%s/%s: somebody writes to this local copy: it is read from elsewhere from now on%s",
              ds->stage.local, fs_part_name(part, name),
              d->leases->lost == FS_LEASE_WARNINGS ? " (so may others be)" : "");
}

static void fs_lease_release(struct fs_daemon *d, uint32_t dataset, uint32_t part) {
  d->leases->state[dataset][part] = FS_LEASE_NONE;
  fs_part_forget(d, dataset, part);
  (void)fcntl(d->data[dataset].fd[part], F_SETLEASE, F_UNLCK);
}

void fs_leases_look(struct fs_daemon *d) {
  struct fs_leases *s = d->leases;
  bool due = s->release_at != 0 && d->now >= s->release_at, told = atomic_exchange(&lease_signal, false);
  if (FS_LIKELY(!due && !told)) return;
  if (due) s->release_at = 0;
  for (uint32_t i = 0; i < d->datasets; i++) {
    for (uint32_t p = 0; p < d->data[i].partitions; p++) {
      if (due && s->state[i][p] == FS_LEASE_BROKEN) fs_lease_release(d, i, p);
      if (told && s->state[i][p] == FS_LEASE_HELD && fcntl(d->data[i].fd[p], F_GETLEASE) != F_RDLCK)
        fs_lease_withdraw(d, i, p);
    }
  }
}
