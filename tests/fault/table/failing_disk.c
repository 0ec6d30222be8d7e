/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For disks.sh, by LD_PRELOAD into daemons and readers: while the file $FAULTS_EIO.K is there, the disk of node K gives
 * errors, and nothing of its staged partitions is in the page cache: what reads them gets what the kernel answers then.
 * By seccomp, since the library makes its system calls itself. Children share their parent's filter and its watcher.
 */
#define _GNU_SOURCE
#include "watch.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#define LOCAL "/fanstore-node"

/* Is this one of the partitions of a disk that gives errors? */
static int fails(const char *path) {
  char file[4200];
  const char *node = strstr(path, LOCAL);
  if (!node || !strstr(node, "/part-")) return 0;
  snprintf(file, sizeof(file), "%s.%d", getenv("FAULTS_EIO"), atoi(node + sizeof(LOCAL) - 1));
  return access(file, F_OK) == 0;
}

static int fd_fails(unsigned pid, int fd) {
  char name[64], path[4096];
  snprintf(name, sizeof(name), "/proc/%u/fd/%d", pid, fd);
  ssize_t n = readlink(name, path, sizeof(path) - 1);
  if (n < 0) return 0;
  path[n] = '\0';
  return fails(path);
}

static int map_fails(unsigned pid, unsigned long at) {
  char name[64], line[4300];
  int found = 0;
  snprintf(name, sizeof(name), "/proc/%u/maps", pid);
  FILE *f = fopen(name, "re");
  while (f && !found && fgets(line, sizeof(line), f)) {
    unsigned long begin, end;
    found = sscanf(line, "%lx-%lx", &begin, &end) == 2 && at >= begin && at < end && fails(line);
  }
  if (f) fclose(f);
  return found;
}

/* What the kernel says of it, or 0. */
static int error_of(const struct seccomp_notif *q) {
  switch (q->data.nr) {
  case SYS_pread64:
    return fd_fails(q->pid, (int)q->data.args[0]) ? EIO : 0;
  case SYS_preadv2:
    return fd_fails(q->pid, (int)q->data.args[0]) ? EAGAIN : 0; /* RWF_NOWAIT: not in memory */
  case SYS_madvise:
    return map_fails(q->pid, q->data.args[0]) ? EFAULT : 0; /* as a touch would be SIGBUS */
  default:
    return map_fails(q->pid, q->data.args[0]) ? ENOSYS : 0;
  }
}

static void *watch(void *arg) {
  sem_wait(&ready);
  for (;;) {
    struct seccomp_notif q;
    if (next(&q)) answer(q.id, error_of(&q));
  }
  return arg;
}

__attribute__((constructor)) static void begin(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      ON(SYS_pread64, SECCOMP_RET_USER_NOTIF),
      ON(SYS_preadv2, SECCOMP_RET_USER_NOTIF),
      ON(SYS_mincore, SECCOMP_RET_USER_NOTIF),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
      ON(MADV_POPULATE_READ, SECCOMP_RET_USER_NOTIF),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  if (!getenv("FAULTS_EIO") || getenv("FAULTS_EIO_WATCHED")) return;
  setenv("FAULTS_EIO_WATCHED", "1", 1);
  begin_watch(code, sizeof(code) / sizeof(code[0]));
}
