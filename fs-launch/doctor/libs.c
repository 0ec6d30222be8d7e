/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the libraries that a program would load, in the order of ld.so: RPATH of the file and of
 * those that need it, LD_LIBRARY_PATH, RUNPATH, /etc/ld.so.cache, the default directories. Runs
 * nothing. Called by doctor.c and command.c (doctor.h).
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor.h"
#include "util/util.h"

#if defined(__aarch64__)
#define FS_TRIPLET "aarch64-linux-gnu"
#define FS_PLATFORM "aarch64"
#define FS_CACHE_KIND 0x0a03
#elif defined(__powerpc64__)
#define FS_TRIPLET "powerpc64le-linux-gnu"
#define FS_PLATFORM "power8"
#define FS_CACHE_KIND 0x0503
#else
#define FS_TRIPLET "x86_64-linux-gnu"
#define FS_PLATFORM "x86_64"
#define FS_CACHE_KIND 0x0303
#endif

#define FS_OBJECTS_MAX 4096u /* of one program */

/* ---- objects ---- */

static fs_err object_map(struct fs_object *o, int fd, const struct stat *st) {
  uint8_t magic[SELFMAG];
  if (st->st_size < (off_t)sizeof(Elf32_Ehdr)) return -ENOEXEC;
  if (pread(fd, magic, sizeof(magic), 0) != sizeof(magic) || memcmp(magic, ELFMAG, SELFMAG) != 0) return -ENOEXEC;
  o->size = (uint64_t)st->st_size;
  o->map = mmap(NULL, o->size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (o->map == MAP_FAILED) return -errno;
  fs_err err = fs_elf_attach(&o->elf, o->map, o->size);
  if (err < 0) munmap(o->map, o->size);
  return err;
}

static void object_free(struct fs_object *o) {
  free(o->real);
  free(o->path);
  free(o);
}

fs_err fs_object_open(struct fs_doctor *d, const char *path, const struct fs_object *parent, struct fs_object **out) {
  struct stat st;
  *out = NULL;
  FS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 || fstat(fd, &st) < 0) return -errno;
  if (!S_ISREG(st.st_mode)) return S_ISDIR(st.st_mode) ? -EISDIR : -ENOEXEC;
  struct fs_object **bucket = &d->hash[st.st_ino % FS_OBJECT_HASH];
  for (const struct fs_object *o = *bucket; o; o = o->hash_next)
    if (o->dev == st.st_dev && o->ino == st.st_ino) return 0;
  struct fs_object *o = calloc(1, sizeof(*o));
  if (!o || !(o->path = strdup(path))) {
    free(o);
    return -ENOMEM;
  }
  fs_err err = object_map(o, fd, &st);
  if (err < 0) {
    object_free(o);
    return err;
  }
  o->parent = parent;
  o->real = parent ? NULL : realpath(path, NULL);
  o->dev = st.st_dev;
  o->ino = st.st_ino;
  o->mode = st.st_mode;
  o->uid = st.st_uid;
  o->gid = st.st_gid;
  o->hash_next = *bucket;
  *bucket = o;
  if (!d->last) d->last = &d->first;
  *d->last = o;
  d->last = &o->next;
  d->objects++;
  *out = o;
  return 0;
}

void fs_object_done(struct fs_object *o) {
  if (o->map) munmap(o->map, o->size);
  o->map = NULL;
  o->elf = (struct fs_elf){.data = NULL};
}

void fs_objects_free(struct fs_doctor *d) {
  for (struct fs_object *o = d->first, *next; o; o = next) {
    next = o->next;
    fs_object_done(o);
    object_free(o);
  }
  *d = (struct fs_doctor){.first = NULL};
}

bool fs_object_is_libc(const struct fs_object *o) {
  static const char *const names[] = {"ld-linux",     "ld64.so.2", "libc.so.6",      "libpthread.so.0", "libdl.so.2",
                                      "librt.so.1",   "libm.so.6", "libresolv.so.2", "libutil.so.1",    "libanl.so",
                                      "libmvec.so.1", "libnss_",   "libthread_db.so"};
  const char *slash = strrchr(o->path, '/'), *name = o->elf.soname ? o->elf.soname : slash ? slash + 1 : o->path;
  for (size_t i = 0; i < FS_ARRAY_LEN(names); i++)
    if (strncmp(name, names[i], strlen(names[i])) == 0) return true;
  return false;
}

/* ---- the search ---- */

struct search {
  const struct fs_object *from;
  const char *name;
  char path[PATH_MAX]; /* path of the library that was found */
};

/* Returns true if the file is of this machine's kind. The loader skips others. */
static bool fits(const char *path) {
  uint8_t head[20];
  FS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  return fd >= 0 && pread(fd, head, sizeof(head), 0) == sizeof(head) && memcmp(head, ELFMAG, SELFMAG) == 0 &&
         head[EI_CLASS] == ELFCLASS64 && (head[18] | head[19] << 8) == FS_ELF_MACHINE;
}

/* Returns the value of a token "$NAME" or "${NAME}" at text, with the value's length and the
   token's length. */
static const char *token_at(const struct fs_object *from, const char *text, size_t n, size_t *len, size_t *took) {
  static const char *const names[] = {"ORIGIN", "LIB", "PLATFORM"};
  static const char *const values[] = {NULL, "lib/" FS_TRIPLET, FS_PLATFORM};
  const char *path = from->real ? from->real : from->path, *slash = strrchr(path, '/');
  size_t brace = n > 1 && text[1] == '{';
  for (size_t k = 0; n > 0 && text[0] == '$' && k < FS_ARRAY_LEN(names); k++) {
    size_t name = strlen(names[k]);
    *took = 1 + name + 2 * brace;
    if (*took > n || strncmp(text + 1 + brace, names[k], name) != 0 || (brace && text[*took - 1] != '}')) continue;
    const char *value = k > 0 ? values[k] : slash ? path : ".";
    *len = k > 0 ? strlen(value) : slash ? (size_t)(slash - path) : 1;
    return value;
  }
  return NULL;
}

