/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output files of this node: how they are made, tracked while they are open for writing, and
 * published (outputs.h). The bytes come first, then the name, so that no name is ever without them.
 * A process that dies in between leaves a file without a name, which the end of the job removes.
 *
 * A tracked descriptor has FS_FDE_OUTPUT in its entry of the table, and its file's directory and id
 * here. A missing note, after exec or in a child that vfork has made, does no harm: the node's
 * daemon sees the kernel's close.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/data_priv.h"
#include "client/fd/fdpool.h"
#include "client/names/overlay.h"
#include "client/outputs/segment.h"

/* The notes, by descriptor. Untouched pages cost nothing. */
static struct {
  _Atomic uint64_t dir, id; /* dir 0: not known */
  _Atomic int32_t process;  /* the process that opened it: a child has a copy */
  _Atomic uint32_t slot;    /* of the new file's record in shared memory; 0: none */
  _Atomic uint64_t changed; /* when the published file had changed last, in ns; 0: not known */
  _Atomic uint32_t shares;  /* fs_fd_shares then */
} noted[FS_FD_MAX];

/* ---- notes ---- */

static void note(int fd, uint64_t dir, uint64_t id, uint32_t slot) {
  if (fd < 0 || (uint32_t)fd >= FS_FD_MAX || fs_vfork_depth > 0) return;
  atomic_store_explicit(&noted[fd].dir, dir, memory_order_relaxed);
  atomic_store_explicit(&noted[fd].id, id, memory_order_relaxed);
  atomic_store_explicit(&noted[fd].process, fs_self_process(), memory_order_relaxed);
  atomic_store_explicit(&noted[fd].slot, slot, memory_order_relaxed);
  atomic_store_explicit(&noted[fd].changed, 0, memory_order_relaxed);
  fs_fd_note_high(fd);
  atomic_store_explicit(&fs_fdtab[fd], FS_FDE_OUTPUT, memory_order_release);
}

_Atomic bool fs_output_staged_in_any;

static void note_staged(int fd) {
  if (fd < 0 || (uint32_t)fd >= FS_FD_MAX || fs_vfork_depth > 0) return;
  atomic_store_explicit(&fs_output_staged_in_any, true, memory_order_relaxed);
  fs_fd_note_high(fd);
  atomic_store_explicit(&fs_fdtab[fd], FS_FDE_STAGED, memory_order_release);
}

bool fs_output_staged_in_path(const char *path) {
  const char *rest = "";
  if (fs_bad_address(path)) return false;
  int fd = fs_fd_of_name(path, &rest);
  return fd >= 0 && rest[0] == '\0' && fs_output_staged_in(fs_fd_entry(fd));
}

uint64_t fs_output_tracked_id(int fd) {
  return fs_output_tracked(fs_fd_entry(fd)) ? atomic_load_explicit(&noted[fd].id, memory_order_relaxed) : 0;
}

bool fs_output_is_own(int fd) {
  return fs_output_tracked(fs_fd_entry(fd)) && atomic_load_explicit(&noted[fd].dir, memory_order_relaxed) != 0;
}

void fs_output_copied(int fd, int copy) {
  uint64_t e = fs_fd_entry(fd);
  if (fd == copy) return;
  if (fs_output_staged_in(e)) note_staged(copy);
  if (!fs_output_tracked(e)) return;
  note(copy, atomic_load_explicit(&noted[fd].dir, memory_order_relaxed),
       atomic_load_explicit(&noted[fd].id, memory_order_relaxed),
       atomic_load_explicit(&noted[fd].slot, memory_order_relaxed));
}

/* ---- publishing ---- */

/*
 * Returns whether close may leave a new file to the daemon. As long as its record is not published,
 * other nodes ask this one for its size and times, so nobody sees old ones. They do not ask for the
 * mode. The daemon publishes the file when it finds that nobody has it open. With replicas, close
 * waits for them.
 */
static bool is_left(int fd, uint64_t dir, uint64_t id, uint32_t mode) {
  uint32_t slot = atomic_load_explicit(&noted[fd].slot, memory_order_relaxed);
  if (atomic_load(&fs_output_maps) > 0) return false; /* a mapping may keep it open */
  struct fs_record r;
  return fs_output_record_at(slot, id, &r) && r.dir == dir && !(r.flags & FS_RECORD_PUBLISHED) && r.mode == mode &&
         !(fs_names_node()->ctl->flags & FS_CTL_REPLICAS);
}

