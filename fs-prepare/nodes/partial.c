/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The directory in which a node's owner packs: <local-dir>/fanstore/.pack-XXXXXX-RANK. The letters
 * are those of .NAME.partial-XXXXXX beside DATASET, so the same command finds it again. Its file
 * "dataset" has the inode of the directory in which that one is, and its path. Its journal says whether a later pack
 * can go on. It is locked while this process lives. Main thread.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "ipc/local.h"
#include "owner.h"
#include "util/dir.h"

static_assert(FS_JOURNAL_LEAST == FS_LOCAL_JOURNAL_LEAST, "local.h");

static void remove_files(int top, const char *name) {
  DIR *dir = fs_opendirat(top, name);
  for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;)
    if (strncmp(d->d_name, "part-", 5) == 0 || strcmp(d->d_name, FS_LOCAL_PACK_OF) == 0)
      unlinkat(dirfd(dir), d->d_name, 0);
  if (dir != NULL) closedir(dir);
  unlinkat(top, name, AT_REMOVEDIR);
}

/* Removes what killed packs have left on this node, unless a later pack can go on with it. */
static void remove_dead(int top) {
  char of[PATH_MAX];
  DIR *dir = fs_opendirat(top, ".");
  for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;) {
    if (strncmp(d->d_name, FS_LOCAL_PACK, sizeof FS_LOCAL_PACK - 1) != 0) continue;
    FS_AUTO_CLOSE int lock = fs_sys_openat(top, d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0 || fs_local_pack_resumes(lock, of)) continue;
    remove_files(top, d->d_name);
  }
  if (dir != NULL) closedir(dir);
}

