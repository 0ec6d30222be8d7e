/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of one node (nodelocal.h): where they are, and how they are found, made, removed, renamed
 * and listed. The kernel keeps them in <backing directory>/node-local/<directory's id>/<name>. The
 * daemon only sets the directory's bit in shared memory, once, before the first name is made. A
 * process may die at any point: the name then exists or does not.
 */
#include "client/names/nodelocal.h"

#include <dirent.h>
#include <linux/fs.h>
#include <sys/stat.h>

#include "client/data_priv.h"
#include "client/names/names.h"
#include "client/names/nodelocal_priv.h"
#include "client/names/overlay.h"
#include "client/node/mountlist.h"
#include "util/dirents.h"
#include "util/util.h"

/* ---- paths ---- */

static char *put(char *to, const char *end, const char *text, size_t n) {
  if (to == NULL || (size_t)(end - to) <= n) return NULL;
  memcpy(to, text, n);
  to[n] = '\0';
  return to + n;
}

fs_err fs_nl_path(const struct fs_node *node, const char *dir, const char *name, size_t len, char out[PATH_MAX]) {
  const char *end = out + PATH_MAX;
  char *to = put(out, end, node->ctl->backing, strnlen(node->ctl->backing, sizeof(node->ctl->backing)));
  to = put(to, end, "/", 1);
  to = put(to, end, dir, strlen(dir));
  if (len > 0) to = put(to, end, "/", 1);
  return put(to, end, name, len) == NULL ? -ENAMETOOLONG : 0;
}

void fs_nl_hex(uint64_t v, char out[FS_NL_HEX]) {
  static const char digit[] = "0123456789abcdef";
  for (int i = 14; i >= 0; i -= 2, v >>= 8) {
    out[i] = digit[v >> 4 & 15];
    out[i + 1] = digit[v & 15];
  }
  out[16] = '\0';
}

/* Writes the path of a name in the directory `id`; without a name, that of the directory itself. */
static fs_err path_in(const struct fs_node *node, uint64_t id, const char *name, size_t len, char out[PATH_MAX]) {
  char dir[sizeof(FS_NL_DIR "/") + FS_NL_HEX] = FS_NL_DIR "/";
  fs_nl_hex(id, dir + sizeof(FS_NL_DIR "/") - 1);
  return fs_nl_path(node, dir, name, len, out);
}

bool fs_nl_is(const struct fs_found *f) {
  const struct fs_node *node = fs_nl_any() != 0 ? fs_names_node() : NULL;
  size_t n = node == NULL ? 0 : strnlen(node->ctl->backing, sizeof(node->ctl->backing));
  return n > 0 && f->out.id == 0 && strncmp(f->real, node->ctl->backing, n) == 0 &&
         strncmp(f->real + n, "/" FS_NL_DIR "/", sizeof("/" FS_NL_DIR "/") - 1) == 0;
}

static bool marked(const struct fs_node *node, uint64_t id) {
  uint32_t bit = fs_nl_bit(id);
  return atomic_load_explicit(&node->ctl->node_local[bit / 64], memory_order_acquire) >> bit % 64 & 1;
}