static uint64_t changed_at(const struct stat *st) {
  return (uint64_t)st->st_ctim.tv_sec * FS_NSEC + (uint64_t)st->st_ctim.tv_nsec;
}

/* Returns whether the record of a file says what the file is. */
static bool is_right(const struct fs_record *r, const struct stat *st) {
  return (r->flags & (FS_RECORD_PUBLISHED | FS_RECORD_SHARED)) == FS_RECORD_PUBLISHED &&
         (uint64_t)st->st_size == r->size && st->st_mode == r->mode && st->st_mtim.tv_sec == r->mtime &&
         (uint32_t)st->st_mtim.tv_nsec == r->mtime_ns;
}

/* Returns when a file that was just opened had changed last, if each later change will give another
   time: that time is in the past, and the file system is known for it. Otherwise returns 0. */
static uint64_t quiet_since(const struct stat *st) {
  const struct fs_node *node = fs_names_node();
  bool told = node != NULL && (node->ctl->flags & (FS_CTL_CTIME | FS_CTL_REPLICAS)) == FS_CTL_CTIME;
  bool past = changed_at(st) < fs_clock_ns(CLOCK_REALTIME_COARSE);
  return told && past && st->st_ctim.tv_nsec != 0 ? changed_at(st) : 0; /* old ext4 counts in seconds */
}

/* Returns whether nobody has changed the file since this descriptor was opened and its record was
   right. Stores through a mapping need not change the time: neither this process nor one that could
   inherit the descriptor has one. */
static bool is_unchanged(int fd, const struct stat *st) {
  uint64_t changed = atomic_load_explicit(&noted[fd].changed, memory_order_relaxed);
  return changed != 0 && changed == changed_at(st) && atomic_load(&fs_output_maps) == 0 &&
         atomic_load_explicit(&noted[fd].shares, memory_order_relaxed) == atomic_load(&fs_fd_shares);
}

/* Returns whether nobody asks for the attributes in records while the job runs (docs/internals/output-bytes.md, "A
   job of one node"). */
static bool is_alone(void) {
  const struct fs_node *node = fs_names_node();
  return node != NULL && (node->ctl->flags & FS_CTL_ALONE);
}

static fs_err publish_until(int fd, bool synced, uint64_t end) {
  struct stat st;
  if (!fs_output_tracked(fs_fd_entry(fd))) return 0;
  uint64_t dir = atomic_load_explicit(&noted[fd].dir, memory_order_relaxed), was = dir;
  uint64_t id = atomic_load_explicit(&noted[fd].id, memory_order_relaxed);
  if ((!synced && is_alone() && fs_names_tell(id)) || fs_sys_fstat(fd, &st) != 0) return 0;
  if (!synced && (is_left(fd, dir, id, st.st_mode) || is_unchanged(fd, &st))) return 0;
  fs_err err = dir == 0 ? fs_output_sync(id, (uint64_t)st.st_size, end)
                        : fs_output_tell(&dir, id, &st, synced ? FS_PUBLISH_DURABLE : 0);
  if (dir != was) atomic_compare_exchange_strong(&noted[fd].dir, &was, dir);
  return err;
}

fs_err fs_output_publish(int fd) {
  return publish_until(fd, false, UINT64_MAX);
}

fs_err fs_output_publish_synced(int fd) {
  return publish_until(fd, true, UINT64_MAX);
}

/* Returns the id of a tracked descriptor that came from elsewhere and so may be a forwarder, or
   0. */
static uint64_t forwarder_maybe(int fd) {
  if (FS_LIKELY(!fs_output_tracked(fs_fd_entry(fd))) || fs_vfork_depth > 0) return 0;
  if (atomic_load_explicit(&noted[fd].dir, memory_order_relaxed) != 0) return 0;
  return atomic_load_explicit(&noted[fd].id, memory_order_relaxed);
}

fs_err fs_output_real_cut(int fd, int64_t size) {
  uint64_t id = size >= 0 ? forwarder_maybe(fd) : 0;
  return id == 0 ? 0 : fs_output_forwarder_cut(fd, id, (uint64_t)size);
}

fs_err fs_output_real_seek(int fd, int64_t off, int whence) {
  uint64_t id = forwarder_maybe(fd);
  return id == 0 ? 0 : fs_output_forwarder_seek(fd, id, off, whence);
}

/* Other nodes see the attributes of a descriptor that can be written when they see its bytes: at
   close. */
