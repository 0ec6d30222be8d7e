/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flips one bit of a dataset's files at a time, and then looks at all that is below the mount in a child: an ordinary
 * program, run with the library preloaded. What can be had must be as it was packed, to the last byte.
 *
 *   bitflips [-s] SOURCE MOUNT SECONDS FILE...
 *
 * All eight bits of each byte of an index, a manifest and a partition's header, one of each other byte, in a shuffled
 * order until SECONDS have passed (0: all of them). An error is an answer, but not with -s: another copy is there.
 * ENOENT is none, nor is a death by a signal, nor an hour of thought.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 256, PART_HEADER = 72, LIMIT_S = 20 };
enum { SAME = 0, DETECTED = 10, WRONG = 11 };

struct thing {
  char *path; /* relative; "" is the top */
  struct stat st;
  char *bytes; /* a file's, a symlink's target */
  unsigned children;
};
static struct thing things[MOST];
static unsigned count;
static const char *mount_path;
static bool strict;

static void die(const char *what) {
  perror(what);
  exit(2);
}

/* ---- what there is ---- */

static void note(const char *top, const char *path) {
  char full[PATH_MAX], below[PATH_MAX];
  struct thing *t = &things[count++];
  if (count > MOST) die("too many files");
  t->path = strdup(path);
  snprintf(full, sizeof(full), "%s/%s", top, path);
  if (lstat(full, &t->st) < 0) die(full);
  t->bytes = calloc(1, (size_t)t->st.st_size + 2);
  if (S_ISLNK(t->st.st_mode) && readlink(full, t->bytes, (size_t)t->st.st_size + 1) < 0) die(full);
  if (S_ISREG(t->st.st_mode)) {
    int fd = open(full, O_RDONLY);
    if (fd < 0 || read(fd, t->bytes, (size_t)t->st.st_size + 1) != t->st.st_size) die(full);
    close(fd);
  }
  if (!S_ISDIR(t->st.st_mode)) return;
  DIR *d = opendir(full);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    snprintf(below, sizeof(below), "%s%s%s", path, *path ? "/" : "", e->d_name);
    t->children++;
    note(top, below);
  }
  closedir(d);
}

static const struct thing *find(const char *path) {
  for (unsigned i = 0; i < count; i++)
    if (strcmp(things[i].path, path) == 0) return &things[i];
  return NULL;
}

/* ---- in the child ---- */

static bool detected;

static void wrong(const struct thing *t, const char *what) {
  fprintf(stderr, "bitflips: '%s': %s\n", t->path, what);
  _exit(WRONG);
}

/* A call failed: true, and that is an answer unless something else than the dataset's damage is said. */
static bool failed(const struct thing *t, bool is) {
  if (!is) return false;
  if (errno != EIO && errno != EUCLEAN && errno != EBADMSG) {
    fprintf(stderr, "%s\n", strerror(errno));
    wrong(t, "an error that is none of a damaged file's");
  }
  if (strict) wrong(t, "an error, though another copy is there");
  return detected = true;
}

static void look_at_names(const struct thing *t, const char *full) {
  char below[PATH_MAX];
  unsigned seen = 0;
  DIR *d = opendir(full);
  if (failed(t, !d)) return;
  errno = 0;
  for (struct dirent *e; (e = readdir(d)); errno = 0) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    snprintf(below, sizeof(below), "%s%s%s", t->path, *t->path ? "/" : "", e->d_name);
    const struct thing *child = find(below);
    if (!child) wrong(t, "a name that was never there");
    if (e->d_type != DT_UNKNOWN && e->d_type != IFTODT(child->st.st_mode)) wrong(child, "another type");
    seen++;
  }
  if (!failed(t, errno != 0) && seen != t->children) wrong(t, "names are missing or twice");
  closedir(d);
}

