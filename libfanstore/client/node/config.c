/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mounts of this process, from FANSTORE_DATASET and FANSTORE_MOUNT (ipc/node.h). The first
 * interposed call or the constructor reads them once. They are published by compare and swap, kept
 * for the process's life, and inherited by forked children. A bad setting is told once, and its
 * mount is left out.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/data_priv.h"
#include "format/manifest.h"
#include "ipc/node.h"
#include "util/util.h"

#define FS_NOT_MOUNTED "; nothing is mounted for it: programs see the plain files and directories"

static struct fs_config g_none;
static void *_Atomic g_config;

static size_t fs_config_size(void) {
  return sizeof(struct fs_config) + FS_MAX_NAMES * sizeof(struct fs_mount);
}

fs_err fs_manifest_read(const char *dir, struct fs_manifest *m) {
  char path[PATH_MAX];
  fs_err err = fs_join(path, dir, "manifest");
  FS_AUTO_CLOSE fs_fd fd = err == 0 ? fs_open_read(path) : err;
  return fd < 0 ? fd : fs_manifest_load_fd(fd, dir, m, NULL, 0);
}

/* Sets the mount that the dataset itself names, or else the one that the job's daemon knows for
   it. */
static fs_err fs_default_mount(const char *dataset, char *path) {
  struct fs_manifest *m = fs_mem_map(sizeof(*m));
  if (!m) return -ENOMEM;
  fs_err err = fs_manifest_read(dataset, m);
  if (err == 0) memcpy(path, m->mount, PATH_MAX);
  fs_mem_unmap(m, sizeof(*m));
  const struct fs_node *node = err < 0 ? fs_node_attach() : NULL;
  for (uint32_t i = 0; node && i < node->ctl->datasets; i++) {
    if (strcmp(node->ctl->dataset[i].source, dataset) != 0) continue;
    memcpy(path, node->ctl->dataset[i].mount, PATH_MAX);
    return 0;
  }
  return err;
}

/* Makes a path absolute and normal, in place; work has 2 * PATH_MAX bytes. A dataset may be named
   relative to the directory in which the process starts. */
static fs_err fs_absolute(char *path, char *work) {
  fs_err err = 0;
  if (path[0] == '/') {
    strcpy(work, path);
  } else {
    long n = FS_SYS2(SYS_getcwd, work + PATH_MAX, PATH_MAX);
    err = n < 0 ? (fs_err)n : work[PATH_MAX] != '/' ? -ENOENT : fs_join(work, work + PATH_MAX, path);
  }
  if (err == 0) {
    fs_ssize n = fs_path_normalize(work, path, PATH_MAX);
    err = n < 0 ? (fs_err)n : 0;
  }
  return err;
}

/* Sets the mount's path from the list, or else from the dataset. */
static bool fs_config_path(struct fs_mount *m, bool named, char *work) {
  if (named && m->path[0] != '/') {
    FS_NOTE(FS_ENV_MOUNT "=", m->path, ": a mount path must be absolute; nothing is mounted there");
    return false;
  }
  fs_err err = named ? 0 : fs_default_mount(m->dataset, m->path);
  if (err < 0) {
    if (err == -ENOENT)
      fs_note_no_dataset(m->dataset, FS_NOT_MOUNTED, "");
    else
      FS_NOTE(m->dataset, ": cannot read the dataset's manifest: ", fs_err_text(err), FS_NOT_MOUNTED);
    return false;
  }
  err = fs_absolute(m->path, work);
  if (err < 0 || m->path[1] == '\0') {
    FS_NOTE(m->path, ": cannot be a mount path; nothing is mounted there");
    return false;
  }
  m->path_len = strlen(m->path);
  return true;
}

static bool fs_config_known(const struct fs_config *c, const struct fs_mount *m) {
  for (uint32_t i = 0; i < c->names; i++) {
    if (strcmp(c->mount[i].path, m->path) == 0) return true;
  }
  return false;
}

/* Takes the next item of a list in which empty items count. Returns its length, 0 for an empty
   item, or -ENOENT at the end. */
static fs_ssize fs_config_item(const char **cursor, bool first, char *item) {
  item[0] = '\0';
  if (!first && **cursor == ':')
    ++*cursor;
  else if (!first)
    return -ENOENT;
  return **cursor == ':' || **cursor == '\0' ? 0 : fs_list_next(cursor, item, PATH_MAX);
}

static void fs_config_fill(struct fs_config *c, const char *datasets, const char *mounts, char *work) {
  for (bool first = true, more = true; more; first = false) {
    if (c->mounts == FS_MAX_DATASETS) {
      if (*datasets != '\0') FS_NOTE(FS_ENV_DATASET " names too many datasets; the rest are not mounted");
      return;
    }
    struct fs_mount *m = &c->mount[c->mounts];
    fs_ssize n = fs_config_item(&datasets, first, m->dataset);
    fs_ssize named = fs_config_item(&mounts, first, m->path);
    more = n != -ENOENT;
    if (n <= 0) continue;
    c->relative |= m->dataset[0] != '/';
    if (fs_absolute(m->dataset, work) < 0 || !fs_config_path(m, named > 0, work)) continue;
    if (fs_config_known(c, m)) {
      FS_NOTE(m->path, ": two datasets are mounted there; only the first is seen");
      continue;
    }
    /* A major number that no driver can have; the same on every node. */
    m->dev =
        (dev_t)(0xfa5u << 8 | (fs_xxh3(m->path, m->path_len) & 0xff) | (fs_xxh3(m->path, m->path_len) & 0xfff00) << 12);
    m->same = c->mounts;
    c->names = ++c->mounts;
  }
}

