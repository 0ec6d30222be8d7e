/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a directory for an fts walk; fts.c calls this. What an entry has after it, and which errors
   are noted where, is as in libc, because programs like rm, chmod and du rely on it. */
#include "preload/fts_build.h"

#include <stdlib.h>

#include "preload/preload.h"
#include "util/util.h"

FTSENT *fs_fts_entry(FTS *walk, const char *name, size_t len) {
  bool with_stat = !(walk->fts_options & FTS_NOSTAT);
  size_t stat_at = fs_round_up(sizeof(FTSENT) + len + 1, _Alignof(max_align_t));
  FTSENT *e = calloc(1, stat_at + (with_stat ? sizeof(struct stat) : 0));
  if (e == NULL) return NULL;
  memcpy(e->fts_name, name, len);
  e->fts_namelen = (unsigned short)len;
  e->fts_path = walk->fts_path;
  e->fts_instr = FTS_NOINSTR;
  if (with_stat) e->fts_statp = (struct stat *)(void *)((char *)e + stat_at);
  return e;
}

size_t fs_fts_append_at(const FTSENT *dir) {
  return dir->fts_pathlen > 0 && dir->fts_path[dir->fts_pathlen - 1] == '/' ? dir->fts_pathlen - 1u : dir->fts_pathlen;
}

/* Returns the kind of a directory: it may have been seen above already. */
static unsigned short kind_of_directory(FTSENT *e) {
  if (fs_is_dot(e->fts_name)) return FTS_DOT;
  for (FTSENT *above = e->fts_parent; above->fts_level >= FTS_ROOTLEVEL; above = above->fts_parent)
    if (above->fts_ino == e->fts_ino && above->fts_dev == e->fts_dev) {
      e->fts_cycle = above;
      return FTS_DC;
    }
  return FTS_D;
}

unsigned short fs_fts_stat(FTS *walk, FTSENT *e, bool follow) {
  struct stat own = {0}, *st = walk->fts_options & FTS_NOSTAT ? &own : e->fts_statp;
  if (follow || (walk->fts_options & FTS_LOGICAL)) {
    if (stat(e->fts_accpath, st) != 0) {
      int err = errno;
      if (lstat(e->fts_accpath, st) == 0) {
        errno = 0;
        return FTS_SLNONE;
      }
      e->fts_errno = err;
      memset(st, 0, sizeof(*st));
      return FTS_NS;
    }
  } else if (lstat(e->fts_accpath, st) != 0) {
    e->fts_errno = errno;
    memset(st, 0, sizeof(*st));
    return FTS_NS;
  }
  e->fts_dev = st->st_dev;
  e->fts_ino = st->st_ino;
  e->fts_nlink = st->st_nlink;
  if (S_ISDIR(st->st_mode)) return kind_of_directory(e);
  return S_ISLNK(st->st_mode) ? FTS_SL : S_ISREG(st->st_mode) ? FTS_F : FTS_DEFAULT;
}

FTSENT *fs_fts_sort(FTS *walk, FTSENT *list, size_t n) {
  if (n < 2) return list;
  FTSENT **array = reallocarray(walk->fts_array, n, sizeof(FTSENT *));
  if (array == NULL) return list; /* in the order of the directory, as libc leaves it then */
  walk->fts_array = array;
  walk->fts_nitems = (int)n;
  size_t i = 0;
  for (FTSENT *e = list; e != NULL; e = e->fts_link) array[i++] = e;
  qsort(array, n, sizeof(FTSENT *), walk->fts_compar);
  for (i = 0; i < n; i++) array[i]->fts_link = i + 1 < n ? array[i + 1] : NULL;
  return array[0];
}

int fs_fts_enter(FTS *walk, const FTSENT *e, int fd, const char *path) {
  struct stat st;
  if (walk->fts_options & FTS_NOCHDIR) return 0;
  int to = fd >= 0 || path == NULL ? fd : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (to < 0) return -1;
  int r = fstat(to, &st);
  if (r == 0 && (st.st_dev != e->fts_dev || st.st_ino != e->fts_ino)) r = fs_ret_int(-ENOENT);
  if (r == 0) r = fchdir(to);
  int saved = errno;
  if (fd < 0) close(to);
  errno = saved;
  return r;
}

int fs_fts_back_to_start(FTS *walk) {
  return walk->fts_options & FTS_NOCHDIR ? 0 : fchdir(walk->fts_rfd);
}

/* The state of reading one directory. */
struct build {
  FTS *walk;
  FTSENT *dir;
  size_t len;      /* of the directory's path with its slash */
  int64_t to_stat; /* entries that may still be directories: 0 none, < 0 not known */
  bool by_type;    /* readdir's type tells which are not */
  bool entered;    /* the current directory is dir */
  bool refused;    /* it could not be entered: nothing is read then */
};

