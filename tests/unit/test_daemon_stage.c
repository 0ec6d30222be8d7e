/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging: copies that are whole, stamps that fit only the copy they were made for, damage and lack of room at the
 * source and at the target, locks between jobs. On real files below TMPDIR.
 */
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/staging/dir.h"
#include "index/builder.h"

#define PARTS 3u
#define PART_BYTES (9u << 20) /* more than two pieces of a copy */

struct fixture {
  char dir[200], source[240], local[240];
  char why[1024];
  struct fs_stage s;
};

static void put(const char *dir, const char *name, const void *bytes, size_t n) {
  char path[512];
  snprintf(path, sizeof(path), "%s/%s", dir, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, bytes, n), n);
  close(fd);
}

static void make_parts(struct fs_builder *b, char **bytes, struct fs_part_rec *rec) {
  char name[32];
  for (uint32_t p = 0; p < PARTS; p++) {
    uint64_t size = p == 0 ? FS_PART_HEADER_SIZE + FS_ALIGN : PART_BYTES + p * FS_ALIGN;
    bytes[p] = calloc(1, size);
    for (uint64_t i = FS_PART_HEADER_SIZE; i < size; i += 64) memcpy(bytes[p] + i, &i, 4), bytes[p][i + 5] = (char)p;
    struct fs_built_block block = {FS_PART_HEADER_SIZE, fs_xxh3(bytes[p] + FS_PART_HEADER_SIZE, 4096), 4096, p};
    snprintf(name, sizeof(name), "file%u", p);
    struct fs_build_file file = {.path = name, .mode = S_IFREG | 0644, .size = 4096, .blocks = &block, .nblocks = 1};
    assert_int_equal(fs_builder_add(b, &file), 0);
    rec[p] =
        (struct fs_part_rec){.size = size, .xxh3 = fs_xxh3(bytes[p] + FS_PART_HEADER_SIZE, size - FS_PART_HEADER_SIZE)};
    assert_int_equal(fs_builder_part(b, &rec[p]), 0);
  }
}

static void make_dataset(const char *dir) {
  struct fs_builder *b = fs_builder_new(FS_BLOCK_SIZE_MIN, FS_ALIGN);
  char *bytes[PARTS], name[FS_PART_NAME_SIZE], text[4096], why[256];
  struct fs_part_rec rec[PARTS];
  struct fs_index ix;
  void *index;
  uint64_t size;
  assert_int_equal(fs_builder_add(b, &(struct fs_build_file){.path = "", .mode = S_IFDIR | 0755}), 0);
  make_parts(b, bytes, rec);
  assert_int_equal(fs_builder_finish(b, &index, &size, why, sizeof(why)), 0);
  fs_builder_free(b);
  assert_int_equal(fs_index_attach(index, size, &ix, NULL, 0), 0);
  for (uint32_t p = 0; p < PARTS; p++) {
    fs_part_header_make(bytes[p], p, &rec[p], ix.hdr->dataset_id);
    put(dir, fs_part_name(p, name), bytes[p], rec[p].size);
    free(bytes[p]);
  }
  struct fs_manifest m = {.version = FS_FORMAT_VERSION,
                          .mount = "/nowhere",
                          .codec = "raw",
                          .block_size = FS_BLOCK_SIZE_MIN,
                          .partitions = PARTS,
                          .files = PARTS,
                          .dirs = 1,
                          .index_size = size,
                          .index_xxh3 = fs_xxh3(index, size)};
  memcpy(m.dataset_id, ix.hdr->dataset_id, 16);
  fs_ssize n = fs_manifest_format(&m, text, sizeof(text));
  assert_true(n > 0);
  put(dir, "index", index, size);
  put(dir, "manifest", text, (size_t)n);
  fs_builder_release(index, size);
}

