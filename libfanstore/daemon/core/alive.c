/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * While the daemon starts, a thread says each second that the process is there (`begun`, `alive`:
 * ipc/control.h). It runs from before MPI is up until the daemon serves, whatever the MPI thread
 * waits for: a peer in MPI_Init, a slow file system. So fs-launch can tell a daemon that is
 * suspended, or has died on another host, from a slow one.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "ipc/control.h"

#define FS_ALIVE_US 1000000u

static struct fs_alive { /* one per process */
  uint64_t rank;
  atomic_bool over;
} alive;

static bool fs_alive_line(struct fs_control_line *l, const char *verb) {
  return fs_control_begin(l, verb) == 0 && fs_control_add_u64(l, "rank", alive.rank) == 0;
}

static void *fs_alive_main(void *arg) {
  struct fs_control_line l;
  (void)arg;
  while (!atomic_load(&alive.over)) {
    if (fs_alive_line(&l, "alive")) fs_say_line(&l);
    usleep(FS_ALIVE_US);
  }
  return NULL;
}

void fs_alive_begin(void) {
  struct fs_control_line l;
  char host[256] = "?";
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  if (!rank || fs_parse_u64(rank, 0, FS_MAX_NODES - 1, &alive.rank) < 0) return;
  gethostname(host, sizeof(host) - 1);
  if (fs_alive_line(&l, "begun") && fs_control_add(&l, "host", host) == 0 &&
      fs_control_add_u64(&l, "pid", (uint64_t)getpid()) == 0)
    fs_say_line(&l);
  (void)fs_thread_start(fs_alive_main, NULL);
}

void fs_alive_end(void) {
  atomic_store(&alive.over, true);
}
