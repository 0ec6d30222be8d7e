/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds what a library below a mount needs. The loader looks for needed libraries without the
 * wrappers. So each one that lies below a mount gets a shadow (client/real/shadow.h), which the
 * loader finds by $ORIGIN. If a library is found in another way, it is loaded first: the loader
 * then finds it by its name among what is loaded. Called before dlopen, and before exec
 * (libpath.c). ELF files of 64 bits are read as they are. The loader handles whatever is odd in
 * one, and reports what is wrong.
 */
#include <elf.h>
#include <link.h>
#include <stdlib.h>

#include "client/real/shadow.h"
#include "preload/depend.h"
#include "preload/exec.h"
#include "preload/preload.h"

/* The limits of a search: libraries that need libraries, where each level has a few paths on the
   stack, and all libraries together, because some cannot be loaded and are needed again and
   again. */
#define FS_DEPEND_DEPTH 8
#define FS_DEPEND_ALL 256
#define FS_DYNAMIC_MAX 256
#define FS_DYNAMIC_AT_ONCE 32
/* How many libraries stay loaded until the thread's next dlopen. */
#define FS_PINNED 32

static bool read_at(const struct fs_library *l, void *buf, size_t n, uint64_t off) {
  if (off > INT64_MAX) return false;
  if (l->fd >= 0) return fs_sys_pread(l->fd, buf, n, off) == (fs_ssize)n;
  return fs_data_read(l->f.mount, l->f.entry, buf, n, off, NULL) == (fs_ssize)n;
}

static bool read_header(struct fs_library *l) {
  Elf64_Ehdr h;
  if (!read_at(l, &h, sizeof(h), 0) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0) return false;
  if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_phentsize != sizeof(Elf64_Phdr)) return false;
  if (h.e_type != ET_DYN && h.e_type != ET_EXEC) return false;
  if (h.e_phnum > FS_LIBRARY_SEGMENTS) return false;
  l->programs = h.e_phnum;
  return read_at(l, l->program, l->programs * sizeof(Elf64_Phdr), h.e_phoff);
}

/* Returns the place of an address in the file, or 0 if there is none. */
static uint64_t file_offset(const struct fs_library *l, uint64_t address) {
  for (uint32_t i = 0; i < l->programs; i++) {
    const Elf64_Phdr *p = &l->program[i];
    if (p->p_type == PT_LOAD && address >= p->p_vaddr && address - p->p_vaddr < p->p_filesz)
      return p->p_offset + (address - p->p_vaddr);
  }
  return 0;
}

static void take(struct fs_library *l, const Elf64_Dyn *d) {
  if (d->d_tag == DT_NEEDED && l->needs < FS_NEEDED_MAX) l->needed[l->needs++] = d->d_un.d_val;
  if (d->d_tag == DT_STRTAB) l->strings = file_offset(l, d->d_un.d_ptr);
  if (d->d_tag == DT_STRSZ) l->strings_size = d->d_un.d_val;
  if (d->d_tag == DT_RUNPATH || (d->d_tag == DT_RPATH && !l->has_runpath)) l->runpath = d->d_un.d_val;
  if (d->d_tag == DT_RUNPATH) l->has_runpath = true;
}

static bool read_dynamic(struct fs_library *l) {
  Elf64_Dyn d[FS_DYNAMIC_AT_ONCE];
  for (uint32_t i = 0; i < l->programs; i++) {
    if (l->program[i].p_type != PT_DYNAMIC) continue;
    size_t n = (size_t)FS_MIN(l->program[i].p_filesz / sizeof(*d), FS_DYNAMIC_MAX);
    for (size_t at = 0, k = 0; at < n; at++, k = at % FS_ARRAY_LEN(d)) {
      size_t more = FS_MIN(n - at, FS_ARRAY_LEN(d));
      if (k == 0 && !read_at(l, d, more * sizeof(*d), l->program[i].p_offset + at * sizeof(*d))) return false;
      if (d[k].d_tag == DT_NULL) break;
      take(l, &d[k]);
    }
    return l->strings != 0;
  }
  return false;
}

