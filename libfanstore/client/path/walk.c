/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Walks a path component by component, as the kernel does: through datasets, virtual directories
 * and the real file system. Before the walk has entered a mount, it takes names of the real file
 * system without a system call. If a ".." then leads into a mount, the path is walked again with
 * every component looked at, since "link/.." is not where its name says. No allocation, no locks. A
 * name that a dataset lacks is asked for only where outputs may be.
 */
#include "client/path/walk.h"

#include <unistd.h>

#include "client/names/names.h"
#include "client/names/nodelocal.h"
#include "client/names/overlay.h"
#include "client/path/vdir.h"
#include "util/util.h"

#define FS_MAX_LINKS 40u

struct walk {
  unsigned flags;
  unsigned links;
  bool below;            /* at mount:entry, else at the real path `real` */
  bool entered;          /* was below a mount at some point */
  bool climbed;          /* took a ".." of the real file system by name */
  uint32_t mount, entry; /* FS_OUTPUT_RECORD: at found->out, in the directory `parent` */
  uint32_t parent;
  struct fs_found *found;
  const struct fs_index *ix; /* NULL in a virtual directory */
  struct fs_known way;       /* from where the walk came below a mount to the path's last directory */
  size_t real_len;           /* "" stands for "/" */
  char *real;
  char *ahead;            /* what is still to be walked, inside `buf` */
  char buf[2 * PATH_MAX]; /* a current directory and a path, or a target and a rest */
};

static _Atomic bool any_output; /* a walk has come to one: so the process has its daemon */

static char *past_slashes(char *p) {
  while (*p == '/') p++;
  return p;
}

static bool at_end(char *p) {
  return *past_slashes(p) == '\0';
}

static bool is_dots(const char *name, size_t len) {
  return len == 2 && name[0] == '.' && name[1] == '.';
}

static fs_err enter_mount(struct walk *w, uint32_t mount, uint32_t entry) {
  fs_err err = 0;
  w->ix = NULL;
  if (!fs_is_vdir(entry) && (w->ix = fs_mount_ix(mount, &err)) == NULL) return err;
  w->below = w->entered = true;
  w->mount = mount;
  w->entry = entry;
  return 0;
}

static fs_err enter_if_mount(struct walk *w) {
  for (uint32_t i = 0; i < fs_mount_count(); i++)
    if (fs_mount_list[i].len == w->real_len && memcmp(fs_mount_list[i].path, w->real, w->real_len) == 0)
      return enter_mount(w, i, FS_ROOT);
  return 0;
}

/* Goes up to the directory that path[0..len) lies in, which may be of another dataset, virtual, or
   real. */
static fs_err go_up_from(struct walk *w, const char *path, size_t len) {
  size_t rest;
  uint32_t mount, entry;
  fs_err err;
  while (len > 0 && path[--len] != '/') {
  }
  int outer = fs_mount_above(path, len, &rest);
  if (outer < 0 && fs_vdir_missing(path, len, &mount, &entry)) return enter_mount(w, mount, entry);
  if (outer < 0) {
    w->below = false;
    memcpy(w->real, path, len);
    w->real[w->real_len = len] = '\0';
    return 0;
  }
  const struct fs_index *ix = fs_mount_ix((uint32_t)outer, &err);
  if (ix == NULL) return err;
  int64_t e = fs_index_lookup(ix, path + rest, len - FS_MIN(rest, len));
  if (e >= 0) return enter_mount(w, (uint32_t)outer, (uint32_t)e);
  return fs_vdir_find(path, len, &mount, &entry) ? enter_mount(w, mount, entry) : -EUCLEAN;
}

static fs_err leave_mount(struct walk *w) {
  const struct fs_mount_prefix *m = &fs_mount_list[fs_mount_list[w->mount].canonical];
  return go_up_from(w, m->path, m->len);
}

