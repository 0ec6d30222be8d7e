/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Builds the shared segment that tells clients about this node (struct fs_ctl): datasets,
 * placement, deadlines. The MPI thread builds it once, before the first client; after that only its
 * atomic words change. It is sealed: clients can only read it.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/module.h"
#include "ipc/node.h"
#include "util/sys.h"

#define FS_HEARTBEAT_NS 1000000ull
#define FS_COUNTERS_NS 100000000ull

static fs_err fs_ctl_map(struct fs_daemon *d, uint64_t size) {
  FS_AUTO_CLOSE int fd = memfd_create("fanstore-ctl", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -errno;
  if (ftruncate(fd, (off_t)size) < 0) return -errno;
  void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) return -errno;
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0) return -errno;
  d->ctl = p;
  d->ctl_fd = FS_MOVE_FD(fd);
  return 0;
}

static void fs_ctl_dataset(struct fs_ctl_dataset *c, const struct fs_dataset *ds, uint32_t first) {
  memcpy(c->mount, ds->mount, sizeof(c->mount)); /* all have the same size and are terminated */
  memcpy(c->source, ds->stage.source, sizeof(c->source));
  memcpy(c->local, ds->stage.local, sizeof(c->local));
  memcpy(c->id, ds->stage.index.hdr->dataset_id, sizeof(c->id));
  c->index_inode = ds->stage.index.inode;
  c->index_mtime = ds->stage.index.mtime;
  c->partitions = ds->partitions;
  c->placement = first;
}

uint64_t fs_ctl_dropped(const struct fs_daemon *d) {
  return d->count.dropped + fs_modules_dropped(d);
}

static void fs_ctl_counters(struct fs_daemon *d) {
  uint64_t counter[FS_C_COUNT];
  struct fs_cache_stats cache;
  struct fs_ctl *c = d->ctl;
  fs_clients_sum(d, counter);
  fs_cache_stats(d->cache, &cache);
  const uint64_t own[FS_N_COUNT] = {
      [FS_N_CLIENTS] = atomic_load(&d->clients.attached),
      [FS_N_SERVED] = d->count.served,
      [FS_N_SERVED_BYTES] = d->count.served_bytes,
      [FS_N_FETCHED] = d->count.fetched,
      [FS_N_FETCHED_BYTES] = d->count.fetched_bytes,
      [FS_N_PREFETCHED] = d->count.prefetched,
      [FS_N_PREFETCH_WAITING] = fs_prefetch_waiting(d),
      [FS_N_EVICTIONS] = cache.evictions,
      [FS_N_TIMEOUTS] = d->count.timeouts,
      [FS_N_CHECKSUM_ERRORS] = d->count.checksum_errors + counter[FS_C_DAMAGED],
      [FS_N_DROPPED] = fs_ctl_dropped(d),
  };
  for (unsigned i = 0; i < FS_C_COUNT; i++) atomic_store_explicit(&c->counter[i], counter[i], memory_order_relaxed);
  for (unsigned i = 0; i < FS_N_COUNT; i++) atomic_store_explicit(&c->node_counter[i], own[i], memory_order_relaxed);
}

void fs_ctl_heartbeat(struct fs_daemon *d) {
  static uint64_t last, counted;
  if (d->now - last < FS_HEARTBEAT_NS) return;
  last = d->now;
  atomic_store_explicit(&d->ctl->heartbeat_ns, last, memory_order_relaxed);
  if (d->now - counted < FS_COUNTERS_NS) return;
  counted = d->now;
  fs_ctl_counters(d);
}

/* Writes the segment's copy for clients that start while this daemon does not answer
   (client/node/offline.c). It has another name until it is complete. */
