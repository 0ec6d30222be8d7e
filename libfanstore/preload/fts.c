/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of the fts functions, which walk directories inside libc. A walk that may meet a mount
 * is done here, with this library's opendir, stat and fchdir; all others are libc's. The structures
 * are those of fts.h, and a program sees in them what libc's walk shows. A bit in its options tells
 * such a walk from libc's.
 */
#include <fts.h>
#include <stdlib.h>

#include "preload/fts_build.h"
#include "preload/preload.h"

#define FS_OURS(walk) (((walk)->fts_options & FS_FTS_OURS) != 0)

/* Returns whether the walk may come below a mount. One that follows symlinks may from anywhere. */
static bool meets_mount(char *const *paths, int options) {
  if (fs_mount_count() == 0) return false;
  if (options & (FTS_LOGICAL | FTS_COMFOLLOW)) return true;
  for (; *paths != NULL; paths++)
    if (fs_walk_meets_mount(*paths)) return true;
  return false;
}

static void free_list(FTSENT *list) {
  while (list != NULL) {
    FTSENT *next = list->fts_link;
    free(list);
    list = next;
  }
}

static FTSENT *argument(FTS *walk, FTSENT *parent, const char *path) {
  size_t len = strlen(path);
  FTSENT *e = len == 0 || len > USHRT_MAX ? NULL : fs_fts_entry(walk, path, len);
  if (e == NULL) return fs_ret(len == 0 ? -ENOENT : len > USHRT_MAX ? -ENAMETOOLONG : -ENOMEM), NULL;
  e->fts_level = FTS_ROOTLEVEL;
  e->fts_parent = parent;
  e->fts_accpath = e->fts_name;
  e->fts_info = fs_fts_stat(walk, e, (walk->fts_options & FTS_COMFOLLOW) != 0);
  /* An argument "." is a directory like others. */
  if (e->fts_info == FTS_DOT) e->fts_info = FTS_D;
  return e;
}

/* Returns the arguments in their order, or sorted. On an error returns NULL with *failed and errno
   set. */
static FTSENT *arguments(FTS *walk, FTSENT *parent, char *const *paths, bool *failed) {
  FTSENT *list = NULL, **end = &list;
  size_t n = 0;
  for (; *paths != NULL; paths++, n++) {
    FTSENT *e = argument(walk, parent, *paths);
    if (e == NULL) {
      *failed = true;
      free_list(list);
      return NULL;
    }
    if (walk->fts_compar != NULL) { /* as libc does: it shows where the function calls two equal */
      e->fts_link = list;
      list = e;
    } else {
      *end = e;
      end = &e->fts_link;
    }
  }
  return walk->fts_compar != NULL ? fs_fts_sort(walk, list, n) : list;
}

static FTS *new_walk(char *const *paths, int options, int (*compare)(const FTSENT **, const FTSENT **)) {
  size_t longest = 0;
  for (; *paths != NULL; paths++) longest = FS_MAX(longest, strlen(*paths));
  FTS *walk = calloc(1, sizeof(*walk));
  if (walk == NULL) return NULL;
  walk->fts_compar = (int (*)(const void *, const void *))compare;
  walk->fts_options = options | FS_FTS_OURS | (options & FTS_LOGICAL ? FTS_NOCHDIR : 0);
  walk->fts_rfd = -1;
  /* Lengths in an entry are unsigned shorts: one buffer of this size never has to move. */
  walk->fts_pathlen = (int)FS_MAX(longest + 2, (size_t)USHRT_MAX + 2);
  walk->fts_path = malloc((size_t)walk->fts_pathlen);
  if (walk->fts_path != NULL) return walk;
  free(walk);
  return NULL;
}

static void free_walk(FTS *walk) {
  free(walk->fts_array);
  free(walk->fts_path);
  free(walk);
}

/* Sets the first current entry, which is not in the tree and leads to the arguments. */
static bool begin(FTS *walk, char *const *paths) {
  bool failed = false;
  FTSENT *parent = fs_fts_entry(walk, "", 0), *first = fs_fts_entry(walk, "", 0);
  if (parent != NULL && first != NULL) {
    parent->fts_level = FTS_ROOTPARENTLEVEL;
    first->fts_level = FTS_ROOTLEVEL;
    first->fts_parent = parent;
    first->fts_info = FTS_INIT;
    first->fts_link = arguments(walk, parent, paths, &failed);
    walk->fts_cur = first;
    if (!failed) return true;
  }
  free(parent);
  free(first);
  return false;
}

