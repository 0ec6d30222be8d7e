/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks datasets, mounts and directories before anything is started. Each
 * error is one line that names the file and the remedy. The content of the partitions is checked by
 * the daemon that stages it. Called by main.c.
 */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch.h"

#define FS_HIDDEN_LOOK 10000u /* names of a directory at a mount that are compared with the dataset's */

static int check_mount(struct fs_launch_dataset *d, const char *given) {
  const char *mount = given ? given : d->manifest.mount;
  if (mount[0] != '/') {
    fs_say("--mount %s: the path must be absolute", mount);
    return FS_EXIT_FAILED;
  }
  fs_ssize n = fs_path_normalize(mount, d->mount, sizeof(d->mount));
  if (n < 0 || n == 1) {
    fs_say("--mount %s: %s", mount, n == 1 ? "it cannot be the root" : "too long");
    return FS_EXIT_FAILED;
  }
  return 0;
}

static int check_index(struct fs_launch_dataset *d) {
  char why[256] = "";
  fs_err err = fs_index_open_of(d->path, &d->manifest, &d->index, why, sizeof(why));
  if (err == 0) return 0;
  fs_say("%s/index: %s", d->path, why[0] ? why : strerror(-err));
  return FS_EXIT_FAILED;
}

static void part_path(const struct fs_launch_dataset *d, uint32_t p, char *path, size_t size) {
  char name[FS_PART_NAME_SIZE];
  snprintf(path, size, "%s/%s", d->path, fs_part_name(p, name));
}

static int check_partition(const struct fs_launch_dataset *d, uint32_t p) {
  char path[PATH_MAX + 24];
  uint64_t want = d->index.parts[p].size;
  struct stat st;
  part_path(d, p, path, sizeof(path));
  if (stat(path, &st) < 0) {
    fs_say("%s: %s", path, strerror(errno));
    return FS_EXIT_FAILED;
  }
  if (S_ISREG(st.st_mode) && (uint64_t)st.st_size == want) return 0;
  fs_say("%s: %s: it has %llu bytes, the index says %llu", path,
         (uint64_t)st.st_size < want ? "truncated partition" : "damaged partition", (unsigned long long)st.st_size,
         (unsigned long long)want);
  return FS_EXIT_FAILED;
}

static int check_dataset(struct fs_launch_dataset *d, const char *given_path, const char *given_mount) {
  char why[PATH_MAX + 256] = "";
  if (given_mount && given_mount[0] != '/') return check_mount(d, given_mount);
  if (!realpath(given_path, d->path)) {
    fs_say("%s: no such dataset (%s)", given_path, strerror(errno));
    return FS_EXIT_FAILED;
  }
  fs_err err = fs_manifest_load(d->path, &d->manifest, why, sizeof(why));
  if (err < 0) {
    if (why[0] == '\0') snprintf(why, sizeof(why), "%s: %s", given_path, strerror(-err));
    fs_say("%s", why);
    return FS_EXIT_FAILED;
  }
  int status = check_mount(d, given_mount);
  if (status == 0) status = check_index(d);
  d->only_nodes = status == 0 && fs_part_only_nodes(d->path, d->index.nparts);
  if (d->only_nodes) return 0;
  for (uint32_t p = 0; status == 0 && p < d->index.nparts; p++) status = check_partition(d, p);
  return status;
}

static int check_distinct(const struct fs_launch *l) {
  for (unsigned i = 0; i < l->opt.datasets; i++)
    for (unsigned k = 0; k < i; k++)
      if (strcmp(l->dataset[i].mount, l->dataset[k].mount) == 0) {
        fs_say("two datasets at one mount, %s: give each a --mount", l->dataset[i].mount);
        return FS_EXIT_FAILED;
      }
  return 0;
}

static int list_parts(struct fs_launch *l) {
  uint64_t n = 0;
  for (unsigned i = 0; i < l->opt.datasets; i++) {
    l->dataset[i].first = n;
    n += l->dataset[i].index.nparts;
  }
  l->parts = n;
  l->part = calloc(n + 1, sizeof(*l->part));
  l->place = calloc(n + 1, sizeof(*l->place));
  if (!l->part || !l->place) {
    fs_say("out of memory");
    return FS_EXIT_FAILED;
  }
  for (unsigned i = 0; i < l->opt.datasets; i++) {
    const struct fs_launch_dataset *d = &l->dataset[i];
    for (uint32_t p = 0; p < d->index.nparts; p++)
      l->part[d->first + p] = (struct fs_place_part){d->index.parts[p].size,
                                                     (d->index.parts[p].flags & FS_PART_REPLICATE) != 0, d->only_nodes};
  }
  return 0;
}

