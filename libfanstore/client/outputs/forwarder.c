/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output files of other nodes as files of the kernel's that can be written (outputs.h): as standard
 * output, and for programs without the library. Such a forwarder is a backing file of its own, and
 * the daemon knows to which file its bytes belong. What is written there goes on to that file,
 * while the forwarder is open and when it is closed (docs/internals/several-writers.md).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "client/data_priv.h"
#include "client/outputs/segment.h"

/* Makes the call until the daemon is done: it answers EAGAIN while it makes progress. */
static fs_err sync_until(const struct fs_call_sync *sync, uint32_t flags, uint64_t end, struct fs_forwarded *of) {
  struct fs_names_call c = {.op = FS_NAMES_SYNC, .flags = flags, .sync = *sync};
  size_t n = 0;
  fs_err err;
  c.sync.upto = FS_MIN(sync->upto, FS_RECORD_SEQ_MAX);
  do {
    err = fs_names_call(&c, "", "", of, sizeof(*of), &n);
  } while (err == -EAGAIN && fs_now_ns() < end);
  if (err != 0 || n < sizeof(*of)) of->file = 0; /* it is no forwarder */
  return err;
}

fs_err fs_output_sync(uint64_t id, uint64_t size, uint64_t end) {
  struct fs_forwarded of;
  return sync_until(&(struct fs_call_sync){.id = id, .upto = size}, 0, end, &of);
}

/* Cuts or extends the file whose forwarder fd is. The caller does the same to the forwarder, unless
   its present bytes would be appended. */
fs_err fs_output_forwarder_cut(int fd, uint64_t id, uint64_t size) {
  struct stat st;
  struct fs_forwarded of;
  if (fs_sys_fstat(fd, &st) != 0) return 0; /* the kernel's call gives the error */
  const struct fs_call_sync sync = {.id = id, .upto = (uint64_t)st.st_size, .size = size};
  fs_err err = sync_until(&sync, FS_SYNC_CUT, UINT64_MAX, &of);
  if (err != 0) return err;
  return of.file != 0 && size > 0 && of.append != 0 ? 1 : 0;
}

/* The daemon is told of a move, because the bytes that it passes over are not written, and a gap
   has no bounds but those of blocks. */
fs_err fs_output_forwarder_seek(int fd, uint64_t id, int64_t off, int whence) {
  struct stat st;
  struct fs_forwarded of;
  int64_t now = (int64_t)FS_SYS3(SYS_lseek, fd, 0, SEEK_CUR);
  if (now < 0 || fs_sys_fstat(fd, &st) != 0 || (fs_sys_fcntl(fd, F_GETFL, 0) & O_APPEND)) return 0;
  if (whence != SEEK_SET && whence != SEEK_CUR && whence != SEEK_END) return 0;
  int64_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? now : st.st_size, to;
  if (__builtin_add_overflow(from, off, &to) || to < 0 || to == now) return 0;
  const struct fs_call_sync sync = {.id = id, .upto = (uint64_t)st.st_size, .size = (uint64_t)to};
  return sync_until(&sync, FS_SYNC_SEEK, UINT64_MAX, &of);
}

/* Returns the number of the file with its present mode, which nobody knows if the file was
   removed. */
static int64_t number_of(const struct fs_forwarded *of) {
  struct fs_answer a;
  const struct fs_record *r;
  struct fs_record known = {.id = of->file, .dir = of->dir, .mode = S_IFREG | 0600};
  struct fs_names_call c = {.op = FS_NAMES_LOOKUP,
                            .lookup = {.id = of->file, .dir = of->dir != 0 ? of->dir : of->file}};
  fs_err err = fs_output_ask_id(&c, &a, &r);
  if (err == 0 && r == NULL) err = -EIO;
  if (err != 0 && err != -ENOENT) return err;
  return fs_output_number(err == 0 ? r : &known, FS_OUTPUT_PARENT_AS_IS);
}

fs_err fs_output_forwarded(int fd, uint64_t id, uint32_t *entry) {
  struct stat st;
  struct fs_forwarded of;
  if (fs_sys_fstat(fd, &st) != 0) return 0;
  const struct fs_call_sync sync = {.id = id, .upto = (uint64_t)st.st_size};
  fs_err err = sync_until(&sync, FS_SYNC_LOOK, UINT64_MAX, &of);
  if (err != 0 || of.file == 0) return err;
  int64_t number = number_of(&of);
  if (number < 0) return (fs_err)number;
  *entry = (uint32_t)number;
  return 1;
}

/* Opens a file of this node to append: the bytes go to its backing file, as other programs' bytes
   do. Returns -ELOOP if the backing file is still a link to a file of --stage-in. */
static fs_fd open_own(const struct fs_node *node, uint64_t id) {
  char path[PATH_MAX];
  fs_err err = fs_output_path(node, id, path);
  return err != 0 ? err : fs_sys_openat(AT_FDCWD, path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0);
}

