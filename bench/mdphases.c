/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The phases of mdtest, for machines that lack it (bench/mdtest.sh): create, stat, rename and remove
 * directories; create (and write), stat, read and remove files, below a directory that is made and
 * removed. It is an MPI program. It compares what it reads with what was written, and prints
 * operations a second, as mdtest does. With -P it reads files of a dataset, which mdtest cannot: it
 * opens for writing what it reads. The options other than -P are mdtest's:
 *
 *   -C         only create, and leave all there
 *   -P         of files that -C has left: stat, open, read, read again, in random order. Each rank goes
 *              to its own files, and opens them for reading only
 *   -n COUNT      items of each rank and kind
 *   -F, -D        files only, directories only
 *   -u            a tree for each rank
 *   -b, -z        branches of each directory of the tree, its depth
 *   -L            items in the tree's leaves only
 *   -w, -e        bytes written to, read from each file
 *   -N SHIFT      each phase goes to the items of the rank SHIFT further on than the phase before
 *   -d DIRECTORY  where
 */
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpicommon.h"

static struct {
  unsigned long items, branch, depth, shift;
  size_t write, read;
  int files, dirs, unique, leaf, create, packed;
  const char *top;
} o = {.branch = 1, .files = 1, .dirs = 1, .top = "out"};

static int rank, ranks;
static char (*tree)[PATH_MAX];           /* the tree's directories, below its root, parents first */
static unsigned long trees, first, each; /* directories; the first that has items; a rank's items in each of those */
static uint64_t *order;                  /* in which a rank goes to its items */
static char *data, *got;

static int owner;        /* of the items that this phase goes to */
static const char *kind; /* "dir" or "file" */
static void (*operation)(const char *path, uint64_t item);

__attribute__((format(printf, 2, 3))) static void print_path(char *path, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  int n = vsnprintf(path, PATH_MAX, format, ap);
  va_end(ap);
  if (n < 0 || n >= PATH_MAX) fail("a path is too long");
}

static void root_of(char *path, int of) {
  if (o.unique)
    print_path(path, "%s/rank.%d", o.top, of);
  else
    print_path(path, "%s/shared", o.top);
}

static void each_item(void) {
  static char root[PATH_MAX], path[PATH_MAX];
  root_of(root, owner);
  for (unsigned long i = 0; i < each * (trees - first); i++) {
    unsigned long t = first + order[i] / each;
    print_path(path, "%s%s/%s.%d.%lu", root, tree[t], kind, owner, order[i] % each);
    operation(path, first * each + order[i]);
  }
}

static void make_directory(const char *path, uint64_t item) {
  (void)item;
  if (mkdir(path, 0755) != 0) fail("mkdir %s: %s", path, strerror(errno));
}

static void stat_directory(const char *path, uint64_t item) {
  struct stat st;
  (void)item;
  if (stat(path, &st) != 0) fail("stat %s: %s", path, strerror(errno));
  if (!S_ISDIR(st.st_mode)) fail("%s is no directory", path);
}

/* Into the tree's next directory, where there is one, and back. */
static void rename_directory(const char *path, uint64_t item) {
  static char root[PATH_MAX], other[PATH_MAX];
  unsigned long next = first + (item / each - first + 1) % (trees - first);
  root_of(root, owner);
  print_path(other, "%s%s/moved.%d.%lu", root, tree[next], owner, (unsigned long)item);
  if (rename(path, other) != 0) fail("rename %s: %s", path, strerror(errno));
  if (rename(other, path) != 0) fail("rename %s: %s", other, strerror(errno));
}

static void remove_directory(const char *path, uint64_t item) {
  (void)item;
  if (rmdir(path) != 0) fail("rmdir %s: %s", path, strerror(errno));
}