int fs_check_datasets(struct fs_launch *l) {
  l->dataset = calloc(l->opt.datasets, sizeof(*l->dataset));
  if (!l->dataset) {
    fs_say("out of memory");
    return FS_EXIT_FAILED;
  }
  for (unsigned i = 0; i < l->opt.datasets; i++) {
    int status = check_dataset(&l->dataset[i], l->opt.dataset[i].path, l->opt.dataset[i].mount);
    if (status != 0) return status;
  }
  for (unsigned i = 0; l->opt.purge && i < l->opt.datasets; i++)
    if (l->dataset[i].only_nodes) {
      fs_say("--purge: %s was packed with --nodes-only, and the nodes have its only partitions: leave --purge out",
             l->opt.dataset[i].path);
      return FS_EXIT_FAILED;
    }
  int status = check_distinct(l);
  return status != 0 ? status : list_parts(l);
}

/* Only the nodes must see the directory; this host need not be one. */
static int check_stage_dir(const struct fs_launch *l, const char *option, const char *given, int access_mode,
                           char *out) {
  char path[2 * PATH_MAX], cwd[PATH_MAX];
  struct stat st;
  if (!given) return 0;
  if (given[0] == '/')
    snprintf(path, sizeof(path), "%s", given);
  else
    snprintf(path, sizeof(path), "%s/%s", getcwd(cwd, sizeof(cwd)) ? cwd : "", given);
  fs_err err = fs_path_normalize(path, out, PATH_MAX) < 0 ? -ENAMETOOLONG : 0;
  if (err == 0 && l->where == FS_WHERE_HERE) {
    bool there = stat(out, &st) == 0 && (!S_ISDIR(st.st_mode) || access(out, access_mode) == 0);
    err = !there ? -errno : S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
  }
  if (err == 0) return 0;
  fs_say("--%s %s: %s", option, given, strerror(-err));
  return FS_EXIT_FAILED;
}

int fs_check_stage_dirs(struct fs_launch *l) {
  int status = check_stage_dir(l, "stage-out", l->opt.stage_out, R_OK | W_OK | X_OK, l->stage_out);
  return status != 0 ? status : check_stage_dir(l, "stage-in", l->opt.stage_in, R_OK | X_OK, l->stage_in);
}

int fs_check_to(struct fs_launch *l) {
  return check_stage_dir(l, "to", l->opt.to, R_OK | W_OK | X_OK, l->to);
}

int fs_local_dir(struct fs_launch *l) {
  char path[2 * PATH_MAX], cwd[PATH_MAX];
  const char *base = getenv("TMPDIR"), *given = l->opt.local_dir;
  if (!base || base[0] != '/') base = "/tmp";
  if (!given)
    snprintf(path, sizeof(path), "%s/fanstore-local-%u", base, (unsigned)geteuid());
  else if (given[0] == '/')
    snprintf(path, sizeof(path), "%s", given);
  else
    snprintf(path, sizeof(path), "%s/%s", getcwd(cwd, sizeof(cwd)) ? cwd : "", given);
  if (fs_path_normalize(path, l->local_dir, sizeof(l->local_dir) - 96) >= 0) return 0;
  fs_say("--local-dir: the path is too long");
  return FS_EXIT_FAILED;
}

void fs_warn_taken(struct fs_launch *l, const char *name, const char *used) {
  if (strcmp(name, used) == 0) return;
  fs_warn(l, "%s is no directory of yours: %s is used", name, used);
}

/* Uses another local directory if another user owns the default one. On other hosts the daemons do
   this and report it. */
static fs_err check_default(struct fs_launch *l) {
  char own[PATH_MAX];
  fs_err err = fs_own_get(l->local_dir, true, own, sizeof(own));
  if (err < 0) return err;
  if (strlen(own) >= sizeof(l->local_dir) - 96) return -ENAMETOOLONG;
  fs_warn_taken(l, l->local_dir, own);
  memcpy(l->local_dir, own, strlen(own) + 1);
  return 0;
}

/* Writes the path without symlinks, as far as it exists on this host. */
static void resolve(const char *path, char out[PATH_MAX]) {
  char head[PATH_MAX], real[PATH_MAX];
  snprintf(head, sizeof(head), "%s", path);
  for (char *slash; !realpath(head, real); *slash = '\0') {
    slash = strrchr(head, '/');
    if (!slash || slash == head) break;
  }
  size_t n = strlen(head);
  int len = realpath(head, real) ? snprintf(out, PATH_MAX, "%s%s", real[1] ? real : "", path + n) : -1;
  if (len < 0 || len >= PATH_MAX) snprintf(out, PATH_MAX, "%s", path);
}