/* Returns how much of an absolute path exists, and sets whether a symlink is in it. */
static size_t fs_config_existing(const char *path, bool *linked) {
  char text[PATH_MAX], target[8];
  size_t at = 0, len = strlen(path);
  *linked = false;
  while (at < len) {
    size_t next = at + 1 + strcspn(path + at + 1, "/");
    memcpy(text, path, next);
    text[next] = '\0';
    long n = FS_SYS4(SYS_readlinkat, AT_FDCWD, text, target, sizeof(target));
    if (n < 0 && n != -EINVAL) break;
    *linked |= n > 0;
    at = next;
  }
  return at;
}

/* Writes the kernel's path of a directory. */
static fs_ssize fs_config_real(const char *path, char *out) {
  char link[32] = "/proc/self/fd/", number[FS_U64_TEXT];
  FS_AUTO_CLOSE fs_fd fd = fs_sys_openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0) return fd;
  strcat(link, fs_u64_text((uint64_t)fd, number));
  long n = FS_SYS4(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX - 1);
  if (n > 0) out[n] = '\0';
  return n > 1 ? n : n < 0 ? n : 0;
}

/* Resolves the symlinks of the real file system in a mount's path, except for the last component,
   which the mount covers. Returns false if the path stays the same. */
static bool fs_config_resolve(const struct fs_mount *m, char *out) {
  char parent[PATH_MAX];
  bool linked;
  memcpy(parent, m->path, m->path_len + 1);
  *strrchr(parent, '/') = '\0';
  size_t have = fs_config_existing(parent, &linked);
  if (!linked) return false;
  parent[have] = '\0';
  fs_ssize n = fs_config_real(parent, out);
  if (n < 0 || (size_t)n + m->path_len - have >= PATH_MAX) return false;
  strcpy(out + n, m->path + have);
  return true;
}

/* Adds the second name of each mount below a symlink. */
static void fs_config_names(struct fs_config *c) {
  for (uint32_t i = 0; i < c->mounts; i++) {
    struct fs_mount *m = &c->mount[c->names];
    if (!fs_config_resolve(&c->mount[i], m->path) || fs_config_known(c, m)) continue;
    memcpy(m->dataset, c->mount[i].dataset, PATH_MAX);
    m->path_len = strlen(m->path);
    m->dev = c->mount[i].dev;
    m->same = i;
    c->names++;
  }
}

static enum fs_verify fs_config_verify(const char *word) {
  int verify = word ? fs_verify_parse(word) : FS_VERIFY_DEFAULT;
  if (verify >= 0) return (enum fs_verify)verify;
  FS_NOTE(FS_ENV_VERIFY "=", word, ": it is 'always', 'remote' or 'never'; 'always' is taken");
  return FS_VERIFY_ALWAYS;
}

static struct fs_config *fs_config_read(void) {
  const char *datasets = getenv(FS_ENV_DATASET), *mounts = getenv(FS_ENV_MOUNT), *ro = getenv(FS_ENV_READ_ONLY);
  void *winner = &g_none;
  /* Libc has not set the environment yet; the next call looks again. */
  if (!environ) return &g_none;
  struct fs_config *c = datasets && *datasets ? fs_mem_map(fs_config_size()) : NULL;
  char *work = c ? fs_mem_map(2 * PATH_MAX) : NULL;
  if (c) {
    c->read_only = ro && strcmp(ro, "1") == 0;
    c->verify = fs_config_verify(getenv(FS_ENV_VERIFY));
    if (work) fs_config_fill(c, datasets, mounts ? mounts : "", work);
    fs_mem_unmap(work, 2 * PATH_MAX);
    fs_config_names(c);
  }
  if (!fs_publish_ptr(&g_config, c ? c : &g_none, &winner)) fs_mem_unmap(c, fs_config_size());
  return winner;
}

struct fs_config *fs_config(void) {
  void *c = atomic_load_explicit(&g_config, memory_order_acquire);
  return FS_LIKELY(c != NULL) ? c : fs_config_read();
}

uint32_t fs_mounts(void) {
  return fs_config()->mounts;
}

uint32_t fs_mount_names(void) {
  return fs_config()->names;
}

uint32_t fs_mount_canonical(uint32_t i) {
  const struct fs_config *c = fs_config();
  for (uint32_t k = c->mounts; k < c->names; k++)
    if (c->mount[k].same == c->mount[i].same) return k;
  return i;
}

const char *fs_mount_path(uint32_t i, size_t *len) {
  const struct fs_mount *m = &fs_config()->mount[i];
  *len = m->path_len;
  return m->path;
}

dev_t fs_mount_dev(uint32_t i) {
  return fs_config()->mount[i].dev;
}

bool fs_mounts_read_only(void) {
  return fs_config()->read_only;
}

void fs_mounts_export(void (*set)(const char *name, const char *value)) {
  const struct fs_config *c = fs_config();
  size_t size = 2 * FS_MAX_DATASETS * PATH_MAX; /* each path with its colons escaped, at worst */
  char *datasets = c->relative ? fs_mem_map(2 * size) : NULL, *mounts = datasets ? datasets + size : NULL;
  fs_err err = datasets ? 0 : -ENOMEM;
  for (uint32_t i = 0; i < c->mounts && err == 0; i++) {
    err = fs_list_append(datasets, size, c->mount[i].dataset);
    if (err == 0) err = fs_list_append(mounts, size, c->mount[i].path);
  }
  if (err == 0) {
    set(FS_ENV_DATASET, datasets);
    set(FS_ENV_MOUNT, mounts);
  }
  fs_mem_unmap(datasets, 2 * size);
}
