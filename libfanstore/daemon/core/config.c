/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of the daemon's configuration that are worth a test of their own. No state. */
#include <string.h>

#include "daemon/daemon.h"

/* The job's name becomes a directory's name. */
bool fs_job_name_ok(const char *name) {
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  size_t n = strlen(name);
  return n > 0 && n <= FS_JOB_NAME_MAX && name[0] != '.' && strspn(name, allowed) == n;
}
