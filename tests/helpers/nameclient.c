/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of fanstored's names of output files, for tests: makes the calls of ipc/call.h by the call slots of its own
 * channel, one for each line of its input, and prints what came of it.
 *
 *   nameclient SOCKET
 *
 *   create DIR NAME [TARGET]   a file; "create DIR NAME/": a directory; with a target: a symlink
 *   lookup DIR NAME | remove DIR NAME | rmdir DIR NAME | list DIR
 *   stat DIR NAME              mode, mtime and size in the record, as setattr prints them
 *   publish DIR ID SIZE
 *   rename DIR NAME TO NAME
 *   many DIR PREFIX N WINDOW [backing]   N files are made and published, WINDOW at once; with a byte in each
 *   find DIR ID                the record of this id
 *   setattr DIR ID TYPE [mode=OCTAL] [mtime=SECONDS] [size=BYTES]     TYPE: f, d or l
 *   hold ID                    prints "ok SNAPSHOT SIZE VERSION"
 *   release ID SNAPSHOT
 *   fetch SNAPSHOT SIZE FILE   what SNAPSHOT has, by the blocks of the node's cache, into a file
 *   rude SECONDS               random keys and snapshots, opens and closes, none of them waited for long
 *   forwarder ID TO            the backing file ID stands for the file TO
 *   forwarders TO N            N such of one empty backing file: "ok N", or the first error and how many there were
 *   append ID TEXT | extend ID SEGMENT OFFSET LENGTH | offer ID SEGMENT
 *   refused DIR                calls of all numbers that are none of a client's, about DIR: those that are not EINVAL
 *   backing 0                  where this node's outputs are
 *
 * A DIR is a number: 1 is the dataset's root, others are ids. Prints "ok" or the errno's name, then records: "ID NAME
 * SIZE".
 */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cache/cache.h"
#include "ipc/handover.h"
#include "ipc/layout.h"
#include "ipc/op.h"
#include "util/sys.h"
#include "util/util.h"

static struct {
  struct fs_handover h;
  const struct fs_ctl *ctl;
  struct fs_channel *ch;
  struct fs_cache_view view;
} c;

static void die(const char *what, int err) {
  fprintf(stderr, "nameclient: %s: %s\n", what, strerror(-err));
  exit(3);
}

static void *map(enum fs_handover_fd which, int prot) {
  void *p = mmap(NULL, c.h.size[which], prot, MAP_SHARED, c.h.fd[which], 0);
  if (p == MAP_FAILED) die("mmap", -errno);
  return p;
}

/* ---- a call slot ---- */

static void post_bytes(uint32_t i, struct fs_names_call call, const void *name, size_t n, const char *name2) {
  struct fs_call_slot *b = &c.ch->call_slot[i];
  uint64_t one = 1;
  memcpy(b->body, &call, sizeof(call));
  b->length = (uint32_t)fs_call_put((void *)b->body, name, n, name2, strlen(name2));
  atomic_fetch_or(&c.ch->calls_claimed, 1u << i);
  atomic_store(&b->state, FS_REQ_POSTED);
  atomic_fetch_or(&c.ch->calls_posted, 1u << i);
  if (atomic_load(&c.ctl->asleep)) (void)fs_sys_write(c.h.fd[FS_HO_DOORBELL], &one, sizeof(one));
}

static void post(uint32_t i, struct fs_names_call call, const char *name, const char *name2) {
  post_bytes(i, call, name, strlen(name), name2);
}

static void finish(uint32_t i) {
  struct fs_call_slot *b = &c.ch->call_slot[i];
  uint64_t end = fs_now_ns() + 30000000000ull;
  while (atomic_load(&b->state) == FS_REQ_POSTED || atomic_load(&b->state) == FS_REQ_ASLEEP) {
    if (fs_now_ns() > end) die("no answer", -ETIMEDOUT);
    uint32_t posted = FS_REQ_POSTED;
    if (atomic_compare_exchange_strong(&b->state, &posted, FS_REQ_ASLEEP) || posted == FS_REQ_ASLEEP)
      fs_futex_wait(&b->state, FS_REQ_ASLEEP, 50000000);
  }
  atomic_store(&b->state, FS_REQ_FREE);
  atomic_fetch_and(&c.ch->calls_claimed, ~(1u << i));
}

