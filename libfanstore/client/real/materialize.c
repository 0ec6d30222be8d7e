/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes real files for what needs one: mmap of a compressed or remote file, exec, and descriptors
 * that leave the library. With a daemon they lie in the job's backing directory on this node, or in
 * memory if that is full, and are removed with the job. A mapping gets the node's copy, of which
 * its part is filled (copies.c). A descriptor that leaves the library gets a whole file: one
 * process makes it while the others wait, and it is complete once it has its name. Without a daemon
 * mappings share a directory of their own (alone.c), and a whole file is anonymous. See
 * docs/internals/read-path.md, "Real files".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "client/outputs/outputs.h"
#include "client/real/making.h"
#include "ipc/node.h"
#include "util/util.h"

#define FS_FILL_BYTES (2u << 20) /* eight blocks of the default size: one fetch */
#define FS_PROC_FD 32

static bool fs_has_backing(const struct fs_dataset *ds) {
  return ds->node && ds->node->ctl->backing[0] == '/';
}

static char *fs_proc_fd(int fd, char out[FS_PROC_FD]) {
  char number[FS_U64_TEXT];
  strcpy(out, "/proc/self/fd/");
  return strcat(out, fs_u64_text((uint64_t)fd, number));
}

/* ---- making one ---- */

fs_err fs_making_fill(struct fs_making *m, int fd, uint64_t from, uint64_t to) {
  size_t step = FS_MAX(FS_FILL_BYTES, m->ds->ix.block_size);
  uint8_t *buf = fs_mem_map(step);
  fs_err err = buf ? 0 : -ENOMEM;
  for (uint64_t done = from; err == 0 && done < to;) {
    fs_ssize n = fs_data_read(m->ds->mount, m->entry, buf, FS_MIN(step, to - done), done, NULL);
    if (n <= 0) m->unreadable = true;
    if (n > 0) err = fs_pwrite_full(fd, buf, (size_t)n, done);
    if (n <= 0) err = n < 0 ? (fs_err)n : -EIO;
    done += n > 0 ? (uint64_t)n : 0;
    if (m->progress >= 0) FS_SYS2(SYS_ftruncate, m->progress, done);
  }
  fs_mem_unmap(buf, step);
  return err;
}

static fs_err fs_fill(struct fs_making *m, int fd) {
  fs_err full = (fs_err)FS_SYS4(SYS_fallocate, fd, 0, 0, m->size);
  return fs_is_full(full) ? full : fs_making_fill(m, fd, 0, m->size);
}

/* Returns a read-only descriptor of the file behind a writable one, and closes the writable one. */
static fs_fd fs_read_only(int fd) {
  char proc[FS_PROC_FD];
  if (fd < 0) return fd;
  fs_fd ro = fs_sys_openat(AT_FDCWD, fs_proc_fd(fd, proc), O_RDONLY | O_CLOEXEC, 0);
  if (ro < 0) return fd; /* without /proc the writable one has to do */
  fs_sys_close(fd);
  return ro;
}

bool fs_memory_holds(const struct fs_node *node, uint64_t bytes) {
  FS_AUTO_CLOSE fs_fd fd = fs_open_read(FS_MEMINFO);
  uint64_t most = fs_mem_available(fd);
  if (node && node->ctl->memory_limit > 0) most = FS_MIN(most, node->ctl->memory_limit);
  return most == 0 || bytes <= most / 2; /* 0: not known */
}

static fs_fd fs_make_anonymous(struct fs_making *m, const char *dir) {
  if (!dir && !fs_memory_holds(m->ds->node, m->size)) return -ENOSPC;
  FS_AUTO_CLOSE fs_fd fd = dir ? fs_sys_openat(AT_FDCWD, dir, O_TMPFILE | O_RDWR | O_CLOEXEC, m->mode)
                               : (fs_fd)FS_SYS2(SYS_memfd_create, "fanstore", MFD_CLOEXEC);
  if (fd < 0) return fd;
  if (!dir) FS_SYS2(SYS_fchmod, fd, m->mode);
  fs_err err = fs_fill(m, fd);
  if (err < 0) return err;
  fs_count(FS_C_MATERIALIZED, 1);
  return FS_MOVE_FD(fd);
}

