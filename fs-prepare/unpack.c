/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fs-prepare unpack: restores the tree. The index is verified first, so names and parents are
 * valid. Everything is created exclusively, below DIR's descriptor, through no symlink. The order
 * is: directories, files (by several threads), hard links and symlinks, then the directories' modes
 * and times, deepest first.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codec/codec.h"
#include "progress.h"

/* What --files says about an entry. A stand-in is a further hard link that is restored as the file,
   because the first link is left out. */
enum { LEFT_OUT, ON_THE_WAY, CHOSEN, STAND_IN };

struct unpack {
  struct fs_dataset ds;
  const char *dir;
  unsigned jobs;
  int root;
  bool setuid; /* also of files */
  struct fs_globs files;
  uint8_t *choice;    /* of each entry; NULL: all are chosen */
  uint32_t *stand_in; /* for the first link of a group: its stand-in, or 0 */
  struct fs_progress progress;
  _Atomic uint64_t cleared;
  _Atomic bool failed;
};

/* Prints one line for the first failure; then the threads stop. */
static void fail(struct unpack *u, uint32_t entry, const char *what, fs_err err) {
  if (atomic_exchange(&u->failed, true)) return;
  FS_AUTO_FREE char *path = fs_dataset_entry_path(&u->ds, entry);
  const char *name = path != NULL ? path : "?";
  if (err == -EBADMSG)
    fs_say("%s: %s is damaged in the dataset; run fs-prepare verify", u->ds.path, name);
  else
    fs_say("%s/%s: %s: %s", u->dir, name, what,
           err == -ENOSPC ? "no space left; free some there, or unpack elsewhere" : strerror(-err));
}

static bool all_zero(const uint8_t *p, size_t n) {
  return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* Reads the stored bytes of a block. Returns -ECANCELED after a line if the partition cannot be
   opened. */
static fs_err read_block(struct unpack *u, const struct fs_block *b, uint8_t *stored) {
  int part = fs_dataset_part(&u->ds, b->partition);
  if (part >= 0) {
    fs_err err = fs_pread_full(part, stored, b->stored_len, b->offset);
    fs_dataset_part_done(&u->ds, b->partition, part);
    return err == -EIO ? -EBADMSG : err;
  }
  if (atomic_exchange(&u->failed, true)) return -ECANCELED;
  char name[FS_PART_NAME_SIZE];
  fs_say("%s/%s: cannot be opened: %s; run fs-prepare verify", u->ds.path, fs_part_name(b->partition, name),
         part == -EUCLEAN ? "no regular file" : strerror(-part));
  return -ECANCELED;
}

/* Memory for the blocks of one file. */
struct room {
  uint8_t *stored, *plain;
  void *work; /* for decoding */
};

/* Writes block i; zeros stay a hole. */
static fs_err write_block(struct unpack *u, uint32_t entry, uint64_t i, int fd, const struct room *room) {
  struct fs_block b;
  fs_err err = fs_index_block(&u->ds.ix, entry, i, &b);
  if (err < 0) return -EBADMSG;
  err = read_block(u, &b, room->stored);
  if (err < 0) return err;
  if (fs_xxh3(room->stored, b.stored_len) != b.xxh3) return -EBADMSG;
  struct fs_codec_set *set = &u->ds.ix.codecs;
  err = fs_block_decode(set, b.codec, room->stored, b.stored_len, room->plain, b.plain_len, room->work);
  if (err == -ENOMEM) return err;
  if (err < 0 || !fs_block_sound(set, b.codec, room->stored, b.stored_len, b.plain_len)) return -EBADMSG;
  u->progress.now.bytes += b.plain_len;
  if (all_zero(room->plain, b.plain_len)) return 0;
  return fs_pwrite_full(fd, room->plain, b.plain_len, i * u->ds.ix.block_size);
}

static fs_err write_contents(struct unpack *u, uint32_t entry, int fd) {
  const struct fs_entry *e = fs_index_entry(&u->ds.ix, entry);
  size_t block = u->ds.ix.block_size;
  uint64_t n = fs_index_block_count(&u->ds.ix, e);
  size_t most = n > 1 ? block : (size_t)e->size;
  bool partial = fs_codec_partial(&u->ds.ix.codecs, FS_NAME_CODEC(e->name));
  FS_AUTO_FREE uint8_t *buf = n != 0 ? malloc(2 * most) : NULL;
  FS_AUTO_FREE void *work = n != 0 && !partial ? fs_dataset_work(&u->ds) : NULL;
  if (n == 0) return 0;
  if (buf == NULL || (work == NULL && !partial)) return -ENOMEM;
  const struct room room = {buf, buf + most, work};
  fs_err err = 0;
  for (uint64_t i = 0; i < n && err == 0; i++) {
    if (atomic_load(&u->failed)) return -ECANCELED;
    err = write_block(u, entry, i, fd, &room);
  }
  if (err == 0 && ftruncate(fd, (off_t)e->size) < 0) err = -errno;
  return err;
}

/* Returns the mode of a restored file, which the caller owns, whoever owned the original. The
   set-ID bits are dropped, like by cp if it cannot keep the owner: they would give the caller's
   rights to all who run the file. */
static mode_t mode_of(struct unpack *u, const struct fs_entry *e) {
  mode_t mode = e->mode & 07777;
  if (u->setuid || !S_ISREG(e->mode) || !(mode & (S_ISUID | S_ISGID))) return mode;
  atomic_fetch_add(&u->cleared, 1);
  return mode & ~(mode_t)(S_ISUID | S_ISGID);
}

static fs_err set_attributes(struct unpack *u, int fd, const struct fs_entry *e) {
  const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                    {.tv_sec = (time_t)e->mtime_sec, .tv_nsec = (long)e->mtime_nsec}};
  if (fchmod(fd, mode_of(u, e)) < 0 || futimens(fd, times) < 0) return -errno;
  return 0;
}

