/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads DATASET/manifest. Called by the tools, the daemons and preloaded processes without a daemon, so the system
 * calls are raw ones and the buffer comes from the kernel. No state, no locks.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "format/manifest.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_MANIFEST_MAX (64u << 10) /* an escaped mount of PATH_MAX bytes is 16 KiB */
#define FS_WHY(...) (why ? (void)snprintf(why, why_size, __VA_ARGS__) : (void)0)

/* Reads up to the end of the file, at most `size` bytes. */
static fs_ssize fs_read_all(int fd, char *buf, size_t size) {
  size_t n = 0;
  while (n < size) {
    fs_ssize got = fs_sys_read(fd, buf + n, size - n);
    if (got == -EINTR) continue;
    if (got < 0) return got;
    if (got == 0) break;
    n += (size_t)got;
  }
  return (fs_ssize)n;
}

static bool has_index(const char *dataset) {
  char path[PATH_MAX];
  struct stat st;
  int len = snprintf(path, sizeof(path), "%s/index", dataset);
  return len < (int)sizeof(path) && fs_sys_fstatat(AT_FDCWD, path, &st, 0) == 0 && S_ISREG(st.st_mode);
}

/* Explains to the user why the manifest cannot be opened. */
static void fs_explain_open(const char *dataset, const char *shown, fs_err err, char *why, size_t why_size) {
  struct stat st;
  fs_err there = fs_sys_fstatat(AT_FDCWD, dataset, &st, 0);
  if (err != -ENOENT && err != -ENOTDIR)
    FS_WHY("%s: cannot open its manifest: %s", shown, fs_error_text(-err));
  else if (there < 0)
    FS_WHY("%s: no such dataset", shown);
  else if (!S_ISDIR(st.st_mode))
    FS_WHY("%s: no such dataset: it is no directory", shown);
  else if (has_index(dataset))
    FS_WHY("%s: no such dataset: it has no manifest but an index; copy all of its files", shown);
  else
    FS_WHY("%s: no such dataset: it has no manifest; if it is not packed yet, run: fs-prepare pack %s DATASET", shown,
           shown);
}

static fs_err fs_load_text(int fd, const char *shown, char *buf, struct fs_manifest *m, char *why, size_t why_size) {
  char reason[256] = "";
  fs_ssize n = fs_read_all(fd, buf, FS_MANIFEST_MAX);
  if (n < 0) {
    FS_WHY("%s: cannot read its manifest: %s", shown, fs_error_text((int)-n));
    return (fs_err)n;
  }
  fs_err err = fs_manifest_parse(buf, (size_t)n, m, reason, sizeof(reason));
  if (err < 0) FS_WHY("%s: %s", shown, reason);
  return err;
}

fs_err fs_manifest_load_fd(int fd, const char *shown, struct fs_manifest *m, char *why, size_t why_size) {
  char *buf = fs_sys_mmap(NULL, FS_MANIFEST_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fs_sys_mmap_failed(buf)) return -ENOMEM;
  fs_err err = fs_load_text(fd, shown, buf, m, why, why_size);
  fs_sys_munmap(buf, FS_MANIFEST_MAX);
  return err;
}

fs_err fs_manifest_load(const char *dataset, struct fs_manifest *m, char *why, size_t why_size) {
  char path[PATH_MAX], shown[384];
  int len = snprintf(path, sizeof(path), "%s/manifest", dataset);
  fs_fd opened =
      len < (int)sizeof(path) ? fs_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0) : -ENAMETOOLONG;
  FS_AUTO_CLOSE int fd = opened;
  fs_printable(dataset, strlen(dataset), shown, sizeof(shown));
  if (fd < 0) {
    fs_explain_open(dataset, shown, opened, why, why_size);
    return opened == -ENOTDIR ? -ENOENT : opened;
  }
  return fs_manifest_load_fd(fd, shown, m, why, why_size);
}