/* ---- the commands ---- */

static void print_answer(void) {
  const struct fs_call_slot *b = &c.ch->call_slot[0];
  size_t at = 0;
  const struct fs_record *r;
  printf("%s", b->err == 0 ? "ok" : strerrorname_np(-b->err));
  while (at < b->length && (r = fs_record_next(b->body, b->length, &at)) != NULL)
    printf(" %llu %.*s %llu", (unsigned long long)r->id, (int)r->name_len, fs_record_name(r),
           (unsigned long long)r->size);
  printf("\n");
  fflush(stdout);
}

/* All of a directory, a line a page. */
static void list(uint64_t dir) {
  struct fs_names_call call = {.op = FS_NAMES_LIST, .list = {.dir = dir, .most = FS_NAMES_BODY}};
  const struct fs_call_slot *b = &c.ch->call_slot[0];
  do {
    size_t at = 0;
    struct fs_listed l;
    const char *name;
    post(0, call, "", "");
    finish(0);
    if (b->err == 0 && b->length == 0) break;
    printf("%s", b->err == 0 ? "ok" : strerrorname_np(-b->err));
    while (b->err == 0 && (name = fs_listed_next(b->body, b->length, &at, &l)) != NULL) {
      printf(" %llu %.*s", (unsigned long long)l.id, (int)l.name_len, name);
      call.list.after = l.seq;
    }
    printf("\n");
  } while (b->err == 0);
  printf("end\n");
  fflush(stdout);
}

/* A file's bytes, before it has a name: open, for its writer. */
static int backing_make(uint64_t id) {
  char path[PATH_MAX + 64];
  snprintf(path, sizeof(path), "%s/" FS_OUTPUT_FILE, c.ctl->backing, (unsigned long long)id);
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, "x", 1) != 1) die(path, -errno);
  return fd;
}

static void many(uint64_t dir, const char *prefix, unsigned n, uint32_t window, bool backing) {
  char name[256];
  unsigned errors = 0;
  static uint64_t made;
  int fd[FS_CHANNEL_CALLS];
  uint64_t start = fs_now_ns();
  struct fs_names_call create = {.op = FS_NAMES_CREATE,
                                 .create = {.dir = dir, .id = FS_OUTPUT_ID, .mode = S_IFREG | 0644}};
  struct fs_names_call publish = {.op = FS_NAMES_PUBLISH, .publish = {.dir = dir, .size = 1, .mode = S_IFREG | 0644}};
  for (unsigned i = 0; i < n; i += window) {
    uint32_t now = FS_MIN(window, n - i);
    for (uint32_t k = 0; k < now; k++) {
      snprintf(name, sizeof(name), "%s%u", prefix, i + k);
      if (backing) create.create.id = c.ch->first_id + made++;
      if (backing) fd[k] = backing_make(create.create.id);
      post(k, create, name, "");
    }
    for (uint32_t k = 0; k < now; k++) {
      size_t at = 0;
      finish(k);
      const struct fs_record *r = fs_record_next(c.ch->call_slot[k].body, c.ch->call_slot[k].length, &at);
      errors += c.ch->call_slot[k].err != 0;
      publish.publish.id = r ? r->id : FS_OUTPUT_ID;
      post(k, publish, "", "");
    }
    for (uint32_t k = 0; k < now; k++) {
      finish(k);
      errors += c.ch->call_slot[k].err != 0;
      if (backing) close(fd[k]);
    }
  }
  printf("made=%u errors=%u rate=%.0f\n", n, errors, n / ((double)(fs_now_ns() - start) / 1e9));
  fflush(stdout);
}

/* ---- files of other nodes ---- */

static void hold(uint64_t id) {
  const struct fs_call_slot *b = &c.ch->call_slot[0];
  struct fs_opened held;
  post(0, (struct fs_names_call){.op = FS_NAMES_OPEN, .open.id = id}, "", "");
  finish(0);
  if (b->err == 0 && b->length != sizeof(held)) die("hold", -EPROTO);
  memcpy(&held, b->body, sizeof(held));
  if (b->err == 0)
    printf("ok %u %llu %llu\n", held.snapshot, (unsigned long long)held.size, (unsigned long long)held.version);
  else
    printf("%s\n", strerrorname_np(-b->err));
  fflush(stdout);
}

