/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment of a program that is about to be executed (environ.h). The variables that a
 * program gets back are those that this process started with. A program gets them only if it has
 * this process's dynamic linker: another libc's would end at a library that it cannot load. So a
 * process that has changed its root directory gives nothing. A program of musl loses LD_PRELOAD: the
 * libraries in it are this libc's. No locks, no allocation except mmap.
 */
#include "preload/environ.h"

#include <stdlib.h>

#include "client/real/shadow.h"
#include "preload/preload.h"
#include "util/util.h"

#define FS_GIVEN_MAX 32
#define FS_PREFIX "FANSTORE_"
#define FS_LIBRARY_WORD "libfanstore"
#define FS_PRELOAD "LD_PRELOAD"
#define FS_PATHS "LD_LIBRARY_PATH"

/* The constructor writes this. */
static struct {
  const char *item[FS_GIVEN_MAX]; /* "FANSTORE_NAME=value" */
  size_t items;
  const char *library; /* as LD_PRELOAD named it; NULL: it did not */
  bool as_is;
  dev_t root_dev; /* of the root directory */
  ino_t root_ino;
} given;

static bool is_set(const char *value) {
  return value != NULL && value[0] != '\0' && strcmp(value, "0") != 0;
}

static bool names(const char *item, const char *name) {
  size_t n = strlen(name);
  return strncmp(item, name, n) == 0 && item[n] == '=';
}

/* Returns whether the environment has a variable of the same name as this item. */
static bool has_item(char *const envp[], const char *item) {
  size_t n = strcspn(item, "=") + 1;
  for (; envp != NULL && *envp != NULL; envp++)
    if (strncmp(*envp, item, n) == 0) return true;
  return false;
}

/* ---- what this process has ---- */

static char *keep(char **room, const char *text, size_t n) {
  char *at = memcpy(*room, text, n);
  at[n] = '\0';
  *room += n + 1;
  return at;
}

static bool read_root(dev_t *dev, ino_t *ino) {
  struct stat st;
  if (fs_sys_fstatat(AT_FDCWD, "/", &st, 0) != 0) return false;
  *dev = st.st_dev;
  *ino = st.st_ino;
  return true;
}

static bool same_root(void) {
  dev_t dev;
  ino_t ino;
  return read_root(&dev, &ino) && dev == given.root_dev && ino == given.root_ino;
}

static void remember(void) {
  size_t len = 0;
  const char *word = fs_list_word(getenv(FS_PRELOAD), FS_LIBRARY_WORD, &len);
  size_t size = len + 1;
  for (char **e = environ; e != NULL && *e != NULL; e++) size += strlen(*e) + 1;
  char *room = fs_sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fs_sys_mmap_failed(room)) return;
  for (char **e = environ; e != NULL && *e != NULL && given.items < FS_GIVEN_MAX; e++)
    if (strncmp(*e, FS_PREFIX, strlen(FS_PREFIX)) == 0 && !names(*e, FS_ENV_STATE))
      given.item[given.items++] = keep(&room, *e, strlen(*e));
  if (word == NULL || !read_root(&given.root_dev, &given.root_ino)) return;
  given.library = keep(&room, word, len);
}

/* Drops the shadows from LD_LIBRARY_PATH. The linker has read them by now. */
static __attribute__((noinline)) void drop_shadows(const char *list) {
  char rest[FS_PATHS_MAX];
  rest[0] = '\0';
  if (strlen(list) >= sizeof(rest)) return;
  for (const char *dir = list; dir != NULL;) {
    size_t len = strcspn(dir, ":;");
    if (!fs_is_shadow(dir, len)) {
      if (rest[0] != '\0') strcat(rest, ":");
      strncat(rest, dir, len);
    }
    dir = dir[len] == '\0' ? NULL : dir + len + 1;
  }
  if (rest[0] != '\0')
    fs_env_set(FS_PATHS, rest);
  else
    fs_env_drop(FS_PATHS);
}

void fs_env_start(void) {
  const char *list = getenv(FS_PATHS);
  if (list != NULL && fs_is_shadow(list, strlen(list))) drop_shadows(list);
  given.as_is = is_set(getenv(FS_ENV_AS_IS));
  if (fs_mount_count() > 0 && !given.as_is) remember();
}

/* ---- what the program gets ---- */

/* Returns whether the program needs the address sanitizer's run-time first, which ends the program
   if another library comes before it. */
static bool asan_first(struct fs_env_plan *p, const struct fs_program_start *start) {
  p->last = p->preloaded != NULL && strstr(p->preloaded, "asan") != NULL;
  const char *options = fs_program_value(start->envp, "ASAN_OPTIONS");
  if (p->last || (options != NULL && strstr(options, "verify_asan_link_order=0") != NULL)) return false;
  return fs_library_asan(start);
}

static bool may_give(struct fs_env_plan *p, const struct fs_program_start *start, enum fs_loads loads) {
  if (loads != FS_LOADS || given.library == NULL || given.as_is || !same_root()) return false;
  return !is_set(fs_program_value(start->envp, FS_ENV_AS_IS)) && !asan_first(p, start);
}

static size_t preload_size(const struct fs_env_plan *p) {
  return sizeof(FS_PRELOAD) + strlen(given.library) + 2 + (p->preloaded != NULL ? strlen(p->preloaded) : 0);
}