FS_EXPORT FTS *fts_open(char *const *paths, int options, int (*compare)(const FTSENT **, const FTSENT **)) {
  if ((options & ~FTS_OPTIONMASK) != 0 || !meets_mount(paths, options))
    return FS_REAL(fts_open)(paths, options, compare);
  FTS *walk = new_walk(paths, options, compare);
  if (walk == NULL) return NULL;
  if (!begin(walk, paths)) return free_walk(walk), NULL;
  if (walk->fts_options & FTS_NOCHDIR) return walk;
  walk->fts_rfd = open(".", O_RDONLY | O_CLOEXEC);
  if (walk->fts_rfd < 0) walk->fts_options |= FTS_NOCHDIR;
  return walk;
}
FS_ALIAS(fts64_open, fts_open);

/* Makes an argument current: its path is the walk's, and its name the last component. */
static FTSENT *load(FTS *walk, FTSENT *e) {
  if (fs_fts_back_to_start(walk) != 0) {
    walk->fts_options |= FTS_STOP;
    return NULL;
  }
  e->fts_pathlen = e->fts_namelen;
  memcpy(walk->fts_path, e->fts_name, (size_t)e->fts_namelen + 1);
  const char *slash = strrchr(e->fts_name, '/');
  if (slash != NULL && (slash != e->fts_name || slash[1] != '\0')) {
    e->fts_namelen = (unsigned short)strlen(slash + 1);
    memmove(e->fts_name, slash + 1, (size_t)e->fts_namelen + 1);
  }
  e->fts_accpath = e->fts_path = walk->fts_path;
  walk->fts_dev = e->fts_dev;
  return walk->fts_cur = e;
}

/* Follows a symlink for FTS_FOLLOW. If the walk changes directories, it notes where to come back
   to. */
static void follow(FTS *walk, FTSENT *e) {
  e->fts_info = fs_fts_stat(walk, e, true);
  if (e->fts_info != FTS_D || (walk->fts_options & FTS_NOCHDIR)) return;
  e->fts_symfd = open(".", O_RDONLY | O_CLOEXEC);
  if (e->fts_symfd < 0) {
    e->fts_errno = errno;
    e->fts_info = FTS_ERR;
  } else {
    e->fts_flags |= FTS_SYMFOLLOW;
  }
}

static FTSENT *show_child(FTS *walk, FTSENT *e) {
  char *end = walk->fts_path + fs_fts_append_at(e->fts_parent);
  *end++ = '/';
  memcpy(end, e->fts_name, (size_t)e->fts_namelen + 1);
  return walk->fts_cur = e;
}

static void drop_children(FTS *walk) {
  free_list(walk->fts_child);
  walk->fts_child = NULL;
}

/* Goes back to the directory that e is in, after all of e was seen. */
static int leave(FTS *walk, FTSENT *e) {
  if (e->fts_level == FTS_ROOTLEVEL) return fs_fts_back_to_start(walk);
  if (e->fts_flags & FTS_SYMFOLLOW) {
    int r = walk->fts_options & FTS_NOCHDIR ? 0 : fchdir(e->fts_symfd), saved = errno;
    close(e->fts_symfd);
    errno = saved;
    return r;
  }
  return e->fts_flags & FTS_DONTCHDIR ? 0 : fs_fts_enter(walk, e->fts_parent, -1, "..");
}

/* Shows a directory once more, after all that is in it. Returns NULL after the arguments. */
static FTSENT *show_again(FTS *walk, FTSENT *e) {
  walk->fts_cur = e;
  if (e->fts_level == FTS_ROOTPARENTLEVEL) {
    free(e);
    errno = 0; /* the end, not an error */
    return walk->fts_cur = NULL;
  }
  walk->fts_path[e->fts_pathlen] = '\0';
  if (leave(walk, e) != 0) {
    walk->fts_options |= FTS_STOP;
    return NULL;
  }
  e->fts_info = e->fts_errno != 0 ? FTS_ERR : FTS_DP;
  return e;
}

/* Returns the entry after `e` in its directory, or the directory itself after the last one. */
static FTSENT *next(FTS *walk, FTSENT *e) {
  do {
    FTSENT *done = e, *parent = done->fts_parent;
    e = done->fts_link;
    free(done);
    if (e == NULL) return show_again(walk, parent);
    if (e->fts_level == FTS_ROOTLEVEL) return load(walk, e);
  } while (e->fts_instr == FTS_SKIP);
  if (e->fts_instr == FTS_FOLLOW) {
    follow(walk, e);
    e->fts_instr = FTS_NOINSTR;
  }
  return show_child(walk, e);
}

/* Goes into a directory that was shown. Returns its first child, or the directory again if it has
   none. */