static void request(uint32_t slot, uint64_t key, uint32_t flags) {
  struct fs_req *r = &c.ch->req[slot];
  uint64_t word = 1;
  atomic_fetch_or(&c.ch->claimed, 1ull << slot);
  r->key = key;
  r->flags = flags;
  atomic_store(&r->state, FS_REQ_POSTED);
  atomic_fetch_or(&c.ch->posted, 1ull << slot);
  if (atomic_load(&c.ctl->asleep)) (void)fs_sys_write(c.h.fd[FS_HO_DOORBELL], &word, sizeof(word));
}

static bool waiting(uint32_t slot) {
  uint32_t state = atomic_load(&c.ch->req[slot].state);
  return state == FS_REQ_POSTED || state == FS_REQ_ASLEEP;
}

static void free_slot(uint32_t slot) {
  atomic_store(&c.ch->pin[slot], 0);
  atomic_store(&c.ch->req[slot].state, FS_REQ_FREE);
  atomic_fetch_and(&c.ch->claimed, ~(1ull << slot));
}

/* The bytes of a block, or the error. */
static fs_ssize block(uint32_t snapshot, uint32_t number, char *to) {
  struct fs_req *r = &c.ch->req[0];
  uint64_t key = FS_OUTPUT_KEY(snapshot, number), end = fs_now_ns() + 30000000000ull;
  uint32_t len = 0;
  request(0, key, 0);
  while (waiting(0)) {
    if (fs_now_ns() > end) die("no block", -ETIMEDOUT);
    usleep(20);
  }
  fs_ssize n = r->err;
  if (n == 0) {
    const void *bytes = fs_cache_pinned(&c.view, key, r->line, &len);
    if (!bytes || len > FS_OUTPUT_BLOCK) die("line", -EPROTO);
    memcpy(to, bytes, len);
    n = len;
  }
  free_slot(0);
  return n;
}

static void fetch(uint32_t snapshot, uint64_t size, const char *path) {
  static char bytes[FS_OUTPUT_BLOCK];
  FILE *f = fopen(path, "w");
  fs_ssize n = FS_OUTPUT_BLOCK;
  if (!f) die(path, -errno);
  for (uint32_t i = 0; n == FS_OUTPUT_BLOCK && (uint64_t)i * FS_OUTPUT_BLOCK < size; i++) {
    n = block(snapshot, i, bytes);
    if (n > 0 && fwrite(bytes, 1, (size_t)n, f) != (size_t)n) die(path, -errno);
  }
  fclose(f);
  printf("%s\n", n < 0 ? strerrorname_np((int)-n) : "ok");
  fflush(stdout);
}

/* Whatever a client can write there, the daemon lives. */
static void rude(uint64_t seconds) {
  uint64_t end = fs_now_ns() + seconds * 1000000000ull, x = 88172645463325252ull, asked = 0;
  while (fs_now_ns() < end) {
    uint32_t slot = (uint32_t)(x >> 8) % FS_CHANNEL_SLOTS, i = 1 + (uint32_t)(x >> 20) % (FS_CHANNEL_CALLS - 1);
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    uint64_t key = x % 3 == 0 ? x : FS_OUTPUT_KEY((x >> 16) % 8, (x >> 40) % 16);
    if (x % 3 == 1) key = FS_OUTPUT_GRAIN_KEY((x >> 16) % 8, (x >> 40) % 16);
    if (!waiting(slot)) request(slot, key, (uint32_t)(x >> 60) & 1);
    struct fs_names_call call = {.op = (uint32_t)(x >> 33) % FS_NAMES_OPS, .flags = (uint32_t)(x >> 4) & 7};
    uint64_t id = x % 5 == 0 ? x >> 1 : FS_OUTPUT_ID_FIRST((x >> 24) % 3, (x >> 28) % 4) + (x >> 50) % 8;
    const struct fs_op *op = &fs_ops[call.op];
    for (uint8_t at = offsetof(struct fs_names_call, lookup); at < sizeof(call); at += 8)
      *fs_call_at(&call, at) = x >> 44 & 7;
    if (op->id) *fs_call_at(&call, op->id) = id;
    if (op->dir) *fs_call_at(&call, op->dir) = x % 2 ? FS_DATASET_DIR(0, 0) : id;
    if (x % 3) call.flags &= op->flags;
    if (x % 7 && call.op == FS_NAMES_CREATE) call.create.mode = S_IFREG | 0600;
    if (x % 7 && call.op == FS_NAMES_SETATTR) call.setattr.mode = S_IFREG | 0600;
    if (x % 7 && call.op == FS_NAMES_PUBLISH) call.publish.mode = S_IFREG | 0600;
    uint32_t state = atomic_load(&c.ch->call_slot[i].state);
    if (state != FS_REQ_POSTED && state != FS_REQ_ASLEEP) post(i, call, x % 4 ? "" : "rude", "");
    asked++;
  }
  printf("asked=%llu\n", (unsigned long long)asked);
  fflush(stdout);
}

