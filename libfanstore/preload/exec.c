/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs programs that lie below a mount, which the kernel cannot see. A script's interpreter is
 * started on the script's own path, as the kernel would do. Any other program becomes a real file
 * first, which is executed as /proc/self/fd/N. An output on its home is a real file already. This
 * may run in a vfork child, so it allocates only on the stack.
 */
#include "preload/exec.h"

#include <alloca.h>

#include "client/real/program.h"
#include "preload/depend.h"
#include "preload/preload.h"
#include "util/util.h"

#define FS_SHEBANG_MAX 256
/* How deep scripts may have scripts as interpreters: as the kernel allows. */
#define FS_SHEBANG_DEPTH 5
static FS_TLS int shebang_depth;

static fs_err check(int route, const struct fs_found *f) {
  struct stat st;
  if (route == FS_REDIRECT) return 0; /* the kernel does */
  fs_err err = fs_must_exist(route);
  if (err == 0) err = fs_file_stat(f->mount, f->entry, &st);
  if (err == 0 && !S_ISREG(st.st_mode)) err = -EACCES;
  return err != 0 ? err : fs_file_access(f->mount, f->entry, X_OK);
}

/* Cuts "#! /bin/sh -x" into the interpreter and its one argument (NULL if none). Returns false if
   it is no script. */
static bool parse_shebang(char *line, size_t n, char **interpreter, char **argument) {
  if (n < 3 || line[0] != '#' || line[1] != '!') return false;
  line[FS_MIN(n, FS_SHEBANG_MAX - 1)] = '\0';
  line[strcspn(line, "\n")] = '\0';
  char *p = line + 2 + strspn(line + 2, " \t");
  size_t len = strcspn(p, " \t");
  if (len == 0) return false;
  *interpreter = p;
  char *arg = p + len + strspn(p + len, " \t");
  p[len] = '\0';
  for (size_t end = strlen(arg); end > 0 && (arg[end - 1] == ' ' || arg[end - 1] == '\t');) arg[--end] = '\0';
  *argument = arg[0] != '\0' ? arg : NULL;
  return true;
}

/* Reads the first line of an output. The kernel starts by its own name what a symlink out of the
   mount leads to, and refuses what must not be executed. */
