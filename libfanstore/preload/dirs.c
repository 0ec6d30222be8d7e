/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of opendir to closedir and scandir. A directory of a dataset has a stream of this
 * library. Its first word tells it from libc's: there it is the descriptor, which is never
 * negative. The position is the stream's own, as libc's buffer is, so a forked child goes on by
 * itself. The position is also noted in the open file, where dup and lseek find it.
 *
 * A real directory has such a stream too, around libc's, if it lacks a mount or the way to one. The
 * missing names come after those that are there. If such a directory was not opened by its own name
 * but by a symlink, for example, it is noticed when its "." is read. The program has libc's stream
 * by then, and a small table leads to this library's.
 */
#include <stdlib.h>

#include "client/outputs/outputs.h"
#include "client/path/vdir.h"
#include "preload/preload.h"

#define FS_DIR_MAGIC ((int)0xf5d1f5d1)

struct fs_dirstream {
  int magic;
  int fd;
  uint64_t at;      /* number of the next record, or of the next missing name */
  DIR *inner;       /* libc's stream of a real directory, or NULL */
  const char *path; /* of that directory, and its length */
  size_t path_len;
  struct dirent64 *shown; /* the current record: the one below, or libc's, which may be longer */
  struct dirent64 record;
  uint64_t page_at; /* position after the page */
  uint32_t page_used, page_size;
  char *page; /* FS_DIR_PAGE bytes for records of output files, or NULL: none was asked for */
};
#define FS_DIR_PAGE 32768u       /* as libc's */
#define FS_AT_MISSING (1l << 62) /* what telldir says among the missing names, plus their number */

/* ---- libc's streams that are found to need one of this library ---- */

#define FS_LATE 64 /* more streams at once do not show the missing names */
static struct {
  DIR *_Atomic dir;
  struct fs_dirstream *stream;
} late[FS_LATE];
static _Atomic uint32_t late_count;

static void late_add(DIR *dir, struct fs_dirstream *d) {
  for (int i = 0; i < FS_LATE; i++) {
    DIR *none = NULL, *taken = (DIR *)(void *)&late[i];
    if (!atomic_compare_exchange_strong(&late[i].dir, &none, taken)) continue;
    late[i].stream = d;
    atomic_fetch_add(&late_count, 1);
    atomic_store(&late[i].dir, dir);
    return;
  }
  free(d);
}

static __attribute__((noinline)) struct fs_dirstream *late_find(DIR *dir, bool remove) {
  for (int i = 0; i < FS_LATE; i++) {
    if (atomic_load(&late[i].dir) != dir) continue;
    struct fs_dirstream *d = late[i].stream;
    if (remove) atomic_store(&late[i].dir, NULL);
    if (remove) atomic_fetch_sub(&late_count, 1);
    return d;
  }
  return NULL;
}

static struct fs_dirstream *ours(DIR *d) {
  FS_MAY_BE_NULL(d);
  if (d == NULL) return NULL;
  if (*(int *)(void *)d == FS_DIR_MAGIC) return (struct fs_dirstream *)(void *)d;
  return FS_UNLIKELY(atomic_load_explicit(&late_count, memory_order_relaxed) > 0) ? late_find(d, false) : NULL;
}

/* Returns the descriptor of a stream of libc, by its first word. */
static int libc_dirfd(DIR *d) {
  return *(int *)(void *)d;
}

static DIR *new_stream(int fd, const struct fs_slot *s) {
  struct fs_dirstream *d = calloc(1, sizeof(*d));
  if (d == NULL) return NULL;
  d->magic = FS_DIR_MAGIC;
  d->fd = fd;
  d->at = atomic_load(&s->offset);
  return (DIR *)(void *)d;
}

/* Returns a stream around a real directory's, with the names that mounts put there, or NULL if they
   put none. */
static struct fs_dirstream *stream_around(DIR *inner) {
  const char *path;
  size_t len;
  struct fs_dirstream *d = fs_vdir_edge(libc_dirfd(inner), &path, &len) ? calloc(1, sizeof(*d)) : NULL;
  if (d == NULL) return NULL;
  *d = (struct fs_dirstream){
      .magic = FS_DIR_MAGIC, .fd = libc_dirfd(inner), .inner = inner, .path = path, .path_len = len};
  return d;
}

/* Returns a real directory's stream as it is or, if it is known to lie above a mount, with the
   missing names. */