/* Makes a call, and prints mode, mtime and size of the record in its answer. */
static void attributes(struct fs_names_call call, const char *name) {
  post(0, call, name, "");
  finish(0);
  const struct fs_call_slot *b = &c.ch->call_slot[0];
  size_t at = 0;
  const struct fs_record *r = b->err == 0 ? fs_record_next(b->body, b->length, &at) : NULL;
  printf("%s", b->err == 0 ? "ok" : strerrorname_np(-b->err));
  if (r) printf(" %o %lld %llu", r->mode, (long long)r->mtime, (unsigned long long)r->size);
  printf("\n");
  fflush(stdout);
}

static void set(uint64_t dir, uint64_t id, char **word, int n) {
  uint64_t value;
  struct fs_names_call call = {.op = FS_NAMES_SETATTR, .setattr = {.dir = dir, .id = id}};
  call.setattr.mode = word[3][0] == 'd' ? S_IFDIR : word[3][0] == 'l' ? S_IFLNK : S_IFREG;
  for (int i = 4; i < n; i++) {
    const char *v = strchr(word[i], '=');
    if (!v) die(word[i], -EINVAL);
    if (word[i][1] == 'o') {
      call.flags |= FS_SET_MODE;
      call.setattr.mode |= (uint32_t)strtoul(v + 1, NULL, 8);
    } else if (fs_parse_u64(v + 1, 0, INT64_MAX, &value) != 0) {
      die(word[i], -EINVAL);
    } else if (word[i][0] == 'm') {
      call.flags |= FS_SET_TIMES;
      call.setattr.mtime = (int64_t)value;
    } else {
      call.flags |= FS_SET_SIZE;
      call.setattr.size = value;
    }
  }
  attributes(call, "");
}

static void one(struct fs_names_call call, const char *name, const char *name2) {
  post(0, call, name, name2);
  finish(0);
  print_answer();
}

static void refused(uint64_t dir) {
  const uint32_t beyond[] = {0, FS_NAMES_OPS, FS_NAMES_OPS + 1, 255, UINT16_MAX, UINT32_MAX};
  unsigned tried = 0, others = 0;
  for (uint32_t i = 0; i < FS_NAMES_OPS + FS_ARRAY_LEN(beyond); i++) {
    struct fs_names_call call = {.op = i < FS_NAMES_OPS ? i : beyond[i - FS_NAMES_OPS], .lookup.dir = dir};
    if (call.op < FS_NAMES_OPS && fs_ops[call.op].client) continue;
    post(0, call, "", "");
    finish(0);
    tried++;
    if (c.ch->call_slot[0].err == -EINVAL) continue;
    printf("%u: %d ", call.op, c.ch->call_slot[0].err);
    others++;
  }
  printf("%s\n", tried > 10 && others == 0 ? "all" : "not all");
  fflush(stdout);
}