static fs_ssize read_redirected(const struct fs_found *f, char *line) {
  if (f->out.id == 0 || FS_SYS3(SYS_faccessat, AT_FDCWD, f->real, X_OK) != 0) return 0;
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(AT_FDCWD, f->real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
  return fd < 0 ? 0 : fs_sys_pread(fd, line, FS_SHEBANG_MAX - 1, 0);
}

static bool read_shebang(int route, const struct fs_found *f, char *line, char **interpreter, char **argument) {
  fs_ssize n = route == FS_REDIRECT ? read_redirected(f, line)
                                    : fs_data_read(f->mount, f->entry, line, FS_SHEBANG_MAX - 1, 0, NULL);
  if (n <= 0 || !parse_shebang(line, (size_t)n, interpreter, argument)) return false;
  /* An interpreter without this library can read the backing file. */
  return route != FS_REDIRECT || fs_program_loads(AT_FDCWD, *interpreter, NULL) > FS_LOADS_NOT;
}

static size_t count(char *const argv[]) {
  size_t n = 0;
  while (argv != NULL && argv[n] != NULL) n++;
  return n;
}

/* Writes interpreter [argument] path argv[1...], with room for count + 4 pointers. */
static char **script_arguments(char **room, char *interpreter, char *argument, const char *path, char *const argv[]) {
  size_t n = 0;
  room[n++] = interpreter;
  if (argument != NULL) room[n++] = argument;
  room[n++] = (char *)path;
  for (size_t i = 1; i < count(argv); i++) room[n++] = argv[i];
  room[n] = NULL;
  return room;
}

int fs_exec_entry(int route, const struct fs_found *f, const char *path, char *const argv[], char *const envp[]) {
  char line[FS_SHEBANG_MAX], *interpreter, *argument, real[32];
  fs_err err = check(route, f);
  if (err != 0) return fs_ret_int(err);
  if (read_shebang(route, f, line, &interpreter, &argument)) {
    if (shebang_depth == FS_SHEBANG_DEPTH) return fs_ret_int(-ELOOP);
    char **room = alloca((count(argv) + 4) * sizeof(char *));
    shebang_depth++;
    int r = execve(interpreter, script_arguments(room, interpreter, argument, path, argv), envp);
    shebang_depth--;
    return r;
  }
  if (route == FS_REDIRECT) return fs_exec_real(f->real, path, argv, envp);
  fs_fd fd = fs_data_materialize_checked(f->mount, f->entry);
  if (fd < 0) return fs_ret_int(fd);
  snprintf(real, sizeof(real), "/proc/self/fd/%d", fd);
  int r = fs_exec_real(real, path, argv, envp);
  int saved = errno;
  fs_sys_close(fd);
  errno = saved;
  return r;
}

int fs_spawn_entry(int route, const struct fs_found *f, const char *path, pid_t *pid,
                   const posix_spawn_file_actions_t *fa, const posix_spawnattr_t *at, char *const argv[],
                   char *const envp[]) {
  char line[FS_SHEBANG_MAX], *interpreter, *argument, real[32];
  fs_err err = check(route, f);
  if (err != 0) return -err;
  if (read_shebang(route, f, line, &interpreter, &argument)) {
    if (shebang_depth == FS_SHEBANG_DEPTH) return ELOOP;
    char **room = alloca((count(argv) + 4) * sizeof(char *));
    shebang_depth++;
    int r = posix_spawn(pid, interpreter, fa, at, script_arguments(room, interpreter, argument, path, argv), envp);
    shebang_depth--;
    return r;
  }
  if (route == FS_REDIRECT) return fs_spawn_real(f->real, path, pid, fa, at, argv, envp);
  fs_fd fd = fs_data_materialize_checked(f->mount, f->entry);
  if (fd < 0) return -fd;
  snprintf(real, sizeof(real), "/proc/self/fd/%d", fd);
  int r = fs_spawn_real(real, path, pid, fa, at, argv, envp);
  fs_sys_close(fd);
  return r;
}

/*
 * The copies that stay open. If a file is loaded again, the dynamic linker must find the same file,
 * so that it gives the same handle; and no other descriptor is taken. Copies beyond the room for
 * them are not found again.
 */
#define FS_COPIES 512
#define FS_COPY_OUTPUT (1ull << 63) /* a hash; no entry has this bit */
static struct {
  _Atomic uint64_t entry; /* mount and entry, and 1, or a hash; 0: free */
  _Atomic int fd;         /* descriptor + 1 */
} copies[FS_COPIES];

static int copy_find(uint64_t entry) {
  uint64_t seen;
  for (int i = 0; i < FS_COPIES && (seen = atomic_load(&copies[i].entry)) != 0; i++) {
    int fd = seen == entry ? atomic_load(&copies[i].fd) - 1 : -1;
    if (fd >= 0 && fs_data_owns_fd(fd)) return fd;
  }
  return -1;
}

static void copy_note(uint64_t entry, int fd) {
  for (int i = 0; i < FS_COPIES; i++) {
    uint64_t none = 0;
    if (!atomic_compare_exchange_strong(&copies[i].entry, &none, entry)) continue;
    atomic_store(&copies[i].fd, fd + 1);
    return;
  }
}

/* Opens a file of the kernel's. Its key is the device and inode, which the open descriptor keeps
   from being another file's. */
static fs_fd open_redirected(const struct fs_found *f, uint64_t *key) {
  struct stat st;
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(AT_FDCWD, f->real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
  if (fd < 0 || fs_sys_fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return -ENOENT;
  const uint64_t inode[] = {(uint64_t)st.st_dev, (uint64_t)st.st_ino};
  *key = FS_COPY_OUTPUT | fs_xxh3(inode, sizeof(inode));
  return FS_MOVE_FD(fd);
}

/* Returns a copy's key. Another node's output is one file for each of its versions. */
static uint64_t copy_key(const struct fs_found *f) {
  if (f->out.id == 0) return ((uint64_t)f->mount << 32 | f->entry) + 1;
  const uint64_t version[] = {f->out.id, f->out.version};
  return FS_COPY_OUTPUT | fs_xxh3(version, sizeof(version));
}

const char *fs_real_copy(const char *path, char real[FS_REAL_COPY]) {
  struct fs_found f;
  int route = path == NULL ? FS_OUTSIDE : fs_path_route(AT_FDCWD, path, 0, &f);
  if (route != FS_IN && route != FS_REDIRECT) return path;
  uint64_t key = route == FS_IN ? copy_key(&f) : 0;
  fs_fd fd = route == FS_REDIRECT ? open_redirected(&f, &key) : -1;
  if (route == FS_REDIRECT && fd < 0) return path;
  int have = copy_find(key);
  if (have >= 0 && fd >= 0) fs_sys_close(fd);
  if (have < 0) {
    if (fd < 0) fd = fs_data_materialize_checked(f.mount, f.entry);
    if (fd < 0) return path;
    have = fs_data_adopt_fd(fd);
    if (have >= 0)
      copy_note(key, have);
    else
      have = fd;
  }
  snprintf(real, FS_REAL_COPY, "/proc/self/fd/%d", have);
  return real;
}

/* Names that the loader was given. The jump to the real dlopen passes the name on, which the loader
   may read late. So each name is kept, once. */
struct name {
  struct name *next;
  char text[];
};

static const char *kept(const char *text) {
  static _Atomic(struct name *) names;
  struct name *first = atomic_load(&names);
  for (const struct name *n = first; n != NULL; n = n->next)
    if (strcmp(n->text, text) == 0) return n->text;
  struct name *fresh = malloc(sizeof(*fresh) + strlen(text) + 1);
  if (fresh == NULL) return NULL;
  strcpy(fresh->text, text);
  do fresh->next = first;
  while (!atomic_compare_exchange_weak(&names, &first, fresh));
  return fresh->text;
}

/* Returns the path that the real dlopen or dlmopen is to load. dlopen_entry.S calls this. */
const char *fs_dlopen_path(const char *path);
const char *fs_dlopen_path(const char *path) {
  static FS_TLS char real[FS_REAL_COPY];
  char found[PATH_MAX], shadow[PATH_MAX];
  if (FS_UNLIKELY(__atomic_load_n(&fs_real_dlopen, __ATOMIC_ACQUIRE) == NULL)) fs_real_resolve();
  const char *file = fs_library_path(path, found);
  if (file == NULL || strchr(file, '/') == NULL || fs_path_outside(AT_FDCWD, file)) return path;
  const char *name = fs_library_shadow(file, shadow) == 0 ? kept(shadow) : NULL;
  if (name != NULL) return name;
  return fs_real_copy(file, real) == real ? real : path;
}

void *fs_real_dlmopen;
const char *fs_dlmopen_path(const char *path);
const char *fs_dlmopen_path(const char *path) {
  fs_real_dlmopen = (void *)FS_REAL(dlmopen);
  return fs_dlopen_path(path);
}