static bool is_chosen(const struct unpack *u, uint32_t entry) {
  return u->choice == NULL || u->choice[entry] != LEFT_OUT;
}

/* Returns true if the entry is restored with its own content, and not as a link to another one. */
static bool is_restored(const struct unpack *u, uint32_t entry) {
  bool further = FS_NAME_FLAGS(u->ds.ix.entries[entry].name) & FS_ENTRY_LINKED;
  return is_chosen(u, entry) && (!further || (u->choice != NULL && u->choice[entry] == STAND_IN));
}

static void make_file(void *ctx, uint64_t i) {
  struct unpack *u = ctx;
  uint32_t entry = (uint32_t)i;
  const struct fs_entry *e = fs_index_entry(&u->ds.ix, entry);
  if (atomic_load(&u->failed) || !S_ISREG(e->mode) || !is_restored(u, entry)) return;
  FS_AUTO_FREE char *path = fs_dataset_entry_path(&u->ds, entry);
  if (path == NULL) {
    fail(u, entry, "cannot be created", -ENOMEM);
    return;
  }
  FS_AUTO_CLOSE int fd = fs_prep_open_beneath(u->root, path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (fd < 0) {
    fail(u, entry, "cannot be created", fd);
    return;
  }
  fs_err err = write_contents(u, entry, fd);
  if (err == 0) err = set_attributes(u, fd, e);
  u->progress.now.files++;
  if (err < 0 && err != -ECANCELED) fail(u, entry, "cannot be written", err);
}

/* Splits a path. Stores a descriptor of its directory, which the caller closes, and returns the
   last component. */
static const char *last_component(struct unpack *u, char *path, int *dirfd) {
  char *slash = strrchr(path, '/');
  if (slash != NULL) *slash = '\0';
  *dirfd = fs_prep_open_beneath(u->root, slash != NULL ? path : ".", O_RDONLY | O_DIRECTORY, 0);
  return slash != NULL ? slash + 1 : path;
}

static fs_err make_dir(struct unpack *u, uint32_t entry) {
  FS_AUTO_FREE char *path = fs_dataset_entry_path(&u->ds, entry);
  FS_AUTO_CLOSE int dir = -1;
  if (path == NULL) return -ENOMEM;
  const char *name = last_component(u, path, &dir);
  if (dir < 0) return dir;
  return mkdirat(dir, name, 0700) < 0 ? -errno : 0;
}

static fs_err make_symlink(struct unpack *u, uint32_t entry) {
  const struct fs_entry *e = fs_index_entry(&u->ds.ix, entry);
  const char *from;
  uint64_t len;
  if (fs_index_target(&u->ds.ix, e, &from, &len) < 0) return -EBADMSG;
  FS_AUTO_FREE char *target = strndup(from, len);
  FS_AUTO_FREE char *path = fs_dataset_entry_path(&u->ds, entry);
  FS_AUTO_CLOSE int dir = -1;
  if (path == NULL || target == NULL) return -ENOMEM;
  const char *name = last_component(u, path, &dir);
  if (dir < 0) return dir;
  const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                    {.tv_sec = (time_t)e->mtime_sec, .tv_nsec = (long)e->mtime_nsec}};
  if (symlinkat(target, dir, name) < 0) return -errno;
  return utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* Links an entry to the first of its group, or to the stand-in. */
static fs_err make_link(struct unpack *u, const struct fs_link_rec *link) {
  if (!is_chosen(u, link->entry) || is_restored(u, link->entry)) return 0;
  uint32_t to = is_chosen(u, link->inode) ? link->inode : u->stand_in[link->inode];
  FS_AUTO_FREE char *path = fs_dataset_entry_path(&u->ds, link->entry);
  FS_AUTO_FREE char *first = fs_dataset_entry_path(&u->ds, to);
  FS_AUTO_CLOSE int dir = -1;
  FS_AUTO_CLOSE int from_dir = -1;
  if (path == NULL || first == NULL) return -ENOMEM;
  const char *name = last_component(u, path, &dir);
  const char *from = last_component(u, first, &from_dir);
  if (dir < 0 || from_dir < 0) return dir < 0 ? dir : from_dir;
  return linkat(from_dir, from, dir, name, 0) < 0 ? -errno : 0;
}

static fs_err finish_dir(struct unpack *u, uint32_t entry) {
  FS_AUTO_FREE char *path = fs_dataset_entry_path(&u->ds, entry);
  if (path == NULL) return -ENOMEM;
  FS_AUTO_CLOSE int fd = fs_prep_open_beneath(u->root, entry == FS_ROOT ? "." : path, O_RDONLY | O_DIRECTORY, 0);
  return fd < 0 ? fd : set_attributes(u, fd, fs_index_entry(&u->ds.ix, entry));
}

static bool done(struct unpack *u, uint32_t entry, const char *what, fs_err err) {
  if (err < 0) fail(u, entry, what, err);
  return err == 0;
}

static bool restore(struct unpack *u) {
  const struct fs_index *ix = &u->ds.ix;
  for (uint64_t i = 1; i < ix->nentries; i++)
    if (S_ISDIR(ix->entries[i].mode) && is_chosen(u, (uint32_t)i) &&
        !done(u, (uint32_t)i, "cannot be created", make_dir(u, (uint32_t)i)))
      return false;
  fs_prep_parallel(u->jobs, ix->nentries, make_file, u);
  if (atomic_load(&u->failed)) return false;
  for (uint64_t i = 1; i < ix->nentries; i++)
    if (S_ISLNK(ix->entries[i].mode) && is_restored(u, (uint32_t)i) &&
        !done(u, (uint32_t)i, "cannot be created", make_symlink(u, (uint32_t)i)))
      return false;
  for (uint64_t i = 0; i < ix->nlinks; i++)
    if (!done(u, ix->links[i].entry, "cannot be linked", make_link(u, &ix->links[i]))) return false;
  for (uint64_t i = ix->nentries; i-- > 0;)
    if (S_ISDIR(ix->entries[i].mode) && is_chosen(u, (uint32_t)i) &&
        !done(u, (uint32_t)i, "mode and time", finish_dir(u, (uint32_t)i)))
      return false;
  return true;
}

/* Marks an entry that a pattern matches, or that lies below such a directory. Counts in hits[] which
   patterns matched. */
static fs_err choose_entry(struct unpack *u, uint32_t entry, uint64_t *hits) {
  char path[PATH_MAX];
  fs_ssize n = fs_index_path(&u->ds.ix, entry, path, sizeof path);
  if (n < 0) return (fs_err)n;
  bool chosen = u->choice[u->ds.ix.entries[entry].parent] == CHOSEN;
  for (size_t g = 0; g < u->files.n; g++) {
    bool hit = fs_glob_match(u->files.glob[g], path);
    hits[g] += hit;
    chosen |= hit;
  }
  u->choice[entry] = chosen ? CHOSEN : LEFT_OUT;
  return 0;
}

/* Chooses the directories on the way to what is chosen, and the stand-ins. */
static void choose_more(struct unpack *u) {
  const struct fs_index *ix = &u->ds.ix;
  for (uint64_t i = ix->nentries; i-- > 1;)
    if (u->choice[i] != LEFT_OUT && u->choice[ix->entries[i].parent] == LEFT_OUT)
      u->choice[ix->entries[i].parent] = ON_THE_WAY;
  u->choice[FS_ROOT] = FS_MAX(u->choice[FS_ROOT], ON_THE_WAY);
  for (uint64_t i = 0; i < ix->nlinks; i++) {
    const struct fs_link_rec *link = &ix->links[i];
    if (!is_chosen(u, link->entry) || is_chosen(u, link->inode) || u->stand_in[link->inode] != 0) continue;
    u->stand_in[link->inode] = link->entry;
    u->choice[link->entry] = STAND_IN;
  }
}

/* Applies --files. Each pattern must match something. Returns a negative errno after one line. */
static fs_err choose(struct unpack *u) {
  const struct fs_index *ix = &u->ds.ix;
  if (u->files.n == 0) return 0;
  FS_AUTO_FREE uint64_t *hits = calloc(u->files.n, sizeof *hits);
  u->choice = calloc(ix->nentries, 1);
  u->stand_in = calloc(ix->nlinks != 0 ? ix->nentries : 1, sizeof *u->stand_in);
  fs_err err = hits == NULL || u->choice == NULL || u->stand_in == NULL ? -ENOMEM : 0;
  for (uint64_t i = 1; i < ix->nentries && err == 0; i++) err = choose_entry(u, (uint32_t)i, hits);
  if (err < 0) {
    fs_say("%s: %s", u->ds.path, strerror(-err));
    return err;
  }
  for (size_t g = 0; g < u->files.n; g++) {
    if (hits[g] != 0) continue;
    fs_say("unpack: --files '%s': matches nothing in the dataset", u->files.glob[g]);
    return -ENOENT;
  }
  choose_more(u);
  return 0;
}

/* Begins the progress with what there is to restore. */
static void begin(struct unpack *u) {
  const struct fs_index *ix = &u->ds.ix;
  uint64_t files = 0, bytes = 0;
  for (uint64_t i = 0; i < ix->nentries; i++) {
    if (!S_ISREG(ix->entries[i].mode) || !is_restored(u, (uint32_t)i)) continue;
    files++;
    bytes += ix->entries[i].size;
  }
  fs_progress_stage(&u->progress, FS_STAGE_UNPACK, files, bytes);
  fs_progress_start(&u->progress, NULL);
}

/* Makes DIR, or opens it if it exists and is empty. */
static fs_err open_target(struct unpack *u) {
  bool made = mkdir(u->dir, 0700) == 0;
  if (!made && errno != EEXIST) {
    fs_say("%s: cannot be created: %s", u->dir, strerror(errno));
    return -errno;
  }
  u->root = fs_sys_openat(AT_FDCWD, u->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  int again = u->root >= 0 ? fs_sys_openat(u->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0) : u->root;
  DIR *dir = again >= 0 ? fdopendir(again) : NULL;
  if (dir == NULL) {
    fs_say("%s: cannot be opened: %s", u->dir, strerror(again < 0 ? -again : ENOMEM));
    return -EINVAL;
  }
  bool empty = true;
  for (struct dirent *d; (d = readdir(dir)) != NULL;) empty &= fs_is_dot(d->d_name);
  closedir(dir);
  if (empty) return 0;
  fs_say("%s: is not empty; name a new directory", u->dir);
  return -ENOTEMPTY;
}

static int unpack(struct unpack *u) {
  char why[512] = "";
  fs_err err = fs_index_verify(&u->ds.ix, why, sizeof why);
  if (err < 0) {
    fs_say("%s/index: %s", u->ds.path, why[0] != '\0' ? why : strerror(-err));
    return FS_EXIT_FAILED;
  }
  if (choose(u) < 0 || open_target(u) < 0) return FS_EXIT_FAILED;
  begin(u);
  bool restored = restore(u);
  fs_progress_stop(&u->progress, restored);
  if (!restored) return FS_EXIT_FAILED;
  if (u->cleared > 0)
    fs_say("set-user-ID and set-group-ID bits of %" PRIu64 " file%s were left out (--setuid restores them)",
           (uint64_t)u->cleared, u->cleared == 1 ? "" : "s");
  return FS_EXIT_OK;
}

enum { OPT_JOBS = FS_OPT_OWN, OPT_SETUID, OPT_FILES };
static const struct fs_opt options[] = {
    {"files", 0, "GLOB", "restore only what matches (repeatable)", OPT_FILES},
    {"jobs", 'j', "N", "number of threads (default: one a CPU)", OPT_JOBS},
    {"setuid", 0, NULL, "restore set-user-ID and set-group-ID bits of files", OPT_SETUID},
    FS_OPT_COMMON,
};

static fs_err set(void *ctx, int id, const char *value) {
  struct unpack *u = ctx;
  if (id == OPT_FILES) return fs_globs_add(&u->files, "unpack", "files", value);
  u->setuid |= id == OPT_SETUID;
  if (id == OPT_SETUID) return 0;
  return id == OPT_JOBS ? fs_prep_jobs(value, &u->jobs) : -EINVAL;
}

int fs_prep_unpack(int argc, char **argv) {
  struct unpack u = {.jobs = fs_sys_cpus(), .root = -1};
  struct fs_prep_cli cli = {.command = "unpack",
                            .synopsis = "[options] DATASET DIR",
                            .about = "Restores the packed tree into DIR, which must not exist or be empty: contents,\n"
                                     "modes, times, symlinks and hard links. Every block is verified.\n"
                                     "A GLOB without '/' is matched against the last component, others against the\n"
                                     "path in the dataset; '*' does not match '/', '**' does. What matches a\n"
                                     "directory holds for all below it.",
                            .opts = options,
                            .nopts = FS_ARRAY_LEN(options),
                            .word_names = {"DATASET", "DIR"},
                            .want = 2,
                            .set = set,
                            .ctx = &u};
  if (fs_prep_parse(&cli, argc, argv) < 0) return FS_EXIT_USAGE;
  if (fs_dataset_open(&u.ds, cli.word[0]) < 0) return FS_EXIT_FAILED;
  u.dir = cli.word[1];
  fs_err err = fs_dataset_need_parts(&u.ds, "copy the files in a job: fs-launch ... -- cp -a MOUNT DIR");
  int status = err < 0 ? FS_EXIT_FAILED : unpack(&u);
  if (u.root >= 0) close(u.root);
  fs_dataset_close(&u.ds);
  fs_globs_free(&u.files);
  free(u.choice);
  free(u.stand_in);
  return status;
}