static bool exists(const char *path) {
  struct stat st;
  return fs_sys_fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

bool fs_nl_glob(const char *name, size_t len) {
  char text[FS_NAME_MAX + 1];
  const struct fs_node *node = len == 0 || len > FS_NAME_MAX ? NULL : fs_names_node();
  if (node == NULL) return false;
  memcpy(text, name, len);
  text[len] = '\0';
  const char *glob = node->ctl->node_local_globs, *end = glob + FS_NL_GLOBS;
  while (glob < end && *glob != '\0') {
    size_t n = strnlen(glob, (size_t)(end - glob));
    if (glob + n >= end) return false;
    if (fs_glob_match(glob, text)) return true;
    glob += n + 1;
  }
  return false;
}

/* ---- making ---- */

/* Makes the directory of this node's names in directory `id`. */
static fs_err make_directory(const struct fs_node *node, uint64_t id, uint32_t flags) {
  char path[PATH_MAX];
  struct fs_answer a;
  const struct fs_names_call c = {.op = FS_NAMES_NODE_LOCAL, .flags = flags, .node_local.dir = id};
  bool known = marked(node, id) && (fs_nl_any() & flags) == flags;
  fs_err err = known ? 0 : fs_names_call(&c, "", "", a.body, sizeof(a.body), &a.n);
  if (err == 0) err = path_in(node, id, "", 0, path);
  if (err == 0) err = (fs_err)FS_SYS3(SYS_mkdirat, AT_FDCWD, path, 0700);
  return err == -EEXIST ? 0 : err;
}

/* Returns 0 if there is an output of that name, or -ENOENT. */
static fs_err find_output(const struct fs_node *node, uint64_t dir, const char *name, size_t len) {
  struct fs_answer a;
  const struct fs_record *r;
  return fs_output_maybe(node, dir) ? fs_output_look_up(dir, name, len, &a, &r) : -ENOENT;
}

fs_err fs_nl_ready(const struct fs_found *f, char real[PATH_MAX]) {
  uint64_t dir;
  const struct fs_node *node = fs_names_node();
  fs_err err = node == NULL ? -EROFS : fs_output_may_make(f, &dir);
  if (err == -EACCES) return fs_output_refused(f, dir, true);
  if (err == 0 && fs_names_entry(f->mount, f->entry, f->name, f->name_len) != NULL) return -EROFS; /* a whiteout */
  if (err == 0) err = find_output(node, dir, f->name, f->name_len);
  if (err != -ENOENT) return err == 0 ? -EEXIST : err;
  err = make_directory(node, dir, 0);
  return err != 0 ? err : path_in(node, dir, f->name, f->name_len, real);
}

fs_err fs_nl_mknod(const struct fs_found *f, mode_t mode) {
  char real[PATH_MAX];
  if (!S_ISFIFO(mode) && !S_ISSOCK(mode)) return -EPERM;
  fs_err err = fs_nl_ready(f, real);
  return err != 0 ? err : (fs_err)FS_SYS4(SYS_mknodat, AT_FDCWD, real, mode, 0);
}

/* Copies all of the real file `from` to the real file `to`. */
static fs_err copy_bytes(int from, int to) {
  struct stat st;
  fs_err err = fs_sys_fstat(from, &st);
  for (int64_t done = 0; err == 0 && done < st.st_size;) {
    long n = FS_SYS4(SYS_sendfile, to, from, &done, FS_MIN(st.st_size - done, 1 << 30));
    if (n <= 0 && n != -EINTR) err = n < 0 ? (fs_err)n : -EIO;
  }
  return err;
}

/* Makes the dataset's file one of this node, under another name until it is whole. A second process
   uses the first one's file. */
static fs_err copy_up(const struct fs_node *node, uint32_t mount, uint32_t child, uint32_t mode, bool empty,
                      const char *real) {
  char path[PATH_MAX], name[FS_NL_HEX];
  fs_err err = fs_nl_token(name);
  if (err == 0) err = fs_nl_path(node, FS_NL_NEW, name, FS_NL_HEX - 1, path);
  if (err != 0) return err;
  fs_fd from = empty ? -1 : fs_data_materialize(mount, child);
  if (!empty && from < 0) return from;
  fs_fd to = fs_sys_openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode & 0777) | 0600);
  err = to < 0 ? to : empty ? 0 : copy_bytes(from, to);
  if (err == 0) err = (fs_err)FS_SYS5(SYS_linkat, AT_FDCWD, path, AT_FDCWD, real, 0);
  if (to >= 0) FS_SYS3(SYS_unlinkat, AT_FDCWD, path, 0);
  if (to >= 0) fs_sys_close(to);
  if (from >= 0) fs_sys_close(from);
  return err == -EEXIST ? 0 : err;
}

/* Prepares to make a file that matches a pattern and is not there yet. */
static int make_file(const struct fs_node *node, uint32_t mount, uint32_t entry, uint64_t dir, const char *name,
                     size_t len) {
  uint64_t same;
  fs_err err = find_output(node, dir, name, len);
  if (err != -ENOENT) return err;
  err = fs_output_may_make(&(struct fs_found){.mount = mount, .entry = entry}, &same);
  if (err == 0) err = make_directory(node, dir, 0);
  return err == 0 ? 1 : err;
}

