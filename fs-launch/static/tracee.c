/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The caller of a trapped call: its memory, its descriptors, its current directory, and where its
 * path leads. The caller's other threads can change all of this meanwhile. This can mislead only
 * the caller itself: we act with the user's own rights, and the kernel checks what the kernel does.
 * Lengths and pointers are checked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client/path/cwd.h"
#include "client/path/vdir.h"
#include "static.h"
#include "util/util.h"

#define FS_PAGE 4096u /* no page is smaller */

static _Atomic bool told_memory;

static fs_err memory_error(const struct fs_call *c, long r) {
  if (r >= 0) return -EFAULT;
  if (r != -EPERM) return (fs_err)r;
  fs_tell_once(&told_memory,
               "fanstore-static: the memory of process %d may not be read (a program without read permission, or the "
               "kernel's ptrace_scope): it sees no mount",
               (int)c->tid);
  return -EPERM;
}

fs_err fs_tracee_read(const struct fs_call *c, uint64_t addr, void *buf, size_t n) {
  struct iovec to = {buf, n}, from = {(void *)(uintptr_t)addr, n};
  long r = FS_SYS6(SYS_process_vm_readv, c->tid, &to, 1, &from, 1, 0);
  return r == (long)n ? 0 : memory_error(c, r);
}

fs_err fs_tracee_write(const struct fs_call *c, uint64_t addr, const void *buf, size_t n) {
  struct iovec from = {(void *)(uintptr_t)buf, n}, to = {(void *)(uintptr_t)addr, n};
  if (n == 0) return 0;
  if (!fs_call_valid(c)) return -ESRCH;
  long r = FS_SYS6(SYS_process_vm_writev, c->tid, &from, 1, &to, 1, 0);
  return r == (long)n ? 0 : memory_error(c, r);
}

/* Reads page by page, because the page after the string's end may not exist. */
fs_err fs_tracee_string(const struct fs_call *c, uint64_t addr, char *out) {
  for (size_t at = 0; at < PATH_MAX;) {
    size_t n = FS_MIN(FS_PAGE - (addr + at) % FS_PAGE, PATH_MAX - at);
    if (at == 0) n = FS_MIN(n, 256u);
    fs_err err = fs_tracee_read(c, addr + at, out + at, n);
    if (err != 0) return err;
    if (memchr(out + at, '\0', n) != NULL) return 0;
    at += n;
  }
  return -ENAMETOOLONG;
}

fs_err fs_tracee_link(const struct fs_call *c, const char *what, char *out) {
  char link[64];
  snprintf(link, sizeof(link), "/proc/%d/%s", (int)c->tid, what);
  long n = FS_SYS4(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX - 1);
  if (n <= 0) return n < 0 ? (fs_err)n : -ENOENT;
  out[n] = '\0';
  return 0;
}

static fs_err fd_link(const struct fs_call *c, int fd, char *out) {
  char what[24];
  snprintf(what, sizeof(what), "fd/%d", fd);
  return fd < 0 ? -EBADF : fs_tracee_link(c, what, out);
}

static fs_ssize read_status(const char *pid, char *text, size_t size) {
  char path[48];
  snprintf(path, sizeof(path), "/proc/%s/status", pid);
  FS_AUTO_CLOSE int fd = fs_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  fs_ssize n = fd < 0 ? fd : fs_sys_read(fd, text, size - 1);
  text[FS_MAX(n, 0)] = '\0';
  return n;
}

fs_ssize fs_tracee_status(const struct fs_call *c, char *text, size_t size) {
  char pid[16];
  snprintf(pid, sizeof(pid), "%d", (int)c->tid);
  return read_status(pid, text, size);
}

mode_t fs_tracee_umask(const struct fs_call *c) {
  char text[FS_STATUS_HEAD];
  unsigned mask = 022;
  fs_tracee_status(c, text, sizeof(text));
  const char *line = strstr(text, "\nUmask:");
  if (line != NULL) sscanf(line, "\nUmask: %o", &mask);
  return mask & 0777;
}