/* Puts a symlink's target in front of what is left of the path. */
static fs_err expand(struct walk *w, const char *target, size_t len) {
  size_t rest = strlen(w->ahead);
  w->way.len = 0;
  if (++w->links > FS_MAX_LINKS) return -ELOOP;
  if (len == 0) return -ENOENT;
  if (len + 1 + rest + 1 > sizeof(w->buf)) return -ENAMETOOLONG;
  memmove(w->buf + len + 1, w->ahead, rest + 1);
  w->buf[len] = rest > 0 ? '/' : '\0';
  memcpy(w->buf, target, len);
  w->ahead = w->buf;
  if (target[0] == '/') {
    w->below = false;
    w->real_len = 0;
    w->real[0] = '\0';
  }
  return 0;
}

static bool follow(const struct walk *w) {
  if ((w->flags & (FS_AS_IS | FS_PARENT)) && at_end(w->ahead)) return false;
  return !(w->flags & FS_NOFOLLOW) || w->ahead[0] != '\0';
}

/* Returns whether the real file system's symlinks are looked at. They always are once a mount was
   entered, because the resulting path goes to the kernel. */
static bool resolving(const struct walk *w) {
  return (w->flags & FS_REAL_LINKS) || w->entered;
}

/* Returns whether the real path may be a link like /proc/self/fd/3, which does not lead where its
   text says. */
static bool is_magic(const struct walk *w) {
  return strncmp(w->real, "/proc/", 6) == 0 && strchr(w->real + 6, '/') != NULL;
}

static fs_err climb_real(struct walk *w) {
  struct stat st;
  w->climbed = w->climbed || !resolving(w);
  if (resolving(w) && w->real_len > 0) {
    fs_err err = fs_sys_fstatat(AT_FDCWD, w->real, &st, 0);
    if (err != 0) return err;
    if (!S_ISDIR(st.st_mode)) return -ENOTDIR;
  }
  while (w->real_len > 0 && w->real[--w->real_len] != '/') {
  }
  w->real[w->real_len] = '\0';
  return enter_if_mount(w);
}

/* Takes one step in the real file system: by name only, unless it is being resolved. */
static fs_err step_real(struct walk *w, const char *name, size_t len) {
  if (is_dots(name, len)) return climb_real(w);
  if (w->real_len + len + 2 > PATH_MAX) return -ENAMETOOLONG;
  size_t before = w->real_len;
  w->real[w->real_len++] = '/';
  memcpy(w->real + w->real_len, name, len);
  w->real_len += len;
  w->real[w->real_len] = '\0';
  fs_err err = enter_if_mount(w);
  if (err != 0 || w->below || !resolving(w)) return err;
  char target[PATH_MAX];
  uint32_t mount, entry;
  long n = FS_SYS4(SYS_readlinkat, AT_FDCWD, w->real, target, sizeof(target) - 1);
  if (n == -ENOENT && fs_vdir_find(w->real, w->real_len, &mount, &entry)) return enter_mount(w, mount, entry);
  if (n <= 0 || !follow(w) || is_magic(w)) return 0;
  w->real_len = before;
  w->real[before] = '\0';
  return expand(w, target, (size_t)n);
}

/* Enters a mount of this name in the directory, or a directory above a mount that the dataset
   lacks. Returns 1 if there is neither. */
static int step_to_mount(struct walk *w, const char *name, size_t len, bool missing) {
  char path[PATH_MAX];
  uint32_t mount, entry;
  fs_ssize n = fs_path_of(w->mount, w->entry, path, sizeof(path));
  if (n < 0 || (size_t)n + len + 2 > sizeof(path)) return 1;
  int at = fs_vdir_mount_at(path, (size_t)n, name, len);
  if (at >= 0) return enter_mount(w, (uint32_t)at, FS_ROOT);
  if (!missing) return 1;
  path[n] = '/';
  memcpy(path + n + 1, name, len);
  return fs_vdir_find(path, (size_t)n + 1 + len, &mount, &entry) ? enter_mount(w, mount, entry) : 1;
}

