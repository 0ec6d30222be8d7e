/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of UNIX sockets that are names of one node (nodelocal.h). An address holds 108 bytes,
 * and the kernel gives back what bind was called with. So a socket is bound to
 * "/proc/self/fd/N/TOKEN", where N is the directory <backing directory>/node-local/new, and is then
 * renamed to its name. The symlink <backing directory>/node-local/paths/TOKEN has the path that the
 * program gave. Every process of the node finds it by the token. A program without the library sees
 * the token.
 */
#include <sys/stat.h>

#include "client/data_priv.h"
#include "client/names/calls.h"
#include "client/names/nodelocal_priv.h"

fs_err fs_nl_token(char out[FS_NL_HEX]) {
  uint64_t v;
  long n = FS_SYS3(SYS_getrandom, &v, sizeof(v), 0);
  if (n != sizeof(v)) return n < 0 ? (fs_err)n : -EAGAIN;
  fs_nl_hex(v, out);
  return 0;
}

/* Writes "/proc/self/fd/N", with a name after it if there is one. */
static void fd_address(int fd, const char *name, struct sockaddr_un *un, socklen_t *len) {
  char *to = un->sun_path, digits[12];
  size_t n = 0;
  un->sun_family = AF_UNIX;
  memcpy(to, FS_NL_FD, sizeof(FS_NL_FD) - 1);
  to += sizeof(FS_NL_FD) - 1;
  for (unsigned v = (unsigned)fd; n == 0 || v > 0; v /= 10) digits[n++] = (char)('0' + v % 10);
  while (n > 0) *to++ = digits[--n];
  if (name[0] != '\0') *to++ = '/';
  n = strlen(name);
  memcpy(to, name, n + 1);
  *len = (socklen_t)(to + n + 1 - (char *)un);
}

/* Takes the name first, so that a second process is refused before its socket is bound. */
static fs_err bind_token(const struct fs_node *node, int fd, const char *token, const char *real) {
  char dir[PATH_MAX];
  struct sockaddr_un un;
  socklen_t len;
  fs_err err = fs_nl_path(node, FS_NL_NEW, "", 0, dir);
  fs_fd at = err != 0 ? err : fs_sys_openat(AT_FDCWD, dir, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
  if (at < 0) return at;
  fd_address(at, token, &un, &len);
  err = (fs_err)FS_SYS4(SYS_mknodat, AT_FDCWD, real, S_IFSOCK | 0777, 0);
  if (err == 0) {
    err = (fs_err)FS_SYS3(SYS_bind, fd, &un, len);
    if (err == 0) err = (fs_err)FS_SYS4(SYS_renameat, at, token, AT_FDCWD, real);
    if (err != 0) FS_SYS3(SYS_unlinkat, AT_FDCWD, real, 0);
  }
  fs_sys_close(at);
  return err == -EEXIST ? -EADDRINUSE : err;
}

fs_err fs_nl_bind(int fd, const struct fs_found *f, const char *path) {
  char real[PATH_MAX], token[FS_NL_HEX], link[PATH_MAX];
  const struct fs_node *node = fs_names_node();
  fs_err err = fs_nl_ready(f, real);
  if (err != 0) return err == -EEXIST ? -EADDRINUSE : err;
  err = fs_nl_token(token);
  if (err == 0) err = fs_nl_path(node, FS_NL_PATHS, token, FS_NL_HEX - 1, link);
  if (err == 0) err = (fs_err)FS_SYS3(SYS_symlinkat, path, AT_FDCWD, link);
  if (err != 0) return err;
  err = bind_token(node, fd, token, real);
  if (err != 0) FS_SYS3(SYS_unlinkat, AT_FDCWD, link, 0);
  return err;
}

fs_err fs_nl_reach(const char *real, struct fs_nl_address *a) {
  a->fd = fs_sys_openat(AT_FDCWD, real, O_PATH | O_CLOEXEC, 0);
  if (a->fd < 0) return a->fd;
  fd_address(a->fd, "", &a->un, &a->len);
  return 0;
}

/* Returns the token of an address, or NULL. */
static const char *token_of(const char *path, size_t len) {
  size_t at = sizeof(FS_NL_FD) - 1;
  if (len <= at || memcmp(path, FS_NL_FD, at) != 0) return NULL;
  while (at < len && path[at] >= '0' && path[at] <= '9') at++;
  if (len - at < FS_NL_HEX || path[at] != '/') return NULL;
  const char *token = path + at + 1;
  for (size_t i = 0; i < FS_NL_HEX - 1; i++)
    if (!((token[i] >= '0' && token[i] <= '9') || (token[i] >= 'a' && token[i] <= 'f'))) return NULL;
  return len - at - 1 == FS_NL_HEX - 1 || token[FS_NL_HEX - 1] == '\0' ? token : NULL;
}

void fs_nl_tell(struct sockaddr_un *a, socklen_t have, socklen_t *n) {
  char link[PATH_MAX], path[sizeof(a->sun_path) + 1];
  const size_t head = offsetof(struct sockaddr_un, sun_path);
  const char *token = token_of(a->sun_path, *n - head);
  const struct fs_node *node = token == NULL || fs_mounts() == 0 ? NULL : fs_names_node();
  if (node == NULL || fs_nl_path(node, FS_NL_PATHS, token, FS_NL_HEX - 1, link) != 0) return;
  long len = FS_SYS4(SYS_readlinkat, AT_FDCWD, link, path, sizeof(path) - 1);
  if (len <= 0) return;
  path[len] = '\0';
  memcpy(a->sun_path, path, FS_MIN((size_t)len + 1, have - head));
  *n = (socklen_t)(head + (size_t)len + 1);
}