static int setup(void **state) {
  struct fixture *f = calloc(1, sizeof(*f));
  const char *tmp = getenv("TMPDIR");
  snprintf(f->dir, sizeof(f->dir), "%.150s/fs-stage-XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(f->dir));
  snprintf(f->source, sizeof(f->source), "%s/ds", f->dir);
  snprintf(f->local, sizeof(f->local), "%s/local", f->dir);
  assert_int_equal(mkdir(f->source, 0700), 0);
  make_dataset(f->source);
  f->s.dir_fd = f->s.lock_fd = -1;
  *state = f;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  fs_stage_close(&f->s);
  fs_remove_tree(f->dir);
  free(f);
  return 0;
}

static void start(struct fixture *f, struct fs_stage *s, int node) {
  if (fs_stage_open(s, f->source, f->local, node, f->why, sizeof(f->why)) < 0) fail_msg("%s", f->why);
  if (fs_stage_prepare(s, f->why, sizeof(f->why)) < 0) fail_msg("%s", f->why);
}

static void stage_all(struct fixture *f, struct fs_stage *s) {
  if (fs_stage_index(s, f->why, sizeof(f->why)) < 0) fail_msg("%s", f->why);
  for (uint32_t p = 0; p < PARTS; p++)
    if (fs_stage_partition(s, p, NULL, NULL, NULL, f->why, sizeof(f->why)) < 0) fail_msg("%s", f->why);
}

static unsigned have(const struct fs_stage *s) {
  bool had[PARTS];
  unsigned bits = 0;
  fs_stage_scan(s, had);
  for (unsigned p = 0; p < PARTS; p++) bits |= (unsigned)had[p] << p;
  return bits;
}

static bool same(const struct fixture *f, const char *name) {
  char command[2 * PATH_MAX];
  snprintf(command, sizeof(command), "cmp -s '%s/%s' '%s/%s'", f->source, name, f->s.local, name);
  return system(command) == 0;
}

static unsigned entries(const char *dir) {
  char command[2 * PATH_MAX];
  unsigned n = 0;
  snprintf(command, sizeof(command), "ls -A '%s' | wc -l", dir);
  FILE *p = popen(command, "r");
  assert_int_equal(fscanf(p, "%u", &n), 1);
  pclose(p);
  return n;
}

/* Changes the file at an offset, with its old mtime when `secret`. */
static void flip(const char *dir, const char *name, off_t bit, bool secret) {
  char path[PATH_MAX + 64], byte;
  struct stat st;
  snprintf(path, sizeof(path), "%s/%s", dir, name);
  assert_int_equal(chmod(path, 0600), 0);
  int fd = open(path, O_RDWR);
  assert_true(fd >= 0);
  assert_int_equal(fstat(fd, &st), 0);
  assert_int_equal(pread(fd, &byte, 1, bit / 8), 1);
  byte = (char)(byte ^ 1 << bit % 8);
  assert_int_equal(pwrite(fd, &byte, 1, bit / 8), 1);
  if (secret) assert_int_equal(futimens(fd, (struct timespec[2]){st.st_atim, st.st_mtim}), 0);
  close(fd);
}

/* As a backup that is put back: another file of the same name, size and mtime. */
static void replace(const char *dir, const char *name) {
  char command[4 * PATH_MAX];
  snprintf(command, sizeof(command), "cd '%s' && cp -p '%s' .back && mv .back '%s'", dir, name, name);
  assert_int_equal(system(command), 0);
}

static bool refuses_writing(const struct fixture *f, const char *name) {
  char path[PATH_MAX + 64];
  struct stat st;
  snprintf(path, sizeof(path), "%s/%s", f->s.local, name);
  return stat(path, &st) == 0 && st.st_mode == (S_IFREG | 0400);
}

static void copies_and_reuses(void **state) {
  struct fixture *f = *state;
  start(f, &f->s, -1);
  assert_non_null(strstr(f->s.local, "/local/fanstore/"));
  assert_int_equal(have(&f->s), 0);
  stage_all(f, &f->s);
  assert_int_equal(have(&f->s), 7);
  assert_true(same(f, "index") && same(f, "part-00000") && same(f, "part-00001") && same(f, "part-00002"));
  assert_int_equal(f->s.index.nparts, PARTS);
  assert_true(refuses_writing(f, "index") && refuses_writing(f, "part-00000"));
  fs_stage_close(&f->s);
  char away[300];
  snprintf(away, sizeof(away), "%s/part-00001", f->source);
  assert_int_equal(unlink(away), 0); /* what is staged is not asked for again */
  start(f, &f->s, -1);
  assert_int_equal(have(&f->s), 7);
  stage_all(f, &f->s);
}

static void emulated_nodes_are_apart(void **state) {
  struct fixture *f = *state;
  struct fs_stage other;
  start(f, &f->s, 0);
  start(f, &other, 1);
  assert_non_null(strstr(other.local, "/local/fanstore-node1/"));
  assert_int_equal(fs_stage_partition(&f->s, 0, NULL, NULL, NULL, f->why, sizeof(f->why)), 0);
  assert_int_equal(have(&f->s), 1);
  assert_int_equal(have(&other), 0);
  fs_stage_close(&other);
}

/* A copy that was written to, replaced or truncated is not trusted; one that only lost its stamp is read and kept. */
static void stamps_fit_only_their_copy(void **state) {
  struct fixture *f = *state;
  char path[PATH_MAX + 64];
  struct stat before, after;
  start(f, &f->s, -1);
  stage_all(f, &f->s);
  flip(f->s.local, "part-00001", 40000, false);
  assert_int_equal(have(&f->s), 5);
  snprintf(path, sizeof(path), "%s/part-00002.stamp", f->s.local);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(have(&f->s), 1);
  snprintf(path, sizeof(path), "%s/part-00000.stamp", f->s.local);
  assert_int_equal(stat(path, &before), 0);
  for (off_t bit = 0; bit < 8 * before.st_size; bit++) { /* flipped, and back */
    flip(f->s.local, "part-00000.stamp", bit, true);
    assert_int_equal(have(&f->s), 0);
    flip(f->s.local, "part-00000.stamp", bit, true);
    assert_int_equal(have(&f->s), 1);
  }
  flip(f->s.local, "part-00000.stamp", 320, true);
  snprintf(path, sizeof(path), "%s/part-00002", f->s.local);
  assert_int_equal(stat(path, &before), 0);
  stage_all(f, &f->s);
  assert_int_equal(have(&f->s), 7);
  assert_int_equal(stat(path, &after), 0);
  assert_int_equal(before.st_ino, after.st_ino);
  assert_true(same(f, "part-00000") && same(f, "part-00001") && same(f, "part-00002"));
  replace(f->s.local, "part-00002");
  assert_int_equal(have(&f->s), 3);
  stage_all(f, &f->s);
  assert_int_equal(chmod(path, 0600), 0);
  assert_int_equal(truncate(path, 100), 0);
  assert_int_equal(have(&f->s), 3);
  stage_all(f, &f->s);
  assert_true(same(f, "part-00002"));
}

/* Whoever owns a file can write to it. */
static void another_users_copy_is_not_trusted(void **state) {
  struct fixture *f = *state;
  char path[PATH_MAX + 64];
  struct stat st;
  if (geteuid() != 0) skip(); /* only root can make one */
  start(f, &f->s, -1);
  stage_all(f, &f->s);
  snprintf(path, sizeof(path), "%s/part-00001", f->s.local);
  assert_int_equal(chown(path, 65534, 65534), 0);
  assert_int_equal(have(&f->s), 5);
  stage_all(f, &f->s);
  assert_int_equal(have(&f->s), 7);
  assert_true(stat(path, &st) == 0 && st.st_uid == 0);
}

/* Nothing is staged in a directory of somebody else's, who could put other files there. */
static void another_users_directory_is_refused(void **state) {
  struct fixture *f = *state;
  const char *const below[] = {"", "/fanstore"};
  char path[PATH_MAX];
  if (geteuid() != 0) skip(); /* only root can make one */
  start(f, &f->s, -1);
  fs_stage_close(&f->s);
  for (size_t i = 0; i < FS_ARRAY_LEN(below); i++) {
    snprintf(path, sizeof(path), "%s%s", f->local, below[i]);
    assert_int_equal(chown(path, 65534, 65534), 0);
    assert_int_equal(fs_stage_open(&f->s, f->source, f->local, -1, f->why, sizeof(f->why)), 0);
    assert_int_equal(fs_stage_prepare(&f->s, f->why, sizeof(f->why)), -EACCES);
    assert_non_null(strstr(f->why, "belongs to another user"));
    fs_stage_close(&f->s);
    assert_int_equal(chown(path, 0, 0), 0);
  }
}

/* In place of libc's: fails for the file of this name. */
static const char *unsyncable;
int fsync(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof(path) - 1);
  path[n > 0 ? n : 0] = '\0';
  const char *name = strrchr(path, '/');
  if (!unsyncable || !name || strcmp(name + 1, unsyncable) != 0) return (int)syscall(SYS_fsync, fd);
  errno = EIO;
  return -1;
}

