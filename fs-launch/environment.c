/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment of a job's programs (docs/internals/attach.md): computes its words, reads them
 * from a command line or from node-K.env, sets the variables of this process, and becomes COMMAND.
 * Called by command.c, attach.c and, in a child or under mpirun, before COMMAND is executed. One
 * thread.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

#define FS_WINDOW (64ull << 20) /* of --prefetch torch: some hundred files, 50 ms of a fast link */
#define FS_LISTS (FS_MAX_DATASETS * PATH_MAX)
#define FS_ENV_FILE_MAX (4u * FS_LISTS)

static const char *const names[FS_WORDS] = {
    [FS_WORD_DATASET] = FS_ENV_DATASET,   [FS_WORD_MOUNT] = FS_ENV_MOUNT,
    [FS_WORD_EMULATE] = FS_ENV_EMULATE,   [FS_WORD_READ_ONLY] = FS_ENV_READ_ONLY,
    [FS_WORD_VERIFY] = FS_ENV_VERIFY,     [FS_WORD_AS_IS] = FS_ENV_AS_IS,
    [FS_WORD_IO_URING] = FS_ENV_IO_URING, [FS_WORD_AHEAD] = FS_ENV_PREFETCH_BYTES,
    [FS_WORD_LIBRARY] = "library",        [FS_WORD_SUPERVISOR] = "supervisor",
    [FS_WORD_PYTHON] = "python",          [FS_WORD_STAGE_IN] = "stage-in",
    [FS_WORD_LOCAL_DIR] = "local-dir",    [FS_WORD_RUN] = "run",
};

/* ---- the words ---- */

static fs_err lists(const struct fs_launch *l, char *datasets, char *mounts) {
  for (unsigned i = 0; i < l->opt.datasets; i++) {
    fs_err err = fs_list_append(datasets, FS_LISTS, l->dataset[i].path);
    if (err == 0) err = fs_list_append(mounts, FS_LISTS, l->dataset[i].mount);
    if (err < 0) return err;
  }
  return 0;
}

/* Returns how many bytes the programs of a node may have fetched ahead: blocks that nobody has read
   yet must not push each other out of the cache. */
static uint64_t window(const struct fs_launch *l) {
  return l->opt.cache > 0 ? FS_MIN(l->opt.cache / 4, FS_WINDOW) : FS_WINDOW;
}

int fs_env_make(struct fs_launch *l) {
  static char datasets[FS_LISTS], mounts[FS_LISTS], emulate[24], ahead[24];
  const char *ring = getenv(FS_ENV_IO_URING);
  if (lists(l, datasets, mounts) < 0) {
    fs_say("the datasets' names are too long");
    return FS_EXIT_FAILED;
  }
  if (l->opt.emulate > 1) snprintf(emulate, sizeof(emulate), "%u", l->nodes);
  if (l->python[0] != '\0') snprintf(ahead, sizeof(ahead), "%llu", (unsigned long long)window(l));
  l->env = (struct fs_launch_env){.value = {[FS_WORD_DATASET] = datasets,
                                            [FS_WORD_MOUNT] = mounts,
                                            [FS_WORD_EMULATE] = emulate,
                                            [FS_WORD_READ_ONLY] = l->opt.read_only ? "1" : "",
                                            [FS_WORD_VERIFY] = l->opt.verify,
                                            [FS_WORD_AS_IS] = l->opt.env_as_is ? "1" : "",
                                            [FS_WORD_IO_URING] = l->opt.no_io_uring ? "0"
                                                                 : ring             ? ring
                                                                                    : "",
                                            [FS_WORD_AHEAD] = ahead,
                                            [FS_WORD_LIBRARY] = l->library,
                                            [FS_WORD_SUPERVISOR] = l->supervisor,
                                            [FS_WORD_PYTHON] = l->python,
                                            [FS_WORD_STAGE_IN] = l->stage_in,
                                            [FS_WORD_LOCAL_DIR] = "",
                                            [FS_WORD_RUN] = ""}};
  return 0;
}