/* Opens and locks the directory of this name. Returns -ENOENT if there is none. */
static fs_err take_dir(struct fs_owner *o) {
  fs_err err = o->dir_fd = fs_sys_openat(o->top_fd, o->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
  if (err < 0) return err;
  struct stat st;
  err = fs_target_lock(o->dir_fd, fs_now_ns() + FS_PACK_NODES_END_NS);
  if (err == 0) err = fs_sys_fstat(o->dir_fd, &st);
  if (err == 0 && st.st_nlink > 0) return 0;
  if (err == 0) err = -ENOENT;
  close(o->dir_fd);
  o->dir_fd = -1;
  return err;
}

struct opening {
  struct fs_nodes *n;
  const char *of;                    /* the directory that becomes the dataset */
  const struct fs_part_state *state; /* NULL: begin anew */
  const char *lacks;                 /* set: why it must begin anew */
  bool in_shared;                    /* of an error: it was there */
};

static fs_err make_dir(struct opening *x) {
  struct fs_owner *o = x->n->owner;
  const char *of = x->of;
  fs_err err = -ENOENT;
  for (int tries = 0; tries < 10 && err == -ENOENT; tries++) { /* another pack may take it for a dead one */
    if (mkdirat(o->top_fd, o->name, 0700) < 0 && errno != EEXIST) return -errno;
    err = take_dir(o);
  }
  if (err < 0) return err;
  char text[PATH_MAX + 32], parent[PATH_MAX];
  struct stat st;
  snprintf(parent, sizeof parent, "%.*s", (int)FS_MAX(strrchr(of, '/') - of, 1), of);
  x->in_shared = true;
  if (stat(parent, &st) < 0) return -errno;
  x->in_shared = false;
  snprintf(text, sizeof text, "%llu %s", (unsigned long long)st.st_ino, of);
  FS_AUTO_CLOSE int fd = fs_sys_openat(o->dir_fd, FS_LOCAL_PACK_OF, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  err = fd < 0 ? fd : fs_write_full(fd, text, strlen(text));
  return err == 0 && fsync(fd) < 0 ? -errno : err;
}

/* Opens the files of the local or of the shared copies. */
static fs_err open_parts(struct opening *x, struct fs_parts *p, int dir, const bool *here) {
  fs_err err = fs_parts_create(p, dir, &x->n->plan, x->state != NULL, here);
  if (err < 0 || x->state == NULL) return err;
  err = fs_parts_resume(p, &x->n->plan, x->state);
  if (err != -EBADMSG && err != -ENOENT) return err;
  x->lacks = "damaged";
  return 0;
}

/* The staged copies that an interrupted pack has made of its files may not be written. */
static void make_writable(const struct opening *x) {
  const struct fs_owner *o = x->n->owner;
  char name[FS_PART_NAME_SIZE];
  for (uint32_t k = 0; k < o->parts; k++)
    if (o->here[k]) fchmodat(o->dir_fd, fs_part_name(fs_parts_new(o->plan, k), name), 0600, 0);
}

static fs_err open_local(struct opening *x) {
  struct fs_owner *o = x->n->owner;
  fs_err err = fs_mkdirs(o->top, 0700);
  if (err == 0 && o->top_fd < 0)
    err = o->top_fd = fs_sys_openat(AT_FDCWD, o->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (err < 0) return err;
  remove_dead(o->top_fd);
  err = x->state != NULL ? take_dir(o) : make_dir(x);
  if (x->state != NULL && (err == -ENOENT || err == -EBUSY)) {
    x->lacks = err == -EBUSY ? "in use by a process" : "not there";
    return 0;
  }
  if (err == 0 && x->state != NULL) make_writable(x);
  return err < 0 ? err : open_parts(x, &o->local, o->dir_fd, o->here);
}

static fs_err open_shared(struct opening *x) {
  struct fs_owner *o = x->n->owner;
  if (x->n->o.nodes_only || x->lacks != NULL) return 0;
  x->in_shared = true;
  fs_err err = o->shared_fd = fs_sys_openat(AT_FDCWD, x->of, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  return err < 0 ? err : open_parts(x, &o->shared, o->shared_fd, o->first);
}

static fs_err open_all(void *ctx) {
  fs_err err = open_local(ctx);
  return err < 0 ? err : open_shared(ctx);
}

static fs_err on_open(struct fs_nodes *n, uint32_t from, struct fs_in *in) {
  struct fs_owner *o = n->owner;
  const char *of = fs_in_text(in), *dash = strrchr(of, '-');
  const bool named = of[0] == '/' && strlen(of) < PATH_MAX && dash != NULL && strlen(dash) == 7 && !strchr(dash, '/');
  const uint32_t count = fs_in_u32(in);
  const void *states = fs_in_get(in, count * sizeof(struct fs_part_state));
  if (from != 0 || o == NULL || in->bad || !named || (count != 0 && count != o->parts)) return -EPROTO;
  if (o->state > FS_OWNER_OPEN) return -EPROTO;
  FS_AUTO_FREE struct fs_part_state *state = count != 0 ? malloc(count * sizeof *state) : NULL;
  if (count != 0 && state == NULL) return -ENOMEM;
  if (count != 0) memcpy(state, states, count * sizeof *state);
  fs_partial_close(o, true);
  snprintf(n->shared, sizeof n->shared, "%.4095s", of);
  snprintf(o->name, sizeof o->name, FS_LOCAL_PACK "%.6s-%u", dash + 1, n->rank);
  struct opening x = {.n = n, .of = n->shared, .state = state};
  fs_err err = fs_nodes_aside(n, open_all, &x);
  if (err == -EINTR) return err;
  if (err < 0) return fs_owner_failed(n, x.in_shared, err);
  if (x.lacks == NULL) o->state = FS_OWNER_OPEN;
  char why[sizeof n->host + 80] = "";
  if (x.lacks != NULL) snprintf(why, sizeof why, "what node %u (%s) has of it is %s", n->rank, n->host, x.lacks);
  struct fs_msg *m = fs_msg_new(FS_NODES_OPENED);
  fs_msg_text(m, why);
  fs_nodes_send(n, 0, m);
  return 0;
}

void fs_partial_begin(struct fs_nodes *n) {
  n->handler[FS_NODES_OPEN] = on_open;
}

fs_err fs_partial_sync(const struct fs_owner *o) {
  if (fsync(o->dir_fd) < 0 || fsync(o->top_fd) < 0) return -errno;
  return o->shared_fd >= 0 && fsync(o->shared_fd) < 0 ? -errno : 0;
}

static void drop_waiting(struct fs_owner *o, uint32_t part) {
  for (struct piece *c; (c = o->part[part].waiting) != NULL;) {
    o->part[part].waiting = c->next;
    if (--c->of->left == 0) free(c->of);
    free((void *)c->data);
    free(c);
  }
}

void fs_partial_remove(const struct fs_owner *o, bool discard) {
  char of[PATH_MAX];
  if (o->dir_fd >= 0 && (discard || !fs_local_pack_resumes(o->dir_fd, of))) remove_files(o->top_fd, o->name);
}

void fs_partial_close(struct fs_owner *o, bool discard) {
  fs_parts_free(&o->local);
  fs_parts_free(&o->shared);
  fs_partial_remove(o, discard);
  if (o->dir_fd >= 0) close(o->dir_fd); /* and the lock */
  if (o->shared_fd >= 0) close(o->shared_fd);
  o->dir_fd = o->shared_fd = -1;
  o->state = FS_OWNER_CLOSED;
  for (uint32_t p = 0; p < o->parts && o->part != NULL; p++) {
    o->part[p].seq = 0;
    drop_waiting(o, p);
  }
}