static FTSENT *descend(FTS *walk, FTSENT *e) {
  if (walk->fts_child != NULL && (walk->fts_options & FTS_NAMEONLY)) {
    walk->fts_options &= ~FTS_NAMEONLY;
    drop_children(walk);
  }
  FTSENT *first = walk->fts_child;
  walk->fts_child = NULL;
  if (first == NULL) {
    first = fs_fts_build(walk, FS_FTS_READ);
    if (first == NULL) return walk->fts_options & FTS_STOP ? NULL : e;
  } else if (fs_fts_enter(walk, e, -1, e->fts_accpath) != 0) {
    e->fts_errno = errno;
    e->fts_flags |= FTS_DONTCHDIR;
    for (FTSENT *c = first; c != NULL; c = c->fts_link) c->fts_accpath = e->fts_accpath;
  }
  return show_child(walk, first);
}

static FTSENT *skip_directory(FTS *walk, FTSENT *e) {
  if (e->fts_flags & FTS_SYMFOLLOW) close(e->fts_symfd);
  drop_children(walk);
  e->fts_info = FTS_DP;
  return e;
}

FS_EXPORT FTSENT *fts_read(FTS *walk) {
  if (!FS_OURS(walk)) return FS_REAL(fts_read)(walk);
  FTSENT *e = walk->fts_cur;
  if (e == NULL || (walk->fts_options & FTS_STOP)) return NULL;
  int instruction = e->fts_instr;
  e->fts_instr = FTS_NOINSTR;
  if (instruction == FTS_AGAIN) {
    e->fts_info = fs_fts_stat(walk, e, false);
    return e;
  }
  if (instruction == FTS_FOLLOW && (e->fts_info == FTS_SL || e->fts_info == FTS_SLNONE)) {
    follow(walk, e);
    return e;
  }
  if (e->fts_info != FTS_D) return next(walk, e);
  bool elsewhere = (walk->fts_options & FTS_XDEV) && e->fts_dev != walk->fts_dev;
  return instruction == FTS_SKIP || elsewhere ? skip_directory(walk, e) : descend(walk, e);
}
FS_ALIAS(fts64_read, fts_read);

FS_EXPORT FTSENT *fts_children(FTS *walk, int instruction) {
  if (!FS_OURS(walk)) return FS_REAL(fts_children)(walk, instruction);
  if (instruction != 0 && instruction != FTS_NAMEONLY) return fs_ret(-EINVAL), NULL;
  FTSENT *e = walk->fts_cur;
  errno = 0; /* tells "no children" from an error */
  if (e == NULL || (walk->fts_options & FTS_STOP)) return NULL;
  if (e->fts_info == FTS_INIT) return e->fts_link;
  if (e->fts_info != FTS_D) return NULL;
  drop_children(walk);
  if (instruction == FTS_NAMEONLY) walk->fts_options |= FTS_NAMEONLY;
  enum fs_fts_want want = instruction == FTS_NAMEONLY ? FS_FTS_NAMES : FS_FTS_CHILDREN;
  if (e->fts_level != FTS_ROOTLEVEL || e->fts_accpath[0] == '/' || (walk->fts_options & FTS_NOCHDIR))
    return walk->fts_child = fs_fts_build(walk, want);
  int here = open(".", O_RDONLY | O_CLOEXEC);
  if (here < 0) return walk->fts_child = NULL;
  walk->fts_child = fs_fts_build(walk, want);
  int r = fchdir(here);
  close(here);
  return r != 0 ? NULL : walk->fts_child;
}
FS_ALIAS(fts64_children, fts_children);

FS_EXPORT int fts_set(FTS *walk, FTSENT *e, int instruction) {
  if (!FS_OURS(walk)) return FS_REAL(fts_set)(walk, e, instruction);
  if (instruction < 0 || instruction > FTS_SKIP) {
    errno = EINVAL;
    return 1;
  }
  e->fts_instr = (unsigned short)instruction;
  return 0;
}
FS_ALIAS(fts64_set, fts_set);

FS_EXPORT int fts_close(FTS *walk) {
  if (!FS_OURS(walk)) return FS_REAL(fts_close)(walk);
  FTSENT *e = walk->fts_cur;
  while (e != NULL) {
    FTSENT *done = e;
    bool last = e->fts_level < FTS_ROOTLEVEL;
    e = last ? NULL : e->fts_link != NULL ? e->fts_link : e->fts_parent;
    free(done);
  }
  drop_children(walk);
  int r = fs_fts_back_to_start(walk), saved = errno;
  if (walk->fts_rfd >= 0) close(walk->fts_rfd);
  free_walk(walk);
  errno = saved;
  return r;
}
FS_ALIAS(fts64_close, fts_close);