/* A copy gets its name, and its stamp, only when it is on the disk. */
static void unsynced_is_not_trusted(void **state) {
  struct fixture *f = *state;
  char path[PATH_MAX + 64];
  struct stat before, after;
  start(f, &f->s, -1);
  unsyncable = ".new-part-00001";
  assert_int_equal(fs_stage_partition(&f->s, 1, NULL, NULL, NULL, f->why, sizeof(f->why)), -EIO);
  assert_int_equal(entries(f->s.local), 2); /* the two locks */
  unsyncable = ".new-part-00001.stamp";
  assert_int_equal(fs_stage_partition(&f->s, 1, NULL, NULL, NULL, f->why, sizeof(f->why)), -EIO);
  assert_int_equal(have(&f->s), 0);
  assert_int_equal(entries(f->s.local), 3); /* and a copy that lacks its stamp */
  snprintf(path, sizeof(path), "%s/part-00001", f->s.local);
  assert_int_equal(stat(path, &before), 0);
  unsyncable = "part-00001";
  assert_int_equal(link(path, strcat(strcpy(f->why, f->dir), "/kept")), 0); /* its inode is not used again */
  assert_int_equal(fs_stage_partition(&f->s, 1, NULL, NULL, NULL, f->why, sizeof(f->why)), 0);
  unsyncable = NULL;
  assert_int_equal(have(&f->s), 2);
  assert_int_equal(stat(path, &after), 0);
  assert_true(before.st_ino != after.st_ino);
}

