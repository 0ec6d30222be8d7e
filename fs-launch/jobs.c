/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the live jobs of this user on this host. A job is alive while its fs-launch or one of its
 * daemons holds a lock in its run directory (rundir.c). So /proc names the run directory
 * wherever it is: TMPDIR and the local directory of the caller need not be those of the job. If
 * FANSTORE_RUN_BASE is set, only jobs below it count. One thread.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"
#include "util/dir.h"

#define FS_JOBS_LINE 800 /* of the names of jobs in a message */

struct jobs {
  struct fs_job *list;
  size_t n;
};

/* Returns 'l' for fs-launch, 'd' for fanstored, else 0. */
static char program_of(int proc) {
  char name[32] = "";
  FS_AUTO_CLOSE int fd = openat(proc, "comm", O_RDONLY | O_CLOEXEC);
  if (fd < 0 || read(fd, name, sizeof(name) - 1) <= 0) return 0;
  name[strcspn(name, "\n")] = '\0';
  return strcmp(name, "fs-launch") == 0 ? 'l' : strcmp(name, "fanstored") == 0 ? 'd' : 0;
}

/* Returns true if this open file holds a lock. fs-launch stop has launch.lock open without one. */
static bool is_locked(int proc, const char *fd) {
  char path[64], text[1024] = "";
  snprintf(path, sizeof(path), "fdinfo/%.16s", fd);
  FS_AUTO_CLOSE int info = openat(proc, path, O_RDONLY | O_CLOEXEC);
  return info >= 0 && read(info, text, sizeof(text) - 1) > 0 && strstr(text, "\nlock:") != NULL;
}

/* Writes the run directory whose lock this open file is to `run`. Returns false if the file is
   another one, or if the path leads to another file here, as in another mount namespace. */
static bool run_of(int fds, const char *fd, char program, char run[PATH_MAX]) {
  struct stat held, here;
  char number[8];
  ssize_t n = readlinkat(fds, fd, run, PATH_MAX - 1);
  if (n <= 0) return false;
  run[n] = '\0';
  char *name = strrchr(run, '/'), end = '\0';
  if (run[0] != '/' || name == run || strlen(name) < 6 || strcmp(name + strlen(name) - 5, ".lock") != 0) return false;
  bool lock = program == 'l' ? strcmp(name, "/launch.lock") == 0
                             : sscanf(name, "/node-%7[0-9].loc%c", number, &end) == 2 && end == 'k';
  if (!lock || fstatat(fds, fd, &held, 0) < 0 || lstat(run, &here) < 0) return false;
  *name = '\0';
  return held.st_dev == here.st_dev && held.st_ino == here.st_ino && fs_own_is(run, false);
}

static bool below_chosen(const char *run) {
  const char *chosen = getenv(FS_ENV_RUN_BASE);
  char top[PATH_MAX];
  if (!chosen || chosen[0] != '/') return true;
  if (!realpath(chosen, top)) return false;
  size_t n = strlen(top);
  return strncmp(run, top, n) == 0 && (run[n] == '/' || n == 1);
}

static void jobs_add(struct jobs *j, const char *run, pid_t launcher) {
  for (size_t i = 0; i < j->n; i++) {
    if (strcmp(j->list[i].run, run) != 0) continue;
    if (launcher > 0) j->list[i].launcher = launcher;
    return;
  }
  struct fs_job *more = realloc(j->list, (j->n + 1) * sizeof(*more));
  if (!more) return;
  j->list = more;
  struct fs_job *job = &more[j->n++];
  *job = (struct fs_job){.launcher = launcher};
  snprintf(job->run, sizeof(job->run), "%s", run);
  snprintf(job->name, sizeof(job->name), "%s", strrchr(run, '/') + 1);
}

static void look_at(struct jobs *j, int proc, pid_t pid) {
  char program = program_of(proc), run[PATH_MAX];
  if (program == 0) return;
  DIR *fds = fs_opendirat(proc, "fd");
  for (const struct dirent *e; fds && (e = readdir(fds)) != NULL;)
    if (e->d_name[0] != '.' && run_of(dirfd(fds), e->d_name, program, run) && is_locked(proc, e->d_name) &&
        below_chosen(run))
      jobs_add(j, run, program == 'l' ? pid : 0);
  if (fds) closedir(fds);
}

static int by_name(const void *a, const void *b) {
  const struct fs_job *x = a, *y = b;
  return strcmp(x->name, y->name);
}

size_t fs_jobs_list(struct fs_job **list) {
  struct jobs j = {0};
  DIR *all = opendir("/proc");
  for (const struct dirent *e; all && (e = readdir(all)) != NULL;) {
    struct stat st;
    uint64_t pid;
    if (fs_parse_u64(e->d_name, 2, INT_MAX, &pid) < 0) continue;
    FS_AUTO_CLOSE int proc = openat(dirfd(all), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc >= 0 && fstat(proc, &st) == 0 && st.st_uid == geteuid()) look_at(&j, proc, (pid_t)pid);
  }
  if (all) closedir(all);
  if (j.n > 0) qsort(j.list, j.n, sizeof(*j.list), by_name);
  *list = j.list;
  return j.n;
}

static int tell_several(const struct fs_job *list, size_t n) {
  char names[FS_JOBS_LINE] = "";
  size_t len = 0, i;
  for (i = 0; i < n && len + sizeof(list->name) + 32 < sizeof(names); i++)
    len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", i > 0 ? ", " : "", list[i].name);
  if (i < n) snprintf(names + len, sizeof(names) - len, " and %zu more", n - i);
  fs_say("you have several jobs on this host, name one of them: %s", names);
  return FS_EXIT_USAGE;
}

/* Finds a job by the path of its run directory. Another process namespace does not show the job's
   processes in /proc, and its locks show that it lives. */
static int find_path(const struct fs_job *list, size_t n, const char *path, struct fs_job *job) {
  *job = (struct fs_job){0};
  if (!realpath(path, job->run)) {
    fs_say("%s: %s", path, strerror(errno));
    return FS_EXIT_FAILED;
  }
  for (size_t i = 0; i < n; i++)
    if (strcmp(list[i].run, job->run) == 0) {
      *job = list[i];
      return 0;
    }
  snprintf(job->name, sizeof(job->name), "%.*s", (int)sizeof(job->name) - 1, strrchr(job->run, '/') + 1);
  if (fs_own_is(job->run, false) && strncmp(job->name, "job-", 4) == 0 && fs_run_held(job->run)) return 0;
  fs_say("%s: this is not the run directory of a live job of yours", path);
  return FS_EXIT_FAILED;
}

/* Returns the name of the job that this process is a program of, or NULL. */
static const char *own_job(const struct fs_job *list, size_t n) {
  const char *run = getenv(FS_ENV_RUN);
  for (size_t i = 0; run && i < n; i++)
    if (strcmp(list[i].run, run) == 0) return list[i].name;
  return NULL;
}

int fs_jobs_find(const char *word, struct fs_job *job) {
  FS_AUTO_FREE struct fs_job *list = NULL;
  size_t n = fs_jobs_list(&list);
  if (word && strchr(word, '/')) return find_path(list, n, word, job);
  if (!word && n > 1) word = own_job(list, n);
  if (!word && n > 1) return tell_several(list, n);
  for (size_t i = 0; i < n; i++)
    if (!word || strcmp(list[i].name, word) == 0) {
      *job = list[i];
      return 0;
    }
  if (word)
    fs_say("%s: you have no such job on this host", word);
  else
    fs_say("you have no job on this host");
  return FS_EXIT_FAILED;
}
