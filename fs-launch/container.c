/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-launch env --container: the environment of a job and the directories that its programs open,
 * as options of a container runtime, in one line for $(...). A shell splits this line at blanks and
 * no quotes help, so values with blanks are refused. One row of the table for each runtime.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

#define FS_BINDS (FS_MAX_DATASETS + 8)

struct fs_container {
  const char *name;
  const char *bind, *env;           /* formats: a path twice; a name and a value */
  const char *bad_path, *bad_value; /* bytes that they may not have */
  bool shares;                      /* it shares /dev and TMPDIR, which becomes its /tmp */
  bool user;                        /* programs run as another user unless told otherwise */
};

static const struct fs_container kinds[] = {
    {"docker", "-v %s:%s", "-e %s=%s", ":", "", false, true},
    {"podman", "-v %s:%s", "-e %s=%s", ":", "", false, true},
    {"apptainer", "--bind %s:%s", "--env %s=%s", ":,", ",", false, false},
    {"charliecloud", "--bind=%s:%s", "--set-env=%s=%s", ":", "", true, false},
    {"enroot", "--mount %s:%s:none:x-create=dir,rbind", "--env %s=%s", ":", "", false, false},
};

const struct fs_container *fs_container_find(const char *name) {
  for (size_t i = 0; i < FS_ARRAY_LEN(kinds); i++)
    if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
  return NULL;
}

struct binds {
  char path[FS_BINDS][PATH_MAX];
  unsigned n;
};

/* Adds a directory that exists and is not below another one. */
static void bind_add(struct binds *b, const char *path) {
  if (!path || path[0] != '/' || b->n == FS_BINDS || access(path, F_OK) < 0) return;
  for (unsigned i = 0; i < b->n; i++)
    if (fs_path_below(path, strlen(path), b->path[i], strlen(b->path[i])) >= 0) return;
  snprintf(b->path[b->n++], PATH_MAX, "%s", path);
}

/* Forgets the directories that such a runtime shares. Its /tmp is TMPDIR, so all of this host's /tmp
   replaces it: /tmp is in each image, and a directory below it may not be. */
static void drop_shared(struct binds *b) {
  const char *tmp = getenv("TMPDIR");
  bool lacks = false, other = tmp && strcmp(tmp, "/tmp") != 0;
  unsigned n = 0;
  for (unsigned i = 0; i < b->n; i++) {
    bool below_tmp = strncmp(b->path[i], "/tmp/", 5) == 0;
    lacks |= below_tmp;
    if (below_tmp || strncmp(b->path[i], "/dev/", 5) == 0) continue;
    if (n != i) memcpy(b->path[n], b->path[i], PATH_MAX);
    n++;
  }
  b->n = n;
  if (lacks && other) bind_add(b, "/tmp");
}

static void bind_add_parent(struct binds *b, const char *file) {
  char dir[PATH_MAX];
  const char *slash = strrchr(file, '/');
  if (!slash || slash == file) return;
  snprintf(dir, sizeof(dir), "%.*s", (int)(slash - file), file);
  bind_add(b, dir);
}

/* Adds the directories of the datasets on shared storage. */
static void bind_add_list(struct binds *b, const char *list) {
  char item[PATH_MAX];
  while (fs_list_next(&list, item, sizeof(item)) > 0) bind_add(b, item);
}

/* Returns 0, or the exit status if the value cannot be said. */
static int check(const struct fs_container *kind, const char *value, const char *bad) {
  if (value[strcspn(value, " \t\n*?[")] == '\0' && value[strcspn(value, bad)] == '\0') return 0;
  fs_say("%s: options of %s cannot name this: it has a blank or one of *?[%s", value, kind->name, bad);
  return FS_EXIT_FAILED;
}

static int check_all(const struct fs_container *kind, const struct binds *b) {
  const char *value;
  int status = 0;
  for (unsigned i = 0; status == 0 && i < b->n; i++) status = check(kind, b->path[i], kind->bad_path);
  for (size_t i = 0; status == 0 && fs_env_shown(i); i++)
    if ((value = getenv(fs_env_shown(i))) != NULL) status = check(kind, value, kind->bad_value);
  return status;
}

static void print_user(const struct fs_container *kind) {
  bool keep = strcmp(kind->name, "podman") == 0 && geteuid() != 0;
  if (keep)
    printf("--userns=keep-id ");
  else
    printf("--user %u:%u ", (unsigned)geteuid(), (unsigned)getegid());
}

int fs_container_print(const struct fs_container *kind, const struct fs_join *j) {
  static struct binds b;
  const char *const *value = j->env.value;
  bind_add(&b, getenv(FS_ENV_RUN));
  bind_add(&b, value[FS_WORD_LOCAL_DIR]);
  bind_add_parent(&b, value[FS_WORD_LIBRARY]);
  bind_add(&b, value[FS_WORD_PYTHON]);
  bind_add_parent(&b, value[FS_WORD_SUPERVISOR]);
  bind_add(&b, value[FS_WORD_STAGE_IN]);
  bind_add_list(&b, value[FS_WORD_DATASET]);
  if (kind->shares) drop_shared(&b);
  int status = check_all(kind, &b);
  if (status != 0) return status;
  if (kind->user) print_user(kind);
  for (unsigned i = 0; i < b.n; i++) {
    printf(kind->bind, b.path[i], b.path[i]);
    putchar(' ');
  }
  for (size_t i = 0, n = 0; fs_env_shown(i); i++) {
    const char *v = getenv(fs_env_shown(i));
    if (!v) continue;
    if (n++ > 0) putchar(' ');
    printf(kind->env, fs_env_shown(i), v);
  }
  putchar('\n');
  return 0;
}