static void bad_source_is_refused(void **state) {
  struct fixture *f = *state;
  char path[300];
  start(f, &f->s, -1);
  flip(f->source, "part-00001", 56 << 20, true);
  assert_int_equal(fs_stage_partition(&f->s, 1, NULL, NULL, NULL, f->why, sizeof(f->why)), -EBADMSG);
  assert_non_null(strstr(f->why, "ds/part-00001: damaged"));
  flip(f->source, "part-00000", 128, true); /* its number, in the header page */
  assert_int_equal(fs_stage_partition(&f->s, 0, NULL, NULL, NULL, f->why, sizeof(f->why)), -EBADMSG);
  assert_non_null(strstr(f->why, "part-00000"));
  snprintf(path, sizeof(path), "%s/part-00002", f->source);
  assert_int_equal(truncate(path, 4096), 0);
  assert_int_equal(fs_stage_partition(&f->s, 2, NULL, NULL, NULL, f->why, sizeof(f->why)), -EBADMSG);
  assert_non_null(strstr(f->why, "truncated"));
  assert_int_equal(unlink(path), 0);
  assert_int_equal(fs_stage_partition(&f->s, 2, NULL, NULL, NULL, f->why, sizeof(f->why)), -ENOENT);
  assert_int_equal(fs_stage_partition(&f->s, 99, NULL, NULL, NULL, f->why, sizeof(f->why)), -EINVAL);
  assert_int_equal(have(&f->s), 0);
  assert_int_equal(entries(f->s.local), 2); /* the two locks */
}

static void bad_index_is_refused(void **state) {
  struct fixture *f = *state;
  struct fs_stage s;
  start(f, &f->s, -1);
  flip(f->source, "index", 4000, true); /* opening does not see it, a copy does */
  assert_int_equal(fs_stage_index(&f->s, f->why, sizeof(f->why)), -EBADMSG);
  assert_non_null(strstr(f->why, "ds/index"));
  assert_int_equal(entries(f->s.local), 2);
  flip(f->source, "index", 160, true);
  assert_true(fs_stage_open(&s, f->source, f->local, -1, f->why, sizeof(f->why)) < 0);
  assert_non_null(strstr(f->why, "ds/index"));
  fs_stage_close(&s);
  assert_int_equal(fs_stage_open(&s, "/nonexistent", f->local, -1, f->why, sizeof(f->why)), -ENOENT);
  fs_stage_close(&s);
}

static fs_err stop_at(void *ctx, uint64_t done) {
  uint64_t *limit = ctx;
  return done >= *limit ? -ECANCELED : 0;
}

static void stopping_leaves_nothing(void **state) {
  struct fixture *f = *state;
  uint64_t limit = 6u << 20;
  start(f, &f->s, -1);
  assert_int_equal(fs_stage_partition(&f->s, 1, NULL, stop_at, &limit, f->why, sizeof(f->why)), -ECANCELED);
  assert_int_equal(entries(f->s.local), 2);
  limit = UINT64_MAX;
  assert_int_equal(fs_stage_partition(&f->s, 1, NULL, stop_at, &limit, f->why, sizeof(f->why)), 0);
}

/* A file size limit stands for a full disk (fallocate and write give EFBIG). */
static void no_room_leaves_nothing(void **state) {
  struct fixture *f = *state;
  start(f, &f->s, -1);
  pid_t pid = fork();
  if (pid == 0) {
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){1u << 20, 1u << 20});
    fs_err err = fs_stage_partition(&f->s, 1, NULL, NULL, NULL, f->why, sizeof(f->why));
    _exit(err == -ENOSPC ? 0 : 1);
  }
  int status;
  assert_true(waitpid(pid, &status, 0) == pid && status == 0);
  assert_int_equal(entries(f->s.local), 2);
}

static fs_err abandon(void *stage, uint64_t done) {
  (void)done, fs_stage_abandon(stage);
  return 0;
}