/* What the daemon shall do with a file, of which there may be nothing. */
static void of_file(uint64_t id, char **word, int n) {
  struct fs_names_call call;
  struct fs_range range = {0};
  uint64_t number = 0;
  if (word[0][0] != 'a' && fs_parse_u64(word[2], 0, UINT64_MAX, &number) != 0) die(word[2], -EINVAL);
  if (n == 5 &&
      (fs_parse_u64(word[3], 0, INT64_MAX, &range.off) != 0 || fs_parse_u64(word[4], 1, INT64_MAX, &range.len) != 0))
    die(word[3], -EINVAL);
  switch (word[0][0]) {
  case 'a':
    call = (struct fs_names_call){.op = FS_NAMES_APPEND, .append = {.id = id, .bytes = strlen(word[2])}};
    break;
  case 'r':
    call = (struct fs_names_call){.op = FS_NAMES_FORWARD, .forwarder = {.id = id, .file = number}};
    break;
  case 'o':
    call = (struct fs_names_call){.op = FS_NAMES_OFFER, .offer = {.file = id, .segment = number}};
    break;
  default:
    call = (struct fs_names_call){.op = FS_NAMES_EXTEND, .extend = {.id = id, .segment = number}};
  }
  const void *tail = n == 5 ? (const void *)&range : word[2];
  post_bytes(0, call, tail, n == 5 ? sizeof(range) : word[0][0] == 'a' ? strlen(word[2]) : 0, "");
  finish(0);
  print_answer();
}

static void forwarders(uint64_t to, uint64_t n) {
  struct fs_names_call call = {.op = FS_NAMES_FORWARD,
                               .forwarder = {.id = c.ch->first_id + FS_OUTPUT_ID_FILES / 2, .file = to}};
  char first[PATH_MAX + 64], path[PATH_MAX + 64];
  snprintf(first, sizeof(first), "%s/forwarders", c.ctl->backing);
  int fd = open(first, O_WRONLY | O_CREAT | O_CLOEXEC, 0600); /* as long as it can be written, they stay */
  if (fd < 0) die(first, -errno);
  uint64_t i = 0;
  for (; i < n; i++, call.forwarder.id++) {
    snprintf(path, sizeof(path), "%s/" FS_OUTPUT_FILE, c.ctl->backing, (unsigned long long)call.forwarder.id);
    if (link(first, path) < 0) die(path, -errno);
    post(0, call, "", "");
    finish(0);
    if (c.ch->call_slot[0].err != 0) break;
  }
  printf("%s %llu\n", i == n ? "ok" : strerrorname_np(-c.ch->call_slot[0].err), (unsigned long long)i);
  fflush(stdout);
  close(fd);
}