/* Plans the changes. `elf` is room for the name of a script's interpreter. */
static void plan_changes(struct fs_env_plan *p, const struct fs_program_start *start, char *elf) {
  enum fs_loads loads = fs_program_loads(start->dirfd, start->path, elf);
  struct fs_program_start program = *start;
  if (elf[0] != '\0') program = (struct fs_program_start){AT_FDCWD, elf, elf, start->envp};
  bool named = fs_program_names_us(start->envp);
  p->preloaded = fs_program_value(start->envp, FS_PRELOAD);
  p->give = !named && may_give(p, &program, loads);
  p->loads_us = (named || p->give) && loads > FS_LOADS_NOT;
  p->drop = loads == FS_LOADS_ENDS && !given.as_is && p->preloaded != NULL && strstr(p->preloaded, FS_LIBRARY_WORD);
  p->paths = p->loads_us ? fs_library_paths(&program) : NULL;
}

/* Takes memory by mmap, because a thread's stack may be too small for paths. */
size_t fs_env_plan(struct fs_env_plan *p, const struct fs_program_start *start) {
  *p = (struct fs_env_plan){0};
  if (fs_mount_count() == 0 || fs_bad_address(start->path)) return 0;
  p->state = fs_state_fd() >= 0;
  char *elf = fs_sys_mmap(NULL, PATH_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fs_sys_mmap_failed(elf)) {
    p->loads_us = fs_program_loads_us(start->dirfd, start->path, start->envp);
  } else {
    plan_changes(p, start, elf);
    FS_SYS2(SYS_munmap, elf, PATH_MAX);
  }
  while (start->envp != NULL && start->envp[p->count] != NULL) p->count++;
  if (!p->give && !p->drop && !p->state && p->paths == NULL) return 0;
  size_t bytes = (p->count + FS_GIVEN_MAX + 4) * sizeof(char *);
  if (p->give) bytes += preload_size(p);
  if (p->paths != NULL) bytes += sizeof(FS_PATHS) + 1 + strlen(p->paths);
  return bytes;
}

/* Writes "NAME=first:second", where one of the two may be empty. */
static char *join(char **text, const char *name, const char *first, const char *second) {
  char *at = *text;
  strcpy(at, name);
  strcat(strcat(at, "="), first);
  if (first[0] != '\0' && second[0] != '\0') strcat(at, ":");
  strcat(at, second);
  *text += strlen(at) + 1;
  return at;
}

static bool is_replaced(const struct fs_env_plan *p, const char *item) {
  if (p->state && names(item, FS_ENV_STATE)) return true;
  return ((p->give || p->drop) && names(item, FS_PRELOAD)) || (p->paths != NULL && names(item, FS_PATHS));
}

static char *preload_item(const struct fs_env_plan *p, char **text) {
  const char *others = p->preloaded != NULL ? p->preloaded : "";
  if (strstr(others, FS_LIBRARY_WORD) != NULL) return join(text, FS_PRELOAD, others, "");
  return p->last ? join(text, FS_PRELOAD, others, given.library) : join(text, FS_PRELOAD, given.library, others);
}

char **fs_env_build(struct fs_env_plan *p, char *const envp[], char *room) {
  char **to = (char **)(void *)room, *text = room + (p->count + FS_GIVEN_MAX + 4) * sizeof(char *);
  bool all = p->give && fs_program_value(envp, FS_ENV_DATASET) == NULL;
  size_t n = 0;
  for (size_t i = 0; i < p->count; i++)
    if (!is_replaced(p, envp[i])) to[n++] = envp[i];
  for (size_t i = 0; all && i < given.items; i++)
    if (!has_item(envp, given.item[i])) to[n++] = (char *)given.item[i];
  if (p->give) to[n++] = preload_item(p, &text);
  if (p->paths != NULL) {
    to[n++] = join(&text, FS_PATHS, p->paths, "");
    FS_SYS2(SYS_munmap, p->paths, FS_PATHS_MAX);
  }
  if (p->state) {
    strcpy(p->text, FS_ENV_STATE "=");
    fs_state_text(p->text + sizeof(FS_ENV_STATE));
    to[n++] = p->text;
  }
  to[n] = NULL;
  return to;
}

bool fs_env_gives(void) {
  return given.library != NULL && !is_set(getenv(FS_ENV_AS_IS)) && same_root();
}

/* libc's shell has this libc, so it can load the library. */
void fs_env_restore(void) {
  char *text = NULL;
  if (!fs_env_gives() || fs_program_names_us(environ)) return;
  bool all = getenv(FS_ENV_DATASET) == NULL;
  for (size_t i = 0; all && i < given.items; i++) {
    char name[64];
    size_t len = strcspn(given.item[i], "=");
    if (len >= sizeof(name) || has_item(environ, given.item[i])) continue;
    memcpy(name, given.item[i], len);
    name[len] = '\0';
    fs_env_set(name, given.item[i] + len + 1);
  }
  struct fs_env_plan p = {.preloaded = getenv(FS_PRELOAD)};
  if (p.preloaded != NULL) p.last = strstr(p.preloaded, "asan") != NULL;
  text = alloca(preload_size(&p));
  fs_env_set(FS_PRELOAD, preload_item(&p, &text) + sizeof(FS_PRELOAD));
}
