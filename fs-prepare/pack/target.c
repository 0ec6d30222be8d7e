/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The directory that becomes the dataset. It is written as ".NAME.partial-XXXXXX" beside DATASET,
 * and renamed when it is complete and synced. Its file "journal" is locked (flock) while its
 * fs-prepare lives. A later pack of the same NAME takes over one that no process locks if its
 * journal has a checkpoint (journal.c), and removes the others. Called by pack's main thread.
 * docs/internals/pack.md says what each death leaves behind.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "pack.h"

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE 2
#endif

#define JOURNAL "journal"

void fs_target_say(const struct fs_target *t, const char *what, fs_err err) {
  switch (err) {
  case -ENOSPC:
  case -EDQUOT:
    fs_say("%s: %s: %s; free some there, or name a DATASET on another file system", t->path, what,
           err == -ENOSPC ? "no space left" : "the quota is used up");
    break;
  case -EROFS:
    fs_say("%s: %s: the file system is read-only; name a DATASET elsewhere", t->path, what);
    break;
  case -EACCES:
  case -EPERM:
    fs_say("%s: %s: no permission; name a DATASET where you may write", t->path, what);
    break;
  case -EMFILE:
  case -ENFILE:
    fs_say("%s: %s: too many open files; raise 'ulimit -n' or lower --partitions", t->path, what);
    break;
  case -ENOMEM:
    fs_say("%s: %s: out of memory", t->path, what);
    break;
  default:
    fs_say("%s: %s: %s", t->path, what, strerror(-err));
  }
}