int fs_nl_find(uint32_t mount, uint32_t entry, const char *name, size_t len, const struct fs_entry *e, uint32_t child,
               unsigned flags, char real[PATH_MAX]) {
  char path[PATH_MAX];
  const struct fs_node *node = fs_names_node();
  uint64_t dir = node == NULL ? 0 : fs_output_dir_id(mount, entry);
  if (dir == 0) return 0;
  bool makes = (flags & (e != NULL ? FS_WRITES : FS_FILE)) != 0, maybe = marked(node, dir);
  if (!makes && !maybe) return 0;
  bool glob = (makes || e != NULL) && fs_nl_glob(name, len);
  if (!glob && (e != NULL || !maybe)) return 0; /* a socket does not take a dataset's name */
  fs_err err = path_in(node, dir, name, len, path);
  if (err != 0) return err == -ENAMETOOLONG ? 0 : err;
  int found = maybe && exists(path);
  if (!found && glob && makes && e == NULL) found = make_file(node, mount, entry, dir, name, len);
  if (!found && glob && makes && e != NULL && S_ISREG(e->mode)) {
    err = make_directory(node, dir, FS_NL_SHADOWS);
    if (err == 0) err = copy_up(node, mount, child, e->mode, (flags & FS_EMPTIES) != 0, path);
    found = err == 0 ? 1 : err;
  }
  if (found == 1) memcpy(real, path, strlen(path) + 1);
  return found;
}

/* ---- removing and renaming ---- */

/* Returns 1 if f's name is one of this node. */
static int find_name(const struct fs_found *f, char real[PATH_MAX]) {
  const struct fs_node *node = fs_names_node();
  uint64_t dir = node == NULL ? 0 : fs_output_dir_id(f->mount, f->entry);
  if (dir == 0 || !marked(node, dir) || path_in(node, dir, f->name, f->name_len, real) != 0) return 0;
  return exists(real);
}

int fs_nl_remove(const struct fs_found *f, bool directory) {
  char real[PATH_MAX];
  uint64_t dir;
  if (find_name(f, real) != 1) return 0;
  if (directory) return -ENOTDIR;
  fs_err err = fs_output_may_make(f, &dir);
  if (err == 0) err = (fs_err)FS_SYS3(SYS_unlinkat, AT_FDCWD, real, 0);
  return err == 0 ? 1 : err;
}

static bool has_names(const struct fs_node *node, uint64_t id) {
  char path[PATH_MAX];
  if (path_in(node, id, "", 0, path) != 0) return false;
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  struct fs_dirents names = {.fd = fd};
  for (const struct dirent64 *d; (d = fs_dirents_next(&names)) != NULL;)
    if (!fs_is_dot(d->d_name)) return true;
  return false;
}

fs_err fs_nl_check_empty(const struct fs_found *f, uint64_t *id) {
  struct fs_answer a;
  const struct fs_record *r;
  const struct fs_node *node = fs_names_node();
  uint64_t dir = node == NULL ? 0 : fs_output_dir_id(f->mount, f->entry);
  *id = 0;
  if (dir == 0 || !fs_output_maybe(node, dir)) return 0;
  /* The removal finds that out. */
  if (fs_output_look_up(dir, f->name, f->name_len, &a, &r) != 0) return 0;
  if (!S_ISDIR(r->mode) || !marked(node, r->id)) return 0;
  *id = r->id;
  return has_names(node, r->id) ? -ENOTEMPTY : 0;
}

fs_err fs_nl_check_replaced(const struct fs_found *from, const struct fs_found *to, unsigned flags, uint64_t *id) {
  struct fs_answer a;
  const struct fs_record *r;
  const struct fs_node *node = fs_names_node();
  uint64_t dir = node == NULL ? 0 : fs_output_dir_id(from->mount, from->entry), own;
  *id = 0;
  if (flags != 0 || dir == 0 || !fs_output_maybe(node, dir)) return 0;
  if (fs_output_look_up(dir, from->name, from->name_len, &a, &r) != 0 || !S_ISDIR(r->mode)) return 0;
  own = r->id;
  fs_err err = fs_nl_check_empty(to, id);
  if (*id != own) return err;
  *id = 0; /* two paths of one directory */
  return 0;
}