/* The name may be outside the table, or longer than `size`: then the call returns false. */
bool fs_library_name(const struct fs_library *l, uint64_t at, char *out, size_t size) {
  if (at >= l->strings_size) return false;
  size_t n = (size_t)FS_MIN(size, l->strings_size - at);
  if (l->strings > INT64_MAX - at) return false;
  fs_ssize r = l->fd >= 0 ? fs_sys_pread(l->fd, out, n, l->strings + at)
                          : fs_data_read(l->f.mount, l->f.entry, out, n, l->strings + at, NULL);
  return r > 0 && memchr(out, '\0', (size_t)r) != NULL;
}

/* Writes dir (of len bytes), with $ORIGIN replaced, and the name behind it. */
static bool join(char *out, const char *dir, size_t len, const char *origin, const char *name) {
  static const char *const words[] = {"$ORIGIN", "${ORIGIN}"};
  size_t skip = 0, n = 0;
  for (size_t i = 0; i < FS_ARRAY_LEN(words); i++)
    if (len >= strlen(words[i]) && strncmp(dir, words[i], strlen(words[i])) == 0) skip = strlen(words[i]);
  if (skip > 0) n = strlen(origin);
  size_t rest = len - skip, last = strlen(name);
  if (len == 0 || n + rest + 1 + last >= PATH_MAX) return false;
  memcpy(out, origin, n);
  memcpy(out + n, dir + skip, rest);
  out[n + rest] = '/';
  memcpy(out + n + rest + 1, name, last + 1);
  return true;
}

bool fs_library_open(struct fs_library *l, int dirfd, const char *path) {
  *l = (struct fs_library){.fd = -1};
  l->route = fs_path_route(dirfd, path, 0, &l->f);
  if (l->route != FS_IN && l->route != FS_OUTSIDE && l->route != FS_REDIRECT) return false;
  const char *real = l->route == FS_REDIRECT ? l->f.real : path;
  if (l->route != FS_IN) l->fd = fs_sys_openat(dirfd, real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
  if ((l->route == FS_IN || l->fd >= 0) && read_header(l) && read_dynamic(l)) return true;
  fs_library_close(l);
  return false;
}

void fs_library_close(struct fs_library *l) {
  if (l->fd >= 0) fs_sys_close(l->fd);
  l->fd = -1;
}

fs_err fs_library_shadow(const char *path, char out[PATH_MAX]) {
  struct fs_found f;
  int route = fs_path_route(AT_FDCWD, path, 0, &f);
  return route == FS_OUTSIDE ? -EOPNOTSUPP : fs_shadow_make(route, &f, path, out);
}

/* Removes a shadow, so that the loader does not find what is gone. */
static void drop_shadow(const char *path) {
  char shadow[PATH_MAX];
  if (!fs_path_outside(AT_FDCWD, path) && fs_shadow_name(path, shadow) == 0) FS_SYS3(SYS_unlinkat, AT_FDCWD, shadow, 0);
}

const char *fs_library_find(const char *list, const char *origin, const char *name, char out[PATH_MAX]) {
  for (const char *dir = list; dir != NULL && *dir != '\0';) {
    size_t len = strcspn(dir, ":;");
    bool joined = join(out, dir, len, origin, name);
    if (joined && access(out, R_OK) == 0) return fs_path_outside(AT_FDCWD, out) ? NULL : dir;
    if (joined) drop_shadow(out);
    dir = dir[len] == '\0' ? NULL : dir + len + 1;
  }
  return NULL;
}

bool fs_library_origin(const char *path, char out[PATH_MAX]) {
  const char *slash = strrchr(path, '/');
  size_t n = slash == NULL ? 1 : FS_MAX((size_t)(slash - path), 1);
  if (n >= PATH_MAX) return false;
  memcpy(out, slash == NULL ? "." : path, n);
  out[n] = '\0';
  return true;
}

/* Keep libraries loaded until the libraries that need them do. */
static FS_TLS void *pinned[FS_PINNED];
static FS_TLS bool searching; /* a constructor of what is loaded meanwhile may call dlopen itself */

static void pin(void *handle) {
  for (int i = 0; i < FS_PINNED && handle != NULL; i++) {
    if (pinned[i] != NULL) continue;
    pinned[i] = handle;
    return;
  }
}

static void unpin_all(void) {
  for (int i = 0; i < FS_PINNED && pinned[i] != NULL; i++) {
    void *handle = pinned[i];
    pinned[i] = NULL;
    dlclose(handle);
  }
}

/* Returns whether a library is loaded. One that lies below a mount stays loaded, because another
   thread may be about to unload it. */
static bool is_loaded(const char *name) {
  struct link_map *map = NULL;
  void *handle = FS_REAL(dlopen)(name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == NULL) return false;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && fs_is_shadow(map->l_name, strlen(map->l_name)))
    pin(handle);
  else
    dlclose(handle);
  return true;
}

