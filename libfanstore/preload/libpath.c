/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The libraries below a mount that a program needs when it starts. The dynamic linker looks for
 * them before any preloaded library runs. So they get shadows before the exec
 * (client/real/shadow.h), and LD_LIBRARY_PATH gets the shadows' directories. The search is the
 * linker's: LD_LIBRARY_PATH, then DT_RUNPATH or DT_RPATH. environ.c calls this, also in a vfork
 * child and in threads with small stacks. So memory comes from mmap and is given back before the
 * exec.
 */
#include <stdlib.h>

#include "client/real/shadow.h"
#include "preload/depend.h"
#include "preload/environ.h"
#include "preload/preload.h"

#define FS_EXEC_LIBRARIES 64

struct walk {
  const char *list; /* LD_LIBRARY_PATH */
  struct fs_library l;
  uint32_t n, names;
  char path[FS_EXEC_LIBRARIES][PATH_MAX]; /* below a mount; the first is the program's */
  char name[FS_EXEC_LIBRARIES][FS_SONAME_MAX];
  char origin[PATH_MAX], runpath[PATH_MAX], rpath[PATH_MAX], rpath_origin[PATH_MAX];
  char found[PATH_MAX], shadow[PATH_MAX];
  char by_runpath[FS_PATHS_MAX]; /* shadows of directories, each with a ':' before it */
};

static void *map(size_t n) {
  void *p = fs_sys_mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return fs_sys_mmap_failed(p) ? NULL : p;
}

/* Adds dir to a list, after a separator. */
static void add(char *value, const char *dir, size_t len) {
  size_t n = strlen(value);
  if (n + len + 2 > FS_PATHS_MAX) return;
  if (n > 0) value[n++] = ':';
  memcpy(value + n, dir, len);
  value[n + len] = '\0';
}

static bool has(const char *value, const char *dir) {
  size_t len = strlen(dir);
  for (const char *at = value; (at = strstr(at, dir)) != NULL; at++)
    if ((at == value || at[-1] == ':') && (at[len] == ':' || at[len] == '\0')) return true;
  return false;
}

/* Returns whether the directory at the begin of a list lies below a mount. */
static bool below_mount(const char *dir, size_t len, const char *origin) {
  char path[PATH_MAX];
  if (len == 0 || len >= sizeof(path)) return false;
  if (dir[0] == '$') return !fs_path_outside(AT_FDCWD, origin);
  memcpy(path, dir, len);
  path[len] = '\0';
  return !fs_path_outside(AT_FDCWD, path);
}

static bool meets_mount(const char *list, const char *origin) {
  for (const char *dir = list; dir != NULL && *dir != '\0';) {
    size_t len = strcspn(dir, ":;");
    if (below_mount(dir, len, origin)) return true;
    dir = dir[len] == '\0' ? NULL : dir + len + 1;
  }
  return false;
}

static bool is_new(struct walk *w, const char *name) {
  for (uint32_t i = 0; i < w->names; i++)
    if (strcmp(w->name[i], name) == 0) return false;
  if (w->names < FS_EXEC_LIBRARIES) strcpy(w->name[w->names++], name);
  return true;
}

/* Finds where the linker would find the library. Returns 1 if by LD_LIBRARY_PATH, 2 if in another
   way, 0 if not below a mount. */
static int find(struct walk *w, const char *name) {
  if (fs_library_find(w->list, w->origin, name, w->found)) return 1;
  if (fs_library_find(w->runpath, w->origin, name, w->found)) return 2;
  return !w->l.has_runpath && fs_library_find(w->rpath, w->rpath_origin, name, w->found) ? 2 : 0;
}

static void take(struct walk *w, const char *name) {
  if (strchr(name, '/') != NULL || !is_new(w, name)) return;
  int how = find(w, name);
  if (how == 0 || fs_library_shadow(w->found, w->shadow) != 0) return;
  char *slash = strrchr(w->shadow, '/');
  *slash = '\0';
  if (how == 2 && !has(w->by_runpath, w->shadow)) add(w->by_runpath, w->shadow, strlen(w->shadow));
  if (w->n < FS_EXEC_LIBRARIES) strcpy(w->path[w->n++], w->found);
}

