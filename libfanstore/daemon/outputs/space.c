/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watches the space that outputs take. With --output-limit, a thread adds up the disk space of the
 * files in the backing directory, because no event reports a program's writes. Writers read in
 * ctl.output_full that the limit is reached. The thread runs more often if the limit could be passed
 * before its next run, but works only a part of the time. So outputs may exceed the limit by what is
 * written between two runs. fs_space_full is for any thread, the rest for the MPI thread.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "util/dir.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_SPACE_MIN_NS 20000000ull
#define FS_SPACE_MAX_NS 500000000ull
#define FS_SPACE_BYTES_NS 4u /* no node writes faster, in bytes per ns */
#define FS_SPACE_SHARE 20u   /* the thread sleeps so many times as long as it works, at least */
#define FS_SPACE_SHARE_NEAR 4u
#define FS_SPACE_BLOCK 512u /* unit of st_blocks */
#define FS_SPACE_SOON 10u   /* with a tenth of the limit left, the user is warned */

static uint64_t fs_space_used(const struct fs_daemon *d) {
  uint64_t used = 0;
  DIR *dir = fs_opendirat(d->backing_fd, FS_OUTPUT_DIR);
  if (!dir) return 0;
  for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
    struct stat st;
    if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
      used += (uint64_t)st.st_blocks * FS_SPACE_BLOCK;
  }
  closedir(dir);
  return used;
}

static void fs_space_say(const struct fs_daemon *d, uint64_t used, const char *then) {
  char have[32], limit[32];
  fs_say_text(d, "warn", "outputs take %s, and %s is the limit: %s", fs_format_size(used, have, sizeof(have)),
              fs_format_size(d->cfg->output_limit, limit, sizeof(limit)), then);
}

enum fs_space_told { FS_SPACE_NOTHING, FS_SPACE_NEAR, FS_SPACE_REACHED };

/* Warns once when the limit is near, and once when it is reached. Returns what was told by now. */
static enum fs_space_told fs_space_tell(const struct fs_daemon *d, uint64_t used, enum fs_space_told told) {
  uint64_t limit = d->cfg->output_limit;
  if (used >= limit && told < FS_SPACE_REACHED)
    fs_space_say(d, used, "no more is written until some are removed");
  else if (used >= limit - limit / FS_SPACE_SOON && told < FS_SPACE_NEAR)
    fs_space_say(d, used, "beyond it, writes fail (EDQUOT; --output-limit)");
  else
    return told;
  return used >= limit ? FS_SPACE_REACHED : FS_SPACE_NEAR;
}

static void *fs_space_main(void *arg) {
  struct fs_daemon *d = arg;
  uint64_t limit = d->cfg->output_limit;
  for (enum fs_space_told told = FS_SPACE_NOTHING;;) {
    uint32_t turn = atomic_load(&d->space.turn);
    uint64_t begin = fs_now_ns(), used = fs_space_used(d);
    atomic_store(&d->ctl->output_used, used);
    atomic_store(&d->ctl->output_full, used >= limit);
    told = fs_space_tell(d, used, told);
    uint64_t nap = used >= limit ? 0 : (limit - used) / FS_SPACE_BYTES_NS, worked = fs_now_ns() - begin;
    uint64_t share = used >= limit || nap > FS_SPACE_SHARE * worked ? FS_SPACE_SHARE : FS_SPACE_SHARE_NEAR;
    nap = FS_MAX(FS_MIN(FS_MAX(nap, FS_SPACE_MIN_NS), FS_SPACE_MAX_NS), share * worked);
    (void)fs_futex_wait(&d->space.turn, turn, nap);
  }
  return NULL;
}

bool fs_space_full(const struct fs_daemon *d) {
  return d->ctl && atomic_load_explicit(&d->ctl->output_full, memory_order_relaxed) != 0;
}

void fs_space_freed(struct fs_daemon *d) {
  if (d->cfg->output_limit == 0 || !fs_space_full(d)) return;
  atomic_fetch_add(&d->space.turn, 1);
  fs_futex_wake(&d->space.turn, 1);
}

fs_err fs_space_start(struct fs_daemon *d) {
  return d->cfg->output_limit == 0 || d->cfg->read_only ? 0 : fs_thread_start(fs_space_main, d);
}