static DIR *real_stream(DIR *inner) {
  if (inner == NULL || fs_mount_count() == 0) return inner;
  bool above = (fs_fd_entry(libc_dirfd(inner)) & FS_FDE_ANCESTOR) != 0 || fs_vdir_edge_dot(0);
  struct fs_dirstream *d = above ? stream_around(inner) : NULL;
  return d != NULL ? (DIR *)(void *)d : inner;
}

/* Looks at a stream of libc after its "." was read. */
static __attribute__((noinline)) void look_at_dot(DIR *dir, uint64_t ino) {
  int saved = errno;
  struct fs_dirstream *d = fs_mount_count() > 0 && fs_vdir_edge_dot(ino) ? stream_around(dir) : NULL;
  if (d != NULL) late_add(dir, d);
  errno = saved;
}

static inline void look_at_record(DIR *dir, const struct dirent *e) {
  if (FS_UNLIKELY(e->d_name[0] == '.' && e->d_name[1] == '\0')) look_at_dot(dir, e->d_ino);
}

/* opendir of an entry. FS_PATH_CALL wants an integer, so it returns twice the descriptor plus 1,
   which no address is. */
static int64_t open_entry(int route, const struct fs_found *f) {
  const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  uint64_t begin = fs_trace_begin();
  int64_t fd = route < 0 ? route : fs_file_open(route, f, flags);
  if (FS_UNLIKELY(begin != 0)) fs_trace_opened(fs_ret_int(fd), route, f, flags, begin);
  return fd < 0 ? fd : 2 * fd + 1;
}

static intptr_t real_opendir(const char *path) {
  fs_lowest(1);
  DIR *d = FS_REAL(opendir)(path);
  if (d == NULL && errno == EMFILE && fs_fd_pool_drop()) d = FS_REAL(opendir)(path);
  if (d == NULL) return -1;
  int fd = libc_dirfd(d);
  fs_fd_is_real(fd);
  if (FS_UNLIKELY(fs_path_maybe_above(AT_FDCWD, path))) fs_note_directory(fd, AT_FDCWD, path);
  return (intptr_t)d;
}

FS_PATH_INLINE intptr_t opendir_any(const char *path) {
  FS_PATH_CALL(AT_FDCWD, path, 0, open_entry(route, f), real_opendir(path));
}

/* Makes the stream of a new descriptor. A vfork child, or a thread with descriptors of its own, has
   no open directories of a dataset: then errno is EBADF, as from fdopendir. */
static DIR *open_stream(int fd) {
  const struct fs_slot *s = fs_fd_slot(fd);
  DIR *d = s == NULL ? NULL : new_stream(fd, s);
  if (d != NULL) return d;
  int err = s == NULL ? EBADF : ENOMEM;
  fs_close(fd);
  return fs_ret(-err), NULL;
}

FS_EXPORT DIR *opendir(const char *path) {
  intptr_t r = opendir_any(path);
  if (r == -1) return NULL;
  return (r & 1) != 0 ? open_stream((int)(r >> 1)) : real_stream((DIR *)r);
}

FS_EXPORT DIR *fdopendir(int fd) {
  struct fs_slot *s = fs_fd_slot(fd);
  if (s == NULL) {
    DIR *d = FS_REAL(fdopendir)(fd);
    if (d != NULL || (errno != ENOTDIR && errno != EBADF) || (s = fs_fd_adopt(fd)) == NULL) return real_stream(d);
  }
  struct stat st;
  /* As in libc, an O_PATH descriptor of a directory will do until it is read. */
  fs_err err = fs_file_fstat(s, &st);
  if (err == 0 && S_ISDIR(st.st_mode)) return new_stream(fd, s);
  fs_ret(err != 0 ? err : -ENOTDIR);
  return NULL;
}

static void set_record(struct fs_dirstream *d, const struct fs_dirent_view *v, uint64_t next) {
  (void)fs_dirent_put((char *)&d->record, sizeof(d->record), v, next);
  d->shown = &d->record;
}

/* Gets the next name that mounts put into a real directory and that is not there. */
static int next_missing(struct fs_dirstream *d) {
  struct fs_dirent_view v = {.ino = 1, .type = DT_DIR};
  for (;;) {
    v.name_len = (uint32_t)fs_vdir_child(d->path, d->path_len, (uint32_t)d->at, &v.name);
    if (v.name_len == 0 || v.name_len > FS_NAME_MAX) return 0;
    set_record(d, &v, (uint64_t)FS_AT_MISSING + ++d->at);
    if (FS_SYS3(SYS_faccessat, d->fd, d->record.d_name, F_OK) == -ENOENT) return 1;
  }
}

