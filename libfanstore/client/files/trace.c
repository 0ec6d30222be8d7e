/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the trace of this process (client/files/trace.h). The file is mapped whole. Room in it is made
 * sure of by fallocate, a piece at a time, before anything is written there: a full disk must not
 * end the program. The pointer to the segment lies in memory that a fork wipes.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/utsname.h>

#include "client/data_priv.h"
#include "client/files/trace.h"
#include "client/path/path.h"

#define FS_TRACE_PIECE (4ull << 20)
#define FS_TRACE_NAMES 100u /* processes of one number, one after the other */

_Atomic uint32_t fs_trace_on;
static char g_file[PATH_MAX];

struct fs_trace_own { /* in memory of this process; never freed */
  struct fs_trace_head *head;
  uint64_t mapped;       /* bytes of the mapping */
  uint64_t size;         /* bytes that the file may have */
  _Atomic uint64_t room; /* bytes of the file that the disk has; UINT64_MAX: no more is to be had */
  char path[PATH_MAX];
};

void fs_trace_start(void (*set)(const char *name, const char *value)) {
  const char *file = getenv(FS_ENV_TRACE);
  size_t n = file ? strlen(file) : 0, at = 0;
  if (n == 0) return;
  if (file[0] != '/') { /* the program may change its directory */
    long cwd = FS_SYS2(SYS_getcwd, g_file, sizeof(g_file) - 1);
    if (cwd <= 1 || g_file[0] != '/') return;
    at = (size_t)cwd - 1;
    g_file[at++] = '/';
  }
  if (at + n + sizeof(((struct utsname *)0)->nodename) + 32 >= sizeof(g_file)) return;
  memcpy(g_file + at, file, n + 1);
  if (at > 0) set(FS_ENV_TRACE, g_file);
  atomic_store(&fs_trace_on, 1);
}

static void append(char *path, const char *text) {
  size_t n = strlen(path), m = strnlen(text, 65);
  if (n + m < PATH_MAX - 1) memcpy(path + n, text, m), path[n + m] = '\0';
}

/* Makes the file of this process. Returns its descriptor. */
static fs_fd make_file(char *path, const char *host) {
  char number[FS_U64_TEXT];
  fs_fd fd = -EEXIST;
  for (unsigned i = 0; fd == -EEXIST && i < FS_TRACE_NAMES; i++) {
    strcpy(path, g_file);
    append(path, ".");
    append(path, host);
    append(path, ".");
    append(path, fs_u64_text((uint64_t)fs_sys_getpid(), number));
    if (i > 0) append(path, "."), append(path, fs_u64_text(i, number));
    fd = fs_sys_openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  }
  return fd;
}

/* Returns how large the file may be. A file-size limit ends a program that goes beyond it. */
static uint64_t size_limit(void) {
  return FS_MIN(fs_sys_file_limit(), FS_TRACE_LIMIT) & ~(FS_TRACE_PIECE - 1);
}

static fs_err fill_file(struct fs_trace_own *own, int fd, const char *host) {
  own->size = own->mapped = size_limit();
  if (own->size == 0) return -EFBIG;
  long err = FS_SYS4(SYS_fallocate, fd, 0, 0, FS_TRACE_PIECE);
  if (err == 0) err = FS_SYS2(SYS_ftruncate, fd, own->size);
  if (err != 0) return (fs_err)err;
  own->head = fs_mem_map_fd(fd, own->size, PROT_READ | PROT_WRITE);
  if (!own->head) return -ENOMEM;
  atomic_store(&own->room, FS_TRACE_PIECE);
  *own->head = (struct fs_trace_head){.magic = FS_TRACE_MAGIC,
                                      .version = FS_TRACE_VERSION,
                                      .pid = (uint32_t)fs_sys_getpid(),
                                      .ppid = (uint32_t)FS_SYS0(SYS_getppid),
                                      .realtime_ns = fs_clock_ns(CLOCK_REALTIME),
                                      .monotonic_ns = fs_now_ns()};
  memcpy(own->head->host, host, strnlen(host, sizeof(((struct utsname *)0)->nodename) - 1));
  atomic_store(&own->head->used, sizeof(struct fs_trace_head));
  return 0;
}

/* Makes this process's segment. If two threads do, one removes its own. */
static __attribute__((noinline)) struct fs_trace_own *begin_segment(struct fs_self *self) {
  struct utsname name = {0};
  void *winner = NULL;
  if (!fs_self_owner()) return NULL; /* a vfork child */
  struct fs_trace_own *own = fs_mem_map(sizeof(*own));
  if (!own) return NULL;
  (void)FS_SYS1(SYS_uname, &name);
  FS_AUTO_CLOSE fs_fd fd = make_file(own->path, name.nodename);
  fs_err err = fd < 0 ? fd : fill_file(own, fd, name.nodename);
  if (err == 0 && fs_publish_ptr(&self->trace, own, &winner)) return own;
  if (fd >= 0) (void)FS_SYS3(SYS_unlinkat, AT_FDCWD, own->path, 0);
  const char *why = err == -EOPNOTSUPP ? "its file system cannot reserve room; name a local file"
                    : err == -EFBIG    ? "the limit for files (ulimit -f) is below 4 MiB"
                                       : fs_err_text(err);
  if (err != 0 && atomic_exchange(&fs_trace_on, 0) != 0)
    FS_NOTE(FS_ENV_TRACE, "=", g_file, ": no trace is written: ", why);
  if (own->head) fs_mem_unmap(own->head, own->mapped);
  fs_mem_unmap(own, sizeof(*own));
  return winner;
}