void fs_env_words(const struct fs_launch_env *e, const char *option, struct fs_words *w) {
  for (size_t i = 0; i < FS_WORDS; i++) {
    if (e->value[i][0] == '\0') continue;
    if (option) fs_words_add(w, "%s", option);
    fs_words_add(w, "%s=%s", names[i], e->value[i]);
  }
}

void fs_env_none(struct fs_launch_env *e) {
  for (size_t i = 0; i < FS_WORDS; i++) e->value[i] = "";
}

void fs_env_take(struct fs_launch_env *e, const char *word) {
  size_t n = strcspn(word, "=");
  for (size_t i = 0; word[n] == '=' && i < FS_WORDS; i++)
    if (strlen(names[i]) == n && memcmp(names[i], word, n) == 0) e->value[i] = word + n + 1;
}

/* ---- node-K.env ---- */

fs_err fs_env_read(const char *run, unsigned node, struct fs_launch_env *e) {
  char path[PATH_MAX];
  struct stat st;
  if (fs_run_env(run, node, path, sizeof(path)) < 0) return -ENAMETOOLONG;
  FS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return -errno;
  if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0) return -EPERM;
  if (st.st_size <= 0 || st.st_size > (off_t)FS_ENV_FILE_MAX) return -EPROTO;
  char *text = calloc(1, (size_t)st.st_size + 1); /* stays: the words are in it */
  if (!text) return -ENOMEM;
  fs_err err = fs_pread_full(fd, text, (size_t)st.st_size, 0);
  fs_env_none(e);
  for (const char *p = text; err == 0 && p < text + st.st_size; p += strlen(p) + 1) fs_env_take(e, p);
  if (err == 0 && e->value[FS_WORD_DATASET][0] != '\0' && e->value[FS_WORD_LIBRARY][0] == '/') return 0;
  free(text);
  fs_env_none(e);
  return err < 0 ? err : -EPROTO;
}

void fs_env_close(const char *run) {
  bool here[FS_MAX_NODES] = {false};
  char path[PATH_MAX];
  (void)fs_env_nodes(run, true, here);
  for (unsigned i = 0; i < FS_MAX_NODES; i++)
    if (here[i] && fs_run_env(run, i, path, sizeof(path)) > 0) (void)unlink(path);
}

unsigned fs_env_nodes(const char *run, bool open, bool here[FS_MAX_NODES]) {
  unsigned found = 0;
  DIR *d = opendir(run);
  for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
    char number[16], kind[6];
    uint64_t node;
    if (sscanf(e->d_name, "node-%15[0-9].%5[a-z]", number, kind) != 2) continue;
    if (open ? strcmp(kind, "env") != 0 : strcmp(kind, "sock") != 0 && strcmp(kind, "ctl") != 0) continue;
    if (fs_parse_u64(number, 0, FS_MAX_NODES - 1, &node) < 0 || here[node]) continue;
    here[node] = true;
    found++;
  }
  if (d) closedir(d);
  return found;
}

/* ---- this process ---- */

/* Returns true if the path is in the list. LD_PRELOAD may also have blanks between its paths. */
static bool is_in(const char *list, const char *path) {
  size_t n = strlen(path);
  for (const char *at = list; (at = strstr(at, path)) != NULL; at++)
    if ((at == list || strchr(": ", at[-1])) && strchr(": ", at[n])) return true;
  return false;
}

/* Puts a path first in the list of an environment variable and keeps the others. */
static int put_first(const char *variable, const char *path) {
  const char *old = getenv(variable);
  FS_AUTO_FREE char *text = NULL;
  if (!old || old[0] == '\0') return setenv(variable, path, 1);
  if (is_in(old, path)) return 0;
  if (asprintf(&text, "%s:%s", path, old) < 0) return -1;
  return setenv(variable, text, 1);
}

