/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node's owner: writes the partitions of this node into a directory of its own below the local
 * directory, and those that it has first on shared storage too. Chunks come from all nodes in any
 * order and are appended in the lead's order. At the end the files become staged copies, as the
 * daemon makes them. The directory is locked while this process lives; a later pack removes those
 * that nobody locks. Main thread.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "adopt.h"
#include "ipc/local.h"
#include "nodes.h"

struct message { /* FS_NODES_BYTES, while not all of it is in the partitions */
  uint64_t batch;
  uint32_t left;
};

struct piece {
  uint64_t seq, offset, len;
  const uint8_t *data; /* of a waiting piece: its own memory */
  struct message *of;
  struct piece *next;
};

struct fs_owner {
  char top[PATH_MAX], name[32];
  int top_fd, dir_fd, shared_fd;
  struct fs_parts local, shared;
  bool *here, *first; /* [partition]: this node writes it; also to shared storage */
  uint32_t parts;
  struct {
    uint64_t seq;          /* of the next piece */
    struct piece *waiting; /* in order */
  } * part;
};

static void remove_files(int top, const char *name) {
  int fd = fs_sys_openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
  DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
  for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;)
    if (strncmp(d->d_name, "part-", 5) == 0) unlinkat(fd, d->d_name, 0);
  if (dir != NULL) closedir(dir);
  unlinkat(top, name, AT_REMOVEDIR);
}

/* Removes what killed packs have left on this node. */
static void remove_dead(int top) {
  int fd = fs_sys_openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
  for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;) {
    if (strncmp(d->d_name, FS_LOCAL_PACK, sizeof FS_LOCAL_PACK - 1) != 0) continue;
    FS_AUTO_CLOSE int lock = fs_sys_openat(top, d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0) remove_files(top, d->d_name);
  }
  if (dir != NULL) closedir(dir);
}