fs_err fs_ctl_leave(const struct fs_daemon *d) {
  char path[PATH_MAX], whole[PATH_MAX];
  fs_ssize n = fs_run_ctl(d->run, d->net->rank, whole, sizeof(whole));
  if (n < 0 || snprintf(path, sizeof(path), "%s.new", whole) >= (int)sizeof(path)) return -ENAMETOOLONG;
  FS_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return -errno;
  fs_err err = fs_write_full(fd, d->ctl, d->ctl->size);
  if (err == 0 && rename(path, whole) < 0) err = -errno;
  if (err < 0) (void)unlink(path);
  return err;
}

/* Updates the copy. If that fails, the copy is removed, so that no client trusts outdated
   values. */
static void fs_ctl_left(const struct fs_daemon *d, const void *at, size_t n) {
  char path[PATH_MAX];
  if (fs_run_ctl(d->run, d->net->rank, path, sizeof(path)) < 0) return;
  FS_AUTO_CLOSE int fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || fs_pwrite_full(fd, at, n, (uint64_t)((const char *)at - (const char *)d->ctl)) < 0) (void)unlink(path);
}

void fs_ctl_withdraw(struct fs_daemon *d, uint32_t dataset, uint32_t part) {
  struct fs_placement *place = (struct fs_placement *)((char *)d->ctl + d->ctl->placements);
  place += d->ctl->dataset[dataset].placement + part;
  atomic_store_explicit(&place->flags, 0, memory_order_relaxed);
  fs_ctl_left(d, place, sizeof(*place));
}

static void fs_ctl_bit(const struct fs_daemon *d, _Atomic uint64_t *bits, uint32_t bit) {
  uint64_t mask = 1ull << bit % 64;
  if (!(atomic_fetch_or(&bits[bit / 64], mask) & mask)) fs_ctl_left(d, &bits[bit / 64], sizeof(*bits));
}

void fs_ctl_mark(struct fs_daemon *d, uint32_t bit) {
  fs_ctl_bit(d, d->ctl->outputs, bit);
}

/* Sets the word that clients read first at last. */
void fs_ctl_taken(struct fs_daemon *d, uint32_t bit, uint32_t name) {
  fs_ctl_bit(d, d->ctl->taken_names, name);
  fs_ctl_bit(d, d->ctl->taken, bit);
  if (!(atomic_fetch_or(&d->ctl->node_local_any, FS_NL_TAKEN) & FS_NL_TAKEN))
    fs_ctl_left(d, &d->ctl->node_local_any, sizeof(d->ctl->node_local_any));
}

static void fs_ctl_all_bits(_Atomic uint64_t *bits, size_t n) {
  for (size_t i = 0; i < n; i++) atomic_store(&bits[i], UINT64_MAX);
}

/* The copy in the run directory keeps its bits of taken names. It is for programs that start when the daemon is dead:
   by the new bits they would get EIO for all names of the dataset, as those do that run by then. */
void fs_ctl_mark_all(struct fs_daemon *d) {
  fs_ctl_all_bits(d->ctl->outputs, FS_ARRAY_LEN(d->ctl->outputs));
  fs_ctl_left(d, d->ctl->outputs, sizeof(d->ctl->outputs));
  if (!d->cfg->overlay) return;
  fs_ctl_all_bits(d->ctl->taken_names, FS_ARRAY_LEN(d->ctl->taken_names));
  fs_ctl_all_bits(d->ctl->taken, FS_ARRAY_LEN(d->ctl->taken));
  atomic_fetch_or(&d->ctl->node_local_any, FS_NL_TAKEN);
}

/* Sets the bit before a client makes the first node-local name in that directory. The bit is
   never cleared. */
fs_err fs_ctl_node_local(struct fs_daemon *d, const struct fs_names_call *c) {
  static const char *const made[] = {FS_NL_DIR, FS_NL_NEW, FS_NL_PATHS};
  for (size_t i = 0; i < FS_ARRAY_LEN(made); i++)
    if (mkdirat(d->backing_fd, made[i], 0700) < 0 && errno != EEXIST) return -errno;
  uint32_t bit = fs_nl_bit(c->node_local.dir);
  _Atomic uint64_t *word = &d->ctl->node_local[bit / 64];
  atomic_fetch_or(word, 1ull << bit % 64);
  atomic_fetch_or(&d->ctl->node_local_any, FS_NL_NAMES | (c->flags & FS_NL_SHADOWS));
  fs_ctl_left(d, word, sizeof(*word));
  fs_ctl_left(d, &d->ctl->node_local_any, sizeof(d->ctl->node_local_any));
  return 0;
}

