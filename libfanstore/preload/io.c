/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrappers of reading, writing, seeking and copying by descriptor. A dataset's file is never open
   for writing. */
#include "preload/preload.h"

FS_EXPORT ssize_t read(int fd, void *buf, size_t n) {
  FS_FD_CALL(fd, FS_CANCELLABLE(fs_file_read(s, buf, n)), FS_REAL(read)(fd, buf, n));
}
FS_ALIAS(__read, read);

FS_EXPORT ssize_t pread(int fd, void *buf, size_t n, off_t off) {
  FS_FD_CALL(fd, FS_CANCELLABLE(fs_file_pread(s, buf, n, off)), FS_REAL(pread)(fd, buf, n, off));
}
FS_ALIAS(pread64, pread);
FS_ALIAS(__pread64, pread);

FS_EXPORT ssize_t readv(int fd, const struct iovec *iov, int count) {
  FS_FD_CALL(fd, FS_CANCELLABLE(fs_file_readv(s, iov, count, -1)), FS_REAL(readv)(fd, iov, count));
}

static int64_t preadv_at(struct fs_slot *s, const struct iovec *iov, int count, off_t off) {
  return off < 0 ? -EINVAL : fs_file_readv(s, iov, count, off);
}

FS_EXPORT ssize_t preadv(int fd, const struct iovec *iov, int count, off_t off) {
  FS_FD_CALL(fd, FS_CANCELLABLE(preadv_at(s, iov, count, off)), FS_REAL(preadv)(fd, iov, count, off));
}
FS_ALIAS(preadv64, preadv);

/* Ignores hints that do not matter here. Other flags are refused, after the vectors were looked
   at. */
static int64_t preadv2_at(struct fs_slot *s, const struct iovec *iov, int count, off_t off, int flags) {
  if (off < -1) return -EINVAL;
  bool known = (flags & ~(RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT)) == 0;
  fs_err err = fs_slot_readable(s);
  return known || err == -EBADF || count <= 0 ? fs_file_readv(s, iov, count, off) : -EOPNOTSUPP;
}

FS_EXPORT ssize_t preadv2(int fd, const struct iovec *iov, int count, off_t off, int flags) {
  FS_FD_CALL(fd, FS_CANCELLABLE(preadv2_at(s, iov, count, off, flags)), FS_REAL(preadv2)(fd, iov, count, off, flags));
}
FS_ALIAS(preadv64v2, preadv2);

FS_CHECKED(ssize_t, __read_chk, (int fd, void *buf, size_t n, size_t size), n <= size, read(fd, buf, n))
FS_CHECKED(ssize_t, __pread_chk, (int fd, void *buf, size_t n, off_t o, size_t size), n <= size, pread(fd, buf, n, o))
FS_ALIAS(__pread64_chk, __pread_chk);

static off_t seek_real(int fd, off_t off, int whence) {
  fs_err err = FS_UNLIKELY(fs_fd_entry(fd) != 0) ? fs_output_real_seek(fd, off, whence) : 0;
  return err != 0 ? (off_t)fs_ret(err) : FS_REAL(lseek)(fd, off, whence);
}

FS_EXPORT off_t lseek(int fd, off_t off, int whence) {
  FS_FD_CALL(fd, fs_file_lseek(s, off, whence), seek_real(fd, off, whence));
}
FS_ALIAS(lseek64, lseek);
FS_ALIAS(__lseek, lseek);
FS_ALIAS(llseek, lseek);

FS_EXPORT ssize_t write(int fd, const void *buf, size_t n) {
  FS_FD_CALL(fd, FS_CANCELLABLE(fs_file_write(s, buf, n)), FS_WITH_ROOM(fd, FS_REAL(write)(fd, buf, n)));
}
FS_ALIAS(__write, write);

FS_EXPORT ssize_t pwrite(int fd, const void *buf, size_t n, off_t off) {
  FS_FD_CALL(fd, off < 0 ? -EINVAL : FS_CANCELLABLE(fs_file_pwrite(s, buf, n, off)),
             FS_WITH_ROOM(fd, FS_REAL(pwrite)(fd, buf, n, off)));
}
FS_ALIAS(pwrite64, pwrite);
FS_ALIAS(__pwrite64, pwrite);

FS_EXPORT ssize_t writev(int fd, const struct iovec *iov, int count) {
  FS_FD_CALL(fd, FS_CANCELLABLE(fs_file_writev(s, iov, count, -1)), FS_WITH_ROOM(fd, FS_REAL(writev)(fd, iov, count)));
}

FS_EXPORT ssize_t pwritev(int fd, const struct iovec *iov, int count, off_t off) {
  FS_FD_CALL(fd, off < 0 ? -EINVAL : FS_CANCELLABLE(fs_file_writev(s, iov, count, off)),
             FS_WITH_ROOM(fd, FS_REAL(pwritev)(fd, iov, count, off)));
}
FS_ALIAS(pwritev64, pwritev);