static fs_err make_dir(struct fs_owner *o) {
  char path[PATH_MAX + 32];
  struct stat st;
  fs_err err = fs_mkdirs(o->top, 0700);
  if (err == 0) err = o->top_fd = fs_sys_openat(AT_FDCWD, o->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (err < 0) return err;
  remove_dead(o->top_fd);
  for (int tries = 0; tries < 10; tries++) {
    snprintf(path, sizeof path, "%s/" FS_LOCAL_PACK "XXXXXX", o->top);
    if (mkdtemp(path) == NULL) return -errno;
    o->dir_fd = fs_sys_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    snprintf(o->name, sizeof o->name, "%s", strrchr(path, '/') + 1);
    bool locked = o->dir_fd >= 0 && flock(o->dir_fd, LOCK_EX | LOCK_NB) == 0;
    if (locked && fstat(o->dir_fd, &st) == 0 && st.st_nlink > 0) return 0;
    if (o->dir_fd >= 0) close(o->dir_fd); /* another pack took it for a dead one */
  }
  o->dir_fd = -1;
  return -EBUSY;
}

static fs_err failed(struct fs_nodes *n, const char *dir, const char *what, fs_err err) {
  return fs_nodes_fail(n, "node %u (%s): %s: %s: %s%s", n->rank, n->host, dir, what, strerror(-err),
                       err == -ENOSPC ? "; free some there, or pack on more nodes" : "");
}

fs_err fs_owner_start(struct fs_nodes *n) {
  struct fs_owner *o = n->owner = calloc(1, sizeof *o);
  if (o == NULL) return -ENOMEM;
  o->top_fd = o->dir_fd = o->shared_fd = -1;
  o->parts = n->plan.nparts + n->plan.nreplicated;
  o->part = calloc(o->parts, sizeof *o->part);
  o->here = calloc(o->parts, sizeof *o->here);
  o->first = calloc(o->parts, sizeof *o->first);
  if (o->part == NULL || o->here == NULL || o->first == NULL) return -ENOMEM;
  for (uint32_t p = 0; p < o->parts; p++) {
    o->here[p] = fs_nodes_owns(&n->plan, n->nodes, n->rank, p);
    o->first[p] = p % n->nodes == n->rank;
  }
  snprintf(o->top, sizeof o->top, n->emulated >= 0 ? "%.4000s/fanstore-node%d" : "%.4000s/fanstore", n->local,
           n->emulated);
  fs_err err = make_dir(o);
  if (err == 0) err = fs_parts_create(&o->local, o->dir_fd, &n->plan, false, o->here);
  if (err < 0) return failed(n, o->top, "cannot be written", err);
  if (n->shared[0] == '\0') return 0;
  err = o->shared_fd = fs_sys_openat(AT_FDCWD, n->shared, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (err >= 0) err = fs_parts_create(&o->shared, o->shared_fd, &n->plan, false, o->first);
  return err < 0 ? failed(n, n->shared, "cannot be written on this node", err) : 0;
}

/* Appends a piece whose turn it is. */
static fs_err append(struct fs_nodes *n, uint32_t part, const struct piece *c) {
  struct fs_owner *o = n->owner;
  o->part[part].seq++;
  fs_err err = fs_parts_put(&o->local, part, c->offset, c->data, c->len);
  if (err < 0) return err == -EINTR ? err : failed(n, o->top, "cannot be written", err);
  if (o->shared_fd < 0 || !o->first[part]) return 0;
  err = fs_parts_put(&o->shared, part, c->offset, c->data, c->len);
  return err < 0 && err != -EINTR ? failed(n, n->shared, "cannot be written", err) : err;
}

static void kept(struct fs_nodes *n, struct message *m) {
  if (--m->left != 0) return;
  struct fs_msg *answer = fs_msg_new(FS_NODES_KEPT);
  fs_msg_u64(answer, m->batch);
  fs_nodes_send(n, 0, answer);
  free(m);
}

/* Appends what waited for the piece before it. */
static fs_err append_waiting(struct fs_nodes *n, uint32_t part) {
  struct fs_owner *o = n->owner;
  for (struct piece *c; (c = o->part[part].waiting) != NULL && c->seq == o->part[part].seq;) {
    fs_err err = append(n, part, c);
    if (err < 0) return err;
    o->part[part].waiting = c->next;
    kept(n, c->of);
    free((void *)c->data);
    free(c);
  }
  return 0;
}

static fs_err let_wait(struct fs_owner *o, uint32_t part, const struct piece *c) {
  struct piece *copy = malloc(sizeof *copy), **at = &o->part[part].waiting;
  uint8_t *data = malloc(c->len);
  if (copy == NULL || data == NULL) {
    free(copy);
    free(data);
    return -ENOMEM;
  }
  memcpy(data, c->data, c->len);
  while (*at != NULL && (*at)->seq < c->seq) at = &(*at)->next;
  *copy = *c;
  copy->data = data;
  copy->next = *at;
  *at = copy;
  return 0;
}

static fs_err take_piece(struct fs_nodes *n, struct message *m, struct fs_in *in) {
  struct fs_owner *o = n->owner;
  uint32_t part = fs_in_u32(in);
  struct piece c = {.of = m};
  c.seq = fs_in_u64(in);
  c.offset = fs_in_u64(in);
  c.len = fs_in_u64(in);
  c.data = fs_in_get(in, c.len);
  if (in->bad || part >= o->parts || !o->here[part] || c.seq < o->part[part].seq) return -EPROTO;
  if (c.seq != o->part[part].seq) return let_wait(o, part, &c);
  fs_err err = append(n, part, &c);
  if (err < 0) return err;
  kept(n, m);
  return append_waiting(n, part);
}

static fs_err on_bytes(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  (void)from;
  struct message *m = n->owner != NULL ? calloc(1, sizeof *m) : NULL;
  if (m == NULL) return -ENOMEM;
  m->batch = fs_in_u64(in);
  uint32_t count = fs_in_u32(in);
  fs_err err = count == 0 || count > FS_BATCH_CHUNKS ? -EPROTO : 0;
  m->left = count + 1; /* it lives until all pieces are looked at */
  for (uint32_t i = 0; i < count && err == 0; i++) err = take_piece(n, m, in);
  if (err == 0) kept(n, m);
  return err;
}

static fs_err finish(void *ctx) {
  struct fs_owner *o = ctx;
  fs_err err = fs_parts_finish(&o->local);
  return err == 0 && o->shared_fd >= 0 ? fs_parts_finish(&o->shared) : err;
}

static fs_err grow(struct fs_owner *o, struct fs_in *in) {
  if (fs_in_u32(in) != o->parts) return -EPROTO;
  for (uint32_t p = 0; p < o->parts; p++) {
    uint64_t size = fs_in_u64(in);
    if (in->bad || o->part[p].waiting != NULL) return -EPROTO;
    fs_err err = o->here[p] ? fs_parts_put(&o->local, p, size, NULL, 0) : 0;
    if (err == 0 && o->shared_fd >= 0 && o->first[p]) err = fs_parts_put(&o->shared, p, size, NULL, 0);
    if (err < 0) return err;
  }
  return 0;
}

static fs_err on_finish(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  struct fs_owner *o = n->owner;
  if (from != 0 || o == NULL) return -EPROTO;
  fs_err err = grow(o, in);
  if (err == 0) err = fs_nodes_aside(n, finish, o);
  if (err == -EINTR || err == -EPROTO) return err;
  if (err < 0) return failed(n, o->top, "cannot be written", err);
  struct fs_msg *m = fs_msg_new(FS_NODES_SUMS);
  for (uint32_t p = 0; p < o->parts; p++) {
    if (!o->here[p]) continue;
    fs_msg_u32(m, p);
    fs_msg_u64(m, o->local.out[p].rec.size);
    fs_msg_u64(m, o->local.out[p].rec.xxh3);
  }
  fs_msg_u32(m, UINT32_MAX);
  fs_nodes_send(n, 0, m);
  return 0;
}

struct seal {
  struct fs_owner *o;
  uint8_t id[16];
};

static fs_err seal(void *ctx) {
  struct seal *s = ctx;
  fs_err err = fs_parts_seal(&s->o->local, s->id);
  return err == 0 && s->o->shared_fd >= 0 ? fs_parts_seal(&s->o->shared, s->id) : err;
}

static fs_err on_seal(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  struct seal s = {.o = n->owner};
  const void *id = fs_in_get(in, sizeof s.id);
  if (from != 0 || n->owner == NULL || id == NULL) return -EPROTO;
  memcpy(s.id, id, sizeof s.id);
  fs_err err = fs_nodes_aside(n, seal, &s);
  if (err == -EINTR) return err;
  if (err < 0) return failed(n, n->owner->top, "cannot be written", err);
  fs_parts_close(&n->owner->local);
  if (n->owner->shared_fd >= 0) fs_parts_close(&n->owner->shared);
  fs_nodes_send(n, 0, fs_msg_new(FS_NODES_SEALED));
  return 0;
}

static fs_err adopt(void *ctx) {
  return fs_adopt(ctx);
}

static fs_err on_adopt(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  const struct fs_owner *o = n->owner;
  const char *path = fs_in_text(in);
  if (from != 0 || o == NULL || in->bad) return -EPROTO;
  struct fs_adopt a = {.dataset = path,
                       .local = n->local,
                       .emulated = n->emulated,
                       .from = o->dir_fd,
                       .here = o->here,
                       .parts = o->parts};
  fs_err err = fs_nodes_aside(n, adopt, &a);
  if (err < 0)
    return fs_nodes_fail(n, "node %u (%s): its partitions cannot be placed: %s", n->rank, n->host,
                         a.why[0] != '\0' ? a.why : strerror(-err));
  struct fs_msg *m = fs_msg_new(FS_NODES_ADOPTED);
  fs_msg_u64(m, a.bytes);
  fs_nodes_send(n, 0, m);
  return 0;
}

void fs_owner_begin(struct fs_nodes *n) {
  n->handler[FS_NODES_BYTES] = on_bytes;
  n->handler[FS_NODES_FINISH] = on_finish;
  n->handler[FS_NODES_SEAL] = on_seal;
  n->handler[FS_NODES_ADOPT] = on_adopt;
}

void fs_owner_stop(struct fs_nodes *n) {
  struct fs_owner *o = n->owner;
  n->leaving = true;
  if (o == NULL) return;
  fs_parts_close(&o->local);
  if (o->shared_fd >= 0) fs_parts_close(&o->shared);
  if (o->dir_fd >= 0) remove_files(o->top_fd, o->name);
}