static void look_at_bytes(const struct thing *t, const char *full) {
  static char buf[1 << 20];
  size_t size = (size_t)t->st.st_size;
  int fd = open(full, O_RDONLY);
  if (failed(t, fd < 0)) return;
  for (size_t off = size / 3; off < size; off += size / 3 + 1) { /* pieces, before anything is known of the file */
    ssize_t n = pread(fd, buf, 100, (off_t)off);
    size_t want = size - off < 100 ? size - off : 100;
    if (!failed(t, n < 0) && ((size_t)n > want || n == 0 || memcmp(buf, t->bytes + off, (size_t)n) != 0))
      wrong(t, "a piece of other bytes");
  }
  size_t done = 0;
  for (ssize_t n; (n = read(fd, buf + done, size + 1 - done)) != 0; done += (size_t)n)
    if (failed(t, n < 0) || done + (size_t)n > size) break;
  if (memcmp(buf, t->bytes, done) != 0) wrong(t, "other bytes");
  if (!detected && done != size) wrong(t, "another length");
  char *map = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
  if (map && !failed(t, map == MAP_FAILED)) {
    if (memcmp(map, t->bytes, size) != 0) wrong(t, "other bytes in a mapping");
    munmap(map, size);
  }
  close(fd);
}

static void look_at(unsigned i, ino_t inode[MOST]) {
  const struct thing *t = &things[i];
  char full[PATH_MAX], target[PATH_MAX];
  struct stat st;
  snprintf(full, sizeof(full), "%s%s%s", mount_path, *t->path ? "/" : "", t->path);
  if (failed(t, lstat(full, &st) < 0)) return;
  bool directory = S_ISDIR(t->st.st_mode);
  if (st.st_mode != t->st.st_mode || st.st_nlink != t->st.st_nlink || (!directory && st.st_size != t->st.st_size) ||
      st.st_mtim.tv_sec != t->st.st_mtim.tv_sec || st.st_mtim.tv_nsec != t->st.st_mtim.tv_nsec)
    wrong(t, "other attributes");
  inode[i] = st.st_ino;
  for (unsigned j = 0; j < i; j++)
    if (inode[j] != 0 && (inode[j] == inode[i]) != (things[j].st.st_ino == t->st.st_ino)) wrong(t, "another inode");
  if (directory) {
    look_at_names(t, full);
  } else if (S_ISREG(t->st.st_mode)) {
    look_at_bytes(t, full);
  } else {
    ssize_t n = readlink(full, target, sizeof(target));
    if (!failed(t, n < 0) && (n != t->st.st_size || memcmp(target, t->bytes, (size_t)n) != 0))
      wrong(t, "another target");
  }
}

static void look(int lines) {
  static ino_t inode[MOST];
  struct stat st;
  dup2(lines, 2);
  alarm(LIMIT_S);
  for (unsigned i = 0; i < count; i++) look_at(i, inode);
  if (detected && (fstat(lines, &st) < 0 || st.st_size == 0)) {
    fprintf(stderr, "bitflips: an error, and nobody said why\n");
    _exit(WRONG);
  }
  _exit(detected ? DETECTED : SAME);
}

/* ---- the flips ---- */

struct file {
  const char *path;
  int fd;
  size_t size;
  bool text; /* every bit counts, everywhere */
  uint64_t first;
  unsigned result[3];
};

static uint64_t flips_of(const struct file *f) {
  return f->text ? 8 * f->size : 8 * PART_HEADER + (f->size - PART_HEADER);
}

static uint64_t next_random(uint64_t *s) {
  *s = *s * 6364136223846793005u + 1442695040888963407u;
  return *s >> 33;
}

static int run_child(int lines) {
  int status;
  if (ftruncate(lines, 0) < 0) die("ftruncate");
  pid_t pid = fork();
  if (pid < 0) die("fork");
  if (pid == 0) look(lines);
  if (waitpid(pid, &status, 0) != pid) die("waitpid");
  return status;
}