fs_err fs_output_real_set(int fd, struct fs_found *f) {
  f->out.id = 0;
  if (fs_mount_count() == 0 || fs_mounts_read_only() || !fs_run_set() || fs_vfork_depth > 0) return 0;
  bool written = fs_output_tracked(fs_fd_entry(fd));
  uint64_t id = written ? forwarder_maybe(fd) : fs_output_real_id(fd);
  fs_err err = id == 0 ? 0 : fs_output_forwarded(fd, id, &f->entry);
  if (err == 0 && !written) f->out.id = id;
  if (err > 0 && !written) fs_output_note_real(fd); /* fd came by exec */
  return err;
}

fs_err fs_output_real_was_set(int fd, const struct fs_found *f) {
  uint32_t unused;
  return f->out.id == 0 ? 0 : fs_output_forwarded(fd, f->out.id, &unused);
}

static fs_err publish_record(const struct fs_record *r, int at, const char *path) {
  struct stat st;
  uint64_t dir = r->dir;
  if (is_alone() && fs_names_tell(r->id)) return 0;
  if (fs_sys_fstatat(at, path, &st, AT_EMPTY_PATH) != 0) return 0;
  return fs_output_tell(&dir, r->id, &st, 0);
}

fs_err fs_output_publish_path(const struct fs_record *r, const char *path) {
  return publish_record(r, AT_FDCWD, path);
}

/* Publishes what the process has written, and tells the user of an error: no call is left that
   could return it. */
static void flush_or_tell(uint32_t entry) {
  char id[FS_U64_TEXT];
  fs_err err = fs_output_flush(entry, false);
  if (err != 0)
    FS_NOTE("output file ", fs_u64_text(fs_output_id(entry), id), ": what this process wrote is lost (",
            fs_err_text(err), ")");
}

static void publish_each(bool own, uint64_t end) {
  uint32_t high = atomic_load(&fs_fdtab_high);
  fs_use_reap();
  for (uint32_t fd = 0; fd < high && fs_now_ns() < end; fd++) {
    FS_USE(u);
    uint64_t e = fs_fd_entry((int)fd);
    const struct fs_slot *s = e & FS_FDE_VIRTUAL ? fs_fd_use((int)fd, &u) : NULL;
    bool mine = !own || atomic_load_explicit(&noted[fd].process, memory_order_relaxed) == fs_self_process();
    if (fs_output_tracked(e) && mine) (void)publish_until((int)fd, false, end);
    if (s != NULL && fs_slot_writable(s) == 0) flush_or_tell(s->entry);
  }
}

void fs_output_publish_all(void) {
  if (fs_vfork_depth > 0) return;
  publish_each(false, UINT64_MAX);
  if (atomic_load(&fs_output_maps) > 0) (void)fs_output_map_sync(NULL, UINTPTR_MAX, true);
}

void fs_output_leave(void) {
  const struct fs_node *node = atomic_load(&fs_fdtab_high) > 0 ? fs_names_node() : NULL;
  if (node == NULL) return;
  publish_each(true, fs_now_ns() + 2 * node->deadline_ns);
  if (atomic_load(&fs_output_maps) > 0) (void)fs_output_map_sync(NULL, UINTPTR_MAX, true);
}

/* Tells the daemon that the file is open for writing, so that it publishes the file once a second. If
   its record may be out of date, waits until it is right. */
static void tell_open(uint64_t id, bool right) {
  const struct fs_names_call c = {.op = FS_NAMES_SYNC, .flags = FS_SYNC_LOOK, .sync.id = id};
  char body[sizeof(struct fs_forwarded)];
  size_t n;
  if (!right || !fs_names_tell(id)) (void)fs_names_call(&c, "", "", body, sizeof(body), &n);
}

/* If a file was emptied through a descriptor that only reads, the daemon sees no close of it, so it
   is told at once. An error is left to close. */
void fs_output_opened(int fd, int flags, const struct fs_record *r) {
  bool path = (flags & O_PATH) != 0;
  bool writes = (flags & O_ACCMODE) != O_RDONLY && !path, cut = (flags & O_TRUNC) && !path;
  struct stat st;
  uint32_t shares = atomic_load(&fs_fd_shares);
  bool alone = writes && is_alone(), known = writes && !alone && !cut && fs_sys_fstat(fd, &st) == 0;
  bool right = known && is_right(r, &st);
  uint64_t quiet = right ? quiet_since(&st) : 0;
  if (writes) tell_open(r->id, right || alone);
  if (writes || cut)
    note(fd, r->dir, r->id, 0);
  else if (r->flags & FS_RECORD_STAGED_IN)
    note_staged(fd);
  if (quiet != 0 && fs_output_tracked_id(fd) == r->id) {
    atomic_store_explicit(&noted[fd].shares, shares, memory_order_relaxed);
    atomic_store_explicit(&noted[fd].changed, quiet, memory_order_relaxed);
  }
  if (cut && !writes) (void)publish_record(r, fd, "");
}

