/* SPDX-License-Identifier: BSD-3-Clause */
/* The SOURCEs of pack's command line, DATASET, and the mount if --mount does not give it. One
   thread. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pack.h"

static bool has_dotdot(const char *path) {
  for (const char *p = path; (p = strstr(p, "..")) != NULL; p += 2)
    if ((p == path || p[-1] == '/') && (p[2] == '/' || p[2] == '\0')) return true;
  return false;
}

fs_err fs_pack_add_source(struct fs_pack_options *o, const char *prefix, const char *path) {
  struct fs_source_arg *more = realloc(o->sources, (o->nsources + 1) * sizeof *more);
  if (more == NULL) {
    fs_say("%s: %s", o->command, strerror(ENOMEM));
    return -ENOMEM;
  }
  o->sources = more;
  o->sources[o->nsources++] = (struct fs_source_arg){path, prefix};
  return 0;
}

fs_err fs_pack_set_shards(struct fs_pack_options *o, const char *value) {
  if (strcmp(value, "nest") == 0)
    o->shards = FS_SHARDS_NEST;
  else if (strcmp(value, "merge") == 0)
    o->shards = FS_SHARDS_MERGE;
  else
    fs_say("%s: --shards '%s': give nest or merge", o->command, value);
  return o->shards != FS_SHARDS_DEFAULT ? 0 : -EINVAL;
}

/* Keeps the directory of the dataset that PREFIX=PATH names, without '.' and empty components. */
fs_err fs_pack_set_source(struct fs_pack_options *o, const char *option, const char *value) {
  char prefix[PATH_MAX], text[PATH_MAX];
  const char *path = strchr(value, '=');
  const char *what = path == NULL || path[1] == '\0' ? "give PREFIX=PATH, as train=/data/train.tar" : NULL;
  if (what == NULL) {
    int n = snprintf(text, sizeof text, "/%.*s", (int)(path - value), value);
    if (n < 0 || (size_t)n >= sizeof text || fs_path_normalize(text, prefix, sizeof prefix) < 0)
      what = "the prefix is too long";
    else if (has_dotdot(text))
      what = "the prefix has '..'; give a directory of the dataset";
    else if (value[0] == '/')
      what = "the prefix is absolute; give a directory of the dataset";
  }
  char *copy = what == NULL ? strdup(prefix + 1) : NULL;
  if (what == NULL && copy != NULL) return fs_pack_add_source(o, copy, path + 1);
  fs_say("%s: --%s '%s': %s", o->command, option, value, what != NULL ? what : "out of memory");
  return -EINVAL;
}

/* Returns the absolute path of a SOURCE as the user names it, without a suffix of archives: scripts
   use the same name, with its symlinks. */
static fs_err absolute(const char *path, char *out, size_t size) {
  FS_AUTO_FREE char *base = NULL;
  FS_AUTO_FREE char *joined = NULL;
  struct stat st;
  const bool file = stat(path, &st) == 0 && S_ISREG(st.st_mode);
  if (has_dotdot(path)) { /* after a symlink ".." is not lexical */
    base = realpath(path, NULL);
    if (base == NULL) return -errno;
    path = base;
  } else if (path[0] != '/') {
    base = getcwd(NULL, 0);
    if (base == NULL) return -errno;
    if (asprintf(&joined, "%s/%s", base, path) < 0) return -ENOMEM;
    path = joined;
  }
  fs_ssize n = fs_path_normalize(path, out, size);
  if (n > 0 && file) out[fs_archive_stem(out)] = '\0';
  return n < 0 ? (fs_err)n : n == 1 ? -EINVAL : 0;
}

/* Sets the mount of several SOURCEs to the directory that has all of them under their names. */
static fs_err common_parent(struct fs_pack_options *o) {
  char one[PATH_MAX];
  for (uint32_t i = 0; i < o->nsources; i++) {
    fs_err err = o->shards == FS_SHARDS_MERGE || o->sources[i].prefix != NULL
                     ? -EXDEV
                     : absolute(o->sources[i].path, one, sizeof one);
    if (err < 0) return err;
    char *slash = strrchr(one, '/');
    slash[slash == one] = '\0';
    if (strcmp(one, "/") == 0 || (i != 0 && strcmp(one, o->mount) != 0)) return -EXDEV;
    snprintf(o->mount, sizeof o->mount, "%s", one);
  }
  return 0;
}

