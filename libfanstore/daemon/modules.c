/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of a daemon's modules (module.h) and the functions that walk it. The loop calls them, and
 * so do lower layers for events that concern modules that they do not know: a client that has gone, a
 * change of members, a line of the launcher, the end.
 */
#include "daemon/module.h"

#include <stdio.h>
#include <string.h>

#include "daemon/blocks/disk.h"
#include "daemon/blocks/fetch.h"
#include "daemon/core/environment.h"
#include "daemon/core/inside.h"
#include "daemon/finish/finish.h"
#include "daemon/outputs/blocks.h"
#include "daemon/outputs/forwarder.h"
#include "daemon/outputs/left.h"
#include "daemon/outputs/locks.h"
#include "daemon/outputs/node_segment.h"
#include "daemon/outputs/open_files.h"
#include "daemon/outputs/service.h"
#include "daemon/outputs/written.h"
#include "daemon/replicas/replicas.h"
#include "daemon/sample/sample.h"
#include "daemon/stagein/stagein.h"
#include "daemon/stageout/inplace.h"
#include "daemon/stageout/stageout.h"
#include "util/util.h"

#define FS_MODULES_TIMERS_NS 1000000ull
#define FS_IO_THREADS 4u /* threads that read from the local disk */

/* ---- blocks ---- */

/* Makes the cache. Its size is raised if it is too small for a few blocks. */
static fs_err cache_start(struct fs_daemon *d) {
  uint32_t most = 0;
  char text[32];
  for (uint32_t i = 0; i < d->datasets; i++) most = FS_MAX(most, d->data[i].max_stored);
  uint64_t least = FS_MAX(8 * (uint64_t)most, 4 * (uint64_t)FS_OUTPUT_BLOCK) + (1u << 20), bytes = d->cfg->cache_bytes;
  if (bytes < least) {
    bytes = least;
    fs_say_text(d, "warn", "the cache is raised to %s: it must hold a few blocks",
                fs_format_size(bytes, text, sizeof(text)));
  }
  return fs_cache_new(&d->cache, bytes, most, fs_clients_pins, d);
}

/* Before the staging, which uses the pool. */
static fs_err pool_open(struct fs_daemon *d, char *why, size_t why_size) {
  (void)why, (void)why_size;
  return fs_iopool_start(&d->pool, FS_IO_THREADS, d->wake);
}

static int pool_work(struct fs_daemon *d) {
  return fs_iopool_reap(&d->pool);
}

/* ---- outputs ---- */

static void files_timers(struct fs_daemon *d) {
  fs_maps_timers(d);
  fs_backing_timers(d);
  fs_backing_drop_timers(d);
}

static void files_members(struct fs_daemon *d) {
  fs_backing_members(d);
  fs_maps_members(d);
}

static bool stagein_obey(struct fs_daemon *d, const struct fs_control *line) {
  if (strcmp(line->verb, "stagein") != 0) return false;
  fs_stagein_begin(d);
  return true;
}

static bool stageout_obey(struct fs_daemon *d, const struct fs_control *line) {
  if (strcmp(line->verb, "cancel") != 0) return false;
  fs_stageout_cancel(d);
  return true;
}

static bool finish_obey(struct fs_daemon *d, const struct fs_control *line) {
  if (strcmp(line->verb, "finish") != 0) return false;
  fs_outputs_finish(d, line);
  return true;
}

static bool keeps(const struct fs_daemon *d) {
  return d->cfg->keep || d->cfg->stage_out;
}

static fs_err keep_open(struct fs_daemon *d, char *why, size_t why_size) {
  return keeps(d) ? fs_keep_open(d, why, why_size) : 0;
}

static fs_err keep_start(struct fs_daemon *d) {
  return keeps(d) ? fs_inside_new(d, &d->inside) : 0;
}

static void keep_leave(struct fs_daemon *d, int status) {
  (void)status;
  if (keeps(d)) fs_keep_close(d);
}

static void stagein_leave(struct fs_daemon *d, int status) {
  (void)status;
  fs_stagein_leave(d);
}

static void finish_leave(struct fs_daemon *d, int status) {
  if (status == 0) fs_outputs_settle(d);
}