static int step_vdir(struct walk *w, const char *name, size_t len) {
  const char *path;
  size_t path_len;
  if (!fs_vdir_path(w->mount, w->entry, &path, &path_len)) return -EUCLEAN;
  if (is_dots(name, len)) return go_up_from(w, path, path_len);
  return step_to_mount(w, name, len, true);
}

/* Returns 0 if names may be looked up in the current place of the walk. */
static fs_err check_search(const struct walk *w) {
  if (fs_is_vdir(w->entry)) return 0;
  uint32_t mode;
  if (fs_is_output(w->entry)) {
    fs_err err = w->entry == FS_OUTPUT_RECORD ? -ENOTDIR : fs_output_mode(w->entry, &mode);
    if (err != 0) return err;
  } else {
    const struct fs_entry *e = w->ix == NULL ? NULL : fs_index_entry(w->ix, w->entry);
    if (e == NULL) return -EUCLEAN;
    mode = e->mode;
  }
  if (!S_ISDIR(mode)) return -ENOTDIR;
  return (mode & S_IXUSR) || fs_caller_is_root() ? 0 : -EACCES;
}

/* Goes on to a record that was found. */
static int step_record(struct walk *w, const struct fs_record *r) {
  if (S_ISLNK(r->mode) && follow(w)) return expand(w, fs_record_target(r), r->target_len);
  w->found->out = *r;
  w->parent = w->entry;
  w->entry = FS_OUTPUT_RECORD;
  if (S_ISLNK(r->mode)) {
    memcpy(w->real, fs_record_target(r), r->target_len); /* this path is not needed any more */
    w->real[r->target_len] = '\0';
  }
  if (!S_ISDIR(r->mode)) return 0;
  int64_t number = fs_output_number(r, w->parent);
  w->entry = number < 0 ? w->parent : (uint32_t)number;
  return number < 0 ? (int)number : 0;
}

/* Goes on to the record of a name that was looked up when the tree's number was `tree`. */
static int enter_record(struct walk *w, const struct fs_node *node, uint64_t dir, const char *name, size_t len,
                        uint64_t tree, const struct fs_record *r) {
  int err = step_record(w, r);
  if (err != 0 || !S_ISDIR(r->mode)) return err;
  fs_output_permits(w->entry, r->mode, tree);
  fs_output_note_dir(node, &(struct fs_known){.dir = dir, .tree = tree, .name = name, .len = len}, w->entry);
  atomic_store_explicit(&any_output, true, memory_order_relaxed);
  return 0;
}

/* Looks among the outputs for a name that the dataset lacks. Returns 1 if it is missing. */
static int step_output(struct walk *w, const char *name, size_t len) {
  struct fs_answer a;
  const struct fs_record *r;
  const struct fs_node *node = fs_names_node();
  uint64_t dir = node == NULL ? 0 : fs_output_dir_id(w->mount, w->entry);
  bool last = at_end(w->ahead);
  if (dir == 0 || !fs_output_maybe(node, dir) || (last && (w->flags & FS_MAKE))) return 1;
  uint64_t tree = fs_output_tree(node);
  const struct fs_known way = {.dir = dir, .tree = tree, .name = name, .len = len};
  uint32_t known = last ? 0 : fs_output_known_dir(&way);
  if (known != 0) {
    w->entry = known;
    return 0;
  }
  fs_err err = fs_output_look_up(dir, name, len, &a, &r);
  if (err != 0) return err == -ENOENT ? 1 : err;
  return enter_record(w, node, dir, name, len, tree, r);
}

#define NOT_TAKEN 2

/* Looks for the record of a name that the dataset has. Returns NOT_TAKEN if there is none, and 1 if
   the name was removed, or making it shall find what it is. */
