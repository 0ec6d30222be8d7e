/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * node-K.env in the run directory: the environment for programs that join the job
 * (docs/internals/attach.md). The words are fs-launch's; the daemon adds its local directory. The
 * file exists from the daemon's start until the job begins to finish. The MPI thread alone calls
 * this.
 */
#include "daemon/core/environment.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/node.h"
#include "ipc/processes.h"
#include "util/sys.h"
#include "util/util.h"

static fs_err fs_environment_word(int fd, const char *name, const char *value) {
  fs_err err = fs_write_full(fd, name, strlen(name));
  return err == 0 ? fs_write_full(fd, value, strlen(value) + 1) : err;
}

static fs_err fs_environment_write(const struct fs_daemon *d, int fd) {
  fs_err err = 0;
  for (uint32_t i = 0; err == 0 && i < d->cfg->envs; i++) err = fs_environment_word(fd, "", d->cfg->env[i]);
  if (err == 0) err = fs_environment_word(fd, "local-dir=", d->cfg->local_dir);
  return err == 0 ? fs_environment_word(fd, "run=", d->run) : err;
}

fs_err fs_environment_start(struct fs_daemon *d) {
  char path[PATH_MAX], whole[PATH_MAX];
  if (d->cfg->envs == 0) return 0;
  fs_ssize n = fs_run_env(d->run, d->net->rank, whole, sizeof(whole));
  if (n < 0 || snprintf(path, sizeof(path), "%s.new", whole) >= (int)sizeof(path)) return -ENAMETOOLONG;
  FS_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  fs_err err = fd < 0 ? -errno : fs_environment_write(d, fd);
  if (err == 0 && rename(path, whole) < 0) err = -errno;
  if (err == 0) return 0;
  if (fd >= 0) (void)unlink(path);
  fs_say_text(d, "warn", "%s: %s: no program can join the job on this node", whole, strerror(-err));
  return 0;
}

static void fs_environment_remove(const struct fs_daemon *d) {
  char path[PATH_MAX];
  if (d->cfg->envs > 0 && fs_run_env(d->run, d->net->rank, path, sizeof(path)) > 0) (void)unlink(path);
}

/* Warns of programs that still run. A client that was killed a moment ago may still have its slot. The
   daemon may be a client itself (inside.h). */
static void fs_environment_programs(const struct fs_daemon *d) {
  uint32_t high = FS_MIN(atomic_load(&d->clients.high), FS_MAX_CLIENTS), n = 0;
  for (uint32_t i = 0; i < high; i++) {
    const struct fs_client *c = atomic_load(&d->clients.slot[i]);
    if (!c || atomic_load(&c->gone) || c->pid <= 1 || (pid_t)c->pid == getpid()) continue;
    n += fs_process_alive((pid_t)c->pid);
  }
  if (n > 0)
    fs_say_text(d, "warn", "%u program%s still ran when the job finished: what %s not closed may not be saved", n,
                n == 1 ? "" : "s", n == 1 ? "it had" : "they had");
}

bool fs_environment_obey(struct fs_daemon *d, const struct fs_control *line) {
  bool finish = strcmp(line->verb, "finish") == 0;
  if (finish && fs_control_get(line, "alone") == NULL) fs_environment_programs(d);
  if (finish) fs_environment_remove(d);
  return false; /* others obey it too */
}

void fs_environment_leave(struct fs_daemon *d, int status) {
  (void)status;
  fs_environment_remove(d);
}