/* ---- the node's ---- */

fs_err fs_making_path(const struct fs_making *m, const char *dir, const struct fs_made_of *of, char ending, char *out) {
  char name[4 * FS_U64_TEXT + 5], number[FS_U64_TEXT];
  strcpy(name, fs_u64_text(m->number, number));
  strcat(name, "-");
  strcat(name, fs_u64_text(m->entry, number));
  if (of) {
    strcat(strcat(name, "-"), fs_u64_text(of->inode, number));
    strcat(strcat(name, "-"), fs_u64_text(of->born, number));
  }
  strcat(name, (char[]){'.', ending, '\0'});
  return fs_join(out, dir, name);
}

fs_fd fs_making_open(const struct fs_making *m, const char *path) {
  struct stat st;
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
  if (fd < 0) return fd;
  if (fs_sys_fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != m->size ||
      st.st_uid != (uid_t)FS_SYS1(SYS_geteuid, 0))
    return -EUCLEAN;
  return FS_MOVE_FD(fd);
}

/* Makes the file on a file system without O_TMPFILE, under a name of this thread's own, which goes
   once the final name is there. A thread in another pid namespace may have the same name. So this
   descriptor's file is linked, whatever file has the name by then. */
static fs_fd fs_backing_named(struct fs_making *m, const char *path) {
  char temporary[PATH_MAX], number[FS_U64_TEXT], proc[FS_PROC_FD];
  const char *tid = fs_u64_text((uint64_t)fs_sys_gettid(), number);
  if (strlen(path) + strlen(tid) + 2 > sizeof(temporary)) return -ENAMETOOLONG;
  strcpy(temporary, path);
  strcat(strcat(temporary, "."), tid);
  FS_SYS3(SYS_unlinkat, AT_FDCWD, temporary, 0); /* left by a dead thread of the same number */
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(AT_FDCWD, temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, m->mode);
  if (fd < 0) return fd;
  fs_err err = fs_fill(m, fd);
  if (err == 0) FS_SYS5(SYS_linkat, AT_FDCWD, fs_proc_fd(fd, proc), AT_FDCWD, path, AT_SYMLINK_FOLLOW);
  FS_SYS3(SYS_unlinkat, AT_FDCWD, temporary, 0);
  if (err < 0) return err;
  fs_count(FS_C_MATERIALIZED, 1);
  return FS_MOVE_FD(fd);
}

static fs_fd fs_make_backing(struct fs_making *m, const char *dir, const char *path) {
  char proc[FS_PROC_FD];
  fs_err err = fs_copies_room(m->ds->node, dir, m->size);
  if (err < 0) return err;
  fs_fd fd = fs_make_anonymous(m, dir);
  if (fd >= 0)
    FS_SYS5(SYS_linkat, AT_FDCWD, fs_proc_fd(fd, proc), AT_FDCWD, path, AT_SYMLINK_FOLLOW);
  else if (fd == -EOPNOTSUPP || fd == -EISDIR)
    fd = fs_backing_named(m, path);
  if (fd < 0) return fd;
  /* Use the file that has the name, whoever linked it, so that all share its pages. */
  fs_fd shared = fs_making_open(m, path);
  if (shared < 0) return fs_read_only(fd);
  fs_sys_close(fd);
  return shared;
}

/* Returns the node's whole file. If it is not there, makes it, or waits while another process makes
   progress with it. */