static void in_place_leave(struct fs_daemon *d, int status) {
  if (status == 0) fs_inplace_leave(d);
}

static fs_err left_start(struct fs_daemon *d) {
  fs_left_start(d);
  return 0;
}

static void left_leave(struct fs_daemon *d, int status) {
  if (status == 0) fs_left_flush(d);
  d->outputs_left = fs_left_any(d);
}

/* ---- clients ---- */

static fs_err offline_start(struct fs_daemon *d) {
  if (fs_ctl_leave(d) < 0)
    fs_say_text(d, "warn",
                "%s: cannot be written: programs that start after this daemon's death would read from shared "
                "storage only",
                d->run);
  return 0;
}

/* ---- the table ---- */

/*
 * The order is that of the starts, and of the calls within a round:
 * - a module comes after those whose memory its `start` uses: fetch after cache, replicas after names;
 * - ctl is what clients map, and d->ctl says that the node serves. No message and no client is heard
 *   before all modules have started: listen is last;
 * - written comes before open files and lock holders: if a client dies, the home hears that nobody
 *   writes its files before the ends of its opens and locks;
 * - sample leaves first: what it tells is before the daemon's end, which may take long;
 * - staging leaves next, so that no more is copied;
 * - environment obeys `finish` before the module finish, which takes the line;
 * - messages comes last: it sends what the others had to say about names in this round;
 * - finish leaves before "in place", which removes what it has told, and left comes after both: it
 *   looks at what has been saved.
 */
static const struct fs_module table[] = {
    {.name = "sample",
     .start = fs_sampler_new,
     .timers = fs_sampler_timers,
     .client_gone = fs_sampler_client_gone,
     .leave = fs_sampler_leave},
    {.name = "staging", .work = fs_peers_run, .busy = fs_peers_busy, .leave = fs_staging_leave},
    {.name = "cache", .start = cache_start},
    {.name = "pool", .open = pool_open, .work = pool_work},
    {.name = "fetch", .start = fs_fetcher_new, .look = fs_fetch_timers, .busy = fs_fetch_busy, .leave = fs_fetch_leave},
    {.name = "disk", .start = fs_disk_start, .work = fs_disk_reap, .timers = fs_disk_timers},
    {.name = "serve", .start = fs_server_new, .look = fs_server_timers, .busy = fs_server_busy},
    {.name = "warm", .start = fs_warm_start, .look = fs_warm_look},
    {.name = "leases", .start = fs_leases_start, .look = fs_leases_look},
    {.name = "ctl", .start = fs_ctl_build, .look = fs_ctl_heartbeat},
    {.name = "names",
     .start = fs_service_start,
     .timers = fs_service_timers,
     .busy = fs_service_busy,
     .dropped = fs_service_lost,
     .members = fs_service_members,
     .member = fs_service_member},
    {.name = "files", .start = fs_backing_new, .timers = files_timers, .members = files_members},
    {.name = "forwarders", .start = fs_forwarders_new, .timers = fs_forwarder_timers},
    {.name = "segments", .start = fs_node_segments_new},
    {.name = "written", .start = fs_written_new, .timers = fs_written_timers, .client_gone = fs_written_forget},
    {.name = "locks",
     .start = fs_locks_new,
     .work = fs_locks_reap,
     .timers = fs_locks_timers,
     .members = fs_locks_members},
    {.name = "calls", .client_gone = fs_client_calls_forget},
    {.name = "open files", .start = fs_open_files_new, .client_gone = fs_open_files_forget},
    {.name = "lock holders",
     .start = fs_lock_holders_new,
     .timers = fs_lock_holders_timers,
     .members = fs_lock_holders_members,
     .client_gone = fs_lock_holders_forget},
    {.name = "keep", .open = keep_open, .start = keep_start, .leave = keep_leave},
    {.name = "stage-out",
     .open = fs_stageout_open,
     .start = fs_stageout_start,
     .timers = fs_stageout_timers,
     .published = fs_stageout_touch,
     .removed = fs_stageout_removed,
     .obey = stageout_obey},
    {.name = "stage-in",
     .open = fs_stagein_open,
     .start = fs_stagein_start,
     .work = fs_stagein_reap,
     .timers = fs_stagein_timers,
     .obey = stagein_obey,
     .leave = stagein_leave},
    {.name = "replicas",
     .start = fs_replicas_start,
     .work = fs_replicas_reap,
     .timers = fs_replicas_timers,
     .busy = fs_replicas_busy,
     .members = fs_replicas_members},
    {.name = "environment", .start = fs_environment_start, .obey = fs_environment_obey, .leave = fs_environment_leave},
    {.name = "finish",
     .timers = fs_outputs_timers,
     .adopted = fs_outputs_adopted,
     .obey = finish_obey,
     .leave = finish_leave},
    {.name = "in place", .leave = in_place_leave},
    {.name = "left", .start = left_start, .timers = fs_left_timers, .leave = left_leave},
    {.name = "space", .start = fs_space_start},
    {.name = "offline", .start = offline_start},
    {.name = "clients", .work = fs_clients_scan, .look = fs_clients_bury},
    {.name = "prefetch", .work = fs_prefetch_run, .client_gone = fs_prefetch_gone},
    {.name = "fill", .work = fs_fill_run},
    {.name = "listen", .start = fs_guard_listen},
    {.name = "messages", .look = fs_service_flush},
};