FS_EXPORT ssize_t pwritev2(int fd, const struct iovec *iov, int count, off_t off, int flags) {
  FS_FD_CALL(fd, flags != 0 && fs_slot_writable(s) == 0 ? -EOPNOTSUPP : fs_file_writev(s, iov, count, off),
             FS_WITH_ROOM(fd, FS_REAL(pwritev2)(fd, iov, count, off, flags)));
}
FS_ALIAS(pwritev64v2, pwritev2);

/* Returns the error for a copy into a file. Callers go on with read and write after it. */
static int64_t not_into(const struct fs_slot *s, fs_err err) {
  return fs_slot_writable(s) == 0 ? err : -EBADF;
}

FS_EXPORT ssize_t sendfile(int out, int in, off_t *off, size_t n) {
  if (fs_fd_slot(out) != NULL) return fs_ret(not_into(fs_fd_slot(out), -EINVAL));
  FS_FD_CALL(in, fs_output_room(out, UINT64_MAX) != 0 ? -EDQUOT : fs_file_send(s, out, off, n),
             FS_WITH_ROOM(out, FS_REAL(sendfile)(out, in, off, n)));
}
FS_ALIAS(sendfile64, sendfile);

#define FS_SPLICE_MAX ((size_t)1 << 20) /* what a pipe may hold, unless root has changed that */

/* Returns how many bytes the pipe can take now, at most. For a full pipe, on which the kernel
   waits, returns its size: no more fits. */
static size_t pipe_room(int pipe) {
  long size = FS_SYS3(SYS_fcntl, pipe, F_GETPIPE_SZ, 0);
  int held = 0;
  if (size <= 0) return FS_SPLICE_MAX;
  FS_SYS3(SYS_ioctl, pipe, FIONREAD, &held);
  return FS_MIN(FS_SPLICE_MAX, (size_t)(held >= 0 && held < size ? size - held : size));
}

/* Callers go on with read and write after EXDEV, and after EINVAL from splice into a file. */
FS_EXPORT ssize_t copy_file_range(int in, off64_t *in_off, int out, off64_t *out_off, size_t n, unsigned flags) {
  if (fs_fd_slot(out) != NULL) return fs_ret(not_into(fs_fd_slot(out), -EXDEV));
  FS_FD_CALL(in, fs_slot_readable(s) != 0 ? fs_slot_readable(s) : -EXDEV,
             FS_WITH_ROOM(out, FS_REAL(copy_file_range)(in, in_off, out, out_off, n, flags)));
}

/*
 * Copies from a file into a pipe. The bytes go into pages of their own, which the pipe keeps. So
 * the kernel waits for room, or does not, as its own splice does. The offset moves by what the pipe
 * took.
 */
static int64_t splice_to_pipe(struct fs_slot *s, off64_t *off, int out, const off64_t *out_off, size_t n,
                              unsigned flags) {
  struct stat st;
  fs_err err = fs_slot_readable(s);
  if (err != 0) return err == -EBADF ? -EBADF : -EINVAL;
  if (fs_sys_fstat(out, &st) != 0) return -EBADF;
  if (!S_ISFIFO(st.st_mode)) return -EINVAL;
  if (out_off != NULL) return -ESPIPE;
  if (off == NULL && fs_slot_is_real(s)) return FS_E_REAL;
  if (n == 0) return 0;
  n = FS_MIN(n, pipe_room(out));
  int64_t at = off != NULL ? *off : (int64_t)atomic_load(&s->offset);
  if (at < 0) return -EINVAL;
  void *buf = fs_sys_mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (fs_sys_mmap_failed(buf)) return -ENOMEM;
  fs_ssize got = fs_file_pread(s, buf, n, at);
  struct iovec v = {.iov_base = buf, .iov_len = got > 0 ? (size_t)got : 0};
  /* As the kernel's splice does. */
  bool now = (flags & SPLICE_F_NONBLOCK) || ((int)FS_SYS2(SYS_fcntl, out, F_GETFL) & O_NONBLOCK);
  if (got > 0) got = FS_SYS4(SYS_vmsplice, out, &v, 1, now ? SPLICE_F_NONBLOCK : 0);
  fs_sys_munmap(buf, n);
  if (got > 0 && off != NULL) *off = at + got;
  if (got > 0 && off == NULL) atomic_store(&s->offset, (uint64_t)(at + got));
  return got;
}

FS_EXPORT ssize_t splice(int in, off64_t *in_off, int out, off64_t *out_off, size_t n, unsigned flags) {
  if (fs_fd_slot(out) != NULL) return fs_ret(not_into(fs_fd_slot(out), -EINVAL));
  FS_FD_CALL(in, FS_CANCELLABLE(splice_to_pipe(s, in_off, out, out_off, n, flags)),
             FS_WITH_ROOM(out, FS_REAL(splice)(in, in_off, out, out_off, n, flags)));
}