static fs_fd fs_whole(struct fs_making *m, const char *dir) {
  char path[PATH_MAX], lock[PATH_MAX];
  struct stat st = {.st_size = 0};
  int64_t before = -1;
  fs_err err = fs_making_path(m, dir, NULL, FS_MADE_WHOLE, path);
  if (err == 0) err = fs_making_path(m, dir, NULL, FS_MADE_LOCK, lock);
  if (err < 0) return err;
  fs_fd fd = fs_making_open(m, path);
  if (fd >= 0) return fd;
  FS_AUTO_CLOSE fs_fd claim =
      fs_sys_openat(AT_FDCWD, lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (claim < 0) return fs_make_backing(m, dir, path);
  for (unsigned turns = 0; fs_claim(claim, 0) == -EAGAIN && turns < FS_CLAIM_TURNS; turns++) {
    fs_claim_nap();
    if (fs_sys_fstat(claim, &st) != 0 || st.st_size != before) turns = 0;
    before = st.st_size;
  }
  fd = fs_making_open(m, path);
  if (fd < 0) {
    m->progress = claim;
    fd = fs_make_backing(m, dir, path);
    m->progress = -1;
  }
  fs_unclaim(claim, 0); /* a child that was forked meanwhile has this descriptor too */
  return fd;
}

/* ---- the interface ---- */

/* Tells the user once a process, because a program that maps many files would repeat the line. */
static fs_err fs_no_room(const struct fs_making *m, const char *dir) {
  static _Atomic uint32_t told;
  char name[2048], shown[2048], size[32];
  size_t len;
  if (atomic_exchange(&told, 1) != 0) return -ENOSPC;
  fs_ssize n = fs_index_path(&m->ds->ix, m->entry, name, sizeof(name));
  FS_NOTE(fs_mount_path(m->ds->mount, &len), "/",
          n < 0 ? "(a file)" : fs_printable(name, (size_t)n, shown, sizeof(shown)),
          ": mmap, exec and the like need a copy (the file has ", fs_format_size(m->size, size, sizeof(size)),
          "), and neither ", dir, " nor this node's memory has room for it;",
          " pack the dataset with 'fs-prepare pack --codec raw --replicate GLOB' to map such files without a copy");
  return -ENOSPC;
}

/* Makes a file in memory without a name, for this process alone. */
static fs_fd fs_memfd(struct fs_making *m, const char *full) {
  fs_fd fd = fs_make_anonymous(m, NULL);
  if (fd >= 0) return fs_read_only(fd);
  return fs_is_full(fd) ? fs_no_room(m, full) : fd;
}

static fs_fd fs_shared(struct fs_making *m, const char *dir, const struct fs_map_range *r) {
  return r ? fs_copies_get(m, dir, r->from, r->to) : fs_whole(m, dir);
}

/* Makes the file in memory, if the backing directory has no room. The directory is used only if its
   parent is the user's alone. A program or library cannot be run from a file system that is mounted
   noexec, so it gets a file without a name. */
static fs_fd fs_in_memory(struct fs_making *m, const char *backing, const struct fs_map_range *r) {
  char dir[PATH_MAX];
  struct stat st;
  struct statfs fs;
  if (fs_memory_local(dir, sizeof(dir)) < 0 || fs_sys_fstatat(AT_FDCWD, dir, &st, AT_SYMLINK_NOFOLLOW) != 0)
    return -ENOSPC;
  if (!S_ISDIR(st.st_mode) || (st.st_mode & 077) != 0 || st.st_uid != (uid_t)FS_SYS1(SYS_geteuid, 0)) return -ENOSPC;
  if (fs_memory_backing(backing, dir, sizeof(dir)) < 0 || FS_SYS2(SYS_statfs, dir, &fs) != 0) return -ENOSPC;
  if (!r && ((uint64_t)fs.f_flags & ST_NOEXEC)) return fs_read_only(fs_make_anonymous(m, NULL));
  return fs_shared(m, dir, r);
}

/* Makes the file without a daemon, in the first place that has room. Only mappings share files. A
   whole file may be executed, so nobody would know when it is not needed any more. */
static fs_fd fs_without_daemon(struct fs_making *m, const struct fs_map_range *r) {
  for (unsigned i = 0; i < FS_ALONE_BASES; i++) {
    const char *base = fs_alone_base(i), *dir = base && r ? fs_alone_get(m->ds, i) : NULL;
    fs_fd fd = dir ? fs_copies_get(m, dir, r->from, r->to) : -EUCLEAN;
    if (base && i != FS_ALONE_MEMORY && fd < 0 && !fs_is_full(fd) && !m->unreadable)
      fd = fs_read_only(fs_make_anonymous(m, base));
    if (fd >= 0 || m->unreadable) return fd;
  }
  return fs_memfd(m, "the local directory");
}

/* Makes a real file. r is what a mapping is to show. If r is NULL, the descriptor is of the whole
   file and is given away. */
static fs_fd fs_materialize(struct fs_making *m, const struct fs_map_range *r) {
  const char *backing = fs_has_backing(m->ds) ? m->ds->node->ctl->backing : NULL;
  if (!backing) return fs_without_daemon(m, r);
  fs_fd fd = fs_shared(m, backing, r);
  if (fd >= 0 || m->unreadable) return fd;
  if (!fs_is_full(fd)) {
    fd = fs_make_anonymous(m, backing);
    return fd >= 0 ? fs_read_only(fd) : m->unreadable ? fd : fs_memfd(m, backing);
  }
  fd = fs_in_memory(m, backing, r);
  return fd >= 0 || m->unreadable ? fd : fs_no_room(m, backing);
}

fs_err fs_making_set(struct fs_making *m, uint32_t mount, uint32_t entry) {
  fs_err err = 0;
  *m = (struct fs_making){.ds = fs_dataset(mount, &err), .entry = entry, .progress = -1};
  const struct fs_entry *e = m->ds ? fs_index_entry(&m->ds->ix, entry) : NULL;
  if (!e) return m->ds ? -EUCLEAN : err;
  if (!S_ISREG(e->mode) || e->size > INT64_MAX) return -EUCLEAN;
  struct fs_block last; /* a file of exabytes that are nowhere is not worth a try */
  if (e->size > 0 && fs_index_block(&m->ds->ix, entry, fs_index_block_count(&m->ds->ix, e) - 1, &last) < 0)
    return -EUCLEAN;
  m->number = fs_has_backing(m->ds) ? m->ds->number : 0;
  m->size = e->size;
  m->mode = e->mode & 0111 ? 0500 : 0400;
  return 0;
}

fs_fd fs_data_materialize(uint32_t mount, uint32_t entry) {
  struct fs_making m;
  if (fs_is_output(entry)) return fs_output_materialize(entry);
  fs_err err = fs_making_set(&m, mount, entry);
  return err < 0 ? err : fs_materialize(&m, NULL);
}

fs_fd fs_data_materialize_checked(uint32_t mount, uint32_t entry) {
  uint32_t mode;
  fs_err err = fs_entry_mode(mount, entry, &mode);
  if (err != 0) return err;
  if (!S_ISREG(mode)) return -EISDIR;
  return (mode & S_IRUSR) || fs_caller_is_root() ? fs_data_materialize(mount, entry) : -EACCES;
}

bool fs_data_materialized(const char *path, uint32_t *mount, uint32_t *entry) {
  return fs_made_name(path, FS_MADE_WHOLE, mount, entry);
}

/* Returns whether the partition on shared storage can be mapped, without a daemon. What is checked
   before is what is mapped, so it must be all that mremap can show. Such storage is often mounted
   noexec. */
static bool fs_map_shared(const struct fs_making *m, uint64_t off, uint64_t len, bool exec) {
  bool whole = off == 0 && len >= m->size;
  return !m->ds->placement && !exec && (whole || !fs_is_verified(m->ds, FS_CHECK_SHARED));
}

/* Returns whether [off, off + len) can be mapped from a partition. Other files lie beyond the
   file's last page. */
static bool fs_map_direct(const struct fs_making *m, uint64_t off, uint64_t len, bool exec, struct fs_block *b) {
  const struct fs_index *ix = &m->ds->ix;
  const uint32_t need = FS_ENTRY_CONTIG | FS_ENTRY_ALIGNED;
  uint64_t page = getauxval(AT_PAGESZ), end = fs_round_up(m->size, page);
  if ((FS_NAME_FLAGS(ix->entries[m->entry].name) & need) != need || page > ix->hdr->align) return false;
  if (off > end || len > end - off || fs_index_block(ix, m->entry, 0, b) < 0) return false;
  return b->offset % page == 0 && end <= ix->parts[b->partition].size - b->offset &&
         (fs_is_local(m->ds, b->partition) || fs_map_shared(m, off, len, exec));
}

/* Reads and checks a block that a mapping is to show. */
static bool fs_block_checked(struct fs_making *m, enum fs_check which, const struct fs_block *b, uint8_t *buf) {
  struct fs_stored s;
  if (fs_checked(m->ds, which, b->key)) return true;
  if (which == FS_CHECK_SHARED) return fs_shared_block(m->ds, b, buf, NULL) == 0;
  if (fs_local_stored(m->ds, b, &s) < 0) return false;
  fs_local_stored_end(&s);
  return true;
}

/* Returns whether what would be mapped is what was stored. */
static bool fs_map_checked(struct fs_making *m, enum fs_check which, uint64_t off, uint64_t len) {
  uint64_t end = FS_MIN(m->size, off + len), bs = m->ds->ix.block_size;
  struct fs_block b;
  if (!fs_is_verified(m->ds, which)) return true;
  uint8_t *buf = which == FS_CHECK_SHARED ? fs_mem_map(bs) : NULL;
  bool good = which == FS_CHECK_LOCAL || buf;
  for (uint64_t at = off / bs * bs; good && at < end; at += bs)
    good = fs_index_block(&m->ds->ix, m->entry, at / bs, &b) == 0 && fs_block_checked(m, which, &b, buf);
  fs_mem_unmap(buf, bs);
  return good;
}

fs_err fs_data_map(uint32_t mount, uint32_t entry, uint64_t off, uint64_t len, bool exec, int *fd, uint64_t *fd_off,
                   bool *temporary) {
  struct fs_making m;
  struct fs_block b;
  if (fs_is_output(entry)) {
    *temporary = true;
    *fd_off = off;
    *fd = fs_output_materialize(entry);
    return *fd < 0 ? *fd : 0;
  }
  fs_err err = fs_making_set(&m, mount, entry);
  if (err < 0) return err;
  enum fs_check which = m.ds->placement ? FS_CHECK_LOCAL : FS_CHECK_SHARED;
  if (fs_map_direct(&m, off, len, exec, &b) && fs_map_checked(&m, which, off, len)) {
    *fd = (which == FS_CHECK_LOCAL ? fs_local_fd : fs_shared_fd)(m.ds, b.partition, temporary);
    *fd_off = b.offset + off;
    if (*fd >= 0) {
      unsigned place = which == FS_CHECK_LOCAL ? FS_PLACE_IS_LOCAL : FS_PLACE_IS_SHARED;
      fs_count(FS_C_BYTES + place, off < m.size ? FS_MIN(len, m.size - off) : 0);
      return 0;
    }
  }
  *temporary = true;
  *fd_off = off;
  *fd = fs_materialize(&m, &(struct fs_map_range){off, FS_MIN(m.size, off + len)});
  if (*fd >= 0 && (off > 0 || len < m.size)) atomic_store(&fs_copies_mapped, 1);
  return *fd >= 0 ? 0 : fs_is_full(*fd) ? -ENOMEM : *fd;
}
