/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For fuzz_nodes_lead and fuzz_nodes_worker: one rank of a pack over nodes, on a network that the
 * target plays. The other ranks send what a real pack sends, and the input says what is different in
 * their messages. An empty input changes nothing, and then the pack must succeed.
 */
#ifndef FS_TEST_FUZZ_NODES_H
#define FS_TEST_FUZZ_NODES_H

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <fcntl.h>
#if __has_include(<linux/landlock.h>)
#include <linux/landlock.h>
#endif
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "../../fs-prepare/nodes/owner.h"
#include "../../fs-prepare/nodes/worker.c" /* its jobs are freed here */
#include "fuzz_input.h"

#define QUIET_NS (FS_NS_PER_S / 50) /* without an answer, once the input has changed a message */
#define STUCK_NS (20 * FS_NS_PER_S)
#define QUEUE 64u

struct packet {
  uint32_t from;
  size_t n;
  uint8_t *data;
};

static struct {
  struct fs_net net;
  struct fs_net_op *recv;
  uint8_t *buf;
  size_t room;
  struct packet queue[QUEUE];
  uint32_t queued, arrived; /* messages that wait; that have been made so far */
  struct fs_net_op *sent[QUEUE];
  uint32_t to[QUEUE], sends;
  uint64_t moved_ns;
  void (*on_send)(uint32_t to, struct fs_in *in);
} world;

/* What the input changes in the messages that arrive. */
static struct edit {
  uint8_t message, how;
  uint16_t at;
  uint32_t value;
} edits[16];
static uint32_t nedits;
static char top[200];

static void read_edits(const uint8_t *data, size_t size) {
  in.at = data;
  in.left = size;
  for (nedits = 0; nedits < FS_ARRAY_LEN(edits) && in.left >= sizeof edits[0]; nedits++)
    take(&edits[nedits], sizeof edits[0]);
}

static void enqueue(uint32_t from, const void *data, size_t n) {
  if (world.queued == QUEUE) return;
  uint8_t *copy = malloc(n + 1);
  if (copy == NULL) abort();
  memcpy(copy, data, n);
  world.queue[world.queued++] = (struct packet){from, n, copy};
}

static void swap_last(void) {
  if (world.queued < 2) return;
  const struct packet p = world.queue[world.queued - 1];
  world.queue[world.queued - 1] = world.queue[world.queued - 2];
  world.queue[world.queued - 2] = p;
}

static void put(struct fs_msg *m, size_t at, uint64_t value, size_t n) {
  if (m->n >= n) memcpy(m->data + at % (m->n - n + 1), &value, n);
}

/* Changes a message. Returns how often it is sent. */
static unsigned change(struct fs_msg *m, const struct edit *e, uint32_t *from) {
  static const uint64_t odd[] = {0, 1, UINT32_MAX, UINT64_MAX, INT64_MAX, 1ull << 31, 1ull << 32, 1ull << 62};
  switch (e->how % 10) {
  case 0:
    put(m, e->at, e->value, 1);
    break;
  case 1:
    put(m, e->at, e->value, 4);
    break;
  case 2:
    put(m, e->at, odd[e->value % FS_ARRAY_LEN(odd)], 8);
    break;
  case 3:
    put(m, e->at, odd[e->value % FS_ARRAY_LEN(odd)], 4);
    break;
  case 4:
    m->n = e->at % (m->n + 1);
    break;
  case 5:
    return 2;
  case 6:
    return 0;
  case 7:
    *from = e->value % (world.net.nodes + 1);
    break;
  case 8: /* all of it is the input's, but for the kind */
    m->n = FS_MIN(m->n, 4u);
    fs_msg_put(m, in.at, FS_MIN(in.left, (size_t)4096));
    break;
  default: /* another kind of message before it, which is the input's */
    enqueue(e->at % world.net.nodes, &(uint32_t[]){e->value % FS_NODES_KINDS, e->at}, 8);
  }
  return 1;
}

/* A message of another rank. Frees it. */
static void arrive(uint32_t from, struct fs_msg *m) {
  const uint32_t number = world.arrived++;
  unsigned times = 1;
  if (m == NULL || m->failed) abort();
  for (uint32_t i = 0; i < nedits; i++)
    if (edits[i].message == number) times = change(m, &edits[i], &from);
  for (unsigned i = 0; i < times; i++) enqueue(from, m->data, m->n);
  for (uint32_t i = 0; i < nedits; i++)
    if (edits[i].message == number && edits[i].how >= 128) swap_last();
  fs_msg_free(m);
}

static fs_err fake_send(struct fs_net *net, uint32_t to, uint32_t tag, const void *buf, size_t bytes,
                        struct fs_net_op *op) {
  (void)net, (void)tag;
  if (world.sends == QUEUE) return -ENOBUFS;
  world.sent[world.sends] = op;
  world.to[world.sends++] = to;
  struct fs_in message = {.data = buf, .n = bytes};
  if (to >= world.net.nodes) abort();
  world.on_send(to, &message);
  return 0;
}