/* Notes a mapping of an output by which it can be written, at once or after mprotect. */
static inline void *written(int fd, void *p, size_t len, int flags) {
  bool shared = (flags & MAP_TYPE) != MAP_PRIVATE && !(flags & MAP_ANONYMOUS);
  if (FS_UNLIKELY(shared && fs_output_tracked(fs_fd_entry(fd)))) fs_output_mapped(fd, p, len);
  return p;
}

FS_EXPORT void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off) {
  FS_USE(u);
  struct fs_slot *s = flags & MAP_ANONYMOUS ? NULL : fs_fd_use(fd, &u);
  if (FS_LIKELY(s == NULL)) {
    void *p = FS_REAL(mmap)(addr, len, prot, flags, fd, off);
    if (FS_LIKELY(p != MAP_FAILED)) return written(fd, p, len, flags);
    if (errno != EBADF || (flags & MAP_ANONYMOUS)) return p;
    s = fs_fd_adopt_use(fd, &u);
    if (s == NULL) return p;
  }
  uint64_t begin = fs_trace_begin();
  void *p = fs_file_mmap(s, addr, len, prot, flags, off);
  if (FS_UNLIKELY(begin != 0)) {
    struct fs_traced c = {
        .call = FS_TRACE_MAP, .place = FS_TRACE_NO_PLACE, .handle = fs_slot_number(s), .off = (uint64_t)off, .n = len};
    fs_trace_add(&c, begin, fs_sys_mmap_failed(p) ? (intptr_t)p : 0);
  }
  return fs_sys_mmap_failed(p) ? (fs_ret((intptr_t)p), MAP_FAILED) : p;
}
FS_ALIAS(mmap64, mmap);

static int map_synced(int r, const void *addr, size_t len, bool unmapped) {
  if (FS_LIKELY(atomic_load_explicit(&fs_output_maps, memory_order_relaxed) == 0) || r != 0) return r;
  int saved = errno;
  fs_err err = fs_vfork_depth == 0 ? fs_output_map_sync(addr, len, unmapped) : 0;
  errno = saved;
  return unmapped || err == 0 ? r : fs_ret_int(err);
}

FS_EXPORT int msync(void *addr, size_t len, int flags) {
  return map_synced(FS_REAL(msync)(addr, len, flags), addr, len, false);
}

FS_EXPORT int munmap(void *addr, size_t len) {
  return map_synced(FS_REAL(munmap)(addr, len), addr, len, true);
}

FS_EXPORT void *mremap(void *addr, size_t len, size_t to, int flags, ...) {
  void *target = NULL;
  if (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) {
    va_list ap;
    va_start(ap, flags);
    target = va_arg(ap, void *);
    va_end(ap);
  }
  return (void *)fs_kernel_mremap(addr, len, to, flags, target);
}

long fs_kernel_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off) {
  bool file = !(flags & MAP_ANONYMOUS);
  FS_USE(u);
  struct fs_slot *s = file ? fs_fd_use(fd, &u) : NULL;
  void *p =
      s != NULL ? fs_file_mmap(s, addr, len, prot, flags, off) : fs_sys_mmap(addr, len, prot, flags, fd, (uint64_t)off);
  if (s == NULL && file && (intptr_t)p == -EBADF && (s = fs_fd_adopt_use(fd, &u)) != NULL)
    p = fs_file_mmap(s, addr, len, prot, flags, off);
  if (fs_sys_mmap_failed(p)) return fs_ret((intptr_t)p);
  return (intptr_t)(s == NULL ? written(fd, p, len, flags) : p);
}

long fs_kernel_msync(void *addr, size_t len, int flags) {
  return map_synced(fs_ret_int((int)FS_SYS3(SYS_msync, addr, len, flags)), addr, len, false);
}

long fs_kernel_munmap(void *addr, size_t len) {
  return map_synced(fs_ret_int((int)FS_SYS2(SYS_munmap, addr, len)), addr, len, true);
}

/* A mapping may show a copy that is filled only where it was mapped (client/real/remap.c). So what
   the mapping will show is filled first. */
long fs_kernel_mremap(void *addr, size_t len, size_t to, int flags, void *target) {
  fs_err err = to > len ? fs_data_remap(addr, FS_REMAP_HERE, to) : 0;
  long p = err < 0 ? err : FS_SYS5(SYS_mremap, addr, len, to, flags, target);
  return fs_sys_mmap_failed((void *)p) ? fs_ret(p) : p;
}

FS_EXPORT int remap_file_pages(void *addr, size_t len, int prot, size_t page, int flags) {
  fs_err err = page > UINT64_MAX / FS_ALIGN ? 0 : fs_data_remap(addr, page * (uint64_t)getpagesize(), len);
  return fs_ret_int(err < 0 ? err : FS_SYS5(SYS_remap_file_pages, addr, len, prot, page, flags));
}
