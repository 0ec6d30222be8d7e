/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The meeting of client and daemon: a hello as the daemon hears it, a welcome as the client does, and what a client
 * believes of the memory that came with it (the control segment and the cache's slab).
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../libfanstore/client/attach.c" /* for its checks */
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
    server.listener = fs_handover_listen(path);
    int flags = fcntl(server.listener, F_GETFL);
    if (server.listener < 0 || fcntl(server.listener, F_SETFL, flags & ~O_NONBLOCK) < 0) abort();
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

static void check_ctl(const uint8_t *data, size_t size) {
  size_t n = sizeof(struct fs_ctl) + 8 * sizeof(struct fs_placement);
  uint8_t *memory = calloc(1, n); /* of just this size, for the address sanitizer */
  struct fs_ctl *c = (void *)memory;
  *c = (struct fs_ctl){.magic = FS_CTL_MAGIC, .version = FS_IPC_VERSION, .datasets = 2, .size = n, .nplacements = 8};
  c->placements = sizeof(struct fs_ctl);
  c->dataset[0].partitions = c->dataset[1].partitions = 4;
  c->dataset[1].placement = 4;
  uint8_t *head = memory; /* most of it are paths: aim at the rest, too */
  if (size > 0 && data[0] & 1)
    patch(head, 128, data + 1, size - 1);
  else if (size > 0)
    patch(memory, n, data + 1, size - 1);
  volatile size_t sum = 0;
  if (fs_ctl_valid(c, n)) {
    for (uint32_t i = 0; i < c->datasets; i++) {
      const struct fs_ctl_dataset *d = &c->dataset[i];
      const struct fs_placement *p = (const void *)(memory + c->placements);
      sum += strlen(d->mount) + strlen(d->source) + strlen(d->local);
      for (uint32_t k = 0; k < d->partitions; k++) sum += p[d->placement + k].owners;
    }
    sum += strlen(c->spill);
  }
  (void)sum;
  free(memory);
}

#define SLAB (64u << 10)
static void check_slab(const uint8_t *data, size_t size) {
  uint8_t *memory = aligned_alloc(4096, SLAB), heat[64] = {0}, out[512];
  volatile uint8_t sink = 0;
  struct fs_cache_view v;
  struct fs_cache_header *h = (void *)memory;
  _Atomic uint32_t pin = 0;
  uint32_t len;
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
  if (size > 0) patch(memory, data[0] & 1 ? 12288 : data[0] & 2 ? sizeof(*h) : SLAB, data + 1, size - 1);
  if (fs_cache_view_init(&v, memory, SLAB, heat, sizeof(heat)) == 0) {
    v.hint = g_hints;
    for (uint64_t key = 0; key < 20; key++) {
      const uint8_t *bytes = fs_cache_pin(&v, FS_CACHE_KEY(0, key), &pin, &len);
      for (uint32_t i = 0; bytes && i < len; i++) sink ^= bytes[i];
      fs_cache_unpin(&pin);
      (void)fs_cache_has(&v, FS_CACHE_KEY(0, key));
      (void)fs_cache_copy(&v, FS_CACHE_KEY(0, key), 512, out, 10, 500);
      fs_cache_soon(&v, FS_CACHE_KEY(0, key), 512);
      bytes = fs_cache_pinned(&v, FS_CACHE_KEY(0, key), (uint32_t)key * 7, &len);
      for (uint32_t i = 0; bytes && i < len; i++) sink ^= bytes[i];
    }
  }
  (void)sink;
  free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0 || size > 4096) return 0;
  static void (*const checks[])(const uint8_t *, size_t) = {check_hello, check_welcome, check_ctl, check_slab};
  checks[data[0] % 4](data + 1, size - 1);
  return 0;
}