/* None is there when the process ends. A killed job leaves a fragment: the next one sweeps it and copies anew. */
static void fragments_are_swept(void **state) {
  struct fixture *f = *state;
  start(f, &f->s, -1);
  assert_true(fs_stage_partition(&f->s, 1, NULL, abandon, &f->s, f->why, sizeof(f->why)) < 0);
  assert_int_equal(entries(f->s.local), 2);
  assert_int_equal(fs_stage_partition(&f->s, 1, NULL, NULL, NULL, f->why, sizeof(f->why)), -ECANCELED);
  put(f->s.local, ".new-part-00001", "half", 4);
  fs_stage_close(&f->s);
  start(f, &f->s, -1);
  assert_int_equal(entries(f->s.local), 2);
  put(f->s.local, ".new-part-00001", "half", 4);
  stage_all(f, &f->s);
  assert_true(same(f, "part-00001"));
}

static void two_jobs_at_once(void **state) {
  struct fixture *f = *state;
  pid_t pid[4];
  for (int i = 0; i < 4; i++) {
    pid[i] = fork();
    if (pid[i] != 0) continue;
    struct fs_stage s;
    start(f, &s, -1);
    stage_all(f, &s);
    _exit(have(&s) == 7 ? 0 : 1);
  }
  for (int i = 0; i < 4; i++) {
    int status;
    assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
    assert_int_equal(status, 0);
  }
  start(f, &f->s, -1);
  assert_true(have(&f->s) == 7 && entries(f->s.local) == 2 + 2 * (PARTS + 1));
}

static void purge_spares_what_is_used(void **state) {
  struct fixture *f = *state;
  struct fs_stage other;
  start(f, &f->s, -1);
  stage_all(f, &f->s);
  start(f, &other, -1);
  assert_int_equal(fs_stage_purge(&other), -EBUSY);
  assert_int_equal(have(&f->s), 7);
  assert_int_equal(fs_stage_purge(&f->s), 0);
  assert_int_equal(access(f->s.local, F_OK), -1);
  fs_stage_close(&other);
  fs_stage_close(&f->s);
  start(f, &f->s, -1);
  stage_all(f, &f->s);
}

/* Names in the local directory that are symlinks are not followed; a directory of somebody else is refused. */
static void symlinks_are_not_followed(void **state) {
  struct fixture *f = *state;
  char path[PATH_MAX + 64], victim[256];
  struct stat st;
  snprintf(victim, sizeof(victim), "%s/victim", f->dir);
  put(f->dir, "victim", "precious", 8);
  start(f, &f->s, -1);
  static const char *const names[] = {"part-00001", ".new-part-00001", "part-00001.stamp", ".new-part-00001.stamp"};
  for (size_t i = 0; i < FS_ARRAY_LEN(names); i++) {
    snprintf(path, sizeof(path), "%s/%s", f->s.local, names[i]);
    assert_int_equal(symlink(victim, path), 0);
  }
  stage_all(f, &f->s);
  assert_true(same(f, "part-00001"));
  assert_int_equal(lstat(path, &st), -1);
  assert_true(stat(victim, &st) == 0 && st.st_size == 8);
  fs_stage_close(&f->s);
  snprintf(path, sizeof(path), "%s/fanstore", f->local);
  snprintf(victim, sizeof(victim), "%s/elsewhere", f->dir);
  assert_int_equal(rename(path, victim), 0);
  assert_int_equal(symlink(victim, path), 0);
  assert_int_equal(fs_stage_open(&f->s, f->source, f->local, -1, f->why, sizeof(f->why)), 0);
  assert_true(fs_stage_prepare(&f->s, f->why, sizeof(f->why)) < 0);
}

static void free_bytes(void **state) {
  struct fixture *f = *state;
  char path[300];
  snprintf(path, sizeof(path), "%s/not/yet/there", f->local);
  assert_true(fs_stage_free_bytes(path) > 0);
  assert_int_equal(fs_stage_free_bytes(path) > 0, fs_stage_free_bytes(f->dir) > 0);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(copies_and_reuses),
      TEST(emulated_nodes_are_apart),
      TEST(stamps_fit_only_their_copy),
      TEST(bad_source_is_refused),
      TEST(bad_index_is_refused),
      TEST(stopping_leaves_nothing),
      TEST(no_room_leaves_nothing),
      TEST(fragments_are_swept),
      TEST(two_jobs_at_once),
      TEST(purge_spares_what_is_used),
      TEST(symlinks_are_not_followed),
      TEST(free_bytes),
      TEST(another_users_copy_is_not_trusted),
      TEST(another_users_directory_is_refused),
      TEST(unsynced_is_not_trusted),
  };
  return cmocka_run_group_tests_name("stage", tests, NULL, NULL);
}
