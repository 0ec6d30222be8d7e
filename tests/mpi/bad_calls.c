/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bad_calls DOES CALL ARGUMENT VALUE RANK COMMAND...: becomes COMMAND, in which a system call hangs, or fails, by a
 * seccomp filter. DOES: hang, or EIO. CALL: its number. Only calls whose ARGUMENT (0 to 5) has this VALUE are bad; -1
 * 0: all. RANK: only in this MPI rank; -1: everywhere. The status is 77 if the kernel allows no such filter.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), 0, skip)
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)

static int make_bad(int hangs, long call, long argument, long value) {
  struct sock_filter filter[] = {LOAD(nr),
                                 UNLESS(call, 3),
                                 LOAD(args[argument < 0 ? 0 : argument]), /* little-endian: the low half */
                                 UNLESS(value, 1),
                                 RETURN(hangs ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ERRNO | EIO),
                                 RETURN(SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
  if (argument < 0) filter[3] = filter[4];
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return -1;
  /* Nobody answers what comes from the descriptor, so the call hangs until a signal ends it. */
  const unsigned flags = hangs ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
  const int fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  return fd >= 0 && hangs ? dup(fd) : fd; /* the copy stays open in COMMAND */
}

int main(int argc, char **argv) {
  const char *mine = getenv("OMPI_COMM_WORLD_RANK");
  if (argc < 7) return 2;
  const int here = strcmp(argv[5], "-1") == 0 || (mine != NULL && strcmp(argv[5], mine) == 0);
  if (here && make_bad(strcmp(argv[1], "hang") == 0, atol(argv[2]), atol(argv[3]), atol(argv[4])) < 0) return 77;
  execvp(argv[6], argv + 6);
  perror(argv[6]);
  return 127;
}
