/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes real files and directories that stand for those of a dataset, to be given to programs. Each
 * is made once while it stays in the table, by one thread; other threads that want it wait. Each
 * open gets its own description. A mutex protects the table; it is not held while something is
 * made. The table is limited in files and in bytes. The name of a real file, which /proc shows
 * while it is open, gives mount and entry, so nothing else must be remembered:
 *
 *   files up to 1 MiB: a sealed memfd, /memfd:.fanstore-file.<mount key>.<entry>. (deleted)
 *   larger files:      that of fs_data_materialize, <backing directory>/<dataset>-<entry>.m, which
 *                      the node shares; without a daemon
 *                      DIR/.fanstore-file.<mount key>.<entry>.<unique> (deleted)
 *   directories:       a stand-in (client/path/cwd.h),
 *                      DIR/.fanstore-cwd.<mount key>.<entry>.<unique> (deleted); an output
 *                      directory's id is before <unique>
 *   for O_PATH:        an empty memfd, named like a file's; not in the table
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client/path/cwd.h"
#include "static.h"

#define FS_REAL_SLOTS 256
#define FS_REAL_BYTES (256ull << 20) /* bytes kept after their last use */
#define FS_REAL_SMALL (1u << 20)
#define FS_FILE_NAME ".fanstore-file."

struct real {
  enum { FREE, MAKING, READY } state;
  uint32_t mount, entry;
  unsigned users; /* threads that use it, so it must stay */
  int fd;
  fs_err err;
  uint64_t bytes, used;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t made = PTHREAD_COND_INITIALIZER;
static struct real table[FS_REAL_SLOTS];
static uint64_t bytes, uses;

/* ---- names ---- */

static uint64_t key_of(uint32_t mount) {
  return fs_mount_list[mount].key;
}

bool fs_real_parse(const char *link, uint32_t *mount, uint32_t *entry) {
  return fs_standin_parse(link, FS_FILE_NAME, mount, entry) || fs_standin_parse(link, FS_STANDIN_NAME, mount, entry) ||
         fs_data_materialized(link, mount, entry);
}

static char *proc_fd(int fd, char out[32]) {
  snprintf(out, 32, "/proc/self/fd/%d", fd);
  return out;
}

/* ---- making one ---- */

/* An output directory gets a stand-in: a real directory at its path would be an incomplete copy. */
static fs_fd make_directory(uint32_t mount, uint32_t entry) {
  return fs_is_output(entry) ? fs_cwd_standin(mount, entry) : fs_cwd_open(mount, entry);
}

static fs_err fill(int fd, uint32_t mount, uint32_t entry, uint64_t size) {
  void *map = fs_sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fs_sys_mmap_failed(map)) return -ENOMEM;
  enum fs_place place = FS_PLACE_COUNT;
  fs_err err = 0;
  for (uint64_t done = 0; done < size && err == 0;) {
    fs_ssize n = fs_data_read(mount, entry, (char *)map + done, size - done, done, done == 0 ? &place : NULL);
    if (n <= 0) err = n < 0 ? (fs_err)n : -EIO;
    done += n > 0 ? (uint64_t)n : 0;
  }
  fs_sys_munmap(map, size);
  if (err == 0 && (unsigned)place < FS_PLACE_COUNT) fs_count(FS_C_FILES + place, 1);
  return err;
}