/* Writes the mount with the symlinks before its last component resolved: programs also use this
   name. */
static void resolve_mount(const char *mount, char out[PATH_MAX]) {
  char parent[PATH_MAX], real[PATH_MAX];
  size_t n = (size_t)(strrchr(mount, '/') - mount);
  snprintf(parent, sizeof(parent), "%.*s", (int)FS_MAX(n, 1u), mount);
  resolve(parent, real);
  int len = snprintf(out, PATH_MAX, "%s%s", real[1] ? real : "", mount + n);
  if (len < 0 || len >= PATH_MAX) snprintf(out, PATH_MAX, "%s", mount);
}

static bool is_below(const char *path, const char *top) {
  return fs_path_below(path, strlen(path), top, strlen(top)) >= 0;
}

/* Checks that the local directory is not below a mount, which would hide it, and not in a
   dataset. */
static int check_apart(const struct fs_launch *l) {
  char local[PATH_MAX], mount[PATH_MAX];
  resolve(l->local_dir, local);
  for (unsigned i = 0; i < l->opt.datasets; i++) {
    const struct fs_launch_dataset *d = &l->dataset[i];
    resolve_mount(d->mount, mount);
    bool hidden = is_below(l->local_dir, d->mount) || is_below(local, d->mount) || is_below(local, mount);
    if (!hidden && !is_below(local, d->path)) continue;
    fs_say("local directory %s: it lies %s %s: choose another with --local-dir", l->local_dir,
           hidden ? "below the mount" : "in the dataset", hidden ? d->mount : d->path);
    return FS_EXIT_FAILED;
  }
  return 0;
}

int fs_check_local_dir(struct fs_launch *l) {
  int status = fs_local_dir(l);
  if (status == 0) status = check_apart(l);
  if (status == 0 && l->opt.local_dir && l->first_here) {
    fs_run_prefer(l->local_dir);
    (void)fs_mkdirs(l->local_dir, 0700); /* the run directory is made before the daemons start */
  }
  if (status != 0 || l->where != FS_WHERE_HERE) return status;
  fs_err err = l->opt.local_dir ? 0 : check_default(l);
  for (unsigned tries = 0; tries < 10 && (tries == 0 ? err == 0 : err == -ENOENT);
       tries++) { /* `clean` removes empty directories */
    err = fs_mkdirs(l->local_dir, 0700);
    if (err == 0 && access(l->local_dir, R_OK | W_OK | X_OK) < 0) err = -errno;
  }
  if (err == 0) return 0;
  fs_say("local directory %s: %s (choose another with --local-dir)", l->local_dir, strerror(-err));
  return FS_EXIT_FAILED;
}

/* Returns true if programs see this name of the mount, because the dataset has it or it leads to
   another mount, or if it is FanStore's own. */
static bool is_seen(const struct fs_launch *l, const struct fs_launch_dataset *d, const char *name) {
  char path[2 * PATH_MAX];
  if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strncmp(name, ".fanstore-", 10) == 0) return true;
  if (fs_index_child(&d->index, 0, name, strlen(name)) != -ENOENT) return true;
  snprintf(path, sizeof(path), "%s/%s", d->mount, name);
  for (unsigned i = 0; i < l->opt.datasets; i++)
    if (is_below(l->dataset[i].mount, path)) return true;
  return false;
}

static void warn_hidden(const struct fs_launch *l, const struct fs_launch_dataset *d) {
  char shown[4 * NAME_MAX + 1];
  DIR *dir = opendir(d->mount);
  unsigned names = 0;
  for (struct dirent *e; dir && names < FS_HIDDEN_LOOK && (e = readdir(dir)) != NULL; names++) {
    if (is_seen(l, d, e->d_name)) continue;
    fs_say(
        "warning: %s: programs see the dataset there; what else is in this directory is hidden while the job runs, as "
        "%s (--stage-in DIR shows what earlier jobs wrote)",
        d->mount, fs_printable(e->d_name, strlen(e->d_name), shown, sizeof(shown)));
    break;
  }
  if (dir) closedir(dir);
}

void fs_warn_hidden(const struct fs_launch *l) {
  for (unsigned i = 0; l->first_here && i < l->opt.datasets; i++)
    if (strcmp(l->stage_in, l->dataset[i].mount) != 0) warn_hidden(l, &l->dataset[i]);
}