void fs_nl_removed(uint64_t id) {
  char path[PATH_MAX];
  const struct fs_node *node = fs_names_node();
  if (node != NULL && path_in(node, id, "", 0, path) == 0) FS_SYS3(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

/* Refuses a rename of a name that is not this node's to one that would be. The kind of the old name
   decides the error. */
static fs_err rename_other(const struct fs_node *node, const struct fs_found *from) {
  if (!fs_overlay_on() && fs_names_entry(from->mount, from->entry, from->name, from->name_len) != NULL)
    return 0; /* EROFS */
  int datasets = fs_overlay_is_datasets(from);
  if (datasets != 0) return datasets < 0 ? datasets : -EXDEV;
  fs_err err = find_output(node, fs_output_dir_id(from->mount, from->entry), from->name, from->name_len);
  return err == 0 ? -EXDEV : err;
}

int fs_nl_rename(const struct fs_found *from, const struct fs_found *to, unsigned flags) {
  char a[PATH_MAX], b[PATH_MAX];
  struct stat st;
  uint64_t dir;
  bool glob = fs_nl_glob(to->name, to->name_len);
  if (fs_nl_any() == 0 && !glob) return 0;
  const struct fs_node *node = fs_names_node();
  int own_a = find_name(from, a), own_b = find_name(to, b);
  if (node == NULL || (!own_a && !own_b && !glob)) return 0;
  if (!own_a) return rename_other(node, from);
  if (flags & ~(unsigned)RENAME_NOREPLACE) return -EINVAL;
  if (from->last == FS_LAST_SLASH || to->last == FS_LAST_SLASH) return -ENOTDIR;
  fs_err err = fs_output_may_make(from, &dir);
  if (err == 0) err = fs_sys_fstatat(AT_FDCWD, a, &st, AT_SYMLINK_NOFOLLOW);
  if (err == 0 && S_ISREG(st.st_mode) && !glob) err = -EXDEV;
  if (err == 0 && !own_b && fs_names_entry(to->mount, to->entry, to->name, to->name_len) != NULL) err = -EROFS;
  if (err == 0 && !own_b) err = fs_nl_ready(to, b);
  if (err == 0 && own_b) err = fs_output_may_make(to, &dir);
  if (err == -EEXIST && !(flags & RENAME_NOREPLACE)) err = -EXDEV; /* an output has that name */
  if (err == 0) err = (fs_err)FS_SYS5(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, flags);
  return err == 0 ? 1 : err;
}

/* ---- listing ---- */

#define FS_NL_BATCH 8u
struct listed {
  uint64_t at, ino;
  uint32_t len;
  uint8_t type;
  char name[FS_NAME_MAX + 1];
};

/* Puts a name into the batch, which is sorted and has the smallest positions seen so far. */
static void keep(struct listed *batch, uint32_t *n, uint64_t at, const struct dirent64 *d, size_t len) {
  uint32_t i = *n;
  if (i == FS_NL_BATCH && batch[--i].at <= at) return;
  if (*n < FS_NL_BATCH) ++*n;
  for (; i > 0 && batch[i - 1].at > at; i--) batch[i] = batch[i - 1];
  batch[i].at = at;
  batch[i].ino = d->d_ino;
  batch[i].type = d->d_type;
  batch[i].len = (uint32_t)len;
  memcpy(batch[i].name, d->d_name, len);
}

/* Collects the next names in the order of a hash, which stays the same when other names are made or
   removed. */
static uint32_t gather(int fd, uint32_t mount, uint32_t dir, uint64_t from, struct listed *batch) {
  struct fs_dirents names = {.fd = fd};
  uint32_t kept = 0;
  FS_SYS3(SYS_lseek, fd, 0, SEEK_SET);
  for (const struct dirent64 *d; (d = fs_dirents_next(&names)) != NULL;) {
    size_t len = strlen(d->d_name);
    uint64_t place = FS_NL_AT + 1 + (fs_xxh3(d->d_name, len) & (FS_RECORD_SEQ_MAX - 1));
    if (fs_is_dot(d->d_name) || len > FS_NAME_MAX || place <= from) continue;
    if (fs_names_entry(mount, dir, d->d_name, len) == NULL) keep(batch, &kept, place, d, len);
  }
  return kept;
}

fs_ssize fs_nl_list(uint32_t mount, uint32_t dir, uint64_t *at, void *buf, size_t n) {
  char path[PATH_MAX];
  struct listed batch[FS_NL_BATCH];
  const struct fs_node *node = fs_names_node();
  uint64_t id = node == NULL ? 0 : fs_output_dir_id(mount, dir);
  size_t used = 0, len = 1;
  if (id == 0 || !marked(node, id) || path_in(node, id, "", 0, path) != 0) return 0;
  fs_fd fd = fs_sys_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  uint32_t got = fd < 0 ? 0 : FS_NL_BATCH;
  while (len > 0 && got == FS_NL_BATCH) {
    got = gather(fd, mount, dir, *at, batch);
    for (uint32_t i = 0; i < got && len > 0; i++) {
      const struct fs_dirent_view v = {
          .ino = batch[i].ino, .name = batch[i].name, .name_len = batch[i].len, .type = batch[i].type};
      len = fs_dirent_put((char *)buf + used, n - used, &v, batch[i].at);
      used += len;
      if (len > 0) *at = batch[i].at;
    }
  }
  if (fd >= 0) fs_sys_close(fd);
  return used > 0 || len > 0 ? (fs_ssize)used : -EINVAL;
}
