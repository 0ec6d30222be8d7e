/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Real files for what needs one: mmap of a compressed or remote file, exec, descriptors that leave the library. With
 * a daemon they lie in the job's spill directory on this node: one a file, complete once it has its name, shared by all
 * processes and removed with the job. Without one they are anonymous. No locks: who links the name first wins, and
 * O_TMPFILE leaves nothing of a process that is killed before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "client/data_priv.h"
#include "client/out.h"
#include "ipc/node.h"

#define FS_FILL_BYTES (2u << 20) /* eight blocks of the default size: as many as are fetched at once */
#define FS_PROC_FD 32

struct fs_making {
  struct fs_dataset *ds;
  uint32_t entry;
  uint64_t size;
  mode_t mode;
  bool unreadable; /* the data itself cannot be had: another place to write to does not help */
};

static char *fs_proc_fd(int fd, char out[FS_PROC_FD]) {
  char number[FS_U64_TEXT];
  strcpy(out, "/proc/self/fd/");
  return strcat(out, fs_u64_text((uint64_t)fd, number));
}

/* ---- making one ---- */

static fs_err fs_fill(struct fs_making *m, int fd) {
  size_t step = FS_MAX(FS_FILL_BYTES, m->ds->ix.block_size);
  long full = FS_SYS4(SYS_fallocate, fd, 0, 0, m->size);
  if (full == -ENOSPC || full == -EDQUOT || full == -EFBIG) return (fs_err)full;
  uint8_t *buf = fs_mem_map(step);
  fs_err err = buf ? 0 : -ENOMEM;
  for (uint64_t done = 0; err == 0 && done < m->size;) {
    fs_ssize n = fs_data_read(m->ds->mount, m->entry, buf, step, done, NULL);
    m->unreadable = n <= 0;
    if (n > 0) err = fs_pwrite_full(fd, buf, (size_t)n, done);
    if (n <= 0) err = n < 0 ? (fs_err)n : -EIO;
    done += n > 0 ? (uint64_t)n : 0;
  }
  fs_mem_unmap(buf, step);
  return err;
}

/* A read-only descriptor of the file behind a writable one, which is closed. */
static fs_fd fs_read_only(int fd) {
  char proc[FS_PROC_FD];
  fs_fd ro = fs_sys_openat(AT_FDCWD, fs_proc_fd(fd, proc), O_RDONLY | O_CLOEXEC, 0);
  if (ro < 0) return fd; /* no /proc: the writable one has to do */
  fs_sys_close(fd);
  return ro;
}

