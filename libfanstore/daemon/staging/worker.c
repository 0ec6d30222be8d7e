/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker thread: stages the index and the partitions that are placed here (stage.h), so that
 * the MPI thread stays free. While it runs, the MPI thread looks neither at the datasets' indexes
 * nor at the placement; the store to d->worker_done hands both back. First come the partitions that
 * this node reads from shared storage, then those that it takes from other nodes (peers.h). A
 * partition that cannot be staged is reported and read from elsewhere; that is no failure.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/staging/peers.h"
#include "daemon/staging/stage.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_PROGRESS_NS 250000000ull
#define FS_TAKE_AGAIN_NS 20000000l /* pause if no other node has what is waited for */
#define FS_WARNINGS 8              /* warnings about partitions; after that only their number */

struct fs_staging {
  struct fs_daemon *d;
  uint64_t total, done, said;
  uint32_t lost;
  rlim_t descriptors; /* partitions stay open only with descriptors below this */
};

static void fs_staging_say(struct fs_staging *s, uint64_t done) {
  struct fs_control_line l;
  uint64_t now = fs_now_ns();
  if (now - s->said < FS_PROGRESS_NS) return;
  s->said = now;
  if (fs_say_begin(s->d, &l, "stage") == 0 && fs_control_add_u64(&l, "done", done) == 0 &&
      fs_control_add_u64(&l, "total", s->total) == 0) {
    fs_say_line(&l);
  }
}

static fs_err fs_staging_progress(void *ctx, uint64_t done_bytes) {
  struct fs_staging *s = ctx;
  fs_peers_alive(s->d);
  fs_staging_say(s, s->done + done_bytes);
  return atomic_load(&s->d->stop) ? -ECANCELED : 0;
}

static void fs_staging_lost(struct fs_staging *s, uint32_t dataset, uint32_t part, const char *why) {
  struct fs_daemon *d = s->d;
  struct fs_control_line l;
  fs_place_lose(&d->data[dataset], d->net->rank, part);
  if (++s->lost <= FS_WARNINGS) fs_say_text(d, "warn", "%s", why);
  if (fs_say_begin(d, &l, "lost") == 0 && fs_control_add_u64(&l, "dataset", dataset) == 0 &&
      fs_control_add_u64(&l, "part", part) == 0) {
    fs_say_line(&l);
  }
}

/* Records which file was checked, for clients that open it later. Keeps it open while there are
   descriptors to spare; other partitions are opened for each read. */
static void fs_staging_open(const struct fs_staging *s, struct fs_dataset *ds, uint32_t part) {
  char path[PATH_MAX], name[FS_PART_NAME_SIZE];
  struct stat st;
  int n = snprintf(path, sizeof(path), "%s/%s", ds->stage.local, fs_part_name(part, name));
  int fd = n < (int)sizeof(path) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
  if (fd >= 0 && fstat(fd, &st) == 0) {
    ds->place[part].inode = st.st_ino;
    ds->place[part].mtime = fs_mtime_ns(&st);
  }
  if (fd >= 0 && (rlim_t)fd >= s->descriptors) {
    close(fd);
    fd = -1;
  }
  ds->fd[part] = fd;
}

/* Stages a partition that is to be here, from another node unless `peer` is NULL. */
static void fs_staging_part(struct fs_staging *s, uint32_t dataset, uint32_t p, struct fs_stage_peer *peer) {
  struct fs_daemon *d = s->d;
  struct fs_dataset *ds = &d->data[dataset];
  uint64_t size = ds->stage.index.parts[p].size;
  char why[512] = "";
  fs_err err = fs_stage_partition(&ds->stage, p, peer, fs_staging_progress, s, why, sizeof(why));
  if (err < 0 && atomic_load(&d->stop)) return; /* the daemon is stopping */
  if (err < 0 && why[0] == '\0') snprintf(why, sizeof(why), "partition %u: %s", p, strerror(-err));
  s->done += size;
  fs_peers_staged(d, dataset, p, err == 0);
  if (err < 0) {
    fs_staging_lost(s, dataset, p, why);
    return;
  }
  ds->have[p] = true;
  atomic_fetch_add(&d->count.staged_bytes, size);
  if (peer) atomic_fetch_add(&d->count.passed_bytes, peer->bytes);
  fs_staging_open(s, ds, p);
}

static bool fs_staging_waits(const struct fs_dataset *ds, uint32_t p) {
  return (ds->place[p].flags & FS_PLACE_LOCAL) && !ds->have[p] && ds->from[p] != FS_FROM_SHARED;
}

