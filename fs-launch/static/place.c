/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The current directory of a caller that changed to one below a mount. The kernel has no such
 * directory, and no process can change another's. So the kernel's current directory stays, and a
 * number says which directory is meant. The kernel keeps that number for the process and passes it
 * to children by fork, vfork and exec: it is the soft limit RLIMIT_RTTIME, which is normally
 * unlimited. Our values are so large (142 years) that they limit nothing. If ".." led from a
 * directory inside a mount to one outside, that has a number in a table here, under a mutex.
 *
 * For a preloaded program the current directory is a stand-in (client/path/cwd.h). Both forms are
 * understood.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client/path/cwd.h"
#include "static.h"

/* The limit has 16 bits of mark, 8 of the mount (0xff: a number in the table), 8 of its key, 32 of
   the entry. */
#define FS_MARK 0x3fa5ull
#define FS_PLACE_OUTSIDE 0xffu
#define FS_PLACE_OUTSIDE_MAX 16384u

static pthread_mutex_t outside_lock = PTHREAD_MUTEX_INITIALIZER;
static char *outside[FS_PLACE_OUTSIDE_MAX];
static uint32_t outside_count;
static _Atomic bool told_limit;

static uint64_t place_value(uint32_t mount, uint32_t entry) {
  uint8_t check = mount == FS_PLACE_OUTSIDE ? 0 : (uint8_t)fs_mount_list[mount].key;
  return FS_MARK << 48 | (uint64_t)mount << 40 | (uint64_t)check << 32 | entry;
}

static bool read_limit(const struct fs_call *c, struct rlimit *limit) {
  return FS_SYS4(SYS_prlimit64, c->tid, RLIMIT_RTTIME, NULL, limit) == 0;
}

/* Reads from the limit a mount and an entry, or FS_OUTSIDE and a number. */
static bool place_read(const struct fs_call *c, uint32_t *mount, uint32_t *entry) {
  struct rlimit limit;
  if (!read_limit(c, &limit) || limit.rlim_cur >> 48 != FS_MARK) return false;
  *mount = limit.rlim_cur >> 40 & 0xff;
  *entry = (uint32_t)limit.rlim_cur;
  if (*mount != FS_PLACE_OUTSIDE && *mount >= fs_mount_count()) return false;
  return limit.rlim_cur == place_value(*mount, *entry);
}

static fs_err place_write(const struct fs_call *c, uint64_t value) {
  struct rlimit limit;
  if (!fs_call_valid(c)) return -ESRCH;
  if (!read_limit(c, &limit)) return -EIO;
  bool free = limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >> 48 == FS_MARK;
  if (!free || limit.rlim_max != RLIM_INFINITY) {
    fs_tell_once(&told_limit, "fanstore-static: no change to a directory below a mount: RLIMIT_RTTIME is limited");
    return -EIO;
  }
  limit.rlim_cur = value;
  return FS_SYS4(SYS_prlimit64, c->tid, RLIMIT_RTTIME, &limit, NULL) == 0 ? 0 : -EIO;
}

static bool outside_get(uint32_t number, char *path) {
  pthread_mutex_lock(&outside_lock);
  bool known = number < outside_count;
  if (known) strcpy(path, outside[number]);
  pthread_mutex_unlock(&outside_lock);
  return known;
}

/* Puts a path in the table, where it stays, and stores its number. */
static fs_err outside_put(const char *path, uint32_t *number) {
  uint32_t i = 0;
  pthread_mutex_lock(&outside_lock);
  while (i < outside_count && strcmp(outside[i], path) != 0) i++;
  if (i == outside_count && i < FS_PLACE_OUTSIDE_MAX && (outside[i] = strdup(path)) != NULL) outside_count++;
  bool known = i < outside_count;
  pthread_mutex_unlock(&outside_lock);
  *number = i;
  return known ? 0 : -ENOMEM;
}

int fs_place_get(const struct fs_call *c, char *path) {
  uint32_t mount, entry;
  if (!place_read(c, &mount, &entry)) return 0;
  if (mount == FS_PLACE_OUTSIDE) return outside_get(entry, path) ? 1 : -ENOENT;
  fs_ssize n = fs_path_of(mount, entry, path, PATH_MAX);
  return n < 0 ? (int)n : 1;
}

/* Makes the kernel's own current directory the caller's again. */
static void place_clear(const struct fs_call *c) {
  uint32_t mount, entry;
  if (place_read(c, &mount, &entry)) place_write(c, RLIM_INFINITY);
}

static int64_t enter_below(const struct fs_call *c, const struct fs_found *f) {
  struct stat st;
  fs_err err = fs_file_stat(f->mount, f->entry, &st);
  if (err == 0 && !S_ISDIR(st.st_mode)) err = -ENOTDIR;
  if (err == 0) err = fs_file_access(f->mount, f->entry, X_OK);
  return err != 0 ? err : place_write(c, place_value(f->mount, f->entry));
}

static int64_t enter_outside(const struct fs_call *c, const char *path) {
  struct stat st;
  uint32_t number;
  fs_err err = fs_sys_fstatat(AT_FDCWD, path, &st, 0);
  if (err == 0 && !S_ISDIR(st.st_mode)) err = -ENOTDIR;
  if (err == 0) err = (fs_err)FS_SYS3(SYS_faccessat, AT_FDCWD, path, X_OK);
  if (err == 0) err = outside_put(path, &number);
  return err != 0 ? err : place_write(c, place_value(FS_PLACE_OUTSIDE, number));
}

int64_t fs_on_chdir(struct fs_call *c, const struct fs_trap *t) {
  struct fs_found f;
  int route = fs_trap_find(c, t, &f);
  if (route < 0) return route;
  if (route == FS_IN) return enter_below(c, &f);
  if (route == FS_REDIRECT) return enter_outside(c, f.real);
  if (route != FS_OUTSIDE) return -ENOENT;
  /* If the kernel will refuse the change, the old directory stays. */
  if (c->seen && S_ISDIR(c->st.st_mode) && FS_SYS3(SYS_faccessat, AT_FDCWD, c->full, X_OK) == 0) place_clear(c);
  return FS_PASS;
}

int64_t fs_on_fchdir(struct fs_call *c, const struct fs_trap *t) {
  char path[48];
  struct stat st;
  (void)t;
  snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)c->tid, (int)c->arg[0]);
  if (fs_sys_fstatat(AT_FDCWD, path, &st, 0) == 0 && S_ISDIR(st.st_mode)) place_clear(c);
  return FS_PASS;
}

/* The directory comes from the limit, or from the stand-in that a descriptor or the preloaded
   library set. */
int64_t fs_on_getcwd(struct fs_call *c, const struct fs_trap *t) {
  char path[PATH_MAX];
  uint32_t mount, entry;
  (void)t;
  int place = fs_place_get(c, path);
  if (place < 0) return place;
  if (place == 0) {
    if (fs_tracee_link(c, "cwd", path) != 0 || !fs_real_parse(path, &mount, &entry)) return FS_PASS;
    fs_ssize n = fs_path_of(mount, entry, path, sizeof(path));
    if (n < 0) return n;
  }
  size_t len = strlen(path) + 1;
  if (c->arg[1] < len) return -ERANGE;
  fs_err err = fs_tracee_write(c, c->arg[0], path, len);
  return err != 0 ? err : (int64_t)len;
}
