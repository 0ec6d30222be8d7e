/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The meeting of client and daemon: a hello as the daemon hears it, a welcome as the client does, what a client
 * believes of the memory that came with it (the control segment and the cache's slab), and all of it at once, as a
 * program does that starts: with a daemon that sends what it likes, or one that has only left its file.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../libfanstore/client/node/attach.c" /* for their checks, and what they have published */
#include "../../libfanstore/client/node/offline.c"
#include "ipc/handover.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_hello(const uint8_t *data, size_t size) {
  int s[2];
  struct fs_hello h = {0};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s) < 0) abort();
  if (size > 0 && send(s[0], data, size, MSG_DONTWAIT) != (ssize_t)size) abort();
  memcpy(&h, data, FS_MIN(size, sizeof(h)));
  bool good = size == sizeof(h) && h.magic == FS_HELLO_MAGIC && h.version == FS_IPC_VERSION;
  fs_ssize pid = fs_handover_hello(s[1]);
  if (good ? pid != getpid() : pid >= 0) abort();
  close(s[0]);
  close(s[1]);
}

/* ---- the welcome ---- */

static struct {
  int listener;
  const uint8_t *data;
  size_t size;
  unsigned fds;
} server;

static int listen_at(const char *path) {
  int fd = fs_handover_listen(path);
  if (fd < 0 || fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) < 0) abort();
  return fd;
}

static void *serve(void *arg) {
  int s = accept4(server.listener, NULL, NULL, SOCK_CLOEXEC), fd[16];
  struct fs_hello hello;
  struct iovec iov = {.iov_base = (void *)(uintptr_t)server.data, .iov_len = server.size};
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(fd))] = {0};
  struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
  if (s < 0 || recv(s, &hello, sizeof(hello), 0) != sizeof(hello)) abort();
  for (unsigned i = 0; i < server.fds; i++) fd[i] = dup(s);
  if (server.fds > 0) {
    msg.msg_control = control;
    msg.msg_controllen = CMSG_SPACE(server.fds * sizeof(int));
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(server.fds * sizeof(int));
    memcpy(CMSG_DATA(c), fd, server.fds * sizeof(int));
  }
  if (sendmsg(s, &msg, MSG_NOSIGNAL) < 0) abort();
  for (unsigned i = 0; i < server.fds; i++) close(fd[i]);
  close(s);
  return arg;
}

static int lowest_free(void) {
  int fd = dup(0);
  close(fd);
  return fd;
}

static void check_welcome(const uint8_t *data, size_t size) {
  static char path[200];
  struct fs_handover h = {0};
  pthread_t thread;
  if (!path[0]) {
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%.150s/fuzz-%d.sock", tmp ? tmp : "/tmp", (int)getpid());
    server.listener = listen_at(path);
  }
  server.fds = size > 0 ? data[0] % 12 : 0;
  server.data = data + (size > 0);
  server.size = size - (size > 0);
  int low = lowest_free();
  if (pthread_create(&thread, NULL, serve, NULL) != 0) abort();
  fs_err err = fs_handover_connect(path, 5000000000ull, &h);
  pthread_join(thread, NULL);
  if (err == 0 && (server.fds != FS_HO_COUNT || server.size != sizeof(struct fs_welcome))) abort();
  if (err == 0) fs_handover_drop(&h);
  if (lowest_free() != low) abort(); /* a descriptor was lost */
}

/* ---- the memory ---- */

/* Eight bytes here and there over what is good. */
static void patch(uint8_t *memory, size_t n, const uint8_t *data, size_t size) {
  for (uint32_t at; size >= sizeof(at) + 8; data += sizeof(at) + 8, size -= sizeof(at) + 8) {
    memcpy(&at, data, sizeof(at));
    memcpy(memory + at % (n - 7), data + sizeof(at), 8);
  }
}

#define CTL (sizeof(struct fs_ctl) + 8 * sizeof(struct fs_placement))

static void good_ctl(uint8_t *memory) {
  struct fs_ctl *c = (void *)memory;
  *c = (struct fs_ctl){.magic = FS_CTL_MAGIC, .version = FS_IPC_VERSION, .datasets = 2, .size = CTL, .nplacements = 8};
  c->placements = sizeof(struct fs_ctl);
  c->dataset[0].partitions = c->dataset[1].partitions = 4;
  c->dataset[1].placement = 4;
}

/* Most of it are paths: aims at the rest, too. */
static void patch_ctl(uint8_t *memory, const uint8_t *data, size_t size) {
  if (size > 0) patch(memory, data[0] & 1 ? 128 : CTL, data + 1, size - 1);
}