/* The progress of a search. */
struct search {
  int depth, loads;
};

static void load_needed(const char *path, struct search *s);

static void load(const char *path, const char *name, bool found_by_loader, struct search *s) {
  char real[FS_REAL_COPY], shadow[PATH_MAX];
  if (s->depth == FS_DEPEND_DEPTH || s->loads >= FS_DEPEND_ALL) return;
  s->loads++;
  s->depth++;
  load_needed(path, s);
  s->depth--;
  if (fs_library_shadow(path, shadow) == 0) {
    void *loaded = found_by_loader ? NULL : fs_library_load_named(shadow, name);
    if (loaded == NULL && !found_by_loader) loaded = FS_REAL(dlopen)(shadow, RTLD_LAZY);
    pin(loaded);
    return;
  }
  const char *copy = fs_real_copy(path, real);
  if (copy == real) pin(FS_REAL(dlopen)(copy, RTLD_LAZY));
}

static void load_one(const struct fs_library *l, const char *path, const char *name, struct search *s) {
  char runpath[PATH_MAX] = "", origin[PATH_MAX], out[PATH_MAX];
  const char *by = NULL;
  if (strchr(name, '/') != NULL || is_loaded(name) || !fs_library_origin(path, origin)) return;
  if (l->runpath != 0 && !fs_library_name(l, l->runpath, runpath, sizeof(runpath))) return;
  if (!fs_library_find(getenv("LD_LIBRARY_PATH"), origin, name, out))
    by = fs_library_find(runpath, origin, name, out);
  else
    by = "";
  if (by != NULL) load(out, name, by[0] == '$', s);
}

static void load_needed(const char *path, struct search *s) {
  struct fs_library l;
  char name[FS_SONAME_MAX];
  if (!fs_library_open(&l, AT_FDCWD, path)) return;
  for (uint32_t i = 0; i < l.needs && s->loads < FS_DEPEND_ALL; i++)
    if (fs_library_name(&l, l.needed[i], name, sizeof(name))) load_one(&l, path, name, s);
  fs_library_close(&l);
}

const char *fs_library_path(const char *file, char found[PATH_MAX]) {
  if (file == NULL || file[0] == '\0' || fs_mount_count() == 0) return file;
  if (!searching) unpin_all();
  if (strchr(file, '/') == NULL) {
    if (!fs_library_find(getenv("LD_LIBRARY_PATH"), ".", file, found) || is_loaded(file)) return file;
    file = found;
  }
  struct search s = {0};
  bool outer = !searching;
  searching = true;
  if (!fs_path_outside(AT_FDCWD, file)) load_needed(file, &s);
  searching = !outer;
  return file;
}