static void create_file(const char *path, uint64_t item) {
  int fd = open(path, O_WRONLY | O_CREAT, 0644);
  if (fd < 0) fail("create %s: %s", path, strerror(errno));
  if (o.write > 0) {
    uint64_t mark = pattern((uint64_t)owner, item);
    memcpy(data, &mark, o.write < 8 ? o.write : 8); /* so that each file is another */
    if (write(fd, data, o.write) != (ssize_t)o.write) fail("write %s: %s", path, strerror(errno));
  }
  if (close(fd) != 0) fail("close %s: %s", path, strerror(errno));
}

static void stat_file(const char *path, uint64_t item) {
  struct stat st;
  (void)item;
  if (stat(path, &st) != 0) fail("stat %s: %s", path, strerror(errno));
  if (!S_ISREG(st.st_mode) || (size_t)st.st_size != o.write)
    fail("%s: mode %o, %lld bytes", path, (unsigned)st.st_mode, (long long)st.st_size);
}

static void read_file(const char *path, uint64_t item) {
  int fd = open(path, O_RDONLY);
  if (fd < 0) fail("open %s: %s", path, strerror(errno));
  if (o.read > 0) {
    uint64_t mark = pattern((uint64_t)owner, item);
    if (read(fd, got, o.read) != (ssize_t)o.read) fail("read %s: %s", path, strerror(errno));
    memcpy(data, &mark, o.read < 8 ? o.read : 8);
    if (memcmp(got, data, o.read) != 0) fail("%s has other bytes than were written", path);
  }
  if (close(fd) != 0) fail("close %s: %s", path, strerror(errno));
}

static void open_file(const char *path, uint64_t item) {
  int fd = open(path, O_RDONLY);
  (void)item;
  if (fd < 0) fail("open %s: %s", path, strerror(errno));
  if (close(fd) != 0) fail("close %s: %s", path, strerror(errno));
}

/* Compares the first bytes only, which no other file has, so that the time is the file system's. */
static void read_packed(const char *path, uint64_t item) {
  int fd = open(path, O_RDONLY);
  uint64_t mark = pattern((uint64_t)owner, item);
  if (fd < 0) fail("open %s: %s", path, strerror(errno));
  if (read(fd, got, o.read) != (ssize_t)o.read) fail("read %s: %s", path, strerror(errno));
  if (memcmp(got, &mark, o.read < 8 ? o.read : 8) != 0) fail("%s has other bytes than were written", path);
  if (close(fd) != 0) fail("close %s: %s", path, strerror(errno));
}

static void remove_file(const char *path, uint64_t item) {
  (void)item;
  if (unlink(path) != 0) fail("unlink %s: %s", path, strerror(errno));
}

/* The step-th phase of a kind, each operation counted `times`. */
static void run(const char *what, void (*of_item)(const char *, uint64_t), unsigned step, unsigned times) {
  owner = (int)(((unsigned long)rank + step * o.shift) % (unsigned long)ranks);
  operation = of_item;
  double seconds = phase(each_item), count = (double)(each * (trees - first)) * ranks * times;
  if (rank == 0) printf("   %-20s %14.3f\n", what, count / seconds);
}

static void make_trees(void) {
  char root[PATH_MAX], path[PATH_MAX];
  if (!o.unique && rank > 0) return;
  root_of(root, rank);
  for (unsigned long t = 0; t < trees; t++) {
    print_path(path, "%s%s", root, tree[t]);
    make_directory(path, t);
  }
}

/* Fails if something is left in them. */
static void remove_trees(void) {
  char root[PATH_MAX], path[PATH_MAX];
  if (!o.unique && rank > 0) return;
  root_of(root, rank);
  for (unsigned long t = trees; t-- > 0;) {
    print_path(path, "%s%s", root, tree[t]);
    remove_directory(path, t);
  }
}

static void plan_order(unsigned long count) {
  uint64_t x = 88172645463325252u + (uint64_t)rank;
  order = calloc(count, sizeof(*order));
  if (!order) fail("memory");
  for (unsigned long i = 0; i < count; i++) order[i] = i;
  for (unsigned long i = count; o.packed && i-- > 1;) {
    uint64_t j = next_random(&x) % (i + 1), was = order[i];
    order[i] = order[j];
    order[j] = was;
  }
}