/* Makes a sealed file in memory. */
static fs_fd make_small(uint32_t mount, uint32_t entry, mode_t mode, uint64_t size) {
  char name[64];
  snprintf(name, sizeof(name), FS_FILE_NAME "%016llx.%x.", (unsigned long long)key_of(mount), entry);
  FS_AUTO_CLOSE int fd = (fs_fd)FS_SYS2(SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return fd;
  fs_err err = (fs_err)FS_SYS2(SYS_fchmod, fd, mode);
  if (err == 0) err = (fs_err)FS_SYS2(SYS_ftruncate, fd, size);
  if (err == 0 && size > 0) err = fill(fd, mount, entry, size);
  if (err == 0) fs_sys_fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return err != 0 ? err : FS_MOVE_FD(fd);
}

/* Reopens the file under a name that says what it is, and removes that name at once. On a failure
   returns the file unchanged. */
static fs_fd named(fs_fd fd, uint32_t mount, uint32_t entry) {
  char path[PATH_MAX + 80], proc[32];
  static _Atomic uint32_t unique;
  long n = fd < 0 ? fd : FS_SYS4(SYS_readlinkat, AT_FDCWD, proc_fd(fd, proc), path, PATH_MAX - 1);
  if (n <= 0) return fd;
  path[n] = '\0';
  char *name = strrchr(path, '/');
  if (name == NULL || fs_data_materialized(path, &mount, &entry)) return fd;
  snprintf(name + 1, 80, FS_FILE_NAME "%016llx.%x.%x-%x", (unsigned long long)key_of(mount), entry,
           (unsigned)fs_sys_getpid(), atomic_fetch_add(&unique, 1));
  if (FS_SYS5(SYS_linkat, AT_FDCWD, proc, AT_FDCWD, path, AT_SYMLINK_FOLLOW) != 0) return fd;
  fs_fd again = fs_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
  FS_SYS3(SYS_unlinkat, AT_FDCWD, path, 0);
  if (again < 0) return fd;
  fs_sys_close(fd);
  return again;
}

static fs_fd make(struct real *r, bool dir) {
  fs_err err = 0;
  if (dir) return make_directory(r->mount, r->entry);
  const struct fs_index *ix = fs_mount_ix(r->mount, &err);
  const struct fs_entry *e = ix == NULL ? NULL : fs_index_entry(ix, r->entry);
  if (e == NULL) return err < 0 ? err : -EUCLEAN;
  if (!S_ISREG(e->mode)) return -ENXIO;
  r->bytes = e->size;
  if (e->size <= FS_REAL_SMALL) return make_small(r->mount, r->entry, e->mode & 0111 ? 0500 : 0400, e->size);
  return named(fs_data_materialize(r->mount, r->entry), r->mount, r->entry);
}

/* ---- the table ---- */

static void drop(struct real *r) {
  fs_sys_close(r->fd);
  bytes -= r->bytes;
  r->state = FREE;
}

static struct real *least_used(const struct real *but) {
  struct real *old = NULL;
  for (struct real *r = table; r < table + FS_REAL_SLOTS; r++) {
    if (r->state != READY || r->users > 0) continue;
    if (r != but && (old == NULL || r->used < old->used)) old = r;
  }
  return old;
}

static struct real *find(uint32_t mount, uint32_t entry) {
  for (struct real *r = table; r < table + FS_REAL_SLOTS; r++)
    if (r->state != FREE && r->entry == entry && r->mount == mount) return r;
  return NULL;
}

/* Returns how many files stay in the table: few if few descriptors are available, but more than
   there are threads. */
static size_t slots(void) {
  static size_t n;
  struct rlimit limit = {.rlim_cur = 0};
  if (n > 0) return n;
  getrlimit(RLIMIT_NOFILE, &limit);
  n = limit.rlim_cur < 4 * FS_REAL_SLOTS ? FS_MAX((size_t)limit.rlim_cur / 8, FS_STATIC_THREADS + 1u) : FS_REAL_SLOTS;
  return n;
}

/* Takes a free slot or one without users. Returns NULL if threads use all slots. */
static struct real *take(uint32_t mount, uint32_t entry) {
  struct real *r = table, *end = table + slots();
  while (r < end && r->state != FREE) r++;
  if (r == end && (r = least_used(NULL)) == NULL) return NULL;
  if (r->state != FREE) drop(r);
  *r = (struct real){.state = MAKING, .mount = mount, .entry = entry, .fd = -1};
  return r;
}

static void make_room(const struct real *but) {
  for (struct real *old; bytes > FS_REAL_BYTES && (old = least_used(but)) != NULL;) drop(old);
}

/* Makes the file of a slot. Called with the mutex held, and releases it meanwhile. */
static void fill_slot(struct real *r, bool dir) {
  pthread_mutex_unlock(&lock);
  fs_fd fd = make(r, dir);
  pthread_mutex_lock(&lock);
  r->fd = fd;
  r->err = fd < 0 ? fd : 0;
  r->state = READY;
  if (fd < 0) r->bytes = 0;
  bytes += r->bytes;
  pthread_cond_broadcast(&made);
}

static struct real *get(uint32_t mount, uint32_t entry, bool dir) {
  struct real *r, *empty = NULL;
  while ((r = find(mount, entry)) == NULL && (empty = take(mount, entry)) == NULL) pthread_cond_wait(&made, &lock);
  if (r == NULL) {
    r = empty;
    r->users = 1;
    fill_slot(r, dir);
  } else {
    r->users++;
    while (r->state == MAKING) pthread_cond_wait(&made, &lock);
  }
  r->used = ++uses;
  make_room(r);
  return r;
}

fs_fd fs_real_open(uint32_t mount, uint32_t entry, bool dir, int flags) {
  char proc[32];
  pthread_mutex_lock(&lock);
  struct real *r = get(mount, entry, dir);
  pthread_mutex_unlock(&lock);
  fs_fd fd = r->err;
  if (fd == 0) fd = fs_sys_openat(AT_FDCWD, proc_fd(r->fd, proc), (flags & O_NONBLOCK) | O_RDONLY | O_CLOEXEC, 0);
  pthread_mutex_lock(&lock);
  if (--r->users == 0) pthread_cond_broadcast(&made);
  if (r->err != 0 && r->users == 0) r->state = FREE; /* the next one tries again */
  pthread_mutex_unlock(&lock);
  return fd;
}

/* Stands in for O_PATH, because the kernel does not hand over O_PATH descriptors. A file opened
   with this access mode can be neither read nor written. No other open shares the file: O_PATH has
   no locks, so locks must not meet those of others. */
fs_fd fs_real_path(uint32_t mount, uint32_t entry, bool dir) {
  char proc[32];
  FS_AUTO_CLOSE int fd = dir ? make_directory(mount, entry) : make_small(mount, entry, 0600, 0);
  if (fd < 0) return fd;
  return fs_sys_openat(AT_FDCWD, proc_fd(fd, proc), (dir ? O_RDONLY | O_DIRECTORY : O_ACCMODE) | O_CLOEXEC, 0);
}
