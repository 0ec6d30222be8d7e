/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For disks.sh, by LD_PRELOAD into daemons: nothing is in the page cache, and while the file $FAULTS_HANG.RANK is there
 * no read of the I/O pool ends, as if the disk hung. All system calls but those go on as ever. The process's own thread
 * is left alone: it does not wait for disks.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HELD 64

static char hangs[4096];
static int listener;
static sem_t ready;

static void go_on(__u64 id) {
  struct seccomp_notif_resp r = {.id = id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
  ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &r);
}

static void *watch(void *arg) {
  __u64 held[HELD];
  unsigned n = 0;
  sem_wait(&ready);
  for (;;) {
    struct pollfd p = {.fd = listener, .events = POLLIN};
    int hanging = access(hangs, F_OK) == 0;
    while (!hanging && n > 0) go_on(held[--n]);
    if (poll(&p, 1, 20) <= 0) continue;
    struct seccomp_notif q;
    memset(&q, 0, sizeof(q));
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &q) < 0) continue;
    if (hanging && n < HELD && q.pid != (__u32)getpid())
      held[n++] = q.id;
    else
      go_on(q.id);
  }
  return arg;
}

__attribute__((constructor)) static void begin(void) {
#define ON(nr, what) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, what)
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
  struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
  const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *prefix = getenv("FAULTS_HANG");
  pthread_t thread;
  if (!rank || !prefix) return;
  snprintf(hangs, sizeof(hangs), "%s.%s", prefix, rank);
  sem_init(&ready, 0, 0);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (pthread_create(&thread, NULL, watch, NULL) != 0) return; /* before the filter, which is not the watcher's then */
  listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
  if (listener < 0) perror("hanging_disk: seccomp");
  sem_post(&ready);
}
