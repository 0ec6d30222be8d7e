/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library's own file descriptors. They have high numbers, where they disturb neither
 * lowest-number rules nor select(). The library knows them by number, so that preload can shield
 * them. All files of the client call this. The state is one atomic bit a number.
 */
#include <limits.h>
#include <string.h>
#include <sys/resource.h>

#include "client/data_priv.h"
#include "client/fd/fdreal.h"

#define FS_OWN_MAX 65536u
#define FS_OWN_FIRST 1000

static _Atomic uint64_t g_owned[FS_OWN_MAX / 64];
/* Where a number that the program may want is published (number + 1), so that it can be changed. */
#define FS_OWN_LOW 1024
static _Atomic(_Atomic int32_t *) g_word[FS_OWN_LOW];

bool fs_data_owns_fd(int fd) {
  if (fd < 0 || (unsigned)fd >= FS_OWN_MAX) return false;
  return atomic_load_explicit(&g_owned[fd / 64], memory_order_relaxed) >> (fd % 64) & 1;
}

int fs_data_next_owned(int fd) {
  for (unsigned w = (unsigned)fd / 64; w < FS_OWN_MAX / 64; w++) {
    uint64_t owned = atomic_load_explicit(&g_owned[w], memory_order_relaxed);
    if (w == (unsigned)fd / 64) owned &= ~0ull << fd % 64;
    if (owned != 0) return (int)(w * 64) + __builtin_ctzll(owned);
  }
  return -1;
}

_Atomic int fs_own_lowest = INT_MAX;

static void note_lowest(int fd) {
  int lowest = atomic_load(&fs_own_lowest);
  while (fd < lowest && !atomic_compare_exchange_weak(&fs_own_lowest, &lowest, fd)) {
  }
}

static void fs_own_mark(int fd, bool owned) {
  uint64_t bit = 1ull << (fd % 64);
  if ((unsigned)fd >= FS_OWN_MAX) return;
  if (owned) note_lowest(fd);
  if (owned)
    atomic_fetch_or_explicit(&g_owned[fd / 64], bit, memory_order_relaxed);
  else
    atomic_fetch_and_explicit(&g_owned[fd / 64], ~bit, memory_order_relaxed);
}

void fs_own_note(int fd, _Atomic int32_t *word) {
  fs_own_mark(fd, true);
  if (fd < FS_OWN_LOW) atomic_store(&g_word[fd], word);
}

void fs_own_close(int fd) {
  if (fd < 0) return;
  fs_own_mark(fd, false);
  if (fd < FS_OWN_LOW) atomic_store(&g_word[fd], NULL);
  fs_sys_close(fd);
}

static fs_err limit_get(struct rlimit *limit) {
  return (fs_err)FS_SYS4(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, limit);
}

/*
 * Raises the soft limit for the moment of one call, if the hard limit allows, so that the program's
 * own numbers stay its own. A descriptor may have a number above the soft limit, which only counts
 * when the number is given out. Another thread that makes a descriptor in that moment may get one
 * above its limit.
 */
static bool limit_raise(struct rlimit *was, uint64_t to) {
  if (limit_get(was) != 0 || was->rlim_max < to) return false;
  if (was->rlim_cur >= to) return true;
  struct rlimit more = {to, was->rlim_max};
  return FS_SYS4(SYS_prlimit64, 0, RLIMIT_NOFILE, &more, NULL) == 0;
}

static void limit_restore(const struct rlimit *was, uint64_t raised) {
  struct rlimit now;
  if (was->rlim_cur >= raised || limit_get(&now) != 0 || now.rlim_cur != raised) return;
  now.rlim_cur = was->rlim_cur;
  FS_SYS4(SYS_prlimit64, 0, RLIMIT_NOFILE, &now, NULL);
}

fs_fd fs_own_open_above(const char *path, int flags) {
  struct rlimit was;
  if (limit_get(&was) != 0) return -EMFILE;
  uint64_t to = FS_MIN(was.rlim_cur, FS_OWN_MAX) + 64;
  if (!limit_raise(&was, to)) return -EMFILE;
  fs_fd fd = fs_sys_openat(AT_FDCWD, path, flags, 0);
  limit_restore(&was, to);
  return fd;
}