/* As a disk does it: the mtime stays. */
static void put_byte(const struct file *f, unsigned char byte, uint64_t at) {
  struct stat st;
  if (fstat(f->fd, &st) < 0 || pwrite(f->fd, &byte, 1, (off_t)at) != 1 ||
      futimens(f->fd, (struct timespec[2]){st.st_atim, st.st_mtim}) < 0)
    die(f->path);
}

static bool flip(struct file *f, uint64_t n, int lines) {
  uint64_t at = n / 8, bit = n % 8, seed = n * 77 + f->first;
  unsigned char byte, damaged;
  if (!f->text && n >= 8 * PART_HEADER) {
    at = n - 7 * PART_HEADER;
    bit = next_random(&seed) % 8;
  }
  if (pread(f->fd, &byte, 1, (off_t)at) != 1) die(f->path);
  damaged = (unsigned char)(byte ^ 1u << bit);
  put_byte(f, damaged, at);
  int status = run_child(lines);
  put_byte(f, byte, at);
  bool fine = WIFEXITED(status) && (WEXITSTATUS(status) == SAME || WEXITSTATUS(status) == DETECTED);
  f->result[!fine ? 2 : WEXITSTATUS(status) == DETECTED]++;
  if (fine) return true;
  char text[2048];
  ssize_t len = pread(lines, text, sizeof(text), 0);
  printf("%s, byte %llu, bit %llu: %s %d\n%.*s\n", f->path, (unsigned long long)at, (unsigned long long)bit,
         WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
         (int)(len > 0 ? len : 0), text);
  return false;
}

int main(int argc, char **argv) {
  strict = argc > 1 && !strcmp(argv[1], "-s");
  argv += strict;
  argc -= strict;
  if (argc < 5) return 2;
  note(argv[1], "");
  mount_path = argv[2];
  double seconds = strtod(argv[3], NULL);
  unsigned files = (unsigned)argc - 4;
  struct file *f = calloc(files, sizeof(*f));
  uint64_t all = 0, done = 0, bad = 0, seed = 1;
  for (unsigned i = 0; i < files; i++) {
    struct stat st;
    f[i] = (struct file){.path = argv[4 + i], .fd = open(argv[4 + i], O_RDWR | O_CLOEXEC), .first = all};
    if (f[i].fd < 0 || fstat(f[i].fd, &st) < 0) die(f[i].path);
    f[i].size = (size_t)st.st_size;
    f[i].text = strstr(f[i].path, "/part-") == NULL;
    all += flips_of(&f[i]);
  }
  int lines = memfd_create("lines", MFD_CLOEXEC);
  fcntl(lines, F_SETFL, O_APPEND);
  if (run_child(lines) != SAME) {
    char text[2048];
    ssize_t len = pread(lines, text, sizeof(text), 0);
    printf("before any damage: %.*s\n", (int)(len > 0 ? len : 0), text);
    return 1;
  }
  uint32_t *order = malloc(all * sizeof(*order));
  for (uint64_t i = 0; i < all; i++) order[i] = (uint32_t)i;
  for (uint64_t i = all; i > 1; i--) {
    uint64_t j = next_random(&seed) % i;
    uint32_t swap = order[i - 1];
    order[i - 1] = order[j];
    order[j] = swap;
  }
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (; done < all; done++) {
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (seconds > 0 && (double)(now.tv_sec - begin.tv_sec) > seconds) break;
    unsigned i = files - 1;
    while (f[i].first > order[done]) i--;
    bad += !flip(&f[i], order[done] - f[i].first, lines);
    if (bad > 20) break;
  }
  for (unsigned i = 0; i < files; i++)
    printf("%-12s %6u without effect, %6u detected, %u wrong\n", strrchr(f[i].path, '/') + 1, f[i].result[0],
           f[i].result[1], f[i].result[2]);
  printf("%llu of %llu flips\n", (unsigned long long)done, (unsigned long long)all);
  return bad > 0 || done == 0;
}
