/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment of programs that join the job: see environment.c. A module (module.h). */
#ifndef FS_DAEMON_CORE_ENVIRONMENT_H
#define FS_DAEMON_CORE_ENVIRONMENT_H

#include "daemon/daemon.h"
#include "ipc/control.h"

fs_err fs_environment_start(struct fs_daemon *d);
/* Closes the job to new programs at `finish`. Always returns false. */
bool fs_environment_obey(struct fs_daemon *d, const struct fs_control *line);
void fs_environment_leave(struct fs_daemon *d, int status);

#endif