/* Reads all that a client may. */
static void use_ctl(const struct fs_ctl *c, const struct fs_placement *p) {
  volatile size_t sum = 0;
  for (uint32_t i = 0; i < c->datasets; i++) {
    const struct fs_ctl_dataset *d = &c->dataset[i];
    sum += strlen(d->mount) + strlen(d->source) + strlen(d->local);
    for (uint32_t k = 0; k < d->partitions; k++) sum += p[d->placement + k].owners;
  }
  sum += strlen(c->backing);
  (void)sum;
}

static void check_ctl(const uint8_t *data, size_t size) {
  uint8_t *memory = calloc(1, CTL); /* of just this size, for the address sanitizer */
  struct fs_ctl *c = (void *)memory;
  good_ctl(memory);
  patch_ctl(memory, data, size);
  if (fs_ctl_valid(c, CTL)) use_ctl(c, (const void *)(memory + c->placements));
  free(memory);
}

#define SLAB (64u << 10)
static void good_slab(uint8_t *memory) {
  struct fs_cache_header *h = (void *)memory;
  memset(memory, 0, SLAB);
  *h = (struct fs_cache_header){.magic = FS_CACHE_MAGIC, .version = FS_IPC_VERSION, .size = SLAB, .buckets = 4};
  h->bucket_off = 4096;
  h->line_off = 8192;
  h->lines = 16;
  _Atomic uint32_t *bucket = (void *)(memory + h->bucket_off);
  struct fs_line *line = (void *)(memory + h->line_off);
  for (uint32_t i = 0; i < 4 * FS_CACHE_WAYS; i++) bucket[i] = i % 17;
  for (uint32_t i = 0; i < 16; i++) {
    atomic_store(&line[i].tag, FS_CACHE_KEY(0, i) | FS_CACHE_VALID);
    atomic_store(&line[i].off, 16384 + i * 512u);
    atomic_store(&line[i].len, 512);
  }
}

static void patch_slab(uint8_t *memory, const uint8_t *data, size_t size) {
  size_t most = size == 0 ? 0 : data[0] & 1 ? 12288 : data[0] & 2 ? sizeof(struct fs_cache_header) : SLAB;
  if (size > 0) patch(memory, most, data + 1, size - 1);
}

static void use_slab(struct fs_cache_view *v) {
  _Atomic uint32_t pin = 0;
  volatile uint8_t sink = 0;
  uint8_t out[512];
  uint32_t len;
  for (uint64_t key = 0; key < 20; key++) {
    const uint8_t *bytes = fs_cache_pin(v, FS_CACHE_KEY(0, key), &pin, &len);
    for (uint32_t i = 0; bytes && i < len; i++) sink ^= bytes[i];
    fs_cache_unpin(&pin);
    (void)fs_cache_has(v, FS_CACHE_KEY(0, key));
    (void)fs_cache_copy(v, FS_CACHE_KEY(0, key), 512, out, 10, 500);
    fs_cache_soon(v, FS_CACHE_KEY(0, key), 512);
    bytes = fs_cache_pinned(v, FS_CACHE_KEY(0, key), (uint32_t)key * 7, &len);
    for (uint32_t i = 0; bytes && i < len; i++) sink ^= bytes[i];
  }
  (void)sink;
}

static void check_slab(const uint8_t *data, size_t size) {
  uint8_t *memory = aligned_alloc(4096, SLAB), heat[64] = {0};
  struct fs_cache_view v;
  good_slab(memory);
  patch_slab(memory, data, size);
  if (fs_cache_view_init(&v, memory, SLAB, heat, sizeof(heat)) == 0) {
    v.hint = g_hints;
    use_slab(&v);
  }
  free(memory);
}

/* ---- all of it ---- */

static char run[200];
static struct {
  int fd[FS_HO_COUNT];
  struct fs_welcome welcome;
} there;

static void begin_run(void) {
  const char *tmp = getenv("TMPDIR");
  snprintf(run, sizeof(run), "%.150s/fuzz-run-XXXXXX", tmp ? tmp : "/tmp");
  if (!mkdtemp(run)) abort();
  setenv(FS_ENV_RUN, run, 1);
  for (int i = 0; i < FS_HO_COUNT; i++)
    if ((there.fd[i] = memfd_create("fuzz", MFD_CLOEXEC)) < 0) abort();
}

static void *send_welcome(void *arg) {
  int s = accept4(*(int *)arg, NULL, NULL, SOCK_CLOEXEC);
  struct fs_hello hello;
  struct fs_handover h = {.socket = s};
  if (s < 0 || recv(s, &hello, sizeof(hello), 0) != sizeof(hello)) abort();
  memcpy(h.fd, there.fd, sizeof(h.fd));
  memcpy(h.size, there.welcome.size, sizeof(h.size));
  fs_handover_welcome(s, there.welcome.err, &h);
  close(s);
  return NULL;
}