/* Plans the stats. With FTS_NOSTAT a directory's link count says how many directories it holds. */
static void plan(struct build *b, enum fs_fts_want want) {
  int options = b->walk->fts_options;
  b->to_stat = -1;
  if (want == FS_FTS_NAMES) {
    b->to_stat = 0;
  } else if ((options & FTS_NOSTAT) && (options & FTS_PHYSICAL)) {
    b->to_stat = (int64_t)b->dir->fts_nlink - (options & FTS_SEEDOT ? 0 : 2);
    b->by_type = true;
  }
}

static void describe(struct build *b, FTSENT *e, uint8_t type) {
  bool in_place = (b->walk->fts_options & FTS_NOCHDIR) != 0;
  e->fts_accpath = in_place ? e->fts_path : e->fts_name;
  e->fts_info = FTS_NSOK;
  if (b->to_stat == 0 || (b->by_type && type != DT_DIR && type != DT_UNKNOWN)) return;
  if (in_place) memcpy(b->walk->fts_path + b->len, e->fts_name, (size_t)e->fts_namelen + 1);
  e->fts_info = fs_fts_stat(b->walk, e, false);
  bool directory = e->fts_info == FTS_D || e->fts_info == FTS_DC || e->fts_info == FTS_DOT;
  if (b->to_stat > 0 && directory && b->by_type) b->to_stat--;
}

/* Makes one entry of the directory. If it returns NULL, errno says why the walk cannot go on. */
static FTSENT *child(struct build *b, const struct dirent *d) {
  size_t n = strlen(d->d_name);
  if (b->len + n > USHRT_MAX) return fs_ret(-ENAMETOOLONG), NULL;
  FTSENT *e = fs_fts_entry(b->walk, d->d_name, n);
  if (e == NULL) return NULL;
  e->fts_level = (short)(b->dir->fts_level + 1);
  e->fts_parent = b->dir;
  e->fts_pathlen = (unsigned short)(b->len + n);
  describe(b, e, d->d_type);
  return e;
}

static void drop(struct build *b, FTSENT *list) {
  int saved = errno;
  while (list != NULL) {
    FTSENT *after = list->fts_link;
    free(list);
    list = after;
  }
  b->dir->fts_info = FTS_ERR;
  b->walk->fts_options |= FTS_STOP;
  errno = saved;
}

/* Reads all of the directory, in its order. */
static FTSENT *read_all(struct build *b, DIR *stream, size_t *count, bool *failed) {
  FTSENT *list = NULL, **end = &list;
  const struct dirent *d;
  while ((d = readdir(stream)) != NULL) {
    if (!(b->walk->fts_options & FTS_SEEDOT) && fs_is_dot(d->d_name)) continue;
    FTSENT *e = child(b, d);
    if (e == NULL) {
      *failed = true;
      drop(b, list);
      return NULL;
    }
    *end = e;
    end = &e->fts_link;
    ++*count;
  }
  return list;
}

static void enter(struct build *b, DIR *stream, enum fs_fts_want want) {
  if (b->to_stat == 0 && want != FS_FTS_READ) return;
  if (fs_fts_enter(b->walk, b->dir, dirfd(stream), NULL) == 0) {
    b->entered = true;
    return;
  }
  b->refused = true;
  if (b->to_stat != 0 && want == FS_FTS_READ) b->dir->fts_errno = errno;
  b->dir->fts_flags |= FTS_DONTCHDIR;
}

static int go_back(struct build *b) {
  return b->dir->fts_level == FTS_ROOTLEVEL ? fs_fts_back_to_start(b->walk)
                                            : fs_fts_enter(b->walk, b->dir->fts_parent, -1, "..");
}

FTSENT *fs_fts_build(FTS *walk, enum fs_fts_want want) {
  struct build b = {.walk = walk, .dir = walk->fts_cur};
  DIR *stream = opendir(b.dir->fts_accpath);
  if (stream == NULL) {
    if (want != FS_FTS_READ) return NULL;
    b.dir->fts_info = FTS_DNR;
    b.dir->fts_errno = errno;
    return NULL;
  }
  plan(&b, want);
  enter(&b, stream, want);
  size_t at = fs_fts_append_at(b.dir), n = 0;
  b.len = at + 1;
  if (walk->fts_options & FTS_NOCHDIR) walk->fts_path[at] = '/';
  bool failed = false;
  FTSENT *list = b.refused ? NULL : read_all(&b, stream, &n, &failed);
  closedir(stream);
  if (failed) return NULL;
  if (walk->fts_options & FTS_NOCHDIR) walk->fts_path[n == 0 ? at : b.len] = '\0';
  if (b.entered && (want == FS_FTS_CHILDREN || n == 0) && go_back(&b) != 0) return drop(&b, list), NULL;
  if (n == 0 && want == FS_FTS_READ) b.dir->fts_info = FTS_DP;
  return walk->fts_compar != NULL ? fs_fts_sort(walk, list, n) : list;
}
