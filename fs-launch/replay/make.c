/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch replay --make: the files that a trace has read, with their names and sizes, so that the
 * trace can be replayed where the data is not. Their bytes are random, and do not compress.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../launch.h"
#include "names.h"
#include "replay.h"

/* Returns true if no part of a relative path leads out of the directory. */
static bool is_inside(const char *path) {
  for (const char *p = path; *p;) {
    size_t n = strcspn(p, "/");
    if ((n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.')) return false;
    p += n + strspn(p + n, "/");
  }
  return path[0] != '\0' && path[0] != '/';
}

static fs_err make_parents(int dir, char *path) {
  for (char *p = strchr(path, '/'); p; p = strchr(p + 1, '/')) {
    *p = '\0';
    int r = mkdirat(dir, path, 0777);
    int err = errno;
    *p = '/';
    if (r < 0 && err != EEXIST) return -err;
  }
  return 0;
}

static fs_err fill(int fd, uint64_t size, uint64_t *random) {
  uint64_t buf[8192];
  for (uint64_t at = 0; at < size;) {
    for (size_t i = 0; i < FS_ARRAY_LEN(buf); i++) { /* xorshift64 */
      *random ^= *random << 13;
      *random ^= *random >> 7;
      *random ^= *random << 17;
      buf[i] = *random;
    }
    ssize_t put = write(fd, buf, (size_t)FS_MIN(size - at, sizeof(buf)));
    if (put <= 0) return put < 0 ? -errno : -EIO;
    at += (uint64_t)put;
  }
  return 0;
}

static fs_err make_file(int dir, char *path, uint64_t size, bool directory, uint64_t *random) {
  fs_err err = make_parents(dir, path);
  if (err < 0) return err;
  if (directory) return mkdirat(dir, path, 0777) < 0 && errno != EEXIST ? -errno : 0;
  FS_AUTO_CLOSE int fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0) return errno == EEXIST || errno == EISDIR ? 0 : -errno;
  return fill(fd, size, random);
}

int fs_replay_make(const struct fs_trace_set *set, const char *name) {
  uint64_t random = 88172645463325252ull, files = 0, bytes = 0;
  struct fs_names_table made = {0};
  FS_AUTO_CLOSE int dir = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  fs_err err = dir < 0 ? -errno : 0;
  for (size_t k = 0; err == 0 && k < set->segments; k++) {
    struct fs_trace_item i;
    for (const uint8_t *at = set->segment[k].at; err == 0 && fs_trace_next(&set->segment[k], &at, &i);) {
      char path[PATH_MAX];
      if (i.r.call != FS_TRACE_OPEN || i.r.result < 0 || i.r.path_len <= i.r.mount_len + 1u) continue;
      if (i.r.off & (O_WRONLY | O_RDWR | O_CREAT)) continue; /* an output */
      snprintf(path, sizeof(path), "%.*s", (int)(i.r.path_len - i.r.mount_len - 1), i.path + i.r.mount_len + 1);
      struct fs_names_entry *e = fs_names_table_get(&made, path, strlen(path));
      if (!e) err = -ENOMEM;
      if (!e || e->value != UINT64_MAX || !is_inside(path)) continue;
      e->value = 1;
      err = make_file(dir, path, i.r.n, (i.r.off & O_DIRECTORY) != 0, &random);
      if (!(i.r.off & O_DIRECTORY)) files++, bytes += i.r.n;
    }
  }
  fs_names_table_free(&made);
  if (err < 0) {
    fs_say("--make %s: %s", name, strerror(-err));
    return FS_EXIT_FAILED;
  }
  char size[32];
  printf("%llu file%s, %s\n", (unsigned long long)files, fs_plural(files), fs_format_size(bytes, size, sizeof(size)));
  return fflush(stdout) == 0 ? 0 : FS_EXIT_FAILED;
}