static void read_run_path(struct walk *w) {
  w->runpath[0] = '\0';
  if (w->l.runpath != 0 && !fs_library_name(&w->l, w->l.runpath, w->runpath, sizeof(w->runpath))) w->runpath[0] = '\0';
}

static void take_needed(struct walk *w) {
  char name[FS_SONAME_MAX];
  for (uint32_t i = 0; i < w->l.needs; i++)
    if (fs_library_name(&w->l, w->l.needed[i], name, sizeof(name))) take(w, name);
}

static void walk(struct walk *w) {
  take_needed(w);
  if (!w->l.has_runpath) {
    strcpy(w->rpath, w->runpath);
    strcpy(w->rpath_origin, w->origin);
  }
  for (uint32_t i = 0; i < w->n; i++) {
    fs_library_close(&w->l);
    if (!fs_library_origin(w->path[i], w->origin) || !fs_library_open(&w->l, AT_FDCWD, w->path[i])) continue;
    read_run_path(w);
    take_needed(w);
  }
}

/* Writes LD_LIBRARY_PATH's directories, each one below a mount with its shadow behind it, and then
   the other shadows. */
static bool compose(struct walk *w, char *value) {
  bool any = w->by_runpath[0] != '\0';
  for (const char *dir = w->list; dir != NULL && *dir != '\0';) {
    size_t len = strcspn(dir, ":;");
    if (!fs_is_shadow(dir, len)) add(value, dir, len);
    if (dir[0] != '$' && below_mount(dir, len, "/")) {
      memcpy(w->found, dir, len);
      w->found[len] = '\0';
      if (fs_shadow_name(w->found, w->shadow) == 0) {
        add(value, w->shadow, strlen(w->shadow));
        any = true;
      }
    }
    dir = dir[len] == '\0' ? NULL : dir + len + 1;
  }
  if (w->by_runpath[0] != '\0') add(value, w->by_runpath, strlen(w->by_runpath));
  return any;
}

/* Begins with the program that is started. Returns NULL if nothing of it lies below a mount. */
static struct walk *begin(const struct fs_program_start *start) {
  struct walk *w = map(sizeof(*w));
  if (w == NULL) return NULL;
  w->list = fs_program_value(start->envp, "LD_LIBRARY_PATH");
  if (start->name == NULL || !fs_library_origin(start->name, w->origin)) strcpy(w->origin, "/");
  if (fs_library_open(&w->l, start->dirfd, start->path)) {
    read_run_path(w);
    bool any = meets_mount(w->list, "/") || meets_mount(w->runpath, w->origin);
    if (any && fs_shadow_name("/", w->shadow) == 0) return w;
    fs_library_close(&w->l);
  }
  FS_SYS2(SYS_munmap, w, sizeof(*w));
  return NULL;
}

char *fs_library_paths(const struct fs_program_start *start) {
  struct walk *w = begin(start);
  if (w == NULL) return NULL;
  char *value = map(FS_PATHS_MAX);
  walk(w);
  bool any = value != NULL && compose(w, value);
  fs_library_close(&w->l);
  FS_SYS2(SYS_munmap, w, sizeof(*w));
  if (any || value == NULL) return value;
  FS_SYS2(SYS_munmap, value, FS_PATHS_MAX);
  return NULL;
}

bool fs_library_asan(const struct fs_program_start *start) {
  char name[FS_SONAME_MAX];
  bool asan = false;
  struct fs_library *l = map(sizeof(*l));
  if (l == NULL) return true; /* not known */
  if (fs_library_open(l, start->dirfd, start->path)) {
    for (uint32_t i = 0; i < l->needs && !asan; i++)
      asan = fs_library_name(l, l->needed[i], name, sizeof(name)) && strstr(name, "asan") != NULL;
    fs_library_close(l);
  }
  FS_SYS2(SYS_munmap, l, sizeof(*l));
  return asan;
}
