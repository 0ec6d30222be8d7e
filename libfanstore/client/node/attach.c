/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Meets the node's daemon: the hand-over, the mappings and their checks. Called at the first use of
 * a mount and of a remote block. Two things are published: what a process and its children share
 * (struct fs_node), and this process's own channel (struct fs_link), which a forked child makes
 * anew. No locks; the loser of a race closes what it got.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "client/data_priv.h"
#include "client/node/words.h"
#include "ipc/handover.h"
#include "ipc/node.h"
#include "util/dirents.h"
#include "util/util.h"

#define FS_ATTACH_TIMEOUT_NS 2000000000ull
#define FS_ATTACH_SILENT_NS 200000000ull /* for a daemon that has welcomed nobody for long */
#define FS_ATTACH_SILENT_AFTER_NS 3000000000
#define FS_ATTACH_RETRY_NS 5000000000ull
#define FS_RUN_UNSEEN (-ENXIO) /* no directory by the name in FANSTORE_RUN */

static const _Atomic uint32_t g_zero;
const _Atomic uint32_t *_Atomic fs_output_full_word = &g_zero;
const _Atomic uint32_t *_Atomic fs_nl_any_word = &g_zero;
_Atomic uint32_t fs_no_run;
static _Atomic uint32_t g_run; /* the environment named a job */
static void *_Atomic g_node;
static _Atomic int32_t g_failed;  /* of the last attempt to meet the daemon */
static _Atomic uint32_t g_unseen; /* the user was told of an unseen run directory */
static _Atomic uint32_t g_other;  /* the user was told of a daemon of another version */
static void *_Atomic g_link;      /* the newest link, of this process or its parent */

struct fs_run_place { /* what the environment said of the job when the program started */
  uint32_t node;
  char run[PATH_MAX];
};
static void *_Atomic g_place;

static const char *fs_run_path(void) {
  const struct fs_run_place *place = atomic_load_explicit(&g_place, memory_order_acquire);
  const char *run = place ? place->run : getenv(FS_ENV_RUN);
  return run && run[0] == '/' ? run : NULL;
}

static uint32_t fs_run_node(void) {
  const struct fs_run_place *place = atomic_load_explicit(&g_place, memory_order_acquire);
  return place ? place->node : fs_node_decide(NULL);
}

void fs_run_remember(void) {
  const char *run = fs_run_path();
  if (!run || strlen(run) >= PATH_MAX || atomic_load_explicit(&g_place, memory_order_relaxed)) return;
  void *winner;
  struct fs_run_place *place = fs_mem_map(sizeof(*place));
  if (!place) return;
  place->node = fs_node_decide(NULL);
  memcpy(place->run, run, strlen(run) + 1);
  if (!fs_publish_ptr(&g_place, place, &winner)) fs_mem_unmap(place, sizeof(*place));
}

bool fs_run_set(void) {
  if (atomic_load_explicit(&g_run, memory_order_relaxed)) return true;
  if (atomic_load_explicit(&fs_no_run, memory_order_relaxed)) return false;
  bool set = fs_run_path() != NULL;
  atomic_store_explicit(set ? &g_run : &fs_no_run, 1, memory_order_relaxed);
  return set;
}

/* ---- the socket ---- */

/* Returns k of the name "node-<k><suffix>", or -1. */
static int64_t fs_named_node(const char *name, const char *suffix) {
  uint64_t k = 0;
  if (strncmp(name, "node-", 5) != 0) return -1;
  const char *p = name + 5;
  for (; *p >= '0' && *p <= '9' && k < FS_MAX_NODES; p++) k = k * 10 + (uint64_t)(*p - '0');
  return p > name + 5 && strcmp(p, suffix) == 0 && k < FS_MAX_NODES ? (int64_t)k : -1;
}

/* Returns the lowest node with such a file in the run directory, or -1. This host has one daemon,
   whatever its number. */