static int next_real(struct fs_dirstream *d) {
  int saved = errno;
  errno = 0;
  struct dirent *e = d->at > 0 ? NULL : FS_REAL(readdir)(d->inner);
  d->shown = (struct dirent64 *)(void *)e;
  int err = errno;
  errno = saved;
  return e != NULL ? 1 : err != 0 ? -err : next_missing(d);
}

static int next_output(struct fs_dirstream *d, struct fs_slot *s) {
  if (d->page_used == d->page_size) {
    if (d->page == NULL && (d->page = malloc(FS_DIR_PAGE)) == NULL) return -ENOMEM;
    d->page_at = d->at;
    fs_ssize n = fs_output_list(s->mount, s->entry, &d->page_at, d->page, FS_DIR_PAGE);
    d->page_used = d->page_size = 0;
    if (n <= 0) return (int)n;
    d->page_size = (uint32_t)n;
  }
  d->shown = (struct dirent64 *)(void *)(d->page + d->page_used);
  d->page_used += d->shown->d_reclen;
  d->at = (uint64_t)d->shown->d_off;
  atomic_store(&s->offset, d->at);
  return 1;
}

/* Sets d->shown to the next record. Returns 1, 0 at the end, or a negative errno. */
static int next_record(struct fs_dirstream *d) {
  struct fs_dirent_view v;
  if (d->inner != NULL) return next_real(d);
  FS_USE(u);
  struct fs_slot *s = fs_fd_use(d->fd, &u);
  if (s == NULL || atomic_load(&s->kind) != FS_SLOT_DIR) return -EBADF;
  int err = 1;
  for (; err > 0; d->at += err > 0)
    err = d->at >= FS_OUTPUT_AT ? -ENOENT : fs_dir_record(s->mount, s->entry, d->at, &v);
  if (err == -ENOENT) return next_output(d, s);
  if (err != 0) return err;
  atomic_store(&s->offset, ++d->at);
  set_record(d, &v, d->at);
  return 1;
}

FS_EXPORT struct dirent *readdir(DIR *dir) {
  struct fs_dirstream *d = ours(dir);
  if (d == NULL) {
    struct dirent *e = FS_REAL(readdir)(dir);
    if (e != NULL) look_at_record(dir, e);
    return e;
  }
  int r = next_record(d);
  if (r < 0) fs_ret(r);
  return r > 0 ? (struct dirent *)(void *)d->shown : NULL;
}
FS_ALIAS(readdir64, readdir);

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* readdir_r is, and is still called */
FS_EXPORT int readdir_r(DIR *dir, struct dirent *entry, struct dirent **result) {
  struct fs_dirstream *d = ours(dir);
  if (d == NULL) {
    int err = FS_REAL(readdir_r)(dir, entry, result);
    if (err == 0 && *result != NULL) look_at_record(dir, entry);
    return err;
  }
  int r = next_record(d);
  if (r > 0 && d->shown->d_reclen > sizeof(*entry)) r = -ENAMETOOLONG;
  if (r > 0) memcpy(entry, d->shown, d->shown->d_reclen);
  *result = r > 0 ? entry : NULL;
  return r < 0 ? -r : 0;
}
FS_ALIAS(readdir64_r, readdir_r);

static int close_real(DIR *dir) {
  FS_MAY_BE_NULL(dir);
  if (dir != NULL && FS_UNLIKELY(fs_fd_entry(libc_dirfd(dir)) != 0)) fs_fd_forget(libc_dirfd(dir));
  return FS_REAL(closedir)(dir);
}

FS_EXPORT int closedir(DIR *dir) {
  struct fs_dirstream *d = ours(dir);
  if (d == NULL) return close_real(dir);
  int fd = d->fd;
  DIR *inner = d->inner;
  if (inner == dir) late_find(dir, true);
  d->magic = 0;
  free(d->page);
  free(d);
  return inner != NULL ? close_real(inner) : fs_close(fd);
}

FS_EXPORT int dirfd(DIR *dir) {
  struct fs_dirstream *d = ours(dir);
  return d == NULL ? FS_REAL(dirfd)(dir) : d->fd;
}

