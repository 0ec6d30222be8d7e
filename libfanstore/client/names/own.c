/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of --stage-in that are about to be changed: their home copies them first (names.h). */
#include <signal.h>

#include "client/data_priv.h"
#include "client/names/names.h"
#include "util/util.h"

#define FS_OWN_DEADLINES 5u /* without a byte copied on that node */
#define FS_OWN_SIGNALS_NS 1000000000ull

fs_err fs_output_own(uint64_t id, bool empty) {
  const struct fs_node *node = fs_names_node();
  struct fs_names_call c = {.op = FS_NAMES_OWN, .flags = empty ? FS_OWN_EMPTY : 0, .own.id = id};
  struct timespec nap = {.tv_nsec = 50000};
  uint64_t begin = fs_now_ns(), moved = begin, copied = 0, was = 0, all = ~0ull, signals;
  for (long r = 0;;) {
    size_t got;
    /* A signal during the call must end the nap after it. */
    FS_SYS4(SYS_rt_sigprocmask, SIG_SETMASK, &all, &signals, sizeof(all));
    fs_err err = fs_names_call(&c, "", "", &copied, sizeof(copied), &got);
    nap.tv_nsec = FS_MIN(2 * nap.tv_nsec, 10000000);
    if (err == -EINPROGRESS) {
      struct timespec left = nap; /* the kernel writes into it */
      r = FS_SYS5(SYS_ppoll, NULL, 0, &left, &signals, sizeof(signals));
    }
    FS_SYS4(SYS_rt_sigprocmask, SIG_SETMASK, &signals, NULL, sizeof(signals));
    if (err != -EINPROGRESS) return err;
    uint64_t now = fs_now_ns();
    if (copied != was) moved = now, was = copied;
    if (node == NULL || now - moved > FS_OWN_DEADLINES * node->deadline_ns) return -EIO;
    if (r == -EINTR && now - begin > FS_OWN_SIGNALS_NS) return -EINTR;
  }
}
