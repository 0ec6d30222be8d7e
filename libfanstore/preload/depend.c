/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a library stored in a dataset needs: the loader, which gets a real copy of it, looks for the libraries beside it
 * without us. So those that lie below a mount are loaded first; the loader then finds them by their names among what is
 * loaded. Called before dlopen. Reads ELF files of 64 bits as they are; whatever is odd in one is left to the loader,
 * which says what is wrong.
 */
#include <elf.h>
#include <stdlib.h>

#include "preload/exec.h"
#include "preload/preload.h"

/* Libraries that need libraries; each level has a few paths on the stack. And all together, for those that cannot be
   loaded and are needed again and again. */
#define FS_DEPEND_DEPTH 8
#define FS_DEPEND_ALL 256
#define FS_NEEDED_MAX 64
#define FS_DYNAMIC_MAX 256
#define FS_PROGRAM_MAX 32
#define FS_SONAME_MAX 256

struct library {
  struct fs_found f;
  Elf64_Phdr program[FS_PROGRAM_MAX];
  uint32_t programs;
  uint64_t strings, strings_size; /* where the names are: in the file */
  uint64_t needed[FS_NEEDED_MAX]; /* in the names */
  uint32_t needs;
  uint64_t runpath; /* in the names; 0: none */
};

static bool read_at(const struct library *l, void *buf, size_t n, uint64_t off) {
  if (off > INT64_MAX) return false;
  return fs_data_read(l->f.mount, l->f.entry, buf, n, off, NULL) == (fs_ssize)n;
}

static bool read_header(struct library *l) {
  Elf64_Ehdr h;
  if (!read_at(l, &h, sizeof(h), 0) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0) return false;
  if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_type != ET_DYN || h.e_phentsize != sizeof(Elf64_Phdr)) return false;
  if (h.e_phnum > FS_PROGRAM_MAX) return false;
  l->programs = h.e_phnum;
  return read_at(l, l->program, l->programs * sizeof(Elf64_Phdr), h.e_phoff);
}

/* The place in the file of an address. 0: none. */
static uint64_t file_offset(const struct library *l, uint64_t address) {
  for (uint32_t i = 0; i < l->programs; i++) {
    const Elf64_Phdr *p = &l->program[i];
    if (p->p_type == PT_LOAD && address >= p->p_vaddr && address - p->p_vaddr < p->p_filesz)
      return p->p_offset + (address - p->p_vaddr);
  }
  return 0;
}

static void take(struct library *l, const Elf64_Dyn *d) {
  if (d->d_tag == DT_NEEDED && l->needs < FS_NEEDED_MAX) l->needed[l->needs++] = d->d_un.d_val;
  if (d->d_tag == DT_STRTAB) l->strings = file_offset(l, d->d_un.d_ptr);
  if (d->d_tag == DT_STRSZ) l->strings_size = d->d_un.d_val;
  if (d->d_tag == DT_RUNPATH || (d->d_tag == DT_RPATH && l->runpath == 0)) l->runpath = d->d_un.d_val;
}

static bool read_dynamic(struct library *l) {
  Elf64_Dyn d;
  for (uint32_t i = 0; i < l->programs; i++) {
    if (l->program[i].p_type != PT_DYNAMIC) continue;
    for (uint64_t at = 0; at < FS_DYNAMIC_MAX; at++) {
      if (!read_at(l, &d, sizeof(d), l->program[i].p_offset + at * sizeof(d))) return false;
      if (d.d_tag == DT_NULL) return l->strings != 0;
      take(l, &d);
    }
  }
  return false;
}

/* A name of the string table. False for one that is not in it, or longer than `size`. */
static bool read_name(const struct library *l, uint64_t at, char *out, size_t size) {
  if (at >= l->strings_size) return false;
  size_t n = (size_t)FS_MIN(size, l->strings_size - at);
  fs_ssize r = fs_data_read(l->f.mount, l->f.entry, out, n, l->strings + at, NULL);
  return r > 0 && memchr(out, '\0', (size_t)r) != NULL;
}

/* Puts dir (of len bytes), with $ORIGIN in its place, and the name behind it. */
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

/* Looks for the name in a list of directories: the first that has it, when that lies below a mount. */
static bool find_in(const char *list, const char *origin, const char *name, char *out) {
  for (const char *dir = list; dir != NULL && *dir != '\0';) {
    size_t len = strcspn(dir, ":;");
    bool found = join(out, dir, len, origin, name) && access(out, R_OK) == 0;
    if (found) return !fs_path_out(AT_FDCWD, out);
    dir = dir[len] == '\0' ? NULL : dir + len + 1;
  }
  return false;
}

static bool is_loaded(const char *name) {
  void *handle = FS_REAL(dlopen)(name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle != NULL) dlclose(handle);
  return handle != NULL;
}

/* How far a search has come. */
struct search {
  int depth, loads;
};

static void load_needed(const char *path, struct search *s);

/* It stays loaded. */
static void load(const char *path, struct search *s) {
  char real[FS_REAL_COPY];
  if (s->depth == FS_DEPEND_DEPTH || s->loads >= FS_DEPEND_ALL) return;
  s->loads++;
  s->depth++;
  load_needed(path, s);
  s->depth--;
  const char *copy = fs_real_copy(path, real);
  if (copy == real) FS_REAL(dlopen)(copy, RTLD_LAZY);
}

static void load_one(const struct library *l, const char *path, const char *name, struct search *s) {
  char runpath[PATH_MAX] = "", origin[PATH_MAX], out[PATH_MAX];
  const char *slash = strrchr(path, '/');
  if (strchr(name, '/') != NULL || is_loaded(name)) return;
  size_t n = slash == NULL ? 1 : FS_MAX((size_t)(slash - path), 1);
  if (n >= sizeof(origin)) return;
  memcpy(origin, slash == NULL ? "." : path, n);
  origin[n] = '\0';
  if (l->runpath != 0 && !read_name(l, l->runpath, runpath, sizeof(runpath))) return;
  if (find_in(getenv("LD_LIBRARY_PATH"), origin, name, out) || find_in(runpath, origin, name, out)) load(out, s);
}

static void load_needed(const char *path, struct search *s) {
  struct library l = {0};
  char name[FS_SONAME_MAX];
  if (fs_path_route(AT_FDCWD, path, 0, &l.f) != FS_IN) return;
  if (!read_header(&l) || !read_dynamic(&l)) return;
  for (uint32_t i = 0; i < l.needs && s->loads < FS_DEPEND_ALL; i++)
    if (read_name(&l, l.needed[i], name, sizeof(name))) load_one(&l, path, name, s);
}

const char *fs_library_path(const char *file, char found[PATH_MAX]) {
  if (file == NULL || file[0] == '\0' || fs_mount_count() == 0) return file;
  if (strchr(file, '/') == NULL) {
    if (!find_in(getenv("LD_LIBRARY_PATH"), ".", file, found) || is_loaded(file)) return file;
    file = found;
  }
  struct search s = {0};
  if (!fs_path_out(AT_FDCWD, file)) load_needed(file, &s);
  return file;
}
