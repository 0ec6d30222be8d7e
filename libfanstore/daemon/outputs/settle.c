/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sets the times of output directories that were copied to --stage-out's directory, or kept. Any
 * rank may put files into any of them until all have finished, which changes their times. So each
 * rank sets the times of the directories that it has made as its very last step. Errors are
 * ignored, as no data depends on it. The MPI thread's.
 */
#include "daemon/outputs/output.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/numbers.h"
#include "util/util.h"

struct fs_settle_dir {
  struct fs_settle_dir *next;
  struct timespec mtime;
  bool kept;
  char path[];
};
static struct fs_settle_dir *settle_dirs; /* there is one daemon per process */

void fs_settle_add(const struct fs_output *o, bool kept, const char *path) {
  size_t n = strlen(path) + 1;
  struct fs_settle_dir *s = malloc(sizeof(*s) + n);
  if (!s) return;
  *s = (struct fs_settle_dir){.next = settle_dirs, .mtime = fs_output_time(o), .kept = kept};
  memcpy(s->path, path, n);
  settle_dirs = s;
}

/* Follows no symlink, as for all that is copied there. */
static void fs_settle_one(int base, const struct fs_settle_dir *s) {
  struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
                         .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
  struct timespec times[2] = {s->mtime, s->mtime};
  FS_AUTO_CLOSE int fd = (int)syscall(SYS_openat2, base, s->path, &how, sizeof(how));
  if (fd >= 0) (void)futimens(fd, times);
}

void fs_settle(int kept, int staged) {
  for (struct fs_settle_dir *s; (s = settle_dirs) != NULL;) {
    settle_dirs = s->next;
    int base = s->kept ? kept : staged;
    if (base >= 0) fs_settle_one(base, s);
    free(s);
  }
}