/* Splits the resolved or new path into parent and name. */
static fs_err resolve(struct fs_target *t, const char *dataset) {
  FS_AUTO_FREE char *copy = strdup(dataset);
  if (copy == NULL) return -ENOMEM;
  for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/';) copy[--n] = '\0';
  struct stat st;
  FS_AUTO_FREE char *real = realpath(copy, NULL);
  if (real == NULL && (errno != ENOENT || lstat(copy, &st) == 0)) return errno != 0 ? -errno : -ENOENT;
  if (real == NULL) {
    char *slash = strrchr(copy, '/');
    const char *name = slash != NULL ? slash + 1 : copy;
    if (slash != NULL) *slash = '\0';
    FS_AUTO_FREE char *dir = realpath(slash == NULL ? "." : slash == copy ? "/" : copy, NULL);
    if (dir == NULL) return -errno;
    if (asprintf(&real, "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, name) < 0) return -ENOMEM;
  }
  const char *slash = strrchr(real, '/');
  if (strlen(real) >= sizeof t->path || strlen(slash + 1) >= sizeof t->name) return -ENAMETOOLONG;
  if (slash[1] == '\0') return -EBUSY; /* the root directory */
  snprintf(t->path, sizeof t->path, "%s", real);
  snprintf(t->name, sizeof t->name, "%s", slash + 1);
  snprintf(t->parent, sizeof t->parent, "%.*s", slash == real ? 1 : (int)(slash - real), real);
  return 0;
}

static bool is_dataset_name(const char *name) {
  if (strcmp(name, "manifest") == 0 || strcmp(name, "index") == 0 || strcmp(name, JOURNAL) == 0) return true;
  if (strncmp(name, "part-", 5) != 0) return false;
  size_t n = strspn(name + 5, "0123456789");
  return n >= 5 && (name[5 + n] == '\0' || strncmp(name + 5 + n, ".repair-", 8) == 0); /* repair.c */
}

/* Returns true for what a directory that becomes a dataset has for a moment: the block file, and the name
   that NFS gives to a file that is unlinked while it is open. A machine that dies leaves it. */
static bool is_passing_name(const char *name) {
  return strcmp(name, FS_BLOCK_FILE) == 0 || strncmp(name, ".nfs", 4) == 0;
}

static bool is_either_name(const char *name) {
  return is_dataset_name(name) || is_passing_name(name);
}

struct contents {
  bool manifest;
  size_t names;
  char foreign[NAME_MAX + 1]; /* a name that no dataset has; "": none */
};

static fs_err look(const char *path, struct contents *c) {
  *c = (struct contents){0};
  DIR *dir = opendir(path);
  if (dir == NULL) return errno == ENOENT ? 0 : -errno;
  for (struct dirent *d; (d = readdir(dir)) != NULL;) {
    if (fs_is_dot(d->d_name)) continue;
    c->names++;
    c->manifest |= strcmp(d->d_name, "manifest") == 0;
    if (!is_dataset_name(d->d_name)) snprintf(c->foreign, sizeof c->foreign, "%s", d->d_name);
  }
  closedir(dir);
  return 0;
}

/* Checks if DATASET may be made here, given what exists now. Sets *replace if a dataset is to be
   replaced. */
static fs_err may_make(const struct fs_target *t, bool force, bool *replace) {
  struct contents c;
  fs_err err = look(t->path, &c);
  *replace = false;
  if (err == -ENOTDIR) {
    fs_say("%s: exists and is no directory; name another DATASET", t->path);
    return -EEXIST;
  }
  if (err < 0) {
    fs_target_say(t, "cannot be read", err);
    return err;
  }
  if (c.names == 0) return 0;
  if (!c.manifest)
    fs_say("%s: exists, is not empty and is no dataset; name another DATASET", t->path);
  else if (!force)
    fs_say("%s: a dataset exists already; use --force to replace it", t->path);
  else if (c.foreign[0] != '\0')
    fs_say("%s: holds '%s', which is no part of a dataset; move it away before replacing", t->path, c.foreign);
  else
    *replace = true;
  return *replace ? 0 : -EEXIST;
}

static fs_err check_nesting(const struct fs_target *t, const char *source, const char *local_dir) {
  FS_AUTO_FREE char *real = realpath(source, NULL);
  FS_AUTO_FREE char *local = local_dir != NULL ? realpath(local_dir, NULL) : NULL;
  if (real == NULL) return -errno;
  size_t n = strlen(real), m = strlen(t->path);
  if (local != NULL && fs_path_below(local, strlen(local), real, n) >= 0) {
    fs_say("%s: lies inside SOURCE; choose another --local-dir", local);
    return -EINVAL;
  }
  if (fs_path_below(t->path, m, real, n) >= 0) {
    fs_say("%s: lies inside SOURCE; name a DATASET outside of it", t->path);
    return -EINVAL;
  }
  if (fs_path_below(real, n, t->path, m) < 0) return 0;
  fs_say("%s: contains SOURCE; name another DATASET", t->path);
  return -EINVAL;
}

/* Removes the journal of a dataset whose fs-prepare was killed right after the dataset got its
   name. */
static void remove_stray_journal(const struct fs_target *t) {
  char path[sizeof t->path + sizeof JOURNAL];
  snprintf(path, sizeof path, "%s/" JOURNAL, t->path);
  FS_AUTO_CLOSE int fd = fs_sys_openat(AT_FDCWD, path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) unlink(path);
}

fs_err fs_target_check(struct fs_target *t, const struct fs_pack_options *o) {
  *t = (struct fs_target){.parent_fd = -1, .temp_fd = -1, .journal_fd = -1, .replace = o->force || o->update};
  errno = 0;
  fs_err err = resolve(t, o->dataset);
  if (err < 0) {
    fs_say("%s: cannot be made: %s; %s", o->dataset, strerror(-err),
           err == -ENOENT ? "create its parent directory first" : "name another DATASET");
    return err;
  }
  bool replace;
  remove_stray_journal(t);
  err = 0;
  for (uint32_t i = 0; i < o->nsources && err == 0; i++) err = check_nesting(t, o->sources[i].path, o->local_dir);
  if (err == 0) err = may_make(t, t->replace, &replace);
  if (err < 0) return err;
  t->parent_fd = fs_sys_openat(AT_FDCWD, t->parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (t->parent_fd < 0) fs_target_say(t, "its parent directory cannot be opened", t->parent_fd);
  return t->parent_fd < 0 ? t->parent_fd : 0;
}

/* Removes the files of a directory whose names fit. */
static void remove_names(int dir, bool (*fits)(const char *name)) {
  int fd = fs_sys_openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  DIR *names = fd >= 0 ? fdopendir(fd) : NULL;
  if (names == NULL && fd >= 0) close(fd);
  if (names == NULL) return;
  for (struct dirent *d; (d = readdir(names)) != NULL;)
    if (fits(d->d_name)) unlinkat(dir, d->d_name, 0);
  closedir(names);
}

/* Removes a directory of a dataset's files. If it contains anything else, that stays, and the
   directory too. */
static void remove_flat(int parent, const char *name) {
  FS_AUTO_CLOSE int dir = fs_sys_openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
  if (dir < 0) return;
  unlinkat(dir, JOURNAL, 0); /* first: what is half removed is not taken over */
  remove_names(dir, is_either_name);
  unlinkat(parent, name, AT_REMOVEDIR);
}

static int open_lock(int parent, const char *temp) {
  char path[sizeof((struct fs_target *)0)->temp + sizeof JOURNAL];
  snprintf(path, sizeof path, "%s/" JOURNAL, temp);
  return fs_sys_openat(parent, path, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
}

/* Returns true if the journal that is locked is still the one of the directory. */
static bool is_journal_of(int dir, int journal) {
  struct stat a, b;
  return fstat(journal, &a) == 0 && fstatat(dir, JOURNAL, &b, AT_SYMLINK_NOFOLLOW) == 0 && a.st_ino == b.st_ino &&
         a.st_dev == b.st_dev;
}

/* Returns true if only this user can have written it. */
static bool is_mine(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 022) == 0;
}

fs_err fs_target_lock(int fd, uint64_t until_ns) {
  while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
    if (errno != EWOULDBLOCK) return -errno;
    if (fs_prep_signal != 0) return -EINTR;
    if (fs_now_ns() >= until_ns) return -EBUSY;
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  }
  return 0;
}

/* Takes over a left-over directory if its journal, which is locked, has a checkpoint. */
static bool adopt(struct fs_target *t, const char *temp, int *dir, int *journal) {
  if (!fs_journal_has_checkpoint(*journal) || !is_mine(*dir) || !is_mine(*journal)) return false;
  snprintf(t->temp, sizeof t->temp, "%s", temp);
  t->temp_fd = FS_MOVE_FD(*dir);
  t->journal_fd = FS_MOVE_FD(*journal);
  t->adopted = true;
  unlinkat(t->temp_fd, "index", 0); /* both are made again */
  unlinkat(t->temp_fd, "manifest", 0);
  remove_names(t->temp_fd, is_passing_name);
  return true;
}

/*
 * Takes over or removes a left-over directory unless its fs-prepare lives. A living one holds the lock, or its
 * directory is empty for a moment: then rmdir removes that directory, and it makes another. Returns
 * true if a process still holds the lock at this time.
 */
static bool take_dead(struct fs_target *t, const char *temp, bool resume, uint64_t until_ns) {
  for (int tries = 0; tries < 2; tries++) {
    FS_AUTO_CLOSE int journal = open_lock(t->parent_fd, temp);
    if (journal >= 0) {
      fs_err err = fs_target_lock(journal, until_ns);
      if (err < 0) return err == -EBUSY;
      FS_AUTO_CLOSE int dir = fs_sys_openat(t->parent_fd, temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
      if (dir < 0 || !is_journal_of(dir, journal)) return false; /* another pack has it, or it is gone */
      if (!resume || !adopt(t, temp, &dir, &journal)) remove_flat(t->parent_fd, temp);
      return false;
    }
    if (journal != -ENOENT || unlinkat(t->parent_fd, temp, AT_REMOVEDIR) == 0 || errno != ENOTEMPTY) return false;
  }
  remove_flat(t->parent_fd, temp); /* not empty, twice without a journal: half removed, or replaced */
  return false;
}

static const char temp_letters[] = "abcdefghijklmnopqrstuvwxyz234567";

static void temp_prefix(const struct fs_target *t, const char *kind, char *out, size_t size) {
  snprintf(out, size, ".%.200s.%s-", t->name, kind);
}

/* Gives a dataset that stepped aside (step_aside) its name back, unless the other one has the name
   by now. */
static void restore_old(const struct fs_target *t, const char *old) {
  struct stat st;
  if (fstatat(t->parent_fd, t->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
    remove_flat(t->parent_fd, old);
  else if (errno == ENOENT)
    renameat(t->parent_fd, old, t->parent_fd, t->name);
}

/* Returns true for six letters and digits after the prefix, a digit first: no user's
   ".ds.old-backup". */
static bool is_temp(const char *name, const char *prefix) {
  size_t n = strlen(prefix);
  return strncmp(name, prefix, n) == 0 && strlen(name) == n + 6 && name[n] >= '2' && name[n] <= '7' &&
         strspn(name + n, temp_letters) == 6;
}

/* Removes what dead runs left behind. With `resume`, takes over the first that has a checkpoint. */
static void remove_all_dead(struct fs_target *t, bool resume) {
  char partial[256], old[256];
  temp_prefix(t, "partial", partial, sizeof partial);
  temp_prefix(t, "old", old, sizeof old);
  int fd = fs_sys_openat(t->parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
  const uint64_t until = fs_now_ns() + (fs_pack_nodes != NULL ? FS_PACK_NODES_END_NS : 0);
  bool lives = false;
  if (dir == NULL) return;
  for (struct dirent *d; (d = readdir(dir)) != NULL;) {
    if (is_temp(d->d_name, partial)) lives |= take_dead(t, d->d_name, resume && !t->adopted, until);
    if (is_temp(d->d_name, old)) restore_old(t, d->d_name);
  }
  closedir(dir);
  if (lives)
    fs_say("pack: warning: another fs-prepare is making %s at this moment, and only one of the two will be kept",
           t->path);
}

/* Makes a new directory with a locked journal. Returns 0, -EAGAIN if another pack took it
   for a dead one, or an error. */
static fs_err create_once(struct fs_target *t) {
  char prefix[256];
  uint8_t random[6];
  if (getrandom(random, sizeof random, 0) != sizeof random) return -EIO;
  temp_prefix(t, "partial", prefix, sizeof prefix - 6);
  size_t n = strlen(prefix);
  for (size_t i = 1; i < 6; i++) prefix[n + i] = temp_letters[random[i] % 32];
  prefix[n] = (char)('2' + random[0] % 6);
  prefix[n + 6] = '\0';
  if (mkdirat(t->parent_fd, prefix, 0700) < 0) return errno == EEXIST ? -EAGAIN : -errno;
  snprintf(t->temp, sizeof t->temp, "%s", prefix);
  t->temp_fd = fs_sys_openat(t->parent_fd, t->temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
  if (t->temp_fd < 0) return t->temp_fd == -ENOENT ? -EAGAIN : t->temp_fd;
  t->journal_fd = fs_sys_openat(t->temp_fd, JOURNAL, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (t->journal_fd < 0) return t->journal_fd == -ENOENT ? -EAGAIN : t->journal_fd;
  struct stat st;
  bool locked = flock(t->journal_fd, LOCK_EX | LOCK_NB) == 0;
  /* This file system has no locks, so no directory is removed as dead. */
  if (!locked && errno != EWOULDBLOCK) return 0;
  if (locked && fstat(t->journal_fd, &st) == 0 && st.st_nlink > 0) return 0;
  return -EAGAIN;
}

fs_err fs_target_create(struct fs_target *t, bool resume) {
  remove_all_dead(t, resume);
  fs_err err = fs_target_recheck(t); /* one that lived until now may have made the dataset */
  return err < 0 || t->adopted ? err : fs_target_renew(t);
}

fs_err fs_target_renew(struct fs_target *t) {
  fs_err err = -EAGAIN;
  for (int tries = 0; tries < 100 && err == -EAGAIN; tries++) {
    fs_target_discard(t);
    err = create_once(t);
  }
  if (err < 0) fs_target_say(t, "cannot be created", err);
  return err;
}

void fs_target_keep(struct fs_target *t, bool mine) {
  struct contents c;
  const bool taken = !t->replace && look(t->path, &c) == 0 && c.manifest; /* another pack has made it meanwhile */
  const char *slash = t->parent[1] != '\0' ? "/" : "", *nodes = fs_pack_nodes != NULL ? " and on the nodes" : "";
  if (taken)
    fs_say(
        "what is packed is in %s%s%s%s: with --force the same command goes on from there; else remove that directory",
        t->parent, slash, t->temp, nodes);
  else if (!mine)
    fs_say("what an interrupted pack has packed is in %s%s%s%s: its own command goes on from there; else remove that "
           "directory",
           t->parent, slash, t->temp, nodes);
  else
    fs_say("what is packed is in %s%s%s%s: the same command goes on from there; with --restart it begins anew",
           t->parent, slash, t->temp, nodes);
  t->temp[0] = '\0';
  fs_target_discard(t);
}

void fs_target_discard(struct fs_target *t) {
  if (t->temp[0] != '\0') remove_flat(t->parent_fd, t->temp);
  if (t->journal_fd >= 0) close(t->journal_fd);
  if (t->temp_fd >= 0) close(t->temp_fd);
  /* Removed last: NFS keeps the directory while its files are open. */
  if (t->temp[0] != '\0') unlinkat(t->parent_fd, t->temp, AT_REMOVEDIR);
  t->temp[0] = '\0';
  t->journal_fd = t->temp_fd = -1;
  t->adopted = false;
}

fs_fd fs_target_file(struct fs_target *t, const char *name) {
  fs_fd fd = fs_sys_openat(t->temp_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) fs_target_say(t, "cannot be written", fd);
  return fd;
}

fs_err fs_target_hash(struct fs_target *t, int fd, uint64_t n, uint64_t *xxh3) {
  fs_err err = fs_prep_hash(fd, 0, n, xxh3);
  if (err < 0 && err != -EINTR) fs_target_say(t, "cannot be read back", err);
  return err;
}

fs_err fs_target_write(struct fs_target *t, const char *name, const void *data, uint64_t n) {
  FS_AUTO_CLOSE int fd = fs_sys_openat(t->temp_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return fd;
  fs_err err = fs_write_full(fd, data, n);
  if (err == 0 && fsync(fd) < 0) err = -errno;
  return err;
}

/*
 * Replaces a dataset if the file system cannot exchange two names (NFS): the old one steps aside
 * under another name. If fs-prepare is killed between the two renames, the next pack restores the
 * name (restore_old).
 */
static fs_err step_aside(struct fs_target *t) {
  char old[sizeof t->temp];
  snprintf(old, sizeof old, ".%.200s.old-%s", t->name, t->temp + strlen(t->temp) - 6);
  if (renameat(t->parent_fd, t->name, t->parent_fd, old) < 0) return -errno;
  if (renameat(t->parent_fd, t->temp, t->parent_fd, t->name) < 0) {
    fs_err err = -errno;
    renameat(t->parent_fd, old, t->parent_fd, t->name);
    return err;
  }
  snprintf(t->temp, sizeof t->temp, "%s", old);
  return 0;
}

static fs_err exchange(struct fs_target *t) {
  if (renameat2(t->parent_fd, t->temp, t->parent_fd, t->name, RENAME_EXCHANGE) == 0) return 0;
  return errno == EINVAL || errno == ENOSYS ? step_aside(t) : -errno;
}

/* Checks that the directory of this name, DATASET's or after the exchange the temporary one, is the
   dataset that is being updated. Returns -ESTALE if it is not. */
static fs_err still_old(const struct fs_target *t, const char *name) {
  struct stat st;
  if (t->old_ino == 0 || (fstatat(t->parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == t->old_ino &&
                          st.st_dev == t->old_dev))
    return 0;
  fs_say("%s: another fs-prepare has replaced it meanwhile; update again", t->path);
  return -ESTALE;
}

static fs_err may_commit(const struct fs_target *t, bool *replace) {
  return may_make(t, t->replace, replace) < 0 ? -EEXIST : still_old(t, t->name);
}

fs_err fs_target_recheck(const struct fs_target *t) {
  bool replace;
  return may_commit(t, &replace);
}

fs_err fs_target_commit(struct fs_target *t) {
  mode_t mask = umask(0);
  umask(mask);
  bool replace = false;
  fs_err err = fchmod(t->temp_fd, 0777 & ~mask) < 0 || fsync(t->temp_fd) < 0 ? -errno : 0;
  if (err == 0 && (err = may_commit(t, &replace)) < 0) return err;
  if (err == 0 && replace) {
    err = exchange(t); /* the old one now has the temporary name and is removed below */
    if (err == 0 && still_old(t, t->temp) < 0) return exchange(t) < 0 ? -EIO : -ESTALE;
  }
  if (err == 0 && !replace && renameat(t->parent_fd, t->temp, t->parent_fd, t->name) < 0)
    err = -errno; /* an empty directory may be there; one with contents is not replaced */
  if (err == 0) unlinkat(t->temp_fd, JOURNAL, 0); /* last: until now it kept others away */
  if (err == 0 && fsync(t->parent_fd) < 0) err = -errno;
  if (err < 0) {
    fs_target_say(t, err == -EBUSY ? "is a mount point; name a directory below it" : "cannot be put in place", err);
    return err;
  }
  if (replace) remove_flat(t->parent_fd, t->temp);
  t->temp[0] = '\0';
  return 0;
}