const struct fs_block_source *const fs_block_sources[FS_BLOCKS_KINDS] = {[FS_BLOCKS_DATASET] = &fs_dataset_blocks,
                                                                         [FS_BLOCKS_OUTPUT] = &fs_output_blocks,
                                                                         [FS_BLOCKS_STAGED_IN] = &fs_staged_in_blocks};

#define EACH(m) for (const struct fs_module *m = table; m < table + FS_ARRAY_LEN(table); m++)

fs_err fs_modules_open(struct fs_daemon *d, char *why, size_t why_size) {
  fs_err err = 0;
  EACH(m) if (err == 0 && m->open) err = m->open(d, why, why_size);
  return err;
}

fs_err fs_modules_start(struct fs_daemon *d, const char **which) {
  EACH(m) {
    *which = m->name;
    fs_err err = m->start ? m->start(d) : 0;
    if (err < 0) return err;
  }
  return 0;
}

int fs_modules_run(struct fs_daemon *d) {
  static uint64_t last;
  int n = 0;
  EACH(m) if (m->work) n += m->work(d);
  if (d->now - last >= FS_MODULES_TIMERS_NS) {
    last = d->now;
    EACH(m) if (m->timers) m->timers(d);
  }
  EACH(m) if (m->look) m->look(d);
  return n;
}

bool fs_modules_busy(const struct fs_daemon *d) {
  EACH(m) if (m->busy && m->busy(d)) return true;
  return false;
}

uint64_t fs_modules_dropped(const struct fs_daemon *d) {
  uint64_t n = 0;
  EACH(m) if (m->dropped) n += m->dropped(d);
  return n;
}

void fs_modules_client_gone(struct fs_daemon *d, struct fs_client *c) {
  EACH(m) if (m->client_gone) m->client_gone(d, c);
}

void fs_modules_members(struct fs_daemon *d) {
  EACH(m) if (m->members) m->members(d);
}

bool fs_modules_member(const struct fs_daemon *d, uint32_t rank) {
  EACH(m) if (m->member) return m->member(d, rank);
  return true;
}

void fs_modules_published(struct fs_daemon *d, uint64_t id) {
  EACH(m) if (m->published) m->published(d, id);
}

void fs_modules_removed(struct fs_daemon *d, uint64_t id) {
  EACH(m) if (m->removed) m->removed(d, id);
}

void fs_modules_adopted(struct fs_daemon *d, const struct fs_backing_file *f) {
  EACH(m) if (m->adopted) m->adopted(d, f);
}

bool fs_modules_obey(struct fs_daemon *d, const struct fs_control *line) {
  EACH(m) if (m->obey && m->obey(d, line)) return true;
  return false;
}

void fs_modules_leave(struct fs_daemon *d, int status) {
  EACH(m) if (m->leave) m->leave(d, status);
}
