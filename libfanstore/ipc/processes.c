/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the processes of a job on this host in /proc. Each has a mark that only they have:
 * FANSTORE_RUN in the environment; or the job's name after --job (mpirun and the daemons), after
 * --exec-node (the mpirun of COMMAND), or in FANSTORE_JOB (remote shells of either mpirun). This
 * also finds processes that left their parent's session or lost their parent. Only this user's
 * processes are examined. look_lock protects all state.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ipc/node.h"
#include "ipc/processes.h"
#include "util/sys.h"
#include "util/util.h"

#define FS_PF_KTHREAD 0x200000u   /* flag in /proc/PID/stat (linux/sched.h) */
#define FS_PROC_TEXT (256u << 10) /* read at most this much of a command line or environment */
#define FS_LOOK_NS FS_NS_PER_S    /* wait for one process; then a fifth for each further one */

const char *fs_proc_dir = "/proc";

static int proc_open(const char *pid, const char *what) {
  char path[300];
  int len = snprintf(path, sizeof(path), "%s/%s/%s", fs_proc_dir, pid, what);
  return len < (int)sizeof(path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
}

/* Returns true if the caller lacked a descriptor or memory, so that nothing is known of the
   process. */
static bool proc_is_blind(int fd) {
  return fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM);
}

/* Reads a file of /proc as a NUL-terminated text. Returns its length, or 0 on any error. */
static size_t proc_read(const char *pid, const char *what, char *buf, bool *blind) {
  size_t n = 0;
  FS_AUTO_CLOSE int fd = proc_open(pid, what);
  *blind = *blind || proc_is_blind(fd);
  while (fd >= 0 && n < FS_PROC_TEXT - 1) {
    ssize_t got = read(fd, buf + n, FS_PROC_TEXT - 1 - n);
    if (got <= 0) break;
    n += (size_t)got;
  }
  buf[n] = '\0';
  return n;
}

/* Returns true if `item` is one of the NUL-terminated strings in buf, and follows `before` unless
   that is NULL. */
static bool proc_has(const char *buf, size_t n, const char *before, const char *item) {
  bool armed = !before;
  for (const char *p = buf; p < buf + n; p += strlen(p) + 1) {
    if (armed && strcmp(p, item) == 0) return true;
    if (before) armed = strcmp(p, before) == 0;
  }
  return false;
}

struct proc_wanted {
  bool daemons;
  char job[NAME_MAX + 1];
  char run_item[PATH_MAX + 32], job_item[NAME_MAX + 32]; /* strings of the environment */
};

/* Returns true if the process is no zombie and no kernel thread. Never waits, because this does not
   read the process's memory. */
