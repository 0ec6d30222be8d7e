/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A watcher of a process's system calls, for the disks of disks.sh: a seccomp filter tells a thread
 * of chosen calls, and the thread decides what each returns. The including file defines watch().
 */
#ifndef FAULT_TABLE_WATCH_H
#define FAULT_TABLE_WATCH_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
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

#define ON(nr, what) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, what)

static int listener;
static sem_t ready;

/* The thread. It first waits for `ready`, then calls next() for ever. */
static void *watch(void *arg);

/* Waits for the next call that the filter tells of. Returns 0 if that fails. */
static int next(struct seccomp_notif *q) {
  memset(q, 0, sizeof(*q));
  return ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, q) == 0;
}

/* Lets a call fail with an errno, or go on if err is 0. */
static void answer(__u64 id, int err) {
  struct seccomp_notif_resp r = {.id = id, .error = -err, .flags = err ? 0 : SECCOMP_USER_NOTIF_FLAG_CONTINUE};
  ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &r);
}

/* The thread starts before the filter, which therefore does not apply to it. */
static void begin_watch(struct sock_filter *code, unsigned short len) {
  struct sock_fprog program = {.len = len, .filter = code};
  pthread_t thread;
  sem_init(&ready, 0, 0);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (pthread_create(&thread, NULL, watch, NULL) != 0) return;
  listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
  if (listener < 0) perror("seccomp");
  sem_post(&ready);
}

#endif
