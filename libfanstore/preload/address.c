/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrappers of the calls with the address of a socket. If an address is a path below a mount, the
 * socket is one of this node (client/names/nodelocal.h). The kernel then gives back another
 * address than the program gave; the wrappers replace it by the program's.
 */
#include "preload/preload.h"

static bool is_file(int fd) {
  struct fs_slot *s = fs_fd_slot(fd);
  if (s == NULL) s = fs_fd_adopt(fd);
  return s != NULL && atomic_load(&s->kind) < FS_SLOT_PATH;
}

ssize_t fs_not_a_socket(int fd, ssize_t r) {
  if (FS_UNLIKELY(r < 0 && errno == EBADF)) errno = is_file(fd) ? ENOTSOCK : EBADF;
  return r;
}

/* Copies the path of a UNIX address, with a zero at its end. */
#define FS_SUN_PATH (sizeof(((struct sockaddr_un *)0)->sun_path) + 1)
static bool path_of(const struct sockaddr *a, socklen_t n, char out[FS_SUN_PATH]) {
  const size_t head = offsetof(struct sockaddr_un, sun_path);
  FS_MAY_BE_NULL(a);
  if (fs_bad_address(a) || n <= head || n > sizeof(struct sockaddr_un) || a->sa_family != AF_UNIX) return false;
  memcpy(out, (const char *)a + head, n - head);
  out[n - head] = '\0';
  return out[0] != '\0';
}

bool fs_address_below(const struct sockaddr *a, socklen_t n) {
  char path[FS_SUN_PATH];
  return path_of(a, n, path) && !fs_path_outside(AT_FDCWD, path);
}

/* A call with an address: connect, sendto or sendmsg. */
struct send {
  int fd, flags;
  const void *buf;
  size_t n;
  const struct msghdr *message; /* or NULL */
  bool connects;
};

static ssize_t send_to(const struct send *s, const struct sockaddr *a, socklen_t n) {
  if (s->connects) return FS_REAL(connect)(s->fd, a, n);
  if (s->message == NULL) return FS_REAL(sendto)(s->fd, s->buf, s->n, s->flags, a, n);
  struct msghdr m = *s->message;
  m.msg_name = (void *)(uintptr_t)a;
  m.msg_namelen = n;
  return FS_REAL(sendmsg)(s->fd, &m, s->flags);
}

/* Sends to a real path, which may be longer than an address. */
static ssize_t send_to_real(const struct send *s, const char *real) {
  struct fs_nl_address to;
  fs_err err = fs_nl_reach(real, &to);
  if (err != 0) return fs_ret(err);
  ssize_t r = send_to(s, (const struct sockaddr *)&to.un, to.len);
  fs_sys_close(to.fd);
  return r;
}

/* Returns the error for a name of the dataset or an output, which is no socket. */
static fs_err no_socket(int route) {
  fs_err err = fs_must_exist(route);
  return err != 0 ? err : -ECONNREFUSED;
}

static __attribute__((noinline)) ssize_t send_to_path(const struct send *s, const char *path, const struct sockaddr *a,
                                                      socklen_t n) {
  const char *asked = path;
  FS_PATH_CALL(AT_FDCWD, path, 0, no_socket(route), path == asked ? send_to(s, a, n) : send_to_real(s, path));
}

static ssize_t send_any(const struct send *s, const struct sockaddr *a, socklen_t n) {
  char path[FS_SUN_PATH];
  bool named = fs_mount_count() > 0 && path_of(a, n, path);
  return fs_not_a_socket(s->fd, named ? send_to_path(s, path, a, n) : send_to(s, a, n));
}

ssize_t fs_send_message(int fd, const struct msghdr *m, int flags) {
  char path[FS_SUN_PATH];
  if (FS_LIKELY(fs_bad_address(m) || m->msg_name == NULL || fs_mount_count() == 0))
    return FS_REAL(sendmsg)(fd, m, flags);
  if (!path_of(m->msg_name, m->msg_namelen, path)) return FS_REAL(sendmsg)(fd, m, flags);
  return send_to_path(&(struct send){.fd = fd, .flags = flags, .message = m}, path, m->msg_name, m->msg_namelen);
}

FS_EXPORT int connect(int fd, const struct sockaddr *a, socklen_t n) {
  return (int)send_any(&(struct send){.fd = fd, .connects = true}, a, n);
}
FS_ALIAS(__connect, connect);