static fs_err default_mount(struct fs_pack_options *o) {
  const bool several = o->nsources > 1 || o->sources[0].prefix != NULL || o->shards == FS_SHARDS_NEST;
  fs_err err = several ? common_parent(o) : absolute(o->source, o->mount, sizeof o->mount);
  if (err == 0) return 0;
  o->mount[0] = '\0';
  /* These are reported when SOURCE is opened. */
  if (err == -ENOENT || err == -ENOTDIR) return 0;
  if (err == -EXDEV)
    fs_say("pack: these SOURCEs have no path of their own in the dataset; give one with --mount");
  else
    fs_say("pack: SOURCE's path cannot be the mount: %s; give one with --mount", strerror(-err));
  return err;
}

static fs_err missing(const char *name) {
  fs_say("pack: %s is missing (usage: fs-prepare pack %s)", name, FS_PACK_SYNOPSIS);
  return -EINVAL;
}

/* DATASET is left out: its directory, here, gets SOURCE's name without a suffix of archives, and the
   partitions are on the nodes only. */
static fs_err name_dataset(struct fs_pack_options *o) {
  char path[PATH_MAX], inside[PATH_MAX + 16];
  o->source = o->sources[0].path;
  snprintf(inside, sizeof inside, "%.4095s/manifest", o->source);
  if (access(inside, F_OK) == 0) return missing("SOURCE"); /* this is a DATASET */
  fs_err err = absolute(o->source, path, sizeof path);
  if (err == 0 && asprintf(&o->own_name, "%s.fs", strrchr(path, '/') + 1) < 0) err = -ENOMEM;
  if (err < 0) {
    fs_say("pack: '%s' gives DATASET no name (%s); give one", o->source, strerror(-err));
    return err;
  }
  o->dataset = o->own_name;
  o->nodes_only = true;
  return 0;
}

/* The last word is DATASET. */
static fs_err take_dataset(struct fs_pack_options *o) {
  uint32_t last = UINT32_MAX;
  for (uint32_t i = 0; i < o->nsources; i++) {
    if (o->sources[i].path[0] == '\0') {
      fs_say("pack: SOURCE or DATASET is empty");
      return -EINVAL;
    }
    if (o->sources[i].prefix == NULL) last = i;
  }
  if (last == UINT32_MAX) return missing(o->nsources != 0 ? "DATASET" : "SOURCE");
  if (o->nsources == 1) return o->local_dir != NULL ? name_dataset(o) : missing("DATASET");
  o->dataset = o->sources[last].path;
  o->nsources--;
  memmove(&o->sources[last], &o->sources[last + 1], (o->nsources - last) * sizeof *o->sources);
  o->source = o->sources[0].path;
  return 0;
}

fs_err fs_pack_take_words(struct fs_pack_options *o) {
  fs_err err = take_dataset(o);
  if (err < 0) return err;
  const char *what = o->null && o->files_from == NULL ? "--null is for --files-from; give both or neither"
                     : o->files_from != NULL && o->nsources > 1
                         ? "--files-from is for one SOURCE; pack several without it"
                     : o->files_from != NULL && o->dereference != FS_DEREF_NONE
                         ? "--files-from and --dereference do not work together; name what the symlinks lead to"
                         : NULL;
  if (what != NULL) {
    fs_say("pack: %s", what);
    return -EINVAL;
  }
  return o->mount[0] != '\0' ? 0 : default_mount(o);
}

void fs_pack_free_sources(struct fs_pack_options *o) {
  for (uint32_t i = 0; i < o->nsources; i++) free((char *)o->sources[i].prefix);
  free(o->sources);
  free(o->own_name);
  o->sources = NULL;
  o->own_name = NULL;
  o->nsources = 0;
}
