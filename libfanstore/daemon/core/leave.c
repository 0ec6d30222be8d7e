/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a daemon: its report, the removal of all that it made on this host, and _exit (not
 * MPI_Finalize, which waits for ranks that may be dead). The MPI thread calls it, or the guard if
 * that hangs; the first caller does it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/module.h"
#include "util/util.h"

/* The names of enum fs_counter; place counters are these three times four. */
static void fs_leave_counters(struct fs_control_line *l, const uint64_t counter[FS_C_COUNT]) {
  static const char *const place[FS_PLACE_COUNT] = {"local", "cache", "remote", "shared"};
  static const struct {
    const char *name;
    unsigned first;
  } group[] = {{"files", FS_C_FILES}, {"bytes", FS_C_BYTES}, {"blocks", FS_C_BLOCKS}};
  static const struct {
    const char *name;
    unsigned counter;
  } single[] = {{"opens", FS_C_OPENS},
                {"stats", FS_C_STATS},
                {"fallbacks", FS_C_FALLBACKS},
                {"errors", FS_C_ERRORS},
                {"materialized", FS_C_MATERIALIZED},
                {"bytes_direct", FS_C_DIRECT},
                {"output_opens", FS_C_OUT_OPENS},
                {"output_bytes", FS_C_OUT_BYTES}};
  for (size_t i = 0; i < FS_ARRAY_LEN(single); i++) {
    (void)fs_control_add_u64(l, single[i].name, counter[single[i].counter]);
  }
  for (size_t g = 0; g < FS_ARRAY_LEN(group); g++) {
    for (unsigned p = 0; p < FS_PLACE_COUNT; p++) {
      char name[32];
      snprintf(name, sizeof(name), "%s_%s", group[g].name, place[p]);
      (void)fs_control_add_u64(l, name, counter[group[g].first + p]);
    }
  }
}

static void fs_leave_stats(struct fs_daemon *d) {
  struct fs_control_line l;
  struct fs_cache_stats cache = {0};
  uint64_t counter[FS_C_COUNT];
  if (fs_say_begin(d, &l, "stats") < 0) return;
  fs_clients_sum(d, counter);
  fs_leave_counters(&l, counter);
  if (d->cache) fs_cache_stats(d->cache, &cache);
  const struct {
    const char *name;
    uint64_t value;
  } own[] = {{"served", d->count.served},
             {"served_bytes", d->count.served_bytes},
             {"fetched", d->count.fetched},
             {"fetched_bytes", d->count.fetched_bytes},
             {"prefetched", d->count.prefetched},
             {"disk_bytes", d->count.disk_bytes},
             {"disk_kept_bytes", d->count.disk_kept_bytes},
             {"checksum_errors", d->count.checksum_errors + counter[FS_C_DAMAGED]},
             {"timeouts", d->count.timeouts},
             {"dropped", fs_ctl_dropped(d)},
             {"refused", d->count.refused},
             {"evictions", cache.evictions},
             {"staged_bytes", d->count.staged_bytes},
             {"reused_bytes", d->count.reused_bytes},
             {"replicated", d->count.replicated},
             {"replicated_bytes", d->count.replicated_bytes},
             {"clients", d->clients.attached}};
  for (size_t i = 0; i < FS_ARRAY_LEN(own); i++) (void)fs_control_add_u64(&l, own[i].name, own[i].value);
  fs_say_line(&l);
}

_Noreturn void fs_daemon_leave(struct fs_daemon *d, int status) {
  struct fs_control_line l;
  if (atomic_exchange(&d->left, true)) {
    for (;;) pause(); /* the other thread ends the process */
  }
  atomic_store(&d->stop, true);
  /* clients do not wait for this daemon from here on */
  if (d->ctl) atomic_store(&d->ctl->stopping, 1);
  if (status == 0) fs_leave_stats(d); /* else other threads may still change the counters */
  fs_modules_leave(d, status);
  bool left = fs_rundir_leave(d); /* may wait */
  if (fs_say_begin(d, &l, "bye") == 0 && (!left || fs_control_add_u64(&l, "left", 1) == 0)) fs_say_line(&l);
  _exit(status);
}