static fs_err fake_recv(struct fs_net *net, uint32_t peer, uint32_t tag, void *buf, size_t bytes,
                        struct fs_net_op *op) {
  (void)net, (void)peer, (void)tag;
  world.recv = op;
  world.buf = buf;
  world.room = bytes;
  return 0;
}

static void (*on_quiet)(void);

static int fake_poll(struct fs_net *net) {
  int done = 0;
  (void)net;
  for (; world.sends > 0; done++) {
    struct fs_net_op *op = world.sent[--world.sends];
    op->done(op, world.to[world.sends], 0, 0);
  }
  if (world.queued > 0 && world.recv != NULL) {
    struct packet p = world.queue[0];
    struct fs_net_op *op = world.recv;
    memmove(world.queue, world.queue + 1, --world.queued * sizeof p);
    world.recv = NULL;
    if (p.n > world.room) abort();
    memcpy(world.buf, p.data, p.n);
    free(p.data);
    op->done(op, p.from, p.n, 0);
    done++;
  }
  if (done > 0) world.moved_ns = fs_now_ns();
  if (on_quiet != NULL && fs_now_ns() - world.moved_ns > (nedits > 0 ? QUIET_NS : STUCK_NS)) on_quiet();
  return done;
}

static void begin_nodes(struct fs_nodes *n, uint32_t rank, uint32_t nodes,
                        void (*on_send)(uint32_t to, struct fs_in *in)) {
  static const struct fs_net_ops ops = {.send = fake_send, .recv = fake_recv, .poll = fake_poll};
  memset((void *)&world, 0, sizeof world);
  world.net = (struct fs_net){.ops = &ops, .rank = rank, .nodes = nodes, .tag_max = 32767};
  world.on_send = on_send;
  world.moved_ns = fs_now_ns();
  if (fs_nodes_open(n, &world.net) < 0) abort();
  n->emulated = (int)rank;
  fs_plan_begin(n);
  fs_walk_begin(n);
  fs_scan_begin(n);
  fs_encoder_begin(n);
  fs_owner_begin(n);
}

static void free_jobs(struct job *j) {
  for (struct job *next; j != NULL; j = next) {
    next = j->next;
    for (unsigned i = 0; i < FS_BATCH_CHUNKS; i++) free(j->items[i].path);
    fs_batch_free(&j->batch);
    free(j);
  }
}

static void free_worker(struct fs_nodes *n) {
  struct fs_worker *w = n->worker;
  if (w == NULL) return;
  fs_encoder_stop(n);
  free_jobs(w->ready.first);
  free_jobs(w->done.first);
  free_jobs(w->waiting);
  free_jobs(w->idle);
  for (uint32_t i = 0; w->to != NULL && i < n->nodes; i++) fs_msg_free(w->to[i]);
  free(w->to);
  free(w->threads);
  free(w);
}

/* A rank's memory ends with its process; here the next run needs it. */
static void end_nodes(struct fs_nodes *n) {
  struct fs_owner *o = n->owner;
  for (; world.queued > 0; world.queued--) free(world.queue[world.queued - 1].data);
  while (world.sends > 0) fake_poll(&world.net);
  free_worker(n);
  fs_owner_stop(n);
  if (o != NULL) {
    if (o->top_fd >= 0) close(o->top_fd);
    free(o->part);
    free(o->here);
    free(o->first);
    free(o);
  }
  for (uint32_t i = 0; i < n->tree.nsources; i++) free((char *)n->tree.sources[i].path);
  fs_sources_close(&n->tree);
  for (uint32_t i = 0; i < n->plan.codecs.n; i++) {
    fs_encoding_release(&n->plan.codecs.row[i]);
    free((void *)n->plan.codecs.row[i].dict);
  }
  free(n->numbers.number);
  free(n->heard_ns);
  for (struct fs_msg *m; (m = n->own) != NULL;) {
    n->own = m->next;
    fs_msg_free(m);
  }
  free(world.buf);
}

/* SOURCE is beside the directory of what the rank writes, which a changed message can reach. */
static const char *path_of(char out[PATH_MAX], const char *name) {
  const char *dir = strncmp(name, "source", 6) == 0 ? "" : "w/";
  if (snprintf(out, PATH_MAX, "%s/%s%s", top, dir, name) >= PATH_MAX) abort();
  return out;
}

/* Returns the number of names in a directory of the target. */
static unsigned names_in(const char *name) {
  char path[PATH_MAX];
  unsigned n = 0;
  DIR *d = opendir(path_of(path, name));
  for (const struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) n += !fs_is_dot(e->d_name);
  if (d != NULL) closedir(d);
  return n;
}

