/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The real functions behind the wrappers, resolved in one pass at first use, and the library's
 * start and end. While one thread resolves, its own nested calls (malloc under dlsym) find the
 * pointers that they need already set, or go straight to the kernel. Racing threads store the same
 * values.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "fanstore/fanstore.h"
#include "ipc/node.h"
#include "preload/environ.h"
#include "preload/preload.h"
#include "util/util.h"

struct fs_real fs_real;
void *fs_real_dlopen; /* for dlopen_entry.S */

static ssize_t raw_read(int fd, void *buf, size_t n) {
  return fs_ret(fs_sys_read(fd, buf, n));
}
static int raw_close(int fd) {
  return fs_ret_int(fs_sys_close(fd));
}
static int raw_openat(int dirfd, const char *path, int flags, ...) {
  va_list ap;
  va_start(ap, flags);
  int mode = va_arg(ap, int);
  va_end(ap);
  return fs_ret_int(fs_sys_openat(dirfd, path, flags, (mode_t)mode));
}
static void *raw_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t off) {
  void *p = fs_sys_mmap(addr, n, prot, flags, fd, (uint64_t)off);
  if (!fs_sys_mmap_failed(p)) return p;
  errno = (int)-(intptr_t)p;
  return MAP_FAILED;
}
static int raw_munmap(void *addr, size_t n) {
  return fs_ret_int(FS_SYS2(SYS_munmap, addr, n));
}
static int raw_fstat(int fd, struct stat *st) {
  return fs_ret_int(fs_sys_fstat(fd, st));
}
static ssize_t raw_readlinkat(int dirfd, const char *path, char *buf, size_t n) {
  return fs_ret(FS_SYS4(SYS_readlinkat, dirfd, path, buf, n));
}

/* Sets what dlsym may need before it has answered. */
static void set_bootstrap(void) {
  if (fs_real.mmap == NULL) fs_real.mmap = raw_mmap;
  if (fs_real.munmap == NULL) fs_real.munmap = raw_munmap;
  if (fs_real.read == NULL) fs_real.read = raw_read;
  if (fs_real.close == NULL) fs_real.close = raw_close;
  if (fs_real.openat == NULL) fs_real.openat = raw_openat;
  if (fs_real.fstat == NULL) fs_real.fstat = raw_fstat;
  if (fs_real.readlinkat == NULL) fs_real.readlinkat = raw_readlinkat;
}

static void resolve(void *slot, const char *name) {
  __atomic_store_n((void **)slot, fs_real_find(name), __ATOMIC_RELEASE);
}

void fs_real_resolve(void) {
  static FS_TLS bool resolving;
  if (resolving) return;
  resolving = true;
  int saved = errno;
  set_bootstrap();
#define X(ret, name, params, args) resolve(&fs_real.name, #name);
  FS_SYMBOLS(X)
#undef X
  fs_real_dlopen = (void *)fs_real.dlopen;
  errno = saved;
  resolving = false;
}

/* Uses libc's own function: bash has one of the same name for shell variables, which it has not
   read yet. */
void fs_env_set(const char *name, const char *value) {
  int (*set)(const char *, const char *, int) = (int (*)(const char *, const char *, int))dlsym(RTLD_NEXT, "setenv");
  if (set != NULL) set(name, value, 1);
}

void fs_env_drop(const char *name) {
  int (*drop)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "unsetenv");
  if (drop != NULL) drop(name);
}

static void export_node(void) {
  enum fs_node_source source;
  char text[16];
  uint32_t node = fs_node_decide(&source);
  if (source == FS_NODE_DEFAULT || source == FS_NODE_NAMED) return;
  snprintf(text, sizeof(text), "%u", node);
  fs_env_set(FS_ENV_NODE, text);
}

__attribute__((constructor)) static void start(void) {
  int saved = errno;
  fs_real_resolve();
  if (fs_mount_count() > 0) {
    export_node();
    fs_mounts_export(fs_env_set);
    fs_run_remember();
    fs_trace_start(fs_env_set);
    if (getenv(FS_ENV_STATE) != NULL || getenv(FS_ENV_RUN) != NULL) fs_files_start();
    fs_own_make_room();
  }
  fs_env_start();
  errno = saved;
}

/* Other destructors may still open files after this: they get new placeholders. */
__attribute__((destructor)) static void end(void) {
  /* libc writes stdout out only after this library has ended. */
  if (fs_output_tracked(fs_fd_entry(1)) && ftrylockfile(stdout) == 0) {
    fflush(stdout);
    funlockfile(stdout);
  }
  fs_output_at_end(); /* stdio has yet to write what it holds */
  fs_output_publish_all();
  fs_output_locks_leave(false);
  if (fs_mount_count() > 0) fs_data_leave();
  fs_trace_leave();
  if (fs_state_fd() >= 0) fs_fd_pool_drop();
}