bool fs_memory_holds(const struct fs_node *node, uint64_t bytes) {
  char text[512];
  FS_AUTO_CLOSE fs_fd fd = fs_open_read(FS_MEMINFO);
  fs_ssize n = fd < 0 ? 0 : fs_sys_read(fd, text, sizeof(text) - 1);
  text[FS_MAX(n, 0)] = '\0';
  uint64_t most = fs_mem_available(text);
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

/* <spill>/<number of the dataset>-<entry>.m */
static fs_err fs_spill_path(const struct fs_making *m, const char *dir, char *out) {
  char name[2 * FS_U64_TEXT + 4], number[FS_U64_TEXT];
  strcpy(name, fs_u64_text(m->ds->number, number));
  strcat(name, "-");
  strcat(name, fs_u64_text(m->entry, number));
  strcat(name, ".m");
  return fs_join(out, dir, name);
}

static fs_fd fs_spill_open(const struct fs_making *m, const char *path) {
  struct stat st;
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
  if (fd < 0) return fd;
  if (fs_sys_fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != m->size ||
      st.st_uid != (uid_t)FS_SYS1(SYS_geteuid, 0))
    return -EUCLEAN;
  return FS_MOVE_FD(fd);
}

/* For file systems without O_TMPFILE: a name of this thread's own, which goes once the final one is there. In another
   pid namespace a thread may have the same: so it is this very file that is linked, whatever has the name by then. */
static fs_fd fs_spill_named(struct fs_making *m, const char *path) {
  char temporary[PATH_MAX], number[FS_U64_TEXT], proc[FS_PROC_FD];
  const char *tid = fs_u64_text((uint64_t)fs_sys_gettid(), number);
  if (strlen(path) + strlen(tid) + 2 > sizeof(temporary)) return -ENAMETOOLONG;
  strcpy(temporary, path);
  strcat(strcat(temporary, "."), tid);
  FS_SYS3(SYS_unlinkat, AT_FDCWD, temporary, 0); /* of a thread that died, with the same number */
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(AT_FDCWD, temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, m->mode);
  if (fd < 0) return fd;
  fs_err err = fs_fill(m, fd);
  if (err == 0) FS_SYS5(SYS_linkat, AT_FDCWD, fs_proc_fd(fd, proc), AT_FDCWD, path, AT_SYMLINK_FOLLOW);
  FS_SYS3(SYS_unlinkat, AT_FDCWD, temporary, 0);
  if (err < 0) return err;
  fs_count(FS_C_MATERIALIZED, 1);
  return FS_MOVE_FD(fd);
}

static fs_fd fs_make_spill(struct fs_making *m, const char *dir) {
  char path[PATH_MAX], proc[FS_PROC_FD];
  fs_err err = fs_spill_path(m, dir, path);
  if (err < 0) return err;
  fs_fd fd = fs_spill_open(m, path);
  if (fd >= 0) return fd;
  fd = fs_make_anonymous(m, dir);
  if (fd >= 0)
    FS_SYS5(SYS_linkat, AT_FDCWD, fs_proc_fd(fd, proc), AT_FDCWD, path, AT_SYMLINK_FOLLOW);
  else if (fd == -EOPNOTSUPP || fd == -EISDIR)
    fd = fs_spill_named(m, path);
  if (fd < 0) return fd;
  /* The one that has the name, whoever linked it: all then share its pages. */
  fs_fd shared = fs_spill_open(m, path);
  if (shared < 0) return fs_read_only(fd);
  fs_sys_close(fd);
  return shared;
}

/* ---- the interface ---- */

static fs_fd fs_materialize(struct fs_making *m) {
  const char *dirs[] = {getenv(FS_ENV_SPILL), getenv("TMPDIR"), "/tmp"};
  const char *spill = m->ds->node && m->ds->node->ctl->spill[0] == '/' ? m->ds->node->ctl->spill : NULL;
  fs_fd fd = -ENOENT;
  if (spill) {
    fd = fs_make_spill(m, spill);
    if (fd >= 0 || m->unreadable) return fd;
  }
  for (unsigned i = 0; !spill && i < FS_ARRAY_LEN(dirs); i++) {
    if (!dirs[i] || dirs[i][0] != '/') continue;
    fd = fs_make_anonymous(m, dirs[i]);
    if (fd >= 0) return fs_read_only(fd);
    if (m->unreadable) return fd;
  }
  fd = fs_make_anonymous(m, NULL);
  return fd < 0 ? fd : fs_read_only(fd);
}

static fs_err fs_making_set(struct fs_making *m, uint32_t mount, uint32_t entry) {
  fs_err err = 0;
  *m = (struct fs_making){.ds = fs_dataset(mount, &err), .entry = entry};
  const struct fs_entry *e = m->ds ? fs_index_entry(&m->ds->ix, entry) : NULL;
  if (!e) return m->ds ? -EUCLEAN : err;
  if (!S_ISREG(e->mode) || e->size > INT64_MAX) return -EUCLEAN;
  struct fs_block last; /* a file of exabytes that are nowhere is not worth a try */
  if (e->size > 0 && fs_index_block(&m->ds->ix, entry, fs_index_block_count(&m->ds->ix, e) - 1, &last) < 0)
    return -EUCLEAN;
  m->size = e->size;
  m->mode = e->mode & 0111 ? 0500 : 0400;
  return 0;
}

fs_fd fs_data_materialize(uint32_t mount, uint32_t entry) {
  struct fs_making m;
  if (fs_is_out(entry)) return fs_out_materialize(entry);
  fs_err err = fs_making_set(&m, mount, entry);
  return err < 0 ? err : fs_materialize(&m);
}

bool fs_data_materialized(const char *path, uint32_t *mount, uint32_t *entry) {
  const struct fs_node *node = fs_node_attach();
  size_t len = node ? strnlen(node->ctl->spill, sizeof(node->ctl->spill)) : 0;
  if (len == 0 || strncmp(path, node->ctl->spill, len) != 0 || path[len] != '/') return false;
  unsigned number, e;
  char end[2];
  if (sscanf(path + len + 1, "%9u-%10u.%1[m]", &number, &e, end) != 3) return false;
  for (*mount = 0; *mount < fs_mounts(); ++*mount) {
    fs_err err;
    const struct fs_dataset *ds = fs_dataset(*mount, &err);
    if (!ds || !ds->node || ds->number != number) continue;
    *entry = e;
    return e < ds->ix.nentries;
  }
  return false;
}

/* Can [off, off + len) be mapped from the staged partition? Beyond the file's last page lie other files. */
static bool fs_map_direct(const struct fs_making *m, uint64_t off, uint64_t len, struct fs_block *b) {
  const struct fs_index *ix = &m->ds->ix;
  const uint32_t need = FS_ENTRY_CONTIG | FS_ENTRY_ALIGNED;
  uint64_t page = getauxval(AT_PAGESZ), end = fs_round_up(m->size, page);
  if ((FS_NAME_FLAGS(ix->entries[m->entry].name) & need) != need || page > FS_ALIGN) return false;
  if (off > end || len > end - off) return false;
  return fs_index_block(ix, m->entry, 0, b) == 0 && fs_is_local(m->ds, b->partition);
}

/* Is what would be mapped what was stored? */
static bool fs_map_checked(const struct fs_making *m, uint64_t off, uint64_t len) {
  uint64_t end = FS_MIN(m->size, off + len), bs = m->ds->ix.block_size;
  struct fs_stored s;
  struct fs_block b;
  if (!fs_is_verified(m->ds, FS_CHECK_LOCAL)) return true;
  for (uint64_t at = off / bs * bs; at < end; at += bs) {
    if (fs_index_block(&m->ds->ix, m->entry, at / bs, &b) < 0) return false;
    if (fs_checked(m->ds, FS_CHECK_LOCAL, b.key)) continue;
    if (fs_local_stored(m->ds, &b, &s) < 0) return false;
    fs_local_stored_end(&s);
  }
  return true;
}

fs_err fs_data_map(uint32_t mount, uint32_t entry, uint64_t off, uint64_t len, int *fd, uint64_t *fd_off,
                   bool *temporary) {
  struct fs_making m;
  struct fs_block b;
  if (fs_is_out(entry)) {
    *temporary = true;
    *fd_off = off;
    *fd = fs_out_materialize(entry);
    return *fd < 0 ? *fd : 0;
  }
  fs_err err = fs_making_set(&m, mount, entry);
  if (err < 0) return err;
  if (fs_map_direct(&m, off, len, &b) && fs_map_checked(&m, off, len)) {
    *fd = fs_local_fd(m.ds, b.partition, temporary);
    *fd_off = b.offset + off;
    if (*fd >= 0) {
      fs_count(FS_C_BYTES + FS_PLACE_IS_LOCAL, off < m.size ? FS_MIN(len, m.size - off) : 0);
      return 0;
    }
  }
  *temporary = true;
  *fd_off = off;
  *fd = fs_materialize(&m);
  return *fd < 0 ? *fd : 0;
}