FS_EXPORT ssize_t sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *a, socklen_t len) {
  return send_any(&(struct send){.fd = fd, .flags = flags, .buf = buf, .n = n}, a, len);
}

/* ---- bind ---- */

static int64_t bind_below(int route, const struct fs_found *f, int fd, const char *path) {
  if (fs_file_may_make(route, f, false)) return fs_nl_bind(fd, f, path);
  fs_err err = fs_file_refuse_new(route, f, false);
  return err == -EEXIST ? -EADDRINUSE : err;
}

/* Binds to a name of this node that exists, or to where a symlink of the dataset leads. */
static int bind_real(int fd, const char *real) {
  struct stat st;
  struct sockaddr_un un = {.sun_family = AF_UNIX};
  size_t n = strlen(real);
  if (fs_sys_fstatat(AT_FDCWD, real, &st, AT_SYMLINK_NOFOLLOW) == 0) return fs_ret_int(-EADDRINUSE);
  if (n >= sizeof(un.sun_path)) return fs_ret_int(-ENAMETOOLONG);
  memcpy(un.sun_path, real, n + 1);
  return FS_REAL(bind)(fd, (const struct sockaddr *)&un, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1));
}

static __attribute__((noinline)) int bind_path(int fd, const char *path, const struct sockaddr *a, socklen_t n) {
  const char *asked = path;
  FS_PATH_CALL(AT_FDCWD, path, FS_NOFOLLOW | FS_AS_IS | FS_MAKE, bind_below(route, f, fd, asked),
               path == asked ? FS_REAL(bind)(fd, a, n) : bind_real(fd, path));
}

FS_EXPORT int bind(int fd, const struct sockaddr *a, socklen_t n) {
  char path[FS_SUN_PATH];
  bool named = fs_mount_count() > 0 && path_of(a, n, path);
  return (int)fs_not_a_socket(fd, named ? bind_path(fd, path, a, n) : FS_REAL(bind)(fd, a, n));
}

/* ---- addresses that the kernel gives ---- */

/* Returns how many bytes there are for an address. */
static socklen_t room(const struct sockaddr *a, const socklen_t *n) {
  FS_MAY_BE_NULL(a);
  FS_MAY_BE_NULL(n);
  return a == NULL || fs_bad_address(n) ? 0 : *n;
}

/* Asks again for an address that had no room: its beginning does not tell whose it is. */
static void tell_name(int fd, long getname, struct sockaddr *a, socklen_t have, socklen_t *n) {
  struct sockaddr_un whole;
  socklen_t len = sizeof(whole);
  if (FS_LIKELY(*n <= have) || FS_SYS3(getname, fd, &whole, &len) != 0) {
    fs_nl_told(a, have, n);
    return;
  }
  fs_nl_told((struct sockaddr *)&whole, sizeof(whole), &len);
  memcpy(a, &whole, FS_MIN(have, FS_MIN(len, sizeof(whole))));
  *n = len;
}

#define FS_TOLD(ret, name, params, args, call, tell)                                                                   \
  FS_EXPORT ret name params;                                                                                           \
  FS_EXPORT ret name params {                                                                                          \
    socklen_t have = room(a, n);                                                                                       \
    ret r = (ret)fs_not_a_socket(fd, call(FS_REAL(name) args));                                                        \
    if (r >= 0 && have > 0) tell;                                                                                      \
    return r;                                                                                                          \
  }

FS_TOLD(int, getpeername, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n), ,
        tell_name(fd, SYS_getpeername, a, have, n))
FS_TOLD(int, getsockname, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n), ,
        tell_name(fd, SYS_getsockname, a, have, n))
FS_TOLD(int, accept, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n), FS_FRESH,
        tell_name(r, SYS_getpeername, a, have, n))
FS_TOLD(int, accept4, (int fd, struct sockaddr *a, socklen_t *n, int f), (fd, a, n, f), FS_FRESH,
        tell_name(r, SYS_getpeername, a, have, n))
FS_TOLD(ssize_t, recvfrom, (int fd, void *b, size_t z, int f, struct sockaddr *a, socklen_t *n), (fd, b, z, f, a, n), ,
        fs_nl_told(a, have, n))
FS_TOLD(ssize_t, __recvfrom_chk, (int fd, void *b, size_t z, size_t y, int f, struct sockaddr *a, socklen_t *n),
        (fd, b, z, y, f, a, n), , fs_nl_told(a, have, n))