/* Sets a variable of the library, or removes one that comes from a job around this one. */
static int put(const struct fs_launch_env *e, unsigned word) {
  return e->value[word][0] != '\0' ? setenv(names[word], e->value[word], 1) : unsetenv(names[word]);
}

/*
 * Sets the node of this process. With emulated nodes the process's rank decides. Else a host has
 * one daemon and so one socket. A test bed may have several slurmd on one host, and so several
 * daemons. The library then chooses as among emulated nodes, for each task of an srun too.
 */
static int set_node(const char *run, int node) {
  bool here[FS_MAX_NODES] = {false};
  unsigned found = node < 0 ? fs_env_nodes(run, false, here) : 1, last = 0;
  char text[32];
  if (found == 0) {
    fs_say("%s: no daemon of this job is on this host, or this process sees other files than its daemon does", run);
    return FS_EXIT_FAILED;
  }
  for (unsigned i = 0; i < FS_MAX_NODES; i++)
    if (here[i]) last = i;
  snprintf(text, sizeof(text), "%u", found > 1 ? last + 1 : node < 0 ? last : (unsigned)node);
  return setenv(found > 1 ? FS_ENV_EMULATE : FS_ENV_NODE, text, 1);
}

int fs_env_set(const struct fs_launch_env *e, const char *run, int node) {
  bool emulated = e->value[FS_WORD_EMULATE][0] != '\0', python = e->value[FS_WORD_PYTHON][0] != '\0';
  fs_slurm_export(); /* for an srun in COMMAND */
  unsetenv(FS_ENV_STATE);
  unsetenv(FS_ENV_JOB);
  if (!emulated || getenv(FS_ENV_RUN)) unsetenv(FS_ENV_NODE); /* from a job around this one */
  int err = put(e, FS_WORD_DATASET) | put(e, FS_WORD_MOUNT) | setenv(FS_ENV_RUN, run, 1);
  err |= put(e, FS_WORD_EMULATE) | put(e, FS_WORD_READ_ONLY) | put(e, FS_WORD_AS_IS) | put(e, FS_WORD_VERIFY);
  /* HDF5 locks what it has open, and other nodes must be able to read it. */
  if (e->value[FS_WORD_READ_ONLY][0] != '1') err |= setenv("HDF5_USE_FILE_LOCKING", "FALSE", 0);
  if (e->value[FS_WORD_IO_URING][0] != '\0') err |= put(e, FS_WORD_IO_URING);
  err |= put_first("LD_PRELOAD", e->value[FS_WORD_LIBRARY]);
  if (python) err |= put_first("PYTHONPATH", e->value[FS_WORD_PYTHON]) | put(e, FS_WORD_AHEAD);
  if (err != 0) {
    fs_say("environment: %s", strerror(errno));
    return FS_EXIT_FAILED;
  }
  return emulated && node < 0 ? 0 : set_node(run, node);
}

/* Becomes the supervisor, which runs COMMAND. */
static void become_supervised(const char *supervisor, char **command) {
  size_t n = 0;
  while (command[n]) n++;
  char **words = calloc(n + 3, sizeof(*words));
  if (!words) return;
  words[0] = (char *)supervisor;
  words[1] = (char *)"--";
  memcpy(words + 2, command, n * sizeof(*words));
  execv(supervisor, words);
  free(words);
}

int fs_env_become(const struct fs_launch_env *e, char **command) {
  const char *supervisor = e->value[FS_WORD_SUPERVISOR];
  if (supervisor[0] != '\0') {
    become_supervised(supervisor, command);
    fs_say("%s: %s", supervisor, strerror(errno));
    return FS_EXIT_FAILED;
  }
  execvp(command[0], command);
  int err = errno;
  if (err == ENOENT || err == ENOTDIR) {
    fs_say("%s: command not found", command[0]);
    return FS_EXIT_NOT_FOUND;
  }
  fs_say("%s: %s", command[0], strerror(err));
  return FS_EXIT_NOT_EXECUTABLE;
}
