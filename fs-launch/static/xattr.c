/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers calls about extended attributes: user.fanstore.* can be read (client/files/info.h), none
   are listed. No locks. */
#include "client/files/info.h"
#include "static.h"

#define FS_VALUE_MAX 8192 /* the longest is a path */

static int64_t give_value(const struct fs_call *c, uint32_t mount, uint32_t entry) {
  char name[PATH_MAX], value[FS_VALUE_MAX];
  fs_err err = fs_tracee_string(c, c->arg[1], name);
  if (err != 0) return err == -ENAMETOOLONG ? -ERANGE : err;
  fs_ssize n = fs_file_getxattr(mount, entry, name, value, FS_MIN(c->arg[3], sizeof(value)));
  if (n <= 0 || c->arg[3] == 0) return n;
  err = fs_tracee_write(c, c->arg[2], value, (size_t)n);
  return err != 0 ? err : n;
}

/* Finds the entry. Returns FS_IN, or another value with the answer in *r. */
static int find(struct fs_call *c, const struct fs_trap *t, struct fs_found *f, int64_t *r) {
  if (t->path < 0) {
    *r = FS_PASS;
    return fs_call_ref(c, (int)c->arg[0], &f->mount, &f->entry) ? FS_IN : FS_OUTSIDE;
  }
  int route = fs_trap_find(c, t, f);
  *r = route == FS_OUTSIDE ? FS_PASS : route < 0 ? route : route == FS_REDIRECT ? -EOPNOTSUPP : -ENOENT;
  return route;
}

int64_t fs_on_getxattr(struct fs_call *c, const struct fs_trap *t) {
  struct fs_found f;
  int64_t r;
  return find(c, t, &f, &r) == FS_IN ? give_value(c, f.mount, f.entry) : r;
}

int64_t fs_on_listxattr(struct fs_call *c, const struct fs_trap *t) {
  struct fs_found f;
  int64_t r;
  return find(c, t, &f, &r) == FS_IN ? 0 : r;
}