/* Duplicates fd at 1000 and above, or above a lower soft limit, or else in the upper quarter of the
   numbers. */
static int64_t dup_high(int fd) {
  struct rlimit was;
  int64_t high;
  if (limit_get(&was) != 0) return fs_sys_fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (was.rlim_cur >= FS_OWN_FIRST + 64) return fs_sys_fcntl(fd, F_DUPFD_CLOEXEC, FS_OWN_FIRST);
  uint64_t first = FS_MAX(was.rlim_cur, FS_OWN_FIRST), to = first + 1024;
  if (limit_raise(&was, to)) {
    high = fs_sys_fcntl(fd, F_DUPFD_CLOEXEC, (long)first);
    limit_restore(&was, to);
    if (high >= 0) return high;
  }
  high = fs_sys_fcntl(fd, F_DUPFD_CLOEXEC, (long)FS_MAX(was.rlim_cur / 4 * 3, 3));
  return high >= 0 ? high : fs_sys_fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

void fs_own_make_room(void) {
  for (int fd = 0; fd < 3; fd++) {
    int64_t high = fs_sys_fcntl(fd, F_DUPFD_CLOEXEC, FS_OWN_FIRST + 23);
    if (high >= 0) {
      fs_sys_close((int)high);
      return;
    }
  }
}

fs_fd fs_data_adopt_fd(int fd) {
  int64_t high = dup_high(fd);
  if (high < 0 || high >= FS_OWN_MAX) {
    if (high >= 0) fs_sys_close((int)high);
    return high < 0 ? (fs_fd)high : -EMFILE;
  }
  fs_own_mark((int)high, true);
  fs_sys_close(fd);
  return (fs_fd)high;
}

/*
 * Publishing and forking exclude each other. fork copies the descriptors first and the memory
 * after. If another thread opened and published a descriptor in between, the child's memory would
 * have a number that its kernel does not have, and that its next open could get for another file.
 *
 * Both waits are short and bounded; a thread that opens and has waited in vain uses the descriptor
 * once, without publishing it. A handler that has interrupted its own thread in fork may publish,
 * because the copy is made before or after that. No handler interrupts publishing, so none jumps
 * out of it. A jump out of fork leaves the fork counted. The next waiter then waits in vain once,
 * until no thread can be in there any more.
 */
#define FS_FORK_WAIT_NS 50000000ull
#define FS_FORK_LOST_NS 5000000000ull

static _Atomic int32_t g_publishing, g_forking;
static _Atomic uint64_t g_fork_ns;                          /* start of the first present fork */
static FS_TLS volatile int32_t own_publishing, own_forking; /* this thread's share */
static FS_TLS uint64_t own_signals;                         /* its mask, outside of publishing */

static int32_t others_forking(void) {
  int32_t all = atomic_load(&g_forking);
  if (FS_UNLIKELY(own_forking > all)) own_forking = all; /* a waiter gave the fork up */
  return all - own_forking;
}

void fs_own_publish_end(void) {
  atomic_fetch_sub(&g_publishing, 1);
  if (--own_publishing == 0) fs_sys_sigmask(own_signals, NULL);
}

bool fs_own_publish_begin(void) {
  uint64_t end = 0;
  for (unsigned i = 0;; i++) {
    uint64_t signals;
    if (own_publishing == 0) {
      fs_sys_sigmask(~0ull, &signals);
      own_signals = signals;
    }
    own_publishing++;
    atomic_fetch_add(&g_publishing, 1);
    if (FS_LIKELY(others_forking() <= 0)) return true;
    fs_own_publish_end();
    uint64_t now = fs_now_ns(), took = now - FS_MIN(now, atomic_load(&g_fork_ns));
    if (end == 0) end = now + FS_FORK_WAIT_NS;
    if (took > FS_FORK_LOST_NS) {
      atomic_store(&g_forking, own_forking);
      continue;
    }
    if (now >= end || took > FS_FORK_WAIT_NS || i >= FS_YIELDS_MOST) return false;
    FS_SYS1(SYS_sched_yield, 0);
  }
}

void fs_data_fork_begin(void) {
  uint64_t now = fs_now_ns(), end = now + FS_FORK_WAIT_NS;
  (void)others_forking();
  if (atomic_load(&g_forking) == 0) atomic_store(&g_fork_ns, now);
  own_forking++;
  atomic_fetch_add(&g_forking, 1);
  for (unsigned i = 0; atomic_load(&g_publishing) > own_publishing && i < FS_YIELDS_MOST && fs_now_ns() < end; i++)
    FS_SYS1(SYS_sched_yield, 0);
}

void fs_data_fork_end(bool child) {
  int32_t all = atomic_load(&g_forking);
  if (own_forking > 0) own_forking--;
  if (child) {
    atomic_store(&g_publishing, own_publishing);
    atomic_store(&g_forking, own_forking);
  }
  while (!child && all > 0 && !atomic_compare_exchange_weak(&g_forking, &all, all - 1)) {
  }
}

fs_fd fs_own_publish(_Atomic int32_t *word, int low, bool *temporary) {
  int32_t none = 0;
  bool publish = fs_vfork_depth == 0 && fs_self_owner() && fs_own_publish_begin();
  fs_fd high = publish ? fs_data_adopt_fd(low) : -EBUSY;
  bool won = high >= 0 && atomic_compare_exchange_strong(word, &none, high + 1);
  if (won) fs_own_note(high, word);
  if (high >= 0 && !won) fs_own_close(high);
  if (publish) fs_own_publish_end();
  *temporary = high < 0;
  if (high < 0) return low; /* no number to spare, or a vfork child: for this use only */
  return won ? high : none - 1;
}

/*
 * Changes the word before the number is given up. A user of the number in between finds afterwards
 * that it is not the library's any more (fs_own_still), and repeats its work. Users of the store
 * keep each other away by the store's hint.
 */
bool fs_own_move(int fd) {
  _Atomic int32_t *word = fd >= 0 && fd < FS_OWN_LOW ? atomic_load(&g_word[fd]) : NULL;
  struct fs_state *st = atomic_load(&fs_state);
  if (word == NULL || fs_vfork_depth > 0) return false;
  int64_t flags = fs_sys_fcntl(fd, F_GETFD, 0), high = dup_high(fd);
  if (high < 0 || high >= FS_OWN_MAX) {
    if (high >= 0) fs_sys_close((int)high);
    return false;
  }
  fs_sys_fcntl((int)high, F_SETFD, flags > 0 ? FD_CLOEXEC : 0);
  fs_own_note((int)high, word);
  if (st != NULL) fs_store_begin(st);
  int32_t old = fd + 1;
  bool moved = atomic_compare_exchange_strong(word, &old, (int32_t)high + 1);
  if (moved) {
    atomic_store(&g_word[fd], NULL);
    fs_own_mark(fd, false);
  }
  if (st != NULL) fs_store_end(st);
  if (!moved) fs_own_close((int)high);
  return moved;
}

fs_fd fs_open_read(const char *path) {
  return fs_open_read_as(path, 0);
}

fs_fd fs_open_read_as(const char *path, int more) {
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | more;
  for (;;) {
    fs_fd fd = fs_sys_openat(AT_FDCWD, path, flags, 0);
    if (FS_UNLIKELY(fd == -EMFILE)) fd = fs_own_open_above(path, flags);
    if (fd != -EINTR) return fd;
  }
}

fs_err fs_join(char *out, const char *dir, const char *name) {
  size_t a = strlen(dir), b = strlen(name);
  if (a + b + 2 > PATH_MAX) return -ENAMETOOLONG;
  memcpy(out, dir, a);
  out[a] = '/';
  memcpy(out + a + 1, name, b + 1);
  return 0;
}