static void plan(void) {
  unsigned long level = 1;
  trees = 1;
  for (unsigned long z = 0; z < o.depth; z++) {
    first += level;
    level *= o.branch;
    trees += level;
    if (level > 100000) fail("the tree is too large");
  }
  if (!o.leaf) first = 0;
  each = o.items / (trees - first);
  if (each == 0) fail("-n %lu is less than the tree's %lu directories", o.items, trees - first);
  tree = calloc(trees, sizeof(*tree));
  data = malloc(o.write + o.read + 8);
  got = malloc(o.read + 8);
  if (!tree || !data || !got) fail("memory");
  fill(data, o.write + o.read, 0, 0);
  for (unsigned long t = 1; t < trees; t++) print_path(tree[t], "%s/tree.%lu", tree[(t - 1) / o.branch], t);
  plan_order(each * (trees - first));
}

static void options(int argc, char **argv) {
  for (int c; (c = getopt(argc, argv, "n:FDCPub:z:Lw:e:N:d:")) != -1;) switch (c) {
    case 'n':
      o.items = parse_size(optarg);
      break;
    case 'b':
      o.branch = parse_size(optarg);
      break;
    case 'z':
      o.depth = parse_size(optarg);
      break;
    case 'N':
      o.shift = parse_size(optarg);
      break;
    case 'w':
      o.write = parse_size(optarg);
      break;
    case 'e':
      o.read = parse_size(optarg);
      break;
    case 'd':
      o.top = optarg;
      break;
    case 'F':
      o.dirs = 0;
      break;
    case 'D':
      o.files = 0;
      break;
    case 'C':
      o.create = 1;
      break;
    case 'P':
      o.packed = 1;
      o.dirs = 0;
      break;
    case 'u':
      o.unique = 1;
      break;
    case 'L':
      o.leaf = 1;
      break;
    default:
      fail("see the head of mdphases.c");
    }
  if (optind != argc || o.items == 0 || o.branch == 0 || !(o.files || o.dirs)) fail("see the head of mdphases.c");
  if (o.packed) o.write = o.read;
  if (o.read > o.write) fail("-e is more than -w");
}

static void directory_phases(void) {
  kind = "dir";
  run("Directory creation", make_directory, 0, 1);
  if (o.create) return;
  run("Directory stat", stat_directory, 1, 1);
  run("Directory rename", rename_directory, 1, 2);
  run("Directory removal", remove_directory, 3, 1);
}

static void file_phases(void) {
  kind = "file";
  run("File creation", create_file, 0, 1);
  if (o.create) return;
  run("File stat", stat_file, 1, 1);
  run("File read", read_file, 2, 1);
  run("File removal", remove_file, 3, 1);
}

static void stat_top(void) {
  stat_directory(o.top, 0);
}

/* The first call attaches the process to a node's daemon, untimed. At the end each byte is compared, untimed. */
static void packed_phases(void) {
  kind = "file";
  phase(stat_top);
  run("File stat", stat_file, 0, 1);
  run("File open", open_file, 0, 1);
  run("File first read", read_packed, 0, 1);
  run("File second read", read_packed, 0, 1);
  operation = read_file;
  phase(each_item);
}

static void all_phases(void) {
  if (rank == 0) make_directory(o.top, 0);
  MPI_Barrier(MPI_COMM_WORLD);
  make_trees();
  if (o.dirs) directory_phases();
  if (o.files) file_phases();
  MPI_Barrier(MPI_COMM_WORLD);
  if (o.create) return;
  remove_trees();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) remove_directory(o.top, 0);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  options(argc, argv);
  plan();
  if (o.packed)
    packed_phases();
  else
    all_phases();
  MPI_Finalize();
  return 0;
}