/* Has the disk keep room up to `end`. Several threads may do so for the same piece. */
static __attribute__((noinline)) bool more_room(struct fs_trace_own *own, uint64_t end) {
  uint64_t room = atomic_load(&own->room);
  if (end > own->size || !fs_self_owner()) return false;
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(AT_FDCWD, own->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
  while (end > room) {
    uint64_t next = fs_round_up(room + 1, FS_TRACE_PIECE);
    if (fd < 0 || FS_SYS4(SYS_fallocate, fd, 0, room, next - room) != 0) {
      own->size = room; /* nobody tries again */
      return false;
    }
    if (atomic_compare_exchange_strong(&own->room, &room, next)) room = next;
  }
  return true;
}

/* Takes room for a record. Returns NULL if there is none. */
static struct fs_trace_record *take(uint32_t size) {
  struct fs_self *self = fs_self();
  struct fs_trace_own *own = atomic_load_explicit(&self->trace, memory_order_acquire);
  if (FS_UNLIKELY(own == NULL)) own = begin_segment(self);
  if (own == NULL) return NULL;
  uint64_t at = atomic_fetch_add_explicit(&own->head->used, size, memory_order_relaxed);
  if (FS_LIKELY(at + size <= atomic_load_explicit(&own->room, memory_order_acquire)) || more_room(own, at + size))
    return (struct fs_trace_record *)((char *)own->head + at);
  atomic_fetch_sub_explicit(&own->head->used, size, memory_order_relaxed);
  atomic_fetch_add_explicit(&own->head->lost, 1, memory_order_relaxed);
  return NULL;
}

/* Returns a number that no other living thread of this process has. */
static uint32_t this_thread(void) {
  static FS_TLS char here;
  return (uint32_t)((uintptr_t)&here >> 6);
}

void fs_trace_add(const struct fs_traced *c, uint64_t begin_ns, int64_t result) {
  uint64_t ns = fs_now_ns() - begin_ns;
  size_t len = c->path ? strnlen(c->path, PATH_MAX) : 0;
  uint32_t size = (uint32_t)fs_round_up(sizeof(struct fs_trace_record) + len, 8);
  struct fs_trace_record *r = take(size);
  if (r == NULL) return;
  r->call = (uint8_t)c->call;
  r->place = (uint8_t)FS_MIN(c->place, FS_TRACE_NO_PLACE);
  r->path_len = (uint16_t)len;
  r->mount_len = (uint16_t)c->mount_len;
  r->thread = this_thread();
  r->handle = c->handle;
  r->begin_ns = begin_ns;
  r->ns = ns;
  r->result = result;
  r->off = c->off;
  r->n = c->n;
  if (len > 0) memcpy(r + 1, c->path, len);
  atomic_store_explicit(&r->size, size, memory_order_release);
}

void fs_trace_add_name(struct fs_traced *c, uint32_t mount, uint32_t dir, const char *name, size_t len,
                       uint64_t begin_ns, int64_t result) {
  char path[PATH_MAX];
  fs_ssize n = fs_path_of(mount, dir, path, sizeof(path));
  if (n > 0 && (size_t)n + len + 2 <= sizeof(path)) {
    if (len > 0) path[n++] = '/';
    memcpy(path + n, name, len);
    path[(size_t)n + len] = '\0';
    c->path = path;
    (void)fs_mount_path(fs_mount_canonical(mount), &c->mount_len);
  }
  fs_trace_add(c, begin_ns, result);
}

/* Other threads go on, and may be about to write a record. A page behind the file's end cannot be
   written, so memory takes the place of these pages. */
void fs_trace_leave(void) {
  struct fs_trace_own *own = atomic_load(&fs_self()->trace);
  if (own == NULL || !fs_self_owner()) return;
  atomic_store(&fs_trace_on, 0);
  own->size = 0; /* no more room */
  uint64_t used = FS_MIN(atomic_load(&own->head->used), atomic_load(&own->room));
  uint64_t keep = FS_MIN(fs_round_up(used, getauxval(AT_PAGESZ)), own->mapped);
  if (keep < own->mapped &&
      fs_sys_mmap_failed(fs_sys_mmap((char *)own->head + keep, own->mapped - keep, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0)))
    return;
  (void)FS_SYS2(SYS_truncate, own->path, used);
}
