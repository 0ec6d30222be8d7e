/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file of --report. A regular file is written whole or not at all: under another name beside
 * it, which is renamed. Whether this can be done is tried before the job starts. One thread.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"
#include "report.h"

static fs_err open_stream(struct fs_report_file *f, int fd) {
  if (fd < 0) return -errno;
  fcntl(fd, F_SETFL, 0);
  f->out = fdopen(fd, "w");
  if (f->out) return 0;
  close(fd);
  return -ENOMEM;
}

/* Opens the temporary file beside the name that the report is to have. */
static fs_err open_temporary(struct fs_report_file *f) {
  const char *slash = strrchr(f->name, '/');
  size_t dir = slash ? (size_t)(slash - f->name) + 1 : 0;
  int n = snprintf(f->temporary, sizeof(f->temporary), "%.*s.fanstore-report-%ld", (int)dir, f->name, (long)getpid());
  if (n < 0 || (size_t)n >= sizeof(f->temporary)) return -ENAMETOOLONG;
  (void)unlink(f->temporary); /* an old one: it has our process id */
  int fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd >= 0) return open_stream(f, fd);
  f->temporary[0] = '\0';
  return -errno;
}

fs_err fs_report_open(const char *name, struct fs_report_file *f) {
  struct stat st;
  *f = (struct fs_report_file){.out = stdout};
  if (strcmp(name, "-") == 0) return 0;
  bool there = stat(name, &st) == 0;
  if (there && !S_ISREG(st.st_mode)) return open_stream(f, open(name, O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (there && access(name, W_OK) < 0) return -errno;
  if (there && !realpath(name, f->name)) return -errno; /* a symlink stays, and leads to the new file */
  if (!there && strlen(name) >= sizeof(f->name)) return -ENAMETOOLONG;
  if (!there) strcpy(f->name, name);
  return open_temporary(f);
}

fs_err fs_report_close(struct fs_report_file *f) {
  fs_err err = ferror(f->out) || fflush(f->out) != 0 ? -(errno ? errno : EIO) : 0;
  if (f->out == stdout) return err;
  if (f->temporary[0] != '\0' && err == 0 && fsync(fileno(f->out)) < 0) err = -errno;
  if (fclose(f->out) != 0 && err == 0) err = -errno;
  if (f->temporary[0] == '\0') return err;
  if (err == 0 && rename(f->temporary, f->name) < 0) err = -errno;
  if (err < 0) (void)unlink(f->temporary);
  return err;
}

int fs_check_report(const struct fs_launch *l) {
  struct fs_report_file f;
  if (!l->opt.report || strcmp(l->opt.report, "-") == 0) return 0;
  fs_err err = fs_report_open(l->opt.report, &f);
  if (err == 0) {
    fclose(f.out);
    if (f.temporary[0] != '\0') (void)unlink(f.temporary);
    return 0;
  }
  fs_say("--report %s: %s", l->opt.report, strerror(-err));
  return FS_EXIT_FAILED;
}