static int step_recorded(struct walk *w, const char *name, size_t len) {
  struct fs_answer a;
  const struct fs_record *r;
  const struct fs_node *node = fs_names_node();
  uint64_t dir = node == NULL ? 0 : fs_output_dir_id(w->mount, w->entry);
  if (dir == 0) return NOT_TAKEN;
  uint64_t tree = fs_output_tree(node);
  fs_err err = fs_output_find(dir, name, len, &a, &r);
  if (err != 0) return err == -ENOENT ? NOT_TAKEN : err;
  if (fs_is_whiteout(r) || (at_end(w->ahead) && (w->flags & FS_MAKE))) return 1;
  return enter_record(w, node, dir, name, len, tree, r);
}

/* Decides whether an output has the name of the dataset's entry e, with number `child`. For a call
   that changes the file, the file becomes an output first. If the caller may not open it for
   writing, it does not. Returns NOT_TAKEN, or what step_output does. */
static __attribute__((noinline)) int step_taken(struct walk *w, const char *name, size_t len, const struct fs_entry *e,
                                                uint32_t child) {
  int r = fs_overlay_maybe(w->mount, w->entry, name, len) ? step_recorded(w, name, len) : NOT_TAKEN;
  if (r != NOT_TAKEN || !(w->flags & FS_CHANGES) || w->ahead[0] != '\0') return r;
  if ((S_ISLNK(e->mode) && follow(w)) || !fs_overlay_on()) return r;
  if ((w->flags & (FS_WRITES | FS_EMPTIES)) && !(e->mode & S_IWUSR) && !fs_caller_is_root()) return r;
  /* The open may yet be refused, if it is for reading too. */
  bool reads = (e->mode & S_IRUSR) || fs_caller_is_root();
  fs_err err =
      fs_overlay_copy_up(w->mount, w->entry, child, name, len, reads ? w->flags : w->flags & ~(unsigned)FS_EMPTIES);
  if (err == 0) r = step_recorded(w, name, len);
  return err != 0 ? err : r == NOT_TAKEN ? -EIO : r;
}

/* Ends the walk at the real path of the last name, if it is one of this node. Returns 1 if it
   is. */
static __attribute__((noinline)) int step_node_local(struct walk *w, const char *name, size_t len, int64_t child) {
  const struct fs_entry *e = child < 0 ? NULL : fs_index_entry(w->ix, (uint64_t)child);
  int r = fs_nl_find(w->mount, w->entry, name, len, e, (uint32_t)child, w->flags, w->real);
  if (r != 1) return r;
  w->found->mount = w->mount;
  w->found->entry = w->entry;
  w->below = false;
  w->real_len = strlen(w->real);
  return 1;
}

static int step_child(struct walk *w, const char *name, size_t len) {
  bool out = fs_is_output(w->entry);
  int64_t child = out ? -ENOENT : fs_index_child(w->ix, w->entry, name, len);
  if (at_end(w->ahead) && fs_nl_maybe(w->flags)) {
    int r = step_node_local(w, name, len, child);
    if (r != 0) return r < 0 ? r : 0;
  }
  if (out) return step_output(w, name, len);
  if (child == -ENOENT) {
    int r = fs_mount_list[w->mount].outer ? step_to_mount(w, name, len, true) : 1;
    return r == 1 ? step_output(w, name, len) : r;
  }
  if (child < 0) return (int)child;
  const struct fs_entry *e = w->ix == NULL ? NULL : fs_index_entry(w->ix, (uint64_t)child);
  if (e == NULL) return -EUCLEAN;
  if (FS_UNLIKELY(fs_overlay_any() || (w->flags & FS_CHANGES) != 0) && !S_ISDIR(e->mode)) {
    int r = step_taken(w, name, len, e, (uint32_t)child);
    if (r != NOT_TAKEN) return r;
  }
  if (S_ISLNK(e->mode) && follow(w)) {
    const char *target;
    uint64_t n;
    fs_err err = fs_index_target(w->ix, e, &target, &n);
    return err != 0 ? err : expand(w, target, n);
  }
  w->entry = (uint32_t)child;
  return 0;
}