static int64_t fs_any_node(const char *run, const char *suffix) {
  int64_t best = -1;
  FS_AUTO_CLOSE int dir = fs_sys_openat(AT_FDCWD, run, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  struct fs_dirents names = {.fd = dir};
  for (const struct dirent64 *d; (d = fs_dirents_next(&names)) != NULL;) {
    int64_t k = fs_named_node(d->d_name, suffix);
    if (k >= 0 && (best < 0 || k < best)) best = k;
  }
  return best;
}

/* Finds the socket that this process's daemon has or had, and its node. A daemon that has ended in
   order leaves no socket, only its other files for later processes. */
static fs_err fs_meeting_place(const char *run, uint32_t *node, char path[PATH_MAX], struct stat *st) {
  *node = fs_run_node();
  fs_ssize n = fs_run_socket(run, *node, path, PATH_MAX);
  if (n < 0) return (fs_err)n;
  fs_err err = fs_sys_fstatat(AT_FDCWD, path, st, 0);
  if (err != -ENOENT) return err;
  int64_t other = fs_any_node(run, ".sock");
  if (other < 0) other = fs_any_node(run, ".ctl");
  if (other < 0) return -ENOENT;
  *node = (uint32_t)other;
  n = fs_run_socket(run, *node, path, PATH_MAX);
  return n < 0 ? (fs_err)n : fs_sys_fstatat(AT_FDCWD, path, st, 0);
}

/* Tells later processes by the socket's mode whether the daemon answers. The mode is read now, not
   before the wait, because other processes may have changed it meanwhile. A mode that is right is
   left, so that its ctime stays that of the first change. */
static void fs_note_silence(const char *path, bool silent) {
  struct stat st;
  mode_t mode = silent ? FS_SOCKET_SILENT : FS_SOCKET_MODE;
  if (fs_sys_fstatat(AT_FDCWD, path, &st, 0) == 0 && (st.st_mode & 07777) != mode)
    FS_SYS3(SYS_fchmodat, AT_FDCWD, path, mode);
}

/* A single process that waited in vain says little: if many start at once, others were welcomed at
   that time. */
uint64_t fs_attach_patience(const struct stat *socket, const struct timespec *now) {
  int64_t s = now->tv_sec - socket->st_ctim.tv_sec, ns = now->tv_nsec - socket->st_ctim.tv_nsec;
  bool silent = (socket->st_mode & 07777) == FS_SOCKET_SILENT;
  bool long_ago = s > 3600 || (s >= 0 && s * 1000000000 + ns >= FS_ATTACH_SILENT_AFTER_NS);
  return silent && long_ago ? FS_ATTACH_SILENT_NS : FS_ATTACH_TIMEOUT_NS;
}

/* Once for a process and its children. The library is named as LD_PRELOAD has it. */
static void tell_version(uint32_t node, uint32_t version) {
  char number[FS_U64_TEXT], theirs[FS_U64_TEXT], ours[FS_U64_TEXT], library[PATH_MAX] = "libfanstore.so";
  size_t n;
  const char *word = fs_list_word(getenv("LD_PRELOAD"), "libfanstore", &n);
  if (atomic_exchange(&g_other, 1)) return;
  if (word && n < sizeof(library)) {
    memcpy(library, word, n);
    library[n] = '\0';
  }
  FS_NOTE(library, " of this program (FanStore " FS_VERSION ", protocol ", fs_u64_text(FS_IPC_VERSION, ours),
          ") is of another version than the daemon of node ", fs_u64_text(node, number), " (protocol ",
          fs_u64_text(version, theirs),
          "): it reads the dataset from shared storage, and output files are EIO;"
          " use the library of the FanStore that started the job, or start the job again");
}

static fs_err fs_meet(struct fs_handover *h) {
  char path[PATH_MAX];
  struct stat st;
  uint32_t rank;
  const char *run = fs_run_path();
  fs_err err = run ? fs_meeting_place(run, &rank, path, &st) : -ENOENT;
  if (err == -ENOENT && run && fs_sys_fstatat(AT_FDCWD, run, &st, 0) == -ENOENT) err = FS_RUN_UNSEEN;
  if (err == 0) {
    const struct fs_node *node = atomic_load_explicit(&g_node, memory_order_acquire);
    uint64_t ns = fs_clock_ns(CLOCK_REALTIME_COARSE);
    struct timespec now = {.tv_sec = (time_t)(ns / FS_NS_PER_S), .tv_nsec = (long)(ns % FS_NS_PER_S)};
    uint64_t patience = fs_attach_patience(&st, &now);
    if (node && !fs_node_alive(node)) patience = FS_ATTACH_SILENT_NS;
    h->version = 0;
    err = fs_handover_connect(path, patience, h);
    if (err == 0 || err == -ETIMEDOUT) fs_note_silence(path, err != 0);
    if (err == -EPROTONOSUPPORT) tell_version(rank, h->version);
  }
  atomic_store_explicit(&g_failed, err, memory_order_relaxed);
  return err;
}

bool fs_run_unseen(void) {
  return atomic_load_explicit(&g_unseen, memory_order_relaxed) != 0;
}

fs_err fs_attach_failed(void) {
  return atomic_load_explicit(&g_failed, memory_order_relaxed);
}

/* ---- checks ---- */

static void *fs_map_fd(int fd, uint64_t size, int prot, uint64_t *ino) {
  struct stat st;
  if (size == 0 || size > SIZE_MAX / 2 || fs_sys_fstat(fd, &st) != 0 || (uint64_t)st.st_size < size) return NULL;
  if (ino) *ino = st.st_ino;
  return fs_mem_map_fd(fd, size, prot);
}

static bool fs_text_ends(const char *text) {
  return memchr(text, '\0', PATH_MAX) != NULL;
}

bool fs_ctl_valid(const struct fs_ctl *c, uint64_t size) {
  if (size < sizeof(*c) || c->magic != FS_CTL_MAGIC || c->version != FS_IPC_VERSION) return false;
  if (c->size > size || c->datasets > FS_MAX_DATASETS || !fs_text_ends(c->backing)) return false;
  if (c->placements % alignof(struct fs_placement) != 0 || c->placements > c->size) return false;
  if (c->nplacements > (c->size - c->placements) / sizeof(struct fs_placement)) return false;
  for (uint32_t i = 0; i < c->datasets; i++) {
    const struct fs_ctl_dataset *d = &c->dataset[i];
    if (!fs_text_ends(d->mount) || !fs_text_ends(d->source) || !fs_text_ends(d->local)) return false;
    if (d->placement > c->nplacements || d->partitions > c->nplacements - d->placement) return false;
  }
  return true;
}

/* ---- the node ---- */

static void fs_node_drop(struct fs_node *node, const struct fs_handover *h) {
  fs_mem_unmap((void *)node->ctl, h->size[FS_HO_CTL]);
  fs_mem_unmap((void *)node->view.base, h->size[FS_HO_SLAB]);
  fs_mem_unmap((void *)node->view.heat, h->size[FS_HO_HEAT]);
  fs_mem_unmap((void *)node->records.base, h->size[FS_HO_RECORDS]);
  fs_mem_unmap(node, sizeof(*node));
}

static _Atomic uint64_t g_hints[FS_CACHE_HINTS]; /* memory that only readers of the cache touch */

static fs_err fs_node_fill(struct fs_node *node, const struct fs_handover *h) {
  const struct fs_ctl *ctl = fs_map_fd(h->fd[FS_HO_CTL], h->size[FS_HO_CTL], PROT_READ, &node->ctl_ino);
  node->ctl = ctl;
  if (!ctl || !fs_ctl_valid(ctl, h->size[FS_HO_CTL])) return -EPROTO;
  node->placement = (const struct fs_placement *)((const char *)ctl + ctl->placements);
  node->deadline_ns = FS_MIN(FS_MAX(ctl->deadline_ns, FS_DEADLINE_MIN_NS), FS_DEADLINE_MAX_NS);
  void *heat = fs_map_fd(h->fd[FS_HO_HEAT], h->size[FS_HO_HEAT], PROT_READ | PROT_WRITE, NULL);
  const void *slab = fs_map_fd(h->fd[FS_HO_SLAB], h->size[FS_HO_SLAB], PROT_READ, NULL);
  fs_err err = slab ? fs_cache_view_init(&node->view, slab, h->size[FS_HO_SLAB], heat, h->size[FS_HO_HEAT]) : -EPROTO;
  node->view.hint = g_hints;
  if (err == 0 && heat && !node->view.heat) err = -EPROTO;
  uint64_t n = h->size[FS_HO_RECORDS]; /* 0: the job has no outputs */
  const void *records = n > 0 ? fs_map_fd(h->fd[FS_HO_RECORDS], n, PROT_READ, NULL) : NULL;
  if (err == 0 && n > 0) err = records ? fs_record_view_init(&node->records, records, n) : -EPROTO;
  node->records.base = records;
  if (err == 0) return 0;
  node->view.base = slab; /* so that fs_node_drop unmaps it */
  node->view.heat = heat;
  return err;
}

void fs_words_of(const struct fs_node *node) {
  const _Atomic uint32_t *zero = &g_zero;
  if (node->offline)
    atomic_compare_exchange_strong(&fs_nl_any_word, &zero, &node->ctl->node_local_any);
  else
    atomic_store(&fs_nl_any_word, &node->ctl->node_local_any);
}

/* Returns the node of this hand-over: the published one, or a new one. Returns NULL if it is
   another daemon's. */
static const struct fs_node *fs_node_take(const struct fs_handover *h) {
  struct stat st;
  void *node = atomic_load_explicit(&g_node, memory_order_acquire);
  if (!node) {
    struct fs_node *mine = fs_mem_map(sizeof(*mine));
    if (!mine) return NULL;
    if (fs_node_fill(mine, h) < 0) {
      fs_node_drop(mine, h);
      return NULL;
    }
    if (!fs_publish_ptr(&g_node, mine, &node)) fs_node_drop(mine, h);
    atomic_store(&fs_output_full_word, &((const struct fs_node *)node)->ctl->output_full);
    fs_words_of(node);
    if (node == mine && fs_node_was_offline()) fs_datasets_online(mine);
  }
  const struct fs_node *n = node;
  return fs_sys_fstat(h->fd[FS_HO_CTL], &st) == 0 && st.st_ino == n->ctl_ino ? n : NULL;
}

/* ---- the link ---- */

static void fs_link_drop(struct fs_link *link) {
  fs_mem_unmap(link->channel, link->channel_size);
  fs_own_close(link->socket);
  fs_own_close(link->doorbell);
  fs_mem_unmap(link, sizeof(*link));
}

static fs_err fs_link_map(struct fs_link *link, const struct fs_handover *h) {
  *link = (struct fs_link){.socket = -1, .doorbell = -1, .channel_size = h->size[FS_HO_CHANNEL]};
  struct fs_channel *c = fs_map_fd(h->fd[FS_HO_CHANNEL], link->channel_size, PROT_READ | PROT_WRITE, NULL);
  link->channel = c;
  if (!c || link->channel_size < sizeof(*c) || c->magic != FS_CHANNEL_MAGIC || c->version != FS_IPC_VERSION)
    return -EPROTO;
  return 0;
}

static fs_err fs_link_fill(struct fs_link *link, struct fs_handover *h) {
  fs_err err = fs_link_map(link, h);
  if (err < 0) return err;
  link->socket = fs_data_adopt_fd(h->socket);
  if (link->socket < 0) return link->socket;
  h->socket = -1;
  link->doorbell = fs_data_adopt_fd(h->fd[FS_HO_DOORBELL]);
  if (link->doorbell < 0) return link->doorbell;
  h->fd[FS_HO_DOORBELL] = -1;
  return 0;
}

/* Moves what was counted before there was a channel into the channel. */
static void fs_link_counters(struct fs_self *self, struct fs_link *link) {
  for (unsigned i = 0; i < FS_C_COUNT; i++) {
    uint64_t n = atomic_exchange_explicit(&self->counter[i], 0, memory_order_relaxed);
    if (n > 0) atomic_fetch_add_explicit(&link->channel->counter[i], n, memory_order_relaxed);
  }
}

static struct fs_link *fs_link_take(struct fs_handover *h) {
  struct fs_self *self = fs_self();
  struct fs_link *mine = fs_self_owner() ? fs_mem_map(sizeof(*mine)) : NULL;
  void *link = NULL;
  if (!mine) return NULL;
  if (fs_link_fill(mine, h) < 0) {
    fs_link_drop(mine);
    return NULL;
  }
  if (fs_publish_ptr(&self->link, mine, &link)) {
    atomic_store(&g_link, mine);
    fs_link_counters(self, mine);
  } else {
    fs_link_drop(mine);
  }
  return link;
}

static void fs_handover_drop(const struct fs_handover *h) {
  if (h->socket >= 0) fs_sys_close(h->socket);
  for (unsigned i = 0; i < FS_HO_COUNT; i++) {
    if (h->fd[i] >= 0) fs_sys_close(h->fd[i]);
  }
}

/* Takes what the daemon has given to this process. Signals wait: if a handler forked in the middle,
   the child would publish its parent's channel as its own. If a handler has forked by now, the
   child drops what it inherited. */
static bool fs_attach_take(struct fs_handover *h, int32_t process) {
  uint64_t signals;
  fs_sys_sigmask(~0ull, &signals);
  bool mine = fs_self_process() == process, publish = mine && fs_own_publish_begin();
  bool attached = mine && fs_node_take(h) && (fs_link_take(h) || !fs_self_owner());
  if (publish) fs_own_publish_end();
  fs_handover_drop(h);
  fs_sys_sigmask(signals, NULL);
  return attached;
}

/* Attaches. In a child that was forked meanwhile, attaches again for the child, unless the handler
   has done so. */
static bool fs_attach(void) {
  for (;;) {
    struct fs_handover h;
    int32_t process = fs_self_process();
    bool attached = fs_meet(&h) == 0 && fs_attach_take(&h, process);
    if (FS_LIKELY(fs_self_process() == process)) return attached;
    if (atomic_load(&fs_self()->link)) return true;
  }
}

/* The descriptors keep the numbers that they came with: nobody else uses the child's during the
   read. */
struct fs_link *fs_link_borrow(struct fs_link *mine) {
  struct fs_self *self = fs_self();
  struct fs_handover h;
  if (fs_vfork_depth == 0 || !fs_run_set() || fs_now_ns() < atomic_load(&self->link_retry_ns)) return NULL;
  if (fs_meet(&h) != 0) {
    atomic_store(&self->link_retry_ns, fs_now_ns() + FS_ATTACH_RETRY_NS);
    return NULL;
  }
  bool ok = fs_node_take(&h) && fs_link_map(mine, &h) == 0;
  if (ok) {
    mine->socket = h.socket;
    mine->doorbell = h.fd[FS_HO_DOORBELL];
    h.socket = h.fd[FS_HO_DOORBELL] = -1;
  }
  fs_handover_drop(&h);
  return ok ? mine : NULL;
}

void fs_link_return(struct fs_link *mine) {
  fs_mem_unmap(mine->channel, mine->channel_size);
  fs_sys_close(mine->socket);
  fs_sys_close(mine->doorbell);
}

struct fs_link *fs_link_get(void) {
  struct fs_self *self = fs_self();
  struct fs_link *link = atomic_load_explicit(&self->link, memory_order_acquire);
  if (FS_LIKELY(link != NULL) || !fs_run_set()) return link;
  if (!fs_self_owner() && atomic_load_explicit(&g_node, memory_order_acquire)) return NULL;
  int32_t process = fs_self_process();
  /* After a failure, tries again only every few seconds: a daemon that does not answer must not
     slow down every call. */
  if (fs_now_ns() >= atomic_load(&self->link_retry_ns) && !fs_attach())
    atomic_store(&self->link_retry_ns, fs_now_ns() + FS_ATTACH_RETRY_NS);
  link = atomic_load_explicit(&self->link, memory_order_acquire);
  return FS_LIKELY(link || fs_self_process() == process) ? link : fs_link_get();
}

/* Programs that see other files than the launcher does are common: containers, or a private
   /tmp. */
static void tell_unseen(const char *run) {
  if (atomic_exchange(&g_unseen, 1)) return;
  FS_NOTE(
      "the job's run directory ", run, " does not exist for this program, which sees other files than fs-launch",
      " (a private /tmp, or a container?): it has no daemon, reads the dataset from shared storage if it sees that,",
      " and output files are EIO; bind what fs-launch env --container prints, or give fs-launch a --local-dir that",
      " both see");
}

const struct fs_node *fs_node_attach(void) {
  void *node = atomic_load_explicit(&g_node, memory_order_acquire);
  if (node || !fs_run_set()) return node;
  fs_link_get();
  node = atomic_load_explicit(&g_node, memory_order_acquire);
  if (node) return node;
  const struct fs_node *offline = fs_node_was_offline();
  if (offline) return offline;
  char path[PATH_MAX];
  struct stat st;
  uint32_t rank;
  (void)fs_meeting_place(fs_run_path(), &rank, path, &st);
  if (fs_attach_failed() == FS_RUN_UNSEEN) tell_unseen(fs_run_path());
  return fs_node_offline(fs_run_path(), rank);
}

bool fs_node_alive(const struct fs_node *node) {
  return !atomic_load_explicit(&node->ctl->stopping, memory_order_relaxed) && !fs_node_silent(node);
}

bool fs_node_silent(const struct fs_node *node) {
  uint64_t beat = atomic_load_explicit(&node->ctl->heartbeat_ns, memory_order_relaxed), now = fs_now_ns();
  return now > beat && now - beat > FS_HEARTBEAT_STALE_NS;
}

struct fs_link *fs_link_newest(void) {
  return atomic_load(&g_link);
}

/* Replaces an inherited link's channel by memory of the child's own. A signal handler may have
   forked in the middle of a read, which goes on in the child with its parent's link. The read must
   neither crash nor touch the parent's slots, so the link stays. data.c then does the read
   again. */
static void fs_link_disown(struct fs_link *link) {
  void *p = fs_sys_mmap(link->channel, link->channel_size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (fs_sys_mmap_failed(p)) fs_mem_unmap(link->channel, link->channel_size);
  fs_own_close(link->socket);
  fs_own_close(link->doorbell);
  link->socket = link->doorbell = -1;
  atomic_store_explicit(&link->dead, true, memory_order_relaxed);
}

void fs_link_forked(struct fs_link *inherited) {
  void *expected = inherited;
  if (!inherited) return;
  atomic_compare_exchange_strong(&g_link, &expected, NULL);
  fs_link_disown(inherited);
}