/* Fills a memory with what is good, patched; data[0] says how large it is and how large it is said to be. */
static void fill(enum fs_handover_fd which, uint8_t *memory, size_t n, const uint8_t *data, size_t size) {
  unsigned how = size > 0 ? data[0] >> 2 : 0;
  size_t real = how & 1 ? n / 2 : n;
  there.welcome.size[which] = how & 2 ? n - 8 : how & 4 ? n + 4096 : how & 8 ? UINT64_MAX / 2 : n;
  if (ftruncate(there.fd[which], 0) < 0 || pwrite(there.fd[which], memory, real, 0) != (ssize_t)real) abort();
}

static void forget(void) {
  struct fs_self *self = fs_self();
  struct fs_handover h = {.socket = -1};
  memcpy(h.size, there.welcome.size, sizeof(h.size));
  struct fs_link *link = atomic_exchange(&self->link, NULL);
  struct fs_node *node = atomic_exchange(&g_node, NULL), *offline = atomic_exchange(&g_offline, NULL);
  atomic_store(&g_link, NULL);
  atomic_store(&self->link_retry_ns, 0);
  atomic_store(&fs_output_full_word, NULL);
  if (link) fs_link_drop(link);
  if (node) fs_node_drop(node, &h);
  if (offline) {
    fs_mem_unmap((void *)offline->ctl, offline->ctl->size);
    fs_mem_unmap(offline, sizeof(*offline));
  }
}

/* data[0]: is there a daemon, is its node another one, has it left a file, does it refuse; then pieces for each memory.
 */
static void check_meeting(const uint8_t *data, size_t size) {
  static alignas(4096) uint8_t ctl[CTL], slab[SLAB], channel[sizeof(struct fs_channel)], heat[64];
  char path[300];
  pthread_t thread;
  unsigned how = size > 0 ? data[0] : 0;
  size_t third = size > 0 ? (size - 1) / 3 : 0;
  if (!run[0]) begin_run();
  good_ctl(ctl);
  patch_ctl(ctl, data + 1, third);
  good_slab(slab);
  patch_slab(slab, data + 1 + third, third);
  memset(channel, 0, 64);
  ((struct fs_channel *)channel)->magic = FS_CHANNEL_MAGIC;
  ((struct fs_channel *)channel)->version = FS_IPC_VERSION;
  if (third > 0) patch(channel, 64, data + 2 + 2 * third, third - 1);
  fill(FS_HO_CTL, ctl, sizeof(ctl), data + 1, third);
  fill(FS_HO_SLAB, slab, sizeof(slab), data + 1 + third, third);
  fill(FS_HO_HEAT, heat, sizeof(heat), data + 1 + third, third / 2);
  fill(FS_HO_CHANNEL, channel, sizeof(channel), data + 1 + 2 * third, third);
  there.welcome.err = how & 8 ? -EAGAIN : 0;

  snprintf(path, sizeof(path), "%s/node-0.ctl", run);
  int file = how & 4 ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
  if (file >= 0 && (write(file, ctl, how & 16 ? CTL - 9 : CTL) < 0 || close(file) < 0)) abort();
  snprintf(path, sizeof(path), "%s/node-%d.sock", run, how & 2 ? 3 : 0);
  int low = lowest_free(), listener = how & 1 ? -1 : listen_at(path);
  if (listener >= 0 && pthread_create(&thread, NULL, send_welcome, &listener) != 0) abort();

  const struct fs_node *node = fs_node_attach();
  if (node) use_ctl(node->ctl, node->placement);
  if (node && !node->offline) {
    struct fs_cache_view v = node->view;
    use_slab(&v);
    (void)fs_node_alive(node);
  }
  if (node && node->offline && (fs_node_alive(node) || !node->ctl->stopping)) abort();
  if (atomic_load(&fs_self()->link) && (!node || node->offline)) abort();
  forget();
  if (listener >= 0) {
    pthread_join(thread, NULL);
    close(listener);
    unlink(path);
  }
  snprintf(path, sizeof(path), "%s/node-0.ctl", run);
  unlink(path);
  if (lowest_free() != low) abort(); /* a descriptor was lost */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0 || size > 4096) return 0;
  static void (*const checks[])(const uint8_t *, size_t) = {check_hello, check_welcome, check_ctl, check_slab,
                                                            check_meeting};
  checks[data[0] % 5](data + 1, size - 1);
  return 0;
}