/* Takes one step in a dataset or a virtual directory. Returns 1 if the name is missing or is not to
   be looked at. */
static int step_below(struct walk *w, const char *name, size_t len) {
  fs_err err = check_search(w);
  if (err != 0) return err;
  bool last = (w->flags & FS_PARENT) && at_end(w->ahead);
  if (last && is_dots(name, len)) return 1;
  /* Also for a caller that makes, removes or renames the name. */
  if (len > FS_NAME_MAX) return -ENAMETOOLONG;
  if (fs_is_vdir(w->entry)) return step_vdir(w, name, len);
  if (is_dots(name, len)) {
    if (fs_is_output(w->entry)) return enter_mount(w, w->mount, fs_output_up(w->mount, w->entry));
    if (w->entry == FS_ROOT) return leave_mount(w);
    w->entry = fs_index_entry(w->ix, w->entry)->parent;
    return 0;
  }
  if (fs_mount_list[w->mount].outer && !fs_is_output(w->entry)) {
    int r = step_to_mount(w, name, len, false);
    if (r <= 0) return r;
  }
  return last ? 1 : step_child(w, name, len);
}

/* Ends a walk in the real file system. */
static int finish_real(struct walk *w, bool slash) {
  if (!w->entered) return FS_OUTSIDE;
  if (w->real_len == 0 || slash) {
    if (w->real_len + 2 > PATH_MAX) return -ENAMETOOLONG;
    memcpy(w->real + w->real_len, "/", 2);
  }
  return FS_REDIRECT;
}

/* Ends a walk at a record that is no directory. */
static int finish_record(struct walk *w, bool slash, struct fs_found *f) {
  if (slash && !(w->flags & FS_AS_IS)) return -ENOTDIR;
  f->mount = w->mount;
  f->entry = w->parent;
  return fs_output_found(f, w->flags);
}

static int finish(struct walk *w, bool slash, struct fs_found *f) {
  if (!w->below) return finish_real(w, slash);
  if (w->entry == FS_OUTPUT_RECORD) return finish_record(w, slash, f);
  if (!fs_is_vdir(w->entry) && !fs_is_output(w->entry)) {
    const struct fs_entry *e = w->ix == NULL ? NULL : fs_index_entry(w->ix, w->entry);
    if (e == NULL) return -EUCLEAN;
    if (slash && !S_ISDIR(e->mode) && !(w->flags & FS_AS_IS)) return -ENOTDIR;
  }
  if (!fs_is_output(w->entry)) f->out.id = 0;
  f->mount = w->mount;
  f->entry = w->entry;
  return FS_IN;
}

static int missing(const struct walk *w, struct fs_found *f) {
  if (!at_end(w->ahead)) return -ENOENT;
  f->mount = w->mount;
  f->entry = w->entry;
  return FS_NEW;
}

static enum fs_last kind_of_last(const char *name, size_t len, const char *rest) {
  if (is_dots(name, len)) return FS_LAST_DOTDOT;
  return len == 1 && name[0] == '.' ? FS_LAST_DOT : *rest == '/' ? FS_LAST_SLASH : FS_LAST_NAME;
}

/* The walk has come below a mount. If it went the way to the path's last directory lately, it goes
   there at once. */
static void begin_way(struct walk *w) {
  w->way.name = w->ahead;
  if (!atomic_load_explicit(&any_output, memory_order_relaxed) || fs_is_vdir(w->entry)) return;
  if (fs_mount_list[w->mount].outer && !fs_is_output(w->entry)) return;
  const char *end = strrchr(w->ahead, '/');
  const struct fs_node *node = fs_names_node();
  uint64_t dir = fs_output_dir_id(w->mount, w->entry);
  if (node == NULL || dir == 0 || end == NULL || end == w->ahead || end[1] == '\0') return;
  w->way = (struct fs_known){.dir = dir,
                             .tree = fs_output_tree(node),
                             .name = w->ahead,
                             .len = (size_t)(end - w->ahead),
                             .as = fs_caller_is_root() ? FS_KNOWN_AS_ROOT : FS_KNOWN_AS_OTHER};
  uint32_t known = fs_output_known_dir(&w->way);
  if (known == 0) return;
  w->way.len = 0;
  w->entry = known;
  w->ahead += end - w->way.name;
}