/* Finds the dataset's directory whose path equals that of this real directory. */
static bool directory_of(const char *link, uint32_t *mount, uint32_t *entry) {
  size_t len = strlen(link), rest;
  fs_err err;
  int i = fs_mount_above(link, len, &rest);
  const struct fs_index *ix = i < 0 ? NULL : fs_mount_ix((uint32_t)i, &err);
  int64_t e = ix == NULL ? -ENOENT : fs_index_lookup(ix, link + rest, len - rest);
  if (e < 0 || !S_ISDIR(fs_index_entry(ix, (uint64_t)e)->mode)) return false;
  *mount = (uint32_t)i;
  *entry = (uint32_t)e;
  return true;
}

bool fs_call_ref(const struct fs_call *c, int fd, uint32_t *mount, uint32_t *entry) {
  char link[PATH_MAX];
  if (fd_link(c, fd, link) != 0 || link[0] != '/') return false;
  return fs_real_parse(link, mount, entry) || directory_of(link, mount, entry);
}

bool fs_call_proc_ref(const struct fs_call *c, uint32_t *mount, uint32_t *entry) {
  static const char *const own[] = {"/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"};
  char link[PATH_MAX];
  uint64_t fd, pid;
  for (size_t i = 0; i < FS_ARRAY_LEN(own); i++) {
    size_t n = strlen(own[i]);
    if (strncmp(c->path, own[i], n) == 0)
      return fs_parse_u64(c->path + n, 0, INT_MAX, &fd) == 0 && fs_call_ref(c, (int)fd, mount, entry);
  }
  /* /proc/<pid>/fd/<number>, of any process */
  if (strncmp(c->path, "/proc/", 6) != 0) return false;
  const char *slash = strchr(c->path + 6, '/');
  if (slash == NULL || strncmp(slash, "/fd/", 4) != 0 || fs_parse_u64(slash + 4, 0, INT_MAX, &fd) != 0) return false;
  *link = '\0';
  strncat(link, c->path + 6, (size_t)(slash - c->path - 6));
  if (fs_parse_u64(link, 0, INT_MAX, &pid) != 0) return false;
  long n = FS_SYS4(SYS_readlinkat, AT_FDCWD, c->path, link, sizeof(link) - 1);
  if (n <= 0 || link[0] != '/') return false;
  link[n] = '\0';
  return fs_real_parse(link, mount, entry) || directory_of(link, mount, entry);
}

/* Writes the directory that a path is relative to. Returns 1 if only we know it, 0 if the kernel
   does. */
static int base_path(struct fs_call *c, int dirfd, char *out) {
  uint32_t mount, entry;
  int place = dirfd == AT_FDCWD ? fs_place_get(c, out) : 0;
  c->lost = place < 0;
  if (place != 0) return place;
  fs_err err = dirfd == AT_FDCWD ? fs_tracee_link(c, "cwd", out) : fd_link(c, dirfd, out);
  if (err != 0) return dirfd == AT_FDCWD ? err : -EBADF;
  if (fs_real_parse(out, &mount, &entry)) {
    fs_ssize n = fs_path_of(mount, entry, out, PATH_MAX);
    c->lost = n < 0;
    return n < 0 ? (int)n : 1;
  }
  return out[0] == '/' ? 0 : -ENOTDIR;
}

/* Makes the absolute path. Returns 1 if the kernel cannot resolve it from the caller's
   directory. */
static int make_full(struct fs_call *c, int dirfd) {
  size_t len = strlen(c->path);
  if (c->path[0] == '/') {
    memcpy(c->full, c->path, len + 1);
    return 0;
  }
  int ours = base_path(c, dirfd, c->full);
  if (ours < 0) return ours;
  size_t base = strlen(c->full);
  c->full[base] = '/';
  memcpy(c->full + base + 1, c->path, len + 1);
  return ours;
}

/* If the kernel does not find the path, a symlink of the real file system may lead into a mount,
   which does not really exist. */
