/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers calls that open files: a file of a dataset is answered with a descriptor of a real file
   that has its bytes. No locks. */
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/file.h>

#include "client/outputs/outputs.h"
#include "static.h"

#define FS_HOW_MIN 24 /* size of the first version of struct open_how */

/* Opens, with the same rights, a file that a link of the dataset or ".." led to outside the
   mount. */
static int64_t open_outside(struct fs_call *c, const char *path, int flags, mode_t mode) {
  bool creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
  if (creates) mode &= ~fs_tracee_umask(c);
  fs_fd fd = fs_sys_openat(AT_FDCWD, path, flags | O_CLOEXEC | O_NOCTTY, creates ? mode & 07777 : 0);
  return fs_give(c, fd, (flags & O_CLOEXEC) != 0);
}

static int64_t open_below(struct fs_call *c, int route, const struct fs_found *f, int flags) {
  struct stat st;
  if (flags & O_PATH) flags &= O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  fs_err err = fs_file_open_check(route, f, flags);
  if (err == 0) err = fs_file_stat(f->mount, f->entry, &st);
  if (err != 0) return err;
  bool dir = S_ISDIR(st.st_mode), cloexec = (flags & O_CLOEXEC) != 0;
  if (flags & O_PATH) return fs_give(c, fs_real_path(f->mount, f->entry, dir), cloexec);
  if (S_ISREG(st.st_mode) && fs_is_output(f->entry)) /* another node's: a copy */
    return (flags & O_ACCMODE) != O_RDONLY ? -EROFS
                                           : fs_give(c, fs_data_materialize_checked(f->mount, f->entry), cloexec);
  if (S_ISREG(st.st_mode)) fs_count(FS_C_OPENS, 1);
  return fs_give(c, fs_real_open(f->mount, f->entry, dir, flags), cloexec);
}

/* Returns the flags of the walk. A name that may be created is not followed if it must be new, and
   not looked up if it ends in a slash. */
static unsigned open_walk(const struct fs_call *c, int flags) {
  unsigned walk = flags & O_NOFOLLOW ? FS_NOFOLLOW : 0;
  if ((flags & (O_ACCMODE | O_TRUNC)) != O_RDONLY && !(flags & O_PATH)) walk |= FS_CHANGES;
  if ((flags & (O_CREAT | O_PATH)) != O_CREAT) return walk;
  size_t len = strlen(c->path);
  return (flags & O_EXCL) || (len > 0 && c->path[len - 1] == '/') ? FS_NOFOLLOW | FS_AS_IS : walk;
}

static int64_t open_at(struct fs_call *c, int dirfd, int path, uint64_t how, mode_t mode) {
  struct fs_found f = {.last = FS_LAST_NAME};
  int flags = (int)how;
  /* The kernel reports wrong flags before it looks at the path. */
  if (fs_file_check_flags(flags) != 0 || fs_tracee_string(c, c->arg[path], c->path) != 0) return FS_PASS;
  int route = fs_call_find(c, dirfd, path, open_walk(c, flags), &f);
  /* A file that we gave, by its name in /proc: the entry is meant, not the real file. */
  if (route == FS_OUTSIDE && fs_call_proc_ref(c, &f.mount, &f.entry))
    return open_below(c, FS_IN, &f, flags & ~O_NOFOLLOW);
  if (route == FS_OUTSIDE) return FS_PASS;
  if (route < 0) return route;
  if (route == FS_REDIRECT) return open_outside(c, f.real, flags, mode);
  return open_below(c, route, &f, flags);
}

/* Refuses a lock of a copy of another node's file: the lock would exclude nobody. */
int64_t fs_on_lock(struct fs_call *c, const struct fs_trap *t) {
  char what[32], link[PATH_MAX];
  struct flock request = {.l_type = F_UNLCK};
  (void)t;
  if (c->nr == SYS_flock) {
    if (c->arg[1] & LOCK_UN) return FS_PASS;
  } else if (fs_tracee_read(c, c->arg[2], &request, sizeof(request)) != 0 || request.l_type == F_UNLCK) {
    return FS_PASS;
  }
  snprintf(what, sizeof(what), "fd/%d", (int)c->arg[0]);
  return fs_tracee_link(c, what, link) == 0 && fs_output_copy_link(link) ? -ENOLCK : FS_PASS;
}

int64_t fs_on_open(struct fs_call *c, const struct fs_trap *t) {
  return open_at(c, t->dirfd, t->path, c->arg[1], (mode_t)c->arg[2]);
}

int64_t fs_on_creat(struct fs_call *c, const struct fs_trap *t) {
  return open_at(c, t->dirfd, t->path, O_CREAT | O_WRONLY | O_TRUNC, (mode_t)c->arg[1]);
}

int64_t fs_on_openat(struct fs_call *c, const struct fs_trap *t) {
  return open_at(c, t->dirfd, t->path, c->arg[2], (mode_t)c->arg[3]);
}

/* Answers openat2. If the walk is restricted, the kernel answers outside the mounts. Below a mount
   we behave like a kernel without this call, so programs use openat. */
int64_t fs_on_openat2(struct fs_call *c, const struct fs_trap *t) {
  struct open_how how = {0};
  struct fs_found f;
  if (c->arg[3] < FS_HOW_MIN || fs_tracee_read(c, c->arg[2], &how, FS_HOW_MIN) != 0) return FS_PASS;
  if (how.resolve == 0) return open_at(c, t->dirfd, t->path, how.flags, (mode_t)how.mode);
  return fs_trap_find(c, t, &f) == FS_OUTSIDE ? FS_PASS : -ENOSYS;
}