static void command(char *line) {
  char *word[8] = {NULL}, *save = NULL;
  int n = 0;
  for (char *w = strtok_r(line, " \n", &save); w && n < 8; w = strtok_r(NULL, " \n", &save)) word[n++] = w;
  uint64_t number = 0, dir = 0;
  if (n < 2 || fs_parse_u64(word[1], 0, UINT64_MAX, &dir) != 0) die(line, -EINVAL);
  if (dir == 1 && strcmp(word[0], "fetch") != 0 && strcmp(word[0], "rude") != 0) dir = FS_DATASET_DIR(0, 0);
  struct fs_names_call call = {0};
  uint64_t id = 0;
  if (strcmp(word[0], "create") == 0 && n >= 3) {
    size_t len = strlen(word[2]);
    bool directory = word[2][len - 1] == '/';
    if (directory) word[2][len - 1] = '\0';
    call = (struct fs_names_call){.op = FS_NAMES_CREATE, .create = {.dir = dir, .id = FS_OUTPUT_ID}};
    call.create.mode = n > 3 ? S_IFLNK | 0777 : directory ? S_IFDIR | 0755 : S_IFREG | 0644;
    one(call, word[2], n > 3 ? word[3] : "");
  } else if (strcmp(word[0], "lookup") == 0 && n == 3) {
    call = (struct fs_names_call){.op = FS_NAMES_LOOKUP, .lookup.dir = dir};
    one(call, word[2], "");
  } else if (strcmp(word[0], "stat") == 0 && n == 3) {
    attributes((struct fs_names_call){.op = FS_NAMES_LOOKUP, .lookup.dir = dir}, word[2]);
  } else if ((strcmp(word[0], "remove") == 0 || strcmp(word[0], "rmdir") == 0) && n == 3) {
    call = (struct fs_names_call){.op = FS_NAMES_REMOVE, .remove.dir = dir};
    call.flags = word[0][1] == 'm' ? FS_REMOVE_DIRECTORY : 0;
    one(call, word[2], "");
  } else if (strcmp(word[0], "publish") == 0 && n == 4) {
    if (fs_parse_u64(word[2], 0, UINT64_MAX, &id) != 0 || fs_parse_u64(word[3], 0, INT64_MAX, &number) != 0)
      die("publish", -EINVAL);
    call = (struct fs_names_call){.op = FS_NAMES_PUBLISH,
                                  .publish = {.dir = dir, .id = id, .size = number, .mode = S_IFREG | 0644}};
    one(call, "", "");
  } else if (strcmp(word[0], "rename") == 0 && n == 5 && fs_parse_u64(word[3], 0, UINT64_MAX, &number) == 0) {
    call = (struct fs_names_call){.op = FS_NAMES_RENAME,
                                  .rename = {.dir = dir, .to = number == 1 ? FS_DATASET_DIR(0, 0) : number}};
    one(call, word[2], word[4]);
  } else if (strcmp(word[0], "find") == 0 && n == 3 && fs_parse_u64(word[2], 0, UINT64_MAX, &id) == 0) {
    call = (struct fs_names_call){.op = FS_NAMES_LOOKUP, .lookup = {.dir = dir, .id = id}};
    one(call, "", "");
  } else if (strcmp(word[0], "setattr") == 0 && n >= 5 && fs_parse_u64(word[2], 0, UINT64_MAX, &id) == 0) {
    set(dir, id, word, n);
  } else if (strcmp(word[0], "look") == 0) { /* as a program does that opens the file for writing */
    call = (struct fs_names_call){.op = FS_NAMES_SYNC, .flags = FS_SYNC_LOOK, .sync.id = dir};
    one(call, "", "");
  } else if (strcmp(word[0], "hold") == 0) {
    hold(dir);
  } else if (strcmp(word[0], "release") == 0 && n == 3 && fs_parse_u64(word[2], 0, UINT32_MAX, &number) == 0) {
    call = (struct fs_names_call){.op = FS_NAMES_CLOSE, .close = {.id = dir, .snapshot = (uint32_t)number}};
    one(call, "", "");
  } else if (strcmp(word[0], "fetch") == 0 && n == 4 && fs_parse_u64(word[2], 0, INT64_MAX, &number) == 0) {
    fetch((uint32_t)dir, number, word[3]);
  } else if (strcmp(word[0], "rude") == 0) {
    rude(dir);
  } else if (strcmp(word[0], "refused") == 0) {
    refused(dir);
  } else if ((strcmp(word[0], "forwarder") == 0 || strcmp(word[0], "append") == 0) && n == 3) {
    of_file(dir, word, n);
  } else if ((strcmp(word[0], "extend") == 0 && n == 5) || (strcmp(word[0], "offer") == 0 && n == 3)) {
    of_file(dir, word, n);
  } else if (strcmp(word[0], "forwarders") == 0 && n == 3 && fs_parse_u64(word[2], 1, UINT32_MAX, &number) == 0) {
    forwarders(dir, number);
  } else if (strcmp(word[0], "backing") == 0) {
    printf("%s\n", c.ctl->backing);
    fflush(stdout);
  } else if (strcmp(word[0], "list") == 0) {
    list(dir);
  } else if (strcmp(word[0], "many") == 0 && n >= 5) {
    uint64_t count, window;
    if (fs_parse_u64(word[3], 1, 10000000, &count) != 0 || fs_parse_u64(word[4], 1, FS_CHANNEL_CALLS, &window) != 0)
      die("many", -EINVAL);
    many(dir, word[2], (unsigned)count, (uint32_t)window, n > 5);
  } else {
    die(line, -EINVAL);
  }
}

int main(int argc, char **argv) {
  char line[2048];
  if (argc != 2) return 2;
  fs_err err = fs_handover_connect(argv[1], 5000000000ull, &c.h);
  if (err < 0) die("connect", err);
  c.ctl = map(FS_HO_CTL, PROT_READ);
  c.ch = map(FS_HO_CHANNEL, PROT_READ | PROT_WRITE);
  err = fs_cache_view_init(&c.view, map(FS_HO_SLAB, PROT_READ), c.h.size[FS_HO_SLAB], NULL, 0);
  if (err < 0) die("slab", err);
  while (fgets(line, sizeof(line), stdin)) command(line);
  return 0;
}