static int look_again(struct fs_call *c, unsigned flags, struct fs_found *f) {
  if (strncmp(c->full, "/proc/", 6) == 0 || strncmp(c->full, "/dev/", 5) == 0) return FS_OUTSIDE;
  fs_err err = fs_sys_fstatat(AT_FDCWD, c->full, &c->st, flags & FS_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0);
  c->seen = err == 0;
  return err == -ENOENT ? fs_path_retry(AT_FDCWD, c->full, flags, err, f) : FS_OUTSIDE;
}

/* ---- rights ---- */

static bool same_line(const char *a, const char *b, const char *key) {
  const char *p = strstr(a, key), *q = strstr(b, key);
  if (p == NULL || q == NULL) return false;
  size_t n = strcspn(p + 1, "\n");
  return n == strcspn(q + 1, "\n") && memcmp(p + 1, q + 1, n) == 0;
}

static unsigned long long capabilities(const char *status) {
  const char *line = strstr(status, "\nCapEff:");
  return line == NULL ? 0 : strtoull(line + 8, NULL, 16);
}

bool fs_call_trusted(const struct fs_call *c) {
  char ours[8192], theirs[8192], root[PATH_MAX];
  fs_ssize a = read_status("self", ours, sizeof(ours)), b = fs_tracee_status(c, theirs, sizeof(theirs));
  if (a <= 0 || b <= 0 || (size_t)FS_MAX(a, b) >= sizeof(ours) - 1) return false; /* cut off */
  if (!same_line(ours, theirs, "\nUid:") || !same_line(ours, theirs, "\nGid:")) return false;
  if (!same_line(ours, theirs, "\nGroups:") || (capabilities(ours) & ~capabilities(theirs)) != 0) return false;
  return fs_tracee_link(c, "root", root) == 0 && strcmp(root, "/") == 0 && fs_call_valid(c);
}

int fs_call_full(struct fs_call *c, int dirfd, int path) {
  fs_err err = fs_tracee_string(c, c->arg[path], c->path);
  c->lost = false;
  if (err != 0 || c->path[0] == '\0') return err != 0 ? err : -ENOENT;
  return make_full(c, dirfd < 0 ? AT_FDCWD : (int)c->arg[dirfd]);
}

int fs_call_find(struct fs_call *c, int dirfd, int path, unsigned flags, struct fs_found *f) {
  int ours = fs_call_full(c, dirfd, path);
  if (ours < 0) return c->lost ? ours : FS_OUTSIDE;
  int route = fs_path_route(AT_FDCWD, c->full, flags, f);
  if (route == FS_OUTSIDE && !(flags & FS_PARENT)) route = look_again(c, flags, f);
  if (route == FS_REDIRECT && !fs_call_trusted(c)) return -EACCES;
  if (route != FS_OUTSIDE || ours == 0) return route;
  if (!fs_call_trusted(c)) return -EACCES;
  if (strlen(c->full) >= sizeof(f->real)) return -ENAMETOOLONG;
  strcpy(f->real, c->full);
  return FS_REDIRECT;
}

bool fs_call_bad_flags(const struct fs_call *c, const struct fs_trap *t, int known) {
  return t->flags >= 0 && ((int)c->arg[t->flags] & ~known) != 0;
}

bool fs_call_nofollow(const struct fs_call *c, const struct fs_trap *t) {
  return t->nofollow || (t->flags >= 0 && (c->arg[t->flags] & AT_SYMLINK_NOFOLLOW));
}

int fs_trap_find(struct fs_call *c, const struct fs_trap *t, struct fs_found *f) {
  return fs_call_find(c, t->dirfd, t->path, fs_call_nofollow(c, t) ? FS_NOFOLLOW : 0, f);
}

bool fs_call_empty(const struct fs_call *c, const struct fs_trap *t) {
  char first;
  if (t->dirfd < 0 || t->flags < 0 || !(c->arg[t->flags] & AT_EMPTY_PATH)) return false;
  return c->arg[t->path] == 0 || (fs_tracee_read(c, c->arg[t->path], &first, 1) == 0 && first == '\0');
}