static void remove_all(void) {
  char path[PATH_MAX];
  DIR *d = opendir(path_of(path, "."));
  for (const struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
    if (!fs_is_dot(e->d_name)) (void)fs_remove_tree(path_of(path, e->d_name));
  if (d == NULL || closedir(d) != 0 || names_in(".") != 0) abort();
}

static void write_file(const char *name, size_t n, char first) {
  char path[PATH_MAX], text[70000];
  for (size_t i = 0; i < n; i++) text[i] = (char)(first + i / 100 % 7);
  int fd = open(path_of(path, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || write(fd, text, n) != (ssize_t)n) abort();
  close(fd);
}

#ifdef LANDLOCK_ACCESS_FS_REFER
static bool write_only_in(const char *const dirs[], size_t n) {
  const uint64_t writes = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                          LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR |
                          LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                          LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER;
  struct landlock_ruleset_attr attr = {.handled_access_fs = writes};
  int rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr.handled_access_fs, 0);
  for (size_t i = 0; rules >= 0 && i < n && dirs[i] != NULL; i++) {
    struct landlock_path_beneath_attr beneath = {writes, open(dirs[i], O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) < 0) abort();
    close(beneath.parent_fd);
  }
  if (rules < 0) return false;
  bool on = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_landlock_restrict_self, rules, 0) == 0;
  close(rules);
  return on;
}
#else /* headers older than Linux 5.19: the targets are compiled, and do not run */
static bool write_only_in(const char *const dirs[], size_t n) {
  (void)dirs, (void)n;
  return false;
}
#endif

/* A changed path leads anywhere. So the kernel lets this process write only in its directory, and where libFuzzer keeps
 * what it finds. Without Landlock (Linux 5.19) the target does not run. */
static void confine(void) {
  char path[PATH_MAX];
  const char *const dirs[] = {path_of(path, "."), ".", getenv("FUZZ_CORPUS")};
  if (write_only_in(dirs, FS_ARRAY_LEN(dirs))) return;
  fprintf(stderr, "no Landlock here, and a changed message may write anywhere\n");
  _exit(78); /* 77 is what libFuzzer ends with */
}

/* Makes SOURCE: some directories, small files, and one of several blocks. */
static void make_source(void) {
  char path[PATH_MAX], name[64];
  const char *tmp = getenv("TMPDIR");
  snprintf(top, sizeof top, "%s/fuzz-nodes.XXXXXX", tmp != NULL ? tmp : "/tmp");
  if (mkdtemp(top) == NULL || mkdir(path_of(path, ""), 0700) < 0 || mkdir(path_of(path, "source"), 0700) < 0) abort();
  for (char d = 'a'; d < 'f'; d++) {
    snprintf(name, sizeof name, "source/%c", d);
    if (mkdir(path_of(path, name), 0700) < 0) abort();
    for (char f = '0'; f < '3'; f++) {
      snprintf(name, sizeof name, "source/%c/%c", d, f);
      write_file(name, 5u + (unsigned)(f - '0') * 1000u, (char)(d + f));
    }
  }
  write_file("source/large", 65000, 'L');
  if (symlink("large", path_of(path, "source/link")) < 0) abort();
}

#define MEMBERS 3u
#define MEMBER_TIME 1000000000

static const char *member_name(char out[8], char first, unsigned number) {
  snprintf(out, 8, "%c%u", first, number);
  return out;
}

static size_t member_size(unsigned number) {
  return 100ul * number;
}

/* Makes a compressed tar file beside SOURCE. Its members have numbers from 1 on, and `first` begins their names. */
static void make_archive(const char *name, char first) {
  static const char bytes[100 * MEMBERS] = "bytes";
  char path[PATH_MAX], member[8];
  struct archive *a = archive_write_new();
  struct archive_entry *e = archive_entry_new();
  bool good = a != NULL && e != NULL && archive_write_set_format_ustar(a) == ARCHIVE_OK &&
              archive_write_add_filter_gzip(a) == ARCHIVE_OK &&
              archive_write_open_filename(a, path_of(path, name)) == ARCHIVE_OK;
  for (unsigned i = 1; i <= MEMBERS && good; i++) {
    archive_entry_clear(e);
    archive_entry_set_pathname(e, member_name(member, first, i));
    archive_entry_set_size(e, (int64_t)member_size(i));
    archive_entry_set_filetype(e, AE_IFREG);
    archive_entry_set_perm(e, 0600);
    archive_entry_set_mtime(e, MEMBER_TIME, 0);
    good = archive_write_header(a, e) == ARCHIVE_OK && archive_write_data(a, bytes, member_size(i)) >= 0;
  }
  if (!good || archive_write_close(a) != ARCHIVE_OK) abort();
  archive_entry_free(e);
  archive_write_free(a);
}

#endif