/* The walk is at the end of its way. It went by the names of directories only. */
static void end_way(struct walk *w) {
  const struct fs_node *node = fs_names_node();
  if (node != NULL && w->below && fs_is_output(w->entry) && w->entry != FS_OUTPUT_RECORD)
    fs_output_note_dir(node, &w->way, w->entry);
  w->way.len = 0;
}

static int run(struct walk *w, struct fs_found *f) {
  bool slash = false;
  fs_err err = w->below ? 0 : enter_if_mount(w);
  f->last = FS_LAST_SLASH;
  while (err == 0) {
    if (w->below && w->way.name == NULL) begin_way(w);
    if (w->way.len > 0 && w->ahead == w->way.name + w->way.len) end_way(w);
    char *name = past_slashes(w->ahead);
    slash = slash || name != w->ahead;
    size_t len = (size_t)(strchrnul(name, '/') - name);
    if (len == 0) return finish(w, slash, f);
    w->ahead = name + len;
    f->out.id = 0;
    f->name_len = (uint32_t)FS_MIN(len, FS_NAME_MAX); /* step_below refuses longer names */
    memcpy(f->name, name, f->name_len);
    f->last = kind_of_last(name, len, w->ahead);
    if (f->last == FS_LAST_DOTDOT) w->way.len = 0;
    slash = f->last == FS_LAST_DOT; /* "x/." is a directory or an error, as "x/" is */
    if (slash) {
      err = w->below ? check_search(w) : 0;
      if (err == 0 && w->below && (w->flags & FS_PARENT) && at_end(w->ahead)) return missing(w, f);
    } else if (!w->below) {
      err = step_real(w, name, len);
    } else {
      int r = step_below(w, name, len);
      if (r == 1) return missing(w, f);
      err = r;
    }
  }
  return err;
}

static void start(struct walk *w, unsigned flags, struct fs_found *f) {
  w->flags = flags;
  w->found = f;
  f->out.id = 0;
  w->links = 0;
  w->parent = FS_ROOT;
  w->way = (struct fs_known){0};
  w->below = w->entered = w->climbed = false;
  w->real = f->real;
  w->real_len = 0;
  w->real[0] = '\0';
  w->ahead = w->buf;
}

/* Puts base + "/" + path into the work buffer. */
static fs_err set_ahead(struct walk *w, const char *base, const char *path) {
  size_t base_len = base == NULL ? 0 : strlen(base), len = strlen(path);
  if (len >= PATH_MAX || base_len + 1 + len >= sizeof(w->buf)) return -ENAMETOOLONG;
  if (base_len > 0) memcpy(w->buf, base, base_len), w->buf[base_len++] = '/';
  memcpy(w->buf + base_len, path, len + 1);
  return 0;
}

int fs_walk_text(const char *base, const char *path, unsigned flags, struct fs_found *f) {
  struct walk w;
  for (;;) {
    start(&w, flags, f);
    fs_err err = set_ahead(&w, base, path);
    int route = err != 0 ? err : run(&w, f);
    if (route == FS_OUTSIDE || !w.climbed) return route;
    flags |= FS_REAL_LINKS;
  }
}

int fs_walk_below(uint32_t mount, uint32_t entry, const char *path, unsigned flags, struct fs_found *f) {
  struct walk w;
  start(&w, flags, f);
  fs_err err = set_ahead(&w, NULL, path);
  if (err == 0) err = enter_mount(&w, mount, entry);
  return err != 0 ? err : run(&w, f);
}