static bool proc_lives(const char *pid) {
  char state, text[1024];
  unsigned flags;
  FS_AUTO_CLOSE int fd = proc_open(pid, "stat");
  if (proc_is_blind(fd)) return true;
  ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
  text[FS_MAX(n, 0)] = '\0';
  const char *at = strrchr(text, ')');
  if (!at || sscanf(at, ") %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2) return false;
  return state != 'Z' && state != 'X' && !(flags & FS_PF_KTHREAD);
}

bool fs_process_alive(pid_t pid) {
  char name[24];
  snprintf(name, sizeof(name), "%d", (int)pid);
  return proc_lives(name);
}

/* Reads the command line. During exec a process has none, so an empty one is read again for 50
   ms. */
static size_t proc_command(const char *pid, char *buf, bool *blind) {
  for (int i = 0;; i++) {
    size_t n = proc_read(pid, "cmdline", buf, blind);
    if (n > 0 || i == 50 || *blind || !proc_lives(pid)) return n;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
}

static bool proc_is_ours(pid_t pid, const struct proc_wanted *w, char *buf, bool *blind) {
  char name[24];
  snprintf(name, sizeof(name), "%d", (int)pid);
  size_t n = proc_command(name, buf, blind);
  if (n == 0) return false; /* a kernel thread or a zombie */
  if (proc_has(buf, n, "--exec-node", w->job)) return true;
  if (proc_has(buf, n, "--job", w->job)) return w->daemons;
  n = proc_read(name, "environ", buf, blind);
  return proc_has(buf, n, NULL, w->run_item) || (w->daemons && proc_has(buf, n, NULL, w->job_item));
}

/* ---- looking, with a deadline ---- */

/*
 * Reading a command line or an environment reads the process's memory. The reader hangs, without
 * limit, while a thread of that process is in mmap or munmap on a server that does not answer (ps
 * hangs in the same way). So a thread does the reading. If the thread hangs, the caller abandons it
 * together with its data, and another thread examines the rest.
 */
struct look {
  struct look *next; /* in looks_left */
  struct proc_wanted wanted;
  pthread_cond_t moved;
  bool left, over; /* abandoned by its caller; the thread has ended */
  bool blind;      /* not all processes could be examined */
  int sig;
  unsigned signalled;
  size_t at, count; /* in pid[]: the current one; the number of all */
  char *buf;
  pid_t pid[];
};

static pthread_mutex_t look_lock = PTHREAD_MUTEX_INITIALIZER; /* protects all below and each look */
static struct look *looks_left;

static void look_free(struct look *k) {
  pthread_cond_destroy(&k->moved);
  free(k->buf);
  free(k);
}

static void *look_main(void *arg) {
  struct look *k = arg;
  pthread_mutex_lock(&look_lock);
  while (!k->left && k->at < k->count) {
    pid_t pid = k->pid[k->at];
    pthread_mutex_unlock(&look_lock);
    bool ours = proc_is_ours(pid, &k->wanted, k->buf, &k->blind);
    pthread_mutex_lock(&look_lock);
    if (k->left) break;
    if (ours && kill(pid, k->sig) == 0) k->signalled++;
    k->at++;
    pthread_cond_signal(&k->moved);
  }
  k->over = true;
  pthread_cond_signal(&k->moved);
  if (k->left) {
    struct look **p = &looks_left;
    while (*p && *p != k) p = &(*p)->next;
    if (*p) *p = k->next;
    look_free(k);
  }
  pthread_mutex_unlock(&look_lock);
  return NULL;
}

/* Starts the thread of a look. If no thread can be made, the caller looks itself and may hang. */
static void look_start(struct look *k) {
  pthread_t thread;
  pthread_attr_t attr;
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_init(&attr);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int err = pthread_create(&thread, &attr, look_main, k);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attr);
  if (err != 0) look_main(k);
}

/* Waits until the look ends, or until one process takes longer than `patience`: then abandons the
   look. Takes over the look from the caller. Returns how many processes are done, including the one
   that hangs. */
static size_t look_wait(struct look *k, uint64_t patience, unsigned *signalled) {
  pthread_mutex_lock(&look_lock);
  while (!k->over && !k->left) {
    size_t at = k->at;
    uint64_t until = fs_now_ns() + patience;
    struct timespec ts = {.tv_sec = (time_t)(until / FS_NS_PER_S), .tv_nsec = (long)(until % FS_NS_PER_S)};
    int err = 0;
    while (!k->over && k->at == at && err == 0)
      err = pthread_cond_clockwait(&k->moved, &look_lock, CLOCK_MONOTONIC, &ts);
    k->left = !k->over && k->at == at;
  }
  size_t done = k->at + k->left;
  *signalled += k->signalled + (k->over && k->blind);
  if (k->left) {
    k->next = looks_left;
    looks_left = k;
  } else {
    look_free(k);
  }
  pthread_mutex_unlock(&look_lock);
  return done;
}

unsigned fs_processes_hang(pid_t *pid, unsigned most) {
  unsigned n = 0;
  pthread_mutex_lock(&look_lock);
  for (const struct look *k = looks_left; k && n < most; k = k->next) pid[n++] = k->pid[k->at];
  pthread_mutex_unlock(&look_lock);
  return n;
}

static bool look_hangs(pid_t pid) {
  bool hangs = false;
  pthread_mutex_lock(&look_lock);
  for (const struct look *k = looks_left; k; k = k->next) hangs = hangs || k->pid[k->at] == pid;
  pthread_mutex_unlock(&look_lock);
  return hangs;
}

/* Lists this user's processes, except the caller and those at which another look hangs. */
static size_t proc_list(pid_t **list, bool *blind) {
  size_t n = 0, room = 0;
  DIR *proc = opendir(fs_proc_dir);
  *blind = !proc;
  for (const struct dirent *d; proc && (d = readdir(proc)) != NULL;) {
    struct stat st;
    uint64_t pid;
    if (fs_parse_u64(d->d_name, 2, INT_MAX, &pid) < 0 || (pid_t)pid == getpid()) continue;
    if (fstatat(dirfd(proc), d->d_name, &st, 0) < 0 || st.st_uid != geteuid() || look_hangs((pid_t)pid)) continue;
    if (n == room) {
      pid_t *more = realloc(*list, (room = room * 2 + 64) * sizeof(*more));
      if (!more) {
        *blind = true;
        break;
      }
      *list = more;
    }
    (*list)[n++] = (pid_t)pid;
  }
  if (proc) closedir(proc);
  return n;
}

unsigned fs_job_signal(const char *job, const char *run, bool daemons, int sig) {
  FS_AUTO_FREE pid_t *list = NULL;
  bool blind;
  size_t count = proc_list(&list, &blind), from = 0;
  uint64_t patience = FS_LOOK_NS;
  unsigned n = blind;
  while (from < count) {
    struct look *k = calloc(1, sizeof(*k) + (count - from) * sizeof(*list));
    char *buf = malloc(FS_PROC_TEXT);
    if (!k || !buf || pthread_cond_init(&k->moved, NULL) != 0) {
      free(k);
      free(buf);
      return n + 1;
    }
    k->buf = buf;
    k->sig = sig;
    k->wanted.daemons = daemons;
    snprintf(k->wanted.job, sizeof(k->wanted.job), "%s", job);
    snprintf(k->wanted.run_item, sizeof(k->wanted.run_item), FS_ENV_RUN "=%s", run);
    snprintf(k->wanted.job_item, sizeof(k->wanted.job_item), FS_ENV_JOB "=%s", job);
    k->count = count - from;
    memcpy(k->pid, list + from, k->count * sizeof(*list));
    look_start(k);
    from += look_wait(k, patience, &n);
    patience = FS_LOOK_NS / 5;
  }
  return n;
}

unsigned fs_job_end(const char *job, const char *run, bool daemons) {
  unsigned first = fs_job_signal(job, run, daemons, SIGTERM), left = first;
  for (int i = 0; left > 0 && i < 200; i++) {
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    left = fs_job_signal(job, run, daemons, i >= 50 ? SIGKILL : 0);
  }
  return first;
}