static fs_fd open_new(const struct fs_node *node, uint64_t to, uint64_t dir, bool append, uint64_t off) {
  char path[PATH_MAX];
  uint64_t id = fs_names_id();
  fs_err err = id == 0 ? -EIO : fs_output_path(node, id, path);
  if (err != 0) return err;
  fs_fd fd = fs_sys_openat(AT_FDCWD, path, O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL | (append ? O_APPEND : 0), 0600);
  if (fd < 0) return fd;
  const struct fs_names_call c = {.op = FS_NAMES_FORWARD,
                                  .flags = append ? FS_FORWARDER_APPEND : 0,
                                  .forwarder = {.id = id, .file = to, .dir = dir, .off = append ? 0 : off}};
  char body[8];
  size_t n;
  err = fs_names_call(&c, "", "", body, sizeof(body), &n);
  if (err == 0 && off > 0 && !append) FS_SYS3(SYS_lseek, fd, off, SEEK_SET);
  if (err == 0) return fd;
  fs_sys_close(fd);
  FS_SYS3(SYS_unlinkat, AT_FDCWD, path, 0);
  return err;
}

fs_fd fs_output_forwarder(uint32_t entry, uint32_t flags, uint64_t off) {
  const struct fs_node *node = fs_names_node();
  uint64_t to = fs_output_id(entry), dir = atomic_load_explicit(&fs_output_node(entry)->dir, memory_order_relaxed);
  bool append = flags & O_APPEND;
  if ((flags & O_ACCMODE) == O_RDONLY) return -EOPNOTSUPP;
  fs_err err = node == NULL ? -EIO : fs_output_at_home(entry);
  if (err == FS_E_REAL) return fs_output_copy(entry, flags);
  if (err == 0) err = fs_output_flush(entry, false);
  if (err != 0) return err;
  bool here = append && FS_OUTPUT_ID_RANK(to) == fs_names_rank(node);
  fs_fd fd = here ? open_own(node, to) : -ELOOP;
  return fd == -ELOOP ? open_new(node, to, dir, append, off) : fd;
}

/* Parses "<backing directory>/out/<id>" by its end, and sets *dir to the length of "<backing
   directory>". */
static uint64_t id_of(const char *path, size_t n, size_t *dir) {
  const size_t tail = sizeof("/" FS_OUTPUT_DIR "/") - 1 + 16;
  uint64_t id = 0;
  if (n <= tail || memcmp(path + n - tail, "/" FS_OUTPUT_DIR "/", tail - 16) != 0) return 0;
  for (const char *p = path + n - 16; p < path + n; p++) {
    if ((*p < '0' || *p > '9') && (*p < 'a' || *p > 'f')) return 0;
    id = id << 4 | (uint64_t)(*p <= '9' ? *p - '0' : *p - 'a' + 10);
  }
  *dir = n - tail;
  return id;
}

/* Reads where a descriptor leads, and returns the length, or 0. */
static size_t link_of(int fd, char link[PATH_MAX]) {
  char name[40] = "/proc/self/fd/", number[FS_U64_TEXT];
  strcat(name, fs_u64_text((uint64_t)fd, number));
  long n = FS_SYS4(SYS_readlinkat, AT_FDCWD, name, link, PATH_MAX);
  if (n <= 0 || n == PATH_MAX) return 0;
  link[n] = '\0';
  return (size_t)n;
}

uint64_t fs_output_real_id(int fd) {
  char link[PATH_MAX];
  size_t dir;
  uint64_t id = id_of(link, link_of(fd, link), &dir);
  const struct fs_node *node = id == 0 ? NULL : fs_names_node();
  if (node == NULL || strlen(node->ctl->backing) != dir || memcmp(node->ctl->backing, link, dir) != 0) return 0;
  return id;
}

void fs_output_note_real(int fd) {
  int64_t status = fs_sys_fcntl(fd, F_GETFL, 0);
  if (status < 0 || (status & O_ACCMODE) == O_RDONLY || (status & O_PATH)) return;
  uint64_t id = fs_output_real_id(fd);
  if (id != 0) fs_output_opened(fd, O_WRONLY, &(struct fs_record){.id = id});
}

bool fs_output_copy_link(const char *link) {
  static const char memory[] = "/memfd:fanstore-output", nameless[] = "/#";
  const struct fs_node *node = fs_names_node();
  if (node == NULL) return false;
  size_t dir = strlen(node->ctl->backing);
  if (strncmp(link, memory, sizeof(memory) - 1) == 0) return true;
  return strncmp(link, node->ctl->backing, dir) == 0 && strncmp(link + dir, nameless, sizeof(nameless) - 1) == 0;
}

static bool is_copy(int fd) {
  char link[PATH_MAX];
  struct stat st;
  if (fs_sys_fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink != 0) return false;
  return link_of(fd, link) > 0 && fs_output_copy_link(link);
}

fs_err fs_output_real_lock(int fd) {
  uint32_t entry;
  if (fs_mount_count() == 0 || fs_mounts_read_only() || !fs_run_set() || fs_vfork_depth > 0) return 0;
  int64_t status = fs_sys_fcntl(fd, F_GETFL, 0);
  if (status < 0) return 0;
  if ((status & O_ACCMODE) != O_WRONLY) return is_copy(fd) ? -ENOLCK : 0;
  uint64_t id = fs_output_is_own(fd) ? 0 : fs_output_real_id(fd);
  return id != 0 && fs_output_forwarded(fd, id, &entry) == 1 ? -ENOLCK : 0;
}
