/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For disks.sh, by LD_PRELOAD into daemons: nothing is in the page cache, and while the file $FAULTS_HANG.RANK is there
 * no read of the I/O pool ends, as if the disk hung. All system calls but those go on as ever. The process's own thread
 * is left alone: it does not wait for disks.
 */
#define _GNU_SOURCE
#include <poll.h>

#include "watch.h"

#define HELD 64

static char hangs[4096];

static void *watch(void *arg) {
  __u64 held[HELD];
  unsigned n = 0;
  sem_wait(&ready);
  for (;;) {
    struct pollfd p = {.fd = listener, .events = POLLIN};
    int hanging = access(hangs, F_OK) == 0;
    while (!hanging && n > 0) answer(held[--n], 0);
    if (poll(&p, 1, 20) <= 0) continue;
    struct seccomp_notif q;
    if (!next(&q)) continue;
    if (hanging && n < HELD && q.pid != (__u32)getpid())
      held[n++] = q.id;
    else
      answer(q.id, 0);
  }
  return arg;
}

__attribute__((constructor)) static void begin(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      ON(SYS_mincore, SECCOMP_RET_ERRNO | ENOSYS),
      /* but at -1, which is no place on a disk: the doorbell, which would ring for ever */
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_preadv2, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xffffffffu, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
      ON(SYS_pread64, SECCOMP_RET_USER_NOTIF),
      ON(SYS_madvise, SECCOMP_RET_USER_NOTIF),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *prefix = getenv("FAULTS_HANG");
  if (!rank || !prefix) return;
  snprintf(hangs, sizeof(hangs), "%s.%s", prefix, rank);
  begin_watch(code, sizeof(code) / sizeof(code[0]));
}