/* Stores through a mapping of the descriptor need not change the file's times: close publishes it. */
void fs_output_note_mapped(int fd) {
  if (fs_output_tracked_id(fd) != 0) atomic_store_explicit(&noted[fd].changed, 0, memory_order_relaxed);
}

/* ---- making one ---- */

/* Opens as a wrapper does: the lowest number is the program's. */
static fs_fd open_lowest(const char *path, int flags, mode_t mode) {
  if (atomic_load_explicit(&fs_pool_maybe, memory_order_relaxed)) fs_fd_make_lowest(1);
  fs_fd fd = fs_sys_openat(AT_FDCWD, path, flags, mode);
  if (fd == -EMFILE && fs_fd_pool_drop()) fd = fs_sys_openat(AT_FDCWD, path, flags, mode);
  if (fd >= 0) fs_fd_is_real(fd);
  return fd;
}

/* The directory of the backing files is the daemon's and goes with it. If the daemon is there, this
   program sees other files than its daemon does. Tells this once. */
static fs_fd backing_unseen(const struct fs_node *node) {
  static _Atomic uint32_t told;
  if (node && fs_node_alive(node) && !atomic_exchange(&told, 1))
    FS_NOTE("the job's local directory (", node->ctl->backing, ") does not exist for this program (a container?): ",
            "output files are EIO; bind what fs-launch env --container prints, or give fs-launch a --local-dir that ",
            "both see");
  return -EIO;
}

/* Makes a number and its backing file. Nobody else has the name, except if a signal handler has
   forked between the two: then the child or the parent may. */
static fs_fd new_backing(uint64_t *id, char path[PATH_MAX], int flags, mode_t mode) {
  fs_fd fd;
  do {
    fs_err err = (*id = fs_names_id()) == 0 ? -EIO : fs_output_path(fs_names_node(), *id, path);
    if (err != 0) return err;
    fd = open_lowest(path, (flags & ~O_NOFOLLOW) | O_CREAT | O_EXCL, mode & 07777);
  } while (fd == -EEXIST);
  return fd == -ENOENT ? backing_unseen(fs_names_node()) : fd;
}

fs_fd fs_output_create(struct fs_found *f, int flags, mode_t mode) {
  char path[PATH_MAX];
  struct stat st;
  struct fs_answer a;
  const struct fs_record *r;
  struct fs_names_call c = {.op = FS_NAMES_CREATE, .tail_len = (uint16_t)f->name_len};
  if (f->last != FS_LAST_NAME) return -EISDIR;
  fs_err err = fs_output_may_make(f, &c.create.dir);
  if (err == -EACCES) return fs_output_refused(f, c.create.dir, true);
  if (err == 0 && fs_output_full()) return fs_output_refused(f, c.create.dir, true) == -EEXIST ? -EEXIST : -EDQUOT;
  if (err != 0) return err;
  fs_fd fd = new_backing(&c.create.id, path, flags, mode);
  err = fd < 0 ? fd : fs_sys_fstat(fd, &st);
  if (err != 0) return err;
  c.flags = fs_overlay_kind(f) == FS_OVERLAY_FILE ? FS_CREATE_TAKES : 0;
  c.create.mode = st.st_mode;
  c.create.mtime = st.st_mtim.tv_sec;
  c.create.mtime_ns = (uint32_t)st.st_mtim.tv_nsec;
  err = fs_names_ask(&c, f->name, "", &a, &r);
  if (err == -EEXIST && r != NULL && r->id == c.create.id)
    err = 0; /* made by the process that forked in here, or its child */
  if (err == 0) {
    note(fd, c.create.dir, c.create.id, is_alone() ? 0 : fs_output_slot(c.create.dir, f->name, f->name_len));
    return fd;
  }
  fs_sys_close(fd);
  fs_fd_freed(fd);
  if (err == -EEXIST && r != NULL) f->out = *r;
  if (err != -EIO) FS_SYS3(SYS_unlinkat, AT_FDCWD, path, 0); /* the name may exist */
  return err;
}