/* Stages what does not come from another node. */
static void fs_staging_dataset(struct fs_staging *s, uint32_t dataset) {
  struct fs_daemon *d = s->d;
  struct fs_dataset *ds = &d->data[dataset];
  char why[512];
  if (fs_stage_index(&ds->stage, why, sizeof(why)) < 0) fs_say_text(d, "warn", "%s", why);
  for (uint32_t p = 0; p < ds->partitions && !atomic_load(&d->stop); p++) {
    if (!(ds->place[p].flags & FS_PLACE_LOCAL) || fs_staging_waits(ds, p)) continue;
    if (!ds->have[p]) {
      fs_staging_part(s, dataset, p, NULL);
      continue;
    }
    atomic_fetch_add(&d->count.reused_bytes, ds->stage.index.parts[p].size);
    fs_staging_open(s, ds, p);
  }
}

/* Takes a partition from its peer, or from shared storage if the peer cannot give it. Returns false
   if the peer does not have it yet. */
static bool fs_staging_take(struct fs_staging *s, uint32_t dataset, uint32_t p) {
  struct fs_daemon *d = s->d;
  struct fs_dataset *ds = &d->data[dataset];
  struct fs_stage_peer peer = {.read = fs_take_read, .ctx = d};
  uint32_t from = ds->from[p];
  fs_err err = fs_take_ask(d, from, dataset, p);
  if (err == -EAGAIN) return false;
  if (err == 0) fs_take_begin(d, from, dataset, p, ds->stage.index.parts[p].size);
  ds->from[p] = FS_FROM_SHARED;
  fs_staging_part(s, dataset, p, err == 0 ? &peer : NULL);
  if (err == 0) fs_take_end(d);
  if (peer.wrong)
    fs_say_text(d, "warn", "node %u passed on wrong bytes of partition %u, which was copied from shared storage then",
                from, p);
  return true;
}

/* Takes what waits for other nodes, in any order. Each node begins elsewhere, so that not all nodes ask
   the same one. */
static void fs_staging_takes(struct fs_staging *s) {
  struct fs_daemon *d = s->d;
  bool waits = d->peers != NULL;
  while (waits && !atomic_load(&d->stop)) {
    bool took = false;
    waits = false;
    for (uint32_t i = 0; i < d->datasets; i++) {
      const struct fs_dataset *ds = &d->data[i];
      for (uint32_t k = 0; k < ds->partitions && !atomic_load(&d->stop); k++) {
        uint32_t p = (uint32_t)((k + (uint64_t)d->net->rank * ds->partitions / d->net->nodes) % ds->partitions);
        if (!fs_staging_waits(ds, p)) continue;
        if (fs_staging_take(s, i, p))
          took = true;
        else
          waits = true;
      }
    }
    if (waits && !took) nanosleep(&(struct timespec){.tv_nsec = FS_TAKE_AGAIN_NS}, NULL);
  }
  if (d->peers) fs_take_close(d);
}

/* Raises the limit of descriptors to what this user may have. Returns how many are for
   partitions: half; the rest is for clients. */
static rlim_t fs_staging_descriptors(void) {
  struct rlimit lim;
  if (getrlimit(RLIMIT_NOFILE, &lim) < 0) return 0;
  if (lim.rlim_cur < lim.rlim_max) {
    lim.rlim_cur = lim.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &lim);
    if (getrlimit(RLIMIT_NOFILE, &lim) < 0) return 0;
  }
  return lim.rlim_cur / 2;
}

static void *fs_worker_main(void *arg) {
  static struct fs_staging s;
  struct fs_daemon *d = s.d = arg;
  s.descriptors = fs_staging_descriptors();
  for (uint32_t i = 0; i < d->datasets; i++) {
    const struct fs_dataset *ds = &d->data[i];
    for (uint32_t p = 0; p < ds->partitions; p++) {
      if ((ds->place[p].flags & FS_PLACE_LOCAL) && !ds->have[p]) s.total += ds->stage.index.parts[p].size;
    }
  }
  for (uint32_t i = 0; i < d->datasets && !atomic_load(&d->stop); i++) fs_staging_dataset(&s, i);
  fs_staging_takes(&s);
  if (s.lost > FS_WARNINGS) fs_say_text(d, "warn", "%u partitions in all could not be staged here", s.lost);
  atomic_store(&d->worker_done, true);
  fs_daemon_wake(d);
  return NULL;
}

fs_err fs_worker_start(struct fs_daemon *d) {
  return fs_thread_start(fs_worker_main, d);
}

static void fs_staging_purge(const struct fs_daemon *d, struct fs_stage *s) {
  fs_err err = fs_stage_purge(s);
  if (err < 0)
    fs_say_text(d, "warn", "--purge: %s stays: %s", s->local, err == -EBUSY ? "another job uses it" : strerror(-err));
}

void fs_staging_leave(struct fs_daemon *d, int status) {
  for (uint32_t i = 0; i < d->datasets; i++) fs_stage_abandon(&d->data[i].stage);
  for (uint32_t i = 0; status == 0 && i < d->datasets; i++) {
    if (atomic_load(&d->purge)) fs_staging_purge(d, &d->data[i].stage);
    fs_stage_close(&d->data[i].stage);
  }
}