FS_EXPORT void rewinddir(DIR *dir) {
  struct fs_dirstream *d = ours(dir);
  if (d != NULL) d->at = d->page_used = d->page_size = 0;
  if (d == NULL || d->inner != NULL)
    FS_REAL(rewinddir)(d == NULL ? dir : d->inner);
  else
    lseek(d->fd, 0, SEEK_SET);
}

/* Moves a real directory's stream. When it moves back from the missing names, libc's stream is at
   its end, or where it was when the position was told. */
static void seek_real(struct fs_dirstream *d, long at) {
  d->at = at >= FS_AT_MISSING ? (uint64_t)(at - FS_AT_MISSING) : 0;
  if (at < FS_AT_MISSING) FS_REAL(seekdir)(d->inner, at);
}

FS_EXPORT void seekdir(DIR *dir, long at) {
  struct fs_dirstream *d = ours(dir);
  if (d == NULL)
    FS_REAL(seekdir)(dir, at);
  else if (d->inner != NULL)
    seek_real(d, at);
  else
    d->page_used = d->page_size = 0, lseek(d->fd, (off_t)(d->at = (uint64_t)at), SEEK_SET);
}

FS_EXPORT long telldir(DIR *dir) {
  struct fs_dirstream *d = ours(dir);
  if (d == NULL || (d->inner != NULL && d->at == 0)) return FS_REAL(telldir)(d == NULL ? dir : d->inner);
  return (long)d->at + (d->inner != NULL ? FS_AT_MISSING : 0);
}

FS_EXPORT ssize_t getdents64(int fd, void *buf, size_t n) {
  FS_FD_CALL(fd, fs_file_getdents(s, buf, n), FS_REAL(getdents64)(fd, buf, n));
}

typedef int select_fn(const struct dirent *);
typedef int compare_fn(const struct dirent **, const struct dirent **);

static void free_list(struct dirent **list, size_t n) {
  while (n > 0) free(list[--n]);
  free(list);
}

static struct dirent *copy_record(const struct dirent *e) {
  struct dirent *copy = malloc(e->d_reclen);
  if (copy != NULL) memcpy(copy, e, e->d_reclen);
  return copy;
}

/* scandir of a stream of this library. libc's scandir would call its own readdir. */
static int collect(DIR *dir, struct dirent ***out, select_fn *select, compare_fn *compare) {
  struct dirent **list = NULL, *e;
  size_t n = 0, room = 0;
  while ((e = readdir(dir)) != NULL) {
    if (select != NULL && !select(e)) continue;
    if (n == room) {
      room = room == 0 ? 64 : room * 2;
      struct dirent **more = realloc(list, room * sizeof(*list));
      if (more == NULL) return free_list(list, n), fs_ret_int(-ENOMEM);
      list = more;
    }
    list[n] = copy_record(e);
    if (list[n] == NULL) return free_list(list, n), fs_ret_int(-ENOMEM);
    n++;
  }
  if (list == NULL && (list = malloc(sizeof(*list))) == NULL) return -1;
  if (compare != NULL) qsort(list, n, sizeof(*list), (int (*)(const void *, const void *))compare);
  *out = list;
  return (int)n;
}

static void end_scan(DIR *dir) {
  /* Hides from the compiler that fdopendir here and closedir are of one family. */
  FS_MAY_BE_NULL(dir);
  closedir(dir);
}

FS_EXPORT int scandirat(int dirfd_, const char *path, struct dirent ***list, select_fn *select, compare_fn *compare) {
  if (fs_path_outside(dirfd_, path) && !fs_path_maybe_above(dirfd_, path))
    return FS_REAL(scandirat)(dirfd_, path, list, select, compare);
  int fd = openat(dirfd_, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *dir = fd < 0 ? NULL : fdopendir(fd);
  if (dir == NULL) {
    if (fd >= 0) close(fd);
    return -1;
  }
  int n = collect(dir, list, select, compare);
  int saved = errno;
  end_scan(dir);
  errno = saved;
  return n;
}
FS_ALIAS(scandirat64, scandirat);

FS_EXPORT int scandir(const char *path, struct dirent ***list, select_fn *select, compare_fn *compare) {
  return scandirat(AT_FDCWD, path, list, select, compare);
}
FS_ALIAS(scandir64, scandir);