static void fs_ctl_globs(struct fs_ctl *c, const struct fs_daemon_config *cfg) {
  size_t at = 0;
  for (uint32_t i = 0; i < cfg->node_locals; i++) {
    size_t n = strlen(cfg->node_local[i]) + 1;
    if (n == 1 || at + n >= sizeof(c->node_local_globs)) continue; /* the options were checked */
    memcpy(c->node_local_globs + at, cfg->node_local[i], n);
    at += n;
  }
}

/* Other file systems are not known well enough. */
static bool fs_ctl_ctime(const struct fs_daemon *d) {
  struct statfs fs;
  if (statfs(d->backing, &fs) < 0) return false;
  return fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC || fs.f_type == BTRFS_SUPER_MAGIC ||
         fs.f_type == TMPFS_MAGIC;
}

bool fs_ctl_alone(const struct fs_daemon *d) {
  return d->net->nodes == 1 && !d->cfg->stage_out && !d->cfg->stage_in;
}

/*
 * A client that looks takes a processor. The others must have room for the daemon, and in a job of
 * several nodes for a second one, which may be on this host: with two processors, the kernel would
 * leave both daemons of a request on the other one, since neither is idle for long enough to be moved.
 * The daemon's processors count: mpirun binds programs to one each.
 */
static bool fs_ctl_look(const struct fs_daemon *d) {
  return fs_sys_cpus() >= (d->net->nodes == 1 ? 2 : 3);
}

fs_err fs_ctl_build(struct fs_daemon *d) {
  uint64_t nplace = 0, at = fs_round_up(sizeof(struct fs_ctl), 64);
  for (uint32_t i = 0; i < d->datasets; i++) nplace += d->data[i].partitions;
  uint64_t size = fs_round_up(at + nplace * sizeof(struct fs_placement), 4096);
  fs_err err = fs_ctl_map(d, size);
  if (err < 0) return err;
  struct fs_ctl *c = d->ctl;
  struct fs_placement *place = (struct fs_placement *)((char *)c + at);
  c->version = FS_IPC_VERSION;
  c->node = d->net->rank;
  c->nodes = d->net->nodes;
  c->datasets = d->datasets;
  c->size = size;
  c->deadline_ns = d->cfg->deadline_ns;
  c->placements = at;
  c->nplacements = nplace;
  c->output_limit = d->cfg->output_limit;
  c->memory_limit = fs_memory_limit();
  c->flags = (d->cfg->read_only ? FS_CTL_READ_ONLY : 0) | (d->cfg->replicas ? FS_CTL_REPLICAS : 0) |
             (d->cfg->overlay ? FS_CTL_OVERLAY : 0) | (fs_ctl_ctime(d) ? FS_CTL_CTIME : 0) |
             (fs_ctl_alone(d) ? FS_CTL_ALONE : 0) | (fs_ctl_look(d) ? FS_CTL_LOOK : 0) | d->cfg->local_io;
  memcpy(c->backing, d->backing, sizeof(c->backing));
  fs_ctl_globs(c, d->cfg);
  for (uint32_t i = 0, first = 0; i < d->datasets; i++) {
    const struct fs_dataset *ds = &d->data[i];
    fs_ctl_dataset(&c->dataset[i], ds, first);
    memcpy(place + first, ds->place, ds->partitions * sizeof(*place));
    first += ds->partitions;
  }
  atomic_store(&c->heartbeat_ns, fs_now_ns());
  c->magic = FS_CTL_MAGIC;
  return 0;
}