/* Writes a path with its tokens replaced. */
static bool expand(const struct fs_object *from, const char *text, size_t n, char *out, size_t size) {
  size_t at = 0;
  for (size_t i = 0, len, took; i < n; i += took) {
    const char *value = token_at(from, text + i, n - i, &len, &took);
    if (!value) {
      value = text + i;
      len = took = 1;
    }
    if (at + len + 1 > size) return false;
    memcpy(out + at, value, len);
    at += len;
  }
  out[at] = '\0';
  return true;
}

static bool in_directory(struct search *s, const char *dir, size_t n) {
  char expanded[PATH_MAX];
  if (n == 0) return false;
  if (!expand(s->from, dir, n, expanded, sizeof(expanded))) return false;
  int len = snprintf(s->path, sizeof(s->path), "%s/%s", expanded, s->name);
  return len > 0 && (size_t)len < sizeof(s->path) && fits(s->path);
}

static bool in_list(struct search *s, const char *list) {
  for (size_t n; list && *list; list += n + (list[n] != '\0')) {
    n = strcspn(list, ":;");
    if (in_directory(s, list, n)) return true;
  }
  return false;
}

/* Searches the RPATHs of the file and of those that led to it. A file's RUNPATH disables its own
   RPATH. */
static bool in_rpaths(struct search *s) {
  const struct fs_object *from = s->from;
  bool found = false;
  for (const struct fs_object *o = from; o && !from->elf.runpath && !found; o = o->parent) {
    s->from = o; /* $ORIGIN */
    found = !o->elf.runpath && in_list(s, o->elf.rpath);
  }
  s->from = from;
  return found;
}

/* ---- /etc/ld.so.cache ---- */

#define FS_CACHE_MAGIC_TEXT "glibc-ld.so.cache1.1"

struct cache_header {
  char magic[20];
  uint32_t count, strings;
  uint32_t unused[5];
};
struct cache_entry {
  int32_t flags;
  uint32_t key, value, version;
  uint64_t hwcap;
};
static_assert(sizeof(struct cache_header) == 48 && sizeof(struct cache_entry) == 24, "as ldconfig writes it");

static const struct cache_header *cache_map(uint64_t *size) {
  static const struct cache_header *cache;
  static uint64_t bytes;
  static bool tried;
  struct stat st;
  if (!tried) {
    tried = true;
    FS_AUTO_CLOSE int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_size >= sizeof(*cache)) {
      void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
      bool ours = p != MAP_FAILED && memcmp(p, FS_CACHE_MAGIC_TEXT, sizeof(cache->magic)) == 0;
      cache = ours ? p : NULL;
      bytes = (uint64_t)st.st_size;
    }
  }
  *size = bytes;
  return cache;
}

static const char *cache_text(const struct cache_header *c, uint64_t size, uint32_t off) {
  const char *base = (const char *)c;
  return off < size && memchr(base + off, '\0', size - off) ? base + off : NULL;
}

static bool in_cache(struct search *s) {
  uint64_t size;
  const struct cache_header *c = cache_map(&size);
  const struct cache_entry *e = (const struct cache_entry *)(c + 1);
  uint64_t count = c ? FS_MIN(c->count, (size - sizeof(*c)) / sizeof(*e)) : 0;
  for (uint64_t i = 0; i < count; i++) {
    const char *key = cache_text(c, size, e[i].key), *value = cache_text(c, size, e[i].value);
    if (!key || !value || e[i].flags != FS_CACHE_KIND || e[i].hwcap != 0 || strcmp(key, s->name) != 0) continue;
    int len = snprintf(s->path, sizeof(s->path), "%s", value);
    if (len > 0 && (size_t)len < sizeof(s->path) && fits(s->path)) return true;
  }
  return false;
}

static bool search(struct search *s) {
  static const char defaults[] = "/lib/" FS_TRIPLET ":/usr/lib/" FS_TRIPLET ":/lib64:/usr/lib64:/lib:/usr/lib";
  if (strchr(s->name, '/')) return expand(s->from, s->name, strlen(s->name), s->path, sizeof(s->path)) && fits(s->path);
  return in_rpaths(s) || in_list(s, getenv("LD_LIBRARY_PATH")) || in_list(s, s->from->elf.runpath) || in_cache(s) ||
         in_list(s, defaults);
}

/* Returns true if a library of this name is loaded already: then there is no search. */
static bool loaded(const struct fs_doctor *d, const char *name) {
  for (const struct fs_object *o = d->first; o; o = o->next)
    if (o->elf.soname && strcmp(o->elf.soname, name) == 0) return true;
  return false;
}

static void need(struct fs_doctor *d, const struct fs_object *from, const char *name) {
  struct search s = {.from = from, .name = name};
  struct fs_object *o;
  if (loaded(d, name)) return;
  if (!search(&s) || fs_object_open(d, s.path, from, &o) < 0) {
    fs_doctor_tell(d, FS_NOTE, from->path, "needs %s, which is not found; the program may not start", name);
    return;
  }
  if (o) fs_doctor_object(d, o);
}

void fs_object_closure(struct fs_doctor *d, struct fs_object *o) {
  unsigned most = d->objects + FS_OBJECTS_MAX;
  for (; o && d->objects < most; o = o->next) {
    uint64_t cursor = 0;
    for (const char *name; (name = fs_elf_needed(&o->elf, &cursor)) != NULL;) need(d, o, name);
  }
}
